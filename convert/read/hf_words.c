/* WordPiece of a tokenizer.json, as BERT has it, and the normaliser that others take from SentencePiece.
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

/* ---- a normaliser of SentencePiece --------------------------------------------------------- */

/* The bytes of a base64 text, as far as it is one; returns their number. */
static size_t words_base64(const char *s, size_t len, uint8_t *out)
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

qsf_status qsf_hf_charsmap(vocab_build *b, yyjson_val *v, qsf_error *err)
{
    size_t len;
    const char *text = qsf_json_str(qsf_json_get(v, "precompiled_charsmap"), &len);
    if (!text || !len) return QSF_OK;
    uint8_t *bytes = qsf_arena_alloc(b->arena, len, "normaliser", err);
    if (!bytes) return QSF_E_MEMORY;
    return qsf_vocab_charsmap(b->out, b->arena, bytes, words_base64(text, len, bytes), FILE_NAME, err);
}

#undef FILE_NAME
#endif
