/* A model file as the engine sees it: a description, then units of tensors.  QSF and GGUF both end
 * here (core/model/qsf_read.c, core/model/gguf_read.c); the engine does not know which it runs.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_SOURCE_H
#define QSF_SOURCE_H

#include "base/host.h"
#include "model/layer_record.h"
#include "model/unit.h"
#include "tensor/types.h"
#include "tokens/vocab.h"

enum { QSF_MAX_SPLITS = 512 };
/* Layers of another model whose inputs an EAGLE 3 head takes. */
enum { QSF_TAPS = 3 };

/* Rows of the head clustered by similarity, for QSF_HEAD_CLUSTERS; docs/format.md describes the
 * numbers. */
typedef struct qsf_clusters {
    uint32_t   n;
    uint32_t  *first;             /* [n + 1] places of a cluster's rows in order */
    uint32_t  *order;             /* [n_vocab] rows, cluster by cluster */
    uint32_t  *place;             /* [n_vocab] a row's index in order; not used for writing */
    float     *radius;            /* [n] how far rows are from their centroid */
    float     *scale;             /* [n_embd] what columns count in distances */
    qsf_tensor centroids;         /* [n][n_embd], 8 bits in tiles, in memory */
} qsf_clusters;
enum { QSF_MAX_CLUSTERS = 65536 };

/* The token embedding's rows clustered by similarity: its tensor has their differences from their
 * cluster's centroid. */
typedef struct qsf_embd_clusters {
    uint32_t   n;
    uint16_t  *of;                /* [n_vocab] a row's cluster */
    qsf_tensor centroids;         /* [n][n_embd], 8 bits in rows, in memory */
} qsf_embd_clusters;

/* Metadata for --info: key, and the value as text. */
typedef struct qsf_meta { const char *key, *value; } qsf_meta;

/* An opened, checked model file; nothing in it changes afterwards. */
typedef struct qsf_source {
    const qsf_platform *platform;
    /* files are read through this: the platform, or a wrapper over a custom file; only the members
     * for reading are set, and those that the host's table lacks are NULL */
    const qsf_platform *io;
    const char   *format;         /* "QSF", "GGUF" */
    char         *path;
    bool          vocab_only;     /* as asked: weights may be missing */
    bool          mtp;            /* as asked: only the layer for multi-token prediction runs */
    uint32_t      n_mtp;          /* layers for multi-token prediction in the file that could run */
    /* of an EAGLE 3 head: the layers of the other model whose inputs are its features, and the
     * other model's tokens that its logits are for; NULL: the same tokens */
    uint32_t      taps[QSF_TAPS];
    int32_t      *target_ids;     /* [hp.n_vocab] */
    uint8_t       i2s_layout;     /* as asked: a qsf_i2s_layout */
    qsf_hparams   hp;
    /* What the engine computes from; empty if vocab_only is set. */
    uint32_t      n_ropes;
    qsf_rope_record *ropes;
    qsf_layer    *layers;         /* [hp.n_layers] */
    qsf_layer_most most;          /* of them */
    uint32_t      n_before, n_after;            /* layers that are not run here: model/part.h */
    uint32_t      share, n_shares;              /* of each layer that is: model/share.h; 0, 0: all of it */
    const struct qsf_shared *shared;            /* [hp.n_layers] what it has; NULL: all of it */
    qsf_vocab     vocab;
    uint32_t    (*crc32)(uint32_t crc, const void *p, size_t len);      /* the fastest here */
    uint32_t      n_files;
    qsf_file    **files;
    uint64_t     *lengths;        /* [n_files] */
    const char  **paths;          /* [n_files] */
    /* by number, see qsf_unit_number */
    uint32_t      n_units;
    qsf_unit     *units;
    uint32_t      n_extents;
    qsf_extent   *extents;
    /* Tensors of all units with shapes and types.  In a unit they lie in order of use; tensor.data
     * is NULL and places[i] is the tensor's offset in its unit's raw bytes. */
    uint32_t      n_tensors;
    qsf_tensor   *tensors;
    uint64_t     *places;
    uint64_t      n_params, weight_bytes;
    uint32_t      n_meta;
    qsf_meta     *meta;
    struct qsf_arena *arena;      /* owns all of the above */
    /* CRC-32s of each crc_chunk bytes of the embedding's and the final unit, for reading them in
     * parts; NULL if the file does not have them. */
    uint32_t      crc_chunk, n_embd_crcs, n_final_crcs;
    const uint32_t *embd_crcs, *final_crcs;
    const qsf_clusters *clusters; /* NULL: not in the file */
    /* not NULL: a row of the embedding is its tensor's row plus its cluster's centroid; NULL if
     * tied */
    const qsf_embd_clusters *embd_clusters;
    /* bytes that were taken while the file was opened, most of which have been given back */
    uint64_t      opening;
    struct qsf_unpack *unpack;    /* the decompressor's memory; NULL if no unit needs it */
} qsf_source;
static inline uint32_t qsf_source_unit(const qsf_source *s, qsf_unit_id id)
{
    return qsf_unit_number(s->hp.n_layers, id);
}
static inline uint32_t qsf_unit_embd(const qsf_source *s) { return qsf_source_unit(s, qsf_id_embd()); }
static inline uint32_t qsf_unit_final(const qsf_source *s) { return qsf_source_unit(s, qsf_id_final()); }

/* The record of a unit that is a layer; NULL: not a layer. */
static inline const qsf_layer *qsf_source_layer(const qsf_source *s, uint32_t unit)
{
    return unit < s->hp.n_layers ? &s->layers[unit] : NULL;
}

/* Opens by magic.  custom: instead of a path (which then is only a name and may be NULL), or
 * NULL; it is copied, and its close is called once, when the source is closed or opening
 * failed.  vocab_only: a file without weights is accepted (n_units is 0 then).  On an error
 * *out is NULL. */
qsf_status qsf_source_open(const qsf_platform *p, const char *path, const qsf_custom_file *custom,
                           bool vocab_only, qsf_source **out, qsf_error *err);
/* The same, with a given layout for tensors of type I2_S; otherwise their sizes determine it. */
qsf_status qsf_source_open_as(const qsf_platform *p, const char *path, const qsf_custom_file *custom,
                              bool vocab_only, qsf_i2s_layout i2s, qsf_source **out, qsf_error *err);
/* The same of the layer for multi-token prediction, which is the last one of the source's layers:
 * the others are described, but do not run. */
qsf_status qsf_source_open_mtp(const qsf_platform *p, const char *path, const qsf_custom_file *custom,
                               qsf_i2s_layout i2s, qsf_source **out, qsf_error *err);
/* As qsf_source_open, but nothing is read: the files only, for a reader of another kind of file. */
qsf_status qsf_source_open_bare(const qsf_platform *p, const char *path, const qsf_custom_file *custom,
                                qsf_source **out, qsf_error *err);
void       qsf_source_close(qsf_source *s);      /* accepts NULL and a partly built one */

/* How its files are read from now on (qsf_platform's read_by).
 * *how: NULL if the host does not say. */
qsf_status qsf_source_read_by(const qsf_source *s, qsf_io io, bool streams, const char **how, qsf_error *err);

/* After a unit's extents have been read to stored[]: checks its CRC and, if compressed,
 * decompresses to raw[] (raw may be NULL if the unit is not compressed).  For QSF, checks that
 * the tensor headers in the bytes are those that opening saw. */
qsf_status qsf_unit_check(const qsf_source *s, uint32_t unit, const void *stored, void *raw, qsf_error *err);
enum { QSF_CHECK_CRC = 1, QSF_CHECK_FIRST = 2, QSF_CHECK_SHARED = 4 };
/* The same; the CRC only with QSF_CHECK_CRC.  With QSF_CHECK_FIRST, stored has only the first of
 * the unit's two pieces (u->stored - u->rest bytes); with QSF_CHECK_SHARED, only what
 * qsf_unit_shared has.  Adds what it took to *t. */
typedef struct qsf_unit_times { uint64_t check, unpack; } qsf_unit_times;      /* ns */
qsf_status qsf_unit_check_timed(const qsf_source *s, uint32_t unit, const void *stored, void *raw,
                                unsigned check, qsf_unit_times *t, qsf_error *err);

/* Opening needs a QSF layer's tensor headers, which lie inside the (maybe compressed) layer:
 * the reader loads each layer once while opening when it is compressed, and only its headers
 * when it is not. */

/* Reads one tensor into fresh memory (for the converter and tests): *data is the caller's,
 * qsf_dealloc(p, *data, t->bytes). */
qsf_status qsf_source_load(const qsf_source *s, uint32_t unit, uint32_t tensor, void **data, qsf_error *err);

#endif
