/* Adapters in memory, as products take their numbers.
 * SPDX-License-Identifier: MIT */
#include "model/adapter.h"

#include "base/sized.h"
#include "model/lora_file.h"
#include "model/part.h"
#include "model/roles.h"

enum { LORA_ROWS = 256 };       /* of a batch, in what bytes says */

typedef struct adapter_reader {
    qsf_adapter  *a;
    qsf_lora_file f;
    uint64_t      hash;         /* of what is scaled by how much */
} adapter_reader;

/* ---- as products take them ---- */

/* Numbers times the power of two that makes the largest one more than 2^13; *by is multiplied with
 * its inverse.  Then what fp16 leaves of a number is an fp16 number, too, or hardly anything. */
static void enlarge(float *v, uint64_t n, float *by)
{
    float most = 0, times = 1;
    for (uint64_t i = 0; i < n; i++) most = QSF_MAX(most, v[i] < 0 ? -v[i] : v[i]);
    while (most > 0 && most * times < 8192 && times < 0x1p60f) times *= 2;
    while (most * times >= 16384) times /= 2;
    for (uint64_t i = 0; i < n; i++) v[i] *= times;
    *by /= times;
}

static uint32_t lora_planes(const float *v, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        if (qsf_f16_to_f32(qsf_f32_to_f16(v[i])) != v[i]) return 2;
    return 1;
}

/* v in planes that lie `apart`, at place i of each. */
static void put_planes(uint16_t *to, size_t i, size_t apart, uint32_t planes, float v)
{
    to[i] = qsf_f32_to_f16(v);
    if (planes > 1) to[apart + i] = qsf_f32_to_f16(v - qsf_f16_to_f32(to[i]));
}

static const void *keep_rows(adapter_reader *r, const float *v, uint64_t n, uint32_t planes, qsf_error *err)
{
    uint16_t *to = qsf_arena_array(r->a->arena, planes * n, sizeof *to, "an adapter", err);
    for (uint64_t i = 0; to && i < n; i++) put_planes(to, (size_t)i, (size_t)n, planes, v[i]);
    return to;
}

/* Rows of B in tiles, with zeros behind the last. */
static const void *keep_tiles(adapter_reader *r, const float *v, const qsf_lora_pair *p, qsf_error *err)
{
    const size_t wide = QSF_TILE_ROWS, tiles = (p->rows + wide - 1) / wide, apart = tiles * wide * p->rank;
    uint16_t *to = qsf_arena_array(r->a->arena, (uint64_t)p->planes * apart, sizeof *to, "an adapter", err);
    for (size_t i = 0; to && i < tiles * wide; i++)
        for (size_t k = 0; k < p->rank; k++)
            put_planes(to, (i / wide * p->rank + k) * wide + i % wide, apart, p->planes,
                       i < p->rows ? v[i * p->rank + k] : 0);
    return to;
}

/* The token embedding's, in floats as they are. */
static qsf_status keep_embd(adapter_reader *r, const qsf_lora_group *g, qsf_lora_pair *p, qsf_error *err)
{
    const size_t na = (size_t)g->rank * g->cols, nb = (size_t)g->rank * g->rows[0];
    float *a = qsf_arena_array(r->a->arena, na, sizeof *a, "an adapter", err);
    float *b = a ? qsf_arena_array(r->a->arena, nb, sizeof *b, "an adapter", err) : NULL;
    if (!b) return QSF_E_MEMORY;
    p->a = memcpy(a, g->a, na * sizeof *a);
    p->b = memcpy(b, g->b, nb * sizeof *b);
    return QSF_OK;
}

static qsf_status keep_group(void *user, const qsf_lora_group *g, qsf_error *err)
{
    adapter_reader *r = user;
    uint64_t rows = 0, row = 0;
    float scale = g->scale;
    const void *kept = NULL;
    uint32_t planes = 0;
    for (uint32_t i = 0; i < g->n; i++) rows += g->rows[i];
    if (!g->embd) {
        const uint64_t na = (uint64_t)g->rank * g->cols, nb = rows * g->rank;
        enlarge(g->a, na, &scale);
        enlarge(g->b, nb, &scale);
        planes = QSF_MAX(lora_planes(g->a, na), lora_planes(g->b, nb));
        if (!(kept = keep_rows(r, g->a, na, planes, err))) return QSF_E_MEMORY;
    }
    for (uint32_t i = 0; i < g->n; row += g->rows[i++]) {
        qsf_lora_pair *p = &r->a->pairs[r->a->n_pairs++];
        *p = (qsf_lora_pair){ .unit = g->unit, .kind = g->kinds[i], .rank = g->rank, .rows = g->rows[i],
                              .cols = g->cols, .a = kept, .planes = planes, .scale = scale };
        if (g->embd && keep_embd(r, g, p, err)) return QSF_E_MEMORY;
        if (!g->embd && !(p->b = keep_tiles(r, g->b + row * g->rank, p, err))) return QSF_E_MEMORY;
        r->hash = ((r->hash ^ (uint64_t)g->unit << 8 ^ g->kinds[i]) * 1099511628211u) ^ qsf_f32_bits(scale);
    }
    r->a->rank = QSF_MAX(r->a->rank, g->rank);
    return QSF_OK;
}

/* By unit, each with its place among the numbers of the unit. */
static qsf_status sort_pairs(adapter_reader *r, qsf_error *err)
{
    qsf_adapter *a = r->a;
    const uint32_t n_units = qsf_units_of(a->model->source->hp.n_layers);
    qsf_lora_pair *sorted = qsf_arena_array(a->arena, a->n_pairs, sizeof *sorted, "an adapter", err);
    a->first = qsf_arena_array(a->arena, (uint64_t)n_units + 1, sizeof *a->first, "an adapter", err);
    if (!a->first || !sorted) return QSF_E_MEMORY;
    uint32_t n = 0;
    for (uint32_t u = 0; u < n_units; u++) {
        uint32_t width = 0;
        a->first[u] = n;
        for (uint32_t i = 0; i < a->n_pairs; i++) {
            if (a->pairs[i].unit != u) continue;
            sorted[n] = a->pairs[i];
            sorted[n++].at = width;
            width += a->pairs[i].rank;
        }
        a->width = QSF_MAX(a->width, width);
    }
    a->first[n_units] = n;
    a->pairs = sorted;
    return QSF_OK;
}

static void adapter_warn(void *user, const char *line)
{
    const qsf_model *m = user;
    qsf_log(m, QSF_LOG_WARN, "%s", line);
}

static qsf_status read_adapter(adapter_reader *r, qsf_error *err)
{
    qsf_adapter *a = r->a;
    const uint64_t most = 3 * (uint64_t)r->f.n_tensors;         /* a tensor has up to three matrices */
    a->alpha = r->f.alpha;
    if (!(a->name = qsf_arena_text(a->arena, r->f.name, strlen(r->f.name), err))) return QSF_E_MEMORY;
    if (!(a->pairs = qsf_arena_array(a->arena, most, sizeof *a->pairs, "an adapter", err)))
        return QSF_E_MEMORY;
    const qsf_status st = qsf_lora_file_read(&r->f, err);
    return st ? st : sort_pairs(r, err);
}

qsf_status qsf_adapter_load(qsf_model *m, const char *path, const qsf_custom_file *file, qsf_adapter **out,
                            qsf_error *err)
{
    adapter_reader r = { .f = { .model = m->source, .take = keep_group, .warn = { m, adapter_warn } } };
    qsf_arena *arena = NULL;
    qsf_status st;
    *out = NULL;
    r.f.user = &r;
    if ((st = qsf_custom_check(file, err))) return st;
    if (m->source->vocab_only)
        st = qsf_fail(err, QSF_E_ARGUMENT, "%s was opened without weights", m->source->path);
    else if (qsf_part_shared(m->source)) st = qsf_part_refuse(m->source, "an adapter", err);
    if (st) {
        if (file && file->close) file->close(file->user);
        return st;
    }
    if ((st = qsf_lora_file_open(&r.f, m->platform, path, file, err))) goto done;
    if ((st = qsf_arena_new(m->platform, &arena, err))) goto done;
    if (!(r.a = qsf_arena_alloc(arena, sizeof *r.a, "an adapter", err))) {
        st = QSF_E_MEMORY;
        goto done;
    }
    r.a->model = m;
    r.a->arena = arena;
    if ((st = read_adapter(&r, err))) goto done;
    r.a->hash = r.f.hash ^ r.hash * 1099511628211u;
    r.a->bytes = qsf_arena_used(arena) + (uint64_t)LORA_ROWS * r.a->width * sizeof(float);
    atomic_init(&r.a->users, 1);
    atomic_fetch_add(&m->adapter_bytes, (size_t)r.a->bytes);
    *out = r.a;
done:
    qsf_lora_file_close(&r.f);
    if (st) qsf_arena_free(arena);
    return st;
}

void qsf_adapter_hold(qsf_adapter *a) { atomic_fetch_add(&a->users, 1); }

void qsf_adapter_free(qsf_adapter *a)
{
    if (!a || atomic_fetch_sub(&a->users, 1) > 1) return;
    atomic_fetch_sub(&a->model->adapter_bytes, (size_t)a->bytes);
    qsf_arena_free(a->arena);
}

qsf_status qsf_adapter_get_info(const qsf_adapter *a, qsf_adapter_info *out)
{
    const qsf_adapter_info info = { .name = a->name, .rank = a->rank, .alpha = a->alpha,
                                    .n_matrices = a->n_pairs, .bytes = a->bytes };
    return QSF_GIVE(out, &info, NULL);
}
