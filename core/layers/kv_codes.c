/* Keys and values as codes of 8, 4 or 2 bits: how they are stored, and how a block of fewer bits
 * becomes one of 8-bit codes, which attention takes.
 * SPDX-License-Identifier: MIT
 *
 * Below 8 bits a code c of b bits stands for the odd number 2c + 1 - 2^b, times the position's
 * scale (fp16).  Keys and values come mixed by a Hadamard transform (attention.c), after which
 * their numbers are spread like a bell: there the scale of least squares, which lets a few large
 * numbers be cut, is better than the one that holds the largest.
 *
 * Codes lie as the 8-bit ones of kernels.h do, with 8/b of them in a byte.  They are of one
 * position, so that threads that store neighbouring positions never write the same byte: in keys,
 * of vectors that follow each other; in values, of parts of one vector. */
#include "layers/kv_codes.h"

enum { KV_VECTOR = 64 };

/* Bytes of a part of 8-bit codes: field f of a byte belongs to the f-th part after its own. */
static size_t key_part(void) { return KV_VECTOR; }
static size_t value_part(unsigned bits) { return KV_VECTOR * bits / 8; }

/* Both write whole bytes, since all codes of a byte are here. */
static void put_key(uint8_t *record, size_t i, const uint8_t *codes, size_t dim, unsigned bits)
{
    const size_t fields = 8 / bits;
    uint8_t *to = record + i / 16 * (16 * dim / fields) + i % 16 * 4;
    for (size_t d = 0; d < dim; d += 4 * fields, to += key_part()) {
        uint32_t four = 0;
        for (unsigned f = 0; f < fields; f++) {
            uint32_t more;
            memcpy(&more, codes + d + 4 * f, sizeof more);
            four |= more << f * bits;
        }
        memcpy(to, &four, sizeof four);
    }
}
static void put_value(uint8_t *values, size_t i, const uint8_t *codes, size_t dim, unsigned bits)
{
    const size_t part = value_part(bits);
    for (size_t d = 0; d < dim; d += 16)
        for (size_t r = 0; r < part / 4; r++) {
            unsigned byte = 0;
            for (unsigned f = 0; f < 8 / bits; f++)
                byte |= (unsigned)codes[d + f * (part / 4) + r] << f * bits;
            values[(d / 16 * (QSF_KV_BLOCK / 4) + i / 4) * part + r * 4 + i % 4] = (uint8_t)byte;
        }
}

/* x[n] padded with zeros to whole vectors; copied to own if it needs padding. */
static const float *whole_vector(float *own, const float *x, size_t n)
{
    if (n == qsf_kv_dim(n)) return x;
    memset(own, 0, qsf_kv_dim(n) * sizeof *own);
    return memcpy(own, x, n * sizeof *own);
}

/* Each of the two, whose codes lie at `to` and whose scales at `scale`. */
static void store_key(const qsf_kernels *kn, uint8_t *to, uint8_t *scale, size_t i, const float *k, size_t n,
                      unsigned bits)
{
    int8_t whole[QSF_MAX_HEAD_DIM + 16];
    float padded[QSF_MAX_HEAD_DIM + 16];
    uint8_t *const codes = (uint8_t *)whole;
    const size_t dim = qsf_kv_dim(n);
    if (bits == 8) {
        memset(whole + n, 0, dim - n);
        kn->quantize_kv_8bit(whole, (float *)(void *)scale + i, k, n);
        for (size_t d = 0; d < dim; d += 4) memcpy(to + qsf_kv_k_at(i, d, dim), whole + d, 4);
    } else {
        kn->quantize_kv_levels(codes, (uint16_t *)(void *)scale + i, whole_vector(padded, k, n), n, bits);
        put_key(to, i, codes, dim, bits);
    }
}
static void store_value(const qsf_kernels *kn, uint8_t *to, uint8_t *scale, size_t i, const float *v,
                        size_t n, unsigned bits)
{
    int8_t whole[QSF_MAX_HEAD_DIM + 16];
    float padded[QSF_MAX_HEAD_DIM + 16];
    uint8_t *const codes = (uint8_t *)whole;
    const size_t dim = qsf_kv_dim(n);
    if (bits == 8) {
        memset(whole + n, 0, dim - n);
        kn->quantize_kv_8bit(whole, (float *)(void *)scale + i, v, n);
        for (size_t d = 0; d < dim; d++) to[qsf_kv_v_at(i, d)] = codes[d];
    } else {
        kn->quantize_kv_levels(codes, (uint16_t *)(void *)scale + i, whole_vector(padded, v, n), n, bits);
        put_value(to, i, codes, dim, bits);
    }
}

static void kv_store_codes(const qsf_kv_layout *l, const qsf_kernels *kn, uint8_t *record, size_t i,
                           const float *k, const float *v)
{
    store_key(kn, record, record + l->kd_at, i, k, l->head_dim, l->k_bits);
    store_value(kn, record + l->v_at, record + l->vd_at, i, v, l->head_dim, l->v_bits);
}

qsf_kv_codes qsf_kv_unpack(const qsf_kv_layout *l, const qsf_kernels *kn, const uint8_t *record,
                           uint8_t *scratch)
{
    const size_t codes = QSF_KV_BLOCK * qsf_kv_dim(l->head_dim);
    const uint8_t *const v = record + l->v_at, *const kd = record + l->kd_at, *const vd = record + l->vd_at;
    int8_t *const own_k = (int8_t *)scratch, *const own_v = own_k + codes;
    float *const own_kd = (float *)(void *)(scratch + 2 * codes), *const own_vd = own_kd + QSF_KV_BLOCK;
    const size_t k_bytes = l->v_at, v_bytes = l->kd_at - l->v_at;
    qsf_kv_codes c = { (const int8_t *)record, (const int8_t *)v, (const float *)(const void *)kd,
                       (const float *)(const void *)vd };
    if (qsf_kv_packed(l->k_bits)) {
        kn->unpack_kv_levels(own_k, record, k_bytes, key_part(), l->k_bits);
        kn->fp16_to_fp32_array(own_kd, (const uint16_t *)(const void *)kd, QSF_KV_BLOCK);
        c.k = own_k;
        c.kd = own_kd;
    }
    if (qsf_kv_packed(l->v_bits)) {
        kn->unpack_kv_levels(own_v, v, v_bytes, value_part(l->v_bits), l->v_bits);
        kn->fp16_to_fp32_array(own_vd, (const uint16_t *)(const void *)vd, QSF_KV_BLOCK);
        c.v = own_v;
        c.vd = own_vd;
    }
    return c;
}

/* ---- attention ---- */

static void kv_begin_codes(const qsf_kv_layout *l, const qsf_kernels *kn, qsf_kv_work *w)
{
    const size_t hd = l->head_dim, dim = qsf_kv_dim(hd);
    for (size_t v = 0; v < w->vectors; v++) {
        int8_t *codes = w->qc + v * dim;
        kn->quantize_kv_8bit(codes, &w->qd[v], w->q + v * hd, hd);
        memset(codes + hd, 0, dim - hd);
        w->qs[v] = 0;
        for (size_t d = 0; d < hd; d++) w->qs[v] += codes[d];
    }
}

static void kv_scores_codes(const qsf_kv_layout *l, const qsf_kernels *kn, qsf_kv_work *w,
                            const uint8_t *record, size_t n)
{
    const int8_t *ahead = l->k_bits == 8 ? (const int8_t *)w->ahead : NULL;
    w->codes = qsf_kv_unpack(l, kn, record, w->unpacked);
    kn->attention_scores_q8(w->s, QSF_KV_BLOCK, w->qc, w->qd, w->qs, w->codes.k, w->codes.kd, n,
                            qsf_kv_dim(l->head_dim), w->vectors, w->scale, ahead);
}

static void kv_softmax_codes(const qsf_kernels *kn, const qsf_kv_work *w, size_t first, size_t vectors,
                             size_t n, float *m, float *l)
{
    kn->attention_softmax_q8(w->pc + first * QSF_KV_BLOCK, w->pd + first, w->s + first * QSF_KV_BLOCK,
                             QSF_KV_BLOCK, w->codes.vd, n, vectors, w->factor + first, m + first, l + first);
}

static void kv_sum_codes(const qsf_kv_layout *l, const qsf_kernels *kn, qsf_kv_work *w, const uint8_t *record,
                         size_t n)
{
    const int8_t *ahead = l->v_bits == 8 && w->ahead ? (const int8_t *)w->ahead + l->v_at : NULL;
    (void)record;       /* its codes are in hand */
    (void)n;
    kn->attention_weighted_sum_q8(w->o, w->factor, w->pc, w->pd, w->codes.v, l->head_dim, w->vectors, ahead);
}

const qsf_kv_ops qsf_kv_code_ops = { kv_store_codes, kv_begin_codes, kv_scores_codes,
                                     kv_softmax_codes, kv_sum_codes };
