/* --list-devices: the GPUs, and the library that they come from.
 * SPDX-License-Identifier: MIT */
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
    printf("Models are computed on the processor; GPUs are not used yet.\n");
    qsf_devices_close(found);
    return EXIT_OK;
}
