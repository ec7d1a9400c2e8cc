/* The head with a screen: all rows in few bits first, then the best of them in full precision.
 * SPDX-License-Identifier: MIT
 *
 * Decoding reads the whole head for each token; in a small model with a large vocabulary, that is
 * most of what it reads.  The screen is a copy of the head in 3 bits: far too coarse to choose a
 * token by, but the largest logit is among its best QSF_HEAD_BEST rows (measured in
 * docs/performance.md).  Rows are stored in tiles of 16, so all 16 rows of a tile that contains one
 * of the best are computed. */
#include "layers/head_screen.h"

#include "base/pieces.h"
#include "layers/matrix_place.h"
#include "tensor/quant.h"

/* 3 bits let the right row through as reliably as 4 do, and are read in three quarters of the time;
 * 2 bits do not. */
enum { SCREEN_TYPE = QSF_T_3BIT_S, SCREEN_BLOCK = 64, SCREEN_LEVELS = 8 };

/* ---- memory ---- */

enum { SCREEN_PIECES = 2 };

static void screen_pieces(qsf_head_screen *h, qsf_piece list[SCREEN_PIECES])
{
    list[0] = QSF_PIECE(h->tiles, QSF_HEAD_ROWS * QSF_HEAD_BEST, "rows of the head");
    list[1] = QSF_PIECE(h->bytes, h->small.t.bytes, "screen for the head");
}

/* The matrix of fewer bits, without its memory. */
static qsf_status screen_matrix(const qsf_source *s, qsf_matrix *small, qsf_error *err)
{
    const qsf_tensor *t = qsf_place_head(s).t;
    *small = (qsf_matrix){ .form = qsf_form_of_type(SCREEN_TYPE),
                           .blocks = (uint32_t)qsf_ceil_div(t->cols, SCREEN_BLOCK) };
    small->t = (qsf_tensor){ .kind = t->kind, .type = SCREEN_TYPE, .packing = 1, .block = SCREEN_BLOCK,
                             .rows = t->rows, .cols = t->cols };
    return qsf_tensor_bytes(SCREEN_TYPE, 1, SCREEN_BLOCK, t->rows, t->cols, &small->t.bytes, err);
}

qsf_status qsf_screen_bytes(const qsf_source *s, uint64_t *bytes, qsf_error *err)
{
    const qsf_tensor *t = qsf_place_head(s).t;
    qsf_head_screen h = { 0 };
    qsf_piece list[SCREEN_PIECES];
    const qsf_status st = screen_matrix(s, &h.small, err);
    if (!st && t->bytes < h.small.t.bytes / 10 * 14)
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: the head has %llu bytes, a screen for it %llu: "
                        "nothing would be gained; use the exact head or clusters", s->path,
                        (unsigned long long)t->bytes, (unsigned long long)h.small.t.bytes);
    screen_pieces(&h, list);
    *bytes = qsf_pieces_bytes(list, SCREEN_PIECES);
    return st;
}

qsf_status qsf_screen_init(qsf_head_screen *h, const qsf_source *s, const qsf_platform *mem, qsf_error *err)
{
    qsf_piece list[SCREEN_PIECES];
    *h = (qsf_head_screen){ .mem = mem };
    qsf_status st = screen_matrix(s, &h->small, err);
    if (st) return st;
    screen_pieces(h, list);
    st = qsf_pieces_alloc(mem, list, SCREEN_PIECES, err);
    h->small.t.data = h->bytes;
    return st;
}

void qsf_screen_done(qsf_head_screen *h)
{
    qsf_piece list[SCREEN_PIECES];
    screen_pieces(h, list);
    qsf_pieces_free(h->mem, list, SCREEN_PIECES);
}

/* ---- making the screen ---- */

typedef struct screen_job {
    qsf_head_screen     *h;
    const qsf_pass      *p;
    const qsf_matrix    *head;
    const qsf_head_part *part;
    uint32_t             row, n_pieces;  /* of the best rows: whose tiles they are */
} screen_job;

/* The codes of one block of a row; returns its scale.  The value that is largest in size gets the
 * code at the end of the grid that no other sign has: no value is clipped, because columns with
 * large activations may be among the outermost. */
static float screen_codes(const float *w, uint32_t n, uint8_t *codes)
{
    float low = 0, high = 0;
    for (uint32_t i = 0; i < n; i++) {
        low = w[i] < low ? w[i] : low;
        high = w[i] > high ? w[i] : high;
    }
    const float d = (high > -low ? high : low) / (-SCREEN_LEVELS / 2), inverse = d != 0 ? 1 / d : 0;
    memset(codes, SCREEN_LEVELS / 2, SCREEN_BLOCK);
    for (uint32_t i = 0; i < n; i++) {
        const float x = w[i] * inverse + (SCREEN_LEVELS / 2 + 0.5f);
        codes[i] = x > 0 ? x < SCREEN_LEVELS - 1 ? (uint8_t)x : SCREEN_LEVELS - 1 : 0;     /* NaN is 0 */
    }
    return d;
}

static void screen_tile_row(const screen_job *job, uint32_t row, float *floats)
{
    const qsf_matrix *head = job->head, *small = &job->h->small;
    const uint32_t cols = head->t.cols, rows = QSF_MIN(QSF_TILE_ROWS, head->t.rows - row);
    const uint32_t each = qsf_block_bytes(SCREEN_TYPE, SCREEN_BLOCK) * QSF_TILE_ROWS;
    uint8_t *tile = job->h->bytes + (size_t)row / QSF_TILE_ROWS * small->blocks * each, codes[SCREEN_BLOCK];
    qsf_dequant_rows(&head->t, row, rows, floats);
    for (uint32_t r = 0; head->out_start && r < rows; r++)
        for (uint32_t i = head->out_start[row + r]; i < head->out_start[row + r + 1]; i++)
            floats[(size_t)r * cols + head->out_col[i]] += qsf_f16_to_f32(head->out_value[i]);
    for (uint32_t col = 0; col < cols; col += SCREEN_BLOCK, tile += each)
        for (uint32_t r = 0; r < rows; r++) {
            const uint32_t n = QSF_MIN(SCREEN_BLOCK, cols - col);
            const float d = screen_codes(floats + (size_t)r * cols + col, n, codes);
            qsf_tile_put_row(tile, SCREEN_TYPE, SCREEN_BLOCK, r, d, codes);
        }
}

static void screen_make_piece(void *arg, uint32_t thread, uint32_t piece)
{
    const screen_job *job = arg;
    const qsf_buffers *b = job->p->b;
    const qsf_range tiles = qsf_range_of(qsf_matrix_tiles(job->head), piece, job->n_pieces);
    float *floats = b->float_rows + (size_t)thread * QSF_TILE_ROWS * b->max_cols;
    for (size_t t = tiles.begin; t < tiles.end; t++)
        screen_tile_row(job, (uint32_t)t * QSF_TILE_ROWS, floats);
}

uint64_t qsf_screen_make(qsf_head_screen *h, const qsf_pass *p, const qsf_matrix *head, uint64_t begin)
{
    h->small.scale = head->scale;           /* its rows are made without */
    screen_job job = { .h = h, .p = p, .head = head,
                       .n_pieces = qsf_pool_pieces(p->cpu->pool, qsf_matrix_tiles(head)) };
    qsf_op_run run = { .op = QSF_OP_HEAD_MAKE, .begin = begin, .n_pieces = job.n_pieces, .size = 1,
                       .fn = screen_make_piece, .arg = &job };
    return qsf_pass_share(p, &run);
}

/* ---- using it ---- */

/* Leaves the logits of the best rows and lists their tiles. */
static void screen_choose_piece(void *arg, uint32_t thread, uint32_t row)
{
    const screen_job *job = arg;
    float *logits = qsf_head_row(job->p, row);
    uint32_t *tiles = job->h->tiles + (size_t)row * QSF_HEAD_BEST, n = 0;
    const uint32_t rows = job->h->small.t.rows;
    (void)thread;
    job->p->k->top_k_filter(logits, rows, QSF_HEAD_BEST);
    for (uint32_t r = 0; r < rows && n < QSF_HEAD_BEST; r++)
        if (logits[r] > -INFINITY) {
            tiles[n++] = r / QSF_TILE_ROWS;
            r |= QSF_TILE_ROWS - 1;
        }
    job->h->n_tiles[row] = n;
}

static void screen_best_piece(void *arg, uint32_t thread, uint32_t piece)
{
    const screen_job *job = arg;
    const uint32_t *tiles = job->h->tiles + (size_t)job->row * QSF_HEAD_BEST;
    const qsf_range mine = qsf_range_of(job->h->n_tiles[job->row], piece, job->n_pieces);
    qsf_head_logits_of(job->p, job->part, job->row, tiles, mine, thread);
}

/* The rows of the listed tiles. */
static uint32_t tiles_rows(const qsf_matrix *m, const uint32_t *tiles, uint32_t n)
{
    uint32_t rows = 0;
    for (uint32_t i = 0; i < n; i++)
        rows += QSF_MIN(QSF_TILE_ROWS, m->t.rows - tiles[i] * QSF_TILE_ROWS);
    return rows;
}

void qsf_screen_run(qsf_head_screen *h, const qsf_pass *p, const qsf_head_part *head, uint64_t begin)
{
    const uint32_t n_asked = p->batch->n_asked;
    const qsf_head_part small = { .m = h->small, .bias = head->bias };
    screen_job job = { .h = h, .p = p, .part = head };
    begin = qsf_head_logits_all(p, &small, n_asked, QSF_OP_HEAD_SCREEN, begin);
    qsf_op_run choose = { .op = QSF_OP_HEAD_CHOOSE, .begin = begin, .n_pieces = n_asked, .size = 1,
                          .fn = screen_choose_piece, .arg = &job };
    begin = qsf_pass_share(p, &choose);
    for (; job.row < n_asked; job.row++) {
        job.n_pieces = qsf_pool_pieces(p->cpu->pool, h->n_tiles[job.row]);
        const uint32_t *tiles = h->tiles + (size_t)job.row * QSF_HEAD_BEST;
        qsf_op_run best = { .op = QSF_OP_HEAD, .begin = begin, .n_pieces = job.n_pieces, .size = 1,
                            .fn = screen_best_piece, .arg = &job, .n_products = 1 };
        best.products[0] = (qsf_product){ &head->m, tiles_rows(&head->m, tiles, h->n_tiles[job.row]), 1, 0 };
        begin = qsf_pass_share(p, &best);
    }
}
