/* The adapters of a context's sequences on its device.
 * SPDX-License-Identifier: MIT */
#include "device/device_adapt.h"

#include "device/device_life.h"

static device_executor *adapts_on(qsf_executor *x) { return (device_executor *)(void *)x; }

static const qsf_lora_set *set_of(const device_executor *e, uint32_t seq)
{
    return e->c->lora.sets ? &e->c->lora.sets[seq] : NULL;
}

/* Its place in the set; NULL: it is not there. */
static const qsf_adapter_use *adapter_use_of(const qsf_lora_set *set, uint64_t hash)
{
    for (uint32_t i = 0; set && i < set->n; i++)
        if (set->use[i].adapter->hash == hash) return &set->use[i];
    return NULL;
}

/* What a row uses of an adapter that its set may have twice. */
static float adapter_scale_of(const qsf_lora_set *set, uint64_t hash)
{
    float scale = 0;
    for (uint32_t i = 0; set && i < set->n; i++)
        if (set->use[i].adapter->hash == hash) scale += set->use[i].scale;
    return scale;
}

/* ---- which are there ---- */

/* Removes adapters that no sequence has; those that one has are found by its pointer. */
static void adapters_sweep(device_executor *e)
{
    for (uint32_t i = e->loras.n; i-- > 0;) {
        qsf_device_lora *x = e->loras.list[i];
        const qsf_adapter_use *use = NULL;
        for (uint32_t s = 0; !use && s < e->c->o.n_seqs; s++) use = adapter_use_of(set_of(e, s), x->hash);
        if (use) x->a = use->adapter;
        else qsf_device_lora_drop(&e->b, &e->loras, i);
    }
}

uint64_t qsf_device_adapters_bytes(const device_executor *e)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < e->loras.n; i++)
        n += qsf_device_lora_bytes(&e->b, e->loras.list[i]->a, e->first, e->end);
    return n;
}

/* Why the device does not take an adapter; false: it does. */
static bool adapter_left(const device_executor *e, const qsf_adapter *a, qsf_error *err)
{
    const char *what = qsf_device_lora_refused(&e->b, a, e->first, e->end);
    const qsf_device_choice *has = &e->choice;
    if (what) {
        (void)qsf_fail(err, QSF_E_UNSUPPORTED, "adapter %.60s: a GPU cannot compute %s", a->name, what);
        return true;
    }
    const uint64_t bytes = qsf_device_lora_bytes(&e->b, a, e->first, e->end),
        all = has->weights + has->kv + has->batch + QSF_DEVICE_LAYER_SLOTS * has->slot +
              qsf_device_adapters_bytes(e) + bytes;
    if (!has->memory || all <= has->memory) return false;
    (void)qsf_fail(err, QSF_E_BUDGET, "adapter %.60s needs %llu MB of the GPU's memory, whose limit is %llu "
                   "MB", a->name, (unsigned long long)qsf_ceil_div(bytes, 1000000),
                   (unsigned long long)(has->memory / 1000000));
    return true;
}

/* The list of a batch has room for what is there. */
static qsf_status list_grow(device_executor *e, qsf_error *err)
{
    const uint64_t n = qsf_device_list_room(e);
    if (n <= e->n_room) return QSF_OK;
    qsf_device_dispatch *list = qsf_alloc_array(e->c->platform, n, sizeof *list, "dispatches", err);
    if (!list) return QSF_E_MEMORY;
    memcpy(list, e->list, e->n_list * sizeof *list);
    qsf_dealloc(e->c->platform, e->list, e->n_room * sizeof *list);
    e->list = list;
    e->n_room = n;
    return QSF_OK;
}

/* The unit's pairs in memory: where they stay, or the slot to which they were just read. */
static const uint8_t *adapter_memory(const device_executor *e, const qsf_adapter *a, uint32_t unit)
{
    const qsf_lora *l = &e->c->lora;
    if (a->mem[unit]) return a->mem[unit];
    for (uint32_t i = 0; l->slots && i < l->n_seqs * QSF_LORA_MOST; i++)
        if (l->slots[i].adapter == a && l->slots[i].unit == unit) return l->slots[i].mem;
    return NULL;
}

/* QSF_E_UNSUPPORTED, QSF_E_BUDGET: the device does not take it. */
static qsf_status adapter_put(device_executor *e, const qsf_adapter *a, qsf_error *err)
{
    qsf_device_lora *x = qsf_device_lora_find(&e->loras, a->hash);
    qsf_status st = QSF_OK;
    if (x || adapter_left(e, a, err)) return x ? QSF_OK : err->status;
    e->unchecked = true;
    if ((st = qsf_device_lora_new(&e->b, &e->loras, a, e->first, e->end, err))) return st;
    if ((st = list_grow(e, err))) return st;
    x = qsf_device_lora_find(&e->loras, a->hash);
    for (uint32_t i = e->first; i < e->end && !st; i++) {
        const qsf_device_layer *l = &e->layers[i - e->first];
        const uint8_t *mem = a->mem[i];
        if (l->ready && (mem || a->first[i] == a->first[i + 1]))
            st = qsf_device_lora_make(&e->b, x, l, mem, err);
    }
    return st;
}

/* ---- the CPU instead ---- */

/* Candidates are the device's: the logits that they stand for come here while it works. */
static qsf_status few_become_rows(device_executor *e, qsf_error *err)
{
    qsf_status st = QSF_OK;
#if !defined(QSF_NO_CANDIDATES)
    qsf_batch_state *now = &e->c->now;
    qsf_rows rows;
    if (now->active || !now->candidates) return QSF_OK;
    if ((st = e->base.does->rows_out(&e->base, QSF_ROWS_LOGITS, &rows, err))) return st;
    now->rows[QSF_ROWS_LOGITS] = rows;
    now->candidates = NULL;
#else
    (void)e, (void)err;
#endif
    return st;
}

/* Sequences with state cannot be computed again, and the device has nothing wrong. */
static qsf_status sequences_can_move(const device_executor *e, qsf_error *err)
{
    const qsf_error why = *err;
    for (uint32_t s = 0; e->base.state_bytes && s < e->c->o.n_seqs; s++)
        if (e->c->tables.seqs[s].n)
            return qsf_fail(err, QSF_E_UNSUPPORTED, "%.200s, and sequences of this model cannot move to the "
                            "CPU: empty them first", why.text);
    return QSF_OK;
}

/* All layers are the CPU's, because of an adapter: the reason is in *err. */
static qsf_status adapter_falls(device_executor *e, qsf_error *err)
{
    qsf_error why = *err, ignored = { 0 };
    qsf_status st = few_become_rows(e, &ignored);
    if (!st && e->d) st = sequences_can_move(e, err);
    if (st || !e->d) return st;
    if ((st = qsf_device_fall(e, err))) return st;
    qsf_format(e->choice.left, sizeof e->choice.left, "%.150s", why.text);
    return QSF_OK;
}

qsf_status qsf_device_adapters_put(qsf_executor *x, const qsf_lora_set *set, qsf_error *err)
{
    device_executor *e = adapts_on(x);
    qsf_status st = QSF_OK;
    if (e->d) adapters_sweep(e);
    for (uint32_t i = 0; e->d && i < set->n && !st; i++) {
        st = adapter_put(e, set->use[i].adapter, err);
        if (st == QSF_E_UNSUPPORTED || st == QSF_E_BUDGET) st = adapter_falls(e, err);
        else if (st) st = qsf_device_fall(e, err);
    }
    return st ? st : e->cpu_does->adapters_put(e->cpu, set, err);
}

qsf_status qsf_device_adapters_begin(device_executor *e, qsf_error *err)
{
    qsf_status st = QSF_OK;
    for (uint32_t s = 0; s < e->c->o.n_seqs && !st; s++) {
        const qsf_lora_set *set = set_of(e, s);
        for (uint32_t i = 0; set && i < set->n && !st; i++) st = adapter_put(e, set->use[i].adapter, err);
    }
    return st;
}

/* ---- a batch ---- */

/* How much each row uses an adapter; written if it has changed. */
static qsf_status adapter_uses(const device_executor *e, qsf_device_lora *x, qsf_error *err)
{
    const qsf_batch *batch = &e->c->batch;
    bool changed = false;
    x->used = false;
    for (uint32_t r = 0; x->most && r < batch->n; r++) {
        const float scale = adapter_scale_of(set_of(e, batch->rows[r].seq), x->hash);
        changed |= x->host_uses[r] != scale;
        x->used |= scale != 0;
        x->host_uses[r] = scale;
    }
    return changed ? e->d->write(e->d->user, x->uses, 0, x->host_uses, batch->n * sizeof *x->host_uses, err)
        : QSF_OK;
}

qsf_status qsf_device_adapters_batch(device_executor *e, qsf_error *err)
{
    qsf_status st = QSF_OK;
    e->batch.loras = NULL;
    adapters_sweep(e);
    for (uint32_t i = 0; i < e->loras.n && !st; i++) {
        st = adapter_uses(e, e->loras.list[i], err);
        if (e->loras.list[i]->used) e->batch.loras = &e->loras;
    }
    return st;
}

qsf_status qsf_device_adapters_layer(device_executor *e, const qsf_device_layer *l, qsf_error *err)
{
    qsf_status st = QSF_OK;
    for (uint32_t i = 0; i < e->loras.n && !st; i++) {
        qsf_device_lora *x = e->loras.list[i];
        if (!x->used || x->layers[l->number].made) continue;
        const uint8_t *mem = adapter_memory(e, x->a, l->number);
        e->unchecked = true;
        if (!mem && x->a->first[l->number] < x->a->first[l->number + 1])
            return qsf_fail(err, QSF_E_UNSUPPORTED, "adapter %.60s is not in memory", x->a->name);
        st = qsf_device_lora_make(&e->b, x, l, mem, err);
    }
    return st;
}

bool qsf_device_adapters_head(const device_executor *e)
{
    const qsf_batch *batch = &e->c->batch;
    const uint32_t unit = e->c->hp->n_layers + 1;
    for (uint32_t r = 0; e->loras.n && r < batch->n; r++) {
        const qsf_lora_set *set = set_of(e, batch->rows[r].seq);
        for (uint32_t i = 0; set && i < set->n; i++)
            if (qsf_adapter_find(set->use[i].adapter, unit, QSF_K_OUTPUT)) return true;
    }
    return false;
}
