/* Matrices that are already ternary: their codes and their scale are copied unchanged.
 * SPDX-License-Identifier: MIT
 *
 * Each of BitNet's matrices holds only -s, 0 and s for a single s, whatever type the file stores
 * them in: floats, TQ1_0, TQ2_0, I2_S, packed bytes.  A quantiser would have to search for s and
 * find it only roughly; looking at the values gives it exactly. */
#include "plan/ternary.h"

#include <math.h>

/* Takes n values; false: more than one magnitude. */
static bool ternary_same(const float *w, size_t n, float *scale)
{
    for (size_t i = 0; i < n; i++) {
        const float size = fabsf(w[i]);
        if (size == 0) continue;
        if (*scale == 0) *scale = size;
        if (size != *scale || !(size <= FLT_MAX)) return false;
    }
    return true;
}

qsf_status qsf_conv_ternary_scale(input *in, uint32_t i, uint32_t band, float *scale, qsf_error *err)
{
    const input_tensor *t = &in->tensors[i];
    const uint64_t bytes = (uint64_t)band * t->cols * sizeof(float);
    float *w = qsf_alloc(in->platform, bytes, "a band of weights", err);
    qsf_status st = w ? QSF_OK : QSF_E_MEMORY;
    bool same = true;
    *scale = 0;
    /* The first row already rules out nearly all others. */
    for (uint32_t row = 0, n = 1; row < t->rows && same && !st; row += n, n = QSF_MIN(band, t->rows - row))
        if (!(st = in->read(in, i, row, n, w, err))) same = ternary_same(w, (size_t)n * t->cols, scale);
    qsf_dealloc(in->platform, w, bytes);
    *scale = !same || st ? 0 : *scale == 0 ? 1 : *scale;
    return st;
}

qsf_status qsf_conv_ternary_row(uint32_t type, const float *w, uint32_t cols, uint8_t *dst,
                                qsf_quant_error *e, qsf_error *err)
{
    const uint32_t each = qsf_block_bytes(type, QSF_MAX_BLOCK);
    for (uint32_t at = 0; at < cols; at += QSF_MAX_BLOCK, dst += each) {
        uint8_t codes[QSF_MAX_BLOCK];
        const uint32_t n = QSF_MIN(cols - at, (uint32_t)QSF_MAX_BLOCK);
        memset(codes, 1, sizeof codes);
        for (uint32_t j = 0; j < n; j++) {
            const float v = w[at + j];
            if (v != -1 && v != 0 && v != 1)
                return qsf_fail(err, QSF_E_CORRUPT, "column %u is %g of its scale, which is not ternary",
                                (unsigned)(at + j), (double)v);
            codes[j] = (uint8_t)(v + 1);
            if (e) e->sum_sq += v * v, e->dot += v * v, e->deq_sq += v * v;
        }
        qsf_block_put_codes(dst, type, QSF_MAX_BLOCK, codes);
    }
    return QSF_OK;
}
