/* Rank 0: sends jobs to ranks, and with them what all ranks have to know.
 * SPDX-License-Identifier: MIT */
#include "ranks_own.h"

static unsigned job_model(const front_job *j)
{
    return (unsigned)(j->entry - models_at(j->front->models, 0));
}

/* ---- jobs ---- */

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

bool ranks_lora(front_job *j)
{
    serve_ranks *r = j->front->ranks;
    const serve_link *link = r->front->set->link;
    serve_text body = { 0 };
    if (link->load) {
        j->at.everywhere = true;
        link->load(j->at.adapter, j->job.request.lora_path, j->loading->sum);
        serve_engine_wake(j->entry->engine);
        return false;
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
    return !j->at.n_left;
}

void ranks_lora_drop(serve_front *f, uint32_t id)
{
    serve_ranks *r = f->ranks;
    text_clear(&r->out);
    part_end(&r->out, part_begin(&r->out, RANK_LORA_DROP, 0, id));
    send_all(r);
}
