/* Inside kernels/: the parts that the sets of the kernel table are put together from.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_SETS_H
#define QSF_SETS_H

#include "forms.h"
#include "kernels.h"
#include "template.h"
#include "tensor/table.h"

/* Each fills the entries of its subject. */
void qsf_matmul_scalar(qsf_kernels *k);
void qsf_narrow_scalar(qsf_kernels *k);
void qsf_attention_scalar(qsf_kernels *k);
void qsf_vector_scalar(qsf_kernels *k);
void qsf_top_k_scalar(qsf_kernels *k);
void qsf_convert_scalar(qsf_kernels *k);
void qsf_scan_scalar(qsf_kernels *k);
void qsf_sample_scalar(qsf_kernels *k);
void qsf_matmul_avx2(qsf_kernels *k);
void qsf_float_avx2(qsf_kernels *k);
void qsf_narrow_avx2(qsf_kernels *k);
void qsf_attention_avx2(qsf_kernels *k);
void qsf_vector_avx2(qsf_kernels *k);
void qsf_top_k_avx2(qsf_kernels *k);
void qsf_convert_avx2(qsf_kernels *k);
void qsf_scan_avx2(qsf_kernels *k);
void qsf_sample_avx2(qsf_kernels *k);
void qsf_matmul_avxvnni(qsf_kernels *k);
void qsf_matmul_avx512(qsf_kernels *k);
void qsf_float_avx512(qsf_kernels *k);
void qsf_narrow_avx512(qsf_kernels *k);
void qsf_attention_avx512(qsf_kernels *k);
void qsf_vector_avx512(qsf_kernels *k);
void qsf_convert_avx512(qsf_kernels *k);
void qsf_scan_avx512(qsf_kernels *k);
void qsf_sample_avx512(qsf_kernels *k);
void qsf_float_avx512bf16(qsf_kernels *k);

/* AMX, on systems that can allow a program to use it; the compiler and its assembler must know it
 * (CMake defines QSF_NO_AMX if the latter does not). */
#if defined(__x86_64__) && defined(__linux__) && !defined(QSF_NO_AMX) && defined(__has_include)
#  if __has_include(<amxint8intrin.h>) || __has_include(<amxintrin.h>)   /* GCC's, Clang's */
#    define QSF_AMX 1
#  endif
#endif
void qsf_matmul_amx(qsf_kernels *k);
/* Whether it multiplies as the sets below, which k has, do. */
bool qsf_amx_agrees(const qsf_kernels *below);

/* In a module with relaxed SIMD: whether the set that cpu names multiplies tiles of these forms
 * (bits) as the scalar set does. */
bool qsf_wasm_agrees(uint32_t cpu, uint64_t forms);

/* The super-block forms' part of matmul. */
void qsf_super_scalar(qsf_kernels *k);
void qsf_super_avx2(qsf_kernels *k);
void qsf_super_avx512(qsf_kernels *k);
/* Scalar references, for entries that a set does not improve, or not in all cases. */
void qsf_hadamard_scalar(float *x, size_t n, size_t apart);
void qsf_scan_rows_scalar(float *after, const float *before, size_t rows, const qsf_scan *s);
void qsf_scan_steps_scalar(float *after, const float *before, size_t rows, const float *decay,
                           const float *skip, const qsf_scan *s);
void qsf_convolve_scalar(float *x, size_t ld, size_t tokens, size_t channels, float *after,
                         const float *before, size_t ld_state, const float *w, const float *bias,
                         size_t taps);
/* The trellis forms' part. */
void qsf_trellis_scalar(qsf_kernels *k);
void qsf_trellis_avx2(qsf_kernels *k);
void qsf_trellis_avx512(qsf_kernels *k);

/* Asks memory for lines that a later call reads: a few with each step of a loop, because a
 * processor waits for a limited number at a time. */
enum { QSF_KV_SCALES = 2 * QSF_KV_BLOCK * sizeof(float) };
QSF_TEMPLATE void qsf_kv_bring(const int8_t *p, size_t bytes)
{
#if defined(__GNUC__) && !defined(__wasm__)
    for (size_t i = 0; p && i < bytes; i += 64) __builtin_prefetch(p + i, 0, 2);
#else
    (void)p, (void)bytes;
#endif
}

/* Attention weights whose largest in a block is below this become zeros:
 * 255 / it must be finite. */
#define QSF_KV_LEAST 1e-30f

QSF_TEMPLATE float qsf_hadamard_scale(size_t whole, size_t apart)
{
    return whole > apart ? 1 / sqrtf((float)(whole / apart)) : 1;
}

/* quantize_kv_levels for a set: top and sum of |x|; the sums of level * x and of level^2, levels
 * odd numbers up to most; codes. */
typedef void qsf_levels_reach(float *top, float *sum, const float *x, size_t dim);
typedef void qsf_levels_fit(float *with, float *of, const float *x, size_t dim, float inverse, float most);
typedef void qsf_levels_codes(uint8_t *out, const float *x, size_t dim, float inverse, float most);
QSF_TEMPLATE void qsf_quantize_levels(uint8_t *out, uint16_t *scale, const float *x, size_t n, unsigned bits,
                                      qsf_levels_reach *reach, qsf_levels_fit *fit, qsf_levels_codes *codes)
{
    const size_t dim = qsf_kv_dim(n);
    const float most = (float)((1u << bits) - 1);
    float top, sum, with, of;
    reach(&top, &sum, x, dim);
    /* Begins at what is best for a bell: 0.498 of its deviation with four levels, 0.168 with
     * sixteen; a bell's deviation is its mean size times sqrt(pi / 2).  With sixteen the rounds
     * move little, so there it is the mean with the scale that holds the largest. */
    const float mean = sum / (float)n;
    float d = bits == 2 ? 0.624f * mean : 0.5f * (0.21f * mean + top / most);
    for (int round = 0; round < 3; round++) {
        fit(&with, &of, x, dim, d > FLT_MIN ? 0.5f / d : 0, most);
        d = with / (of - (float)(dim - n));     /* the level of a zero is 1 */
    }
    *scale = qsf_f32_to_f16(d > 0 ? QSF_MIN(d, 65504.0f) : 0);
    const float rounded = qsf_f16_to_f32(*scale);
    codes(out, x, dim, rounded > 0 ? 0.5f / rounded : 0, most);
}

/* ---- TQ1 ---- */
/* What a tile's digits take as bytes: 64 vectors of 16 rows x 4 columns. */
enum { QSF_TQ1_CODES = 64 * 64, QSF_TQ1_TILE = 32 + 13 * 64 };
/* Vector and digit of columns 4i to 4i + 3. */
QSF_TEMPLATE int qsf_tq1_vector(int i) { return i < 40 ? i % 8 : i < 60 ? 8 + i % 4 : 12; }
QSF_TEMPLATE int qsf_tq1_digit(int i) { return i < 40 ? i / 8 : i < 60 ? (i - 40) / 4 : i - 60; }

/* What float weights are stored as. */
typedef enum qsf_float { QSF_FLOAT_32, QSF_FLOAT_16, QSF_FLOAT_B16 } qsf_float;
/* Few rows of x wait for memory: weights are then read row after row, because the processor fetches
 * one stream ahead and not four. */
enum { QSF_FLOAT_FEW = 3 };

/* n numbers as the multiplication of bf16 weights sees them. */
QSF_TEMPLATE void qsf_round_bf16(float *out, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) out[i] = qsf_bf16_to_f32(qsf_f32_to_bf16(x[i]));
}

/* matmul_f16 and matmul_bf16 for many rows of x: strips of weights become floats in the
 * scratch, and all rows pass by.  With bf16 both are eight rows at a time, because the
 * rounded x is in there too. */
typedef void qsf_float_widen(float *out, const uint16_t *w, size_t n);
typedef void qsf_float_multiply(float *y, size_t ldy, const float *w, const float *x, size_t ldx, size_t n,
                                size_t rows, size_t cols);
QSF_TEMPLATE void qsf_matmul_strips(float *y, size_t ldy, bool b16, const uint16_t *w, const float *x,
                                    size_t ldx, size_t n, size_t rows, size_t cols, float *scratch,
                                    qsf_float_widen *widen, qsf_float_multiply *multiply)
{
    const size_t most = b16 ? 8 : 16, at_once = b16 ? 8 : n;
    float *rounded = scratch + most * cols;
    for (size_t m = 0; m < n; m += at_once) {
        const size_t some = QSF_MIN(n - m, at_once);
        const float *from = x + m * ldx;
        for (size_t t = 0; b16 && t < some; t++) qsf_round_bf16(rounded + t * cols, from + t * ldx, cols);
        for (size_t r = 0; r < rows; r += most) {
            const size_t strip = QSF_MIN(rows - r, most);
            widen(scratch, w + r * cols, strip * cols);
            multiply(y + m * ldy + r, ldy, scratch, b16 ? rounded : from, b16 ? cols : ldx, some,
                     strip, cols);
        }
    }
}

/* Rows m to m + n - 1 of x from column `at` on, a multiple of 64. */
QSF_TEMPLATE qsf_act qsf_act_part(const qsf_act *x, size_t m, size_t n, size_t at)
{
    qsf_act a = *x;
    a.n = (uint32_t)n;
    a.q += m * x->cols + at;
    a.d += (m * x->cols + at) / 64;
    a.s += (m * x->cols + at) / 32;
    a.h += (m * x->cols + at) / 8;
    return a;
}

/* A band: rows of activations whose int8 stay in half of a usual second-level cache while all tiles
 * pass by; a multiple of 16. */
QSF_TEMPLATE size_t qsf_band_rows(uint32_t cols)
{
    const size_t rows = ((size_t)384 << 10) / (cols ? cols : 1);
    return rows < 16 ? 16 : rows / 16 * 16;
}

/* QSF's forms, for macros that make an entry of each. */
#define QSF_EACH_FORM(X) X(2Z) X(3Z) X(4Z) X(TERNARY) X(8) X(3) X(4) X(5) X(6) X(2S) X(T2) X(QK256) \
    X(TB4) X(TB3)
/* GGUF's own: with one scale a block, and super-blocks.
 * A set without these keeps those of the set below. */
#define QSF_EACH_GGML_FORM(X) X(5Z) X(IQ4) X(MX4) X(Q1) X(8K)
#define QSF_EACH_TRELLIS(X) X(2) X(3) X(4) X(5)     /* TR2 ... */
#define QSF_EACH_SUPER_FORM(X) X(Q4K) X(Q5K) X(Q6K) X(Q2K) X(Q3K) X(IQ4XS)

#endif
