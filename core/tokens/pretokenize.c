/* The scanners.  Each stage cuts a range into pieces; the next stage cuts those further, as the
 * tokenizers' lists of expressions do.
 * SPDX-License-Identifier: MIT */
#include "tokens/pretokenize.h"
#include "tokens/pretokenize_ranges.h"

/* A range of code points; outside it nothing is there,
 * which is what the expressions' look-ahead sees. */
typedef struct cut {
    const uint32_t *c;
    size_t end;
    bool no_han;                  /* Han characters are not letters of words */
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

/* 's 't 're 've 'm 'll 'd with the apostrophe: their length, 0 for none. */
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

/* \s+(?!\S)|\s+ if pos is a space: a run leaves its last space to the word after it. */
static size_t cut_spaces(cut t, size_t pos)
{
    const size_t end = skip_spaces(t, pos);
    return end - pos > 1 && end < t.end ? end - 1 : end;
}

/* \s*[\r\n]+ : the run of spaces up to and including its last line end; pos: no line end. */
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
    bool    slash;           /* [\r\n/]* after punctuation */
    bool    bare_punct;      /* no line ends in or after punctuation */
    bool    one_end;         /* [\r\n/]? after it */
} llama3_rules;

static bool word_at(cut t, size_t pos, bool marks) { return letter_at(t, pos) || (marks && mark_at(t, pos)); }

/* \p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+ */
static size_t cut_no_word(cut t, size_t pos, llama3_rules r)
{
    size_t i = pos;
    while (number_at(t, i) && i - pos < r.digits) i++;
    if (i > pos) return i;
    i = pos + (cp_at(t, pos) == ' ');
    if (other_at(t, i) && !(r.marks && mark_at(t, i))) {
        while (other_at(t, i) && !(r.marks && mark_at(t, i))) i++;
        if (r.one_end) return i + (newline_at(t, i) || cp_at(t, i) == '/');
        while (!r.bare_punct && (newline_at(t, i) || (r.slash && cp_at(t, i) == '/'))) i++;
        return i;
    }
    if ((i = cut_lines(t, pos)) > pos) return i;
    return space_at(t, pos) ? cut_spaces(t, pos) : pos + 1;
}

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
    return cut_no_word(t, pos, r);
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

static bool han_at(cut t, size_t pos) { return pos < t.end && qsf_is_han(t.c[pos]); }
/* [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}] and [\p{Ll}\p{Lm}\p{Lo}\p{M}] overlap in Lm, Lo and M. */
static bool upper_at(cut t, size_t pos)
{
    if (t.no_han && han_at(t, pos)) return false;
    const int k = class_at(t, pos);
    return k == QSF_C_UPPER || k == QSF_C_TITLE || k == QSF_C_MODIFIER || k == QSF_C_LETTER
        || k == QSF_C_MARK;
}
static bool lower_at(cut t, size_t pos)
{
    if (t.no_han && han_at(t, pos)) return false;
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
    return cut_no_word(t, pos, (llama3_rules){ .digits = digits, .slash = !t.no_han });
}
static size_t cut_gpt4o(cut t, size_t pos) { return cut_cased_rules(t, pos, 3, true); }
static size_t cut_tekken(cut t, size_t pos) { return cut_cased_rules(t, pos, 1, false); }
static size_t cut_youtu(cut t, size_t pos) { return cut_cased_rules(t, pos, 1, true); }
static size_t cut_kimi(cut t, size_t pos)
{
    size_t i = pos;
    while (han_at(t, i)) i++;
    t.no_han = true;
    return i > pos ? i : cut_cased_rules(t, pos, 3, true);
}

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

static bool deepseek_letter_at(cut t, size_t pos) { return qsf_is_deepseek_letter(cp_at(t, pos)); }
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
static size_t cut_v3_rules(cut t, size_t pos, bool bare)
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
        while (!bare && newline_at(t, i)) i++;
        return i;
    }
    if (bare && newline_at(t, pos)) return pos + 1;
    if (!bare && (i = cut_lines(t, pos)) > pos) return i;
    if (space_at(t, pos)) return cut_spaces(t, pos);
    /* a gap: digits (cut before) and what has no class */
    for (i = pos + 1; i < t.end; i++) {
        if (space_at(t, i) || sign_at(t, i) || word_at(t, i, true) || word_at(t, i + 1, true)) break;
    }
    return i;
}

static size_t cut_deepseek_v3(cut t, size_t pos) { return cut_v3_rules(t, pos, false); }
/* ... ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+ */
static size_t cut_spark(cut t, size_t pos) { return cut_v3_rules(t, pos, true); }

/* ---- digits in threes from their end ---- */

/* No word character may follow the digits of a group: \b */
static bool joined_at(cut t, size_t pos)
{
    const uint32_t c = cp_at(t, pos);
    return letter_at(t, pos) || mark_at(t, pos)
        || (number_at(t, pos) && (c < 0x100 || qsf_class_stored(c) != QSF_C_NUMERAL))
        || c == '_' || c == 0x203f || c == 0x2040 || c == 0x2054 || c == 0xfe33 || c == 0xfe34
        || (c >= 0xfe4d && c <= 0xfe4f) || c == 0xff3f;
}
static bool true_digit_at(cut t, size_t pos) { return pos < t.end && qsf_is_digit(t.c[pos]); }

/* Only for first stages and runs of numbers: the character before pos shows if a run continues. */
static size_t cut_threes(cut t, size_t pos, bool (*is)(cut, size_t), bool bound)
{
    for (size_t i = pos; i < t.end; i++) {
        if (!is(t, i)) continue;
        size_t end = i;
        if (i == pos && pos && is((cut){ t.c, pos, false }, pos - 1)) return pos + 3;
        while (is(t, end)) end++;
        if (!bound || !joined_at(t, end)) return i > pos ? i : pos + ((end - i - 1) % 3 + 1);
        i = end - 1;
    }
    return t.end;
}
/* \d{1,3}(?=(?:\d{3})*\b) */
static size_t cut_threes_bound(cut t, size_t pos) { return cut_threes(t, pos, true_digit_at, true); }
static size_t cut_threes_all(cut t, size_t pos) { return cut_threes(t, pos, number_at, false); }

/* (?=(\d{3})+(?!\d)), before which a run of numbers is cut: up to the next such place */
static size_t cut_superbpe(cut t, size_t pos)
{
    for (size_t i = pos; i < t.end; i++) {
        size_t end = i;
        if (!true_digit_at(t, i)) continue;
        if (i == pos && pos && true_digit_at((cut){ t.c, pos, false }, pos - 1)) {
            end = pos + 3;
            if (true_digit_at(t, end)) return end;
        } else {
            while (true_digit_at(t, end)) end++;
            const size_t at = i + ((end - i) % 3 || i > pos ? (end - i) % 3 : 3);
            if (at < end) return at;
        }
        i = end - 1;
    }
    return t.end;
}

/* ---- one family each ---- */

/* [가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+ : which of them, 0 for none */
static int youtu_kind(cut t, size_t pos)
{
    const uint32_t c = cp_at(t, pos);
    if ((c >= 0xac00 && c <= 0xd7a3) || (c >= 0x3131 && c <= 0x318e)) return 1;
    if (c == 0xff01 || c == 0x2026 || c == 0x201c || c == 0x201d || c == 0x2018 || c == 0x2019 || c == 0x2014
        || c == 0xff1a || c == 0xff1b || c == 0xff0c || (c >= 0x3001 && c <= 0x303f)
        || (c >= 0xfe30 && c <= 0xfe4f)) return 2;
    return c >= 0x3105 && c <= 0x312f ? 3 : cjk_v3_at(t, pos) ? 4 : 0;
}
static size_t cut_youtu_scripts(cut t, size_t pos)
{
    const int kind = youtu_kind(t, pos);
    while (pos < t.end && youtu_kind(t, pos) == kind) pos++;
    return pos;
}

/* The scripts of AFMoE's second expression. */
static bool afmoe_at(cut t, size_t pos) { return qsf_is_afmoe_script(cp_at(t, pos)); }
static size_t cut_afmoe(cut t, size_t pos) { return cut_runs(t, pos, afmoe_at, SIZE_MAX); }

/* The white space of Jais 2: \s{512}(?!\S)|\s{256}(?!\S)|...|\s{4}(?!\S)|\s{1,2}(?!\S)|\s */
static size_t cut_jais2(cut t, size_t pos)
{
    /* after a space that is not a line end, the rest of its run has no line end either */
    const bool inside = pos && qsf_is_space(t.c[pos - 1]) && t.c[pos - 1] != '\r' && t.c[pos - 1] != '\n';
    const size_t end = space_at(t, pos) && !inside ? cut_llama3(t, pos) : pos;
    if (!space_at(t, pos) || (end > pos && (!space_at(t, end - 1) || newline_at(t, end - 1))))
        return cut_llama3(t, pos);
    if (other_at(t, pos + 1) && cp_at(t, pos) == ' ') return cut_llama3(t, pos);
    if (letter_at(t, pos + 1)) return cut_llama3(t, pos);
    size_t n = 0;
    while (n < 513 && space_at(t, pos + n)) n++;
    const size_t most = pos + n < t.end && n < 513 ? n - 1 : n;        /* the last stays with what follows */
    for (size_t k = 512; k >= 2; k /= 2)
        if (k <= most) return pos + k;
    return pos + 1;
}

/* EXAONE MoE's words continue after single spaces: \p{L}\p{M}*(?: \p{L}\p{M}*)* */
static size_t cut_exaone(cut t, size_t pos)
{
    const size_t tail = contraction(t, pos, true);
    if (tail) return pos + tail;
    size_t i = pos;
    if (!newline_at(t, i) && !letter_at(t, i) && !number_at(t, i)) i++;
    if (!letter_at(t, i)) return cut_no_word(t, pos, (llama3_rules){ .digits = 1, .one_end = true });
    while (letter_at(t, i)) {
        for (i++; mark_at(t, i);) i++;
        if (cp_at(t, i) == ' ' && letter_at(t, i + 1)) i++;
    }
    return i;
}

/* [\t\n]|    |   and signs alone, of Chameleon; its images are special tokens */
static size_t chameleon_spaces(cut t, size_t pos)
{
    if (cp_at(t, pos) == '\t' || cp_at(t, pos) == '\n') return 1;
    if (cp_at(t, pos) != ' ' || cp_at(t, pos + 1) != ' ') return 0;
    return cp_at(t, pos + 2) == ' ' && cp_at(t, pos + 3) == ' ' ? 4 : 2;
}
static size_t cut_chameleon(cut t, size_t pos)
{
    const size_t n = chameleon_spaces(t, pos);
    if (n) return pos + n;
    while (pos < t.end && !chameleon_spaces(t, pos)) pos++;
    return pos;
}
static bool chameleon_sign_at(cut t, size_t pos)
{
    return punct_at(t, pos) || (cp_at(t, pos) < 128 && class_at(t, pos) == QSF_C_SYMBOL);
}
static size_t cut_chameleon_sign(cut t, size_t pos) { return cut_runs(t, pos, chameleon_sign_at, 1); }

/* ---- names ---- */

enum { MAX_STAGES = 6 };
struct qsf_pretokenizer {
    const char *names;            /* with spaces between and around */
    uint8_t     rules;            /* QSF_PRE_* */
    cut_fn      stages[MAX_STAGES];
};

static const qsf_pretokenizer pretokenizers[] = {
    { " gpt-2 gpt2 phi-2 mpt olmo jais trillion granite-docling jina-es jina-de jina-v1-en roberta-bpe "
      "gigachat a.x-4.0 mellum exaone4 ", 0, { cut_gpt2 } },
    { " jina-v2-es jina-v2-de jina-v2-code ", QSF_PRE_MASK, { cut_gpt2 } },
    { " modern-bert ", QSF_PRE_MASK_CAPITALS, { cut_gpt2 } },
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
    { " granite-embed-multi-97m ", QSF_PRE_WHOLE, { cut_gpt4o } },
    { " tiny_aya cohere2moe ", 0, { cut_threes_bound, cut_gpt4o } },
    { " youtu ", QSF_PRE_WHOLE, { cut_youtu_scripts, cut_youtu } },
    { " kimi-k2 ", 0, { cut_kimi } },
    { " jais-2 ", 0, { cut_jais2 } },
    { " exaone-moe ", 0, { cut_exaone } },
    { " spark2_5 ", 0, { cut_digits3, cut_cjk_v3, cut_spark, cut_digit } },
    { " afmoe ", 0, { cut_threes_all, cut_afmoe, cut_deepseek_v3 } },
    { " superbpe ", 0, { cut_digits, cut_superbpe } },
    { " chameleon ", QSF_PRE_BEGIN, { cut_chameleon, cut_digit, cut_chameleon_sign, cut_gpt2 } },
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
        const qsf_status st = cut_stage(p, stage + 1, (cut){ t.c, end, false }, pos, word, user);
        if (st) return st;
        pos = end;
    }
    return QSF_OK;
}

qsf_status qsf_pretokenize(const qsf_pretokenizer *p, const uint32_t *c, size_t n,
                           qsf_word_fn word, void *user)
{
    return cut_stage(p, 0, (cut){ c, n, false }, 0, word, user);
}
