/* The splitting rules of a tokenizer.json, recognised as one of the pre-tokenizers that have names.
 * SPDX-License-Identifier: MIT
 *
 * The rules are regular expressions; the tokenizer has hand-written scanners for the ones in use.
 *  So the steps of a file are written down as short texts and looked up: an unknown list is an
 * error that shows it, never a guess. */
#include "read/hf_tokenizer.h"

#ifdef QSF_HAVE_YYJSON

enum { PRETOK_STEPS = 8, PRETOK_STEP_TEXT = 2048 };

/* One step: "ByteLevel" splits by GPT-2's expression and maps bytes to letters, "Bytes" only maps;
 * "Digit" takes every digit alone, "Digits" runs of them; anything else is the expression of a
 * Split. */
typedef struct pretok_list {
    uint32_t n;
    char     step[PRETOK_STEPS][PRETOK_STEP_TEXT];
} pretok_list;

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define WORDS "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"
#define REST "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define REST_SLASH "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define NO_LETTER "[^\\r\\n\\p{L}\\p{N}]?"
/* U+4E00-9FA5, 0800-4E00, AC00-D7FF */
#define CJK_RANGES "[\xe4\xb8\x80-\xe9\xbe\xa5\xe0\xa0\x80-\xe4\xb8\x80\xea\xb0\x80-\xed\x9f\xbf]+"
/* U+4E00-9FA5, 3040-309F, 30A0-30FF */
#define CJK_KANA "[\xe4\xb8\x80-\xe9\xbe\xa5\xe3\x81\x80-\xe3\x82\x9f\xe3\x82\xa0-\xe3\x83\xbf]+"

/* A step that ends in '*' here matches any text that begins so. */
typedef struct pretok_rule {
    const char *name;
    int8_t      ignore_merges;       /* -1: the setting does not tell this one from others */
    const char *step[PRETOK_STEPS];
} pretok_rule;

static const pretok_rule pretok_rules[] = {
    { "gpt-2",    -1, { "ByteLevel" } },
    { "gpt-2",    -1, { "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
                      "Bytes" } },
    { "smollm",   -1, { "Digit", "ByteLevel" } },
    { "falcon",   -1, { "Punctuation", "ByteLevel", "Digits", "[0-9][0-9][0-9]" } },
    { "falcon",   -1, { "Punctuation", "ByteLevel", "[0-9][0-9][0-9]" } },
    { "llama-bpe", 1, { CONTRACTIONS "|" WORDS "\\p{N}{1,3}" REST, "Bytes" } },
    { "dbrx",      0, { CONTRACTIONS "|" WORDS "\\p{N}{1,3}" REST, "Bytes" } },
    { "qwen2",    -1, { CONTRACTIONS "|" WORDS "\\p{N}" REST, "Bytes" } },
    { "qwen35",   -1, { CONTRACTIONS "|" NO_LETTER "[\\p{L}\\p{M}]+|\\p{N}"
                      "| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+", "Bytes" } },
    { "tekken",   -1, { NO_LETTER UPPER "*" LOWER "+|" NO_LETTER UPPER "+" LOWER "*|\\p{N}" REST_SLASH,
                      "Bytes" } },
    { "gpt-4o",   -1, { NO_LETTER UPPER "*" LOWER "+" CONTRACTIONS "?|"
                      NO_LETTER UPPER "+" LOWER "*" CONTRACTIONS "?|\\p{N}{1,3}" REST_SLASH, "Bytes" } },
    { "deepseek-llm", -1, { "[\\r\\n]", "\\s?[A-Za-z*", "\\s?[!-/:-~*", "\\s+$", CJK_RANGES, "Digit",
                          "Bytes" } },
    { "deepseek-coder", -1, { "[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", CJK_RANGES, "Digit", "Bytes" } },
    { "deepseek-v3", -1, { "\\p{N}{1,3}", CJK_KANA, "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+"
                         "|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*"
                         "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+", "Bytes" } },
};

#undef CONTRACTIONS
#undef WORDS
#undef REST
#undef REST_SLASH
#undef UPPER
#undef LOWER
#undef NO_LETTER
#undef CJK_RANGES
#undef CJK_KANA

static qsf_status pretok_add(pretok_list *l, const char *text, qsf_error *err)
{
    if (l->n == PRETOK_STEPS || strlen(text) >= PRETOK_STEP_TEXT)
        return qsf_fail(err, QSF_E_UNSUPPORTED,
                        "tokenizer.json: a pre-tokenizer of too many or too long steps");
    qsf_format(l->step[l->n++], PRETOK_STEP_TEXT, "%s", text);
    return QSF_OK;
}

/* Some files have the line end's escape in their expressions, some the character itself. */
static bool pretok_escape(const char *s, char *out, size_t cap)
{
    size_t n = 0;
    for (; *s; s++) {
        if (n + 3 > cap) return false;
        if (*s == '\r' || *s == '\n') {
            out[n++] = '\\';
            out[n++] = *s == '\r' ? 'r' : 'n';
        } else {
            out[n++] = *s;
        }
    }
    out[n] = 0;
    return true;
}

static qsf_status pretok_split(yyjson_val *v, pretok_list *l, qsf_error *err)
{
    char text[PRETOK_STEP_TEXT];
    const char *regex = qsf_json_get_str(qsf_json_get(v, "pattern"), "Regex"),
               *behavior = qsf_json_get_str(v, "behavior");
    bool invert;
    const qsf_status st = qsf_json_get_bool(v, "tokenizer.json", "invert", false, &invert, err);
    if (st) return st;
    if (!regex || !pretok_escape(regex, text, sizeof text))
        return qsf_fail(
            err, QSF_E_UNSUPPORTED,
            "tokenizer.json: a Split pre-tokenizer without a regular expression, or a very long one");
    /* For an expression that matches everything the two mean the same: each match is a piece. */
    if (!behavior || strcmp(behavior, invert ? "Removed" : "Isolated"))
        return qsf_fail(err, QSF_E_UNSUPPORTED, "tokenizer.json: Split with behavior %s",
                        behavior ? behavior : "(none)");
    return pretok_add(l, text, err);
}

static qsf_status pretok_bytelevel(yyjson_val *v, pretok_list *l, qsf_error *err)
{
    bool prefix, regex;
    qsf_status st;
    if ((st = qsf_json_get_bool(v, "tokenizer.json", "add_prefix_space", true, &prefix, err)) ||
        (st = qsf_json_get_bool(v, "tokenizer.json", "use_regex", true, &regex, err))) return st;
    if (prefix) return qsf_fail(err, QSF_E_UNSUPPORTED, "tokenizer.json: ByteLevel with add_prefix_space");
    return pretok_add(l, regex ? "ByteLevel" : "Bytes", err);
}

static qsf_status pretok_step(yyjson_val *v, pretok_list *l, qsf_error *err)
{
    const char *type = qsf_json_get_str(v, "type");
    bool alone;
    qsf_status st;
    if (!type) return qsf_fail(err, QSF_E_CORRUPT, "tokenizer.json: a pre-tokenizer without a type");
    if (!strcmp(type, "Sequence")) {        /* no deeper than the JSON itself, which is bounded */
        size_t i, n;
        yyjson_val *e, *list = qsf_json_get(v, "pretokenizers");
        yyjson_arr_foreach(list, i, n, e)
            if ((st = pretok_step(e, l, err))) return st;
        return QSF_OK;
    }
    if (!strcmp(type, "Split")) return pretok_split(v, l, err);
    if (!strcmp(type, "ByteLevel")) return pretok_bytelevel(v, l, err);
    if (!strcmp(type, "Digits")) {
        if ((st = qsf_json_get_bool(v, "tokenizer.json", "individual_digits", false, &alone, err))) return st;
        return pretok_add(l, alone ? "Digit" : "Digits", err);
    }
    if (!strcmp(type, "Punctuation") && qsf_json_get_str(v, "behavior") &&
        !strcmp(qsf_json_get_str(v, "behavior"), "Contiguous"))
        return pretok_add(l, "Punctuation", err);
    return qsf_fail(err, QSF_E_UNSUPPORTED, "tokenizer.json: pre-tokenizer of type %s", type);
}

static bool pretok_step_is(const char *rule, const char *step)
{
    const size_t n = strlen(rule);
    return n && rule[n - 1] == '*' ? !strncmp(rule, step, n - 1) : !strcmp(rule, step);
}

static bool pretok_is(const pretok_rule *r, const pretok_list *l, bool ignore_merges)
{
    uint32_t n = 0;
    if (r->ignore_merges >= 0 && (r->ignore_merges != 0) != ignore_merges) return false;
    while (n < PRETOK_STEPS && r->step[n]) {
        if (n >= l->n || !pretok_step_is(r->step[n], l->step[n])) return false;
        n++;
    }
    return n == l->n;
}

qsf_status qsf_hf_pretokenizer(const qsf_platform *p, yyjson_val *pre, bool ignore_merges, char name[32],
                               qsf_error *err)
{
    pretok_list *l = qsf_alloc(p, sizeof *l, "pre-tokenizer", err);
    qsf_status st;
    if (!l) return QSF_E_MEMORY;
    name[0] = 0;
    if (!(st = pretok_step(pre, l, err))) {
        for (size_t i = 0; i < QSF_ARRAY_LEN(pretok_rules) && !name[0]; i++)
            if (pretok_is(&pretok_rules[i], l, ignore_merges))
                qsf_format(name, 32, "%s", pretok_rules[i].name);
        if (!name[0])
            st = qsf_fail(err, QSF_E_UNSUPPORTED, "tokenizer.json: unknown pre-tokenizer of %u steps: %s%s%s",
                          (unsigned)l->n, l->n ? l->step[0] : "", l->n > 1 ? " / " : "",
                          l->n > 1 ? l->step[1] : "");
    }
    qsf_dealloc(p, l, sizeof *l);
    return st;
}

#endif
