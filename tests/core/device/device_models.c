/* Models with layers on a GPU, against the CPU.  If a value is close to a half, its code on the GPU
 * may be the next one, and in a tiny model that shows.  So both are compared with floats: the
 * GPU's logits must not be further from them than the CPU's are, by root mean square and by 10
 * percent.  And of rows that are alone in their sequences, most must be as on the CPU.  Encoders
 * have no logits: their hidden states are compared.
 * SPDX-License-Identifier: MIT
 *
 *   device_models [f16|q8|f32] [whole|brief] [long] [parts] [lut] [last] [lora ADAPTER] MODEL...
 *
 * A GPU of the library that QSF_WEBGPU_LIB names; any adapter will do.  f16, q8, f32: the type of
 * the KV cache, f16 by default.  brief: models from here on have no second prompt, which shows
 * nothing that depends on the model, and takes half of the time; whole: they have it again.  long:
 * that prompt has 64 rows instead of 24.  parts: buffers of weights for experts have at most 16 KB.
 * lut: tiles of the next model are transposed for look-ups.  last: only its last layer is on the
 * GPU.  lora: three of four of its sequences have the adapter.
 * Two sequences in batches of several lengths, prompts and single tokens; one goes back and on.
 * Models share the device and its pipelines: a driver in software takes seconds to compile those
 * of one model.
 * Prints a line a model: how many of its layers are on the GPU, how far both are from floats, and
 * why others are not. */
#include "broken_device.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 64, SEQUENCES = 16, CONTEXT = 128 };

static qsf_error why;

enum { FLOATS, CPU, GPU, N_CONTEXTS };
typedef struct three {
    qsf_context *c[N_CONTEXTS];
    qsf_model_info info;
    uint32_t    width;          /* of what is compared */
    double      sum[N_CONTEXTS];
    uint32_t    same;           /* of SEQUENCES rows */
} three;
static qsf_kv_type kv = QSF_KV_F16;
static uint32_t most = 24;      /* rows of the second prompt */
static bool brief;              /* without it */
static struct next { const char *adapter; bool lut, last; } next;     /* of the next model alone */

static int failed(const char *path, const char *text)
{
    printf("%s: %s\n", path, text);
    return 1;
}

static qsf_row row_of(const three *p, uint32_t seq, uint32_t i)
{
    const uint32_t id = i * 2654435761u >> 8;
    return (qsf_row){ .seq = seq, .token = (int32_t)(id % p->info.n_vocab), .logits = !p->info.encoder };
}

static const float *result_of(const three *p, int k, uint32_t i)
{
    return p->info.encoder ? qsf_hidden(p->c[k], i) : qsf_logits(p->c[k], i);
}

/* The same rows to all, of which n_results have results; sums of squares of these, and of their
 * differences to those of floats. */
static qsf_status all_rows(three *p, const qsf_row *rows, uint32_t n, uint32_t n_results)
{
    qsf_status st;
    for (int k = 0; k < N_CONTEXTS; k++)
        if ((st = qsf_compute(p->c[k], rows, n))) return st;
    for (uint32_t i = 0; i < n_results; i++) {
        const float *f = result_of(p, FLOATS, i);
        for (int k = 0; k < N_CONTEXTS; k++) {
            const float *x = result_of(p, k, i);
            for (uint32_t v = 0; v < p->width; v++) {
                const double off = (double)x[v] - (k == FLOATS ? 0 : f[v]);
                p->sum[k] += off * off;
            }
        }
    }
    return QSF_OK;
}

/* Each `every`-th row asks for logits. */
static qsf_status some(three *p, uint32_t seq, uint32_t first, uint32_t n, uint32_t every)
{
    qsf_row rows[ROWS];
    for (uint32_t i = 0; i < n; i++) {
        rows[i] = row_of(p, seq, first + i);
        rows[i].logits = i % every == 0;
    }
    return all_rows(p, rows, n, (n + every - 1) / every);
}

static qsf_status all(three *p, uint32_t seq, uint32_t first, uint32_t n)
{
    return some(p, seq, first, n, 1);
}

/* Whether the GPU's logits are the CPU's, up to a thousandth of the largest. */
static bool is_same(const three *p, uint32_t i)
{
    const float *a = result_of(p, GPU, i), *b = result_of(p, CPU, i);
    double top = 0, off = 0;
    for (uint32_t v = 0; v < p->width; v++) {
        top = fmax(top, fabs(b[v]));
        off = fmax(off, fabs((double)a[v] - b[v]));
    }
    return off <= 1e-3 * top;
}

/* Rows that are alone in their sequences: the wrong code of one is not seen by the others. */
static qsf_status alone(three *p)
{
    qsf_row rows[SEQUENCES];
    for (uint32_t i = 0; i < SEQUENCES; i++) rows[i] = row_of(p, i, 7 + i);
    qsf_status st = all_rows(p, rows, SEQUENCES, SEQUENCES);
    for (uint32_t i = 0; i < SEQUENCES && !st; i++) p->same += is_same(p, i);
    for (uint32_t i = 0; i < N_CONTEXTS * SEQUENCES && !st; i++)
        st = qsf_seq_truncate(p->c[i / SEQUENCES], i % SEQUENCES, 0);
    return st;
}

/* Two texts at once, which are new. */
static qsf_status texts(three *p, uint32_t first, uint32_t n, uint32_t m)
{
    qsf_row rows[ROWS];
    qsf_status st;
    for (int k = 0; k < N_CONTEXTS; k++)
        if ((st = qsf_seq_truncate(p->c[k], 0, 0)) || (st = qsf_seq_truncate(p->c[k], 1, 0))) return st;
    for (uint32_t i = 0; i < n + m; i++) rows[i] = row_of(p, i >= n, first + i);
    return all_rows(p, rows, n + m, n + m);
}

static qsf_status batches(three *p)
{
    qsf_status st = alone(p);
    if (st) return st;
    if (p->info.encoder) {
        if ((st = texts(p, 1, 5, 19)) || (st = texts(p, 50, 1, 0))) return st;
        return texts(p, 40, 2, 1);
    }
    if ((st = all(p, 0, 1, 1)) || (st = all(p, 0, 2, 7)) || (st = all(p, 1, 40, 20))) return st;
    if ((st = all(p, 0, 9, 1)) || (st = all(p, 1, 60, 2)) || brief) return st;
    for (int k = 0; k < N_CONTEXTS; k++)
        if ((st = qsf_seq_truncate(p->c[k], 1, 12))) return st;
    if ((st = all(p, 1, 80, most)) || (st = some(p, 1, 110, 13, 3)) || (st = all(p, 1, 130, 4))) return st;
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
        o.n_seqs = SEQUENCES;
        o.n_threads = 1;
        o.f32 = k == FLOATS;
        o.kv_type = o.f32 ? QSF_KV_F32 : kv;
        o.kernel_route = next.lut ? QSF_ROUTE_LUT : QSF_ROUTE_AUTO;
        st = qsf_context_new(m, &o, &p->c[k], &why);
        if (!st) qsf_hidden_ask(p->c[k], p->info.encoder);
    }
    return st;
}

/* The adapter as each context takes it: floats need it as exact. */
static qsf_status adapters(three *p, qsf_model *m, qsf_adapter *a[2])
{
    const char *path = next.adapter;
    qsf_status st = QSF_OK;
    for (int exact = 0; path && exact < 2 && !st; exact++) {
        const qsf_adapter_options o = { .size = sizeof o, .exact = exact };
        st = qsf_adapter_open(m, path, &o, &a[exact], &why);
    }
    for (int i = 0; path && i < N_CONTEXTS * SEQUENCES && !st; i++) {
        const int k = i / SEQUENCES, seq = i % SEQUENCES;
        const qsf_adapter_use use = { a[k == FLOATS], 1 - 0.5f * (float)(seq % 4) };
        st = qsf_seq_set_adapters(p->c[k], seq, &use, 1);
        if (st) snprintf(why.text, sizeof why.text, "%s", qsf_last_error(p->c[k]));
    }
    return st;
}

static int model(const char *path)
{
    qsf_adapter *a[2] = { NULL, NULL };
    qsf_device_use use = { .size = sizeof use };
    qsf_model_options mo;
    qsf_model *m;
    three p = { .info = { .size = sizeof p.info } };
    int code = 0;
    const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    qsf_model_defaults(&mo);
    if (qsf_model_open(path, &mo, &m, &why)) return failed(name, why.text);
    qsf_model_get_info(m, &p.info);
    p.width = p.info.encoder ? p.info.n_embd : p.info.n_vocab;
    if (contexts(&p, m) || adapters(&p, m, a)) {
        code = failed(name, why.text);
    } else if (qsf_context_use_device(p.c[GPU], &broken.list, 0, next.last ? 1 : UINT32_MAX, 0)) {
        printf("%s: none on the GPU: %s\n", name, qsf_last_error(p.c[GPU]));
    } else if (batches(&p) || qsf_context_device(p.c[GPU], &use)) {
        for (int k = 0; k < N_CONTEXTS; k++) code |= failed(name, qsf_last_error(p.c[k]));
    } else {
        code = !(p.sum[GPU] <= 1.21 * p.sum[CPU] + 1e-10 * p.sum[FLOATS]) || 4 * p.same < 3 * SEQUENCES;
        printf("%s: %u of %u layers, off by %.1e, the CPU by %.1e, %u of %d rows as there%s%s%s\n", name,
               (unsigned)use.n_layers, (unsigned)p.info.n_layers, sqrt(p.sum[GPU] / p.sum[FLOATS]),
               sqrt(p.sum[CPU] / p.sum[FLOATS]), (unsigned)p.same, SEQUENCES,
               code ? ": too much" : "", use.left[0] ? "; " : "", use.left);
    }
    fflush(stdout);
    for (int k = 0; k < N_CONTEXTS; k++) qsf_context_free(p.c[k]);
    for (int k = 0; k < 2; k++) qsf_adapter_free(a[k]);
    qsf_model_close(m);
    return code;
}

int main(int argc, char **argv)
{
    qsf_device_info small;
    int code = 0;
    if (!broken_begin()) return failed("devices", "none");
    small = *broken.d.info;
    small.max_buffer = 1 << 14;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "f16")) kv = QSF_KV_F16;
        else if (!strcmp(argv[i], "q8")) kv = QSF_KV_Q8;
        else if (!strcmp(argv[i], "f32")) kv = QSF_KV_F32;
        else if (!strcmp(argv[i], "brief")) brief = true;
        else if (!strcmp(argv[i], "whole")) brief = false;
        else if (!strcmp(argv[i], "long")) most = ROWS;
        else if (!strcmp(argv[i], "parts")) broken.d.info = &small;
        else if (!strcmp(argv[i], "lut")) next.lut = true;
        else if (!strcmp(argv[i], "last")) next.last = true;
        else if (!strcmp(argv[i], "lora") && i + 1 < argc) next.adapter = argv[++i];
        else code |= model(argv[i]), next = (struct next){ 0 };
    }
    if (broken.live || broken.open) code |= failed("devices", "objects were not released");
    broken_end();
    return code || test_failed;
}
