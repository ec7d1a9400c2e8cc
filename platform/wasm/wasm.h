/* What the files of platform/wasm share: memory, threads and files of a module that JavaScript
 * runs.
 * SPDX-License-Identifier: MIT
 *
 * The module is its own: it brings no run time of a toolchain, and imports only what is declared
 * here (js/transport.js has the other side).  One instance runs one model.  In the variant with
 * threads all instances share a memory, and only the first one runs the engine. */
#ifndef QSF_WASM_H
#define QSF_WASM_H

#include "base/base.h"
#include "base/platform.h"

#define WASM_IMPORT(name) __attribute__((import_module("qsf"), import_name(name)))
#define WASM_EXPORT(name) __attribute__((export_name(name)))

/* ---- imports ---- */
/* Bytes [at, at+len) of the model's files to dst.  QSF_OK: done; QSF_PENDING: *state, now
 * QSF_PENDING, becomes the result later; anything else: failed. */
WASM_IMPORT("read") int wasm_js_read(double at, void *dst, size_t len, uint32_t *state);
/* The read that *state belongs to will no longer touch dst or *state. */
WASM_IMPORT("cancel") void wasm_js_cancel(uint32_t *state);
/* Milliseconds, steady. */
WASM_IMPORT("now") double wasm_js_now(void);
/* The session that is being saved grows by these bytes. */
WASM_IMPORT("save") void wasm_js_save(const void *bytes, size_t len);
/* Bytes [at, at+len) of the session that is being loaded to dst. */
WASM_IMPORT("load") void wasm_js_load(double at, void *dst, size_t len);
/* Where the file with this name begins: of a split model, whose files follow each other, JavaScript
 * gives all as one.  Less than 0: no such file. */
WASM_IMPORT("open") double wasm_js_open(const char *path);
/* Length of the file that begins there. */
WASM_IMPORT("length") double wasm_js_length(double begin);

/* ---- works.c ---- */
extern uint32_t wasm_cpu;           /* QSF_CPU_WASM*, as works() found it */

/* ---- memory.c ---- */
void *wasm_mem_alloc(void *user, size_t size);
void  wasm_mem_free(void *user, void *p, size_t size);

/* ---- crc_table.c ---- */
void wasm_crc_table(void);
void wasm_codebooks(void);
void wasm_unicode(void);

/* ---- file.c ---- */
qsf_status wasm_open(void *user, const char *path, qsf_file **out);
void       wasm_close(void *user, qsf_file *f);
qsf_status wasm_length(void *user, qsf_file *f, uint64_t *out);
qsf_status wasm_read_start(void *user, qsf_file *f, uint64_t at, void *dst, size_t len, qsf_read **out);
qsf_status wasm_read_poll(void *user, qsf_read *r);
qsf_status wasm_read_wait(void *user, qsf_read *r);

/* ---- thread.c ---- */
uint32_t   wasm_cpu_count(void *user);
qsf_status wasm_thread_start(void *user, void (*fn)(void *arg), void *arg, qsf_thread **out);
void       wasm_thread_join(void *user, qsf_thread *t);
void       wasm_wait32(void *user, uint32_t *word, uint32_t expected, uint64_t ns);
void       wasm_wake32(void *user, uint32_t *word, uint32_t count);

#endif
