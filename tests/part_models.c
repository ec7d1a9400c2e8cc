/* Models in two and three parts, beside the whole: logits must be the same, bit for bit.
 * SPDX-License-Identifier: MIT
 *
 *   part_models MODEL...
 *
 * Two sequences in batches of several lengths, a prompt and single tokens; one of them goes back
 * and on.  Prints a line a model: "ok", or what differs. */
#include "qsf.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PARTS = 3, ROWS = 8, LENGTH = 40 };

typedef struct part { qsf_model *m; qsf_context *c; } part;

static qsf_error why;

static qsf_status part_open(part *p, const char *path, uint32_t first, uint32_t end)
{
    qsf_model_options mo;
    qsf_context_options o;
    qsf_model_defaults(&mo);
    qsf_context_defaults(&o);
    mo.first_layer = first;
    mo.end_layer = end;
    o.n_ctx = 128;
    o.n_batch = ROWS;
    o.n_threads = 1;
    o.n_logits = ROWS;
    const qsf_status st = qsf_model_open(path, &mo, &p->m, &why);
    return st ? st : qsf_context_new(p->m, &o, &p->c, &why);
}

static void parts_close(part *p, int n)
{
    for (int i = 0; i < n; i++) {
        qsf_context_free(p[i].c);
        qsf_model_close(p[i].m);
        p[i] = (part){ 0 };
    }
}

static qsf_status parts_compute(part *p, int n, const qsf_row *rows, size_t n_rows, float *x, size_t n_embd)
{
    qsf_status st = qsf_compute(p[0].c, rows, n_rows);
    for (int i = 1; i < n && !st; i++) {
        for (size_t r = 0; r < n_rows; r++)
            memcpy(x + r * n_embd, qsf_batch_states(p[i - 1].c, r), n_embd * sizeof *x);
        st = qsf_compute_from(p[i].c, rows, n_rows, x);
    }
    return st;
}

/* Calls compute with the same batches for whole and parts; the number of logits that differ, or -1:
 * an error. */
static long compare(part *whole, part *p, int n, const qsf_model_info *info, float *x)
{
    long bad = 0;
    size_t at = 0;
    for (int b = 0; at < LENGTH; b++) {
        qsf_row rows[ROWS];
        const size_t len = b % 3 == 2 ? 1 : b % 3 == 1 ? ROWS : ROWS - 3;
        for (size_t i = 0; i < len; i++)
            rows[i] = (qsf_row){ (int)(at + i) % 2, (int32_t)((at + i) * 7919 % info->n_vocab), i % 2 == 0 };
        if (qsf_compute(whole->c, rows, len) || parts_compute(p, n, rows, len, x, info->n_embd)) return -1;
        for (size_t i = 0; 2 * i < len; i++) {
            const float *a = qsf_logits(whole->c, i), *z = qsf_logits(p[n - 1].c, i);
            bad += !a || !z || memcmp(a, z, info->n_vocab * sizeof *a);
        }
        at += len;
        if (b != 4) continue;
        qsf_status st = qsf_seq_truncate(whole->c, 0, 0);
        for (int i = 0; i < n; i++) st = st ? st : qsf_seq_truncate(p[i].c, 0, 0);
        if (st) return -1;
    }
    return bad;
}

static int check(const char *path)
{
    part whole = { 0 }, p[MOST_PARTS] = { { 0 } };
    qsf_model_info info = { .size = sizeof info };
    int failed = 0;
    if (part_open(&whole, path, 0, 0)) {
        printf("FAIL %s: %s\n", path, why.text);
        return 1;
    }
    qsf_model_get_info(whole.m, &info);
    float *x = malloc((size_t)ROWS * info.n_embd * sizeof *x);
    for (int n = 2; n <= MOST_PARTS && (uint32_t)n <= info.n_layers && x; n++) {
        qsf_status st = QSF_OK;
        for (int i = 0; i < n && !st; i++)
            st = part_open(&p[i], path, info.n_layers * (uint32_t)i / (uint32_t)n,
                           info.n_layers * (uint32_t)(i + 1) / (uint32_t)n);
        qsf_seq_truncate(whole.c, 0, 0);
        qsf_seq_truncate(whole.c, 1, 0);
        const long bad = st ? -1 : compare(&whole, p, n, &info, x);
        if (st == QSF_E_UNSUPPORTED) printf("refused %s: %s\n", path, why.text);
        else if (bad) printf("FAIL %s in %d parts: %ld rows differ; %s\n", path, n, bad, why.text);
        else printf("ok %s in %d parts\n", path, n);
        failed |= bad && st != QSF_E_UNSUPPORTED;
        parts_close(p, n);
    }
    free(x);
    parts_close(&whole, 1);
    return failed;
}

int main(int argc, char **argv)
{
    int failed = 0;
    for (int i = 1; i < argc; i++) failed |= check(argv[i]);
    return failed;
}
