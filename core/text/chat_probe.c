/* Which kind of chat template a model's own is: conversations of every shape are rendered with it
 * and written as each kind, and the kind whose texts are all the same is it.
 * SPDX-License-Identifier: MIT
 *
 * Only what a conversation of system, user and assistant needs is known.  A template that differs
 * in one byte of one of these texts, or that the interpreter cannot run, is unknown: wrong text
 * would be worse. */
#include "text/chat.h"
#include "base/host.h"
#include "text/jinja.h"

enum { PROBE_TURNS = 12, PROBE_OUT = 32 << 10, PROBE_STEPS = 200000, PROBE_LONGEST = 256 << 10 };

/* What a template may not refuse: a question, or answers and questions in turns; the same behind a
 * system message, which some kinds lack. */
typedef enum probe_form { PROBE_TALK, PROBE_SYSTEM, PROBE_ODD } probe_form;

#define S(text) { "system", text }
#define U(text) { "user", text }
#define A(text) { "assistant", text }
static const struct probe { uint8_t form, n; qsf_message m[PROBE_TURNS]; } probes[] = {
    { PROBE_TALK, 1, { U("Hi") } },
    { PROBE_SYSTEM, 4, { S("Be brief."), U("Hi "), A("Hello!"), U("And?") } },
    { PROBE_TALK, 2, { U("Hi"), A("Hello!") } },
    { PROBE_TALK, 3, { U("Hi"), A("Hello!"), U("And?") } },
    { PROBE_SYSTEM, 2, { S("You are a helpful assistant."), U("Hi") } },
    { PROBE_SYSTEM, 3, { S("Be brief."), U("Hi"), A("Hello!") } },
    { PROBE_TALK, 11, { U("1"), A("2"), U("3"), A("4"), U("5"), A("6"), U("7"), A("8"), U("9"), A("10"),
                        U("11") } },
    { PROBE_SYSTEM, 12, { S("0"), U("1"), A("2"), U("3"), A("4"), U("5"), A("6"), U("7"), A("8"), U("9"),
                          A("10"), U("11") } },
    /* white space and what looks like code */
    { PROBE_SYSTEM, 4, { S(" \n S \n"), U("  u\n\n"), A("\n\n a "), U("\tv ") } },
    { PROBE_TALK, 2, { U("\n\n u"), A(" \t\n a \n\n") } },
    { PROBE_SYSTEM, 3, { S("\xc2\xa0s\xe3\x80\x80"), U("\xe3\x80\x80u\x1f"),
                         A("\xe2\x80\x83" "a\xc2\x85") } },
    { PROBE_SYSTEM, 4, { S(""), U("Hi"), A(""), U("") } },
    { PROBE_TALK, 3, { U(""), A(" "), U("\n") } },
    { PROBE_SYSTEM, 4, { S("a\nb"), U("c\n\nd 'e' \"f\" \\n {{ g }} {% h %} <i> & | </s>"),
                         A("\xc3\xa9\xe4\xb8\x80"), U("\xf0\x9f\x98\x80") } },
    { PROBE_TALK, 3, { U("system"), A("[/INST] <|im_end|>\n<|im_start|>user\n<</SYS>>"),
                       U("assistant: <|assistant|> <end_of_turn>") } },
    /* reasoning, and words that switch it */
    { PROBE_TALK, 3, { U("Hi"), A("<think>\nhm\n</think>\n\nHello!"), U("And?") } },
    { PROBE_TALK, 2, { U("Hi"), A("<think>\nhm\n</think>\n\nHello!\n") } },
    { PROBE_SYSTEM, 5, { S("s"), U("Hi"), A("a</think>b</think>c"), U("And?"), A("\n</think>\nd") } },
    { PROBE_TALK, 4, { U("Hi"), A("<think>\n\n</think>\n\n x"), U("<tool_response>1</tool_response>"),
                       A("<think>only this") } },
    { PROBE_SYSTEM, 4, { S("/no_think"), U("Hi /think"), A("ok"), U("/no_think") } },
    /* what no template has to take */
    { PROBE_ODD, 2, { U("Hi"), U("there") } },
    { PROBE_ODD, 2, { A("Welcome"), U("Hi") } },
    { PROBE_ODD, 3, { U("Hi"), A("a"), A("b") } },
    { PROBE_ODD, 1, { S("Be brief.") } },
    { PROBE_ODD, 3, { S("a"), S("b"), U("Hi") } },
    { PROBE_ODD, 4, { U("Hi"), A("Hello!"), S("Be brief."), U("And?") } },
    { PROBE_ODD, 5, { S("one"), U("Hi"), S("two"), A("Hello!"), S("three") } },
    { PROBE_ODD, 3, { U("Hi"), S("late"), U("And?") } },
    { PROBE_ODD, 3, { S("s"), U("Hi"), S("late") } },
    { PROBE_ODD, 3, { S("s"), A("Welcome"), U("Hi") } },
    { PROBE_ODD, 4, { S("s"), U("a"), U("b"), A("c") } },
};
#undef S
#undef U
#undef A

typedef struct probe_work {
    qsf_jinja  *t;
    const char *jinja, *bos, *eos;
    char        theirs[PROBE_OUT], ours[PROBE_OUT];
} probe_work;

static qsf_status probe_render(probe_work *w, const struct probe *c, const char *eos, bool generate,
                               size_t *len)
{
    qsf_jinja_value fields[PROBE_TURNS][4], messages[PROBE_TURNS];
    for (size_t i = 0; i < c->n; i++) {
        fields[i][0] = qsf_jinja_text("role");
        fields[i][1] = qsf_jinja_text(c->m[i].role);
        fields[i][2] = qsf_jinja_text("content");
        fields[i][3] = qsf_jinja_text(c->m[i].content);
        messages[i] = qsf_jinja_dict(fields[i], 2);
    }
    const qsf_jinja_value none = { .type = QSF_JINJA_NONE };
    const qsf_jinja_var vars[] = {
        { "messages", qsf_jinja_list(messages, c->n) },
        { "add_generation_prompt", qsf_jinja_bool(generate) },
        { "tools", none },
        { "documents", none },
        { "eos_token", qsf_jinja_text(eos) },
        { "bos_token", qsf_jinja_text(w->bos ? w->bos : "") },
    };
    /* No clock: a date in the text would be another one tomorrow.  Templates that ask for one say
     * what they write without. */
    return qsf_jinja_render(w->t, vars, QSF_ARRAY_LEN(vars) - !w->bos, 0, PROBE_STEPS, w->theirs,
                            sizeof w->theirs, len, NULL, NULL);
}

/* Whether a template may refuse this conversation although it is of this kind. */
static bool probe_may_refuse(qsf_chat kind, const struct probe *c)
{
    return c->form == PROBE_ODD ||
           (c->form == PROBE_SYSTEM && (kind == QSF_CHAT_GEMMA || kind == QSF_CHAT_MISTRAL));
}

static bool probe_same(probe_work *w, qsf_chat kind, const struct probe *c, bool generate)
{
    size_t their_len, our_len, bos = w->bos ? strlen(w->bos) : 0;
    const char *eos = w->eos ? w->eos : qsf_chat_eos_text(kind), *theirs = w->theirs;
    const qsf_status st = probe_render(w, c, eos, generate, &their_len);
    if (st == QSF_E_CANCELLED || st == QSF_E_ARGUMENT) return probe_may_refuse(kind, c);
    if (st) return false;
    if (qsf_chat_write(kind, w->jinja, eos, c->m, c->n, generate, w->ours, sizeof w->ours, &our_len, NULL))
        return false;
    /* the tokenizer puts it there */
    if (their_len == our_len + bos && bos && !memcmp(theirs, w->bos, bos)) {
        theirs += bos;
        their_len -= bos;
    }
    return our_len == their_len && !memcmp(w->ours, theirs, our_len);
}

static bool probe_kind(probe_work *w, qsf_chat kind)
{
    for (size_t i = 0; i < 2 * QSF_ARRAY_LEN(probes); i++)
        if (!probe_same(w, kind, &probes[i / 2], i % 2 == 0)) return false;
    return true;
}

qsf_status qsf_chat_detect(const qsf_platform *p, const char *jinja, const char *bos, const char *eos,
                           qsf_chat *out, qsf_error *err)
{
    const size_t len = jinja ? strlen(jinja) : 0, mem_size = (96 << 10) + 20 * len;
    *out = QSF_CHAT_UNKNOWN;
    if (!len || len > PROBE_LONGEST) return QSF_OK;
    probe_work *w = qsf_alloc(p, sizeof *w, "reading the chat template", err);
    void *mem = w ? qsf_alloc(p, mem_size, "reading the chat template", err) : NULL;
    if (mem) {
        w->jinja = jinja;
        w->bos = bos;
        w->eos = eos;
        if (!qsf_jinja_parse(mem, mem_size, jinja, len, &w->t, NULL))
            for (int c = 1; c < QSF_CHAT_PLAIN && !*out; c++)
                if (probe_kind(w, (qsf_chat)c)) *out = (qsf_chat)c;
    }
    qsf_dealloc(p, mem, mem_size);
    qsf_dealloc(p, w, sizeof *w);
    return mem ? QSF_OK : QSF_E_MEMORY;
}
