/* A vocabulary in the making: tokens by id, gathered from several files, then handed to a qsf_vocab.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_HF_TOKENIZER_H
#define QSF_CONVERT_HF_TOKENIZER_H

#include "hf.h"

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
    qsf_vocab   *out;
} vocab_build;

qsf_status vocab_build_new(vocab_build *b, const qsf_platform *p, qsf_arena *arena, uint32_t n, qsf_vocab *out, qsf_error *err);
void       vocab_build_free(vocab_build *b);        /* takes an empty one */

/* A token of the base vocabulary.  text must live until vocab_finish.  An id beyond the embedding or used twice is QSF_E_CORRUPT. */
qsf_status vocab_add(vocab_build *b, uint64_t id, const char *text, size_t len, uint8_t type, float score, qsf_error *err);
/* A token added later, which replaces what the id had.  Beyond the embedding a control token is counted and
 * left out. */
qsf_status vocab_add_special(vocab_build *b, uint64_t id, const char *text, size_t len, bool special, qsf_error *err);
/* Builds the hash over all texts there are now. */
qsf_status vocab_index(vocab_build *b, qsf_error *err);
/* The id of the text a + b, -1: none.  Needs the hash. */
int32_t    vocab_find2(const vocab_build *b, const char *a, size_t alen, const char *c, size_t clen);
/* The id of exactly this text among all tokens, by looking at each; -1: none. */
int32_t    vocab_scan(const vocab_build *b, const char *text, size_t len);
/* Texts, types and (with_scores) scores to the qsf_vocab; ids without a token become "[PADn]", unused. */
qsf_status vocab_finish(vocab_build *b, bool with_scores, qsf_error *err);

/* convert/sentencepiece.c: pieces of a tokenizer.model. */
typedef struct spm_info { bool add_dummy_prefix; int32_t unk, bos, eos, pad; } spm_info;
qsf_status spm_read(vocab_build *b, const void *bytes, size_t len, spm_info *info, qsf_error *err);

#ifdef QSF_HAVE_YYJSON
/* convert/hf_bpe.c: model, normalizer, pre-tokenizer and added tokens of a tokenizer.json.  pieces: the vocabulary itself
 * came from a tokenizer.model already, only added tokens are taken. */
qsf_status hf_tokenizer_json(vocab_build *b, yyjson_val *root, bool pieces, qsf_error *err);

/* convert/hf_pretok.c: GGUF's name of a pre-tokenizer.  QSF_E_UNSUPPORTED shows the steps of an unknown one. */
qsf_status hf_pretokenizer(const qsf_platform *p, yyjson_val *pre, bool ignore_merges, char name[32], qsf_error *err);

/* convert/hf_special.c: begin, end and other special tokens, and whether they are added; chat template. */
qsf_status hf_special_tokens(vocab_build *b, yyjson_val *tokenizer, yyjson_val *config, const hf_config *cfg, qsf_error *err);
qsf_status hf_chat_template(vocab_build *b, const char *dir, yyjson_val *config, qsf_error *err);
#endif

#endif
