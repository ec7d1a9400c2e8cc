/* Writes, copies, dispatches and reads of a WebGPU device.
 * SPDX-License-Identifier: MIT */
#include "device_webgpu.h"

#include <string.h>

/* The buffer, if [at, at + len) is a part of it that can be copied; otherwise NULL and *err. */
static gpu_object *gpu_part(gpu *g, const char *what, qsf_device_id id, uint64_t at, uint64_t len,
                            qsf_error *err)
{
    gpu_object *b = qsf_gpu_object(g, id, GPU_BUFFER);
    if (!b) {
        qsf_fail(err, QSF_E_ARGUMENT, "%s: %u is not a buffer", what, id);
        return NULL;
    }
    if (at % QSF_DEVICE_ALIGN || len % QSF_DEVICE_ALIGN || at > b->len || len > b->len - at) {
        qsf_fail(err, QSF_E_ARGUMENT, "%s: %llu bytes at %llu of a buffer of %llu; both must be multiples of "
                 "%u", what, (unsigned long long)len, (unsigned long long)at, (unsigned long long)b->len,
                 QSF_DEVICE_ALIGN);
        return NULL;
    }
    return b;
}

qsf_status qsf_gpu_write(void *user, qsf_device_id buffer, uint64_t at, const void *src, size_t len,
                         qsf_error *err)
{
    gpu *g = user;
    const qsf_status st = qsf_gpu_usable(g, err);
    if (st) return st;
    const gpu_object *b = gpu_part(g, "writing to the GPU", buffer, at, len, err);
    if (!b) return QSF_E_ARGUMENT;
    if (len) g->lib->f.write(g->queue, b->buffer, at, src, len);
    return QSF_OK;
}

static wgpu_commands gpu_encoder_finish(gpu *g, wgpu_encoder e)
{
    const wgpu_commands commands = g->lib->f.finish(e, NULL);
    g->lib->f.release_encoder(e);
    return commands;
}

static void gpu_encoder_submit(gpu *g, wgpu_encoder e)
{
    const wgpu_commands commands = gpu_encoder_finish(g, e);
    g->lib->f.submit(g->queue, 1, &commands);
    g->lib->f.release_commands(commands);
}

qsf_status qsf_gpu_copy(void *user, qsf_device_id to, uint64_t to_at, qsf_device_id from, uint64_t from_at,
                        uint64_t len, qsf_error *err)
{
    gpu *g = user;
    const qsf_status st = qsf_gpu_usable(g, err);
    if (st) return st;
    if (to == from) return qsf_fail(err, QSF_E_ARGUMENT, "copying on the GPU: within one buffer");
    const gpu_object *dst = gpu_part(g, "copying on the GPU", to, to_at, len, err);
    const gpu_object *src = dst ? gpu_part(g, "copying on the GPU", from, from_at, len, err) : NULL;
    if (!src) return QSF_E_ARGUMENT;
    if (!len) return QSF_OK;
    const wgpu_encoder e = g->lib->f.create_encoder(g->device, NULL);
    g->lib->f.copy(e, src->buffer, from_at, dst->buffer, to_at, len);
    gpu_encoder_submit(g, e);
    return QSF_OK;
}

/* ---- dispatches ---- */
static qsf_status gpu_dispatch_check(gpu *g, const qsf_device_dispatch *d, size_t i, qsf_error *err)
{
    const gpu_object *p = qsf_gpu_object(g, d->pipeline, GPU_PIPELINE);
    const gpu_object *b = qsf_gpu_object(g, d->group, GPU_GROUP);
    const uint32_t most = g->info.max_groups;
    if (!p || p->pending || p->st)
        return qsf_fail(err, QSF_E_ARGUMENT, "dispatch %llu: %u is not a pipeline that is ready",
                        (unsigned long long)i, d->pipeline);
    if (!b || b->n_bindings != p->n_bindings || b->bindings != p->bindings)
        return qsf_fail(err, QSF_E_ARGUMENT, "dispatch %llu: %u is not a bind group for pipeline %u",
                        (unsigned long long)i, d->group, d->pipeline);
    if (d->x > most || d->y > most || d->z > most)
        return qsf_fail(err, QSF_E_ARGUMENT, "dispatch %llu: %u x %u x %u workgroups; at most %u each",
                        (unsigned long long)i, d->x, d->y, d->z, most);
    return QSF_OK;
}

static qsf_status gpu_list_check(gpu *g, const qsf_device_dispatch *list, size_t n, qsf_error *err)
{
    qsf_status st = qsf_gpu_usable(g, err);
    for (size_t i = 0; i < n && !st; i++) st = gpu_dispatch_check(g, &list[i], i, err);
    return st;
}

static wgpu_encoder gpu_list_encoder(gpu *g, const qsf_device_dispatch *list, size_t n)
{
    const wgpu_functions *f = &g->lib->f;
    const wgpu_encoder e = f->create_encoder(g->device, NULL);
    const wgpu_pass pass = f->begin_pass(e, NULL);
    qsf_device_id pipeline = 0, group = 0;
    for (size_t i = 0; i < n; i++) {
        const qsf_device_dispatch *d = &list[i];
        if (d->pipeline != pipeline) f->set_pipeline(pass, g->objects[d->pipeline].pipeline);
        if (d->group != group) f->set_group(pass, 0, g->objects[d->group].group, 0, NULL);
        f->dispatch(pass, d->x, d->y, d->z);
        pipeline = d->pipeline;
        group = d->group;
    }
    f->end_pass(pass);
    f->release_pass(pass);
    return e;
}

qsf_status qsf_gpu_submit(void *user, const qsf_device_dispatch *list, size_t n, qsf_error *err)
{
    const qsf_status st = gpu_list_check(user, list, n, err);
    if (!st && n) gpu_encoder_submit(user, gpu_list_encoder(user, list, n));
    return st;
}

qsf_status qsf_gpu_encode(void *user, const qsf_device_dispatch *list, size_t n, qsf_device_id *out,
                          qsf_error *err)
{
    gpu *g = user;
    *out = 0;
    const qsf_status st = gpu_list_check(g, list, n, err);
    if (st) return st;
    const qsf_device_id id = qsf_gpu_object_new(g, GPU_COMMANDS, err);
    if (!id) return QSF_E_MEMORY;
    g->objects[id].commands = gpu_encoder_finish(g, gpu_list_encoder(g, list, n));
    *out = id;
    return QSF_OK;
}

qsf_status qsf_gpu_submit_encoded(void *user, qsf_device_id id, qsf_error *err)
{
    gpu *g = user;
    const qsf_status st = qsf_gpu_usable(g, err);
    if (st) return st;
    const gpu_object *o = qsf_gpu_object(g, id, GPU_COMMANDS);
    if (!o) return qsf_fail(err, QSF_E_ARGUMENT, "submitting to the GPU: %u is not encoded", id);
    g->lib->f.submit(g->queue, 1, &o->commands);
    qsf_gpu_object_end(g, id);
    return QSF_OK;
}

/* ---- reads ---- */
/* A staging buffer of at least len bytes; *cap: what it has. */
static wgpu_buffer gpu_staging_take(gpu *g, uint64_t len, uint64_t *cap)
{
    for (int i = 0; i < GPU_STAGING; i++) {
        gpu_staging *s = &g->staging[i];
        if (!s->buffer || s->len < len) continue;
        const wgpu_buffer b = s->buffer;
        *cap = s->len;
        s->buffer = NULL;
        return b;
    }
    for (*cap = GPU_STAGING_LEAST; *cap < len;) *cap *= 2;
    return g->lib->f.create_buffer(g->device, &(wgpu_buffer_options){
        .usage = WGPU_USAGE_MAP_READ | WGPU_USAGE_COPY_TO, .size = *cap });
}

/* false: all places are taken. */
static bool gpu_staging_keep(gpu *g, wgpu_buffer b, uint64_t len)
{
    for (int i = 0; i < GPU_STAGING && len <= GPU_STAGING_MOST; i++) {
        if (g->staging[i].buffer) continue;
        g->staging[i] = (gpu_staging){ b, len };
        return true;
    }
    return false;
}

static void gpu_read_mapped(wgpu_enum status, wgpu_text text, void *u1, void *u2)
{
    qsf_gpu_came(u1, (qsf_device_id)(uintptr_t)u2, status == WGPU_SUCCESS ? QSF_OK : QSF_E_IO,
                 "reading from the GPU", text, false);
}

qsf_status qsf_gpu_read_start(void *user, qsf_device_id buffer, uint64_t at, void *dst, size_t len,
                              qsf_device_id *out, qsf_error *err)
{
    gpu *g = user;
    const wgpu_functions *f = &g->lib->f;
    *out = 0;
    const qsf_status st = qsf_gpu_usable(g, err);
    if (st) return st;
    if (!gpu_part(g, "reading from the GPU", buffer, at, len, err)) return QSF_E_ARGUMENT;
    if (!len) return qsf_fail(err, QSF_E_ARGUMENT, "reading from the GPU: 0 bytes");
    const qsf_device_id id = qsf_gpu_object_new(g, GPU_READ, err);
    if (!id) return QSF_E_MEMORY;
    gpu_object *o = &g->objects[id];
    uint64_t cap;
    if (!(o->buffer = gpu_staging_take(g, len, &cap))) {
        qsf_gpu_object_end(g, id);
        return qsf_fail(err, QSF_E_MEMORY, "out of memory: %llu bytes for reading from the GPU",
                        (unsigned long long)len);
    }
    o->dst = dst;
    o->len = len;
    o->cap = cap;
    const wgpu_encoder e = f->create_encoder(g->device, NULL);
    f->copy(e, g->objects[buffer].buffer, at, o->buffer, 0, len);
    gpu_encoder_submit(g, e);
    o->pending++;
    g->pending++;
    const wgpu_future future = f->map(o->buffer, WGPU_MAP_READ, 0, (size_t)len, (wgpu_on_map){
        .mode = WGPU_CALLBACK_WAIT_OR_EVENTS, .call = gpu_read_mapped, .u1 = g,
        .u2 = (void *)(uintptr_t)id });
    g->objects[id].future = future;
    *out = id;
    return QSF_OK;
}

/* Takes the bytes out of the mapped buffer. */
static qsf_status gpu_read_take(gpu *g, gpu_object *o, qsf_error *err)
{
    const wgpu_functions *f = &g->lib->f;
    const void *from = f->mapped(o->buffer, 0, (size_t)o->len);
    if (!from) return qsf_fail(err, QSF_E_IO, "reading from the GPU: the mapped buffer has no address");
    memcpy(o->dst, from, (size_t)o->len);
    f->unmap(o->buffer);
    if (gpu_staging_keep(g, o->buffer, o->cap)) o->buffer = NULL;
    return QSF_OK;
}

/* ---- results ---- */
static gpu_object *gpu_polled(gpu *g, qsf_device_id id)
{
    gpu_object *o = qsf_gpu_object(g, id, GPU_READ);
    if (!o) o = qsf_gpu_object(g, id, GPU_BUFFER);
    return o ? o : qsf_gpu_object(g, id, GPU_PIPELINE);
}

/* What the object's state is, without calling callbacks. */
static qsf_status gpu_result(gpu *g, qsf_device_id id, qsf_error *err)
{
    gpu_object *o = &g->objects[id];
    qsf_status st = qsf_gpu_usable(g, err);
    if (!st && o->pending) return QSF_PENDING;
    if (!st && o->st) {
        st = o->st;
        qsf_fail(err, st, "%s", o->error ? o->error->text : qsf_status_text(st));
    }
    if (o->kind != GPU_READ) return st;
    if (!st) st = gpu_read_take(g, o, err);
    qsf_gpu_object_end(g, id);
    return st;
}

qsf_status qsf_gpu_wait(void *user, qsf_device_id id, uint64_t ns, qsf_error *err)
{
    gpu *g = user;
    const uint64_t end = qsf_native_now_ns(NULL) + ns;
    if (!gpu_polled(g, id)) return qsf_fail(err, QSF_E_ARGUMENT, "%u cannot be waited for", id);
    for (;;) {
        const uint64_t now = qsf_native_now_ns(NULL);
        qsf_gpu_pump(g->lib, g->device, g->objects[id].future, &g->objects[id].pending,
                     now < end ? QSF_MIN(end - now, UINT64_C(100000000)) : 0);
        const qsf_status st = gpu_result(g, id, err);
        if (st != QSF_PENDING || now >= end) return st;
    }
}

qsf_status qsf_gpu_poll(void *user, qsf_device_id id, qsf_error *err)
{
    return qsf_gpu_wait(user, id, 0, err);
}
