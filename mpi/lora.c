/* --lora over ranks: each reads the matrices of its layers.
 * SPDX-License-Identifier: MIT */
#include "job.h"
#include "link.h"
#include "run.h"

#include <stdlib.h>

static run_settings settings;
static run_session session;

void job_adapters_load(job *j)
{
    for (size_t i = 0; i < j->lora.n; i++) {
        float scale;
        char *path = adapter_path(j->lora.items[i], &scale);
        if (!path) link_fail("out of memory");
        job_check_adapter(path);
        free(path);
    }
    settings.common.lora = j->lora;
    session.set = &settings;
    session.model = j->model;
    if (adapters_open(&session, &j->context, false)) link_fail("an adapter of --lora cannot be used");
}

void job_adapters_use(job *j)
{
    session.context = j->c;
    if (adapters_use(&session, j->context.n_seqs)) link_fail("the adapters of --lora cannot be used");
}

void job_adapters_free(void) { adapters_close(&session); }
