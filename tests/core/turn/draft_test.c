/* Drafts: what is guessed from what stood there before.  That guesses change no token is in
 * tests/cli/cli_test.py.
 * SPDX-License-Identifier: MIT */
#include "qsf.h"
#include "test.h"

/* Guesses after ids, as text: one letter a token. */
static const char *guesses(const char *text, size_t cap)
{
    static char out[64];
    int32_t ids[64], guess[16];
    const size_t n = strlen(text);
    for (size_t i = 0; i < n; i++) ids[i] = text[i];
    const size_t got = qsf_draft_lookup(ids, n, guess, cap);
    CHECK(got <= cap);
    for (size_t i = 0; i < got; i++) out[i] = (char)guess[i];
    out[got] = 0;
    return out;
}

TEST(nothing_to_go_by)
{
    CHECK_STR(guesses("", 4), "");
    CHECK_STR(guesses("a", 4), "");
    CHECK_STR(guesses("aa", 4), "");
    CHECK_STR(guesses("abcdef", 4), "");
    CHECK_STR(guesses("axbxcx", 4), "");          /* one token that is the same is too few */
    CHECK_STR(guesses("abcab", 0), "");
}

TEST(what_stood_behind_the_same_tokens)
{
    CHECK_STR(guesses("abcdefab", 4), "cdef");
    CHECK_STR(guesses("abcdefab", 2), "cd");
    CHECK_STR(guesses("abXabYab", 1), "Y");       /* the latest place */
    CHECK_STR(guesses("cabXdabYcab", 1), "X");    /* but a longer match before it */
    CHECK_STR(guesses("wxyzA.vwxyzB.xyzC.wxyz", 1), "B");
}

TEST(a_text_that_repeats_itself_goes_round)
{
    CHECK_STR(guesses("aaa", 4), "aaaa");
    CHECK_STR(guesses("xyxy", 5), "xyxyx");
    CHECK_STR(guesses("abcabc", 7), "abcabca");
}

int main(void)
{
    RUN(nothing_to_go_by);
    RUN(what_stood_behind_the_same_tokens);
    RUN(a_text_that_repeats_itself_goes_round);
    return test_end();
}
