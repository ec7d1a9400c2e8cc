/* What the cache holds, and removing it.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_HUB_LIST_H
#define QSF_HUB_LIST_H

#include "hub.h"
#include "name.h"

/* A model in the cache. */
typedef struct hub_entry {
    const char *name;           /* hf:OWNER/REPO/FILE, and @REVISION if that is not main; or a URL */
    const char *path;           /* of its first part */
    uint64_t    bytes;
} hub_entry;

/* Calls fn with each model, ordered by name.  QSF_E_MEMORY */
qsf_status hub_list(void (*fn)(void *user, const hub_entry *e), void *user, qsf_error *err);
/* Removes the models that a name stands for: all of a repository, those in a quantisation, a file;
 * of one revision if it has one.  Files that another revision has, too, stay. *freed: bytes.
 *
 * QSF_E_NOT_FOUND   the cache has no such model
 * QSF_E_IO          one of them is being downloaded */
qsf_status hub_remove(const char *name, uint64_t *freed, qsf_error *err);
/* Removes one model: the one that hub_find takes from the cache by this name.  Errors as of
 * hub_remove. */
qsf_status hub_remove_chosen(const hub_options *o, const char *name, uint64_t *freed, qsf_error *err);

#endif
