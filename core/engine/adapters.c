/* The adapters of sequences: a sequence gets them, keeps them alive, and gives them up.
 * SPDX-License-Identifier: MIT */
#include "engine/adapters.h"
#include "engine/sequence.h"
#include "layers/lora_stream.h"

static void set_drop(const qsf_lora *l, qsf_lora_set *set)
{
    for (uint32_t i = 0; i < set->n; i++) {
        qsf_lora_settle(l, set->use[i].adapter);        /* it may be freed, and its file closed */
        qsf_adapter_free(set->use[i].adapter);
    }
    set->n = 0;
}

void qsf_adapters_done(qsf_lora *l)
{
    for (uint32_t s = 0; l->sets && s < l->n_seqs; s++) set_drop(l, &l->sets[s]);
    qsf_dealloc(l->platform, l->spans, (uint64_t)l->n_rows * sizeof *l->spans);
    qsf_lora_slots_done(l);
    qsf_dealloc(l->platform, l->sets, (uint64_t)l->n_seqs * sizeof *l->sets);
    *l = (qsf_lora){ 0 };
}

/* Tables for all sequences' adapters. */
static qsf_status lora_tables(qsf_lora *l, qsf_error *err)
{
    if (!l->sets && !(l->sets = qsf_alloc_array(l->platform, l->n_seqs, sizeof *l->sets, "adapters", err)))
        return QSF_E_MEMORY;
    if (!l->spans && !(l->spans = qsf_alloc_array(l->platform, l->n_rows, sizeof *l->spans, "adapters", err)))
        return QSF_E_MEMORY;
    return QSF_OK;
}

static qsf_status check_use(qsf_context *c, const qsf_adapter_use *use)
{
    if (!use->adapter || use->adapter->model != c->model)
        return qsf_fail(&c->error, QSF_E_ARGUMENT, "the adapter was loaded for another model");
    if (!(use->scale >= -FLT_MAX && use->scale <= FLT_MAX))
        return qsf_fail(&c->error, QSF_E_ARGUMENT, "adapter %s: its scale is not a number",
                                                   use->adapter->name);
    if (c->o.f32 && use->adapter->codes)
        return qsf_fail(&c->error, QSF_E_UNSUPPORTED, "adapter %s is stored in 8 bits, but the context "
                        "computes with floats: open it as exact", use->adapter->name);
    if (c->o.head != QSF_HEAD_EXACT &&
        qsf_adapter_find(use->adapter, qsf_unit_final(c->model->source), QSF_K_OUTPUT))
        return qsf_fail(&c->error, QSF_E_UNSUPPORTED, "adapter %s changes the head, which must be exact then "
                        "(head-topk)", use->adapter->name);
    const size_t loaded = atomic_load(&c->model->adapter_bytes);
    if (c->o.ram_budget && loaded > c->o.adapter_bytes)
        return qsf_fail(&c->error, QSF_E_BUDGET, "the adapters take %llu KB, but %llu KB are reserved: "
                        "create the context with adapter-memory", (unsigned long long)loaded / 1000 + 1,
                        (unsigned long long)c->o.adapter_bytes / 1000);
    return QSF_OK;
}

qsf_status qsf_seq_set_adapters(qsf_context *c, qsf_seq s, const qsf_adapter_use *uses, size_t n)
{
    qsf_lora_set set = { 0 };
    qsf_status st = qsf_seq_check(c, s);
    if (!st && n > QSF_LORA_MOST)
        st = qsf_fail(&c->error, QSF_E_ARGUMENT, "%llu adapters; a sequence has at most %d",
                      (unsigned long long)n, (int)QSF_LORA_MOST);
    if (!st && n && c->behind.rows && !c->behind.use.adapters)
        st = qsf_fail(&c->error, QSF_E_UNSUPPORTED, "adapters need all layers here, or qsf_behind.adapters");
    for (size_t i = 0; i < n && !st; i++) {
        st = check_use(c, &uses[i]);
        if (!st && uses[i].scale != 0) set.use[set.n++] = uses[i];
    }
    qsf_lora *l = &c->lora;
    if (st || (!l->sets && !set.n) || (l->sets && qsf_lora_set_same(&l->sets[s], &set))) return st;
    l->platform = c->platform;
    l->n_seqs = c->o.n_seqs;
    l->n_rows = qsf_rows_most(&c->o);
    qsf_batch_drop(c);
    if ((st = lora_tables(l, &c->error)) ||
        (st = c->executor->does->adapters_put(c->executor, &set, &c->error)) ||
        (st = qsf_lora_slots_take(l, &set, &c->error))) return st;
    qsf_seq_back(c, (uint32_t)s, 0);
    if (c->behind.rows && (st = qsf_behind_adapt(c, s, set.use, set.n))) return qsf_lora_slots_sweep(l), st;
    for (uint32_t i = 0; i < set.n; i++) qsf_adapter_hold(set.use[i].adapter);
    set_drop(l, &l->sets[s]);
    l->sets[s] = set;
    qsf_lora_slots_sweep(l);
    l->n_used = 0;
    for (uint32_t i = 0; i < l->n_seqs; i++) l->n_used += l->sets[i].n > 0;
    return QSF_OK;
}
