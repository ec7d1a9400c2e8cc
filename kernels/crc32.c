/* CRC-32 of whole layers at memory speed, on processors that multiply polynomials.
 * SPDX-License-Identifier: MIT
 *
 * Gopal et al. 2009, "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction":
 * two multiplications by x^n mod P move the remainder so far 64 bytes ahead, where it is added to
 * the data. */
#include "sets.h"

#if defined(__x86_64__)
#include <immintrin.h>

QSF_TARGET_BEGIN("pclmul,sse4.1")

QSF_TEMPLATE __m128i crc_load(const uint8_t *p) { return _mm_loadu_si128((const __m128i *)(const void *)p); }
/* v moved on by the distance that k is for, plus next. */
QSF_TEMPLATE __m128i crc_fold(__m128i v, __m128i k, __m128i next)
{
    return _mm_xor_si128(_mm_xor_si128(_mm_clmulepi64_si128(v, k, 0x00), _mm_clmulepi64_si128(v, k, 0x11)),
                         next);
}

static uint32_t crc32_pclmul(uint32_t crc, const void *data, size_t len)
{
    const uint8_t *p = data;
    if (len < 128) return qsf_crc32(crc, data, len);
    const __m128i by64 = _mm_set_epi64x(0x1c6e41596, 0x154442bd4),
        by16 = _mm_set_epi64x(0x0ccaa009e, 0x1751997d0);
    __m128i v[4];
    for (int i = 0; i < 4; i++) v[i] = crc_load(p + 16 * i);
    v[0] = _mm_xor_si128(v[0], _mm_cvtsi32_si128((int)~crc));
    for (p += 64, len -= 64; len >= 64; p += 64, len -= 64)
        for (int i = 0; i < 4; i++) v[i] = crc_fold(v[i], by64, crc_load(p + 16 * i));
    __m128i one = crc_fold(crc_fold(crc_fold(v[0], by16, v[1]), by16, v[2]), by16, v[3]);
    for (; len >= 16; p += 16, len -= 16) one = crc_fold(one, by16, crc_load(p));
    uint8_t rest[16];
    _mm_storeu_si128((__m128i *)(void *)rest, one);
    /* ~UINT32_MAX: the remainder begins at 0 */
    return qsf_crc32(qsf_crc32(UINT32_MAX, rest, sizeof rest), p, len);
}

QSF_TARGET_END
#endif

qsf_crc32_fn *qsf_crc32_best(uint32_t cpu)
{
#if defined(__x86_64__)
    if (cpu & QSF_CPU_PCLMUL) return crc32_pclmul;
#endif
    (void)cpu;
    return qsf_crc32;
}
