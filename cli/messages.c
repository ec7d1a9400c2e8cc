/* Conversations: the choice of template, its variables besides the messages, and --render.
 * SPDX-License-Identifier: MIT */
#include "run.h"

#include <stdlib.h>

/* ---- the template and what goes with it ---- */

int chat_texts_open(const run_settings *set, chat_texts *t)
{
    size_t len;
    *t = (chat_texts){ 0 };
    qsf_chat_defaults(&t->options);
    /* Templates that can turn reasoning off then give the prompt that the model was trained on. */
    static const char no_reasoning[] = "{\"enable_thinking\":false,\"thinking\":false}";
    t->options.kwargs = set->common.template_kwargs;
    if (!t->options.kwargs && set->common.reasoning_budget == 0) t->options.kwargs = no_reasoning;
    t->options.bos = set->bos;
    t->options.eos = set->eos;
    t->options.add_generation_prompt = !set->no_generation;
    t->options.continue_final_message = set->continue_final;
    if (set->common.template_name) {
        const int code = template_asked(set->common.template_name, set->model != NULL,
                                        &t->options.chat_template, &t->template_text);
        if (code) return code;
    }
    if (set->tools && !(t->options.tools = t->tools = read_whole(set->tools, &len))) return EXIT_IO;
    if (set->documents && !(t->options.documents = t->documents = read_whole(set->documents, &len)))
        return EXIT_IO;
    return EXIT_OK;
}

void chat_texts_close(chat_texts *t)
{
    free(t->template_text);
    free(t->tools);
    free(t->documents);
    *t = (chat_texts){ 0 };
}

/* ---- messages as JSON ---- */

/* The string with U+FFFD in place of bytes that are not UTF-8, which JSON does not allow. */
static char *whole_characters(const char *text, size_t len)
{
    qsf_utf8_tail tail = { 0 };
    char *out = malloc(3 * (len + 4) + 4);
    size_t n = out ? qsf_utf8_push(&tail, text, len, out) : 0;
    if (out && tail.len) memcpy(out + n, "\xef\xbf\xbd", 3), n += 3;
    if (out) out[n] = 0;
    return out;
}

char *messages_json(const message *msgs, size_t n, size_t *len)
{
    buffer text = { 0 };
    buffer_put(&text, "[");
    for (size_t i = 0; i < n; i++) {
        if (i) buffer_put(&text, ", ");
        message_json(&msgs[i], &text);
    }
    buffer_put(&text, "]");
    char *out = text.failed ? NULL : whole_characters(text.at, text.n);
    if (out) *len = strlen(out);
    buffer_free(&text);
    return out;
}

/* ---- --render ---- */

/* What was given is wrong, or the template and it do not go together. */
static int render_code(const qsf_error *e)
{
    const int code = report(e);
    return e->status == QSF_E_CORRUPT || e->status == QSF_E_NOT_FOUND ? EXIT_USAGE
        : e->status == QSF_E_ARGUMENT || e->status == QSF_E_UNSUPPORTED ? EXIT_FAILED : code;
}

static int render_text(const qsf_model *m, const char *messages, size_t len, const qsf_chat_options *o)
{
    qsf_error error;
    size_t n = 0, cap = 2 * len + 65536;
    for (;; cap = n + 1) {
        char *out = malloc(cap);
        if (!out) return EXIT_NO_MEMORY;
        const qsf_status st = qsf_chat_render_json(m, messages, len, o, out, cap, &n, &error);
        if (!st) fwrite(out, 1, n, stdout);
        free(out);
        if (!st) return EXIT_OK;
        if (n < cap) return render_code(&error);
    }
}

int run_render(const run_settings *set)
{
    chat_texts t = { 0 };
    qsf_model_options mo;
    qsf_model *m = NULL;
    qsf_error error;
    size_t len = 0;
    char *messages = read_whole(set->render, &len);
    int code = messages ? chat_texts_open(set, &t) : EXIT_IO;
    if (!code && set->model) {
        qsf_model_defaults(&mo);
        mo.vocab_only = true;
        if (qsf_model_open(set->model, &mo, &m, &error)) code = report(&error);
    } else if (!code && !t.options.chat_template) {
        fputs("--render needs a model or --chat-template FILE|NAME\n", stderr);
        code = EXIT_USAGE;
    }
    t.options.as_given = !set->adapted;
    if (!code) code = render_text(m, messages, len, &t.options);
    qsf_model_close(m);
    chat_texts_close(&t);
    free(messages);
    return code;
}
