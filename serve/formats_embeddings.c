/* Embeddings, and documents in the order of their relevance to a query.
 * SPDX-License-Identifier: MIT */
#include "formats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool embeddings_begin(front_job *j, serve_error *e)
{
    const serve_request *r = &j->job.request;
    const uint32_t n_embd = j->entry->info.n_embd;
    if (r->dimensions > (int64_t)n_embd)
        return serve_refuse(e, 400, "integer_above_max_value", "dimensions",
                            "\"dimensions\" is %lld; the model has %u", (long long)r->dimensions,
                            (unsigned)n_embd);
    j->job.embeddings = calloc((size_t)j->job.n_prompts * n_embd, sizeof *j->job.embeddings);
    return j->job.embeddings || serve_refuse(e, 503, NULL, NULL, "out of memory for the request");
}

/* The first n numbers of an input's embedding, normalised to length 1. */
static uint32_t embedding_cut(const front_job *j, unsigned i, float *x)
{
    const uint32_t all = j->entry->info.n_embd;
    const uint32_t n = j->job.request.dimensions ? (uint32_t)j->job.request.dimensions : all;
    double sum = 0;
    memcpy(x, j->job.embeddings + (size_t)i * all, n * sizeof *x);
    if (n == all) return n;
    for (uint32_t k = 0; k < n; k++) sum += (double)x[k] * x[k];
    for (uint32_t k = 0; k < n && sum > 0; k++) x[k] = (float)(x[k] / sqrt(sum));
    return n;
}

static void write_numbers(const float *x, uint32_t n, serve_text *out)
{
    text_str(out, "[");
    for (uint32_t i = 0; i < n; i++) text_format(out, i ? ",%.9g" : "%.9g", (double)x[i]);
    text_str(out, "]");
}

/* Byte i of the numbers, the lowest of each first. */
static unsigned number_byte(const float *x, size_t i)
{
    uint32_t bits;
    memcpy(&bits, &x[i / 4], sizeof bits);
    return bits >> 8 * (i % 4) & 0xff;
}

static void write_base64(const float *x, uint32_t n, serve_text *out)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const size_t bytes = (size_t)n * 4;
    text_str(out, "\"");
    for (size_t i = 0; i < bytes; i += 3) {
        char four[4] = { '=', '=', '=', '=' };
        const size_t have = bytes - i < 3 ? bytes - i : 3;
        unsigned word = 0;
        for (size_t k = 0; k < 3; k++) word = word << 8 | (k < have ? number_byte(x, i + k) : 0);
        for (size_t k = 0; k <= have; k++) four[k] = letters[word >> (18 - 6 * k) & 63];
        text_add(out, four, 4);
    }
    text_str(out, "\"");
}

static void write_tail(const front_job *j, serve_text *out)
{
    const unsigned n = j->choices[0].n_prompt;
    text_str(out, "],\"model\":");
    text_json_str(out, j->model);
    text_format(out, ",\"usage\":{\"prompt_tokens\":%u,\"total_tokens\":%u}}", n, n);
}

static void write_embeddings(const front_job *j, float *x, serve_text *out)
{
    text_str(out, "{\"object\":\"list\",\"data\":[");
    for (unsigned i = 0; i < j->job.n_prompts; i++) {
        const uint32_t n = embedding_cut(j, i, x);
        text_format(out, "%s{\"object\":\"embedding\",\"index\":%u,\"embedding\":", i ? "," : "", i);
        if (j->job.request.base64) write_base64(x, n, out);
        else write_numbers(x, n, out);
        text_str(out, "}");
    }
    write_tail(j, out);
}

void format_vector(const front_job *j, unsigned i, serve_text *out)
{
    float *x = calloc(j->entry->info.n_embd, sizeof *x);
    out->failed |= !x;
    if (x) write_numbers(x, embedding_cut(j, i, x), out);
    free(x);
}

/* ---- documents in order ---- */

typedef struct ranked { unsigned index; double score; } ranked;

static int ranked_before(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    return x->index < y->index ? -1 : 1;
}

/* The classifier's score of a pair; else the cosine of the query, which is input 0, and a document:
 * embeddings have length 1. */
double format_score(const front_job *j, unsigned document)
{
    const size_t n = j->entry->info.n_embd, queries = j->job.request.n_queries;
    if (j->job.ranks) return j->job.embeddings[document * n];
    const float *x = j->job.embeddings + (queries > 1 ? document : 0) * n;
    const float *y = j->job.embeddings + (queries + document) * n;
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += (double)x[i] * y[i];
    return sum;
}

static void write_ranked(const front_job *j, ranked *list, unsigned n, serve_text *out)
{
    const serve_request *r = &j->job.request;
    for (unsigned i = 0; i < n; i++) list[i] = (ranked){ i, format_score(j, i) };
    qsort(list, n, sizeof *list, ranked_before);
    if (r->top_n && r->top_n < (int64_t)n) n = (unsigned)r->top_n;
    text_format(out, "{\"id\":\"%s\",\"object\":\"list\",\"results\":[", j->id);
    for (unsigned i = 0; i < n; i++) {
        const serve_prompt *p = &r->prompts[r->n_queries + list[i].index];
        text_format(out, "%s{\"index\":%u,\"relevance_score\":%.9g", i ? "," : "", list[i].index,
                    list[i].score);
        if (r->documents) {
            text_str(out, ",\"document\":{\"text\":");
            text_json(out, p->text, p->len);
            text_str(out, "}");
        }
        text_str(out, "}");
    }
    write_tail(j, out);
}

void format_embeddings(const front_job *j, serve_text *out)
{
    const unsigned n = j->job.n_prompts;
    const bool rank = j->job.request.api == API_RERANK;
    void *room = calloc(rank ? n : j->entry->info.n_embd, rank ? sizeof(ranked) : sizeof(float));
    if (!room) out->failed = true;
    else if (rank) write_ranked(j, room, n - (j->job.ranks ? 0 : (unsigned)j->job.request.n_queries), out);
    else write_embeddings(j, room, out);
    free(room);
}
