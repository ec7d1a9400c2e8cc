/* The most likely tokens as dispatches: parts of the rows, merges, records.
 * SPDX-License-Identifier: MIT */
#include "device/device_candidates.h"

enum { KEPT = QSF_DEVICE_KEPT };

/* ---- buffers ---- */

/* Pairs of a row after the first stage, and groups of it. */
static uint64_t pairs_bytes(const qsf_device_logit_rows *l)
{
    return (uint64_t)l->rows * qsf_wgsl_candidates_groups(KEPT, l->n_vocab) * KEPT * 8;
}
static uint64_t sums_bytes(const qsf_device_logit_rows *l)
{
    return (uint64_t)l->rows * qsf_wgsl_candidates_groups(KEPT, l->n_vocab) * 16;
}
static uint64_t rules_bytes(uint32_t rows) { return (uint64_t)rows * sizeof(qsf_wgsl_rule); }
static uint64_t last_bytes(uint32_t rows) { return (uint64_t)rows * QSF_CHOICE_LAST * sizeof(int32_t); }
static uint64_t records_bytes(uint32_t rows) { return (uint64_t)rows * qsf_wgsl_record_words(KEPT) * 4; }

static qsf_status candidate_buffers(qsf_device_candidates *c, qsf_device_buffers *b,
                                    const qsf_device_logit_rows *l, qsf_error *err)
{
    const qsf_device *d = b->d;
    qsf_status st = d->buffer_new(d->user, QSF_DEVICE_UNIFORM, QSF_DEVICE_KEPT_STEPS * QSF_DEVICE_NUMBERS,
                                  &c->numbers, err);
    for (int i = 0; i < 2 && !st; i++) st = qsf_device_buffer_new(b, pairs_bytes(l), &c->pairs[i], err);
    if (!st && c->chooses) st = qsf_device_buffer_new(b, rules_bytes(l->rows), &c->rules, err);
    if (!st && c->chooses) st = qsf_device_buffer_new(b, last_bytes(l->rows), &c->last, err);
    if (st || QSF_WGSL_BARE(c->bare)) return st;
    st = qsf_device_buffer_new(b, sums_bytes(l), &c->sums, err);
    if (!st) st = qsf_device_buffer_new(b, records_bytes(l->rows), &c->records, err);
    if (st) return st;
    c->words = qsf_alloc(b->platform, records_bytes(l->rows), "candidates", err);
    c->found = qsf_alloc_array(b->platform, l->rows, sizeof *c->found, "candidates", err);
    return c->words && c->found ? QSF_OK : QSF_E_MEMORY;
}

/* ---- steps ---- */

static uint32_t choice_ranges(const qsf_device_candidates *c, const qsf_device_buffers *b, uint32_t rows,
                              qsf_device_range to[3])
{
    to[0] = (qsf_device_range){ c->rules, 0, rules_bytes(rows) };
    to[1] = (qsf_device_range){ b->of[QSF_DEVICE_IDS], 0, b->bytes[QSF_DEVICE_IDS] };
    to[2] = (qsf_device_range){ c->last, 0, last_bytes(rows) };
    return 3;
}

/* A stage over `cols` logits or pairs of a row, which are in pairs[from] after the first stage. */
static qsf_status candidate_step(qsf_device_candidates *c, qsf_device_buffers *b,
                                 const qsf_device_logit_rows *l, qsf_wgsl_stage stage, bool choose,
                                 uint32_t cols, int from, qsf_error *err)
{
    const qsf_device *d = b->d;
    const bool bare = QSF_WGSL_BARE(c->bare);
    const qsf_wgsl_candidates kind = { .stage = stage, .keep = KEPT, .choose = choose, .bare = bare };
    const uint32_t i = c->n_steps, sums = qsf_wgsl_candidates_groups(KEPT, l->n_vocab);
    const uint64_t at = (uint64_t)i * QSF_DEVICE_NUMBERS;
    const qsf_wgsl_candidates_numbers numbers = { .n = l->rows, .cols = cols, .x_ld = l->ld, .sums = sums,
                                                  .scale = l->scale, .cap = l->cap };
    const qsf_device_range pairs_in = { c->pairs[from], 0, pairs_bytes(l) },
        pairs_out = { c->pairs[!from], 0, pairs_bytes(l) }, sums_of = { c->sums, 0, sums_bytes(l) },
        records = { c->records, 0, records_bytes(l->rows) };
    qsf_device_range ranges[7] = { { c->numbers, at, QSF_DEVICE_NUMBERS } };
    qsf_wgsl_text t;
    uint32_t n = 1;
    assert(i < QSF_DEVICE_KEPT_STEPS);
    qsf_status st = d->write(d->user, c->numbers, at, &numbers, sizeof numbers, err);
    qsf_pipeline_begin(&b->pipelines, &t);
    qsf_wgsl_candidates_text(&t, &kind);
    if (!st) st = qsf_pipeline_end(&b->pipelines, &t, "candidates", &c->pipeline[i], err);
    ranges[n++] = stage == QSF_WGSL_FIRST ? l->range : pairs_in;
    if (stage != QSF_WGSL_LAST) ranges[n++] = pairs_out;
    if (!bare && stage != QSF_WGSL_MERGE) ranges[n++] = sums_of;
    if (!bare && stage == QSF_WGSL_LAST) ranges[n++] = records;
    if (choose) n += choice_ranges(c, b, l->rows, ranges + n);
    if (!st) st = d->group_new(d->user, c->pipeline[i], ranges, n, &c->group[i], err);
    c->wide[i] = stage == QSF_WGSL_LAST ? 1 : qsf_wgsl_candidates_groups(KEPT, cols);
    c->n_steps += !choose || bare;
    return st;
}

qsf_status qsf_device_candidates_begin(qsf_device_candidates *c, qsf_device_buffers *b,
                                       const qsf_device_logit_rows *l, qsf_error *err)
{
    const bool bare = QSF_WGSL_BARE(l->bare);
    const uint32_t merges = qsf_wgsl_candidates_merges(KEPT, l->n_vocab);
    uint32_t groups = qsf_wgsl_candidates_groups(KEPT, l->n_vocab);
    int from = 1;
    *c = (qsf_device_candidates){ .n_vocab = l->n_vocab, .chooses = l->chooses, .bare = l->bare };
    if (l->n_vocab < KEPT || pairs_bytes(l) > b->d->info->max_binding
        || merges > (bare ? 0 : QSF_DEVICE_KEPT_STEPS - 3)) return QSF_OK;
    c->rows = l->rows;
    qsf_status st = candidate_buffers(c, b, l, err);
    if (!st) st = candidate_step(c, b, l, QSF_WGSL_FIRST, false, l->n_vocab, from, err);
    for (uint32_t i = 0; !bare && i < merges && !st; i++) {
        from = !from;
        st = candidate_step(c, b, l, QSF_WGSL_MERGE, false, groups * KEPT, from, err);
        groups = qsf_wgsl_candidates_groups(KEPT, groups * KEPT);
    }
    for (int choose = bare; choose <= c->chooses && !st; choose++)
        st = candidate_step(c, b, l, QSF_WGSL_LAST, choose, groups * KEPT, !from, err);
    return st;
}

qsf_status qsf_device_candidates_rules(qsf_device_candidates *c, const qsf_device_buffers *b,
                                       const qsf_wgsl_rule *rules, uint32_t n, qsf_error *err)
{
    assert(n <= c->rows);
    return b->d->write(b->d->user, c->rules, 0, rules, (size_t)rules_bytes(n), err);
}

qsf_status qsf_device_candidates_last(const qsf_device_candidates *c, const qsf_device_buffers *b,
                                      uint32_t row, const int32_t *last, uint32_t n, qsf_error *err)
{
    assert(row < c->rows && n <= QSF_CHOICE_LAST);
    return n ? b->d->write(b->d->user, c->last, last_bytes(row), last, n * sizeof *last, err) : QSF_OK;
}

qsf_status qsf_device_candidates_list(qsf_device_candidates *c, qsf_device_buffers *b, uint32_t n,
                                      bool choose, qsf_device_dispatch *list, size_t *len, qsf_error *err)
{
    assert(n <= c->rows);
    for (uint32_t k = 0; k < c->n_steps; k++) {
        const uint32_t i = k + (choose && !QSF_WGSL_BARE(c->bare) && k + 1 == c->n_steps);
        const qsf_status st = qsf_pipeline_wait(&b->pipelines, c->pipeline[i], err);
        if (st) return st;
        list[(*len)++] = (qsf_device_dispatch){ c->pipeline[i], c->group[i], c->wide[i], n, 1 };
    }
    return QSF_OK;
}

#if !defined(QSF_NO_CANDIDATES)
/* ---- results ---- */

static void record_read(qsf_candidates *to, const uint32_t *record, uint32_t n_vocab)
{
    const uint32_t *pairs = record + QSF_WGSL_RECORD;
    *to = (qsf_candidates){ .n = record[2], .n_vocab = n_vocab, .log_sum = qsf_f32_from_bits(record[0]) };
    for (uint32_t i = 0; i < to->n; i++) {
        to->token[i] = (int32_t)pairs[2 * i];
        to->logit[i] = qsf_f32_from_bits(pairs[2 * i + 1]);
    }
}

qsf_status qsf_device_candidates_start(qsf_device_candidates *c, const qsf_device_buffers *b, uint32_t n,
                                       qsf_device_id *read, qsf_error *err)
{
    return b->d->read_start(b->d->user, c->records, 0, c->words, (size_t)records_bytes(n), read, err);
}

int32_t qsf_device_candidates_chosen(const qsf_device_candidates *c, uint32_t i)
{
    return (int32_t)c->words[(size_t)i * qsf_wgsl_record_words(KEPT) + 3];
}

qsf_status qsf_device_candidates_read(qsf_device_candidates *c, const qsf_device_buffers *b,
                                      qsf_device_id *read, uint32_t n, bool *finite, qsf_error *err)
{
    const qsf_status st = qsf_device_result(b->d, *read, err);
    *read = 0;
    *finite = true;
    for (uint32_t i = 0; i < n && !st; i++) {
        const uint32_t *record = c->words + (size_t)i * qsf_wgsl_record_words(KEPT);
        /* A wrong count or token is a fault of the device, which must not become one of memory. */
        *finite = *finite && !record[1] && record[2] == KEPT;
        for (uint32_t k = 0; k < KEPT; k++) *finite = *finite && record[QSF_WGSL_RECORD + 2 * k] < c->n_vocab;
        if (*finite) record_read(&c->found[i], record, c->n_vocab);
    }
    return st;
}

#endif

/* ---- the end ---- */

qsf_status qsf_device_candidates_there(const qsf_device_candidates *c, const qsf_device_buffers *b,
                                       qsf_error *err)
{
    const qsf_device_id buffers[] = { c->numbers, c->pairs[0], c->pairs[1], c->sums, c->records,
                                      c->rules, c->last };
    qsf_status st = QSF_OK;
    for (size_t i = 0; c->rows && i < QSF_ARRAY_LEN(buffers) && !st; i++)
        st = qsf_device_buffer_there(b, buffers[i], err);
    return st;
}

void qsf_device_candidates_done(qsf_device_candidates *c, const qsf_device_buffers *b)
{
    if (!c->rows) return;
    const qsf_device *d = b->d;
    const qsf_device_id buffers[] = { c->numbers, c->pairs[0], c->pairs[1], c->sums, c->records,
                                      c->rules, c->last };
    for (uint32_t i = 0; i < QSF_ARRAY_LEN(c->group); i++) d->release(d->user, c->group[i]);
    for (size_t i = 0; i < QSF_ARRAY_LEN(buffers); i++) d->release(d->user, buffers[i]);
    if (c->words) qsf_dealloc(b->platform, c->words, records_bytes(c->rows));
    if (c->found) qsf_dealloc(b->platform, c->found, (uint64_t)c->rows * sizeof *c->found);
    *c = (qsf_device_candidates){ 0 };
}
