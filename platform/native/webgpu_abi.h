/* The part of webgpu.h that device_webgpu.c uses, written from its specification
 * (webgpu-native.github.io) in the form that was declared stable in 2025: string views, futures,
 * instance limits.  No library's header is needed to build, and none is linked.
 * SPDX-License-Identifier: MIT
 *
 * Names are the specification's without "WGPU", in our spelling.  Members that are never set are
 * there for their place. */
#ifndef QSF_WEBGPU_ABI_H
#define QSF_WEBGPU_ABI_H

#include <stddef.h>
#include <stdint.h>

/* Handles.  A library counts references; release gives one back. */
typedef struct wgpu_instance_impl *wgpu_instance;
typedef struct wgpu_adapter_impl  *wgpu_adapter;
typedef struct wgpu_device_impl   *wgpu_device;
typedef struct wgpu_queue_impl    *wgpu_queue;
typedef struct wgpu_buffer_impl   *wgpu_buffer;
typedef struct wgpu_module_impl   *wgpu_module;
typedef struct wgpu_pipeline_impl *wgpu_pipeline;
typedef struct wgpu_layout_impl   *wgpu_layout;             /* of bind groups */
typedef struct wgpu_pipeline_layout_impl *wgpu_pipeline_layout;
typedef struct wgpu_group_impl    *wgpu_group;
typedef struct wgpu_encoder_impl  *wgpu_encoder;
typedef struct wgpu_pass_impl     *wgpu_pass;
typedef struct wgpu_commands_impl *wgpu_commands;

typedef uint32_t wgpu_bool;
typedef uint32_t wgpu_enum;
typedef uint64_t wgpu_flags;
typedef struct wgpu_future { uint64_t id; } wgpu_future;
typedef struct wgpu_text { const char *data; size_t len; } wgpu_text;       /* len SIZE_MAX: up to its 0 */
typedef struct wgpu_chain { struct wgpu_chain *next; wgpu_enum type; } wgpu_chain;

enum {
    WGPU_SUCCESS = 1,                       /* of every status */
    WGPU_CALLBACK_WAIT_OR_EVENTS = 2,       /* in wgpuInstanceProcessEvents and wgpuInstanceWaitAny */
    WGPU_CALLBACK_ANY_TIME = 3,
    WGPU_ERROR_NONE = 1, WGPU_ERROR_VALIDATION = 2, WGPU_ERROR_MEMORY = 3, WGPU_ERROR_INTERNAL = 4,
    WGPU_FILTER_VALIDATION = 1, WGPU_FILTER_MEMORY = 2,
    WGPU_ADAPTER_DISCRETE = 1, WGPU_ADAPTER_INTEGRATED = 2, WGPU_ADAPTER_CPU = 3,
    WGPU_POWER_LOW = 1, WGPU_POWER_HIGH = 2,
    WGPU_LEVEL_CORE = 2,
    WGPU_BINDING_UNIFORM = 2, WGPU_BINDING_STORAGE = 3, WGPU_BINDING_READ_ONLY = 4,
    WGPU_FEATURE_TIMED_WAIT = 1,            /* of an instance */
    WGPU_TYPE_WGSL = 2,                     /* of a chain */
    WGPU_MAP_READ = 1,
    WGPU_STAGE_COMPUTE = 4,
    WGPU_USAGE_MAP_READ = 1, WGPU_USAGE_COPY_FROM = 4, WGPU_USAGE_COPY_TO = 8, WGPU_USAGE_UNIFORM = 0x40,
    WGPU_USAGE_STORAGE = 0x80
};
#define WGPU_LIMIT_U32 UINT32_MAX           /* a limit that is not asked for: its default */
#define WGPU_LIMIT_U64 UINT64_MAX

typedef struct wgpu_instance_options {
    wgpu_chain *next;
    size_t n_features;
    const wgpu_enum *features;
    const void *limits;
} wgpu_instance_options;

typedef struct wgpu_adapter_options {
    wgpu_chain *next;
    wgpu_enum level, power;
    wgpu_bool fallback;
    wgpu_enum backend;
    void *surface;
} wgpu_adapter_options;

typedef struct wgpu_adapter_info {
    wgpu_chain *next;
    wgpu_text vendor, architecture, device, description;
    wgpu_enum backend, kind;
    uint32_t vendor_id, device_id, subgroup_least, subgroup_most;
} wgpu_adapter_info;

typedef struct wgpu_limits {
    wgpu_chain *next;
    uint32_t texture_1d, texture_2d, texture_3d, texture_layers;
    uint32_t groups, groups_and_vertex_buffers, bindings_of_group;
    uint32_t dynamic_uniform, dynamic_storage;
    uint32_t sampled_textures, samplers, storage_buffers, storage_textures, uniform_buffers;
    uint64_t uniform_binding, storage_binding;
    uint32_t uniform_align, storage_align, vertex_buffers;
    uint64_t buffer;
    uint32_t vertex_attributes, vertex_stride, inter_stage, color_attachments, color_bytes;
    uint32_t workgroup_bytes, invocations, workgroup_x, workgroup_y, workgroup_z, workgroups;
    uint32_t immediates;
} wgpu_limits;

/* Callbacks: a mode, the function and two pointers for it. */
typedef void (*wgpu_adapter_fn)(wgpu_enum status, wgpu_adapter a, wgpu_text why, void *u1, void *u2);
typedef void (*wgpu_device_fn)(wgpu_enum status, wgpu_device d, wgpu_text why, void *u1, void *u2);
typedef void (*wgpu_pipeline_fn)(wgpu_enum status, wgpu_pipeline p, wgpu_text why, void *u1, void *u2);
typedef void (*wgpu_map_fn)(wgpu_enum status, wgpu_text why, void *u1, void *u2);
typedef void (*wgpu_scope_fn)(wgpu_enum status, wgpu_enum type, wgpu_text why, void *u1, void *u2);
typedef void (*wgpu_lost_fn)(const wgpu_device *d, wgpu_enum reason, wgpu_text why, void *u1, void *u2);
typedef void (*wgpu_error_fn)(const wgpu_device *d, wgpu_enum type, wgpu_text why, void *u1, void *u2);
#define WGPU_CALLBACK(name, fn) \
    typedef struct name { wgpu_chain *next; wgpu_enum mode; fn call; void *u1, *u2; } name
WGPU_CALLBACK(wgpu_on_adapter, wgpu_adapter_fn);
WGPU_CALLBACK(wgpu_on_device, wgpu_device_fn);
WGPU_CALLBACK(wgpu_on_pipeline, wgpu_pipeline_fn);
WGPU_CALLBACK(wgpu_on_map, wgpu_map_fn);
WGPU_CALLBACK(wgpu_on_scope, wgpu_scope_fn);
WGPU_CALLBACK(wgpu_on_lost, wgpu_lost_fn);
typedef struct wgpu_on_error { wgpu_chain *next; wgpu_error_fn call; void *u1, *u2; } wgpu_on_error;
typedef struct wgpu_wait { wgpu_future future; wgpu_bool done; } wgpu_wait;

typedef struct wgpu_queue_options { wgpu_chain *next; wgpu_text label; } wgpu_queue_options;
typedef struct wgpu_device_options {
    wgpu_chain *next;
    wgpu_text label;
    size_t n_features;
    const wgpu_enum *features;
    const wgpu_limits *limits;
    wgpu_queue_options queue;
    wgpu_on_lost lost;
    wgpu_on_error error;
} wgpu_device_options;

typedef struct wgpu_buffer_options {
    wgpu_chain *next;
    wgpu_text label;
    wgpu_flags usage;
    uint64_t size;
    wgpu_bool mapped;
} wgpu_buffer_options;

typedef struct wgpu_wgsl { wgpu_chain chain; wgpu_text code; } wgpu_wgsl;
typedef struct wgpu_module_options { wgpu_chain *next; wgpu_text label; } wgpu_module_options;

typedef struct wgpu_layout_entry {
    wgpu_chain *next;
    uint32_t binding;
    wgpu_flags visible;
    uint32_t array;
    struct { wgpu_chain *next; wgpu_enum type; wgpu_bool dynamic; uint64_t least; } buffer;
    struct { wgpu_chain *next; wgpu_enum type; } sampler;
    struct { wgpu_chain *next; wgpu_enum type, view; wgpu_bool samples; } texture;
    struct { wgpu_chain *next; wgpu_enum access, format, view; } storage_texture;
} wgpu_layout_entry;
typedef struct wgpu_layout_options {
    wgpu_chain *next;
    wgpu_text label;
    size_t n;
    const wgpu_layout_entry *entries;
} wgpu_layout_options;
typedef struct wgpu_pipeline_layout_options {
    wgpu_chain *next;
    wgpu_text label;
    size_t n;
    const wgpu_layout *layouts;
    uint32_t immediates;
} wgpu_pipeline_layout_options;
typedef struct wgpu_pipeline_options {
    wgpu_chain *next;
    wgpu_text label;
    wgpu_pipeline_layout layout;
    struct {
        wgpu_chain *next;
        wgpu_module module;
        wgpu_text entry;
        size_t n;
        const void *constants;
    } compute;
} wgpu_pipeline_options;
typedef struct wgpu_group_entry {
    wgpu_chain *next;
    uint32_t binding;
    wgpu_buffer buffer;
    uint64_t at, size;
    void *sampler, *view;
} wgpu_group_entry;
typedef struct wgpu_group_options {
    wgpu_chain *next;
    wgpu_text label;
    wgpu_layout layout;
    size_t n;
    const wgpu_group_entry *entries;
} wgpu_group_options;
typedef struct wgpu_encoder_options { wgpu_chain *next; wgpu_text label; } wgpu_encoder_options;

/* The functions: X(member, name in the library, result, arguments).  A library without one of them
 * is refused.  The first two came last into webgpu.h, so they show that the structs are those
 * above. */
#define WGPU_FUNCTIONS(X)                                                                                    \
    X(instance_limits, "wgpuGetInstanceLimits", wgpu_enum, (void *))                                         \
    X(instance_feature, "wgpuHasInstanceFeature", wgpu_bool, (wgpu_enum))                                    \
    X(create_instance, "wgpuCreateInstance", wgpu_instance, (const wgpu_instance_options *))                 \
    X(process_events, "wgpuInstanceProcessEvents", void, (wgpu_instance))                                    \
    X(wait_any, "wgpuInstanceWaitAny", wgpu_enum, (wgpu_instance, size_t, wgpu_wait *, uint64_t))            \
    X(release_instance, "wgpuInstanceRelease", void, (wgpu_instance))                                        \
    X(request_adapter, "wgpuInstanceRequestAdapter", wgpu_future,                                            \
      (wgpu_instance, const wgpu_adapter_options *, wgpu_on_adapter))                                        \
    X(adapter_info, "wgpuAdapterGetInfo", wgpu_enum, (wgpu_adapter, wgpu_adapter_info *))                    \
    X(free_info, "wgpuAdapterInfoFreeMembers", void, (wgpu_adapter_info))                                    \
    X(adapter_limits, "wgpuAdapterGetLimits", wgpu_enum, (wgpu_adapter, wgpu_limits *))                      \
    X(release_adapter, "wgpuAdapterRelease", void, (wgpu_adapter))                                           \
    X(request_device, "wgpuAdapterRequestDevice", wgpu_future,                                               \
      (wgpu_adapter, const wgpu_device_options *, wgpu_on_device))                                           \
    X(device_limits, "wgpuDeviceGetLimits", wgpu_enum, (wgpu_device, wgpu_limits *))                         \
    X(device_queue, "wgpuDeviceGetQueue", wgpu_queue, (wgpu_device))                                         \
    X(destroy_device, "wgpuDeviceDestroy", void, (wgpu_device))                                              \
    X(release_device, "wgpuDeviceRelease", void, (wgpu_device))                                              \
    X(push_scope, "wgpuDevicePushErrorScope", void, (wgpu_device, wgpu_enum))                                \
    X(pop_scope, "wgpuDevicePopErrorScope", wgpu_future, (wgpu_device, wgpu_on_scope))                       \
    X(create_buffer, "wgpuDeviceCreateBuffer", wgpu_buffer, (wgpu_device, const wgpu_buffer_options *))      \
    X(create_module, "wgpuDeviceCreateShaderModule", wgpu_module,                                            \
      (wgpu_device, const wgpu_module_options *))                                                            \
    X(create_layout, "wgpuDeviceCreateBindGroupLayout", wgpu_layout,                                         \
      (wgpu_device, const wgpu_layout_options *))                                                            \
    X(create_pipeline_layout, "wgpuDeviceCreatePipelineLayout", wgpu_pipeline_layout,                        \
      (wgpu_device, const wgpu_pipeline_layout_options *))                                                   \
    X(create_pipeline, "wgpuDeviceCreateComputePipeline", wgpu_pipeline,                                     \
      (wgpu_device, const wgpu_pipeline_options *))                                                          \
    X(create_pipeline_async, "wgpuDeviceCreateComputePipelineAsync", wgpu_future,                            \
      (wgpu_device, const wgpu_pipeline_options *, wgpu_on_pipeline))                                        \
    X(create_group, "wgpuDeviceCreateBindGroup", wgpu_group, (wgpu_device, const wgpu_group_options *))      \
    X(create_encoder, "wgpuDeviceCreateCommandEncoder", wgpu_encoder,                                        \
      (wgpu_device, const wgpu_encoder_options *))                                                           \
    X(begin_pass, "wgpuCommandEncoderBeginComputePass", wgpu_pass, (wgpu_encoder, const void *))             \
    X(copy, "wgpuCommandEncoderCopyBufferToBuffer", void,                                                    \
      (wgpu_encoder, wgpu_buffer, uint64_t, wgpu_buffer, uint64_t, uint64_t))                                \
    X(finish, "wgpuCommandEncoderFinish", wgpu_commands, (wgpu_encoder, const void *))                       \
    X(release_encoder, "wgpuCommandEncoderRelease", void, (wgpu_encoder))                                    \
    X(set_pipeline, "wgpuComputePassEncoderSetPipeline", void, (wgpu_pass, wgpu_pipeline))                   \
    X(set_group, "wgpuComputePassEncoderSetBindGroup", void,                                                 \
      (wgpu_pass, uint32_t, wgpu_group, size_t, const uint32_t *))                                           \
    X(dispatch, "wgpuComputePassEncoderDispatchWorkgroups", void, (wgpu_pass, uint32_t, uint32_t, uint32_t)) \
    X(end_pass, "wgpuComputePassEncoderEnd", void, (wgpu_pass))                                              \
    X(release_pass, "wgpuComputePassEncoderRelease", void, (wgpu_pass))                                      \
    X(submit, "wgpuQueueSubmit", void, (wgpu_queue, size_t, const wgpu_commands *))                          \
    X(write, "wgpuQueueWriteBuffer", void, (wgpu_queue, wgpu_buffer, uint64_t, const void *, size_t))        \
    X(release_queue, "wgpuQueueRelease", void, (wgpu_queue))                                                 \
    X(release_commands, "wgpuCommandBufferRelease", void, (wgpu_commands))                                   \
    X(map, "wgpuBufferMapAsync", wgpu_future, (wgpu_buffer, wgpu_flags, size_t, size_t, wgpu_on_map))        \
    X(mapped, "wgpuBufferGetConstMappedRange", const void *, (wgpu_buffer, size_t, size_t))                  \
    X(unmap, "wgpuBufferUnmap", void, (wgpu_buffer))                                                         \
    X(destroy_buffer, "wgpuBufferDestroy", void, (wgpu_buffer))                                              \
    X(release_buffer, "wgpuBufferRelease", void, (wgpu_buffer))                                              \
    X(release_module, "wgpuShaderModuleRelease", void, (wgpu_module))                                        \
    X(release_layout, "wgpuBindGroupLayoutRelease", void, (wgpu_layout))                                     \
    X(release_pipeline_layout, "wgpuPipelineLayoutRelease", void, (wgpu_pipeline_layout))                    \
    X(release_pipeline, "wgpuComputePipelineRelease", void, (wgpu_pipeline))                                 \
    X(release_group, "wgpuBindGroupRelease", void, (wgpu_group))

typedef struct wgpu_functions {
#define X(member, name, result, arguments) result (*member) arguments;
    WGPU_FUNCTIONS(X)
#undef X
    /* wgpu-native's own; NULL in Dawn.  There some functions of webgpu.h end the program because
     * they are not written yet: those for waiting and for pipelines in the background. */
    wgpu_bool (*poll)(wgpu_device, wgpu_bool wait, const uint64_t *submission);
} wgpu_functions;

#endif
