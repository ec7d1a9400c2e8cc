/* Tokenizers as lists of steps: a handmade one, and how damage and failing allocations are handled.
 * SPDX-License-Identifier: MIT */
#include "fault_platform.h"
#include "small_vocab.h"
#include "tokens/steps.h"
#include "test.h"

typedef struct made { small_vocab s; uint8_t bytes[4096]; uint32_t n; } made;

static void put(made *m, uint32_t v)
{
    for (; v >= 128; v >>= 7) m->bytes[m->n++] = (uint8_t)(v | 128);
    m->bytes[m->n++] = (uint8_t)v;
}
static void put_all(made *m, const uint32_t *v, size_t n)
{
    for (size_t i = 0; i < n; i++) put(m, v[i]);
}
#define PUT(m, ...) put_all(m, (const uint32_t[]){ __VA_ARGS__ }, \
                            sizeof(const uint32_t[]){ __VA_ARGS__ } / sizeof(uint32_t))

enum { MARK = 0x2581 };

/* Spaces become U+2581, which is also put before an input that does not begin with one.  Two tokens
 * are added at the beginning; <turn> strips white space on both sides; "hh" matches whole words
 * only; unknown characters become bytes.  An expression with every instruction splits before a
 * z. */
static void build(made *m, uint32_t model)
{
    memset(m, 0, sizeof *m);
    small_spm(&m->s);
    m->s.v.kind = QSF_VOCAB_STEPS;
    m->s.v.scores = model == STEPS_UNIGRAM ? m->s.scores : NULL;
    add_merge(&m->s, "\xe2\x96\x81", "h");
    add_merge(&m->s, "\xe2\x96\x81h", "i");
    add_merge(&m->s, "h", "i");
    PUT(m, STEPS_VERSION, model, STEPS_BYTE_FALLBACK, 20, 1, 0, 0);    /* unknown: token 0; no affixes */
    PUT(m, 2, 1, 1);
    PUT(m, 1, 2);
    PUT(m, 2, SPM_TURN, STEPS_LSTRIP | STEPS_RSTRIP, SPM_USER, STEPS_SINGLE_WORD);
    PUT(m, 2, 1, 'a', 25, 1, 'z', 0);                                  /* sets: letters; z */
    PUT(m, 2, 2, RE_CHAR, ' ', 0, RE_MATCH, 0, 0);
    PUT(m, 9, RE_SPLIT, 1, 5, RE_LOOK, 0, 4, RE_SET, 1, 0, RE_MATCH, 0, 0, RE_JUMP, 8, 0,
        RE_BEHIND, 1, 0, RE_BOUND, 0, 1, RE_END, 1, 0, RE_MATCH, 0, 0);
    PUT(m, 1, 1, 'q', 2, 2, 'h', 'i');                                 /* q becomes "hi" */
    PUT(m, 5, STEP_MAP, 0, 0, 0, STEP_TOKENS, 0, 0, 0, STEP_REPLACE, 0, 0, 1, MARK,
        STEP_PREFIX, 1, 0, 1, MARK, STEP_SPLIT, 1, SPLIT_ISOLATED, 0);
    PUT(m, 1, DECODE_REPLACE, 1, MARK, 1, ' ');
    m->s.v.steps = m->bytes;
    m->s.v.steps_len = m->n;
}

static void check_ids(const char *text, const int32_t *want, size_t n_want)
{
    static made m;
    qsf_tokenizer *t;
    qsf_error err = { 0 };
    int32_t ids[64];
    size_t n = 0;
    build(&m, STEPS_BPE);
    CHECK_EQ(qsf_tokenizer_new(qsf_platform_native(), &m.s.v, &t, &err), QSF_OK);
    if (!t) {
        printf("      %s\n", err.text);
        return;
    }
    CHECK_EQ(qsf_tokenizer_encode(t, text, strlen(text), QSF_TOK_ADD_SPECIAL | QSF_TOK_PARSE_SPECIAL, ids, 64,
                                  &n, &err), QSF_OK);
    CHECK_EQ(n, n_want);
    for (size_t i = 0; i < n && i < n_want; i++) CHECK_EQ(ids[i], want[i]);
    qsf_tokenizer_free(t);
}
#define IDS(text, ...) check_ids(text, (const int32_t[]){ __VA_ARGS__ }, \
                                 sizeof(const int32_t[]){ __VA_ARGS__ } / sizeof(int32_t))

TEST(steps_are_taken_one_by_one)
{
    IDS("hi <turn>  hi", 1, 1, SPM_SPACE_HI, SPM_TURN, SPM_HI, 2);     /* a mark at the beginning only */
    IDS(" hi", 1, 1, SPM_SPACE_HI, 2);                                 /* but not a second one */
    IDS("q", 1, 1, SPM_SPACE_HI, 2);
    IDS("hh", 1, 1, SPM_USER, 2);
    IDS("hhi", 1, 1, SPM_SPACE_H, SPM_HI, 2);                          /* not inside a word */
    IDS("h\xc3\xa9", 1, 1, SPM_SPACE_H, 3 + 0xc3, 3 + 0xa9, 2);
    IDS("", 1, 1, 2);
    IDS("<turn>", 1, 1, SPM_TURN, 2);
    IDS("hzhi", 1, 1, SPM_SPACE_H, 3 + 'z', SPM_HI, 2);
}

TEST(control_tokens_of_steps_are_the_templates_own)
{
    static made m;
    qsf_tokenizer *t;
    qsf_error err = { 0 };
    int32_t ids[64];
    size_t n = 0;
    build(&m, STEPS_BPE);
    CHECK_EQ(qsf_tokenizer_new(qsf_platform_native(), &m.s.v, &t, &err), QSF_OK);
    const qsf_text_span spans[] = { { 0, 6, true }, { 6, 6, false } };
    CHECK_EQ(qsf_tokenizer_encode_chat(t, "<turn><turn>", 12, spans, 2, true, ids, 64, &n, &err), QSF_OK);
    CHECK_EQ(n, 2 + 1 + 6);
    for (size_t i = 3; i < n; i++) CHECK(ids[i] != SPM_TURN);
    qsf_tokenizer_free(t);
}

static qsf_status use(const made *m, const qsf_platform *p)
{
    qsf_tokenizer *t;
    qsf_error err = { 0 };
    int32_t ids[256];
    size_t n;
    qsf_status st = qsf_tokenizer_new(p, &m->s.v, &t, &err);
    if (!st) st = qsf_tokenizer_encode(t, "hi <turn> hhzq \xc3\xa9 hi", 20,
                                       QSF_TOK_ADD_SPECIAL | QSF_TOK_PARSE_SPECIAL,
                                       ids, 256, &n, &err);
    CHECK(!st || err.text[0]);
    qsf_tokenizer_free(t);
    return st;
}

TEST(damaged_steps_are_refused_or_used)
{
    static made m;
    for (uint32_t model = STEPS_BPE; model < STEPS_MODELS; model++) {
        build(&m, model);
        for (uint32_t n = 0; n < m.n; n++) {
            m.s.v.steps_len = n;
            CHECK_EQ(use(&m, qsf_platform_native()), QSF_E_CORRUPT);
        }
        m.s.v.steps_len = m.n;
        for (uint32_t i = 0; i < m.n; i++)
            for (int k = 0; k < 4; k++) {
                const uint8_t was = m.bytes[i];
                m.bytes[i] = (uint8_t)(k == 0 ? was + 1 : k == 1 ? was - 1 : k == 2 ? was ^ 128 : 0);
                use(&m, qsf_platform_native());
                m.bytes[i] = was;
            }
        CHECK_EQ(use(&m, qsf_platform_native()), QSF_OK);
    }
}

TEST(steps_survive_each_failing_allocation)
{
    static made m;
    for (uint32_t model = STEPS_BPE; model < STEPS_MODELS; model++) {
        build(&m, model);
        for (uint64_t n = 1;; n++) {
            fault_platform host;
            fault_init(&host);
            host.fail_at = n;
            const qsf_status st = use(&m, &host.table);
            CHECK_EQ(host.bytes, 0);
            CHECK_EQ(st, host.calls < n ? QSF_OK : QSF_E_MEMORY);
            if (host.calls < n) break;
        }
    }
}

int main(void)
{
    RUN(steps_are_taken_one_by_one);
    RUN(control_tokens_of_steps_are_the_templates_own);
    RUN(damaged_steps_are_refused_or_used);
    RUN(steps_survive_each_failing_allocation);
    return test_end();
}
