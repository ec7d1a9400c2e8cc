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
#include "layers/product.h"
#include "layers/router.h"

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
/* The columns of their results, including those of other experts' rows. */
static uint32_t expert_columns(uint32_t rows) { return (uint32_t)expert_tiles(rows) * QSF_TILE_ROWS; }

/* ---- slots ---- */

/* The first slot of the wave. */
static uint32_t wave_first(const qsf_pass *p) { return p->b->expert_first[p->cpu->walk->begin]; }

size_t qsf_wave_slots(const qsf_pass *p) { return p->b->expert_first[p->cpu->walk->end] - wave_first(p); }

size_t qsf_wave_tiles(const qsf_pass *p, size_t rows)
{
    return (p->cpu->walk->end - p->cpu->walk->begin) * expert_tiles(rows);
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
static qsf_matrix_in expert_in(const qsf_pass *p, uint32_t i)
{
    const uint32_t *first = p->b->expert_first;
    return slots_rows(p, first[i] - wave_first(p), first[i + 1] - first[i]);
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

/* ---- the choice ---- */

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

static void choose(const qsf_pass *p, const qsf_task *t)
{
    const qsf_buffers *b = p->b;
    const uint32_t k = p->layer->n_used;
    for (size_t i = t->begin; i < t->end; i++) {
        float *row = b->route + i * b->ld_route;
        qsf_pass_check(p, row, p->layer->n_experts);
        qsf_router_choose(p->layer, row, p->w->v[QSF_K_ROUTER_CHOICE],
                          b->chosen + i * k, b->chosen_weight + i * k);
        qsf_pass_check(p, row + p->layer->n_experts, p->layer->n_experts);     /* the experts' scores */
        scale_weights(p, b->chosen + i * k, b->chosen_weight + i * k);
        b->shared_weight[i] = shared_weight(p, b->xn + i * b->ld_embd);
    }
}

/* Begins a walk through the chosen experts; if they are read one by one, also to read them. */
static void sort_slots(const qsf_pass *p, const qsf_task *t)
{
    const qsf_buffers *b = p->b;
    (void)t;
    *p->cpu->walk = (qsf_expert_walk){ .list = b->expert_list, .first = b->expert_first,
                                       .n = qsf_router_sort(p), .rows = p->batch->n, .most = b->n_slots };
    if (p->cpu->experts) qsf_experts_begin(p->cpu->experts, (uint32_t)p->number, p->cpu->walk);
}

void qsf_wave_begin(const qsf_pass *p)
{
    const uint32_t *first = p->b->expert_first;
    qsf_expert_walk *walk = p->cpu->walk;
    if (p->cpu->experts) return;        /* the wave has those that have been read */
    /* An expert has at most a slot of each row, which always fit. */
    walk->end = walk->begin + 1;
    while (walk->end < walk->n && first[walk->end + 1] - first[walk->begin] <= p->b->n_slots) walk->end++;
}

bool qsf_wave_end(const qsf_pass *p)
{
    qsf_expert_walk *walk = p->cpu->walk;
    if (p->cpu->experts) qsf_experts_leave(p->cpu->experts, (uint32_t)p->number, walk);
    walk->begin = walk->end;
    if (walk->begin < walk->n) return true;
    walk->n = 0;
    return false;
}

/* ---- a wave ---- */

/* What adapters take of the wave's slots: of rows, or of hidden rows. */
static void adapt_slots(const qsf_pass *p, bool hidden, const qsf_task *t)
{
    const uint32_t wave = wave_first(p), end = wave + (uint32_t)t->end;
    qsf_lora_expert e = { .first = wave + (uint32_t)t->begin, .wave = wave };
    for (; p->cpu->lora && e.first < end; e.first += e.n) {
        e.expert = p->b->slot_expert[e.first];
        for (e.n = 1; e.first + e.n < end && p->b->slot_expert[e.first + e.n] == e.expert; e.n++) continue;
        const qsf_matrix_in in = hidden ? expert_hidden(p, e.expert, e.first - wave, e.n)
            : slots_rows(p, e.first - wave, e.n);
        qsf_lora_expert_down(p, t->row->readers, t->row->n_readers, &in, &e, t->thread);
    }
}

/* The rows of slots, and their codes if requested. */
static void gather(const qsf_pass *p, const qsf_task *t)
{
    const qsf_buffers *b = p->b;
    const bool codes = qsf_kinds_take_codes(p, t->row->readers, t->row->n_readers);
    const bool floats = qsf_kinds_take_floats(p, t->row->readers, t->row->n_readers);
    for (size_t s = t->begin; p->batch->n > 1 && s < t->end; s++) {
        const uint32_t row = b->slot_row[wave_first(p) + s];
        const qsf_matrix_in from = rows_in(p, row, 1),
            to = slots_in(p, b->slot_x, b->ld_slot_x, p->layer->n_expert_embd, (uint32_t)s, 1);
        if (floats) memcpy(b->slot_x + s * b->ld_slot_x, from.x, p->layer->n_expert_embd * sizeof(float));
        if (!codes) continue;
        memcpy(to.act.q, from.act.q, to.act.cols * sizeof *to.act.q);
        memcpy(to.act.d, from.act.d, to.act.cols / 64 * sizeof *to.act.d);
        memcpy(to.act.s, from.act.s, to.act.cols / 32 * sizeof *to.act.s);
        memcpy(to.act.h, from.act.h, to.act.cols / 8 * sizeof *to.act.h);
    }
    adapt_slots(p, false, t);
}

/* Multiplies tiles [begin, end) of the matrix of the i-th expert of the list, which has `rows`
 * rows, by in; y[][ldy] is the output of the wave's first slot. */
static void multiply_part(const qsf_pass *p, uint32_t i, uint32_t kind, uint32_t bias, uint32_t rows,
                          const qsf_matrix_in *in, float *y, size_t ldy, qsf_range tiles, uint32_t thread)
{
    const uint32_t *first = p->b->expert_first;
    const qsf_lora_expert e = { p->b->expert_list[i], first[i], first[i + 1] - first[i], wave_first(p) };
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
static uint32_t next_part(const qsf_pass *p, size_t *at, size_t end, size_t each, qsf_range *tiles)
{
    const uint32_t i = p->cpu->walk->begin + (uint32_t)(*at / each);
    tiles->begin = *at % each;
    tiles->end = QSF_MIN(each, tiles->begin + (end - *at));
    *at += tiles->end - tiles->begin;
    return i;
}

static void widen_experts(const qsf_pass *p, const qsf_task *t)
{
    const uint32_t rows = p->layer->n_ff_expert;
    for (size_t at = t->begin; at < t->end;) {
        qsf_range tiles;
        const uint32_t i = next_part(p, &at, t->end, expert_tiles(rows), &tiles);
        const qsf_matrix_in in = expert_in(p, i);
        for (uint32_t k = 0; k < t->row->n; k++) {
            size_t ld;
            float *y = qsf_buffer_of(p->b, t->row->to[k].buffer, &ld);
            multiply_part(p, i, t->row->kinds[k], t->row->bias[k], rows, &in, y, ld, tiles, t->thread);
        }
    }
}

static void activate_slots(const qsf_pass *p, const qsf_task *t)
{
    const qsf_buffers *b = p->b;
    const bool codes = qsf_kinds_take_codes(p, t->row->readers, t->row->n_readers);
    for (size_t s = t->begin; s < t->end; s++) {
        const uint64_t row = hidden_row(p, b->slot_expert[wave_first(p) + s]);
        float *gate = b->slot_gate + s * b->ld_slot + expert_skew(p, hidden_kind(p), row);
        if (p->layer->experts_plain) {
            qsf_activate_plain(p, gate, p->layer->n_ff_expert);
        } else {
            const float *up = b->slot_up + s * b->ld_slot + expert_skew(p, QSF_K_EXPERT_UP, row);
            qsf_activate_gated(p, gate, up, p->layer->n_ff_expert);
        }
        if (!codes) continue;
        const qsf_matrix_in in = expert_hidden(p, b->slot_expert[wave_first(p) + s], (uint32_t)s, 1);
        qsf_matrix_quantize(p, &in, (qsf_range){ 0, 1 });
    }
    adapt_slots(p, true, t);
}

static void narrow_experts(const qsf_pass *p, const qsf_task *t)
{
    const qsf_buffers *b = p->b;
    const uint32_t rows = p->layer->n_expert_embd;
    for (size_t at = t->begin; at < t->end;) {
        qsf_range tiles;
        const uint32_t i = next_part(p, &at, t->end, expert_tiles(rows), &tiles);
        const uint32_t e = b->expert_list[i], first = b->expert_first[i] - wave_first(p);
        const qsf_matrix_in in = expert_hidden(p, e, first, b->expert_first[i + 1] - b->expert_first[i]);
        multiply_part(p, i, QSF_K_EXPERT_DOWN, QSF_K_EXPERT_DOWN_BIAS, rows, &in, b->slot_x, b->ld_slot_x,
                      tiles, t->thread);
    }
}

/* A row's outputs of this wave.  They are added in the order of experts, which no wave changes. */
static void add_slots(const qsf_pass *p, const qsf_task *t)
{
    const qsf_buffers *b = p->b;
    const uint32_t k = p->layer->n_used, first = wave_first(p), end = first + (uint32_t)qsf_wave_slots(p);
    const uint32_t n = p->layer->n_expert_embd;
    float *sums = p->layer->n_ff ? b->experts : b->tmp;         /* tmp has the shared ones' outputs */
    for (size_t i = t->begin; i < t->end; i++) {
        float *sum = sums + i * b->ld_embd;
        if (!p->cpu->walk->begin) memset(sum, 0, n * sizeof *sum);
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

static void add_shared(const qsf_pass *p, const qsf_task *t)
{
    const qsf_buffers *b = p->b;
    for (size_t i = t->begin; i < t->end; i++) {
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

/* ---- before rows of a wave ---- */

/* Counts the wave's products with a matrix as one, of the rows that they had in the mean. */
static void count_products(const qsf_pass *p, uint32_t kind, uint32_t rows)
{
    const uint32_t n = p->cpu->walk->end - p->cpu->walk->begin;
    const qsf_matrix *m = &p->w->m[kind];
    qsf_product product = { .m = m, .rows = n * rows,
                                  .n = (uint32_t)qsf_ceil_div(qsf_wave_slots(p), n) };
    product.kernel = qsf_matrix_kernel(p, m, product.n);
    qsf_account_product(p->cpu->account, &product);
}

/* What each expert of the wave multiplies: the rows that chose it, or their hidden rows. */
static void watch_wave(const qsf_pass *p, uint32_t kind)
{
    const qsf_buffers *b = p->b;
    const qsf_watch *watch = p->cpu->watch;
    for (uint32_t i = p->cpu->walk->begin; watch && i < p->cpu->walk->end; i++) {
        const uint32_t first = b->expert_first[i], n = b->expert_first[i + 1] - first, e = b->expert_list[i];
        const qsf_matrix_in in = kind == QSF_K_EXPERT_UP ? expert_in(p, i)
            : expert_hidden(p, e, first - wave_first(p), n);
        qsf_watched w = { .layer = p->number, .kind = kind, .x = in.x, .ld = in.ld,
                          .cols = (uint32_t)in.cols, .n = n, .rows = p->batch->rows,
                          .row_of = b->slot_row + first, .expert = e + 1, .k = p->k, .pool = p->cpu->pool };
        watch->fn(watch->user, &w);
        w.expert = 0;
        if (kind == QSF_K_EXPERT_DOWN) watch->fn(watch->user, &w);
    }
}

static void before_up(const qsf_pass *p, const qsf_program_row *row)
{
    watch_wave(p, QSF_K_EXPERT_UP);
    for (uint32_t k = 0; k < row->n; k++) count_products(p, row->kinds[k], p->layer->n_ff_expert);
}

static void before_down(const qsf_pass *p, const qsf_program_row *row)
{
    (void)row;
    watch_wave(p, QSF_K_EXPERT_DOWN);
    count_products(p, QSF_K_EXPERT_DOWN, p->layer->n_expert_embd);
}

/* ---- experts with norms, or of a width, of their own ---- */

/* xn from x again; what the router chooses by is shorter by the root of its length. */
static void norm_again(const qsf_pass *p, const qsf_task *t)
{
    const size_t n = p->hp->n_embd, ld = p->b->ld_embd;
    for (size_t i = t->begin; i < t->end; i++) {
        float *xn = p->b->xn + i * ld;
        norm_stream(p, xn, p->b->x + i * ld, t->row->of);
        if (t->row->of == QSF_K_ROUTER_NORM) p->k->vec_scale(xn, 1 / sqrtf((float)n), n);
    }
}

static void list_norm(const qsf_layer *l, qsf_program *g, uint8_t norm)
{
    if (l->experts_beside)
        QSF_ADD(g, .op = QSF_OP_FFN_NORM, .work = QSF_WORK_NORM, .over = QSF_OVER_ROWS, .of = norm,
                .to = { qsf_stream_view(g, QSF_BUF_XN) }, .fn = norm_again);
}

static void take_narrow(const qsf_pass *p, const qsf_task *t)
{
    for (size_t i = t->begin; i < t->end; i++)
        memcpy(p->b->xn + i * p->b->ld_embd, p->b->experts + i * p->b->ld_embd,
               p->layer->n_expert_embd * sizeof(float));
}

/* Columns of experts' width. */
static qsf_view narrow_view(const qsf_layer *l, uint8_t buffer)
{
    return (qsf_view){ .buffer = buffer, .cols = l->n_expert_embd };
}

static void list_watch(qsf_program *g, qsf_view in, uint8_t kind)
{
    QSF_ADD(g, .work = QSF_WORK_WATCH, .over = QSF_OVER_NOTHING, .in = in, .watch = (uint8_t)(1 + kind));
}

static void list_stream(qsf_program *g, uint8_t op, uint8_t kind, qsf_view in, uint8_t to, uint8_t watch)
{
    QSF_ADD(g, .op = op, .work = QSF_WORK_PRODUCT, .over = QSF_OVER_TILES, .in = in,
            .codes = QSF_OP_EXPERT_ROWS, .watch = watch, .n = 1, .kinds = { kind },
            .to = { { .buffer = to } }, .fn = qsf_product_row);
}

/* ---- rows of the program ---- */

/* The router's matrix: what it chooses by is the layer's input or the normed rows. */
static void list_router(qsf_program *g, uint8_t from)
{
    QSF_ADD(g, .op = QSF_OP_ROUTER, .work = QSF_WORK_PRODUCT, .over = QSF_OVER_TILES,
            .in = qsf_stream_view(g, from), .codes = QSF_OP_ROUTER_CHOICE, .n = 1,
            .kinds = { QSF_K_ROUTER }, .bias = { QSF_K_ROUTER_BIAS }, .to = { { .buffer = QSF_BUF_ROUTE } },
            .fn = qsf_product_row);
}

static void list_wave(const qsf_layer *l, qsf_program *g)
{
    const uint32_t hidden = expert_columns(l->n_ff_expert);
    const uint8_t n = l->experts_plain ? 1 : 2;         /* matrices that widen */
    const qsf_view gate = { .buffer = QSF_BUF_SLOT_GATE, .cols = hidden };
    const qsf_view none = { 0 }, up = { .buffer = QSF_BUF_SLOT_UP, .cols = hidden };
    QSF_ADD(g, .op = QSF_OP_EXPERT_ROWS, .work = QSF_WORK_GATHER, .over = QSF_OVER_SLOTS, .wave = true,
            .in = narrow_view(l, QSF_BUF_XN), .codes = QSF_OP_EXPERT_ROWS, .n = n,
            .kinds = { QSF_K_EXPERT_UP, QSF_K_EXPERT_GATE }, .to = { narrow_view(l, QSF_BUF_SLOT_X) },
            .when = QSF_ROW_GATHERED, .fn = gather);
    QSF_ADD(g, .op = QSF_OP_EXPERT_UP, .work = QSF_WORK_EXPERT_PRODUCT, .over = QSF_OVER_HIDDEN_TILES,
            .wave = true, .in = narrow_view(l, QSF_BUF_SLOT_X), .n = n,
            .kinds = { QSF_K_EXPERT_UP, QSF_K_EXPERT_GATE },
            .bias = { QSF_K_EXPERT_UP_BIAS, QSF_K_EXPERT_GATE_BIAS },
            .to = { n > 1 ? up : gate, n > 1 ? gate : none }, .before = before_up,
            .fn = widen_experts);
    QSF_ADD(g, .op = QSF_OP_EXPERT_CODES, .work = QSF_WORK_ACTIVATE, .over = QSF_OVER_SLOTS, .wave = true,
            .to = { gate }, .fn = activate_slots);
    QSF_ADD(g, .op = QSF_OP_EXPERT_DOWN, .work = QSF_WORK_EXPERT_PRODUCT, .over = QSF_OVER_OUT_TILES,
            .wave = true, .in = { .buffer = QSF_BUF_SLOT_GATE, .cols = l->n_ff_expert },
            .n = 1, .kinds = { QSF_K_EXPERT_DOWN },
            .to = { { .buffer = QSF_BUF_SLOT_X, .cols = expert_columns(l->n_expert_embd) } },
            .before = before_down, .fn = narrow_experts);
    QSF_ADD(g, .op = QSF_OP_EXPERT_SUM, .work = QSF_WORK_ADD, .over = QSF_OVER_ROWS, .wave = true,
            .to = { narrow_view(l, l->n_ff ? QSF_BUF_EXPERTS : QSF_BUF_TMP) }, .fn = add_slots);
}

/* Experts that all rows take.  What they multiply was shown to the watcher as the router's. */
static void list_shared(const qsf_layer *l, qsf_program *g)
{
    list_norm(l, g, QSF_K_FFN_NORM);
    qsf_program_row *up = &g->rows[g->n];
    if (l->experts_plain) qsf_feed_forward_plain_list(l, g);
    else qsf_feed_forward_gated_list(l, g);
    up->watch = 0;
}

/* What makes the rows of experts if they are not those of the router, or have another width. */
static void list_own_rows(const qsf_layer *l, qsf_program *g)
{
    list_norm(l, g, QSF_K_EXPERT_NORM);
    if (l->experts_apart && !l->experts_beside) {
        list_stream(g, QSF_OP_EXPERTS_IN, QSF_K_EXPERTS_IN, qsf_stream_view(g, QSF_BUF_XN), QSF_BUF_EXPERTS,
                    0);
        QSF_ADD(g, .op = QSF_OP_EXPERT_ROWS, .work = QSF_WORK_COPY, .over = QSF_OVER_ROWS,
                .to = { narrow_view(l, QSF_BUF_XN) }, .fn = take_narrow);
    }
    if (l->experts_apart || l->experts_beside) list_watch(g, narrow_view(l, QSF_BUF_XN), QSF_K_EXPERT_UP);
}

static void list_join(const qsf_layer *l, qsf_program *g)
{
    if (l->experts_apart)
        list_stream(g, QSF_OP_EXPERTS_OUT, QSF_K_EXPERTS_OUT, narrow_view(l, QSF_BUF_EXPERTS), QSF_BUF_XN,
                    1 + QSF_K_EXPERTS_OUT);
    QSF_ADD(g, .op = QSF_OP_EXPERT_SUM, .work = QSF_WORK_ADD, .over = QSF_OVER_ROWS,
            .to = { qsf_stream_view(g, QSF_BUF_TMP), qsf_stream_view(g, QSF_BUF_XN),
                    qsf_stream_view(g, QSF_BUF_EXPERTS) }, .fn = add_shared);
}

void qsf_feed_forward_experts_list_early(const qsf_layer *l, qsf_program *g)
{
    if (l->router_early) list_router(g, QSF_BUF_X);
}

void qsf_feed_forward_experts_list(const qsf_layer *l, qsf_program *g)
{
    /* Shared experts come first if they take the time in which others are read, or if the others
     * get rows of their own. */
    const bool own = l->experts_beside || l->experts_apart, first = own || (g->fetched && l->n_ff);
    list_watch(g, qsf_stream_view(g, QSF_BUF_XN), QSF_K_ROUTER);
    list_norm(l, g, QSF_K_ROUTER_NORM);
    if (!l->router_early) list_router(g, QSF_BUF_XN);
    QSF_ADD(g, .op = QSF_OP_ROUTER_CHOICE, .work = QSF_WORK_ROUTE, .over = QSF_OVER_ROWS,
            .to = { { .buffer = QSF_BUF_ROUTE, .cols = qsf_router_columns(l->n_experts) } }, .fn = choose);
    QSF_ADD(g, .work = QSF_WORK_ROUTE, .over = QSF_OVER_NOTHING, .fn = sort_slots);
    if (first) list_shared(l, g);
    if (first) list_own_rows(l, g);
    list_wave(l, g);
    if (l->n_ff && !first) list_shared(l, g);
    if (l->n_ff) list_join(l, g);
}
