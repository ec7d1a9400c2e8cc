/* The units of a GGUF file: which bytes are read for each, and where its tensors lie in them.
 * SPDX-License-Identifier: MIT */
#include "model/gguf_units.h"
#include "tensor/ggml_tiles.h"
#include "tensor/stored.h"

/* Reads begin in the order of the file: a server, or a disk, then has to go one way only. */
static void sort_extents(qsf_extent *x, uint32_t n)
{
    for (uint32_t i = 1; i < n; i++)
        for (uint32_t j = i; j; j--) {
            if (x[j].file > x[j - 1].file || (x[j].file == x[j - 1].file && x[j].at > x[j - 1].at)) break;
            const qsf_extent t = x[j];
            x[j] = x[j - 1];
            x[j - 1] = t;
        }
}

static qsf_status missing(const gguf *g, uint32_t unit, const qsf_role *role, qsf_error *err)
{
    const qsf_source *s = g->s;
    const qsf_layer *layer = qsf_source_layer(s, unit);
    const char *name = g->row->eagle ? qsf_gguf_eagle_name(g, role->kind) : role->gguf;
    const bool apart = role->kind == QSF_K_FEATURES_NORM || (g->row->eagle && role->kind == QSF_K_MTP_PROJ);
    char where[32] = "";
    if (layer && !apart) qsf_format(where, sizeof where, "blk.%u.", (unsigned)unit);
    return qsf_fail(err, QSF_E_CORRUPT, "%s: tensor \"%s%s\" (%llu x %llu) is missing", s->path, where,
                    name, (unsigned long long)qsf_dim_size(&s->hp, layer, (qsf_dim)role->rows),
                    (unsigned long long)qsf_dim_size(&s->hp, layer, (qsf_dim)role->cols));
}

static void add_extent(qsf_source *s, qsf_unit *u, uint32_t file, uint64_t at, uint64_t len, uint64_t to)
{
    qsf_extent *x = u->n_extents ? &s->extents[s->n_extents - 1] : NULL;
    /* What follows the one before in the file just as it does in memory is read with it, the gap
     * between included. */
    if (x && x->file == file && at >= x->at + x->len && at - x->at == to - x->to) x->len = to - x->to + len;
    else {
        s->extents[s->n_extents++] = (qsf_extent){ file, at, len, to };
        u->n_extents++;
    }
    u->stored = u->raw = to + len;
    s->weight_bytes += len;
}

/* A matrix whose rows lie in pieces: in memory each kind of pieces is below the one before. */
static void add_pieces(qsf_source *s, qsf_unit *u, const gguf_place *p, uint64_t to)
{
    const gguf_pieces *of = p->pieces;
    uint64_t at = p->at;
    for (int i = 0; i < GGUF_PIECES; i++) {
        const uint64_t len = of->bytes[i];
        for (uint32_t k = 0; len && k < of->n; k++, to += len)
            add_extent(s, u, p->t->file, at + k * of->stride, len, to);
        at += len;
    }
}

/* Adds the unit's next tensor after *end, where the previous one ends as tiles. */
static void add_tensor(qsf_source *s, qsf_unit *u, uint32_t kind, const gguf_place *p, uint64_t *end)
{
    const uint64_t to = qsf_round_up(*end, 64);
    const bool scale = kind >= QSF_K_SCALE;
    const gguf_tensor *scales = scale ? NULL : p->t->scales;
    qsf_tensor *t = &s->tensors[s->n_tensors];
    *t = (qsf_tensor){ .kind = kind, .type = scale ? QSF_T_F32 : (uint8_t)p->t->type,
                       .packing = scale ? 0 : p->t->packing, .block = scale ? 1 : (uint16_t)p->t->block,
                       .rows = p->rows, .cols = p->cols, .bytes = p->bytes };
    if (t->packing) qsf_stored_place(t);
    if (p->pieces) add_pieces(s, u, p, to);
    else add_extent(s, u, p->t->file, p->at, p->bytes, to + (t->packing ? qsf_stored_codes_at(t) : 0));
    if (scales && scales->bytes > sizeof(float))
        add_extent(s, u, scales->file, scales->at, scales->bytes, to + qsf_stored_scales_at(t));
    s->places[s->n_tensors++] = to;
    u->n_tensors++;
    *end = to + QSF_MAX(qsf_ggml_tiled_bytes(t), t->bytes);
    if (!scale) s->n_params += (uint64_t)p->rows * p->cols;
}

/* The scale of a matrix of bitnet.cpp's types, which is in it or in a tensor of its own. */
static gguf_place own_scale(const gguf_tensor *t)
{
    gguf_place p = { .t = NULL, .rows = 1, .cols = 1, .bytes = sizeof(float) };
    if (t->scale_in) {
        p.t = t;
        p.at = t->at + t->scale_in;
    } else if (t->scales && t->scales->bytes <= sizeof(float)) {
        p.t = t->scales;
        p.at = t->scales->at;
    }
    return p;
}

static uint32_t first_of_experts(const qsf_layer *layer)
{
    return layer->experts_plain ? QSF_K_EXPERT_UP : QSF_K_EXPERT_GATE;
}

/* Whether a layer's experts can be read alone: each is some whole rows, all in one place. */
static bool experts_apart(const gguf_layout *l, uint32_t unit)
{
    const qsf_layer *layer = qsf_source_layer(l->g->s, unit);
    if (!layer || !layer->n_experts) return false;
    for (uint32_t kind = first_of_experts(layer); kind <= QSF_K_EXPERT_DOWN; kind++) {
        const gguf_place *p = &l->units[unit][kind];
        if (!p->t || p->t->packing || p->t->scales || p->t->scale_in) return false;
        if (p->rows % layer->n_experts || p->bytes % p->rows || p->rows / layer->n_experts < 2) return false;
    }
    return true;
}

/* A part's tensors that are there become the unit's, in the order of the table of roles. */
static qsf_status fill_unit(const gguf_layout *l, uint32_t unit, qsf_part part, qsf_error *err)
{
    qsf_source *s = l->g->s;
    qsf_unit *u = &s->units[unit];
    const bool apart = experts_apart(l, unit);
    uint64_t end = 0;       /* of the last tensor as tiles */
    *u = (qsf_unit){ .importance = 1, .first_extent = s->n_extents, .first_tensor = s->n_tensors };
    for (size_t i = 0; i < QSF_N_ROLES; i++) {
        const qsf_role *role = &qsf_roles[i];
        const gguf_place *p = &l->units[unit][role->kind];
        gguf_place scale = l->scales[unit][role->kind];
        if (role->part != part) continue;
        if (!p->t && (scale.t || qsf_arch_needs(l->g->row, &s->hp, qsf_source_layer(s, unit), role)))
            return missing(l->g, unit, role, err);
        if (!p->t) continue;
        if (!apart || !qsf_kind_is_experts(role->kind)) add_tensor(s, u, role->kind, p, &end);
        if (!scale.t) scale = own_scale(p->t);
        if (scale.t) add_tensor(s, u, QSF_K_SCALE + role->kind, &scale, &end);
    }
    const qsf_layer *layer = qsf_source_layer(s, unit);
    for (uint32_t kind = apart ? first_of_experts(layer) : QSF_N_KINDS; kind <= QSF_K_EXPERT_DOWN; kind++) {
        add_tensor(s, u, kind, &l->units[unit][kind], &end);
        u->n_expert_tensors++;
    }
    sort_extents(s->extents + u->first_extent, u->n_extents);
    return QSF_OK;
}

/* Of matrices in pieces, each of which is read by itself. */
static uint64_t extents_of_pieces(const gguf_layout *l)
{
    uint64_t n = 0;
    for (uint32_t unit = 0; unit < l->g->s->hp.n_layers; unit++)
        for (uint32_t kind = 0; kind < QSF_N_KINDS; kind++) {
            const gguf_pieces *of = l->units[unit][kind].pieces;
            if (of) n += GGUF_PIECES * (uint64_t)of->n;
        }
    return n;
}

qsf_status qsf_gguf_fill_units(const gguf_layout *l, qsf_error *err)
{
    qsf_source *s = l->g->s;
    const uint64_t room = (uint64_t)s->n_units * QSF_N_ROLES * 3;      /* a tensor and its scales */
    const uint64_t pieces = extents_of_pieces(l);
    qsf_status st = QSF_OK;
    if (!(s->units = qsf_arena_array(s->arena, s->n_units, sizeof *s->units, "units", err)))
        return QSF_E_MEMORY;
    if (!(s->extents = qsf_arena_array(s->arena, room + pieces, sizeof *s->extents, "extents", err)))
        return QSF_E_MEMORY;
    if (!(s->tensors = qsf_arena_array(s->arena, room, sizeof *s->tensors, "tensors", err)))
        return QSF_E_MEMORY;
    if (!(s->places = qsf_arena_array(s->arena, room, sizeof *s->places, "tensors", err)))
        return QSF_E_MEMORY;
    for (uint32_t i = 0; i < s->hp.n_layers && !st; i++) st = fill_unit(l, i, QSF_PART_LAYER, err);
    if (!st) st = fill_unit(l, qsf_unit_embd(s), QSF_PART_EMBD, err);
    if (!st) st = fill_unit(l, qsf_unit_final(s), QSF_PART_FINAL, err);
    return st;
}
