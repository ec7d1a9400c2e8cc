/* A model file as the engine sees it: a description, then units of tensors.  QSF and GGUF both end here
 * (core/model/qsf_read.c, core/model/gguf_read.c); the engine does not know which it runs.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_SOURCE_H
#define QSF_SOURCE_H

#include "base/host.h"
#include "model/unit.h"
#include "tensor/types.h"
#include "text/vocab.h"

/* ---- the architecture as data ---- */
enum { QSF_NORM_LAYER = 0, QSF_NORM_RMS = 1 };
enum { QSF_ACT_GELU = 0, QSF_ACT_SILU = 1, QSF_ACT_RELU = 2 };                     /* header byte 49; GELU is the tanh form */
enum { QSF_ROPE_NONE = 0, QSF_ROPE_PAIRS = 1, QSF_ROPE_HALVES = 2 };               /* x[2i],x[2i+1] or x[i],x[i+d/2] */
enum { QSF_SCALING_NONE = 0, QSF_SCALING_LINEAR = 1, QSF_SCALING_YARN = 2, QSF_SCALING_LONGROPE = 3 };

typedef struct qsf_hparams {
    char     arch[32];            /* GGUF's name: "llama", "qwen2", "gemma3", "gpt2", "custom", ... */
    char     name[96];
    uint32_t n_layers, n_embd, n_heads, n_kv_heads, head_dim, n_ff, n_vocab, n_ctx_train;
    uint8_t  norm, act, rope;
    bool     gated;               /* act(gate) * up, else act(up) */
    bool     learned_pos;         /* QSF_K_POS_EMBD is added to the embedding */
    bool     tied;                /* the head is the embedding */
    float    norm_eps;
    float    embd_scale;          /* 1; Gemma: sqrt(n_embd) */
    float    attn_scale;          /* of q.k; 0 means 1 / sqrt(head_dim) */
    float    attn_softcap, final_softcap;   /* 0: none; c * tanh(x / c) */
    uint32_t window;              /* positions a windowed layer sees, itself included; 0: all */
    uint32_t window_pattern;      /* 0: every layer is windowed; n: layer i is global where i % n == n - 1 */
    uint32_t rope_dim;            /* 0: head_dim */
    float    rope_base;           /* of global layers */
    float    rope_base_local;     /* of windowed layers; 0: rope_base */
    uint8_t  scaling;             /* applies to global layers; to all where rope_base_local is 0 */
    float    scaling_factor;      /* > 1 stretches */
    uint32_t scaling_orig_ctx;
    float    yarn_ext_factor, yarn_attn_factor, yarn_beta_fast, yarn_beta_slow;   /* -1 (ext): 1 where YaRN, else 0 */
    float   *rope_factors;        /* [rope_dim / 2] divisors of the frequencies (Llama 3, longrope short), or NULL */
    float   *rope_factors_long;   /* longrope beyond scaling_orig_ctx, or NULL */
    float    rope_attn_factor;    /* longrope: multiplies sin and cos; 0 means 1 */
} qsf_hparams;

enum { QSF_MAX_HEAD_DIM = 1024, QSF_MAX_SPLITS = 512 };

/* Rows of the head by likeness, for QSF_HEAD_CLUSTERS; docs/format.md says what the numbers are. */
typedef struct qsf_clusters {
    uint32_t   n;
    uint32_t  *first;             /* [n + 1] places of a cluster's rows in order */
    uint32_t  *order;             /* [n_vocab] rows, cluster by cluster */
    uint32_t  *place;             /* [n_vocab] where a row stands in order; not used for writing */
    float     *radius;            /* [n] how far rows are from their centroid */
    float     *scale;             /* [n_embd] what columns count in distances */
    qsf_tensor centroids;         /* [n][n_embd], 8 bits in tiles, in memory */
} qsf_clusters;
enum { QSF_MAX_CLUSTERS = 65536 };

/* The token embedding's rows by likeness: its tensor has what is left of them without their cluster's centroid. */
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
    const qsf_platform *io;       /* files are read through this: the platform, or a wrapper over a custom file; only the members for
                                   * reading are set, and those that the host's table lacks are NULL */
    const char   *format;         /* "QSF", "GGUF" */
    char         *path;
    bool          vocab_only;     /* as asked: weights may be missing */
    qsf_hparams   hp;
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
    /* Tensors of all units with shapes and types.  In a unit they lie in order of use; tensor.data is NULL and
     * places[i] is the tensor's offset in its unit's raw bytes. */
    uint32_t      n_tensors;
    qsf_tensor   *tensors;
    uint64_t     *places;
    uint64_t      n_params, weight_bytes;
    uint32_t      n_meta;
    qsf_meta     *meta;
    struct qsf_arena *arena;      /* owns all of the above */
    /* CRC-32s of each crc_chunk bytes of the embedding's and the final unit, for reading them in parts; NULL where the file has none. */
    uint32_t      crc_chunk, n_embd_crcs, n_final_crcs;
    const uint32_t *embd_crcs, *final_crcs;
    const qsf_clusters *clusters; /* NULL: the file has none */
    const qsf_embd_clusters *embd_clusters;     /* not NULL: a row of the embedding is its tensor's row and its cluster's centroid; never where tied */
    uint64_t      opening;        /* bytes that were taken while the file was opened, most of which have been given back */
    struct qsf_unpack *unpack;    /* the decompressor's memory; NULL where no unit needs it */
} qsf_source;
static inline uint32_t qsf_source_unit(const qsf_source *s, qsf_unit_id id)
{
    return qsf_unit_number(s->hp.n_layers, id);
}
static inline uint32_t qsf_unit_embd(const qsf_source *s) { return qsf_source_unit(s, qsf_id_embd()); }
static inline uint32_t qsf_unit_final(const qsf_source *s) { return qsf_source_unit(s, qsf_id_final()); }

/* Opens by magic.  custom: instead of a path (which then is only a name and may be NULL), or NULL; it is copied, and its close is called
 * once, when the source is closed or opening failed.  vocab_only: a file without weights is accepted (n_units is 0 then).  On an error
 * *out is NULL. */
qsf_status qsf_source_open(const qsf_platform *p, const char *path, const qsf_custom_file *custom, bool vocab_only,
                           qsf_source **out, qsf_error *err);
void       qsf_source_close(qsf_source *s);      /* takes NULL and half-built */

/* How its files are read from now on (qsf_platform's read_by).  *how: NULL where the host does not say. */
qsf_status qsf_source_read_by(const qsf_source *s, qsf_io io, bool streams, const char **how, qsf_error *err);

/* After a unit's extents have been read to stored[]: checks its CRC and, where compressed, decompresses to raw[]
 * (raw may be NULL where the unit is not compressed).  For QSF, checks that the tensor headers in the bytes are those
 * that opening saw. */
qsf_status qsf_unit_check(const qsf_source *s, uint32_t unit, const void *stored, void *raw, qsf_error *err);
/* The same; the CRC only where crc is set.  Adds what it took to *t. */
typedef struct qsf_unit_times { uint64_t check, unpack; } qsf_unit_times;      /* ns */
qsf_status qsf_unit_check_timed(const qsf_source *s, uint32_t unit, const void *stored, void *raw, bool crc, qsf_unit_times *t, qsf_error *err);

/* Opening needs a QSF layer's tensor headers, which lie inside the (maybe compressed) layer: the reader loads each
 * layer once while opening when it is compressed, and only its headers when it is not. */

/* Reads one tensor into fresh memory (for the converter and tests): *data is the caller's, qsf_dealloc(p, *data, t->bytes). */
qsf_status qsf_source_load(const qsf_source *s, uint32_t unit, uint32_t tensor, void **data, qsf_error *err);

#endif
