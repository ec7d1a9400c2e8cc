/* Sine, cosine and logarithm for the engine's modules.  Those of C libraries bring tables for
 * angles that no position has, and for speed that nothing here needs: 9 KB, compressed.
 * SPDX-License-Identifier: MIT */
#include "base/libc.h"

/* 1 - x/f[0] * (1 - x/f[1] * (1 - ...)): the Taylor series of a sine or cosine. */
static double maths_series(double x, const double f[9])
{
    double sum = 1;
    for (int i = 9; i-- > 0;) sum = 1 - x * f[i] * sum;
    return sum;
}

/* sin(x + quarters * pi / 2), in double precision for |x| below 2^23.  pi/2 is in parts of 30 bits,
 * whose products with a number of turns are exact. */
static double maths_turned(double x, unsigned quarters)
{
    static const double sine[9] = { 1. / 6, 1. / 20, 1. / 42, 1. / 72, 1. / 110, 1. / 156, 1. / 210, 1. / 272,
                                    1. / 342 },
        cosine[9] = { 1. / 2, 1. / 12, 1. / 30, 1. / 56, 1. / 90, 1. / 132, 1. / 182, 1. / 240, 1. / 306 };
    const double n = rint(x * 0.63661977236758134308);
    if (!(fabs(n) < 0x1p62)) return NAN;
    const double r = x - n * 0x1.921fb54p0 - n * 0x1.10b46118p-30 - n * 0x1.313198a2e037p-61;
    quarters += (unsigned)(int64_t)n;
    const double y = quarters & 1 ? maths_series(r * r, cosine) : r * maths_series(r * r, sine);
    return quarters & 2 ? -y : y;
}
double sin(double x) { return maths_turned(x, 0); }
double cos(double x) { return maths_turned(x, 1); }

/* x = 2^e * m, and log m = 2 artanh((m - 1) / (m + 1)). */
double log(double x)
{
    int e;
    if (!(x > 0) || x == INFINITY) return x == 0 ? -INFINITY : x > 0 ? x : NAN;
    double m = frexp(x, &e), sum = 0;
    if (m < 0.70710678118654752440) m *= 2, e--;
    const double s = (m - 1) / (m + 1);
    for (int k = 23; k > 0; k -= 2) sum = sum * s * s + 1. / k;
    return e * 0.69314718055994530942 + 2 * s * sum;
}
