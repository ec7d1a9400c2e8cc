/* Memory of a WebAssembly module: first fit over a list of holes, and the end of the memory, which
 * grows.
 * SPDX-License-Identifier: MIT
 *
 * A library's allocator would have to zero what WebAssembly gives zeroed already: here pages that
 * are never used are never touched, and so never take memory of the machine.  Allocations are few
 * and mostly large, so a list will do.  One thread allocates: the engine's. */
#include "wasm.h"

#include <string.h>

enum { HEAP_ALIGN = 64, HEAP_PAGE = 65536 };

typedef struct heap_hole { size_t size; struct heap_hole *next; } heap_hole;

extern uint8_t __heap_base;         /* where the linker's data ends */

static struct {
    heap_hole *holes;               /* by address; none touches another or the top */
    uintptr_t  top;                 /* everything from here on is free */
    uintptr_t  used;                /* everything from here on is still zero */
} heap;

static size_t heap_round(size_t size) { return (size + HEAP_ALIGN - 1) & ~(size_t)(HEAP_ALIGN - 1); }

static void *heap_from_hole(size_t size)
{
    for (heap_hole **at = &heap.holes; *at; at = &(*at)->next) {
        heap_hole *h = *at;
        if (h->size < size) continue;
        if (h->size == size) {
            *at = h->next;
        } else {
            heap_hole *rest = (heap_hole *)((uint8_t *)h + size);
            *rest = (heap_hole){ h->size - size, h->next };
            *at = rest;
        }
        return memset(h, 0, size);
    }
    return NULL;
}

static void *heap_from_top(size_t size)
{
    if (!heap.top) heap.top = heap.used = heap_round((uintptr_t)&__heap_base);
    const uint64_t end = (uint64_t)heap.top + size,
        have = (uint64_t)__builtin_wasm_memory_size(0) * HEAP_PAGE;
    if (end > SIZE_MAX) return NULL;
    if (end > have && __builtin_wasm_memory_grow(0, (size_t)((end - have + HEAP_PAGE - 1) / HEAP_PAGE))
        == SIZE_MAX)
        return NULL;
    uint8_t *p = (uint8_t *)heap.top;
    if (heap.used > heap.top) memset(p, 0, QSF_MIN(size, heap.used - heap.top));
    heap.top += size;
    heap.used = QSF_MAX(heap.used, heap.top);
    return p;
}

void *wasm_mem_alloc(void *user, size_t size)
{
    (void)user;
    if (size > SIZE_MAX / 2 + SIZE_MAX / 4) return NULL;
    size = heap_round(size ? size : 1);
    void *p = heap_from_hole(size);
    return p ? p : heap_from_top(size);
}

void wasm_mem_free(void *user, void *p, size_t size)
{
    (void)user;
    if (!p) return;
    heap_hole *before = NULL, *h = p;
    *h = (heap_hole){ heap_round(size ? size : 1), heap.holes };
    while (h->next && h->next < h) {
        before = h->next;
        h->next = before->next;
    }
    if (h->next && (uint8_t *)h + h->size == (uint8_t *)h->next) {
        h->size += h->next->size;
        h->next = h->next->next;
    }
    if (before && (uint8_t *)before + before->size == (uint8_t *)h) {
        before->size += h->size;
        before->next = h->next;
        h = before;
    } else if (before) {
        before->next = h;
    } else {
        heap.holes = h;
    }
    if ((uintptr_t)h + h->size != heap.top) return;
    heap.top = (uintptr_t)h;                /* a hole at the end goes back to the heap */
    heap_hole **at = &heap.holes;
    while (*at != h) at = &(*at)->next;
    *at = NULL;
}
