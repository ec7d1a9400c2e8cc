/* What adapters add to products.
 * SPDX-License-Identifier: MIT */
#include "engine/lora.h"
#include "engine/sequence.h"
#include "engine/step.h"

/* ---- adapters of sequences ---- */

static void set_drop(qsf_lora_set *set)
{
    for (uint32_t i = 0; i < set->n; i++) qsf_adapter_free(set->use[i].adapter);
    set->n = 0;
}

void qsf_lora_done(qsf_lora *l)
{
    for (uint32_t s = 0; l->sets && s < l->n_seqs; s++) set_drop(&l->sets[s]);
    qsf_dealloc(l->platform, l->h, l->cap_h * sizeof *l->h);
    qsf_dealloc(l->platform, l->spans, (uint64_t)l->n_rows * sizeof *l->spans);
    qsf_dealloc(l->platform, l->sets, (uint64_t)l->n_seqs * sizeof *l->sets);
    *l = (qsf_lora){ 0 };
}

static bool set_same(const qsf_lora_set *a, const qsf_lora_set *b)
{
    bool same = a->n == b->n;
    for (uint32_t i = 0; same && i < a->n; i++)
        same = a->use[i].adapter == b->use[i].adapter && a->use[i].scale == b->use[i].scale;
    return same;
}

bool qsf_lora_same(const qsf_lora *l, uint32_t a, uint32_t b)
{
    return !l->sets || set_same(&l->sets[a], &l->sets[b]);
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

static size_t set_width(const qsf_lora_set *set)
{
    size_t n = 0;
    for (uint32_t i = 0; i < set->n; i++) n += set->use[i].adapter->width;
    return n;
}

/* Memory for all sequences' adapters, `set` among them. */
static qsf_status lora_grow(qsf_lora *l, const qsf_lora_set *set, qsf_error *err)
{
    size_t width = set_width(set);
    if (!l->sets && !(l->sets = qsf_alloc_array(l->platform, l->n_seqs, sizeof *l->sets, "adapters", err)))
        return QSF_E_MEMORY;
    if (!l->spans && !(l->spans = qsf_alloc_array(l->platform, l->n_rows, sizeof *l->spans, "adapters", err)))
        return QSF_E_MEMORY;
    for (uint32_t s = 0; s < l->n_seqs; s++) width = QSF_MAX(width, set_width(&l->sets[s]));
    if (width * l->n_rows > l->cap_h) {
        float *h = qsf_alloc_array(l->platform, (uint64_t)width * l->n_rows, sizeof *h, "adapters", err);
        if (!h) return QSF_E_MEMORY;
        qsf_dealloc(l->platform, l->h, l->cap_h * sizeof *h);
        l->h = h;
        l->cap_h = width * l->n_rows;
    }
    l->ld_h = width;
    return QSF_OK;
}

static qsf_status check_use(qsf_context *c, const qsf_adapter_use *use)
{
    if (!use->adapter || use->adapter->model != c->model)
        return qsf_fail(&c->error, QSF_E_ARGUMENT, "the adapter was loaded for another model");
    if (!(use->scale >= -FLT_MAX && use->scale <= FLT_MAX))
        return qsf_fail(&c->error, QSF_E_ARGUMENT, "adapter %s: its scale is no number", use->adapter->name);
    if (c->o.head != QSF_HEAD_EXACT &&
        qsf_adapter_find(use->adapter, qsf_unit_final(c->model->source), QSF_K_OUTPUT))
        return qsf_fail(&c->error, QSF_E_UNSUPPORTED, "adapter %s changes the head, which must be exact then "
                        "(head-topk)", use->adapter->name);
    const size_t loaded = atomic_load(&c->model->adapter_bytes);
    if (c->o.ram_budget && loaded > c->o.adapter_bytes)
        return qsf_fail(&c->error, QSF_E_BUDGET, "the adapters take %llu KB, and the plan has %llu KB for "
                        "them: make the context with adapter-memory", (unsigned long long)loaded / 1000 + 1,
                        (unsigned long long)c->o.adapter_bytes / 1000);
    return QSF_OK;
}

qsf_status qsf_seq_set_adapters(qsf_context *c, qsf_seq s, const qsf_adapter_use *uses, size_t n)
{
    qsf_lora_set set = { 0 };
    qsf_status st = qsf_seq_check(c, s);
    if (!st && n > QSF_LORA_MOST)
        st = qsf_fail(&c->error, QSF_E_ARGUMENT, "%llu adapters; a sequence has at most %d",
                      (unsigned long long)n, (int)QSF_LORA_MOST);
    if (!st && n && c->behind.rows)
        st = qsf_fail(&c->error, QSF_E_UNSUPPORTED, "adapters need all layers here (qsf_context_set_behind)");
    for (size_t i = 0; i < n && !st; i++) {
        st = check_use(c, &uses[i]);
        if (!st && uses[i].scale != 0) set.use[set.n++] = uses[i];
    }
    qsf_lora *l = &c->lora;
    if (st || (!l->sets && !set.n) || (l->sets && set_same(&l->sets[s], &set))) return st;
    l->platform = c->platform;
    l->n_seqs = c->o.n_seqs;
    l->n_rows = qsf_rows_most(&c->o);
    qsf_batch_drop(c);
    if ((st = lora_grow(l, &set, &c->error))) return st;
    qsf_seq_back(c, (uint32_t)s, 0);
    for (uint32_t i = 0; i < set.n; i++) qsf_adapter_hold(set.use[i].adapter);
    set_drop(&l->sets[s]);
    l->sets[s] = set;
    l->n_used = 0;
    for (uint32_t i = 0; i < l->n_seqs; i++) l->n_used += l->sets[i].n > 0;
    return QSF_OK;
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
        if (last && last->first + last->n == row && set_same(last->set, set)) last->n++;
        else l->spans[l->n_spans++] = (qsf_lora_span){ row, 1, set };
    }
}

/* ---- h = A x ---- */

enum { DOWN_RANKS = 8 };        /* of a piece of work, ... */
enum { DOWN_ROWS = 64 };        /* ... for so many rows at a time */

typedef struct lora_job {
    qsf_pass_job   job;
    uint32_t       unit, n_kinds;
    const uint8_t *kinds;
    const float   *x;
    size_t         ld;
} lora_job;

/* Some of the numbers of one pair, for one span's rows. */
static void down_ranks(const lora_job *j, const qsf_lora_span *s, const qsf_lora_pair *pair, float scale,
                       size_t at, uint32_t first, uint32_t thread)
{
    const qsf_pass *p = j->job.p;
    const size_t ld = p->lora->ld_h, n = QSF_MIN(DOWN_RANKS, pair->rank - first), cols = pair->cols;
    for (size_t r = 0; r < s->n; r += DOWN_ROWS) {
        const size_t rows = QSF_MIN(DOWN_ROWS, s->n - r);
        const float *x = j->x + (s->first + r) * j->ld;
        float *h = p->lora->h + (s->first + r) * ld + at + pair->at + first, sums[DOWN_ROWS * DOWN_RANKS];
        for (uint32_t plane = 0; plane < pair->planes; plane++) {
            const uint16_t *a = (const uint16_t *)pair->a + (plane * (size_t)pair->rank + first) * cols;
            p->k->matmul_f16(sums, DOWN_RANKS, a, x, j->ld, rows, n, cols, qsf_matrix_scratch(p, thread));
            for (size_t i = 0; i < rows; i++)
                for (size_t k = 0; k < n; k++) {
                    const float more = sums[i * DOWN_RANKS + k] * scale * pair->scale;
                    h[i * ld + k] = plane ? h[i * ld + k] + more : more;
                }
        }
    }
}

/* Does those of mine, of all pieces of work; returns how many these are. */
static size_t down_walk(const lora_job *j, qsf_range mine, uint32_t thread)
{
    const qsf_lora *l = j->job.p->lora;
    size_t item = 0;
    for (uint32_t i = 0; i < l->n_spans; i++) {
        const qsf_lora_span *s = &l->spans[i];
        size_t at = 0;
        for (uint32_t u = 0; u < s->set->n; at += s->set->use[u++].adapter->width)
            for (uint32_t k = 0; k < j->n_kinds; k++) {
                const qsf_lora_pair *pair = qsf_adapter_find(s->set->use[u].adapter, j->unit, j->kinds[k]);
                for (uint32_t r = 0; pair && r < pair->rank; r += DOWN_RANKS, item++)
                    if (item >= mine.begin && item < mine.end)
                        down_ranks(j, s, pair, s->set->use[u].scale, at, r, thread);
            }
    }
    return item;
}

static void down_piece(void *arg, uint32_t thread, uint32_t piece)
{
    const lora_job *j = arg;
    down_walk(j, qsf_pass_mine(&j->job, piece), thread);
}

void qsf_lora_down(qsf_pass_job *job, uint32_t unit, const uint8_t *kinds, uint32_t n_kinds, const float *x,
                   size_t ld)
{
    if (!job->p->lora) return;
    lora_job j = { *job, unit, n_kinds, kinds, x, ld };
    const size_t items = down_walk(&j, (qsf_range){ 0, 0 }, 0);
    if (!items) return;
    qsf_pass_run(&j.job, QSF_OP_ADAPTER, items, down_piece);
    *job = j.job;
}

/* ---- y += B h ---- */

/* Rows [begin, end) of the pair's B, for n rows of the batch whose numbers are in h; y is where its
 * row `begin` goes. */
static void up_rows(const qsf_pass *p, const qsf_lora_pair *pair, const float *h, size_t n, size_t begin,
                    size_t end, float *y, size_t ldy)
{
    enum { ROWS = 16, WIDE = QSF_TILE_ROWS };
    static const float keep[2][ROWS] = { { 0 }, { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 } };
    const size_t ld = p->lora->ld_h, rank = pair->rank, apart = (pair->rows + WIDE - 1) / WIDE * WIDE * rank;
    float sums[ROWS * WIDE];
    for (size_t r = 0; r < n; r += ROWS) {
        const size_t some = QSF_MIN(n - r, (size_t)ROWS);
        for (size_t at = begin; at < end;) {
            const size_t from = at % WIDE, rows = QSF_MIN(WIDE - from, end - at);
            const uint16_t *tile = (const uint16_t *)pair->b + at / WIDE * rank * WIDE;
            for (uint32_t plane = 0; plane < pair->planes; plane++)
                p->k->attention_weighted_sum_f16(sums, keep[plane], h + r * ld, ld, tile + plane * apart,
                                                 rank, WIDE, some);
            for (size_t i = 0; i < some; i++) {
                float *to = y + (r + i) * ldy + (at - begin);
                for (size_t k = 0; k < rows; k++) to[k] += sums[i * WIDE + from + k];
            }
            at += rows;
        }
    }
}

void qsf_lora_up(const qsf_pass *p, const qsf_matrix *m, float *y, size_t ldy, qsf_range tiles)
{
    const qsf_lora *l = p->lora;
    const size_t begin = tiles.begin * QSF_TILE_ROWS, end = QSF_MIN(tiles.end * QSF_TILE_ROWS, m->t.rows);
    for (uint32_t i = 0; p->number >= 0 && i < l->n_spans; i++) {
        const qsf_lora_span *s = &l->spans[i];
        size_t at = 0;
        for (uint32_t u = 0; u < s->set->n; at += s->set->use[u++].adapter->width) {
            const qsf_adapter *a = s->set->use[u].adapter;
            for (uint32_t k = a->first[p->number]; k < a->first[p->number + 1]; k++)
                if (m == &p->w->m[a->pairs[k].kind])
                    up_rows(p, &a->pairs[k], l->h + s->first * l->ld_h + at + a->pairs[k].at, s->n, begin,
                            end, y + s->first * ldy + begin, ldy);
        }
    }
}

void qsf_lora_logits(const qsf_pass *p, uint32_t row, uint32_t rows, uint32_t j, uint32_t n, float *y,
                     size_t ldy, qsf_range tiles)
{
    const qsf_lora *l = p->lora;
    const size_t begin = tiles.begin * QSF_TILE_ROWS, end = QSF_MIN(tiles.end * QSF_TILE_ROWS, rows);
    for (uint32_t i = 0; i < l->n_spans; i++) {
        const qsf_lora_span *s = &l->spans[i];
        const uint32_t first = QSF_MAX(s->first, j), last = QSF_MIN(s->first + s->n, j + n);
        size_t at = 0;
        for (uint32_t u = 0; first < last && u < s->set->n; at += s->set->use[u++].adapter->width) {
            const qsf_lora_pair *pair = qsf_adapter_find(s->set->use[u].adapter, p->hp->n_layers + 1,
                                                         QSF_K_OUTPUT);
            if (pair && begin < end)
                up_rows(p, pair, l->h + first * l->ld_h + at + pair->at, last - first, row + begin, row + end,
                        y + (first - j) * ldy + begin, ldy);
        }
    }
}

void qsf_lora_embed(const qsf_pass *p, uint32_t r)
{
    const qsf_batch_row *row = &p->batch->rows[r];
    const qsf_lora_set *set = &p->lora->sets[row->seq];
    const uint32_t n = p->hp->n_embd;
    const float embd_scale = p->hp->embd_scale > 0 ? p->hp->embd_scale : 1;
    for (uint32_t u = 0; u < set->n; u++) {
        const qsf_lora_pair *pair = qsf_adapter_find(set->use[u].adapter, p->hp->n_layers, QSF_K_TOKEN_EMBD);
        float *x = p->b->x + r * p->b->ld_embd;
        if (!pair) continue;
        p->k->matmul_f32(p->b->tmp, n, pair->b, (const float *)pair->a + (size_t)row->token * pair->rank,
                         pair->rank, 1, n, pair->rank);
        p->k->vec_scale(p->b->tmp, set->use[u].scale * pair->scale * embd_scale, n);
        p->k->vec_add(x, x, p->b->tmp, n);
    }
}
