/* What the kinds of drafts that a model makes have in common.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_GUESS_H
#define QSF_GUESS_H

#include "engine/context.h"

/* Rows of a draft's context that wait, at most; sequences whose guesses are computed together;
 * tokens of padding that only one of two vocabularies may have (Qwen 2.5: 151,936 and 152,064). */
enum { GUESS_ROWS = 64, GUESS_GROUP = 32, GUESS_PADDED = 128 };

/* The most likely token; -1: less likely than `sure`, so that it is more often wrong than a row of
 * the model is worth. */
int32_t qsf_guess_pick(const float *logits, uint32_t n_vocab, float sure);
/* The guesses that are computed together: options of the context that makes them. */
uint32_t qsf_guess_rows(const qsf_context_options *o);
uint32_t qsf_guess_group(const qsf_context_options *o);
/* What makes guesses of sequences that share batches of at most `rows` rows. */
typedef struct qsf_guess_maker {
    void    *user;
    uint32_t group, rows;               /* as above */
    /* Whether it can guess; *rows: those that the guess needs first. */
    bool   (*ready)(qsf_guess *g, size_t *rows);
    void   (*together)(void *user, qsf_guess *const *list, size_t n);
} qsf_guess_maker;
/* Makes the guesses that are ready, group by group, each of at most that many rows. */
void qsf_guess_groups(const qsf_guess_maker *m, qsf_guess *list, size_t n);
/* Whether the first n tokens of both are the same.  what: what needs this, "a draft model". */
qsf_status qsf_guess_same_words(const qsf_model *m, const qsf_model *small, uint32_t n, const char *what,
                                qsf_error *err);
/* Notes in *err that the context has failed with st. */
void qsf_guess_failed(const qsf_context *c, qsf_status st, qsf_error *err);

#endif
