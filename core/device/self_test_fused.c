/* The self-test's products that make codes by themselves, and gated ones: floats, compared within
 * the rounding of codes.
 * SPDX-License-Identifier: MIT */
#include "device/self_test_own.h"

#include "wgsl/product_rows_wgsl.h"

enum { FUSED_TILES = 2, FUSED_ROWS = FUSED_TILES * QSF_TILE_ROWS, FUSED_CHUNKS = 2, FUSED_DIM = 32 };
#define FUSED_NEAR 0.02f

/* A row of floats, its codes, a matrix, and what comes out. */
typedef struct fused_case {
    const qsf_wgsl_product *p;
    uint32_t cols;              /* of p->cols, which are padded */
    float   *a, *b, *weight, *bias;     /* [FUSED_CHUNKS][p->cols], [cols] each */
    float   *x;                 /* [p->cols] the encoded row */
    float   *y, *want, *row_bias;       /* [FUSED_ROWS] */
    qsf_act  act;
    uint8_t *w;
    uint64_t w_bytes, bytes;
    void    *room;
} fused_case;

static bool fused_is_tested(const qsf_wgsl_product *p)
{
    const qsf_wgsl_rows *r = p->from;
    return r->source != QSF_WGSL_FROM_SLOTS && r->source != QSF_WGSL_FROM_ITSELF &&
        r->source != QSF_WGSL_FROM_SHARES && r->function <= QSF_WGSL_RELU && !r->sinks && !r->bare &&
        !r->gated && !r->scaled && p->function <= QSF_WGSL_RELU && p->rows == 1 && !p->split;
}

static void fused_room(self_build *b, fused_case *c)
{
    const qsf_wgsl_product *p = c->p;
    const size_t cols = p->cols;
    c->cols = p->from->source == QSF_WGSL_FROM_ATTENTION ? p->cols : p->cols - 20;
    c->w_bytes = FUSED_TILES * (uint64_t)(cols / p->block) * qsf_tile_bytes(p->form, p->block);
    c->bytes = ((FUSED_CHUNKS + 4) * cols + 3 * FUSED_ROWS + cols / 32 + cols / 64) * 4 + cols / 4 + cols
        + c->w_bytes + 64;
    if (!(c->room = qsf_self_room(b, c->bytes))) return;
    c->a = c->room;
    c->b = c->a + FUSED_CHUNKS * cols;
    c->weight = c->b + cols;
    c->bias = c->weight + cols;
    c->x = c->bias + cols;
    c->y = c->x + cols;
    c->want = c->y + FUSED_ROWS;
    c->row_bias = c->want + FUSED_ROWS;
    float *s = c->row_bias + FUSED_ROWS, *d = s + cols / 32;
    int16_t *h = (int16_t *)(void *)(d + cols / 64);
    c->act = (qsf_act){ .q = (int8_t *)(h + cols / 8), .d = d, .s = s, .h = h, .n = 1, .cols = p->cols };
    c->w = (uint8_t *)(c->act.q + cols);
}

static void fused_fill(fused_case *c)
{
    self_random r = { 5 };
    const size_t n = c->p->cols;
    for (size_t i = 0; i < FUSED_CHUNKS * n; i++) c->a[i] = self_float(&r, 3);
    for (size_t i = 0; i < n; i++) {
        c->b[i] = self_float(&r, 2);
        c->weight[i] = self_float(&r, 2);
        c->bias[i] = self_float(&r, 1);
    }
    for (size_t i = 0; i < FUSED_ROWS; i++) {
        c->y[i] = self_float(&r, 10);
        c->row_bias[i] = self_float(&r, 10);
    }
    /* of attention: the largest score of a chunk, and a sum of exponentials */
    for (size_t i = 0; c->p->from->source == QSF_WGSL_FROM_ATTENTION && i < n / FUSED_DIM * FUSED_CHUNKS; i++)
        c->b[2 * i + 1] = 2 + self_float(&r, 1);
    for (uint64_t at = 0; at < c->w_bytes; at += qsf_tile_bytes(c->p->form, c->p->block))
        qsf_self_tile(c->w + at, c->p->form, c->p->block, &r);
}

/* Chunks of attention joined. */
static void fused_join(fused_case *c)
{
    for (uint32_t i = 0; i < c->cols; i++) {
        const uint32_t head = i / FUSED_DIM;
        const float *b = c->b + (size_t)head * FUSED_CHUNKS * 2,
            *a = c->a + (size_t)head * FUSED_CHUNKS * FUSED_DIM + i % FUSED_DIM;
        const float top = QSF_MAX(b[0], b[2]), e0 = expf(b[0] - top), e1 = expf(b[2] - top);
        c->x[i] = (e0 * a[0] + e1 * a[FUSED_DIM]) / (e0 * b[1] + e1 * b[3]);
    }
}

static void fused_reference(const qsf_kernels *k, fused_case *c)
{
    const qsf_wgsl_product *p = c->p;
    const qsf_wgsl_rows *r = p->from;
    float sums[FUSED_ROWS];
    if (r->source == QSF_WGSL_FROM_ATTENTION) fused_join(c);
    else memcpy(c->x, c->a, c->cols * sizeof *c->x);
    qsf_self_function(k, c->x, c->cols, r->function);
    if (r->source == QSF_WGSL_FROM_TWO) k->vec_mul(c->x, c->x, c->b, c->cols);
    if (r->norm == QSF_WGSL_RMS_NORM) k->rms_norm(c->x, c->x, c->weight, c->cols, 1e-5f);
    if (r->norm == QSF_WGSL_LAYER_NORM)
        k->layer_norm(c->x, c->x, c->weight, r->bias ? c->bias : NULL, c->cols, 1e-5f);
    k->quantize_act(&c->act, 0, c->x, c->cols);
    k->matmul[p->form](sums, FUSED_ROWS, c->w, &c->act, FUSED_TILES, p->cols / p->block, p->block);
    for (uint32_t i = 0; i < FUSED_ROWS; i++) {
        if (p->scaled) sums[i] *= 0.5f;
        if (p->bias) sums[i] += c->row_bias[i];
        if (p->scaled) sums[i] *= 4;
    }
    if (p->gated) {
        qsf_self_function(k, sums, QSF_TILE_ROWS, p->function);
        k->vec_mul(sums, sums, sums + QSF_TILE_ROWS, QSF_TILE_ROWS);
    }
    for (uint32_t i = 0; i < FUSED_ROWS; i++)
        c->want[i] = p->gated && i >= QSF_TILE_ROWS ? c->y[i] : sums[i] + (p->add ? c->y[i] : 0);
}

static void fused_run(self_build *b, fused_case *c, qsf_device_id pipeline)
{
    const qsf_wgsl_product *p = c->p;
    const qsf_wgsl_rows *r = p->from;
    const uint32_t each = p->gated ? 1 : FUSED_TILES, storage = QSF_DEVICE_STORAGE;
    const bool joins = r->source == QSF_WGSL_FROM_ATTENTION;
    const qsf_wgsl_product_numbers numbers = {
        .rows = each * QSF_TILE_ROWS, .tiles = each, .blocks = p->cols / p->block, .n = 1,
        .x_ld = p->cols / 64 * 5, .y_ld = FUSED_ROWS, .cols = c->cols, .a_ld = c->cols, .b_ld = c->cols,
        .eps = 1e-5f, .heads = c->cols / FUSED_DIM, .head_dim = FUSED_DIM, .chunks = FUSED_CHUNKS,
        .room = FUSED_DIM, .scale = 0.5f, .times = 4,
    };
    qsf_device_range ranges[QSF_WGSL_BINDINGS];
    uint32_t n = 0;
    ranges[n++] = qsf_self_buffer(b, QSF_DEVICE_UNIFORM, &numbers, sizeof numbers);
    ranges[n++] = qsf_self_buffer(b, storage, c->w, c->w_bytes);
    ranges[n++] = qsf_self_buffer(b, storage, c->a, FUSED_CHUNKS * (uint64_t)p->cols * 4);
    if (r->source == QSF_WGSL_FROM_TWO || joins) ranges[n++] = qsf_self_buffer(b, storage, c->b, p->cols * 4);
    if (r->norm) ranges[n++] = qsf_self_buffer(b, storage, c->weight, p->cols * 4);
    if (r->bias) ranges[n++] = qsf_self_buffer(b, storage, c->bias, p->cols * 4);
    if (r->flags) ranges[n++] = qsf_self_buffer(b, storage, NULL, 16);
    const uint32_t y = n;
    ranges[n++] = qsf_self_buffer(b, storage, c->y, FUSED_ROWS * 4);
    if (p->bias) ranges[n++] = qsf_self_buffer(b, storage, c->row_bias, FUSED_ROWS * 4);
    fused_reference(b->t->k, c);
    qsf_self_step(b, pipeline, ranges, n, each * QSF_MAX(p->parts, 1), 1, 1);
    qsf_self_expect(b, ranges[y].buffer, SELF_NEAR, FUSED_NEAR, c->want, FUSED_ROWS);
}

qsf_status qsf_self_test_fused(qsf_self_test *t, const qsf_wgsl_product *p, qsf_error *err)
{
    self_build b;
    qsf_device_id pipeline;
    char name[64];
    if (!fused_is_tested(p)) return QSF_OK;
    qsf_format(name, sizeof name, "products of %s weights that make codes%s", qsf_form_name(p->form),
               p->gated ? " (gated)" : "");
    qsf_self_begin(&b, t, name, err);
    if (b.st) return b.st;
    qsf_wgsl_product_rows(&b.text, p);
    if (qsf_self_is_new(&b, &pipeline)) {
        fused_case c = { .p = p };
        fused_room(&b, &c);
        if (!b.st) fused_fill(&c);
        if (!b.st) fused_run(&b, &c, pipeline);
        qsf_self_room_free(&b, c.room, c.bytes);
    }
    return qsf_self_end(&b);
}
