/* What the parts of qsf-mpi share.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_MPI_JOB_H
#define QSF_MPI_JOB_H

#include "common_options.h"
#include "wire.h"

#include "qsf.h"

#include <stdio.h>

enum { JOB_ADAPTERS = 8 };      /* of a sequence, at most */

/* An adapter of a sequence, as ranks tell each other of it. */
typedef struct job_adapter { uint32_t number; float scale; } job_adapter;

typedef struct job {
    /* as asked for */
    const char *path;
    option_list prompts, lora;    /* no prompts: a chat */
    qsf_context_options context;
    qsf_sampler_options sampler;
    const char *wire_name, *split, *check, *system, *template_name, *logits_path;
    long long max_tokens;
    double    silent, delay_us, rate_mb;
    bool      raw, ignore_eos, print_ids, print_check, verbose, mpi, tensor;
    about_settings about;
    long long hang;                 /* a rank, -1: none */
    /* this rank */
    qsf_model   *model;
    qsf_context *c;
    qsf_model_info info;
    uint32_t  first, end;           /* its layers */
    uint32_t  n_batch;              /* rows of a batch, on all ranks */
    wire      wire;
    FILE     *logits;               /* rank 0's, of all texts, or NULL */
    qsf_adapter **adapters;         /* [n_adapters] of a server, by number; NULL: unused */
    uint32_t  n_adapters;
    const char *lora_dir;           /* where those are that are loaded later, or NULL */
} job;

/* Ends the job if the ranks' files differ (check.c): the model, or all bytes of an adapter's file
 * or directory. */
void job_check_file(const job *j);
void job_check_adapter(const char *path);
/* For any thread: a hash of all bytes of an adapter's file or directory; 0: they cannot be read. */
uint64_t job_adapter_sum(const char *path);
/* This rank's layers: from --split, or by measured speed and memory (split.c). */
void job_split(job *j);
/* What there is before any layer is opened: how many there are. */
void job_describe(job *j);
/* With the model open: every rank has what the tightest budget leaves; other differences would be
 * other results. */
void job_agree(job *j);
/* Opens this rank's layers, and agrees on context and batch (qsf-mpi.c). */
void job_open(job *j);
/* Computes a batch here, from tokens (x NULL) or states; reports at each step that it is alive
 * (compute.c). */
void job_compute(const job *j, const qsf_row *rows, size_t n, const float *x);
/* Each rank has a share of all layers (tensor.c): what it opens; which rows all compute next, and
 * that there are no more; the other ranks. */
void job_share(const job *j, qsf_model_options *mo);
void job_share_begin(const job *j);
void job_tell(const job *j, const qsf_row *rows, size_t n);
void job_tell_end(void);
void job_follow_rows(job *j);
/* Rank 0: answers the prompts.  Others: compute what comes, until it ends (pipeline.c). */
void job_lead(job *j);
void job_follow(job *j);
/* Rank 0, for one sequence: computes rows here and on the later ranks.  Returns the logits of the
 * last row if it asks for them, valid until the next call. */
const float *job_rows(job *j, const qsf_row *rows, size_t n);
/* The same of any rows, with states that this rank has computed; logits of all that ask are
 * written. */
void job_behind(job *j, const qsf_row *rows, size_t n, const float *states, size_t ld_states, float *logits,
                size_t ld_logits);
/* The later ranks do the same with sequences as this one. */
void job_back(qsf_seq s, uint32_t n);
void job_share_seq(qsf_seq dst, qsf_seq src, uint32_t n);
void job_adapt(qsf_seq s, const job_adapter *uses, size_t n);
/* The later ranks read an adapter under this number, from its path within their lora_dir, if its
 * bytes have this sum; *err: the first failure, with its rank.  job_drop_adapter: they drop it. */
void job_load_adapter(uint32_t number, const char *path, uint64_t sum, qsf_error *err);
void job_drop_adapter(uint32_t number);
/* All ranks truncate sequence 0 to n positions, or to fewer if a model cannot stop exactly there;
 * returns how many are left. */
uint32_t job_cut(job *j, uint32_t n);
void job_end(void);             /* the others end */
/* Rank 0: answers messages from standard input (chat.c). */
void job_chat(job *j);
/* The adapters of --lora, of this rank's layers: what they take counts in the plan; then every
 * sequence has them (lora.c). */
void job_adapters_load(job *j);
void job_adapters_use(job *j);
void job_adapters_free(void);   /* once the context is freed */
/* A server's adapters (adapters.c): reads one, which the plan must have room for where there is a
 * context; lets go of one. */
qsf_status job_adapter_open(job *j, uint32_t number, const char *path, uint64_t *bytes, qsf_error *err);
void job_adapter_close(job *j, uint32_t number);
/* As another rank asks for it, by a path within lora_dir. */
void job_adapter_asked(job *j, uint32_t number, const char *path, uint64_t sum, qsf_error *err);

#endif
