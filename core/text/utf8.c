/* UTF-8 in and out, whole characters for streams, and NFC.
 * SPDX-License-Identifier: MIT */
#include "text/unicode.h"
#include "text/case_table.h"

size_t qsf_utf8_length(uint8_t lead)
{
    return lead < 0xc0 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf8 ? 4 : 1;
}

uint32_t qsf_utf8_decode(const char *text, size_t len, size_t *used)
{
    const uint8_t *b = (const uint8_t *)text;
    *used = 1;
    if (b[0] < 0x80) return b[0];
    const size_t n = qsf_utf8_length(b[0]);
    if (n == 1 || n > len) return QSF_REPLACEMENT;
    uint32_t c = b[0] & (0x7f >> n);
    for (size_t i = 1; i < n; i++) {
        if ((b[i] & 0xc0) != 0x80) return QSF_REPLACEMENT;
        c = c << 6 | (b[i] & 0x3f);
    }
    *used = n;
    return c;
}

size_t qsf_utf8_encode(uint32_t c, char *out)
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    const size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const uint8_t lead[] = { 0, 0, 0xc0, 0xe0, 0xf0 };
    for (size_t i = n; i-- > 1; c >>= 6) out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)(lead[n] | c);
    return n;
}

/* ---- streaming ---- */

/* Whether b may be the next byte of a well-formed character that has these bytes already
 * (Unicode, table 3-7). */
static bool utf8_continues(const unsigned char *have, size_t n, uint8_t b)
{
    if ((b & 0xc0) != 0x80) return false;
    if (n != 1) return true;
    switch (have[0]) {
    case 0xe0: return b >= 0xa0;
    case 0xed: return b < 0xa0;
    case 0xf0: return b >= 0x90;
    case 0xf4: return b < 0x90;
    default: return true;
    }
}

size_t qsf_utf8_push(qsf_utf8_tail *tail, const char *piece, size_t len, char *out)
{
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        const uint8_t b = (uint8_t)piece[i];
        if (tail->len && !utf8_continues(tail->bytes, tail->len, b)) {
            n += qsf_utf8_encode(QSF_REPLACEMENT, out + n);
            tail->len = 0;
        }
        if (!tail->len) {
            if (b < 0x80) {
                out[n++] = (char)b;
                continue;
            }
            if (b < 0xc2 || b > 0xf4) {                  /* begins no character */
                n += qsf_utf8_encode(QSF_REPLACEMENT, out + n);
                continue;
            }
        }
        tail->bytes[tail->len++] = b;
        if (tail->len == qsf_utf8_length(tail->bytes[0])) {
            memcpy(out + n, tail->bytes, tail->len);
            n += tail->len;
            tail->len = 0;
        }
    }
    return n;
}

uint32_t qsf_lower_case(uint32_t c)
{
    if (c < 0x80) return c + 32 * (c >= 'A' && c <= 'Z');
    for (size_t i = 0; i < QSF_N_CASE_LOWER && c >= qsf_case_lower[i].first; i++) {
        const qsf_case_run *r = &qsf_case_lower[i];
        if (c - r->first < (uint32_t)r->n * r->step && (c - r->first) % r->step == 0)
            return c + (uint32_t)r->by;
    }
    return c;
}

/* ---- NFC: Unicode Standard Annex 15; Hangul by arithmetic (section 3.12) ---- */

enum { HANGUL_S = 0xac00, HANGUL_L = 0x1100, HANGUL_V = 0x1161, HANGUL_T = 0x11a7, HANGUL_NV = 21,
       HANGUL_NT = 28, HANGUL_NS = 11172 };

/* How many of the n sorted numbers are at most x. */
static size_t up_to(const uint32_t *sorted, size_t n, uint32_t x)
{
    size_t low = 0;
    while (low < n) {
        const size_t mid = (low + n) / 2;
        if (sorted[mid] > x) n = mid;
        else low = mid + 1;
    }
    return low;
}

static uint32_t combining_class(uint32_t c)
{
    if (c < 0x300) return 0;
    const size_t i = up_to(qsf_unicode_mark_from, qsf_unicode_n_marks, c) - 1;
    return c - qsf_unicode_mark_from[i] <= qsf_unicode_mark_more[i] ? qsf_unicode_mark_class[i] : 0;
}

/* The place of what c decomposes into; SIZE_MAX: it does not. */
static size_t decomposition(uint32_t c)
{
    if (c < 0xc0) return SIZE_MAX;
    const size_t i = up_to(qsf_unicode_run_from, qsf_unicode_n_runs, c) - 1,
        at = qsf_unicode_run_at[i] + (c - qsf_unicode_run_from[i]);
    return at < qsf_unicode_run_at[i + 1] ? at : SIZE_MAX;
}

/* The first part of what decomposes into two, or the only one. */
static uint32_t first_part(size_t at)
{
    return qsf_unicode_first_low[at] | (uint32_t)qsf_unicode_first_middle[at] << 8
           | (uint32_t)qsf_unicode_first_high[at] << 16;
}

static uint32_t composition(uint32_t a, uint32_t b)
{
    if (a - HANGUL_L < 19 && b - HANGUL_V < HANGUL_NV)
        return HANGUL_S + ((a - HANGUL_L) * HANGUL_NV + (b - HANGUL_V)) * HANGUL_NT;
    if (a - HANGUL_S < HANGUL_NS && (a - HANGUL_S) % HANGUL_NT == 0 && b - HANGUL_T - 1 < HANGUL_NT - 1)
        return a + (b - HANGUL_T);
    size_t low = 0, high = qsf_unicode_n_composed;
    while (low < high) {
        const size_t mid = (low + high) / 2;
        const uint32_t at = qsf_unicode_composed[mid], first = first_part(at),
            second = qsf_unicode_second[at];
        if (a < first || (a == first && b < second)) high = mid;
        else if (a > first || b > second) low = mid + 1;
        else {
            const size_t i = up_to(qsf_unicode_run_at, qsf_unicode_n_runs, at) - 1;
            return qsf_unicode_run_from[i] + (at - qsf_unicode_run_at[i]);
        }
    }
    return 0;
}

/* Canonical decomposition of one code point; at most 4.  The first part may decompose again,
 * the second never does. */
static size_t decompose(uint32_t c, uint32_t *out)
{
    if (c - HANGUL_S < HANGUL_NS) {
        const uint32_t s = c - HANGUL_S;
        out[0] = HANGUL_L + s / (HANGUL_NV * HANGUL_NT);
        out[1] = HANGUL_V + s % (HANGUL_NV * HANGUL_NT) / HANGUL_NT;
        if (s % HANGUL_NT == 0) return 2;
        out[2] = HANGUL_T + s % HANGUL_NT;
        return 3;
    }
    uint32_t back[4];
    size_t n = 0, written = 0;
    for (size_t at; (at = decomposition(c)) != SIZE_MAX && n < 3;) {
        if (qsf_unicode_second[at]) back[n++] = qsf_unicode_second[at];
        c = first_part(at);
    }
    out[written++] = c;
    while (n) out[written++] = back[--n];
    return written;
}

/* Brings runs of marks into the order of their classes, stable; tmp has room for n.  Short runs by
 * insertion, long ones, which only hostile text has, by counting. */
static void order_marks(uint32_t *c, size_t n, uint32_t *tmp)
{
    for (size_t begin = 0, end; begin < n; begin = end + 1) {
        for (end = begin; end < n && combining_class(c[end]);) end++;
        const size_t run = end - begin;
        if (run > 32) {
            size_t at[257] = { 0 };
            for (size_t i = begin; i < end; i++) at[combining_class(c[i]) + 1]++;
            for (size_t k = 1; k < 257; k++) at[k] += at[k - 1];
            for (size_t i = begin; i < end; i++) tmp[at[combining_class(c[i])]++] = c[i];
            memcpy(c + begin, tmp, run * sizeof *c);
            continue;
        }
        for (size_t i = begin + 1; i < end; i++) {
            const uint32_t x = c[i], k = combining_class(x);
            size_t j = i;
            for (; j > begin && combining_class(c[j - 1]) > k; j--) c[j] = c[j - 1];
            c[j] = x;
        }
    }
}

size_t qsf_nfd(const uint32_t *cps, size_t n, uint32_t *out, uint32_t *tmp)
{
    size_t n_out = 0;
    for (size_t i = 0; i < n; i++) n_out += decompose(cps[i], out + n_out);
    order_marks(out, n_out, tmp);
    return n_out;
}

size_t qsf_nfc(const uint32_t *cps, size_t n, uint32_t *work, uint32_t *out)
{
    const size_t n_work = qsf_nfd(cps, n, work, out);
    size_t n_out = 0, starter = SIZE_MAX;
    uint32_t last = 0;
    for (size_t i = 0; i < n_work; i++) {
        const uint32_t c = work[i], k = combining_class(c);
        /* A mark joins the last starter unless one of its own class or a starter intervenes. */
        const bool blocked = starter == SIZE_MAX || (n_out - 1 != starter && last >= k);
        const uint32_t joined = blocked ? 0 : composition(out[starter], c);
        if (joined) {
            out[starter] = joined;
            continue;
        }
        if (!k) starter = n_out;
        last = k;
        out[n_out++] = c;
    }
    return n_out;
}
