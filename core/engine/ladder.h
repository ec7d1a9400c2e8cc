/* What a smaller budget reduces, and in which order.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_LADDER_H
#define QSF_LADDER_H

#include "layers/embedding.h"
#include "layers/head_stream.h"
#include "model/model.h"

/* What a plan gives: the options, and how layers, embedding and head are kept.  It begins as what
 * was asked for. */
typedef struct qsf_grant {
    qsf_context_options o;
    uint32_t n_slots;         /* buffers that layers pass through */
    qsf_embedding_plan embedding;         /* without n_batch */
    qsf_head_stream_plan head;
    bool     tied;            /* the embedding is the head */
    bool     whole;           /* an input is one batch, so the batch is not reduced */
    bool     ctx_given;       /* the caller asked for this context length: it is reduced last */
    bool     may_drop;        /* positions of it, by the attention that they draw */
    bool     can_embd, can_head;          /* stream; tied: both or none */
} qsf_grant;

enum { QSF_LEAST_PART = 1 << 20, QSF_LEAST_KEPT = 32 };     /* bytes of a part of the head; rows kept */

/* One kind of reduction. */
typedef struct qsf_rung {
    /* Takes one step down; false: nothing is left to take. */
    bool (*step)(qsf_grant *g);
    /* Reports what is granted instead of what was asked, if that differs.  NULL: another rung
     * reports it. */
    void (*say)(qsf_plan *plan, const qsf_grant *asked, const qsf_grant *g);
    const char *text;         /* what is reduced */
    const char *loss;         /* what that costs; the cheapest rungs come first */
} qsf_rung;

enum { QSF_N_RUNGS = 17, QSF_RUNG_EMBEDDING = 0 };
extern const qsf_rung qsf_ladder[QSF_N_RUNGS];      /* in the order in which they are applied */

/* Takes the next possible step; false: none remains.  A step lowers some of the values and raises
 * none, so fewer steps never give less of any value. */
bool qsf_ladder_down(qsf_grant *g);
/* Adds what was asked and not granted to plan->reductions. */
void qsf_ladder_say(qsf_plan *plan, const qsf_grant *asked, const qsf_grant *g);
/* Adds one line there.  loss: the answers may differ, not only the speed. */
void qsf_plan_note(qsf_plan *plan, bool loss, const char *fmt, ...) QSF_PRINTF(3, 4);

#endif
