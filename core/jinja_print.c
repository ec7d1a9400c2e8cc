/* Jinja: values as text: as str() and repr() of Python write them, and as JSON.
 * SPDX-License-Identifier: MIT */
#include "jinja_own.h"

bool jinja_put(jinja_run *r, jinja_sink *s, const char *text, size_t n)
{
    if (n > s->cap - s->len) return jinja_fail(r, QSF_E_BUDGET, "the text becomes too long");
    if (n) memcpy(s->text + s->len, text, n);
    s->len += n;
    return n < 64 || jinja_charge(r, n);
}
static bool put_word(jinja_run *r, jinja_sink *s, const char *text)
{
    return jinja_put(r, s, text, strlen(text));
}

jinja_sink jinja_begin_text(jinja_run *r)
{
    r->mem->used = QSF_MIN((r->mem->used + 15) & ~(size_t)15, r->mem->size);
    return (jinja_sink){ r->mem->base + r->mem->used, 0, QSF_MIN(r->mem->size - r->mem->used, UINT32_MAX) };
}
jinja_value jinja_end_text(jinja_run *r, const jinja_sink *s)
{
    r->mem->used += s->len;
    return qsf_jinja_text_n(s->text, s->len);
}

/* The shortest digits that mean this number.  Up to 15 digits and powers up to 10^22 are
 * exact in a double, so that one operation gives the nearest number, and comparing tells;
 * others are rare in templates. */
static bool put_float(jinja_run *r, jinja_sink *s, double f)
{
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
        if (whole / power == x) return jinja_put(r, s, text, n);
    }
    return jinja_fail(r, QSF_E_UNSUPPORTED, "this float cannot be written here");
}

static bool put_hex(jinja_run *r, jinja_sink *s, const char *before, uint32_t c, int digits)
{
    char text[16];
    const size_t n = qsf_format(text, sizeof text, digits == 2 ? "%s%02x" : "%s%04x", before, (unsigned)c);
    return jinja_put(r, s, text, n);
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
            if (!jinja_put(r, s, two, 2)) return false;
        } else if (c < 32 ? !put_hex(r, s, "\\u", c, 4) : !jinja_put(r, s, v->as.text + i, 1)) return false;
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
            if (!put_hex(r, s, "\\x", c, 2)) return false;
        } else if (two      ? !put_word(r, s, two)
                   : c < 32 ? !put_hex(r, s, "\\x", c, 2)
                            : !jinja_put(r, s, v->as.text + i, used))
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
        return jinja_put(r, s, text, qsf_format(text, sizeof text, "%lld", (long long)v->as.i));
    case QSF_JINJA_FLOAT: return put_float(r, s, v->as.f);
    case QSF_JINJA_UNDEFINED: return json ? jinja_undefined(r, v) : put_word(r, s, "Undefined");
    default:
        return json ? jinja_fail(r, QSF_E_ARGUMENT, "%s has no JSON", jinja_type_name(v))
                    : jinja_fail(r, QSF_E_UNSUPPORTED, "a value of type %s has no text here",
                                 jinja_type_name(v));
    }
}

bool jinja_repr(jinja_run *r, jinja_sink *s, const jinja_value *v)
{
    const bool dict = v->type == QSF_JINJA_DICT;
    if (v->type == QSF_JINJA_TEXT)
        return v->safe ? jinja_fail(r, QSF_E_UNSUPPORTED, "\"safe\" in a list is not known here")
                       : put_repr_text(r, s, v);
    if (!jinja_is_list(v) && !dict) return put_plain(r, s, v, false);
    if (!jinja_deeper(r) || !put_word(r, s, dict ? "{" : v->type == QSF_JINJA_LIST ? "[" : "(")) return false;
    for (uint32_t i = 0; i < v->n; i++) {
        if (i && !put_word(r, s, ", ")) return false;
        if (dict && (!jinja_repr(r, s, &v->as.items[2 * i]) || !put_word(r, s, ": "))) return false;
        if (!jinja_repr(r, s, &v->as.items[dict ? 2 * i + 1 : i])) return false;
    }
    r->depth--;
    if (v->type == QSF_JINJA_TUPLE && v->n == 1 && !put_word(r, s, ",")) return false;
    return put_word(r, s, dict ? "}" : v->type == QSF_JINJA_LIST ? "]" : ")");
}

bool jinja_print(jinja_run *r, jinja_sink *s, const jinja_value *v)
{
    if (v->type == QSF_JINJA_TEXT) return jinja_put(r, s, v->as.text, v->n);
    return v->type == QSF_JINJA_UNDEFINED || jinja_repr(r, s, v);
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
