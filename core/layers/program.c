/* Lists of rows, and the rows of them that make codes of activations.
 * SPDX-License-Identifier: MIT */
#include "layers/program.h"

void qsf_program_begin(qsf_program *g, const qsf_hparams *hp, const qsf_weights *w, bool fetched)
{
    g->hp = hp;
    g->w = w;
    g->fetched = fetched;
    g->n = g->wave = g->wave_end = 0;
}

/* Where a product's results lie, one of each matrix. */
static void place_results(const qsf_program *g, qsf_program_row *row)
{
    for (uint32_t i = row->n; i < QSF_ROW_RESULTS; i++) row->to[i] = (qsf_view){ 0 };
    for (uint32_t i = 0; i < row->n; i++) {
        qsf_view *to = &row->to[i];
        if (i && to->buffer == to[-1].buffer) to->first = to[-1].first + to[-1].cols;
        to->cols = qsf_result_columns(g->w, row->kinds[i]);
    }
}

qsf_program_row *qsf_program_add(qsf_program *g, const qsf_program_row *row)
{
    assert(g->n < QSF_PROGRAM_ROWS);
    qsf_program_row *own = &g->rows[g->n++];
    *own = *row;
    if (own->work == QSF_WORK_PRODUCT) place_results(g, own);
    for (uint32_t i = 0; i < QSF_ROW_RESULTS && own->to[i].buffer; i++)
        own->writes |= qsf_bit(own->to[i].buffer);
    return own;
}

static bool view_same(const qsf_view *a, const qsf_view *b)
{
    return a->buffer == b->buffer && a->cols == b->cols && a->first == b->first;
}

/* Whether the row takes codes of `in`. */
static bool reads_codes(const qsf_program_row *r)
{
    return r->work == QSF_WORK_PRODUCT || r->work == QSF_WORK_GATHER;
}

/* The row that can make codes of what row `at` reads, while it has the rows in hand: the last one
 * before it that goes by rows, if the codes are not used and the rows not changed in between.
 * g->n: no row can. */
static uint32_t maker_of(const qsf_program *g, uint32_t at)
{
    const qsf_program_row *reader = &g->rows[at];
    for (uint32_t i = at; i-- > 0;) {
        const qsf_program_row *r = &g->rows[i];
        if ((r->wave && !reader->wave) || reads_codes(r) || r->n_readers) break;
        if (r->over == QSF_OVER_ROWS) return i;
        if (r->writes & qsf_bit(reader->in.buffer)) break;
    }
    return g->n;
}

/* A row of its own for the codes of what row `at` reads. */
static void insert_maker(qsf_program *g, uint32_t at)
{
    assert(g->n < QSF_PROGRAM_ROWS);
    const qsf_program_row *reader = &g->rows[at];
    const qsf_program_row maker = { .op = reader->codes, .work = QSF_WORK_CODES, .over = QSF_OVER_ROWS,
                                    .in = reader->in };
    memmove(&g->rows[at + 1], &g->rows[at], (g->n - at) * sizeof *g->rows);
    g->rows[at] = maker;
    g->n++;
}

/* The row that makes codes of slots for row `at`: the last one before it that goes by slots. */
static uint32_t slots_maker_of(const qsf_program *g, uint32_t at)
{
    while (g->rows[--at].over != QSF_OVER_SLOTS) assert(at);
    return at;
}

static void add_readers(qsf_program_row *maker, const qsf_program_row *reader)
{
    maker->ready = reader->in;
    for (uint32_t i = 0; i < reader->n; i++) {
        assert(maker->n_readers < QSF_ROW_READERS);
        maker->readers[maker->n_readers++] = reader->kinds[i];
    }
}

void qsf_program_finish(qsf_program *g)
{
    qsf_view held = { .buffer = QSF_BUF_NONE };        /* what the buffer of codes has */
    uint32_t maker = 0;
    for (uint32_t i = 0; i < g->n; i++) {
        if (reads_codes(&g->rows[i])) {
            if (!view_same(&held, &g->rows[i].in)) {
                maker = maker_of(g, i);
                if (maker == g->n) insert_maker(g, maker = i++);
                held = g->rows[i].in;
            }
            add_readers(&g->rows[maker], &g->rows[i]);
        } else if (g->rows[i].work == QSF_WORK_EXPERT_PRODUCT) {
            add_readers(&g->rows[slots_maker_of(g, i)], &g->rows[i]);
        }
        if (g->rows[i].writes & qsf_bit(held.buffer)) held.buffer = QSF_BUF_NONE;
    }
    for (uint32_t i = g->n; i-- > 0;) {
        if (!g->rows[i].wave) continue;
        if (!g->wave_end) g->wave_end = i + 1;
        g->wave = i;
    }
}
