/* What ranks send to each other, as bytes.
 * SPDX-License-Identifier: MIT
 *
 * The ranks of a job run the same program on processors of one kind (mpirun starts them so), and
 * what is sent is what lies in memory; lengths and numbers are looked at all the same. */
#include "ranks_own.h"

#include <string.h>

static size_t padded(size_t len) { return (len + 7) / 8 * 8; }

size_t part_begin(serve_text *out, rank_kind kind, uint32_t slot, uint64_t number)
{
    const rank_part p = { .kind = (uint32_t)kind, .slot = slot, .number = number };
    const size_t at = out->len;
    text_add(out, (const char *)&p, sizeof p);
    return at;
}

void part_end(serve_text *out, size_t at)
{
    static const char zeros[8];
    if (out->failed) return;
    const uint64_t len = out->len - at - sizeof(rank_part);
    text_add(out, zeros, padded((size_t)len) - (size_t)len);
    if (!out->failed) memcpy(out->bytes + at + offsetof(rank_part, len), &len, sizeof len);
}

bool part_next(const serve_front *f, const unsigned char **at, const unsigned char *end, rank_part *out,
               const unsigned char **bytes)
{
    const size_t left = (size_t)(end - *at);
    if (!left) return false;
    if (left >= sizeof *out) memcpy(out, *at, sizeof *out);
    if (left < sizeof *out || out->len > left - sizeof *out || padded((size_t)out->len) > left - sizeof *out)
        f->set->link->fail("a message from another rank is truncated: do all run the same qsf-serve?");
    *bytes = *at + sizeof *out;
    *at = *bytes + padded((size_t)out->len);
    return true;
}

/* ---- counters and slots ---- */

enum { N_COUNTERS = sizeof(serve_metrics) / sizeof(atomic_ullong) };

size_t state_bytes(const serve_front *f)
{
    return f->set->n_models * (N_COUNTERS * sizeof(uint64_t) + f->set->engine.slots * sizeof(serve_slot));
}

void state_pack(const serve_front *f, unsigned char *to)
{
    const unsigned slots = f->set->engine.slots;
    for (unsigned i = 0; i < f->set->n_models; i++) {
        model_entry *m = models_at(f->models, i);
        atomic_ullong *from = (void *)&m->metrics;
        for (size_t k = 0; k < N_COUNTERS; k++, to += sizeof(uint64_t)) {
            const uint64_t n = metric_get(&from[k]);
            memcpy(to, &n, sizeof n);
        }
        for (unsigned k = 0; k < slots; k++, to += sizeof(serve_slot)) {
            serve_slot s = { 0 };
            if (m->state == MODEL_READY) serve_engine_slot(m->engine, k, &s);
            memcpy(to, &s, sizeof s);
        }
    }
}

void state_unpack(const serve_ranks *r, int rank, const unsigned char *from)
{
    const rank_load *l = &r->loads[rank];
    const unsigned slots = r->front->set->engine.slots;
    for (unsigned i = 0; i < r->front->set->n_models; i++) {
        atomic_ullong *to = (void *)&l->metrics[i];
        for (size_t k = 0; k < N_COUNTERS; k++, from += sizeof(uint64_t)) {
            uint64_t n;
            memcpy(&n, from, sizeof n);
            metric_set(&to[k], n);
        }
        memcpy(l->slots + (size_t)i * slots, from, slots * sizeof(serve_slot));
        from += slots * sizeof(serve_slot);
    }
}
