/* The operations of a step: what they are called, what they multiply, what they and their kernels
 * have taken.  Statistics, totals and records (recorder.h) all come from here.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_OPERATION_H
#define QSF_OPERATION_H

#include "weights/weights.h"

#include <stdatomic.h>

/* In the order of a step; a new one is also a row in operation.c. */
typedef enum qsf_op {
    QSF_OP_EMBEDDING, QSF_OP_MTP,
    QSF_OP_ATTN_NORM, QSF_OP_QKV, QSF_OP_LATENT, QSF_OP_PLACE, QSF_OP_LATENT_QUERIES, QSF_OP_LATENT_HEADS,
    QSF_OP_ATTENTION, QSF_OP_ATTN_CODES, QSF_OP_ATTN_OUT,
    QSF_OP_MIX_IN, QSF_OP_MIX, QSF_OP_MIX_X, QSF_OP_MIX_STEP, QSF_OP_MIX_CODES, QSF_OP_MIX_OUT,
    QSF_OP_FFN_NORM, QSF_OP_ROUTER, QSF_OP_ROUTER_CHOICE, QSF_OP_EXPERT_ROWS, QSF_OP_EXPERT_UP,
    QSF_OP_EXPERT_CODES, QSF_OP_EXPERT_DOWN, QSF_OP_EXPERT_SUM, QSF_OP_EXPERTS_IN, QSF_OP_EXPERTS_OUT,
    QSF_OP_FFN_UP, QSF_OP_FFN_CODES, QSF_OP_FFN_DOWN, QSF_OP_RESIDUAL,
    QSF_OP_ALTUP, QSF_OP_LAYER_CODES, QSF_OP_LAYER_EMBD, QSF_OP_LAYER_GATE, QSF_OP_LAYER_OUT,
    QSF_OP_HEAD_NORM, QSF_OP_HEAD_MAKE, QSF_OP_HEAD_SCREEN, QSF_OP_HEAD_CHOOSE, QSF_OP_HEAD,
    QSF_N_OPS
} qsf_op;

/* Which of the statistics an operation counts for. */
typedef enum qsf_op_use {
    QSF_OP_MATMUL, QSF_OP_ATTEND, QSF_OP_OTHER, QSF_OP_TO_HEAD, QSF_OP_APART
} qsf_op_use;

enum { QSF_OP_PRODUCTS = 4 };   /* matrices of one operation */

typedef struct qsf_op_row {
    const char *name;           /* released names never change */
    uint8_t     use;            /* qsf_op_use */
} qsf_op_row;
extern const qsf_op_row qsf_ops[QSF_N_OPS];

/* A matrix, or its first `rows` rows, times n rows of the batch. */
typedef struct qsf_product {
    const qsf_matrix *m;
    uint32_t          rows, n;
    uint32_t          kernel;   /* qsf_product_kernel; set when it is counted */
} qsf_product;

/* An operation that the pool's threads share. */
typedef struct qsf_op_run {
    qsf_op    op;
    uint64_t  begin;            /* when the time that it accounts for began */
    uint32_t  n_pieces, size;   /* as qsf_pool_run has them */
    void    (*fn)(void *arg, uint32_t thread, uint32_t piece);
    void     *arg;
    uint32_t  n_products;
    qsf_product products[QSF_OP_PRODUCTS];
    atomic_uint *tiles;         /* if only the pieces know how many rows products[0] has: they add them
                                 * up here; else NULL */
} qsf_op_run;

/* Kernels of products: of forms, then of floats. */
enum { QSF_KERNEL_F32 = QSF_N_FORMS, QSF_KERNEL_F16, QSF_KERNEL_BF16,
       QSF_KERNEL_UNPACKED,     /* rows of other types are made floats first */
       QSF_KERNEL_LUT_T2, QSF_KERNEL_LUT_QK256,     /* one row, looked up; several take the form's kernel */
       QSF_N_KERNELS };

typedef struct qsf_kernel_count { uint64_t products, rows, bytes; } qsf_kernel_count;
typedef struct qsf_op_count { uint64_t times, ns; } qsf_op_count;

/* What a context has done. */
typedef struct qsf_account {
    qsf_op_count     ops[QSF_N_OPS];
    qsf_kernel_count kernels[QSF_N_KERNELS][2];     /* [1]: more than one row of the batch, and floats */
} qsf_account;

/* Bytes of weights that a product uses. */
uint64_t qsf_product_bytes(const qsf_product *p);
/* Whether a kernel for several rows does it. */
static inline bool qsf_kernel_floats(uint32_t kernel)
{
    return kernel >= QSF_N_FORMS && kernel < QSF_KERNEL_LUT_T2;
}
static inline bool qsf_product_many(const qsf_product *p) { return p->n > 1 || qsf_kernel_floats(p->kernel); }
void     qsf_account_product(qsf_account *a, const qsf_product *p);
void     qsf_account_op(qsf_account *a, qsf_op op, uint64_t ns);
uint64_t qsf_account_ns(const qsf_account *a, qsf_op_use use);
/* The name of a product's kernel: "4bit_s_matvec_avx2" (docs/tracing.md). */
enum { QSF_KERNEL_ID = 48 };
void     qsf_product_kernel_id(const qsf_kernels *k, uint32_t kernel, bool many, char out[QSF_KERNEL_ID]);

#endif
