/* Reads the network's description and its tokens from config.json and generation_config.json.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_HF_CONFIG_H
#define QSF_CONVERT_HF_CONFIG_H

#include "model/source.h"
#include "base/arena.h"
#include "read/hf_type_find.h"
#include "read/json.h"

/* What weight files hold of ternary matrices. */
typedef enum hf_ternary {
    HF_TERNARY_NONE,
    HF_TERNARY_MASTERS,         /* floats, which become ternary by their mean magnitude */
    HF_TERNARY_TIMES,           /* codes, and weight_scale, by which they are multiplied */
    HF_TERNARY_OVER             /* codes, and weight_scale, by which they are divided */
} hf_ternary;

typedef struct hf_config {
    const hf_type  *type;
    const hf_type  *other_type;              /* with the names that it has not, of those of older files and
                                              * newer ones; NULL: there is one list of names */
    const qsf_arch *arch;
    uint64_t    need;                        /* kinds, as bits, besides those of the architecture */
    uint8_t     ternary;                     /* hf_ternary */
    uint32_t    n_guessing;                  /* extra layers at the end, which predict further tokens */
    bool        takes_mtp;                   /* the first of them is converted, too */
    bool        head_twice;                  /* the head is the embedding, but stored as a separate matrix */
    bool        pictures;                    /* the text model is one part, next to a vision model */
    bool        own_head;                    /* of a reranker whose head is not part of the model */
    bool        rerank;                      /* the score is the share of "yes" in the answer */
    /* Folders of sentence-transformers modules; NULL if absent. */
    const char *pooling, *dense[2];
    uint32_t    n_dense;                     /* of which config.json was read */
    int32_t     bos, eos, pad;               /* -1: not set */
    uint32_t    n_more_eos;
    int32_t     more_eos[16];                /* where eos_token_id is a list: all of it */
} hf_config;

#define HF_CONFIG_FILE "config.json"
#define HF_CONFIG_MOST 1e12     /* no base, factor or cap of a network comes near */

#ifdef QSF_HAVE_YYJSON
/* config.json to hparams.  QSF_E_UNSUPPORTED names the model type or the setting, QSF_E_CORRUPT the
 * member.  arena: rope factors. */
qsf_status qsf_hf_config_read(yyjson_val *root, qsf_arena *arena, qsf_hparams *hp, hf_config *cfg,
                              qsf_error *err);
/* Token ids of config.json and generation_config.json: a number, a list, or nothing. */
qsf_status qsf_hf_config_tokens(yyjson_val *root, const char *what, hf_config *cfg, qsf_error *err);
/* Adds one more end token, if it is new and not -1. */
qsf_status qsf_hf_add_end(hf_config *cfg, const char *what, int32_t id, qsf_error *err);
/* That these are rows of the embedding. */
qsf_status qsf_hf_check_tokens(const hf_config *cfg, const char *what, uint32_t n_vocab, qsf_error *err);
#endif

#endif
