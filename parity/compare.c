/* The arithmetic of a comparison, in doubles.
 * SPDX-License-Identifier: MIT */
#include "compare.h"

#include <math.h>

/* Standard deviations that a margin may be off. */
static const double TIE = 3;

static void compare_top(const float *y, size_t n, parity_top top[PARITY_TOP])
{
    size_t have = 0;
    for (size_t i = 0; i < n; i++) {
        if (have == PARITY_TOP && !(y[i] > top[PARITY_TOP - 1].logit)) continue;
        size_t at = have < PARITY_TOP ? have++ : PARITY_TOP - 1;
        for (; at && y[i] > top[at - 1].logit; at--) top[at] = top[at - 1];
        top[at] = (parity_top){ (int32_t)i, y[i] };
    }
    for (; have < PARITY_TOP; have++) top[have] = (parity_top){ -1, 0 };        /* a tiny vocabulary */
}

static double compare_log_sum(const float *y, size_t n, double most)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += exp(y[i] - most);
    return most + log(sum);
}

bool parity_row_of(const float *ours, const float *other, size_t n, parity_row *out, int *which, size_t *at)
{
    double dot = 0, aa = 0, bb = 0, sum = 0, squares = 0, difference = 0, most = 0, kl = 0;
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(ours[i]) || !isfinite(other[i])) {
            *which = isfinite(ours[i]), *at = i;
            return false;
        }
        const double a = ours[i], b = other[i], d = a - b;
        dot += a * b, aa += a * a, bb += b * b;
        sum += d, squares += d * d, difference += fabs(d);
        most = fmax(most, fabs(d));
    }
    compare_top(ours, n, out->top[0]);
    compare_top(other, n, out->top[1]);
    out->log_sum[0] = compare_log_sum(ours, n, out->top[0][0].logit);
    out->log_sum[1] = compare_log_sum(other, n, out->top[1][0].logit);
    for (size_t i = 0; i < n; i++) {
        const double p = other[i] - out->log_sum[1], q = ours[i] - out->log_sum[0];
        kl += exp(p) * (p - q);
    }
    const double mean = sum / (double)n;
    /* two rows of zeros are the same; one of them alone is not */
    out->cosine = aa > 0 && bb > 0 ? fmin(1, dot / sqrt(aa * bb)) : aa == bb ? 1 : 0;
    out->max_difference = most;
    out->mean_difference = difference / (double)n;
    out->noise = sqrt(fmax(0, squares / (double)n - mean * mean));
    out->kl = fmax(0, kl);
    return true;
}

bool parity_is_tie(const parity_row *r, double margin_ours, double margin_other)
{
    const double most = TIE * sqrt(2) * r->noise;
    return margin_ours <= most && margin_other <= most;
}

void parity_totals_begin(parity_totals *t) { *t = (parity_totals){ .cosine_min = 1, .cosine_least = 1 }; }

void parity_totals_row(parity_totals *t, const parity_row *r)
{
    t->rows++;
    t->cosine_least = fmin(t->cosine_least, r->cosine);
    t->cosine_sum += r->cosine;
    t->max_difference = fmax(t->max_difference, r->max_difference);
    t->difference_sum += r->mean_difference;
    t->kl_sum += r->kl;
    t->kl_max = fmax(t->kl_max, r->kl);
}

void parity_totals_chosen(parity_totals *t, const parity_row *r)
{
    t->cosine_min = fmin(t->cosine_min, r->cosine);
}

void parity_totals_target(parity_totals *t, const parity_row *r, float ours, float other)
{
    t->targets++;
    t->nll[0] += r->log_sum[0] - ours;
    t->nll[1] += r->log_sum[1] - other;
}

void parity_totals_step(parity_totals *t, const parity_row *r, const float *ours, const float *other,
                        size_t prompt, size_t step)
{
    const int32_t a = r->top[0][0].id, b = r->top[1][0].id;
    t->steps++;
    if (a == b) {
        t->matches++;
        return;
    }
    const double margin_ours = (double)ours[a] - ours[b], margin_other = (double)other[b] - other[a];
    const bool tie = parity_is_tie(r, margin_ours, margin_other);
    t->ties += tie;
    if (t->first.there) return;
    t->first = (parity_divergence){ .there = true, .tie = tie, .prompt = prompt, .step = step,
                                    .margin = { margin_ours, margin_other }, .row = *r };
}

double parity_perplexity(const parity_totals *t, int which)
{
    return t->targets ? exp(t->nll[which] / (double)t->targets) : 0;
}

double parity_match_rate(const parity_totals *t)
{
    return t->steps ? (double)t->matches / (double)t->steps : 1;
}
