/* --perplexity, --kl-base and --kl: how well a model predicts a file's text, and how far it is from
 * another model.
 * SPDX-License-Identifier: MIT
 *
 * As llama-perplexity does: the text's tokens are cut into windows of n_ctx, each computed from an
 * empty context; the second half of each window is scored.  If the vocabulary adds BOS, it takes
 * the first position of every window. */
#include "run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A row of log-probabilities for --kl: 16-bit steps from the largest down; values beyond KL_RANGE
 * are ignored. */
enum { KL_STEPS = 65535 };
static const double KL_RANGE = 24;
static const char kl_magic[8] = { 'Q', 'S', 'F', 'K', 'L', 0, 0, 1 };

typedef struct measure {
    run_session *s;
    uint32_t  n_vocab, n_ctx;
    FILE     *base;           /* NULL, or the file that --kl-base writes or --kl reads */
    bool      writes;
    uint16_t *row;            /* [n_vocab] */
    double    nll, nll_sq;    /* sums over scored tokens */
    double    kl, kl_sq;
    uint64_t  n, same_top;
} measure;

static double log_sum_exp(const float *x, uint32_t n, uint32_t *best)
{
    uint32_t top = 0;
    double sum = 0;
    for (uint32_t i = 1; i < n; i++)
        if (x[i] > x[top]) top = i;
    for (uint32_t i = 0; i < n; i++) sum += (double)expf(x[i] - x[top]);
    *best = top;
    return (double)x[top] + log(sum);
}

/* Writes one row: the largest log-probability, then the steps below it. */
static bool kl_write(measure *m, const float *x, double log_sum, uint32_t best)
{
    const float top = (float)((double)x[best] - log_sum);
    for (uint32_t i = 0; i < m->n_vocab; i++) {
        const double below = (double)(x[best] - x[i]) / KL_RANGE * KL_STEPS;
        m->row[i] = (uint16_t)(below >= KL_STEPS ? KL_STEPS : (long)(below + 0.5));
    }
    return fwrite(&top, sizeof top, 1, m->base) == 1
        && fwrite(m->row, sizeof *m->row, m->n_vocab, m->base) == m->n_vocab;
}

static bool kl_read(measure *m, const float *x, double log_sum, uint32_t best)
{
    float top;
    uint32_t base_best = 0;
    double kl = 0;
    if (fread(&top, sizeof top, 1, m->base) != 1
        || fread(m->row, sizeof *m->row, m->n_vocab, m->base) != m->n_vocab)
        return false;
    for (uint32_t i = 0; i < m->n_vocab; i++) {
        if (m->row[i] < m->row[base_best]) base_best = i;
        if (m->row[i] == KL_STEPS) continue;
        const double p = (double)top - m->row[i] * KL_RANGE / KL_STEPS;
        kl += exp(p) * (p - ((double)x[i] - log_sum));
    }
    m->kl += kl;
    m->kl_sq += kl * kl;
    m->same_top += base_best == best;
    return true;
}

static int score_row(measure *m, const float *logits, int32_t next)
{
    uint32_t best;
    const double log_sum = log_sum_exp(logits, m->n_vocab, &best);
    const double nll = log_sum - (double)logits[next];
    m->nll += nll;
    m->nll_sq += nll * nll;
    m->n++;
    if (!m->base) return EXIT_OK;
    if (m->writes ? kl_write(m, logits, log_sum, best) : kl_read(m, logits, log_sum, best)) return EXIT_OK;
    fprintf(stderr, "%s %s failed\n", m->writes ? "writing" : "reading",
            m->writes ? m->s->set->kl_base : m->s->set->kl);
    return EXIT_IO;
}

/* One window: the first half only fills the cache, each row of the second half but the last
 * predicts the next token. */
static int score_window(measure *m, const int32_t *ids)
{
    enum { MOST = 64 };
    qsf_row rows[MOST];
    qsf_context *c = m->s->context;
    const uint32_t first = m->n_ctx / 2;
    const size_t batch = qsf_context_batch(c) < MOST ? qsf_context_batch(c) : MOST;
    /* early exit only works with a single token */
    const size_t most = m->s->set->common.context.early_exit > 0 ? 1 : batch;
    qsf_seq_truncate(c, 0, 0);
    qsf_status st = first ? qsf_feed(c, 0, ids, first, NULL) : QSF_OK;
    for (size_t at = first; !st && at < m->n_ctx; ) {
        const size_t n = m->n_ctx - at < most ? m->n_ctx - at : most;
        for (size_t i = 0; i < n; i++) rows[i] = (qsf_row){ 0, ids[at + i], at + i + 1 < m->n_ctx };
        st = qsf_compute(c, rows, n);
        for (size_t i = 0; !st && i < n && at + i + 1 < m->n_ctx; i++) {
            const int code = score_row(m, qsf_logits(c, i), ids[at + i + 1]);
            if (code) return code;
        }
        at += n;
    }
    return st ? report_context(c, st) : EXIT_OK;
}

static double error_of(double sum, double sum_sq, uint64_t n)
{
    if (n < 2) return 0;
    const double mean = sum / (double)n, var = sum_sq / (double)n - mean * mean;
    return var > 0 ? sqrt(var / (double)(n - 1)) : 0;
}

/* The base file's head: magic, vocabulary, window, number of windows. */
static int kl_begin(measure *m, uint32_t *n_windows)
{
    const run_settings *set = m->s->set;
    uint32_t head[4] = { m->n_vocab, m->n_ctx, *n_windows, 0 }, want[2] = { m->n_vocab, m->n_ctx };
    char magic[8];
    if (!set->kl && !set->kl_base) return EXIT_OK;
    m->writes = set->kl_base != NULL;
    const char *path = m->writes ? set->kl_base : set->kl;
    m->base = fopen(path, m->writes ? "wb" : "rb");
    m->row = malloc(m->n_vocab * sizeof *m->row);
    if (!m->base || !m->row) {
        fprintf(stderr, "cannot open %s\n", path);
        return EXIT_IO;
    }
    if (m->writes)
        return fwrite(kl_magic, 8, 1, m->base) == 1 && fwrite(head, sizeof head, 1, m->base) == 1
            ? EXIT_OK : EXIT_IO;
    if (fread(magic, 8, 1, m->base) != 1 || memcmp(magic, kl_magic, 8)
        || fread(head, sizeof head, 1, m->base) != 1) {
        fprintf(stderr, "%s was not written by --kl-base\n", path);
        return EXIT_MODEL;
    }
    if (head[0] != want[0] || head[1] != want[1]) {
        fprintf(stderr, "%s is for a vocabulary of %u and windows of %u, but here they are %u and %u\n", path,
                head[0], head[1], want[0], want[1]);
        return EXIT_USAGE;
    }
    if (head[2] < *n_windows) *n_windows = head[2];
    return EXIT_OK;
}

static void print_result(const measure *m)
{
    const double ppl = exp(m->nll / (double)m->n);
    if (m->base && !m->writes)
        printf("mean KL %.6f +/- %.6f, same top-1 %.3f %%\n", m->kl / (double)m->n,
               error_of(m->kl, m->kl_sq, m->n), 100.0 * (double)m->same_top / (double)m->n);
    printf("perplexity %.4f +/- %.5f over %llu tokens\n", ppl, ppl * error_of(m->nll, m->nll_sq, m->n),
           (unsigned long long)m->n);
}

int run_perplexity(run_session *s)
{
    measure m = { .s = s };
    qsf_model_info info = { .size = sizeof info };
    qsf_plan plan = { .size = sizeof plan };
    size_t len, n;
    char *text = read_whole(s->set->perplexity, &len);
    if (!text) return EXIT_IO;
    int32_t *ids = session_encode(s, text, len, QSF_TOK_ADD_SPECIAL, &n);
    free(text);
    if (!ids) return report(&s->error);
    qsf_model_get_info(s->model, &info);
    qsf_context_get_plan(s->context, &plan);
    m.n_vocab = info.n_vocab;
    m.n_ctx = plan.n_ctx;
    const bool begins = n && qsf_token_bos(s->model) >= 0 && ids[0] == qsf_token_bos(s->model);
    uint32_t n_windows = (uint32_t)(n / m.n_ctx);
    int code = EXIT_OK;
    if (n_windows == 0) {
        fprintf(stderr, "the text has %zu tokens; a window needs %u (-c N makes it shorter)\n", n, m.n_ctx);
        code = EXIT_USAGE;
    }
    if (s->set->chunks > 0 && s->set->chunks < (long long)n_windows) n_windows = (uint32_t)s->set->chunks;
    if (!code) code = kl_begin(&m, &n_windows);
    for (uint32_t w = 0; !code && w < n_windows; w++) {
        int32_t *window = ids + (size_t)w * m.n_ctx;
        if (begins) window[0] = qsf_token_bos(s->model);
        code = score_window(&m, window);
        if (interrupted()) code = EXIT_INTERRUPTED;
        if (!code && (s->set->verbose || terminal_is(stderr)))
            fprintf(stderr, "%s%u of %u: %.4f%s", terminal_is(stderr) ? "\r" : "", w + 1, n_windows,
                    exp(m.nll / (double)m.n), terminal_is(stderr) ? "  " : "\n");
    }
    if (terminal_is(stderr)) fputc('\n', stderr);
    if (m.base && fclose(m.base) && m.writes && !code) {
        fprintf(stderr, "writing %s failed\n", s->set->kl_base);
        code = EXIT_IO;
    }
    if (!code) print_result(&m);
    free(m.row);
    free(ids);
    return code;
}
