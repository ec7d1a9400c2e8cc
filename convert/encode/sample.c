/* What a form would cost a matrix, before it is chosen: tiles from all over the matrix go through
 * the encoder that would make the file.
 * SPDX-License-Identifier: MIT
 *
 * Tiles have their places by the matrix's rows alone and their losses are added in order: the sum
 * does not depend on the number of threads. */
#include "encode/sample.h"

#include "encode/encode.h"
#include "plan/loss.h"
#include "plan/team.h"

/* One tile in eight, but at least four if the matrix has them; for the mean of a large embedding,
 * the maximum is enough. */
enum { SAMPLE_SHARE = 8, SAMPLE_LEAST = 4, SAMPLE_MOST = 96 };

typedef struct sample_work {
    encode_rows      rows;
    uint32_t         first, n_rows; /* of the matrix: all, or an expert's */
    uint32_t         tiles, taken;
    convert_band    *bands;         /* one a thread */
    encode_band     *own;
    uint8_t         *dst;           /* [threads][tile_bytes] */
    uint64_t         tile_bytes;
    encode_loss     *losses;        /* [taken] */
} sample_work;

static qsf_status sample_one(void *user, uint32_t i, uint32_t thread, qsf_error *err)
{
    sample_work *k = user;
    const uint32_t tile = k->taken > 1 ? (uint32_t)((uint64_t)i * (k->tiles - 1) / (k->taken - 1)) : 0;
    const uint32_t row = tile * ENCODE_ROWS, n = QSF_MIN(k->n_rows - row, (uint32_t)ENCODE_ROWS);
    uint8_t *dst = k->dst + thread * k->tile_bytes;
    qsf_quant_error e = { 0 };
    memset(dst, 0, (size_t)k->tile_bytes);
    return qsf_enc_rows(&k->rows, k->first + row, n, &k->bands[thread], &k->own[thread], dst, &e,
                        &k->losses[i], err);
}

static qsf_status sample_tiles(sample_work *k, const qsf_convert_options *o, uint32_t n_threads, double *loss,
                               qsf_error *err)
{
    const qsf_platform *p = k->rows.in->platform;
    const convert_tensor *c = k->rows.c;
    const uint32_t cols = k->rows.in->tensors[k->rows.tensor].cols;
    qsf_status st = qsf_tensor_bytes(c->type, c->packing, c->block, ENCODE_ROWS, cols, &k->tile_bytes, err);
    if (st) return st;
    k->losses = qsf_alloc_array(p, k->taken, sizeof *k->losses, "a sample", err);
    k->dst = k->losses ? qsf_alloc_array(p, n_threads, (size_t)k->tile_bytes, "a sample", err) : NULL;
    st = k->dst ? qsf_conv_bands_new(p, n_threads, cols, &k->bands, err) : QSF_E_MEMORY;
    if (!st) st = qsf_enc_bands_new(p, n_threads, cols, &k->own, err);
    if (!st) st = qsf_conv_parallel(p, o, n_threads, k->taken, sample_one, k, err);
    encode_loss sum = { 0 };
    for (uint32_t i = 0; !st && i < k->taken; i++) {
        sum.error += k->losses[i].error;
        sum.energy += k->losses[i].energy;
    }
    *loss = sum.energy > 0 ? sum.error / sum.energy : 0;
    qsf_enc_bands_free(p, n_threads, k->own);
    qsf_conv_bands_free(p, n_threads, k->bands);
    qsf_dealloc(p, k->dst, n_threads * k->tile_bytes);
    qsf_dealloc(p, k->losses, k->taken * sizeof *k->losses);
    return st;
}

static qsf_status sample_plain(input *in, uint32_t i, const convert_tensor *c, double *loss, qsf_error *err)
{
    const qsf_platform *p = in->platform;
    convert_band *b;
    qsf_quant_error e;
    qsf_status st = qsf_conv_bands_new(p, 1, in->tensors[i].cols, &b, err);
    if (!st) st = qsf_conv_measure(in, i, c, b, &e, NULL, err);
    if (!st) *loss = qsf_conv_relative_error(&e);
    qsf_conv_bands_free(p, 1, b);
    return st;
}

qsf_status qsf_enc_sample(encode_source *s, input *in, uint32_t i, const convert_tensor *c, double *loss,
                          qsf_error *err)
{
    const qsf_platform *p = in->platform;
    convert_tensor as = *c;
    const encode_factor *f;
    bool measured;
    const qsf_status st = qsf_enc_factor_of(s, i, c, &f, &measured, err);
    if (st) return st;
    if (!f || (f->diagonal && !qsf_enc_steps(c->type))) {
        as.importance = f ? f->weight : NULL;
        return sample_plain(in, i, &as, loss, err);
    }
    const uint32_t n_rows = in->tensors[i].rows / (s->expert ? in->hp.n_experts : 1);
    sample_work k = { .first = s->expert ? (s->expert - 1) * n_rows : 0, .n_rows = n_rows,
                      .tiles = (uint32_t)qsf_ceil_div(n_rows, ENCODE_ROWS) };
    k.rows = (encode_rows){ .in = in, .tensor = i, .c = &as, .f = f,
                            .lanes = qsf_enc_lanes(p->cpu_features ? p->cpu_features(p->user) : 0) };
    k.taken = QSF_MIN(k.tiles, QSF_MIN(QSF_MAX(k.tiles / SAMPLE_SHARE, SAMPLE_LEAST), SAMPLE_MOST));
    /* A limit of memory is counted with one thread: the conversion itself needs that much. */
    const uint32_t n_threads = s->o->ram_bytes ? 1 : QSF_MIN(qsf_conv_threads(p, s->o), k.taken);
    return sample_tiles(&k, s->o, n_threads, loss, err);
}
