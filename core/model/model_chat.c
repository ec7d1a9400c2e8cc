/* A model's conversations, as the public header has them: which template, and what it writes as
 * tokens.
 * SPDX-License-Identifier: MIT */
#include "base/sized.h"
#include "model/model.h"
#include "chat/tools.h"

enum { CHAT_TOKEN = 64 };       /* bytes of a token's text that a template may write */

/* A template, and what it is given besides messages. */
typedef struct chat_choice {
    qsf_chat_ask ask;
    const char  *stop;                      /* NULL: it has to be found */
    char         bos[CHAT_TOKEN], eos[CHAT_TOKEN], unk[CHAT_TOKEN], pad[CHAT_TOKEN];
} chat_choice;

static const char *chat_token(const qsf_model *m, int32_t id, char text[CHAT_TOKEN])
{
    const char *piece;
    const size_t n = m ? qsf_token_piece(m, id, true, &piece) : 0;
    if (!n || n >= CHAT_TOKEN) return NULL;
    memcpy(text, piece, n);
    text[n] = 0;
    return text;
}

/* All names, for messages. */
static void chat_list(char *out, size_t cap)
{
    size_t len = 0;
    for (const char *const *name = qsf_chat_names(); *name && len < cap; name++) {
        qsf_format(out + len, cap - len, "%s%s", len ? ", " : "", *name);
        len += strlen(out + len);
    }
}

/* The template by its name or text; NULL or "own": the model's, or else the plain one. */
static qsf_status chat_template(const qsf_model *m, const char *name, bool tools, chat_choice *out,
                                qsf_error *err)
{
    const qsf_vocab *v = m ? &m->source->vocab : NULL;
    const char **jinja = &out->ask.jinja;
    char names[120];
    if (!name || !strcmp(name, "own")) {
        *jinja = v && tools ? qsf_vocab_chat_named(v, "tool_use") : NULL;
        if (!*jinja && v) *jinja = v->chat_template;
        if (*jinja) {
            if (*jinja == v->chat_template && m->stop[0]) out->stop = m->stop;
            return QSF_OK;
        }
        if (!m) return qsf_fail(err, QSF_E_ARGUMENT, "without a model, a chat template must be given");
        qsf_log(m, QSF_LOG_WARN, "%s has no chat template: the conversation is written as plain text "
                "(\"User: ...\")", m->source->path);
        *jinja = qsf_chat_known("plain", &out->stop);
        return QSF_OK;
    }
    if (strchr(name, '{')) {
        *jinja = name;
        return QSF_OK;
    }
    if ((v && (*jinja = qsf_vocab_chat_named(v, name))) || (*jinja = qsf_chat_known(name, &out->stop)))
        return QSF_OK;
    chat_list(names, sizeof names);
    return qsf_fail(err, QSF_E_NOT_FOUND, "no chat template is named \"%.200s\"; the names are %s", name,
                    names);
}

/* opts: NULL or taken. */
static qsf_status chat_choose(const qsf_model *m, const char *name, const qsf_chat_options *o,
                              chat_choice *out, qsf_error *err)
{
    const qsf_vocab none = { .bos = -1, .eos = -1, .unk = -1, .pad = -1 }, *v = m ? &m->source->vocab : &none;
    *out = (chat_choice){ .ask = { .platform = m ? m->platform : qsf_platform_native(), .generate = true } };
    qsf_chat_ask *a = &out->ask;
    a->bos = o && o->bos ? o->bos : chat_token(m, v->bos, out->bos);
    a->eos = o && o->eos ? o->eos : chat_token(m, v->eos, out->eos);
    a->unk = chat_token(m, v->unk, out->unk);
    a->pad = chat_token(m, v->pad, out->pad);
    if (o) {
        a->generate = o->add_generation_prompt;
        a->goes_on = o->continue_final_message;
        a->as_given = o->as_given;
    }
    a->now = o && o->now ? o->now : qsf_host_wall(a->platform);
    return chat_template(m, name, o && o->tools, out, err);
}

static qsf_status chat_vocabulary(const qsf_model *m, qsf_error *err)
{
    if (m->tokenizer) return QSF_OK;
    return qsf_fail(err, QSF_E_UNSUPPORTED, "%s has no vocabulary: give token ids", m->source->path);
}

/* ---- what comes out ---- */

/* A template's refusal is reported as an argument error. */
static qsf_status chat_status(qsf_status st, qsf_error *err)
{
    if (st != QSF_E_CANCELLED) return st;
    if (err) err->status = QSF_E_ARGUMENT;
    return QSF_E_ARGUMENT;
}

static qsf_status chat_write(const qsf_chat_ask *ask, qsf_chat_text *out, qsf_error *err)
{
    return chat_status(qsf_chat_write(ask, out, err), err);
}

static qsf_status chat_to_tokens(const qsf_model *m, const qsf_chat_text *t, const char *bos, int32_t *ids,
                                 size_t cap, size_t *n_ids, qsf_error *err)
{
    /* a template that writes the begin-of-text token gets no second one */
    const bool written = bos && t->len >= strlen(bos) && !memcmp(t->text, bos, strlen(bos)) && t->n_spans
        && t->spans[0].is_template && t->spans[0].len >= strlen(bos);
    return qsf_tokenizer_encode_chat(m->tokenizer, t->text, t->len, t->spans, t->n_spans, !written, ids, cap,
                                     n_ids, err);
}

static qsf_status chat_to_text(const char *text, size_t n, char *out, size_t cap, size_t *len, qsf_error *err)
{
    *len = n;
    if (n && cap) memcpy(out, text, QSF_MIN(n, cap));
    if (n < cap) {
        out[n] = 0;
        return QSF_OK;
    }
    return qsf_fail(err, QSF_E_ARGUMENT, "the conversation takes %llu bytes, there is room for %llu",
                    (unsigned long long)n + 1, (unsigned long long)cap);
}

/* ---- plain messages ---- */

/* A count of messages that no memory can hold is an error rather than the end of this program. */
static qsf_status chat_count(size_t n, qsf_error *err)
{
    if (n <= PTRDIFF_MAX / sizeof(qsf_message) / 16) return QSF_OK;
    return qsf_fail(err, QSF_E_ARGUMENT, "%llu messages do not fit in memory", (unsigned long long)n);
}

static qsf_status chat_plain(const qsf_model *m, const char *name, const qsf_message *msgs, size_t n,
                             bool generate, chat_choice *c, qsf_chat_text *out, qsf_error *err)
{
    *out = (qsf_chat_text){ 0 };
    qsf_status st = chat_count(n, err);
    if (st || (st = chat_choose(m, name, NULL, c, err))) return st;
    c->ask.messages = msgs;
    c->ask.n = n;
    c->ask.generate = generate;
    return chat_write(&c->ask, out, err);
}

qsf_status qsf_chat_render(const qsf_model *m, const char *name, const qsf_message *msgs, size_t n,
                           bool generate, char *out, size_t cap, size_t *len, qsf_error *err)
{
    chat_choice c;
    qsf_chat_text t;
    *len = 0;
    qsf_status st = chat_plain(m, name, msgs, n, generate, &c, &t, err);
    if (st) return st;
    const size_t bos = c.ask.bos ? strlen(c.ask.bos) : 0;
    const bool written = bos && m->source->vocab.add_bos && t.len >= bos && !memcmp(t.text, c.ask.bos, bos);
    const size_t skip = written ? bos : 0;
    st = chat_to_text(t.text + skip, t.len - skip, out, cap, len, err);
    qsf_chat_text_drop(&t);
    return st;
}

/* ---- messages in JSON ---- */

void qsf_chat_defaults_of(qsf_chat_options *o, size_t size)
{
    static const qsf_chat_options d = { .size = sizeof d, .add_generation_prompt = true };
    qsf_sized_defaults(o, size, &d, sizeof d);
}

/* What was read of the caller's texts. */
typedef struct chat_request {
    chat_choice choice;
    qsf_json    messages, tools, documents, kwargs;
} chat_request;

static void chat_request_drop(chat_request *r)
{
    qsf_json_drop(&r->messages);
    qsf_json_drop(&r->tools);
    qsf_json_drop(&r->documents);
    qsf_json_drop(&r->kwargs);
}

static qsf_status chat_request_part(const qsf_platform *p, const char *text, const char *what,
                                    qsf_json_type type, qsf_json *json, const qsf_json_node **out,
                                    qsf_error *err)
{
    if (!text) return QSF_OK;
    const qsf_status st = qsf_json_read(p, text, strlen(text), what, json, err);
    if (st) return st;
    if (json->nodes->type == QSF_JSON_NULL) return QSF_OK;
    if (json->nodes->type != type)
        return qsf_fail(err, QSF_E_ARGUMENT, "the %s must be %s", what,
                        type == QSF_JSON_LIST ? "a list" : "an object");
    *out = json->nodes;
    return QSF_OK;
}

static qsf_status chat_request_read(const qsf_model *m, const char *messages, size_t len,
                                    const qsf_chat_options *opts, chat_request *r, qsf_error *err)
{
    qsf_chat_options o;
    qsf_chat_defaults(&o);
    *r = (chat_request){ 0 };
    qsf_status st = QSF_TAKE(&o, opts, qsf_chat_options, err);
    if (st) return st;
    const qsf_platform *p = m ? m->platform : qsf_platform_native();
    const qsf_json_node *tools = NULL, *documents = NULL, *kwargs = NULL, *root = NULL;
    if (messages) {
        if ((st = qsf_json_read(p, messages, len, "messages", &r->messages, err))) return st;
        root = r->messages.nodes;
        if (root->type == QSF_JSON_OBJECT && qsf_json_member(root, "messages")) {
            tools = qsf_json_member(root, "tools");
            root = qsf_json_member(root, "messages");
        }
    }
    if ((st = chat_request_part(p, o.tools, "tools", QSF_JSON_LIST, &r->tools, &tools, err))
        || (st = chat_request_part(p, o.documents, "documents", QSF_JSON_LIST, &r->documents, &documents,
                                   err))
        || (st = chat_request_part(p, o.kwargs, "keyword arguments", QSF_JSON_OBJECT, &r->kwargs, &kwargs,
                                   err))) return st;
    if (tools && tools->type == QSF_JSON_NULL) tools = NULL;
    if (tools && !o.tools) o.tools = "";
    if ((st = chat_choose(m, o.chat_template, &o, &r->choice, err))) return st;
    r->choice.ask.json = root;
    r->choice.ask.tools = tools;
    r->choice.ask.documents = documents;
    r->choice.ask.kwargs = kwargs;
    return QSF_OK;
}

static qsf_status chat_request_encode(const qsf_model *m, const chat_request *r, int32_t *ids, size_t cap,
                                      size_t *n_ids, qsf_error *err)
{
    qsf_chat_text t;
    qsf_status st = chat_write(&r->choice.ask, &t, err);
    if (!st) st = chat_to_tokens(m, &t, r->choice.ask.bos, ids, cap, n_ids, err);
    qsf_chat_text_drop(&t);
    return st;
}

qsf_status qsf_chat_encode_plain(const qsf_model *m, const qsf_message *msgs, size_t n,
                                 const qsf_chat_options *opts, int32_t *ids, size_t cap, size_t *n_ids,
                                 qsf_error *err)
{
    chat_request r = { 0 };
    *n_ids = 0;
    qsf_status st = chat_vocabulary(m, err);
    if (!st) st = chat_count(n, err);
    if (!st) st = chat_request_read(m, NULL, 0, opts, &r, err);
    r.choice.ask.messages = msgs;
    r.choice.ask.n = n;
    if (!st) st = chat_request_encode(m, &r, ids, cap, n_ids, err);
    chat_request_drop(&r);
    return st;
}

qsf_status qsf_chat_encode(const qsf_model *m, const char *name, const qsf_message *msgs, size_t n,
                           bool generate, int32_t *ids, size_t cap, size_t *n_ids, qsf_error *err)
{
    qsf_chat_options o;
    qsf_chat_defaults(&o);
    o.chat_template = name;
    o.add_generation_prompt = generate;
    return qsf_chat_encode_plain(m, msgs, n, &o, ids, cap, n_ids, err);
}

qsf_status qsf_chat_encode_json(const qsf_model *m, const char *messages, size_t len,
                                const qsf_chat_options *opts, int32_t *ids, size_t cap, size_t *n_ids,
                                qsf_error *err)
{
    chat_request r = { 0 };
    *n_ids = 0;
    qsf_status st = chat_vocabulary(m, err);
    if (!st) st = chat_request_read(m, messages, len, opts, &r, err);
    if (!st) st = chat_request_encode(m, &r, ids, cap, n_ids, err);
    chat_request_drop(&r);
    return st;
}

qsf_status qsf_chat_render_json(const qsf_model *m, const char *messages, size_t len,
                                const qsf_chat_options *opts, char *out, size_t cap, size_t *n,
                                qsf_error *err)
{
    chat_request r;
    qsf_chat_text t = { 0 };
    *n = 0;
    qsf_status st = chat_request_read(m, messages, len, opts, &r, err);
    if (!st && !(st = chat_write(&r.choice.ask, &t, err)))
        st = chat_to_text(t.text, t.len, out, cap, n, err);
    qsf_chat_text_drop(&t);
    chat_request_drop(&r);
    return st;
}

/* ---- what a model's template is, and what ends its answers ---- */

const char *const *qsf_chat_template_names(void) { return qsf_chat_names(); }

/* A template's output for a conversation, without the begin-of-text token; false: it failed. */
static bool chat_sample(const qsf_chat_ask *ask, qsf_chat_text *out, const char **text, size_t *len)
{
    static const qsf_message talk[] = { { "system", "a b" }, { "user", " c\n" }, { "assistant", "d" },
                                        { "user", "e" } };
    qsf_chat_ask a = *ask;
    a.messages = talk;
    a.n = QSF_ARRAY_LEN(talk);
    a.generate = true;
    if (chat_write(&a, out, NULL)) return false;
    const size_t bos = a.bos ? strlen(a.bos) : 0, skip = bos && out->len >= bos
        && !memcmp(out->text, a.bos, bos) ? bos : 0;
    *text = out->text + skip;
    *len = out->len - skip;
    return true;
}

const char *qsf_chat_template(const qsf_model *m)
{
    chat_choice own;
    qsf_chat_text mine, theirs;
    const char *text, *other, *stop, *found = "own";
    size_t len, n;
    if (!m->source->vocab.chat_template || chat_choose(m, NULL, NULL, &own, NULL)) return NULL;
    if (!chat_sample(&own.ask, &mine, &text, &len)) return found;
    qsf_chat_ask known = own.ask;
    for (const char *const *name = qsf_chat_names(); *name && !strcmp(found, "own"); name++) {
        known.jinja = qsf_chat_known(*name, &stop);
        if (!chat_sample(&known, &theirs, &other, &n)) continue;
        if (n == len && !memcmp(text, other, n)) found = *name;
        qsf_chat_text_drop(&theirs);
    }
    qsf_chat_text_drop(&mine);
    return found;
}

/* If a template writes several tokens after an answer, the first of them ends it. */
static qsf_status chat_first_token(const qsf_model *m, char *text, size_t *len, qsf_error *err)
{
    const char *piece;
    size_t n = 0;
    int32_t first;
    if (!m || !m->tokenizer || !*len) return QSF_OK;
    const qsf_status st = qsf_tokenizer_encode(m->tokenizer, text, *len, QSF_TOK_PARSE_SPECIAL, &first, 1, &n,
                                               err);
    if (st == QSF_E_MEMORY) return st;      /* there are more: the first is enough */
    if (!n || m->source->vocab.types[first] != QSF_TOKEN_CONTROL) return QSF_OK;
    n = qsf_token_piece(m, first, true, &piece);
    if (n < *len && !memcmp(text, piece, n)) text[*len = n] = 0;
    return QSF_OK;
}

qsf_status qsf_model_chat(qsf_model *m, qsf_error *err)
{
    chat_choice c;
    size_t len = 0;
    qsf_status st;
    m->chat_end = -1;
    if (!m->source->vocab.chat_template || chat_choose(m, NULL, NULL, &c, NULL)) return QSF_OK;
    st = qsf_chat_find_stop(&c.ask, m->stop, sizeof m->stop, &len, err);
    if (!st) st = chat_first_token(m, m->stop, &len, err);
    if (st) m->stop[len = 0] = 0;
    const int32_t id = m->tokenizer && len ? qsf_tokenizer_find(m->tokenizer, m->stop, len) : -1;
    if (id >= 0 && m->source->vocab.types[id] == QSF_TOKEN_CONTROL) m->chat_end = id;
    return st == QSF_E_MEMORY ? st : QSF_OK;
}

const char *qsf_chat_stop(const qsf_model *m, const char *name)
{
    const char *stop = NULL;
    if (name && !strcmp(name, "own")) name = NULL;
    if (!name && m->source->vocab.chat_template) return m->stop[0] ? m->stop : NULL;
    return qsf_chat_known(name ? name : "plain", &stop) ? stop : NULL;
}

qsf_status qsf_chat_stop_text(const qsf_model *m, const qsf_chat_options *opts, char *out, size_t cap,
                              size_t *len, qsf_error *err)
{
    char found[CHAT_TOKEN];
    chat_request r;
    *len = 0;
    qsf_status st = chat_request_read(m, NULL, 0, opts, &r, err);
    if (!st && r.choice.stop) {
        *len = strlen(r.choice.stop);
        memcpy(found, r.choice.stop, *len);
    } else if (!st && !(st = qsf_chat_find_stop(&r.choice.ask, found, sizeof found, len, err))) {
        st = chat_first_token(m, found, len, err);
    }
    chat_request_drop(&r);
    return st ? chat_status(st, err) : chat_to_text(found, *len, out, cap, len, err);
}

qsf_status qsf_model_tool_form(const qsf_model *m, const qsf_chat_options *opts, qsf_tool_form *out,
                               qsf_error *err)
{
    chat_request r;
    qsf_status st = chat_request_read(m, NULL, 0, opts, &r, err);
    if (!st) st = qsf_tool_form_of(&r.choice.ask, out, err);
    chat_request_drop(&r);
    return chat_status(st, err);
}
