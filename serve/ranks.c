/* Which rank gets a job: the one where it costs least.
 * SPDX-License-Identifier: MIT
 *
 * Costs are rows that prompts take: of this prompt those that the rank has not seen, of others
 * those that wait there; an answer under way counts as ANSWER rows, one that waits for a slot as
 * WAITS.  So a rank that knows the prompt's beginning wins until it has that much more to do. */
#include "ranks_own.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ANSWER = 32, WAITS = 1024,
       LEAST = 16 };                         /* tokens; templates begin alike */

/* ---- what ranks have seen ---- */

/* The model's number and the tokens, to be freed; NULL: no memory. */
static int32_t *prefix_ids(unsigned model, const serve_tokens *prompt)
{
    int32_t *ids = malloc((prompt->n + 1) * sizeof *ids);
    if (!ids) return NULL;
    ids[0] = -1 - (int32_t)model;
    memcpy(ids + 1, prompt->ids, prompt->n * sizeof *ids);
    return ids;
}

static uint32_t prefix_oldest(const serve_ranks *r, const rank_load *l)
{
    uint32_t old = 0;
    for (uint32_t i = 1; i < r->n_prefixes; i++) if (l->prefixes[i].used < l->prefixes[old].used) old = i;
    return old;
}

void rank_remember(serve_ranks *r, int rank, unsigned model, const serve_tokens *prompt)
{
    rank_load *l = &r->loads[rank];
    int32_t *ids = prefix_ids(model, prompt);
    const uint32_t n = (uint32_t)prompt->n + 1;
    uint32_t s = 0;
    if (!ids) return;
    const uint32_t same = prefix_longest(l->tree, 0, ids, n, &s);
    if (same == n) {
        l->prefixes[s].used = ++r->uses;
        free(ids);
        return;
    }
    if (!same || same < l->prefixes[s].n) s = prefix_oldest(r, l);   /* else the new one goes on from it */
    prefix_remove(l->tree, s);
    free(l->prefixes[s].ids);
    l->prefixes[s] = (rank_prefix){ .ids = ids, .n = n, .used = ++r->uses };
    prefix_add(l->tree, s, 0, ids, n);
}

/* ---- the choice ---- */

int rank_choose(serve_ranks *r, unsigned model, const serve_tokens *prompt, unsigned answers, uint32_t *same)
{
    const serve_front *f = r->front;
    const unsigned slots = f->set->engine.slots, room = slots + f->set->engine.queue;
    int32_t *ids = prefix_ids(model, prompt);
    uint64_t least = UINT64_MAX;
    uint32_t longest = 0;
    int best = 0, knows = 0;
    *same = 0;
    for (int i = 0; i < f->set->link->ranks; i++) {
        const rank_load *l = &r->loads[i];
        uint32_t s, seen = ids ? prefix_longest(l->tree, 0, ids, (uint32_t)prompt->n + 1, &s) : 0;
        seen = seen > LEAST ? seen - 1 : 0;  /* without the model's number */
        const uint64_t all = l->answers + answers;
        const uint64_t cost = prompt->n - seen + l->tokens + (uint64_t)ANSWER * l->answers
            + (all > slots ? WAITS * (all - slots) : 0) + (all > room ? UINT64_MAX / 2 : 0);
        if (seen > longest) {
            longest = seen;
            knows = i;
        }
        if (cost > least || (cost == least && l->n_jobs >= r->loads[best].n_jobs)) continue;
        least = cost;
        best = i;
        *same = seen;
    }
    free(ids);
    if (longest && *same == longest) r->loads[best].n_prefix++;
    else if (longest) r->loads[knows].n_passed++;
    return best;
}

/* ---- slots ---- */

bool rank_slot_set(serve_ranks *r, uint32_t slot, front_job *j)
{
    if (slot >= r->n_jobs) {
        const uint32_t n = slot < 1 << 24 ? 2 * slot + 64 : 0;
        front_job **jobs = n ? realloc(r->jobs, n * sizeof *jobs) : NULL;
        if (!jobs) return false;
        memset(jobs + r->n_jobs, 0, (n - r->n_jobs) * sizeof *jobs);
        r->jobs = jobs;
        r->n_jobs = n;
    }
    r->jobs[slot] = j;
    return true;
}

front_job *rank_slot_job(const serve_ranks *r, const rank_part *p)
{
    front_job *j = p->slot < r->n_jobs ? r->jobs[p->slot] : NULL;
    return j && j->number == p->number ? j : NULL;
}

/* ---- both sides ---- */

void ranks_look(serve_front *f)
{
    if (ranks_lead(f)) lead_look(f->ranks);
    else follow_look(f->ranks);
}

static bool load_begin(serve_ranks *r, rank_load *l, bool far)
{
    const serve_settings *set = r->front->set;
    l->tree = prefix_new(r->n_prefixes);
    l->prefixes = calloc(r->n_prefixes, sizeof *l->prefixes);
    if (!l->tree || !l->prefixes || !far) return l->tree && l->prefixes;
    l->metrics = calloc(set->n_models, sizeof *l->metrics);
    l->slots = calloc((size_t)set->n_models * set->engine.slots, sizeof *l->slots);
    return l->metrics && l->slots;
}

serve_ranks *ranks_new(serve_front *f)
{
    const serve_link *link = f->set->link;
    serve_ranks *r = calloc(1, sizeof *r);
    bool ok = r != NULL;
    if (!ok) return NULL;
    r->front = f;
    r->n_prefixes = f->set->engine.slots + f->set->engine.kept;
    if (link->rank) ok = (r->state = calloc(1, state_bytes(f))) != NULL;
    else ok = (r->loads = calloc((size_t)link->ranks, sizeof *r->loads)) != NULL;
    for (int i = 0; ok && r->loads && i < link->ranks; i++) ok = load_begin(r, &r->loads[i], i > 0);
    if (ok) return r;
    f->set->link->fail("out of memory");
    return NULL;
}

/* Rank 0 ends the others, whose last message says that it is one: none is left under way. */
static void ranks_end(const serve_link *link)
{
    const struct timespec moment = { .tv_nsec = 1000000 };
    const rank_part end = { .kind = RANK_END };
    if (link->rank) link->send(0, &end, sizeof end);
    for (int i = 1; !link->rank && i < link->ranks; i++) link->send(i, &end, sizeof end);
    for (int i = 1; !link->rank && i < link->ranks; i++) {
        rank_part last = { .kind = RANK_STATE };
        const void *bytes;
        while (last.kind != RANK_END) {
            const size_t len = link->receive(i, &bytes);
            if (len >= sizeof last) memcpy(&last, bytes, sizeof last);
            else nanosleep(&moment, NULL);
        }
    }
}

void ranks_free(serve_ranks *r)
{
    if (!r) return;
    ranks_end(r->front->set->link);
    for (int i = 0; r->loads && i < r->front->set->link->ranks; i++) {
        rank_load *l = &r->loads[i];
        for (unsigned k = 0; k < r->n_prefixes; k++) free(l->prefixes[k].ids);
        prefix_free(l->tree);
        free(l->prefixes);
        free(l->metrics);
        free(l->slots);
    }
    free(r->loads);
    free(r->jobs);
    free(r->state);
    text_free(&r->out);
    free(r);
}

/* ---- /metrics ---- */

serve_metrics *ranks_metrics(const serve_front *f, unsigned rank, unsigned model)
{
    return &f->ranks->loads[rank].metrics[model];
}

const serve_slot *ranks_slots(const serve_front *f, unsigned rank, unsigned model)
{
    return f->ranks->loads[rank].slots + (size_t)model * f->set->engine.slots;
}

void ranks_write(const serve_front *f, serve_text *out)
{
    static const struct { const char *name, *kind, *help; } lines[] = {
        { "rank_requests_total", "counter", "Requests assigned to the rank" },
        { "rank_prefix_total", "counter", "Assigned requests of which this rank had cached the most" },
        { "rank_passed_total", "counter", "Requests cached here but assigned to a less busy rank" },
        { "rank_answers", "gauge", "Answers on the rank, in progress or queued" },
        { "rank_waiting_tokens", "gauge", "Prompt tokens that it has to compute" },
    };
    for (size_t k = 0; k < sizeof lines / sizeof *lines; k++) {
        text_format(out, "# HELP qsf_%s %s\n# TYPE qsf_%s %s\n", lines[k].name, lines[k].help, lines[k].name,
                    lines[k].kind);
        for (unsigned i = 0; i < ranks_count(f); i++) {
            const rank_load *l = &f->ranks->loads[i];
            const uint64_t values[] = { l->n_jobs, l->n_prefix, l->n_passed, l->answers, l->tokens };
            text_format(out, "qsf_%s{rank=\"%u\"} %llu\n", lines[k].name, i, (unsigned long long)values[k]);
        }
    }
}
