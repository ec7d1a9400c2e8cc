/* What the files of the WebGPU device share: the library, a device and its objects.
 * SPDX-License-Identifier: MIT
 *
 *   device_library.c    the library
 *   device_objects.c    buffers, pipelines, bind groups
 *   device_commands.c   writes, copies, dispatches, reads
 *   device_webgpu.c     adapters, opening and closing a device */
#ifndef QSF_DEVICE_WEBGPU_H
#define QSF_DEVICE_WEBGPU_H

#include "native.h"
#include "webgpu_abi.h"

#include "base/base.h"
#include "base/device.h"

#include <stdatomic.h>

/* A loaded library with an instance; the list of devices and each device hold it. */
typedef struct webgpu {
    wgpu_functions f;
    wgpu_instance  instance;
    uint32_t       held;
    struct gpu    *ended;       /* devices whose callbacks may still come, until the instance ends */
    char           path[256];
} webgpu;

typedef enum gpu_kind { GPU_FREE, GPU_BUFFER, GPU_PIPELINE, GPU_GROUP, GPU_READ, GPU_COMMANDS } gpu_kind;

typedef struct gpu_object {
    gpu_kind   kind;
    bool       released;        /* by the caller; the number is free when no callback is outstanding */
    uint32_t   pending;         /* callbacks that will come */
    wgpu_future future;         /* of the last of them */
    qsf_status st;
    qsf_error *error;           /* if st is set */
    uint64_t   len, cap;        /* a buffer's bytes; a read's, and those of its staging buffer */
    uint32_t   bindings;        /* 2 bits each, qsf_device_binding; of a buffer: its usage */
    uint32_t   n_bindings;
    void      *dst;             /* of a read */
    wgpu_buffer   buffer;       /* of a read: the staging buffer */
    wgpu_pipeline pipeline;
    wgpu_layout   layout;
    wgpu_group    group;
    wgpu_commands commands;
    uint32_t   next_free;
} gpu_object;

/* Buffers that reads go through, kept for the next ones. */
enum { GPU_STAGING = 4, GPU_STAGING_LEAST = 256, GPU_STAGING_MOST = 16 << 20 };
typedef struct gpu_staging { wgpu_buffer buffer; uint64_t len; } gpu_staging;

typedef struct gpu {
    qsf_device  table;
    qsf_device_info info;
    webgpu     *lib;
    wgpu_device device;
    wgpu_queue  queue;
    gpu_object *objects;        /* [n_objects], of which [0] is never used */
    uint32_t    n_objects, cap_objects, free_objects;   /* free_objects: the first; 0: none */
    uint32_t    pending;        /* callbacks of all objects */
    gpu_staging staging[GPU_STAGING];
    uint32_t    lost_due;       /* 1: the callback for a lost device may still come */
    bool        lost;
    /* What state reports.  The library may report an error on a thread of its own. */
    atomic_flag lock;
    qsf_error   first;          /* status QSF_OK: none */
    qsf_error   why_lost;
    struct gpu *next_ended;
} gpu;

/* ---- device_library.c ---- */
/* name: as qsf_devices_open has it.  The caller is the first holder. */
qsf_status qsf_webgpu_load(const char *name, webgpu **out, qsf_error *err);
void       qsf_webgpu_release(webgpu *w);
/* Frees a closed device, or has it freed with the library's instance. */
void       qsf_gpu_free(gpu *g, bool callbacks_may_come);
/* Calls callbacks that are due, and at most ns nanoseconds later returns whether *left is 0. */
bool qsf_gpu_pump(webgpu *w, wgpu_device device, wgpu_future future, const uint32_t *left, uint64_t ns);
/* The device's or the library's message in one line, for "%s": runs of blanks become one. */
void qsf_gpu_words(wgpu_text text, char *out, size_t cap);

/* ---- device_objects.c ---- */
/* QSF_E_IO if the device is lost. */
qsf_status qsf_gpu_usable(gpu *g, qsf_error *err);
/* NULL: no object of this kind has the number. */
gpu_object *qsf_gpu_object(gpu *g, qsf_device_id id, gpu_kind kind);
/* A new number; 0: out of memory, with *err. */
qsf_device_id qsf_gpu_object_new(gpu *g, gpu_kind kind, qsf_error *err);
/* One callback of the object came; status and text (NULL: none) are its error.  better: this error
 * says more than one that came before. */
void qsf_gpu_came(gpu *g, qsf_device_id id, qsf_status st, const char *what, wgpu_text text, bool better);
/* What the object holds goes, and its number as soon as no callback is outstanding. */
void qsf_gpu_object_end(gpu *g, qsf_device_id id);
qsf_status qsf_gpu_buffer_new(void *user, uint32_t usage, uint64_t len, qsf_device_id *out, qsf_error *err);
qsf_status qsf_gpu_pipeline_new(void *user, const qsf_device_shader *s, qsf_device_id *out, qsf_error *err);
qsf_status qsf_gpu_group_new(void *user, qsf_device_id pipeline, const qsf_device_range *ranges, uint32_t n,
                             qsf_device_id *out, qsf_error *err);
void       qsf_gpu_release(void *user, qsf_device_id id);

/* ---- device_commands.c ---- */
qsf_status qsf_gpu_write(void *user, qsf_device_id buffer, uint64_t at, const void *src, size_t len,
                         qsf_error *err);
qsf_status qsf_gpu_copy(void *user, qsf_device_id to, uint64_t to_at, qsf_device_id from, uint64_t from_at,
                        uint64_t len, qsf_error *err);
qsf_status qsf_gpu_submit(void *user, const qsf_device_dispatch *list, size_t n, qsf_error *err);
qsf_status qsf_gpu_encode(void *user, const qsf_device_dispatch *list, size_t n, qsf_device_id *out,
                          qsf_error *err);
qsf_status qsf_gpu_submit_encoded(void *user, qsf_device_id id, qsf_error *err);
qsf_status qsf_gpu_read_start(void *user, qsf_device_id buffer, uint64_t at, void *dst, size_t len,
                              qsf_device_id *out, qsf_error *err);
qsf_status qsf_gpu_poll(void *user, qsf_device_id id, qsf_error *err);
qsf_status qsf_gpu_wait(void *user, qsf_device_id id, uint64_t ns, qsf_error *err);

#endif
