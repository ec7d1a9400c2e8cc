/* Everything that core/ and kernels/ may link to, as core/base/libc.h has it: memory, strings,
 * maths.  Linking them with this file instead of a C library fails with the name of what is not
 * allowed.  It is never run.
 * SPDX-License-Identifier: MIT */
#define ALLOW(name) void name(void) { }

ALLOW(memchr) ALLOW(memcmp) ALLOW(memcpy) ALLOW(memmove) ALLOW(memset) ALLOW(strchr) ALLOW(strcmp)
ALLOW(strlen) ALLOW(strncmp) ALLOW(strstr)

ALLOW(ceil) ALLOW(ceilf) ALLOW(cos) ALLOW(cosf) ALLOW(exp) ALLOW(exp2) ALLOW(exp2f) ALLOW(expf)
ALLOW(expm1f) ALLOW(fabs) ALLOW(fabsf) ALLOW(floor) ALLOW(floorf) ALLOW(fma) ALLOW(fmaf) ALLOW(fmax)
ALLOW(fmaxf) ALLOW(fmin) ALLOW(fminf) ALLOW(fmod) ALLOW(fmodf) ALLOW(frexp) ALLOW(frexpf) ALLOW(ldexp)
ALLOW(ldexpf) ALLOW(log) ALLOW(log10) ALLOW(log2) ALLOW(log2f) ALLOW(logf) ALLOW(lrint) ALLOW(lrintf)
ALLOW(lround) ALLOW(lroundf) ALLOW(nearbyint) ALLOW(nearbyintf) ALLOW(pow) ALLOW(powf) ALLOW(rint)
ALLOW(rintf) ALLOW(round) ALLOW(roundf) ALLOW(scalbn) ALLOW(sin) ALLOW(sincos) ALLOW(sincosf) ALLOW(sinf)
ALLOW(sqrt) ALLOW(sqrtf) ALLOW(tanh) ALLOW(tanhf) ALLOW(trunc) ALLOW(truncf) ALLOW(erf) ALLOW(erff)

/* The default platform, which a host without a system replaces. */
ALLOW(qsf_platform_native)

/* The optional compression libraries, as core/model/compress.c calls them. */
ALLOW(LZ4_compressBound) ALLOW(LZ4_compress_HC_extStateHC) ALLOW(LZ4_compress_fast_extState)
ALLOW(LZ4_decompress_safe) ALLOW(LZ4_sizeofState) ALLOW(LZ4_sizeofStateHC) ALLOW(ZSTD_compressBound)
ALLOW(ZSTD_compressCCtx) ALLOW(ZSTD_decompressDCtx) ALLOW(ZSTD_estimateCCtxSize)
ALLOW(ZSTD_estimateDCtxSize) ALLOW(ZSTD_initStaticCCtx) ALLOW(ZSTD_initStaticDCtx) ALLOW(ZSTD_isError)

/* What compilers make of these: clang of memcmp, GCC's own library of atomics on aarch64. */
ALLOW(bcmp) ALLOW(__getauxval)

ALLOW(_start)
