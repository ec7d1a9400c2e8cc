/* Finds where a run of ranks ends, and keeps the run, without sorting.
 * SPDX-License-Identifier: MIT
 *
 * The weight above each of eight key levels tells between which two of them the run ends; the next
 * eight levels divide that range.  After two or three passes over the vocabulary the remaining keys
 * are few enough to copy, and finally a few dozen of them are sorted. */
#include "turn/sampler_own.h"

enum { CUT_PART = 1024, CUT_SORTED = 64 };

/* A search under way: the end of the run is among the keys in (low, high]. */
typedef struct cut_search {
    const qsf_kernels *k;
    const float *key, *w;       /* [n]; w NULL: 1 each */
    uint32_t n;
    double   target, above;     /* the weight to reach, and that of keys > high */
    double   between;           /* the weight of keys in (low, high]; 0: unknown */
    double   base;              /* the weight of larger keys that are no longer in key[] */
    float    low, high;
    bool     ranks;             /* the keys are the weights */
    float   *few;               /* [2][SAMPLER_FEW] */
} cut_search;

static float key_at(uint32_t bits) { return qsf_f32_from_bits(bits); }
static uint32_t key_bits(const cut_search *c) { return qsf_f32_bits(c->high) - qsf_f32_bits(c->low); }

/* Moves low and high to the two levels between which the target weight is reached. */
static void search_levels(cut_search *c, const float *levels)
{
    double mass[QSF_SAMPLE_LEVELS];
    for (int l = 0; l < QSF_SAMPLE_LEVELS; l++) mass[l] = c->base;
    for (uint32_t i = 0; i < c->n; i += CUT_PART) {
        float part[QSF_SAMPLE_LEVELS];
        c->k->weight_levels(part, c->key + i, c->w ? c->w + i : NULL, QSF_MIN(CUT_PART, c->n - i), levels);
        for (int l = 0; l < QSF_SAMPLE_LEVELS; l++) mass[l] += (double)part[l];
    }
    for (int l = 0; l < QSF_SAMPLE_LEVELS; l++) {
        if (mass[l] >= c->target) {
            c->low = levels[l];
            c->between = mass[l] - c->above;
            return;
        }
        c->high = levels[l];
        c->above = mass[l];
    }
    c->between = 0;
}

/* Whether, judging by their weight, too many keys remain to copy. */
static bool search_many(const cut_search *c)
{
    const double most = !c->w ? 1 : c->ranks ? (double)c->high : INFINITY;
    return c->between > most * SAMPLER_FEW;
}

/* Copies the remaining keys if they fit; the search then continues on the copy. */
static void search_copy(cut_search *c)
{
    uint32_t at[CUT_PART], found = 0;
    float *key = c->few, *w = c->few + SAMPLER_FEW;
    for (uint32_t i = 0; i < c->n; i += CUT_PART) {
        const uint32_t part = QSF_MIN(CUT_PART, c->n - i);
        const size_t here = c->k->weights_within(at, c->key + i, part, c->low, c->high);
        if (here > SAMPLER_FEW - found) return;
        for (size_t j = 0; j < here; j++, found++) {
            if (c->w) w[found] = c->w[i + at[j]];
            key[found] = c->key[i + at[j]];
        }
    }
    c->key = key;
    c->w = c->w ? w : NULL;
    c->n = found;
    c->base = c->above;
}

/* The cut among keys that all equal high. */
static sampler_cut search_equal(const cut_search *c)
{
    sampler_cut cut = { c->high, 0 };
    double mass = c->above;
    for (uint32_t i = 0; i < c->n && (mass < c->target || !cut.equal); i++) {
        if (c->key[i] != c->high) continue;
        mass += c->w ? (double)c->w[i] : 1;
        cut.equal++;
    }
    return cut;
}

/* The cut among a few keys, by sorting them. */
static sampler_cut search_sorted(cut_search *c)
{
    float *key = c->few, *w = c->few + SAMPLER_FEW;
    for (uint32_t i = 1; i < c->n; i++) {
        const float a = key[i], b = c->w ? w[i] : 1;
        uint32_t to = i;
        for (; to && key[to - 1] < a; to--) {
            key[to] = key[to - 1];
            w[to] = w[to - 1];
        }
        key[to] = a;
        w[to] = b;
    }
    double mass = c->above;
    uint32_t end = 0, equal = 0;
    for (; end < c->n && (mass < c->target || !end); end++) {
        mass += c->w ? (double)w[end] : 1;
        equal = end && key[end] == key[end - 1] ? equal + 1 : 1;
    }
    return end ? (sampler_cut){ key[end - 1], equal } : (sampler_cut){ c->high, UINT32_MAX };
}

/* The next levels, at equal steps of the float's bits, which is about logarithmic.  While low is 0,
 * a level is at least a third of the one before it. */
static void search_divide(const cut_search *c, float *levels)
{
    enum { PARTS = QSF_SAMPLE_LEVELS + 1 };
    const uint32_t high = qsf_f32_bits(c->high), bits = key_bits(c);
    float third = c->high;
    for (uint32_t l = 0; l < QSF_SAMPLE_LEVELS; l++) {
        third /= 3;
        levels[l] = key_at(high - (uint32_t)((uint64_t)bits * (l + 1) / PARTS));
        if (c->low == 0 && third > levels[l]) levels[l] = third;
    }
}

sampler_cut qsf_pick_find(const sampler_pick *k, const float *key, const float *w, double target)
{
    /* tokens above a thousandth of the best usually have most of the weight */
    float levels[QSF_SAMPLE_LEVELS] = { 0.5f, 0.2f, 0.08f, 0.03f, 0.01f, 3e-3f, 1e-3f, 2e-4f };
    cut_search c = { .k = &k->s->k, .key = key, .w = w, .n = k->n, .target = QSF_MAX(target, DBL_MIN),
                     .high = 1, .ranks = w == key, .few = k->s->few };
    for (;;) {
        if (key_bits(&c) > 1) search_levels(&c, levels);
        if (key_bits(&c) <= 1) return search_equal(&c);
        if (!search_many(&c)) search_copy(&c);
        if (c.key == c.few && c.n <= CUT_SORTED) return search_sorted(&c);
        search_divide(&c, levels);
    }
}

/* Removes candidates by setting their weights to 0. */
static void keep_in_place(sampler_pick *k, const float *key, sampler_cut cut)
{
    uint32_t at[CUT_PART];
    for (uint32_t i = 0; i < k->n && cut.equal < UINT32_MAX; i += CUT_PART) {
        const size_t here = k->s->k.weights_within(at, key + i, QSF_MIN(CUT_PART, k->n - i),
                                                   key_at(qsf_f32_bits(cut.key) - 1), cut.key);
        for (size_t j = 0; j < here; j++) {
            if (!cut.equal) k->w[i + at[j]] = 0;
            else cut.equal--;
        }
    }
    float *w = k->w;                                /* may be the same array as key */
    if (key == w) for (uint32_t i = 0; i < k->n; i++) w[i] = w[i] >= cut.key ? w[i] : 0;
    else for (uint32_t i = 0; i < k->n; i++) w[i] = key[i] >= cut.key ? w[i] : 0;
}

/* Moves the kept candidates to the front. */
static void keep_in_front(sampler_pick *k, const float *key, sampler_cut cut)
{
    const float over = key_at(qsf_f32_bits(cut.key) - 1);
    uint32_t at[CUT_PART], left = 0;
    int32_t *id = k->s->ids;
    for (uint32_t i = 0; i < k->n; i += CUT_PART) {
        const size_t here = k->s->k.weights_within(at, key + i, QSF_MIN(CUT_PART, k->n - i), over, INFINITY);
        for (size_t j = 0; j < here; j++) {
            const uint32_t from = i + at[j];
            if (key[from] == cut.key && !cut.equal) continue;
            cut.equal -= key[from] == cut.key;
            k->w[left] = k->w[from];
            id[left++] = k->id ? k->id[from] : (int32_t)from;
        }
    }
    k->id = id;
    k->n = left;
}

/* Whether the cut keeps less than an eighth of the candidates, judging by every eighth batch. */
static bool keep_few(const sampler_pick *k, const float *key, sampler_cut cut)
{
    uint32_t at[CUT_PART], seen = 0;
    size_t found = 0;
    for (uint32_t i = 0; i < k->n; i += 8 * CUT_PART) {
        const uint32_t part = QSF_MIN(CUT_PART, k->n - i);
        found += k->s->k.weights_within(at, key + i, part, key_at(qsf_f32_bits(cut.key) - 1), INFINITY);
        seen += part;
    }
    return found < seen / 8;
}

void qsf_pick_keep(sampler_pick *k, const float *key, sampler_cut cut)
{
    if (keep_few(k, key, cut)) keep_in_front(k, key, cut);
    else keep_in_place(k, key, cut);
    qsf_pick_add(k);
}

void qsf_pick_add(sampler_pick *k)
{
    const uint32_t blocks = (uint32_t)qsf_ceil_div(k->n, QSF_SAMPLE_BLOCK);
    k->s->k.weight_sums(k->s->sums, k->w, k->n);
    k->sum = 0;
    for (uint32_t i = 0; i < blocks; i++) k->sum += (double)k->s->sums[i];
}

/* ---- the largest logits ---- */

/* The largest logits so far, by id, with some that have since been displaced; least: the count-th
 * largest logit at the last count. */
typedef struct best_logits { float *x; int32_t *id; uint32_t n, count; float least; } best_logits;

/* The count-th largest of x[n], by quickselect (Hoare 1961) on a copy. */
static float nth_largest(float *x, uint32_t n, uint32_t count)
{
    uint32_t from = 0, to = n;
    while (to - from > 1) {
        const float a = x[from], b = x[from + (to - from) / 2], c = x[to - 1];
        const float pivot = QSF_MAX(QSF_MIN(a, b), QSF_MIN(QSF_MAX(a, b), c));
        uint32_t above = from, i = from, below = to;            /* larger, equal, smaller */
        while (i < below) {
            const float v = x[i];
            if (v > pivot) x[i++] = x[above], x[above++] = v;
            else if (v < pivot) x[i] = x[--below], x[below] = v;
            else i++;
        }
        if (count <= above - from) to = above;
        else if (count <= below - from) return pivot;
        else count -= below - from, from = below;
    }
    return x[from];
}

static void best_prune(best_logits *b, float *room)
{
    if (b->n <= b->count) return;
    memcpy(room, b->x, b->n * sizeof *room);
    b->least = nth_largest(room, b->n, b->count);
    uint32_t equal = b->count, left = 0;
    for (uint32_t i = 0; i < b->n; i++) equal -= b->x[i] > b->least;
    for (uint32_t i = 0; i < b->n; i++) {
        if (b->x[i] < b->least || (b->x[i] == b->least && !equal)) continue;
        equal -= b->x[i] == b->least;
        b->x[left] = b->x[i];
        b->id[left++] = b->id[i];
    }
    b->n = left;
}

void qsf_pick_keep_logits(sampler_pick *k, uint32_t count)
{
    enum { STEP = QSF_SAMPLE_BLOCK, ROOM = 2 * SAMPLER_TOP_K + STEP };
    const qsf_sampler *s = k->s;
    uint32_t at[STEP];
    int32_t id[ROOM];
    best_logits b = { .x = s->few, .id = id, .count = count, .least = -INFINITY };
    for (uint32_t i = 0; i < s->n_vocab; i += STEP) {
        const uint32_t part = QSF_MIN(STEP, s->n_vocab - i);
        const size_t here = s->k.weights_within(at, k->x + i, part, b.least, INFINITY);
        if (b.n + here > 2 * count + STEP) best_prune(&b, s->few + SAMPLER_FEW);
        for (size_t j = 0; j < here; j++, b.n++) {
            b.x[b.n] = k->x[i + at[j]];
            b.id[b.n] = (int32_t)(i + at[j]);
        }
    }
    best_prune(&b, s->few + SAMPLER_FEW);
    memcpy(s->ids, b.id, b.n * sizeof *b.id);
    k->id = s->ids;
    k->n = b.n;
}
