/* A network in floats, which can be run forwards and backwards: see net.c.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_TUNE_NET_H
#define QSF_TUNE_NET_H

#include "layers/rope.h"
#include "read/input.h"
#include "tune/gemm.h"

typedef struct tune_tensor {
    uint32_t unit, kind, rows, cols;    /* a vector has one row */
    float   *w;                         /* [rows][cols] */
    bool     frozen;                    /* its gradient is not needed */
} tune_tensor;

typedef struct tune_net {
    const qsf_platform *platform;
    const qsf_source   *s;              /* whose description and records it is computed by */
    uint32_t            n;
    tune_tensor        *tensors;
    tune_tensor       **of;             /* [n_units][QSF_N_KINDS] of these; NULL: not present */
} tune_net;

/* Sequences, one after another. */
typedef struct tune_batch {
    const int32_t *ids;                 /* [n_rows] */
    uint32_t       n_rows, n_seqs, longest;
    const uint32_t *first;              /* [n_seqs + 1] rows that sequences begin with */
} tune_batch;

/* Whether networks of this description can be run here; the message names what is not supported. */
qsf_status qsf_tune_can(const qsf_source *s, qsf_error *err);
/* With the weights of s's file, or of an input with the same description, of which s's file is a
 * quantised copy.  n must be freed in any case. */
qsf_status qsf_tune_net_load(tune_net *n, const qsf_source *s, qsf_error *err);
qsf_status qsf_tune_net_read(tune_net *n, const qsf_source *s, input *in, qsf_error *err);
void       qsf_tune_net_free(tune_net *n);

static inline tune_tensor *tune_of(const tune_net *n, uint32_t unit, uint32_t kind)
{
    return n->of[(size_t)unit * QSF_N_KINDS + kind];
}
/* The values of a vector, NULL if the network does not have it. */
static inline const float *tune_vector(const tune_net *n, uint32_t unit, uint32_t kind)
{
    const tune_tensor *t = tune_of(n, unit, kind);
    return t ? t->w : NULL;
}
/* The matrix of the head. */
tune_tensor *qsf_tune_head(const tune_net *n);

/* ---- a run ---- */

/* What is kept of a layer from the way forwards, by rows; what is cheap is computed again. */
typedef struct tune_kept {
    float *x, *q, *k, *v;       /* the layer's input; projections before norms and rotation */
    float *att, *o, *x1;        /* sums of values; their projection; the input of the feed-forward's norm */
    float *gate, *up, *f;       /* and what it made */
} tune_kept;

/* Memory for runs of up to `most` rows. */
typedef struct tune_run {
    tune_team  *team;
    uint32_t    most, longest;
    qsf_arena  *arena;
    tune_kept  *kept;           /* [n_layers]; without gradients: all the same */
    float      *last;           /* [most][n_embd] after the last layer */
    float      *hidden;         /* [most][n_embd] after the final norm */
    float      *xn, *h, *d, *dn, *datt, *dq, *dk, *dv, *dh, *dg, *qr, *kr;     /* scratch by rows */
    float      *logits, *wanted;            /* [TUNE_LOGITS][ld_vocab] */
    float      *g, *g_embd;     /* a matrix's gradient; that of a tied head */
    float      *inverse;        /* [most * heads] of norms */
    float      *cos, *sin;      /* [ropes][longest][half] */
    uint32_t   *pos;            /* [most] of the rows of the last forward run */
    double     *kl;             /* [most] */
    size_t      ld_vocab;
} tune_run;

enum { TUNE_LOGITS = 256 };

qsf_status qsf_tune_run_new(tune_run *r, const tune_net *n, tune_team *t, uint32_t most, uint32_t longest,
                            bool backward, qsf_error *err);
void       qsf_tune_run_done(tune_run *r);      /* takes zeros and half-built */
/* Floats that a thread needs for itself. */
size_t     qsf_tune_own(const tune_net *n, uint32_t longest);

#endif
