/* Opens the weight files of a Hugging Face directory (one or sharded, safetensors or PyTorch) and
 * reads rows from them.
 * SPDX-License-Identifier: MIT */
#include "read/hf_weights.h"
#include "read/json.h"
#include "read/pickle.h"
#include "model/safetensors.h"
#include "base/text_file.h"

#include <stdlib.h>

static int weights_name_order(const void *key, const void *elem)
{
    return strcmp(key, (*(weights_tensor *const *)elem)->name);
}

weights_tensor *qsf_hf_weights_find(const hf_weights *w, const char *name)
{
    weights_tensor **at =
        w->n ? bsearch(name, w->by_name, w->n, sizeof *w->by_name, weights_name_order) : NULL;
    return at ? *at : NULL;
}

#ifdef QSF_HAVE_YYJSON

enum { HF_MAX_SHARDS = 4096 };

static int weights_pointer_order(const void *a, const void *b)
{
    return strcmp((*(weights_tensor *const *)a)->name, (*(weights_tensor *const *)b)->name);
}

static const char *hf_join(qsf_arena *arena, const char *dir, const char *name, qsf_error *err)
{
    const size_t cap = strlen(dir) + strlen(name) + 2;
    char *path = qsf_arena_alloc(arena, cap, "path", err);
    if (path) qsf_format(path, cap, "%s/%s", dir, name);
    return path;
}

/* Opens one file and appends its tensors. */
static qsf_status hf_open_file(const qsf_platform *p, const char *dir, const char *name, bool pickled,
                               qsf_arena *arena, hf_weights *w, weights_list *list, qsf_error *err)
{
    weights_file *f = &w->files[w->n_files];
    qsf_status st;
    if (!(f->path = hf_join(arena, dir, name, err))) return QSF_E_MEMORY;
    if ((st = qsf_host_open(p, f->path, &f->file, &f->length, err))) return st;
    w->n_files++;
    return pickled ? qsf_pickle_read(p, f, w->n_files - 1, arena, list, err)
                   : qsf_safetensors_read(p, f, w->n_files - 1, arena, list, err);
}

/* A shard's name from the index stays in the directory. */
static bool hf_plain_name(const char *name)
{
    return name && *name && !strchr(name, '/') && !strchr(name, '\\') && !strchr(name, ':') &&
           strcmp(name, ".") && strcmp(name, "..");
}

static qsf_status hf_sort(hf_weights *w, const weights_list *lists, uint32_t n_lists, qsf_arena *arena,
                          qsf_error *err)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < n_lists; i++) n += lists[i].n;
    if (n > UINT32_MAX) return qsf_fail(err, QSF_E_CORRUPT, "more than 2^32 tensors");
    if (!(w->by_name = qsf_arena_array(arena, n, sizeof *w->by_name, "tensor index", err)))
        return QSF_E_MEMORY;
    for (uint32_t i = 0; i < n_lists; i++)
        for (uint32_t k = 0; k < lists[i].n; k++) w->by_name[w->n++] = &lists[i].tensors[k];
    qsort(w->by_name, w->n, sizeof *w->by_name, weights_pointer_order);
    for (uint32_t i = 1; i < w->n; i++)
        if (!strcmp(w->by_name[i - 1]->name, w->by_name[i]->name))
            return qsf_fail(err, QSF_E_CORRUPT, "tensor %s is in %s and in %s", w->by_name[i]->name,
                            w->files[w->by_name[i - 1]->file].path, w->files[w->by_name[i]->file].path);
    return QSF_OK;
}

/* The distinct file names of the index, in order of appearance. */
static qsf_status hf_shard_names(yyjson_val *map, const char *what, const char **names, uint32_t *n,
                                 qsf_error *err)
{
    size_t i, count;
    yyjson_val *key, *val;
    json_members(map, i, count, key, val) {
        const char *name = qsf_json_str(val, NULL);
        /* entries of one shard mostly follow each other: look back from the end */
        uint32_t k = *n;
        if (!hf_plain_name(name))
            return qsf_fail(err, QSF_E_CORRUPT, "%s: tensor %s lies in a file with no plain name", what,
                            yyjson_get_str(key));
        while (k && strcmp(names[k - 1], name)) k--;
        if (k) continue;
        if (*n == HF_MAX_SHARDS)
            return qsf_fail(err, QSF_E_CORRUPT, "%s: more than %d files", what, (int)HF_MAX_SHARDS);
        names[(*n)++] = name;
    }
    return *n ? QSF_OK : qsf_fail(err, QSF_E_CORRUPT, "%s: no weight_map", what);
}

/* Every tensor of the index is in the file that it names. */
static qsf_status hf_check_index(yyjson_val *map, const hf_weights *w, const char *dir, qsf_error *err)
{
    size_t i, n;
    yyjson_val *key, *val;
    json_members(map, i, n, key, val) {
        const char *name = qsf_json_str(key, NULL), *file = qsf_json_str(val, NULL);
        const weights_tensor *t = name ? qsf_hf_weights_find(w, name) : NULL;
        if (!t || strcmp(w->files[t->file].path + strlen(dir) + 1, file))
            return qsf_fail(err, QSF_E_CORRUPT, "tensor %s is not in %s, where the index has it",
                            name ? name : "?", file);
    }
    return QSF_OK;
}

static qsf_status hf_open_shards(const qsf_platform *p, const char *dir, const char *index, yyjson_val *map,
                                 bool pickled, qsf_arena *arena, hf_weights *w, qsf_error *err)
{
    const char **names = qsf_arena_array(arena, HF_MAX_SHARDS, sizeof *names, "shard names", err);
    uint32_t n = 0;
    qsf_status st;
    if (!names) return QSF_E_MEMORY;
    if ((st = hf_shard_names(map, index, names, &n, err))) return st;
    weights_list *lists = qsf_arena_array(arena, n, sizeof *lists, "shards", err);
    w->files = qsf_arena_array(arena, n, sizeof *w->files, "shards", err);
    if (!lists || !w->files) return QSF_E_MEMORY;
    for (uint32_t i = 0; i < n; i++)
        if ((st = hf_open_file(p, dir, names[i], pickled, arena, w, &lists[i], err))) return st;
    if ((st = hf_sort(w, lists, n, arena, err))) return st;
    return hf_check_index(map, w, dir, err);
}

static qsf_status hf_open_index(const qsf_platform *p, const char *dir, const char *index, bool pickled,
                                qsf_arena *arena, hf_weights *w, qsf_error *err)
{
    char *text;
    uint64_t len;
    json_text j = { 0 };
    qsf_status st = qsf_text_file_read(p, dir, index, 64 << 20, &text, &len, err);
    if (st) return st;
    yyjson_val *map = NULL;
    if (!(st = qsf_json_parse(p, text, (size_t)len, index, &j, err)) &&
        !(st = qsf_json_check_object(j.root, index, err)) &&
        !(st = qsf_json_get_obj(j.root, index, "weight_map", &map, err)))
        st = hf_open_shards(p, dir, index, map, pickled, arena, w, err);
    qsf_json_free(&j);
    qsf_dealloc(p, text, len + 1);
    return st;
}

static qsf_status hf_open_single(const qsf_platform *p, const char *dir, const char *name, bool pickled,
                                 qsf_arena *arena, hf_weights *w, qsf_error *err)
{
    weights_list *list = qsf_arena_array(arena, 1, sizeof *list, "tensor list", err);
    w->files = qsf_arena_array(arena, 1, sizeof *w->files, "weight files", err);
    if (!list || !w->files) return QSF_E_MEMORY;
    const qsf_status st = hf_open_file(p, dir, name, pickled, arena, w, list, err);
    return st ? st : hf_sort(w, list, 1, arena, err);
}

qsf_status qsf_hf_weights_open(const qsf_platform *p, const char *dir, qsf_arena *arena, hf_weights *w,
                               const char **format, qsf_error *err)
{
    static const struct { const char *name, *format; bool index, pickled; } kinds[] = {
        { "model.safetensors", "safetensors", false, false },
        { "model.safetensors.index.json", "safetensors", true, false },
        { "pytorch_model.bin", "pytorch", false, true },
        { "pytorch_model.bin.index.json", "pytorch", true, true },
    };
    for (size_t i = 0; i < QSF_ARRAY_LEN(kinds); i++) {
        memset(w, 0, sizeof *w);
        const qsf_status st = kinds[i].index
                                  ? hf_open_index(p, dir, kinds[i].name, kinds[i].pickled, arena, w, err)
                                  : hf_open_single(p, dir, kinds[i].name, kinds[i].pickled, arena, w, err);
        /* Not found is only "try the next" where not even the first file of the kind opened. */
        if (st == QSF_E_NOT_FOUND && !w->n_files && !(kinds[i].index && w->files)) continue;
        *format = kinds[i].format;
        return st;
    }
    return qsf_fail(err, QSF_E_NOT_FOUND, "%s: no model.safetensors, pytorch_model.bin or index of one", dir);
}

void qsf_hf_weights_close(const qsf_platform *p, hf_weights *w)
{
    for (uint32_t i = 0; i < w->n_files; i++) p->close(p->user, w->files[i].file);
    w->n_files = 0;
}

#endif

/* ---- rows ------------------------------------------------------------------------------------ */

/* Halves that lie in the second half of out's bytes become floats from the front: value i is
 * written at 4i and the unread ones begin at 2n + 2(i + 1), which is never below 4i + 4. */
static void weights_widen(float *out, size_t n, uint8_t type)
{
    const uint8_t *src = (const uint8_t *)out + 2 * n;
    for (size_t i = 0; i < n; i++) {
        const uint16_t h = qsf_le16(src + 2 * i);
        out[i] = type == QSF_T_BF16 ? qsf_bf16_to_f32(h) : qsf_f16_to_f32(h);
    }
}

static float weights_value(const uint8_t *src, uint8_t type)
{
    if (type == QSF_T_F32) return qsf_lef32(src);
    return type == QSF_T_BF16 ? qsf_bf16_to_f32(qsf_le16(src)) : qsf_f16_to_f32(qsf_le16(src));
}

static qsf_status weights_read_dense(const qsf_platform *p, const hf_weights *w, const hf_place *pl,
                                     uint64_t first, size_t n, float *out, qsf_error *err)
{
    const weights_tensor *t = pl->t;
    const size_t size = t->type == QSF_T_F32 ? 4 : 2;
    uint8_t *dst = (uint8_t *)out + (4 - size) * n;
    const qsf_status st = qsf_read_all(p, w->files[t->file].file, t->at + first * size, dst, n * size, err);
    if (st) return st;
    if (size == 2) weights_widen(out, n, t->type);
    else for (size_t i = 0; i < n; i++) out[i] = qsf_lef32((const uint8_t *)out + 4 * i);
    return QSF_OK;
}

/* Stored [cols][stride]: the wanted rows are a span of each stored line.  Lines are read many at a
 * time where the span is a good part of them, else span by span. */
static qsf_status weights_read_turned(const qsf_platform *p, const hf_weights *w, const hf_place *pl,
                                      uint64_t first, uint32_t n, uint32_t cols, float *out, qsf_error *err)
{
    const weights_tensor *t = pl->t;
    const uint64_t size = t->type == QSF_T_F32 ? 4 : 2, line = pl->stride * size, span = n * size;
    const uint64_t room = QSF_MAX((uint64_t)1 << 20, span);
    const uint32_t most = span * 8 < line ? 1 : (uint32_t)QSF_MIN((uint64_t)cols, (room - span) / line + 1);
    uint8_t *buf = qsf_alloc(p, (most - 1) * line + span, "rows of a transposed tensor", err);
    qsf_status st = QSF_OK;
    if (!buf) return QSF_E_MEMORY;
    for (uint32_t c = 0; c < cols && !st; ) {
        const uint32_t k = QSF_MIN(most, cols - c);
        st = qsf_read_all(p, w->files[t->file].file, t->at + first * size + c * line, buf,
                          (size_t)((k - 1) * line + span), err);
        for (uint32_t j = 0; j < k && !st; j++)
            for (uint32_t r = 0; r < n; r++)
                out[(size_t)r * cols + c + j] = weights_value(buf + j * line + r * size, t->type);
        c += k;
    }
    qsf_dealloc(p, buf, (most - 1) * line + span);
    return st;
}

/* ---- ternary matrices ---- */

/* Row r of four groups of rows lies in the bits 2g, 2g + 1 of stored row r % (rows / 4), g = r /
 * (rows / 4); codes 0, 1, 2 are -1, 0, 1. */
static qsf_status weights_read_packed(const qsf_platform *p, const hf_weights *w, const hf_place *pl,
                                      uint32_t row, uint32_t n, uint32_t cols, float *out, qsf_error *err)
{
    const weights_tensor *t = pl->t;
    const uint32_t stored = pl->rows / 4;
    uint8_t *line = qsf_alloc(p, cols, "a row of ternary codes", err);
    qsf_status st = line ? QSF_OK : QSF_E_MEMORY;
    for (uint32_t r = row; r < row + n && !st; r++, out += cols) {
        st = qsf_read_all(p, w->files[t->file].file, t->at + (uint64_t)(r % stored) * cols, line, cols, err);
        for (uint32_t c = 0; c < cols && !st; c++) {
            const int code = line[c] >> 2 * (r / stored) & 3;
            if (code == 3)
                st = qsf_fail(err, QSF_E_CORRUPT, "tensor %s: row %u, column %u has code 3, which no ternary "
                              "value has", t->name, (unsigned)r, (unsigned)c);
            out[c] = (float)(code - 1) * pl->scale;
        }
    }
    qsf_dealloc(p, line, cols);
    return st;
}

static void weights_round_masters(const hf_place *pl, size_t n, float *w)
{
    for (size_t i = 0; i < n; i++) {
        const float code = QSF_MAX(-1.0f, QSF_MIN(1.0f, rintf(w[i] * pl->sharp)));
        w[i] = code == 0 ? 0 : code * pl->scale;               /* no zero below zero */
    }
}

enum { WEIGHTS_BAND = 1 << 18 };        /* values that are looked at together */

qsf_status qsf_hf_weights_masters(const qsf_platform *p, const hf_weights *w, hf_place *pl, uint32_t rows,
                                  uint32_t cols, qsf_error *err)
{
    const uint32_t band = QSF_MIN(rows, QSF_MAX(1u, (uint32_t)WEIGHTS_BAND / cols));
    const uint64_t bytes = (uint64_t)band * cols * sizeof(float);
    float *v = qsf_alloc(p, bytes, "rows of a ternary tensor", err), one = 0;
    qsf_status st = v ? QSF_OK : QSF_E_MEMORY;
    bool ternary = true;
    double sum = 0;
    for (uint32_t row = 0; row < rows && !st; row += band) {
        const uint32_t n = QSF_MIN(band, rows - row);
        st = qsf_hf_weights_rows(p, w, pl, cols, row, n, v, err);
        for (size_t i = 0; i < (size_t)n * cols && !st; i++) {
            const float size = fabsf(v[i]);
            if (one == 0) one = size;
            ternary = ternary && (size == 0 || size == one);
            sum += size;
        }
    }
    qsf_dealloc(p, v, bytes);
    if (st || ternary) return st;
    const double mean = sum / ((double)rows * cols);
    if (!isfinite(mean))
        return qsf_fail(err, QSF_E_CORRUPT, "tensor %s: its mean magnitude is %g", pl->t->name, mean);
    pl->sharp = 1 / QSF_MAX((float)mean, 1e-5f);
    pl->scale = 1 / pl->sharp;
    return QSF_OK;
}

qsf_status qsf_hf_weights_number(const qsf_platform *p, const hf_weights *w, const weights_tensor *t,
                                 float *value, qsf_error *err)
{
    const hf_place pl = { .t = t };
    const uint64_t size = t->type == QSF_T_F32 ? 4 : 2;
    if (t->type == WEIGHTS_NO_TYPE || t->bytes != size)
        return qsf_fail(err, QSF_E_CORRUPT, "tensor %s is of type %s and %llu bytes, expected one number",
                        t->name, t->dtype, (unsigned long long)t->bytes);
    const qsf_status st = weights_read_dense(p, w, &pl, 0, 1, value, err);
    if (st || (isfinite(*value) && *value > 0)) return st;
    return qsf_fail(err, QSF_E_CORRUPT, "tensor %s is %g, expected a number above 0", t->name,
                    (double)*value);
}

/* Experts, each in a tensor of its own. */
static qsf_status weights_read_each(const qsf_platform *p, const hf_weights *w, const hf_place *pl,
                                    uint32_t row, uint32_t n, uint32_t cols, float *out, qsf_error *err)
{
    qsf_status st = QSF_OK;
    while (n && !st) {
        const uint32_t in = row % pl->each_rows, have = QSF_MIN(n, pl->each_rows - in);
        const hf_place one = { .t = pl->each[row / pl->each_rows] };
        st = weights_read_dense(p, w, &one, (uint64_t)in * cols, (size_t)have * cols, out, err);
        out += (size_t)have * cols;
        row += have;
        n -= have;
    }
    return st;
}

qsf_status qsf_hf_weights_rows(const qsf_platform *p, const hf_weights *w, const hf_place *pl, uint32_t cols,
                               uint32_t row, uint32_t n, float *out, qsf_error *err)
{
    const size_t count = (size_t)n * cols;
    qsf_status st;
    if (!n) return QSF_OK;
    if (pl->each) return weights_read_each(p, w, pl, row, n, cols, out, err);
    if (pl->packed) return weights_read_packed(p, w, pl, row, n, cols, out, err);
    st = pl->stride ? weights_read_turned(p, w, pl, pl->first + row, n, cols, out, err)
                    : weights_read_dense(p, w, pl, pl->first + (uint64_t)row * cols, count, out, err);
    if (!st && pl->add != 0)
        for (size_t i = 0; i < count; i++) out[i] += pl->add;
    if (!st && pl->sharp != 0) weights_round_masters(pl, count, out);
    return st;
}
