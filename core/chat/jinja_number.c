/* Jinja: numbers: arithmetic, numbers that are written in texts, filters.
 * SPDX-License-Identifier: MIT */
#include "text/decimal.h"
#include "chat/jinja_own.h"

static double number_float(const jinja_value *v)
{
    return v->type == QSF_JINJA_FLOAT ? v->as.f : (double)v->as.i;
}
static jinja_value float_value(double f) { return (jinja_value){ .type = QSF_JINJA_FLOAT, .as.f = f }; }
static bool number_large(jinja_run *r)
{
    return qsf_jinja_unknown(r, "whole numbers this large are not supported");
}

/* ---- arithmetic ---- */

static bool whole_power(jinja_run *r, int64_t a, int64_t b, jinja_value *out)
{
    const int64_t root = 3037000499;            /* beyond this a square does not fit */
    int64_t p = 1;
    if (b > 64 && (a > 1 || a < -1)) return number_large(r);
    for (int64_t i = 0; i < (b > 64 ? 64 + b % 2 : b); i++) {
        if ((p > root || p < -root || a > root || a < -root) && (a > 2 || a < -2 || p > INT64_MAX / 4))
            return number_large(r);
        p *= a;
    }
    return qsf_jinja_give_int(out, p);
}

static bool whole_operation(jinja_run *r, jinja_op op, int64_t a, int64_t b, jinja_value *out)
{
    const int64_t half = INT64_MAX / 2, root = 3037000499;
    const bool small = a <= half && a >= -half && b <= half && b >= -half;
    const bool product = (a <= root && a >= -root && b <= root && b >= -root) || !a || !b || a == 1 || b == 1;
    switch (op) {
    case JOP_ADD: *out = qsf_jinja_int(small ? a + b : 0); return small || number_large(r);
    case JOP_SUB: *out = qsf_jinja_int(small ? a - b : 0); return small || number_large(r);
    case JOP_MUL: *out = qsf_jinja_int(product ? a * b : 0); return product || number_large(r);
    case JOP_POW: return whole_power(r, a, b, out);
    default: {
        if (b == -1 && a == INT64_MIN) return number_large(r);
        const int64_t q = a / b - (a % b && (a < 0) != (b < 0));
        return qsf_jinja_give_int(out, op == JOP_FLOOR ? q : a - q * b);
    }
    }
}

static bool float_operation(jinja_run *r, jinja_op op, double x, double y, double *out)
{
    double rest;
    switch (op) {
    case JOP_ADD: *out = x + y; return true;
    case JOP_SUB: *out = x - y; return true;
    case JOP_MUL: *out = x * y; return true;
    case JOP_DIV: *out = x / y; return true;
    case JOP_POW:
        if (x < 0 && y != floor(y)) return qsf_jinja_unknown(r, "complex numbers are not supported");
        if (x == 0 && y < 0) return qsf_jinja_refuse(r, "division by zero");
        *out = pow(x, y);
        return fabs(*out) <= DBL_MAX || fabs(x) > DBL_MAX || fabs(y) > DBL_MAX || x != x || y != y
               || qsf_jinja_refuse(r, "a number is too large");
    default:                                    /* as Python's divmod */
        rest = fmod(x, y);
        *out = (x - rest) / y;
        if (rest != 0 && (rest < 0) != (y < 0)) rest += y, *out -= 1;
        if (op == JOP_MOD) *out = rest != 0 ? rest : y < 0 ? -0.0 : 0.0;
        else {
            const double low = floor(*out);
            *out = *out - low > 0.5 ? low + 1 : low;
        }
        return true;
    }
}

bool qsf_jinja_arithmetic(jinja_run *r, jinja_op op, const jinja_value *a, const jinja_value *b,
                          jinja_value *out)
{
    const uint8_t foreign = (a->flags | b->flags) & QSF_JINJA_FOREIGN;
    const bool whole = a->type != QSF_JINJA_FLOAT && b->type != QSF_JINJA_FLOAT;
    const double y = number_float(b);
    if ((op == JOP_DIV || op == JOP_FLOOR || op == JOP_MOD) && y == 0)
        return qsf_jinja_refuse(r, "division by zero");
    if (whole && op != JOP_DIV && !(op == JOP_POW && b->as.i < 0)) {
        if (!whole_operation(r, op, a->as.i, b->as.i, out)) return false;
    } else {
        double f = 0;
        if (!float_operation(r, op, number_float(a), y, &f)) return false;
        *out = float_value(f);
    }
    out->flags = foreign;
    return true;
}

/* ---- numbers in texts ---- */

static int digit_value(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'z' ? c - 'a' + 10
           : c >= 'A' && c <= 'Z' ? c - 'A' + 10 : 99;
}

/* Digits, single underscores between them, from *at on: how many bytes there are. */
static size_t digits_length(const char *s, size_t n, int base)
{
    size_t i = 0;
    while (i < n && (digit_value(s[i]) < base
                     || (s[i] == '_' && i && s[i - 1] != '_' && i + 1 < n && digit_value(s[i + 1]) < base)))
        i++;
    return i;
}

jinja_number_kind qsf_jinja_read_whole(const char *s, size_t n, int base, int64_t *out)
{
    const bool minus = n && *s == '-';
    uint64_t m = 0;
    if (n && (*s == '-' || *s == '+')) s++, n--;
    const int mark = n > 1 && *s == '0' ? s[1] | 32 : 0;
    const int marked = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 0;
    if (marked && (!base || base == marked)) {
        s += 2, n -= 2;
        if (n > 1 && *s == '_') s++, n--;
        base = marked;
    } else if (!base) {
        base = 10;
        for (size_t i = 1; n && *s == '0' && i < n; i++) if (s[i] != '0'
                                                             && s[i] != '_') return JINJA_NO_NUMBER;
    }
    if (!n || digits_length(s, n, base) != n) return JINJA_NO_NUMBER;
    for (; n; s++, n--) {
        if (*s == '_') continue;
        if (m > ((uint64_t)INT64_MAX - 36) / (uint64_t)base) return JINJA_LARGE;
        m = m * (uint64_t)base + (uint64_t)digit_value(*s);
    }
    *out = minus ? -(int64_t)m : (int64_t)m;
    return JINJA_NUMBER_READ;
}

jinja_number_kind qsf_jinja_read_float(const char *s, size_t n, double *out)
{
    static const char *const words[] = { "infinity", "inf", "nan" };
    char digits[128];
    size_t used = 0, i = 0, part;
    int64_t power = 0;
    const bool minus = n && *s == '-';
    if (n && (*s == '-' || *s == '+')) s++, n--;
    for (size_t k = 0; k < QSF_ARRAY_LEN(words); k++) {
        size_t same = 0;
        while (same < n && words[k][same] && (s[same] | 32) == words[k][same]) same++;
        if (same != n || words[k][same] || !n) continue;
        *out = k == 2 ? (double)NAN : minus ? -(double)INFINITY : (double)INFINITY;
        return JINJA_NUMBER_READ;
    }
    for (bool point = false;; point = true, i++) {
        part = digits_length(s + i, n - i, 10);
        for (size_t k = i; k < i + part; k++)
            if (s[k] != '_' && used + 2 < sizeof digits) digits[used++] = s[k];
            else if (s[k] != '_' && used + 2 >= sizeof digits) return JINJA_LARGE;
        i += part;
        if (point || i >= n || s[i] != '.') break;
        digits[used++] = '.';
    }
    if (used < 1 || (used == 1 && digits[0] == '.')) return JINJA_NO_NUMBER;
    if (i < n && (s[i] | 32) == 'e') {
        const bool below = ++i < n && s[i] == '-';
        if (i < n && (s[i] == '-' || s[i] == '+')) i++;
        part = digits_length(s + i, n - i, 10);
        if (!part) return JINJA_NO_NUMBER;
        for (; part; part--, i++) if (s[i] != '_' && power < 100000) power = 10 * power + (s[i] - '0');
        if (below) power = -power;
    }
    if (i != n) return JINJA_NO_NUMBER;
    *out = qsf_decimal_read(digits, used, (int)power);
    if (minus) *out = -*out;
    return JINJA_NUMBER_READ;
}

/* float(v) of Python; JINJA_NO_NUMBER: it raises TypeError or ValueError. */
static jinja_number_kind value_to_float(const jinja_value *v, double *out)
{
    if (qsf_jinja_is_number(v)) {
        *out = number_float(v);
        return JINJA_NUMBER_READ;
    }
    if (v->type != QSF_JINJA_TEXT && v->type != QSF_JINJA_BIG) return JINJA_NO_NUMBER;
    const jinja_value bare = qsf_jinja_trimmed(v);
    return qsf_jinja_read_float(bare.as.text, bare.n, out);
}

/* ---- filters ---- */

static bool filter_int(jinja_run *r, const jinja_value *v, const jinja_bound *b, jinja_value *out)
{
    const jinja_value unset = b->arg[0] ? *b->arg[0] : qsf_jinja_int(0);
    int64_t base = 10, n = 0;
    double f = 0;
    if (!qsf_jinja_whole(r, b->arg[1], false, &base)) return false;
    jinja_number_kind kind = JINJA_NO_NUMBER;
    *out = *v;
    if (v->type == QSF_JINJA_INT || v->type == QSF_JINJA_BIG) return true;
    if (v->type == QSF_JINJA_TEXT) {
        const jinja_value bare = qsf_jinja_trimmed(v);
        if (base != 0 && (base < 2 || base > 36)) return qsf_jinja_refuse(r, "a base is 2 to 36, or 0");
        for (uint32_t i = 0; i < bare.n; i++)
            if (bare.as.text[i] & 0x80) return qsf_jinja_unknown(r, "only the digits 0 to 9 are known");
        kind = qsf_jinja_read_whole(bare.as.text, bare.n, (int)base, &n);
    } else if (v->type == QSF_JINJA_BOOL) kind = JINJA_NUMBER_READ, n = v->as.i;
    if (kind == JINJA_NO_NUMBER) {
        kind = value_to_float(v, &f);
        *out = unset;
        if (kind == JINJA_NO_NUMBER || (kind == JINJA_NUMBER_READ && !(fabs(f) <= DBL_MAX))) return true;
        if (kind == JINJA_NUMBER_READ && fabs(f) < 9e18) n = (int64_t)f;
        else kind = JINJA_LARGE;
    }
    if (kind == JINJA_LARGE) return number_large(r);
    *out = qsf_jinja_int(n);
    out->flags = qsf_jinja_foreign(r, v) ? QSF_JINJA_FOREIGN : 0;
    return true;
}

static bool filter_float(jinja_run *r, const jinja_value *v, const jinja_bound *b, jinja_value *out)
{
    double f = 0;
    const jinja_number_kind kind = value_to_float(v, &f);
    if (kind == JINJA_LARGE) return number_large(r);
    *out = kind == JINJA_NUMBER_READ ? float_value(f) : b->arg[0] ? *b->arg[0] : float_value(0);
    if (kind == JINJA_NUMBER_READ) out->flags = qsf_jinja_foreign(r, v) ? QSF_JINJA_FOREIGN : 0;
    return true;
}

static bool filter_round(jinja_run *r, const jinja_value *v, const jinja_bound *b, jinja_value *out)
{
    const jinja_value common = qsf_jinja_text("common"), *method = b->arg[1] ? b->arg[1] : &common;
    char digits[QSF_DECIMAL_DIGITS];
    int64_t places = 0;
    int point;
    if (!qsf_jinja_whole(r, b->arg[0], qsf_jinja_text_is(method, "common"), &places)) return false;
    if (qsf_jinja_text_is(method, "common")) {
        *out = *v;
        if (v->type == QSF_JINJA_BOOL) out->type = QSF_JINJA_INT;
        if (v->type != QSF_JINJA_FLOAT && places < 0)
            return qsf_jinja_unknown(r, "rounding before the point is not supported");
        if (b->arg[0] && b->arg[0]->type == QSF_JINJA_NONE && v->type == QSF_JINJA_FLOAT) {
            *out = qsf_jinja_int((int64_t)nearbyint(v->as.f));
            return fabs(v->as.f) < 9e18 || number_large(r);
        }
        if (v->type != QSF_JINJA_FLOAT || places > 320 || !(fabs(v->as.f) <= DBL_MAX)) return true;
        const int n = places < -320 ? 0 : qsf_decimal_digits(fabs(v->as.f), QSF_DECIMAL_PLACES, (int)places,
                                                             digits, &point);
        const double f = n ? qsf_decimal_read(digits, (size_t)n, point - n) : 0;
        out->as.f = signbit(v->as.f) ? -f : f;
        return true;
    }
    const bool up = qsf_jinja_text_is(method, "ceil");
    if (!up && !qsf_jinja_text_is(method, "floor"))
        return qsf_jinja_refuse(r, "the method is common, ceil or floor");
    const jinja_value ten = qsf_jinja_int(10), exponent = qsf_jinja_int(places);
    jinja_value power, many;
    if (!qsf_jinja_arithmetic(r, JOP_POW, &ten, &exponent, &power)
        || !qsf_jinja_arithmetic(r, JOP_MUL, v, &power, &many))
        return false;
    if (many.type == QSF_JINJA_FLOAT) many.as.f = up ? ceil(many.as.f) : floor(many.as.f);
    if (many.type == QSF_JINJA_FLOAT && fabs(many.as.f) < 9e15) {
        many.as.i = (int64_t)many.as.f;
        many.type = QSF_JINJA_INT;
    }
    return qsf_jinja_arithmetic(r, JOP_DIV, &many, &power, out);
}

static bool filter_filesize(jinja_run *r, const jinja_value *v, const jinja_bound *b, jinja_value *out)
{
    const bool binary = jinja_flag(b->arg[0]);
    const double base = binary ? 1024 : 1000;
    double bytes, unit = base * base;
    const jinja_number_kind kind = value_to_float(v, &bytes);
    char text[64];
    int i = 0;
    if (kind != JINJA_NUMBER_READ || !(fabs(bytes) < 1e30))
        return qsf_jinja_refuse(r, "this is not a number of bytes");
    if (bytes == 1) qsf_format(text, sizeof text, "1 Byte");
    else if (bytes < base) qsf_format(text, sizeof text, "%lld Bytes", (long long)bytes);
    else {
        char digits[QSF_DECIMAL_DIGITS];
        int point;
        for (; i < 7 && bytes >= unit; i++) unit *= base;
        const int n = qsf_decimal_digits(base * bytes / unit, QSF_DECIMAL_PLACES, 1, digits, &point);
        qsf_format(text, sizeof text, "%.*s.%c %c%sB", n - 1, digits, digits[n - 1],
                   i || binary ? "KMGTPEZY"[i] : 'k', binary ? "i" : "");
    }
    jinja_sink s = qsf_jinja_begin_text(r);
    if (!qsf_jinja_put_number(r, &s, v, text, strlen(text))) return false;
    return qsf_jinja_finish(r, &s, out);
}

bool qsf_jinja_filter_number(jinja_run *r, int id, const jinja_value *v, const jinja_bound *b,
                             jinja_value *out)
{
    if (v->type == QSF_JINJA_UNDEFINED) return qsf_jinja_undefined(r, v);
    if (id == JF_INT) return filter_int(r, v, b, out);
    if (id == JF_FLOAT) return filter_float(r, v, b, out);
    if (id == JF_FILESIZEFORMAT) return filter_filesize(r, v, b, out);
    if (!qsf_jinja_is_number(v))
        return qsf_jinja_fail(r, QSF_E_ARGUMENT, "a number is needed, not %s", qsf_jinja_type_name(v));
    if (id == JF_ROUND) return filter_round(r, v, b, out);
    if (v->type == QSF_JINJA_FLOAT) {
        *out = *v;
        out->as.f = fabs(v->as.f);
        return true;
    }
    const jinja_value sign = qsf_jinja_int(v->as.i < 0 ? -1 : 1);
    return qsf_jinja_arithmetic(r, JOP_MUL, v, &sign, out);
}
