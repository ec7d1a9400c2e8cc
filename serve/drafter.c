/* Guesses of all sequences, by the model's layer for multi-token prediction, by an EAGLE 3 head or
 * by a draft model.
 * SPDX-License-Identifier: MIT */
#include "drafter.h"

#include <stdio.h>
#include <string.h>

enum { DRAFTER_ROWS = 64 };                /* of its batches, at least */

/* Whether it is used like a layer for multi-token prediction. */
static bool drafter_is_layer(const serve_engine_options *o)
{
    qsf_model_info info = { .size = sizeof info };
    qsf_model_get_info(o->drafts, &info);
    return o->draft_mtp || info.draft_head;
}

qsf_status drafter_plan(serve_engine_options *o, qsf_model *m, qsf_context_options *own, uint64_t *bytes,
                        qsf_error *err)
{
    qsf_plan large = { .size = sizeof large }, small = { .size = sizeof small };
    qsf_context_options *c = &o->context;
    *bytes = 0;
    qsf_context_defaults(own);
    if (!o->drafts || !o->draft) return QSF_OK;
    qsf_status st = qsf_context_plan(m, c, &large, err);
    if (st) return st;
    own->n_ctx = large.n_ctx;
    own->n_seqs = o->slots + o->kept;
    own->n_logits = o->slots < DRAFTER_ROWS ? o->slots : DRAFTER_ROWS;
    own->n_batch = DRAFTER_ROWS;
    own->n_threads = c->n_threads;
    own->isa = c->isa;
    own->f32 = c->f32;
    own->record = c->record;
    own->record_user = c->record_user;
    if ((st = qsf_context_plan(o->drafts, own, &small, err))) return st;
    *bytes = small.total + (drafter_is_layer(o)
        ? qsf_mtp_bytes(o->drafts, own) + large.n_batch * qsf_mtp_row_bytes(o->drafts)
        : qsf_draft_model_bytes(own));
    if (c->ram_budget) c->ram_budget = c->ram_budget > *bytes ? c->ram_budget - *bytes : 1;
    return QSF_OK;
}

void drafter_explain(const serve_engine_options *o, uint64_t bytes, qsf_error *err)
{
    const size_t n = strlen(err->text);
    if (!bytes || err->status != QSF_E_BUDGET) return;
    snprintf(err->text + n, sizeof err->text - n, ", after %.1f MB for the %s", (double)bytes / 1e6,
             o->draft_mtp ? "layer for multi-token prediction" : "draft model");
}

qsf_status drafter_begin(drafter *d, const serve_engine_options *o, qsf_context *c,
                         const qsf_context_options *own, qsf_error *err)
{
    if (!o->drafts || !o->draft) return QSF_OK;
    const qsf_status st = qsf_context_new(o->drafts, own, &d->context, err);
    if (st) return st;
    d->own = o->draft_mtp;
    return drafter_is_layer(o) ? qsf_mtp_new(c, d->context, false, &d->mtp, err)
        : qsf_draft_model_new(c, d->context, &d->model, err);
}

void drafter_end(drafter *d)
{
    qsf_mtp_free(d->mtp);
    qsf_draft_model_free(d->model);
    qsf_context_free(d->context);
    *d = (drafter){ 0 };
}

void drafter_turn(const drafter *d, qsf_seq s, qsf_turn_options *o)
{
    if (d->mtp) {
        o->guess = qsf_mtp_guess;
        o->guess_many = qsf_mtp_guess_many;
        o->guess_user = qsf_mtp_user(d->mtp, s);
    } else if (d->model) {
        o->guess = qsf_draft_model_guess;
        o->guess_many = qsf_draft_model_guess_many;
        o->guess_user = qsf_draft_model_user(d->model, s);
    }
}

void drafter_look(drafter *d)
{
    const char *why = d->mtp ? qsf_mtp_error(d->mtp) : d->model ? qsf_draft_model_error(d->model) : "";
    if (d->told || !*why) return;
    d->told = true;
    fprintf(stderr, "%s failed: answers continue without it: %s\n",
            d->own ? "--draft-mtp" : "--draft-model", why);
}
