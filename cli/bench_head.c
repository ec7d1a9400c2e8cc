/* --head-topk: how often the approximate heads find the exact head's most likely token, and the
 * time they take.
 * SPDX-License-Identifier: MIT
 *
 * The text's tokens are cut into windows; the second half of each window is compared, position by
 * position, as if it were being generated.  Times are medians over tokens that are computed one by
 * one, alternating with the exact head: the head's time is that of a token with logits, less that
 * of one without. */
#include "benchmark.h"

#include "base/platform.h"

#include <stdlib.h>
#include <string.h>

enum { HEAD_WINDOW = 512, HEAD_BATCH = 8 };

typedef struct head_bench {
    const bench_settings *set;
    bench_report *report;
    const char   *path, *isa;
    uint32_t      threads, n_vocab;
    qsf_model    *model;
    qsf_context  *exact, *other;
    const char   *name;         /* of the other's mode */
    int32_t      *ids;
    size_t        n_ids;
    bench_row     row;
    qsf_error     error;
} head_bench;

static double head_now_ms(void)
{
    const qsf_platform *p = qsf_platform_native();
    return (double)p->now_ns(p->user) / 1e6;
}

static qsf_status head_context(head_bench *b, qsf_head_mode mode, qsf_context **out)
{
    qsf_context_options o;
    qsf_context_defaults(&o);
    o.n_ctx = HEAD_WINDOW;
    o.n_batch = 256;
    o.n_threads = b->threads;
    o.n_seqs = 1;
    o.n_logits = HEAD_BATCH;
    o.kv_type = b->set->context.kv_type;
    o.isa = b->isa;
    o.head = mode;
    o.record = b->set->context.record;
    o.record_user = b->set->context.record_user;
    return qsf_context_new(b->model, &o, out, &b->error);
}

static void head_emit(head_bench *b, const char *what, const char *mode, const char *unit, bench_samples *s)
{
    snprintf(b->row.test, sizeof b->row.test, "%s %s", what, mode);
    snprintf(b->row.unit, sizeof b->row.unit, "%s", unit);
    bench_row_figures(&b->row, s);
    bench_report_row(b->report, &b->row);
}

/* ---- how often ---- */

static uint32_t head_best(const head_bench *b, const float *logits)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < b->n_vocab; i++)
        if (logits[i] > logits[best]) best = i;
    return best;
}

/* Adds the positions of one window's second half. */
static int head_window(head_bench *b, const int32_t *ids, uint64_t *same, uint64_t *all)
{
    qsf_context *const both[2] = { b->exact, b->other };
    qsf_row rows[HEAD_BATCH];
    for (int k = 0; k < 2; k++) {
        qsf_seq_truncate(both[k], 0, 0);
        const qsf_status st = qsf_feed(both[k], 0, ids, HEAD_WINDOW / 2, NULL);
        if (st) return report_context(both[k], st);
    }
    for (uint32_t at = HEAD_WINDOW / 2; at < HEAD_WINDOW; at += HEAD_BATCH) {
        for (uint32_t i = 0; i < HEAD_BATCH; i++) rows[i] = (qsf_row){ 0, ids[at + i], true };
        for (int k = 0; k < 2; k++) {
            const qsf_status st = qsf_compute(both[k], rows, HEAD_BATCH);
            if (st) return report_context(both[k], st);
        }
        for (uint32_t i = 0; i < HEAD_BATCH; i++)
            *same += head_best(b, qsf_logits(b->exact, i)) == head_best(b, qsf_logits(b->other, i));
        *all += HEAD_BATCH;
        if (interrupted()) return EXIT_INTERRUPTED;
    }
    return EXIT_OK;
}

static int head_agreement(head_bench *b)
{
    const size_t windows = b->n_ids / HEAD_WINDOW,
        wanted = ((size_t)b->set->positions + HEAD_WINDOW / 2 - 1) / (HEAD_WINDOW / 2);
    const size_t n = wanted < windows ? wanted : windows;
    uint64_t same = 0, all = 0;
    for (size_t w = 0; w < n; w++) {
        int32_t *ids = b->ids + w * windows / n * HEAD_WINDOW;
        const int32_t first = ids[0];
        if (qsf_token_bos(b->model) >= 0) ids[0] = qsf_token_bos(b->model);
        const int code = head_window(b, ids, &same, &all);
        ids[0] = first;
        if (code) return code;
    }
    bench_samples s = { .n = 1, .v = { 100.0 * (double)same / (double)all } };
    head_emit(b, "top-1", b->name, "%", &s);
    return EXIT_OK;
}

/* ---- how fast ---- */

static int head_less(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Milliseconds a token: the median, which a token that had to wait for the
 * processor does not move. */
static qsf_status head_tokens(head_bench *b, qsf_context *c, bool logits, uint32_t n, double *ms)
{
    double each[HEAD_WINDOW] = { 0 };
    const float *out;
    qsf_status st = qsf_seq_truncate(c, 0, 0);
    for (uint32_t i = 0; !st && i < n; i++) {
        const double begin = head_now_ms();
        st = qsf_feed(c, 0, b->ids + i, 1, logits ? &out : NULL);
        each[i] = head_now_ms() - begin;
    }
    qsort(each, n, sizeof *each, head_less);
    *ms = each[n / 2];
    return st;
}

static int head_speed(head_bench *b)
{
    qsf_context *const both[2] = { b->exact, b->other };
    const char *const names[2] = { "exact", b->name };
    const uint32_t n = b->set->decodes.v[0] && b->set->decodes.v[0] < HEAD_WINDOW ? b->set->decodes.v[0]
        : HEAD_WINDOW;
    bench_samples head[2] = { { .n = 0 } }, decode[2] = { { .n = 0 } };
    for (long long i = 0; i < b->set->reps; i++)
        for (int k = 0; k < 2; k++) {
            double with, without;
            qsf_status st = head_tokens(b, both[k], true, n, &with);
            if (!st) st = head_tokens(b, both[k], false, n, &without);
            if (st) return report_context(both[k], st);
            if (interrupted()) return EXIT_INTERRUPTED;
            head[k].v[head[k].n++] = with > without ? with - without : 0;
            decode[k].v[decode[k].n++] = 1e3 / with;
        }
    for (int k = 0; k < 2; k++) {
        head_emit(b, "head", names[k], "ms", &head[k]);
        head_emit(b, "tg", names[k], "tok/s", &decode[k]);
    }
    return EXIT_OK;
}

/* ---- the whole measurement ---- */

static int head_mode(head_bench *b, qsf_head_mode mode, const char *name)
{
    b->name = name;
    const qsf_status st = head_context(b, mode, &b->other);
    if (st == QSF_E_UNSUPPORTED) {
        fprintf(stderr, "%s: %s\n", name, b->error.text);
        return EXIT_OK;
    }
    int code = st ? report(&b->error) : EXIT_OK;
    if (!code && b->set->positions) code = head_agreement(b);
    if (!code && b->set->decodes.v[0]) code = head_speed(b);
    qsf_context_free(b->other);
    b->other = NULL;
    return code;
}

static int head_text(head_bench *b)
{
    size_t len;
    char *text = read_whole(b->set->head_topk, &len);
    if (!text) return EXIT_IO;
    b->ids = malloc((len + 16) * sizeof *b->ids);
    const qsf_status st = b->ids ? qsf_tokens_encode(b->model, text, len, QSF_TOK_ADD_SPECIAL, b->ids,
                                                     len + 16, &b->n_ids, &b->error) : QSF_E_MEMORY;
    free(text);
    if (st) return report(&b->error);
    if (b->n_ids >= HEAD_WINDOW) return EXIT_OK;
    fprintf(stderr, "%s has %zu tokens; at least %d are needed\n", b->set->head_topk, b->n_ids,
            (int)HEAD_WINDOW);
    return EXIT_USAGE;
}

static int head_model(head_bench *b)
{
    qsf_model_info info = { .size = sizeof info };
    qsf_stats st = { .size = sizeof st };
    bench_row_model(&b->row, b->path);
    if (qsf_model_open(b->path, NULL, &b->model, &b->error) || head_context(b, QSF_HEAD_EXACT, &b->exact))
        return report(&b->error);
    qsf_model_get_info(b->model, &info);
    qsf_context_get_stats(b->exact, &st);
    b->n_vocab = info.n_vocab;
    b->row.threads = st.n_threads;
    snprintf(b->row.isa, sizeof b->row.isa, "%s", st.isa);
    int code = head_text(b);
    if (!code) code = head_mode(b, QSF_HEAD_SCREEN, "screen");
    if (!code) code = head_mode(b, QSF_HEAD_CLUSTERS, "clusters");
    return code;
}

int bench_heads(const bench_settings *set, bench_report *rep)
{
    for (size_t m = 0; m < set->models.n; m++)
        for (size_t i = 0; i < (set->isas.n ? set->isas.n : 1); i++)
            for (size_t t = 0; t < set->threads.n; t++) {
                head_bench b = { .set = set, .report = rep, .path = set->models.items[m],
                                 .threads = set->threads.v[t], .isa = set->isas.n ? set->isas.v[i] : NULL };
                const int code = head_model(&b);
                qsf_context_free(b.exact);
                qsf_model_close(b.model);
                free(b.ids);
                if (code) return code;
            }
    return EXIT_OK;
}
