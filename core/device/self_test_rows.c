/* The self-test's rows and attention: floats, compared within rounding.
 * SPDX-License-Identifier: MIT */
#include "device/self_test_own.h"

#include "wgsl/chunks_wgsl.h"
#include "wgsl/places_wgsl.h"
#include "wgsl/prompt_wgsl.h"

/* Half a step of 8 bits is 1 / 254 of the largest of 64. */
#define SELF_ROWS_NEAR  1e-4f
#define SELF_CODES_NEAR 0.0042f

static void self_fill(float *x, size_t n, float amp, self_random *r)
{
    for (size_t i = 0; i < n; i++) x[i] = self_float(r, amp);
}

static qsf_device_range self_floats(self_build *b, const float *x, uint64_t n)
{
    return qsf_self_buffer(b, QSF_DEVICE_STORAGE, x, n * sizeof *x);
}

/* ---- rows ---- */

enum { ROWS_N = 2, ROWS_COLS = 1100, ROWS_SHARES = 2 };

typedef struct rows_numbers {
    float a[ROWS_SHARES * ROWS_N * ROWS_COLS], b[ROWS_N * ROWS_COLS], weight[ROWS_COLS], bias[ROWS_COLS],
          y[ROWS_N * ROWS_COLS], want[ROWS_N * ROWS_COLS];
} rows_numbers;

void qsf_self_function(const qsf_kernels *k, float *y, uint32_t n, qsf_wgsl_function f)
{
    if (f == QSF_WGSL_SILU) k->silu_inplace(y, n);
    if (f == QSF_WGSL_GELU) k->gelu_inplace(y, n);
    if (f == QSF_WGSL_RELU) k->relu_inplace(y, n);
}

/* What the CPU makes of row m. */
static void self_rows_reference(const qsf_kernels *k, const qsf_wgsl_rows *r, rows_numbers *x, uint32_t m)
{
    const float *a = x->a + (size_t)m * ROWS_COLS;
    float *y = x->want + (size_t)m * ROWS_COLS;
    memcpy(y, a, ROWS_COLS * sizeof *y);
    if (r->source == QSF_WGSL_FROM_SHARES) {
        k->vec_add(y, y, a + ROWS_N * ROWS_COLS, ROWS_COLS);
        if (r->bias && !r->norm) k->vec_add(y, y, x->bias, ROWS_COLS);
    }
    qsf_self_function(k, y, ROWS_COLS, r->function);
    if (r->source == QSF_WGSL_FROM_TWO) k->vec_mul(y, y, x->b + (size_t)m * ROWS_COLS, ROWS_COLS);
    if (r->norm == QSF_WGSL_RMS_NORM) k->rms_norm(y, y, x->weight, ROWS_COLS, 1e-5f);
    if (r->norm == QSF_WGSL_LAYER_NORM)
        k->layer_norm(y, y, x->weight, r->bias ? x->bias : NULL, ROWS_COLS, 1e-5f);
    if (r->add && !r->codes) k->vec_add(y, y, x->y + (size_t)m * ROWS_COLS, ROWS_COLS);
}

static void self_rows_run(self_build *b, const qsf_wgsl_rows *r, qsf_device_id pipeline, rows_numbers *x)
{
    const uint32_t n = ROWS_N, cols = ROWS_COLS, x_ld = (cols + 255) / 256 * 20;
    const qsf_wgsl_rows_numbers numbers = {
        .n = n, .cols = cols, .a_ld = cols, .b_ld = cols, .x_ld = x_ld, .y_ld = cols, .eps = 1e-5f,
        .shares = ROWS_SHARES, .share_ld = n,
    };
    self_random rand = { 7 };
    qsf_device_range ranges[8];
    uint32_t at = 0;
    self_fill(x->a, QSF_ARRAY_LEN(x->a), 3, &rand);
    self_fill(x->b, QSF_ARRAY_LEN(x->b), 2, &rand);
    self_fill(x->weight, cols, 2, &rand);
    self_fill(x->bias, cols, 1, &rand);
    self_fill(x->y, QSF_ARRAY_LEN(x->y), 1, &rand);
    for (uint32_t m = 0; m < n; m++) self_rows_reference(b->t->k, r, x, m);
    ranges[at++] = qsf_self_buffer(b, QSF_DEVICE_UNIFORM, &numbers, sizeof numbers);
    ranges[at++] = self_floats(b, x->a, QSF_ARRAY_LEN(x->a));
    if (r->source == QSF_WGSL_FROM_TWO) ranges[at++] = self_floats(b, x->b, QSF_ARRAY_LEN(x->b));
    if (r->norm) ranges[at++] = self_floats(b, x->weight, cols);
    if (r->bias) ranges[at++] = self_floats(b, x->bias, cols);
    if (r->flags) ranges[at++] = self_floats(b, NULL, 4);
    if (r->codes) ranges[at++] = qsf_self_buffer(b, QSF_DEVICE_STORAGE, NULL, (uint64_t)n * x_ld * 16);
    if (r->floats) ranges[at++] = self_floats(b, x->y, QSF_ARRAY_LEN(x->y));
    qsf_self_step(b, pipeline, ranges, at, r->norm ? 1 : r->codes ? (x_ld + 79) / 80 : 2, n, 1);
    if (r->floats)
        qsf_self_expect(b, ranges[at - 1].buffer, SELF_NEAR, SELF_ROWS_NEAR, x->want, n * cols);
    else
        qsf_self_expect_codes(b, ranges[at - 1].buffer, SELF_CODES_NEAR, x->want, n, cols, x_ld);
}

qsf_status qsf_self_test_rows(qsf_self_test *t, const qsf_wgsl_rows *r, qsf_error *err)
{
    self_build b;
    qsf_device_id pipeline;
    /* attention's join is a part of its own case; others than these are tested by no case */
    if (r->source > QSF_WGSL_FROM_SHARES || r->function > QSF_WGSL_RELU || r->sinks || r->bare || r->gated
        || r->scaled) return QSF_OK;
    qsf_self_begin(&b, t, r->norm ? "norms of rows" : "rows of a feed-forward", err);
    if (b.st) return b.st;
    qsf_wgsl_rows_text(&b.text, r);
    if (qsf_self_is_new(&b, &pipeline)) {
        rows_numbers *x = qsf_self_room(&b, sizeof *x);
        if (x) self_rows_run(&b, r, pipeline, x);
        qsf_self_room_free(&b, x, sizeof *x);
    }
    return qsf_self_end(&b);
}

/* ---- attention ---- */

/* A sequence in two blocks, of which the second comes first in the cache. */
enum { ATT_N = 37, ATT_BLOCKS = 2, ATT_CHUNK = 1 };

typedef struct attention_case {
    qsf_wgsl_attend a;
    const qsf_kv_layout *layout;
    uint32_t heads, dim, half;          /* query heads; one of keys and values */
    float   *q, *k, *v;                 /* [ATT_N][heads][dim], [ATT_N][dim] */
    float   *weights;                   /* [2][dim] of queries, of keys */
    float   *angles;                    /* [ATT_N][half] cosine, sine */
    float   *cosine, *sine;             /* [half] of a row */
    float   *want;                      /* [ATT_N][heads][dim] */
    float   *room;
    uint64_t bytes;
} attention_case;

static void attention_room(self_build *b, attention_case *c, self_random *r)
{
    const size_t rows = (size_t)ATT_N * c->dim, angles = (size_t)ATT_N * c->half;
    c->bytes = (2 * rows * c->heads + 2 * rows + 2 * (size_t)c->dim + 2 * angles + 2 * (size_t)c->half + 1)
        * sizeof(float);
    if (!(c->room = qsf_self_room(b, c->bytes))) return;
    c->q = c->room;
    c->k = c->q + rows * c->heads;
    c->v = c->k + rows;
    c->weights = c->v + rows;
    c->angles = c->weights + 2 * (size_t)c->dim;
    c->cosine = c->angles + 2 * angles;
    c->sine = c->cosine + c->half;
    c->want = c->sine + c->half;
    self_fill(c->q, rows * c->heads, 2, r);
    self_fill(c->k, rows, 2, r);
    self_fill(c->v, rows, 2, r);
    self_fill(c->weights, 2 * (size_t)c->dim, 1, r);
    for (size_t i = 0; i < angles; i++) {
        const float t = self_float(r, 3), all = 1 + t * t;       /* of half the angle, the tangent */
        c->angles[2 * i] = (1 - t * t) / all;
        c->angles[2 * i + 1] = 2 * t / all;
    }
}

/* Norm and rotation of a query or a key of row m. */
static void attention_head(const attention_case *c, const qsf_kernels *k, float *x, uint32_t m,
                           const float *weights)
{
    for (uint32_t i = 0; i < c->half; i++) {
        c->cosine[i] = c->angles[2 * ((size_t)m * c->half + i)];
        c->sine[i] = c->angles[2 * ((size_t)m * c->half + i) + 1];
    }
    if (c->a.norm && !c->a.rotated_first) k->rms_norm(x, x, weights, c->dim, 1e-5f);
    if (c->a.rope) k->rope_apply(x, 1, c->dim, c->half, c->cosine, c->sine, c->a.pairs);
    if (c->a.norm && c->a.rotated_first) k->rms_norm(x, x, weights, c->dim, 1e-5f);
}

/* want[m][head] = the values up to row m, by the softmax of their scores. */
static void attention_query(const attention_case *c, uint32_t m, uint32_t head, float scale, float cap)
{
    const float *q = c->q + ((size_t)m * c->heads + head) * c->dim;
    float *y = c->want + ((size_t)m * c->heads + head) * c->dim;
    float scores[ATT_N], top = -INFINITY, all = 0;
    for (uint32_t i = 0; i <= m; i++) {
        float s = 0;
        for (uint32_t d = 0; d < c->dim; d++) s += q[d] * c->k[(size_t)i * c->dim + d];
        scores[i] = c->a.softcap ? cap - 2 * cap / (expf(2 * s * scale / cap) + 1) : s * scale;
        top = QSF_MAX(top, scores[i]);
    }
    for (uint32_t i = 0; i <= m; i++) all += scores[i] = expf(scores[i] - top);
    for (uint32_t d = 0; d < c->dim; d++) {
        float sum = 0;
        for (uint32_t i = 0; i <= m; i++) sum += scores[i] * c->v[(size_t)i * c->dim + d];
        y[d] = sum / all;
    }
}

/* Changes q and k to what attention sees of them. */
static void attention_reference(const attention_case *c, const qsf_kernels *k, float scale, float cap)
{
    for (uint32_t m = 0; m < ATT_N; m++) {
        attention_head(c, k, c->k + (size_t)m * c->dim, m, c->weights + c->dim);
        for (uint32_t h = 0; h < c->heads; h++) {
            attention_head(c, k, c->q + ((size_t)m * c->heads + h) * c->dim, m, c->weights);
            attention_query(c, m, h, scale, cap);
        }
    }
}

/* Buffers that the three shaders share. */
typedef struct attention_buffers {
    qsf_device_range numbers, q, k, v, rows, table, queries, kv, angles, weights, sums, tops;
} attention_buffers;

/* The cache, of which no place is what it will be. */
static qsf_device_range attention_cache(self_build *b, const attention_case *c)
{
    const uint64_t bytes = ATT_BLOCKS * (uint64_t)c->layout->record;
    uint8_t *full = qsf_self_room(b, bytes);
    if (full) memset(full, 0xa5, (size_t)bytes);
    const qsf_device_range r = qsf_self_buffer(b, QSF_DEVICE_STORAGE, full, bytes);
    qsf_self_room_free(b, full, bytes);
    return r;
}

static void attention_upload(self_build *b, const attention_case *c, const qsf_wgsl_attend_numbers *numbers,
                             attention_buffers *to)
{
    const uint32_t chunks = (ATT_BLOCKS + ATT_CHUNK - 1) / ATT_CHUNK, heads = ATT_N * c->heads;
    const uint32_t table[ATT_BLOCKS + 1][2] = { { 1, 0 }, { 0, 1 }, { ATT_N, 0 } };
    uint32_t rows[ATT_N][4];
    for (uint32_t m = 0; m < ATT_N; m++)
        memcpy(rows[m], (uint32_t[4]){ m, 0, ATT_BLOCKS, 1 - m / QSF_KV_BLOCK }, sizeof rows[m]);
    to->numbers = qsf_self_buffer(b, QSF_DEVICE_UNIFORM, numbers, sizeof *numbers);
    to->q = self_floats(b, c->q, (uint64_t)heads * c->dim);
    to->k = self_floats(b, c->k, (uint64_t)ATT_N * c->dim);
    to->v = self_floats(b, c->v, (uint64_t)ATT_N * c->dim);
    to->rows = qsf_self_buffer(b, QSF_DEVICE_STORAGE, rows, sizeof rows);
    to->table = qsf_self_buffer(b, QSF_DEVICE_STORAGE, table, sizeof table);
    to->queries = self_floats(b, NULL, (uint64_t)heads * qsf_wgsl_query_words(&c->a));
    to->kv = attention_cache(b, c);
    if (c->a.rope) to->angles = self_floats(b, c->angles, 2 * (uint64_t)ATT_N * c->half);
    if (c->a.norm) to->weights = self_floats(b, c->weights, 2 * (uint64_t)c->dim);
    to->sums = self_floats(b, NULL, (uint64_t)heads * chunks * c->a.room);
    to->tops = self_floats(b, NULL, (uint64_t)heads * chunks * 2);
}

/* The chunks joined: codes of each row. */
static void attention_join(self_build *b, const attention_case *c, const attention_buffers *in)
{
    const qsf_wgsl_rows r = { .source = QSF_WGSL_FROM_ATTENTION, .codes = true };
    const uint32_t cols = c->heads * c->dim, x_ld = (cols + 255) / 256 * 20;
    const qsf_wgsl_rows_numbers numbers = {
        .n = ATT_N, .cols = cols, .x_ld = x_ld, .heads = c->heads, .head_dim = c->dim,
        .chunks = (ATT_BLOCKS + ATT_CHUNK - 1) / ATT_CHUNK, .room = c->a.room,
    };
    qsf_self_text(b);
    if (b->st) return;
    qsf_wgsl_rows_text(&b->text, &r);
    const qsf_device_id pipeline = qsf_self_pipeline(b);
    const qsf_device_range ranges[] = {
        qsf_self_buffer(b, QSF_DEVICE_UNIFORM, &numbers, sizeof numbers), in->sums, in->tops,
        qsf_self_buffer(b, QSF_DEVICE_STORAGE, NULL, (uint64_t)ATT_N * x_ld * 16),
    };
    qsf_self_step(b, pipeline, ranges, 4, (x_ld + 79) / 80, ATT_N, 1);
    /* keys and values have been rounded, too */
    qsf_self_expect_codes(b, ranges[3].buffer, c->a.codes ? 0.05f : 0.008f, c->want, ATT_N, cols, x_ld);
}

/* Queries, keys and values to their places. */
static void attention_places(self_build *b, const attention_case *c, qsf_device_id places,
                             const qsf_wgsl_attend_numbers *numbers, attention_buffers *in)
{
    attention_upload(b, c, numbers, in);
    qsf_device_range ranges[9] = { in->numbers, in->q, in->k, in->v, in->rows, in->queries, in->kv };
    uint32_t n = 7;
    if (c->a.rope) ranges[n++] = in->angles;
    if (c->a.norm) ranges[n++] = in->weights;
    qsf_self_step(b, places, ranges, n, c->heads + 2, ATT_N, 1);
    attention_reference(c, b->t->k, numbers->scale, numbers->cap);
}

/* All rows in two groups. */
static void prompt_steps(self_build *b, attention_case *c, qsf_device_id prompt,
                         const qsf_wgsl_attend_numbers *numbers)
{
    static const uint32_t groups[2][2] = { { 0, QSF_WGSL_PROMPT_ROWS },
                                           { QSF_WGSL_PROMPT_ROWS, ATT_N - QSF_WGSL_PROMPT_ROWS } };
    attention_buffers in = { .numbers = { 0, 0, 0 } };
    const uint32_t all = ATT_N * c->heads * c->dim;
    qsf_self_text(b);
    if (b->st) return;
    qsf_wgsl_places(&b->text, &c->a);
    attention_places(b, c, qsf_self_pipeline(b), numbers, &in);
    const qsf_device_range ranges[] = { in.numbers, in.queries, in.kv, in.rows, in.table,
                                        qsf_self_buffer(b, QSF_DEVICE_STORAGE, groups, sizeof groups),
                                        self_floats(b, NULL, all) };
    qsf_self_step(b, prompt, ranges, 7, 2, c->heads, 1);
    qsf_self_expect(b, ranges[6].buffer, SELF_NEAR, c->a.codes ? 0.05f : 0.008f, c->want, all);
}

static void attention_steps(self_build *b, attention_case *c, qsf_device_id places,
                            const qsf_wgsl_attend_numbers *numbers)
{
    attention_buffers in = { .numbers = { 0, 0, 0 } };
    attention_places(b, c, places, numbers, &in);
    qsf_self_text(b);
    if (b->st) return;
    qsf_wgsl_chunks(&b->text, &c->a);
    const qsf_device_id chunks = qsf_self_pipeline(b);
    const qsf_device_range of_chunks[] = { in.numbers, in.queries, in.kv, in.rows, in.table, in.sums,
                                           in.tops };
    qsf_self_step(b, chunks, of_chunks, 7, (ATT_BLOCKS + ATT_CHUNK - 1) / ATT_CHUNK, ATT_N,
                  (c->heads + c->a.share - 1) / c->a.share);
    attention_join(b, c, &in);
}

static qsf_wgsl_attend_numbers self_attend_numbers(const attention_case *c)
{
    const qsf_kv_layout *l = c->layout;
    return (qsf_wgsl_attend_numbers){
        .n = ATT_N, .heads = c->heads, .kv_heads = 1, .head_dim = c->dim, .q_ld = c->heads * c->dim,
        .k_ld = c->dim, .v_ld = c->dim, .record = (uint32_t)(l->record / 4),
        .value_at = (uint32_t)(l->v_at / 4), .key_scales_at = (uint32_t)(l->kd_at / 4),
        .value_scales_at = (uint32_t)(l->vd_at / 4), .half = c->half, .mix = l->k_bits ? 8 : 0,
        .eps = 1e-5f, .scale = 0.1f, .cap = 3, .block = 1, .q_step = c->dim, .blocks = ATT_CHUNK,
    };
}

static qsf_status test_attention(qsf_self_test *t, const qsf_wgsl_attend *a, const qsf_kv_layout *l,
                                 bool prompt, qsf_error *err)
{
    if (a->wide || a->alibi || a->both || a->head_sinks || a->values || a->mean || a->still || a->temper)
        return QSF_OK;          /* tested by no case */
    qsf_kv_layout own = *l;
    attention_case c = { .a = *a, .layout = &own, .heads = QSF_MIN(a->share + 1, 4u), .dim = l->head_dim,
                         .half = a->rope ? l->head_dim / 2 : 0 };
    self_random r = { 11 };
    self_build b;
    qsf_device_id of;
    char name[64];
    own.n_kv_heads = 1;
    qsf_format(name, sizeof name, "attention%s (%s)", prompt ? " of prompts" : "",
               a->codes ? "8 bits" : "f16");
    qsf_self_begin(&b, t, name, err);
    if (b.st) return b.st;
    if (prompt) qsf_wgsl_prompt(&b.text, a);
    else qsf_wgsl_places(&b.text, a);
    if (qsf_self_is_new(&b, &of)) {
        const qsf_wgsl_attend_numbers numbers = self_attend_numbers(&c);
        attention_room(&b, &c, &r);
        if (!b.st && prompt) prompt_steps(&b, &c, of, &numbers);
        else if (!b.st) attention_steps(&b, &c, of, &numbers);
        qsf_self_room_free(&b, c.room, c.bytes);
    }
    return qsf_self_end(&b);
}

qsf_status qsf_self_test_attention(qsf_self_test *t, const qsf_wgsl_attend *a, const qsf_kv_layout *l,
                                   qsf_error *err)
{
    return test_attention(t, a, l, false, err);
}

qsf_status qsf_self_test_prompt(qsf_self_test *t, const qsf_wgsl_attend *a, const qsf_kv_layout *l,
                                qsf_error *err)
{
    return test_attention(t, a, l, true, err);
}
