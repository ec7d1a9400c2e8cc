/* What is known of one name, and the requests for it: a repository's list, and its files.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_HUB_SEARCH_H
#define QSF_HUB_SEARCH_H

#include "cache.h"
#include "http.h"
#include "hub.h"

typedef struct hub_search {
    const hub_options *o;
    hub_name   name;
    hub_http  *http;            /* NULL: not connected */
    hub_files  files;           /* of the repository, or of the cache's snapshot */
    hub_model *models;          /* owned */
    size_t     n_models;
    bool       has_token;
    void     (*show)(void *user, const hub_shown *m);    /* of hub_show; NULL: of hub_find */
    void      *show_user;
    char       token[512], base[HUB_PATH], where[420], page[HUB_PATH];
} hub_search;

/* Fills name and places of a search that is all zeros.  *other: it is a URL, but not a hub's, and
 * nothing is filled. */
qsf_status hub_search_begin(hub_search *s, const hub_options *o, const char *text, bool *other,
                            qsf_error *err);
void       hub_search_end(hub_search *s);
qsf_status hub_search_connect(hub_search *s, qsf_error *err);
void       hub_search_note(const hub_search *s, const char *line);

/* Fills s->files with the repository's.  *away: the hub cannot answer now, so that the cache may
 * do. */
qsf_status hub_search_list(hub_search *s, bool *away, qsf_error *err);
/* One file into the cache; commit: of its snapshot, set for the first part. */
qsf_status hub_search_get(hub_search *s, const char *path, unsigned part, unsigned n_parts, char commit[44],
                          qsf_error *err);
/* The path of a snapshot's file, or with "" of the snapshot; the caller frees it. */
qsf_status hub_search_path(const hub_search *s, const char *commit, const char *file, char **path,
                           qsf_error *err);
qsf_status hub_search_memory(qsf_error *err);            /* the error */

#endif
