/* Starting another of our programs.
 * SPDX-License-Identifier: MIT */
#if !defined(_WIN32) && !defined(_GNU_SOURCE)
#  define _POSIX_C_SOURCE 200809L
#endif
#include "start.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(_WIN32)
#  include <process.h>
#elif !defined(__wasi__)
#  include <unistd.h>
#endif

/* "FOLDER/program"; false: too long. */
static bool start_path(char *out, size_t cap, const char *self, const char *program)
{
    const char *end = NULL;
    for (const char *p = self; *p; p++) if (*p == '/' || *p == '\\') end = p + 1;
    const int n = snprintf(out, cap, "%.*s%s", end ? (int)(end - self) : 0, self, program);
    return n > 0 && (size_t)n < cap;
}

#if defined(_WIN32)
/* An argument as Windows' C library takes a command line apart again. */
static char *start_quoted(const char *text)
{
    char *out = malloc(2 * strlen(text) + 3), *p = out;
    size_t slashes = 0;
    if (!out) return NULL;
    *p++ = '"';
    for (; *text; text++) {
        if (*text == '"') for (size_t i = 0; i <= slashes; i++) *p++ = '\\';
        slashes = *text == '\\' ? slashes + 1 : 0;
        *p++ = *text;
    }
    while (slashes--) *p++ = '\\';
    *p++ = '"';
    *p = 0;
    return out;
}

/* The process stays, and ends with the other one's code. */
int start_program(const char *self, const char *program, char **argv)
{
    char path[4096];
    size_t n = 0;
    if (!start_path(path, sizeof path, self, program)) return -1;
    while (argv[n]) n++;
    const char **quoted = calloc(n + 1, sizeof *quoted);
    for (size_t i = 0; quoted && i < n; i++)
        if (!(quoted[i] = start_quoted(i ? argv[i] : path))) return -1;
    return quoted ? (int)_spawnvp(_P_WAIT, path, quoted) : -1;
}
#elif defined(__wasi__)
int start_program(const char *self, const char *program, char **argv)
{
    char path[256];
    (void)argv;
    (void)start_path(path, sizeof path, self, program);
    return -1;
}
#else
int start_program(const char *self, const char *program, char **argv)
{
    char path[4096];
    if (!start_path(path, sizeof path, self, program)) return -1;
    argv[0] = path;
    execvp(path, argv);
    return -1;
}
#endif
