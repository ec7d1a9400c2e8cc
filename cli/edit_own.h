/* What edit.c (keys), edit_history.c and edit_screen.c (drawing) have of each other.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CLI_EDIT_OWN_H
#define QSF_CLI_EDIT_OWN_H

#include "edit.h"

/* ---- edit_text.c ---- */
/* Appends; false: out of memory, and unchanged. */
bool edit_put(edit_bytes *b, const char *bytes, size_t n);
void edit_drop(edit_bytes *b);
/* The text becomes this one. */
void edit_set(editor *e, const edit_bytes *text);

/* ---- edit_screen.c ---- */
/* Moves the cursor a row of the screen up (-1) or down (1), in its column; false: no such row. */
bool edit_row_move(editor *e, int by);
/* Clears the screen. */
void edit_clear(editor *e);

/* ---- edit_history.c ---- */
/* by: -1 or 1.  The unfinished text comes after the last entry; changes to entries are not kept.
 * If earlier texts begin like the unfinished one up to the cursor, only those are shown. */
void history_move(editor *e, int by);
/* Back to a history that has only what was entered. */
void history_leave(editor *e);
void search_begin(editor *e);
/* A key while searching; false: the search has ended, and the key is the text's. */
bool search_key(editor *e, char byte);

#endif
