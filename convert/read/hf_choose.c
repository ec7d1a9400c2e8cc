/* Decides whether a tokenizer.json matches one of the built-in tokenizers, which GGUF files name,
 * or must be stored as a list of steps.
 * SPDX-License-Identifier: MIT
 *
 * The built-in ones take fewer bytes and less memory.  A file is mapped to one only if it gives the
 * same tokens for every input; all others are stored as steps. */
#include "read/hf_tokenizer.h"
#include "tokens/pretokenize.h"
#include "tokens/tokenizer_own.h"

#ifdef QSF_HAVE_YYJSON

static const char choose_space[] = "\xe2\x96\x81";      /* U+2581 */

static bool choose_is(yyjson_val *obj, const char *key, const char *is)
{
    const char *s = qsf_json_get_str(obj, key);
    return s && !strcmp(s, is);
}

static bool choose_true(yyjson_val *obj, const char *key, bool absent)
{
    yyjson_val *v = qsf_json_get(obj, key);
    return v ? yyjson_is_true(v) : absent;
}

/* Whether added tokens are matched in the raw text and strip no white space around them. */
static bool choose_plain_added(yyjson_val *root, bool raw, bool spm)
{
    size_t i, n;
    yyjson_val *e;
    yyjson_arr_foreach(qsf_json_get(root, "added_tokens"), i, n, e) {
        const char *text = qsf_json_get_str(e, "content");
        if (choose_true(e, "lstrip", false) || choose_true(e, "rstrip", false)
            || choose_true(e, "single_word", false)) return false;
        if (!raw && choose_true(e, "normalized", !choose_true(e, "special", false))) return false;
        if (spm && text && strstr(text, choose_space)) return false;
        if (text && strlen(text) > 128) return false;
    }
    return true;
}

/* At most one token before the text and one after it. */
static bool choose_around(yyjson_val *v)
{
    size_t i, n, before = 0, behind = 0, texts = 0;
    yyjson_val *e;
    yyjson_arr_foreach(qsf_json_get(v, "single"), i, n, e) {
        const char *id = qsf_json_get_str(qsf_json_get(e, "SpecialToken"), "id");
        yyjson_val *ids = id ? qsf_json_get(qsf_json_get(qsf_json_get(v, "special_tokens"), id),
                                            "ids") : NULL;
        if (!id) texts++;
        else if (yyjson_arr_size(ids) > 1) return false;
        else if (texts) behind++;
        else before++;
    }
    return texts == 1 && before <= 1 && behind <= 1;
}

static bool choose_processor(yyjson_val *v)
{
    size_t i, n, templates = 0;
    yyjson_val *e, *list = qsf_json_get(v, "processors");
    if (!v) return true;
    if (!list) return choose_is(v, "type", "ByteLevel")
        || (choose_is(v, "type", "TemplateProcessing") && choose_around(v));
    yyjson_arr_foreach(list, i, n, e) {
        templates += choose_is(e, "type", "TemplateProcessing");
        if (qsf_json_get(e, "processors") || templates > 1 || !choose_processor(e)) return false;
    }
    return true;
}

/* No normalizer or only NFC; *nfc is set for the latter. */
static bool choose_only_nfc(yyjson_val *v, bool *nfc)
{
    size_t i, n;
    yyjson_val *e;
    if (!v) return true;
    if (choose_is(v, "type", "NFC")) return *nfc = true;
    if (!choose_is(v, "type", "Sequence")) return false;
    yyjson_arr_foreach(qsf_json_get(v, "normalizers"), i, n, e)
        if (!choose_only_nfc(e, nfc)) return false;
    return true;
}

/* ---- SentencePiece's BPE --------------------------------------------------------------------- */

static bool choose_spaces(yyjson_val *v)
{
    return choose_is(v, "type", "Replace") && choose_is(qsf_json_get(v, "pattern"), "String", " ")
        && choose_is(v, "content", choose_space);
}

/* Spaces become U+2581, and one is put in front. */
static bool choose_spm_normalizer(yyjson_val *v)
{
    size_t i, n, spaces = 0, front = 0;
    yyjson_val *e;
    if (choose_spaces(v)) return true;
    if (!choose_is(v, "type", "Sequence")) return false;
    yyjson_arr_foreach(qsf_json_get(v, "normalizers"), i, n, e) {
        if (choose_spaces(e)) spaces++;
        else if (choose_is(e, "type", "Prepend") && choose_is(e, "prepend", choose_space)) front++;
        else return false;
    }
    return spaces == 1 && front <= 1;
}

static bool choose_spm(yyjson_val *root, yyjson_val *model)
{
    static const char hex[] = "0123456789ABCDEF";
    yyjson_val *pre = qsf_json_get(root, "pre_tokenizer"), *vocab = qsf_json_get(model, "vocab");
    char byte[] = "<0x00>";
    const bool gone = !pre || (choose_is(pre, "type", "Split") && choose_is(pre, "behavior",
            "MergedWithPrevious")
                               && choose_is(qsf_json_get(pre, "pattern"), "String", " "));
    for (int b = 0; b < 256; b++) {
        byte[3] = hex[b >> 4];
        byte[4] = hex[b & 15];
        if (!yyjson_obj_get(vocab, byte)) return false;
    }
    return gone && choose_spm_normalizer(qsf_json_get(root, "normalizer"))
        && choose_is(qsf_json_get(root, "decoder"), "type", "Sequence")
        && !choose_true(model, "ignore_merges", false) && choose_plain_added(root, false, true);
}

/* Maps a pair of tokens to its merge's rank + 1. */
typedef struct merge_ranks { uint64_t *keys; uint32_t *ranks; uint32_t mask; } merge_ranks;

static uint32_t *ranks_slot(merge_ranks *m, int32_t a, int32_t b)
{
    const uint64_t key = (uint64_t)(uint32_t)a << 32 | (uint32_t)b;
    uint32_t i = (uint32_t)(key * 0x9e3779b97f4a7c15u >> 32) & m->mask;
    while (m->ranks[i] && m->keys[i] != key) i = (i + 1) & m->mask;
    m->keys[i] = key;
    return &m->ranks[i];
}

/* Whether every split of a token into two tokens is a merge and, if two merges overlap ("an" "a"
 * "na"), the left one has the lower rank, as in SentencePiece. */
static bool choose_token(const vocab_build *b, merge_ranks *m, uint32_t id)
{
    const vocab_token *t = &b->tokens[id];
    for (uint32_t i = 1; i < t->len; i++) {
        if (((uint8_t)t->text[i] & 0xc0) == 0x80) continue;
        const int32_t l = qsf_vocab_find2(b, t->text, i, "", 0),
                      r = qsf_vocab_find2(b, t->text + i, t->len - i, "", 0);
        if (l < 0 || r < 0) continue;
        const uint32_t rank = *ranks_slot(m, l, r);
        if (!rank) return false;
        /* overlap: the token begins with its right part, and the rest is a token */
        const uint32_t n = t->len - i;
        const int32_t rest = memcmp(t->text, t->text + i, n) ? -1 : qsf_vocab_find2(b, t->text + n, i, "", 0);
        if (rest >= 0 && *ranks_slot(m, r, rest) < rank) return false;
    }
    return true;
}

/* Special tokens and bytes need no merges: no text produces them by merging. */
static bool choose_made(const vocab_build *b, uint32_t id)
{
    return b->tokens[id].text && b->tokens[id].type == QSF_TOKEN_NORMAL;
}

static bool choose_merges(const vocab_build *b, yyjson_val *list, merge_ranks *m)
{
    size_t i, n, alen, clen;
    const char *a, *c;
    yyjson_val *v;
    int32_t last = -1;
    yyjson_arr_foreach(list, i, n, v) {
        if (!qsf_hf_merge_parts(v, &a, &alen, &c, &clen)) return true;          /* reported by the caller */
        const int32_t x = qsf_vocab_find2(b, a, alen, "", 0), y = qsf_vocab_find2(b, c, clen, "", 0),
                      made = qsf_vocab_find2(b, a, alen, c, clen);
        if (x < 0 || y < 0 || made < 0) return true;
        uint32_t *rank = ranks_slot(m, x, y);
        if (*rank || (made != last && b->tokens[made].score != 0)) return false;
        *rank = (uint32_t)i + 1;
        b->tokens[made].score = 1;              /* seen; the real score comes from the merges */
        last = made;
    }
    for (uint32_t id = 0; id < b->n; id++)
        if (choose_made(b, id) && !choose_token(b, m, id)) return false;
    return true;
}

qsf_status qsf_hf_is_spm(vocab_build *b, yyjson_val *model, bool *is, qsf_error *err)
{
    yyjson_val *list = qsf_json_get(model, "merges");
    merge_ranks m = { 0 };
    uint32_t size = 16;
    while (size < 8 * (uint64_t)yyjson_arr_size(list) && size < 1u << 30) size *= 2;
    m.mask = size - 1;
    m.keys = qsf_alloc_array(b->platform, size, sizeof *m.keys, "merges", err);
    m.ranks = m.keys ? qsf_alloc_array(b->platform, size, sizeof *m.ranks, "merges", err) : NULL;
    const bool ok = m.ranks;
    if (ok) *is = choose_merges(b, list, &m);
    if (m.keys) qsf_dealloc(b->platform, m.keys, (uint64_t)size * sizeof *m.keys);
    if (m.ranks) qsf_dealloc(b->platform, m.ranks, (uint64_t)size * sizeof *m.ranks);
    for (uint32_t id = 0; id < b->n; id++) b->tokens[id].score = 0;
    return ok ? QSF_OK : QSF_E_MEMORY;
}

/* ---- the others ------------------------------------------------------------------------------ */

/* Whether each byte has a token, or unknown bytes are dropped either way. */
static bool choose_bytes(yyjson_val *model)
{
    yyjson_val *vocab = qsf_json_get(model, "vocab");
    if (!qsf_json_get(model, "unk_token")) return true;
    for (uint32_t b = 0; b < 256; b++) {
        char text[8];
        text[qsf_utf8_encode(qsf_byte_letter((uint8_t)b), text)] = 0;
        if (!yyjson_obj_get(vocab, text)) return false;
    }
    return true;
}

/* pre: the pre-tokenizer's name, kept even if the rest does not match a built-in tokenizer. */
static bool choose_byte_level(yyjson_val *root, yyjson_val *model, char pre[32])
{
    const bool whole = choose_true(model, "ignore_merges", false);
    bool nfc = false;
    if (!pre[0]) return false;
    const qsf_pretokenizer *by_name = qsf_pretokenizer_find(pre);
    const bool as_said = by_name && ((qsf_pretokenizer_rules(by_name) & QSF_PRE_WHOLE) != 0) == whole;
    /* its last steps split letters that stand for bytes, some of which are digits */
    if (!strcmp(pre, "falcon")) return pre[0] = 0, false;
    return as_said && choose_bytes(model) && choose_only_nfc(qsf_json_get(root, "normalizer"), &nfc)
        && choose_plain_added(root, !nfc, false) && choose_is(qsf_json_get(root, "decoder"), "type",
                                                              "ByteLevel");
}

qsf_status qsf_hf_by_name(const qsf_platform *p, yyjson_val *root, const char *marks, bool *named,
                          char pre[32],
                          qsf_error *err)
{
    yyjson_val *model = qsf_json_get(root, "model"), *dropout = qsf_json_get(model, "dropout");
    const char *type = qsf_json_get_str(model, "type"),
               *prefix = qsf_json_get_str(model, "continuing_subword_prefix"),
               *suffix = qsf_json_get_str(model, "end_of_word_suffix");
    const bool bpe = type ? !strcmp(type, "BPE") : qsf_json_get(model, "merges") != NULL,
               spm = choose_true(model, "byte_fallback", false);
    pre[0] = 0;
    *named = marks;
    if (marks || !bpe) return QSF_OK;
    if (!spm) {
        const qsf_status st = qsf_hf_pretokenizer(p, qsf_json_get(root, "pre_tokenizer"),
                                                  choose_true(model, "ignore_merges", false), pre, err);
        if (st == QSF_E_MEMORY) return st;
        if (st) pre[0] = 0;
    }
    *named = (spm ? choose_spm(root, model) : choose_byte_level(root, model, pre))
        && choose_processor(qsf_json_get(root, "post_processor")) && !(prefix && *prefix)
        && !(suffix && *suffix) && !(dropout && yyjson_get_num(dropout) != 0);
    return QSF_OK;
}

#endif
