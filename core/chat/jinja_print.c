/* Jinja: values as text: as str() and repr() of Python write them, and as JSON.
 * SPDX-License-Identifier: MIT */
#include "text/decimal.h"
#include "chat/jinja_own.h"

/* ---- whose the bytes are ---- */

/* The 8 marks from `at` on. */
static uint8_t marks_at(const uint8_t *marks, size_t at, size_t n)
{
    const uint8_t low = (uint8_t)(marks[at / 8] >> at % 8);
    return at % 8 + n > 8 ? (uint8_t)(low | marks[at / 8 + 1] << (8 - at % 8)) : low;
}

void qsf_jinja_mark_copy(uint8_t *to, size_t at, const uint8_t *from, size_t from_at, size_t n)
{
    for (size_t k; n; at += k, from_at += k, n -= k) {
        k = QSF_MIN(8 - at % 8, n);
        const uint8_t mask = (uint8_t)(((1u << k) - 1) << at % 8);
        const uint8_t bits = (uint8_t)(marks_at(from, from_at, k) << at % 8);
        to[at / 8] = (uint8_t)((to[at / 8] & ~mask) | (bits & mask));
    }
}

void qsf_jinja_mark(uint8_t *marks, size_t at, size_t n, bool own)
{
    for (size_t k; n; at += k, n -= k) {
        k = QSF_MIN(8 - at % 8, n);
        const uint8_t mask = (uint8_t)(((1u << k) - 1) << at % 8);
        if (own) marks[at / 8] |= mask;
        else marks[at / 8] &= (uint8_t)~mask;
    }
}

size_t qsf_jinja_stretch(const uint8_t *own, size_t at, size_t len)
{
    const bool kind = at < len && qsf_jinja_is_own(own, at);
    size_t n = 0;
    while (at + n < len && qsf_jinja_is_own(own, at + n) == kind) n++;
    return n;
}

/* Whether the text has marks of its own, and from where on; others are marked as a whole. */
static bool text_marks(const jinja_run *r, const jinja_value *v, size_t *at)
{
    *at = (size_t)((uintptr_t)v->as.text - (uintptr_t)r->mem->base);
    return *at < r->mem->size;
}

bool qsf_jinja_foreign(const jinja_run *r, const jinja_value *v)
{
    size_t at;
    if (v->type != QSF_JINJA_TEXT) return v->flags & QSF_JINJA_FOREIGN;
    if (!text_marks(r, v, &at)) return !(v->flags & QSF_JINJA_OWN);
    for (size_t i = at; i < at + v->n; i++)
        if (!qsf_jinja_is_own(jinja_marks(r->mem), i)) return true;
    return false;
}

/* ---- sinks ---- */

static bool put_bytes(jinja_run *r, jinja_sink *s, const char *text, size_t n)
{
    if (n > s->cap - s->len) return qsf_jinja_fail(r, QSF_E_MEMORY, "out of memory for a string this long");
    if (n) memcpy(s->text + s->len, text, n);
    s->len += n;
    return n < 64 || qsf_jinja_charge(r, n);
}
static bool print_whole(jinja_run *r, jinja_sink *s, const char *text, size_t n, bool own)
{
    if (!put_bytes(r, s, text, n)) return false;
    if (s->marks) qsf_jinja_mark(s->marks, s->bit + s->len - n, n, own);
    return true;
}
bool qsf_jinja_put(jinja_run *r, jinja_sink *s, const char *text, size_t n)
{
    return print_whole(r, s, text, n, true);
}
bool qsf_jinja_put_part(jinja_run *r, jinja_sink *s, const jinja_value *v, size_t at, size_t n)
{
    size_t from;
    if (!text_marks(r, v, &from))
        return print_whole(r, s, v->as.text + at, n, (v->flags & QSF_JINJA_OWN) != 0);
    if (!put_bytes(r, s, v->as.text + at, n)) return false;
    if (s->marks) qsf_jinja_mark_copy(s->marks, s->bit + s->len - n, jinja_marks(r->mem), from + at, n);
    return true;
}
bool qsf_jinja_put_text(jinja_run *r, jinja_sink *s, const jinja_value *v)
{
    return qsf_jinja_put_part(r, s, v, 0, v->n);
}
bool qsf_jinja_put_for(jinja_run *r, jinja_sink *s, const jinja_value *v, size_t at, const char *text,
                       size_t n)
{
    size_t from;
    const bool marked = text_marks(r, v, &from);
    return print_whole(r, s, text, n, marked ? qsf_jinja_is_own(jinja_marks(r->mem), from + at)
                                           : (v->flags & QSF_JINJA_OWN) != 0);
}
bool qsf_jinja_put_number(jinja_run *r, jinja_sink *s, const jinja_value *v, const char *text, size_t n)
{
    return print_whole(r, s, text, n, !qsf_jinja_foreign(r, v));
}
static bool put_word(jinja_run *r, jinja_sink *s, const char *text)
{
    return qsf_jinja_put(r, s, text, strlen(text));
}

jinja_sink qsf_jinja_begin_text(jinja_run *r)
{
    r->mem->used = QSF_MIN((r->mem->used + 15) & ~(size_t)15, r->mem->size);
    return (jinja_sink){ r->mem->base + r->mem->used, 0, QSF_MIN(r->mem->size - r->mem->used, UINT32_MAX),
                         jinja_marks(r->mem), r->mem->used };
}
jinja_value qsf_jinja_end_text(jinja_run *r, const jinja_sink *s)
{
    r->mem->used += s->len;
    return qsf_jinja_text_n(s->text, s->len);
}
bool qsf_jinja_finish(jinja_run *r, const jinja_sink *s, jinja_value *out)
{
    *out = qsf_jinja_end_text(r, s);
    return true;
}
bool qsf_jinja_finish_as(jinja_run *r, const jinja_sink *s, const jinja_value *v, jinja_value *out)
{
    const uint8_t safe = v->flags & QSF_JINJA_SAFE;
    *out = qsf_jinja_end_text(r, s);
    out->flags |= safe;
    return true;
}

/* ---- texts with escapes ---- */

static bool put_json_text(jinja_run *r, jinja_sink *s, const jinja_value *v, bool ascii)
{
    static const char plain[] = "\nn\tt\rr\\\\\"\"\bb\ff";
    size_t from = 0, used;
    if (!put_word(r, s, "\"")) return false;
    for (size_t i = 0; i < v->n; i += used) {
        const uint8_t c = (uint8_t)v->as.text[i];
        char text[16] = { '\\', 0 };
        used = 1;
        if (c >= 32 && c != '"' && c != '\\' && !(ascii && c >= 127)) continue;
        for (size_t k = 0; k + 1 < sizeof plain; k += 2) if ((uint8_t)plain[k] == c) text[1] = plain[k + 1];
        uint32_t code = c >= 0x80 ? qsf_utf8_decode(v->as.text + i, v->n - i, &used) : c;
        if (c == 127) continue;
        if (code >= 0x10000) {
            code -= 0x10000;
            qsf_format(text, sizeof text, "\\u%04x\\u%04x", 0xd800 + (unsigned)(code >> 10),
                       0xdc00 + (unsigned)(code & 0x3ff));
        } else if (!text[1]) qsf_format(text, sizeof text, "\\u%04x", (unsigned)code);
        if (!qsf_jinja_put_part(r, s, v, from, i - from)
            || !qsf_jinja_put_for(r, s, v, i, text, strlen(text)))
            return false;
        from = i + used;
    }
    return qsf_jinja_charge_each(r, v->n) && qsf_jinja_put_part(r, s, v, from, v->n - from)
        && put_word(r, s, "\"");
}

bool qsf_jinja_printable(uint32_t c)
{
    const qsf_class k = qsf_class_of(c);
    return c == ' ' || (c > 32 && c != 127 && c != 0xad && k != QSF_C_OTHER && k != QSF_C_SEPARATOR);
}

static bool put_repr_text(jinja_run *r, jinja_sink *s, const jinja_value *v)
{
    static const char plain[] = "\nn\tt\rr\\\\";
    const bool single = !v->n || !memchr(v->as.text, '\'', v->n) || memchr(v->as.text, '"', v->n);
    const char *quote = single ? "'" : "\"";
    size_t from = 0, used;
    if (v->flags & QSF_JINJA_SAFE && !put_word(r, s, "Markup(")) return false;
    if (!put_word(r, s, quote)) return false;
    for (size_t i = 0; i < v->n; i += used) {
        const uint32_t c = qsf_utf8_decode(v->as.text + i, v->n - i, &used);
        char text[16] = { '\\', 0 };
        if (c != (uint32_t)*quote && c != '\\' && qsf_jinja_printable(c)) continue;
        for (size_t k = 0; k + 1 < sizeof plain; k += 2) if ((uint32_t)plain[k] == c) text[1] = plain[k + 1];
        if (c == (uint32_t)*quote) text[1] = *quote;
        if (!text[1]) qsf_format(text, sizeof text, c < 256 ? "\\x%02x" : c < 65536 ? "\\u%04x" : "\\U%08x",
                                 (unsigned)c);
        if (!qsf_jinja_put_part(r, s, v, from, i - from)
            || !qsf_jinja_put_for(r, s, v, i, text, strlen(text)))
            return false;
        from = i + used;
    }
    return qsf_jinja_charge_each(r, v->n) && qsf_jinja_put_part(r, s, v, from, v->n - from)
        && put_word(r, s, quote)
           && (!(v->flags & QSF_JINJA_SAFE) || put_word(r, s, ")"));
}

/* ---- str() and repr() ---- */

static bool put_plain(jinja_run *r, jinja_sink *s, const jinja_value *v, bool json)
{
    char text[32];
    switch (v->type) {
    case QSF_JINJA_NONE: return put_word(r, s, json ? "null" : "None");
    case QSF_JINJA_BOOL:
        return put_word(r, s, json ? v->as.i ? "true" : "false" : v->as.i ? "True" : "False");
    case QSF_JINJA_INT:
        return qsf_jinja_put_number(r, s, v, text, qsf_format(text, sizeof text, "%lld", (long long)v->as.i));
    case QSF_JINJA_FLOAT:
        if (json && fabs(v->as.f) > DBL_MAX) return put_word(r, s, v->as.f > 0 ? "Infinity" : "-Infinity");
        if (json && v->as.f != v->as.f) return put_word(r, s, "NaN");
        return qsf_jinja_charge_float(r)
            && qsf_jinja_put_number(r, s, v, text, qsf_decimal_repr(v->as.f, text));
    case QSF_JINJA_BIG: return qsf_jinja_put_number(r, s, v, v->as.text, v->n);
    case QSF_JINJA_UNDEFINED: return json ? qsf_jinja_undefined(r, v) : put_word(r, s, "Undefined");
    default:
        return json ? qsf_jinja_fail(r, QSF_E_ARGUMENT, "%s cannot be written as JSON",
                                     qsf_jinja_type_name(v))
                    : qsf_jinja_fail(r, QSF_E_UNSUPPORTED, "a value of type %s cannot be written as text",
                                     qsf_jinja_type_name(v));
    }
}

/* Things of the interpreter, as Python shows them. */
static bool put_thing(jinja_run *r, jinja_sink *s, const jinja_value *v)
{
    char text[64];
    if (v->type == QSF_JINJA_RANGE) {
        const jinja_value *n = v->as.items - 3;
        const bool steps = n[2].as.i != 1;
        return qsf_jinja_put(r, s, text,
                             qsf_format(text, sizeof text, steps ? "range(%lld, %lld, %lld)"
                                        : "range(%lld, %lld)",
                                                (long long)n[0].as.i, (long long)n[1].as.i,
                                                    (long long)n[2].as.i));
    }
    if (v->type == QSF_JINJA_LOOP) {
        const jinja_loop *l = v->as.own;
        return qsf_jinja_put(r, s, text, qsf_format(text, sizeof text, "<LoopContext %u/%u>", (unsigned)l->at,
                                                    (unsigned)l->items.n));
    }
    if (v->type == QSF_JINJA_SPACE) {
        const jinja_space *o = v->as.own;
        const jinja_value dict = qsf_jinja_dict(o->pairs, o->n);
        return put_word(r, s, "<Namespace ") && qsf_jinja_repr(r, s, &dict) && put_word(r, s, ">");
    }
    const jinja_closure *c = v->as.own;
    const jinja_symbol *y = c->macro->name == JINJA_NO_SYMBOL ? NULL : &r->t->symbols[c->macro->name];
    return put_word(r, s, y ? "<Macro '" : "<Macro anonymous") && (!y || qsf_jinja_put(r, s, y->text, y->n))
           && put_word(r, s, y ? "'>" : ">");
}

bool qsf_jinja_repr(jinja_run *r, jinja_sink *s, const jinja_value *v)
{
    const bool dict = v->type == QSF_JINJA_DICT, view = v->type == QSF_JINJA_VIEW;
    if (v->type == QSF_JINJA_TEXT) return put_repr_text(r, s, v);
    if (v->type == QSF_JINJA_RANGE || v->type == QSF_JINJA_LOOP || v->type == QSF_JINJA_SPACE
        || v->type == QSF_JINJA_MACRO) {
        if (!qsf_jinja_deeper(r) || !put_thing(r, s, v)) return false;
        r->depth--;
        return true;
    }
    if (!qsf_jinja_is_list(v) && !dict && !view) return put_plain(r, s, v, false);
    const char *name = v->id == JM_KEYS ? "dict_keys(" : v->id == JM_VALUES ? "dict_values(" : "dict_items(";
    if (view && !put_word(r, s, name)) return false;
    if (!qsf_jinja_deeper(r)
        || !put_word(r, s, dict ? "{" : v->type == QSF_JINJA_TUPLE ? "(" : "[")) return false;
    for (uint32_t i = 0; i < v->n; i++) {
        if (i && !put_word(r, s, ", ")) return false;
        if (dict && (!qsf_jinja_repr(r, s, &v->as.items[2 * i]) || !put_word(r, s, ": "))) return false;
        if (!qsf_jinja_charge(r, 0) || !qsf_jinja_repr(r, s, &v->as.items[dict ? 2 * i + 1 : i]))
            return false;
    }
    r->depth--;
    if (v->type == QSF_JINJA_TUPLE && v->n == 1 && !put_word(r, s, ",")) return false;
    return put_word(r, s, dict ? "}" : view ? "])" : v->type == QSF_JINJA_LIST ? "]" : ")");
}

bool qsf_jinja_print(jinja_run *r, jinja_sink *s, const jinja_value *v)
{
    if (v->type == QSF_JINJA_TEXT) return qsf_jinja_put_text(r, s, v);
    return v->type == QSF_JINJA_UNDEFINED || qsf_jinja_repr(r, s, v);
}

bool qsf_jinja_to_text(jinja_run *r, const jinja_value *v, jinja_value *out)
{
    *out = *v;
    if (v->type == QSF_JINJA_TEXT) return true;
    jinja_sink s = qsf_jinja_begin_text(r);
    if (!qsf_jinja_print(r, &s, v)) return false;
    return qsf_jinja_finish(r, &s, out);
}

/* ---- JSON ---- */

static bool put_line(jinja_run *r, jinja_sink *s, const jinja_json_form *f, int level)
{
    if (f->indent.type == QSF_JINJA_NONE) return true;
    if (!put_word(r, s, "\n")) return false;
    for (int i = 0; i < level; i++) if (!qsf_jinja_put_text(r, s, &f->indent)
                                        || !qsf_jinja_charge(r, 0)) return false;
    return true;
}

static bool put_json_key(jinja_run *r, jinja_sink *s, const jinja_value *key, const jinja_json_form *f)
{
    if (key->type == QSF_JINJA_TEXT) return put_json_text(r, s, key, f->ascii);
    if (key->type > QSF_JINJA_TEXT || key->type == QSF_JINJA_UNDEFINED)
        return qsf_jinja_fail(r, QSF_E_ARGUMENT, "%s cannot be a key in JSON", qsf_jinja_type_name(key));
    return put_word(r, s, "\"") && put_plain(r, s, key, true) && put_word(r, s, "\"");
}

bool qsf_jinja_json(jinja_run *r, jinja_sink *s, const jinja_value *v, const jinja_json_form *f, int level)
{
    const bool dict = v->type == QSF_JINJA_DICT;
    const jinja_value *items = v->as.items;
    uint32_t last = v->n;
    if (v->type == QSF_JINJA_TEXT) return put_json_text(r, s, v, f->ascii);
    if (!qsf_jinja_is_list(v) && !dict) return put_plain(r, s, v, true);
    if (!qsf_jinja_deeper(r) || !put_word(r, s, dict ? "{" : "[")) return false;
    for (uint32_t i = 0; i < v->n; i++) {
        const jinja_value *key = NULL;
        uint32_t at = i;
        if (i && !qsf_jinja_put_text(r, s, &f->comma)) return false;
        if (!put_line(r, s, f, level + 1) || !qsf_jinja_charge(r, 0)) return false;
        if (dict && f->sorted) {                /* the next larger one */
            at = v->n;
            for (uint32_t k = 0; k < v->n; k++) {
                bool later = last == v->n, less = true;
                if (!later && !qsf_jinja_less(r, &items[2 * last], &items[2 * k], &later)) return false;
                if (later && at < v->n && !qsf_jinja_less(r, &items[2 * k], &items[2 * at], &less))
                    return false;
                if (later && less) at = k;
            }
            last = at;
        }
        if (dict) key = &items[2 * at];
        if (dict && (!put_json_key(r, s, key, f) || !qsf_jinja_put_text(r, s, &f->colon))) return false;
        if (!qsf_jinja_json(r, s, dict ? key + 1 : &items[i], f, level + 1)) return false;
    }
    r->depth--;
    return (!v->n || put_line(r, s, f, level)) && put_word(r, s, dict ? "}" : "]");
}
