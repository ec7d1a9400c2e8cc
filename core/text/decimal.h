/* Decimal digits of doubles and back, exactly rounded, as Python and JSON have them.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_DECIMAL_H
#define QSF_DECIMAL_H

#include "base/base.h"

enum { QSF_DECIMAL_DIGITS = 400 };      /* the most that are made at once */

typedef enum qsf_decimal_form {
    QSF_DECIMAL_SHORTEST,       /* the fewest digits that mean this number and no other */
    QSF_DECIMAL_SIGNIFICANT,    /* count digits in all, at least 1 */
    QSF_DECIMAL_PLACES          /* count digits after the point; negative: before it */
} qsf_decimal_form;

/* Digits of a finite x >= 0, rounded to nearest, ties to even: x is 0.D1D2D3... * 10^*point, and D1
 * is not 0 unless x is.  Returns the number of digits; 0: x rounds to 0 (with PLACES), or
 * QSF_DECIMAL_DIGITS do not suffice. */
int qsf_decimal_digits(double x, qsf_decimal_form form, int count, char digits[QSF_DECIMAL_DIGITS],
                       int *point);

/* The double nearest to digits[0..n) * 10^exponent; digits may have a point among them. */
double qsf_decimal_read(const char *digits, size_t n, int exponent);

/* repr(x) of Python, terminated; returns its length. */
size_t qsf_decimal_repr(double x, char out[32]);

#endif
