/* The ranks of one server: begin, end, and what is known of each.
 * SPDX-License-Identifier: MIT */
#include "ranks_own.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

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

/* Rank 0 ends the others, and waits for the last message of each: none is left under way. */
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
