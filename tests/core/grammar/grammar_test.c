/* Grammars: what the automaton takes against a slow and simple reading of the same nodes; masks
 * against the bytes of every token.
 * SPDX-License-Identifier: MIT */
#include "grammar_case.h"
#include "model/model.h"
#include "small_vocab.h"
#include "test.h"

/* ---- a grammar as the test understands it ---- */

enum { T_BYTES, T_CLASS, T_SEQ, T_CHOICE, T_REP, T_BOTH, T_NOT, T_RULE };
enum { T_NODES = 40, T_RULES = 4, T_TEXT = 24 };
typedef struct t_node { int kind, n, parts[3]; char text[4]; unsigned least, most; } t_node;
typedef struct t_grammar {
    t_node   nodes[T_NODES];
    int      n, root, bodies[T_RULES], n_rules;
    bool     ruled[T_NODES];
    uint32_t ends[T_NODES][T_TEXT + 1];         /* [node][from]: bit i: a match ends at i */
} t_grammar;

static uint64_t t_seed;
static unsigned t_random(unsigned n)
{
    t_seed = t_seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(t_seed >> 33) % n;
}

static uint32_t t_step(const t_grammar *g, const t_node *x, const char *text, unsigned len, unsigned from)
{
    uint32_t r = 0, at = 1u << from;
    const size_t n = strlen(x->text);
    switch (x->kind) {
    case T_BYTES: return from + n <= len && !memcmp(text + from, x->text, n) ? 1u << (from + n) : 0;
    case T_CLASS: return from < len && strchr(x->text, text[from]) ? 1u << (from + 1) : 0;
    case T_RULE: return g->ends[g->bodies[x->n]][from];
    case T_CHOICE:
        for (int i = 0; i < x->n; i++) r |= g->ends[x->parts[i]][from];
        return r;
    case T_BOTH: return g->ends[x->parts[0]][from] & g->ends[x->parts[1]][from];
    case T_NOT:
        for (unsigned i = from; i <= len; i++) r |= 1u << i;
        return r & ~g->ends[x->parts[0]][from];
    case T_SEQ:
        for (int i = 0; i < x->n; i++) {
            for (r = 0; at; at &= at - 1) r |= g->ends[x->parts[i]][__builtin_ctz(at)];
            at = r;
        }
        return at;
    default: break;
    }
    /* repeated: more rounds than the text has bytes say nothing new */
    uint32_t all = x->least ? 0 : at;
    for (unsigned round = 1; at && round <= x->most && round <= x->least + 2 * T_TEXT; round++) {
        uint32_t next = 0;
        for (; at; at &= at - 1) next |= g->ends[x->parts[0]][__builtin_ctz(at)];
        at = next;
        if (round >= x->least) all |= at;
    }
    return all;
}

/* Until nothing changes.  Parts stand before what they are part of: T_NOT sees what is settled. */
static bool t_matches(t_grammar *g, const char *text, unsigned len)
{
    memset(g->ends, 0, sizeof g->ends);
    for (bool changed = true; changed; ) {
        changed = false;
        for (int i = 0; i < g->n; i++)
            for (unsigned from = 0; from <= len; from++) {
                const uint32_t now = t_step(g, &g->nodes[i], text, len, from);
                changed |= now != g->ends[i][from];
                g->ends[i][from] = now;
            }
    }
    return g->ends[g->root][0] >> len & 1;
}

static void t_letters(char *to, unsigned n) { while (n-- > 0) to[n] = (char)('a' + t_random(3)); }

static void t_make(t_grammar *g, bool rules)
{
    memset(g, 0, sizeof *g);
    g->n_rules = rules ? 1 + (int)t_random(T_RULES) : 0;
    for (int i = 0; i < g->n_rules; i++) {
        g->nodes[g->n] = (t_node){ .kind = T_RULE, .n = i };
        g->ruled[g->n++] = true;
    }
    const int n = g->n + 4 + (int)t_random(T_NODES - T_RULES - 4);
    while (g->n < n) {
        t_node *x = &g->nodes[g->n];
        const int before = g->n, base = g->n_rules;
        x->kind = before < base + 3 ? (int)t_random(2) : (int)t_random(T_RULE);
        for (int i = 0; i < 3; i++)
            x->parts[i] = before ? (rules || before == base ? (int)t_random((unsigned)before)
                                   : base + (int)t_random((unsigned)(before - base))) : 0;
        if (x->kind >= T_SEQ && t_random(2)) x->parts[0] = before - 1;
        const bool first = g->ruled[x->parts[0]], second = g->ruled[x->parts[1]];
        if (x->kind == T_BYTES) t_letters(x->text, t_random(4));
        if (x->kind == T_CLASS) t_letters(x->text, 1 + t_random(2));
        if (x->kind == T_SEQ || x->kind == T_CHOICE) x->n = (int)t_random(4);
        if (x->kind == T_REP) {
            x->least = t_random(3);
            x->most = t_random(2) ? QSF_G_NO_MOST : x->least + t_random(3);
        }
        if (x->kind == T_NOT && first) continue;
        if (x->kind == T_BOTH && (first || second)) continue;
        for (int i = 0; i < x->n && x->kind != T_RULE; i++) g->ruled[g->n] |= g->ruled[x->parts[i]];
        if (x->kind == T_REP) g->ruled[g->n] = first;
        g->n++;
    }
    for (int i = 0; i < g->n_rules; i++)
        g->bodies[i] = g->n_rules + (int)t_random((unsigned)(g->n - g->n_rules));
    g->root = g->n - 1;
}

static qsf_status t_build(const t_grammar *g, qsf_grammar **out, qsf_error *err)
{
    qsf_grammar_builder *b;
    qsf_gnode id[T_NODES];
    if (qsf_grammar_begin(qsf_platform_native(), &b, err)) return QSF_E_MEMORY;
    for (int i = 0; i < g->n; i++) {
        const t_node *x = &g->nodes[i];
        qsf_gnode parts[3] = { 0 };
        for (int k = 0; k < 3; k++) parts[k] = x->parts[k] < i ? id[x->parts[k]] : 0;
        uint32_t ranges[4][2];
        for (int k = 0; k < 4; k++) ranges[k][0] = ranges[k][1] = (uint8_t)x->text[k];
        switch (x->kind) {
        case T_BYTES: id[i] = qsf_g_bytes(b, x->text, strlen(x->text)); break;
        case T_CLASS: id[i] = qsf_g_class(b, (const uint32_t (*)[2])ranges, strlen(x->text), false); break;
        case T_SEQ: id[i] = qsf_g_sequence(b, parts, (size_t)x->n); break;
        case T_CHOICE: id[i] = qsf_g_choice(b, parts, (size_t)x->n); break;
        case T_REP: id[i] = qsf_g_repeat(b, parts[0], x->least, x->most); break;
        case T_BOTH: id[i] = qsf_g_both(b, parts[0], parts[1]); break;
        case T_NOT: id[i] = qsf_g_not(b, parts[0]); break;
        default: id[i] = qsf_g_rule(b); break;
        }
    }
    for (int i = 0; i < g->n_rules; i++) qsf_g_define(b, id[i], id[g->bodies[i]]);
    return qsf_grammar_finish(b, id[g->root], out, err);
}

/* Whether the grammar has a string that continues from the matcher's state: one is searched at
 * random. */
static bool t_reaches(t_grammar *t, qsf_matcher *m, char *text, unsigned len)
{
    for (; len < T_TEXT; len++) {
        if (qsf_matcher_whole(m)) return t_matches(t, text, len);
        bool found = false;
        for (unsigned k = 0, first = t_random(3); k < 3 && !found; k++) {
            text[len] = (char)('a' + (first + k) % 3);
            found = qsf_matcher_bytes(m, text + len, 1) == 1;
        }
        if (!found) return false;               /* a dead end, or a byte other than ours */
    }
    return true;
}

static void t_compare(t_grammar *t, uint64_t seed, int round)
{
    qsf_grammar *g;
    qsf_matcher *m = NULL;
    qsf_error err = { 0 };
    enum { LONG = 6, TEXTS = 1093 };            /* 3^0 + ... + 3^6 */
    static char texts[TEXTS][LONG + 1];
    static bool whole[TEXTS], alive[TEXTS];
    int n = 1, matched = 0;
    for (int i = 0; n + 2 < TEXTS; i++)         /* by length: text i is the beginning of three others */
        for (int k = 0; k < 3; k++, n++) {
            const size_t len = strlen(texts[i]);
            memcpy(texts[n], texts[i], len + 1);
            texts[n][len] = (char)('a' + k);
        }
    for (int i = TEXTS; i-- > 0; ) {
        whole[i] = t_matches(t, texts[i], (unsigned)strlen(texts[i]));
        matched += whole[i];
        alive[i] = whole[i];
        for (int k = 1; k <= 3 && 3 * i + k < TEXTS; k++) alive[i] |= alive[3 * i + k];
    }
    const qsf_status st = t_build(t, &g, &err);
    if (st) {
        if (st != QSF_E_ARGUMENT || matched) {
            test_fail(__FILE__, __LINE__, "a grammar with texts is refused");
            printf("      seed %llu round %d: %s\n", (unsigned long long)seed, round, err.text);
        }
        return;
    }
    CHECK_EQ(qsf_matcher_new(qsf_platform_native(), g, NULL, &m, &err), QSF_OK);
    for (int i = 0; m && i < TEXTS; i++) {
        const size_t len = strlen(texts[i]);
        qsf_matcher_reset(m);
        const bool fits = qsf_matcher_bytes(m, texts[i], len) == len;
        char text[T_TEXT + 1];
        strcpy(text, texts[i]);
        if ((fits && qsf_matcher_whole(m)) != whole[i] || (alive[i] && !fits)
            || (fits && qsf_matcher_over(m) && !whole[i])
            || (fits && !t_reaches(t, m, text, (unsigned)len))) {
            test_fail(__FILE__, __LINE__, "the automaton and the nodes say the same");
            printf("      seed %llu round %d, \"%s\": fits %d, whole %d of %d\n",
                   (unsigned long long)seed, round, texts[i], fits, fits && qsf_matcher_whole(m), whole[i]);
            break;
        }
    }
    qsf_matcher_free(m);
    qsf_grammar_drop(g);
}

TEST(regular_grammars_take_what_their_nodes_say)
{
    static t_grammar t;
    t_seed = 1;
    for (int round = 0; round < 160 && !test_failed; round++) {
        const uint64_t seed = t_seed;
        t_make(&t, false);
        t_compare(&t, seed, round);
    }
}

TEST(grammars_with_rules_take_what_their_nodes_say)
{
    static t_grammar t;
    t_seed = 2;
    for (int round = 0; round < 160 && !test_failed; round++) {
        const uint64_t seed = t_seed;
        t_make(&t, true);
        t_compare(&t, seed, round);
    }
}

/* ---- masks ---- */

/* "both" and "not" have no GBNF: any characters of JSON but two names, then more. */
static qsf_grammar *names(void)
{
    static const uint32_t plain[3][2] = { { 32, 33 }, { 35, 91 }, { 93, 0x10ffff } };
    qsf_grammar_builder *b;
    qsf_grammar *g = NULL;
    qsf_error err;
    if (qsf_grammar_begin(qsf_platform_native(), &b, &err)) return NULL;
    const qsf_gnode name = qsf_g_bytes(b, "name", 4), id = qsf_g_bytes(b, "id", 2),
                    c = qsf_g_class(b, plain, 3, false),
                    any = qsf_g_choice(b, (qsf_gnode[]){ c, qsf_g_bytes(b, "\\\"", 2) }, 2),
                    known = qsf_g_choice(b, (qsf_gnode[]){ name, id }, 2);
    qsf_gnode key = qsf_g_both(b, qsf_g_repeat(b, any, 0, QSF_G_NO_MOST), qsf_g_not(b, known));
    key = qsf_g_both(b, key, qsf_g_repeat(b, c, 0, QSF_G_NO_MOST));
    const qsf_gnode end = qsf_g_bytes(b, "\": ", 3),
                    number = qsf_g_class(b, (const uint32_t[1][2]){ { '0', '9' } }, 1, false);
    qsf_grammar_finish(b, qsf_g_sequence(b, (qsf_gnode[]){ qsf_g_bytes(b, "\"", 1), key, end,
                                                           qsf_g_repeat(b, number, 1, 3) }, 4), &g, &err);
    return g;
}

static bool token_fits(const qsf_matcher *m, qsf_matcher *scout, uint32_t id)
{
    const qsf_tokenizer *t = m->tree->tokenizer;
    const char *bytes;
    if (qsf_tokenizer_is_end(t, (int32_t)id)) return qsf_matcher_whole(m);
    qsf_matcher_copy(scout, m);
    return qsf_tokenizer_piece(t, (int32_t)id, false, &bytes) && qsf_matcher_token(scout, (int32_t)id);
}

/* Masks along a string against the bytes of tokens: every step-th token of the vocabulary, starting
 * at another one at each place.  The string goes in as single bytes. */
static void check_masks(qsf_grammar *g, const qsf_token_tree *tree, const char *text, uint32_t step)
{
    const qsf_platform *p = qsf_platform_native();
    qsf_matcher *m, *scout;
    qsf_error err;
    uint32_t *mask = calloc(tree->n_vocab / 32 + 1, sizeof *mask);
    CHECK_EQ(qsf_matcher_new(p, g, tree, &m, &err), QSF_OK);
    CHECK_EQ(qsf_matcher_new(p, g, tree, &scout, &err), QSF_OK);
    for (size_t at = 0; !test_failed; at++) {
        if (qsf_matcher_mask(m, mask, &err)) {
            test_fail(__FILE__, __LINE__, err.text);
            break;
        }
        for (uint32_t id = (uint32_t)at % step; id < tree->n_vocab; id += step) {
            const bool set = mask[id / 32] >> id % 32 & 1;
            if (set == token_fits(m, scout, id)) continue;
            test_fail(__FILE__, __LINE__, "the mask says what the bytes of a token say");
            printf("      behind %zu bytes of %s: token %u, mask %d\n", at, text, (unsigned)id, set);
            break;
        }
        if (!text[at]) break;
        CHECK_EQ(qsf_matcher_bytes(m, text + at, 1), 1);
    }
    qsf_matcher_free(scout);
    qsf_matcher_free(m);
    free(mask);
}

static const struct { const char *rules, *text; } mask_cases[] = {
    { "root ::= \"{\" ws pair (\",\" ws pair)* \"}\"\npair ::= s \":\" ws (s | [0-9]+ | root)\n"
      "ws ::= [ \\n]*\n"
      "s ::= \"\\\"\" ([^\"\\\\\\x00-\\x1f] | \"\\\\\" ([\"\\\\/bfnrt] | \"u\" [0-9a-fA-F]{4}))* \"\\\"\"\n",
      "{ \"a\\n\": 12,\"b\":{\"\xc3\xa9\": \"\\u00e9x\"}}" },
    { "root ::= \"\\\"\" [^\"\\\\]{3,20} \"\\\"\" [a-z]{2,5} \".\" [0-9]{1,3}",
      "\"ab \xf0\x9f\x98\x80 def gh\"xyz.07" },
    { "root ::= [^,\\n]{0,3} \",\" root | [\\u4e00-\\u9fff]+ \"\\n\"", "ab,,\xe4\xbd\xa0\xe5\xa5\xbd\n" },
    { "root ::= (word \" \")* word \"!\"\nword ::= [a-zA-Z]+ | .{2} \"-\"", "The quick \xc3\xa9x-!" },
    { "root ::= root \"+\" term | term\nterm ::= term \"*\" [0-9]{1,4} | \"(\" root \")\" | [a-z]+",
      "abc*12+(a+b)*7" },
    { "root ::= .* [a-z]+ \"-\" .* [0-9]{2} .*", "ab- 12\xc3\xa9" },       /* plain tokens fit all over */
    { "root ::= \"\\\"\" [^\\\"]{2,9} \"ab\" [^\\\"]{0,30} [0-9] [^\\\"]{1,20} \"\\\"\"", "\"xyab-1ab!\"" },
    { "root ::= .*", "\"\\\n\xf0\x9f\x98\x80 any" },
};

static void each_mask(const qsf_token_tree *tree, uint32_t step)
{
    qsf_error err;
    for (size_t i = 0; i < QSF_ARRAY_LEN(mask_cases); i++) {
        qsf_grammar *g = gbnf(mask_cases[i].rules, &err);
        if (!g) test_fail(__FILE__, __LINE__, err.text);
        else check_masks(g, tree, mask_cases[i].text, step);
        qsf_grammar_drop(g);
    }
    qsf_grammar *g = names();
    CHECK(g != NULL);
    check_masks(g, tree, "\"named \xc3\xa9\": 12", step);
    if (g) g->keep_memory = 0;                  /* all is made anew, again and again */
    check_masks(g, tree, "\"i\": 1", step);
    qsf_grammar_drop(g);
}

TEST(masks_say_what_the_bytes_of_tokens_say)
{
    static small_vocab s;
    for (int spm = 0; spm < 2; spm++) {
        qsf_tokenizer *t;
        qsf_token_tree *tree;
        qsf_error err;
        if (spm) small_spm(&s);
        else small_bpe(&s, "gpt-2");
        CHECK_EQ(qsf_tokenizer_new(qsf_platform_native(), &s.v, &t, &err), QSF_OK);
        CHECK_EQ(qsf_token_tree_new(qsf_platform_native(), t, s.v.n_tokens + 3, &tree, &err), QSF_OK);
        each_mask(tree, 1);
        qsf_token_tree_free(tree);
        qsf_tokenizer_free(t);
    }
}

/* A walk by tokens that masks allow: every mask has one, and each leads on. */
static void check_walk(qsf_grammar *g, const qsf_token_tree *tree, uint64_t seed)
{
    enum { WALK = 40, WORDS = 32 };
    qsf_matcher *m;
    qsf_error err;
    uint32_t mask[WORDS], ids[32 * WORDS];
    CHECK_EQ(qsf_matcher_new(qsf_platform_native(), g, tree, &m, &err), QSF_OK);
    for (int step = 0; step < WALK && !test_failed && !qsf_matcher_over(m); step++) {
        uint32_t n = 0;
        const qsf_status st = qsf_matcher_mask(m, mask, &err);
        if (st == QSF_E_BUDGET) break;
        for (uint32_t id = 0; !st && id < tree->n_vocab; id++)
            if (mask[id / 32] >> id % 32 & 1) ids[n++] = id;
        if (st || !n || !qsf_matcher_token(m, (int32_t)ids[t_random(n)])) {
            test_fail(__FILE__, __LINE__, "a mask has a token that fits");
            printf("      seed %llu, step %d: %s\n", (unsigned long long)seed, step, st ? err.text : "");
        }
    }
    qsf_matcher_free(m);
}

TEST(random_walks_have_no_dead_end)
{
    static small_vocab s;
    qsf_tokenizer *t;
    qsf_token_tree *tree;
    qsf_error err;
    small_bpe(&s, "gpt-2");
    CHECK_EQ(qsf_tokenizer_new(qsf_platform_native(), &s.v, &t, &err), QSF_OK);
    CHECK_EQ(qsf_token_tree_new(qsf_platform_native(), t, s.v.n_tokens, &tree, &err), QSF_OK);
    for (int round = 0; round < 1000 && !test_failed; round++) {
        t_grammar made;
        qsf_grammar *g = NULL;
        t_make(&made, round % 2);
        if (!t_build(&made, &g, &err)) check_walk(g, tree, t_seed);
        qsf_grammar_drop(g);
    }
    for (size_t i = 0; i < 10 * QSF_ARRAY_LEN(mask_cases) && !test_failed; i++) {
        qsf_grammar *g = gbnf(mask_cases[i / 10].rules, &err);
        check_walk(g, tree, t_seed);
        qsf_grammar_drop(g);
    }
    qsf_token_tree_free(tree);
    qsf_tokenizer_free(t);
}

TEST(masks_of_a_large_vocabulary)
{
    char path[1024];
    qsf_model *model;
    qsf_model_options o;
    qsf_error err;
    const qsf_token_tree *tree;
    const char *shared = getenv("QSF_SHARED_DIR");
    snprintf(path, sizeof path, "%s/data/tokenizers/ggml-vocab-qwen2.gguf", shared ? shared : "../shared");
    qsf_model_defaults(&o);
    o.vocab_only = true;
    if (qsf_model_open(path, &o, &model, &err)) SKIP("no data/tokenizers in QSF_SHARED_DIR");
    CHECK_EQ(qsf_model_token_tree(model, &tree, &err), QSF_OK);
    each_mask(tree, 61);
    qsf_model_close(model);
}

/* ---- matchers ---- */

TEST(forced_bytes_are_those_that_must_come)
{
    qsf_error err;
    char out[32];
    qsf_matcher *m = NULL;
    qsf_grammar *g = gbnf("root ::= \"{\\\"name\\\": \" (\"true\" | \"tru\\u00e9\") \"}\"?", &err);
    CHECK(g && !qsf_matcher_new(qsf_platform_native(), g, NULL, &m, &err));
    CHECK_EQ(qsf_matcher_forced(m, out, sizeof out), 12);
    CHECK(!memcmp(out, "{\"name\": tru", 12));
    CHECK_EQ(qsf_matcher_forced(m, out, 3), 3);
    CHECK_EQ(qsf_matcher_bytes(m, "{\"name\": tru\xc3", 13), 13);
    CHECK(!qsf_matcher_whole(m) && qsf_matcher_forced(m, out, sizeof out) == 1 && out[0] == '\xa9');
    CHECK_EQ(qsf_matcher_bytes(m, "\xa9x", 2), 1);
    CHECK_EQ(qsf_matcher_bytes(m, "\xa9", 1), 1);
    CHECK(qsf_matcher_whole(m) && !qsf_matcher_over(m) && qsf_matcher_forced(m, out, sizeof out) == 0);
    CHECK(qsf_matcher_bytes(m, "}", 1) == 1 && qsf_matcher_over(m));
    qsf_matcher_free(m);
    qsf_grammar_drop(g);
}

TEST(long_texts_keep_their_place_while_tables_are_made_anew)
{
    qsf_error err;
    qsf_matcher *m = NULL;
    qsf_grammar *g = gbnf("root ::= \"[\" (root (\",\" root)*)? \"]\" | \"\\\"\" [a-z]{0,4000} \"\\\"\" "
                          "| [0-9]+", &err);
    CHECK(g && !qsf_matcher_new(qsf_platform_native(), g, NULL, &m, &err));
    g->keep_memory = 4096;
    for (int i = 0; i < 1500; i++) {
        const size_t n = i % 3 ? 1 : 8;
        CHECK_EQ(qsf_matcher_bytes(m, i % 3 ? "[" : "[1,\"ab\",", n), n);
    }
    for (int i = 0; i < 1500; i++) CHECK_EQ(qsf_matcher_bytes(m, i ? "]" : "7]", i ? 1 : 2), i ? 1 : 2);
    CHECK(qsf_matcher_over(m));
    qsf_matcher_reset(m);
    CHECK_EQ(qsf_matcher_bytes(m, "\"", 1), 1);
    for (int i = 0; i < 4000; i++) CHECK_EQ(qsf_matcher_bytes(m, "q", 1), 1);
    CHECK(qsf_matcher_bytes(m, "q", 1) == 0 && qsf_matcher_bytes(m, "\"", 1) == 1 && qsf_matcher_over(m));
    CHECK(g->nodes.n < 20000);
    qsf_matcher_free(m);
    qsf_grammar_drop(g);
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    RUN(regular_grammars_take_what_their_nodes_say);
    RUN(grammars_with_rules_take_what_their_nodes_say);
    RUN(masks_say_what_the_bytes_of_tokens_say);
    RUN(random_walks_have_no_dead_end);
    RUN(masks_of_a_large_vocabulary);
    RUN(forced_bytes_are_those_that_must_come);
    RUN(long_texts_keep_their_place_while_tables_are_made_anew);
    return test_end();
}
