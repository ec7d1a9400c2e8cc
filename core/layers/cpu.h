/* What the CPU computes a context's batches with: the same for every layer and the head.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CPU_H
#define QSF_CPU_H

#include "base/pool.h"
#include "layers/key_bias.h"
#include "layers/kv.h"
#include "layers/kv_attention.h"
#include "layers/recorder.h"
#include "layers/reducer.h"
#include "layers/rope.h"
#include "layers/state.h"
#include "layers/watch.h"
#include "weights/experts.h"

#include <stdatomic.h>

/* The step (step.c) fills it for each stage of a batch.  All of it is output, too, except what is
 * const. */
typedef struct qsf_cpu {
    const qsf_platform *platform;       /* for the time */
    qsf_pool           *pool;
    const qsf_rope     *ropes;          /* [n_ropes] their tables are output */
    uint32_t            n_ropes;
    const qsf_kv       *kv;             /* its bytes are output */
    const qsf_kv_seq   *seqs;           /* the block tables of sequences */
    const qsf_state    *state;          /* its bytes are output; NULL: no layer of the model has any */
    const qsf_key_bias *key_bias;
    const qsf_kv_attention *kv_attention;       /* its counts are output */
    qsf_experts        *experts;        /* NULL: a layer's weights have them */
    qsf_expert_walk    *walk;           /* through these; not without them */
    qsf_account        *account;        /* the time that operations take */
    qsf_recorder       *recorder;       /* NULL: nothing is recorded */
    atomic_bool        *not_finite;     /* a layer's or the head's result has a NaN or an infinity */
    const struct qsf_lora *lora;        /* NULL: no sequence has adapters */
    const struct qsf_lora_room *lora_room;      /* its numbers are output */
    const qsf_watch    *watch;          /* NULL: not watched */
    qsf_reducer        *reducer;        /* of shares of layers */
} qsf_cpu;

#endif
