/* Units of a QSF file: tensor headers, and the check of a unit's bytes against what opening the
 * file found.
 * SPDX-License-Identifier: MIT */
#include "base/crc_shared.h"
#include "model/compress.h"
#include "model/planes.h"
#include "model/qsf_file.h"
#include "model/roles.h"
#include "model/source_formats.h"

#include <stdatomic.h>

/* ---- tensor headers ---- */

uint32_t qsf_header_block(uint32_t type, uint8_t log2_block)
{
    const qsf_type_info *info = qsf_type_get(type);
    if (qsf_type_tiles(type)) return log2_block ? (log2_block < 16 ? 1u << log2_block : 0) : 64;
    return info && info->own_block ? 1u << info->own_block : 1;
}

void qsf_tensor_header_put(uint8_t out[QSF_TENSOR_HEAD], const qsf_tensor *t)
{
    memset(out, 0, QSF_TENSOR_HEAD);
    qsf_put32(out, t->kind);
    qsf_put32(out + 4, t->rows);
    qsf_put32(out + 8, t->cols);
    out[12] = t->type;
    out[13] = t->packing;
    if (qsf_type_tiles(t->type) && t->block != 64)
        while (1u << out[14] < t->block) out[14]++;
}

qsf_status qsf_tensor_header_get(const uint8_t h[QSF_TENSOR_HEAD], uint8_t layer_type, qsf_tensor *t,
                                 qsf_error *err)
{
    *t = (qsf_tensor){ .kind = qsf_le32(h), .rows = qsf_le32(h + 4), .cols = qsf_le32(h + 8),
                       .type = h[12] == QSF_LAYER_DEFAULT ? layer_type : h[12], .packing = h[13] };
    t->block = (uint16_t)qsf_header_block(t->type, h[14]);
    if (t->type >= QSF_T_GGML)
        return qsf_fail(err, QSF_E_UNSUPPORTED, "tensor type %u is not one of QSF's", (unsigned)t->type);
    if (h[15] || (h[14] && !qsf_type_tiles(t->type)))
        return qsf_fail(err, QSF_E_UNSUPPORTED, "a tensor header with unknown bytes 14 and 15");
    if (t->kind == QSF_K_PAD && t->rows == 1 && t->cols == 0 && t->type == QSF_T_F16 && !t->packing)
        return QSF_OK;
    return qsf_tensor_bytes(t->type, t->packing, t->block, t->rows, t->cols, &t->bytes, err);
}

/* ---- opening ---- */

static bool unit_takes_kind(const qsf_source *s, uint32_t unit, uint32_t kind)
{
    const qsf_role *role = qsf_role_of(qsf_kind_base(kind));
    const qsf_part part = unit == qsf_unit_embd(s)    ? QSF_PART_EMBD
                          : unit == qsf_unit_final(s) ? QSF_PART_FINAL
                                                      : QSF_PART_LAYER;
    return role && role->part == part && (kind < QSF_K_SCALE || role->scale);
}

/* A scale is one float after the matrix that it multiplies. */
static qsf_status unit_check_scale(const qsf_source *s, uint32_t unit, const qsf_tensor *t, qsf_error *err)
{
    char name[32];
    if (t->kind < QSF_K_SCALE) return QSF_OK;
    if (t->type != QSF_T_F32 || t->rows != 1 || t->cols != 1)
        return qsf_fail(err, QSF_E_CORRUPT, "%s: %s of %s has type %u and %u x %u values, not one f32",
                        s->path, qsf_kind_name(t->kind), qsf_unit_name(s, unit, name), (unsigned)t->type,
                        (unsigned)t->rows, (unsigned)t->cols);
    const int matrix = qsf_unit_find(s, unit, qsf_kind_base(t->kind));
    if (matrix >= 0 && s->tensors[s->units[unit].first_tensor + (uint32_t)matrix].rows > 1) return QSF_OK;
    return qsf_fail(err, QSF_E_CORRUPT, "%s: %s of %s does not follow a matrix of that name", s->path,
                    qsf_kind_name(t->kind), qsf_unit_name(s, unit, name));
}

qsf_status qsf_unit_add(qsf_source *s, uint32_t unit, const qsf_tensor *t, uint64_t place, qsf_error *err)
{
    char name[32];
    qsf_unit *u = &s->units[unit];
    const uint32_t last = u->first_tensor + u->n_tensors;
    const char *where = qsf_unit_name(s, unit, name);
    if (!unit_takes_kind(s, unit, t->kind))
        return qsf_fail(err, QSF_E_UNSUPPORTED,
                        "%s: %s has a tensor of kind %u, which this version does not know there", s->path,
                        where, (unsigned)t->kind);
    if (t->type >= QSF_T_GGML)      /* numbers of GGUF's types, for memory only */
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: %s of %s has type %u, which is not one of QSF's",
                        s->path, qsf_kind_name(t->kind), where, (unsigned)t->type);
    if (u->n_tensors == QSF_MAX_UNIT_TENSORS)
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: %s has more than %d tensors", s->path, where,
                        (int)QSF_MAX_UNIT_TENSORS);
    for (uint32_t i = u->first_tensor; i < last; i++)
        if (s->tensors[i].kind == t->kind)
            return qsf_fail(err, QSF_E_CORRUPT, "%s: %s has %s twice", s->path, where,
                            qsf_kind_name(t->kind));
    const qsf_status st = unit_check_scale(s, unit, t, err);
    if (st) return st;
    const uint64_t from = u->n_tensors ? s->places[last - 1] + s->tensors[last - 1].bytes : 0;
    if (place < from || place > u->raw || t->bytes > u->raw - place)
        return qsf_fail(err, QSF_E_CORRUPT, "%s: %s of %s, %llu bytes at %llu, does not fit its %llu bytes",
                        s->path, qsf_kind_name(t->kind), where, (unsigned long long)t->bytes,
                        (unsigned long long)place, (unsigned long long)u->raw);
    /* Tensors that are read in words must be aligned to words. */
    if (place % (t->type == QSF_T_F32 || t->type == QSF_T_SPARSE ? 4
                 : t->type == QSF_T_F16 || t->type == QSF_T_BF16 ? 2 : 1))
        return qsf_fail(err, QSF_E_CORRUPT, "%s: %s of %s is not aligned", s->path,
                        qsf_kind_name(t->kind), where);
    s->tensors[last] = *t;
    s->places[last] = place;
    u->n_tensors++;
    s->n_tensors = QSF_MAX(s->n_tensors, last + 1);
    return QSF_OK;
}

/* ---- decompressing ---- */

struct qsf_unpack {
    atomic_flag taken;
    size_t      size;
    void       *mem;
};

qsf_status qsf_unpack_new(qsf_source *s, qsf_error *err)
{
    size_t size = 0;
    bool any = false;
    for (uint32_t i = 0; i < s->n_units; i++) {
        qsf_status st;
        if (s->units[i].compression == QSF_COMPRESS_NONE || s->units[i].rest) continue;
        if ((st = qsf_codec_check(s->units[i].compression, s->path, err))) return st;
        size = QSF_MAX(size, qsf_unpack_state(s->units[i].compression));
        any = true;
    }
    if (!any) return QSF_OK;
    struct qsf_unpack *u = qsf_arena_alloc(s->arena, sizeof *u, "decompressor", err);
    if (!u) return QSF_E_MEMORY;
    atomic_flag_clear(&u->taken);
    u->size = size;
    if (!(u->mem = qsf_arena_alloc(s->arena, size, "decompressor", err))) return QSF_E_MEMORY;
    s->unpack = u;
    return QSF_OK;
}

qsf_status qsf_unit_unpack(const qsf_source *s, uint32_t unit, const void *stored, void *raw, qsf_error *err)
{
    char name[32];
    const qsf_unit *u = &s->units[unit];
    struct qsf_unpack *own = s->unpack;
    const bool mine = !atomic_flag_test_and_set_explicit(&own->taken, memory_order_acquire);
    void *mem = mine ? own->mem : qsf_alloc(s->platform, own->size, "decompressor", err);
    if (!mem) return QSF_E_MEMORY;
    const bool ok = qsf_unpack(u->compression, mem, stored, (size_t)u->payload, raw, (size_t)u->raw);
    if (mine) atomic_flag_clear_explicit(&own->taken, memory_order_release);
    else qsf_dealloc(s->platform, mem, own->size);
    if (ok) return QSF_OK;
    return qsf_fail(err, QSF_E_CORRUPT, "%s: %s does not decompress (%s) to %llu bytes", s->path,
                    qsf_unit_name(s, unit, name), qsf_codec_name(u->compression), (unsigned long long)u->raw);
}

/* ---- checking a unit that has been read ---- */

static qsf_status unit_differs(const qsf_source *s, uint32_t unit, const char *what, uint64_t at,
                               qsf_error *err)
{
    char name[32];
    return qsf_fail(err, QSF_E_CORRUPT, "%s: %s at byte %llu of %s is not what the file's description says",
                    s->path, what, (unsigned long long)at, qsf_unit_name(s, unit, name));
}

/* The header chain from `at` on must hold tensors i .. of the unit, in order, with nothing between
 * them but skipped kinds. */
static qsf_status unit_check_chain(const qsf_source *s, uint32_t unit, const qsf_unit *u, const uint8_t *raw,
                                   uint64_t at, uint32_t i, qsf_error *err)
{
    while (i < u->n_tensors) {
        const qsf_tensor *want = &s->tensors[u->first_tensor + i];
        qsf_tensor t;
        if (at > u->raw || u->raw - at < QSF_TENSOR_HEAD)
            return unit_differs(s, unit, "the end of the tensors", at, err);
        if (qsf_tensor_header_get(raw + at, want->type, &t, err))
            return unit_differs(s, unit, "a tensor header", at, err);
        if (!qsf_kind_skipped(t.kind)) {
            if (t.kind != want->kind || t.rows != want->rows || t.cols != want->cols || t.type != want->type
                || t.packing != want->packing || t.block != want->block
                || at + QSF_TENSOR_HEAD != s->places[u->first_tensor + i])
                return unit_differs(s, unit, "a tensor header", at, err);
            i++;
        }
        if (t.bytes > u->raw - at - QSF_TENSOR_HEAD) return unit_differs(s, unit, "a tensor header", at, err);
        at += QSF_TENSOR_HEAD + t.bytes;
    }
    return QSF_OK;
}

static qsf_status unit_check_embd(const qsf_source *s, uint32_t unit, const uint8_t *raw, qsf_error *err)
{
    const qsf_unit *u = &s->units[unit];
    const qsf_tensor *t = &s->tensors[u->first_tensor];
    const uint64_t place = s->places[u->first_tensor];
    const uint8_t *h = raw + place - QSF_EMBD_HEAD;
    if (qsf_le32(h) != t->type || qsf_le32(h + 4) != (uint32_t)t->bytes || qsf_le32(h + 8) != t->rows
        || qsf_le32(h + 12) != t->cols)
        return unit_differs(s, unit, "the embedding header", place - QSF_EMBD_HEAD, err);
    return unit_check_chain(s, unit, u, raw, place + t->bytes, 1, err);
}

static qsf_status unit_check_final(const qsf_source *s, uint32_t unit, const uint8_t *raw, qsf_error *err)
{
    const qsf_unit *u = &s->units[unit];
    const qsf_tensor *t = &s->tensors[u->first_tensor];
    uint32_t i = 0;
    uint64_t at = 0;
    while (i < u->n_tensors && (t[i].kind == QSF_K_OUTPUT_NORM || t[i].kind == QSF_K_OUTPUT_NORM_BIAS))
        at += t[i++].bytes;
    const bool head = i < u->n_tensors && t[i].kind == QSF_K_OUTPUT;
    if (at >= u->raw || raw[at] != (head ? t[i].type : QSF_TIED))
        return unit_differs(s, unit, "the flag byte", at, err);
    if (head) {
        at = s->places[u->first_tensor + i] + t[i].bytes;
        i++;
    } else {
        at = qsf_round_up(at + 1, QSF_DATA_ALIGN);
    }
    return unit_check_chain(s, unit, u, raw, at, i, err);
}

/* One piece of a unit: if it is in one, that is all of it. */
static qsf_status piece_check_crc(const qsf_source *s, uint32_t unit, const qsf_unit *u, const void *bytes,
                                  bool rest, qsf_pool *pool, qsf_error *err)
{
    char name[32];
    const uint64_t len = rest ? u->rest : u->stored - u->rest;
    if (qsf_crc32_shared(pool, s->crc32, bytes, (size_t)len) == (rest ? u->rest_crc : u->crc)) return QSF_OK;
    return qsf_fail(err, QSF_E_CORRUPT,
                    "%s: the checksum of %s is wrong: its %llu bytes at %llu are damaged; fetch or convert "
                    "the file again", s->path, qsf_unit_name(s, unit, name), (unsigned long long)len,
                    (unsigned long long)s->extents[u->first_extent + (rest ? 1 : 0)].at);
}

static qsf_status unit_check_crc(const qsf_source *s, uint32_t unit, const qsf_unit *u, const uint8_t *stored,
                                 bool first, qsf_pool *pool, qsf_error *err)
{
    const qsf_status st = piece_check_crc(s, unit, u, stored, false, pool, err);
    if (st || first || !u->rest) return st;
    return piece_check_crc(s, unit, u, stored + u->stored - u->rest, true, pool, err);
}

qsf_status qsf_unit_check_sum(const qsf_source *s, uint32_t unit, const void *stored, unsigned check,
                              qsf_pool *pool, qsf_unit_times *t, qsf_error *err)
{
    const qsf_unit u = check & QSF_CHECK_SHARED ? qsf_unit_shared(s, unit) : s->units[unit];
    if (!(check & QSF_CHECK_CRC) || !u.has_crc) return QSF_OK;
    const uint64_t begin = qsf_now(s->platform);
    const qsf_status st = unit_check_crc(s, unit, &u, stored, check & QSF_CHECK_FIRST, pool, err);
    t->check += qsf_now(s->platform) - begin;
    return st;
}

/* ---- units in two pieces ---- */

static qsf_planes unit_planes(const qsf_source *s, uint32_t unit)
{
    const qsf_unit *u = &s->units[unit];
    return (qsf_planes){ s->tensors + u->first_tensor, s->places + u->first_tensor, u->n_tensors, u->raw };
}

qsf_status qsf_unit_check_pieces(const qsf_source *s, uint32_t unit, qsf_error *err)
{
    char name[32];
    const qsf_unit *u = &s->units[unit];
    const qsf_planes planes = unit_planes(s, unit);
    if (!u->rest || (qsf_planes_rest(&planes) == u->rest && u->raw - u->rest == u->payload)) return QSF_OK;
    return qsf_fail(err, QSF_E_CORRUPT, "%s: the pieces of %s, %llu and %llu bytes, do not fit its tensors",
                    s->path, qsf_unit_name(s, unit, name), (unsigned long long)u->payload,
                    (unsigned long long)u->rest);
}

static void unit_join(const qsf_source *s, uint32_t unit, const uint8_t *stored, uint8_t *raw, bool first)
{
    const qsf_unit *u = &s->units[unit];
    const qsf_planes planes = unit_planes(s, unit);
    qsf_planes_join(&planes, stored, first ? NULL : stored + u->stored - u->rest, raw);
}

qsf_status qsf_unit_refine(const qsf_source *s, uint32_t unit, const void *rest, void *raw, qsf_error *err)
{
    const qsf_planes planes = unit_planes(s, unit);
    const qsf_status st = piece_check_crc(s, unit, &s->units[unit], rest, true, NULL, err);
    if (!st) qsf_planes_refine(&planes, rest, raw);
    return st;
}

qsf_status qsf_qsf_unit_check(const qsf_source *s, uint32_t unit, const void *stored, void *raw,
                                 unsigned check, qsf_unit_times *t, qsf_error *err)
{
    const qsf_unit part = check & QSF_CHECK_SHARED ? qsf_unit_shared(s, unit) : s->units[unit], *u = &part;
    const uint8_t *bytes = stored;
    const bool first = check & QSF_CHECK_FIRST;
    const qsf_status sum = qsf_unit_check_sum(s, unit, stored, check, NULL, t, err);
    if (sum) return sum;
    if (u->compression != QSF_COMPRESS_NONE) {
        const uint64_t begin = qsf_now(s->platform);
        qsf_status st = QSF_OK;
        if (u->rest) unit_join(s, unit, stored, raw, first);
        else st = qsf_unit_unpack(s, unit, stored, raw, err);
        t->unpack += qsf_now(s->platform) - begin;
        if (st) return st;
        bytes = raw;
    }
    if (unit == qsf_unit_embd(s)) return unit_check_embd(s, unit, bytes, err);
    if (unit == qsf_unit_final(s)) return unit_check_final(s, unit, bytes, err);
    return unit_check_chain(s, unit, u, bytes, 0, 0, err);
}
