/* Models and adapters of the flat interface: opening them, their tokens and chat templates.
 * SPDX-License-Identifier: MIT */
#include "own.h"

static void model_done(flat_object *o)
{
    qsf_model_close(((flat_model *)o)->drafts);
    qsf_model_close(((flat_model *)o)->model);
}
static void adapter_done(flat_object *o) { qsf_adapter_free(((flat_adapter *)o)->adapter); }

/* Warnings are kept; a context's thread may cause them while another plans. */
static void model_log(void *user, qsf_log_level level, const char *line)
{
    flat_model *m = user;
    if (m->log) m->log(m->log_user, level, line);
    if (level != QSF_LOG_WARN) return;
    qsf_flat_lock();
    char *kept = m->planner ? m->planner->warnings : m->warnings;
    const size_t at = strlen(kept), len = strlen(line);
    if (at + len + 2 <= FLAT_WARNINGS) {
        memcpy(kept + at, line, len);
        memcpy(kept + at + len, "\n", 2);
    }
    qsf_flat_unlock();
}

uint32_t qsf_flat_model_new(qsf_log_fn log, void *user)
{
    uint32_t handle;
    flat_model *m = qsf_flat_make(&handle, FLAT_MODEL, sizeof *m, NULL, model_done);
    if (!m) return 0;
    m->log = log;
    m->log_user = user;
    return handle;
}

int32_t qsf_flat_file(uint32_t handle, uint64_t length,
                      qsf_status (*read)(void *user, uint64_t at, void *dst, size_t len), void *user)
{
    flat_object *o = qsf_flat_at(handle, FLAT_MODEL | FLAT_ADAPTER);
    const qsf_custom_file file = { .size = sizeof file, .length = length, .read = read, .user = user };
    if (!o) return QSF_E_ARGUMENT;
    if (o->kind == FLAT_MODEL) ((flat_model *)o)->file = file;
    else ((flat_adapter *)o)->file = file;
    return QSF_OK;
}

int32_t qsf_flat_model_open(uint32_t model, const char *path, const char *options)
{
    flat_model *m = qsf_flat_at(model, FLAT_MODEL);
    flat_asked asked;
    qsf_model_options o;
    if (!m) return QSF_E_ARGUMENT;
    if (m->model) return (int32_t)qsf_flat_fail(&m->o, QSF_E_ARGUMENT, "the model is open already");
    qsf_status st = qsf_flat_options(&m->o, options, &asked, NULL, NULL);
    if (st) return (int32_t)st;
    qsf_model_defaults(&o);
    if (asked.i2s_layout && !qsf_i2s_layout_find(asked.i2s_layout, &o.i2s_layout))
        return (int32_t)qsf_flat_fail(&m->o, QSF_E_ARGUMENT, "i2s-layout: unknown layout");
    o.vocab_only = asked.vocab_only;
    o.platform = m->platform;
    o.log = model_log;
    o.log_user = m;
    if (m->file.read) o.file = &m->file;
    st = qsf_model_open(path, &o, &m->model, &m->o.error);
    if (st || !asked.draft_mtp || asked.vocab_only) return (int32_t)st;
    if (!(st = qsf_flat_drafts_open(m, path, o))) return QSF_OK;
    qsf_model_close(m->model);
    m->model = NULL;
    return (int32_t)st;
}

qsf_model *qsf_flat_model(uint32_t handle)
{
    const flat_model *m = qsf_flat_up(qsf_flat_at(handle, FLAT_ANY), FLAT_MODEL);
    return m ? m->model : NULL;
}

/* An object's model if it is open. */
static flat_model *model_of(flat_object *o)
{
    flat_model *m = qsf_flat_up(o, FLAT_MODEL);
    return m && m->model ? m : NULL;
}
static flat_model *model_at(uint32_t handle) { return model_of(qsf_flat_at(handle, FLAT_ANY)); }

/* ---- tokens ---- */

int32_t qsf_flat_tokens(uint32_t model, const char *text, size_t len, int32_t flags, int32_t *dst, size_t cap)
{
    flat_object *held = qsf_flat_hold(model, FLAT_ANY);
    flat_model *m = model_of(held);
    size_t n = 0;
    const qsf_status st = m ? qsf_tokens_encode(m->model, text, len, flags, dst, cap, &n, &m->o.error)
        : QSF_E_ARGUMENT;
    qsf_flat_drop(held);
    return qsf_flat_copied(st, n, cap);
}

int32_t qsf_flat_token_text(uint32_t model, int32_t id, int32_t special, char *dst, size_t cap)
{
    flat_object *held = qsf_flat_hold(model, FLAT_ANY);
    const flat_model *m = model_of(held);
    const char *bytes;
    const size_t n = m ? qsf_token_piece(m->model, id, special, &bytes) : 0;
    if (n && cap) memcpy(dst, bytes, n < cap ? n : cap);
    qsf_flat_drop(held);
    return m ? (int32_t)n : -(int32_t)QSF_E_ARGUMENT;
}

/* ---- chat ---- */

/* Whether the tokenizer begins texts with the begin-of-text token. */
static bool begins_with_bos(const qsf_model *m)
{
    int32_t ids[4];
    size_t n = 0;
    return !qsf_tokens_encode(m, "", 0, QSF_TOK_ADD_SPECIAL, ids, 4, &n,
                              NULL) && n && ids[0] == qsf_token_bos(m);
}

int32_t qsf_flat_chat_text(uint32_t model, const char *messages, size_t len, const char *options, char *dst,
                           size_t cap)
{
    flat_model *m = model_at(model);
    flat_asked asked;
    size_t n = 0;
    if (!m) return -(int32_t)QSF_E_ARGUMENT;
    qsf_status st = qsf_flat_options(&m->o, options, &asked, NULL, NULL);
    if (begins_with_bos(m->model)) asked.chat.bos = "";
    if (!st) st = qsf_chat_render_json(m->model, messages, len, &asked.chat, dst, cap, &n, &m->o.error);
    return qsf_flat_copied(st, n, cap);
}

int32_t qsf_flat_pair_tokens(uint32_t model, const char *query, size_t query_len, const char *document,
                             size_t len, int32_t *dst, size_t cap)
{
    flat_object *held = qsf_flat_hold(model, FLAT_ANY);
    flat_model *m = model_of(held);
    size_t n = 0;
    const qsf_status st = m ? qsf_rerank_encode(m->model, query, query_len, document, len, dst, cap, &n,
                                                &m->o.error) : QSF_E_ARGUMENT;
    qsf_flat_drop(held);
    return qsf_flat_copied(st, n, cap);
}

/* ---- adapters ---- */

uint32_t qsf_flat_adapter_new(uint32_t model)
{
    uint32_t handle;
    flat_model *m = model_at(model);
    return m && qsf_flat_make(&handle, FLAT_ADAPTER, sizeof(flat_adapter), &m->o, adapter_done) ? handle : 0;
}

int32_t qsf_flat_adapter_open(uint32_t adapter, const char *path)
{
    flat_adapter *a = qsf_flat_at(adapter, FLAT_ADAPTER);
    if (!a) return QSF_E_ARGUMENT;
    const flat_model *m = qsf_flat_up(&a->o, FLAT_MODEL);
    if (a->adapter) return (int32_t)qsf_flat_fail(&a->o, QSF_E_ARGUMENT, "the adapter is open already");
    return (int32_t)qsf_adapter_load(m->model, path, a->file.read ? &a->file : NULL, &a->adapter,
                                     &a->o.error);
}
