/* What all ranks have to have alike.
 * SPDX-License-Identifier: MIT */
#include "job.h"
#include "link.h"

#include <stdlib.h>

void job_describe(job *j)
{
    qsf_error err;
    qsf_model *m = NULL;
    j->info.size = sizeof j->info;
    if (qsf_model_open(j->path, NULL, &m, &err)) link_fail("%s", err.text);
    qsf_model_get_info(m, &j->info);
    if (j->info.encoder) link_fail("%s is an encoder: it cannot generate", j->path);
    qsf_model_close(m);
}

void job_agree(job *j)
{
    qsf_error err;
    qsf_plan plan = { .size = sizeof plan };
    double *all = calloc((size_t)link_ranks, sizeof *all);
    const qsf_status st = qsf_context_plan(j->model, &j->context, &plan, &err);
    if (st) link_fail("layers %u to %u: %s", (unsigned)j->first, (unsigned)j->end - 1, err.text);
    if (!all) link_fail("out of memory");
    link_gather(plan.kv_type, all);
    for (int r = 1; r < link_ranks; r++)
        if (all[r] != all[0])
            link_fail("the memory budget of rank %d gives another KV cache type than rank 0's: choose one "
                      "with --kv-type", r);
    j->context.kv_type = plan.kv_type;
    link_gather(plan.n_ctx, all);
    for (int r = 0; r < link_ranks; r++)
        if (!r || all[r] < j->context.n_ctx) j->context.n_ctx = (uint32_t)all[r];
    link_gather(plan.n_batch, all);
    for (int r = 0; r < link_ranks; r++)
        if (!r || all[r] < j->context.n_batch) j->context.n_batch = (uint32_t)all[r];
    free(all);
}
