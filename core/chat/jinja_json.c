/* Converts JSON nodes to template values, list after list: the contents of a list are appended
 * after everything before them, so that its items are contiguous.
 * SPDX-License-Identifier: MIT */
#include "chat/jinja_json.h"

/* Until it is converted, a value holds the index of its node. */
static qsf_jinja_value json_later(const qsf_json_node *nodes, const qsf_json_node *v)
{
    return qsf_jinja_int(v - nodes);
}

static uint32_t json_hash(const qsf_json_node *key)
{
    uint32_t h = 2166136261u;
    for (uint32_t i = 0; i < key->n; i++) h = (h ^ (uint8_t)key->text[i]) * 16777619u;
    return h ^ h >> 15;
}

/* Writes keys and values of an object in turn; returns the number of different keys.  Meanwhile, a
 * value's member n is the head of a list of keys with one hash, and a key's n is the next key in
 * its list; both count from 1. */
static uint32_t json_pairs(const qsf_json_node *nodes, const qsf_json_node *v, qsf_jinja_value *pairs)
{
    const qsf_json_node *key = qsf_json_first(v);
    uint32_t used = 0;
    for (uint32_t i = 0; i < v->n; i++) pairs[2 * i + 1].n = 0;
    for (uint32_t i = 0; i < v->n; i++, key = qsf_json_next(key + 1)) {
        qsf_jinja_value *head = &pairs[2 * (json_hash(key) % v->n) + 1];
        const qsf_json_node *other;
        uint32_t at = head->n;
        for (; at; at = pairs[2 * (at - 1)].n) {
            other = &nodes[pairs[2 * (at - 1)].as.i];
            if (other->n == key->n && !memcmp(other->text, key->text, key->n)) break;
        }
        if (!at) {
            at = ++used;
            pairs[2 * (at - 1)] = json_later(nodes, key);
            pairs[2 * (at - 1)].n = head->n;
            head->n = at;
        }
        const uint32_t list = pairs[2 * at - 1].n;
        pairs[2 * at - 1] = json_later(nodes, key + 1);
        pairs[2 * at - 1].n = list;
    }
    return used;
}

static qsf_jinja_value value_number(const qsf_json_node *v)
{
    qsf_jinja_value out = { .type = QSF_JINJA_FLOAT, .flags = QSF_JINJA_FOREIGN };
    if (qsf_json_whole(v, &out.as.i)) out.type = QSF_JINJA_INT;
    else if (memchr(v->text, '.', v->n) || memchr(v->text, 'e', v->n) || memchr(v->text, 'E', v->n))
        out.as.f = qsf_json_number(v);
    else out.type = QSF_JINJA_BIG, out.n = v->n, out.as.text = v->text;
    return out;
}

void qsf_jinja_from_json(const qsf_json_node *node, qsf_jinja_value *values)
{
    uint32_t used = 1;
    values[0] = json_later(node, node);
    for (uint32_t i = 0; i < used; i++) {
        const qsf_json_node *v = &node[values[i].as.i], *item = qsf_json_first(v);
        qsf_jinja_value *inside = &values[used];
        switch (v->type) {
        case QSF_JSON_NULL: values[i] = (qsf_jinja_value){ .type = QSF_JINJA_NONE }; break;
        case QSF_JSON_FALSE: case QSF_JSON_TRUE: values[i] = qsf_jinja_bool(v->type == QSF_JSON_TRUE); break;
        case QSF_JSON_NUMBER: values[i] = value_number(v); break;
        case QSF_JSON_TEXT: values[i] = qsf_jinja_text_n(v->text, v->n); break;
        case QSF_JSON_LIST:
            values[i] = qsf_jinja_list(inside, v->n);
            for (used += v->n; inside < &values[used]; inside++, item = qsf_json_next(item))
                *inside = json_later(node, item);
            break;
        default: {
            const uint32_t n = json_pairs(node, v, inside);
            values[i] = qsf_jinja_dict(inside, n);
            used += 2 * n;
        }
        }
    }
}

const qsf_jinja_value *qsf_jinja_member(const qsf_jinja_value *dict, const char *key)
{
    const size_t n = strlen(key);
    for (uint32_t i = 0; dict && dict->type == QSF_JINJA_DICT && i < dict->n; i++) {
        const qsf_jinja_value *k = &dict->as.items[2 * i];
        if (k->type == QSF_JINJA_TEXT && k->n == n && !memcmp(k->as.text, key, n)) return k + 1;
    }
    return NULL;
}
