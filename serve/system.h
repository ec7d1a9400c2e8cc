/* What the server asks of the system, apart from libevent and threads.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_SERVE_SYSTEM_H
#define QSF_SERVE_SYSTEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Call before any use of sockets.  false: the system has no sockets. */
bool system_begin(void);
/* Raises the limit of open files to what connections need besides others; returns how many
 * connections are possible. */
unsigned system_files(unsigned connections, unsigned others);
/* Gives this thread a lower priority. */
void system_behind(void);
/* Sends a byte to wake the other end of a socket.  false: the socket is full. */
bool system_wake(int fd);
/* A file without a name, in dir (NULL: the system's folder for temporary files): no other process
 * can open it, and it disappears with this one.  -1: errno says why. */
int system_file_unnamed(const char *dir);
/* Bytes that were read or written; -1: errno says why not. */
long long system_read_at(int fd, void *to, size_t len, uint64_t at);
long long system_write_at(int fd, const void *from, size_t len, uint64_t at);
void system_close(int fd);
/* What was written to the file lies on the disk. */
bool system_flush(FILE *f);
/* Gives a file the name of another one, in whose place it comes. */
bool system_replace(const char *path, const char *other);
/* Calls seen for each name in a folder.  false: errno says why it cannot be read. */
bool system_folder(const char *path, void (*seen)(void *user, const char *name), void *user);

#endif
