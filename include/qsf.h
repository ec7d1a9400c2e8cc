/* The public interface of libqsf: language models from QSF and GGUF files, within a memory budget.
 * SPDX-License-Identifier: MIT
 *
 * The file has two layers.  The last section is the short interface (qsf_load, qsf_generate, ...):
 * one engine with one conversation.  It is built on the sections before it, the full interface:
 * model, context, sequences, batches, steps.
 *
 * Threads: several contexts, on several threads, may share one model.  Everything else must be used
 * by one thread at a time.
 *
 * Structs that may grow begin with `size`, which is sizeof the struct in the caller's version of
 * this file.  The `_defaults` functions set it in options; in results the caller sets it:
 * qsf_plan plan = { .size = sizeof plan };  The library reads and writes no more than that, so that
 * programs and libraries of different versions work together.  A size that matches no version of
 * the struct, such as 0, is QSF_E_ARGUMENT.
 *
 * Text is UTF-8.  The library never ends the program and keeps no global state; it prints nothing,
 * except in qsf_print_stats.  docs/api.md is generated from this file. */
#ifndef QSF_H
#define QSF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(_WIN32) && defined(QSF_SHARED)
#  ifdef QSF_BUILD
#    define QSF_API __declspec(dllexport)
#  else
#    define QSF_API __declspec(dllimport)
#  endif
#elif defined(__GNUC__)
#  define QSF_API __attribute__((visibility("default")))
#else
#  define QSF_API
#endif

#define QSF_VERSION_MAJOR 0
#define QSF_VERSION_MINOR 1
#define QSF_VERSION_PATCH 0
#define QSF_VERSION "0.2.0"

/* ---- status ---------------------------------------------------------------------------------- */

/* The status codes.  This one list defines the enum, the names and the texts.  Released numbers
 * never change. */
#define QSF_STATUS_MAP(X)                                                              \
    X(0,  OK,            "ok")                                                         \
    X(1,  PENDING,       "not finished: wait, then call again")                        \
    X(2,  E_ARGUMENT,    "an argument is out of range")                                \
    X(3,  E_MEMORY,      "out of memory")                                              \
    X(4,  E_IO,          "reading or writing failed")                                  \
    X(5,  E_CORRUPT,     "the file's bytes are damaged or not what they claim to be")  \
    X(6,  E_UNSUPPORTED, "well-formed, but this build cannot run it")                  \
    X(7,  E_BUDGET,      "does not fit the memory budget")                             \
    X(8,  E_FULL,        "the context is full")                                        \
    X(9,  E_CANCELLED,   "cancelled by the caller")                                    \
    X(10, E_NOT_FOUND,   "no such file, tensor or entry")

/* What a call returns. */
typedef enum qsf_status {
#define X(num, name, text) QSF_##name = num,
    QSF_STATUS_MAP(X)
#undef X
} qsf_status;

/* An error as text: what failed, where, and what to do.  Every function that takes a qsf_error
 * fills it when it fails.  It may be NULL. */
typedef struct qsf_error {
    qsf_status status;
    char       text[400];   /* one line, always terminated */
} qsf_error;

/* The library's version, and the name and the text of a status. */
QSF_API const char *qsf_version(void);
QSF_API const char *qsf_status_name(qsf_status st);   /* "QSF_E_IO" */
QSF_API const char *qsf_status_text(qsf_status st);   /* "reading or writing failed" */

/* ---- the host -------------------------------------------------------------------------------- */

/* The table of functions through which the library reaches the system.  It is declared in
 * core/base/platform.h, which is installed as qsf_platform.h. */
typedef struct qsf_platform qsf_platform;

/* The table for Linux, macOS or Windows: files, threads, clock and memory.  It is constant
 * and never freed. */
QSF_API const qsf_platform *qsf_platform_native(void);

/* How model files are read.
 *
 * QSF_IO_AUTO    io_uring, or threads if the system has no io_uring.  A file whose layers are
 *                streamed is read past the system's page cache if it is larger than half of the
 *                free memory, because the cache could not hold it
 * QSF_IO_URING, QSF_IO_PREAD   io_uring, or threads that call pread.  Streamed layers are always
 *                              read past the page cache, unless the file system refuses
 * QSF_IO_MMAP    through a mapping of the file that the kernel copies from, so that truncating the
 *                file causes an error and not a signal */
typedef enum qsf_io { QSF_IO_AUTO = 0, QSF_IO_URING = 1, QSF_IO_PREAD = 2, QSF_IO_MMAP = 3 } qsf_io;

/* The log.  The library calls the function with one line at a time, without a line feed. */
typedef enum qsf_log_level { QSF_LOG_ERROR, QSF_LOG_WARN, QSF_LOG_INFO, QSF_LOG_DEBUG } qsf_log_level;
typedef void (*qsf_log_fn)(void *user, qsf_log_level level, const char *line);

/* A file that the caller provides: a range of another file, a member of an archive, bytes in
 * memory.
 *
 * read blocks until it has filled dst with bytes [at, at+len), or returns an error.  A short read
 * is an error.  Only one thread at a time calls it. */
typedef struct qsf_custom_file {
    size_t     size;        /* set by the caller: sizeof(qsf_custom_file) */
    void      *user;
    uint64_t   length;
    qsf_status (*read)(void *user, uint64_t at, void *dst, size_t len);
    void       (*close)(void *user);   /* may be NULL; called once, by qsf_model_close or by a
                                        * qsf_model_open that fails */
} qsf_custom_file;

/* ---- GPUs ------------------------------------------------------------------------------------ */

/* The GPUs that the host offers.  qsf_context_use_device computes layers on one: docs/webgpu.md. */
typedef struct qsf_devices qsf_devices;

/* QSF_DEVICE_SOFTWARE is a CPU that pretends to be a GPU, as SwiftShader and lavapipe are. */
typedef enum qsf_device_kind {
    QSF_DEVICE_UNKNOWN = 0, QSF_DEVICE_SOFTWARE, QSF_DEVICE_INTEGRATED, QSF_DEVICE_DISCRETE
} qsf_device_kind;

/* A GPU and its limits. */
typedef struct qsf_device_info {
    size_t          size;               /* set by the caller: sizeof(qsf_device_info) */
    char            name[128];          /* "NVIDIA H100"; printable */
    char            vendor[64];         /* "nvidia" */
    char            backend[16];        /* "Vulkan", "Metal", "D3D12" */
    qsf_device_kind kind;
    uint64_t        max_buffer;         /* bytes of a buffer */
    uint64_t        max_binding;        /* bytes of a buffer that a shader sees through one binding */
    uint32_t        max_bindings;       /* storage buffers of a shader */
    uint32_t        binding_align;      /* places of bindings in their buffers are multiples */
    uint32_t        max_invocations;    /* of a workgroup */
    uint32_t        max_shared;         /* bytes of a workgroup's memory */
    uint32_t        max_groups;         /* workgroups of a dispatch in one dimension */
} qsf_device_info;

/* Looks for GPUs.  The native host reaches them through a library with the functions of webgpu.h
 * (Dawn or wgpu-native), which it loads now and keeps until the program ends.  library: its path.
 * NULL: the path in the environment variable QSF_WEBGPU_LIB, else the usual names.  platform NULL:
 * qsf_platform_native().  An empty list is not an error.
 *
 * QSF_E_NOT_FOUND     no such library; the message has the names that were tried
 * QSF_E_UNSUPPORTED   the library is not one that can be used, as the message says, or the host
 *                     offers no GPUs
 * QSF_E_MEMORY        out of memory */
QSF_API qsf_status  qsf_devices_open(const qsf_platform *platform, const char *library, qsf_devices **out,
                                     qsf_error *err);
QSF_API void        qsf_devices_close(qsf_devices *d);              /* takes NULL */
/* The library that they come from. */
QSF_API const char *qsf_devices_source(const qsf_devices *d);
/* Describes device i, counted from 0, the fastest first.
 *
 * QSF_E_NOT_FOUND     i is past the last device
 * QSF_E_ARGUMENT      out->size does not match the struct */
QSF_API qsf_status  qsf_devices_get(const qsf_devices *d, uint32_t i, qsf_device_info *out);

/* ---- model ----------------------------------------------------------------------------------- */

/* An open model: description, tokenizer and the file from which contexts read weights. */
typedef struct qsf_model qsf_model;

/* How tensors of type I2_S in a GGUF file are stored: docs/bitnet-files.md.  Their sizes
 * distinguish the layouts, except for Microsoft's three, which no file identifies. */
typedef enum qsf_i2s_layout {
    QSF_I2S_AUTO = 0,           /* by size; Microsoft's layout is assumed to be the x86 one */
    QSF_I2S_QK256,              /* 256 codes in 64 bytes */
    QSF_I2S_SPLIT32,            /* 32 codes in 8 bytes, scales in a separate tensor */
    QSF_I2S_BITNET32,           /* 32 codes in 8 bytes, then their scale */
    QSF_I2S_MICROSOFT,          /* bitnet.cpp on x86, and its converters */
    QSF_I2S_MICROSOFT_ARM,      /* bitnet.cpp on ARM */
    QSF_I2S_MICROSOFT_ROWS4,    /* bitnet.cpp on x86, built without ACT_PARALLEL */
    QSF_N_I2S_LAYOUTS
} qsf_i2s_layout;

/* The layout with that name: auto, qk256, split32, bitnet32, microsoft, microsoft-arm or
 * microsoft-rows4.  false: unknown name, and *out is unchanged. */
QSF_API bool qsf_i2s_layout_find(const char *name, qsf_i2s_layout *out);

/* Options of qsf_model_open. */
typedef struct qsf_model_options {
    size_t                 size;       /* sizeof(qsf_model_options), set by qsf_model_defaults */
    const qsf_platform    *platform;   /* NULL: qsf_platform_native() */
    const qsf_custom_file *file;       /* NULL: path is opened through the platform; otherwise path is only a
                                        * name, or NULL */
    bool                   vocab_only; /* false; true: read only description and tokenizer, and accept files
                                        * without weights */
    qsf_log_fn             log;        /* NULL: silent */
    void                  *log_user;
    qsf_io                 io;         /* QSF_IO_AUTO, which the environment variable QSF_IO can replace
                                        * (auto, uring, pread, mmap).  QSF_E_UNSUPPORTED if the machine cannot
                                        * read this way */
    qsf_i2s_layout         i2s_layout; /* QSF_I2S_AUTO */
    uint32_t               first_layer, end_layer;  /* 0, 0: all layers.  Otherwise layers [first_layer,
                                                     * end_layer) run here, and the others elsewhere: see
                                                     * "ranges of layers".  end_layer 0: up to the last */
    uint32_t               share, n_shares;         /* 0, 0: whole layers.  Otherwise share `share` of
                                                     * n_shares, counted from 0, of each layer: see "shares of
                                                     * layers" */
    const uint32_t        *share_sizes;             /* NULL: shares are equal, as far as heads allow.
                                                     * Otherwise [n_shares] their relative sizes; not kept */
    bool                   mtp;                     /* false; true: only the file's layer for multi-token
                                                     * prediction runs, for qsf_mtp_new.  QSF_E_UNSUPPORTED:
                                                     * the file lacks such a layer, or this version cannot
                                                     * run it */
} qsf_model_options;

/* Fills all members of *o with their defaults.  The first form is for other languages: size is that
 * of the struct as they know it. */
QSF_API void qsf_model_defaults_of(qsf_model_options *o, size_t size);
static inline void qsf_model_defaults(qsf_model_options *o) { qsf_model_defaults_of(o, sizeof *o); }

/* Opens a QSF or GGUF file, identified by its first bytes, and checks its whole description.  The
 * weights are read when a context needs them.  opts may be NULL.  On an error *out is NULL.
 *
 * QSF_E_NOT_FOUND     no such file
 * QSF_E_IO            the path is a directory, a FIFO or not readable, as the message says, or
 *                     reading failed
 * QSF_E_CORRUPT       the file is damaged
 * QSF_E_UNSUPPORTED   the message names the architecture, type or feature; a Hugging Face directory
 *                     has to be converted first
 * QSF_E_MEMORY        the description does not fit in memory */
QSF_API qsf_status qsf_model_open(const char *path, const qsf_model_options *opts, qsf_model **out,
                                  qsf_error *err);
QSF_API void       qsf_model_close(qsf_model *m);       /* takes NULL; free the model's contexts first */

/* How the hidden states of a text's tokens are pooled.  The numbers are those of GGUF files.
 *
 * QSF_POOL_NONE    unspecified: if a pooling is needed, the mean
 * QSF_POOL_MEAN    the mean
 * QSF_POOL_FIRST   the first token's
 * QSF_POOL_LAST    the last token's
 * QSF_POOL_RANK    the scores of the file's classifier, of one token or of the mean, as the model
 *                  was trained
 * QSF_POOL_TOKENS  each token's; never in files, only on request */
typedef enum qsf_pooling {
    QSF_POOL_NONE = 0, QSF_POOL_MEAN = 1, QSF_POOL_FIRST = 2, QSF_POOL_LAST = 3, QSF_POOL_RANK = 4,
    QSF_POOL_TOKENS = 5
} qsf_pooling;

/* A description of a model.  The strings belong to the model and are valid until it is closed.
 *
 * QSF_E_ARGUMENT   out->size does not match the struct */
typedef struct qsf_model_info {
    size_t      size;             /* set by the caller: sizeof(qsf_model_info) */
    const char *arch, *name;      /* "llama", "SmolLM2 135M Instruct" */
    const char *format;           /* "QSF" or "GGUF" */
    const char *chat_template;    /* the Jinja source, or NULL */
    /* heads and n_ff: the maximum of all layers, if they differ */
    uint32_t    n_layers, n_embd, n_heads, n_kv_heads, head_dim, n_ff, n_vocab, n_ctx_train;
    uint64_t    n_params;         /* number of weights in all tensors */
    uint64_t    weight_bytes;     /* bytes that the weights take in the file */
    qsf_pooling pooling;          /* specified by the file (GGUF's ARCH.pooling_type) */
    bool        encoder;          /* each token sees the whole text: embeddings only, no generation */
    uint32_t    n_classes;        /* number of scores of QSF_POOL_RANK; 0: the file has no classifier */
    uint32_t    n_mtp;            /* layers for multi-token prediction (see qsf_mtp_new) that this version can
                                   * run */
    bool        draft_head;       /* an EAGLE 3 head: it drafts for another model (qsf_mtp_new), and does not
                                   * run alone */
} qsf_model_info;
QSF_API qsf_status qsf_model_get_info(const qsf_model *m, qsf_model_info *out);

/* ---- tokens ---------------------------------------------------------------------------------- */

/* Flags of qsf_tokens_encode. */
enum {
    QSF_TOK_ADD_SPECIAL   = 1,   /* adds the begin- and end-of-text tokens that the model asks for */
    QSF_TOK_PARSE_SPECIAL = 2    /* "<|im_end|>" in the text becomes its token, not its letters */
};

/* Writes the token ids of text[0..len) to ids and their number to *n.  If *n is larger than cap,
 * the ids beyond cap are not written and the result is QSF_E_ARGUMENT: call again with a larger
 * array.  Any bytes are accepted, including invalid UTF-8. */
QSF_API qsf_status qsf_tokens_encode(const qsf_model *m, const char *text, size_t len, int flags,
                                     int32_t *ids, size_t cap, size_t *n, qsf_error *err);
/* Sets *bytes to the text of one token and returns its length; 0 for an id out of range.  The text
 * belongs to the model, is not terminated and may end inside a character.  special: control tokens
 * have a text too. */
QSF_API size_t  qsf_token_piece(const qsf_model *m, int32_t id, bool special, const char **bytes);
/* Whether a token ends a turn or a text; the begin-of-text and end-of-text tokens, -1 if the model
 * has none. */
QSF_API bool    qsf_token_is_end(const qsf_model *m, int32_t id);
QSF_API int32_t qsf_token_bos(const qsf_model *m);
QSF_API int32_t qsf_token_eos(const qsf_model *m);

/* The bytes of an incomplete character, at most 3, that wait for the next token.  Initialise it
 * with zeros. */
typedef struct qsf_utf8_tail { unsigned char bytes[4]; uint8_t len; } qsf_utf8_tail;
/* Appends piece to tail, writes all complete characters to out and returns the number of bytes
 * written.  Invalid bytes become U+FFFD.  out must have room for 3 * (len + 4) bytes. */
QSF_API size_t qsf_utf8_push(qsf_utf8_tail *tail, const char *piece, size_t len, char *out);

/* ---- chat ------------------------------------------------------------------------------------ */

/* One message of a conversation.  role: "system", "user" or "assistant". */
typedef struct qsf_message { const char *role, *content; } qsf_message;

/* The template that qsf_chat_encode uses if no name is given.  "own": the model's own template in
 * Jinja (info.chat_template); a name of the list below if that template renders the same text.
 * NULL: the model has none, and "plain" is used. */
QSF_API const char *qsf_chat_template(const qsf_model *m);
/* The named templates, terminated by NULL: chatml, llama2, llama3, mistral, phi3, gemma, zephyr,
 * command-r, deepseek, plain. */
QSF_API const char *const *qsf_chat_template_names(void);

/* Writes the token ids of a conversation, with the begin-of-text token if the model requires it.
 * Nothing in a message's content becomes a control token: "<|im_end|>" there is plain text, so no
 * message can end a turn or begin another.
 *
 * name: a template's name or its source, which contains an opening brace; NULL or "own": the
 * model's; if it has none, "plain", with a line in the log.  generate: end with the beginning of
 * the assistant's answer.  ids, cap and *n_ids are as in qsf_tokens_encode.
 *
 * QSF_E_NOT_FOUND     unknown name
 * QSF_E_ARGUMENT      the template rejects the messages, with its own message, or drops one of
 *                     them, however they are adapted (docs/chat.md); *n_ids is then 0
 * QSF_E_UNSUPPORTED   the template cannot be run
 * QSF_E_BUDGET        the template exceeds the limits on steps or memory
 *
 * Errors caused by a template give its line and column. */
QSF_API qsf_status qsf_chat_encode(const qsf_model *m, const char *name, const qsf_message *msgs, size_t n,
                                   bool generate, int32_t *ids, size_t cap, size_t *n_ids, qsf_error *err);
/* Writes the text of a conversation, for display; tokens come from qsf_chat_encode.  The text does
 * not contain the begin-of-text token.  name, generate and errors are as in qsf_chat_encode.  *len
 * does not count the terminating 0.  If *len is above cap - 1, the result is QSF_E_ARGUMENT: call
 * again with a larger buffer. */
QSF_API qsf_status qsf_chat_render(const qsf_model *m, const char *name, const qsf_message *msgs, size_t n,
                                   bool generate, char *out, size_t cap, size_t *len, qsf_error *err);
/* The text that ends a turn under this template ("<|im_end|>"); NULL if only tokens end one. */
QSF_API const char *qsf_chat_stop(const qsf_model *m, const char *name);

/* How a conversation in JSON is rendered.  Strings may be NULL: none. */
typedef struct qsf_chat_options {
    size_t      size;                   /* sizeof(qsf_chat_options) */
    const char *chat_template;          /* NULL: the model's own (with tools: its "tool_use", if it has one);
                                         * the name of one of its own or of the list above; or a template's
                                         * source, which contains an opening brace */
    const char *tools, *documents;      /* JSON: lists, as templates expect them */
    const char *kwargs;                 /* JSON: an object of more variables ("enable_thinking") */
    const char *bos, *eos;              /* texts of these tokens; NULL: the model's */
    bool        add_generation_prompt;  /* true: end with the beginning of the assistant's answer */
    bool        continue_final_message; /* false; true: end within the last message, so that the answer
                                         * continues it */
    bool        as_given;               /* false; true: the template gets the messages unchanged.  Otherwise
                                         * they are adapted to the forms that it accepts (docs/chat.md) */
    int64_t     now;                    /* the date that a template may write, in seconds since 1970; 0: from
                                         * the machine's clock */
} qsf_chat_options;

/* Fills all members with their defaults. */
QSF_API void qsf_chat_defaults_of(qsf_chat_options *o, size_t size);
static inline void qsf_chat_defaults(qsf_chat_options *o) { qsf_chat_defaults_of(o, sizeof *o); }

/* As qsf_chat_encode, for messages[0..len) in JSON: a list of objects with a "role" and other
 * members that the template uses: "content" (a string, or a list of parts), "tool_calls" (arguments
 * as an object, or as a JSON string), "tool_call_id", "name", "reasoning_content".  An object with
 * such a list in "messages", and optionally one in "tools", is accepted too.  opts may be NULL.
 *
 * QSF_E_CORRUPT   invalid JSON; the message gives line and column */
QSF_API qsf_status qsf_chat_encode_json(const qsf_model *m, const char *messages, size_t len,
                                        const qsf_chat_options *opts, int32_t *ids, size_t cap,
                                        size_t *n_ids, qsf_error *err);
/* The rendered text of the same, including the begin-of-text token's text if the template writes
 * it.  m may be NULL if opts has the template.  out, cap and *len are as in qsf_chat_render. */
QSF_API qsf_status qsf_chat_render_json(const qsf_model *m, const char *messages, size_t len,
                                        const qsf_chat_options *opts, char *out, size_t cap, size_t *n,
                                        qsf_error *err);
/* As qsf_chat_stop, for opts; *len is 0 if only tokens end a turn.  Errors are as in
 * qsf_chat_encode, QSF_E_ARGUMENT if the template rejects every conversation. */
QSF_API qsf_status qsf_chat_stop_text(const qsf_model *m, const qsf_chat_options *opts, char *out,
                                      size_t cap, size_t *len, qsf_error *err);

/* ---- recording ------------------------------------------------------------------------------- */

/* The type of a record.  All but products nest: a batch contains steps, a step contains operations.
 *
 * QSF_RECORD_PRODUCT     one matrix, multiplied with all rows of a batch
 * QSF_RECORD_OPERATION   a part of a step that the threads share: products, attention, norms
 * QSF_RECORD_THREAD      the work of a thread other than the first one on an operation
 * QSF_RECORD_STEP        the embedding, a layer, or a part of the head
 * QSF_RECORD_BATCH       all steps of a batch, and the time between them
 * QSF_RECORD_READ        a read from the model's file; several overlap
 * QSF_RECORD_PREPARE     checking, decompressing and repacking of the same bytes
 * QSF_RECORD_WAIT        the first thread waited for bytes
 * QSF_RECORD_SAMPLE      a turn sampled a token */
typedef enum qsf_record_type {
    QSF_RECORD_PRODUCT = 1, QSF_RECORD_OPERATION = 2, QSF_RECORD_THREAD = 3, QSF_RECORD_STEP = 4,
    QSF_RECORD_BATCH = 5, QSF_RECORD_READ = 6, QSF_RECORD_PREPARE = 7, QSF_RECORD_WAIT = 8,
    QSF_RECORD_SAMPLE = 9
} qsf_record_type;

/* A period in which a context did something.  docs/tracing.md lists the names. */
typedef struct qsf_record {
    size_t          size;        /* sizeof(qsf_record), set by the library */
    qsf_record_type type;
    const char     *name;        /* of the operation ("qkv"), the step ("layer"), the matrix of a product
                                  * ("blk.0.attn_q") or the unit that is read ("layer 3") */
    int32_t         layer;       /* from 0; -1: none */
    uint32_t        thread;      /* 0: the caller's; n_threads: the one that reads ahead */
    uint64_t        begin_ns, ns;       /* in the platform's clock.  Of a product: when the first thread
                                         * began, and its share of its operation's time */
    uint32_t        n_rows;      /* rows of the batch that took part; 0 if not applicable */
    uint64_t        bytes;       /* weights that a product used, or bytes of the file */
    uint64_t        at;          /* of a read: its offset in the file */
    /* products only, otherwise NULL and 0 */
    const char     *kernel_id;   /* "4bit_s_matvec_avx2" */
    const char     *operation;   /* "matrix-vector multiply", "matrix-matrix multiply" */
    const char     *compute_type;        /* "quantized", "float" */
    const char     *quantization_type;   /* "4bit_s", "q4_K": the type in the file */
    uint32_t        rows, cols;  /* of the matrix, or of the rows of it that were computed */
    uint32_t        blocks_per_row, bytes_per_block;    /* in the file */
} qsf_record;

/* Receives a context's records, in the order of their ends, on the thread that computes.  The
 * record and its strings are valid during the call, which must not use the context. */
typedef void (*qsf_record_fn)(void *user, const qsf_record *record);

/* ---- context --------------------------------------------------------------------------------- */

/* The memory, threads and state that run a model. */
typedef struct qsf_context qsf_context;

/* How keys and values are stored.  One number is the bits of both; two numbers are the bits of keys
 * and of values, which need fewer.  docs/kv-cache.md lists what each type costs in perplexity. */
typedef enum qsf_kv_type {
    QSF_KV_F16 = 0, QSF_KV_Q8 = 1, QSF_KV_F32 = 2, QSF_KV_Q4 = 3, QSF_KV_Q2 = 4, QSF_KV_Q8V4 = 5,
    QSF_KV_Q4V2 = 6
} qsf_kv_type;

/* Which logits the head computes.
 *
 * QSF_HEAD_EXACT      all
 * QSF_HEAD_SCREEN     a low-bit copy of the head finds the 256 best rows, and those are computed
 *                     exactly.  The copy takes memory; the head must have more bits than the copy
 * QSF_HEAD_CLUSTERS   only clusters of rows near the hidden state.  The file must contain clusters
 *                     (qsf-convert --head-clusters)
 *
 * The last two skip rows that are unlikely to have the largest logit, as judged by a cheaper
 * measure.  Logits of skipped rows are -INFINITY; the others are the same as with QSF_HEAD_EXACT.
 * Both modes are for decoding: a batch in which more than 8 rows ask for logits is computed
 * exactly.  docs/performance.md says how often the largest logit is the same, and how much time is
 * saved. */
typedef enum qsf_head_mode { QSF_HEAD_EXACT = 0, QSF_HEAD_SCREEN = 1, QSF_HEAD_CLUSTERS = 2 } qsf_head_mode;

/* Quantised weights are multiplied with 8-bit activations, whose scale is shared by 64 columns of a
 * row, or by a whole row (max|x| / 127), as BitNet models were trained (1.58-bit weights, 8-bit
 * activations).  Blocks are closer to floats. */
typedef enum qsf_act_quant { QSF_ACT_BLOCK = 0, QSF_ACT_ROW = 1 } qsf_act_quant;

/* Layers that do not fit into a GPU's memory (qsf_context_use_device): OFF, they stay on the CPU.
 * Otherwise their weights pass through the GPU for some batches: those of at least 8 rows
 * (PROMPTS), all, or, by a trial when the context moves, those that become faster (AUTO; on hosts
 * that must not block it is OFF). */
typedef enum qsf_device_stream_kind {
    QSF_STREAM_AUTO = 0, QSF_STREAM_OFF = 1, QSF_STREAM_PROMPTS = 2, QSF_STREAM_ALL = 3
} qsf_device_stream_kind;

/* How 2-bit weights without scales (TERNARY2, QK256: BitNet models) are multiplied with one row of
 * activations: by products (MAD: multiply and add), or by lookup tables of sums of two columns
 * (LUT).  Both give the same bits.  AUTO times both when a context is created, with the model's own
 * shapes, which takes a few milliseconds; without a clock it is MAD. */
typedef enum qsf_kernel_route { QSF_ROUTE_AUTO = 0, QSF_ROUTE_MAD = 1, QSF_ROUTE_LUT = 2 } qsf_kernel_route;

/* Options of qsf_context_new. */
typedef struct qsf_context_options {
    size_t      size;         /* sizeof(qsf_context_options), set by qsf_context_defaults */
    uint64_t    ram_budget;   /* 0: no limit.  Otherwise the most resident memory of the process, in bytes:
                               * the model and the program's heap count, 4 MB of program files do not.
                               * docs/memory.md lists what the plan reduces to stay within it */
    uint32_t    n_ctx;        /* positions of all sequences together; 0: the model's own number, at most 4096
                               */
    uint32_t    n_batch;      /* 256; the most rows of a batch */
    uint32_t    n_threads;    /* 1..256; 0: one for each core */
    uint32_t    n_seqs;       /* 4; the most sequences at once */
    uint32_t    n_logits;     /* the most rows of a batch that ask for logits; 0: n_seqs */
    qsf_kv_type kv_type;      /* QSF_KV_Q8 */
    bool        f32;          /* false; true: compute with float activations, keys and values: exact and slow,
                               * for comparisons */
    const char *isa;          /* the kernels' instruction set; NULL: the best that the processor has and
                               * QSF_ISA allows */
    float       quality;      /* 1.0: all layers run; below 1, layers of low stored importance are skipped */
    qsf_head_mode head;       /* QSF_HEAD_EXACT; the other modes keep embedding and head in memory and
                               * exclude f32 */
    bool        check_every;  /* false: a checksum is verified when its bytes are first read; true: each time
                               * they are read.  A layer has one checksum; a streamed embedding or head has
                               * one for each chunk */
    uint32_t    kv_window;    /* 0: every position is kept, and n_ctx is the limit.  Otherwise a token sees
                               * the first kv_sinks positions of its sequence and the last kv_window, itself
                               * included.  Positions that no token will see again are dropped, and a sequence
                               * may grow beyond n_ctx (not with learned positions).  Positions keep their
                               * numbers, so keys keep their distances (StreamingLLM, Xiao et al. 2023,
                               * arXiv:2309.17453).  Memory is allocated for that many positions of each
                               * sequence and a batch */
    uint32_t    kv_sinks;     /* 4 */
    uint32_t    kv_heavy;     /* 0; needs kv_window.  Of the blocks of 32 positions that leave the window,
                               * those that received the most attention stay: this many positions of each
                               * sequence (heavy hitters: H2O, Zhang et al. 2023, arXiv:2306.14048).  They are
                               * selected before each batch, and the batch's rows see every block that is
                               * left, so results depend on how a text is split into batches */
    bool        kv_may_drop;  /* false; true: if ram_budget is too small for the requested n_ctx, the plan may
                               * use kv_window and kv_heavy, with a warning, before it shortens the context.
                               * For one sequence, and not with early_exit */
    float       early_exit;   /* 0: off.  Otherwise a cosine, 0.9 to 0.99 in practice: from the middle of the
                               * stack on, a token that is alone in its batch skips to the last two layers
                               * once the cosine of its hidden state with that of two layers before is at
                               * least this.  Its logits then differ from those of all layers; its keys and
                               * values do not: they are computed later, together with other tokens.  Not with
                               * kv_window */
    qsf_act_quant act_quant;  /* QSF_ACT_BLOCK: what shares the scale of 8-bit activations */
    qsf_record_fn record;     /* NULL: no records.  Otherwise called for everything that the context does */
    void       *record_user;
    qsf_kernel_route kernel_route;  /* QSF_ROUTE_AUTO */
    bool        first_stage;  /* false; true: for a progressive file (qsf-convert --progressive) whose units
                               * all stay in memory, read only the first pieces, and compute answers with the
                               * high bits of the weights until qsf_refine has added the low bits.  No effect
                               * with other files, with streamed layers, or with QSF_HEAD_SCREEN */
    uint64_t    adapter_bytes;  /* 0; with ram_budget: memory that the plan reserves for adapters, the sum of
                                 * the bytes in their qsf_adapter_info */
    uint32_t    device_layers;  /* 0; this many last layers will move to a GPU (qsf_context_use_device, right
                                 * after the context is made), with the head, and with the embedding if they
                                 * are all: their weights pass through a buffer on their way there, and the
                                 * CPU has no room for their keys and values.  If the GPU fails, the CPU reads
                                 * the weights again for each batch, and takes that room beyond the plan.
                                 * Without effect if ram_budget is set */
    qsf_device_stream_kind device_stream;   /* QSF_STREAM_AUTO; layers for which a GPU's memory has no room */
} qsf_context_options;

/* Fills all members of *o with their defaults. */
QSF_API void qsf_context_defaults_of(qsf_context_options *o, size_t size);
static inline void qsf_context_defaults(qsf_context_options *o) { qsf_context_defaults_of(o, sizeof *o); }

/* The kind of an option's value, which is passed as text. */
typedef enum qsf_option_kind {
    QSF_OPTION_FLAG,        /* "true", "false" (also 1, 0, on, off, yes, no) */
    QSF_OPTION_WHOLE,       /* a whole number */
    QSF_OPTION_NUMBER,
    QSF_OPTION_CHOICE,      /* one of some words */
    QSF_OPTION_TEXT
} qsf_option_kind;
/* A named option of a context, for command lines, configuration files and bindings. */
typedef struct qsf_option {
    const char     *name;   /* "kv-window" */
    qsf_option_kind kind;
    double          least, most, value;     /* range and default; of a choice, indices in choices */
    const char     *choices;                /* "exact|screen|clusters" in the order of their enum, or NULL */
    const char     *unit;   /* "MB", "positions", "" */
    const char     *help;   /* one line */
} qsf_option;
/* The options of a context, i = 0, 1, ...; NULL: no more. */
QSF_API const qsf_option *qsf_context_option(size_t i);
/* Sets the member of *o that an option's name stands for.  Strings are not copied.
 *
 * QSF_E_ARGUMENT   unknown option, or invalid value; *o is unchanged */
QSF_API qsf_status qsf_context_set(qsf_context_options *o, const char *name, const char *value,
                                   qsf_error *err);
/* The value of an option, as text that qsf_context_set would accept, for records of the options
 * used.  A string that is not set is "".
 *
 * QSF_E_ARGUMENT   unknown option, or its value needs more than cap bytes; out is "" */
QSF_API qsf_status qsf_context_get(const qsf_context_options *o, const char *name, char *out, size_t cap,
                                   qsf_error *err);

/* Plans and allocates everything; afterwards nothing allocates.  opts may be NULL.  On an error
 * *out is NULL.  The model's log receives what the plan reduced: a shorter context and less precise
 * keys and values as warnings, everything else as information.
 *
 * QSF_E_BUDGET   the message gives the smallest budget that works */
QSF_API qsf_status qsf_context_new(qsf_model *m, const qsf_context_options *opts, qsf_context **out,
                                   qsf_error *err);
QSF_API void       qsf_context_free(qsf_context *c);   /* takes NULL */
QSF_API qsf_model *qsf_context_model(qsf_context *c);
QSF_API uint32_t   qsf_context_batch(const qsf_context *c);    /* rows of a batch, as planned */
/* The text of the last error, "" if there was none.  Valid until the next call. */
QSF_API const char *qsf_last_error(const qsf_context *c);

/* Which layers of a context a GPU computes. */
typedef struct qsf_device_use {
    size_t   size;           /* set by the caller: sizeof(qsf_device_use) */
    uint32_t first, n_layers;       /* layers first to first + n_layers - 1; 0: none */
    bool     head;           /* the final norm and logits, too */
    uint64_t weights, kv, batch;    /* bytes of the GPU's memory that they take when all weights are there,
                                     * those of adapters among them */
    uint64_t bytes;          /* of them that are in use */
    char     name[128];      /* the GPU's; "" without one */
    char     left[160];      /* why other layers stay on the CPU: "layer 3: its mixer"; "" if none does */
    uint32_t streamed;       /* this many layers before `first` pass through slots there, for some batches */
    uint64_t slots;          /* bytes of the slots, which the sums above do not count */
    char     stream[160];    /* for which batches, and what was measured; "" without such layers */
} qsf_device_use;
/* Computes layers of a new context on GPU i of the list: the longest run of layers that it can
 * compute, at most n_layers of them, and no more than fit into `memory` bytes there (0: no limit);
 * the last ones.  Their keys and values are there, too; their weights go there when a batch first
 * needs them.  Everything else stays on the CPU.  Not with f32, shares of layers, early_exit,
 * quality below 1, kv_heavy, act_quant row or first_stage; the KV cache has fp16, 8 bits or floats.
 * Adapters go there, too, and count in `memory`.
 *
 * QSF_E_ARGUMENT      a sequence has positions, or the context uses or used a GPU; or n_layers is 0
 * QSF_E_NOT_FOUND     i is past the last device
 * QSF_E_UNSUPPORTED   the device cannot compute this model, as the message says
 * QSF_E_BUDGET        memory has no room for a single layer
 * QSF_E_CORRUPT       the device computes something else than the CPU, or does not compile what it
 *                     should; the message names it and the case
 * QSF_E_MEMORY, QSF_E_IO   the device is full, or lost
 *
 * After every error the context works without it.  A device that fails later, or gives values
 * that are not finite, is given up with a warning in the model's log: from then on the CPU computes
 * its layers, and first what the device had of the sequences.  A batch then takes longer.  It
 * fails, with QSF_E_IO, only if positions cannot be computed again, because a window has dropped
 * others or the model's layers keep state; its sequences are empty then. */
QSF_API qsf_status qsf_context_use_device(qsf_context *c, qsf_devices *d, uint32_t i, uint32_t n_layers,
                                          uint64_t memory);
/* What qsf_context_use_device would move, which is known before it opens the GPU: out->bytes is 0.
 * A program asks a context that has the device_layers that it hopes for; if fewer move, or the head
 * does not (out->head), its next context has out->n_layers, or none without the head.
 *
 * QSF_E_ARGUMENT   out->size does not match the struct
 * other errors     those of qsf_context_use_device that need no GPU */
QSF_API qsf_status qsf_context_device_fits(qsf_context *c, qsf_devices *d, uint32_t i, uint32_t n_layers,
                                           uint64_t memory, qsf_device_use *out);
/* What of the context is on a GPU.
 *
 * QSF_E_ARGUMENT   out->size does not match the struct */
QSF_API qsf_status qsf_context_device(const qsf_context *c, qsf_device_use *out);

/* One part of the plan: its name and its size in bytes. */
typedef struct qsf_plan_item { const char *name; uint64_t bytes; } qsf_plan_item;
/* How a context uses its memory, and what was reduced to meet the budget. */
typedef struct qsf_plan {
    size_t        size;          /* set by the caller: sizeof(qsf_plan) */
    qsf_plan_item items[16];
    size_t        n_items;
    uint64_t      total;         /* bytes */
    uint64_t      least;         /* the smallest ram_budget that works with these options, with every
                                  * reduction */
    uint32_t      n_ctx, n_batch;         /* as granted */
    uint32_t      kv_window, kv_heavy;    /* as in the options, or as chosen by the plan (kv_may_drop) */
    qsf_kv_type   kv_type;
    bool          resident;      /* all layers stay in memory; otherwise some are streamed through n_slots
                                  * buffers */
    uint32_t      n_slots;
    char          reductions[12][64];     /* what was reduced: "batch 256 -> 64" */
    bool          losses[12];             /* whether that reduction may change answers, not only speed */
    size_t        n_reductions;
    uint32_t      n_experts;     /* experts that fit in memory; 0: they are read with their layers */
} qsf_plan;
/* The plan of a context.
 *
 * QSF_E_ARGUMENT   out->size does not match the struct */
QSF_API qsf_status qsf_context_get_plan(const qsf_context *c, qsf_plan *out);
/* Makes the plan that qsf_context_new would make with these options (NULL: the defaults), from the
 * file's description alone: it reads no weights, starts no threads and keeps no memory.
 *
 * QSF_E_BUDGET     out->least is the smallest budget that works; the rest of *out is empty
 * QSF_E_ARGUMENT   an option is out of range, or out->size does not match the struct */
QSF_API qsf_status qsf_context_plan(const qsf_model *m, const qsf_context_options *opts, qsf_plan *out,
                                    qsf_error *err);
/* Writes what a plan reduced to the model's log, as qsf_context_new does with its own plan.  opts:
 * those that the plan was made with. */
QSF_API void       qsf_plan_log(const qsf_model *m, const qsf_plan *plan, const qsf_context_options *opts);

/* The memory that the process uses now, in bytes, as reported by the system.  0: the system does
 * not report it.
 *
 * QSF_E_ARGUMENT   out->size does not match the struct */
typedef struct qsf_usage {
    size_t   size;           /* set by the caller: sizeof(qsf_usage) */
    uint64_t resident;       /* everything, as RSS counts it; compare this with a budget */
    uint64_t own;            /* the part of resident that is not backed by files */
    uint64_t files;          /* the part of resident that is pages of files: the program and its libraries */
    uint64_t peak;           /* the largest resident so far */
    uint64_t cached;         /* the model's files in the system's page cache, which is not memory of the
                              * process: the system reclaims it if needed */
} qsf_usage;
QSF_API qsf_status qsf_model_get_usage(const qsf_model *m, qsf_usage *out);

/* Where a context's time went since it was created or reset.  ns: nanoseconds.
 *
 * QSF_E_ARGUMENT   out->size does not match the struct */
typedef struct qsf_stats {
    size_t   size;                                  /* set by the caller: sizeof(qsf_stats) */
    uint64_t tokens_prompt, tokens_generated;       /* rows of batches; a batch counts as generated if all of
                                                     * its rows ask for logits */
    uint64_t ns_prompt, ns_generated;
    uint64_t ns_wait_io, ns_prepare;                /* waiting for a layer; checking, decompressing and
                                                     * repacking layers, on any thread */
    uint64_t ns_matmul, ns_attention, ns_other;     /* time of the first thread; ns_matmul counts only the
                                                     * layers */
    uint64_t bytes_read;
    const char *isa;
    uint32_t n_threads;
    uint64_t ns_read;                               /* reads were in progress, as far as anything waited for
                                                     * their end */
    uint64_t ns_check, ns_decompress;               /* parts of ns_prepare */
    uint64_t ns_head;                               /* the products of the head */
    const char *io;                                 /* how the file is read, in one or two words */
    float    overlap;                               /* 0..1: the share of ns_read and ns_prepare that
                                                     * passed while something was computed */
    uint64_t layers_left;                           /* layers that tokens skipped by early exit */
    /* if experts are read individually: how many batches used (each once per layer and batch), how
     * many of these were in memory, how many were read, and their bytes, a part of bytes_read */
    uint64_t experts_used, experts_found, experts_read, experts_bytes;
    uint64_t adapter_bytes;                         /* of streamed adapters, after conversion */
} qsf_stats;
QSF_API qsf_status qsf_context_get_stats(const qsf_context *c, qsf_stats *out);
QSF_API void       qsf_context_reset_stats(qsf_context *c);

/* What one product kernel has done since the context was created or its statistics were reset.  It
 * is always counted, at no measurable cost. */
typedef struct qsf_kernel_use {
    size_t   size;           /* set by the caller: sizeof(qsf_kernel_use) */
    char     id[48];         /* form, operation, instruction set: docs/tracing.md */
    uint64_t products;       /* matrices, once per batch */
    uint64_t rows;           /* their rows times those of the batches: results computed */
    uint64_t bytes;          /* of weights, once per product */
} qsf_kernel_use;
/* Writes the i-th kernel that was used to *out, i = 0, 1, ...
 *
 * QSF_E_NOT_FOUND  no more kernels
 * QSF_E_ARGUMENT   out->size does not match the struct */
QSF_API qsf_status qsf_context_get_kernel(const qsf_context *c, size_t i, qsf_kernel_use *out);

/* The same for one operation: a part of a step that the threads share. */
typedef struct qsf_operation_use {
    size_t      size;        /* set by the caller: sizeof(qsf_operation_use) */
    const char *name;        /* "qkv": docs/tracing.md */
    uint64_t    times, ns;   /* of the first thread */
} qsf_operation_use;
/* Writes the i-th operation that was used to *out, i = 0, 1, ..., in the order of a step.
 *
 * QSF_E_NOT_FOUND  no more operations
 * QSF_E_ARGUMENT   out->size does not match the struct */
QSF_API qsf_status qsf_context_get_operation(const qsf_context *c, size_t i, qsf_operation_use *out);

/* ---- sequences ------------------------------------------------------------------------------- */

/* A sequence: tokens whose keys and values the context keeps.  Its number is 0 to n_seqs - 1.  All
 * sequences are empty at first. */
typedef int32_t qsf_seq;

/* The number of positions of a sequence, without those of an unfinished batch. */
QSF_API uint32_t   qsf_seq_length(const qsf_context *c, qsf_seq s);
/* How many more tokens fit: what n_ctx and the other sequences leave or, with kv_window, the
 * positions left up to 16777216.  The rows of an unfinished batch count as done. */
QSF_API uint32_t   qsf_seq_room(const qsf_context *c, qsf_seq s);
/* How the memory for keys and values is used, in blocks of positions that sequences can share.  A
 * program with many sequences checks this before it begins another one. */
typedef struct qsf_kv_usage {
    size_t   size;           /* set by the caller: sizeof(qsf_kv_usage) */
    uint32_t block;          /* positions per block */
    uint32_t n_blocks, n_free;
    uint32_t n_listed;       /* blocks of all sequences; a block that two share counts twice */
    uint64_t positions;      /* of all sequences */
} qsf_kv_usage;
/* Writes the usage to *out; the rows of an unfinished batch count as done.
 *
 * QSF_E_ARGUMENT   out->size does not match the struct */
QSF_API qsf_status qsf_context_get_kv_usage(const qsf_context *c, qsf_kv_usage *out);
/* Truncates a sequence to n positions; 0 empties it.  An unfinished batch is dropped.  Keys and
 * values can be truncated to any length.  If a model's layers keep other state of a sequence, which
 * cannot be truncated, the sequence goes back to the nearest possible position at or before n: its
 * length, where its last batch began, a checkpoint, or 0.  qsf_seq_length returns it; the tokens
 * from there on have to be fed again.
 *
 * QSF_E_ARGUMENT   n is above the length or, with kv_window, the next token would see positions
 *                  that were dropped.  Going back to where the last batch began always works */
QSF_API qsf_status qsf_seq_truncate(qsf_context *c, qsf_seq s, uint32_t n);
/* dst becomes the first n positions of src.  Both share the blocks until one of them writes.  The
 * same n are possible as in qsf_seq_truncate, except after a position that early exit has left
 * unfinished (QSF_E_ARGUMENT): the next eight tokens finish it.  If layers keep other state, dst
 * may get fewer positions, as in qsf_seq_truncate, and gets no checkpoints; src does not change. */
QSF_API qsf_status qsf_seq_share(qsf_context *c, qsf_seq dst, qsf_seq src, uint32_t n);
/* Makes the sequence's current length a checkpoint, to which qsf_seq_truncate can go back.  Nothing
 * is copied.  A sequence keeps at least its last two checkpoints; turns make one where they begin
 * and one after the prompt.  No effect for models without state besides keys and values. */
QSF_API qsf_status qsf_seq_checkpoint(qsf_context *c, qsf_seq s);
/* From now on also makes checkpoints where batches begin n or more positions after the last
 * checkpoint.  0: no more. */
QSF_API qsf_status qsf_seq_checkpoint_every(qsf_context *c, qsf_seq s, uint32_t n);

/* ---- adapters -------------------------------------------------------------------------------- */

/* A low-rank adapter (LoRA: Hu et al. 2021, arXiv:2106.09685) of a model: llama.cpp's GGUF file or
 * a PEFT directory.  It adds scale * alpha / rank * B (A x), in floats, to the product of a matrix
 * W and x; the model's weights do not change.  docs/adapters.md lists the supported matrices. */
typedef struct qsf_adapter qsf_adapter;

/* Reads an adapter into memory, where it stays.  file: as in qsf_model_options; otherwise NULL.
 * Contexts of the model may be in use meanwhile.  On an error *out is NULL.
 *
 * QSF_E_UNSUPPORTED   not an adapter, an adapter for another architecture, or it changes something
 *                     that this version does not support: the message names the tensor or the key
 * QSF_E_CORRUPT       the file is damaged, or does not match the model
 * and the errors of qsf_model_open */
QSF_API qsf_status qsf_adapter_load(qsf_model *m, const char *path, const qsf_custom_file *file,
                                    qsf_adapter **out, qsf_error *err);
/* How an adapter is stored in memory.  All members may be 0; size is set by the caller. */
typedef struct qsf_adapter_options {
    size_t                 size;      /* sizeof(qsf_adapter_options) */
    const qsf_custom_file *file;      /* as in qsf_model_options; otherwise NULL */
    bool                   exact;     /* false: for quantised matrices, in 8 bits.  true: as precisely as in
                                       * the file, as contexts need that compute with floats (f32) */
    bool                   streamed;  /* false: it stays in memory, and the file is closed.  true: the file
                                       * stays open, and the part for a layer is read each time the layer runs
                                       */
    uint32_t               number;    /* the program's own, returned in qsf_adapter_info */
} qsf_adapter_options;
/* As qsf_adapter_load, with options; opts may be NULL.
 *
 * QSF_E_ARGUMENT   opts->size does not match the struct; and the errors of qsf_adapter_load */
QSF_API qsf_status qsf_adapter_open(qsf_model *m, const char *path, const qsf_adapter_options *opts,
                                    qsf_adapter **out, qsf_error *err);
/* Releases an adapter (takes NULL).  Sequences that use it keep it until they are given others, or
 * their context is freed.  All this must happen before the model is closed. */
QSF_API void       qsf_adapter_free(qsf_adapter *a);

/* A description of an adapter.  The string belongs to the adapter.
 *
 * QSF_E_ARGUMENT   out->size does not match the struct */
typedef struct qsf_adapter_info {
    size_t      size;         /* set by the caller: sizeof(qsf_adapter_info) */
    const char *name;         /* from the file's metadata, or the path */
    uint32_t    n_matrices;   /* matrices that it changes */
    uint32_t    rank;         /* the largest */
    float       alpha;        /* 0: the file has none, and alpha / rank is 1 */
    uint64_t    bytes;        /* of memory, including what batches of 256 rows need for it */
    uint32_t    number;       /* as given when it was opened */
} qsf_adapter_info;
QSF_API qsf_status qsf_adapter_get_info(const qsf_adapter *a, qsf_adapter_info *out);

/* An adapter and its scale. */
typedef struct qsf_adapter_use { qsf_adapter *adapter; float scale; } qsf_adapter_use;
/* From now on, a sequence's rows are computed with these n adapters, at most 8; their effects are
 * added.  n 0: without adapters, bit for bit.  Adapters with a scale of 0 are ignored.  Rows of one
 * batch may have different adapters.
 *
 * If the adapters or their scales change, the sequence is emptied, since its keys and values were
 * computed with the old ones, and an unfinished batch is dropped.  qsf_seq_share works between
 * sequences with the same adapters; sessions have to be loaded with the adapters that they were
 * saved with.
 *
 * This may allocate.
 *
 * QSF_E_BUDGET        the context has a ram_budget and adapter_bytes is too small
 * QSF_E_UNSUPPORTED   the adapter changes the head, and the context's is not QSF_HEAD_EXACT; or the
 *                     context computes with floats and the adapter was not opened as exact
 * QSF_E_ARGUMENT      too many adapters, a scale that is not a number, or an adapter of another
 *                     model
 *
 * Also the errors of qsf_behind.adapters. */
QSF_API qsf_status qsf_seq_set_adapters(qsf_context *c, qsf_seq s, const qsf_adapter_use *uses, size_t n);

/* ---- sessions -------------------------------------------------------------------------------- */

/* Receives the next len bytes of a session.  Any result other than QSF_OK ends the saving with that
 * status. */
typedef qsf_status (*qsf_write_fn)(void *user, const void *bytes, size_t len);

/* Writes a sequence with its keys and values, so that another context of the same model can
 * continue without computing them again.  The context does not store tokens: ids are the sequence's
 * tokens, and n_ids must be qsf_seq_length.  An unfinished batch is not saved.  Equal keys and
 * values give equal bytes on every machine (docs/session-files.md).
 *
 * QSF_E_UNSUPPORTED   kv_window has dropped positions
 * QSF_E_ARGUMENT      n_ids is wrong, or early exit has left a position unfinished
 *
 * Any other status is the one that write returned. */
QSF_API qsf_status qsf_session_save(const qsf_context *c, qsf_seq s, const int32_t *ids, size_t n_ids,
                                    qsf_write_fn write, void *user, qsf_error *err);
/* How many bytes qsf_session_save would write now. */
QSF_API uint64_t   qsf_session_bytes(const qsf_context *c, qsf_seq s);
/* Restores a saved sequence as sequence s, and writes its tokens to ids and their number to *n_ids.
 * The function reads `from` twice and never closes it: the first time it checks all bytes, and
 * nothing changes unless all of them are valid.
 *
 * QSF_E_CORRUPT       not a session, or damaged or truncated
 * QSF_E_UNSUPPORTED   written by a different version of libqsf
 * QSF_E_ARGUMENT      the session has another model, KV type or, if keys depend on them, context
 *                     length or quality; or *n_ids is larger than cap
 * QSF_E_FULL          the session does not fit
 * QSF_E_IO            the bytes could not be read, or changed before the second read, which leaves
 *                     the sequence empty */
QSF_API qsf_status qsf_session_load(qsf_context *c, qsf_seq s, const qsf_custom_file *from, int32_t *ids,
                                    size_t cap, size_t *n_ids, qsf_error *err);

/* ---- computing ------------------------------------------------------------------------------- */

/* One row of a batch: a token at the next position of its sequence.  logits: whether the row needs
 * logits. */
typedef struct qsf_row { qsf_seq seq; int32_t token; bool logits; } qsf_row;

/* Begins a batch of n rows, at most n_batch; rows of one sequence are in order.  An unfinished
 * batch is dropped, and its positions are taken back.
 *
 * QSF_E_FULL       the KV cache has no free block
 * QSF_E_ARGUMENT   a token, a sequence or a number of rows is out of range */
QSF_API qsf_status qsf_batch_begin(qsf_context *c, const qsf_row *rows, size_t n);

/* Advances the batch by at most one layer.  Never blocks and never allocates.
 *
 * QSF_OK        the batch is done; qsf_logits returns the logits that its rows asked for
 * QSF_PENDING   there is more to do: call again.  If *waiting is true, the bytes of the next layer
 *               have not arrived: first call qsf_wait, or return to the event loop.  waiting may be
 *               NULL
 * QSF_E_IO, QSF_E_CORRUPT   the batch is dropped and the context stays usable; qsf_last_error gives
 *                           the place
 *
 * To cancel a batch, do not call again, or begin another batch. */
QSF_API qsf_status qsf_step(qsf_context *c, bool *waiting);
/* Blocks until the bytes that qsf_step waits for have arrived.
 *
 * QSF_E_UNSUPPORTED   the host must not block */
QSF_API qsf_status qsf_wait(qsf_context *c);
/* With first_stage: continues reading the low bits of the weights, and adds those that have
 * arrived.
 *
 * wait: until all have been added.  Otherwise it only checks, and has to be called again: between
 * two steps, or while nothing is computed.
 *
 * QSF_OK       all weights are complete, as they always are without first_stage.  From now on
 *              results are the same, bit for bit, as with the whole file; keys and values of
 *              earlier tokens do not change
 * QSF_PENDING  incomplete; with wait: a unit has not been used so far, and its high bits are read
 *              first
 * QSF_E_IO, QSF_E_CORRUPT   a piece cannot be read or is damaged; the next call reads it again */
QSF_API qsf_status qsf_refine(qsf_context *c, bool wait);
/* How many layers of the unfinished batch are computed; info.n_layers if there is no unfinished
 * batch. */
QSF_API uint32_t   qsf_batch_layer(const qsf_context *c);
/* Begins a batch, steps and waits until it is done. */
QSF_API qsf_status qsf_compute(qsf_context *c, const qsf_row *rows, size_t n);
/* Computes n tokens of one sequence, in as many batches as needed.  *logits are those of the last
 * token; logits may be NULL.
 *
 * QSF_E_FULL   the tokens do not all fit (qsf_seq_room); nothing was computed
 *
 * After any other error the sequence keeps the finished batches. */
QSF_API qsf_status qsf_feed(qsf_context *c, qsf_seq s, const int32_t *ids, size_t n, const float **logits);
/* The logits, float[n_vocab], of the i-th row of the last finished batch that asked for them; valid
 * until the next batch.  Tokens that qsf_head_mode skipped have -INFINITY.  NULL: no such row, or
 * the GPU that has it was lost (qsf_last_error). */
QSF_API const float *qsf_logits(const qsf_context *c, size_t i);

/* ---- ranges of layers ------------------------------------------------------------------------ */

/* A model whose layers run in several places: each opens the file with a range of layers
 * (qsf_model_options.first_layer), and its contexts read only these layers, plan memory for them,
 * and keep their keys and values.  The embedding is read for the first range, the final norm and
 * the head for the last one.  Between ranges, the program transfers rows of hidden states,
 * float[n_embd] each, by any means:
 *
 *   qsf_compute(first, rows, n);  from tokens
 *   states[i] = qsf_batch_states(first, i) ...  to another context, process or machine
 *   qsf_compute_from(last, rows, n, states);  the same rows
 *   qsf_logits(last, 0)
 *
 * The same rows, as floats, give the same logits as one context with all layers, bit for bit.  Each
 * context keeps its own sequences: a program truncates and shares them in all contexts.  Options of
 * contexts must be the same, except for budgets and threads; also n_ctx, which a budget may have
 * reduced (qsf_plan).  Rows may ask for logits in every range: only the last one computes them.
 * Turns, embeddings and early exit need all layers (QSF_E_UNSUPPORTED), except for turns with
 * qsf_context_set_behind, and turns of a first range whose rows the caller computes
 * (qsf_turn_computed_elsewhere).
 *
 * qsf_model_open rejects ranges of models whose layers need more than these rows
 * (QSF_E_UNSUPPORTED; the message names what), and ranges that are not in the file
 * (QSF_E_ARGUMENT). */

/* As qsf_batch_begin and qsf_compute, for a range that is not the first one: with the hidden states
 * states[n][n_embd] that the previous range computed for the same rows.  They are copied; the rows'
 * tokens are ignored.
 *
 * QSF_E_ARGUMENT   also: the range is the first one */
QSF_API qsf_status qsf_batch_begin_from(qsf_context *c, const qsf_row *rows, size_t n,
                                        const float *states);
QSF_API qsf_status qsf_compute_from(qsf_context *c, const qsf_row *rows, size_t n, const float *states);
/* The hidden state, float[n_embd], of the i-th row of the last finished batch, after the range's
 * last layer; valid until the next batch.  NULL: no such row, or the range is the last one. */
QSF_API const float *qsf_batch_states(const qsf_context *c, size_t i);

/* How the layers after a first range are computed elsewhere, so that its context returns logits as
 * if it had all layers: turns and everything that uses them then work, except for embeddings and
 * sessions.
 *
 * compute  from states[n][ld_states] after the range's last layer, of the rows of a batch, computes
 *          the logits[asked][ld_logits] of those that ask for them, in their order; it may return
 *          before it has computed rows that do not ask.  An error is the batch's result
 * back     sequence s goes back to n positions there, too
 * share    as qsf_seq_share
 * adapters as qsf_seq_set_adapters, with the corresponding adapters there (qsf_adapter_info.number
 * identifies them); a scale is never 0.  An error is returned by that call, and the sequence is
 * then empty and keeps its previous adapters.  NULL: sequences have none
 *
 * All are called by the thread that uses the context, in the required order. */
typedef struct qsf_behind {
    size_t      size;           /* sizeof(qsf_behind) */
    void       *user;
    qsf_status (*compute)(void *user, const qsf_row *rows, size_t n, const float *states,
                          size_t ld_states, float *logits, size_t ld_logits);
    void       (*back)(void *user, qsf_seq s, uint32_t n);
    void       (*share)(void *user, qsf_seq dst, qsf_seq src, uint32_t n);
    qsf_status (*adapters)(void *user, qsf_seq s, const qsf_adapter_use *uses, size_t n);
} qsf_behind;
/* Sets it, once, before the first batch.
 *
 * QSF_E_ARGUMENT      the range is not the first one, or has all layers; or a function is missing
 * QSF_E_UNSUPPORTED   the model has layers with state, or sequences have adapters already */
QSF_API qsf_status qsf_context_set_behind(qsf_context *c, const qsf_behind *b);

/* ---- shares of layers ------------------------------------------------------------------------ */

/* A model whose layers are divided among n_shares contexts, threads, processes or machines (tensor
 * parallelism).  Each opens the file with another share of all layers: some of the heads with their
 * keys and values, and some of the columns of the feed-forward.  It reads, plans and keeps only
 * these; if there are fewer key/value heads than shares, several shares have the same ones.  All
 * have the embedding; only share 0 has the final norm and the head.
 *
 * All shares compute the same batches at the same time: qsf_batch_begin, or any function built on
 * it, with the same rows in each share.  Twice in each layer, after the attention and after the
 * feed-forward, they need the sum of all results, and call the function that the program has set.
 * Share 0 has the logits; each context keeps its own sequences, which the program truncates and
 * shares in all contexts.  Options of contexts must be the same, except for budgets and threads;
 * also n_ctx and n_batch, which a budget may have reduced (qsf_plan).
 *
 * Logits differ from those of one context with everything by rounding of sums: about 1e-6 of the
 * largest if activations, keys and values are floats (f32, QSF_KV_F32), otherwise as they do
 * between instruction sets.  QSF files have checksums of whole layers, which shares cannot verify.
 *
 * qsf_model_open rejects models with layers that combine all heads or columns, and files in which
 * parts of rows cannot be read (QSF_E_UNSUPPORTED; the message names what).  Turns, embeddings,
 * adapters, early exit, approximate heads, kv_heavy, kv_may_drop and QSF_ACT_ROW need whole layers
 * (QSF_E_UNSUPPORTED). */

/* x[i] must become the sum of all shares' x[i], for n floats: rows of hidden states, one after
 * another.  Every share must get the same bits, so that all continue identically: add in the same
 * order everywhere.  The function is called by the thread that steps, and returns when the sum is
 * complete; all shares call it equally often, with the same n.  Any status other than QSF_OK is the
 * batch's result, in all shares if the program returns it in all. */
typedef qsf_status (*qsf_reduce_fn)(void *user, float *x, size_t n);
/* Sets the function, before the first batch; a batch without one is QSF_E_ARGUMENT.
 *
 * QSF_E_ARGUMENT   the model was not opened with shares */
QSF_API qsf_status qsf_context_set_reduce(qsf_context *c, qsf_reduce_fn fn, void *user);

/* ---- hidden states --------------------------------------------------------------------------- */

/* Whether batches that begin from now on also return the hidden state of each of their rows;
 * initially they do not.  It needs no memory, and the time of one norm per row.  A batch whose rows
 * need no logits skips the head. */
QSF_API void         qsf_hidden_ask(qsf_context *c, bool wanted);
/* The hidden state, float[n_embd], of the i-th row of the last finished batch: the input of the
 * head, after the final norm.  Valid until the next batch.  NULL: the batch has no such row, or
 * hidden states were not requested.  Rows of such a batch do not exit early. */
QSF_API const float *qsf_hidden(const qsf_context *c, size_t i);
/* Pools the hidden states of a text of n tokens, which may be split into several batches, into out,
 * float[n_embd].  Rows [first, first + rows) of the last finished batch are the text's tokens [at,
 * at + rows); at goes from 0 to n without a gap.  After the text's last token, out is the
 * embedding, of length 1.  The same text has the same embedding, whatever else the batches contain.
 * false: the batch has no such rows, or hidden states were not requested; out is unchanged. */
QSF_API bool         qsf_hidden_pool(const qsf_context *c, size_t first, size_t rows, size_t at, size_t n,
                                     qsf_pooling how, float *out);
/* Computes n tokens of one sequence, in as many batches as needed, and pools their hidden states
 * into out, float[n_embd].  For a text's embedding the sequence must be empty before; the tokens
 * stay in it.
 *
 * QSF_E_FULL   the tokens do not all fit (qsf_seq_room); nothing was computed
 *
 * After any other error the sequence keeps the finished batches. */
QSF_API qsf_status   qsf_embed(qsf_context *c, qsf_seq s, const int32_t *ids, size_t n, qsf_pooling how,
                               float *out);

/* How qsf_embed_texts makes embeddings. */
typedef struct qsf_embed_options {
    size_t      size;        /* sizeof(qsf_embed_options) where the caller was compiled */
    qsf_pooling pooling;     /* QSF_POOL_NONE: as the file specifies, otherwise the mean */
    bool        plain;       /* false: each embedding is scaled to length 1 */
} qsf_embed_options;
/* Fills all members with their defaults, which are zeros. */
QSF_API void qsf_embed_defaults_of(qsf_embed_options *o, size_t size);
static inline void qsf_embed_defaults(qsf_embed_options *o) { qsf_embed_defaults_of(o, sizeof *o); }
/* Number of floats per text, or per token with QSF_POOL_TOKENS: n_embd, or n_classes for
 * QSF_POOL_RANK. */
QSF_API uint32_t     qsf_embed_width(const qsf_model *m, qsf_pooling pooling);
/* Embeds n texts of lens[i] tokens each, which follow one another in ids.  A batch holds as many
 * texts as there are sequences (n_seqs) and rows (n_batch); the result for a text does not depend
 * on the others.  The embeddings are written to out in order: float[n][width], with QSF_POOL_TOKENS
 * one per token.  opts may be NULL.  All sequences are empty afterwards.
 *
 * QSF_E_ARGUMENT      a text without tokens, or a token that is not in the vocabulary
 * QSF_E_FULL          a text does not fit in the context or, with an encoder, in one batch
 *                     (n_batch)
 * QSF_E_UNSUPPORTED   QSF_POOL_RANK, and the file has no classifier */
QSF_API qsf_status   qsf_embed_texts(qsf_context *c, const int32_t *ids, const size_t *lens, size_t n,
                                     const qsf_embed_options *opts, float *out);

/* As qsf_hidden_pool, including what the file applies after the pooling (a classifier, dense
 * layers), and with options, except for QSF_POOL_TOKENS: the result of qsf_embed_texts.  out must
 * have room for float[n_embd] and for float[qsf_embed_width]; after an error its contents are
 * undefined.  opts may be NULL.
 *
 * QSF_E_ARGUMENT      the batch has no such rows, or hidden states were not requested
 * QSF_E_UNSUPPORTED   QSF_POOL_RANK, and the file has no classifier */
QSF_API qsf_status   qsf_hidden_embed(qsf_context *c, size_t first, size_t rows, size_t at, size_t n,
                                      const qsf_embed_options *opts, float *out);

/* The tokens of a query and a document as the model was trained to rank them: with the file's own
 * template (tokenizer.chat_template.rerank); for a classifier, two texts with the tokens that
 * begin, separate and end them; otherwise Qwen3-Reranker's question, which is answered yes or no.
 * ids, cap and *n are as in qsf_tokens_encode. */
QSF_API qsf_status   qsf_rerank_encode(const qsf_model *m, const char *query, size_t query_len,
                                       const char *document, size_t document_len, int32_t *ids, size_t cap,
                                       size_t *n, qsf_error *err);
/* Scores n such pairs of lens[i] tokens each, which follow one another in ids: the classifier's
 * first value, or the probability of "yes" in the model's answer; higher is better.  All sequences
 * are empty afterwards.
 *
 * QSF_E_UNSUPPORTED   there is neither a classifier nor a yes and a no; other errors as in
 *                     qsf_embed_texts */
QSF_API qsf_status   qsf_rerank(qsf_context *c, const int32_t *ids, const size_t *lens, size_t n,
                                float *scores);

/* The same without blocking: embeddings or scores that are computed one layer at a time.
 *
 *   qsf_embed_begin(c, ids, lens, n, &opts, out, &e);
 *   while ((st = qsf_embed_step(e, &waiting)) == QSF_PENDING)
 *       if (waiting) ...  return to the event loop, or qsf_wait(c)
 *   qsf_embed_end(e);
 *
 * From the first call to qsf_embed_end, the context computes nothing else: sequences are emptied
 * when it begins and when it ends. */
typedef struct qsf_embed_run qsf_embed_run;
/* As qsf_embed_texts and qsf_rerank, but only checks the arguments and begins.  ids, lens and out
 * must stay valid until qsf_embed_end.  On an error *e is NULL, and qsf_last_error(c) describes it.
 *
 * QSF_E_MEMORY   out of memory; the other errors are those of qsf_embed_texts and qsf_rerank */
QSF_API qsf_status   qsf_embed_begin(qsf_context *c, const int32_t *ids, const size_t *lens, size_t n,
                                     const qsf_embed_options *opts, float *out, qsf_embed_run **e);
QSF_API qsf_status   qsf_rerank_begin(qsf_context *c, const int32_t *ids, const size_t *lens, size_t n,
                                      float *scores, qsf_embed_run **e);
/* Computes at most one layer.  Never blocks and never allocates.  *waiting is as in qsf_step.
 *
 * QSF_OK        the results are complete
 * QSF_PENDING   call again
 *
 * Any other status ends the computation; qsf_last_error(c) describes it.  The status of the end is
 * returned again by later calls. */
QSF_API qsf_status   qsf_embed_step(qsf_embed_run *e, bool *waiting);
/* Cancels it unless it has ended, and frees it (takes NULL).  The context must still exist. */
QSF_API void         qsf_embed_end(qsf_embed_run *e);

/* ---- sampling -------------------------------------------------------------------------------- */

/* Chooses tokens from logits.  docs/sampling.md describes the order of its parts. */
typedef struct qsf_sampler qsf_sampler;

/* The size of qsf_sampler_options.samplers: letters of stages, and a zero. */
enum { QSF_SAMPLER_ORDER = 24 };

/* Options of qsf_sampler_new. */
typedef struct qsf_sampler_options {
    size_t   size;                /* sizeof(qsf_sampler_options), set by qsf_sampler_defaults */
    uint64_t seed;                /* 0: from the platform's clock */
    float    temperature;         /* 0.7; <= 0: the token with the largest logit, regardless of the other
                                   * options */
    uint32_t top_k;               /* 40; 0: off */
    float    top_p;               /* 0.9; >= 1: off */
    float    min_p;               /* 0: off */
    float    repeat_penalty;      /* 1: off */
    float    frequency_penalty, presence_penalty;   /* 0: off */
    uint32_t repeat_last_n;       /* 64 */
    float    dry_multiplier;      /* 0: off.  DRY: a token that would extend a repetition of
                                   * dry_allowed_length tokens or more loses dry_multiplier * dry_base ^
                                   * (length - dry_allowed_length) */
    float    dry_base;            /* 1.75 */
    uint32_t dry_allowed_length;  /* 2 */
    uint32_t dry_last_n;          /* 1024; tokens in which repetitions are searched */
    float    top_n_sigma;         /* 0: off; otherwise keeps tokens whose logit is at most this many standard
                                   * deviations below the largest */
    float    typical_p;           /* 1: off; locally typical sampling, Meister et al. 2022,
                                   * arXiv:2202.00666 */
    float    xtc_probability;     /* 0: off; how often all tokens with a probability of xtc_threshold or more
                                   * are excluded, except the least likely of them */
    float    xtc_threshold;       /* 0.1; above 0.5: off */
    float    dynatemp_range;      /* 0: off; otherwise the temperature varies between temperature - range and
                                   * temperature + range, with the entropy of the remaining tokens */
    float    dynatemp_exponent;   /* 1 */
    uint32_t mirostat;            /* 0: off; 1, 2: the version of Mirostat, Basu et al. 2020,
                                   * arXiv:2007.14966, instead of the other truncating samplers */
    float    mirostat_tau;        /* 5; target surprise in bits */
    float    mirostat_eta;        /* 0.1; learning rate */
    char     samplers[QSF_SAMPLER_ORDER];       /* "": all stages, in the default order.  Otherwise the
                                                 * letters of the stages that run, in this order; the others
                                                 * are off.  e: penalties, d: DRY, s: top-n-sigma,
                                                 * t: temperature, m: min-p, k: top-k, y: typical-p,
                                                 * p: top-p, x: XTC.  qsf_sampler_set also takes names
                                                 * ("top_k;temperature"; docs/sampling.md) */
} qsf_sampler_options;

/* Fills all members of *o with their defaults. */
QSF_API void qsf_sampler_defaults_of(qsf_sampler_options *o, size_t size);
static inline void qsf_sampler_defaults(qsf_sampler_options *o) { qsf_sampler_defaults_of(o, sizeof *o); }
/* The named options of a sampler, like qsf_context_option and qsf_context_set for a context. */
QSF_API const qsf_option *qsf_sampler_option(size_t i);
QSF_API qsf_status qsf_sampler_set(qsf_sampler_options *o, const char *name, const char *value,
                                   qsf_error *err);
/* Creates a sampler (o may be NULL); frees it (takes NULL). */
QSF_API qsf_status qsf_sampler_new(const qsf_model *m, const qsf_sampler_options *o, qsf_sampler **out,
                                   qsf_error *err);
QSF_API void       qsf_sampler_free(qsf_sampler *s);

/* A token's bias; the natural logarithm of a token's probability. */
typedef struct qsf_logit_bias { int32_t token; float bias; } qsf_logit_bias;
typedef struct qsf_logprob { int32_t token; float logprob; } qsf_logprob;

/* Adds bias to the token's logit before everything else; -INFINITY: the token is never chosen.  The
 * last bias of a token applies; 0 removes it.
 *
 * QSF_E_ARGUMENT   no such token, or a bias that is not a number below infinity */
QSF_API qsf_status qsf_sampler_bias(qsf_sampler *s, int32_t token, float bias, qsf_error *err);
/* Bans a string from the answer: a token that would complete it is forbidden, however the string is
 * split into tokens.  The string is copied; it has 1 to 1024 bytes. */
QSF_API qsf_status qsf_sampler_ban(qsf_sampler *s, const char *text, size_t len, qsf_error *err);
/* A string that ends repetitions for DRY, copied like a banned one.  A new sampler has "\n", ":",
 * "\"" and "*"; a length of 0 removes all. */
QSF_API qsf_status qsf_sampler_breaker(qsf_sampler *s, const char *text, size_t len, qsf_error *err);
/* May change the logits of n tokens, after the biases and before the penalties.  -INFINITY forbids
 * a token; tokens forbidden by grammars and bans stay forbidden.  NULL: no callback. */
typedef void (*qsf_logits_fn)(void *user, float *logits, size_t n);
QSF_API void       qsf_sampler_callback(qsf_sampler *s, qsf_logits_fn fn, void *user);

/* Picks a token.  logits are only read.  If biases, bans and the callback leave no token, they are
 * ignored. */
QSF_API int32_t    qsf_sampler_pick(qsf_sampler *s, const float *logits);
/* Tells the sampler about a token, for penalties and banned strings; also about the prompt's
 * tokens.  Reset forgets them. */
QSF_API void       qsf_sampler_accept(qsf_sampler *s, int32_t token);
QSF_API void       qsf_sampler_reset(qsf_sampler *s);
/* Marks everything accepted so far as the prompt: strings that begin there are not part of the
 * answer.  A turn does this by itself. */
QSF_API void       qsf_sampler_begin(qsf_sampler *s);

/* ---- grammars -------------------------------------------------------------------------------- */

/* A constraint on answers: a set of strings.  If a turn has one (qsf_turn_options), its answer is
 * one of these strings.  A grammar can be used for any number of turns, by one thread at a time and
 * with one model at a time: they share what has been computed of it.  docs/grammars.md describes
 * each kind. */
typedef struct qsf_grammar qsf_grammar;

/* The kinds of grammars.
 *
 * QSF_GRAMMAR_GBNF         rules as in llama.cpp; the answer matches the rule "root".  A grammar
 *                          that is clearly Lark (rules with ":") is read as Lark
 * QSF_GRAMMAR_REGEX        a regular expression that matches the whole answer
 * QSF_GRAMMAR_JSON         any JSON value; the text is empty
 * QSF_GRAMMAR_JSON_SCHEMA  a JSON Schema, drafts 4 to 2020-12
 * QSF_GRAMMAR_CHOICES      the possible answers, one per line or as a JSON list of strings
 * QSF_GRAMMAR_LARK         rules as in the Python package lark; the answer matches the rule
 *                          "start" */
typedef enum qsf_grammar_kind {
    QSF_GRAMMAR_GBNF = 0, QSF_GRAMMAR_REGEX = 1, QSF_GRAMMAR_JSON = 2, QSF_GRAMMAR_JSON_SCHEMA = 3,
    QSF_GRAMMAR_CHOICES = 4, QSF_GRAMMAR_LARK = 5
} qsf_grammar_kind;

/* Options of qsf_grammar_new. */
typedef struct qsf_grammar_options {
    size_t   size;           /* sizeof(qsf_grammar_options), set by qsf_grammar_defaults */
    uint32_t json_blanks;    /* 32, enough for a line end and its indentation; the most spaces and line ends
                              * wherever JSON allows white space.  0: compact; UINT32_MAX: no limit */
    uint64_t most_memory;    /* bytes, up to 96 MB; 0: 96 MB.  A grammar that needs more is too large.  If
                              * this is found only during a turn, the turn fails with QSF_E_BUDGET, and so do
                              * others with this grammar */
    bool     json_loose;     /* false; true: unsupported keywords of a schema are ignored one by one instead
                              * of being an error */
} qsf_grammar_options;

/* Fills all members of *o with their defaults. */
QSF_API void qsf_grammar_defaults_of(qsf_grammar_options *o, size_t size);
static inline void qsf_grammar_defaults(qsf_grammar_options *o) { qsf_grammar_defaults_of(o, sizeof *o); }
/* Creates a grammar from text[0..len).  opts may be NULL.  On an error *out is NULL.  The grammar
 * does not need the model afterwards.
 *
 * QSF_E_ARGUMENT      the text is not of this kind, has an unsupported part, or nothing can match
 *                     it; the message gives the position
 * QSF_E_CORRUPT       not valid GBNF, Lark or JSON; the message gives line and column
 * QSF_E_UNSUPPORTED   a feature of GBNF or Lark that is not supported
 * QSF_E_BUDGET        the grammar is too large or too deep; the message names the limit
 * QSF_E_MEMORY        out of memory */
QSF_API qsf_status qsf_grammar_new(const qsf_model *m, qsf_grammar_kind kind, const char *text, size_t len,
                                   const qsf_grammar_options *opts, qsf_grammar **out, qsf_error *err);
QSF_API void       qsf_grammar_free(qsf_grammar *g);    /* takes NULL; end the turns that use it first */
/* The bytes that a grammar uses now, including what turns have computed of it. */
QSF_API uint64_t   qsf_grammar_memory(const qsf_grammar *g);
/* Computes what all grammars need of the model's vocabulary.  Otherwise the first turn with a
 * grammar does, which takes a tenth of a second for 150,000 tokens.  Any thread may call this.
 *
 * QSF_E_UNSUPPORTED   the model has no vocabulary
 * QSF_E_MEMORY        out of memory */
QSF_API qsf_status qsf_grammar_prepare(qsf_model *m, qsf_error *err);
/* Whether the grammar accepts text[0..len).  *fits (may be NULL) is the length of the longest
 * prefix with which an accepted string can begin: if that is len, only the end is missing. */
QSF_API bool       qsf_grammar_accepts(qsf_grammar *g, const char *text, size_t len, size_t *fits);

/* ---- drafts ---------------------------------------------------------------------------------- */

/* The most guesses per pass that are worth their time: up to eight rows the kernels read each
 * weight once. */
enum { QSF_DRAFT_MOST = 7 };
/* Guesses the tokens that follow ids[0..n): finds the latest earlier occurrence of the last 2 to 4
 * tokens and writes the tokens after it to out, at most cap.  Returns their number; 0: no such
 * occurrence.
 *
 * If layers are streamed, a batch of the last token and its guesses, each row with logits, costs
 * little more than the last token alone.  Pick a token from row i's logits; as long as it is the
 * guess of row i + 1, that row's logits are valid and need no pass of their own.  At the first
 * wrong guess, remove the rest with qsf_seq_truncate.  The tokens are the same as without guesses.
 */
QSF_API size_t qsf_draft_lookup(const int32_t *ids, size_t n, int32_t *out, size_t cap);
/* Raises o->n_logits for up to `most` guesses per pass, and returns the number granted; 0: *o is
 * unchanged.  That happens if layers will not be streamed, or if guesses would change answers (with
 * early_exit and kv_heavy).  Fewer than `most` are granted if the plan would have to reduce too
 * much: more than half of the batch, any position of a requested context, any precision of keys and
 * values. */
QSF_API uint32_t qsf_draft_room(const qsf_model *m, qsf_context_options *o, uint32_t most);

/* Guesses the tokens that follow ids[0..n): writes at most cap of them to out and returns their
 * number. */
typedef size_t (*qsf_guess_fn)(void *user, const int32_t *ids, size_t n, int32_t *out, size_t cap);
/* A guess for one of several sequences: the parameters of a qsf_guess_fn, and its result. */
typedef struct qsf_guess {
    void          *user;
    const int32_t *ids;
    size_t         n;
    int32_t       *out;
    size_t         cap, found;
} qsf_guess;
/* Makes n guesses, and sets `found` of each. */
typedef void (*qsf_guess_many_fn)(qsf_guess *list, size_t n);

/* Some models have layers that were trained to predict further tokens (multi-token prediction: GLM
 * 4.5, Qwen 3.5 and 3 Next, DeepSeek V3).  Such a layer takes the hidden state of the model's last
 * layer and the token chosen after it, and predicts the token after that one; from its own hidden
 * state it predicts the next one.  qsf_mtp makes drafts of these predictions.
 *
 *     qsf_model_open(path, {mtp = true}, &layer_model);      the same file again
 *     qsf_context_new(layer_model, {n_ctx, n_seqs}, &layer);
 *     qsf_mtp_new(context, layer, 0, &mtp);
 *     turn options: draft = 3, guess = qsf_mtp_guess, guess_user = qsf_mtp_user(mtp, seq)
 *
 * The layer has its own keys and values, in its own context, whose options may differ from those of
 * the model's context.  It follows the model's sequences by itself: after every batch of the
 * model's context it takes the rows' hidden states, and it shares and truncates as the model's
 * sequences do.  After a loaded session or another gap it starts over with the next rows, which may
 * make its guesses worse; the answer is always the model's own.
 *
 * An EAGLE 3 head (Li et al. 2025, arXiv:2503.01840) is such a layer in a file of its own, whose
 * qsf_model_info has draft_head set.  It takes what goes into three of the model's layers in place
 * of the hidden state: open it like any other model, and use its context as `layer`. */
typedef struct qsf_mtp qsf_mtp;
/* Connects a model's context with that of its layer for multi-token prediction, or of an EAGLE 3
 * head.  From now on the model's context computes hidden states of all rows.  Sequences that only
 * the model's context has get no guesses.  fixed: each guess has as many tokens as the turn asks
 * for; otherwise it ends before the first token that the layer is unsure of.
 *
 * QSF_E_ARGUMENT      layer was not opened with `mtp`, or its model's sizes differ; a head does not
 *                     fit the model, see qsf_draft_model_check
 * QSF_E_UNSUPPORTED   the model of a head has layers on a GPU, or an approximate head
 * QSF_E_MEMORY        no memory for the hidden states of 64 rows of each sequence */
QSF_API qsf_status qsf_mtp_new(qsf_context *context, qsf_context *layer, bool fixed, qsf_mtp **out,
                               qsf_error *err);
/* Free it before the two contexts.  NULL is allowed. */
QSF_API void       qsf_mtp_free(qsf_mtp *d);
/* Bytes that qsf_mtp_new takes besides the layer's context, which has these options; all of n_ctx,
 * n_seqs, n_batch and n_logits are set. */
QSF_API uint64_t   qsf_mtp_bytes(const qsf_model *layer, const qsf_context_options *o);
/* And for each row of a batch of the model's context (n_batch); 0 unless it is an EAGLE 3 head. */
QSF_API uint64_t   qsf_mtp_row_bytes(const qsf_model *layer);
/* What qsf_mtp_guess takes for a sequence of the model's context; NULL: not one of them. */
QSF_API void      *qsf_mtp_user(qsf_mtp *d, qsf_seq s);
/* A qsf_guess_fn and a qsf_guess_many_fn; each user is from qsf_mtp_user.  Many guesses share the
 * layer's batches, as far as n_logits and n_batch of its context allow.  If that context fails,
 * both guess nothing from then on, and qsf_mtp_error says why. */
QSF_API size_t     qsf_mtp_guess(void *user, const int32_t *ids, size_t n, int32_t *out, size_t cap);
QSF_API void       qsf_mtp_guess_many(qsf_guess *list, size_t n);
/* The text of the error that ended the guesses; "": none has. */
QSF_API const char *qsf_mtp_error(const qsf_mtp *d);

/* A draft model: a second, small model with the same vocabulary predicts what the first will write.
 *
 *     qsf_context_new(small_model, {n_ctx, n_seqs, n_logits}, &small);
 *     qsf_draft_model_new(context, small, &d, &err);
 *     turn options: draft = 3, guess = qsf_draft_model_guess,
 *                   guess_user = qsf_draft_model_user(d, seq)
 *
 * Sequence i of its context follows sequence i of the model's context by itself: it computes
 * prompts, shares and truncates as that one does.  A sequence of a loaded session is computed along
 * with later batches, and has no guesses until then.  A guess ends before the first token to which
 * the draft model gives a probability below 0.3; the answer is always the model's own. */
typedef struct qsf_draft_model qsf_draft_model;
/* Whether a model can draft for another: QSF_E_ARGUMENT if a token differs, or if one of the
 * vocabularies has over 128 tokens more, which is more than padding.  Likewise whether an EAGLE 3
 * head is one for the model: its layers, width and tokens have to fit. */
QSF_API qsf_status qsf_draft_model_check(const qsf_model *m, const qsf_model *small, qsf_error *err);
/* Connects the contexts.  Only one qsf_draft_model or qsf_mtp may be connected with a context at a
 * time.
 *
 * QSF_E_ARGUMENT   see qsf_draft_model_check; or `context` has only a part of its model's layers
 * QSF_E_MEMORY     no memory for the tokens of all sequences (qsf_draft_model_bytes) */
QSF_API qsf_status qsf_draft_model_new(qsf_context *context, qsf_context *small, qsf_draft_model **out,
                                       qsf_error *err);
/* Free it before the two contexts.  NULL is allowed. */
QSF_API void       qsf_draft_model_free(qsf_draft_model *d);
/* Bytes that it takes besides the draft model's context, which has these options; n_ctx and n_seqs
 * are set. */
QSF_API uint64_t   qsf_draft_model_bytes(const qsf_context_options *o);
/* What qsf_draft_model_guess takes for a sequence of the model's context; NULL: not one of them. */
QSF_API void      *qsf_draft_model_user(qsf_draft_model *d, qsf_seq s);
/* A qsf_guess_fn and a qsf_guess_many_fn; each user is from qsf_draft_model_user.  Many guesses
 * share batches, as far as n_logits and n_batch of the draft model's context allow.  If that
 * context fails, both guess nothing from then on, and qsf_draft_model_error says why. */
QSF_API size_t     qsf_draft_model_guess(void *user, const int32_t *ids, size_t n, int32_t *out, size_t cap);
QSF_API void       qsf_draft_model_guess_many(qsf_guess *list, size_t n);
/* The text of the error that ended the guesses; "": none has. */
QSF_API const char *qsf_draft_model_error(const qsf_draft_model *d);

/* ---- turns ----------------------------------------------------------------------------------- */

/* A turn takes one sequence of a context from a prompt to an answer.  It computes the part of the
 * prompt that the sequence does not hold yet, then returns the answer piece by piece until a token,
 * a stop string or a limit ends it.  One qsf_turn can run many turns, one after another.
 * docs/library.md has examples of both ways to compute.
 *
 * Alone: qsf_turn_next returns the next piece; if it returns QSF_PENDING, qsf_turn_step computes a
 * layer.
 *
 * Together: the caller asks each turn for the rows that it needs (qsf_turn_rows), computes the rows
 * of all turns in one batch (qsf_batch_begin, qsf_step), and tells each turn which logits are its
 * own (qsf_turn_computed).  It may let all of them choose their tokens at once (qsf_turns_pick).
 * Then it takes pieces from each turn until qsf_turn_next returns QSF_PENDING again, all before the
 * next batch begins, because the logits are valid until then.
 *
 * With a grammar, only tokens that continue or end a match are chosen, and a control token only if
 * it belongs to a tool call (qsf_answer_turn).  At the end of the match the turn ends, with a token
 * that ends the answer (even with ignore_end) or, if nothing can follow, by itself.  Forced text is
 * fed in one batch, as the model's tokenizer splits it; its pieces are returned as usual.
 *
 * These functions may truncate a sequence, which drops the current batch.  While a batch has rows
 * of other turns too, call only qsf_turn_get_state.  Two turns that each compute alone may
 * alternate piece by piece: one may step when qsf_turn_next of the other returns QSF_PENDING and
 * there is no unfinished batch. */
typedef struct qsf_turn qsf_turn;

/* Why a turn has ended. */
typedef enum qsf_turn_end {
    QSF_TURN_GOES_ON   = 0,      /* it has not ended */
    QSF_TURN_END_TOKEN = 1,      /* the model has ended its answer, or the text; or nothing can follow
                                  * under the grammar */
    QSF_TURN_STOP_TEXT = 2,      /* a stop string was generated */
    QSF_TURN_MOST      = 3,      /* max_tokens were generated */
    QSF_TURN_FULL      = 4,      /* the context has no room for the next token */
    QSF_TURN_CANCELLED = 5,      /* qsf_turn_cancel, or the next qsf_turn_begin */
    QSF_TURN_FAILED    = 6       /* qsf_turn_error says why */
} qsf_turn_end;

/* Options of qsf_turn_begin. */
typedef struct qsf_turn_options {
    size_t             size;           /* sizeof(qsf_turn_options), set by qsf_turn_defaults */
    int64_t            max_tokens;     /* -1: no limit; 0: only the prompt is computed */
    const char *const *stops;          /* strings that end the answer and are not part of it (but
                                        * see n_stops_shown); copied */
    size_t             n_stops;
    const size_t      *stop_lengths;   /* in bytes; NULL: the strings are zero-terminated */
    bool               ignore_end;     /* false; true: continue after tokens that end an answer or a text */
    bool               special;        /* false; true: control tokens have text too */
    uint32_t           draft;          /* 0; most guesses per pass, up to QSF_DRAFT_MOST.  The context's
                                        * n_logits must be 1 + draft, summed over the turns of a batch.
                                        * qsf_turn_step makes as many as pay, by measured times and by
                                        * how many were right, or none; see draft_fixed */
    qsf_guess_fn       guess;          /* NULL: qsf_draft_lookup */
    void              *guess_user;
    int64_t            min_tokens;     /* 0; tokens that end the answer are not chosen before this many,
                                        * unless a grammar allows nothing else */
    int32_t            logprobs;       /* -1: none; otherwise pieces have the log probabilities of their token
                                        * and of this many of the most likely ones, up to QSF_LOGPROBS_MOST */
    qsf_grammar       *grammar;        /* NULL; the constraint on the answer.  It must stay valid until the
                                        * turn has ended */
    const char *const *grammar_after;  /* NULL: the grammar applies from the start of the answer.  Otherwise
                                        * from the first of these strings in it, which may be the texts of
                                        * control tokens; one that starts with "\2" only counts at the very
                                        * beginning of the answer; copied */
    size_t             n_grammar_after;
    bool               grammar_with;   /* false: the grammar applies after that string; true: from its
                                        * beginning */
    const char        *special_in;     /* NULL; with special, only control tokens whose text is a part of this
                                        * string have text.  It must stay valid until the turn has ended */
    int64_t            reasoning_budget;        /* -1: no limit; after this many reasoning tokens the turn
                                                 * writes reasoning_end for the model, which
                                                 * continues with the answer; 0: at once.  No effect
                                                 * without reasoning_end */
    const char        *reasoning_begin;         /* NULL; the mark that begins reasoning, and */
    const char        *reasoning_end;           /* NULL; the mark that ends it, as the model writes them; the
                                                 * text of a control token stands for the token.
                                                 * qsf_answer_turn sets both and in_reasoning.  They
                                                 * must stay valid until the turn has ended */
    bool               in_reasoning;            /* false; true: the prompt ends inside reasoning */
    size_t             n_stops_shown;           /* 0; of stops, those that become part of the answer when
                                                 * they end it: the first this many */
    bool               draft_fixed;             /* false; true: qsf_turn_step always asks for `draft`
                                                 * guesses */
    qsf_guess_many_fn  guess_many;              /* NULL; makes the guesses of several turns at once, for
                                                 * qsf_turns_guess; guess makes the same ones */
} qsf_turn_options;

/* The most log probabilities of a piece besides its own. */
enum { QSF_LOGPROBS_MOST = 100 };

/* Fills all members of *o with their defaults. */
QSF_API void qsf_turn_defaults_of(qsf_turn_options *o, size_t size);
static inline void qsf_turn_defaults(qsf_turn_options *o) { qsf_turn_defaults_of(o, sizeof *o); }
/* The named options of a turn that are numbers, like qsf_context_option and qsf_context_set for a
 * context. */
QSF_API const qsf_option *qsf_turn_option(size_t i);
QSF_API qsf_status qsf_turn_set(qsf_turn_options *o, const char *name, const char *value, qsf_error *err);

/* One token's part of the answer.  The text consists of complete characters; invalid UTF-8 becomes
 * U+FFFD.  It is "" while a character, or a possible stop string, is incomplete.  The last piece
 * has no token: its text is what was held back. */
typedef struct qsf_turn_piece {
    size_t       size;           /* set by the caller: sizeof(qsf_turn_piece) */
    int32_t      token;          /* -1 in the last piece */
    qsf_turn_end end;            /* QSF_TURN_GOES_ON except in the last piece */
    const char  *text;           /* zero-terminated; belongs to the turn, valid until its next call */
    size_t       len;            /* bytes before the terminating zero; the text may contain zeros too */
    bool         cut;            /* in the last piece: bytes of an incomplete character were left out */
    const qsf_logprob *logprobs; /* the token's, then those of the most likely tokens, best first.  They come
                                  * from the model's own logits, before biases, penalties, temperature and
                                  * grammars; rows skipped by qsf_head_mode count as impossible */
    size_t       n_logprobs;     /* 0 if none were requested, and for tokens that a grammar forced, which were
                                  * not computed */
} qsf_turn_piece;

/* The state of a turn. */
typedef struct qsf_turn_state {
    size_t       size;           /* set by the caller: sizeof(qsf_turn_state) */
    qsf_turn_end end;            /* QSF_TURN_GOES_ON while it runs and before the first one */
    size_t       n_prompt;       /* tokens of the prompt */
    size_t       n_kept;         /* of these, tokens that the sequence already held */
    size_t       n_done;         /* of these, tokens that are computed, including kept ones */
    size_t       n_tokens;       /* tokens of the answer */
    uint64_t     n_guessed, n_right;      /* guesses of all turns, and how many were right */
    uint64_t     ns_sampling;             /* of all turns */
    size_t       n_forced;       /* tokens of the answer that the grammar forced: fed in one batch without
                                  * sampling */
} qsf_turn_state;

/* Creates a turn for sequence s; frees it (takes NULL), without changing the sequence.  The context
 * must outlive the turn.  The turn does not know tokens that the sequence already holds: see
 * qsf_turn_hold. */
QSF_API qsf_status qsf_turn_new(qsf_context *c, qsf_seq s, qsf_turn **out, qsf_error *err);
QSF_API void       qsf_turn_free(qsf_turn *t);

/* Begins a turn with ids[0..n), the whole text so far: truncates the sequence to the common prefix,
 * and computes nothing yet.  A running turn is cancelled.  The sampler forgets the tokens that it
 * has accepted, accepts the prompt's instead, and must stay valid until the turn has ended.  opts
 * may be NULL.
 *
 * This allocates for the prompt, max_tokens and the grammar.  Without max_tokens, and beyond the
 * end of the context (kv_window), the list of tokens grows with the answer; forced text allocates
 * while it is split into tokens.
 *
 * QSF_E_FULL       the tokens do not all fit (qsf_seq_room)
 * QSF_E_ARGUMENT   there are no tokens, or an argument is out of range; or no string of the grammar
 *                  begins with the string that it has to begin with
 * QSF_E_MEMORY     out of memory */
QSF_API qsf_status qsf_turn_begin(qsf_turn *t, const int32_t *ids, size_t n, qsf_sampler *sampler,
                                  const qsf_turn_options *opts);
/* Returns the next piece.
 *
 * QSF_OK           *piece is set; it is the last one if its end is set
 * QSF_PENDING      rows have to be computed first
 * QSF_E_ARGUMENT   no turn was begun, or piece->size does not match the struct */
QSF_API qsf_status qsf_turn_next(qsf_turn *t, qsf_turn_piece *piece);

/* Computes at most one layer of the rows that the turn needs.  *waiting is as in qsf_step.  If
 * waiting is NULL, this blocks until bytes have arrived; on a host that must not block, the turn
 * then fails.
 *
 * QSF_OK        the batch is done, or nothing is needed: call qsf_turn_next
 * QSF_PENDING   call again; if *waiting is true, when something has arrived
 *
 * After any other status the turn has failed, and its last piece says so too.
 *
 * Pieces are chosen from the logits of the batch, which stay until the context's next batch begins:
 * step another turn of the context when qsf_turn_next returns QSF_PENDING, not before. */
QSF_API qsf_status qsf_turn_step(qsf_turn *t, bool *waiting);

/* Writes the rows that the turn needs computed next, at most cap (1 or more), and returns their
 * number; 0: none.  It returns the same rows again, as far as cap allows, until qsf_turn_computed.
 */
QSF_API size_t qsf_turn_rows(qsf_turn *t, qsf_row *rows, size_t cap);
/* Reports that the rows returned last are computed: qsf_logits(c, first) belongs to the first of
 * them that asked for logits.  Returns how many of them asked. */
QSF_API size_t qsf_turn_computed(qsf_turn *t, size_t first);
/* As qsf_turn_computed, for rows that the caller has had computed elsewhere: logits[asked][n_vocab]
 * of those that asked, in their order.  They are not copied and must stay valid until qsf_turn_next
 * returns QSF_PENDING or the last piece.  The context must hold the rows too: see "ranges of
 * layers". */
QSF_API size_t qsf_turn_computed_elsewhere(qsf_turn *t, const float *logits);
/* Chooses the next token of each of these turns of one context that have logits, on all its
 * threads; qsf_turn_next then returns it immediately.  The call is optional and does not change the
 * tokens.  Turns with a grammar, a reasoning budget or a sampler with a callback still choose in
 * qsf_turn_next. */
QSF_API void   qsf_turns_pick(qsf_turn *const *turns, size_t n);

/* Ends a running turn.  The sequence keeps everything that is computed, except guesses and an
 * unfinished batch. */
QSF_API void qsf_turn_cancel(qsf_turn *t);
/* The error of the last qsf_turn_begin, or the one that has ended the turn since (QSF_TURN_FULL,
 * QSF_TURN_FAILED). */
QSF_API const qsf_error *qsf_turn_error(const qsf_turn *t);
/* Writes the turn's state to *out.
 *
 * QSF_E_ARGUMENT   out->size does not match the struct */
QSF_API qsf_status qsf_turn_get_state(const qsf_turn *t, qsf_turn_state *out);
/* The tokens that the sequence holds, as far as the turn knows.  They belong to the turn and are
 * valid until its next call. */
QSF_API const int32_t *qsf_turn_tokens(const qsf_turn *t, size_t *n);
/* Tells the turn that the sequence now holds these tokens, because of qsf_session_load,
 * qsf_seq_share or qsf_feed.  Not needed if the sequence was only truncated.  After QSF_E_MEMORY
 * the turn knows no tokens. */
QSF_API qsf_status qsf_turn_hold(qsf_turn *t, const int32_t *ids, size_t n);

/* ---- answers --------------------------------------------------------------------------------- */

/* Splits an answer into reasoning, text and tool calls while it is generated.  The format of calls
 * and reasoning is found from the model's chat template; docs/tools.md describes how, and which
 * formats are found.
 *
 *   qsf_answer_new(m, &opts, &a, &err);
 *   qsf_answer_turn(a, &turn_options, &err);  marks become visible; grammars of calls
 *   for each piece: qsf_answer_token(a, piece.token);
 *                   qsf_answer_push(a, piece.text, piece.len, piece.end != QSF_TURN_GOES_ON, &err);
 *                   while (qsf_answer_next(a, &event)) ... */
typedef struct qsf_answer qsf_answer;

/* Options of qsf_answer_new. */
typedef struct qsf_answer_options {
    size_t                  size;       /* sizeof(qsf_answer_options), set by qsf_answer_defaults */
    const qsf_chat_options *chat;       /* NULL: the model's own template and no tools; otherwise the options
                                         * that the prompt was rendered with, including tools.  Copied */
    const char             *tool_choice;    /* NULL, "auto": the model decides; "none": calls are not looked
                                             * for; "required": the answer is a call; otherwise the name of
                                             * the tool to call */
    bool                    parallel_tool_calls;    /* true; false: at most one call, with a grammar */
    uint64_t                id_seed;    /* 0; calls without an id of the model get one made from this and
                                         * their number: nine letters and digits */
    uint64_t                most_memory;    /* of the grammar of calls, as in qsf_grammar_options */
    qsf_grammar_kind        shape_kind;     /* QSF_GRAMMAR_GBNF; the kind of shape */
    const char             *shape;          /* NULL; a grammar for answers that are not tool calls, as in
                                             * qsf_grammar_new.  Reasoning may come first if the template
                                             * supports it.  Copied */
    size_t                  shape_len;
    uint32_t                json_blanks;    /* 32; as in qsf_grammar_options, for shape */
    bool                    json_loose;     /* false; as in qsf_grammar_options, for shape */
    const qsf_answer       *like;           /* NULL; an answer after its qsf_answer_turn, whose grammar
                                             * qsf_answer_turn sets instead of making one, so that many
                                             * answers share it.  It must outlive this answer and have the
                                             * same template, tools and choice; shape is ignored */
} qsf_answer_options;

/* Fills all members of *o with their defaults. */
QSF_API void qsf_answer_defaults_of(qsf_answer_options *o, size_t size);
static inline void qsf_answer_defaults(qsf_answer_options *o) { qsf_answer_defaults_of(o, sizeof *o); }

/* Creates an answer; frees it (takes NULL).  opts may be NULL; m may be NULL if opts->chat has the
 * source of a template, and must outlive the answer.
 *
 * QSF_E_CORRUPT, QSF_E_ARGUMENT   the tools are not JSON, or not a list
 * and the errors of qsf_chat_render_json */
QSF_API qsf_status qsf_answer_new(const qsf_model *m, const qsf_answer_options *opts, qsf_answer **out,
                                  qsf_error *err);
QSF_API void       qsf_answer_free(qsf_answer *a);
/* Starts over, for the next answer with the same template and tools. */
QSF_API void       qsf_answer_reset(qsf_answer *a, uint64_t id_seed);

/* Sets the members of *o that make a turn's pieces suitable for this answer: special and
 * special_in, so that only control tokens that mark calls or reasoning have text (all do if special
 * was set); the marks of reasoning; and, with tools, the grammar that constrains calls to their
 * schemas.  The grammar applies from the start of a call, or from the start of the answer if
 * tool_choice requires a call or there is a shape.  A grammar set by the caller is kept; if the
 * prompt ends inside the model's reasoning, it applies after that, unless *o says otherwise.  What
 * is set belongs to a and may be used for several turns, as grammars may.
 *
 * QSF_E_ARGUMENT   tool_choice does not name a tool, or the shape or the schema of a strict tool is
 *                  not fully supported: the message says what and where
 * QSF_E_BUDGET     the schemas make too large a grammar */
QSF_API qsf_status qsf_answer_turn(qsf_answer *a, qsf_turn_options *o, qsf_error *err);

/* After qsf_answer_turn: the keywords of tools' schemas that its grammar does not enforce, one per
 * line; "": all are enforced.  A tool with "strict": true is enforced completely or refused.
 * Belongs to a. */
QSF_API const char *qsf_answer_loosened(const qsf_answer *a);

/* Reports that the turn set up last has returned this token, whose text will be pushed next; -1:
 * none.  This distinguishes a control token that marks nothing at its position, which is not part
 * of the answer, from text that only looks like one.  Report all tokens of an answer, or none. */
QSF_API void       qsf_answer_token(qsf_answer *a, int32_t id);
/* Continues with text[0..len), split at any byte; last: the answer ends here.
 *
 * QSF_E_MEMORY   the answer is lost */
QSF_API qsf_status qsf_answer_push(qsf_answer *a, const char *text, size_t len, bool last, qsf_error *err);

/* The type of an answer's event. */
typedef enum qsf_answer_event_type {
    QSF_ANSWER_TEXT         = 1,    /* for the user */
    QSF_ANSWER_REASONING    = 2,
    QSF_ANSWER_CALL         = 3,    /* a call begins: its name and id are known */
    QSF_ANSWER_ARGUMENTS    = 4,    /* more of its arguments, always as JSON, whatever the model's format */
    QSF_ANSWER_CALL_END     = 5,    /* the call is complete */
    QSF_ANSWER_CALL_DROPPED = 6,    /* it was not a call: discard it.  Its text follows as
                                     * QSF_ANSWER_TEXT */
    QSF_ANSWER_CALL_CUT     = 7     /* the answer ends within the call: its arguments are incomplete JSON.
                                     * The text is what the model wrote */
} qsf_answer_event_type;

/* An event, returned by qsf_answer_next. */
typedef struct qsf_answer_event {
    size_t                size;     /* set by the caller: sizeof(qsf_answer_event) */
    qsf_answer_event_type type;
    uint32_t              call;     /* of calls: the index, from 0 */
    const char           *text;     /* bytes of text, reasoning or arguments; a call's name; for a call that
                                     * was cut off, all of it as the model wrote it.  Not terminated; belongs
                                     * to the answer, valid until its next push */
    size_t                len;
    const char           *id;       /* for QSF_ANSWER_CALL, otherwise NULL */
    size_t                id_len;
} qsf_answer_event;

/* The next event; QSF_PENDING: none yet. */
QSF_API qsf_status qsf_answer_next(qsf_answer *a, qsf_answer_event *out);
/* The answer so far as a message of the OpenAI API, in JSON: role, content (null for calls without
 * text), reasoning_content, tool_calls.  If the answer ends within a call, that call has
 * "unfinished": true, and its arguments are not valid JSON.  Zero-terminated; belongs to a, valid
 * until its next call. */
QSF_API qsf_status qsf_answer_json(qsf_answer *a, const char **text, size_t *len, qsf_error *err);

/* ---- conversations --------------------------------------------------------------------------- */

/* The way from messages to the events of an answer: renders and tokenizes the messages, begins a
 * turn with everything that the template and the tools ask of it, and splits the answer into text,
 * reasoning and tool calls.  It combines the functions of the sections before this one.
 *
 *   qsf_conversation_new(m, &chat_options, &c, &err);
 *   qsf_conversation_split(c, &answer_options);
 *   qsf_conversation_json(c, messages, len);  for each answer, all messages so far
 *   qsf_conversation_begin(c, turn, sampler, &turn_options);
 *   while (!piece.end) {
 *       if (qsf_conversation_next(c, &piece) == QSF_PENDING) qsf_turn_step(turn, NULL);
 *       else while (!qsf_conversation_event(c, &event)) ... }
 *
 * Turn, sampler and grammar stay the caller's.  qsf_turn_step computes, or the caller's own batches
 * of several turns do; qsf_turn_cancel ends the answer; qsf_turn_get_state reports the progress of
 * the prompt and the counts of tokens; qsf_turn_hold resumes a saved session.
 * qsf_conversation_error describes the last failure.
 *
 * The conversation and the turn may also be used apart, for example by a server with one thread for
 * its clients and another one that computes the turns of all of them.  The conversation then needs
 * no context and no turn: it prepares the turn's options and is given the turn's pieces.
 *
 *   qsf_conversation_json(c, messages, len);              the clients' thread
 *   qsf_conversation_prepare(c, &own_options, &turn_options);
 *   ids = qsf_conversation_tokens(c, &n);
 *
 *   qsf_turn_begin(turn, ids, n, sampler, &turn_options); the thread that computes
 *   while (!piece.end)
 *       if (qsf_turn_next(turn, &piece) == QSF_PENDING) qsf_turn_step(turn, NULL);
 *       else send(&piece);                                token, text and end are enough
 *
 *   qsf_conversation_push(c, &piece);                     the clients' thread, for each piece
 *   while (!qsf_conversation_event(c, &event)) ...
 *
 * Several answers to one prompt have a conversation each; only one of them needs the prompt and the
 * prepared options.  qsf_answer_options.like lets them, and other conversations, share a grammar.
 */
typedef struct qsf_conversation qsf_conversation;

/* Creates a conversation for a template; frees it (takes NULL) and ends its turn.  chat is copied
 * with its strings; NULL: the model's own template, no tools.  The model must outlive it. */
QSF_API qsf_status qsf_conversation_new(const qsf_model *m, const qsf_chat_options *chat,
                                        qsf_conversation **out, qsf_error *err);
QSF_API void       qsf_conversation_free(qsf_conversation *c);

/* Splits answers from the next turn on, with these options; NULL: answers are not split, and all of
 * an answer is text, which is how a conversation begins.  The conversation's own chat options apply
 * and o->chat is ignored.  Ends a running turn.
 *
 * The errors of qsf_answer_new and qsf_answer_turn; answers are then not split. */
QSF_API qsf_status qsf_conversation_split(qsf_conversation *c, const qsf_answer_options *o);
/* The answer that is split, for qsf_answer_json and qsf_answer_loosened; NULL: answers are not
 * split.  Belongs to c, valid until the next qsf_conversation_split. */
QSF_API qsf_answer *qsf_conversation_answer(qsf_conversation *c);
/* The string that ends an answer under the conversation's template, from qsf_chat_stop_text; "" if
 * only tokens end one.  It is found on first use and belongs to c.
 *
 * The errors of qsf_chat_stop_text, with *text "" */
QSF_API qsf_status qsf_conversation_stop(qsf_conversation *c, const char **text, size_t *len);

/* Sets the next turn's prompt: all messages so far, as plain messages or in JSON, encoded as by
 * qsf_chat_encode_json; a string without a template, encoded as by qsf_tokens_encode with both
 * flags; or tokens.  Nothing of the arguments is kept.
 *
 * The errors of qsf_chat_encode_json and qsf_tokens_encode; there is then no prompt */
QSF_API qsf_status qsf_conversation_messages(qsf_conversation *c, const qsf_message *msgs, size_t n);
QSF_API qsf_status qsf_conversation_json(qsf_conversation *c, const char *messages, size_t len);
QSF_API qsf_status qsf_conversation_text(qsf_conversation *c, const char *text, size_t len);
QSF_API qsf_status qsf_conversation_ids(qsf_conversation *c, const int32_t *ids, size_t n);
/* Sets the next turn's prompt: tokens that the template has already made of messages, for example
 * in another process.  Unlike after qsf_conversation_ids, qsf_conversation_stop's string ends the
 * answer. */
QSF_API qsf_status qsf_conversation_encoded(qsf_conversation *c, const int32_t *ids, size_t n);
/* The prompt's tokens, which belong to c and are valid until its next prompt. */
QSF_API const int32_t *qsf_conversation_tokens(const qsf_conversation *c, size_t *n);

/* Begins a turn with the prompt, as qsf_turn_begin: with opts (may be NULL), what qsf_answer_turn
 * adds and, for messages, qsf_conversation_stop's string (not with opts->ignore_end).  Turn and
 * sampler must stay valid until the last piece, or until c begins another turn or is freed.
 *
 * QSF_E_FULL   the tokens do not all fit; the message has the numbers
 * and the other errors of qsf_turn_begin and qsf_answer_turn */
QSF_API qsf_status qsf_conversation_begin(qsf_conversation *c, qsf_turn *t, qsf_sampler *sampler,
                                          const qsf_turn_options *opts);
/* For a turn that the caller runs: sets *out to the options with which qsf_conversation_begin would
 * begin it, and makes c ready for its pieces.  All stop strings are in out->stops, with their
 * lengths.  What *out points to belongs to c or comes from opts; it is valid until c prepares or
 * begins another turn, splits answers with other options, or is freed.  Ends the turn that c runs.
 *
 * QSF_E_ARGUMENT   out->size does not match the struct (qsf_turn_defaults sets it)
 * and the errors of qsf_answer_turn */
QSF_API qsf_status qsf_conversation_prepare(qsf_conversation *c, const qsf_turn_options *opts,
                                            qsf_turn_options *out);
/* Takes the next piece of that turn, of which token, text, len and end count, and which may be a
 * copy.  Its events follow as after qsf_conversation_next.  Pieces after the last one are ignored.
 *
 * QSF_E_ARGUMENT   piece->size does not match the struct, or c runs a turn
 * QSF_E_MEMORY     the answer is lost */
QSF_API qsf_status qsf_conversation_push(qsf_conversation *c, const qsf_turn_piece *piece);
/* The turn that was begun last; NULL: none yet. */
QSF_API qsf_turn *qsf_conversation_turn(const qsf_conversation *c);
/* The next piece of the answer: qsf_turn_next's, with its token, its log probabilities and, in the
 * last one, the reason for the end.  Its events follow; events of the previous piece that were not
 * taken are lost.
 *
 * QSF_OK           *piece is set; it is the last one if its end is set
 * QSF_PENDING      rows have to be computed first
 * QSF_E_ARGUMENT   no turn was begun, or piece->size does not match the struct
 * QSF_E_MEMORY     the answer is lost; the turn is cancelled */
QSF_API qsf_status qsf_conversation_next(qsf_conversation *c, qsf_turn_piece *piece);
/* The next event of that piece: text, reasoning, calls.  An answer that is not split has only
 * QSF_ANSWER_TEXT.  Texts are valid until the next piece.  QSF_PENDING: no more events. */
QSF_API qsf_status qsf_conversation_event(qsf_conversation *c, qsf_answer_event *out);
/* The error of the last function of c that failed, or the one that has ended the turn since. */
QSF_API const qsf_error *qsf_conversation_error(const qsf_conversation *c);

/* ---- the short interface --------------------------------------------------------------------- */

/* A configuration, and an engine: a model, a context and one conversation. */
typedef struct QSFConfig QSFConfig;
typedef struct QSFEngine QSFEngine;

/* Creates a configuration; the following functions change it. */
QSF_API QSFConfig *qsf_config_default(void);                        /* NULL: out of memory */
QSF_API void qsf_config_set_ram_budget(QSFConfig *, size_t megabytes);
QSF_API void qsf_config_set_threads(QSFConfig *, int num_threads);
QSF_API void qsf_config_set_max_seq_len(QSFConfig *, int max_seq_len);
QSF_API void qsf_config_set_quality(QSFConfig *, float quality);    /* 0.0 - 1.0 */
QSF_API void qsf_config_free(QSFConfig *);

/* Opens a model and creates a context for it.  config NULL: the defaults.  The result is NULL on an
 * error, which qsf_load_status(config) and qsf_load_error(config) describe. */
QSF_API QSFEngine *qsf_load(const char *model_path, QSFConfig *config);
QSF_API void qsf_free(QSFEngine *);
QSF_API qsf_status  qsf_load_status(const QSFConfig *);
QSF_API const char *qsf_load_error(const QSFConfig *);
/* The error of the last call on this engine; QSF_OK and "" if it succeeded. */
QSF_API qsf_status  qsf_engine_status(const QSFEngine *);
QSF_API const char *qsf_engine_error(const QSFEngine *);
/* The engine's own model and context, for the full interface; do not free them. */
QSF_API qsf_model   *qsf_engine_model(QSFEngine *);
QSF_API qsf_context *qsf_engine_context(QSFEngine *);

/* Called for each token of an answer. */
typedef void (*QSFTokenCallback)(int token_id, const char *text, void *user_data);

/* Continues prompt by at most max_tokens tokens in a new sequence.  The callback gets each token
 * with its text: complete characters, or "" while a character is incomplete; a very long text comes
 * in several calls.  temperature <= 0 always takes the most likely token. */
QSF_API void qsf_generate(QSFEngine *, const char *prompt, int max_tokens, float temperature, float top_p,
                          QSFTokenCallback callback, void *user_data);
/* Ends a running qsf_generate after the current token.  Its callback, a signal handler or another
 * thread may call this. */
QSF_API void qsf_cancel(QSFEngine *);

/* Converts text to tokens, and tokens to text.  The caller frees both results with qsf_result_free.
 * NULL on an error. */
QSF_API int  *qsf_tokenize(QSFEngine *, const char *text, int *num_tokens);
QSF_API char *qsf_detokenize(QSFEngine *, const int *tokens, int num_tokens);
QSF_API void  qsf_result_free(void *);
/* The logits, float[n_vocab], after the last token, in a new sequence.  They belong to the engine
 * and are valid until its next call.  NULL on an error. */
QSF_API float *qsf_forward(QSFEngine *, const int *tokens, int num_tokens);
/* Samples one token as a qsf_sampler does.  The seed is derived from the logits, so equal logits
 * give equal tokens.  -1: no logits, or no memory for the sampler. */
QSF_API int   qsf_sample(const float *logits, int vocab_size, float temperature, float top_p);
/* Prints memory, tokens per second and the time of each part to stderr. */
QSF_API void  qsf_print_stats(QSFEngine *);

#ifdef __cplusplus
}
#endif
#endif
