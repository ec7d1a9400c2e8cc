/* A context: the memory, threads and state that run one model.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONTEXT_H
#define QSF_CONTEXT_H

#include "ends.h"
#include "head.h"
#include "kv.h"
#include "loader.h"
#include "model.h"
#include "pool.h"
#include "reserve.h"
#include "rope.h"
#include "thread_count.h"

#include <stdatomic.h>

/* A row of the batch under way. */
typedef struct qsf_batch_row {
    uint32_t seq, pos;
    int32_t  token;
    int32_t  logits;      /* index of its logits, -1: none asked */
} qsf_batch_row;

/* Neighbouring rows of one sequence, whose attention is computed together. */
enum { QSF_ATTENTION_ROWS = 8 };
typedef struct qsf_row_group { uint32_t first, n; } qsf_row_group;

/* Rows that early exit has left on the way (early_exit.c). */
enum { QSF_EXIT_MOST = 7, QSF_EXIT_EVERY = 2 };
typedef struct qsf_exit {
    uint32_t n;                              /* that wait */
    /* of them, the last ones: those that the batch under way has taken along */
    uint32_t joined;
    qsf_batch_row rows[QSF_EXIT_MOST];
    uint32_t layer[QSF_EXIT_MOST];           /* each one's next */
    bool     checked;                        /* the batch under way has a state to compare with */
    bool     left;                           /* and has left the others for the last layers */
} qsf_exit;
/* Most rows that are computed together. */
static inline uint32_t qsf_rows_most(const qsf_context_options *o)
{
    return o->n_batch + (o->early_exit > 0 ? QSF_EXIT_MOST : 0);
}

/* What forward.c and attention.c compute in.  Leading dimensions are padded to whole tiles.
 * qsf_rows_most rows each unless said. */
typedef struct qsf_buffers {
    float *x;             /* [rows][n_embd] the residual stream */
    float *xn;            /* [rows][n_embd] normed */
    float *tmp;           /* [rows][ld_embd] output of a projection */
    float *q, *k, *v;     /* [rows][ld_q], [rows][ld_kv] */
    float *att;           /* [rows][ld_q] */
    float *gate, *up;     /* [rows][ld_ff] */
    float *logits;        /* [n_logits][ld_vocab] */
    float *exit_x;        /* [QSF_EXIT_MOST][ld_embd] of rows that early exit has left, NULL without it */
    float *exit_last;     /* [ld_embd] at the last check */
    float *cos[2], *sin[2];      /* [rows][half], global and local */
    /* [threads][16][max cols] rows of weights as floats, or what the kernels of half floats need */
    float *strip;
    float *attention;     /* [threads][qsf_attention_scratch] */
    float *heat;          /* [threads][qsf_heat_floats], see kv_heat.c */
    float *bias_back;     /* [blocks of the context][2][half], and */
    /* [QSF_KV_BLOCK][2][half] halves: see key_bias.c; NULL where keys keep their bias */
    uint16_t *bias_steps;
    qsf_act act;          /* [rows][max cols] */
    size_t ld_embd, ld_q, ld_kv, ld_ff, ld_vocab, max_cols;
} qsf_buffers;

struct qsf_context {
    qsf_model     *model;
    const qsf_platform *platform;
    const qsf_hparams  *hp;
    qsf_kernels    k;
    qsf_pool      *pool;
    qsf_reserve    reserve;          /* the memory of all that follows */
    qsf_loader     loader;
    qsf_ends       ends;
    qsf_head       approx;           /* where the head is not computed whole */
    qsf_kv         kv;
    qsf_rope       rope[2];          /* global, local */
    qsf_buffers    b;
    uint8_t       *buffers;          /* b's memory */
    uint64_t       buffers_bytes;
    qsf_batch_row *rows;
    qsf_row_group *groups;
    uint32_t       n_groups;
    bool           groups_apart;     /* no two of them are of one sequence */
    uint32_t      *old_length;       /* [n_seqs] lengths before the batch, to take it back */
    qsf_context_options o;           /* as granted */
    qsf_plan       plan;
    qsf_stats      stats;
    qsf_error      error;
    bool           f32;
    const char    *io;               /* how the file is read */
    qsf_exit       left;
    qsf_thread_count threads[2];     /* for a single row, and for a few, where layers stream */

    /* the batch under way */
    bool           active;
    uint32_t       n_new;            /* rows that it began with */
    uint32_t       n_rows, n_asked;  /* rows, with those that early exit had left; rows that ask for logits */
    uint32_t       at;               /* 0 embedding, 1 + i layer i, 1 + n_layers + j part j of the head */
    uint64_t       begun_ns;
    uint64_t       waiting_ns;       /* since when the caller waits by itself for bytes, 0: it does not */
    const qsf_weights *w;            /* of the layer being computed */
    /* its place in the KV cache, which has none for layers that quality leaves out */
    uint32_t       kv_layer;
    const qsf_weights *w_embd, *w_final;
    const qsf_matrix  *head;         /* the head, or the part of it whose first row is head_row */
    uint32_t       head_row;
    atomic_bool    not_finite;       /* a row left a layer, or the head, as something that is no number */
};

/* kv_heat.c: where kv_heavy asks for it, the attention that blocks draw. */
/* for a thread; 0: nothing is counted */
size_t qsf_heat_floats(const qsf_hparams *hp, const qsf_context_options *o);
/* What a thread counts of the group under way. */
typedef struct qsf_heat {
    uint64_t *of;         /* [entries] heat of the sequence's blocks; NULL: nothing is counted */
    float   *sums, *tops; /* [vectors][n_blocks] of each step of the online softmax */
    uint32_t n_blocks, entries;
    size_t   vectors;
} qsf_heat;
qsf_heat qsf_heat_begin(const qsf_context *c, uint32_t thread, uint32_t seq, size_t vectors);
/* A step of vector v over entry e: l was its sum before and was scaled by factor;
 * top, sum are those after. */
void   qsf_heat_note(const qsf_heat *h, size_t v, uint32_t e, float l, float factor, float top, float sum);
/* The shares of all steps, for vectors whose softmax is done; m, l: their maxima and sums. */
void   qsf_heat_end(const qsf_heat *h, const float *m, const float *l);
/* Between batches: what the threads have counted goes to the sequences, or (keep false) nowhere. */
void   qsf_heat_collect(qsf_context *c, bool keep);
/* forward.c */
/* Embeds row r of the batch: row `row` of embd, plus its token's centroid where the file has them,
 * plus its position's row of pos (NULL: none). */
void qsf_forward_embed(qsf_context *c, uint32_t r, const qsf_tensor *embd, uint32_t row,
                       const qsf_tensor *pos);
/* The rotary angles of row r of the batch, which embedding it computes too. */
void qsf_forward_angles(qsf_context *c, uint32_t r);
void qsf_forward_layer(qsf_context *c, uint32_t layer, const qsf_weights *w);
/* Logits from head_row on, for the rows that asked.
 * first: applies the final norm, of c->w_final, before. */
void qsf_forward_head(qsf_context *c, const qsf_matrix *head, uint32_t head_row, bool first);
/* y[n][ldy] = tiles `tiles` of m times the n normed rows from the j-th that asked on. */
void qsf_forward_product(const qsf_context *c, const qsf_matrix *m, uint32_t j, uint32_t n, float *y,
                         size_t ldy, qsf_share tiles, uint32_t thread);
/* All tiles of m, which stands for the head from c->head_row on:
 * logits of the first n rows that asked. */
void qsf_forward_logits_run(const qsf_context *c, const qsf_matrix *m, uint32_t n);
/* The same for tiles `tiles`, and n rows from the j-th that asked on: a piece of it. */
void qsf_forward_logits(const qsf_context *c, const qsf_matrix *m, uint32_t j, uint32_t n, qsf_share tiles,
                        uint32_t thread);

/* key_bias.c.  Takes what the rotation leaves in place of a key's bias off x,
 * a rotated key of head_dim. */
void qsf_bias_still(const qsf_context *c, float *x, const float *bias, const qsf_rope *r);
/* Whether keys of this type are stored without the bias that they may have. */
bool qsf_bias_apart(const qsf_hparams *hp, qsf_kv_type type);
/* The bias that keys of this layer and head are stored without, NULL: none. */
const float *qsf_bias_of(const qsf_context *c, uint32_t kv);
/* Fills c->b.bias_back and bias_steps. */
void qsf_bias_init(qsf_context *c);
/* factors[vectors][head_dim] of what the bias adds to the scores of q[vectors][head_dim], which
 * lose their mixture here. */
void qsf_bias_factors(const qsf_context *c, float *factors, float *q, size_t vectors, const float *bias,
                      float scale);
/* Adds it to s[vectors][QSF_KV_BLOCK], scores of n positions of the block at place.  turned:
 * [vectors][head_dim]; work: [vectors][QSF_KV_BLOCK], [head_dim]. */
void qsf_bias_scores(const qsf_context *c, float *s, const float *factors, float *turned, float *work,
                     size_t vectors, uint32_t place, size_t n);

/* early_exit.c */
void qsf_exit_begin(qsf_context *c);
void qsf_exit_join(qsf_context *c, uint32_t layer);
/* The cosine of a and b; 0 where one of them is all zeros. */
double qsf_cosine(const float *a, const float *b, size_t n);
uint32_t qsf_exit_next(qsf_context *c, uint32_t layer, uint32_t next);
void qsf_exit_end(qsf_context *c);
void qsf_exit_truncate(qsf_context *c, uint32_t s, uint32_t n);
/* Whether the first n positions of s are computed to the end. */
qsf_status qsf_exit_check(const qsf_context *c, uint32_t s, uint32_t n, qsf_error *err);
/* Finds neighbouring rows of one sequence; context.c. */
void qsf_batch_group(qsf_context *c);

/* Lays the buffers out from base (NULL: only counts) and returns their bytes; context.c. */
uint64_t qsf_buffers_layout(qsf_buffers *b, uint8_t *base, const qsf_hparams *hp,
                            const qsf_context_options *o, bool needs_strip);

/* How the memory is spent; plan.c. */
typedef struct qsf_memory {
    uint32_t n_slots;
    uint64_t *caps;       /* [n_units + 2] bytes of each slot */
    int32_t  *pins;       /* [n_units + 2] unit, or -1 */
    uint64_t stored, raw; /* staging */
    uint32_t n_stages;    /* buffers of stored bytes each */
    uint64_t reserve;     /* all that the context takes for its life but itself and the threads */
    qsf_ends_plan ends;   /* what of embedding and head is seen through windows */
} qsf_memory;
/* Sizes everything for o->ram_budget and changes o to what was granted.  m->caps and m->pins are
 * the caller's, with room for n_units + 2.  ctx_given: the caller asked for o->n_ctx, so it is the
 * last to give way.  QSF_E_BUDGET says the smallest budget that works. */
qsf_status qsf_plan_make(const qsf_model *model, qsf_context_options *o, bool ctx_given, qsf_memory *m,
                         qsf_plan *plan, qsf_error *err);
/* Tells the log what the plan reduced. */
void       qsf_plan_log(const qsf_model *model, const qsf_plan *plan, const qsf_context_options *o);

#endif
