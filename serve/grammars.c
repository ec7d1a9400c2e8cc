/* Grammars of answers: compiled once, on a thread of their own, and kept by what was asked for.
 * SPDX-License-Identifier: MIT
 *
 * A thread compiles one grammar after another, so a schema that takes long delays neither running
 * answers nor requests without grammars.  Equal ones are compiled once, also those that fail.
 * A grammar's key is its source: strings one after another, each with its terminating zero. */
#include "grammars.h"
#include "system.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
    STORE_GRAMMARS = 32,                /* that are kept */
    STORE_QUEUE = 64,                   /* that wait for the thread */
    STORE_TEXT = 1 << 20                /* bytes of a key */
};
/* Of one grammar, now and in use; of all that are kept, as they were made. */
static const uint64_t grammar_bytes = (uint64_t)24 << 20, store_bytes = (uint64_t)96 << 20;

typedef enum grammar_state { GRAMMAR_MAKING, GRAMMAR_READY, GRAMMAR_FAILED } grammar_state;

struct serve_grammar {
    grammar_state  state;
    unsigned       users;               /* the list and the thread among them */
    bool           listed;
    uint64_t       used, bytes;
    serve_text     key;
    qsf_grammar   *shape;               /* of answers without a template, or */
    qsf_answer    *answer;              /* of chats, which has compiled its grammar */
    qsf_error      err;
    char           param[80];
    serve_grammar *next;                /* in a list of the thread */
};

struct grammar_store {
    qsf_model      *model;
    const char     *template_name;
    serve_metrics  *metrics;
    serve_grammar  *kept[STORE_GRAMMARS];
    unsigned        n_kept, n_making;
    uint64_t        uses;
    int             wake_fd;
    pthread_t       thread;
    bool            started;
    pthread_mutex_t lock;               /* of what follows */
    pthread_cond_t  changed;
    serve_grammar  *todo, **todo_end, *done;
    bool            ends;
};

/* How a chat's prompt ends: with the generation prompt, within the last message, after it. */
enum { BEGIN_PROMPT = 'g', BEGIN_CONTINUES = 'c', BEGIN_NOTHING = '-' };

/* ---- the thread ---- */

static const char *key_next(const char *at) { return at + strlen(at) + 1; }

/* Makes a grammar from a key 's' strict kind 0 text, for answers without a template.  The text may
 * have any length and contain zero bytes. */
static qsf_status make_shape(grammar_store *s, serve_grammar *g)
{
    const char *key = g->key.bytes, *text = key_next(key);
    const size_t len = g->key.len - (size_t)(text - key);
    qsf_grammar_options o;
    qsf_grammar_defaults(&o);
    o.most_memory = grammar_bytes;
    o.json_loose = key[1] == '0';
    const qsf_status st = qsf_grammar_new(s->model, (qsf_grammar_kind)(key[2] - '0'), text, len, &o,
                                          &g->shape, &g->err);
    if (!st) g->bytes = qsf_grammar_memory(g->shape);
    return st;
}

/* Makes a grammar from a key 't' several strict kind begin 0 choice 0 kwargs 0 tools 0 shape, for
 * chats.  Kind '-': no shape.  Begin: how the prompt ends. */
static qsf_status make_answer(grammar_store *s, serve_grammar *g)
{
    const char *key = g->key.bytes, *choice = key_next(key), *kwargs = key_next(choice);
    const char *tools = key_next(kwargs), *shape = key_next(tools);
    qsf_chat_options chat;
    qsf_answer_options o;
    qsf_chat_defaults(&chat);
    chat.chat_template = s->template_name;
    chat.tools = *tools ? tools : NULL;
    chat.kwargs = *kwargs ? kwargs : NULL;
    chat.continue_final_message = key[4] == BEGIN_CONTINUES;
    chat.add_generation_prompt = key[4] == BEGIN_PROMPT;
    qsf_answer_defaults(&o);
    o.chat = &chat;
    o.tool_choice = choice;
    o.parallel_tool_calls = key[1] == '1';
    o.most_memory = grammar_bytes;
    if (key[3] != '-') {
        o.shape = shape;
        o.shape_len = g->key.len - (size_t)(shape - key);
        o.shape_kind = (qsf_grammar_kind)(key[3] - '0');
        o.json_loose = key[2] == '0';
    }
    qsf_turn_options turn;
    qsf_turn_defaults(&turn);
    qsf_status st = qsf_answer_new(s->model, &o, &g->answer, &g->err);
    if (!st) st = qsf_answer_turn(g->answer, &turn, &g->err);
    if (!st) {
        if (turn.grammar) g->bytes = qsf_grammar_memory(turn.grammar);
        return QSF_OK;
    }
    qsf_answer_free(g->answer);
    g->answer = NULL;
    return st;
}

static void *store_main(void *arg)
{
    grammar_store *s = arg;
    system_behind();                    /* answers go first */
    pthread_mutex_lock(&s->lock);
    for (;;) {
        while (!s->todo && !s->ends) pthread_cond_wait(&s->changed, &s->lock);
        if (s->ends) break;
        serve_grammar *g = s->todo;
        if (!(s->todo = g->next)) s->todo_end = &s->todo;
        pthread_mutex_unlock(&s->lock);
        (void)qsf_grammar_prepare(s->model, NULL);      /* else the engine's thread would have to */
        const qsf_status st = g->key.bytes[0] == 's' ? make_shape(s, g) : make_answer(s, g);
        g->err.status = st;
        pthread_mutex_lock(&s->lock);
        g->next = s->done;
        s->done = g;
        (void)system_wake(s->wake_fd);                  /* full: a byte is there already */
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* ---- the list ---- */

static void grammar_free(serve_grammar *g)
{
    qsf_grammar_free(g->shape);
    qsf_answer_free(g->answer);
    text_free(&g->key);
    free(g);
}

void grammar_drop(grammar_store *s, serve_grammar *g)
{
    (void)s;
    if (g && --g->users == 0) grammar_free(g);
}

/* Out of the list, whose use ends. */
static void store_remove(grammar_store *s, serve_grammar *g)
{
    unsigned i = 0;
    if (!g->listed) return;
    while (s->kept[i] != g) i++;
    s->kept[i] = s->kept[--s->n_kept];
    g->listed = false;
    g->users--;
}

void grammar_forget(grammar_store *s, serve_grammar *g)
{
    if (!g) return;
    store_remove(s, g);
    if (!g->users) grammar_free(g);
}

/* Evicts the least recently used ones, until another one has room. */
static void store_tidy(grammar_store *s, unsigned more)
{
    for (;;) {
        serve_grammar *old = NULL;
        uint64_t bytes = 0;
        for (unsigned i = 0; i < s->n_kept; i++) {
            serve_grammar *g = s->kept[i];
            if (g->state == GRAMMAR_MAKING) continue;       /* the thread has it */
            bytes += g->bytes + g->key.len;
            if (!old || g->used < old->used) old = g;
        }
        if (!old || (s->n_kept + more <= STORE_GRAMMARS && bytes <= store_bytes)) return;
        grammar_forget(s, old);
    }
}

grammar_store *grammar_store_new(qsf_model *m, const char *template_name, serve_metrics *metrics,
                                 int wake_fd)
{
    grammar_store *s = calloc(1, sizeof *s);
    if (!s) return NULL;
    *s = (grammar_store){ .model = m, .template_name = template_name, .metrics = metrics,
                          .wake_fd = wake_fd };
    s->todo_end = &s->todo;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    s->started = !pthread_create(&s->thread, NULL, store_main, s);
    if (s->started) return s;
    grammar_store_free(s);
    return NULL;
}

void grammar_store_free(grammar_store *s)
{
    if (!s) return;
    if (s->started) {
        pthread_mutex_lock(&s->lock);
        s->ends = true;
        pthread_cond_signal(&s->changed);
        pthread_mutex_unlock(&s->lock);
        pthread_join(s->thread, NULL);
    }
    (void)grammar_store_look(s);
    for (serve_grammar *g = s->todo, *next; g; g = next) {
        next = g->next;
        grammar_drop(s, g);
    }
    while (s->n_kept) grammar_forget(s, s->kept[0]);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

bool grammar_store_look(grammar_store *s)
{
    pthread_mutex_lock(&s->lock);
    serve_grammar *g = s->done;
    const bool any = g != NULL;
    s->done = NULL;
    pthread_mutex_unlock(&s->lock);
    for (serve_grammar *next; g; g = next) {
        next = g->next;
        g->state = g->err.status ? GRAMMAR_FAILED : GRAMMAR_READY;
        s->n_making--;
        if (g->err.status == QSF_E_MEMORY) store_remove(s, g);      /* may work the next time */
        grammar_drop(s, g);
    }
    if (any) store_tidy(s, 0);
    return any;
}

/* ---- asking ---- */

bool grammar_wanted(const serve_request *r)
{
    return r->shape.text.text || (r->tools && strcmp(r->tool_choice, "none"));
}

/* Whether the answer uses a chat template, so that it may contain reasoning and calls. */
static bool grammar_has_template(const serve_request *r)
{
    return r->api & (API_CHAT | API_RESPONSES | API_MESSAGES);
}

/* Adds a string with its zero; NULL: an empty one. */
static void key_add(serve_text *key, const char *text)
{
    if (!text) text = "";
    text_add(key, text, strlen(text) + 1);
}

static void key_of(const serve_request *r, serve_text *key)
{
    const serve_shape *shape = &r->shape;
    const bool shaped = shape->text.text != NULL;
    char head[8] = { 't', r->parallel ? '1' : '0', shape->strict ? '1' : '0',
                     shaped ? (char)('0' + (int)shape->kind) : '-',
                     r->continue_final ? BEGIN_CONTINUES : r->generate ? BEGIN_PROMPT : BEGIN_NOTHING };
    if (!grammar_has_template(r)) {
        text_format(key, "s%d%d", shape->strict, (int)shape->kind);
        text_add(key, "", 1);
    } else {
        key_add(key, head);
        key_add(key, r->tools ? r->tool_choice : "");
        key_add(key, r->kwargs);
        key_add(key, r->tools && strcmp(r->tool_choice, "none") ? r->tools : "");
    }
    if (shaped) text_add(key, shape->text.text, shape->text.len);
}

static serve_grammar *store_find(grammar_store *s, const serve_text *key)
{
    for (unsigned i = 0; i < s->n_kept; i++) {
        serve_grammar *g = s->kept[i];
        if (g->key.len == key->len && !memcmp(g->key.bytes, key->bytes, key->len)) return g;
    }
    return NULL;
}

/* A new one, which the thread is to make; the key is taken over. */
static serve_grammar *store_add(grammar_store *s, serve_text *key)
{
    serve_grammar *g = calloc(1, sizeof *g);
    if (!g) return NULL;
    g->key = *key;
    *key = (serve_text){ 0 };
    store_tidy(s, 1);
    g->users = 1;
    g->listed = s->n_kept < STORE_GRAMMARS;
    if (g->listed) {
        s->kept[s->n_kept++] = g;
        g->users++;
    }
    s->n_making++;
    pthread_mutex_lock(&s->lock);
    *s->todo_end = g;
    s->todo_end = &g->next;
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->lock);
    return g;
}

serve_grammar *grammar_ask(grammar_store *s, const serve_request *r, serve_error *e)
{
    serve_text key = { 0 };
    const char *param = r->shape.text.text ? r->shape.param : "tools";
    key_of(r, &key);
    serve_grammar *g = key.failed ? NULL : store_find(s, &key);
    if (!key.failed && key.len > STORE_TEXT) {
        serve_refuse(e, 400, "string_above_max_length", param,
                     "\"%s\" takes %zu bytes; the maximum is %d", param, key.len, STORE_TEXT);
    } else if (!g && s->n_making >= STORE_QUEUE) {
        serve_refuse(e, 429, "queue_full", param, "%u grammars are already queued; try again later",
                                                  s->n_making);
    } else {
        metric_add(g ? &s->metrics->grammar_hits_total : &s->metrics->grammar_misses_total, 1);
        if (!g && !key.failed) g = store_add(s, &key);
        if (!g) serve_refuse(e, 503, NULL, NULL, "out of memory for the request");
    }
    text_free(&key);
    if (e->status) return NULL;
    g->used = ++s->uses;
    g->users++;
    memcpy(g->param, param, strlen(param) + 1);
    return g;
}

bool grammar_ready(const serve_grammar *g, serve_error *e)
{
    if (g->state == GRAMMAR_FAILED) {
        const bool ours = g->err.status == QSF_E_MEMORY;
        serve_refuse(e, ours ? 503 : 400, ours ? NULL : "invalid_schema",
                     strncmp(g->err.text, "tools:", 6) ? g->param : "tools", "%s", g->err.text);
    }
    return g->state != GRAMMAR_MAKING;
}

qsf_grammar      *grammar_shape(const serve_grammar *g) { return g->shape; }
const qsf_answer *grammar_answer(const serve_grammar *g) { return g->answer; }
