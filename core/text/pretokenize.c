/* The scanners.  Each stage cuts a range into pieces; the next stage cuts those further, as the
 * tokenizers' lists of expressions do.
 * SPDX-License-Identifier: MIT */
#include "text/pretokenize.h"

/* A range of code points; outside it nothing is there,
 * which is what the expressions' look-ahead sees. */
typedef struct cut {
    const uint32_t *c;
    size_t end;
} cut;

/* The end of the piece that begins at pos < t.end: a match, or the gap up to the next match. */
typedef size_t (*cut_fn)(cut t, size_t pos);

enum { CUT_NONE = -1 };
static uint32_t cp_at(cut t, size_t pos) { return pos < t.end ? t.c[pos] : UINT32_MAX; }
static int  class_at(cut t, size_t pos) { return pos < t.end ? (int)qsf_class_of(t.c[pos]) : CUT_NONE; }
static bool space_at(cut t, size_t pos) { return pos < t.end && qsf_is_space(t.c[pos]); }
static bool letter_at(cut t, size_t pos) { return pos < t.end && qsf_is_letter(t.c[pos]); }
static bool number_at(cut t, size_t pos) { return pos < t.end && qsf_is_number(t.c[pos]); }
static bool mark_at(cut t, size_t pos) { return class_at(t, pos) == QSF_C_MARK; }
/* [^\s\p{L}\p{N}] */
static bool other_at(cut t, size_t pos)
{
    return pos < t.end && !qsf_is_space(t.c[pos]) && !qsf_is_letter(t.c[pos]) && !qsf_is_number(t.c[pos]);
}
static bool newline_at(cut t, size_t pos) { const uint32_t c = cp_at(t, pos); return c == '\r' || c == '\n'; }

static size_t skip_spaces(cut t, size_t pos)
{
    while (space_at(t, pos)) pos++;
    return pos;
}

/* 's 't 're 've 'm 'll 'd behind an apostrophe: their length, 0 for none. */
static size_t contraction(cut t, size_t pos, bool any_case)
{
    if (cp_at(t, pos) != '\'') return 0;
    uint32_t a = cp_at(t, pos + 1), b = cp_at(t, pos + 2);
    if (any_case) {
        if (a >= 'A' && a <= 'Z') a += 32;
        if (b >= 'A' && b <= 'Z') b += 32;
        if (a == 0x17f) a = 's';                         /* the long s folds to s */
    }
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
    return (a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l') ? 3 : 0;
}

/* \s+(?!\S)|\s+ where pos is a space: a run leaves its last space to the word behind it. */
static size_t cut_spaces(cut t, size_t pos)
{
    const size_t end = skip_spaces(t, pos);
    return end - pos > 1 && end < t.end ? end - 1 : end;
}

/* \s*[\r\n]+ : the run of spaces up to and with its last line end; pos where it has none. */
static size_t cut_lines(cut t, size_t pos)
{
    size_t end = pos;
    for (size_t i = pos; space_at(t, i); i++)
        if (newline_at(t, i)) end = i + 1;
    return end;
}

/* ---- whole tokenizers ---- */

/* 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ */
static size_t cut_gpt2(cut t, size_t pos)
{
    const size_t tail = contraction(t, pos, false);
    if (tail) return pos + tail;
    size_t i = pos + (cp_at(t, pos) == ' ');
    const size_t begin = i;
    while (letter_at(t, i)) i++;
    if (i > begin) return i;
    while (number_at(t, i)) i++;
    if (i > begin) return i;
    while (other_at(t, i)) i++;
    return i > begin ? i : cut_spaces(t, pos);
}

/* How the family of Llama 3's expression differs. */
typedef struct llama3_rules {
    uint8_t digits;          /* most digits together */
    bool    contractions;
    bool    marks;           /* marks count as letters */
    bool    slash;           /* [\r\n/]* behind punctuation */
    bool    bare_punct;      /* no line ends in or behind punctuation */
} llama3_rules;

static bool word_at(cut t, size_t pos, bool marks) { return letter_at(t, pos) || (marks && mark_at(t, pos)); }

/* (?i:contraction)|[^\r\n\p{L}\p{N}]?\p{L}+
 *  |\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+ */
static size_t cut_llama3_rules(cut t, size_t pos, llama3_rules r)
{
    const size_t tail = r.contractions ? contraction(t, pos, true) : 0;
    if (tail) return pos + tail;
    size_t i = pos;
    if (!newline_at(t, i) && !letter_at(t, i) && !number_at(t, i) && word_at(t, i + 1, r.marks)) i++;
    if (word_at(t, i, r.marks)) {
        while (word_at(t, i, r.marks)) i++;
        return i;
    }
    for (i = pos; number_at(t, i) && i - pos < r.digits;) i++;
    if (i > pos) return i;
    i = pos + (cp_at(t, pos) == ' ');
    if (other_at(t, i) && !(r.marks && mark_at(t, i))) {
        while (other_at(t, i) && !(r.marks && mark_at(t, i))) i++;
        while (!r.bare_punct && (newline_at(t, i) || (r.slash && cp_at(t, i) == '/'))) i++;
        return i;
    }
    if ((i = cut_lines(t, pos)) > pos) return i;
    return space_at(t, pos) ? cut_spaces(t, pos) : pos + 1;
}
static size_t cut_llama3(cut t, size_t pos)
{
    return cut_llama3_rules(t, pos, (llama3_rules){ .digits = 3, .contractions = true });
}
static size_t cut_qwen2(cut t, size_t pos)
{
    return cut_llama3_rules(t, pos, (llama3_rules){ .digits = 1, .contractions = true });
}
static size_t cut_qwen35(cut t, size_t pos)
{
    return cut_llama3_rules(t, pos, (llama3_rules){ .digits = 1, .contractions = true, .marks = true });
}
static size_t cut_plain1(cut t, size_t pos)
{
    return cut_llama3_rules(t, pos, (llama3_rules){ .digits = 1 });
}
static size_t cut_seed(cut t, size_t pos)
{
    return cut_llama3_rules(t, pos, (llama3_rules){ .digits = 1, .contractions = true, .bare_punct = true });
}

/* [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}] and [\p{Ll}\p{Lm}\p{Lo}\p{M}] overlap in Lm, Lo and M. */
static bool upper_at(cut t, size_t pos)
{
    const int k = class_at(t, pos);
    return k == QSF_C_UPPER || k == QSF_C_TITLE || k == QSF_C_MODIFIER || k == QSF_C_LETTER
        || k == QSF_C_MARK;
}
static bool lower_at(cut t, size_t pos)
{
    const int k = class_at(t, pos);
    return k == QSF_C_LOWER || k == QSF_C_MODIFIER || k == QSF_C_LETTER || k == QSF_C_MARK;
}

/* U*L+|U+L* from pos: its end, pos for no match.  Where no L follows the run of U, the last U that
 * is an L too is given back. */
static size_t cut_cased(cut t, size_t pos, bool second)
{
    size_t u = pos;
    while (upper_at(t, u)) u++;
    size_t l = u;
    while (lower_at(t, l)) l++;
    if (second || l > u) return l;
    for (size_t i = u; i > pos; i--)
        if (lower_at(t, i - 1)) return i;
    return pos;
}

/* X?U*L+(contraction)?|X?U+L*(contraction)?
 *  |\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+ */
static size_t cut_cased_rules(cut t, size_t pos, uint8_t digits, bool contractions)
{
    const bool x = pos < t.end && !newline_at(t, pos) && !letter_at(t, pos) && !number_at(t, pos);
    for (int second = 0; second < 2; second++) {
        size_t end = pos;
        if (x && (end = cut_cased(t, pos + 1, second)) == pos + 1) end = pos;
        if (end == pos) end = cut_cased(t, pos, second);
        if (end > pos) return end + (contractions ? contraction(t, end, true) : 0);
    }
    return cut_llama3_rules(t, pos, (llama3_rules){ .digits = digits, .slash = true });
}
static size_t cut_gpt4o(cut t, size_t pos) { return cut_cased_rules(t, pos, 3, true); }
static size_t cut_tekken(cut t, size_t pos) { return cut_cased_rules(t, pos, 1, false); }

/* ---- stages: a match alone, gaps up to the next one ---- */

/* A piece of characters for which is() holds, at most `most` of them; or the gap before it. */
static size_t cut_runs(cut t, size_t pos, bool (*is)(cut, size_t), size_t most)
{
    size_t i = pos;
    if (!is(t, i)) {
        while (i < t.end && !is(t, i)) i++;
        return i;
    }
    while (is(t, i) && i - pos < most) i++;
    return i;
}
/* The same with an optional space before: \s?X+ */
static size_t cut_spaced_runs(cut t, size_t pos, bool (*is)(cut, size_t))
{
    size_t i = pos;
    const size_t begin = pos + (space_at(t, pos) && is(t, pos + 1) ? 1 : 0);
    if (is(t, begin)) {
        for (i = begin; is(t, i);) i++;
        return i;
    }
    for (i = pos + 1; i < t.end && !is(t, i) && !(space_at(t, i) && is(t, i + 1));) i++;
    return i;
}
/* Hugging Face's "Digits" goes by Rust's own table, which is of Unicode 17 already. */
static bool digit_at(cut t, size_t pos)
{
    const uint32_t c = cp_at(t, pos);
    return number_at(t, pos) || c - 0x11de0 < 10 || c - 0x16ff4 < 3;
}
static size_t cut_digit(cut t, size_t pos) { return cut_runs(t, pos, digit_at, 1); }
static size_t cut_digits(cut t, size_t pos) { return cut_runs(t, pos, number_at, SIZE_MAX); }
static size_t cut_digits3(cut t, size_t pos) { return cut_runs(t, pos, number_at, 3); }
static size_t cut_newline(cut t, size_t pos) { return cut_runs(t, pos, newline_at, 1); }
static size_t cut_line_runs(cut t, size_t pos)           /* [^\n]+|\n+ */
{
    const bool line = cp_at(t, pos) == '\n';
    while (pos < t.end && (t.c[pos] == '\n') == line) pos++;
    return pos;
}
static size_t cut_blank_runs(cut t, size_t pos) { return cut_runs(t, pos, space_at, SIZE_MAX); }
static size_t cut_letters(cut t, size_t pos) { return cut_spaced_runs(t, pos, letter_at); }
static bool punct_at(cut t, size_t pos) { return class_at(t, pos) == QSF_C_PUNCT; }
static size_t cut_puncts(cut t, size_t pos) { return cut_spaced_runs(t, pos, punct_at); }

/* [0-9][0-9][0-9]: three at a time, what is left is a gap with what follows. */
static bool ascii_digit_at(cut t, size_t pos)
{
    const uint32_t c = cp_at(t, pos);
    return c >= '0' && c <= '9';
}
static bool three_at(cut t, size_t pos)
{
    return ascii_digit_at(t, pos) && ascii_digit_at(t, pos + 1) && ascii_digit_at(t, pos + 2);
}
static size_t cut_ascii3(cut t, size_t pos)
{
    if (three_at(t, pos)) return pos + 3;
    size_t i = pos + 1;
    while (i < t.end && !three_at(t, i)) i++;
    return i;
}

/* [\p{P}\$\+<=>\^~\|`]+ (falcon); without the backquote in the default. */
static bool falcon_punct_at(cut t, size_t pos)
{
    const uint32_t c = cp_at(t, pos);
    return punct_at(t, pos) || (c < 128 && c && strchr("$+<=>^~|`", (int)c));
}
static bool default_punct_at(cut t, size_t pos) { return cp_at(t, pos) != '`' && falcon_punct_at(t, pos); }
static size_t cut_falcon_punct(cut t, size_t pos) { return cut_runs(t, pos, falcon_punct_at, SIZE_MAX); }
static size_t cut_default_punct(cut t, size_t pos) { return cut_runs(t, pos, default_punct_at, SIZE_MAX); }

/* " ?[^(\s|.,!?...]+" of Bloom and its kin: words between sentence marks. */
static bool bloom_at(cut t, size_t pos)
{
    static const uint16_t marks[] = { '(', ')', '|', '.', ',', '!', '?', 0x2026, 0x3002, 0xff0c, 0x3001,
                                      0x0964, 0x06d4, 0x060c };
    if (pos >= t.end || qsf_is_space(t.c[pos])) return false;
    for (size_t i = 0; i < QSF_ARRAY_LEN(marks); i++)
        if (t.c[pos] == marks[i]) return false;
    return true;
}
static size_t cut_bloom(cut t, size_t pos)
{
    size_t i = pos + (cp_at(t, pos) == ' ' && bloom_at(t, pos + 1));
    if (bloom_at(t, i)) {
        while (bloom_at(t, i)) i++;
        return i;
    }
    for (i = pos + 1; i < t.end && !bloom_at(t, i) && !(t.c[i] == ' ' && bloom_at(t, i + 1));) i++;
    return i;
}

/* ---- DeepSeek ---- */

/* [一-龥ࠀ-一가-퟿]: also what lies between Samaritan and Han */
static bool cjk_llm_at(cut t, size_t pos)
{
    const uint32_t c = cp_at(t, pos);
    return (c >= 0x800 && c <= 0x9fa5) || (c >= 0xac00 && c <= 0xd7ff);
}
static bool cjk_v3_at(cut t, size_t pos)
{
    const uint32_t c = cp_at(t, pos);
    return (c >= 0x4e00 && c <= 0x9fa5) || (c >= 0x3040 && c <= 0x30ff);
}
static size_t cut_cjk_llm(cut t, size_t pos) { return cut_runs(t, pos, cjk_llm_at, SIZE_MAX); }
static size_t cut_cjk_v3(cut t, size_t pos) { return cut_runs(t, pos, cjk_v3_at, SIZE_MAX); }

/* The letters of DeepSeek LLM's long list: those with case outside of the modifiers, in the scripts
 * that have it, as far as the list goes. */
static bool deepseek_letter_at(cut t, size_t pos)
{
    static const uint32_t ranges[][2] = {
        { 'A', 'Z' }, { 'a', 'z' }, { 0xb5, 0xb5 }, { 0xc0, 0xd6 }, { 0xd8, 0xf6 }, { 0xf8, 0x1ba },
        { 0x1bc, 0x1bf }, { 0x1c4, 0x293 }, { 0x295, 0x2af }, { 0x370, 0x373 },
        { 0x376, 0x377 }, { 0x37b, 0x37d }, { 0x37f, 0x37f }, { 0x386, 0x386 }, { 0x388, 0x38a },
        { 0x38c, 0x38c }, { 0x38e, 0x3a1 }, { 0x3a3, 0x3f5 }, { 0x3f7, 0x481 },
        { 0x48a, 0x52f }, { 0x531, 0x556 }, { 0x10a0, 0x10c5 }, { 0x13a0, 0x13f5 }, { 0x13f8, 0x13fd },
        { 0x1c90, 0x1cba }, { 0x1cbd, 0x1cbf }, { 0x1d00, 0x1d2b },
        { 0x1d6b, 0x1d77 }, { 0x1d79, 0x1d9a }, { 0x1e00, 0x1f15 }, { 0x1f18, 0x1f1d }, { 0x1f20, 0x1f45 },
        { 0x1f48, 0x1f4d }, { 0x1f50, 0x1f57 }, { 0x1f59, 0x1f59 },
        { 0x1f5b, 0x1f5b }, { 0x1f5d, 0x1f5d }, { 0x1f5f, 0x1f7d }, { 0x1f80, 0x1fb4 }, { 0x1fb6, 0x1fbc },
        { 0x1fbe, 0x1fbe }, { 0x1fc2, 0x1fc4 }, { 0x1fc6, 0x1fcc },
        { 0x1fd0, 0x1fd3 }, { 0x1fd6, 0x1fdb }, { 0x1fe0, 0x1fec }, { 0x1ff2, 0x1ff4 }, { 0x1ff6, 0x1ffc },
        { 0x2102, 0x2102 }, { 0x2107, 0x2107 }, { 0x210a, 0x2113 },
        { 0x2115, 0x2115 }, { 0x2119, 0x211d }, { 0x2124, 0x2124 }, { 0x2126, 0x2126 }, { 0x2128, 0x2128 },
        { 0x212a, 0x212d }, { 0x212f, 0x2134 }, { 0x2139, 0x2139 },
        { 0x213c, 0x213f }, { 0x2145, 0x2149 }, { 0x214e, 0x214e }, { 0x2183, 0x2184 }, { 0x2c00, 0x2c7b },
        { 0x2c7e, 0x2ce4 }, { 0x2ceb, 0x2cee }, { 0x2cf2, 0x2cf3 },
        { 0xa640, 0xa66d }, { 0xa680, 0xa69b }, { 0xa722, 0xa76f }, { 0xa771, 0xa787 }, { 0xa78b, 0xa78e },
        { 0xab70, 0xabbf }, { 0xfb00, 0xfb06 }, { 0xfb13, 0xfb17 },
        { 0xff21, 0xff3a }, { 0xff41, 0xff5a }, { 0x10400, 0x1044f }, { 0x104b0, 0x104d3 },
        { 0x104d8, 0x104fb }, { 0x10c80, 0x10cb2 }, { 0x10cc0, 0x10cf2 },
        { 0x118a0, 0x118df }, { 0x1e900, 0x1e943 },
    };
    const uint32_t c = cp_at(t, pos);
    size_t low = 0, high = QSF_ARRAY_LEN(ranges);
    while (low < high) {
        const size_t mid = (low + high) / 2;
        if (c < ranges[mid][0]) high = mid;
        else if (c > ranges[mid][1]) low = mid + 1;
        else return true;
    }
    return false;
}
static bool deepseek_punct_at(cut t, size_t pos)         /* [!-/:-~！-／：-～‘-‟　-。] */
{
    const uint32_t c = cp_at(t, pos);
    return (c >= '!' && c <= '/') || (c >= ':' && c <= '~') || (c >= 0xff01 && c <= 0xff0f)
        || (c >= 0xff1a && c <= 0xff5e) ||
           (c >= 0x2018 && c <= 0x201f) || (c >= 0x3000 && c <= 0x3002);
}
static size_t cut_deepseek_letters(cut t, size_t pos) { return cut_spaced_runs(t, pos, deepseek_letter_at); }
static size_t cut_deepseek_punct(cut t, size_t pos) { return cut_spaced_runs(t, pos, deepseek_punct_at); }
/* \s+$ */
static size_t cut_last_spaces(cut t, size_t pos)
{
    size_t last = t.end;
    while (last > pos && space_at(t, last - 1)) last--;
    return pos < last ? last : t.end;
}

/* [!-~ punctuation][A-Za-z]+
 *  |[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+ */
static bool ascii_letter_at(cut t, size_t pos)
{
    const uint32_t c = cp_at(t, pos) | 32;
    return c >= 'a' && c <= 'z' && pos < t.end;
}
static bool sign_at(cut t, size_t pos)
{
    const int k = class_at(t, pos);
    return k == QSF_C_PUNCT || k == QSF_C_SYMBOL;
}
static size_t cut_deepseek_v3(cut t, size_t pos)
{
    const uint32_t c = cp_at(t, pos);
    size_t i = pos + 1;
    if (c < 128 && sign_at(t, pos) && ascii_letter_at(t, i)) {
        while (ascii_letter_at(t, i)) i++;
        return i;
    }
    i = pos + (!newline_at(t, pos) && !letter_at(t, pos) && !sign_at(t, pos) && word_at(t, pos + 1, true));
    if (word_at(t, i, true)) {
        while (word_at(t, i, true)) i++;
        return i;
    }
    i = pos + (c == ' ');
    if (sign_at(t, i)) {
        while (sign_at(t, i)) i++;
        while (newline_at(t, i)) i++;
        return i;
    }
    if ((i = cut_lines(t, pos)) > pos) return i;
    if (space_at(t, pos)) return cut_spaces(t, pos);
    /* a gap: digits (cut before) and what has no class */
    for (i = pos + 1; i < t.end; i++) {
        if (space_at(t, i) || sign_at(t, i) || word_at(t, i, true) || word_at(t, i + 1, true)) break;
    }
    return i;
}

/* ---- names ---- */

enum { MAX_STAGES = 6 };
struct qsf_pretokenizer {
    const char *names;            /* with spaces between and around */
    uint8_t     rules;            /* QSF_PRE_* */
    cut_fn      stages[MAX_STAGES];
};

static const qsf_pretokenizer pretokenizers[] = {
    { " gpt-2 gpt2 phi-2 mpt olmo jais trillion granite-docling jina-es jina-de jina-v1-en jina-v2-es "
      "jina-v2-de jina-v2-code roberta-bpe gigachat a.x-4.0 mellum "
      "modern-bert exaone4 ", 0, { cut_gpt2 } },
    { " llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano ",
      QSF_PRE_WHOLE | QSF_PRE_BEGIN, { cut_llama3 } },
    { " glm4 glm5 ", QSF_PRE_WHOLE, { cut_llama3 } },
    { " dbrx smaug-bpe chatglm-bpe ", 0, { cut_llama3 } },
    { " qwen2 deepseek-r1-qwen kormo f2llmv2 stablelm2 megrez hunyuan solar-open grok-2 bailingmoe "
      "bailingmoe2 llada-moe ", 0, { cut_qwen2 } },
    { " laguna ", 0, { cut_line_runs, cut_qwen2 } },
    { " minicpm5 ", QSF_PRE_WHOLE, { cut_digits3, cut_llama3 } },
    { " qwen35 ", 0, { cut_qwen35 } },
    { " ufakzeka ", 0, { cut_plain1 } },
    { " seed-coder ", 0, { cut_seed } },
    { " smollm starcoder refact command-r codeshell exaone minerva-7b mellum2 ", 0,
      { cut_digit, cut_gpt2 } },
    { " falcon ", 0, { cut_falcon_punct, cut_gpt2, cut_ascii3 } },
    { " default ", 0, { cut_default_punct, cut_gpt2, cut_digits, cut_ascii3 } },
    { " deepseek-llm ", 0, { cut_newline, cut_deepseek_letters, cut_deepseek_punct, cut_last_spaces,
                                 cut_cjk_llm, cut_digits } },
    { " deepseek-coder ", 0, { cut_newline, cut_letters, cut_puncts, cut_cjk_llm, cut_digit } },
    { " deepseek-v3 hunyuan-dense joyai-llm hy_v4 ", 0, { cut_digits3, cut_cjk_v3, cut_deepseek_v3 } },
    { " bloom poro-chat gpt3-finnish ", 0, { cut_bloom } },
    { " viking ", 0, { cut_bloom, cut_digit } },
    { " gpt-4o llama4 kanana2 talkie minimax-m2 ", 0, { cut_gpt4o } },
    { " tekken ", QSF_PRE_WHOLE | QSF_PRE_BEGIN, { cut_tekken } },
    { " gemma4 granite-embed-multi-311m ", QSF_PRE_RAW | QSF_PRE_MARKS | QSF_PRE_LINES | QSF_PRE_BEGIN,
      { cut_line_runs } },
    { " sarvam-moe ", QSF_PRE_RAW | QSF_PRE_MARKS, { cut_line_runs } },
    { " whitespace ", QSF_PRE_RAW | QSF_PRE_NO_SPACES, { cut_blank_runs } },
};

const qsf_pretokenizer *qsf_pretokenizer_find(const char *name)
{
    const size_t n = strchr(name, ' ') ? 0 : strlen(name);
    for (size_t i = 0; n && i < QSF_ARRAY_LEN(pretokenizers); i++)
        for (const char *p = pretokenizers[i].names; (p = strstr(p, name)); p += n)
            if (p[-1] == ' ' && p[n] == ' ') return &pretokenizers[i];
    return NULL;
}

unsigned qsf_pretokenizer_rules(const qsf_pretokenizer *p) { return p->rules; }

/* One level for each stage, never deeper. */
static qsf_status cut_stage(const qsf_pretokenizer *p, int stage, cut t, size_t pos,
                            qsf_word_fn word, void *user)
{
    if (stage == MAX_STAGES || !p->stages[stage]) return word(user, pos, t.end);
    while (pos < t.end) {
        const size_t end = p->stages[stage](t, pos);
        assert(end > pos && end <= t.end);
        const qsf_status st = cut_stage(p, stage + 1, (cut){ t.c, end }, pos, word, user);
        if (st) return st;
        pos = end;
    }
    return QSF_OK;
}

qsf_status qsf_pretokenize(const qsf_pretokenizer *p, const uint32_t *c, size_t n,
                           qsf_word_fn word, void *user)
{
    return cut_stage(p, 0, (cut){ c, n }, 0, word, user);
}
