/* Room in memory: which branches pause for others, and resume from disk.
 * SPDX-License-Identifier: MIT */
#include "scheduler.h"

/* ---- making room ---- */

void branch_pause(scheduler *s, serve_branch *b)
{
    seq_pool *p = &s->pool;
    size_t n;
    b->back = qsf_turn_tokens(branch_turn(s, b), &n);
    if (b->stage != BRANCH_PAUSED) {
        b->n_back = (uint32_t)n;
        if (p->disk)
            b->disk = disk_put(p->disk, p->context, b->seq, b->job->lora.key, b->back, b->n_back,
                               qsf_schedule_row_ns(p->schedule), true, 0);
        if (b->disk >= 0) {
            disk_hold(p->disk, b->disk);
            metric_add(&s->metrics->preempted_to_disk_total, 1);
        }
    }
    b->stage = BRANCH_PAUSED;
    seq_listed(&s->pool, (uint32_t)b->seq, false);
    (void)qsf_seq_truncate(s->pool.context, b->seq, 0);
    seq_pool_blocks(&s->pool);
    metric_add(&s->metrics->preempted_total, 1);
}

serve_branch *scheduler_last(scheduler *s)
{
    serve_branch *last = NULL;
    for (unsigned i = 0; i < s->n_running; i++) {
        serve_branch *b = s->running[i];
        if (b->beam || !qsf_seq_length(s->pool.context, b->seq)) continue;
        if (!last || b->job->request.priority <= last->job->request.priority) last = b;
    }
    return last;
}

uint32_t answer_blocks(scheduler *s, const serve_branch *b)
{
    return b->beam ? beam_blocks(&s->pool, b->beam) : qsf_schedule_blocks(s->pool.schedule, b->seq, 1);
}

bool answer_room(scheduler *s, serve_branch *b, uint32_t taken)
{
    const uint32_t need = taken + answer_blocks(s, b);
    while (!seq_make_room(&s->pool, need, -1)) {
        if (embed_yield(&s->embed)) continue;
        serve_branch *last = scheduler_last(s);
        if ((last == b && s->n_running == 1) || (b->beam && (!last || last->n_rows))) {
            branch_end(s, b, QSF_TURN_FULL, false);
            return false;
        }
        if (last && last->n_rows) last = b;         /* it is in the batch already */
        if (!last) last = b;
        branch_pause(s, last);
        if (last == b) return false;
    }
    return true;
}

/* ---- coming back ---- */

/* Gives a paused branch its sequence again, if every running answer then still finds a block. */
static void branch_resume(scheduler *s, serve_branch *b)
{
    seq_pool *p = &s->pool;
    const uint32_t n = disk_length(p->disk, b->disk);
    uint32_t blocks = (n + p->block - 1) / p->block;
    for (unsigned i = 0; i < s->n_running; i++)
        if (s->running[i]->stage == BRANCH_ANSWER) blocks += branch_width(s->running[i]);
    if (!seq_make_room(p, blocks, -1)) return;
    const disk_fetched got = disk_fetch(p->disk, b->disk);
    if (got == DISK_COMES) return;
    if (got == DISK_READY && disk_load(p->disk, b->disk, p->context, b->seq, p->ids, p->n_ids)
        && n > b->n_back)
        (void)qsf_seq_truncate(p->context, b->seq, b->n_back);
    branch_forget_disk(s, b);
    seq_pool_blocks(p);
    if (qsf_seq_length(p->context, b->seq) == b->n_back)
        b->stage = b->prompt_done ? BRANCH_ANSWER : BRANCH_PROMPT;
}

void scheduler_resume(scheduler *s)
{
    for (unsigned i = 0; s->pool.disk && i < s->n_running; i++) {
        serve_branch *b = s->running[i];
        if (b->stage == BRANCH_PAUSED && b->disk >= 0) branch_resume(s, b);
    }
}

bool branch_comes(scheduler *s, serve_branch *b)
{
    seq_pool *p = &s->pool;
    const serve_tokens *ids = branch_prompt(b);
    const serve_lora *lora = &b->job->lora;
    if (!p->disk) return false;
    if (!b->asked) {
        b->asked = true;
        b->disk = seq_on_disk(p, lora->key, ids->ids, (uint32_t)ids->n - 1);
        if (b->disk >= 0) disk_hold(p->disk, b->disk);
    }
    /* Another branch may have brought it. */
    if (b->disk >= 0 && !disk_coming(p->disk, b->disk)
        && seq_on_disk(p, lora->key, ids->ids, (uint32_t)ids->n - 1) < 0)
        branch_forget_disk(s, b);
    if (b->disk < 0) return false;
    const disk_fetched got = disk_fetch(p->disk, b->disk);
    if (got == DISK_COMES) return true;
    if (got == DISK_READY) (void)seq_from_disk(p, b->disk, lora);
    branch_forget_disk(s, b);
    return false;
}
