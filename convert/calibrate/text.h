/* The tokens that a calibration runs: see text.c.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_TEXT_H
#define QSF_CONVERT_TEXT_H

#include "engine/context.h"
#include "qsf_convert.h"

typedef struct cal_text {
    const qsf_platform *platform;
    uint32_t  n_seqs, len;      /* len: the longest */
    int32_t  *ids;              /* [n_seqs][len] */
    uint32_t *lens;             /* [n_seqs] */
} cal_text;

/* A number that changes with the text and with how it is cut. */
qsf_status qsf_cal_settings(const qsf_platform *p, const qsf_convert_options *o, uint32_t *crc,
                            qsf_error *err);
/* From a file or from the model itself, as the options ask.  t must be freed in any case. */
qsf_status qsf_cal_text(cal_text *t, qsf_model *m, const qsf_convert_options *o, qsf_error *err);
void       qsf_cal_text_free(cal_text *t);

/* Context positions needed for n_seqs sequences of that length. */
uint32_t   qsf_cal_positions(uint32_t n_seqs, uint32_t len);
/* So many sequences at once of `most`, or as many as a model allows that has learned its positions,
 * or as keep one with other rotary factors for long contexts at those for short ones. */
uint32_t   qsf_cal_seqs(const qsf_model *m, uint32_t most, uint32_t len);

#endif
