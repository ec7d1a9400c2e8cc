/* The head by way of clusters: rows near the hidden state, as the file's table has them.
 * SPDX-License-Identifier: MIT
 *
 * When it is first used, the head in memory is put in the order of its clusters, so that a
 * cluster's rows are read in one stretch; from then on rows are found through the table.  A
 * token takes two rounds: the clusters that promise most are computed, then all others that
 * promise more than the best logit so far.  A cluster promises its centroid's logit and a
 * margin that grows with its radius. */
#include "context.h"

/* A bound that nothing can exceed would let nearly all through;
 * this one misses few (measured in docs/performance.md). */
#define CLUSTER_MARGIN 0.25f
enum { CLUSTER_FIRST = 32 };        /* the first round takes one in 32 clusters */

static uint32_t n_tiles_of(uint32_t rows) { return (uint32_t)qsf_ceil_div(rows, QSF_TILE_ROWS); }

/* ---- memory ---- */

/* [2][ld_promise] promises, [ld_vocab] scratch. */
static uint64_t clusters_floats(const qsf_clusters *k, uint32_t n_vocab)
{
    return 2 * qsf_round_up(k->n, QSF_TILE_ROWS) + qsf_round_up(n_vocab, QSF_TILE_ROWS);
}

qsf_status qsf_clusters_bytes(const qsf_source *s, const qsf_tensor *head, uint64_t *bytes, qsf_error *err)
{
    const uint32_t unit = s->hp.tied ? qsf_unit_embd(s) : qsf_unit_final(s);
    if (!s->clusters)
        return qsf_fail(err, QSF_E_UNSUPPORTED,
                        "%s has no clusters of the head's rows; qsf-convert --head-clusters 2048 makes them",
                        s->path);
    if (!qsf_type_tiles(head->type) || qsf_unit_find(s, unit, QSF_K_OUTLIERS + head->kind) >= 0
        || qsf_unit_find(s, qsf_unit_final(s), QSF_K_OUTPUT_BIAS) >= 0)
        return qsf_fail(err, QSF_E_UNSUPPORTED,
                        "%s: clusters are for heads of a quantised type, without biases and without "
                        "outliers kept apart", s->path);
    *bytes = clusters_floats(s->clusters, s->hp.n_vocab) * sizeof(float) + n_tiles_of(s->hp.n_vocab)
        * (sizeof(uint32_t) + 1);
    return QSF_OK;
}

qsf_status qsf_clusters_init(qsf_head *h, qsf_error *err)
{
    const qsf_source *s = h->source;
    const qsf_clusters *k = s->clusters;
    h->room = n_tiles_of(s->hp.n_vocab);
    h->small = (qsf_matrix){ .t = k->centroids, .form = qsf_form_of_type(k->centroids.type),
                             .blocks = (uint32_t)qsf_ceil_div(k->centroids.cols, k->centroids.block) };
    if (!(h->promise = qsf_alloc_array(h->mem, clusters_floats(k, s->hp.n_vocab), sizeof(float),
                                       "clusters of the head", err)))
        return QSF_E_MEMORY;
    h->first = h->promise + qsf_round_up(k->n, QSF_TILE_ROWS);
    h->scratch = h->first + qsf_round_up(k->n, QSF_TILE_ROWS);
    if (!(h->tiles = qsf_alloc_array(h->mem, h->room, sizeof *h->tiles, "clusters of the head", err)))
        return QSF_E_MEMORY;
    if (!(h->taken = qsf_alloc_array(h->mem, h->room, 1, "clusters of the head", err))) return QSF_E_MEMORY;
    return QSF_OK;
}

void qsf_clusters_done(qsf_head *h)
{
    const qsf_source *s = h->source;
    qsf_dealloc(h->mem, h->taken, h->room);
    qsf_dealloc(h->mem, h->tiles, (uint64_t)h->room * sizeof *h->tiles);
    qsf_dealloc(h->mem, h->promise, clusters_floats(s->clusters, s->hp.n_vocab) * sizeof(float));
}

/* ---- sorting the head ---- */

enum { SORT_PIECES = 32 };          /* a float of scratch has bits for that many */
typedef struct sort_job {
    qsf_context      *c;
    const qsf_matrix *head;
    uint32_t          n_pieces;
} sort_job;

/* What row r of a tile has: scale, maybe zero, 4 bytes of each vector. */
typedef struct tile_row { uint16_t half[2]; uint32_t code[QSF_MAX_BLOCK / 4]; } tile_row;
typedef struct tile_shape { uint32_t halves, vectors; } tile_shape;

static void tile_row_get(const uint8_t *tile, tile_shape s, uint32_t r, tile_row *out)
{
    for (uint32_t i = 0; i < s.halves; i++) memcpy(&out->half[i], tile + 2 * QSF_TILE_ROWS * i + 2 * r, 2);
    for (uint32_t i = 0; i < s.vectors; i++)
        memcpy(&out->code[i], tile + 2 * QSF_TILE_ROWS * s.halves + 64 * (size_t)i + 4 * r, 4);
}
static void tile_row_put(uint8_t *tile, tile_shape s, uint32_t r, const tile_row *row)
{
    for (uint32_t i = 0; i < s.halves; i++) memcpy(tile + 2 * QSF_TILE_ROWS * i + 2 * r, &row->half[i], 2);
    for (uint32_t i = 0; i < s.vectors; i++)
        memcpy(tile + 2 * QSF_TILE_ROWS * s.halves + 64 * (size_t)i + 4 * r, &row->code[i], 4);
}

/* One column of tiles: rows go round the permutation's cycles, in place.  done: [n_vocab] bits. */
static void sort_column(uint8_t *column, size_t apart, tile_shape shape, const qsf_clusters *k, uint32_t n,
                        uint8_t *done)
{
    tile_row saved = { 0 }, row = { 0 };
    memset(done, 0, (size_t)qsf_ceil_div(n, 8));
    for (uint32_t begin = 0; begin < n; begin++) {
        if (done[begin / 8] >> begin % 8 & 1) continue;
        tile_row_get(column + begin / QSF_TILE_ROWS * apart, shape, begin % QSF_TILE_ROWS, &saved);
        uint32_t at = begin;
        for (;;) {
            const uint32_t from = k->order[at];
            done[at / 8] |= (uint8_t)(1 << at % 8);
            if (from == begin) break;
            tile_row_get(column + from / QSF_TILE_ROWS * apart, shape, from % QSF_TILE_ROWS, &row);
            tile_row_put(column + at / QSF_TILE_ROWS * apart, shape, at % QSF_TILE_ROWS, &row);
            at = from;
        }
        tile_row_put(column + at / QSF_TILE_ROWS * apart, shape, at % QSF_TILE_ROWS, &saved);
    }
}

static void sort_piece(void *arg, uint32_t thread, uint32_t piece)
{
    const sort_job *job = arg;
    qsf_context *c = job->c;
    const qsf_tensor *t = &job->head->t;
    (void)thread;
    const size_t each = (size_t)qsf_block_bytes(t->type, t->block) * QSF_TILE_ROWS;
    tile_shape shape = { .halves = qsf_type_get(t->type)->has_zero ? 2 : 1 };
    shape.vectors = (uint32_t)((each - 2 * QSF_TILE_ROWS * shape.halves) / 64);
    uint8_t *done = (uint8_t *)c->approx.scratch + (size_t)piece * qsf_ceil_div(t->rows, 8);
    const qsf_share blocks = qsf_share_of(job->head->blocks, piece, job->n_pieces);
    for (size_t b = blocks.begin; b < blocks.end; b++)
        sort_column((uint8_t *)(size_t)t->data + b * each, job->head->blocks * each, shape,
                    c->approx.source->clusters, t->rows, done);
}

void qsf_clusters_make(qsf_context *c, const qsf_matrix *head)
{
    sort_job job = { c, head, QSF_MIN(qsf_pool_pieces(c->pool, head->blocks), SORT_PIECES) };
    qsf_pool_run(c->pool, job.n_pieces, 1, sort_piece, &job);
}

/* ---- a token ---- */

/* Lists the cluster's tiles behind the n that are listed. */
static uint32_t take_cluster(qsf_head *h, uint32_t cluster, uint32_t n)
{
    const uint32_t *first = h->source->clusters->first;
    if (first[cluster] == first[cluster + 1]) return n;
    for (uint32_t t = first[cluster] / QSF_TILE_ROWS; t <= (first[cluster + 1] - 1) / QSF_TILE_ROWS; t++) {
        if (h->taken[t]) continue;
        h->taken[t] = 1;
        h->tiles[n++] = t;
    }
    return n;
}

/* The length of a hidden state in the units of the clusters' distances. */
static float hidden_length(const qsf_clusters *k, const float *x)
{
    double sum = 0;
    for (uint32_t j = 0; j < k->centroids.cols; j++)
        sum += (double)(x[j] / k->scale[j]) * (double)(x[j] / k->scale[j]);
    return (float)sqrt(sum);
}

static void choose_first(qsf_context *c, const float *x)
{
    qsf_head *h = &c->approx;
    const qsf_clusters *k = h->source->clusters;
    const float cap = c->hp->final_softcap;
    uint32_t n = 0;
    const float margin = CLUSTER_MARGIN * hidden_length(k, x);
    for (uint32_t i = 0; i < k->n; i++) h->promise[i] += margin * k->radius[i];
    if (cap > 0) c->k.softcap_inplace(h->promise, cap, k->n);
    for (uint32_t i = 0; i < k->n; i++)
        h->first[i] = k->first[i] < k->first[i + 1] ? h->promise[i] : -INFINITY;
    c->k.top_k_filter(h->first, k->n, qsf_ceil_div(k->n, CLUSTER_FIRST));
    memset(h->taken, 0, h->room);
    for (uint32_t i = 0; i < k->n; i++)
        if (h->first[i] > -INFINITY) n = take_cluster(h, i, n);
    h->n_tiles[0] = n;
}

static void choose_rest(qsf_context *c, const float *sorted)
{
    qsf_head *h = &c->approx;
    const qsf_clusters *k = h->source->clusters;
    const uint32_t rows = h->source->hp.n_vocab;
    float best = -INFINITY;
    uint32_t n = h->n_tiles[0];
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t r = h->tiles[i] * QSF_TILE_ROWS; r < QSF_MIN((h->tiles[i] + 1) * QSF_TILE_ROWS, rows);
             r++)
            best = sorted[r] > best ? sorted[r] : best;
    for (uint32_t i = 0; i < k->n; i++)
        if (h->promise[i] >= best) n = take_cluster(h, i, n);
    h->n_tiles[1] = n;
}

/* From the clusters' order to the vocabulary's. */
static void place_logits(qsf_context *c, float *logits)
{
    qsf_head *h = &c->approx;
    const uint32_t rows = h->source->hp.n_vocab, *order = h->source->clusters->order;
    memcpy(h->scratch, logits, rows * sizeof *logits);
    for (uint32_t r = 0; r < rows; r++) logits[r] = -INFINITY;
    for (uint32_t i = 0; i < h->n_tiles[1]; i++)
        for (uint32_t r = h->tiles[i] * QSF_TILE_ROWS; r < QSF_MIN((h->tiles[i] + 1) * QSF_TILE_ROWS, rows);
             r++)
            logits[order[r]] = h->scratch[r];
}

/* Tiles [begin, end) of the list, or (head NULL) of the centroids: of the row-th row that asked. */
typedef struct cluster_job {
    qsf_context      *c;
    const qsf_matrix *head;
    uint32_t          row, begin, end, n_pieces;
} cluster_job;

static void cluster_piece(void *arg, uint32_t thread, uint32_t piece)
{
    const cluster_job *job = arg;
    qsf_head *h = &job->c->approx;
    const qsf_share mine = qsf_share_of(job->end - job->begin, piece, job->n_pieces);
    if (job->head) qsf_head_tiles(job->c, job->head, job->row, h->tiles + job->begin, mine, thread);
    else qsf_forward_product(job->c, &h->small, job->row, 1, h->promise, 0, mine, thread);
}

static void compute_tiles(cluster_job job)
{
    job.n_pieces = qsf_pool_pieces(job.c->pool, job.end - job.begin);
    qsf_pool_run(job.c->pool, job.n_pieces, job.end - job.begin, cluster_piece, &job);
}

void qsf_clusters_run(qsf_context *c, const qsf_matrix *head)
{
    qsf_head *h = &c->approx;
    for (uint32_t j = 0; j < c->n_asked; j++) {
        float *logits = c->b.logits + j * c->b.ld_vocab;
        compute_tiles((cluster_job){ .c = c, .row = j, .end = n_tiles_of(h->small.t.rows) });
        choose_first(c, c->b.xn + j * c->b.ld_embd);
        compute_tiles((cluster_job){ .c = c, .head = head, .row = j, .end = h->n_tiles[0] });
        choose_rest(c, logits);
        compute_tiles((cluster_job){ .c = c, .head = head, .row = j, .begin = h->n_tiles[0],
                                     .end = h->n_tiles[1] });
        place_logits(c, logits);
    }
}

/* All logits of a batch that was computed whole, from a sorted head. */
void qsf_clusters_unsort(qsf_context *c)
{
    qsf_head *h = &c->approx;
    const uint32_t rows = h->source->hp.n_vocab, *order = h->source->clusters->order;
    for (uint32_t j = 0; j < c->n_asked; j++) {
        float *logits = c->b.logits + j * c->b.ld_vocab;
        memcpy(h->scratch, logits, rows * sizeof *logits);
        for (uint32_t r = 0; r < rows; r++) logits[order[r]] = h->scratch[r];
    }
}

#undef CLUSTER_MARGIN
