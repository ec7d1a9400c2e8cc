/* A sequence as bytes: its tokens, keys and values, to resume from later.  docs/format.md describes
 * the layout.
 * SPDX-License-Identifier: MIT
 *
 * The records of the KV cache are written as they lie in memory: their layout depends on the model
 * and the KV type, not on the kernels.  Reading takes two passes over the bytes: the first checks
 * all of them, the second copies them into the cache. */
#include "engine/sequence.h"
#include "model/description.h"

enum {
    SESSION_HEADER = 64, SESSION_PART = 2048,
    SESSION_VERSION = 3,            /* versions 1 and 2 knew the model by only some of its numbers */
    AT_VERSION = 4, AT_LENGTH = 8, AT_MODEL = 16, AT_KEYS = 24, AT_POSITIONS = 28, AT_LAYERS = 32,
    AT_HEADS = 36, AT_DIM = 40, AT_TYPE = 44, AT_RECORD = 48, AT_STATE = 52, AT_CRC = 60
};
static const char session_magic[4] = { 'Q', 'S', 'F', 'S' };

/* ---- what a session belongs to ---- */

typedef struct session_hash { uint64_t h; } session_hash;
static void hash_bytes(session_hash *x, const void *p, uint64_t n)
{
    x->h = qsf_fnv1a(x->h, p, n);
}
static void hash_number(session_hash *x, uint64_t v)
{
    uint8_t b[8];
    qsf_put64(b, v);
    hash_bytes(x, b, sizeof b);
}
static void hash_text(session_hash *x, const char *text) { hash_bytes(x, text, strlen(text) + 1); }

/* The description, the vocabulary, every tensor's type, shape and place, which part of the model
 * runs here, and the checksums of weights if the file has them (QSF).  GGUF files do not: two that
 * differ only in the values of weights are taken for the same model. */
static uint64_t session_model(const qsf_source *s)
{
    session_hash x = { QSF_FNV1A };
    hash_text(&x, s->format);
    for (uint32_t i = 0; i < s->n_files; i++) hash_number(&x, s->lengths[i]);
    x.h = qsf_hparams_hash(x.h, &s->hp);
    const uint32_t part[] = { s->n_before, s->n_after, s->share, s->n_shares };
    for (size_t i = 0; i < QSF_ARRAY_LEN(part); i++) hash_number(&x, part[i]);
    hash_number(&x, s->vocab.n_tokens);
    if (s->vocab.n_tokens) hash_bytes(&x, s->vocab.text, s->vocab.at[s->vocab.n_tokens]);
    for (uint32_t i = 0; i < s->n_units; i++) {
        hash_number(&x, s->units[i].stored);
        hash_number(&x, s->units[i].has_crc ? s->units[i].crc : 0);
        if (s->units[i].rest) hash_number(&x, s->units[i].rest_crc);
    }
    for (uint32_t i = 0; i < s->n_tensors; i++) {
        const qsf_tensor *t = &s->tensors[i];
        const uint64_t numbers[] = { t->kind, t->type, t->packing, t->block, t->rows, t->cols, s->places[i] };
        for (size_t k = 0; k < QSF_ARRAY_LEN(numbers); k++) hash_number(&x, numbers[k]);
    }
    if (s->embd_clusters) {
        hash_bytes(&x, s->embd_clusters->of, s->hp.n_vocab * sizeof *s->embd_clusters->of);
        hash_bytes(&x, s->embd_clusters->centroids.data, (size_t)s->embd_clusters->centroids.bytes);
    }
    return x.h;
}

/* What else keys and values depend on: layers that are left out, the window, and with some models
 * the context's length. */
static uint32_t session_keys(const qsf_context *c)
{
    const qsf_hparams *hp = c->hp;
    session_hash x = { QSF_FNV1A };
    for (uint32_t i = 0; i < hp->n_layers; i++) hash_number(&x, qsf_layer_skipped(&c->fetch, i));
    hash_number(&x, qsf_ropes_long(c->model->source, c->o.n_ctx));
    const qsf_source *s = c->model->source;
    const qsf_kv_layout *kv = &c->executor->kv;
    const bool unbiased = kv->k_bits && qsf_unit_find(s, 0, QSF_K_ATTN_K_BIAS) >= 0;
    const bool apart = qsf_bias_apart(s, kv->type);
    const uint32_t n_ropes = s->n_ropes;
    /* two at least, as files have had it from the first on */
    for (uint32_t i = 0; i < QSF_MAX(n_ropes, 2); i++) {
        const uint32_t slow = n_ropes ? c->ropes[QSF_MIN(i, n_ropes - 1)].slow : 0;
        hash_number(&x, !unbiased ? 0 : apart ? UINT32_MAX : slow);
    }
    if (c->o.kv_window) {
        hash_number(&x, c->o.kv_window);
        hash_number(&x, c->o.kv_sinks);
        if (c->o.kv_heavy) hash_number(&x, c->o.kv_heavy);
    }
    return (uint32_t)(x.h ^ x.h >> 32);
}

static uint64_t session_bytes(const qsf_context *c, uint64_t n)
{
    const qsf_kv_layout *l = &c->executor->kv;
    const uint64_t records = qsf_ceil_div(n, QSF_KV_BLOCK) * l->n_layers * l->n_kv_heads * l->record;
    return SESSION_HEADER + n * 4 + records + c->executor->state_bytes + 4;
}

static void session_header(const qsf_context *c, uint32_t seq, uint32_t n, uint8_t h[SESSION_HEADER])
{
    const qsf_kv_layout *l = &c->executor->kv;
    memset(h, 0, SESSION_HEADER);
    memcpy(h, session_magic, sizeof session_magic);
    qsf_put32(h + AT_VERSION, SESSION_VERSION);
    qsf_put64(h + AT_LENGTH, session_bytes(c, n));
    qsf_put64(h + AT_MODEL, session_model(c->model->source) ^ qsf_lora_hash(&c->lora, seq));
    qsf_put32(h + AT_KEYS, session_keys(c));
    qsf_put32(h + AT_POSITIONS, n);
    qsf_put32(h + AT_LAYERS, l->n_layers);
    qsf_put32(h + AT_HEADS, l->n_kv_heads);
    qsf_put32(h + AT_DIM, l->head_dim);
    qsf_put32(h + AT_TYPE, (uint32_t)l->type);
    qsf_put32(h + AT_RECORD, (uint32_t)l->record);
    qsf_put64(h + AT_STATE, c->executor->state_bytes);
    qsf_put32(h + AT_CRC, qsf_crc32(0, h, AT_CRC));
}

/* ---- writing ---- */

typedef struct session_out {
    qsf_write_fn write;
    void    *user;
    uint32_t (*crc32)(uint32_t crc, const void *p, size_t len);
    uint32_t crc;
} session_out;

static qsf_status out_put(session_out *o, const void *p, size_t n, qsf_error *err)
{
    const qsf_status st = n ? o->write(o->user, p, n) : QSF_OK;
    o->crc = o->crc32(o->crc, p, n);
    return st ? qsf_fail(err, st == QSF_PENDING ? QSF_E_IO : st, "writing the session failed") : QSF_OK;
}

/* Keys and values of n positions, and the state after them. */
static qsf_status out_sequence(const qsf_context *c, uint32_t seq, uint32_t n, session_out *o, qsf_error *err)
{
    qsf_executor *x = c->executor;
    const qsf_kv_layout *l = &x->kv;
    const uint32_t *blocks = c->tables.seqs[seq].blocks;
    uint8_t *bytes;
    qsf_status st;
    for (uint32_t b = 0; b < qsf_ceil_div(n, QSF_KV_BLOCK); b++)
        for (uint32_t i = 0; i < l->n_layers; i++) {
            if ((st = x->does->kv_map(x, i, blocks[b], false, &bytes, err))) return st;
            if ((st = out_put(o, bytes, l->n_kv_heads * l->record, err))) return st;
        }
    if (!x->state_bytes) return QSF_OK;
    if ((st = x->does->state_map(x, qsf_state_saved(&c->state, seq), false, &bytes, err))) return st;
    return out_put(o, bytes, x->state_bytes, err);
}

qsf_status qsf_session_save(const qsf_context *c, qsf_seq seq, const int32_t *ids, size_t n_ids,
                            qsf_write_fn write, void *user, qsf_error *err)
{
    uint8_t part[SESSION_PART];
    session_out o = { write, user, c->model->source->crc32, 0 };
    qsf_status st;
    if (seq < 0 || (uint32_t)seq >= c->o.n_seqs)
        return qsf_fail(err, QSF_E_ARGUMENT, "sequence %d; the context has %u", (int)seq,
                        (unsigned)c->o.n_seqs);
    const uint32_t n = qsf_seq_length(c, seq);
    if (n_ids != n)
        return qsf_fail(err, QSF_E_ARGUMENT, "%llu tokens were given for a sequence of %u positions",
                        (unsigned long long)n_ids, (unsigned)n);
    if (!qsf_kv_whole(&c->tables.seqs[seq]))
        return qsf_fail(err, QSF_E_UNSUPPORTED,
                        "the window has dropped keys and values of the sequence: it cannot be saved");
    if ((st = qsf_exit_check(&c->early_exit, (uint32_t)seq, n, err))) return st;
    session_header(c, (uint32_t)seq, n, part);
    if ((st = out_put(&o, part, SESSION_HEADER, err))) return st;
    for (uint32_t i = 0; i < n;) {
        size_t at = 0;
        for (; i < n && at < sizeof part; at += 4) qsf_put32(part + at, (uint32_t)ids[i++]);
        if ((st = out_put(&o, part, at, err))) return st;
    }
    if ((st = out_sequence(c, (uint32_t)seq, n, &o, err))) return st;
    qsf_put32(part, o.crc);
    return out_put(&o, part, 4, err);
}

uint64_t qsf_session_bytes(const qsf_context *c, qsf_seq seq)
{
    return session_bytes(c, qsf_seq_length(c, seq));
}

/* ---- reading ---- */

typedef struct session_in {
    const qsf_custom_file *from;
    uint32_t (*crc32)(uint32_t crc, const void *p, size_t len);
    uint32_t crc;
    uint64_t at;
} session_in;

static qsf_status in_get(session_in *in, void *dst, size_t n, qsf_error *err)
{
    const qsf_status st = n ? in->from->read(in->from->user, in->at, dst, n) : QSF_OK;
    if (st)
        return qsf_fail(err, st == QSF_PENDING ? QSF_E_IO : st, "session: cannot read %llu bytes at %llu",
                        (unsigned long long)n, (unsigned long long)in->at);
    in->crc = in->crc32(in->crc, dst, n);
    in->at += n;
    return QSF_OK;
}

/* Whether the session with this header can be resumed here. */
static qsf_status session_fits(const qsf_context *c, uint32_t seq, const uint8_t *h, uint64_t length,
                               qsf_error *err)
{
    uint8_t own[SESSION_HEADER];
    if (memcmp(h, session_magic, sizeof session_magic))
        return qsf_fail(err, QSF_E_CORRUPT, "this is not a saved session");
    if (qsf_crc32(0, h, AT_CRC) != qsf_le32(h + AT_CRC))
        return qsf_fail(err, QSF_E_CORRUPT, "session: the header's checksum is wrong");
    const uint32_t version = qsf_le32(h + AT_VERSION), n = qsf_le32(h + AT_POSITIONS);
    if (version && version < SESSION_VERSION)
        return qsf_fail(err, QSF_E_UNSUPPORTED, "session: version %u, which an earlier libqsf wrote, does "
                        "not identify its model reliably; start a new session", (unsigned)version);
    if (version != SESSION_VERSION)
        return qsf_fail(err, QSF_E_UNSUPPORTED, "session: version %u; this build reads version %d",
                        (unsigned)version, (int)SESSION_VERSION);
    session_header(c, seq, n, own);
    if (memcmp(h + AT_MODEL, own + AT_MODEL, 8))
        return qsf_fail(err, QSF_E_ARGUMENT, "session: it belongs to another model, or was computed with "
                        "other adapters");
    if (qsf_le32(h + AT_TYPE) != (uint32_t)c->executor->kv.type)
        return qsf_fail(err, QSF_E_ARGUMENT,
                        "session: its KV cache has type %s, the context's has %s: use the same",
                        qsf_le32(h + AT_TYPE) <= QSF_KV_Q4V2 ? qsf_kv_name((qsf_kv_type)qsf_le32(h + AT_TYPE))
                        : "something else", qsf_kv_name(c->executor->kv.type));
    if (qsf_le32(h + AT_KEYS) != qsf_le32(own + AT_KEYS))
        return qsf_fail(err, QSF_E_ARGUMENT,
                        "session: its keys were made with another context length, window or quality");
    if (memcmp(h, own, SESSION_HEADER))
        return qsf_fail(err, QSF_E_CORRUPT, "session: its shape is not the model's");
    if (length != qsf_le64(h + AT_LENGTH))
        return qsf_fail(err, QSF_E_CORRUPT, "session: %llu bytes instead of %llu; is it cut short?",
                        (unsigned long long)length, (unsigned long long)qsf_le64(h + AT_LENGTH));
    if (n > c->o.n_ctx)
        return qsf_fail(err, QSF_E_FULL, "session: %u positions, the context has %u", (unsigned)n,
                        (unsigned)c->o.n_ctx);
    return QSF_OK;
}

/* Scales are used unchanged, so they must be values that quantising produces: not negative,
 * infinite or NaN. */
static bool scales_valid(const uint8_t *p, unsigned bits)
{
    for (size_t i = 0; i < QSF_KV_BLOCK; i++)
        if (bits == 8 ? qsf_le32(p + 4 * i) >= 0x7f800000 : qsf_le16(p + 2 * i) >= 0x7c00) return false;
    return true;
}

static qsf_status check_record(session_in *in, const qsf_kv_layout *l, qsf_error *err)
{
    uint8_t part[SESSION_PART];
    const size_t plain = l->k_bits ? l->kd_at : l->record;
    qsf_status st;
    for (size_t at = 0; at < plain; at += SESSION_PART)
        if ((st = in_get(in, part, QSF_MIN(SESSION_PART, plain - at), err))) return st;
    if (plain == l->record) return QSF_OK;
    assert(l->record - plain <= sizeof part);
    if ((st = in_get(in, part, l->record - plain, err))) return st;
    return scales_valid(part, l->k_bits) && scales_valid(part + (l->vd_at - l->kd_at), l->v_bits) ? QSF_OK
        : qsf_fail(err, QSF_E_CORRUPT, "session: a scale before byte %llu is not a valid scale",
                   (unsigned long long)in->at);
}

/* The whole file, without touching anything of the context. */
static qsf_status session_check(const qsf_context *c, uint32_t seq, const qsf_custom_file *from, uint32_t *n,
                                uint32_t *crc, qsf_error *err)
{
    uint8_t part[SESSION_PART];
    session_in in = { from, c->model->source->crc32, 0, 0 };
    qsf_status st, bad = QSF_OK;
    if (from->length < SESSION_HEADER + 4)
        return qsf_fail(err, QSF_E_CORRUPT, "session: %llu bytes are too few",
                        (unsigned long long)from->length);
    if ((st = in_get(&in, part, SESSION_HEADER, err)) || (st = session_fits(c, seq, part, from->length, err)))
        return st;
    *n = qsf_le32(part + AT_POSITIONS);
    for (uint64_t left = (uint64_t)*n * 4; left;) {
        const size_t len = (size_t)QSF_MIN(left, SESSION_PART);
        if ((st = in_get(&in, part, len, err))) return st;
        for (size_t i = 0; i < len; i += 4)
            if (qsf_le32(part + i) >= c->hp->n_vocab) bad = QSF_E_CORRUPT;
        left -= len;
    }
    const qsf_kv_layout *l = &c->executor->kv;
    const uint64_t records = qsf_ceil_div(*n, QSF_KV_BLOCK) * l->n_layers * l->n_kv_heads;
    for (uint64_t i = 0; i < records; i++)
        if ((st = check_record(&in, l, err))) return st;
    const size_t state = c->executor->state_bytes;
    for (size_t at = 0; at < state; at += SESSION_PART)
        if ((st = in_get(&in, part, QSF_MIN(SESSION_PART, state - at), err))) return st;
    *crc = in.crc;
    if ((st = in_get(&in, part, 4, err))) return st;
    if (qsf_le32(part) != *crc)
        return qsf_fail(err, QSF_E_CORRUPT,
                        "session: the checksum is wrong; it is damaged or incomplete");
    return bad ? qsf_fail(err, bad, "session: a token is outside the vocabulary") : QSF_OK;
}

static qsf_status in_sequence(qsf_context *c, uint32_t seq, session_in *in, uint32_t n, qsf_error *err)
{
    qsf_executor *x = c->executor;
    const qsf_kv_layout *l = &x->kv;
    const uint32_t *blocks = c->tables.seqs[seq].blocks;
    uint8_t *bytes;
    qsf_status st;
    for (uint32_t b = 0; b < qsf_ceil_div(n, QSF_KV_BLOCK); b++)
        for (uint32_t i = 0; i < l->n_layers; i++) {
            if ((st = x->does->kv_map(x, i, blocks[b], true, &bytes, err))) return st;
            if ((st = in_get(in, bytes, l->n_kv_heads * l->record, err))) return st;
        }
    if (!x->state_bytes) return QSF_OK;
    if ((st = x->does->state_map(x, qsf_state_load(&c->state, seq, n), true, &bytes, err))) return st;
    return in_get(in, bytes, x->state_bytes, err);
}

/* The same bytes again, into the cache. */
static qsf_status session_take(qsf_context *c, uint32_t seq, session_in *in, int32_t *ids, uint32_t n,
                               qsf_error *err)
{
    uint8_t part[SESSION_PART];
    qsf_status st = in_get(in, part, SESSION_HEADER, err);
    for (uint32_t i = 0; i < n && !st;) {
        const size_t len = QSF_MIN((size_t)(n - i) * 4, SESSION_PART);
        if ((st = in_get(in, part, len, err))) break;
        for (size_t at = 0; at < len; at += 4) ids[i++] = (int32_t)qsf_le32(part + at);
    }
    return st ? st : in_sequence(c, seq, in, n, err);
}

qsf_status qsf_session_load(qsf_context *c, qsf_seq seq, const qsf_custom_file *from, int32_t *ids,
                            size_t cap, size_t *n_ids, qsf_error *err)
{
    session_in in = { from, c->model->source->crc32, 0, 0 };
    uint32_t n, crc;
    *n_ids = 0;
    qsf_status st = qsf_custom_check(from, err);
    if (st) return st;
    if (seq < 0 || (uint32_t)seq >= c->o.n_seqs)
        return qsf_fail(err, QSF_E_ARGUMENT, "sequence %d; the context has %u", (int)seq,
                        (unsigned)c->o.n_seqs);
    st = session_check(c, (uint32_t)seq, from, &n, &crc, err);
    if (st) return st;
    *n_ids = n;
    if (n > cap)
        return qsf_fail(err, QSF_E_ARGUMENT, "the session has %u tokens, there is room for %llu", (unsigned)n,
                        (unsigned long long)cap);
    const uint32_t s = (uint32_t)seq, old = qsf_seq_length(c, seq);
    uint32_t room = c->tables.n_free;
    const qsf_kv_seq *has = &c->tables.seqs[s];
    for (uint32_t b = 0; b < has->n; b++) room += c->tables.refs[has->blocks[b]] == 1;
    if (qsf_ceil_div(n, QSF_KV_BLOCK) > room)
        return qsf_fail(err, QSF_E_FULL,
                        "the session's %u positions do not fit alongside the other sequences",
                                         
                        (unsigned)n);
    (void)qsf_seq_truncate(c, seq, old);        /* drops a batch under way */
    qsf_seq_back(c, s, 0);
    st = qsf_kv_grow(&c->tables, s, n);
    assert(!st);
    st = session_take(c, s, &in, ids, n, err);
    if (!st && in.crc != crc)
        st = qsf_fail(err, QSF_E_IO,
                      "session: its bytes changed while it was read; the sequence is empty now");
    if (!st) return QSF_OK;
    qsf_seq_back(c, s, 0);
    *n_ids = 0;
    return st;
}
