/* What adapters add to products.
 * SPDX-License-Identifier: MIT */
#include "layers/lora.h"
#include "layers/lora_room.h"
#include "layers/lora_stream.h"

/* The memory of a's pairs of the unit. */
static const uint8_t *lora_mem(const qsf_lora *l, const qsf_adapter *a, uint32_t unit)
{
    return a->mem[unit] ? a->mem[unit] : qsf_lora_slot_of(l, a)->mem;
}

bool qsf_lora_set_same(const qsf_lora_set *a, const qsf_lora_set *b)
{
    bool same = a->n == b->n;
    for (uint32_t i = 0; same && i < a->n; i++)
        same = a->use[i].adapter == b->use[i].adapter && a->use[i].scale == b->use[i].scale;
    return same;
}

bool qsf_lora_same(const qsf_lora *l, uint32_t a, uint32_t b)
{
    return !l->sets || qsf_lora_set_same(&l->sets[a], &l->sets[b]);
}

uint64_t qsf_lora_hash(const qsf_lora *l, uint32_t seq)
{
    uint64_t h = 0;
    for (uint32_t i = 0; l->sets && i < l->sets[seq].n; i++) {
        const qsf_adapter_use *u = &l->sets[seq].use[i];
        h = (h ^ u->adapter->hash) * 1099511628211u ^ qsf_f32_bits(u->scale);
    }
    return h;
}

/* ---- rows ---- */

void qsf_lora_rows(qsf_lora *l, const qsf_batch *b, bool asked)
{
    uint32_t at = 0;
    l->n_spans = 0;
    for (uint32_t r = 0; l->n_used && r < b->n; r++) {
        const qsf_lora_set *set = &l->sets[b->rows[r].seq];
        qsf_lora_span *last = l->n_spans ? &l->spans[l->n_spans - 1] : NULL;
        if (asked && b->rows[r].logits < 0) continue;
        const uint32_t row = at++;
        if (!set->n) continue;
        if (last && last->first + last->n == row && qsf_lora_set_same(last->set, set)) last->n++;
        else l->spans[l->n_spans++] = (qsf_lora_span){ row, 1, set };
    }
}

/* ---- h = A x ---- */

enum { DOWN_RANKS = 8 };        /* exact: ranks of one product, ... */
enum { DOWN_ROWS = 64 };        /* ... and rows at a time */
enum { DOWN_WIDTH = 256 };      /* in codes: places of a product, where pairs are joined */

/* Multiplies rows [r, r + n) of in by an adapter's A, which are in mem; h[n][ld]: the results. */
typedef struct down_part {
    const qsf_pass      *p;
    const qsf_matrix_in *in;
    const uint8_t       *mem;
    float               *h;
    float                scale;
    size_t               ld, r, n;
    uint32_t             thread, expert;
    bool                 experts;       /* of these alone, or of the others */
} down_part;

/* One pair, exactly. */
static void down_exact(const down_part *d, const qsf_lora_pair *pair)
{
    const qsf_pass *p = d->p;
    const size_t cols = pair->cols, rank = pair->rank, ld = d->ld;
    const uint16_t *a = (const uint16_t *)(const void *)qsf_lora_a(pair, d->mem, d->expert);
    const float scale = d->scale * qsf_lora_scale(pair, d->expert);
    float sums[DOWN_ROWS * DOWN_RANKS];
    for (size_t j = 0; j < d->n; j += DOWN_ROWS)
        for (size_t k = 0; k < pair->planes * rank;) {
            const size_t n = QSF_MIN(d->n - j, (size_t)DOWN_ROWS), first = k % rank;
            const size_t ranks = QSF_MIN(rank - first, (size_t)DOWN_RANKS);
            float *h = d->h + j * ld + pair->at + first;
            p->k->matmul_f16(sums, DOWN_RANKS, a + k * cols, d->in->x + (d->r + j) * d->in->ld, d->in->ld, n,
                             ranks, cols, qsf_matrix_scratch(p, d->thread));
            for (size_t i = 0; i < n; i++)
                for (size_t c = 0; c < ranks; c++) {
                    const float more = sums[i * DOWN_RANKS + c] * scale;
                    h[i * ld + c] = k < rank ? more : h[i * ld + c] + more;
                }
            k += ranks;
        }
}

/* n_pairs pairs whose A are stored one after another, in codes.  A row's codes take a quarter of a
 * pair's places; their scale follows. */
static void down_codes(const down_part *d, const qsf_lora_pair *pairs, uint32_t n_pairs)
{
    const qsf_pass *p = d->p;
    const uint8_t *a = qsf_lora_a(pairs, d->mem, d->expert);
    const size_t blocks = (size_t)qsf_ceil_div(pairs->cols, QSF_LORA_BLOCK);
    float *y = qsf_matrix_scratch(p, d->thread);
    size_t width = 0;
    for (uint32_t i = 0; i < n_pairs; i++) width += qsf_lora_width(&pairs[i]);
    const size_t most = QSF_TILE_ROWS * p->b->max_cols / width, tiles = width / QSF_TILE_ROWS;
    for (size_t j = 0; j < d->n; j += most) {
        const uint32_t rows = (uint32_t)QSF_MIN(d->n - j, most), first = (uint32_t)(d->r + j);
        const qsf_matrix_in in = qsf_matrix_input_of(&d->in->act, d->in->x, d->in->ld, d->in->cols, first,
                                                     rows);
        if (rows == 1) p->k->matvec[QSF_F_8](y, a, &in.act, tiles, blocks, QSF_LORA_BLOCK);
        else p->k->matmul[QSF_F_8](y, width, a, &in.act, tiles, blocks, QSF_LORA_BLOCK);
        const float *from = y;
        for (size_t i = 0; i < rows; i++)
            for (uint32_t k = 0; k < n_pairs; from += qsf_lora_width(&pairs[k++])) {
                float *h = d->h + (j + i) * d->ld + pairs[k].at;
                float *scale = h + qsf_lora_width(&pairs[k]) / 4;
                p->k->quantize_kv_8bit((int8_t *)(void *)h, scale, from, 4 * qsf_lora_depth(&pairs[k]));
                *scale *= d->scale * qsf_lora_scale(&pairs[k], d->expert);
            }
    }
}

static bool down_wanted(const down_part *d, const qsf_lora_pair *pair, const uint8_t *kinds,
                        uint32_t n_kinds)
{
    if (d->experts != (pair->n_experts != 0)) return false;
    for (uint32_t i = 0; i < n_kinds; i++) if (pair->kind == kinds[i]) return true;
    return false;
}

/* How many pairs from the first on are one product: of at most n. */
static uint32_t down_joined(const down_part *d, const qsf_lora_pair *pairs, uint32_t n, const uint8_t *kinds,
                            uint32_t n_kinds)
{
    uint32_t joined = 1;
    size_t width = qsf_lora_width(pairs);
    for (; joined < n; joined++) {
        const qsf_lora_pair *last = &pairs[joined - 1], *next = &pairs[joined];
        width += qsf_lora_width(next);
        if (width > DOWN_WIDTH || next->planes || next->cols != last->cols ||
            next->a_at != last->a_at + qsf_lora_a_bytes(last) || !down_wanted(d, next, kinds, n_kinds)) break;
    }
    return joined;
}

/* All pairs of these kinds. */
static void down_adapter(const down_part *d, const qsf_adapter *a, uint32_t unit, const uint8_t *kinds,
                         uint32_t n_kinds)
{
    const uint32_t end = a->first[unit + 1];
    for (uint32_t k = a->first[unit], joined; k < end; k += joined) {
        const qsf_lora_pair *pair = &a->pairs[k];
        joined = 1;
        if (!down_wanted(d, pair, kinds, n_kinds)) continue;
        if (pair->planes) down_exact(d, pair);
        else down_codes(d, pair, joined = down_joined(d, pair, end - k, kinds, n_kinds));
    }
}

void qsf_lora_down(const qsf_pass *p, uint32_t unit, const uint8_t *kinds, uint32_t n_kinds,
                   const qsf_matrix_in *in, qsf_range rows, uint32_t thread)
{
    const qsf_lora *l = p->cpu->lora;
    const qsf_lora_room *room = p->cpu->lora_room;
    for (uint32_t i = 0; l && i < l->n_spans; i++) {
        const qsf_lora_span *s = &l->spans[i];
        const qsf_range mine = qsf_range_cut(rows, s->first, s->n);
        size_t at = 0;
        for (uint32_t u = 0; mine.begin < mine.end && u < s->set->n; at += s->set->use[u++].adapter->width) {
            const qsf_adapter *a = s->set->use[u].adapter;
            if (a->first[unit] == a->first[unit + 1]) continue;
            const size_t r = s->first + mine.begin;
            const down_part part = { .p = p, .in = in, .mem = lora_mem(l, a, unit),
                                     .h = room->h + r * room->ld + at, .scale = s->set->use[u].scale,
                                     .ld = room->ld, .r = r, .n = mine.end - mine.begin, .thread = thread };
            down_adapter(&part, a, unit, kinds, n_kinds);
        }
    }
}

/* The next slots of an expert with the same adapters, from e->first + *at on; *at advances past
 * them.  false: no slots remain. */
static bool expert_span(const qsf_pass *p, const qsf_lora_expert *e, uint32_t *at, qsf_lora_span *out)
{
    const uint32_t *row = p->b->slot_row + e->first;
    const qsf_lora_set *sets = p->cpu->lora->sets;
    if (*at >= e->n) return false;
    *out = (qsf_lora_span){ *at, 0, &sets[p->batch->rows[row[*at]].seq] };
    while (*at < e->n && qsf_lora_set_same(out->set, &sets[p->batch->rows[row[*at]].seq])) ++*at;
    out->n = *at - out->first;
    return true;
}

void qsf_lora_expert_down(const qsf_pass *p, const uint8_t *kinds, uint32_t n_kinds, const qsf_matrix_in *in,
                          const qsf_lora_expert *e, uint32_t thread)
{
    const qsf_lora *l = p->cpu->lora;
    const qsf_lora_room *room = p->cpu->lora_room;
    const uint32_t unit = (uint32_t)p->number;
    qsf_lora_span s;
    for (uint32_t next = 0; expert_span(p, e, &next, &s);) {
        float *h = room->experts_h + (e->first - e->wave + s.first) * room->ld_experts;
        for (uint32_t u = 0; u < s.set->n; h += s.set->use[u++].adapter->experts_width) {
            const qsf_adapter *a = s.set->use[u].adapter;
            if (a->first[unit] == a->first[unit + 1]) continue;
            const down_part part = { .p = p, .in = in, .mem = lora_mem(l, a, unit), .h = h,
                                     .scale = s.set->use[u].scale, .ld = room->ld_experts, .r = s.first,
                                     .n = s.n, .thread = thread, .expert = e->expert, .experts = true };
            down_adapter(&part, a, unit, kinds, n_kinds);
        }
    }
}

bool qsf_rows_need(const qsf_pass *p, uint32_t kind)
{
    return p->cpu->lora || qsf_matrix_takes_codes(p, &p->w->m[kind]);
}

void qsf_rows_ready(const qsf_pass *p, const uint8_t *kinds, uint32_t n_kinds, const qsf_matrix_in *in,
                    qsf_range rows, uint32_t thread)
{
    if (qsf_kinds_take_codes(p, kinds, n_kinds)) qsf_matrix_quantize(p, in, rows);
    qsf_lora_down(p, (uint32_t)p->number, kinds, n_kinds, in, rows, thread);
}

/* ---- y += B h ---- */

/* The target that products are added to: tiles from t on, for n rows; y is the first number's
 * place, h[n][ld] are the adapter's values for these rows. */
typedef struct up_part {
    size_t       t, tiles, n;
    float       *y;
    size_t       ldy;
    const float *h;
    size_t       ld;
    uint32_t     expert;
} up_part;

static void up_exact(const qsf_pass *p, const qsf_lora_pair *pair, const uint8_t *mem, const up_part *to)
{
    enum { ROWS = 16, WIDE = QSF_TILE_ROWS };
    static const float keep[2][ROWS] = { { 0 }, { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 } };
    const size_t ld = to->ld, rank = pair->rank, apart = (pair->rows + WIDE - 1) / WIDE * WIDE * rank;
    const uint16_t *b = (const uint16_t *)(const void *)qsf_lora_b(pair, mem, to->expert) +
        to->t * rank * WIDE;
    float sums[ROWS * WIDE];
    for (size_t r = 0; r < to->n; r += ROWS) {
        const size_t some = QSF_MIN(to->n - r, (size_t)ROWS);
        const float *h = to->h + r * ld + pair->at;
        for (size_t t = 0; t < to->tiles; t++) {
            const size_t rows = QSF_MIN((size_t)WIDE, pair->rows - (to->t + t) * WIDE);
            for (uint32_t plane = 0; plane < pair->planes; plane++)
                p->k->attention_weighted_sum_f16(sums, keep[plane], h, ld,
                                                 b + t * rank * WIDE + plane * apart, rank, WIDE, some);
            for (size_t i = 0; i < some; i++) {
                float *y = to->y + (r + i) * to->ldy + t * WIDE;
                for (size_t k = 0; k < rows; k++) y[k] += sums[i * WIDE + k];
            }
        }
    }
}

static void up_pair(const qsf_pass *p, const qsf_adapter *a, const qsf_lora_pair *pair, const up_part *to)
{
    const uint8_t *mem = lora_mem(p->cpu->lora, a, pair->unit);
    const size_t depth = qsf_lora_depth(pair);
    const float *h = to->h + pair->at;
    if (pair->planes) up_exact(p, pair, mem, to);
    else
        p->k->add_narrow(to->y, to->ldy, qsf_lora_b(pair, mem, to->expert) + to->t * qsf_narrow_bytes(depth),
                         depth, to->tiles, (const int8_t *)(const void *)h, to->ld * sizeof *h,
                         h + qsf_lora_width(pair) / 4, to->ld, to->n);
}

void qsf_lora_up(const qsf_pass *p, const qsf_matrix *m, float *y, size_t ldy, qsf_range tiles)
{
    const qsf_lora *l = p->cpu->lora;
    const qsf_lora_room *room = p->cpu->lora_room;
    for (uint32_t i = 0; p->number >= 0 && i < l->n_spans; i++) {
        const qsf_lora_span *s = &l->spans[i];
        up_part to = { tiles.begin, tiles.end - tiles.begin, s->n,
                       y + s->first * ldy + tiles.begin * QSF_TILE_ROWS, ldy,
                       room->h + s->first * room->ld, room->ld, 0 };
        for (uint32_t u = 0; u < s->set->n; to.h += s->set->use[u++].adapter->width) {
            const qsf_adapter *a = s->set->use[u].adapter;
            for (uint32_t k = a->first[p->number]; k < a->first[p->number + 1]; k++)
                if (m == &p->w->m[a->pairs[k].kind]) up_pair(p, a, &a->pairs[k], &to);
        }
    }
}

/* The pair's tiles lie between those of y, where the first of its rows is y[0][skew]: numbers are
 * brought to tiles of their own and back.  Of y, `tiles` are the caller's. */
static void up_between(const qsf_pass *p, const qsf_adapter *a, const qsf_lora_pair *pair, const up_part *to,
                       uint32_t skew, qsf_range tiles)
{
    enum { ROWS = 16, WIDE = QSF_TILE_ROWS };
    const size_t n_tiles = (pair->rows + WIDE - 1) / WIDE;
    for (size_t t = 0; t < n_tiles; t++) {
        const size_t at = skew + t * WIDE, begin = QSF_MAX(at, tiles.begin * WIDE),
            end = QSF_MIN(skew + QSF_MIN((t + 1) * WIDE, pair->rows), tiles.end * WIDE);
        for (size_t r = 0; begin < end && r < to->n; r += ROWS) {
            float tile[ROWS * WIDE] = { 0 }, *y = to->y + r * to->ldy + begin;
            const size_t n = QSF_MIN(to->n - r, (size_t)ROWS), len = (end - begin) * sizeof *y;
            const up_part part = { t, 1, n, tile, WIDE, to->h + r * to->ld, to->ld, to->expert };
            for (size_t i = 0; i < n; i++) memcpy(tile + i * WIDE + begin - at, y + i * to->ldy, len);
            up_pair(p, a, pair, &part);
            for (size_t i = 0; i < n; i++) memcpy(y + i * to->ldy, tile + i * WIDE + begin - at, len);
        }
    }
}

void qsf_lora_expert_up(const qsf_pass *p, uint32_t kind, const qsf_lora_expert *e, uint32_t skew, float *y,
                        size_t ldy, qsf_range tiles)
{
    const qsf_lora_room *room = p->cpu->lora_room;
    qsf_lora_span s;
    for (uint32_t next = 0; tiles.begin < tiles.end && expert_span(p, e, &next, &s);) {
        up_part to = { .t = tiles.begin, .tiles = tiles.end - tiles.begin, .n = s.n, .y = y + s.first * ldy,
                       .ldy = ldy, .h = room->experts_h + (e->first - e->wave + s.first) * room->ld_experts,
                       .ld = room->ld_experts, .expert = e->expert };
        if (!skew) to.y += tiles.begin * QSF_TILE_ROWS;
        for (uint32_t u = 0; u < s.set->n; to.h += s.set->use[u++].adapter->experts_width) {
            const qsf_adapter *a = s.set->use[u].adapter;
            const qsf_lora_pair *pair = qsf_adapter_find(a, (uint32_t)p->number, kind);
            if (pair && skew) up_between(p, a, pair, &to, skew, tiles);
            else if (pair) up_pair(p, a, pair, &to);
        }
    }
}

void qsf_lora_logits(const qsf_pass *p, uint32_t row, uint32_t j, uint32_t n, float *y, size_t ldy,
                     qsf_range tiles)
{
    const qsf_lora *l = p->cpu->lora;
    const qsf_lora_room *room = p->cpu->lora_room;
    for (uint32_t i = 0; i < l->n_spans; i++) {
        const qsf_lora_span *s = &l->spans[i];
        const uint32_t first = QSF_MAX(s->first, j), last = QSF_MIN(s->first + s->n, j + n);
        up_part to = { row / QSF_TILE_ROWS + tiles.begin, tiles.end - tiles.begin, last - first,
                       y + (size_t)(first - j) * ldy + tiles.begin * QSF_TILE_ROWS, ldy,
                       room->h + first * room->ld, room->ld, 0 };
        for (uint32_t u = 0; first < last && u < s->set->n; to.h += s->set->use[u++].adapter->width) {
            const qsf_adapter *a = s->set->use[u].adapter;
            const qsf_lora_pair *pair = qsf_adapter_find(a, p->hp->n_layers + 1, QSF_K_OUTPUT);
            if (pair) up_pair(p, a, pair, &to);
        }
    }
}

void qsf_lora_embed(const qsf_pass *p, uint32_t r)
{
    const qsf_batch_row *row = &p->batch->rows[r];
    const qsf_lora_set *set = &p->cpu->lora->sets[row->seq];
    const uint32_t n = p->hp->n_embd;
    const float embd_scale = p->hp->embd_scale > 0 ? p->hp->embd_scale : 1;
    for (uint32_t u = 0; u < set->n; u++) {
        const qsf_adapter *a = set->use[u].adapter;
        const qsf_lora_pair *pair = qsf_adapter_find(a, p->hp->n_layers, QSF_K_TOKEN_EMBD);
        float *x = p->b->x + r * p->b->ld_embd;
        if (!pair) continue;
        const uint8_t *mem = lora_mem(p->cpu->lora, a, pair->unit);
        p->k->matmul_f32(p->b->tmp, n, (const float *)(const void *)(mem + pair->b_at),
                         (const float *)(const void *)(mem + pair->a_at) + (size_t)row->token * pair->rank,
                         pair->rank, 1, n, pair->rank);
        p->k->vec_scale(p->b->tmp, set->use[u].scale * pair->scale * embd_scale, n);
        p->k->vec_add(x, x, p->b->tmp, n);
    }
}
