/* Drafts by an EAGLE 3 head (Li et al. 2025, arXiv:2503.01840), as far as they differ from those of
 * a layer for multi-token prediction (turn/mtp.c): its rows are made of what goes into three of the
 * model's layers, and of the token's embedding, which may be the model's.
 * SPDX-License-Identifier: MIT */
#include "turn/eagle.h"
#include "engine/step.h"

#if !defined(QSF_NO_EAGLE)

static qsf_status eagle_check_tokens(const qsf_model *m, const qsf_model *head, qsf_error *err)
{
    const qsf_source *a = m->source, *b = head->source;
    const uint32_t n = a->hp.n_vocab, both = QSF_MIN(a->vocab.n_tokens, b->vocab.n_tokens);
    uint32_t most = b->hp.n_vocab - 1;
    for (uint32_t i = 0; b->target_ids && i < b->hp.n_vocab; i++)
        most = QSF_MAX(i ? most : 0, (uint32_t)b->target_ids[i]);
    if (most >= n + (b->target_ids ? 0 : GUESS_PADDED))
        return qsf_fail(err, QSF_E_ARGUMENT, "%s: predicts token %u%s, but %s has %u; it is a head of "
                        "another model", b->path, (unsigned)most,
                        b->target_ids ? " (tensor \"d2t\")" : "", a->path, (unsigned)n);
    if (!b->target_ids && most + 1 + GUESS_PADDED < n)
        return qsf_fail(err, QSF_E_ARGUMENT, "%s: its %u tokens are not the %u of %s, and the tensor "
                        "\"d2t\" with their numbers is missing; convert it again", b->path,
                        (unsigned)most + 1, (unsigned)n, a->path);
    if (b->hp.n_words && b->hp.n_words + GUESS_PADDED < n)
        return qsf_fail(err, QSF_E_ARGUMENT, "%s: its embedding has %u tokens, %s has %u; it is a head of "
                        "another model", b->path, (unsigned)b->hp.n_words, a->path, (unsigned)n);
    return qsf_guess_same_words(m, head, both, "an EAGLE 3 head", err);
}

qsf_status qsf_eagle_check(const qsf_model *m, const qsf_model *head, qsf_error *err)
{
    const qsf_source *a = m->source, *b = head->source;
    const uint32_t width = b->hp.n_features / QSF_TAPS;
    if (a->hp.eagle || !b->hp.eagle)
        return qsf_fail(err, QSF_E_ARGUMENT, "%s is %s EAGLE 3 head", a->hp.eagle ? a->path : b->path,
                        a->hp.eagle ? "an" : "not an");
    if (width != a->hp.n_embd)
        return qsf_fail(err, QSF_E_ARGUMENT, "%s: takes rows of %u columns (key "
                        "\"eagle3.target_hidden_size\"), %s has %u; it is a head of another model", b->path,
                        (unsigned)width, a->path, (unsigned)a->hp.n_embd);
    for (uint32_t i = 0; i < QSF_TAPS; i++)
        if (b->taps[i] >= a->hp.n_layers)
            return qsf_fail(err, QSF_E_ARGUMENT, "%s: takes what goes into layer %u (key "
                            "\"eagle3.target_layers\"), %s has layers 0 to %u; it is a head of another model",
                            b->path, (unsigned)b->taps[i], a->path, (unsigned)a->hp.n_layers - 1);
    if (!b->hp.n_words && b->hp.n_embd != a->hp.n_embd)
        return qsf_fail(err, QSF_E_ARGUMENT, "%s: has no tensor \"token_embd.weight\", and %u columns, "
                        "so the %u of the embedding of %s do not fit", b->path, (unsigned)b->hp.n_embd,
                        (unsigned)a->hp.n_embd, a->path);
    if (a->hp.altup || a->hp.both_ways)
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: an EAGLE 3 head for %s, which this version cannot run",
                        b->path, a->hp.arch);
    return eagle_check_tokens(m, head, err);
}

qsf_status qsf_eagle_check_context(const qsf_context *c, qsf_error *err)
{
    const char *path = c->model->source->path;
    if (c->executor->does != &qsf_cpu_executor_table)
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: an EAGLE 3 head needs what goes into some of its "
                        "layers, but they are on a GPU; run it without one (--device cpu)", path);
    if (c->o.head != QSF_HEAD_EXACT)
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: an EAGLE 3 head cannot draft for an approximate head "
                        "(--head-topk)", path);
    return QSF_OK;
}

uint64_t qsf_eagle_floats(const qsf_hparams *head, uint32_t n_batch, uint32_t rows)
{
    return (uint64_t)n_batch * head->n_features + (rows + 1ull) * head->n_embd;
}

void qsf_eagle_init(qsf_eagle *e, qsf_context *c, qsf_context *layer, float *floats)
{
    const bool own = layer->hp->n_words;
    *e = (qsf_eagle){ .context = c, .layer = layer, .words = own ? &layer->embedding : &c->embedding,
                      .n_words = own ? layer->hp->n_words : c->hp->n_vocab,
                      .ids = layer->model->source->target_ids, .tapped = floats,
                      .embd = floats + (size_t)qsf_rows_most(&c->o) * layer->hp->n_features };
}

qsf_status qsf_eagle_compute(qsf_eagle *e, const qsf_row *rows, size_t n, const float *states, bool own)
{
    const size_t n_embd = e->layer->hp->n_embd;
    const qsf_eagle_rows from = { e->embd, states, own };
    for (size_t i = 0; i < n; i++) {
        /* 0: one of the padding */
        const int32_t id = (uint32_t)rows[i].token < e->n_words ? rows[i].token : 0;
        const qsf_status st = qsf_embedding_row(e->words, id, e->embd + i * n_embd, e->embd + n * n_embd,
                                                &e->layer->error);
        if (st) return st;
    }
    return qsf_compute_eagle(e->layer, rows, n, &from);
}
#endif
