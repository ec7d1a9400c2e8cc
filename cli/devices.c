/* --list-devices and --device: the GPUs, the library that they come from, and layers on one.
 * SPDX-License-Identifier: MIT */
#include "devices.h"

#include "run.h"

#include <stdlib.h>

static unsigned long long devices_mb(uint64_t bytes) { return (unsigned long long)(bytes >> 20); }

static void print_device(uint32_t i, const qsf_device_info *d)
{
    static const char *const kinds[] = { "kind not known", "a CPU that computes as a GPU", "integrated GPU",
                                         "discrete GPU" };
    printf("%u: %s\n   %s, of %s, by %s\n", (unsigned)i, d->name,
           kinds[(unsigned)d->kind < sizeof kinds / sizeof kinds[0] ? d->kind : 0], d->vendor, d->backend);
    printf("   buffers of %llu MB, %llu MB of one visible to a shader, %u buffers at once\n",
           devices_mb(d->max_buffer), devices_mb(d->max_binding), (unsigned)d->max_bindings);
    printf("   workgroups of %u threads with %u KB\n", (unsigned)d->max_invocations,
           (unsigned)(d->max_shared >> 10));
}

/* An empty list is an answer; a library that was asked for and cannot be used is an error. */
int run_devices(void)
{
    qsf_devices *found = NULL;
    qsf_device_info info = { .size = sizeof info };
    qsf_error err;
    const char *asked = getenv("QSF_WEBGPU_LIB");
    const qsf_status st = qsf_devices_open(NULL, NULL, &found, &err);
    if (st && asked && *asked) return report(&err);
    if (st) {
        printf("No GPU: %s.\n", err.text);
    } else {
        uint32_t n = 0;
        printf("WebGPU library: %s\n", qsf_devices_source(found));
        for (; !qsf_devices_get(found, n, &info); n++) print_device(n, &info);
        if (!n) printf("No GPU: the library finds none that it can use; is a Vulkan driver installed?\n");
    }
    qsf_devices_close(found);
    return EXIT_OK;
}

static unsigned long long device_mb(uint64_t bytes) { return (unsigned long long)(bytes / 1000000); }

static void device_note(qsf_context *c, char note[DEVICE_NOTE])
{
    qsf_device_use u = { .size = sizeof u };
    if (qsf_context_device(c, &u)) return;
    int n = snprintf(note, DEVICE_NOTE, "layers %u to %u%s on %s: weights %llu MB, KV cache %llu MB, "
                     "batch %llu MB", (unsigned)u.first, (unsigned)(u.first + u.n_layers - 1),
                     u.head ? " and the head" : "", u.name, device_mb(u.weights), device_mb(u.kv),
                     device_mb(u.batch));
    if (u.left[0] && n > 0 && n < DEVICE_NOTE)
        snprintf(note + n, DEVICE_NOTE - (size_t)n, "; others on the CPU (%s)", u.left);
}

qsf_status device_use(const device_settings *g, qsf_context *c, char note[DEVICE_NOTE], qsf_error *err)
{
    qsf_devices *found = NULL;
    note[0] = 0;
    if (strcmp(g->device, "gpu") != 0) {
        if (g->gpu_layers >= 0 || g->gpu_memory > 0)
            fprintf(stderr, "%s has no effect here: it needs --device gpu\n",
                    g->gpu_layers >= 0 ? "--gpu-layers" : "--gpu-memory");
        return QSF_OK;
    }
    if (!g->gpu_layers) return QSF_OK;
    qsf_status st = qsf_devices_open(NULL, NULL, &found, err);
    if (st) return st;
    const uint32_t most = g->gpu_layers < 0 ? UINT32_MAX : (uint32_t)g->gpu_layers;
    st = qsf_context_use_device(c, found, 0, most, (uint64_t)(g->gpu_memory * 1e6));
    qsf_devices_close(found);
    if (st == QSF_E_CORRUPT || st == QSF_E_MEMORY || st == QSF_E_IO) {
        /* a defect, a full or a lost GPU: the answer is the same without it */
        fprintf(stderr, "warning: --device gpu: %s; all layers stay on the CPU\n", qsf_last_error(c));
        return QSF_OK;
    }
    if (!st) {
        device_note(c, note);
        return QSF_OK;
    }
    *err = (qsf_error){ .status = st };
    snprintf(err->text, sizeof err->text, "--device gpu: %s", qsf_last_error(c));
    return st;
}

int device_begin(const device_settings *g, qsf_context *context, FILE *log)
{
    char note[DEVICE_NOTE];
    qsf_error err;
    if (device_use(g, context, note, &err)) return report(&err);
    if (log && note[0]) fprintf(log, "%s\n", note);
    return EXIT_OK;
}
