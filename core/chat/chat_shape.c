/* Finds out whether a template writes the whole content of a conversation, and which remedies
 * (chat_remedy.c) make it do so.
 * SPDX-License-Identifier: MIT
 *
 * A template may refuse a shape ("roles must alternate"), silently drop a message, or copy a role
 * that it does not know into its markup.  To detect this, the conversation is rendered once with a
 * marker in place of each text and call: a marker missing from the output was dropped.  Templates
 * depend on positions and roles, so repeating turns are removed first, and the cost does not grow
 * with the length of the conversation. */
#include "chat/chat_own.h"

/* A marker: these letters, a number, and a final letter. */
static const char shape_letters[] = "qz";
enum { SHAPE_DIGITS = 6, SHAPE_MARK = 2 + SHAPE_DIGITS + 1, SHAPE_MOST = 999999 };

/* A conversation of markers. */
typedef struct shape_probe {
    qsf_jinja_value messages;
    uint32_t *of;               /* [n_marks] the message that a marker belongs to */
    uint8_t  *listed;           /* [n_marks] whether the marker is the text of a part */
    uint32_t  n_marks, cap;
} shape_probe;

/* ---- messages ---- */

/* The text of a part; NULL: empty, or not text (an image, for instance). */
static const qsf_jinja_value *shape_text_of(const qsf_jinja_value *part)
{
    const qsf_jinja_value *type = qsf_jinja_member(part, "type"), *text = qsf_jinja_member(part, "text");
    if (!text || text->type != QSF_JINJA_TEXT || qsf_chat_is_blank(text)) return NULL;
    return !type || qsf_chat_is(type, "text") ? text : NULL;
}

/* Bits for everything but the role that a template may test in a message. */
static unsigned shape_traits(const qsf_jinja_value *m)
{
    static const char *const members[] = { "tool_call_id", "name", "reasoning_content", "thinking" };
    const qsf_jinja_value *content = qsf_jinja_member(m, "content"), *calls = qsf_chat_calls_of(m);
    unsigned traits = content ? content->type : 0;
    if (content && content->type == QSF_JINJA_TEXT) traits |= (unsigned)qsf_chat_is_blank(content) << 7;
    if (content && content->type == QSF_JINJA_LIST) traits |= QSF_MIN(content->n, 15u) << 8;
    if (calls) traits |= QSF_MIN(calls->n, 15u) << 12;
    for (size_t i = 0; i < QSF_ARRAY_LEN(members); i++)
        if (qsf_jinja_member(m, members[i])) traits |= 1u << (16 + i);
    return traits;
}

static bool shape_alike(const qsf_jinja_value *a, const qsf_jinja_value *b)
{
    const qsf_jinja_value *x = qsf_jinja_member(a, "role"), *y = qsf_jinja_member(b, "role");
    if (!x || !y || x->type != QSF_JINJA_TEXT || y->type != QSF_JINJA_TEXT) return false;
    return x->n == y->n && !memcmp(x->as.text, y->as.text, x->n) && shape_traits(a) == shape_traits(b);
}

/* How many messages from m[i] on repeat the ones before them for the third time: 0, 2 or 4. */
static uint32_t shape_repeats(const qsf_jinja_value *m, uint32_t i, uint32_t n)
{
    for (uint32_t period = 2; period <= 4; period += 2) {
        uint32_t k = 0;
        if (i < 2 * period || i + period > n) continue;
        while (k < period && shape_alike(&m[i + k], &m[i + k - period])
               && shape_alike(&m[i + k], &m[i + k - 2 * period])) k++;
        if (k == period) return period;
    }
    return 0;
}

/* ---- conversations of markers ---- */

static qsf_jinja_value shape_mark(chat_run *run, shape_probe *p, uint32_t message, bool listed)
{
    char *text = run->st || p->n_marks == p->cap ? NULL
        : qsf_arena_alloc(run->arena, SHAPE_MARK + 1, "a conversation", run->err);
    if (!text) {
        if (!run->st && p->n_marks < p->cap) run->st = QSF_E_MEMORY;
        return qsf_jinja_text("");
    }
    qsf_format(text, SHAPE_MARK + 1, "%s%06ux", shape_letters, (unsigned)p->n_marks);
    p->of[p->n_marks] = message;
    p->listed[p->n_marks++] = listed;
    return qsf_jinja_text_n(text, SHAPE_MARK);
}

static qsf_jinja_value shape_of_parts(chat_run *run, shape_probe *p, uint32_t message,
                                      const qsf_jinja_value *content)
{
    qsf_jinja_value list = qsf_chat_list_of(run, content->as.items, content->n);
    qsf_jinja_value *part = (qsf_jinja_value *)(size_t)list.as.items;
    for (uint32_t i = 0; i < list.n && !run->st; i++, part++) {
        if (part->type == QSF_JINJA_TEXT && !qsf_chat_is_blank(part))
            *part = shape_mark(run, p, message, true);
        else if (shape_text_of(part))
            *part = qsf_chat_with(run, part, "text", shape_mark(run, p, message, true));
    }
    return list;
}

/* A call with the same marker as its name and in its arguments. */
static qsf_jinja_value shape_of_call(chat_run *run, shape_probe *p, uint32_t message,
                                     const qsf_jinja_value *call)
{
    const qsf_jinja_value *in = qsf_jinja_member(call, "function"), empty = qsf_jinja_dict(NULL, 0);
    const qsf_jinja_value *of = in && in->type == QSF_JINJA_DICT ? in : call;
    const qsf_jinja_value *given = qsf_jinja_member(of, "arguments");
    const qsf_jinja_value mark = shape_mark(run, p, message, false);
    static const char begin[] = "{\"k\": \"", end[] = "\"}";
    qsf_jinja_value arguments = qsf_chat_with(run, &empty, "k", mark), f;
    if (call->type != QSF_JINJA_DICT) return *call;
    if (given && given->type == QSF_JINJA_TEXT) {
        const qsf_jinja_value open = qsf_jinja_text(begin), close = qsf_jinja_text(end);
        arguments = qsf_chat_joined(run, &open, "", &mark);
        arguments = qsf_chat_joined(run, &arguments, "", &close);
    }
    f = qsf_chat_with(run, of, "name", mark);
    f = qsf_chat_with(run, &f, "arguments", arguments);
    return of == call ? f : qsf_chat_with(run, call, "function", f);
}

static qsf_jinja_value shape_of_message(chat_run *run, shape_probe *p, uint32_t at, const qsf_jinja_value *m)
{
    const qsf_jinja_value *content = qsf_jinja_member(m, "content"), *calls = qsf_chat_calls_of(m);
    qsf_jinja_value out = *m;
    if (content && content->type == QSF_JINJA_TEXT && !qsf_chat_is_blank(content))
        out = qsf_chat_with(run, &out, "content", shape_mark(run, p, at, false));
    else if (content && content->type == QSF_JINJA_LIST)
        out = qsf_chat_with(run, &out, "content", shape_of_parts(run, p, at, content));
    if (calls) {
        qsf_jinja_value list = qsf_chat_list_of(run, calls->as.items, calls->n);
        qsf_jinja_value *call = (qsf_jinja_value *)(size_t)list.as.items;
        for (uint32_t i = 0; i < list.n && !run->st; i++) call[i] = shape_of_call(run, p, at, &call[i]);
        out = qsf_chat_with(run, &out, "tool_calls", list);
    }
    return out;
}

static bool shape_begin(chat_run *run, shape_probe *p, const qsf_jinja_value *messages)
{
    qsf_jinja_value *list = qsf_chat_values(run, messages->n);
    uint64_t n = 1;
    uint32_t kept = 0;
    *p = (shape_probe){ 0 };
    for (uint32_t i = 0; i < messages->n; i++) {
        const qsf_jinja_value *content = qsf_jinja_member(&messages->as.items[i], "content"),
            *calls = qsf_chat_calls_of(&messages->as.items[i]);
        n += 1 + (content && content->type == QSF_JINJA_LIST ? content->n : 0) + (calls ? calls->n : 0);
    }
    p->cap = (uint32_t)QSF_MIN(n, SHAPE_MOST);
    if (!run->st && (!(p->of = qsf_arena_array(run->arena, p->cap, sizeof *p->of, "a conversation", run->err))
                     || !(p->listed = qsf_arena_array(run->arena, p->cap, 1, "a conversation", run->err))))
        run->st = QSF_E_MEMORY;
    for (uint32_t i = 0, skip; i < messages->n && !run->st; i += skip ? skip : 1)
        if (!(skip = shape_repeats(messages->as.items, i, messages->n)))
            list[kept++] = shape_of_message(run, p, i, &messages->as.items[i]);
    p->messages = qsf_jinja_list(list, run->st ? 0 : kept);
    return !run->st;
}

/* ---- markers in the output ---- */

/* Whether the marker at out[at] is inside a list of parts that was printed as Python or JSON. */
static bool shape_quoted(const char *out, size_t at)
{
    static const char *const before[] = { "text': '", "text\": \"", "text\":\"" };
    for (size_t i = 0; i < QSF_ARRAY_LEN(before); i++) {
        const size_t n = strlen(before[i]);
        if (at >= n && !memcmp(out + at - n, before[i], n)) return true;
    }
    return false;
}

/* The message of the first marker missing from the output, or UINT32_MAX. */
static uint32_t shape_lost(chat_run *run, const shape_probe *p)
{
    const chat_engine *e = &run->engine;
    uint8_t *seen = run->st ? NULL : qsf_arena_array(run->arena, p->n_marks + 1u, 1, "a conversation",
                                                     run->err);
    if (!seen) {
        run->st = run->st ? run->st : QSF_E_MEMORY;
        return UINT32_MAX;
    }
    for (size_t at = 0; at + SHAPE_MARK <= e->len; at++) {
        uint32_t k = 0, digits = 0;
        if (memcmp(e->out + at, shape_letters, 2)) continue;
        for (; digits < SHAPE_DIGITS && e->out[at + 2 + digits] >= '0' && e->out[at + 2 + digits] <= '9';
             digits++) k = 10 * k + (uint32_t)(e->out[at + 2 + digits] - '0');
        if (digits < SHAPE_DIGITS || k >= p->n_marks) continue;
        if (!p->listed[k] || !shape_quoted(e->out, at)) seen[k] = 1;
    }
    for (uint32_t k = 0; k < p->n_marks; k++)
        if (!seen[k]) return p->of[k];
    return UINT32_MAX;
}

/* ---- unknown roles ---- */

/* The position of a message of some role in a conversation. */
typedef enum shape_place { SHAPE_FIRST, SHAPE_AFTER_USER, SHAPE_AFTER_ANSWER } shape_place;
static const char shape_probed[] = "tExt7vw", shape_asked[] = "kEy5rq";

/* Whether the template writes the text of a message of this role at this position. */
static bool shape_writes(chat_run *run, const char *role, shape_place place)
{
    const qsf_jinja_value m[] = { qsf_chat_message_of(run, "user", qsf_jinja_text("a")),
                                  qsf_chat_message_of(run, "assistant", qsf_jinja_text("b")),
                                  qsf_chat_message_of(run, role, qsf_jinja_text(shape_probed)),
                                  qsf_chat_message_of(run, "user", qsf_jinja_text(shape_asked)) };
    const qsf_jinja_value two[] = { m[0], m[2] };
    const bool takes = place == SHAPE_FIRST ? qsf_chat_takes(run, m + 2, 2)
        : place == SHAPE_AFTER_USER ? qsf_chat_takes(run, two, 2) : qsf_chat_takes(run, m, 4);
    return takes && qsf_chat_engine_wrote(&run->engine, shape_probed, sizeof shape_probed - 1);
}

/* Whether the template just copies the role's name: with a made-up role that differs in one letter
 * the output differs only in that letter. */
static bool shape_is_name_only(chat_run *run, const char *role, shape_place place)
{
    char made_up[16];
    const size_t n = strlen(role);
    bool differs = false;
    if (n >= sizeof made_up || !shape_writes(run, role, place)) return false;
    const size_t len = run->engine.len;
    const char *text = qsf_arena_text(run->arena, run->engine.out, len, run->err);
    memcpy(made_up, role, n + 1);
    made_up[1] = 'x';
    if (!text) run->st = QSF_E_MEMORY;
    if (!text || !shape_writes(run, made_up, place) || run->engine.len != len) return false;
    for (size_t i = 0; i < len; i++) {
        if (text[i] == run->engine.out[i]) continue;
        if (!i || (text[i] | 32) != role[1] || (text[i - 1] | 32) != role[0]) return false;
        differs = true;
    }
    return differs;
}

/* Whether a system message at this position is marked by its copied role name only, unlike one at
 * the beginning: by "system" between the same two characters. */
static bool shape_is_system_in_name(chat_run *run, shape_place place)
{
    char around[sizeof "<system>"] = "";
    const size_t n = sizeof around - 1;
    if (!shape_is_name_only(run, "system", place) || !shape_writes(run, "system", place)) return false;
    const chat_engine *e = &run->engine;
    for (size_t i = 0; i + n <= e->len; i++)
        if (!memcmp(e->out + i + 1, "system", n - 2)) memcpy(around, e->out + i, n);
    return *around && !(shape_writes(run, "system", SHAPE_FIRST) && qsf_chat_engine_wrote(e, around, n));
}

static bool shape_is_blind(chat_run *run)
{
    if (!run->blind)
        run->blind = 1 + (shape_is_system_in_name(run, SHAPE_AFTER_USER)
                          || shape_is_system_in_name(run, SHAPE_AFTER_ANSWER));
    return run->blind == 2;
}

/* Whether a message has a role that the template copies without knowing it. */
static bool shape_has_unknown(chat_run *run, const qsf_jinja_value *messages)
{
    bool leading = true, unknown = false;
    for (uint32_t i = 0; i < messages->n && !unknown && !run->st; i++) {
        const qsf_jinja_value *role = qsf_jinja_member(&messages->as.items[i], "role");
        const bool talks = qsf_chat_is(role, "user") || qsf_chat_is(role, "assistant");
        if (qsf_chat_is(role, "developer")) {
            if (!run->developer) run->developer = 1 + shape_is_name_only(run, "developer", SHAPE_FIRST);
            unknown = run->developer == 2 || (!leading && shape_is_blind(run));
        } else if (qsf_chat_is(role, "tool")) {
            if (!run->tool && shape_is_blind(run))
                run->tool = 1 + (shape_is_name_only(run, "tool", SHAPE_AFTER_USER)
                                 || shape_is_name_only(run, "tool", SHAPE_AFTER_ANSWER));
            unknown = run->tool == 2 || leading;        /* some templates write it without its header */
        } else if (!talks && (i || !qsf_chat_is(role, "system"))) {
            unknown = shape_is_blind(run);
        }
        leading = leading && !talks && !qsf_chat_is(role, "tool");
    }
    return unknown;
}

/* ---- choosing remedies ---- */

static bool shape_fits(chat_run *run, const qsf_jinja_value *messages)
{
    shape_probe p;
    qsf_error ignored;
    if (!shape_begin(run, &p, messages)) return true;
    const qsf_status st = qsf_chat_run_render(run, &p.messages, run->ask->generate && !run->ask->goes_on,
                                              &ignored);
    if (run->st || run->given_up) return true;
    if (st) return false;
    run->lost = shape_lost(run, &p);
    return run->lost == UINT32_MAX && !shape_has_unknown(run, messages);
}

bool qsf_chat_fits(chat_run *run, const qsf_jinja_value *messages)
{
    qsf_arena *kept = run->arena, *own;
    run->lost = UINT32_MAX;
    if (run->given_up || run->st) return true;
    if ((run->st = qsf_arena_new(run->ask->platform, &own, run->err))) return true;
    run->arena = own;                   /* nothing made for the markers outlives this call */
    const bool fits = shape_fits(run, messages);
    run->arena = kept;
    qsf_arena_free(own);
    return fits;
}

/* The messages after these remedies. */
static qsf_jinja_value shape_remedied(chat_run *run, const qsf_jinja_value *messages, uint32_t remedies)
{
    qsf_jinja_value m = *messages;
    for (uint32_t i = 0; i < CHAT_REMEDIES; i++)
        if (remedies >> i & 1) qsf_chat_remedy_apply(run, i, &m);
    return m;
}

/* A single remedy out of these that suffices; 0: none does. */
static uint32_t shape_one_of(chat_run *run, const qsf_jinja_value *messages, uint32_t remedies)
{
    for (uint32_t i = 0; i < CHAT_REMEDIES && !run->st; i++) {
        qsf_jinja_value m = *messages;
        if ((remedies >> i & 1) && qsf_chat_remedy_apply(run, i, &m) && qsf_chat_fits(run, &m))
            return 1u << i;
    }
    return 0;
}

/* Applies these in order until the messages fit, then drops those that turn out to be unnecessary;
 * 0: even all of them do not suffice. */
static uint32_t shape_some_of(chat_run *run, const qsf_jinja_value *messages, uint32_t remedies)
{
    qsf_jinja_value m = *messages;
    uint32_t used = 0;
    bool fits = false;
    for (uint32_t i = 0; i < CHAT_REMEDIES && !fits && !run->st; i++) {
        if (!(remedies >> i & 1) || !qsf_chat_remedy_apply(run, i, &m)) continue;
        used |= 1u << i;
        fits = qsf_chat_fits(run, &m);
    }
    if (!fits) return 0;
    for (uint32_t i = 0; i < CHAT_REMEDIES && !run->st; i++) {
        const uint32_t fewer = used & ~(1u << i);
        if (fewer == used || !fewer) continue;
        m = shape_remedied(run, messages, fewer);
        if (qsf_chat_fits(run, &m)) used = fewer;
    }
    return used;
}

bool qsf_chat_fit(chat_run *run, qsf_jinja_value *messages)
{
    static const uint32_t all = (1u << CHAT_REMEDIES) - 1, calls = ~(1u << CHAT_NO_CALLS),
        ways[] = { calls & ~(1u << CHAT_TEXT_LATER), calls & ~(1u << CHAT_TEXT_APART),
                   ~(1u << CHAT_TEXT_LATER) };
    uint32_t used = 0;
    if (qsf_chat_fits(run, messages)) return true;
    const uint32_t lost = run->lost;
    for (size_t i = 0; i < QSF_ARRAY_LEN(ways) && !used; i++) {
        used = shape_one_of(run, messages, all & ways[i]);
        if (!used) used = shape_some_of(run, messages, all & ways[i]);
    }
    if (run->given_up) return true;             /* the last attempt was not confirmed to fit */
    if (used) *messages = shape_remedied(run, messages, used);
    run->lost = lost;
    return used;
}
