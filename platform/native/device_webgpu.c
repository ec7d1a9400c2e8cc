/* The device (base/device.h) over a library with the functions of webgpu.h, Dawn or wgpu-native,
 * which is loaded while the program runs.
 * SPDX-License-Identifier: MIT
 *
 * webgpu.h cannot list adapters, so the list is what the library answers when it is asked for the
 * fastest, the most frugal and the one in software, without repetitions.
 *
 * Callbacks of objects are only called within calls of ours, on the caller's thread.  Those for
 * errors that belong to no object may come on any thread. */
#include "device_webgpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GPU_SECOND UINT64_C(1000000000)
#define GPU_PATIENCE (60 * GPU_SECOND)      /* for an adapter or a device: drivers start slowly */

/* ---- adapters ---- */
typedef struct webgpu_choice { wgpu_enum power; wgpu_bool fallback; } webgpu_choice;
static const webgpu_choice webgpu_choices[] = { { WGPU_POWER_HIGH, 0 }, { WGPU_POWER_LOW, 0 }, { 0, 1 } };
enum { WEBGPU_CHOICES = 3 };

typedef struct webgpu_devices {
    qsf_devices   table;
    webgpu       *lib;
    webgpu_choice choice[WEBGPU_CHOICES];
    qsf_device_info info[WEBGPU_CHOICES];
    uint32_t      ids[WEBGPU_CHOICES][3];   /* vendor, device, backend */
} webgpu_devices;

/* What a request will be answered with.  It is not on the stack: an answer that comes after its
 * time must find its place. */
typedef struct webgpu_answer { uint32_t left; void *object; char why[300]; } webgpu_answer;

static void webgpu_answered(webgpu_answer *to, wgpu_enum status, void *object, wgpu_text text)
{
    if (status == WGPU_SUCCESS) to->object = object;
    qsf_gpu_words(text, to->why, sizeof to->why);
    to->left = 0;
}

static void webgpu_adapter_came(wgpu_enum status, wgpu_adapter a, wgpu_text text, void *u1, void *u2)
{
    (void)u2;
    webgpu_answered(u1, status, a, text);
}

static webgpu_answer *webgpu_answer_new(void)
{
    webgpu_answer *to = calloc(1, sizeof *to);
    if (to) to->left = 1;
    return to;
}

static wgpu_adapter webgpu_adapter(webgpu *w, webgpu_choice c)
{
    webgpu_answer *to = webgpu_answer_new();
    if (!to) return NULL;
    const wgpu_adapter_options o = { .level = WGPU_LEVEL_CORE, .power = c.power, .fallback = c.fallback };
    const wgpu_future future = w->f.request_adapter(w->instance, &o, (wgpu_on_adapter){
        .mode = WGPU_CALLBACK_WAIT_OR_EVENTS, .call = webgpu_adapter_came, .u1 = to });
    if (!qsf_gpu_pump(w, NULL, future, &to->left, GPU_PATIENCE)) return NULL;
    const wgpu_adapter a = to->object;
    free(to);
    return a;
}

static void webgpu_limits(qsf_device_info *out, const wgpu_limits *l)
{
    out->max_buffer = l->buffer & ~(uint64_t)(QSF_DEVICE_ALIGN - 1);
    out->max_binding = QSF_MIN(l->storage_binding, l->buffer) & ~(uint64_t)(QSF_DEVICE_ALIGN - 1);
    out->max_bindings = l->storage_buffers;
    out->binding_align = QSF_MAX(l->storage_align, l->uniform_align);
    out->max_invocations = QSF_MIN(l->invocations, l->workgroup_x);
    out->max_shared = l->workgroup_bytes;
    out->max_groups = l->workgroups;
}

/* Fills out, and ids, by which adapters are told apart. */
static bool webgpu_describe(webgpu *w, wgpu_adapter a, qsf_device_info *out, uint32_t *ids)
{
    static const char *const backends[] = { "unknown", "none", "WebGPU", "D3D11", "D3D12", "Metal", "Vulkan",
                                            "OpenGL", "OpenGL ES" };
    wgpu_adapter_info about;
    wgpu_limits limits;
    memset(&about, 0, sizeof about);
    memset(&limits, 0, sizeof limits);
    if (w->f.adapter_limits(a, &limits) != WGPU_SUCCESS || w->f.adapter_info(a, &about) != WGPU_SUCCESS)
        return false;
    memset(out, 0, sizeof *out);
    out->size = sizeof *out;
    qsf_gpu_words(about.device, out->name, sizeof out->name);
    if (!*out->name) qsf_gpu_words(about.description, out->name, sizeof out->name);
    qsf_gpu_words(about.vendor, out->vendor, sizeof out->vendor);
    if (!*out->vendor) snprintf(out->vendor, sizeof out->vendor, "vendor 0x%04x", (unsigned)about.vendor_id);
    snprintf(out->backend, sizeof out->backend, "%s",
             backends[about.backend < QSF_ARRAY_LEN(backends) ? about.backend : 0]);
    out->kind = about.kind == WGPU_ADAPTER_DISCRETE ? QSF_DEVICE_DISCRETE
        : about.kind == WGPU_ADAPTER_INTEGRATED ? QSF_DEVICE_INTEGRATED
        : about.kind == WGPU_ADAPTER_CPU ? QSF_DEVICE_SOFTWARE : QSF_DEVICE_UNKNOWN;
    webgpu_limits(out, &limits);
    ids[0] = about.vendor_id;
    ids[1] = about.device_id;
    ids[2] = about.backend;
    w->f.free_info(about);
    return true;
}

static void webgpu_list(webgpu_devices *d)
{
    for (int i = 0; i < WEBGPU_CHOICES; i++) {
        const uint32_t n = d->table.n;
        const wgpu_adapter a = webgpu_adapter(d->lib, webgpu_choices[i]);
        if (!a) continue;
        bool fresh = webgpu_describe(d->lib, a, &d->info[n], d->ids[n]);
        for (uint32_t k = 0; k < n; k++)
            if (!memcmp(d->ids[k], d->ids[n], sizeof d->ids[n]) && !strcmp(d->info[k].name, d->info[n].name))
                fresh = false;
        d->choice[n] = webgpu_choices[i];
        d->table.n += fresh;
        d->lib->f.release_adapter(a);
    }
}

/* ---- a device ---- */
static void gpu_locked(gpu *g, qsf_error *to, qsf_status st, const char *what, wgpu_text text)
{
    char words[360];
    qsf_gpu_words(text, words, sizeof words);
    while (atomic_flag_test_and_set(&g->lock)) { }
    if (!to->status) qsf_fail(to, st, "%s: %s", what, *words ? words : "no reason was given");
    atomic_flag_clear(&g->lock);
}

static void gpu_error_came(const wgpu_device *device, wgpu_enum type, wgpu_text text, void *u1, void *u2)
{
    gpu *g = u1;
    (void)device, (void)u2;
    if (type == WGPU_ERROR_MEMORY) gpu_locked(g, &g->first, QSF_E_MEMORY, "the GPU is out of memory", text);
    else gpu_locked(g, &g->first, QSF_E_ARGUMENT, "the GPU refused a command", text);
}

static void gpu_lost_came(const wgpu_device *device, wgpu_enum reason, wgpu_text text, void *u1, void *u2)
{
    gpu *g = u1;
    (void)device, (void)reason, (void)u2;
    gpu_locked(g, &g->why_lost, QSF_E_IO, "the GPU was lost", text);
    g->lost = true;
    g->lost_due = 0;
}

static qsf_status gpu_state(void *user, qsf_error *err)
{
    gpu *g = user;
    const uint32_t left = 1;
    qsf_error first;
    qsf_gpu_pump(g->lib, NULL, (wgpu_future){ 0 }, &left, 0);
    if (g->lost) return qsf_gpu_usable(g, err);
    while (atomic_flag_test_and_set(&g->lock)) { }
    first = g->first;
    g->first.status = QSF_OK;
    atomic_flag_clear(&g->lock);
    return first.status ? qsf_fail(err, first.status, "%s", first.text) : QSF_OK;
}

static void gpu_lose(void *user)
{
    gpu *g = user;
    if (g->lost) return;
    g->lib->f.destroy_device(g->device);
    gpu_state(g, NULL);
    /* wgpu-native does not report what was asked for */
    gpu_locked(g, &g->why_lost, QSF_E_IO, "the GPU was lost", (wgpu_text){ "it was given up", SIZE_MAX });
    g->lost = true;
}

static void gpu_close(void *user)
{
    gpu *g = user;
    const wgpu_functions *f = &g->lib->f;
    for (uint32_t i = 1; i < g->n_objects; i++) qsf_gpu_release(g, i);
    for (int i = 0; i < GPU_STAGING; i++) {
        if (g->staging[i].buffer) f->release_buffer(g->staging[i].buffer);
    }
    if (g->queue) f->release_queue(g->queue);
    if (g->device) {
        gpu_lose(g);
        f->release_device(g->device);
    }
    const bool quiet = qsf_gpu_pump(g->lib, NULL, (wgpu_future){ 0 }, &g->pending, 5 * GPU_SECOND)
        && qsf_gpu_pump(g->lib, NULL, (wgpu_future){ 0 }, &g->lost_due, 0);
    qsf_gpu_free(g, !quiet);
}

static void webgpu_device_came(wgpu_enum status, wgpu_device device, wgpu_text text, void *u1, void *u2)
{
    (void)u2;
    webgpu_answered(u1, status, device, text);
}

/* All of the adapter's limits that we use. */
static wgpu_limits gpu_limits(const wgpu_limits *has)
{
    wgpu_limits l;
    memset(&l, 0xff, sizeof l);             /* WGPU_LIMIT_U32 and WGPU_LIMIT_U64 everywhere */
    l.next = NULL;
    l.buffer = has->buffer;
    l.storage_binding = has->storage_binding;
    l.storage_buffers = has->storage_buffers;
    l.invocations = has->invocations;
    l.workgroup_x = has->workgroup_x;
    l.workgroup_bytes = has->workgroup_bytes;
    return l;
}

static qsf_status gpu_request(gpu *g, wgpu_adapter a, qsf_error *err)
{
    const wgpu_functions *f = &g->lib->f;
    wgpu_limits has;
    webgpu_answer *to = webgpu_answer_new();
    if (!to) return qsf_fail(err, QSF_E_MEMORY, "out of memory: a GPU's tables");
    memset(&has, 0, sizeof has);
    f->adapter_limits(a, &has);
    const wgpu_limits limits = gpu_limits(&has);
    const wgpu_device_options o = {
        .limits = &limits,
        .lost = { .mode = WGPU_CALLBACK_WAIT_OR_EVENTS, .call = gpu_lost_came, .u1 = g },
        .error = { .call = gpu_error_came, .u1 = g },
    };
    const wgpu_future future = f->request_device(a, &o, (wgpu_on_device){
        .mode = WGPU_CALLBACK_WAIT_OR_EVENTS, .call = webgpu_device_came, .u1 = to });
    g->lost_due = true;
    if (!qsf_gpu_pump(g->lib, NULL, future, &to->left, GPU_PATIENCE))
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: its driver does not answer", g->info.name);
    g->device = to->object;
    if (!g->device) qsf_fail(err, QSF_E_UNSUPPORTED, "%s cannot be used: %s", g->info.name, to->why);
    free(to);
    if (!g->device) return QSF_E_UNSUPPORTED;
    memset(&has, 0, sizeof has);
    f->device_limits(g->device, &has);
    webgpu_limits(&g->info, &has);
    g->queue = f->device_queue(g->device);
    return QSF_OK;
}

static const qsf_device gpu_table = {
    .size = sizeof(qsf_device),
    .buffer_new = qsf_gpu_buffer_new,
    .pipeline_new = qsf_gpu_pipeline_new,
    .group_new = qsf_gpu_group_new,
    .release = qsf_gpu_release,
    .write = qsf_gpu_write,
    .copy = qsf_gpu_copy,
    .submit = qsf_gpu_submit,
    .encode = qsf_gpu_encode,
    .submit_encoded = qsf_gpu_submit_encoded,
    .read_start = qsf_gpu_read_start,
    .poll = qsf_gpu_poll,
    .wait = qsf_gpu_wait,
    .state = gpu_state,
    .lose = gpu_lose,
    .close = gpu_close,
};

static qsf_status webgpu_open(qsf_devices *list, uint32_t i, qsf_device **out, qsf_error *err)
{
    webgpu_devices *d = (webgpu_devices *)list;
    *out = NULL;
    if (i >= list->n) return qsf_fail(err, QSF_E_NOT_FOUND, "GPU %u: there are %u", i, list->n);
    gpu *g = calloc(1, sizeof *g);
    if (!g) return qsf_fail(err, QSF_E_MEMORY, "out of memory: a GPU's tables");
    g->table = gpu_table;
    g->table.user = g;
    g->table.info = &g->info;
    g->info = d->info[i];
    g->lib = d->lib;
    g->lib->held++;
    atomic_flag_clear(&g->lock);
    /* an adapter makes one device; this is a new one of the same kind */
    const wgpu_adapter a = webgpu_adapter(d->lib, d->choice[i]);
    qsf_status st = QSF_E_UNSUPPORTED;
    if (a) st = gpu_request(g, a, err);
    else qsf_fail(err, st, "%s is no longer there", g->info.name);
    if (a) d->lib->f.release_adapter(a);
    if (st) gpu_close(g);
    else *out = &g->table;
    return st;
}

static void webgpu_close(qsf_devices *list)
{
    webgpu_devices *d = (webgpu_devices *)list;
    qsf_webgpu_release(d->lib);
    free(d);
}

qsf_status qsf_native_devices(void *user, const char *library, qsf_devices **out, qsf_error *err)
{
    (void)user;
    *out = NULL;
    webgpu_devices *d = calloc(1, sizeof *d);
    if (!d) return qsf_fail(err, QSF_E_MEMORY, "out of memory: a list of GPUs");
    const qsf_status st = qsf_webgpu_load(library, &d->lib, err);
    if (st) {
        free(d);
        return st;
    }
    d->table = (qsf_devices){ .source = d->lib->path, .info = d->info, .open = webgpu_open,
                              .close = webgpu_close };
    webgpu_list(d);
    *out = &d->table;
    return QSF_OK;
}
