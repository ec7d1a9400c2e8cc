/* The pieces of a SentencePiece tokenizer.model.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_SENTENCEPIECE_H
#define QSF_CONVERT_SENTENCEPIECE_H

#include "read/vocab_build.h"

typedef struct spm_info { bool add_dummy_prefix; int32_t unk, bos, eos, pad; } spm_info;
qsf_status qsf_spm_read(vocab_build *b, const void *bytes, size_t len, spm_info *info, qsf_error *err);

#endif
