/* adapter_config.json of a PEFT directory: what of it changes answers, and by how much each matrix
 * is changed.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_PEFT_CONFIG_H
#define QSF_PEFT_CONFIG_H

#include "base/arena.h"
#include "text/json.h"

enum { PEFT_MAX_MODULES = 65536 };

/* A module of the base model that has an adapter. */
typedef struct peft_module {
    const char *name;           /* "model.layers.0.self_attn.q_proj", terminated */
    uint32_t    rank;           /* of its tensors */
    float       scale;          /* out */
    bool        met;            /* for peft_config.c */
    float       alpha;
    uint32_t    asked;          /* the rank in the file */
} peft_module;

/* Where warnings go; tell may be NULL. */
typedef struct peft_warn { void *user; void (*tell)(void *user, const char *line); } peft_warn;

/* Reads dir's adapter_config.json and refuses by name what this version cannot run.  j is the
 * caller's, for qsf_json_drop.
 *
 * QSF_E_CORRUPT       a member is of another kind than PEFT writes
 * QSF_E_UNSUPPORTED   DoRA and its like, biases, whole modules */
qsf_status qsf_peft_config_read(const qsf_platform *p, const char *dir, qsf_json *j, const peft_warn *w,
                                qsf_error *err);
/* Checks the modules m[n] against what the file says of modules and ranks, and gives each its
 * scale.  tmp: for patterns. */
qsf_status qsf_peft_config_apply(const qsf_json *j, const char *dir, peft_module *m, uint32_t n,
                                 qsf_arena *tmp, const peft_warn *w, float *alpha, qsf_error *err);

#endif
