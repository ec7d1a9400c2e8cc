/* --draft-model: a second, small model, or an EAGLE 3 head, that stays in memory and predicts the
 * output of the first.  --draft-mtp: the model's own layer for multi-token prediction does.
 * SPDX-License-Identifier: MIT
 */
#include "run.h"
#include "trace.h"

#include <stdlib.h>

struct draft_model {
    qsf_model   *model;
    qsf_context *context;
    bool         own;           /* it is the model's own layer for multi-token prediction */
    bool         is_layer;      /* ... or an EAGLE 3 head, which is used like one */
    qsf_mtp     *mtp;           /* one of these two is not NULL, as is_layer says */
    qsf_draft_model *guesser;
};

/* The small model gets what it needs of the budget, all in memory,
 * and the large one what is left, in *co. */
static qsf_status draft_model_share(const run_session *s, const draft_model *m, qsf_context_options *mine,
                                    qsf_context_options *co, qsf_plan *large, qsf_error *e)
{
    qsf_model_info info = { .size = sizeof info };
    qsf_plan small = { .size = sizeof small };
    qsf_status st;
    qsf_model_get_info(m->model, &info);
    if ((st = qsf_context_plan(s->model, co, large, e))) return st;
    mine->n_ctx = info.n_ctx_train && info.n_ctx_train < large->n_ctx ? info.n_ctx_train : large->n_ctx;
    if ((st = qsf_context_plan(m->model, mine, &small, e)) || !co->ram_budget) return st;
    small.total += m->is_layer
        ? qsf_mtp_bytes(m->model, mine) + large->n_batch * qsf_mtp_row_bytes(m->model)
        : qsf_draft_model_bytes(mine);
    co->ram_budget = co->ram_budget > small.total ? co->ram_budget - small.total : 1;
    return qsf_context_plan(s->model, co, large, e);
}

static int draft_model_budget(run_session *s, draft_model *m, qsf_context_options *mine,
                              qsf_context_options *co)
{
    enum { MB = 1000000 };
    qsf_plan plan = { .size = sizeof plan };
    qsf_error e = { 0 }, why = { 0 };
    const qsf_context_options asked = *co;
    qsf_status st = draft_model_share(s, m, mine, co, &plan, &e);
    if (st != QSF_E_BUDGET) return st ? report_room(&e) : EXIT_OK;
    uint64_t budget = asked.ram_budget / MB;
    do {
        budget = plan.least / MB > budget ? plan.least / MB : budget + 1;
        *co = asked;
        co->ram_budget = budget * MB;
        st = draft_model_share(s, m, mine, co, &plan, &why);
    } while (st == QSF_E_BUDGET);
    if (st) return report_room(&why);
    snprintf(e.text, sizeof e.text, "%.160s with %s %.160s needs at least %llu MB, the budget is %llu MB",
             s->set->model, s->set->common.draft_mtp ? "--draft-mtp: its" : "the draft model",
             s->set->common.draft_mtp ? "layer for multi-token prediction" : s->set->draft_model,
             (unsigned long long)budget, (unsigned long long)(asked.ram_budget / MB));
    return report_room(&e);
}

int draft_model_open(run_session *s, qsf_context_options *co)
{
    qsf_model_options mo;
    qsf_context_options mine;
    qsf_model_info info = { .size = sizeof info };
    draft_model *m = s->drafter = calloc(1, sizeof *m);
    if (!m) return EXIT_NO_MEMORY;
    qsf_model_defaults(&mo);
    qsf_context_defaults(&mine);
    mo.mtp = s->set->common.draft_mtp;
    if (mo.mtp && s->set->draft_model) {
        const qsf_error e = { .status = QSF_E_ARGUMENT,
                              .text = "--draft-model and --draft-mtp both make drafts: give one of them" };
        return report(&e);
    }
    if (qsf_model_open(mo.mtp ? s->set->model : s->set->draft_model, &mo, &m->model, &s->error))
        return report_room(&s->error);
    qsf_model_get_info(m->model, &info);
    m->own = mo.mtp;
    m->is_layer = mo.mtp || info.draft_head;
    mine.n_batch = 64;
    mine.n_seqs = mine.n_logits = 1;
    mine.n_threads = co->n_threads;
    mine.isa = co->isa;
    mine.f32 = co->f32;
    trace_context(s->files, &mine);
    if (!mo.mtp && qsf_draft_model_check(s->model, m->model, &s->error)) return report(&s->error);
    int code = draft_model_budget(s, m, &mine, co);
    if (!code && qsf_context_new(m->model, &mine, &m->context, &s->error)) code = report_room(&s->error);
    return code;
}

int draft_model_connect(run_session *s)
{
    draft_model *m = s->drafter;
    if (!m) return EXIT_OK;
    const qsf_status st = m->is_layer
        ? qsf_mtp_new(s->context, m->context, s->set->common.draft > 0, &m->mtp, &s->error)
        : qsf_draft_model_new(s->context, m->context, &m->guesser, &s->error);
    return st ? report(&s->error) : EXIT_OK;
}

void draft_model_options(draft_model *m, qsf_turn_options *o)
{
    if (!m) return;
    o->guess = m->mtp ? qsf_mtp_guess : qsf_draft_model_guess;
    o->guess_user = m->mtp ? qsf_mtp_user(m->mtp, 0) : qsf_draft_model_user(m->guesser, 0);
}

void draft_model_close(draft_model *m)
{
    if (!m) return;
    const char *why = m->mtp ? qsf_mtp_error(m->mtp) : m->guesser ? qsf_draft_model_error(m->guesser) : "";
    if (*why)
        fprintf(stderr, "%s failed (%s): the rest of the answer was made without it\n",
                m->own ? "--draft-mtp" : "--draft-model", why);
    qsf_mtp_free(m->mtp);
    qsf_draft_model_free(m->guesser);
    qsf_context_free(m->context);
    qsf_model_close(m->model);
    free(m);
}

void draft_model_plan(const draft_model *m, qsf_plan *out)
{
    *out = (qsf_plan){ .size = sizeof *out };
    if (m->context) qsf_context_get_plan(m->context, out);
}
