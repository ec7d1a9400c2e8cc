/* Two models, and answers step by step, for tests of the flat interface.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_FLAT_SCENE_H
#define QSF_FLAT_SCENE_H

#include "qsf_flat.h"
#include "make_tiny_qsf.h"
#include "test.h"

#if defined(_WIN32)
#  include <process.h>
#  define process_id() _getpid()
#else
#  include <unistd.h>
#  define process_id() getpid()
#endif

static char path[2][64];                /* two models, for scene_files */

/* Writes the files of path; removes them. */
static inline void scene_files(void)
{
    const qsf_platform *os = qsf_platform_native();
    qsf_error error;
    for (int i = 0; i < 2; i++) {
        tiny_options o = tiny_defaults();
        o.seed += (uint64_t)i;
        snprintf(path[i], sizeof path[i], "qsf-flat-test-%d-%d.qsf", (int)process_id(), i);
        CHECK_EQ(tiny_write(os, path[i], &o, &error), QSF_OK);
    }
}
static inline void scene_files_done(void)
{
    for (int i = 0; i < 2; i++) remove(path[i]);
}

static inline uint32_t opened(int which)
{
    const uint32_t m = qsf_flat_model_new(NULL, NULL);
    CHECK_EQ(qsf_flat_model_open(m, path[which], NULL), QSF_OK);
    return m;
}
/* A context for three conversations. */
static inline uint32_t context_of(uint32_t model)
{
    const uint32_t c = qsf_flat_context_new(model);
    CHECK_EQ(qsf_flat_context_open(c, "ctx-size\0" "128\0seqs\0" "3\0threads\0" "1\0batch-size\0" "16\0"),
             QSF_OK);
    return c;
}
static inline double number(uint32_t h, const char *name)
{
    return qsf_flat_number(h, qsf_flat_find(name, false), 0);
}
static inline const char *text(uint32_t h, const char *name)
{
    static char all[4096];
    const int32_t n = qsf_flat_text(h, qsf_flat_find(name, true), 0, all, sizeof all);
    return n < 0 || n >= (int32_t)sizeof all ? "(none)" : all;
}

/* Steps until it is done; -1: never. */
static inline int32_t stepped(uint32_t context, int32_t (*step)(uint32_t), uint32_t h)
{
    for (int i = 0; i < 10000; i++) {
        const int32_t st = step(h);
        if ((st & 255) != QSF_PENDING) return st;
        if (st & QSF_FLAT_WAITING) (void)qsf_flat_wait(context);
    }
    return -1;
}
/* The next token; -1: the end. */
static inline int32_t next_token(uint32_t context, uint32_t answer)
{
    int32_t st;
    while ((st = qsf_flat_answer_next(answer)) == QSF_PENDING)
        if ((st = stepped(context, qsf_flat_answer_step, answer)) != QSF_OK) break;
    CHECK_EQ(st, QSF_OK);
    return st ? -1 : (int32_t)number(answer, "token");
}
enum { N = 8 };
static const int32_t prompt[] = { 1, 5, 9, 13 };
/* Begins an answer to these tokens. */
static inline int32_t begin_ids(uint32_t conversation, uint32_t answer, size_t n)
{
    CHECK_EQ(qsf_flat_conversation_ids(conversation, prompt, n), QSF_OK);
    return qsf_flat_answer_begin(answer);
}
static inline uint32_t begun(uint32_t conversation)
{
    const uint32_t a = qsf_flat_answer_new(conversation,
                                           "temperature\0" "0\0ignore-end\0true\0max-tokens\0" "8\0");
    CHECK_EQ(qsf_flat_status(a), QSF_OK);
    CHECK_EQ(begin_ids(conversation, a, 4), QSF_OK);
    return a;
}

static inline void free_all(const uint32_t *handles, size_t n)
{
    for (size_t i = 0; i < n; i++) qsf_flat_free(handles[i]);
}

#endif
