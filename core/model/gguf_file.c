/* GGUF's container: header, keys, tensor places, split files.
 * SPDX-License-Identifier: MIT
 *
 * Everything before the weights is read to memory, more and more of it until it is whole, so that
 * all parsing is of plain memory.  Nothing is allocated by a count or length before that was
 * compared with the file's length. */
#include "model/gguf.h"
#include "base/order.h"
#include "model/source_read.h"

enum {
    GGUF_MAX_KEYS = 1 << 16,
    GGUF_MAX_TENSORS = 1 << 16,                  /* the largest models have about 2000 */
    GGUF_MIN_KEY = 8 + 4 + 1,                    /* bytes of the smallest key and tensor */
    GGUF_MIN_TENSOR = 8 + 4 + 8 + 4 + 8,
    GGUF_FIRST_READ = 1 << 20,
    GGUF_IDS = 27                                /* ggml's type of 64-bit numbers */
};

/* ---- a place in the bytes that are there ---- */

/* Where parsing is.  If the bytes in memory end there, it resumes when there are more. */
typedef struct gguf_cursor {
    const gguf    *g;
    uint32_t       file;
    const uint8_t *begin;
    uint64_t       at, len;     /* len: bytes in memory */
    uint32_t       n_kv, n_tensors;     /* parsed */
    bool           in_list;     /* of strings, the value of key n_kv */
    uint64_t       n_strings;   /* of that list, parsed */
} gguf_cursor;

static const char *cursor_path(const gguf_cursor *c) { return c->g->s->paths[c->file]; }

/* Why the next n bytes are not in memory.  QSF_PENDING: they are in the file. */
static qsf_status gguf_lacks(const gguf_cursor *c, uint64_t n, qsf_error *err)
{
    const uint64_t length = c->g->s->lengths[c->file];
    if (n <= length - c->at) return QSF_PENDING;
    return qsf_fail(err, QSF_E_CORRUPT,
                    "%s: the file ends inside its description: %llu bytes at %llu, file of %llu; is it "
                    "cut short?", cursor_path(c), (unsigned long long)n, (unsigned long long)c->at,
                    (unsigned long long)length);
}

static inline qsf_status gguf_take(gguf_cursor *c, uint64_t n, const uint8_t **out, qsf_error *err)
{
    if (n > c->len - c->at) return gguf_lacks(c, n, err);
    *out = c->begin + c->at;
    c->at += n;
    return QSF_OK;
}

static qsf_status gguf_take_u32(gguf_cursor *c, uint32_t *out, qsf_error *err)
{
    const uint8_t *p = NULL;
    const qsf_status st = gguf_take(c, 4, &p, err);
    if (!st) *out = qsf_le32(p);
    return st;
}

static inline qsf_status gguf_take_u64(gguf_cursor *c, uint64_t *out, qsf_error *err)
{
    const uint8_t *p = NULL;
    const qsf_status st = gguf_take(c, 8, &p, err);
    if (!st) *out = qsf_le64(p);
    return st;
}

static inline qsf_status gguf_take_string(gguf_cursor *c, gguf_text *out, qsf_error *err)
{
    uint64_t len = 0;
    const uint8_t *p = NULL;
    qsf_status st = gguf_take_u64(c, &len, err);
    if (!st) st = gguf_take(c, len, &p, err);
    if (!st) *out = (gguf_text){ (const char *)p, (size_t)len };
    return st;
}

gguf_text qsf_gguf_next_string(const uint8_t **at)
{
    const gguf_text t = { (const char *)*at + 8, (size_t)qsf_le64(*at) };
    *at += 8 + t.len;
    return t;
}

/* ---- header, keys, tensors ---- */

static qsf_status gguf_take_strings(gguf_cursor *c, uint64_t n, qsf_error *err)
{
    gguf_text t;
    for (; c->n_strings < n; c->n_strings++) {   /* ends with the file at the latest */
        const uint64_t at = c->at;
        const qsf_status st = gguf_take_string(c, &t, err);
        if (!st) continue;
        c->at = at;
        return st;
    }
    c->n_strings = 0;
    c->in_list = false;
    return QSF_OK;
}

/* A key and its value; strings are parsed by gguf_take_strings. */
static qsf_status gguf_take_key(gguf_cursor *c, gguf_kv *kv, qsf_error *err)
{
    qsf_status st;
    const uint8_t *p;
    if ((st = gguf_take_string(c, &kv->key, err))) return st;
    if ((st = gguf_take_u32(c, &kv->type, err))) return st;
    kv->n = 1;
    kv->array = kv->type == GGUF_ARRAY;
    if (kv->array) {
        if ((st = gguf_take_u32(c, &kv->type, err)) || (st = gguf_take_u64(c, &kv->n, err))) return st;
    }
    if (kv->type >= GGUF_N_TYPES || kv->type == GGUF_ARRAY)
        return qsf_fail(err, QSF_E_CORRUPT, "%s: key \"%.*s\" has a value of unknown type %u", cursor_path(c),
                        (int)QSF_MIN(kv->key.len, 80), kv->key.p, (unsigned)kv->type);
    kv->data = c->begin + c->at;
    c->in_list = kv->type == GGUF_STRING;
    if (c->in_list) return QSF_OK;
    uint64_t bytes;
    if (qsf_mul_u64(kv->n, qsf_gguf_value_bytes(kv->type), &bytes)) bytes = UINT64_MAX;
    return gguf_take(c, bytes, &p, err);
}

static qsf_status gguf_take_kv(gguf_cursor *c, gguf_kv *kv, qsf_error *err)
{
    const uint64_t at = c->at;
    const qsf_status st = c->in_list ? QSF_OK : gguf_take_key(c, kv, err);
    if (!st) return c->in_list ? gguf_take_strings(c, kv->n, err) : QSF_OK;
    c->at = at;
    return st;
}

static qsf_status gguf_take_tensor(gguf_cursor *c, gguf_tensor *t, qsf_error *err)
{
    qsf_status st;
    uint64_t count = 1;
    memset(t, 0, sizeof *t);
    if ((st = gguf_take_string(c, &t->name, err)) || (st = gguf_take_u32(c, &t->n_dims, err))) return st;
    if (t->n_dims < 1 || t->n_dims > 4)
        return qsf_fail(err, QSF_E_CORRUPT, "%s: tensor \"%.*s\" has %u dimensions", cursor_path(c),
                        (int)QSF_MIN(t->name.len, 80), t->name.p, (unsigned)t->n_dims);
    for (uint32_t i = 0; i < 4; i++) {
        t->dims[i] = 1;
        if (i < t->n_dims && (st = gguf_take_u64(c, &t->dims[i], err))) return st;
        if (t->dims[i] == 0 || qsf_mul_u64(count, t->dims[i], &count) || count > INT64_MAX)
            return qsf_fail(err, QSF_E_CORRUPT, "%s: tensor \"%.*s\": dimension %u is %llu", cursor_path(c),
                            (int)QSF_MIN(t->name.len, 80), t->name.p, (unsigned)i,
                            (unsigned long long)t->dims[i]);
    }
    if ((st = gguf_take_u32(c, &t->ggml_type, err))) return st;
    t->file = c->file;
    return gguf_take_u64(c, &t->at, err);
}

static qsf_status gguf_take_header(gguf_cursor *c, gguf_part *part, qsf_error *err)
{
    const char *path = cursor_path(c);
    const uint8_t *p = NULL;
    qsf_status st = gguf_take(c, 24, &p, err);
    if (st) return st;
    if (memcmp(p, "GGUF", 4))
        return qsf_fail(err, QSF_E_CORRUPT, "%s: is not a GGUF file", path);
    const uint32_t version = qsf_le32(p + 4);
    const uint64_t n_tensors = qsf_le64(p + 8), n_kv = qsf_le64(p + 16), length = c->g->s->lengths[c->file];
    if (version && !(version & 0xffff))
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: a big-endian GGUF file; convert it to little-endian",
                        path);
    if (version != 2 && version != 3)
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: GGUF version %u; versions 2 and 3 can be read", path,
                        (unsigned)version);
    if (n_kv > GGUF_MAX_KEYS || n_kv > length / GGUF_MIN_KEY)
        return qsf_fail(err, QSF_E_CORRUPT, "%s: claims %llu keys in %llu bytes", path,
                        (unsigned long long)n_kv, (unsigned long long)length);
    if (n_tensors > GGUF_MAX_TENSORS || n_tensors > length / GGUF_MIN_TENSOR)
        return qsf_fail(err, QSF_E_CORRUPT, "%s: claims %llu tensors in %llu bytes", path,
                        (unsigned long long)n_tensors, (unsigned long long)length);
    part->n_kv = (uint32_t)n_kv;
    part->n_tensors = (uint32_t)n_tensors;
    return QSF_OK;
}

/* A part's description from the bytes in memory; QSF_PENDING where they are too few. */
static qsf_status gguf_parse(gguf_cursor *c, gguf_part *part, qsf_error *err)
{
    qsf_status st;
    if (!part->kv) {
        if ((st = gguf_take_header(c, part, err))) return st;
        part->kv = qsf_arena_array(c->g->tmp, part->n_kv, sizeof *part->kv, "keys of a GGUF file", err);
        if (!part->kv) return QSF_E_MEMORY;
        part->tensors = qsf_arena_array(c->g->tmp, part->n_tensors, sizeof *part->tensors,
                                        "tensors of a GGUF file", err);
        if (!part->tensors) return QSF_E_MEMORY;
    }
    for (; c->n_kv < part->n_kv; c->n_kv++)
        if ((st = gguf_take_kv(c, &part->kv[c->n_kv], err))) return st;
    for (; c->n_tensors < part->n_tensors; c->n_tensors++) {
        const uint64_t at = c->at;
        if (!(st = gguf_take_tensor(c, &part->tensors[c->n_tensors], err))) continue;
        c->at = at;
        return st;
    }
    return QSF_OK;
}

/* The part's bytes are copied to a larger buffer: what has been parsed is there, too. */
static void part_move(gguf_cursor *c, gguf_part *part, uint8_t *bytes)
{
    for (uint32_t i = 0; i < c->n_kv + c->in_list; i++) {
        gguf_kv *kv = &part->kv[i];
        kv->key.p = (const char *)bytes + ((const uint8_t *)kv->key.p - part->bytes);
        kv->data = bytes + (kv->data - part->bytes);
    }
    for (uint32_t i = 0; i < c->n_tensors; i++) {
        gguf_text *name = &part->tensors[i].name;
        name->p = (const char *)bytes + ((const uint8_t *)name->p - part->bytes);
    }
    c->begin = bytes;
}

static qsf_status gguf_check_keys(gguf *g, uint32_t file, const gguf_part *part, qsf_error *err)
{
    gguf_names names;
    int64_t twice;
    gguf_text *list = qsf_arena_array(g->tmp, part->n_kv, sizeof *list, "keys of a GGUF file", err);
    if (!list) return QSF_E_MEMORY;
    for (uint32_t i = 0; i < part->n_kv; i++) list[i] = part->kv[i].key;
    const qsf_status st = qsf_gguf_names(g->tmp, g->s->paths[file], list, part->n_kv, &names, &twice, err);
    if (!st && twice >= 0)
        return qsf_fail(err, QSF_E_CORRUPT, "%s: key \"%.*s\" occurs twice", g->s->paths[file],
                        (int)QSF_MIN(list[twice].len, 80), list[twice].p);
    return st;
}

static const gguf_kv *part_find(const gguf_part *part, const char *key)
{
    for (uint32_t i = 0; i < part->n_kv; i++)
        if (gguf_text_is(part->kv[i].key, key)) return &part->kv[i];
    return NULL;
}

/* ---- places of tensors ---- */

/* QSF's number of a ggml type, or -1. */
static int gguf_type_of(uint32_t ggml_type)
{
    switch (ggml_type) {
    case 0:  return QSF_T_F32;
    case 1:  return QSF_T_F16;
    case 30: return QSF_T_BF16;
    }
    return ggml_type < 64 && qsf_type_get(QSF_T_GGML + ggml_type) ? (int)(QSF_T_GGML + ggml_type) : -1;
}

/* Of types that are not read; and what to do about it, or "". */
static const char *gguf_unknown_type_name(uint32_t ggml_type, const char **help)
{
    static const char *const names[] = {
        [4] = "Q4_2", [5] = "Q4_3", [9] = "Q8_1", [24] = "I8", [25] = "I16", [26] = "I32", [27] = "I64",
        [28] = "F64", [31] = "Q4_0_4_4", [32] = "Q4_0_4_8", [33] = "Q4_0_8_8", [36] = "IQ4_NL_4_4",
        [37] = "IQ4_NL_4_8", [38] = "IQ4_NL_8_8"
    };
    *help = ggml_type >= 31 && ggml_type <= 33 ? ": llama.cpp dropped it, take the model's Q4_0 file" : "";
    return ggml_type < QSF_ARRAY_LEN(names) && names[ggml_type] ? names[ggml_type] : "unknown";
}

bool qsf_gguf_is_ids(const gguf_tensor *t)
{
    return t->ggml_type == GGUF_IDS && t->n_dims == 1 && gguf_text_is(t->name, "d2t");
}

static qsf_status tensor_size(const gguf *g, gguf_tensor *t, qsf_error *err)
{
    const int len = (int)QSF_MIN(t->name.len, 80), type = gguf_type_of(t->ggml_type);
    if (t->packing) return QSF_OK;                          /* qsf_gguf_bitnet has its size */
    if (qsf_gguf_is_ids(t)) {
        t->bytes = t->dims[0] > t->room ? UINT64_MAX / 2 : t->dims[0] * sizeof(int64_t);
        return QSF_OK;
    }
    if (type < 0) {
        const char *help, *name = gguf_unknown_type_name(t->ggml_type, &help);
        return qsf_fail(err, QSF_E_UNSUPPORTED,
                        "%s: tensor \"%.*s\" has type %s (%u), which this version does not read%s",
                        gguf_path_of(g, t), len, t->name.p, name, (unsigned)t->ggml_type, help);
    }
    const qsf_type_info *info = qsf_type_get((uint32_t)type);
    t->type = (uint32_t)type;
    t->block = 1u << info->own_block;
    if (t->dims[0] % t->block)
        return qsf_fail(err, QSF_E_CORRUPT,
                        "%s: tensor \"%.*s\": rows of %llu values are not whole blocks of type %s",
                        gguf_path_of(g, t), len, t->name.p, (unsigned long long)t->dims[0], info->name);
    uint64_t n = t->dims[0] / t->block;
    for (int i = 1; i < 4; i++) n *= t->dims[i];             /* the product of all is below 2^63 */
    if (qsf_mul_u64(n, info->own_bytes, &t->bytes))
        return qsf_fail(err, QSF_E_CORRUPT, "%s: tensor \"%.*s\" is too large", gguf_path_of(g, t), len,
                        t->name.p);
    return QSF_OK;
}

static bool tensor_after(const void *tensors, uint32_t a, uint32_t b)
{
    const gguf_tensor *t = tensors;
    return t[a].at > t[b].at;
}

/* The numbers of a file's tensors by their places; NULL: no memory. */
static uint32_t *order_of(const gguf *g, const gguf_part *part, qsf_error *err)
{
    uint32_t *order = qsf_arena_array(g->tmp, part->n_tensors, sizeof *order, "tensors of a GGUF file", err);
    for (uint32_t i = 0; order && i < part->n_tensors; i++) order[i] = i;
    if (order) qsf_order_sort(order, part->n_tensors, tensor_after, part->tensors);
    return order;
}

/* Tensors of one file do not overlap: in the order of their places each ends before the next
 * begins. */
static qsf_status check_overlaps(const gguf *g, const gguf_part *part, const uint32_t *order, qsf_error *err)
{
    for (uint32_t i = 1; i < part->n_tensors; i++) {
        const gguf_tensor *a = &part->tensors[order[i - 1]], *b = &part->tensors[order[i]];
        if (a->at + a->bytes > b->at)
            return qsf_fail(err, QSF_E_CORRUPT, "%s: tensors \"%.*s\" and \"%.*s\" overlap",
                            gguf_path_of(g, a), (int)QSF_MIN(a->name.len, 80), a->name.p,
                            (int)QSF_MIN(b->name.len, 80), b->name.p);
    }
    return QSF_OK;
}

/* Converts offsets relative to the end of the description to offsets in the file. */
static qsf_status place_tensors(gguf *g, uint32_t file, gguf_part *part, uint64_t end, qsf_error *err)
{
    const uint64_t length = g->s->lengths[file];
    const gguf_kv *kv = part_find(part, "general.alignment");
    int64_t align = 32;
    if (kv && (!qsf_gguf_integer(kv, 0, &align) || align < 1 || align > 1 << 20 || (align & (align - 1))))
        return qsf_fail(err, QSF_E_CORRUPT, "%s: general.alignment is not a power of two", g->s->paths[file]);
    const uint64_t data = qsf_round_up(end, (uint64_t)align);
    const uint64_t weights = data > length ? 0 : length - data;
    const uint32_t *order = order_of(g, part, err);
    if (!order) return QSF_E_MEMORY;
    for (uint32_t i = 0; i < part->n_tensors; i++) {
        gguf_tensor *t = &part->tensors[order[i]];
        const uint64_t next = i + 1 < part->n_tensors ? part->tensors[order[i + 1]].at : weights;
        t->room = next > t->at ? next - t->at : 0;
    }
    qsf_status st = qsf_gguf_bitnet(g, part, (uint64_t)align, err);
    if (st) return st;
    for (uint32_t i = 0; i < part->n_tensors; i++) {
        gguf_tensor *t = &part->tensors[i];
        const int len = (int)QSF_MIN(t->name.len, 80);
        if ((st = tensor_size(g, t, err))) return st;
        if (t->at % (uint64_t)align)
            return qsf_fail(err, QSF_E_CORRUPT,
                            "%s: tensor \"%.*s\" begins at %llu, which is not a multiple of %d",
                            g->s->paths[file], len, t->name.p, (unsigned long long)t->at, (int)align);
        if (data > length || t->at > length - data || t->bytes > length - data - t->at)
            return qsf_fail(err, QSF_E_CORRUPT,
                            "%s: tensor \"%.*s\" (%llu bytes at %llu of the weights) lies beyond the file's "
                            "%llu bytes; is it cut short?", g->s->paths[file], len, t->name.p,
                            (unsigned long long)t->bytes, (unsigned long long)t->at,
                            (unsigned long long)length);
        t->at += data;
    }
    return check_overlaps(g, part, order, err);
}

/* ---- files ---- */

static qsf_status read_part(gguf *g, uint32_t file, qsf_error *err)
{
    gguf_part *part = &g->parts[file];
    const uint64_t length = g->s->lengths[file];
    gguf_cursor c = { .g = g, .file = file };
    uint64_t have = 0;
    qsf_status st = QSF_PENDING;
    g->n_parts = file + 1;
    for (uint64_t want = GGUF_FIRST_READ; st == QSF_PENDING; want *= 2) {
        const uint64_t cap = QSF_MIN(want, length);
        uint8_t *bytes = qsf_alloc(g->s->platform, cap, "the description of a GGUF file", err);
        if (!bytes) return QSF_E_MEMORY;
        if (have) memcpy(bytes, part->bytes, (size_t)have);
        part_move(&c, part, bytes);
        qsf_dealloc(g->s->platform, part->bytes, part->cap);
        part->bytes = bytes;
        part->cap = cap;
        if ((st = qsf_source_read(g->s, file, have, bytes + have, cap - have, "description", err))) return st;
        have = c.len = cap;
        st = gguf_parse(&c, part, err);
    }
    if (st || (st = gguf_check_keys(g, file, part, err))) return st;
    return g->s->vocab_only ? QSF_OK : place_tensors(g, file, part, c.at, err);
}

/* Reads the split keys of a file; *count is 1 for a file without them. */
static qsf_status part_split(const gguf *g, uint32_t file, int64_t *no, int64_t *count, qsf_error *err)
{
    const gguf_kv *kno = part_find(&g->parts[file], "split.no"),
        *kcount = part_find(&g->parts[file], "split.count");
    *no = 0;
    *count = 1;
    if ((kno && !qsf_gguf_integer(kno, 0, no)) || (kcount && !qsf_gguf_integer(kcount, 0, count)) || *no < 0
        || *count < 0)
        return qsf_fail(err, QSF_E_CORRUPT, "%s: split.no or split.count is not a number", g->s->paths[file]);
    if (*count == 0) *count = 1;
    return QSF_OK;
}

/* ...-00001-of-00003.gguf and the like for the other parts. */
static qsf_status read_splits(gguf *g, qsf_error *err)
{
    qsf_source *s = g->s;
    char tail[32];
    int64_t no, count;
    qsf_status st = part_split(g, 0, &no, &count, err);
    if (st) return st;
    if (no != 0)
        return qsf_fail(err, QSF_E_ARGUMENT, "%s: part %d of a split model; open its first part", s->path,
                        (int)no + 1);
    if (count == 1) return QSF_OK;
    if (count > QSF_MAX_SPLITS)
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: split.count is %lld", s->path, (long long)count);
    const size_t len = strlen(s->path), cut = qsf_format(tail, sizeof tail, "-%05d-of-%05d.gguf", 1,
                                                         (int)count);
    if (len < cut || strcmp(s->path + len - cut, tail))
        return qsf_fail(err, QSF_E_NOT_FOUND,
                        "%s: the first of %d parts, but its name does not end in %s, so the others cannot "
                        "be found", s->path, (int)count, tail);
    char *path = qsf_arena_text(g->tmp, s->path, len, err);
    if (!path) return QSF_E_MEMORY;
    for (uint32_t i = 1; i < (uint32_t)count; i++) {
        int64_t its_no, its_count;
        qsf_format(path + len - cut, cut + 1, "-%05d-of-%05d.gguf", (int)i + 1, (int)count);
        if ((st = qsf_source_add_file(s, path, err)) || (st = read_part(g, i, err))
            || (st = part_split(g, i, &its_no, &its_count, err)))
            return st;
        if (its_no != i || its_count != count)
            return qsf_fail(err, QSF_E_CORRUPT, "%s: claims to be part %d of %d", path, (int)its_no + 1,
                            (int)its_count);
    }
    return QSF_OK;
}

/* One list of all parts' tensors, without a name twice. */
static qsf_status collect_tensors(gguf *g, qsf_error *err)
{
    gguf_names names;
    int64_t twice, said = -1;
    uint64_t n = 0;
    for (uint32_t i = 0; i < g->n_parts; i++) n += g->parts[i].n_tensors;
    const gguf_kv *kv = part_find(&g->parts[0], "split.tensors.count");
    if (kv && g->n_parts > 1 && (!qsf_gguf_integer(kv, 0, &said) || said < 0 || (uint64_t)said != n))
        return qsf_fail(err, QSF_E_CORRUPT, "%s: %llu tensors in %u parts, but split.tensors.count is %lld",
                        g->s->path, (unsigned long long)n, (unsigned)g->n_parts, (long long)said);
    if (n > GGUF_MAX_TENSORS)
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: %llu tensors", g->s->path, (unsigned long long)n);
    g->tensors = qsf_arena_array(g->tmp, n, sizeof *g->tensors, "tensors of a GGUF file", err);
    gguf_text *list = qsf_arena_array(g->tmp, n, sizeof *list, "tensors of a GGUF file", err);
    if (!g->tensors || !list) return QSF_E_MEMORY;
    for (uint32_t i = 0; i < g->n_parts; i++)
        for (uint32_t j = 0; j < g->parts[i].n_tensors; j++) {
            list[g->n_tensors] = g->parts[i].tensors[j].name;
            g->tensors[g->n_tensors++] = g->parts[i].tensors[j];
        }
    const qsf_status st = qsf_gguf_names(g->tmp, g->s->path, list, g->n_tensors, &names, &twice, err);
    if (!st && twice >= 0)
        return qsf_fail(err, QSF_E_CORRUPT, "%s: tensor \"%.*s\" occurs twice",
                        gguf_path_of(g, &g->tensors[twice]), (int)QSF_MIN(list[twice].len, 80),
                        list[twice].p);
    return st;
}
qsf_status qsf_gguf_read_files(gguf *g, qsf_error *err)
{
    qsf_status st;
    if (!(g->parts = qsf_arena_array(g->tmp, QSF_MAX_SPLITS, sizeof *g->parts, "parts of a GGUF file", err)))
        return QSF_E_MEMORY;
    if ((st = read_part(g, 0, err))) return st;
    if (g->s->vocab_only) return QSF_OK;
    if ((st = read_splits(g, err))) return st;
    return collect_tensors(g, err);
}

void qsf_gguf_done(gguf *g)
{
    for (uint32_t i = 0; i < g->n_parts; i++) qsf_dealloc(g->s->platform, g->parts[i].bytes, g->parts[i].cap);
    qsf_arena_free(g->tmp);
}

/* ---- tensors and keys ---- */

const gguf_tensor *qsf_gguf_tensor(const gguf *g, const char *name)
{
    for (uint32_t i = 0; i < g->n_tensors; i++)
        if (gguf_text_is(g->tensors[i].name, name)) return &g->tensors[i];
    return NULL;
}

/* Finds the key, with the architecture filled in, unless it is to be ignored. */
static const gguf_kv *find_key(const gguf *g, const char *key, char full[128])
{
    if (key[0] == '%') qsf_format(full, 128, "%s%s", g->arch ? g->arch : "", key + 2);
    else qsf_format(full, 128, "%s", key);
    const gguf_kv *kv = part_find(&g->parts[0], full);
    return kv && !qsf_gguf_is_silent(g, key, kv) ? kv : NULL;
}

const gguf_kv *qsf_gguf_find(const gguf *g, const char *key)
{
    char full[128];
    return find_key(g, key, full);
}

static qsf_status key_missing(const gguf *g, const char *full, bool need, qsf_error *err)
{
    return need ? qsf_fail(err, QSF_E_CORRUPT, "%s: key \"%s\" is missing", g->s->path, full) : QSF_OK;
}

static qsf_status key_wrong(const gguf *g, const char *full, const char *what, qsf_error *err)
{
    return qsf_fail(err, QSF_E_CORRUPT, "%s: key \"%s\" is not %s", g->s->path, full, what);
}

qsf_status qsf_gguf_u32(const gguf *g, const char *key, bool need, uint32_t *out, qsf_error *err)
{
    char full[128];
    int64_t v, other;
    const gguf_kv *kv = find_key(g, key, full);
    if (!kv) return key_missing(g, full, need, err);
    if (!qsf_gguf_integer(kv, 0, &v) || v < 0 || v > UINT32_MAX)
        return key_wrong(g, full, "a number from 0 to 4294967295", err);
    for (uint64_t i = 1; i < kv->n; i++)         /* one value a layer is fine if all are the same */
        if (!qsf_gguf_integer(kv, i, &other) || other != v)
            return qsf_fail(err, QSF_E_UNSUPPORTED,
                            "%s: key \"%s\" differs between layers, which this version cannot run",
                            g->s->path, full);
    *out = (uint32_t)v;
    return QSF_OK;
}

qsf_status qsf_gguf_f32(const gguf *g, const char *key, bool need, float *out, qsf_error *err)
{
    char full[128];
    double v;
    const gguf_kv *kv = find_key(g, key, full);
    if (!kv) return key_missing(g, full, need, err);
    if (kv->array || !qsf_gguf_number(kv, 0, &v) || !(fabs(v) <= FLT_MAX))
        return key_wrong(g, full, "a finite number", err);
    *out = (float)v;
    return QSF_OK;
}

qsf_status qsf_gguf_bool(const gguf *g, const char *key, bool *out, qsf_error *err)
{
    char full[128];
    const gguf_kv *kv = find_key(g, key, full);
    if (!kv) return QSF_OK;
    if (kv->array || kv->type != GGUF_BOOL) return key_wrong(g, full, "true or false", err);
    *out = kv->data[0] != 0;
    return QSF_OK;
}

qsf_status qsf_gguf_string(const gguf *g, const char *key, gguf_text *out, qsf_error *err)
{
    char full[128];
    const gguf_kv *kv = find_key(g, key, full);
    if (!kv) return QSF_OK;
    if (kv->array || kv->type != GGUF_STRING) return key_wrong(g, full, "a string", err);
    const uint8_t *at = kv->data;
    *out = qsf_gguf_next_string(&at);
    return QSF_OK;
}
