/* A WebGPU library without a GPU, which fails where it is told to: device_fake_test.c loads it in
 * the place of Dawn.  Buffers are memory, writes and copies work, dispatches do nothing.
 * SPDX-License-Identifier: MIT
 *
 * With FAKE_OLD it lacks what webgpu.h got last.
 *
 * FAKE_ROOM: its buffers are large enough for a tiny model. */
#include "fake_webgpu.h"
#include "webgpu_abi.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(_WIN32)
#  define FAKE __declspec(dllexport)
#else
#  define FAKE __attribute__((visibility("default")))
#endif

static int knobs[FAKE_KNOBS];
static int alive;                           /* handles that were given out and not released */
FAKE void fake_webgpu_set(int knob, int value) { knobs[knob] = value; }
FAKE int  fake_webgpu_alive(void) { return alive; }
/* Counts down to the call that fails. */
static int turn(int knob) { return knobs[knob] > 0 && --knobs[knob] == 0; }

/* ---- handles: one struct for all ---- */
typedef struct handle {
    int held;
    unsigned char *bytes;
    uint64_t size;
    int mapping;
    struct handle *device;
    wgpu_on_lost lost;
    wgpu_on_error error;
    int is_lost, scope_error[8], scopes;
} handle;
static void *handle_new(void)
{
    handle *h = calloc(1, sizeof *h);
    h->held = 1;
    alive++;
    return h;
}
static void handle_release(void *p)
{
    handle *h = p;
    if (!h) abort();
    if (--h->held) return;
    free(h->bytes);
    free(h);
    alive--;
}

/* ---- callbacks, called by process_events in their order ---- */
typedef struct event {
    int kind, error, ok;
    wgpu_on_adapter adapter;
    wgpu_on_device device;
    wgpu_on_pipeline pipeline;
    wgpu_on_map map;
    wgpu_on_scope scope;
    handle *of;
} event;
enum { ON_ADAPTER, ON_DEVICE, ON_PIPELINE, ON_MAP, ON_SCOPE, ON_LOST, EVENTS = 1024 };
static event events[EVENTS];
static int n_events;
static uint64_t n_futures;

static wgpu_text text(const char *s) { return (wgpu_text){ s, SIZE_MAX }; }
static wgpu_future push(event e)
{
    if (n_events == EVENTS) abort();
    events[n_events++] = e;
    return (wgpu_future){ ++n_futures };
}

static void deliver(event *e)
{
    const wgpu_text none = { NULL, 0 };
    const wgpu_device no_device = NULL;
    const wgpu_enum status = e->ok ? WGPU_SUCCESS : 3;
    switch (e->kind) {
    case ON_ADAPTER:
        e->adapter.call(status, e->ok ? handle_new() : NULL, text(e->ok ? "" : "no driver"), e->adapter.u1,
                        NULL);
        break;
    case ON_DEVICE:
        e->device.call(status, e->ok ? (wgpu_device)e->of : NULL, text(e->ok ? "" : "the driver is too old"),
                       e->device.u1, NULL);
        if (!e->ok) {                   /* that is a loss, too */
            e->of->lost.call(&no_device, 4, text("no device"), e->of->lost.u1, NULL);
            handle_release(e->of);
        }
        break;
    case ON_PIPELINE:
        e->pipeline.call(status, e->ok ? handle_new() : NULL, none, e->pipeline.u1, e->pipeline.u2);
        break;
    case ON_MAP:
        if (e->of) e->of->mapping = 0;
        e->map.call(status, text(e->ok ? "" : "aborted"), e->map.u1, e->map.u2);
        break;
    case ON_SCOPE:
        e->scope.call(WGPU_SUCCESS, (wgpu_enum)e->error, text(e->error == WGPU_ERROR_MEMORY
            ? "Failed to allocate\n\tmemory" : ""), e->scope.u1, e->scope.u2);
        break;
    default: {
        const wgpu_device d = (wgpu_device)e->of;
        e->of->lost.call(&d, 1, text("the driver was reset"), e->of->lost.u1, NULL);
    }
    }
}

FAKE void wgpuInstanceProcessEvents(wgpu_instance i)
{
    (void)i;
    event due[EVENTS];
    int n = 0, kept = 0;
    for (int k = 0; k < n_events; k++) {
        const int late = knobs[FAKE_SILENT] && (events[k].kind == ON_MAP || events[k].kind == ON_PIPELINE)
            && events[k].ok;
        if (late) events[kept++] = events[k];
        else due[n++] = events[k];
    }
    n_events = kept;
    for (int k = 0; k < n; k++) deliver(&due[k]);
}

/* ---- instance, adapter, device ---- */
#if !defined(FAKE_OLD)
FAKE wgpu_enum wgpuGetInstanceLimits(void *limits) { (void)limits; return WGPU_SUCCESS; }
#endif
FAKE wgpu_bool wgpuHasInstanceFeature(wgpu_enum f) { return f == WGPU_FEATURE_TIMED_WAIT; }
FAKE wgpu_instance wgpuCreateInstance(const wgpu_instance_options *o) { (void)o; return handle_new(); }
FAKE void wgpuInstanceRelease(wgpu_instance i) { handle_release(i); }
FAKE wgpu_enum wgpuInstanceWaitAny(wgpu_instance i, size_t n, wgpu_wait *w, uint64_t ns)
{
    (void)i, (void)n, (void)w, (void)ns;
    return 2;                                           /* timed out */
}
FAKE wgpu_future wgpuInstanceRequestAdapter(wgpu_instance i, const wgpu_adapter_options *o, wgpu_on_adapter c)
{
    (void)i;
    return push((event){ .kind = ON_ADAPTER, .ok = !knobs[FAKE_NO_ADAPTER] && !o->fallback, .adapter = c });
}
FAKE wgpu_enum wgpuAdapterGetInfo(wgpu_adapter a, wgpu_adapter_info *out)
{
    (void)a;
    out->vendor = text("nobody");
    out->device = text("Fake\tGPU\x1b[31m");
    out->backend = 6;
    out->kind = WGPU_ADAPTER_INTEGRATED;
    return WGPU_SUCCESS;
}
FAKE void wgpuAdapterInfoFreeMembers(wgpu_adapter_info i) { (void)i; }
static wgpu_enum limits_of(wgpu_limits *l)
{
    const int room = getenv("FAKE_ROOM") ? 5 : 0;
    l->buffer = 1 << (20 + room);
    l->storage_binding = 1 << (19 + room);
    l->storage_buffers = 8;
    l->storage_align = l->uniform_align = 256;
    l->invocations = l->workgroup_x = 256;
    l->workgroup_bytes = 16384;
    l->workgroups = 65535;
    return WGPU_SUCCESS;
}
FAKE wgpu_enum wgpuAdapterGetLimits(wgpu_adapter a, wgpu_limits *l) { (void)a; return limits_of(l); }
FAKE void wgpuAdapterRelease(wgpu_adapter a) { handle_release(a); }
FAKE wgpu_future wgpuAdapterRequestDevice(wgpu_adapter a, const wgpu_device_options *o, wgpu_on_device c)
{
    (void)a;
    const event e = { .kind = ON_DEVICE, .ok = !knobs[FAKE_NO_DEVICE], .device = c, .of = handle_new() };
    e.of->lost = o->lost;
    e.of->error = o->error;
    return push(e);
}
FAKE wgpu_enum wgpuDeviceGetLimits(wgpu_device d, wgpu_limits *l) { (void)d; return limits_of(l); }
FAKE wgpu_queue wgpuDeviceGetQueue(wgpu_device d)
{
    handle *q = handle_new();
    q->device = (handle *)d;
    return (wgpu_queue)q;
}
/* As Dawn does: all that is outstanding ends with an error. */
static void lose(handle *d)
{
    if (d->is_lost) return;
    d->is_lost = 1;
    for (int k = 0; k < n_events; k++) {
        if (events[k].kind == ON_MAP || events[k].kind == ON_PIPELINE) events[k].ok = 0;
    }
    push((event){ .kind = ON_LOST, .of = d });
}
FAKE void wgpuDeviceDestroy(wgpu_device d) { lose((handle *)d); wgpuInstanceProcessEvents(NULL); }
FAKE void wgpuDeviceRelease(wgpu_device d) { handle_release(d); }
FAKE void wgpuDevicePushErrorScope(wgpu_device device, wgpu_enum filter)
{
    handle *d = (handle *)device;
    (void)filter;
    d->scope_error[d->scopes++] = WGPU_ERROR_NONE;
}
FAKE wgpu_future wgpuDevicePopErrorScope(wgpu_device device, wgpu_on_scope c)
{
    handle *d = (handle *)device;
    if (!d->scopes) abort();
    return push((event){ .kind = ON_SCOPE, .error = d->scope_error[--d->scopes], .scope = c });
}

/* ---- objects ---- */
FAKE wgpu_buffer wgpuDeviceCreateBuffer(wgpu_device device, const wgpu_buffer_options *o)
{
    handle *d = (handle *)device, *b = handle_new();
    b->bytes = calloc(1, (size_t)o->size);
    b->size = o->size;
    if (turn(FAKE_FULL)) {
        if (d->scopes) d->scope_error[d->scopes - 1] = WGPU_ERROR_MEMORY;
        else d->error.call(&device, WGPU_ERROR_MEMORY, text("no memory for a buffer"), d->error.u1, NULL);
    }
    return (wgpu_buffer)b;
}
FAKE void wgpuBufferDestroy(wgpu_buffer buffer)
{
    for (int k = 0; k < n_events; k++) {
        if (events[k].kind != ON_MAP || events[k].of != (handle *)buffer) continue;
        events[k].ok = 0;
        events[k].of = NULL;
    }
}
FAKE void wgpuBufferRelease(wgpu_buffer b) { wgpuBufferDestroy(b); handle_release(b); }
FAKE wgpu_future wgpuBufferMapAsync(wgpu_buffer b, wgpu_flags mode, size_t at, size_t len, wgpu_on_map c)
{
    (void)mode, (void)at, (void)len;
    if (((handle *)b)->mapping++) abort();              /* the device must not use it twice */
    return push((event){ .kind = ON_MAP, .ok = 1, .map = c, .of = (handle *)b });
}
FAKE const void *wgpuBufferGetConstMappedRange(wgpu_buffer b, size_t at, size_t len)
{
    (void)len;
    return ((handle *)b)->bytes + at;
}
FAKE void wgpuBufferUnmap(wgpu_buffer b) { (void)b; }
#define CREATE(name, type, options) \
    FAKE type name(wgpu_device d, const options *o) { (void)d, (void)o; return handle_new(); }
CREATE(wgpuDeviceCreateShaderModule, wgpu_module, wgpu_module_options)
CREATE(wgpuDeviceCreateBindGroupLayout, wgpu_layout, wgpu_layout_options)
CREATE(wgpuDeviceCreatePipelineLayout, wgpu_pipeline_layout, wgpu_pipeline_layout_options)
CREATE(wgpuDeviceCreateComputePipeline, wgpu_pipeline, wgpu_pipeline_options)
CREATE(wgpuDeviceCreateBindGroup, wgpu_group, wgpu_group_options)
CREATE(wgpuDeviceCreateCommandEncoder, wgpu_encoder, wgpu_encoder_options)
FAKE wgpu_future wgpuDeviceCreateComputePipelineAsync(wgpu_device d, const wgpu_pipeline_options *o,
                                                      wgpu_on_pipeline c)
{
    (void)d, (void)o;
    return push((event){ .kind = ON_PIPELINE, .ok = 1, .pipeline = c });
}
#define RELEASE(name, type) FAKE void name(type h) { handle_release(h); }
RELEASE(wgpuShaderModuleRelease, wgpu_module)
RELEASE(wgpuBindGroupLayoutRelease, wgpu_layout)
RELEASE(wgpuPipelineLayoutRelease, wgpu_pipeline_layout)
RELEASE(wgpuComputePipelineRelease, wgpu_pipeline)
RELEASE(wgpuBindGroupRelease, wgpu_group)
RELEASE(wgpuCommandEncoderRelease, wgpu_encoder)
RELEASE(wgpuComputePassEncoderRelease, wgpu_pass)
RELEASE(wgpuCommandBufferRelease, wgpu_commands)
RELEASE(wgpuQueueRelease, wgpu_queue)

/* ---- commands: run when they are encoded ---- */
FAKE wgpu_pass wgpuCommandEncoderBeginComputePass(wgpu_encoder e, const void *o)
{
    (void)e, (void)o;
    return handle_new();
}
FAKE void wgpuCommandEncoderCopyBufferToBuffer(wgpu_encoder e, wgpu_buffer from, uint64_t from_at,
                                               wgpu_buffer to, uint64_t to_at, uint64_t len)
{
    (void)e;
    memcpy(((handle *)to)->bytes + to_at, ((handle *)from)->bytes + from_at, (size_t)len);
}
FAKE wgpu_commands wgpuCommandEncoderFinish(wgpu_encoder e, const void *o)
{
    (void)e, (void)o;
    return handle_new();
}
FAKE void wgpuComputePassEncoderSetPipeline(wgpu_pass p, wgpu_pipeline l) { if (!p || !l) abort(); }
FAKE void wgpuComputePassEncoderSetBindGroup(wgpu_pass p, uint32_t i, wgpu_group g, size_t n,
                                             const uint32_t *o)
{
    (void)i, (void)n, (void)o;
    if (!p || !g) abort();
}
FAKE void wgpuComputePassEncoderDispatchWorkgroups(wgpu_pass p, uint32_t x, uint32_t y, uint32_t z)
{
    (void)p, (void)x, (void)y, (void)z;
}
FAKE void wgpuComputePassEncoderEnd(wgpu_pass p) { (void)p; }
FAKE void wgpuQueueSubmit(wgpu_queue queue, size_t n, const wgpu_commands *c)
{
    handle *d = ((handle *)queue)->device;
    const wgpu_device device = (wgpu_device)d;
    (void)n, (void)c;
    if (turn(FAKE_REFUSE))
        d->error.call(&device, WGPU_ERROR_VALIDATION, text("not like this"), d->error.u1, NULL);
    if (turn(FAKE_LOSE)) lose(d);
}
FAKE void wgpuQueueWriteBuffer(wgpu_queue q, wgpu_buffer b, uint64_t at, const void *src, size_t len)
{
    (void)q;
    memcpy(((handle *)b)->bytes + at, src, len);
}
