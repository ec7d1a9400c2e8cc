/* The choice between products and look-ups, by measuring both.
 * SPDX-License-Identifier: MIT
 *
 * Each shape that layers have is timed with some tile rows of it, on one thread, from the caches:
 * what memory takes is the same for both.  The weights are whatever is in the buffer, because
 * neither way is faster or slower by them. */
#include "layers/route.h"

enum {
    ROUTE_SHAPES = 6,           /* that differ; models have four */
    ROUTE_TILES = 32,           /* tile rows at most, about what a thread takes at once, */
    ROUTE_BYTES = 1 << 18,      /* and bytes at most: they fit in second-level caches */
    ROUTE_TURNS = 5,            /* the best one counts */
    ROUTE_NS = 100000           /* that a turn takes at least: clocks of browsers are coarse */
};
#define ROUTE_MARGIN 1.1        /* by which look-ups have to be faster */

typedef struct route_shape {
    uint32_t rows, cols;
    bool     four;              /* QK256 */
    uint32_t n;                 /* matrices */
    size_t   tiles, blocks;     /* that are timed */
} route_shape;

static bool route_takes(const qsf_tensor *t)
{
    return t->kind < QSF_N_KINDS && t->rows > 1 && (t->type == QSF_T_TERNARY2 || t->type == QSF_T_QK256);
}

static void shape_add(route_shape list[ROUTE_SHAPES], uint32_t *n, const qsf_tensor *t)
{
    const bool four = t->type == QSF_T_QK256;
    uint32_t i = 0;
    while (i < *n && (list[i].rows != t->rows || list[i].cols != t->cols || list[i].four != four)) i++;
    if (i == ROUTE_SHAPES) return;
    if (i == *n) {
        const size_t blocks = (size_t)qsf_ceil_div(t->cols, 256), most = ROUTE_BYTES / 1024 / blocks;
        list[(*n)++] = (route_shape){
            .rows = t->rows, .cols = t->cols, .four = four, .blocks = blocks,
            .tiles = QSF_MAX(1, QSF_MIN(QSF_MIN(most, ROUTE_TILES), qsf_ceil_div(t->rows, QSF_TILE_ROWS))) };
    }
    list[i].n++;
}

static uint32_t route_shapes_of(const qsf_source *s, route_shape list[ROUTE_SHAPES])
{
    uint32_t n = 0;
    for (uint32_t l = 0; l < s->hp.n_layers; l++) {
        const qsf_unit *u = &s->units[qsf_source_unit(s, qsf_id_layer(l))];
        for (uint32_t i = 0; i < u->n_tensors; i++)
            if (route_takes(&s->tensors[u->first_tensor + i]))
                shape_add(list, &n, &s->tensors[u->first_tensor + i]);
    }
    return n;
}

/* What a shape is timed in: weights, activations, results. */
typedef struct route_room {
    uint8_t *w;
    float   *y;
    qsf_act  x;
} route_room;

static uint64_t room_make(route_room *r, uint8_t *at, const route_shape *list, uint32_t n)
{
    uint64_t w = 0, cols = 0;
    for (uint32_t i = 0; i < n; i++) {
        w = QSF_MAX(w, list[i].tiles * list[i].blocks * 1024);
        cols = QSF_MAX(cols, qsf_act_cols(list[i].cols));
    }
    const uint64_t y = sizeof(float) * ROUTE_TILES * QSF_TILE_ROWS, d = cols / 64 * sizeof(float),
                   s = 2 * d, total = w + y + d + s + cols / 4 + cols;
    if (!at) return total;
    memset(at, 0x55, (size_t)(total - cols));       /* small floats, and ternary weights */
    memset(at + total - cols, 1, (size_t)cols);
    *r = (route_room){ .w = at, .y = (float *)(void *)(at + w),
                       .x = { .d = (float *)(void *)(at + w + y), .s = (float *)(void *)(at + w + y + d),
                              .h = (int16_t *)(void *)(at + w + y + d + s),
                              .q = (int8_t *)(at + total - cols), .n = 1 } };
    return total;
}

static void route_run(const qsf_kernels *k, const route_room *r, const route_shape *s, bool lut)
{
    qsf_act x = r->x;
    x.cols = qsf_act_cols(s->cols);
    if (lut) k->matvec_lut(r->y, r->w, &x, s->tiles, s->blocks, s->four);
    else k->matvec[s->four ? QSF_F_QK256 : QSF_F_T2](r->y, r->w, &x, s->tiles, s->blocks, 256);
}

/* ns of `times` runs. */
static uint64_t route_time(const qsf_platform *p, const qsf_kernels *k, const route_room *r,
                           const route_shape *s, bool lut, uint32_t times)
{
    const uint64_t begin = qsf_now(p);
    for (uint32_t i = 0; i < times; i++) route_run(k, r, s, lut);
    return qsf_now(p) - begin;
}

/* ns that all matrices of a shape take, [1] looked up; false: the clock stands still. */
static bool shape_time(const qsf_platform *p, const qsf_kernels *k, const route_room *r, const route_shape *s,
                       double ns[2])
{
    uint32_t times = 1;
    uint64_t best[2] = { UINT64_MAX, UINT64_MAX };
    while (route_time(p, k, r, s, false, times) < ROUTE_NS)
        if ((times *= 2) > 1 << 16) return false;
    for (int turn = 0; turn < ROUTE_TURNS; turn++)
        for (int lut = 0; lut < 2; lut++) best[lut] = QSF_MIN(best[lut], route_time(p, k, r, s, lut, times));
    const double all = (double)s->n * (double)qsf_ceil_div(s->rows, QSF_TILE_ROWS) / (double)s->tiles / times;
    for (int lut = 0; lut < 2; lut++) ns[lut] += all * (double)best[lut];
    return true;
}

/* Times both ways.  *known: the clock advanced, and ns ([1]: look-ups) covers all `weights`. */
static qsf_status route_measure(const qsf_platform *p, const qsf_kernels *k, const route_shape *list,
                                uint32_t n, double ns[2], double *weights, bool *known, qsf_error *err)
{
    route_room room;
    const uint64_t bytes = room_make(NULL, NULL, list, n);
    uint8_t *at = qsf_alloc(p, bytes, "the choice of kernels", err);
    if (!at) return QSF_E_MEMORY;
    room_make(&room, at, list, n);
    *known = true;
    for (uint32_t i = 0; *known && i < n; i++) {
        *weights += (double)list[i].n * list[i].rows * list[i].cols;
        *known = shape_time(p, k, &room, &list[i], ns);
    }
    qsf_dealloc(p, at, bytes);
    return QSF_OK;
}

qsf_status qsf_route_choose(const qsf_model *m, const qsf_kernels *k, qsf_context_options *o, qsf_error *err)
{
    route_shape list[ROUTE_SHAPES];
    double ns[2] = { 0, 0 }, weights = 0;
    bool known = false;
    const uint32_t n = o->f32 ? 0 : route_shapes_of(m->source, list);
    if (n && o->kernel_route == QSF_ROUTE_AUTO && qsf_now(m->platform)) {
        const qsf_status st = route_measure(m->platform, k, list, n, ns, &weights, &known, err);
        if (st) return st;
        /* For several rows, tiles are transposed back first. */
        if (known && ROUTE_MARGIN * ns[1] < ns[0]) o->kernel_route = QSF_ROUTE_LUT;
    }
    if (!n || o->kernel_route != QSF_ROUTE_LUT) o->kernel_route = QSF_ROUTE_MAD;
    const char *name = o->kernel_route == QSF_ROUTE_LUT ? "lut" : "mad";
    if (known)
        qsf_log(m, QSF_LOG_INFO,
                "2-bit weights, %s, a thread: products %.1f, look-ups %.1f G weights/s: kernel-route %s",
                k->isa, weights / ns[0], weights / ns[1], name);
    else if (n) qsf_log(m, QSF_LOG_INFO, "2-bit weights: kernel-route %s", name);
    return QSF_OK;
}
