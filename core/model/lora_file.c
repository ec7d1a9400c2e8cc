/* Reads adapters: tensors in pairs, each of a matrix of the model.
 * SPDX-License-Identifier: MIT
 *
 * GGUF files have pairs NAME.lora_a and NAME.lora_b, as llama.cpp's converter writes them; a
 * directory of PEFT has been given such names (model/peft.c). */
#include "model/lora_file.h"

#include "model/part.h"
#include "model/roles.h"
#include "model/share.h"
#include "model/source_read.h"

enum { LORA_MAX_RANK = 4096 };

/* Where a group's matrices are, or those of all experts, or with alone of one. */
struct lora_place { uint32_t unit, expert; bool alone; gguf_text base; const gguf_tensor *a, *b; };

/* The end of a tensor's name; false: it ends otherwise. */
static bool lora_name(gguf_text name, const char *end, gguf_text *base)
{
    const size_t n = strlen(end);
    if (name.len <= n || memcmp(name.p + name.len - n, end, n)) return false;
    *base = (gguf_text){ name.p, name.len - n };
    return true;
}

static qsf_status lora_refuse(const qsf_lora_file *r, qsf_status st, gguf_text name, const char *why,
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

static qsf_status check_text(const qsf_lora_file *r, const char *key, const char *want, const char *what,
                             qsf_error *err)
{
    gguf_text got = { "nothing", 7 };
    const qsf_status st = qsf_gguf_string(&r->g, key, &got, err);
    if (st || gguf_text_is(got, want)) return st;
    return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: %s (%s is \"%.*s\", not \"%s\")", r->g.s->path, what, key,
                    (int)QSF_MIN(got.len, 40), got.p, want);
}

static qsf_status read_keys(qsf_lora_file *r, qsf_error *err)
{
    gguf_text name = { NULL, 0 };
    qsf_status st;
    if ((st = check_text(r, "general.type", "adapter", "is not an adapter", err)) ||
        (st = check_text(r, "adapter.type", "lora", "is an adapter of a kind that cannot be run", err)) ||
        (st = check_text(r, "general.architecture", r->model->hp.arch,
                         "is an adapter of a model of another architecture", err)) ||
        (st = qsf_gguf_f32(&r->g, "adapter.lora.alpha", false, &r->alpha, err)) ||
        (st = qsf_gguf_string(&r->g, "general.name", &name, err))) return st;
    if (qsf_gguf_find(&r->g, "adapter.alora.invocation_tokens"))
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: an activated adapter (adapter.alora.invocation_tokens), "
                        "which this version cannot run", r->g.s->path);
    if (!name.len) name = (gguf_text){ r->g.s->path, strlen(r->g.s->path) };
    r->name = qsf_arena_text(r->g.tmp, name.p, name.len, err);
    return r->name ? QSF_OK : QSF_E_MEMORY;
}

/* ---- tensors ---- */

/* Bytes of the file, which may be there already. */
static qsf_status lora_bytes(const qsf_lora_file *r, uint32_t file, uint64_t at, uint8_t *to, uint64_t len,
                             qsf_error *err)
{
    const qsf_lora_bytes *t = r->there;
    if (!t || t->file != file || at < t->at || at - t->at > t->len || len > t->len - (at - t->at))
        return qsf_source_read(r->g.s, file, at, to, len, "an adapter's weights", err);
    memcpy(to, t->bytes + (at - t->at), (size_t)len);
    return QSF_OK;
}

/* Rows of the `part`th matrix of a tensor as floats; the memory is the caller's, also after an
 * error. */
static qsf_status read_floats(qsf_lora_file *r, const gguf_tensor *t, uint64_t part, float **out,
                              qsf_error *err)
{
    const qsf_source *s = r->g.s;
    const uint64_t values = t->dims[0] * t->dims[1], len = t->bytes / t->dims[2];
    *out = NULL;
    if (t->packing || t->dims[1] > UINT32_MAX || t->dims[0] > UINT32_MAX)
        return lora_refuse(r, QSF_E_UNSUPPORTED, t->name, "has a type or a size that adapters do not have",
                           err);
    *out = qsf_alloc_array(s->platform, values, sizeof **out, "an adapter", err);
    uint8_t *bytes = *out ? qsf_alloc(s->platform, len, "an adapter", err) : NULL;
    if (!bytes) return QSF_E_MEMORY;
    qsf_status st = lora_bytes(r, t->file, t->at + part * len, bytes, len, err);
    if (!st) {
        const qsf_tensor rows = { .type = (uint8_t)t->type, .block = (uint16_t)t->block, .data = bytes,
                                  .rows = (uint32_t)t->dims[1], .cols = (uint32_t)t->dims[0],
                                  .bytes = len };
        qsf_dequant_rows(&rows, 0, rows.rows, *out);
        r->hash = (r->hash ^ s->crc32(0, bytes, (size_t)len)) * 1099511628211u;
        if (!qsf_all_finite(*out, (size_t)values))
            st = lora_refuse(r, QSF_E_CORRUPT, t->name, "has values that are not finite", err);
    }
    qsf_dealloc(s->platform, bytes, len);
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
    case QSF_K_FFN_UP: case QSF_K_FFN_GATE: case QSF_K_FFN_DOWN:
    case QSF_K_ROUTER: case QSF_K_EXPERT_UP: case QSF_K_EXPERT_GATE:
    case QSF_K_TOKEN_EMBD: case QSF_K_OUTPUT:
        return true;
    case QSF_K_EXPERT_DOWN:     /* whether what an adapter adds is scaled, too, is not agreed upon */
        return qsf_unit_find(s, unit, QSF_K_EXPERT_WEIGHT) < 0;
    default:
        return false;
    }
}

/* n: pairs in the two tensors.  turned: A has a row for each column. */
static qsf_status check_pair(const qsf_lora_file *r, const gguf_tensor *a, const gguf_tensor *b, uint64_t n,
                             uint64_t rows, uint64_t cols, bool turned, qsf_error *err)
{
    const uint64_t rank = b->dims[0];
    if (a->dims[2] != n || b->dims[2] != n || a->dims[3] * b->dims[3] != 1)
        return qsf_fail(err, QSF_E_CORRUPT, "%s: tensor \"%.*s\" has %llu pairs and its lora_b %llu, which "
                        "does not fit the model's %llu: is it another model's adapter?", r->g.s->path,
                        (int)QSF_MIN(a->name.len, 80), a->name.p,
                        (unsigned long long)(a->dims[2] * a->dims[3]),
                        (unsigned long long)(b->dims[2] * b->dims[3]), (unsigned long long)n);
    if (a->dims[!turned] != rank || a->dims[turned] != cols || b->dims[1] != rows)
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

/* How rows of queries and keys lie in the model. */
static uint8_t lora_model_order(const qsf_source *s)
{
    const qsf_arch *arch = qsf_arch_find(s->hp.arch);
    const uint8_t gguf_order = arch ? arch->rope : QSF_ROPE_NONE;
    if (s->hp.rope != QSF_ROPE_NONE || gguf_order != QSF_ROPE_PAIRS) return s->hp.rope;
    /* This architecture could rotate but the model does not: rows have its source's order. */
    for (uint32_t i = 0; i < s->n_meta; i++)
        if (!strcmp(s->meta[i].key, "source.format")) return QSF_ROPE_HALVES;
    return gguf_order;
}

/* A head's rows in the model's order: in a file of pairs, adjacent rows rotate together; in one of
 * halves, such rows are half a head apart. */
static void lora_order_head(float *rows, float *head, uint32_t hd, uint32_t rank, bool to_halves)
{
    const uint32_t half = hd / 2;
    memcpy(head, rows, (size_t)hd * rank * sizeof *head);
    for (uint32_t i = 0; i < hd; i++) {
        const uint32_t to = to_halves ? i % 2 * half + i / 2 : i % half * 2 + i / half;
        memcpy(rows + (size_t)to * rank, head + (size_t)i * rank, rank * sizeof *rows);
    }
}

/* Rows of a query's or key's heads, from the adapter's order to the model's. */
static qsf_status lora_order_rows(const qsf_lora_file *r, uint32_t unit, uint32_t kind, uint32_t rows,
                                  uint32_t rank, float *b, qsf_error *err)
{
    const qsf_source *s = r->model;
    const qsf_layer *l = qsf_source_layer(s, unit);
    const uint8_t order = lora_model_order(s);
    if (!l || (kind != QSF_K_ATTN_Q && kind != QSF_K_ATTN_K)) return QSF_OK;
    if (r->peft && r->order == QSF_ROPE_NONE)
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: this version does not know how queries and keys of "
                        "architecture %s are stored in Hugging Face files: make a GGUF file of the adapter "
                        "with llama.cpp's convert_lora_to_gguf.py", r->g.s->path, s->hp.arch);
    if (order == r->order || order == QSF_ROPE_NONE) return QSF_OK;
    const uint32_t hd = l->head_dim, table = l->rope == QSF_NO_ROPE ? 0 : l->rope;
    if ((s->n_ropes && s->ropes[table].dim != hd) || hd % 2 || rows % hd ||
        (order != QSF_ROPE_HALVES && order != QSF_ROPE_PAIRS))
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: queries and keys of the model are rotated differently "
                        "from the adapter's: use the adapter with the model's %s", r->g.s->path,
                        r->peft ? "directory" : "GGUF file");
    const uint64_t bytes = (uint64_t)hd * rank * sizeof *b;
    float *head = qsf_alloc(s->platform, bytes, "an adapter", err);
    if (!head) return QSF_E_MEMORY;
    for (uint32_t h = 0; h < rows / hd; h++)
        lora_order_head(b + (uint64_t)h * hd * rank, head, hd, rank, order == QSF_ROPE_HALVES);
    qsf_dealloc(s->platform, head, bytes);
    return QSF_OK;
}

/* [rank][cols] becomes [cols][rank]. */
static qsf_status lora_transpose(const qsf_platform *p, float **v, uint32_t rank, uint32_t cols,
                                 qsf_error *err)
{
    float *to = qsf_alloc_array(p, (uint64_t)rank * cols, sizeof *to, "an adapter", err);
    if (!to) return QSF_E_MEMORY;
    for (uint32_t k = 0; k < rank; k++)
        for (uint32_t c = 0; c < cols; c++) to[(size_t)c * rank + k] = (*v)[(size_t)k * cols + c];
    qsf_dealloc(p, *v, (uint64_t)rank * cols * sizeof *to);
    *v = to;
    return QSF_OK;
}

/* Hands over what the model's share has of a group: these numbers are moved together. */
static qsf_status lora_take(const qsf_lora_file *r, const qsf_lora_group *whole, gguf_text name,
                            qsf_error *err)
{
    const qsf_source *s = r->model;
    qsf_lora_group k = *whole;
    qsf_range rows, cols = { 0, 0 };
    const float *from = k.b;
    float *to = k.b;
    if (!s->shared || k.unit >= s->hp.n_layers) return r->take(r->user, whole, err);
    if (k.n_experts)
        return lora_refuse(r, QSF_E_UNSUPPORTED, name, "is for experts, whose adapters this version cannot "
                           "run in shares of layers", err);
    for (uint32_t i = 0; i < k.n; i++) {
        qsf_share_matrix(s, k.unit, k.kinds[i], &rows, &cols);
        k.rows[i] = (uint32_t)(rows.end - rows.begin);
        memmove(to, from + rows.begin * k.rank, (size_t)k.rows[i] * k.rank * sizeof *to);
        to += (size_t)k.rows[i] * k.rank;
        from += (size_t)whole->rows[i] * k.rank;
    }
    k.cols = (uint32_t)(cols.end - cols.begin);
    for (size_t i = 0; i < k.rank; i++)
        memmove(k.a + i * k.cols, k.a + i * whole->cols + cols.begin, k.cols * sizeof *k.a);
    return r->take(r->user, &k, err);
}

/* Reads both matrices of a group that has been checked, the `part`th of their tensors, and hands it
 * over. */
static qsf_status lora_give_group(qsf_lora_file *r, qsf_lora_group *k, const gguf_tensor *a,
                                  const gguf_tensor *b, uint32_t part, qsf_error *err)
{
    const qsf_platform *p = r->model->platform;
    uint64_t row = 0;
    if (!qsf_part_needs(r->model, k->unit)) return QSF_OK;
    k->b = NULL;
    qsf_status st = read_floats(r, a, part, &k->a, err);
    if (!st) st = read_floats(r, b, part, &k->b, err);
    if (!st && k->embd && r->peft) st = lora_transpose(p, &k->a, k->rank, k->cols, err);
    for (uint32_t i = 0; i < k->n && !st; row += k->rows[i++])
        st = lora_order_rows(r, k->unit, k->kinds[i], k->rows[i], k->rank, k->b + row * k->rank, err);
    if (!st) st = lora_take(r, k, a->name, err);
    if (k->a) qsf_dealloc(p, k->a, (uint64_t)k->rank * k->cols * sizeof *k->a);
    if (k->b) qsf_dealloc(p, k->b, b->dims[0] * b->dims[1] * sizeof *k->b);
    return st;
}

static qsf_status lora_read_group(qsf_lora_file *r, struct lora_place *place, qsf_error *err)
{
    const qsf_source *s = r->model;
    const gguf_tensor *a = place->a, *b = place->b;
    qsf_lora_group k = { .n = 0 };
    uint64_t rows = 0;
    qsf_status st;
    k.n = qsf_gguf_kinds(s, place->base, b->dims[1], &k.unit, k.kinds);
    place->unit = k.unit;
    k.expert = place->expert;
    bool takes = k.n > 0;
    for (uint32_t i = 0; i < k.n; i++) takes &= lora_applies(s, k.unit, k.kinds[i]);
    if (!takes)
        return lora_refuse(r, QSF_E_UNSUPPORTED, a->name, "is for a matrix that the model does not have, or "
                           "whose adapters this version cannot run", err);
    const qsf_layer *layer = qsf_share_whole(s, k.unit);
    uint64_t cols = qsf_dim_size(&s->hp, layer, (qsf_dim)qsf_role_of(k.kinds[0])->cols);
    k.embd = k.kinds[0] == QSF_K_TOKEN_EMBD;
    k.n_experts = qsf_kind_is_experts(k.kinds[0]) ? layer->n_experts : 0;
    const uint32_t all = QSF_MAX(k.n_experts, 1), n = place->alone ? 1 : all;
    for (uint32_t i = 0; i < k.n; i++) {
        k.rows[i] = (uint32_t)qsf_role_outputs(&s->hp, layer, qsf_role_of(k.kinds[i])) / all;
        rows += k.rows[i];
    }
    if (place->alone && k.expert >= k.n_experts)
        return lora_refuse(r, QSF_E_CORRUPT, a->name, "is for an expert that the model does not have", err);
    if (k.embd) {       /* a token chooses a row of A; B gives the model's width */
        cols = rows;
        rows = k.rows[0] = s->hp.n_embd;
    }
    if ((st = check_pair(r, a, b, n, rows, cols, k.embd && !r->peft, err))) return st;
    k.rank = (uint32_t)b->dims[0];
    k.cols = (uint32_t)cols;
    k.scale = r->peft ? r->more.scales[a - r->g.tensors] : r->alpha != 0 ? r->alpha / (float)k.rank : 1;
    for (uint32_t i = 0; i < n && !st; i++) {
        st = lora_give_group(r, &k, a, b, i, err);
        k.expert++;
    }
    return st;
}

/* Takes ":17" from the end of a directory's name, which is of one expert then. */
static void lora_take_expert(struct lora_place *place)
{
    size_t at = place->base.len;
    while (at && place->base.p[at - 1] >= '0' && place->base.p[at - 1] <= '9') at--;
    if (!at || place->base.p[at - 1] != ':') return;
    for (size_t i = at; i < place->base.len; i++)
        place->expert = place->expert * 10 + (uint32_t)(place->base.p[i] - '0');
    place->alone = true;
    place->base.len = at - 1;
}

qsf_status qsf_lora_file_read(qsf_lora_file *r, qsf_error *err)
{
    gguf *g = &r->g;
    gguf_names names;
    gguf_text base, *list = qsf_arena_array(g->tmp, g->n_tensors, sizeof *list, "an adapter", err);
    uint32_t norms = 0;
    char other[256];
    r->n_places = 0;
    r->places = qsf_arena_array(g->tmp, g->n_tensors, sizeof *r->places, "an adapter", err);
    if (!list || !r->places) return QSF_E_MEMORY;
    for (uint32_t i = 0; i < g->n_tensors; i++) list[i] = g->tensors[i].name;
    qsf_status st = qsf_gguf_names(g->tmp, g->s->path, list, g->n_tensors, &names, NULL, err);
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
        if (!a) continue;
        r->places[r->n_places] = (struct lora_place){ .base = base, .a = &g->tensors[i],
                                                      .b = &g->tensors[at] };
        if (r->peft) lora_take_expert(&r->places[r->n_places]);
        st = lora_read_group(r, &r->places[r->n_places++], err);
    }
    if (!st && !r->n_places)
        return qsf_fail(err, QSF_E_CORRUPT, "%s: the adapter has no weights", g->s->path);
    if (!st && norms && r->warn.tell) {
        qsf_format(other, sizeof other, "%.160s: %u norms of the adapter are left out", g->s->path,
                   (unsigned)norms);
        r->warn.tell(r->warn.user, other);
    }
    return st;
}

qsf_status qsf_lora_file_again(qsf_lora_file *r, int64_t unit, qsf_error *err)
{
    qsf_status st = QSF_OK;
    for (uint32_t i = 0; i < r->n_places && !st; i++)
        if (unit < 0 || r->places[i].unit == unit) st = lora_read_group(r, &r->places[i], err);
    return st;
}

bool qsf_lora_file_extent(const qsf_lora_file *r, uint32_t unit, qsf_lora_bytes *out)
{
    uint64_t end = 0, sum = 0;
    out->at = UINT64_MAX;
    for (uint32_t i = 0; i < 2 * r->n_places; i++) {
        const struct lora_place *place = &r->places[i / 2];
        const gguf_tensor *t = i % 2 ? place->b : place->a;
        if (place->unit != unit) continue;
        if (sum && t->file != out->file) return false;
        out->file = t->file;
        out->at = QSF_MIN(out->at, t->at);
        end = QSF_MAX(end, t->at + t->bytes);       /* the file has both: they were read */
        sum += t->bytes;
    }
    out->len = sum ? end - out->at : 0;
    return sum && out->len <= sum + sum / 4;
}

/* ---- files ---- */

static qsf_status lora_open_gguf(qsf_lora_file *r, qsf_error *err)
{
    const qsf_source *s = r->g.s;
    const qsf_arch *arch = qsf_arch_find(r->model->hp.arch);
    uint8_t magic[4] = { 0 };
    qsf_status st;
    if (s->lengths[0] >= sizeof magic &&
        (st = qsf_source_read(s, 0, 0, magic, sizeof magic, "the first bytes", err))) return st;
    if (memcmp(magic, "GGUF", 4))
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: is not a GGUF file; adapters are GGUF files in "
                        "llama.cpp's form, or directories with adapter_config.json", s->path);
    if ((st = qsf_arena_new(s->platform, &r->g.tmp, err))) return st;
    r->order = arch ? arch->rope : QSF_ROPE_NONE;
    return (st = qsf_gguf_read_files(&r->g, err)) ? st : read_keys(r, err);
}

qsf_status qsf_lora_file_open(qsf_lora_file *r, const qsf_platform *p, const char *path,
                              const qsf_custom_file *file, qsf_error *err)
{
    qsf_status st;
    r->hash = 14695981039346656037u;
    r->peft = !file && path && qsf_peft_is(p, path);
    if (r->peft) {
        if ((st = qsf_peft_open(p, r->model, path, &r->warn, &r->g, &r->more, err))) return st;
        r->order = r->more.rows;
        r->alpha = r->more.alpha;
        if (!(r->name = qsf_arena_text(r->g.tmp, path, strlen(path), err))) return QSF_E_MEMORY;
    } else {
        if ((st = qsf_source_open_bare(p, path, file, &r->g.s, err))) return st;
        if ((st = lora_open_gguf(r, err))) return st;
    }
    r->n_tensors = r->g.n_tensors;
    return check_channels(r->model, err);
}

void qsf_lora_file_close(qsf_lora_file *r)
{
    if (r->g.tmp) qsf_gguf_done(&r->g);
    qsf_source_close(r->g.s);
    r->g = (gguf){ .s = NULL };
}
