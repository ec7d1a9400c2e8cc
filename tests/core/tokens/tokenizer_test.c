/* Tokenizers: the vectors of ../shared/data/tokenizers, rules on small vocabularies, hostile sizes,
 * failing memory.
 * SPDX-License-Identifier: MIT
 *
 *   tokenizer_test --words NAME < text     the lengths, in code points, of a pre-tokenizer's words
 *   tokenizer_test --nfc < text            the text in NFC */
#include "fault_platform.h"
#include "tokens/pretokenize.h"
#include "small_vocab.h"
#include "test.h"
#include "tokens/tokenizer.h"

static void check_ids(const char *file, int line, const qsf_vocab *v, const char *text, size_t len, int flags,
                      const int32_t *want, size_t n_want)
{
    fault_platform host;
    qsf_tokenizer *t;
    qsf_error err = { 0 };
    int32_t ids[512];
    size_t n = 0;
    fault_init(&host);
    qsf_status st = qsf_tokenizer_new(&host.table, v, &t, &err);
    if (!st) st = qsf_tokenizer_encode(t, text, len, flags, ids, 512, &n, &err);
    qsf_tokenizer_free(t);
    if (st || host.bytes || n != n_want || memcmp(ids, want, n * sizeof *ids)) {
        test_fail(file, line, text);
        printf("      %s %s:", qsf_status_name(st), err.text);
        for (size_t i = 0; i < n && i < 512; i++) printf(" %d", (int)ids[i]);
        printf("  expected:");
        for (size_t i = 0; i < n_want; i++) printf(" %d", (int)want[i]);
        printf("\n");
    }
}
#define IDS(v, text, flags, ...) do {                                                   \
        const int32_t want_[] = { __VA_ARGS__ };                                        \
        check_ids(__FILE__, __LINE__, (v), (text), sizeof(text) - 1, (flags), want_,    \
                  QSF_ARRAY_LEN(want_));                                                \
    } while (0)

TEST(bpe_merges_by_rank_then_from_the_left)
{
    static small_vocab s;
    small_bpe(&s, "gpt-2");
    IDS(&s.v, "ab", 0, BPE_AB);
    IDS(&s.v, "aab", 0, 'a', BPE_AB);
    IDS(&s.v, "aaa", 0, BPE_AA, 'a');
    IDS(&s.v, "aaaaaaa", 0, BPE_AAAA, BPE_AA, 'a');
    IDS(&s.v, "a a", 0, 'a', ' ', 'a');
    IDS(&s.v, "\xff\xfe", 0, 0xef, 0xbf, 0xbd, 0xef, 0xbf, 0xbd);      /* U+FFFD for no UTF-8 */
    IDS(&s.v, "a\0a", 0, 'a', 0, 'a');
}

TEST(bpe_whole_words_come_before_merges_where_the_family_says_so)
{
    static small_vocab s;
    small_bpe(&s, "llama-bpe");
    add_token(&s, "abc", QSF_TOKEN_NORMAL, 0);            /* no merge leads to it */
    IDS(&s.v, "abc", 0, BPE_TOKENS);
    IDS(&s.v, "abcd", 0, BPE_AB, 'c', 'd');
    small_bpe(&s, "gpt-2");
    add_token(&s, "abc", QSF_TOKEN_NORMAL, 0);
    IDS(&s.v, "abc", 0, BPE_AB, 'c');
}

TEST(bpe_bytes_without_a_token_are_left_out)
{
    static small_vocab s;
    small_bpe(&s, "gpt-2");
    s.types['~'] = QSF_TOKEN_UNUSED;
    s.text[s.at['~']] = 'X';                              /* now nothing spells that byte */
    IDS(&s.v, "a~a", 0, 'a', 'a');                        /* three words */
    s.text[s.at['~']] = '~';
    s.text[s.at['q']] = 'X';
    IDS(&s.v, "aqb", 0, BPE_AB);
    IDS(&s.v, "aqb\xff", 0, 'a', 'b', 0xef, 0xbf, 0xbd);
}

TEST(special_tokens_are_parsed_only_when_asked_user_tokens_always)
{
    static small_vocab s;
    small_bpe(&s, "gpt-2");
    IDS(&s.v, "a<|end|>a", QSF_TOK_PARSE_SPECIAL, 'a', BPE_CONTROL, 'a');
    IDS(&s.v, "a<|end|>", 0, 'a', '<', '|', 'e', 'n', 'd', '|', '>');
    IDS(&s.v, "a<user>a", 0, 'a', BPE_USER, 'a');
    IDS(&s.v, "<user><user", 0, BPE_USER, '<', 'u', 's', 'e', 'r');
    s.v.add_bos = s.v.add_eos = true;
    IDS(&s.v, "a", QSF_TOK_ADD_SPECIAL, BPE_CONTROL, 'a', BPE_CONTROL);
    IDS(&s.v, "a", 0, 'a');
}

TEST(spm_joins_by_score_and_falls_back_to_bytes)
{
    static small_vocab s;
    small_spm(&s);
    IDS(&s.v, "hi", 0, SPM_SPACE_HI);
    IDS(&s.v, "hi hi", 0, SPM_SPACE_HI, SPM_SPACE_HI);
    IDS(&s.v, "i", QSF_TOK_ADD_SPECIAL, 1, SPM_SPACE, SPM_I);
    IDS(&s.v, "i\xc3\xa9\xff", 0, SPM_SPACE, SPM_I, 3 + 0xc3, 3 + 0xa9, 3 + 0xff);
    IDS(&s.v, "<turn>hi", QSF_TOK_PARSE_SPECIAL, SPM_TURN, SPM_SPACE_HI);
    /* a word begins after a special token, as in llama.cpp */
    IDS(&s.v, "hhi", 0, SPM_USER, SPM_SPACE, SPM_I);
    s.v.add_space_prefix = false;
    IDS(&s.v, "hi", 0, SPM_HI);
    IDS(&s.v, " hi", 0, SPM_SPACE_HI);
}

TEST(spm_joins_words_where_a_token_reaches_from_one_into_the_next)
{
    static small_vocab s;
    small_spm(&s);
    const int32_t joined = (int32_t)s.v.n_tokens;
    add_token(&s, "hi\xe2\x96\x81h", QSF_TOKEN_NORMAL, -0.5f);
    IDS(&s.v, "hi hi", 0, SPM_SPACE_HI, SPM_SPACE_HI);        /* joined sooner */
    add_token(&s, "hi\xe2\x96\x81", QSF_TOKEN_NORMAL, -0.5f);
    IDS(&s.v, "hi h", 0, SPM_SPACE, joined);
    IDS(&s.v, "hi hi", 0, SPM_SPACE, joined, SPM_I);
    IDS(&s.v, "h hi", 0, SPM_SPACE_H, SPM_SPACE_HI);
}

TEST(spm_takes_unk_where_byte_tokens_are_missing)
{
    static small_vocab s;
    small_init(&s, QSF_VOCAB_SPM, "");
    add_token(&s, "<unk>", QSF_TOKEN_UNKNOWN, 0);
    add_token(&s, "h", QSF_TOKEN_NORMAL, -1);
    s.v.unk = 0;
    IDS(&s.v, "hxh", 0, 1, 0, 1);
    s.v.unk = -1;
    IDS(&s.v, "hxh", 0, 1, 1);
}

TEST(pieces_are_the_bytes_of_tokens)
{
    static small_vocab s;
    fault_platform host;
    qsf_tokenizer *t;
    qsf_error err;
    const char *bytes;
    fault_init(&host);
    small_spm(&s);
    s.v.eog[s.v.n_eog++] = SPM_TURN;
    CHECK_EQ(qsf_tokenizer_new(&host.table, &s.v, &t, &err), QSF_OK);
    CHECK_EQ(qsf_tokenizer_piece(t, SPM_SPACE_HI, false, &bytes), 3);
    CHECK(!memcmp(bytes, " hi", 3));
    CHECK_EQ(qsf_tokenizer_piece(t, 3 + 0xc3, false, &bytes), 1);
    CHECK_EQ((uint8_t)bytes[0], 0xc3);
    CHECK_EQ(qsf_tokenizer_piece(t, SPM_TURN, false, &bytes), 0);
    CHECK_EQ(qsf_tokenizer_piece(t, SPM_TURN, true, &bytes), 6);
    CHECK_EQ(qsf_tokenizer_piece(t, SPM_USER, false, &bytes), 2);
    CHECK_EQ(qsf_tokenizer_piece(t, -1, true, &bytes), 0);
    CHECK_EQ(qsf_tokenizer_piece(t, (int32_t)s.v.n_tokens, true, &bytes), 0);
    CHECK(qsf_tokenizer_is_end(t, SPM_TURN) && qsf_tokenizer_is_end(t, 2) && !qsf_tokenizer_is_end(t, 1)
          && !qsf_tokenizer_is_end(t, -1));
    CHECK_EQ(qsf_tokenizer_find(t, "<turn>", 6), SPM_TURN);
    CHECK_EQ(qsf_tokenizer_find(t, "<turn", 5), -1);
    qsf_tokenizer_free(t);
    small_bpe(&s, "gpt-2");
    CHECK_EQ(qsf_tokenizer_new(&host.table, &s.v, &t, &err), QSF_OK);
    for (int b = 0; b < 256; b++) {
        CHECK_EQ(qsf_tokenizer_piece(t, b, false, &bytes), 1);
        CHECK_EQ((uint8_t)bytes[0], b);
    }
    qsf_tokenizer_free(t);
}

TEST(encode_counts_what_did_not_fit)
{
    static small_vocab s;
    fault_platform host;
    qsf_tokenizer *t;
    qsf_error err;
    int32_t ids[4] = { -7, -7, -7, -7 };
    size_t n;
    fault_init(&host);
    small_bpe(&s, "gpt-2");
    CHECK_EQ(qsf_tokenizer_new(&host.table, &s.v, &t, &err), QSF_OK);
    CHECK_EQ(qsf_tokenizer_encode(t, "xyz", 3, 0, ids, 2, &n, &err), QSF_E_ARGUMENT);
    CHECK(n == 3 && ids[0] == 'x' && ids[1] == 'y' && ids[2] == -7);
    CHECK_EQ(qsf_tokenizer_encode(t, "xyz", 3, 0, NULL, 0, &n, NULL), QSF_E_ARGUMENT);
    CHECK_EQ(n, 3);
    CHECK_EQ(qsf_tokenizer_encode(t, "", 0, 0, ids, 4, &n, &err), QSF_OK);
    CHECK_EQ(n, 0);
    qsf_tokenizer_free(t);
}

TEST(a_mask_takes_the_space_before_it_where_the_pretokenizer_says_so)
{
    static const struct { const char *pre, *text; bool strips; } cases[] = {
        { "jina-v2-es", "a <mask>a", true }, { "jina-v2-de", "a <mask>a", true },
        { "jina-v2-code", "a <mask>a", true }, { "modern-bert", "a [MASK]a", true },
        { "jina-v2-es", "a [MASK]a", false }, { "modern-bert", "a <mask>a", false },
        { "jina-es", "a <mask>a", false }, { "gpt-2", "a <mask>a", false }, { "gpt-2", "a [MASK]a", false },
    };
    for (size_t i = 0; i < QSF_ARRAY_LEN(cases); i++) {
        static small_vocab s;
        small_bpe(&s, cases[i].pre);
        const int32_t mask = (int32_t)add_token(&s, cases[i].text[2] == '<' ? "<mask>" : "[MASK]",
                                                QSF_TOKEN_CONTROL, 0);
        const int32_t with[] = { 'a', ' ', mask, 'a' }, without[] = { 'a', mask, 'a' };
        check_ids(__FILE__, __LINE__, &s.v, cases[i].text, 9, QSF_TOK_PARSE_SPECIAL,
                  cases[i].strips ? without : with, cases[i].strips ? 3 : 4);
    }
}

TEST(wordpiece_takes_the_longest_pieces_of_words)
{
    static small_vocab s;
    small_words(&s, QSF_VOCAB_WPM);
    IDS(&s.v, "Hi h\xcc\x81i\nhih", 0, SPM_SPACE_HI, SPM_SPACE_HI, SPM_SPACE_HI, SPM_H);
    IDS(&s.v, "hi! hiz", 0, SPM_SPACE_HI, 0, 0);                  /* a word with a gap is unknown */
    IDS(&s.v, "<turn>hi", QSF_TOK_ADD_SPECIAL | QSF_TOK_PARSE_SPECIAL, 1, SPM_TURN, SPM_SPACE_HI, 2);
    s.v.lowercase = false;
    IDS(&s.v, "Hi", 0, 0);
}

TEST(unigram_takes_the_best_sum_after_its_normaliser)
{
    static small_vocab s;
    /* root, base 128: 'A' is unit 128 ^ 'A' with base 1 and a value, whose place is in the next */
    static uint8_t map[4 + 4 * 256 + 2];
    small_words(&s, QSF_VOCAB_UGM);
    IDS(&s.v, "hi  hi", 0, SPM_SPACE_HI, SPM_SPACE_HI);
    IDS(&s.v, "hzzi", 0, SPM_SPACE_H, 3 + 'z', 3 + 'z', SPM_I);   /* bytes have tokens, ... */
    for (int b = 0; b < 256; b++) s.v.types[3 + b] = QSF_TOKEN_UNUSED;
    IDS(&s.v, "hzzi", 0, SPM_SPACE_H, 0, SPM_I);                  /* ... else what is unknown is one */
    qsf_put32(map, 4 * 256);
    qsf_put32(map + 4, 128u << 10);
    qsf_put32(map + 4 + 4 * (128 ^ 'A'), 1u << 10 | 256 | 'A');
    qsf_put32(map + 4 + 4 * (128 ^ 'A' ^ 1), 0x80000000u);
    map[4 + 4 * 256] = 'h';
    s.v.charsmap = map;
    s.v.charsmap_len = sizeof map;
    IDS(&s.v, "Ai", 0, SPM_SPACE_HI);
    qsf_put32(map + 4 + 4 * (128 ^ 'A' ^ 1), 0x80000000u | 9);    /* a place beyond the texts: no match */
    IDS(&s.v, "Ai", 0, SPM_SPACE, 0, SPM_I);
}

TEST(rwkv_takes_the_longest_and_plamo_falls_back_to_bytes)
{
    static small_vocab s;
    small_words(&s, QSF_VOCAB_RWKV);
    IDS(&s.v, "hi<s>", 0, SPM_HI, 0, 0, 0);                       /* control tokens are not text */
    small_words(&s, QSF_VOCAB_PLAMO);
    IDS(&s.v, "hiz", 0, SPM_HI, 3 + 'z');
}

TEST(unknown_pretokenizers_are_refused_by_name)
{
    static small_vocab s;
    fault_platform host;
    qsf_tokenizer *t;
    qsf_error err;
    fault_init(&host);
    small_bpe(&s, "klingon");
    CHECK_EQ(qsf_tokenizer_new(&host.table, &s.v, &t, &err), QSF_E_UNSUPPORTED);
    CHECK(strstr(err.text, "klingon") != NULL);
    CHECK(!qsf_pretokenizer_find("") && !qsf_pretokenizer_find("gpt") && !qsf_pretokenizer_find("gpt-2 gpt2")
          && !qsf_pretokenizer_find(" "));
    CHECK(qsf_pretokenizer_find("gpt-2") && qsf_pretokenizer_find("smollm")
          && qsf_pretokenizer_find("default"));
    CHECK_EQ(host.bytes, 0);
}

TEST(tokenizer_survives_each_failing_allocation)
{
    static small_vocab s[6];
    small_bpe(&s[0], "llama-bpe");
    s[0].v.nfc = true;
    small_spm(&s[1]);
    for (uint8_t k = 2; k < 6; k++) small_words(&s[k], QSF_VOCAB_WPM + k - 2);
    for (int k = 0; k < 6; k++)
        for (uint64_t n = 1;; n++) {
            fault_platform host;
            qsf_tokenizer *t;
            qsf_error err = { 0 };
            int32_t ids[64];
            size_t len;
            fault_init(&host);
            host.fail_at = n;
            qsf_status st = qsf_tokenizer_new(&host.table, &s[k].v, &t, &err);
            if (!st)
                st = qsf_tokenizer_encode(t, "hi e\xcc\x81 aaaa <turn> there", 23, QSF_TOK_PARSE_SPECIAL, ids,
                                          64, &len, &err);
            qsf_tokenizer_free(t);
            CHECK_EQ(host.bytes, 0);
            CHECK_EQ(st, host.calls < n ? QSF_OK : QSF_E_MEMORY);
            CHECK(!st || err.text[0]);
            if (host.calls < n) break;
        }
}

/* ---- words ---- */

typedef struct words { const uint32_t *points; char text[512]; } words;

static qsf_status word_put(void *user, size_t begin, size_t end)
{
    words *w = user;
    if (w->text[0]) strcat(w->text, "|");
    for (size_t i = begin; i < end; i++) {
        char c[5] = { 0 };
        qsf_utf8_encode(w->points[i], c);
        strcat(w->text, c);
    }
    return QSF_OK;
}

static const char *words_of(const char *name, const char *text)
{
    static words w;
    uint32_t points[256];
    size_t n = 0, used;
    const qsf_pretokenizer *p = qsf_pretokenizer_find(name);
    for (size_t i = 0; text[i]; i += used) points[n++] = qsf_utf8_decode(text + i, strlen(text + i), &used);
    w = (words){ .points = points };
    if (!p || qsf_pretokenize(p, points, n, word_put, &w)) return "?";
    return w.text;
}

TEST(words_are_cut_as_each_family_does)
{
    CHECK_STR(words_of("gpt-2", "I'll don't 'S  x12,5!\n\n y"), "I|'ll| don|'t| '|S| | x|12|,|5|!|\n\n| y");
    CHECK_STR(words_of("llama-bpe", "I'LL 'S x12345,5!\n\n y \n"), "I|'LL| '|S| x|123|45|,|5|!\n\n| y| \n");
    CHECK_STR(words_of("qwen2", "x123(abc) \n\n  b"), "x|1|2|3|(abc|)| \n\n| | b");
    CHECK_STR(words_of("smollm", "x123 45's"), "x|1|2|3| |4|5|'s");
    CHECK_STR(words_of("falcon", "a12345, b"), "a|123|45|,| b");
    CHECK_STR(words_of("default", "a 12345`b"), "a| |123|45|`|b");
    CHECK_STR(words_of("deepseek-v3", "a1234 .b"), "a|123|4| .|b");
    CHECK_STR(words_of("deepseek-coder", "ab 12\n x."), "ab| |1|2|\n| x|.");
    CHECK_STR(words_of("gpt-4o", "HelloWorld's ABc 1234/\n"), "Hello|World's| ABc| |123|4|/\n");
    CHECK_STR(words_of("tekken", "HelloWorld's 12"), "Hello|World|'s| |1|2");
    CHECK_STR(words_of("bloom", "a b, c(d"), "a| b|,| c|(|d");
    CHECK_STR(words_of("viking", "a12 b"), "a|1|2| b");
    CHECK_STR(words_of("tiny_aya", "12345 a1234b"), "12|345| a|123|4|b");
    CHECK_STR(words_of("superbpe", "1234567, a b"), "1|234|567|, a b");
    CHECK_STR(words_of("afmoe", "1234 ab"), "1|234| ab");
    CHECK_STR(words_of("exaone-moe", "Ab cd  e!\n\n"), "Ab cd| | e|!\n|\n");
    CHECK_STR(words_of("kimi-k2", "a\xe4\xb8\x80 b"), "a|\xe4\xb8\x80| b");
    CHECK_STR(words_of("jais-2", "a       b"), "a|    |  | b");
    CHECK_STR(words_of("chameleon", "a   b12!?"), "a|  | b|1|2|!|?");
    CHECK_STR(words_of("gemma4", "a b\n\nc"), "a b|\n\n|c");
}

/* ---- size ---- */

TEST(much_of_one_character_takes_no_quadratic_time)
{
    static const char *const names[] = { "gpt-2", "llama-bpe", "qwen2", "qwen35", "smollm", "falcon",
                                         "default", "deepseek-llm", "deepseek-coder", "deepseek-v3",
                                         "bloom", "viking", "gpt-4o", "tekken", "seed-coder", "ufakzeka",
                                         "bailingmoe", NULL };
    static const char letters[] = "a1 \n\xcc<";
    static small_vocab s;
    char *text = malloc(TEST_LONG);
    int32_t *ids = malloc(TEST_LONG * sizeof *ids * 3 + 16);
    for (size_t m = 0; m < QSF_ARRAY_LEN(names); m++)
        for (size_t l = 0; letters[l]; l++) {
            fault_platform host;
            qsf_tokenizer *t;
            qsf_error err = { 0 };
            size_t n;
            if (names[m]) small_bpe(&s, names[m]);
            else small_spm(&s);
            s.v.nfc = m % 2;
            fault_init(&host);
            memset(text, letters[l], TEST_LONG);
            if (letters[l] == '\xcc')                     /* a combining mark, which NFC puts in order */
                for (size_t i = 1; i < TEST_LONG; i += 2) text[i] = (char)(0x81 + i % 30);
            CHECK_EQ(qsf_tokenizer_new(&host.table, &s.v, &t, &err), QSF_OK);
            CHECK_EQ(qsf_tokenizer_encode(t, text, TEST_LONG, 0, ids, 3 * TEST_LONG + 4, &n, &err), QSF_OK);
            qsf_tokenizer_free(t);
            CHECK_EQ(host.bytes, 0);
        }
    free(ids);
    free(text);
}

/* ---- UTF-8 and NFC ---- */

static const char *pushed(const char *text, size_t len, size_t step)
{
    static char out[1024];
    qsf_utf8_tail tail = { 0 };
    size_t n = 0;
    for (size_t i = 0; i < len; i += step)
        n += qsf_utf8_push(&tail, text + i, QSF_MIN(step, len - i), out + n);
    out[n] = 0;
    return out;
}

TEST(streams_hold_back_unfinished_characters)
{
    static const char text[] = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z";
    for (size_t step = 1; step < sizeof text; step++) CHECK_STR(pushed(text, sizeof text - 1, step), text);
    qsf_utf8_tail tail = { 0 };
    char out[32];
    CHECK_EQ(qsf_utf8_push(&tail, "\xf0\x9f\x98", 3, out), 0);
    CHECK_EQ(tail.len, 3);
    CHECK_EQ(qsf_utf8_push(&tail, "\x80", 1, out), 4);
    CHECK_EQ(tail.len, 0);
}

TEST(streams_replace_what_is_no_utf8)
{
#define BAD "\xef\xbf\xbd"
    for (size_t step = 1; step < 5; step++) {
        CHECK_STR(pushed("a\x80" "b", 3, step), "a" BAD "b");
        CHECK_STR(pushed("\xc3" "b", 2, step), BAD "b");
        CHECK_STR(pushed("\xe2\x82" "b", 3, step), BAD "b");
        CHECK_STR(pushed("\xf0\x9f\xc3\xa9", 4, step), BAD "\xc3\xa9");
        CHECK_STR(pushed("\xed\xa0\x80", 3, step), BAD BAD BAD);       /* a surrogate */
        CHECK_STR(pushed("\xc0\x80", 2, step), BAD BAD);
        CHECK_STR(pushed("\xff\xf5", 2, step), BAD BAD);
    }
#undef BAD
}

static const char *nfc_of(const char *text)
{
    static char out[1024];
    uint32_t in[128], work[512], composed[512];
    size_t n = 0, used, len = 0;
    for (size_t i = 0; text[i]; i += used) in[n++] = qsf_utf8_decode(text + i, strlen(text + i), &used);
    n = qsf_nfc(in, n, work, composed);
    for (size_t i = 0; i < n; i++) len += qsf_utf8_encode(composed[i], out + len);
    out[len] = 0;
    return out;
}

TEST(nfc_composes_and_orders)
{
    CHECK_STR(nfc_of("abc"), "abc");
    CHECK_STR(nfc_of("e\xcc\x81"), "\xc3\xa9");
    CHECK_STR(nfc_of("\xe2\x84\xab"), "\xc3\x85");                             /* the Angstrom sign */
    CHECK_STR(nfc_of("s\xcc\x87\xcc\xa3"), "\xe1\xb9\xa9");                    /* dot above, dot below */
    CHECK_STR(nfc_of("\xe1\x84\x92\xe1\x85\xa1\xe1\x86\xab"), "\xed\x95\x9c"); /* Hangul */
    CHECK_STR(nfc_of("\xed\x95\x98\xe1\x86\xab"), "\xed\x95\x9c");
    CHECK_STR(nfc_of("\xe0\xa5\x98"), "\xe0\xa4\x95\xe0\xa4\xbc");             /* excluded from composition */
    CHECK_STR(nfc_of("\xcc\x81" "e"), "\xcc\x81" "e");
    CHECK_STR(nfc_of("a\xcc\x88\xcc\x81"), "\xc3\xa4\xcc\x81");
}

TEST(nfc_orders_long_runs_of_marks)
{
    /* above (230) and below (220) in turn: all below first */
    enum { RUN = 100 };
    uint32_t in[RUN + 1] = { 'q' }, work[4 * RUN + 4], out[4 * RUN + 4];
    for (int i = 1; i <= RUN; i++) in[i] = i % 2 ? 0x301 : 0x323;
    CHECK_EQ(qsf_nfc(in, RUN + 1, work, out), RUN + 1);
    for (int i = 1; i <= RUN; i++) CHECK_EQ(out[i], i <= RUN / 2 ? 0x323 : 0x301);
}

/* ---- the vectors ---- */

static char *file_text(const char *path, size_t *len)
{
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    fseek(f, 0, SEEK_END);
    *len = (size_t)ftell(f);
    rewind(f);
    char *text = malloc(*len + 1);
    if (fread(text, 1, *len, f) != *len) *len = 0;
    text[*len] = 0;
    fclose(f);
    return text;
}

static void check_vector(const qsf_model *m, const char *name, int number, const char *text,
                         size_t len, char *line)
{
    static int32_t ids[8192], want[8192];
    size_t n, n_want = 0;
    for (char *p = line, *end;; p = end) {
        const long id = strtol(p, &end, 10);
        if (end == p || n_want == 8192) break;
        want[n_want++] = (int32_t)id;
    }
    CHECK_EQ(qsf_tokens_encode(m, text, len, 0, ids, 8192, &n, NULL), QSF_OK);
    if (n == n_want && !memcmp(ids, want, n * sizeof *ids)) return;
    test_fail(__FILE__, __LINE__, name);
    printf("      vector %d: %.*s\n", number, (int)len, text);
}

TEST(vectors_of_llama_cpp_are_met)
{
    /* the first five are in ../shared; QSF_VOCAB_DIR may be models/ of llama.cpp, which has all */
    static const char *const names[] = {
        "gpt-2", "llama-bpe", "llama-spm", "phi-3", "qwen2", "bert-bge", "command-r", "deepseek-coder",
        "deepseek-llm", "falcon", "gemma-4", "mpt", "qwen35", "refact", "starcoder",
    };
    static const char mark[] = "\n__ggml_vocab_test__\n";
    const char *shared = getenv("QSF_SHARED_DIR"), *dir = getenv("QSF_VOCAB_DIR");
    for (size_t i = 0; i < QSF_ARRAY_LEN(names); i++) {
        char path[1024];
        size_t in_len, out_len;
        qsf_model *m;
        qsf_error err;
        qsf_model_options o;
        const int n = snprintf(path, sizeof path - 8, "%s%s/ggml-vocab-%s.gguf", dir ? dir
                               : shared ? shared : "../shared", dir ? "" : "/data/tokenizers", names[i]);
        memcpy(path + n, ".inp", 5);
        char *in = file_text(path, &in_len);
        if (!in && dir) CHECK_STR(path, "a file in QSF_VOCAB_DIR");
        if (!in && (dir || i >= 5)) continue;
        if (!in) SKIP("no data/tokenizers in QSF_SHARED_DIR");
        memcpy(path + n, ".out", 5);
        char *out = file_text(path, &out_len), *line = out;
        path[n] = 0;
        qsf_model_defaults(&o);
        o.vocab_only = true;
        CHECK_EQ(qsf_model_open(path, &o, &m, &err), QSF_OK);
        int number = 0;
        for (char *text = in; m && out && text; number++) {
            char *next = strstr(text, mark), *end = line + strcspn(line, "\n");
            const size_t len = next ? (size_t)(next - text) : strlen(text);
            const bool last = !*end;
            *end = 0;
            check_vector(m, names[i], number, text, len, line);
            text = next ? next + sizeof mark - 1 : NULL;
            line = end + !last;
        }
        CHECK(number > 40);
        qsf_model_close(m);
        free(in);
        free(out);
    }
}

/* ---- for tokenizer_exact.py ---- */

static qsf_status word_length(void *user, size_t begin, size_t end)
{
    (void)user;
    printf("%zu\n", end - begin);
    return QSF_OK;
}

static int print_words(const char *name)
{
    size_t len = 0, cap = 1 << 24, n = 0, used;
    char *text = malloc(cap);
    const qsf_pretokenizer *p = name ? qsf_pretokenizer_find(name) : NULL;
    for (size_t got; (got = fread(text + len, 1, cap - len, stdin)) > 0;) len += got;
    uint32_t *points = malloc((len + 1) * 9 * sizeof *points);
    for (size_t i = 0; i < len; i += used) points[n++] = qsf_utf8_decode(text + i, len - i, &used);
    if (name && p) qsf_pretokenize(p, points, n, word_length, NULL);
    if (!name) {
        uint32_t *out = points + len + 4 * len;
        const size_t made = qsf_nfc(points, n, points + len, out);
        for (size_t i = 0; i < made; i++) {
            char c[4];
            fwrite(c, 1, qsf_utf8_encode(out[i], c), stdout);
        }
    }
    free(points);
    free(text);
    return name && !p;
}

int main(int argc, char **argv)
{
    if (argc == 3 && !strcmp(argv[1], "--words")) return print_words(argv[2]);
    if (argc == 2 && !strcmp(argv[1], "--nfc")) return print_words(NULL);
    test_begin(argc, argv);
    RUN(bpe_merges_by_rank_then_from_the_left);
    RUN(bpe_whole_words_come_before_merges_where_the_family_says_so);
    RUN(bpe_bytes_without_a_token_are_left_out);
    RUN(special_tokens_are_parsed_only_when_asked_user_tokens_always);
    RUN(spm_joins_by_score_and_falls_back_to_bytes);
    RUN(spm_joins_words_where_a_token_reaches_from_one_into_the_next);
    RUN(spm_takes_unk_where_byte_tokens_are_missing);
    RUN(pieces_are_the_bytes_of_tokens);
    RUN(encode_counts_what_did_not_fit);
    RUN(a_mask_takes_the_space_before_it_where_the_pretokenizer_says_so);
    RUN(wordpiece_takes_the_longest_pieces_of_words);
    RUN(unigram_takes_the_best_sum_after_its_normaliser);
    RUN(rwkv_takes_the_longest_and_plamo_falls_back_to_bytes);
    RUN(unknown_pretokenizers_are_refused_by_name);
    RUN(tokenizer_survives_each_failing_allocation);
    RUN(words_are_cut_as_each_family_does);
    RUN(much_of_one_character_takes_no_quadratic_time);
    RUN(streams_hold_back_unfinished_characters);
    RUN(streams_replace_what_is_no_utf8);
    RUN(nfc_composes_and_orders);
    RUN(nfc_orders_long_runs_of_marks);
    RUN(vectors_of_llama_cpp_are_met);
    return test_end();
}
