/* The converter: what to make of each tensor (choose.c, budget.c), preparing it (equalize.c, outliers.c,
 * clusters.c, activations.c, untie.c), making it (convert.c, strip.c), where to (output.c), trying it
 * without layers (importance.c), telling about it (report.c, inspect.c).
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_H
#define QSF_CONVERT_H

#include "input.h"
#include "tensor/quant.h"

#include <stdatomic.h>

enum { CONVERT_MAX_RULES = 64, CONVERT_MAX_THREADS = 256 };

/* What --quant-type names: a choice for the whole model. */
typedef enum convert_preset {
    CONVERT_2BIT, CONVERT_2BIT_SYM, CONVERT_3BIT, CONVERT_4BIT, CONVERT_TERNARY, CONVERT_8BIT, CONVERT_F16, CONVERT_MIXED,
    CONVERT_N_PRESETS
} convert_preset;
const char *convert_preset_name(convert_preset p);             /* "2bit-sym" */
bool        convert_preset_find(const char *name, convert_preset *out);
bool        convert_type_find(const char *name, uint32_t *type);   /* "4bit_s": a type a tensor can be given */

typedef enum convert_switch { CONVERT_AUTO, CONVERT_OFF, CONVERT_ON } convert_switch;

/* --tensor PATTERN=TYPE: pattern is a glob (* and ?) over the tensor's name, or its kind ("attn_v"). */
typedef struct convert_rule { const char *pattern; uint32_t type, block; } convert_rule;   /* block 0: as otherwise */

typedef struct convert_options {
    convert_preset   preset;
    uint32_t         n_rules;
    convert_rule     rules[CONVERT_MAX_RULES];      /* the last that matches wins */
    uint32_t         block;                         /* 0: each type's own */
    uint8_t          compression, packing;
    convert_switch   outliers;                      /* keep the largest weights apart in fp16 */
    convert_switch   equalize;                      /* scale channels between matrices (equalize.c) */
    uint64_t         target_bytes;                  /* 0: none; else the types are chosen to fit it */
    uint64_t         ram_bytes;                     /* most memory for weights at work; 0: no limit */
    uint32_t         n_threads;                     /* 0: one a core */
    uint32_t         head_clusters;                 /* 0: none */
    uint32_t         embd_clusters;                 /* 0: none; else the embedding becomes residuals, and a head that was tied to it a matrix of its own */
    /* Called on the calling thread, now and then; may be NULL. */
    void           (*progress)(void *user, const char *stage, const char *name, uint64_t done, uint64_t total);
    void            *progress_user;
    const atomic_int *cancelled;                  /* not 0: stop, leave nothing behind; may be NULL */
} convert_options;

void convert_defaults(convert_options *o);

/* What becomes of one tensor, and afterwards how well it went. */
typedef struct convert_tensor {
    uint32_t        type, block;
    uint8_t         packing;
    bool            fixed;          /* the user or the format says so: no budget changes it */
    bool            raised;         /* mixed: got more bits than the budget gave it, for its cosine's sake */
    uint64_t        bytes;
    const float    *row_scale, *col_scale;  /* [rows], [cols]: what the weights are multiplied with first, NULL: 1 */
    const qsf_embd_clusters *clusters;      /* whose centroids are taken off the rows, NULL: none */
    const float    *importance;     /* [cols] of each column's squared error, NULL: unknown.  The place for calibration */
    bool            keeps_outliers; /* the largest weights of each row go to a sparse tensor beside it */
    uint64_t        n_outliers;
    uint64_t        outlier_bytes;
    qsf_quant_error error;          /* with outliers put back */
} convert_tensor;

typedef struct convert_report {
    convert_tensor *tensors;        /* [in->n_tensors] */
    uint64_t        n_weights, source_bytes, tensor_bytes, file_bytes;
    uint64_t        ns_plan, ns_run;
    uint8_t         default_type;   /* the header's */
    bool            equalized;
    const qsf_embd_clusters *embd_clusters;     /* NULL: none */
} convert_report;

double convert_relative_error(const qsf_quant_error *e);    /* sum of squared errors over sum of squares */
double convert_cosine(const qsf_quant_error *e);

/* Whether tensor i is a weight matrix, to which quantisers apply; norms, biases and positions are not. */
bool convert_is_matrix(const input_tensor *t);

/* Sets row_scale and col_scale of the layers' tensors so that the network's function stays. */
qsf_status convert_equalize(input *in, const convert_options *o, convert_report *r, qsf_error *err);

/* Chooses type and block of every tensor: r->tensors is filled in (the arena's).  r->embd_clusters is set before. */
qsf_status convert_plan(input *in, const convert_options *o, convert_report *r, qsf_error *err);

/* Outliers as a strip finds them: what the quantised weight lacks, as fp16. */
typedef struct convert_found {
    uint32_t  n, cap;
    uint32_t *row, *col;
    uint16_t *delta;
} convert_found;
qsf_status convert_found_copy(const qsf_platform *p, const convert_found *from, convert_found *to, qsf_error *err);
void       convert_found_free(const qsf_platform *p, convert_found *f);
/* The sparse tensor's bytes (the caller's, c->outlier_bytes of them) out of all strips' finds in order. */
qsf_status convert_found_join(const qsf_platform *p, const convert_found *f, uint32_t n, uint32_t rows, convert_tensor *c, void **data, qsf_error *err);

/* One thread's memory. */
typedef struct convert_strip {
    float        *values;           /* [rows][cols] */
    uint8_t      *blocks;
    float        *weight, *back;    /* [cols] */
    uint32_t      rows;
    uint64_t      values_bytes, blocks_bytes, row_bytes;
    convert_found found;            /* of the last convert_rows */
} convert_strip;
uint32_t   convert_strip_rows(uint32_t cols);      /* a multiple of 16, whatever the machine: results do not depend on threads */
qsf_status convert_strip_new(const qsf_platform *p, uint32_t cols, convert_strip *s, qsf_error *err);
void       convert_strip_free(const qsf_platform *p, convert_strip *s);

/* Rows [row, row + n) of tensor i, quantised as c says, to dst (bytes of that many rows; NULL: only measured); adds to *e. */
qsf_status convert_rows(input *in, uint32_t i, const convert_tensor *c, uint32_t row, uint32_t n, convert_strip *s,
                        uint8_t *dst, qsf_quant_error *e, qsf_error *err);
/* One row whose largest weights go to s->found and cost their blocks nothing (outliers.c). */
qsf_status convert_outlier_row(const qsf_platform *p, const convert_tensor *c, float *w, uint32_t cols, uint32_t row, uint8_t *dst,
                               convert_strip *s, qsf_quant_error *e, qsf_error *err);
/* The error of form c on rows from all over the matrix; *outliers (may be NULL): their share of the weights. */
qsf_status convert_measure(input *in, uint32_t i, const convert_tensor *c, convert_strip *s, qsf_quant_error *e, double *outliers, qsf_error *err);
/* Decides which matrices keep their outliers apart. */
qsf_status convert_outliers(input *in, const convert_options *o, convert_report *r, qsf_error *err);

/* Sorts the head's rows into o->head_clusters clusters (the arena's; NULL where none were asked for). */
qsf_status convert_clusters(input *in, const convert_options *o, const convert_report *r, const qsf_clusters **out, qsf_error *err);

/* Sorts the embedding's rows into o->embd_clusters clusters, alike. */
qsf_status convert_embd_clusters(input *in, const convert_options *o, const qsf_embd_clusters **out, qsf_error *err);
/* What the tables of both take in the file. */
uint64_t   convert_clusters_bytes(const input *in, const convert_options *o);

/* size[n_embd]: root mean square of each column of what the head is multiplied with, 1 on average (activations.c). */
qsf_status convert_activations(const input *in, const convert_options *o, float *size, qsf_error *err);

/* Measures on a text how much the model in the QSF file `from` would miss each layer, and writes it again with that as their importance,
 * whole or not at all (importance.c).  Of o it takes threads, memory, progress and the flag. */
qsf_status convert_calibrate(const qsf_platform *p, const char *from, const char *text, const char *to, const convert_options *o, uint64_t *bytes, qsf_error *err);

/* Whether path may be written (output.c).  QSF_E_ARGUMENT: it is `other` or, through links too, a file that
 * is read; what is no place for a file is as with a writer. */
qsf_status convert_check_output(input *in, const char *path, qsf_error *err);
qsf_status convert_check_place(const qsf_platform *p, const char *path,
                               qsf_error *err);     /* only that a file can be written there */
qsf_status convert_check_unread(input *in, const char *path,
                                qsf_error *err);        /* that it is none of the input's files */
qsf_status convert_check_apart(const qsf_platform *p, const char *path, const char *what, const char *other,
                               qsf_error *err);
qsf_status convert_check_calibration(const qsf_platform *p, const char *text, const char *path,
                                     qsf_error *err);   /* and that text is there */

/* Runs fn(user, i) for i in [0, n) on the platform's threads; the error with the lowest i is reported. */
typedef qsf_status (*convert_job)(void *user, uint32_t i, uint32_t thread, qsf_error *err);
qsf_status convert_parallel(const qsf_platform *p, uint32_t n_threads, uint32_t n, convert_job fn, void *user,
                            const atomic_int *cancelled, qsf_error *err);
uint32_t   convert_threads(const qsf_platform *p, const convert_options *o);

/* Plans, converts, writes path whole or not at all; path is none of the input's files.  QSF_E_CANCELLED: the
 * flag was set.  On success r tells what was done.  With embd_clusters in is untied first and stays so. */
qsf_status convert_run(input *in, const convert_options *o, const char *path, convert_report *r, qsf_error *err);

#endif
