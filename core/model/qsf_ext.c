/* Keys and values of a QSF file's extension section: the description of the architecture and the
 * vocabulary.
 * SPDX-License-Identifier: MIT
 *
 * Section: "QSFX", u32 entries, then entries: u16 key length, u8 type, u8 0, u32 count, key, count
 * elements.  Nothing is aligned. */
#include "model/qsf_ext.h"

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
            return qsf_fail(err, QSF_E_CORRUPT, "%s: the extension section continues after its last entry",
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

/* ---- the architecture: one table for both ways ---- */

typedef enum ext_field_kind { EXT_F_TEXT, EXT_F_U8, EXT_F_BOOL, EXT_F_U32, EXT_F_F32 } ext_field_kind;

/* limit: bytes of a text, largest value of a byte. */
#define EXT_FIELD(key, kind, member, limit) { key, EXT_F_##kind, limit, offsetof(qsf_hparams, member) }
static const struct ext_field { const char *key; uint8_t kind, limit; uint16_t at; } ext_fields[] = {
    EXT_FIELD("arch",                TEXT, arch, sizeof ((qsf_hparams *)0)->arch),
    EXT_FIELD("name",                TEXT, name, sizeof ((qsf_hparams *)0)->name),
    EXT_FIELD("norm.eps",            F32,  norm_eps, 0),
    EXT_FIELD("ffn.gated",           BOOL, gated, 1),
    EXT_FIELD("embd.scale",          F32,  embd_scale, 0),
    EXT_FIELD("attn.scale",          F32,  attn_scale, 0),
    EXT_FIELD("attn.softcap",        F32,  attn_softcap, 0),
    EXT_FIELD("final.softcap",       F32,  final_softcap, 0),
    EXT_FIELD("attn.window",         U32,  window, 0),
    EXT_FIELD("attn.window_pattern", U32,  window_pattern, 0),
    EXT_FIELD("rope.style",          U8,   rope, QSF_ROPE_HALVES),
    EXT_FIELD("rope.dim",            U32,  rope_dim, 0),
    EXT_FIELD("rope.base_local",     F32,  rope_base_local, 0),
    EXT_FIELD("rope.scaling",        U8,   scaling, QSF_SCALING_LONGROPE),
    EXT_FIELD("rope.factor",         F32,  scaling_factor, 0),
    EXT_FIELD("rope.orig_ctx",       U32,  scaling_orig_ctx, 0),
    EXT_FIELD("rope.yarn_ext",       F32,  yarn_ext_factor, 0),
    EXT_FIELD("rope.yarn_attn",      F32,  yarn_attn_factor, 0),
    EXT_FIELD("rope.yarn_fast",      F32,  yarn_beta_fast, 0),
    EXT_FIELD("rope.yarn_slow",      F32,  yarn_beta_slow, 0),
    EXT_FIELD("rope.attn_factor",    F32,  rope_attn_factor, 0),
    /* From here on written only where they are not zero. */
    EXT_FIELD("layer.flow",          U8,   flow, QSF_FLOW_BARE_BEGIN),
    EXT_FIELD("layer.residual_scale", F32, residual_scale, 0),
    EXT_FIELD("attn.qk_norm",        U8,   qk_norm, QSF_QK_ROTATED),
    EXT_FIELD("attn.qkv_clamp",      F32,  qkv_clamp, 0),
    EXT_FIELD("attn.alibi",          F32,  alibi, 0),
    EXT_FIELD("attn.temp_scale",     F32,  temp_scale, 0),
    EXT_FIELD("attn.temp_every",     U32,  temp_every, 0),
    EXT_FIELD("rope.skip",           U32,  rope_skip, 0),
    EXT_FIELD("attn.gate",           U8,   attn_gate, 1),
    EXT_FIELD("mix.conv",            U32,  mix_conv, 0),
    EXT_FIELD("mix.inner",           U32,  mix_inner, 0),
    EXT_FIELD("mix.state",           U32,  mix_state, 0),
    EXT_FIELD("mix.heads",           U32,  mix_heads, 0),
    EXT_FIELD("mix.groups",          U32,  mix_groups, 0),
    EXT_FIELD("mix.neighbours",      U8,   mix_neighbours, 1),
    EXT_FIELD("mix.norms",           BOOL, mix_norms, 1),
    EXT_FIELD("mix.rate",            U32,  mix_rate, 0),
    EXT_FIELD("mix.first",           U32,  mix_first, 0),
    EXT_FIELD("mix.gate",            U32,  mix_gate, 0),
    EXT_FIELD("latent.kv",           U32,  kv_latent, 0),
    EXT_FIELD("latent.q",            U32,  q_latent, 0),
    EXT_FIELD("latent.plain",        U32,  head_plain, 0),
    EXT_FIELD("latent.value",        U32,  head_value, 0),
    EXT_FIELD("latent.joined",       U8,   latent_joined, 1),
    EXT_FIELD("final.scale",         F32,  logit_scale, 0),
    EXT_FIELD("experts.n",           U32,  n_experts, 0),
    EXT_FIELD("experts.used",        U32,  n_used, 0),
    EXT_FIELD("experts.ff",          U32,  n_ff_expert, 0),
    EXT_FIELD("experts.shared_ff",   U32,  n_ff_shared, 0),
    EXT_FIELD("experts.dense",       U32,  n_dense, 0),
    EXT_FIELD("experts.groups",      U32,  n_groups, 0),
    EXT_FIELD("experts.groups_used", U32,  n_groups_used, 0),
    EXT_FIELD("experts.embd",        U32,  n_expert_embd, 0),
    EXT_FIELD("experts.beside",      BOOL, experts_beside, 1),
    EXT_FIELD("router.kind",         U8,   router, QSF_ROUTER_CHOSEN),
    EXT_FIELD("router.norm",         BOOL, router_norm, 1),
    EXT_FIELD("router.scale",        F32,  router_scale, 0),
    EXT_FIELD("router.early",        BOOL, router_early, 1),
    EXT_FIELD("attn.both_ways",      BOOL, both_ways, 1),
    EXT_FIELD("attn.window_first",   U32,  window_first, 0),
    EXT_FIELD("embd.token_types",    U32,  n_token_types, 0),
    EXT_FIELD("rank.mean",           BOOL, rank_mean, 1),
    EXT_FIELD("rank.classes",        U32,  n_classes, 0),
    EXT_FIELD("dense.width",         U32,  n_between, 0),
    EXT_FIELD("attn.head_dim_local", U32,  head_dim_local, 0),
    EXT_FIELD("rope.dim_local",      U32,  rope_dim_local, 0),
    EXT_FIELD("attn.kv_shared",      U32,  n_kv_shared, 0),
    EXT_FIELD("attn.v_norm",         BOOL, v_norm, 1),
    EXT_FIELD("layer.altup",         BOOL, altup, 1),
    EXT_FIELD("layer.laurel",        U32,  n_laurel, 0),
    EXT_FIELD("ffn.sparse_layers",   U32,  n_sparse, 0),
    EXT_FIELD("ffn.sparse",          F32,  sparse, 0),
    EXT_FIELD("embd.per_layer",      U32,  n_embd_layer, 0),
    EXT_FIELD("pooling",             U8,   pooling, QSF_POOL_RANK),
};
#undef EXT_FIELD

/* Whether a member, which is no text, is not zero. */
static bool ext_is_set(const qsf_hparams *hp, const struct ext_field *f)
{
    const uint8_t *at = (const uint8_t *)hp + f->at;
    if (f->kind != EXT_F_U32 && f->kind != EXT_F_F32) return *at != 0;
    return at[0] || at[1] || at[2] || at[3];
}

bool qsf_ext_needs_reader(const qsf_hparams *hp)
{
    bool needs = hp->xielu || hp->mixers || hp->feed_forwards || hp->ffs || hp->kv_heads ||
                 hp->useds || hp->expert_ffs || hp->windowed;
    for (size_t i = 0; i < QSF_ARRAY_LEN(ext_fields); i++)
        needs |= ext_fields[i].at >= offsetof(qsf_hparams, flow) && ext_is_set(hp, &ext_fields[i]);
    return needs;
}

void qsf_ext_put_hparams(qsf_ext_out *o, const qsf_hparams *hp)
{
    for (size_t i = 0; i < QSF_ARRAY_LEN(ext_fields); i++) {
        const struct ext_field *f = &ext_fields[i];
        const uint8_t *at = (const uint8_t *)hp + f->at;
        uint32_t word;
        uint8_t byte = *at;
        memcpy(&word, at, f->kind == EXT_F_U32 || f->kind == EXT_F_F32 ? 4 : 1);
        if (f->at >= offsetof(qsf_hparams, flow) && !ext_is_set(hp, f)) continue;
        if (at == &hp->pooling && !byte) continue;
        switch (f->kind) {
        case EXT_F_TEXT: ext_put_text(o, f->key, (const char *)at); break;
        case EXT_F_BOOL: byte = *(const bool *)at; qsf_ext_put_u8s(o, f->key, &byte, 1); break;
        case EXT_F_U8:   qsf_ext_put_u8s(o, f->key, &byte, 1); break;
        case EXT_F_U32:  ext_words(o, f->key, QSF_EXT_U32, &word, 1); break;
        default:         ext_words(o, f->key, QSF_EXT_F32, &word, 1); break;
        }
    }
    const uint32_t half = (hp->rope_dim ? hp->rope_dim : hp->head_dim) / 2;
    if (hp->rope_factors) qsf_ext_put_f32s(o, "rope.factors", hp->rope_factors, half);
    if (hp->rope_factors_long) qsf_ext_put_f32s(o, "rope.factors_long", hp->rope_factors_long, half);
    if (hp->mixers) qsf_ext_put_u8s(o, "layer.mixers", hp->mixers, hp->n_layers);
    if (hp->feed_forwards) qsf_ext_put_u8s(o, "layer.ffns", hp->feed_forwards, hp->n_layers);
    if (hp->windowed) qsf_ext_put_u8s(o, "layer.windowed", hp->windowed, hp->n_layers);
    if (hp->ffs) qsf_ext_put_u32s(o, "layer.ff", hp->ffs, hp->n_layers);
    if (hp->kv_heads) qsf_ext_put_u32s(o, "layer.kv_heads", hp->kv_heads, hp->n_layers);
    if (hp->useds) qsf_ext_put_u32s(o, "layer.experts_used", hp->useds, hp->n_layers);
    if (hp->expert_ffs) qsf_ext_put_u32s(o, "layer.experts_ff", hp->expert_ffs, hp->n_layers);
    if (hp->xielu) qsf_ext_put_f32s(o, "ffn.xielu", hp->xielu, (uint64_t)hp->n_layers * QSF_XIELU_NUMBERS);
}

static qsf_status ext_get_field(const qsf_ext *x, const struct ext_field *f, qsf_hparams *hp, qsf_error *err)
{
    static const uint8_t types[] = { QSF_EXT_TEXT, QSF_EXT_U8, QSF_EXT_U8, QSF_EXT_U32, QSF_EXT_F32 };
    uint8_t *at = (uint8_t *)hp + f->at;
    qsf_ext_value v;
    qsf_status st = f->kind == EXT_F_TEXT ? qsf_ext_get(x, f->key, QSF_EXT_TEXT, &v, err)
        : ext_get_one(x, f->key, types[f->kind], &v, err);
    if (st || !v.data) return st;
    if (f->kind == EXT_F_TEXT) {
        const uint32_t n = QSF_MIN(v.count, (uint32_t)f->limit - 1);
        memset(at, 0, f->limit);
        memcpy(at, v.data, n);
        return QSF_OK;
    }
    if (f->kind == EXT_F_U32 || f->kind == EXT_F_F32) {
        const uint32_t word = qsf_le32(v.data);
        if (f->kind == EXT_F_F32 && !isfinite(qsf_f32_from_bits(word)))
            return qsf_fail(err, QSF_E_CORRUPT, "%s: extension key %s is not a number", x->path, f->key);
        memcpy(at, &word, 4);
        return QSF_OK;
    }
    if (v.data[0] > f->limit)
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: extension key %s is %u; the range is 0 to %u", x->path,
                        f->key, (unsigned)v.data[0], (unsigned)f->limit);
    if (f->kind == EXT_F_BOOL) *(bool *)at = v.data[0] != 0;
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

qsf_status qsf_ext_get_hparams(const qsf_ext *x, qsf_hparams *hp, qsf_arena *a, qsf_error *err)
{
    qsf_status st;
    for (size_t i = 0; i < QSF_ARRAY_LEN(ext_fields); i++)
        if ((st = ext_get_field(x, &ext_fields[i], hp, err))) return st;
    const uint32_t half = (hp->rope_dim ? hp->rope_dim : hp->head_dim) / 2;
    if ((st = ext_get_factors(x, "rope.factors", half, true, &hp->rope_factors, a, err)) ||
        (st = ext_get_factors(x, "rope.factors_long", half, true, &hp->rope_factors_long, a, err))) return st;
    if ((st = ext_get_layers(x, "layer.mixers", hp->n_layers, &hp->mixers, a, err)) ||
        (st = ext_get_layers(x, "layer.ffns", hp->n_layers, &hp->feed_forwards, a, err)) ||
        (st = ext_get_layers(x, "layer.windowed", hp->n_layers, &hp->windowed, a, err))) return st;
    if ((st = ext_get_sizes(x, "layer.ff", hp->n_layers, hp->n_ff, &hp->ffs, a, err)) ||
        (st = ext_get_sizes(x, "layer.kv_heads", hp->n_layers, hp->n_kv_heads, &hp->kv_heads, a, err)) ||
        (st = ext_get_sizes(x, "layer.experts_used", hp->n_layers, hp->n_used, &hp->useds, a, err)) ||
        (st = ext_get_sizes(x, "layer.experts_ff", hp->n_layers, hp->n_ff_expert, &hp->expert_ffs, a, err)))
        return st;
    if (hp->act != QSF_ACT_XIELU) return QSF_OK;
    st = ext_get_factors(x, "ffn.xielu", hp->n_layers * QSF_XIELU_NUMBERS, false, &hp->xielu, a, err);
    return st || hp->xielu ? st : qsf_fail(err, QSF_E_CORRUPT, "%s: ffn.xielu is missing", x->path);
}
