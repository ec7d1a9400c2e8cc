/* What a module shows to JavaScript: one model, one context, one sequence, in calls that take
 * and give numbers and places in memory.
 * SPDX-License-Identifier: MIT
 *
 * js/engine.js and js/conversation.js are the other side; the orders of numbers and texts here
 * are engine.js's lists' orders. */
#include "engine/context.h"
#include "engine/plan.h"
#include "model/adapter.h"
#include "tensor/ggml_tiles.h"
#include "turn/embed.h"
#include "wasm.h"

#include <string.h>

static struct {
    qsf_model   *model;
    qsf_context *context;
    qsf_sampler *sampler;
    qsf_turn    *turn;
    qsf_turn_piece piece;           /* the last one */
    qsf_grammar *grammar;           /* of the turn that is next or under way, as the answer is; or NULL */
    qsf_answer  *answer;
    qsf_answer_event event;         /* the last one */
    bool         answered;          /* the answer has its last piece */
    qsf_embed_run embed;            /* of the text that is embedded */
    size_t       embed_len;
    qsf_plan     plan;
    uint32_t     guesses;           /* a pass, at most */
    const char  *bytes;             /* of the last token_piece */
    char         warnings[1500];    /* of the last context_new: lines */
    size_t       count;             /* ids or bytes that the last call gave or would have given */
    qsf_error    error;
} session;

WASM_EXPORT("alloc") void *wasm_alloc(size_t size) { return wasm_mem_alloc(NULL, size); }
WASM_EXPORT("free") void wasm_free(void *p, size_t size) { wasm_mem_free(NULL, p, size); }
WASM_EXPORT("start") void wasm_start(void)
{
    wasm_crc_table();
    wasm_codebooks();
    wasm_unicode();
}

/* The forms of tiles that the model's matrices have or come to have, as bits. */
static uint64_t model_forms(const qsf_source *s)
{
    uint64_t forms = 1ull << QSF_F_3;           /* the head's screen */
    for (uint32_t i = 0; i < s->n_tensors; i++) {
        const int ggml = qsf_ggml_tile_type(&s->tensors[i]),
            form = qsf_form_of_type(ggml < 0 ? s->tensors[i].type : (uint32_t)ggml);
        if (form >= 0) forms |= 1ull << form;
    }
    if (s->clusters) forms |= 1ull << QSF_F_8;
    return forms;
}

/* The module's file determines what it was compiled for; this checks whether the JavaScript engine
 * computes the model's products correctly.  Called when the model is opened, and again from time to
 * time, since the engine may have recompiled the kernels. */
uint32_t wasm_cpu = QSF_CPU_WASM;
WASM_EXPORT("works") bool wasm_works(void)
{
    static bool asked;
    const uint32_t cpu = qsf_cpu_wasm(model_forms(session.model->source));
#if defined(__wasm_relaxed_simd__)
    if (!(cpu & QSF_CPU_WASM_RELAXED)) return false;
#endif
    if (!asked) wasm_cpu = cpu;
    asked = true;
    return cpu == wasm_cpu;
}
WASM_EXPORT("error") const char *wasm_error(void) { return session.error.text; }
WASM_EXPORT("count") size_t wasm_count(void) { return session.count; }

/* ---- life ---- */

static void wasm_log(void *user, qsf_log_level level, const char *line)
{
    const size_t at = strlen(session.warnings), len = strlen(line);
    (void)user;
    if (level != QSF_LOG_WARN || at + len + 2 > sizeof session.warnings) return;
    memcpy(session.warnings + at, line, len);
    memcpy(session.warnings + at + len, "\n", 2);
}
WASM_EXPORT("warnings") const char *wasm_warnings(void) { return session.warnings; }

/* name: the model's, then that of a layout of I2_S, each terminated. */
WASM_EXPORT("model_open") int wasm_model_open(const char *name, int vocab_only)
{
    qsf_model_options o;
    qsf_model_defaults(&o);
    (void)qsf_i2s_layout_find(name + strlen(name) + 1, &o.i2s_layout);
    o.vocab_only = vocab_only;
    o.log = wasm_log;
    return qsf_model_open(name, &o, &session.model, &session.error);
}

static qsf_status context_new(const qsf_context_options *o)
{
    const qsf_status st = qsf_context_new(session.model, o, &session.context, &session.error);
    return st ? st : qsf_turn_new(session.context, 0, &session.turn, &session.error);
}

/* asked: name, value, name, value, ... of options that a list of the library has, each terminated;
 * an empty name ends them. */
static qsf_status options_asked(qsf_status (*set)(void *, const char *, const char *, qsf_error *), void *o,
                                const char *asked)
{
    while (*asked) {
        const char *name = asked, *value = name + strlen(name) + 1;
        const qsf_status st = set(o, name, value, &session.error);
        if (st) return st;
        asked = value + strlen(value) + 1;
    }
    return QSF_OK;
}
static qsf_status set_context(void *o, const char *name, const char *value, qsf_error *err)
{
    return qsf_context_set(o, name, value, err);
}
static qsf_status set_sampler(void *o, const char *name, const char *value, qsf_error *err)
{
    return qsf_sampler_set(o, name, value, err);
}
static qsf_status set_turn(void *o, const char *name, const char *value, qsf_error *err)
{
    return qsf_turn_set(o, name, value, err);
}

/* plan_only: only makes the plan. */
WASM_EXPORT("context_new") int wasm_context_new(const char *asked, int plan_only)
{
    qsf_context_options o;
    qsf_context_defaults(&o);
    qsf_status st = options_asked(set_context, &o, asked);
    if (st) return st;
    o.n_seqs = 1;
    session.plan.size = sizeof session.plan;
    session.warnings[0] = 0;
    session.guesses = qsf_draft_room(session.model, &o, QSF_DRAFT_MOST);
    st = plan_only ? qsf_context_plan(session.model, &o, &session.plan, &session.error)
                   : context_new(&o);
    if (st) return st;
    if (plan_only) qsf_plan_log(session.model, &session.plan, &o);
    else qsf_context_get_plan(session.context, &session.plan);
    return QSF_OK;
}

/* ---- what it is ---- */

WASM_EXPORT("text") const char *wasm_text(uint32_t which)
{
    qsf_model_info m = { .size = sizeof m };
    qsf_stats s = { .size = sizeof s };
    qsf_model_get_info(session.model, &m);
    if (session.context) qsf_context_get_stats(session.context, &s);
    const char *const texts[] = { m.arch, m.name, m.format, m.chat_template, qsf_chat_template(session.model),
                                  s.isa, qsf_version() };
    return which < QSF_ARRAY_LEN(texts) ? texts[which] : NULL;
}

WASM_EXPORT("number") double wasm_number(uint32_t which)
{
    qsf_model_info m = { .size = sizeof m };
    qsf_stats s = { .size = sizeof s };
    qsf_turn_state t = { .size = sizeof t };
    qsf_model_get_info(session.model, &m);
    if (session.context) qsf_context_get_stats(session.context, &s);
    if (session.turn) qsf_turn_get_state(session.turn, &t);
    const double numbers[] = {
        m.n_layers, m.n_embd, m.n_heads, m.n_kv_heads, m.head_dim, m.n_ff, m.n_vocab, m.n_ctx_train,
        (double)m.n_params, (double)m.weight_bytes,
        qsf_token_bos(session.model), qsf_token_eos(session.model),
        (double)session.plan.total, session.plan.n_ctx, session.plan.resident, session.plan.n_slots,
        s.n_threads, (double)s.tokens_prompt, (double)s.tokens_generated, (double)s.ns_prompt,
        (double)s.ns_generated, (double)s.ns_wait_io, (double)s.ns_prepare, (double)s.ns_matmul,
        (double)s.ns_attention, (double)s.ns_other, (double)s.bytes_read, (double)s.ns_read,
        (double)s.ns_check, (double)s.ns_decompress, (double)s.ns_head, s.overlap, (double)s.layers_left,
        session.plan.n_batch, (double)session.plan.least, (double)t.ns_sampling, m.encoder, m.n_classes,
        (double)s.experts_used, (double)s.experts_found, (double)s.experts_read, (double)s.experts_bytes,
    };
    return which < QSF_ARRAY_LEN(numbers) ? numbers[which] : 0;
}

/* The i-th part of the memory plan; -1 past the last. */
WASM_EXPORT("plan_bytes") double wasm_plan_bytes(uint32_t i)
{
    return i < session.plan.n_items ? (double)session.plan.items[i].bytes : -1;
}
WASM_EXPORT("plan_name") const char *wasm_plan_name(uint32_t i)
{
    return i < session.plan.n_items ? session.plan.items[i].name : NULL;
}
/* The i-th reduction made to fit the budget; NULL past the last. */
WASM_EXPORT("reduction") const char *wasm_reduction(uint32_t i)
{
    return i < session.plan.n_reductions ? session.plan.reductions[i] : NULL;
}

/* ---- text ---- */

WASM_EXPORT("encode") int wasm_encode(const char *text, size_t len, int flags, int32_t *ids, size_t cap)
{
    return qsf_tokens_encode(session.model, text, len, flags, ids, cap, &session.count, &session.error);
}
WASM_EXPORT("token_piece") const char *wasm_token_piece(int32_t id, int special)
{
    session.count = qsf_token_piece(session.model, id, special, &session.bytes);
    return session.bytes;
}

/* given: texts of the template, tools, documents and keyword arguments, each terminated and "" for
 * none.  now: seconds since 1970 as a clock on the wall shows them. */
static qsf_chat_options chat_options(const char *given, double now)
{
    qsf_chat_options o;
    qsf_chat_defaults(&o);
    const char **const texts[] = { &o.chat_template, &o.tools, &o.documents, &o.kwargs };
    for (size_t i = 0; i < QSF_ARRAY_LEN(texts); given += strlen(given) + 1, i++)
        if (*given) *texts[i] = given;
    o.now = (int64_t)now;
    return o;
}
/* messages in JSON.  The text to out, without the begin-of-text token that the tokenizer puts
 * there, or (ids not NULL) the tokens to ids. */
WASM_EXPORT("chat")
int wasm_chat(const char *messages, size_t len, const char *given, double now, char *out, int32_t *ids,
              size_t cap)
{
    qsf_chat_options o = chat_options(given, now);
    if (ids)
        return qsf_chat_encode_json(session.model, messages, len, &o, ids, cap, &session.count,
                                    &session.error);
    if (session.model->source->vocab.add_bos) o.bos = "";
    return qsf_chat_render_json(session.model, messages, len, &o, out, cap, &session.count, &session.error);
}
/* The text that ends an answer, "" for none, into out[64]. */
WASM_EXPORT("chat_stop") int wasm_chat_stop(const char *given, double now, char *out)
{
    const qsf_chat_options o = chat_options(given, now);
    return qsf_chat_stop_text(session.model, &o, out, 64, &session.count, &session.error);
}

/* ---- embeddings and ranks ---- */

WASM_EXPORT("embed_width") uint32_t wasm_embed_width(int pooling)
{
    return qsf_embed_width(session.model, (qsf_pooling)pooling);
}
WASM_EXPORT("rerank_encode")
int wasm_rerank_encode(const char *query, size_t query_len, const char *document, size_t len, int32_t *ids,
                       size_t cap)
{
    return qsf_rerank_encode(session.model, query, query_len, document, len, ids, cap, &session.count,
                             &session.error);
}
static qsf_status embed_said(qsf_status st)
{
    if (st && st != QSF_PENDING) qsf_fail(&session.error, st, "%s", qsf_last_error(session.context));
    return st;
}
/* Begins an input of n tokens; score: a pair to be ranked.  ids and out are in use until
 * embed_step() returns something other than QSF_PENDING, or embed_end() is called. */
WASM_EXPORT("embed_begin")
int wasm_embed_begin(const int32_t *ids, size_t n, int pooling, int plain, int score, float *out)
{
    const qsf_embed_options o = { .size = sizeof o, .pooling = (qsf_pooling)pooling, .plain = plain };
    session.embed_len = n;
    qsf_turn_cancel(session.turn);
    (void)qsf_turn_hold(session.turn, NULL, 0);
    return embed_said(qsf_embed_run_begin(session.context, &session.embed, ids, &session.embed_len, 1, &o,
                                      score, out));
}
/* As turn_step(). */
WASM_EXPORT("embed_step") int wasm_embed_step(void)
{
    bool waiting;
    (void)qsf_refine(session.context, false);
    const qsf_status st = embed_said(qsf_embed_run_step(session.context, &session.embed, &waiting));
    return (int)st + (waiting ? 256 : 0);
}
WASM_EXPORT("embed_end") void wasm_embed_end(void) { qsf_embed_run_end(session.context, &session.embed); }

/* ---- sessions ---- */

WASM_EXPORT("length") uint32_t wasm_seq_length(void) { return qsf_seq_length(session.context, 0); }

/* A session's bytes are JavaScript's: here they would make the memory larger for good. */
static qsf_status session_put(void *user, const void *bytes, size_t len)
{
    (void)user;
    wasm_js_save(bytes, len);
    return QSF_OK;
}
WASM_EXPORT("session_bytes") double wasm_session_bytes(void)
{
    return (double)qsf_session_bytes(session.context, 0);
}
WASM_EXPORT("session_save") int wasm_session_save(void)
{
    size_t n;
    qsf_turn_cancel(session.turn);
    const int32_t *ids = qsf_turn_tokens(session.turn, &n);
    return qsf_session_save(session.context, 0, ids, n, session_put, NULL, &session.error);
}
static qsf_status session_get(void *user, uint64_t at, void *dst, size_t len)
{
    (void)user;
    wasm_js_load((double)at, dst, len);
    return QSF_OK;
}
WASM_EXPORT("session_load") int wasm_session_load(double len)
{
    const qsf_custom_file from = { .size = sizeof from, .length = (uint64_t)len, .read = session_get };
    const size_t bytes = session.plan.n_ctx * sizeof(int32_t);
    int32_t *ids = wasm_mem_alloc(NULL, bytes);
    if (!ids) return qsf_fail(&session.error, QSF_E_MEMORY, "out of memory for a session's tokens");
    qsf_turn_cancel(session.turn);
    const size_t cap = session.plan.n_ctx;
    qsf_status st = qsf_session_load(session.context, 0, &from, ids, cap, &session.count, &session.error);
    if (!st && (st = qsf_turn_hold(session.turn, ids, session.count)))
        session.error = *qsf_turn_error(session.turn);
    wasm_mem_free(NULL, ids, bytes);
    return st;
}

/* ---- adapters ---- */

/* Reads an adapter of len bytes, which JavaScript supplies as it does a session's; count() returns
 * its index. */
WASM_EXPORT("adapter_load") int wasm_adapter_load(const char *name, double len)
{
    const qsf_custom_file from = { .size = sizeof from, .length = (uint64_t)len, .read = session_get };
    qsf_adapter *a;
    const qsf_status st = qsf_adapter_load(session.model, name, &from, &a, &session.error);
    session.count = (size_t)a;
    return st;
}
WASM_EXPORT("adapter_free") void wasm_adapter_free(qsf_adapter *a) { qsf_adapter_free(a); }
WASM_EXPORT("adapter_name") const char *wasm_adapter_name(const qsf_adapter *a) { return a->name; }
WASM_EXPORT("adapter_number") double wasm_adapter_number(const qsf_adapter *a, uint32_t which)
{
    const double numbers[] = { a->n_pairs, a->rank, (double)a->alpha, (double)a->bytes };
    return which < QSF_ARRAY_LEN(numbers) ? numbers[which] : 0;
}
/* Tokens computed from now on use these adapters; if they differ from the previous ones, the
 * sequence is emptied. */
WASM_EXPORT("adapters_use") int wasm_adapters_use(const qsf_adapter_use *uses, size_t n)
{
    qsf_turn_cancel(session.turn);
    const qsf_status st = embed_said(qsf_seq_set_adapters(session.context, 0, uses, n));
    if (!qsf_seq_length(session.context, 0)) (void)qsf_turn_hold(session.turn, NULL, 0);
    return st;
}

/* ---- turns ---- */

WASM_EXPORT("sampler_new") int wasm_sampler_new(const char *asked)
{
    qsf_sampler_options o;
    qsf_sampler_defaults(&o);
    const qsf_status st = options_asked(set_sampler, &o, asked);
    qsf_sampler_free(session.sampler);
    session.sampler = NULL;
    return st ? st : qsf_sampler_new(session.model, &o, &session.sampler, &session.error);
}
WASM_EXPORT("sampler_bias") int wasm_sampler_bias(int32_t token, double bias)
{
    return qsf_sampler_bias(session.sampler, token, (float)bias, &session.error);
}
WASM_EXPORT("sampler_ban") int wasm_sampler_ban(const char *text, size_t len)
{
    return qsf_sampler_ban(session.sampler, text, len, &session.error);
}
WASM_EXPORT("sampler_breaker") int wasm_sampler_breaker(const char *text, size_t len)
{
    return qsf_sampler_breaker(session.sampler, text, len, &session.error);
}
/* The next turn's answer matches this grammar.  blanks: json_blanks; above its range: any number.
 * loose: json_loose. */
WASM_EXPORT("grammar_new")
int wasm_grammar_new(int kind, const char *text, size_t len, double blanks, int loose)
{
    qsf_grammar_options o;
    qsf_grammar_defaults(&o);
    o.json_blanks = blanks < UINT32_MAX ? (uint32_t)blanks : UINT32_MAX;
    o.json_loose = loose;
    qsf_grammar_free(session.grammar);
    return qsf_grammar_new(session.model, (qsf_grammar_kind)kind, text, len, &o, &session.grammar,
                           &session.error);
}
/* The next turn's answer is split into reasoning, text and calls.  given, now: as in chat(); kind
 * to loose: as in grammar_new, for an answer that is not a call; shape NULL: free text. */
WASM_EXPORT("answer_new")
int wasm_answer_new(const char *given, double now, const char *choice, int several, double seed, int kind,
                    const char *shape, size_t shape_len, double blanks, int loose)
{
    const qsf_chat_options chat = chat_options(given, now);
    qsf_answer_options o;
    qsf_turn_options turn;
    qsf_answer_defaults(&o);
    qsf_turn_defaults(&turn);
    o.chat = &chat;
    o.tool_choice = choice;
    o.parallel_tool_calls = several;
    o.id_seed = (uint64_t)seed;
    o.shape_kind = (qsf_grammar_kind)kind;
    o.shape = shape;
    o.shape_len = shape_len;
    o.json_blanks = blanks < UINT32_MAX ? (uint32_t)blanks : UINT32_MAX;
    o.json_loose = loose;
    qsf_answer_free(session.answer);
    session.answered = false;
    const qsf_status st = qsf_answer_new(session.model, &o, &session.answer, &session.error);
    return st ? st : qsf_answer_turn(session.answer, &turn, &session.error);
}
/* The keywords of tools' schemas that the answer's grammar does not enforce; "": none. */
WASM_EXPORT("answer_loosened") const char *wasm_answer_loosened(void)
{
    return qsf_answer_loosened(session.answer);
}
/* The type of the next event of the piece; 0: no more events. */
WASM_EXPORT("answer_next") int wasm_answer_next(void)
{
    session.event.size = sizeof session.event;
    return qsf_answer_next(session.answer, &session.event) ? 0 : (int)session.event.type;
}
WASM_EXPORT("answer_text") const char *wasm_answer_text(void)
{
    session.count = session.event.len;
    return session.event.text;
}
/* The answer so far as a message; NULL: out of memory. */
WASM_EXPORT("answer_json") const char *wasm_answer_json(void)
{
    const char *text;
    return qsf_answer_json(session.answer, &text, &session.count, &session.error) ? NULL : text;
}
/* stops: strings one after the other, with these lengths. */
WASM_EXPORT("turn_begin")
int wasm_turn_begin(const int32_t *ids, size_t n, const char *stops, const size_t *lengths, uint32_t n_stops,
                    const char *asked)
{
    qsf_turn_options o;
    const char **places = wasm_mem_alloc(NULL, (n_stops + 1) * sizeof *places);
    if (!places) return QSF_E_MEMORY;
    for (uint32_t i = 0; i < n_stops; stops += lengths[i++]) places[i] = stops;
    qsf_turn_defaults(&o);
    o.draft = session.guesses;
    qsf_status st = options_asked(set_turn, &o, asked);
    o.stops = places;
    o.n_stops = n_stops;
    o.stop_lengths = lengths;
    o.grammar = session.grammar;
    if (!st && session.answer) st = qsf_answer_turn(session.answer, &o, &session.error);
    if (!st) st = qsf_turn_begin(session.turn, ids, n, session.sampler, &o);
    wasm_mem_free(NULL, places, (n_stops + 1) * sizeof *places);
    return st;
}
WASM_EXPORT("turn_next") int wasm_turn_next(void)
{
    static const char unknown[] = "\xef\xbf\xbd";      /* for what is cut */
    qsf_turn_piece *p = &session.piece;
    p->size = sizeof *p;
    qsf_status st = qsf_turn_next(session.turn, p);
    if (!st && p->end == QSF_TURN_FAILED) {
        session.error = *qsf_turn_error(session.turn);
        return session.error.status;
    }
    if (st || !session.answer || session.answered) return st;
    session.answered = p->end != QSF_TURN_GOES_ON;
    qsf_answer_token(session.answer, p->token);
    st = qsf_answer_push(session.answer, p->text, p->len, session.answered && !p->cut, &session.error);
    return st || !p->cut ? st : qsf_answer_push(session.answer, unknown, 3, true, &session.error);
}
WASM_EXPORT("turn_token") int32_t wasm_turn_token(void) { return session.piece.token; }
WASM_EXPORT("turn_end") int wasm_turn_end(void) { return session.piece.end; }
WASM_EXPORT("turn_cut") bool wasm_turn_cut(void) { return session.piece.cut; }
WASM_EXPORT("turn_text") const char *wasm_turn_text(void)
{
    session.count = session.piece.len;
    return session.piece.text;
}
/* The piece's log probabilities: count() pairs of a token and a float. */
WASM_EXPORT("turn_logprobs") const qsf_logprob *wasm_turn_logprobs(void)
{
    session.count = session.piece.n_logprobs;
    return session.piece.logprobs;
}
/* Low bits of a progressive file: PENDING until all are there. */
WASM_EXPORT("refine") int wasm_refine(void)
{
    const qsf_status st = qsf_refine(session.context, false);
    if (st && st != QSF_PENDING) qsf_fail(&session.error, st, "%s", qsf_last_error(session.context));
    return (int)st;
}
/* The status of one step; 256 is added if bytes are missing.  Damaged low bits are an error only in
 * refine(): the answer continues with the high bits. */
WASM_EXPORT("turn_step") int wasm_turn_step(void)
{
    bool waiting = false;
    (void)qsf_refine(session.context, false);
    const qsf_status st = qsf_turn_step(session.turn, &waiting);
    return (int)st + (waiting ? 256 : 0);
}
/* How many of the prompt's tokens are computed, those from before included. */
WASM_EXPORT("turn_done") size_t wasm_turn_done(void)
{
    qsf_turn_state t = { .size = sizeof t };
    qsf_turn_get_state(session.turn, &t);
    return t.n_done;
}
/* Ends the turn, and what was made for it. */
WASM_EXPORT("turn_cancel") void wasm_turn_cancel(void)
{
    qsf_turn_cancel(session.turn);
    qsf_grammar_free(session.grammar);
    qsf_answer_free(session.answer);
    session.grammar = NULL;
    session.answer = NULL;
}
WASM_EXPORT("turn_error") const char *wasm_turn_error(void) { return qsf_turn_error(session.turn)->text; }
WASM_EXPORT("layer") uint32_t wasm_layer(void) { return qsf_batch_layer(session.context); }
