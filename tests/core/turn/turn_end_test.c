/* How an answer ends, and what it is cut into: stop texts, whole characters, end tokens, a
 * full context.
 * SPDX-License-Identifier: MIT */
#include "turn_scene.h"

/* The place in the text where the i-th token's text is whole. */
static size_t text_after(const scene *s, const heard *h, size_t i)
{
    char text[TEXT];
    size_t len = 0;
    qsf_utf8_tail tail = { 0 };
    for (size_t k = 0; k <= i; k++) {
        const char *piece;
        const size_t n = qsf_token_piece(s->b.m, h->ids[k], false, &piece);
        len += qsf_utf8_push(&tail, piece, n, text + len);
    }
    return len;
}

TEST(a_stop_text_ends_the_answer_wherever_tokens_part_it)
{
    scene s;
    heard all, h;
    if (!scene_begin(&s)) return;
    qsf_turn_options o = options(MOST);
    answer(&s, s.prompt, PROMPT, &o, &all);
    for (size_t from = 0; from < all.len; from++) {
        for (size_t len = 1; len <= 7 && from + len <= all.len; len += 3) {
            const char *stop = all.text + from;
            size_t place = 0;
            while (memcmp(all.text + place, stop, len)) place++;    /* it may be there before */
            o.stops = &stop;
            o.stop_lengths = &len;
            o.n_stops = 1;
            answer(&s, s.prompt, PROMPT, &o, &h);
            CHECK_EQ(h.end, QSF_TURN_STOP_TEXT);
            CHECK(h.len == place && !memcmp(h.text, all.text, place));
            CHECK(!h.cut && h.n <= all.n && !memcmp(h.ids, all.ids, h.n * sizeof *h.ids));
            CHECK(text_after(&s, &all, h.n - 1) >= place + len);    /* no token more than it took */
            if (h.n > 1) CHECK(text_after(&s, &all, h.n - 2) < place + len);
        }
    }
    scene_end(&s);
}

TEST(a_stop_text_that_is_shown_is_the_end_of_the_answer)
{
    scene s;
    heard all, h;
    if (!scene_begin(&s)) return;
    qsf_turn_options o = options(MOST);
    answer(&s, s.prompt, PROMPT, &o, &all);
    for (size_t from = 0; from + 7 <= all.len; from++) {
        const char *stops[] = { "<never>", all.text + from };
        const size_t len = 1 + from % 7, lengths[] = { 7, len };
        size_t place = 0;
        while (memcmp(all.text + place, stops[1], len)) place++;
        o.stops = stops;
        o.stop_lengths = lengths;
        o.n_stops = 2;
        for (size_t shown = 0; shown <= 3; shown++) {           /* more than there are: all */
            o.n_stops_shown = shown;
            answer(&s, s.prompt, PROMPT, &o, &h);
            CHECK_EQ(h.end, QSF_TURN_STOP_TEXT);
            CHECK_EQ(h.len, shown < 2 ? place : place + len);
            CHECK(!memcmp(h.text, all.text, h.len));
        }
    }
    scene_end(&s);
}

TEST(what_only_begins_as_a_stop_text_is_given_in_the_end)
{
    scene s;
    heard all, h;
    char never[TEXT + 8];
    if (!scene_begin(&s)) return;
    qsf_turn_options o = options(MOST);
    answer(&s, s.prompt, PROMPT, &o, &all);
    for (size_t n = 1; n <= 9; n += 4) {
        qsf_format(never, sizeof never, "%s<never>", all.text + all.len - n);
        const char *stops[] = { "", never, "not there either" };
        o.stops = stops;
        o.n_stops = 3;
        answer(&s, s.prompt, PROMPT, &o, &h);
        CHECK_STR(h.text, all.text);
        CHECK_EQ(h.end, QSF_TURN_MOST);
        CHECK_EQ(h.pieces, MOST + 1);
    }
    /* Of several the one that comes first, also where a longer one has begun before it. */
    char late[TEXT];
    qsf_format(late, sizeof late, "%.9s<never>", all.text + 2);
    const char *two[] = { late, all.text + 6, all.text + 4 };
    const size_t lengths[] = { strlen(late), 3, 4 };
    o.stops = two;
    o.stop_lengths = lengths;
    answer(&s, s.prompt, PROMPT, &o, &h);
    CHECK_EQ(h.end, QSF_TURN_STOP_TEXT);
    CHECK(h.len <= 6 && !memcmp(h.text, all.text, h.len));
    scene_end(&s);
}

TEST(every_piece_is_whole_characters)
{
    scene s;
    if (!scene_begin(&s)) return;
    int cut = 0;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        heard h;
        qsf_turn_piece p = { .size = sizeof p };
        const qsf_turn_options o = options(MOST);
        if (!scene_sampler(&s, 3, seed)) return;
        CHECK_EQ(qsf_turn_begin(s.turn, s.prompt, PROMPT, s.sampler, &o), QSF_OK);
        memset(&h, 0, sizeof h);
        while (!p.end) {
            if (qsf_turn_next(s.turn, &p)) {
                (void)qsf_turn_step(s.turn, NULL);
                continue;
            }
            qsf_utf8_tail tail = { 0 };
            char whole[64];
            CHECK_EQ(qsf_utf8_push(&tail, p.text, p.len, whole), p.len);
            CHECK(tail.len == 0 && !memcmp(whole, p.text, p.len));
            cut += p.cut;
        }
    }
    CHECK(cut > 0);                     /* bytes at random end inside a character now and then */
    scene_end(&s);
}

TEST(an_end_token_ends_the_answer_unless_it_is_ignored)
{
    scene s;
    heard h, all;
    bool ended = false;
    if (!scene_begin(&s)) return;
    for (uint64_t seed = 1; seed < 200 && !ended; seed++) {
        qsf_turn_options o = options(40);
        if (!scene_sampler(&s, 2, seed)) return;
        answer(&s, s.prompt, PROMPT, &o, &all);
        o.ignore_end = false;
        answer(&s, s.prompt, PROMPT, &o, &h);
        CHECK(h.n <= all.n && !memcmp(h.ids, all.ids, h.n * sizeof *h.ids));
        ended = h.end == QSF_TURN_END_TOKEN;
        CHECK_EQ(ended, h.n < all.n);
        if (ended) CHECK(qsf_token_is_end(s.b.m, all.ids[h.n]));
        else CHECK_EQ(h.end, QSF_TURN_MOST);
    }
    CHECK(ended);
    scene_end(&s);
}

TEST(a_full_context_ends_the_answer_and_is_no_failure)
{
    scene s;
    heard h;
    if (!scene_begin(&s)) return;
    for (uint32_t draft = 0; draft <= QSF_DRAFT_MOST; draft += QSF_DRAFT_MOST) {
        qsf_turn_options o = options(-1);
        o.draft = draft;
        o.draft_fixed = true;
        answer(&s, s.prompt, PROMPT, &o, &h);
        CHECK_EQ(h.end, QSF_TURN_FULL);
        CHECK_EQ(h.n, N_CTX - PROMPT + 1);
        CHECK_EQ(qsf_turn_error(s.turn)->status, QSF_E_FULL);
        CHECK(strstr(qsf_turn_error(s.turn)->text, "64 positions") != NULL);
        CHECK_EQ(qsf_seq_length(s.b.c, 0), N_CTX);
    }
    int32_t longer[N_CTX + 1] = { 0 };
    qsf_stats before = { .size = sizeof before }, after = { .size = sizeof after };
    qsf_context_get_stats(s.b.c, &before);
    memcpy(longer, s.prompt, 12 * sizeof *longer);
    CHECK_EQ(qsf_turn_begin(s.turn, longer, N_CTX + 1, s.sampler, NULL), QSF_E_FULL);
    CHECK_STR(qsf_turn_error(s.turn)->text, "the prompt has 65 tokens, the context 64 positions");
    CHECK_EQ(qsf_turn_step(s.turn, NULL), QSF_OK);          /* nothing is under way */
    qsf_context_get_stats(s.b.c, &after);
    CHECK(after.tokens_prompt == before.tokens_prompt && after.tokens_generated == before.tokens_generated);
    CHECK_EQ(state(&s).n_kept, 12);                         /* and what both begin with stays */
    const qsf_turn_options o = options(3);
    answer(&s, s.prompt, PROMPT, &o, &h);
    CHECK(state(&s).n_kept == 12 && h.end == QSF_TURN_MOST);
    scene_end(&s);
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    RUN(a_stop_text_ends_the_answer_wherever_tokens_part_it);
    RUN(a_stop_text_that_is_shown_is_the_end_of_the_answer);
    RUN(what_only_begins_as_a_stop_text_is_given_in_the_end);
    RUN(every_piece_is_whole_characters);
    RUN(an_end_token_ends_the_answer_unless_it_is_ignored);
    RUN(a_full_context_ends_the_answer_and_is_no_failure);
    return test_end();
}
