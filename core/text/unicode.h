/* Code points: UTF-8, classes, NFC.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_UNICODE_H
#define QSF_UNICODE_H

#include "base/base.h"

typedef enum qsf_class {
    /* Lu Ll Lt Lm Lo */
    QSF_C_OTHER = 0, QSF_C_UPPER, QSF_C_LOWER, QSF_C_TITLE, QSF_C_MODIFIER, QSF_C_LETTER,
    QSF_C_MARK, QSF_C_NUMBER, QSF_C_PUNCT, QSF_C_SYMBOL, QSF_C_SEPARATOR,
    QSF_C_SPACING, QSF_C_NUMERAL, QSF_C_LETTER_NUMBER, QSF_C_UNASSIGNED    /* of the table only */
} qsf_class;

enum { QSF_REPLACEMENT = 0xfffd };

extern const uint8_t  qsf_unicode_index[4352];       /* [code point / 256] block */
extern const uint8_t  qsf_unicode_classes[];         /* [block][128] two classes a byte, low first */
/* What decomposes: runs of code points, and their parts in columns, which take less room. */
extern const uint32_t qsf_unicode_n_runs, qsf_unicode_n_composed, qsf_unicode_n_marks;
extern const uint32_t qsf_unicode_run_from[];        /* [n_runs] the first code point; sorted */
extern const uint32_t qsf_unicode_run_at[];          /* [n_runs + 1] its place in the columns */
extern const uint8_t  qsf_unicode_first_low[], qsf_unicode_first_middle[],
    qsf_unicode_first_high[];                        /* [place] bytes of the first part */
extern const uint32_t qsf_unicode_second[];          /* [place] or 0 */
#if defined(QSF_SMALL_CODE)     /* a sorting of what is there, which does not compress */
extern uint16_t qsf_unicode_composed[];
extern const uint16_t qsf_unicode_single[85];   /* places of two parts that never compose */
#else
extern const uint16_t qsf_unicode_composed[];        /* [n_composed] places, sorted by their parts */
#endif
extern const uint32_t qsf_unicode_mark_from[];       /* [n_marks] a run of one combining class; sorted */
extern const uint8_t  qsf_unicode_mark_more[];       /* [n_marks] code points after the first */
extern const uint8_t  qsf_unicode_mark_class[];      /* [n_marks] */

static inline uint8_t qsf_class_stored(uint32_t c)
{
    if (c > 0x10ffff) return QSF_C_OTHER;
    const uint8_t two = qsf_unicode_classes[(size_t)qsf_unicode_index[c >> 8] * 128 + (c & 255) / 2];
    return c & 1 ? two >> 4 : two & 15;
}
static inline qsf_class qsf_class_of(uint32_t c)
{
    const uint8_t k = qsf_class_stored(c);
    if (k < QSF_C_SPACING) return (qsf_class)k;
    return k == QSF_C_SPACING ? QSF_C_MARK : k == QSF_C_UNASSIGNED ? QSF_C_OTHER : QSF_C_NUMBER;
}
/* A mark with room of its own (Mc), or around another character (Me). */
static inline bool qsf_is_spacing_mark(uint32_t c) { return qsf_class_stored(c) == QSF_C_SPACING; }
/* \d: a number that is a digit (Nd). */
static inline bool qsf_is_digit(uint32_t c) { return qsf_class_stored(c) == QSF_C_NUMBER; }
static inline bool qsf_is_letter(uint32_t c)
{
    const qsf_class k = qsf_class_of(c);
    return k >= QSF_C_UPPER && k <= QSF_C_LETTER;
}
static inline bool qsf_is_number(uint32_t c) { return qsf_class_of(c) == QSF_C_NUMBER; }
/* White_Space, as \s of the regular expressions means it. */
static inline bool qsf_is_space(uint32_t c)
{
    return (c >= 9 && c <= 13) || c == 32 || c == 0x85 || c == 0xa0 || c == 0x1680
        || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
           c == 0x202f || c == 0x205f || c == 0x3000;
}

/* One code point from text[0..len), len > 0; *used is its bytes.
 * A byte that begins none is U+FFFD and used alone. */
uint32_t qsf_utf8_decode(const char *text, size_t len, size_t *used);
/* Returns the bytes written, at most 4. */
size_t   qsf_utf8_encode(uint32_t c, char *out);
/* Bytes of the character that a byte begins, by its high bits;
 * 1 for a continuation or an invalid byte. */
size_t   qsf_utf8_length(uint8_t lead);

/* The lower case if it is one character, else the character itself. */
uint32_t qsf_lower_case(uint32_t c);

/* NFD of cps[0..n) to out; returns the number of code points.  out and tmp have room for 4 * n. */
size_t   qsf_nfd(const uint32_t *cps, size_t n, uint32_t *out, uint32_t *tmp);
/* NFC of cps[0..n) to out; returns the number of code points.  work and out have room for 4 * n,
 * the most it can become. */
size_t   qsf_nfc(const uint32_t *cps, size_t n, uint32_t *work, uint32_t *out);

#endif
