/* The number of draft tokens with the most tokens per time, from measured times and from how often
 * drafts were right.
 * SPDX-License-Identifier: MIT
 *
 *     tokens(k) = 1 + r1 + r1 r2 + ... + r1 r2 ... rk      time(k) = pass(1 + k) + k * guess
 *
 * Both change with the text and with what else the machine does, so all numbers are moving
 * averages, and a length that loses is tried again now and then. */
#include "turn/draft_gain.h"

/* A new value's share of an average; passes without drafts until one token is tried again. */
#define GAIN_SHARE 0.1
enum { GAIN_AGAIN = 32 };

static void gain_average(double *mean, double x)
{
    *mean = *mean > 0 ? *mean + GAIN_SHARE * (x - *mean) : x;
}

void qsf_draft_gain_begin(qsf_draft_gain *g)
{
    *g = (qsf_draft_gain){ 0 };
    for (size_t i = 0; i < QSF_DRAFT_MOST; i++) g->right[i] = 0.7;
}

void qsf_draft_gain_pass(qsf_draft_gain *g, size_t rows, uint64_t ns)
{
    if (rows && rows < QSF_ARRAY_LEN(g->pass)) gain_average(&g->pass[rows], (double)ns);
}

void qsf_draft_gain_made(qsf_draft_gain *g, size_t n, uint64_t ns)
{
    if (n) gain_average(&g->guess, (double)ns / (double)n);
}

void qsf_draft_gain_judge(qsf_draft_gain *g, size_t n, size_t right)
{
    for (size_t i = 0; i < n && i <= right && i < QSF_DRAFT_MOST; i++)
        g->right[i] += GAIN_SHARE * ((i < right) - g->right[i]);
}

/* The time of a pass over this many rows; if unknown, that of the next smaller known number, so
 * that it will be tried. */
static double gain_pass(const qsf_draft_gain *g, size_t rows)
{
    while (rows > 1 && g->pass[rows] == 0) rows--;
    return g->pass[rows];
}

size_t qsf_draft_gain_choose(qsf_draft_gain *g, size_t cap)
{
    size_t best = 0;
    double tokens = 1, chance = 1;
    double most = g->pass[1] > 0 ? 1 / g->pass[1] : 0;
    cap = QSF_MIN(cap, (size_t)QSF_DRAFT_MOST);
    /* without drafts first: the others are compared with that */
    for (size_t k = 1; most > 0 && k <= cap; k++) {
        chance *= g->right[k - 1];
        tokens += chance;
        const double rate = tokens / (gain_pass(g, 1 + k) + (double)k * g->guess);
        if (rate <= most) continue;
        most = rate;
        best = k;
    }
    g->n_without = best ? 0 : g->n_without + 1;
    if (g->n_without <= GAIN_AGAIN || !cap) return best;
    g->n_without = 0;
    return 1;
}
#undef GAIN_SHARE
