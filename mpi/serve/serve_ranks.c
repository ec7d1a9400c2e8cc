/* qsf-mpi-serve, which qsf-serve --mpi starts: the server's ranks are those of MPI.
 * SPDX-License-Identifier: MIT */
#include "serve_ranks.h"

#include "job.h"
#include "link.h"
#include "serve.h"
#include "serve_behind.h"

#include <stdlib.h>

/* Called at every turn of the server's loop. */
static size_t receive_now(int from, const void **bytes)
{
    link_alive();
    return link_receive(from, false, bytes);
}

static double silent;

/* Ranks are watched from here on: loading takes as long as it takes, and mpirun sees a rank die in
 * it. */
static void meet(void)
{
    double *all = calloc((size_t)link_ranks, sizeof *all);
    if (!all) link_fail("out of memory");
    link_gather(0, all);
    free(all);
    link_watch(silent);
}

/* Each rank has its own cache file: all of them may be in one folder. */
static void name_cache(serve_settings *set)
{
    static char name[4096];
    if (!set->engine.cache_file || !link_rank) return;
    if (snprintf(name, sizeof name, "%s.rank%d", set->engine.cache_file, link_rank) >= (int)sizeof name)
        link_fail("--cache-file: the name is too long");
    set->engine.cache_file = name;
}

int serve_ranks_join(struct serve_settings *set, const serve_ranks_asked *a, int argc, char **argv)
{
    static serve_link ranks = { .send = link_send, .receive = receive_now, .sum = job_adapter_sum,
                                .meet = meet, .fail = link_fail, .end = link_end };
    const link_delay none = { 0, 0 };
    link_begin(&argc, &argv, &none);
    silent = a->silent;
    for (unsigned i = 0; i < set->n_models; i++) {
        const job file = { .path = set->models[i].path, .check = a->check };
        job_check_file(&file);
    }
    for (unsigned i = 0; i < set->n_loras; i++) job_check_adapter(set->loras[i].path);
    if (a->pipeline) {
        serve_behind_join(set, a);
        return 0;
    }
    ranks.rank = link_rank;
    ranks.ranks = link_ranks;
    set->link = &ranks;
    set->quiet |= link_rank > 0;
    name_cache(set);
    return 0;
}
