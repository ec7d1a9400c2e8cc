/* A grammar from a list: one of several texts.
 * SPDX-License-Identifier: MIT */
#include "grammar/choices.h"
#include "text/json.h"

#define CHOICES_HINT "write a list as [\"yes\", \"no\"], or one string per line"

qsf_gnode qsf_choices_nodes(qsf_grammar_builder *b, const char *text, size_t len)
{
    const qsf_platform *p = qsf_grammar_platform(b);
    qsf_json list = { 0 };
    qsf_error err;
    qsf_gnode *ids, id = 0;
    size_t n = 0, room = 1;
    qsf_status st = QSF_OK;
    const bool json = len && text[0] == '[';
    if (json && (st = qsf_json_read(p, text, len, "choices", &list, &err)) != 0)
        return qsf_g_fail(b, st, st == QSF_E_CORRUPT ? "%s; " CHOICES_HINT : "%s", err.text);
    for (size_t i = 0; i < len; i++) room += text[i] == '\n';
    if (json) room = list.nodes[0].n;
    if (!(ids = qsf_alloc_array(p, room, sizeof *ids, "a grammar", &err))) {
        st = QSF_E_MEMORY;
    } else if (json) {
        const qsf_json_node *v = qsf_json_first(list.nodes);
        for (uint32_t i = 0; i < list.nodes[0].n; i++, v = qsf_json_next(v)) {
            if (v->type != QSF_JSON_TEXT) st = QSF_E_CORRUPT;
            else if (v->n) ids[n++] = qsf_g_bytes(b, v->text, v->n);
        }
    } else {
        for (size_t at = 0, end; at < len; at = end + 1) {
            for (end = at; end < len && text[end] != '\n'; end++) {}
            const size_t used = end - at - (end > at && text[end - 1] == '\r');
            if (used) ids[n++] = qsf_g_bytes(b, text + at, used);
        }
    }
    if (st == QSF_E_MEMORY) qsf_g_fail(b, st, "%s", err.text);
    else if (st) qsf_g_fail(b, st, "choices: the list has an item that is not a string; " CHOICES_HINT);
    else if (n == 0) qsf_g_fail(b, QSF_E_ARGUMENT, "choices: none were given; " CHOICES_HINT);
    else id = qsf_g_choice(b, ids, n);
    if (ids) qsf_dealloc(p, ids, room * sizeof *ids);
    qsf_json_drop(&list);
    return id;
}
