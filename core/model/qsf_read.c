/* Opens a QSF file: header, layer index, extension section; then units and tensors as the engine
 * sees them.
 * SPDX-License-Identifier: MIT
 *
 * With an extension section every byte of the file is in the header, the index, the section or a
 * unit, each under a CRC, and nothing but these three is read here.  Without one it is a plain file
 * (core/model/qsf_plain.c). */
#include "model/arch.h"
#include "model/compress.h"
#include "model/experts_alone.h"
#include "model/qsf_ext.h"
#include "model/qsf_file.h"
#include "model/source_formats.h"
#include "model/source_read.h"

typedef struct qsf_opening {
    uint8_t  header[QSF_HEADER_BYTES];
    uint32_t version;
    uint64_t index_at, embd_at, final_at;
    bool     extended;                  /* has an extension section */
    uint64_t ext_at, ext_bytes;
    uint8_t *index, *ext_mem;
    uint64_t index_bytes;
    qsf_ext  ext;
} qsf_opening;

/* ---- header ---- */

static qsf_status header_check(const qsf_source *s, qsf_opening *o, qsf_error *err)
{
    const uint8_t *h = o->header;
    if (qsf_crc32(0, h, 96) != qsf_le32(h + 96))
        return qsf_fail(err, QSF_E_CORRUPT,
                        "%s: the header's checksum is wrong; fetch or convert the file again", s->path);
    o->version = qsf_le32(h + 4);
    if (o->version < 1 || o->version > QSF_VERSION_MTP || qsf_le32(h + 8) != QSF_HEADER_BYTES)
        return qsf_fail(err, QSF_E_UNSUPPORTED,
                        "%s: format version %u with a header of %u bytes; this build reads versions 1 to 5",
                        s->path, (unsigned)o->version, (unsigned)qsf_le32(h + 8));
    if (qsf_le32(h + 92) != (uint32_t)s->lengths[0])
        return qsf_fail(err, QSF_E_CORRUPT,
                        "%s: the file has %llu bytes, its header was written for another length; was the "
                        "download cut short?", s->path, (unsigned long long)s->lengths[0]);
    bool plain = true;
    for (int i = 100; i < QSF_HEADER_BYTES; i++) plain &= h[i] == 0;
    if (plain && o->version == 1) return QSF_OK;
    if (qsf_crc32(0, h, 116) != qsf_le32(h + 116) || qsf_le64(h + 120))
        return qsf_fail(err, QSF_E_CORRUPT,
                        "%s: the checksum of header bytes 0-115 is wrong; fetch or convert the file again",
                        s->path);
    o->extended = true;
    o->ext_at = qsf_le64(h + 100);
    o->ext_bytes = qsf_le32(h + 108);
    return QSF_OK;
}

static int32_t header_id(const uint8_t *p, uint32_t n_vocab)
{
    const uint32_t id = qsf_le32(p);
    return id < n_vocab && id <= INT32_MAX ? (int32_t)id : -1;
}

static void header_get(qsf_source *s, qsf_opening *o)
{
    const uint8_t *h = o->header;
    qsf_hparams *hp = &s->hp;
    *hp = (qsf_hparams){
        .n_layers = qsf_le32(h + 16), .n_embd = qsf_le32(h + 20), .n_heads = qsf_le32(h + 24),
        .n_kv_heads = qsf_le32(h + 28), .n_vocab = qsf_le32(h + 32), .n_ctx_train = qsf_le32(h + 36),
        .n_ff = qsf_le32(h + 40), .head_dim = qsf_le32(h + 44), .act = h[49], .norm = h[50],
        .learned_pos = h[51] == 0, .rope = h[51] == 1 ? QSF_ROPE_HALVES : QSF_ROPE_NONE,
        .rope_base = qsf_lef32(h + 52), .norm_eps = 1e-5f, .embd_scale = 1, .scaling_factor = 1,
        .yarn_ext_factor = -1, .yarn_attn_factor = 1, .yarn_beta_fast = 32, .yarn_beta_slow = 1,
    };
    qsf_format(hp->arch, sizeof hp->arch, "%s", qsf_arch_of_number(qsf_le32(h + 12)));
    if (!hp->n_kv_heads) hp->n_kv_heads = hp->n_heads;
    if (!hp->head_dim && hp->n_heads) hp->head_dim = hp->n_embd / hp->n_heads;
    s->vocab = (qsf_vocab){ .bos = header_id(h + 80, hp->n_vocab), .eos = header_id(h + 84, hp->n_vocab),
                            .eot = -1, .unk = -1, .pad = header_id(h + 88, hp->n_vocab) };
    o->index_at = qsf_le64(h + 56);
    o->embd_at = qsf_le64(h + 64);
    o->final_at = qsf_le64(h + 72);
}

/* Numbers that everything later divides by, allocates from or indexes with. */
static qsf_status hparams_check(const qsf_source *s, const uint8_t *h, qsf_error *err)
{
    const qsf_hparams *hp = &s->hp;
    const struct { const char *name; uint32_t v, most; } counts[] = {
        { "hidden size", hp->n_embd, 1 << 20 }, { "heads", hp->n_heads, 1 << 16 },
        { "key/value heads", hp->n_kv_heads, hp->n_heads }, { "head size", hp->head_dim, QSF_MAX_HEAD_DIM },
        { "vocabulary", hp->n_vocab, 1 << 28 },
        { "sequence length", hp->n_ctx_train, INT32_MAX }, { "feed-forward size", hp->n_ff, 1 << 24 },
    };
    for (size_t i = 0; i < QSF_ARRAY_LEN(counts); i++)
        if (!counts[i].v || counts[i].v > counts[i].most)
            return qsf_fail(err, QSF_E_CORRUPT, "%s: the header's %s is %u; the range is 1 to %u", s->path,
                            counts[i].name, (unsigned)counts[i].v, (unsigned)counts[i].most);
    if (hp->n_heads % hp->n_kv_heads)
        return qsf_fail(err, QSF_E_CORRUPT, "%s: %u heads cannot share %u key/value heads", s->path,
                        (unsigned)hp->n_heads, (unsigned)hp->n_kv_heads);
    if (hp->act > QSF_ACT_SWIGLU_OAI || hp->norm > QSF_NORM_BARE)
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: activation %u with normalization %u is unknown", s->path,
                        (unsigned)hp->act, (unsigned)hp->norm);
    if (h[51] > 1)
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: position encoding %u%s is not supported", s->path,
                        (unsigned)h[51], h[51] == 2 ? " (ALiBi)" : "");
    if (hp->rope_dim > hp->head_dim || (hp->rope != QSF_ROPE_NONE
                                        && (!(hp->rope_base > 0) || !isfinite(hp->rope_base)
                                            || hp->head_dim % 2 || hp->rope_dim % 2)))
        return qsf_fail(err, QSF_E_CORRUPT, "%s: rotary base %g over %u of %u columns is not possible",
                        s->path, (double)hp->rope_base, (unsigned)hp->rope_dim, (unsigned)hp->head_dim);
    if (!(hp->norm_eps >= 0))
        return qsf_fail(err, QSF_E_CORRUPT, "%s: the norms' epsilon is %g", s->path, (double)hp->norm_eps);
    return QSF_OK;
}

/* ---- index and extension section ---- */

static qsf_status index_read(const qsf_source *s, qsf_opening *o, qsf_error *err)
{
    o->index_bytes = (uint64_t)s->hp.n_layers * QSF_ENTRY_BYTES;
    if (!s->hp.n_layers || s->hp.n_layers > QSF_MAX_LAYERS)
        return qsf_fail(err, QSF_E_CORRUPT, "%s: the header has %u layers; the range is 1 to %d", s->path,
                        (unsigned)s->hp.n_layers, (int)QSF_MAX_LAYERS);
    if (o->index_at > s->lengths[0] || o->index_bytes > s->lengths[0] - o->index_at)
        return qsf_fail(err, QSF_E_CORRUPT,
                        "%s: the layer index, %llu bytes at %llu, ends after the file's %llu; is it cut "
                        "short?", s->path, (unsigned long long)o->index_bytes,
                        (unsigned long long)o->index_at, (unsigned long long)s->lengths[0]);
    if (!(o->index = qsf_alloc(s->platform, o->index_bytes, "layer index", err))) return QSF_E_MEMORY;
    return qsf_source_read(s, 0, o->index_at, o->index, o->index_bytes, "layer index", err);
}

static qsf_status ext_read(const qsf_source *s, qsf_opening *o, qsf_error *err)
{
    qsf_status st;
    if (o->index_at != QSF_HEADER_BYTES || o->ext_at != o->index_at + o->index_bytes
        || o->ext_bytes > s->lengths[0] - o->ext_at)
        return qsf_fail(err, QSF_E_CORRUPT,
                        "%s: the extension section, %llu bytes at %llu, is not after the layer index or ends "
                        "after the file", s->path, (unsigned long long)o->ext_bytes,
                        (unsigned long long)o->ext_at);
    if (!(o->ext_mem = qsf_alloc(s->platform, o->ext_bytes, "extension section", err))) return QSF_E_MEMORY;
    if ((st = qsf_source_read(s, 0, o->ext_at, o->ext_mem, o->ext_bytes, "extension section", err)))
        return st;
    if (qsf_crc32(0, o->ext_mem, (size_t)o->ext_bytes) != qsf_le32(o->header + 112))
        return qsf_fail(err, QSF_E_CORRUPT,
                        "%s: the checksum of the extension section is wrong; fetch or convert the file again",
                        s->path);
    return qsf_ext_open(&o->ext, o->ext_mem, o->ext_bytes, s->path, err);
}

static qsf_status ext_describe(qsf_source *s, qsf_opening *o, qsf_error *err)
{
    qsf_status st;
    uint64_t size = 0;
    uint32_t index_crc = 0;
    if ((st = qsf_ext_get_u64(&o->ext, "file.size", &size, err))) return st;
    if ((st = qsf_ext_get_u32(&o->ext, "index.crc", &index_crc, err))) return st;
    if (size != s->lengths[0])
        return qsf_fail(err, QSF_E_CORRUPT,
                        "%s: the file has %llu bytes, it was written with %llu; was the download cut short?",
                        s->path, (unsigned long long)s->lengths[0], (unsigned long long)size);
    if (index_crc != qsf_crc32(0, o->index, (size_t)o->index_bytes))
        return qsf_fail(err, QSF_E_CORRUPT,
                        "%s: the checksum of the layer index is wrong; fetch or convert the file again",
                        s->path);
    if ((st = qsf_ext_get_hparams(&o->ext, &s->hp, s->arena, err))) return st;
    if ((st = qsf_ext_get_vocab(&o->ext, &s->vocab, s->arena, err))) return st;
    return qsf_ext_get_meta(&o->ext, &s->meta, &s->n_meta, s->arena, err);
}

/* The version keeps readers that know nothing of the embedding's clusters from taking
 * residuals for rows. */
static qsf_status ext_clusters(qsf_source *s, const qsf_opening *o, qsf_error *err)
{
    qsf_status st;
    if ((st = qsf_ext_get_clusters(&o->ext, &s->hp, &s->clusters, s->arena, err))) return st;
    if ((st = qsf_ext_get_embd_clusters(&o->ext, &s->hp, &s->embd_clusters, s->arena, err))) return st;
    const bool layers = qsf_ext_needs_reader(&s->hp);
    if (s->hp.mtp != (o->version == QSF_VERSION_MTP) || (s->hp.mtp && s->hp.n_layers < 2))
        return qsf_fail(err, QSF_E_CORRUPT,
                        "%s: format version %u with %u layers, but the description has %s layer for "
                        "multi-token prediction", s->path, (unsigned)o->version, (unsigned)s->hp.n_layers,
                        s->hp.mtp ? "a" : "no");
    if (o->version == QSF_VERSION_PLANES || s->hp.mtp) return QSF_OK;
    if ((o->version == QSF_VERSION_LAYERS) != layers)
        return qsf_fail(err, QSF_E_CORRUPT, "%s: format version %u, but the description has %s of version 3",
                        s->path, (unsigned)o->version, layers ? "keys" : "no key");
    if (layers || (o->version == QSF_VERSION_EMBD_CLUSTERS) == (s->embd_clusters != NULL)) return QSF_OK;
    return qsf_fail(err, QSF_E_CORRUPT,
                    "%s: format version %u, but the file has %s clusters of the embedding", s->path,
                    (unsigned)o->version, s->embd_clusters ? "its" : "no");
}

/* ---- units: with an extension section they cover the file without a gap ---- */

static qsf_status ext_unit(qsf_source *s, uint32_t unit, uint64_t at, uint64_t end, qsf_error *err)
{
    char name[32];
    if (at % QSF_DATA_ALIGN || end <= at || end > s->lengths[0])
        return qsf_fail(err, QSF_E_CORRUPT, "%s: %s cannot be from byte %llu to %llu of %llu", s->path,
                        qsf_unit_name(s, unit, name), (unsigned long long)at, (unsigned long long)end,
                        (unsigned long long)s->lengths[0]);
    s->units[unit] = (qsf_unit){ .stored = end - at, .raw = end - at, .payload = end - at, .has_crc = true,
                                 .importance = 1, .first_extent = 2 * unit, .n_extents = 1 };
    s->extents[2 * unit] = (qsf_extent){ 0, at, end - at, 0 };
    return QSF_OK;
}

/* After the payload the extent is filled with less than 4096 zeros;
 * the CRC of both follows from the payload's. */
static qsf_status ext_layer(qsf_source *s, uint32_t i, const uint8_t *entry, uint64_t end, qsf_error *err)
{
    static const uint8_t zeros[QSF_UNIT_ALIGN];
    qsf_unit *u = &s->units[i];
    qsf_status st = ext_unit(s, i, qsf_le64(entry), end, err);
    if (st) return st;
    const uint64_t payload = qsf_le32(entry + 8), raw = qsf_le32(entry + 12);
    u->compression = entry[17];
    u->importance = qsf_lef32(entry + 24);
    if ((st = qsf_codec_check(u->compression, s->path, err))) return st;
    if (payload > u->stored || u->stored - payload >= QSF_UNIT_ALIGN || !isfinite(u->importance)
        || qsf_le32(entry + 28) || (u->compression ? raw > qsf_unpack_bound(u->compression, payload)
                                    : raw != payload))
        return qsf_fail(err, QSF_E_CORRUPT, "%s: layer %u: its entry in the layer index is damaged", s->path,
                        (unsigned)i);
    u->payload = payload;
    if (u->compression) u->raw = raw;
    u->crc = qsf_crc32(qsf_le32(entry + 20), zeros, (size_t)(u->stored - payload));
    return QSF_OK;
}

static qsf_status ext_chunks(qsf_source *s, const qsf_ext *x, const char *key, uint32_t unit, uint32_t *n,
                             const uint32_t **crcs, qsf_error *err)
{
    qsf_ext_value v;
    const qsf_status st = qsf_ext_get(x, key, QSF_EXT_U32, &v, err);
    if (st || !v.data) return st;
    if (v.count != qsf_ceil_div(s->units[unit].stored, s->crc_chunk))
        return qsf_fail(err, QSF_E_CORRUPT, "%s: %s has %u values, which does not fit", s->path, key,
                        (unsigned)v.count);
    uint32_t *out = qsf_arena_array(s->arena, v.count, sizeof *out, "checksums", err);
    if (!out) return QSF_E_MEMORY;
    for (uint32_t i = 0; i < v.count; i++) out[i] = qsf_le32(v.data + 4 * (size_t)i);
    *n = v.count;
    *crcs = out;
    return QSF_OK;
}

/* One unit's line of `rest`: bytes, CRC, the unit's raw size.  What fits the tensors is checked
 * when they are known.  Pieces lie in file order, to the file's end. */
static qsf_status rest_line(qsf_source *s, uint32_t unit, const uint8_t *line, uint64_t *at, qsf_error *err)
{
    char name[32];
    qsf_unit *u = &s->units[unit];
    const uint64_t bytes = qsf_le64(line), crc = qsf_le64(line + 8), raw = qsf_le64(line + 16);
    qsf_extent *x = &s->extents[u->first_extent];
    if (bytes > s->lengths[0] - *at || crc > UINT32_MAX || u->compression || raw < bytes
        || raw - bytes > x->len || (unit < s->hp.n_layers && raw - bytes != u->payload)
        || x->len - (raw - bytes) >= QSF_UNIT_ALIGN)
        return qsf_fail(err, QSF_E_CORRUPT, "%s: %s: its second piece, %llu bytes at %llu, does not fit",
                        s->path, qsf_unit_name(s, unit, name), (unsigned long long)bytes,
                        (unsigned long long)*at);
    if (!bytes) return QSF_OK;
    x[1] = (qsf_extent){ 0, *at, bytes, x->len };
    *at += bytes;
    u->payload = raw - bytes;
    u->raw = raw;
    u->stored = x->len + bytes;
    u->rest = bytes;
    u->rest_crc = (uint32_t)crc;
    u->compression = QSF_COMPRESS_PLANES;
    u->n_extents = 2;
    return QSF_OK;
}

static qsf_status ext_rest(qsf_source *s, const qsf_opening *o, uint64_t at, qsf_error *err)
{
    enum { LINE = 24 };
    qsf_ext_value v;
    qsf_status st;
    if ((st = qsf_ext_get(&o->ext, "rest", QSF_EXT_U64, &v, err))) return st;
    if (v.count != (LINE / 8) * ((uint64_t)s->hp.n_layers + 1))
        return qsf_fail(err, QSF_E_CORRUPT, "%s: rest has %u values, which does not fit", s->path,
                        (unsigned)v.count);
    if ((st = rest_line(s, qsf_unit_embd(s), v.data, &at, err))) return st;
    for (uint32_t i = 0; i < s->hp.n_layers; i++)
        if ((st = rest_line(s, i, v.data + (size_t)LINE * (i + 1), &at, err))) return st;
    if (at == s->lengths[0]) return QSF_OK;
    return qsf_fail(err, QSF_E_CORRUPT, "%s: the units' second pieces end at %llu of %llu bytes", s->path,
                    (unsigned long long)at, (unsigned long long)s->lengths[0]);
}

static qsf_status ext_units(qsf_source *s, qsf_opening *o, qsf_error *err)
{
    qsf_status st;
    const uint32_t n = s->hp.n_layers, embd = qsf_unit_embd(s), final = qsf_unit_final(s);
    const uint64_t begin = o->ext_at + o->ext_bytes;
    uint64_t final_end = s->lengths[0];
    if (o->version == QSF_VERSION_PLANES && (st = qsf_ext_get_u64(&o->ext, "rest.at", &final_end, err)))
        return st;
    if (o->embd_at != begin + QSF_EMBD_FRONT)
        return qsf_fail(err, QSF_E_CORRUPT,
                        "%s: the embedding section, at %llu, is not after the extension section", s->path,
                        (unsigned long long)o->embd_at);
    if ((st = ext_unit(s, embd, begin, qsf_le64(o->index), err))) return st;
    for (uint32_t i = 0; i < n; i++) {
        const uint8_t *entry = o->index + (size_t)i * QSF_ENTRY_BYTES;
        if ((st = ext_layer(s, i, entry, i + 1 < n ? qsf_le64(entry + QSF_ENTRY_BYTES) : o->final_at, err)))
            return st;
    }
    if ((st = ext_unit(s, final, o->final_at, final_end, err))) return st;
    if (o->version == QSF_VERSION_PLANES && (st = ext_rest(s, o, final_end, err))) return st;
    if ((st = qsf_ext_get_u32(&o->ext, "embd.crc", &s->units[embd].crc, err))) return st;
    if ((st = qsf_ext_get_u32(&o->ext, "final.crc", &s->units[final].crc, err))) return st;
    if ((st = qsf_ext_get_u32(&o->ext, "crc.chunk", &s->crc_chunk, err))) return st;
    if (s->crc_chunk) {
        if (s->crc_chunk < QSF_UNIT_ALIGN)
            return qsf_fail(err, QSF_E_CORRUPT, "%s: checksums of chunks of %u bytes", s->path,
                            (unsigned)s->crc_chunk);
        if ((st = ext_chunks(s, &o->ext, "embd.crcs", embd, &s->n_embd_crcs, &s->embd_crcs, err))) return st;
        if ((st = ext_chunks(s, &o->ext, "final.crcs", final, &s->n_final_crcs, &s->final_crcs, err)))
            return st;
    }
    return qsf_unpack_new(s, err);
}

/* ---- the tensor directory ---- */

static qsf_status directory_line(qsf_source *s, const uint8_t *line, uint32_t *last_unit, qsf_error *err)
{
    const uint32_t unit = qsf_le32(line), embd = qsf_unit_embd(s);
    const uint64_t place = qsf_le64(line + 16);
    qsf_tensor t = { .kind = qsf_le32(line + 4), .rows = qsf_le32(line + 8), .cols = qsf_le32(line + 12),
                     .type = line[24], .packing = line[25], .block = qsf_le16(line + 26) };
    qsf_status st;
    if (qsf_kind_skipped(t.kind)) return QSF_OK;
    if (unit >= s->n_units)
        return qsf_fail(err, QSF_E_CORRUPT, "%s: the tensor directory names unit %u of %u", s->path,
                        (unsigned)unit, (unsigned)s->n_units);
    if (unit != *last_unit) {       /* file order: embedding, layers, final section */
        const uint32_t next = *last_unit == UINT32_MAX ? embd : *last_unit == embd ? 0
            : *last_unit + 1 == embd ? qsf_unit_final(s) : *last_unit + 1;
        if (unit != next)
            return qsf_fail(err, QSF_E_CORRUPT, "%s: the tensor directory is not in the file's order",
                            s->path);
        s->units[unit].first_tensor = s->n_tensors;
        *last_unit = unit;
    }
    if ((st = qsf_tensor_bytes(t.type, t.packing, t.block, t.rows, t.cols, &t.bytes, err))) return st;
    return qsf_unit_add(s, unit, &t, place, err);
}

/* The embedding and the head have places that follow from the format. */
static qsf_status directory_fixed(qsf_source *s, qsf_error *err)
{
    const qsf_unit *e = &s->units[qsf_unit_embd(s)], *f = &s->units[qsf_unit_final(s)];
    const qsf_tensor *te = &s->tensors[e->first_tensor], *tf = &s->tensors[f->first_tensor];
    const uint64_t *pf = &s->places[f->first_tensor];
    if (!e->n_tensors || te->kind != QSF_K_TOKEN_EMBD || s->places[e->first_tensor] != QSF_DATA_ALIGN)
        return qsf_fail(err, QSF_E_CORRUPT, "%s: the tensor directory has no token embedding at its place",
                        s->path);
    uint64_t at = 0;
    uint32_t i = 0;
    for (; i < f->n_tensors && i < 2 && tf[i].kind == QSF_K_OUTPUT_NORM + i; i++) {
        if (tf[i].type != QSF_T_F16 || tf[i].rows != 1 || tf[i].cols != s->hp.n_embd || pf[i] != at) break;
        at += tf[i].bytes;
    }
    if ((i == 0 && qsf_final_norm(&s->hp)) || (i < f->n_tensors && tf[i].kind < QSF_K_OUTPUT))
        return qsf_fail(err, QSF_E_CORRUPT, "%s: the tensor directory has no final norm at its place",
                        s->path);
    const int head = qsf_unit_find(s, qsf_unit_final(s), QSF_K_OUTPUT);
    if (head >= 0 && ((uint32_t)head != i || pf[head] != qsf_round_up(at + 1, QSF_DATA_ALIGN)))
        return qsf_fail(err, QSF_E_CORRUPT,
                        "%s: the tensor directory has the head at another place than the final section",
                        s->path);
    s->hp.tied = head < 0;
    if (s->hp.tied && s->embd_clusters)
        return qsf_fail(err, QSF_E_CORRUPT,
                        "%s: an embedding in clusters cannot be the head, and the file has no other",
                        s->path);
    return QSF_OK;
}

static qsf_status ext_tensors(qsf_source *s, const qsf_ext *x, qsf_error *err)
{
    qsf_status st;
    qsf_ext_value v;
    uint32_t last_unit = UINT32_MAX;
    if ((st = qsf_ext_get(x, "tensors", QSF_EXT_U8, &v, err))) return st;
    const uint32_t n = v.count / QSF_DIR_BYTES;
    if (!n || v.count % QSF_DIR_BYTES)
        return qsf_fail(err, QSF_E_CORRUPT, "%s: the extension section has no whole tensor directory",
                        s->path);
    if (!(s->tensors = qsf_arena_array(s->arena, n, sizeof *s->tensors, "tensors", err))) return QSF_E_MEMORY;
    if (!(s->places = qsf_arena_array(s->arena, n, sizeof *s->places, "tensors", err))) return QSF_E_MEMORY;
    for (uint32_t i = 0; i < n; i++)
        if ((st = directory_line(s, v.data + (size_t)i * QSF_DIR_BYTES, &last_unit, err))) return st;
    for (uint32_t i = 0; i < s->n_units; i++)
        if ((st = qsf_unit_check_pieces(s, i, err))) return st;
    return directory_fixed(s, err);
}

/* ---- opening ---- */

static qsf_status units_new(qsf_source *s, qsf_error *err)
{
    s->n_units = qsf_units_of(s->hp.n_layers);
    s->n_extents = 2 * s->n_units;      /* a unit may lie in two pieces */
    if (!(s->units = qsf_arena_array(s->arena, s->n_units, sizeof *s->units, "units", err)))
        return QSF_E_MEMORY;
    if (!(s->extents = qsf_arena_array(s->arena, s->n_extents, sizeof *s->extents, "units", err)))
        return QSF_E_MEMORY;
    return QSF_OK;
}

static qsf_status opening_run(qsf_source *s, qsf_opening *o, qsf_error *err)
{
    qsf_status st;
    if ((st = qsf_source_read(s, 0, 0, o->header, sizeof o->header, "header", err))) return st;
    if ((st = header_check(s, o, err))) return st;
    header_get(s, o);
    if ((st = index_read(s, o, err))) return st;
    if (!o->extended) {
        if ((st = hparams_check(s, o->header, err))) return st;
        if ((st = units_new(s, err))) return st;
        return qsf_plain_units(s, o->index, o->embd_at, o->final_at, err);
    }
    if ((st = ext_read(s, o, err))) return st;
    if ((st = ext_describe(s, o, err))) return st;
    if ((st = hparams_check(s, o->header, err))) return st;
    if ((st = ext_clusters(s, o, err))) return st;
    if ((st = units_new(s, err))) return st;
    if ((st = ext_units(s, o, err)) || (st = ext_tensors(s, &o->ext, err))) return st;
    s->hp.mtp_norm = s->hp.mtp && qsf_unit_find(s, s->hp.n_layers - 1, QSF_K_MTP_NORM) >= 0;
    return QSF_OK;
}

/* A model runs without the layer for multi-token prediction, which was checked with the others. */
static qsf_status opening_mtp(qsf_source *s, qsf_error *err)
{
    const uint32_t last = s->hp.n_layers - 1;
    if (s->mtp && !s->hp.mtp)
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: has no layer for multi-token prediction", s->path);
    s->n_mtp = s->hp.mtp;
    if (!s->hp.mtp || s->mtp) return QSF_OK;
    qsf_unit *u = &s->units[last];
    const uint32_t first = u->first_tensor, n = u->n_tensors, rest = s->n_tensors - first - n;
    memmove(s->tensors + first, s->tensors + first + n, rest * sizeof *s->tensors);
    memmove(s->places + first, s->places + first + n, rest * sizeof *s->places);
    memmove(u, u + 1, 2 * sizeof *u);
    u[1].first_tensor -= u[1].n_tensors ? n : 0;
    s->n_tensors -= n;
    s->n_units--;
    s->hp.n_layers = last;
    s->hp.mtp = s->hp.mtp_norm = false;
    return qsf_layers_fill(s, err);
}

qsf_status qsf_qsf_open(qsf_source *s, qsf_error *err)
{
    qsf_opening o = { .extended = false };
    qsf_ext_value gated = { NULL, 0, 0 };
    qsf_status st = opening_run(s, &o, err);
    if (!st && o.extended) st = qsf_ext_get(&o.ext, "ffn.gated", QSF_EXT_U8, &gated, err);
    if (!st && !gated.data) s->hp.gated = qsf_unit_find(s, 0, QSF_K_FFN_GATE) >= 0;
    if (!st) st = qsf_layers_fill(s, err);
    if (!st) st = qsf_source_check_shapes(s, err);
    if (!st && o.extended) st = qsf_ext_get_experts(&o.ext, s, err);
    if (!st) st = opening_mtp(s, err);
    for (uint32_t i = 0; !st && i < s->n_tensors; i++)
        if (s->tensors[i].type != QSF_T_SPARSE)
            s->n_params += (uint64_t)s->tensors[i].rows * s->tensors[i].cols;
    for (uint32_t i = 0; !st && i < s->n_units; i++) s->weight_bytes += s->units[i].stored;
    s->opening = qsf_arena_used(s->arena) + o.ext_bytes + o.index_bytes;
    qsf_dealloc(s->platform, o.ext_mem, o.ext_bytes);
    qsf_dealloc(s->platform, o.index, o.index_bytes);
    return st;
}
