/* An adapter's files as pairs of matrices in floats: a GGUF file in llama.cpp's form, or a
 * directory of PEFT (model/peft.h).
 * SPDX-License-Identifier: MIT */
#ifndef QSF_LORA_FILE_H
#define QSF_LORA_FILE_H

#include "model/peft.h"

/* What is added to a matrix, or to adjacent ones that are one matrix in the file: scale * B A. */
typedef struct qsf_lora_group {
    uint32_t unit, n;
    uint32_t expert, n_experts; /* n_experts 0: the matrix has no experts; else rows are this expert's */
    uint8_t  kinds[3];
    uint32_t rows[3];           /* of each, one below the other in B */
    uint32_t rank, cols;
    float    scale;
    bool     embd;              /* of the token embedding: a [cols][rank], a row for each token */
    float   *a, *b;             /* [rank][cols], [all rows][rank] as the model has them */
} qsf_lora_group;

/* Bytes of the file that are in memory, which are not read again. */
typedef struct qsf_lora_bytes { const uint8_t *bytes; uint64_t at, len; uint32_t file; } qsf_lora_bytes;

typedef struct qsf_lora_file {
    const qsf_source *model;    /* of which hparams, layers and lists of tensors are looked at */
    /* in: called once for each group, for experts one by one; it may change a and b until it
     * returns */
    void       *user;
    qsf_status (*take)(void *user, const qsf_lora_group *g, qsf_error *err);
    peft_warn   warn;
    const qsf_lora_bytes *there;        /* NULL: none */
    /* out, from opening on */
    const char *name;
    float       alpha;
    uint32_t    n_tensors;      /* two for each group, unless experts share them; and norms */
    uint64_t    hash;           /* of all numbers, unchanged from the file */
    /* own */
    gguf        g;
    struct lora_place *places;  /* [n_places] of groups, once they were read */
    uint32_t    n_places;
    bool        peft;
    qsf_peft    more;           /* of PEFT */
    uint8_t     order;          /* how rows of queries and keys lie: a qsf_rope_kind, NONE: unknown */
} qsf_lora_file;

/* Opens path, or file if it is not NULL (as in qsf_source_open).  The caller has set the members
 * marked "in".
 *
 * QSF_E_UNSUPPORTED   no adapter, of another architecture, or one that cannot be run */
qsf_status qsf_lora_file_open(qsf_lora_file *f, const qsf_platform *p, const char *path,
                              const qsf_custom_file *file, qsf_error *err);
qsf_status qsf_lora_file_read(qsf_lora_file *f, qsf_error *err);
/* Reads the groups of one unit again, or with -1 all; f may be a copy of the one that read them. */
qsf_status qsf_lora_file_again(qsf_lora_file *f, int64_t unit, qsf_error *err);
/* After reading: the range of the file with all bytes of a unit's matrices and little between them;
 * out->bytes stays.  false: they are scattered, or the unit has no matrices. */
bool       qsf_lora_file_extent(const qsf_lora_file *f, uint32_t unit, qsf_lora_bytes *out);
void       qsf_lora_file_close(qsf_lora_file *f);       /* takes one that was not opened */

#endif
