/* Rank 0: jobs go to ranks, their events come back.
 * SPDX-License-Identifier: MIT */
#include "ranks_own.h"
#include "scheduler.h"

#include <stdio.h>
#include <string.h>

static unsigned job_model(const front_job *j)
{
    return (unsigned)(j->entry - models_at(j->front->models, 0));
}

/* ---- jobs go ---- */

static void job_pack(const front_job *j, serve_text *out)
{
    const uint64_t now = serve_now(), deadline = j->job.deadline_ns;
    const rank_job head = { .api = (uint32_t)j->job.request.api, .key = j->job.key,
                            .n_prompts = j->job.n_prompts, .n_body = j->asked->n_body,
                            .left_ns = !deadline ? 0 : deadline > now ? deadline - now : 1 };
    text_add(out, (const char *)&head, sizeof head);
    for (unsigned i = 0; i < head.n_prompts; i++) {
        const uint64_t n = j->job.prompts[i].n;
        text_add(out, (const char *)&n, sizeof n);
    }
    for (unsigned i = 0; i < head.n_prompts; i++)
        text_add(out, (const char *)j->job.prompts[i].ids, j->job.prompts[i].n * sizeof(int32_t));
    text_add(out, j->asked->body, j->asked->n_body);
}

/* Sends a job away.  false: no memory. */
static bool job_send(serve_ranks *r, front_job *j, int rank)
{
    uint32_t slot = 0;
    while (slot < r->n_jobs && r->jobs[slot]) slot++;
    text_clear(&r->out);
    const size_t at = part_begin(&r->out, RANK_JOB, slot, j->number);
    job_pack(j, &r->out);
    part_end(&r->out, at);
    if (r->out.failed || !rank_slot_set(r, slot, j)) return false;
    j->at.rank = rank;
    j->at.slot = slot;
    r->front->set->link->send(rank, r->out.bytes, r->out.len);
    return true;
}

bool ranks_submit(front_job *j)
{
    serve_ranks *r = j->front->ranks;
    const serve_engine_options *o = &j->front->set->engine;
    const bool answers = !(j->job.request.api & API_EMBEDDED);       /* whose keys and values are kept */
    static const serve_tokens nothing;
    const serve_tokens *first = answers ? &j->job.prompts[0] : &nothing;
    uint32_t same;
    const int rank = rank_choose(r, job_model(j), first, j->job.n_branches, &same);
    rank_load *l = &r->loads[rank];
    if (l->answers + j->job.n_branches > o->queue + o->slots) return false;
    if (rank ? !job_send(r, j, rank) : !serve_engine_submit(j->entry->engine, &j->job)) return false;
    for (unsigned i = 0; i < j->job.n_prompts; i++) j->at.tokens += j->job.prompts[i].n;
    j->at.tokens -= same;
    j->at.counts = true;
    l->answers += j->job.n_branches;
    l->tokens += j->at.tokens;
    l->n_jobs++;
    if (answers) rank_remember(r, rank, job_model(j), first);
    return true;
}

void ranks_cancel(front_job *j)
{
    const rank_part p = { .kind = RANK_CANCEL, .slot = j->at.slot, .number = j->number };
    if (j->at.rank) j->front->set->link->send(j->at.rank, &p, sizeof p);
}

void ranks_scales(serve_front *f, const serve_scale *scales, size_t n)
{
    serve_ranks *r = f->ranks;
    text_clear(&r->out);
    const size_t at = part_begin(&r->out, RANK_SCALES, 0, 0);
    text_add(&r->out, (const char *)scales, n * sizeof *scales);
    part_end(&r->out, at);
    if (r->out.failed) f->set->link->fail("out of memory for what other ranks are told");
    for (int i = 1; i < f->set->link->ranks; i++) f->set->link->send(i, r->out.bytes, r->out.len);
}

/* ---- events come ---- */

/* What a rank's job says that could not begin. */
static void job_refused(front_job *j, const rank_refusal *e)
{
    char code[sizeof e->code], param[sizeof e->param], text[sizeof e->text];
    snprintf(code, sizeof code, "%.*s", (int)sizeof code - 1, e->code);
    snprintf(param, sizeof param, "%.*s", (int)sizeof param - 1, e->param);
    snprintf(text, sizeof text, "%.*s", (int)sizeof text - 1, e->text);
    memcpy(j->at.code, code, sizeof code);
    serve_refuse(&j->error, e->status >= 400 && e->status < 600 ? e->status : 500, *code ? j->at.code : NULL,
                 *param ? param : NULL, "%s", text);
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
        j->front->set->link->fail("rank %d sent what is no event of a request", j->at.rank);
    if (n) memcpy(j->job.embeddings, (const char *)ev + after, n);
    front_event(j, ev, (const char *)(ev + 1) + logprobs);
}

static void lead_part(serve_ranks *r, int rank, const rank_part *p, const unsigned char *bytes)
{
    const serve_link *link = r->front->set->link;
    front_job *j = p->kind == RANK_STATE ? NULL : rank_slot_job(r, p);
    const bool own = j && j->at.rank == rank;
    if (p->kind == RANK_STATE && p->len == state_bytes(r->front)) state_unpack(r, rank, bytes);
    else if (p->kind == RANK_EVENT && own && p->len >= sizeof(serve_event))
        job_told(j, (const void *)bytes, (size_t)p->len);
    else if (p->kind == RANK_REFUSAL && own && p->len == sizeof(rank_refusal))
        job_refused(j, (const void *)bytes);
    else link->fail("rank %d sent what rank 0 does not know: do both have the same options?", rank);
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
