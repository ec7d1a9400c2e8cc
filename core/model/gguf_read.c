/* A GGUF file as a qsf_source: assigns tensors to roles, and groups them in units.
 * SPDX-License-Identifier: MIT */
#include "model/gguf_units.h"
#include "model/share.h"
#include "tensor/stored.h"

/* ---- which tensor is what ---- */

/* Tensors that hold several matrices one below the other, or several vectors one after another.
 * These are names after "blk.N." that the table of roles lacks; the last one applies only if the
 * gate is fused. */
typedef struct gguf_fused { const char *name; uint8_t n, kinds[3]; } gguf_fused;
static const gguf_fused fused_roles[] = {
    { "attn_qkv.weight", 3, { QSF_K_ATTN_Q, QSF_K_ATTN_K, QSF_K_ATTN_V } },
    { "attn_qkv.bias", 3, { QSF_K_ATTN_Q_BIAS, QSF_K_ATTN_K_BIAS, QSF_K_ATTN_V_BIAS } },
    { "ffn_up.weight", 2, { QSF_K_FFN_GATE, QSF_K_FFN_UP } },
};

static gguf_place gguf_at(const gguf_tensor *t, uint64_t at, uint64_t rows, uint64_t cols, uint64_t bytes)
{
    return (gguf_place){ .t = t, .at = at, .rows = (uint32_t)rows, .cols = (uint32_t)cols, .bytes = bytes };
}

static qsf_status check_shape(const gguf *g, const gguf_tensor *t, uint64_t rows, uint64_t cols,
                              qsf_error *err)
{
    const uint64_t more = t->dims[2] * t->dims[3];
    if (t->dims[0] == cols && t->dims[1] == rows && more == 1) return QSF_OK;
    return qsf_fail(err, QSF_E_CORRUPT, "%s: tensor \"%.*s\" is %llu x %llu%s, expected %llu x %llu",
                    gguf_path_of(g, t), (int)QSF_MIN(t->name.len, 80), t->name.p,
                    (unsigned long long)t->dims[1],
                    (unsigned long long)t->dims[0], more == 1 ? "" : " x more", (unsigned long long)rows,
                    (unsigned long long)cols);
}

static qsf_status check_taken(const gguf_layout *l, uint32_t unit, const qsf_role *role, const gguf_tensor *t,
                              qsf_error *err)
{
    const qsf_source *s = l->g->s;
    if (qsf_arch_takes(l->g->row, &s->hp, qsf_source_layer(s, unit), role)) return QSF_OK;
    return qsf_fail(err, QSF_E_UNSUPPORTED,
                    "%s: tensor \"%.*s\" is not part of architecture %s as known to this version",
                    gguf_path_of(l->g, t), (int)QSF_MIN(t->name.len, 80), t->name.p, l->g->arch);
}

static qsf_status put_place(gguf_layout *l, uint32_t unit, const qsf_role *role, gguf_place p, qsf_error *err)
{
    const int len = (int)QSF_MIN(p.t->name.len, 80);
    const uint32_t kind = role->kind;
    const qsf_status st = check_taken(l, unit, role, p.t, err);
    if (st) return st;
    if (l->units[unit][kind].t)
        return qsf_fail(err, QSF_E_CORRUPT, "%s: tensor \"%.*s\" holds weights that are also in \"%.*s\"",
                        gguf_path_of(l->g, p.t), len, p.t->name.p,
                        (int)QSF_MIN(l->units[unit][kind].t->name.len, 80), l->units[unit][kind].t->name.p);
    l->units[unit][kind] = p;
    return QSF_OK;
}

/* How many experts, or heads, whose parts of the tensor are a dimension of it; 0: none. */
static uint32_t parts_of(const qsf_layer *layer, const qsf_role *role)
{
    const uint8_t dim = role->rows == QSF_DIM_ONE ? role->cols : role->rows;
    if (!layer) return 0;
    if (role->kind == QSF_K_KEY_UP || role->kind == QSF_K_VALUE_UP) return layer->n_heads;
    return dim == QSF_DIM_EXPERTS_FF || dim == QSF_DIM_EXPERTS_EMBD ? layer->n_experts : 0;
}

/* Matrices of n experts or heads, or vectors if rows is 1. */
static qsf_status check_parts(const gguf *g, const gguf_tensor *t, uint64_t rows, uint64_t cols, uint32_t n,
                              qsf_error *err)
{
    const bool vector = rows == 1;
    if (t->dims[0] == cols && t->dims[1] == (vector ? n : rows) && t->dims[2] == (vector ? 1 : n) &&
        t->dims[3] == 1) return QSF_OK;
    return qsf_fail(err, QSF_E_CORRUPT, "%s: tensor \"%.*s\" is %llu x %llu x %llu, expected %u of "
                    "%llu x %llu", gguf_path_of(g, t), (int)QSF_MIN(t->name.len, 80), t->name.p,
                    (unsigned long long)t->dims[2], (unsigned long long)t->dims[1],
                    (unsigned long long)t->dims[0], (unsigned)n, (unsigned long long)rows,
                    (unsigned long long)cols);
}

/* Shares of the row before have dimensions of 1 between their two. */
static bool is_lerp(const qsf_role *role, const gguf_tensor *t, uint64_t embd, uint64_t cols)
{
    return role->kind == QSF_K_MIX_LERP && t->dims[0] == embd && t->dims[1] == 1 && t->dims[2] == 1 &&
           t->dims[3] == cols / embd;
}

static qsf_status put_whole(gguf_layout *l, uint32_t unit, const qsf_role *role, const gguf_tensor *t,
                            qsf_error *err)
{
    const qsf_hparams *hp = &l->g->s->hp;
    const qsf_layer *layer = qsf_source_layer(l->g->s, unit);
    const uint64_t rows = qsf_dim_size(hp, layer, (qsf_dim)role->rows);
    const uint64_t cols = qsf_dim_size(hp, layer, (qsf_dim)role->cols);
    qsf_status st = check_taken(l, unit, role, t, err);
    if (st) return st;
    const bool heads = role->cols == QSF_DIM_Q_NORM || role->cols == QSF_DIM_K_NORM;
    /* A norm for each head may be a matrix. */
    uint64_t each = heads && layer->qk_norm == QSF_QK_EACH ? layer->head_dim : cols;
    /* So may small numbers of mixers with state, whose rows are channels, heads or groups, and
     * those of streams. */
    const bool small = role->kind >= QSF_K_ALTUP_ROUTER || role->kind == QSF_K_MIX_LERP ||
                       (role->kind >= QSF_K_MIX_IN && role->kind < QSF_K_ROUTER_NORM);
    if (small && role->rows == QSF_DIM_ONE &&
        t->dims[0] && cols % t->dims[0] == 0)
        each = t->dims[0];
    const uint32_t parts = parts_of(layer, role);
    st = is_lerp(role, t, hp->n_embd, cols) ? QSF_OK : parts
        ? check_parts(l->g, t, role->rows == QSF_DIM_ONE ? 1 : rows / parts,
                      role->rows == QSF_DIM_ONE ? cols / parts : cols, parts, err)
        : check_shape(l->g, t, each ? rows * (cols / each) : 0, each, err);
    if (st) return st;
    const uint64_t bytes = t->packing ? qsf_stored_codes_bytes(t->packing, (uint32_t)rows, (uint32_t)cols)
        : t->bytes;
    return put_place(l, unit, role, gguf_at(t, t->at, rows, cols, bytes), err);
}

static qsf_status put_fused(gguf_layout *l, uint32_t unit, const gguf_fused *f, const gguf_tensor *t,
                            qsf_error *err)
{
    const qsf_hparams *hp = &l->g->s->hp;
    const qsf_layer *layer = qsf_source_layer(l->g->s, unit);
    const qsf_role *roles[3];
    for (int i = 0; i < f->n; i++) roles[i] = qsf_role_of(f->kinds[i]);
    const bool vector = roles[0]->rows == QSF_DIM_ONE;
    const uint64_t cols = qsf_dim_size(hp, layer, (qsf_dim)roles[0]->cols);
    const uint64_t each = qsf_block_bytes(t->type, t->block);
    uint64_t total = 0, at = t->at;
    qsf_status st;
    for (int i = 0; i < f->n; i++) total += qsf_role_outputs(hp, layer, roles[i]);
    if ((st = vector ? check_shape(l->g, t, 1, total, err) : check_shape(l->g, t, total, cols, err)))
        return st;
    for (int i = 0; i < f->n; i++) {
        const uint64_t n = qsf_role_outputs(hp, layer, roles[i]), values = vector ? n : cols;
        if (values % t->block || t->packing)
            return qsf_fail(err, QSF_E_UNSUPPORTED,
                            "%s: tensor \"%.*s\" cannot be split within its blocks",
                            gguf_path_of(l->g, t), (int)QSF_MIN(t->name.len, 80), t->name.p);
        const uint64_t bytes = (vector ? 1 : n) * (values / t->block) * each;
        const gguf_place p = gguf_at(t, at, vector ? 1 : n, values, bytes);
        if ((st = put_place(l, unit, roles[i], p, err))) return st;
        at += bytes;
    }
    return QSF_OK;
}

/* ---- tensors that hold kinds in turn ---- */

/* The layer's matrix of a kind consists of pieces of t: from each of n groups of `rows` rows, the
 * pieces with the sizes in `piece`, after the first `skip` rows. */
static qsf_status put_pieces(gguf_layout *l, uint32_t unit, uint32_t kind, const gguf_tensor *t, uint32_t n,
                             const uint64_t piece[GGUF_PIECES], uint64_t skip, uint64_t rows, qsf_error *err)
{
    const uint64_t row = t->bytes / (n * rows);
    uint64_t mine = 0;
    gguf_pieces *of = qsf_arena_array(l->g->tmp, 1, sizeof *of, "pieces of tensors", err);
    if (!of) return QSF_E_MEMORY;
    *of = (gguf_pieces){ .n = n, .stride = rows * row };
    for (int i = 0; i < GGUF_PIECES; i++) {
        of->bytes[i] = piece[i] * row;
        mine += piece[i];
    }
    gguf_place p = gguf_at(t, t->at + skip * row, n * mine, t->dims[0], n * mine * row);
    p.pieces = of;
    return put_place(l, unit, qsf_role_of(kind), p, err);
}

/* Experts' gates and what they multiply, an expert's below each other; or of a delta net's groups
 * of heads queries, keys, values and gates; or of PLaMo 2's heads gates and values.  *found: it is
 * one of these. */
static qsf_status put_in_turn(gguf_layout *l, uint32_t unit, gguf_text name, const gguf_tensor *t,
                              bool *found, qsf_error *err)
{
    const qsf_layer *layer = qsf_source_layer(l->g->s, unit);
    const bool experts = layer->n_experts && gguf_text_is(name, "ffn_gate_up_exps.weight");
    const bool delta = layer->mix_neighbours && layer->mixer == QSF_MIXER_DELTA_NET &&
                       gguf_text_is(name, "ssm_in.weight");
    const bool plamo = layer->mixer == QSF_MIXER_PLAMO && gguf_text_is(name, "ssm_in.weight");
    const uint64_t ff = layer->n_ff_expert, state = layer->mix_state;
    qsf_status st;
    *found = experts || delta || plamo;
    if (!*found) return QSF_OK;
    if (t->packing || t->scales)
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: tensor \"%.*s\" cannot be split",
                        gguf_path_of(l->g, t), (int)QSF_MIN(t->name.len, 80), t->name.p);
    if (experts) {
        const uint32_t n = layer->n_experts;
        if ((st = check_parts(l->g, t, 2 * ff, layer->n_expert_embd, n, err)) ||
            (st = put_pieces(l, unit, QSF_K_EXPERT_GATE, t, n, (uint64_t[]){ ff, 0, 0 }, 0, 2 * ff, err)))
            return st;
        return put_pieces(l, unit, QSF_K_EXPERT_UP, t, n, (uint64_t[]){ ff, 0, 0 }, ff, 2 * ff, err);
    }
    if (plamo) {
        const uint64_t each = layer->mix_inner / layer->mix_heads;
        if ((st = check_shape(l->g, t, 2 * (uint64_t)layer->mix_inner, l->g->s->hp.n_embd, err)) ||
            (st = put_pieces(l, unit, QSF_K_MIX_GATE, t, layer->mix_heads, (uint64_t[]){ each, 0, 0 }, 0,
                             2 * each, err))) return st;
        return put_pieces(l, unit, QSF_K_MIX_IN, t, layer->mix_heads, (uint64_t[]){ each, 0, 0 }, each,
                          2 * each, err);
    }
    const uint32_t n = layer->mix_groups;
    const uint64_t values = layer->mix_inner / n, rows = 2 * state + 2 * values;
    if ((st = check_shape(l->g, t, n * rows, l->g->s->hp.n_embd, err)) ||
        (st = put_pieces(l, unit, QSF_K_MIX_IN, t, n, (uint64_t[]){ state, state, values }, 0, rows, err)))
        return st;
    return put_pieces(l, unit, QSF_K_MIX_GATE, t, n, (uint64_t[]){ values, 0, 0 }, 2 * state + values, rows,
                      err);
}

static bool has_one_value(const gguf_tensor *t)
{
    return t->dims[0] == 1 && t->dims[1] == 1 && t->dims[2] == 1 && t->dims[3] == 1;
}

/* A tensor of one value, the scale of a matrix or of all that a tensor holds; or of one for each
 * expert. */
static qsf_status put_scale(gguf_layout *l, uint32_t unit, uint32_t kind, const gguf_tensor *t,
                            qsf_error *err)
{
    const qsf_source *s = l->g->s;
    const int len = (int)QSF_MIN(t->name.len, 80);
    const bool each = qsf_kind_is_experts(kind) && !has_one_value(t);
    const uint32_t n = each ? qsf_source_layer(s, unit)->n_experts : 1;
    const qsf_status st = check_shape(l->g, t, 1, n, err);
    if (st) return st;
    if (t->type != QSF_T_F32)
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: tensor \"%.*s\" is a scale of type %u, not f32",
                        gguf_path_of(l->g, t), len, t->name.p, (unsigned)t->ggml_type);
    if (l->scales[unit][kind].t)
        return qsf_fail(err, QSF_E_CORRUPT, "%s: tensor \"%.*s\" is the same scale as \"%.*s\"",
                        gguf_path_of(l->g, t), len, t->name.p,
                        (int)QSF_MIN(l->scales[unit][kind].t->name.len, 80), l->scales[unit][kind].t->name.p);
    l->scales[unit][kind] = gguf_at(t, t->at, 1, n, n * sizeof(float));
    return QSF_OK;
}

/* "blk.N.rest": N, or -1; *rest is what follows. */
static int64_t layer_of(gguf_text name, gguf_text *rest)
{
    int64_t n = 0;
    size_t i = 4;
    if (name.len < 7 || memcmp(name.p, "blk.", 4)) return -1;
    for (; i < name.len && i < 12 && name.p[i] >= '0' && name.p[i] <= '9'; i++)
        n = n * 10 + (name.p[i] - '0');
    if (i == 4 || i >= name.len || name.p[i] != '.') return -1;
    *rest = (gguf_text){ name.p + i + 1, name.len - i - 1 };
    return n;
}

/* Names that mean something else under all architectures whose sums are normed; arch.c has those of
 * single ones. */
static const qsf_arch_alias gguf_sums_aliases[] = {
    { "attn_output_norm.weight", QSF_K_ATTN_POST_NORM, false },
    { "attn_output_norm.bias", QSF_K_ATTN_POST_NORM_BIAS, false },
    { "layer_output_norm.weight", QSF_K_FFN_POST_NORM, false },
    { "layer_output_norm.bias", QSF_K_FFN_POST_NORM_BIAS, false },
    { 0 },
};

static const qsf_role *find_in_aliases(const qsf_arch_alias *list, const gguf *g, const qsf_layer *layer,
                                       gguf_text name)
{
    /* attn_qkv is a delta net's input, but in layers of attention what it is elsewhere */
    const bool attends = layer && layer->mixer == QSF_MIXER_ATTENTION;
    for (const qsf_arch_alias *a = list; a && a->name; a++)
        if (gguf_text_is(name, a->name) && (!attends || a->kind != QSF_K_MIX_IN) &&
            (!a->two || g->s->hp.flow == QSF_FLOW_PARALLEL_NORMS)) return qsf_role_of(a->kind);
    return NULL;
}

/* layer: NULL for what is outside of layers. */
static const qsf_role *find_alias(const gguf *g, const qsf_layer *layer, gguf_text name)
{
    static const struct { const char *name; uint8_t kind; } shared[] = {
        { "ffn_gate_shexp.weight", QSF_K_FFN_GATE }, { "ffn_up_shexp.weight", QSF_K_FFN_UP },
        { "ffn_down_shexp.weight", QSF_K_FFN_DOWN },
    };
    static const struct { const char *name; uint8_t kind; } rwkv[] = {
        { "time_mix_receptance.weight", QSF_K_MIX_IN }, { "time_mix_output.weight", QSF_K_MIX_OUT },
        { "time_mix_w1.weight", QSF_K_MIX_X }, { "time_mix_w2.weight", QSF_K_MIX_STEP },
        { "time_mix_w0.weight", QSF_K_MIX_STEP_BIAS }, { "time_mix_r_k.weight", QSF_K_MIX_SKIP },
        { "time_mix_ln.weight", QSF_K_MIX_NORM },
    };
    /* The shared experts are the layer's feed-forward. */
    if (layer && layer->n_experts)
        for (size_t i = 0; i < QSF_ARRAY_LEN(shared); i++)
            if (gguf_text_is(name, shared[i].name)) return qsf_role_of(shared[i].kind);
    for (size_t i = 0; layer && layer->mixer == QSF_MIXER_RWKV && i < QSF_ARRAY_LEN(rwkv); i++)
        if (gguf_text_is(name, rwkv[i].name)) return qsf_role_of(rwkv[i].kind);
    /* A layer of one part has one norm. */
    if (layer && layer->mixer == QSF_MIXER_NONE && gguf_text_is(name, "attn_norm.weight"))
        return qsf_role_of(QSF_K_FFN_NORM);
    if (g->s->hp.flow == QSF_FLOW_SUMS) {
        const qsf_role *role = find_in_aliases(gguf_sums_aliases, g, layer, name);
        if (role) return role;
    }
    return g->row ? find_in_aliases(g->row->aliases, g, layer, name) : NULL;
}

static const qsf_role *find_role(bool layer, gguf_text name)
{
    for (size_t i = 0; i < QSF_N_ROLES; i++)
        if ((qsf_roles[i].part == QSF_PART_LAYER) == layer && gguf_text_is(name, qsf_roles[i].gguf))
            return &qsf_roles[i];
    return NULL;
}

static const qsf_role *find_scaled(bool layer, gguf_text name)
{
    for (size_t i = 0; i < QSF_N_ROLES; i++)
        if ((qsf_roles[i].part == QSF_PART_LAYER) == layer && qsf_roles[i].scale &&
            gguf_text_is(name, qsf_roles[i].scale)) return &qsf_roles[i];
    return NULL;
}

/* What the architecture calls the matrix of "name.scale". */
static const qsf_role *find_scale_alias(const gguf *g, uint32_t layer, gguf_text name)
{
    static const char scale[] = ".scale";
    char weight[64];
    const size_t tail = sizeof scale - 1;
    if (name.len <= tail || memcmp(name.p + name.len - tail, scale, tail)) return NULL;
    const size_t n = qsf_format(weight, sizeof weight, "%.*s.weight", (int)QSF_MIN(name.len - tail, 80),
                                name.p);
    const qsf_role *role = n >= sizeof weight ? NULL
        : find_alias(g, qsf_source_layer(g->s, layer), (gguf_text){ weight, n });
    return role && role->scale ? role : NULL;
}

static bool is_fused_scale(gguf_text name) { return gguf_text_is(name, "attn_qkv.scale"); }

/* The scale of a layer's matrix, or of queries, keys and values in one; *found: it is one. */
static qsf_status put_layer_scale(gguf_layout *l, uint32_t layer, gguf_text rest, const gguf_tensor *t,
                                  bool *found, qsf_error *err)
{
    const qsf_role *role = find_scale_alias(l->g, layer, rest);
    const bool fused = !role && is_fused_scale(rest);
    if (!role) role = find_scaled(true, rest);
    qsf_status st = QSF_OK;
    *found = role || fused;
    if (role) return put_scale(l, layer, role->kind, t, err);
    for (int i = 0; fused && !st && i < fused_roles[0].n; i++)
        st = put_scale(l, layer, fused_roles[0].kinds[i], t, err);
    return st;
}

/* "attn_q.input_scale": what NVFP4 models were trained to divide a matrix's inputs by before they
 * round them to 4 bits.  Ours stay in 8 bits with a scale of their own. */
static bool is_input_scale(bool layer, gguf_text name)
{
    static const char input[] = ".input_scale";
    char scale[64];
    const size_t tail = sizeof input - 1;
    if (name.len <= tail || memcmp(name.p + name.len - tail, input, tail)) return false;
    if (layer && name.len > tail + 6 && !memcmp(name.p + name.len - tail - 6, "_shexp", 6)) return true;
    const size_t n = qsf_format(scale, sizeof scale, "%.*s.scale", (int)QSF_MIN(name.len - tail, 80), name.p);
    const gguf_text text = { scale, n };
    return n < sizeof scale && (find_scaled(layer, text) || (layer && is_fused_scale(text)));
}

/* Tensors that are not weights of the model: they are read elsewhere, can be computed or are not
 * needed.  llama.cpp loads an output bias of Qwen 2 VL but does not add it. */
static bool is_aside(const gguf *g, gguf_text name)
{
    gguf_text rest;
    if (gguf_text_is(name, "output.bias") && g->row->spare_output_bias) return true;
    if (gguf_text_is(name, "d2t") && g->row->eagle) return true;
    if (gguf_text_is(name, "rope_freqs.weight") || gguf_text_is(name, "rope_factors_long.weight")
        || gguf_text_is(name, "rope_factors_short.weight"))
        return true;
    if (layer_of(name, &rest) < 0) return is_input_scale(false, name);
    return gguf_text_is(rest, "attn_rot_embd") || gguf_text_is(rest, "attn_rot_embd.weight") ||
           is_input_scale(true, rest);
}

/* Whether ffn_up holds the gate, too. */
static bool fuses_gate(const gguf *g)
{
    const bool loose = g->row->has & QSF_HAS_LOOSE_GATE;
    return loose ? g->s->hp.gated && !qsf_gguf_tensor(g, "blk.0.ffn_gate.weight") : g->row->fused_gate;
}

/* ---- Gemma's later ones ---- */

/* What makes rows for all layers of an embedding, each layer's below the one before; and the norm
 * of each. *found: it is one of these. */
static qsf_status put_for_layers(gguf_layout *l, const gguf_tensor *t, bool *found, qsf_error *err)
{
    const qsf_hparams *hp = &l->g->s->hp;
    const bool norm = gguf_text_is(t->name, "per_layer_proj_norm.weight");
    const qsf_role *role = qsf_role_of(norm ? QSF_K_LAYER_EMBD_NORM : QSF_K_LAYER_EMBD);
    const uint32_t n = hp->n_embd_layer, rows = norm ? 1 : n, cols = norm ? n : hp->n_embd;
    *found = l->g->row->later_gemma && (norm || gguf_text_is(t->name, "per_layer_model_proj.weight"));
    if (!*found) return QSF_OK;
    qsf_status st = check_shape(l->g, t, norm ? 1 : (uint64_t)n * hp->n_layers, cols, err);
    if (st) return st;
    if (t->packing)
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: tensor \"%.*s\" cannot be split",
                        gguf_path_of(l->g, t), (int)QSF_MIN(t->name.len, 80), t->name.p);
    const uint64_t bytes = norm ? t->bytes : t->bytes / hp->n_layers;
    for (uint32_t i = 0; i < hp->n_layers && !st; i++)
        st = put_place(l, i, role, gguf_at(t, t->at + (norm ? 0 : i * bytes), rows, cols, bytes), err);
    return st;
}

/* Matrices of a row's streams: the first layer has those that make them, the last the others. */
static qsf_status put_streams(gguf_layout *l, const gguf_tensor *t, bool *found, qsf_error *err)
{
    const qsf_hparams *hp = &l->g->s->hp;
    const uint32_t e = hp->n_embd, others = QSF_ALTUP - 1, last = hp->n_layers - 1;
    const bool begin = gguf_text_is(t->name, "altup_proj.weight");
    *found = hp->altup && (begin || gguf_text_is(t->name, "altup_unembd_proj.weight"));
    if (!*found) return QSF_OK;
    qsf_status st = check_parts(l->g, t, e, e, others, err);
    const uint64_t bytes = t->bytes / others;
    if (!st && begin)
        st = put_place(l, 0, qsf_role_of(QSF_K_ALTUP_PROJ), gguf_at(t, t->at, others * e, e, t->bytes),
                       err);
    for (uint32_t i = 0; i < others && !st && !begin; i++)
        st = put_place(l, last, qsf_role_of(QSF_K_ALTUP_BACK_1 + i),
                       gguf_at(t, t->at + i * bytes, e, e, bytes), err);
    return st;
}

/* Tensors that files have but no engine uses: the keys and values of a layer that reads another
 * layer's, and those that would mix the first layer's values into the first layer itself. */
static bool is_unused(const qsf_layer *layer, gguf_text name)
{
    if (layer->mixer == QSF_MIXER_RWKV && !layer->mix_first)
        return gguf_text_is(name, "time_mix_v0.weight") || gguf_text_is(name, "time_mix_v1.weight") ||
               gguf_text_is(name, "time_mix_v2.weight");
    return layer->kv_from && (gguf_text_is(name, "attn_k.weight") || gguf_text_is(name, "attn_v.weight") ||
                              gguf_text_is(name, "attn_k_norm.weight"));
}

/* Matrices that are used twice: values that are keys before the norm; and, in models with per-layer
 * embeddings, the embedding as a separate head, so that the embedding can be read by row while the
 * head stays in memory. */
static void put_twice(gguf_layout *l)
{
    const qsf_source *s = l->g->s;
    const uint32_t embd = qsf_unit_embd(s), final = qsf_unit_final(s);
    if (s->hp.n_embd_layer && !l->units[final][QSF_K_OUTPUT].t) {
        l->units[final][QSF_K_OUTPUT] = l->units[embd][QSF_K_TOKEN_EMBD];
        l->scales[final][QSF_K_OUTPUT] = l->scales[embd][QSF_K_TOKEN_EMBD];
    }
    for (uint32_t i = 0; l->g->row->later_gemma && i < s->hp.n_layers; i++)
        if (!l->units[i][QSF_K_ATTN_V].t && qsf_layer_has_kv(&s->layers[i])) {
            l->units[i][QSF_K_ATTN_V] = l->units[i][QSF_K_ATTN_K];
            l->scales[i][QSF_K_ATTN_V] = l->scales[i][QSF_K_ATTN_K];
        }
}

static qsf_status put_tensor(gguf_layout *l, const gguf_tensor *t, qsf_error *err)
{
    const qsf_source *s = l->g->s;
    const qsf_role *role;
    gguf_text rest;
    bool found;
    qsf_status st;
    const int64_t layer = layer_of(t->name, &rest);
    if (is_aside(l->g, t->name) || t->is_scales) return QSF_OK;
    if (layer >= s->hp.n_layers && layer < (int64_t)s->hp.n_layers + l->g->n_nextn) return QSF_OK;
    const gguf_mtp_place mtp = qsf_gguf_mtp_place(l->g, t->name, layer, rest);
    if (mtp.kind) return put_whole(l, mtp.unit, qsf_role_of(mtp.kind), t, err);
    if (mtp.skipped) return QSF_OK;
    if (layer >= 0 && layer < s->hp.n_layers) {
        if (is_unused(&s->layers[layer], rest)) return QSF_OK;
        st = put_in_turn(l, (uint32_t)layer, rest, t, &found, err);
        if (found) return st;
        if ((role = find_alias(l->g, &s->layers[layer], rest)))
            return put_whole(l, (uint32_t)layer, role, t, err);
        for (size_t i = 0; i < QSF_ARRAY_LEN(fused_roles); i++)
            if (gguf_text_is(rest, fused_roles[i].name) && (fused_roles[i].n == 3 || fuses_gate(l->g)))
                return put_fused(l, (uint32_t)layer, &fused_roles[i], t, err);
        /* a name may be that of a matrix's scale, or of its experts', and of a vector */
        const bool each = gguf_text_is(rest, "ffn_down_exps.scale") && !s->layers[layer].experts_beside;
        const bool scale = has_one_value(t) || each;
        st = scale ? put_layer_scale(l, (uint32_t)layer, rest, t, &found, err) : QSF_OK;
        if (scale && found) return st;
        if ((role = find_role(true, rest))) return put_whole(l, (uint32_t)layer, role, t, err);
        st = put_layer_scale(l, (uint32_t)layer, rest, t, &found, err);
        if (found) return st;
    }
    st = put_for_layers(l, t, &found, err);
    if (!st && !found) st = put_streams(l, t, &found, err);
    if (found) return st;
    if (layer < 0 && ((role = find_alias(l->g, NULL, t->name)) || (role = find_role(false, t->name))))
        return put_whole(l, role->part == QSF_PART_EMBD ? qsf_unit_embd(s) : qsf_unit_final(s), role, t, err);
    if (layer < 0 && (role = find_scaled(false, t->name)))
        return put_scale(l, role->part == QSF_PART_EMBD ? qsf_unit_embd(s) : qsf_unit_final(s), role->kind, t,
                         err);
    return qsf_fail(err, QSF_E_UNSUPPORTED,
                    "%s: tensor \"%.*s\" is not part of architecture %s with %u layers as known to this "
                    "version", gguf_path_of(l->g, t), (int)QSF_MIN(t->name.len, 80), t->name.p, l->g->arch,
                    (unsigned)s->hp.n_layers);
}

uint32_t qsf_gguf_kinds(const qsf_source *model, gguf_text name, uint64_t rows, uint32_t *unit,
                        uint8_t kinds[3])
{
    qsf_source s = *model;
    const gguf g = { .s = &s, .arch = s.hp.arch, .row = qsf_arch_find(s.hp.arch) };
    gguf_text rest = name;
    const int64_t number = layer_of(name, &rest);
    if (number >= s.hp.n_layers) return 0;
    const qsf_layer *layer = number < 0 ? NULL : qsf_share_whole(model, (uint32_t)number);
    const qsf_role *role = find_alias(&g, layer, rest);
    *unit = (uint32_t)number;
    if (layer && layer->n_experts && gguf_text_is(rest, "ffn_gate_up_exps.weight")) {
        kinds[0] = QSF_K_EXPERT_GATE;
        kinds[1] = QSF_K_EXPERT_UP;
        return 2;
    }
    /* Shared experts have names of their own, unless they have norms as well. */
    const bool other = !role && layer && layer->n_experts && !layer->experts_beside;
    for (size_t i = 0; layer && !role && i < QSF_ARRAY_LEN(fused_roles); i++) {
        const gguf_fused *f = &fused_roles[i];
        uint64_t total = 0;
        if (!gguf_text_is(rest, f->name) || (f->n == 2 && layer->n_experts)) continue;
        for (int k = 0; k < f->n; k++)
            total += qsf_role_outputs(&s.hp, layer, qsf_role_of(f->kinds[k]));
        if (total != rows) continue;
        memcpy(kinds, f->kinds, f->n);
        return f->n;
    }
    if (!role && !(role = find_role(layer != NULL, rest))) return 0;
    if (!layer) *unit = role->part == QSF_PART_EMBD ? qsf_unit_embd(&s) : qsf_unit_final(&s);
    kinds[0] = role->kind;
    if (other && (role->kind == QSF_K_FFN_UP || role->kind == QSF_K_FFN_GATE || role->kind == QSF_K_FFN_DOWN))
        return 0;
    return role->use == QSF_USE_MATRIX;
}

/* ---- the whole file ---- */

static qsf_status read_tensors(gguf *g, qsf_error *err)
{
    qsf_source *s = g->s;
    gguf_layout l = { .g = g };
    qsf_status st;
    if (!g->n_tensors)
        return qsf_fail(err, QSF_E_CORRUPT, "%s: has a description and a vocabulary, but no weights",
                        s->path);
    if (s->hp.n_layers > g->n_tensors)          /* before anything of their number is allocated */
        return qsf_fail(err, QSF_E_CORRUPT, "%s: %u layers, but only %u tensors", s->path,
                        (unsigned)s->hp.n_layers, (unsigned)g->n_tensors);
    if ((st = qsf_gguf_rope_factors(g, err))) return st;
    if ((st = qsf_layers_fill(s, err)) || (st = qsf_gguf_layer_sizes(g, err)) ||
        (st = qsf_source_check_rows(s, err))) return st;
    s->n_units = qsf_units_of(s->hp.n_layers);
    if (!(l.units = qsf_arena_array(g->tmp, s->n_units, sizeof *l.units, "places of tensors", err)))
        return QSF_E_MEMORY;
    if (!(l.scales = qsf_arena_array(g->tmp, s->n_units, sizeof *l.scales, "places of scales", err)))
        return QSF_E_MEMORY;
    for (uint32_t i = 0; i < g->n_tensors; i++)
        if ((st = put_tensor(&l, &g->tensors[i], err))) return st;
    put_twice(&l);
    s->hp.tied = !l.units[qsf_unit_final(s)][QSF_K_OUTPUT].t;
    return qsf_gguf_fill_units(&l, err);
}

qsf_status qsf_gguf_open(qsf_source *s, qsf_error *err)
{
    gguf g = { .s = s };
    qsf_status st;
    if ((st = qsf_arena_new(s->platform, &g.tmp, err))) return st;
    if ((st = qsf_gguf_read_files(&g, err))) goto done;
    if ((st = qsf_gguf_hparams(&g, err))) goto done;
    if ((st = qsf_gguf_vocab(&g, err))) goto done;
    if ((st = qsf_gguf_vocab_size(&g, err)) || (st = qsf_gguf_eagle_words(&g, err))) goto done;
    if ((st = qsf_gguf_meta(&g, err))) goto done;
    if (!s->vocab_only) st = read_tensors(&g, err);
    s->opening = qsf_arena_used(s->arena) + qsf_arena_used(g.tmp);
    for (uint32_t i = 0; i < g.n_parts; i++) s->opening += g.parts[i].cap;
done:
    qsf_gguf_done(&g);
    return st;
}
