/* Layers for multi-token prediction in Hugging Face directories: where they are, whether they are
 * taken, and what their tensors are called.
 * SPDX-License-Identifier: MIT */
#include "read/hf_mtp.h"

/* By hf_mtp; the last two have names of their own. */
static const struct { const char *all, *layer, *names[4]; } mtp_styles[] = {
    [HF_MTP_QWEN] = { "mtp.", "mtp.layers.0.", {
        "mtp.pre_fc_norm_embedding.weight", "mtp.pre_fc_norm_hidden.weight", "mtp.fc.weight",
        "mtp.norm.weight" } },
    [HF_MTP_MIMO] = { "model.mtp_layers.", "model.mtp_layers.0.", {
        "model.mtp_layers.0.token_layernorm.weight", "model.mtp_layers.0.hidden_layernorm.weight",
        "model.mtp_layers.0.input_proj.weight", "model.mtp_layers.0.final_layernorm.weight" } },
};
static const uint8_t mtp_kinds[4] = { QSF_K_MTP_EMBD_NORM, QSF_K_MTP_STATE_NORM, QSF_K_MTP_PROJ,
                                      QSF_K_MTP_NORM };

bool qsf_hf_mtp_name(hf_mtp mtp, const qsf_role *role, const char *name, char *out, size_t cap)
{
    if (mtp < HF_MTP_QWEN) return false;
    for (size_t i = 0; i < QSF_ARRAY_LEN(mtp_kinds); i++)
        if (mtp_kinds[i] == role->kind) {
            qsf_format(out, cap, "%s", mtp_styles[mtp].names[i]);
            return true;
        }
    qsf_format(out, cap, "%s%s", mtp_styles[mtp].layer, name);
    return true;
}

bool qsf_hf_mtp_left(const hf_config *cfg, hf_mtp taken, const char *name)
{
    for (hf_mtp m = HF_MTP_QWEN; cfg->arch->mtp && m <= HF_MTP_MIMO; m++) {
        const char *all = mtp_styles[m].all, *first = mtp_styles[m].layer;
        const size_t further = strlen(first) - 2;       /* "0." */
        if (m != taken && !strncmp(name, all, strlen(all))) return true;
        if (m == taken && !strncmp(name, first, further) && strncmp(name, first, further + 2)) return true;
    }
    return false;
}

static weights_tensor *mtp_find(const hf_weights *w, const char *layer, const char *name)
{
    char own[160];
    qsf_format(own, sizeof own, "%s%s", layer, name);
    return qsf_hf_weights_find(w, own);
}

/* Whether t, which may be NULL, is a copy. */
static qsf_status mtp_is_copy(const input *in, const hf_weights *w, weights_tensor *t,
                              const weights_tensor *of, bool *copy, qsf_error *err)
{
    *copy = !t;
    if (!t || !of || t->n_dims != 2 || of->n_dims != 2 || t->shape[0] != of->shape[0] ||
        t->shape[1] != of->shape[1] || t->shape[1] > 1 << 20 || t->transposed || of->transposed ||
        t->type == WEIGHTS_NO_TYPE || of->type == WEIGHTS_NO_TYPE) return QSF_OK;
    return qsf_hf_weights_same(in->platform, w, t, of, copy, err);
}

/* It attends, whatever the layers before it do. */
static qsf_status mtp_mixers(input *in, qsf_error *err)
{
    qsf_hparams *hp = &in->hp;
    if (!hp->mixers) return QSF_OK;
    uint8_t *mixers = qsf_arena_array(in->arena, hp->n_layers + 1, sizeof *mixers, "mixers", err);
    if (!mixers) return QSF_E_MEMORY;
    memcpy(mixers, hp->mixers, hp->n_layers * sizeof *mixers);
    mixers[hp->n_layers] = QSF_MIXER_ATTENTION;
    hp->mixers = mixers;
    return QSF_OK;
}

qsf_status qsf_hf_mtp_take(const hf_weights *w, const hf_config *cfg, const char *layer,
                           const weights_tensor *embd, const weights_tensor *head, input *in, hf_mtp *out,
                           qsf_error *err)
{
    const hf_mtp style = qsf_hf_weights_find(w, mtp_styles[HF_MTP_QWEN].names[2]) ? HF_MTP_QWEN
        : qsf_hf_weights_find(w, mtp_styles[HF_MTP_MIMO].names[2]) ? HF_MTP_MIMO
        : mtp_find(w, layer, "eh_proj.weight") ? HF_MTP_AFTER : HF_MTP_NONE;
    const bool after = style == HF_MTP_AFTER;
    weights_tensor *own_embd = mtp_find(w, after ? layer : "mtp.", "embed_tokens.weight");
    weights_tensor *own_head = after ? mtp_find(w, layer, "shared_head.head.weight") : NULL;
    bool same = false, same_head = false;
    qsf_status st;
    *out = HF_MTP_NONE;
    if (!cfg->arch->mtp || !style) return QSF_OK;
    in->leaves_mtp = true;
    if (!cfg->takes_mtp) return QSF_OK;
    if ((st = mtp_is_copy(in, w, own_embd, embd, &same, err)) ||
        (st = mtp_is_copy(in, w, own_head, head, &same_head, err))) return st;
    if (!same || !same_head) return QSF_OK;
    if ((st = mtp_mixers(in, err))) return st;
    if (own_embd) own_embd->used = true;
    if (own_head) own_head->used = true;
    in->leaves_mtp = false;
    in->hp.n_layers++;
    in->hp.mtp = true;
    in->hp.mtp_norm = after ? mtp_find(w, layer, "shared_head.norm.weight") != NULL
        : qsf_hf_weights_find(w, mtp_styles[style].names[3]) != NULL;
    *out = style;
    return QSF_OK;
}
