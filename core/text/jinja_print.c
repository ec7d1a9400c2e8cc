/* Jinja: values as text: as str() and repr() of Python write them, and as JSON.
 * SPDX-License-Identifier: MIT */
#include "text/jinja_own.h"

/* ---- whose the bytes are ---- */

/* The 8 marks from `at` on. */
static uint8_t marks_at(const uint8_t *marks, size_t at, size_t n)
{
    const uint8_t low = (uint8_t)(marks[at / 8] >> at % 8);
    return at % 8 + n > 8 ? (uint8_t)(low | marks[at / 8 + 1] << (8 - at % 8)) : low;
}

void jinja_mark_copy(uint8_t *to, size_t at, const uint8_t *from, size_t from_at, size_t n)
{
    for (size_t k; n; at += k, from_at += k, n -= k) {
        k = QSF_MIN(8 - at % 8, n);
        const uint8_t mask = (uint8_t)(((1u << k) - 1) << at % 8);
        const uint8_t bits = (uint8_t)(marks_at(from, from_at, k) << at % 8);
        to[at / 8] = (uint8_t)((to[at / 8] & ~mask) | (bits & mask));
    }
}

void jinja_mark(uint8_t *marks, size_t at, size_t n, bool own)
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

bool jinja_foreign(const jinja_run *r, const jinja_value *v)
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
    if (n > s->cap - s->len) return jinja_fail(r, QSF_E_MEMORY, "there is no memory for a text this long");
    if (n) memcpy(s->text + s->len, text, n);
    s->len += n;
    return n < 64 || jinja_charge(r, n);
}
static bool put_whole(jinja_run *r, jinja_sink *s, const char *text, size_t n, bool own)
{
    if (!put_bytes(r, s, text, n)) return false;
    if (s->marks) jinja_mark(s->marks, s->bit + s->len - n, n, own);
    return true;
}
bool jinja_put(jinja_run *r, jinja_sink *s, const char *text, size_t n)
{
    return put_whole(r, s, text, n, true);
}
bool jinja_put_part(jinja_run *r, jinja_sink *s, const jinja_value *v, size_t at, size_t n)
{
    size_t from;
    if (!text_marks(r, v, &from))
        return put_whole(r, s, v->as.text + at, n, (v->flags & QSF_JINJA_OWN) != 0);
    if (!put_bytes(r, s, v->as.text + at, n)) return false;
    if (s->marks) jinja_mark_copy(s->marks, s->bit + s->len - n, jinja_marks(r->mem), from + at, n);
    return true;
}
bool jinja_put_text(jinja_run *r, jinja_sink *s, const jinja_value *v)
{
    return jinja_put_part(r, s, v, 0, v->n);
}
bool jinja_put_for(jinja_run *r, jinja_sink *s, const jinja_value *v, size_t at, const char *text, size_t n)
{
    size_t from;
    const bool marked = text_marks(r, v, &from);
    return put_whole(r, s, text, n, marked ? qsf_jinja_is_own(jinja_marks(r->mem), from + at)
                                           : (v->flags & QSF_JINJA_OWN) != 0);
}
static bool put_word(jinja_run *r, jinja_sink *s, const char *text)
{
    return jinja_put(r, s, text, strlen(text));
}

jinja_sink jinja_begin_text(jinja_run *r)
{
    r->mem->used = QSF_MIN((r->mem->used + 15) & ~(size_t)15, r->mem->size);
    return (jinja_sink){ r->mem->base + r->mem->used, 0, QSF_MIN(r->mem->size - r->mem->used, UINT32_MAX),
                         jinja_marks(r->mem), r->mem->used };
}
jinja_value jinja_end_text(jinja_run *r, const jinja_sink *s)
{
    r->mem->used += s->len;
    return qsf_jinja_text_n(s->text, s->len);
}

/* The shortest digits that mean this number.  Up to 15 digits and powers up to 10^22 are
 * exact in a double, so that one operation gives the nearest number, and comparing tells;
 * others are rare in templates. */
static bool put_float(jinja_run *r, jinja_sink *s, const jinja_value *v)
{
    const double f = v->as.f;
    char text[64];
    const double x = fabs(f);
    if (f != f || x > 1e15 || (x < 1e-4 && x != 0))
        return jinja_fail(r, QSF_E_UNSUPPORTED, "this float cannot be written here");
    for (int digits = 1; digits <= 17; digits++) {
        double power = 1, whole = x;
        size_t n = qsf_format(text, sizeof text, "%.*f", digits, f);
        for (int i = 0; i < digits; i++) power *= 10;
        whole = floor(x * power + 0.5);
        if (whole >= 1e15) break;
        if (whole / power == x) return put_whole(r, s, text, n, !(v->flags & QSF_JINJA_FOREIGN));
    }
    return jinja_fail(r, QSF_E_UNSUPPORTED, "this float cannot be written here");
}

/* A character of a text as an escape. */
static bool put_hex(jinja_run *r, jinja_sink *s, const jinja_value *v, size_t at, char kind, uint32_t c)
{
    char text[16];
    const size_t n = qsf_format(text, sizeof text, kind == 'x' ? "\\x%02x" : "\\u%04x", (unsigned)c);
    return jinja_put_for(r, s, v, at, text, n);
}

static bool put_json_text(jinja_run *r, jinja_sink *s, const jinja_value *v)
{
    static const char plain[] = "\nn\tt\rr\\\\\"\"\bb\ff";
    if (!put_word(r, s, "\"")) return false;
    for (uint32_t i = 0; i < v->n; i++) {
        const uint8_t c = (uint8_t)v->as.text[i];
        size_t k = 0;
        while (k + 1 < sizeof plain && (uint8_t)plain[k] != c) k += 2;
        if (k + 1 < sizeof plain) {
            const char two[2] = { '\\', plain[k + 1] };
            if (!jinja_put_for(r, s, v, i, two, 2)) return false;
        } else if (c < 32 ? !put_hex(r, s, v, i, 'u', c) : !jinja_put_part(r, s, v, i, 1)) return false;
    }
    return jinja_charge(r, v->n) && put_word(r, s, "\"");
}

static bool put_repr_text(jinja_run *r, jinja_sink *s, const jinja_value *v)
{
    const bool single = !v->n || !memchr(v->as.text, '\'', v->n) || memchr(v->as.text, '"', v->n);
    const char quote = single ? '\'' : '"';
    if (!jinja_put(r, s, &quote, 1)) return false;
    for (uint32_t i = 0; i < v->n;) {
        size_t used;
        const uint32_t c = qsf_utf8_decode(v->as.text + i, v->n - i, &used);
        const char *const two = c == '\n'             ? "\\n"
                                : c == '\r'           ? "\\r"
                                : c == '\t'           ? "\\t"
                                : c == '\\'           ? "\\\\"
                                : c == '\'' && single ? "\\'"
                                                      : NULL;
        if (c >= 127 && (c < 0xa1 || c == 0xad || qsf_is_space(c) || qsf_class_of(c) == QSF_C_OTHER ||
                         qsf_class_of(c) == QSF_C_SEPARATOR)) {
            if (c > 0xff)
                return jinja_fail(r, QSF_E_UNSUPPORTED,
                                  "a character that is not written as itself in a list");
            if (!put_hex(r, s, v, i, 'x', c)) return false;
        } else if (two      ? !jinja_put_for(r, s, v, i, two, 2)
                   : c < 32 ? !put_hex(r, s, v, i, 'x', c)
                            : !jinja_put_part(r, s, v, i, used))
            return false;
        i += (uint32_t)used;
    }
    return jinja_charge(r, v->n) && jinja_put(r, s, &quote, 1);
}

static bool put_plain(jinja_run *r, jinja_sink *s, const jinja_value *v, bool json)
{
    char text[32];
    switch (v->type) {
    case QSF_JINJA_NONE: return put_word(r, s, json ? "null" : "None");
    case QSF_JINJA_BOOL:
        return put_word(r, s, json ? v->as.i ? "true" : "false" : v->as.i ? "True" : "False");
    case QSF_JINJA_INT:
        return put_whole(r, s, text, qsf_format(text, sizeof text, "%lld", (long long)v->as.i),
                         !(v->flags & QSF_JINJA_FOREIGN));
    case QSF_JINJA_FLOAT: return put_float(r, s, v);
    case QSF_JINJA_BIG: return put_whole(r, s, v->as.text, v->n, !(v->flags & QSF_JINJA_FOREIGN));
    case QSF_JINJA_UNDEFINED: return json ? jinja_undefined(r, v) : put_word(r, s, "Undefined");
    default:
        return json ? jinja_fail(r, QSF_E_ARGUMENT, "%s has no JSON", jinja_type_name(v))
                    : jinja_fail(r, QSF_E_UNSUPPORTED, "a value of type %s has no text here",
                                 jinja_type_name(v));
    }
}

static bool put_repr(jinja_run *r, jinja_sink *s, const jinja_value *v)
{
    const bool dict = v->type == QSF_JINJA_DICT;
    if (v->type == QSF_JINJA_TEXT)
        return v->flags & QSF_JINJA_SAFE
                   ? jinja_fail(r, QSF_E_UNSUPPORTED, "\"safe\" in a list is not known here")
                   : put_repr_text(r, s, v);
    if (!jinja_is_list(v) && !dict) return put_plain(r, s, v, false);
    if (!jinja_deeper(r) || !put_word(r, s, dict ? "{" : v->type == QSF_JINJA_LIST ? "[" : "(")) return false;
    for (uint32_t i = 0; i < v->n; i++) {
        if (i && !put_word(r, s, ", ")) return false;
        if (dict && (!put_repr(r, s, &v->as.items[2 * i]) || !put_word(r, s, ": "))) return false;
        if (!put_repr(r, s, &v->as.items[dict ? 2 * i + 1 : i])) return false;
    }
    r->depth--;
    if (v->type == QSF_JINJA_TUPLE && v->n == 1 && !put_word(r, s, ",")) return false;
    return put_word(r, s, dict ? "}" : v->type == QSF_JINJA_LIST ? "]" : ")");
}

bool jinja_print(jinja_run *r, jinja_sink *s, const jinja_value *v)
{
    if (v->type == QSF_JINJA_TEXT) return jinja_put_text(r, s, v);
    return v->type == QSF_JINJA_UNDEFINED || put_repr(r, s, v);
}

static bool put_line(jinja_run *r, jinja_sink *s, int blanks)
{
    if (!put_word(r, s, "\n") || !jinja_charge(r, (size_t)blanks)) return false;
    for (int i = 0; i < blanks; i++)
        if (!put_word(r, s, " ")) return false;
    return true;
}

bool jinja_json(jinja_run *r, jinja_sink *s, const jinja_value *v, int indent, int level)
{
    const bool dict = v->type == QSF_JINJA_DICT;
    if (v->type == QSF_JINJA_TEXT) return put_json_text(r, s, v);
    if (!jinja_is_list(v) && !dict) return put_plain(r, s, v, true);
    if (!jinja_deeper(r) || !put_word(r, s, dict ? "{" : "[")) return false;
    for (uint32_t i = 0; i < v->n; i++) {
        if (i && !put_word(r, s, indent < 0 ? ", " : ",")) return false;
        if (indent >= 0 && !put_line(r, s, indent * (level + 1))) return false;
        if (dict) {
            const jinja_value *key = &v->as.items[2 * i];
            const bool quoted = key->type == QSF_JINJA_TEXT;
            if (key->type > QSF_JINJA_TEXT)
                return jinja_fail(r, QSF_E_ARGUMENT, "%s is no key in JSON", jinja_type_name(key));
            if (!quoted && !put_word(r, s, "\"")) return false;
            if (!jinja_json(r, s, key, -1, 0) || !put_word(r, s, quoted ? ": " : "\": ")) return false;
        }
        if (!jinja_json(r, s, &v->as.items[dict ? 2 * i + 1 : i], indent, level + 1)) return false;
    }
    r->depth--;
    if (indent >= 0 && v->n && !put_line(r, s, indent * level)) return false;
    return put_word(r, s, dict ? "}" : "]");
}

bool jinja_to_text(jinja_run *r, const jinja_value *v, jinja_value *out)
{
    *out = *v;
    if (v->type == QSF_JINJA_TEXT) return true;
    jinja_sink s = jinja_begin_text(r);
    if (!jinja_print(r, &s, v)) return false;
    *out = jinja_end_text(r, &s);
    return true;
}
