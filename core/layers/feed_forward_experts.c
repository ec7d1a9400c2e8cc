/* A feed-forward of experts: a router chooses some of them for each row.
 * SPDX-License-Identifier: MIT
 *
 *   router: xn -> for each row its experts and their weights
 *   experts: gate, up -> act(gate) * up -> down, each for the rows that chose it
 *   tmp = the weighted sum of outputs, plus the shared experts' output
 *
 * A slot is a pair of a row and one of its experts.  Slots are sorted by expert, so that an
 * expert's weights are used once for all of its rows, and computed in waves of as many slots as fit
 * in memory.  A matrix has the rows of all experts in order; an expert's rows may begin within a
 * tile, and then its results begin `skew` rows after the tile's.  If experts are read one by one,
 * each may have tiles of its own, and a wave has the experts that are in memory.
 * If experts have norms of their own (Gemma 4), xn is computed from x again for each part; if they
 * have another width (Nemotron), a matrix narrows xn before them and another widens their sum. */
#include "layers/feed_forward_experts.h"
#include "layers/feed_forward_gated.h"
#include "layers/feed_forward_plain.h"
#include "layers/lora.h"
#include "layers/matrix.h"
#include "layers/router.h"

typedef struct experts_run {
    qsf_pass_job job;           /* the first: pieces get its address */
    uint32_t begin, end;        /* of the wave: places in the list of experts */
    uint32_t n;                 /* experts in the list */
    float   *sum;               /* [rows][ld_embd] */
} experts_run;

/* ---- an expert's part of a matrix ---- */

static uint32_t expert_skew(const qsf_pass *p, uint32_t kind, uint64_t row)
{
    const bool own = p->cpu->experts && p->cpu->experts->own_tiles;
    return p->w->m[kind].form >= 0 && !own ? (uint32_t)(row % QSF_TILE_ROWS) : 0;
}

/* Rows [row, row + n) of a matrix, preceded by the rows before them in the first tile. */
static qsf_matrix expert_part(const qsf_pass *p, uint32_t kind, uint64_t row, uint32_t n)
{
    const qsf_matrix *m = &p->w->m[kind];
    qsf_matrix part = *m;
    if (p->w->v[kind]) part.scale = p->w->v[kind][row / n];
    if (p->cpu->experts) {
        qsf_expert_place(p->cpu->experts, (uint32_t)p->number, (uint32_t)(row / n), &part);
        return part;
    }
    const uint32_t skew = expert_skew(p, kind, row);
    const uint8_t *data = m->t.data;
    const uint64_t tile = row / QSF_TILE_ROWS;
    if (m->form >= 0) data += tile * m->blocks * qsf_tile_bytes((qsf_form)m->form, m->t.block);
    else data += row * (m->t.bytes / m->t.rows);
    part.t.data = data;
    part.t.rows = skew + n;
    if (m->out_start) part.out_start += row - skew;
    return part;
}

/* The most tiles that an expert's rows can touch. */
static size_t expert_tiles(size_t rows) { return (rows + 2 * QSF_TILE_ROWS - 2) / QSF_TILE_ROWS; }

/* ---- slots ---- */

static uint32_t wave_first(const experts_run *r) { return r->job.p->b->expert_first[r->begin]; }
static uint32_t wave_slots(const experts_run *r)
{
    return r->job.p->b->expert_first[r->end] - wave_first(r);
}

/* n rows of slots from `first` of the wave on, as a matrix takes them. */
static qsf_matrix_in slots_in(const qsf_pass *p, const float *x, size_t ld, size_t cols, uint32_t first,
                              uint32_t n)
{
    return qsf_matrix_input_of(&p->b->slot_act, x, ld, cols, first, n);
}

/* Rows of the batch as experts take them. */
static qsf_matrix_in rows_in(const qsf_pass *p, size_t row, size_t n)
{
    return qsf_matrix_input(p, p->b->xn, p->b->ld_embd, p->layer->n_expert_embd, row, n);
}

/* The rows of the wave's slots: a single one is used in place. */
static qsf_matrix_in slots_rows(const qsf_pass *p, uint32_t first, uint32_t n)
{
    if (p->batch->n == 1) return rows_in(p, 0, 1);
    return slots_in(p, p->b->slot_x, p->b->ld_slot_x, p->layer->n_expert_embd, first, n);
}

/* What the i-th expert of the list widens. */
static qsf_matrix_in expert_in(const experts_run *r, uint32_t i)
{
    const uint32_t *first = r->job.p->b->expert_first;
    return slots_rows(r->job.p, first[i] - wave_first(r), first[i + 1] - first[i]);
}

static uint64_t hidden_row(const qsf_pass *p, uint32_t expert)
{
    return (uint64_t)expert * p->layer->n_ff_expert;
}

/* The matrix whose results become hidden rows. */
static uint32_t hidden_kind(const qsf_pass *p)
{
    return p->layer->experts_plain ? QSF_K_EXPERT_UP : QSF_K_EXPERT_GATE;
}

/* The hidden rows of an expert, n of the wave's from `first` on. */
static qsf_matrix_in expert_hidden(const qsf_pass *p, uint32_t expert, uint32_t first, uint32_t n)
{
    const uint32_t skew = expert_skew(p, hidden_kind(p), hidden_row(p, expert));
    return slots_in(p, p->b->slot_gate + skew, p->b->ld_slot, p->layer->n_ff_expert, first, n);
}

/* ---- jobs ---- */

/* What the router chooses by. */
static qsf_matrix_in router_in(const qsf_pass *p)
{
    return qsf_matrix_input(p, p->layer->router_early ? p->b->x : p->b->xn, p->b->ld_embd, p->hp->n_embd, 0,
                            p->batch->n);
}

static void make_router_codes(void *arg, uint32_t thread, uint32_t piece)
{
    const qsf_pass_job *job = arg;
    const qsf_matrix_in in = router_in(job->p);
    qsf_rows_ready(job->p, (const uint8_t[]){ QSF_K_ROUTER }, 1, &in, qsf_pass_mine(job, piece), thread);
}

static void route(void *arg, uint32_t thread, uint32_t piece)
{
    const qsf_pass_job *job = arg;
    const qsf_pass *p = job->p;
    const qsf_matrix_in in = router_in(p);
    qsf_matrix_multiply(p, &p->w->m[QSF_K_ROUTER], p->w->v[QSF_K_ROUTER_BIAS], &in, p->b->route,
                        p->b->ld_route, qsf_pass_mine(job, piece), thread);
}

/* The shared expert's weight for a row. */
static float shared_weight(const qsf_pass *p, const float *x)
{
    const float *w = p->w->v[QSF_K_SHARED_ROUTER];
    double sum = 0;
    if (!w) return 1;
    for (uint32_t i = 0; i < p->hp->n_embd; i++) sum += (double)w[i] * x[i];
    return (float)(1 / (1 + exp(-sum)));
}

/* What an expert's output is multiplied by counts with its weight. */
static void scale_weights(const qsf_pass *p, const uint32_t *chosen, float *weights)
{
    const float *of = p->w->v[QSF_K_EXPERT_WEIGHT];
    for (uint32_t k = 0; of && k < p->layer->n_used; k++) weights[k] *= of[chosen[k]];
}

static void choose(void *arg, uint32_t thread, uint32_t piece)
{
    const qsf_pass_job *job = arg;
    const qsf_pass *p = job->p;
    const qsf_buffers *b = p->b;
    const uint32_t k = p->layer->n_used;
    const qsf_range rows = qsf_pass_mine(job, piece);
    (void)thread;
    for (size_t i = rows.begin; i < rows.end; i++) {
        float *row = b->route + i * b->ld_route;
        qsf_pass_check(p, row, p->layer->n_experts);
        qsf_router_choose(p->layer, row, p->w->v[QSF_K_ROUTER_CHOICE],
                          b->chosen + i * k, b->chosen_weight + i * k);
        qsf_pass_check(p, row + p->layer->n_experts, p->layer->n_experts);     /* the experts' scores */
        scale_weights(p, b->chosen + i * k, b->chosen_weight + i * k);
        b->shared_weight[i] = shared_weight(p, b->xn + i * b->ld_embd);
    }
}

static bool takes_codes(const qsf_pass *p)
{
    return qsf_matrix_takes_codes(p, &p->w->m[QSF_K_EXPERT_GATE]) ||
           qsf_matrix_takes_codes(p, &p->w->m[QSF_K_EXPERT_UP]) || qsf_lora_takes_codes(p);
}

/* What adapters take of the wave's slots: of rows, or of hidden rows. */
static void adapt_slots(const experts_run *r, bool hidden, qsf_range slots, uint32_t thread)
{
    static const uint8_t wide[] = { QSF_K_EXPERT_UP, QSF_K_EXPERT_GATE }, narrow[] = { QSF_K_EXPERT_DOWN };
    const qsf_pass *p = r->job.p;
    const uint32_t wave = wave_first(r), end = wave + (uint32_t)slots.end;
    qsf_lora_expert e = { .first = wave + (uint32_t)slots.begin, .wave = wave };
    for (; p->cpu->lora && e.first < end; e.first += e.n) {
        e.expert = p->b->slot_expert[e.first];
        for (e.n = 1; e.first + e.n < end && p->b->slot_expert[e.first + e.n] == e.expert; e.n++) continue;
        const qsf_matrix_in in = hidden ? expert_hidden(p, e.expert, e.first - wave, e.n)
            : slots_rows(p, e.first - wave, e.n);
        qsf_lora_expert_down(p, hidden ? narrow : wide, hidden ? 1 : 2, &in, &e, thread);
    }
}

/* The rows of slots, and their codes if requested. */
static void gather(void *arg, uint32_t thread, uint32_t piece)
{
    const experts_run *r = arg;
    const qsf_pass *p = r->job.p;
    const qsf_buffers *b = p->b;
    const qsf_range slots = qsf_pass_mine(&r->job, piece);
    const bool codes = takes_codes(p);
    const bool floats = p->cpu->lora || qsf_matrix_takes_floats(p, &p->w->m[QSF_K_EXPERT_GATE]) ||
                        qsf_matrix_takes_floats(p, &p->w->m[QSF_K_EXPERT_UP]);
    for (size_t s = slots.begin; p->batch->n > 1 && s < slots.end; s++) {
        const uint32_t row = b->slot_row[wave_first(r) + s];
        const qsf_matrix_in from = rows_in(p, row, 1),
            to = slots_in(p, b->slot_x, b->ld_slot_x, p->layer->n_expert_embd, (uint32_t)s, 1);
        if (floats) memcpy(b->slot_x + s * b->ld_slot_x, from.x, p->layer->n_expert_embd * sizeof(float));
        if (!codes) continue;
        memcpy(to.act.q, from.act.q, to.act.cols * sizeof *to.act.q);
        memcpy(to.act.d, from.act.d, to.act.cols / 64 * sizeof *to.act.d);
        memcpy(to.act.s, from.act.s, to.act.cols / 32 * sizeof *to.act.s);
        memcpy(to.act.h, from.act.h, to.act.cols / 8 * sizeof *to.act.h);
    }
    adapt_slots(r, false, slots, thread);
}

/* Multiplies tiles [begin, end) of the matrix of the i-th expert of the list, which has `rows`
 * rows, by in; y[][ldy] is the output of the wave's first slot. */
static void multiply_part(const experts_run *r, uint32_t i, uint32_t kind, uint32_t bias, uint32_t rows,
                          const qsf_matrix_in *in, float *y, size_t ldy, qsf_range tiles, uint32_t thread)
{
    const qsf_pass *p = r->job.p;
    const uint32_t *first = p->b->expert_first;
    const qsf_lora_expert e = { p->b->expert_list[i], first[i], first[i + 1] - first[i], wave_first(r) };
    const uint64_t row = (uint64_t)e.expert * rows;
    const uint32_t skew = expert_skew(p, kind, row);
    const qsf_matrix part = expert_part(p, kind, row, rows);
    const float *add = p->w->v[bias];
    if (add) add += row - skew;
    y += (e.first - e.wave) * ldy;
    tiles.end = QSF_MIN(tiles.end, qsf_matrix_tiles(&part));
    qsf_matrix_multiply(p, &part, add, in, y, ldy, tiles, thread);
    if (p->cpu->lora) qsf_lora_expert_up(p, kind, &e, skew, y, ldy, tiles);
}

/* The next expert of a piece, and which of its `each` tiles; moves *at on. */
static uint32_t next_part(const experts_run *r, size_t *at, size_t end, size_t each, qsf_range *tiles)
{
    const uint32_t i = r->begin + (uint32_t)(*at / each);
    tiles->begin = *at % each;
    tiles->end = QSF_MIN(each, tiles->begin + (end - *at));
    *at += tiles->end - tiles->begin;
    return i;
}

static void widen_experts(void *arg, uint32_t thread, uint32_t piece)
{
    const experts_run *r = arg;
    const qsf_pass *p = r->job.p;
    const qsf_buffers *b = p->b;
    const uint32_t rows = p->layer->n_ff_expert;
    const qsf_range mine = qsf_pass_mine(&r->job, piece);
    for (size_t at = mine.begin; at < mine.end;) {
        qsf_range tiles;
        const uint32_t i = next_part(r, &at, mine.end, expert_tiles(rows), &tiles);
        const qsf_matrix_in in = expert_in(r, i);
        float *up = p->layer->experts_plain ? b->slot_gate : b->slot_up;
        multiply_part(r, i, QSF_K_EXPERT_UP, QSF_K_EXPERT_UP_BIAS, rows, &in, up, b->ld_slot, tiles, thread);
        if (p->layer->experts_plain) continue;
        multiply_part(r, i, QSF_K_EXPERT_GATE, QSF_K_EXPERT_GATE_BIAS, rows, &in, b->slot_gate, b->ld_slot,
                      tiles, thread);
    }
}

static void activate_slots(void *arg, uint32_t thread, uint32_t piece)
{
    const experts_run *r = arg;
    const qsf_pass *p = r->job.p;
    const qsf_buffers *b = p->b;
    const qsf_range slots = qsf_pass_mine(&r->job, piece);
    const bool codes = qsf_matrix_takes_codes(p, &p->w->m[QSF_K_EXPERT_DOWN]) || qsf_lora_takes_codes(p);
    for (size_t s = slots.begin; s < slots.end; s++) {
        const uint64_t row = hidden_row(p, b->slot_expert[wave_first(r) + s]);
        float *gate = b->slot_gate + s * b->ld_slot + expert_skew(p, hidden_kind(p), row);
        const float *up = b->slot_up + s * b->ld_slot + expert_skew(p, QSF_K_EXPERT_UP, row);
        if (p->layer->experts_plain) qsf_activate_plain(p, gate, p->layer->n_ff_expert);
        else qsf_activate_gated(p, gate, up, p->layer->n_ff_expert);
        if (!codes) continue;
        const qsf_matrix_in in = expert_hidden(p, b->slot_expert[wave_first(r) + s], (uint32_t)s, 1);
        qsf_matrix_quantize(p, &in, (qsf_range){ 0, 1 });
    }
    adapt_slots(r, true, slots, thread);
}

static void narrow_experts(void *arg, uint32_t thread, uint32_t piece)
{
    const experts_run *r = arg;
    const qsf_pass *p = r->job.p;
    const qsf_buffers *b = p->b;
    const uint32_t rows = p->layer->n_expert_embd;
    const qsf_range mine = qsf_pass_mine(&r->job, piece);
    for (size_t at = mine.begin; at < mine.end;) {
        qsf_range tiles;
        const uint32_t i = next_part(r, &at, mine.end, expert_tiles(rows), &tiles);
        const uint32_t e = b->expert_list[i], first = b->expert_first[i] - wave_first(r);
        const qsf_matrix_in in = expert_hidden(p, e, first, b->expert_first[i + 1] - b->expert_first[i]);
        multiply_part(r, i, QSF_K_EXPERT_DOWN, QSF_K_EXPERT_DOWN_BIAS, rows, &in, b->slot_x, b->ld_slot_x,
                      tiles, thread);
    }
}

/* A row's outputs of this wave.  They are added in the order of experts, which no wave changes. */
static void add_slots(void *arg, uint32_t thread, uint32_t piece)
{
    const experts_run *r = arg;
    const qsf_pass *p = r->job.p;
    const qsf_buffers *b = p->b;
    const uint32_t k = p->layer->n_used, first = wave_first(r), end = first + wave_slots(r);
    const uint32_t n = p->layer->n_expert_embd;
    const qsf_range rows = qsf_pass_mine(&r->job, piece);
    (void)thread;
    for (size_t i = rows.begin; i < rows.end; i++) {
        float *sum = r->sum + i * b->ld_embd;
        if (!r->begin) memset(sum, 0, n * sizeof *sum);
        for (size_t s = i * k; s < (i + 1) * k; s++) {
            const uint32_t slot = b->slot_of[s];
            if (slot < first || slot >= end) continue;
            const uint64_t row = (uint64_t)b->chosen[s] * n;
            float *y = b->slot_x + (slot - first) * b->ld_slot_x +
                       expert_skew(p, QSF_K_EXPERT_DOWN, row);
            p->k->vec_scale(y, b->chosen_weight[s], n);
            p->k->vec_add(sum, sum, y, n);
        }
    }
}

static void norm_stream(const qsf_pass *p, float *y, const float *x, uint32_t norm)
{
    qsf_pass_norm(p, p->layer->norm, y, x, p->w->v[norm], NULL, p->hp->n_embd);
}

static void add_shared(void *arg, uint32_t thread, uint32_t piece)
{
    const qsf_pass_job *job = arg;
    const qsf_pass *p = job->p;
    const qsf_buffers *b = p->b;
    const qsf_range rows = qsf_pass_mine(job, piece);
    (void)thread;
    for (size_t i = rows.begin; i < rows.end; i++) {
        float *y = b->tmp + i * b->ld_embd, *sum = p->layer->experts_apart ? b->xn : b->experts;
        sum += i * b->ld_embd;
        if (p->layer->experts_beside) {
            norm_stream(p, y, y, QSF_K_SHARED_POST_NORM);
            norm_stream(p, sum, sum, QSF_K_EXPERT_POST_NORM);
        }
        if (p->w->v[QSF_K_SHARED_ROUTER]) p->k->vec_scale(y, b->shared_weight[i], p->hp->n_embd);
        p->k->vec_add(y, y, sum, p->hp->n_embd);
    }
}

/* ---- in order ---- */

/* Counts the wave's products with a matrix as one, of the rows that they had in the mean. */
static void count_products(const experts_run *r, uint32_t kind, uint32_t rows)
{
    const uint32_t n = r->end - r->begin;
    const qsf_matrix *m = &r->job.p->w->m[kind];
    qsf_product product = { .m = m, .rows = n * rows, .n = qsf_ceil_div(wave_slots(r), n) };
    product.kernel = qsf_matrix_kernel(r->job.p, m, product.n);
    qsf_account_product(r->job.p->cpu->account, &product);
}

/* What each expert of the wave multiplies: the rows that chose it, or their hidden rows. */
static void watch_wave(const experts_run *r, uint32_t kind)
{
    const qsf_pass *p = r->job.p;
    const qsf_buffers *b = p->b;
    for (uint32_t i = r->begin; p->cpu->watch && i < r->end; i++) {
        const uint32_t first = b->expert_first[i], n = b->expert_first[i + 1] - first, e = b->expert_list[i];
        const qsf_matrix_in in = kind == QSF_K_EXPERT_UP ? expert_in(r, i)
            : expert_hidden(p, e, first - wave_first(r), n);
        qsf_watched w = { .layer = p->number, .kind = kind, .x = in.x, .ld = in.ld,
                          .cols = (uint32_t)in.cols, .n = n, .rows = p->batch->rows,
                          .row_of = b->slot_row + first, .expert = e + 1, .k = p->k, .pool = p->cpu->pool };
        p->cpu->watch->fn(p->cpu->watch->user, &w);
        w.expert = 0;
        if (kind == QSF_K_EXPERT_DOWN) p->cpu->watch->fn(p->cpu->watch->user, &w);
    }
}

static void run_wave(experts_run *r)
{
    const qsf_pass *p = r->job.p;
    const uint32_t n = r->end - r->begin, slots = wave_slots(r), ff = p->layer->n_ff_expert;
    if (p->batch->n > 1 || p->cpu->lora) qsf_pass_run(&r->job, QSF_OP_EXPERT_ROWS, slots, gather);
    watch_wave(r, QSF_K_EXPERT_UP);
    qsf_pass_run(&r->job, QSF_OP_EXPERT_UP, n * expert_tiles(ff), widen_experts);
    count_products(r, QSF_K_EXPERT_UP, ff);
    if (!p->layer->experts_plain) count_products(r, QSF_K_EXPERT_GATE, ff);
    qsf_pass_run(&r->job, QSF_OP_EXPERT_CODES, slots, activate_slots);
    watch_wave(r, QSF_K_EXPERT_DOWN);
    qsf_pass_run(&r->job, QSF_OP_EXPERT_DOWN, n * expert_tiles(p->layer->n_expert_embd), narrow_experts);
    count_products(r, QSF_K_EXPERT_DOWN, p->layer->n_expert_embd);
    qsf_pass_run(&r->job, QSF_OP_EXPERT_SUM, p->batch->n, add_slots);
}

/* The normed rows' codes again, which the shared expert has left others in place of. */
static void quantize_rows(void *arg, uint32_t thread, uint32_t piece)
{
    const qsf_pass_job *job = arg;
    const qsf_pass *p = job->p;
    const qsf_matrix_in in = qsf_matrix_input(p, p->b->xn, p->b->ld_embd, p->hp->n_embd, 0, p->batch->n);
    (void)thread;
    qsf_matrix_quantize(p, &in, qsf_pass_mine(job, piece));
}

/* ---- experts with norms, or of a width, of their own ---- */

typedef struct norm_run {
    qsf_pass_job job;           /* the first */
    uint32_t norm;
    uint8_t  readers[2];        /* kinds of the matrices that read xn then */
} norm_run;

/* xn from x again; what the router chooses by is shorter by the root of its length. */
static void norm_again(void *arg, uint32_t thread, uint32_t piece)
{
    const norm_run *r = arg;
    const qsf_pass *p = r->job.p;
    const size_t n = p->hp->n_embd, ld = p->b->ld_embd;
    const qsf_range rows = qsf_pass_mine(&r->job, piece);
    for (size_t i = rows.begin; i < rows.end; i++) {
        float *xn = p->b->xn + i * ld;
        norm_stream(p, xn, p->b->x + i * ld, r->norm);
        if (r->norm == QSF_K_ROUTER_NORM) p->k->vec_scale(xn, 1 / sqrtf((float)n), n);
    }
    const qsf_matrix_in in = qsf_matrix_input(p, p->b->xn, ld, n, 0, p->batch->n);
    qsf_rows_ready(p, r->readers, 2, &in, rows, thread);
}

static void norm_for(qsf_pass_job *job, uint32_t norm, uint8_t reader, uint8_t other)
{
    norm_run r = { .job = *job, .norm = norm, .readers = { reader, other } };
    if (!job->p->layer->experts_beside) return;
    qsf_pass_run(&r.job, QSF_OP_FFN_NORM, job->p->batch->n, norm_again);
    job->clock = r.job.clock;
}

/* Rows of experts' width that wait in `experts`: what goes in, or the sum. */
static qsf_matrix_in narrow_rows(const qsf_pass *p)
{
    return qsf_matrix_input(p, p->b->experts, p->b->ld_embd, p->layer->n_expert_embd, 0, p->batch->n);
}

static void narrow_stream(void *arg, uint32_t thread, uint32_t piece)
{
    const qsf_pass_job *job = arg;
    const qsf_pass *p = job->p;
    const qsf_matrix_in in = qsf_matrix_input(p, p->b->xn, p->b->ld_embd, p->hp->n_embd, 0, p->batch->n);
    qsf_matrix_multiply(p, &p->w->m[QSF_K_EXPERTS_IN], NULL, &in, p->b->experts, p->b->ld_embd,
                        qsf_pass_mine(job, piece), thread);
}

static void take_narrow(void *arg, uint32_t thread, uint32_t piece)
{
    const qsf_pass_job *job = arg;
    const qsf_pass *p = job->p;
    const qsf_matrix_in in = rows_in(p, 0, p->batch->n);
    const qsf_range rows = qsf_pass_mine(job, piece);
    (void)thread;
    for (size_t i = rows.begin; i < rows.end; i++)
        memcpy(p->b->xn + i * p->b->ld_embd, p->b->experts + i * p->b->ld_embd,
               p->layer->n_expert_embd * sizeof(float));
    if (takes_codes(p)) qsf_matrix_quantize(p, &in, rows);
}

static void quantize_sum(void *arg, uint32_t thread, uint32_t piece)
{
    const qsf_pass_job *job = arg;
    const qsf_matrix_in in = narrow_rows(job->p);
    (void)thread;
    qsf_matrix_quantize(job->p, &in, qsf_pass_mine(job, piece));
}

static void widen_sum(void *arg, uint32_t thread, uint32_t piece)
{
    const qsf_pass_job *job = arg;
    const qsf_pass *p = job->p;
    const qsf_matrix_in in = narrow_rows(p);
    qsf_matrix_multiply(p, &p->w->m[QSF_K_EXPERTS_OUT], NULL, &in, p->b->xn, p->b->ld_embd,
                        qsf_pass_mine(job, piece), thread);
}

/* ---- shared experts ---- */

static void run_shared(qsf_pass_job *job)
{
    norm_for(job, QSF_K_FFN_NORM, QSF_K_FFN_UP, QSF_K_FFN_GATE);
    if (job->p->layer->experts_plain) qsf_feed_forward_plain_run(job);
    else qsf_feed_forward_gated_run(job);
}

/* Rows of experts' width. */
static void watch_rows(const qsf_pass *p, uint32_t kind, const float *x)
{
    qsf_pass_watch(p, kind, x, p->b->ld_embd, p->layer->n_expert_embd, 0, p->batch->n);
}

/* The same, before the experts, whose rows are then made ready. */
static void run_shared_first(qsf_pass_job *job)
{
    const qsf_pass *p = job->p;
    const qsf_matrix *in = &p->w->m[QSF_K_EXPERTS_IN];
    run_shared(job);
    norm_for(job, QSF_K_EXPERT_NORM, QSF_K_EXPERT_UP, QSF_K_EXPERT_GATE);
    if (p->layer->experts_beside) {
        watch_rows(p, QSF_K_EXPERT_UP, p->b->xn);
        return;
    }
    if (p->layer->experts_apart ? qsf_matrix_takes_codes(p, in) : takes_codes(p))
        qsf_pass_run(job, QSF_OP_EXPERT_ROWS, p->batch->n, quantize_rows);
    if (!p->layer->experts_apart) return;
    qsf_pass_run(job, QSF_OP_EXPERTS_IN, qsf_matrix_tiles(in), narrow_stream);
    qsf_pass_run(job, QSF_OP_EXPERT_ROWS, p->batch->n, take_narrow);
    watch_rows(p, QSF_K_EXPERT_UP, p->b->xn);
}

static void join_shared(qsf_pass_job *job)
{
    const qsf_pass *p = job->p;
    const qsf_matrix *out = &p->w->m[QSF_K_EXPERTS_OUT];
    if (p->layer->experts_apart) {
        watch_rows(p, QSF_K_EXPERTS_OUT, p->b->experts);
        if (qsf_matrix_takes_codes(p, out))
            qsf_pass_run(job, QSF_OP_EXPERT_ROWS, p->batch->n, quantize_sum);
        qsf_pass_run(job, QSF_OP_EXPERTS_OUT, qsf_matrix_tiles(out), widen_sum);
    }
    qsf_pass_run(job, QSF_OP_EXPERT_SUM, p->batch->n, add_shared);
}

/* Starts to read experts, and meanwhile computes the shared ones. */
static void begin_walk(qsf_pass_job *job, uint32_t n, bool shared)
{
    const qsf_pass *p = job->p;
    const qsf_buffers *b = p->b;
    *p->cpu->walk = (qsf_expert_walk){ .list = b->expert_list, .first = b->expert_first, .n = n,
                                  .rows = p->batch->n, .most = b->n_slots };
    qsf_experts_begin(p->cpu->experts, (uint32_t)p->number, p->cpu->walk);
    if (shared) run_shared_first(job);
}

bool qsf_feed_forward_experts_wave(qsf_pass_job *job)
{
    const qsf_pass *p = job->p;
    qsf_expert_walk *walk = p->cpu->walk;
    const bool shared = p->layer->n_ff != 0;
    experts_run r = { .job = *job, .n = walk->n, .begin = walk->begin, .end = walk->end,
                      .sum = shared ? p->b->experts : p->b->tmp };
    run_wave(&r);
    job->clock = r.job.clock;
    qsf_experts_leave(p->cpu->experts, (uint32_t)p->number, walk);
    walk->begin = walk->end;
    if (walk->begin < walk->n) return false;
    walk->n = 0;
    if (shared) join_shared(job);
    return true;
}

void qsf_feed_forward_experts_early(qsf_pass_job *job)
{
    const qsf_matrix *router = &job->p->w->m[QSF_K_ROUTER];
    if (!job->p->layer->router_early) return;
    if (qsf_rows_need(job->p, QSF_K_ROUTER))
        qsf_pass_run(job, QSF_OP_ROUTER_CHOICE, job->p->batch->n, make_router_codes);
    qsf_pass_run(job, QSF_OP_ROUTER, qsf_matrix_tiles(router), route);
}

void qsf_feed_forward_experts_run(qsf_pass_job *job)
{
    const qsf_pass *p = job->p;
    const qsf_buffers *b = p->b;
    const bool shared = p->layer->n_ff != 0, first = p->layer->experts_beside || p->layer->experts_apart;
    norm_for(job, QSF_K_ROUTER_NORM, QSF_K_ROUTER, QSF_K_ROUTER);
    if (!p->layer->router_early)
        qsf_pass_run(job, QSF_OP_ROUTER, qsf_matrix_tiles(&p->w->m[QSF_K_ROUTER]), route);
    qsf_pass_run(job, QSF_OP_ROUTER_CHOICE, p->batch->n, choose);
    const uint32_t n = qsf_router_sort(p);
    if (p->cpu->experts) {
        begin_walk(job, n, shared);
        return;
    }
    if (first) run_shared_first(job);
    experts_run r = { .job = *job, .n = n, .sum = shared ? b->experts : b->tmp };
    for (; r.begin < r.n; r.begin = r.end) {
        /* An expert has at most a slot of each row, which always fit. */
        r.end = r.begin + 1;
        while (r.end < r.n && b->expert_first[r.end + 1] - b->expert_first[r.begin] <= b->n_slots) r.end++;
        run_wave(&r);
    }
    job->clock = r.job.clock;
    if (!shared) return;
    if (!first) run_shared(job);
    join_shared(job);
}
