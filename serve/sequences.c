/* Sequences of the context, their blocks, and those kept for prompts with the same prefix.
 * SPDX-License-Identifier: MIT */
#include "scheduler.h"

#include <stdlib.h>

bool seq_pool_begin(seq_pool *p, qsf_context *c, const serve_engine_options *o, uint32_t n_all,
                    serve_metrics *metrics, qsf_error *err)
{
    const uint32_t n_seqs = o->slots + o->kept;
    const qsf_schedule_options so = { .size = sizeof so, .n_seqs = n_seqs, .n_logits = o->context.n_logits,
                                      .step_rows = o->step_rows, .draft = o->draft };
    qsf_plan plan = { .size = sizeof plan };
    qsf_context_get_plan(c, &plan);
    *p = (seq_pool){ .context = c, .metrics = metrics, .n_seqs = n_seqs, .window = plan.kv_window,
                     .n_all = n_all, .session_ns = o->session_s * (uint64_t)1000000000 };
    if (qsf_schedule_new(c, &so, &p->schedule, err)) return false;
    p->seqs = calloc(n_seqs, sizeof *p->seqs);
    p->loras = calloc(n_all, sizeof *p->loras);
    p->tree = prefix_new(n_seqs);
    if (!p->seqs || !p->loras || !p->tree) {
        if (err) err->status = QSF_E_MEMORY;
        return false;
    }
    for (uint32_t s = 0; s < n_seqs; s++)
        if (qsf_turn_new(c, (qsf_seq)s, &p->seqs[s].turn, err)) return false;
    seq_pool_blocks(p);
    return true;
}

bool seq_pool_disk(seq_pool *p, const disk_options *o, qsf_error *err)
{
    qsf_plan plan = { .size = sizeof plan };
    qsf_context_get_plan(p->context, &plan);
    if (p->window || !o->limit) return true;        /* what a window has dropped cannot be saved */
    p->n_ids = plan.n_ctx;
    p->ids = calloc(p->n_ids, sizeof *p->ids);
    *err = (qsf_error){ .status = QSF_E_MEMORY, .text = "out of memory" };
    return p->ids && (p->disk = disk_new(o, err));
}

void seq_pool_end(seq_pool *p)
{
    disk_free(p->disk);
    free(p->ids);
    for (uint32_t s = 0; p->seqs && s < p->n_seqs; s++) qsf_turn_free(p->seqs[s].turn);
    for (uint32_t s = 0; p->loras && s < p->n_all; s++) lora_empty(&p->loras[s]);
    prefix_free(p->tree);
    free(p->loras);
    free(p->seqs);
    qsf_schedule_free(p->schedule);
    *p = (seq_pool){ 0 };
}

/* ---- blocks ---- */

static bool seq_is_kept(const seq_pool *p, uint32_t s)
{
    return qsf_schedule_seq(p->schedule, (qsf_seq)s)->use == QSF_SEQ_KEPT;
}

uint32_t seq_pool_blocks(seq_pool *p)
{
    qsf_kv_usage u = { .size = sizeof u };
    qsf_context_get_kv_usage(p->context, &u);
    metric_set(&p->metrics->kv_blocks, u.n_blocks);
    metric_set(&p->metrics->kv_blocks_used, u.n_blocks - u.n_free);
    metric_set(&p->metrics->kv_blocks_free, u.n_free);
    metric_set(&p->metrics->kv_block_positions, u.block);
    metric_set(&p->metrics->kv_blocks_shared, u.n_listed - (u.n_blocks - u.n_free));
    metric_set(&p->metrics->kv_positions, u.positions);
    p->block = u.block;
    uint32_t kept = 0;
    for (uint32_t s = 0; s < p->n_seqs; s++) kept += seq_is_kept(p, s);
    metric_set(&p->metrics->kept_sequences, kept);
    return p->n_free = qsf_schedule_count(p->schedule);
}

/* ---- eviction ---- */

void seq_listed(seq_pool *p, uint32_t s, bool listed)
{
    prefix_remove(p->tree, s);
    if (!listed || p->window) return;       /* a window drops what others would share */
    size_t n;
    const int32_t *ids = qsf_turn_tokens(p->seqs[s].turn, &n);
    if (n) prefix_add(p->tree, s, p->loras[s].key, ids, (uint32_t)n);
}

qsf_status seq_adapt(seq_pool *p, qsf_seq s, const serve_lora *lora)
{
    qsf_adapter_use uses[LORA_MOST];
    serve_lora *own = &p->loras[s];
    if (lora_same(own, lora)) return QSF_OK;
    for (unsigned i = 0; i < lora->n; i++)
        uses[i] = (qsf_adapter_use){ lora->adapters[i]->adapter, lora->scales[i] };
    const qsf_status st = qsf_seq_set_adapters(p->context, s, uses, lora->n);
    if (!st) lora_copy(own, lora);
    return st;
}

void seq_give_back(seq_pool *p, uint32_t s)
{
    const serve_lora none = { 0 };
    seq_listed(p, s, false);
    (void)qsf_seq_truncate(p->context, (qsf_seq)s, 0);
    (void)seq_adapt(p, (qsf_seq)s, &none);
    qsf_schedule_use(p->schedule, (qsf_seq)s, QSF_SEQ_FREE, 0);
    p->seqs[s].session = 0;
}

/* Evicts a kept sequence, to the disk if there is one. */
static void seq_evict(seq_pool *p, uint32_t s)
{
    size_t n;
    const pool_seq *q = &p->seqs[s];
    const int32_t *ids = qsf_turn_tokens(q->turn, &n);
    if (p->disk)
        (void)disk_put(p->disk, p->context, (qsf_seq)s, p->loras[s].key, ids, (uint32_t)n,
                       qsf_schedule_row_ns(p->schedule), false,
                       q->session ? qsf_schedule_seq(p->schedule, (qsf_seq)s)->held_ns : 0);
    seq_give_back(p, s);
    metric_add(&p->metrics->evicted_total, 1);
    seq_pool_blocks(p);
}

bool seq_make_room(seq_pool *p, uint32_t blocks, int32_t but)
{
    while (p->n_free < blocks) {
        const int32_t old = qsf_schedule_oldest(p->schedule, but, serve_now());
        if (old < 0) return false;
        seq_evict(p, (uint32_t)old);
    }
    return true;
}

int32_t seq_take(seq_pool *p, int32_t but)
{
    int32_t s = qsf_schedule_unused(p->schedule);
    if (s < 0 && (s = qsf_schedule_oldest(p->schedule, but, serve_now())) >= 0) seq_evict(p, (uint32_t)s);
    if (s >= 0) qsf_schedule_use(p->schedule, s, QSF_SEQ_RUNS, 0);
    return s;
}

/* ---- what is kept ---- */

int32_t seq_like(seq_pool *p, uint64_t key, const int32_t *ids, uint32_t len, uint32_t *n)
{
    uint32_t s = 0;
    *n = prefix_longest(p->tree, key, ids, len, &s);
    if (!*n) return -1;
    const qsf_seq_state *q = qsf_schedule_seq(p->schedule, (qsf_seq)s);
    qsf_schedule_use(p->schedule, (qsf_seq)s, q->use, q->held_ns);
    return (int32_t)s;
}

void seq_keep(seq_pool *p, uint32_t s, uint64_t session, uint64_t now_ns)
{
    for (uint32_t i = 0; i < p->n_seqs; i++) {
        if (!session || p->seqs[i].session != session) continue;
        p->seqs[i].session = 0;
        qsf_schedule_hold(p->schedule, (qsf_seq)i, 0);
    }
    seq_listed(p, s, true);
    if (!prefix_has(p->tree, s) || lora_is_gone(&p->loras[s])) {
        seq_give_back(p, s);
        return;
    }
    qsf_schedule_use(p->schedule, (qsf_seq)s, QSF_SEQ_KEPT, session ? now_ns + p->session_ns : 0);
    p->seqs[s].session = session;
    /* Sequences that are a prefix of this one are not needed any more. */
    for (int32_t q = prefix_within(p->tree, s, -1), next; q >= 0; q = next) {
        next = prefix_within(p->tree, s, q);
        if (seq_is_kept(p, (uint32_t)q) && !p->seqs[q].session) seq_give_back(p, (uint32_t)q);
    }
}

void seq_forget_dropped(seq_pool *p)
{
    for (uint32_t s = 0; s < p->n_seqs; s++)
        if (seq_is_kept(p, s) && lora_is_gone(&p->loras[s])) seq_give_back(p, s);
}

int32_t seq_on_disk(seq_pool *p, uint64_t key, const int32_t *ids, uint32_t len)
{
    uint32_t s, n;
    const uint32_t have = prefix_longest(p->tree, key, ids, len, &s);
    return disk_like(p->disk, key, ids, len, have, qsf_schedule_row_ns(p->schedule), &n);
}

bool seq_from_disk(seq_pool *p, int32_t entry, const serve_lora *lora)
{
    const uint32_t n = disk_length(p->disk, entry), blocks = (n + p->block - 1) / p->block;
    seq_pool_blocks(p);
    const int32_t s = seq_make_room(p, blocks, -1) ? seq_take(p, -1) : -1;
    if (s < 0) return false;
    if (seq_adapt(p, s, lora) || !disk_load(p->disk, entry, p->context, s, p->ids, p->n_ids)
        || qsf_turn_hold(p->seqs[s].turn, p->ids, n)) {
        seq_give_back(p, (uint32_t)s);
        return false;
    }
    seq_keep(p, (uint32_t)s, 0, 0);
    seq_pool_blocks(p);
    return true;
}
