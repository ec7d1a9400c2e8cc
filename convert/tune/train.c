/* What tuning changes in a network, and how.
 * SPDX-License-Identifier: MIT
 *
 * A trellis matrix consists of codes, which are not differentiable.  So it has a shadow, floats
 * that begin as the codes' values; the gradient of the values moves the shadow, and after each step
 * the values are those of the path nearest to it (straight-through: Bengio et al. 2013,
 * arXiv:1308.3432).  Scales do not change.  "Nearest" weights columns by the energy of their
 * inputs, since a column may count a million times as much as its neighbour.
 *
 * Gradients are divided by the root of their mean square, which is factored into rows and columns
 * (Adafactor: Shazeer and Stern 2018, arXiv:1804.04235), so that it does not take another number
 * per weight.  Steps are fractions of a cell, the distance between a trellis's usual levels, and
 * are smaller in columns with larger inputs, where the curvature of the divergence is that much
 * larger.
 *
 * Norms and biases use Adam. */
#include "tune/train.h"

#include "tensor/trellis.h"

#include <math.h>

#define TRAIN_KEEP 0.95f        /* of mean squares, from step to step */
#define TRAIN_MOMENTUM 0.9f
#define TRAIN_MOST 3.0f         /* parts of its usual size that a gradient counts at most */
#define TRAIN_SINK 100.0f       /* position 0 counts at most as much as this many others */

/* ---- memory ---- */

static uint32_t train_pad(uint32_t cols) { return (uint32_t)qsf_round_up(cols, TUNE_GROUP); }

size_t qsf_train_own(const tune_net *n)
{
    size_t most = 0;
    for (uint32_t i = 0; i < n->n; i++) most = QSF_MAX(most, train_pad(n->tensors[i].cols));
    return most * 2 * TUNE_ROWS + most / TUNE_GROUP * TUNE_ROWS + most * TUNE_ROWS / sizeof(float);
}

static void train_levels(tune_levels *q, unsigned bits)
{
    *q = (tune_levels){ .bits = bits, .n = 1u << (bits - 1) };
    for (uint32_t c = 0; c < 4; c++)
        for (uint32_t m = 0; m < q->n; m++) {
            const int8_t *level = qsf_trellis_levels[bits - 2] + 4 * m + c;
            q->level[c][m] = level[0];
            if (m + 1 < q->n) q->above[c][m] = (float)(level[0] + level[4]) / 2;
        }
}

static qsf_status train_matrix(train *k, uint32_t i, unsigned bits, qsf_error *err)
{
    const tune_tensor *t = &k->n->tensors[i];
    const uint32_t pad = train_pad(t->cols);
    train_tensor *to = &k->t[i];
    train_levels(&to->levels, bits);
    to->row = qsf_arena_array(k->arena, t->rows, sizeof *to->row, "tuning", err);
    to->energy = qsf_arena_array(k->arena, pad, sizeof *to->energy, "tuning", err);
    to->first = qsf_arena_array(k->arena, pad, sizeof *to->first, "tuning", err);
    to->weight = qsf_arena_array(k->arena, pad, sizeof *to->weight, "tuning", err);
    to->scale = qsf_arena_array(k->arena, t->rows, pad / TUNE_GROUP, "tuning", err);
    to->step = qsf_arena_array(k->arena, pad, sizeof *to->step, "tuning", err);
    if (!to->row || !to->energy || !to->first || !to->weight || !to->scale || !to->step) return QSF_E_MEMORY;
    for (uint32_t s = 0; s < pad; s++) to->weight[s] = 1;
    return QSF_OK;
}

qsf_status qsf_train_new(train *k, tune_net *n, bool codes, qsf_error *err)
{
    *k = (train){ .n = n };
    qsf_status st = qsf_arena_new(n->platform, &k->arena, err);
    if (st) return st;
    if (!(k->t = qsf_arena_array(k->arena, n->n, sizeof *k->t, "tuning", err))) return QSF_E_MEMORY;
    for (uint32_t i = 0; !st && i < n->n; i++) {
        tune_tensor *t = &n->tensors[i];
        train_tensor *to = &k->t[i];
        const uint64_t weights = (uint64_t)t->rows * t->cols;
        const unsigned bits = codes ? qsf_trellis_bits(n->s->tensors[i].type) : 0;
        t->frozen = (t->rows > 1 && !bits) || t->kind == QSF_K_OUTPUT_BIAS;
        if (t->frozen) continue;
        to->shadow = qsf_arena_array(k->arena, weights, sizeof *to->shadow, "tuning", err);
        to->col = qsf_arena_array(k->arena, t->cols, sizeof *to->col, "tuning", err);
        if (!to->shadow || !to->col) return QSF_E_MEMORY;
        memcpy(to->shadow, t->w, weights * sizeof *t->w);
        if (bits) st = train_matrix(k, i, bits, err);
        else if (!(to->momentum = qsf_arena_array(k->arena, t->cols, sizeof *to->momentum, "tuning", err)))
            st = QSF_E_MEMORY;
    }
    return st;
}

uint32_t qsf_train_parts(const train *k, uint32_t i, train_part parts[TRAIN_PARTS])
{
    const tune_tensor *t = &k->n->tensors[i];
    const train_tensor *to = &k->t[i];
    const uint64_t row = t->rows * sizeof(float), col = t->cols * sizeof(float);
    const uint64_t padded = train_pad(t->cols) * sizeof(float);
    const train_part all[TRAIN_PARTS] = { { to->shadow, t->rows * col }, { to->row, row }, { to->col, col },
                                          { to->momentum, col }, { to->energy, padded },
                                          { to->first, padded }, { to->weight, padded } };
    uint32_t n = 0;
    for (uint32_t j = 0; j < TRAIN_PARTS; j++)
        if (all[j].mem) parts[n++] = all[j];
    return n;
}

void qsf_train_scales(train *k, uint32_t i, const uint8_t *tiles)
{
    const qsf_tensor *t = &k->n->s->tensors[i];
    const uint32_t blocks = (uint32_t)qsf_ceil_div(t->cols, TUNE_GROUP);
    const size_t tile = (size_t)TUNE_ROWS * qsf_block_bytes(t->type, TUNE_GROUP);
    for (uint32_t r = 0; k->t[i].scale && r < t->rows; r++)
        for (uint32_t b = 0; b < blocks; b++)
            k->t[i].scale[(size_t)r * blocks + b] =
                tiles[((size_t)(r / TUNE_ROWS) * blocks + b) * tile + r % TUNE_ROWS];
}

void qsf_train_done(train *k)
{
    if (k->arena) qsf_arena_free(k->arena);
    *k = (train){ 0 };
}

/* ---- from shadow to values ---- */

typedef struct train_job {
    train        *k;
    train_tensor *to;
    const tune_tensor *t;
    const float  *g, *x;
    float         by, inverse_mean;     /* rate; see train_second */
    size_t        rows;
    bool          moves;
    uint8_t      *dst;
} train_job;

/* A tile's rows from the shadow to p->w, in the order of steps. */
static void train_gather(const train_job *j, tune_path *p, float *scale, size_t row, size_t n)
{
    const uint32_t cols = j->t->cols, blocks = p->cols / TUNE_GROUP;
    memset(p->w, 0, (size_t)p->cols * TUNE_ROWS * sizeof *p->w);
    memset(scale, 0, (size_t)blocks * TUNE_ROWS * sizeof *scale);
    for (size_t r = 0; r < n; r++) {
        const float *from = j->to->shadow + (row + r) * cols;
        for (uint32_t b = 0; b < blocks; b++)
            scale[b * TUNE_ROWS + r] = qsf_trellis_scale(j->to->scale[(row + r) * blocks + b]);
        for (uint32_t s = 0; s < p->cols; s++) {
            const uint32_t c = qsf_trellis_column(s);
            if (c < cols) p->w[(size_t)s * TUNE_ROWS + r] = from[c];
        }
    }
}

static void train_scatter(const train_job *j, const tune_path *p, size_t tile, size_t n)
{
    const uint32_t cols = j->t->cols, blocks = p->cols / TUNE_GROUP, bits = j->to->levels.bits;
    const size_t bytes = (size_t)TUNE_ROWS * qsf_block_bytes(QSF_T_TRELLIS2 + (bits - 2), TUNE_GROUP);
    for (size_t r = 0; r < n; r++) {
        float *to = j->t->w + (tile * TUNE_ROWS + r) * cols;
        for (uint32_t s = 0; s < p->cols; s++) {
            const uint32_t c = qsf_trellis_column(s);
            if (c < cols) to[c] = p->w[(size_t)s * TUNE_ROWS + r];
        }
    }
    for (size_t r = 0; j->dst && r < n; r++)
        for (uint32_t b = 0; b < blocks; b++) {
            uint8_t codes[TUNE_GROUP];
            for (uint32_t s = 0; s < TUNE_GROUP; s++)
                codes[qsf_trellis_column(s)] = p->codes[((size_t)b * TUNE_GROUP + s) * TUNE_ROWS + r];
            qsf_trellis_put_row(j->dst + (tile * blocks + b) * bytes, bits, 1, (uint32_t)r,
                                &j->to->scale[(tile * TUNE_ROWS + r) * blocks + b], codes);
        }
}

/* g divided by the root of its square's estimate from rows and columns. */
static void train_move(const train_job *j, size_t row, size_t n)
{
    const uint32_t cols = j->t->cols, blocks = train_pad(cols) / TUNE_GROUP;
    const float cell = 254.0f / (float)(1u << j->to->levels.bits) * j->by;
    for (size_t r = row; r < row + n; r++) {
        const float *g = j->g + r * cols, by = j->to->row[r] * j->inverse_mean;
        float *shadow = j->to->shadow + r * cols;
        for (uint32_t c = 0; c < cols; c++) {
            const float second = by * j->to->col[c], u = second > 0 ? g[c] / sqrtf(second) : 0;
            const float scale = qsf_trellis_scale(j->to->scale[r * blocks + c / TUNE_GROUP]);
            shadow[c] -= cell * j->to->step[c] * scale * QSF_MAX(-TRAIN_MOST, QSF_MIN(TRAIN_MOST, u));
        }
    }
}

static void train_tiles(void *arg, uint32_t thread, size_t begin, size_t end)
{
    const train_job *j = arg;
    tune_team *team = j->k->r->team;
    float *own = team->own + thread * team->cap_own;
    tune_path p = { .q = &j->to->levels, .cols = train_pad(j->t->cols), .weight = j->to->weight };
    float *scale = own + (size_t)p.cols * TUNE_ROWS;
    p.w = own;
    p.scale = scale;
    p.ways = (int32_t *)(void *)(scale + p.cols / TUNE_GROUP * TUNE_ROWS);
    if (j->dst) p.codes = (uint8_t *)(p.ways + (size_t)p.cols * TUNE_ROWS);
    for (size_t tile = begin; tile < end; tile++) {
        const size_t row = tile * TUNE_ROWS, n = QSF_MIN(TUNE_ROWS, j->t->rows - row);
        if (j->moves) train_move(j, row, n);
        train_gather(j, &p, scale, row, n);
        team->lanes->path(&p);
        train_scatter(j, &p, tile, n);
    }
}

static void train_run_tiles(train_job *j)
{
    qsf_tune_rows(j->k->r->team, (size_t)qsf_ceil_div(j->t->rows, TUNE_ROWS), train_tiles, j);
}

void qsf_train_values(train *k, uint32_t i, uint8_t *dst)
{
    train_job j = { .k = k, .to = &k->t[i], .t = &k->n->tensors[i], .dst = dst };
    train_run_tiles(&j);
}

/* ---- gradients ---- */

static float train_blend(const train_tensor *t, float old, float now)
{
    return t->n_taken ? TRAIN_KEEP * old + (1 - TRAIN_KEEP) * now : now;
}

static void train_row_means(void *arg, uint32_t thread, size_t begin, size_t end)
{
    const train_job *j = arg;
    const uint32_t cols = j->t->cols;
    (void)thread;
    for (size_t r = begin; r < end; r++) {
        const float *g = j->g + r * cols;
        double sum = 0;
        for (uint32_t c = 0; c < cols; c++) sum += (double)(g[c] * g[c]);
        j->to->row[r] = train_blend(j->to, j->to->row[r], (float)(sum / cols));
    }
}

/* mean[n] = the mean squares of columns [c, c + n) of x[rows][cols], n <= TUNE_GROUP; of rows at
 * position 0 or of the others; pos NULL: of all. */
static void train_means(float *mean, const float *x, size_t rows, size_t cols, size_t c, size_t n,
                        const uint32_t *pos, bool first)
{
    double sum[TUNE_GROUP] = { 0 };
    size_t some = 0;
    for (size_t r = 0; r < rows; r++) {
        if (pos && (pos[r] == 0) != first) continue;
        for (size_t i = 0; i < n; i++) sum[i] += (double)(x[r * cols + c + i] * x[r * cols + c + i]);
        some++;
    }
    for (size_t i = 0; i < n; i++) mean[i] = some ? (float)(sum[i] / (double)some) : 0;
}

static void train_col_means(void *arg, uint32_t thread, size_t begin, size_t end)
{
    const train_job *j = arg;
    const uint32_t cols = j->t->cols, *pos = j->k->r->pos;
    train_tensor *to = j->to;
    (void)thread;
    for (size_t group = begin; group < end; group++) {
        const size_t c = group * TUNE_GROUP, n = QSF_MIN(TUNE_GROUP, cols - c);
        float mean[3][TUNE_GROUP];
        train_means(mean[0], j->g, j->t->rows, cols, c, n, NULL, false);
        train_means(mean[1], j->x, j->rows, cols, c, n, pos, false);
        train_means(mean[2], j->x, j->rows, cols, c, n, pos, true);
        for (size_t i = 0; i < n; i++) {
            to->col[c + i] = train_blend(to, to->col[c + i], mean[0][i]);
            to->energy[c + i] = train_blend(to, to->energy[c + i], mean[1][i]);
            to->first[c + i] = train_blend(to, to->first[c + i], mean[2][i]);
        }
    }
}

static float train_ease(float mean, float curved) { return curved > mean ? sqrtf(mean / curved) : 1; }

/* As the encoders have it: the embedding stays near what is looked up, and position 0 does not
 * drown the others. */
static void train_weights(train_job *j)
{
    const uint32_t cols = j->t->cols;
    const bool embd = j->t->kind == QSF_K_TOKEN_EMBD;
    double all = 0, sink = 0;
    for (uint32_t c = 0; c < cols; c++) {
        all += (double)j->to->energy[c];
        sink += (double)j->to->first[c];
    }
    const float mean = (float)(all / cols), damp = mean > 0 ? mean * (embd ? 0.1f : 0.01f) : 1;
    const float by = sink > 0 && !embd ? QSF_MIN(1, TRAIN_SINK * (float)(all / sink)) : 0;
    for (uint32_t s = 0; s < train_pad(cols); s++) {
        const uint32_t c = qsf_trellis_column(s);
        const float weight = c < cols ? j->to->energy[c] + damp + by * j->to->first[c] : 0;
        j->to->weight[s] = weight;
        if (c >= cols) continue;
        j->to->step[c] = train_ease(mean, j->to->energy[c] + damp + (embd ? 0 : j->to->first[c]));
    }
}

static void train_vector(train *k, const tune_tensor *t, train_tensor *to, const float *g)
{
    double size = 0;
    const float old = (float)to->n_taken;
    const float short_of_1 = 1 - powf(TRAIN_MOMENTUM, old + 1), short_of_2 = 1 - powf(TRAIN_KEEP, old + 1);
    for (uint32_t c = 0; c < t->cols; c++) size += (double)(t->w[c] * t->w[c]);
    const float by = k->vector_rate * sqrtf((float)(size / t->cols));
    for (uint32_t c = 0; c < t->cols; c++) {
        to->momentum[c] = TRAIN_MOMENTUM * to->momentum[c] + (1 - TRAIN_MOMENTUM) * g[c];
        to->col[c] = TRAIN_KEEP * to->col[c] + (1 - TRAIN_KEEP) * g[c] * g[c];
        const float second = sqrtf(to->col[c] / short_of_2);
        if (second > 0) t->w[c] -= by * to->momentum[c] / short_of_1 / second;
        to->shadow[c] = t->w[c];
    }
}

void qsf_train_take(void *user, const tune_tensor *t, const float *g, const float *x, size_t rows)
{
    train *k = user;
    train_tensor *to = &k->t[t - k->n->tensors];
    train_job j = { .k = k, .to = to, .t = t, .g = g, .x = x, .by = k->rate, .rows = rows, .moves = true };
    if (!to->scale) train_vector(k, t, to, g);
    else {
        double mean = 0;
        qsf_tune_rows(k->r->team, t->rows, train_row_means, &j);
        qsf_tune_rows(k->r->team, train_pad(t->cols) / TUNE_GROUP, train_col_means, &j);
        train_weights(&j);
        for (uint32_t r = 0; r < t->rows; r++) mean += (double)to->row[r];
        if (mean > 0) {
            j.inverse_mean = (float)(t->rows / mean);
            train_run_tiles(&j);
        }
    }
    to->n_taken++;
}
