/* What a conversion did, as a table for people and as JSON for programs.
 * SPDX-License-Identifier: MIT */
#include "convert_report.h"

#include <math.h>
#include <string.h>

static const char *const report_compressions[] = { "none", "lz4", "lz4hc", "zstd" };

static double report_bits(uint64_t bytes, uint64_t weights)
{
    return weights ? 8.0 * (double)bytes / (double)weights : 0;
}

static uint64_t report_weights(const qsf_convert_tensor *t) { return (uint64_t)t->rows * t->cols; }

static double report_mb(uint64_t bytes) { return (double)bytes / 1e6; }

static void report_line(FILE *out, const qsf_convert_tensor *t)
{
    char type[32];
    if (t->block > 1) snprintf(type, sizeof type, "%s:%u", t->type, (unsigned)t->block);
    else snprintf(type, sizeof type, "%s", t->type);
    fprintf(out, "%-26s %-14s %9.3f %9.6f %9.6f  %.2f MB", t->name, type,
            report_bits(t->bytes, report_weights(t)), t->relative_error, t->cosine, report_mb(t->bytes));
    if (t->outliers) fprintf(out, "  %llu outliers", (unsigned long long)t->outliers);
    if (t->centroids) fprintf(out, "  %u centroids", (unsigned)t->centroids);
    if (t->output_error > 0) fprintf(out, "  outputs %.2f dB", -10 * log10(t->output_error));
    if (t->predicted_kl > 0) fprintf(out, "  KL %.5f", t->predicted_kl);
    fprintf(out, "%s\n", t->raised ? "  raised" : "");
}

/* How the bytes were spent: a line for each type that was chosen. */
static void report_spent(FILE *out, const qsf_convert_result *r, const qsf_convert_summary *s)
{
    qsf_convert_tensor t = { .size = sizeof t }, other = { .size = sizeof other };
    for (uint32_t i = 0; i < s->n_tensors && !qsf_convert_get_tensor(r, i, &t); i++) {
        uint64_t bytes = 0;
        double kl = 0;
        uint32_t n = 0, before = 0;
        if (!t.matrix) continue;
        for (uint32_t j = 0; j < s->n_tensors && !qsf_convert_get_tensor(r, j, &other); j++) {
            if (!other.matrix || strcmp(t.type, other.type)) continue;
            before += j < i;
            n++;
            bytes += other.bytes;
            kl += other.predicted_kl;
        }
        if (!before)
            fprintf(out, "  %-10s %4u matrices %9.2f MB, predicted KL %.4f\n", t.type, (unsigned)n,
                    report_mb(bytes), kl);
    }
    fprintf(out, "  predicted KL of all: %.4f nats a token\n", s->predicted_kl);
}

bool report_loss(const qsf_convert_result *r, char *out, size_t cap)
{
    /* Estimates from which answers are clearly worse, and from which they make no sense. */
    const double large = 0.25, useless = 2;
    qsf_convert_summary s = { .size = sizeof s };
    qsf_convert_get_summary(r, &s);
    out[0] = 0;
    if (!s.n_tensors || s.estimated_kl <= 0) return false;
    if (s.estimated_kl < 0.01) snprintf(out, cap, "estimated loss: below 0.01 nats a token");
    else if (s.estimated_kl < useless)
        snprintf(out, cap, "estimated loss: %.2f nats a token, perplexity about %.2f times the input's",
                 s.estimated_kl, exp(s.estimated_kl));
    else
        snprintf(out, cap, "estimated loss: %.1f nats a token: answers will make no sense",
                 s.estimated_kl);
    return s.estimated_kl > large;
}

/* Norms and biases are many, small and all alike: one line for them. */
void report_table(FILE *out, const qsf_convert_result *r, const qsf_convert_options *o)
{
    qsf_convert_summary s = { .size = sizeof s };
    qsf_convert_tensor t = { .size = sizeof t };
    char loss[160];
    uint64_t small_bytes = 0, small_weights = 0, bytes = 0;
    uint32_t small = 0;
    qsf_convert_get_summary(r, &s);
    fprintf(out, "%-26s %-14s %9s %9s %9s  %s\n", "tensor", "type", "bits/w", "error", "cosine", "size");
    for (uint32_t i = 0; i < s.n_tensors && !qsf_convert_get_tensor(r, i, &t); i++) {
        bytes += t.bytes;
        if (t.matrix) {
            report_line(out, &t);
            continue;
        }
        small++;
        small_bytes += t.bytes;
        small_weights += report_weights(&t);
    }
    if (small)
        fprintf(out, "%-26s %-14s %9.3f %9s %9s  %.2f MB\n", "norms and biases", "f32, f16",
                report_bits(small_bytes, small_weights), "", "", report_mb(small_bytes));
    fprintf(out, "%-26s %-14s %9.3f %9.6f %9.6f  %.2f MB\n", "all", "", report_bits(bytes, s.n_weights),
            s.relative_error, s.cosine, report_mb(bytes));
    if (s.shared_embedding)
        fprintf(out, "  embedding and head are stored once: they were the same except for rounding\n");
    if (s.predicted_kl > 0) report_spent(out, r, &s);
    (void)report_loss(r, loss, sizeof loss);
    if (loss[0]) fprintf(out, "  %s\n", loss);
    if (s.other_kl > 0)
        fprintf(out, "  with --prefer %s: %.4f is predicted, in %.2f MB\n",
                o->prefer == QSF_CONVERT_SPEED ? "size" : "speed", s.other_kl, report_mb(s.other_bytes));
    fprintf(out, "file %.2f MB, from %.2f MB; %.1f s\n", report_mb(s.file_bytes), report_mb(s.source_bytes),
            (double)s.ns / 1e9);
}

/* ---- JSON ---- */

static void report_string(FILE *out, const char *s)
{
    fputc('"', out);
    for (; *s; s++) {
        const unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\') fprintf(out, "\\%c", c);
        else if (c < 0x20) fprintf(out, "\\u%04x", c);
        else fputc(c, out);
    }
    fputc('"', out);
}

static void report_tensor(FILE *out, const qsf_convert_tensor *t)
{
    fprintf(out, "\n    {\"name\": ");
    report_string(out, t->name);
    fprintf(
        out,
        ", \"kind\": \"%s\", \"rows\": %u, \"cols\": %u, \"type\": \"%s\", \"block\": %u, \"packing\": %u, ",
        t->kind, (unsigned)t->rows, (unsigned)t->cols, t->type, (unsigned)t->block, (unsigned)t->packing);
    fprintf(out, "\"bytes\": %llu, \"bits_per_weight\": %.4f, \"relative_error\": %.8g, \"cosine\": %.8f, ",
            (unsigned long long)t->bytes, report_bits(t->bytes, report_weights(t)), t->relative_error,
            t->cosine);
    if (t->output_error > 0) fprintf(out, "\"output_error\": %.8g, ", t->output_error);
    if (t->predicted_kl > 0) fprintf(out, "\"predicted_kl\": %.8g, ", t->predicted_kl);
    fprintf(out, "\"outliers\": %llu, \"centroids\": %u, \"raised\": %s}", (unsigned long long)t->outliers,
            (unsigned)t->centroids, t->raised ? "true" : "false");
}

void report_json(FILE *out, const qsf_convert_result *r, const qsf_convert_options *o, const char *from,
                 const char *to)
{
    qsf_convert_summary s = { .size = sizeof s };
    qsf_convert_tensor t = { .size = sizeof t };
    qsf_convert_get_summary(r, &s);
    fprintf(out, "{\n  \"input\": ");
    report_string(out, from);
    fprintf(out, ",\n  \"output\": ");
    report_string(out, to);
    fprintf(out, ",\n  \"arch\": ");
    report_string(out, s.arch);
    fprintf(out, ",\n  \"quant_type\": \"%s\",\n  \"compress\": \"%s\",\n  \"packing\": %u,\n",
            qsf_convert_preset_name(o->preset), report_compressions[o->compression & 3],
            (unsigned)o->packing);
    fprintf(out,
            "  \"weights\": %llu,\n  \"source_bytes\": %llu,\n  \"tensor_bytes\": %llu,\n  \"file_bytes\": "
            "%llu,\n",
            (unsigned long long)s.n_weights, (unsigned long long)s.source_bytes,
            (unsigned long long)s.tensor_bytes, (unsigned long long)s.file_bytes);
    if (s.shared_embedding) fprintf(out, "  \"shared_embedding\": true,\n");
    if (s.predicted_kl > 0) fprintf(out, "  \"predicted_kl\": %.8g,\n", s.predicted_kl);
    if (s.estimated_kl > 0) fprintf(out, "  \"estimated_kl\": %.8g,\n", s.estimated_kl);
    if (s.other_kl > 0)
        fprintf(out, "  \"other_kl\": %.8g,\n  \"other_bytes\": %llu,\n", s.other_kl,
                (unsigned long long)s.other_bytes);
    fprintf(out, "  \"bits_per_weight\": %.4f,\n  \"seconds\": %.3f,\n  \"tensors\": [",
            report_bits(s.tensor_bytes, s.n_weights), (double)s.ns / 1e9);
    for (uint32_t i = 0; i < s.n_tensors && !qsf_convert_get_tensor(r, i, &t); i++) {
        if (i) fputc(',', out);
        report_tensor(out, &t);
    }
    fprintf(out, "\n  ]\n}\n");
}
