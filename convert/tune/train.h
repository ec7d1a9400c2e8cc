/* What tuning changes of a network, and how: see train.c.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_TUNE_TRAIN_H
#define QSF_TUNE_TRAIN_H

#include "tune/net.h"

/* State of a tuned tensor.  The network has the values that the codes give to the shadow. */
typedef struct train_tensor {
    float       *shadow;        /* [rows][cols] */
    float       *row, *col;     /* means of squared gradients, of rows and of columns; col: of a vector's */
    float       *momentum;      /* [cols] of a vector's gradients; unused for a matrix */
    float       *energy, *first;        /* [cols] mean squares of inputs, of those at position 0 */
    float       *weight;        /* [cols] in the order of steps: what errors count */
    float       *step;          /* [cols] parts of a matrix's rate */
    uint8_t     *scale;         /* [rows][cols / 64], NULL: a vector */
    tune_levels  levels;
    uint32_t     n_taken;       /* gradients so far */
} train_tensor;

typedef struct train {
    tune_net     *n;
    tune_run     *r;
    qsf_arena    *arena;
    train_tensor *t;            /* [n->n] shadow NULL: frozen */
    /* of this step: parts of a cell, or of a vector's size, for a usual gradient */
    float         rate, vector_rate;
} train;

/* For a network with its file's weights: norms and biases are tuned directly, trellises are tuned
 * through shadow weights if `codes` is set, and everything else is frozen.  k must be freed even
 * after an error. */
qsf_status qsf_train_new(train *k, tune_net *n, bool codes, qsf_error *err);
/* The scales of tensor i, if it is a trellis with these tiles. */
void       qsf_train_scales(train *k, uint32_t i, const uint8_t *tiles);
void       qsf_train_done(train *k);
/* Floats that a thread needs for itself. */
size_t     qsf_train_own(const tune_net *n);
/* The parts of tensor i's state, besides its number of gradients; returns how many there are. */
typedef struct train_part { void *mem; uint64_t bytes; } train_part;
enum { TRAIN_PARTS = 7 };
uint32_t   qsf_train_parts(const train *k, uint32_t i, train_part parts[TRAIN_PARTS]);
/* Takes gradients for a tune_sink; user is the train. */
void       qsf_train_take(void *user, const tune_tensor *t, const float *g, const float *x, size_t rows);
/* Network's weights of tensor i, from its shadow; dst: NULL, or its tiles, zeros before. */
void       qsf_train_values(train *k, uint32_t i, uint8_t *dst);

#endif
