/* The head by way of a screen: all rows in few bits, then the best of them as they are.
 * SPDX-License-Identifier: MIT
 *
 * Decoding reads the whole head for each token, and of a small model with a large vocabulary that
 * is most of what it reads.  The screen is a copy of the head in 3 bits: far too coarse to choose a
 * token by, but the largest logit is among its best QSF_HEAD_BEST rows (measured in
 * docs/performance.md).  Rows lie in memory in tiles of 16, so all 16 rows of a tile with one of
 * the best are computed. */
#include "context.h"
#include "quant.h"

/* 3 bits let the right row through as reliably as 4 do,
 * and are read in three quarters of the time; 2 bits do not. */
enum { SCREEN_TYPE = QSF_T_3BIT_S, SCREEN_BLOCK = 64, SCREEN_LEVELS = 8 };

/* ---- memory ---- */

static const qsf_tensor *head_tensor(const qsf_source *s)
{
    const uint32_t unit = s->hp.tied ? qsf_unit_embd(s) : qsf_unit_final(s);
    return &s->tensors[s->units[unit].first_tensor
                       + (uint32_t)qsf_unit_find(s, unit, s->hp.tied ? QSF_K_TOKEN_EMBD : QSF_K_OUTPUT)];
}

static qsf_status screen_bytes(const qsf_source *s, const qsf_tensor *t, uint64_t *bytes, qsf_error *err)
{
    const qsf_status st = qsf_tensor_bytes(SCREEN_TYPE, 1, SCREEN_BLOCK, t->rows, t->cols, bytes, err);
    if (!st && t->bytes < *bytes / 10 * 14)
        return qsf_fail(err, QSF_E_UNSUPPORTED,
                        "%s: the head has %llu bytes, a screen for it %llu: nothing would be gained; use "
                        "the exact head or clusters", s->path, (unsigned long long)t->bytes,
                        (unsigned long long)*bytes);
    *bytes += (uint64_t)QSF_HEAD_ROWS * QSF_HEAD_BEST * sizeof(uint32_t);
    return st;
}

qsf_status qsf_head_bytes(const qsf_source *s, const qsf_context_options *o, uint64_t *bytes, qsf_error *err)
{
    *bytes = 0;
    if (o->head == QSF_HEAD_EXACT) return QSF_OK;
    if (o->f32)
        return qsf_fail(err, QSF_E_ARGUMENT,
                        "computing with floats is for exact logits: it does not go with an approximate head");
    return o->head == QSF_HEAD_SCREEN ? screen_bytes(s, head_tensor(s), bytes, err)
        : qsf_clusters_bytes(s, head_tensor(s), bytes, err);
}

static qsf_status screen_init(qsf_head *h, qsf_error *err)
{
    const qsf_source *s = h->source;
    const qsf_tensor *t = head_tensor(s);
    h->room = QSF_HEAD_BEST;
    h->small = (qsf_matrix){ .t = { .kind = t->kind, .type = SCREEN_TYPE, .packing = 1, .block = SCREEN_BLOCK,
                                    .rows = t->rows, .cols = t->cols },
                             .form = qsf_form_of_type(SCREEN_TYPE),
                             .blocks = (uint32_t)qsf_ceil_div(t->cols, SCREEN_BLOCK) };
    const qsf_status st = qsf_tensor_bytes(SCREEN_TYPE, 1, SCREEN_BLOCK, t->rows, t->cols,
                                           &h->small.t.bytes, err);
    if (st) return st;
    if (!(h->tiles = qsf_alloc_array(h->mem, (uint64_t)QSF_HEAD_ROWS * h->room, sizeof *h->tiles,
                                     "rows of the head", err)))
        return QSF_E_MEMORY;
    if (!(h->screen = qsf_alloc(h->mem, h->small.t.bytes, "screen for the head", err))) return QSF_E_MEMORY;
    h->small.t.data = h->screen;
    return QSF_OK;
}

qsf_status qsf_head_init(qsf_head *h, const qsf_source *s, const qsf_platform *mem,
                         const qsf_context_options *o, qsf_error *err)
{
    *h = (qsf_head){ .mode = o->head, .source = s, .mem = mem };
    return o->head == QSF_HEAD_SCREEN ? screen_init(h, err) : o->head == QSF_HEAD_CLUSTERS
        ? qsf_clusters_init(h, err) : QSF_OK;
}

void qsf_head_done(qsf_head *h)
{
    if (h->mode == QSF_HEAD_CLUSTERS) qsf_clusters_done(h);
    if (h->mode != QSF_HEAD_SCREEN) return;
    qsf_dealloc(h->mem, h->screen, h->small.t.bytes);
    qsf_dealloc(h->mem, h->tiles, (uint64_t)QSF_HEAD_ROWS * h->room * sizeof *h->tiles);
}

/* ---- making the screen ---- */

typedef struct head_job {
    qsf_context      *c;
    const qsf_matrix *head;
    uint32_t          row, n_pieces;     /* of the best rows: whose tiles they are */
} head_job;

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

static void screen_tile_row(qsf_context *c, const qsf_matrix *head, uint32_t row, uint32_t rows, float *strip)
{
    const uint32_t cols = head->t.cols, each = qsf_block_bytes(SCREEN_TYPE, SCREEN_BLOCK) * QSF_TILE_ROWS;
    uint8_t *tile = c->approx.screen + (size_t)row / QSF_TILE_ROWS * c->approx.small.blocks * each,
        codes[SCREEN_BLOCK];
    qsf_dequant_rows(&head->t, row, rows, strip);
    for (uint32_t r = 0; head->out_start && r < rows; r++)
        for (uint32_t i = head->out_start[row + r]; i < head->out_start[row + r + 1]; i++)
            strip[(size_t)r * cols + head->out_col[i]] += qsf_f16_to_f32(head->out_value[i]);
    for (uint32_t col = 0; col < cols; col += SCREEN_BLOCK, tile += each)
        for (uint32_t r = 0; r < rows; r++) {
            const float d = screen_codes(strip + (size_t)r * cols + col,
                                         QSF_MIN(SCREEN_BLOCK, cols - col), codes);
            qsf_tile_put_row(tile, SCREEN_TYPE, SCREEN_BLOCK, r, d, codes);
        }
}

static void screen_make_piece(void *arg, uint32_t thread, uint32_t piece)
{
    const head_job *job = arg;
    qsf_context *c = job->c;
    const uint32_t rows = job->head->t.rows;
    const qsf_share tiles = qsf_share_of(qsf_ceil_div(rows, QSF_TILE_ROWS), piece, job->n_pieces);
    float *strip = c->b.strip + (size_t)thread * QSF_TILE_ROWS * c->b.max_cols;
    for (size_t t = tiles.begin; t < tiles.end; t++) {
        const uint32_t row = (uint32_t)t * QSF_TILE_ROWS;
        screen_tile_row(c, job->head, row, QSF_MIN(QSF_TILE_ROWS, rows - row), strip);
    }
}

static void screen_make(qsf_context *c, const qsf_matrix *head)
{
    head_job job = { .c = c, .head = head,
                     .n_pieces = qsf_pool_pieces(c->pool, qsf_ceil_div(head->t.rows, QSF_TILE_ROWS)) };
    qsf_pool_run(c->pool, job.n_pieces, 1, screen_make_piece, &job);
}

/* ---- using it ---- */

bool qsf_head_wanted(const qsf_context *c)
{
    return c->approx.mode != QSF_HEAD_EXACT && c->n_asked <= QSF_HEAD_ROWS;
}

/* Leaves the logits of the best rows and lists their tiles. */
static void screen_choose(qsf_context *c, uint32_t row)
{
    float *logits = c->b.logits + row * c->b.ld_vocab;
    uint32_t *tiles = c->approx.tiles + (size_t)row * c->approx.room, n = 0;
    const uint32_t rows = c->approx.small.t.rows;
    c->k.top_k_filter(logits, rows, QSF_HEAD_BEST);
    for (uint32_t r = 0; r < rows && n < c->approx.room; r++)
        if (logits[r] > -INFINITY) {
            tiles[n++] = r / QSF_TILE_ROWS;
            r |= QSF_TILE_ROWS - 1;
        }
    c->approx.n_tiles[row] = n;
}

static void screen_choose_piece(void *arg, uint32_t thread, uint32_t piece)
{
    (void)thread;
    screen_choose(((const head_job *)arg)->c, piece);
}

static void screen_best_piece(void *arg, uint32_t thread, uint32_t piece)
{
    const head_job *job = arg;
    qsf_head *h = &job->c->approx;
    qsf_head_tiles(job->c, job->head, job->row, h->tiles + (size_t)job->row * h->room,
                   qsf_share_of(h->n_tiles[job->row], piece, job->n_pieces), thread);
}

static void screen_run(qsf_context *c, const qsf_matrix *head)
{
    head_job job = { .c = c, .head = head };
    qsf_forward_logits_run(c, &c->approx.small, c->n_asked);
    qsf_pool_run(c->pool, c->n_asked, 1, screen_choose_piece, &job);
    for (; job.row < c->n_asked; job.row++) {
        job.n_pieces = qsf_pool_pieces(c->pool, c->approx.n_tiles[job.row]);
        qsf_pool_run(c->pool, job.n_pieces, 1, screen_best_piece, &job);
    }
}

void qsf_head_tiles(const qsf_context *c, const qsf_matrix *head, uint32_t row, const uint32_t *tiles,
                    qsf_share which, uint32_t thread)
{
    for (size_t i = which.begin; i < which.end; i++)
        qsf_forward_logits(c, head, row, 1, (qsf_share){ tiles[i], tiles[i] + 1 }, thread);
}

void qsf_head_run(qsf_context *c, const qsf_matrix *head)
{
    const bool screen = c->approx.mode == QSF_HEAD_SCREEN;
    if (!c->approx.ready) {
        if (screen) screen_make(c, head);
        else qsf_clusters_make(c, head);
    }
    c->approx.ready = true;
    const uint64_t begin = qsf_now(c->platform);
    if (screen) screen_run(c, head);
    else qsf_clusters_run(c, head);
    c->stats.ns_head += qsf_now(c->platform) - begin;
}

void qsf_head_order(qsf_context *c)
{
    if (c->approx.mode == QSF_HEAD_CLUSTERS && c->approx.ready) qsf_clusters_unsort(c);
}

uint32_t qsf_head_place(const qsf_context *c, int32_t token)
{
    const bool sorted = c->approx.mode == QSF_HEAD_CLUSTERS && c->approx.ready && c->hp->tied;
    return sorted ? c->approx.source->clusters->place[token] : (uint32_t)token;
}
