/* Small models of every kind, and how near logits must be, for tests of the engine.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_ENGINE_VARIANTS_H
#define QSF_ENGINE_VARIANTS_H

#include "model/compress.h"
#include "engine_bench.h"
#include "qsf_repair.h"

#define EXACT 0
#define CLOSE 0.02          /* of the largest logit */

enum { N = 45 };            /* tokens of most tests: one block of the KV cache and a part of another */

static inline tiny_options variant(int i, const char **name)
{
    tiny_options o = tiny_defaults();
    static const char *const names[] = { "layer norm, GELU, biases, learned positions",
                                         "norms on q and k, after attention and FFN, window, soft caps",
                                         "ReLU, pairs, ungated, odd sizes", "linear scaling, local base",
                                         "YaRN" };
    *name = names[i];
    switch (i) {
    case 0:
        o.hp.norm = QSF_NORM_LAYER;
        o.hp.act = QSF_ACT_GELU;
        o.hp.rope = QSF_ROPE_NONE;
        o.hp.gated = false;
        o.hp.learned_pos = o.biases = true;
        o.hp.n_kv_heads = 4;
        break;
    case 1:
        o.qk_norms = o.post_norms = true;
        o.hp.act = QSF_ACT_GELU;
        o.hp.window = 16;
        o.hp.window_pattern = 2;
        o.hp.attn_softcap = 20;
        o.hp.final_softcap = 10;
        o.hp.embd_scale = 8;
        break;
    case 2:
        o.hp.act = QSF_ACT_RELU;
        o.hp.rope = QSF_ROPE_PAIRS;
        o.hp.gated = false;
        o.hp.n_embd = 72;
        o.hp.n_ff = 100;
        o.hp.n_vocab = 301;
        o.hp.tied = false;
        break;
    case 3:
        o.hp.scaling = QSF_SCALING_LINEAR;
        o.hp.scaling_factor = 4;
        o.hp.rope_base_local = 1000;
        o.hp.window = 8;
        o.hp.window_pattern = 2;
        break;
    default:
        o.hp.scaling = QSF_SCALING_YARN;
        o.hp.scaling_factor = 4;
        o.hp.scaling_orig_ctx = 32;
        o.hp.rope_dim = 8;
    }
    return o;
}

/* ---- formats ---- */

/* Logits of N tokens, 15 at a time, of a file with these options. */
static inline float *logits_of(const tiny_options *o, const qsf_context_options *co)
{
    bench b;
    int32_t ids[N];
    float *out = NULL;
    if (!bench_write(&b, o) || !bench_open(&b) || !bench_context(&b, co)) return NULL;
    out = bench_floats(&b, N);
    bench_tokens(ids, N, b.n_vocab, 70);
    CHECK_EQ(bench_feed(&b, 0, ids, N, 15, out), QSF_OK);
    bench_end(&b);
    return out;
}

#endif
