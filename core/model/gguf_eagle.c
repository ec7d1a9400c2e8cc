/* EAGLE 3 heads in GGUF files: one layer that drafts for another model (Li et al. 2025,
 * arXiv:2503.01840).
 * SPDX-License-Identifier: MIT */
#include "model/gguf.h"
#include "model/source_read.h"

#if !defined(QSF_NO_EAGLE)

enum { EAGLE_MOST_LAYER = 1 << 16, EAGLE_IDS_READ = 512 };

static qsf_status eagle_taps(const gguf *g, qsf_error *err)
{
    const gguf_kv *kv = qsf_gguf_find(g, "%s.target_layers");
    if (!kv || !kv->array || kv->n != QSF_TAPS)
        return qsf_fail(err, QSF_E_CORRUPT, "%s: an EAGLE 3 head names %d layers of its model (key "
                        "\"eagle3.target_layers\"), but this file names %llu; convert it again", g->s->path,
                        QSF_TAPS, (unsigned long long)(kv && kv->array ? kv->n : 0));
    for (uint32_t i = 0; i < QSF_TAPS; i++) {
        int64_t layer;
        if (!qsf_gguf_integer(kv, i, &layer) || layer < 0 || layer >= EAGLE_MOST_LAYER)
            return qsf_fail(err, QSF_E_CORRUPT, "%s: entry %u of key \"eagle3.target_layers\" is not the "
                            "number of a layer", g->s->path, (unsigned)i);
        g->s->taps[i] = (uint32_t)layer;
    }
    return QSF_OK;
}

qsf_status qsf_gguf_eagle(gguf *g, qsf_error *err)
{
    qsf_hparams *hp = &g->s->hp;
    uint32_t width = 0;
    qsf_status st;
    if (!g->row->eagle) return QSF_OK;
    if (hp->n_layers != 1)
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: an EAGLE 3 head of %u layers; this version runs those "
                        "of one", g->s->path, (unsigned)hp->n_layers);
    if ((st = eagle_taps(g, err)) || (st = qsf_gguf_u32(g, "%s.target_hidden_size", true, &width, err)) ||
        (st = qsf_gguf_bool(g, "%s.norm_before_residual", &hp->eagle_normed, err)) ||
        (st = qsf_gguf_bool(g, "%s.norm_before_fc", &hp->features_normed, err))) return st;
    if (width < 2 || width > 1 << 20)
        return qsf_fail(err, QSF_E_CORRUPT, "%s: key \"eagle3.target_hidden_size\" is %u", g->s->path,
                        (unsigned)width);
    hp->eagle = true;
    hp->n_features = QSF_TAPS * width;
    return QSF_OK;
}

const char *qsf_gguf_eagle_name(const gguf *g, uint32_t kind)
{
    for (const qsf_arch_alias *a = g->row->aliases; a->name; a++)
        if (a->kind == kind) return a->name;
    return kind == QSF_K_MTP_PROJ ? "fc.weight" : qsf_role_of(kind)->gguf;
}

/* The tokens of the other model that the logits are for.  Their number was compared with the file's
 * length. */
static qsf_status eagle_ids(gguf *g, const gguf_tensor *t, qsf_error *err)
{
    const uint32_t n = g->s->hp.n_vocab, words = g->s->vocab.n_tokens;
    uint8_t raw[EAGLE_IDS_READ * sizeof(int64_t)];
    int32_t *ids = NULL;
    if (!qsf_gguf_is_ids(t) || t->dims[0] != n)
        return qsf_fail(err, QSF_E_CORRUPT, "%s: tensor \"d2t\" must have a 64-bit number for each of the %u "
                        "rows of \"output.weight\"", g->s->path, (unsigned)n);
    if (!(ids = qsf_arena_array(g->s->arena, n, sizeof *ids, "tokens of a head", err))) return QSF_E_MEMORY;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t k = i % EAGLE_IDS_READ, more = QSF_MIN(n - i, (uint32_t)EAGLE_IDS_READ);
        const qsf_status st = k ? QSF_OK : qsf_source_read(g->s, t->file, t->at + i * sizeof(int64_t), raw,
                                                           more * sizeof(int64_t), "d2t", err);
        if (st) return st;
        const uint64_t id = qsf_le64(raw + k * sizeof(int64_t));
        if (id > INT32_MAX || (words && id >= words))
            return qsf_fail(err, QSF_E_CORRUPT, "%s: tensor \"d2t\": entry %u is %lld, but the vocabulary "
                            "has %u tokens", g->s->path, (unsigned)i, (long long)id, (unsigned)words);
        ids[i] = (int32_t)id;
    }
    g->s->target_ids = ids;
    return QSF_OK;
}

qsf_status qsf_gguf_eagle_words(gguf *g, qsf_error *err)
{
    qsf_hparams *hp = &g->s->hp;
    if (!hp->eagle) return QSF_OK;
    const gguf_tensor *embd = qsf_gguf_tensor(g, "token_embd.weight"), *ids = qsf_gguf_tensor(g, "d2t");
    const gguf_tensor *head = qsf_gguf_tensor(g, "output.weight");
    if (!head)
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: an EAGLE 3 head without \"output.weight\" uses its "
                        "model's, which this version cannot do; convert a head that has an lm_head",
                        g->s->path);
    if (head->dims[1] > INT32_MAX || (embd && embd->dims[1] > INT32_MAX))
        return qsf_fail(err, QSF_E_CORRUPT, "%s: an embedding or a head of over %d tokens", g->s->path,
                        INT32_MAX);
    hp->n_vocab = (uint32_t)head->dims[1];
    hp->n_words = embd ? (uint32_t)embd->dims[1] : 0;
    return ids ? eagle_ids(g, ids, err) : QSF_OK;
}
#endif
