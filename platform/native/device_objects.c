/* Buffers, pipelines and bind groups of a WebGPU device, by their numbers.
 * SPDX-License-Identifier: MIT */
#include "device_webgpu.h"

#include <stdlib.h>
#include <string.h>

qsf_status qsf_gpu_usable(gpu *g, qsf_error *err)
{
    return g->lost ? qsf_fail(err, QSF_E_IO, "%s", g->why_lost.text) : QSF_OK;
}

/* ---- numbers ---- */
gpu_object *qsf_gpu_object(gpu *g, qsf_device_id id, gpu_kind kind)
{
    if (!id || id >= g->n_objects) return NULL;
    gpu_object *o = &g->objects[id];
    return o->kind == kind && !o->released ? o : NULL;
}

static bool gpu_objects_grow(gpu *g)
{
    const uint32_t cap = g->cap_objects ? 2 * g->cap_objects : 256;
    if (cap > UINT32_MAX / 2 / sizeof *g->objects) return false;
    gpu_object *more = realloc(g->objects, cap * sizeof *more);
    if (!more) return false;
    g->objects = more;
    g->cap_objects = cap;
    if (!g->n_objects) {
        memset(&more[0], 0, sizeof more[0]);
        g->n_objects = 1;
    }
    return true;
}

qsf_device_id qsf_gpu_object_new(gpu *g, gpu_kind kind, qsf_error *err)
{
    qsf_device_id id = g->free_objects;
    if (id) {
        g->free_objects = g->objects[id].next_free;
    } else {
        if (g->n_objects >= g->cap_objects && !gpu_objects_grow(g)) {
            qsf_fail(err, QSF_E_MEMORY, "out of memory: a table of %u objects of the GPU", g->cap_objects);
            return 0;
        }
        id = g->n_objects++;
    }
    memset(&g->objects[id], 0, sizeof g->objects[id]);
    g->objects[id].kind = kind;
    return id;
}

static void gpu_number_free(gpu *g, qsf_device_id id)
{
    gpu_object *o = &g->objects[id];
    if (!o->released || o->pending) return;
    free(o->error);
    memset(o, 0, sizeof *o);
    o->next_free = g->free_objects;
    g->free_objects = id;
}

void qsf_gpu_came(gpu *g, qsf_device_id id, qsf_status st, const char *what, wgpu_text text, bool better)
{
    gpu_object *o = &g->objects[id];
    o->pending--;
    g->pending--;
    if (st && !o->released && (!o->st || better)) {
        char words[360];
        qsf_gpu_words(text, words, sizeof words);
        o->st = st;
        if (!o->error) o->error = malloc(sizeof *o->error);
        if (o->error) qsf_fail(o->error, st, "%s: %s", what, *words ? words : qsf_status_text(st));
    }
    gpu_number_free(g, id);
}

void qsf_gpu_object_end(gpu *g, qsf_device_id id)
{
    const wgpu_functions *f = &g->lib->f;
    gpu_object *o = &g->objects[id];
    const gpu_object was = *o;
    o->released = true;
    o->dst = NULL;
    o->buffer = NULL;
    o->group = NULL;
    o->commands = NULL;
    o->pipeline = NULL;
    o->layout = NULL;
    o->pending++;       /* callbacks may come from these calls: the number stays until their end */
    if (was.buffer) {
        f->destroy_buffer(was.buffer);
        f->release_buffer(was.buffer);
    }
    if (was.group) f->release_group(was.group);
    if (was.commands) f->release_commands(was.commands);
    if (was.pipeline) f->release_pipeline(was.pipeline);
    if (was.layout) f->release_layout(was.layout);
    o->pending--;
    gpu_number_free(g, id);
}

void qsf_gpu_release(void *user, qsf_device_id id)
{
    gpu *g = user;
    if (id && id < g->n_objects && g->objects[id].kind && !g->objects[id].released) qsf_gpu_object_end(g, id);
}

/* ---- error scopes ---- */
static qsf_status gpu_status_of(wgpu_enum type)
{
    if (type == WGPU_ERROR_NONE) return QSF_OK;
    return type == WGPU_ERROR_MEMORY ? QSF_E_MEMORY : QSF_E_UNSUPPORTED;
}

/* Its size and usage were checked, so that every error is one of memory: wgpu-native calls it an
 * invalid buffer. */
static void gpu_buffer_checked(wgpu_enum status, wgpu_enum type, wgpu_text text, void *u1, void *u2)
{
    const qsf_status st = gpu_status_of(type) ? QSF_E_MEMORY : QSF_OK;
    qsf_gpu_came(u1, (qsf_device_id)(uintptr_t)u2, status == WGPU_SUCCESS ? st : QSF_E_IO,
                 "a buffer on the GPU", text, false);
}

static void gpu_pipeline_checked(wgpu_enum status, wgpu_enum type, wgpu_text text, void *u1, void *u2)
{
    qsf_gpu_came(u1, (qsf_device_id)(uintptr_t)u2, status == WGPU_SUCCESS ? gpu_status_of(type) : QSF_E_IO,
                 "a GPU program", text, true);
}

/* Ends the error scope that was pushed, whose error will be the object's. */
static void gpu_scope_end(gpu *g, qsf_device_id id, wgpu_scope_fn fn)
{
    gpu_object *o = &g->objects[id];
    o->pending++;
    g->pending++;
    const wgpu_future future = g->lib->f.pop_scope(g->device, (wgpu_on_scope){
        .mode = WGPU_CALLBACK_WAIT_OR_EVENTS, .call = fn, .u1 = g, .u2 = (void *)(uintptr_t)id });
    g->objects[id].future = future;     /* wgpu-native has already called */
}

/* ---- buffers ---- */
qsf_status qsf_gpu_buffer_new(void *user, uint32_t usage, uint64_t len, qsf_device_id *out, qsf_error *err)
{
    gpu *g = user;
    *out = 0;
    const qsf_status st = qsf_gpu_usable(g, err);
    if (st) return st;
    if (!usage || usage & ~(uint32_t)(QSF_DEVICE_STORAGE | QSF_DEVICE_UNIFORM))
        return qsf_fail(err, QSF_E_ARGUMENT, "a buffer on the GPU: unknown usage %u", usage);
    if (!len || len % QSF_DEVICE_ALIGN || len > g->info.max_buffer)
        return qsf_fail(err, QSF_E_ARGUMENT, "a buffer on the GPU: %llu bytes; it must be a multiple of %u, "
                        "from %u to %llu", (unsigned long long)len, QSF_DEVICE_ALIGN, QSF_DEVICE_ALIGN,
                        (unsigned long long)g->info.max_buffer);
    const qsf_device_id id = qsf_gpu_object_new(g, GPU_BUFFER, err);
    if (!id) return QSF_E_MEMORY;
    const wgpu_buffer_options o = {
        .usage = WGPU_USAGE_COPY_FROM | WGPU_USAGE_COPY_TO
            | (usage & QSF_DEVICE_STORAGE ? WGPU_USAGE_STORAGE : 0)
            | (usage & QSF_DEVICE_UNIFORM ? WGPU_USAGE_UNIFORM : 0),
        .size = len,
    };
    g->lib->f.push_scope(g->device, WGPU_FILTER_VALIDATION);
    g->lib->f.push_scope(g->device, WGPU_FILTER_MEMORY);
    g->objects[id].buffer = g->lib->f.create_buffer(g->device, &o);
    g->objects[id].len = len;
    g->objects[id].bindings = usage;
    gpu_scope_end(g, id, gpu_buffer_checked);
    gpu_scope_end(g, id, gpu_buffer_checked);
    *out = id;
    return QSF_OK;
}

/* ---- pipelines ---- */
static wgpu_text gpu_text(const char *s) { return (wgpu_text){ s, strlen(s) }; }

static void gpu_pipeline_made(wgpu_enum status, wgpu_pipeline p, wgpu_text text, void *u1, void *u2)
{
    gpu *g = u1;
    const qsf_device_id id = (qsf_device_id)(uintptr_t)u2;
    gpu_object *o = &g->objects[id];
    if (status == WGPU_SUCCESS && !o->released) o->pipeline = p;
    else if (p) g->lib->f.release_pipeline(p);
    qsf_gpu_came(g, id, status == WGPU_SUCCESS ? QSF_OK : QSF_E_UNSUPPORTED, "a GPU program", text, false);
}

static wgpu_layout gpu_layout_new(gpu *g, const qsf_device_shader *s)
{
    wgpu_layout_entry entries[QSF_DEVICE_BINDINGS];
    memset(entries, 0, sizeof entries);
    for (uint32_t i = 0; i < s->n_bindings; i++) {
        entries[i].binding = i;
        entries[i].visible = WGPU_STAGE_COMPUTE;
        entries[i].buffer.type = s->bindings[i] == QSF_BINDING_UNIFORM ? WGPU_BINDING_UNIFORM
            : s->bindings[i] == QSF_BINDING_STORAGE ? WGPU_BINDING_STORAGE : WGPU_BINDING_READ_ONLY;
    }
    const wgpu_layout_options o = { .n = s->n_bindings, .entries = entries };
    return g->lib->f.create_layout(g->device, &o);
}

/* Makes the program in the background; wgpu-native only knows how to make it at once. */
static void gpu_pipeline_compile(gpu *g, qsf_device_id id, const qsf_device_shader *s)
{
    const wgpu_functions *f = &g->lib->f;
    const wgpu_wgsl code = { .chain = { .type = WGPU_TYPE_WGSL }, .code = gpu_text(s->wgsl) };
    wgpu_chain *chain;
    const wgpu_chain *chained = &code.chain;
    memcpy(&chain, &chained, sizeof chain);         /* the library does not write to it */

    f->push_scope(g->device, WGPU_FILTER_VALIDATION);
    const wgpu_module module = f->create_module(g->device, &(wgpu_module_options){
        .next = chain, .label = gpu_text(s->name) });
    const wgpu_layout layout = g->objects[id].layout = gpu_layout_new(g, s);
    const wgpu_pipeline_layout all = f->create_pipeline_layout(g->device, &(wgpu_pipeline_layout_options){
        .n = 1, .layouts = &layout });
    const wgpu_pipeline_options o = { .label = gpu_text(s->name), .layout = all,
                                      .compute = { .module = module, .entry = gpu_text(s->entry) } };
    if (f->poll) g->objects[id].pipeline = f->create_pipeline(g->device, &o);
    gpu_scope_end(g, id, gpu_pipeline_checked);
    if (!f->poll) {
        g->objects[id].pending++;
        g->pending++;
        const wgpu_future future = f->create_pipeline_async(g->device, &o, (wgpu_on_pipeline){
            .mode = WGPU_CALLBACK_WAIT_OR_EVENTS, .call = gpu_pipeline_made, .u1 = g,
            .u2 = (void *)(uintptr_t)id });
        g->objects[id].future = future;
    }
    f->release_pipeline_layout(all);
    f->release_module(module);
}

qsf_status qsf_gpu_pipeline_new(void *user, const qsf_device_shader *s, qsf_device_id *out, qsf_error *err)
{
    gpu *g = user;
    uint32_t bindings = 0, storage = 0;
    *out = 0;
    const qsf_status st = qsf_gpu_usable(g, err);
    if (st) return st;
    if (s->n_bindings > QSF_DEVICE_BINDINGS)
        return qsf_fail(err, QSF_E_ARGUMENT, "%s: %u bindings, at most %u", s->name, s->n_bindings,
                        QSF_DEVICE_BINDINGS);
    for (uint32_t i = 0; i < s->n_bindings; i++) {
        if (s->bindings[i] < QSF_BINDING_STORAGE || s->bindings[i] > QSF_BINDING_UNIFORM)
            return qsf_fail(err, QSF_E_ARGUMENT, "%s: binding %u is of no kind", s->name, i);
        bindings |= (uint32_t)s->bindings[i] << 2 * i;
        storage += s->bindings[i] != QSF_BINDING_UNIFORM;
    }
    if (storage > g->info.max_bindings)
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: %u storage buffers; this GPU's limit is %u", s->name,
                        storage, g->info.max_bindings);
    const qsf_device_id id = qsf_gpu_object_new(g, GPU_PIPELINE, err);
    if (!id) return QSF_E_MEMORY;
    g->objects[id].bindings = bindings;
    g->objects[id].n_bindings = s->n_bindings;
    gpu_pipeline_compile(g, id, s);
    *out = id;
    return QSF_OK;
}

/* ---- bind groups ---- */
static qsf_status gpu_range_check(gpu *g, const qsf_device_range *r, uint32_t kind, uint32_t i,
                                  qsf_error *err)
{
    const gpu_object *b = qsf_gpu_object(g, r->buffer, GPU_BUFFER);
    const uint32_t usage = kind == QSF_BINDING_UNIFORM ? QSF_DEVICE_UNIFORM : QSF_DEVICE_STORAGE;
    const uint64_t most = kind == QSF_BINDING_UNIFORM ? QSF_MIN(g->info.max_binding, 65536)
        : g->info.max_binding;
    if (!b) return qsf_fail(err, QSF_E_ARGUMENT, "binding %u: %u is not a buffer", i, r->buffer);
    if (!(b->bindings & usage))
        return qsf_fail(err, QSF_E_ARGUMENT, "binding %u: buffer %u was not made for it", i, r->buffer);
    if (r->at % g->info.binding_align || r->len % QSF_DEVICE_ALIGN || !r->len || r->at > b->len
        || r->len > b->len - r->at || r->len > most)
        return qsf_fail(err, QSF_E_ARGUMENT, "binding %u: %llu bytes at %llu of a buffer of %llu; at most "
                        "%llu, at a multiple of %u", i, (unsigned long long)r->len,
                        (unsigned long long)r->at, (unsigned long long)b->len, (unsigned long long)most,
                        g->info.binding_align);
    return QSF_OK;
}

qsf_status qsf_gpu_group_new(void *user, qsf_device_id pipeline, const qsf_device_range *ranges, uint32_t n,
                             qsf_device_id *out, qsf_error *err)
{
    gpu *g = user;
    wgpu_group_entry entries[QSF_DEVICE_BINDINGS];
    *out = 0;
    qsf_status st = qsf_gpu_usable(g, err);
    if (st) return st;
    const gpu_object *p = qsf_gpu_object(g, pipeline, GPU_PIPELINE);
    if (!p) return qsf_fail(err, QSF_E_ARGUMENT, "a bind group: %u is not a pipeline", pipeline);
    if (n != p->n_bindings)
        return qsf_fail(err, QSF_E_ARGUMENT, "a bind group: %u parts of buffers; the pipeline has %u "
                        "bindings", n, p->n_bindings);
    memset(entries, 0, sizeof entries);
    for (uint32_t i = 0; i < n; i++) {
        if ((st = gpu_range_check(g, &ranges[i], p->bindings >> 2 * i & 3, i, err))) return st;
        entries[i].binding = i;
        entries[i].buffer = g->objects[ranges[i].buffer].buffer;
        entries[i].at = ranges[i].at;
        entries[i].size = ranges[i].len;
    }
    const qsf_device_id id = qsf_gpu_object_new(g, GPU_GROUP, err);
    if (!id) return QSF_E_MEMORY;
    p = &g->objects[pipeline];                      /* the table may have moved */
    g->objects[id].bindings = p->bindings;
    g->objects[id].n_bindings = n;
    g->objects[id].group = g->lib->f.create_group(g->device, &(wgpu_group_options){
        .layout = p->layout, .n = n, .entries = entries });
    *out = id;
    return QSF_OK;
}
