/* How far the logits of two engines are from each other, row by row and over all of them.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_PARITY_COMPARE_H
#define QSF_PARITY_COMPARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PARITY_TOP = 5 };

typedef struct parity_top { int32_t id; float logit; } parity_top;

/* One row of both. */
typedef struct parity_row {
    double     cosine, max_difference, mean_difference;
    double     kl;               /* of ours from the other's distribution, in nats */
    double     noise;            /* standard deviation of the differences: what a logit's error is about */
    double     log_sum[2];       /* ours, the other's: logit - log_sum is a log probability */
    parity_top top[2][PARITY_TOP];
} parity_row;

/* false: a logit is infinite or NaN; *which is 0 for ours and 1 for the other's, *at its index. */
bool parity_row_of(const float *ours, const float *other, size_t n, parity_row *out, int *which, size_t *at);

/* Whether two engines that choose different tokens may both be right: each one's margin between
 * the two tokens is within three standard deviations of what the difference of two logits is
 * uncertain by. */
bool parity_is_tie(const parity_row *r, double margin_ours, double margin_other);

/* The first different token. */
typedef struct parity_divergence {
    bool     there, tie;
    size_t   prompt, step;
    double   margin[2];          /* ours: our token's logit over the other's token's; the other's: likewise */
    parity_row row;
} parity_divergence;

typedef struct parity_totals {
    size_t rows, steps, matches, ties, targets;
    size_t forced_matches;       /* steps whose given token is our most likely one */
    double cosine_min;           /* of rows that choose a token: after a prompt, and in each step */
    double cosine_least, cosine_sum;     /* of all rows */
    double max_difference, difference_sum, kl_sum, kl_max;
    double nll[2];               /* of the prompts' tokens, each given those before it; in nats */
    parity_divergence first;
} parity_totals;

void   parity_totals_begin(parity_totals *t);
void   parity_totals_row(parity_totals *t, const parity_row *r);
/* The same row chooses a token. */
void   parity_totals_chosen(parity_totals *t, const parity_row *r);
/* The next token of the prompt, after row r. */
void   parity_totals_target(parity_totals *t, const parity_row *r, float ours, float other);
/* A generated token: whose logits are these rows. */
void   parity_totals_step(parity_totals *t, const parity_row *r, const float *ours, const float *other,
                          size_t prompt, size_t step);
double parity_perplexity(const parity_totals *t, int which);        /* 0: no targets */
double parity_match_rate(const parity_totals *t);                   /* 1 of no steps */

#endif
