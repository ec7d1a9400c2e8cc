/* Rerankers that answer yes or no (Qwen3-Reranker) as classifiers: two rows of the head are all
 * that a score takes.  No member of config.json tells them from models that write texts;
 * llama.cpp's converter goes by the same names.
 * SPDX-License-Identifier: MIT */
#include "read/hf_rerank.h"
#include "base/text_file.h"

#ifdef QSF_HAVE_YYJSON

static bool rerank_contains(const char *text, const char *word)
{
    for (; *text; text++) {
        size_t n = 0;
        while (word[n] && (text[n] >= 'A' && text[n] <= 'Z' ? text[n] + 32 : text[n]) == word[n]) n++;
        if (!word[n]) return true;
    }
    return false;
}

bool qsf_hf_rerank_name(const char *name) { return name && rerank_contains(name, "qwen3-reranker"); }

qsf_status qsf_hf_rerank_find(const char *dir, input *in, hf_config *cfg, qsf_error *err)
{
    const qsf_platform *p = in->platform;
    char *text;
    uint64_t len;
    size_t end = strlen(dir), at;
    if (!cfg->type->yes_no) return QSF_OK;
    while (end && (dir[end - 1] == '/' || dir[end - 1] == '\\')) end--;
    for (at = end; at && dir[at - 1] != '/' && dir[at - 1] != '\\'; ) at--;
    if (!cfg->rerank) cfg->rerank = qsf_hf_rerank_name(dir + at);
    if (!cfg->rerank) {
        const qsf_status st = qsf_text_file_read(p, dir, "README.md", 4 << 20, &text, &len, NULL);
        if (st == QSF_E_MEMORY) return qsf_fail(err, st, "no memory for README.md");
        if (!st) cfg->rerank = rerank_contains(text, "# qwen3-reranker");
        if (!st) qsf_dealloc(p, text, len + 1);
    }
    if (!cfg->rerank) return QSF_OK;
    in->hp.n_classes = 2;
    in->hp.pooling = QSF_POOL_RANK;
    cfg->own_head = !in->hp.tied;
    in->hp.tied = true;
    return QSF_OK;
}

static int32_t rerank_token(const qsf_vocab *v, const char *text)
{
    const size_t len = strlen(text);
    for (uint32_t i = 0; i < v->n_tokens; i++)
        if (v->at[i + 1] - v->at[i] == len && !memcmp(v->text + v->at[i], text, len)) return (int32_t)i;
    return -1;
}

qsf_status qsf_hf_rerank(const hf_weights *w, const hf_config *cfg, input *in, hf_place *places,
                         qsf_error *err)
{
    const qsf_hparams *hp = &in->hp;
    const int32_t yes = rerank_token(&in->vocab, "yes"), no = rerank_token(&in->vocab, "no");
    uint32_t embd = 0;
    if (!cfg->rerank) return QSF_OK;
    if (yes < 0 || no < 0)
        return qsf_fail(err, QSF_E_UNSUPPORTED,
                        "a reranker whose vocabulary has no tokens \"yes\" and \"no\"");
    while (embd + 1 < in->n_tensors && in->tensors[embd].kind != QSF_K_TOKEN_EMBD) embd++;
    hf_place head = places[embd];
    const weights_tensor *own = cfg->own_head ? qsf_hf_weights_find(w, "lm_head.weight") : NULL;
    if (own) {
        if (own->n_dims != 2 || own->shape[0] != hp->n_vocab || own->shape[1] != hp->n_embd ||
            own->transposed)
            return qsf_fail(err, QSF_E_CORRUPT, "tensor %s is not of the embedding's shape", own->name);
        if (own->type == WEIGHTS_NO_TYPE)
            return qsf_fail(err, QSF_E_UNSUPPORTED, "tensor %s is of type %s (supported: F16, BF16, F32)",
                            own->name, own->dtype);
        head.t = own;
    }
    /* Row 0 is that of "yes"; the step from it to "no" may be one back, which wraps. */
    head.first = (uint64_t)yes * hp->n_embd;
    head.row_step = ((uint64_t)no - (uint64_t)yes) * hp->n_embd;
    input_tensor *t = &in->tensors[in->n_tensors];
    *t = (input_tensor){ .unit = qsf_unit_number(hp->n_layers, qsf_id_final()), .kind = QSF_K_CLS_OUT,
                         .rows = 2, .cols = hp->n_embd, .source_type = head.t->type,
                         .stored_bytes = (uint64_t)hp->n_embd * (head.t->type == QSF_T_F32 ? 8 : 4),
                         .name = "cls.output" };
    places[in->n_tensors++] = head;
    return QSF_OK;
}

#endif
