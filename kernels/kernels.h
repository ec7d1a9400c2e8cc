/* The arithmetic: one table of functions, filled from the processor's best instruction set.
 * SPDX-License-Identifier: MIT
 *
 * Numbers in brackets are those of the list of kernels in the original specification
 * (docs/format.md), as far as the engine uses it.  Every entry has a scalar reference in the files
 * kernels/..._scalar.c, and tests/kernels/kernels_test.c compares every variant of every entry with
 * it.  Unless a comment says otherwise, sizes may be any number and pointers may be unaligned.
 * Output never overlaps input, except where a comment allows it or a name ends in _inplace. */
#ifndef QSF_KERNELS_H
#define QSF_KERNELS_H

#include "base/base.h"
#include "base/platform.h"

/* ---- weights: tiles of 16 rows x block columns (docs/format.md) ----
 * A tile is fp16 scale[16], then fp16 zero[16] where the form has zeros, then block/32 groups of 32
 * columns.  A group is 64-byte vectors; in a vector, byte 4*r + b belongs to row r:
 *   2 bits: 2 vectors; field f (bits 2f, 2f+1) of vector j is column 16j + 4f + b
 *   3 bits: 2 vectors as 2 bits (the low bits), then 1 vector whose bit f is the high bit of column
 *           4f + b
 *   4 bits: 4 vectors; low nibble of vector j is column 8j + b, high nibble column 8j + 4 + b
 *   5 bits: 4 vectors as 4 bits, then 1 vector of high bits as in 3 bits
 *   6 bits: 4 vectors as 4 bits, then 2 vectors as 2 bits (the high bits)
 *   8 bits: 8 vectors of int8; vector j is column 4j + b
 *   T5, 5 digits of 3 in a byte: see five.h
 * Value of a code c:  zeros: scale * c + zero;  none: scale * (c - offset);  8 bits: scale * c;
 * ternary: 2-bit codes, scale * (1 - c).  forms.h has these facts of each form as a table. */
typedef enum qsf_form {
    QSF_F_2Z, QSF_F_3Z, QSF_F_4Z,                      /* types 0/1, 2, 3: scale and zero */
    QSF_F_TERNARY,                                     /* type 4 */
    QSF_F_8,                                           /* type 18 */
    /* types 22, 19, 20, 21: scale only, offsets 4, 8, 16, 32 */
    QSF_F_3, QSF_F_4, QSF_F_5, QSF_F_6,
    /* GGUF's types that are none of the above, brought into tiles while loading; never in a file */
    QSF_F_5Z,                                          /* Q5_1: scale and zero */
    QSF_F_IQ4,                                         /* IQ4_NL: scale * qsf_iq4[c] */
    QSF_F_Q4K, QSF_F_Q5K, QSF_F_Q6K, QSF_F_Q2K, QSF_F_Q3K, QSF_F_IQ4XS,     /* super-blocks, see below */
    /* types 25 to 28: c - 1, c - 1, QK256's -2, -1, 1, 2, without scales in blocks of 256 columns;
     * 2S: scale only, offset 2 */
    QSF_F_T2, QSF_F_T5, QSF_F_QK256, QSF_F_2S,
    /* GGUF's small ones, see below; TQ2_0 and Q2_0 are ternary tiles with the scales' signs
     * turned */
    QSF_F_TQ1, QSF_F_MX4, QSF_F_NV4, QSF_F_Q1, QSF_F_8K,
    /* GGUF's codebooks: super-blocks */
    QSF_F_IQ2XXS, QSF_F_IQ2XS, QSF_F_IQ2S, QSF_F_IQ3XXS, QSF_F_IQ3S, QSF_F_IQ1S, QSF_F_IQ1M,
    QSF_F_TR2, QSF_F_TR3, QSF_F_TR4, QSF_F_TR5,        /* types 32 to 35: trellises, see below */
    QSF_F_TB4, QSF_F_TB3,                              /* types 36 and 37: tables, see below */
    QSF_N_FORMS
} qsf_form;

/* A super-block tile is 16 rows x 256 columns.  Its head is the heads of 16 GGUF blocks,
 * transposed: fp16 d[16], then fp16 dmin[16] (Q2_K, Q4_K, Q5_K) or u16 high[16] (IQ4_XS), then
 * scale bytes [n][16], n = 16 (Q6_K, Q2_K), 12 (Q3_K, Q4_K, Q5_K) or 4 (IQ4_XS), whose meaning is
 * that in GGUF.  8 groups follow.  Each 16 (Q2_K, Q3_K, Q6_K) or 32 columns have a scale and maybe
 * a minimum: value = d * scale * c - dmin * min (Q2_K, Q4_K, Q5_K), d * scale * (c - offset) (Q3_K:
 * 4, Q6_K: 32), d * scale * qsf_iq4[c]. Tiles of GGUF's codebook types (IQ1, IQ2, IQ3) are the
 * fields of 16 blocks side by side: see iq.h. */

/* GGUF's small types.  Code vectors are as above unless said otherwise:
 *   MX4 (MXFP4)  u8 e[16], 4 bits; value = 2^(e - 128) * qsf_fp4[c]
 *   NV4 (NVFP4)  64 columns: u8 e[4][16], 4 bits; columns 16k to 16k + 15 have scale e[k], half a
 *                float without sign of 4 bits of exponent and 3 of mantissa, 0 where all are 1
 *   Q1 (Q1_0)    128 columns: fp16 scale[16]; 1 bit: a vector a group, bit f is column 4f + b;
 *                value = scale * (2c - 1)
 *   8K (Q8_K)    256 columns: u16 low[16], high[16], the halves of fp32 scales; 512 bytes of sums
 *                that kernels have no use for; 8 bits
 *   TQ1 (TQ1_0)  256 columns: fp16 scale[16]; 13 vectors of bytes that are fractions of 256: their
 *                digits to the base 3, from the top, are codes; value = scale * (digit - 1).  Four
 *                columns begin at 32n + 4v with digit n of vector v < 8, at 160 + 16n + 4(v - 8)
 *                with that of vectors 8 to 11, and at 240 + 4n with the last one's. */

/* Trellises (core/tensor/trellis.h), k bits: a tile is u8 scale[16], then two groups of 32 columns;
 * a group is planes of m, k - 1 bits, then one of u, one bit (as the high bit of 3 bits):
 *   m: TR2 one bit; TR3 as 2 bits; TR4 as 2 bits and the third as a bit; TR5 as 4 bits
 * A row's u of 32 columns is a little-endian number of 32 bits in the order of steps: with d this
 * one, e the one before (0 before the row's first tile),
 *   P = d ^ (d << 1 | e >> 31) ^ (d << 3 | e >> 29),  Q = d << 2 | e >> 30
 * have the other bits of the place in the table of levels: 4 m + 2 P + Q. */

/* Tables (core/tensor/table.h): u8 scale[16], the middle bits of fp16 scales, then 4 or 3 bits;
 * value = scale * (qsf_table_levels[c] - 64). */

/* Its name in the names of kernels: "4bit_s". */
const char *qsf_form_name(qsf_form f);
/* Bytes of a tile: 16 * qsf_block_bytes of the type. */
size_t qsf_tile_bytes(qsf_form f, uint32_t block);
/* Bytes of a tile of narrow weights: see add_narrow. */
static inline size_t qsf_narrow_bytes(size_t depth) { return 64 + 64 * depth; }
/* -1: the type (qsf_type) has no form. */
int    qsf_form_of_type(uint32_t type);

/* ---- activations: n rows of int8, one scale for 64 columns ---- */
typedef struct qsf_act {
    int8_t  *q;     /* [n][cols], natural order, -127..127; cols is a multiple of 256, the tail is zero */
    float   *d;     /* [n][cols/64]: x = d * q */
    /* [n][cols/32]: the sum of the 32 q, an exact integer:
     * offsets of codes fold through it without rounding. */
    float   *s;
    /* [n][cols/16][2]: of each 16 q the sum of those in columns 4i and 4i + 1, and of the
     * other eight: the same for scales of 16 columns; two, because products in pairs of 16
     * bits have room for eight. */
    int16_t *h;
    uint32_t n, cols;
} qsf_act;
/* An odd number of 256s: eight rows at a distance of a power of two would compete for the same few
 * lines of the L1 cache. */
static inline uint32_t qsf_act_cols(uint32_t cols) { return ((cols + 255) / 256 | 1) * 256; }

/* ---- 8-bit keys and values: the place of a code in a block ----
 * 64-byte vectors; byte 4*r + b of one belongs to row r of 16.  Keys: rows are positions, columns
 * dimensions; values: rows are dimensions, columns positions.  dim is a multiple of 16. */
enum { QSF_KV_BLOCK = 32 };     /* positions a block */
static inline size_t qsf_kv_dim(size_t head_dim) { return (head_dim + 15) / 16 * 16; }
static inline size_t qsf_kv_k_at(size_t pos, size_t d, size_t dim)
{
    return (pos / 16 * (dim / 4) + d / 4) * 64 + pos % 16 * 4 + d % 4;
}
static inline size_t qsf_kv_v_at(size_t pos, size_t d)
{
    return (d / 16 * (QSF_KV_BLOCK / 4) + pos / 4) * 64 + d % 16 * 4 + pos % 4;
}

/* ---- sums of recurrent mixers: rows of n columns, that tokens pass one by one ----
 * A token t has k[n] and q[n] for all rows, a number v and a result y for each.  With a = keep[t] a
 * row's sums S become a S + f k, and y = S . q + skip v, where f = gain[t] v; with `correct`
 * f = gain[t] (v - a S . k), the delta rule. */
typedef struct qsf_scan {
    const float *k, *q, *v;     /* of the first token; others ld floats on */
    float       *y;             /* the same, ld_y floats on */
    const float *keep, *gain;   /* [tokens] */
    size_t       ld, ld_y, n, tokens;
    float        skip;
    bool         correct;
} qsf_scan;

/* ---- sampling ----
 * A logit x <= top has the weight e^((x - top) * scale), or 0 if x < least or the weight < share.
 * Weights are also summed in blocks of QSF_SAMPLE_BLOCK: a draw looks for its block first. */
enum { QSF_SAMPLE_LANES = 16, QSF_SAMPLE_BLOCK = 256, QSF_SAMPLE_LEVELS = 8 };
typedef struct qsf_exp_weights { float top, scale, least, share; } qsf_exp_weights;

typedef struct qsf_kernels {
    const char *isa;    /* as QSF_ISA and --verbose name it */

    /* [1-5] y[m][16*t + r] = tile row r of w[t][0..blocks) . x row m, for tiles t in [0,
     * tiles) and all x->n rows m; matvec: x->n == 1.  ldy: floats from y[m] to y[m+1].
     * blocks * block <= x->cols.  Integer sums are exact and equal in every variant; y within
     * 1e-5 of the largest |y|. */
    void (*matvec[QSF_N_FORMS])(float *y, const uint8_t *w, const qsf_act *x, size_t tiles, size_t blocks,
                                uint32_t block);
    void (*matmul[QSF_N_FORMS])(float *y, size_t ldy, const uint8_t *w, const qsf_act *x, size_t tiles,
                                size_t blocks, uint32_t block);

    /* The same as matvec of T2, or of QK256 (four), with the same bits: from tiles as qsf_lut_turn
     * leaves them, by looking sums up (lut.h). */
    void (*matvec_lut)(float *y, const uint8_t *w, const qsf_act *x, size_t tiles, size_t blocks, bool four);

    /* x[cols] -> row m of a; fills the tail with zeros.  d = max|x| / 127, to nearest even;
     * infinities count as FLT_MAX, NaN as 0, and 64 columns whose d would not be a normal
     * number become zeros. */
    void (*quantize_act)(qsf_act *a, size_t m, const float *x, size_t cols);

    /* Float weights: y[m][r] = w[r] . x[m], m < n, r < rows; w is [rows][cols] floats. */
    void (*matmul_f32)(float *y, size_t ldy, const float *w, const float *x, size_t ldx, size_t n,
                       size_t rows, size_t cols);
    /* The same with weights of fp16; or bf16, for which each x is also rounded to bf16, as the
     * processors' bf16 instructions require.  scratch: 16 * qsf_act_cols(cols) floats. */
    void (*matmul_f16)(float *y, size_t ldy, const uint16_t *w, const float *x, size_t ldx, size_t n,
                       size_t rows, size_t cols, float *scratch);
    void (*matmul_bf16)(float *y, size_t ldy, const uint16_t *w, const float *x, size_t ldx, size_t n,
                        size_t rows, size_t cols, float *scratch);

    /* For adapters: y[m][16t + r] += d[m*ldd] * scale[r] * (row r of tile t of w . q[m]), m < n.
     * A tile: fp32 scale[16], depth vectors of int8, byte 4r + b of vector j is column 4j + b of
     * row r.  No code of w or q[n][4*depth] is -128.  Integer sums are exact. */
    void (*add_narrow)(float *y, size_t ldy, const uint8_t *w, size_t depth, size_t tiles, const int8_t *q,
                       size_t ldq, const float *d, size_t ldd, size_t n);

    /* Attention over n cached positions of one KV head, for the rep query vectors that share it.
     * s: [rep][lds] f16: k, v: [n][head_dim].  q8: a block of QSF_KV_BLOCK positions in tiles like
     * the weights' (qsf_kv_k_at, qsf_kv_v_at), dim = head_dim rounded up to 16; kd, vd: a scale for
     * each position; q:  [rep][dim] codes, zeros after head_dim, qd their scales, qs their sums.
     * Integer sums are exact and equal in every variant.  ahead: the keys of a block that a later
     * call is given, or its values and both scales, which follow them; the caches ask memory for
     * them.  NULL: none. */
    /* [7] s[r][i] = scale * q[r] . k[i] */
    void (*attention_scores_f16)(float *s, size_t lds, const float *q, const uint16_t *k, size_t n,
                                 size_t head_dim, size_t rep, float scale);
    void (*attention_scores_q8)(float *s, size_t lds, const int8_t *q, const float *qd, const int32_t *qs,
                                const int8_t *k, const float *kd, size_t n, size_t dim, size_t rep,
                                float scale, const int8_t *ahead);
    /* [8] one step of the online softmax over n more scores of rep vectors: s[rep][lds] becomes
     * exp(s - m_new); m[rep], l[rep] are the running maxima (begin: -INFINITY) and sums,
     * factor[rep] becomes exp(m_old - m_new), which earlier output must be scaled with (0 at the
     * beginning).  Scores of -INFINITY become 0.  A vector's bits do not depend on the others. */
    void (*attention_softmax_inplace)(float *s, size_t lds, size_t n, size_t rep, float *factor, float *m,
                                      float *l);
    /* [9] o[rep][head_dim] = o * factor[rep] + s . v; where factor is 0, o is not read */
    void (*attention_weighted_sum_f16)(float *o, const float *factor, const float *s, size_t lds,
                                       const uint16_t *v, size_t n, size_t head_dim, size_t rep);
    void (*attention_weighted_sum_f32)(float *o, const float *factor, const float *s, size_t lds,
                                       const float *v, size_t n, size_t head_dim, size_t rep);
    /* q8 again: the softmax's step, n <= QSF_KV_BLOCK, with its weights w as codes:
     * p[rep][QSF_KV_BLOCK] = w * vd / pd, to nearest even, 0 to 255, zeros after n; pd[rep] = the
     * largest w * vd / 255.  s may be changed. */
    void (*attention_softmax_q8)(uint8_t *p, float *pd, float *s, size_t lds, const float *vd, size_t n,
                                 size_t rep, float *factor, float *m, float *l);
    void (*attention_weighted_sum_q8)(float *o, const float *factor, const uint8_t *p, const float *pd,
                                      const int8_t *v, size_t head_dim, size_t rep, const int8_t *ahead);
    /* [10] scores of positions first + i > current, or <= current - window (window > 0),
     * become -INFINITY; i < n. */
    void (*causal_mask_apply)(float *s, size_t n, uint32_t first, uint32_t current, uint32_t window);

    /* [11] bias may be NULL; y may be x */
    void (*layer_norm)(float *y, const float *x, const float *weight, const float *bias, size_t n, float eps);
    /* [12] weight may be NULL; y may be x */
    void (*rms_norm)(float *y, const float *x, const float *weight, size_t n, float eps);

    /* [13] rotates x[heads][head_dim]'s first 2 * half columns by cos[half], sin[half]; pairs: (2i,
     * 2i+1), else (i, i + half). */
    void (*rope_apply)(float *x, size_t heads, size_t head_dim, size_t half, const float *cos,
                       const float *sin, bool pairs);

    void (*silu_inplace)(float *x, size_t n);                              /* [15] */
    void (*gelu_inplace)(float *x, size_t n);                              /* [16] tanh form */
    void (*relu_inplace)(float *x, size_t n);
    void (*softplus_inplace)(float *x, size_t n);                          /* log(1 + exp(x)) */
    /* Hadamard transform of x, x + apart, x + 2 * apart ... within blocks of the largest power of
     * two that divides n; apart is a power of two.  It keeps lengths and is its own inverse.
     * Exactly equal in every variant. */
    void (*hadamard_inplace)(float *x, size_t n, size_t apart);
    void (*vec_add)(float *y, const float *a, const float *b, size_t n);   /* [18] y may be a */
    void (*vec_mul)(float *y, const float *a, const float *b, size_t n);   /* [19] y may be a */
    void (*vec_scale)(float *x, float f, size_t n);                        /* [20] */
    /* silu(gate) * up; y may be gate */
    void (*silu_mul)(float *y, const float *gate, const float *up, size_t n);
    void (*gelu_mul)(float *y, const float *gate, const float *up, size_t n);
    void (*softcap_inplace)(float *x, float cap, size_t n);                /* cap * tanh(x / cap) */

    /* Sums before[rows][n] become after[rows][n], which may be the same place.  A row's results
     * have the same bits however many tokens a call has; so it is in the next two. */
    void (*scan_rows)(float *after, const float *before, size_t rows, const qsf_scan *s);
    /* The same, but each row has its own step, which y holds, and each column of it a decay: S
     * becomes S exp(step decay) + step v k, and y S . q + skip[row] v.  keep, gain and skip of s
     * are not used, and it does not correct; decay[rows][n] is not positive, steps are not
     * negative. */
    void (*scan_steps)(float *after, const float *before, size_t rows, const float *decay, const float *skip,
                       const qsf_scan *s);
    /* Channels of x[tokens][ld]: token t's become bias[channel] + the sum over j < taps of
     * w[channel][j] times those of token t - (taps - 1) + j.  before[taps - 1][ld_state] are the
     * last tokens in front of the first one; after, which may be the same place, those in front of
     * the next.  bias may be NULL; taps > 1. */
    void (*convolve_inplace)(float *x, size_t ld, size_t tokens, size_t channels, float *after,
                             const float *before, size_t ld_state, const float *w, const float *bias,
                             size_t taps);

    /* [22] all but the k largest become -INFINITY; of equals the lower index stays; NaN goes */
    void (*top_k_filter)(float *logits, size_t n, size_t k);

    /* Sampling, with equal bits in every variant.  NaN has weight 0. */
    /* w[n] (NULL: sums only) and sums[n / QSF_SAMPLE_BLOCK, rounded up]; weights < 2^-125 are 0 */
    void (*exp_weights)(float *w, float *sums, const float *x, size_t n, const qsf_exp_weights *e);
    void (*weight_sums)(float *sums, const float *w, size_t n);
    /* mass[l] = the sum of w[i] (NULL: 1 each) over key[i] > levels[l], l < QSF_SAMPLE_LEVELS;
     * levels must not increase */
    void (*weight_levels)(float *mass, const float *key, const float *w, size_t n, const float *levels);
    /* Writes the indices i with over < w[i] <= most to `at`, in order; returns their number. */
    size_t (*weights_within)(uint32_t *at, const float *w, size_t n, float over, float most);
    /* The sum of w[i] * (x[i] - top) * scale over all w[i] > 0. */
    float (*weighted_logs)(const float *w, const float *x, size_t n, float top, float scale);
    /* out = the number of logits above -INFINITY, and the sums of their x - top and (x - top)^2 */
    void (*logit_moments)(float out[3], const float *x, size_t n, float top);
    /* The index of the first largest logit; ignores NaN unless all are NaN. */
    size_t (*largest_logit)(const float *x, size_t n);

    void (*fp16_to_fp32_array)(float *out, const uint16_t *in, size_t n);  /* [25] */
    void (*fp32_to_fp16_array)(uint16_t *out, const float *in, size_t n);
    /* scale = max|x| / 127 */
    void (*quantize_kv_8bit)(int8_t *out, float *scale, const float *in, size_t n);
    /* A code c of 4 or 2 bits stands for scale * (2c + 1 - 2^bits); scale is fp16, finite and not
     * negative, about that of least squares.  in, out: [qsf_kv_dim(n)], in has zeros after n.
     * Exactly equal in every variant, here and below. */
    void (*quantize_kv_levels)(uint8_t *out, uint16_t *scale, const float *in, size_t n, unsigned bits);
    /* n bytes with 8 / bits codes each become the numbers 2c + 1 - 2^bits: field f of a part (of 64
     * bytes; of 32 with 4 bits, 16 with 2) is the f-th part of its output. */
    void (*unpack_kv_levels)(int8_t *out, const uint8_t *in, size_t n, size_t part, unsigned bits);
} qsf_kernels;

/* Fills k from the sets in cpu (QSF_CPU_*), best last.  isa: NULL or "" for the best; else that set
 * and below.  QSF_E_UNSUPPORTED: no such set here. */
qsf_status qsf_kernels_init(qsf_kernels *k, uint32_t cpu, const char *isa, qsf_error *err);
/* The set that k's entry at byte `at` of the table comes from: "avx2" if avx512 does not replace
 * it. */
const char *qsf_kernels_set(const qsf_kernels *k, size_t at);

/* qsf_crc32 (base.h), by the fastest way that cpu has. */
typedef uint32_t qsf_crc32_fn(uint32_t crc, const void *p, size_t len);
qsf_crc32_fn *qsf_crc32_best(uint32_t cpu);

void qsf_kernels_scalar(qsf_kernels *k);     /* complete; each later call overrides what it does better */
void qsf_kernels_sse42(qsf_kernels *k);
void qsf_kernels_avx2(qsf_kernels *k);
void qsf_kernels_avxvnni(qsf_kernels *k);
void qsf_kernels_avx512(qsf_kernels *k);
void qsf_kernels_avx512vbmi(qsf_kernels *k);
void qsf_kernels_avx512bf16(qsf_kernels *k);
void qsf_kernels_amx(qsf_kernels *k);
void qsf_kernels_neon(qsf_kernels *k, uint32_t cpu);
void qsf_kernels_wasm(qsf_kernels *k, uint32_t cpu);
/* QSF_CPU_WASM*: what this module was compiled for and the engine under it computes as it
 * should, with tiles of these forms (bits).  The answer may change when the engine has
 * optimised the code that gave it. */
uint32_t qsf_cpu_wasm(uint64_t forms);

/* Begin and end of a part of a file that may use an instruction set the rest of the
 * program does not. */
#if defined(__clang__)
#  define QSF_TARGET_PRAGMA(x) _Pragma(#x)
#  define QSF_TARGET_BEGIN(set) \
    QSF_TARGET_PRAGMA(clang attribute push(__attribute__((target(set))), apply_to = function))
#  define QSF_TARGET_END _Pragma("clang attribute pop")
#elif defined(__GNUC__)
#  define QSF_TARGET_PRAGMA(x) _Pragma(#x)
#  define QSF_TARGET_BEGIN(set) _Pragma("GCC push_options") QSF_TARGET_PRAGMA(GCC target(set))
#  define QSF_TARGET_END _Pragma("GCC pop_options")
#endif

#endif
