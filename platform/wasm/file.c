/* The model's files, which JavaScript provides: URLs, files, memory.
 * SPDX-License-Identifier: MIT
 *
 * A source that can be read synchronously (a file in Node.js or in the origin private file system,
 * a Blob, memory) is read at once.  Others answer later: the engine's step then returns
 * QSF_PENDING, JavaScript returns to its event loop and steps again when the bytes have arrived.
 * Nothing here may block on them, since the event loop that delivers them would not run: waiting
 * for such a read ends it with QSF_E_CANCELLED. */
#include "wasm.h"

enum { FILE_READS = 128 };      /* at once; a unit of a GGUF file may need several, and an expert three */

struct qsf_read { uint32_t state; bool taken; };
struct qsf_file {
    double begin;
    qsf_read reads[FILE_READS];
};

qsf_status wasm_open(void *user, const char *path, qsf_file **out)
{
    const double begin = wasm_js_open(path);
    *out = NULL;
    if (begin < 0) return QSF_E_NOT_FOUND;
    *out = wasm_mem_alloc(user, sizeof(qsf_file));
    if (!*out) return QSF_E_MEMORY;
    (*out)->begin = begin;
    return QSF_OK;
}

void wasm_close(void *user, qsf_file *f)
{
    if (!f) return;
    for (int i = 0; i < FILE_READS; i++)
        if (f->reads[i].taken) (void)wasm_read_wait(user, &f->reads[i]);
    wasm_mem_free(user, f, sizeof *f);
}

qsf_status wasm_length(void *user, qsf_file *f, uint64_t *out)
{
    (void)user;
    *out = (uint64_t)wasm_js_length(f->begin);
    return QSF_OK;
}

/* The state is JavaScript's to change, between two calls or from another thread. */
static uint32_t read_state(qsf_read *r) { return __atomic_load_n(&r->state, __ATOMIC_ACQUIRE); }

qsf_status wasm_read_start(void *user, qsf_file *f, uint64_t at, void *dst, size_t len, qsf_read **out)
{
    (void)user;
    *out = NULL;
    qsf_read *r = f->reads;
    while (r < f->reads + FILE_READS && r->taken) r++;
    if (r == f->reads + FILE_READS) return QSF_E_MEMORY;
    r->state = QSF_PENDING;
    const qsf_status st = (qsf_status)wasm_js_read(f->begin + (double)at, dst, len, &r->state);
    if (st && st != QSF_PENDING) return st;
    if (!st) r->state = QSF_OK;
    r->taken = true;
    *out = r;
    return QSF_OK;
}

qsf_status wasm_read_poll(void *user, qsf_read *r)
{
    (void)user;
    const qsf_status st = (qsf_status)read_state(r);
    if (st != QSF_PENDING) r->taken = false;
    return st;
}

qsf_status wasm_read_wait(void *user, qsf_read *r)
{
    const qsf_status st = wasm_read_poll(user, r);
    if (st != QSF_PENDING) return st;
    wasm_js_cancel(&r->state);
    r->taken = false;
    return QSF_E_CANCELLED;
}
