/* Compiles the regular expressions of a tokenizer.json (Oniguruma syntax) to instructions of
 * core/tokens/steps.h.
 * SPDX-License-Identifier: MIT
 *
 * Instructions are emitted directly into a list; a quantifier moves or copies the instructions that
 * it repeats.  Unsupported syntax is an error that names it. */
#include "read/hf_regex.h"
#include "text/unicode.h"

#ifdef QSF_HAVE_YYJSON

enum { REGEX_CODE = 1 << 12, REGEX_DEPTH = 24, REGEX_REPEAT = 256 };

typedef struct re_build {
    steps_build *s;
    const char  *src, *p;
    uint32_t     n, depth;
    bool         any_case, failed;
    uint32_t     code[REGEX_CODE][3];
    points       set[4];                /* one per level of nested brackets */
    points       part;                  /* a class, or the case variants of characters */
} re_build;

static void re_fail(re_build *r, const char *what)
{
    if (!r->failed && !r->s->st)
        r->s->st = qsf_fail(r->s->err, QSF_E_UNSUPPORTED, "tokenizer.json: %s at character %llu of the "
                            "expression "
                            "\"%.200s\"", what, (unsigned long long)(r->p - r->src) + 1, r->src);
    r->failed = true;
}

static void re_put(re_build *r, uint32_t op, uint32_t a, uint32_t b)
{
    if (r->n == REGEX_CODE) {
        re_fail(r, "too many instructions");
        return;
    }
    r->code[r->n][0] = op;
    r->code[r->n][1] = a;
    r->code[r->n++][2] = b;
}

static void re_set(re_build *r, const uint32_t *p) { re_put(r, RE_SET, qsf_steps_set_add(r->s, p), 0); }

/* Adds `by` to the jump targets >= `from` of instructions [begin, end). */
static void re_move(re_build *r, uint32_t begin, uint32_t end, uint32_t from, uint32_t by)
{
    for (uint32_t i = begin; i < end; i++) {
        uint32_t *c = r->code[i];
        if ((c[0] == RE_JUMP || c[0] == RE_SPLIT) && c[1] >= from) c[1] += by;
        if ((c[0] == RE_SPLIT || c[0] == RE_LOOK) && c[2] >= from) c[2] += by;
    }
}

/* Inserts one instruction, moving the ones after it. */
static void re_insert(re_build *r, uint32_t at, uint32_t op, uint32_t a, uint32_t b)
{
    re_put(r, RE_MATCH, 0, 0);
    if (r->failed) return;
    memmove(r->code[at + 1], r->code[at], (r->n - 1 - at) * sizeof r->code[0]);
    re_move(r, at + 1, r->n, at, 1);
    r->code[at][0] = op;
    r->code[at][1] = a;
    r->code[at][2] = b;
}

static void re_copy(re_build *r, uint32_t begin, uint32_t end)
{
    const uint32_t to = r->n;
    for (uint32_t i = begin; i < end && !r->failed; i++) re_put(r, r->code[i][0], r->code[i][1],
                                                                r->code[i][2]);
    if (!r->failed) re_move(r, to, r->n, begin, to - begin);
}

/* ---- characters ---- */

static uint32_t re_next(re_build *r)
{
    size_t used;
    if (!*r->p) return 0;
    const uint32_t c = qsf_utf8_decode(r->p, strlen(r->p), &used);
    r->p += used;
    return c;
}

static uint32_t re_hex(re_build *r, int least, int most)
{
    uint32_t v = 0;
    int n = 0;
    for (; n < most && *r->p && strchr("0123456789abcdefABCDEF", *r->p); n++, r->p++)
        v = v * 16 + (uint32_t)(*r->p <= '9' ? *r->p - '0' : (*r->p | 32) - 'a' + 10);
    if (n < least || v > 0x10ffff) re_fail(r, "a number that is not a character");
    return v > 0x10ffff ? 0 : v;
}

/* After the backslash of "\p{L}": adds the property to p. */
static void re_property(re_build *r, uint32_t *p)
{
    uint32_t *part = r->part;
    char name[40];
    const bool not = *r->p++ == 'P';
    const char *end = *r->p == '{' ? strchr(r->p, '}') : NULL;
    const size_t len = end ? (size_t)(end - r->p) - 1 : 0;
    memset(part, 0, sizeof r->part);
    if (!len || len >= sizeof name) {
        re_fail(r, "a property without a name");
        return;
    }
    memcpy(name, r->p + 1, len);
    name[len] = 0;
    if (!qsf_points_property(part, name)) {
        char text[80];
        qsf_format(text, sizeof text, "the property \"%s\", which is not supported,", name);
        re_fail(r, text);
    }
    for (size_t i = 0; i < POINTS_WORDS; i++) p[i] |= not ? ~part[i] : part[i];
    r->p = end + 1;
}

/* Adds the class \d, \w or \s to p; false: c is none of them. */
static bool re_class(re_build *r, char c, uint32_t *p)
{
    uint32_t *part = r->part;
    points_is *is = (c | 32) == 'd' ? qsf_points_digit : (c | 32) == 'w' ? qsf_points_word_onig
                  : (c | 32) == 's' ? qsf_points_space : NULL;
    if (!is) return false;
    memset(part, 0, sizeof r->part);
    qsf_points_add_if(part, is);
    for (size_t i = 0; i < POINTS_WORDS; i++) p[i] |= c & 32 ? part[i] : ~part[i];
    return true;
}

/* The character that an escape stands for, after its letter. */
static uint32_t re_escaped(re_build *r, char c)
{
    switch (c) {
    case 'n': return '\n';
    case 'r': return '\r';
    case 't': return '\t';
    case 'f': return '\f';
    case 'v': return '\v';
    case 'a': return '\a';
    case 'e': return 27;
    case 'u': return re_hex(r, 4, 4);
    case 'x':
        if (*r->p != '{') return re_hex(r, 1, 2);
        r->p++;
        {
            const uint32_t v = re_hex(r, 1, 8);
            if (*r->p == '}') r->p++;
            else re_fail(r, "a number that is not a character");
            return v;
        }
    default:
        if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
            re_fail(r, "an escape that this version does not support");
        r->p--;
        return re_next(r);
    }
}

/* Adds all case variants of the characters in p. */
static void re_fold(re_build *r, uint32_t *p)
{
    uint32_t *low = r->part;
    memset(low, 0, sizeof r->part);
    for (uint32_t c = 0; c < 0x1f000; c++)
        if (p[c / 32] >> c % 32 & 1) qsf_points_add(low, c == 0x17f ? 's' : qsf_lower_case(c));
    for (uint32_t c = 0; c < 0x1f000; c++) {
        const uint32_t l = c == 0x17f ? 's' : qsf_lower_case(c);
        if (low[l / 32] >> l % 32 & 1) qsf_points_add(p, c);
    }
}

static void re_char(re_build *r, uint32_t c)
{
    if (!r->any_case) {
        re_put(r, RE_CHAR, c, 0);
        return;
    }
    memset(r->set[0], 0, sizeof r->set[0]);
    qsf_points_add(r->set[0], c);
    re_fold(r, r->set[0]);
    re_set(r, r->set[0]);
}

/* ---- brackets ---- */

/* After the first bracket of "[:alpha:]". */
static bool re_posix(re_build *r, uint32_t *p)
{
    static const struct { const char *name, *property; } names[] = {
        { "alpha", "L" }, { "digit", "Nd" }, { "punct", "P" }, { "upper", "Lu" }, { "lower", "Ll" },
    };
    if (!strncmp(r->p, ":space:]", 8)) {
        qsf_points_add_if(p, qsf_points_space);
        r->p += 8;
        return true;
    }
    for (size_t i = 0; i < QSF_ARRAY_LEN(names); i++) {
        const size_t n = strlen(names[i].name);
        if (*r->p != ':' || strncmp(r->p + 1, names[i].name, n) || strncmp(r->p + 1 + n, ":]", 2)) continue;
        r->p += n + 3;
        /* here symbols count as punctuation */
        if (names[i].property[0] == 'P') qsf_points_property(p, "S");
        return qsf_points_property(p, names[i].property);
    }
    return false;
}

/* A single character, or the end of a range that c begins. */
static void re_range(re_build *r, uint32_t *p, uint32_t c)
{
    uint32_t last = c;
    if (r->p[0] == '-' && r->p[1] && r->p[1] != ']') {
        r->p++;
        last = re_next(r);
        if (last == '\\') last = re_escaped(r, *r->p ? *r->p++ : 0);
        if (last < c) re_fail(r, "a range that ends before it begins");
    }
    for (; c <= last; c++) qsf_points_add(p, c);
}

/* Reads a bracket expression into r->set[depth], from after its "[" to after its "]". */
static void re_brackets(re_build *r, uint32_t depth)
{
    uint32_t *p = r->set[depth];
    const bool not = *r->p == '^';
    r->p += not;
    memset(p, 0, sizeof r->set[0]);
    for (bool first = true; (*r->p != ']' || first) && !r->failed; first = false) {
        const uint32_t c = re_next(r);
        if (!c) {
            re_fail(r, "a bracket that is not closed");
        } else if (c == '[' && *r->p == ':') {
            if (!re_posix(r, p)) re_fail(r, "a POSIX class that this version does not support");
        } else if (c == '[') {
            if (depth + 1 == QSF_ARRAY_LEN(r->set)) re_fail(r, "brackets in brackets in brackets");
            else re_brackets(r, depth + 1);
            for (size_t i = 0; !r->failed && i < POINTS_WORDS; i++) p[i] |= r->set[depth + 1][i];
        } else if (c == '&' && *r->p == '&') {
            re_fail(r, "an intersection of classes");
        } else if (c != '\\') {
            re_range(r, p, c);
        } else if (*r->p == 'p' || *r->p == 'P') {
            re_property(r, p);
        } else if (*r->p && !re_class(r, *r->p, p)) {
            const char letter = *r->p++;
            re_range(r, p, letter == 'b' ? 8 : re_escaped(r, letter));
        } else if (*r->p) {
            r->p++;
        }
    }
    r->p++;
    if (r->any_case && !r->failed) re_fold(r, p);
    for (size_t i = 0; not && i < POINTS_WORDS; i++) p[i] = ~p[i];
}

/* ---- structure ---- */

static void re_alternatives(re_build *r);

/* A lookbehind may contain one character or class only. */
static void re_behind(re_build *r, uint32_t begin, bool not)
{
    const uint32_t op = r->n == begin + 1 ? r->code[begin][0] : RE_MATCH, a = r->code[begin][1];
    if (r->failed) return;
    if (op != RE_CHAR && op != RE_SET) {
        re_fail(r, "a lookbehind of more than one character");
        return;
    }
    r->n = begin;
    if (op == RE_CHAR) {
        memset(r->set[0], 0, sizeof r->set[0]);
        qsf_points_add(r->set[0], a);
    }
    re_put(r, RE_BEHIND, op == RE_SET ? a : qsf_steps_set_add(r->s, r->set[0]), not);
}

/* Reads a group from after its "(". */
static void re_group(re_build *r)
{
    static const char *const opens[] = { "?:", "?i:", "?=", "?!", "?>", "?<=", "?<!", "?-i:", "?i)", "" };
    const bool any_case = r->any_case;
    const uint32_t begin = r->n;
    size_t kind = 0;
    while (*opens[kind] && strncmp(r->p, opens[kind], strlen(opens[kind]))) kind++;
    if (kind == 9 && *r->p == '?') re_fail(r, "a kind of group that this version does not support");
    r->p += strlen(opens[kind]);
    if (kind == 1 || kind == 8) r->any_case = true;
    if (kind == 7) r->any_case = false;
    if (kind == 8) return;                      /* applies up to the end of the enclosing group */
    const bool look = kind >= 2 && kind <= 4;
    if (look) re_put(r, RE_LOOK, kind == 3 ? 1 : kind == 4 ? 2 : 0, 0);
    if (++r->depth > REGEX_DEPTH) re_fail(r, "groups nested too deep");
    else re_alternatives(r);
    r->depth--;
    if (*r->p != ')') re_fail(r, "a group that is not closed");
    else r->p++;
    r->any_case = any_case;
    if (look) re_put(r, RE_MATCH, 0, 0);
    if (look && !r->failed) r->code[begin][2] = r->n;
    if (kind == 5 || kind == 6) re_behind(r, begin, kind == 6);
}

static void re_escape(re_build *r)
{
    const char c = *r->p;
    uint32_t *p = r->set[0];
    memset(p, 0, sizeof r->set[0]);
    if (!c) {
        re_fail(r, "a backslash alone");
        return;
    }
    if (c == 'p' || c == 'P') {
        re_property(r, p);
        if (r->any_case) re_fold(r, p);
        if (!r->failed) re_set(r, p);
        return;
    }
    r->p++;
    if (c == 'b' || c == 'B') re_put(r, RE_BOUND, qsf_steps_set_of(r->s, qsf_points_word_onig), c == 'B');
    else if (c == 'A') re_put(r, RE_BEGIN, 0, 0);
    else if (c == 'z') re_put(r, RE_END, 0, 0);
    else if (re_class(r, c, p)) re_set(r, p);
    else re_char(r, re_escaped(r, c));
}

static void re_atom(re_build *r)
{
    const uint32_t c = re_next(r);
    switch (c) {
    case '(': re_group(r); break;
    case '\\': re_escape(r); break;
    case '^': re_put(r, RE_BEGIN, 1, 0); break;
    case '$': re_put(r, RE_END, 1, 0); break;
    case '[':
        re_brackets(r, 0);
        if (!r->failed) re_set(r, r->set[0]);
        break;
    case '.':
        memset(r->set[0], 255, sizeof r->set[0]);
        r->set[0][0] &= ~(1u << '\n');
        re_set(r, r->set[0]);
        break;
    case '*': case '+': case '?': re_fail(r, "a repetition of nothing"); break;
    default: re_char(r, c);
    }
}

/* Reads "{2,3}", "*" and so on into the two bounds, *most UINT32_MAX if unbounded; false: none of
 * these. */
static bool re_times(re_build *r, uint32_t *least, uint32_t *most)
{
    char *end;
    if (*r->p == '*' || *r->p == '+' || *r->p == '?') {
        *least = *r->p == '+';
        *most = *r->p++ == '?' ? 1 : UINT32_MAX;
        return true;
    }
    if (*r->p != '{' || !((r->p[1] >= '0' && r->p[1] <= '9') || r->p[1] == ',')) return false;
    *least = (uint32_t)QSF_MIN(strtoul(r->p + 1, &end, 10), 100000ul);
    *most = *least;
    if (*end == ',') {
        const char *from = end + 1;
        *most = (uint32_t)QSF_MIN(strtoul(from, &end, 10), 100000ul);
        if (end == from) *most = UINT32_MAX;
    }
    if (*end != '}') return false;
    r->p = end + 1;
    if (*least > REGEX_REPEAT || (*most != UINT32_MAX && (*most > REGEX_REPEAT || *most < *least)))
        re_fail(r, "a repetition of too many times");
    return true;
}

static void re_split(re_build *r, uint32_t at, uint32_t once, uint32_t on, bool lazy)
{
    r->code[at][1] = lazy ? on : once;
    r->code[at][2] = lazy ? once : on;
}

/* Repeats the instructions from begin on. */
static void re_repeat(re_build *r, uint32_t begin, uint32_t least, uint32_t most, bool lazy)
{
    const uint32_t len = r->n - begin;
    if (r->failed) return;
    if (most == 0) {
        r->n = begin;
        return;
    }
    for (uint32_t i = 1; i < least; i++) re_copy(r, begin, begin + len);
    if (most == UINT32_MAX && least) {
        const uint32_t last = r->n - len;
        re_put(r, RE_SPLIT, 0, 0);
        if (!r->failed) re_split(r, r->n - 1, last, r->n, lazy);
        return;
    }
    if (most == UINT32_MAX) {
        re_insert(r, begin, RE_SPLIT, 0, 0);
        re_put(r, RE_JUMP, begin, 0);
        if (!r->failed) re_split(r, begin, begin + 1, r->n, lazy);
        return;
    }
    /* if least is 0, the first copy is optional too */
    const uint32_t first = r->n;
    if (!least) re_insert(r, begin, RE_SPLIT, 0, 0);
    const uint32_t from = begin + !least;
    for (uint32_t i = QSF_MAX(least, 1); i < most && !r->failed; i++) {
        re_put(r, RE_SPLIT, 0, 0);
        re_copy(r, from, from + len);
    }
    for (uint32_t at = least ? first : begin; at < r->n && !r->failed; at += 1 + len)
        re_split(r, at, at + 1, r->n, lazy);
}

static void re_sequence(re_build *r)
{
    while (*r->p && *r->p != '|' && *r->p != ')' && !r->failed) {
        const uint32_t begin = r->n;
        uint32_t least, most;
        re_atom(r);
        while (!r->failed && re_times(r, &least, &most)) {
            const bool braces = r->p[-1] == '}', lazy = *r->p == '?', keep = *r->p == '+' && !braces;
            r->p += lazy || keep;
            re_repeat(r, begin, least, most, lazy);
            if (!keep || r->failed) continue;
            re_insert(r, begin, RE_LOOK, 2, 0);
            re_put(r, RE_MATCH, 0, 0);
            if (!r->failed) r->code[begin][2] = r->n;
        }
    }
}

static void re_alternatives(re_build *r)
{
    uint32_t jumps = UINT32_MAX, begin = r->n;          /* a chain of jumps to the end of the group */
    const bool any_case = r->any_case;
    re_sequence(r);
    while (*r->p == '|' && !r->failed) {
        r->p++;
        re_insert(r, begin, RE_SPLIT, begin + 1, 0);
        re_put(r, RE_MATCH, 0, 0);                      /* becomes a jump once the end is known */
        if (r->failed) return;
        r->code[r->n - 1][1] = jumps;
        jumps = r->n - 1;
        r->code[begin][2] = r->n;
        begin = r->n;
        re_sequence(r);
    }
    while (jumps != UINT32_MAX && !r->failed) {
        const uint32_t next = r->code[jumps][1];
        r->code[jumps][0] = RE_JUMP;
        r->code[jumps][1] = r->n;
        jumps = next;
    }
    r->any_case = any_case;
}

static uint32_t re_finish(re_build *r)
{
    steps_build *s = r->s;
    re_put(r, RE_MATCH, 0, 0);
    if (!s->st) {
        qsf_steps_put(s, &s->expressions, r->n);
        for (uint32_t i = 0; i < r->n; i++)
            for (int k = 0; k < 3; k++) qsf_steps_put(s, &s->expressions, r->code[i][k]);
    }
    qsf_dealloc(s->b->platform, r, sizeof *r);
    return s->n_expressions++;
}

static re_build *re_new(steps_build *s, const char *src)
{
    re_build *r = s->st ? NULL : qsf_alloc(s->b->platform, sizeof *r, "expression", s->err);
    if (!r) {
        if (!s->st) s->st = QSF_E_MEMORY;
        return NULL;
    }
    memset(r, 0, sizeof *r);
    r->s = s;
    r->src = r->p = src;
    return r;
}

uint32_t qsf_steps_regex(steps_build *s, const char *pattern)
{
    re_build *r = re_new(s, pattern);
    if (!r) return 0;
    re_alternatives(r);
    if (*r->p) re_fail(r, "an unmatched closing bracket");
    return re_finish(r);
}

uint32_t qsf_steps_literal(steps_build *s, const char *text)
{
    re_build *r = re_new(s, text);
    if (!r) return 0;
    while (*r->p) re_put(r, RE_CHAR, re_next(r), 0);
    return re_finish(r);
}

uint32_t qsf_steps_class(steps_build *s, points_is *is, bool runs)
{
    re_build *r = re_new(s, "");
    if (!r) return 0;
    re_put(r, RE_SET, qsf_steps_set_of(s, is), 0);
    if (runs) re_put(r, RE_SPLIT, 0, 2);
    return re_finish(r);
}

#endif
