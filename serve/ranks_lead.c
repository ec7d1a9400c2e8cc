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
    size_t n_body;
    const char *body = front_body(j, &n_body);
    const rank_job head = { .api = (uint32_t)j->job.request.api, .key = j->job.key,
                            .n_prompts = j->job.n_prompts, .n_body = n_body,
                            .left_ns = !deadline ? 0 : deadline > now ? deadline - now : 1 };
    text_add(out, (const char *)&head, sizeof head);
    for (unsigned i = 0; i < head.n_prompts; i++) {
        const uint64_t n = j->job.prompts[i].n;
        text_add(out, (const char *)&n, sizeof n);
    }
    for (unsigned i = 0; i < head.n_prompts; i++)
        text_add(out, (const char *)j->job.prompts[i].ids, j->job.prompts[i].n * sizeof(int32_t));
    text_add(out, body, n_body);
}

static uint32_t slot_free(const serve_ranks *r)
{
    uint32_t slot = 0;
    while (slot < r->n_jobs && r->jobs[slot]) slot++;
    return slot;
}

/* Sends a job away.  false: no memory. */
static bool job_send(serve_ranks *r, front_job *j, int rank)
{
    const uint32_t slot = slot_free(r);
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

static void link_out_of_memory(const serve_ranks *r)
{
    r->front->set->link->fail("out of memory for a message to other ranks");
}

/* What is in r->out, to all others. */
static void send_all(serve_ranks *r)
{
    const serve_link *link = r->front->set->link;
    if (r->out.failed) link_out_of_memory(r);
    for (int i = 1; i < link->ranks; i++) link->send(i, r->out.bytes, r->out.len);
}

void ranks_scales(serve_front *f, const serve_scale *scales, size_t n)
{
    serve_ranks *r = f->ranks;
    text_clear(&r->out);
    const size_t at = part_begin(&r->out, RANK_SCALES, 0, 0);
    text_add(&r->out, (const char *)scales, n * sizeof *scales);
    part_end(&r->out, at);
    send_all(r);
}

/* ---- adapters ---- */

/* The request as others are to read it: the client that sent it may have gone. */
static void lora_pack(const front_job *j, serve_text *out)
{
    const serve_request *q = &j->job.request;
    text_str(out, "{\"lora_name\":");
    text_json_str(out, q->lora_name);
    text_str(out, ",\"lora_path\":");
    text_json_str(out, q->lora_path);
    text_format(out, ",\"scale\":%.17g,\"model\":", q->lora_scale);
    text_json_str(out, j->entry->name);
    text_str(out, "}");
}

void ranks_lora(front_job *j)
{
    serve_ranks *r = j->front->ranks;
    const serve_link *link = r->front->set->link;
    serve_text body = { 0 };
    if (link->load) {
        j->at.everywhere = true;
        link->load(j->at.adapter, j->job.request.lora_path, j->loading->sum);
        serve_engine_wake(j->entry->engine);
        return;
    }
    lora_pack(j, &body);
    j->at.n_left = (unsigned)link->ranks - 1;
    j->at.everywhere = true;
    j->at.slot = slot_free(r);
    const rank_job head = { .api = API_LORA_LOAD, .key = j->job.key, .adapter = j->at.adapter,
                            .sum = j->loading->sum, .n_body = body.len };
    text_clear(&r->out);
    const size_t at = part_begin(&r->out, RANK_JOB, j->at.slot, j->number);
    text_add(&r->out, (const char *)&head, sizeof head);
    text_add(&r->out, body.bytes, body.len);
    part_end(&r->out, at);
    if (body.failed || !rank_slot_set(r, j->at.slot, j)) link_out_of_memory(r);
    send_all(r);
    text_free(&body);
    if (!j->at.n_left) front_lora_told(j);
}

void ranks_lora_drop(serve_front *f, uint32_t id)
{
    serve_ranks *r = f->ranks;
    text_clear(&r->out);
    part_end(&r->out, part_begin(&r->out, RANK_LORA_DROP, 0, id));
    send_all(r);
}

/* ---- events come ---- */

/* What a rank's job says that could not begin, to the job's error. */
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
