/* Models in two and three parts, against the whole: logits must be the same, bit for bit.  Or, with
 * --shares, in two to four shares of each layer: within 1e-4 of the largest, and the same one is
 * the largest.
 * SPDX-License-Identifier: MIT
 *
 *   part_models [--shares] MODEL...
 *
 * Two sequences in batches of several lengths, a prompt and single tokens; one of them goes back
 * and on.  Prints a line a model: "ok", or what differs. */
#include "share_sum.h"

#include <math.h>
#include <stdio.h>

enum { MOST_PARTS = SHARES_MOST, ROWS = 8, LENGTH = 40 };

typedef struct part { qsf_model *m; qsf_context *c; } part;

static qsf_error why;
static bool by_shares;
static share_group group;
static float largest;           /* difference of shares' logits, of the largest logit */

/* Part i of n; n 1: the whole. */
static qsf_status part_open(part *p, const char *path, uint32_t i, uint32_t n, uint32_t n_layers)
{
    qsf_model_options mo;
    qsf_context_options o;
    qsf_model_defaults(&mo);
    qsf_context_defaults(&o);
    if (by_shares) {                /* codes would make large differences of small ones, here and there */
        o.kv_type = QSF_KV_F32;
        o.f32 = true;
    }
    if (by_shares && n > 1) {
        mo.share = i;
        mo.n_shares = n;
    } else if (n > 1) {
        mo.first_layer = n_layers * i / n;
        mo.end_layer = n_layers * (i + 1) / n;
    }
    o.n_ctx = 128;
    o.n_batch = ROWS;
    o.n_threads = 1;
    o.n_logits = ROWS;
    qsf_status st = qsf_model_open(path, &mo, &p->m, &why);
    if (!st) st = qsf_context_new(p->m, &o, &p->c, &why);
    if (!st && mo.n_shares) st = qsf_context_set_reduce(p->c, shares_add, &group.members[i]);
    return st;
}

static void parts_close(part *p, int n)
{
    for (int i = 0; i < n; i++) {
        qsf_context_free(p[i].c);
        qsf_model_close(p[i].m);
        p[i] = (part){ 0 };
    }
}

/* One batch of all shares. */
typedef struct share_batch { part *p; const qsf_row *rows; size_t n_rows; } share_batch;

static qsf_status share_compute(void *arg, uint32_t i)
{
    const share_batch *b = arg;
    return qsf_compute(b->p[i].c, b->rows, b->n_rows);
}

static qsf_status parts_compute(part *p, int n, const qsf_row *rows, size_t n_rows, float *x, size_t n_embd)
{
    if (by_shares) return shares_run(&group, share_compute, &(share_batch){ p, rows, n_rows });
    qsf_status st = qsf_compute(p[0].c, rows, n_rows);
    for (int i = 1; i < n && !st; i++) {
        for (size_t r = 0; r < n_rows; r++)
            memcpy(x + r * n_embd, qsf_batch_states(p[i - 1].c, r), n_embd * sizeof *x);
        st = qsf_compute_from(p[i].c, rows, n_rows, x);
    }
    return st;
}

static size_t best_of(const float *logits, size_t n)
{
    size_t best = 0;
    for (size_t i = 1; i < n; i++) best = logits[i] > logits[best] ? i : best;
    return best;
}

/* Whether logits z are not what a says. */
static bool differ(const float *a, const float *z, size_t n)
{
    float most = 0, apart = 0;
    if (!a || !z) return true;
    if (!by_shares) return memcmp(a, z, n * sizeof *a);
    for (size_t i = 0; i < n; i++) {
        most = fmaxf(most, fabsf(a[i]));
        apart = fmaxf(apart, fabsf(a[i] - z[i]));
    }
    largest = fmaxf(largest, apart / most);
    return !(apart <= 1e-4f * most) || best_of(a, n) != best_of(z, n);
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
            bad += differ(qsf_logits(whole->c, i), qsf_logits(p[by_shares ? 0 : n - 1].c, i), info->n_vocab);
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
    if (part_open(&whole, path, 0, 1, 0)) {
        printf("FAIL %s: %s\n", path, why.text);
        return 1;
    }
    qsf_model_get_info(whole.m, &info);
    float *x = malloc((size_t)ROWS * info.n_embd * sizeof *x);
    const int most = by_shares ? SHARES_MOST : info.n_layers < 3 ? (int)info.n_layers : 3;
    for (int n = 2; n <= most && x; n++) {
        qsf_status st = QSF_OK;
        shares_begin(&group, (uint32_t)n);
        largest = 0;
        for (int i = 0; i < n && !st; i++)
            st = part_open(&p[i], path, (uint32_t)i, (uint32_t)n, info.n_layers);
        qsf_seq_truncate(whole.c, 0, 0);
        qsf_seq_truncate(whole.c, 1, 0);
        const long bad = st ? -1 : compare(&whole, p, n, &info, x);
        if (st == QSF_E_UNSUPPORTED) printf("refused %s: %s\n", path, why.text);
        else if (bad) printf("FAIL %s in %d parts: %ld rows differ; %s\n", path, n, bad, why.text);
        else printf("ok %s in %d parts %g\n", path, n, (double)largest);
        failed |= bad && st != QSF_E_UNSUPPORTED;
        parts_close(p, n);
        shares_end(&group);
    }
    free(x);
    parts_close(&whole, 1);
    return failed;
}

int main(int argc, char **argv)
{
    int failed = 0;
    by_shares = argc > 1 && !strcmp(argv[1], "--shares");
    for (int i = 1 + by_shares; i < argc; i++) failed |= check(argv[i]);
    return failed;
}
