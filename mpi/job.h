/* What the parts of qsf-mpi share.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_MPI_JOB_H
#define QSF_MPI_JOB_H

#include "options.h"
#include "wire.h"

#include "qsf.h"

typedef struct job {
    /* as asked for */
    const char *path;
    option_list prompts;
    qsf_context_options context;
    qsf_sampler_options sampler;
    const char *wire_name, *split, *check;
    long long max_tokens;
    double    silent, delay_us, rate_mb;
    bool      raw, ignore_eos, print_ids, print_check, verbose, help, mpi;
    /* this rank */
    qsf_model   *model;
    qsf_context *c;
    qsf_model_info info;
    uint32_t  first, end;           /* its layers */
    uint32_t  n_batch;              /* rows of a batch, on all ranks */
    wire      wire;
} job;

/* Ends the job where the ranks' files are not the same (check.c). */
void job_check_file(const job *j);
/* This rank's layers: as --split says, or by measured speed and memory (split.c). */
void job_split(job *j);
/* Opens this rank's layers, and agrees on context and batch (qsf-mpi.c). */
void job_open(job *j);
/* Rank 0: answers the prompts.  Others: compute what comes, until it ends (pipeline.c). */
void job_lead(job *j);
void job_follow(job *j);

#endif
