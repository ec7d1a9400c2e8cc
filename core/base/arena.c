/* Memory that is freed all at once.
 * SPDX-License-Identifier: MIT */
#include "base/arena.h"

enum { ARENA_CHUNK = 64 * 1024, ARENA_HEAD = 64 };

/* The head of every piece of memory from the platform; what it holds begins ARENA_HEAD bytes on,
 * which keeps the 64-byte alignment. */
typedef struct arena_chunk {
    struct arena_chunk *next;
    uint64_t size, used;            /* heads included */
} arena_chunk;

struct qsf_arena {
    const qsf_platform *platform;
    arena_chunk        *chunks;     /* the first is the one with room */
    uint64_t            total;
};

static arena_chunk *arena_grow(const qsf_platform *p, uint64_t size, const char *what, qsf_error *err)
{
    arena_chunk *c = qsf_alloc(p, size, what, err);
    if (!c) return NULL;
    c->size = size;
    c->used = ARENA_HEAD;
    return c;
}

qsf_status qsf_arena_new(const qsf_platform *p, qsf_arena **out, qsf_error *err)
{
    *out = NULL;
    arena_chunk *c = arena_grow(p, ARENA_CHUNK, "a list of memory", err);
    if (!c) return QSF_E_MEMORY;
    /* the arena itself is what its first chunk begins with */
    qsf_arena *a = (qsf_arena *)(void *)((uint8_t *)c + ARENA_HEAD);
    c->used += ARENA_HEAD;
    *a = (qsf_arena){ p, c, c->size };
    *out = a;
    return QSF_OK;
}

void qsf_arena_free(qsf_arena *a)
{
    if (!a) return;
    const qsf_platform *p = a->platform;
    /* the chunk that holds *a is among them */
    for (arena_chunk *c = a->chunks, *next; c; c = next) {
        next = c->next;
        qsf_dealloc(p, c, c->size);
    }
}

void *qsf_arena_alloc(qsf_arena *a, uint64_t size, const char *what, qsf_error *err)
{
    const uint64_t align = size >= 1024 ? 64 : 16;
    arena_chunk *c = a->chunks;
    uint64_t at = qsf_round_up(c->used, align);
    if (at > c->size || size > c->size - at) {
        if (size > UINT64_MAX / 2) {
            qsf_fail(err, QSF_E_MEMORY, "out of memory: %llu bytes for %s", (unsigned long long)size, what);
            return NULL;
        }
        const bool own = size > ARENA_CHUNK / 4;
        if (!(c = arena_grow(a->platform, own ? size + ARENA_HEAD : ARENA_CHUNK, what, err))) return NULL;
        a->total += c->size;
        /* full at once: the first chunk keeps its room */
        if (own) {
            c->next = a->chunks->next;
            a->chunks->next = c;
        } else {
            c->next = a->chunks;
            a->chunks = c;
        }
        at = c->used;
    }
    c->used = at + size;
    return (uint8_t *)c + at;
}

void *qsf_arena_array(qsf_arena *a, uint64_t n, uint64_t size, const char *what, qsf_error *err)
{
    uint64_t bytes;
    if (qsf_mul_u64(n, size, &bytes)) {
        qsf_fail(err, QSF_E_MEMORY, "out of memory: %llu times %llu bytes for %s", (unsigned long long)n,
                 (unsigned long long)size, what);
        return NULL;
    }
    return qsf_arena_alloc(a, bytes, what, err);
}

char *qsf_arena_text(qsf_arena *a, const void *bytes, size_t len, qsf_error *err)
{
    char *text = qsf_arena_alloc(a, (uint64_t)len + 1, "a string", err);
    if (text && len) memcpy(text, bytes, len);
    return text;
}

uint64_t qsf_arena_used(const qsf_arena *a) { return a->total; }
