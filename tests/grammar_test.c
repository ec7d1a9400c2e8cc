/* Grammars: what the automaton takes against a slow and simple reading of the same nodes; masks
 * against the bytes of every token.
 * SPDX-License-Identifier: MIT */
#include "small_vocab.h"
#include "test.h"
#include "text/grammar_nodes.h"

/* ---- a grammar as the test understands it ---- */

enum { T_BYTES, T_CLASS, T_SEQ, T_CHOICE, T_REP, T_BOTH, T_NOT, T_RULE };
enum { T_NODES = 40, T_RULES = 4, T_TEXT = 24 };
typedef struct t_node { int kind, n, parts[3]; char text[4]; unsigned least, most; } t_node;
typedef struct t_grammar {
    t_node   nodes[T_NODES];
    int      n, root, bodies[T_RULES], n_rules;
    bool     ruled[T_NODES];
    uint32_t ends[T_NODES][T_TEXT + 1];         /* [node][from]: bit i says that a text of it ends at i */
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

/* Until nothing changes; parts stand before what they are part of, so T_NOT sees what is settled. */
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

static void t_make(t_grammar *g, bool rules)
{
    static const char letters[] = "abc";
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
        if (x->kind == T_BYTES) for (unsigned i = t_random(4); i-- > 0; ) x->text[i] = letters[t_random(3)];
        if (x->kind == T_CLASS) for (unsigned i = 1 + t_random(2); i-- > 0; ) x->text[i] = letters[t_random(3)];
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
    for (int i = 0; i < g->n_rules; i++) g->bodies[i] = g->n_rules + (int)t_random((unsigned)(g->n - g->n_rules));
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

/* Whether the grammar has texts that go on from where the matcher is: one is looked for, at random
 * and then by what is forced or short. */
static bool t_reaches(t_grammar *t, qsf_matcher *m, char *text, unsigned len)
{
    for (; len < T_TEXT; len++) {
        if (qsf_matcher_whole(m)) return t_matches(t, text, len);
        bool found = false;
        for (unsigned k = 0, first = t_random(3); k < 3 && !found; k++) {
            text[len] = (char)('a' + (first + k) % 3);
            found = qsf_matcher_bytes(m, text + len, 1) == 1;
        }
        if (!found) return false;               /* a dead end, or a byte that is none of ours */
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
            || (fits && qsf_matcher_over(m) && !whole[i]) || (fits && !t_reaches(t, m, text, (unsigned)len))) {
            test_fail(__FILE__, __LINE__, "the automaton and the nodes say the same");
            printf("      seed %llu round %d, \"%s\": fits %d, whole %d of %d\n", (unsigned long long)seed, round,
                   texts[i], fits, fits && qsf_matcher_whole(m), whole[i]);
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
    for (int round = 0; round < 300 && !test_failed; round++) {
        const uint64_t seed = t_seed;
        t_make(&t, false);
        t_compare(&t, seed, round);
    }
}

TEST(grammars_with_rules_take_what_their_nodes_say)
{
    static t_grammar t;
    t_seed = 2;
    for (int round = 0; round < 300 && !test_failed; round++) {
        const uint64_t seed = t_seed;
        t_make(&t, true);
        t_compare(&t, seed, round);
    }
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    RUN(regular_grammars_take_what_their_nodes_say);
    RUN(grammars_with_rules_take_what_their_nodes_say);
    return test_end();
}
