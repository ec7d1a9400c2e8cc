/* Rows of floats to rows of floats or of codes: norms, activations of feed-forwards, sums.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_WGSL_ROWS_H
#define QSF_WGSL_ROWS_H

#include "wgsl.h"

/* Where a row's values come from. */
typedef enum qsf_wgsl_source {
    QSF_WGSL_FROM_FLOATS,       /* A[n][a_ld] */
    QSF_WGSL_FROM_TWO,          /* f(A) * B, the gate and up of a feed-forward */
    QSF_WGSL_FROM_SHARES,       /* the sum of A[shares][share_ld][a_ld]: what qsf_wgsl_product_rows split */
    QSF_WGSL_FROM_ATTENTION,    /* chunks of attention: attend_wgsl.h */
    QSF_WGSL_FROM_ITSELF,       /* Y, in place: floats are written, and not added */
    QSF_WGSL_FROM_SLOTS         /* the sum of A[n][shares][a_ld], times the weights in Slots: experts */
} qsf_wgsl_source;
typedef enum qsf_wgsl_norm { QSF_WGSL_NO_NORM, QSF_WGSL_RMS_NORM, QSF_WGSL_LAYER_NORM } qsf_wgsl_norm;
/* What is done with values (of A if there are two), before a norm.  XIELU and CLAMP have
 * constants: a, b, beta and eps (qsf_hparams); the limit.  SWIGLU_OAI also changes B. */
typedef enum qsf_wgsl_function {
    QSF_WGSL_UNCHANGED, QSF_WGSL_SILU, QSF_WGSL_GELU, QSF_WGSL_RELU, QSF_WGSL_RELU2, QSF_WGSL_XIELU,
    QSF_WGSL_CLAMP, QSF_WGSL_SWIGLU_OAI,
    QSF_N_WGSL_FUNCTIONS
} qsf_wgsl_function;

/* fn name(x) -> f32. */
void qsf_wgsl_function_text(qsf_wgsl_text *t, const char *name, qsf_wgsl_function f);

typedef struct qsf_wgsl_rows {
    qsf_wgsl_source   source;
    qsf_wgsl_function function;
    qsf_wgsl_norm     norm;
    bool bias;          /* of a layer norm; or, with shares, added to their sum */
    bool bare;          /* the norm has no weights */
    bool sinks;         /* of attention: a score more for each head */
    bool gated;         /* of attention: a head's sums times the sigmoid of its gates */
    bool scaled;        /* at last, times `gain` */
    bool codes, floats; /* what is written: at least one of both */
    bool add;           /* floats are added to those that are there */
    bool flags;         /* a value that is not finite sets a flag, and is not lost in codes: their scale is
                         * infinite then, and products NaN */
} qsf_wgsl_rows;

/* Binding 0.  Then, those that a variant has, in this order: A (floats), B (floats; of attention
 * vec2s; of experts Slots: choice_wgsl.h), weight and bias (floats), sinks (floats), gates (floats:
 * after the columns of each head's query), Flags (u32), X (codes: wgsl.h), Y (floats). */
typedef struct qsf_wgsl_rows_numbers {
    uint32_t n, cols;
    uint32_t a_ld, a_at, b_ld, b_at;    /* floats; from one row to the next, of the first column */
    uint32_t x_ld, y_ld, y_at;          /* x_ld in vec4s, the others in floats */
    float    eps;
    uint32_t shares, share_ld;          /* share_ld in rows */
    /* of attention; room: head_dim of the chunks' rows */
    uint32_t heads, head_dim, chunks, room;
    uint32_t gate_ld;                   /* floats */
    float    gain, of_function[4];
    uint32_t flag;                      /* number in Flags */
} qsf_wgsl_rows_numbers;

/* Workgroups: x: 1 with a norm; else one for 1024 columns, as many as x_ld / 80 rounded up if codes
 * are written, so that the end of a row becomes zeros.  y: rows. */
void qsf_wgsl_rows_text(qsf_wgsl_text *t, const qsf_wgsl_rows *r);

/* For shaders that make codes of their own input: bindings A to sinks; then functions of a
 * workgroup of 256.  load(m, lid, first, step): row m to X, a u32 array with x_ld as above, columns
 * first to first + 1023, and so on by `step` 1024s. */
void qsf_wgsl_rows_sources(qsf_wgsl_text *t, const qsf_wgsl_rows *r);
void qsf_wgsl_rows_load(qsf_wgsl_text *t, const qsf_wgsl_rows *r);

#endif
