/* How many columns of a terminal text takes, and which code points form one character.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CLI_WIDTH_H
#define QSF_CLI_WIDTH_H

#include <stddef.h>
#include <stdint.h>

extern const uint32_t width_none[][2], width_two[][2];     /* [n][2] first, last; sorted */
extern const size_t   width_n_none, width_n_two;

/* 0, 1 or 2.  Not for control characters. */
unsigned width_of(uint32_t c);
/* Bytes of the character that text[0..len) begins with (len > 0): a code point and the marks,
 * joiners and modifiers that belong to it. *columns is what it takes.  A byte that is not UTF-8 and
 * a control character stand alone, with one column. */
size_t   width_cluster(const char *text, size_t len, unsigned *columns);

#endif
