/* JSON: parses a document to a flat list of nodes.
 * SPDX-License-Identifier: MIT */
#include "text/json.h"
#include "text/decimal.h"
#include "text/unicode.h"

typedef enum json_want {
    WANT_VALUE, WANT_FIRST,         /* a value; a value or "]" */
    WANT_KEY, WANT_FIRST_KEY,       /* a key; a key or "}" */
    WANT_MORE                       /* "," or the end of what is open */
} json_want;

typedef struct json_reader {
    const char *src, *what;
    size_t      len, at;
    qsf_json   *out;
    qsf_error  *err;
    size_t      n_text;
    uint32_t    open[QSF_JSON_DEPTH];   /* the lists and objects around the place, by their nodes */
    uint32_t    depth;
} json_reader;

static qsf_status json_bad(const json_reader *r, size_t at, const char *why)
{
    size_t line = 1, column = 1;
    for (size_t i = 0; i < at && i < r->len; i++) {
        column = r->src[i] == '\n' ? 1 : column + ((r->src[i] & 0xc0) != 0x80);
        line += r->src[i] == '\n';
    }
    return qsf_fail(r->err, QSF_E_CORRUPT, "%s: line %llu, column %llu: %s", r->what,
                    (unsigned long long)line, (unsigned long long)column, why);
}

static void json_blanks(json_reader *r)
{
    while (r->at < r->len && (r->src[r->at] == ' ' || r->src[r->at] == '\n' || r->src[r->at] == '\t'
                              || r->src[r->at] == '\r')) r->at++;
}

static qsf_status json_node(json_reader *r, qsf_json_type type, qsf_json_node **out)
{
    qsf_json *j = r->out;
    if (j->n_nodes == j->cap) {
        const uint32_t cap = j->cap ? 2 * j->cap : 64;
        qsf_json_node *nodes = NULL;
        if (cap > j->cap) nodes = qsf_alloc_array(j->platform, cap, sizeof *nodes, r->what, r->err);
        if (!nodes) return QSF_E_MEMORY;
        if (j->n_nodes) memcpy(nodes, j->nodes, j->n_nodes * sizeof *nodes);
        qsf_dealloc(j->platform, j->nodes, (uint64_t)j->cap * sizeof *nodes);
        j->nodes = nodes;
        j->cap = cap;
    }
    *out = &j->nodes[j->n_nodes++];
    **out = (qsf_json_node){ .type = (uint8_t)type, .skip = 1, .at = (uint32_t)r->at };
    return QSF_OK;
}

/* ---- texts ---- */

static bool json_hex4(const json_reader *r, size_t at, uint32_t *out)
{
    *out = 0;
    if (r->len - at < 4) return false;
    for (size_t i = at; i < at + 4; i++) {
        const char c = r->src[i];
        const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10
                          : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
        if (digit < 0) return false;
        *out = *out << 4 | (uint32_t)digit;
    }
    return true;
}

/* \u and four digits, or a surrogate pair of these; at is after the "\u". */
static qsf_status json_unicode(json_reader *r, char *text)
{
    uint32_t c, low;
    if (!json_hex4(r, r->at, &c)) return json_bad(r, r->at, "four hexadecimal digits follow \\u");
    r->at += 4;
    if (c >= 0xd800 && c < 0xdc00) {
        if (r->len - r->at < 6 || r->src[r->at] != '\\' || r->src[r->at + 1] != 'u'
            || !json_hex4(r, r->at + 2, &low) || low < 0xdc00 || low > 0xdfff)
            return json_bad(r, r->at, "an unpaired surrogate in \\u");
        r->at += 6;
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    } else if (c >= 0xdc00 && c < 0xe000) {
        return json_bad(r, r->at - 4, "an unpaired surrogate in \\u");
    }
    r->n_text += qsf_utf8_encode(c, text + r->n_text);
    return QSF_OK;
}

static qsf_status json_escape(json_reader *r, char *text)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char c = r->at + 1 < r->len ? r->src[r->at + 1] : 0;
    const char *known = c ? strchr(from, c) : NULL;
    if (c == 'u') {
        r->at += 2;
        return json_unicode(r, text);
    }
    if (!known) return json_bad(r, r->at, "unknown escape in JSON");
    text[r->n_text++] = to[known - from];
    r->at += 2;
    return QSF_OK;
}

/* Whole characters up to a quote, a backslash or something that may not be there. */
static qsf_status json_plain(json_reader *r, char *text)
{
    char again[4];
    size_t used;
    const uint32_t c = qsf_utf8_decode(r->src + r->at, r->len - r->at, &used);
    if (c < 32) return json_bad(r, r->at, "a control character in a string must be escaped");
    if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000) || qsf_utf8_encode(c, again) != used)
        return json_bad(r, r->at, "a byte that is not UTF-8");
    memcpy(text + r->n_text, r->src + r->at, used);
    r->n_text += used;
    r->at += used;
    return QSF_OK;
}

static qsf_status json_text(json_reader *r)
{
    qsf_json_node *v;
    char *text = r->out->text;
    qsf_status st = json_node(r, QSF_JSON_TEXT, &v);
    if (st) return st;
    v->text = text + r->n_text;
    for (r->at++; !st; ) {
        if (r->at >= r->len) return json_bad(r, v->at, "this string is not closed");
        if (r->src[r->at] == '"') break;
        st = r->src[r->at] == '\\' ? json_escape(r, text) : json_plain(r, text);
    }
    if (st) return st;
    r->at++;
    v->n = (uint32_t)(size_t)(text + r->n_text - v->text);
    text[r->n_text++] = 0;
    return QSF_OK;
}

/* ---- numbers and words ---- */

static size_t json_digits(const json_reader *r, size_t at)
{
    while (at < r->len && r->src[at] >= '0' && r->src[at] <= '9') at++;
    return at;
}

static qsf_status json_digits_end(json_reader *r, size_t *at)
{
    const size_t end = json_digits(r, *at);
    if (end == *at) return json_bad(r, *at, "a digit is missing");
    *at = end;
    return QSF_OK;
}

static qsf_status json_number(json_reader *r)
{
    qsf_json_node *v;
    size_t at = r->at + (r->src[r->at] == '-');
    qsf_status st = json_node(r, QSF_JSON_NUMBER, &v);
    if (st) return st;
    if (at < r->len && r->src[at] == '0') at++;
    else if ((st = json_digits_end(r, &at))) return st;
    if (at < r->len && r->src[at] == '.') {
        at++;
        if ((st = json_digits_end(r, &at))) return st;
    }
    if (at < r->len && (r->src[at] == 'e' || r->src[at] == 'E')) {
        at++;
        at += at < r->len && (r->src[at] == '+' || r->src[at] == '-');
        if ((st = json_digits_end(r, &at))) return st;
    }
    v->n = (uint32_t)(at - r->at);
    v->text = r->out->text + r->n_text;
    memcpy(r->out->text + r->n_text, r->src + r->at, v->n);
    r->n_text += v->n;
    r->out->text[r->n_text++] = 0;
    r->at = at;
    return QSF_OK;
}

static qsf_status json_word(json_reader *r)
{
    static const struct { const char *word; qsf_json_type type; } words[] = {
        { "null", QSF_JSON_NULL }, { "false", QSF_JSON_FALSE }, { "true", QSF_JSON_TRUE },
    };
    qsf_json_node *v;
    for (size_t i = 0; i < QSF_ARRAY_LEN(words); i++) {
        const size_t n = strlen(words[i].word);
        if (r->len - r->at < n || memcmp(r->src + r->at, words[i].word, n)) continue;
        const qsf_status st = json_node(r, words[i].type, &v);
        r->at += n;
        return st;
    }
    return json_bad(r, r->at, "a value is expected here");
}

/* ---- lists and objects ---- */

static qsf_status json_open(json_reader *r, bool object, json_want *want)
{
    qsf_json_node *v;
    if (r->depth == QSF_JSON_DEPTH)
        return json_bad(r, r->at, "this is nested too deep (the maximum is 512 levels)");
    const qsf_status st = json_node(r, object ? QSF_JSON_OBJECT : QSF_JSON_LIST, &v);
    if (st) return st;
    r->open[r->depth++] = r->out->n_nodes - 1;
    r->at++;
    *want = object ? WANT_FIRST_KEY : WANT_FIRST;
    return QSF_OK;
}

static void json_close(json_reader *r, json_want *want)
{
    const uint32_t i = r->open[--r->depth];
    r->out->nodes[i].skip = r->out->n_nodes - i;
    r->at++;
    *want = WANT_MORE;
}

static qsf_status json_value(json_reader *r, json_want *want)
{
    const char c = r->at < r->len ? r->src[r->at] : 0;
    if (*want == WANT_FIRST && c == ']') {
        json_close(r, want);
        return QSF_OK;
    }
    if (r->depth) {
        qsf_json_node *in = &r->out->nodes[r->open[r->depth - 1]];
        in->n += in->type == QSF_JSON_LIST;
    }
    if (c == '{' || c == '[') return json_open(r, c == '{', want);
    *want = WANT_MORE;
    return c == '"' ? json_text(r) : c == '-' || (c >= '0' && c <= '9') ? json_number(r) : json_word(r);
}

static qsf_status json_key(json_reader *r, json_want *want)
{
    const char c = r->at < r->len ? r->src[r->at] : 0;
    if (*want == WANT_FIRST_KEY && c == '}') {
        json_close(r, want);
        return QSF_OK;
    }
    if (c != '"') return json_bad(r, r->at, "a key in quotes is expected here");
    const qsf_status st = json_text(r);
    if (st) return st;
    json_blanks(r);
    if (r->at >= r->len || r->src[r->at] != ':') return json_bad(r, r->at, "a colon is expected here");
    r->at++;
    r->out->nodes[r->open[r->depth - 1]].n++;
    *want = WANT_VALUE;
    return QSF_OK;
}

/* After a value. */
static qsf_status json_more(json_reader *r, json_want *want)
{
    const bool object = r->out->nodes[r->open[r->depth - 1]].type == QSF_JSON_OBJECT;
    const char c = r->at < r->len ? r->src[r->at] : 0;
    if (c == (object ? '}' : ']')) json_close(r, want);
    else if (c == ',') r->at++, *want = object ? WANT_KEY : WANT_VALUE;
    else return json_bad(r, r->at, object ? "a comma or \"}\" is expected here"
                                          : "a comma or \"]\" is expected here");
    return QSF_OK;
}

static qsf_status json_all(json_reader *r)
{
    qsf_status st = QSF_OK;
    json_want want = WANT_VALUE;
    do {
        json_blanks(r);
        st = want == WANT_MORE ? json_more(r, &want)
             : want == WANT_KEY || want == WANT_FIRST_KEY ? json_key(r, &want) : json_value(r, &want);
    } while (!st && (r->depth || want != WANT_MORE));
    if (st) return st;
    json_blanks(r);
    return r->at < r->len ? json_bad(r, r->at, "unexpected text after the value") : QSF_OK;
}

qsf_status qsf_json_read(const qsf_platform *p, const char *text, size_t len, const char *what,
                         qsf_json *out, qsf_error *err)
{
    *out = (qsf_json){ .platform = p };
    if (len > UINT32_MAX - 1) return qsf_fail(err, QSF_E_MEMORY, "%s: a document of 4 GB", what);
    json_reader *r = qsf_alloc(p, sizeof *r, what, err);
    if (!r) return QSF_E_MEMORY;
    *r = (json_reader){ .src = text, .len = len, .what = what, .out = out, .err = err };
    out->n_text = 2 * (uint64_t)len + 1;        /* a digit and its terminating zero */
    qsf_status st = (out->text = qsf_alloc(p, out->n_text, what, err)) ? json_all(r) : QSF_E_MEMORY;
    if (!out->text) out->n_text = 0;
    qsf_dealloc(p, r, sizeof *r);
    if (st) qsf_json_drop(out);
    return st;
}

void qsf_json_drop(qsf_json *j)
{
    if (!j->platform) return;
    qsf_dealloc(j->platform, j->nodes, (uint64_t)j->cap * sizeof *j->nodes);
    qsf_dealloc(j->platform, j->text, j->n_text);
    *j = (qsf_json){ 0 };
}

/* ---- what was read ---- */

const qsf_json_node *qsf_json_member(const qsf_json_node *v, const char *key)
{
    const qsf_json_node *found = NULL, *k = v + 1;
    if (!v || v->type != QSF_JSON_OBJECT) return NULL;
    for (uint32_t i = 0; i < v->n; i++, k = qsf_json_next(k + 1))
        if (qsf_json_is_text(k, key)) found = k + 1;
    return found;
}

bool qsf_json_is_text(const qsf_json_node *v, const char *text)
{
    return v->type == QSF_JSON_TEXT && v->n == strlen(text) && !memcmp(v->text, text, v->n);
}

bool qsf_json_whole(const qsf_json_node *v, int64_t *out)
{
    uint64_t m = 0;
    if (v->type != QSF_JSON_NUMBER) return false;
    const bool minus = v->text[0] == '-';
    const uint64_t most = (uint64_t)INT64_MAX + minus;
    for (const char *c = v->text + minus; *c; c++) {
        if (*c < '0' || *c > '9') return false;
        if (m > (most - (uint64_t)(*c - '0')) / 10) return false;
        m = 10 * m + (uint64_t)(*c - '0');
    }
    *out = minus ? (int64_t)(0 - m) : (int64_t)m;
    return true;
}

double qsf_json_number(const qsf_json_node *v)
{
    const bool minus = v->text[0] == '-';
    const char *digits = v->text + minus, *c = digits;
    int32_t exponent = 0;
    while ((*c >= '0' && *c <= '9') || *c == '.') c++;
    const size_t n = (size_t)(c - digits);
    if (*c) {
        const bool below = c[1] == '-';
        for (c += 1 + (c[1] == '-' || c[1] == '+'); *c; c++)
            if (exponent < 100000) exponent = 10 * exponent + (*c - '0');
        if (below) exponent = -exponent;
    }
    const double x = qsf_decimal_read(digits, n, exponent);
    return minus ? -x : x;
}
