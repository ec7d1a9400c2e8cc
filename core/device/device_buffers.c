/* Buffers of a device that all layers share.
 * SPDX-License-Identifier: MIT */
#include "device/device_buffers.h"

#include "layers/batch.h"
#include "layers/matrix_place.h"
#include "weights/weights.h"

#include "wgsl/choice_wgsl.h"
#include "wgsl/prompt_wgsl.h"

enum { SUMS_BYTES = 8 << 20 };  /* of chunks of attention, if groups of rows can do without */

/* Columns of the widest matrices of the layers, whole tiles. */
static uint32_t device_ld(uint64_t cols) { return (uint32_t)qsf_round_up(cols, QSF_TILE_ROWS); }

uint32_t qsf_device_room(const qsf_source *s, qsf_kv_type type)
{
    return type == QSF_KV_Q8 ? (uint32_t)qsf_kv_dim(s->most.head_dim) : s->most.head_dim;
}

qsf_device_range qsf_device_angles(const qsf_device_buffers *b, uint32_t rope)
{
    qsf_device_range r = { b->of[QSF_DEVICE_ANGLES], 0, 0 };
    for (uint32_t i = 0; i <= rope; i++) {
        r.at += qsf_round_up(r.len, b->align);
        r.len = QSF_MAX((uint64_t)b->rows * qsf_rope_half(&b->source->ropes[i]) * 8, 8);
    }
    return r;
}

/* What matrices multiply; and what only some layers need: rows as floats, queries with gates, a
 * copy of the layer's input, tokens' embeddings. */
static void input_sizes(qsf_device_buffers *b)
{
    const qsf_source *s = b->source;
    uint32_t widest = s->hp.n_embd;
    bool floats = false, gates = false, begin = false;
    qsf_weights w;
    for (uint32_t i = 0; i < s->hp.n_layers; i++) {
        qsf_weights_describe(s, i, &w);
        for (uint32_t kind = 0; kind < QSF_N_KINDS; kind++) {
            const qsf_matrix *m = &w.m[kind];
            if (m->t.rows) widest = QSF_MAX(widest, m->t.cols);
            floats |= m->t.rows && m->form < 0;
        }
        gates |= s->layers[i].attn_gate != 0;
        begin |= w.v[QSF_K_ATTN_NORM_2] != NULL;
        floats |= w.v[QSF_K_SHARED_ROUTER] != NULL;
    }
    const qsf_matrix_place head = qsf_place_head(s);
    qsf_weights_describe(s, qsf_source_unit(s, head.unit), &w);
    floats |= w.m[head.t->kind].form < 0;
    b->bytes[QSF_DEVICE_CODES] = (uint64_t)b->rows * qsf_device_codes_ld(widest) * 16;
    b->floats_ld = device_ld(widest);
    b->bytes[QSF_DEVICE_FLOATS] = floats ? (uint64_t)b->rows * b->floats_ld * 4 : 0;
    b->bytes[QSF_DEVICE_BEGIN] = begin ? (uint64_t)b->rows * b->ld * 4 : 0;
    b->q_ld = device_ld(s->most.q * (gates ? 2 : 1));
    b->prompts = !gates;        /* which are in Q, where results of groups go */
    b->tokens_ld = s->hp.n_embd_layer * s->hp.n_layers;
    b->bytes[QSF_DEVICE_TOKENS] = (uint64_t)b->rows * b->tokens_ld * 4;
    b->bytes[QSF_DEVICE_X0] = b->tokens_ld ? (uint64_t)b->rows * b->ld * 4 : 0;
}

/* What layers of experts need besides the others' buffers, or of these. */
static void expert_sizes(qsf_device_buffers *b)
{
    const qsf_source *s = b->source;
    const uint64_t rows = b->rows;
    uint64_t *bytes = b->bytes;
    uint32_t hidden = 0, used = 0, slots = 0, experts = 0;
    for (uint32_t i = 0; i < s->hp.n_layers; i++) {
        const qsf_layer *l = &s->layers[i];
        if (l->feed_forward != QSF_FEED_FORWARD_EXPERTS) continue;
        hidden = QSF_MAX(hidden, l->n_ff_expert);
        used = QSF_MAX(used, l->n_used);
        slots = QSF_MAX(slots, l->n_used + (l->n_ff != 0));
        experts = QSF_MAX(experts, l->n_experts);
    }
    if (!experts) return;
    b->route_ld = device_ld((uint64_t)experts + 1);
    b->slot_ld = device_ld(hidden);
    bytes[QSF_DEVICE_GATE] = QSF_MAX(bytes[QSF_DEVICE_GATE], rows * used * b->slot_ld * 4);
    bytes[QSF_DEVICE_UP] = QSF_MAX(bytes[QSF_DEVICE_UP], rows * used * b->slot_ld * 4);
    bytes[QSF_DEVICE_ROUTE] = rows * b->route_ld * 4;
    bytes[QSF_DEVICE_SLOTS] = rows * slots * 8;
    bytes[QSF_DEVICE_LIST] = 16 * (uint64_t)qsf_wgsl_expert_groups(b->rows * used, experts) + 4 * rows * used;
    bytes[QSF_DEVICE_SLOT_CODES] = rows * used * qsf_device_codes_ld(hidden) * 16;
    bytes[QSF_DEVICE_SLOT_OUT] = rows * slots * b->ld * 4;
}

void qsf_device_buffers_sizes(qsf_device_buffers *b, const qsf_source *s, const qsf_context_options *o,
                              const qsf_kv_layout *kv, const qsf_device_info *info)
{
    *b = (qsf_device_buffers){ .source = s, .o = o, .kv = *kv, .n_blocks = qsf_kv_blocks_of(o),
                               .rows = qsf_rows_most(o), .align = info->binding_align,
                               .most_numbers = (s->hp.n_layers + 2) * QSF_DEVICE_STEPS };
    const uint64_t rows = b->rows, heads = s->most.n_heads, room = qsf_device_room(s, o->kv_type);
    const qsf_wgsl_attend a = { .codes = b->kv.k_bits == 8, .wide = b->kv.type == QSF_KV_F32,
                                .room = (uint32_t)room };
    b->room = (uint32_t)room;
    b->ld = device_ld(s->hp.n_embd);
    input_sizes(b);
    b->kv_ld = device_ld(s->most.kv);
    b->ff_ld = device_ld(QSF_MAX(s->most.n_ff, s->hp.n_embd_layer));
    b->prompts &= rows >= QSF_DEVICE_GROUP && qsf_wgsl_has_prompt(&a);
    b->sums = (uint32_t)QSF_MAX(b->prompts ? 64 : rows, SUMS_BYTES / (heads * room * 4));
    qsf_context_options one = *o;
    one.n_seqs = 1;             /* which may have all blocks; and an entry for its length */
    b->entries = (uint64_t)o->n_seqs * (qsf_kv_blocks_of(&one) + 2);
    uint64_t *bytes = b->bytes;
    bytes[QSF_DEVICE_X] = bytes[QSF_DEVICE_TMP] = rows * b->ld * 4;
    b->qkv_ld = b->q_ld + 2 * b->kv_ld;
    bytes[QSF_DEVICE_Q] = rows * b->qkv_ld * 4;
    bytes[QSF_DEVICE_K] = bytes[QSF_DEVICE_V] = rows * b->kv_ld * 4;
    bytes[QSF_DEVICE_UP] = rows * b->ff_ld * 4;
    bytes[QSF_DEVICE_GATE] = 2 * bytes[QSF_DEVICE_UP];
    bytes[QSF_DEVICE_QUERIES] = rows * heads * qsf_wgsl_query_words(&a) * 4;
    bytes[QSF_DEVICE_FLAGS] = ((uint64_t)s->hp.n_layers + 1) * 8;
    bytes[QSF_DEVICE_PLACE] = rows * 16;
    bytes[QSF_DEVICE_IDS] = rows * 4;
    bytes[QSF_DEVICE_TABLE] = b->entries * 8;
    bytes[QSF_DEVICE_GROUPS] = rows * 8;
    bytes[QSF_DEVICE_SUMS] = b->sums * heads * room * 4;
    bytes[QSF_DEVICE_TOPS] = b->sums * heads * 8;
    if (s->n_ropes) {
        const qsf_device_range last = qsf_device_angles(b, s->n_ropes - 1);
        bytes[QSF_DEVICE_ANGLES] = last.at + last.len;
    }
    expert_sizes(b);
    bytes[QSF_DEVICE_SPARE] = (uint64_t)b->kv.n_kv_heads * b->kv.record;
}

qsf_status qsf_device_buffers_init(qsf_device_buffers *b, const qsf_platform *p, const qsf_device *d,
                                   const qsf_source *s, const qsf_context_options *o, const qsf_kv_layout *kv,
                                   qsf_error *err)
{
    qsf_status st;
    qsf_device_buffers_sizes(b, s, o, kv, d->info);
    b->d = d;
    b->platform = p;
    if ((st = qsf_pipelines_init(&b->pipelines, p, d, err))) return st;
    const uint64_t bytes = (uint64_t)b->most_numbers * QSF_DEVICE_NUMBERS;
    if (!(b->host_numbers = qsf_alloc(p, bytes, "dispatches", err))) return QSF_E_MEMORY;
    if ((st = d->buffer_new(d->user, QSF_DEVICE_UNIFORM, bytes, &b->numbers, err))) return st;
    for (uint32_t i = 0; i < QSF_N_DEVICE_NAMES; i++) {
        if (!b->bytes[i]) continue;
        if (b->bytes[i] > d->info->max_binding)
            return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: a buffer of %llu MB is more than the GPU binds "
                            "(%llu MB): " QSF_DEVICE_SMALLER, d->info->name,
                            (unsigned long long)(b->bytes[i] / 1000000),
                            (unsigned long long)(d->info->max_binding / 1000000));
        if ((st = qsf_device_buffer_new(b, b->bytes[i], &b->of[i], err))) return st;
    }
    return QSF_OK;
}

void qsf_device_buffers_done(qsf_device_buffers *b)
{
    if (!b->d) return;
    for (uint32_t i = 0; i < QSF_N_DEVICE_NAMES; i++) b->d->release(b->d->user, b->of[i]);
    b->d->release(b->d->user, b->numbers);
    qsf_pipelines_done(&b->pipelines);
    if (b->host_numbers)
        qsf_dealloc(b->platform, b->host_numbers, (uint64_t)b->most_numbers * QSF_DEVICE_NUMBERS);
    *b = (qsf_device_buffers){ 0 };
}

qsf_status qsf_device_buffer_new(qsf_device_buffers *b, uint64_t bytes, qsf_device_id *out,
                                 qsf_error *err)
{
    b->total += bytes;
    return b->d->buffer_new(b->d->user, QSF_DEVICE_STORAGE, bytes, out, err);
}

qsf_status qsf_device_buffer_read(const qsf_device_buffers *b, qsf_device_id id, uint64_t at, void *dst,
                                  size_t len, qsf_error *err)
{
    const qsf_device *d = b->d;
    qsf_device_id read;
    const qsf_status st = d->read_start(d->user, id, at, dst, len, &read, err);
    return st ? st : qsf_device_result(d, read, err);
}

/* QSF_PENDING: the host must not wait. */
qsf_status qsf_device_buffer_there(const qsf_device_buffers *b, qsf_device_id id, qsf_error *err)
{
    const qsf_device *d = b->d;
    qsf_error why = { 0 };
    const qsf_status st = id ? qsf_device_result(d, id, &why) : QSF_OK;
    if (st == QSF_E_MEMORY)
        return qsf_fail(err, st, "%.200s: put fewer layers there, or " QSF_DEVICE_SMALLER, why.text);
    return st && st != QSF_PENDING ? qsf_fail(err, st, "%s", why.text) : st;
}

qsf_status qsf_device_buffers_there(const qsf_device_buffers *b, qsf_error *err)
{
    qsf_status st = qsf_device_buffer_there(b, b->numbers, err);
    for (uint32_t i = 0; i < QSF_N_DEVICE_NAMES && !st; i++) st = qsf_device_buffer_there(b, b->of[i], err);
    return st;
}

void *qsf_device_numbers(qsf_device_buffers *b, uint32_t *place)
{
    assert(b->n_numbers < b->most_numbers);
    *place = b->n_numbers++;
    return qsf_device_numbers_at(b, *place);
}

qsf_status qsf_device_numbers_write(qsf_device_buffers *b, uint32_t place, uint32_t n, qsf_error *err)
{
    const size_t at = (size_t)place * QSF_DEVICE_NUMBERS;
    const size_t bytes = (size_t)n * QSF_DEVICE_NUMBERS;
    return n ? b->d->write(b->d->user, b->numbers, at, b->host_numbers + at, bytes, err) : QSF_OK;
}
