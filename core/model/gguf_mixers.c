/* What a GGUF file says of layers whose mixer is not attention.
 * SPDX-License-Identifier: MIT */
#include "model/gguf.h"

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

static qsf_status mixer_sizes(const gguf *g, qsf_hparams *hp, qsf_error *err)
{
    qsf_status st;
    if (g->row->mixer == QSF_MIXER_SHORT_CONV)
        return qsf_gguf_u32(g, "%s.shortconv.l_cache", true, &hp->mix_conv, err);
    if ((st = qsf_gguf_u32(g, "%s.ssm.conv_kernel", true, &hp->mix_conv, err)) ||
        (st = qsf_gguf_u32(g, "%s.ssm.inner_size", true, &hp->mix_inner, err)) ||
        (st = qsf_gguf_u32(g, "%s.ssm.state_size", true, &hp->mix_state, err)) ||
        (st = qsf_gguf_u32(g, "%s.ssm.time_step_rank", true, &hp->mix_heads, err))) return st;
    hp->mix_groups = 1;
    return qsf_gguf_u32(g, "%s.ssm.group_count", false, &hp->mix_groups, err);
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
        bool without = false;
        if ((st = without_heads(g, i, &without, err))) return st;
        hp->mixers[i] = without ? g->row->mixer : QSF_MIXER_ATTENTION;
    }
    return mixer_sizes(g, hp, err);
}
