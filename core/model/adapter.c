/* Adapters in memory, as products take their numbers.
 * SPDX-License-Identifier: MIT */
#include "model/adapter.h"

#include "base/sized.h"
#include "model/lora_file.h"
#include "model/roles.h"

enum { LORA_ROWS = 256 };       /* of a batch, in what bytes says */

typedef struct adapter_reader {
    qsf_adapter *a;
    uint64_t     hash;          /* of what is scaled by how much */
    uint64_t     most;          /* bytes of a group while it is read */
    uint8_t     *mem;           /* where one unit's pairs go; NULL: to those of all units */
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

static void put_rows(uint16_t *to, const float *v, size_t n, uint32_t planes)
{
    for (size_t i = 0; i < n; i++) put_planes(to, i, n, planes, v[i]);
}

/* Rows of B in tiles, padded with zeros. */
static void put_tiles(uint16_t *to, const float *v, const qsf_lora_pair *p)
{
    const size_t wide = QSF_TILE_ROWS, tiles = (p->rows + wide - 1) / wide, apart = tiles * wide * p->rank;
    for (size_t i = 0; i < tiles * wide; i++)
        for (size_t k = 0; k < p->rank; k++)
            put_planes(to, (i / wide * p->rank + k) * wide + i % wide, apart, p->planes,
                       i < p->rows ? v[i * p->rank + k] : 0);
}

static float largest_size(const float *v, size_t n)
{
    float most = 0;
    for (size_t i = 0; i < n; i++) most = QSF_MAX(most, v[i] < 0 ? -v[i] : v[i]);
    return most;
}

/* n codes, each four `apart`. */
static void put_spread(uint8_t *to, size_t apart, const float *v, size_t n, float d)
{
    for (size_t i = 0; i < n; i++) {
        const double code = d > 0 ? floor((double)v[i] / d + 0.5) : 0;
        to[i / 4 * apart + i % 4] = (uint8_t)(int8_t)QSF_MIN(QSF_MAX(code, -127), 127);
    }
}

static void put_code_rows(uint8_t *to, const float *v, const qsf_lora_pair *p)
{
    const size_t blocks = ((size_t)p->cols + QSF_LORA_BLOCK - 1) / QSF_LORA_BLOCK,
        tile = (size_t)QSF_TILE_ROWS * qsf_block_bytes(QSF_T_8BIT, QSF_LORA_BLOCK);
    memset(to, 0, qsf_lora_a_bytes(p));
    for (uint32_t k = 0; k < p->rank; k++)
        for (size_t b = 0; b < blocks; b++) {
            uint8_t codes[QSF_LORA_BLOCK] = { 0 };
            const float *from = v + (size_t)k * p->cols + b * QSF_LORA_BLOCK;
            const size_t n = QSF_MIN(p->cols - b * QSF_LORA_BLOCK, (size_t)QSF_LORA_BLOCK);
            const float d = qsf_f16_to_f32(qsf_f32_to_f16(largest_size(from, n) / 127));
            put_spread(codes, 4, from, n, d);
            qsf_tile_put_row(to + (k / QSF_TILE_ROWS * blocks + b) * tile, QSF_T_8BIT, QSF_LORA_BLOCK,
                             k % QSF_TILE_ROWS, d, codes);
        }
}

static void put_code_tiles(uint8_t *to, const float *v, const qsf_lora_pair *p)
{
    const size_t tile = qsf_narrow_bytes(qsf_lora_depth(p)), wide = QSF_TILE_ROWS;
    memset(to, 0, qsf_lora_b_bytes(p));
    for (size_t i = 0; i < p->rows; i++, v += p->rank) {
        uint8_t *at = to + i / wide * tile;
        const float d = largest_size(v, p->rank) / 127;
        memcpy(at + i % wide * sizeof d, &d, sizeof d);
        put_spread(at + wide * sizeof d + i % wide * 4, wide * 4, v, p->rank, d);
    }
}

size_t qsf_lora_a_bytes(const qsf_lora_pair *p)
{
    const size_t blocks = ((size_t)p->cols + QSF_LORA_BLOCK - 1) / QSF_LORA_BLOCK;
    if (p->kind == QSF_K_TOKEN_EMBD) return (size_t)p->cols * p->rank * sizeof(float);
    if (p->planes) return (size_t)qsf_round_up((size_t)p->planes * p->rank * p->cols * 2, 64);
    return qsf_lora_width(p) * blocks * qsf_block_bytes(QSF_T_8BIT, QSF_LORA_BLOCK);
}

size_t qsf_lora_b_bytes(const qsf_lora_pair *p)
{
    const size_t tiles = ((size_t)p->rows + QSF_TILE_ROWS - 1) / QSF_TILE_ROWS;
    if (p->kind == QSF_K_TOKEN_EMBD) return (size_t)p->rows * p->rank * sizeof(float);
    if (p->planes) return (size_t)qsf_round_up(p->planes * tiles * QSF_TILE_ROWS * p->rank * 2, 64);
    return tiles * qsf_narrow_bytes(qsf_lora_depth(p));
}

/* ---- reading: all groups are looked at first, then kept ---- */

/* Whether products with a matrix are of floats, as an adapter's then are. */
static bool matrix_is_float(const qsf_source *s, uint32_t unit, uint32_t kind)
{
    const bool tied = kind == QSF_K_OUTPUT && s->hp.tied;
    const uint32_t of = tied ? qsf_unit_embd(s) : unit;
    const int i = qsf_unit_find(s, of, tied ? QSF_K_TOKEN_EMBD : kind);
    const uint8_t type = i < 0 ? QSF_T_F32 : s->tensors[s->units[of].first_tensor + (uint32_t)i].type;
    return type == QSF_T_F32 || type == QSF_T_F16 || type == QSF_T_BF16;
}

static uint64_t group_rows(const qsf_lora_group *g)
{
    uint64_t rows = 0;
    for (uint32_t i = 0; i < g->n; i++) rows += g->rows[i];
    return rows;
}

/* What a and b become; how much too large they are then. */
static float group_enlarge(const qsf_lora_group *g)
{
    float by = 1;
    if (g->embd) return by;
    enlarge(g->a, (uint64_t)g->rank * g->cols, &by);
    enlarge(g->b, group_rows(g) * g->rank, &by);
    return by;
}

#define NO_PAIR FLT_MAX         /* an expert's scale, until it has one */

/* The pair that a group's kind i belongs to: a new one, or that of other experts. */
static qsf_status described_pair(adapter_reader *r, const qsf_lora_group *g, uint32_t i, qsf_lora_pair **out,
                                 qsf_error *err)
{
    qsf_adapter *a = r->a;
    qsf_lora_pair *p = a->pairs, *end = a->pairs + a->n_pairs;
    const char *path = a->file.g.s->path;
    while (p < end && (p->unit != g->unit || p->kind != g->kinds[i])) p++;
    *out = p;
    if (p == end) {
        *p = (qsf_lora_pair){ .unit = g->unit, .kind = g->kinds[i], .rank = g->rank, .rows = g->rows[i],
                              .cols = g->cols, .n_experts = g->n_experts };
        a->n_pairs++;
        if (!p->n_experts) return QSF_OK;
        p->scales = qsf_arena_array(a->arena, p->n_experts, sizeof *p->scales, "an adapter", err);
        if (!p->scales) return QSF_E_MEMORY;
        for (uint32_t e = 0; e < p->n_experts; e++) p->scales[e] = NO_PAIR;
    } else if (!p->scales || p->scales[g->expert] != NO_PAIR) {
        return qsf_fail(err, QSF_E_CORRUPT, "%s: the adapter changes a matrix twice (%s of layer %u)", path,
                        qsf_kind_name(p->kind), (unsigned)p->unit);
    }
    if (p->rank == g->rank) return QSF_OK;
    return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: experts of one matrix (%s of layer %u) have ranks %u and "
                    "%u, which this version cannot run", path, qsf_kind_name(p->kind), (unsigned)p->unit,
                    (unsigned)p->rank, (unsigned)g->rank);
}

static qsf_status describe_group(void *user, const qsf_lora_group *g, qsf_error *err)
{
    adapter_reader *r = user;
    const uint64_t na = (uint64_t)g->rank * g->cols, nb = group_rows(g) * g->rank;
    const float scale = g->scale * group_enlarge(g);
    bool exact = r->a->exact;
    for (uint32_t i = 0; i < g->n; i++) exact |= matrix_is_float(r->a->model->source, g->unit, g->kinds[i]);
    const uint32_t planes = !exact || g->embd ? 0 : QSF_MAX(lora_planes(g->a, na), lora_planes(g->b, nb));
    for (uint32_t i = 0; i < g->n; i++) {
        qsf_lora_pair *p;
        const qsf_status st = described_pair(r, g, i, &p, err);
        if (st) return st;
        p->planes = QSF_MAX(p->planes, planes);
        *(p->scales ? &p->scales[g->expert] : &p->scale) = scale;
        r->hash = ((r->hash ^ (uint64_t)g->unit << 8 ^ (uint64_t)g->expert << 40 ^ g->kinds[i])
                   * 1099511628211u) ^ qsf_f32_bits(scale);
    }
    r->a->codes |= !planes && !g->embd;
    r->most = QSF_MAX(r->most, (na + nb + QSF_MAX(na, nb)) * sizeof(float));
    r->a->rank = QSF_MAX(r->a->rank, g->rank);
    return QSF_OK;
}

static qsf_status keep_group(void *user, const qsf_lora_group *g, qsf_error *err)
{
    const adapter_reader *r = user;
    const float *b = g->b;
    uint8_t *mem = r->mem ? r->mem : r->a->mem[g->unit];
    if (!mem) return QSF_OK;
    (void)err;
    (void)group_enlarge(g);
    for (uint32_t i = 0; i < g->n; b += (size_t)g->rows[i++] * g->rank) {
        const qsf_lora_pair *p = qsf_adapter_find(r->a, g->unit, g->kinds[i]);
        const size_t na = (size_t)p->rank * p->cols;
        uint8_t *to_a = mem + p->a_at + g->expert * p->a_step, *to_b = mem + p->b_at + g->expert * p->b_step;
        if (g->embd) {
            memcpy(to_a, g->a, qsf_lora_a_bytes(p));
            memcpy(to_b, b, qsf_lora_b_bytes(p));
        } else if (p->planes) {
            put_rows((uint16_t *)(void *)to_a, g->a, na, p->planes);
            put_tiles((uint16_t *)(void *)to_b, b, p);
        } else {
            put_code_rows(to_a, g->a, p);
            put_code_tiles(to_b, b, p);
        }
    }
    return QSF_OK;
}

/* A number for each set of matrices that read the same rows. */
static uint32_t lora_readers(uint32_t kind)
{
    switch (kind) {
    case QSF_K_ATTN_Q: case QSF_K_ATTN_K: case QSF_K_ATTN_V: return 0;
    case QSF_K_FFN_GATE: case QSF_K_FFN_UP: return 1;
    case QSF_K_MIX_IN: case QSF_K_MIX_GATE: case QSF_K_MIX_BETA: case QSF_K_MIX_ALPHA: return 2;
    case QSF_K_EXPERT_GATE: case QSF_K_EXPERT_UP: return 3;
    default: return 4 + kind;
    }
}

/* Assigns the places of a unit's pairs in h and in memory, in the order of use: pairs of matrices
 * that read the same rows are adjacent, first all A, which are one matrix, then all B.  The pairs
 * of experts are stored one after another.  Returns the number of bytes. */
static uint64_t place_pairs(qsf_adapter *a, uint32_t unit)
{
    uint32_t width[2] = { 0, 0 };
    uint64_t at = 0;
    for (uint32_t i = a->first[unit], end = i; i < a->first[unit + 1]; i = end) {
        const uint32_t readers = lora_readers(a->pairs[i].kind), n = QSF_MAX(a->pairs[i].n_experts, 1);
        uint32_t *places = &width[a->pairs[i].n_experts != 0];
        const uint64_t begin = at;
        for (; end < a->first[unit + 1] && lora_readers(a->pairs[end].kind) == readers; end++) {
            qsf_lora_pair *p = &a->pairs[end];
            p->at = *places;
            *places += (uint32_t)qsf_lora_width(p);
            p->a_at = (size_t)at;
            at += qsf_lora_a_bytes(p);
        }
        const uint64_t step = at - begin;
        at = begin + n * step;
        for (uint32_t k = i; k < end; k++) {
            qsf_lora_pair *p = &a->pairs[k];
            for (uint32_t e = 0; e < p->n_experts; e++)
                if (p->scales[e] == NO_PAIR) p->scales[e] = 0;
            p->a_step = (size_t)step;
            p->b_step = qsf_lora_b_bytes(p);
            p->b_at = (size_t)at;
            at += (uint64_t)n * p->b_step;
        }
    }
    a->unit_bytes[unit] = (size_t)at;
    a->width = QSF_MAX(a->width, width[0]);
    a->experts_width = QSF_MAX(a->experts_width, width[1]);
    return at;
}

/* By unit and kind, each with its places. */
static qsf_status sort_pairs(qsf_adapter *a, qsf_error *err)
{
    const uint32_t n_units = qsf_units_of(a->model->source->hp.n_layers);
    qsf_lora_pair *sorted = qsf_arena_array(a->arena, a->n_pairs, sizeof *sorted, "an adapter", err);
    a->first = qsf_arena_array(a->arena, (uint64_t)n_units + 1, sizeof *a->first, "an adapter", err);
    a->unit_bytes = qsf_arena_array(a->arena, n_units, sizeof *a->unit_bytes, "an adapter", err);
    a->mem = qsf_arena_array(a->arena, n_units, sizeof *a->mem, "an adapter", err);
    if (!a->first || !sorted || !a->unit_bytes || !a->mem) return QSF_E_MEMORY;
    for (uint32_t u = 0; u < n_units; u++) a->mem[u] = NULL;
    uint32_t n = 0;
    for (uint32_t u = 0; u < n_units; u++) {
        a->first[u] = n;
        for (uint32_t i = 0; i < a->n_pairs; i++) {
            if (a->pairs[i].unit != u) continue;
            uint32_t to = n++;
            for (; to > a->first[u] && sorted[to - 1].kind > a->pairs[i].kind; to--)
                sorted[to] = sorted[to - 1];
            sorted[to] = a->pairs[i];
        }
    }
    a->first[n_units] = n;
    a->pairs = sorted;
    uint64_t bytes = 0;
    for (uint32_t u = 0; u < n_units; u++) bytes += place_pairs(a, u);
    if (bytes <= SIZE_MAX / 2) return QSF_OK;
    return qsf_fail(err, QSF_E_MEMORY, "%s: the adapter takes %llu MB, more than this machine can address",
                    a->file.g.s->path, (unsigned long long)bytes / 1000000);
}

/* Memory for what stays, all in one, and its pairs. */
static qsf_status keep_pairs(adapter_reader *r, qsf_error *err)
{
    qsf_adapter *a = r->a;
    const qsf_source *s = a->model->source;
    const uint32_t n_units = qsf_units_of(s->hp.n_layers), embd = qsf_unit_embd(s);
    size_t bytes = 0;
    for (uint32_t u = 0; u < n_units; u++)
        if (a->streamed && u != embd) a->unit_most = QSF_MAX(a->unit_most, a->unit_bytes[u]);
        else bytes += a->unit_bytes[u];
    if (!bytes) return QSF_OK;
    uint8_t *mem = qsf_arena_alloc(a->arena, bytes, "an adapter", err);
    if (!mem) return QSF_E_MEMORY;
    memset(mem, 0, bytes);          /* experts may lack pairs */
    for (uint32_t u = 0; u < n_units; u++) {
        if (!a->unit_bytes[u] || (a->streamed && u != embd)) continue;
        a->mem[u] = mem;
        mem += a->unit_bytes[u];
    }
    a->file.take = keep_group;
    return qsf_lora_file_again(&a->file, a->streamed ? (int64_t)embd : -1, err);
}

bool qsf_adapter_unit_bytes(const qsf_adapter *a, uint32_t unit, qsf_lora_bytes *out)
{
    const qsf_platform *io = a->file.g.s->io;
    return io->read_wait && io->reads_cross_threads && qsf_lora_file_extent(&a->file, unit, out);
}

/* For the largest unit that does not stay. */
static void measure_ahead(qsf_adapter *a)
{
    const qsf_source *s = a->model->source;
    for (uint32_t u = 0; u < qsf_units_of(s->hp.n_layers); u++) {
        qsf_lora_bytes b;
        if (u != qsf_unit_embd(s) && qsf_adapter_unit_bytes(a, u, &b) && b.len <= SIZE_MAX)
            a->ahead_most = QSF_MAX(a->ahead_most, (size_t)b.len);
    }
}

qsf_status qsf_adapter_read_unit(const qsf_adapter *a, uint32_t unit, const qsf_lora_bytes *there,
                                 uint8_t *mem, qsf_error *err)
{
    adapter_reader r = { .a = (qsf_adapter *)(uintptr_t)a, .mem = mem };
    qsf_lora_file f = a->file;
    memset(mem, 0, a->unit_bytes[unit]);
    f.user = &r;
    f.there = there;
    f.take = keep_group;
    return qsf_lora_file_again(&f, unit, err);
}

static void adapter_warn(void *user, const char *line)
{
    const qsf_model *m = user;
    qsf_log(m, QSF_LOG_WARN, "%s", line);
}

static qsf_status read_adapter(adapter_reader *r, qsf_error *err)
{
    qsf_adapter *a = r->a;
    const uint64_t most = 3 * (uint64_t)a->file.n_tensors;      /* a tensor has up to three matrices */
    qsf_status st;
    a->alpha = a->file.alpha;
    char *name = qsf_arena_text(a->arena, a->file.name, strlen(a->file.name), err);
    if (!name) return QSF_E_MEMORY;
    qsf_visible(name);
    a->name = name;
    if (!(a->pairs = qsf_arena_array(a->arena, most, sizeof *a->pairs, "an adapter", err)))
        return QSF_E_MEMORY;
    if ((st = qsf_lora_file_read(&a->file, err)) || (st = sort_pairs(a, err))) return st;
    a->hash = a->file.hash ^ r->hash * 1099511628211u;
    a->file.warn.tell = NULL;
    if ((st = keep_pairs(r, err))) return st;
    a->bytes = qsf_arena_used(a->arena) +
        (uint64_t)LORA_ROWS * (a->width + a->experts_width) * sizeof(float);
    if (!a->streamed) return QSF_OK;
    measure_ahead(a);
    a->bytes += a->unit_most + a->ahead_most + r->most + qsf_arena_used(a->file.g.tmp);
    return QSF_OK;
}

qsf_status qsf_adapter_open(qsf_model *m, const char *path, const qsf_adapter_options *opts,
                            qsf_adapter **out, qsf_error *err)
{
    qsf_adapter_options o = { .size = sizeof o };
    qsf_arena *arena = NULL;
    qsf_status st;
    *out = NULL;
    if ((st = QSF_TAKE(&o, opts, qsf_adapter_options, err))) return st;
    if ((st = qsf_custom_check(o.file, err))) return st;
    if (m->source->vocab_only)
        st = qsf_fail(err, QSF_E_ARGUMENT, "%s was opened without weights", m->source->path);
    if (st) {
        if (o.file && o.file->close) o.file->close(o.file->user);
        return st;
    }
    adapter_reader r = { .hash = 14695981039346656037u };
    qsf_lora_file f = { .model = m->source, .take = describe_group, .warn = { m, adapter_warn } };
    st = qsf_lora_file_open(&f, m->platform, path, o.file, err);
    if (!st) st = qsf_arena_new(m->platform, &arena, err);
    if (!st && !(r.a = qsf_arena_alloc(arena, sizeof *r.a, "an adapter", err))) st = QSF_E_MEMORY;
    if (!st) {
        *r.a = (qsf_adapter){ .model = m, .arena = arena, .exact = o.exact, .streamed = o.streamed,
                              .number = o.number, .file = f };
        r.a->file.user = &r;
        st = read_adapter(&r, err);
    }
    if (st || !o.streamed) qsf_lora_file_close(r.a ? &r.a->file : &f);
    if (st) {
        qsf_arena_free(arena);
        return st;
    }
    atomic_init(&r.a->users, 1);
    atomic_fetch_add(&m->adapter_bytes, (size_t)r.a->bytes);
    *out = r.a;
    return QSF_OK;
}

qsf_status qsf_adapter_load(qsf_model *m, const char *path, const qsf_custom_file *file, qsf_adapter **out,
                            qsf_error *err)
{
    const qsf_adapter_options o = { .size = sizeof o, .file = file };
    return qsf_adapter_open(m, path, &o, out, err);
}

void qsf_adapter_hold(qsf_adapter *a) { atomic_fetch_add(&a->users, 1); }

void qsf_adapter_free(qsf_adapter *a)
{
    if (!a || atomic_fetch_sub(&a->users, 1) > 1) return;
    atomic_fetch_sub(&a->model->adapter_bytes, (size_t)a->bytes);
    if (a->streamed) qsf_lora_file_close(&a->file);
    qsf_arena_free(a->arena);
}

qsf_status qsf_adapter_get_info(const qsf_adapter *a, qsf_adapter_info *out)
{
    const qsf_adapter_info info = { .name = a->name, .rank = a->rank, .alpha = a->alpha,
                                    .n_matrices = a->n_pairs, .bytes = a->bytes, .number = a->number };
    return QSF_GIVE(out, &info, NULL);
}
