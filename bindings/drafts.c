/* Drafts of the flat interface: what a model's own layer for multi-token prediction guesses.
 * SPDX-License-Identifier: MIT
 *
 * The layer is a model of its own, opened with the other one, and each context of that one has a
 * context of it. */
#include "own.h"
#include "base/host.h"

enum { DRAFTS_ROWS = 64, DRAFTS_FEW = 8, DRAFTS_MANY = 32 };

qsf_status qsf_flat_drafts_open(flat_model *m, const char *path, qsf_model_options o)
{
    o.mtp = true;
    o.log = NULL;                       /* it would say what the model has said */
    return qsf_model_open(path, &o, &m->drafts, &m->o.error);
}

/* ---- plans ---- */

/* Answers stay the same only if a row's result does not depend on other rows. */
static bool drafts_fit(const qsf_context_options *o)
{
    return o->head == QSF_HEAD_EXACT && !(o->early_exit > 0) && !o->kv_heavy;
}

/* The layer has all positions that the model has without a budget: they take little. */
static qsf_status drafts_share(flat_context *c, const flat_model *m, qsf_context_options *o,
                               qsf_context_options *own)
{
    qsf_plan plan = { .size = sizeof plan };
    qsf_context_options asked = *o;
    asked.ram_budget = 0;
    qsf_status st = qsf_context_plan(m->model, &asked, &plan, &c->o.error);
    own->n_ctx = plan.n_ctx;
    if (!st) st = qsf_context_plan(m->drafts, own, &plan, &c->o.error);
    if (st) return st;
    c->drafts.bytes = plan.total + qsf_mtp_bytes(m->drafts, own);
    if (o->ram_budget) o->ram_budget = o->ram_budget > c->drafts.bytes ? o->ram_budget - c->drafts.bytes : 1;
    return QSF_OK;
}

qsf_status qsf_flat_drafts_plan(flat_context *c, const flat_model *m, qsf_context_options *o,
                                qsf_context_options *own)
{
    const uint32_t answers = o->n_logits ? o->n_logits : o->n_seqs;
    const uint32_t all = answers * (1 + QSF_DRAFT_MOST), most = o->ram_budget ? DRAFTS_MANY : DRAFTS_FEW;
    c->drafts.bytes = 0;
    if (!m->drafts || !drafts_fit(o)) return QSF_OK;
    c->guesses = QSF_DRAFT_MOST;
    if (answers < most) o->n_logits = QSF_MIN(all, most);
    o->n_batch = QSF_MAX(o->n_batch, o->n_logits);
    qsf_context_defaults(own);
    own->n_seqs = o->n_seqs;
    own->n_logits = QSF_MIN(answers, (uint32_t)DRAFTS_ROWS);
    own->n_batch = DRAFTS_ROWS;
    own->n_threads = o->n_threads;
    own->isa = o->isa;
    own->f32 = o->f32;
    return drafts_share(c, m, o, own);
}

void qsf_flat_drafts_planned(flat_context *c, qsf_status st)
{
    const char *text = ", besides its layer for multi-token prediction";
    const size_t len = strlen(c->o.error.text);
    qsf_plan *plan = &c->plan;
    if (!c->drafts.bytes) return;
    if (st == QSF_E_BUDGET && len + strlen(text) < sizeof c->o.error.text)
        memcpy(c->o.error.text + len, text, strlen(text) + 1);
    plan->least += c->drafts.bytes;
    if (st) return;
    plan->total += c->drafts.bytes;
    if (plan->n_items < sizeof plan->items / sizeof *plan->items)
        plan->items[plan->n_items++] = (qsf_plan_item){ "multi-token prediction", c->drafts.bytes };
}

/* ---- guesses ---- */

/* What qsf_mtp_guess takes: a conversation may have another sequence when it comes back. */
static void *drafts_user(const flat_conversation *v)
{
    const flat_context *c = (flat_context *)v->o.parent;
    return qsf_mtp_user(c->drafts.mtp, v->seq);
}

static size_t drafts_guess(void *user, const int32_t *ids, size_t n, int32_t *out, size_t cap)
{
    void *of = drafts_user(user);
    return of ? qsf_mtp_guess(of, ids, n, out, cap) : 0;
}

static void drafts_guess_many(qsf_guess *list, size_t n)
{
    for (size_t i = 0; i < n; i++) list[i].user = drafts_user(list[i].user);
    qsf_mtp_guess_many(list, n);
}

void qsf_flat_drafts_turn(flat_conversation *v, qsf_turn_options *o)
{
    if (!((flat_context *)v->o.parent)->drafts.mtp) return;
    o->guess = drafts_guess;
    o->guess_many = drafts_guess_many;
    o->guess_user = v;
}

void qsf_flat_drafts_count(flat_context *c, flat_conversation *v)
{
    qsf_turn_state st = { .size = sizeof st };
    if (!v->turn) return;
    (void)qsf_turn_get_state(v->turn, &st);
    const uint64_t guessed = st.n_guessed - v->n_guessed, right = st.n_right - v->n_right;
    if (!guessed) return;
    qsf_schedule_drafted(c->schedule, guessed, right);
    c->n_guessed += guessed;
    c->n_right += right;
    v->n_guessed = st.n_guessed;
    v->n_right = st.n_right;
}

/* ---- life ---- */

qsf_status qsf_flat_drafts_begin(flat_context *c, const flat_model *m, const qsf_context_options *own)
{
    if (!c->drafts.bytes) return QSF_OK;
    const qsf_status st = qsf_context_new(m->drafts, own, &c->drafts.context, &c->o.error);
    return st ? st : qsf_mtp_new(c->context, c->drafts.context, false, &c->drafts.mtp, &c->o.error);
}

void qsf_flat_drafts_end(flat_context *c)
{
    qsf_mtp_free(c->drafts.mtp);
    qsf_context_free(c->drafts.context);
    c->drafts = (flat_drafts){ .bytes = 0 };
}

/* Guesses are computed at once, which a host that must not block can only do if the layer is in
 * memory: a row of zeros brings it there.  If that fails, so does the first guess. */
static qsf_status drafts_load_begin(flat_context *c, const flat_model *m)
{
    qsf_model_info info = { .size = sizeof info };
    (void)qsf_model_get_info(m->model, &info);
    const qsf_row row = { 0, 0, true };
    const size_t bytes = info.n_embd * sizeof(float);
    float *state = qsf_flat_alloc(&c->o, bytes);
    if (!state) return QSF_E_MEMORY;
    const qsf_status st = qsf_batch_begin_from(c->drafts.context, &row, 1, state);
    qsf_flat_dealloc(state, bytes);
    return st;
}

qsf_status qsf_flat_drafts_load(flat_context *c, bool *waiting)
{
    flat_drafts *d = &c->drafts;
    qsf_status st = QSF_OK;
    *waiting = false;
    if (!d->mtp || d->is_loaded) return QSF_OK;
    if (!d->is_loading) st = drafts_load_begin(c, qsf_flat_up(&c->o, FLAT_MODEL));
    d->is_loading = true;
    if (!st) st = qsf_step(d->context, waiting);
    if (st == QSF_PENDING) return st;
    d->is_loaded = true;
    (void)qsf_seq_truncate(d->context, 0, 0);
    return QSF_OK;
}
