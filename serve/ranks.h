/* Sequences over ranks: rank 0 has the clients, and every rank an engine with keys and values of
 * its own.
 * SPDX-License-Identifier: MIT
 *
 * Rank 0 reads requests and writes answers like a single server.  If another rank is to compute
 * one, the request and its prompts' tokens go there, and the events of its engine come back.
 * All of this is for the front's thread. */
#ifndef QSF_SERVE_RANKS_H
#define QSF_SERVE_RANKS_H

#include "front.h"

typedef struct serve_ranks serve_ranks;

/* What this process is among several; alone it is neither. */
static inline bool ranks_lead(const serve_front *f) { return f->set->link && !f->set->link->rank; }
static inline bool ranks_follow(const serve_front *f) { return f->set->link && f->set->link->rank; }
/* How many serve, at least 1. */
static inline unsigned ranks_count(const serve_front *f)
{
    return f->set->link ? (unsigned)f->set->link->ranks : 1;
}

serve_ranks *ranks_new(serve_front *f);                      /* NULL: out of memory */
void ranks_free(serve_ranks *r);                             /* takes NULL; rank 0's ends the others */
/* Takes what others have sent, and sends what they are to know. */
void ranks_look(serve_front *f);

/* Rank 0: hands a job to the rank where it costs least.  false: the queue is full. */
bool ranks_submit(front_job *j);
void ranks_cancel(front_job *j);
/* Rank 0: sets the adapters' default scales for all jobs sent after this. */
void ranks_scales(serve_front *f, const serve_scale *scales, size_t n);
/* Rank 0: has all others read the adapter that it has read itself; true: no rank has to.  Else
 * front_lora_told is called when they have answered.  ranks_lora_drop drops an adapter for jobs
 * after this one. */
bool ranks_lora(front_job *j);
void ranks_lora_drop(serve_front *f, uint32_t id);
/* Both: an event of a job has come; a job is dropped, and no longer counted. */
void ranks_event(front_job *j, const serve_event *ev, const char *text);
void ranks_drop(front_job *j);
/* Others: a job that cannot begin. */
void ranks_refuse(front_job *j, const serve_error *e);

/* Rank 0: the counters of a model and the slots of its engine at another rank, as it last reported
 * them. */
serve_metrics *ranks_metrics(const serve_front *f, unsigned rank, unsigned model);
const serve_slot *ranks_slots(const serve_front *f, unsigned rank, unsigned model);
/* Rank 0: what was handed to whom, as /metrics has it. */
void ranks_write(const serve_front *f, serve_text *out);

#endif
