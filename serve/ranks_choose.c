/* Which rank gets a job: the one where it costs least.
 * SPDX-License-Identifier: MIT
 *
 * Costs are rows that prompts take: of this prompt those that the rank has not seen, of others
 * those that wait there; an answer under way counts as ANSWER rows, one that waits for a slot as
 * WAITS.  So a rank that knows the prompt's beginning wins until it has that much more to do. */
#include "ranks_own.h"

#include <stdlib.h>
#include <string.h>

enum { ANSWER = 32, WAITS = 1024,
       LEAST = 16 };                         /* tokens: templates share a prefix */

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
    if (!same || same < l->prefixes[s].n) s = prefix_oldest(r, l);   /* else the new one extends it */
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
