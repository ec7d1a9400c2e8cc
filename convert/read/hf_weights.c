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
bool qsf_hf_plain_name(const char *name)
{
    return name && *name && !strchr(name, '/') && !strchr(name, '\\') && !strchr(name, ':') &&
           strcmp(name, ".") && strcmp(name, "..");
}

/* Adds tensors to the index. */
static qsf_status hf_sort(hf_weights *w, const weights_list *lists, uint32_t n_lists, qsf_arena *arena,
                          qsf_error *err)
{
    uint64_t n = w->n;
    weights_tensor **before = w->by_name;
    for (uint32_t i = 0; i < n_lists; i++) n += lists[i].n;
    if (n > UINT32_MAX) return qsf_fail(err, QSF_E_CORRUPT, "more than 2^32 tensors");
    if (!(w->by_name = qsf_arena_array(arena, n, sizeof *w->by_name, "tensor index", err)))
        return QSF_E_MEMORY;
    if (w->n) memcpy(w->by_name, before, w->n * sizeof *before);
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
        if (!qsf_hf_plain_name(name))
            return qsf_fail(err, QSF_E_CORRUPT, "%s: tensor %s is in a file whose name is not a plain one",
                                                what,
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
            return qsf_fail(err, QSF_E_CORRUPT, "tensor %s is not in %s, although the index lists it there",
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
        /* Not found means "try the next" only if not even the first file of the kind could be
         * opened. */
        if (st == QSF_E_NOT_FOUND && !w->n_files && !(kinds[i].index && w->files)) continue;
        *format = kinds[i].format;
        return st;
    }
    return qsf_fail(err, QSF_E_NOT_FOUND, "%s: no model.safetensors, pytorch_model.bin or index of one", dir);
}

/* Prefixes the names of a module's tensors with the module's name. */
static qsf_status hf_rename(qsf_arena *arena, const char *as, const weights_list *list, qsf_error *err)
{
    for (uint32_t i = 0; i < list->n; i++)
        if (!(list->tensors[i].name = hf_join(arena, as, list->tensors[i].name, err))) return QSF_E_MEMORY;
    return QSF_OK;
}

qsf_status qsf_hf_weights_add(const qsf_platform *p, const char *dir, const char *folder, const char *as,
                              qsf_arena *arena, hf_weights *w, qsf_error *err)
{
    static const char *const kinds[] = { "model.safetensors", "pytorch_model.bin" };
    weights_list *list = qsf_arena_array(arena, 1, sizeof *list, "tensor list", err);
    weights_file *files = qsf_arena_array(arena, w->n_files + 1, sizeof *files, "weight files", err);
    if (!list || !files) return QSF_E_MEMORY;
    memcpy(files, w->files, w->n_files * sizeof *files);
    w->files = files;
    for (int i = 0; i < 2; i++) {
        const uint32_t before = w->n_files;
        const char *name = hf_join(arena, folder, kinds[i], err);
        qsf_status st = name ? hf_open_file(p, dir, name, i != 0, arena, w, list, err) : QSF_E_MEMORY;
        if (st == QSF_E_NOT_FOUND && w->n_files == before) continue;
        if (!st) st = hf_rename(arena, as, list, err);
        return st ? st : hf_sort(w, list, 1, arena, err);
    }
    return qsf_fail(err, QSF_E_NOT_FOUND, "%s/%s: neither model.safetensors nor pytorch_model.bin", dir,
                    folder);
}

void qsf_hf_weights_close(const qsf_platform *p, hf_weights *w)
{
    for (uint32_t i = 0; i < w->n_files; i++) p->close(p->user, w->files[i].file);
    w->n_files = 0;
}

#endif
