/* Sine, cosine, logarithm and powers for the engine's modules.  Those of C libraries have tables
 * for angles that no position has, and for speed that is not needed here: 16 KB, compressed.
 * SPDX-License-Identifier: MIT */
#include "base/base.h"

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

static const double maths_ln2[2] = { 0x1.62e42fp-1, 0x1.df473de6af279p-26 };   /* 24 bits, and the rest */

/* log x = hi + lo to 60 bits.  x = 2^e * m, and log m = 2 artanh s with s = (m - 1) / (m + 1).  s
 * is a float and a rest, as is what divides it: their products are exact. */
static double maths_log(double x, double *lo)
{
    int e;
    double m = frexp(x, &e), sum = 0;
    if (m < 0.70710678118654752440) m *= 2, e--;
    const double below = m + 1, b = (float)below, c = below - b + (m - (below - 1)), s = (m - 1) / below,
        first = (float)s, rest = (m - 1 - first * b - first * c) / below;
    for (int k = 23; k > 1; k -= 2) sum = sum * s * s + 1. / k;
    const double whole = e * maths_ln2[0], hi = whole + 2 * first;
    *lo = whole - hi + 2 * first + 2 * (rest + s * s * s * sum) + e * maths_ln2[1];
    return hi;
}
double log(double x)
{
    double lo;
    if (!(x > 0) || x == INFINITY) return x == 0 ? -INFINITY : x > 0 ? x : NAN;
    return maths_log(x, &lo) + lo;
}

/* Of finite numbers, and exponents below 2^40. */
static double maths_pow(double x, double y)
{
    if (x < 0 && y == rint(y)) return rint(y / 2) * 2 == y ? maths_pow(-x, y) : -maths_pow(-x, y);
    if (x == 0) return y > 0 ? 0 : y == 0 ? 1 : INFINITY;
    if (!(x > 0 && x <= DBL_MAX && fabs(y) < 0x1p40)) return NAN;
    double lo, sum = 1;
    const double hi = maths_log(x, &lo), y0 = (float)y, hi0 = (float)hi, product = y0 * hi0,
        n = rint(QSF_MAX(-2000, QSF_MIN(product * 1.44269504088896340736, 2000))),
        z = product - n * maths_ln2[0] + ((y - y0) * hi + y0 * (hi - hi0) + y * lo - n * maths_ln2[1]);
    for (int k = 15; k > 2; k--) sum = 1 + z * sum / k;
    return ldexp(1 + z + (z - (1 + z - 1) + z * z / 2 * sum), (int)n);
}
double pow(double x, double y) { return maths_pow(x, y); }
/* What compilers make of pow(2, x). */
double exp2(double x) { return maths_pow(2, x); }
