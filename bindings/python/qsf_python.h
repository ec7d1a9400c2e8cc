/* What the Python package calls besides qsf_flat.h and qsf_convert.h: models by name, a flag that
 * ends a conversion, and batches of answers.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_PYTHON_H
#define QSF_PYTHON_H

#include "qsf_flat.h"

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

/* ---- answers --------------------------------------------------------------------------------- */

enum {
    QSF_PYTHON_ANSWERS = 256,           /* in a batch, at most */
    QSF_PYTHON_WHOLE = 1,               /* the caller reads the answer: its pieces may be joined */
    QSF_PYTHON_LOGPROBS = 2             /* its pieces have log probabilities */
};
typedef struct qsf_python_answer {
    uint32_t handle, flags;
} qsf_python_answer;

/* A piece: what qsf_flat_answer_next returned, and then the numbers "token" and "end", the calls
 * that ended in it, and how much of the bytes below is its own. */
typedef struct qsf_python_piece {
    uint32_t answer;                    /* handle */
    int32_t  status, token, end;
    uint32_t n_tokens;                  /* 0: the last one; 2 and more: several that were joined */
    uint32_t n_calls, n_text, n_reasoning, n_logprobs;
} qsf_python_piece;
typedef struct qsf_python_logprob {
    int32_t token;
    float   logprob;
} qsf_python_logprob;

typedef struct qsf_python_bytes {
    char  *at;
    size_t len, cap;
} qsf_python_bytes;
/* What has come of batches and was not taken yet.  The host zeroes it once, and takes it by setting
 * status and the length of pieces to 0. */
typedef struct qsf_python_pieces {
    uint8_t          hurry;             /* another thread sets it: no further batch begins */
    uint8_t          stop;              /* the library's */
    int32_t          status;            /* of the last batch, if it failed */
    qsf_python_bytes pieces;            /* qsf_python_piece[], in the order in which they came */
    qsf_python_bytes text, reasoning;   /* of all pieces, without separators */
    qsf_python_bytes logprobs;          /* qsf_python_logprob[] */
} qsf_python_pieces;

/* Computes a batch as qsf_flat_step does, to its end, and reads its pieces; begins further ones for
 * more_us microseconds, until an answer ends or has called a tool.  QSF_PENDING: the batch takes
 * long, call again.  If p is not taken it returns at once.  Pieces that came before an error are
 * there. */
QSF_API int32_t qsf_python_run(qsf_python_pieces *p, uint32_t context, const qsf_python_answer *answers,
                               size_t n, uint32_t more_us);
QSF_API void    qsf_python_pieces_free(qsf_python_pieces *p);

#ifdef __cplusplus
}
#endif
#endif
