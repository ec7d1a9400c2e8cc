/* Runs the rows of a layer: each is shared by the pool's threads, who take pieces of it.
 * SPDX-License-Identifier: MIT */
#include "layers/feed_forward_experts.h"
#include "layers/lora.h"
#include "layers/mixer.h"
#include "layers/product.h"
#include "layers/program.h"

typedef struct row_run {
    const qsf_pass        *p;
    const qsf_program_row *row;
    qsf_row_fn            *fn;          /* NULL: only codes are made */
    size_t                 items;
    uint32_t               n_pieces;
} row_run;

static size_t tiles_of(const qsf_pass *p, const qsf_program_row *row)
{
    size_t tiles = 0;
    for (uint32_t i = 0; i < row->n; i++) tiles += qsf_matrix_tiles(&p->w->m[row->kinds[i]]);
    return tiles;
}

static size_t items_of(const qsf_pass *p, const qsf_program_row *row)
{
    const qsf_layer *l = p->layer;
    switch ((qsf_over)row->over) {
    case QSF_OVER_ROWS:         return p->batch->n;
    case QSF_OVER_TILES:        return tiles_of(p, row);
    case QSF_OVER_FIRST_TILES:  return qsf_matrix_tiles(&p->w->m[row->kinds[0]]);
    case QSF_OVER_COLUMNS:      return qsf_ceil_div(row->cols, QSF_TILE_ROWS);
    case QSF_OVER_HEADS:        return l->n_heads;
    case QSF_OVER_PLACES:       return (size_t)p->batch->n * (l->n_heads + l->n_kv_heads);
    case QSF_OVER_GROUPS:       return (size_t)p->batch->n_groups * l->n_kv_heads;
    case QSF_OVER_MIX_HEADS:    return l->mix_heads;
    case QSF_OVER_SCAN:         return l->mix_heads * qsf_mixer_scan_parts(l);
    case QSF_OVER_SLOTS:        return qsf_wave_slots(p);
    case QSF_OVER_HIDDEN_TILES: return qsf_wave_tiles(p, l->n_ff_expert);
    case QSF_OVER_OUT_TILES:    return qsf_wave_tiles(p, l->n_expert_embd);
    default:                    return 0;
    }
}

static void run_piece(void *arg, uint32_t thread, uint32_t piece)
{
    const row_run *r = arg;
    const qsf_program_row *row = r->row;
    const qsf_range mine = qsf_range_of(r->items, row->backwards ? r->n_pieces - 1 - piece : piece,
                                        r->n_pieces);
    if (r->fn) r->fn(r->p, &(qsf_task){ row, mine.begin, mine.end, thread });
    if (!row->n_readers || row->over != QSF_OVER_ROWS) return;
    const qsf_matrix_in in = qsf_view_in(r->p, &row->ready);
    qsf_rows_ready(r->p, row->readers, row->n_readers, &in, mine, thread);
}

static bool row_runs(const qsf_pass *p, const qsf_program_row *row)
{
    switch ((qsf_row_when)row->when) {
    case QSF_ROW_GROUPS_MEET:  return !p->batch->groups_apart;
    case QSF_ROW_GATHERED:     return p->batch->n > 1 || p->cpu->lora;
    default:                    return true;
    }
}

/* Whether a matrix, or an adapter of one, takes what the row makes ready. */
static bool row_readies(const qsf_pass *p, const qsf_program_row *row)
{
    bool need = false;
    for (uint32_t i = 0; i < row->n_readers; i++) need |= qsf_rows_need(p, row->readers[i]);
    return need;
}

/* The time since *clock is charged to the row's operation. */
static void run_row(const qsf_pass *p, const qsf_program_row *row, uint64_t *clock)
{
    const qsf_cpu *cpu = p->cpu;
    const uint32_t n = p->batch->n;
    row_run r = { .p = p, .row = row, .fn = row_runs(p, row) ? row->fn : NULL };
    if (row->when == QSF_ROW_FEATURES && p->batch->own_states) return;
    if (row->watch) {
        const qsf_matrix_in in = qsf_view_in(p, &row->in);
        qsf_pass_watch(p, row->watch - 1u, in.x, in.ld, in.cols, 0, n);
    }
    if (!r.fn && (row->over != QSF_OVER_ROWS || !row_readies(p, row))) return;
    if (row->before) row->before(p, row);
    if (row->over == QSF_OVER_NOTHING) {
        r.fn(p, &(qsf_task){ .row = row });
        return;
    }
    r.items = items_of(p, row);
    r.n_pieces = qsf_pool_pieces(cpu->pool, r.items);
    if (n > QSF_ATTENTION_ROWS)         /* a piece of a prompt is long */
        r.n_pieces = (uint32_t)QSF_MIN(QSF_MIN(4 * (size_t)r.n_pieces, r.items), QSF_POOL_PIECES);
    /* The pool tells rows apart by their size. */
    qsf_op_run run = { .op = (qsf_op)row->op, .begin = *clock, .n_pieces = r.n_pieces,
                       .size = n + (uint32_t)(uintptr_t)row->fn, .fn = run_piece, .arg = &r };
    for (uint32_t i = 0; row->work == QSF_WORK_PRODUCT && i < row->n; i++) {
        const qsf_matrix *m = &p->w->m[row->kinds[i]];
        if (m->t.data) run.products[run.n_products++] = (qsf_product){ m, m->t.rows, n, 0 };
    }
    *clock = qsf_pass_share(p, &run);
}

bool qsf_program_run(const qsf_pass *p, const qsf_program *g)
{
    uint64_t clock = qsf_now(p->cpu->platform);
    bool resumed = p->cpu->walk->n != 0;
    for (uint32_t i = resumed ? g->wave : 0; i < g->n; i++) {
        if (i == g->wave && i < g->wave_end) {
            if (g->fetched && !resumed) return false;           /* this wave's experts are still to come */
            qsf_wave_begin(p);
            resumed = false;
        }
        run_row(p, &g->rows[i], &clock);
        if (p->cpu->reducer->st) return false;
        if (i + 1 == g->wave_end && qsf_wave_end(p)) i = g->wave - 1;
    }
    return true;
}
