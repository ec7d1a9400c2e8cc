/* What changes logits before a token is chosen: biases, penalties, bans, limits.
 * SPDX-License-Identifier: MIT */
#include "turn/sampler_own.h"

bool qsf_sampler_penalizes(const qsf_sampler_options *o)
{
    return o->repeat_penalty != 1 || o->frequency_penalty != 0 || o->presence_penalty != 0;
}
bool qsf_sampler_dries(const qsf_sampler_options *o) { return o->dry_multiplier > 0 && o->dry_last_n > 0; }

float *qsf_pick_logits(sampler_pick *k)
{
    qsf_sampler *s = k->s;
    if (k->x != s->logits) memcpy(s->logits, k->x, s->n_vocab * sizeof *s->logits);
    k->x = s->logits;
    return s->logits;
}

void qsf_pick_bias(sampler_pick *k)
{
    float *x = qsf_pick_logits(k);
    for (uint32_t i = 0; i < k->s->n_biases; i++) x[k->s->biases[i].token] += k->s->biases[i].bias;
}

void qsf_pick_callback(sampler_pick *k)
{
    k->s->callback(k->s->callback_user, qsf_pick_logits(k), k->s->n_vocab);
}

/* Room for a number per token.  In the default order weights are not in use yet. */
static float *pick_counts(const qsf_sampler *s) { return s->counts ? s->counts : s->weights; }

void qsf_pick_penalize(sampler_pick *k)
{
    const qsf_sampler *s = k->s;
    const uint32_t n = qsf_sampler_n_last(s);
    float *logits = qsf_pick_logits(k), *count = pick_counts(s);
    for (uint32_t i = 0; i < n; i++) count[qsf_sampler_last(s, i)] = 0;
    for (uint32_t i = 0; i < n; i++) count[qsf_sampler_last(s, i)]++;
    for (uint32_t i = 0; i < n; i++) {
        const int32_t id = qsf_sampler_last(s, i);
        float *x = &logits[id];
        if (count[id] == 0) continue;               /* apply once per distinct token */
        *x = *x > 0 ? *x / s->o.repeat_penalty : *x * s->o.repeat_penalty;
        *x -= count[id] * s->o.frequency_penalty + s->o.presence_penalty;
        count[id] = 0;
    }
}

/* ---- DRY ---- */

/* repeats[k]: how many of the last tokens, from the last one back, stand k tokens further back too.
 * That is the Z function of the tokens from the last to the first, in linear time: within the run
 * [left, right) that was found last, what is known of its beginning is known of its inside. */
static void dry_repeats(const qsf_sampler *s, uint32_t n, uint32_t *repeats)
{
    uint32_t left = 0, right = 0;
    for (uint32_t i = 1; i < n; i++) {
        uint32_t len = i < right ? QSF_MIN(repeats[i - left], right - i) : 0;
        while (i + len < n && qsf_sampler_last(s, len) == qsf_sampler_last(s, i + len)) len++;
        repeats[i] = len;
        if (i + len > right) left = i, right = i + len;
    }
}

/* The token that would continue the repetition i tokens back; -1: it is too short. */
static int32_t dry_next(const qsf_sampler *s, uint32_t i)
{
    return s->repeats[i] < s->o.dry_allowed_length ? -1 : qsf_sampler_last(s, i - 1);
}

/* Reduces the logit of each token that would continue a repetition by the penalty of the longest
 * one.  The counts hold the lengths. */
void qsf_pick_dry(sampler_pick *k)
{
    qsf_sampler *s = k->s;
    const uint32_t n = QSF_MIN(s->n_last, s->o.dry_last_n), allowed = s->o.dry_allowed_length;
    uint32_t most = 0;
    while (most < n && qsf_sampler_marked(s, most) >= 0) most++; /* no repetition reaches over a breaker */
    if (n <= allowed || most < allowed) return;
    dry_repeats(s, n, s->repeats);
    float *logits = qsf_pick_logits(k), *length = pick_counts(s);
    int32_t id;
    for (uint32_t i = 1; i < n; i++)
        if ((id = dry_next(s, i)) >= 0) length[id] = 0;
    for (uint32_t i = 1; i < n; i++)
        if ((id = dry_next(s, i)) >= 0)
            length[id] = QSF_MAX(length[id], (float)QSF_MIN(s->repeats[i], most));
    const float grows = logf(s->o.dry_base), highest = grows > 1e-6f ? 88 / grows : 0;
    for (uint32_t i = 1; i < n; i++) {
        const char *piece;
        if ((id = dry_next(s, i)) < 0 || length[id] == 0) continue;
        const float over = QSF_MIN(length[id] - (float)allowed, highest);
        const uint32_t len = qsf_sampler_piece(s, id, &piece);
        length[id] = 0;
        if (!qsf_sampler_list_within(&s->breakers, piece, len))
            logits[id] -= s->o.dry_multiplier * expf(over * grows);
    }
}

/* ---- bans and limits ---- */

/* Forbids all tokens whose text begins with rest. */
static void ban_beginning(const qsf_sampler *s, float *logits, const char *rest, uint32_t len)
{
    uint32_t n;
    const uint32_t *ids = qsf_sampler_starting(s, (uint8_t)*rest, &n);
    for (uint32_t i = 0; i < n; i++) {
        const char *piece;
        if (qsf_sampler_piece(s, (int32_t)ids[i], &piece) >= len && !memcmp(piece, rest, len))
            logits[ids[i]] = -INFINITY;
    }
}

void qsf_pick_ban(sampler_pick *k)
{
    const qsf_sampler *s = k->s;
    const char *text, *end = s->tail + s->n_tail;
    float *logits = qsf_pick_logits(k);
    for (uint32_t i = 0; i < s->n_vocab; i++) {
        if (i % 32 == 0 && !s->banned_whole[i / 32]) i += 31;
        else if (s->banned_whole[i / 32] >> i % 32 & 1) logits[i] = -INFINITY;
    }
    for (uint32_t at = 0, len; (text = qsf_sampler_list_next(&s->banned, &at, &len));)
        for (uint32_t before = 1; before < len && before <= s->n_answer; before++)
            if (!memcmp(end - before, text, before)) ban_beginning(s, logits, text + before, len - before);
}

void qsf_pick_limit(sampler_pick *k)
{
    const qsf_sampler_limits *l = k->limits;
    float *logits = qsf_pick_logits(k);
    for (uint32_t i = 0; l->mask && i < k->s->n_vocab; i += 32) {
        const uint32_t end = QSF_MIN(i + 32, k->s->n_vocab);
        const uint32_t may = l->mask[i / 32];
        if (may == UINT32_MAX) continue;
        if (!may) for (uint32_t j = i; j < end; j++) logits[j] = -INFINITY;
        else for (uint32_t j = i; j < end; j++) if (!(may >> (j - i) & 1)) logits[j] = -INFINITY;
    }
    for (size_t i = 0; i < l->n_never; i++) logits[l->never[i]] = -INFINITY;
}
