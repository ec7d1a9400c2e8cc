/* The vocabulary in a QSF file's extension section, as few bytes as a simple reader allows.
 * SPDX-License-Identifier: MIT
 *
 * Numbers are varints: 7 bits a byte, lowest first, the top bit says that more follow. */
#include "model/qsf_ext.h"

/* ---- writing ---- */

static void vocab_put_varint(qsf_ext_out *o, uint64_t v)
{
    uint8_t b[10];
    size_t n = 0;
    for (; v >= 128; v >>= 7) b[n++] = (uint8_t)(v | 128);
    b[n++] = (uint8_t)v;
    qsf_ext_bytes(o, b, n);
}

static void vocab_put_i32s(qsf_ext_out *o, const char *key, const int32_t *v, size_t n)
{
    qsf_ext_begin(o, key, QSF_EXT_I32);
    for (size_t i = 0; i < n; i++) {
        uint8_t b[4];
        qsf_put32(b, (uint32_t)v[i]);
        qsf_ext_bytes(o, b, 4);
    }
    qsf_ext_end(o);
}

/* Scores of most vocabularies count down in ones: steps between them then take a byte each.
 * Whole numbers only. */
static bool vocab_whole_scores(const qsf_vocab *v)
{
    for (uint32_t i = 0; i < v->n_tokens; i++) {
        if (!(fabsf(v->scores[i]) <= 0x1p24f)) return false;
        if ((float)(int32_t)v->scores[i] != v->scores[i]) return false;
        if (qsf_f32_bits(v->scores[i]) == 0x80000000u) return false;    /* -0 */
    }
    return true;
}

static void vocab_put_scores(qsf_ext_out *o, const qsf_vocab *v)
{
    if (!vocab_whole_scores(v)) {
        qsf_ext_begin(o, "vocab.scores", QSF_EXT_F32);
        for (uint32_t i = 0; i < v->n_tokens; i++) {
            uint8_t b[4];
            qsf_put32(b, qsf_f32_bits(v->scores[i]));
            qsf_ext_bytes(o, b, 4);
        }
    } else {
        qsf_ext_begin(o, "vocab.score_steps", QSF_EXT_U8);
        int64_t last = 0;
        for (uint32_t i = 0; i < v->n_tokens; i++) {
            const int64_t step = (int64_t)v->scores[i] - last;
            vocab_put_varint(o, step < 0 ? (uint64_t)(-step) * 2 - 1 : (uint64_t)step * 2);
            last += step;
        }
    }
    qsf_ext_end(o);
}

static void vocab_put_types(qsf_ext_out *o, const qsf_vocab *v)
{
    qsf_ext_begin(o, "vocab.types", QSF_EXT_U8);
    for (uint32_t i = 0, n; i < v->n_tokens; i += n) {
        for (n = 1; i + n < v->n_tokens && v->types[i + n] == v->types[i]; n++) ;
        qsf_ext_bytes(o, &v->types[i], 1);
        vocab_put_varint(o, n);
    }
    qsf_ext_end(o);
}

static void vocab_put_name(qsf_ext_out *o, const char *key, const char *text)
{
    qsf_ext_begin(o, key, QSF_EXT_TEXT);
    qsf_ext_bytes(o, text, strlen(text));
    qsf_ext_end(o);
}

/* The names of those that have one, a line each, and each under its own key. */
static void vocab_put_templates(qsf_ext_out *o, const qsf_vocab *v)
{
    if (v->chat_template) vocab_put_name(o, "vocab.chat_template", v->chat_template);
    if (!v->n_more) return;
    qsf_ext_begin(o, "vocab.chat_templates", QSF_EXT_TEXT);
    for (uint32_t i = 0; i < v->n_more; i++) {
        qsf_ext_bytes(o, v->more[i].name, strlen(v->more[i].name));
        qsf_ext_bytes(o, "\n", 1);
    }
    qsf_ext_end(o);
    for (uint32_t i = 0; i < v->n_more; i++) {
        char key[32 + QSF_VOCAB_TEMPLATE_NAME];
        qsf_format(key, sizeof key, "vocab.chat_template.%s", v->more[i].name);
        vocab_put_name(o, key, v->more[i].text);
    }
}

void qsf_ext_put_vocab(qsf_ext_out *o, const qsf_vocab *v)
{
    vocab_put_templates(o, v);
    int32_t ids[6] = { v->bos, v->eos, v->eot, v->unk, v->pad, v->sep };
    for (int i = 0; i < 6; i++)         /* an id that no token has is none */
        if (v->kind != QSF_VOCAB_NONE && (ids[i] < 0 || (uint32_t)ids[i] >= v->n_tokens)) ids[i] = -1;
    vocab_put_i32s(o, "vocab.special", ids, v->kind < QSF_VOCAB_WPM ? 5 : 6);
    int32_t eog[QSF_ARRAY_LEN(v->eog)];
    size_t n_eog = 0;
    for (uint32_t i = 0; i < v->n_eog && i < QSF_ARRAY_LEN(v->eog); i++)
        if (v->kind == QSF_VOCAB_NONE || (v->eog[i] >= 0 && (uint32_t)v->eog[i] < v->n_tokens))
            eog[n_eog++] = v->eog[i];
    if (n_eog) vocab_put_i32s(o, "vocab.eog", eog, n_eog);
    const uint8_t flags[9] = { v->add_bos, v->add_eos, v->add_space_prefix, v->nfc, v->add_sep, v->lowercase,
                               v->strip_accents, v->merge_spaces, v->space_suffix };
    qsf_ext_put_u8s(o, "vocab.flags", flags, v->kind < QSF_VOCAB_WPM ? 4 : 9);
    if (v->kind == QSF_VOCAB_NONE) return;

    qsf_ext_put_u8s(o, "vocab.kind", &v->kind, 1);
    vocab_put_name(o, "vocab.pre", v->pre);
    qsf_ext_put_u32(o, "vocab.size", v->n_tokens);
    qsf_ext_begin(o, "vocab.lengths", QSF_EXT_U8);
    for (uint32_t i = 0; i < v->n_tokens; i++) vocab_put_varint(o, v->at[i + 1] - v->at[i]);
    qsf_ext_end(o);
    qsf_ext_put_u8s(o, "vocab.text", v->n_tokens ? v->text + v->at[0] : NULL,
                    v->n_tokens ? v->at[v->n_tokens] - v->at[0] : 0);
    if (v->types) vocab_put_types(o, v);
    if (v->scores) vocab_put_scores(o, v);
    if (v->charsmap) qsf_ext_put_u8s(o, "vocab.charsmap", v->charsmap, v->charsmap_len);
    if (v->steps) qsf_ext_put_u8s(o, "vocab.steps", v->steps, v->steps_len);
    if (!v->n_merges) return;
    qsf_ext_put_u32(o, "vocab.n_merges", v->n_merges);
    qsf_ext_begin(o, "vocab.merges", QSF_EXT_U8);
    for (size_t i = 0; i < 2 * (size_t)v->n_merges; i++) vocab_put_varint(o, v->merges[i]);
    qsf_ext_end(o);
}

/* ---- reading ---- */

typedef struct vocab_bytes { const uint8_t *p, *end; bool bad; } vocab_bytes;

static uint64_t vocab_varint(vocab_bytes *b)
{
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 63 && b->p < b->end; shift += 7) {
        const uint8_t byte = *b->p++;
        v |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) return v;
    }
    b->bad = true;
    return 0;
}

static qsf_status vocab_get_bytes(const qsf_ext *x, const char *key, vocab_bytes *b, bool *there,
                                  qsf_error *err)
{
    qsf_ext_value v;
    const qsf_status st = qsf_ext_get(x, key, QSF_EXT_U8, &v, err);
    *b = (vocab_bytes){ v.data, v.data ? v.data + v.count : NULL, false };
    *there = !st && v.data;
    return st;
}

static qsf_status vocab_bad(const qsf_ext *x, const char *key, qsf_error *err)
{
    return qsf_fail(err, QSF_E_CORRUPT, "%s: extension key %s does not fit the vocabulary", x->path, key);
}

static qsf_status vocab_get_texts(const qsf_ext *x, qsf_vocab *v, qsf_arena *a, qsf_error *err)
{
    qsf_status st;
    vocab_bytes lengths, text;
    bool have;
    if ((st = vocab_get_bytes(x, "vocab.lengths", &lengths, &have, err))) return st;
    if ((st = vocab_get_bytes(x, "vocab.text", &text, &have, err))) return st;
    /* A length takes a byte at least: no count may ask for more memory than the file has bytes. */
    if (!v->n_tokens || v->n_tokens > (uint64_t)(lengths.end - lengths.p) || v->n_tokens > INT32_MAX)
        return vocab_bad(x, "vocab.size", err);
    const uint64_t bytes = (uint64_t)(text.end - text.p);
    if (!(v->at = qsf_arena_array(a, (uint64_t)v->n_tokens + 1, sizeof *v->at, "vocabulary", err)))
        return QSF_E_MEMORY;
    uint64_t at = 0;
    for (uint32_t i = 0; i < v->n_tokens; i++) {
        const uint64_t len = vocab_varint(&lengths);
        if (lengths.bad || len > bytes - at) return vocab_bad(x, "vocab.lengths", err);
        at += len;
        v->at[i + 1] = (uint32_t)at;
    }
    if (lengths.p != lengths.end || at != bytes) return vocab_bad(x, "vocab.text", err);
    v->text = qsf_arena_text(a, text.p, (size_t)bytes, err);
    return v->text ? QSF_OK : QSF_E_MEMORY;
}

static qsf_status vocab_get_types(const qsf_ext *x, qsf_vocab *v, qsf_arena *a, qsf_error *err)
{
    vocab_bytes b;
    bool have;
    const qsf_status st = vocab_get_bytes(x, "vocab.types", &b, &have, err);
    if (st) return st;
    if (!(v->types = qsf_arena_array(a, v->n_tokens, 1, "token types", err))) return QSF_E_MEMORY;
    memset(v->types, QSF_TOKEN_NORMAL, v->n_tokens);
    uint32_t i = 0;
    while (have && b.p < b.end) {
        const uint8_t type = *b.p++;
        const uint64_t n = vocab_varint(&b);
        if (b.bad || n > v->n_tokens - i || type < QSF_TOKEN_NORMAL || type > QSF_TOKEN_BYTE)
            return vocab_bad(x, "vocab.types", err);
        memset(v->types + i, type, (size_t)n);
        i += (uint32_t)n;
    }
    return have && i != v->n_tokens ? vocab_bad(x, "vocab.types", err) : QSF_OK;
}

static qsf_status vocab_get_scores(const qsf_ext *x, qsf_vocab *v, qsf_arena *a, qsf_error *err)
{
    qsf_status st;
    qsf_ext_value floats;
    vocab_bytes steps;
    bool have;
    if ((st = qsf_ext_get(x, "vocab.scores", QSF_EXT_F32, &floats, err))) return st;
    if ((st = vocab_get_bytes(x, "vocab.score_steps", &steps, &have, err))) return st;
    if (!floats.data && !have) return QSF_OK;
    if (floats.data && floats.count != v->n_tokens) return vocab_bad(x, "vocab.scores", err);
    if (!(v->scores = qsf_arena_array(a, v->n_tokens, sizeof(float), "token scores", err)))
        return QSF_E_MEMORY;
    int64_t last = 0;
    for (uint32_t i = 0; i < v->n_tokens; i++) {
        if (floats.data) {
            v->scores[i] = qsf_lef32(floats.data + 4 * (size_t)i);
            if (isnan(v->scores[i])) return vocab_bad(x, "vocab.scores", err);
            continue;
        }
        const uint64_t z = vocab_varint(&steps);
        if (z > UINT32_MAX) return vocab_bad(x, "vocab.score_steps", err);
        last += z & 1 ? -(int64_t)(z / 2 + 1) : (int64_t)(z / 2);
        if (last < -(1 << 24) || last > 1 << 24) return vocab_bad(x, "vocab.score_steps", err);
        v->scores[i] = (float)last;
    }
    return steps.bad || steps.p != steps.end ? vocab_bad(x, "vocab.score_steps", err) : QSF_OK;
}

static qsf_status vocab_get_merges(const qsf_ext *x, qsf_vocab *v, qsf_arena *a, qsf_error *err)
{
    qsf_status st;
    vocab_bytes b;
    bool have;
    if ((st = qsf_ext_get_u32(x, "vocab.n_merges", &v->n_merges, err))) return st;
    if ((st = vocab_get_bytes(x, "vocab.merges", &b, &have, err))) return st;
    if (2 * (uint64_t)v->n_merges > (uint64_t)(b.end - b.p)) return vocab_bad(x, "vocab.n_merges", err);
    if (!v->n_merges) return QSF_OK;
    if (!(v->merges = qsf_arena_array(a, v->n_merges, 2 * sizeof *v->merges, "merges", err)))
        return QSF_E_MEMORY;
    for (size_t i = 0; i < 2 * (size_t)v->n_merges; i++) {
        const uint64_t id = vocab_varint(&b);
        if (b.bad || id >= v->n_tokens) return vocab_bad(x, "vocab.merges", err);
        v->merges[i] = (uint32_t)id;
    }
    return b.p == b.end ? QSF_OK : vocab_bad(x, "vocab.merges", err);
}

/* Ids that mean something: in the vocabulary, or -1. */
static qsf_status vocab_get_specials(const qsf_ext *x, qsf_vocab *v, qsf_error *err)
{
    qsf_status st;
    qsf_ext_value special, eog, flags;
    int32_t *const ids[6] = { &v->bos, &v->eos, &v->eot, &v->unk, &v->pad, &v->sep };
    bool *const flag[9] = { &v->add_bos, &v->add_eos, &v->add_space_prefix, &v->nfc, &v->add_sep,
                            &v->lowercase, &v->strip_accents, &v->merge_spaces, &v->space_suffix };
    if ((st = qsf_ext_get(x, "vocab.special", QSF_EXT_I32, &special, err))) return st;
    if ((st = qsf_ext_get(x, "vocab.eog", QSF_EXT_I32, &eog, err))) return st;
    if ((st = qsf_ext_get(x, "vocab.flags", QSF_EXT_U8, &flags, err))) return st;
    if (special.data && special.count < 5) return vocab_bad(x, "vocab.special", err);
    if (flags.data && flags.count < 4) return vocab_bad(x, "vocab.flags", err);
    if (eog.count > QSF_ARRAY_LEN(v->eog)) return vocab_bad(x, "vocab.eog", err);
    v->n_eog = eog.count;
    for (uint32_t i = 0; i < 6 && i < special.count; i++) *ids[i] = (int32_t)qsf_le32(special.data + 4 * i);
    for (uint32_t i = 0; i < v->n_eog; i++) v->eog[i] = (int32_t)qsf_le32(eog.data + 4 * i);
    for (uint32_t i = 0; i < 9 && i < flags.count; i++) *flag[i] = flags.data[i];
    if (v->kind == QSF_VOCAB_NONE) return QSF_OK;
    for (uint32_t i = 0; i < 6 + v->n_eog; i++) {
        const int32_t id = i < 6 ? *ids[i] : v->eog[i - 6];
        if (id < -1 || (id >= 0 && (uint32_t)id >= v->n_tokens))
            return vocab_bad(x, i < 6 ? "vocab.special" : "vocab.eog", err);
    }
    return QSF_OK;
}

static qsf_status vocab_get_template(const qsf_ext *x, qsf_vocab *v, const char *key, const char *name,
                                     size_t len, qsf_arena *a, qsf_error *err)
{
    qsf_ext_value text;
    const qsf_status st = qsf_ext_get(x, key, QSF_EXT_TEXT, &text, err);
    if (st || !text.data) return st;
    return qsf_vocab_template(v, a, name, len, (const char *)text.data, text.count, err);
}

static qsf_status vocab_get_templates(const qsf_ext *x, qsf_vocab *v, qsf_arena *a, qsf_error *err)
{
    qsf_ext_value names;
    qsf_status st = vocab_get_template(x, v, "vocab.chat_template", "default", 7, a, err);
    if (st || (st = qsf_ext_get(x, "vocab.chat_templates", QSF_EXT_TEXT, &names, err))) return st;
    const char *at = (const char *)names.data, *all = at ? at + names.count : NULL, *end;
    for (; at && at < all && (end = memchr(at, '\n', (size_t)(all - at))); at = end + 1) {
        char key[32 + QSF_VOCAB_TEMPLATE_NAME];
        const size_t len = (size_t)(end - at);
        if (len >= QSF_VOCAB_TEMPLATE_NAME || v->n_more == QSF_VOCAB_TEMPLATES) break;
        qsf_format(key, sizeof key, "vocab.chat_template.%.*s", (int)len, at);
        if ((st = vocab_get_template(x, v, key, at, len, a, err))) return st;
    }
    return QSF_OK;
}

static qsf_status vocab_get_name(const qsf_ext *x, qsf_vocab *v, qsf_arena *a, qsf_error *err)
{
    qsf_status st;
    qsf_ext_value pre;
    if ((st = qsf_ext_get(x, "vocab.pre", QSF_EXT_TEXT, &pre, err))) return st;
    if (pre.data) memcpy(v->pre, pre.data, QSF_MIN(pre.count, (uint32_t)sizeof v->pre - 1));
    return vocab_get_templates(x, v, a, err);
}

qsf_status qsf_ext_get_vocab(const qsf_ext *x, qsf_vocab *v, qsf_arena *a, qsf_error *err)
{
    qsf_status st;
    qsf_ext_value kind;
    vocab_bytes charsmap, steps;
    bool have;
    if ((st = qsf_ext_get(x, "vocab.kind", QSF_EXT_U8, &kind, err))) return st;
    if (kind.data && (kind.count != 1 || kind.data[0] >= QSF_VOCAB_KINDS))
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: the vocabulary is of an unknown kind", x->path);
    v->kind = kind.data ? kind.data[0] : QSF_VOCAB_NONE;
    v->sep = -1;
    if ((st = vocab_get_name(x, v, a, err))) return st;
    if (v->kind != QSF_VOCAB_NONE) {
        if ((st = qsf_ext_get_u32(x, "vocab.size", &v->n_tokens, err))) return st;
        if ((st = vocab_get_texts(x, v, a, err))) return st;
        if ((st = vocab_get_types(x, v, a, err))) return st;
        if ((st = vocab_get_scores(x, v, a, err))) return st;
        if ((st = vocab_get_merges(x, v, a, err))) return st;
        if ((st = vocab_get_bytes(x, "vocab.charsmap", &charsmap, &have, err))) return st;
        if (have && (st = qsf_vocab_charsmap(v, a, charsmap.p, (uint64_t)(charsmap.end - charsmap.p), x->path,
                                             err)))
            return st;
        if ((st = vocab_get_bytes(x, "vocab.steps", &steps, &have, err))) return st;
        if (v->kind == QSF_VOCAB_STEPS && !have) return vocab_bad(x, "vocab.steps", err);
        v->steps_len = (uint32_t)(steps.end - steps.p);
        if (have && !(v->steps = (uint8_t *)qsf_arena_text(a, steps.p, v->steps_len,
                                                           err))) return QSF_E_MEMORY;
    }
    return vocab_get_specials(x, v, err);
}
