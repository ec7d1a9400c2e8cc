/* The normalizer and pre-tokenizer of a tokenizer.json as steps.
 * SPDX-License-Identifier: MIT */
#include "read/hf_regex.h"
#include "read/hf_set_table.h"
#include "text/unicode.h"

#ifdef QSF_HAVE_YYJSON

#define FILE_NAME "tokenizer.json"

static const char text_gpt2[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

void qsf_steps_add_step(steps_build *s, uint32_t op, uint32_t a, uint32_t b, const char *text)
{
    qsf_steps_put(s, &s->steps, op);
    qsf_steps_put(s, &s->steps, a);
    qsf_steps_put(s, &s->steps, b);
    qsf_steps_put_text(s, &s->steps, text);
    s->n_steps++;
}

static bool text_bool(steps_build *s, yyjson_val *v, const char *key, bool absent)
{
    bool on = absent;
    if (!s->st) s->st = qsf_json_get_bool(v, FILE_NAME, key, absent, &on, s->err);
    return on;
}

static bool text_is(const char *type, const char *name) { return !strcmp(type, name); }

/* A required string member; "" after a failure. */
static const char *steps_str(steps_build *s, yyjson_val *v, const char *key)
{
    const char *text = NULL;
    if (!s->st) s->st = qsf_json_get_text(v, FILE_NAME, key, &text, s->err);
    if (!s->st && !text)
        s->st = qsf_fail(s->err, QSF_E_CORRUPT, FILE_NAME ": a step without \"%s\"", key);
    return text ? text : "";
}

/* {"String": ...} or {"Regex": ...}. */
static uint32_t text_pattern(steps_build *s, yyjson_val *v)
{
    yyjson_val *pattern = qsf_json_get(v, "pattern");
    const char *regex = qsf_json_get_str(pattern, "Regex"), *text = qsf_json_get_str(pattern, "String");
    if (regex) return qsf_steps_regex(s, regex);
    if (text && *text) return qsf_steps_literal(s, text);
    if (!s->st) s->st = qsf_fail(s->err, QSF_E_UNSUPPORTED, FILE_NAME ": a step without a pattern");
    return 0;
}

static void steps_replace_if(steps_build *s, points_is *is, const char *by)
{
    qsf_steps_add_step(s, STEP_REPLACE, qsf_steps_class(s, is, false), 0, by);
}

/* ---- normalizer ------------------------------------------------------------------------------ */

static void text_map(steps_build *s, uint32_t n, const uint32_t *keys, const uint16_t *at,
                     const uint32_t *values)
{
    uint32_t last = 0;
    qsf_steps_put(s, &s->tables, n);
    for (uint32_t i = 0; i < n; i++) {
        qsf_steps_put(s, &s->tables, keys[i] - last);
        qsf_steps_put(s, &s->tables, (uint32_t)(at[i + 1] - at[i]));
        last = keys[i] + 1;
    }
    qsf_steps_put(s, &s->tables, at[n]);
    for (uint32_t i = 0; i < at[n]; i++) qsf_steps_put(s, &s->tables, values[i]);
    qsf_steps_add_step(s, STEP_MAP, s->n_tables++, 0, "");
}

static void text_lower(steps_build *s)
{
    text_map(s, qsf_hf_n_lower, qsf_hf_lower_keys, qsf_hf_lower_at, qsf_hf_lower_values);
    qsf_steps_add_step(s, STEP_LOWER, 0, 0, "");
}

static void text_bert(steps_build *s, yyjson_val *v)
{
    static const char chinese[] = { ' ', 0x7f, ' ', 0 };
    const bool lower = text_bool(s, v, "lowercase", true), accents = text_bool(s, v, "strip_accents", lower);
    if (text_bool(s, v, "clean_text", true)) {
        steps_replace_if(s, qsf_points_control, "");
        steps_replace_if(s, qsf_points_bert_space, " ");
    }
    if (text_bool(s, v, "handle_chinese_chars", true)) steps_replace_if(s, qsf_points_chinese, chinese);
    if (accents) {
        qsf_steps_add_step(s, STEP_NFD, 0, 0, "");
        steps_replace_if(s, qsf_points_bert_mark, "");
    }
    if (lower) text_lower(s);
}

/* Decodes base64 up to the first invalid character; returns the number of bytes. */
static size_t text_base64(const char *s, size_t len, uint8_t *out)
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

static qsf_status text_charsmap(vocab_build *b, yyjson_val *v, qsf_error *err)
{
    size_t len;
    const char *text = qsf_json_str(qsf_json_get(v, "precompiled_charsmap"), &len);
    if (!text || !len) return QSF_OK;
    uint8_t *bytes = qsf_arena_alloc(b->arena, len, "normaliser", err);
    if (!bytes) return QSF_E_MEMORY;
    return qsf_vocab_charsmap(b->out, b->arena, bytes, text_base64(text, len, bytes), FILE_NAME, err);
}

static void text_precompiled(steps_build *s, yyjson_val *v)
{
    if (!s->st) s->st = text_charsmap(s->b, v, s->err);
    const uint32_t joins = qsf_steps_set_of(s, qsf_points_joins);
    qsf_steps_add_step(s, STEP_CHARSMAP, joins, qsf_steps_set_of(s, qsf_points_joins_next), "");
}

static void text_strip(steps_build *s, yyjson_val *v)
{
    const bool left = text_bool(s, v, "strip_left", true), right = text_bool(s, v, "strip_right", true);
    if (left) qsf_steps_add_step(s, STEP_REPLACE, qsf_steps_regex(s, "\\A\\s+"), 0, "");
    if (right) qsf_steps_add_step(s, STEP_REPLACE, qsf_steps_regex(s, "\\s+\\z"), 0, "");
}

static void text_form(steps_build *s, const char *form)
{
    const bool compat = form[2] == 'K';
    if (compat) text_map(s, qsf_hf_n_compat, qsf_hf_compat_keys, qsf_hf_compat_at, qsf_hf_compat_values);
    qsf_steps_add_step(s, form[compat ? 3 : 2] == 'C' ? STEP_NFC : STEP_NFD, 0, 0, "");
}

void qsf_steps_normalizer(steps_build *s, yyjson_val *v)
{
    const char *type = v && !s->st ? steps_str(s, v, "type") : "";
    if (!v || s->st) return;
    if (text_is(type, "Sequence")) {            /* the JSON parser bounds the nesting */
        size_t i, n;
        yyjson_val *e;
        yyjson_arr_foreach(qsf_json_get(v, "normalizers"), i, n, e) qsf_steps_normalizer(s, e);
    } else if (text_is(type, "NFC") || text_is(type, "NFD") || text_is(type, "NFKC")
               || text_is(type, "NFKD")) {
        text_form(s, type);
    } else if (text_is(type, "Lowercase")) {
        text_lower(s);
    } else if (text_is(type, "Strip")) {
        text_strip(s, v);
    } else if (text_is(type, "StripAccents")) {
        steps_replace_if(s, qsf_points_mark, "");
    } else if (text_is(type, "Replace")) {
        qsf_steps_add_step(s, STEP_REPLACE, text_pattern(s, v), 0, steps_str(s, v, "content"));
    } else if (text_is(type, "Prepend")) {
        qsf_steps_add_step(s, STEP_PREFIX, 2, 0, steps_str(s, v, "prepend"));
    } else if (text_is(type, "Nmt")) {
        steps_replace_if(s, qsf_points_nmt_removed, "");
        steps_replace_if(s, qsf_points_nmt_space, " ");
    } else if (text_is(type, "Precompiled")) {
        text_precompiled(s, v);
    } else if (text_is(type, "BertNormalizer")) {
        text_bert(s, v);
    } else if (text_is(type, "ByteLevel")) {
        qsf_steps_add_step(s, STEP_LETTERS, 0, 0, "");
    } else {
        qsf_steps_refuse(s, "a normalizer", type);
    }
}

/* ---- pre-tokenizer --------------------------------------------------------------------------- */

static uint32_t text_behaviour(steps_build *s, yyjson_val *v, const char *absent)
{
    static const char *const names[] = { "Removed", "Isolated", "MergedWithPrevious", "MergedWithNext",
                                         "Contiguous" };
    const char *name = qsf_json_get_str(v, "behavior");
    for (uint32_t i = 0; i < QSF_ARRAY_LEN(names); i++)
        if (!strcmp(name ? name : absent, names[i])) return i;
    qsf_steps_refuse(s, "a behavior", name ? name : "(none)");
    return 0;
}

static void text_metaspace(steps_build *s, yyjson_val *v)
{
    const char *scheme = qsf_json_get_str(v, "prepend_scheme"), *by = steps_str(s, v, "replacement");
    if (!scheme) scheme = text_bool(s, v, "add_prefix_space", true) ? "always" : "never";
    qsf_steps_add_step(s, STEP_REPLACE, qsf_steps_literal(s, " "), 0, by);
    if (text_is(scheme, "first")) qsf_steps_add_step(s, STEP_PREFIX, 1, 0, by);
    else if (text_is(scheme, "always")) qsf_steps_add_step(s, STEP_PREFIX, 0, 0, by);
    else if (!text_is(scheme, "never")) qsf_steps_refuse(s, "a prepend_scheme", scheme);
    if (text_bool(s, v, "split", true))
        qsf_steps_add_step(s, STEP_SPLIT, qsf_steps_literal(s, by), SPLIT_NEXT, "");
}

static void text_bytelevel(steps_build *s, yyjson_val *v)
{
    if (text_bool(s, v, "add_prefix_space", true)) qsf_steps_add_step(s, STEP_PREFIX, 0, 0, " ");
    if (text_bool(s, v, "use_regex", true))
        qsf_steps_add_step(s, STEP_SPLIT, qsf_steps_regex(s, text_gpt2), SPLIT_ISOLATED, "");
    qsf_steps_add_step(s, STEP_LETTERS, 0, 0, "");
}

static void text_split_if(steps_build *s, points_is *is, uint32_t behaviour)
{
    qsf_steps_add_step(s, STEP_SPLIT, qsf_steps_class(s, is, false), behaviour, "");
}

static void steps_fixed_length(steps_build *s, yyjson_val *v)
{
    char pattern[40];
    uint32_t n = 5;
    if (!s->st) s->st = qsf_json_get_u32(v, FILE_NAME, "length", 5, 1, 256, &n, s->err);
    qsf_format(pattern, sizeof pattern, "[\\s\\S]{1,%u}", (unsigned)n);
    qsf_steps_add_step(s, STEP_SPLIT, qsf_steps_regex(s, pattern), SPLIT_ISOLATED, "");
}

void qsf_steps_pretokenizer(steps_build *s, yyjson_val *v)
{
    const char *type = v && !s->st ? steps_str(s, v, "type") : "";
    if (!v || s->st) return;
    if (text_is(type, "Sequence")) {            /* the JSON parser bounds the nesting */
        size_t i, n;
        yyjson_val *e;
        yyjson_arr_foreach(qsf_json_get(v, "pretokenizers"), i, n, e) qsf_steps_pretokenizer(s, e);
    } else if (text_is(type, "ByteLevel")) {
        text_bytelevel(s, v);
    } else if (text_is(type, "Metaspace")) {
        text_metaspace(s, v);
    } else if (text_is(type, "Split")) {
        const uint32_t e = text_pattern(s, v), by = text_behaviour(s, v, "");
        qsf_steps_add_step(s, STEP_SPLIT, e, by | (text_bool(s, v, "invert", false) ? SPLIT_INVERT : 0), "");
    } else if (text_is(type, "Digits")) {
        text_split_if(s, qsf_points_numeric,
                      text_bool(s, v, "individual_digits", false) ? SPLIT_ISOLATED : SPLIT_CONTIGUOUS);
    } else if (text_is(type, "Punctuation")) {
        text_split_if(s, qsf_points_punct, text_behaviour(s, v, "Isolated"));
    } else if (text_is(type, "Whitespace")) {
        text_split_if(s, qsf_points_space, SPLIT_REMOVED);
        text_split_if(s, qsf_points_word_rust, SPLIT_CONTIGUOUS);
    } else if (text_is(type, "WhitespaceSplit")) {
        text_split_if(s, qsf_points_space, SPLIT_REMOVED);
    } else if (text_is(type, "CharDelimiterSplit")) {
        const uint32_t delimiter = qsf_steps_literal(s, steps_str(s, v, "delimiter"));
        qsf_steps_add_step(s, STEP_SPLIT, delimiter, SPLIT_REMOVED, "");
    } else if (text_is(type, "BertPreTokenizer")) {
        text_split_if(s, qsf_points_space, SPLIT_REMOVED);
        text_split_if(s, qsf_points_punct, SPLIT_ISOLATED);
    } else if (text_is(type, "FixedLength")) {
        steps_fixed_length(s, v);
    } else {
        qsf_steps_refuse(s, "a pre-tokenizer", type);
    }
}

#undef FILE_NAME
#endif
