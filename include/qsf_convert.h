/* The public interface of libqsf_convert: model files in, QSF files out.
 * SPDX-License-Identifier: MIT
 *
 *   qsf_convert_options o;
 *   qsf_error err;
 *   qsf_convert_defaults(&o);
 *   o.preset = QSF_CONVERT_MIXED;
 *   if (qsf_convert_run("model.gguf", "model.qsf", &o, NULL, &err)) puts(err.text);
 *
 * Threads: calls are independent of one another; a result belongs to one caller at a time.
 * Text is UTF-8, sizes are bytes, times nanoseconds.  Nothing here prints, exits or keeps global
 * state. */
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

/* What a whole model's matrices become.  docs/quantisers.md gives the size and perplexity of each.
 * MIXED chooses the type of each matrix by its measured error, and gives more bits if its cosine
 * would be below 0.99.  BY_LOSS ("auto") is 4BIT with more bits for the matrices that need them
 * most, until the estimated loss is small or the file has 6.6 bits per weight.  A layer's matrix
 * that is already ternary, with one magnitude for all of it, keeps its values under each of them
 * except F16: in 2 bits per weight (type ternary2), or 1.6 with TERNARY5; TERNARY5 is for models
 * that have only such matrices. */
typedef enum qsf_convert_preset {
    QSF_CONVERT_2BIT = 0, QSF_CONVERT_2BIT_SYM = 1, QSF_CONVERT_3BIT = 2, QSF_CONVERT_4BIT = 3,
    QSF_CONVERT_TERNARY = 4, QSF_CONVERT_8BIT = 5, QSF_CONVERT_F16 = 6, QSF_CONVERT_MIXED = 7,
    QSF_CONVERT_TERNARY5 = 8, QSF_CONVERT_BY_LOSS = 9
} qsf_convert_preset;
QSF_CONVERT_API const char *qsf_convert_preset_name(qsf_convert_preset p);      /* "2bit-sym"; "?" */
/* The preset of this name; false: there is none, and *out stays as it is. */
QSF_CONVERT_API bool        qsf_convert_preset_find(const char *name, qsf_convert_preset *out);

/* AUTO: where a measurement says that it lowers the error. */
typedef enum qsf_convert_switch {
    QSF_CONVERT_AUTO = 0, QSF_CONVERT_OFF = 1, QSF_CONVERT_ON = 2
} qsf_convert_switch;

typedef enum qsf_convert_compression {
    QSF_CONVERT_NONE = 0, QSF_CONVERT_LZ4 = 1, QSF_CONVERT_LZ4HC = 2, QSF_CONVERT_ZSTD = 3
} qsf_convert_compression;

/* A type of its own for the matrices that a pattern matches. */
/* SIZE: trellises, which lose least for their bytes.  SPEED: grids and tables, which are decoded
 * faster where there is no AVX-512. */
typedef enum qsf_convert_prefer { QSF_CONVERT_SIZE, QSF_CONVERT_SPEED } qsf_convert_prefer;

typedef struct qsf_convert_rule {
    /* Of the tensor's name in the input, or of its kind: "blk.0.*",
     * "attn_v".  * is any text, ? any one byte. */
    const char *pattern;
    /* 2bit 2bit-sym 3bit 3bit_s 4bit 4bit_s 5bit_s 6bit_s 8bit ternary f16 f32; trellis2 trellis3
     * trellis4 trellis5: in blocks of 64 and tiles alone; table3 table4; ternary2 ternary5: of a
     * matrix that is ternary already */
    const char *type;
    uint32_t    block;      /* weights that share a scale: 32, 64, 128, 256; 0: as without the rule */
} qsf_convert_rule;

/* An adapter (LoRA), as qsf_adapter_load reads it, and how much of it. */
typedef struct qsf_convert_adapter { const char *path; float scale; } qsf_convert_adapter;

enum { QSF_CONVERT_MAX_THREADS = 256, QSF_CONVERT_MAX_CLUSTERS = 65536 };

/* What qsf_convert_defaults sets stands first in each comment. */
typedef struct qsf_convert_options {
    size_t                  size;           /* sizeof(qsf_convert_options) */
    const qsf_platform     *platform;       /* NULL: qsf_platform_native() */
    qsf_convert_preset      preset;         /* QSF_CONVERT_4BIT */
    const qsf_convert_rule *rules;          /* NULL; of those that match a matrix the last one wins */
    size_t                  n_rules;        /* 0 */
    uint32_t                block;          /* 0: each type's best; 32, 64, 128, 256 weights share a scale */
    qsf_convert_compression compression;    /* QSF_CONVERT_NONE; of layers */
    uint32_t                packing;        /* 1: tiles, ready for the processor; 0: rows of blocks */
    qsf_convert_switch      outliers;       /* AUTO; keep the largest weights apart in fp16 */
    qsf_convert_switch      equalize;       /* AUTO; scale channels between matrices so that quantising
                                             * loses less: the network computes the same function */
    uint64_t                target_bytes;   /* 0: none; else types are chosen so that the file fits */
    uint64_t                ram_bytes;      /* 0: as needed; else the most memory for weights at work */
    uint32_t                n_threads;      /* 0: one a processor; 1..256.  Changes no byte of the file */
    /* 0: none; else the head's rows are sorted into so many clusters, for QSF_HEAD_CLUSTERS.  The
     * model is run for it: QSF_E_UNSUPPORTED for Hugging Face directories. */
    uint32_t                head_clusters;
    /* 0: none; else the embedding becomes so many centroids and what each row lacks of its own; a
     * head that was tied to it becomes a matrix. */
    uint32_t                embd_clusters;
    /* NULL; else a text file with which to measure how much the model would miss each layer, for
     * qsf_context_options.quality.  What quantisers measure is another thing: calibrate, below. */
    const char             *calibration;
    /* false.  true with calibration: the weights of an input that is a QSF file stay byte for byte
     * as they are, whatever is said above; other inputs are converted as ever. */
    bool                    keep_weights;
    /* NULL; else a file that the caller writes afterwards: refused before the work where it is one
     * of those that are read, or the output. */
    const char             *report;
    void                   *user;           /* NULL; first argument of what follows, never looked into */
    /* NULL.  Called on the calling thread, now and then.  stage: "generate", "calibrate",
     * "measure", "cluster", "convert", "teach", "tune", "write"; name: the tensor, or "".  Both are
     * valid during the call.  done of total: no unit. */
    void                  (*progress)(void *user, const char *stage, const char *name, uint64_t done,
                                      uint64_t total);
    /* NULL.  Asked often, on any of the conversion's threads and on several at once.  true: the
     * conversion ends with QSF_E_CANCELLED and leaves nothing behind. */
    bool                  (*cancelled)(void *user);
    /* NULL: silent.  Called on the calling thread with warnings (QSF_LOG_WARN: what a reader left
     * out, what a memory limit took from measuring) and what the engine says while it measures. */
    qsf_log_fn              log;
    qsf_i2s_layout          i2s_layout;     /* QSF_I2S_AUTO; of tensors of type I2_S in a GGUF input */
    qsf_record_fn           record;         /* NULL.  Of the contexts that measure, as qsf_context_options' */
    void                   *record_user;    /* NULL; its first argument */
    /* NULL: no.  Measures what each matrix is multiplied with, by running the model on a text file
     * or, "self", on a text that it makes itself.  docs/quantisers.md says which types use it. */
    const char             *calibrate;
    /* NULL: nothing is kept.  Where what is measured is kept: a file that is there already is read
     * instead of measuring, and is refused if it is another model's, or was made with another text
     * or other options than those given.  Without calibrate it has to be there; it may be an
     * importance matrix of llama.cpp then, too (.dat or .gguf). */
    const char             *calibration_file;
    uint64_t                calibrate_seed;     /* 1; of the text that a model makes itself */
    uint32_t                calibrate_seqs;     /* 128; sequences of the text, 1..65536 */
    uint32_t                calibrate_len;      /* 128; tokens of each of them, 16..8192 */
    /* -1: 3 with a calibration of inputs, 0 without.  How much work goes into quantising.  0: each
     * block by itself; 1: by the importance of its columns; 2: errors are made up for in the
     * columns that follow; 3: the same, with the best search that each type has; 4: then norms
     * and biases are tuned to the input's predictions, which takes long. */
    int32_t                 effort;
    /* 0: none; else types are chosen so that the predicted divergence (nats a token) of the next
     * token's distribution is at most this, in as few bytes as that takes; with target_bytes as far
     * as these go.  Needs calibrate or calibration_file, with which target_bytes, too, chooses by
     * measured sensitivities. */
    double                  target_kl;
    /* false; true: a progressive file.  The high bits of all codes come first in it, so that a page
     * answers while the low bits arrive; the weights are the same.  For matrices of 8 bits in
     * tiles; others lie as ever.  Needs memory for the low bits.  Not with a compression. */
    bool                    progressive;
    uint32_t                tune_steps;         /* 0: 150; of effort 4, 256 tokens each */
    bool                    tune_codes;         /* false; effort 4 also changes the codes of trellises */
    /* QSF_CONVERT_SIZE.  Of target_kl, and of target_bytes with a calibration: which types. */
    qsf_convert_prefer      prefer;
    /* AUTO: with target_bytes and target_kl.  A head and an embedding that are one matrix but for
     * what a quantiser has lost of them (GGUF files of tied models often have both) are stored
     * once, as the head.  ON: QSF_E_ARGUMENT where they differ by more. */
    qsf_convert_switch      share_embedding;
    /* NULL.  Adapters (LoRA), GGUF files in llama.cpp's form or PEFT directories, that are added to
     * the weights before these are quantised: W + scale * alpha / rank * B A, in floats.  A head
     * that is tied to the embedding becomes a matrix of its own where one of the two is changed. */
    const qsf_convert_adapter *adapters;
    size_t                  n_adapters;         /* 0 */
} qsf_convert_options;

/* Fills all members of *o with their defaults.  The first form is for other languages: size is that
 * of the struct that they know. */
QSF_CONVERT_API void qsf_convert_defaults_of(qsf_convert_options *o, size_t size);
static inline void qsf_convert_defaults(qsf_convert_options *o) { qsf_convert_defaults_of(o, sizeof *o); }

/* ---- converting ------------------------------------------------------------------------------ */

/* What was done to a model: qsf_convert_get_summary and qsf_convert_get_tensor look into it. */
typedef struct qsf_convert_result qsf_convert_result;

/* Writes the QSF file `to`, whole or not at all, from `from`: a GGUF or QSF file, or a Hugging Face
 * directory (config.json, tokenizer, safetensors or PyTorch weights).  opts may be NULL.  *out (out
 * may be NULL) is the caller's, for qsf_convert_result_free; NULL on an error.  Equal input and
 * options give equal bytes with any number of threads.
 *
 * QSF_E_ARGUMENT     an option; a rule that matches nothing; an output that is one of the inputs
 * QSF_E_NOT_FOUND, QSF_E_IO   a file that is not there, cannot be read, cannot be written
 * QSF_E_CORRUPT      the input's bytes are damaged; the text says which file and tensor
 * QSF_E_UNSUPPORTED  an architecture, type or feature by name; or a compression, or JSON for
 *                    Hugging Face directories, that this build lacks
 * QSF_E_BUDGET       ram_bytes is too little
 * QSF_E_MEMORY, QSF_E_CANCELLED */
QSF_CONVERT_API qsf_status qsf_convert_run(const char *from, const char *to, const qsf_convert_options *opts,
                                           qsf_convert_result **out, qsf_error *err);
QSF_CONVERT_API void       qsf_convert_result_free(qsf_convert_result *r);      /* takes NULL */

/* Texts are the result's, valid until it is freed. */
typedef struct qsf_convert_summary {
    size_t      size;               /* set by the caller: sizeof(qsf_convert_summary) */
    const char *arch;               /* "llama" */
    uint32_t    n_tensors;          /* 0 where keep_weights left them as they were */
    uint64_t    n_weights;          /* of all tensors */
    uint64_t    source_bytes;       /* the tensors', in the input */
    uint64_t    tensor_bytes;       /* in the output, before compression */
    uint64_t    file_bytes;         /* the output */
    uint64_t    ns;                 /* the whole work */
    double      relative_error;     /* of all matrices: sum of squared errors over sum of squares */
    double      cosine;             /* between them and what they became */
    double      predicted_kl;       /* sum of the tensors', nats a token; 0 where none was predicted */
    /* What the other qsf_convert_prefer would have been predicted to give under the same limits,
     * and the file's size then, at most; 0: nothing was predicted, or it does not fit. */
    double      other_kl;
    uint64_t    other_bytes;
    bool        shared_embedding;   /* the head took the place of an embedding that was nearly the same */
    /* The divergence from the input's predictions in nats per token, estimated from the weights'
     * errors and the sensitivity of each kind of matrix.  0: nothing was quantised, or the model
     * does not predict tokens. */
    double      estimated_kl;
} qsf_convert_summary;
/* QSF_E_ARGUMENT: out->size is no struct's. */
QSF_CONVERT_API qsf_status qsf_convert_get_summary(const qsf_convert_result *r, qsf_convert_summary *out);

typedef struct qsf_convert_tensor {
    size_t      size;               /* set by the caller: sizeof(qsf_convert_tensor) */
    const char *name;               /* in the input */
    const char *kind;               /* what it is in the network: "attn_q" */
    const char *type;               /* what it became: "4bit_s" */
    uint32_t    rows, cols;         /* outputs and inputs */
    uint32_t    block, packing;     /* weights that share a scale, 1: none; rows of blocks (0) or tiles (1) */
    uint64_t    bytes;              /* in the file, with outliers, before compression */
    double      relative_error, cosine;     /* as in the summary */
    uint64_t    outliers;           /* weights that were kept apart */
    uint32_t    centroids;          /* 0, or of an embedding in clusters */
    bool        matrix;             /* false: a norm, a bias or positions, which are stored in floats */
    bool        raised;             /* MIXED: got more bits than planned, for its cosine's sake */
    /* With a calibration, effort 2 and more: the error of the matrix's outputs over their energy,
     * for inputs like those that were measured; else 0. */
    double      output_error;
    /* Where a calibration chose the type: its part of the predicted divergence; else 0. */
    double      predicted_kl;
} qsf_convert_tensor;
/* Tensor i of [0, n_tensors), in the order of the file; QSF_E_ARGUMENT where there is none, or
 * where out->size is no struct's. */
QSF_CONVERT_API qsf_status qsf_convert_get_tensor(const qsf_convert_result *r, uint32_t i,
                                                  qsf_convert_tensor *out);

/* ---- looking into files ---------------------------------------------------------------------- */

/* Everything that a QSF or GGUF file says of itself, as lines of text in several calls of write.
 * p: NULL is qsf_platform_native().  Errors as for qsf_model_open, or what write returned. */
QSF_CONVERT_API qsf_status qsf_convert_describe(const char *path, const qsf_platform *p, qsf_write_fn write,
                                                void *user, qsf_error *err);

typedef struct qsf_convert_check {
    size_t      size;               /* set by the caller: sizeof(qsf_convert_check) */
    const char *format;             /* "QSF", "GGUF"; a constant */
    uint32_t    n_units;            /* that were read: layers, embedding, head */
    uint32_t    n_checksums;        /* that were right; GGUF files carry none */
} qsf_convert_check;
/* Reads all of a QSF or GGUF file and compares every checksum.  QSF_E_CORRUPT names the damaged
 * part. p: as above; out may be NULL. */
QSF_CONVERT_API qsf_status qsf_convert_verify(const char *path, const qsf_platform *p, qsf_convert_check *out,
                                              qsf_error *err);

#ifdef __cplusplus
}
#endif
#endif
