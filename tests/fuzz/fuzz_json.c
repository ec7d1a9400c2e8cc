/* Fuzz target: any bytes as JSON.  What is read has nodes that lie in each other as their counts say,
 * and texts that are UTF-8; what is cut short is refused or is another value.
 * SPDX-License-Identifier: MIT */
#include "text/json.h"
#include "text/unicode.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fuzz_json_text(const qsf_json_node *v)
{
    size_t used;
    if (v->text[v->n]) abort();
    for (size_t i = 0; i < v->n; i += used)
        if (qsf_utf8_decode(v->text + i, v->n - i, &used) == QSF_REPLACEMENT
            && memcmp(v->text + i, "\xef\xbf\xbd", QSF_MIN(v->n - i, 3u))) abort();
}

/* Each list and object ends where its children do. */
static void fuzz_json_nodes(const qsf_json *j)
{
    int64_t whole;
    for (uint32_t i = 0; i < j->n_nodes; i++) {
        const qsf_json_node *v = &j->nodes[i], *end = v + v->skip, *c = qsf_json_first(v);
        if (!v->skip || i + v->skip > j->n_nodes) abort();
        if (v->type == QSF_JSON_TEXT) fuzz_json_text(v);
        if (v->type == QSF_JSON_NUMBER && qsf_json_whole(v, &whole)
            && qsf_json_number(v) != (double)whole && whole > -(1ll << 53) && whole < 1ll << 53) abort();
        if (v->type < QSF_JSON_LIST) {
            if (v->skip != 1) abort();
            continue;
        }
        for (uint32_t k = 0; k < v->n; k++) {
            if (v->type == QSF_JSON_OBJECT) {
                if (c->type != QSF_JSON_TEXT || !qsf_json_member(v, c->text)) {
                    if (c->type != QSF_JSON_TEXT || strlen(c->text) == c->n) abort();
                }
                c++;
            }
            c = qsf_json_next(c);
        }
        if (c != end) abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const qsf_platform *p = qsf_platform_native();
    char *text = malloc(size ? size : 1);
    qsf_json j;
    qsf_error err;
    if (size) memcpy(text, data, size);
    const qsf_status st = qsf_json_read(p, text, size, "it", &j, &err);
    if (!st) {
        if (!j.n_nodes || j.nodes->skip != j.n_nodes) abort();
        if (size < 2000) fuzz_json_nodes(&j);
    } else if (st != QSF_E_CORRUPT || j.nodes || !strstr(err.text, "it: line ")) {
        abort();
    }
    qsf_json_drop(&j);
    free(text);
    return 0;
}
