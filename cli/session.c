/* Opens a model according to the settings, and converts prompts to tokens.
 * SPDX-License-Identifier: MIT */
#include "devices.h"
#include "run.h"
#include "trace.h"

#include <stdlib.h>
#include <string.h>

static void session_log(void *user, qsf_log_level level, const char *line)
{
    const run_settings *set = user;
    if (level <= QSF_LOG_WARN || set->verbose) fprintf(stderr, "%s\n", line);
}

static int fail(run_session *s, qsf_status st, const char *text)
{
    s->error.status = st;
    snprintf(s->error.text, sizeof s->error.text, "%s", text);
    return exit_code(st);
}

qsf_io io_named(const char *name)
{
    return !strcmp(name, "uring") ? QSF_IO_URING : !strcmp(name, "pread") ? QSF_IO_PREAD
        : !strcmp(name, "mmap") ? QSF_IO_MMAP : QSF_IO_AUTO;
}

qsf_i2s_layout i2s_named(const char *name)
{
    qsf_i2s_layout layout = QSF_I2S_AUTO;
    (void)qsf_i2s_layout_find(name, &layout);
    return layout;
}

bool chat_asked(const run_settings *set)
{
    return set->interactive || (!set->prompt && !set->file && !set->ids && terminal_is(stdin));
}

/* Which template the session's text goes through: none for --raw, for --ids, and for a prompt to a
 * model without one. */
static int choose_template(run_session *s)
{
    const run_settings *set = s->set;
    qsf_model_info info = { .size = sizeof info };
    qsf_model_get_info(s->model, &info);
    s->template_name = NULL;
    if (set->raw || set->ids || session_embeds(set)) return EXIT_OK;
    const int code = chat_texts_open(set, &s->chat);
    if (code) return code;
    s->template_name = s->chat.options.chat_template;
    if (!s->template_name && info.chat_template) s->template_name = "own";
    if (!s->template_name && (set->tools || chat_asked(set))) {
        fprintf(stderr, "%swarning:%s the model has no chat template: the conversation is written as plain "
                "text (--chat-template NAME chooses one, --raw completes the text unchanged)\n",
                colour(stderr, "\033[33m"), colour(stderr, "\033[0m"));
        s->template_name = "plain";
    }
    s->chat.options.chat_template = s->template_name;
    return EXIT_OK;
}

/* The template, and the conversation that goes through it. */
static int conversation_open(run_session *s)
{
    size_t len;
    const char *stop;
    const int code = choose_template(s);
    const qsf_chat_options *chat = s->template_name ? &s->chat.options : NULL;
    if (code) return code;
    if (qsf_conversation_new(s->model, chat, &s->talk, &s->error)) return report(&s->error);
    /* the first message reports any other fault */
    return chat && qsf_conversation_stop(s->talk, &stop, &len) == QSF_E_NOT_FOUND
        ? template_unknown(s->template_name) : EXIT_OK;
}

/* Guesses per pass, with room for their logits in *co: as set by the user; by default only if
 * layers stream. */
static uint32_t session_draft(run_session *s, qsf_context_options *co)
{
    const long long draft = s->set->common.draft;
    if (s->set->bench || s->set->logits || session_embeds(s->set)) return 0;
    if (draft < 0 && !s->set->draft_model && !s->set->common.draft_mtp)
        return qsf_draft_room(s->model, co, QSF_DRAFT_MOST);
    const uint32_t most = draft < 0 ? QSF_DRAFT_MOST : (uint32_t)draft;
    co->n_logits = 1 + most;
    return most;
}

static void warn_of_length(const run_session *s)
{
    qsf_model_info info = { .size = sizeof info };
    qsf_model_get_info(s->model, &info);
    if (info.n_ctx_train && s->set->common.context.n_ctx > info.n_ctx_train)
        fprintf(stderr, "%swarning:%s -c %u exceeds the %u positions that the model was trained on; text "
                "past them may make no sense\n",
                colour(stderr, "\033[33m"), colour(stderr, "\033[0m"), (unsigned)s->set->common.context.n_ctx,
                (unsigned)info.n_ctx_train);
}

const char *session_longer(run_session *s)
{
    qsf_model_info info = { .size = sizeof info };
    qsf_plan plan = { .size = sizeof plan }, longer = { .size = sizeof longer };
    qsf_error e;
    qsf_context_options co = s->asked;
    qsf_model_get_info(s->model, &info);
    qsf_context_get_plan(s->context, &plan);
    co.n_ctx = info.n_ctx_train;
    if (info.n_ctx_train && info.n_ctx_train <= plan.n_ctx)
        snprintf(s->longer, sizeof s->longer, "the model was trained on %u positions",
            (unsigned)info.n_ctx_train);
    else if (!info.n_ctx_train && !s->set->common.context.ram_budget)
        snprintf(s->longer, sizeof s->longer, "-c N makes it longer");
    else if (!qsf_context_plan(s->model, &co, &longer, &e) && longer.n_ctx > plan.n_ctx)
        snprintf(s->longer, sizeof s->longer, "-c N makes it longer, up to %u", (unsigned)longer.n_ctx);
    else
        snprintf(s->longer, sizeof s->longer, "a longer one does not fit --ram-budget %llu",
            (unsigned long long)s->set->common.context.ram_budget / 1000000);
    return s->longer;
}

int session_open(run_session *s, const run_settings *set, bool vocab_only, uint32_t n_logits)
{
    qsf_model_options mo;
    qsf_context_options co;
    *s = (run_session){ .set = set, .hides = !strcmp(set->reasoning, "hide") };
    qsf_model_defaults(&mo);
    mo.vocab_only = vocab_only;
    mo.io = io_named(set->common.io);
    mo.i2s_layout = i2s_named(set->common.i2s_layout);
    mo.log = session_log;
    mo.log_user = (void *)(size_t)set;
    if (set->arrival) mo.platform = hub_arrival_platform(set->arrival);
    int code = trace_open(&set->program.trace, &s->files);
    if (code) return code;
    if (qsf_model_open(set->model, &mo, &s->model, &s->error)) return report_room(&s->error);
    code = vocab_only ? EXIT_OK : conversation_open(s);
    if (code || vocab_only) return code;

    co = set->common.context;
    if (set->perplexity && !co.n_ctx) co.n_ctx = 512;          /* windows as llama-perplexity's */
    co.n_seqs = session_embeds(set) ? EMBED_SEQS : 1;
    co.n_logits = n_logits;
    co.kv_may_drop = !set->session && !set->prompt_cache && !set->perplexity;  /* what is saved is whole */
    co.check_every = !strcmp(set->common.check, "every");
    trace_context(s->files, &co);
    if ((code = adapters_open(s, &co, false))) return code;
    s->draft = n_logits == 1 ? session_draft(s, &co) : 0;
    const bool drafter = s->draft && (set->draft_model || set->common.draft_mtp);
    if (drafter && (code = draft_model_open(s, &co))) return code;
    s->asked = co;
    warn_of_length(s);
    char note[DEVICE_NOTE];
    qsf_status st = device_context(&set->common.gpu, s->model, &s->asked, &s->context, note, &s->error);
    if (st == QSF_E_BUDGET && co.ram_budget && s->n_adapters) {      /* load them with their layers */
        if ((code = adapters_open(s, &co, true))) return code;
        s->asked = co;
        st = device_context(&set->common.gpu, s->model, &s->asked, &s->context, note, &s->error);
    }
    if (st) return report_room(&s->error);
    if (set->verbose && note[0]) fprintf(stderr, "%s\n", note);
    if ((code = adapters_use(s, co.n_seqs)) || session_embeds(set)) return code;
    if ((code = sampling_open(s)) || (code = draft_model_connect(s))) return code;
    if (qsf_turn_new(s->context, 0, &s->turn, &s->error)) return report(&s->error);
    return EXIT_OK;
}

int session_close(run_session *s, int code)
{
    qsf_conversation_free(s->talk);
    qsf_turn_free(s->turn);
    qsf_sampler_free(s->sampler);
    qsf_grammar_free(s->grammar);
    draft_model_close(s->drafter);
    qsf_context_free(s->context);
    adapters_close(s);
    qsf_model_close(s->model);
    chat_texts_close(&s->chat);
    code = trace_close(s->files, code);
    *s = (run_session){ 0 };
    return code;
}

int32_t *session_encode(run_session *s, const char *text, size_t len, int flags, size_t *n)
{
    /* At least a byte per token, plus the few added tokens. */
    const size_t cap = len + 16;
    int32_t *ids = malloc(cap * sizeof *ids);
    if (!ids) {
        fail(s, QSF_E_MEMORY, "out of memory for the prompt's tokens");
        return NULL;
    }
    if (qsf_tokens_encode(s->model, text, len, flags, ids, cap, n, &s->error)) {
        free(ids);
        return NULL;
    }
    return ids;
}

bool session_is_message(run_session *s, const char *text, size_t len)
{
    char why[160];
    const char *zero = len ? memchr(text, 0, len) : NULL;
    if (!zero) return true;
    snprintf(why, sizeof why, "byte %zu of the prompt is zero: a message is text without zero bytes; --raw "
             "accepts the prompt unchanged", (size_t)(zero - text));
    fail(s, QSF_E_ARGUMENT, why);
    return false;
}

static bool is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/* Reads a number at *at, which moves past it; -1: no number, or not a token. */
static int32_t id_at(const char *text, size_t len, size_t *at, uint32_t n_vocab)
{
    uint64_t v = 0;
    const size_t begin = *at;
    for (; *at < len && text[*at] >= '0' && text[*at] <= '9'; ++*at)
        if (v < n_vocab) v = 10 * v + (uint64_t)(text[*at] - '0');
    const bool ends = *at == len || is_blank(text[*at]) || text[*at] == ',' || text[*at] == ']';
    return *at > begin && ends && v < n_vocab ? (int32_t)v : -1;
}

int32_t *session_ids(run_session *s, const char *text, size_t len, const char *what, size_t *n)
{
    qsf_model_info info = { .size = sizeof info };
    char why[240];
    size_t at = 0;
    int32_t *ids = malloc((len + 1) * sizeof *ids);
    *n = 0;
    if (!ids) {
        fail(s, QSF_E_MEMORY, "out of memory for the token ids");
        return NULL;
    }
    qsf_model_get_info(s->model, &info);
    while (len && is_blank(text[len - 1])) len--;
    while (at < len && is_blank(text[at])) at++;
    const bool list = at < len && text[at] == '[' && text[len - 1] == ']';
    if (list) at++, len--;
    while (len > at && is_blank(text[len - 1])) len--;
    if (at == len && list) return ids;                    /* [] */
    if (at == len) snprintf(why, sizeof why, "%s: no numbers were given", what);
    while (at < len) {
        while (at < len && is_blank(text[at])) at++;
        const size_t begin = at;
        const int32_t id = id_at(text, len, &at, info.n_vocab);
        if (id < 0) {
            size_t end = begin;
            while (end < len && !is_blank(text[end]) && text[end] != ',') end++;
            const int shown = end - begin < 40 ? (int)(end - begin) : 40;
            const char *quote = shown ? "\"" : "";
            snprintf(why, sizeof why, "%s: number %zu is %s%s%.*s%s; it takes token ids from 0 to %u "
                     "separated by commas", what, *n + 1, shown ? "" : "missing", quote, shown,
                     text + begin, quote,
                     (unsigned)info.n_vocab - 1);
            break;
        }
        ids[(*n)++] = id;
        while (at < len && is_blank(text[at])) at++;
        if (at == len) return ids;
        if (text[at] == ',' && ++at == len)
            snprintf(why, sizeof why, "%s: a number is missing after the last comma", what);
    }
    fail(s, QSF_E_ARGUMENT, why);
    free(ids);
    return NULL;
}

/* If the model's own template causes the failure, suggests others. */
static void say_other_templates(run_session *s)
{
    char *text = s->error.text;
    const size_t len = strlen(text);
    if (s->set->common.template_name || strncmp(text, "chat template,", 14)) return;
    snprintf(text + len, sizeof s->error.text - len,
             "; --chat-template NAME chooses another, --raw none");
}

/* A conversation that consists only of texts. */
static qsf_message *plain_messages(const run_session *s, const message *msgs, size_t n)
{
    const qsf_chat_options *o = &s->chat.options;
    if (o->tools || o->documents || o->kwargs || o->bos || o->eos) return NULL;
    for (size_t i = 0; i < n; i++)
        if (msgs[i].reasoning.n || msgs[i].n_calls) return NULL;
    qsf_message *plain = malloc((n + 1) * sizeof *plain);
    for (size_t i = 0; plain && i < n; i++)
        plain[i] = (qsf_message){ msgs[i].role, buffer_text(&msgs[i].text) };
    return plain;
}

/* Whether the conversation has its prompt; else the error is the session's. */
static bool prompt_kept(run_session *s, qsf_status st)
{
    if (st) s->error = *qsf_conversation_error(s->talk);
    return !st;
}

bool session_text(run_session *s, const char *text, size_t len)
{
    return prompt_kept(s, qsf_conversation_text(s->talk, text, len));
}

bool session_chat(run_session *s, const message *msgs, size_t n)
{
    size_t len = 0;
    qsf_message *plain = plain_messages(s, msgs, n);
    char *json = plain ? NULL : messages_json(msgs, n, &len);
    if (!plain && !json) return fail(s, QSF_E_MEMORY, "out of memory for the conversation"), false;
    const bool set = prompt_kept(s, plain ? qsf_conversation_messages(s->talk, plain, n)
                                         : qsf_conversation_json(s->talk, json, len));
    free(json);
    free(plain);
    if (!set) say_other_templates(s);
    /* what is not JSON was given with an option, so the model is not to blame */
    if (!set && s->error.status == QSF_E_CORRUPT) s->error.status = QSF_E_ARGUMENT;
    return set;
}

static bool session_numbers(run_session *s)
{
    size_t n;
    int32_t *ids = session_ids(s, s->set->ids, strlen(s->set->ids), "--ids", &n);
    const bool set = ids && prompt_kept(s, qsf_conversation_ids(s->talk, ids, n));
    free(ids);
    return set;
}

bool session_prompt(run_session *s, const char *text, size_t len)
{
    if (s->set->ids) return session_numbers(s);
    if (!s->template_name) return session_text(s, text, len);
    if (!session_is_message(s, text, len)) return false;
    message msgs[2] = { { 0 }, { 0 } };
    size_t n = 0;
    const char *system = s->set->system;
    bool set = !system || message_begin(&msgs[n++], "system", system, strlen(system));
    set = message_begin(&msgs[n++], "user", text, len) && set;
    if (set) set = session_chat(s, msgs, n);
    else fail(s, QSF_E_MEMORY, "out of memory for the prompt");
    for (size_t i = 0; i < n; i++) message_free(&msgs[i]);
    return set;
}
