/* Jinja: texts with places for values: "%s" % x and "{}".format(x).
 * SPDX-License-Identifier: MIT */
#include "text/decimal.h"
#include "chat/jinja_own.h"

typedef struct format_form {            /* how a value is to look */
    jinja_value fill;                   /* one character; n 0: a blank */
    char    align, sign, type, group;   /* 0: none is given */
    bool    alt, zero, percent;         /* percent: of "%", not of format() */
    int64_t width, precision;           /* precision -1: none */
} format_form;

enum { FORMAT_ROOM = 512, FORMAT_PRECISION = 60, FORMAT_WIDTH = 10000 };

/* ---- numbers ---- */

static size_t format_fixed(char *out, const char *digits, int n, int point, int places, bool alt)
{
    size_t len = 0;
    for (int i = QSF_MIN(point, 0) - (point <= 0); i < QSF_MAX(point, 0) + places; i++) {
        if (point <= 0 && i < QSF_MIN(point, 0)) out[len++] = '0', i = point - 1;       /* before the point */
        else out[len++] = i >= 0 && i < n ? digits[i] : '0';
        if (i == point - 1 && (places || alt)) out[len++] = '.';
        if (i - point + 1 >= places && i >= point) break;
    }
    return len;
}

/* Of a finite x >= 0: as e, f or g. */
static size_t format_float(char *out, double x, char type, int precision, bool alt)
{
    char digits[QSF_DECIMAL_DIGITS];
    int point, n;
    const char kind = (char)(type | 32);
    if (kind == 'f') {
        n = qsf_decimal_digits(x, QSF_DECIMAL_PLACES, precision, digits, &point);
        if (!n) point = 1;
        return format_fixed(out, digits, n, point, precision, alt);
    }
    int count = kind == 'e' ? precision + 1 : QSF_MAX(precision, 1);
    n = qsf_decimal_digits(x, QSF_DECIMAL_SIGNIFICANT, count, digits, &point);
    const bool fixed = kind == 'g' && point - 1 >= -4 && point - 1 < count;
    if (kind == 'g' && !alt) {
        while (n > 1 && digits[n - 1] == '0') n--;
        count = n;
    }
    if (fixed) return format_fixed(out, digits, n, point, QSF_MAX(count - point, 0), alt);
    size_t len = format_fixed(out, digits, n, 1, count - 1, alt);
    point--;
    return len + qsf_format(out + len, 8, "%c%c%02d", type - kind + 'e', point < 0 ? '-' : '+',
                            point < 0 ? -point : point);
}

static size_t format_whole(char *out, uint64_t m, char type)
{
    static const char low[] = "0123456789abcdef", high[] = "0123456789ABCDEF";
    const unsigned base = (type | 32) == 'x' ? 16 : type == 'o' ? 8 : type == 'b' ? 2 : 10;
    char back[64];
    size_t n = 0, len = 0;
    do back[n++] = (type == 'X' ? high : low)[m % base];
    while (m /= base);
    while (n) out[len++] = back[--n];
    return len;
}

/* A comma after every third digit before the point. */
static size_t format_group(char *text, size_t n, char group, char type)
{
    const size_t step = type && strchr("xXob", type) ? 4 : 3;
    size_t whole = 0, more;
    while (whole < n && text[whole] != '.'
           && (step == 4 || (text[whole] >= '0' && text[whole] <= '9'))) whole++;
    more = whole ? (whole - 1) / step : 0;
    memmove(text + whole + more, text + whole, n - whole);
    for (size_t from = whole, to = whole + more, k = 0; from-- > 0 && to > from + 1; k++) {
        if (k && k % step == 0) text[--to] = group;
        text[--to] = text[from];
    }
    return n + more;
}

/* The number without its sign to text; 0: it cannot be written like that. */
static size_t format_digits(jinja_run *r, const jinja_value *v, const format_form *f, char *text)
{
    const bool real = f->type && strchr("eEfFgG%", f->type);
    const bool whole = v->type != QSF_JINJA_FLOAT;
    const int precision = f->precision < 0 ? 6 : (int)f->precision;
    double x = fabs(whole ? (double)v->as.i : v->as.f);
    size_t n;
    if ((real || !whole) && !qsf_jinja_charge_float(r)) return 0;
    if (f->precision > FORMAT_PRECISION) {
        qsf_jinja_unknown(r, "this many digits are not supported");
        return 0;
    }
    if (!real && !whole) {
        if (f->type || f->precision >= 0 || f->alt) {
            qsf_jinja_unknown(r, "this format of a float is not supported");
            return 0;
        }
        n = qsf_decimal_repr(x, text);
    } else if (real && !(x <= DBL_MAX)) {
        const bool big = f->type >= 'A' && f->type <= 'Z';
        n = qsf_format(text, 8, "%s", x != x ? big ? "NAN" : "nan" : big ? "INF" : "inf");
    } else if (real) {
        if (f->type == '%') x *= 100;
        n = format_float(text, x, f->type == '%' ? 'f' : f->type, precision, f->alt);
        if (f->type == '%') text[n++] = '%';
    } else {
        const uint64_t m = v->as.i < 0 ? 0 - (uint64_t)v->as.i : (uint64_t)v->as.i;
        n = format_whole(text, m, f->type);
        for (; (int64_t)n < f->precision; n++) {
            memmove(text + 1, text, n);
            text[0] = '0';
        }
    }
    return f->group ? format_group(text, n, f->group, f->type) : n;
}

static bool format_blanks(jinja_run *r, jinja_sink *s, const format_form *f, int64_t n)
{
    for (; n > 0; n--)
        if (!qsf_jinja_charge(r, 0)
            || (f->fill.n ? !qsf_jinja_put_text(r, s, &f->fill)
                : !qsf_jinja_put(r, s, f->zero ? "0" : " ", 1)))
            return false;
    return true;
}

static bool format_number(jinja_run *r, jinja_sink *s, const jinja_value *v, const format_form *f)
{
    char text[FORMAT_ROOM], before[4] = { 0 };
    const bool minus = v->type == QSF_JINJA_FLOAT ? signbit(v->as.f) != 0 : v->as.i < 0;
    const size_t n = format_digits(r, v, f, text);
    size_t k = 0;
    if (r->st) return false;
    if (minus) before[k++] = '-';
    else if (f->sign == '+' || f->sign == ' ') before[k++] = f->sign;
    if (f->alt && f->type && strchr("xXob", f->type)) before[k++] = '0', before[k++] = f->type;
    const int64_t more = f->width - (int64_t)(n + k);
    char align = f->align ? f->align : '>';
    if (f->zero && !f->align) align = '=';
    const int64_t left = align == '>' ? more : align == '^' ? more / 2 : 0;
    if (f->zero && f->group && more > 0)
        return qsf_jinja_unknown(r, "zeros between groups of digits are not supported");
    return format_blanks(r, s, f, left) && qsf_jinja_put_number(r, s, v, before, k)
           && format_blanks(r, s, f, align == '=' ? more : 0) && qsf_jinja_put_number(r, s, v, text, n)
           && format_blanks(r, s, f, align == '=' ? 0 : more - QSF_MAX(left, 0));
}

static bool format_text(jinja_run *r, jinja_sink *s, const jinja_value *v, const format_form *f)
{
    jinja_value part = *v;
    if (f->precision >= 0) part = jinja_part(v, 0, qsf_jinja_offset(v, (size_t)f->precision));
    const int64_t more = f->width ? f->width - (int64_t)qsf_jinja_length(&part) : 0;
    const char align = f->align ? f->align : f->percent ? '>' : '<';
    const int64_t left = align == '>' ? more : align == '^' ? more / 2 : 0;
    if (align == '=') return qsf_jinja_refuse(r, "a string has no sign to pad after");
    return format_blanks(r, s, f, left) && qsf_jinja_put_text(r, s, &part)
           && format_blanks(r, s, f, more - QSF_MAX(left, 0));
}

/* A value as str() or repr() writes it, at the far end of the sink's memory, so that its copy with
 * escapes and `blanks` blanks does not overlap it. */
static bool format_shown(jinja_run *r, jinja_sink *s, const jinja_value *v, char how, int64_t blanks,
                         jinja_value *out)
{
    const size_t left = s->cap - s->len;
    *out = *v;
    if (how != 'r' && how != 'a' && v->type == QSF_JINJA_TEXT) return true;
    jinja_sink room = { s->text + s->len + left / 2, 0, left / 2, s->marks, s->bit + s->len + left / 2 };
    if (how == 'r' || how == 'a' ? !qsf_jinja_repr(r, &room, v) : !qsf_jinja_print(r, &room, v)) return false;
    if (8 * (uint64_t)room.len + 4 * (uint64_t)blanks + 16 > left)
        return qsf_jinja_fail(r, QSF_E_MEMORY, "out of memory for a string this long");
    memmove(s->text + s->cap - room.len, room.text, room.len);
    qsf_jinja_mark_copy(s->marks, s->bit + s->cap - room.len, s->marks, room.bit, room.len);
    *out = qsf_jinja_text_n(s->text + s->cap - room.len, room.len);
    for (size_t i = 0; how == 'a' && i < room.len; i++)
        if (out->as.text[i] & 0x80) return qsf_jinja_unknown(r, "ascii() is not supported");
    return true;
}

static bool format_put(jinja_run *r, jinja_sink *s, const jinja_value *format, const jinja_value *v, char how,
                       const format_form *f)
{
    jinja_value text;
    if (f->width > FORMAT_WIDTH) return qsf_jinja_fail(r, QSF_E_BUDGET, "a width of more than 10000");
    if (!format_shown(r, s, v, how, f->width, &text)) return false;
    if (!(format->flags & QSF_JINJA_SAFE)) return format_text(r, s, &text, f);
    if (f->width || f->precision >= 0)
        return qsf_jinja_unknown(r, "a width in a safe string is not supported");
    return qsf_jinja_put_escaped(r, s, &text);
}

/* ---- % ---- */

static size_t format_read_width(const jinja_value *format, size_t i, int64_t *out)
{
    for (*out = 0; i < format->n && format->as.text[i] >= '0' && format->as.text[i] <= '9'; i++)
        if (*out < 1000000) *out = 10 * *out + (format->as.text[i] - '0');
    return i;
}

typedef struct format_args { const jinja_value *all; uint32_t next; } format_args;

static const jinja_value *format_next(jinja_run *r, format_args *a)
{
    const bool tuple = a->all->type == QSF_JINJA_TUPLE;
    if (a->next < (tuple ? a->all->n : 1)) return tuple ? &a->all->as.items[a->next++] : (a->next++, a->all);
    qsf_jinja_refuse(r, "there are too few values for the format");
    return NULL;
}

static bool format_star(jinja_run *r, format_args *a, int64_t *out)
{
    const jinja_value *v = format_next(r, a);
    return v && qsf_jinja_whole(r, v, false, out);
}

/* "%(name)": the value of that name. */
static bool format_name(jinja_run *r, const jinja_value *format, size_t *i, const jinja_value *args,
                        const jinja_value **out)
{
    const char *end = memchr(format->as.text + *i, ')', format->n - *i);
    if (!end || args->type != QSF_JINJA_DICT)
        return qsf_jinja_fail(r, QSF_E_ARGUMENT, end ? "a format with names needs a dict"
                                               : "a name is not closed");
    const jinja_value name = jinja_part(format, *i + 1, (size_t)(end - format->as.text));
    *i = (size_t)(end - format->as.text) + 1;
    if (!qsf_jinja_lookup(r, args, &name, out)) return false;
    return *out
        || qsf_jinja_fail(r, QSF_E_ARGUMENT, "no value is named %.*s", (int)QSF_MIN(name.n, 40),
                              name.as.text);
}

/* The value that a conversion takes; %d takes a float as well. */
static bool format_percent_value(jinja_run *r, jinja_sink *s, const jinja_value *format, const jinja_value *v,
                                 format_form *f)
{
    jinja_value n = *v;
    const char type = f->type;
    char utf8[4];
    if (type == 's' || type == 'r' || type == 'a') {
        f->zero = false;
        return format_put(r, s, format, v, type, f);
    }
    if (type == 'c' && v->type == QSF_JINJA_TEXT && qsf_jinja_length(v) == 1) return format_text(r, s, v, f);
    if (v->type == QSF_JINJA_BIG) return qsf_jinja_unknown(r, "whole numbers this large are not supported");
    if (!qsf_jinja_is_number(v))
        return qsf_jinja_fail(r, QSF_E_ARGUMENT, "%%%c needs a number, not %s", type, qsf_jinja_type_name(v));
    if (type == 'c') {
        if (v->type == QSF_JINJA_FLOAT || v->as.i < 0 || v->as.i > 0x10ffff)
            return qsf_jinja_refuse(r, "this number is not a character");
        return qsf_jinja_put_number(r, s, v, utf8, qsf_utf8_encode((uint32_t)v->as.i, utf8));
    }
    if (strchr("eEfFgG", type)) return format_number(r, s, v, f);
    if (v->type == QSF_JINJA_FLOAT) {
        if (strchr("xXo", type) || !(fabs(v->as.f) < 9e18))
            return qsf_jinja_refuse(r, "a whole number is needed here");
        n.as.i = (int64_t)v->as.f;
    }
    n.type = QSF_JINJA_INT;
    if (f->type == 'i' || f->type == 'u') f->type = 'd';
    return format_number(r, s, &n, f);
}

static bool format_conversion(jinja_run *r, jinja_sink *s, const jinja_value *format, size_t *at,
                              format_args *a)
{
    const char *p = format->as.text;
    const size_t n = format->n;
    const jinja_value *v = NULL;
    format_form f = { .precision = -1, .percent = true };
    size_t i = *at + 1;
    if (i < n && p[i] == '(' && !format_name(r, format, &i, a->all, &v)) return false;
    for (; i < n && p[i] && strchr("#0- +", p[i]); i++) {
        if (p[i] == '#') f.alt = true;
        if (p[i] == '0') f.zero = true;
        if (p[i] == '-') f.align = '<';
        if (p[i] == '+' || (p[i] == ' ' && !f.sign)) f.sign = p[i];
    }
    if (i < n && p[i] == '*') {
        if (!format_star(r, a, &f.width)) return false;
        if (f.width < 0) f.align = '<', f.width = -f.width;
        i++;
    } else i = format_read_width(format, i, &f.width);
    if (i < n && p[i] == '.') {
        if (++i < n && p[i] == '*') {
            if (!format_star(r, a, &f.precision)) return false;
            i++;
        } else i = format_read_width(format, i, &f.precision);
        f.precision = QSF_MAX(f.precision, 0);
    }
    while (i < n && p[i] && strchr("hlL", p[i])) i++;
    if (i >= n || !p[i] || !strchr("sradiuxXoeEfFgGc%", p[i]))
        return qsf_jinja_refuse(r, "unknown format conversion");
    f.type = p[i];
    *at = i + 1;
    if (f.type == '%') return qsf_jinja_put_part(r, s, format, i, 1);
    if (f.align) f.zero = false;
    return (v || (v = format_next(r, a))) && format_percent_value(r, s, format, v, &f);
}

bool qsf_jinja_format_percent(jinja_run *r, const jinja_value *format, const jinja_value *args,
                              jinja_value *out)
{
    format_args a = { args, 0 };
    jinja_sink s = qsf_jinja_begin_text(r);
    for (size_t i = 0, from = 0; i <= format->n; i++) {
        if (i < format->n && format->as.text[i] != '%') continue;
        if (!qsf_jinja_put_part(r, &s, format, from, i - from)) return false;
        if (i == format->n) break;
        if (!format_conversion(r, &s, format, &i, &a)) return false;
        from = i--;
    }
    const bool mapping = args->type == QSF_JINJA_DICT || args->type == QSF_JINJA_LIST
                         || args->type == QSF_JINJA_RANGE || args->type == QSF_JINJA_UNDEFINED;
    if (!mapping && a.next < (args->type == QSF_JINJA_TUPLE ? args->n : 1))
        return qsf_jinja_refuse(r, "there are more values than the format takes");
    return qsf_jinja_finish_as(r, &s, format, out);
}

/* ---- format() ---- */

static bool braces_form(jinja_run *r, const jinja_value *spec, format_form *f)
{
    const char *p = spec->as.text;
    size_t i = 0, used = 0, n = spec->n;
    *f = (format_form){ .precision = -1 };
    if (n) (void)qsf_utf8_decode(p, n, &used);
    if (used && used < n && strchr("<>^=", p[used])) {
        f->fill = jinja_part(spec, 0, used);
        f->align = p[used];
        i = used + 1;
    } else if (n && strchr("<>^=", p[0])) f->align = p[i++];
    if (i < n && (p[i] == '+' || p[i] == '-' || p[i] == ' ')) f->sign = p[i++];
    if (i < n && p[i] == '#') f->alt = true, i++;
    if (i < n && p[i] == '0') f->zero = !f->fill.n, i++;
    i = format_read_width(spec, i, &f->width);
    if (i < n && (p[i] == ',' || p[i] == '_')) f->group = p[i++];
    if (i < n && p[i] == '.') i = format_read_width(spec, i + 1, &f->precision);
    if (i < n) f->type = p[i++];
    if (f->width > FORMAT_WIDTH) return qsf_jinja_fail(r, QSF_E_BUDGET, "a width of more than 10000");
    return i == n
        || qsf_jinja_fail(r, QSF_E_ARGUMENT, "unknown conversion: %.*s", (int)QSF_MIN(n, 40), p);
}

typedef struct braces { const jinja_value *format; const jinja_args *args; uint32_t next; } braces;

/* "name.attribute[item]", or a number, or nothing: the next one. */
static bool braces_value(jinja_run *r, braces *b, const jinja_value *field, jinja_value *out)
{
    size_t i = 0;
    int64_t number = -1;
    const char *p = field->as.text;
    while (i < field->n && p[i] != '.' && p[i] != '[') i++;
    const jinja_value name = jinja_part(field, 0, i);
    if (!i) number = b->next++;
    else if (format_read_width(&name, 0, &number) != i) number = -1;
    const jinja_value *v = number >= 0 && number < b->args->n ? &b->args->pos[number] : NULL;
    for (uint32_t k = 0; number < 0 && k < b->args->n_kw; k++) {
        const jinja_value *pair = &b->args->pos[b->args->n + 2 * k];
        if (pair->type == QSF_JINJA_TEXT && pair->n == i && !memcmp(pair->as.text, p, i)) v = pair + 1;
    }
    if (!v) return qsf_jinja_fail(r, QSF_E_ARGUMENT, "no value for {%.*s}", (int)QSF_MIN(i, 40), p);
    *out = *v;
    while (i < field->n) {
        const bool item = p[i] == '[';
        const size_t from = ++i;
        const jinja_value before = *out;
        while (i < field->n && (item ? p[i] != ']' : p[i] != '.' && p[i] != '[')) i++;
        jinja_value key = jinja_part(field, from, i);
        if (item && format_read_width(&key, 0, &number) == key.n && key.n) key = qsf_jinja_int(number);
        if (!qsf_jinja_item(r, &before, &key, out)) return false;
        i += item;
    }
    return true;
}

static bool braces_put(jinja_run *r, jinja_sink *s, braces *b, const jinja_value *v, char how,
                       const jinja_value *spec)
{
    format_form f;
    if (!braces_form(r, spec, &f)) return false;
    if (!spec->n || how || v->type == QSF_JINJA_TEXT) {
        if ((f.type && f.type != 's') || f.sign || f.alt || f.group)
            return qsf_jinja_refuse(r, "unknown format for a string");
        f.zero = f.zero && f.width > 0;
        if (f.zero && !f.align) f.align = '<';
        return format_put(r, s, b->format, v, how, &f);
    }
    if (v->type == QSF_JINJA_BIG) return qsf_jinja_unknown(r, "whole numbers this large are not supported");
    if (!qsf_jinja_is_number(v)) return qsf_jinja_fail(r, QSF_E_ARGUMENT, "unknown format for a %s",
                                                       qsf_jinja_type_name(v));
    if (f.type && !strchr("bcdeEfFgGoxX%", f.type))
        return qsf_jinja_fail(r, f.type == 'n' ? QSF_E_UNSUPPORTED : QSF_E_ARGUMENT,
                              "unknown format for a number");
    if (f.type == 'c' || (f.precision >= 0 && (!f.type || !strchr("eEfFgG%", f.type))))
        return qsf_jinja_unknown(r, "this format of a number is not supported");
    if (v->type == QSF_JINJA_FLOAT && f.type && strchr("bdoxX", f.type))
        return qsf_jinja_refuse(r, "unknown format for a float");
    return format_number(r, s, v, &f);
}

/* A field, from after its "{" to after its "}"; braces in its format spec are replaced first. */
static bool braces_field(jinja_run *r, jinja_sink *s, braces *b, size_t *at)
{
    const char *p = b->format->as.text;
    const size_t n = b->format->n;
    char spec[64], how = 0;
    size_t i = *at, len = 0;
    jinja_value v, inner, text;
    while (i < n && !strchr("!:}", p[i])) i++;
    const jinja_value field = jinja_part(b->format, *at, i);
    if (!braces_value(r, b, &field, &v)) return false;
    if (i < n && p[i] == '!') {
        how = i + 1 < n ? p[i + 1] : 0;
        if (how != 's' && how != 'r' && how != 'a') return qsf_jinja_refuse(r, "expected s, r or a after !");
        i += 2;
    }
    if (i < n && p[i] == ':')
        for (i++; i < n && p[i] != '}'; ) {
            if (len + 8 > sizeof spec) return qsf_jinja_unknown(r, "a format this long is not supported");
            if (p[i] != '{') {
                spec[len++] = p[i++];
                continue;
            }
            const size_t from = i + 1;
            while (i < n && p[i] != '}') i++;
            const jinja_value name = jinja_part(b->format, from, i++);
            if (!braces_value(r, b, &name, &inner)
                || !format_shown(r, s, &inner, 's', 0, &text)) return false;
            if (text.n > 8) return qsf_jinja_unknown(r, "a format this long is not supported");
            memcpy(spec + len, text.as.text, text.n);
            len += text.n;
        }
    if (i >= n || p[i] != '}') return qsf_jinja_refuse(r, "a { has no }");
    *at = i + 1;
    const jinja_value form = qsf_jinja_text_n(spec, len);
    return braces_put(r, s, b, &v, how, &form);
}

bool qsf_jinja_format_braces(jinja_run *r, const jinja_value *format, const jinja_args *a, jinja_value *out)
{
    braces b = { format, a, 0 };
    const char *p = format->as.text;
    jinja_sink s = qsf_jinja_begin_text(r);
    for (size_t i = 0; i < format->n; ) {
        const bool brace = p[i] == '{' || p[i] == '}', twice = brace && i + 1 < format->n && p[i + 1] == p[i];
        if (p[i] == '}' && !twice) return qsf_jinja_refuse(r, "a } has no {");
        if (!brace || twice) {
            if (!qsf_jinja_put_part(r, &s, format, i, 1)) return false;
            i += 1 + twice;
        } else if (i++, !braces_field(r, &s, &b, &i)) return false;
    }
    *out = qsf_jinja_end_text(r, &s);
    out->flags |= format->flags & QSF_JINJA_SAFE;
    return qsf_jinja_charge_each(r, format->n);
}
