/* How a model writes calls and reasoning, found by rendering its chat template.
 * SPDX-License-Identifier: MIT
 *
 * Conversations with known words ("needles") are rendered; the texts around the needles are the
 * form's texts.  Two calls show what belongs to each call and what to the section: text before both
 * calls belongs to each call, text before only the first one to the section.  Texts are
 * compared in atoms (a mark such as <tool_call> or [ARGS], a word, white space, a character), so
 * that "<a_begin>" and "<b_begin>" have no "_begin>" in common. */
#include "chat/tools.h"

typedef struct tf_span { const char *p; size_t n; } tf_span;

enum { TF_ATOMS = 2048, TF_OUT = 96 << 10, TF_MARK = 64, TF_ID = 9 };

typedef struct tf_work {
    const qsf_platform *platform;
    const char      *source;
    qsf_tool_render  render;
    void            *user;
    qsf_tool_form   *f;
    qsf_text         vars;              /* of the rendering under way */
    tf_span          prompt, end;       /* after the question; after an answer that is text */
    char            *prompt_text, *end_text, *out;      /* [TF_OUT] each */
    uint16_t         atoms[2][TF_ATOMS];
} tf_work;

/* ---- texts ---- */

static tf_span tf_cut(tf_span s, size_t from, size_t to)
{
    return from < to ? (tf_span){ s.p + from, to - from } : (tf_span){ s.p + from, 0 };
}
static size_t tf_find_at(tf_span s, size_t from, const char *needle, size_t len)
{
    for (size_t i = from; len && i + len <= s.n; i++)
        if (s.p[i] == *needle && !memcmp(s.p + i, needle, len)) return i;
    return SIZE_MAX;
}
static size_t tf_find(tf_span s, size_t from, const char *needle)
{
    return tf_find_at(s, from, needle, strlen(needle));
}
static size_t tf_skip(tf_span s, size_t i)
{
    while (i < s.n && qsf_tool_blank(s.p[i])) i++;
    return i;
}
static bool tf_all_blank(tf_span s) { return tf_skip(s, 0) == s.n; }
static bool tf_is_id(tf_span s) { return s.n >= TF_ID && !memcmp(s.p, "qsfid000", TF_ID - 1); }
static void tf_set(qsf_tool_form *f, qsf_tool_text which, tf_span s)
{
    const bool blank = which == QSF_TT_ARGUMENTS || which == QSF_TT_BETWEEN;     /* blanks count there */
    const bool fits = s.n < QSF_TOOL_TEXT_MOST && (blank || !tf_all_blank(s));
    char *to = f->text[which];
    for (size_t i = 0; fits && i < s.n; i++) {
        const bool id = tf_is_id(tf_cut(s, i, s.n));
        *to++ = id ? QSF_TOOL_ID : s.p[i];
        if (id) i += TF_ID - 1;
    }
    *to = 0;
}
static void tf_put(qsf_tool_form *f, qsf_tool_text which, const char *text)
{
    tf_set(f, which, (tf_span){ text, strlen(text) });
}

static bool tf_word(char c)
{
    return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || c == '_'
        || (unsigned char)c >= 0x80;
}

/* A mark at p: <...> without blanks, or [...] of capitals. */
static size_t tf_mark(const char *p, size_t n)
{
    if (*p != '<' && *p != '[') return 0;
    for (size_t i = 1; i < QSF_MIN(n, TF_MARK); i++) {
        if (p[i] == (*p == '<' ? '>' : ']')) return i > 1 ? i + 1 : 0;
        if (qsf_tool_blank(p[i]) || p[i] == *p) return 0;
        if (*p == '[' && !(p[i] >= 'A' && p[i] <= 'Z') && p[i] != '_' && p[i] != '/') return 0;
    }
    return 0;
}

static size_t tf_atom(const char *p, size_t n)
{
    size_t i = tf_mark(p, n);
    if (i) return i;
    for (i = 1; i < n && qsf_tool_blank(*p) && qsf_tool_blank(p[i]);) i++;
    for (; i < n && tf_word(*p) && tf_word(p[i]);) i++;
    return i;
}

/* Where the atoms of s begin, followed by its end; returns their number. */
static size_t tf_atoms(tf_span s, uint16_t *at)
{
    size_t n = 0;
    for (size_t i = 0; i < s.n && n < TF_ATOMS - 1; i += tf_atom(s.p + i, s.n - i)) at[n++] = (uint16_t)i;
    at[n] = (uint16_t)s.n;
    return n;
}

static bool tf_same(tf_span a, tf_span b)
{
    if (a.n && b.n && qsf_tool_blank(*a.p) && qsf_tool_blank(*b.p)) return true;
    return (a.n == b.n && !memcmp(a.p, b.p, a.n)) || (tf_is_id(a) && tf_is_id(b));
}

/* How many bytes of a begin as b does. */
static size_t tf_begin(tf_span a, tf_span b)
{
    size_t i = 0, j = 0;
    while (i < a.n && j < b.n) {
        const size_t x = tf_atom(a.p + i, a.n - i), y = tf_atom(b.p + j, b.n - j);
        if (!tf_same((tf_span){ a.p + i, x }, (tf_span){ b.p + j, y })) break;
        i += x;
        j += y;
    }
    return i;
}

/* How many bytes of a end as b does. */
static size_t tf_end(tf_work *w, tf_span a, tf_span b)
{
    size_t x = tf_atoms(a, w->atoms[0]), y = tf_atoms(b, w->atoms[1]);
    for (; x && y; x--, y--) {
        const uint16_t *i = &w->atoms[0][x - 1], *j = &w->atoms[1][y - 1];
        if (!tf_same(tf_cut(a, i[0], i[1]), tf_cut(b, j[0], j[1]))) break;
    }
    return a.n - w->atoms[0][x];
}

/* What of an answer's rendering is the generation prompt: as far as both are the same, and what the
 * prompt ends with. */
static size_t tf_header(const tf_work *w, tf_span answer)
{
    const size_t same = tf_begin(answer, w->prompt);
    for (size_t n = QSF_MIN(w->prompt.n, answer.n - same); n; n--)
        if (!memcmp(w->prompt.p + w->prompt.n - n, answer.p + same, n)) return same + n;
    return same;
}

/* ---- rendering ---- */

#define TF_USER "{\"role\":\"user\",\"content\":\"qsfuser\"}"
#define TF_TOOLS "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"qsftool\"," \
    "\"description\":\"d\",\"parameters\":{\"type\":\"object\",\"properties\":{\"qsfka\":{" \
    "\"type\":\"string\",\"description\":\"d\"}},\"required\":[\"qsfka\"]}}}],"
#define TF_TEXT "\"content\":\"qsftext\""
#define TF_THINK "\"reasoning_content\":\"qsfthink\",\"reasoning\":\"qsfthink\",\"thinking\":\"qsfthink\""

/* Renders question and answer; answer NULL: the generation prompt.  *out: the text after the
 * question; false: the template refuses. */
static bool tf_render(tf_work *w, bool tools, const char *answer, char *to, tf_span *out)
{
    size_t len;
    w->vars.n = 0;
    qsf_text_put(&w->vars, "{\"functions\":\"\",\"datetime\":\"\",");
    if (tools) qsf_text_put(&w->vars, TF_TOOLS);
    qsf_text_put(&w->vars, "\"messages\":[" TF_USER);
    if (answer) {
        qsf_text_put(&w->vars, ",{\"role\":\"assistant\",");
        qsf_text_put(&w->vars, answer);
        qsf_text_put(&w->vars, "}");
    }
    qsf_text_put(&w->vars, answer ? "],\"add_generation_prompt\":false}"
                                  : "],\"add_generation_prompt\":true}");
    if (w->vars.failed) return false;
    const qsf_status st = w->render(w->user, w->vars.at, to, TF_OUT, &len);
    w->vars.failed = st == QSF_E_MEMORY;
    if (st) return false;
    const tf_span all = { to, len };
    size_t user = SIZE_MAX;
    for (size_t i = 0; (i = tf_find(all, i, "qsfuser")) != SIZE_MAX; i++) user = i;
    if (user == SIZE_MAX) return false;
    *out = tf_cut(all, user + 7, len);
    return true;
}

/* The answer is a function's call, or two. */
static bool tf_render_calls(tf_work *w, int n, bool text, const char *rest, tf_span *out)
{
    static const char *const args[] = { "\"qsfka\":\"qsfva\",\"qsfkb\":\"qsfvb\",\"qsfkc\":4711",
                                        "\"qsfkd\":\"qsfvd\"" };
    qsf_text t = { .platform = w->platform };
    qsf_text_put(&t, rest);
    qsf_text_put(&t, ",\"tool_calls\":[");
    for (int i = 0; i < n; i++) {
        qsf_text_put(&t, i ? ",{\"id\":\"qsfid0002\"" : "{\"id\":\"qsfid0001\"");
        qsf_text_put(&t, ",\"type\":\"function\",\"function\":{\"name\":\"qsfcall");
        qsf_text_put(&t, i ? "b\"" : "a\"");
        qsf_text_put(&t, text ? ",\"arguments\":\"{" : ",\"arguments\":{");
        if (text) qsf_text_json(&t, args[i], strlen(args[i]));
        else qsf_text_put(&t, args[i]);
        qsf_text_put(&t, text ? "}\"}}" : "}}}");
    }
    qsf_text_put(&t, "]");
    const bool ok = !t.failed && tf_render(w, true, t.at, w->out, out) &&
                    tf_find(*out, 0, "qsfcalla") != SIZE_MAX && tf_find(*out, 0, "qsfva") != SIZE_MAX &&
                    (n < 2 || tf_find(*out, 0, "qsfcallb") != SIZE_MAX);
    w->vars.failed |= t.failed;
    qsf_text_drop(&t);
    return ok;
}

/* ---- calls ---- */

/* A call in a rendering: where it begins, its arguments begin, and it ends. */
typedef struct tf_call { size_t name, name_end, begin, args, end; } tf_call;

/* The position after the bracket that closes the one at s.p[from]; SIZE_MAX: not closed. */
static size_t tf_bracket(tf_span s, size_t from)
{
    size_t depth = 0;
    bool text = false;
    for (size_t i = from; i < s.n; i++) {
        const char c = s.p[i];
        if (text && c == '\\') i++;
        else if (c == '"') text = !text;
        else if (text) continue;
        else if (c == '{' || c == '[') depth++;
        else if ((c == '}' || c == ']') && !--depth) return i + 1;
    }
    return SIZE_MAX;
}

static const qsf_json_node *tf_key_of(const qsf_json_node *object, const char *text)
{
    const qsf_json_node *k = qsf_json_first(object);
    for (uint32_t i = 0; i < object->n; i++, k = qsf_json_next(k + 1))
        if (qsf_json_is_text(k + 1, text)) return k;
    return NULL;
}

/* The keys of an object around a call; false: it is none. */
static bool tf_keys(qsf_tool_form *f, const qsf_json_node *v, const char *name)
{
    const qsf_json_node *k, *inner = v;
    if (v->type != QSF_JSON_OBJECT || !v->n) return false;
    f->text[QSF_TT_WRAP_KEY][0] = f->text[QSF_TT_NAME_KEY][0] = f->text[QSF_TT_ID_KEY][0] = 0;
    if (v->n == 1 && qsf_json_is_text(v + 1, name)) return v[2].type == QSF_JSON_OBJECT;
    if (!(k = tf_key_of(v, name))) {
        const qsf_json_node *w = qsf_json_first(v);
        for (uint32_t i = 0; i < v->n && !k; i++, w = qsf_json_next(w + 1)) {
            if (w[1].type != QSF_JSON_OBJECT || !(k = tf_key_of(w + 1, name))) continue;
            inner = w + 1;
            tf_put(f, QSF_TT_WRAP_KEY, w->text);
        }
    }
    if (!k) return false;
    tf_put(f, QSF_TT_NAME_KEY, k->text);
    if ((k = tf_key_of(v, "qsfid0001")) || (k = tf_key_of(v, "qsfid0002"))) {
        tf_put(f, QSF_TT_ID_KEY, k->text);
    } else if (k = qsf_json_first(v), k[1].type == QSF_JSON_TEXT && *k[1].text >= '0'
               && *k[1].text <= '9') {                          /* the template counts */
        tf_put(f, QSF_TT_ID_KEY, k->text);
    }
    k = qsf_json_first(inner);
    for (uint32_t i = 0; i < inner->n; i++, k = qsf_json_next(k + 1))
        if (k[1].type == QSF_JSON_OBJECT) tf_put(f, QSF_TT_ARGUMENTS_KEY, k->text);
    return f->text[QSF_TT_ARGUMENTS_KEY][0];
}

/* The JSON object that the name is in, the outermost one. */
static bool tf_object(tf_work *w, tf_span s, size_t from, const char *name, tf_call *c)
{
    qsf_tool_form best = *w->f;
    bool found = false;
    for (size_t i = c->name; i-- > from && (s.p[i] != '>' || !found);) {
        size_t end;
        qsf_json j;
        if (s.p[i] != '{' || (end = tf_bracket(s, i)) == SIZE_MAX || end < c->name_end) continue;
        const qsf_status st = qsf_json_read(w->platform, s.p + i, end - i, "call", &j, NULL);
        w->vars.failed |= st == QSF_E_MEMORY;
        if (st) continue;
        if (tf_keys(w->f, j.nodes, name)) {
            found = true;
            best = *w->f;
            c->begin = i;
            c->end = end;
        }
        qsf_json_drop(&j);
    }
    *w->f = best;
    return found;
}

static size_t tf_skip_back(tf_span s, size_t i)
{
    while (i && qsf_tool_blank(s.p[i - 1])) i--;
    return i;
}

/* Where arguments of a known style end, if the last value ends at `at`. */
static size_t tf_arguments_end(const qsf_tool_form *f, tf_span s, size_t args, size_t at)
{
    if (f->style == QSF_TOOLS_JSON) return tf_bracket(s, args);
    if (f->style == QSF_TOOLS_TAGS) {
        const ptrdiff_t n = qsf_tool_match(f->text[QSF_TT_VALUE_END], s.p + at, s.n - at);
        return n > 0 ? at + (size_t)n : SIZE_MAX;
    }
    while (at < s.n && s.p[at] != (f->style == QSF_TOOLS_PYTHON ? ')' : '}')) at++;
    return at < s.n ? at + 1 : SIZE_MAX;
}

/* Compares the texts between key and value of a string and of a number: the part that differs names
 * the type. */
static void tf_type(tf_work *w, tf_span text, tf_span number)
{
    size_t end = tf_end(w, text, number), begin = text.n;
    if (number.n < TF_MARK && end < text.n) begin = tf_begin(text, number);
    tf_set(w->f, QSF_TT_VALUE, tf_cut(text, 0, begin));
    tf_set(w->f, QSF_TT_TYPE, tf_cut(text, begin, text.n - end));
    tf_set(w->f, QSF_TT_VALUE_BEGIN, tf_cut(text, begin == text.n ? begin : text.n - end, text.n));
}

/* The style of arguments, seen at those of the first call. */
static bool tf_arguments(tf_work *w, tf_span s, tf_call *c)
{
    qsf_tool_form *f = w->f;
    const size_t k1 = tf_find(s, c->name_end, "qsfka"), v1 = tf_find(s, c->name_end, "qsfva");
    const size_t k2 = tf_find(s, c->name_end, "qsfkb"), n = tf_find(s, c->name_end, "4711");
    if (k1 == SIZE_MAX || v1 < k1 || k2 == SIZE_MAX || k2 < v1 || n == SIZE_MAX || n < k2) return false;
    const tf_span before = tf_cut(s, c->name_end, k1), mid = tf_cut(s, k1 + 5, v1);
    const tf_span between = tf_cut(s, v1 + 5, k2);
    const size_t first = tf_skip(mid, 0);
    size_t open = tf_skip_back(before, before.n);
    const bool quoted = open && before.p[open - 1] == '"' && mid.n && *mid.p == '"';
    if (quoted) open = tf_skip_back(before, open - 1);
    const char bracket = open ? before.p[open - 1] : 0;
    if (first == mid.n) return false;
    if (bracket == '{' && quoted) {
        f->style = QSF_TOOLS_JSON;
    } else if (bracket == '{' && mid.p[first] == ':') {
        f->style = QSF_TOOLS_QUOTED;
        tf_set(f, QSF_TT_KEY, tf_cut(mid, tf_skip(mid, first + 1), mid.n));
    } else if (bracket == '(' && mid.p[first] == '=') {
        f->style = QSF_TOOLS_PYTHON;
    } else {
        const size_t key = tf_end(w, before, between);
        f->style = QSF_TOOLS_TAGS;
        tf_set(f, QSF_TT_KEY, tf_cut(before, before.n - key, before.n));
        tf_type(w, mid, tf_cut(s, tf_find(s, k2, "qsfkc") + 5, n));
        tf_set(f, QSF_TT_VALUE_END, tf_cut(between, 0, between.n - key));
        if (!f->text[QSF_TT_KEY][0] || !f->text[QSF_TT_VALUE_END][0]) return false;
        c->args = k1 - key;
        c->end = tf_arguments_end(f, s, c->args, n + 4);
        return c->end != SIZE_MAX;
    }
    c->args = c->name_end + open - 1;
    c->end = tf_arguments_end(f, s, c->args, n + 4);
    return c->end != SIZE_MAX;
}

/* The texts between name and arguments; b: of a second call, or empty. */
static void tf_name_end(tf_work *w, tf_span s, const tf_call *a, const tf_call *b)
{
    const tf_span m = tf_cut(s, a->name_end, a->args), m2 = tf_cut(s, b->name_end, b->args);
    const size_t id = tf_find(m, 0, "qsfid0001");
    size_t head = m.n, tail = m.n;
    if (id != SIZE_MAX) {
        head = id;
        tail = id + 9;
    } else if (b->end && (m.n != m2.n || memcmp(m.p, m2.p, m.n))) {
        head = tf_begin(m, m2);
        tail = m.n - tf_end(w, m, m2);
    } else {
        head = tail = 0;
    }
    tf_set(w->f, QSF_TT_ID, tf_cut(m, 0, head));
    tf_set(w->f, QSF_TT_ARGUMENTS, tf_cut(m, tail, m.n));
}

/* The position after the end of the reasoning, if s has it. */
static size_t tf_behind_reasoning(const qsf_tool_form *f, tf_span s)
{
    const char *end = qsf_tool_core(f->text[QSF_TT_REASONING_END]);
    for (size_t i = 0; *end && i < s.n; i++) {
        const ptrdiff_t n = qsf_tool_blank(s.p[i]) ? 0 : qsf_tool_match(end, s.p + i, s.n - i);
        if (n > 0) return i + (size_t)n;
    }
    return 0;
}

/* Cuts what ends an answer off. */
static tf_span tf_without_end(tf_work *w, tf_span s)
{
    s.n -= tf_end(w, s, w->end);
    const size_t first = w->end.n ? tf_atom(w->end.p, w->end.n) : 0;
    const size_t at = first && !qsf_tool_blank(*w->end.p) ? tf_find_at(s, 0, w->end.p, first) : SIZE_MAX;
    if (at != SIZE_MAX) s.n = at;
    return s;
}

static bool tf_calls(tf_work *w, tf_span s, bool two)
{
    static const char *const names[] = { "qsfcalla", "qsfcallb" };
    qsf_tool_form *f = w->f;
    tf_call c[2] = { { 0 }, { 0 } };
    const size_t header = tf_header(w, s);
    for (int i = 0; i < 1 + two; i++) {
        c[i].name = c[i].begin = tf_find(s, i ? c[0].end : 0, names[i]);
        if (c[i].name == SIZE_MAX) return false;
        c[i].name_end = c[i].name + 8;
        if (tf_object(w, s, i ? c[0].end : 0, names[i], &c[i])) {
            f->style = QSF_TOOLS_OBJECT;
        } else if (i == 0) {
            if (!tf_arguments(w, s, &c[0])) return false;
        } else {
            const size_t key = tf_find(s, c[1].name_end, "qsfkd"), value = tf_find(s, c[1].name_end, "qsfvd");
            if (key == SIZE_MAX || value == SIZE_MAX) return false;
            c[1].args = f->style == QSF_TOOLS_TAGS ? c[1].name_end + c[0].args - c[0].name_end : key;
            while (c[1].args > c[1].name_end && s.p[c[1].args] != s.p[c[0].args]) c[1].args--;
            c[1].end = tf_arguments_end(f, s, c[1].args, value + 5);
            if (c[1].end == SIZE_MAX) return false;
        }
    }
    if (f->style != QSF_TOOLS_OBJECT) tf_name_end(w, s, &c[0], &c[1]);
    const tf_span before = tf_cut(s, 0, c[0].begin), behind = tf_cut(s, c[two].end, s.n);
    const tf_span between = two ? tf_cut(s, c[0].end, c[1].begin) : (tf_span){ "", 0 };
    const tf_span rest = tf_without_end(w, behind);
    size_t open = two ? tf_end(w, before, between) : before.n - QSF_MIN(header, before.n);
    if (tf_all_blank(tf_cut(before, before.n - open, before.n))) open = 0;
    const size_t again = tf_end(w, between, tf_cut(before, before.n - open, before.n));
    const tf_span sep = tf_cut(between, 0, between.n - again);
    size_t close = two ? tf_begin(sep, rest) : 0;
    if (tf_all_blank(tf_cut(sep, 0, close))) close = 0;
    const size_t close_behind = two ? tf_begin(rest, tf_cut(sep, 0, close)) : rest.n;
    tf_span section = tf_cut(s, QSF_MIN(header, before.n - open), before.n - open);
    size_t skip = tf_behind_reasoning(f, section);
    section = tf_cut(section, skip, section.n);
    tf_span one = two && open ? tf_cut(between, sep.n, between.n) : tf_cut(before, before.n - open, before.n);
    if (!two) {
        skip = tf_behind_reasoning(f, one);
        one = tf_cut(one, skip, one.n);
    }
    tf_set(f, QSF_TT_SECTION, section);
    tf_set(f, QSF_TT_OPEN, one);
    tf_set(f, QSF_TT_CLOSE, two ? tf_cut(sep, 0, close) : rest);
    tf_set(f, QSF_TT_BETWEEN, tf_cut(sep, close, sep.n));
    tf_set(f, QSF_TT_SECTION_END, tf_cut(rest, close_behind, rest.n));
    f->several = two;
    f->shown = true;
    return true;
}

static void tf_find_calls(tf_work *w)
{
    static const char *const contents[] = { "\"content\":\"\"", "\"content\":null" };
    tf_span s;
    for (int i = 0; i < 8; i++) {
        const bool two = i % 2 == 0, text = i / 2 % 2;
        if (!tf_render_calls(w, 1 + two, text, contents[i / 4], &s)) continue;
        if (tf_find(s, 0, "<|channel|>") != SIZE_MAX && tf_find(s, 0, "<|message|>") != SIZE_MAX) {
            w->f->style = QSF_TOOLS_CHANNELS;
            w->f->shown = w->f->reasoning_shown = true;
            w->f->text[QSF_TT_OPEN][0] = w->f->text[QSF_TT_CLOSE][0] = w->f->text[QSF_TT_BETWEEN][0] = 0;
            w->f->several = false;
        } else if (!tf_calls(w, s, two)) {
            continue;
        }
        w->f->arguments_text = text;
        return;
    }
}

/* ---- reasoning and text ---- */

/* The last mark of s and what follows it. */
static tf_span tf_last_mark(tf_span s)
{
    size_t last = s.n;
    for (size_t i = 0; i < s.n; i += tf_atom(s.p + i, s.n - i))
        if (tf_mark(s.p + i, s.n - i)) last = i;
    return tf_cut(s, last, s.n);
}

/* From the beginning of s to its first mark, which only blanks may precede. */
static tf_span tf_first_mark(tf_span s)
{
    const size_t at = tf_skip(s, 0), n = at < s.n ? tf_mark(s.p + at, s.n - at) : 0;
    return tf_cut(s, 0, n ? at + n : 0);
}

static bool tf_reasoning(tf_work *w, tf_span s)
{
    const size_t at = tf_find(s, 0, "qsfthink");
    if (at == SIZE_MAX) return false;
    const tf_span begin = tf_last_mark(tf_cut(s, 0, at)), end = tf_first_mark(tf_cut(s, at + 8, s.n));
    if (!begin.n || !end.n) return false;
    tf_set(w->f, QSF_TT_REASONING, begin);
    tf_set(w->f, QSF_TT_REASONING_END, end);
    return w->f->reasoning_shown = true;
}

static void tf_find_reasoning(tf_work *w)
{
    static const char *const answers[] = {
        TF_TEXT "," TF_THINK,
        "\"content\":[{\"type\":\"thinking\",\"thinking\":\"qsfthink\"},"
            "{\"type\":\"text\",\"text\":\"qsftext\"}]",
        "\"content\":{\"blocks\":[{\"type\":\"thoughts\",\"text\":\"qsfthink\"},"
            "{\"type\":\"response\",\"text\":\"qsftext\"}]}",
    };
    const char *const (*known)[2] = qsf_tool_reasoning_marks;
    tf_span s;
    for (size_t i = 0; i < QSF_ARRAY_LEN(answers); i++)
        if (tf_render(w, true, answers[i], w->out, &s) && tf_reasoning(w, s)) return;
    for (int i = 0; i < 4; i++) {
        const char *with = i / 2 ? "\"content\":null," TF_THINK : "\"content\":\"\"," TF_THINK;
        if (tf_render_calls(w, 1, i % 2, with, &s) && tf_reasoning(w, s)) return;
    }
    for (size_t i = 0; i < QSF_TOOL_REASONING_MARKS; i++) {
        if (!strstr(w->source, known[i][1])) continue;
        tf_put(w->f, QSF_TT_REASONING, known[i][0]);
        tf_put(w->f, QSF_TT_REASONING_END, known[i][1]);
        w->f->reasoning_shown = true;
        return;
    }
}

/* What the generation prompt has begun: reasoning, or one of the form's texts. */
static void tf_prompt(tf_work *w, tf_span text)
{
    qsf_tool_form *f = w->f;
    const char *open = qsf_tool_core(f->text[*f->text[QSF_TT_SECTION] ? QSF_TT_SECTION : QSF_TT_OPEN]);
    char both[2 * QSF_TOOL_TEXT_MOST];
    size_t n = QSF_MIN(strlen(open), w->prompt.n);
    while (n && memcmp(open, w->prompt.p + w->prompt.n - n, n)) n--;
    if (tf_all_blank((tf_span){ open, n })) n = 0;
    tf_set(f, QSF_TT_PROMPT, (tf_span){ open, n });
    const size_t skip = tf_behind_reasoning(f, text);
    text = tf_cut(text, skip, text.n);
    if (text.n && text.n < QSF_TOOL_TEXT_MOST && !tf_all_blank(text)) {
        memcpy(both, open, n);
        memcpy(both + n, text.p, text.n);
        tf_set(f, QSF_TT_TEXT, (tf_span){ both, n + text.n });
        if (tf_mark(text.p, text.n)) tf_set(f, QSF_TT_TEXT_END, tf_first_mark(w->end));
    }
    const char *reasoning = qsf_tool_core(f->text[QSF_TT_REASONING]);
    for (size_t i = 0; *reasoning && i < w->prompt.n; i++) {
        if (qsf_tool_match(reasoning, w->prompt.p + i, w->prompt.n - i) <= 0) continue;
        f->in_reasoning = !tf_behind_reasoning(f, tf_cut(w->prompt, i + 1, w->prompt.n));
    }
}

/* ---- all of it ---- */

static void tf_all(tf_work *w)
{
    qsf_tool_form *f = w->f;
    tf_span s, text = { "", 0 };
    if (!tf_render(w, true, NULL, w->prompt_text, &w->prompt)
        && !tf_render(w, false, NULL, w->prompt_text, &w->prompt)) return;
    f->tools_shown = strstr(w->prompt_text, "qsftool");
    if (tf_render(w, true, TF_TEXT, w->end_text, &s)) {
        const size_t at = tf_find(s, 0, "qsftext");
        if (at != SIZE_MAX) {
            const size_t header = tf_header(w, tf_cut(s, 0, at));
            text = tf_cut(s, header, at);
            w->end = tf_cut(s, at + 7, s.n);
        }
    }
    tf_find_reasoning(w);
    tf_find_calls(w);
    if (!f->shown) qsf_tool_form_known(w->source, f);
    tf_prompt(w, text);
}

qsf_status qsf_tool_form_find(const qsf_platform *p, const char *source, qsf_tool_render render,
                              void *user, qsf_tool_form *out, qsf_error *err)
{
    tf_work *w = qsf_alloc(p, sizeof *w, "reading the chat template", err);
    char *texts = w ? qsf_alloc(p, 3 * TF_OUT, "reading the chat template", err) : NULL;
    bool failed = !texts;
    qsf_tool_form_plain(out);
    if (texts) {
        w->platform = w->vars.platform = p;
        w->source = source ? source : "";
        w->render = render;
        w->user = user;
        w->f = out;
        w->prompt_text = texts;
        w->end_text = texts + TF_OUT;
        w->out = texts + 2 * TF_OUT;
        w->end = (tf_span){ "", 0 };
        tf_all(w);
        failed = w->vars.failed;
        qsf_text_drop(&w->vars);
    }
    qsf_dealloc(p, texts, 3 * TF_OUT);
    qsf_dealloc(p, w, sizeof *w);
    return failed ? qsf_fail(err, QSF_E_MEMORY, "reading the chat template: out of memory") : QSF_OK;
}
