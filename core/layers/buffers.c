/* Where each buffer of a batch lies.
 * SPDX-License-Identifier: MIT */
#include "layers/buffers.h"
#include "layers/attention.h"
#include "layers/batch.h"
#include "layers/key_bias.h"
#include "layers/kv_attention.h"
#include "layers/rope.h"
#include "layers/router.h"

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
/* A slot's results may begin within a tile. */
static size_t ld_slot(size_t cols) { return ld_apart(cols + QSF_TILE_ROWS - 1); }

/* Slots of a wave for each row of a batch: with few, threads wait for each other too often. */
enum { EXPERT_WAVE = 2 };

static uint64_t layout_experts(qsf_buffers *b, uint8_t *base, uint64_t at, const qsf_source *s, uint64_t rows)
{
    const qsf_layer_most *most = &s->most;
    const uint64_t slots = rows * most->n_used;
    b->n_slots = QSF_MAX(EXPERT_WAVE * rows, most->n_used);
    b->ld_route = qsf_round_up(qsf_router_floats(most->n_experts), 16);
    b->ld_slot_x = ld_slot(s->hp.n_embd);
    b->ld_slot = ld_slot(most->n_ff);
    b->route = CARVE(float, rows * b->ld_route);
    b->chosen = CARVE(uint32_t, slots);
    b->chosen_weight = CARVE(float, slots);
    b->slot_of = CARVE(uint32_t, slots);
    b->shared_weight = CARVE(float, rows);
    b->experts = CARVE(float, rows * b->ld_embd);
    b->expert_count = CARVE(uint32_t, most->n_experts);
    b->expert_list = CARVE(uint32_t, most->n_experts);
    b->expert_first = CARVE(uint32_t, most->n_experts + 1);
    b->slot_row = CARVE(uint32_t, slots);
    b->slot_expert = CARVE(uint32_t, slots);
    b->slot_x = CARVE(float, b->n_slots * b->ld_slot_x);
    b->slot_gate = CARVE(float, b->n_slots * b->ld_slot);
    b->slot_up = CARVE(float, b->n_slots * b->ld_slot);
    b->slot_act.q = CARVE(int8_t, b->n_slots * b->max_cols);
    b->slot_act.d = CARVE(float, b->n_slots * b->max_cols / 64);
    b->slot_act.s = CARVE(float, b->n_slots * b->max_cols / 32);
    b->slot_act.h = CARVE(int16_t, b->n_slots * b->max_cols / 8);
    return at;
}

uint64_t qsf_buffers_layout(qsf_buffers *b, uint8_t *base, const qsf_source *s,
                            const qsf_context_options *o)
{
    uint64_t at = 0;
    const qsf_hparams *hp = &s->hp;
    const uint64_t rows = qsf_rows_most(o);
    *b = (qsf_buffers){ 0 };
    b->ld_embd = ld_apart(hp->n_embd);
    b->ld_q = ld_apart(s->most.q);
    b->ld_kv = ld_apart(s->most.kv);
    b->ld_ff = ld_apart(s->most.n_ff);
    b->ld_mix = ld_apart(s->most.mix_room);
    b->ld_vocab = qsf_round_up(hp->n_vocab, 16);
    b->ld_attention = qsf_attention_scratch(s, o->kv_type);
    const uint64_t act_cols = qsf_act_cols(QSF_MAX(QSF_MAX(hp->n_embd, (uint32_t)s->most.q),
                                                   (uint32_t)s->most.n_ff));
    b->max_cols = act_cols;
    b->x = CARVE(float, rows * b->ld_embd);
    b->xn = CARVE(float, rows * b->ld_embd);
    b->tmp = CARVE(float, rows * b->ld_embd);
    b->q = CARVE(float, rows * b->ld_q);
    b->k = CARVE(float, rows * b->ld_kv);
    b->v = CARVE(float, rows * b->ld_kv);
    b->att = CARVE(float, rows * b->ld_q);
    b->gate = CARVE(float, rows * b->ld_ff);
    b->up = CARVE(float, rows * b->ld_ff);
    if (hp->n_embd_layer) {
        b->ld_table = (size_t)hp->n_layers * hp->n_embd_layer;
        b->x0 = CARVE(float, rows * b->ld_embd);
        b->table = CARVE(float, rows * b->ld_table);
    }
    if (hp->altup) {
        b->ld_alt = qsf_round_up((QSF_ALTUP - 1) * (uint64_t)hp->n_embd, 16);
        b->alt = CARVE(float, rows * b->ld_alt);
        b->predicted = CARVE(float, rows * b->ld_embd);
        b->laurel = CARVE(float, rows * b->ld_embd);
    }
    if (hp->mix_first) b->first = CARVE(float, rows * b->ld_embd);
    if (b->ld_mix) b->mix = CARVE(float, rows * b->ld_mix);
    b->logits = CARVE(float, o->n_logits * b->ld_vocab);
    b->angles = CARVE(float, 2 * rows * qsf_ropes_half(s));
    b->float_rows = CARVE(float, o->n_threads * QSF_TILE_ROWS * b->max_cols);
    b->attention = CARVE(float, o->n_threads * b->ld_attention);
    if (qsf_bias_apart(s, o->kv_type)) {
        const uint64_t half = qsf_ropes_half(s);
        b->bias_back = CARVE(float, qsf_ceil_div(o->n_ctx, QSF_KV_BLOCK) * 2 * half);
        b->bias_steps = CARVE(uint16_t, QSF_KV_BLOCK * 2 * half);
    }
    b->kv_attention = CARVE(float, o->n_threads * qsf_kv_attention_floats(s, o));
    b->act.q = CARVE(int8_t, rows * act_cols);
    b->act.d = CARVE(float, rows * act_cols / 64);
    b->act.s = CARVE(float, rows * act_cols / 32);
    b->act.h = CARVE(int16_t, rows * act_cols / 8);
    return s->most.n_experts ? layout_experts(b, base, at, s, rows) : at;
}
#undef CARVE
