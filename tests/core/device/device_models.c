/* Models with layers on a GPU, against the CPU.  Where a value is close to a half, its code on the
 * GPU may be the next one, and in a tiny model that shows.  So both are compared with floats: the
 * GPU's logits must not be further from them than the CPU's are, by root mean square and by 10
 * percent.
 * SPDX-License-Identifier: MIT
 *
 *   device_models MODEL...
 *
 * A GPU of the library that QSF_WEBGPU_LIB names; any adapter will do.  Two sequences in batches of
 * several lengths, prompts and single tokens; one of them goes back and on.  Prints a line a model:
 * how many of its layers are on the GPU, how far both are from floats, and why others are not. */
#include "qsf.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 24, CONTEXT = 128 };

static qsf_error why;

enum { FLOATS, CPU, GPU, N_CONTEXTS };
typedef struct three { qsf_context *c[N_CONTEXTS]; uint32_t n_vocab; double sum[N_CONTEXTS]; } three;

static int failed(const char *path, const char *text)
{
    printf("%s: %s\n", path, text);
    return 1;
}

/* The same rows to all; sums of squares of logits, and of their differences to those of floats.
 * Each `every`-th row asks for logits. */
static qsf_status some(three *p, uint32_t seq, uint32_t first, uint32_t n, uint32_t every)
{
    qsf_row rows[ROWS];
    qsf_status st;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t id = (first + i) * 2654435761u >> 8;
        rows[i] = (qsf_row){ .seq = seq, .token = (int32_t)(id % p->n_vocab), .logits = i % every == 0 };
    }
    for (int k = 0; k < N_CONTEXTS; k++)
        if ((st = qsf_compute(p->c[k], rows, n))) return st;
    for (uint32_t i = 0; i < (n + every - 1) / every; i++) {
        const float *f = qsf_logits(p->c[FLOATS], i);
        for (int k = 0; k < N_CONTEXTS; k++) {
            const float *x = qsf_logits(p->c[k], i);
            for (uint32_t v = 0; v < p->n_vocab; v++) {
                const double off = (double)x[v] - (k == FLOATS ? 0 : f[v]);
                p->sum[k] += off * off;
            }
        }
    }
    return QSF_OK;
}

static qsf_status all(three *p, uint32_t seq, uint32_t first, uint32_t n)
{
    return some(p, seq, first, n, 1);
}

static qsf_status batches(three *p)
{
    qsf_status st;
    if ((st = all(p, 0, 1, 1)) || (st = all(p, 0, 2, 7)) || (st = all(p, 1, 40, 20))) return st;
    if ((st = all(p, 0, 9, 1)) || (st = all(p, 1, 60, 2))) return st;
    for (int k = 0; k < N_CONTEXTS; k++)
        if ((st = qsf_seq_truncate(p->c[k], 1, 12))) return st;
    if ((st = all(p, 1, 80, ROWS)) || (st = some(p, 1, 110, 13, 3)) || (st = all(p, 1, 130, 4))) return st;
    return all(p, 0, 10, 1);
}

static qsf_status contexts(three *p, qsf_model *m)
{
    qsf_status st = QSF_OK;
    for (int k = 0; k < N_CONTEXTS && !st; k++) {
        qsf_context_options o;
        qsf_context_defaults(&o);
        o.n_ctx = CONTEXT;
        o.n_batch = o.n_logits = ROWS;
        o.n_seqs = 2;
        o.n_threads = 1;
        o.f32 = k == FLOATS;
        o.kv_type = o.f32 ? QSF_KV_F32 : QSF_KV_F16;
        st = qsf_context_new(m, &o, &p->c[k], &why);
    }
    return st;
}

static int model(const char *path, qsf_devices *devices)
{
    qsf_device_use use = { .size = sizeof use };
    qsf_model_info info = { .size = sizeof info };
    qsf_model_options mo;
    qsf_model *m;
    three p = { 0 };
    int code = 0;
    const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    qsf_model_defaults(&mo);
    if (qsf_model_open(path, &mo, &m, &why)) return failed(name, why.text);
    qsf_model_get_info(m, &info);
    p.n_vocab = info.n_vocab;
    if (contexts(&p, m)) {
        code = failed(name, why.text);
    } else if (qsf_context_use_device(p.c[GPU], devices, 0, UINT32_MAX)) {
        printf("%s: none on the GPU: %s\n", name, qsf_last_error(p.c[GPU]));
    } else if (qsf_context_device(p.c[GPU], &use) || batches(&p)) {
        for (int k = 0; k < N_CONTEXTS; k++) code |= failed(name, qsf_last_error(p.c[k]));
    } else {
        code = !(p.sum[GPU] <= 1.21 * p.sum[CPU] + 1e-10 * p.sum[FLOATS]);
        printf("%s: %u of %u layers, off by %.1e, the CPU by %.1e%s%s%s\n", name, (unsigned)use.n_layers,
               (unsigned)info.n_layers, sqrt(p.sum[GPU] / p.sum[FLOATS]), sqrt(p.sum[CPU] / p.sum[FLOATS]),
               code ? ": too much" : "", use.left[0] ? "; " : "", use.left);
    }
    fflush(stdout);
    for (int k = 0; k < N_CONTEXTS; k++) qsf_context_free(p.c[k]);
    qsf_model_close(m);
    return code;
}

int main(int argc, char **argv)
{
    qsf_devices *devices = NULL;
    qsf_device_info info = { .size = sizeof info };
    int code = 0;
    if (qsf_devices_open(NULL, NULL, &devices, &why)) return failed("devices", why.text);
    if (qsf_devices_get(devices, 0, &info)) return failed("devices", "none");
    for (int i = 1; i < argc; i++) code |= model(argv[i], devices);
    qsf_devices_close(devices);
    return code;
}
