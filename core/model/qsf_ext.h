/* The extension section of a QSF file: keys and values for everything that the header has
 * no field for.
 * SPDX-License-Identifier: MIT
 *
 * docs/format.md lists the keys.  Unknown keys are skipped, so a later version may add some. */
#ifndef QSF_QSF_EXT_H
#define QSF_QSF_EXT_H

#include "base/arena.h"
#include "model/source.h"

enum { QSF_EXT_U8 = 1, QSF_EXT_U32 = 2, QSF_EXT_U64 = 3, QSF_EXT_F32 = 4, QSF_EXT_I32 = 5, QSF_EXT_TEXT = 6 };

/* One tensor's line in the directory (key "tensors"), as stored. */
enum { QSF_DIR_BYTES = 28 };

/* ---- writing ---- */

/* Appends to p[cap]; beyond cap it only counts, so that a first pass with cap 0 finds the size. */
typedef struct qsf_ext_out {
    uint8_t *p;
    uint64_t cap, len;
    uint64_t entry_at, data_at; /* of the entry that is open */
    uint32_t n;                 /* entries */
    uint8_t  type;
} qsf_ext_out;

void qsf_ext_begin(qsf_ext_out *o, const char *key, uint8_t type);
void qsf_ext_bytes(qsf_ext_out *o, const void *src, uint64_t len);
void qsf_ext_end(qsf_ext_out *o);          /* counts the elements between */
void qsf_ext_put_u8s(qsf_ext_out *o, const char *key, const void *v, uint64_t n);
void qsf_ext_put_u32s(qsf_ext_out *o, const char *key, const uint32_t *v, uint64_t n);
void qsf_ext_put_u32(qsf_ext_out *o, const char *key, uint32_t v);
void qsf_ext_put_u64s(qsf_ext_out *o, const char *key, const uint64_t *v, uint64_t n);
void qsf_ext_put_u64(qsf_ext_out *o, const char *key, uint64_t v);

void qsf_ext_put_hparams(qsf_ext_out *o, const qsf_hparams *hp);
/* Whether it has keys that readers of version 2 would skip, and then compute something else. */
bool qsf_ext_needs_reader(const qsf_hparams *hp);
void qsf_ext_put_vocab(qsf_ext_out *o, const qsf_vocab *v);
void qsf_ext_put_f32s(qsf_ext_out *o, const char *key, const float *v, uint64_t n);
void qsf_ext_put_clusters(qsf_ext_out *o, const qsf_clusters *c, const qsf_hparams *hp);
void qsf_ext_put_embd_clusters(qsf_ext_out *o, const qsf_embd_clusters *c, const qsf_hparams *hp);
void qsf_ext_put_meta(qsf_ext_out *o, const qsf_meta *meta, uint32_t n);
void qsf_ext_tensor_line(uint8_t line[QSF_DIR_BYTES], uint32_t unit, const qsf_tensor *t, uint64_t place);

/* ---- reading ---- */

typedef struct qsf_ext {
    const uint8_t *p;           /* NULL: the file has no such section; then no key is found */
    uint64_t       len;
    uint32_t       n;
    const char    *path;        /* for messages */
} qsf_ext;

typedef struct qsf_ext_value {
    const uint8_t *data;        /* little-endian elements */
    uint32_t       count;
    uint8_t        type;
} qsf_ext_value;

/* Checks that every entry lies inside p[len]. */
qsf_status qsf_ext_open(qsf_ext *x, const void *p, uint64_t len, const char *path, qsf_error *err);
/* *v is the first entry with that key; count 0 and data NULL if the key is missing.
 * QSF_E_CORRUPT: it has another type. */
qsf_status qsf_ext_get(const qsf_ext *x, const char *key, uint8_t type, qsf_ext_value *v, qsf_error *err);
/* One number; *out keeps its value if the key is missing. */
qsf_status qsf_ext_get_u32(const qsf_ext *x, const char *key, uint32_t *out, qsf_error *err);
qsf_status qsf_ext_get_u64(const qsf_ext *x, const char *key, uint64_t *out, qsf_error *err);

/* Fields whose key is missing keep their value. */
qsf_status qsf_ext_get_hparams(const qsf_ext *x, qsf_hparams *hp, qsf_arena *a, qsf_error *err);
qsf_status qsf_ext_get_vocab(const qsf_ext *x, qsf_vocab *v, qsf_arena *a, qsf_error *err);
/* *c is NULL if the file has no clusters.  hp is checked. */
qsf_status qsf_ext_get_clusters(const qsf_ext *x, const qsf_hparams *hp, const qsf_clusters **c, qsf_arena *a,
                                qsf_error *err);
qsf_status qsf_ext_get_embd_clusters(const qsf_ext *x, const qsf_hparams *hp, const qsf_embd_clusters **c,
                                     qsf_arena *a, qsf_error *err);
qsf_status qsf_ext_get_meta(const qsf_ext *x, qsf_meta **meta, uint32_t *n, qsf_arena *a, qsf_error *err);

#endif
