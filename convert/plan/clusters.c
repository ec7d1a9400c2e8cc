/* --head-clusters: the head's rows by likeness, so that decoding can leave most of them out
 * (core/layers/head_clusters.c); --embedding-clusters: the embedding's, so that less is left of
 * each of them to be stored.
 * SPDX-License-Identifier: MIT
 *
 * Lloyd's k-means on a sample of the rows, then every row to its nearest centroid.  Distances
 * between the head's rows count each column by its size in hidden states, which rows are multiplied
 * with: by the weights' sizes alone clusters would have to be two to five times as many for the
 * same effect.  The embedding's rows are only looked up: their columns count alike.  Sums are made
 * in one order: the result does not depend on the number of threads. */
#include "plan/clusters.h"

#include "kernels.h"
#include "plan/activations.h"
#include "plan/caller.h"
#include "plan/team.h"

#include <math.h>

enum {
    CLUSTER_ROUNDS = 4,
    CLUSTER_SAMPLE = 32 /* rows a cluster */,
    CLUSTER_LEAST = 16 /* rows */,
    CLUSTER_BAND = 64 /* rows */,
    CLUSTER_BLOCK = 64
};

typedef struct cluster_work {
    input      *in;
    qsf_kernels kernels;
    uint32_t    tensor, rows, cols, n;
    uint32_t    n_sample;
    float      *weight;         /* [cols] of a column in distances */
    float      *sample;         /* [n_sample][cols] weighted */
    float      *centroids;      /* [n][cols] weighted */
    float      *halves;         /* [n] half their squared lengths */
    float      *products;       /* [threads][CLUSTER_BAND][n] */
    float      *bands;         /* [threads][CLUSTER_BAND][cols] */
    uint32_t   *nearest;        /* [rows] */
    double     *sums;           /* [n][cols] */
    uint32_t   *counts;         /* [n] */
    double     *spread;         /* [n] sums of squared distances */
} cluster_work;

/* ---- the nearest centroid ---- */

static void cluster_halves(cluster_work *k)
{
    for (uint32_t c = 0; c < k->n; c++) {
        double sum = 0;
        for (uint32_t j = 0; j < k->cols; j++)
            sum += (double)k->centroids[(size_t)c * k->cols + j] * k->centroids[(size_t)c * k->cols + j];
        k->halves[c] = (float)(sum / 2);
    }
}

/* For up to CLUSTER_BAND rows.  The nearest centroid is the one with the largest product less half
 * its square. */
static void cluster_nearest(const cluster_work *k, const float *rows, uint32_t n, uint32_t thread,
                            uint32_t *out)
{
    float *y = k->products + (size_t)thread * CLUSTER_BAND * k->n;
    k->kernels.matmul_f32(y, k->n, k->centroids, rows, k->cols, n, k->n, k->cols);
    for (uint32_t r = 0; r < n; r++, y += k->n) {
        uint32_t best = 0;
        for (uint32_t c = 1; c < k->n; c++)
            if (y[c] - k->halves[c] > y[best] - k->halves[best]) best = c;
        out[r] = best;
    }
}

static void cluster_weigh(const cluster_work *k, float *rows, uint32_t n)
{
    for (uint32_t r = 0; r < n; r++)
        for (uint32_t j = 0; j < k->cols; j++) rows[(size_t)r * k->cols + j] *= k->weight[j];
}

static qsf_status cluster_sample_band(void *user, uint32_t i, uint32_t thread, qsf_error *err)
{
    cluster_work *k = user;
    const uint32_t row = i * CLUSTER_BAND;
    (void)err;
    cluster_nearest(k, k->sample + (size_t)row * k->cols, QSF_MIN(CLUSTER_BAND, k->n_sample - row), thread,
                    k->nearest + row);
    return QSF_OK;
}

/* A mean would hide which row it was. */
static qsf_status cluster_check(const cluster_work *k, const float *rows, uint32_t row, uint32_t n,
                                qsf_error *err)
{
    for (size_t i = 0; i < (size_t)n * k->cols; i++)
        if (!isfinite(rows[i]))
            return qsf_fail(err, QSF_E_CORRUPT, "tensor %s, row %u: column %u is %s",
                            k->in->tensors[k->tensor].name, (unsigned)(row + i / k->cols),
                            (unsigned)(i % k->cols), isnan(rows[i]) ? "not a number" : "infinite");
    return QSF_OK;
}

static qsf_status cluster_all_band(void *user, uint32_t i, uint32_t thread, qsf_error *err)
{
    cluster_work *k = user;
    const uint32_t row = i * CLUSTER_BAND, n = QSF_MIN(CLUSTER_BAND, k->rows - row);
    float *band = k->bands + (size_t)thread * CLUSTER_BAND * k->cols;
    qsf_status st;
    if ((st = k->in->read(k->in, k->tensor, row, n, band, err)) || (st = cluster_check(k, band, row, n, err)))
        return st;
    cluster_weigh(k, band, n);
    cluster_nearest(k, band, n, thread, k->nearest + row);
    return QSF_OK;
}

/* ---- means ---- */

static void cluster_clear(cluster_work *k)
{
    memset(k->sums, 0, (size_t)k->n * k->cols * sizeof *k->sums);
    memset(k->counts, 0, k->n * sizeof *k->counts);
    memset(k->spread, 0, k->n * sizeof *k->spread);
}

static void cluster_add(cluster_work *k, const float *row, uint32_t c)
{
    double *sum = k->sums + (size_t)c * k->cols, square = 0;
    for (uint32_t j = 0; j < k->cols; j++) {
        sum[j] += row[j];
        square += (double)row[j] * row[j];
    }
    k->spread[c] += square;
    k->counts[c]++;
}

/* A cluster that has lost all its rows keeps its centroid. */
static void cluster_means(cluster_work *k)
{
    for (uint32_t c = 0; c < k->n; c++) {
        double length = 0;
        for (uint32_t j = 0; k->counts[c] && j < k->cols; j++) {
            const double mean = k->sums[(size_t)c * k->cols + j] / k->counts[c];
            k->centroids[(size_t)c * k->cols + j] = (float)mean;
            length += mean * mean;
        }
        k->spread[c] -= k->counts[c] * length;
    }
}

/* ---- the steps ---- */

static qsf_status cluster_read_sample(cluster_work *k, qsf_error *err)
{
    qsf_status st = QSF_OK;
    for (uint32_t s = 0; !st && s < k->n_sample; s++)
        st = k->in->read(k->in, k->tensor, (uint32_t)((uint64_t)s * k->rows / k->n_sample), 1,
                         k->sample + (size_t)s * k->cols, err);
    if (st) return st;
    cluster_weigh(k, k->sample, k->n_sample);
    for (uint32_t c = 0; c < k->n; c++)
        memcpy(k->centroids + (size_t)c * k->cols,
               k->sample + (size_t)((uint64_t)c * k->n_sample / k->n) * k->cols, k->cols * sizeof(float));
    return QSF_OK;
}

static qsf_status cluster_find(cluster_work *k, const qsf_convert_options *o, uint32_t n_threads,
                               qsf_error *err)
{
    const qsf_platform *p = k->in->platform;
    qsf_status st = cluster_read_sample(k, err);
    for (int round = 0; !st && round < CLUSTER_ROUNDS; round++) {
        qsf_conv_progress(o, "cluster", "", (uint64_t)round, CLUSTER_ROUNDS + 1);
        cluster_halves(k);
        if ((st = qsf_conv_parallel(p, o, n_threads, (uint32_t)qsf_ceil_div(k->n_sample, CLUSTER_BAND),
                                    cluster_sample_band, k, err)))
            break;
        cluster_clear(k);
        for (uint32_t s = 0; s < k->n_sample; s++)
            cluster_add(k, k->sample + (size_t)s * k->cols, k->nearest[s]);
        cluster_means(k);
    }
    if (st) return st;
    qsf_conv_progress(o, "cluster", "", CLUSTER_ROUNDS, CLUSTER_ROUNDS + 1);
    cluster_halves(k);
    if ((st = qsf_conv_parallel(p, o, n_threads, (uint32_t)qsf_ceil_div(k->rows, CLUSTER_BAND),
                                cluster_all_band, k, err)))
        return st;
    cluster_clear(k);
    for (uint32_t row = 0; !st && row < k->rows; row++) {
        if ((st = k->in->read(k->in, k->tensor, row, 1, k->bands, err))) return st;
        cluster_weigh(k, k->bands, 1);
        cluster_add(k, k->bands, k->nearest[row]);
    }
    cluster_means(k);
    return QSF_OK;
}

/* Centroids without the weights, in 8 bits, row after row. */
static qsf_status cluster_centroids(const cluster_work *k, uint32_t kind, qsf_tensor *out, qsf_error *err)
{
    qsf_tensor t = {
        .kind = kind, .type = QSF_T_8BIT, .block = CLUSTER_BLOCK, .rows = k->n, .cols = k->cols
    };
    qsf_status st = qsf_tensor_bytes(t.type, 0, t.block, t.rows, t.cols, &t.bytes, err);
    if (st) return st;
    const uint64_t each = t.bytes / k->n;
    uint8_t *rows = qsf_arena_alloc(k->in->arena, t.bytes, "centroids", err);
    if (!rows) return QSF_E_MEMORY;
    for (uint32_t c = 0; !st && c < k->n; c++) {
        for (uint32_t j = 0; j < k->cols; j++)
            k->bands[j] = k->centroids[(size_t)c * k->cols + j] / k->weight[j];
        st = qsf_quantize_row(t.type, t.block, k->bands, k->cols, NULL, rows + c * each, NULL, err);
    }
    t.data = rows;
    *out = t;
    return st;
}

static qsf_status cluster_tiles(const cluster_work *k, qsf_tensor *t, qsf_error *err)
{
    const qsf_tensor rows = *t;
    const qsf_status st = qsf_tensor_bytes(t->type, 1, t->block, t->rows, t->cols, &t->bytes, err);
    if (st) return st;
    void *tiles = qsf_arena_alloc(k->in->arena, t->bytes, "centroids", err);
    if (!tiles) return QSF_E_MEMORY;
    qsf_pack_tiles(&rows, tiles);
    t->packing = 1;
    t->data = tiles;
    return QSF_OK;
}

static qsf_status cluster_head_result(const cluster_work *k, qsf_clusters *out, qsf_error *err)
{
    qsf_arena *a = k->in->arena;
    out->n = k->n;
    if (!(out->first = qsf_arena_array(a, (uint64_t)k->n + 1, sizeof *out->first, "clusters", err)))
        return QSF_E_MEMORY;
    if (!(out->order = qsf_arena_array(a, k->rows, sizeof *out->order, "clusters", err))) return QSF_E_MEMORY;
    if (!(out->scale = qsf_arena_array(a, k->cols, sizeof *out->scale, "clusters", err))) return QSF_E_MEMORY;
    memcpy(out->scale, k->weight, k->cols * sizeof *out->scale);
    if (!(out->radius = qsf_arena_array(a, k->n, sizeof *out->radius, "clusters", err))) return QSF_E_MEMORY;
    for (uint32_t c = 0; c < k->n; c++) {
        out->first[c + 1] = out->first[c] + k->counts[c];
        out->radius[c] = k->counts[c] && k->spread[c] > 0 ? (float)sqrt(k->spread[c] / k->counts[c]) : 0;
        k->counts[c] = out->first[c];
    }
    for (uint32_t row = 0; row < k->rows; row++) out->order[k->counts[k->nearest[row]]++] = row;
    const qsf_status st = cluster_centroids(k, QSF_K_OUTPUT, &out->centroids, err);
    return st ? st : cluster_tiles(k, &out->centroids, err);
}

static qsf_status cluster_embd_result(const cluster_work *k, qsf_embd_clusters *out, qsf_error *err)
{
    out->n = k->n;
    if (!(out->of = qsf_arena_array(k->in->arena, k->rows, sizeof *out->of, "clusters", err)))
        return QSF_E_MEMORY;
    for (uint32_t row = 0; row < k->rows; row++) out->of[row] = (uint16_t)k->nearest[row];
    return cluster_centroids(k, QSF_K_TOKEN_EMBD, &out->centroids, err);
}

/* ---- memory ---- */

static uint64_t cluster_bytes(const cluster_work *k, uint32_t n_sample, uint32_t n_threads)
{
    const uint64_t row = (uint64_t)k->cols * sizeof(float);
    return n_sample * row + 3 * k->n * row +
           (uint64_t)n_threads * CLUSTER_BAND * (row + k->n * sizeof(float)) +
           (uint64_t)k->rows * sizeof(uint32_t);
}

static qsf_status cluster_fit(cluster_work *k, const qsf_convert_options *o, uint32_t n_threads,
                              qsf_error *err)
{
    k->n_sample = (uint32_t)QSF_MIN((uint64_t)k->n * CLUSTER_SAMPLE, k->rows);
    while (o->ram_bytes && k->n_sample > 2 * k->n && cluster_bytes(k, k->n_sample, n_threads) > o->ram_bytes)
        k->n_sample = QSF_MAX(k->n_sample / 2, 2 * k->n);
    if (o->ram_bytes && cluster_bytes(k, k->n_sample, n_threads) > o->ram_bytes)
        return qsf_fail(err, QSF_E_BUDGET, "%u clusters need %llu MB, but ram_bytes (--ram) allows %llu MB",
                        (unsigned)k->n,
                        (unsigned long long)(cluster_bytes(k, k->n_sample, n_threads) / 1000000 + 1),
                        (unsigned long long)(o->ram_bytes / 1000000));
    return QSF_OK;
}

static void cluster_free(const cluster_work *k, uint32_t n_threads)
{
    const qsf_platform *p = k->in->platform;
    qsf_dealloc(p, k->weight, k->cols * sizeof(float));
    qsf_dealloc(p, k->sample, (uint64_t)k->n_sample * k->cols * sizeof(float));
    qsf_dealloc(p, k->centroids, (uint64_t)k->n * k->cols * sizeof(float));
    qsf_dealloc(p, k->halves, k->n * sizeof(float));
    qsf_dealloc(p, k->products, (uint64_t)n_threads * CLUSTER_BAND * k->n * sizeof(float));
    qsf_dealloc(p, k->bands, (uint64_t)n_threads * CLUSTER_BAND * k->cols * sizeof(float));
    qsf_dealloc(p, k->nearest, (uint64_t)k->rows * sizeof(uint32_t));
    qsf_dealloc(p, k->sums, (uint64_t)k->n * k->cols * sizeof(double));
    qsf_dealloc(p, k->counts, k->n * sizeof(uint32_t));
    qsf_dealloc(p, k->spread, k->n * sizeof(double));
}

static qsf_status cluster_new(cluster_work *k, uint32_t n_threads, qsf_error *err)
{
    const qsf_platform *p = k->in->platform;
    if (!(k->weight = qsf_alloc_array(p, k->cols, sizeof(float), "clusters", err))) return QSF_E_MEMORY;
    if (!(k->sample = qsf_alloc_array(p, (uint64_t)k->n_sample * k->cols, sizeof(float),
                                      "a sample of the rows", err)))
        return QSF_E_MEMORY;
    if (!(k->centroids = qsf_alloc_array(p, (uint64_t)k->n * k->cols, sizeof(float), "centroids", err)))
        return QSF_E_MEMORY;
    if (!(k->halves = qsf_alloc_array(p, k->n, sizeof(float), "centroids", err))) return QSF_E_MEMORY;
    if (!(k->products =
              qsf_alloc_array(p, (uint64_t)n_threads * CLUSTER_BAND * k->n, sizeof(float), "bands", err)))
        return QSF_E_MEMORY;
    if (!(k->bands =
              qsf_alloc_array(p, (uint64_t)n_threads * CLUSTER_BAND * k->cols, sizeof(float), "bands", err)))
        return QSF_E_MEMORY;
    if (!(k->nearest = qsf_alloc_array(p, k->rows, sizeof(uint32_t), "clusters", err))) return QSF_E_MEMORY;
    if (!(k->sums = qsf_alloc_array(p, (uint64_t)k->n * k->cols, sizeof(double), "centroids", err)))
        return QSF_E_MEMORY;
    if (!(k->counts = qsf_alloc_array(p, k->n, sizeof(uint32_t), "clusters", err))) return QSF_E_MEMORY;
    if (!(k->spread = qsf_alloc_array(p, k->n, sizeof(double), "clusters", err))) return QSF_E_MEMORY;
    return QSF_OK;
}

static int cluster_tensor(const input *in, uint32_t kind)
{
    for (uint32_t i = 0; i < in->n_tensors; i++)
        if (in->tensors[i].unit >= in->hp.n_layers && in->tensors[i].kind == kind) return (int)i;
    return -1;
}

/* For the rows of tensor i.  After an error there is nothing to free. */
static qsf_status cluster_begin(cluster_work *k, input *in, const qsf_convert_options *o, uint32_t i,
                                uint32_t n, uint32_t n_threads, qsf_error *err)
{
    const input_tensor *t = &in->tensors[i];
    const uint32_t most = QSF_MIN(t->rows / CLUSTER_LEAST, QSF_MAX_CLUSTERS);
    qsf_status st;
    if (n > most)
        return qsf_fail(err, QSF_E_ARGUMENT, "%u clusters of %u rows; the maximum is %u", (unsigned)n,
                        (unsigned)t->rows, (unsigned)most);
    *k = (cluster_work){ .in = in, .tensor = i, .rows = t->rows, .cols = t->cols, .n = n };
    if ((st = qsf_kernels_init(
             &k->kernels, in->platform->cpu_features ? in->platform->cpu_features(in->platform->user) : 0,
             NULL, err)))
        return st;
    if ((st = cluster_fit(k, o, n_threads, err))) return st;
    if ((st = cluster_new(k, n_threads, err))) cluster_free(k, n_threads);
    return st;
}

qsf_status qsf_conv_clusters(input *in, const qsf_convert_options *o, const convert_report *r,
                             const qsf_clusters **out, qsf_error *err)
{
    const int head = cluster_tensor(in, in->hp.tied ? QSF_K_TOKEN_EMBD : QSF_K_OUTPUT);
    qsf_status st;
    *out = NULL;
    if (!o->head_clusters) return QSF_OK;
    if (!in->model_path)
        return qsf_fail(err, QSF_E_UNSUPPORTED,
                        "clusters of the head need a model that runs: convert to a QSF file first, then "
                        "convert that with clusters");
    if (head < 0) return qsf_fail(err, QSF_E_UNSUPPORTED, "the model has no head to make clusters of");
    if (cluster_tensor(in, QSF_K_OUTPUT_BIAS) >= 0 || r->tensors[head].keeps_outliers ||
        !qsf_type_tiles(r->tensors[head].type))
        return qsf_fail(
            err, QSF_E_UNSUPPORTED,
            "clusters need a head of a quantised type, without biases and separate outliers");
    const uint32_t n_threads = qsf_conv_threads(in->platform, o);
    cluster_work k;
    qsf_clusters *c = qsf_arena_alloc(in->arena, sizeof *c, "clusters", err);
    if (!c) return QSF_E_MEMORY;
    if ((st = cluster_begin(&k, in, o, (uint32_t)head, o->head_clusters, n_threads, err))) return st;
    if (!(st = qsf_conv_activations(in, o, k.weight, err)) && !(st = cluster_find(&k, o, n_threads, err)) &&
        !(st = cluster_head_result(&k, c, err)))
        *out = c;
    cluster_free(&k, n_threads);
    return st;
}

qsf_status qsf_conv_embd_clusters(input *in, const qsf_convert_options *o, const qsf_embd_clusters **out,
                                  qsf_error *err)
{
    const int embd = cluster_tensor(in, QSF_K_TOKEN_EMBD);
    qsf_status st;
    *out = NULL;
    if (!o->embd_clusters) return QSF_OK;
    if (embd < 0) return qsf_fail(err, QSF_E_UNSUPPORTED, "the model has no embedding to make clusters of");
    const uint32_t n_threads = qsf_conv_threads(in->platform, o);
    cluster_work k;
    qsf_embd_clusters *c = qsf_arena_alloc(in->arena, sizeof *c, "clusters", err);
    if (!c) return QSF_E_MEMORY;
    if ((st = cluster_begin(&k, in, o, (uint32_t)embd, o->embd_clusters, n_threads, err))) return st;
    for (uint32_t j = 0; j < k.cols; j++) k.weight[j] = 1;
    if (!(st = cluster_find(&k, o, n_threads, err)) && !(st = cluster_embd_result(&k, c, err))) *out = c;
    cluster_free(&k, n_threads);
    return st;
}

uint64_t qsf_conv_clusters_bytes(const input *in, const qsf_convert_options *o)
{
    const uint64_t row = qsf_ceil_div(in->hp.n_embd, CLUSTER_BLOCK) *
                         qsf_block_bytes(QSF_T_8BIT, CLUSTER_BLOCK),
                   vocab = in->hp.n_vocab;
    uint64_t bytes = 0;
    if (o->head_clusters)
        bytes += qsf_round_up(o->head_clusters, QSF_TILE_ROWS) * row +
                 (2ull * o->head_clusters + vocab + in->hp.n_embd) * 4;
    if (o->embd_clusters) bytes += o->embd_clusters * row + vocab * 2;
    return bytes;
}
