/* Between the files of the Hugging Face reader: hf.c opens and joins, hf_config.c reads config.json, hf_names.c
 * says which tensor is what, hf_tokenizer.c and sentencepiece.c make the vocabulary.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_HF_H
#define QSF_CONVERT_HF_H

#include "input.h"
#include "json.h"
#include "weights.h"

/* Families share tensor names and rules; hp.arch is finer. */
typedef enum hf_family { HF_LLAMA, HF_PHI3, HF_GEMMA, HF_GEMMA2, HF_GEMMA3, HF_GPT2 } hf_family;

typedef struct hf_config {
    hf_family   family;
    char        model_type[32];
    bool        q_bias, o_bias, mlp_bias;    /* tensors that must be there */
    bool        qk_norm;
    bool        pictures;                    /* the text model is a part, beside one for pictures */
    int32_t     bos, eos, pad;               /* -1: not said */
    uint32_t    n_more_eos;
    int32_t     more_eos[16];                /* where eos_token_id is a list: all of it */
} hf_config;

/* Where the values of one input tensor come from. */
typedef struct hf_place {
    const weights_tensor *t;
    uint64_t first;         /* values before the part, in the first stored row */
    uint64_t stride;        /* transposed: values from one stored row to the next; 0: rows lie one after another */
    float    add;           /* Gemma stores its norms less 1 */
} hf_place;

/* All weight files with an index by name. */
typedef struct hf_weights {
    uint32_t         n_files;
    weights_file    *files;
    uint32_t         n;
    weights_tensor **by_name;       /* sorted */
} hf_weights;

/* Names of the supported model types, for messages. */
extern const char hf_supported[];

#ifdef QSF_HAVE_YYJSON
/* config.json to hparams.  QSF_E_UNSUPPORTED names the model type or the setting, QSF_E_CORRUPT the member.  arena: rope factors. */
qsf_status hf_config_read(yyjson_val *root, qsf_arena *arena, qsf_hparams *hp, hf_config *cfg, qsf_error *err);
/* Token ids of config.json and generation_config.json: a number, a list, or nothing. */
qsf_status hf_config_tokens(yyjson_val *root, const char *what, hf_config *cfg, qsf_error *err);
/* One more end token, where it is new and not -1. */
qsf_status hf_add_end(hf_config *cfg, const char *what, int32_t id, qsf_error *err);
/* That these are rows of the embedding. */
qsf_status hf_check_tokens(const hf_config *cfg, const char *what, uint32_t n_vocab, qsf_error *err);
#endif

weights_tensor *hf_weights_find(const hf_weights *w, const char *name);

/* Makes in->tensors and the places behind them.  A missing tensor, a wrong shape or dtype, and a tensor that
 * has no place in the network are errors by name; *ignored counts those that no text depends on. */
qsf_status hf_map_tensors(const hf_weights *w, const hf_config *cfg, input *in, hf_place **places, uint32_t *ignored, qsf_error *err);

/* Reads dir/name whole (at most max bytes) into fresh memory of *len + 1 bytes, terminated; for qsf_dealloc(p, text, len + 1).
 * QSF_E_NOT_FOUND without a message where there is none. */
qsf_status hf_read_text(const qsf_platform *p, const char *dir, const char *name, uint64_t max, char **text, uint64_t *len, qsf_error *err);

/* tokenizer.json or tokenizer.model, with what the other files say, to in->vocab of hp.n_vocab tokens.
 * *ignored counts control tokens without a row of the embedding, which no text can reach; any other without
 * one is an error. */
qsf_status hf_vocab_read(const char *dir, const hf_config *cfg, input *in, uint32_t *ignored, qsf_error *err);

#endif
