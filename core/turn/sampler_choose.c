/* From logits to candidates, narrowed down stage by stage.
 * SPDX-License-Identifier: MIT
 *
 * Candidates are ranked by probability, then by lower id, and each stage keeps a run of ranks: all
 * down to some rank or, for typical-p and XTC, a run without some of the best.  No stage sorts:
 * sampler_cut.c searches for the weight at the end of the run, and one pass keeps all above it. */
#include "turn/sampler_own.h"

#define SAMPLER_LN2 0.69314718055994531

/* Candidates per batch: a multiple of QSF_SAMPLE_BLOCK, few enough to sum in floats. */
enum { CHOOSE_PART = 1024 };

uint32_t qsf_sampler_argmax(const float *x, uint32_t n)
{
    enum { BLOCK = 16 };
    uint32_t best = 0, i = 0;
    while (best + 1 < n && x[best] != x[best]) best++;
    for (; i < n; i += BLOCK) {                     /* whole blocks, which compilers vectorise */
        int over = n - i < BLOCK;
        for (uint32_t j = 0; !over && j < BLOCK; j++) over |= x[i + j] > x[best];
        if (!over) continue;
        for (uint32_t j = i; j < QSF_MIN(n, i + BLOCK); j++) if (x[j] > x[best]) best = j;
    }
    return best;
}

/* ---- temperature, min-p ---- */

/* The logits of candidates [from, from + n), -INFINITY for those already removed. */
static const float *candidate_logits(const sampler_pick *k, uint32_t from, uint32_t n, float *room)
{
    const float *w = k->w + from;
    if (k->id) for (uint32_t i = 0; i < n; i++) room[i] = k->x[k->id[from + i]];
    else memcpy(room, k->x + from, n * sizeof *room);
    for (uint32_t i = 0; i < n; i++) room[i] = w[i] > 0 ? room[i] : -INFINITY;
    return room;
}

/* The lowest logit that top-n-sigma keeps of the candidates (before they are weighed: of all
 * tokens), the largest of which is top. */
static float sigma_least(const sampler_pick *k, float top)
{
    const qsf_sampler *s = k->s;
    const uint32_t all = k->w ? k->n : s->n_vocab;
    float room[CHOOSE_PART];
    double n = 0, sum = 0, squares = 0;
    for (uint32_t i = 0; i < all; i += CHOOSE_PART) {
        const uint32_t here = QSF_MIN(CHOOSE_PART, all - i);
        float part[3];
        s->k.logit_moments(part, k->w ? candidate_logits(k, i, here, room) : k->x + i, here, top);
        n += (double)part[0];
        sum += (double)part[1];
        squares += (double)part[2];
    }
    const double mean = sum / n, variance = QSF_MAX(squares / n - mean * mean, 0);
    const float least = top - s->o.top_n_sigma * (float)sqrt(variance);
    return least <= top ? least : -INFINITY;        /* if a logit is infinite */
}

void qsf_pick_sigma(sampler_pick *k) { k->least = sigma_least(k, k->x[k->best]); }

/* Computes the weights of all tokens or, again, of the remaining candidates. */
static void candidates_weigh(sampler_pick *k, bool again)
{
    const qsf_sampler *s = k->s;
    float room[CHOOSE_PART];
    for (uint32_t i = 0; i < k->n; i += CHOOSE_PART) {
        const uint32_t n = QSF_MIN(CHOOSE_PART, k->n - i);
        for (uint32_t j = 0; !again && k->id && j < n; j++) room[j] = k->x[k->id[i + j]];
        const float *x = again ? candidate_logits(k, i, n, room) : k->id ? room : k->x + i;
        s->k.exp_weights(k->w ? k->w + i : NULL, s->sums + i / QSF_SAMPLE_BLOCK, x, n, &k->e);
    }
    k->sum = 0;
    for (uint32_t i = 0; i < qsf_ceil_div(k->n, QSF_SAMPLE_BLOCK); i++) k->sum += (double)s->sums[i];
}

/* 1 / t, at most FLT_MAX so that 0 times it is 0. */
static float steepness(float t) { return QSF_MIN(1 / t, FLT_MAX); }

/* With a small top-k, only tokens that can be among the k best are weighed; min-p commutes with it
 * because it removes only tokens below all others. */
void qsf_pick_weigh(sampler_pick *k)
{
    const qsf_sampler_options *o = &k->s->o;
    const bool plain = o->mirostat == 0, dynamic = plain && o->dynatemp_range > 0;
    k->n = k->s->n_vocab;
    k->w = k->s->ids ? k->s->weights : NULL;
    k->e = (qsf_exp_weights){ .top = k->x[k->best], .scale = dynamic ? 1 : steepness(o->temperature),
                              .least = k->least, .share = plain ? o->min_p : 0 };
    if (plain && o->top_k && o->top_k <= SAMPLER_TOP_K) qsf_pick_keep_logits(k, o->top_k);
    candidates_weigh(k, false);
}

void qsf_pick_top_k(sampler_pick *k)
{
    if (k->n > k->s->o.top_k) qsf_pick_keep(k, k->w, qsf_pick_find(k, k->w, NULL, k->s->o.top_k));
}

/* ---- typical-p ---- */

/* The entropy of the candidates, in nats. */
static double pick_entropy(const sampler_pick *k)
{
    const qsf_sampler *s = k->s;
    float room[CHOOSE_PART];
    double logs = 0;
    for (uint32_t i = 0; i < k->n; i += CHOOSE_PART) {
        const uint32_t n = QSF_MIN(CHOOSE_PART, k->n - i);
        const float *x = candidate_logits(k, i, n, room);
        logs += (double)s->k.weighted_logs(k->w + i, x, n, k->e.top, k->e.scale);
    }
    return log(k->sum) - logs / k->sum;
}

/* A key is e^-d, where d is the distance of a candidate's information content from the entropy: p
 * e^H or its reciprocal, whichever is at most 1. */
void qsf_pick_typical(sampler_pick *k)
{
    if (!(k->sum > 0)) return;
    float *key = k->s->keys;
    const float f = (float)(exp(pick_entropy(k)) / k->sum);
    for (uint32_t i = 0; i < k->n; i++) {
        const float ratio = k->w[i] * f;
        key[i] = ratio > 1 ? 1 / ratio : ratio;
    }
    const double target = (double)k->s->o.typical_p * k->sum;
    qsf_pick_keep(k, key, qsf_pick_find(k, key, k->w, target * (1 + 0x1p-50)));     /* more than target */
}

/* ---- top-p, XTC ---- */

/* A share of what is left so far. */
void qsf_pick_top_p(sampler_pick *k)
{
    if (k->sum > 0) qsf_pick_keep(k, k->w, qsf_pick_find(k, k->w, k->w, (double)k->s->o.top_p * k->sum));
}

/* The largest float below x > 0. */
static float float_below(float x) { return qsf_f32_from_bits(qsf_f32_bits(x) - 1); }

/* Counts the candidates with weights of at least `least`; with `leave`, removes all of them except
 * *stays. */
static uint32_t xtc_pass(sampler_pick *k, float least, bool leave, uint32_t *stays)
{
    uint32_t at[CHOOSE_PART], found = 0;
    float lowest = INFINITY;
    for (uint32_t i = 0; i < k->n; i += CHOOSE_PART) {
        const uint32_t n = QSF_MIN(CHOOSE_PART, k->n - i);
        const size_t here = k->s->k.weights_within(at, k->w + i, n, float_below(least), INFINITY);
        found += (uint32_t)here;
        for (size_t j = 0; j < here; j++) {
            float *w = &k->w[i + at[j]];
            if (leave && i + at[j] != *stays) *w = 0;
            if (leave || *w > lowest) continue;
            lowest = *w;                            /* among equals, the last one ranks lowest */
            *stays = i + at[j];
        }
    }
    return found;
}

void qsf_pick_xtc(sampler_pick *k)
{
    const qsf_sampler_options *o = &k->s->o;
    const float least = QSF_MAX((float)((double)o->xtc_threshold * k->sum), FLT_MIN);
    uint32_t stays = 0;
    if (k->n < 2 || !(qsf_sampler_random(k->s) < (double)o->xtc_probability)) return;
    if (xtc_pass(k, least, false, &stays) < 2) return;
    (void)xtc_pass(k, least, true, &stays);
    qsf_pick_add(k);
}

/* ---- dynamic temperature ---- */

/* The number of remaining candidates, and the largest logit among them. */
static uint32_t candidates_left(const sampler_pick *k, float *top)
{
    float room[CHOOSE_PART];
    uint32_t left = 0;
    *top = -INFINITY;
    for (uint32_t i = 0; i < k->n; i += CHOOSE_PART) {
        const uint32_t n = QSF_MIN(CHOOSE_PART, k->n - i);
        const float *x = candidate_logits(k, i, n, room);
        for (uint32_t j = 0; j < n; j++) left += x[j] > -INFINITY;
        *top = QSF_MAX(*top, x[k->s->k.largest_logit(x, n)]);
    }
    return left;
}

/* The temperature for the remaining candidates, the largest logit of which is *top; false: only one
 * is left. */
static bool dynamic_temperature(const sampler_pick *k, float *top, float *t)
{
    const qsf_sampler_options *o = &k->s->o;
    const uint32_t left = candidates_left(k, top);
    if (left < 2) return false;
    const double low = QSF_MAX(o->temperature - o->dynatemp_range, 0);
    const double high = o->temperature + o->dynatemp_range;
    const double share = pick_entropy(k) / log(left);
    const double power = share > 0 ? exp((double)o->dynatemp_exponent * log(share)) : 0;
    *t = (float)(low + (high - low) * power);
    return true;
}

void qsf_pick_dynamic(sampler_pick *k)
{
    float top, t;
    if (!dynamic_temperature(k, &top, &t)) return;
    k->e = (qsf_exp_weights){ .top = top, .scale = t > 0 ? steepness(t) : FLT_MAX, .least = -INFINITY };
    candidates_weigh(k, true);
}

/* ---- in the caller's order ---- */

void qsf_pick_reweigh(sampler_pick *k)
{
    const bool again = k->w != NULL;
    if (again && !k->stale) return;
    float top = 0;
    if (again) {
        (void)candidates_left(k, &top);
    } else {
        k->best = (uint32_t)k->s->k.largest_logit(k->x, k->s->n_vocab);
        top = k->x[k->best];
        k->n = k->s->n_vocab;
        k->w = k->s->weights;
    }
    k->e = (qsf_exp_weights){ .top = top, .scale = 1, .least = -INFINITY };
    candidates_weigh(k, again);
    k->stale = false;
}

void qsf_pick_sigma_of_rest(sampler_pick *k)
{
    float top, room[CHOOSE_PART];
    qsf_pick_reweigh(k);
    (void)candidates_left(k, &top);
    const float least = sigma_least(k, top);
    for (uint32_t i = 0; i < k->n; i += CHOOSE_PART) {
        const uint32_t n = QSF_MIN(CHOOSE_PART, k->n - i);
        const float *x = candidate_logits(k, i, n, room);
        for (uint32_t j = 0; j < n; j++) if (x[j] < least) k->w[i + j] = 0;
    }
    qsf_pick_add(k);
}

void qsf_pick_min_p(sampler_pick *k)
{
    qsf_pick_reweigh(k);
    const float best = k->w[k->s->k.largest_logit(k->w, k->n)], least = QSF_MIN(k->s->o.min_p, 1) * best;
    qsf_pick_keep(k, k->w, (sampler_cut){ QSF_MAX(least, FLT_MIN), UINT32_MAX });
}

void qsf_pick_top_k_of_rest(sampler_pick *k)
{
    const bool first = !k->w && k->s->o.top_k <= SAMPLER_TOP_K;     /* only these are weighed */
    if (!first) {
        qsf_pick_reweigh(k);
        qsf_pick_top_k(k);
        return;
    }
    qsf_pick_keep_logits(k, k->s->o.top_k);
    k->w = k->s->weights;
    k->best = (uint32_t)k->s->k.largest_logit(k->x, k->s->n_vocab);
    k->e = (qsf_exp_weights){ .top = k->x[k->best], .scale = 1, .least = -INFINITY };
    candidates_weigh(k, false);
    k->stale = false;
}

void qsf_pick_temperature(sampler_pick *k)
{
    enum { STEEP = 1 << 30 };               /* logits stay finite, and differences still decide */
    float t = k->s->o.temperature, top;
    if (k->s->o.dynatemp_range > 0) {
        qsf_pick_reweigh(k);
        if (!dynamic_temperature(k, &top, &t)) return;
    }
    const float scale = QSF_MIN(1 / t, (float)STEEP * (float)STEEP);
    float *x = qsf_pick_logits(k);
    if (k->id) for (uint32_t i = 0; i < k->n; i++) x[k->id[i]] *= scale;
    else for (uint32_t i = 0; i < k->s->n_vocab; i++) x[i] *= scale;
    k->stale = true;
}

/* ---- Mirostat ---- */

/* How many of the best tokens have the wanted surprise on average, by Zipf's law with the exponent
 * that the best hundred have. */
static double mirostat_count(const sampler_pick *k)
{
    enum { FIRST = 100 };
    float best[FIRST];
    uint32_t at[CHOOSE_PART], n = 0;
    const sampler_cut cut = qsf_pick_find(k, k->w, NULL, FIRST);
    for (uint32_t i = 0, equal = cut.equal; i < k->n; i += CHOOSE_PART) {
        const size_t here = k->s->k.weights_within(at, k->w + i, QSF_MIN(CHOOSE_PART, k->n - i),
                                                   float_below(cut.key), INFINITY);
        for (size_t j = 0; j < here; j++) {
            const float w = k->w[i + at[j]];
            if (w == cut.key && !equal) continue;
            equal -= w == cut.key;
            uint32_t to = n++;
            for (; to && best[to - 1] < w; to--) best[to] = best[to - 1];
            best[to] = w;
        }
    }
    double both = 0, squares = 0;
    for (uint32_t i = 0; i + 1 < n; i++) {
        const double t = log((double)(i + 2) / (double)(i + 1));
        both += t * log((double)best[i] / (double)best[i + 1]);
        squares += t * t;
    }
    const double zipf = both / squares, more = zipf - 1, rest = 1 - exp(-more * log(k->s->n_vocab));
    return exp(log(more * exp((double)k->s->mirostat_mu * SAMPLER_LN2) / rest) / zipf);
}

void qsf_pick_mirostat(sampler_pick *k)
{
    if (!(k->sum > 0)) return;
    if (k->s->o.mirostat == 1) {
        const double count = mirostat_count(k);
        const uint32_t to = count >= 1 ? count < k->n ? (uint32_t)count : k->n : 1;
        if (to < k->n) qsf_pick_keep(k, k->w, qsf_pick_find(k, k->w, NULL, to));
        return;
    }
    const double least = k->sum * exp(-(double)k->s->mirostat_mu * SAMPLER_LN2);
    qsf_pick_keep(k, k->w, least > 1 ? (sampler_cut){ 1, 1 }
                                     : (sampler_cut){ QSF_MAX((float)least, FLT_MIN), UINT32_MAX });
}

#undef SAMPLER_LN2
