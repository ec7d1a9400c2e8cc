/* Jinja: splits a template into tokens, and removes white space around tags.
 * SPDX-License-Identifier: MIT */
#include "chat/jinja_own.h"

static bool lex_space(const jinja_lexer *l, uint32_t at, size_t *used)
{
    return at < l->len && qsf_jinja_is_space(qsf_utf8_decode(l->src + at, l->len - at, used));
}
static uint32_t lex_spaces(const jinja_lexer *l, uint32_t at)
{
    for (size_t used; lex_space(l, at, &used);) at += (uint32_t)used;
    return at;
}
static bool lex_is(const jinja_lexer *l, uint32_t at, const char *text)
{
    const size_t n = strlen(text);
    return at <= l->len && n <= l->len - at && !memcmp(l->src + at, text, n);
}
static char lex_char(const jinja_lexer *l, uint32_t at) { return at < l->len ? l->src[at] : 0; }

/* The position after the mark that ends a tag; the sign before it controls how much of the white
 * space after it is removed.  0: the tag does not end here. */
static uint32_t lex_close(const jinja_lexer *l, uint32_t at, const char *mark, bool is_tag)
{
    const char sign = lex_char(l, at);
    if (sign == '-' && lex_is(l, at + 1, mark)) return lex_spaces(l, at + 3);
    if (is_tag && sign == '+' && lex_is(l, at + 1, mark)) return at + 3;
    if (!lex_is(l, at, mark)) return 0;
    return at + 2 + (is_tag && lex_char(l, at + 2) == '\n');
}

static void lex_move(jinja_lexer *l, uint32_t to)
{
    l->at = to;
    if (to) l->line_start = l->src[to - 1] == '\n';
}

/* Text before a tag: removes all white space at its end ('-'), or that of the tag's own line. */
static uint32_t lex_trim(const jinja_lexer *l, uint32_t from, uint32_t to, char sign, bool of_line)
{
    uint32_t end = from, line = from;
    for (uint32_t at = from; at < to;) {
        size_t used;
        const bool space = lex_space(l, at, &used);
        if (l->src[at] == '\n') line = at + 1;
        at += (uint32_t)used;
        if (!space) end = at;
    }
    if (sign == '-') return end;
    if (sign == '+' || !of_line || end > line || (line == from && !l->line_start)) return to;
    return line;
}

/* The position after the word of "{% raw %}" or its like; 0: not such a tag. */
static uint32_t lex_raw(const jinja_lexer *l, uint32_t at, const char *word)
{
    at += 2;
    if (lex_char(l, at) == '-' || lex_char(l, at) == '+') at++;
    at = lex_spaces(l, at);
    return lex_is(l, at, word) ? lex_spaces(l, at + (uint32_t)strlen(word)) : 0;
}

static bool lex_data(jinja_lexer *l, jinja_token *out)
{
    const uint32_t from = l->at;
    const bool raw = l->state == 'r';
    uint32_t at = from, close = 0;
    for (; at < l->len; at++)
        if (raw) {
            uint32_t end;
            if (lex_is(l, at, "{%") && (end = lex_raw(l, at, "endraw")) &&
                (close = lex_close(l, end, "%}", true)))
                break;
        } else if (l->src[at] == '{' && at + 1 < l->len && strchr("{%#", l->src[at + 1]) && l->src[at + 1]) {
            break;
        }
    *out = (jinja_token){ .kind = JINJA_DATA, .at = from, .n = l->len - from };
    if (at >= l->len) {
        if (raw) l->error = "a raw block is not closed";
        l->at = l->len;
        return out->n > 0 && !l->error;
    }
    const char mark = l->src[at + 1], sign = lex_char(l, at + 2);
    out->n = lex_trim(l, from, at, sign, mark != '{') - from;
    if (raw) {
        lex_move(l, close);
        l->state = 'd';
    } else if (mark == '#') {
        uint32_t end = at + 2 + (sign == '-' || sign == '+');
        for (; end < l->len && !(close = lex_close(l, end, "#}", true)); end++) { }
        if (!close) {
            l->error = "a comment is not closed";
            l->at = at;
        } else {
            lex_move(l, close);
        }
    } else if (mark == '%' && (close = lex_raw(l, at, "raw")) &&
               (lex_is(l, close, "%}") || lex_is(l, close, "-%}"))) {
        lex_move(l, lex_is(l, close, "%}") ? close + 2 : lex_spaces(l, close + 3));
        l->state = 'r';
    } else {
        lex_move(l, at + 2 + (sign == '-' || sign == '+'));
        l->state = mark == '{' ? 'V' : 'T';
        l->n_open = 0;
    }
    return out->n > 0;
}

static bool lex_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           (c & 0x80);
}
static bool lex_digit(char c) { return c >= '0' && c <= '9'; }
static uint32_t lex_digits(const jinja_lexer *l, uint32_t at)
{
    while (lex_digit(lex_char(l, at)) || (lex_char(l, at) == '_' && lex_digit(lex_char(l, at + 1)))) at++;
    return at;
}

static void lex_number(jinja_lexer *l, jinja_token *out)
{
    uint32_t at = lex_digits(l, l->at);
    const char mark = lex_char(l, l->at + 1);
    out->kind = JINJA_NUMBER;
    if (l->src[l->at] == '0' && mark && strchr("xXoObB", mark) && at == l->at + 1)
        for (at++; lex_word(lex_char(l, at)); at++) { }
    else if (l->at && l->src[l->at - 1] == '.') { }     /* x.0 is an item, and so is what follows it */
    else {
        if (lex_char(l, at) == '.' && lex_digit(lex_char(l, at + 1)))
            out->kind = JINJA_REAL, at = lex_digits(l, at + 1);
        if (lex_char(l, at) == 'e' || lex_char(l, at) == 'E') {
            const uint32_t e = at + 1 + (lex_char(l, at + 1) == '+' || lex_char(l, at + 1) == '-');
            if (lex_digit(lex_char(l, e))) out->kind = JINJA_REAL, at = lex_digits(l, e);
        }
    }
    l->at = at;
}

static void lex_string(jinja_lexer *l, jinja_token *out)
{
    const char quote = l->src[l->at];
    uint32_t at = l->at + 1;
    for (; at < l->len && l->src[at] != quote; at++)
        if (l->src[at] == '\\') at++;
    if (at >= l->len) {
        l->error = "a string is not closed";
        return;
    }
    *out = (jinja_token){ .kind = JINJA_STRING, .at = l->at + 1, .n = at - l->at - 1 };
    l->at = at + 1;
}

static void lex_sign(jinja_lexer *l, jinja_token *out)
{
    static const struct { char text[3]; uint8_t sign; } twos[] = {
        { "==", JINJA_EQ }, { "!=", JINJA_NE },  { "<=", JINJA_LE },
        { ">=", JINJA_GE }, { "**", JINJA_POW }, { "//", JINJA_FLOOR },
    };
    const char c = l->src[l->at];
    out->kind = JINJA_SIGN;
    for (size_t i = 0; i < QSF_ARRAY_LEN(twos); i++)
        if (lex_is(l, l->at, twos[i].text)) {
            out->sign = twos[i].sign;
            l->at += 2;
            return;
        }
    if (!strchr("+-/*%~[](){}><=.:|,;", c) || !c) l->error = "unexpected character";
    else if (strchr("([{", c)) {
        if (l->n_open == QSF_JINJA_DEPTH) l->error = "too many brackets are open";
        else l->open[l->n_open++] = c == '(' ? ')' : c == '[' ? ']' : '}';
    } else if (strchr(")]}", c)) {
        if (!l->n_open || l->open[--l->n_open] != c) l->error = "unmatched closing bracket";
    }
    out->sign = (uint8_t)c;
    l->at++;
}

void qsf_jinja_lex(jinja_lexer *l, jinja_token *out)
{
    while (l->state == 'd' || l->state == 'r') {
        if (l->at >= l->len && l->state == 'r') l->error = "a raw block is not closed";
        if (l->error || l->at >= l->len) goto end;
        if (lex_data(l, out)) return;
        if (l->error) goto end;
    }
    *out = (jinja_token){ .at = l->at };
    if (l->error) goto end;
    if (l->state == 'V' || l->state == 'T') {
        out->kind = l->state == 'V' ? JINJA_VAR_BEGIN : JINJA_TAG_BEGIN;
        l->state = l->state == 'V' ? 'v' : 't';
        return;
    }
    l->at = lex_spaces(l, l->at);
    out->at = l->at;
    if (l->at >= l->len) {
        l->error = "a tag is not closed";
        goto end;
    }
    const bool is_tag = l->state == 't';
    const uint32_t close = l->n_open ? 0 : lex_close(l, l->at, is_tag ? "%}" : "}}", is_tag);
    const char c = l->src[l->at];
    if (close) {
        out->kind = is_tag ? JINJA_TAG_END : JINJA_VAR_END;
        lex_move(l, close);
        l->state = 'd';
        return;
    }
    if (lex_digit(c)) lex_number(l, out);
    else if (lex_word(c)) {
        out->kind = JINJA_NAME;
        for (size_t used; lex_word(lex_char(l, l->at)); l->at += (uint32_t)used) {
            const uint32_t letter = qsf_utf8_decode(l->src + l->at, l->len - l->at, &used);
            const bool more = qsf_is_number(letter) || qsf_class_of(letter) == QSF_C_MARK || letter == 0xb7;
            const bool odd = letter == 0x1885 || letter == 0x1886 || letter == 0x2118 || letter == 0x212e;
            if (letter >= 0x80 && !qsf_is_letter(letter) && !odd && (!more || l->at == out->at))
                l->error = "a name contains an invalid character";
        }
    } else if (c == '\'' || c == '"') lex_string(l, out);
    else lex_sign(l, out);
    if (out->kind != JINJA_STRING) out->n = l->at - out->at;
    if (!l->error) return;
end:
    *out = (jinja_token){ .kind = JINJA_END, .at = QSF_MIN(l->at, l->len) };
}
