/* Feed-forwards of experts on a device.
 * SPDX-License-Identifier: MIT
 *
 *   router: normed rows -> ROUTE, choice -> SLOTS, with many rows sorted by expert -> LIST
 *   products of slots to GATE and UP, activation -> SLOT_CODES, product -> SLOT_OUT
 *   shared experts: as a dense feed-forward, whose output is one more slot of SLOT_OUT
 *   weighted sum of a row's slots -> X, or TMP
 *
 * No count of slots is known here: dispatches depend on the rows of the batch alone.  If experts
 * have norms of their own (Gemma 4), each part gets its rows from X, and outputs meet in TMP. */
#include "device/device_experts.h"
#include "device/device_feed_forward.h"

#include "layers/batch.h"
#include "weights/layers.h"

#include "wgsl/choice_wgsl.h"

/* ---- what is possible ---- */

/* How many numbers multiply a matrix, which may be one for each expert. */
static uint32_t scales_of(const qsf_source *s, const qsf_layer *l, uint32_t kind)
{
    const qsf_unit *u = &s->units[l - s->layers];
    for (uint32_t i = 0; i < u->n_tensors; i++)
        if (s->tensors[u->first_tensor + i].kind == kind + QSF_K_SCALE)
            return s->tensors[u->first_tensor + i].cols;
    return 0;
}

static const char *expert_matrix_refused(const qsf_source *s, const qsf_layer *l, const qsf_weights *w,
                                         uint32_t kind)
{
    const qsf_matrix *m = &w->m[kind];
    const uint32_t scales = scales_of(s, l, kind);
    if (scales && (scales == 1 || scales != l->n_experts)) return "a scale of all experts";
    return m->t.rows && m->form < 0 ? "experts of floats" : qsf_device_matrix_refused(m);
}

static const char *experts_refused(const qsf_source *s, const qsf_layer *l, const qsf_weights *w,
                                   const qsf_context_options *o)
{
    static const uint8_t kinds[] = { QSF_K_EXPERT_GATE, QSF_K_EXPERT_UP, QSF_K_EXPERT_DOWN };
    const qsf_matrix *router = &w->m[QSF_K_ROUTER];
    const char *why;
    if (l->experts_apart) return "the width of its experts";
    if ((why = qsf_device_matrix_refused(router))) return why;
    if ((uint64_t)qsf_rows_most(o) * l->n_used > QSF_WGSL_DISPATCH) return "experts of a batch of this size";
    for (size_t i = 0; i < QSF_ARRAY_LEN(kinds); i++)
        if ((why = expert_matrix_refused(s, l, w, kinds[i]))) return why;
    if (w->v[QSF_K_SHARED_ROUTER] &&
        (l->experts_beside || !w->v[QSF_K_FFN_NORM] || w->v[QSF_K_FFN_DOWN_BIAS]))
        return "the gate of its shared experts";
    return l->n_ff ? qsf_device_feed_forward_refused(l, w) : NULL;
}

/* ---- the choice ---- */

enum { SORTED_SLOTS = 4 };      /* of an expert in the mean, from which on groups pay: a group's workgroup
                                 * decodes weights once, and multiplies 64 slots, used or not */

/* Whether the slots of n rows are sorted by expert. */
static bool rows_are_sorted(const qsf_device_step *s, uint32_t n)
{
    return n > QSF_WGSL_ROWS && (uint64_t)n * s->slots >= SORTED_SLOTS * (uint64_t)s->n_experts;
}

static void step_router(qsf_device_maker *k)
{
    const qsf_device_to to = { QSF_DEVICE_ROUTE, k->b->route_ld, 0, false,
                               qsf_device_scaled(k->b->source, k->number, QSF_K_ROUTER), 1 };
    qsf_device_step_matrix(k, "router", &k->w->m[QSF_K_ROUTER], k->w->v[QSF_K_ROUTER_BIAS], &to);
}

/* The logit of the shared experts' gate: a matrix of one row. */
static void step_shared_gate(qsf_device_maker *k)
{
    const uint32_t cols = k->b->source->hp.n_embd;
    const qsf_matrix m = { .t = { .type = QSF_T_F32, .rows = 1, .cols = cols, .bytes = 4 * (uint64_t)cols,
                                  .data = (const uint8_t *)k->w->v[QSF_K_SHARED_ROUTER] },
                           .form = -1, .scale = 1 };
    const qsf_device_to to = { QSF_DEVICE_ROUTE, k->b->route_ld, k->layer->n_experts, false, false, 1 };
    const bool floats = k->w->m[QSF_K_ROUTER].form < 0 && !k->layer->router_early;
    qsf_device_rows x = { .name = "gate norm", .a = QSF_DEVICE_X, .cols = cols, .ld = k->b->ld };
    qsf_device_set_norm(k, &x, QSF_K_FFN_NORM, QSF_K_FFN_NORM_BIAS);
    if (!floats) qsf_device_add_input_of(k, x, &m);
    qsf_device_step_matrix(k, "gate of shared experts", &m, NULL, &to);
}

void qsf_device_experts_early(qsf_device_maker *k)
{
    static const uint8_t router = QSF_K_ROUTER;
    const qsf_device_rows x = { .name = "the router's input", .a = QSF_DEVICE_X, .ld = k->b->ld,
                                .cols = k->b->source->hp.n_embd };
    qsf_device_add_input(k, x, &router, 1);
    step_router(k);
}

static qsf_status choice_dispatch(qsf_device_buffers *b, qsf_device_step *s, uint32_t n,
                                  qsf_device_dispatch *out, qsf_error *err)
{
    (void)b;
    (void)err;
    *out = (qsf_device_dispatch){ s->pipeline[0], s->group, 1, n, 1 };
    return QSF_OK;
}

static void list_choice(qsf_device_maker *k)
{
    static const qsf_device_own does = { NULL, choice_dispatch };
    const qsf_layer *l = k->layer;
    const float *bias = k->w->v[QSF_K_ROUTER_CHOICE], *scales = k->w->v[QSF_K_EXPERT_WEIGHT];
    const qsf_wgsl_choice c = {
        .router = l->router == QSF_ROUTER_SOFTMAX ? QSF_WGSL_OF_ALL
            : l->router == QSF_ROUTER_SIGMOID ? QSF_WGSL_OF_EACH : QSF_WGSL_OF_CHOSEN,
        .shared = qsf_device_expert_slots(l) == l->n_used ? QSF_WGSL_ALONE
            : k->w->v[QSF_K_SHARED_ROUTER] ? QSF_WGSL_BESIDE_GATE : QSF_WGSL_BESIDE,
        .bias = bias != NULL, .norm = l->router_norm, .groups = l->n_groups > 1, .scales = scales != NULL,
    };
    qsf_device_step *s;
    qsf_wgsl_text t;
    qsf_device_range ranges[5];
    uint32_t n = 1;
    qsf_wgsl_choice_numbers *x = qsf_device_step_new(k, QSF_DEVICE_OWN, "choice of experts", &s);
    *x = (qsf_wgsl_choice_numbers){
        .experts = l->n_experts, .used = l->n_used, .a_ld = k->b->route_ld,
        .slots = qsf_device_expert_slots(l), .groups = l->n_groups, .groups_used = l->n_groups_used,
        .scale = l->router_scale != 0 ? l->router_scale : 1,
    };
    s->own = &does;
    ranges[n++] = qsf_device_all_of(k->b, QSF_DEVICE_ROUTE);
    if (bias) ranges[n++] = qsf_device_put_vector(k, bias, l->n_experts);
    if (scales) ranges[n++] = qsf_device_put_vector(k, scales, l->n_experts);
    ranges[n++] = qsf_device_all_of(k->b, QSF_DEVICE_SLOTS);
    qsf_pipeline_begin(&k->b->pipelines, &t);
    qsf_wgsl_choice_text(&t, &c);
    if (!k->st) k->st = qsf_pipeline_end(&k->b->pipelines, &t, s->name, &s->pipeline[0], k->err);
    if (!k->st && k->compiles && k->b->test) k->st = qsf_self_test_choice(k->b->test, &c, k->err);
    qsf_device_step_group(k, s, ranges, n);
}

static void sort_batch(const qsf_device_step *s, void *numbers, uint32_t n)
{
    qsf_wgsl_sort_numbers *x = numbers;
    x->n = n * s->slots;
    x->groups = qsf_wgsl_expert_groups(x->n, x->experts);
}

static qsf_status sort_dispatch(qsf_device_buffers *b, qsf_device_step *s, uint32_t n,
                                qsf_device_dispatch *out, qsf_error *err)
{
    (void)b;
    (void)err;
    *out = (qsf_device_dispatch){ s->pipeline[0], s->group, rows_are_sorted(s, n), 1, 1 };
    return QSF_OK;
}

static void list_sort(qsf_device_maker *k)
{
    static const qsf_device_own does = { sort_batch, sort_dispatch };
    qsf_device_step *s;
    qsf_wgsl_text t;
    qsf_wgsl_sort_numbers *x = qsf_device_step_new(k, QSF_DEVICE_OWN, "slots by expert", &s);
    *x = (qsf_wgsl_sort_numbers){ .experts = k->layer->n_experts, .used = k->layer->n_used,
                                  .slots = qsf_device_expert_slots(k->layer) };
    s->own = &does;
    s->slots = k->layer->n_used;
    s->n_experts = k->layer->n_experts;
    qsf_device_range ranges[] = { { 0 }, qsf_device_all_of(k->b, QSF_DEVICE_SLOTS),
                                  qsf_device_all_of(k->b, QSF_DEVICE_LIST) };
    qsf_pipeline_begin(&k->b->pipelines, &t);
    qsf_wgsl_sort(&t);
    if (!k->st) k->st = qsf_pipeline_end(&k->b->pipelines, &t, s->name, &s->pipeline[0], k->err);
    qsf_device_step_group(k, s, ranges, 3);
}

/* ---- products ---- */

static qsf_status experts_pipeline(qsf_device_buffers *b, qsf_device_step *s, bool many, qsf_error *err)
{
    qsf_wgsl_text t;
    if (s->pipeline[many]) return QSF_OK;
    qsf_pipeline_begin(&b->pipelines, &t);
    if (many) qsf_wgsl_experts_tiles(&t, &s->experts);
    else qsf_wgsl_experts_slots(&t, &s->experts);
    return qsf_pipeline_end(&b->pipelines, &t, s->name, &s->pipeline[many], err);
}

static void experts_batch(const qsf_device_step *s, void *numbers, uint32_t n)
{
    ((qsf_wgsl_experts_numbers *)numbers)->groups = qsf_wgsl_expert_groups(n * s->slots, s->n_experts);
}

static qsf_status experts_dispatch(qsf_device_buffers *b, qsf_device_step *s, uint32_t n,
                                   qsf_device_dispatch *out, qsf_error *err)
{
    const bool many = rows_are_sorted(s, n);
    const uint32_t slots = n * s->slots;
    const qsf_status st = experts_pipeline(b, s, many, err);
    *out = (qsf_device_dispatch){ s->pipeline[many], s->group, many ? (s->wide + 3) / 4 : s->wide, 1,
                                  many ? qsf_wgsl_expert_groups(slots, s->n_experts) : slots };
    return st;
}

/* A product of slots.  down: of hidden rows, to a row's slots and the shared one's. */
typedef struct expert_product {
    const char *name;
    uint8_t kind, bias;
    bool    down;
    qsf_device_name from, to;
    uint32_t rows, y_ld;                /* of an expert; floats */
} expert_product;

/* The part of a matrix that experts [first, end) have; with the scales and biases of all. */
static void step_part(qsf_device_maker *k, const expert_product *p, const qsf_device_range vectors[2],
                      uint32_t first, uint32_t end)
{
    static const qsf_device_own does = { experts_batch, experts_dispatch };
    const qsf_layer *l = k->layer;
    const qsf_matrix *m = &k->w->m[p->kind];
    const bool scales = vectors[0].len != 0, bias = vectors[1].len != 0;
    const uint64_t tile_row = m->blocks * qsf_tile_bytes((qsf_form)m->form, m->t.block),
        tile = (uint64_t)first * p->rows / QSF_TILE_ROWS,
        tiles = qsf_ceil_div((uint64_t)end * p->rows, QSF_TILE_ROWS) - tile;
    qsf_device_step *s;
    qsf_device_range ranges[8];
    uint32_t n = 1, slots = qsf_device_expert_slots(l);
    qsf_wgsl_experts_numbers *x = qsf_device_step_new(k, QSF_DEVICE_OWN, p->name, &s);
    *x = (qsf_wgsl_experts_numbers){
        .rows = p->rows, .blocks = m->blocks, .first = first, .end = end, .tile = (uint32_t)tile,
        .x_ld = qsf_device_codes_ld(m->t.cols), .y_ld = p->y_ld, .used = l->n_used, .slots = slots,
        .x_used = p->down ? 1 : l->n_used, .y_slots = p->down ? slots : l->n_used,
    };
    s->own = &does;
    s->slots = l->n_used;
    s->n_experts = l->n_experts;
    s->wide = qsf_wgsl_expert_tiles(p->rows);
    s->experts = (qsf_wgsl_experts){ .form = (qsf_form)m->form, .block = m->t.block, .scales = scales,
                                     .bias = bias, .slices = m->t.cols >= 1024 ? 16 : 8 };
    ranges[n++] = qsf_device_put_tiles(k, m, tile * tile_row, tiles * tile_row);
    ranges[n++] = qsf_device_all_of(k->b, p->from);
    ranges[n++] = qsf_device_all_of(k->b, p->to);
    ranges[n++] = qsf_device_all_of(k->b, QSF_DEVICE_SLOTS);
    ranges[n++] = qsf_device_all_of(k->b, QSF_DEVICE_LIST);
    if (scales) ranges[n++] = vectors[0];
    if (bias) ranges[n++] = vectors[1];
    for (int many = 0; many < (k->compiles ? 2 : 1) && !k->st; many++) {
        k->st = experts_pipeline(k->b, s, many, k->err);
        if (!k->st && k->compiles && k->b->test)
            k->st = qsf_self_test_experts(k->b->test, &s->experts, many, k->err);
    }
    qsf_device_step_group(k, s, ranges, n);
}

/* As few parts as bindings allow. */
static void step_experts(qsf_device_maker *k, const expert_product *p)
{
    const qsf_matrix *m = &k->w->m[p->kind];
    const qsf_device_info *info = k->b->d->info;
    const uint64_t tile_row = m->blocks * qsf_tile_bytes((qsf_form)m->form, m->t.block),
        most = QSF_MIN(info->max_binding, info->max_buffer) / tile_row * QSF_TILE_ROWS;
    /* with the rest of the tiles at both ends */
    const uint64_t each = most > 2 * QSF_TILE_ROWS ? (most - 2 * QSF_TILE_ROWS) / p->rows : 0;
    const bool whole = k->layer->n_experts * (uint64_t)p->rows <= most;
    if (!whole && !each && !k->st)
        k->st = qsf_fail(k->err, QSF_E_UNSUPPORTED, "%s: an expert of %llu MB is more than the GPU binds",
                         info->name, (unsigned long long)(p->rows / QSF_TILE_ROWS * tile_row / 1000000));
    qsf_device_range vectors[2] = { { 0 } };
    if (scales_of(k->b->source, k->layer, p->kind))
        vectors[0] = qsf_device_put_vector(k, k->w->v[p->kind], k->layer->n_experts);
    if (k->w->v[p->bias]) vectors[1] = qsf_device_put_vector(k, k->w->v[p->bias], m->t.rows);
    for (uint32_t first = 0; first < k->layer->n_experts && !k->st;) {
        const uint32_t left = k->layer->n_experts - first, n = whole ? left : (uint32_t)QSF_MIN(left, each);
        step_part(k, p, vectors, first, first + n);
        first += k->compiles ? left : n;
    }
    qsf_device_site *site = qsf_device_site_new(k);
    if (!site) return;
    site->n = 1;
    site->kinds[0] = p->kind;
    site->experts = true;
    site->hidden = p->down;
    site->to = p->to;
    site->ld = p->y_ld;
}

/* ---- rows of slots ---- */

static void list_slot_codes(qsf_device_maker *k)
{
    const qsf_layer *l = k->layer;
    const bool gated = !l->experts_plain;
    const qsf_wgsl_rows r = { .source = gated ? QSF_WGSL_FROM_TWO : QSF_WGSL_FROM_FLOATS, .codes = true,
                              .function = qsf_device_function(l), .flags = true };
    qsf_device_step *s;
    qsf_wgsl_text t;
    uint32_t n = 1;
    qsf_device_range ranges[5];
    qsf_wgsl_rows_numbers *x = qsf_device_step_new(k, QSF_DEVICE_ROWS, "codes of experts", &s);
    *x = (qsf_wgsl_rows_numbers){ .cols = l->n_ff_expert, .a_ld = k->b->slot_ld, .b_ld = k->b->slot_ld,
                                  .x_ld = qsf_device_codes_ld(l->n_ff_expert), .flag = qsf_device_flag(k) };
    memcpy(x->of_function, l->xielu, sizeof x->of_function);
    s->slots = l->n_used;
    s->wide = (x->x_ld + 79) / 80;
    if (gated) ranges[n++] = qsf_device_all_of(k->b, QSF_DEVICE_GATE);
    ranges[n++] = qsf_device_all_of(k->b, QSF_DEVICE_UP);
    ranges[n++] = qsf_device_all_of(k->b, QSF_DEVICE_FLAGS);
    ranges[n++] = qsf_device_all_of(k->b, QSF_DEVICE_SLOT_CODES);
    qsf_pipeline_begin(&k->b->pipelines, &t);
    qsf_wgsl_rows_text(&t, &r);
    if (!k->st) k->st = qsf_pipeline_end(&k->b->pipelines, &t, s->name, &s->pipeline[0], k->err);
    qsf_device_step_group(k, s, ranges, n);
}

/* to: X, or TMP; with experts_beside it is normed and added to TMP. */
static void list_sum(qsf_device_maker *k)
{
    const bool beside = k->layer->experts_beside, to_x = !k->apart && !beside;
    const qsf_wgsl_rows r = {
        .source = QSF_WGSL_FROM_SLOTS, .floats = true, .add = to_x || beside, .scaled = to_x && k->times != 1,
        .norm = !beside ? QSF_WGSL_NO_NORM
            : k->layer->norm.kind == QSF_NORM_RMS ? QSF_WGSL_RMS_NORM : QSF_WGSL_LAYER_NORM,
    };
    const uint32_t cols = k->b->source->hp.n_embd;
    qsf_device_step *s;
    qsf_wgsl_text t;
    qsf_wgsl_rows_numbers *x = qsf_device_step_new(k, QSF_DEVICE_ROWS, "sum of experts", &s);
    *x = (qsf_wgsl_rows_numbers){ .cols = cols, .a_ld = k->b->ld, .y_ld = k->b->ld,
                                  .shares = qsf_device_expert_slots(k->layer), .gain = k->times,
                                  .eps = k->layer->norm.eps };
    s->wide = beside ? 1 : (cols + 1023) / 1024;
    qsf_device_range ranges[5] = { { 0 }, qsf_device_all_of(k->b, QSF_DEVICE_SLOT_OUT),
                                   qsf_device_all_of(k->b, QSF_DEVICE_SLOTS) };
    uint32_t n = 3;
    if (beside) ranges[n++] = qsf_device_put_vector(k, k->w->v[QSF_K_EXPERT_POST_NORM], cols);
    ranges[n++] = qsf_device_all_of(k->b, to_x ? QSF_DEVICE_X : QSF_DEVICE_TMP);
    qsf_pipeline_begin(&k->b->pipelines, &t);
    qsf_wgsl_rows_text(&t, &r);
    if (!k->st) k->st = qsf_pipeline_end(&k->b->pipelines, &t, s->name, &s->pipeline[0], k->err);
    qsf_device_step_group(k, s, ranges, n);
}

/* The input of products is the normed rows until here. */
static void list_shared_experts(qsf_device_maker *k)
{
    const uint32_t ld = k->b->ld, slots = qsf_device_expert_slots(k->layer);
    const bool scaled = qsf_device_scaled(k->b->source, k->number, QSF_K_FFN_DOWN);
    const qsf_device_to slot = { QSF_DEVICE_SLOT_OUT, slots * ld, k->layer->n_used * ld, false, scaled, 1 };
    const qsf_device_to apart = { QSF_DEVICE_TMP, ld, 0, false, scaled, 1 };
    qsf_device_list_hidden(k, !k->layer->experts_plain);
    qsf_device_step_matrix(k, "down of shared experts", &k->w->m[QSF_K_FFN_DOWN],
                           k->w->v[QSF_K_FFN_DOWN_BIAS], k->layer->experts_beside ? &apart : &slot);
}

/* X, normed for one of the parts, as matrices of a kind take it. */
static void list_norm_for(qsf_device_maker *k, const char *name, int norm, uint8_t kind, float gain)
{
    qsf_device_rows x = { .name = name, .a = QSF_DEVICE_X, .cols = k->b->source->hp.n_embd, .ld = k->b->ld,
                          .gain = gain, .r = { .scaled = gain != 1 } };
    qsf_device_set_norm(k, &x, norm, 0);
    qsf_device_add_input(k, x, &kind, 1);
}

/* Before experts with norms of their own: the shared ones' output, and the router's input. */
static void list_beside(qsf_device_maker *k)
{
    const uint32_t cols = k->b->source->hp.n_embd;
    list_shared_experts(k);
    qsf_device_add_norm(k, "norm of shared experts", QSF_DEVICE_TMP, cols, k->b->ld, QSF_K_SHARED_POST_NORM,
                        0);
    list_norm_for(k, "router norm", QSF_K_ROUTER_NORM, QSF_K_ROUTER, 1 / sqrtf((float)cols));
}

/* After them: TMP is added to X if no norm follows that does so. */
static void list_beside_end(qsf_device_maker *k)
{
    const qsf_device_rows x = { .name = "output of experts", .a = QSF_DEVICE_TMP, .to = QSF_DEVICE_X,
                                .cols = k->b->source->hp.n_embd, .ld = k->b->ld, .to_ld = k->b->ld,
                                .gain = k->times,
                                .r = { .floats = true, .add = true, .scaled = k->times != 1 } };
    if (!k->apart) qsf_device_add_rows(k, &x);
}

static void experts_list(qsf_device_maker *k)
{
    const qsf_layer *l = k->layer;
    const expert_product
        gate = { "gate of experts", QSF_K_EXPERT_GATE, QSF_K_EXPERT_GATE_BIAS, false, QSF_DEVICE_CODES,
                 QSF_DEVICE_GATE, l->n_ff_expert, k->b->slot_ld },
        up = { "up of experts", QSF_K_EXPERT_UP, QSF_K_EXPERT_UP_BIAS, false, QSF_DEVICE_CODES, QSF_DEVICE_UP,
               l->n_ff_expert, k->b->slot_ld },
        down = { "down of experts", QSF_K_EXPERT_DOWN, QSF_K_EXPERT_DOWN_BIAS, true, QSF_DEVICE_SLOT_CODES,
                 QSF_DEVICE_SLOT_OUT, l->n_expert_embd, k->b->ld };
    if (l->experts_beside) list_beside(k);
    if (!l->router_early) step_router(k);
    if (k->w->v[QSF_K_SHARED_ROUTER]) step_shared_gate(k);
    list_choice(k);
    list_sort(k);
    if (l->experts_beside) list_norm_for(k, "norm of experts", QSF_K_EXPERT_NORM, QSF_K_EXPERT_UP, 1);
    if (!l->experts_plain) step_experts(k, &gate);
    step_experts(k, &up);
    list_slot_codes(k);
    if (l->n_ff && !l->experts_beside) list_shared_experts(k);
    step_experts(k, &down);
    list_sum(k);
    if (l->experts_beside) list_beside_end(k);
}

/* EXPERT_UP: experts, with or without gates, read codes. */
const qsf_device_part qsf_device_experts = {
    experts_refused, experts_list, NULL, 4, { QSF_K_ROUTER, QSF_K_EXPERT_UP, QSF_K_FFN_UP, QSF_K_FFN_GATE },
};
