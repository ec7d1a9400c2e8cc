/* JSON Schema, numbers: bounds and multiples as texts of digits.
 * SPDX-License-Identifier: MIT
 *
 * A bound is enforced digit by digit: a number is larger if it has more digits, or if the first
 * digit that differs is larger.  Magnitudes only; the sign decides which bound is which. */
#include "grammar/schema_own.h"

enum { NUMBER_MAX_STATES = 20000 };

bool qsf_schema_decimal_of(const qsf_json_node *v, schema_decimal *out)
{
    const char *c = v->text;
    int32_t point = -1, exponent = 0, n = 0, zeros;
    *out = (schema_decimal){ .minus = *c == '-' };
    for (c += *c == '-'; (*c >= '0' && *c <= '9') || *c == '.'; c++) {
        if (*c == '.') point = n;
        else if (n == (int32_t)sizeof out->digits) return false;
        else out->digits[n++] = *c;
    }
    if (point < 0) point = n;
    if (*c) {
        const bool below = c[1] == '-';
        for (c += 1 + (c[1] == '-' || c[1] == '+'); *c; c++)
            if (exponent < 100000) exponent = 10 * exponent + (*c - '0');
        if (below) exponent = -exponent;
    }
    for (zeros = 0; zeros < n && out->digits[zeros] == '0'; zeros++) {}
    memmove(out->digits, out->digits + zeros, (size_t)(n - zeros));
    n -= zeros;
    point += exponent - zeros;
    while (n && out->digits[n - 1] == '0') n--;
    if (!n) point = 1, out->minus = false;
    /* pads with zeros before or after, so that the point is inside and follows a digit */
    const int32_t front = point < 1 ? 1 - point : 0, len = QSF_MAX(n + front, point);
    if (len > (int32_t)sizeof out->digits) return false;
    memmove(out->digits + front, out->digits, (size_t)n);
    memset(out->digits, '0', (size_t)front);
    if (len > n + front) memset(out->digits + n + front, '0', (size_t)(len - n - front));
    out->whole = (uint16_t)QSF_MAX(point, 1);
    out->n = (uint16_t)QSF_MAX(len, out->whole);
    return true;
}

static bool is_zero(const schema_decimal *x) { return x->n == 1 && x->digits[0] == '0'; }

static int compare_magnitude(const schema_decimal *x, const schema_decimal *y)
{
    if (x->whole != y->whole) return x->whole < y->whole ? -1 : 1;
    const int c = memcmp(x->digits, y->digits, QSF_MIN(x->n, y->n));
    return c ? c : (int)x->n - (int)y->n;
}

int qsf_schema_decimal_compare(const schema_decimal *x, const schema_decimal *y)
{
    if (x->minus != y->minus) return x->minus ? -1 : 1;
    return x->minus ? compare_magnitude(y, x) : compare_magnitude(x, y);
}

/* ---- digits ---- */

typedef struct bound { schema_decimal x; bool there, strict; } bound;

static qsf_gnode join(schema *s, qsf_gnode a, qsf_gnode b, qsf_gnode c)
{
    return qsf_schema_sequence(s, qsf_schema_sequence(s, a, b), c);
}
static qsf_gnode maybe(schema *s, qsf_gnode x) { return qsf_schema_either(s, s->empty, x); }
static qsf_gnode times(schema *s, qsf_gnode x, uint32_t least, uint32_t most)
{
    return qsf_g_repeat(s->b, x, least, most);
}

static qsf_gnode between(schema *s, uint32_t from, uint32_t to)
{
    const uint32_t range[1][2] = { { from, to } };
    return from > to ? s->none : qsf_g_class(s->b, range, 1, false);
}
static qsf_gnode digit_text(schema *s, char c) { return qsf_g_bytes(s->b, &c, 1); }

/* How a whole number may end: in any writing ".0", ".00", ... or nothing.  plain: only nothing, as
 * many programs read no integer from "1.0". */
static qsf_gnode whole_end(schema *s)
{
    if (s->plain) return s->empty;
    return maybe(s, qsf_schema_sequence(s, qsf_schema_bytes(s, "."),
                                        times(s, qsf_schema_bytes(s, "0"), 1, QSF_G_NO_MOST)));
}
static qsf_gnode no_fraction(schema *s) { return s->draft == DRAFT4 ? s->empty : whole_end(s); }
static qsf_gnode any_fraction(schema *s, bool whole)
{
    return whole ? no_fraction(s)
                 : maybe(s, qsf_schema_sequence(s, qsf_schema_bytes(s, "."),
                                                times(s, s->digit, 1, QSF_G_NO_MOST)));
}
static qsf_gnode more_digits(schema *s, uint32_t least, uint32_t most)      /* after a nonzero digit */
{
    return qsf_schema_sequence(s, between(s, '1', '9'), times(s, s->digit, least, most));
}

/* What may follow digits that equal the whole digits of x. */
static qsf_gnode fraction_of(schema *s, const bound *b, bool above, bool whole)
{
    const schema_decimal *x = &b->x;
    const qsf_gnode zeros = times(s, qsf_schema_bytes(s, "0"), 0, QSF_G_NO_MOST);
    if (x->n == x->whole) {
        if (!b->strict)
            return above ? any_fraction(s, whole)
                         : qsf_schema_either(
                               s, no_fraction(s),
                               whole ? s->none
                                     : qsf_schema_sequence(s, qsf_schema_bytes(s, "."),
                                                           times(s, qsf_schema_bytes(s, "0"), 1,
                                                                 QSF_G_NO_MOST)));
        return !above || whole ? s->none
                               : qsf_schema_sequence(s, qsf_schema_bytes(s, "."),
                                                     join(s, zeros, between(s, '1', '9'), s->digits));
    }
    if (whole) return above ? s->none : no_fraction(s);
    qsf_gnode y = above       ? b->strict ? join(s, zeros, between(s, '1', '9'), s->digits) : s->digits
                  : b->strict ? s->none
                              : zeros;
    for (uint32_t i = x->n; i-- > x->whole; ) {
        const char d = x->digits[i];
        const qsf_gnode differs = qsf_schema_sequence(
            s, above ? between(s, (uint32_t)d + 1, '9') : between(s, '0', (uint32_t)d - 1), s->digits);
        y = qsf_schema_either(s, differs, qsf_schema_sequence(s, digit_text(s, d), y));
        if (!above && i > x->whole) y = maybe(s, y);
    }
    y = qsf_schema_sequence(s, qsf_schema_bytes(s, "."), y);
    return above ? y : maybe(s, y);
}

/* Magnitudes of at least (above) or at most x. */
static qsf_gnode beyond(schema *s, const bound *b, bool above, bool whole)
{
    const schema_decimal *x = &b->x;
    const uint32_t w = x->whole;
    const qsf_gnode fraction = any_fraction(s, whole);
    qsf_gnode y = fraction_of(s, b, above, whole);
    for (uint32_t i = w; i-- > 0; ) {
        const char d = x->digits[i];
        const qsf_gnode differs =
            above ? between(s, (uint32_t)d + 1, '9') : between(s, i || w == 1 ? '0' : '1', (uint32_t)d - 1);
        y = qsf_schema_either(s, join(s, differs, times(s, s->digit, w - i - 1, w - i - 1), fraction),
                              qsf_schema_sequence(s, digit_text(s, d), y));
    }
    if (above) return qsf_schema_either(s, y,
                                        qsf_schema_sequence(s, more_digits(s, w, QSF_G_NO_MOST), fraction));
    if (w == 1) return y;
    return qsf_schema_either(
        s, y, qsf_schema_sequence(s, qsf_schema_either(s, qsf_schema_bytes(s, "0"), more_digits(s, 0, w - 2)),
                                  fraction));
}

/* d.ddde-d: below 1 and above 0; d.ddde+d: 1 and more. */
static qsf_gnode scientific(schema *s, bool below)
{
    const uint32_t e[2][2] = { { 'E', 'E' }, { 'e', 'e' } };
    const qsf_gnode mark = qsf_g_class(s->b, e, 2, false);
    qsf_gnode sign = below ? qsf_schema_bytes(s, "-") : maybe(s, qsf_schema_bytes(s, "+")),
              power = times(s, s->digit, 1, QSF_G_NO_MOST);
    if (below)
        power = qsf_schema_sequence(s, times(s, qsf_schema_bytes(s, "0"), 0, QSF_G_NO_MOST),
                                    more_digits(s, 0, QSF_G_NO_MOST));
    return join(s, between(s, '1', '9'), any_fraction(s, false), join(s, mark, sign, power));
}

/* Magnitudes between two bounds, each of which may not be there. */
static qsf_gnode magnitudes(schema *s, const bound *low, const bound *high, bool whole)
{
    static const schema_decimal one = { false, 1, 1, "1" };
    const bool from_zero = !low->there || (is_zero(&low->x) && !low->strict);
    if (from_zero && !high->there) {
        const qsf_gnode x =
            qsf_schema_sequence(s, qsf_schema_either(s, qsf_schema_bytes(s, "0"),
                                                     more_digits(s, 0, QSF_G_NO_MOST)),
                                any_fraction(s, whole));
        const uint32_t e[2][2] = { { 'E', 'E' }, { 'e', 'e' } }, sign[2][2] = { { '+', '+' }, { '-', '-' } };
        return whole ? x
                     : qsf_schema_sequence(s, x,
                                           maybe(s, join(s, qsf_g_class(s->b, e, 2, false),
                                                         maybe(s, qsf_g_class(s->b, sign, 2, false)),
                                                         times(s, s->digit, 1, QSF_G_NO_MOST))));
    }
    if (low->there && high->there) {
        const int c = compare_magnitude(&low->x, &high->x);
        if (c > 0 || (c == 0 && (low->strict || high->strict))) return s->none;
    }
    qsf_gnode x = qsf_schema_both(s, from_zero ? 0 : beyond(s, low, true, whole),
                                  high->there ? beyond(s, high, false, whole) : 0);
    if (whole) return x;
    if ((from_zero || is_zero(&low->x)) && (!high->there || compare_magnitude(&high->x, &one) >= 0))
        x = qsf_schema_either(s, x, scientific(s, true));
    if (!high->there && compare_magnitude(&low->x, &one) <= (low->strict ? -1 : 0))
        x = qsf_schema_either(s, x, scientific(s, false));
    return x;
}

static qsf_gnode in_bounds(schema *s, const bound *low, const bound *high, bool whole)
{
    static const bound none;
    const bound zero = { { false, 1, 1, "0" }, true, false };
    bound a = *low, z = *high;
    qsf_gnode out = s->none;
    const bool low_zero = low->there && is_zero(&low->x), high_zero = high->there && is_zero(&high->x);
    if (!high->there || (!high->x.minus && !(high_zero && high->strict)))
        out = magnitudes(s, !low->there || low->x.minus ? &none : low, high, whole);
    if (!low->there || low->x.minus || (low_zero && !low->strict)) {
        a.x.minus = z.x.minus = false;
        out = qsf_schema_either(
            s, out,
            qsf_schema_sequence(
                s, qsf_schema_bytes(s, "-"),
                magnitudes(s, high->there && (high->x.minus || (high_zero && high->strict)) ? &z : &none,
                           low_zero ? &zero : &a, whole)));
    }
    return out;
}

/* One number, without plain in all its writings: trailing zeros. */
static qsf_gnode equal_to(schema *s, const qsf_json_node *v)
{
    schema_decimal x;
    if (!qsf_schema_decimal_of(v, &x)) return qsf_g_bytes(s->b, v->text, v->n);
    const qsf_gnode zeros = s->plain ? s->empty : times(s, qsf_schema_bytes(s, "0"), 0, QSF_G_NO_MOST);
    const qsf_gnode whole =
        qsf_schema_sequence(s, qsf_schema_bytes(s, x.minus ? "-" : ""), qsf_g_bytes(s->b, x.digits, x.whole));
    if (x.n == x.whole) return qsf_schema_sequence(s, whole, whole_end(s));
    return join(s, whole,
                qsf_schema_sequence(s, qsf_schema_bytes(s, "."),
                                    qsf_g_bytes(s->b, x.digits + x.whole, (size_t)(x.n - x.whole))),
                zeros);
}

/* ---- multiples ---- */

/* As rules, one for each remainder and place after the point; digits lead from one to the next. */
typedef struct multiple { schema *s; uint32_t m, places; qsf_gnode *rule; } multiple;

static uint32_t scaled(const multiple *q, uint32_t r, uint32_t by)     /* r * 10^by mod m */
{
    for (; by; by--) r = r * 10 % q->m;
    return r;
}

/* A digit, then the rule of the remainder it leads to. */
static qsf_gnode next_digits(const multiple *q, uint32_t place, uint32_t r, char first)
{
    schema *s = q->s;
    qsf_gnode out = s->none;
    uint32_t done = 0;
    for (uint32_t d = (uint32_t)(first - '0'); d < 10; d++) {
        const uint32_t to = (10 * r + d) % q->m;
        uint32_t ranges[10][2], n = 0;
        if (done >> d & 1) continue;
        for (uint32_t e = d; e < 10; e++)
            if ((10 * r + e) % q->m == to) done |= 1u << e, ranges[n][0] = ranges[n][1] = '0' + e, n++;
        const qsf_gnode digit = qsf_g_class(s->b, (const uint32_t (*)[2])ranges, n, false);
        out = qsf_schema_either(s, out, qsf_schema_sequence(s, digit, q->rule[place * q->m + to]));
    }
    return out;
}

static qsf_gnode zero_digits(schema *s, uint32_t least, uint32_t most)
{
    return times(s, qsf_schema_bytes(s, "0"), least, most);
}

static qsf_gnode multiples_of(schema *s, const qsf_json_node *v)
{
    schema_decimal x;
    uint32_t zeros = 0, m = 0;
    multiple q = { .s = s };
    const bool read = qsf_schema_decimal_of(v, &x);
    if (!read || x.minus || is_zero(&x)) {
        qsf_schema_refuse(s, v, read ? "this must be a number above 0" : "a number of more than 400 digits");
        return s->none;
    }
    q.places = (uint32_t)(x.n - x.whole);
    uint32_t n = x.n;
    if (!q.places) while (n > 1 && x.digits[n - 1] == '0') n--, zeros++;
    for (uint32_t i = 0; i < n && m < 100000000; i++) m = 10 * m + (uint32_t)(x.digits[i] - '0');
    if ((uint64_t)m * (q.places + 1) > NUMBER_MAX_STATES) {
        qsf_schema_refuse(s, v, "multiples of a number of this many digits are not supported");
        return s->none;
    }
    q.m = m;
    const qsf_gnode end =
        maybe(s, qsf_schema_sequence(s, qsf_schema_bytes(s, "."), zero_digits(s, 1, QSF_G_NO_MOST)));
    const qsf_gnode sign = maybe(s, qsf_schema_bytes(s, "-"));
    if (m == 1 && !q.places)
        return join(s, sign,
                    qsf_schema_either(s, qsf_schema_bytes(s, "0"),
                                      join(s, more_digits(s, 0, QSF_G_NO_MOST), s->empty,
                                           zero_digits(s, zeros, zeros))),
                    end);
    q.rule = qsf_arena_array(s->arena, (uint64_t)m * (q.places + 1), sizeof *q.rule, "a schema", NULL);
    if (!q.rule) {
        qsf_schema_no_memory(s);
        return s->none;
    }
    for (uint32_t i = 0; i < m * (q.places + 1); i++) q.rule[i] = qsf_g_rule(s->b);
    for (uint32_t place = 0; place <= q.places; place++)
        for (uint32_t r = 0; r < m; r++) {
            const bool whole = !scaled(&q, r, q.places - place);        /* the number may end here */
            qsf_gnode body = whole ? s->empty : s->none;
            if (place == 0) body = qsf_schema_either(s, body, next_digits(&q, 0, r, '0'));
            if (place && place < q.places)
                body = qsf_schema_either(s, body, next_digits(&q, place + 1, r, '0'));
            if (place == q.places && place && whole) body = zero_digits(s, 0, QSF_G_NO_MOST);
            if (place == 0 && q.places)
                body = qsf_schema_either(s, body, qsf_schema_sequence(s, qsf_schema_bytes(s, "."),
                                                                      next_digits(&q, 1, r, '0')));
            if (place == 0 && !q.places && whole)
                body = qsf_schema_either(s, qsf_schema_sequence(s, zero_digits(s, zeros, zeros), end),
                                         next_digits(&q, 0, r, '0'));
            qsf_g_define(s->b, q.rule[place * m + r], body);
        }
    qsf_gnode zero = qsf_schema_sequence(s, qsf_schema_bytes(s, "0"), end);
    if (q.places)
        zero = qsf_schema_sequence(s, qsf_schema_bytes(s, "0"),
                                   maybe(s, qsf_schema_sequence(s, qsf_schema_bytes(s, "."),
                                                                next_digits(&q, 1, 0, '0'))));
    return qsf_schema_sequence(s, sign, qsf_schema_either(s, zero, next_digits(&q, 0, 0, '1')));
}

/* ---- leaves ---- */

static void tighten(schema *s, bound *b, const qsf_json_node *v, bool strict, int direction)
{
    schema_decimal x;
    if (v->type != QSF_JSON_NUMBER) {
        qsf_schema_refuse(s, v, "this must be a number");
    } else if (!qsf_schema_decimal_of(v, &x)) {
        qsf_schema_refuse(s, v, "a number of more than 400 digits");
    } else {
        const int c = b->there ? qsf_schema_decimal_compare(&x, &b->x) * direction : 1;
        if (c < 0) return;
        *b = (bound){ x, true, strict || (c == 0 && b->strict) };
    }
}

static bool is_true(const qsf_json_node *v) { return v && v->type == QSF_JSON_TRUE; }

static void bounds_of(schema *s, const schema_part *p, bound *low, bound *high)
{
    const schema_keys *k = qsf_schema_keys_of(s, p->v);
    const qsf_json_node *least = k->key[KEY_MINIMUM], *most = k->key[KEY_MAXIMUM], *above = k->key[KEY_ABOVE],
                        *below = k->key[KEY_BELOW];
    const bool flip = p->kind == PART_FLIP;
    /* up to draft 4 this is true, next to the bound; in later drafts it is a bound of its own */
    if (least && (!flip || p->arg == KEY_MINIMUM))
        tighten(s, flip ? high : low, least, is_true(above) != flip, flip ? -1 : 1);
    if (most && (!flip || p->arg == KEY_MAXIMUM))
        tighten(s, flip ? low : high, most, is_true(below) != flip, flip ? 1 : -1);
    if (above && above->type > QSF_JSON_TRUE && (!flip || p->arg == KEY_ABOVE))
        tighten(s, flip ? high : low, above, !flip, flip ? -1 : 1);
    if (below && below->type > QSF_JSON_TRUE && (!flip || p->arg == KEY_BELOW))
        tighten(s, flip ? low : high, below, !flip, flip ? 1 : -1);
}

static bool within(const schema_decimal *x, const bound *low, const bound *high)
{
    const int a = low->there ? qsf_schema_decimal_compare(x, &low->x) : 1,
              z = high->there ? qsf_schema_decimal_compare(x, &high->x) : -1;
    return (a > 0 || (a == 0 && !low->strict)) && (z < 0 || (z == 0 && !high->strict));
}

/* Whether list[0..n) has a number equal to x. */
static bool has_number(const qsf_json_node *list, uint32_t n, const schema_decimal *x, const qsf_json_node *v)
{
    schema_decimal y;
    for (; n; n--, list = qsf_json_next(list))
        if (list == v || (list->type == QSF_JSON_NUMBER && x && qsf_schema_decimal_of(list, &y) &&
                          !qsf_schema_decimal_compare(x, &y)))
            return true;
    return false;
}

qsf_gnode qsf_schema_numbers(schema *s, const schema_leaf *leaf)
{
    bound low = { .there = false }, high = { .there = false };
    const uint32_t types = leaf->types & T_NUMBER;
    const qsf_json_node *first = NULL, *v;
    const schema_part *from = NULL;
    uint32_t n_first = 0, n;
    qsf_gnode out = s->none, also = 0;
    for (uint32_t i = 0; i < leaf->n && !s->failed; i++) {
        const schema_part *p = &leaf->parts[i];
        const schema_keys *k = p->kind == PART_OWN || p->kind == PART_FLIP ? qsf_schema_keys_of(s, p->v)
            : NULL;
        if (k) bounds_of(s, p, &low, &high);
        if (p->kind == PART_OWN && k->key[KEY_MULTIPLE])
            also = qsf_schema_both(s, also, multiples_of(s, k->key[KEY_MULTIPLE]));
        if (p->kind == PART_FLIP && p->arg == KEY_MULTIPLE)
            qsf_schema_refuse(s, k->key[KEY_MULTIPLE], "its opposite is not supported");
        if (p->kind == PART_FLIP && (p->arg == KEY_ENUM || p->arg == KEY_CONST)) {
            v = p->arg == KEY_CONST ? k->key[KEY_CONST] : k->key[KEY_ENUM] + 1;
            for (n = p->arg == KEY_CONST ? 1 : k->key[KEY_ENUM]->n; n; n--, v = qsf_json_next(v))
                if (v->type == QSF_JSON_NUMBER)
                    also = qsf_schema_both(s, also, qsf_g_not(s->b, equal_to(s, v)));
        }
        if (!first && qsf_schema_allowed(s, p, &v, &n)) first = v, n_first = n, from = p;
    }
    /* what is excluded is excluded in all of its writings */
    s->plain = from || types == T_INTEGER;
    if (!from) {
        out = in_bounds(s, &low, &high, types == T_INTEGER);
        if (types == T_FRACTION)
            also = qsf_schema_both(s, also, qsf_g_not(s->b, in_bounds(s, &low, &high, true)));
        s->plain = false;
        return qsf_schema_both(s, out, also);
    }
    for (v = first; n_first; n_first--, v = qsf_json_next(v)) {
        schema_decimal x;
        const qsf_json_node *list;
        if (v->type != QSF_JSON_NUMBER) continue;
        bool fits = true;
        const bool known = qsf_schema_decimal_of(v, &x);
        if (known) fits = within(&x, &low, &high) && (types & (x.n == x.whole ? T_INTEGER : T_FRACTION));
        for (uint32_t i = 0; i < leaf->n && fits; i++)
            if (&leaf->parts[i] != from && qsf_schema_allowed(s, &leaf->parts[i], &list, &n))
                fits = has_number(list, n, known ? &x : NULL, v);
        if (fits) out = qsf_schema_either(s, out, equal_to(s, v));
    }
    s->plain = false;
    return qsf_schema_both(s, out, also);
}
