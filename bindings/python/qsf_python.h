/* What the Python package calls besides qsf_flat.h and qsf_convert.h: models by name, and a flag
 * that ends a conversion.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_PYTHON_H
#define QSF_PYTHON_H

#include "qsf.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a host is told while a model is found: the kind of event, then what the kind says. */
enum {
    QSF_PYTHON_BEGINS = 0,      /* a download; text: its name, done and total: bytes, part of n_parts */
    QSF_PYTHON_RUNS = 1,        /* the same */
    QSF_PYTHON_ENDS = 2,        /* the same */
    QSF_PYTHON_NOTE = 3,        /* text: a line for a person */
    QSF_PYTHON_ASKS = 4         /* nothing: asked often, so that it can be stopped */
};
/* Returns whether to stop.  text is valid during the call. */
typedef bool (*qsf_python_event)(void *user, int32_t kind, const char *text, uint64_t done, uint64_t total,
                                 uint32_t part, uint32_t n_parts);

/* Whether it is the name of a model or a URL, and not a path. */
QSF_API bool  qsf_python_is_name(const char *text);
/* The path of the model with this name, as hub_find of hub/hub.h; NULL on an error.  The caller
 * frees it with qsf_python_free.  hub: NULL, or the hub's address; memory: bytes that the model may
 * take, or 0. */
QSF_API char *qsf_python_find(const char *name, const char *hub, bool offline, uint64_t memory,
                              qsf_python_event event, void *user, qsf_error *err);
QSF_API void  qsf_python_free(char *text);      /* takes NULL */
/* Calls fn with each model in the cache, ordered by name. */
QSF_API qsf_status qsf_python_cached(void (*fn)(void *user, const char *name, const char *path,
                                                uint64_t bytes), void *user, qsf_error *err);
/* For qsf_convert_options.cancelled: whether the byte that flag points to is set. */
QSF_API bool  qsf_python_raised(void *flag);

#ifdef __cplusplus
}
#endif
#endif
