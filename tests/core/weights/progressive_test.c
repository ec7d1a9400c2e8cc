/* Answers of a progressive file: those of the plain one, from the high bits first or not, in any
 * budget.
 * SPDX-License-Identifier: MIT */
#include "stream_models.h"

enum { LONG = 40 };

/* Logits of LONG tokens, from a new sequence. */
static float *logits_of(bench *b)
{
    int32_t ids[LONG];
    float *out = bench_floats(b, LONG);
    bench_tokens(ids, LONG, b->n_vocab, 3);
    CHECK_EQ(qsf_seq_truncate(b->c, 0, 0), QSF_OK);
    CHECK_EQ(bench_feed(b, 0, ids, LONG, 8, out), QSF_OK);
    return out;
}

static tiny_options eight_bits(bool progressive)
{
    tiny_options o = layered();
    o.type = QSF_T_8BIT;
    o.progressive = progressive;
    return o;
}

static float *plain_logits(size_t *n)
{
    bench b;
    const tiny_options o = eight_bits(false);
    if (!bench_begin(&b, &o)) return NULL;
    float *out = logits_of(&b);
    *n = (size_t)LONG * b.n_vocab * sizeof *out;
    bench_end(&b);
    return out;
}

static bool same(bench *b, const float *plain, size_t n)
{
    float *out = logits_of(b);
    const bool equal = !memcmp(out, plain, n);
    free(out);
    return equal;
}

TEST(the_whole_file_answers_as_the_plain_one_in_any_budget)
{
    bench b;
    size_t n = 0;
    float *plain = plain_logits(&n);
    const tiny_options o = eight_bits(true);
    qsf_context_options co = bench_options();
    if (!bench_begin(&b, &o)) return;
    CHECK(same(&b, plain, n));
    CHECK_EQ(qsf_refine(b.c, false), QSF_OK);           /* nothing to do */
    co.first_stage = true;
    co.n_logits = 8;
    qsf_plan plan = { .size = sizeof plan };
    qsf_context_get_plan(b.c, &plan);
    co.n_logits = 64;
    co.ram_budget = plan.total - 200000;
    if (!bench_context(&b, &co)) return;
    qsf_context_get_plan(b.c, &plan);
    CHECK(plan.n_slots > 0);                            /* layers stream: whole, in two reads each */
    CHECK(same(&b, plain, n));
    CHECK_EQ(qsf_refine(b.c, true), QSF_OK);
    free(plain);
    bench_end(&b);
}

TEST(high_bits_answer_and_low_bits_make_it_the_plain_file)
{
    for (uint32_t polls = 0; polls < 4; polls++) {
        bench b;
        size_t n = 0;
        float *plain = plain_logits(&n);
        const tiny_options o = eight_bits(true);
        qsf_context_options co = bench_options();
        co.first_stage = true;
        if (!bench_write(&b, &o) || !bench_open(&b) || !bench_context(&b, &co)) return;
        b.h.polls = polls;
        CHECK_EQ(qsf_refine(b.c, true), QSF_PENDING);   /* no unit is there yet */
        float *rough = logits_of(&b);
        const double off = bench_rms(plain, rough, n / sizeof *plain);
        CHECK(off > 0 && off < 1.2);
        uint32_t looks = 0;
        if (polls < 3)
            while (qsf_refine(b.c, false) == QSF_PENDING && looks < 100) looks++;
        else
            CHECK_EQ(qsf_refine(b.c, true), QSF_OK);
        CHECK(looks < 100);
        CHECK_EQ(qsf_refine(b.c, false), QSF_OK);
        CHECK(same(&b, plain, n));
        free(rough);
        free(plain);
        bench_end(&b);
    }
}

/* A context may end, and answer, while low bits are on the way. */
TEST(low_bits_on_the_way_are_no_hindrance)
{
    bench b;
    const tiny_options o = eight_bits(true);
    qsf_context_options co = bench_options();
    co.first_stage = true;
    if (!bench_write(&b, &o) || !bench_open(&b) || !bench_context(&b, &co)) return;
    free(logits_of(&b));
    b.h.polls = 50;
    CHECK_EQ(qsf_refine(b.c, false), QSF_PENDING);
    CHECK(b.h.running > 0);
    free(logits_of(&b));
    CHECK_EQ(qsf_refine(b.c, false), QSF_PENDING);
    bench_end(&b);
}

TEST(damaged_low_bits_are_an_error_and_change_nothing)
{
    bench b;
    size_t n = 0;
    float *plain = plain_logits(&n);
    const tiny_options o = eight_bits(true);
    qsf_context_options co = bench_options();
    co.first_stage = true;
    if (!bench_write(&b, &o) || !bench_open(&b) || !bench_context(&b, &co)) return;
    float *rough = logits_of(&b);
    bench_file(&b)->bytes[bench_file(&b)->len - 1] ^= 1;
    qsf_status st;
    while ((st = qsf_refine(b.c, true)) == QSF_PENDING) ;
    CHECK_EQ(st, QSF_E_CORRUPT);
    CHECK(qsf_last_error(b.c)[0] != 0);
    free(logits_of(&b));
    bench_file(&b)->bytes[bench_file(&b)->len - 1] ^= 1;
    b.h.doomed = true;
    CHECK_EQ(qsf_refine(b.c, true), QSF_E_IO);
    b.h.doomed = false;
    CHECK_EQ(qsf_refine(b.c, true), QSF_OK);
    CHECK(same(&b, plain, n));
    free(rough);
    free(plain);
    bench_end(&b);
}

int main(void)
{
    RUN(the_whole_file_answers_as_the_plain_one_in_any_budget);
    RUN(high_bits_answer_and_low_bits_make_it_the_plain_file);
    RUN(low_bits_on_the_way_are_no_hindrance);
    RUN(damaged_low_bits_are_an_error_and_change_nothing);
    return test_end();
}
