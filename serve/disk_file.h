/* An unlinked file, and a thread that writes to it and reads from it.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_SERVE_DISK_FILE_H
#define QSF_SERVE_DISK_FILE_H

#include <qsf.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct disk_file disk_file;

/* One operation; it belongs to the thread until disk_file_done returns it. */
typedef struct disk_work {
    uint64_t    at, bytes;                 /* of the file */
    char       *buffer;
    uint64_t    room;                      /* of the buffer */
    void       *user;
    const char *error;                     /* NULL: done */
    uint64_t    took_ns;
    bool        writes;
    struct disk_work *next;
} disk_work;

/* dir: NULL for the system's.  wake: called on the thread when something was done. */
disk_file *disk_file_new(const char *dir, void (*wake)(void *user), void *user, qsf_error *err);
void       disk_file_free(disk_file *f);                     /* takes NULL; what is queued is not done */
void       disk_file_do(disk_file *f, disk_work *w, bool writes);
disk_work *disk_file_done(disk_file *f);                     /* the next one that is; NULL: none */

#endif
