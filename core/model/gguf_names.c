/* A hash table of a file's names, for lookup and for finding duplicates.
 * SPDX-License-Identifier: MIT */
#include "model/gguf.h"

enum { GGUF_MAX_PROBES = 512 };         /* half full, a table of 2^20 names needs about 70 */

static uint32_t gguf_hash(const char *p, size_t len)
{
    const uint64_t h = qsf_fnv1a(QSF_FNV1A, p, len);
    return (uint32_t)(h ^ h >> 32);
}

/* The slot of the name, or the free slot where it belongs.  UINT32_MAX: more names collide than is
 * possible unless the file was crafted. */
static uint32_t gguf_slot(const gguf_names *names, uint32_t hash, const char *p, size_t len)
{
    const uint32_t mask = names->mask;
    uint32_t i = hash & mask;
    for (int probes = 0; names->slots[i]; i = (i + 1) & mask) {
        if (!((names->slots[i] ^ hash) & ~mask)) {
            const gguf_text t = names->list[(names->slots[i] & mask) - 1];
            if (t.len == len && !memcmp(t.p, p, len)) break;
        }
        if (++probes == GGUF_MAX_PROBES) return UINT32_MAX;
    }
    return i;
}

qsf_status qsf_gguf_names(qsf_arena *a, const char *path, const gguf_text *list, uint32_t n, gguf_names *out,
                          int64_t *twice, qsf_error *err)
{
    uint64_t size = 16;
    while (size < 2 * (uint64_t)n) size *= 2;
    *out = (gguf_names){ list, qsf_arena_array(a, size, sizeof *out->slots, "names of a GGUF file", err),
                         (uint32_t)(size - 1) };
    if (twice) *twice = -1;
    if (!out->slots) return QSF_E_MEMORY;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t hash = gguf_hash(list[i].p, list[i].len),
                       slot = gguf_slot(out, hash, list[i].p, list[i].len);
        if (slot == UINT32_MAX)
            return qsf_fail(err, QSF_E_CORRUPT, "%s: %d of its names, \"%.*s\" among them, share one hash: "
                            "the file was crafted to be slow", path, (int)GGUF_MAX_PROBES,
                            (int)QSF_MIN(list[i].len, 80), list[i].p);
        if (!out->slots[slot]) out->slots[slot] = (i + 1) | (hash & ~out->mask);
        else if (twice) *twice = i;
    }
    return QSF_OK;
}

int64_t qsf_gguf_name_find(const gguf_names *names, const char *p, size_t len)
{
    const uint32_t slot = gguf_slot(names, gguf_hash(p, len), p, len);
    return slot == UINT32_MAX ? -1 : (int64_t)(names->slots[slot] & names->mask) - 1;
}
