/* Text to tokens and back: byte-level BPE and SentencePiece over a qsf_vocab.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_TOKENIZER_H
#define QSF_TOKENIZER_H

#include "text/text_span.h"
#include "tokens/vocab.h"

typedef struct qsf_tokenizer qsf_tokenizer;

/* Builds the tables.  v must outlive it.  QSF_E_UNSUPPORTED: an unknown pre-tokenizer, by name. */
qsf_status qsf_tokenizer_new(const qsf_platform *p, const qsf_vocab *v, qsf_tokenizer **out, qsf_error *err);
void       qsf_tokenizer_free(qsf_tokenizer *t);     /* takes NULL */

/* flags: QSF_TOK_*.  *n is the number of ids also if it is above cap (then QSF_E_ARGUMENT, the
 * first cap are written).  Linear in len up to a logarithm, no recursion; memory comes from the
 * platform and is given back. */
qsf_status qsf_tokenizer_encode(const qsf_tokenizer *t, const char *text, size_t len, int flags,
                                int32_t *ids, size_t cap, size_t *n, qsf_error *err);
/* A conversation's text, whose spans tile it: control tokens are found in the template's own spans
 * only, and none reaches over a span's end.  All else is as if the text were encoded whole, so that
 * content without them gets the tokens that its template's author saw.  begin: with the
 * begin-of-text token if the model asks for one. */
qsf_status qsf_tokenizer_encode_chat(const qsf_tokenizer *t, const char *text, size_t len,
                                     const qsf_text_span *spans, size_t n_spans, bool begin, int32_t *ids,
                                     size_t cap, size_t *n, qsf_error *err);
/* See qsf_token_piece. */
size_t  qsf_tokenizer_piece(const qsf_tokenizer *t, int32_t id, bool special, const char **bytes);
bool    qsf_tokenizer_is_end(const qsf_tokenizer *t, int32_t id);
/* The token of exactly this text (control tokens too); -1: none. */
int32_t qsf_tokenizer_find(const qsf_tokenizer *t, const char *text, size_t len);

uint64_t qsf_tokenizer_memory(const qsf_tokenizer *t);     /* bytes of its tables */

#endif
