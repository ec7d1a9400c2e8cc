/* What edit.c (keys) and edit_screen.c (drawing) have of each other.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CLI_EDIT_OWN_H
#define QSF_CLI_EDIT_OWN_H

#include "edit.h"

/* Appends; false: out of memory, nothing was done. */
bool edit_put(edit_bytes *b, const char *bytes, size_t n);
/* Moves the cursor a row of the screen up (-1) or down (1), in its column; false: there is none. */
bool edit_row_move(editor *e, int by);
/* Clears the screen. */
void edit_clear(editor *e);

#endif
