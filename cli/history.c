/* The history's file: its entries, their number, and its path.
 * SPDX-License-Identifier: MIT */
#include "history.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char history_path[1024];          /* "": no history */

/* An entry as a line; the caller frees. */
static char *entry_line(const char *text, size_t len, size_t *n)
{
    char *line = malloc(2 * len + 1), *to = line;
    for (size_t i = 0; line && i < len; i++) {
        const char c = text[i];
        if (c == '\n' || c == '\r' || c == '\\') *to++ = '\\';
        *to++ = c == '\n' ? 'n' : c == '\r' ? 'r' : c;
    }
    if (!line) return NULL;
    *to++ = '\n';
    *n = (size_t)(to - line);
    return line;
}

/* Makes an entry of the line, in its place. */
static size_t line_entry(char *line, size_t len)
{
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        if (line[i] == '\\' && i + 1 < len) {
            i++;
            line[n++] = line[i] == 'n' ? '\n' : line[i] == 'r' ? '\r' : line[i];
        } else {
            line[n++] = line[i];
        }
    }
    return n;
}

/* Calls each with every entry.  The file may come from anywhere: anything else is skipped. */
static void give_entries(char *text, size_t len, history_each *each, void *user)
{
    for (char *at = text, *end = text + len, *stop; at < end; at = stop + 1) {
        stop = memchr(at, '\n', (size_t)(end - at));
        if (!stop) return;                        /* an incomplete line: its writer was killed */
        const size_t n = (size_t)(stop - at);
        if (n && n <= 2 * HISTORY_ENTRY && !memchr(at, 0, n)) each(user, at, line_entry(at, n));
    }
}

/* Where the latest lines begin, if there are too many; otherwise 0. */
static size_t lines_to_drop(const char *text, size_t len)
{
    size_t lines = 0, at = 0;
    for (size_t i = 0; i < len; i++) lines += text[i] == '\n';
    if (lines <= 2 * HISTORY_ENTRIES) return 0;
    for (lines -= HISTORY_ENTRIES; lines; at++) lines -= text[at] == '\n';
    return at;
}

void history_open(const char *setting, history_each *each, void *user)
{
    const char *why;
    size_t len, old;
    history_path[0] = 0;
    if (setting && (!strcmp(setting, "off") || !*setting)) return;
    if (!setting) history_file_place(history_path, sizeof history_path);
    else snprintf(history_path, sizeof history_path, "%s", setting);
    if (!history_path[0]) return;
    history_file *f = history_file_open(history_path, &why);
    if (!f) {
        if (setting) fprintf(stderr, "the history is not saved: %s: %s\n", setting, why);
        history_path[0] = 0;
        return;
    }
    char *text = history_file_read(f, &len);
    if (!text) {
        if (setting) fprintf(stderr, "the history is not saved: %s is not a history file\n", setting);
        history_path[0] = 0;
    } else {
        if ((old = lines_to_drop(text, len))) history_file_replace(f, text + old, len - old);
        give_entries(text + old, len - old, each, user);
    }
    free(text);
    history_file_close(f);
}

void history_keep(const char *text, size_t len)
{
    const char *why;
    size_t n;
    if (!history_path[0] || !len || len > HISTORY_ENTRY || *text == ' ' || *text == '\t') return;
    char *line = entry_line(text, len, &n);
    history_file *f = line ? history_file_open(history_path, &why) : NULL;
    if (f) {
        history_file_add(f, line, n);
        history_file_close(f);
    }
    free(line);
}

void history_close(void) { history_path[0] = 0; }
