/* The head by way of clusters: rows near the hidden state, as the file's table has them.
 * SPDX-License-Identifier: MIT
 *
 * When it is first used, the head in memory is put in the order of its clusters, so that a
 * cluster's rows are read in one stretch; from then on rows are found through the table.  A token
 * takes two rounds: the clusters that promise most are computed, then all others that promise more
 * than the best logit so far.  A cluster promises its centroid's logit and a margin that grows with
 * its radius. */
#include "layers/head_clusters.h"

#include "base/pieces.h"
#include "layers/matrix_place.h"

/* A bound that nothing can exceed would let nearly all through; this one misses few (measured in
 * docs/performance.md). */
#define CLUSTER_MARGIN 0.25f
enum { CLUSTER_FIRST = 32 };        /* the first round takes one in 32 clusters */

static uint32_t n_tiles_of(uint32_t rows) { return (uint32_t)qsf_ceil_div(rows, QSF_TILE_ROWS); }

/* ---- memory ---- */

enum { CLUSTERS_PIECES = 3 };

static void clusters_pieces(qsf_head_clusters *h, qsf_piece list[CLUSTERS_PIECES])
{
    /* [2][ld_promise] promises, [ld_vocab] scratch */
    const uint64_t promises = 2 * qsf_round_up(h->k->n, QSF_TILE_ROWS);
    const uint64_t scratch = qsf_round_up(h->n_vocab, QSF_TILE_ROWS);
    list[0] = QSF_PIECE(h->promise, promises + scratch, "clusters of the head");
    list[1] = QSF_PIECE(h->tiles, h->room, "clusters of the head");
    list[2] = QSF_PIECE(h->taken, h->room, "clusters of the head");
}

static qsf_head_clusters clusters_of(const qsf_source *s)
{
    return (qsf_head_clusters){ .k = s->clusters, .n_vocab = s->hp.n_vocab,
                                .room = n_tiles_of(s->hp.n_vocab) };
}

qsf_status qsf_clusters_bytes(const qsf_source *s, uint64_t *bytes, qsf_error *err)
{
    const qsf_matrix_place head = qsf_place_head(s);
    if (!s->clusters)
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s has no clusters of the head's rows; qsf-convert "
                        "--head-clusters 2048 makes them", s->path);
    const bool outliers = qsf_unit_find(s, qsf_source_unit(s, head.unit), QSF_K_OUTLIERS + head.t->kind) >= 0;
    if (!qsf_type_tiles(head.t->type) || outliers ||
        qsf_unit_find(s, qsf_unit_final(s), QSF_K_OUTPUT_BIAS) >= 0)
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: clusters need a head of a quantised type, without "
                        "biases and separate outliers", s->path);
    qsf_head_clusters h = clusters_of(s);
    qsf_piece list[CLUSTERS_PIECES];
    clusters_pieces(&h, list);
    *bytes = qsf_pieces_bytes(list, CLUSTERS_PIECES);
    return QSF_OK;
}

qsf_status qsf_clusters_init(qsf_head_clusters *h, const qsf_source *s, const qsf_platform *mem,
                             qsf_error *err)
{
    const qsf_tensor *t = &s->clusters->centroids;
    qsf_piece list[CLUSTERS_PIECES];
    *h = clusters_of(s);
    h->mem = mem;
    h->centroids = (qsf_matrix){ .t = *t, .form = qsf_form_of_type(t->type), .scale = 1,
                                 .blocks = (uint32_t)qsf_ceil_div(t->cols, t->block) };
    clusters_pieces(h, list);
    const qsf_status st = qsf_pieces_alloc(mem, list, CLUSTERS_PIECES, err);
    if (st) return st;
    h->first = h->promise + qsf_round_up(h->k->n, QSF_TILE_ROWS);
    h->scratch = h->first + qsf_round_up(h->k->n, QSF_TILE_ROWS);
    return QSF_OK;
}

void qsf_clusters_done(qsf_head_clusters *h)
{
    qsf_piece list[CLUSTERS_PIECES];
    clusters_pieces(h, list);
    qsf_pieces_free(h->mem, list, CLUSTERS_PIECES);
}

/* ---- sorting the head ---- */

enum { SORT_PIECES = 32 };          /* a float of scratch has bits for that many */
typedef struct sort_job {
    qsf_head_clusters   *h;
    const qsf_head_part *head;
    uint32_t             n_pieces;
} sort_job;

/* What row r of a tile has: its numbers, scale and maybe zero, and 4 bytes of each vector. */
typedef struct tile_row { uint8_t number[2][2]; uint32_t code[QSF_MAX_BLOCK / 4]; } tile_row;
/* each: bytes of a number */
typedef struct tile_shape { uint32_t numbers, each, vectors; } tile_shape;

static void tile_row_get(const uint8_t *tile, tile_shape s, uint32_t r, tile_row *out)
{
    const uint8_t *codes = tile + s.each * QSF_TILE_ROWS * s.numbers + 4 * r;
    for (uint32_t i = 0; i < s.numbers; i++)
        memcpy(out->number[i], tile + s.each * (QSF_TILE_ROWS * i + r), s.each);
    for (uint32_t i = 0; i < s.vectors; i++) memcpy(&out->code[i], codes + 64 * (size_t)i, 4);
}
static void tile_row_put(uint8_t *tile, tile_shape s, uint32_t r, const tile_row *row)
{
    uint8_t *codes = tile + s.each * QSF_TILE_ROWS * s.numbers + 4 * r;
    for (uint32_t i = 0; i < s.numbers; i++)
        memcpy(tile + s.each * (QSF_TILE_ROWS * i + r), row->number[i], s.each);
    for (uint32_t i = 0; i < s.vectors; i++) memcpy(codes + 64 * (size_t)i, &row->code[i], 4);
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
    const qsf_matrix *m = &job->head->m;
    const qsf_tensor *t = &m->t;
    (void)thread;
    const size_t each = (size_t)qsf_block_bytes(t->type, t->block) * QSF_TILE_ROWS;
    tile_shape shape = { .numbers = qsf_type_get(t->type)->has_zero ? 2 : 1,
                         .each = qsf_type_scale_bytes(t->type) };
    shape.vectors = (uint32_t)((each - QSF_TILE_ROWS * shape.each * shape.numbers) / 64);
    uint8_t *done = (uint8_t *)job->h->scratch + (size_t)piece * qsf_ceil_div(t->rows, 8);
    const qsf_range blocks = qsf_range_of(m->blocks, piece, job->n_pieces);
    for (size_t b = blocks.begin; b < blocks.end; b++)
        sort_column(job->head->own + b * each, m->blocks * each, shape, job->h->k, t->rows, done);
}

uint64_t qsf_clusters_make(qsf_head_clusters *h, const qsf_pass *p, const qsf_head_part *head,
                           uint64_t begin)
{
    assert(head->own);
    sort_job job = { h, head, QSF_MIN(qsf_pool_pieces(p->cpu->pool, head->m.blocks), SORT_PIECES) };
    qsf_op_run run = { .op = QSF_OP_HEAD_MAKE, .begin = begin, .n_pieces = job.n_pieces, .size = 1,
                       .fn = sort_piece, .arg = &job };
    return qsf_pass_share(p, &run);
}

const uint32_t *qsf_clusters_places(const qsf_head_clusters *h) { return h->k->place; }

/* ---- a token ---- */

/* Appends the cluster's tiles to the n that are listed; returns the new n. */
static uint32_t take_cluster(qsf_head_clusters *h, uint32_t cluster, uint32_t n)
{
    const uint32_t *first = h->k->first;
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

static void choose_first(qsf_head_clusters *h, const qsf_pass *p, const float *x)
{
    const qsf_clusters *k = h->k;
    const float cap = p->hp->final_softcap, margin = CLUSTER_MARGIN * hidden_length(k, x);
    uint32_t n = 0;
    for (uint32_t i = 0; i < k->n; i++) h->promise[i] += margin * k->radius[i];
    if (cap > 0) p->k->softcap_inplace(h->promise, cap, k->n);
    for (uint32_t i = 0; i < k->n; i++)
        h->first[i] = k->first[i] < k->first[i + 1] ? h->promise[i] : -INFINITY;
    p->k->top_k_filter(h->first, k->n, qsf_ceil_div(k->n, CLUSTER_FIRST));
    memset(h->taken, 0, h->room);
    for (uint32_t i = 0; i < k->n; i++)
        if (h->first[i] > -INFINITY) n = take_cluster(h, i, n);
    h->n_first = n;
}

/* The end of tile t's rows. */
static uint32_t tile_end(const qsf_head_clusters *h, uint32_t t)
{
    return QSF_MIN((t + 1) * QSF_TILE_ROWS, h->n_vocab);
}

static void choose_rest(qsf_head_clusters *h, const float *sorted)
{
    float best = -INFINITY;
    uint32_t n = h->n_first;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t t = h->tiles[i], r = t * QSF_TILE_ROWS; r < tile_end(h, t); r++)
            best = sorted[r] > best ? sorted[r] : best;
    for (uint32_t i = 0; i < h->k->n; i++)
        if (h->promise[i] >= best) n = take_cluster(h, i, n);
    h->n_all = n;
}

/* From the clusters' order to the vocabulary's. */
static void place_logits(const qsf_head_clusters *h, float *logits)
{
    const uint32_t rows = h->n_vocab, *order = h->k->order;
    memcpy(h->scratch, logits, rows * sizeof *logits);
    for (uint32_t r = 0; r < rows; r++) logits[r] = -INFINITY;
    for (uint32_t i = 0; i < h->n_all; i++)
        for (uint32_t t = h->tiles[i], r = t * QSF_TILE_ROWS; r < tile_end(h, t); r++)
            logits[order[r]] = h->scratch[r];
}

/* Tiles [begin, end) of the list, or (head NULL) of the centroids: of the row-th row that asked. */
typedef struct cluster_job {
    const qsf_head_clusters *h;
    const qsf_pass          *p;
    const qsf_head_part     *head;
    uint32_t                 row, begin, end, n_pieces;
} cluster_job;

static void cluster_piece(void *arg, uint32_t thread, uint32_t piece)
{
    const cluster_job *job = arg;
    const qsf_head_clusters *h = job->h;
    const qsf_range mine = qsf_range_of(job->end - job->begin, piece, job->n_pieces);
    if (job->head) qsf_head_logits_of(job->p, job->head, job->row, h->tiles + job->begin, mine, thread);
    else qsf_head_product(job->p, &h->centroids, job->row, 1, h->promise, 0, mine, thread);
}

static uint64_t compute_tiles(cluster_job job, uint64_t begin)
{
    const qsf_head_clusters *h = job.h;
    const qsf_matrix *m = job.head ? &job.head->m : &h->centroids;
    uint32_t rows = job.head ? 0 : m->t.rows;
    for (uint32_t i = job.begin; job.head && i < job.end; i++)
        rows += tile_end(h, h->tiles[i]) - h->tiles[i] * QSF_TILE_ROWS;
    job.n_pieces = qsf_pool_pieces(job.p->cpu->pool, job.end - job.begin);
    qsf_op_run run = { .op = job.head ? QSF_OP_HEAD : QSF_OP_HEAD_SCREEN, .begin = begin,
                       .n_pieces = job.n_pieces, .size = job.end - job.begin, .fn = cluster_piece,
                       .arg = &job, .n_products = 1, .products = { { m, rows, 1, 0 } } };
    return qsf_pass_share(job.p, &run);
}

void qsf_clusters_run(qsf_head_clusters *h, const qsf_pass *p, const qsf_head_part *head, uint64_t begin)
{
    for (uint32_t j = 0; j < p->batch->n_asked; j++) {
        float *logits = qsf_head_row(p, j);
        cluster_job job = { .h = h, .p = p, .row = j, .end = n_tiles_of(h->centroids.t.rows) };
        begin = compute_tiles(job, begin);
        choose_first(h, p, p->b->xn + j * p->b->ld_embd);
        begin = qsf_pass_alone(p, QSF_OP_HEAD_CHOOSE, begin);
        job.head = head;
        job.end = h->n_first;
        begin = compute_tiles(job, begin);
        choose_rest(h, logits);
        begin = qsf_pass_alone(p, QSF_OP_HEAD_CHOOSE, begin);
        job.begin = h->n_first;
        job.end = h->n_all;
        begin = compute_tiles(job, begin);
        place_logits(h, logits);
        begin = qsf_pass_alone(p, QSF_OP_HEAD_CHOOSE, begin);
    }
}

void qsf_clusters_tile(const qsf_head_clusters *h, const qsf_pass *p, const qsf_head_part *head, uint32_t j,
                       uint32_t t, uint32_t thread)
{
    const float cap = p->hp->final_softcap;
    const uint32_t begin = t * QSF_TILE_ROWS, end = tile_end(h, t);
    qsf_head_product(p, &head->m, j, 1, h->scratch, 0, (qsf_range){ t, t + 1 }, thread);
    if (cap > 0) p->k->softcap_inplace(h->scratch + begin, cap, end - begin);
    for (uint32_t r = begin; r < end; r++) qsf_head_row(p, j)[h->k->order[r]] = h->scratch[r];
}

void qsf_clusters_unsort(qsf_head_clusters *h, const qsf_pass *p)
{
    const uint32_t rows = h->n_vocab, *order = h->k->order;
    for (uint32_t j = 0; j < p->batch->n_asked; j++) {
        float *logits = qsf_head_row(p, j);
        memcpy(h->scratch, logits, rows * sizeof *logits);
        for (uint32_t r = 0; r < rows; r++) logits[order[r]] = h->scratch[r];
    }
}

#undef CLUSTER_MARGIN
