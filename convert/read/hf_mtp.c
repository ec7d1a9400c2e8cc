/* Layers for multi-token prediction in Hugging Face directories: where they are, whether they are
 * taken, and what their tensors are called.
 * SPDX-License-Identifier: MIT */
#include "read/hf_mtp.h"

static const struct { uint8_t kind; const char *name; } mtp_names[] = {
    { QSF_K_MTP_EMBD_NORM, "mtp.pre_fc_norm_embedding.weight" },
    { QSF_K_MTP_STATE_NORM, "mtp.pre_fc_norm_hidden.weight" },
    { QSF_K_MTP_PROJ, "mtp.fc.weight" },
    { QSF_K_MTP_NORM, "mtp.norm.weight" },
};

void qsf_hf_mtp_name(const qsf_role *role, const char *name, char *out, size_t cap)
{
    for (size_t i = 0; i < QSF_ARRAY_LEN(mtp_names); i++)
        if (mtp_names[i].kind == role->kind) {
            qsf_format(out, cap, "%s", mtp_names[i].name);
            return;
        }
    qsf_format(out, cap, "mtp.layers.0.%s", name);
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
    const bool beside = mtp_find(w, "mtp.", "fc.weight"), after = mtp_find(w, layer, "eh_proj.weight");
    weights_tensor *own_embd = mtp_find(w, beside ? "mtp." : layer, "embed_tokens.weight");
    weights_tensor *own_head = beside ? NULL : mtp_find(w, layer, "shared_head.head.weight");
    bool same = false, same_head = false;
    qsf_status st;
    *out = HF_MTP_NONE;
    if (!cfg->arch->mtp || (!beside && !after)) return QSF_OK;
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
    in->hp.mtp_norm = beside ? mtp_find(w, "mtp.", "norm.weight") != NULL
        : mtp_find(w, layer, "shared_head.norm.weight") != NULL;
    *out = beside ? HF_MTP_BESIDE : HF_MTP_AFTER;
    return QSF_OK;
}
