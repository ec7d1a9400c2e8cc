/* Reads the header of a safetensors file.  Its author may be hostile: every number meets the file's
 * length first.
 * SPDX-License-Identifier: MIT */
#include "model/safetensors.h"

#include "base/order.h"
#include "model/gguf.h"
#include "text/json.h"

#if !defined(QSF_NO_CONVERTER)          /* which is who reads Hugging Face's files */

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

/* A whole number of the header. */
static bool safetensors_u64(const qsf_json_node *v, uint64_t *out)
{
    int64_t n;
    if (!v || !qsf_json_whole(v, &n) || n < 0) return false;
    *out = (uint64_t)n;
    return true;
}

static qsf_status safetensors_shape(const qsf_json_node *v, const weights_file *f, weights_tensor *t,
                                    uint64_t *count, qsf_error *err)
{
    *count = 1;
    if (!v || v->type != QSF_JSON_LIST)
        return qsf_fail(err, QSF_E_CORRUPT, "%s: tensor %s has no shape", f->path, t->name);
    const qsf_json_node *dim = qsf_json_first(v);
    for (uint32_t i = 0; i < v->n; i++, dim = qsf_json_next(dim)) {
        uint64_t d;
        if (!safetensors_u64(dim, &d) || qsf_mul_u64(*count, d, count))
            return qsf_fail(err, QSF_E_CORRUPT, "%s: tensor %s: shape is not a list of sizes, or overflows",
                            f->path, t->name);
        if (i < WEIGHTS_MAX_DIMS) t->shape[i] = d;
    }
    t->n_dims = v->n;
    return QSF_OK;
}

/* One member of the header: its range in the data, and
 * whether that is what shape and dtype need. */
static qsf_status safetensors_entry(const qsf_json_node *v, const weights_file *f, uint64_t data,
                                    qsf_arena *arena, weights_tensor *t, qsf_error *err)
{
    uint64_t begin, end, count, bits;
    const qsf_json_node *dtype = qsf_json_member(v, "dtype"), *range = qsf_json_member(v, "data_offsets");
    qsf_status st;

    if (!dtype || dtype->type != QSF_JSON_TEXT || memchr(dtype->text, 0, dtype->n))
        return qsf_fail(err, QSF_E_CORRUPT, "%s: tensor %s has no dtype", f->path, t->name);
    t->dtype = qsf_arena_text(arena, dtype->text, dtype->n, err);
    if (!t->dtype) return QSF_E_MEMORY;
    if ((st = safetensors_shape(qsf_json_member(v, "shape"), f, t, &count, err))) return st;
    const bool two = range && range->type == QSF_JSON_LIST && range->n == 2;
    if (!two || !safetensors_u64(qsf_json_first(range), &begin) ||
        !safetensors_u64(qsf_json_next(qsf_json_first(range)), &end))
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
    const safetensors_dtype *d = safetensors_find_dtype(t->dtype);
    if (!d) return QSF_OK;          /* a newer type: refused only if the tensor is needed */
    t->type = d->type;
    if (qsf_mul_u64(count, d->bits, &bits) || bits / 8 != t->bytes)
        return qsf_fail(err, QSF_E_CORRUPT, "%s: tensor %s has %llu bytes, its shape and dtype %s need %llu",
                        f->path, t->name, (unsigned long long)t->bytes, t->dtype,
                        (unsigned long long)(bits / 8));
    return QSF_OK;
}

/* Empty tensors sort first: they overlap nothing. */
static bool safetensors_starts_later(const void *tensors, uint32_t a, uint32_t b)
{
    const weights_tensor *x = (const weights_tensor *)tensors + a, *y = (const weights_tensor *)tensors + b;
    return x->at != y->at ? x->at > y->at : x->bytes > y->bytes;
}

static qsf_status safetensors_apart(const weights_file *f, const weights_list *l, qsf_arena *arena,
                                    qsf_error *err)
{
    uint32_t *order = qsf_arena_array(arena, l->n, sizeof *order, "safetensors order", err);
    if (!order) return QSF_E_MEMORY;
    for (uint32_t i = 0; i < l->n; i++) order[i] = i;
    qsf_order_sort(order, l->n, safetensors_starts_later, l->tensors);
    for (uint32_t i = 1; i < l->n; i++) {
        const weights_tensor *before = &l->tensors[order[i - 1]], *t = &l->tensors[order[i]];
        if (t->at < before->at + before->bytes)
            return qsf_fail(err, QSF_E_CORRUPT, "%s: tensors %s and %s overlap", f->path, before->name,
                            t->name);
    }
    return QSF_OK;
}

/* No name and no byte is there twice. */
static qsf_status safetensors_check(const qsf_platform *p, const weights_file *f, const weights_list *l,
                                    qsf_error *err)
{
    gguf_names names;
    int64_t twice = -1;
    qsf_arena *tmp;
    qsf_status st = qsf_arena_new(p, &tmp, err);
    if (st) return st;
    gguf_text *list = qsf_arena_array(tmp, l->n, sizeof *list, "safetensors names", err);
    for (uint32_t i = 0; list && i < l->n; i++)
        list[i] = (gguf_text){ l->tensors[i].name, strlen(l->tensors[i].name) };
    st = list ? qsf_gguf_names(tmp, f->path, list, l->n, &names, &twice, err) : QSF_E_MEMORY;
    if (!st && twice >= 0)
        st = qsf_fail(err, QSF_E_CORRUPT, "%s: tensor %s occurs twice", f->path, list[twice].p);
    if (!st) st = safetensors_apart(f, l, tmp, err);
    qsf_arena_free(tmp);
    return st;
}

static qsf_status safetensors_entries(const qsf_json_node *root, const weights_file *f, uint32_t index,
                                      uint64_t data, qsf_arena *arena, weights_list *out, qsf_error *err)
{
    if (root->type != QSF_JSON_OBJECT)
        return qsf_fail(err, QSF_E_CORRUPT, "%s: the header is not a JSON object", f->path);
    out->tensors = qsf_arena_array(arena, root->n, sizeof *out->tensors, "safetensors directory", err);
    if (!out->tensors) return QSF_E_MEMORY;
    const qsf_json_node *key = qsf_json_first(root);
    for (uint32_t i = 0; i < root->n; i++, key = qsf_json_next(qsf_json_next(key))) {
        if (memchr(key->text, 0, key->n))
            return qsf_fail(err, QSF_E_CORRUPT, "%s: a tensor's name contains a zero byte", f->path);
        if (qsf_json_is_text(key, "__metadata__")) continue;
        weights_tensor *t = &out->tensors[out->n++];
        t->file = index;
        t->name = qsf_arena_text(arena, key->text, key->n, err);
        if (!t->name) return QSF_E_MEMORY;
        const qsf_status st = safetensors_entry(qsf_json_next(key), f, data, arena, t, err);
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
    qsf_json j = { 0 };
    qsf_status st;

    memset(out, 0, sizeof *out);
    if (f->length < sizeof head)
        return qsf_fail(err, QSF_E_CORRUPT, "%s: too short for a safetensors file", f->path);
    if ((st = qsf_read_all(p, f->file, f->path, 0, head, sizeof head, err))) return st;
    len = qsf_le64(head);
    if (len > safetensors_max_header || len > f->length - sizeof head)
        return qsf_fail(err, QSF_E_CORRUPT,
                        "%s: the header would have %llu bytes (the file has %llu, the format allows %llu); "
                        "not a safetensors file, or cut short",
                        f->path, (unsigned long long)len, (unsigned long long)f->length,
                        (unsigned long long)safetensors_max_header);
    text = qsf_alloc(p, len, "safetensors header", err);
    if (!text) return QSF_E_MEMORY;
    if (!(st = qsf_read_all(p, f->file, f->path, sizeof head, text, (size_t)len, err)) &&
        !(st = qsf_json_read(p, text, (size_t)len, f->path, &j, err)) &&
        !(st = safetensors_entries(j.nodes, f, index, sizeof head + len, arena, out, err)))
        st = safetensors_check(p, f, out, err);
    qsf_json_drop(&j);
    qsf_dealloc(p, text, len);
    return st;
}

#else

qsf_status qsf_safetensors_read(const qsf_platform *p, const weights_file *f, uint32_t index,
                                qsf_arena *arena, weights_list *out, qsf_error *err)
{
    (void)p, (void)index, (void)arena;
    memset(out, 0, sizeof *out);
    return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: this build does not read safetensors files", f->path);
}

#endif
