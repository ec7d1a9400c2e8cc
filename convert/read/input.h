/* What the converter reads: a GGUF or QSF file or a Hugging Face directory as a description and
 * tensors of floats.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_INPUT_H
#define QSF_CONVERT_INPUT_H

#include "model/source.h"
#include "base/arena.h"

typedef struct input_tensor {
    uint32_t    unit;           /* a qsf_unit_number */
    uint32_t    kind;           /* qsf_kind; fused tensors appear as their parts */
    uint32_t    rows, cols;     /* as the engine uses it: rows outputs, cols inputs */
    const char *name;           /* in the input file, for messages and patterns */
    uint64_t    stored_bytes;
    uint32_t    source_type;    /* qsf_type it is stored in */
    float       scale;          /* of the whole tensor, which is in read's values; 0: none */
} input_tensor;

/* How a tensor is stored; all zero if it cannot be copied. */
typedef struct input_stored {
    uint32_t    type, packing, block;
    uint64_t    bytes;
    void       *data;           /* the caller must free it */
    const void *sparse;         /* its outliers (QSF_T_SPARSE), owned by the input; NULL: none */
    uint32_t    n_outliers;
    uint64_t    sparse_bytes;
} input_stored;

typedef struct input input;
struct input {
    const qsf_platform *platform;
    qsf_hparams   hp;
    qsf_vocab     vocab;
    uint32_t      n_tensors;
    /* ordered by unit as a file has them: embedding, layers, final; then in order of use */
    input_tensor *tensors;
    uint32_t      n_meta;
    qsf_meta     *meta;         /* provenance and generation defaults worth keeping */
    /* Rows [row, row+n) of tensors[i] as floats, out[n][cols].  Thread-safe for different calls. */
    qsf_status  (*read)(input *in, uint32_t i, uint32_t row, uint32_t n, float *out, qsf_error *err);
    /* Describes how tensors[i] is stored, if it consists only of its bytes and outliers (no scale,
     * no centroids).  load: also reads the bytes.  NULL: the input does not have such tensors. */
    qsf_status  (*stored)(input *in, uint32_t i, bool load, input_stored *out, qsf_error *err);
    const float  *importance;   /* [n_layers] from calibration; NULL: not calibrated */
    const char   *preset;       /* the preset that a QSF file was converted with; NULL: unknown */
    /* whether path names a file of the input; NULL: the input is not made of files */
    bool        (*reads)(input *in, const char *path);
    void        (*close)(input *in);    /* frees in too */
    /* Of what the matrix of this unit and kind is multiplied with: the root mean square of each
     * column, as calibration has measured it (*known).  NULL: there was none. */
    qsf_status  (*sizes)(void *user, uint32_t unit, uint32_t kind, uint32_t cols, float *size, bool *known,
                         qsf_error *err);
    void         *sizes_user;
    /* Of a weight, for how far channels are made alike; 0: what the plan's types have. */
    double        level_bits;
    bool          leaves_mtp;   /* the file has a layer for multi-token prediction, this has not */
    bool          untied;       /* the head is a copy of the embedding that it was tied to */
    const char   *model_path;   /* what qsf_model_open takes; NULL: the engine cannot run the input */
    qsf_i2s_layout i2s_layout;  /* and how its tensors of type I2_S are stored */
    qsf_arena    *arena;
    void         *own;          /* of the reader */
};

/* By what is there: a directory with config.json, a file with GGUF or QSF magic. */
qsf_status qsf_input_open(const qsf_platform *p, const char *path, input **out, qsf_error *err);

/* The same; i2s: how tensors of type I2_S in a GGUF file are stored. */
qsf_status qsf_input_open_as(const qsf_platform *p, const char *path, qsf_i2s_layout i2s, bool mtp,
                             input **out, qsf_error *err);

/* Whether t is a weight matrix, to which quantisers apply; norms, biases and positions are not. */
bool       qsf_input_is_matrix(const input_tensor *t);

#endif
