/* The model of a tokenizer.json: byte-level BPE, or SentencePiece's BPE written down as merges.
 * SPDX-License-Identifier: MIT */
#include "read/hf_tokenizer.h"

#ifdef QSF_HAVE_YYJSON

#define FILE_NAME "tokenizer.json"

static const char bpe_space[] = "\xe2\x96\x81";     /* U+2581, SentencePiece's space */

static qsf_status bpe_tokens(vocab_build *b, yyjson_val *model, bool spm, qsf_error *err)
{
    size_t i, n, len;
    yyjson_val *key, *val, *vocab = qsf_json_get(model, "vocab");
    const char *unk = qsf_json_get_str(model, "unk_token");
    if (!yyjson_is_obj(vocab) || !yyjson_obj_size(vocab))
        return qsf_fail(err, QSF_E_CORRUPT, FILE_NAME ": no vocabulary");
    json_members(vocab, i, n, key, val) {
        const char *text = qsf_json_str(key, &len);
        uint64_t id;
        if (!text || !qsf_json_u64(val, &id))
            return qsf_fail(err, QSF_E_CORRUPT,
                            FILE_NAME ": entry %zu of the vocabulary is not a string with an id", i);
        const uint8_t type = spm && qsf_vocab_is_byte(text, len) ? QSF_TOKEN_BYTE
                             : spm && unk && !strcmp(unk, text)  ? QSF_TOKEN_UNKNOWN
                                                                 : QSF_TOKEN_NORMAL;
        const qsf_status st = qsf_vocab_add(b, id, text, len, type, 0, err);
        if (st) return st;
        if (type == QSF_TOKEN_UNKNOWN) b->out->unk = (int32_t)id;
    }
    return QSF_OK;
}

/* ---- what happens to the text before --------------------------------------------------------- */

static bool bpe_is_str(yyjson_val *obj, const char *key, const char *is)
{
    const char *s = qsf_json_get_str(obj, key);
    return s && !strcmp(s, is);
}

/* Byte-level: none or NFC.  SentencePiece: a leading space mark, spaces to marks. */
static qsf_status bpe_normalizer(yyjson_val *v, bool spm, qsf_vocab *out, qsf_error *err)
{
    const char *type = qsf_json_get_str(v, "type");
    if (!v) return QSF_OK;
    if (!type) return qsf_fail(err, QSF_E_CORRUPT, FILE_NAME ": a normalizer without a type");
    if (!strcmp(type, "Sequence")) {            /* no deeper than the JSON itself, which is bounded */
        size_t i, n;
        yyjson_val *e;
        yyjson_arr_foreach(qsf_json_get(v, "normalizers"), i, n, e) {
            const qsf_status st = bpe_normalizer(e, spm, out, err);
            if (st) return st;
        }
        return QSF_OK;
    }
    if (!spm && !strcmp(type, "NFC")) return out->nfc = true, QSF_OK;
    if (spm && !strcmp(type, "Prepend") && bpe_is_str(v, "prepend", bpe_space))
        return out->add_space_prefix = true, QSF_OK;
    if (spm && !strcmp(type, "Replace") && bpe_is_str(qsf_json_get(v, "pattern"), "String", " ") &&
        bpe_is_str(v, "content", bpe_space))
        return QSF_OK;
    return qsf_fail(err, QSF_E_UNSUPPORTED, FILE_NAME ": normalizer of type %s", type);
}

/* ---- the file -------------------------------------------------------------------------------- */

/* Resets the builder. */
static void bpe_forget(vocab_build *b)
{
    memset(b->tokens, 0, b->n * sizeof *b->tokens);
    if (b->slots) qsf_dealloc(b->platform, b->slots, (uint64_t)b->n_slots * sizeof *b->slots);
    b->slots = NULL;
    b->n_slots = 0;
}

/* SentencePiece's BPE written as merges.  If they are not the merges that SentencePiece makes, the
 * file is stored as steps. */
static qsf_status bpe_spm(vocab_build *b, yyjson_val *root, yyjson_val *model, qsf_error *err)
{
    bool is = false;
    qsf_status st;
    if ((st = bpe_normalizer(qsf_json_get(root, "normalizer"), true, b->out, err)) ||
        (st = bpe_tokens(b, model, true, err)) || (st = qsf_vocab_index(b, err)) ||
        (st = qsf_hf_is_spm(b, model, &is, err))) return st;
    if (!is) {
        bpe_forget(b);
        b->out->add_space_prefix = false;
        return qsf_hf_steps(b, root, "", err);
    }
    b->out->kind = QSF_VOCAB_SPM;
    qsf_format(b->out->pre, sizeof b->out->pre, "default");
    return qsf_hf_merges(b, model, true, "", err);
}

/* marks: the pre-tokenizer of a vocabulary with SentencePiece's marks and bytes whose merges count
 * in their order, as Gemma 4's do; NULL: such a vocabulary is SentencePiece's. */
static qsf_status bpe_named(vocab_build *b, yyjson_val *root, yyjson_val *model, const char *marks,
                            const char *pre, qsf_error *err)
{
    qsf_vocab *out = b->out;
    bool spm;
    qsf_status st;
    if ((st = qsf_json_get_bool(model, FILE_NAME ": model", "byte_fallback", false, &spm, err))) return st;
    if (spm && !marks) return bpe_spm(b, root, model, err);
    out->kind = QSF_VOCAB_BPE;
    qsf_format(out->pre, sizeof out->pre, "%s", marks ? marks : pre);
    if ((st = bpe_normalizer(qsf_json_get(root, "normalizer"), spm, out, err)) ||
        (st = bpe_tokens(b, model, spm, err)) || (st = qsf_vocab_index(b, err))) return st;
    return qsf_hf_merges(b, model, false, "", err);
}

static qsf_status bpe_model(vocab_build *b, yyjson_val *root, const char *marks, qsf_error *err)
{
    static const char *const parts[] = { "model", "pre_tokenizer", "normalizer", "post_processor",
                                        "decoder" };
    yyjson_val *part;
    char pre[32];
    bool named;
    for (size_t i = 0; i < QSF_ARRAY_LEN(parts); i++) {
        const qsf_status st = qsf_json_get_obj(root, FILE_NAME, parts[i], &part, err);
        if (st) return st;
    }
    const qsf_status st = qsf_hf_by_name(b->platform, root, marks, &named, pre, err);
    if (st || !named) return st ? st : qsf_hf_steps(b, root, pre, err);
    return bpe_named(b, root, qsf_json_get(root, "model"), marks, pre, err);
}

qsf_status qsf_hf_tokenizer_json(vocab_build *b, yyjson_val *root, bool pieces, const char *marks,
                                 qsf_error *err)
{
    size_t i, n;
    yyjson_val *e, *added;
    qsf_status st;
    if ((st = qsf_json_get_arr(root, FILE_NAME, "added_tokens", &added, err)) ||
        (!pieces && (st = bpe_model(b, root, marks, err)))) return st;
    if (b->out->kind == QSF_VOCAB_STEPS) return QSF_OK;         /* the steps are already built */
    yyjson_arr_foreach(added, i, n, e) {
        uint64_t id;
        size_t len;
        bool special;
        const char *text = qsf_json_str(qsf_json_get(e, "content"), &len);
        if (!text || !qsf_json_u64(qsf_json_get(e, "id"), &id))
            return qsf_fail(err, QSF_E_CORRUPT, FILE_NAME ": added token %zu has no content or id", i);
        if ((st = qsf_json_get_bool(e, FILE_NAME, "special", false, &special, err)) ||
            (st = qsf_vocab_add_special(b, id, text, len, special, err))) return st;
    }
    return QSF_OK;
}

#undef FILE_NAME
#endif
