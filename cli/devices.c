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
        n += snprintf(note + n, DEVICE_NOTE - (size_t)n, "; others on the CPU (%s)", u.left);
    if (u.streamed && n > 0 && n < DEVICE_NOTE)
        n += snprintf(note + n, DEVICE_NOTE - (size_t)n, "; slots %llu MB", device_mb(u.slots));
    if (u.stream[0] && n > 0 && n < DEVICE_NOTE)
        snprintf(note + n, DEVICE_NOTE - (size_t)n, "; %s", u.stream);
}

/* What --device gpu asks for. */
typedef struct device_asked {
    qsf_devices *devices;
    uint32_t     layers;            /* at most */
    uint64_t     memory;
} device_asked;

static qsf_status device_failed(qsf_context *c, qsf_status st, qsf_error *err)
{
    *err = (qsf_error){ .status = st };
    snprintf(err->text, sizeof err->text, "--device gpu: %s", qsf_last_error(c));
    return st;
}

/* The same context with another number of layers whose weights do not stay in memory. */
static qsf_status device_again(qsf_model *m, qsf_context_options *o, uint32_t n, qsf_context **c,
                               qsf_error *err)
{
    if (n == o->device_layers) return QSF_OK;
    qsf_context_free(*c);
    o->device_layers = n;
    return qsf_context_new(m, o, c, err);
}

/* What the GPU will have does not stay in memory, unless a budget says what does, or the head stays
 * on the CPU. */
static qsf_status device_fitting(const device_asked *a, qsf_model *m, qsf_context_options *o,
                                 qsf_context **c, qsf_error *err)
{
    qsf_device_use use = { .size = sizeof use };
    qsf_model_info info = { .size = sizeof info };
    qsf_model_get_info(m, &info);
    o->device_layers = o->ram_budget ? 0 : a->layers < info.n_layers ? a->layers : info.n_layers;
    qsf_status st = qsf_context_new(m, o, c, err);
    if (st || !o->device_layers) return st;
    if ((st = qsf_context_device_fits(*c, a->devices, 0, a->layers, a->memory, &use)))
        return device_failed(*c, st, err);
    return device_again(m, o, use.head ? use.n_layers : 0, c, err);
}

static qsf_status device_move(const device_asked *a, qsf_model *m, qsf_context_options *o, qsf_context **c,
                              char note[DEVICE_NOTE], qsf_error *err)
{
    qsf_status st = device_fitting(a, m, o, c, err);
    if (st) return st;
    if (!(st = qsf_context_use_device(*c, a->devices, 0, a->layers, a->memory))) {
        device_note(*c, note);
        return QSF_OK;
    }
    if (st != QSF_E_CORRUPT && st != QSF_E_MEMORY && st != QSF_E_IO) return device_failed(*c, st, err);
    /* a defect, a full or a lost GPU: the answer is the same without it */
    fprintf(stderr, "warning: --device gpu: %s; all layers stay on the CPU\n", qsf_last_error(*c));
    return device_again(m, o, 0, c, err);
}

qsf_status device_context(const device_settings *g, qsf_model *m, qsf_context_options *o, qsf_context **out,
                          char note[DEVICE_NOTE], qsf_error *err)
{
    device_asked a = { .layers = g->gpu_layers < 0 ? UINT32_MAX : (uint32_t)g->gpu_layers,
                       .memory = (uint64_t)(g->gpu_memory * 1e6) };
    note[0] = 0;
    *out = NULL;
    const bool gpu = !strcmp(g->device, "gpu");
    if (!gpu && (g->gpu_layers >= 0 || g->gpu_memory > 0))
        fprintf(stderr, "%s has no effect here: it needs --device gpu\n",
                g->gpu_layers >= 0 ? "--gpu-layers" : "--gpu-memory");
    if (!gpu || !a.layers) return qsf_context_new(m, o, out, err);
    qsf_status st = qsf_devices_open(NULL, NULL, &a.devices, err);
    if (!st) st = device_move(&a, m, o, out, note, err);
    qsf_devices_close(a.devices);
    if (!st) return QSF_OK;
    qsf_context_free(*out);
    *out = NULL;
    return st;
}
