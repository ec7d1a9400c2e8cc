/* The ranks other than 0, which get their jobs from rank 0.
 * SPDX-License-Identifier: MIT */
#include "ranks_own.h"

#include <event2/event.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t state_every_ns = 100000000;

/* The prompts' tokens, from bytes of which there are enough. */
static bool tokens_unpack(front_job *j, unsigned n, const unsigned char *lengths, const unsigned char *ids,
                          serve_error *e)
{
    j->job.prompts = calloc(n, sizeof *j->job.prompts);
    for (unsigned i = 0; j->job.prompts && i < n; i++) {
        uint64_t len;
        memcpy(&len, lengths + i * sizeof len, sizeof len);
        serve_tokens *t = &j->job.prompts[i];
        t->ids = malloc((len ? (size_t)len : 1) * sizeof *t->ids);
        if (!t->ids) break;
        t->n = (size_t)len;
        memcpy(t->ids, ids, t->n * sizeof *t->ids);
        ids += t->n * sizeof *t->ids;
        j->job.n_prompts = i + 1;
    }
    return j->job.n_prompts == n || serve_refuse(e, 503, NULL, NULL, "out of memory for the request");
}

/* Where the body of a job's part begins; 0: its lengths do not fit it. */
static size_t job_body(const rank_job *head, const unsigned char *bytes, size_t len)
{
    const size_t lengths = sizeof *head + (size_t)head->n_prompts * sizeof(uint64_t);
    if (head->n_prompts > len / sizeof(uint64_t) || lengths > len) return 0;
    size_t at = lengths;
    for (uint32_t i = 0; i < head->n_prompts; i++) {
        uint64_t n;
        memcpy(&n, bytes + sizeof *head + i * sizeof n, sizeof n);
        if (n > (len - at) / sizeof(int32_t)) return 0;
        at += (size_t)n * sizeof(int32_t);
    }
    return head->n_body == len - at ? at : 0;
}

static bool job_unpack(front_job *j, const rank_job *head, const unsigned char *bytes, size_t body,
                       serve_error *e)
{
    serve_front *f = j->front;
    const size_t lengths = sizeof *head + head->n_prompts * sizeof(uint64_t);
    j->job.key = head->key;
    j->at.adapter = head->adapter;
    j->at.sum = head->sum;
    j->job.arrived_ns = serve_now();
    j->job.deadline_ns = head->left_ns ? j->job.arrived_ns + head->left_ns : 0;
    return serve_request_read(&j->job.request, (serve_api)head->api, (const char *)bytes + body,
                              (size_t)head->n_body, &f->set->defaults, e)
        && (j->entry = models_find(f->models, j->job.request.model, !(head->api & API_LORAS),
                                    &j->adapter, e))
        && tokens_unpack(j, head->n_prompts, bytes + sizeof *head, bytes + lengths, e);
}

static void follow_job(serve_ranks *r, const rank_part *p, const unsigned char *bytes)
{
    serve_error e = { 0 };
    rank_job head = { 0 };
    if (p->len >= sizeof head) memcpy(&head, bytes, sizeof head);
    const size_t body = p->len >= sizeof head ? job_body(&head, bytes, (size_t)p->len) : 0;
    if (!body) r->front->set->link->fail("rank 0 sent a damaged request");
    front_job *j = calloc(1, sizeof *j);
    if (!j || !rank_slot_set(r, p->slot, j)) {
        free(j);
        serve_refuse(&e, 503, NULL, NULL, "out of memory for the request");
        follow_refuse(r, p->slot, p->number, &e);
        return;
    }
    j->front = r->front;
    j->number = p->number;
    j->at.slot = p->slot;
    if (job_unpack(j, &head, bytes, body, &e)) {
        front_job_take(j);
        return;
    }
    ranks_refuse(j, &e);
    rank_slot_set(r, p->slot, NULL);
    front_job_free(j);
}

static void follow_part(serve_ranks *r, const rank_part *p, const unsigned char *bytes)
{
    front_job *j;
    switch (p->kind) {
    case RANK_JOB:
        follow_job(r, p, bytes);
        break;
    case RANK_CANCEL:
        if ((j = rank_slot_job(r, p))) front_gone(r->front, j);      /* else its end is on its way */
        break;
    case RANK_SCALES:
        lora_scales_set(r->front, (const serve_scale *)(const void *)bytes,
                        (size_t)p->len / sizeof(serve_scale));
        break;
    case RANK_LORA_DROP:
        lora_drop(r->front, (uint32_t)p->number);
        break;
    case RANK_END:
        event_base_loopbreak(r->front->base);
        break;
    default:
        r->front->set->link->fail("rank 0 sent an unknown message");
    }
}

void follow_look(serve_ranks *r)
{
    const serve_link *link = r->front->set->link;
    const void *message;
    size_t len;
    while ((len = link->receive(0, &message))) {
        const unsigned char *at = message, *end = at + len, *bytes;
        for (rank_part p; part_next(r->front, &at, end, &p, &bytes);) follow_part(r, &p, bytes);
    }
    if (serve_now() - r->told_ns > state_every_ns) follow_tell_state(r);
    if (r->out.failed) link->fail("out of memory for a message to rank 0");
    if (r->out.len) link->send(0, r->out.bytes, r->out.len);
    text_clear(&r->out);
}
