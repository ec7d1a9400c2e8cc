/* --draft-model: a second, small model that stays in memory and predicts the output of the first.
 * --draft-mtp: the model's own layer for multi-token prediction does.
 * SPDX-License-Identifier: MIT
 *
 * If the large model's layers are streamed, a pass over it costs about the same for eight tokens as
 * for one (speculative decoding, Leviathan et al. 2022, arXiv:2211.17192).  The guesses are the
 * small model's most likely tokens, up to the first that it is unsure of; the token sampled from
 * the large model's logits decides, so the answer is the large model's own. */
#include "run.h"
#include "trace.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Below this probability a guess is more often wrong than a row of the large model is worth. */
#define DRAFT_SURE 0.3

struct draft_model {
    qsf_model   *model;
    qsf_context *context;       /* NULL: it failed */
    qsf_mtp     *mtp;           /* not NULL: it is the model's own layer */
    int32_t     *ids;           /* tokens of its sequence 0 */
    size_t       n, cap;
    uint32_t     n_ctx;
};

/* The same tokens under the same numbers. */
static int draft_model_check(const run_session *s, const draft_model *m)
{
    qsf_error e = { .status = QSF_E_ARGUMENT };
    qsf_model_info large = { .size = sizeof large }, small = { .size = sizeof small };
    qsf_model_get_info(s->model, &large);
    qsf_model_get_info(m->model, &small);
    if (large.n_vocab != small.n_vocab) {
        snprintf(e.text, sizeof e.text,
                 "--draft-model %s: its vocabulary has %u tokens, the model's has %u; a draft model needs "
                 "the same vocabulary", s->set->draft_model, (unsigned)small.n_vocab,
                 (unsigned)large.n_vocab);
        return report(&e);
    }
    for (uint32_t i = 0; i < large.n_vocab; i++) {
        const char *a, *b;
        const size_t n = qsf_token_piece(s->model, (int32_t)i, true, &a);
        if (n == qsf_token_piece(m->model, (int32_t)i, true, &b) && (n == 0 || !memcmp(a, b, n))) continue;
        snprintf(e.text, sizeof e.text,
                 "--draft-model %s: token %u differs from the model's; a draft model needs the same "
                 "vocabulary", s->set->draft_model, (unsigned)i);
        return report(&e);
    }
    return EXIT_OK;
}

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
    if (s->set->common.draft_mtp) small.total += qsf_mtp_bytes(m->model, mine);
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
    m->n_ctx = mine->n_ctx;
    if (st != QSF_E_BUDGET) return st ? report(&e) : EXIT_OK;
    uint64_t budget = asked.ram_budget / MB;
    do {
        budget = plan.least / MB > budget ? plan.least / MB : budget + 1;
        *co = asked;
        co->ram_budget = budget * MB;
        st = draft_model_share(s, m, mine, co, &plan, &why);
    } while (st == QSF_E_BUDGET);
    if (st) return report(&why);
    snprintf(e.text, sizeof e.text, "%.160s with %s %.160s needs at least %llu MB, the budget is %llu MB",
             s->set->model, s->set->common.draft_mtp ? "--draft-mtp: its" : "the draft model",
             s->set->common.draft_mtp ? "layer for multi-token prediction" : s->set->draft_model,
             (unsigned long long)budget, (unsigned long long)(asked.ram_budget / MB));
    return report(&e);
}

int draft_model_open(run_session *s, qsf_context_options *co)
{
    qsf_model_options mo;
    qsf_context_options mine;
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
        return report(&s->error);
    mine.n_batch = 64;
    mine.n_seqs = mine.n_logits = 1;
    mine.n_threads = co->n_threads;
    mine.isa = co->isa;
    mine.f32 = co->f32;
    trace_context(s->files, &mine);
    int code = mo.mtp ? EXIT_OK : draft_model_check(s, m);
    if (!code) code = draft_model_budget(s, m, &mine, co);
    if (!code && qsf_context_new(m->model, &mine, &m->context, &s->error)) code = report(&s->error);
    return code;
}

int draft_model_connect(run_session *s)
{
    if (!s->drafter || !s->set->common.draft_mtp) return EXIT_OK;
    return qsf_mtp_new(s->context, s->drafter->context, s->set->common.draft > 0, &s->drafter->mtp, &s->error)
        ? report(&s->error) : EXIT_OK;
}

void draft_model_options(draft_model *m, qsf_turn_options *o)
{
    if (!m) return;
    o->guess = m->mtp ? qsf_mtp_guess : draft_model_guess;
    o->guess_user = m->mtp ? qsf_mtp_user(m->mtp, 0) : m;
}

void draft_model_close(draft_model *m)
{
    if (!m) return;
    if (m->mtp && *qsf_mtp_error(m->mtp))
        fprintf(stderr, "--draft-mtp failed (%s): the rest of the answer was made without it\n",
                qsf_mtp_error(m->mtp));
    qsf_mtp_free(m->mtp);
    qsf_context_free(m->context);
    qsf_model_close(m->model);
    free(m->ids);
    free(m);
}

void draft_model_plan(const draft_model *m, qsf_plan *out)
{
    *out = (qsf_plan){ .size = sizeof *out };
    if (m->context) qsf_context_get_plan(m->context, out);
}

/* The most likely token; -1 if the model is not sure. */
static int32_t draft_model_pick(const float *logits, uint32_t n)
{
    uint32_t best = 0;
    double sum = 0;
    for (uint32_t i = 1; i < n; i++)
        if (logits[i] > logits[best]) best = i;
    for (uint32_t i = 0; i < n; i++) sum += exp((double)logits[i] - logits[best]);
    return 1 / sum >= DRAFT_SURE ? (int32_t)best : -1;
}

/* Brings its sequence to these tokens; what it shares with them stays. */
static qsf_status draft_model_follow(draft_model *m, const int32_t *ids, size_t n, size_t room,
                                     const float **logits)
{
    size_t same = 0;
    while (same < n - 1 && same < m->n && m->ids[same] == ids[same]) same++;
    if (n + room > m->cap) {
        int32_t *more = realloc(m->ids, 2 * (n + room) * sizeof *more);
        if (!more) return QSF_E_MEMORY;
        m->ids = more;
        m->cap = 2 * (n + room);
    }
    qsf_status st = qsf_seq_truncate(m->context, 0, (uint32_t)same);
    if (st) return st;
    same = qsf_seq_length(m->context, 0);       /* a model with state may go further back */
    memcpy(m->ids + same, ids + same, (n - same) * sizeof *ids);
    m->n = n;
    if ((st = qsf_feed(m->context, 0, ids + same, n - same, logits))) return st;
    return qsf_seq_checkpoint(m->context, 0);   /* guesses follow, which may be wrong */
}

size_t draft_model_guess(void *user, const int32_t *ids, size_t n, int32_t *out, size_t cap)
{
    draft_model *m = user;
    qsf_model_info info = { .size = sizeof info };
    const float *logits;
    size_t found = 0;
    if (!m->context || !n || n >= m->n_ctx || !cap) return 0;
    if (cap > m->n_ctx - n) cap = m->n_ctx - n;
    qsf_model_get_info(m->model, &info);
    qsf_status st = draft_model_follow(m, ids, n, cap, &logits);
    while (!st && found < cap) {
        const int32_t id = draft_model_pick(logits, info.n_vocab);
        if (id < 0) break;
        out[found++] = id;
        if (found == cap) break;
        m->ids[m->n++] = id;
        st = qsf_feed(m->context, 0, &id, 1, &logits);
    }
    if (!st) return found;
    fprintf(stderr, "the draft model failed (%s): continuing without it\n", qsf_last_error(m->context));
    qsf_context_free(m->context);
    m->context = NULL;
    return 0;
}

#undef DRAFT_SURE
