/* Columns of text in a terminal.
 * SPDX-License-Identifier: MIT
 *
 * Terminals agree on wide characters and on marks.  About emoji that are joined or
 * chosen by a selector they do not; here such a group takes two columns, as in the
 * terminals that know groups. */
#include "width.h"

#include "text/unicode.h"

enum { ZERO_WIDTH_JOINER = 0x200d, EMOJI_SELECTOR = 0xfe0f };

static bool width_within(uint32_t c, const uint32_t (*ranges)[2], size_t n)
{
    size_t low = 0, high = n;
    while (low < high) {
        const size_t mid = low + (high - low) / 2;
        if (c > ranges[mid][1]) low = mid + 1;
        else high = mid;
    }
    return low < n && c >= ranges[low][0];
}

unsigned width_of(uint32_t c)
{
    if (c < 0x300) return 1;
    return width_within(c, width_none, width_n_none) ? 0 : width_within(c, width_two, width_n_two) ? 2 : 1;
}

static bool width_control(uint32_t c) { return c < 0x20 || (c >= 0x7f && c < 0xa0); }
/* two of these letters are a flag */
static bool width_flag(uint32_t c) { return c >= 0x1f1e6 && c <= 0x1f1ff; }
static bool width_tone(uint32_t c) { return c >= 0x1f3fb && c <= 0x1f3ff; }
/* the others joiners leave apart */
static bool width_pictures(uint32_t c) { return c >= 0x2190; }

size_t width_cluster(const char *text, size_t len, unsigned *columns)
{
    size_t at, used;
    const uint32_t first = qsf_utf8_decode(text, len, &at);
    *columns = 1;
    if (width_control(first) || first == QSF_REPLACEMENT) return at;
    *columns = width_of(first);
    for (uint32_t before = first, c; at < len; at += used, before = c) {
        c = qsf_utf8_decode(text + at, len - at, &used);
        if (width_control(c)) break;
        if (c == EMOJI_SELECTOR && *columns == 1) *columns = 2;
        else if (width_flag(first) && width_flag(c) && before == first && *columns == 1) *columns = 2;
        else if (before == ZERO_WIDTH_JOINER && width_pictures(first) && width_pictures(c)) continue;
        else if (width_tone(c) && *columns == 2) continue;
        else if (width_of(c)) break;
    }
    return at;
}
