/* A request's sampling parameters, as the library's options.
 * SPDX-License-Identifier: MIT */
#include "scheduler.h"

qsf_status branch_sampler(const serve_branch *b, const qsf_model *m, qsf_sampler **out)
{
    const serve_request *r = &b->job->request;
    qsf_sampler_options o = r->sampler;
    /* Any number is a seed, 0 too; each answer of one request has its own. */
    if (r->seeded) o.seed = qsf_choice_seed((uint64_t)r->seed, b->index);
    qsf_status st = qsf_sampler_new(m, &o, out, NULL);
    if (st) return st;
    if (r->prepare) st = r->prepare(r->user, m, *out, NULL);
    for (size_t i = 0; i < r->n_biases && !st; i++)
        st = qsf_sampler_bias(*out, r->biases[i].token, r->biases[i].bias, NULL);
    for (size_t i = 0; i < r->n_bans && !st; i++)
        st = qsf_sampler_ban(*out, r->bans[i].text, r->bans[i].len, NULL);
    if (r->own_breakers && !st) st = qsf_sampler_breaker(*out, "", 0, NULL);
    for (size_t i = 0; i < r->n_breakers && !st; i++)
        st = qsf_sampler_breaker(*out, r->breakers[i].text, r->breakers[i].len, NULL);
    return st;
}

void branch_options(const serve_branch *b, int64_t max_tokens, qsf_turn_options *o)
{
    *o = b->job->turn;
    o->max_tokens = max_tokens;
    if (b->job->request.show_special) o->special = true;
}
