/* The AMX products compiled for tile registers in plain C (tile_model.h), so that every machine
 * with AVX-512 checks them; the processor's own if it has them.
 * SPDX-License-Identifier: MIT */
#ifndef KERNELS_AMX_H
#define KERNELS_AMX_H

#include "matmul.h"
#include "sets.h"

#if defined(QSF_AMX)
#  include "tile_model.h"
#  define QSF_TILE_MODEL 1
#  define qsf_matmul_amx amx_by_model
#  define qsf_amx_agrees amx_by_model_agrees
static void amx_by_model(qsf_kernels *k);
static bool amx_by_model_agrees(const qsf_kernels *below);
#  include "matmul_amx.c"
#  undef qsf_matmul_amx
#  undef qsf_amx_agrees

/* Every form that the set brings, in shapes with many rows: the bits of the set below, and nothing
 * written between the rows. */
static void check_amx_bits(table_test *t, const qsf_kernels *below, const qsf_kernels *set)
{
    /* 1: extreme, 5: many columns; the last one, more than a band of rows, for three forms */
    static const struct { uint8_t round; uint16_t n; } shapes[] = {
        { 1, 33 }, { 2, 32 }, { 3, 47 }, { 8, 64 }, { 5, 40 }, { 10, 31 }, { 11, 273 },
    };
    const bool bands = t->form == QSF_F_4 || t->form == QSF_F_4Z || t->form == QSF_F_Q4K;
    for (size_t i = 0; i < QSF_ARRAY_LEN(shapes) - !bands; i++, guard_end(t)) {
        const size_t n = shapes[i].n;
        t->round = shapes[i].round;
        const matmul_case c = random_case(t, false, n);
        float *a = guard_rows(t, n, c.ldy, 16 * c.tiles), *b = guard_rows(t, n, c.ldy, 16 * c.tiles);
        below->matmul[t->form](a, c.ldy, c.w, &c.x, c.tiles, c.blocks, c.block);
        const int products = tile_model_state.products;
        set->matmul[t->form](b, c.ldy, c.w, &c.x, c.tiles, c.blocks, c.block);
        same_bytes(t, "y", a, b, 4 * ((n - 1) * c.ldy + 16 * c.tiles));
        if (tile_model_state.configured) miss(t, "tiles were not released");
        if (strcmp(set->isa, "amx") && (tile_model_state.products == products) != (n < AMX_LEAST))
            miss(t, "%d products of tiles", tile_model_state.products - products);
    }
}

/* of amx_has_the_bits_of_the_set_below */
static struct { const qsf_kernels *below, *set; uint64_t seed; } amx_bits;
TEST(amx_has_the_bits_of_the_set_below)
{
    int forms = 0;
    for (int form = 0; form < QSF_N_FORMS; form++) {
        static table_test t;
        if (amx_bits.set->matmul[form] == amx_bits.below->matmul[form]) continue;
        t.rng = amx_bits.seed ^ (uint64_t)form << 32, t.entry = form_names[form], t.form = form, forms++;
        if (run_check(&t, check_amx_bits, amx_bits.below, amx_bits.set)) test_failed = true;
    }
    CHECK_EQ(forms, 27);
}

TEST(amx_with_a_wrong_product_is_not_used)
{
    CHECK(amx_by_model_agrees(amx_bits.below));
    tile_model_state.wrong = 1;
    CHECK(!amx_by_model_agrees(amx_bits.below));
    tile_model_state.wrong = 0;
}
#endif

#endif
