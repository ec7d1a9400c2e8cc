/* Reads lists of prompts.
 * SPDX-License-Identifier: MIT */
#include "prompts.h"

#include <stdlib.h>
#include <string.h>

#include "engine.h"

static const char *const prompt_texts[] = {
    "The history of the bicycle begins in the early nineteenth century, when",
    ("def binary_search(items, target):\n    \"\"\"Return the index of target in the sorted list items, or "
     "-1.\"\"\"\n    low, high = 0, len(items) - 1\n"),
    "2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37,",
};

qsf_status prompts_add(prompt_list *l, const char *text, size_t len, const int32_t *ids, size_t n,
                       qsf_error *err)
{
    prompt p = { .len = len, .n = n };
    if (l->n == PROMPTS_MOST) return parity_fail(err, QSF_E_ARGUMENT, "more than %d prompts", PROMPTS_MOST);
    if (n > PROMPT_TOKENS)
        return parity_fail(err, QSF_E_ARGUMENT, "a prompt of more than %d tokens", PROMPT_TOKENS);
    if (!l->items) l->items = calloc(PROMPTS_MOST, sizeof *l->items);
    if (text) p.text = malloc(len + 1);
    if (ids) p.ids = malloc((n + !n) * sizeof *ids);
    if (!l->items || (text && !p.text) || (ids && !p.ids)) {
        free(p.text), free(p.ids);
        return parity_fail(err, QSF_E_MEMORY, "out of memory");
    }
    if (text) memcpy(p.text, text, len), p.text[len] = 0;
    if (n && ids) memcpy(p.ids, ids, n * sizeof *ids);
    l->items[l->n++] = p;
    return QSF_OK;
}

qsf_status prompts_standard(prompt_list *l, qsf_error *err)
{
    qsf_status st = QSF_OK;
    for (size_t i = 0; i < sizeof prompt_texts / sizeof prompt_texts[0] && !st; i++)
        st = prompts_add(l, prompt_texts[i], strlen(prompt_texts[i]), NULL, 0, err);
    l->standard = true;
    return st;
}

/* A line without its escapes, in place; its length. */
static size_t prompt_plain(char *line, size_t n)
{
    size_t out = 0;
    for (size_t i = 0; i < n; i++) {
        const char next = line[i] == '\\' && i + 1 < n ? line[i + 1] : 0;
        const char c = next == 'n' ? '\n' : next == 't' ? '\t' : next == 'r' ? '\r' : next == '\\' ? '\\' : 0;
        line[out++] = c ? c : line[i];
        i += c != 0;
    }
    return out;
}

qsf_status prompts_lines(prompt_list *l, const char *text, size_t len, qsf_error *err)
{
    qsf_status st = QSF_OK;
    char *copy = malloc(len + 1);
    if (!copy) return parity_fail(err, QSF_E_MEMORY, "out of memory");
    memcpy(copy, text, len);
    for (size_t at = 0; at < len && !st;) {
        char *end = memchr(copy + at, '\n', len - at);
        size_t n = end ? (size_t)(end - copy) - at : len - at;
        const size_t next = at + n + 1;
        if (n && copy[at + n - 1] == '\r') n--;
        if (n) st = prompts_add(l, copy + at, prompt_plain(copy + at, n), NULL, 0, err);
        at = next;
    }
    free(copy);
    if (!st && !l->n) return parity_fail(err, QSF_E_ARGUMENT, "the file has no prompts");
    return st;
}

qsf_status prompts_ids(prompt_list *l, const char *text, const char *what, qsf_error *err)
{
    const size_t len = strlen(text);
    int32_t *ids = malloc((len / 2 + 1) * sizeof *ids);
    size_t n = 0;
    bool comma = false;
    if (!ids) return parity_fail(err, QSF_E_MEMORY, "out of memory");
    const char *p = text + strspn(text, " \t[");
    while (*p >= '0' && *p <= '9') {
        char *end;
        const unsigned long v = strtoul(p, &end, 10);
        if (v > INT32_MAX) break;
        ids[n++] = (int32_t)v;
        p = end + strspn(end, " \t");
        comma = *p == ',';
        if (comma) p++, p += strspn(p, " \t");
    }
    const char *rest = p + strspn(p, " \t]\n\r");
    const qsf_status st = n && !comma && !*rest ? prompts_add(l, NULL, 0, ids, n, err)
        : parity_fail(err, QSF_E_ARGUMENT, "%s takes token ids separated by commas, not \"%.40s\"", what,
                      *rest ? rest : text);
    free(ids);
    return st;
}

void prompts_free(prompt_list *l)
{
    for (size_t i = 0; i < l->n; i++) free(l->items[i].text), free(l->items[i].ids), free(l->items[i].tokens);
    free(l->items);
    *l = (prompt_list){ 0 };
}

void prompt_sum(const int32_t *ids, size_t n, char out[SHA256_HEX])
{
    sha256 s;
    sha256_begin(&s);
    for (size_t i = 0; i < n; i++) {
        const uint32_t v = (uint32_t)ids[i];
        const uint8_t bytes[4] = { (uint8_t)v, (uint8_t)(v >> 8), (uint8_t)(v >> 16), (uint8_t)(v >> 24) };
        sha256_add(&s, bytes, 4);
    }
    sha256_end_hex(&s, out);
}
