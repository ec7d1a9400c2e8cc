/* Which experts a router chooses, against choices written out by hand.
 * SPDX-License-Identifier: MIT */
#include "layers/router.h"
#include "test.h"

enum { MOST = 8 };

static void choose(const qsf_layer *l, const float *logits, const float *bias, uint32_t *chosen,
                   float *weights)
{
    float row[3 * MOST];
    memcpy(row, logits, l->n_experts * sizeof *row);
    qsf_router_choose(l, row, bias, chosen, weights);
}

TEST(router_takes_the_best_in_order_of_experts)
{
    const qsf_layer l = { .n_experts = 4, .n_used = 2 };
    const float logits[] = { 0, logf(3), logf(2), logf(4) };        /* of 10: 1, 3, 2, 4 */
    uint32_t chosen[2];
    float w[2];
    choose(&l, logits, NULL, chosen, w);
    CHECK_EQ(chosen[0], 1);
    CHECK_EQ(chosen[1], 3);
    CHECK_NEAR(w[0], 0.3, 1e-6);
    CHECK_NEAR(w[1], 0.4, 1e-6);
    qsf_layer normed = l;
    normed.router_norm = true;
    normed.router_scale = 2;
    choose(&normed, logits, NULL, chosen, w);
    CHECK_NEAR(w[0], 2 * 3.0 / 7, 1e-6);
    CHECK_NEAR(w[1], 2 * 4.0 / 7, 1e-6);
    normed = l;
    normed.router = QSF_ROUTER_CHOSEN;
    choose(&normed, logits, NULL, chosen, w);
    CHECK_NEAR(w[0], 3.0 / 7, 1e-6);
    CHECK_NEAR(w[1], 4.0 / 7, 1e-6);
}

TEST(router_bias_counts_for_choosing_only)
{
    const qsf_layer l = { .n_experts = 4, .n_used = 1, .router = QSF_ROUTER_SIGMOID };
    const float logits[] = { 0, 2, 1, -1 }, bias[] = { 1, 0, 0, 0 };
    uint32_t chosen[1];
    float w[1];
    choose(&l, logits, bias, chosen, w);
    CHECK_EQ(chosen[0], 0);
    CHECK_NEAR(w[0], 0.5, 1e-6);
}

TEST(router_chooses_within_the_best_groups)
{
    /* The best expert stands in a group whose two best are less than another one's. */
    const qsf_layer l = { .n_experts = 6, .n_used = 2, .router = QSF_ROUTER_CHOSEN, .n_groups = 2,
                          .n_groups_used = 1 };
    const float logits[] = { 9, 0, 0, 5, 6, 1 };
    uint32_t chosen[2];
    float w[2];
    choose(&l, logits, NULL, chosen, w);
    CHECK_EQ(chosen[0], 3);
    CHECK_EQ(chosen[1], 4);
}

TEST(router_always_finds_different_experts)
{
    const qsf_layer l = { .n_experts = 4, .n_used = 3, .router = QSF_ROUTER_SIGMOID };
    const float bad[][4] = { { NAN, NAN, NAN, NAN }, { INFINITY, -INFINITY, NAN, 0 }, { 1, 1, 1, 1 } };
    uint32_t chosen[3];
    float w[3];
    for (size_t i = 0; i < QSF_ARRAY_LEN(bad); i++) {
        choose(&l, bad[i], NULL, chosen, w);
        CHECK(chosen[0] < chosen[1] && chosen[1] < chosen[2] && chosen[2] < 4);
    }
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    RUN(router_takes_the_best_in_order_of_experts);
    RUN(router_bias_counts_for_choosing_only);
    RUN(router_chooses_within_the_best_groups);
    RUN(router_always_finds_different_experts);
    return test_end();
}
