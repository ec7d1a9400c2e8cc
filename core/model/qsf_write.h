/* Writes a QSF file, unit by unit, whole or not at all.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_QSF_WRITE_H
#define QSF_QSF_WRITE_H

#include "model/source.h"

typedef struct qsf_writer qsf_writer;

typedef struct qsf_write_options {
    uint8_t  default_type;      /* header byte 48: a qsf_type 0-5; QSF_T_MIXED if the tensors say */
    uint8_t  compression;       /* QSF_COMPRESS_*, for layers */
    bool     progressive;       /* embedding and layers in two pieces; not with a compression */
    uint32_t max_tensors;       /* room for this many tensors in the directory, outliers included */
    const qsf_clusters *clusters;   /* of the head; NULL: none */
    /* whose centroids the rows of QSF_K_TOKEN_EMBD lack; NULL: none.  Not where tied */
    const qsf_embd_clusters *embd_clusters;
} qsf_write_options;

/* Begins path's temporary file.  hp, v and meta are copied or written immediately.  On an error
 * *out is NULL and no file remains. */
qsf_status qsf_writer_new(const qsf_platform *p, const char *path, const qsf_hparams *hp, const qsf_vocab *v,
                          const qsf_meta *meta, uint32_t n_meta, const qsf_write_options *o, qsf_writer **out,
                          qsf_error *err);
/* Units come in file order: the embedding, the layers, the final section; unit is a
 * qsf_unit_number.  t->data is in memory; packing is taken as given.  The final section's norm must
 * be F16 (original specification); a tied model's has no QSF_K_OUTPUT. */
qsf_status qsf_writer_unit_begin(qsf_writer *w, uint32_t unit, qsf_error *err);
qsf_status qsf_writer_tensor(qsf_writer *w, const qsf_tensor *t, qsf_error *err);
qsf_status qsf_writer_unit_end(qsf_writer *w, float importance, qsf_error *err);
/* Writes what only the end knows, syncs, renames.  Both end w; *bytes is the file's size. */
qsf_status qsf_writer_commit(qsf_writer *w, uint64_t *bytes, qsf_error *err);
void       qsf_writer_abort(qsf_writer *w);      /* takes NULL */

#endif
