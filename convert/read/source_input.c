/* What the converter reads, out of a GGUF or QSF file: the model source's tensors, a few rows at a
 * time.
 * SPDX-License-Identifier: MIT */
#include "read/source_input.h"
#include "model/roles.h"
#include "model/source_read.h"

#include <stdatomic.h>

/* A tensor of this input and its place in the source; sparse: its
 * outliers (QSF_T_SPARSE's bytes), n of them, or NULL; scale: of the tensor, 1: none; or
 * scales[n_scales] of as many parts. */
typedef struct input_place {
    uint32_t unit, tensor;
    const uint8_t *sparse;
    uint32_t n;
    float scale;
    const float *scales;
    uint32_t n_scales;
} input_place;

typedef struct input_source {
    qsf_source  *src;
    input_place *places;        /* [n_tensors] */
    /* If rows cannot be read one by one (a compressed unit), the whole tensor used last is kept.
     * Reads come from several threads: the lock covers loading and copying out. */
    atomic_flag  lock;
    uint32_t     kept;          /* tensor of the source, UINT32_MAX: none */
    void        *data;
} input_source;

/* ---- reading ---- */

static void input_lock(input_source *own)
{
    while (atomic_flag_test_and_set_explicit(&own->lock, memory_order_acquire)) {}
}
static void input_unlock(input_source *own) { atomic_flag_clear_explicit(&own->lock, memory_order_release); }

/* Reads bytes [at, at+len) of a unit's stored bytes, which may span several extents. */
static qsf_status input_read_stored(const qsf_source *s, const qsf_unit *u, uint64_t at, uint8_t *dst,
                                    uint64_t len, qsf_error *err)
{
    for (uint32_t i = 0; i < u->n_extents && len > 0; i++) {
        const qsf_extent *x = &s->extents[u->first_extent + i];
        if (at < x->to || at >= x->to + x->len) continue;
        const uint64_t n = QSF_MIN(len, x->to + x->len - at);
        const qsf_status st =
            qsf_source_read(s, x->file, x->at + (at - x->to), dst, n, "weights", err);
        if (st) return st;
        at += n;
        dst += n;
        len -= n;
        i = UINT32_MAX;         /* the rest may be in an earlier extent */
    }
    return len ? qsf_fail(err, QSF_E_CORRUPT, "%s: a tensor lies outside its unit's extents", s->path)
               : QSF_OK;
}

/* Rows that can be read on their own: [*first, *first + *count) hold the
 * asked ones (tiles come 16 rows at a time). */
static qsf_status input_row_bytes(const qsf_tensor *t, uint32_t row, uint32_t n, qsf_tensor *part,
                                  uint64_t *at, uint32_t *skip, qsf_error *err)
{
    const uint32_t unit = t->packing ? QSF_TILE_ROWS : 1;
    const uint32_t first = row / unit * unit,
                   last = QSF_MIN(t->rows, (uint32_t)qsf_round_up((uint64_t)row + n, unit));
    qsf_status st;
    *part = *t;
    part->data = NULL;
    part->rows = unit;
    if ((st = qsf_tensor_bytes(t->type, t->packing, t->block, unit, t->cols, at, err))) return st;
    *at *= first / unit;
    part->rows = last - first;
    *skip = row - first;
    return qsf_tensor_bytes(t->type, t->packing, t->block, part->rows, t->cols, &part->bytes, err);
}

static qsf_status input_read_rows(input *in, const qsf_source *s, const input_place *pl, uint32_t row,
                                  uint32_t n, float *out, qsf_error *err)
{
    const qsf_tensor *t = &s->tensors[pl->tensor];
    qsf_tensor part;
    uint64_t at;
    uint32_t skip;
    qsf_status st = input_row_bytes(t, row, n, &part, &at, &skip, err);
    if (st) return st;
    uint8_t *bytes = qsf_alloc(in->platform, part.bytes, "rows of the input", err);
    if (!bytes) return QSF_E_MEMORY;
    st = input_read_stored(s, &s->units[pl->unit], s->places[pl->tensor] + at, bytes, part.bytes, err);
    if (st == QSF_OK) {
        part.data = bytes;
        qsf_dequant_rows(&part, skip, n, out);
    }
    qsf_dealloc(in->platform, bytes, part.bytes);
    return st;
}

static qsf_status input_read_kept(input_source *own, const input_place *pl, uint32_t row, uint32_t n,
                                  float *out, qsf_error *err)
{
    const qsf_source *s = own->src;
    qsf_status st = QSF_OK;
    input_lock(own);
    if (own->kept != pl->tensor) {
        if (own->kept != UINT32_MAX) qsf_dealloc(s->platform, own->data, s->tensors[own->kept].bytes);
        own->kept = UINT32_MAX;
        own->data = NULL;
        if ((st = qsf_source_load(s, pl->unit, pl->tensor - s->units[pl->unit].first_tensor, &own->data,
                                  err)) == QSF_OK)
            own->kept = pl->tensor;
    }
    if (st == QSF_OK) {
        qsf_tensor t = s->tensors[pl->tensor];
        t.data = own->data;
        qsf_dequant_rows(&t, row, n, out);
    }
    input_unlock(own);
    return st;
}

static void input_add_outliers(const input_place *pl, const qsf_tensor *t, uint32_t row, uint32_t n,
                               float *out)
{
    const uint8_t *cols = pl->sparse + 4 * ((size_t)t->rows + 1), *deltas = cols + 4 * (size_t)pl->n;
    for (uint32_t r = 0; r < n; r++) {
        const uint32_t end = qsf_le32(pl->sparse + 4 * (size_t)(row + r + 1));
        for (uint32_t k = qsf_le32(pl->sparse + 4 * (size_t)(row + r)); k < end; k++)
            out[(size_t)r * t->cols + qsf_le32(cols + 4 * (size_t)k)] +=
                qsf_f16_to_f32(qsf_le16(deltas + 2 * (size_t)k));
    }
}

static qsf_status input_add_centroids(const qsf_source *s, uint32_t row, uint32_t n, float *out,
                                      qsf_error *err)
{
    const qsf_embd_clusters *k = s->embd_clusters;
    const uint32_t cols = k->centroids.cols;
    float *mean = qsf_alloc_array(s->platform, cols, sizeof *mean, "a centroid", err);
    if (!mean) return QSF_E_MEMORY;
    for (uint32_t r = 0; r < n; r++) {
        qsf_dequant_rows(&k->centroids, k->of[row + r], 1, mean);
        for (uint32_t j = 0; j < cols; j++) out[(size_t)r * cols + j] += mean[j];
    }
    qsf_dealloc(s->platform, mean, cols * sizeof *mean);
    return QSF_OK;
}

static qsf_status input_source_read(input *in, uint32_t i, uint32_t row, uint32_t n, float *out,
                                    qsf_error *err)
{
    input_source *own = in->own;
    const input_place *pl = &own->places[i];
    const qsf_tensor *t = &own->src->tensors[pl->tensor];
    if (row > t->rows || n > t->rows - row)
        return qsf_fail(err, QSF_E_ARGUMENT, "%s: rows out of range", in->tensors[i].name);
    const bool whole = own->src->units[pl->unit].compression != QSF_COMPRESS_NONE || t->packing > 1;
    const qsf_status st = whole ? input_read_kept(own, pl, row, n, out, err)
                                 : input_read_rows(in, own->src, pl, row, n, out, err);
    for (size_t k = 0; st == QSF_OK && pl->scale != 1 && k < (size_t)n * t->cols; k++) out[k] *= pl->scale;
    for (size_t k = 0; st == QSF_OK && pl->scales && k < (size_t)n * t->cols; k++)
        out[k] *= pl->scales[(row + k / t->cols) / (t->rows / pl->n_scales)];
    if (st == QSF_OK && pl->sparse) input_add_outliers(pl, t, row, n, out);
    if (st == QSF_OK && t->kind == QSF_K_TOKEN_EMBD && own->src->embd_clusters)
        return input_add_centroids(own->src, row, n, out, err);
    return st;
}

static qsf_status input_source_stored(input *in, uint32_t i, bool load, input_stored *out, qsf_error *err)
{
    const input_source *own = in->own;
    const input_place *pl = &own->places[i];
    const qsf_source *s = own->src;
    const qsf_tensor *t = &s->tensors[pl->tensor];
    *out = (input_stored){ 0 };
    if (pl->scale != 1 || pl->scales || t->packing > 1) return QSF_OK;
    if (t->kind == QSF_K_TOKEN_EMBD && s->embd_clusters) return QSF_OK;
    *out = (input_stored){ .type = t->type, .packing = t->packing, .block = t->block, .bytes = t->bytes,
                           .sparse = pl->sparse, .n_outliers = pl->n };
    if (pl->sparse) {
        const qsf_status st = qsf_tensor_bytes(QSF_T_SPARSE, 0, 1, t->rows, pl->n, &out->sparse_bytes, err);
        if (st) return st;
    }
    return load ? qsf_source_load(s, pl->unit, pl->tensor - s->units[pl->unit].first_tensor, &out->data, err)
                : QSF_OK;
}

/* ---- opening ---- */

/* Rows are read on their own, which no checksum covers: what has one is read through once, before.
 *  A compressed unit is checked when it is unpacked. */
static qsf_status input_check_unit(const qsf_source *s, uint32_t unit, uint8_t *buffer, size_t cap,
                                   qsf_error *err)
{
    const qsf_unit *u = &s->units[unit];
    uint32_t crc = 0;
    if (!u->has_crc || u->compression != QSF_COMPRESS_NONE) return QSF_OK;
    for (uint64_t at = 0; at < u->stored; at += cap) {
        const uint64_t n = QSF_MIN((uint64_t)cap, u->stored - at);
        const qsf_status st = input_read_stored(s, u, at, buffer, n, err);
        if (st) return st;
        crc = qsf_crc32(crc, buffer, (size_t)n);
    }
    if (crc == u->crc) return QSF_OK;
    return qsf_fail(
        err, QSF_E_CORRUPT,
        "%s: the bytes of unit %u are damaged (its checksum is %08x, not %08x); get the file again", s->path,
        (unsigned)unit, (unsigned)crc, (unsigned)u->crc);
}

static qsf_status input_check(const qsf_source *s, qsf_error *err)
{
    enum { PIECE = 1 << 20 };
    qsf_status st = QSF_OK;
    uint8_t *buffer = qsf_alloc(s->platform, PIECE, "a piece of the input", err);
    if (!buffer) return QSF_E_MEMORY;
    for (uint32_t i = 0; st == QSF_OK && i < s->n_units; i++) st = input_check_unit(s, i, buffer, PIECE, err);
    qsf_dealloc(s->platform, buffer, PIECE);
    return st;
}

/* A QSF file has one number for the size of all layers. */
static qsf_status input_check_layers(const qsf_source *s, qsf_error *err)
{
    const uint32_t apart = qsf_layer_apart(&s->hp, s->layers, s->hp.n_layers);
    if (s->hp.eagle)
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s is an EAGLE 3 head, which drafts for another model: "
                        "use it unconverted (--draft-model)", s->path);
    if (apart == s->hp.n_layers) return QSF_OK;
    return qsf_fail(err, QSF_E_UNSUPPORTED,
                    "%s: layer %u has other sizes than others, which a QSF file cannot express; run the file "
                    "unconverted", s->path, (unsigned)apart);
}

static bool input_source_reads(input *in, const char *path)
{
    const qsf_source *s = ((const input_source *)in->own)->src;
    for (uint32_t i = 0; i < s->n_files; i++)
        if (qsf_host_same(in->platform, s->paths[i], path)) return true;
    return false;
}

static void input_source_close(input *in)
{
    if (!in) return;
    const qsf_platform *p = in->platform;
    input_source *own = in->own;
    if (own) {
        if (own->kept != UINT32_MAX) qsf_dealloc(p, own->data, own->src->tensors[own->kept].bytes);
        qsf_source_close(own->src);
    }
    qsf_arena_free(in->arena);
    qsf_dealloc(p, in, sizeof *in);
}

/* Keys about a model's origin stay with it, and those about the pairs of a classifier; keys that
 * describe the network or the file are written anew. */
static bool input_keeps(const char *key, bool classes)
{
    static const char *const drop[] = { "general.architecture", "general.file_type",
                                        "general.quantization_version", "general.alignment" };
    static const char *const pairs[] = { "tokenizer.ggml.add_sep_token", "tokenizer.ggml.add_eos_token",
                                         "tokenizer.chat_template.rerank" };
    for (size_t i = 0; i < QSF_ARRAY_LEN(pairs) && classes; i++)
        if (!strcmp(key, pairs[i])) return true;
    if (!strncmp(key, "qsf.convert.", 12) || !strcmp(key, "source.format")) return true;
    if (strncmp(key, "general.", 8)) return false;
    for (size_t i = 0; i < QSF_ARRAY_LEN(drop); i++)
        if (!strcmp(key, drop[i])) return false;
    return true;
}

/* Whether every place in the sparse tensor is inside t. */
static bool input_outliers_valid(const uint8_t *sparse, uint32_t n, const qsf_tensor *t)
{
    const uint8_t *cols = sparse + 4 * ((size_t)t->rows + 1);
    if (qsf_le32(sparse) != 0 || qsf_le32(sparse + 4 * (size_t)t->rows) != n) return false;
    for (uint32_t r = 0; r < t->rows; r++)
        if (qsf_le32(sparse + 4 * (size_t)r) > qsf_le32(sparse + 4 * ((size_t)r + 1))) return false;
    for (uint32_t k = 0; k < n; k++)
        if (qsf_le32(cols + 4 * (size_t)k) >= t->cols) return false;
    return true;
}

static qsf_status input_load_outliers(input *in, const qsf_source *s, uint32_t unit, const qsf_tensor *t,
                                      const char *name, input_place *pl, qsf_error *err)
{
    const int found = qsf_unit_find(s, unit, QSF_K_OUTLIERS | t->kind);
    if (found < 0) return QSF_OK;
    const qsf_tensor *o = &s->tensors[s->units[unit].first_tensor + (uint32_t)found];
    void *data = NULL;
    if (o->type != QSF_T_SPARSE || o->rows != t->rows)
        return qsf_fail(err, QSF_E_CORRUPT, "%s: the outliers of %s do not fit their tensor", s->path, name);
    const qsf_status st = qsf_source_load(s, unit, (uint32_t)found, &data, err);
    if (st) return st;
    const bool valid = input_outliers_valid(data, o->cols, t);
    pl->n = o->cols;
    void *kept = valid ? qsf_arena_alloc(in->arena, o->bytes, "outliers", err) : NULL;
    if (kept) memcpy(kept, data, (size_t)o->bytes);
    pl->sparse = kept;
    qsf_dealloc(s->platform, data, o->bytes);
    if (!valid)
        return qsf_fail(err, QSF_E_CORRUPT, "%s: the outliers of %s do not fit their tensor", s->path, name);
    return pl->sparse ? QSF_OK : QSF_E_MEMORY;
}

/* From here on the experts' scales belong to the rows: a QSF file does not store them
 * separately. */
static qsf_status input_load_scale(input *in, const qsf_source *s, uint32_t unit, const qsf_tensor *t,
                                   const char *name, input_place *pl, qsf_error *err)
{
    const int found = qsf_unit_find(s, unit, QSF_K_SCALE + t->kind);
    void *data = NULL;
    float last = 1;
    if (found < 0) return QSF_OK;
    const uint32_t n = s->tensors[s->units[unit].first_tensor + (uint32_t)found].cols;
    const qsf_status st = qsf_source_load(s, unit, (uint32_t)found, &data, err);
    if (st) return st;
    float *each = qsf_arena_array(in->arena, n, sizeof *each, "scales", err);
    for (uint32_t i = 0; each && i < n && isfinite(last); i++)
        last = each[i] = qsf_lef32((const uint8_t *)data + 4 * (size_t)i);
    qsf_dealloc(s->platform, data, n * sizeof *each);
    if (!each) return QSF_E_MEMORY;
    pl->scale = n > 1 ? 1 : last;
    pl->scales = n > 1 ? each : NULL;
    pl->n_scales = n;
    if (isfinite(last)) return QSF_OK;
    return qsf_fail(err, QSF_E_CORRUPT, "%s: the scale of %s is %g", s->path, name, (double)last);
}

static qsf_status input_list_unit(input *in, const qsf_source *s, uint32_t unit, qsf_error *err)
{
    input_source *own = in->own;
    const qsf_unit *u = &s->units[unit];
    for (uint32_t i = 0; i < u->n_tensors; i++) {
        const uint32_t at = u->first_tensor + i;
        const qsf_tensor *t = &s->tensors[at];
        char name[64];
        if (t->type == QSF_T_SPARSE || t->kind >= QSF_N_KINDS) continue;
        if (unit < s->hp.n_layers)
            qsf_format(name, sizeof name, "blk.%u.%s", (unsigned)unit, qsf_kind_name(t->kind));
        else qsf_format(name, sizeof name, "%s", qsf_kind_name(t->kind));
        input_place *pl = &own->places[in->n_tensors];
        *pl = (input_place){ .unit = unit, .tensor = at, .scale = 1 };
        qsf_status st = input_load_outliers(in, s, unit, t, name, pl, err);
        if (!st) st = input_load_scale(in, s, unit, t, name, pl, err);
        if (st) return st;
        input_tensor *to = &in->tensors[in->n_tensors++];
        *to = (input_tensor){ .unit = unit, .kind = t->kind, .rows = t->rows, .cols = t->cols,
                              .stored_bytes = t->bytes, .source_type = t->type,
                              .scale = pl->scale != 1 ? pl->scale : 0 };
        if (!(to->name = qsf_arena_text(in->arena, name, strlen(name), err))) return QSF_E_MEMORY;
    }
    return QSF_OK;
}

static qsf_status input_list(input *in, const qsf_source *s, qsf_error *err)
{
    input_source *own = in->own;
    qsf_status st;
    if (!(in->tensors = qsf_arena_array(in->arena, s->n_tensors, sizeof *in->tensors, "tensor list", err)))
        return QSF_E_MEMORY;
    if (!(own->places = qsf_arena_array(in->arena, s->n_tensors, sizeof *own->places, "tensor places", err)))
        return QSF_E_MEMORY;
    if (!(in->meta = qsf_arena_array(in->arena, s->n_meta, sizeof *in->meta, "metadata", err)))
        return QSF_E_MEMORY;
    if ((st = input_list_unit(in, s, qsf_unit_embd(s), err))) return st;
    for (uint32_t l = 0; l < s->hp.n_layers; l++)
        if ((st = input_list_unit(in, s, l, err))) return st;
    if ((st = input_list_unit(in, s, qsf_unit_final(s), err))) return st;
    for (uint32_t i = 0; i < s->n_meta; i++) {
        if (input_keeps(s->meta[i].key, s->hp.n_classes != 0)) in->meta[in->n_meta++] = s->meta[i];
        if (!strcmp(s->meta[i].key, "qsf.convert.quant_type")) in->preset = s->meta[i].value;
    }
    float *importance = qsf_arena_array(in->arena, s->hp.n_layers, sizeof *importance, "layers", err);
    if (!importance) return QSF_E_MEMORY;
    for (uint32_t l = 0; l < s->hp.n_layers; l++) importance[l] = s->units[l].importance;
    in->importance = importance;
    return QSF_OK;
}

qsf_status qsf_input_open_source(const qsf_platform *p, const char *path, input **out, qsf_error *err)
{
    return qsf_input_open_source_as(p, path, QSF_I2S_AUTO, false, out, err);
}

/* Whether two openings of a file take a unit from the same places. */
static bool input_same_unit(const qsf_source *a, uint32_t in_a, const qsf_source *b, uint32_t in_b)
{
    const qsf_unit *x = &a->units[in_a], *y = &b->units[in_b];
    bool same = x->n_extents == y->n_extents;
    for (uint32_t i = 0; same && i < x->n_extents; i++) {
        const qsf_extent *m = &a->extents[x->first_extent + i], *n = &b->extents[y->first_extent + i];
        same = m->file == n->file && m->at == n->at && m->len == n->len;
    }
    return same;
}

/* Opens the file again with its layer for multi-token prediction; *leaves: a layer with an
 * embedding or a head of its own is left out. */
static qsf_status input_open_mtp(qsf_source **s, const char *path, qsf_i2s_layout i2s, bool *leaves,
                                 qsf_error *err)
{
    qsf_source *with;
    const qsf_status st = qsf_source_open_mtp((*s)->platform, path, NULL, i2s, &with, err);
    if (st) return st;
    const bool same = input_same_unit(*s, qsf_unit_embd(*s), with, qsf_unit_embd(with)) &&
        input_same_unit(*s, qsf_unit_final(*s), with, qsf_unit_final(with));
    qsf_source *closed = same ? *s : with;
    if (same) *s = with;
    *leaves = !same;
    qsf_source_close(closed);
    return QSF_OK;
}

qsf_status qsf_input_open_source_as(const qsf_platform *p, const char *path, qsf_i2s_layout i2s, bool mtp,
                                    input **out, qsf_error *err)
{
    qsf_status st;
    *out = NULL;
    input *in = qsf_alloc(p, sizeof *in, "input", err);
    if (!in) return QSF_E_MEMORY;
    in->platform = p;
    in->read = input_source_read;
    in->stored = input_source_stored;
    in->reads = input_source_reads;
    in->close = input_source_close;
    if ((st = qsf_arena_new(p, &in->arena, err))) goto fail;
    input_source *own = qsf_arena_alloc(in->arena, sizeof *own, "input", err);
    if (!own) { st = QSF_E_MEMORY; goto fail; }
    own->kept = UINT32_MAX;
    atomic_flag_clear(&own->lock);
    in->own = own;
    if ((st = qsf_source_open_as(p, path, NULL, false, i2s, &own->src, err))) goto fail;
    in->leaves_mtp = own->src->n_mtp > 0;
    if (mtp && in->leaves_mtp && (st = input_open_mtp(&own->src, path, i2s, &in->leaves_mtp, err))) goto fail;
    if (own->src->n_units != qsf_units_of(own->src->hp.n_layers)) {
        st = qsf_fail(err, QSF_E_CORRUPT, "%s: has no weights, only a description and a vocabulary", path);
        goto fail;
    }
    if ((st = input_check_layers(own->src, err))) goto fail;
    if ((st = input_check(own->src, err))) goto fail;
    in->model_path = own->src->path;
    in->i2s_layout = i2s;
    in->hp = own->src->hp;
    in->vocab = own->src->vocab;
    if ((st = input_list(in, own->src, err))) goto fail;
    *out = in;
    return QSF_OK;
fail:
    input_source_close(in);
    return st;
}
