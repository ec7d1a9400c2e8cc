/* The modules' own sine, cosine, logarithm and powers against the C library's.
 * SPDX-License-Identifier: MIT */
#include "base/libc.h"
#include "test.h"

#define sin own_sin
#define cos own_cos
#define log own_log
#define pow own_pow
#define exp2 own_exp2
#include "../../platform/wasm/maths.c"
#undef sin
#undef cos
#undef log
#undef pow
#undef exp2

static double worst(double worst, double got, double want) { return fmax(worst, fabs(got - want)); }

TEST(angles_are_right_to_the_last_bits)
{
    double off = 0;
    for (double x = -8e6; x < 8e6; x += 7.5331)
        off = worst(worst(off, own_sin(x), sin(x)), own_cos(x), cos(x));
    for (double x = -4; x < 4; x += 1e-5) off = worst(worst(off, own_sin(x), sin(x)), own_cos(x), cos(x));
    for (double x = 1; x > 1e-300; x /= 3) off = worst(off, own_sin(x) / x, sin(x) / x);
    CHECK(off < 0x1p-51);
    CHECK(isnan(own_sin(INFINITY)) && isnan(own_cos(NAN)));
}

TEST(logarithms_are_right_to_the_last_bits)
{
    double off = 0;
    for (double x = 1e-300; x < 1e300; x *= 1.01) off = worst(off, own_log(x) / log(x), 1);
    for (double x = 0.4; x < 3; x += 1e-5) off = worst(off, own_log(x), log(x));
    CHECK(off < 0x1p-51);
    CHECK(own_log(1) == 0 && own_log(0) == -INFINITY && own_log(INFINITY) == INFINITY && isnan(own_log(-1)));
}

TEST(powers_are_right_to_the_last_bits)
{
    double off = 0;
    for (double base = 1.5; base < 1e9; base *= 1.9)
        for (double y = -3; y < 3; y += 0.00731) off = worst(off, own_pow(base, y) / pow(base, y), 1);
    for (double y = -300; y < 300; y++) off = worst(off, own_pow(10, y) / pow(10, y), 1);
    CHECK(off <= 0x1p-52);
    CHECK(own_pow(10000, 0) == 1 && own_pow(10000, -1) == 1e-4 && own_pow(2, 2000) == INFINITY);
    CHECK(own_pow(2, -2000) == 0 && isnan(own_pow(-2, 0.5)) && isnan(own_pow(2, NAN)));
    CHECK(own_pow(-2, 3) == -8 && own_pow(-2, -2) == 0.25 && own_pow(0, 2) == 0 && own_pow(0, 0) == 1);
}

TEST(powers_of_two_are_exact_and_slopes_are_the_same_floats)
{
    for (int n = -1022; n < 1024; n++) CHECK(own_exp2(n) == ldexp(1, n));
    for (int heads = 1; heads <= 128; heads *= 2)           /* as attention computes them */
        for (int i = 1; i <= 2 * heads; i++)
            CHECK((float)own_exp2(-8. / heads * i) == (float)exp2(-8. / heads * i));
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    RUN(angles_are_right_to_the_last_bits);
    RUN(logarithms_are_right_to_the_last_bits);
    RUN(powers_are_right_to_the_last_bits);
    RUN(powers_of_two_are_exact_and_slopes_are_the_same_floats);
    return test_end();
}
