/* A GPU, as the core sees it: a table of functions over buffers, pipelines and bind groups, which
 * are numbers.  A host that has GPUs hands such tables out (qsf_platform's devices); a context
 * without one computes on the CPU.
 * SPDX-License-Identifier: MIT
 *
 * The table follows WebGPU, and both implementations are thin: platform/native/device_webgpu.c over
 * a webgpu.h library, js/gpu.js over the browser's objects.  They hold no policy: which buffers
 * there are, what is placed in them and when is the core's matter.
 *
 * Everything is asynchronous.  Functions that create something return a number that is valid at
 * once; whether the creation succeeded is known later, and poll tells.  Commands run in the order
 * of the calls: a write, a copy or a submit sees what the calls before it left in the buffers, and
 * within one submit each dispatch sees the results of those before it.
 *
 * Status codes:
 *
 * QSF_E_ARGUMENT      a wrong number, size, offset or count: a defect of the caller
 * QSF_E_UNSUPPORTED   a pipeline that the device refuses: its WGSL has an error, or needs more than
 *                     the limits allow
 * QSF_E_MEMORY        the device, or the host, is out of memory
 * QSF_E_IO            the device is lost: it was reset, removed or closed.  Nothing works on it any
 *                     more, and nothing stays QSF_PENDING
 *
 * One thread at a time may use a table. */
#ifndef QSF_DEVICE_H
#define QSF_DEVICE_H

#include "qsf.h"

/* A buffer, a pipeline, a bind group, a read or commands; 0: none.  A number may be used again
 * after it was released. */
typedef uint32_t qsf_device_id;

/* Every buffer can be written, copied from and to, and read. */
typedef enum qsf_device_usage {
    QSF_DEVICE_STORAGE = 1,         /* bound as storage, read-only or not */
    QSF_DEVICE_UNIFORM = 2
} qsf_device_usage;

/* What a pipeline's binding is in its WGSL: @group(0) @binding(i) var<...>. */
typedef enum qsf_device_binding {
    QSF_BINDING_STORAGE = 1,        /* var<storage, read_write> */
    QSF_BINDING_READ_ONLY = 2,      /* var<storage, read> */
    QSF_BINDING_UNIFORM = 3         /* var<uniform> */
} qsf_device_binding;

enum {
    QSF_DEVICE_BINDINGS = 16,       /* at most, of a pipeline; the device's limit may be lower */
    QSF_DEVICE_ALIGN = 4            /* writes, copies and reads: places and lengths are multiples */
};

/* wgsl and name need not stay after the call. */
typedef struct qsf_device_shader {
    const char *name;               /* for errors: "product of type 19" */
    const char *wgsl;
    const char *entry;              /* the function to run */
    const uint8_t *bindings;        /* [n_bindings] qsf_device_binding, all that the WGSL declares */
    uint32_t n_bindings;
} qsf_device_shader;

/* A part of a buffer; at is a multiple of the device's binding_align, and len of 4. */
typedef struct qsf_device_range { qsf_device_id buffer; uint64_t at, len; } qsf_device_range;

/* x * y * z workgroups; 0 of them do nothing. */
typedef struct qsf_device_dispatch { qsf_device_id pipeline, group; uint32_t x, y, z; } qsf_device_dispatch;

typedef struct qsf_device {
    size_t size;    /* sizeof(qsf_device) where the host was compiled; members beyond it count as NULL */
    void  *user;    /* first argument of every call, never looked into */
    const qsf_device_info *info;

    /* -- objects -- */
    /* len: a multiple of 4, not 0, at most info->max_buffer; usage: qsf_device_usage.  The bytes
     * are 0.  It may be used at once; poll reports QSF_E_MEMORY later. */
    qsf_status (*buffer_new)(void *user, uint32_t usage, uint64_t len, qsf_device_id *out, qsf_error *err);
    /* Compiles.  It can be used after poll has returned QSF_OK; an error of the WGSL, with its text
     * and line, comes from poll. */
    qsf_status (*pipeline_new)(void *user, const qsf_device_shader *s, qsf_device_id *out, qsf_error *err);
    /* ranges: [n], one for each binding of the pipeline.  The group may be used with every pipeline
     * that has the same bindings. */
    qsf_status (*group_new)(void *user, qsf_device_id pipeline, const qsf_device_range *ranges, uint32_t n,
                            qsf_device_id *out, qsf_error *err);
    /* What the device still uses lives until it has finished.  Accepts 0.  A read that is released
     * no longer touches its memory. */
    void       (*release)(void *user, qsf_device_id id);

    /* -- commands -- */
    /* src is free again after the call. */
    qsf_status (*write)(void *user, qsf_device_id buffer, uint64_t at, const void *src, size_t len,
                        qsf_error *err);
    /* Two different buffers: WebGPU does not copy within one. */
    qsf_status (*copy)(void *user, qsf_device_id to, uint64_t to_at, qsf_device_id from, uint64_t from_at,
                       uint64_t len, qsf_error *err);
    /* All or nothing: a list with a wrong number runs none of its dispatches. */
    qsf_status (*submit)(void *user, const qsf_device_dispatch *list, size_t n, qsf_error *err);
    /* Starts to fill dst with what the buffer holds after the commands so far; dst belongs to the
     * read until poll or wait ends it. */
    qsf_status (*read_start)(void *user, qsf_device_id buffer, uint64_t at, void *dst, size_t len,
                             qsf_device_id *out, qsf_error *err);

    /* -- results -- */
    /* Of a buffer, a pipeline or a read: QSF_PENDING, QSF_OK or why it failed.  A read is gone
     * after anything but QSF_PENDING. */
    qsf_status (*poll)(void *user, qsf_device_id id, qsf_error *err);
    /* The same, after it is done or after ns nanoseconds.  NULL on a host that must not block. */
    qsf_status (*wait)(void *user, qsf_device_id id, uint64_t ns, qsf_error *err);
    /* QSF_OK; QSF_E_IO: lost; otherwise the first error since the last call that belongs to no
     * number: QSF_E_MEMORY, or what the device refused (QSF_E_ARGUMENT). */
    qsf_status (*state)(void *user, qsf_error *err);

    /* Loses the device, as a reset of it would.  For tests. */
    void       (*lose)(void *user);
    /* Ends the device, its objects and this table. */
    void       (*close)(void *user);

    /* -- both NULL: the host has only submit -- */
    /* What submit does in two parts: commands are made now, and run once, later, by
     * submit_encoded, after which their number is gone.  All that they use must still be there. */
    qsf_status (*encode)(void *user, const qsf_device_dispatch *list, size_t n, qsf_device_id *out,
                         qsf_error *err);
    qsf_status (*submit_encoded)(void *user, qsf_device_id id, qsf_error *err);
} qsf_device;

/* Whether the host may block.  QSF_NEVER_WAITS: compiled for hosts that must not. */
static inline bool qsf_device_waits(const qsf_device *d)
{
#if defined(QSF_NEVER_WAITS)
    (void)d;
    return false;
#else
    return d->wait != NULL;
#endif
}

/* The devices that a host found.  The functions' first argument is the struct itself. */
struct qsf_devices {
    const char *source;                 /* where they come from, for display: the library's path */
    uint32_t n;
    const qsf_device_info *info;        /* [n] */
    /* The device stays usable after close. */
    qsf_status (*open)(qsf_devices *d, uint32_t i, qsf_device **out, qsf_error *err);
    void       (*close)(qsf_devices *d);
};

#endif
