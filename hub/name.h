/* Names of models on a hub, and which of a repository's files such a name is for. js/hub.js has
 * the same rules; tests/golden/hub_names.json has cases for both.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_HUB_NAME_H
#define QSF_HUB_NAME_H

#include "base/host.h"

/* hf:OWNER/REPO[@REVISION][/FILE | :QUANTISATION][@REVISION] */
typedef struct hub_name {
    char repo[200];             /* "OWNER/REPO" */
    char file[400];             /* a path in the repository; "": none was named */
    char label[64];             /* the quantisation; "": none was named */
    char revision[200];         /* a branch, a tag or a commit */
} hub_name;

/* QSF_E_ARGUMENT: not a name */
qsf_status hub_name_read(const char *text, hub_name *out, qsf_error *err);
/* Whether the text begins as a name does, so that it is not a file's path. */
bool       hub_name_begins(const char *text);

/* A file of a repository. */
typedef struct hub_file {
    char    *path;              /* owned */
    uint64_t size;
} hub_file;
typedef struct hub_files {
    hub_file *items;
    size_t    n, cap;
} hub_files;
/* false: out of memory */
bool hub_files_add(hub_files *files, const char *path, uint64_t size);
void hub_files_free(hub_files *files);
/* NULL: no file has this path. */
const hub_file *hub_files_find(const hub_files *files, const char *path);
/* Whether a path from a hub stays within its repository's folder, and is one that every system can
 * have. */
bool hub_path_is_safe(const char *path);

/* A model among the files; the parts of a split model are one. */
typedef struct hub_model {
    const hub_file *first;
    unsigned n_parts;
    uint64_t bytes;             /* of all parts */
    char     label[64];         /* its quantisation; "": its name does not say */
} hub_model;
/* The model that begins with this file; false: a part is missing. */
bool hub_model_of(const hub_files *files, const hub_file *first, hub_model *out);
/* The path of its part i. */
void hub_model_part(const hub_model *m, unsigned i, char *out, size_t cap);
/* All models among the files, largest first.  *out is an array that the caller frees; false: out of
 * memory. */
bool hub_models(const hub_files *files, hub_model **out, size_t *n);
/* Those that may be taken if none is named, in the order of trying, to the start of all: Q4_K_M or
 * the largest with at most 4 bits, then smaller ones.  Returns how many. */
size_t hub_models_order(hub_model *all, size_t n);
/* The smallest model of this quantisation; NULL: not found. */
const hub_model *hub_models_labelled(const hub_model *all, size_t n, const char *label);
/* The label of a path: the last part of it that is a quantisation's name. */
void hub_label_of(const char *path, char *out, size_t cap);

#endif
