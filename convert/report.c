/* What a conversion did, as a table for people and as JSON for programs.
 * SPDX-License-Identifier: MIT */
#include "report.h"
#include "model/roles.h"

static const char *const report_compressions[] = { "none", "lz4", "lz4hc", "zstd" };

double convert_bits(uint64_t bytes, uint64_t weights) { return weights ? 8.0 * (double)bytes / (double)weights : 0; }

static const char *report_type(const convert_tensor *c, char *out, size_t cap)
{
    if (c->block > 1) snprintf(out, cap, "%s:%u", qsf_type_get(c->type)->name, (unsigned)c->block);
    else snprintf(out, cap, "%s", qsf_type_get(c->type)->name);
    return out;
}

static void report_add(qsf_quant_error *sum, const qsf_quant_error *e)
{
    sum->sum_sq += e->sum_sq;
    sum->err_sq += e->err_sq;
    sum->dot += e->dot;
    sum->deq_sq += e->deq_sq;
}

/* Norms and biases are many, small and all alike: one line for them. */
void report_table(FILE *out, const input *in, const convert_report *r)
{
    qsf_quant_error all = { 0 };
    uint64_t small_bytes = 0, small_weights = 0, bytes = 0;
    uint32_t small = 0;
    char type[32];
    fprintf(out, "%-26s %-14s %9s %9s %9s  %s\n", "tensor", "type", "bits/w", "error", "cosine", "size");
    for (uint32_t i = 0; i < in->n_tensors; i++) {
        const input_tensor *t = &in->tensors[i];
        const convert_tensor *c = &r->tensors[i];
        const uint64_t weights = (uint64_t)t->rows * t->cols;
        bytes += c->bytes + c->outlier_bytes;
        if (!convert_is_matrix(t)) {
            small++;
            small_bytes += c->bytes;
            small_weights += weights;
            continue;
        }
        report_add(&all, &c->error);
        fprintf(out, "%-26s %-14s %9.3f %9.6f %9.6f  %.2f MB", t->name, report_type(c, type, sizeof type), convert_bits(c->bytes + c->outlier_bytes, weights),
                convert_relative_error(&c->error), convert_cosine(&c->error), (double)(c->bytes + c->outlier_bytes) / 1e6);
        if (c->n_outliers) fprintf(out, "  %llu outliers", (unsigned long long)c->n_outliers);
        if (c->clusters) fprintf(out, "  %u centroids", (unsigned)c->clusters->n);
        fprintf(out, "%s\n", c->raised ? "  raised" : "");
    }
    if (small) fprintf(out, "%-26s %-14s %9.3f %9s %9s  %.2f MB\n", "norms and biases", "f32, f16", convert_bits(small_bytes, small_weights), "", "", (double)small_bytes / 1e6);
    fprintf(out, "%-26s %-14s %9.3f %9.6f %9.6f  %.2f MB\n", "all", "", convert_bits(bytes, r->n_weights), convert_relative_error(&all), convert_cosine(&all), (double)bytes / 1e6);
    fprintf(out, "file %.2f MB, from %.2f MB; %.1f s\n", (double)r->file_bytes / 1e6, (double)r->source_bytes / 1e6, (double)(r->ns_plan + r->ns_run) / 1e9);
}

/* ---- JSON ---- */

static void json_string(FILE *out, const char *s)
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

void report_json(FILE *out, const input *in, const convert_options *o, const char *from, const char *to, const convert_report *r)
{
    fprintf(out, "{\n  \"input\": ");
    json_string(out, from);
    fprintf(out, ",\n  \"output\": ");
    json_string(out, to);
    fprintf(out, ",\n  \"arch\": ");
    json_string(out, in->hp.arch);
    fprintf(out, ",\n  \"quant_type\": \"%s\",\n  \"compress\": \"%s\",\n  \"packing\": %d,\n", convert_preset_name(o->preset),
            report_compressions[o->compression & 3], o->packing);
    fprintf(out, "  \"weights\": %llu,\n  \"source_bytes\": %llu,\n  \"tensor_bytes\": %llu,\n  \"file_bytes\": %llu,\n  \"bits_per_weight\": %.4f,\n  \"seconds\": %.3f,\n  \"tensors\": [",
            (unsigned long long)r->n_weights, (unsigned long long)r->source_bytes, (unsigned long long)r->tensor_bytes, (unsigned long long)r->file_bytes,
            convert_bits(r->tensor_bytes, r->n_weights), (double)(r->ns_plan + r->ns_run) / 1e9);
    for (uint32_t i = 0; i < in->n_tensors; i++) {
        const input_tensor *t = &in->tensors[i];
        const convert_tensor *c = &r->tensors[i];
        fprintf(out, "%s\n    {\"name\": ", i ? "," : "");
        json_string(out, t->name);
        fprintf(out, ", \"kind\": \"%s\", \"rows\": %u, \"cols\": %u, \"type\": \"%s\", \"block\": %u, \"packing\": %u, \"bytes\": %llu, \"bits_per_weight\": %.4f, "
                "\"relative_error\": %.8g, \"cosine\": %.8f, \"outliers\": %llu, \"centroids\": %u, \"raised\": %s}",
                qsf_kind_name(t->kind), (unsigned)t->rows, (unsigned)t->cols, qsf_type_get(c->type)->name, (unsigned)c->block, (unsigned)c->packing,
                (unsigned long long)(c->bytes + c->outlier_bytes), convert_bits(c->bytes + c->outlier_bytes, (uint64_t)t->rows * t->cols),
                convert_relative_error(&c->error), convert_cosine(&c->error), (unsigned long long)c->n_outliers, c->clusters ? (unsigned)c->clusters->n : 0u,
                c->raised ? "true" : "false");
    }
    fprintf(out, "\n  ]\n}\n");
}
