/* No terminal: WASI programs cannot query one.
 * SPDX-License-Identifier: MIT */
#include "tty.h"

#if defined(__wasi__)

bool tty_open(void) { return false; }
void tty_close(void) { }
bool tty_is_open(void) { return false; }
void tty_restore(void) { }
tty_event tty_read(char *buf, size_t cap, size_t *n, int wait_ms)
{
    (void)buf, (void)cap, (void)n, (void)wait_ms;
    return TTY_END;
}
void tty_write(const char *bytes, size_t n) { (void)bytes, (void)n; }
void tty_size(size_t *cols, size_t *rows) { *cols = 80, *rows = 24; }
bool tty_has_lines(void) { return false; }
bool tty_line(char *buf, size_t cap, size_t *n)
{
    (void)buf, (void)cap, (void)n;
    return false;
}
#endif
