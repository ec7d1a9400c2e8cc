/* The files of models that JavaScript reads (URLs, blobs, buffers), sessions and adapters: what
 * platform/wasm/file.c and engine.c do for a module.
 * SPDX-License-Identifier: MIT
 *
 * A read that cannot be answered at once is answered later, between two calls, through the block
 * that it was lent.  Nothing may wait for it, since the event loop that brings the bytes would not
 * run: waiting ends it with QSF_E_CANCELLED. */
#include "node.h"

enum { NODE_READS = 128 };      /* at once: see platform/wasm/file.c */

struct qsf_read { double at; qsf_status state; bool is_taken; };
struct qsf_file { double begin; qsf_read reads[NODE_READS]; };

static void file_close(void *user, qsf_file *f);

static qsf_status file_open(void *user, const char *path, qsf_file **out)
{
    double begin;
    *out = NULL;
    if (!node_js(user, NODE_OPEN, path, NULL, 0, &begin) || !(begin >= 0)) return QSF_E_NOT_FOUND;
    *out = qsf_flat_alloc(NULL, sizeof **out);
    if (!*out) return QSF_E_MEMORY;
    (*out)->begin = begin;
    return QSF_OK;
}

static qsf_status file_length(void *user, qsf_file *f, uint64_t *out)
{
    double length;
    if (!node_js(user, NODE_LENGTH, NULL, &f->begin, 1, &length)
        || !(length >= 0 && length < 9007199254740992.0))
        return QSF_E_IO;
    *out = (uint64_t)length;
    return QSF_OK;
}

static qsf_status read_start(void *user, qsf_file *f, uint64_t at, void *dst, size_t len, qsf_read **out)
{
    node_engine *e = user;
    *out = NULL;
    qsf_read *r = f->reads;
    while (r < f->reads + NODE_READS && r->is_taken) r++;
    const double block = r == f->reads + NODE_READS ? 0 : node_block_add(e, dst, len);
    if (!block) return QSF_E_MEMORY;
    size_t offset;
    node_block_at(e, block, &offset)->read = r;
    *r = (qsf_read){ .at = block, .state = QSF_PENDING, .is_taken = true };
    const double given[4] = { f->begin + (double)at, block, (double)len, block };
    double status;
    if (!node_js(e, NODE_READ, NULL, given, 4, &status)) status = QSF_E_IO;
    if (status == QSF_PENDING) {
        *out = r;
        return QSF_OK;
    }
    node_block_remove(e, block, false);
    r->is_taken = status == QSF_OK;
    r->state = QSF_OK;
    if (status == QSF_OK) *out = r;
    return status == QSF_OK ? QSF_OK : QSF_E_IO;
}

static qsf_status read_poll(void *user, qsf_read *r)
{
    (void)user;
    if (r->state != QSF_PENDING) r->is_taken = false;
    return r->state;
}

static qsf_status read_wait(void *user, qsf_read *r)
{
    const qsf_status st = read_poll(user, r);
    if (st != QSF_PENDING) return st;
    node_block_remove(user, r->at, false);
    (void)node_js(user, NODE_CANCEL, NULL, &r->at, 1, NULL);
    r->is_taken = false;
    return QSF_E_CANCELLED;
}

static void file_close(void *user, qsf_file *f)
{
    if (!f) return;
    for (int i = 0; i < NODE_READS; i++)
        if (f->reads[i].is_taken) (void)read_wait(user, &f->reads[i]);
    qsf_flat_dealloc(f, sizeof *f);
}

bool node_read_end(node_engine *e, double at, int32_t status)
{
    size_t offset;
    const node_block *b = node_block_at(e, at, &offset);
    if (!b || offset || !b->read) return false;
    b->read->state = status == QSF_OK ? QSF_OK : QSF_E_IO;
    node_block_remove(e, at, false);
    return true;
}

void node_platform_init(node_engine *e)
{
    e->platform = *qsf_platform_native();
    e->platform.user = e;       /* the system's own functions do not look at it */
    e->platform.open = file_open;
    e->platform.close = file_close;
    e->platform.length = file_length;
    e->platform.read_start = read_start;
    e->platform.read_poll = read_poll;
    e->platform.read_wait = read_wait;
    e->platform.reads_cross_threads = false;
    e->platform.cached = NULL;
    e->platform.read_by = NULL;
    e->platform.same = NULL;
    e->platform.why = NULL;
}

/* ---- sessions and adapters ---- */

static qsf_status js_put(void *user, const void *bytes, size_t len)
{
    const double block = node_block_add(user, (uint8_t *)(uintptr_t)bytes, len);
    if (!block) return QSF_E_MEMORY;
    const double given[2] = { block, (double)len };
    const bool done = node_js(user, NODE_SAVE, NULL, given, 2, NULL);
    node_block_remove(user, block, false);
    return done ? QSF_OK : QSF_E_IO;
}

static qsf_status js_get(void *user, uint64_t at, void *dst, size_t len)
{
    const double block = node_block_add(user, dst, len);
    if (!block) return QSF_E_MEMORY;
    const double given[3] = { (double)at, block, (double)len };
    const bool done = node_js(user, NODE_LOAD, NULL, given, 3, NULL);
    node_block_remove(user, block, false);
    return done ? QSF_OK : QSF_E_IO;
}

int32_t node_session_save(node_engine *e, uint32_t conversation)
{
    return qsf_flat_session_save(conversation, js_put, e);
}
int32_t node_session_load(node_engine *e, uint32_t conversation, double len)
{
    return qsf_flat_session_load(conversation, (uint64_t)len, js_get, e);
}
int32_t node_adapter_load(node_engine *e, uint32_t adapter, const char *name, double len)
{
    const int32_t st = qsf_flat_file(adapter, (uint64_t)len, js_get, e);
    return st ? st : qsf_flat_adapter_open(adapter, name);
}
