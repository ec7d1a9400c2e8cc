/* Values in calls: JSON passes unchanged, other notations of models are converted to JSON.
 * SPDX-License-Identifier: MIT
 *
 * Other notations are: strings in single quotes or in a quote of the model's own, keys without
 * quotes, key=value in brackets, Python's literals.  A line end in a string is escaped; anything
 * else that is not a value ends it as bad. */
#include "chat/tools.h"

enum {
    TV_VALUE, TV_FIRST,         /* a value; or the end of an empty list */
    TV_KEY, TV_FIRST_KEY, TV_COLON,
    TV_TEXT, TV_ESCAPE, TV_HEX, TV_KEY_TEXT, TV_KEY_ESCAPE, TV_KEY_HEX,         /* keys: + 3 */
    TV_BEHIND, TV_DONE, TV_BAD
};
enum { TV_DEPTH = 8 * sizeof ((qsf_tool_value *)0)->is_object, TV_WORD = 400 };

static bool tv_in_object(const qsf_tool_value *v)
{
    return v->depth && (v->is_object[(v->depth - 1) / 8] >> ((v->depth - 1) % 8) & 1);
}

void qsf_tool_value_begin(qsf_tool_value *v, bool loose, const char *own)
{
    *v = (qsf_tool_value){ .loose = loose, .state = TV_VALUE, .own = own };
}

void qsf_tool_value_begin_call(qsf_tool_value *v)
{
    *v = (qsf_tool_value){ .loose = true, .state = TV_FIRST_KEY, .own = "", .call = true, .depth = 1 };
    v->is_object[0] = 1;
}

bool qsf_tool_value_done(const qsf_tool_value *v) { return v->state == TV_DONE; }
bool qsf_tool_value_bad(const qsf_tool_value *v) { return v->state == TV_BAD; }

static void tv_add(qsf_text *out, const char *p, size_t n) { if (out) qsf_text_add(out, p, n); }

static size_t tv_bad(qsf_tool_value *v)
{
    v->state = TV_BAD;
    return 0;
}

static void tv_open(qsf_tool_value *v, bool object)
{
    if (v->depth == TV_DEPTH) {
        tv_bad(v);
        return;
    }
    const uint8_t bit = (uint8_t)(1u << (v->depth % 8));
    uint8_t *at = &v->is_object[v->depth++ / 8];
    *at = (uint8_t)(object ? *at | bit : *at & ~bit);
    v->state = object ? TV_FIRST_KEY : TV_FIRST;
}

static void tv_close(qsf_tool_value *v) { v->state = --v->depth ? TV_BEHIND : TV_DONE; }

/* A number of JSON. */
static bool tv_number(const char *p, size_t n)
{
    size_t i = n && p[0] == '-';
    const size_t first = i;
    while (i < n && p[i] >= '0' && p[i] <= '9') i++;
    if (i == first || (p[first] == '0' && i > first + 1)) return false;
    for (int part = 0; part < 2 && i < n; part++) {
        if (part ? (p[i] | 32) != 'e' : p[i] != '.') continue;
        i++;
        if (part && i < n && (p[i] == '-' || p[i] == '+')) i++;
        const size_t digits = i;
        while (i < n && p[i] >= '0' && p[i] <= '9') i++;
        if (i == digits) return false;
    }
    return i == n;
}

static size_t tv_word_length(const char *p, size_t n)
{
    size_t i = 0;
    for (; i < n; i++) {
        const char c = p[i], low = c | 32;
        if (!((c >= '0' && c <= '9') || (low >= 'a' && low <= 'z') || c == '_' || c == '-' || c == '+'
              || c == '.' || (unsigned char)c >= 0x80)) break;
    }
    return i;
}

static size_t tv_word(qsf_tool_value *v, const char *p, size_t n, bool last, qsf_text *out)
{
    static const char words[][2][6] = { { "true", "true" }, { "false", "false" }, { "null", "null" },
                                        { "True", "true" }, { "False", "false" }, { "None", "null" } };
    const size_t len = tv_word_length(p, n);
    if (!len || len > TV_WORD) return tv_bad(v);
    if (len == n && !last) return 0;
    const uint8_t before = v->state;
    v->state = v->depth ? TV_BEHIND : TV_DONE;
    if (tv_number(p, len)) return tv_add(out, p, len), len;
    for (size_t i = 0; i < (v->loose ? 6u : 3u); i++) {
        if (strlen(words[i][0]) != len || memcmp(words[i][0], p, len)) continue;
        tv_add(out, words[i][1], strlen(words[i][1]));
        return len;
    }
    if (len < n) return tv_bad(v);
    v->state = before;                          /* the answer ends within a word */
    return 0;
}

/* A text's quote at p: how many bytes it has; 0 with state bad, or more are needed. */
static size_t tv_quote(qsf_tool_value *v, const char *p, size_t n, bool last, uint8_t state, qsf_text *out)
{
    ptrdiff_t own = 0;
    if (*p == '"' || (v->loose && *p == '\'')) {
        v->quote = (uint8_t)*p;
        own = 1;
    } else if (v->loose && *v->own && (own = qsf_tool_match(v->own, p, n)) > 0) {
        v->quote = 0;
    }
    if (own < 0 && !last) return 0;
    if (own <= 0) return tv_bad(v);
    v->state = state;
    tv_add(out, "\"", 1);
    return (size_t)own;
}

static size_t tv_value(qsf_tool_value *v, const char *p, size_t n, bool last, qsf_text *out)
{
    if (*p == '{' || *p == '[') {
        tv_open(v, *p == '{');
        if (v->state == TV_BAD) return 0;
        tv_add(out, p, 1);
        return 1;
    }
    if (*p == '"' || *p == '\'' || (*v->own && *p == *v->own)) return tv_quote(v, p, n, last, TV_TEXT, out);
    return tv_word(v, p, n, last, out);
}

static size_t tv_key(qsf_tool_value *v, const char *p, size_t n, bool last, qsf_text *out)
{
    const size_t len = tv_word_length(p, n);
    if (!v->loose || !len) return tv_quote(v, p, n, last, TV_KEY_TEXT, out);
    if (len > TV_WORD) return tv_bad(v);
    if (len == n && !last) return 0;
    tv_add(out, "\"", 1);
    tv_add(out, p, len);
    tv_add(out, "\"", 1);
    v->state = TV_COLON;
    return len;
}

/* After a backslash. */
static size_t tv_escape(qsf_tool_value *v, const char *p, qsf_text *out)
{
    v->state--;
    if (*p == 'u' || (v->loose && *p == 'x')) {
        tv_add(out, "\\u00", *p == 'u' ? 2 : 4);
        v->hex = *p == 'u' ? 4 : 2;
        v->state += 2;
    } else if (strchr("\"\\/bfnrt", *p) && *p) {
        tv_add(out, "\\", 1);
        tv_add(out, p, 1);
    } else if (v->loose && *p == '\'') {
        tv_add(out, p, 1);
    } else if (v->loose) {                      /* no escape of Python's: the backslash itself */
        tv_add(out, "\\\\", 2);
        return 0;
    } else {
        return tv_bad(v);
    }
    return 1;
}

static size_t tv_hex(qsf_tool_value *v, const char *p, qsf_text *out)
{
    const char low = *p | 32;
    if (!(*p >= '0' && *p <= '9') && !(low >= 'a' && low <= 'f')) return tv_bad(v);
    tv_add(out, p, 1);
    if (!--v->hex) v->state -= 2;
    return 1;
}

static size_t tv_text(qsf_tool_value *v, const char *p, size_t n, bool last, qsf_text *out)
{
    size_t i = 0, end = 0;
    for (; i < n; i++) {
        const char c = p[i];
        if (v->quote ? c == v->quote : *v->own == c) {
            const ptrdiff_t own = v->quote ? 1 : qsf_tool_match(v->own, p + i, n - i);
            if (own > 0) end = (size_t)own;
            if (own > 0 || (own < 0 && !last)) break;
        }
        if (c == '\\' && v->quote) break;
        if (out && (c == '"' || c == '\\' || (unsigned char)c < 0x20)) qsf_text_json(out, &c, 1);
        else tv_add(out, &c, 1);
    }
    if (end) {
        tv_add(out, "\"", 1);
        v->state = v->state == TV_KEY_TEXT ? TV_COLON : v->depth ? TV_BEHIND : TV_DONE;
        return i + end;
    }
    if (i < n && p[i] == '\\' && v->quote) {
        v->state++;
        i++;
    }
    return i;
}

static size_t tv_behind(qsf_tool_value *v, const char *p, qsf_text *out)
{
    const bool object = tv_in_object(v), outermost = v->call && v->depth == 1;
    if (*p == ',') {
        v->state = object ? TV_KEY : TV_VALUE;
        tv_add(out, p, 1);
        return 1;
    }
    if (*p != (outermost ? ')' : object ? '}' : ']')) return tv_bad(v);
    tv_close(v);
    tv_add(out, object ? "}" : "]", 1);
    return 1;
}

static size_t tv_step(qsf_tool_value *v, const char *p, size_t n, bool last, qsf_text *out)
{
    const bool in_text = v->state >= TV_TEXT && v->state <= TV_KEY_HEX;
    if (!in_text && qsf_tool_blank(*p)) {
        if (v->depth) tv_add(out, p, 1);
        return 1;
    }
    switch (v->state) {
    case TV_FIRST: case TV_FIRST_KEY:
        if (*p == ']' || *p == '}' || *p == ')') return tv_behind(v, p, out);
        return v->state == TV_FIRST ? tv_value(v, p, n, last, out) : tv_key(v, p, n, last, out);
    case TV_VALUE: return tv_value(v, p, n, last, out);
    case TV_KEY: return tv_key(v, p, n, last, out);
    case TV_COLON:
        if (*p != (v->call && v->depth == 1 ? '=' : ':')) return tv_bad(v);
        v->state = TV_VALUE;
        tv_add(out, ":", 1);
        return 1;
    case TV_TEXT: case TV_KEY_TEXT: return tv_text(v, p, n, last, out);
    case TV_ESCAPE: case TV_KEY_ESCAPE: return tv_escape(v, p, out);
    case TV_HEX: case TV_KEY_HEX: return tv_hex(v, p, out);
    default: return tv_behind(v, p, out);
    }
}

size_t qsf_tool_value_read(qsf_tool_value *v, const char *p, size_t n, bool last, qsf_text *out)
{
    size_t at = 0;
    while (at < n && v->state < TV_DONE) {
        const uint8_t before = v->state;
        const size_t used = tv_step(v, p + at, n - at, last, out);
        if (!used && v->state == before) break;
        at += used;
    }
    return at;
}
