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

static void device_log(qsf_context *c, FILE *log)
{
    qsf_device_use use = { .size = sizeof use };
    if (!log || qsf_context_device(c, &use)) return;
    fprintf(log, "layers %u to %u%s on %s, %llu MB there", (unsigned)use.first,
            (unsigned)(use.first + use.n_layers - 1), use.head ? " and the head" : "", use.name,
            (unsigned long long)(use.bytes / 1000000));
    fprintf(log, use.left[0] ? "; others on the CPU (%s)\n" : "\n", use.left);
}

int device_begin(const common_settings *c, qsf_context *context, FILE *log)
{
    qsf_devices *found = NULL;
    qsf_error err;
    if (strcmp(c->device, "gpu") != 0) {
        if (c->gpu_layers >= 0) fprintf(stderr, "--gpu-layers has no effect here: it needs --device gpu\n");
        return EXIT_OK;
    }
    if (!c->gpu_layers) return EXIT_OK;
    if (qsf_devices_open(NULL, NULL, &found, &err)) return report(&err);
    const uint32_t most = c->gpu_layers < 0 ? UINT32_MAX : (uint32_t)c->gpu_layers;
    const qsf_status st = qsf_context_use_device(context, found, 0, most);
    if (st) err = (qsf_error){ .status = st };
    if (st) snprintf(err.text, sizeof err.text, "--device gpu: %s", qsf_last_error(context));
    else device_log(context, log);
    qsf_devices_close(found);
    return st ? report(&err) : EXIT_OK;
}
