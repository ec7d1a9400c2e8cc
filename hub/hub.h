/* Models by name: finds a model in the cache, or downloads it from Hugging Face's hub or a mirror.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_HUB_H
#define QSF_HUB_H

#include "qsf.h"

/* A download on its way. */
typedef struct hub_progress {
    const char *name;           /* "owner/repo/model-Q4_K_M.gguf" */
    uint64_t    done, total;    /* bytes of the file; done includes an earlier run's */
    unsigned    part, n_parts;  /* of a split model, from 1 */
    const char *sha256;         /* of the file, in hexadecimal digits; "": not known */
    enum { HUB_BEGINS, HUB_RUNS, HUB_ENDS } what;
    const char *path;           /* of the file that grows; "": of several */
} hub_progress;

/* The beginning of a model that may not be here yet. */
typedef struct hub_head hub_head;
uint64_t   hub_head_size(const hub_head *h);             /* bytes of the whole file */
/* QSF_E_IO: it cannot be read */
qsf_status hub_head_read(hub_head *h, uint64_t at, void *dst, size_t len);

enum { HUB_MEMORY_PART = 32 };
typedef struct hub_options {
    const char *address;        /* of the hub; NULL: QSF_HUB, HF_ENDPOINT, https://huggingface.co */
    bool        offline;        /* only the cache; HF_HUB_OFFLINE=1 does the same */
    unsigned    connections;    /* for one large file; 0: QSF_HUB_CONNECTIONS, else 4 */
    uint64_t    memory;         /* bytes that a model may take; 0: the machine's memory.  A download
                                 * takes at most memory / HUB_MEMORY_PART more */
    void      (*progress)(void *user, const hub_progress *p);      /* may be NULL, as the others */
    void      (*note)(void *user, const char *line);               /* what a person may want to know */
    bool      (*stopped)(void *user);
    void       *user;           /* of the three above */
    /* The memory in bytes that a model needs, from its description; 0: not known.  NULL: the size
     * of its file says whether it fits. */
    uint64_t  (*memory_of)(hub_head *h);
} hub_options;

/* Whether the text is the name of a model or a URL, and not a path. */
bool hub_is_name(const char *text);
/* The path of the model with this name: hf:OWNER/REPO[:QUANTISATION | /FILE][@REVISION], or a URL.
 * Of a split model, of its first part; all of them are there.  The caller frees *path.
 *
 * QSF_E_ARGUMENT     not a name
 * QSF_E_NOT_FOUND    the hub has no such model; or it is not in the cache, and must be
 * QSF_E_IO           the hub cannot be reached or refuses, or the cache cannot be written
 * QSF_E_CORRUPT      what came is not what the hub has
 * QSF_E_UNSUPPORTED  libcurl cannot be loaded
 * QSF_E_CANCELLED    stopped; the next call resumes */
qsf_status hub_find(const hub_options *o, const char *name, char **path, qsf_error *err);

/* A model of a repository. */
typedef struct hub_shown {
    const char *file, *label;   /* label: its quantisation, or "" */
    uint64_t    bytes;
    unsigned    n_parts;
    bool        chosen;         /* hub_find would take it */
    const char *path;           /* in the cache; NULL: it is not there */
} hub_shown;
/* Calls fn with each model of the repository that a name is of, largest first: the hub's, or those
 * in the cache if the hub is not asked or is away.  Errors as of hub_find. */
qsf_status hub_show(const hub_options *o, const char *name, void (*fn)(void *user, const hub_shown *m),
                    void *user, qsf_error *err);

#endif
