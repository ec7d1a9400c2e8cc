/* What every core file builds on: fixed-width types, checked arithmetic, little-endian access,
 * errors, half floats.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_BASE_H
#define QSF_BASE_H

#include "base/libc.h"
#include "qsf.h"

#define QSF_ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define QSF_MIN(a, b) ((a) < (b) ? (a) : (b))
#define QSF_MAX(a, b) ((a) > (b) ? (a) : (b))

/* "printf" means the format of Microsoft's C library there */
#if defined(__MINGW32__) && !defined(__clang__)
#  define QSF_PRINTF(fmt, args) __attribute__((format(gnu_printf, fmt, args)))
#elif defined(__GNUC__)
#  define QSF_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#  define QSF_PRINTF(fmt, args)
#endif

/* ---- checked arithmetic: true if the result does not fit ---- */
static inline bool qsf_mul_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    *out = a * b;
    return a != 0 && *out / a != b;
}
static inline bool qsf_add_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    *out = a + b;
    return *out < a;
}
static inline uint64_t qsf_round_up(uint64_t n, uint64_t to) { return (n + to - 1) / to * to; }
static inline uint64_t qsf_ceil_div(uint64_t n, uint64_t by) { return n / by + (n % by != 0); }

/* FNV-1a, 64 bits: begins with h = QSF_FNV1A and may be continued over several buffers. */
#define QSF_FNV1A UINT64_C(0xcbf29ce484222325)
static inline uint64_t qsf_fnv1a(uint64_t h, const void *p, uint64_t n)
{
    const uint8_t *b = p;
    for (uint64_t i = 0; i < n; i++) h = (h ^ b[i]) * 0x100000001b3u;
    return h;
}

/* ---- little-endian bytes at any address ---- */
static inline uint16_t qsf_le16(const void *p) { const uint8_t *b = p; return (uint16_t)(b[0] | b[1] << 8); }
static inline uint32_t qsf_le32(const void *p)
{
    const uint8_t *b = p;
    return b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}
static inline uint64_t qsf_le64(const void *p)
{
    return qsf_le32(p) | (uint64_t)qsf_le32((const uint8_t *)p + 4) << 32;
}
static inline void qsf_put16(void *p, uint16_t v)
{
    uint8_t *b = p;
    b[0] = (uint8_t)v;
    b[1] = (uint8_t)(v >> 8);
}
static inline void qsf_put32(void *p, uint32_t v)
{
    qsf_put16(p, (uint16_t)v);
    qsf_put16((uint8_t *)p + 2, (uint16_t)(v >> 16));
}
static inline void qsf_put64(void *p, uint64_t v)
{
    qsf_put32(p, (uint32_t)v);
    qsf_put32((uint8_t *)p + 4, (uint32_t)(v >> 32));
}
static inline float    qsf_f32_from_bits(uint32_t u) { float f; memcpy(&f, &u, 4); return f; }
static inline uint32_t qsf_f32_bits(float f) { uint32_t u; memcpy(&u, &f, 4); return u; }
static inline float    qsf_lef32(const void *p) { return qsf_f32_from_bits(qsf_le32(p)); }

/* Neither an infinity nor NaN among them. */
static inline bool qsf_all_finite(const float *x, size_t n)
{
    uint32_t bad = 0;
    for (size_t i = 0; i < n; i++) bad |= (qsf_f32_bits(x[i]) & 0x7f800000) == 0x7f800000;
    return !bad;
}

/* ---- half floats (IEEE 754 binary16) and bfloat16; round to nearest even ---- */
static inline float qsf_f16_to_f32(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000) << 16, em = h & 0x7fff;
    /* inf, nan */
    if (em >= 0x7c00) return qsf_f32_from_bits(sign | 0x7f800000 | (em & 0x3ff) << 13);
    if (em >= 0x0400) return qsf_f32_from_bits(sign | ((em << 13) + 0x38000000));                 /* normal */
    /* subnormal, zero */
    const float f = (float)em * 0x1p-24f;
    return sign ? -f : f;
}
static inline uint16_t qsf_f32_to_f16(float f)
{
    const uint32_t u = qsf_f32_bits(f), sign = u >> 16 & 0x8000, a = u & 0x7fffffff;
    if (a > 0x7f800000) return (uint16_t)(sign | 0x7e00);
    /* >= 65536 */
    if (a >= 0x47800000) return (uint16_t)(sign | 0x7c00);
    /* subnormal result */
    if (a < 0x38800000) {
        /* 0.5's ulp is 2^-24: the addition rounds to it */
        const float r = qsf_f32_from_bits(a) + 0.5f;
        return (uint16_t)(sign | (qsf_f32_bits(r) - 0x3f000000));
    }
    const uint32_t r = a + 0xfff + (a >> 13 & 1);
    return (uint16_t)(sign | (r >= 0x47800000 ? 0x7c00 : (r - 0x38000000) >> 13));
}
static inline float    qsf_bf16_to_f32(uint16_t h) { return qsf_f32_from_bits((uint32_t)h << 16); }
static inline uint16_t qsf_f32_to_bf16(float f)
{
    const uint32_t u = qsf_f32_bits(f), nan = (u & 0x7fffffff) > 0x7f800000;
    return (uint16_t)((nan ? u | 0x400000 : u + 0x7fff + (u >> 16 & 1)) >> 16);
}

/* ---- text and errors (core/base/base.c) ---- */
/* A small printf: %s %.*s %c %d %u %x %ld %lu %lld %llu %zu %f %g %% with width, '0',
 * '-' and precision.  Returns the length that the whole text has; out is always
 * terminated if cap > 0. */
size_t qsf_format(char *out, size_t cap, const char *fmt, ...) QSF_PRINTF(3, 4);
size_t qsf_vformat(char *out, size_t cap, const char *fmt, va_list args);
/* Replaces whatever could control a terminal by '?': control characters (C0, C1, DEL), line
 * separators, bidirectional controls and invalid UTF-8.  Strings that come from a file must go
 * through it before they are shown; errors and logs do this themselves. */
void qsf_visible(char *text);
/* Fills *err (NULL is allowed) and returns st, so that `return qsf_fail(...)` and `st =
 * qsf_fail(...)` both read well. */
qsf_status qsf_fail(qsf_error *err, qsf_status st, const char *fmt, ...) QSF_PRINTF(3, 4);

/* CRC-32 as in zlib and PNG (polynomial 0xEDB88320 reflected); crc is 0 or the value so far. */
uint32_t qsf_crc32(uint32_t crc, const void *p, size_t len);

#endif
