/* Cases of attention of a prompt: rows in groups, over records that the CPU's KV cache wrote.
 * SPDX-License-Identifier: MIT */
#ifndef KERNELS_WGSL_PROMPT_H
#define KERNELS_WGSL_PROMPT_H

#include "wgsl/prompt_wgsl.h"
#include "wgsl_attend.h"

/* The table of wgsl_attend.h: 36 rows of the sequence that dropped its second block, two of the
 * other one. */
enum { P_ROWS = 38, P_FIRST = 36, P_POS = 66, P_GROUPS = 3 };
static const uint32_t p_groups[P_GROUPS][2] = { { 0, 32 }, { 32, 4 }, { 36, 2 } };

static void prompt_row(uint32_t m, uint32_t row[4])
{
    const bool one = m < P_FIRST;
    row[0] = one ? P_POS + m : 9 + m - P_FIRST;
    row[1] = one ? 0 : 4;
    row[2] = one ? 3 : 1;
    row[3] = 0;
}

/* A head of a row, head_dim floats; q: its query. */
static void prompt_reference(const attend_case *c, const uint32_t row[4], const uint32_t *q, uint32_t head,
                             const float *sink, float *out)
{
    const qsf_wgsl_attend_numbers *n = &c->numbers;
    double sums[QSF_WGSL_HEAD_DIM] = { 0 }, scores[96], top = sink ? (double)*sink : -1e30, all = 0;
    for (uint32_t i = 0; i < 32 * row[2]; i++) {
        const uint32_t *e = a_table[row[1] + i / 32];
        scores[i] = -1e30;
        if (!position_seen(c, e[1] * 32 + i % 32, row)) continue;
        scores[i] = 0;
        for (uint32_t d = 0; d < c->shader.room; d++)
            scores[i] += query_column(c, q, d) * key_column(c, record_of(c, e[0], head / A_REP), i % 32, d);
        scores[i] *= (double)n->scale;
        if (c->shader.alibi)
            scores[i] -= alibi_of(n, head) * fabs((double)(e[1] * 32 + i % 32) - (double)row[0]);
        if (c->shader.softcap) scores[i] = (double)n->cap * tanh(scores[i] / (double)n->cap);
        top = scores[i] > top ? scores[i] : top;
    }
    if (sink) all = exp((double)*sink - top);
    for (uint32_t i = 0; i < 32 * row[2]; i++) {
        const uint8_t *record = record_of(c, a_table[row[1] + i / 32][0], head / A_REP);
        if (scores[i] <= -1e30) continue;
        all += exp(scores[i] - top);
        for (uint32_t d = 0; d < n->head_dim; d++)
            sums[d] += exp(scores[i] - top) * value_column(c, record, i % 32, d);
    }
    for (uint32_t d = 0; d < n->head_dim; d++) out[d] = (float)(sums[d] / all);
}

static void prompt_run(wgsl_folder *f, table_test *t, const qsf_kernels *k, attend_case *c)
{
    static const uint32_t groups[3] = { P_GROUPS, A_HEADS, 1 };
    const qsf_wgsl_attend_numbers *n = &c->numbers;
    const uint32_t words = qsf_wgsl_query_words(&c->shader), room = c->shader.room;
    uint32_t *queries = calloc((size_t)P_ROWS * A_HEADS, words * 4), rows[P_ROWS][4];
    float *y = calloc((size_t)P_ROWS * n->q_ld, 4), *sinks = random_floats(t, A_HEADS, 2);
    char *none = calloc((size_t)P_ROWS * n->q_ld, 4);
    if (!queries || !y || !none) exit(1);
    for (uint32_t m = 0; m < P_ROWS; m++) {
        prompt_row(m, rows[m]);
        for (uint32_t h = 0; h < A_HEADS; h++) {
            float *x = random_floats(t, room, 2);
            uint32_t *q = queries + (m * A_HEADS + h) * words;
            place_query_words(c, k, x, q);
            prompt_reference(c, rows[m], q, h, c->shader.head_sinks ? &sinks[h] : NULL,
                             y + m * n->q_ld + n->q_at + h * n->head_dim);
            free(x);
        }
    }
    wgsl_run(f, groups);
    wgsl_buffer(f, n, sizeof *n, false);
    wgsl_buffer(f, queries, (size_t)P_ROWS * A_HEADS * words * 4, false);
    wgsl_buffer(f, c->records, A_BLOCKS * A_RECORDS * c->layout.record, false);
    wgsl_buffer(f, rows, sizeof rows, false);
    wgsl_buffer(f, a_table, sizeof a_table, false);
    wgsl_buffer(f, p_groups, sizeof p_groups, false);
    wgsl_buffer(f, none, (size_t)P_ROWS * n->q_ld * 4, !c->shader.head_sinks);
    if (c->shader.head_sinks) wgsl_buffer(f, sinks, A_HEADS * 4, true);
    wgsl_expect(f, 6, "f32", 1e-4, y, (size_t)P_ROWS * n->q_ld * 4);
    free(queries), free(y), free(sinks), free(none);
}

static void prompt_shader(wgsl_folder *f, table_test *t, const qsf_kernels *k, attend_case *c, bool runs)
{
    const qsf_wgsl_attend *a = &c->shader;
    char name[64];
    qsf_wgsl_prompt(wgsl_shader(f), a);
    snprintf(name, sizeof name, "prompt_%s_%u%s%s%s%s", a->codes ? "codes" : "f16", (unsigned)a->room,
             a->softcap ? "_softcap" : "", a->alibi ? "_alibi" : "", a->both ? "_both" : "",
             a->head_sinks ? "_sinks" : "");
    wgsl_shader_end(f, name);
    if (!runs) return;
    attend_begin(c, t, k);
    c->numbers.n = P_ROWS;
    prompt_run(f, t, k, c);
    free(c->records), free(c->queries);
}

static void prompt_cases(wgsl_folder *f, table_test *t, const qsf_kernels *k)
{
    static const uint32_t rooms[] = { 64, 80, 96, 128, 256, 512 };
    for (uint32_t i = 0; i < 6 * 2 * 4; i++) {
        const uint32_t room = rooms[i / 8];
        const uint32_t way = i % 4;
        attend_case c = { .shader = { .codes = i / 4 % 2, .room = room, .softcap = way % 2,
                                      .head_sinks = way / 2, .alibi = way == 2,
                                      .both = room == 96 || (room == 80 && way == 2) },
                          .numbers = { .head_dim = room, .q_ld = A_HEADS * room + 4, .q_at = 4,
                                       .scale = 0.125f, .cap = 3, .slope = -2, .even = 4 } };
        /* a window that does not reach all blocks; the first positions are seen from afar */
        if (way % 2) c.numbers.window = 20, c.numbers.sinks = 4, c.numbers.head_dim = room - 6;
        const bool runs = room == 64 ? way < 2 : room == 80 ? way > 1 : room == 256 && way == 0;
        if (c.shader.both) c.numbers.window = 50;
        prompt_shader(f, t, k, &c, runs);
    }
}

#endif
