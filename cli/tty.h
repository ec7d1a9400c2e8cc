/* What the line editor asks of a terminal.  tty_posix.c has one; tty_windows.c reads whole lines,
 * which the console edits; tty_none.c is for systems without a terminal.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CLI_TTY_H
#define QSF_CLI_TTY_H

#include <stdbool.h>
#include <stddef.h>

typedef enum tty_event {
    TTY_BYTES,       /* *n of them are in buf */
    TTY_PAUSE,       /* none came in time */
    TTY_INTERRUPT,   /* interrupted() */
    TTY_RESIZE,
    TTY_REDRAW,      /* resumed after a stop: the screen may show anything */
    TTY_END
} tty_event;

/* From here to tty_close, keys arrive one by one and are not echoed by the terminal, pasted text
 * arrives between ESC [200~ and ESC [201~, and what is typed ahead waits.  The terminal is restored
 * when the program ends, by whatever signal, or is stopped.  False: not a terminal, or it cannot
 * move its cursor. */
bool      tty_open(void);
void      tty_close(void);
bool      tty_is_open(void);
/* Restores the terminal as it was before tty_open; safe in a signal handler. */
void      tty_restore(void);
/* Waits at most wait_ms, or for as long as it takes where that is negative. */
tty_event tty_read(char *buf, size_t cap, size_t *n, int wait_ms);
void      tty_write(const char *bytes, size_t n);
/* The size of the terminal that is written to; 80 and 24 if unknown. */
void      tty_size(size_t *cols, size_t *rows);

/* Whether tty_line reads standard input: a console that is not read byte by byte. */
bool      tty_has_lines(void);
/* The next piece of a line, as UTF-8; at its end with "\n".
 * False: the end of input, or an interrupt. */
bool      tty_line(char *buf, size_t cap, size_t *n);

#endif
