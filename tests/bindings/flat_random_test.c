/* The flat interface called at random: with handles that are alive, dead or of another kind, in any
 * order, and with arrays of any length.  The sanitizers' build sees what a wrong order would touch.
 * SPDX-License-Identifier: MIT */
#include "flat_scene.h"

enum { STEPS = 8000 };

static uint64_t state;
static uint32_t pick(uint32_t n) { return (uint32_t)(tiny_uniform(&state) * n); }

/* A model, a context, conversations, answers and embeddings; some are dead, or never were. */
enum { CONTEXT = 1, TALKS = 2, ANSWERS = 5, EMBEDDINGS = 9, MOST = 11 };
static uint32_t handles[MOST];
/* One from there on, usually: else any, or no handle. */
static uint32_t one(uint32_t first, uint32_t end)
{
    const uint32_t how = pick(12);
    return how == 0 ? pick(UINT32_MAX) : how == 1 ? handles[pick(MOST)] : handles[first + pick(end - first)];
}
static uint32_t talk(void) { return one(TALKS, ANSWERS); }
static uint32_t an_answer(void) { return one(ANSWERS, EMBEDDINGS); }
/* A place for a new handle; what was there is freed first. */
static uint32_t *place(uint32_t first, uint32_t end)
{
    uint32_t *at = &handles[first + pick(end - first)];
    qsf_flat_free(*at);
    return at;
}

static const char *const chats[] = {
    NULL, "chat-template\0chatml\0", "chat-template\0{{ nonsense\0", "now\0x\0",
    "tools\0[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]\0",
};
static const char *const answers[] = {
    NULL, "temperature\0" "0\0max-tokens\0" "3\0", "max-tokens\0" "6\0logprobs\0" "2\0ignore-end\0true\0",
    "top-k\0x\0",
};
static const char *const splits[] = {
    NULL, "tool-choice\0required\0", "tool-choice\0g\0", "json-blanks\0x\0",
};
static const char choices[] = "[\"ab\", \"\xc3\xa9\"]", hello[] = "[{\"role\":\"user\",\"content\":\"Hi\"}]";

/* ---- what may be called ---- */

static int32_t make(void)
{
    const uint32_t what = pick(8), context = one(CONTEXT, TALKS);
    uint32_t *at = what < 2 ? place(TALKS, ANSWERS) : what < 6 ? place(ANSWERS, EMBEDDINGS)
        : place(EMBEDDINGS, MOST);
    *at = what < 2 ? qsf_flat_conversation_new(context, chats[pick(2) * pick(5)])
        : what < 6 ? qsf_flat_answer_new(talk(), answers[1 - pick(2) * pick(2) + pick(2) * pick(3)])
        : qsf_flat_embedding_new(context, what == 7 ? "pooling\0last\0" : NULL);
    return QSF_OK;
}

static int32_t set(void)
{
    const size_t n = pick(4) ? strlen(hello) : pick(8);
    switch (pick(11)) {
    case 9: return qsf_flat_conversation_leave(talk());
    case 10: return qsf_flat_conversation_seat(talk());
    case 0: return qsf_flat_conversation_chat(talk(), chats[pick(2) * pick(5)]);
    case 1: return qsf_flat_conversation_split(talk(), splits[pick(4)], QSF_GRAMMAR_CHOICES,
                                               pick(2) ? choices : NULL, strlen(choices));
    case 2: return qsf_flat_conversation_json(talk(), hello, n);
    case 3: return qsf_flat_conversation_text(talk(), hello, n);
    case 4: return qsf_flat_conversation_ids(talk(), prompt, 1 + pick(4));
    case 5: return qsf_flat_answer_grammar(an_answer(), NULL, QSF_GRAMMAR_CHOICES, choices, strlen(choices));
    case 6: return qsf_flat_answer_stop(an_answer(), "ab", pick(3));
    case 7: return qsf_flat_answer_bias(an_answer(), (int32_t)pick(9) - 2, -1);
    default: return qsf_flat_conversation_adapt(talk(), handles, (float[]){ 1 }, pick(2));
    }
}

/* Steps until it is not pending. */
static int32_t finish(int32_t (*next)(uint32_t), int32_t (*step)(uint32_t), uint32_t h)
{
    int32_t st = QSF_PENDING;
    for (int i = 0; i < 100 && (st & 255) == QSF_PENDING; i++) {
        if (next && (st = next(h)) != QSF_PENDING) break;
        if ((st = step(h)) & QSF_FLAT_WAITING) (void)qsf_flat_wait(handles[CONTEXT]);
        if (next && st == QSF_OK) st = QSF_PENDING;
    }
    return st & 255;
}

/* Those that can take part compute together; each then reads its pieces. */
static int32_t together(void)
{
    uint32_t some[EMBEDDINGS - ANSWERS];
    int32_t st = QSF_PENDING;
    size_t n = 0;
    for (int i = ANSWERS; i < EMBEDDINGS; i++)
        if (qsf_flat_answer_next(handles[i]) == QSF_PENDING) some[n++] = handles[i];
    for (int i = 0; i < 100 && (st & 255) == QSF_PENDING; i++)
        if ((st = qsf_flat_step(handles[CONTEXT], some, n)) & QSF_FLAT_WAITING)
            (void)qsf_flat_wait(handles[CONTEXT]);
    for (size_t i = 0; i < n; i++) (void)finish(qsf_flat_answer_next, qsf_flat_answer_event, some[i]);
    if (st == QSF_E_FULL) (void)qsf_flat_conversation_leave(qsf_flat_oldest(handles[CONTEXT], 0));
    return st & 255;
}

static int32_t run(void)
{
    static const int32_t ids[] = { 1, 5, 9, 13, 2 };
    const size_t lens[] = { 2, 3 };
    const uint32_t a = an_answer(), e = one(EMBEDDINGS, MOST);
    switch (pick(26)) {
    case 20: (void)qsf_flat_conversation_seat(qsf_flat_oldest(handles[CONTEXT], pick(2) ? talk() : 0));
        return QSF_OK;
    case 21:
    case 22: return qsf_flat_step(one(CONTEXT, TALKS), (uint32_t[]){ a, an_answer(), an_answer() }, pick(4))
        & 255;
    case 23:
    case 24:
    case 25: return together();
    case 0:
    case 1:
    case 2: return qsf_flat_answer_begin(a);
    case 3: return qsf_flat_answer_next(a);
    case 4: return qsf_flat_answer_step(a) & 255;
    case 5: return qsf_flat_embedding_begin(e, ids, lens, pick(3));
    case 6: return qsf_flat_embedding_step(e) & 255;
    case 7:
    case 8:
    case 9:
    case 10:                                    /* a batch that all others wait for */
        for (int i = EMBEDDINGS; i < MOST; i++) (void)finish(NULL, qsf_flat_embedding_step, handles[i]);
        for (int i = ANSWERS; i < EMBEDDINGS; i++) (void)finish(NULL, qsf_flat_answer_step, handles[i]);
        return QSF_OK;
    default: return finish(qsf_flat_answer_next, qsf_flat_answer_step, a);
    }
}

/* Reads to an array of exactly its length: how much there is, or minus a status. */
static int32_t ask(void)
{
    const size_t cap = pick(2) ? pick(8) : pick(200);
    const uint32_t v = talk(), a = an_answer();
    char *out = malloc(cap * 8 + 1);
    int32_t n = 0;
    switch (pick(7)) {
    case 0: n = qsf_flat_conversation_prompt(v, (int32_t *)(void *)out, 2 * cap); break;
    case 1: n = qsf_flat_conversation_tokens(v, (int32_t *)(void *)out, 2 * cap); break;
    case 2: n = qsf_flat_embedding_values(one(EMBEDDINGS, MOST), (float *)(void *)out, 2 * cap); break;
    case 3:
        n = qsf_flat_answer_logprobs(a, (int32_t *)(void *)out, (float *)(void *)(out + 4 * cap), cap);
        break;
    case 4: n = qsf_flat_answer_event(a); break;
    case 5: (void)qsf_flat_number(a, (int32_t)pick(QSF_N_NUMBERS + 1), pick(9)); break;
    default: n = qsf_flat_text(a, (int32_t)pick(QSF_N_TEXTS + 1), pick(9), out, 8 * cap + 1); break;
    }
    free(out);
    return n;
}

static int32_t status_of(int32_t result) { return result < 0 ? -result : QSF_OK; }

static int32_t end(void)
{
    const uint32_t h = handles[TALKS + pick(MOST - TALKS)];
    if (pick(2)) qsf_flat_cancel(h);
    else qsf_flat_free(h);
    return QSF_OK;
}

/* ---- the tests ---- */

/* The first tokens of a new conversation, in a new context. */
static void answer_of(uint32_t model, int32_t *ids)
{
    const uint32_t c = context_of(model), v = qsf_flat_conversation_new(c, NULL), a = begun(v);
    for (int i = 0; i < N; i++) ids[i] = next_token(c, a);
    free_all((uint32_t[]){ a, v, c }, 3);
}

TEST(calls_in_any_order_are_answers_or_errors)
{
    int32_t before[N], after[N];
    size_t good = 0, pieces = 0;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        state = seed;
        handles[0] = opened(0);
        handles[CONTEXT] = qsf_flat_context_new(handles[0]);
        CHECK_EQ(qsf_flat_context_open(handles[CONTEXT], "ctx-size\0" "128\0seqs\0" "6\0threads\0" "1\0"),
                 QSF_OK);
        answer_of(handles[0], before);
        for (int i = 0; i < STEPS; i++) {
            const uint32_t what = pick(64);
            const int32_t st = what < 6 ? make() : what < 17 ? set() : what < 49 ? run()
                : what < 63 ? status_of(ask()) : end();
            CHECK(st >= QSF_OK && st <= QSF_E_NOT_FOUND && st != QSF_E_MEMORY && st != QSF_E_IO);
            good += st == QSF_OK;
            pieces += number(handles[ANSWERS], "token") > 0;
        }
        answer_of(handles[0], after);           /* the model is as it was */
        CHECK(!memcmp(before, after, sizeof before));
        free_all(handles, MOST);
        memset(handles, 0, sizeof handles);
    }
    printf("%u calls succeeded; after %u the first answer had a piece\n", (unsigned)good, (unsigned)pieces);
    CHECK(good > STEPS && pieces > 100);
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    scene_files();
    RUN(calls_in_any_order_are_answers_or_errors);
    scene_files_done();
    return test_end();
}
