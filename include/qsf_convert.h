/* The public interface of libqsf_convert: model files in, QSF files out.
 * SPDX-License-Identifier: MIT
 *
 *   qsf_convert_options o;
 *   qsf_error err;
 *   qsf_convert_defaults(&o);
 *   o.preset = QSF_CONVERT_MIXED;
 *   if (qsf_convert_run("model.gguf", "model.qsf", &o, NULL, &err)) puts(err.text);
 *
 * Threads: calls are independent of each other; a result must be used by one thread at a time.
 * Text is UTF-8, sizes are in bytes, times in nanoseconds.  Nothing here prints, exits or keeps
 * global state. */
#ifndef QSF_CONVERT_H
#define QSF_CONVERT_H

#include "qsf.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(_WIN32) && defined(QSF_CONVERT_SHARED)
#  ifdef QSF_CONVERT_BUILD
#    define QSF_CONVERT_API __declspec(dllexport)
#  else
#    define QSF_CONVERT_API __declspec(dllimport)
#  endif
#elif defined(__GNUC__)
#  define QSF_CONVERT_API __attribute__((visibility("default")))
#else
#  define QSF_CONVERT_API
#endif

/* ---- options --------------------------------------------------------------------------------- */

/* The types of a model's matrices.  docs/quantisers.md lists the size and perplexity of each.
 * MIXED chooses the type of each matrix by its measured error, and gives it more bits if its cosine
 * would be below 0.99.  BY_LOSS ("auto") is 4BIT with more bits for the matrices that need them
 * most, until the estimated loss is small or the file has 6.6 bits per weight.  A layer's matrix
 * that is already ternary, with a single magnitude, keeps its values under every preset except F16:
 * in 2 bits per weight (type ternary2), or 1.6 with TERNARY5; TERNARY5 is for models whose matrices
 * are all ternary. */
typedef enum qsf_convert_preset {
    QSF_CONVERT_2BIT = 0, QSF_CONVERT_2BIT_SYM = 1, QSF_CONVERT_3BIT = 2, QSF_CONVERT_4BIT = 3,
    QSF_CONVERT_TERNARY = 4, QSF_CONVERT_8BIT = 5, QSF_CONVERT_F16 = 6, QSF_CONVERT_MIXED = 7,
    QSF_CONVERT_TERNARY5 = 8, QSF_CONVERT_BY_LOSS = 9
} qsf_convert_preset;
QSF_CONVERT_API const char *qsf_convert_preset_name(qsf_convert_preset p);      /* "2bit-sym"; "?" */
/* The preset with this name; false: unknown name, and *out is unchanged. */
QSF_CONVERT_API bool        qsf_convert_preset_find(const char *name, qsf_convert_preset *out);

/* AUTO: if a measurement shows that it lowers the error. */
typedef enum qsf_convert_switch {
    QSF_CONVERT_AUTO = 0, QSF_CONVERT_OFF = 1, QSF_CONVERT_ON = 2
} qsf_convert_switch;

typedef enum qsf_convert_compression {
    QSF_CONVERT_NONE = 0, QSF_CONVERT_LZ4 = 1, QSF_CONVERT_LZ4HC = 2, QSF_CONVERT_ZSTD = 3
} qsf_convert_compression;

/* SIZE: trellis types, which lose least per byte.  SPEED: grids and tables, which are decoded
 * faster without AVX-512. */
typedef enum qsf_convert_prefer { QSF_CONVERT_SIZE, QSF_CONVERT_SPEED } qsf_convert_prefer;

/* A type for the matrices that match a pattern. */
typedef struct qsf_convert_rule {
    /* Matches the tensor's name in the input, or its kind: "blk.0.*", "attn_v".  * is any
     * string, ? any one byte. */
    const char *pattern;
    /* 2bit 2bit-sym 3bit 3bit_s 4bit 4bit_s 5bit_s 6bit_s 8bit ternary f16 f32; trellis2 trellis3
     * trellis4 trellis5: only in blocks of 64 and tiles; table3 table4; ternary2 ternary5: for a
     * matrix that is already ternary */
    const char *type;
    uint32_t    block;      /* weights that share a scale: 32, 64, 128, 256; 0: as without the rule */
} qsf_convert_rule;

/* An adapter (LoRA), as for qsf_adapter_load, and its scale. */
typedef struct qsf_convert_adapter { const char *path; float scale; } qsf_convert_adapter;

enum { QSF_CONVERT_MAX_THREADS = 256, QSF_CONVERT_MAX_CLUSTERS = 65536 };

/* Options of qsf_convert_run.  Each comment begins with the default. */
typedef struct qsf_convert_options {
    size_t                  size;           /* sizeof(qsf_convert_options) */
    const qsf_platform     *platform;       /* NULL: qsf_platform_native() */
    qsf_convert_preset      preset;         /* QSF_CONVERT_4BIT */
    const qsf_convert_rule *rules;          /* NULL; the last rule that matches a matrix applies */
    size_t                  n_rules;        /* 0 */
    uint32_t                block;          /* 0: best for each type; 32, 64, 128, 256 weights per scale */
    qsf_convert_compression compression;    /* QSF_CONVERT_NONE; of layers */
    uint32_t                packing;        /* 1: tiles, ready for the processor; 0: rows of blocks */
    qsf_convert_switch      outliers;       /* AUTO; store the largest weights separately in fp16 */
    qsf_convert_switch      equalize;       /* AUTO; scale channels between matrices so that quantisation
                                             * loses less; the network's function does not change */
    uint64_t                target_bytes;   /* 0: none; otherwise types are chosen so that the file fits */
    uint64_t                ram_bytes;      /* 0: as needed; otherwise the most memory for weights */
    uint32_t                n_threads;      /* 0: one per processor; 1..256.  Does not change the file */
    /* 0: none; otherwise the number of clusters of the head's rows, for QSF_HEAD_CLUSTERS.  This
     * runs the model: QSF_E_UNSUPPORTED for Hugging Face directories. */
    uint32_t                head_clusters;
    /* 0: none; otherwise the embedding is stored as that many centroids and each row's difference
     * from its own; a head that was tied to it becomes a separate matrix. */
    uint32_t                embd_clusters;
    /* NULL; otherwise a text file used to measure the importance of each layer, for
     * qsf_context_options.quality.  For quantisation see calibrate, below. */
    const char             *calibration;
    /* false.  true, with calibration: the weights of a QSF input stay unchanged, byte for byte,
     * whatever the other options; other inputs are converted as usual. */
    bool                    keep_weights;
    /* NULL; otherwise a file that the caller will write afterwards: it is an error, found before
     * the work begins, if it is one of the inputs or the output. */
    const char             *report;
    void                   *user;           /* NULL; first argument of the following functions */
    /* NULL.  Called occasionally, on the calling thread.  stage: "generate", "calibrate",
     * "measure", "cluster", "convert", "teach", "tune", "write"; name: the tensor, or "".  Both are
     * valid during the call.  done and total have no unit. */
    void                  (*progress)(void *user, const char *stage, const char *name, uint64_t done,
                                      uint64_t total);
    /* NULL.  Called often, on any of the conversion's threads and on several at once.  true: the
     * conversion ends with QSF_E_CANCELLED and leaves no files. */
    bool                  (*cancelled)(void *user);
    /* NULL: silent.  Called on the calling thread with warnings (QSF_LOG_WARN: what a reader
     * ignored, what a memory limit prevented) and with the engine's log while it measures. */
    qsf_log_fn              log;
    qsf_i2s_layout          i2s_layout;     /* QSF_I2S_AUTO; for tensors of type I2_S in a GGUF input */
    qsf_record_fn           record;         /* NULL.  For measuring contexts, as in qsf_context_options */
    void                   *record_user;    /* NULL; its first argument */
    /* NULL: no.  Measures the inputs of each matrix by running the model on a text file or, with
     * "self", on text that it generates.  docs/quantisers.md lists the types that use it. */
    const char             *calibrate;
    /* NULL: measurements are not kept.  The file in which they are kept: if it exists, it is read
     * instead of measuring, and is an error if it belongs to another model, or was made with
     * another text or other options.  Without calibrate it must exist, and may also be an
     * importance matrix of llama.cpp (.dat or .gguf). */
    const char             *calibration_file;
    uint64_t                calibrate_seed;     /* 1; for text that the model generates */
    uint32_t                calibrate_seqs;     /* 128; sequences of the text, 1..65536 */
    uint32_t                calibrate_len;      /* 128; tokens of each of them, 16..8192 */
    /* -1: 3 with a calibration of inputs, 0 without.  The effort of quantisation.  0: each block by
     * itself; 1: weighted by the importance of its columns; 2: errors are compensated in the
     * columns that follow; 3: the same, with the best search of each type; 4: also tunes norms and
     * biases to the input's predictions, which takes long. */
    int32_t                 effort;
    /* 0: none; otherwise types are chosen so that the predicted divergence (nats per token) of the
     * next token's distribution is at most this, with as few bytes as possible, within target_bytes
     * if that is set.  Needs calibrate or calibration_file; with these, target_bytes alone also
     * chooses by measured sensitivities. */
    double                  target_kl;
    /* false; true: a progressive file.  The high bits of all codes come first in it, so that a
     * model can answer while the low bits arrive; the weights are the same.  For 8-bit matrices
     * in tiles; others are stored as usual.  Needs memory for the low bits.  Not with
     * compression. */
    bool                    progressive;
    uint32_t                tune_steps;         /* 0: 150; for effort 4, 256 tokens each */
    bool                    tune_codes;         /* false; true: effort 4 also changes codes of trellises */
    /* QSF_CONVERT_SIZE.  The types used for target_kl, and for target_bytes with a calibration. */
    qsf_convert_prefer      prefer;
    /* AUTO: with target_bytes and target_kl.  A head and an embedding that are the same matrix
     * except for quantisation errors (GGUF files of tied models often have both) are stored
     * once, as the head.  ON: QSF_E_ARGUMENT if they differ by more. */
    qsf_convert_switch      share_embedding;
    /* NULL.  Adapters (LoRA), GGUF files in llama.cpp's form or PEFT directories, that are added to
     * the weights before these are quantised: W + scale * alpha / rank * B A, in floats.  A head
     * that is tied to the embedding becomes a separate matrix if only one of the two changes. */
    const qsf_convert_adapter *adapters;
    size_t                  n_adapters;         /* 0 */
} qsf_convert_options;

/* Fills all members of *o with their defaults.  The first form is for other languages: size is that
 * of the struct as they know it. */
QSF_CONVERT_API void qsf_convert_defaults_of(qsf_convert_options *o, size_t size);
static inline void qsf_convert_defaults(qsf_convert_options *o) { qsf_convert_defaults_of(o, sizeof *o); }

/* ---- converting ------------------------------------------------------------------------------ */

/* The result of a conversion, for qsf_convert_get_summary and qsf_convert_get_tensor. */
typedef struct qsf_convert_result qsf_convert_result;

/* Writes the QSF file `to`, whole or not at all, from `from`: a GGUF or QSF file, or a Hugging
 * Face directory (config.json, tokenizer, safetensors or PyTorch weights).  opts may be NULL.
 * *out (out may be NULL) is the caller's, for qsf_convert_result_free; NULL on an error.  Equal
 * input and options give equal bytes with any number of threads.  QSF_E_ARGUMENT     an invalid
 * option; a rule that matches nothing; an output that is also an input QSF_E_NOT_FOUND, QSF_E_IO
 * a file does not exist, cannot be read, or cannot be written QSF_E_CORRUPT      the input is
 * damaged; the message names the file and the tensor QSF_E_UNSUPPORTED  an architecture, type or
 * feature, named in the message; or a compression, or                    JSON for Hugging Face
 * directories, that this build lacks QSF_E_BUDGET       ram_bytes is too small QSF_E_MEMORY,
 * QSF_E_CANCELLED */
QSF_CONVERT_API qsf_status qsf_convert_run(const char *from, const char *to, const qsf_convert_options *opts,
                                           qsf_convert_result **out, qsf_error *err);
QSF_CONVERT_API void       qsf_convert_result_free(qsf_convert_result *r);      /* takes NULL */

/* A summary of a conversion.  Strings belong to the result and are valid until it is freed. */
typedef struct qsf_convert_summary {
    size_t      size;               /* set by the caller: sizeof(qsf_convert_summary) */
    const char *arch;               /* "llama" */
    uint32_t    n_tensors;          /* 0 if keep_weights left them unchanged */
    uint64_t    n_weights;          /* of all tensors */
    uint64_t    source_bytes;       /* the tensors', in the input */
    uint64_t    tensor_bytes;       /* in the output, before compression */
    uint64_t    file_bytes;         /* the output */
    uint64_t    ns;                 /* the whole conversion */
    double      relative_error;     /* of all matrices: sum of squared errors over sum of squares */
    double      cosine;             /* between the original and the converted matrices */
    double      predicted_kl;       /* sum over tensors, nats per token; 0: nothing was predicted */
    /* The prediction for the other qsf_convert_prefer under the same limits, and an upper bound of
     * the file's size then; 0: nothing was predicted, or it does not fit. */
    double      other_kl;
    uint64_t    other_bytes;
    bool        shared_embedding;   /* the head replaces an embedding that was nearly the same */
    /* The divergence from the input's predictions in nats per token, estimated from the weights'
     * errors and the sensitivity of each kind of matrix.  0: nothing was quantised, or the model
     * does not predict tokens. */
    double      estimated_kl;
} qsf_convert_summary;
/* QSF_E_ARGUMENT: out->size does not match the struct. */
QSF_CONVERT_API qsf_status qsf_convert_get_summary(const qsf_convert_result *r, qsf_convert_summary *out);

typedef struct qsf_convert_tensor {
    size_t      size;               /* set by the caller: sizeof(qsf_convert_tensor) */
    const char *name;               /* in the input */
    const char *kind;               /* its role in the network: "attn_q" */
    const char *type;               /* in the output: "4bit_s" */
    uint32_t    rows, cols;         /* outputs and inputs */
    uint32_t    block, packing;     /* weights that share a scale, 1: none; rows of blocks (0) or tiles (1) */
    uint64_t    bytes;              /* in the file, with outliers, before compression */
    double      relative_error, cosine;     /* as in the summary */
    uint64_t    outliers;           /* weights stored separately */
    uint32_t    centroids;          /* of a clustered embedding, otherwise 0 */
    bool        matrix;             /* false: a norm, a bias or positions, which are stored in floats */
    bool        raised;             /* MIXED: got more bits than planned, because of its cosine */
    /* With a calibration and effort 2 or more: the error of the matrix's outputs relative to their
     * energy, for inputs like those measured; otherwise 0. */
    double      output_error;
    /* If a calibration chose the type: its part of the predicted divergence; otherwise 0. */
    double      predicted_kl;
} qsf_convert_tensor;
/* Tensor i of [0, n_tensors), in file order.  QSF_E_ARGUMENT: no such tensor, or out->size does not
 * match the struct. */
QSF_CONVERT_API qsf_status qsf_convert_get_tensor(const qsf_convert_result *r, uint32_t i,
                                                  qsf_convert_tensor *out);

/* ---- inspecting files ------------------------------------------------------------------------ */

/* Describes a QSF or GGUF file completely, as lines of text in several calls of write.
 * p NULL: qsf_platform_native().  Errors as for qsf_model_open, or what write returned. */
QSF_CONVERT_API qsf_status qsf_convert_describe(const char *path, const qsf_platform *p, qsf_write_fn write,
                                                void *user, qsf_error *err);

typedef struct qsf_convert_check {
    size_t      size;               /* set by the caller: sizeof(qsf_convert_check) */
    const char *format;             /* "QSF", "GGUF"; a constant */
    uint32_t    n_units;            /* units read: layers, embedding, head */
    uint32_t    n_checksums;        /* checksums that were correct; GGUF files have none */
} qsf_convert_check;
/* Reads a whole QSF or GGUF file and verifies every checksum.  The message of QSF_E_CORRUPT names
 * the damaged part.  p: as above; out may be NULL. */
QSF_CONVERT_API qsf_status qsf_convert_verify(const char *path, const qsf_platform *p, qsf_convert_check *out,
                                              qsf_error *err);

#ifdef __cplusplus
}
#endif
#endif
