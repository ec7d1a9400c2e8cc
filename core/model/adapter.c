/* Reads adapters: GGUF files in llama.cpp's form, pairs of tensors NAME.lora_a and NAME.lora_b.
 * SPDX-License-Identifier: MIT */
#include "model/adapter.h"

#include "base/sized.h"
#include "model/gguf.h"
#include "model/part.h"
#include "model/roles.h"
#include "model/source_read.h"

enum { LORA_MAX_RANK = 4096, LORA_ROWS = 256 };      /* LORA_ROWS: of a batch, in what bytes says */

typedef struct adapter_reader {
    qsf_adapter *a;
    gguf         g;
    uint64_t     hash;
} adapter_reader;

/* The end of a tensor's name; false: it ends otherwise. */
static bool lora_name(gguf_text name, const char *end, gguf_text *base)
{
    const size_t n = strlen(end);
    if (name.len <= n || memcmp(name.p + name.len - n, end, n)) return false;
    *base = (gguf_text){ name.p, name.len - n };
    return true;
}

static qsf_status lora_refuse(const adapter_reader *r, qsf_status st, gguf_text name, const char *why,
                              qsf_error *err)
{
    return qsf_fail(err, st, "%s: tensor \"%.*s\" %s", r->g.s->path, (int)QSF_MIN(name.len, 80), name.p, why);
}

/* ---- what the files say of themselves ---- */

/* A converter may have scaled channels between matrices: what an adapter multiplies is another
 * then. */
static qsf_status check_channels(const qsf_source *s, qsf_error *err)
{
    bool made = false, kept = false;
    for (uint32_t i = 0; i < s->n_meta; i++) {
        made |= !strcmp(s->meta[i].key, "qsf.convert.version");
        kept |= !strcmp(s->meta[i].key, "qsf.convert.channels");
    }
    if (!made || kept) return QSF_OK;
    return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: adapters do not fit, since qsf-convert has scaled its "
                    "channels; convert it again with --equalize off", s->path);
}

static qsf_status check_text(const adapter_reader *r, const char *key, const char *want, const char *what,
                             qsf_error *err)
{
    gguf_text got = { "nothing", 7 };
    const qsf_status st = qsf_gguf_string(&r->g, key, &got, err);
    if (st || gguf_text_is(got, want)) return st;
    return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: %s (%s is \"%.*s\", not \"%s\")", r->g.s->path, what, key,
                    (int)QSF_MIN(got.len, 40), got.p, want);
}

static qsf_status read_keys(adapter_reader *r, qsf_error *err)
{
    qsf_adapter *a = r->a;
    gguf_text name = { NULL, 0 };
    qsf_status st;
    if ((st = check_text(r, "general.type", "adapter", "is no adapter, which a model was asked for", err)) ||
        (st = check_text(r, "adapter.type", "lora", "is an adapter of a kind that cannot be run", err)) ||
        (st = check_text(r, "general.architecture", a->model->source->hp.arch,
                         "is an adapter of a model of another architecture", err)) ||
        (st = qsf_gguf_f32(&r->g, "adapter.lora.alpha", false, &a->alpha, err)) ||
        (st = qsf_gguf_string(&r->g, "general.name", &name, err))) return st;
    if (qsf_gguf_find(&r->g, "adapter.alora.invocation_tokens"))
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: an activated adapter (adapter.alora.invocation_tokens), "
                        "which this version cannot run", r->g.s->path);
    if (!name.len) name = (gguf_text){ r->g.s->path, strlen(r->g.s->path) };
    a->name = qsf_arena_text(a->arena, name.p, name.len, err);
    return a->name ? QSF_OK : QSF_E_MEMORY;
}

/* ---- tensors ---- */

/* A tensor's rows as floats. */
static qsf_status read_floats(adapter_reader *r, const gguf_tensor *t, qsf_arena *arena, float **out,
                              qsf_error *err)
{
    const qsf_source *s = r->g.s;
    const uint64_t values = t->dims[0] * t->dims[1];
    if (t->packing || t->dims[1] > UINT32_MAX || t->dims[0] > UINT32_MAX)
        return lora_refuse(r, QSF_E_UNSUPPORTED, t->name, "has a type or a size that adapters do not have",
                           err);
    *out = qsf_arena_array(arena, values, sizeof **out, "an adapter", err);
    uint8_t *bytes = *out ? qsf_alloc(s->platform, t->bytes, "an adapter", err) : NULL;
    if (!bytes) return QSF_E_MEMORY;
    qsf_status st = qsf_source_read(s, t->file, t->at, bytes, t->bytes, "an adapter's weights", err);
    if (!st) {
        const qsf_tensor rows = { .type = (uint8_t)t->type, .block = (uint16_t)t->block, .data = bytes,
                                  .rows = (uint32_t)t->dims[1], .cols = (uint32_t)t->dims[0],
                                  .bytes = t->bytes };
        qsf_dequant_rows(&rows, 0, rows.rows, *out);
        r->hash = (r->hash ^ s->crc32(0, bytes, (size_t)t->bytes)) * 1099511628211u;
        if (!qsf_all_finite(*out, (size_t)values))
            st = lora_refuse(r, QSF_E_CORRUPT, t->name, "has values that are not finite", err);
    }
    qsf_dealloc(s->platform, bytes, t->bytes);
    return st;
}

/* Matrices whose products the engine adds to. */
static bool lora_applies(const qsf_source *s, uint32_t unit, uint32_t kind)
{
    const qsf_layer *layer = qsf_source_layer(s, unit);
    if (layer && qsf_unit_find(s, unit, kind) < 0) return false;
    switch (kind) {
    case QSF_K_ATTN_Q: case QSF_K_ATTN_K: case QSF_K_ATTN_V: case QSF_K_ATTN_OUT:
    case QSF_K_MIX_IN: case QSF_K_MIX_GATE: case QSF_K_MIX_BETA: case QSF_K_MIX_ALPHA: case QSF_K_MIX_OUT:
    case QSF_K_TOKEN_EMBD: case QSF_K_OUTPUT:
        return true;
    case QSF_K_FFN_UP: case QSF_K_FFN_GATE: case QSF_K_FFN_DOWN:
        return layer && !layer->n_experts;
    default:
        return false;
    }
}

static qsf_status check_pair(const adapter_reader *r, const gguf_tensor *a, const gguf_tensor *b,
                             uint64_t rows, uint64_t cols, bool embd, qsf_error *err)
{
    const uint64_t rank = b->dims[0], more = a->dims[2] * a->dims[3] * b->dims[2] * b->dims[3];
    if (more != 1)
        return lora_refuse(r, QSF_E_UNSUPPORTED, a->name, "is an adapter of experts, which this version "
                           "cannot run", err);
    if (a->dims[!embd] != rank || a->dims[embd] != cols || b->dims[1] != rows)
        return qsf_fail(err, QSF_E_CORRUPT, "%s: tensor \"%.*s\" is %llu x %llu and its lora_b %llu x %llu, "
                        "which does not fit the model's %llu x %llu: is it another model's adapter?",
                        r->g.s->path, (int)QSF_MIN(a->name.len, 80), a->name.p,
                        (unsigned long long)a->dims[1], (unsigned long long)a->dims[0],
                        (unsigned long long)b->dims[1], (unsigned long long)b->dims[0],
                        (unsigned long long)rows, (unsigned long long)cols);
    if (rank > LORA_MAX_RANK)
        return lora_refuse(r, QSF_E_UNSUPPORTED, b->name, "has a rank above 4096", err);
    return QSF_OK;
}

/* Rows of a query's or key's heads, from the order of GGUF files, neighbours turning together, to
 * the model's: a file that was made from a Hugging Face directory has halves of a head apart. */
static qsf_status unpair_rows(const adapter_reader *r, const qsf_lora_pair *p, uint32_t rank, float *b,
                              qsf_error *err)
{
    const qsf_source *s = r->a->model->source;
    const qsf_layer *l = qsf_source_layer(s, p->unit);
    const qsf_arch *arch = qsf_arch_find(s->hp.arch);
    if (!l || (p->kind != QSF_K_ATTN_Q && p->kind != QSF_K_ATTN_K)) return QSF_OK;
    if (!arch || l->rope == QSF_NO_ROPE || arch->rope == s->ropes[l->rope].kind) return QSF_OK;
    const uint32_t hd = l->head_dim, half = hd / 2;
    if (s->ropes[l->rope].dim != hd || s->ropes[l->rope].kind != QSF_ROPE_HALVES)
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: queries and keys of the model turn otherwise than in "
                        "GGUF files: take the adapter with the model's GGUF file", r->g.s->path);
    const uint64_t bytes = (uint64_t)hd * rank * sizeof *b;
    float *head = qsf_alloc(s->platform, bytes, "an adapter", err);
    if (!head) return QSF_E_MEMORY;
    for (uint32_t h = 0; h < p->rows / hd; h++) {
        float *rows = b + (uint64_t)h * hd * rank;
        memcpy(head, rows, (size_t)bytes);
        for (uint32_t i = 0; i < hd; i++)
            memcpy(rows + (size_t)(i % 2 * half + i / 2) * rank, head + (size_t)i * rank, rank * sizeof *b);
    }
    qsf_dealloc(s->platform, head, bytes);
    return QSF_OK;
}

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

static qsf_status read_pair(adapter_reader *r, gguf_text base, const gguf_tensor *a, const gguf_tensor *b,
                            qsf_error *err)
{
    const qsf_source *s = r->a->model->source;
    uint32_t unit, row = 0;
    uint8_t kinds[3];
    float *fa, *fb;
    qsf_status st;
    const uint32_t n = qsf_gguf_kinds(s, base, b->dims[1], &unit, kinds);
    bool takes = n > 0;
    for (uint32_t i = 0; i < n; i++) takes &= lora_applies(s, unit, kinds[i]);
    if (!takes)
        return lora_refuse(r, QSF_E_UNSUPPORTED, a->name, "is for a matrix that the model does not have, or "
                           "whose adapters this version cannot run", err);
    const qsf_layer *layer = qsf_source_layer(s, unit);
    const bool embd = kinds[0] == QSF_K_TOKEN_EMBD;
    uint64_t rows = 0, cols = qsf_dim_size(&s->hp, layer, (qsf_dim)qsf_role_of(kinds[0])->cols);
    for (uint32_t i = 0; i < n; i++) rows += qsf_role_outputs(&s->hp, layer, qsf_role_of(kinds[i]));
    if (embd) {         /* a token chooses a row of A; B gives the model's width */
        cols = rows;
        rows = s->hp.n_embd;
    }
    if ((st = check_pair(r, a, b, rows, cols, embd, err))) return st;
    qsf_arena *arena = embd ? r->a->arena : r->g.tmp;
    if ((st = read_floats(r, a, arena, &fa, err)) || (st = read_floats(r, b, arena, &fb, err))) return st;
    const uint32_t rank = (uint32_t)b->dims[0];
    const void *kept = fa;
    float scale = r->a->alpha != 0 ? r->a->alpha / (float)rank : 1;
    uint32_t planes = 0;
    if (!embd) {
        enlarge(fa, rank * cols, &scale);
        enlarge(fb, rows * rank, &scale);
        planes = QSF_MAX(lora_planes(fa, rank * cols), lora_planes(fb, rows * rank));
        if (!(kept = keep_rows(r, fa, rank * cols, planes, err))) return QSF_E_MEMORY;
    }
    for (uint32_t i = 0; i < n; i++) {
        qsf_lora_pair *p = &r->a->pairs[r->a->n_pairs++];
        *p = (qsf_lora_pair){ .unit = unit, .kind = kinds[i], .rank = rank, .cols = (uint32_t)cols, .a = kept,
                              .planes = planes, .scale = scale };
        p->rows = embd ? (uint32_t)rows
                       : (uint32_t)qsf_role_outputs(&s->hp, layer, qsf_role_of(kinds[i]));
        if ((st = unpair_rows(r, p, rank, fb + (size_t)row * rank, err))) return st;
        p->b = embd ? fb : keep_tiles(r, fb + (size_t)row * rank, p, err);
        if (!p->b) return QSF_E_MEMORY;
        row += p->rows;
        r->hash = ((r->hash ^ (uint64_t)unit << 8 ^ kinds[i]) * 1099511628211u) ^ qsf_f32_bits(p->scale);
    }
    r->a->rank = QSF_MAX(r->a->rank, rank);
    return QSF_OK;
}

static qsf_status read_pairs(adapter_reader *r, qsf_error *err)
{
    gguf *g = &r->g;
    gguf_names names;
    gguf_text base, *list = qsf_arena_array(g->tmp, g->n_tensors, sizeof *list, "an adapter", err);
    uint32_t norms = 0;
    char other[256];
    if (!list) return QSF_E_MEMORY;
    for (uint32_t i = 0; i < g->n_tensors; i++) list[i] = g->tensors[i].name;
    qsf_status st = qsf_gguf_names(g->tmp, list, g->n_tensors, &names, NULL, err);
    r->a->pairs = qsf_arena_array(r->a->arena, 3 * (uint64_t)g->n_tensors, sizeof *r->a->pairs, "an adapter",
                                  err);
    if (!st && !r->a->pairs) st = QSF_E_MEMORY;
    for (uint32_t i = 0; i < g->n_tensors && !st; i++) {
        const bool a = lora_name(list[i], ".lora_a", &base);
        if (!a && lora_name(list[i], "_norm.weight", &base)) {
            norms++;
            continue;
        }
        if (!a && !lora_name(list[i], ".lora_b", &base))
            return lora_refuse(r, QSF_E_UNSUPPORTED, list[i], "is neither .lora_a nor .lora_b", err);
        const size_t n = qsf_format(other, sizeof other, "%.*s%s", (int)QSF_MIN(base.len, 240), base.p,
                                    a ? ".lora_b" : ".lora_a");
        const int64_t at = n < sizeof other ? qsf_gguf_name_find(&names, other, n) : -1;
        if (at < 0) return lora_refuse(r, QSF_E_CORRUPT, list[i], "has no partner .lora_a or .lora_b", err);
        if (a) st = read_pair(r, base, &g->tensors[i], &g->tensors[at], err);
    }
    if (!st && norms)
        qsf_log(r->a->model, QSF_LOG_WARN, "%s: %u norms of the adapter are left out", g->s->path,
                (unsigned)norms);
    return st;
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

static qsf_status read_adapter(adapter_reader *r, qsf_error *err)
{
    const qsf_source *s = r->g.s;
    uint8_t magic[4] = { 0 };
    qsf_status st;
    if (s->lengths[0] >= sizeof magic &&
        (st = qsf_source_read(s, 0, 0, magic, sizeof magic, "the first bytes", err))) return st;
    if (memcmp(magic, "GGUF", 4))
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: is no GGUF file; adapters are GGUF files in llama.cpp's "
                        "form", s->path);
    if ((st = qsf_arena_new(s->platform, &r->g.tmp, err))) return st;
    if ((st = qsf_gguf_read_files(&r->g, err))) return st;
    if ((st = read_keys(r, err)) || (st = read_pairs(r, err))) return st;
    if (!r->a->n_pairs) return qsf_fail(err, QSF_E_CORRUPT, "%s: the adapter has no weights", s->path);
    return sort_pairs(r, err);
}

qsf_status qsf_adapter_load(qsf_model *m, const char *path, const qsf_custom_file *file, qsf_adapter **out,
                            qsf_error *err)
{
    adapter_reader r = { .hash = 14695981039346656037u };
    qsf_arena *arena = NULL;
    qsf_status st;
    *out = NULL;
    if ((st = qsf_custom_check(file, err))) return st;
    if ((st = qsf_source_open_bare(m->platform, path, file, &r.g.s, err))) return st;
    if (m->source->vocab_only) {
        st = qsf_fail(err, QSF_E_ARGUMENT, "%s was opened without weights", m->source->path);
        goto done;
    }
    if (qsf_part_shared(m->source) && (st = qsf_part_refuse(m->source, "an adapter", err))) goto done;
    if ((st = check_channels(m->source, err))) goto done;
    if ((st = qsf_arena_new(m->platform, &arena, err))) goto done;
    if (!(r.a = qsf_arena_alloc(arena, sizeof *r.a, "an adapter", err))) {
        st = QSF_E_MEMORY;
        goto done;
    }
    r.a->model = m;
    r.a->arena = arena;
    if ((st = read_adapter(&r, err))) goto done;
    r.a->hash = r.hash;
    r.a->bytes = qsf_arena_used(arena) + (uint64_t)LORA_ROWS * r.a->width * sizeof(float);
    atomic_init(&r.a->users, 1);
    atomic_fetch_add(&m->adapter_bytes, (size_t)r.a->bytes);
    *out = r.a;
done:
    if (r.g.tmp) qsf_gguf_done(&r.g);
    qsf_source_close(r.g.s);
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
