/* Cuts the layers of an open file.
 * SPDX-License-Identifier: MIT
 *
 * Queries, keys, values, gate and up are cut between rows, attn_output and ffn_down between
 * columns: what a share makes of a row is then a part of the sum that the whole makes (Shoeybi et
 * al. 2019, arXiv:1909.08053).  Cuts of columns lie between blocks of weights and between blocks
 * of 64 activations, so that all codes are those of the whole. */
#include "model/share.h"
#include "model/roles.h"

#include "base/arena.h"
#include "tensor/ggml_tiles.h"
#include "tensor/trellis.h"

#if !defined(QSF_NO_SHARES)

enum { SHARE_BLOCK = 64 };          /* columns of activations that share a scale */

/* Which share of how many. */
typedef struct share_ask { uint32_t i, n; const uint32_t *sizes; } share_ask;

/* What a share has of a layer. */
typedef struct share_cut { qsf_range heads, kv, ff; } share_cut;

struct qsf_shared { qsf_layer whole; share_cut cut; };

/* ---- what cannot be cut ---- */

static bool share_has(const qsf_source *s, uint32_t layer, uint32_t kind)
{
    return qsf_unit_find(s, layer, kind) >= 0;
}

/* What a layer has that looks at all heads or all columns together; NULL: nothing. */
static const char *share_needs_whole(const qsf_source *s, uint32_t layer)
{
    const qsf_layer *l = &s->layers[layer];
    const bool norms = share_has(s, layer, QSF_K_Q_NORM) || share_has(s, layer, QSF_K_K_NORM);
    if (l->mixer != QSF_MIXER_ATTENTION) return "a mixer other than attention";
    if (l->feed_forward == QSF_FEED_FORWARD_EXPERTS) return "experts";
    if (l->feed_forward == QSF_FEED_FORWARD_NONE) return "no feed-forward";
    if (l->kv_latent) return "latent attention";
    if (l->attn_gate) return "gated attention";
    if (l->alibi > 0) return "ALiBi";
    if (l->both_ways) return "attention in both directions";
    if (l->altup || l->n_embd_layer || l->kv_from || l->kv_read) return "what Gemma 3n has";
    if (l->sparse > 0) return "a sparse gate";
    if (l->qk_norm == QSF_QK_ALL && norms) return "a norm of all heads together";
    if (share_has(s, layer, QSF_K_ATTN_SUB_NORM) || share_has(s, layer, QSF_K_FFN_SUB_NORM))
        return "a norm inside of its parts";
    return NULL;
}

/* Of a unit's bytes only some are read. */
static qsf_status share_can_read(const qsf_source *s, uint32_t layer, qsf_error *err)
{
    const qsf_unit *u = &s->units[layer];
    if (u->compression != QSF_COMPRESS_NONE || u->rest)
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: layer %u is %s: a share of it cannot be read; convert "
                        "the file without that", s->path, (unsigned)layer,
                        u->rest ? "progressive" : "compressed");
    for (uint32_t i = u->first_tensor; i < u->first_tensor + u->n_tensors; i++) {
        const qsf_tensor *t = &s->tensors[i];
        const bool outliers = t->kind >= QSF_K_OUTLIERS && t->kind < QSF_K_SCALE;
        if (outliers || t->packing > 1)
            return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: %s of layer %u cannot be cut: %s", s->path,
                            qsf_kind_name(t->kind), (unsigned)layer,
                            outliers ? "outliers belong to whole rows" : "its layout has no rows");
    }
    return QSF_OK;
}

static qsf_status share_can(const qsf_source *s, uint32_t layer, qsf_error *err)
{
    const char *why = share_needs_whole(s, layer);
    if (!why) return share_can_read(s, layer, err);
    return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: layers of %s cannot be cut into shares: layer %u has %s; "
                    "use ranges of layers instead", s->path, s->hp.arch, (unsigned)layer, why);
}

/* ---- where to cut ---- */

/* Rows, or columns, between whose multiples a layer's matrix can be cut; 0: nowhere. */
static uint32_t share_step(const qsf_source *s, uint32_t layer, uint32_t kind, bool columns)
{
    const int i = qsf_unit_find(s, layer, kind);
    if (i < 0) return 1;
    const qsf_tensor *t = &s->tensors[s->units[layer].first_tensor + (uint32_t)i];
    if (!columns) return t->packing == 1 ? QSF_TILE_ROWS : 1;
    if (qsf_trellis_bits(t->type)) return 0;    /* a row's codes depend on those before */
    return t->block > 1 ? QSF_MAX(t->block, SHARE_BLOCK) : 1;
}

/* Heads between which some cuts are possible: their columns have these steps. */
typedef struct share_places {
    uint32_t group;                 /* heads that share keys and values; 0: every place can be cut at */
    bool     within;                /* a group may be cut, too */
    uint32_t head_dim, value_dim, q_step, kv_step, out_step;
} share_places;

static bool share_possible(const share_places *x, uint64_t at)
{
    if (!x->group) return true;
    if (at * x->head_dim % x->q_step || at * x->value_dim % x->out_step) return false;
    if (at % x->group) return x->within;
    return !(at / x->group * x->head_dim % x->kv_step) && !(at / x->group * x->value_dim % x->kv_step);
}

/* Part ask->i of `all` in ask->n parts of about their sizes; false: there are too few places. */
static bool share_deal(const share_places *x, qsf_range all, const share_ask *ask, qsf_range *mine)
{
    uint64_t total = 0, sum = 0;
    uint32_t left = 0;              /* possible cuts after the last cut */
    for (uint32_t k = 0; k < ask->n; k++) total += ask->sizes ? ask->sizes[k] : 1;
    for (size_t at = all.begin + 1; at < all.end; at++) left += share_possible(x, at);
    *mine = (qsf_range){ all.begin, all.end };
    for (uint32_t k = 0; k <= ask->i && k + 1 < ask->n; k++) {
        const uint32_t needed = ask->n - 2 - k;
        sum += ask->sizes ? ask->sizes[k] : 1;
        const double wish = (double)all.begin + (double)(all.end - all.begin) * (double)sum / (double)total;
        size_t best = 0;
        uint32_t behind = left;
        for (size_t at = mine->begin + 1; at < all.end && behind > needed; at++) {
            if (!share_possible(x, at)) continue;
            behind--;
            if (best && fabs((double)at - wish) >= fabs((double)best - wish)) continue;
            best = at;
            left = behind;
        }
        if (!best) return false;
        if (k == ask->i) mine->end = best;
        else mine->begin = best;
    }
    return true;
}

/* Whole groups; or, if there are fewer of them than shares, heads of one group, whose keys and
 * values several shares then have. */
static bool share_heads(const qsf_source *s, uint32_t layer, const share_ask *ask, share_cut *cut)
{
    const qsf_layer *l = &s->layers[layer];
    const uint32_t group = l->n_heads / l->n_kv_heads;
    share_places x = { .group = group, .within = l->n_kv_heads < ask->n,
                       .head_dim = l->head_dim, .value_dim = l->value_dim,
                       .q_step = share_step(s, layer, QSF_K_ATTN_Q, false),
                       .kv_step = QSF_MAX(share_step(s, layer, QSF_K_ATTN_K, false),
                                          share_step(s, layer, QSF_K_ATTN_V, false)),
                       .out_step = share_step(s, layer, QSF_K_ATTN_OUT, true) };
    share_ask part = *ask;
    qsf_range all = { 0, l->n_heads };
    if (!x.out_step) return false;
    if (x.within) {                 /* of the shares, those of one group */
        const uint32_t g = (uint32_t)((uint64_t)ask->i * l->n_kv_heads / ask->n);
        const uint32_t first = (uint32_t)qsf_ceil_div((uint64_t)g * ask->n, l->n_kv_heads);
        part.n = (uint32_t)qsf_ceil_div((uint64_t)(g + 1) * ask->n, l->n_kv_heads) - first;
        part.i -= first;
        if (part.sizes) part.sizes += first;
        all = (qsf_range){ (size_t)g * group, (size_t)(g + 1) * group };
        if (!share_possible(&x, all.begin) || !share_possible(&x, all.end)) return false;
    }
    if (!share_deal(&x, all, &part, &cut->heads)) return false;
    cut->kv = (qsf_range){ cut->heads.begin / group, (cut->heads.end + group - 1) / group };
    return true;
}

static bool share_columns(const qsf_source *s, uint32_t layer, const share_ask *ask, share_cut *cut)
{
    const uint32_t n_ff = s->layers[layer].n_ff, step = share_step(s, layer, QSF_K_FFN_DOWN, true);
    const uint32_t each = QSF_MAX(step, QSF_TILE_ROWS), n = (uint32_t)qsf_ceil_div(n_ff, each);
    const share_places x = { .group = 0 };
    if (!step || !share_deal(&x, (qsf_range){ 0, n }, ask, &cut->ff)) return false;
    cut->ff = (qsf_range){ cut->ff.begin * each, QSF_MIN(cut->ff.end * each, n_ff) };
    return cut->ff.end - cut->ff.begin > 1;     /* a matrix of one row cannot be told from a vector */
}

static qsf_status share_cut_layer(const qsf_source *s, uint32_t layer, const share_ask *ask, share_cut *cut,
                                  qsf_error *err)
{
    const qsf_layer *l = &s->layers[layer];
    const bool heads = share_heads(s, layer, ask, cut);
    if (heads && share_columns(s, layer, ask, cut)) return QSF_OK;
    const uint32_t kind = heads ? QSF_K_FFN_DOWN : QSF_K_ATTN_OUT, step = share_step(s, layer, kind, true);
    if (!step)
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: %s of layer %u cannot be cut: a code of its type "
                        "depends on those before; convert with another type for it", s->path,
                        qsf_kind_name(kind), (unsigned)layer);
    return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: layer %u cannot be cut into %u shares: %u heads of %u "
                    "columns, %u of keys and values, and %u columns of its feed-forward, where %s can be cut "
                    "at multiples of %u columns; take fewer shares", s->path, (unsigned)layer,
                    (unsigned)ask->n, (unsigned)l->n_heads, (unsigned)l->head_dim, (unsigned)l->n_kv_heads,
                    (unsigned)l->n_ff, qsf_kind_name(kind), (unsigned)step);
}

/* ---- units of shares ---- */

/* A unit on its way; extents NULL: they are only counted. */
typedef struct share_unit {
    const qsf_source *s;
    const qsf_unit *from;
    qsf_extent *extents;
    uint64_t    n_extents;
    struct qsf_shared *shared;
    uint64_t    end;                /* of the last tensor as tiles */
    uint64_t    stored;
} share_unit;

/* Bytes [at, at + len) of the unit go to `to`. */
static void share_piece(share_unit *x, uint64_t at, uint64_t len, uint64_t to)
{
    for (uint32_t i = 0; i < x->from->n_extents; i++) {
        const qsf_extent *e = &x->s->extents[x->from->first_extent + i];
        const uint64_t begin = QSF_MAX(e->to, at), end = QSF_MIN(e->to + e->len, at + len);
        if (begin >= end) continue;
        if (x->extents)
            x->extents[x->n_extents] = (qsf_extent){ e->file, e->at + (begin - e->to), end - begin,
                                                     to + (begin - at) };
        x->n_extents++;
    }
    x->stored = QSF_MAX(x->stored, to + len);
}

/* These rows and columns of *t, which is at `place` of the unit, and becomes what they are. */
static qsf_status share_tensor(share_unit *x, qsf_tensor *t, uint64_t *place, qsf_range rows, qsf_range cols,
                               qsf_error *err)
{
    const uint64_t at = *place, to = qsf_round_up(x->end, 64), lines = t->packing == 1 ? QSF_TILE_ROWS : 1;
    const uint64_t each = lines * qsf_block_bytes(t->type, t->block);
    const uint64_t across = qsf_ceil_div(t->cols, t->block);
    const uint64_t first = cols.begin / t->block, n = qsf_ceil_div(cols.end, t->block) - first;
    const uint64_t line = rows.begin / lines, n_lines = qsf_ceil_div(rows.end, lines) - line;
    if (rows.begin % lines || (rows.end % lines && rows.end != t->rows) || cols.begin % t->block ||
        (cols.end % t->block && cols.end != t->cols))
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: %s cannot be cut at row %llu or column %llu: take "
                        "another number of shares", x->s->path, qsf_kind_name(t->kind),
                        (unsigned long long)rows.begin, (unsigned long long)cols.begin);
    t->rows = (uint32_t)(rows.end - rows.begin);
    t->cols = (uint32_t)(cols.end - cols.begin);
    const qsf_status st = qsf_tensor_bytes(t->type, t->packing, t->block, t->rows, t->cols, &t->bytes, err);
    if (st) return st;
    assert(t->bytes == n_lines * n * each);
    if (n == across) share_piece(x, at + line * across * each, t->bytes, to);
    for (uint64_t i = 0; n < across && i < n_lines; i++)
        share_piece(x, at + ((line + i) * across + first) * each, n * each, to + i * n * each);
    *place = to;
    x->end = to + QSF_MAX(qsf_ggml_tiled_bytes(t), t->bytes);
    return QSF_OK;
}

static qsf_range share_times(qsf_range r, uint64_t n)
{
    return (qsf_range){ r.begin * (size_t)n, r.end * (size_t)n };
}

/* The share's part of a size. */
static qsf_range share_of_dim(const qsf_hparams *hp, const qsf_layer *l, const share_cut *cut, qsf_dim dim)
{
    const uint64_t all = qsf_dim_size(hp, l, dim);
    const bool each = l->qk_norm == QSF_QK_EACH;
    switch (dim) {
    case QSF_DIM_Q: case QSF_DIM_SUMS: case QSF_DIM_HEADS: return share_times(cut->heads, all / l->n_heads);
    case QSF_DIM_KV: case QSF_DIM_V: return share_times(cut->kv, all / l->n_kv_heads);
    case QSF_DIM_FF: return cut->ff;
    case QSF_DIM_Q_NORM: if (each) return share_times(cut->heads, all / l->n_heads); break;
    case QSF_DIM_K_NORM: if (each) return share_times(cut->kv, all / l->n_kv_heads); break;
    default: break;
    }
    return (qsf_range){ 0, (size_t)all };
}

/* Whether it is added to what all shares make together: then only one of them has it. */
static bool share_is_once(uint32_t kind)
{
    return kind == QSF_K_ATTN_OUT_BIAS || kind == QSF_K_FFN_DOWN_BIAS;
}

/* A layer's tensors and pieces; with extents its unit and its record become those of the share. */
static qsf_status share_layer(qsf_source *s, uint32_t layer, const share_ask *ask, share_unit *x,
                              qsf_error *err)
{
    share_cut cut;
    qsf_layer *l = &s->layers[layer];
    qsf_unit u = s->units[layer];
    const uint32_t end = u.first_tensor + u.n_tensors;
    qsf_status st = share_cut_layer(s, layer, ask, &cut, err);
    const uint64_t first = x->n_extents;
    x->from = &s->units[layer];
    x->end = x->stored = u.n_tensors = 0;
    for (uint32_t i = u.first_tensor; i < end && !st; i++) {
        qsf_tensor t = s->tensors[i];
        uint64_t place = s->places[i];
        const bool scale = t.kind >= QSF_K_SCALE;
        const qsf_role *role = qsf_role_of(t.kind);
        if (ask->i && share_is_once(t.kind)) continue;
        assert(scale || role);
        const qsf_range one = { 0, 1 };
        st = share_tensor(x, &t, &place, scale ? one : share_of_dim(&s->hp, l, &cut, (qsf_dim)role->rows),
                          scale ? one : share_of_dim(&s->hp, l, &cut, (qsf_dim)role->cols), err);
        if (!x->extents || st) continue;
        s->tensors[u.first_tensor + u.n_tensors] = t;
        s->places[u.first_tensor + u.n_tensors++] = place;
    }
    if (!x->extents || st) return st;
    u.first_extent = (uint32_t)first;
    u.n_extents = (uint32_t)(x->n_extents - first);
    u.stored = u.raw = u.payload = x->stored;
    u.has_crc = false;              /* files have those of whole layers */
    s->units[layer] = u;
    x->shared[layer] = (struct qsf_shared){ *l, cut };
    l->n_heads = (uint32_t)(cut.heads.end - cut.heads.begin);
    l->n_kv_heads = (uint32_t)(cut.kv.end - cut.kv.begin);
    l->n_ff = (uint32_t)(cut.ff.end - cut.ff.begin);
    return QSF_OK;
}

/* The pieces of all layers, then those of the other units, which stay whole. */
static qsf_status share_units(qsf_source *s, const share_ask *ask, share_unit *x, qsf_error *err)
{
    for (uint32_t i = 0; i < s->hp.n_layers; i++) {
        const qsf_status st = share_layer(s, i, ask, x, err);
        if (st) return st;
    }
    for (uint32_t i = s->hp.n_layers; i < s->n_units; i++) {
        qsf_unit *u = &s->units[i];
        const qsf_extent *from = s->extents + u->first_extent;
        for (uint32_t k = 0; x->extents && k < u->n_extents; k++) x->extents[x->n_extents + k] = from[k];
        if (x->extents) u->first_extent = (uint32_t)x->n_extents;
        x->n_extents += u->n_extents;
    }
    return QSF_OK;
}

static qsf_status share_check(const qsf_source *s, const share_ask *ask, qsf_error *err)
{
    if (ask->n > QSF_MOST_SHARES || ask->i >= ask->n)
        return qsf_fail(err, QSF_E_ARGUMENT, "%s: share %u of %u; shares count from 0, and there are at most "
                        "%d", s->path, (unsigned)ask->i, (unsigned)ask->n, (int)QSF_MOST_SHARES);
    for (uint32_t k = 0; ask->sizes && k < ask->n; k++)
        if (!ask->sizes[k])
            return qsf_fail(err, QSF_E_ARGUMENT, "%s: share %u has the size 0", s->path, (unsigned)k);
    if (s->n_before || s->n_after)
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: a range of layers cannot be cut into shares besides",
                        s->path);
    return QSF_OK;
}

qsf_status qsf_share_set(qsf_source *s, uint32_t i, uint32_t n, const uint32_t *sizes, qsf_error *err)
{
    const share_ask ask = { i, n, sizes };
    share_unit x = { .s = s };
    if (n < 2 && !i) return QSF_OK;
    qsf_status st = share_check(s, &ask, err);
    if (st || s->n_units == 0) return st;
    for (uint32_t k = 0; k < s->hp.n_layers; k++)
        if ((st = share_can(s, k, err))) return st;
    if ((st = share_units(s, &ask, &x, err))) return st;
    if (x.n_extents > INT32_MAX)
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: a share would be read in %llu pieces", s->path,
                        (unsigned long long)x.n_extents);
    qsf_extent *extents = qsf_arena_array(s->arena, (size_t)x.n_extents, sizeof *extents, "extents", err);
    struct qsf_shared *shared = qsf_arena_array(s->arena, s->hp.n_layers, sizeof *shared, "shares", err);
    if (!extents || !shared) return QSF_E_MEMORY;
    x = (share_unit){ .s = s, .extents = extents, .shared = shared };
    if ((st = share_units(s, &ask, &x, err))) return st;
    s->shared = shared;
    s->extents = extents;
    s->n_extents = (uint32_t)x.n_extents;
    s->weight_bytes = 0;
    for (uint32_t k = 0; k < s->n_extents; k++) s->weight_bytes += extents[k].len;
    s->most = qsf_layers_most(s->layers, s->hp.n_layers);
    s->share = i;
    s->n_shares = n;
    return QSF_OK;
}

const qsf_layer *qsf_share_whole(const qsf_source *s, uint32_t unit)
{
    const qsf_layer *l = qsf_source_layer(s, unit);
    return l && s->shared ? &s->shared[unit].whole : l;
}

void qsf_share_matrix(const qsf_source *s, uint32_t layer, uint32_t kind, qsf_range *rows, qsf_range *cols)
{
    const struct qsf_shared *of = &s->shared[layer];
    const qsf_role *role = qsf_role_of(kind);
    *rows = share_of_dim(&s->hp, &of->whole, &of->cut, (qsf_dim)role->rows);
    *cols = share_of_dim(&s->hp, &of->whole, &of->cut, (qsf_dim)role->cols);
}
#endif
