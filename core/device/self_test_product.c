/* The self-test's products and embeddings: tiles whose sums are exact.
 * SPDX-License-Identifier: MIT */
#include "device/self_test_own.h"

#include "forms.h"
#include "wgsl/product_rows_wgsl.h"
#include "wgsl/product_tiles_wgsl.h"

/* 32 rows of a matrix, and as many groups of columns as two for each of the most slices. */
enum { SELF_TILES = 2, SELF_COLS = 1024 };

/* fp16: powers of two, of which six are subnormal. */
static const uint16_t self_halves[QSF_TILE_ROWS] = {
    0x3c00, 0x0001, 0x0002, 0x0100, 0x0200, 0x0400, 0x1400, 0x3800,
    0xbc00, 0x8001, 0x4000, 0x4400, 0x2c00, 0x5000, 0x0010, 0xb400,
};

/* Sums of a row are whole multiples of its smallest scale, at most some 2^22 of them. */
static void self_scales(uint8_t *tile, qsf_form f, self_random *rand)
{
    for (uint32_t r = 0; r < QSF_TILE_ROWS; r++) {
        switch (qsf_forms[f].scales) {
        case QSF_SCALES_F16_ZERO:
        case QSF_SCALES_SUPER_MIN:
            qsf_put16(tile + 32 + 2 * r, self_halves[r]);
            qsf_put16(tile + 2 * r, self_halves[r]);
            break;
        case QSF_SCALES_F16:
        case QSF_SCALES_SUPER:
            qsf_put16(tile + 2 * r, self_halves[r]);
            break;
        case QSF_SCALES_F32:
            qsf_put16(tile + 2 * r, 0);
            qsf_put16(tile + 32 + 2 * r, (uint16_t)(0x3c00 + (r << 7)));
            break;
        case QSF_SCALES_E8M0:
            tile[r] = (uint8_t)(120 + r);
            break;
        case QSF_SCALES_TRELLIS:
            tile[r] = (uint8_t)((19 + r) << 3);
            break;
        case QSF_SCALES_TABLE:          /* the first ones are subnormal */
            tile[r] = (uint8_t)(r < 3 ? 1u << r : (r << 3) | (r & 1) << 7);
            break;
        case QSF_SCALES_UE4M3:          /* row 0: subnormal; others of two exponents */
            for (uint32_t k = 0; k < 4; k++)
                tile[16 * k + r] = (uint8_t)(r ? 0x30 + self_next(rand) % 16 : self_next(rand) % 8);
            break;
        default:
            break;
        }
    }
}

void qsf_self_tile(uint8_t *tile, qsf_form f, uint32_t block, self_random *r)
{
    const size_t n = qsf_tile_bytes(f, block);
    for (size_t i = 0; i < n; i++) tile[i] = (uint8_t)self_next(r);
    self_scales(tile, f, r);
}

/* Rows of activations for both sides. */
typedef struct self_rows {
    qsf_act   act;
    uint32_t *words;            /* [n][x_ld][4] */
    uint32_t  x_ld;
    void     *room;             /* of all */
    uint64_t  bytes;
} self_rows;

static void self_rows_words(const self_rows *x, uint32_t m)
{
    const qsf_act *a = &x->act;
    for (uint32_t at = 0; at < SELF_COLS; at += 64) {
        uint32_t *to = x->words + ((size_t)m * x->x_ld + at / 64 * 5) * 4;
        const int8_t *q = a->q + (size_t)m * a->cols + at;
        const int16_t *h = a->h + ((size_t)m * a->cols + at) / 8;
        to[0] = qsf_f32_bits(a->d[((size_t)m * a->cols + at) / 64]);
        for (uint32_t i = 0; i < 4; i++)
            to[1 + i / 2] |= (uint32_t)(uint16_t)(h[2 * i] + h[2 * i + 1]) << i % 2 * 16;
        memcpy(to + 4, q, 64);
    }
}

/* Codes up to `most` with scales of 1 and 1/2. */
static void self_rows_fill(self_build *b, self_rows *x, uint32_t n, uint32_t most, self_random *r)
{
    const uint32_t cols = qsf_act_cols(SELF_COLS);
    const uint64_t all = (uint64_t)n * cols;
    x->x_ld = SELF_COLS / 64 * 5;
    x->bytes = all / 16 + all / 8 + (uint64_t)n * x->x_ld * 16 + all / 4 + all;
    if (!(x->room = qsf_self_room(b, x->bytes))) return;
    float *d = x->room, *s = d + all / 64;
    x->words = (uint32_t *)(void *)(s + all / 32);
    int16_t *h = (int16_t *)(void *)(x->words + (size_t)n * x->x_ld * 4);
    x->act = (qsf_act){ .q = (int8_t *)(h + all / 8), .d = d, .s = s, .h = h, .n = n, .cols = cols };
    for (uint32_t m = 0; m < n; m++) {
        for (uint32_t c = 0; c < SELF_COLS; c++) {
            const size_t i = (size_t)m * cols + c;
            const int q = (int)(self_next(r) % (2 * most + 1)) - (int)most;
            x->act.q[i] = (int8_t)q;
            s[i / 32] += (float)q;
            h[i / 16 * 2 + i / 2 % 2] = (int16_t)(h[i / 16 * 2 + i / 2 % 2] + q);
            d[i / 64] = c / 64 % 2 ? 0.5f : 1;
        }
        self_rows_words(x, m);
    }
}

/* What Y holds at the end: the product, with `add` to Y twice, with a bias that of the first row
 * once more; so all numbers of a row are multiples of its scale. */
static void self_product_sums(const qsf_wgsl_product *p, const float *sums, uint32_t n, float *bias, float *y)
{
    const uint32_t rows = SELF_TILES * QSF_TILE_ROWS;
    for (uint32_t r = 0; p->bias && r < rows; r++) bias[r] = sums[r];
    for (uint32_t i = 0; i < n * rows; i++)
        y[i] = (p->add ? 2 : 1) * sums[i] + (p->bias ? bias[i % rows] : 0);
}

static void self_product_run(self_build *b, const qsf_wgsl_product *p, qsf_device_id pipeline,
                             const uint8_t *w, uint64_t w_bytes, const self_rows *x)
{
    const uint32_t rows = SELF_TILES * QSF_TILE_ROWS, n = x->act.n, blocks = SELF_COLS / p->block;
    const qsf_wgsl_product_numbers numbers = { .rows = rows, .tiles = SELF_TILES, .blocks = blocks, .n = n,
                                               .x_ld = x->x_ld, .y_ld = rows };
    const uint64_t bytes = (uint64_t)(2 * n + 1) * rows * sizeof(float);
    float *sums = qsf_self_room(b, bytes);
    if (!sums) return;
    float *want = sums + n * rows, *bias = want + n * rows;
    b->t->k->matmul[p->form](sums, rows, w, &x->act, SELF_TILES, blocks, p->block);
    self_product_sums(p, sums, n, bias, want);
    qsf_device_range ranges[5];
    uint32_t at = 0;
    ranges[at++] = qsf_self_buffer(b, QSF_DEVICE_UNIFORM, &numbers, sizeof numbers);
    ranges[at++] = qsf_self_buffer(b, QSF_DEVICE_STORAGE, w, w_bytes);
    ranges[at++] = qsf_self_buffer(b, QSF_DEVICE_STORAGE, x->words, (uint64_t)n * x->x_ld * 16);
    ranges[at++] = qsf_self_buffer(b, QSF_DEVICE_STORAGE, p->add ? sums : NULL, (uint64_t)n * rows * 4);
    if (p->bias) ranges[at++] = qsf_self_buffer(b, QSF_DEVICE_STORAGE, bias, rows * sizeof *bias);
    qsf_self_step(b, pipeline, ranges, at, p->rows ? SELF_TILES * QSF_MAX(p->parts, 1) : 1, 1, 1);
    qsf_self_expect(b, ranges[3].buffer, SELF_EXACT, 0, want, n * rows);
    qsf_self_room_free(b, sums, bytes);
}

qsf_status qsf_self_test_product(qsf_self_test *t, const qsf_wgsl_product *p, qsf_error *err)
{
    const uint64_t bytes = (uint64_t)SELF_TILES * (SELF_COLS / p->block) * qsf_tile_bytes(p->form, p->block);
    const bool super = qsf_forms[p->form].sub != 0;
    self_random r = { 1 + (uint32_t)p->form };
    self_build b;
    self_rows x = { .bytes = 0 };
    qsf_device_id pipeline;
    char name[64];
    assert(!p->from && !p->split && !p->gated && !p->scaled);
    qsf_format(name, sizeof name, "products of %s weights (%s)", qsf_form_name(p->form),
               p->rows ? "rows" : "tiles");
    qsf_self_begin(&b, t, name, err);
    if (b.st) return b.st;
    if (p->rows) qsf_wgsl_product_rows(&b.text, p);
    else qsf_wgsl_product_tiles(&b.text, p);
    if (qsf_self_is_new(&b, &pipeline)) {
        uint8_t *w = qsf_self_room(&b, bytes);
        for (uint64_t at = 0; w && at < bytes; at += qsf_tile_bytes(p->form, p->block))
            qsf_self_tile(w + at, p->form, p->block, &r);
        self_rows_fill(&b, &x, !p->rows ? 5 : p->rows > 1 ? p->rows - 1 : 1, super ? 31 : 127, &r);
        if (!b.st) self_product_run(&b, p, pipeline, w, bytes, &x);
        qsf_self_room_free(&b, x.room, x.bytes);
        qsf_self_room_free(&b, w, bytes);
    }
    return qsf_self_end(&b);
}

/* ---- experts ---- */

/* Two rows with two slots each; an expert's rows begin within a tile. */
enum { EXPERTS = 3, EXPERT_ROWS = 24, EXPERT_USED = 2, EXPERT_SLOTS = 4, EXPERT_TILES = 5,
       EXPERT_ALL = EXPERT_TILES * QSF_TILE_ROWS };
static const uint32_t expert_slots_of[EXPERT_SLOTS][2] = { { 2, 0 }, { 0, 0 }, { 1, 0 }, { 2, 0 } };
/* The same sorted by expert (choice_wgsl.h). */
static const uint32_t expert_list[] = { 0, 0, 1, 0, 1, 1, 1, 0, 2, 2, 2, 0, 1, 2, 0, 3 };

static void experts_run(self_build *b, const qsf_wgsl_experts *e, bool many, qsf_device_id pipeline,
                        const uint8_t *w, uint64_t w_bytes, const self_rows *x)
{
    static const float scales[EXPERTS] = { 1, 0.5f, 2 };
    const uint32_t blocks = SELF_COLS / e->block, groups = qsf_wgsl_expert_groups(EXPERT_SLOTS, EXPERTS),
        tiles = qsf_wgsl_expert_tiles(EXPERT_ROWS);
    const qsf_wgsl_experts_numbers numbers = {
        .rows = EXPERT_ROWS, .blocks = blocks, .end = EXPERTS, .x_ld = x->x_ld, .y_ld = EXPERT_ROWS,
        .used = EXPERT_USED, .slots = EXPERT_USED, .x_used = EXPERT_USED, .y_slots = EXPERT_USED,
        .groups = groups,
    };
    float sums[EXPERT_USED * EXPERT_ALL], want[EXPERT_SLOTS * EXPERT_ROWS];
    b->t->k->matmul[e->form](sums, EXPERT_ALL, w, &x->act, EXPERT_TILES, blocks, e->block);
    for (uint32_t i = 0; i < EXPERT_SLOTS * EXPERT_ROWS; i++) {
        const uint32_t slot = i / EXPERT_ROWS, expert = expert_slots_of[slot][0],
            row = expert * EXPERT_ROWS + i % EXPERT_ROWS;
        want[i] = sums[slot / EXPERT_USED * EXPERT_ALL + row] * (e->scales ? scales[expert] : 1)
            + (e->bias ? sums[row] : 0);
    }
    const uint32_t storage = QSF_DEVICE_STORAGE;
    qsf_device_range ranges[8];
    uint32_t n = 0;
    assert(groups == EXPERTS);
    ranges[n++] = qsf_self_buffer(b, QSF_DEVICE_UNIFORM, &numbers, sizeof numbers);
    ranges[n++] = qsf_self_buffer(b, storage, w, w_bytes);
    ranges[n++] = qsf_self_buffer(b, storage, x->words, (uint64_t)x->act.n * x->x_ld * 16);
    ranges[n++] = qsf_self_buffer(b, storage, NULL, sizeof want);
    ranges[n++] = qsf_self_buffer(b, storage, expert_slots_of, sizeof expert_slots_of);
    ranges[n++] = qsf_self_buffer(b, storage, expert_list, sizeof expert_list);
    if (e->scales) ranges[n++] = qsf_self_buffer(b, storage, scales, sizeof scales);
    if (e->bias) ranges[n++] = qsf_self_buffer(b, storage, sums, EXPERT_ALL * sizeof *sums);
    qsf_self_step(b, pipeline, ranges, n, many ? (tiles + 3) / 4 : tiles, 1, many ? groups : EXPERT_SLOTS);
    qsf_self_expect(b, ranges[3].buffer, SELF_EXACT, 0, want, QSF_ARRAY_LEN(want));
}

qsf_status qsf_self_test_experts(qsf_self_test *t, const qsf_wgsl_experts *e, bool many, qsf_error *err)
{
    const uint64_t blocks = SELF_COLS / e->block,
        bytes = EXPERT_TILES * blocks * qsf_tile_bytes(e->form, e->block);
    self_random r = { 1 + (uint32_t)e->form };
    self_build b;
    self_rows x = { .bytes = 0 };
    qsf_device_id pipeline;
    char name[64];
    qsf_format(name, sizeof name, "experts of %s weights (%s)", qsf_form_name(e->form),
               many ? "tiles" : "slots");
    qsf_self_begin(&b, t, name, err);
    if (b.st) return b.st;
    if (many) qsf_wgsl_experts_tiles(&b.text, e);
    else qsf_wgsl_experts_slots(&b.text, e);
    if (qsf_self_is_new(&b, &pipeline)) {
        uint8_t *w = qsf_self_room(&b, bytes);
        for (uint64_t at = 0; w && at < bytes; at += qsf_tile_bytes(e->form, e->block))
            qsf_self_tile(w + at, e->form, e->block, &r);
        self_rows_fill(&b, &x, EXPERT_USED, qsf_forms[e->form].sub ? 31 : 127, &r);
        if (!b.st) experts_run(&b, e, many, pipeline, w, bytes, &x);
        qsf_self_room_free(&b, x.room, x.bytes);
        qsf_self_room_free(&b, w, bytes);
    }
    return qsf_self_end(&b);
}

/* ---- rows of the embedding ---- */

enum { EMBED_COLS = 256, EMBED_TOKENS = 4 };
static const uint32_t self_embed_tokens[EMBED_TOKENS] = { 3, 31, 16, 0 };

/* The CPU's products with rows that have a 1 in one column each: the matrix, column by column. */
static float *self_embed_columns(self_build *b, const qsf_wgsl_embed *e, const uint8_t *w, uint64_t *bytes)
{
    const uint32_t rows = SELF_TILES * QSF_TILE_ROWS, cols = qsf_act_cols(EMBED_COLS);
    const uint64_t all = (uint64_t)EMBED_COLS * cols, y_floats = (uint64_t)EMBED_COLS * rows;
    *bytes = (y_floats + all / 64 + all / 32) * sizeof(float) + all / 4 + all;
    float *y = qsf_self_room(b, *bytes);
    if (!y) return NULL;
    float *d = y + y_floats, *s = d + all / 64;
    int16_t *h = (int16_t *)(void *)(s + all / 32);
    const qsf_act act = { .q = (int8_t *)(h + all / 8), .d = d, .s = s, .h = h, .n = EMBED_COLS,
                          .cols = cols };
    for (uint32_t c = 0; c < EMBED_COLS; c++) {
        const size_t i = (size_t)c * cols + c;
        act.q[i] = 1;
        d[i / 64] = s[i / 32] = 1;
        h[i / 16 * 2 + i / 2 % 2] = 1;
    }
    b->t->k->matmul[e->form](y, rows, w, &act, SELF_TILES, EMBED_COLS / e->block, e->block);
    return y;
}

static void self_embed_run(self_build *b, const qsf_wgsl_embed *e, qsf_device_id pipeline)
{
    const uint32_t blocks = EMBED_COLS / e->block, rows = SELF_TILES * QSF_TILE_ROWS;
    const uint64_t bytes = (uint64_t)SELF_TILES * blocks * qsf_tile_bytes(e->form, e->block);
    const qsf_wgsl_embed_numbers numbers = { .n = EMBED_TOKENS, .cols = EMBED_COLS, .blocks = blocks,
                                             .rows = rows, .y_ld = EMBED_COLS, .scale = 1 };
    self_random r = { 77 + (uint32_t)e->form };
    float want[EMBED_TOKENS * EMBED_COLS];
    uint64_t room = 0;
    uint8_t *w = qsf_self_room(b, bytes);
    for (uint64_t at = 0; w && at < bytes; at += qsf_tile_bytes(e->form, e->block))
        qsf_self_tile(w + at, e->form, e->block, &r);
    float *columns = w ? self_embed_columns(b, e, w, &room) : NULL;
    for (uint32_t i = 0; columns && i < QSF_ARRAY_LEN(want); i++)
        want[i] = columns[i % EMBED_COLS * rows + self_embed_tokens[i / EMBED_COLS]];
    if (columns) {
        const qsf_device_range ranges[] = {
            qsf_self_buffer(b, QSF_DEVICE_UNIFORM, &numbers, sizeof numbers),
            qsf_self_buffer(b, QSF_DEVICE_STORAGE, w, bytes),
            qsf_self_buffer(b, QSF_DEVICE_STORAGE, self_embed_tokens, sizeof self_embed_tokens),
            qsf_self_buffer(b, QSF_DEVICE_STORAGE, NULL, sizeof want),
        };
        qsf_self_step(b, pipeline, ranges, 4, 1, EMBED_TOKENS, 1);
        qsf_self_expect(b, ranges[3].buffer, SELF_NEAR, 1e-6f, want, QSF_ARRAY_LEN(want));
    }
    qsf_self_room_free(b, columns, room);
    qsf_self_room_free(b, w, bytes);
}

qsf_status qsf_self_test_embed(qsf_self_test *t, const qsf_wgsl_embed *e, qsf_error *err)
{
    self_build b;
    qsf_device_id pipeline;
    char name[64];
    if (e->floats) return QSF_OK;
    qsf_format(name, sizeof name, "embedding of %s weights", qsf_form_name(e->form));
    qsf_self_begin(&b, t, name, err);
    if (b.st) return b.st;
    qsf_wgsl_embed_text(&b.text, e);
    if (qsf_self_is_new(&b, &pipeline)) self_embed_run(&b, e, pipeline);
    return qsf_self_end(&b);
}
