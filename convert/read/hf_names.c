/* Which tensor of a Hugging Face model is what: the table of roles, with the names that the model
 * type has.
 * SPDX-License-Identifier: MIT */
#include "read/hf_names.h"
#include "read/hf_mtp.h"

#include <stdlib.h>

/* Prefixes of the names, and of the head's name: base models, models with a head, vision models. */
static const struct { const char *body, *head; } hf_prefixes[] = {
    { "model.", "" }, { "transformer.", "" }, { "", "" }, { "bert.", "" }, { "roberta.", "" },
    { "nomic_bert.", "" },
    { "language_model.model.", "language_model." }, { "model.language_model.", "" },
    { "model.language_model.model.", "model.language_model." },
};

/* ---- names ----------------------------------------------------------------------------------- */

typedef struct hf_mapper {
    const hf_weights *w;
    const hf_config  *cfg;
    input            *in;
    hf_place         *places;
    uint32_t          n;
    const char       *body, *head;      /* prefixes */
    const char       *layers;           /* before a layer's number */
    hf_mtp            mtp;
    const hf_type    *mtp_type;         /* whose names that layer has */
} hf_mapper;

/* The name of a tensor outside the layers, without its prefix. */
static const char *hf_role_name(const hf_mapper *m, uint32_t kind)
{
    return qsf_hf_type_name(m->cfg->type, &m->in->hp, NULL, qsf_role_of(kind)).name;
}

/* "3 x 4", for messages. */
static void hf_shape_text(const weights_tensor *t, char *out, size_t cap)
{
    size_t len = 0;
    out[0] = 0;
    for (uint32_t i = 0; i < t->n_dims && i < WEIGHTS_MAX_DIMS; i++)
        len += qsf_format(out + len, cap - len, "%s%llu", i ? " x " : "", (unsigned long long)t->shape[i]);
    if (t->n_dims > WEIGHTS_MAX_DIMS)
        qsf_format(out + len, cap - len, " x ... (%u dimensions)", (unsigned)t->n_dims);
}

/* What a tensor's shape should be. */
typedef struct hf_shape { uint32_t n; uint64_t dim[WEIGHTS_MAX_DIMS]; } hf_shape;

/* flat: dimensions do not count, but how many values there are. */
static qsf_status hf_check_shape(const weights_tensor *t, const hf_shape *want, bool flat, qsf_error *err)
{
    char shape[128], asked[128];        /* four numbers of 64 bits fit */
    const weights_tensor as = { .n_dims = want->n, .shape = { want->dim[0], want->dim[1], want->dim[2],
                                                              want->dim[3] } };
    uint64_t values = 1;
    bool same = t->n_dims == want->n;
    for (uint32_t i = 0; i < want->n && same; i++) same = t->shape[i] == want->dim[i];
    for (uint32_t i = 0; i < QSF_MIN(t->n_dims, (uint32_t)WEIGHTS_MAX_DIMS); i++)
        if (qsf_mul_u64(values, t->shape[i], &values)) values = 0;
    if (same || (flat && t->n_dims <= WEIGHTS_MAX_DIMS && values == want->dim[0])) return QSF_OK;
    hf_shape_text(t, shape, sizeof shape);
    hf_shape_text(&as, asked, sizeof asked);
    return qsf_fail(err, QSF_E_CORRUPT, "tensor %s is of shape [%s], config.json implies [%s]", t->name,
                    shape, asked);
}

/* The converter's name: the file's, and which part of it. */
static const char *hf_part_name(hf_mapper *m, const weights_tensor *t, const char *part, qsf_error *err)
{
    if (!part) return t->name;
    const size_t cap = strlen(t->name) + strlen(part) + 3;
    char *name = qsf_arena_alloc(m->in->arena, cap, "tensor name", err);
    if (name) qsf_format(name, cap, "%s[%s]", t->name, part);
    return name;
}

/* Codes of four rows in a byte, with their scale in a separate tensor. */
static qsf_status hf_add_packed(hf_mapper *m, const weights_tensor *t, uint32_t rows, uint32_t cols,
                                hf_place *p, qsf_error *err)
{
    char name[256];
    float scale = 1;
    if (rows % 4)
        return qsf_fail(err, QSF_E_UNSUPPORTED, "tensor %s packs %u rows, which is not a multiple of 4",
                                                t->name,
                        (unsigned)rows);
    const hf_shape want = { 2, { rows / 4, cols } };
    const qsf_status shape = hf_check_shape(t, &want, false, err);
    if (shape) return shape;
    qsf_format(name, sizeof name, "%s_scale", t->name);
    weights_tensor *s = qsf_hf_weights_find(m->w, name);
    if (!s) return qsf_fail(err, QSF_E_CORRUPT, "tensor %s is missing, the scale of %s", name, t->name);
    const qsf_status st = qsf_hf_weights_number(m->in->platform, m->w, s, &scale, err);
    if (st) return st;
    s->used = true;
    p->packed = true;
    p->rows = rows;
    p->scale = m->cfg->ternary == HF_TERNARY_OVER ? 1 / scale : scale;
    return QSF_OK;
}

/* Packed ternary codes have this type, and nothing else that is read does. */
static bool hf_is_packed(const hf_mapper *m, const qsf_role *role, const weights_tensor *t)
{
    return m->cfg->ternary > HF_TERNARY_MASTERS && role->part == QSF_PART_LAYER &&
           role->use == QSF_USE_MATRIX && !strcmp(t->dtype, "U8");
}

/* A tensor to be added, and its role. */
typedef struct hf_adding {
    uint32_t         unit, rows, cols;
    const qsf_layer *layer;
    const qsf_role  *role;
    hf_named         named;
    weights_tensor  *t, *scales;        /* scales: t has MXFP4's blocks */
    bool             vector, turned;    /* turned: stored [inputs][outputs] */
    uint64_t         parts;             /* experts that are stacked, or 1 */
} hf_adding;

static qsf_status hf_check_stored(const hf_adding *a, qsf_error *err)
{
    const uint16_t how = a->named.how;
    const uint64_t all = a->named.all / a->parts, cols = a->cols;
    const hf_shape blocks = { 4, { a->parts, all, cols / 32, 16 } };
    const hf_shape scales = { 3, { a->parts, all, cols / 32 } };
    hf_shape want = { 0 };
    if (a->t->transposed && how)
        return qsf_fail(err, QSF_E_UNSUPPORTED, "tensor %s is stored transposed", a->t->name);
    if (a->scales) {
        const qsf_status st = hf_check_shape(a->t, &blocks, false, err);
        if (!st && (cols % 32 || strcmp(a->t->dtype, "U8") || strcmp(a->scales->dtype, "U8")))
            return qsf_fail(err, QSF_E_UNSUPPORTED, "tensors %s and %s are of types %s and %s, in rows of %u "
                            "(supported: U8, rows of 32, 64, ...)", a->t->name, a->scales->name, a->t->dtype,
                            a->scales->dtype, (unsigned)a->cols);
        return st ? st : hf_check_shape(a->scales, &scales, false, err);
    }
    if (how & HF_STACKED) want.dim[want.n++] = a->parts;
    if (!a->vector && a->turned) want.dim[want.n++] = cols;
    want.dim[want.n++] = all;
    if (!a->vector && !a->turned) want.dim[want.n++] = cols;
    return hf_check_shape(a->t, &want, (how & HF_FLAT) != 0, err);
}

/* A delta net's heads, which come after queries and keys; in the convolution each has several
 * taps. */
static hf_heads hf_heads_of(const hf_adding *a)
{
    const qsf_layer *l = a->layer;
    const uint8_t kind = a->role->kind;
    const bool columns = a->vector || kind == QSF_K_MIX_OUT;
    const uint32_t keys = 2 * l->mix_groups * l->mix_state, all = columns ? a->cols : a->rows;
    const uint32_t first = kind == QSF_K_MIX_IN ? keys : kind == QSF_K_MIX_CONV ? keys * l->mix_conv : 0;
    return (hf_heads){ .columns = columns, .first = first, .size = (all - first) / l->mix_heads,
                       .keys = l->mix_groups, .each = l->mix_heads / l->mix_groups };
}

static hf_sets hf_sets_of(const hf_adding *a)
{
    const qsf_layer *l = a->layer;
    const uint32_t key = l->mix_state, values = l->mix_inner / l->mix_groups;
    const bool gates = a->role->kind == QSF_K_MIX_GATE;
    return (hf_sets){ .all = 2 * (key + values), .key = key, .values = values,
                      .first = gates ? 0 : 2 * l->mix_groups * key, .at = 2 * key + (gates ? values : 0) };
}

static hf_place hf_place_of(const hf_mapper *m, const hf_adding *a)
{
    const hf_named *n = &a->named;
    const uint64_t own = qsf_role_outputs(&m->in->hp, a->layer, a->role);
    const bool woven = n->how & HF_WOVEN, stacked = n->how & HF_STACKED;
    const uint64_t step = woven ? n->all / own : 1;
    const uint64_t first = woven ? n->first / own : n->first / a->parts;
    /* the file's own strides may turn the order round that its type has */
    const bool turned = !a->vector && a->turned != a->t->transposed;
    const bool norm = a->role->use == QSF_USE_NORM && !(n->how & HF_PLAIN);
    const bool less_one = norm && m->cfg->type->norms_less_one;
    hf_place p = { .t = a->t, .scales = a->scales, .decay = (n->how & HF_DECAY) != 0, .add = less_one };
    p.exchanged = m->mtp == HF_MTP_MIMO && a->role->kind == QSF_K_MTP_PROJ;
    p.first = a->vector || turned ? first : first * a->cols;
    p.row_step = turned ? step : step * a->cols;
    p.col_step = turned ? n->all / a->parts : a->vector ? step : 1;
    if (a->vector) p.row_step = a->cols;
    if (stacked && !a->vector) {
        p.block = (uint32_t)(a->rows / a->parts);
        p.block_step = n->all / a->parts * a->cols;
    }
    if (n->how & HF_HEADS) p.heads = hf_heads_of(a);
    if (n->how & HF_SETS) {
        p.sets = hf_sets_of(a);
        p.first = 0;
    }
    return p;
}

static qsf_status hf_add(hf_mapper *m, hf_adding *a, qsf_error *err)
{
    const hf_type *type = m->cfg->type;
    const qsf_hparams *hp = &m->in->hp;
    weights_tensor *t = a->t;
    a->rows = (uint32_t)qsf_dim_size(hp, a->layer, (qsf_dim)a->role->rows);
    a->cols = (uint32_t)qsf_dim_size(hp, a->layer, (qsf_dim)a->role->cols);
    a->vector = a->role->rows == QSF_DIM_ONE;
    a->parts = a->named.how & HF_STACKED ? a->layer->n_experts : 1;
    a->turned = a->named.how & HF_TURNED ? !a->scales
        : type->transposed && !a->vector && a->role->part == QSF_PART_LAYER;
    const bool packed = hf_is_packed(m, a->role, t) && !a->named.part;
    const bool ternary = m->cfg->ternary == HF_TERNARY_MASTERS && a->role->part == QSF_PART_LAYER &&
                         a->role->use == QSF_USE_MATRIX;
    qsf_status st;

    if (!packed && (st = hf_check_stored(a, err))) return st;
    if (t->type == WEIGHTS_NO_TYPE && !packed && !a->scales)
        return qsf_fail(err, QSF_E_UNSUPPORTED, "tensor %s is of type %s (supported: F16, BF16, F32)",
                        t->name, t->dtype);
    input_tensor *i = &m->in->tensors[m->n];
    hf_place *p = &m->places[m->n++];
    *p = hf_place_of(m, a);
    if (packed && (st = hf_add_packed(m, t, a->rows, a->cols, p, err))) return st;
    if (ternary && (st = qsf_hf_weights_masters(m->in->platform, m->w, p, a->rows, a->cols, err))) return st;
    t->used = true;
    if (a->scales) a->scales->used = true;
    const uint64_t values = (uint64_t)a->rows * a->cols;
    *i = (input_tensor){ .unit = a->unit, .kind = a->role->kind, .rows = a->rows, .cols = a->cols,
                         .scale = p->scale };
    i->source_type = packed ? QSF_T_TERNARY2 : a->scales ? QSF_T_MXFP4 : t->type;
    i->stored_bytes = packed ? t->bytes : a->scales ? values / 32 * 17
                    : values * (t->type == QSF_T_F32 ? 4 : 2);
    i->name = hf_part_name(m, t, a->named.part, err);
    return i->name ? QSF_OK : QSF_E_MEMORY;
}

/* The name with expert e in place of its star. */
static void hf_expert_name(const char *name, uint32_t e, char *out, size_t cap)
{
    const char *star = strchr(name, '*');
    qsf_format(out, cap, "%.*s%u%s", (int)(star - name), name, (unsigned)e, star + 1);
}

/* All experts' tensors as one matrix. */
static qsf_status hf_add_experts(hf_mapper *m, uint32_t unit, const qsf_layer *layer, const qsf_role *role,
                                 const char *name, qsf_error *err)
{
    const qsf_hparams *hp = &m->in->hp;
    const uint32_t rows = (uint32_t)qsf_dim_size(hp, layer, (qsf_dim)role->rows);
    const uint32_t cols = (uint32_t)qsf_dim_size(hp, layer, (qsf_dim)role->cols);
    const uint32_t each = rows / layer->n_experts;
    const hf_shape want = { 2, { each, cols } };
    weights_tensor **list = qsf_arena_array(m->in->arena, layer->n_experts, sizeof *list, "experts", err);
    char own[256];
    if (!list) return QSF_E_MEMORY;
    for (uint32_t e = 0; e < layer->n_experts; e++) {
        hf_expert_name(name, e, own, sizeof own);
        weights_tensor *t = list[e] = qsf_hf_weights_find(m->w, own);
        if (!t)
            return qsf_fail(err, QSF_E_CORRUPT, "tensor %s is missing; is a shard missing, or the download "
                            "incomplete?", own);
        const qsf_status st = hf_check_shape(t, &want, false, err);
        if (st) return st;
        if (t->type == WEIGHTS_NO_TYPE || t->type != list[0]->type || t->transposed)
            return qsf_fail(err, QSF_E_UNSUPPORTED, "tensor %s is of type %s, its first expert of %s "
                            "(supported: F16, BF16, F32, the same for all)", t->name, t->dtype,
                            list[0]->dtype);
        t->used = true;
    }
    input_tensor *i = &m->in->tensors[m->n];
    m->places[m->n++] = (hf_place){ .t = list[0], .each = list, .block = each, .row_step = cols,
                                    .col_step = 1 };
    *i = (input_tensor){ .unit = unit, .kind = role->kind, .rows = rows, .cols = cols,
                         .source_type = list[0]->type,
                         .stored_bytes = (uint64_t)rows * cols * (list[0]->type == QSF_T_F32 ? 4 : 2) };
    i->name = qsf_arena_text(m->in->arena, name, strlen(name), err);
    return i->name ? QSF_OK : QSF_E_MEMORY;
}

static void hf_full_name(const hf_mapper *m, uint32_t unit, const qsf_role *role, uint16_t how,
                         const char *name, char *out, size_t cap)
{
    if (unit + 1 == m->in->hp.n_layers && qsf_hf_mtp_name(m->mtp, role, name, out, cap)) return;
    if (role->part == QSF_PART_LAYER && !(how & HF_OUTSIDE))
        qsf_format(out, cap, "%s%s%u.%s", m->body, m->layers, (unsigned)unit, name);
    else qsf_format(out, cap, "%s%s", role->kind == QSF_K_OUTPUT || how & HF_BARE ? m->head : m->body, name);
}

/* Whether a tensor that need not be there may. */
static bool hf_may(const hf_mapper *m, const qsf_layer *layer, const qsf_role *role)
{
    const hf_type *type = m->cfg->type;
    const bool loose = m->cfg->arch->both_ways || role->when == QSF_WHEN_MAY_STATE ||
                       role->when == QSF_WHEN_MAY_LAYER || role->when == QSF_WHEN_MAY_EXPERTS ||
                       role->when == QSF_WHEN_MAY_MTP;
    return loose ? qsf_arch_takes(m->cfg->arch, &m->in->hp, layer, role)
                 : qsf_kinds_have(type->biases, role->kind);
}

/* Finds the role's tensor, or its blocks and scales, or the one used in its place: keys for values
 * in later Gemma models, and the embedding for a head that is a separate matrix. */
static void hf_find(const hf_mapper *m, hf_adding *a)
{
    const uint8_t kind = a->role->kind;
    const uint8_t other = kind == QSF_K_ATTN_V && m->cfg->arch->later_gemma ? QSF_K_ATTN_K
        : kind == QSF_K_OUTPUT && m->cfg->head_twice ? QSF_K_TOKEN_EMBD : kind;
    char name[256], blocks[256];
    hf_full_name(m, a->unit, a->role, a->named.how, a->named.name, name, sizeof name);
    a->t = qsf_hf_weights_find(m->w, name);
    if (!a->t && a->named.how & HF_TURNED) {
        qsf_format(blocks, sizeof blocks, "%s_scales", name);
        a->scales = qsf_hf_weights_find(m->w, blocks);
        qsf_format(blocks, sizeof blocks, "%s_blocks", name);
        if (a->scales) a->t = qsf_hf_weights_find(m->w, blocks);
    }
    if (a->t || other == kind) return;
    const qsf_role *role = qsf_role_of(other);
    hf_full_name(m, a->unit, role, 0, qsf_hf_type_name(m->cfg->type, &m->in->hp, a->layer, role).name,
                 name, sizeof name);
    a->t = qsf_hf_weights_find(m->w, name);
}

static qsf_status hf_map_role(hf_mapper *m, hf_adding *a, qsf_error *err)
{
    const qsf_hparams *hp = &m->in->hp;
    const qsf_role *role = a->role;
    const bool need = qsf_arch_needs(m->cfg->arch, hp, a->layer, role) ||
                      (qsf_kinds_have(m->cfg->need, role->kind) && qsf_role_fits(a->layer, role));
    char name[256];
    const bool guesses = m->mtp && role->part == QSF_PART_LAYER && a->unit + 1 == hp->n_layers;
    a->named = qsf_hf_type_name(guesses ? m->mtp_type : m->cfg->type, hp, a->layer, role);
    if (!a->named.name || !(need || hf_may(m, a->layer, role))) return QSF_OK;
    if (role->kind == QSF_K_POS_EMBD) {
        a->named.first += m->cfg->type->pos_first;
        a->named.all += m->cfg->type->pos_first;
    }
    if (a->named.how & HF_OUTSIDE && role->use == QSF_USE_MATRIX) {     /* all layers' rows */
        a->named.first = a->unit * a->named.all;
        a->named.all *= hp->n_layers;
    }
    hf_full_name(m, a->unit, role, a->named.how, a->named.name, name, sizeof name);
    if (strchr(a->named.name, '*')) return hf_add_experts(m, a->unit, a->layer, role, name, err);
    hf_find(m, a);
    if (a->t) return hf_add(m, a, err);
    if (!need) return QSF_OK;
    return qsf_fail(err, QSF_E_CORRUPT, "tensor %s is missing; is a shard missing, or the download "
                    "incomplete?", name);
}

/* Takes the part's tensors in the order of the roles.  A tensor of a role that this model should
 * not have is left alone here and refused as unknown. */
static qsf_status hf_map_unit(hf_mapper *m, uint32_t unit, qsf_part part, qsf_error *err)
{
    const qsf_layer record = qsf_layer_of(&m->in->hp, unit);
    qsf_status st = QSF_OK;
    for (size_t i = 0; i < QSF_N_ROLES && !st; i++) {
        hf_adding a = { .unit = unit, .layer = part == QSF_PART_LAYER ? &record : NULL,
                        .role = &qsf_roles[i] };
        if (a.role->part == part) st = hf_map_role(m, &a, err);
    }
    return st;
}

/* ---- what is left over ----------------------------------------------------------------------- */

static bool hf_has_suffix(const char *s, const char *suffix)
{
    const size_t n = strlen(s), m = strlen(suffix);
    return n >= m && !strcmp(s + n - m, suffix);
}

static bool hf_has_prefix(const char *s, const char *prefix) { return !strncmp(s, prefix, strlen(prefix)); }

/* An encoder's heads that are only for training, besides those of classifiers. */
static bool hf_guesses_masks(const hf_mapper *m, const char *name)
{
    static const char *const heads[] = { "cls.predictions.", "cls.seq_relationship.", "lm_head.", "head.",
                                         "decoder." };
    const char *const inner = name + (hf_has_prefix(name, m->body) ? strlen(m->body) : 0);
    for (size_t i = 0; i < QSF_ARRAY_LEN(heads) && !m->cfg->type->classes; i++)
        if (hf_has_prefix(name, heads[i])) return true;
    return hf_has_prefix(inner, "pooler.dense.");
}

/* Tensors that no text depends on: masks and frequencies, which are computed, a copy of the
 * embedding where the head is tied to it, and what a model with pictures has for those. */
static bool hf_harmless(const hf_mapper *m, const char *name)
{
    static const char *const suffixes[] = { "rotary_emb.inv_freq", "rotary_emb.cos_cached",
                                            "rotary_emb.sin_cached", ".attn.bias", ".attn.masked_bias",
                                            ".position_ids" };
    static const char *const parts[] = { "vision_tower.", "multi_modal_projector.", "visual.",
                                         "embed_vision.", "audio_tower.", "embed_audio." };
    const char *const inner = name + (hf_has_prefix(name, "model.") ? 6 : 0);
    for (size_t i = 0; i < QSF_ARRAY_LEN(suffixes); i++)
        if (hf_has_suffix(name, suffixes[i])) return true;
    for (size_t i = 0; i < QSF_ARRAY_LEN(parts); i++)
        if (m->cfg->pictures && hf_has_prefix(inner, parts[i])) return true;
    if (qsf_hf_mtp_left(m->cfg, m->mtp, name)) return true;
    if (m->cfg->arch->both_ways && hf_guesses_masks(m, name)) return true;
    const size_t head = strlen(m->head);
    return m->in->hp.tied && !strncmp(name, m->head, head) &&
           !strcmp(name + head, hf_role_name(m, QSF_K_OUTPUT));
}

/* Keys and values of a layer that reads another layer's: files contain them, but they are not
 * used. */
static bool hf_unused_keys(const hf_mapper *m, unsigned long layer, const char *name)
{
    static const char *const names[] = { "self_attn.k_proj.weight", "self_attn.v_proj.weight",
                                         "self_attn.k_norm.weight" };
    if (layer >= m->in->hp.n_layers || !qsf_layer_of(&m->in->hp, (uint32_t)layer).kv_from) return false;
    for (size_t i = 0; i < QSF_ARRAY_LEN(names); i++)
        if (!strcmp(name, names[i])) return true;
    return false;
}

/* A tensor that was not used would be lost without a word: only
 * those that are known to be harmless may. */
static qsf_status hf_check_rest(const hf_mapper *m, uint32_t *ignored, qsf_error *err)
{
    char layers[64], *end;
    qsf_format(layers, sizeof layers, "%s%s", m->body, m->layers);
    *ignored = 0;
    for (uint32_t i = 0; i < m->w->n; i++) {
        const weights_tensor *t = m->w->by_name[i];
        if (t->used) continue;
        if (hf_harmless(m, t->name)) {
            (*ignored)++;
            continue;
        }
        const char *number = hf_has_prefix(t->name, layers) ? t->name + strlen(layers) : "";
        const unsigned long layer = strtoul(number, &end, 10);
        const uint32_t guessing = m->cfg->n_guessing - (m->mtp == HF_MTP_AFTER && m->cfg->n_guessing > 0);
        const bool guesses = layer >= m->in->hp.n_layers && layer - m->in->hp.n_layers < guessing;
        if (end > number && *end == '.' && (guesses || hf_unused_keys(m, layer, end + 1))) {
            (*ignored)++;
            continue;
        }
        if (end > number && *end == '.' && layer >= m->in->hp.n_layers)
            return qsf_fail(err, QSF_E_CORRUPT, "tensor %s belongs to layer %lu, but config.json has %u "
                            "layers (the first is layer 0); "
                            "is this its config.json?", t->name, layer, (unsigned)m->in->hp.n_layers);
        return qsf_fail(err, QSF_E_UNSUPPORTED,
                        "tensor %s is not part of a %s model as known to this converter", t->name,
                        m->cfg->type->type);
    }
    return QSF_OK;
}

bool qsf_hf_has(const hf_weights *w, const char *name)
{
    char own[160];
    for (size_t i = 0; i < QSF_ARRAY_LEN(hf_prefixes); i++) {
        qsf_format(own, sizeof own, "%s%s", hf_prefixes[i].body, name);
        if (qsf_hf_weights_find(w, own)) return true;
    }
    return false;
}

static bool hf_find_prefix(hf_mapper *m, const char *embd)
{
    char name[128];
    for (size_t i = 0; i < QSF_ARRAY_LEN(hf_prefixes); i++) {
        qsf_format(name, sizeof name, "%s%s", hf_prefixes[i].body, embd);
        if (!qsf_hf_weights_find(m->w, name)) continue;
        m->body = hf_prefixes[i].body;
        m->head = hf_prefixes[i].head;
        return true;
    }
    return false;
}

/* The embedding's rows give the number of tokens; vocab_size in some configs is only a default. */
static qsf_status hf_vocab_size(hf_mapper *m, const char *embd, qsf_error *err)
{
    char name[128];
    qsf_format(name, sizeof name, "%s%s", m->body, embd);
    const weights_tensor *t = qsf_hf_weights_find(m->w, name);
    if (t->n_dims != 2 || !t->shape[0] || t->shape[0] > 1 << 24) {
        char shape[128];
        hf_shape_text(t, shape, sizeof shape);
        return qsf_fail(err, QSF_E_CORRUPT,
                        "tensor %s is of shape [%s], expected one row for each token, at most 2^24", name,
                        shape);
    }
    m->in->hp.n_vocab = (uint32_t)t->shape[0];
    return QSF_OK;
}

/* In files of a model whose head is tied to the embedding, according to config.json, the head may
 * still exist: as a copy, or, as the Transformers library treats it, as a separate matrix. */
static qsf_status hf_untie(const hf_mapper *m, const char *embd, qsf_error *err)
{
    char name[128], head[128];
    bool same;
    qsf_format(name, sizeof name, "%s%s", m->body, embd);
    qsf_format(head, sizeof head, "%s%s", m->head, hf_role_name(m, QSF_K_OUTPUT));
    const weights_tensor *e = qsf_hf_weights_find(m->w, name), *h = qsf_hf_weights_find(m->w, head);
    if (!m->in->hp.tied || m->cfg->arch->both_ways || !h || h->n_dims != 2 || h->shape[0] != e->shape[0] ||
        h->shape[1] != e->shape[1] || h->shape[1] > 1 << 20 || e->transposed || h->transposed ||
        e->type == WEIGHTS_NO_TYPE || h->type == WEIGHTS_NO_TYPE) return QSF_OK;
    const qsf_status st = qsf_hf_weights_same(m->in->platform, m->w, e, h, &same, err);
    if (!st && !same) m->in->hp.tied = false;
    return st;
}

/* Whether the layer for multi-token prediction has its experts by the names that the others' have:
 * Qwen 3.5's have one tensor for all experts of a layer, and this layer may have one for each. */
static bool hf_has_experts(const hf_mapper *m)
{
    const uint32_t unit = m->in->hp.n_layers - 1;
    const qsf_layer layer = qsf_layer_of(&m->in->hp, unit);
    const qsf_role *role = qsf_role_of(QSF_K_EXPERT_DOWN);
    const hf_named named = qsf_hf_type_name(m->cfg->type, &m->in->hp, &layer, role);
    char name[256], first[256];
    hf_full_name(m, unit, role, named.how, named.name, name, sizeof name);
    if (!strchr(name, '*')) return qsf_hf_weights_find(m->w, name);
    hf_expert_name(name, 0, first, sizeof first);
    return qsf_hf_weights_find(m->w, first);
}

/* Its own embedding and head may only be copies of the model's. */
static qsf_status hf_take_mtp(hf_mapper *m, const char *embd, qsf_error *err)
{
    char name[128], layer[64];
    qsf_format(name, sizeof name, "%s%s", m->body, embd);
    const weights_tensor *e = qsf_hf_weights_find(m->w, name);
    qsf_format(name, sizeof name, "%s%s", m->head, hf_role_name(m, QSF_K_OUTPUT));
    const weights_tensor *h = m->in->hp.tied ? e : qsf_hf_weights_find(m->w, name);
    qsf_format(layer, sizeof layer, "%s%s%u.", m->body, m->layers, (unsigned)m->in->hp.n_layers);
    const qsf_status st = qsf_hf_mtp_take(m->w, m->cfg, layer, e, h, m->in, &m->mtp, err);
    m->mtp_type = m->cfg->type;
    if (!st && m->mtp && m->cfg->other_type && !hf_has_experts(m)) m->mtp_type = m->cfg->other_type;
    return st;
}

qsf_status qsf_hf_map_tensors(const hf_weights *w, const hf_config *cfg, input *in, hf_place **places,
                              uint32_t *ignored, qsf_error *err)
{
    hf_mapper m = { .w = w, .cfg = cfg, .in = in };
    const char *embd = hf_role_name(&m, QSF_K_TOKEN_EMBD);
    qsf_status st;

    m.layers = cfg->type->layers_at ? cfg->type->layers_at : "layers.";
    if (!hf_find_prefix(&m, embd)) return qsf_fail(err, QSF_E_CORRUPT, "tensor %s is missing", embd);
    if ((st = hf_vocab_size(&m, embd, err)) || (st = hf_untie(&m, embd, err)) ||
        (st = hf_take_mtp(&m, embd, err))) return st;
    const uint32_t n_layers = in->hp.n_layers;
    /* A config may claim thousands of layers: the files must have
     * a tensor for each before room is made. */
    if (n_layers > w->n)
        return qsf_fail(err, QSF_E_CORRUPT, "config.json has %u layers, but the files have %u tensors",
                        (unsigned)n_layers, (unsigned)w->n);
    const uint64_t cap = (uint64_t)(n_layers + 1) * QSF_N_ROLES;     /* + 1: the roles that are in no layer */
    if (!(in->tensors = qsf_arena_array(in->arena, cap, sizeof *in->tensors, "tensor list", err)) ||
        !(m.places = qsf_arena_array(in->arena, cap, sizeof *m.places, "tensor list", err)))
        return QSF_E_MEMORY;
    *places = m.places;
    if ((st = hf_map_unit(&m, qsf_unit_number(n_layers, qsf_id_embd()), QSF_PART_EMBD, err))) return st;
    for (uint32_t i = 0; i < n_layers; i++)
        if ((st = hf_map_unit(&m, i, QSF_PART_LAYER, err))) return st;
    if ((st = hf_map_unit(&m, qsf_unit_number(n_layers, qsf_id_final()), QSF_PART_FINAL, err))) return st;
    in->n_tensors = m.n;
    return hf_check_rest(&m, ignored, err);
}
