/* Small random models as QSF files, for tests of the format and of the engine.
 * SPDX-License-Identifier: MIT
 *
 *   tiny_options o = tiny_defaults();  o.type = QSF_T_4BIT;  o.packing = 1;
 *   tiny_write(qsf_platform_native(), "/tmp/tiny.qsf", &o, &err)
 *
 * The same options give the same weights, whatever the packing and the compression are: outputs can
 * be compared.  Needs qsf_quantize_row, and malloc for the test's own memory. */
#ifndef QSF_MAKE_TINY_QSF_H
#define QSF_MAKE_TINY_QSF_H

#include "model/layer_record.h"
#include "model/qsf_write.h"
#include "tensor/quant.h"
#include "tensor/trellis.h"

#include <stdlib.h>

typedef struct tiny_options {
    qsf_hparams hp;
    uint8_t  type, embd_type, head_type;    /* of the layers' matrices, embedding, head */
    uint16_t block;
    uint8_t  packing;                       /* of what can be tiled */
    uint8_t  compression;
    bool     progressive;
    bool     biases, qk_norms, post_norms;
    bool     norm_last;                     /* the post norm of the FFN follows the experts */
    float    key_bias;                      /* deviation of the keys' biases; 0: as small as the others */
    bool     outliers;                      /* a few on every down projection */
    float    scales;                        /* not 0: of every matrix, which has the rest of the values */
    uint8_t  vocab;                         /* QSF_VOCAB_*: BPE needs hp.n_vocab >= 264, SPM >= 8 */
    uint64_t seed;
    const qsf_clusters *clusters;           /* of the head, or NULL */
    /* of the embedding, whose random values are then residuals; or NULL */
    const qsf_embd_clusters *embd_clusters;
    /* [n_vocab][n_embd] f32 values of the embedding instead of random ones, or NULL */
    const float *embd;
    uint32_t idle;                          /* 1 + a layer that adds next to nothing; 0: none */
} tiny_options;

/* A gated RMS model of two layers, tied, with a byte-level vocabulary. */
static inline tiny_options tiny_defaults(void)
{
    tiny_options o = {
        .hp = { .arch = "llama", .name = "tiny", .n_layers = 2, .n_embd = 64, .n_heads = 4, .n_kv_heads = 2,
                .head_dim = 16, .n_ff = 96,
                .n_vocab = 288, .n_ctx_train = 128, .norm = QSF_NORM_RMS, .act = QSF_ACT_SILU,
                .rope = QSF_ROPE_HALVES, .gated = true, .tied = true,
                .norm_eps = 1e-5f, .embd_scale = 1, .rope_base = 10000, .scaling_factor = 1,
                .yarn_ext_factor = -1, .yarn_attn_factor = 1,
                .yarn_beta_fast = 32, .yarn_beta_slow = 1 },
        .type = QSF_T_4BIT, .embd_type = QSF_T_8BIT, .head_type = QSF_T_8BIT, .block = 64, .packing = 1,
        .vocab = QSF_VOCAB_BPE, .seed = 1,
    };
    return o;
}

static inline double tiny_uniform(uint64_t *state)      /* splitmix64, [0, 1) */
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}
static inline float tiny_normal(uint64_t *state)        /* near enough: twelve uniforms */
{
    double sum = -6;
    for (int i = 0; i < 12; i++) sum += tiny_uniform(state);
    return (float)sum;
}

/* Tests write the same few models over and over, and the search for scales takes most of it:
 * rows once made stay. */
typedef struct tiny_rows {
    struct tiny_rows *next;
    uint64_t seed, after;                       /* of the random numbers */
    float mean, scale;
    uint32_t type, block, rows, cols;
    uint8_t *data;
} tiny_rows;

static tiny_rows *tiny_rows_made;

/* *data: normal values times scale plus mean, row after row.  It stays the list's. */
static inline qsf_status tiny_rows_get(const qsf_tensor *t, float mean, float scale, uint64_t *seed,
                                       const uint8_t **data, qsf_error *err)
{
    qsf_status st = QSF_OK;
    tiny_rows *m = tiny_rows_made;
    while (m && (m->seed != *seed || m->type != t->type || m->block != t->block || m->rows != t->rows
                 || m->cols != t->cols || m->mean != mean || m->scale != scale))
        m = m->next;
    if (!m) {
        float *row = malloc(t->cols * sizeof *row);
        m = malloc(sizeof *m);
        *m = (tiny_rows){ .next = tiny_rows_made, .seed = *seed, .after = *seed, .mean = mean, .scale = scale,
                          .type = t->type, .block = t->block,
                          .rows = t->rows, .cols = t->cols, .data = malloc((size_t)t->bytes) };
        for (uint32_t r = 0; r < t->rows && !st; r++) {
            for (uint32_t c = 0; c < t->cols; c++) row[c] = mean + scale * tiny_normal(&m->after);
            st = qsf_quantize_row(t->type, t->block, row, t->cols, NULL,
                                  m->data + t->bytes / t->rows * r, NULL, err);
        }
        free(row);
        tiny_rows_made = m;
        if (st) m->rows = 0;                    /* so it is not found */
    }
    *seed = m->after;
    *data = m->data;
    return st;
}

/* The same of a trellis, which has no rows of blocks. */
static inline qsf_status tiny_trellis(qsf_tensor *t, float mean, float scale, uint64_t *seed, qsf_error *err)
{
    const unsigned k = qsf_trellis_bits(t->type);
    const uint32_t blocks = (t->cols + 63) / 64;
    t->packing = 1;
    t->block = QSF_TRELLIS_BLOCK;
    const qsf_status st = qsf_tensor_bytes(t->type, 1, t->block, t->rows, t->cols, &t->bytes, err);
    if (st) return st;
    float *row = malloc(t->cols * sizeof *row);
    uint8_t *data = calloc(1, (size_t)t->bytes), *scales = malloc(65 * (size_t)blocks);
    for (uint32_t r = 0; r < t->rows; r++) {
        for (uint32_t c = 0; c < t->cols; c++) row[c] = mean + scale * tiny_normal(seed);
        qsf_trellis_quantize_row(k, row, t->cols, NULL, scales, scales + blocks);
        qsf_trellis_put_row(data + (size_t)(r / 16) * blocks * (16 + 128 * k), k, blocks, r % 16, scales,
                            scales + blocks);
    }
    free(row);
    free(scales);
    t->data = data;
    return QSF_OK;
}

/* A tensor of normal values times scale plus mean; t->data is malloc's. */
static inline qsf_status tiny_tensor(qsf_tensor *t, uint32_t kind, uint8_t type, uint16_t block,
                                     uint8_t packing, uint32_t rows, uint32_t cols, float mean, float scale,
                                     uint64_t *seed, qsf_error *err)
{
    qsf_status st;
    if (!qsf_type_tiles(type)) packing = 0;
    *t = (qsf_tensor){ .kind = kind, .type = type, .block = qsf_type_tiles(type) ? block : 1, .rows = rows,
                       .cols = cols };
    if (qsf_trellis_bits(type)) return tiny_trellis(t, mean, scale, seed, err);
    if ((st = qsf_tensor_bytes(type, 0, t->block, rows, cols, &t->bytes, err))) return st;
    const uint8_t *made;
    if ((st = tiny_rows_get(t, mean, scale, seed, &made, err))) return st;
    uint8_t *data = malloc((size_t)t->bytes);
    memcpy(data, made, (size_t)t->bytes);
    t->data = data;
    if (packing) {
        qsf_tensor rowwise = *t;
        t->packing = 1;
        st = qsf_tensor_bytes(type, 1, t->block, rows, cols, &t->bytes, err);
        uint8_t *tiles = malloc((size_t)t->bytes);
        qsf_pack_tiles(&rowwise, tiles);
        free(data);
        t->data = tiles;
    }
    return st;
}

/* The number that a whole matrix is multiplied with. */
static inline qsf_status tiny_put_scale(qsf_writer *w, uint32_t kind, float scale, qsf_error *err)
{
    uint8_t bytes[4];
    const qsf_tensor t = { .kind = QSF_K_SCALE + kind, .type = QSF_T_F32, .block = 1, .rows = 1, .cols = 1,
                           .bytes = sizeof bytes, .data = bytes };
    qsf_put32(bytes, qsf_f32_bits(scale));
    return qsf_writer_tensor(w, &t, err);
}

static inline qsf_status tiny_put(qsf_writer *w, const tiny_options *o, uint32_t kind, uint8_t type,
                                  uint32_t rows, uint32_t cols, float mean, float scale, uint64_t *seed,
                                  qsf_error *err)
{
    qsf_tensor t = { 0 };
    const bool apart = o->scales != 0 && rows > 1 && kind != QSF_K_POS_EMBD;
    if (apart) scale /= o->scales;
    qsf_status st = tiny_tensor(&t, kind, type, o->block, o->packing, rows, cols, mean, scale, seed, err);
    if (!st) st = qsf_writer_tensor(w, &t, err);
    if (!st && apart) st = tiny_put_scale(w, kind, o->scales, err);
    free((void *)(uintptr_t)t.data);
    return st;
}

/* Two values a row for the first rows of a matrix, as QSF_T_SPARSE. */
static inline qsf_status tiny_put_outliers(qsf_writer *w, uint32_t kind, uint32_t rows, uint32_t cols,
                                           uint64_t *seed, qsf_error *err)
{
    const uint32_t with = rows < 3 ? rows : 3, n = 2 * with;
    qsf_tensor t = { .kind = QSF_K_OUTLIERS + kind, .type = QSF_T_SPARSE, .block = 1, .rows = rows,
                     .cols = n };
    qsf_status st = qsf_tensor_bytes(t.type, 0, 1, rows, n, &t.bytes, err);
    if (st) return st;
    uint8_t *p = calloc(1, (size_t)t.bytes);
    for (uint32_t r = 0; r <= rows; r++) qsf_put32(p + 4 * r, r < with ? 2 * r : n);
    for (uint32_t i = 0; i < n; i++) {
        qsf_put32(p + 4 * (rows + 1) + 4 * i, (i * 7 + 1) % cols);
        qsf_put16(p + 4 * (rows + 1) + 4 * n + 2 * i, qsf_f32_to_f16(tiny_normal(seed)));
    }
    t.data = p;
    st = qsf_writer_tensor(w, &t, err);
    free(p);
    return st;
}

typedef struct tiny_part { uint32_t kind; bool want; uint32_t rows, cols; float mean, scale; } tiny_part;
static inline qsf_status tiny_put_parts(qsf_writer *w, const tiny_options *o, const tiny_part *parts,
                                        size_t n, uint64_t *seed, qsf_error *err)
{
    qsf_status st = QSF_OK;
    for (size_t i = 0; i < n && !st; i++)
        if (parts[i].want)
            st = tiny_put(w, o, parts[i].kind, parts[i].rows == 1 ? QSF_T_F16 : o->type, parts[i].rows,
                          parts[i].cols, parts[i].mean, parts[i].scale, seed, err);
    return st;
}

/* RWKV's tensors besides those that other models have, too. */
static inline qsf_status tiny_put_rwkv(qsf_writer *w, const tiny_options *o, uint32_t layer, uint64_t *seed,
                                       qsf_error *err)
{
    const qsf_hparams *h = &o->hp;
    const uint32_t n = h->n_embd;
    const bool later = layer != 0;
    const tiny_part parts[] = {
        { QSF_K_MIX_LERP, true, 1, 6 * n, 0.5f, 0.2f },
        { QSF_K_MIX_KEY, true, n, n, 0, 0.2f }, { QSF_K_MIX_VALUE, true, n, n, 0, 0.2f },
        { QSF_K_MIX_FIRST_IN, later, h->mix_first, n, 0, 0.2f },
        { QSF_K_MIX_FIRST_OUT, later, n, h->mix_first, 0, 0.2f },
        { QSF_K_MIX_FIRST_BIAS, later, 1, n, 0, 0.3f }, { QSF_K_MIX_RATE_IN, true, h->mix_rate, n, 0, 0.2f },
        { QSF_K_MIX_RATE_OUT, true, n, h->mix_rate, 0, 0.2f }, { QSF_K_MIX_RATE_BIAS, true, 1, n, 0, 0.3f },
        { QSF_K_MIX_GATE_IN, true, h->mix_gate, n, 0, 0.2f },
        { QSF_K_MIX_GATE_OUT, true, n, h->mix_gate, 0, 0.2f },
        { QSF_K_MIX_KEY_OUT, true, 1, n, 0.8f, 0.1f }, { QSF_K_MIX_KEY_RATE, true, 1, n, 1, 0.1f },
        { QSF_K_MIX_NORM_BIAS, true, 1, n, 0, 0.1f }, { QSF_K_FFN_LERP, true, 1, n, 0.5f, 0.2f },
    };
    return tiny_put_parts(w, o, parts, QSF_ARRAY_LEN(parts), seed, err);
}

static inline qsf_status tiny_put_plamo(qsf_writer *w, const tiny_options *o, uint64_t *seed, qsf_error *err)
{
    const tiny_part parts[] = {
        { QSF_K_MIX_STEP_NORM, true, 1, o->hp.mix_rate, 1, 0.1f },
        { QSF_K_MIX_WRITE_NORM, true, 1, o->hp.mix_state, 1, 0.1f },
        { QSF_K_MIX_READ_NORM, true, 1, o->hp.mix_state, 1, 0.1f },
    };
    return tiny_put_parts(w, o, parts, QSF_ARRAY_LEN(parts), seed, err);
}

/* Sizes of a mixer with state: columns that it makes and is given, its convolution's, and those
 * that narrow steps are made of. */
typedef struct tiny_mix { uint32_t inner, heads, channels, in, rank; } tiny_mix;
static inline tiny_mix tiny_mix_of(const qsf_hparams *h, uint8_t mixer)
{
    const bool conv = mixer == QSF_MIXER_SHORT_CONV, slow = mixer == QSF_MIXER_MAMBA;
    const bool rwkv = mixer == QSF_MIXER_RWKV, plamo = mixer == QSF_MIXER_PLAMO;
    tiny_mix x = { .inner = conv ? h->n_embd : h->mix_inner, .rank = plamo ? h->mix_rate : h->mix_heads };
    x.heads = slow || rwkv ? x.inner : h->mix_heads;
    x.channels = conv || slow || plamo ? x.inner : x.inner + 2 * h->mix_groups * h->mix_state;
    x.in = rwkv ? h->n_embd : conv ? 3 * h->n_embd : mixer == QSF_MIXER_DELTA_NET ? x.channels
        : slow ? 2 * x.inner : plamo ? x.inner : x.inner + x.channels + x.heads;
    return x;
}

/* Kinds and shapes are written out, not taken from core/model/roles.c: a wrong row there shows. */
static inline qsf_status tiny_layer(qsf_writer *w, const tiny_options *o, uint32_t layer, uint64_t *seed,
                                    qsf_error *err)
{
    const qsf_hparams *h = &o->hp;
    const uint32_t embd = h->n_embd, q = h->n_heads * h->head_dim, kv = h->n_kv_heads * h->head_dim,
        experts = h->n_experts, ff = experts ? h->n_ff_shared : h->n_ff;
    const uint8_t mixer = h->mixers ? h->mixers[layer] : QSF_MIXER_ATTENTION;
    const bool ln = h->norm == QSF_NORM_LAYER;
    const bool attends = mixer == QSF_MIXER_ATTENTION || mixer == QSF_MIXER_MAMBA2_BESIDE;
    const bool state = mixer > QSF_MIXER_NONE;
    const bool delta = mixer == QSF_MIXER_DELTA_NET, slow = mixer == QSF_MIXER_MAMBA;
    const bool rwkv = mixer == QSF_MIXER_RWKV, plamo = mixer == QSF_MIXER_PLAMO;
    const bool steps = slow || rwkv || plamo;
    const bool mamba = slow || plamo || qsf_mixer_is_mamba2(mixer), sums = mamba || delta || rwkv;
    const bool shifted = h->feed_forwards && h->feed_forwards[layer] == QSF_FEED_FORWARD_SHIFTED;
    const tiny_mix x = tiny_mix_of(h, mixer);
    const float out = o->idle == layer + 1 ? 0.001f : 0.2f;
    const tiny_part plan[] = {
        { QSF_K_ATTN_NORM, true, 1, embd, 1, 0.1f }, { QSF_K_ATTN_NORM_BIAS, ln, 1, embd, 0, 0.1f },
        { QSF_K_ATTN_Q, attends, h->attn_gate ? 2 * q : q, embd, 0, 0.2f },
        { QSF_K_ATTN_K, attends, kv, embd, 0, 0.2f },
        { QSF_K_ATTN_V, attends, kv, embd, 0, 0.2f }, { QSF_K_ATTN_Q_BIAS, o->biases, 1, q, 0, 0.1f },
        { QSF_K_ATTN_K_BIAS, o->biases, 1, kv, 0, o->key_bias > 0 ? o->key_bias : 0.1f },
        { QSF_K_ATTN_V_BIAS, o->biases, 1, kv, 0, 0.1f },
        { QSF_K_Q_NORM, o->qk_norms, 1, h->head_dim, 1, 0.1f },
        { QSF_K_K_NORM, o->qk_norms, 1, h->head_dim, 1, 0.1f },
        { QSF_K_ATTN_OUT, attends, embd, q, 0, out }, { QSF_K_ATTN_OUT_BIAS, o->biases, 1, embd, 0, 0.1f },
        { QSF_K_MIX_IN, state, x.in, embd, 0, 0.2f },
        { QSF_K_MIX_CONV, state && !rwkv, 1, x.channels * h->mix_conv, 0, 0.4f },
        { QSF_K_MIX_CONV_BIAS, mamba, 1, x.channels, 0, 0.1f },
        { QSF_K_MIX_STEP_BIAS, sums, 1, x.heads, -1, 0.3f },
        { QSF_K_MIX_DECAY, sums && !rwkv, 1, slow ? x.heads * h->mix_state : x.heads, -1, 0.1f },
        { QSF_K_MIX_SKIP, mamba || rwkv, 1, x.heads, 1, 0.1f },
        { QSF_K_MIX_X, steps, x.rank + (rwkv ? 0 : 2 * h->mix_state), x.inner, 0, 0.2f },
        { QSF_K_MIX_STEP, steps, x.heads, x.rank, 0, 0.2f },
        { QSF_K_MIX_GATE, delta || plamo, x.inner, embd, 0, 0.2f },
        { QSF_K_MIX_BETA, delta, x.heads, embd, 0, 0.2f },
        { QSF_K_MIX_ALPHA, delta, x.heads, embd, 0, 0.2f },
        { QSF_K_MIX_NORM, sums && !slow && !plamo, 1, delta ? h->mix_state : x.inner, 1, 0.1f },
        { QSF_K_MIX_OUT, state, embd, x.inner, 0, 0.2f },
        { QSF_K_ATTN_POST_NORM, o->post_norms, 1, embd, 1, 0.1f },
        { QSF_K_FFN_NORM, true, 1, embd, 1, 0.1f }, { QSF_K_FFN_NORM_BIAS, ln, 1, embd, 0, 0.1f },
        { QSF_K_FFN_GATE, h->gated && ff && !shifted, ff, embd, 0, 0.2f },
        { QSF_K_FFN_UP, ff, ff, embd, 0, 0.2f },
        { QSF_K_FFN_UP_BIAS, o->biases, 1, ff, 0, 0.1f }, { QSF_K_FFN_DOWN, ff, embd, ff, 0, out },
        { QSF_K_FFN_DOWN_BIAS, o->biases, 1, embd, 0, 0.1f },
        { QSF_K_ROUTER, experts, experts, embd, 0, 0.3f },
        { QSF_K_FFN_POST_NORM, o->post_norms && !o->norm_last, 1, embd, 1, 0.1f },
        { QSF_K_EXPERT_GATE, experts && h->gated, experts * h->n_ff_expert, embd, 0, 0.2f },
        { QSF_K_EXPERT_UP, experts, experts * h->n_ff_expert, embd, 0, 0.2f },
        { QSF_K_EXPERT_DOWN, experts, experts * embd, h->n_ff_expert, 0, out },
        { QSF_K_FFN_POST_NORM, o->post_norms && o->norm_last, 1, embd, 1, 0.1f },
    };
    qsf_status st = qsf_writer_unit_begin(w, layer, err);
    if (!st) st = tiny_put_parts(w, o, plan, QSF_ARRAY_LEN(plan), seed, err);
    if (!st && rwkv) st = tiny_put_rwkv(w, o, layer, seed, err);
    if (!st && plamo) st = tiny_put_plamo(w, o, seed, err);
    if (!st && o->outliers && ff) st = tiny_put_outliers(w, QSF_K_FFN_DOWN, embd, ff, seed, err);
    return st ? st : qsf_writer_unit_end(w, 1, err);
}

/* Given values consume as many random numbers as others: the weights after them stay the same. */
static inline qsf_status tiny_put_embd(qsf_writer *w, const tiny_options *o, uint64_t *seed, qsf_error *err)
{
    const uint32_t rows = o->hp.n_vocab, cols = o->hp.n_embd;
    if (!o->embd) return tiny_put(w, o, QSF_K_TOKEN_EMBD, o->embd_type, rows, cols, 0, 1, seed, err);
    const qsf_tensor t = { .kind = QSF_K_TOKEN_EMBD, .type = QSF_T_F32, .block = 1, .rows = rows,
                           .cols = cols, .bytes = (uint64_t)rows * cols * sizeof(float), .data = o->embd };
    for (uint64_t i = 0; i < (uint64_t)rows * cols; i++) (void)tiny_normal(seed);
    return qsf_writer_tensor(w, &t, err);
}

static inline qsf_status tiny_units(qsf_writer *w, const tiny_options *o, qsf_error *err)
{
    const qsf_hparams *h = &o->hp;
    uint64_t seed = o->seed;
    qsf_status st;
    if ((st = qsf_writer_unit_begin(w, h->n_layers, err))) return st;
    if ((st = tiny_put_embd(w, o, &seed, err))) return st;
    if (h->learned_pos && (st = tiny_put(w, o, QSF_K_POS_EMBD, o->embd_type, h->n_ctx_train, h->n_embd, 0,
                                         0.5f, &seed, err)))
        return st;
    if ((st = qsf_writer_unit_end(w, 1, err))) return st;
    for (uint32_t i = 0; i < h->n_layers; i++)
        if ((st = tiny_layer(w, o, i, &seed, err))) return st;
    if ((st = qsf_writer_unit_begin(w, qsf_unit_number(h->n_layers, qsf_id_final()), err))) return st;
    if ((st = tiny_put(w, o, QSF_K_OUTPUT_NORM, QSF_T_F16, 1, h->n_embd, 1, 0.1f, &seed, err))) return st;
    if (h->norm == QSF_NORM_LAYER && (st = tiny_put(w, o, QSF_K_OUTPUT_NORM_BIAS, QSF_T_F16, 1, h->n_embd, 0,
                                                    0.1f, &seed, err)))
        return st;
    if (!h->tied && (st = tiny_put(w, o, QSF_K_OUTPUT, o->head_type, h->n_vocab, h->n_embd, 0, 1,
                                   &seed, err)))
        return st;
    if (o->biases && (st = tiny_put(w, o, QSF_K_OUTPUT_BIAS, QSF_T_F16, 1, h->n_vocab, 0, 0.5f, &seed, err)))
        return st;
    return qsf_writer_unit_end(w, 1, err);
}

/* ---- the vocabulary ---- */

/* GPT-2's letter for a byte, as UTF-8. */
static inline size_t tiny_byte_letter(uint32_t byte, char out[2])
{
    uint32_t cp = byte, hidden = 0;
    for (uint32_t b = 0; b <= byte; b++) {
        const bool shown = (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
        if (!shown && b == byte) cp = 256 + hidden;
        hidden += !shown;
    }
    if (cp < 128) {
        out[0] = (char)cp;
        return 1;
    }
    out[0] = (char)(0xc0 | cp >> 6);
    out[1] = (char)(0x80 | (cp & 63));
    return 2;
}

/* BPE: 256 bytes, "<s>", "</s>", then merges of letters, then fillers.
 * SPM: <unk>, <s>, </s>, letters with scores. */
static inline void tiny_vocab(const tiny_options *o, qsf_vocab *v)
{
    static const char *const merges[][2] =
        { { "t", "h" }, { "th", "e" }, { "i", "n" }, { "a", "n" }, { "an", "d" }, { "e", "r" } };
    const uint32_t n = o->hp.n_vocab;
    *v = (qsf_vocab){ .bos = -1, .eos = -1, .eot = -1, .unk = -1, .pad = -1, .kind = o->vocab };
    if (o->vocab == QSF_VOCAB_NONE) return;
    const bool bpe = o->vocab == QSF_VOCAB_BPE;
    v->n_tokens = n;
    v->text = malloc(16 * (size_t)n);
    v->at = calloc(n + 1, sizeof *v->at);
    v->types = malloc(n);
    memset(v->types, QSF_TOKEN_NORMAL, n);
    v->scores = bpe ? NULL : calloc(n, sizeof *v->scores);
    v->merges = bpe ? calloc(QSF_ARRAY_LEN(merges), 2 * sizeof *v->merges) : NULL;
    strcpy(v->pre, bpe ? "gpt-2" : "default");
    for (uint32_t i = 0; i < n; i++) {
        char *to = v->text + v->at[i];
        size_t len;
        const uint32_t m = bpe ? i - 258 : i - 3;
        if (bpe && i < 256) len = tiny_byte_letter(i, to);
        else if (bpe && m < QSF_ARRAY_LEN(merges))
            len = qsf_format(to, 16, "%s%s", merges[m][0], merges[m][1]);
        else if (!bpe && i >= 3 && m < 26) len = qsf_format(to, 16, "%c", 'a' + (int)m);
        else
            len = qsf_format(to, 16, i == (bpe ? 256u : 1) ? "<s>" : i == (bpe ? 257u : 2) ? "</s>" : i == 0
                             ? "<unk>" : "<x%u>", (unsigned)i);
        if (to[0] == '<' && len > 1) v->types[i] = QSF_TOKEN_CONTROL;
        if (v->scores) v->scores[i] = i < 3 ? 0 : -(float)i;
        v->at[i + 1] = v->at[i] + (uint32_t)len;
    }
    v->bos = bpe ? 256 : 1;
    v->eos = bpe ? 257 : 2;
    v->unk = bpe ? -1 : 0;
    for (size_t m = 0; bpe && m < QSF_ARRAY_LEN(merges); m++, v->n_merges++)
        for (int side = 0; side < 2; side++)
            for (uint32_t i = 0; i < n; i++)
                if (v->at[i + 1] - v->at[i] == strlen(merges[m][side])
                    && !memcmp(v->text + v->at[i], merges[m][side], strlen(merges[m][side])))
                    v->merges[2 * m + (size_t)side] = i;
}

static inline void tiny_vocab_free(qsf_vocab *v)
{
    free(v->text);
    free(v->at);
    free(v->types);
    free(v->scores);
    free(v->merges);
}

static inline qsf_status tiny_write(const qsf_platform *p, const char *path, const tiny_options *o,
                                    qsf_error *err)
{
    qsf_vocab v;
    qsf_writer *w = NULL;
    uint64_t bytes;
    static char template[] = "{% for m in messages %}{{ m.content }}{% endfor %}";
    const qsf_meta meta[] = { { "source", "tests/tools/make_tiny_qsf.h" } };
    const qsf_write_options wo = { .default_type = o->type <= QSF_T_MIXED ? o->type : QSF_T_MIXED,
                                   .compression = o->compression, .progressive = o->progressive,
                                   .max_tensors = 40 * (o->hp.n_layers + 1),
                                   .clusters = o->clusters,
                                   .embd_clusters = o->embd_clusters };
    tiny_vocab(o, &v);
    if (v.kind != QSF_VOCAB_NONE) v.chat_template = template;
    qsf_status st = qsf_writer_new(p, path, &o->hp, &v, meta, 1, &wo, &w, err);
    tiny_vocab_free(&v);
    if (st) return st;
    if ((st = tiny_units(w, o, err))) {
        qsf_writer_abort(w);
        return st;
    }
    return qsf_writer_commit(w, &bytes, err);
}

#endif
