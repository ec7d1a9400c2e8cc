/* The most likely tokens of each row of logits, and the choice of one of them.
 * SPDX-License-Identifier: MIT
 *
 * First, merge as often as qsf_wgsl_candidates_merges says, last. */
#ifndef QSF_WGSL_CANDIDATES_H
#define QSF_WGSL_CANDIDATES_H

#include "wgsl.h"

enum {
    QSF_WGSL_CANDIDATES = 128,          /* that can be kept of a row, at most */
    QSF_WGSL_RECORD = 4                 /* words before the candidates of a record */
};

typedef enum qsf_wgsl_stage { QSF_WGSL_FIRST, QSF_WGSL_MERGE, QSF_WGSL_LAST } qsf_wgsl_stage;

typedef struct qsf_wgsl_candidates {
    qsf_wgsl_stage stage;
    uint32_t keep;                      /* candidates of a row: 32, 64 or 128 */
    bool     choose;                    /* of QSF_WGSL_LAST: one of them */
    bool     bare;                      /* no sums and no records: only the choice */
} qsf_wgsl_candidates;

/* Modules without candidates have the bare ones alone. */
#if defined(QSF_NO_CANDIDATES)
#  define QSF_WGSL_BARE(bare) true
#else
#  define QSF_WGSL_BARE(bare) (bare)
#endif

/* Binding 0 of all of them. */
typedef struct qsf_wgsl_candidates_numbers {
    uint32_t n, cols;                   /* cols of a row: logits, or pairs; of the last stage all pairs */
    uint32_t x_ld, x_at;                /* floats, of the first stage */
    uint32_t sums;                      /* of the last stage: groups that the first one had */
    float    scale, cap;                /* of the first stage: logits are cap * tanh(scale * x / cap), or */
    uint32_t unused;                    /* with a cap of 0 scale * x */
} qsf_wgsl_candidates_numbers;

/* What happens to a row, in the default order of stages (docs/sampling.md). */
typedef struct qsf_wgsl_rule {
    uint32_t last_at, n_last;           /* accepted tokens in Last; each time that one is there counts */
    uint32_t newest;                    /* 1: so does the row's token in Tokens; 0: not */
    uint32_t top_k;                     /* 0: all that are kept */
    float    repeat, frequency, presence;
    float    scale;                     /* 1 / temperature; 0: the largest logit */
    float    top_p, min_p;              /* 1, 0: off */
    float    draw;                      /* random, in [0, 1) */
    float    unused;
} qsf_wgsl_rule;

/* Columns of a group: `keep` of its 256 invocations have 1024 of them, which fit into the group's
 * memory. */
static inline uint32_t qsf_wgsl_candidates_part(uint32_t keep) { return 256 * (1024 / keep); }
static inline uint32_t qsf_wgsl_candidates_groups(uint32_t keep, uint32_t cols)
{
    const uint32_t part = qsf_wgsl_candidates_part(keep);
    return (cols + part - 1) / part;
}
/* How many merges follow the first stage of a row before the last stage can take all pairs. */
static inline uint32_t qsf_wgsl_candidates_merges(uint32_t keep, uint32_t cols)
{
    uint32_t groups = qsf_wgsl_candidates_groups(keep, cols), n = 0;
    for (; groups * keep > qsf_wgsl_candidates_part(keep); n++)
        groups = qsf_wgsl_candidates_groups(keep, groups * keep);
    return n;
}
static inline uint32_t qsf_wgsl_record_words(uint32_t keep) { return QSF_WGSL_RECORD + 2 * keep; }

/* First: 1: X (floats); 2: written, Pairs (vec2<u32> [n][groups][keep]): the largest logits as
 * integers of the same order, with their columns, largest first, of equals the lower column; the
 * column is UINT32_MAX if there are no more; 3: written, Sums (vec4<u32> [n][groups]): the largest
 * logit (f32), the sum of exponentials relative to it (f32), and the marks of a record.
 * Merge: 1: Pairs; 2: written, fewer of them.
 * Last: 1: Pairs; 2: Sums; 3: written, records: the logarithm of the sum of exponentials of all
 * logits (f32); marks: 1 if one is NaN or infinity, plus 2 if one is -infinity; the number of
 * candidates; the chosen token, or UINT32_MAX; then `keep` pairs of a token and its logit (f32),
 * largest first, without penalties.  With a choice: 4: Rules (qsf_wgsl_rule [n]); 5: written,
 * Tokens (u32 [n]): the row's token before, then the chosen one; 6: Last (u32).
 * Bare: without Sums and records.
 * Workgroups: qsf_wgsl_candidates_groups of the columns (last: 1), n. */
void qsf_wgsl_candidates_text(qsf_wgsl_text *t, const qsf_wgsl_candidates *c);

#endif
