/* Character sets of Hugging Face's tokenizers library, made by tools/make_hf_sets.py: general
 * categories as runs, sets as first and last characters, and character mappings.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_HF_SET_TABLE_H
#define QSF_CONVERT_HF_SET_TABLE_H

#include "base/base.h"

extern const char qsf_hf_categories[];
extern const uint32_t qsf_hf_n_runs, qsf_hf_run_from[];
extern const uint8_t qsf_hf_run_category[];
extern const uint32_t qsf_hf_n_word, qsf_hf_word[], qsf_hf_n_rust_word, qsf_hf_rust_word[], qsf_hf_n_numeric,
    qsf_hf_numeric[], qsf_hf_n_punct, qsf_hf_punct[], qsf_hf_n_control, qsf_hf_control[], qsf_hf_n_accents,
    qsf_hf_accents[], qsf_hf_n_bert_accents, qsf_hf_bert_accents[];
extern const uint32_t qsf_hf_n_compat, qsf_hf_compat_keys[], qsf_hf_compat_values[], qsf_hf_n_lower,
    qsf_hf_lower_keys[], qsf_hf_lower_values[];
extern const uint16_t qsf_hf_compat_at[], qsf_hf_lower_at[];

#endif
