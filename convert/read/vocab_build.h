/* A vocabulary in the making: tokens by id, gathered from several files, then handed to a
 * qsf_vocab.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_VOCAB_BUILD_H
#define QSF_CONVERT_VOCAB_BUILD_H

#include "base/arena.h"
#include "tokens/vocab.h"

typedef struct vocab_token {
    const char *text;       /* NULL: the id is not used */
    uint32_t    len;
    uint8_t     type;       /* QSF_TOKEN_* */
    float       score;
} vocab_token;

typedef struct vocab_build {
    const qsf_platform *platform;
    qsf_arena   *arena;
    uint32_t     n;         /* ids 0 .. n-1: rows of the embedding */
    vocab_token *tokens;
    uint32_t    *slots;     /* hash of texts: id + 1, 0 free */
    uint32_t     n_slots;
    uint32_t     ignored;   /* control tokens beyond the embedding */
    bool         two_between;       /* two separator tokens between the texts of a pair */
    bool         scores;            /* the model uses the tokens' scores */
    qsf_vocab   *out;
} vocab_build;

qsf_status qsf_vocab_build_new(vocab_build *b, const qsf_platform *p, qsf_arena *arena, uint32_t n,
                               qsf_vocab *out, qsf_error *err);
void       qsf_vocab_build_free(vocab_build *b);        /* takes an empty one */

/* A token of the base vocabulary.  text must live until vocab_finish.  An id beyond the embedding
 * or used twice is QSF_E_CORRUPT. */
qsf_status qsf_vocab_add(vocab_build *b, uint64_t id, const char *text, size_t len, uint8_t type, float score,
                         qsf_error *err);
/* A token added later, which replaces what the id had.  Beyond the
 * embedding a control token is counted and left out. */
qsf_status qsf_vocab_add_special(vocab_build *b, uint64_t id, const char *text, size_t len, bool special,
                                 qsf_error *err);
/* The same, with the text and score unchanged. */
qsf_status qsf_vocab_add_as_is(vocab_build *b, uint64_t id, const char *text, size_t len, bool special,
                               qsf_error *err);
/* Whether a token's text stands for a byte, "<0x41>". */
bool       qsf_vocab_is_byte(const char *text, size_t len);
/* Builds the hash over all texts there are now. */
qsf_status qsf_vocab_index(vocab_build *b, qsf_error *err);
/* The id of the text a + b, -1: none.  Needs the hash. */
int32_t    qsf_vocab_find2(const vocab_build *b, const char *a, size_t alen, const char *c, size_t clen);
/* The id of exactly this text among all tokens, by looking at each; -1: none. */
int32_t    qsf_vocab_scan(const vocab_build *b, const char *text, size_t len);
/* Texts, types and (with_scores) scores to the qsf_vocab; ids
 * without a token become "[PADn]", unused. */
qsf_status qsf_vocab_finish(vocab_build *b, bool with_scores, qsf_error *err);

#endif
