/* A comparison of two engines, from the settings to the figures.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_PARITY_H
#define QSF_PARITY_H

#include "compare.h"
#include "llama.h"
#include "prompts.h"

typedef struct parity_settings {
    const char *model;
    const char *other_model;     /* what the other engine reads; NULL: the same file */
    const char *against;         /* "llama.cpp", "bitnet.cpp", "none", or a file of recorded logits */
    const char *lib;             /* llama_options */
    const char *save;            /* file for the other engine's logits, or for ours without one; NULL */
    qsf_context_options context; /* threads, instruction set, budget, keys and values, f32 */
    qsf_io      io;
    qsf_i2s_layout i2s_layout;
    size_t      n_steps;         /* tokens to generate after each prompt */
    bool        forced;          /* the prompts contain the tokens to continue with */
    double      min_cosine, warn_cosine, min_match, max_kl;     /* max_kl < 0: any */
    bool        strict;          /* a different token that is not a tie fails */
    bool        with_prompt;
    const char *other_library;   /* sum of the library's file that was expected, or NULL */
} parity_settings;

typedef enum parity_outcome {
    PARITY_SHOWN,                /* above the thresholds */
    PARITY_FAILED,
    PARITY_NONE                  /* one engine ran alone */
} parity_outcome;

/* One of the two. */
typedef struct parity_side {
    bool     ran;
    char     name[64];
    uint64_t load_ns, ns;
    char     logits[SHA256_HEX], tokens[SHA256_HEX];     /* sums of all rows and of all greedy tokens */
} parity_side;

typedef struct parity_model_file {
    char     sum[SHA256_HEX];
    uint64_t bytes;
} parity_model_file;

typedef struct parity_result {
    parity_model_file file, other_file, library;
    parity_side    side[2];      /* ours, the other */
    parity_totals  totals;
    parity_outcome outcome;
    bool           is_recorded;  /* the other's logits are a file's */
    char           refused[512]; /* why our reader rejects the file, without its path; "" if not */
    const char    *refused_status;
    uint64_t       hash_ns, begin_s;
    char           recorded_model[SHA256_HEX];
    /* open until parity_result_free */
    qsf_model     *model;
    qsf_context   *context;
    parity_llama  *llama;
    struct recorded *recorded;
} parity_result;

/* QSF_OK: *out has the result, whether or not it is parity.  prompts get their ids, and the tokens
 * that were generated.  *of_other: the error is the other engine's, or its library's. */
qsf_status parity_run(const parity_settings *set, prompt_list *prompts, parity_result *out, bool *of_other,
                      qsf_error *err);
void       parity_result_free(parity_result *r);

#endif
