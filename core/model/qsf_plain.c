/* Plain QSF files, of the original format specification: they have no extension section, so tensor
 * shapes are read from the tensors' own headers.
 * SPDX-License-Identifier: MIT */
#include "model/compress.h"
#include "model/qsf_file.h"
#include "model/source_formats.h"
#include "model/source_read.h"

/* A unit of known place: one extent. */
static qsf_status plain_unit(qsf_source *s, uint32_t unit, uint64_t at, uint64_t bytes, qsf_error *err)
{
    char name[32];
    qsf_unit *u = &s->units[unit];
    if (at > s->lengths[0] || bytes > s->lengths[0] - at)
        return qsf_fail(err, QSF_E_CORRUPT,
                        "%s: %s, %llu bytes at %llu, ends after the file's %llu; is it cut short?", s->path,
                        qsf_unit_name(s, unit, name), (unsigned long long)bytes, (unsigned long long)at,
                        (unsigned long long)s->lengths[0]);
    *u = (qsf_unit){ .stored = bytes, .raw = bytes, .payload = bytes, .importance = 1, .first_extent = unit,
                     .n_extents = 1, .first_tensor = s->n_tensors };
    s->extents[unit] = (qsf_extent){ 0, at, bytes, 0 };
    return QSF_OK;
}

/* The tensors of a layer: from its bytes if it had to be decompressed (raw),
 * else header by header from the file. */
static qsf_status plain_chain(qsf_source *s, uint32_t unit, const uint8_t *raw, uint8_t layer_type,
                              uint32_t n_headers, qsf_error *err)
{
    char name[32];
    qsf_status st;
    qsf_unit *u = &s->units[unit];
    uint64_t at = 0;
    for (uint32_t i = 0; i < n_headers; i++) {
        uint8_t h[QSF_TENSOR_HEAD];
        qsf_tensor t;
        if (u->raw - at < QSF_TENSOR_HEAD)
            return qsf_fail(err, QSF_E_CORRUPT, "%s: %s ends before its %u tensors do", s->path,
                            qsf_unit_name(s, unit, name), (unsigned)n_headers);
        if (raw) memcpy(h, raw + at, sizeof h);
        else if ((st = qsf_source_read(s, 0, s->extents[unit].at + at, h, sizeof h, "tensor headers", err)))
            return st;
        if ((st = qsf_tensor_header_get(h, layer_type, &t, err))) return st;
        at += QSF_TENSOR_HEAD;
        if (t.bytes > u->raw - at)
            return qsf_fail(err, QSF_E_CORRUPT,
                            "%s: tensor %u of %s, %llu bytes at %llu, goes past its %llu bytes", s->path,
                            (unsigned)i, qsf_unit_name(s, unit, name), (unsigned long long)t.bytes,
                            (unsigned long long)at, (unsigned long long)u->raw);
        if (!qsf_kind_skipped(t.kind) && (st = qsf_unit_add(s, unit, &t, at, err))) return st;
        at += t.bytes;
    }
    if (at != u->raw)
        return qsf_fail(err, QSF_E_CORRUPT, "%s: %s continues after its %u tensors", s->path,
                        qsf_unit_name(s, unit, name), (unsigned)n_headers);
    return QSF_OK;
}

static qsf_status plain_packed(qsf_source *s, uint32_t unit, uint8_t layer_type, uint32_t n_headers,
                               qsf_error *err)
{
    qsf_status st;
    qsf_unit *u = &s->units[unit];
    uint8_t *raw = NULL, *stored = qsf_alloc(s->platform, u->stored, "compressed layer", err);
    if (!stored) return QSF_E_MEMORY;
    if ((st = qsf_source_read(s, 0, s->extents[unit].at, stored, u->stored, "compressed layer", err)))
        goto done;
    if (s->crc32(0, stored, (size_t)u->stored) != u->crc) {
        st = qsf_fail(err, QSF_E_CORRUPT,
                      "%s: the checksum of layer %u is wrong; fetch or convert the file again", s->path,
                      (unsigned)unit);
        goto done;
    }
    if (!(raw = qsf_alloc(s->platform, u->raw, "decompressed layer", err))) {
        st = QSF_E_MEMORY;
        goto done;
    }
    if ((st = qsf_unit_unpack(s, unit, stored, raw, err))) goto done;
    st = plain_chain(s, unit, raw, layer_type, n_headers, err);
done:
    qsf_dealloc(s->platform, raw, u->raw);
    qsf_dealloc(s->platform, stored, u->stored);
    return st;
}

static qsf_status plain_layers(qsf_source *s, const uint8_t *index, qsf_error *err)
{
    qsf_status st;
    for (uint32_t i = 0; i < s->hp.n_layers; i++) {
        const uint8_t *e = index + (size_t)i * QSF_ENTRY_BYTES;
        qsf_unit *u = &s->units[i];
        if ((st = plain_unit(s, i, qsf_le64(e), qsf_le32(e + 8), err))) return st;
        u->raw = qsf_le32(e + 12);
        u->compression = e[17];
        u->has_crc = true;
        u->crc = qsf_le32(e + 20);
        u->importance = qsf_lef32(e + 24);
        if ((st = qsf_codec_check(u->compression, s->path, err))) return st;
        if (!isfinite(u->importance) || u->raw > qsf_unpack_bound(u->compression, u->payload)
            || (!u->compression && u->raw != u->payload))
            return qsf_fail(err, QSF_E_CORRUPT, "%s: layer %u: its entry in the layer index is damaged",
                            s->path, (unsigned)i);
    }
    if ((st = qsf_unpack_new(s, err))) return st;
    for (uint32_t i = 0; i < s->hp.n_layers; i++) {
        const uint8_t *e = index + (size_t)i * QSF_ENTRY_BYTES;
        s->units[i].first_tensor = s->n_tensors;
        if (s->units[i].compression) st = plain_packed(s, i, e[16], qsf_le16(e + 18), err);
        else st = plain_chain(s, i, NULL, e[16], qsf_le16(e + 18), err);
        if (st) return st;
    }
    return QSF_OK;
}

/* Embedding header, matrix, and with learned positions a tensor with a header of its own. */
static qsf_status plain_embd(qsf_source *s, uint64_t at, qsf_error *err)
{
    qsf_status st;
    const uint32_t unit = qsf_unit_embd(s);
    uint8_t h[QSF_EMBD_HEAD];
    qsf_tensor t = { .kind = QSF_K_TOKEN_EMBD }, pos = { 0 };
    if ((st = qsf_source_read(s, 0, at, h, sizeof h, "embedding header", err))) return st;
    if (qsf_le32(h) > UINT8_MAX)
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: the embedding has unknown type %u", s->path,
                        (unsigned)qsf_le32(h));
    t.type = (uint8_t)qsf_le32(h);
    t.rows = qsf_le32(h + 8);
    t.cols = qsf_le32(h + 12);
    t.block = (uint16_t)qsf_header_block(t.type, 0);
    if ((st = qsf_tensor_bytes(t.type, 0, t.block, t.rows, t.cols, &t.bytes, err))) return st;
    if (t.rows != s->hp.n_vocab || t.cols != s->hp.n_embd || (uint32_t)t.bytes != qsf_le32(h + 4))
        return qsf_fail(err, QSF_E_CORRUPT, "%s: the embedding, %u x %u in %u bytes, does not fit the header",
                        s->path, (unsigned)t.rows, (unsigned)t.cols, (unsigned)qsf_le32(h + 4));
    if (t.bytes > s->lengths[0]) return plain_unit(s, unit, at, t.bytes, err);
    uint64_t bytes = QSF_EMBD_HEAD + t.bytes;
    if (s->hp.learned_pos) {
        if ((st = qsf_source_read(s, 0, at + bytes, h, sizeof h, "header of the position embedding", err)))
            return st;
        if ((st = qsf_tensor_header_get(h, QSF_T_F16, &pos, err))) return st;
        if (pos.kind != QSF_K_POS_EMBD || pos.cols != s->hp.n_embd)
            return qsf_fail(err, QSF_E_UNSUPPORTED,
                            "%s: learned positions, but no position embedding after the token embedding",
                            s->path);
        bytes += QSF_TENSOR_HEAD;
        if (qsf_add_u64(bytes, pos.bytes, &bytes))
            return qsf_fail(err, QSF_E_CORRUPT, "%s: the position embedding is too large", s->path);
    }
    if ((st = plain_unit(s, unit, at, bytes, err))) return st;
    if ((st = qsf_unit_add(s, unit, &t, QSF_EMBD_HEAD, err)) || !s->hp.learned_pos) return st;
    return qsf_unit_add(s, unit, &pos, QSF_EMBD_HEAD + t.bytes + QSF_TENSOR_HEAD, err);
}

/* Norm, its bias under LayerNorm, the flag byte (0xFF: tied, else the head's type), the head. */
static qsf_status plain_final(qsf_source *s, uint64_t at, qsf_error *err)
{
    qsf_status st;
    const uint32_t unit = qsf_unit_final(s);
    const qsf_hparams *hp = &s->hp;
    qsf_tensor norm = { .kind = QSF_K_OUTPUT_NORM, .type = QSF_T_F16, .block = 1, .rows = 1,
                        .cols = hp->n_embd, .bytes = 2 * (uint64_t)hp->n_embd };
    qsf_tensor head = { .kind = QSF_K_OUTPUT, .rows = hp->n_vocab, .cols = hp->n_embd };
    const uint64_t flag_at = norm.bytes * (hp->norm == QSF_NORM_LAYER ? 2 : 1);
    uint8_t flag;
    /* at lies in the file: sums below are safe */
    if ((st = qsf_source_read(s, 0, at, &flag, 0, "final section", err))) return st;
    if ((st = qsf_source_read(s, 0, at + flag_at, &flag, 1, "flag byte of the final section", err)))
        return st;
    uint64_t bytes = flag_at + 1;
    s->hp.tied = flag == QSF_TIED;
    if (!hp->tied) {
        head.type = flag;
        head.block = (uint16_t)qsf_header_block(flag, 0);
        if ((st = qsf_tensor_bytes(head.type, 0, head.block, head.rows, head.cols, &head.bytes, err)))
            return st;
        if (qsf_add_u64(bytes, head.bytes, &bytes))
            return qsf_fail(err, QSF_E_CORRUPT, "%s: the head is too large", s->path);
    }
    if ((st = plain_unit(s, unit, at, bytes, err))) return st;
    if ((st = qsf_unit_add(s, unit, &norm, 0, err))) return st;
    norm.kind = QSF_K_OUTPUT_NORM_BIAS;
    if (hp->norm == QSF_NORM_LAYER && (st = qsf_unit_add(s, unit, &norm, norm.bytes, err))) return st;
    return hp->tied ? QSF_OK : qsf_unit_add(s, unit, &head, flag_at + 1, err);
}

qsf_status qsf_plain_units(qsf_source *s, const uint8_t *index, uint64_t embd_at, uint64_t final_at,
                           qsf_error *err)
{
    qsf_status st;
    const uint64_t most = (uint64_t)s->n_units * QSF_MAX_UNIT_TENSORS;
    if (!(s->tensors = qsf_arena_array(s->arena, most, sizeof *s->tensors, "tensors", err)))
        return QSF_E_MEMORY;
    if (!(s->places = qsf_arena_array(s->arena, most, sizeof *s->places, "tensors", err)))
        return QSF_E_MEMORY;
    if ((st = plain_embd(s, embd_at, err))) return st;
    if ((st = plain_layers(s, index, err))) return st;
    return plain_final(s, final_at, err);
}
