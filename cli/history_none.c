/* No history on systems without a terminal.
 * SPDX-License-Identifier: MIT */
#include "history.h"

#if defined(__wasi__)

history_file *history_file_open(const char *path, const char **why)
{
    (void)path;
    *why = "this system has no terminal";
    return NULL;
}
void  history_file_close(history_file *f) { (void)f; }
char *history_file_read(history_file *f, size_t *len)
{
    (void)f;
    *len = 0;
    return NULL;
}
bool  history_file_add(history_file *f, const char *bytes, size_t len) { return (void)f, (void)bytes, !len; }
bool  history_file_replace(history_file *f, const char *bytes, size_t len)
{
    return (void)f, (void)bytes, !len;
}
void  history_file_place(char *path, size_t cap) { if (cap) path[0] = 0; }
#endif
