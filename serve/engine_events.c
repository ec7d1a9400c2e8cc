/* Events on their way from the engine's thread to the front: a ring of bytes.
 * SPDX-License-Identifier: MIT */
#include "engine_own.h"
#include "system.h"

#include <string.h>
#include <time.h>

void engine_show_events(serve_engine *e)
{
    if (!atomic_exchange(&e->woken, true) && !system_wake(e->wake_fd)) atomic_store(&e->woken, false);
}

/* Waits until this many bytes of the ring are free.  The front takes events without ever waiting
 * for the engine, so this ends. */
static void ring_room(serve_engine *e, size_t bytes)
{
    const struct timespec moment = { .tv_nsec = 200000 };
    while (RING_BYTES - (atomic_load(&e->written) - atomic_load(&e->taken)) < bytes) {
        if (atomic_load(&e->ends)) return;
        engine_show_events(e);
        nanosleep(&moment, NULL);
    }
}

/* An event is contiguous: if it does not fit before the end of the ring, an event without a job
 * fills the rest. */
void engine_post(serve_engine *e, serve_event *event, const qsf_logprob *logprobs, const char *text)
{
    if (event->len > RING_BYTES / 4) event->len = RING_BYTES / 4;
    const size_t between = event->n_logprobs * sizeof *logprobs;
    const size_t bytes = (sizeof *event + between + event->len + 7) / 8 * 8;
    size_t at = atomic_load(&e->written);
    const size_t left = RING_BYTES - at % RING_BYTES;
    event->bytes = (uint32_t)bytes;
    ring_room(e, bytes > left ? bytes + left : bytes);
    if (atomic_load(&e->ends)) return;
    if (bytes > left) {
        const serve_event filler = { .bytes = (uint32_t)left };
        if (left >= sizeof filler) memcpy(e->ring + at % RING_BYTES, &filler, sizeof filler);
        at += left;
    }
    memcpy(e->ring + at % RING_BYTES, event, sizeof *event);
    char *to = e->ring + at % RING_BYTES + sizeof *event;
    if (between) memcpy(to, logprobs, between);
    if (event->len) memcpy(to + between, text, event->len);
    atomic_store(&e->written, at + bytes);
}

const serve_event *serve_engine_event(serve_engine *e, const char **text)
{
    size_t at = atomic_load(&e->taken) + e->given;
    e->given = 0;
    atomic_store(&e->taken, at);
    atomic_store(&e->woken, false);
    if (at == atomic_load(&e->written)) return NULL;
    const size_t left = RING_BYTES - at % RING_BYTES;
    const serve_event *event = (const void *)(e->ring + at % RING_BYTES);
    if (left < sizeof *event || !event->job) {
        atomic_store(&e->taken, at += left);
        event = (const void *)(e->ring + at % RING_BYTES);
    }
    e->given = event->bytes;
    *text = (const char *)(serve_event_logprobs(event) + event->n_logprobs);
    return event;
}

void engine_branch_over(serve_engine *e, serve_branch *b)
{
    serve_job *j = b->job;
    if (++j->n_over < j->n_branches) return;
    seq_pool_blocks(&e->schedule.pool);
    engine_show(e);
    serve_event done = { .kind = EVENT_DONE, .job = j };
    engine_post(e, &done, NULL, "");
}

void engine_spoilt(serve_engine *e, qsf_status why)
{
    if (why == QSF_E_IO || why == QSF_E_CORRUPT) atomic_store(&e->spoilt, true);
}

bool serve_engine_spoilt(const serve_engine *e) { return atomic_load(&e->spoilt); }
