/* Doubles and decimal digits, by whole numbers of any size: both sides of a comparison are made
 * whole by powers of 2 and 10.
 * SPDX-License-Identifier: MIT */
#include "text/decimal.h"

/* 2^1075 times 62 digits, or 10^386 times a mantissa, takes 1340 bits. */
typedef struct big { uint32_t w[44], n; } big;

static void big_mul(big *b, uint32_t by, uint32_t plus)
{
    uint64_t carry = plus;
    for (uint32_t i = 0; i < b->n; i++) {
        carry += (uint64_t)b->w[i] * by;
        b->w[i] = (uint32_t)carry;
        carry >>= 32;
    }
    if (carry && b->n < QSF_ARRAY_LEN(b->w)) b->w[b->n++] = (uint32_t)carry;
}
static void big_set(big *b, uint64_t v)
{
    b->w[0] = (uint32_t)v;
    b->w[1] = (uint32_t)(v >> 32);
    b->n = b->w[1] ? 2 : b->w[0] ? 1 : 0;
}
static void big_times(big *b, uint32_t base, int power)       /* 10^9 and 2^28 at once */
{
    const int step = base == 10 ? 9 : 28;
    const uint32_t many = base == 10 ? 1000000000u : 1u << 28;
    for (; power >= step; power -= step) big_mul(b, many, 0);
    for (; power > 0; power--) big_mul(b, base, 0);
}
static int big_compare(const big *a, const big *b)
{
    if (a->n != b->n) return a->n < b->n ? -1 : 1;
    for (uint32_t i = a->n; i-- > 0;)
        if (a->w[i] != b->w[i]) return a->w[i] < b->w[i] ? -1 : 1;
    return 0;
}
static void big_minus(big *a, const big *b)           /* a >= b */
{
    uint64_t borrow = 0;
    for (uint32_t i = 0; i < a->n; i++) {
        const uint64_t d = (uint64_t)a->w[i] - (i < b->n ? b->w[i] : 0) - borrow;
        a->w[i] = (uint32_t)d;
        borrow = d >> 63;
    }
    while (a->n && !a->w[a->n - 1]) a->n--;
}

static uint64_t double_bits(double x) { uint64_t u; memcpy(&u, &x, 8); return u; }
static double bits_double(uint64_t u) { double x; memcpy(&x, &u, 8); return x; }
static uint64_t bits_mantissa(uint64_t bits, int *exponent)
{
    const int e = (int)(bits >> 52);
    *exponent = e ? e - 1075 : -1074;
    return (bits & (((uint64_t)1 << 52) - 1)) | (uint64_t)(e != 0) << 52;
}

/* Adds one in the last place; returns the new number of digits. */
static int digits_up(char *digits, int n, int *point)
{
    int i = n;
    while (i > 0 && digits[i - 1] == '9') digits[--i] = '0';
    if (i) {
        digits[i - 1]++;
        return n;
    }
    digits[0] = '1';                    /* 999 is 1000 now */
    if (!n) n = 1;
    ++*point;
    return n;
}

/* up: away from zero, whatever is left. */
static int digits_make(double x, bool places, int count, bool up, char *digits, int *point)
{
    int e, k, n;
    big r, s;
    big_set(&r, bits_mantissa(double_bits(x), &e));
    big_set(&s, 1);
    big_times(e < 0 ? &s : &r, 2, e < 0 ? -e : e);
    k = (int)floor(log(x) * 0.43429448190325182765);
    big_times(k < 0 ? &r : &s, 10, k < 0 ? -k : k);
    if (big_compare(&r, &s) >= 0) big_mul(&s, 10, 0), k++;      /* now r / s < 1, and not below 0.1 */
    big ten = r;
    big_mul(&ten, 10, 0);
    if (big_compare(&ten, &s) < 0) r = ten, k--;
    *point = k;
    if (places) count += k;
    if (count > QSF_DECIMAL_DIGITS - 1 || count < 0) return 0;
    for (n = 0; n < count; n++) {
        char d = '0';
        big_mul(&r, 10, 0);
        for (; big_compare(&r, &s) >= 0; d++) big_minus(&r, &s);
        digits[n] = d;
    }
    big_mul(&r, 2, 0);
    const int half = big_compare(&r, &s);
    if (up || half > 0 || (!half && n && digits[n - 1] % 2)) {
        const int before = *point;
        n = digits_up(digits, n, point);
        if (places && *point > before && count) digits[n++] = '0';
    }
    return n;
}

int qsf_decimal_digits(double x, qsf_decimal_form form, int count, char digits[QSF_DECIMAL_DIGITS],
                       int *point)
{
    *point = 0;
    if (x == 0) {
        digits[0] = '0';
        *point = 1;
        return form != QSF_DECIMAL_PLACES;
    }
    if (form != QSF_DECIMAL_SHORTEST)
        return digits_make(x, form == QSF_DECIMAL_PLACES, count, false, digits, point);
    /* The nearest is not always within reach where the next smaller double is nearer than the next
     * larger one: at powers of 2. */
    const bool lopsided = !(double_bits(x) & (((uint64_t)1 << 52) - 1));
    for (int tries = 0;; tries++) {
        const int want = tries / 2 + 1;
        if (tries % 2 && !lopsided) continue;
        int n = digits_make(x, false, want, tries % 2, digits, point);
        if (want < 17 && qsf_decimal_read(digits, (size_t)n, *point - n) != x) continue;
        while (n > 1 && digits[n - 1] == '0') n--;
        return n;
    }
}

/* value * 10^exponent against the middle between a double and the next larger one. */
static int compare_middle(const big *value, int exponent, uint64_t bits)
{
    int e;
    big v = *value, middle;
    big_set(&middle, 2 * bits_mantissa(bits, &e) + 1);
    e--;
    big_times(exponent < 0 ? &middle : &v, 10, exponent < 0 ? -exponent : exponent);
    big_times(e < 0 ? &v : &middle, 2, e < 0 ? -e : e);
    return big_compare(&v, &middle);
}

double qsf_decimal_read(const char *digits, size_t n, int exponent)
{
    const uint64_t infinity = (uint64_t)0x7ff << 52;
    big value = { .n = 0 };
    int taken = 0;
    bool point = false, rest = false;
    double guess = 0;
    for (size_t i = 0; i < n; i++) {
        if (digits[i] == '.') {
            point = true;
            continue;
        }
        if (taken < 60) {
            if (value.n || digits[i] != '0') taken++;
            if (taken) big_mul(&value, 10, (uint32_t)(digits[i] - '0'));
            if (!value.n && digits[i] != '0') big_set(&value, (uint64_t)(digits[i] - '0'));
            guess = 10 * guess + (digits[i] - '0');
            exponent -= point;
        } else {
            rest |= digits[i] != '0';
            exponent += !point;
        }
    }
    if (rest) big_mul(&value, 10, 1), exponent--;           /* a little more than the digits so far */
    if (!value.n || taken + exponent < -330) return 0;
    if (taken + exponent > 310) return bits_double(infinity);
    double power = 10;
    for (int left = exponent < 0 ? -exponent : exponent; left; left /= 2, power *= power)
        if (left % 2) guess = exponent < 0 ? guess / power : guess * power;
    uint64_t bits = QSF_MIN(double_bits(guess), infinity - 1);
    for (int c; bits < infinity && ((c = compare_middle(&value, exponent, bits)) > 0 || (!c && bits % 2));)
        bits++;
    for (int c; bits && ((c = compare_middle(&value, exponent, bits - 1)) < 0 || (!c && bits % 2));) bits--;
    return bits_double(bits);
}

size_t qsf_decimal_repr(double x, char out[32])
{
    char digits[QSF_DECIMAL_DIGITS];
    int point;
    size_t len = 0;
    if (x != x) return qsf_format(out, 32, "nan");
    if (signbit(x)) out[len++] = '-';
    if (fabs(x) > DBL_MAX) return len + qsf_format(out + len, 32 - len, "inf");
    const int n = qsf_decimal_digits(fabs(x), QSF_DECIMAL_SHORTEST, 0, digits, &point);
    const bool plain = point > -4 && point <= 16;
    if (plain && point <= 0) out[len++] = '0';
    const int before = !plain ? 1 : point;
    for (int i = QSF_MIN(before, 0); i < n || i < before; i++) {
        if (i == (plain && point <= 0 ? before : -1)) out[len++] = '.';
        if (i == before && before > 0) out[len++] = '.';
        out[len++] = i >= 0 && i < n ? digits[i] : '0';
    }
    if (plain && n <= before) out[len++] = '.', out[len++] = '0';
    out[len] = 0;
    return plain ? len
                 : len + qsf_format(out + len, 32 - len, "e%c%02d", point > 0 ? '+' : '-',
                                    point > 0 ? point - 1 : 1 - point);
}
