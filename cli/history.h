/* What was typed, kept between runs in a file: one entry a line, oldest first, with \n and \\ for
 * line ends and backslashes in it.  Several programs may keep theirs in one file.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CLI_HISTORY_H
#define QSF_CLI_HISTORY_H

#include <stdbool.h>
#include <stddef.h>

enum {
    HISTORY_ENTRIES = 1000,          /* a file with twice as many is cut to the latest of them */
    HISTORY_ENTRY = 65536,           /* bytes; longer ones are not kept */
    HISTORY_FILE = 16 << 20          /* bytes; a larger file is not ours, and left alone */
};

/* Takes the setting, a path, "off", or NULL for the system's place for such files, and calls each
 * with every entry of the file.  Failures are reported if a path was given. */
typedef void history_each(void *user, const char *text, size_t len);
void history_open(const char *setting, history_each *each, void *user);
/* Adds an entry, unless it begins with a blank. */
void history_keep(const char *text, size_t len);
void history_close(void);

/* ---- history_posix.c, history_windows.c: a file that is locked while open ---- */
typedef struct history_file history_file;
/* Opens it for reading and writing, waits a while for another program to close it, and creates it
 * if it does not exist, accessible to its user alone.  NULL: *why has the reason. */
history_file *history_file_open(const char *path, const char **why);
void          history_file_close(history_file *f);
/* The whole file, terminated; the caller frees.  NULL: it is not a plain file, it is too large, or
 * memory is short. */
char         *history_file_read(history_file *f, size_t *len);
bool          history_file_add(history_file *f, const char *bytes, size_t len);
/* The file becomes these bytes, or stays as it was. */
bool          history_file_replace(history_file *f, const char *bytes, size_t len);
/* The file's usual place, "" if unknown; makes its folders. */
void          history_file_place(char *path, size_t cap);

#endif
