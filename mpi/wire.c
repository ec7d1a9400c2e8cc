/* Rows of hidden states as bytes.
 * SPDX-License-Identifier: MIT */
#include "wire.h"

#include <math.h>
#include <string.h>

size_t wire_bytes(wire w, size_t n)
{
    return w == WIRE_F32 ? n * sizeof(float) : w == WIRE_F16 ? n * sizeof(uint16_t) : sizeof(float) + n;
}

/* To the nearest, ties to even; values that are too large become the largest, since an infinite
 * state is an error later. */
static uint16_t half_of(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    const uint32_t sign = u >> 16 & 0x8000, a = u & 0x7fffffff;
    if (a >= 0x477ff000) return (uint16_t)(sign | (a > 0x7f800000 ? 0x7e00 : 0x7bff));
    if (a < 0x38800000) {                       /* below 2^-14: steps of 2^-24 */
        float y;
        memcpy(&y, &a, sizeof y);
        return (uint16_t)(sign | (uint32_t)nearbyintf(y * 16777216.0f));
    }
    const uint32_t odd = a >> 13 & 1;
    return (uint16_t)(sign | ((a + 0xfff + odd - 0x38000000) >> 13));
}

static float float_of(uint16_t h)
{
    const int exponent = h >> 10 & 31;
    const float m = (float)(h & 1023);
    const float x = exponent ? ldexpf(1024 + m, exponent - 25) : ldexpf(m, -24);
    return h & 0x8000 ? -x : x;
}

void wire_pack(wire w, void *to, const float *x, size_t n)
{
    unsigned char *at = to;
    if (w == WIRE_F32) {
        memcpy(at, x, n * sizeof *x);
    } else if (w == WIRE_F16) {
        for (size_t i = 0; i < n; i++) {
            const uint16_t h = half_of(x[i]);
            memcpy(at + 2 * i, &h, sizeof h);
        }
    } else {
        float most = 0;
        for (size_t i = 0; i < n; i++) most = fmaxf(most, fabsf(x[i]));
        const float scale = most / 127, by = most > 0 ? 127 / most : 0;
        memcpy(at, &scale, sizeof scale);
        for (size_t i = 0; i < n; i++) at[sizeof scale + i] = (unsigned char)(int8_t)nearbyintf(x[i] * by);
    }
}

void wire_unpack(wire w, float *x, const void *from, size_t n)
{
    const unsigned char *at = from;
    if (w == WIRE_F32) {
        memcpy(x, at, n * sizeof *x);
    } else if (w == WIRE_F16) {
        for (size_t i = 0; i < n; i++) {
            uint16_t h;
            memcpy(&h, at + 2 * i, sizeof h);
            x[i] = float_of(h);
        }
    } else {
        float scale;
        memcpy(&scale, at, sizeof scale);
        for (size_t i = 0; i < n; i++) x[i] = scale * (float)(int8_t)at[sizeof scale + i];
    }
}
