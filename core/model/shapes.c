/* Whether a file's tensors are those that its description promises: the engine indexes by the
 * description and never looks at shapes again.
 * SPDX-License-Identifier: MIT */
#include "model/roles.h"
#include "model/source_formats.h"

/* Norms that must exist exactly if the description has them. */
static bool shape_is_of_flow(const qsf_role *role)
{
    return role->when == QSF_WHEN_ATTN_NORM || role->when == QSF_WHEN_FFN_NORM ||
           role->when == QSF_WHEN_FINAL_NORM;
}

static qsf_status shape_check(const qsf_source *s, uint32_t unit, const char *where, const qsf_role *role,
                              qsf_error *err)
{
    const qsf_hparams *hp = &s->hp;
    const qsf_layer *layer = qsf_source_layer(s, unit);
    const uint64_t rows = qsf_dim_size(hp, layer, (qsf_dim)role->rows);
    const uint64_t cols = qsf_dim_size(hp, layer, (qsf_dim)role->cols);
    const int i = qsf_unit_find(s, unit, role->kind);
    if (i < 0 && !qsf_role_needed(hp, layer, role)) return QSF_OK;
    if (i < 0) return qsf_fail(err, QSF_E_CORRUPT, "%s: %s has no %s", s->path, where, role->name);
    if (shape_is_of_flow(role) && !qsf_role_needed(hp, layer, role))
        return qsf_fail(err, QSF_E_CORRUPT, "%s: %s has a %s, for which its description has no place",
                        s->path, where, role->name);
    const qsf_tensor *t = &s->tensors[s->units[unit].first_tensor + (uint32_t)i];
    const bool rows_fit = role->rows == QSF_DIM_CTX ? t->rows >= rows : t->rows == rows;
    if (!rows_fit || t->cols != cols || t->type == QSF_T_SPARSE)
        return qsf_fail(err, QSF_E_CORRUPT,
                        "%s: %s of %s has %u x %u values, its description requires %llu x %llu", s->path,
                        role->name, where, (unsigned)t->rows, (unsigned)t->cols, (unsigned long long)rows,
                        (unsigned long long)cols);
    return QSF_OK;
}

static qsf_status shapes_of(const qsf_source *s, uint32_t unit, qsf_part part, const char *where,
                            qsf_error *err)
{
    for (size_t i = 0; i < QSF_N_ROLES; i++) {
        const qsf_status st = qsf_roles[i].part != part ? QSF_OK
            : shape_check(s, unit, where, &qsf_roles[i], err);
        if (st) return st;
    }
    return QSF_OK;
}

/* A matrix of one row looks like a vector, which is stored differently. */
static const char *single_row_of(const qsf_hparams *hp, const qsf_layer *l)
{
    const bool experts = l->n_experts != 0;
    const bool none = l->feed_forward == QSF_FEED_FORWARD_NONE || (experts && !l->n_ff);
    if (l->n_ff < 2 && !none) return "feed-forward";
    if (experts && (l->n_experts < 2 || l->n_ff_expert < 2)) return "experts";
    if (!qsf_layer_attends(l)) return NULL;
    const bool single = qsf_dim_size(hp, l, QSF_DIM_KV) < 2 || qsf_dim_size(hp, l, QSF_DIM_V) < 2;
    return single ? "keys or values" : NULL;
}

qsf_status qsf_source_check_rows(const qsf_source *s, qsf_error *err)
{
    const char *what = s->hp.n_embd < 2 ? "rows of the embedding have"
                       : s->hp.n_vocab < 2 && !s->vocab_only ? "the vocabulary has" : NULL;
    if (what)
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: %s a length of %u, but matrices need two rows", s->path,
                        what, (unsigned)QSF_MIN(s->hp.n_embd, s->hp.n_vocab));
    for (uint32_t i = 0; i < s->hp.n_layers; i++)
        if ((what = single_row_of(&s->hp, &s->layers[i])))
            return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: the %s of layer %u have a length of 1, but matrices "
                            "need two rows", s->path, what, (unsigned)i);
    return QSF_OK;
}

qsf_status qsf_source_check_shapes(const qsf_source *s, qsf_error *err)
{
    const qsf_hparams *h = &s->hp;
    char where[32];
    qsf_status st = qsf_source_check_rows(s, err);
    if (st || (st = shapes_of(s, qsf_unit_embd(s), QSF_PART_EMBD, "the embedding", err))) return st;
    if ((st = shapes_of(s, qsf_unit_final(s), QSF_PART_FINAL, "the final section", err))) return st;
    for (uint32_t unit = 0; unit < h->n_layers; unit++) {
        qsf_format(where, sizeof where, "layer %u", (unsigned)unit);
        if ((st = shapes_of(s, unit, QSF_PART_LAYER, where, err))) return st;
    }
    return QSF_OK;
}
