/* Keys and values of a QSF file's extension section: the description of the architecture and the
 * vocabulary.
 * SPDX-License-Identifier: MIT
 *
 * Section: "QSFX", u32 entries, then entries: u16 key length, u8 type, u8 0, u32 count, key, count
 * elements.  Nothing is aligned. */
#include "model/qsf_ext.h"
#include "model/description.h"

enum { EXT_HEAD = 8, EXT_ENTRY = 8, EXT_MAX_KEY = 255 };

static uint32_t ext_element(uint8_t type)
{
    switch (type) {
    case QSF_EXT_U8: case QSF_EXT_TEXT: return 1;
    case QSF_EXT_U32: case QSF_EXT_F32: case QSF_EXT_I32: return 4;
    case QSF_EXT_U64: return 8;
    default: return 0;
    }
}

/* ---- writing ---- */

void qsf_ext_bytes(qsf_ext_out *o, const void *src, uint64_t len)
{
    if (len && o->len + len <= o->cap) memcpy(o->p + o->len, src, (size_t)len);
    o->len += len;
}

void qsf_ext_begin(qsf_ext_out *o, const char *key, uint8_t type)
{
    const uint64_t len = QSF_MIN(strlen(key), (size_t)EXT_MAX_KEY);
    if (o->len == 0) qsf_ext_bytes(o, "QSFX\0\0\0\0", EXT_HEAD);
    o->entry_at = o->len;
    o->type = type;
    qsf_ext_bytes(o, "\0\0\0\0\0\0\0\0", EXT_ENTRY);
    qsf_ext_bytes(o, key, len);
    o->data_at = o->len;
}

void qsf_ext_end(qsf_ext_out *o)
{
    o->n++;
    if (o->len > o->cap) return;
    uint8_t *entry = o->p + o->entry_at;
    qsf_put16(entry, (uint16_t)(o->data_at - o->entry_at - EXT_ENTRY));
    entry[2] = o->type;
    qsf_put32(entry + 4, (uint32_t)((o->len - o->data_at) / ext_element(o->type)));
    qsf_put32(o->p + 4, o->n);
}

void qsf_ext_put_u8s(qsf_ext_out *o, const char *key, const void *v, uint64_t n)
{
    qsf_ext_begin(o, key, QSF_EXT_U8);
    qsf_ext_bytes(o, v, n);
    qsf_ext_end(o);
}

static void ext_word(qsf_ext_out *o, uint32_t v)
{
    uint8_t b[4];
    qsf_put32(b, v);
    qsf_ext_bytes(o, b, 4);
}

static void ext_words(qsf_ext_out *o, const char *key, uint8_t type, const uint32_t *v, uint64_t n)
{
    qsf_ext_begin(o, key, type);
    for (uint64_t i = 0; i < n; i++) ext_word(o, v[i]);
    qsf_ext_end(o);
}

void qsf_ext_put_u32s(qsf_ext_out *o, const char *key, const uint32_t *v, uint64_t n)
{
    ext_words(o, key, QSF_EXT_U32, v, n);
}
void qsf_ext_put_u32(qsf_ext_out *o, const char *key, uint32_t v) { ext_words(o, key, QSF_EXT_U32, &v, 1); }

void qsf_ext_put_u64s(qsf_ext_out *o, const char *key, const uint64_t *v, uint64_t n)
{
    qsf_ext_begin(o, key, QSF_EXT_U64);
    for (uint64_t i = 0; i < n; i++) {
        ext_word(o, (uint32_t)v[i]);
        ext_word(o, (uint32_t)(v[i] >> 32));
    }
    qsf_ext_end(o);
}
void qsf_ext_put_u64(qsf_ext_out *o, const char *key, uint64_t v) { qsf_ext_put_u64s(o, key, &v, 1); }

void qsf_ext_put_f32s(qsf_ext_out *o, const char *key, const float *v, uint64_t n)
{
    qsf_ext_begin(o, key, QSF_EXT_F32);
    for (uint64_t i = 0; i < n; i++) ext_word(o, qsf_f32_bits(v[i]));
    qsf_ext_end(o);
}

static void ext_put_text(qsf_ext_out *o, const char *key, const char *text)
{
    qsf_ext_begin(o, key, QSF_EXT_TEXT);
    qsf_ext_bytes(o, text, strlen(text));
    qsf_ext_end(o);
}

void qsf_ext_tensor_line(uint8_t line[QSF_DIR_BYTES], uint32_t unit, const qsf_tensor *t, uint64_t place)
{
    qsf_put32(line, unit);
    qsf_put32(line + 4, t->kind);
    qsf_put32(line + 8, t->rows);
    qsf_put32(line + 12, t->cols);
    qsf_put64(line + 16, place);
    line[24] = t->type;
    line[25] = t->packing;
    qsf_put16(line + 26, t->block);
}

void qsf_ext_put_meta(qsf_ext_out *o, const qsf_meta *meta, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        char key[EXT_MAX_KEY + 1];
        qsf_format(key, sizeof key, "meta.%s", meta[i].key);
        ext_put_text(o, key, meta[i].value);
    }
}

/* ---- reading ---- */

/* Steps over the entry at *at, which must lie inside; false: it does not. */
static bool ext_step(const qsf_ext *x, uint64_t *at, const uint8_t **key, uint32_t *key_len, qsf_ext_value *v)
{
    if (x->len - *at < EXT_ENTRY) return false;
    const uint8_t *entry = x->p + *at;
    const uint64_t rest = x->len - *at - EXT_ENTRY;
    const uint32_t size = ext_element(entry[2]);
    *key = entry + EXT_ENTRY;
    *key_len = qsf_le16(entry);
    v->type = entry[2];
    v->count = qsf_le32(entry + 4);
    v->data = *key + *key_len;
    if (!size || entry[3] || *key_len > rest || (uint64_t)v->count * size > rest - *key_len) return false;
    *at += EXT_ENTRY + *key_len + (uint64_t)v->count * size;
    return true;
}

qsf_status qsf_ext_open(qsf_ext *x, const void *p, uint64_t len, const char *path, qsf_error *err)
{
    const uint8_t *key;
    uint32_t key_len;
    qsf_ext_value v;
    *x = (qsf_ext){ .p = p, .len = len, .path = path };
    if (len < EXT_HEAD || memcmp(p, "QSFX", 4))
        return qsf_fail(err, QSF_E_CORRUPT, "%s: the extension section does not begin with QSFX", path);
    const uint32_t n = qsf_le32(x->p + 4);
    uint64_t at = EXT_HEAD;
    for (uint32_t i = 0; i < n; i++)
        if (!ext_step(x, &at, &key, &key_len, &v))
            return qsf_fail(err, QSF_E_CORRUPT,
                            "%s: entry %u of the extension section, at its byte %llu, is damaged", path,
                            (unsigned)i, (unsigned long long)at);
    for (; at < len; at++)
        if (x->p[at])
            return qsf_fail(err, QSF_E_CORRUPT, "%s: the extension section goes on behind its last entry",
                            path);
    x->n = n;
    return QSF_OK;
}

qsf_status qsf_ext_get(const qsf_ext *x, const char *name, uint8_t type, qsf_ext_value *v, qsf_error *err)
{
    const size_t len = strlen(name);
    uint64_t at = EXT_HEAD;
    for (uint32_t i = 0; i < x->n; i++) {
        const uint8_t *key;
        uint32_t key_len;
        if (!ext_step(x, &at, &key, &key_len, v)) break;
        if (key_len != len || memcmp(key, name, len)) continue;
        if (v->type != type)
            return qsf_fail(err, QSF_E_CORRUPT, "%s: extension key %s has type %u, not %u", x->path, name,
                            (unsigned)v->type, (unsigned)type);
        return QSF_OK;
    }
    *v = (qsf_ext_value){ NULL, 0, type };
    return QSF_OK;
}

/* One element of size bytes, or nothing. */
static qsf_status ext_get_one(const qsf_ext *x, const char *key, uint8_t type, qsf_ext_value *v,
                              qsf_error *err)
{
    const qsf_status st = qsf_ext_get(x, key, type, v, err);
    if (!st && v->data && v->count != 1)
        return qsf_fail(err, QSF_E_CORRUPT, "%s: extension key %s has %u values, not one", x->path, key,
                        (unsigned)v->count);
    return st;
}

qsf_status qsf_ext_get_u32(const qsf_ext *x, const char *key, uint32_t *out, qsf_error *err)
{
    qsf_ext_value v;
    const qsf_status st = ext_get_one(x, key, QSF_EXT_U32, &v, err);
    if (!st && v.data) *out = qsf_le32(v.data);
    return st;
}

qsf_status qsf_ext_get_u64(const qsf_ext *x, const char *key, uint64_t *out, qsf_error *err)
{
    qsf_ext_value v;
    const qsf_status st = ext_get_one(x, key, QSF_EXT_U64, &v, err);
    if (!st && v.data) *out = qsf_le64(v.data);
    return st;
}

qsf_status qsf_ext_get_meta(const qsf_ext *x, qsf_meta **meta, uint32_t *n, qsf_arena *a, qsf_error *err)
{
    for (int pass = 0; pass < 2; pass++) {             /* counts, then fills */
        uint64_t at = EXT_HEAD;
        uint32_t found = 0;
        for (uint32_t i = 0; i < x->n; i++) {
            const uint8_t *key;
            uint32_t key_len;
            qsf_ext_value v;
            if (!ext_step(x, &at, &key, &key_len, &v)) break;
            if (v.type != QSF_EXT_TEXT || key_len < 5 || memcmp(key, "meta.", 5)) continue;
            if (pass) {
                qsf_meta *m = &(*meta)[found];
                if (!(m->key = qsf_arena_text(a, key + 5, key_len - 5, err))) return QSF_E_MEMORY;
                if (!(m->value = qsf_arena_text(a, v.data, v.count, err))) return QSF_E_MEMORY;
            }
            found++;
        }
        if (!pass && !(*meta = qsf_arena_array(a, found, sizeof **meta, "metadata", err)))
            return QSF_E_MEMORY;
        *n = found;
    }
    return QSF_OK;
}

/* ---- the architecture, by the table of its members ---- */

bool qsf_ext_needs_reader(const qsf_hparams *hp)
{
    for (size_t i = 0; i < qsf_n_members; i++)
        if (qsf_members[i].saved == QSF_SAVED_NEEDED && qsf_member_is_set(hp, &qsf_members[i])) return true;
    return false;
}

void qsf_ext_put_hparams(qsf_ext_out *o, const qsf_hparams *hp)
{
    for (size_t i = 0; i < qsf_n_members; i++) {
        const qsf_member *m = &qsf_members[i];
        const void *values = qsf_member_values(hp, m);
        const uint32_t n = qsf_member_count(hp, m);
        if (m->saved == QSF_SAVED_HEADER || (m->saved != QSF_SAVED_ALWAYS && !qsf_member_is_set(hp, m)))
            continue;
        switch ((qsf_member_type)m->type) {
        case QSF_MEMBER_TEXT: ext_put_text(o, m->key, values); break;
        case QSF_MEMBER_U8: case QSF_MEMBER_BOOL: qsf_ext_put_u8s(o, m->key, values, n); break;
        case QSF_MEMBER_U32: qsf_ext_put_u32s(o, m->key, values, n); break;
        case QSF_MEMBER_F32: qsf_ext_put_f32s(o, m->key, values, n); break;
        }
    }
}

static qsf_status ext_get_member(const qsf_ext *x, const qsf_member *m, qsf_hparams *hp, qsf_error *err)
{
    static const uint8_t types[] = {
        [QSF_MEMBER_TEXT] = QSF_EXT_TEXT, [QSF_MEMBER_U8] = QSF_EXT_U8, [QSF_MEMBER_BOOL] = QSF_EXT_U8,
        [QSF_MEMBER_U32] = QSF_EXT_U32, [QSF_MEMBER_F32] = QSF_EXT_F32,
    };
    uint8_t *at = (uint8_t *)hp + m->at;
    qsf_ext_value v;
    qsf_status st = m->type == QSF_MEMBER_TEXT ? qsf_ext_get(x, m->key, QSF_EXT_TEXT, &v, err)
        : ext_get_one(x, m->key, types[m->type], &v, err);
    if (st || !v.data) return st;
    if (m->type == QSF_MEMBER_TEXT) {
        const uint32_t n = QSF_MIN(v.count, (uint32_t)m->limit - 1);
        memset(at, 0, m->limit);
        memcpy(at, v.data, n);
        return QSF_OK;
    }
    if (m->type == QSF_MEMBER_U32 || m->type == QSF_MEMBER_F32) {
        const uint32_t word = qsf_le32(v.data);
        if (m->type == QSF_MEMBER_F32 && !isfinite(qsf_f32_from_bits(word)))
            return qsf_fail(err, QSF_E_CORRUPT, "%s: extension key %s is not a number", x->path, m->key);
        memcpy(at, &word, 4);
        return QSF_OK;
    }
    if (v.data[0] > m->limit)
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: extension key %s is %u; known are 0 to %u", x->path,
                        m->key, (unsigned)v.data[0], (unsigned)m->limit);
    if (m->type == QSF_MEMBER_BOOL) *(bool *)at = v.data[0] != 0;
    else *at = v.data[0];
    return QSF_OK;
}

static qsf_status ext_get_factors(const qsf_ext *x, const char *key, uint32_t n, bool divide, float **out,
                                  qsf_arena *a, qsf_error *err)
{
    qsf_ext_value v;
    const qsf_status st = qsf_ext_get(x, key, QSF_EXT_F32, &v, err);
    if (st || !v.data) return st;
    if (v.count != n)
        return qsf_fail(err, QSF_E_CORRUPT, "%s: %s has %u values, expected %u", x->path, key,
                        (unsigned)v.count, (unsigned)n);
    if (!(*out = qsf_arena_array(a, n, sizeof(float), key, err))) return QSF_E_MEMORY;
    for (uint32_t i = 0; i < n; i++) {
        (*out)[i] = qsf_lef32(v.data + 4 * (size_t)i);
        if (!isfinite((*out)[i]) || (divide && (*out)[i] == 0))
            return qsf_fail(err, QSF_E_CORRUPT, "%s: %s: value %u is not a %s", x->path, key, (unsigned)i,
                            divide ? "divisor" : "number");
    }
    return QSF_OK;
}

/* A byte for each layer; what it may be is checked where records are filled. */
static qsf_status ext_get_layers(const qsf_ext *x, const char *key, uint32_t n, uint8_t **out, qsf_arena *a,
                                 qsf_error *err)
{
    qsf_ext_value v;
    const qsf_status st = qsf_ext_get(x, key, QSF_EXT_U8, &v, err);
    if (st || !v.data) return st;
    if (v.count != n)
        return qsf_fail(err, QSF_E_CORRUPT, "%s: %s has %u values for %u layers", x->path, key,
                        (unsigned)v.count, (unsigned)n);
    if (!(*out = qsf_arena_array(a, n, 1, key, err))) return QSF_E_MEMORY;
    memcpy(*out, v.data, n);
    return QSF_OK;
}

/* A number for each layer, at most `most`, which is the largest of them. */
static qsf_status ext_get_sizes(const qsf_ext *x, const char *key, uint32_t n, uint32_t most, uint32_t **out,
                                qsf_arena *a, qsf_error *err)
{
    qsf_ext_value v;
    const qsf_status st = qsf_ext_get(x, key, QSF_EXT_U32, &v, err);
    if (st || !v.data) return st;
    if (v.count != n)
        return qsf_fail(err, QSF_E_CORRUPT, "%s: %s has %u values for %u layers", x->path, key,
                        (unsigned)v.count, (unsigned)n);
    if (!(*out = qsf_arena_array(a, n, sizeof **out, key, err))) return QSF_E_MEMORY;
    for (uint32_t i = 0; i < n; i++) {
        (*out)[i] = qsf_le32(v.data + 4 * (size_t)i);
        if (!(*out)[i] || (*out)[i] > most)
            return qsf_fail(err, QSF_E_CORRUPT, "%s: %s of layer %u is %u, and the most %u", x->path, key,
                            (unsigned)i, (unsigned)(*out)[i], (unsigned)most);
    }
    return QSF_OK;
}

static qsf_status ext_get_array(const qsf_ext *x, const qsf_member *m, qsf_hparams *hp, qsf_arena *a,
                                qsf_error *err)
{
    const uint32_t n = qsf_member_count(hp, m);
    void *at = (uint8_t *)hp + m->at;
    if (m->type == QSF_MEMBER_F32) return ext_get_factors(x, m->key, n, m->limit, at, a, err);
    if (m->type == QSF_MEMBER_U8) return ext_get_layers(x, m->key, n, at, a, err);
    uint32_t most;
    memcpy(&most, (const uint8_t *)hp + m->most, sizeof most);
    return ext_get_sizes(x, m->key, n, most, at, a, err);
}

qsf_status qsf_ext_get_hparams(const qsf_ext *x, qsf_hparams *hp, qsf_arena *a, qsf_error *err)
{
    for (size_t i = 0; i < qsf_n_members; i++) {
        const qsf_member *m = &qsf_members[i];
        if (m->saved == QSF_SAVED_HEADER) continue;
        if (m->count == QSF_COUNT_XIELU && hp->act != QSF_ACT_XIELU) continue;
        const qsf_status st = m->count == QSF_COUNT_ONE ? ext_get_member(x, m, hp, err)
            : ext_get_array(x, m, hp, a, err);
        if (st) return st;
    }
    if (hp->act != QSF_ACT_XIELU || hp->xielu) return QSF_OK;
    return qsf_fail(err, QSF_E_CORRUPT, "%s: ffn.xielu is missing", x->path);
}
