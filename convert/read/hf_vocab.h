/* The vocabulary out of the tokenizer files of a Hugging Face directory.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_HF_VOCAB_H
#define QSF_CONVERT_HF_VOCAB_H

#include "read/hf_config.h"
#include "read/input.h"

/* tokenizer.json or tokenizer.model, with what the other files say, to in->vocab of hp.n_vocab
 * tokens. *ignored counts control tokens without a row of the embedding, which no text can reach;
 * any other without one is an error. */
qsf_status qsf_hf_vocab_read(const char *dir, const hf_config *cfg, input *in, uint32_t *ignored,
                             qsf_error *err);

#endif
