/* What the other ranks report to rank 0: events of jobs, and their state when it has changed.
 * SPDX-License-Identifier: MIT */
#include "ranks_own.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void follow_tell_state(serve_ranks *r)
{
    const size_t n = state_bytes(r->front), at = r->out.len;
    unsigned char *now = malloc(n);
    if (!now) return;
    state_pack(r->front, now);
    r->told_ns = serve_now();
    if (memcmp(now, r->state, n)) {
        memcpy(r->state, now, n);
        part_begin(&r->out, RANK_STATE, 0, 0);
        text_add(&r->out, (const char *)now, n);
        part_end(&r->out, at);
    }
    free(now);
}

static void follow_event(front_job *j, const serve_event *ev, const char *text)
{
    serve_ranks *r = j->front->ranks;
    serve_event own = *ev;
    own.job = NULL;
    if (ev->kind == EVENT_DONE) follow_tell_state(r);         /* counted before the client sees the end */
    const size_t at = part_begin(&r->out, RANK_EVENT, j->at.slot, j->number);
    text_add(&r->out, (const char *)&own, sizeof own);
    text_add(&r->out, (const char *)serve_event_logprobs(ev), ev->n_logprobs * sizeof(qsf_logprob));
    text_add(&r->out, text, ev->len);
    if (ev->kind == EVENT_DONE && j->job.embeddings)
        text_add(&r->out, (const char *)j->job.embeddings,
                 (size_t)j->job.n_prompts * j->entry->info.n_embd * sizeof(float));
    part_end(&r->out, at);
    j->at.over = ev->kind == EVENT_DONE;
}

void follow_refuse(serve_ranks *r, uint32_t slot, uint64_t number, const serve_error *e)
{
    rank_refusal own = { .status = e->status };
    snprintf(own.code, sizeof own.code, "%s", e->code ? e->code : "");
    memcpy(own.param, e->param, sizeof own.param);
    memcpy(own.text, e->text, sizeof own.text);
    const size_t at = part_begin(&r->out, RANK_REFUSAL, slot, number);
    text_add(&r->out, (const char *)&own, sizeof own);
    part_end(&r->out, at);
}

void ranks_refuse(front_job *j, const serve_error *e)
{
    follow_refuse(j->front->ranks, j->at.slot, j->number, e);
    j->at.over = true;
}

/* ---- both sides' jobs ---- */

void ranks_event(front_job *j, const serve_event *ev, const char *text)
{
    if (ranks_follow(j->front)) {
        follow_event(j, ev, text);
    } else if (j->at.counts) {
        j->front->ranks->loads[j->at.rank].tokens -= j->at.tokens;
        j->at.tokens = 0;
    }
}

void ranks_drop(front_job *j)
{
    serve_ranks *r = j->front->ranks;
    serve_error e = { 0 };
    if (r->loads) {
        if (j->at.everywhere && !r->front->set->link->load) rank_slot_set(r, j->at.slot, NULL);
        if (!j->at.counts) return;
        r->loads[j->at.rank].answers -= j->job.n_branches;
        r->loads[j->at.rank].tokens -= j->at.tokens;
        if (j->at.rank) rank_slot_set(r, j->at.slot, NULL);
        return;
    }
    rank_slot_set(r, j->at.slot, NULL);
    serve_refuse(&e, 503, "cancelled", NULL, "the request was cancelled");
    if (!j->at.over) ranks_refuse(j, &e);
}
