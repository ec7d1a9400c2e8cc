/* Buffers of a device that all layers share.
 * SPDX-License-Identifier: MIT */
#include "device/device_buffers.h"

#include "layers/batch.h"
#include "layers/rope.h"

enum { STEPS_MOST = 16 };       /* of a layer */

/* Columns of the widest matrices of the layers, whole tiles. */
static uint32_t device_ld(uint64_t cols) { return (uint32_t)qsf_round_up(cols, QSF_TILE_ROWS); }

static void buffer_sizes(qsf_device_buffers *b)
{
    const qsf_source *s = b->source;
    const qsf_context_options *o = b->o;
    const uint64_t rows = b->rows, heads = s->most.n_heads, room = b->kv.head_dim;
    const qsf_wgsl_attend a = { .codes = b->kv.k_bits == 8, .room = (uint32_t)room };
    uint32_t widest = QSF_MAX(s->hp.n_embd, QSF_MAX((uint32_t)s->most.q, s->most.n_ff));
    b->ld = device_ld(s->hp.n_embd);
    b->q_ld = device_ld(s->most.q);
    b->kv_ld = device_ld(s->most.kv);
    b->ff_ld = device_ld(s->most.n_ff);
    b->chunk_blocks = 2;
    b->entries = (uint64_t)o->n_seqs * (qsf_ceil_div(o->n_ctx, QSF_KV_BLOCK) + 1);
    b->chunks = (uint32_t)(qsf_ceil_div(o->n_ctx, QSF_KV_BLOCK) / b->chunk_blocks + 1);
    uint64_t *bytes = b->bytes;
    bytes[QSF_DEVICE_X] = bytes[QSF_DEVICE_TMP] = rows * b->ld * 4;
    bytes[QSF_DEVICE_CODES] = rows * qsf_device_codes_ld(widest) * 16;
    bytes[QSF_DEVICE_Q] = rows * b->q_ld * 4;
    bytes[QSF_DEVICE_K] = bytes[QSF_DEVICE_V] = rows * b->kv_ld * 4;
    bytes[QSF_DEVICE_GATE] = bytes[QSF_DEVICE_UP] = rows * b->ff_ld * 4;
    bytes[QSF_DEVICE_QUERIES] = rows * heads * qsf_wgsl_query_words(&a) * 4;
    bytes[QSF_DEVICE_PLACE] = rows * 16;
    bytes[QSF_DEVICE_TABLE] = b->entries * 8;
    bytes[QSF_DEVICE_SUMS] = rows * heads * b->chunks * room * 4;
    bytes[QSF_DEVICE_TOPS] = rows * heads * b->chunks * 8;
    for (uint32_t i = 0; i < s->n_ropes && i < 2; i++)
        bytes[QSF_DEVICE_ANGLES + i] = QSF_MAX(rows * qsf_rope_half(&s->ropes[i]) * 8, 8);
    bytes[QSF_DEVICE_SPARE] = (uint64_t)b->kv.n_kv_heads * b->kv.record;
}

qsf_status qsf_device_buffers_init(qsf_device_buffers *b, const qsf_platform *p, const qsf_device *d,
                                   const qsf_source *s, const qsf_context_options *o, const qsf_kv_layout *kv,
                                   qsf_error *err)
{
    qsf_status st;
    *b = (qsf_device_buffers){ .d = d, .platform = p, .source = s, .o = o, .kv = *kv,
                               .n_blocks = qsf_kv_blocks_of(o), .rows = qsf_rows_most(o),
                               .most_numbers = (s->hp.n_layers + 1) * STEPS_MOST };
    if ((st = qsf_pipelines_init(&b->pipelines, p, d, err))) return st;
    const uint64_t bytes = (uint64_t)b->most_numbers * QSF_DEVICE_NUMBERS;
    if (!(b->host_numbers = qsf_alloc(p, bytes, "dispatches", err))) return QSF_E_MEMORY;
    if ((st = d->buffer_new(d->user, QSF_DEVICE_UNIFORM, bytes, &b->numbers, err))) return st;
    buffer_sizes(b);
    for (uint32_t i = 0; i < QSF_N_DEVICE_NAMES; i++) {
        if (!b->bytes[i]) continue;
        if (b->bytes[i] > d->info->max_binding)
            return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: a buffer of %llu MB is more than the GPU binds "
                            "(%llu MB): use a smaller batch (-b) or context (-c)", d->info->name,
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
