/* Scripts that pre-tokenizers list by their code points.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_PRETOKENIZE_RANGES_H
#define QSF_PRETOKENIZE_RANGES_H

#include "base/base.h"

bool qsf_is_han(uint32_t c);
bool qsf_is_deepseek_letter(uint32_t c);       /* of DeepSeek LLM's second expression */
bool qsf_is_afmoe_script(uint32_t c);          /* of AFMoE's */

#endif
