/* Layers for multi-token prediction of GGUF files: they follow the model's, as "blk.N.nextn.*".
 * SPDX-License-Identifier: MIT */
#include "model/gguf.h"

static bool mtp_has(const gguf *g, uint32_t layer, const char *what, char name[64])
{
    qsf_format(name, 64, "blk.%u.nextn.%s.weight", (unsigned)layer, what);
    return qsf_gguf_tensor(g, name) != NULL;
}

qsf_status qsf_gguf_mtp(gguf *g, qsf_error *err)
{
    qsf_hparams *hp = &g->s->hp;
    const uint32_t layer = hp->n_layers - g->n_nextn;
    char name[64];
    const bool weights = g->n_nextn && mtp_has(g, layer, "eh_proj", name);
    g->s->n_mtp = g->row->mtp && weights ? g->n_nextn : 0;
    if (!g->s->mtp) return QSF_OK;
    if (!g->n_nextn)
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: has no layer for multi-token prediction (key "
                        "\"%s.nextn_predict_layers\")", g->s->path, g->arch);
    if (!g->row->mtp)
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: layers for multi-token prediction of %s, which this "
                        "version cannot run", g->s->path, g->arch);
    if (!weights)
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: tensor \"%s\" is missing: the file names layers for "
                        "multi-token prediction, but was made without their weights", g->s->path, name);
    hp->mtp = true;
    hp->mtp_norm = mtp_has(g, layer, "shared_head_norm", name);
    g->n_nextn--;
    return QSF_OK;
}

/* Its own embedding and head take the places of the model's. */
gguf_mtp_place qsf_gguf_mtp_place(const gguf *g, gguf_text name, int64_t layer, gguf_text rest)
{
    const qsf_source *s = g->s;
    const uint32_t last = s->hp.n_layers - 1;
    const qsf_role *embd = qsf_role_of(QSF_K_TOKEN_EMBD), *head = qsf_role_of(QSF_K_OUTPUT);
    const gguf_mtp_place is_embd = { false, qsf_unit_embd(s), QSF_K_TOKEN_EMBD };
    const gguf_mtp_place is_head = { false, qsf_unit_final(s), QSF_K_OUTPUT }, skipped = { .skipped = true };
    char own[64];
    const bool fc = gguf_text_is(name, "fc.weight"), norm = gguf_text_is(name, "enc.output_norm.weight");
    if (s->hp.eagle && (fc || norm))
        return (gguf_mtp_place){ false, 0, fc ? QSF_K_MTP_PROJ : QSF_K_FEATURES_NORM };
    if (!s->hp.mtp) return (gguf_mtp_place){ 0 };
    if (layer == last && gguf_text_is(rest, "nextn.embed_tokens.weight")) return is_embd;
    if (layer == last && gguf_text_is(rest, "nextn.shared_head_head.weight")) return is_head;
    if (layer >= 0) return (gguf_mtp_place){ 0 };
    const bool own_head = mtp_has(g, last, "shared_head_head", own);
    if (gguf_text_is(name, head->gguf) && own_head) return skipped;
    if (!gguf_text_is(name, embd->gguf) || !mtp_has(g, last, "embed_tokens", own))
        return (gguf_mtp_place){ 0 };
    /* the model's embedding is not the layer's, but its head, if no other is there */
    return own_head || qsf_gguf_tensor(g, head->gguf) ? skipped : is_head;
}
