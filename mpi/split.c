/* Assigns layers to ranks.
 * SPDX-License-Identifier: MIT
 *
 * A rank's speed is measured with a layer of the model.  Layers are assigned one after the other to
 * the rank that would finish first; a rank whose budget is used up does not get more, as long as
 * others have room. */
#include "job.h"
#include "link.h"

#include <stdlib.h>
#include <string.h>

enum { ROWS = 8, TURNS = 4 };

typedef struct rank_of { double layer_s, ends_s, room; uint32_t n; } rank_of;

static void split_given(job *j)
{
    const char *at = j->split;
    unsigned long first = 0, n = 0;
    for (int r = 0; r < link_ranks; r++) {
        char *end;
        n = strtoul(at, &end, 10);
        if (end == at || !n || n > j->info.n_layers || *end != (r + 1 < link_ranks ? ',' : 0))
            link_fail("--split %s: %d numbers of layers are needed, one for each rank, such as 8,8,14",
                      j->split, link_ranks);
        if (r == link_rank) j->first = (uint32_t)first, j->end = (uint32_t)(first + n);
        first += n;
        at = *end ? end + 1 : end;
    }
    if (first != j->info.n_layers)
        link_fail("--split %s: the model has %u layers", j->split, (unsigned)j->info.n_layers);
}

static qsf_model *open_range(const job *j, uint32_t first, uint32_t end)
{
    qsf_error err;
    qsf_model *m = NULL;
    qsf_model_options mo;
    qsf_model_defaults(&mo);
    mo.first_layer = first;
    mo.end_layer = end;
    if (qsf_model_open(j->path, &mo, &m, &err)) link_fail("%s", err.text);
    return m;
}

/* Bytes that a range takes if nothing is reduced. */
static double range_bytes(const job *j, uint32_t first, uint32_t end)
{
    qsf_error err;
    qsf_plan plan = { .size = sizeof plan };
    qsf_context_options o = j->context;
    qsf_model *m = open_range(j, first, end);
    o.ram_budget = 0;
    if (qsf_context_plan(m, &o, &plan, &err)) link_fail("%s", err.text);
    qsf_model_close(m);
    return (double)plan.total;
}

/* Seconds that one layer takes for a few rows. */
static double layer_seconds(const job *j)
{
    qsf_error err;
    qsf_row rows[ROWS];
    double best = 1e9;
    qsf_context *c = NULL;
    qsf_context_options o = j->context;
    const uint32_t layer = j->info.n_layers / 2;
    qsf_model *m = open_range(j, layer, layer + 1);
    float *x = malloc(ROWS * j->info.n_embd * sizeof *x);
    o.ram_budget = 0;
    if (!x || qsf_context_new(m, &o, &c, &err)) link_fail("%s", x ? err.text : "out of memory");
    for (size_t i = 0; i < ROWS * (size_t)j->info.n_embd; i++)
        x[i] = (float)(i * 2654435761u % 1024) / 512 - 1;
    const uint32_t n = o.n_batch < ROWS ? o.n_batch : ROWS;
    for (uint32_t i = 0; i < n; i++) rows[i] = (qsf_row){ 0, 0, false };
    for (int t = 0; t < TURNS; t++) {
        const double begin = link_now();
        if (qsf_compute_from(c, rows, n, x)) link_fail("%s", qsf_last_error(c));
        if (t && link_now() - begin < best) best = link_now() - begin;
        qsf_seq_truncate(c, 0, 0);
    }
    free(x);
    qsf_context_free(c);
    qsf_model_close(m);
    return best;
}

/* The number of layers that the head counts as, by its weights. */
static double head_layers(const qsf_model_info *info)
{
    const double head = (double)info->n_vocab * info->n_embd;
    const double layers = (double)info->n_params - head;
    return layers > 0 ? head / (layers / info->n_layers) : 1;
}

/* Deals all layers; the next goes where the time is least afterwards. */
static void deal(rank_of *ranks, uint32_t n_layers)
{
    uint32_t left = n_layers - (uint32_t)link_ranks;
    for (int r = 0; r < link_ranks; r++) ranks[r].n = 1;
    while (left--) {
        int best = -1;
        for (int pass = 0; pass < 2 && best < 0; pass++)
            for (int r = 0; r < link_ranks; r++) {
                if (!pass && ranks[r].n + 1 > ranks[r].room) continue;
                const double s = ranks[r].ends_s + (ranks[r].n + 1) * ranks[r].layer_s;
                if (best < 0 || s < ranks[best].ends_s + (ranks[best].n + 1) * ranks[best].layer_s) best = r;
            }
        ranks[best].n++;
    }
}

static void split_measured(job *j)
{
    const uint32_t n = j->info.n_layers;
    const bool last = link_rank == link_ranks - 1;
    const uint32_t mine = last ? n - 1 : link_rank ? 1 : 0;
    const double one = range_bytes(j, mine, mine + 1);
    const double two = n > 2 ? (last ? range_bytes(j, n - 2, n) : range_bytes(j, mine, mine + 2)) : 2 * one;
    const double budget = j->context.ram_budget ? (double)j->context.ram_budget : 1e18;
    const double seconds = layer_seconds(j);
    double *all = calloc((size_t)link_ranks, sizeof *all);
    rank_of *ranks = calloc((size_t)link_ranks, sizeof *ranks);
    if (!all || !ranks) link_fail("out of memory");
    link_gather(seconds, all);
    for (int r = 0; r < link_ranks; r++) ranks[r].layer_s = all[r];
    link_gather(two > one ? 1 + (budget - one) / (two - one) : 1e9, all);
    for (int r = 0; r < link_ranks; r++) ranks[r].room = all[r];
    ranks[link_ranks - 1].ends_s = head_layers(&j->info) * ranks[link_ranks - 1].layer_s;
    deal(ranks, n);
    link_share(ranks, (size_t)link_ranks * sizeof *ranks);      /* the same on all, whatever rounding does */
    for (int r = 0; r < link_rank; r++) j->first += ranks[r].n;
    j->end = j->first + ranks[link_rank].n;
    free(all);
    free(ranks);
}

void job_split(job *j)
{
    if (j->info.n_layers < (uint32_t)link_ranks)
        link_fail("%s has %u layers for %d ranks; take fewer ranks", j->path, (unsigned)j->info.n_layers,
                  link_ranks);
    if (link_ranks == 1) j->end = j->info.n_layers;
    else if (j->split) split_given(j);
    else split_measured(j);
}
