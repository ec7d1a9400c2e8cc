/* How many draft tokens pay, by given times and by how many were right.
 * SPDX-License-Identifier: MIT */
#include "turn/draft_gain.h"
#include "test.h"

enum { MS = 1000000 };

/* After 200 passes of 1 + k rows for each k, which take `pass` ms and `row` ms for each further
 * row; a draft token takes `guess` ms, and the first `right` tokens of every draft are right. */
static qsf_draft_gain after(unsigned pass, unsigned row, unsigned guess, size_t right)
{
    qsf_draft_gain g;
    qsf_draft_gain_begin(&g);
    for (int i = 0; i < 200; i++)
        for (unsigned k = 0; k <= QSF_DRAFT_MOST; k++) {
            qsf_draft_gain_pass(&g, 1 + k, (uint64_t)(pass + k * row) * MS);
            qsf_draft_gain_made(&g, k, (uint64_t)(k * guess) * MS);
            if (k) qsf_draft_gain_judge(&g, k, QSF_MIN(right, (size_t)k));
        }
    return g;
}

TEST(a_pass_without_drafts_comes_first)
{
    qsf_draft_gain g;
    qsf_draft_gain_begin(&g);
    CHECK_EQ(qsf_draft_gain_choose(&g, 7), 0);
    qsf_draft_gain_pass(&g, 1, 10 * MS);
    CHECK_EQ(qsf_draft_gain_choose(&g, 7), 7);         /* longer passes are not known: they are tried */
    CHECK_EQ(qsf_draft_gain_choose(&g, 2), 2);
    CHECK_EQ(qsf_draft_gain_choose(&g, 0), 0);
}

TEST(right_drafts_that_cost_little_are_long)
{
    qsf_draft_gain g = after(100, 1, 1, 7);
    CHECK_EQ(qsf_draft_gain_choose(&g, 7), 7);
    CHECK_EQ(qsf_draft_gain_choose(&g, 3), 3);
}

TEST(drafts_end_before_the_first_wrong_token)
{
    qsf_draft_gain g = after(100, 10, 5, 2);
    CHECK_EQ(qsf_draft_gain_choose(&g, 7), 2);
}

TEST(drafts_that_lose_are_off_and_tried_again)
{
    qsf_draft_gain wrong = after(100, 10, 5, 0), dear = after(10, 10, 10, 7);
    for (int i = 0; i < 32; i++) {
        CHECK_EQ(qsf_draft_gain_choose(&wrong, 7), 0);
        CHECK_EQ(qsf_draft_gain_choose(&dear, 7), 0);
    }
    CHECK_EQ(qsf_draft_gain_choose(&wrong, 7), 1);
    CHECK_EQ(qsf_draft_gain_choose(&wrong, 7), 0);
    CHECK_EQ(qsf_draft_gain_choose(&dear, 7), 1);
}

TEST(what_pays_follows_the_text)
{
    qsf_draft_gain g = after(100, 5, 5, 0);
    CHECK_EQ(qsf_draft_gain_choose(&g, 7), 0);
    for (int i = 0; i < 60; i++) qsf_draft_gain_judge(&g, 1, 1);
    CHECK(qsf_draft_gain_choose(&g, 7) > 0);        /* the second token was never judged */
    for (int i = 0; i < 60; i++) qsf_draft_gain_judge(&g, 7, 7);
    CHECK_EQ(qsf_draft_gain_choose(&g, 7), 7);
}

int main(void)
{
    RUN(a_pass_without_drafts_comes_first);
    RUN(right_drafts_that_cost_little_are_long);
    RUN(drafts_end_before_the_first_wrong_token);
    RUN(drafts_that_lose_are_off_and_tried_again);
    RUN(what_pays_follows_the_text);
    return test_end();
}
