/* Shared libraries that are loaded while the program runs.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_PARITY_LIBRARY_H
#define QSF_PARITY_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

typedef struct library library;
typedef void (*library_fn)(void);

/* false: this build cannot load any (it is one static file). */
bool     library_possible(void);
/* path: a file, or a name that the system looks for.  NULL: why has the reason. */
library *library_open(const char *path, char *why, size_t cap);
/* The libraries that path needs may be in its directory: loads this file, if it exists, for those
 * loaded later. */
void     library_preload(const char *path);
/* NULL: neither the library nor its dependencies have this function. */
library_fn library_find(library *l, const char *name);
/* The file that a function came from, "" if the system does not report it. */
void     library_file(library_fn fn, char *out, size_t cap);
/* Names of a library's file here: "libllama.so" of "llama"; i = 0, 1, ...; false: no more. */
bool     library_name(const char *name, int i, char *out, size_t cap);

#endif
