/* The modules' own sine, cosine and logarithm against the C library's.
 * SPDX-License-Identifier: MIT */
#include "base/libc.h"
#include "test.h"

#define sin own_sin
#define cos own_cos
#define log own_log
#include "../platform/wasm/maths.c"
#undef sin
#undef cos
#undef log

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

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    RUN(angles_are_right_to_the_last_bits);
    RUN(logarithms_are_right_to_the_last_bits);
    return test_end();
}
