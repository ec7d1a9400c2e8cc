/* The device over imported functions, which js/gpu.js serves.
 * SPDX-License-Identifier: MIT */
#include "gpu.h"

_Static_assert(sizeof(qsf_device_dispatch) == 20 && sizeof(qsf_device_range) == 24,
               "js/gpu_module.js reads both");

/* A status of JavaScript. */
static qsf_status gpu_said(int st, qsf_error *err)
{
    char text[256];
    if (!st || st == QSF_PENDING) return (qsf_status)st;
    gpu_js_text(text, sizeof text);
    return qsf_fail(err, (qsf_status)st, "%s", text);
}

static qsf_status gpu_made(uint32_t id, qsf_device_id *out, qsf_error *err)
{
    *out = id;
    return id ? QSF_OK : gpu_said(gpu_js_status(), err);
}

static qsf_status gpu_buffer_new(void *user, uint32_t usage, uint64_t len, qsf_device_id *out, qsf_error *err)
{
    (void)user;
    return gpu_made(gpu_js_buffer(usage, (double)len), out, err);
}

static qsf_status gpu_pipeline_new(void *user, const qsf_device_shader *s, qsf_device_id *out, qsf_error *err)
{
    (void)user;
    return gpu_made(gpu_js_pipeline(s->name, s->wgsl, s->entry, s->bindings, s->n_bindings), out, err);
}

static qsf_status gpu_group_new(void *user, qsf_device_id pipeline, const qsf_device_range *ranges,
                                uint32_t n, qsf_device_id *out, qsf_error *err)
{
    (void)user;
    return gpu_made(gpu_js_group(pipeline, ranges, n), out, err);
}

static void gpu_release(void *user, qsf_device_id id)
{
    (void)user;
    gpu_js_release(id);
}

static qsf_status gpu_write(void *user, qsf_device_id buffer, uint64_t at, const void *src, size_t len,
                            qsf_error *err)
{
    (void)user;
    return gpu_said(gpu_js_write(buffer, (double)at, src, len), err);
}

static qsf_status gpu_copy(void *user, qsf_device_id to, uint64_t to_at, qsf_device_id from, uint64_t from_at,
                           uint64_t len, qsf_error *err)
{
    (void)user;
    return gpu_said(gpu_js_copy(to, (double)to_at, from, (double)from_at, (double)len), err);
}

static qsf_status gpu_submit(void *user, const qsf_device_dispatch *list, size_t n, qsf_error *err)
{
    (void)user;
    return gpu_said(gpu_js_submit(list, n), err);
}

static qsf_status gpu_encode(void *user, const qsf_device_dispatch *list, size_t n, qsf_device_id *out,
                             qsf_error *err)
{
    (void)user;
    return gpu_made(gpu_js_encode(list, n), out, err);
}

static qsf_status gpu_submit_encoded(void *user, qsf_device_id id, qsf_error *err)
{
    (void)user;
    return gpu_said(gpu_js_submit_encoded(id), err);
}

static qsf_status gpu_read_start(void *user, qsf_device_id buffer, uint64_t at, void *dst, size_t len,
                                 qsf_device_id *out, qsf_error *err)
{
    (void)user;
    return gpu_made(gpu_js_read(buffer, (double)at, dst, len), out, err);
}

static qsf_status gpu_poll(void *user, qsf_device_id id, qsf_error *err)
{
    (void)user;
    return gpu_said(gpu_js_poll(id), err);
}

static qsf_status gpu_state(void *user, qsf_error *err)
{
    (void)user;
    return gpu_said(gpu_js_state(), err);
}

static void gpu_lose(void *user)
{
    (void)user;
    gpu_js_lose();
}

static void gpu_close(void *user)
{
    (void)user;
    gpu_js_close();
}

qsf_device *gpu_device(void)
{
    static qsf_device_info info;
    static qsf_device table;
    double n[7];
    info = (qsf_device_info){ .size = sizeof info, .backend = "WebGPU",
                              .kind = (qsf_device_kind)gpu_js_limits(n) };
    info.max_buffer = (uint64_t)n[0];
    info.max_binding = (uint64_t)n[1];
    info.max_bindings = (uint32_t)n[2];
    info.binding_align = (uint32_t)n[3];
    info.max_invocations = (uint32_t)n[4];
    info.max_shared = (uint32_t)n[5];
    info.max_groups = (uint32_t)n[6];
    gpu_js_names(info.name, sizeof info.name, info.vendor, sizeof info.vendor);
    table = (qsf_device){
        .size = sizeof table, .info = &info,
        .buffer_new = gpu_buffer_new, .pipeline_new = gpu_pipeline_new, .group_new = gpu_group_new,
        .release = gpu_release, .write = gpu_write, .copy = gpu_copy, .submit = gpu_submit,
        .read_start = gpu_read_start, .poll = gpu_poll, .state = gpu_state, .lose = gpu_lose,
        .close = gpu_close, .encode = gpu_encode, .submit_encoded = gpu_submit_encoded,
    };
    return &table;
}
