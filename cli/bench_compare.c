/* Reads the rows of an earlier `qsf-bench --json`, so that --compare works without a JSON library.
 * SPDX-License-Identifier: MIT */
#include "benchmark.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* A row is an object of strings and numbers, so the reader keeps no stack: what it has seen since
 * the last '{' is the row. */
typedef struct bench_scan { const char *p; bench_row row; bool has_test, has_median, ours; } bench_scan;

/* Copies the string after the quote at s->p to out, cut at cap; false if it does not end. */
static bool scan_string(bench_scan *s, char *out, size_t cap)
{
    size_t len = 0;
    for (s->p++; *s->p != '"'; s->p++) {
        char c = *s->p;
        if (!c) return false;
        if (c == '\\') {
            c = *++s->p;
            if (!c) return false;
            if (c == 'u') {
                char digits[5] = "";
                for (int i = 0; i < 4 && isxdigit((unsigned char)s->p[1]); i++) digits[i] = *++s->p;
                c = (char)strtol(digits, NULL, 16);      /* we only write control characters like this */
            } else if (c == 'n') c = '\n';
            else if (c == 't') c = '\t';
        }
        if (len + 1 < cap) out[len++] = c;
    }
    out[len] = 0;
    s->p++;
    return true;
}

static bool scan_value(bench_scan *s, const char *key)
{
    const struct { const char *key; char *text; size_t cap; } texts[] = {
        { "model", s->row.model, sizeof s->row.model }, { "test", s->row.test, sizeof s->row.test },
        { "isa", s->row.isa, sizeof s->row.isa }, { "unit", s->row.unit, sizeof s->row.unit },
    };
    char skipped[16];
    if (*s->p == '"') {
        for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
            if (strcmp(key, texts[i].key)) continue;
            s->has_test |= !strcmp(key, "test");
            return scan_string(s, texts[i].text, texts[i].cap);
        }
        s->ours |= !strcmp(key, "qsf-bench");
        return scan_string(s, skipped, sizeof skipped);
    }
    if (*s->p == '-' || isdigit((unsigned char)*s->p)) {
        char *end;
        const double v = strtod(s->p, &end);
        s->p = end;
        if (!strcmp(key, "median")) s->row.median = v, s->has_median = true;
        if (!strcmp(key, "threads") && v >= 0 && v <= 65536) s->row.threads = (uint32_t)v;
    }
    return true;
}

/* The next row; false at the end, or if the text is not our JSON. */
static bool scan_row(bench_scan *s)
{
    char key[24];
    while (*s->p) {
        if (*s->p == '{') {
            s->row = (bench_row){ .share = -1 };
            s->has_test = s->has_median = false;
            s->p++;
        } else if (*s->p == '}') {
            s->p++;
            const bool whole = s->has_test && s->has_median;
            s->has_test = false;
            if (whole) return true;
        } else if (*s->p == '"') {
            if (!scan_string(s, key, sizeof key)) return false;
            while (isspace((unsigned char)*s->p)) s->p++;
            if (*s->p != ':') continue;
            s->p++;
            while (isspace((unsigned char)*s->p)) s->p++;
            if (!scan_value(s, key)) return false;
        } else {
            s->p++;
        }
    }
    return false;
}

int bench_read_rows(const char *path, bench_row **rows, size_t *n)
{
    size_t len, cap = 64;
    char *text = read_whole(path, &len);
    *n = 0;
    *rows = NULL;
    if (!text) return EXIT_IO;
    bench_scan s = { .p = text };
    bench_row *list = malloc(cap * sizeof *list);
    while (list && scan_row(&s)) {
        if (*n == cap) {
            bench_row *more = realloc(list, (cap *= 2) * sizeof *list);
            if (!more) free(list);
            list = more;
            if (!list) break;
        }
        list[(*n)++] = s.row;
    }
    free(text);
    *rows = list;
    if (!list) {
        fputs("out of memory\n", stderr);
        return EXIT_NO_MEMORY;
    }
    if (s.ours) return EXIT_OK;
    fprintf(stderr, "%s is not output of qsf-bench --json\n", path);
    free(list);
    *rows = NULL;
    return EXIT_IO;
}
