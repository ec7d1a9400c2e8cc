/* Models in the smallest budget, compared with the same models in memory: logits must be the same,
 * bit for bit.
 * SPDX-License-Identifier: MIT
 *
 *   budget_models MODEL...
 *
 * A sequence in batches, shared half way, cut and continued, saved by one context and loaded by the
 * other.  Prints a line a model: "ok", with how many experts have a place and how many were read,
 * or what differs. */
#include "qsf.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 6, LENGTH = 30, HALF = 17, CUT = 9, SESSION = 1 << 20 };

typedef struct way { qsf_model *m; qsf_context *c; size_t n_vocab; } way;

static uint8_t saved[SESSION];
static size_t n_saved;
static qsf_error said;

static qsf_context_options options_of(uint64_t budget)
{
    qsf_context_options o;
    qsf_context_defaults(&o);
    o.n_ctx = 64;
    o.n_seqs = 2;
    o.n_batch = o.n_logits = BATCH;
    o.n_threads = 2;
    o.kv_type = QSF_KV_F16;
    o.ram_budget = budget;
    return o;
}

/* Both ways with the same sizes: those that the smallest budget leaves. */
static qsf_status open_both(way *whole, way *small, const char *path, qsf_plan *plan)
{
    qsf_model_info info = { .size = sizeof info };
    qsf_context_options o = options_of(1);
    way *ways[] = { whole, small };
    qsf_status st;
    for (int i = 0; i < 2; i++) {
        if ((st = qsf_model_open(path, NULL, &ways[i]->m, &said))) return st;
        qsf_model_get_info(ways[i]->m, &info);
        ways[i]->n_vocab = info.n_vocab;
    }
    if (qsf_context_plan(small->m, &o, plan, &said) != QSF_E_BUDGET) return QSF_E_ARGUMENT;
    o.ram_budget = plan->least;
    if ((st = qsf_context_new(small->m, &o, &small->c, &said)) ||
        (st = qsf_context_get_plan(small->c, plan))) return st;
    o = options_of(0);
    o.n_ctx = plan->n_ctx;
    o.n_batch = o.n_logits = plan->n_batch < BATCH ? plan->n_batch : BATCH;
    o.kv_type = plan->kv_type;
    return qsf_context_new(whole->m, &o, &whole->c, &said);
}

static int32_t token_at(const way *w, size_t i) { return (int32_t)(i * 7919 % w->n_vocab); }

/* Positions [from, to) of a sequence by both; how many rows of logits differ, or -1: an error. */
static long feed_both(way *a, way *z, qsf_seq s, size_t from, size_t to, size_t most)
{
    long bad = 0;
    for (size_t at = from; at < to;) {
        qsf_row rows[BATCH];
        const size_t n = at + most < to ? most : to - at;
        for (size_t i = 0; i < n; i++) rows[i] = (qsf_row){ s, token_at(a, at + i), true };
        if (qsf_compute(a->c, rows, n) || qsf_compute(z->c, rows, n)) return -1;
        for (size_t i = 0; i < n; i++) {
            const float *x = qsf_logits(a->c, i), *y = qsf_logits(z->c, i);
            bad += !x || !y || memcmp(x, y, a->n_vocab * sizeof *x);
        }
        at += n;
    }
    return bad;
}

static qsf_status keep(void *user, const void *bytes, size_t len)
{
    (void)user;
    if (len > SESSION - n_saved) return QSF_E_FULL;
    memcpy(saved + n_saved, bytes, len);
    n_saved += len;
    return QSF_OK;
}
static qsf_status give(void *user, uint64_t at, void *dst, size_t len)
{
    (void)user;
    memcpy(dst, saved + at, len);
    return QSF_OK;
}

/* What the small way has of sequence 0 becomes sequence 1 of both. */
static qsf_status pass_on(way *a, way *z, size_t n)
{
    int32_t ids[LENGTH];
    size_t len;
    for (size_t i = 0; i < n; i++) ids[i] = token_at(a, i);
    n_saved = 0;
    qsf_status st = qsf_session_save(z->c, 0, ids, n, keep, NULL, &said);
    const qsf_custom_file f = { .size = sizeof f, .length = n_saved, .read = give };
    if (!st) st = qsf_session_load(a->c, 1, &f, ids, LENGTH, &len, &said);
    return st ? st : qsf_session_load(z->c, 1, &f, ids, LENGTH, &len, &said);
}

static long compare_both(way *a, way *z, size_t most)
{
    long bad = feed_both(a, z, 0, 0, HALF, most), more;
    if (bad < 0 || qsf_seq_share(a->c, 1, 0, HALF) || qsf_seq_share(z->c, 1, 0, HALF)) return -1;
    if ((more = feed_both(a, z, 1, HALF, LENGTH, 1)) < 0) return -1;
    bad += more;
    if (qsf_seq_truncate(a->c, 0, CUT) || qsf_seq_truncate(z->c, 0, CUT)) return -1;
    if ((more = feed_both(a, z, 0, qsf_seq_length(z->c, 0), HALF, most)) < 0) return -1;
    bad += more;
    if (qsf_seq_truncate(a->c, 1, 0) || qsf_seq_truncate(z->c, 1, 0) || pass_on(a, z, HALF)) return -1;
    more = feed_both(a, z, 1, HALF, LENGTH, most);
    return more < 0 ? -1 : bad + more;
}

static void way_close(way *w)
{
    qsf_context_free(w->c);
    qsf_model_close(w->m);
}

static int check_budget(const char *path)
{
    way whole = { 0 }, small = { 0 };
    qsf_plan plan = { .size = sizeof plan };
    qsf_stats stats = { .size = sizeof stats };
    const qsf_status st = open_both(&whole, &small, path, &plan);
    const size_t most = plan.n_batch < BATCH ? plan.n_batch : BATCH;
    const long bad = st ? -1 : compare_both(&whole, &small, most);
    if (small.c) qsf_context_get_stats(small.c, &stats);
    if (bad)
        printf("FAIL %s: %ld rows differ; %s %s\n", path, bad, said.text,
               small.c ? qsf_last_error(small.c) : "");
    else
        printf("ok %s: %u experts have a place, %llu read\n", path, (unsigned)plan.n_experts,
               (unsigned long long)stats.experts_read);
    way_close(&whole);
    way_close(&small);
    return bad != 0;
}

int main(int argc, char **argv)
{
    int failed = 0;
    for (int i = 1; i < argc; i++) failed |= check_budget(argv[i]);
    return failed;
}
