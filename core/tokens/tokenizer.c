/* The tokenizer's life, its special tokens, and its pieces of text.
 * SPDX-License-Identifier: MIT */
#include "tokens/tokenizer_own.h"

/* ---- tables ---- */

static bool token_special(const qsf_tokenizer *t, uint32_t id)
{
    const uint8_t k = t->vocab->types[id];
    return k == QSF_TOKEN_CONTROL || k == QSF_TOKEN_USER || k == QSF_TOKEN_UNKNOWN;
}

static void build_specials(qsf_tokenizer *t)
{
    for (uint32_t id = 0; id < t->vocab->n_tokens; id++) {
        size_t len;
        const char *text = token_text(t, id, &len);
        if (!token_special(t, id) || len == 0 || len > 128) continue;
        t->special_lengths[(uint8_t)text[0]][(len - 1) / 32] |= 1u << (len - 1) % 32;
        if (len > 1) t->special_pairs[(uint8_t)text[0]][(uint8_t)text[1] / 32] |= 1u << (uint8_t)text[1] % 32;
        uint8_t *longest = &t->longest_special[(uint8_t)text[0]];
        *longest = (uint8_t)QSF_MAX(*longest, len);
    }
    t->phi3 = t->vocab->kind == QSF_VOCAB_SPM && qsf_tokenizer_find(t, "<|placeholder1|>", 16) >= 0
        && qsf_tokenizer_find(t, "<|assistant|>", 13) >= 0;
    /* of a pre-tokenizer that a WordPiece vocabulary names, only this rule applies */
    const qsf_pretokenizer *named = qsf_pretokenizer_find(t->vocab->pre);
    const unsigned rules = named ? qsf_pretokenizer_rules(named) : 0;
    t->strips = -1;
    if (t->vocab->kind == QSF_VOCAB_UGM || rules & QSF_PRE_MASK)
        t->strips = qsf_tokenizer_find(t, "<mask>", 6);
    else if (rules & QSF_PRE_MASK_CAPITALS) t->strips = qsf_tokenizer_find(t, "[MASK]", 6);
}

static void build_byte_tokens(qsf_tokenizer *t)
{
    static const char hex[] = "0123456789ABCDEF";
    for (int b = 0; b < 256; b++) {
        char text[8];
        size_t len;
        if (t->vocab->kind == QSF_VOCAB_BPE && !(t->rules & QSF_PRE_RAW)) {
            len = qsf_utf8_encode(qsf_byte_letter((uint8_t)b), text);
        } else {
            memcpy(text, "<0x00>", len = 6);
            text[3] = hex[b >> 4];
            text[4] = hex[b & 15];
        }
        t->byte_tokens[b] = qsf_tokenizer_find(t, text, len);
    }
}

/* A BPE token's letters as bytes; letters that do not stand for a byte stay unchanged. */
static size_t decode_letters(const char *text, size_t len, char *out)
{
    size_t n = 0, used;
    for (size_t i = 0; i < len; i += used) {
        used = 1;
        if ((uint8_t)text[i] < 0x80) {                      /* the letter is the byte */
            out[n++] = text[i];
            continue;
        }
        const uint32_t c = qsf_utf8_decode(text + i, len - i, &used);
        const int b = qsf_letter_byte(c);
        if (b >= 0) {
            out[n++] = (char)b;
        } else {
            memcpy(out + n, text + i, used);
            n += used;
        }
    }
    return n;
}

/* An SPM token's text with U+2581 as spaces. */
static size_t decode_spaces(const char *text, size_t len, char *out)
{
    size_t n = 0;
    for (size_t i = 0; i < len;) {
        if (len - i >= 3 && !memcmp(text + i, "\xe2\x96\x81", 3)) {
            out[n++] = ' ';
            i += 3;
        } else {
            out[n++] = text[i++];
        }
    }
    return n;
}

static size_t decode_piece(const qsf_tokenizer *t, uint32_t id, char *out)
{
    size_t len;
    const char *text = token_text(t, id, &len);
    switch (t->vocab->types[id]) {
    case QSF_TOKEN_NORMAL:
        if (t->vocab->kind == QSF_VOCAB_BPE && !(t->rules & QSF_PRE_RAW))
            return decode_letters(text, len, out);
        if (t->vocab->kind != QSF_VOCAB_RWKV && t->vocab->kind != QSF_VOCAB_PLAMO
            && !(t->rules & QSF_PRE_NO_SPACES)) return decode_spaces(text, len, out);
        memcpy(out, text, len);
        return len;
    case QSF_TOKEN_BYTE:
        for (int b = 0; b < 256; b++)
            if (t->byte_tokens[b] == (int32_t)id) {
                out[0] = (char)b;
                return 1;
            }
        return 0;
    case QSF_TOKEN_CONTROL: case QSF_TOKEN_USER: case QSF_TOKEN_UNKNOWN:
        memcpy(out, text, len);
        return len;
    default:
        return 0;
    }
}

static qsf_status pieces_room(qsf_tokenizer *t, uint64_t bytes, qsf_error *err)
{
    if (bytes > UINT32_MAX / 2)
        return qsf_fail(err, QSF_E_UNSUPPORTED, "the texts of all tokens have more than 2 GB");
    t->pieces = qsf_arena_alloc(t->arena, bytes + 1, "pieces", err);
    t->piece_at = t->pieces ? qsf_arena_array(t->arena, (uint64_t)t->vocab->n_tokens + 1, sizeof(uint32_t),
                                              "pieces", err) : NULL;
    return t->piece_at ? QSF_OK : QSF_E_MEMORY;
}

static qsf_status build_pieces(qsf_tokenizer *t, qsf_error *err)
{
    const qsf_vocab *v = t->vocab;
    const qsf_status st = pieces_room(t, v->at[v->n_tokens], err);
    for (uint32_t id = 0; !st && id < v->n_tokens; id++)  /* a piece is never longer than its token's text */
        t->piece_at[id + 1] = t->piece_at[id] + (uint32_t)decode_piece(t, id, t->pieces + t->piece_at[id]);
    return st;
}

/* The same for tokenizers with steps, which may lengthen text: counts first, then writes. */
static qsf_status build_steps_pieces(qsf_tokenizer *t, qsf_error *err)
{
    token_buffer work[2] = { { 0 } };
    uint64_t bytes = 0;
    qsf_status st = QSF_OK;
    for (int write = 0; write < 2 && !st; write++) {
        if (write) st = pieces_room(t, bytes, err);
        for (uint32_t id = 0; !st && id < t->vocab->n_tokens; id++) {
            const char *piece;
            size_t len = 0;
            st = qsf_steps_piece(t, id, work, &piece, &len, err);
            bytes += len;
            if (st || !write) continue;
            memcpy(t->pieces + t->piece_at[id], piece, len);
            t->piece_at[id + 1] = t->piece_at[id] + (uint32_t)len;
        }
    }
    qsf_token_buffer_done(t, &work[0]);
    qsf_token_buffer_done(t, &work[1]);
    return st;
}

qsf_status qsf_tokenizer_new(const qsf_platform *p, const qsf_vocab *v, qsf_tokenizer **out, qsf_error *err)
{
    qsf_status st = QSF_E_MEMORY;
    qsf_arena *arena;
    *out = NULL;
    const bool named = v->kind == QSF_VOCAB_BPE || (v->kind == QSF_VOCAB_STEPS && v->pre[0]);
    const qsf_pretokenizer *pre = named ? qsf_pretokenizer_find(v->pre[0] ? v->pre : "default") : NULL;
    if (named && !pre)
        return qsf_fail(err, QSF_E_UNSUPPORTED, "unknown pre-tokenizer \"%s\"", v->pre);
    if (qsf_arena_new(p, &arena, err)) return QSF_E_MEMORY;
    qsf_tokenizer *t = qsf_arena_alloc(arena, sizeof *t, "tokenizer", err);
    if (!t) goto fail;
    t->platform = p;
    t->vocab = v;
    t->arena = arena;
    t->pre = pre;
    t->rules = pre ? qsf_pretokenizer_rules(pre) : 0;
    t->unk = v->unk;
    if (v->kind == QSF_VOCAB_STEPS && (st = qsf_steps_new(t, err))) goto fail;
    if ((st = qsf_token_texts_new(t, err))) goto fail;
    if ((v->kind == QSF_VOCAB_BPE || (t->steps && t->steps->model == STEPS_BPE)) &&
        (st = qsf_token_merges_new(t, err))) goto fail;
    if (v->kind == QSF_VOCAB_SPM) qsf_spm_new(t);
    if (v->kind >= QSF_VOCAB_WPM && (st = qsf_prefix_new(t, err))) goto fail;
    build_byte_tokens(t);
    if (t->steps && (st = qsf_steps_ready(t, err))) goto fail;
    build_specials(t);
    if ((st = t->steps ? build_steps_pieces(t, err) : build_pieces(t, err))) goto fail;
    *out = t;
    return QSF_OK;
fail:
    qsf_arena_free(arena);
    return st;
}

void qsf_tokenizer_free(qsf_tokenizer *t)
{
    if (t) qsf_arena_free(t->arena);
}

/* ---- pieces ---- */

size_t qsf_tokenizer_piece(const qsf_tokenizer *t, int32_t id, bool special, const char **bytes)
{
    *bytes = "";
    if (id < 0 || (uint32_t)id >= t->vocab->n_tokens) return 0;
    const uint8_t k = t->vocab->types[id];
    if (!special && (k == QSF_TOKEN_CONTROL || k == QSF_TOKEN_UNKNOWN)) return 0;
    *bytes = t->pieces + t->piece_at[id];
    return t->piece_at[id + 1] - t->piece_at[id];
}

bool qsf_tokenizer_is_end(const qsf_tokenizer *t, int32_t id)
{
    const qsf_vocab *v = t->vocab;
    if (id < 0) return false;
    for (uint32_t i = 0; i < v->n_eog; i++)
        if (v->eog[i] == id) return true;
    return id == v->eos || id == v->eot;
}

uint64_t qsf_tokenizer_memory(const qsf_tokenizer *t) { return qsf_arena_used(t->arena); }

/* ---- encoding ---- */

/* The longest special token at text[0..len) that may be taken; -1: none.  control_len: how far
 * those that are the model's own may reach. */
static int32_t special_at(const qsf_tokenizer *t, const char *text, size_t len, size_t control_len, size_t *n)
{
    const uint32_t *lengths = t->special_lengths[(uint8_t)text[0]];
    if (!(lengths[0] | lengths[1] | lengths[2] | lengths[3])) return -1;
    size_t most = QSF_MIN(len, t->longest_special[(uint8_t)text[0]]);
    if (most > 1 && !(t->special_pairs[(uint8_t)text[0]][(uint8_t)text[1] / 32] >> (uint8_t)text[1] % 32 & 1))
        most = 1;
    uint32_t hash = token_hash_begin;
    int32_t longest = -1;
    for (size_t l = 1; l <= most; l++) {
        hash = token_hash_byte(hash, text[l - 1]);
        if (!(lengths[(l - 1) / 32] >> (l - 1) % 32 & 1)) continue;
        const int32_t id = qsf_token_hashed(t, hash, text, l);
        if (id < 0 || !token_special(t, (uint32_t)id)) continue;
        if (l > control_len && t->vocab->types[id] != QSF_TOKEN_USER) continue;
        longest = id;
        *n = l;
    }
    return longest;
}

static qsf_status encode_plain(token_work *w, const char *text, size_t len, bool first)
{
    if (len == 0) return QSF_OK;
    switch (w->t->vocab->kind) {
    case QSF_VOCAB_BPE: return qsf_bpe_encode(w, text, len);
    case QSF_VOCAB_WPM: return qsf_wpm_encode(w, text, len);
    case QSF_VOCAB_UGM: return qsf_ugm_encode(w, text, len);
    case QSF_VOCAB_RWKV: return qsf_rwkv_encode(w, text, len);
    case QSF_VOCAB_PLAMO: return qsf_plamo_encode(w, text, len);
    default: return qsf_spm_encode(w, text, len, first && w->t->vocab->add_space_prefix);
    }
}

static bool blank_byte(char c) { return c == ' ' || (c >= 9 && c <= 13); }

static qsf_status encode_text(token_work *w, const char *text, size_t len, const qsf_text_span *spans,
                              size_t n_spans)
{
    const qsf_tokenizer *t = w->t;
    bool after_special = true;                            /* the text's beginning counts as one */
    size_t begin = 0, s = 0;
    for (size_t i = 0; i < len;) {
        size_t n;
        while (s < n_spans && spans[s].at + spans[s].len <= i) s++;
        const size_t control_len = s < n_spans && spans[s].is_template ? spans[s].at + spans[s].len - i : 0;
        const int32_t id = special_at(t, text + i, len - i, control_len, &n);
        if (id < 0) {
            i++;
            continue;
        }
        size_t plain = i;
        while (id == t->strips && plain > begin && blank_byte(text[plain - 1])) plain--;
        const qsf_status st = encode_plain(w, text + begin, plain - begin, after_special);
        if (st) return st;
        token_put(w->sink, id);
        after_special = true;
        i += n;
        if (t->phi3 && t->vocab->types[id] == QSF_TOKEN_CONTROL && id != t->vocab->bos && id != t->vocab->unk
            && id != t->vocab->eos)
            while (i < len && blank_byte(text[i])) i++;
        begin = i;
    }
    return encode_plain(w, text + begin, len - begin, after_special);
}

static qsf_status encode_all(const qsf_tokenizer *t, const char *text, size_t len, const qsf_text_span *spans,
                             size_t n_spans, bool begin, bool end, int32_t *ids, size_t cap, size_t *n,
                             qsf_error *err)
{
    const qsf_vocab *v = t->vocab;
    token_sink sink = { ids, cap, 0 };
    token_work w = { .t = t, .sink = &sink, .err = err };
    *n = 0;
    if (len > UINT32_MAX / 4)
        return qsf_fail(err, QSF_E_ARGUMENT, "an input of %llu bytes; at most 1 GB can be tokenized at once",
                        (unsigned long long)len);
    const qsf_steps *steps = t->steps;
    for (uint32_t i = 0; begin && steps && i < steps->n_begin; i++) token_put(&sink,
            (int32_t)steps->begin[i]);
    if (begin && !steps && v->add_bos && v->bos >= 0) token_put(&sink, v->bos);
    const qsf_status st = steps ? qsf_steps_encode(&w, text, len, spans, n_spans)
                          : encode_text(&w, text, len, spans, n_spans);
    for (uint32_t i = 0; end && steps && i < steps->n_end; i++) token_put(&sink, (int32_t)steps->end[i]);
    if (steps) end = false;
    if (end && v->add_sep && v->sep >= 0) token_put(&sink, v->sep);
    else if (end && v->add_eos && v->eos >= 0) token_put(&sink, v->eos);
    qsf_token_buffer_done(t, &w.points);
    qsf_token_buffer_done(t, &w.text);
    qsf_token_buffer_done(t, &w.symbols);
    qsf_token_buffer_done(t, &w.heap);
    qsf_token_buffer_done(t, &w.nfc);
    if (st) return st;
    *n = sink.n;
    if (sink.n > cap)
        return qsf_fail(err, QSF_E_ARGUMENT, "the text has %llu tokens, there is room for %llu",
                        (unsigned long long)sink.n, (unsigned long long)cap);
    return QSF_OK;
}

qsf_status qsf_tokenizer_encode(const qsf_tokenizer *t, const char *text, size_t len, int flags, int32_t *ids,
                                size_t cap, size_t *n, qsf_error *err)
{
    const bool add = flags & QSF_TOK_ADD_SPECIAL;
    const qsf_text_span all = { 0, len, flags & QSF_TOK_PARSE_SPECIAL };
    return encode_all(t, text, len, &all, 1, add, add, ids, cap, n, err);
}

qsf_status qsf_tokenizer_encode_chat(const qsf_tokenizer *t, const char *text, size_t len,
                                     const qsf_text_span *spans, size_t n_spans, bool begin, int32_t *ids,
                                     size_t cap, size_t *n, qsf_error *err)
{
    return encode_all(t, text, len, spans, n_spans, begin, false, ids, cap, n, err);
}
