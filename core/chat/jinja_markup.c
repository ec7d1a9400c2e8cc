/* Jinja: filters that write texts.
 * SPDX-License-Identifier: MIT */
#include "chat/jinja_own.h"

/* ---- HTML ---- */

bool qsf_jinja_put_escaped(jinja_run *r, jinja_sink *s, const jinja_value *v)
{
    if (v->type < QSF_JINJA_TEXT) return qsf_jinja_print(r, s, v);
    if (v->type != QSF_JINJA_TEXT)
        return qsf_jinja_fail(r, QSF_E_UNSUPPORTED, "a value of type %s cannot be escaped",
                              qsf_jinja_type_name(v));
    if (v->flags & QSF_JINJA_SAFE) return qsf_jinja_put_text(r, s, v);
    for (uint32_t i = 0; i < v->n; i++) {
        const char c = v->as.text[i];
        const char *as = c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '\'' ? "&#39;"
                         : c == '"' ? "&#34;" : NULL;
        if (as ? !qsf_jinja_put_for(r, s, v, i, as, strlen(as)) : !qsf_jinja_put_part(r, s, v, i, 1))
            return false;
    }
    return qsf_jinja_charge_each(r, v->n);
}

static bool markup_escape(jinja_run *r, const jinja_value *v, bool again, jinja_value *out)
{
    jinja_value text;
    if (!qsf_jinja_to_text(r, v, &text)) return false;
    jinja_sink s = qsf_jinja_begin_text(r);
    if (again) text.flags &= (uint8_t)~QSF_JINJA_SAFE;
    if (!qsf_jinja_put_escaped(r, &s, &text)) return false;
    *out = qsf_jinja_end_text(r, &s);
    out->flags |= QSF_JINJA_SAFE;
    return true;
}

static bool markup_attributes(jinja_run *r, const jinja_value *v, const jinja_bound *b, jinja_value *out)
{
    const bool space = !b->arg[0] || qsf_jinja_true(b->arg[0]);
    jinja_value text;
    if (v->type != QSF_JINJA_DICT) return qsf_jinja_refuse(r, "xmlattr needs a dict");
    jinja_value *texts = qsf_jinja_items(r, v->n);
    if (!texts) return false;
    for (uint32_t i = 0; i < v->n; i++)
        if (!markup_escape(r, &v->as.items[2 * i + 1], false, &texts[i])) return false;
    jinja_sink s = qsf_jinja_begin_text(r);
    for (uint32_t i = 0; i < v->n; i++) {
        const jinja_value *key = &v->as.items[2 * i], *value = key + 1;
        if (value->type == QSF_JINJA_NONE || value->type == QSF_JINJA_UNDEFINED) continue;
        if (!qsf_jinja_need_text(r, key, "xmlattr")) return false;
        for (uint32_t k = 0; k < key->n; k++)
            if (key->as.text[k] && strchr(" \t\n\r\f\v/>=", key->as.text[k]))
                return qsf_jinja_refuse(r, "invalid character in the name of an attribute");
        text = texts[i];
        if (((space || s.len) && !qsf_jinja_put(r, &s, " ", 1)) || !qsf_jinja_put_escaped(r, &s, key)
            || !qsf_jinja_put(r, &s, "=\"", 2) || !qsf_jinja_put_text(r, &s, &text)
                || !qsf_jinja_put(r, &s, "\"", 1))
            return false;
    }
    return qsf_jinja_finish(r, &s, out);
}

/* The character of the entity "&name;" at `i`; 0: unknown. */
static uint32_t markup_entity(const jinja_value *v, size_t i, size_t *used)
{
    static const struct { char name[6]; uint8_t c; } names[] = {
        { "amp;", '&' }, { "lt;", '<' }, { "gt;", '>' }, { "quot;", '"' }, { "#39;", '\'' }, { "#34;", '"' },
        { "apos;", '\'' }, { "nbsp;", 0xa0 },
    };
    for (size_t k = 0; k < QSF_ARRAY_LEN(names); k++) {
        const size_t n = strlen(names[k].name);
        *used = n + 1;
        if (n < v->n - i && !memcmp(v->as.text + i + 1, names[k].name, n)) return names[k].c;
    }
    return 0;
}

/* Without tags and comments, each stretch of white space one blank. */
static bool markup_strip(jinja_run *r, const jinja_value *v, jinja_value *out)
{
    bool space = false;
    size_t used;
    jinja_sink s = qsf_jinja_begin_text(r);
    for (size_t i = 0; i < v->n; i += used) {
        const char *p = v->as.text + i;
        uint32_t c = qsf_utf8_decode(p, v->n - i, &used);
        char text[4];
        if (c == '<') {
            const bool comment = v->n - i >= 4 && !memcmp(p, "<!--", 4);
            const jinja_value close = qsf_jinja_text(comment ? "-->" : ">");
            const int64_t end = qsf_jinja_find(r, v, &close, (uint32_t)i, false);
            if (end >= 0) {
                used = (size_t)end + close.n - i;
                continue;
            }
        } else if (c == '&' && i + 1 < v->n && !qsf_jinja_is_space((uint8_t)p[1])
                   && !(c = markup_entity(v, i, &used)))
            return qsf_jinja_unknown(r, "this entity is not supported");
        if (qsf_jinja_is_space(c)) {
            space = true;
            continue;
        }
        if ((space && s.len && !qsf_jinja_put_for(r, &s, v, i, " ", 1))
            || !qsf_jinja_put_for(r, &s, v, i, text, qsf_utf8_encode(c, text)))
            return false;
        space = false;
    }
    *out = qsf_jinja_end_text(r, &s);
    return qsf_jinja_charge_each(r, v->n);
}

/* ---- addresses ---- */

static bool markup_quote(jinja_run *r, jinja_sink *s, const jinja_value *v, bool query)
{
    for (uint32_t i = 0; i < v->n; i++) {
        const uint8_t c = (uint8_t)v->as.text[i];
        const bool plain = (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z')
                           || (c && strchr(query ? "_.-~" : "_.-~/", c));
        char hex[4];
        if (!plain) qsf_format(hex, sizeof hex, "%%%c%c", "0123456789ABCDEF"[c >> 4],
                               "0123456789ABCDEF"[c & 15]);
        if (plain ? !qsf_jinja_put_part(r, s, v, i, 1)
                  : !qsf_jinja_put_for(r, s, v, i, query && c == ' ' ? "+" : hex, query && c == ' ' ? 1 : 3))
            return false;
    }
    return qsf_jinja_charge_each(r, 8 * (size_t)v->n);
}

static bool markup_urlencode(jinja_run *r, const jinja_value *v, jinja_value *out)
{
    jinja_value list = *v, text;
    const bool one = v->type == QSF_JINJA_TEXT || v->type == QSF_JINJA_NONE || qsf_jinja_is_number(v)
        || (v->type >= QSF_JINJA_SPACE && v->type != QSF_JINJA_LOOP);
    if (one) {
        if (!qsf_jinja_to_text(r, v, &text)) return false;
        list = qsf_jinja_list(&text, 1);
    } else if (v->type == QSF_JINJA_DICT ? !qsf_jinja_pairs(r, v, &list)
               : !qsf_jinja_iterate(r, v, &list)) return false;
    jinja_value *texts = qsf_jinja_items(r, 2 * (size_t)list.n);
    if (!texts) return false;
    for (uint32_t i = 0; !one && i < list.n; i++) {
        jinja_value pair;
        if (!qsf_jinja_iterate(r, &list.as.items[i], &pair)) return false;
        if (pair.n != 2) return qsf_jinja_refuse(r, "urlencode needs pairs");
        if (!qsf_jinja_to_text(r, &pair.as.items[0], &texts[2 * i])
            || !qsf_jinja_to_text(r, &pair.as.items[1], &texts[2 * i + 1]))
            return false;
    }
    jinja_sink s = qsf_jinja_begin_text(r);
    if (one && !markup_quote(r, &s, &text, false)) return false;
    for (uint32_t i = 0; !one && i < 2 * list.n; i++)
        if ((i && !qsf_jinja_put(r, &s, i % 2 ? "=" : "&", 1))
            || !markup_quote(r, &s, &texts[i], true)) return false;
    return qsf_jinja_finish(r, &s, out);
}

/* ---- lines and words ---- */

/* Indents lines: all except the first one and empty ones, unless the arguments include these. */
static bool markup_indent(jinja_run *r, const jinja_value *text, const jinja_bound *b, jinja_value *out)
{
    const jinja_value *width = b->arg[0];
    const bool of_text = width && width->type == QSF_JINJA_TEXT, first = jinja_flag(b->arg[1]),
               blank = jinja_flag(b->arg[2]);
    int64_t n = 4;
    jinja_value lines;
    if (!of_text && !qsf_jinja_whole(r, width, false, &n)) return false;
    if (n > 1000) return qsf_jinja_fail(r, QSF_E_BUDGET, "a line is indented too far");
    if (!qsf_jinja_text_lines(r, text, false, &lines)) return false;
    uint32_t count = lines.n;
    const jinja_value *last = lines.n ? &lines.as.items[lines.n - 1] : NULL;
    /* the empty line after the last line's end */
    count += !last || last->as.text + last->n != text->as.text + text->n;
    const jinja_value nothing = jinja_part(text, 0, 0);
    jinja_sink s = qsf_jinja_begin_text(r);
    for (uint32_t i = 0; i < count; i++) {
        const jinja_value *line = i < lines.n ? &lines.as.items[i] : &nothing;
        const bool moved = i ? blank || line->n : first;
        if (i && !qsf_jinja_put(r, &s, "\n", 1)) return false;
        if (moved && of_text && !(text->flags & QSF_JINJA_SAFE ? qsf_jinja_put_escaped(r, &s, width)
                                                               : qsf_jinja_put_text(r, &s, width)))
            return false;
        for (int64_t k = 0; moved && !of_text && k < n; k++)
            if (!qsf_jinja_put(r, &s, " ", 1)) return false;
        if (!qsf_jinja_charge_each(r, (size_t)QSF_MAX(n, 0)) || !qsf_jinja_put_text(r, &s, line))
            return false;
    }
    return qsf_jinja_finish_as(r, &s, text, out);
}

static bool markup_truncate(jinja_run *r, const jinja_value *v, const jinja_bound *b, jinja_value *out)
{
    const jinja_value dots = qsf_jinja_text("..."), blank = qsf_jinja_text(" "), *end = b->arg[2] ? b->arg[2]
        : &dots;
    const int64_t n = v->type == QSF_JINJA_UNDEFINED ? 0 : (int64_t)qsf_jinja_length(v);
    int64_t length = 255, leeway = 5;
    if (!qsf_jinja_whole(r, b->arg[0], false, &length) || !qsf_jinja_whole(r, b->arg[3], true, &leeway)
        || !qsf_jinja_need_text(r, end, "truncate") || !qsf_jinja_charge_each(r, (size_t)n))
        return false;
    const int64_t tail = (int64_t)qsf_jinja_length(end);
    if (length < tail || leeway < 0) return qsf_jinja_refuse(r, "a string cannot be truncated to so few "
                                                            "characters");
    *out = *v;
    if (n <= length + leeway && (v->type == QSF_JINJA_UNDEFINED || (v->type >= QSF_JINJA_TEXT
                                 && v->type <= QSF_JINJA_DICT && v->type != QSF_JINJA_ITER)))
        return true;
    if (!qsf_jinja_need_text(r, v, "truncate")) return false;
    jinja_value part = jinja_part(v, 0, qsf_jinja_offset(v, (size_t)(length - tail)));
    const int64_t word = jinja_flag(b->arg[1]) ? -1 : qsf_jinja_find(r, &part, &blank, 0, true);
    if (word >= 0) part.n = (uint32_t)word;
    jinja_sink s = qsf_jinja_begin_text(r);
    if (!qsf_jinja_put_text(r, &s, &part)
        || (end == &dots ? !qsf_jinja_put(r, &s, "...", 3) : !qsf_jinja_put_text(r, &s, end)))
        return false;
    return qsf_jinja_finish(r, &s, out);
}

static bool markup_word_count(jinja_run *r, const jinja_value *v, jinja_value *out)
{
    int64_t n = 0;
    bool inside = false;
    size_t used;
    for (size_t i = 0; i < v->n; i += used) {
        const uint32_t c = qsf_utf8_decode(v->as.text + i, v->n - i, &used);
        const bool word = c == '_' || qsf_is_letter(c) || qsf_is_number(c);
        n += word && !inside;
        inside = word;
    }
    *out = qsf_jinja_int(n);
    return qsf_jinja_charge_each(r, v->n);
}

/* The end of the word or the white space at `i`, and how many characters it is. */
static size_t markup_chunk(const jinja_value *v, size_t i, int64_t *n)
{
    size_t used;
    const bool space = qsf_jinja_is_space(qsf_utf8_decode(v->as.text + i, v->n - i, &used));
    for (*n = 0; i < v->n; i += used, ++*n)
        if (qsf_jinja_is_space(qsf_utf8_decode(v->as.text + i, v->n - i, &used)) != space) break;
    return i;
}
static bool markup_space_at(const jinja_value *v, size_t i)
{
    size_t used;
    return qsf_jinja_is_space(qsf_utf8_decode(v->as.text + i, v->n - i, &used));
}

/* Wraps one line to lines of at most `width` characters, as textwrap does: white space is removed
 * at the beginning of every line except the first, and at the end of every line. */
static bool markup_wrap_line(jinja_run *r, jinja_sink *s, const jinja_value *line, int64_t width, bool cut,
                             const jinja_value *end)
{
    bool first = true;
    int64_t n = 0;
    for (size_t at = 0; at < line->n; ) {
        if (!first && markup_space_at(line, at)) at = markup_chunk(line, at, &n);
        const size_t from = at;
        size_t last = at;                       /* where the last word or white space of the line begins */
        int64_t len = 0;
        for (size_t next; at < line->n; at = next, len += n) {
            next = markup_chunk(line, at, &n);
            if (len + n > width) break;
            last = at;
        }
        if (at < line->n && n > width) {
            const jinja_value rest = jinja_part(line, at, line->n);
            if (cut || at == from) last = at;
            if (cut) at += qsf_jinja_offset(&rest, (size_t)(width - len));
            else if (at == from) at = markup_chunk(line, at, &n);
        }
        const size_t to = last < at && markup_space_at(line, last) ? last : at;
        if (to == from) continue;
        if ((!first && !(end ? qsf_jinja_put_text(r, s, end) : qsf_jinja_put(r, s, "\n", 1)))
            || !qsf_jinja_put_part(r, s, line, from, to - from) || !qsf_jinja_charge(r, at - from))
            return false;
        first = false;
    }
    return true;
}

static bool markup_wrap(jinja_run *r, const jinja_value *v, const jinja_bound *b, jinja_value *out)
{
    const bool cut = !b->arg[1] || qsf_jinja_true(b->arg[1]), hyphens = !b->arg[3]
        || qsf_jinja_true(b->arg[3]);
    const jinja_value *end = jinja_given(b->arg[2]) ? b->arg[2] : NULL;
    int64_t width = 79;
    jinja_value lines;
    if (!qsf_jinja_whole(r, b->arg[0], false, &width) || (end && !qsf_jinja_need_text(r, end, "wordwrap"))
        || !qsf_jinja_text_lines(r, v, false, &lines))
        return false;
    if (width <= 0 && lines.n) return qsf_jinja_refuse(r, "a line has a width");
    if (hyphens && v->n && memchr(v->as.text, '-', v->n))
        return qsf_jinja_unknown(r, "wordwrap at hyphens is not supported");
    jinja_sink s = qsf_jinja_begin_text(r);
    for (uint32_t i = 0; i < lines.n; i++)
        if ((i && !(end ? qsf_jinja_put_text(r, &s, end) : qsf_jinja_put(r, &s, "\n", 1)))
            || !markup_wrap_line(r, &s, &lines.as.items[i], width, cut, end))
            return false;
    return qsf_jinja_finish(r, &s, out);
}

/* Capitalises words as jinja2 does: they begin only after white space, "-" and brackets. */
static bool markup_title(jinja_run *r, const jinja_value *v, jinja_value *out)
{
    jinja_value lower;
    bool inside = false;
    size_t used;
    for (uint32_t i = 0; i < v->n; i++)
        if (v->as.text[i] & 0x80) return qsf_jinja_unknown(r, "title is only supported for ASCII");
    if (!qsf_jinja_charge_each(r, 8 * (size_t)v->n) || !qsf_jinja_lower_text(r, v, &lower)) return false;
    jinja_sink s = qsf_jinja_begin_text(r);
    for (size_t i = 0; i < lower.n; i += used) {
        const char c = (char)qsf_utf8_decode(lower.as.text + i, lower.n - i, &used);
        const char up = c >= 'a' && c <= 'z' ? (char)(c - 32) : c;
        if (!qsf_jinja_put_for(r, &s, &lower, i, inside ? &c : &up, 1)) return false;
        inside = !(qsf_jinja_is_space((uint8_t)c) || (c && strchr("-({[<", c)));
    }
    return qsf_jinja_finish(r, &s, out);
}

/* ---- values ---- */

static bool markup_json(jinja_run *r, const jinja_value *v, const jinja_bound *b, jinja_value *out)
{
    const jinja_value *indent = b->arg[1];
    jinja_json_form f = { .ascii = jinja_flag(b->arg[0]), .sorted = jinja_flag(b->arg[3]),
                          .indent = { .type = QSF_JINJA_NONE } };
    const char *comma = jinja_given(indent) ? "," : ", ";
    int64_t n = 0;
    if (jinja_given(indent) && indent->type == QSF_JINJA_TEXT) f.indent = *indent;
    else if (jinja_given(indent)) {
        if (!qsf_jinja_whole(r, indent, false, &n)) return false;
        if (n > 64) return qsf_jinja_fail(r, QSF_E_BUDGET, "an indent of more than 64");
        jinja_sink blanks = qsf_jinja_begin_text(r);
        for (; n > 0; n--) if (!qsf_jinja_put(r, &blanks, " ", 1)) return false;
        f.indent = qsf_jinja_end_text(r, &blanks);
    }
    if (jinja_given(b->arg[2])) {
        jinja_value pair;
        if (!qsf_jinja_iterate(r, b->arg[2], &pair)) return false;
        if (pair.n != 2 || pair.as.items[0].type != QSF_JINJA_TEXT || pair.as.items[1].type != QSF_JINJA_TEXT)
            return qsf_jinja_refuse(r, "separators must be two strings");
        f.comma = pair.as.items[0];
        f.colon = pair.as.items[1];
    } else {
        f.comma = qsf_jinja_text(comma);
        f.colon = qsf_jinja_text(": ");
        f.comma.flags = f.colon.flags = QSF_JINJA_OWN;
    }
    jinja_sink s = qsf_jinja_begin_text(r);
    if (!qsf_jinja_json(r, &s, v, &f, 0)) return false;
    return qsf_jinja_finish(r, &s, out);
}

/* As pformat() writes a value that fits on one line: keys in order. */
static bool markup_pprint(jinja_run *r, const jinja_value *v, jinja_value *out)
{
    jinja_sink s = qsf_jinja_begin_text(r);
    if (!qsf_jinja_repr(r, &s, v)) return false;
    *out = qsf_jinja_end_text(r, &s);
    if (out->n > 80 || (v->type >= QSF_JINJA_LIST && memchr(out->as.text, '{', out->n) && out->n > 2))
        return qsf_jinja_unknown(r, "pprint is only supported for one line without dicts");
    return true;
}

bool qsf_jinja_filter_text(jinja_run *r, int id, const jinja_value *v, const jinja_bound *b, jinja_value *out)
{
    jinja_value text;
    switch (id) {
    case JF_E: case JF_ESCAPE: case JF_FORCEESCAPE: return markup_escape(r, v, id == JF_FORCEESCAPE, out);
    case JF_XMLATTR: return markup_attributes(r, v, b, out);
    case JF_URLENCODE: return markup_urlencode(r, v, out);
    case JF_TOJSON: return markup_json(r, v, b, out);
    case JF_PPRINT: return markup_pprint(r, v, out);
    case JF_TRUNCATE: return markup_truncate(r, v, b, out);
    case JF_INDENT: case JF_WORDWRAP:
        if (v->type == QSF_JINJA_UNDEFINED) return qsf_jinja_undefined(r, v);
        if (!qsf_jinja_need_text(r, v, "this filter")) return false;
        break;
    default: break;
    }
    if (!qsf_jinja_to_text(r, v, &text)) return false;
    switch (id) {
    case JF_SAFE:
        *out = text;
        out->flags |= QSF_JINJA_SAFE;
        return true;
    case JF_STRING: *out = text; return true;
    case JF_STRIPTAGS: return markup_strip(r, &text, out);
    case JF_INDENT: return markup_indent(r, &text, b, out);
    case JF_WORDCOUNT: return markup_word_count(r, &text, out);
    case JF_WORDWRAP: return markup_wrap(r, &text, b, out);
    case JF_TITLE: return markup_title(r, &text, out);
    case JF_UPPER: return qsf_jinja_text_method(r, JM_UPPER, &text, b, out);
    case JF_LOWER: return qsf_jinja_text_method(r, JM_LOWER, &text, b, out);
    case JF_CAPITALIZE: return qsf_jinja_text_method(r, JM_CAPITALIZE, &text, b, out);
    case JF_TRIM: return qsf_jinja_text_method(r, JM_STRIP, &text, b, out);
    case JF_CENTER: {
        const jinja_value eighty = qsf_jinja_int(80);
        const jinja_bound width = { { b->arg[0] ? b->arg[0] : &eighty } };
        return qsf_jinja_text_method(r, JM_CENTER, &text, &width, out);
    }
    default: {                                  /* replace: every value becomes a string, not safe */
        jinja_value old, by;
        const jinja_bound all = { { &old, &by, jinja_given(b->arg[2]) ? b->arg[2] : NULL } };
        text.flags &= QSF_JINJA_OWN;
        return qsf_jinja_to_text(r, b->arg[0], &old) && qsf_jinja_to_text(r, b->arg[1], &by)
               && qsf_jinja_text_method(r, JM_REPLACE, &text, &all, out);
    }
    }
}
