/* Table types: levels, and the search for a block's scale.
 * SPDX-License-Identifier: MIT */
#include "tensor/table.h"

/* As differences from the offset. */
#define LEVELS_8 64 - 34, 64 - 19, 64 - 9, 64, 64 + 8, 64 + 17, 64 + 29, 64 + 48
const int8_t qsf_table_levels[2][16] = {
    { 64 - 50, 64 - 38, 64 - 29, 64 - 22, 64 - 16, 64 - 10, 64 - 5, 64, 64 + 5, 64 + 10, 64 + 15, 64 + 21,
      64 + 28, 64 + 36, 64 + 46, 64 + 63 },
    { LEVELS_8, LEVELS_8 },
};
#undef LEVELS_8

uint8_t qsf_table_scale_near(float s)
{
    const float size = fabsf(s);
    const uint8_t sign = s < 0 ? 0x80 : 0;
    if (!(size < qsf_table_scale(127))) return sign | 127;
    /* half a step of an fp16 number's seven bits that a byte has no room for */
    const uint32_t half = qsf_f32_to_f16(size), byte = (half + 64) >> 7;
    return byte ? (uint8_t)(sign | byte) : 0;
}

/* ---- quantising ---- */

enum { TABLE_HALF = 128, TABLE_ALL = 2 * TABLE_HALF };

/* The code nearest to x, at the whole part of 2x: borders between levels lie at halves. */
typedef struct table_nearest { uint8_t code[TABLE_ALL]; } table_nearest;

static void table_nearest_of(table_nearest *k, uint32_t type)
{
    const uint32_t n = 1u << qsf_type_get(type)->bits;
    for (uint32_t i = 0, c = 0; i < TABLE_ALL; i++) {
        while (c + 1 < n
               && (int)i - TABLE_HALF >= qsf_table_level(type, c) + qsf_table_level(type, c + 1)) c++;
        k->code[i] = (uint8_t)c;
    }
}

static uint8_t table_code(const table_nearest *k, float x)
{
    const float at = floorf(2 * x) + TABLE_HALF;
    return k->code[at < 0 ? 0 : at >= TABLE_ALL ? TABLE_ALL - 1 : (unsigned)at];
}

static float table_error(const table_nearest *k, uint32_t type, const float *x, const float *w, size_t n,
                         float scale)
{
    const float inverse = 1 / scale;
    float error = 0;
    for (size_t i = 0; i < n; i++) {
        const float d = x[i] - scale * (float)qsf_table_level(type, table_code(k, x[i] * inverse));
        error += w[i] * d * d;
    }
    return error;
}

/* Scales are tried down from a little above the one that clips nothing, of both signs.  Where one
 * column counts for most (the sink's), an octave more: one of them brings it to a level. */
qsf_quant_fit qsf_table_search(uint32_t type, const float *x, const float *w, size_t n, uint8_t *code)
{
    const int tried = type == QSF_T_TABLE4 ? 14 : 18;
    const float least = fabsf((float)qsf_table_level(type, 0));     /* the nearer end */
    qsf_quant_fit f = { 0 };
    table_nearest k;
    float most = 0, best = INFINITY, sum = 0, steepest = 0;
    table_nearest_of(&k, type);
    for (size_t i = 0; i < n; i++) {
        most = QSF_MAX(most, w[i] > 0 ? fabsf(x[i]) : 0);
        steepest = QSF_MAX(steepest, w[i]);
        sum += w[i];
    }
    const int octave = steepest > 0.5f * sum ? 8 : 0, near = qsf_table_scale_near(1.1f * most / least),
        top = most > 0 ? QSF_MIN(QSF_MAX(near, 1) + octave, 127) : 0;
    for (int e = QSF_MAX(top - octave - tried, 1); e <= top; e++)
        for (int sign = 0; sign < 256; sign += 128) {
            const float scale = qsf_table_scale((uint8_t)(e | sign)),
                error = table_error(&k, type, x, w, n, scale);
            if (!(error < best)) continue;
            best = error;
            f.scale = scale;
        }
    const float inverse = f.scale != 0 ? 1 / f.scale : 0;
    for (size_t i = 0; i < n; i++) code[i] = table_code(&k, x[i] * inverse);
    return f;
}
