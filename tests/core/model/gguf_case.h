/* GGUF files for tests, opened from memory and refused or accepted.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_GGUF_CASE_H
#define QSF_GGUF_CASE_H

#include "gguf_build.h"
#include "mem_platform.h"
#include "memfile.h"
#include "model/arch.h"
#include "model/source.h"
#include "test.h"

/* ---- helpers ---- */

static inline gguf_build tiny(const char *arch)
{
    gguf_build b;
    gguf_build_init(&b, 3);
    tiny_keys(&b, arch);
    if (!strcmp(arch, "gpt2")) {
        /* as many key heads as heads: overwrite the value of the key before the last */
        qsf_put32(b.kv.p + b.kv.len - (8 + strlen("gpt2.attention.layer_norm_epsilon") + 4 + 4) - 4,
                  TINY_HEADS);
    }
    return b;
}

static inline gguf_build tiny_whole(const char *arch)
{
    gguf_build b = tiny(arch);
    tiny_vocab(&b);
    tiny_tensors(&b, arch, NULL);
    gguf_build_end(&b);
    return b;
}

static mem_host host;
static qsf_error err;

/* Opens bytes; a failure must not leak. */
static inline qsf_status open_bytes(const void *bytes, size_t len, bool vocab_only, qsf_source **s)
{
    mem_host_init(&host);
    memset(&err, 0, sizeof err);
    mem_put(&host, "m.gguf", bytes, len);
    const qsf_status st = qsf_source_open(&host.p, "m.gguf", NULL, vocab_only, s, &err);
    if (st) {
        CHECK(*s == NULL);
        CHECK_EQ(host.live, 0);
        CHECK_EQ(err.status, st);
        CHECK(strlen(err.text) > 0);
        mem_host_done(&host);
    }
    return st;
}

static inline void close_source(qsf_source *s)
{
    qsf_source_close(s);
    CHECK_EQ(host.live, 0);
    mem_host_done(&host);
}

/* Ends b, opens it and expects a refusal whose text has a word in it. */
static inline void refuse(gguf_build *b, qsf_status want, const char *word)
{
    qsf_source *s = NULL;
    if (!b->out) gguf_build_end(b);
    const qsf_status st = open_bytes(b->out, b->len, false, &s);
    CHECK_STR(qsf_status_name(st), qsf_status_name(want));
    if (!st) close_source(s);
    else if (!strstr(err.text, word)) CHECK_STR(err.text, word);
    gguf_build_free(b);
}

static inline qsf_source *accept(gguf_build *b)
{
    qsf_source *s = NULL;
    if (!b->out) gguf_build_end(b);
    const qsf_status st = open_bytes(b->out, b->len, false, &s);
    if (st) printf("      %s\n", err.text);
    CHECK_EQ(st, QSF_OK);
    gguf_build_free(b);
    return s;
}

/* A model with everything in place but one key more. */
static inline gguf_build tiny_keyed(const char *arch)
{
    gguf_build b = tiny(arch);
    tiny_vocab(&b);
    tiny_tensors(&b, arch, NULL);
    return b;
}

/* ---- split files ---- */

static inline gguf_build split_part(uint32_t no, uint32_t count, uint32_t tensors)
{
    gguf_build b;
    if (no == 0) b = tiny_keyed("llama");
    else gguf_build_init(&b, 3);
    kv_u16(&b, "split.no", (uint16_t)no);
    kv_u16(&b, "split.count", (uint16_t)count);
    if (no == 0) kv_u32(&b, "split.tensors.count", tensors);
    return b;
}

/* hp with the layers of the architecture, as its tiny files have them. */
static inline qsf_hparams tiny_layers(const qsf_arch *a, qsf_hparams hp)
{
    static uint8_t mixers[TINY_LAYERS], feed_forwards[TINY_LAYERS];
    const bool alone = a->layers == QSF_LAYERS_MIXER, one = a->layers == QSF_LAYERS_ONE;
    const bool all = alone || a->layers >= QSF_LAYERS_PARALLEL, shifted = a->layers == QSF_LAYERS_SHIFTED;
    memset(mixers, one ? QSF_MIXER_NONE : all ? a->mixer : QSF_MIXER_ATTENTION, TINY_LAYERS);
    memset(feed_forwards, alone ? QSF_FEED_FORWARD_NONE : QSF_FEED_FORWARD_PLAIN, TINY_LAYERS);
    hp.mixers = mixers;
    if (shifted) memset(feed_forwards, QSF_FEED_FORWARD_SHIFTED, TINY_LAYERS);
    hp.feed_forwards = alone || one || shifted ? feed_forwards : NULL;
    hp.mix_conv = hp.mix_state = 3;
    hp.mix_inner = 6;
    hp.mix_heads = 2;
    hp.mix_groups = 1;
    if (a->mixer != QSF_MIXER_RWKV) return hp;
    hp.mix_conv = 2;
    hp.mix_inner = hp.n_embd;
    hp.mix_state = hp.n_embd / 2;
    hp.mix_rate = 5;
    hp.mix_first = 3;
    hp.mix_gate = 4;
    return hp;
}

#endif
