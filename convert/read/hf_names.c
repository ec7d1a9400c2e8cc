/* Which tensor of a Hugging Face model is what: the table of roles, with the names that the model
 * type has.
 * SPDX-License-Identifier: MIT */
#include "read/hf_names.h"

#include <stdlib.h>

/* What stands before the names, and before the head's: base models, models with a head, models with
 * pictures. */
static const struct { const char *body, *head; } hf_prefixes[] = {
    { "model.", "" }, { "transformer.", "" }, { "", "" }, { "bert.", "" }, { "roberta.", "" },
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
} hf_mapper;

/* Of a tensor outside the layers, without what stands before it. */
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

/* Whether t's shape is that of its role; stored [a][b], or one dimension. */
static qsf_status hf_check_shape(const weights_tensor *t, bool vector, uint64_t a, uint64_t b, qsf_error *err)
{
    char shape[128];        /* four numbers of 64 bits fit */
    if (vector && t->n_dims == 1 && t->shape[0] == b) return QSF_OK;
    if (!vector && t->n_dims == 2 && t->shape[0] == a && t->shape[1] == b) return QSF_OK;
    hf_shape_text(t, shape, sizeof shape);
    return vector ? qsf_fail(err, QSF_E_CORRUPT, "tensor %s is of shape [%s], config.json asks for [%llu]",
                             t->name, shape, (unsigned long long)b)
                  : qsf_fail(err, QSF_E_CORRUPT,
                             "tensor %s is of shape [%s], config.json asks for [%llu x %llu]", t->name, shape,
                             (unsigned long long)a, (unsigned long long)b);
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

/* Codes of four rows in a byte, and their scale beside them. */
static qsf_status hf_add_packed(hf_mapper *m, const weights_tensor *t, uint32_t rows, uint32_t cols,
                                hf_place *p, qsf_error *err)
{
    char name[256];
    float scale = 1;
    if (rows % 4)
        return qsf_fail(err, QSF_E_UNSUPPORTED, "tensor %s packs %u rows, which are no groups of 4", t->name,
                        (unsigned)rows);
    const qsf_status shape = hf_check_shape(t, false, rows / 4, cols, err);
    if (shape) return shape;
    qsf_format(name, sizeof name, "%s_scale", t->name);
    weights_tensor *s = qsf_hf_weights_find(m->w, name);
    if (!s) return qsf_fail(err, QSF_E_CORRUPT, "tensor %s is missing, by which %s is scaled", name, t->name);
    const qsf_status st = qsf_hf_weights_number(m->in->platform, m->w, s, &scale, err);
    if (st) return st;
    s->used = true;
    p->packed = true;
    p->rows = rows;
    p->scale = m->cfg->ternary == HF_TERNARY_OVER ? 1 / scale : scale;
    return QSF_OK;
}

/* What packs ternary codes is of this type, and nothing else that is read. */
static bool hf_is_packed(const hf_mapper *m, const qsf_role *role, const weights_tensor *t)
{
    return m->cfg->ternary > HF_TERNARY_MASTERS && role->part == QSF_PART_LAYER &&
           role->use == QSF_USE_MATRIX && !strcmp(t->dtype, "U8");
}

static qsf_status hf_add(hf_mapper *m, uint32_t unit, const qsf_layer *layer, const qsf_role *role,
                         const hf_named *named, weights_tensor *t, qsf_error *err)
{
    const hf_type *type = m->cfg->type;
    const qsf_hparams *hp = &m->in->hp;
    const uint32_t rows = (uint32_t)qsf_dim_size(hp, layer, (qsf_dim)role->rows);
    const uint32_t cols = (uint32_t)qsf_dim_size(hp, layer, (qsf_dim)role->cols);
    const bool vector = role->rows == QSF_DIM_ONE;
    const bool file_transposed = type->transposed && !vector && role->part == QSF_PART_LAYER;
    const bool packed = hf_is_packed(m, role, t) && !named->part;
    qsf_status st;

    if (packed) st = QSF_OK;
    else if ((st = file_transposed ? hf_check_shape(t, vector, cols, named->all, err)
            : hf_check_shape(t, vector, vector ? 1 : named->all, vector ? named->all : cols, err))) return st;
    if (t->type == WEIGHTS_NO_TYPE && !packed)
        return qsf_fail(err, QSF_E_UNSUPPORTED, "tensor %s is of type %s (supported: F16, BF16, F32)",
                        t->name, t->dtype);
    input_tensor *i = &m->in->tensors[m->n];
    hf_place *p = &m->places[m->n++];
    p->t = t;
    p->add = type->norms_less_one && role->use == QSF_USE_NORM ? 1 : 0;
    /* The file's own strides may turn the type's order round. */
    const bool dense_outputs = !vector && file_transposed != t->transposed;
    p->stride = dense_outputs ? named->all : 0;
    p->first = vector || dense_outputs ? named->first : named->first * cols;
    if (packed && (st = hf_add_packed(m, t, rows, cols, p, err))) return st;
    if (m->cfg->ternary == HF_TERNARY_MASTERS && role->part == QSF_PART_LAYER &&
        role->use == QSF_USE_MATRIX &&
        (st = qsf_hf_weights_masters(m->in->platform, m->w, p, rows, cols, err))) return st;
    t->used = true;
    i->scale = p->scale;
    i->unit = unit;
    i->kind = role->kind;
    i->rows = rows;
    i->cols = cols;
    i->source_type = packed ? QSF_T_TERNARY2 : t->type;
    i->stored_bytes = packed ? t->bytes : (uint64_t)rows * cols * (t->type == QSF_T_F32 ? 4 : 2);
    i->name = hf_part_name(m, t, named->part, err);
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
    weights_tensor **list = qsf_arena_array(m->in->arena, layer->n_experts, sizeof *list, "experts", err);
    char own[256];
    if (!list) return QSF_E_MEMORY;
    for (uint32_t e = 0; e < layer->n_experts; e++) {
        hf_expert_name(name, e, own, sizeof own);
        weights_tensor *t = list[e] = qsf_hf_weights_find(m->w, own);
        if (!t)
            return qsf_fail(err, QSF_E_CORRUPT, "tensor %s is missing; is a shard missing, or the download "
                            "incomplete?", own);
        const qsf_status st = hf_check_shape(t, false, each, cols, err);
        if (st) return st;
        if (t->type == WEIGHTS_NO_TYPE || t->type != list[0]->type || t->transposed)
            return qsf_fail(err, QSF_E_UNSUPPORTED, "tensor %s is of type %s, its first expert of %s "
                            "(supported: F16, BF16, F32, the same for all)", t->name, t->dtype,
                            list[0]->dtype);
        t->used = true;
    }
    input_tensor *i = &m->in->tensors[m->n];
    m->places[m->n++] = (hf_place){ .t = list[0], .each = list, .each_rows = each };
    *i = (input_tensor){ .unit = unit, .kind = role->kind, .rows = rows, .cols = cols,
                         .source_type = list[0]->type,
                         .stored_bytes = (uint64_t)rows * cols * (list[0]->type == QSF_T_F32 ? 4 : 2) };
    i->name = qsf_arena_text(m->in->arena, name, strlen(name), err);
    return i->name ? QSF_OK : QSF_E_MEMORY;
}

static void hf_full_name(const hf_mapper *m, uint32_t unit, const qsf_role *role, const char *name, char *out,
                         size_t cap)
{
    if (role->part == QSF_PART_LAYER)
        qsf_format(out, cap, "%s%s%u.%s", m->body, m->layers, (unsigned)unit, name);
    else qsf_format(out, cap, "%s%s", role->kind == QSF_K_OUTPUT ? m->head : m->body, name);
}

/* Whether a tensor that need not be there may. */
static bool hf_may(const hf_mapper *m, const qsf_layer *layer, const qsf_role *role)
{
    const hf_type *type = m->cfg->type;
    return type->keys == HF_KEYS_BERT ? qsf_arch_takes(m->cfg->arch, &m->in->hp, layer, role)
                                      : qsf_kinds_have(type->biases, role->kind);
}

/* Takes the part's tensors in the order of the roles.  A tensor of a role that this model should
 * not have is left alone here and refused as unknown. */
static qsf_status hf_map_unit(hf_mapper *m, uint32_t unit, qsf_part part, qsf_error *err)
{
    const qsf_hparams *hp = &m->in->hp;
    const qsf_layer record = qsf_layer_of(hp, unit), *layer = part == QSF_PART_LAYER ? &record : NULL;
    char name[256];
    for (size_t i = 0; i < QSF_N_ROLES; i++) {
        const qsf_role *role = &qsf_roles[i];
        if (role->part != part) continue;
        const bool need = qsf_arch_needs(m->cfg->arch, hp, layer, role) ||
                          qsf_kinds_have(m->cfg->need, role->kind);
        hf_named named = qsf_hf_type_name(m->cfg->type, hp, layer, role);
        if (!named.name || !(need || hf_may(m, layer, role))) continue;
        if (role->kind == QSF_K_POS_EMBD) {
            named.first += m->cfg->type->pos_first;
            named.all += m->cfg->type->pos_first;
        }
        hf_full_name(m, unit, role, named.name, name, sizeof name);
        if (strchr(named.name, '*')) {
            const qsf_status st = hf_add_experts(m, unit, layer, role, name, err);
            if (st) return st;
            continue;
        }
        weights_tensor *t = qsf_hf_weights_find(m->w, name);
        if (!t && !need) continue;
        if (!t)
            return qsf_fail(err, QSF_E_CORRUPT,
                            "tensor %s is missing; is a shard missing, or the download incomplete?", name);
        const qsf_status st = hf_add(m, unit, layer, role, &named, t, err);
        if (st) return st;
    }
    return QSF_OK;
}

/* ---- what is left over ----------------------------------------------------------------------- */

static bool hf_has_suffix(const char *s, const char *suffix)
{
    const size_t n = strlen(s), m = strlen(suffix);
    return n >= m && !strcmp(s + n - m, suffix);
}

static bool hf_has_prefix(const char *s, const char *prefix) { return !strncmp(s, prefix, strlen(prefix)); }

/* Tensors that no text depends on: masks and frequencies, which are computed, a copy of the
 * embedding where the head is tied to it, and what a model with pictures has for those. */
static bool hf_harmless(const hf_mapper *m, const char *name)
{
    static const char *const suffixes[] = { "rotary_emb.inv_freq", "rotary_emb.cos_cached",
                                            "rotary_emb.sin_cached", ".attn.bias", ".attn.masked_bias",
                                            ".position_ids" };
    static const char *const parts[] = { "vision_tower.", "multi_modal_projector.", "model.vision_tower.",
                                         "model.multi_modal_projector." };
    for (size_t i = 0; i < QSF_ARRAY_LEN(suffixes); i++)
        if (hf_has_suffix(name, suffixes[i])) return true;
    for (size_t i = 0; i < QSF_ARRAY_LEN(parts); i++)
        if (m->cfg->pictures && hf_has_prefix(name, parts[i])) return true;
    if (m->cfg->type->keys == HF_KEYS_BERT && hf_has_prefix(name, m->body) &&
        hf_has_prefix(name + strlen(m->body), "pooler.dense.")) return true;
    const size_t head = strlen(m->head);
    return m->in->hp.tied && !strncmp(name, m->head, head) &&
           !strcmp(name + head, hf_role_name(m, QSF_K_OUTPUT));
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
        if (end > number && *end == '.' && layer >= m->in->hp.n_layers)
            return qsf_fail(err, QSF_E_CORRUPT, "tensor %s belongs to layer %lu, but config.json has %u "
                            "layers (the first is layer 0); "
                            "is this its config.json?", t->name, layer, (unsigned)m->in->hp.n_layers);
        return qsf_fail(err, QSF_E_UNSUPPORTED,
                        "tensor %s has no place in a %s model as this converter knows it", t->name,
                        m->cfg->type->type);
    }
    return QSF_OK;
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

/* Rows of the embedding say how many tokens there are; vocab_size of
 * some configs is a default that nobody set. */
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

qsf_status qsf_hf_map_tensors(const hf_weights *w, const hf_config *cfg, input *in, hf_place **places,
                              uint32_t *ignored, qsf_error *err)
{
    const uint32_t n_layers = in->hp.n_layers;
    hf_mapper m = { .w = w, .cfg = cfg, .in = in };
    const char *embd = hf_role_name(&m, QSF_K_TOKEN_EMBD);
    qsf_status st;

    m.layers = cfg->type->layers_at ? cfg->type->layers_at : "layers.";
    if (!hf_find_prefix(&m, embd)) return qsf_fail(err, QSF_E_CORRUPT, "tensor %s is missing", embd);
    if ((st = hf_vocab_size(&m, embd, err))) return st;
    /* A config may claim thousands of layers: the files must have
     * a tensor for each before room is made. */
    if (n_layers > w->n)
        return qsf_fail(err, QSF_E_CORRUPT, "config.json says %u layers, the files have %u tensors",
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
