/* Counters and histograms, and their text.
 * SPDX-License-Identifier: MIT */
#include "metrics.h"

/* Upper ends: of times in seconds, of sizes. */
static const double time_ends[HISTOGRAM_BUCKETS] = { 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5,
                                                     1, 2, 5, 10, 30, 60, 300 };
static const double size_ends[HISTOGRAM_BUCKETS] = { 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 128, 256, 512,
                                                     1024 };

static void histogram_add(serve_histogram *h, const double *ends, double value, uint64_t n)
{
    int i = 0;
    while (i < HISTOGRAM_BUCKETS && value > ends[i]) i++;
    metric_add(&h->count[i], 1);
    metric_add(&h->sum_ns, n);
}

void metric_time(serve_histogram *h, uint64_t ns) { histogram_add(h, time_ends, (double)ns / 1e9, ns); }
void metric_size(serve_histogram *h, uint64_t n) { histogram_add(h, size_ends, (double)n, n); }

static void histogram_lines(serve_histogram *h, const double *ends, double unit, const char *name,
                            const char *label, serve_text *out)
{
    uint64_t sum = 0;
    const char *comma = *label ? "," : "", *open = *label ? "{" : "", *close = *label ? "}" : "";
    for (int i = 0; i < HISTOGRAM_BUCKETS; i++) {
        sum += metric_get(&h->count[i]);
        text_format(out, "qsf_%s_bucket{%s%sle=\"%g\"} %llu\n", name, label, comma, ends[i],
                    (unsigned long long)sum);
    }
    sum += metric_get(&h->count[HISTOGRAM_BUCKETS]);
    text_format(out, "qsf_%s_bucket{%s%sle=\"+Inf\"} %llu\n", name, label, comma, (unsigned long long)sum);
    text_format(out, "qsf_%s_sum%s%s%s %.9f\n", name, open, label, close,
                (double)metric_get(&h->sum_ns) / unit);
    text_format(out, "qsf_%s_count%s%s%s %llu\n", name, open, label, close, (unsigned long long)sum);
}

static void ratio_line(uint64_t part, uint64_t whole, const char *name, const char *label, serve_text *out)
{
    text_format(out, "qsf_%s%s%s%s %.6f\n", name, *label ? "{" : "", label, *label ? "}" : "",
                whole ? (double)part / (double)whole : 0);
}

static void metric_line(atomic_ullong *m, const char *name, const char *label, serve_text *out)
{
    text_format(out, "qsf_%s%s%s%s %llu\n", name, *label ? "{" : "", label, *label ? "}" : "",
                (unsigned long long)metric_get(m));
}

void metrics_rest(serve_metrics *m)
{
#define X(name, kind, help) if (*(kind) == 'g') metric_set(&m->name, 0);
    SERVE_METRICS(X)
#undef X
}

void metrics_write(serve_metrics *const *m, const char *const *labels, unsigned n, serve_text *out)
{
#define HEAD(name, kind, help) \
    text_format(out, "# HELP qsf_%s %s\n# TYPE qsf_%s %s\n", name, help, name, kind)
#define X(name, kind, help) \
    HEAD(#name, kind, help); \
    for (unsigned i = 0; i < n; i++) metric_line(&m[i]->name, #name, labels[i], out);
    SERVE_METRICS(X)
#undef X
#define RATIO(part, whole, name, help) \
    HEAD(name, "gauge", help); \
    for (unsigned i = 0; i < n; i++) \
        ratio_line(metric_get(&m[i]->part), metric_get(&m[i]->whole), name, labels[i], out);
    RATIO(kept_tokens_total, prompt_tokens_total, "prefix_hit_ratio",
          "Share of prompt tokens that were cached")
    RATIO(drafts_accepted_total, drafts_total, "drafts_accepted_ratio", "Share of draft tokens that were "
                                                                        "accepted")
#undef RATIO
#define HISTOGRAM(member, ends, unit, name, help) \
    HEAD(name, "histogram", help); \
    for (unsigned i = 0; i < n; i++) histogram_lines(&m[i]->member, ends, unit, name, labels[i], out);
    HISTOGRAM(first_token, time_ends, 1e9, "first_token_seconds", "Time from a request to its first token")
    HISTOGRAM(between_tokens, time_ends, 1e9, "between_tokens_seconds", "Time from a token to the next one")
    HISTOGRAM(queue_time, time_ends, 1e9, "queue_seconds", "Time from a request to its first row")
    HISTOGRAM(request_time, time_ends, 1e9, "request_seconds", "Time from a request to the end of its answer")
    HISTOGRAM(batch_size, size_ends, 1, "batch_size", "Rows per step")
#undef HISTOGRAM
#undef HEAD
}
