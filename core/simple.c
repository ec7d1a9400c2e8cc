/* The short interface: one engine, one conversation (section 14.1 of the original specification).
 * SPDX-License-Identifier: MIT */
#include "base/host.h"
#include "turn/sampler.h"

#include <stdatomic.h>

struct QSFConfig {
    qsf_context_options o;
    qsf_error error;
};

struct QSFEngine {
    const qsf_platform *platform;
    qsf_model   *model;
    qsf_context *context;
    qsf_turn    *turn;          /* of sequence 0 */
    qsf_conversation *conversation;
    qsf_error    error;
    atomic_bool  cancelled;
};

/* ---- configuration ---- */

QSFConfig *qsf_config_default(void)
{
    QSFConfig *c = qsf_alloc(qsf_platform_native(), sizeof *c, "configuration", NULL);
    if (c) qsf_context_defaults(&c->o);
    return c;
}
void qsf_config_free(QSFConfig *c) { qsf_dealloc(qsf_platform_native(), c, sizeof *c); }
void qsf_config_set_ram_budget(QSFConfig *c, size_t megabytes)
{
    c->o.ram_budget = (uint64_t)megabytes * 1000000;
}
void qsf_config_set_threads(QSFConfig *c, int n) { c->o.n_threads = n > 0 ? (uint32_t)n : 0; }
void qsf_config_set_max_seq_len(QSFConfig *c, int n) { c->o.n_ctx = n > 0 ? (uint32_t)n : 0; }
void qsf_config_set_quality(QSFConfig *c, float quality) { c->o.quality = quality; }

/* ---- engine ---- */

QSFEngine *qsf_load(const char *model_path, QSFConfig *config)
{
    const qsf_platform *p = qsf_platform_native();
    qsf_error ignored, *err = config ? &config->error : &ignored;
    *err = (qsf_error){ 0 };
    QSFEngine *e = qsf_alloc(p, sizeof *e, "engine", err);
    if (!e) return NULL;
    e->platform = p;
    if (qsf_model_open(model_path, NULL, &e->model, err)
        || qsf_context_new(e->model, config ? &config->o : NULL, &e->context, err)
        || qsf_turn_new(e->context, 0, &e->turn, err)
        || qsf_conversation_new(e->model, NULL, &e->conversation, err)) {
        qsf_free(e);
        return NULL;
    }
    return e;
}

void qsf_free(QSFEngine *e)
{
    if (!e) return;
    qsf_conversation_free(e->conversation);
    qsf_turn_free(e->turn);
    qsf_context_free(e->context);
    qsf_model_close(e->model);
    qsf_dealloc(e->platform, e, sizeof *e);
}

qsf_status   qsf_load_status(const QSFConfig *c) { return c->error.status; }
const char  *qsf_load_error(const QSFConfig *c) { return c->error.text; }
qsf_status   qsf_engine_status(const QSFEngine *e) { return e->error.status; }
const char  *qsf_engine_error(const QSFEngine *e) { return e->error.text; }
qsf_model   *qsf_engine_model(QSFEngine *e) { return e->model; }
qsf_context *qsf_engine_context(QSFEngine *e) { return e->context; }
void         qsf_cancel(QSFEngine *e) { atomic_store(&e->cancelled, true); }

/* Notes a context's failure in the engine; true if there was one. */
static bool engine_failed(QSFEngine *e, qsf_status st)
{
    if (st) qsf_fail(&e->error, st, "%s", qsf_last_error(e->context));
    return st != QSF_OK;
}

/* ---- results that the caller keeps: a header before them holds their size ---- */

enum { RESULT_HEADER = 64 };

static void *result_new(QSFEngine *e, uint64_t bytes, const char *what)
{
    uint8_t *p = qsf_alloc(e->platform, bytes + RESULT_HEADER, what, &e->error);
    if (!p) return NULL;
    const uint64_t total = bytes + RESULT_HEADER;
    memcpy(p, &total, sizeof total);
    memcpy(p + sizeof total, &e->platform, sizeof e->platform);
    return p + RESULT_HEADER;
}

void qsf_result_free(void *result)
{
    if (!result) return;
    uint8_t *p = (uint8_t *)result - RESULT_HEADER;
    uint64_t total;
    const qsf_platform *platform;
    memcpy(&total, p, sizeof total);
    memcpy(&platform, p + sizeof total, sizeof platform);
    qsf_dealloc(platform, p, total);
}

int *qsf_tokenize(QSFEngine *e, const char *text, int *num_tokens)
{
    const int flags = QSF_TOK_ADD_SPECIAL | QSF_TOK_PARSE_SPECIAL;
    const size_t len = strlen(text);
    size_t n;
    *num_tokens = 0;
    e->error = (qsf_error){ 0 };
    qsf_status st = qsf_tokens_encode(e->model, text, len, flags, NULL, 0, &n, &e->error);
    if (st && n == 0) return NULL;
    e->error = (qsf_error){ 0 };
    if (n > INT_MAX) {
        qsf_fail(&e->error, QSF_E_ARGUMENT, "the text has more tokens than an int can count");
        return NULL;
    }
    int32_t *ids = result_new(e, n * sizeof *ids, "tokens");
    if (!ids) return NULL;
    if (n && qsf_tokens_encode(e->model, text, len, flags, ids, n, &n, &e->error)) {
        qsf_result_free(ids);
        return NULL;
    }
    *num_tokens = (int)n;
    return ids;
}

char *qsf_detokenize(QSFEngine *e, const int *tokens, int num_tokens)
{
    uint64_t len = 0;
    const char *piece;
    e->error = (qsf_error){ 0 };
    if (num_tokens < 0 || (size_t)num_tokens > PTRDIFF_MAX / sizeof *tokens) {
        qsf_fail(&e->error, QSF_E_ARGUMENT, "%d tokens do not fit in memory", num_tokens);
        return NULL;
    }
    for (int i = 0; i < num_tokens; i++) len += qsf_token_piece(e->model, tokens[i], false, &piece);
    char *text = result_new(e, len + 1, "text");
    if (!text) return NULL;
    uint64_t at = 0;
    for (int i = 0; i < num_tokens; i++) {
        const size_t n = qsf_token_piece(e->model, tokens[i], false, &piece);
        memcpy(text + at, piece, n);
        at += n;
    }
    return text;
}

float *qsf_forward(QSFEngine *e, const int *tokens, int num_tokens)
{
    const float *logits;
    e->error = (qsf_error){ 0 };
    qsf_seq_truncate(e->context, 0, 0);
    if (num_tokens < 0) num_tokens = 0;
    if (engine_failed(e, qsf_feed(e->context, 0, tokens, (size_t)num_tokens, &logits))) return NULL;
    return (float *)(uintptr_t)logits;
}

void qsf_generate(QSFEngine *e, const char *prompt, int max_tokens, float temperature, float top_p,
                  QSFTokenCallback callback, void *user)
{
    qsf_sampler_options so;
    qsf_turn_options to;
    qsf_sampler *sampler = NULL;
    qsf_conversation *c = e->conversation;
    qsf_turn_piece piece = { .size = sizeof piece };
    atomic_store(&e->cancelled, false);
    e->error = (qsf_error){ 0 };
    qsf_sampler_defaults(&so);
    so.temperature = temperature;
    so.top_p = top_p;
    qsf_turn_defaults(&to);
    to.max_tokens = QSF_MAX(max_tokens, 0);
    if (qsf_sampler_new(e->model, &so, &sampler, &e->error)) return;
    qsf_seq_truncate(e->context, 0, 0);
    if (qsf_conversation_text(c, prompt, strlen(prompt)) || qsf_conversation_begin(c, e->turn, sampler, &to))
        piece.end = QSF_TURN_FAILED;
    while (!piece.end) {
        if (atomic_load(&e->cancelled)) qsf_turn_cancel(e->turn);
        if (qsf_conversation_next(c, &piece) == QSF_PENDING) qsf_turn_step(e->turn, NULL);
        else if (piece.token >= 0 && callback) callback(piece.token, piece.text, user);
    }
    if (piece.end == QSF_TURN_FULL || piece.end == QSF_TURN_FAILED) e->error = *qsf_conversation_error(c);
    qsf_sampler_free(sampler);
}

int qsf_sample(const float *logits, int vocab_size, float temperature, float top_p)
{
    qsf_sampler_options o;
    qsf_sampler *sampler;
    if (vocab_size <= 0 || (size_t)vocab_size > PTRDIFF_MAX / sizeof *logits) return -1;
    qsf_sampler_defaults(&o);
    o.temperature = temperature;
    o.top_p = top_p;
    o.top_k = 0;
    o.seed = 0xcbf29ce484222325u;               /* FNV-1a's */
    for (int i = 0; i < vocab_size; i++) o.seed = (o.seed ^ qsf_f32_bits(logits[i])) * 0x100000001b3u;
    o.seed += !o.seed;                          /* 0 would be the clock's */
    if (qsf_sampler_for(qsf_platform_native(), NULL, (uint32_t)vocab_size, &o, &sampler, NULL)) return -1;
    const int id = qsf_sampler_pick(sampler, logits);
    qsf_sampler_free(sampler);
    return id;
}
