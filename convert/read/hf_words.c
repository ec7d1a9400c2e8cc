/* The models of a tokenizer.json beside BPE: WordPiece and Unigram, as encoders have them.
 * SPDX-License-Identifier: MIT */
#include "read/hf_tokenizer.h"

#ifdef QSF_HAVE_YYJSON

#define FILE_NAME "tokenizer.json"

static const char words_mark[] = "\xe2\x96\x81";     /* U+2581 */

static qsf_status words_refuse(const char *what, yyjson_val *v, qsf_error *err)
{
    const char *type = qsf_json_get_str(v, "type");
    return qsf_fail(err, QSF_E_UNSUPPORTED, FILE_NAME ": %s of type %s", what, type ? type : "(none)");
}

static bool words_type_is(yyjson_val *v, const char *type)
{
    const char *s = qsf_json_get_str(v, "type");
    return s && !strcmp(s, type);
}

/* ---- WordPiece ------------------------------------------------------------------------------- */

/* "##x" goes on with a word, "x" begins one: as in GGUF files the latter gets a mark. */
static qsf_status wordpiece_tokens(vocab_build *b, yyjson_val *model, qsf_error *err)
{
    size_t i, n = 0, len;
    yyjson_val *key, *val;
    const char *unk = qsf_json_get_str(model, "unk_token");
    json_members(qsf_json_get(model, "vocab"), i, n, key, val) {
        const char *text = qsf_json_str(key, &len);
        uint64_t id;
        if (!text || !qsf_json_u64(val, &id) || len > UINT16_MAX - 3)
            return qsf_fail(err, QSF_E_CORRUPT,
                            FILE_NAME ": entry %zu of the vocabulary is no text with an id", i);
        const bool is_unk = unk && !strcmp(text, unk), more = len > 2 && !memcmp(text, "##", 2);
        if (more) {
            text += 2;
            len -= 2;
        } else if (!is_unk) {
            char *copy = qsf_arena_alloc(b->arena, len + 4, "token", err);
            if (!copy) return QSF_E_MEMORY;
            memcpy(copy, words_mark, 3);
            memcpy(copy + 3, text, len);
            text = copy;
            len += 3;
        }
        const qsf_status st = qsf_vocab_add(b, id, text, len,
                                            is_unk ? QSF_TOKEN_UNKNOWN : QSF_TOKEN_NORMAL, 0, err);
        if (st) return st;
        if (is_unk) b->out->unk = (int32_t)id;
    }
    return n ? QSF_OK : qsf_fail(err, QSF_E_CORRUPT, FILE_NAME ": no vocabulary");
}

static qsf_status wordpiece_normalizer(yyjson_val *v, qsf_vocab *out, qsf_error *err)
{
    static const char what[] = FILE_NAME ": normalizer";
    bool clean, chinese;
    qsf_status st;
    yyjson_val *accents = qsf_json_get(v, "strip_accents");
    if (!words_type_is(v, "BertNormalizer")) return words_refuse("a WordPiece normalizer", v, err);
    if ((st = qsf_json_get_bool(v, what, "clean_text", true, &clean, err)) ||
        (st = qsf_json_get_bool(v, what, "handle_chinese_chars", true, &chinese, err)) ||
        (st = qsf_json_get_bool(v, what, "lowercase", true, &out->lowercase, err))) return st;
    if (!clean || !chinese)
        return qsf_fail(err, QSF_E_UNSUPPORTED,
                        FILE_NAME ": BertNormalizer without clean_text or handle_chinese_chars");
    out->strip_accents = out->lowercase;
    if (!accents || yyjson_is_null(accents)) return QSF_OK;
    return qsf_json_get_bool(v, what, "strip_accents", false, &out->strip_accents, err);
}

qsf_status qsf_hf_wordpiece(vocab_build *b, yyjson_val *root, yyjson_val *model, qsf_error *err)
{
    yyjson_val *pre = qsf_json_get(root, "pre_tokenizer");
    const char *prefix = qsf_json_get_str(model, "continuing_subword_prefix");
    uint64_t most = 100;
    qsf_status st;
    if (!words_type_is(pre, "BertPreTokenizer")) return words_refuse("a WordPiece pre-tokenizer", pre, err);
    if ((prefix && strcmp(prefix, "##"))
        || (qsf_json_get(model, "max_input_chars_per_word")
            && (!qsf_json_u64(qsf_json_get(model, "max_input_chars_per_word"), &most) || most != 100)))
        return qsf_fail(err, QSF_E_UNSUPPORTED,
                        FILE_NAME ": WordPiece whose prefix is not ##, or whose words may have other than "
                        "100 characters");
    b->out->kind = QSF_VOCAB_WPM;
    qsf_format(b->out->pre, sizeof b->out->pre, "default");
    if ((st = wordpiece_normalizer(qsf_json_get(root, "normalizer"), b->out, err)) ||
        (st = wordpiece_tokens(b, model, err))) return st;
    return qsf_vocab_index(b, err);
}

/* ---- Unigram --------------------------------------------------------------------------------- */

/* bytes: "<0x41>" stands for a byte. */
static qsf_status unigram_tokens(vocab_build *b, yyjson_val *model, bool bytes, qsf_error *err)
{
    size_t i, n, len;
    uint64_t unk = UINT64_MAX;
    yyjson_val *e, *vocab = qsf_json_get(model, "vocab");
    if (!yyjson_arr_size(vocab)) return qsf_fail(err, QSF_E_CORRUPT, FILE_NAME ": no vocabulary");
    qsf_json_u64(qsf_json_get(model, "unk_id"), &unk);
    yyjson_arr_foreach(vocab, i, n, e) {
        const char *text = qsf_json_str(yyjson_arr_get_first(e), &len);
        yyjson_val *score = yyjson_arr_get_last(e);
        if (yyjson_arr_size(e) != 2 || !text || !yyjson_is_num(score)
            || !(fabs(yyjson_get_num(score)) <= (double)FLT_MAX))
            return qsf_fail(err, QSF_E_CORRUPT,
                            FILE_NAME ": entry %zu of the vocabulary is no text with a score", i);
        const uint8_t type = i == unk ? QSF_TOKEN_UNKNOWN
            : bytes && qsf_vocab_is_byte(text, len) ? QSF_TOKEN_BYTE : QSF_TOKEN_NORMAL;
        const qsf_status st = qsf_vocab_add(b, i, text, len, type, (float)yyjson_get_num(score), err);
        if (st) return st;
    }
    if (unk < n) b->out->unk = (int32_t)unk;
    return QSF_OK;
}

/* The bytes of a base64 text, as far as it is one; returns their number. */
static size_t unigram_base64(const char *s, size_t len, uint8_t *out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint32_t bits = 0, n_bits = 0;
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        const char *at = s[i] ? strchr(digits, s[i]) : NULL;
        if (!at) break;
        bits = bits << 6 | (uint32_t)(at - digits);
        if ((n_bits += 6) < 8) continue;
        n_bits -= 8;
        out[n++] = (uint8_t)(bits >> n_bits);
    }
    return n;
}

static qsf_status unigram_charsmap(vocab_build *b, yyjson_val *v, qsf_error *err)
{
    size_t len;
    const char *text = qsf_json_str(qsf_json_get(v, "precompiled_charsmap"), &len);
    if (!text || !len) return QSF_OK;
    uint8_t *bytes = qsf_arena_alloc(b->arena, len, "normaliser", err);
    if (!bytes) return QSF_E_MEMORY;
    return qsf_vocab_charsmap(b->out, b->arena, bytes, unigram_base64(text, len, bytes), FILE_NAME, err);
}

/* One step of the normalizer or pre-tokenizer. */
static qsf_status unigram_step(vocab_build *b, yyjson_val *v, qsf_error *err)
{
    size_t i, n;
    yyjson_val *e;
    if (!v || yyjson_is_null(v)) return QSF_OK;
    if (words_type_is(v, "Sequence")) {         /* no deeper than the JSON itself, which is bounded */
        yyjson_val *list = qsf_json_get(v, "normalizers");
        yyjson_arr_foreach(list ? list : qsf_json_get(v, "pretokenizers"), i, n, e) {
            const qsf_status st = unigram_step(b, e, err);
            if (st) return st;
        }
        return QSF_OK;
    }
    if (words_type_is(v, "Precompiled")) return unigram_charsmap(b, v, err);
    if (words_type_is(v, "WhitespaceSplit") || words_type_is(v, "Strip"))
        return b->out->merge_spaces = true, QSF_OK;
    if (words_type_is(v, "Replace")) {
        const char *regex = qsf_json_get_str(qsf_json_get(v, "pattern"), "Regex");
        if (regex && !strcmp(regex, " {2,}")) return b->out->merge_spaces = true, QSF_OK;
    }
    if (words_type_is(v, "Metaspace")) {
        const char *scheme = qsf_json_get_str(v, "prepend_scheme"), *by = qsf_json_get_str(v, "replacement");
        if (by && !strcmp(by, words_mark)) {
            if (scheme) return b->out->add_space_prefix = strcmp(scheme, "never") != 0, QSF_OK;
            return qsf_json_get_bool(v, FILE_NAME, "add_prefix_space", true, &b->out->add_space_prefix, err);
        }
    }
    return words_refuse("a step before Unigram", v, err);
}

qsf_status qsf_hf_unigram(vocab_build *b, yyjson_val *root, yyjson_val *model, qsf_error *err)
{
    bool bytes;
    qsf_status st;
    b->out->kind = QSF_VOCAB_UGM;
    qsf_format(b->out->pre, sizeof b->out->pre, "default");
    if ((st = qsf_json_get_bool(model, FILE_NAME ": model", "byte_fallback", false, &bytes, err))) return st;
    if ((st = unigram_step(b, qsf_json_get(root, "normalizer"), err)) ||
        (st = unigram_step(b, qsf_json_get(root, "pre_tokenizer"), err)) ||
        (st = unigram_tokens(b, model, bytes, err))) return st;
    return qsf_vocab_index(b, err);
}

#undef FILE_NAME
#endif
