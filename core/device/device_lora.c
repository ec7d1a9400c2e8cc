/* Adapters on a device.
 * SPDX-License-Identifier: MIT */
#include "device/device_lora.h"

#include "device/device_experts.h"
#include "weights/layers.h"

#include "wgsl/adapter_wgsl.h"

enum { LORA_RUNS = 32 };                /* of a layer's pairs */

/* ---- a layer's pairs, as they lie on the device ---- */

/* Pairs whose A are one matrix: those of codes that read the same rows, or one that is exact. */
typedef struct lora_run { uint32_t first, end; uint64_t a_at, a_len; } lora_run;

typedef struct lora_map {
    const qsf_adapter *a;
    uint32_t unit, n;
    lora_run runs[LORA_RUNS];
    uint64_t b_begin, b_end, end;       /* bytes: of all B; of all */
    uint64_t b_at[LORA_RUNS];           /* of pairs, from the unit's first one on, from b_begin on; */
    uint64_t scales_at[LORA_RUNS];      /* the numbers of their experts */
} lora_map;

static uint32_t pair_experts(const qsf_lora_pair *p) { return QSF_MAX(p->n_experts, 1); }

/* The end of those that read the same rows as pair i does, which is the first of them. */
static uint32_t group_end(const qsf_adapter *a, uint32_t i, uint32_t end)
{
    const qsf_lora_pair *first = &a->pairs[i++];
    while (i < end && a->pairs[i].a_at - first->a_at < first->a_step) i++;
    return i;
}

/* Appends the runs of a group; returns the end of their bytes. */
static uint64_t map_group(lora_map *m, uint32_t first, uint32_t end, uint64_t at, uint64_t align)
{
    const qsf_lora_pair *pairs = m->a->pairs;
    for (uint32_t i = first, next = first; i < end; i = next) {
        while (++next < end && !pairs[next].planes && !pairs[i].planes) { }
        const size_t to = next < end ? pairs[next].a_at : pairs[first].a_at + pairs[first].a_step;
        const uint64_t len = pairs[i].n_experts ? pairs[i].n_experts * (uint64_t)pairs[i].a_step
            : to - pairs[i].a_at;
        m->runs[m->n++] = (lora_run){ i, next, at, len };
        at = qsf_round_up(at + len, align);
    }
    return at;
}

/* false: there are too many. */
static bool map_layer(const qsf_device_buffers *b, const qsf_adapter *a, uint32_t unit, lora_map *m)
{
    const uint32_t begin = a->first[unit], end = a->first[unit + 1];
    uint64_t at = 0;
    *m = (lora_map){ .a = a, .unit = unit };
    if (end - begin > LORA_RUNS) return false;
    for (uint32_t i = begin, next = begin; i < end; i = next) {
        next = group_end(a, i, end);
        at = map_group(m, i, next, at, b->align);
    }
    m->b_begin = at;
    for (uint32_t i = begin; i < end; i++) {
        m->b_at[i - begin] = at - m->b_begin;
        at += pair_experts(&a->pairs[i]) * (uint64_t)a->pairs[i].b_step;
    }
    m->b_end = at;
    for (uint32_t i = begin; i < end; i++) {
        if (!a->pairs[i].scales) continue;
        m->scales_at[i - begin] = at = qsf_round_up(at, b->align);
        at += a->pairs[i].n_experts * sizeof(float);
    }
    m->end = at;
    return true;
}

static const char *pair_refused(const qsf_lora_pair *p, const qsf_weights *w)
{
    if (p->rank > QSF_WGSL_RANK) return "its rank";
    if (p->planes && p->n_experts) return "its exact numbers of experts";
    return p->planes && w->m[p->kind].form >= 0 ? "its exact numbers for matrices of codes" : NULL;
}

const char *qsf_device_lora_refused(const qsf_device_buffers *b, const qsf_adapter *a, uint32_t first,
                                    uint32_t end)
{
    const char *why = NULL;
    qsf_weights w;
    lora_map m;
    for (uint32_t unit = first; unit < end && !why; unit++) {
        qsf_weights_describe(b->source, unit, &w);
        if (!map_layer(b, a, unit, &m)) return "the number of its matrices";
        if (m.b_end - m.b_begin > b->d->info->max_binding) return "the size of its matrices";
        for (uint32_t i = 0; i < m.n; i++)
            if (m.runs[i].a_len > b->d->info->max_binding) return "the size of its matrices";
        for (uint32_t i = a->first[unit]; i < a->first[unit + 1] && !why; i++)
            why = pair_refused(&a->pairs[i], &w);
    }
    return why;
}

/* ---- sizes ---- */

/* Numbers of h that a pair has in a row. */
static uint32_t pair_places(const qsf_lora_pair *p)
{
    return p->planes ? p->planes * p->rank : (uint32_t)qsf_lora_width(p);
}

/* Of layers [first, end): the sizes of h, and how many works they have, at most. */
static void lora_sizes(const qsf_device_buffers *b, qsf_device_lora *x, const qsf_adapter *a, uint32_t first,
                       uint32_t end)
{
    x->h_ld = x->most = 0;
    x->h_rows = b->rows;
    for (uint32_t unit = first; unit < end; unit++) {
        uint32_t places = 0;
        for (uint32_t i = a->first[unit]; i < a->first[unit + 1]; i++) {
            places += pair_places(&a->pairs[i]);
            x->most += 2;
            if (a->pairs[i].n_experts)
                x->h_rows = QSF_MAX(x->h_rows, b->rows * b->source->layers[unit].n_used);
        }
        x->h_ld = QSF_MAX(x->h_ld, places);
    }
}

static uint64_t lora_batch_bytes(const qsf_device_buffers *b, const qsf_device_lora *x)
{
    return (uint64_t)x->h_rows * x->h_ld * sizeof(float) + b->rows * sizeof(float)
        + (uint64_t)x->most * QSF_DEVICE_NUMBERS;
}

uint64_t qsf_device_lora_bytes(const qsf_device_buffers *b, const qsf_adapter *a, uint32_t first,
                               uint32_t end)
{
    qsf_device_lora x;
    lora_map m;
    lora_sizes(b, &x, a, first, end);
    uint64_t bytes = lora_batch_bytes(b, &x);
    for (uint32_t unit = first; unit < end; unit++)
        if (map_layer(b, a, unit, &m)) bytes += m.end;
    return bytes;
}

/* ---- life ---- */

qsf_device_lora *qsf_device_lora_find(const qsf_device_loras *l, uint64_t hash)
{
    for (uint32_t i = 0; i < l->n; i++) if (l->list[i]->hash == hash) return l->list[i];
    return NULL;
}

static qsf_status lora_room(const qsf_device_buffers *b, qsf_device_lora *x, qsf_error *err)
{
    const qsf_platform *p = b->platform;
    const uint32_t n_layers = b->source->hp.n_layers;
    if (!(x->works = qsf_alloc_array(p, x->most, sizeof *x->works, "an adapter", err))) return QSF_E_MEMORY;
    if (!(x->layers = qsf_alloc_array(p, n_layers, sizeof *x->layers, "an adapter", err)))
        return QSF_E_MEMORY;
    if (!(x->host_uses = qsf_alloc_array(p, b->rows, sizeof *x->host_uses, "an adapter", err)))
        return QSF_E_MEMORY;
    x->host_numbers = qsf_alloc_array(p, x->most, QSF_DEVICE_NUMBERS, "an adapter", err);
    return x->host_numbers ? QSF_OK : QSF_E_MEMORY;
}

static qsf_status lora_buffers(qsf_device_buffers *b, qsf_device_lora *x, qsf_error *err)
{
    const uint64_t h = (uint64_t)x->h_rows * x->h_ld * sizeof(float), uses = b->rows * sizeof(float),
        numbers = (uint64_t)x->most * QSF_DEVICE_NUMBERS;
    qsf_status st = qsf_device_buffer_new(b, h, &x->h, err);
    if (!st) st = qsf_device_buffer_new(b, qsf_round_up(uses, QSF_DEVICE_ALIGN), &x->uses, err);
    if (!st) st = b->d->write(b->d->user, x->uses, 0, x->host_uses, (size_t)uses, err);
    if (!st) st = b->d->buffer_new(b->d->user, QSF_DEVICE_UNIFORM, numbers, &x->numbers, err);
    x->bytes = h + qsf_round_up(uses, QSF_DEVICE_ALIGN);
    return st;
}

static void lora_free(qsf_device_buffers *b, qsf_device_lora *x)
{
    const qsf_device *d = b->d;
    const qsf_platform *p = b->platform;
    const uint32_t n_layers = b->source->hp.n_layers;
    for (uint32_t i = 0; i < x->n; i++) d->release(d->user, x->works[i].s.group);
    for (uint32_t i = 0; x->layers && i < n_layers; i++) d->release(d->user, x->layers[i].weights);
    d->release(d->user, x->h);
    d->release(d->user, x->uses);
    d->release(d->user, x->numbers);
    b->total -= QSF_MIN(b->total, x->bytes);
    qsf_dealloc(p, x->works, (uint64_t)x->most * sizeof *x->works);
    qsf_dealloc(p, x->layers, (uint64_t)n_layers * sizeof *x->layers);
    qsf_dealloc(p, x->host_uses, (uint64_t)b->rows * sizeof *x->host_uses);
    qsf_dealloc(p, x->host_numbers, (uint64_t)x->most * QSF_DEVICE_NUMBERS);
    qsf_dealloc(p, x, sizeof *x);
}

/* Room for one more in the list. */
static qsf_status loras_grow(const qsf_device_buffers *b, qsf_device_loras *l, qsf_error *err)
{
    const uint32_t cap = l->cap ? 2 * l->cap : 4;
    if (l->n < l->cap) return QSF_OK;
    qsf_device_lora **list = qsf_alloc_array(b->platform, cap, sizeof *list, "adapters", err);
    if (!list) return QSF_E_MEMORY;
    if (l->n) memcpy(list, l->list, l->n * sizeof *list);
    qsf_dealloc(b->platform, l->list, (uint64_t)l->cap * sizeof *list);
    l->list = list;
    l->cap = cap;
    return QSF_OK;
}

qsf_status qsf_device_lora_new(qsf_device_buffers *b, qsf_device_loras *l, const qsf_adapter *a,
                               uint32_t first, uint32_t end, qsf_error *err)
{
    qsf_status st = loras_grow(b, l, err);
    if (st) return st;
    qsf_device_lora *x = qsf_alloc(b->platform, sizeof *x, "an adapter", err);
    if (!x) return QSF_E_MEMORY;
    *x = (qsf_device_lora){ .hash = a->hash, .a = a };
    lora_sizes(b, x, a, first, end);
    if (x->most && !(st = lora_room(b, x, err))) st = lora_buffers(b, x, err);
    if (st) lora_free(b, x);
    else l->list[l->n++] = x;
    return st;
}

void qsf_device_lora_drop(qsf_device_buffers *b, qsf_device_loras *l, uint32_t i)
{
    lora_free(b, l->list[i]);
    l->list[i] = l->list[--l->n];
}

void qsf_device_loras_done(qsf_device_buffers *b, qsf_device_loras *l)
{
    while (l->n) qsf_device_lora_drop(b, l, l->n - 1);
    qsf_dealloc(b->platform, l->list, (uint64_t)l->cap * sizeof *l->list);
    *l = (qsf_device_loras){ 0 };
}

qsf_status qsf_device_lora_there(const qsf_device_buffers *b, const qsf_device_lora *x, qsf_error *err)
{
    qsf_status st = qsf_device_buffer_there(b, x->h, err);
    if (!st) st = qsf_device_buffer_there(b, x->uses, err);
    if (!st) st = qsf_device_buffer_there(b, x->numbers, err);
    for (uint32_t i = 0; x->layers && i < b->source->hp.n_layers && !st; i++)
        st = qsf_device_buffer_there(b, x->layers[i].weights, err);
    return st;
}

/* ---- a layer's matrices ---- */

static qsf_status upload_layer(const qsf_device_buffers *b, const lora_map *m, qsf_device_id to,
                               const uint8_t *mem, qsf_error *err)
{
    const qsf_lora_pair *pairs = m->a->pairs;
    const uint32_t begin = m->a->first[m->unit], end = m->a->first[m->unit + 1];
    qsf_status st = QSF_OK;
    for (uint32_t i = 0; i < m->n && !st; i++)
        st = qsf_device_upload(b, to, m->runs[i].a_at, mem + pairs[m->runs[i].first].a_at, m->runs[i].a_len,
                               err);
    for (uint32_t i = begin; i < end && !st; i++) {
        const qsf_lora_pair *p = &pairs[i];
        st = qsf_device_upload(b, to, m->b_begin + m->b_at[i - begin], mem + p->b_at,
                               pair_experts(p) * (uint64_t)p->b_step, err);
        if (!st && p->scales)
            st = qsf_device_upload(b, to, m->scales_at[i - begin], p->scales,
                                   p->n_experts * sizeof *p->scales, err);
    }
    return st;
}

static qsf_status lora_weights(qsf_device_buffers *b, qsf_device_lora *x, const lora_map *m,
                                const uint8_t *mem, qsf_error *err)
{
    qsf_device_id *to = &x->layers[m->unit].weights;
    const qsf_status st = qsf_device_buffer_new(b, qsf_round_up(m->end, QSF_DEVICE_ALIGN), to, err);
    if (st) return st;
    x->bytes += qsf_round_up(m->end, QSF_DEVICE_ALIGN);
    return upload_layer(b, m, *to, mem, err);
}

/* ---- a layer's dispatches ---- */

typedef struct lora_maker {
    qsf_device_buffers *b;
    qsf_device_lora    *x;
    const lora_map     *m;
    const qsf_layer    *layer;
    const qsf_device_site *site;
    uint32_t            places;         /* of h that the site's pairs have so far */
    qsf_status          st;
    qsf_error          *err;
} lora_maker;

/* A new work, and its numbers. */
static void *work_new(lora_maker *k, uint8_t work, const char *name, qsf_device_step **out)
{
    qsf_device_lora *x = k->x;
    assert(x->n < x->most);
    qsf_device_lora_work *w = &x->works[x->n];
    void *numbers = x->host_numbers + (size_t)x->n++ * QSF_DEVICE_NUMBERS;
    memset(numbers, 0, QSF_DEVICE_NUMBERS);
    *w = (qsf_device_lora_work){ k->site->after, { .work = work, .name = name } };
    *out = &w->s;
    return numbers;
}

/* Binds the numbers of the last work, as ranges[0], and the caller's. */
static void work_group(lora_maker *k, qsf_device_step *s, qsf_device_range *ranges, uint32_t n)
{
    const qsf_device *d = k->b->d;
    ranges[0] = (qsf_device_range){ k->x->numbers, (uint64_t)(k->x->n - 1) * QSF_DEVICE_NUMBERS,
                                    QSF_DEVICE_NUMBERS };
    if (!k->st) k->st = d->group_new(d->user, s->pipeline[0], ranges, n, &s->group, k->err);
}

static qsf_device_range all_of_h(const lora_maker *k)
{
    return (qsf_device_range){ k->x->h, 0, (uint64_t)k->x->h_rows * k->x->h_ld * sizeof(float) };
}

static qsf_device_range run_weights(const lora_maker *k, const lora_run *r)
{
    return (qsf_device_range){ k->x->layers[k->m->unit].weights, r->a_at, r->a_len };
}

/* h of all pairs of a run of codes. */
static void step_codes(lora_maker *k, const lora_run *r)
{
    const qsf_lora_pair *p = &k->m->a->pairs[r->first];
    qsf_device_step *s;
    qsf_wgsl_product_numbers *x = work_new(k, QSF_DEVICE_PRODUCT, "an adapter's first product", &s);
    for (uint32_t i = r->first; i < r->end; i++) x->rows += (uint32_t)qsf_lora_width(&k->m->a->pairs[i]);
    x->tiles = x->rows / QSF_TILE_ROWS;
    x->blocks = (uint32_t)qsf_ceil_div(p->cols, QSF_LORA_BLOCK);
    x->x_ld = qsf_device_codes_ld(p->cols);
    x->y_ld = k->x->h_ld;
    x->y_at = k->places;
    s->product = (qsf_wgsl_product){ .form = QSF_F_8, .block = QSF_LORA_BLOCK };
    s->wide = x->tiles;
    qsf_device_product_slices(&s->product, x->tiles, p->cols, false);
    k->places += x->rows;
    qsf_device_range ranges[] = { { 0 }, run_weights(k, r), qsf_device_all_of(k->b, QSF_DEVICE_CODES),
                                  all_of_h(k) };
    if (!k->st) k->st = qsf_device_product_pipeline(k->b, s, 0, k->err);
    work_group(k, s, ranges, 4);
}

static void step_exact(lora_maker *k, const lora_run *r)
{
    const qsf_lora_pair *p = &k->m->a->pairs[r->first];
    qsf_device_step *s;
    qsf_wgsl_floats_numbers *x = work_new(k, QSF_DEVICE_FLOAT_PRODUCT, "an adapter's first product", &s);
    *x = (qsf_wgsl_floats_numbers){ .rows = p->planes * p->rank, .cols = p->cols, .x_ld = k->b->floats_ld,
                                    .y_ld = k->x->h_ld, .y_at = k->places };
    s->floats = (qsf_wgsl_floats){ .storage = QSF_WGSL_F16 };
    s->wide = x->rows;
    k->places += x->rows;
    qsf_device_range ranges[] = { { 0 }, run_weights(k, r), qsf_device_all_of(k->b, QSF_DEVICE_FLOATS),
                                  all_of_h(k) };
    if (!k->st) k->st = qsf_device_product_pipeline(k->b, s, 0, k->err);
    work_group(k, s, ranges, 4);
}

static qsf_status slots_dispatch(qsf_device_buffers *b, qsf_device_step *s, uint32_t n,
                                 qsf_device_dispatch *out, qsf_error *err)
{
    (void)b;
    (void)err;
    *out = (qsf_device_dispatch){ s->pipeline[0], s->group, s->wide, 1, n * s->slots };
    return QSF_OK;
}

/* h of slots: each has the A of its expert. */
static void step_slots(lora_maker *k, const lora_run *r)
{
    static const qsf_device_own does = { NULL, slots_dispatch };
    const qsf_lora_pair *p = &k->m->a->pairs[r->first];
    const uint32_t used = k->layer->n_used;
    qsf_device_step *s;
    qsf_wgsl_text t;
    qsf_wgsl_experts_numbers *x = work_new(k, QSF_DEVICE_OWN, "an adapter's first product", &s);
    for (uint32_t i = r->first; i < r->end; i++) x->rows += (uint32_t)qsf_lora_width(&k->m->a->pairs[i]);
    x->blocks = (uint32_t)qsf_ceil_div(p->cols, QSF_LORA_BLOCK);
    x->end = p->n_experts;
    x->x_ld = qsf_device_codes_ld(p->cols);
    x->y_ld = k->x->h_ld;
    x->used = x->y_slots = used;
    x->slots = qsf_device_expert_slots(k->layer);
    x->x_used = k->site->hidden ? 1 : used;
    s->own = &does;
    s->slots = used;
    s->wide = x->rows / QSF_TILE_ROWS;
    s->experts = (qsf_wgsl_experts){ .form = QSF_F_8, .block = QSF_LORA_BLOCK,
                                     .slices = p->cols >= 1024 ? 16 : 8 };
    k->places += x->rows;
    qsf_device_range ranges[] = {
        { 0 }, run_weights(k, r),
        qsf_device_all_of(k->b, k->site->hidden ? QSF_DEVICE_SLOT_CODES : QSF_DEVICE_CODES), all_of_h(k),
        qsf_device_all_of(k->b, QSF_DEVICE_SLOTS), qsf_device_all_of(k->b, QSF_DEVICE_LIST),
    };
    qsf_pipeline_begin(&k->b->pipelines, &t);
    qsf_wgsl_experts_slots(&t, &s->experts);
    if (!k->st) k->st = qsf_pipeline_end(&k->b->pipelines, &t, s->name, &s->pipeline[0], k->err);
    work_group(k, s, ranges, 6);
}

/* What the last dispatch has of a pair, whose h begin at column h_at. */
static qsf_wgsl_pair up_pair_numbers(const lora_maker *k, uint32_t i, uint32_t kind, uint32_t h_at,
                                     uint32_t before)
{
    const qsf_lora_pair *p = &k->m->a->pairs[i];
    return (qsf_wgsl_pair){
        .rows = p->rows, .end = before + (p->rows + QSF_WGSL_THREADS - 1) / QSF_WGSL_THREADS,
        .b_at = (uint32_t)(k->m->b_at[i - k->m->a->first[k->m->unit]] / 4), .h_at = h_at,
        .y_at = k->site->at[kind], .rank = p->rank, .planes = p->planes, .scale = p->scales ? 1 : p->scale,
    };
}

/* A pair of the site: its number, the column of its h, the site's matrix. */
typedef struct site_pair { uint32_t i, h_at, kind; } site_pair;

static void step_second(lora_maker *k, const site_pair *pairs, uint32_t n)
{
    const lora_map *m = k->m;
    const qsf_lora_pair *first = &m->a->pairs[pairs[0].i];
    const qsf_wgsl_adapter of = { .exact = first->planes != 0, .slots = k->site->experts };
    const qsf_device_id weights = k->x->layers[m->unit].weights;
    qsf_device_step *s;
    qsf_wgsl_text t;
    qsf_wgsl_adapter_numbers *x = work_new(k, QSF_DEVICE_OWN, "an adapter's second product", &s);
    *x = (qsf_wgsl_adapter_numbers){ .h_ld = k->x->h_ld, .y_ld = k->site->ld, .times = k->site->times };
    for (uint32_t i = 0; i < n; i++) {
        x->pairs[i] = up_pair_numbers(k, pairs[i].i, pairs[i].kind, pairs[i].h_at, s->wide);
        s->wide = x->pairs[i].end;
    }
    qsf_device_range ranges[7] = {
        { 0 }, { weights, m->b_begin, m->b_end - m->b_begin }, all_of_h(k),
        { k->x->uses, 0, qsf_round_up(k->b->rows * sizeof(float), QSF_DEVICE_ALIGN) },
        qsf_device_all_of(k->b, k->site->to), qsf_device_all_of(k->b, QSF_DEVICE_SLOTS),
    };
    if (of.slots) {
        const uint64_t at = m->scales_at[pairs[0].i - m->a->first[m->unit]];
        s->slots = x->used = k->layer->n_used;
        x->slots = qsf_device_expert_slots(k->layer);
        x->y_slots = k->site->hidden ? x->slots : x->used;
        x->b_step = (uint32_t)(first->b_step / 4);
        ranges[6] = (qsf_device_range){ weights, at, first->n_experts * sizeof(float) };
    }
    qsf_pipeline_begin(&k->b->pipelines, &t);
    qsf_wgsl_adapter_text(&t, &of);
    if (!k->st) k->st = qsf_pipeline_end(&k->b->pipelines, &t, s->name, &s->pipeline[0], k->err);
    work_group(k, s, ranges, of.slots ? 7 : 5);
}

/* The first product of the run that has pair i, unless the site has it already; the column of the
 * pair's h. */
static uint32_t step_first(lora_maker *k, uint32_t i, uint32_t begins[LORA_RUNS])
{
    uint32_t r = 0;
    while (i >= k->m->runs[r].end) r++;
    const lora_run *run = &k->m->runs[r];
    const qsf_lora_pair *pairs = k->m->a->pairs;
    if (begins[r] == UINT32_MAX) {
        begins[r] = k->places;
        if (pairs[i].planes) step_exact(k, run);
        else if (pairs[i].n_experts) step_slots(k, run);
        else step_codes(k, run);
    }
    uint32_t at = begins[r];
    for (uint32_t p = run->first; p < i; p++) at += pair_places(&pairs[p]);
    return at;
}

/* Returns how many of the site's matrices the adapter changes. */
static uint32_t make_site(lora_maker *k)
{
    const qsf_adapter *a = k->m->a;
    uint32_t n = 0, begins[LORA_RUNS];
    site_pair of[QSF_WGSL_PAIRS];
    memset(begins, 0xff, sizeof begins);
    k->places = 0;
    for (uint32_t kind = 0; kind < k->site->n && !k->st; kind++) {
        const qsf_lora_pair *p = qsf_adapter_find(a, k->m->unit, k->site->kinds[kind]);
        if (!p) continue;
        const uint32_t i = (uint32_t)(p - a->pairs);
        of[n++] = (site_pair){ i, step_first(k, i, begins), kind };
    }
    if (n && !k->st) step_second(k, of, n);
    return n;
}

qsf_status qsf_device_lora_make(qsf_device_buffers *b, qsf_device_lora *x, const qsf_device_layer *l,
                                const uint8_t *mem, qsf_error *err)
{
    const qsf_adapter *a = x->a;
    const uint32_t unit = l->number, n_pairs = a->first[unit + 1] - a->first[unit];
    qsf_device_lora_layer *of = &x->layers[unit];
    lora_map m;
    if (!x->most || of->made) return QSF_OK;
    of->first = x->n;
    if (n_pairs && !map_layer(b, a, unit, &m)) return QSF_E_UNSUPPORTED;        /* it was refused */
    lora_maker k = { .b = b, .x = x, .m = &m, .layer = &b->source->layers[unit], .err = err };
    if (n_pairs) k.st = lora_weights(b, x, &m, mem, err);
    uint32_t done = 0;
    for (uint32_t i = 0; n_pairs && i < l->n_sites && !k.st; i++) {
        k.site = &l->sites[i];
        done += make_site(&k);
    }
    of->n = x->n - of->first;
    if (!k.st && done < n_pairs)
        k.st = qsf_fail(err, QSF_E_UNSUPPORTED, "adapter %s changes more of layer %u than its products",
                        a->name, (unsigned)unit);
    of->made = !k.st;
    x->changed = true;
    return k.st;
}

/* ---- a batch ---- */

qsf_status qsf_device_loras_numbers(const qsf_device_buffers *b, const qsf_device_loras *l, uint32_t n,
                                    qsf_error *err)
{
    qsf_status st = QSF_OK;
    for (uint32_t i = 0; i < l->n && !st; i++) {
        qsf_device_lora *x = l->list[i];
        if (!x->used || !x->n || (!x->changed && x->rows == n)) continue;
        for (uint32_t k = 0; k < x->n; k++) {
            void *numbers = x->host_numbers + (size_t)k * QSF_DEVICE_NUMBERS;
            if (x->works[k].s.work == QSF_DEVICE_PRODUCT) ((qsf_wgsl_product_numbers *)numbers)->n = n;
            if (x->works[k].s.work == QSF_DEVICE_FLOAT_PRODUCT) ((qsf_wgsl_floats_numbers *)numbers)->n = n;
        }
        st = b->d->write(b->d->user, x->numbers, 0, x->host_numbers, (size_t)x->n * QSF_DEVICE_NUMBERS, err);
        x->rows = n;
        x->changed = st != QSF_OK;
    }
    return st;
}

qsf_status qsf_device_loras_list(qsf_device_buffers *b, const qsf_device_batch *batch,
                                 const qsf_device_layer *l, uint32_t step, qsf_device_dispatch *list,
                                 size_t *len, qsf_error *err)
{
    for (uint32_t i = 0; i < batch->loras->n; i++) {
        qsf_device_lora *x = batch->loras->list[i];
        if (!x->used || !x->most) continue;
        const qsf_device_lora_layer *of = &x->layers[l->number];
        for (uint32_t k = of->first; k < of->first + of->n; k++) {
            if (x->works[k].after != step) continue;
            qsf_status st = qsf_device_step_dispatch(b, &x->works[k].s, batch, qsf_device_variant(batch->n),
                                                     &list[*len], err);
            if (!st) st = qsf_pipeline_wait(&b->pipelines, list[*len].pipeline, err);
            if (st) return st;
            ++*len;
        }
    }
    return QSF_OK;
}
