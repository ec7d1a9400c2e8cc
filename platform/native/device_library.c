/* Loads a WebGPU library, and calls the callbacks that it owes.
 * SPDX-License-Identifier: MIT */
#include "device_webgpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(_WIN32)
#  define WEBGPU_NAMES "webgpu_dawn.dll", "wgpu_native.dll", "webgpu.dll"
#elif defined(__APPLE__)
#  define WEBGPU_NAMES "libwebgpu_dawn.dylib", "libwgpu_native.dylib", "libwebgpu.dylib"
#else
#  define WEBGPU_NAMES "libwebgpu_dawn.so", "libwgpu_native.so", "libwebgpu.so"
#endif
static const char *const webgpu_names[] = { WEBGPU_NAMES };

/* The first function that the library lacks; NULL: it has all of them. */
static const char *webgpu_functions(void *library, wgpu_functions *f)
{
    native_fn fn;
#define X(member, name, result, arguments)                            \
    if (!(fn = qsf_native_symbol(library, name))) return name;        \
    f->member = (result (*) arguments)fn;
    WGPU_FUNCTIONS(X)
#undef X
    fn = qsf_native_symbol(library, "wgpuDevicePoll");
    f->poll = (wgpu_bool (*)(wgpu_device, wgpu_bool, const uint64_t *))fn;
    return NULL;
}

static void *webgpu_find(const char *name, char *path, size_t cap, qsf_error *err)
{
    char why[256], tried[128] = "";
    void *library;
    if (!name || !*name) name = getenv("QSF_WEBGPU_LIB");
    if (name && *name) {
        snprintf(path, cap, "%s", name);
        library = qsf_native_library(name, why, sizeof why);
        if (!library) qsf_fail(err, QSF_E_NOT_FOUND, "the WebGPU library cannot be loaded: %s", why);
        return library;
    }
    for (size_t i = 0; i < QSF_ARRAY_LEN(webgpu_names); i++) {
        snprintf(path, cap, "%s", webgpu_names[i]);
        if ((library = qsf_native_library(path, why, sizeof why))) return library;
        snprintf(tried + strlen(tried), sizeof tried - strlen(tried), "%s%s", i ? ", " : "", path);
    }
    qsf_fail(err, QSF_E_NOT_FOUND, "no WebGPU library: tried %s (%s); QSF_WEBGPU_LIB can name one", tried,
             why);
    return NULL;
}

static void gpu_memory_free(gpu *g)
{
    for (uint32_t i = 1; i < g->n_objects; i++) free(g->objects[i].error);
    free(g->objects);
    free(g);
}

void qsf_gpu_free(gpu *g, bool callbacks_may_come)
{
    webgpu *w = g->lib;
    g->next_ended = w->ended;
    if (callbacks_may_come) w->ended = g;
    else gpu_memory_free(g);
    qsf_webgpu_release(w);
}

void qsf_webgpu_release(webgpu *w)
{
    if (--w->held) return;
    if (w->instance) w->f.release_instance(w->instance);
    for (gpu *g; (g = w->ended);) {
        w->ended = g->next_ended;
        gpu_memory_free(g);
    }
    free(w);                                /* the library stays: threads of it may run */
}

qsf_status qsf_webgpu_load(const char *name, webgpu **out, qsf_error *err)
{
    qsf_status st;
    webgpu *w = *out = calloc(1, sizeof *w);
    if (!w) return qsf_fail(err, QSF_E_MEMORY, "out of memory: the WebGPU library");
    w->held = 1;
    void *library = webgpu_find(name, w->path, sizeof w->path, err);
    const char *lacks = library ? webgpu_functions(library, &w->f) : NULL;
    if (!library) {
        st = QSF_E_NOT_FOUND;
    } else if (lacks) {
        st = qsf_fail(err, QSF_E_UNSUPPORTED, "%s is not a WebGPU library that can be used: it lacks %s, so "
                      "it is older than webgpu.h of 2025, or something else", w->path, lacks);
    } else {
        /* waiting with a time limit must be asked for; wgpu-native knows another way */
        const wgpu_enum timed = WGPU_FEATURE_TIMED_WAIT;
        const bool ask = !w->f.poll && w->f.instance_feature(timed);
        const wgpu_instance_options o = { .n_features = ask, .features = &timed };
        w->instance = w->f.create_instance(&o);
        if (w->instance) return QSF_OK;
        st = qsf_fail(err, QSF_E_UNSUPPORTED, "%s: the library cannot start", w->path);
    }
    qsf_webgpu_release(w);
    *out = NULL;
    return st;
}

bool qsf_gpu_pump(webgpu *w, wgpu_device device, wgpu_future future, const uint32_t *left, uint64_t ns)
{
    uint32_t never = 0;
    const uint64_t end = qsf_native_now_ns(NULL) + ns;
    for (;;) {
        w->f.process_events(w->instance);
        const uint64_t now = qsf_native_now_ns(NULL);
        if (!*left || now >= end) return !*left;
        if (w->f.poll) {
            if (device) w->f.poll(device, 1, NULL);
            w->f.process_events(w->instance);
            if (*left) qsf_native_wait32(NULL, &never, 0, QSF_MIN(end - now, UINT64_C(100000)));
        } else {
            wgpu_wait one = { future, 0 };
            if (w->f.wait_any(w->instance, 1, &one, end - now) != WGPU_SUCCESS)
                qsf_native_wait32(NULL, &never, 0, QSF_MIN(end - now, UINT64_C(100000)));
        }
    }
}

void qsf_gpu_words(wgpu_text text, char *out, size_t cap)
{
    const size_t len = !text.data ? 0 : text.len == SIZE_MAX ? strlen(text.data) : text.len;
    size_t n = 0;
    for (size_t i = 0; i < len && n + 1 < cap; i++) {
        const char c = (unsigned char)text.data[i] <= ' ' ? ' ' : text.data[i];
        if (c != ' ' || (n && out[n - 1] != ' ')) out[n++] = c;
    }
    if (n && out[n - 1] == ' ') n--;
    out[n] = 0;
    qsf_visible(out);
}
