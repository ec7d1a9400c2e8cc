/* RWKV-7 (Peng et al. 2025, arXiv:2503.14456): shares of the row before -> receptance, decay, key,
 * value, rate, gate -> sums that decay and are corrected -> norm and gate -> output.
 * SPDX-License-Identifier: MIT
 *
 * With k' the key's direction and a the rate, both for each column, a head's sums S [keys][values]
 * become w S - (k' a) (k' S) + k v, and the head gives r S.  A row of the mixer's buffer is how far
 * the row before is away, then r, w, k, v, a, g, and a narrow vector, each from a whole tile on.
 *
 * The first layer's values go through all layers; each says what it takes of them. */
#include "layers/rwkv.h"
#include "layers/feed_forward_plain.h"
#include "layers/lora.h"
#include "layers/mixer.h"
#include "layers/product.h"

/* Parts of a row; the second to seventh in the order of their shares. */
enum { RWKV_FAR, RWKV_R, RWKV_W, RWKV_K, RWKV_V, RWKV_A, RWKV_G, RWKV_LOW };

static float *part_of(const qsf_pass *p, size_t r, int part)
{
    return p->b->mix + r * p->b->ld_mix + (size_t)part * qsf_round_up(p->hp->n_embd, QSF_TILE_ROWS);
}

static float sigmoid(float x) { return 1 / (1 + (float)exp(-x)); }

/* ---- shares of the row before ---- */

/* These columns of all rows: how far the row before is away from xn, which the state's numbers from
 * `at` on become. */
static void shift_columns(const qsf_pass *p, qsf_range columns, size_t at)
{
    const size_t n = columns.end - columns.begin;
    at += columns.begin;
    for (size_t r = 0; r < p->batch->n; r++) {
        const float *x = p->b->xn + r * p->b->ld_embd + columns.begin, *before = qsf_mixer_before(p, r) + at;
        float *far = part_of(p, r, RWKV_FAR) + columns.begin;
        for (size_t i = 0; i < n; i++) far[i] = before[i] - x[i];
        memcpy(qsf_mixer_after(p, r) + at, x, n * sizeof *x);
    }
}

static void shift_mixer(void *arg, uint32_t thread, uint32_t piece)
{
    const qsf_pass_job *job = arg;
    (void)thread;
    shift_columns(job->p, qsf_mixer_mine(job, piece, job->p->hp->n_embd), 0);
}

static void shift_feed_forward(void *arg, uint32_t thread, uint32_t piece)
{
    const qsf_pass_job *job = arg;
    const qsf_layer *l = job->p->layer;
    (void)thread;
    shift_columns(job->p, qsf_mixer_mine(job, piece, job->p->hp->n_embd),
                  l->mix_channels + (size_t)l->mix_inner * l->mix_state);
}

/* y = xn + share * far */
static void take_share(const qsf_pass *p, size_t r, const float *share, float *y)
{
    const float *x = p->b->xn + r * p->b->ld_embd, *far = part_of(p, r, RWKV_FAR);
    for (size_t i = 0; i < p->hp->n_embd; i++) y[i] = x[i] + far[i] * share[i];
}

/* A job for the rows of one share, which go to tmp. */
typedef struct rwkv_share { qsf_pass_job job; int part; } rwkv_share;

static void share_rows(void *arg, uint32_t thread, uint32_t piece)
{
    const rwkv_share *s = arg;
    const qsf_pass *p = s->job.p;
    const qsf_range rows = qsf_pass_mine(&s->job, piece);
    const float *share = p->w->v[QSF_K_MIX_LERP] + (size_t)(s->part - RWKV_R) * p->hp->n_embd;
    (void)thread;
    for (size_t r = rows.begin; r < rows.end; r++) take_share(p, r, share, p->b->tmp + r * p->b->ld_embd);
}

static void rwkv_rows(qsf_pass_job *job, int part, void (*fn)(void *arg, uint32_t thread, uint32_t piece))
{
    rwkv_share s = { .job = *job, .part = part };
    qsf_pass_run(&s.job, QSF_OP_MIX, job->p->batch->n, fn);
    *job = s.job;
}

/* ---- matrices ---- */

/* part = tmp . matrix */
static void rwkv_multiply(qsf_pass_job *job, uint32_t kind, int part)
{
    const qsf_pass *p = job->p;
    const qsf_product_to to = { .kind = kind, .x = p->b->tmp, .ld = p->b->ld_embd, .cols = p->hp->n_embd,
                                .y = part_of(p, 0, part), .ldy = p->b->ld_mix,
                                .codes = QSF_OP_MIX_CODES, .op = QSF_OP_MIX_IN };
    qsf_product_run(job, &to);
}

/* Between a pair of matrices: tanh of what becomes decays, sigmoid of what becomes gates. */
static void bend_rows(void *arg, uint32_t thread, uint32_t piece)
{
    const rwkv_share *s = arg;
    const qsf_layer *l = s->job.p->layer;
    const qsf_range rows = qsf_pass_mine(&s->job, piece);
    (void)thread;
    for (size_t r = rows.begin; r < rows.end; r++) {
        float *x = part_of(s->job.p, r, RWKV_LOW);
        for (size_t i = 0; s->part == RWKV_W && i < l->mix_rank; i++) x[i] = 2 * sigmoid(2 * x[i]) - 1;
        for (size_t i = 0; s->part == RWKV_G && i < l->mix_gate; i++) x[i] = sigmoid(x[i]);
    }
}

/* A pair of matrices applied to tmp: the first makes narrow rows of `columns` columns, the second
 * widens them to a part and adds a bias.  bias: the kind of its vector, QSF_N_KINDS: none. */
typedef struct rwkv_pair { uint32_t in, out, bias, columns; } rwkv_pair;

static void rwkv_narrow(qsf_pass_job *job, const rwkv_pair *pair, int part, float *y, size_t ldy)
{
    const qsf_pass *p = job->p;
    const qsf_product_to to = { .kind = pair->out, .x = part_of(p, 0, RWKV_LOW), .ld = p->b->ld_mix,
                                .cols = pair->columns, .y = y, .ldy = ldy,
                                .bias = pair->bias < QSF_N_KINDS ? p->w->v[pair->bias] : NULL,
                                .codes = QSF_OP_MIX_CODES, .op = QSF_OP_MIX_STEP };
    rwkv_multiply(job, pair->in, RWKV_LOW);
    if (part == RWKV_W || part == RWKV_G) rwkv_rows(job, part, bend_rows);
    qsf_product_run(job, &to);
}

/* All that the sums take; shares of the first layer's values are in att. */
static void rwkv_inputs(qsf_pass_job *job)
{
    const qsf_pass *p = job->p;
    const qsf_layer *l = p->layer;
    const size_t ld = p->b->ld_mix;
    const rwkv_pair decay = { QSF_K_MIX_X, QSF_K_MIX_STEP, QSF_K_MIX_STEP_BIAS, l->mix_rank };
    const rwkv_pair first = { QSF_K_MIX_FIRST_IN, QSF_K_MIX_FIRST_OUT, QSF_K_MIX_FIRST_BIAS, l->mix_first };
    const rwkv_pair rate = { QSF_K_MIX_RATE_IN, QSF_K_MIX_RATE_OUT, QSF_K_MIX_RATE_BIAS, l->mix_rate };
    const rwkv_pair gate = { QSF_K_MIX_GATE_IN, QSF_K_MIX_GATE_OUT, QSF_N_KINDS, l->mix_gate };
    rwkv_rows(job, RWKV_R, share_rows);
    rwkv_multiply(job, QSF_K_MIX_IN, RWKV_R);
    rwkv_rows(job, RWKV_W, share_rows);
    rwkv_narrow(job, &decay, RWKV_W, part_of(p, 0, RWKV_W), ld);
    rwkv_rows(job, RWKV_K, share_rows);
    rwkv_multiply(job, QSF_K_MIX_KEY, RWKV_K);
    rwkv_rows(job, RWKV_V, share_rows);
    rwkv_multiply(job, QSF_K_MIX_VALUE, RWKV_V);
    if (l->mix_first) rwkv_narrow(job, &first, RWKV_V, p->b->att, p->b->ld_q);
    rwkv_rows(job, RWKV_A, share_rows);
    rwkv_narrow(job, &rate, RWKV_A, part_of(p, 0, RWKV_A), ld);
    if (!l->mix_gate) return;
    rwkv_rows(job, RWKV_G, share_rows);
    rwkv_narrow(job, &gate, RWKV_G, part_of(p, 0, RWKV_G), ld);
}

/* ---- the sums ---- */

/* Of row r: decays, keys, values, and instead of rates and of how far the row before is away the
 * two sides of what is taken out, k' a and k'. */
static void ready_row(const qsf_pass *p, size_t r)
{
    const float *const *v = p->w->v;
    const size_t n = p->hp->n_embd, each = p->layer->mix_state;
    float *out = part_of(p, r, RWKV_FAR), *w = part_of(p, r, RWKV_W), *k = part_of(p, r, RWKV_K);
    float *values = part_of(p, r, RWKV_V), *a = part_of(p, r, RWKV_A);
    float *first = p->b->first + r * p->b->ld_embd;
    const float *take = p->b->att + r * p->b->ld_q;
    if (!p->layer->mix_first) memcpy(first, values, n * sizeof *values);
    for (size_t i = 0; p->layer->mix_first && i < n; i++)
        values[i] += (first[i] - values[i]) * sigmoid(take[i]);
    p->k->vec_mul(out, k, v[QSF_K_MIX_KEY_OUT], n);
    for (size_t at = 0; at < n; at += each) {
        double sum = 0;
        for (size_t i = at; i < at + each; i++) sum += (double)out[i] * out[i];
        p->k->vec_scale(out + at, 1 / (float)QSF_MAX(sqrt(sum), 1e-12), each);
    }
    for (size_t i = 0; i < n; i++) {
        const float rate = sigmoid(a[i]);
        w[i] = (float)exp(-0.606531 * sigmoid(w[i]));       /* e^(-1/2) */
        k[i] += k[i] * v[QSF_K_MIX_KEY_RATE][i] * (rate - 1);
        a[i] = out[i] * rate;
    }
}

static void ready_mixer(void *arg, uint32_t thread, uint32_t piece)
{
    const qsf_pass_job *job = arg;
    const qsf_range rows = qsf_pass_mine(job, piece);
    (void)thread;
    for (size_t r = rows.begin; r < rows.end; r++) ready_row(job->p, r);
}

/* The vectors of one head in one row. */
typedef struct rwkv_head { const float *r, *w, *k, *v, *out, *a; float *y; } rwkv_head;

/* `wide` values of a head, from the first on: all sums of one are computed one by one, so that
 * values lie side by side in vectors. */
static inline void rwkv_values(const rwkv_head *h, size_t first, size_t wide, size_t n, const float *before,
                               float *after)
{
    float taken[QSF_TILE_ROWS] = { 0 }, y[QSF_TILE_ROWS] = { 0 }, v[QSF_TILE_ROWS], s[QSF_TILE_ROWS];
    for (size_t i = 0; i < wide; i++) v[i] = h->v[first + i];
    for (size_t k = 0; k < n; k++)
        for (size_t i = 0; i < wide; i++) taken[i] += h->out[k] * before[k * n + first + i];
    for (size_t k = 0; k < n; k++) {
        const float w = h->w[k], key = h->k[k], a = h->a[k], r = h->r[k];
        for (size_t i = 0; i < wide; i++) s[i] = before[k * n + first + i] * w + v[i] * key - taken[i] * a;
        for (size_t i = 0; i < wide; i++) after[k * n + first + i] = s[i];
        for (size_t i = 0; i < wide; i++) y[i] += s[i] * r;
    }
    for (size_t i = 0; i < wide; i++) h->y[first + i] = y[i];
}

/* Heads of all rows, one after another. */
static void sum_heads(void *arg, uint32_t thread, uint32_t piece)
{
    const qsf_pass_job *job = arg;
    const qsf_pass *p = job->p;
    const qsf_range heads = qsf_pass_mine(job, piece);
    const size_t n = p->layer->mix_state;
    (void)thread;
    for (size_t head = heads.begin; head < heads.end; head++)
        for (size_t r = 0; r < p->batch->n; r++) {
            const size_t c = head * n, at = p->layer->mix_channels + c * n;
            const rwkv_head h = {
                .r = part_of(p, r, RWKV_R) + c, .w = part_of(p, r, RWKV_W) + c,
                .k = part_of(p, r, RWKV_K) + c, .v = part_of(p, r, RWKV_V) + c,
                .out = part_of(p, r, RWKV_FAR) + c, .a = part_of(p, r, RWKV_A) + c,
                .y = p->b->att + r * p->b->ld_q + c,
            };
            const float *before = qsf_mixer_before(p, r) + at;
            float *after = qsf_mixer_after(p, r) + at;
            size_t first = 0;
            for (; first + QSF_TILE_ROWS <= n; first += QSF_TILE_ROWS)
                rwkv_values(&h, first, QSF_TILE_ROWS, n, before, after);
            if (first < n) rwkv_values(&h, first, n - first, n, before, after);
        }
}

/* The norm of each head, if the model has one, a part of the row's own values, and the gate. */
static void rwkv_gate(void *arg, uint32_t thread, uint32_t piece)
{
    const qsf_pass_job *job = arg;
    const qsf_pass *p = job->p;
    const float *norm = p->w->v[QSF_K_MIX_NORM], *bias = p->w->v[QSF_K_MIX_NORM_BIAS];
    const float *skip = p->w->v[QSF_K_MIX_SKIP];
    const size_t n = p->layer->mix_state;
    const qsf_range rows = qsf_pass_mine(job, piece);
    (void)thread;
    for (size_t row = rows.begin; row < rows.end; row++) {
        const float *r = part_of(p, row, RWKV_R), *k = part_of(p, row, RWKV_K), *v = part_of(p, row, RWKV_V);
        float *y = p->b->att + row * p->b->ld_q;
        for (size_t at = 0; at < p->hp->n_embd; at += n) {
            double own = 0;
            if (norm && bias) p->k->layer_norm(y + at, y + at, norm + at, bias + at, n, 64e-5f);
            for (size_t i = at; i < at + n; i++) own += (double)k[i] * r[i] * skip[i];
            for (size_t i = at; i < at + n; i++) y[i] += v[i] * (float)own;
        }
        if (p->layer->mix_gate) p->k->vec_mul(y, y, part_of(p, row, RWKV_G), p->hp->n_embd);
    }
}

void qsf_rwkv_run(qsf_pass_job *job)
{
    const qsf_pass *p = job->p;
    qsf_pass_run(job, QSF_OP_MIX, qsf_mixer_items(p->hp->n_embd), shift_mixer);
    rwkv_inputs(job);
    qsf_pass_run(job, QSF_OP_MIX, p->batch->n, ready_mixer);
    qsf_pass_run(job, QSF_OP_MIX, p->layer->mix_heads, sum_heads);
    qsf_pass_run(job, QSF_OP_MIX, p->batch->n, rwkv_gate);
    qsf_mixer_out(job);
}

/* ---- the feed-forward ---- */

static void share_feed_forward(void *arg, uint32_t thread, uint32_t piece)
{
    const qsf_pass_job *job = arg;
    const qsf_pass *p = job->p;
    const qsf_range rows = qsf_pass_mine(job, piece);
    const qsf_matrix_in in = qsf_matrix_input(p, p->b->xn, p->b->ld_embd, p->hp->n_embd, 0, p->batch->n);
    for (size_t r = rows.begin; r < rows.end; r++)
        take_share(p, r, p->w->v[QSF_K_FFN_LERP], p->b->xn + r * p->b->ld_embd);
    qsf_rows_ready(p, (const uint8_t[]){ QSF_K_FFN_UP }, 1, &in, rows, thread);
}

void qsf_rwkv_feed_forward_run(qsf_pass_job *job)
{
    const qsf_pass *p = job->p;
    qsf_pass_run(job, QSF_OP_MIX, qsf_mixer_items(p->hp->n_embd), shift_feed_forward);
    qsf_pass_run(job, QSF_OP_FFN_CODES, p->batch->n, share_feed_forward);
    qsf_pass_watch(p, QSF_K_FFN_UP, p->b->xn, p->b->ld_embd, p->hp->n_embd, 0, p->batch->n);
    qsf_feed_forward_plain_run(job);
}
