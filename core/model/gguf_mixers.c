/* Reads a GGUF file's description of layers whose mixer is not attention.
 * SPDX-License-Identifier: MIT */
#include "model/gguf.h"

/* Rotary sections for images: time, height and width.  In text all three positions are equal, so
 * sections have no effect if they cover all rotary columns. */
static qsf_status check_sections(const gguf *g, qsf_error *err)
{
    const gguf_kv *kv = qsf_gguf_find(g, "%s.rope.dimension_sections");
    uint32_t dim = g->s->hp.head_dim;
    int64_t n = 0;
    const qsf_status st = qsf_gguf_u32(g, "%s.rope.dimension_count", false, &dim, err);
    for (uint32_t i = 0; kv && !st && i < dim / 2; i++)
        if (!qsf_gguf_integer(kv, i % 3, &n) || n * 3 <= i)
            return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: rotary sections (key \"%.*s\") that leave out some "
                            "of %u columns", g->s->path, (int)kv->key.len, kv->key.p, (unsigned)dim);
    return st;
}

/* Whether layer i is one of those with the other mixer: by a list, or all but every nth. */
static qsf_status by_interval(const gguf *g, uint32_t i, bool *out, qsf_error *err)
{
    const gguf_kv *kv = qsf_gguf_find(g, "%s.attention.recurrent_layers");
    uint32_t every = 4;
    int64_t v = 0;
    if (kv && !qsf_gguf_integer(kv, kv->array ? i : 0, &v))
        return qsf_fail(err, QSF_E_CORRUPT, "%s: key \"%.*s\" has no value for layer %u", g->s->path,
                        (int)kv->key.len, kv->key.p, (unsigned)i);
    const qsf_status st = qsf_gguf_u32(g, "%s.full_attention_interval", false, &every, err);
    *out = kv ? v != 0 : every && (i + 1) % every != 0;
    return st;
}

/* Whether layer i has no heads of keys and values. */
static qsf_status without_heads(const gguf *g, uint32_t i, bool *out, qsf_error *err)
{
    const gguf_kv *kv = qsf_gguf_find(g, "%s.attention.head_count_kv");
    int64_t heads = 1;
    if (kv && !qsf_gguf_integer(kv, kv->array ? i : 0, &heads))
        return qsf_fail(err, QSF_E_CORRUPT, "%s: key \"%.*s\" has no value for layer %u", g->s->path,
                        (int)kv->key.len, kv->key.p, (unsigned)i);
    *out = heads == 0;
    return QSF_OK;
}

/* RWKV's gates may be missing, whatever the key is set to. */
static qsf_status rwkv_sizes(const gguf *g, qsf_hparams *hp, qsf_error *err)
{
    const uint32_t shifts = g->row->layers == QSF_LAYERS_SHIFTED ? 2 : 1;
    uint32_t count = shifts;
    qsf_status st;
    hp->mix_conv = 2;
    hp->mix_inner = hp->n_embd;
    hp->mix_groups = 1;
    if ((st = qsf_gguf_u32(g, "%s.wkv.head_size", true, &hp->mix_state, err)) ||
        (st = qsf_gguf_u32(g, "%s.attention.decay_lora_rank", true, &hp->mix_heads, err)) ||
        (st = qsf_gguf_u32(g, "%s.attention.iclr_lora_rank", true, &hp->mix_rate, err)) ||
        (st = qsf_gguf_u32(g, "%s.attention.value_residual_mix_lora_rank", true, &hp->mix_first, err)) ||
        (st = qsf_gguf_u32(g, "%s.attention.gate_lora_rank", shifts == 2, &hp->mix_gate, err)) ||
        (st = qsf_gguf_u32(g, "%s.token_shift_count", false, &count, err))) return st;
    if (shifts == 1 && !qsf_gguf_tensor(g, "blk.0.time_mix_g1.weight")) hp->mix_gate = 0;
    if (count == shifts) return QSF_OK;
    return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: %u parts of a layer take the row before; of %s %u do",
                    g->s->path, (unsigned)count, g->arch, (unsigned)shifts);
}

static qsf_status mixer_sizes(const gguf *g, qsf_hparams *hp, qsf_error *err)
{
    qsf_status st;
    if (g->row->mixer == QSF_MIXER_RWKV) return rwkv_sizes(g, hp, err);
    if (g->row->mixer == QSF_MIXER_SHORT_CONV)
        return qsf_gguf_u32(g, "%s.shortconv.l_cache", true, &hp->mix_conv, err);
    if ((st = qsf_gguf_u32(g, "%s.ssm.conv_kernel", true, &hp->mix_conv, err)) ||
        (st = qsf_gguf_u32(g, "%s.ssm.inner_size", true, &hp->mix_inner, err)) ||
        (st = qsf_gguf_u32(g, "%s.ssm.state_size", true, &hp->mix_state, err)) ||
        (st = qsf_gguf_u32(g, "%s.ssm.time_step_rank", true, &hp->mix_heads, err))) return st;
    hp->mix_groups = 1;
    if (g->row->mixer == QSF_MIXER_MAMBA) return qsf_gguf_bool(g, "%s.ssm.dt_b_c_rms", &hp->mix_norms, err);
    st = qsf_gguf_u32(g, "%s.ssm.group_count", false, &hp->mix_groups, err);
    if (st || g->row->mixer != QSF_MIXER_PLAMO) return st;
    if (hp->mix_groups > 1)
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: %u groups of heads, which this version does not know of "
                        "%s", g->s->path, (unsigned)hp->mix_groups, g->arch);
    hp->mix_groups = 1;
    hp->mix_rate = QSF_MAX(64, hp->n_embd / 16);        /* no key has it */
    return QSF_OK;
}

/* Layers that are a mixer or a feed-forward. */
static qsf_status single_parts(const gguf *g, qsf_hparams *hp, qsf_error *err)
{
    const gguf_kv *kv = qsf_gguf_find(g, "%s.feed_forward_length");
    const bool shifted = g->row->layers == QSF_LAYERS_SHIFTED;
    if (g->row->layers != QSF_LAYERS_MIXER && g->row->layers != QSF_LAYERS_ONE && !shifted) return QSF_OK;
    hp->feed_forwards = qsf_arena_array(g->s->arena, hp->n_layers, sizeof *hp->feed_forwards,
                                        "feed-forwards", err);
    if (!hp->feed_forwards) return QSF_E_MEMORY;
    if (shifted) memset(hp->feed_forwards, QSF_FEED_FORWARD_SHIFTED, hp->n_layers);
    for (uint32_t i = 0; i < hp->n_layers && !shifted; i++) {
        int64_t len = 0;
        if (g->row->layers == QSF_LAYERS_ONE && (!kv || !qsf_gguf_integer(kv, kv->array ? i : 0, &len)))
            return qsf_fail(err, QSF_E_CORRUPT, "%s: no feed-forward length for layer %u", g->s->path,
                            (unsigned)i);
        if (len) hp->mixers[i] = QSF_MIXER_NONE;
        hp->feed_forwards[i] = !len ? QSF_FEED_FORWARD_NONE
            : hp->gated ? QSF_FEED_FORWARD_GATED : QSF_FEED_FORWARD_PLAIN;
    }
    return QSF_OK;
}

qsf_status qsf_gguf_mixers(const gguf *g, qsf_error *err)
{
    qsf_hparams *hp = &g->s->hp;
    qsf_status st;
    if (!g->row->mixer) return QSF_OK;
    /* before anything of their number is allocated */
    if (hp->n_layers > g->n_tensors)
        return qsf_fail(err, QSF_E_CORRUPT, "%s: %u layers, but only %u tensors", g->s->path,
                        (unsigned)hp->n_layers, (unsigned)g->n_tensors);
    hp->mixers = qsf_arena_array(g->s->arena, hp->n_layers, sizeof *hp->mixers, "mixers", err);
    if (!hp->mixers) return QSF_E_MEMORY;
    for (uint32_t i = 0; i < hp->n_layers; i++) {
        bool without = g->row->layers == QSF_LAYERS_MIXER || g->row->layers >= QSF_LAYERS_PARALLEL;
        if (hp->mtp && i + 1 == hp->n_layers) continue;     /* it attends */
        if (g->row->has & QSF_HAS_INTERVAL) st = by_interval(g, i, &without, err);
        else st = without ? QSF_OK : without_heads(g, i, &without, err);
        if (st) return st;
        hp->mixers[i] = without ? g->row->mixer : QSF_MIXER_ATTENTION;
    }
    if ((st = single_parts(g, hp, err))) return st;
    hp->attn_gate = g->row->has & QSF_HAS_GATE ? 1 : 0;
    hp->mix_neighbours = g->row->has & QSF_HAS_NEIGHBOURS ? 1 : 0;
    if (g->row->mixer == QSF_MIXER_DELTA_NET && (st = check_sections(g, err))) return st;
    return mixer_sizes(g, hp, err);
}
