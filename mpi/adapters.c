/* A server's adapters, of this rank's layers, by the numbers that rank 0 has given them.
 * SPDX-License-Identifier: MIT */
#include "job.h"
#include "link.h"

#include <stdlib.h>
#include <string.h>

static void adapters_grow(job *j, uint32_t number)
{
    if (number < j->n_adapters) return;
    const uint32_t n = number < 1u << 20 ? number + 16 : 0;
    qsf_adapter **more = n ? realloc(j->adapters, n * sizeof *more) : NULL;
    if (!more) link_fail("out of memory");
    memset(more + j->n_adapters, 0, (n - j->n_adapters) * sizeof *more);
    j->adapters = more;
    j->n_adapters = n;
}

/* Bytes of all that are there. */
static uint64_t adapters_bytes(const job *j)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < j->n_adapters; i++) {
        qsf_adapter_info info = { .size = sizeof info };
        if (!j->adapters[i]) continue;
        qsf_adapter_get_info(j->adapters[i], &info);
        sum += info.bytes;
    }
    return sum;
}

qsf_status job_adapter_open(job *j, uint32_t number, const char *path, uint64_t *bytes, qsf_error *err)
{
    const qsf_adapter_options o = { .size = sizeof o, .exact = j->context.f32, .number = number };
    adapters_grow(j, number);
    job_adapter_close(j, number);
    const qsf_status st = qsf_adapter_open(j->model, path, &o, &j->adapters[number], err);
    *bytes = adapters_bytes(j);
    if (st || !j->c || !j->context.ram_budget || *bytes <= j->context.adapter_bytes) return st;
    job_adapter_close(j, number);
    snprintf(err->text, sizeof err->text, "the adapters take %.1f MB, but %.1f MB are reserved: raise "
             "--adapter-memory", (double)*bytes / 1e6, (double)j->context.adapter_bytes / 1e6);
    return err->status = QSF_E_BUDGET;
}

void job_adapter_close(job *j, uint32_t number)
{
    if (number >= j->n_adapters) return;
    qsf_adapter_free(j->adapters[number]);          /* sequences may have it still */
    j->adapters[number] = NULL;
}

void job_adapter_asked(job *j, uint32_t number, const char *path, uint64_t sum, qsf_error *err)
{
    char whole[4096];
    uint64_t bytes;
    link_away(true);            /* a file may be far away */
    if (snprintf(whole, sizeof whole, "%s/%s", j->lora_dir ? j->lora_dir : ".", path) >= (int)sizeof whole) {
        err->status = QSF_E_ARGUMENT;
        snprintf(err->text, sizeof err->text, "the path is too long");
    } else if (!job_adapter_open(j, number, whole, &bytes, err) && job_adapter_sum(whole) != sum) {
        job_adapter_close(j, number);
        err->status = QSF_E_CORRUPT;
        snprintf(err->text, sizeof err->text, "%.200s is not the same as on rank 0", path);
    }
    link_away(false);
}
