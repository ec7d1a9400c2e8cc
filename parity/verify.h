/* A receipt is run again.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_PARITY_VERIFY_H
#define QSF_PARITY_VERIFY_H

#include "receipt.h"

/* Fills settings and prompts from a checked receipt, so that parity_run repeats the comparison.
 * The caller may pass the prompts if the receipt does not contain them (n > 0); verify_same
 * compares their sums.  Without another engine, the receipt's tokens are used. */
qsf_status verify_settings(yyjson_val *root, parity_settings *set, prompt_list *prompts, qsf_error *err);
/* Compares what came of it with the receipt.
 * QSF_E_CORRUPT: it is not the same.  *to_the_bit: our logits are equal. */
qsf_status verify_same(yyjson_val *root, const prompt_list *prompts, const parity_result *r, bool *to_the_bit,
                       qsf_error *err);

#endif
