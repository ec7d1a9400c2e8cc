/* The pieces of a SentencePiece model.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_SENTENCEPIECE_H
#define QSF_CONVERT_SENTENCEPIECE_H

#include "read/vocab_build.h"

typedef struct spm_info {
    const char *name;           /* of the file, for messages; like the next one it is the caller's */
    bool        shifted;        /* ids are fairseq's: <s> <pad> </s> <unk>, then pieces from the third on */
    bool        unigram, add_dummy_prefix, merge_spaces;
    int32_t     unk, bos, eos, pad;
} spm_info;
/* Unigram's normaliser becomes b->out's. */
qsf_status qsf_spm_read(vocab_build *b, const void *bytes, size_t len, spm_info *info, qsf_error *err);

#endif
