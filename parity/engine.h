/* What a comparison needs from an engine: the logits after every token of an input, in order.  The
 * engine is ours, another one from a shared library, or a file of logits recorded earlier.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_PARITY_ENGINE_H
#define QSF_PARITY_ENGINE_H

#include "qsf.h"

/* Most tokens of one call. */
enum { PARITY_ROWS = 16 };

typedef struct parity_engine {
    void       *self;
    uint32_t    n_vocab;
    const char *name;
    /* Begins an input: the i-th prompt, of n tokens with room for more after them. */
    qsf_status (*begin)(void *self, size_t i, const int32_t *ids, size_t n, size_t room, qsf_error *err);
    /* Goes on by n <= PARITY_ROWS tokens: out[n][n_vocab]. */
    qsf_status (*rows)(void *self, const int32_t *ids, size_t n, float *out, qsf_error *err);
} parity_engine;

#if defined(__MINGW32__) && !defined(__clang__)
__attribute__((format(gnu_printf, 3, 4)))
#elif defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
qsf_status parity_fail(qsf_error *err, qsf_status st, const char *format, ...);

#endif
