/* What others see of the engine: its metrics, and its slots.
 * SPDX-License-Identifier: MIT */
#include "engine_own.h"

void scheduler_show(scheduler *s)
{
    metric_set(&s->metrics->waiting, s->n_waiting);
    metric_set(&s->metrics->running, s->n_running);
}

void engine_show(serve_engine *e)
{
    static const unsigned states[] = { [BRANCH_PROMPT] = SLOT_PROMPT, [BRANCH_ANSWER] = SLOT_ANSWER,
                                       [BRANCH_PAUSED] = SLOT_PAUSED, [BRANCH_OVER] = SLOT_IDLE };
    const scheduler *s = &e->schedule;
    qsf_stats stats = { .size = sizeof stats };
    qsf_device_use use = { .size = sizeof use };
    qsf_context_get_stats(e->context, &stats);
    if (!qsf_context_device(e->context, &use)) metric_set(&e->metrics->gpu_layers, use.n_layers);
    scheduler_show(&e->schedule);
    metric_set(&e->metrics->streamed_bytes_total, stats.bytes_read);
    for (unsigned i = 0; i < s->slots; i++) {
        qsf_turn_state t = { .size = sizeof t };
        const serve_branch *b = i < s->n_running ? s->running[i] : NULL;
        if (b) qsf_turn_get_state(s->pool.seqs[b->seq].turn, &t);
        atomic_store_explicit(&e->slots[i].state, b ? states[b->stage] : SLOT_IDLE, memory_order_relaxed);
        atomic_store_explicit(&e->slots[i].n_prompt, (unsigned)t.n_prompt, memory_order_relaxed);
        atomic_store_explicit(&e->slots[i].n_done, (unsigned)t.n_done, memory_order_relaxed);
        atomic_store_explicit(&e->slots[i].n_tokens, (unsigned)t.n_tokens, memory_order_relaxed);
    }
}
