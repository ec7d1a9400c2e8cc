/* Tensor parallelism: every rank has a share of each layer, and all compute the same rows.
 * SPDX-License-Identifier: MIT
 *
 * Rank 0 has the texts and the head.  It sends the others the next rows; then all compute them, and
 * synchronize twice in each layer, where their sums are added up (reduce.c). */
#include "job.h"
#include "link.h"
#include "reduce.h"

#include <stdlib.h>
#include <string.h>

/* Sizes of the shares, from --split. */
static const uint32_t *share_sizes(const job *j)
{
    const char *at = j->split;
    uint32_t *sizes = calloc((size_t)link_ranks, sizeof *sizes);
    if (!sizes) link_fail("out of memory");
    for (int r = 0; r < link_ranks; r++) {
        char *end;
        const unsigned long n = strtoul(at, &end, 10);
        if (end == at || *at == '-' || !n || n > 1000000 || *end != (r + 1 < link_ranks ? ',' : 0))
            link_fail("--split %s: %d sizes of shares are needed, one for each rank, such as 2,1,1", j->split,
                      link_ranks);
        sizes[r] = (uint32_t)n;
        at = *end ? end + 1 : end;
    }
    return sizes;
}

void job_share(const job *j, qsf_model_options *mo)
{
    mo->share = (uint32_t)link_rank;
    mo->n_shares = (uint32_t)link_ranks;
    if (j->split) mo->share_sizes = share_sizes(j);
}

static qsf_status add_up(void *user, float *x, size_t n)
{
    (void)user;
    link_alive();
    reduce_sum(x, n);
    return QSF_OK;
}

void job_share_begin(const job *j)
{
    if (link_ranks > 1 && qsf_context_set_reduce(j->c, add_up, NULL)) link_fail("%s", qsf_last_error(j->c));
}

/* A message is rows; one without any is the end. */
void job_tell(const job *j, const qsf_row *rows, size_t n)
{
    (void)j;
    for (int r = 1; r < link_ranks; r++) link_send(r, rows, n * sizeof *rows);
}

void job_tell_end(void)
{
    const char end = 0;
    for (int r = 1; r < link_ranks; r++) link_send(r, &end, sizeof end);
}

void job_follow_rows(job *j)
{
    qsf_row *rows = calloc(j->n_batch, sizeof *rows);
    const void *bytes;
    size_t len;
    if (!rows) link_fail("out of memory");
    while ((len = link_receive(0, true, &bytes)) > 1) {
        if (len % sizeof *rows || len / sizeof *rows > j->n_batch) link_fail("rank 0 sent a damaged batch");
        memcpy(rows, bytes, len);
        job_compute(j, rows, len / sizeof *rows, NULL);
    }
    free(rows);
}
