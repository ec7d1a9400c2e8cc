/* Clusters of the head's rows and of the embedding's in a QSF file's extension section.
 * SPDX-License-Identifier: MIT */
#include "model/qsf_ext.h"

enum { CENTROID_BLOCK = 64 };

void qsf_ext_put_clusters(qsf_ext_out *o, const qsf_clusters *c, const qsf_hparams *hp)
{
    qsf_ext_begin(o, "head.sizes", QSF_EXT_U32);
    for (uint32_t i = 0; i < c->n; i++) {
        uint8_t size[4];
        qsf_put32(size, c->first[i + 1] - c->first[i]);
        qsf_ext_bytes(o, size, sizeof size);
    }
    qsf_ext_end(o);
    qsf_ext_put_u32s(o, "head.order", c->order, hp->n_vocab);
    qsf_ext_put_f32s(o, "head.scale", c->scale, hp->n_embd);
    qsf_ext_put_f32s(o, "head.radius", c->radius, c->n);
    qsf_ext_put_u8s(o, "head.centroids", c->centroids.data, c->centroids.bytes);
}

void qsf_ext_put_embd_clusters(qsf_ext_out *o, const qsf_embd_clusters *c, const qsf_hparams *hp)
{
    qsf_ext_begin(o, "embd.cluster", QSF_EXT_U8);
    for (uint32_t i = 0; i < hp->n_vocab; i++) {
        uint8_t of[2];
        qsf_put16(of, c->of[i]);
        qsf_ext_bytes(o, of, sizeof of);
    }
    qsf_ext_end(o);
    qsf_ext_put_u8s(o, "embd.centroids", c->centroids.data, c->centroids.bytes);
}

/* ---- reading ---- */

/* t is described, v has its bytes; scales must be numbers. */
static qsf_status centroids_get(const qsf_ext *x, const char *key, const qsf_ext_value *v, qsf_tensor *t,
                                qsf_arena *a, qsf_error *err)
{
    const uint32_t at_once = t->packing ? QSF_TILE_ROWS : 1;
    const size_t each = (size_t)qsf_block_bytes(t->type, t->block) * at_once;
    for (size_t at = 0; at < v->count; at += each)
        for (uint32_t r = 0; r < at_once; r++)
            if ((qsf_le16(v->data + at + 2 * r) & 0x7c00) == 0x7c00)
                return qsf_fail(err, QSF_E_CORRUPT, "%s: %s: the scale at byte %llu is not a number", x->path,
                                key, (unsigned long long)(at + 2 * r));
    void *data = qsf_arena_alloc(a, t->bytes, "clusters", err);
    if (!data) return QSF_E_MEMORY;
    memcpy(data, v->data, (size_t)t->bytes);
    t->data = data;
    return QSF_OK;
}

/* ---- of the head ---- */

static qsf_status clusters_sizes(const qsf_ext *x, const qsf_ext_value *v, uint32_t n_vocab, qsf_clusters *c,
                                 qsf_arena *a, qsf_error *err)
{
    if (!(c->first = qsf_arena_array(a, (uint64_t)c->n + 1, sizeof *c->first, "clusters", err)))
        return QSF_E_MEMORY;
    for (uint32_t i = 0; i < c->n; i++) {
        const uint32_t size = qsf_le32(v->data + 4 * (size_t)i);
        if (size > n_vocab - c->first[i])
            return qsf_fail(err, QSF_E_CORRUPT, "%s: head.sizes: cluster %u has %u rows, more than there are",
                            x->path, (unsigned)i, (unsigned)size);
        c->first[i + 1] = c->first[i] + size;
    }
    if (c->first[c->n] != n_vocab)
        return qsf_fail(err, QSF_E_CORRUPT, "%s: head.sizes: the clusters have %u rows, the head %u", x->path,
                        (unsigned)c->first[c->n], (unsigned)n_vocab);
    return QSF_OK;
}

/* Every row once. */
static qsf_status clusters_order(const qsf_ext *x, const qsf_ext_value *v, uint32_t n_vocab, qsf_clusters *c,
                                 qsf_arena *a, qsf_error *err)
{
    if (!(c->order = qsf_arena_array(a, n_vocab, sizeof *c->order, "clusters", err))) return QSF_E_MEMORY;
    if (!(c->place = qsf_arena_array(a, n_vocab, sizeof *c->place, "clusters", err))) return QSF_E_MEMORY;
    for (uint32_t i = 0; i < n_vocab; i++) c->place[i] = UINT32_MAX;
    for (uint32_t i = 0; i < n_vocab; i++) {
        const uint32_t row = qsf_le32(v->data + 4 * (size_t)i);
        if (row >= n_vocab || c->place[row] != UINT32_MAX)
            return qsf_fail(err, QSF_E_CORRUPT,
                            "%s: head.order: place %u has row %u, which does not exist or occurs twice",
                            x->path, (unsigned)i, (unsigned)row);
        c->order[i] = row;
        c->place[row] = i;
    }
    return QSF_OK;
}

/* Numbers from least up. */
static qsf_status clusters_floats_get(const qsf_ext *x, const char *key, const qsf_ext_value *v, float least,
                                      float **out, qsf_arena *a, qsf_error *err)
{
    if (!(*out = qsf_arena_array(a, v->count, sizeof **out, "clusters", err))) return QSF_E_MEMORY;
    for (uint32_t i = 0; i < v->count; i++) {
        (*out)[i] = qsf_lef32(v->data + 4 * (size_t)i);
        if (!isfinite((*out)[i]) || (*out)[i] < least)
            return qsf_fail(err, QSF_E_CORRUPT, "%s: %s: value %u is not possible", x->path, key,
                            (unsigned)i);
    }
    return QSF_OK;
}

qsf_status qsf_ext_get_clusters(const qsf_ext *x, const qsf_hparams *hp, const qsf_clusters **out,
                                qsf_arena *a, qsf_error *err)
{
    qsf_ext_value sizes, order, scale, radius, centroids;
    qsf_status st;
    *out = NULL;
    if ((st = qsf_ext_get(x, "head.sizes", QSF_EXT_U32, &sizes, err)) || !sizes.data) return st;
    if ((st = qsf_ext_get(x, "head.order", QSF_EXT_U32, &order, err))) return st;
    if ((st = qsf_ext_get(x, "head.scale", QSF_EXT_F32, &scale, err))) return st;
    if ((st = qsf_ext_get(x, "head.radius", QSF_EXT_F32, &radius, err))) return st;
    if ((st = qsf_ext_get(x, "head.centroids", QSF_EXT_U8, &centroids, err))) return st;
    const uint32_t n = sizes.count;
    qsf_tensor t = { .kind = QSF_K_OUTPUT, .type = QSF_T_8BIT, .packing = 1, .block = CENTROID_BLOCK,
                     .rows = n, .cols = hp->n_embd };
    if (n < 1 || n > QSF_MAX_CLUSTERS || n > hp->n_vocab
        || qsf_tensor_bytes(t.type, t.packing, t.block, t.rows, t.cols, &t.bytes, NULL)
        || order.count != hp->n_vocab || scale.count != hp->n_embd
        || radius.count != n || centroids.count != t.bytes)
        return qsf_fail(err, QSF_E_CORRUPT,
                        "%s: the head's clusters (%u, %u rows, %u columns, %u distances, %u bytes of "
                        "centroids) do not fit the model", x->path, (unsigned)n, (unsigned)order.count,
                        (unsigned)scale.count, (unsigned)radius.count, (unsigned)centroids.count);
    qsf_clusters *c = qsf_arena_alloc(a, sizeof *c, "clusters", err);
    if (!c) return QSF_E_MEMORY;
    c->n = n;
    if ((st = clusters_sizes(x, &sizes, hp->n_vocab, c, a, err))) return st;
    if ((st = clusters_order(x, &order, hp->n_vocab, c, a, err))) return st;
    if ((st = clusters_floats_get(x, "head.scale", &scale, FLT_MIN, &c->scale, a, err))) return st;
    if ((st = clusters_floats_get(x, "head.radius", &radius, 0, &c->radius, a, err))) return st;
    if ((st = centroids_get(x, "head.centroids", &centroids, &t, a, err))) return st;
    c->centroids = t;
    *out = c;
    return QSF_OK;
}

/* ---- of the embedding ---- */

static qsf_status embd_clusters_of(const qsf_ext *x, const qsf_ext_value *v, uint32_t n_vocab,
                                   qsf_embd_clusters *c, qsf_arena *a, qsf_error *err)
{
    if (!(c->of = qsf_arena_array(a, n_vocab, sizeof *c->of, "clusters", err))) return QSF_E_MEMORY;
    for (uint32_t i = 0; i < n_vocab; i++) {
        c->of[i] = qsf_le16(v->data + 2 * (size_t)i);
        if (c->of[i] >= c->n)
            return qsf_fail(err, QSF_E_CORRUPT, "%s: embd.cluster: row %u is of cluster %u; there are %u",
                            x->path, (unsigned)i, (unsigned)c->of[i], (unsigned)c->n);
    }
    return QSF_OK;
}

qsf_status qsf_ext_get_embd_clusters(const qsf_ext *x, const qsf_hparams *hp, const qsf_embd_clusters **out,
                                     qsf_arena *a, qsf_error *err)
{
    qsf_ext_value of, centroids;
    qsf_status st;
    *out = NULL;
    if ((st = qsf_ext_get(x, "embd.cluster", QSF_EXT_U8, &of, err)) || !of.data) return st;
    if ((st = qsf_ext_get(x, "embd.centroids", QSF_EXT_U8, &centroids, err))) return st;
    const uint64_t row = qsf_ceil_div(hp->n_embd, CENTROID_BLOCK)
        * qsf_block_bytes(QSF_T_8BIT, CENTROID_BLOCK), n = centroids.count / row;
    if (n < 1 || n > QSF_MAX_CLUSTERS || n > hp->n_vocab || centroids.count % row
        || of.count != 2 * (uint64_t)hp->n_vocab)
        return qsf_fail(err, QSF_E_CORRUPT,
                        "%s: the embedding's clusters (%u bytes of rows' clusters, %u of centroids) do not "
                        "fit the model", x->path, (unsigned)of.count, (unsigned)centroids.count);
    qsf_embd_clusters *c = qsf_arena_alloc(a, sizeof *c, "clusters", err);
    if (!c) return QSF_E_MEMORY;
    c->n = (uint32_t)n;
    c->centroids = (qsf_tensor){ .kind = QSF_K_TOKEN_EMBD, .type = QSF_T_8BIT, .block = CENTROID_BLOCK,
                                 .rows = c->n, .cols = hp->n_embd, .bytes = centroids.count };
    if ((st = embd_clusters_of(x, &of, hp->n_vocab, c, a, err))) return st;
    if ((st = centroids_get(x, "embd.centroids", &centroids, &c->centroids, a, err))) return st;
    *out = c;
    return QSF_OK;
}
