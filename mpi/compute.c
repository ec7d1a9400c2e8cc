/* A batch on this rank.
 * SPDX-License-Identifier: MIT */
#include "job.h"
#include "link.h"

#include <unistd.h>

void job_compute(const job *j, const qsf_row *rows, size_t n, const float *x)
{
    static int batches;
    bool waiting;
    qsf_status st = x ? qsf_batch_begin_from(j->c, rows, n, x) : qsf_batch_begin(j->c, rows, n);
    if (j->hang == link_rank && batches++)
        for (;;) pause();
    while (!st) {
        link_alive();
        if ((st = qsf_step(j->c, &waiting)) != QSF_PENDING) break;
        st = waiting ? qsf_wait(j->c) : QSF_OK;
    }
    if (st) link_fail("%s", qsf_last_error(j->c));
}
