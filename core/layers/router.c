/* Which experts a row takes, and with which weights.
 * SPDX-License-Identifier: MIT */
#include "layers/router.h"

static void router_softmax(float *x, uint32_t n)
{
    float most = x[0];
    double sum = 0;
    for (uint32_t i = 1; i < n; i++) most = QSF_MAX(most, x[i]);
    for (uint32_t i = 0; i < n; i++) {
        x[i] = (float)exp(x[i] - most);
        sum += x[i];
    }
    for (uint32_t i = 0; i < n; i++) x[i] = (float)(x[i] / sum);
}

static void router_sigmoid(float *x, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) x[i] = (float)(1 / (1 + exp(-x[i])));
}

/* The place of the largest score that is not taken; the first of equal ones.  One is found whatever
 * the scores are, numbers or not. */
static uint32_t best_of(const float *score, const float *taken, uint32_t n)
{
    uint32_t best = n;
    for (uint32_t i = 0; i < n; i++)
        if (taken[i] == 0 && (best == n || score[i] > score[best])) best = i;
    return best;
}

/* Takes all experts away but those of the best groups.  A group is as good as its two best
 * experts. */
static void keep_groups(const qsf_layer *l, const float *score, float *taken)
{
    const uint32_t n = l->n_groups, each = l->n_experts / n;
    float of[QSF_MAX_EXPERTS], gone[QSF_MAX_EXPERTS] = { 0 };
    for (uint32_t g = 0; g < n; g++) {
        float most[2] = { -FLT_MAX, -FLT_MAX };
        for (uint32_t i = g * each; i < (g + 1) * each; i++) {
            if (score[i] > most[0]) {
                most[1] = most[0];
                most[0] = score[i];
            } else if (score[i] > most[1]) {
                most[1] = score[i];
            }
        }
        of[g] = most[0] + (each > 1 ? most[1] : 0);
    }
    for (uint32_t i = 0; i < l->n_groups_used; i++) gone[best_of(of, gone, n)] = 1;
    for (uint32_t i = 0; i < l->n_experts; i++) taken[i] = gone[i / each] == 0;
}

/* Turns the chosen experts' weights into the factors of their outputs. */
static void finish_weights(const qsf_layer *l, float *w)
{
    const float least = 6.103515625e-5f;        /* below it nothing is divided: fp16's smallest */
    float sum = 0;
    if (l->router == QSF_ROUTER_CHOSEN) router_softmax(w, l->n_used);
    for (uint32_t i = 0; i < l->n_used; i++) sum += w[i];
    const float scale = (l->router_scale != 0 ? l->router_scale : 1) /
        (l->router_norm ? QSF_MAX(sum, least) : 1);
    for (uint32_t i = 0; i < l->n_used; i++) w[i] *= scale;
}

void qsf_router_choose(const qsf_layer *l, float *row, const float *bias, uint32_t *chosen, float *weights)
{
    const uint32_t n = l->n_experts;
    float *score = row + n, *taken = row + 2 * (size_t)n;
    if (l->router == QSF_ROUTER_SOFTMAX) router_softmax(row, n);
    else if (l->router == QSF_ROUTER_SIGMOID) router_sigmoid(row, n);
    for (uint32_t i = 0; i < n; i++) {
        score[i] = row[i] + (bias ? bias[i] : 0);
        taken[i] = 0;
    }
    if (l->n_groups > 1) keep_groups(l, score, taken);
    for (uint32_t k = 0; k < l->n_used; k++) {
        const uint32_t best = best_of(score, taken, n);
        uint32_t at = k;
        taken[best] = 1;
        for (; at && chosen[at - 1] > best; at--) chosen[at] = chosen[at - 1];
        chosen[at] = best;
    }
    for (uint32_t k = 0; k < l->n_used; k++) weights[k] = row[chosen[k]];
    finish_weights(l, weights);
}

uint32_t qsf_router_sort(const qsf_pass *p)
{
    const qsf_buffers *b = p->b;
    const uint32_t n_experts = p->layer->n_experts, n_slots = p->batch->n * p->layer->n_used;
    uint32_t *count = b->expert_count, n = 0, at = 0;
    memset(count, 0, n_experts * sizeof *count);
    for (uint32_t s = 0; s < n_slots; s++) count[b->chosen[s]]++;
    for (uint32_t e = 0; e < n_experts; e++) {
        const uint32_t have = count[e];
        if (have) {
            b->expert_list[n] = e;
            b->expert_first[n++] = at;
        }
        count[e] = at;
        at += have;
    }
    b->expert_first[n] = at;
    for (uint32_t s = 0; s < n_slots; s++) {
        const uint32_t slot = count[b->chosen[s]]++;
        b->slot_of[s] = slot;
        b->slot_row[slot] = s / p->layer->n_used;
        b->slot_expert[slot] = b->chosen[s];
    }
    return n;
}
