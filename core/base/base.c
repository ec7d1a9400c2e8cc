/* Text and errors: what every core file needs and the C library's stdio would give.
 * SPDX-License-Identifier: MIT */
#include "base/base.h"

const char *qsf_version(void) { return QSF_VERSION; }

const char *qsf_status_name(qsf_status st)
{
    switch (st) {
#define X(num, name, text) case QSF_##name: return "QSF_" #name;
    QSF_STATUS_MAP(X)
#undef X
    }
    return "unknown status";
}

const char *qsf_status_text(qsf_status st)
{
    switch (st) {
#define X(num, name, text) case QSF_##name: return text;
    QSF_STATUS_MAP(X)
#undef X
    }
    return "unknown status";
}

/* ---- decimal digits of a double, exactly ---- */

enum {
    DECIMAL_BASE  = 1000000000,
    DECIMAL_WHOLE = 35,                            /* limbs of nine digits: DBL_MAX has 309 digits */
    DECIMAL_LIMBS = DECIMAL_WHOLE + 120,           /* 2^-1074 has 1074 digits after the point */
    DECIMAL_POINT = 9 * DECIMAL_WHOLE              /* the first digit after the point */
};

typedef struct decimal { uint8_t digit[9 * DECIMAL_LIMBS]; } decimal;

/* A double is an integer times a power of two.  The integer is put in limbs before the point and is
 * doubled or halved; a halving by 2^9 is exact in base 10^9. */
static void decimal_set(decimal *d, double x)
{
    uint32_t limb[DECIMAL_LIMBS] = { 0 };
    int e;
    const double m = frexp(x, &e);                 /* x = m * 2^e, m < 1 */
    uint64_t whole = (uint64_t)ldexp(m, 53);
    int first = DECIMAL_WHOLE, last = DECIMAL_WHOLE;   /* limbs [first, last) may be set */
    e -= 53;
    for (; whole; whole /= DECIMAL_BASE) limb[--first] = (uint32_t)(whole % DECIMAL_BASE);
    while (e > 0) {
        const int by = e < 29 ? e : 29;
        uint64_t carry = 0;
        for (int i = last - 1; i >= first; i--) {
            carry += (uint64_t)limb[i] << by;
            limb[i] = (uint32_t)(carry % DECIMAL_BASE);
            carry /= DECIMAL_BASE;
        }
        if (carry) limb[--first] = (uint32_t)carry;
        e -= by;
    }
    while (e < 0 && first < last) {
        const int by = e > -9 ? -e : 9;
        uint32_t carry = 0;
        for (int i = first; i < last; i++) {
            const uint32_t rest = limb[i] & ((1u << by) - 1);
            limb[i] = (limb[i] >> by) + carry;
            carry = (DECIMAL_BASE >> by) * rest;
        }
        if (carry) limb[last++] = carry;
        while (first < last && !limb[first]) first++;
        e += by;
    }
    for (int i = 0; i < DECIMAL_LIMBS; i++) {
        uint32_t v = limb[i];
        for (int k = 8; k >= 0; k--, v /= 10) d->digit[9 * i + k] = (uint8_t)(v % 10);
    }
}

static int decimal_first(const decimal *d)
{
    int i = 0;
    while (i < (int)sizeof d->digit && !d->digit[i]) i++;
    return i;
}

/* Keeps the digits before index `end`; rounds to nearest, halves to even. */
static void decimal_round(decimal *d, int end)
{
    if (end >= (int)sizeof d->digit || end < 1) return;
    bool up = d->digit[end] > 5;
    if (d->digit[end] == 5) {
        up = d->digit[end - 1] & 1;
        for (int i = end + 1; i < (int)sizeof d->digit; i++) up |= d->digit[i] != 0;
    }
    memset(d->digit + end, 0, sizeof d->digit - (size_t)end);
    for (int i = end - 1; up && i >= 0; i--) {
        up = d->digit[i] == 9;
        d->digit[i] = up ? 0 : (uint8_t)(d->digit[i] + 1);
    }
}

/* ---- formatting ---- */

typedef struct text_out { char *at; size_t cap, len; } text_out;

static void text_put(text_out *o, char c)
{
    if (o->len + 1 < o->cap) o->at[o->len] = c;
    o->len++;
}

static void text_fill(text_out *o, char c, int n)
{
    while (n-- > 0) text_put(o, c);
}

/* precision -1: none given */
typedef struct text_spec { bool left, zero; int width, precision; } text_spec;

/* A sign ('-' or 0) and a body, brought to the width. */
static void text_field(text_out *o, const text_spec *f, bool minus, const char *body, size_t len)
{
    const int pad = f->width - (int)len - minus;
    if (!f->left && !f->zero) text_fill(o, ' ', pad);
    if (minus) text_put(o, '-');
    if (!f->left && f->zero) text_fill(o, '0', pad);
    for (size_t i = 0; i < len; i++) text_put(o, body[i]);
    if (f->left) text_fill(o, ' ', pad);
}

static void text_integer(text_out *o, const text_spec *f, uint64_t v, bool minus, unsigned base)
{
    char body[64 + 1], *p = body + sizeof body;
    int digits = f->precision < 0 ? 1 : QSF_MIN(f->precision, 64);
    for (; v || digits > 0; v /= base, digits--) *--p = "0123456789abcdef"[v % base];
    text_field(o, f, minus, p, (size_t)(body + sizeof body - p));
}

/* Digits [from, end) with a point before digit DECIMAL_POINT. */
static size_t decimal_fixed(const decimal *d, int from, int end, char *body)
{
    size_t len = 0;
    for (int i = from; i < end; i++) {
        if (i == DECIMAL_POINT) body[len++] = '.';
        body[len++] = (char)('0' + d->digit[i]);
    }
    return len;
}

enum { DECIMAL_MOST = 60 };    /* digits after the point that a format can request */

static void text_fixed(text_out *o, const text_spec *f, double x)
{
    const int precision = f->precision < 0 ? 6 : QSF_MIN(f->precision, DECIMAL_MOST);
    char body[DECIMAL_POINT + 1 + DECIMAL_MOST];
    decimal d;
    decimal_set(&d, fabs(x));
    decimal_round(&d, DECIMAL_POINT + precision);
    const int from = QSF_MIN(decimal_first(&d), DECIMAL_POINT - 1);
    text_field(o, f, signbit(x), body, decimal_fixed(&d, from, DECIMAL_POINT + precision, body));
}

/* %g: `precision` digits that count, without zeros at the end;
 * very large and small numbers with an exponent. */
static void text_general(text_out *o, const text_spec *f, double x)
{
    const int precision = f->precision < 0 ? 6 : QSF_MAX(1, QSF_MIN(f->precision, DECIMAL_MOST));
    char body[DECIMAL_MOST + 16];
    decimal d;
    size_t len = 0;
    decimal_set(&d, fabs(x));
    decimal_round(&d, decimal_first(&d) + precision);
    int from = decimal_first(&d), end = (int)sizeof d.digit;
    if (from == end) from = DECIMAL_POINT - 1;       /* zero has one digit too */
    while (end > from + 1 && !d.digit[end - 1]) end--;
    int exponent = DECIMAL_POINT - 1 - from;
    if (exponent >= -4 && exponent < precision) {
        len = decimal_fixed(&d, QSF_MIN(from, DECIMAL_POINT - 1), QSF_MAX(end, DECIMAL_POINT), body);
    } else {
        body[len++] = (char)('0' + d.digit[from]);
        for (int i = from + 1; i < end; i++) {
            if (i == from + 1) body[len++] = '.';
            body[len++] = (char)('0' + d.digit[i]);
        }
        body[len++] = 'e';
        body[len++] = exponent < 0 ? '-' : '+';
        if (exponent < 0) exponent = -exponent;
        if (exponent >= 100) body[len++] = (char)('0' + exponent / 100);
        body[len++] = (char)('0' + exponent / 10 % 10);
        body[len++] = (char)('0' + exponent % 10);
    }
    text_field(o, f, signbit(x), body, len);
}

static void text_double(text_out *o, const text_spec *f, double x, bool fixed)
{
    text_spec plain = *f;
    plain.zero = false;
    if (isnan(x)) text_field(o, &plain, false, "nan", 3);
    else if (isinf(x)) text_field(o, &plain, x < 0, "inf", 3);
    else if (fixed) text_fixed(o, f, x);
    else text_general(o, f, x);
}

static void text_string(text_out *o, const text_spec *f, const char *s)
{
    size_t len = 0;
    text_spec plain = *f;
    plain.zero = false;
    if (!s) s = "(none)";
    while ((f->precision < 0 || len < (size_t)f->precision) && s[len]) len++;
    text_field(o, &plain, false, s, len);
}

/* va_list in a struct passed by pointer, so that functions can share it on every ABI. */
typedef struct text_args { va_list list; } text_args;

static int text_number(const char **fmt, text_args *args)
{
    int n = 0;
    if (**fmt == '*') {
        (*fmt)++;
        return va_arg(args->list, int);
    }
    for (; **fmt >= '0' && **fmt <= '9'; (*fmt)++) n = n < 10000 ? n * 10 + (**fmt - '0') : n;
    return n;
}

static int64_t text_signed(text_args *args, int longs)
{
    if (longs == 0) return va_arg(args->list, int);
    if (longs == 1) return va_arg(args->list, long);
    if (longs == 2) return va_arg(args->list, long long);
    return (int64_t)va_arg(args->list, ptrdiff_t);
}

static uint64_t text_unsigned(text_args *args, int longs)
{
    if (longs == 0) return va_arg(args->list, unsigned);
    if (longs == 1) return va_arg(args->list, unsigned long);
    if (longs == 2) return va_arg(args->list, unsigned long long);
    return va_arg(args->list, size_t);
}

/* One conversion; fmt points after the '%'.  Returns the position after the conversion. */
static const char *text_convert(text_out *o, const char *fmt, text_args *args)
{
    text_spec f = { false, false, 0, -1 };
    int longs = 0;
    for (; *fmt == '-' || *fmt == '0'; fmt++) {
        if (*fmt == '-') f.left = true;
        else f.zero = true;
    }
    f.width = text_number(&fmt, args);
    if (f.width < 0) {
        f.left = true;
        f.width = -f.width;
    }
    if (*fmt == '.') {
        fmt++;
        f.precision = text_number(&fmt, args);
    }
    for (; *fmt == 'l' || *fmt == 'z'; fmt++) longs = *fmt == 'z' ? 3 : longs + 1;
    switch (*fmt) {
    case 'd': case 'i': {
        const int64_t v = text_signed(args, longs);
        text_integer(o, &f, v < 0 ? 0 - (uint64_t)v : (uint64_t)v, v < 0, 10);
        break;
    }
    case 'u': text_integer(o, &f, text_unsigned(args, longs), false, 10); break;
    case 'x': text_integer(o, &f, text_unsigned(args, longs), false, 16); break;
    case 'f': text_double(o, &f, va_arg(args->list, double), true); break;
    case 'g': text_double(o, &f, va_arg(args->list, double), false); break;
    case 's': text_string(o, &f, va_arg(args->list, const char *)); break;
    case 'c': {
        const char c = (char)va_arg(args->list, int);
        f.zero = false;
        text_field(o, &f, false, &c, 1);
        break;
    }
    case '%': text_put(o, '%'); break;
    default:
        assert(!"a conversion that qsf_format does not support");
        return fmt;
    }
    return fmt + 1;
}

size_t qsf_vformat(char *out, size_t cap, const char *fmt, va_list args)
{
    text_out o = { out, cap, 0 };
    text_args a;
    va_copy(a.list, args);
    while (*fmt) {
        if (*fmt != '%') text_put(&o, *fmt++);
        else fmt = text_convert(&o, fmt + 1, &a);
    }
    va_end(a.list);
    if (cap) out[QSF_MIN(o.len, cap - 1)] = 0;
    return o.len;
}

size_t qsf_format(char *out, size_t cap, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const size_t len = qsf_vformat(out, cap, fmt, args);
    va_end(args);
    return len;
}

/* The character at p in a zero-terminated string, and its length; 0xffffffff if it is not UTF-8. */
static uint32_t text_character(const unsigned char *p, size_t *len)
{
    static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
    const size_t n = *p < 0x80 ? 1 : *p < 0xc2 || *p > 0xf4 ? 0 : *p < 0xe0 ? 2 : *p < 0xf0 ? 3 : 4;
    uint32_t c = n == 1 ? *p : n ? *p & (0x7fu >> n) : 0xffffffffu;
    *len = 1;
    for (size_t i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80) return 0xffffffffu;
        c = c << 6 | (p[i] & 0x3fu);
    }
    if (n > 1 && (c < least[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))) return 0xffffffffu;
    if (n) *len = n;
    return c;
}

static bool text_steers(uint32_t c)
{
    if (c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x61c || c > 0x10ffff) return true;
    return c == 0x200e || c == 0x200f || (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

void qsf_visible(char *text)
{
    size_t len, to = 0;
    for (size_t at = 0; text[at]; at += len) {
        if (text_steers(text_character((const unsigned char *)text + at, &len))) {
            text[to++] = '?';
        } else {
            memmove(text + to, text + at, len);
            to += len;
        }
    }
    text[to] = 0;
}

qsf_status qsf_fail(qsf_error *err, qsf_status st, const char *fmt, ...)
{
    va_list args;
    if (!err) return st;
    err->status = st;
    va_start(args, fmt);
    qsf_vformat(err->text, sizeof err->text, fmt, args);
    va_end(args);
    qsf_visible(err->text);
    return st;
}
