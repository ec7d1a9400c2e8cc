/* The file of a calibration: docs/quantisers.md, "Calibration", describes it.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_HESSIAN_FILE_H
#define QSF_CONVERT_HESSIAN_FILE_H

#include "base/arena.h"
#include "calibrate/gram.h"

enum { CAL_MAGIC = 8, CAL_MAX_COLS = 1 << 20 };
extern const char qsf_hessian_magic[CAL_MAGIC];

/* A file's header. */
typedef struct cal_about {
    uint32_t model, settings;   /* fingerprints: of the weights, and of text and options */
    uint32_t n_layers;
    uint64_t tokens;            /* rows that were summed */
} cal_about;

/* ---- writing ---- */
typedef struct cal_writer cal_writer;

/* Begins a file with at most n_inputs inputs.  On an error *out is NULL. */
qsf_status qsf_hessian_create(const qsf_platform *p, const char *path, uint32_t n_inputs, cal_writer **out,
                              qsf_error *err);
/* Writes the next input: the means of its sums.  An expert with fewer rows than columns is not
 * stored. */
qsf_status qsf_hessian_write(cal_writer *w, const cal_gram *g, qsf_error *err);
/* Both end w; abort takes NULL. */
qsf_status qsf_hessian_commit(cal_writer *w, const cal_about *about, qsf_error *err);
void       qsf_hessian_abort(cal_writer *w);

/* ---- reading ---- */
typedef struct cal_record {
    uint32_t unit, kind, cols, crc;
    uint64_t at, bytes;         /* cols floats, then the triangle's */
    float   *size;              /* [cols] roots of the diagonal once requested; else NULL */
} cal_record;

typedef struct cal_file {
    const qsf_platform *platform;
    qsf_arena  *arena;
    char       *path;
    qsf_file   *file;
    cal_about   about;
    uint32_t    n;
    cal_record *records;        /* [n] */
} cal_file;

/* Reads and checks the description.  After an error there is nothing to close. */
qsf_status qsf_hessian_open(const qsf_platform *p, const char *path, cal_file *out, qsf_error *err);
void       qsf_hessian_close(cal_file *f);              /* takes one that was never opened */
/* NULL: nothing is known about this input. */
cal_record *qsf_hessian_find(const cal_file *f, uint32_t unit, uint32_t kind);
/* h[cols][cols], both triangles, and first[cols]; checks the bytes. */
qsf_status qsf_hessian_read(const cal_file *f, const cal_record *r, float *h, float *first, qsf_error *err);

#endif
