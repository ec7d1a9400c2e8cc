/* Where each buffer of a batch lies.
 * SPDX-License-Identifier: MIT */
#include "layers/buffers.h"
#include "layers/batch.h"
#include "layers/key_bias.h"
#include "layers/kv_attention.h"
#include "layers/needs.h"
#include "layers/rope.h"

static uint8_t *carve(uint8_t *base, uint64_t *at, uint64_t n, uint64_t size)
{
    uint8_t *p = base ? base + *at : NULL;
    *at += qsf_round_up(n * size, 64);
    return p;
}
#define CARVE(type, n) ((type *)(void *)carve(base, &at, (n), sizeof(type)))

/* Products write 16 columns of many rows one after another: rows that lie a multiple of a kilobyte
 * apart would fight for the same few lines of the caches. */
static size_t ld_apart(size_t cols)
{
    const size_t ld = qsf_round_up(cols, QSF_TILE_ROWS);
    return ld && ld % 256 == 0 ? ld + QSF_TILE_ROWS : ld;
}
/* Slots of a wave for each row of a batch: with few, threads wait for each other too often. */
enum { EXPERT_WAVE = 2 };

/* What rows of programs name, as wide as the widest of them needs it. */
static uint64_t layout_named(qsf_buffers *b, uint8_t *base, uint64_t at, const qsf_needs *n, uint64_t rows)
{
    uint8_t *const members = (uint8_t *)(void *)b;
    for (uint32_t i = 0; i < QSF_N_BUFFERS; i++) {      /* several may have one distance of rows */
        const qsf_buffer_place *p = &qsf_buffer_places[i];
        size_t *ld = (size_t *)(void *)(members + p->ld);
        if (n->cols[i]) *ld = QSF_MAX(*ld, p->tight ? n->cols[i] : ld_apart(n->cols[i]));
    }
    for (uint32_t i = 0; i < QSF_N_BUFFERS; i++) {
        const qsf_buffer_place *p = &qsf_buffer_places[i];
        const size_t ld = *(size_t *)(void *)(members + p->ld);
        float **x = (float **)(void *)(members + p->at);
        if (n->cols[i]) *x = CARVE(float, (i < QSF_BUF_SLOT_X ? rows : b->n_slots) * ld);
    }
    return at;
}

static uint64_t layout_codes(qsf_act *act, uint8_t *base, uint64_t at, uint64_t rows, uint64_t cols)
{
    act->q = CARVE(int8_t, rows * cols);
    act->d = CARVE(float, rows * cols / 64);
    act->s = CARVE(float, rows * cols / 32);
    act->h = CARVE(int16_t, rows * cols / 8);
    return at;
}

/* Which experts rows take, and their slots. */
static uint64_t layout_experts(qsf_buffers *b, uint8_t *base, uint64_t at, const qsf_layer_most *most,
                               uint64_t rows)
{
    const uint64_t slots = rows * most->n_used;
    b->chosen = CARVE(uint32_t, slots);
    b->chosen_weight = CARVE(float, slots);
    b->slot_of = CARVE(uint32_t, slots);
    b->shared_weight = CARVE(float, rows);
    b->expert_count = CARVE(uint32_t, most->n_experts);
    b->expert_list = CARVE(uint32_t, most->n_experts);
    b->expert_first = CARVE(uint32_t, most->n_experts + 1);
    b->slot_row = CARVE(uint32_t, slots);
    b->slot_expert = CARVE(uint32_t, slots);
    return layout_codes(&b->slot_act, base, at, b->n_slots, b->max_cols);
}

uint64_t qsf_buffers_layout(qsf_buffers *b, uint8_t *base, const qsf_source *s, const qsf_needs *n,
                            const qsf_context_options *o)
{
    const uint64_t rows = qsf_rows_most(o);
    *b = (qsf_buffers){ .ld_vocab = qsf_round_up(s->hp.n_vocab, 16), .max_cols = qsf_act_cols(n->widest) };
    if (s->most.n_experts) b->n_slots = QSF_MAX(EXPERT_WAVE * rows, s->most.n_used);
    for (uint32_t i = 0; i < n->n_scratches; i++)
        b->ld_scratch = QSF_MAX(b->ld_scratch, n->scratches[i](s, o));
    uint64_t at = layout_named(b, base, 0, n, rows);
    b->logits = CARVE(float, o->n_logits * b->ld_vocab);
    b->angles = CARVE(float, 2 * rows * qsf_ropes_half(s));
    b->float_rows = CARVE(float, o->n_threads * QSF_TILE_ROWS * b->max_cols);
    b->scratch = CARVE(float, o->n_threads * b->ld_scratch);
    if (qsf_bias_apart(s, o->kv_type)) {
        const uint64_t half = qsf_ropes_half(s);
        b->bias_back = CARVE(float, qsf_ceil_div(o->n_ctx, QSF_KV_BLOCK) * 2 * half);
        b->bias_steps = CARVE(uint16_t, QSF_KV_BLOCK * 2 * half);
    }
    b->kv_attention = CARVE(float, o->n_threads * qsf_kv_attention_floats(s, o));
    at = layout_codes(&b->act, base, at, rows, b->max_cols);
    return s->most.n_experts ? layout_experts(b, base, at, &s->most, rows) : at;
}
#undef CARVE
