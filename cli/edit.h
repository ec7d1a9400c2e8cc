/* Text under its writer's hands: keys go in, the text and what the screen must show come out.
 * Knows no terminal.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CLI_EDIT_H
#define QSF_CLI_EDIT_H

#include <stdbool.h>
#include <stddef.h>

typedef struct edit_bytes { char *p; size_t len, cap; } edit_bytes;
typedef struct edit_place { size_t row, col; } edit_place;
typedef enum edit_state { EDIT_KEYS, EDIT_ESCAPE, EDIT_SEQUENCE, EDIT_FUNCTION, EDIT_PASTE } edit_state;
/* Ctrl-R: the latest earlier text that has what is typed in it. */
typedef struct edit_search {
    bool        on;
    edit_bytes  query, before;    /* before: the text that Ctrl-G brings back */
    edit_bytes  prompt;           /* the prompt of a search, terminated */
    const char *prompt_before;
    size_t      found;            /* of the history */
} edit_search;

typedef enum edit_result { EDIT_MORE, EDIT_DONE, EDIT_END } edit_result;

/* Zero-initialise, then edit_resize. */
typedef struct editor {
    edit_bytes  text;             /* any bytes but 0; "\n" between its lines */
    size_t      at;               /* the cursor, between two characters */
    const char *prompt, *prompt_on, *prompt_off;      /* on, off: what makes the prompt bold, and ends it */

    edit_state  state;            /* of the keys: within ESC ..., ESC [ ..., ESC O ..., pasted text */
    /* the bytes of a sequence, of an unfinished character, or of what may be the end of a paste */
    char        held[32];
    size_t      n_held;
    bool        after_cr;         /* pasted: "\r\n" is one line end */

    /* what was entered, oldest first; the last one while editing: the text that was begun */
    edit_bytes *history;
    size_t      n_history, at_history;
    size_t      n_prefix;         /* bytes of the begun text that the ones to show begin with */
    edit_search search;

    edit_bytes  out;              /* what must go to the screen; the caller empties it */
    edit_bytes  frame, next;      /* what the screen shows, rows with "\n" between them, and what it shall */
    edit_place  cursor;           /* on the screen, from the frame's beginning */
    size_t      top;              /* the first row of the text that is on the screen */
    size_t      cols, rows;       /* of the screen that may be used */
} editor;

void        edit_free(editor *e);
/* Edits text after this prompt, at the beginning of a screen row; the cursor is at the end of the
 * text. */
void        edit_begin(editor *e, const char *prompt, const char *text, size_t len);
/* One byte as a terminal sends it.  DONE: Enter; END: Ctrl-D in an empty text. */
edit_result edit_key(editor *e, char byte);
/* Whether the bytes so far are the beginning of something longer; edit_settle handles an ESC
 * without anything after it as a key. */
static inline bool edit_waits(const editor *e) { return e->state == EDIT_ESCAPE; }
void        edit_settle(editor *e);
/* Brings the screen to the text, through e->out. */
void        edit_draw(editor *e);
/* Leaves the whole text on the screen and goes to the row below. */
void        edit_finish(editor *e);
/* The screen's row is empty, the cursor at its beginning. */
void        edit_forget(editor *e);
void        edit_resize(editor *e, size_t cols, size_t rows);
/* Adds the text to the history, unless it is already the latest entry. */
void        edit_remember(editor *e, const char *text, size_t len);

#endif
