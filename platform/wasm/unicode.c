/* The order in which NFC looks for what composes, made when a module starts: a sorting of the parts
 * that are there anyway.
 * SPDX-License-Identifier: MIT */
#include "wasm.h"

#include "text/unicode.h"

uint16_t qsf_unicode_composed[1024];        /* the table's generator knows that there are fewer */

static uint64_t parts_at(size_t at)
{
    const uint32_t first = qsf_unicode_first_low[at] | (uint32_t)qsf_unicode_first_middle[at] << 8
        | (uint32_t)qsf_unicode_first_high[at] << 16;
    return (uint64_t)first << 32 | qsf_unicode_second[at];
}

void wasm_unicode(void)
{
    const uint16_t *skip = qsf_unicode_single;
    size_t n = 0;
    for (uint32_t at = 0; at < qsf_unicode_run_at[qsf_unicode_n_runs]; at++) {
        if (!qsf_unicode_second[at]) continue;
        if (skip < qsf_unicode_single + QSF_ARRAY_LEN(qsf_unicode_single) && *skip == at) {
            skip++;
            continue;
        }
        size_t to = n++;
        for (; to > 0 && parts_at(qsf_unicode_composed[to - 1]) > parts_at(at); to--)
            qsf_unicode_composed[to] = qsf_unicode_composed[to - 1];
        qsf_unicode_composed[to] = (uint16_t)at;
    }
}
