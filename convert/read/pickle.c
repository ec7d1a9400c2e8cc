/* The tensors of a PyTorch checkpoint: as its pickle lists them, located in the archive.
 * SPDX-License-Identifier: MIT
 * What PyTorch writes: torch/serialization.py, torch/_utils.py. */
#include "read/pickle.h"

#include "read/pickle_machine.h"
#include "read/zip.h"

static const uint64_t pickle_max_bytes = 64 << 20;

typedef struct pickle_archive {
    const weights_file *f;
    uint32_t            index;
    zip_dir             zip;
    char                prefix[256];    /* "archive/" */
    qsf_arena          *arena;
} pickle_archive;

/* Rows one after another, or the two dimensions swapped.  The stride of a dimension of size 1 does
 * not matter. */
static bool pickle_layout(const pickle_tensor *t, uint64_t *count, bool *transposed)
{
    uint64_t n = 1;
    bool dense = true;
    for (uint32_t i = t->n_dims; i-- > 0; ) {
        if (t->shape[i] != 1 && t->stride[i] != n) dense = false;
        if (qsf_mul_u64(n, t->shape[i], &n)) return false;
    }
    *count = n;
    *transposed = !dense && t->n_dims == 2 && t->stride[0] == 1 && t->stride[1] == t->shape[0];
    return dense || *transposed || !n;
}

static qsf_status pickle_place(const pickle_archive *a, const pickle_tensor *t, weights_tensor *w,
                               qsf_error *err)
{
    const pickle_storage *s = t->storage;
    char name[512];
    uint64_t count, end, bytes;
    w->dtype = s->type->name;
    w->type = s->type->type;
    w->n_dims = t->n_dims;
    memcpy(w->shape, t->shape, sizeof w->shape);
    w->file = a->index;
    qsf_format(name, sizeof name, "%sdata/%.*s", a->prefix, (int)QSF_MIN(s->key_len, 128), s->key);
    const zip_entry *e = qsf_zip_find(&a->zip, name);
    if (!e)
        return qsf_fail(err, QSF_E_CORRUPT, "%s: tensor %s: the archive has no %s", a->f->path, w->name,
                        name);
    if (e->method) return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: entry %s is compressed", a->f->path, name);
    if (qsf_mul_u64(s->n, s->type->size, &bytes) || bytes > e->size)
        return qsf_fail(err, QSF_E_CORRUPT,
                        "%s: tensor %s: entry %s has %llu bytes, its %llu values need more", a->f->path,
                        w->name, name, (unsigned long long)e->size, (unsigned long long)s->n);
    if (t->n_dims > WEIGHTS_MAX_DIMS)
        return w->type = WEIGHTS_NO_TYPE, QSF_OK;    /* refused where it is needed */
    if (!pickle_layout(t, &count, &w->transposed))
        return qsf_fail(err, QSF_E_UNSUPPORTED,
                        "%s: tensor %s is neither dense nor transposed (strides %llu, %llu)", a->f->path,
                        w->name, (unsigned long long)t->stride[0], (unsigned long long)t->stride[1]);
    if (qsf_add_u64(t->offset, count, &end) || end > s->n)
        return qsf_fail(err, QSF_E_CORRUPT, "%s: tensor %s has values %llu to %llu of a storage of %llu",
                        a->f->path, w->name, (unsigned long long)t->offset, (unsigned long long)end,
                        (unsigned long long)s->n);
    w->at = e->at + t->offset * s->type->size;
    w->bytes = count * s->type->size;
    return QSF_OK;
}

static qsf_status pickle_collect(const pickle_archive *a, const pickle_value *top, weights_list *out,
                                 qsf_error *err)
{
    if (top->kind != PV_DICT)
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: the pickle does not hold a state dict", a->f->path);
    if (!(out->tensors =
              qsf_arena_array(a->arena, top->u.chain->n / 2, sizeof *out->tensors, "tensor list", err)))
        return QSF_E_MEMORY;
    for (const pickle_node *k = top->u.chain->head; k; k = k->next->next) {
        const pickle_value *key = &k->v, *val = &k->next->v;
        /* counters and versions among the tensors */
        if (key->kind != PV_TEXT || val->kind != PV_TENSOR) continue;
        weights_tensor *w = &out->tensors[out->n];
        if (memchr(key->u.text, 0, key->len))
            return qsf_fail(err, QSF_E_CORRUPT, "%s: a tensor's name contains a zero byte", a->f->path);
        if (!(w->name = qsf_arena_text(a->arena, key->u.text, key->len, err))) return QSF_E_MEMORY;
        const qsf_status st = pickle_place(a, val->u.tensor, w, err);
        if (st) return st;
        out->n++;
    }
    return out->n ? QSF_OK
                  : qsf_fail(err, QSF_E_UNSUPPORTED, "%s: the pickle's dict holds no tensors", a->f->path);
}

static qsf_status pickle_read_code(const qsf_platform *p, const pickle_archive *a, const zip_entry *e,
                                   uint8_t *code, weights_list *out, qsf_error *err)
{
    pickle_value top = { 0 };
    qsf_arena *values;
    qsf_status st;
    if ((st = qsf_read_all(p, a->f->file, a->f->path, e->at, code, (size_t)e->size, err))) return st;
    if (qsf_crc32(0, code, (size_t)e->size) != e->crc)
        return qsf_fail(err, QSF_E_CORRUPT, "%s: entry %s is damaged (CRC)", a->f->path, e->name);
    if ((st = qsf_arena_new(p, &values, err))) return st;
    st = qsf_pickle_run(p, a->f->path, code, (size_t)e->size, values, &top, err);
    if (!st) st = pickle_collect(a, &top, out, err);
    qsf_arena_free(values);
    return st;
}

/* The archive's one folder is that of data.pkl. */
static const zip_entry *pickle_find_code(pickle_archive *a)
{
    static const char tail[] = "/data.pkl";
    for (uint32_t i = 0; i < a->zip.n; i++) {
        const char *name = a->zip.entries[i].name;
        const size_t n = strlen(name), k = sizeof tail - 1;
        if (n <= k || strcmp(name + n - k, tail) || n - k + 2 > sizeof a->prefix || memchr(name, '/', n - k))
            continue;
        qsf_format(a->prefix, sizeof a->prefix, "%.*s/", (int)(n - k), name);
        return &a->zip.entries[i];
    }
    return NULL;
}

static qsf_status pickle_check_order(const qsf_platform *p, const pickle_archive *a, qsf_error *err)
{
    char name[300], text[3];
    qsf_format(name, sizeof name, "%sbyteorder", a->prefix);
    const zip_entry *e = qsf_zip_find(&a->zip, name);
    if (!e || e->method || e->size < sizeof text) return QSF_OK;
    const qsf_status st = qsf_read_all(p, a->f->file, a->f->path, e->at, text, sizeof text, err);
    if (st) return st;
    return memcmp(text, "big", 3)
               ? QSF_OK
               : qsf_fail(err, QSF_E_UNSUPPORTED, "%s: saved on a big-endian machine", a->f->path);
}

qsf_status qsf_pickle_read(const qsf_platform *p, const weights_file *f, uint32_t index, qsf_arena *arena,
                           weights_list *out, qsf_error *err)
{
    pickle_archive a = { .f = f, .index = index, .arena = arena };
    uint8_t magic[4] = { 0 };
    qsf_status st;
    memset(out, 0, sizeof *out);
    if (f->length >= sizeof magic && (st = qsf_read_all(p, f->file, f->path, 0, magic, sizeof magic, err)))
        return st;
    if (memcmp(magic, "PK\3\4", 4))
        return qsf_fail(
            err, QSF_E_UNSUPPORTED,
            "%s: not a zip archive; load and save a file from PyTorch before 1.6 with a newer PyTorch",
            f->path);
    if ((st = qsf_zip_read_dir(p, f, arena, &a.zip, err))) return st;
    const zip_entry *e = pickle_find_code(&a);
    if (!e) return qsf_fail(err, QSF_E_CORRUPT, "%s: the archive has no data.pkl", f->path);
    if (e->method) return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: entry %s is compressed", f->path, e->name);
    if (e->size > pickle_max_bytes)
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: %s has %llu bytes", f->path, e->name,
                        (unsigned long long)e->size);
    if ((st = pickle_check_order(p, &a, err))) return st;
    uint8_t *code = qsf_alloc(p, e->size, "pickle", err);
    if (!code) return QSF_E_MEMORY;
    st = pickle_read_code(p, &a, e, code, out, err);
    qsf_dealloc(p, code, e->size);
    return st;
}
