/* The vocabulary out of the tokenizer files of a Hugging Face directory.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_HF_VOCAB_H
#define QSF_CONVERT_HF_VOCAB_H

#include "read/hf_config.h"
#include "read/input.h"

typedef struct hf_vocab_said {
    uint32_t ignored;       /* control tokens without a row of the embedding, which no text can reach */
    bool     two_between;   /* the texts of a pair have two tokens between them */
} hf_vocab_said;

/* Reads tokenizer.json or tokenizer.model, completed by the other files, into in->vocab of
 * hp.n_vocab tokens.  A token without a row of the embedding is an error unless it is a control
 * token. */
qsf_status qsf_hf_vocab_read(const char *dir, const hf_config *cfg, input *in, hf_vocab_said *said,
                             qsf_error *err);

#endif
