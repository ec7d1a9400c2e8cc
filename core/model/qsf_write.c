/* Writes a QSF file front to back; header, layer index and extension section go in at the end, into
 * room kept for them.
 * SPDX-License-Identifier: MIT */
#include "model/arch.h"
#include "model/qsf_write.h"
#include "model/roles.h"

#include "base/arena.h"
#include "model/compress.h"
#include "model/experts_alone.h"
#include "model/planes.h"
#include "model/qsf_ext.h"
#include "model/qsf_file.h"

/* CRCs of a unit's chunks while they pass. */
typedef struct writer_chunks {
    uint32_t *crc;
    uint32_t  n, cap;       /* n: begun */
    uint32_t  filled;       /* bytes of the last one */
} writer_chunks;

/* A unit's second piece as the file lists it. */
enum { REST_BYTES, REST_CRC, REST_RAW, REST_LINE };

struct qsf_writer {
    const qsf_platform *platform;
    qsf_arena  *arena;
    qsf_out    *out;
    const char *path;
    qsf_hparams hp;
    int32_t     bos, eos, pad;
    qsf_write_options o;

    uint8_t    *head;           /* header, index, extension section: the file's first head_bytes */
    uint64_t    head_bytes;
    qsf_ext_out ext;
    uint8_t    *directory;      /* [o.max_tensors] lines */
    uint32_t    n_directory;

    uint32_t    steps;          /* units begun */
    bool        open;           /* a unit is */
    uint32_t    unit;
    uint64_t    begin, at;      /* of the unit in the file; place in its raw bytes */
    uint64_t    final_at;
    uint32_t    crc;
    uint32_t    n_headers, n_listed;
    int         layer_type;     /* of its matrices; -1: none yet; QSF_T_MIXED */
    bool        flag_written;
    uint32_t    unit_crc[2];    /* embedding, final section */
    writer_chunks chunks[2];
    qsf_experts_out experts;
    uint8_t    *raw;            /* a layer that will be compressed */
    uint64_t    raw_cap;
    uint8_t    *state;
    uint64_t    state_bytes;

    /* progressive: the open unit's tensors, and all units' second pieces */
    qsf_tensor   tensors[QSF_MAX_UNIT_TENSORS];
    uint64_t     places[QSF_MAX_UNIT_TENSORS];
    uint8_t    **rest;          /* [layers + 1] in file order: the embedding, the layers */
    uint64_t    *rest_lines;    /* [layers + 1][REST_LINE] */
    uint64_t     rest_at;       /* where they begin in the file */
};

static uint32_t writer_embd(const qsf_writer *w) { return qsf_unit_number(w->hp.n_layers, qsf_id_embd()); }
static uint32_t writer_final(const qsf_writer *w) { return qsf_unit_number(w->hp.n_layers, qsf_id_final()); }
static uint32_t writer_units(const qsf_writer *w) { return qsf_units_of(w->hp.n_layers); }
static bool writer_packs(const qsf_writer *w)
{
    if (w->o.progressive) return w->unit != writer_final(w);
    return w->o.compression != QSF_COMPRESS_NONE && w->unit < w->hp.n_layers;
}

/* ---- bytes ---- */

static void chunks_pass(writer_chunks *c, const uint8_t *p, uint64_t len)
{
    while (len) {
        if (c->n == 0 || c->filled == QSF_CRC_CHUNK) {
            if (c->n++ < c->cap) c->crc[c->n - 1] = 0;
            c->filled = 0;
        }
        const uint32_t n = (uint32_t)QSF_MIN(len, (uint64_t)QSF_CRC_CHUNK - c->filled);
        if (c->n <= c->cap) c->crc[c->n - 1] = qsf_crc32(c->crc[c->n - 1], p, n);
        c->filled += n;
        p += n;
        len -= n;
    }
}

static qsf_status writer_file(qsf_writer *w, uint64_t at, const void *p, uint64_t len, qsf_error *err)
{
    const qsf_status st = len ? w->platform->write(w->platform->user, w->out, at, p, (size_t)len) : QSF_OK;
    if (!st) return st;
    return qsf_fail(err, st, "%s: writing %llu bytes at %llu failed: %s; is the disk full?", w->path,
                    (unsigned long long)len, (unsigned long long)at, qsf_status_text(st));
}

static qsf_status writer_reserve(qsf_writer *w, uint64_t bytes, qsf_error *err)
{
    if (bytes <= w->raw_cap) return QSF_OK;
    const uint64_t cap = QSF_MAX(bytes, w->raw_cap * 2);
    uint8_t *more = qsf_alloc(w->platform, cap, "a layer to compress", err);
    if (!more) return QSF_E_MEMORY;
    if (w->at) memcpy(more, w->raw, (size_t)w->at);
    qsf_dealloc(w->platform, w->raw, w->raw_cap);
    w->raw = more;
    w->raw_cap = cap;
    return QSF_OK;
}

/* The next bytes of the open unit. */
static qsf_status writer_put(qsf_writer *w, const void *p, uint64_t len, qsf_error *err)
{
    qsf_status st;
    if (writer_packs(w)) {
        if ((st = writer_reserve(w, w->at + len, err))) return st;
        if (len) memcpy(w->raw + w->at, p, (size_t)len);
    } else {
        if ((st = writer_file(w, w->begin + w->at, p, len, err))) return st;
        w->crc = qsf_crc32(w->crc, p, (size_t)len);
        if (w->unit >= w->hp.n_layers) chunks_pass(&w->chunks[w->unit == writer_final(w)], p, len);
    }
    w->at += len;
    return QSF_OK;
}

static qsf_status writer_zeros(qsf_writer *w, uint64_t len, qsf_error *err)
{
    static const uint8_t zeros[QSF_UNIT_ALIGN];
    return writer_put(w, zeros, len, err);
}

/* A tensor header is placed such that the data after it begins at a multiple of 64; a padding
 * tensor fills the gap. */
static qsf_status writer_align(qsf_writer *w, qsf_error *err)
{
    qsf_status st;
    uint8_t h[QSF_TENSOR_HEAD];
    uint64_t to = qsf_round_up(w->at + QSF_TENSOR_HEAD, QSF_DATA_ALIGN) - QSF_TENSOR_HEAD;
    if (to == w->at) return QSF_OK;
    if (to - w->at < QSF_TENSOR_HEAD) to += QSF_DATA_ALIGN;
    const uint32_t fill = (uint32_t)(to - w->at) - QSF_TENSOR_HEAD;
    assert(fill % 2 == 0);      /* every type's blocks have an even number of bytes */
    const qsf_tensor pad = { .kind = QSF_K_PAD, .type = QSF_T_F16, .block = 1, .rows = 1, .cols = fill / 2 };
    qsf_tensor_header_put(h, &pad);
    w->n_headers++;
    if ((st = writer_put(w, h, sizeof h, err))) return st;
    return writer_zeros(w, fill, err);
}

/* ---- tensors ---- */

static qsf_status writer_list(qsf_writer *w, const qsf_tensor *t, qsf_error *err)
{
    if (w->n_directory == w->o.max_tensors || w->n_listed == QSF_MAX_UNIT_TENSORS)
        return qsf_fail(err, QSF_E_ARGUMENT, "%s: more than %u tensors, or more than %d in a unit", w->path,
                        (unsigned)w->o.max_tensors, (int)QSF_MAX_UNIT_TENSORS);
    w->tensors[w->n_listed] = *t;
    w->places[w->n_listed] = w->at;
    qsf_ext_tensor_line(w->directory + (size_t)w->n_directory * QSF_DIR_BYTES, w->unit, t, w->at);
    w->n_directory++;
    w->n_listed++;
    return QSF_OK;
}

static qsf_status writer_headed(qsf_writer *w, const qsf_tensor *t, qsf_error *err)
{
    qsf_status st;
    uint8_t h[QSF_TENSOR_HEAD];
    if ((st = writer_align(w, err))) return st;
    qsf_tensor_header_put(h, t);
    w->n_headers++;
    if ((st = writer_put(w, h, sizeof h, err))) return st;
    if ((st = writer_list(w, t, err))) return st;
    if (w->unit < w->hp.n_layers) qsf_experts_note(&w->experts, t, w->crc);
    return writer_put(w, t->data, t->bytes, err);
}

static qsf_status writer_token_embd(qsf_writer *w, const qsf_tensor *t, qsf_error *err)
{
    qsf_status st;
    uint8_t h[QSF_EMBD_HEAD];
    qsf_put32(h, t->type);
    qsf_put32(h + 4, (uint32_t)t->bytes);
    qsf_put32(h + 8, t->rows);
    qsf_put32(h + 12, t->cols);
    if ((st = writer_zeros(w, QSF_EMBD_FRONT, err))) return st;
    if ((st = writer_put(w, h, sizeof h, err))) return st;
    if ((st = writer_list(w, t, err))) return st;
    return writer_put(w, t->data, t->bytes, err);
}

static qsf_status writer_flag(qsf_writer *w, uint8_t flag, qsf_error *err)
{
    const qsf_status st = writer_put(w, &flag, 1, err);
    w->flag_written = true;
    return st ? st : writer_zeros(w, qsf_round_up(w->at, QSF_DATA_ALIGN) - w->at, err);
}

static qsf_status writer_in_final(qsf_writer *w, const qsf_tensor *t, qsf_error *err)
{
    qsf_status st;
    if (t->kind == QSF_K_OUTPUT_NORM || t->kind == QSF_K_OUTPUT_NORM_BIAS) {
        if (t->type != QSF_T_F16 || t->rows != 1 || t->cols != w->hp.n_embd || w->flag_written
            || w->n_listed != t->kind - QSF_K_OUTPUT_NORM)
            return qsf_fail(err, QSF_E_ARGUMENT,
                            "%s: the final norm and then its bias come first, as %u f16 values each", w->path,
                            (unsigned)w->hp.n_embd);
    } else if (t->kind == QSF_K_OUTPUT) {
        if (w->flag_written || (!w->n_listed && qsf_final_norm(&w->hp)) || w->hp.tied)
            return qsf_fail(err, QSF_E_ARGUMENT, "%s: an output head that is tied or out of order", w->path);
        if ((st = writer_flag(w, t->type, err))) return st;
    } else {
        if ((!w->n_listed && qsf_final_norm(&w->hp)) || (!w->flag_written && !w->hp.tied))
            return qsf_fail(err, QSF_E_ARGUMENT, "%s: the final norm and the head come first", w->path);
        if (!w->flag_written && (st = writer_flag(w, QSF_TIED, err))) return st;
        return writer_headed(w, t, err);
    }
    if ((st = writer_list(w, t, err))) return st;
    return writer_put(w, t->data, t->bytes, err);
}

qsf_status qsf_writer_tensor(qsf_writer *w, const qsf_tensor *t, qsf_error *err)
{
    qsf_status st;
    uint64_t bytes;
    if (!w->open || !t->data || qsf_kind_skipped(t->kind) || t->type >= QSF_T_GGML)
        return qsf_fail(err, QSF_E_ARGUMENT,
                        "%s: a tensor of kind %u and type %u outside a unit, without data, or not QSF's",
                        w->path, (unsigned)t->kind, (unsigned)t->type);
    if ((st = qsf_tensor_bytes(t->type, t->packing, t->block, t->rows, t->cols, &bytes, err))) return st;
    /* sparse tensors have no blocks: one value for the file */
    const uint32_t block = t->type == QSF_T_SPARSE ? 1 : t->block;
    const qsf_tensor u = { .kind = t->kind, .type = t->type, .packing = t->packing, .block = (uint16_t)block,
                           .rows = t->rows, .cols = t->cols, .bytes = bytes, .data = t->data };
    if (t->bytes != bytes)
        return qsf_fail(err, QSF_E_ARGUMENT, "%s: %s has %llu bytes where its shape takes %llu", w->path,
                        qsf_kind_name(t->kind), (unsigned long long)t->bytes, (unsigned long long)bytes);
    if (w->unit == writer_final(w)) return writer_in_final(w, &u, err);
    if (w->unit == writer_embd(w)) {
        if ((u.kind == QSF_K_TOKEN_EMBD) != (w->n_listed == 0))
            return qsf_fail(err, QSF_E_ARGUMENT, "%s: the token embedding comes first", w->path);
        return w->n_listed ? writer_headed(w, &u, err) : writer_token_embd(w, &u, err);
    }
    if (u.rows > 1 && u.kind < QSF_K_OUTLIERS)
        w->layer_type = w->layer_type < 0 || w->layer_type == u.type ? u.type : QSF_T_MIXED;
    return writer_headed(w, &u, err);
}

/* ---- units ---- */

qsf_status qsf_writer_unit_begin(qsf_writer *w, uint32_t unit, qsf_error *err)
{
    const uint32_t next = w->steps == 0 ? writer_embd(w) : w->steps <= w->hp.n_layers ? w->steps - 1
        : writer_final(w);
    if (w->open || unit != next || w->steps >= writer_units(w))
        return qsf_fail(err, QSF_E_ARGUMENT,
                        "%s: unit %u out of order: first the embedding, then the layers, then the final "
                        "section", w->path, (unsigned)unit);
    w->open = true;
    w->unit = unit;
    w->steps++;
    w->at = 0;
    w->crc = 0;
    w->n_headers = w->n_listed = 0;
    w->layer_type = -1;
    return QSF_OK;
}

/* Compresses the layer in w->raw and writes what is smaller.  *payload: bytes written. */
static qsf_status writer_pack(qsf_writer *w, uint64_t *payload, uint8_t *compression, qsf_error *err)
{
    const uint64_t cap = qsf_pack_bound(w->o.compression, w->at);
    uint8_t *packed = NULL;
    size_t n = 0;
    if (cap) {
        if (!(packed = qsf_alloc(w->platform, cap, "a compressed layer", err))) return QSF_E_MEMORY;
        n = qsf_pack(w->o.compression, w->state, w->raw, (size_t)w->at, packed, (size_t)cap);
    }
    const bool smaller = n && n < w->at;
    const uint8_t *bytes = smaller ? packed : w->raw;
    *payload = smaller ? n : w->at;
    *compression = smaller ? w->o.compression : QSF_COMPRESS_NONE;
    const qsf_status st = writer_file(w, w->begin, bytes, *payload, err);
    if (!st) w->crc = qsf_crc32(0, bytes, (size_t)*payload);
    qsf_dealloc(w->platform, packed, cap);
    return st;
}

/* Writes the unit in w->raw without the low bits of its codes, which are kept for later.  *payload:
 * bytes written. */
static qsf_status writer_split(qsf_writer *w, uint64_t *payload, qsf_error *err)
{
    const qsf_planes planes = { w->tensors, w->places, w->n_listed, w->at };
    uint64_t *line = w->rest_lines + (size_t)(w->steps - 1) * REST_LINE;
    uint8_t **rest = &w->rest[w->steps - 1];
    uint8_t *first = NULL;
    qsf_status st = QSF_E_MEMORY;
    line[REST_RAW] = w->at;
    line[REST_BYTES] = qsf_planes_rest(&planes);
    *payload = w->at - line[REST_BYTES];
    if (!(first = qsf_alloc(w->platform, *payload, "a unit's first piece", err))) goto done;
    if (line[REST_BYTES] && !(*rest = qsf_alloc(w->platform, line[REST_BYTES], "low bits", err))) goto done;
    qsf_planes_split(&planes, w->raw, first, *rest);
    line[REST_CRC] = qsf_crc32(0, *rest, (size_t)line[REST_BYTES]);
    w->crc = qsf_crc32(0, first, (size_t)*payload);
    st = writer_file(w, w->begin, first, *payload, err);
done:
    qsf_dealloc(w->platform, first, *payload);
    return st;
}

/* Writes all second pieces after the final unit. */
static qsf_status writer_rests(qsf_writer *w, qsf_error *err)
{
    qsf_status st = QSF_OK;
    w->rest_at = w->begin;
    for (uint32_t i = 0; !st && w->o.progressive && i <= w->hp.n_layers; i++) {
        const uint64_t bytes = w->rest_lines[(size_t)i * REST_LINE + REST_BYTES];
        st = writer_file(w, w->begin, w->rest[i], bytes, err);
        w->begin += bytes;
    }
    return st;
}

static qsf_status writer_embd_end(qsf_writer *w, uint64_t *stored, qsf_error *err)
{
    static const uint8_t zeros[QSF_UNIT_ALIGN];
    qsf_status st;
    uint64_t payload = w->at;
    *stored = qsf_round_up(payload, QSF_UNIT_ALIGN);
    if (!w->o.progressive) return writer_zeros(w, *stored - payload, err);
    if ((st = writer_split(w, &payload, err))) return st;
    *stored = qsf_round_up(payload, QSF_UNIT_ALIGN);
    w->crc = qsf_crc32(w->crc, zeros, (size_t)(*stored - payload));
    return writer_file(w, w->begin + payload, zeros, *stored - payload, err);
}

static qsf_status writer_layer_end(qsf_writer *w, float importance, uint64_t *stored, qsf_error *err)
{
    static const uint8_t zeros[QSF_UNIT_ALIGN];
    qsf_status st;
    uint64_t payload = w->at;
    uint8_t compression = QSF_COMPRESS_NONE,
        *e = w->head + QSF_HEADER_BYTES + (size_t)w->unit * QSF_ENTRY_BYTES;
    if (w->o.progressive && (st = writer_split(w, &payload, err))) return st;
    if (w->o.compression && (st = writer_pack(w, &payload, &compression, err))) return st;
    if (w->at > UINT32_MAX || payload > UINT32_MAX || w->n_headers > UINT16_MAX || !isfinite(importance))
        return qsf_fail(err, QSF_E_ARGUMENT,
                        "%s: layer %u of %llu bytes and %u tensors: the format's limits are 4 GB and 65535",
                        w->path, (unsigned)w->unit, (unsigned long long)w->at, (unsigned)w->n_headers);
    qsf_put64(e, w->begin);
    qsf_put32(e + 8, (uint32_t)payload);
    qsf_put32(e + 12, (uint32_t)(w->o.progressive ? payload : w->at));
    e[16] = (uint8_t)(w->layer_type < 0 ? QSF_T_MIXED : w->layer_type);
    e[17] = compression;
    qsf_put16(e + 18, (uint16_t)w->n_headers);
    qsf_put32(e + 20, w->crc);
    qsf_put32(e + 24, qsf_f32_bits(importance));
    *stored = qsf_round_up(payload, QSF_UNIT_ALIGN);
    qsf_experts_note_end(&w->experts);
    return writer_file(w, w->begin + payload, zeros, *stored - payload, err);
}

qsf_status qsf_writer_unit_end(qsf_writer *w, float importance, qsf_error *err)
{
    qsf_status st;
    uint64_t stored = 0;
    const bool may_be_empty = w->unit == writer_final(w) && !qsf_final_norm(&w->hp);
    if (!w->open || (!w->n_listed && !may_be_empty))
        return qsf_fail(err, QSF_E_ARGUMENT, "%s: a unit that was not begun or has no tensors ends", w->path);
    if (w->unit < w->hp.n_layers) {
        if ((st = writer_layer_end(w, importance, &stored, err))) return st;
    } else if (w->unit == writer_embd(w)) {
        if ((st = writer_embd_end(w, &stored, err))) return st;
        w->unit_crc[0] = w->crc;
    } else {
        if (!w->flag_written && !w->hp.tied)
            return qsf_fail(err, QSF_E_ARGUMENT, "%s: the model is not tied, but no head was written",
                            w->path);
        if (!w->flag_written && (st = writer_flag(w, QSF_TIED, err))) return st;
        const uint64_t end = w->o.progressive ? qsf_round_up(w->at, QSF_DATA_ALIGN) : w->at;
        if ((st = writer_zeros(w, end - w->at, err))) return st;
        stored = w->at;
        w->final_at = w->begin;
        w->unit_crc[1] = w->crc;
    }
    w->begin += stored;
    w->open = false;
    return QSF_OK;
}

/* ---- life ---- */

/* Upper bounds, so that the room for the section is known before the weights are. */
static uint32_t writer_max_chunks(uint64_t rows, uint64_t more, uint64_t cols)
{
    return (uint32_t)(((rows + 16 + more) * (cols + QSF_MAX_BLOCK) * 4 + 8 * cols + 2 * QSF_UNIT_ALIGN)
                      / QSF_CRC_CHUNK + 2);
}

/* Writes the keys whose values are known at the beginning. */
static void writer_describe(qsf_ext_out *x, const qsf_hparams *hp, const qsf_vocab *v, const qsf_meta *meta,
                            uint32_t n_meta, const qsf_write_options *o)
{
    qsf_ext_put_hparams(x, hp);
    if (o->clusters) qsf_ext_put_clusters(x, o->clusters, hp);
    if (o->embd_clusters) qsf_ext_put_embd_clusters(x, o->embd_clusters, hp);
    qsf_ext_put_meta(x, meta, n_meta);
    qsf_ext_put_vocab(x, v);
}

/* Writes the keys whose values are known only at the end. */
static void writer_conclude(const qsf_writer *w, qsf_ext_out *x, uint32_t index_crc, uint32_t n_tensors,
                            uint32_t n_embd, uint32_t n_final, uint32_t n_of_experts)
{
    qsf_ext_put_u64(x, "file.size", w->begin);
    qsf_ext_put_u32(x, "index.crc", index_crc);
    qsf_ext_put_u32(x, "embd.crc", w->unit_crc[0]);
    qsf_ext_put_u32(x, "final.crc", w->unit_crc[1]);
    qsf_ext_put_u32(x, "crc.chunk", QSF_CRC_CHUNK);
    if (w->o.progressive) {
        qsf_ext_put_u64(x, "rest.at", w->rest_at);
        qsf_ext_put_u64s(x, "rest", w->rest_lines, REST_LINE * ((uint64_t)w->hp.n_layers + 1));
    }
    if (n_embd) qsf_ext_put_u32s(x, "embd.crcs", w->chunks[0].crc, n_embd);
    if (n_final) qsf_ext_put_u32s(x, "final.crcs", w->chunks[1].crc, n_final);
    qsf_ext_put_experts(x, &w->experts, n_of_experts);
    qsf_ext_put_u8s(x, "tensors", w->directory, (uint64_t)n_tensors * QSF_DIR_BYTES);
}

static qsf_status writer_head_new(qsf_writer *w, const qsf_vocab *v, const qsf_meta *meta, uint32_t n_meta,
                                  qsf_error *err)
{
    const qsf_hparams *hp = &w->hp;
    const uint64_t ext_at = QSF_HEADER_BYTES + (uint64_t)hp->n_layers * QSF_ENTRY_BYTES;
    w->chunks[0].cap = writer_max_chunks(hp->n_vocab, hp->learned_pos ? hp->n_ctx_train : 0,
                                         hp->n_embd + (uint64_t)hp->n_layers * hp->n_embd_layer);
    w->chunks[1].cap = writer_max_chunks(hp->tied ? 0 : hp->n_vocab, hp->n_vocab / QSF_MAX_BLOCK + 1,
                                         hp->n_embd);
    for (int i = 0; i < 2; i++)
        if (!(w->chunks[i].crc = qsf_arena_array(w->arena, w->chunks[i].cap, 4, "checksums", err)))
            return QSF_E_MEMORY;
    if (!(w->directory = qsf_arena_array(w->arena, w->o.max_tensors, QSF_DIR_BYTES, "tensor directory", err)))
        return QSF_E_MEMORY;

    /* What is packed is read whole. */
    if (!w->o.progressive && !w->o.compression) w->experts.n_experts = hp->n_experts;
    const uint64_t each = 4 * (1 + (uint64_t)w->experts.n_experts);
    if (!(w->experts.crcs = qsf_arena_array(w->arena, hp->n_layers, each, "checksums", err)))
        return QSF_E_MEMORY;
    const uint64_t n_rest = (uint64_t)hp->n_layers + 1;
    if (!(w->rest = qsf_arena_array(w->arena, n_rest, sizeof *w->rest, "units", err))) return QSF_E_MEMORY;
    if (!(w->rest_lines = qsf_arena_array(w->arena, n_rest * REST_LINE, 8, "units", err)))
        return QSF_E_MEMORY;
    qsf_ext_out size = { 0 };
    writer_describe(&size, hp, v, meta, n_meta, &w->o);
    writer_conclude(w, &size, 0, w->o.max_tensors, w->chunks[0].cap, w->chunks[1].cap, hp->n_layers);
    w->head_bytes = qsf_round_up(ext_at + size.len, QSF_UNIT_ALIGN);
    if (w->head_bytes - ext_at > UINT32_MAX)
        return qsf_fail(err, QSF_E_ARGUMENT, "%s: a description of more than 4 GB", w->path);
    if (!(w->head = qsf_arena_alloc(w->arena, w->head_bytes, "file description", err))) return QSF_E_MEMORY;
    w->ext = (qsf_ext_out){ .p = w->head + ext_at, .cap = w->head_bytes - ext_at };
    writer_describe(&w->ext, hp, v, meta, n_meta, &w->o);
    w->begin = w->head_bytes;
    return QSF_OK;
}

static qsf_status writer_check(const qsf_platform *p, const char *path, const qsf_hparams *hp,
                               const qsf_write_options *o, qsf_error *err)
{
    if (!hp->n_layers || hp->n_layers > QSF_MAX_LAYERS || !hp->n_embd || !hp->n_vocab
        || o->default_type > QSF_T_MIXED)
        return qsf_fail(err, QSF_E_ARGUMENT,
                        "%s: %u layers of width %u, %u tokens, default type %u cannot be written", path,
                        (unsigned)hp->n_layers, (unsigned)hp->n_embd, (unsigned)hp->n_vocab,
                        (unsigned)o->default_type);
    if (o->progressive && o->compression)
        return qsf_fail(err, QSF_E_ARGUMENT, "%s: a progressive file cannot be compressed", path);
    if (o->embd_clusters && hp->tied)
        return qsf_fail(err, QSF_E_ARGUMENT, "%s: an embedding in clusters cannot be the head", path);
    if (p->size < offsetof(qsf_platform, abort) + sizeof p->abort || !p->create || !p->write || !p->commit
        || !p->abort)
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: this host cannot write files", path);
    return qsf_codec_check(o->compression, path, err);
}

qsf_status qsf_writer_new(const qsf_platform *p, const char *path, const qsf_hparams *hp, const qsf_vocab *v,
                          const qsf_meta *meta, uint32_t n_meta, const qsf_write_options *o, qsf_writer **out,
                          qsf_error *err)
{
    qsf_status st;
    qsf_arena *arena = NULL;
    qsf_writer *w = *out = NULL;
    if ((st = writer_check(p, path, hp, o, err))) return st;
    if ((st = qsf_arena_new(p, &arena, err))) return st;
    if (!(w = qsf_arena_alloc(arena, sizeof *w, "writer", err))) {
        qsf_arena_free(arena);
        return QSF_E_MEMORY;
    }
    w->platform = p;
    w->arena = arena;
    w->hp = *hp;
    w->o = *o;
    w->bos = v->bos;
    w->eos = v->eos;
    w->pad = v->pad;
    if (!(w->path = qsf_arena_text(arena, path, strlen(path), err))) {
        st = QSF_E_MEMORY;
        goto fail;
    }
    w->state_bytes = qsf_pack_state(o->compression);
    if (w->state_bytes && !(w->state = qsf_alloc(p, w->state_bytes, "compressor", err))) {
        st = QSF_E_MEMORY;
        goto fail;
    }
    if ((st = writer_head_new(w, v, meta, n_meta, err))) goto fail;
    w->hp.rope_factors = w->hp.rope_factors_long = NULL;      /* the caller's; they are written by now */
    if ((st = p->create(p->user, path, &w->out))) {
        w->out = NULL;
        st = qsf_fail(err, st, "%s: cannot be written: %s", path, qsf_host_why(p, path, true, st));
        goto fail;
    }
    *out = w;
    return QSF_OK;
fail:
    qsf_writer_abort(w);
    return st;
}

static void writer_header(qsf_writer *w)
{
    const qsf_hparams *hp = &w->hp;
    uint8_t *h = w->head;
    const uint32_t arch = qsf_arch_number(hp->arch);
    const uint32_t version = w->o.progressive ? QSF_VERSION_PLANES : hp->mtp ? QSF_VERSION_MTP
        : qsf_ext_needs_reader(hp) ? QSF_VERSION_LAYERS
        : w->o.embd_clusters ? QSF_VERSION_EMBD_CLUSTERS : 1;
    const uint32_t words[] = { version, QSF_HEADER_BYTES, arch, hp->n_layers, hp->n_embd, hp->n_heads,
                               hp->n_kv_heads, hp->n_vocab, hp->n_ctx_train, hp->n_ff, hp->head_dim };
    memcpy(h, "QSF1", 4);
    for (size_t i = 0; i < QSF_ARRAY_LEN(words); i++) qsf_put32(h + 4 + 4 * i, words[i]);
    h[48] = w->o.default_type;
    h[49] = hp->act;
    h[50] = hp->norm;
    h[51] = hp->learned_pos ? 0 : 1;
    qsf_put32(h + 52, qsf_f32_bits(hp->rope_base));
    qsf_put64(h + 56, QSF_HEADER_BYTES);
    qsf_put64(h + 64, w->head_bytes + QSF_EMBD_FRONT);
    qsf_put64(h + 72, w->final_at);
    qsf_put32(h + 80, (uint32_t)w->bos);
    qsf_put32(h + 84, (uint32_t)w->eos);
    qsf_put32(h + 88, (uint32_t)w->pad);
    qsf_put32(h + 92, (uint32_t)w->begin);
    qsf_put32(h + 96, qsf_crc32(0, h, 96));
    qsf_put64(h + 100, QSF_HEADER_BYTES + (uint64_t)hp->n_layers * QSF_ENTRY_BYTES);
    qsf_put32(h + 108, (uint32_t)w->ext.cap);
    qsf_put32(h + 112, qsf_crc32(0, w->ext.p, (size_t)w->ext.cap));
    qsf_put32(h + 116, qsf_crc32(0, h, 116));
}

qsf_status qsf_writer_commit(qsf_writer *w, uint64_t *bytes, qsf_error *err)
{
    qsf_status st;
    if (w->open || w->steps != writer_units(w)) {
        st = qsf_fail(err, QSF_E_ARGUMENT, "%s: %u of %u units were written", w->path, (unsigned)w->steps,
                      (unsigned)writer_units(w));
        goto fail;
    }
    if ((st = writer_rests(w, err))) goto fail;
    const uint32_t index_crc = qsf_crc32(0, w->head + QSF_HEADER_BYTES,
                                         (size_t)w->hp.n_layers * QSF_ENTRY_BYTES);
    /* More chunks than there was room for: then no parts can be checked alone, only the whole. */
    const uint32_t n_embd = w->chunks[0].n <= w->chunks[0].cap ? w->chunks[0].n : 0,
        n_final = w->chunks[1].n <= w->chunks[1].cap ? w->chunks[1].n : 0;
    writer_conclude(w, &w->ext, index_crc, w->n_directory, n_embd, n_final, w->experts.n_layers);
    assert(w->ext.len <= w->ext.cap);
    writer_header(w);
    if ((st = writer_file(w, 0, w->head, w->head_bytes, err))) goto fail;
    st = w->platform->commit(w->platform->user, w->out);
    w->out = NULL;
    if (st) st = qsf_fail(err, st, "%s: could not be completed: %s", w->path, qsf_status_text(st));
    else *bytes = w->begin;
fail:
    qsf_writer_abort(w);
    return st;
}

void qsf_writer_abort(qsf_writer *w)
{
    if (!w) return;
    const qsf_platform *p = w->platform;
    if (w->out) p->abort(p->user, w->out);
    qsf_dealloc(p, w->raw, w->raw_cap);
    qsf_dealloc(p, w->state, w->state_bytes);
    for (uint32_t i = 0; w->rest_lines && i <= w->hp.n_layers; i++)
        qsf_dealloc(p, w->rest[i], w->rest_lines[(size_t)i * REST_LINE + REST_BYTES]);
    qsf_arena_free(w->arena);
}
