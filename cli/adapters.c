/* --lora ADAPTER[:SCALE]: adapters of the model, for all that the session computes.
 * SPDX-License-Identifier: MIT */
#include "run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The scale is what follows the last colon, if that is a number: a colon may belong to the
 * file's name, or to a drive's letter. */
char *adapter_path(const char *text, float *scale)
{
    const char *colon = strrchr(text, ':');
    char *end = NULL;
    size_t len = strlen(text);
    *scale = 1;
    if (colon && colon - text > 1 && colon[1]) {
        const double value = strtod(colon + 1, &end);
        if (!*end && isfinite(value)) {
            *scale = (float)value;
            len = (size_t)(colon - text);
        }
    }
    char *path = malloc(len + 1);
    if (!path) return NULL;
    memcpy(path, text, len);
    path[len] = 0;
    return path;
}

int adapters_open(run_session *s, qsf_context_options *co, bool streamed)
{
    const option_list *list = &s->set->common.lora;
    const qsf_adapter_options options = { .size = sizeof options, .exact = co->f32, .streamed = streamed };
    adapters_close(s);
    co->adapter_bytes = s->set->common.context.adapter_bytes;
    if (list->n > ADAPTERS_MOST) {
        fprintf(stderr, "--lora: at most %d adapters\n", (int)ADAPTERS_MOST);
        return EXIT_USAGE;
    }
    for (size_t i = 0; i < list->n; i++) {
        qsf_adapter_info info = { .size = sizeof info };
        qsf_adapter_use *use = &s->adapters[i];
        char *path = adapter_path(list->items[i], &use->scale);
        if (!path) {
            fputs("out of memory for the name of an adapter\n", stderr);
            return EXIT_NO_MEMORY;
        }
        /* qsf-serve's NAME=FILE, unless a file of that whole name exists */
        const char *equals = strchr(path, '='), *file = equals && !path_exists(path) ? equals + 1 : path;
        const qsf_status st = qsf_adapter_open(s->model, file, &options, &use->adapter, &s->error);
        free(path);
        if (st) return report_room(&s->error);
        s->n_adapters++;
        qsf_adapter_get_info(use->adapter, &info);
        co->adapter_bytes += info.bytes;
    }
    return EXIT_OK;
}

int adapters_use(run_session *s, uint32_t n_seqs)
{
    for (uint32_t i = 0; s->n_adapters && i < n_seqs; i++)
        if ((s->error.status = qsf_seq_set_adapters(s->context, (qsf_seq)i, s->adapters, s->n_adapters))) {
            snprintf(s->error.text, sizeof s->error.text, "%s", qsf_last_error(s->context));
            return report_room(&s->error);
        }
    return EXIT_OK;
}

void adapters_print(const run_session *s)
{
    for (size_t i = 0; i < s->n_adapters; i++) {
        qsf_adapter_info info = { .size = sizeof info };
        qsf_adapter_get_info(s->adapters[i].adapter, &info);
        fprintf(stderr, "adapter  %s: scale %g, rank %u, alpha %g, %u matrices, %.1f MB\n", info.name,
                (double)s->adapters[i].scale, (unsigned)info.rank, (double)info.alpha,
                (unsigned)info.n_matrices, (double)info.bytes / 1e6);
    }
}

void adapters_close(run_session *s)
{
    for (size_t i = 0; i < s->n_adapters; i++) qsf_adapter_free(s->adapters[i].adapter);
    s->n_adapters = 0;
}
