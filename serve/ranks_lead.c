/* Rank 0: events of other ranks' jobs come.
 * SPDX-License-Identifier: MIT */
#include "ranks_own.h"

#include <stdio.h>
#include <string.h>

/* Turns the refusal of a job that another rank could not begin into the job's error. */
static void refusal_take(front_job *j, const rank_refusal *e)
{
    char code[sizeof e->code], param[sizeof e->param], text[sizeof e->text];
    snprintf(code, sizeof code, "%.*s", (int)sizeof code - 1, e->code);
    snprintf(param, sizeof param, "%.*s", (int)sizeof param - 1, e->param);
    snprintf(text, sizeof text, "%.*s", (int)sizeof text - 1, e->text);
    memcpy(j->at.code, code, sizeof code);
    serve_refuse(&j->error, e->status >= 400 && e->status < 600 ? e->status : 500, *code ? j->at.code : NULL,
                 *param ? param : NULL, "%s", text);
}

static void job_refused(front_job *j, const rank_refusal *e)
{
    refusal_take(j, e);
    const unsigned n = j->job.n_branches;
    for (unsigned i = 0; i < n; i++)
        if (!j->choices[i].over)
            front_event(j, &(serve_event){ .kind = EVENT_END, .branch = (uint16_t)i, .job = &j->job,
                                           .end = QSF_TURN_FAILED }, "");
    front_event(j, &(serve_event){ .kind = EVENT_DONE, .job = &j->job }, "");
}

static void job_told(front_job *j, const serve_event *ev, size_t len)
{
    const size_t logprobs = ev->n_logprobs * sizeof(qsf_logprob);
    const size_t after = sizeof *ev + logprobs + ev->len;
    const size_t n = ev->kind == EVENT_DONE && j->job.embeddings
        ? (size_t)j->job.n_prompts * j->entry->info.n_embd * sizeof(float) : 0;
    if (ev->kind > EVENT_DONE || ev->branch >= j->job.n_branches || ev->n_logprobs > len / sizeof(qsf_logprob)
        || ev->len > len || after + n != len)
        j->front->set->link->fail("rank %d sent a damaged event", j->at.rank);
    if (n) memcpy(j->job.embeddings, (const char *)ev + after, n);
    front_event(j, ev, (const char *)(ev + 1) + logprobs);
}

/* A rank has an adapter, or says why it cannot (e not NULL). */
static void lora_answered(front_job *j, int rank, const rank_refusal *e)
{
    if (e && !j->error.status) {
        rank_refusal named = *e;
        snprintf(named.text, sizeof named.text, "rank %d: %.*s", rank, (int)sizeof e->text - 20, e->text);
        refusal_take(j, &named);
    }
    if (j->at.n_left && !--j->at.n_left) front_lora_told(j);
}

static void lead_part(serve_ranks *r, int rank, const rank_part *p, const unsigned char *bytes)
{
    const serve_link *link = r->front->set->link;
    front_job *j = p->kind == RANK_STATE ? NULL : rank_slot_job(r, p);
    const bool own = j && j->at.rank == rank;
    const bool refusal = p->kind == RANK_REFUSAL && p->len == sizeof(rank_refusal);
    if (p->kind == RANK_STATE && p->len == state_bytes(r->front)) state_unpack(r, rank, bytes);
    else if (j && j->at.everywhere && (p->kind == RANK_EVENT || refusal))
        lora_answered(j, rank, refusal ? (const void *)bytes : NULL);
    else if (p->kind == RANK_EVENT && own && p->len >= sizeof(serve_event))
        job_told(j, (const void *)bytes, (size_t)p->len);
    else if (refusal && own)
        job_refused(j, (const void *)bytes);
    else link->fail("rank %d sent an unknown message: do both have the same options?", rank);
}

void lead_look(serve_ranks *r)
{
    const serve_link *link = r->front->set->link;
    for (int i = 1; i < link->ranks; i++) {
        const void *message;
        size_t len;
        while ((len = link->receive(i, &message))) {
            const unsigned char *at = message, *end = at + len, *bytes;
            for (rank_part p; part_next(r->front, &at, end, &p, &bytes);) lead_part(r, i, &p, bytes);
        }
    }
}
