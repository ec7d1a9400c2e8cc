/* A device that fails on demand, over a right one: at a certain call, by being lost or by having no
 * memory.  Pipelines are compiled once for all of them.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_BROKEN_DEVICE_H
#define QSF_BROKEN_DEVICE_H

#define _POSIX_C_SOURCE 200809L         /* clock_gettime */

#include "base/base.h"
#include "base/device.h"
#include "native.h"
#include "test.h"

#include <time.h>

enum { BROKEN_PIPELINES = 1024, BROKEN_BUFFERS = 4096 };

static struct broken {
    qsf_devices  list;
    qsf_device   d;
    const qsf_device *real;
    uint32_t     calls, buffers;        /* so far */
    uint32_t     fail_at;               /* the call, or the new buffer, that fails, from 1; 0: none */
    qsf_status   how;                   /* QSF_E_IO: lost; QSF_E_MEMORY: full, as polling a buffer tells */
    bool         lost, refused;         /* a command used a buffer without memory: the next state */
    bool         wrong;                 /* reads give NaN */
    bool         late;                  /* what is polled is pending at first */
    bool         asked[BROKEN_BUFFERS]; /* by number: not any more */
    struct { uint8_t *dst; size_t len; } reads[BROKEN_BUFFERS];         /* by number */
    bool         full[BROKEN_BUFFERS];  /* by number */
    qsf_device_id groups[BROKEN_BUFFERS][QSF_DEVICE_BINDINGS];          /* their buffers, by number */
    int          live, open;            /* objects, devices */
    struct { char *text; qsf_device_id id; } pipelines[BROKEN_PIPELINES];
    uint32_t     n_pipelines;
    /* CPU time of this thread from a read's end to the last submit before the next read's */
    uint64_t     read_ns, submit_ns, host_ns;
} broken;

static uint64_t broken_cpu_ns(void)
{
#if defined(CLOCK_THREAD_CPUTIME_ID) && !defined(_WIN32)
    struct timespec t;
    return clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) ? 0
        : (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
#else
    return 0;
#endif
}

/* Whether this call fails, by loss. */
static bool broken_now(qsf_error *err, qsf_status *st)
{
    broken.calls++;
    if (broken.calls == broken.fail_at && broken.how == QSF_E_IO) broken.lost = true;
    if (broken.lost) *st = qsf_fail(err, QSF_E_IO, "the GPU was lost: call %u", (unsigned)broken.fail_at);
    return broken.lost;
}

static bool broken_pipeline(qsf_device_id id)
{
    for (uint32_t i = 0; i < broken.n_pipelines; i++) if (broken.pipelines[i].id == id) return true;
    return false;
}

static qsf_status broken_buffer_new(void *u, uint32_t usage, uint64_t len, qsf_device_id *out, qsf_error *err)
{
    qsf_status st;
    (void)u;
    if (broken_now(err, &st)) return st;
    if ((st = broken.real->buffer_new(broken.real->user, usage, len, out, err))) return st;
    CHECK(*out < BROKEN_BUFFERS);
    broken.live++;
    if (++broken.buffers == broken.fail_at && broken.how == QSF_E_MEMORY)
        broken.full[*out] = true;
    return QSF_OK;
}

static qsf_status broken_pipeline_new(void *u, const qsf_device_shader *s, qsf_device_id *out, qsf_error *err)
{
    qsf_status st;
    (void)u;
    if (broken_now(err, &st)) return st;
    for (uint32_t i = 0; i < broken.n_pipelines; i++)
        if (!strcmp(broken.pipelines[i].text, s->wgsl)) { *out = broken.pipelines[i].id; return QSF_OK; }
    if ((st = broken.real->pipeline_new(broken.real->user, s, out, err))) return st;
    CHECK(broken.n_pipelines < BROKEN_PIPELINES);
    const size_t n = strlen(s->wgsl) + 1;
    broken.pipelines[broken.n_pipelines].text = memcpy(malloc(n), s->wgsl, n);
    broken.pipelines[broken.n_pipelines++].id = *out;
    return QSF_OK;
}

static qsf_status broken_group_new(void *u, qsf_device_id pipeline, const qsf_device_range *ranges,
                                   uint32_t n, qsf_device_id *out, qsf_error *err)
{
    qsf_status st;
    (void)u;
    if (broken_now(err, &st)) return st;
    if ((st = broken.real->group_new(broken.real->user, pipeline, ranges, n, out, err))) return st;
    CHECK(*out < BROKEN_BUFFERS);
    broken.live++;
    memset(broken.groups[*out], 0, sizeof broken.groups[*out]);
    for (uint32_t i = 0; i < n; i++) broken.groups[*out][i] = ranges[i].buffer;
    return QSF_OK;
}

static void broken_release(void *u, qsf_device_id id)
{
    (void)u;
    if (!id || broken_pipeline(id)) return;
    broken.reads[id].dst = NULL;
    broken.full[id] = false;
    broken.real->release(broken.real->user, id);
    broken.live--;
}

static qsf_status broken_write(void *u, qsf_device_id buffer, uint64_t at, const void *src, size_t len,
                               qsf_error *err)
{
    qsf_status st;
    (void)u;
    return broken_now(err, &st) ? st : broken.real->write(broken.real->user, buffer, at, src, len, err);
}

static qsf_status broken_copy(void *u, qsf_device_id to, uint64_t to_at, qsf_device_id from, uint64_t from_at,
                              uint64_t len, qsf_error *err)
{
    qsf_status st;
    (void)u;
    return broken_now(err, &st) ? st
        : broken.real->copy(broken.real->user, to, to_at, from, from_at, len, err);
}

/* Whether a dispatch of the list uses a buffer without memory: state then has the reason. */
static void broken_list(const qsf_device_dispatch *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < QSF_DEVICE_BINDINGS; k++)
            broken.refused |= broken.full[broken.groups[list[i].group][k]];
}

/* A list that is refused runs not at all. */
static qsf_status broken_submit(void *u, const qsf_device_dispatch *list, size_t n, qsf_error *err)
{
    qsf_status st;
    (void)u;
    if (broken_now(err, &st)) return st;
    broken_list(list, n);
    if (broken.refused) return QSF_OK;
    st = broken.real->submit(broken.real->user, list, n, err);
    broken.submit_ns = broken_cpu_ns();
    return st;
}

/* Commands have the defects of the buffers that they were made with. */
static qsf_status broken_encode(void *u, const qsf_device_dispatch *list, size_t n, qsf_device_id *out,
                                qsf_error *err)
{
    qsf_status st;
    (void)u;
    *out = 0;
    if (broken_now(err, &st)) return st;
    broken_list(list, n);
    if ((st = broken.real->encode(broken.real->user, list, n, out, err))) return st;
    broken.live++;
    return QSF_OK;
}

static qsf_status broken_submit_encoded(void *u, qsf_device_id id, qsf_error *err)
{
    qsf_status st;
    (void)u;
    if (broken_now(err, &st)) return st;
    if (broken.refused) broken.real->release(broken.real->user, id);
    else if ((st = broken.real->submit_encoded(broken.real->user, id, err))) return st;
    broken.submit_ns = broken_cpu_ns();
    broken.live--;
    return QSF_OK;
}

static qsf_status broken_read_start(void *u, qsf_device_id buffer, uint64_t at, void *dst, size_t len,
                                    qsf_device_id *out, qsf_error *err)
{
    qsf_status st;
    (void)u;
    if (broken_now(err, &st)) return st;
    if ((st = broken.real->read_start(broken.real->user, buffer, at, dst, len, out, err))) return st;
    broken.live++;
    CHECK(*out < BROKEN_BUFFERS);
    broken.asked[*out] = false;
    broken.reads[*out].dst = dst;
    broken.reads[*out].len = len;
    return QSF_OK;
}

/* After anything but QSF_PENDING a read is gone. */
static void broken_read_ended(qsf_device_id id, qsf_status st)
{
    uint8_t *dst = broken.reads[id].dst;
    if (!dst || st == QSF_PENDING) return;
    if (broken.lost) broken.real->release(broken.real->user, id);
    else if (broken.wrong) memset(dst, 0xff, broken.reads[id].len);
    broken.reads[id].dst = NULL;
    broken.live--;
}

/* Nothing is pending, so that the number of calls does not depend on time. */
static qsf_status broken_wait(void *u, qsf_device_id id, uint64_t ns, qsf_error *err)
{
    qsf_status st;
    const bool reads = broken.reads[id].dst != NULL;
    (void)u, (void)ns;
    if (reads && broken.read_ns && broken.submit_ns > broken.read_ns)
        broken.host_ns += broken.submit_ns - broken.read_ns;
    if (!broken_now(err, &st))
        st = broken.full[id] ? qsf_fail(err, QSF_E_MEMORY, "the GPU is full")
            : broken.real->wait(broken.real->user, id, UINT64_C(60000000000), err);
    broken_read_ended(id, st);
    if (reads) broken.read_ns = broken_cpu_ns();
    return st;
}

static qsf_status broken_poll(void *u, qsf_device_id id, qsf_error *err)
{
    const bool pending = broken.late && !broken.lost && !broken.asked[id];
    broken.asked[id] = true;
    return pending ? QSF_PENDING : broken_wait(u, id, 0, err);
}

static qsf_status broken_state(void *u, qsf_error *err)
{
    qsf_status st;
    (void)u;
    if (broken_now(err, &st)) return st;
    const bool refused = broken.refused;
    broken.refused = false;
    return refused ? qsf_fail(err, QSF_E_ARGUMENT, "the GPU refused a command")
        : broken.real->state(broken.real->user, err);
}

static void broken_lose(void *u) { (void)u; broken.lost = true; }
static void broken_close(void *u) { (void)u; broken.open--; }

static qsf_status broken_open(qsf_devices *list, uint32_t i, qsf_device **out, qsf_error *err)
{
    qsf_status st;
    (void)list, (void)i;
    *out = NULL;
    if (broken_now(err, &st)) return st;
    *out = &broken.d;
    broken.open++;
    return QSF_OK;
}

/* The first device of the machine; false: it could not be opened. */
static inline bool broken_begin(void)
{
    static qsf_devices *found;
    qsf_device *d = NULL;
    qsf_error err = { 0 };
    if (!getenv("QSF_WEBGPU_LIB") || qsf_devices_open(NULL, NULL, &found, &err) || !found->n
        || found->open(found, 0, &d, &err)) {
        printf("no GPU: %s\n", err.text);
        return false;
    }
    broken.real = d;
    broken.d = (qsf_device){
        sizeof broken.d, NULL, d->info, broken_buffer_new, broken_pipeline_new, broken_group_new,
        broken_release, broken_write, broken_copy, broken_submit, broken_read_start, broken_poll, broken_wait,
        broken_state, broken_lose, broken_close, broken_encode, broken_submit_encoded,
    };
    broken.list = (qsf_devices){ "broken", 1, d->info, broken_open, NULL };
    return true;
}

/* A device that is right again. */
static inline void broken_reset(uint32_t fail_at, qsf_status how)
{
    broken.calls = broken.buffers = 0;
    broken.fail_at = fail_at;
    broken.how = how;
    broken.lost = broken.refused = broken.wrong = false;
    memset(broken.full, 0, sizeof broken.full);
}

static inline void broken_end(void)
{
    for (uint32_t i = 0; i < broken.n_pipelines; i++) free(broken.pipelines[i].text);
    if (broken.real) broken.real->close(broken.real->user);
}

#endif
