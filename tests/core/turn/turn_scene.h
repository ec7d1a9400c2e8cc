/* A model, a sampler and what a turn says, for tests of turns.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_TURN_SCENE_H
#define QSF_TURN_SCENE_H

#include "engine_bench.h"

enum { PROMPT = 20, MOST = 24, N_CTX = 64, TEXT = 4096 };

/* What a turn gave. */
typedef struct heard {
    int32_t ids[2 * N_CTX];
    size_t  n, len, pieces;
    char    text[TEXT];
    bool    cut;
    qsf_turn_end end;
} heard;

typedef struct scene {
    bench        b;
    qsf_turn    *turn;
    qsf_sampler *sampler;
    qsf_sampler_options so;
    int32_t      prompt[N_CTX];
} scene;

static inline qsf_context_options scene_context(void)
{
    qsf_context_options co = bench_options();
    co.n_ctx = N_CTX;
    co.n_batch = 16;
    co.n_logits = 16;
    return co;
}

static inline bool scene_sampler(scene *s, float temperature, uint64_t seed)
{
    qsf_sampler_free(s->sampler);
    s->sampler = NULL;
    qsf_sampler_defaults(&s->so);
    s->so.temperature = temperature;
    s->so.repeat_penalty = 1.2f;
    s->so.seed = seed;
    return bench_ok(&s->b, qsf_sampler_new(s->b.m, &s->so, &s->sampler, &s->b.error));
}

/* A new context, with a turn of its sequence 0. */
static inline bool scene_open(scene *s, const qsf_context_options *co)
{
    qsf_turn_free(s->turn);
    s->turn = NULL;
    return bench_context(&s->b, co) && bench_ok(&s->b, qsf_turn_new(s->b.c, 0, &s->turn, &s->b.error));
}

static inline bool scene_begin(scene *s)
{
    const tiny_options o = tiny_defaults();
    const qsf_context_options co = scene_context();
    *s = (scene){ 0 };
    if (!bench_write(&s->b, &o) || !bench_open(&s->b) || !scene_open(s, &co)) return false;
    bench_tokens(s->prompt, N_CTX, 256, 7);
    return scene_sampler(s, 1, 5);
}

static inline void scene_end(scene *s)
{
    qsf_turn_free(s->turn);
    qsf_sampler_free(s->sampler);
    bench_end(&s->b);
}

static inline qsf_turn_options options(int64_t most)
{
    qsf_turn_options o;
    qsf_turn_defaults(&o);
    o.max_tokens = most;
    o.ignore_end = true;
    return o;
}

static inline void hear(heard *h, const qsf_turn_piece *p)
{
    CHECK_EQ(p->token < 0, p->end != QSF_TURN_GOES_ON);
    CHECK(p->text[p->len] == 0 && h->len + p->len < TEXT);
    if (p->token >= 0) h->ids[h->n++] = p->token;
    memcpy(h->text + h->len, p->text, p->len);
    h->text[h->len += p->len] = 0;
    h->end = p->end;
    h->cut = p->cut;
    h->pieces++;
}

/* Pieces until the turn wants rows or has ended; true: it has ended. */
static inline bool pieces(qsf_turn *t, heard *h)
{
    qsf_turn_piece p = { .size = sizeof p };
    while (!p.end) {
        const qsf_status st = qsf_turn_next(t, &p);
        if (st == QSF_PENDING) return false;
        CHECK_EQ(st, QSF_OK);
        if (st) return true;
        hear(h, &p);
    }
    return true;
}

/* A whole turn, with a fresh sampler of the same seed. */
static inline void answer(scene *s, const int32_t *ids, size_t n, const qsf_turn_options *o, heard *h)
{
    memset(h, 0, sizeof *h);
    if (!scene_sampler(s, s->so.temperature, s->so.seed)) return;
    CHECK_EQ(qsf_turn_begin(s->turn, ids, n, s->sampler, o), QSF_OK);
    while (!pieces(s->turn, h)) (void)qsf_turn_step(s->turn, NULL);
}

static inline qsf_turn_state state(const scene *s)
{
    qsf_turn_state t = { .size = sizeof t };
    qsf_turn_get_state(s->turn, &t);
    return t;
}

#endif
