/* Cases of attention: places and chunks, over records that the CPU's KV cache wrote.
 * SPDX-License-Identifier: MIT */
#ifndef KERNELS_WGSL_ATTEND_H
#define KERNELS_WGSL_ATTEND_H

#include "layers/kv.h"
#include "wgsl/chunks_wgsl.h"
#include "wgsl/places_wgsl.h"
#include "wgsl_rows.h"

/* Two sequences: the first has two rows in the batch and dropped its second block. */
enum { A_ROWS = 3, A_HEADS = 6, A_KV_HEADS = 2, A_BLOCKS = 8, A_REP = A_HEADS / A_KV_HEADS,
       A_RECORDS = 3 /* of a block: other layers have a head more */ };
static const uint32_t a_pos[A_ROWS] = { 101, 102, 10 };
static const uint32_t a_rows[A_ROWS][4] = { { 101, 0, 3, 7 }, { 102, 0, 3, 7 }, { 10, 4, 1, 3 } };
static const uint32_t a_table[][2] = { { 5, 0 }, { 2, 2 }, { 7, 3 }, { 104, 0 }, { 3, 0 }, { 12, 0 } };

typedef struct attend_case {
    qsf_wgsl_attend shader;
    qsf_wgsl_attend_numbers numbers;
    qsf_kv_layout layout;
    uint8_t *records;           /* [A_BLOCKS][A_KV_HEADS] */
    uint32_t *queries;          /* [A_ROWS][A_HEADS] as places leaves them */
} attend_case;

static uint8_t *record_of(const attend_case *c, uint32_t block, uint32_t kv)
{
    return c->records + (block * A_RECORDS + kv) * c->layout.record;
}
static uint8_t *record_of_row(const attend_case *c, uint32_t row, uint32_t kv)
{
    return record_of(c, a_rows[row][3], kv);
}

/* Places filled at random, the batch's own too. */
static void attend_begin(attend_case *c, table_test *t, const qsf_kernels *k)
{
    const uint32_t room = c->shader.room;
    qsf_kv_layout_init(&c->layout, c->shader.codes ? QSF_KV_Q8 : c->shader.wide ? QSF_KV_F32 : QSF_KV_F16, 1,
                       A_RECORDS, room);
    c->records = calloc(A_BLOCKS * A_RECORDS, c->layout.record);
    c->queries = calloc((size_t)A_ROWS * A_HEADS * qsf_wgsl_query_words(&c->shader), 4);
    if (!c->records || !c->queries) exit(1);
    for (uint32_t i = 0; i < A_BLOCKS * A_RECORDS * 32; i++) {
        float *key = random_floats(t, room, 2), *value = random_floats(t, room, 2);
        c->layout.ops->store(&c->layout, k, c->records + i / 32 * c->layout.record, i % 32, key, value);
        free(key), free(value);
    }
    qsf_wgsl_attend_numbers *n = &c->numbers;
    n->n = A_ROWS, n->heads = A_HEADS, n->kv_heads = A_KV_HEADS, n->block = A_RECORDS;
    n->record = (uint32_t)c->layout.record / 4, n->value_at = (uint32_t)c->layout.v_at / 4;
    n->key_scales_at = (uint32_t)c->layout.kd_at / 4, n->value_scales_at = (uint32_t)c->layout.vd_at / 4;
}

/* ---- places ---- */

typedef struct place_input { float *q, *k, *v, *weights, *cosine, *sine; } place_input;

/* A query or a key on its way to its place. */
static void norm_head(const attend_case *c, const qsf_kernels *k, float *x, const float *weight)
{
    const size_t n = c->numbers.head_dim;
    float ones[QSF_WGSL_HEAD_DIM];
    for (size_t i = 0; i < n; i++) ones[i] = 1;
    if (c->shader.mean) k->layer_norm(x, x, weight ? weight : ones, NULL, n, c->numbers.eps);
    else k->rms_norm(x, x, weight ? weight : ones, n, c->numbers.eps);
}

static void place_head(const attend_case *c, const qsf_kernels *k, const place_input *in, float *x,
                       uint32_t row, const float *weight)
{
    const qsf_wgsl_attend_numbers *n = &c->numbers;
    const float *angles[2] = { in->cosine + row * n->half, in->sine + row * n->half };
    for (int step = 0; step < 2; step++) {
        if (c->shader.norm && (step == 0) != c->shader.rotated_first)
            norm_head(c, k, x, weight);
        if (c->shader.rope && (step == 1) != c->shader.rotated_first)
            k->rope_apply(x, 1, n->head_dim, n->half, angles[0], angles[1], c->shader.pairs);
    }
}

static void place_query_words(const attend_case *c, const qsf_kernels *k, const float *x, uint32_t *to)
{
    if (!c->shader.codes) { memcpy(to, x, c->shader.room * sizeof *x); return; }
    float d;
    k->quantize_kv_8bit((int8_t *)(to + 1), &d, x, c->shader.room);
    to[0] = qsf_f32_bits(d);
}

/* The batch's queries, and its keys and values in the records. */
static void place_reference(const attend_case *c, const qsf_kernels *k, const place_input *in)
{
    const qsf_wgsl_attend_numbers *n = &c->numbers;
    for (uint32_t m = 0; m < A_ROWS; m++)
        for (uint32_t h = 0; h < A_HEADS + A_KV_HEADS; h++) {
            float x[QSF_WGSL_HEAD_DIM] = { 0 }, v[QSF_WGSL_HEAD_DIM] = { 0 };
            const bool query = h < A_HEADS;
            const uint32_t kv = h - A_HEADS;
            memcpy(x, query ? in->q + m * n->q_ld + n->q_at + h * n->q_step
                   : in->k + m * n->k_ld + n->k_at + kv * n->head_dim, n->head_dim * sizeof *x);
            place_head(c, k, in, x, m, in->weights + (n->norm_ld ? n->norm_ld * h : query ? 0 : n->head_dim));
            if (query && c->shader.temper)
                k->vec_scale(x, 1 + n->temp * (float)log(1 + a_pos[m] / n->every), n->head_dim);
            for (uint32_t i = 0; !query && c->shader.still && i < n->head_dim; i++)
                x[i] -= in->weights[kv * n->head_dim + i];
            if (c->shader.codes && n->mix) k->hadamard_inplace(x, n->head_dim, n->mix);
            if (query) {
                place_query_words(c, k, x, c->queries + (m * A_HEADS + h) * qsf_wgsl_query_words(&c->shader));
                continue;
            }
            memcpy(v, in->v + m * n->v_ld + n->v_at + kv * n->head_dim, n->head_dim * sizeof *v);
            if (c->shader.values) norm_head(c, k, v, NULL);
            c->layout.ops->store(&c->layout, k, record_of_row(c, m, kv), a_pos[m] % 32, x, v);
        }
}

static void place_run(wgsl_folder *f, attend_case *c, const place_input *in, const void *records,
                      bool queries)
{
    static const uint32_t groups[3] = { A_HEADS + 2 * A_KV_HEADS, A_ROWS, 1 };
    const qsf_wgsl_attend_numbers *n = &c->numbers;
    const size_t bytes = A_BLOCKS * A_RECORDS * c->layout.record,
        query = 4 * (size_t)qsf_wgsl_query_words(&c->shader);
    uint32_t *angles = malloc((size_t)A_ROWS * n->half * 8);
    char *none = calloc(A_ROWS * A_HEADS, query), type[64];
    if (!angles || !none) exit(1);
    for (uint32_t i = 0; i < A_ROWS * n->half; i++)
        angles[2 * i] = qsf_f32_bits(in->cosine[i]), angles[2 * i + 1] = qsf_f32_bits(in->sine[i]);
    wgsl_run(f, groups);
    wgsl_buffer(f, n, sizeof *n, false);
    wgsl_buffer(f, in->q, A_ROWS * (size_t)n->q_ld * 4, false);
    wgsl_buffer(f, in->k, A_ROWS * (size_t)n->k_ld * 4, false);
    wgsl_buffer(f, in->v, A_ROWS * (size_t)n->v_ld * 4, false);
    wgsl_buffer(f, a_rows, sizeof a_rows, false);
    wgsl_buffer(f, none, A_ROWS * A_HEADS * query, false);
    const bool weights = c->shader.norm || c->shader.still;
    wgsl_buffer(f, records, bytes, !c->shader.rope && !weights);
    if (c->shader.rope) wgsl_buffer(f, angles, (size_t)A_ROWS * n->half * 8, !weights);
    if (weights) wgsl_buffer(f, in->weights, (A_HEADS + A_KV_HEADS) * (size_t)n->head_dim * 4, true);
    if (queries) {
        snprintf(type, sizeof type, "codes:%zu:0:4", query);
        wgsl_expect(f, 5, c->shader.codes ? type : "f32", 1e-5, c->queries, A_ROWS * A_HEADS * query);
    } else {
        snprintf(type, sizeof type, "codes:%zu:%zu:%zu", c->layout.record, c->layout.kd_at, c->layout.record);
        wgsl_expect(f, 6, c->shader.codes ? type : c->shader.wide ? "f32" : "f16",
                    c->shader.wide ? 1e-5 : 1e-3, c->records, bytes);
    }
    free(angles), free(none);
}

static void place_runs(wgsl_folder *f, table_test *t, const qsf_kernels *k, attend_case *c)
{
    const qsf_wgsl_attend_numbers *n = &c->numbers;
    place_input in = {
        random_floats(t, A_ROWS * (size_t)n->q_ld, 2), random_floats(t, A_ROWS * (size_t)n->k_ld, 2),
        random_floats(t, A_ROWS * (size_t)n->v_ld, 2),
        random_floats(t, (A_HEADS + A_KV_HEADS) * (size_t)n->head_dim, 2),
        random_floats(t, A_ROWS * (size_t)n->half, 1), random_floats(t, A_ROWS * (size_t)n->half, 1),
    };
    const size_t bytes = A_BLOCKS * A_RECORDS * c->layout.record;
    void *before = malloc(bytes);
    if (!before) exit(1);
    memcpy(before, c->records, bytes);
    place_reference(c, k, &in);
    place_run(f, c, &in, before, true);
    place_run(f, c, &in, before, false);
    free(in.q), free(in.k), free(in.v), free(in.weights), free(in.cosine), free(in.sine), free(before);
}

/* ---- chunks ---- */

static double query_column(const attend_case *c, const uint32_t *q, uint32_t d)
{
    if (!c->shader.codes) return (double)qsf_f32_from_bits(q[d]);
    return (double)qsf_f32_from_bits(q[0]) * (int8_t)(q[1 + d / 4] >> d % 4 * 8);
}
static float record_float(const uint8_t *record, size_t at)
{
    return qsf_f32_from_bits(qsf_le32(record + at));
}
static double key_column(const attend_case *c, const uint8_t *record, uint32_t i, uint32_t d)
{
    const uint32_t room = c->shader.room;
    if (c->shader.wide) return (double)record_float(record, 4 * (i * room + d));
    if (!c->shader.codes) return (double)qsf_f16_to_f32(qsf_le16(record + 2 * (i * room + d)));
    return (double)record_float(record, c->layout.kd_at + 4 * i) * (int8_t)record[qsf_kv_k_at(i, d, room)];
}
static double value_column(const attend_case *c, const uint8_t *record, uint32_t i, uint32_t d)
{
    const uint8_t *v = record + c->layout.v_at;
    if (c->shader.wide) return (double)record_float(v, 4 * (i * c->shader.room + d));
    if (!c->shader.codes) return (double)qsf_f16_to_f32(qsf_le16(v + 2 * (i * c->shader.room + d)));
    return (double)record_float(record, c->layout.vd_at + 4 * i) * (int8_t)v[qsf_kv_v_at(i, d)];
}

/* row: as a_rows. */
static bool position_seen(const attend_case *c, uint32_t at, const uint32_t row[4])
{
    const qsf_wgsl_attend_numbers *n = &c->numbers;
    const uint32_t pos = row[0], far = at > pos ? at - pos : pos - at;
    if (c->shader.both) return at < a_table[row[1] + row[2]][0] && (!n->window || far <= n->window / 2);
    const uint32_t reach = at < n->sinks ? n->far : n->window;
    return at <= pos && (!reach || pos - at < reach);
}

/* As attention.c has it. */
static double alibi_of(const qsf_wgsl_attend_numbers *n, uint32_t head)
{
    const double all = (double)n->slope, beyond = head - (double)n->even;
    return pow(2, head < n->even ? all * (head + 1) : all / 2 * (2 * beyond + 1));
}

/* One chunk of one head of a row: sums of values, the largest score, the sum of exponentials. */
static void chunk_reference(const attend_case *c, uint32_t m, uint32_t head, uint32_t chunk, float *sums,
                            float *of)
{
    const uint32_t room = c->shader.room, positions = 32 * c->numbers.blocks;
    const uint32_t *q = c->queries + (m * A_HEADS + head) * qsf_wgsl_query_words(&c->shader);
    double score[128], top = -1e30, all = 0;
    for (uint32_t i = 0; i < positions; i++) {
        const uint32_t entry = chunk * c->numbers.blocks + i / 32;
        score[i] = -1e30;
        if (entry >= a_rows[m][2]) continue;
        const uint32_t *e = a_table[a_rows[m][1] + entry];
        if (!position_seen(c, e[1] * 32 + i % 32, a_rows[m])) continue;
        score[i] = 0;
        for (uint32_t d = 0; d < room; d++)
            score[i] += query_column(c, q, d) * key_column(c, record_of(c, e[0], head / A_REP), i % 32, d);
        score[i] *= (double)c->numbers.scale;
        if (c->shader.alibi)
            score[i] -= alibi_of(&c->numbers, head) * fabs((double)(e[1] * 32 + i % 32) - (double)a_pos[m]);
        if (c->shader.softcap) score[i] = (double)c->numbers.cap * tanh(score[i] / (double)c->numbers.cap);
        top = score[i] > top ? score[i] : top;
    }
    for (uint32_t d = 0; d < room; d++) sums[d] = 0;
    for (uint32_t i = 0; i < positions; i++) {
        if (score[i] <= -1e30) continue;
        const uint32_t *e = a_table[a_rows[m][1] + chunk * c->numbers.blocks + i / 32];
        const uint8_t *record = record_of(c, e[0], head / A_REP);
        all += exp(score[i] - top);
        for (uint32_t d = 0; d < room; d++)
            sums[d] += (float)(exp(score[i] - top) * value_column(c, record, i % 32, d));
    }
    of[0] = (float)top;
    of[1] = (float)all;
}

static void chunk_runs(wgsl_folder *f, attend_case *c)
{
    const uint32_t chunks = (3 + c->numbers.blocks - 1) / c->numbers.blocks, room = c->shader.room,
        parts = (A_REP + c->shader.share - 1) / c->shader.share, n = A_ROWS * A_HEADS * chunks;
    float *sums = malloc((size_t)n * room * 4), *of = malloc((size_t)n * 8);
    char *none = calloc((size_t)n * room, 4);
    if (!sums || !of || !none) exit(1);
    for (uint32_t i = 0; i < n; i++)
        chunk_reference(c, i / chunks / A_HEADS, i / chunks % A_HEADS, i % chunks, sums + (size_t)i * room,
                        of + 2 * i);
    for (unsigned which = 0; which < 2; which++) {
        const uint32_t groups[3] = { chunks, A_ROWS, A_KV_HEADS * parts };
        wgsl_run(f, groups);
        wgsl_buffer(f, &c->numbers, sizeof c->numbers, false);
        wgsl_buffer(f, c->queries, (size_t)A_ROWS * A_HEADS * qsf_wgsl_query_words(&c->shader) * 4, false);
        wgsl_buffer(f, c->records, A_BLOCKS * A_RECORDS * c->layout.record, false);
        wgsl_buffer(f, a_rows, sizeof a_rows, false);
        wgsl_buffer(f, a_table, sizeof a_table, false);
        wgsl_buffer(f, none, (size_t)n * room * 4, false);
        wgsl_buffer(f, none, (size_t)n * 8, true);
        if (which) wgsl_expect(f, 6, "f32", 1e-4, of, (size_t)n * 8);
        else wgsl_expect(f, 5, "f32", 1e-4, sums, (size_t)n * room * 4);
    }
    free(sums), free(of), free(none);
}

static void attend_shaders(wgsl_folder *f, table_test *t, const qsf_kernels *k, attend_case *c, bool runs)
{
    const qsf_wgsl_attend *a = &c->shader;
    const char *const kv = a->codes ? "codes" : a->wide ? "f32" : "f16";
    char name[128];
    if (runs) attend_begin(c, t, k);
    qsf_wgsl_places(wgsl_shader(f), a);
    snprintf(name, sizeof name, "places_%s_%u%s%s%s%s%s%s%s%s", kv, (unsigned)a->room,
             a->norm ? "_norm" : "", a->rotated_first ? "_last" : "", a->rope ? "_rope" : "",
             a->pairs ? "_pairs" : "", a->values ? "_values" : "", a->mean ? "_mean" : "",
             a->still ? "_still" : "", a->temper ? "_temper" : "");
    wgsl_shader_end(f, name);
    if (runs) place_runs(f, t, k, c);
    qsf_wgsl_chunks(wgsl_shader(f), a);
    snprintf(name, sizeof name, "chunks_%s_%u_%u%s%s%s", kv, (unsigned)a->room, (unsigned)a->share,
             a->softcap ? "_softcap" : "", a->alibi ? "_alibi" : "", a->both ? "_both" : "");
    wgsl_shader_end(f, name);
    if (!runs) return;
    chunk_runs(f, c);
    free(c->records), free(c->queries);
}

static void attend_cases(wgsl_folder *f, table_test *t, const qsf_kernels *k)
{
    static const uint32_t rooms[] = { 64, 80, 96, 128, 256, 512 };
    const uint32_t hd = 64;
    const qsf_wgsl_attend_numbers numbers = {
        .head_dim = hd, .q_ld = A_HEADS * hd + 4, .q_at = 4, .k_ld = A_KV_HEADS * hd,
        .v_ld = A_KV_HEADS * hd + 8, .v_at = 8, .half = hd / 2, .eps = 1e-5f, .scale = 0.125f, .cap = 3,
        .blocks = 2, .q_step = hd, .slope = -2, .even = 4, .temp = 0.3f, .every = 20,
    };
    attend_case plain = { .shader = { .room = 64, .share = 3, .norm = true, .rope = true },
                          .numbers = numbers },
        codes = { .shader = { .codes = true, .room = 64, .share = 2, .rope = true, .pairs = true,
                              .softcap = true }, .numbers = numbers };
    attend_case each = plain, wide = plain, both = plain, still = codes;
    codes.numbers.blocks = 1, codes.numbers.mix = 8, codes.numbers.window = 35, codes.numbers.sinks = 4;
    /* a layer whose heads are smaller than the cache's, rotated in part */
    codes.numbers.head_dim = 48, codes.numbers.half = 20;
    each.shader.rotated_first = true, each.shader.share = 1, each.numbers.blocks = 3;
    each.numbers.norm_ld = hd;
    attend_shaders(f, t, k, &plain, true);
    attend_shaders(f, t, k, &codes, true);
    attend_shaders(f, t, k, &each, true);
    /* records whose words do not fill the invocations, or are more than these */
    each.shader.room = 96, each.shader.share = 3, codes.shader.room = 320;
    attend_shaders(f, t, k, &each, true);
    attend_shaders(f, t, k, &codes, true);
    /* queries with gates after them, layer norms also of values; ALiBi in both directions */
    wide.shader.wide = wide.shader.mean = wide.shader.values = wide.shader.alibi = true;
    wide.numbers.q_step = 2 * hd, wide.numbers.q_ld = 2 * A_HEADS * hd + 4;
    attend_shaders(f, t, k, &wide, true);
    both.shader.norm = false, both.shader.values = both.shader.temper = both.shader.both = true;
    both.shader.alibi = both.shader.softcap = true;
    both.numbers.window = 9;
    attend_shaders(f, t, k, &both, true);
    still.shader.still = true, still.shader.temper = true, still.numbers.mix = 1;
    attend_shaders(f, t, k, &still, true);
    for (uint32_t i = 0; i < 6 * 2 * 16; i++) {
        attend_case c = { .shader = { .codes = i / 16 % 2, .wide = !(i / 16 % 2) && i % 3 == 1,
                                      .alibi = i % 5 == 2, .both = i % 7 == 3, .values = i % 5 == 1,
                                      .mean = i % 7 == 1, .still = i / 16 % 2 && i % 2 == 0 && i % 3,
                                      .temper = i % 5 == 3, .room = rooms[i / 32],
                                      .norm = i % 2, .rotated_first = i % 4 == 3, .rope = i / 2 % 2,
                                      .pairs = i / 4 % 2,
                                      .softcap = i / 8 % 2 } };
        const uint32_t most = qsf_wgsl_most_share(&c.shader);
        if (!most) continue;
        c.shader.share = i % 3 ? 1 : most < 8 ? most : 8;
        attend_shaders(f, t, k, &c, false);
    }
}

/* ---- chunks joined ---- */

static void join_run(wgsl_folder *f, table_test *t, const qsf_kernels *k, const qsf_wgsl_rows *r)
{
    const uint32_t heads = 3, hd = 24, room = 32, chunks = 5, cols = heads * hd, all = 2 * heads * chunks;
    const qsf_wgsl_rows_numbers n = { .n = 2, .cols = cols, .x_ld = 20, .y_ld = cols, .heads = heads,
                                      .head_dim = hd, .chunks = chunks, .room = room, .gate_ld = 2 * cols,
                                      .eps = 1e-5f };
    float *a = random_floats(t, (size_t)all * room, 2), *b = random_floats(t, 2 * all, 3),
        *s = random_floats(t, heads, 2), *y = random_floats(t, 2 * cols, 0),
        *gates = random_floats(t, 4 * cols, 3), *weight = random_floats(t, cols, 2);
    for (uint32_t i = 0; i < all; i++) b[2 * i + 1] = 1 + fabsf(b[2 * i + 1]);
    b[4] = -1e30f, b[5] = 0;
    for (uint32_t i = 0; i < 2 * cols; i++) {
        const uint32_t first = i / cols * heads * chunks + i % cols / hd * chunks;
        const uint32_t gate = i / cols * n.gate_ld + i % cols / hd * 2 * hd + hd + i % hd;
        double sum = 0, of = r->sinks ? exp((double)s[i % cols / hd]) : 0;
        for (uint32_t c = first; c < first + chunks; c++) {
            of += exp((double)b[2 * c]) * (double)b[2 * c + 1];
            sum += exp((double)b[2 * c]) * (double)a[c * room + i % hd];
        }
        y[i] = (float)(sum / of / (r->gated ? 1 + exp(-(double)gates[gate]) : 1));
    }
    for (uint32_t m = 0; m < 2 && r->norm; m++) k->rms_norm(y + m * cols, y + m * cols, weight, cols, n.eps);
    uint32_t *codes = rows_codes(k, y, 2, cols, n.x_ld);
    char *none = calloc(2 * n.x_ld, 16);
    if (!none) exit(1);
    wgsl_run(f, (const uint32_t[3]){ 1, 2, 1 });
    wgsl_buffer(f, &n, sizeof n, false);
    wgsl_buffer(f, a, (size_t)all * room * 4, false);
    wgsl_buffer(f, b, (size_t)all * 8, false);
    if (r->norm) wgsl_buffer(f, weight, cols * 4, false);
    if (r->sinks) wgsl_buffer(f, s, heads * 4, false);
    if (r->gated) wgsl_buffer(f, gates, 4 * (size_t)cols * 4, false);
    wgsl_buffer(f, none, r->codes ? 2 * (size_t)n.x_ld * 16 : 2 * (size_t)cols * 4, true);
    const uint32_t binding = 3u + (r->norm != 0) + r->sinks + r->gated;
    if (r->codes) wgsl_expect(f, binding, "act", 0, codes, 2 * (size_t)n.x_ld * 16);
    else wgsl_expect(f, binding, "f32", 1e-5, y, 2 * (size_t)cols * 4);
    free(a), free(b), free(s), free(y), free(codes), free(none), free(gates), free(weight);
}

#endif
