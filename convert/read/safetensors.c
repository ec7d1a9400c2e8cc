/* Reads the header of a safetensors file.  Its author may be hostile: every number meets the file's
 * length first.
 * SPDX-License-Identifier: MIT */
#include "read/safetensors.h"
#include "read/json.h"

#include <stdlib.h>

#ifdef QSF_HAVE_YYJSON

static const uint64_t safetensors_max_header = 100 * 1000 * 1000;   /* the format's own limit */

typedef struct safetensors_dtype { const char *name; uint8_t bits, type; } safetensors_dtype;
static const safetensors_dtype safetensors_dtypes[] = {
    { "F32", 32, QSF_T_F32 }, { "F16", 16, QSF_T_F16 }, { "BF16", 16, QSF_T_BF16 },
    { "F64", 64, WEIGHTS_NO_TYPE }, { "I64", 64, WEIGHTS_NO_TYPE }, { "U64", 64, WEIGHTS_NO_TYPE },
    { "I32", 32, WEIGHTS_NO_TYPE }, { "U32", 32, WEIGHTS_NO_TYPE }, { "I16", 16, WEIGHTS_NO_TYPE },
    { "U16", 16, WEIGHTS_NO_TYPE }, { "I8", 8, WEIGHTS_NO_TYPE }, { "U8", 8, WEIGHTS_NO_TYPE },
    { "BOOL", 8, WEIGHTS_NO_TYPE }, { "F8_E4M3", 8, WEIGHTS_NO_TYPE }, { "F8_E5M2", 8, WEIGHTS_NO_TYPE },
    { "F8_E8M0", 8, WEIGHTS_NO_TYPE }, { "C64", 64, WEIGHTS_NO_TYPE },
};

static const safetensors_dtype *safetensors_find_dtype(const char *name)
{
    for (size_t i = 0; i < QSF_ARRAY_LEN(safetensors_dtypes); i++)
        if (!strcmp(name, safetensors_dtypes[i].name)) return &safetensors_dtypes[i];
    return NULL;
}

static qsf_status safetensors_shape(yyjson_val *v, const weights_file *f, weights_tensor *t, uint64_t *count,
                                    qsf_error *err)
{
    size_t i, n;
    yyjson_val *dim;
    *count = 1;
    if (!yyjson_is_arr(v))
        return qsf_fail(err, QSF_E_CORRUPT, "%s: tensor %s has no shape", f->path, t->name);
    yyjson_arr_foreach(v, i, n, dim) {
        uint64_t d;
        if (!qsf_json_u64(dim, &d) || qsf_mul_u64(*count, d, count))
            return qsf_fail(err, QSF_E_CORRUPT, "%s: tensor %s: shape is no list of sizes, or overflows",
                            f->path, t->name);
        if (i < WEIGHTS_MAX_DIMS) t->shape[i] = d;
    }
    t->n_dims = (uint32_t)QSF_MIN(yyjson_arr_size(v), UINT32_MAX);
    return QSF_OK;
}

/* One member of the header: its range in the data, and
 * whether that is what shape and dtype need. */
static qsf_status safetensors_entry(yyjson_val *v, const weights_file *f, uint64_t data, qsf_arena *arena,
                                    weights_tensor *t, qsf_error *err)
{
    uint64_t begin, end, count, bits;
    const char *dtype = qsf_json_get_str(v, "dtype");
    yyjson_val *range = qsf_json_get(v, "data_offsets");
    qsf_status st;

    if (!dtype) return qsf_fail(err, QSF_E_CORRUPT, "%s: tensor %s has no dtype", f->path, t->name);
    t->dtype = qsf_arena_text(arena, dtype, strlen(dtype), err);
    if (!t->dtype) return QSF_E_MEMORY;
    if ((st = safetensors_shape(qsf_json_get(v, "shape"), f, t, &count, err))) return st;
    if (yyjson_arr_size(range) != 2 || !qsf_json_u64(yyjson_arr_get_first(range), &begin) ||
        !qsf_json_u64(yyjson_arr_get_last(range), &end))
        return qsf_fail(err, QSF_E_CORRUPT, "%s: tensor %s has no data_offsets", f->path, t->name);
    if (begin > end || end > f->length - data)
        return qsf_fail(
            err, QSF_E_CORRUPT,
            "%s: tensor %s lies at %llu to %llu, the file has %llu bytes of data; is it cut short?", f->path,
            t->name, (unsigned long long)begin, (unsigned long long)end,
            (unsigned long long)(f->length - data));
    t->at = data + begin;
    t->bytes = end - begin;
    t->type = WEIGHTS_NO_TYPE;
    const safetensors_dtype *d = safetensors_find_dtype(dtype);
    if (!d) return QSF_OK;          /* a newer type: refused only where the tensor is needed */
    t->type = d->type;
    if (qsf_mul_u64(count, d->bits, &bits) || bits / 8 != t->bytes)
        return qsf_fail(err, QSF_E_CORRUPT, "%s: tensor %s has %llu bytes, its shape and dtype %s need %llu",
                        f->path, t->name, (unsigned long long)t->bytes, t->dtype,
                        (unsigned long long)(bits / 8));
    return QSF_OK;
}

static int safetensors_by_name(const void *a, const void *b)
{
    return strcmp((*(const weights_tensor *const *)a)->name, (*(const weights_tensor *const *)b)->name);
}
static int safetensors_by_place(const void *a, const void *b)
{
    const weights_tensor *x = *(const weights_tensor *const *)a, *y = *(const weights_tensor *const *)b;
    if (x->at != y->at) return x->at < y->at ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;      /* empty ones first: they overlap nothing */
}

static qsf_status safetensors_check(const qsf_platform *p, const weights_file *f, const weights_list *l,
                                    qsf_error *err)
{
    qsf_status st = QSF_OK;
    weights_tensor **order = qsf_alloc_array(p, l->n, sizeof *order, "safetensors order", err);
    if (!order) return QSF_E_MEMORY;
    for (uint32_t i = 0; i < l->n; i++) order[i] = &l->tensors[i];
    qsort(order, l->n, sizeof *order, safetensors_by_name);
    for (uint32_t i = 1; i < l->n && !st; i++)
        if (!strcmp(order[i - 1]->name, order[i]->name))
            st = qsf_fail(err, QSF_E_CORRUPT, "%s: tensor %s is there twice", f->path, order[i]->name);
    qsort(order, l->n, sizeof *order, safetensors_by_place);
    for (uint32_t i = 1; i < l->n && !st; i++)
        if (order[i]->at < order[i - 1]->at + order[i - 1]->bytes)
            st = qsf_fail(err, QSF_E_CORRUPT, "%s: tensors %s and %s overlap", f->path, order[i - 1]->name,
                          order[i]->name);
    qsf_dealloc(p, order, (uint64_t)l->n * sizeof *order);
    return st;
}

static qsf_status safetensors_entries(yyjson_val *root, const weights_file *f, uint32_t index, uint64_t data,
                                      qsf_arena *arena, weights_list *out, qsf_error *err)
{
    size_t i, n;
    yyjson_val *key, *val;
    if (!yyjson_is_obj(root))
        return qsf_fail(err, QSF_E_CORRUPT, "%s: the header is no JSON object", f->path);
    out->tensors =
        qsf_arena_array(arena, yyjson_obj_size(root), sizeof *out->tensors, "safetensors directory", err);
    if (!out->tensors) return QSF_E_MEMORY;
    json_members(root, i, n, key, val) {
        size_t len;
        const char *name = qsf_json_str(key, &len);
        if (!name) return qsf_fail(err, QSF_E_CORRUPT, "%s: a tensor's name has a 0 in it", f->path);
        if (!strcmp(name, "__metadata__")) continue;
        weights_tensor *t = &out->tensors[out->n++];
        t->file = index;
        t->name = qsf_arena_text(arena, name, len, err);
        if (!t->name) return QSF_E_MEMORY;
        const qsf_status st = safetensors_entry(val, f, data, arena, t, err);
        if (st) return st;
    }
    return QSF_OK;
}

qsf_status qsf_safetensors_read(const qsf_platform *p, const weights_file *f, uint32_t index,
                                qsf_arena *arena, weights_list *out, qsf_error *err)
{
    uint8_t head[8];
    char *text = NULL;
    uint64_t len = 0;
    json_text j = { 0 };
    qsf_status st;

    memset(out, 0, sizeof *out);
    if (f->length < sizeof head)
        return qsf_fail(err, QSF_E_CORRUPT, "%s: too short for a safetensors file", f->path);
    if ((st = qsf_read_all(p, f->file, 0, head, sizeof head, err))) return st;
    len = qsf_le64(head);
    if (len > safetensors_max_header || len > f->length - sizeof head)
        return qsf_fail(err, QSF_E_CORRUPT,
                        "%s: the header would have %llu bytes (the file has %llu, the format allows %llu); "
                        "not a safetensors file, or cut short",
                        f->path, (unsigned long long)len, (unsigned long long)f->length,
                        (unsigned long long)safetensors_max_header);
    text = qsf_alloc(p, len, "safetensors header", err);
    if (!text) return QSF_E_MEMORY;
    if (!(st = qsf_read_all(p, f->file, sizeof head, text, (size_t)len, err)) &&
        !(st = qsf_json_parse(p, text, (size_t)len, f->path, &j, err)) &&
        !(st = safetensors_entries(j.root, f, index, sizeof head + len, arena, out, err)))
        st = safetensors_check(p, f, out, err);
    qsf_json_free(&j);
    qsf_dealloc(p, text, len);
    return st;
}

#else

qsf_status qsf_safetensors_read(const qsf_platform *p, const weights_file *f, uint32_t index,
                                qsf_arena *arena, weights_list *out, qsf_error *err)
{
    (void)p, (void)index, (void)arena;
    memset(out, 0, sizeof *out);
    return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: this build has no JSON reader (yyjson)", f->path);
}

#endif
