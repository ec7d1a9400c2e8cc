/* The side module for GPUs (qsf-gpu.wasm): core/device, the shaders' text, and here the device that
 * they use, over functions of JavaScript.  A page fetches it only if it uses a GPU.
 * SPDX-License-Identifier: MIT
 *
 * It is position-independent and shares memory, table and stack with the engine's module, whose
 * functions it calls; js/gpu_module.js links the two, and serves these imports.  Only the engine's
 * own thread has it: the pool's threads must call nothing here.
 *
 * Functions that make something return its number, or 0; the others a qsf_status. */
#ifndef QSF_WASM_GPU_H
#define QSF_WASM_GPU_H

#include "base/device.h"
#include "base/host.h"

#define GPU_IMPORT(name) __attribute__((import_module("gpu"), import_name(name)))
#define GPU_EXPORT(name) __attribute__((export_name(name)))

/* Of the call that failed last: its status, and why. */
GPU_IMPORT("status") int gpu_js_status(void);
GPU_IMPORT("text") void gpu_js_text(char *dst, size_t cap);
/* The device's names, and its kind; its limits in the order of qsf_device_info. */
GPU_IMPORT("names") void gpu_js_names(char *name, size_t name_cap, char *vendor, size_t vendor_cap);
GPU_IMPORT("limits") int gpu_js_limits(double limits[7]);

GPU_IMPORT("buffer") uint32_t gpu_js_buffer(uint32_t usage, double len);
GPU_IMPORT("pipeline") uint32_t gpu_js_pipeline(const char *name, const char *wgsl, const char *entry,
                                                const uint8_t *bindings, uint32_t n);
GPU_IMPORT("group") uint32_t gpu_js_group(uint32_t pipeline, const qsf_device_range *ranges, uint32_t n);
GPU_IMPORT("release") void gpu_js_release(uint32_t id);
GPU_IMPORT("write") int gpu_js_write(uint32_t buffer, double at, const void *src, size_t len);
GPU_IMPORT("copy") int gpu_js_copy(uint32_t to, double to_at, uint32_t from, double from_at, double len);
GPU_IMPORT("submit") int gpu_js_submit(const qsf_device_dispatch *list, size_t n);
GPU_IMPORT("encode") uint32_t gpu_js_encode(const qsf_device_dispatch *list, size_t n);
GPU_IMPORT("submitEncoded") int gpu_js_submit_encoded(uint32_t id);
/* 0 with QSF_PENDING: what needs the bytes has to begin anew, later. */
GPU_IMPORT("read") uint32_t gpu_js_read(uint32_t buffer, double at, void *dst, size_t len);
GPU_IMPORT("poll") int gpu_js_poll(uint32_t id);
GPU_IMPORT("state") int gpu_js_state(void);
GPU_IMPORT("lose") void gpu_js_lose(void);
GPU_IMPORT("close") void gpu_js_close(void);

/* The device that JavaScript has opened.  One at a time. */
qsf_device *gpu_device(void);

#endif
