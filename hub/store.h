/* What the cache asks of the file system: folders, links, locks, and a file that grows.  Paths are
 * UTF-8 with '/'.  store_posix.c and store_windows.c have it.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_HUB_STORE_H
#define QSF_HUB_STORE_H

#include "base/host.h"

/* Functions that fail have the reason in `why`, as the end of a sentence. */
enum { STORE_WHY = 160 };

/* Makes a folder, and those above it; it may be there. */
bool store_make(const char *path, char why[STORE_WHY]);
/* The size of a file, or of the one that a link leads to.  false: no such file. */
bool store_size(const char *path, uint64_t *out);
bool store_is_folder(const char *path);
/* Makes the link at path lead to target, which is relative to the link's folder; what was there is
 * replaced.  blob: the same target as a whole path; on a system without links, it is moved. */
bool store_link(const char *path, const char *target, const char *blob, char why[STORE_WHY]);
bool store_rename(const char *from, const char *to, char why[STORE_WHY]);
bool store_remove(const char *path);                   /* a file, a link or an empty folder */
/* The name that a link leads to; false: it is not a link. */
bool store_link_target(const char *path, char *out, size_t cap);
/* Calls fn with each name in the folder until it returns false. */
void store_list(const char *folder, bool (*fn)(void *user, const char *name), void *user);
/* Bytes that may still be written there; UINT64_MAX: not known. */
uint64_t store_free(const char *folder);
/* Bytes of memory that the machine has; UINT64_MAX: not known. */
uint64_t store_machine_memory(void);
/* Changes a path as the system's users write it to one with '/'. */
void store_slashes(char *path);
/* Writes the whole file anew: it has all of the text, or what it had. */
bool store_write_text(const char *path, const char *text, char why[STORE_WHY]);
/* At most cap - 1 bytes of a file, terminated; false: it is not there. */
bool store_read_text(const char *path, char *out, size_t cap);

/* Between these two a connection that the other side has closed does not send this thread SIGPIPE:
 * TLS libraries write to sockets as to files. */
void store_pipe_hold(bool *held);
void store_pipe_release(bool held);

/* ---- a lock that other processes see, huggingface_hub among them ---- */
typedef struct store_lock store_lock;
typedef enum store_held { STORE_LOCKED, STORE_BUSY, STORE_FAILED } store_held;
/* Tries once.  STORE_FAILED: this file system has no locks. */
store_held store_lock_try(const char *path, store_lock **out, char why[STORE_WHY]);
void      store_unlock(store_lock *l);                  /* takes NULL */

/* ---- a file that grows ---- */
typedef struct store_file store_file;
/* Opens or makes it; *len: what it has. */
store_file *store_open(const char *path, uint64_t *len, char why[STORE_WHY]);
/* The same file once more, for reading; it may be renamed meanwhile.  NULL: it cannot be opened. */
store_file *store_open_again(const char *path);
size_t     store_read(store_file *f, uint64_t at, void *out, size_t n);       /* less: an error */
bool       store_cut(store_file *f, uint64_t len, char why[STORE_WHY]);
bool       store_write(store_file *f, uint64_t at, const void *bytes, size_t n, char why[STORE_WHY]);
/* Closes it; sync: when its bytes are on the disk. */
bool       store_close(store_file *f, bool sync, char why[STORE_WHY]);

#endif
