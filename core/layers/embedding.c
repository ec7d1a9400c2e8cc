/* Rows of the embedding, resident or streamed.
 * SPDX-License-Identifier: MIT */
#include "layers/embedding.h"

#include "base/pieces.h"
#include "layers/lora.h"

/* ---- memory ---- */

/* A learned position table would need a stream of its own, and a norm would need its weights in
 * memory as well; no model this large has either. */
bool qsf_embedding_can_stream(const qsf_source *s)
{
    const qsf_matrix_place place = qsf_place_embedding(s);
    const bool normed = qsf_unit_find(s, qsf_unit_embd(s), QSF_K_TOKEN_NORM) >= 0;
    if (s->hp.n_embd_layer) {
        const qsf_matrix_place table = qsf_place_table(s);
        if (!qsf_place_can_stream(s, &table)) return false;
    }
    return !s->hp.learned_pos && !s->hp.n_token_types && !normed && qsf_place_can_stream(s, &place);
}

enum { ROWS_ORDER, ROWS_KEPT, ROWS_PIECES = ROWS_KEPT + 3 };

/* Columns of a token's rows for all layers. */
static size_t table_cols(const qsf_source *s) { return (size_t)s->hp.n_layers * s->hp.n_embd_layer; }
static size_t kept_cols(const qsf_source *s) { return s->hp.n_embd + table_cols(s); }

/* Beside the stream: the batch's order, then the rows that are kept. */
static void rows_pieces(qsf_embedding *e, const qsf_source *s, qsf_piece list[ROWS_PIECES])
{
    list[ROWS_ORDER] = QSF_PIECE(e->order, e->n_batch, "batch");
    list[ROWS_KEPT] = QSF_PIECE(e->kept, (uint64_t)e->n_kept * kept_cols(s), "embedding rows");
    list[ROWS_KEPT + 1] = QSF_PIECE(e->kept_token, e->n_kept, "embedding rows");
    list[ROWS_KEPT + 2] = QSF_PIECE(e->kept_used, e->n_kept, "embedding rows");
}

/* Of the matrix, what is fetched at once. */
static uint64_t embedding_part(const qsf_matrix_place *p, const qsf_embedding_plan *plan)
{
    return plan->part ? qsf_place_bytes(p, qsf_place_rows(p, plan->part)) : p->strip_bytes;
}

uint64_t qsf_embedding_bytes(const qsf_source *s, const qsf_embedding_plan *plan)
{
    qsf_embedding e = { .n_batch = plan->n_batch };
    qsf_piece list[ROWS_PIECES];
    if (!plan->streams) return 0;               /* a head may have no embedding at all */
    const qsf_matrix_place place = qsf_place_embedding(s);
    rows_pieces(&e, s, list);
    uint64_t streams = qsf_stream_bytes(s, place.unit, 1, embedding_part(&place, plan));
    if (table_cols(s)) streams += qsf_stream_bytes(s, place.unit, 1, qsf_place_table(s).strip_bytes);
    return streams + qsf_pieces_bytes(list, ROWS_KEPT);
}

uint64_t qsf_embedding_kept_bytes(const qsf_source *s, const qsf_embedding_plan *plan)
{
    qsf_embedding e = { .n_kept = plan->n_kept };
    qsf_piece list[ROWS_PIECES];
    rows_pieces(&e, s, list);
    return plan->streams ? qsf_pieces_bytes(list + ROWS_KEPT, ROWS_PIECES - ROWS_KEPT) : 0;
}

qsf_status qsf_embedding_init(qsf_embedding *e, qsf_fetch *f, const qsf_embedding_plan *plan, qsf_error *err)
{
    qsf_status st;
    *e = (qsf_embedding){ .fetch = f, .streamed = plan->streams };
    if (f->source->hp.eagle && !f->source->hp.n_words) return QSF_OK;
    e->place = qsf_place_embedding(f->source);
    if (!plan->streams) return QSF_OK;
    const uint64_t part = embedding_part(&e->place, plan);
    if (plan->part) e->part_rows = qsf_place_rows(&e->place, plan->part);
    if ((st = qsf_stream_init(&e->rows, f, e->place.unit, 1, part, false, err))) return st;
    if (table_cols(f->source)) {
        e->table_place = qsf_place_table(f->source);
        st = qsf_stream_init(&e->table, f, e->place.unit, 1, e->table_place.strip_bytes, false, err);
        if (st) return st;
    }
    e->n_batch = plan->n_batch;
    e->n_kept = plan->n_kept;
    qsf_piece list[ROWS_PIECES];
    rows_pieces(e, f->source, list);
    if ((st = qsf_pieces_alloc(f->mem, list, ROWS_PIECES, err))) return st;
    for (uint32_t i = 0; i < e->n_kept; i++) e->kept_token[i] = -1;
    return QSF_OK;
}

void qsf_embedding_done(qsf_embedding *e)
{
    if (!e->fetch) return;
    qsf_piece list[ROWS_PIECES];
    rows_pieces(e, e->fetch->source, list);
    qsf_pieces_free(e->fetch->mem, list, ROWS_PIECES);
    qsf_stream_done(&e->rows);
    qsf_stream_done(&e->table);
}

/* ---- rows that are kept ---- */

static float *kept_row(const qsf_embedding *e, size_t i)
{
    return e->kept + i * kept_cols(e->fetch->source);
}

/* The place of a token's row, -1: it is not there. */
static int64_t kept_find(const qsf_embedding *e, int32_t token)
{
    for (uint32_t i = 0; i < e->n_kept; i++)
        if (e->kept_token[i] == token) return i;
    return -1;
}

/* Keeps row r of the batch in the place of the one that was used longest ago. */
static void kept_put(qsf_embedding *e, const qsf_pass *p, int32_t token, uint32_t r)
{
    uint32_t oldest = 0;
    if (!e->n_kept || kept_find(e, token) >= 0) return;
    for (uint32_t i = 1; i < e->n_kept; i++)
        if (e->kept_used[i] < e->kept_used[oldest]) oldest = i;
    e->kept_token[oldest] = token;
    e->kept_used[oldest] = ++e->used;
    float *kept = kept_row(e, oldest);
    memcpy(kept, p->b->x + r * p->b->ld_embd, p->hp->n_embd * sizeof *kept);
    if (p->b->table)
        memcpy(kept + p->hp->n_embd, p->b->table + r * p->b->ld_table, p->b->ld_table * sizeof *kept);
}

static bool kept_get(qsf_embedding *e, const qsf_pass *p, int32_t token, uint32_t r)
{
    const int64_t i = kept_find(e, token);
    const size_t at = r * p->b->ld_embd, n = p->hp->n_embd;
    if (i < 0) return false;
    e->kept_used[i] = ++e->used;
    const float *kept = kept_row(e, (size_t)i);
    memcpy(p->b->x + at, kept, n * sizeof *kept);
    if (!p->b->table) return true;
    memcpy(p->b->x0 + at, kept, n * sizeof *kept);
    memcpy(p->b->table + r * p->b->ld_table, kept + n, p->b->ld_table * sizeof *kept);
    return true;
}

/* ---- a batch ---- */

void qsf_embedding_begin(qsf_embedding *e, const qsf_pass *p)
{
    const qsf_batch_row *rows = p->batch->rows;
    e->next = e->n_order = 0;
    if (!e->streamed) return;
    for (uint32_t r = 0; r < p->batch->n; r++)
        if (kept_get(e, p, rows[r].token, r)) qsf_pass_angles(p, r);
        else e->order[e->n_order++] = r;
    /* Shell's sort: short, in place, fast enough for a batch. */
    for (uint32_t gap = e->n_order / 2; gap; gap /= 2)
        for (uint32_t i = gap; i < e->n_order; i++) {
            const uint32_t x = e->order[i];
            uint32_t j = i;
            for (; j >= gap && rows[e->order[j - gap]].token > rows[x].token; j -= gap)
                e->order[j] = e->order[j - gap];
            e->order[j] = x;
        }
}

/* The strip that holds a token's row. */
static void strip_range(const qsf_matrix_place *p, int32_t token, uint64_t *begin, uint64_t *end)
{
    const uint64_t i = (uint32_t)token / p->strip_rows, bytes = p->strip_bytes;
    *begin = p->at + i * bytes;
    *end = *begin + bytes;
}

qsf_status qsf_embedding_fetch(qsf_embedding *e, const qsf_batch *batch, bool wait, const qsf_weights **w,
                               qsf_error *err)
{
    uint64_t begin, end;
    *w = NULL;
    if (!e->streamed) return qsf_fetch_unit(e->fetch, e->place.unit, wait, w, err);
    if (e->end) return qsf_stream_get(&e->rows, e->begin, e->end, e->tile, wait, &e->strip, err);
    if (e->next == e->n_order) return QSF_OK;
    const int32_t token = batch->rows[e->order[e->next]].token;
    strip_range(&e->place, token, &begin, &end);
    const qsf_status st = qsf_stream_get(&e->rows, begin, end, NULL, wait, &e->strip, err);
    if (st || !e->table.fetch) return st;
    strip_range(&e->table_place, token, &begin, &end);
    return qsf_stream_get(&e->table, begin, end, NULL, wait, &e->table_strip, err);
}

/* Every token is of the first type. */
static void add_type(const qsf_pass *p, float *x)
{
    if (!p->hp->n_token_types) return;
    const float *row = p->w->v[QSF_K_TOKEN_TYPES];
    if (!row) qsf_dequant_rows(&p->w->m[QSF_K_TOKEN_TYPES].t, 0, 1, p->b->tmp);
    p->k->vec_add(x, x, row ? row : p->b->tmp, p->hp->n_embd);
}

/* Embeds row r of the batch: row `row` of m, plus its token's centroid if the file has them,
 * plus its position's row of pos (NULL: none). */
static void embed_row(const qsf_pass *p, const qsf_embd_clusters *clusters, uint32_t r, const qsf_matrix *m,
                      uint32_t row, const qsf_tensor *pos)
{
    const qsf_hparams *hp = p->hp;
    const qsf_batch_row *b = &p->batch->rows[r];
    float *x = p->b->x + r * p->b->ld_embd;
    qsf_dequant_rows(&m->t, row, 1, x);
    if (m->scale != 1) p->k->vec_scale(x, m->scale, hp->n_embd);
    if (clusters) {
        qsf_dequant_rows(&clusters->centroids, clusters->of[b->token], 1, p->b->tmp);
        p->k->vec_add(x, x, p->b->tmp, hp->n_embd);
    }
    if (hp->embd_scale > 0 && hp->embd_scale != 1) p->k->vec_scale(x, hp->embd_scale, hp->n_embd);
    add_type(p, x);
    if (pos) {
        qsf_dequant_rows(pos, b->pos, 1, p->b->tmp);
        p->k->vec_add(x, x, p->b->tmp, hp->n_embd);
    }
    qsf_pass_angles(p, r);
}

/* A token's rows for all layers. */
static void take_table(const qsf_pass *p, uint32_t r, const qsf_matrix *table, uint32_t row)
{
    float *x = p->b->table + r * p->b->ld_table;
    memcpy(p->b->x0 + r * p->b->ld_embd, p->b->x + r * p->b->ld_embd, p->hp->n_embd * sizeof *x);
    qsf_dequant_rows(&table->t, row, 1, x);
    p->k->vec_scale(x, sqrtf((float)p->hp->n_embd_layer) * table->scale, p->b->ld_table);
}

/* Norms an embedded row if the model has such a norm. */
static void norm_embedded(const qsf_pass *p, uint32_t r)
{
    float *x = p->b->x + r * p->b->ld_embd;
    const float *weight = p->w->v[QSF_K_TOKEN_NORM];
    if (weight)
        qsf_pass_norm(p, qsf_norm_of(p->hp), x, x, weight, p->w->v[QSF_K_TOKEN_NORM_BIAS], p->hp->n_embd);
}

static void embed_resident(const qsf_pass *p, const qsf_embd_clusters *clusters, const uint32_t *places)
{
    const qsf_matrix *m = &p->w->m[QSF_K_TOKEN_EMBD];
    const qsf_tensor *pos = &p->w->m[QSF_K_POS_EMBD].t;
    for (uint32_t r = 0; r < p->batch->n; r++) {
        const int32_t token = p->batch->rows[r].token;
        embed_row(p, clusters, r, m, places ? places[token] : (uint32_t)token, pos->data ? pos : NULL);
        if (p->cpu->lora) qsf_lora_embed(p, r);
        norm_embedded(p, r);
        if (p->hp->n_embd_layer) take_table(p, r, &p->w->m[QSF_K_LAYER_TABLE], (uint32_t)token);
    }
}

/* The strip of a token's row, if the slot has it. */
static bool take_strip(const qsf_matrix_place *p, const qsf_slot *w, int32_t token, qsf_matrix *strip)
{
    uint64_t begin, end;
    strip_range(p, token, &begin, &end);
    if (begin < w->begin || end > w->end) return false;
    *strip = (qsf_matrix){ .t = *p->t, .scale = 1 };
    strip->t.rows = p->strip_rows;
    strip->t.bytes = p->strip_bytes;
    strip->t.data = qsf_slot_at(w, begin);
    return true;
}

/* Its row in the unit, which is in memory, or in a strip. */
static qsf_status row_matrix(qsf_embedding *e, int32_t token, qsf_matrix *m, uint32_t *row, qsf_error *err)
{
    const qsf_weights *w = NULL;
    uint64_t begin, end;
    qsf_status st;
    *row = (uint32_t)token;
    if (!e->streamed) {
        if ((st = qsf_fetch_unit(e->fetch, e->place.unit, true, &w, err))) return st;
        *m = w->m[QSF_K_TOKEN_EMBD];
        return QSF_OK;
    }
    strip_range(&e->place, token, &begin, &end);
    if ((st = qsf_stream_get(&e->rows, begin, end, NULL, true, &e->strip, err))) return st;
    (void)take_strip(&e->place, e->strip, token, m);
    *row %= m->t.rows;
    return QSF_OK;
}

qsf_status qsf_embedding_row(qsf_embedding *e, int32_t token, float *out, float *room, qsf_error *err)
{
    const qsf_embd_clusters *clusters = e->fetch->source->embd_clusters;
    const uint32_t n = e->fetch->source->hp.n_embd;
    qsf_matrix m;
    uint32_t row;
    const qsf_status st = row_matrix(e, token, &m, &row, err);
    if (st) return st;
    qsf_dequant_rows(&m.t, row, 1, out);
    for (uint32_t i = 0; i < n && m.scale != 1; i++) out[i] *= m.scale;
    if (!clusters) return QSF_OK;
    qsf_dequant_rows(&clusters->centroids, clusters->of[token], 1, room);
    for (uint32_t i = 0; i < n; i++) out[i] += room[i];
    return QSF_OK;
}

bool qsf_embedding_compute(qsf_embedding *e, const qsf_pass *p, const uint32_t *places)
{
    const qsf_embd_clusters *clusters = e->fetch->source->embd_clusters;
    if (!e->streamed) {
        embed_resident(p, clusters, places);
        return true;
    }
    for (; e->next < e->n_order; e->next++) {
        const uint32_t r = e->order[e->next];
        const int32_t token = p->batch->rows[r].token;
        qsf_matrix strip, table;
        const bool also = e->table.fetch != NULL;
        if (!take_strip(&e->place, e->strip, token, &strip) ||
            (also && !take_strip(&e->table_place, e->table_strip, token, &table)))
            return false;                                           /* the next fetch brings it */
        embed_row(p, clusters, r, &strip, (uint32_t)token % strip.t.rows, NULL);
        if (also) take_table(p, r, &table, (uint32_t)token % table.t.rows);
        kept_put(e, p, token, r);
    }
    for (uint32_t r = 0; p->cpu->lora && r < p->batch->n; r++) qsf_lora_embed(p, r);
    return true;
}
