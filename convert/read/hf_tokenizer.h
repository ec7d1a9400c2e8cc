/* The tokenizer files of a Hugging Face directory, each read into a vocabulary in the making.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_HF_TOKENIZER_H
#define QSF_CONVERT_HF_TOKENIZER_H

#include "read/hf_config.h"
#include "read/vocab_build.h"

#ifdef QSF_HAVE_YYJSON
/* hf_bpe.c: model, normalizer, pre-tokenizer and added tokens of a tokenizer.json.  pieces: the
 * vocabulary itself came from a tokenizer.model already, only added tokens are taken.  marks: as in
 * hf_bpe.c's bpe_model. */
qsf_status qsf_hf_tokenizer_json(vocab_build *b, yyjson_val *root, bool pieces, const char *marks,
                                 qsf_error *err);

/* hf_steps.c: stores the whole file as steps.  pre: its pre-tokenizer's name in GGUF, "" if
 * unnamed. */
qsf_status qsf_hf_steps(vocab_build *b, yyjson_val *root, const char *pre, qsf_error *err);
/* hf_choose.c: whether the file matches a built-in tokenizer.  pre: its pre-tokenizer's name in
 * GGUF, "" if unnamed.  qsf_hf_is_spm: whether the merges are those that SentencePiece derives from
 * the tokens. */
qsf_status qsf_hf_by_name(const qsf_platform *p, yyjson_val *root, const char *marks, bool *named,
                          char pre[32], qsf_error *err);
qsf_status qsf_hf_is_spm(vocab_build *b, yyjson_val *model, bool *is, qsf_error *err);
/* hf_merges.c: one merge, "a b" or ["a", "b"], and all merges of a model in order.  spm: they
 * become the tokens' scores, as in SentencePiece.  prefix: marks a piece that continues a word. */
bool       qsf_hf_merge_parts(yyjson_val *v, const char **a, size_t *alen, const char **c, size_t *clen);
qsf_status qsf_hf_merges(vocab_build *b, yyjson_val *model, bool spm, const char *prefix, qsf_error *err);

/* hf_pretok.c: GGUF's name of a pre-tokenizer.
 * QSF_E_UNSUPPORTED shows the steps of an unknown one. */
qsf_status qsf_hf_pretokenizer(const qsf_platform *p, yyjson_val *pre, bool ignore_merges, char name[32],
                               qsf_error *err);

/* hf_special.c: begin, end and other special tokens, and whether they are added; chat template. */
qsf_status qsf_hf_special_tokens(vocab_build *b, yyjson_val *tokenizer, yyjson_val *config,
                                 const hf_config *cfg, qsf_error *err);
qsf_status qsf_hf_chat_template(vocab_build *b, const char *dir, yyjson_val *config, qsf_error *err);
#endif

#endif
