/* Whether a file's tensors are those that its description promises: the engine indexes by the description and never looks at shapes again.
 * SPDX-License-Identifier: MIT */
#include "model/source_formats.h"

typedef struct shape_rule {
    uint8_t  kind;
    bool     needed;
    uint64_t rows, cols;
} shape_rule;

static qsf_status shape_check(const qsf_source *s, uint32_t unit, const char *where, const shape_rule *r, qsf_error *err)
{
    const int i = qsf_unit_find(s, unit, r->kind);
    if (i < 0 && !r->needed) return QSF_OK;
    if (i < 0) return qsf_fail(err, QSF_E_CORRUPT, "%s: %s has no %s", s->path, where, qsf_kind_name(r->kind));
    const qsf_tensor *t = &s->tensors[s->units[unit].first_tensor + (uint32_t)i];
    const bool rows_fit = r->kind == QSF_K_POS_EMBD ? t->rows >= r->rows : t->rows == r->rows;
    if (!rows_fit || t->cols != r->cols || t->type == QSF_T_SPARSE)
        return qsf_fail(err, QSF_E_CORRUPT, "%s: %s of %s has %u x %u values, its description asks for %llu x %llu", s->path, qsf_kind_name(r->kind), where,
                        (unsigned)t->rows, (unsigned)t->cols, (unsigned long long)r->rows, (unsigned long long)r->cols);
    return QSF_OK;
}

static qsf_status shapes_of_layer(const qsf_source *s, uint32_t unit, qsf_error *err)
{
    const qsf_hparams *h = &s->hp;
    const uint64_t embd = h->n_embd, q = (uint64_t)h->n_heads * h->head_dim, kv = (uint64_t)h->n_kv_heads * h->head_dim, ff = h->n_ff;
    const shape_rule rules[] = {
        { QSF_K_ATTN_Q, true, q, embd },           { QSF_K_ATTN_K, true, kv, embd },         { QSF_K_ATTN_V, true, kv, embd },
        { QSF_K_ATTN_OUT, true, embd, q },         { QSF_K_FFN_GATE, h->gated, ff, embd },   { QSF_K_FFN_UP, true, ff, embd },
        { QSF_K_FFN_DOWN, true, embd, ff },        { QSF_K_ATTN_NORM, true, 1, embd },       { QSF_K_FFN_NORM, true, 1, embd },
        { QSF_K_ATTN_Q_BIAS, false, 1, q },        { QSF_K_ATTN_K_BIAS, false, 1, kv },      { QSF_K_ATTN_V_BIAS, false, 1, kv },
        { QSF_K_ATTN_OUT_BIAS, false, 1, embd },   { QSF_K_FFN_UP_BIAS, false, 1, ff },      { QSF_K_FFN_GATE_BIAS, false, 1, ff },
        { QSF_K_FFN_DOWN_BIAS, false, 1, embd },   { QSF_K_ATTN_NORM_BIAS, false, 1, embd }, { QSF_K_FFN_NORM_BIAS, false, 1, embd },
        { QSF_K_Q_NORM, false, 1, h->head_dim },   { QSF_K_K_NORM, false, 1, h->head_dim },
        { QSF_K_ATTN_POST_NORM, false, 1, embd },  { QSF_K_FFN_POST_NORM, false, 1, embd },
    };
    char where[32];
    qsf_format(where, sizeof where, "layer %u", (unsigned)unit);
    for (size_t i = 0; i < QSF_ARRAY_LEN(rules); i++) {
        const qsf_status st = shape_check(s, unit, where, &rules[i], err);
        if (st) return st;
    }
    return QSF_OK;
}

qsf_status qsf_source_check_shapes(const qsf_source *s, qsf_error *err)
{
    const qsf_hparams *h = &s->hp;
    const shape_rule embd[] = { { QSF_K_TOKEN_EMBD, true, h->n_vocab, h->n_embd }, { QSF_K_POS_EMBD, h->learned_pos, h->n_ctx_train, h->n_embd } };
    const shape_rule final[] = { { QSF_K_OUTPUT_NORM, true, 1, h->n_embd }, { QSF_K_OUTPUT_NORM_BIAS, false, 1, h->n_embd },
                                 { QSF_K_OUTPUT, !h->tied, h->n_vocab, h->n_embd }, { QSF_K_OUTPUT_BIAS, false, 1, h->n_vocab } };
    qsf_status st;
    /* A matrix of one row cannot be told from a vector. */
    if (h->n_embd < 2 || h->n_vocab < 2 || h->n_ff < 2 || (uint64_t)h->n_kv_heads * h->head_dim < 2)
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: a model with matrices of a single row", s->path);
    for (size_t i = 0; i < QSF_ARRAY_LEN(embd); i++)
        if ((st = shape_check(s, qsf_unit_embd(s), "the embedding", &embd[i], err))) return st;
    for (size_t i = 0; i < QSF_ARRAY_LEN(final); i++)
        if ((st = shape_check(s, qsf_unit_final(s), "the final section", &final[i], err))) return st;
    for (uint32_t unit = 0; unit < h->n_layers; unit++)
        if ((st = shapes_of_layer(s, unit, err))) return st;
    return QSF_OK;
}
