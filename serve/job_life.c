/* A job from its place in the list to its end: what it holds, the first thing that its client is
 * sent, and its end when the client has disconnected.
 * SPDX-License-Identifier: MIT */
#include "formats.h"
#include "ranks.h"

#include <event2/event.h>
#include <stdlib.h>

void front_job_free(front_job *j)
{
    if (j->before) j->before->next = j->next;
    else if (j->front->jobs == j) j->front->jobs = j->next;
    if (j->next) j->next->before = j->before;
    qsf_conversation_free(j->talk);
    answers_free(j);
    if (j->grammar) grammar_drop(j->entry->grammars, j->grammar);
    lora_empty(&j->job.lora);
    adapter_let_go(j->loading);
    front_tokens_free(j->job.prompts, j->job.n_prompts);
    serve_request_free(&j->job.request);
    free(j->job.branches);
    free(j->job.embeddings);
    text_free(&j->body.json);
    free(j);
}

void front_job_list(front_job *j)
{
    serve_front *f = j->front;
    j->next = f->jobs;
    if (j->next) j->next->before = j;
    f->jobs = j;
    f->n_jobs++;
}

void front_job_hold(front_job *j, job_hold hold)
{
    j->entry->n_waiting += (hold == HOLD_WAITS) - (unsigned)(j->hold == HOLD_WAITS);
    j->front->n_waiting += (hold == HOLD_WAITS) - (unsigned)(j->hold == HOLD_WAITS);
    j->entry->n_active += (hold == HOLD_USES) - (unsigned)(j->hold == HOLD_USES);
    j->hold = hold;
}

void front_job_drop(front_job *j)
{
    const struct timeval at_once = { 0 };
    j->front->n_jobs--;
    if (j->front->ranks) ranks_drop(j);
    front_job_hold(j, HOLD_NONE);
    if (j->entry->closing && !j->entry->n_active) event_add(j->front->tick, &at_once);     /* unload now */
    front_job_free(j);
}

/* Streams of /v1/messages begin with the number of cached tokens, so they wait for the engine. */
void front_job_first(front_job *j)
{
    if (!j->job.request.stream || j->begun) return;
    j->begun = true;
    format_begin(j, &j->front->out);
}

void front_gone(void *front, void *job)
{
    front_job *j = job;
    if (pulls_gone(front, job)) return;
    j->conn = NULL;
    if (j->hold == HOLD_WAITS) {
        front_job_drop(j);
        return;
    }
    atomic_store(&j->job.cancelled, true);
    if (ranks_lead(j->front)) ranks_cancel(j);
    if (j->entry->engine) serve_engine_wake(j->entry->engine);
}
