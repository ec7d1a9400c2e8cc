/* --embedding and --rerank: texts in, rows of numbers out.
 * SPDX-License-Identifier: MIT */
#include "run.h"

#include <stdlib.h>
#include <string.h>

/* The tokens of many texts, one after the other. */
typedef struct embed_texts {
    int32_t *ids;
    size_t  *lens;
    size_t   n, n_ids;
} embed_texts;

static void texts_free(embed_texts *t)
{
    free(t->ids);
    free(t->lens);
}

/* Appends the ids of one input, and frees them. */
static bool texts_add(embed_texts *t, int32_t *ids, size_t n)
{
    int32_t *all = realloc(t->ids, (t->n_ids + n + 1) * sizeof *all);
    if (all) t->ids = all;
    size_t *lens = realloc(t->lens, (t->n + 1) * sizeof *lens);
    if (lens) t->lens = lens;
    if (all && lens) {
        memcpy(all + t->n_ids, ids, n * sizeof *ids);
        t->n_ids += n;
        lens[t->n++] = n;
    }
    free(ids);
    return all && lens;
}

static int texts_failed(run_session *s)
{
    fputs("out of memory for the texts\n", stderr);
    (void)s;
    return EXIT_NO_MEMORY;
}

/* The line at *at, which moves past it; a line end of Windows is not part of it. */
static size_t line_at(const char *text, size_t len, size_t *at, const char **line)
{
    const char *end = memchr(text + *at, '\n', len - *at);
    size_t n = end ? (size_t)(end - (text + *at)) : len - *at;
    *line = text + *at;
    *at += n + 1;
    if (n && (*line)[n - 1] == '\r') n--;
    return n;
}

/* Each line that is not empty is an input; with --ids, each list that ends with a semicolon. */
static int texts_of(run_session *s, const char *text, size_t len, embed_texts *t)
{
    const char *const given = s->set->ids;
    for (size_t at = 0; given && at <= strlen(given);) {
        const size_t n = strcspn(given + at, ";");
        size_t n_ids;
        int32_t *ids = session_ids(s, given + at, n, "--ids", &n_ids);
        if (!ids) return report(&s->error);
        if (!texts_add(t, ids, n_ids)) return texts_failed(s);
        at += n + 1;
    }
    for (size_t at = 0; !given && at < len;) {
        const char *line;
        const size_t n = line_at(text, len, &at, &line);
        size_t n_ids;
        if (!n) continue;
        int32_t *ids = session_encode(s, line, n, QSF_TOK_ADD_SPECIAL | QSF_TOK_PARSE_SPECIAL, &n_ids);
        if (!ids) return report(&s->error);
        if (!texts_add(t, ids, n_ids)) return texts_failed(s);
    }
    if (t->n) return EXIT_OK;
    fputs("no text to embed: give -p TEXT or -f FILE\n", stderr);
    return EXIT_USAGE;
}

static qsf_pooling pooling_named(const char *name)
{
    static const char *const names[] = { "", "mean", "cls", "last", "rank", "none" };
    for (int i = 1; name && i < 6; i++)
        if (!strcmp(name, names[i])) return (qsf_pooling)i;
    return QSF_POOL_NONE;
}

static void print_rows(const run_session *s, const embed_texts *t, qsf_pooling how, uint32_t width,
                       const float *x)
{
    const bool json = s->set->json;
    if (json) fputs("{\"object\":\"list\",\"data\":[", stdout);
    for (size_t i = 0, row = 0; i < t->n; i++)
        for (size_t k = 0; k < (how == QSF_POOL_TOKENS ? t->lens[i] : 1); k++, row++) {
            if (json) printf("%s{\"object\":\"embedding\",\"index\":%zu,\"embedding\":[", row ? "," : "", i);
            for (uint32_t c = 0; c < width; c++)
                printf("%s%.9g", c ? json ? "," : " " : "", (double)x[row * width + c]);
            fputs(json ? "]}" : "\n", stdout);
        }
    if (json) puts("]}");
}

int run_embedding(run_session *s, const char *prompt, size_t len)
{
    embed_texts t = { 0 };
    qsf_embed_options o;
    float *out = NULL;
    int code = texts_of(s, prompt, len, &t);
    qsf_embed_defaults(&o);
    o.pooling = pooling_named(s->set->pooling);
    o.plain = s->set->embed_plain;
    if (code) goto done;
    const uint32_t width = qsf_embed_width(s->model, o.pooling);
    const size_t rows = o.pooling == QSF_POOL_TOKENS ? t.n_ids : t.n;
    if (!(out = malloc((rows * width + 1) * sizeof *out))) {
        code = texts_failed(s);
    } else if (qsf_embed_texts(s->context, t.ids, t.lens, t.n, &o, out)) {
        fprintf(stderr, "%s\n", qsf_last_error(s->context));
        code = EXIT_FAILED;
    } else {
        print_rows(s, &t, o.pooling, width, out);
    }
done:
    free(out);
    texts_free(&t);
    return code;
}

/* ---- ranks ---- */

typedef struct ranked { const char *line; size_t len, number; float score; } ranked;

static int by_score(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    if (x->score != y->score) return x->score < y->score ? 1 : -1;
    return x->number < y->number ? -1 : x->number > y->number;
}

static int add_pair(run_session *s, embed_texts *t, const char *query, size_t len, const ranked *r)
{
    size_t cap = len + r->len + 1024, n;      /* at least a byte per token, plus the template's */
    int32_t *ids = malloc(cap * sizeof *ids);
    if (!ids) return texts_failed(s);
    qsf_status st = qsf_rerank_encode(s->model, query, len, r->line, r->len, ids, cap, &n, &s->error);
    if (st && n > cap) {
        free(ids);
        if (!(ids = malloc(n * sizeof *ids))) return texts_failed(s);
        cap = n;
        st = qsf_rerank_encode(s->model, query, len, r->line, r->len, ids, cap, &n, &s->error);
    }
    if (st) {
        free(ids);
        return report(&s->error);
    }
    return texts_add(t, ids, n) ? EXIT_OK : texts_failed(s);
}

static void print_ranks(const run_session *s, const ranked *list, size_t n)
{
    if (s->set->json) fputs("{\"results\":[", stdout);
    for (size_t i = 0; i < n; i++) {
        if (s->set->json)
            printf("%s{\"index\":%zu,\"relevance_score\":%.9g}", i ? "," : "", list[i].number,
                   (double)list[i].score);
        else
            printf("%.6f\t%zu\t%.*s\n", (double)list[i].score, list[i].number, (int)list[i].len,
                   list[i].line);
    }
    if (s->set->json) puts("]}");
}

int run_rerank(run_session *s, const char *query, size_t len)
{
    embed_texts t = { 0 };
    size_t text_len, n = 0;
    int code = EXIT_OK;
    char *text = read_whole(s->set->rerank, &text_len);
    if (!text) return EXIT_IO;
    ranked *list = malloc((text_len + 1) * sizeof *list);
    float *scores = malloc((text_len + 1) * sizeof *scores);
    if (!list || !scores) code = texts_failed(s);
    for (size_t at = 0; !code && at < text_len;) {
        list[n] = (ranked){ .number = n };
        list[n].len = line_at(text, text_len, &at, &list[n].line);
        if (list[n].len) code = add_pair(s, &t, query, len, &list[n++]);
    }
    if (!code && n && qsf_rerank(s->context, t.ids, t.lens, n, scores)) {
        fprintf(stderr, "%s\n", qsf_last_error(s->context));
        code = EXIT_FAILED;
    }
    for (size_t i = 0; !code && i < n; i++) list[i].score = scores[i];
    if (!code) {
        qsort(list, n, sizeof *list, by_score);
        print_ranks(s, list, n);
    }
    free(scores);
    free(list);
    free(text);
    texts_free(&t);
    return code;
}
