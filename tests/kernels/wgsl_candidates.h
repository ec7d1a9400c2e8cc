/* Cases of the most likely tokens, and of the choice of one, with penalties.
 * SPDX-License-Identifier: MIT */
#ifndef KERNELS_WGSL_CANDIDATES_H
#define KERNELS_WGSL_CANDIDATES_H

#include "wgsl/candidates_wgsl.h"
#include "wgsl_tokens.h"

/* A logit as the shaders rank it. */
typedef struct ranked_pair { uint32_t order, column; } ranked_pair;
static const ranked_pair no_pair = { 0, UINT32_MAX };

static ranked_pair ranked_logit(float x, uint32_t column)
{
    const uint32_t bits = qsf_f32_bits(x + 0.0f);
    if (x != x) return no_pair;
    return (ranked_pair){ bits >> 31 ? ~bits : bits | 0x80000000u, column };
}
static float logit_of_order(uint32_t order)
{
    return qsf_f32_from_bits(order >> 31 ? order & 0x7fffffffu : ~order);
}
static int compare_pairs(const void *a, const void *b)
{
    const ranked_pair *x = a, *y = b;
    if (x->order != y->order) return x->order > y->order ? -1 : 1;
    return x->column < y->column ? -1 : x->column > y->column;
}

/* The `keep` best of each group of n pairs; returns the number of groups. */
static uint32_t best_pairs(ranked_pair *out, const ranked_pair *in, uint32_t n, uint32_t keep)
{
    const uint32_t part = qsf_wgsl_candidates_part(keep), groups = qsf_wgsl_candidates_groups(keep, n);
    ranked_pair *sorted = malloc(part * sizeof *sorted);
    if (!sorted) exit(1);
    for (uint32_t g = 0; g < groups; g++) {
        const uint32_t here = QSF_MIN(part, n - g * part);
        memcpy(sorted, in + g * part, here * sizeof *sorted);
        qsort(sorted, here, sizeof *sorted, compare_pairs);
        for (uint32_t i = 0; i < keep; i++) out[g * keep + i] = i < here ? sorted[i] : no_pair;
    }
    free(sorted);
    return groups;
}

/* ---- rows ---- */

enum { CAND_ROWS = 4 };

/* Rows that are hard to narrow down: random with equals; all equal; the largest in few invocations;
 * falling, with NaN and -infinity. */
static float *candidate_rows(table_test *t, const qsf_wgsl_candidates_numbers *p)
{
    float *x = random_floats(t, CAND_ROWS * (size_t)p->x_ld, 5);
    for (uint32_t c = 0; c < p->cols; c++) {
        float *row = x + p->x_at + c;
        if (c % 3 == 0) row[0] = floorf(row[0]);
        row[p->x_ld] = -0.25f;
        row[2 * p->x_ld] += c % 256 < 40 ? 20 : 0;
        row[3 * p->x_ld] = c % 7 == 0 ? NAN : c % 5 == 0 ? -INFINITY : 9 - 1e-3f * (float)c;
    }
    return x;
}

/* All pairs of a row, its sums by groups, and its record without candidates. */
static void row_sums(const float *x, uint32_t cols, uint32_t keep, ranked_pair *pairs, uint32_t (*sums)[4],
                     uint32_t *record)
{
    const uint32_t part = qsf_wgsl_candidates_part(keep);
    double all = 0;
    record[1] = 0;
    for (uint32_t c = 0; c < cols; c++) pairs[c] = ranked_logit(x[c], c);
    for (uint32_t g = 0; g * part < cols; g++) {
        const uint32_t end = QSF_MIN(cols, (g + 1) * part);
        float top = -3.4e38f;
        double sum = 0;
        uint32_t marks = 0;
        for (uint32_t c = g * part; c < end; c++)
            if (x[c] > top && x[c] < INFINITY) top = x[c];
        for (uint32_t c = g * part; c < end; c++) {
            const bool finite = fabsf(x[c]) < INFINITY;
            marks |= finite ? 0 : x[c] == -INFINITY ? 2 : 1;
            sum += finite ? exp((double)x[c] - (double)top) : 0;
            all += finite ? exp((double)x[c]) : 0;
        }
        sums[g][0] = qsf_f32_bits(top);
        sums[g][1] = qsf_f32_bits((float)sum);
        sums[g][2] = marks;
        sums[g][3] = 0;
        record[1] |= marks;
    }
    record[0] = qsf_f32_bits((float)log(all));
}

/* The record of the best pairs; none is chosen. */
static void record_pairs(uint32_t *record, const ranked_pair *best, uint32_t keep)
{
    record[2] = 0;
    record[3] = UINT32_MAX;
    for (uint32_t i = 0; i < keep; i++) {
        record[2] += best[i].column != UINT32_MAX;
        record[QSF_WGSL_RECORD + 2 * i] = best[i].column;
        record[QSF_WGSL_RECORD + 2 * i + 1] = qsf_f32_bits(logit_of_order(best[i].order));
    }
}

/* ---- the choice ---- */

enum { CHOICES = 12, LAST = 40 /* tokens of each row */ };

/* The record after penalties of the last tokens; *margin: how far it is from another order of those
 * that top-k, or the largest logit, keeps. */
static void penalize_reference(uint32_t *out, const uint32_t *record, const qsf_wgsl_rule *r,
                               const uint32_t *last, uint32_t newest, double *margin)
{
    ranked_pair pairs[QSF_WGSL_CANDIDATES];
    const uint32_t n = record[2], kept = r->scale == 0 ? 1 : r->top_k;
    memcpy(out, record, QSF_WGSL_RECORD * sizeof *out);
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t *pair = record + QSF_WGSL_RECORD + 2 * i;
        float x = qsf_f32_from_bits(pair[1]);
        uint32_t count = r->newest && newest == pair[0];
        for (uint32_t k = 0; k < r->n_last; k++) count += last[r->last_at + k] == pair[0];
        if (count) x = x > 0 ? x / r->repeat : x * r->repeat;
        if (count) x -= (float)count * r->frequency + r->presence;
        pairs[i] = ranked_logit(x, pair[0]);
    }
    qsort(pairs, n, sizeof *pairs, compare_pairs);
    for (uint32_t i = 0; i < n; i++) {
        out[QSF_WGSL_RECORD + 2 * i] = pairs[i].column;
        out[QSF_WGSL_RECORD + 2 * i + 1] = qsf_f32_bits(logit_of_order(pairs[i].order));
    }
    *margin = !kept || kept >= n ? 1
        : (double)logit_of_order(pairs[kept - 1].order) - (double)logit_of_order(pairs[kept].order);
    if (*margin == 0) *margin = 1;      /* both unchanged: the lower token is first */
}

/* What the sampler picks from a record; *margin: how far the draw is from another token. */
static uint32_t pick_reference(const uint32_t *record, const qsf_wgsl_rule *r, double *margin)
{
    double w[QSF_WGSL_CANDIDATES], all = 0, sum = 0;
    const uint32_t *pairs = record + QSF_WGSL_RECORD, n = record[2];
    const double top = (double)qsf_f32_from_bits(pairs[1]);
    *margin = 1;
    if (r->scale == 0) return pairs[0];
    for (uint32_t i = 0; i < n; i++) {
        const double d = ((double)qsf_f32_from_bits(pairs[2 * i + 1]) - top) * (double)r->scale;
        w[i] = (r->top_k && i >= r->top_k) || exp(d) < (double)r->min_p || d < -87.3 ? 0 : exp(d);
        all += w[i];
    }
    for (uint32_t i = 0; i < n; i++) {
        if (i && sum >= (double)r->top_p * all) w[i] = 0;
        else *margin = QSF_MIN(*margin, fabs(sum - (double)r->top_p * all));
        sum += w[i];
    }
    uint32_t chosen = 0;
    for (uint32_t i = 0; i < n; i++) {
        double lower = 0;
        for (uint32_t k = 0; k < n; k++) lower += pairs[2 * k] < pairs[2 * i] ? w[k] : 0;
        if (!(w[i] > 0)) continue;
        if (lower > 0) *margin = QSF_MIN(*margin, fabs(lower - (double)r->draw * sum));
        if (lower <= (double)r->draw * sum) chosen = QSF_MAX(chosen, pairs[2 * i]);
    }
    return chosen;
}

static qsf_wgsl_rule random_rule(table_test *t, uint32_t keep)
{
    return (qsf_wgsl_rule){ .top_k = (uint32_t)pick(t, 0, keep), .scale = 0.5f + (float)pick(t, 0, 20) / 10,
                            .top_p = pick(t, 0, 2) ? (float)pick(t, 1, 99) / 100 : 1,
                            .min_p = pick(t, 0, 2) ? 0 : 0.05f, .draw = (float)pick(t, 0, 999) / 1000,
                            .repeat = 1 + (float)pick(t, 0, 4) / 8, .frequency = (float)pick(t, 0, 4) / 4,
                            .presence = (float)pick(t, 0, 1) / 2, .n_last = (uint32_t)pick(t, 0, LAST),
                            .newest = (uint32_t)pick(t, 0, 1) };
}

/* The last stage for rows that all have the same pairs, with other rules. */
static void pick_run(wgsl_folder *f, table_test *t, const uint32_t *record, const ranked_pair *pairs,
                       uint32_t n_pairs, uint32_t (*sums)[4], uint32_t n_sums, uint32_t keep)
{
    const qsf_wgsl_candidates_numbers p = { .n = CHOICES, .cols = n_pairs, .sums = n_sums };
    qsf_wgsl_rule rules[CHOICES];
    uint32_t tokens[CHOICES], before[CHOICES], last[CHOICES * LAST];
    uint32_t after[QSF_WGSL_RECORD + 2 * QSF_WGSL_CANDIDATES];
    const int n_best = (int)QSF_MIN(n_pairs, keep);
    ranked_pair *in = malloc(CHOICES * (size_t)n_pairs * sizeof *in);
    uint32_t(*in_sums)[4] = malloc(CHOICES * (size_t)n_sums * sizeof *in_sums);
    const size_t words = qsf_wgsl_record_words(keep);
    uint32_t *records = calloc(CHOICES, words * 4);
    if (!in || !in_sums || !records) exit(1);
    for (uint32_t i = 0; i < CHOICES * LAST; i++)           /* the best ones, and others */
        last[i] = record[QSF_WGSL_RECORD + 2 * (uint32_t)pick(t, 0, i % 3 ? 3 : n_best - 1)];
    for (uint32_t m = 0; m < CHOICES; m++) {
        double margin, order;
        memcpy(in + m * (size_t)n_pairs, pairs, n_pairs * sizeof *in);
        memcpy(in_sums + m * (size_t)n_sums, sums, n_sums * sizeof *sums);
        before[m] = record[QSF_WGSL_RECORD + 2 * (m % 4)];
        do {
            rules[m] = random_rule(t, keep);
            rules[m].last_at = m * LAST;
            if (m % 6 == 3) rules[m].scale = 0;
            penalize_reference(after, record, &rules[m], last, before[m], &order);
            tokens[m] = pick_reference(after, &rules[m], &margin);
        } while (margin < 1e-4 || order < 1e-4);
    }
    wgsl_run(f, (const uint32_t[3]){ 1, CHOICES, 1 });
    wgsl_buffer(f, &p, sizeof p, false);
    wgsl_buffer(f, in, CHOICES * (size_t)n_pairs * sizeof *in, false);
    wgsl_buffer(f, in_sums, CHOICES * (size_t)n_sums * sizeof *in_sums, false);
    wgsl_buffer(f, records, CHOICES * words * 4, false);
    wgsl_buffer(f, rules, sizeof rules, false);
    wgsl_buffer(f, before, sizeof before, false);
    wgsl_buffer(f, last, sizeof last, true);
    wgsl_expect(f, 5, "u32", 0, tokens, sizeof tokens);
    free(in), free(in_sums), free(records);
}

/* ---- all stages of some rows ---- */

typedef struct candidate_case {
    uint32_t    keep, groups, n_pairs, words;
    qsf_wgsl_candidates_numbers p;
    float      *x;
    ranked_pair *pairs;         /* [CAND_ROWS][n_pairs] of the stage in hand */
    uint32_t  (*sums)[4];       /* [CAND_ROWS][groups] */
    uint32_t   *records;        /* [CAND_ROWS][words] */
} candidate_case;

static void *zeros_of(size_t n, size_t each)
{
    void *p = calloc(n, each);
    if (!p) exit(1);
    return p;
}

static void candidate_case_new(candidate_case *k, table_test *t, uint32_t keep, uint32_t cols)
{
    *k = (candidate_case){ .keep = keep, .groups = qsf_wgsl_candidates_groups(keep, cols), .n_pairs = cols,
                           .words = qsf_wgsl_record_words(keep),
                           .p = { .n = CAND_ROWS, .cols = cols, .x_ld = cols + 3, .x_at = 2, .scale = 1 } };
    k->x = candidate_rows(t, &k->p);
    k->pairs = zeros_of(CAND_ROWS * (size_t)cols, sizeof *k->pairs);
    k->sums = zeros_of(CAND_ROWS * (size_t)k->groups, sizeof *k->sums);
    k->records = zeros_of(CAND_ROWS * (size_t)k->words, 4);
    for (uint32_t m = 0; m < CAND_ROWS; m++)
        row_sums(k->x + m * k->p.x_ld + k->p.x_at, cols, keep, k->pairs + m * (size_t)cols,
                 k->sums + m * (size_t)k->groups, k->records + m * (size_t)k->words);
}

/* The pairs of the next stage; returns its groups. */
static uint32_t candidate_case_next(candidate_case *k)
{
    const uint32_t groups = qsf_wgsl_candidates_groups(k->keep, k->n_pairs), n = groups * k->keep;
    ranked_pair *out = zeros_of(CAND_ROWS * (size_t)n, sizeof *out);
    for (uint32_t m = 0; m < CAND_ROWS; m++)
        (void)best_pairs(out + m * (size_t)n, k->pairs + m * (size_t)k->n_pairs, k->n_pairs, k->keep);
    free(k->pairs);
    k->pairs = out;
    k->n_pairs = n;
    return groups;
}

static void candidates_first(wgsl_folder *f, candidate_case *k)
{
    const size_t bytes = CAND_ROWS * (size_t)k->groups * k->keep * 8;
    void *none = zeros_of(1, bytes), *no_sums = zeros_of(CAND_ROWS * (size_t)k->groups, sizeof *k->sums);
    (void)candidate_case_next(k);
    for (int out = 2; out < 4; out++) {
        wgsl_run(f, (const uint32_t[3]){ k->groups, CAND_ROWS, 1 });
        wgsl_buffer(f, &k->p, sizeof k->p, false);
        wgsl_buffer(f, k->x, CAND_ROWS * (size_t)k->p.x_ld * 4, false);
        wgsl_buffer(f, none, bytes, false);
        wgsl_buffer(f, no_sums, CAND_ROWS * (size_t)k->groups * sizeof *k->sums, true);
        if (out == 2) wgsl_expect(f, 2, "u32", 0, k->pairs, bytes);
        else wgsl_expect(f, 3, "words", 1e-5, k->sums, CAND_ROWS * (size_t)k->groups * sizeof *k->sums);
    }
    free(none), free(no_sums);
}

/* Sums of logits with a scale and a soft cap; those of some columns are far above it. */
static void candidates_capped(wgsl_folder *f, const candidate_case *k)
{
    const size_t n = CAND_ROWS * (size_t)k->groups, n_x = CAND_ROWS * (size_t)k->p.x_ld;
    qsf_wgsl_candidates_numbers p = k->p;
    float *x = zeros_of(n_x, 4), *capped = zeros_of(n_x, 4);
    ranked_pair *pairs = zeros_of(p.cols, sizeof *pairs);
    uint32_t(*sums)[4] = zeros_of(n, sizeof *sums), record[QSF_WGSL_RECORD];
    void *none = zeros_of(n * k->keep, 8);
    p.scale = 0.5f;
    p.cap = 3;
    for (size_t i = 0; i < n_x; i++) {
        x[i] = k->x[i] * (i % 501 ? 1 : 1e6f);
        capped[i] = fabsf(x[i]) < INFINITY ? (float)(3 * tanh((double)x[i] / 6)) : x[i];
    }
    for (uint32_t m = 0; m < CAND_ROWS; m++)
        row_sums(capped + m * p.x_ld + p.x_at, p.cols, k->keep, pairs, sums + m * (size_t)k->groups, record);
    wgsl_run(f, (const uint32_t[3]){ k->groups, CAND_ROWS, 1 });
    wgsl_buffer(f, &p, sizeof p, false);
    wgsl_buffer(f, x, n_x * 4, false);
    wgsl_buffer(f, none, n * k->keep * 8, false);
    wgsl_buffer(f, none, n * sizeof *sums, true);
    wgsl_expect(f, 3, "words", 1e-5, sums, n * sizeof *sums);
    free(x), free(capped), free(pairs), free(sums), free(none);
}

static void candidates_merge(wgsl_folder *f, candidate_case *k)
{
    const qsf_wgsl_candidates_numbers p = { .n = CAND_ROWS, .cols = k->n_pairs };
    wgsl_run(f, (const uint32_t[3]){ qsf_wgsl_candidates_groups(k->keep, k->n_pairs), CAND_ROWS, 1 });
    wgsl_buffer(f, &p, sizeof p, false);
    wgsl_buffer(f, k->pairs, CAND_ROWS * (size_t)k->n_pairs * sizeof *k->pairs, false);
    (void)candidate_case_next(k);
    void *none = zeros_of(CAND_ROWS * (size_t)k->n_pairs, sizeof *k->pairs);
    wgsl_buffer(f, none, CAND_ROWS * (size_t)k->n_pairs * sizeof *k->pairs, true);
    wgsl_expect(f, 2, "u32", 0, k->pairs, CAND_ROWS * (size_t)k->n_pairs * sizeof *k->pairs);
    free(none);
}

/* The records; without a run if the shader chooses. */
static void candidates_last(wgsl_folder *f, candidate_case *k, bool runs)
{
    const qsf_wgsl_candidates_numbers p = { .n = CAND_ROWS, .cols = k->n_pairs, .sums = k->groups };
    ranked_pair *best = zeros_of(k->keep, sizeof *best);
    for (uint32_t m = 0; m < CAND_ROWS; m++) {
        (void)best_pairs(best, k->pairs + m * (size_t)k->n_pairs, k->n_pairs, k->keep);
        record_pairs(k->records + m * (size_t)k->words, best, k->keep);
    }
    free(best);
    if (!runs) return;
    void *none = zeros_of(CAND_ROWS * (size_t)k->words, 4);
    wgsl_run(f, (const uint32_t[3]){ 1, CAND_ROWS, 1 });
    wgsl_buffer(f, &p, sizeof p, false);
    wgsl_buffer(f, k->pairs, CAND_ROWS * (size_t)k->n_pairs * sizeof *k->pairs, false);
    wgsl_buffer(f, k->sums, CAND_ROWS * (size_t)k->groups * sizeof *k->sums, false);
    wgsl_buffer(f, none, CAND_ROWS * (size_t)k->words * 4, true);
    wgsl_expect(f, 3, "words", 1e-5, k->records, CAND_ROWS * (size_t)k->words * 4);
    free(none);
}

static void candidates_cases(wgsl_folder *f, table_test *t)
{
    static const char *const stages[] = { "first", "merge", "last", "choose", "first_bare", "choose_bare" };
    for (uint32_t keep = 32; keep <= QSF_WGSL_CANDIDATES; keep *= 2) {
        /* as many columns as need a merge; a row shorter than a group */
        const uint32_t cols = keep == 128 ? 2048 * 17 - 5 : keep == 64 ? 9001 : 30;
        candidate_case k;
        candidate_case_new(&k, t, keep, cols);
        for (int stage = 0; stage < (keep == 64 ? 6 : 4); stage++) {
            const qsf_wgsl_candidates c = {
                .stage = stage == 4 ? QSF_WGSL_FIRST : stage < 3 ? (qsf_wgsl_stage)stage : QSF_WGSL_LAST,
                .keep = keep, .choose = stage == 3 || stage == 5, .bare = stage > 3,
            };
            char name[64];
            qsf_wgsl_candidates_text(wgsl_shader(f), &c);
            snprintf(name, sizeof name, "candidates_%u_%s", (unsigned)keep, stages[stage]);
            wgsl_shader_end(f, name);
            if (stage == 0) candidates_first(f, &k);
            if (stage == 0 && keep == 64) candidates_capped(f, &k);
            if (stage == 1 && qsf_wgsl_candidates_merges(keep, cols)) candidates_merge(f, &k);
            if (stage == 2) candidates_last(f, &k, true);
            for (uint32_t m = 0; stage == 3 && keep < 128 && m < CAND_ROWS; m += 3)
                pick_run(f, t, k.records + m * (size_t)k.words, k.pairs + m * (size_t)k.n_pairs, k.n_pairs,
                           k.sums + m * (size_t)k.groups, k.groups, keep);
        }
        free(k.x), free(k.pairs), free(k.sums), free(k.records);
    }
}

#endif
