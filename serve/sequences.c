/* Sequences of the context, their blocks, and those kept for prompts with the same prefix.
 * SPDX-License-Identifier: MIT */
#include "scheduler.h"

#include <stdlib.h>

bool seq_pool_begin(seq_pool *p, qsf_context *c, uint32_t n_seqs, uint32_t n_all, unsigned session_s,
                    serve_metrics *metrics, qsf_error *err)
{
    qsf_plan plan = { .size = sizeof plan };
    qsf_context_get_plan(c, &plan);
    *p = (seq_pool){ .context = c, .metrics = metrics, .n_seqs = n_seqs, .window = plan.kv_window,
                     .n_all = n_all, .session_ns = session_s * (uint64_t)1000000000 };
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
    *p = (seq_pool){ 0 };
}

/* ---- blocks ---- */

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
    for (uint32_t s = 0; s < p->n_seqs; s++) kept += p->seqs[s].use == POOL_KEPT;
    metric_set(&p->metrics->kept_sequences, kept);
    return p->n_free = u.n_free;
}

/* Rows that the last block of a sequence still takes; below 0: it is shared, and copied first. */
static int64_t seq_slack(seq_pool *p, qsf_seq s)
{
    const uint32_t used = qsf_seq_length(p->context, s) % p->block;
    const int64_t room = qsf_seq_room(p->context, s), all = (int64_t)p->n_free * p->block;
    if (!used) return 0;
    return room > all ? (int64_t)(p->block - used) : -(int64_t)used;
}

uint32_t seq_blocks_for(seq_pool *p, qsf_seq s, uint32_t rows)
{
    const int64_t more = (int64_t)rows - seq_slack(p, s);
    if (p->window || !rows || more <= 0) return 0;
    return (uint32_t)((more + p->block - 1) / p->block);
}

uint32_t seq_rows_in(seq_pool *p, qsf_seq s, uint32_t blocks)
{
    const int64_t rows = seq_slack(p, s) + (int64_t)blocks * p->block;
    return p->window ? UINT32_MAX : rows > 0 ? (uint32_t)rows : 0;
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
    p->seqs[s].use = POOL_FREE;
    p->seqs[s].session = 0;
}

/* The kept sequence to evict first; -1: none is kept.  Those of sessions are evicted last. */
static int32_t seq_oldest(const seq_pool *p, int32_t but)
{
    int32_t best = -1;
    const uint64_t now = serve_now();
    bool best_held = true;
    for (uint32_t i = 0; i < p->n_seqs; i++) {
        const pool_seq *q = &p->seqs[i];
        const bool held = q->session && q->session_end_ns > now;
        if (q->use != POOL_KEPT || (int32_t)i == but) continue;
        if (best >= 0 && (held != best_held ? held : q->used >= p->seqs[best].used)) continue;
        best = (int32_t)i;
        best_held = held;
    }
    return best;
}

/* Evicts a kept sequence, to the disk if there is one. */
static void seq_evict(seq_pool *p, uint32_t s)
{
    size_t n;
    const pool_seq *q = &p->seqs[s];
    const int32_t *ids = qsf_turn_tokens(q->turn, &n);
    if (p->disk)
        (void)disk_put(p->disk, p->context, (qsf_seq)s, p->loras[s].key, ids, (uint32_t)n, p->row_ns, false,
                       q->session ? q->session_end_ns : 0);
    seq_give_back(p, s);
    metric_add(&p->metrics->evicted_total, 1);
    seq_pool_blocks(p);
}

bool seq_make_room(seq_pool *p, uint32_t blocks, int32_t but)
{
    while (p->n_free < blocks) {
        const int32_t old = seq_oldest(p, but);
        if (old < 0) return false;
        seq_evict(p, (uint32_t)old);
    }
    return true;
}

int32_t seq_take(seq_pool *p, int32_t but)
{
    int32_t s = -1;
    for (uint32_t i = 0; i < p->n_seqs && s < 0; i++) if (p->seqs[i].use == POOL_FREE) s = (int32_t)i;
    if (s < 0 && (s = seq_oldest(p, but)) >= 0) seq_evict(p, (uint32_t)s);
    if (s >= 0) p->seqs[s].use = POOL_RUNS;
    return s;
}

/* ---- what is kept ---- */

int32_t seq_like(seq_pool *p, uint64_t key, const int32_t *ids, uint32_t len, uint32_t *n)
{
    uint32_t s = 0;
    *n = prefix_longest(p->tree, key, ids, len, &s);
    if (!*n) return -1;
    p->seqs[s].used = ++p->uses;
    return (int32_t)s;
}

void seq_keep(seq_pool *p, uint32_t s, uint64_t session, uint64_t now_ns)
{
    for (uint32_t i = 0; i < p->n_seqs; i++)
        if (session && p->seqs[i].session == session) p->seqs[i].session = 0;
    seq_listed(p, s, true);
    if (!prefix_has(p->tree, s) || lora_is_gone(&p->loras[s])) {
        seq_give_back(p, s);
        return;
    }
    p->seqs[s].use = POOL_KEPT;
    p->seqs[s].used = ++p->uses;
    p->seqs[s].session = session;
    p->seqs[s].session_end_ns = now_ns + p->session_ns;
    /* Sequences that are a prefix of this one are not needed any more. */
    for (int32_t q = prefix_within(p->tree, s, -1), next; q >= 0; q = next) {
        next = prefix_within(p->tree, s, q);
        if (p->seqs[q].use == POOL_KEPT && !p->seqs[q].session) seq_give_back(p, (uint32_t)q);
    }
}

void seq_forget_dropped(seq_pool *p)
{
    for (uint32_t s = 0; s < p->n_seqs; s++)
        if (p->seqs[s].use == POOL_KEPT && lora_is_gone(&p->loras[s])) seq_give_back(p, s);
}

int32_t seq_on_disk(seq_pool *p, uint64_t key, const int32_t *ids, uint32_t len)
{
    uint32_t s, n;
    const uint32_t have = prefix_longest(p->tree, key, ids, len, &s);
    return disk_like(p->disk, key, ids, len, have, p->row_ns, &n);
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
