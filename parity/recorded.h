/* Logits that were computed before, in a file: docs/parity.md describes it.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_PARITY_RECORDED_H
#define QSF_PARITY_RECORDED_H

#include "engine.h"
#include "files.h"
#include "prompts.h"

enum { RECORDED_NAME = 64 };            /* of an engine, with its end */

/* ---- reading ---- */

typedef struct recorded recorded;

/* Checks all of it, its sum included.  On an error *out is NULL. */
qsf_status    recorded_open(const char *path, recorded **out, qsf_error *err);
void          recorded_close(recorded *r);                              /* takes NULL */
parity_engine recorded_engine(recorded *r);
const char   *recorded_name(const recorded *r);
const char   *recorded_model(const recorded *r);                        /* its sum */
/* Its prompts, whose ids are copied, and the most generated tokens of one. */
qsf_status    recorded_prompts(const recorded *r, prompt_list *out, size_t *n_steps, qsf_error *err);

/* ---- writing ---- */

typedef struct recorder_file {
    file_out file;
    sha256   sum;
    uint32_t n_vocab;
} recorder_file;

qsf_status recorder_begin(recorder_file *w, const char *path, const char *engine,
                          const char model[SHA256_HEX],
                          uint32_t n_vocab, size_t n_prompts, qsf_error *err);
/* Begins and ends a prompt of n tokens, whose rows come between; on an error recorder_end has to
 * follow. */
qsf_status recorder_prompt(recorder_file *w, size_t n, qsf_error *err);
qsf_status recorder_prompt_end(recorder_file *w, qsf_error *err);
/* A token and the logits after it. */
qsf_status recorder_row(recorder_file *w, int32_t id, const float *logits, qsf_error *err);
qsf_status recorder_end(recorder_file *w, qsf_status st, qsf_error *err);

#endif
