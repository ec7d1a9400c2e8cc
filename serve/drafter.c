/* Guesses by the model's own layer for multi-token prediction, of all sequences.
 * SPDX-License-Identifier: MIT */
#include "drafter.h"

#include <stdio.h>
#include <string.h>

enum { DRAFTER_ROWS = 64 };                /* of the layer's batches, at least */

qsf_status drafter_plan(serve_engine_options *o, qsf_model *m, qsf_context_options *layer, uint64_t *bytes,
                        qsf_error *err)
{
    qsf_plan large = { .size = sizeof large }, small = { .size = sizeof small };
    qsf_context_options *c = &o->context;
    *bytes = 0;
    qsf_context_defaults(layer);
    if (!o->layer || !o->draft) return QSF_OK;
    qsf_status st = qsf_context_plan(m, c, &large, err);
    if (st) return st;
    layer->n_ctx = large.n_ctx;
    layer->n_seqs = o->slots + o->kept;
    layer->n_logits = o->slots < DRAFTER_ROWS ? o->slots : DRAFTER_ROWS;
    layer->n_batch = DRAFTER_ROWS;
    layer->n_threads = c->n_threads;
    layer->isa = c->isa;
    layer->f32 = c->f32;
    layer->record = c->record;
    layer->record_user = c->record_user;
    if ((st = qsf_context_plan(o->layer, layer, &small, err))) return st;
    *bytes = small.total + qsf_mtp_bytes(o->layer, layer);
    if (c->ram_budget) c->ram_budget = c->ram_budget > *bytes ? c->ram_budget - *bytes : 1;
    return QSF_OK;
}

void drafter_explain(uint64_t bytes, qsf_error *err)
{
    const size_t n = strlen(err->text);
    if (!bytes || err->status != QSF_E_BUDGET) return;
    snprintf(err->text + n, sizeof err->text - n, ", after %.1f MB for the layer for multi-token prediction",
             (double)bytes / 1e6);
}

qsf_status drafter_begin(drafter *d, const serve_engine_options *o, qsf_context *c,
                         const qsf_context_options *layer, qsf_error *err)
{
    if (!o->layer || !o->draft) return QSF_OK;
    const qsf_status st = qsf_context_new(o->layer, layer, &d->context, err);
    return st ? st : qsf_mtp_new(c, d->context, false, &d->mtp, err);
}

void drafter_end(drafter *d)
{
    qsf_mtp_free(d->mtp);
    qsf_context_free(d->context);
    *d = (drafter){ 0 };
}

void drafter_turn(const drafter *d, qsf_seq s, qsf_turn_options *o)
{
    if (!d->mtp) return;
    o->guess = qsf_mtp_guess;
    o->guess_many = qsf_mtp_guess_many;
    o->guess_user = qsf_mtp_user(d->mtp, s);
}

void drafter_look(drafter *d)
{
    if (d->told || !d->mtp || !*qsf_mtp_error(d->mtp)) return;
    d->told = true;
    fprintf(stderr, "--draft-mtp failed: answers continue without it: %s\n", qsf_mtp_error(d->mtp));
}
