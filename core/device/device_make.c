/* A context's layers move to a device.
 * SPDX-License-Identifier: MIT */
#include "device/device_make.h"

#include "device/device_adapt.h"
#include "device/device_few.h"
#include "device/device_life.h"
#include "device/device_pays.h"
#include "model/part.h"

/* The head is the device's if the last layer is. */
static bool head_follows(const qsf_source *s, uint32_t end)
{
    return end == s->hp.n_layers && qsf_part_ends(s);
}

static qsf_status device_head_begin(device_executor *e, qsf_error *err)
{
    qsf_rows logits;
    if (!head_follows(e->c->model->source, e->end)) return QSF_OK;
    qsf_status st = e->cpu_does->rows_out(e->cpu, QSF_ROWS_LOGITS, &logits, err);
    if (!st) st = qsf_device_head_begin(&e->head, &e->b, &e->c->head_stream, (uint32_t)logits.ld, err);
    return st || !e->head.here ? st : qsf_device_few_begin(e, (uint32_t)logits.ld, err);
}

/* Compiles the shaders of layers and head, and lets them show that they compute what the CPU
 * computes: at once, or on a host that must not block before they are used. */
static qsf_status device_test(device_executor *e, qsf_error *err)
{
    const bool waits = qsf_device_waits(e->d);
    qsf_status st = qsf_self_test_new(e->c->platform, &e->b.pipelines, &e->c->k, &e->b.test, err);
    for (uint32_t i = e->first; i < e->end && !st; i++)
        st = qsf_device_layer_compile(&e->b, &e->layers[i - e->first], i, err);
    if (!st) st = device_head_begin(e, err);
    if (!st && e->choice.embedding) st = qsf_device_embedding_begin(&e->embedding, &e->b, err);
    e->unchecked = true;
    if (!st && waits) st = qsf_device_verdict(e, err);
    return st || !waits ? st : qsf_device_tested(e, err);
}

static qsf_status device_make(device_executor *e, qsf_error *err)
{
    const qsf_platform *p = e->c->platform;
    const qsf_source *s = e->c->model->source;
    const uint32_t n = e->end - e->first;
    uint64_t half = 0;
    qsf_status st;
    if (!(e->layers = qsf_alloc_array(p, n, sizeof *e->layers, "layers", err))) return QSF_E_MEMORY;
    if (!(e->there = qsf_alloc(p, s->hp.n_layers, "layers", err))) return QSF_E_MEMORY;
    memset(e->there, 0, s->hp.n_layers);
    e->c->fetch.elsewhere = e->there;
    e->n_room = qsf_device_list_room(e);
    if (!(e->list = qsf_alloc_array(p, e->n_room, sizeof *e->list, "dispatches", err))) return QSF_E_MEMORY;
    if ((st = qsf_device_buffers_init(&e->b, p, e->d, s, &e->c->o, &e->cpu->kv, err))) return st;
    if (!(e->rows = qsf_alloc_array(p, (uint64_t)e->b.rows * e->b.ld, sizeof *e->rows, "rows", err)))
        return QSF_E_MEMORY;
    for (uint32_t i = 0; i < s->n_ropes; i++) half = QSF_MAX(half, qsf_rope_half(&s->ropes[i]));
    e->n_words = QSF_MAX(6 * (uint64_t)e->b.rows + 2 * e->b.entries + e->c->o.n_seqs,
                         QSF_MAX(2 * half * e->b.rows, e->b.bytes[QSF_DEVICE_SPARE] / 4));
    e->n_words = QSF_MAX(e->n_words, e->b.bytes[QSF_DEVICE_FLAGS] / 4);
    if (!(e->words = qsf_alloc_array(p, e->n_words, sizeof *e->words, "rows", err))) return QSF_E_MEMORY;
    e->b.ropes = e->c->ropes;
    if ((st = qsf_device_layers_begin(&e->b, e->layers, e->first, e->end, err))) return st;
    if ((st = qsf_device_stream_init(e, e->choice.slot, err))) return st;
    return device_test(e, err);
}

void qsf_context_leave_device(qsf_context *c)
{
    device_executor *e = (device_executor *)(void *)c->executor;
    if (c->executor->does != &qsf_device_executor_table) return;
    c->executor = e->cpu;
    c->tables.user = c->state.user = c->executor;
    qsf_device_executor_free(e);
}

/* The context's layers of the choice are the device's, which belongs to the context also after an
 * error. */
static qsf_status move_layers(qsf_context *c, qsf_device *d, const qsf_device_choice *choice)
{
    device_executor *e = qsf_alloc(c->platform, sizeof *e, "layers on a GPU", &c->error);
    if (!e) {
        d->close(d->user);
        return QSF_E_MEMORY;
    }
    *e = (device_executor){ .base = *c->executor, .cpu = c->executor, .cpu_does = c->executor->does, .c = c,
                            .d = d, .first = choice->first - choice->streamed, .end = choice->end,
                            .stream = { .end = choice->first, .least = qsf_device_stream_asked(c) },
                            .choice = *choice };
    e->base.does = &qsf_device_executor_table;
    c->executor = &e->base;
    c->tables.user = c->state.user = c->executor;
    qsf_device_stream_say(e->choice.stream, sizeof e->choice.stream, e->first, e->stream.end,
                          e->stream.least);
    qsf_status st = qsf_replay_init(&e->replay, c, &c->error);
    if (!st) st = device_make(e, &c->error);
    if (!st) st = qsf_device_adapters_begin(e, &c->error);
    if (st) qsf_context_leave_device(c);
    return st;
}

static bool context_is_new(const qsf_context *c)
{
    for (uint32_t i = 0; i < c->o.n_seqs; i++)
        if (c->tables.seqs[i].n) return false;
    return c->executor->does != &qsf_device_executor_table;
}

/* The layers of a context that is new, as for qsf_device_choose. */
static qsf_status choose_layers(qsf_context *c, qsf_devices *devices, uint32_t i, uint32_t n_layers,
                                uint64_t memory, qsf_device_choice *choice)
{
    if (!n_layers) return qsf_fail(&c->error, QSF_E_ARGUMENT, "no layers are asked for");
    if (!context_is_new(c))
        return qsf_fail(&c->error, QSF_E_ARGUMENT, "layers move to a GPU before the first token");
    if (c->follower.tapped)
        return qsf_fail(&c->error, QSF_E_UNSUPPORTED, "an EAGLE 3 head needs what goes into some layers: "
                        "they cannot move to a GPU");
    if (i >= devices->n)
        return qsf_fail(&c->error, QSF_E_NOT_FOUND, "no GPU %u: there are %u", (unsigned)i,
                        (unsigned)devices->n);
    return qsf_device_choose(c, &devices->info[i], n_layers, memory, choice, &c->error);
}

#if !defined(QSF_NEVER_WAITS)
/* The context's layers do not pass through after all: their place is for others that stay. */
static qsf_status without_stream(qsf_context *c, qsf_devices *devices, uint32_t i, uint32_t n_layers,
                                 uint64_t memory)
{
    device_executor *e = (device_executor *)(void *)c->executor;
    char measured[sizeof e->choice.stream];
    memcpy(measured, e->choice.stream, sizeof measured);
    qsf_context_leave_device(c);
    c->o.device_stream = QSF_STREAM_OFF;
    const qsf_status st = qsf_context_use_device(c, devices, i, n_layers, memory);
    if (st) return st;
    e = (device_executor *)(void *)c->executor;
    memcpy(e->choice.stream, measured, sizeof measured);
    return QSF_OK;
}
#endif

qsf_status qsf_context_use_device(qsf_context *c, qsf_devices *devices, uint32_t i, uint32_t n_layers,
                                  uint64_t memory)
{
    qsf_device_choice choice;
    qsf_device *d;
    qsf_status st = choose_layers(c, devices, i, n_layers, memory, &choice);
    if (!st) st = devices->open(devices, i, &d, &c->error);
    if (st) return st;
#if defined(QSF_NEVER_WAITS)
    return move_layers(c, d, &choice);
#else
    bool pays = true;
    const bool tries = choice.streamed && c->o.device_stream == QSF_STREAM_AUTO;
    if ((st = move_layers(c, d, &choice)) || !tries) return st;
    if ((st = qsf_device_stream_trial(c, &pays))) qsf_context_leave_device(c);
    if (st || pays) return st;
    return without_stream(c, devices, i, n_layers, memory);
#endif
}

static void use_of_choice(qsf_device_use *use, const qsf_device_choice *choice, const qsf_device_info *info)
{
    use->first = choice->first;
    use->n_layers = choice->end - choice->first;
    use->weights = choice->weights;
    use->kv = choice->kv;
    use->batch = choice->batch;
    use->streamed = choice->streamed;
    use->slots = QSF_DEVICE_LAYER_SLOTS * choice->slot;
    memcpy(use->name, info->name, sizeof use->name);
    memcpy(use->left, choice->left, sizeof use->left);
    memcpy(use->stream, choice->stream, sizeof use->stream);
}

qsf_status qsf_context_device_fits(qsf_context *c, qsf_devices *devices, uint32_t i, uint32_t n_layers,
                                   uint64_t memory, qsf_device_use *out)
{
    const qsf_source *s = c->model->source;
    qsf_device_choice choice;
    qsf_rows logits;
    if (out->size != sizeof *out) return QSF_E_ARGUMENT;
    *out = (qsf_device_use){ .size = sizeof *out };
    qsf_status st = choose_layers(c, devices, i, n_layers, memory, &choice);
    if (!st) st = c->executor->does->rows_out(c->executor, QSF_ROWS_LOGITS, &logits, &c->error);
    if (st) return st;
    const qsf_device_info *info = &devices->info[i];
    use_of_choice(out, &choice, info);
    out->head = head_follows(s, choice.end) && qsf_device_head_possible(s, &c->o, info, &c->head_stream,
                                                                        (uint32_t)logits.ld);
    return QSF_OK;
}

qsf_status qsf_context_device(const qsf_context *c, qsf_device_use *out)
{
    const device_executor *e = (const device_executor *)(const void *)c->executor;
    if (out->size != sizeof *out) return QSF_E_ARGUMENT;
    *out = (qsf_device_use){ .size = sizeof *out };
    if (c->executor->does != &qsf_device_executor_table) return QSF_OK;
    if (e->d) {
        use_of_choice(out, &e->choice, e->d->info);
        out->weights += qsf_device_adapters_bytes(e);
        out->head = e->head.here;
        out->bytes = e->b.total;
    } else {
        memcpy(out->left, e->choice.left, sizeof out->left);
    }
    return QSF_OK;
}
