/* Numbers and texts of handles, by the lists of qsf_flat_names.h.
 * SPDX-License-Identifier: MIT */
#include "own.h"

/* Whose a number is: in which part of flat_facts it lies. */
enum { OF_MODEL, OF_PLAN, OF_ITEM, OF_STATS, OF_LAYER, OF_LENGTH, OF_SESSION, OF_TURN, OF_PIECE, OF_EMBEDDING,
       OF_ADAPTER, OF_SPLIT, OF_ANY };
/* Its type: bytes of an unsigned integer, or one of these. */
enum { TYPE_I32 = 3, TYPE_F32 = 5, TYPE_F64 = 6 };
#define TYPE_OF(member) _Generic(((flat_facts *)0)->member, int32_t: TYPE_I32, float: TYPE_F32, \
    double: TYPE_F64, default: sizeof ((flat_facts *)0)->member)

static const struct { uint16_t at; uint8_t type, whose; } numbers[] = {
#define X(constant, name, whose, member, help) { offsetof(flat_facts, member), TYPE_OF(member), OF_##whose },
    QSF_FLAT_NUMBERS(X)
#undef X
};
static const char number_names[] =
#define X(constant, name, whose, member, help) name "\0"
    QSF_FLAT_NUMBERS(X)
#undef X
    ;
static const char text_names[] =
#define X(constant, name, whose, help) name "\0"
    QSF_FLAT_TEXTS(X)
#undef X
    ;

static const uint8_t text_whose[] = {
#define X(constant, name, whose, help) OF_##whose,
    QSF_FLAT_TEXTS(X)
#undef X
};

int32_t qsf_flat_find(const char *name, int32_t texts)
{
    const char *all = texts ? text_names : number_names;
    for (int32_t i = 0; *all; all += strlen(all) + 1, i++)
        if (!strcmp(all, name)) return i;
    return -1;
}

/* ---- numbers ---- */

static void facts_of_model(flat_object *o, flat_facts *f)
{
    const flat_model *m = qsf_flat_up(o, FLAT_MODEL);
    if (!m->model) return;
    f->model.size = sizeof f->model;
    (void)qsf_model_get_info(m->model, &f->model);
    f->bos = qsf_token_bos(m->model);
    f->eos = qsf_token_eos(m->model);
}
static void facts_of_context(flat_object *o, uint32_t whose, uint32_t i, flat_facts *f)
{
    flat_context *c = qsf_flat_up(o, FLAT_CONTEXT);
    f->item_bytes = -1;
    if (!c) return;
    f->plan = c->plan;
    if (whose == OF_ITEM && i < c->plan.n_items) f->item_bytes = (double)c->plan.items[i].bytes;
    if (!c->context) return;
    f->stats.size = sizeof f->stats;
    if (whose == OF_STATS) {
        (void)qsf_context_get_stats(c->context, &f->stats);
        for (uint32_t s = 0; s < c->n_seqs; s++) if (c->seqs[s]) qsf_flat_drafts_count(c, c->seqs[s]);
        f->guessed = c->n_guessed;
        f->right = c->n_right;
    }
    if (whose == OF_LAYER) f->length = qsf_batch_layer(c->context);
}
static void facts_of_conversation(flat_object *o, uint32_t whose, flat_facts *f)
{
    const flat_conversation *v = qsf_flat_up(o, FLAT_CONVERSATION);
    const flat_context *c = qsf_flat_up(o, FLAT_CONTEXT);
    if (!v || !v->turn) return;
    f->turn.size = sizeof f->turn;
    (void)qsf_turn_get_state(v->turn, &f->turn);
    f->length = qsf_seq_length(c->context, v->seq);
    if (whose == OF_SESSION) f->session_bytes = (double)qsf_session_bytes(c->context, v->seq);
}
static void facts_of_result(flat_object *o, uint32_t whose, flat_facts *f)
{
    if (whose == OF_PIECE && o->kind == FLAT_ANSWER) {
        f->piece = ((const flat_answer *)o)->piece;
        f->event = ((const flat_answer *)o)->event;
    }
    if (whose == OF_EMBEDDING && o->kind == FLAT_EMBEDDING) {
        const flat_embedding *e = (const flat_embedding *)o;
        const flat_model *m = qsf_flat_up(o, FLAT_MODEL);
        f->width = e->score ? 1 : qsf_embed_width(m->model, e->options.pooling);
    }
    if (whose == OF_ADAPTER && o->kind == FLAT_ADAPTER && ((const flat_adapter *)o)->adapter) {
        f->adapter.size = sizeof f->adapter;
        (void)qsf_adapter_get_info(((const flat_adapter *)o)->adapter, &f->adapter);
    }
}

double qsf_flat_number(uint32_t handle, int32_t number, uint32_t i)
{
    flat_object *o = qsf_flat_at(handle, FLAT_ANY);
    flat_facts f = { .length = 0 };
    if (!o || number < 0 || number >= QSF_N_NUMBERS) return 0;
    const uint32_t whose = numbers[number].whose;
    if (whose == OF_MODEL) facts_of_model(o, &f);
    else if (whose <= OF_LAYER) facts_of_context(o, whose, i, &f);
    else if (whose <= OF_TURN) facts_of_conversation(o, whose, &f);
    else facts_of_result(o, whose, &f);
    const void *at = (const char *)&f + numbers[number].at;
    switch (numbers[number].type) {
    case 1: return *(const uint8_t *)at;
    case 4: return *(const uint32_t *)at;
    case 8: return (double)*(const uint64_t *)at;
    case TYPE_I32: return *(const int32_t *)at;
    case TYPE_F32: return (double)*(const float *)at;
    default: return *(const double *)at;
    }
}

/* ---- texts ---- */

static const char *model_text(const flat_model *m, const flat_context *c, int32_t text)
{
    qsf_model_info info = { .size = sizeof info };
    if (text == QSF_TEXT_WARNINGS) return c && !c->context ? c->warnings : m->warnings;
    if (!m->model) return NULL;
    (void)qsf_model_get_info(m->model, &info);
    switch (text) {
    case QSF_TEXT_ARCHITECTURE: return info.arch;
    case QSF_TEXT_NAME: return info.name;
    case QSF_TEXT_FORMAT: return info.format;
    case QSF_TEXT_TEMPLATE_SOURCE: return info.chat_template;
    default: return qsf_chat_template(m->model);
    }
}
static const char *context_text(const flat_context *c, int32_t text, uint32_t i)
{
    qsf_stats s = { .size = sizeof s };
    if (text == QSF_TEXT_ITEM) return i < c->plan.n_items ? c->plan.items[i].name : NULL;
    if (text == QSF_TEXT_REDUCTION) return i < c->plan.n_reductions ? c->plan.reductions[i] : NULL;
    if (!c->context) return NULL;
    (void)qsf_context_get_stats(c->context, &s);
    return text == QSF_TEXT_ISA ? s.isa : s.io;
}
/* What splits the answers of a handle's conversation; NULL: nothing. */
static qsf_answer *split_of(flat_object *o)
{
    const flat_conversation *v = qsf_flat_up(o, FLAT_CONVERSATION);
    return v && v->talk ? qsf_conversation_answer(v->talk) : NULL;
}
/* *len is set for texts that are not terminated. */
static const char *answer_text(flat_answer *a, int32_t text, size_t *len)
{
    const char *json;
    switch (text) {
    case QSF_TEXT_PIECE: *len = a->piece.len; return a->piece.text;
    case QSF_TEXT_EVENT: *len = a->event.len; return a->event.text;
    case QSF_TEXT_EVENT_ID: *len = a->event.id_len; return a->event.id;
    default: break;
    }
    qsf_answer *split = ((flat_conversation *)a->o.parent)->answer == a ? split_of(&a->o) : NULL;
    return split && !qsf_answer_json(split, &json, len, &a->o.error) ? json : NULL;
}
static const char *adapter_text(const flat_adapter *a)
{
    qsf_adapter_info info = { .size = sizeof info };
    if (a->adapter) (void)qsf_adapter_get_info(a->adapter, &info);
    return info.name;
}
static const char *text_of(flat_object *o, int32_t text, uint32_t i, size_t *len)
{
    const flat_context *c = qsf_flat_up(o, FLAT_CONTEXT);
    switch (text_whose[text]) {
    case OF_ANY: return text == QSF_TEXT_ERROR ? o->error.text : qsf_version();
    case OF_MODEL: return model_text(qsf_flat_up(o, FLAT_MODEL), c, text);
    case OF_ADAPTER: return o->kind == FLAT_ADAPTER ? adapter_text((flat_adapter *)o) : NULL;
    case OF_SPLIT: return split_of(o) ? qsf_answer_loosened(split_of(o)) : NULL;
    case OF_PIECE: return o->kind == FLAT_ANSWER ? answer_text((flat_answer *)o, text, len) : NULL;
    default: return c ? context_text(c, text, i) : NULL;
    }
}

int32_t qsf_flat_text(uint32_t handle, int32_t text, uint32_t i, char *dst, size_t cap)
{
    flat_object *o = qsf_flat_at(handle, FLAT_ANY);
    size_t len = SIZE_MAX;
    if (!o || text < 0 || text >= QSF_N_TEXTS) return -(int32_t)QSF_E_ARGUMENT;
    const char *from = text_of(o, text, i, &len);
    if (!from) return -(int32_t)QSF_E_NOT_FOUND;
    qsf_flat_lock();                        /* other contexts of the model may warn now */
    if (len == SIZE_MAX) len = strlen(from);
    if (cap) {
        const size_t n = len < cap ? len : cap - 1;
        if (n) memcpy(dst, from, n);
        dst[n] = 0;
    }
    qsf_flat_unlock();
    return (int32_t)len;
}
