/* The public interface of libqsf: language models from QSF and GGUF files, inside a memory budget.
 * SPDX-License-Identifier: MIT
 *
 * The file has two layers.  The last section is the short interface (qsf_load, qsf_generate, ...):
 * one engine with one conversation.  It is written with the sections before it, the real interface:
 * model, context, sequences, batches, steps.
 *
 * Threads: several contexts, on several threads, may share one model.  Everything else belongs to
 * one caller at a time.
 *
 * Structs that may grow begin with `size`, which is sizeof the struct in the caller's version of
 * this file.  The `_defaults` functions set it in options; in results the caller sets it:
 * qsf_plan plan = { .size = sizeof plan };  The library reads and writes no more than that, so that
 * programs and libraries of different versions go together.  A size that no struct has, such as 0,
 * is QSF_E_ARGUMENT.
 *
 * Text is UTF-8.  The library never ends the program and keeps no global state; it prints nothing,
 * except in qsf_print_stats.  docs/api.md is made from this file. */
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
#define QSF_VERSION "0.1.0"

/* ---- status ---------------------------------------------------------------------------------- */

/* The status codes.  This one list makes the enum, the names and the texts.  Released numbers never
 * change. */
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

/* An error in words: what failed, where, and what to do.  Every function that takes a qsf_error
 * fills it when it fails.  NULL is allowed. */
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
 * QSF_IO_AUTO    io_uring, or threads where the system has no io_uring.  A file whose layers stream
 *                is read past the system's page cache if it is larger than half of the free memory,
 *                because the cache could not hold it
 * QSF_IO_URING, QSF_IO_PREAD   io_uring, or threads that call pread.  Wherever layers stream the
 *                file is read past the page cache, unless the file system refuses
 * QSF_IO_MMAP    through a mapping of the file, which the kernel copies from, so that a file that
 *                is cut is an error and not a signal */
typedef enum qsf_io { QSF_IO_AUTO = 0, QSF_IO_URING = 1, QSF_IO_PREAD = 2, QSF_IO_MMAP = 3 } qsf_io;

/* The log.  The library calls the function with one line at a time, without a line feed. */
typedef enum qsf_log_level { QSF_LOG_ERROR, QSF_LOG_WARN, QSF_LOG_INFO, QSF_LOG_DEBUG } qsf_log_level;
typedef void (*qsf_log_fn)(void *user, qsf_log_level level, const char *line);

/* A file that the caller provides: a range reader, a member of an archive, bytes in memory.
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

/* ---- model ----------------------------------------------------------------------------------- */

/* An open model: description, tokenizer and the file from which contexts read weights. */
typedef struct qsf_model qsf_model;

/* How tensors of type I2_S in a GGUF file are stored: docs/bitnet-files.md.  Their sizes
 * tell the layouts apart, but for Microsoft's three, of which a file does not say which it has. */
typedef enum qsf_i2s_layout {
    QSF_I2S_AUTO = 0,           /* by size; Microsoft's is taken for that of x86 machines */
    QSF_I2S_QK256,              /* 256 codes in 64 bytes */
    QSF_I2S_SPLIT32,            /* 32 codes in 8 bytes, scales in a tensor beside them */
    QSF_I2S_BITNET32,           /* 32 codes in 8 bytes, then their scale */
    QSF_I2S_MICROSOFT,          /* bitnet.cpp on x86, and its converters */
    QSF_I2S_MICROSOFT_ARM,      /* bitnet.cpp on ARM */
    QSF_I2S_MICROSOFT_ROWS4,    /* bitnet.cpp on x86, built without ACT_PARALLEL */
    QSF_N_I2S_LAYOUTS
} qsf_i2s_layout;

/* The layout of that name: auto, qk256, split32, bitnet32, microsoft, microsoft-arm or
 * microsoft-rows4.  false: there is none, and *out stays as it is. */
QSF_API bool qsf_i2s_layout_find(const char *name, qsf_i2s_layout *out);

/* Options of qsf_model_open. */
typedef struct qsf_model_options {
    size_t                 size;       /* sizeof(qsf_model_options), set by qsf_model_defaults */
    const qsf_platform    *platform;   /* NULL: qsf_platform_native() */
    const qsf_custom_file *file;       /* NULL: path is opened through the platform; else path is only
                                        * a name, or NULL */
    bool                   vocab_only; /* false; true reads description and tokenizer only, and accepts
                                        * files without weights */
    qsf_log_fn             log;        /* NULL: silent */
    void                  *log_user;
    qsf_io                 io;         /* QSF_IO_AUTO, which the environment's QSF_IO may replace (auto,
                                        * uring, pread, mmap).  QSF_E_UNSUPPORTED where the machine
                                        * cannot read this way */
    qsf_i2s_layout         i2s_layout; /* QSF_I2S_AUTO */
    uint32_t               first_layer, end_layer;  /* 0, 0: all layers.  Else layers [first_layer, end_layer)
                                        * are run here, and others elsewhere: see "layers apart".
                                        * end_layer 0: to the last */
    uint32_t               share, n_shares;         /* 0, 0: whole layers.  Else share `share` of n_shares,
                                        * counted from 0, of each layer: see "shares of layers" */
    const uint32_t        *share_sizes;             /* NULL: shares are equal, as far as heads go.  Else
                                        * [n_shares] how large they are beside each other; not kept */
} qsf_model_options;

/* Fills all members of *o with their defaults.  The first form is for other languages: size is that
 * of the struct that they know. */
QSF_API void qsf_model_defaults_of(qsf_model_options *o, size_t size);
static inline void qsf_model_defaults(qsf_model_options *o) { qsf_model_defaults_of(o, sizeof *o); }

/* Opens a QSF or GGUF file, which its first bytes tell apart, and checks all of its description.
 * The weights are read when a context needs them.  opts may be NULL.  On an error *out is NULL.
 *
 * QSF_E_NOT_FOUND     there is no such file
 * QSF_E_IO            the path is a directory, a FIFO or not readable, as the message says, or
 *                     reading failed
 * QSF_E_CORRUPT       the file is damaged
 * QSF_E_UNSUPPORTED   the message names the architecture, type or feature; a Hugging Face directory
 *                     has to be converted first
 * QSF_E_MEMORY        the description does not fit in memory */
QSF_API qsf_status qsf_model_open(const char *path, const qsf_model_options *opts, qsf_model **out,
                                  qsf_error *err);
QSF_API void       qsf_model_close(qsf_model *m);       /* takes NULL; free the model's contexts before */

/* How the hidden states of a text's tokens become one.  The numbers are those of GGUF files.
 *
 * QSF_POOL_NONE    not said: where a pooling is asked for, the mean
 * QSF_POOL_MEAN    their mean
 * QSF_POOL_FIRST   the first token's
 * QSF_POOL_LAST    the last token's
 * QSF_POOL_RANK    scores by the classifier that the file has; of one token's or of the mean, as
 *                  the model was trained
 * QSF_POOL_TOKENS  each by itself: no number of a file, only asked for */
typedef enum qsf_pooling {
    QSF_POOL_NONE = 0, QSF_POOL_MEAN = 1, QSF_POOL_FIRST = 2, QSF_POOL_LAST = 3, QSF_POOL_RANK = 4,
    QSF_POOL_TOKENS = 5
} qsf_pooling;

/* What a model is.  The texts belong to the model and are valid until it is closed.
 *
 * QSF_E_ARGUMENT   out->size is no struct's */
typedef struct qsf_model_info {
    size_t      size;             /* set by the caller: sizeof(qsf_model_info) */
    const char *arch, *name;      /* "llama", "SmolLM2 135M Instruct" */
    const char *format;           /* "QSF" or "GGUF" */
    const char *chat_template;    /* the Jinja text, or NULL */
    /* heads and n_ff: the most that a layer has, where layers differ */
    uint32_t    n_layers, n_embd, n_heads, n_kv_heads, head_dim, n_ff, n_vocab, n_ctx_train;
    uint64_t    n_params;         /* number of weights in all tensors */
    uint64_t    weight_bytes;     /* bytes that the weights take in the file */
    qsf_pooling pooling;          /* that the file asks for (GGUF's ARCH.pooling_type) */
    bool        encoder;          /* each token sees the whole text: it embeds texts and continues none */
    uint32_t    n_classes;        /* that QSF_POOL_RANK gives scores for; 0: the file has no classifier */
} qsf_model_info;
QSF_API qsf_status qsf_model_get_info(const qsf_model *m, qsf_model_info *out);

/* ---- tokens ---------------------------------------------------------------------------------- */

/* Flags of qsf_tokens_encode. */
enum {
    QSF_TOK_ADD_SPECIAL   = 1,   /* adds the begin- and end-of-text tokens that the model asks for */
    QSF_TOK_PARSE_SPECIAL = 2    /* "<|im_end|>" in the text becomes its token, not its letters */
};

/* Writes the token ids of text[0..len) to ids and their number to *n.  Where *n is larger than cap,
 * the ids beyond cap are not written and the result is QSF_E_ARGUMENT: call again with room.  Any
 * bytes are accepted, invalid UTF-8 too. */
QSF_API qsf_status qsf_tokens_encode(const qsf_model *m, const char *text, size_t len, int flags,
                                     int32_t *ids, size_t cap, size_t *n, qsf_error *err);
/* Sets *bytes to the text of one token and returns its length; 0 for an id out of range.  The text
 * belongs to the model, has no terminating 0 and may end inside a character.  special: control
 * tokens have a text too. */
QSF_API size_t  qsf_token_piece(const qsf_model *m, int32_t id, bool special, const char **bytes);
/* Whether a token ends a turn or a text; the begin-of-text and end-of-text tokens, -1 where the
 * model has none. */
QSF_API bool    qsf_token_is_end(const qsf_model *m, int32_t id);
QSF_API int32_t qsf_token_bos(const qsf_model *m);
QSF_API int32_t qsf_token_eos(const qsf_model *m);

/* The bytes of an unfinished character, at most 3, that wait for the next token.
 * Begin with all zeros. */
typedef struct qsf_utf8_tail { unsigned char bytes[4]; uint8_t len; } qsf_utf8_tail;
/* Appends piece to tail, writes all whole characters to out and returns the number of bytes
 * written.  Invalid bytes become U+FFFD.  out has room for 3 * (len + 4) bytes. */
QSF_API size_t qsf_utf8_push(qsf_utf8_tail *tail, const char *piece, size_t len, char *out);

/* ---- chat ------------------------------------------------------------------------------------ */

/* One message of a conversation.  role: "system", "user" or "assistant". */
typedef struct qsf_message { const char *role, *content; } qsf_message;

/* What qsf_chat_encode writes conversations with where no name is given.  "own": the model's own
 * template, a program in Jinja (info.chat_template); the name of one of the list below where both
 * write the same text.  NULL: the model has none, and gets "plain". */
QSF_API const char *qsf_chat_template(const qsf_model *m);
/* The templates that are known by name, ended by NULL: chatml, llama2, llama3, mistral, phi3,
 * gemma, zephyr, command-r, deepseek, plain. */
QSF_API const char *const *qsf_chat_template_names(void);

/* Writes the token ids of a conversation, with the begin-of-text token if the model asks for it.
 * Nothing in a message's content becomes a control token: "<|im_end|>" there is plain text, so no
 * message can end a turn or begin another.
 *
 * name: a template's name or its text, which has an opening brace; NULL or "own": the model's; if
 * it has none, "plain", with a line in the log.  generate: ends with the beginning of the
 * assistant's answer.  ids, cap and *n_ids are as in qsf_tokens_encode.
 *
 * QSF_E_NOT_FOUND     unknown name
 * QSF_E_ARGUMENT      the template refuses the messages, with its own message, or drops one of
 *                     them, however they are adapted (docs/chat.md); *n_ids is then 0
 * QSF_E_UNSUPPORTED   the template cannot be run
 * QSF_E_BUDGET        it takes more steps or memory than a template may
 *
 * Errors caused by a template give its line and column. */
QSF_API qsf_status qsf_chat_encode(const qsf_model *m, const char *name, const qsf_message *msgs, size_t n,
                                   bool generate, int32_t *ids, size_t cap, size_t *n_ids, qsf_error *err);
/* Writes the text of a conversation, for people to look at; tokens come from qsf_chat_encode.
 * The text does not have the begin-of-text token.  name, generate and errors are as in
 * qsf_chat_encode.
 * *len does not count the terminating 0.  A *len above cap - 1 means QSF_E_ARGUMENT: call
 * again with room. */
QSF_API qsf_status qsf_chat_render(const qsf_model *m, const char *name, const qsf_message *msgs, size_t n,
                                   bool generate, char *out, size_t cap, size_t *len, qsf_error *err);
/* The text that ends a turn under this template ("<|im_end|>"); NULL where only tokens end one. */
QSF_API const char *qsf_chat_stop(const qsf_model *m, const char *name);

/* What a conversation in JSON is written with.  Texts may be NULL: there is none. */
typedef struct qsf_chat_options {
    size_t      size;                   /* sizeof(qsf_chat_options) */
    const char *chat_template;          /* NULL: the model's own (with tools: its "tool_use", where it has
                                         * one); the name of one of its own or of the list above; or a
                                         * template's text, which has an opening brace */
    const char *tools, *documents;      /* JSON: lists, as templates know them */
    const char *kwargs;                 /* JSON: an object of further variables ("enable_thinking") */
    const char *bos, *eos;              /* texts of these tokens; NULL: the model's */
    bool        add_generation_prompt;  /* true: ends with the beginning of the assistant's answer */
    bool        continue_final_message; /* false; true ends within the last message, to go on from there,
                                         * and adds no beginning of another */
    bool        as_given;               /* false; true: the template gets the messages as they are.  Else
                                         * they are brought to the forms that it takes (docs/chat.md) */
    int64_t     now;                    /* seconds since 1970 of the date that a template may write; 0: what
                                         * the machine's clock shows */
} qsf_chat_options;

/* Fills all members with their defaults. */
QSF_API void qsf_chat_defaults_of(qsf_chat_options *o, size_t size);
static inline void qsf_chat_defaults(qsf_chat_options *o) { qsf_chat_defaults_of(o, sizeof *o); }

/* As qsf_chat_encode, of messages[0..len) in JSON: a list of objects with a "role" and what else
 * the template asks for: "content" (a text, or a list of parts), "tool_calls" (arguments as an
 * object, or as its JSON in a text), "tool_call_id", "name", "reasoning_content".  An object with
 * such a list in "messages", and maybe one in "tools", is taken too.  opts may be NULL.
 *
 * QSF_E_CORRUPT   what is given is not JSON; the message says line and column */
QSF_API qsf_status qsf_chat_encode_json(const qsf_model *m, const char *messages, size_t len,
                                        const qsf_chat_options *opts, int32_t *ids, size_t cap,
                                        size_t *n_ids, qsf_error *err);
/* The text of the same, as the template writes it, with the begin-of-text token's where it
 * writes that. m may be NULL where opts has the template.  out, cap and *len are as in
 * qsf_chat_render. */
QSF_API qsf_status qsf_chat_render_json(const qsf_model *m, const char *messages, size_t len,
                                        const qsf_chat_options *opts, char *out, size_t cap, size_t *n,
                                        qsf_error *err);
/* As qsf_chat_stop, for opts; *len is 0 where only tokens end a turn. */
QSF_API qsf_status qsf_chat_stop_text(const qsf_model *m, const qsf_chat_options *opts, char *out,
                                      size_t cap, size_t *len, qsf_error *err);

/* ---- recording ------------------------------------------------------------------------------- */

/* What a record is of.  All but products overlap as they nest: a batch has steps, a step has
 * operations.
 *
 * QSF_RECORD_PRODUCT     one matrix, multiplied with all rows of a batch
 * QSF_RECORD_OPERATION   a part of a step that the threads share: products, attention, norms
 * QSF_RECORD_THREAD      what a thread other than the first one did of an operation
 * QSF_RECORD_STEP        the embedding, a layer, or a part of the head
 * QSF_RECORD_BATCH       all steps of a batch, and the time between them
 * QSF_RECORD_READ        bytes of the model's file on their way; several overlap
 * QSF_RECORD_PREPARE     the same bytes checked, decompressed and repacked
 * QSF_RECORD_WAIT        the first thread had nothing to do before bytes were there
 * QSF_RECORD_SAMPLE      a turn chose a token */
typedef enum qsf_record_type {
    QSF_RECORD_PRODUCT = 1, QSF_RECORD_OPERATION = 2, QSF_RECORD_THREAD = 3, QSF_RECORD_STEP = 4,
    QSF_RECORD_BATCH = 5, QSF_RECORD_READ = 6, QSF_RECORD_PREPARE = 7, QSF_RECORD_WAIT = 8,
    QSF_RECORD_SAMPLE = 9
} qsf_record_type;

/* A stretch of time in which a context did something.  docs/tracing.md lists the names. */
typedef struct qsf_record {
    size_t          size;        /* sizeof(qsf_record), set by the library */
    qsf_record_type type;
    const char     *name;        /* of the operation ("qkv"), the step ("layer"), the matrix of a product
                                  * ("blk.0.attn_q") or the unit that is read ("layer 3") */
    int32_t         layer;       /* from 0; -1: of no layer */
    uint32_t        thread;      /* 0: the caller's; n_threads: the one that reads ahead */
    uint64_t        begin_ns, ns;       /* by the clock of the platform.  Of a product: when the first thread
                                         * began, and its share of its operation's time */
    uint32_t        n_rows;      /* of the batch, as far as they took part; 0 where none do */
    uint64_t        bytes;       /* of weights that a product used, or of the file */
    uint64_t        at;          /* of a read: where in the file */
    /* products only, else NULL and 0 */
    const char     *kernel_id;   /* "4bit_s_matvec_avx2" */
    const char     *operation;   /* "matrix-vector multiply", "matrix-matrix multiply" */
    const char     *compute_type;        /* "quantized", "float" */
    const char     *quantization_type;   /* "4bit_s", "q4_K": the type in the file */
    uint32_t        rows, cols;  /* of the matrix, or of the rows of it that were computed */
    uint32_t        blocks_per_row, bytes_per_block;    /* in the file */
} qsf_record;

/* Gets a context's records, in the order of their ends, on the thread that computes.  The record
 * and its texts are valid during the call, which must not use the context. */
typedef void (*qsf_record_fn)(void *user, const qsf_record *record);

/* ---- context --------------------------------------------------------------------------------- */

/* The memory, threads and state that run a model. */
typedef struct qsf_context qsf_context;

/* How keys and values are stored.  One number says the bits of both; two numbers say the bits
 * of keys and the bits of values, which need fewer.  docs/kv-cache.md says what each type
 * costs in perplexity. */
typedef enum qsf_kv_type {
    QSF_KV_F16 = 0, QSF_KV_Q8 = 1, QSF_KV_F32 = 2, QSF_KV_Q4 = 3, QSF_KV_Q2 = 4, QSF_KV_Q8V4 = 5,
    QSF_KV_Q4V2 = 6
} qsf_kv_type;

/* Which logits the head computes.
 *
 * QSF_HEAD_EXACT      all of them
 * QSF_HEAD_SCREEN     a copy of the head in few bits finds the 256 best rows, and those are
 *                     computed exactly.  The copy takes memory; the head must have more bits than
 *                     the copy
 * QSF_HEAD_CLUSTERS   only clusters of rows near the hidden state are computed.  The file lists the
 *                     clusters (qsf-convert --head-clusters)
 *
 * The last two leave out rows that cannot be the largest, as far as a cheaper measure tells.
 * Logits of these rows are -INFINITY; the others are the same as with QSF_HEAD_EXACT.  Both modes
 * are for decoding: a batch in which more than 8 rows ask for logits is computed exactly.
 * docs/performance.md says how often the largest logit is the same, and how much time is saved. */
typedef enum qsf_head_mode { QSF_HEAD_EXACT = 0, QSF_HEAD_SCREEN = 1, QSF_HEAD_CLUSTERS = 2 } qsf_head_mode;

/* Weights in a few bits meet activations in 8 bits, which share a scale with others: each 64
 * columns of a row, or all of a row, max|x| / 127, as models of the BitNet family were trained
 * (1.58-bit weights, 8-bit activations).  Blocks are nearer to floats. */
typedef enum qsf_act_quant { QSF_ACT_BLOCK = 0, QSF_ACT_ROW = 1 } qsf_act_quant;

/* How layers' matrices of 2-bit weights without scales (TERNARY2, QK256: the BitNet family) meet
 * one row of activations: by products (MAD: multiply and add), or by sums of two columns that are
 * looked up in tables (LUT).  Both give the same bits.  AUTO times both when a context is made,
 * with the model's own shapes, which takes some milliseconds; without a clock it is MAD. */
typedef enum qsf_kernel_route { QSF_ROUTE_AUTO = 0, QSF_ROUTE_MAD = 1, QSF_ROUTE_LUT = 2 } qsf_kernel_route;

/* Options of qsf_context_new. */
typedef struct qsf_context_options {
    size_t      size;         /* sizeof(qsf_context_options), set by qsf_context_defaults */
    uint64_t    ram_budget;   /* 0: no limit.  Else the bytes of resident memory that the process may take:
                               * the model and the program's heap count, 4 MB of program files do not.
                               * docs/memory.md says what the plan gives up to stay inside */
    uint32_t    n_ctx;        /* positions of all sequences together; 0: the model's own number, at most
                               * 4096 */
    uint32_t    n_batch;      /* 256; the most rows of a batch */
    uint32_t    n_threads;    /* 1..256; 0: one for each core */
    uint32_t    n_seqs;       /* 4; the most sequences that are alive at once */
    uint32_t    n_logits;     /* the most rows of a batch that ask for logits; 0: n_seqs */
    qsf_kv_type kv_type;      /* QSF_KV_Q8 */
    bool        f32;          /* false; true computes with float activations, keys and values: exact and
                               * slow, for comparing */
    const char *isa;          /* the kernels' instruction set; NULL: the best that the processor has and
                               * QSF_ISA allows */
    float       quality;      /* 1.0: all layers run; below 1, layers of low stored importance are left out */
    qsf_head_mode head;       /* QSF_HEAD_EXACT; the other modes keep embedding and head in memory and
                               * exclude f32 */
    bool        check_every;  /* false: a checksum is compared when its bytes are read for the first time;
                               * true: each time they are read.  A layer has one checksum; an embedding or
                               * a head that streams has one for each chunk */
    uint32_t    kv_window;    /* 0: every position is kept, and n_ctx is the end.  Else a token sees the first
                               * kv_sinks positions of its sequence and the last kv_window, itself included.
                               * Positions that no token will see again are dropped, and a sequence may grow
                               * beyond n_ctx (not with learned positions).  Positions keep their numbers, so
                               * keys keep their distances (StreamingLLM, Xiao et al. 2023, arXiv:2309.17453).
                               * Memory is taken for that many positions of each sequence and a batch */
    uint32_t    kv_sinks;     /* 4 */
    uint32_t    kv_heavy;     /* 0; needs kv_window.  Of the blocks of 32 positions that leave the window,
                               * those that have drawn the most attention stay: this many positions of each
                               * sequence (heavy hitters: H2O, Zhang et al. 2023, arXiv:2306.14048).  The
                               * choice is made before each batch, and the batch's rows see every block
                               * that is left, so results depend on how a text is cut into batches */
    bool        kv_may_drop;  /* false; true: where ram_budget is too small for the n_ctx that was asked
                               * for, the plan may choose kv_window and kv_heavy, with a warning, before it
                               * makes the context shorter.  For one sequence, and not with early_exit */
    float       early_exit;   /* 0: off.  Else a cosine, 0.9 to 0.99 in practice: from the middle of the
                               * stack on, a token that is alone in its batch goes straight to the last two
                               * layers once the cosine of its hidden state with that of two layers before
                               * is at least this much.  Its logits then differ from those of all layers;
                               * its keys and values do not: they are computed later, beside other tokens.
                               * Not with kv_window */
    qsf_act_quant act_quant;  /* QSF_ACT_BLOCK: what the 8-bit codes of activations share a scale with */
    qsf_record_fn record;     /* NULL: nothing is recorded.  Else hears of everything that the context does */
    void       *record_user;
    qsf_kernel_route kernel_route;  /* QSF_ROUTE_AUTO */
    bool        first_stage;  /* false; true: of a progressive file (qsf-convert --progressive) whose
                               * units all stay in memory, only the first pieces are read, and answers are
                               * computed with the high bits of the weights until qsf_refine has brought
                               * the others.  Does nothing with other files, while layers stream, or with
                               * QSF_HEAD_SCREEN */
    uint64_t    adapter_bytes;  /* 0; with ram_budget: what the plan leaves for adapters, the bytes of their
                                 * qsf_adapter_info together.  They stay in memory */
} qsf_context_options;

/* Fills all members of *o with their defaults. */
QSF_API void qsf_context_defaults_of(qsf_context_options *o, size_t size);
static inline void qsf_context_defaults(qsf_context_options *o) { qsf_context_defaults_of(o, sizeof *o); }

/* What an option's value is, as text. */
typedef enum qsf_option_kind {
    QSF_OPTION_FLAG,        /* "true", "false" (also 1, 0, on, off, yes, no) */
    QSF_OPTION_WHOLE,       /* a whole number */
    QSF_OPTION_NUMBER,
    QSF_OPTION_CHOICE,      /* one of some words */
    QSF_OPTION_TEXT
} qsf_option_kind;
/* An option of a context by name, for command lines, files of settings and bindings. */
typedef struct qsf_option {
    const char     *name;   /* "kv-window" */
    qsf_option_kind kind;
    double          least, most, value;     /* range and default; of a choice, places in choices */
    const char     *choices;                /* "exact|screen|clusters" in the order of their enum, or NULL */
    const char     *unit;   /* "MB", "positions", "" */
    const char     *help;   /* a line */
} qsf_option;
/* The options of a context, i = 0, 1, ...; NULL: there are no more. */
QSF_API const qsf_option *qsf_context_option(size_t i);
/* Sets the member of *o that an option's name stands for.  A text is not copied.
 *
 * QSF_E_ARGUMENT   no such option, or not one of its values; *o is as before */
QSF_API qsf_status qsf_context_set(qsf_context_options *o, const char *name, const char *value,
                                   qsf_error *err);
/* The value of an option, as a text that qsf_context_set would take: for records of what was asked
 * for.  A text that is not set is "".
 *
 * QSF_E_ARGUMENT   no such option, or its value needs more than cap bytes; out is "" */
QSF_API qsf_status qsf_context_get(const qsf_context_options *o, const char *name, char *out, size_t cap,
                                   qsf_error *err);

/* Plans and allocates everything; afterwards nothing allocates.  opts may be NULL.  On an error
 * *out is NULL.  The model's log hears what the plan gave up: a shorter context and coarser keys
 * and values as warnings, everything else as information.
 *
 * QSF_E_BUDGET   the message says the smallest budget that works */
QSF_API qsf_status qsf_context_new(qsf_model *m, const qsf_context_options *opts, qsf_context **out,
                                   qsf_error *err);
QSF_API void       qsf_context_free(qsf_context *c);   /* takes NULL */
QSF_API qsf_model *qsf_context_model(qsf_context *c);
QSF_API uint32_t   qsf_context_batch(const qsf_context *c);    /* most rows of a batch, as the plan granted */
/* The text of the last error, "" where there was none.  Valid until the next call. */
QSF_API const char *qsf_last_error(const qsf_context *c);

/* One part of the plan: what it is for and how many bytes it takes. */
typedef struct qsf_plan_item { const char *name; uint64_t bytes; } qsf_plan_item;
/* How a context spends its memory, and what gave way to the budget. */
typedef struct qsf_plan {
    size_t        size;          /* set by the caller: sizeof(qsf_plan) */
    qsf_plan_item items[16];
    size_t        n_items;
    uint64_t      total;         /* bytes */
    uint64_t      least;         /* the smallest ram_budget that works for these options, everything
                                  * reduced */
    uint32_t      n_ctx, n_batch;         /* as granted */
    uint32_t      kv_window, kv_heavy;    /* as in the options, or as the plan chose (kv_may_drop) */
    qsf_kv_type   kv_type;
    bool          resident;      /* all layers stay in memory; else some stream through n_slots buffers */
    uint32_t      n_slots;
    char          reductions[12][64];     /* what gave way to the budget: "batch 256 -> 64" */
    bool          losses[12];             /* whether that reduction may change answers, not only the speed */
    size_t        n_reductions;
    uint32_t      n_experts;     /* experts that have a place in memory; 0: they come with their layers */
} qsf_plan;
/* The plan of a context.
 *
 * QSF_E_ARGUMENT   out->size is no struct's */
QSF_API qsf_status qsf_context_get_plan(const qsf_context *c, qsf_plan *out);
/* Makes the plan that qsf_context_new would make with these options (NULL: the defaults), from the
 * file's description alone: it reads no weights, starts no threads and keeps no memory.
 *
 * QSF_E_BUDGET     out->least says the smallest budget that works; the rest of *out is empty
 * QSF_E_ARGUMENT   an option is out of range, or out->size is no struct's */
QSF_API qsf_status qsf_context_plan(const qsf_model *m, const qsf_context_options *opts, qsf_plan *out,
                                    qsf_error *err);

/* The memory that the process takes now, in bytes, as the system reports it.  0: the system does
 * not say.
 *
 * QSF_E_ARGUMENT   out->size is no struct's */
typedef struct qsf_usage {
    size_t   size;           /* set by the caller: sizeof(qsf_usage) */
    uint64_t resident;       /* everything, as RSS counts it; a budget is compared with this */
    uint64_t own;            /* the part of resident that belongs to no file */
    uint64_t files;          /* the part of resident that is pages of files: the program and its libraries */
    uint64_t peak;           /* the largest resident so far */
    uint64_t cached;         /* the model's files in the system's page cache, which is not the process's
                              * memory: the system takes it back where others need it */
} qsf_usage;
QSF_API qsf_status qsf_model_get_usage(const qsf_model *m, qsf_usage *out);

/* Where a context's time went since it was made or reset.  ns: nanoseconds.
 *
 * QSF_E_ARGUMENT   out->size is no struct's */
typedef struct qsf_stats {
    size_t   size;                                  /* set by the caller: sizeof(qsf_stats) */
    uint64_t tokens_prompt, tokens_generated;       /* rows of batches; a batch counts as generated where
                                                     * all of its rows ask for logits */
    uint64_t ns_prompt, ns_generated;
    uint64_t ns_wait_io, ns_prepare;                /* computing waited for a layer; layers were checked,
                                                     * decompressed and repacked, on whichever thread */
    uint64_t ns_matmul, ns_attention, ns_other;     /* time of the first thread; ns_matmul is the layers'
                                                     * only */
    uint64_t bytes_read;
    const char *isa;
    uint32_t n_threads;
    uint64_t ns_read;                               /* reads were under way, as far as anybody waited for
                                                     * their end */
    uint64_t ns_check, ns_decompress;               /* parts of ns_prepare */
    uint64_t ns_head;                               /* the products of the head */
    const char *io;                                 /* how the file is read, in a word or two */
    float    overlap;                               /* 0..1: the share of ns_read and ns_prepare that
                                                     * passed while something was computed */
    uint64_t layers_left;                           /* layers that tokens did not wait for, by early exit */
    /* where experts are read alone: those that batches took (each once a layer and batch), those of
     * them that were in memory, those that were read, and their bytes, a part of bytes_read */
    uint64_t experts_used, experts_found, experts_read, experts_bytes;
    uint64_t adapter_bytes;                         /* of adapters that are streamed, which were made of what
                                                     * was read */
} qsf_stats;
QSF_API qsf_status qsf_context_get_stats(const qsf_context *c, qsf_stats *out);
QSF_API void       qsf_context_reset_stats(qsf_context *c);

/* What one kernel of the products has done since the context was made or its statistics were reset.
 * It is counted always, and costs nothing that can be measured. */
typedef struct qsf_kernel_use {
    size_t   size;           /* set by the caller: sizeof(qsf_kernel_use) */
    char     id[48];         /* form, operation, instruction set: docs/tracing.md */
    uint64_t products;       /* matrices, once a batch */
    uint64_t rows;           /* their rows times those of the batches: numbers that came out */
    uint64_t bytes;          /* of weights, once a product */
} qsf_kernel_use;
/* Writes the i-th kernel that was used to *out, i = 0, 1, ...
 *
 * QSF_E_NOT_FOUND  there are no more
 * QSF_E_ARGUMENT   out->size is no struct's */
QSF_API qsf_status qsf_context_get_kernel(const qsf_context *c, size_t i, qsf_kernel_use *out);

/* The same of one operation: a part of a step that the threads share. */
typedef struct qsf_operation_use {
    size_t      size;        /* set by the caller: sizeof(qsf_operation_use) */
    const char *name;        /* "qkv": docs/tracing.md */
    uint64_t    times, ns;   /* of the first thread */
} qsf_operation_use;
/* Writes the i-th operation that was used to *out, i = 0, 1, ..., in the order of a step.
 *
 * QSF_E_NOT_FOUND  there are no more
 * QSF_E_ARGUMENT   out->size is no struct's */
QSF_API qsf_status qsf_context_get_operation(const qsf_context *c, size_t i, qsf_operation_use *out);

/* ---- sequences ------------------------------------------------------------------------------- */

/* A sequence: tokens whose keys and values the context keeps.  Its number is 0 to n_seqs - 1.  All
 * sequences begin empty. */
typedef int32_t qsf_seq;

/* The number of positions of a sequence, without those of a batch under way. */
QSF_API uint32_t   qsf_seq_length(const qsf_context *c, qsf_seq s);
/* How many more tokens fit: what n_ctx and the other sequences leave or, with kv_window, what is
 * left up to position 16777216.  The rows of a batch under way count as done. */
QSF_API uint32_t   qsf_seq_room(const qsf_context *c, qsf_seq s);
/* How the memory for keys and values is used, in blocks of positions that sequences share.  A
 * program with many sequences asks before it begins another one. */
typedef struct qsf_kv_usage {
    size_t   size;           /* set by the caller: sizeof(qsf_kv_usage) */
    uint32_t block;          /* positions of a block */
    uint32_t n_blocks, n_free;
    uint32_t n_listed;       /* blocks of all sequences; one that two share counts twice */
    uint64_t positions;      /* of all sequences */
} qsf_kv_usage;
/* Writes the usage to *out; the rows of a batch under way count as done.
 *
 * QSF_E_ARGUMENT   out->size is no struct's */
QSF_API qsf_status qsf_context_get_kv_usage(const qsf_context *c, qsf_kv_usage *out);
/* Cuts a sequence to n positions; 0 empties it.  A batch under way is dropped.  Keys and values can
 * be cut to any length.  Where a model's layers keep other state of a sequence, which cannot be
 * cut, the sequence goes back to the nearest position at or before n that it can go back to: its
 * length, where its last batch began, a checkpoint, or 0.  qsf_seq_length says which; the tokens
 * from there on are to be fed again.
 *
 * QSF_E_ARGUMENT   n is above the length or, with kv_window, the next token would see positions
 *                  that were dropped.  Going back to where the last batch began always works */
QSF_API qsf_status qsf_seq_truncate(qsf_context *c, qsf_seq s, uint32_t n);
/* dst becomes the first n positions of src.  Both share the blocks until one of them writes.  The
 * same n are possible as in qsf_seq_truncate, except behind a position that early exit has left
 * unfinished (QSF_E_ARGUMENT): the next eight tokens finish it.  Where layers keep other state, dst
 * may get fewer positions, as in qsf_seq_truncate, and gets no checkpoints; src stays as it is. */
QSF_API qsf_status qsf_seq_share(qsf_context *c, qsf_seq dst, qsf_seq src, uint32_t n);
/* Makes the sequence's length a checkpoint: qsf_seq_truncate can go back to it.  This copies
 * nothing.  A sequence has its last two checkpoints or more; turns make one where they begin and
 * one behind the prompt.  Without state beside keys and values this does nothing. */
QSF_API qsf_status qsf_seq_checkpoint(qsf_context *c, qsf_seq s);
/* From now on makes checkpoints, too, where batches begin n or more positions behind the last
 * checkpoint.  0: no more. */
QSF_API qsf_status qsf_seq_checkpoint_every(qsf_context *c, qsf_seq s, uint32_t n);

/* ---- adapters -------------------------------------------------------------------------------- */

/* A low-rank adapter (LoRA: Hu et al. 2021, arXiv:2106.09685) of a model: llama.cpp's GGUF file or
 * a directory of PEFT.  To the product of a matrix W and x it adds scale * alpha / rank * B (A x),
 * in floats; the model's weights stay as they are.  docs/adapters.md says which matrices. */
typedef struct qsf_adapter qsf_adapter;

/* Reads an adapter to memory, where it stays.  file: as in qsf_model_options; else NULL.  Contexts
 * of the model may be in use meanwhile.  On an error *out is NULL.
 *
 * QSF_E_UNSUPPORTED   the file is no adapter or one of another architecture, or it changes what
 *                     this version cannot change: the message names the tensor or the key
 * QSF_E_CORRUPT       the file is damaged, or does not fit the model
 * and the errors of qsf_model_open */
QSF_API qsf_status qsf_adapter_load(qsf_model *m, const char *path, const qsf_custom_file *file,
                                    qsf_adapter **out, qsf_error *err);
/* How an adapter is held.  All members may be 0; size is set by the caller. */
typedef struct qsf_adapter_options {
    size_t                 size;      /* sizeof(qsf_adapter_options) */
    const qsf_custom_file *file;      /* as in qsf_model_options; else NULL */
    bool                   exact;     /* false: in 8 bits beside matrices of blocks, which products take as
                                       * codes, too.  true: all in numbers that are as exact as the file's, as
                                       * contexts want them that compute with floats (f32) */
    bool                   streamed;  /* false: it stays in memory, and the file is closed.  true: the file
                                       * stays open, and what belongs to a layer is read each time that the
                                       * layer runs */
    uint32_t               number;    /* the program's own, which qsf_adapter_info gives back */
} qsf_adapter_options;
/* As qsf_adapter_load, held so; opts may be NULL.
 *
 * QSF_E_ARGUMENT   opts->size is no struct's; and the errors of qsf_adapter_load */
QSF_API qsf_status qsf_adapter_open(qsf_model *m, const char *path, const qsf_adapter_options *opts,
                                    qsf_adapter **out, qsf_error *err);
/* Lets go of it (takes NULL).  Sequences that have it keep it until they are given others, or
 * their context is freed; all that before the model is closed. */
QSF_API void       qsf_adapter_free(qsf_adapter *a);

/* What an adapter is.  The text belongs to the adapter.
 *
 * QSF_E_ARGUMENT   out->size is no struct's */
typedef struct qsf_adapter_info {
    size_t      size;         /* set by the caller: sizeof(qsf_adapter_info) */
    const char *name;         /* as its file says, or the path */
    uint32_t    n_matrices;   /* that it changes */
    uint32_t    rank;         /* the largest */
    float       alpha;        /* 0: the file has none, and alpha / rank is 1 */
    uint64_t    bytes;        /* of memory, with what batches of 256 rows need beside it */
    uint32_t    number;       /* that it was opened with */
} qsf_adapter_info;
QSF_API qsf_status qsf_adapter_get_info(const qsf_adapter *a, qsf_adapter_info *out);

/* An adapter and how much of it. */
typedef struct qsf_adapter_use { qsf_adapter *adapter; float scale; } qsf_adapter_use;
/* From now on, a sequence's rows are computed with these adapters, n of them, at most 8; what they
 * add is summed.  0: with none, bit for bit as before.  A scale of 0 leaves an adapter out.  Rows
 * of one batch may have different ones.
 *
 * Where the adapters or their scales are others than before, the sequence is emptied, since its
 * keys and values were computed with those, and a batch under way is dropped.  qsf_seq_share goes
 * between sequences with the same adapters; sessions are loaded with those that they were saved
 * with.
 *
 * This may allocate.
 *
 * QSF_E_BUDGET        the context has a ram_budget and adapter_bytes is too small
 * QSF_E_UNSUPPORTED   the adapter changes the head, and the context's is not QSF_HEAD_EXACT; or the
 *                     context computes with floats and the adapter was not opened as an exact one
 * QSF_E_ARGUMENT      there are too many, a scale is no number, or an adapter is another model's
 * and what qsf_behind.adapters says */
QSF_API qsf_status qsf_seq_set_adapters(qsf_context *c, qsf_seq s, const qsf_adapter_use *uses, size_t n);

/* ---- sessions -------------------------------------------------------------------------------- */

/* Takes the next len bytes of a session.  Any result but QSF_OK ends the saving
 * with that status. */
typedef qsf_status (*qsf_write_fn)(void *user, const void *bytes, size_t len);

/* Writes a sequence with its keys and values, so that another context of the same model can go on
 * without computing them again.  The context does not keep tokens: ids are the sequence's tokens,
 * and n_ids must be qsf_seq_length.  A batch under way is not saved.  Equal keys and values make
 * equal bytes on every machine (docs/session-files.md).
 *
 * QSF_E_UNSUPPORTED   kv_window has dropped positions
 * QSF_E_ARGUMENT      n_ids is wrong, or early exit has left a position unfinished
 *
 * Any other status is the one that write returned. */
QSF_API qsf_status qsf_session_save(const qsf_context *c, qsf_seq s, const int32_t *ids, size_t n_ids,
                                    qsf_write_fn write, void *user, qsf_error *err);
/* How many bytes qsf_session_save would write now. */
QSF_API uint64_t   qsf_session_bytes(const qsf_context *c, qsf_seq s);
/* Makes sequence s what was saved, and writes its tokens to ids and their number to *n_ids.
 * The function reads from twice and never closes it: the first time it checks all bytes, and
 * nothing changes unless everything is right.
 *
 * QSF_E_CORRUPT       the bytes are no session, damaged or cut short
 * QSF_E_UNSUPPORTED   a later version wrote the session
 * QSF_E_ARGUMENT      the session has another model, KV type or, where keys depend on them,
 *                     context length or quality; or *n_ids is larger than cap
 * QSF_E_FULL          the session does not fit
 * QSF_E_IO            the bytes could not be read, or were others the second time, which
 *                     leaves the sequence empty */
QSF_API qsf_status qsf_session_load(qsf_context *c, qsf_seq s, const qsf_custom_file *from, int32_t *ids,
                                    size_t cap, size_t *n_ids, qsf_error *err);

/* ---- computing ------------------------------------------------------------------------------- */

/* One row of a batch: a token at the next position of its sequence.  logits: whether the row
 * asks for logits. */
typedef struct qsf_row { qsf_seq seq; int32_t token; bool logits; } qsf_row;

/* Begins a batch of n rows, at most n_batch; rows of one sequence stand in order.  An unfinished
 * batch is dropped and its positions are taken back.
 *
 * QSF_E_FULL       no block of the KV cache is free
 * QSF_E_ARGUMENT   a token, a sequence or a number of rows is out of range */
QSF_API qsf_status qsf_batch_begin(qsf_context *c, const qsf_row *rows, size_t n);

/* Advances the batch by at most one layer.  Never blocks and never allocates.
 *
 * QSF_OK        the batch is done; qsf_logits has the logits that its rows asked for
 * QSF_PENDING   there is more to do: call again.  Where *waiting is true, the bytes of the next
 *               layer are not here yet: call qsf_wait, or return to the event loop, before.
 *               waiting may be NULL
 * QSF_E_IO, QSF_E_CORRUPT   the batch is dropped and the context stays usable; qsf_last_error says
 *                           where
 *
 * To cancel a batch, do not call again, or begin another batch. */
QSF_API qsf_status qsf_step(qsf_context *c, bool *waiting);
/* Blocks until the bytes that qsf_step waits for are here.
 *
 * QSF_E_UNSUPPORTED   the host must not block */
QSF_API qsf_status qsf_wait(qsf_context *c);
/* With first_stage: goes on reading the low bits of the weights, and adds those that are here.
 *
 * wait: until all are there.  Else it only looks, and is to be called again: between two steps, or
 * when nothing is computed.
 *
 * QSF_OK       all weights are whole, as they always are without first_stage.  What is computed
 *              from now on is the same, bit for bit, as with the whole file; keys and values of
 *              earlier tokens stay as they were computed.
 * QSF_PENDING  not all yet; with wait: a unit has not been used so far, its high bits come first
 * QSF_E_IO, QSF_E_CORRUPT   a piece cannot be read or is damaged; the next call reads it again.
 */
QSF_API qsf_status qsf_refine(qsf_context *c, bool wait);
/* How many layers of the batch under way are computed;
 * info.n_layers where no batch is under way. */
QSF_API uint32_t   qsf_batch_layer(const qsf_context *c);
/* Begins a batch, steps and waits until it is done. */
QSF_API qsf_status qsf_compute(qsf_context *c, const qsf_row *rows, size_t n);
/* Computes n tokens of one sequence, in as many batches as that takes.  *logits are those of the
 * last token; logits may be NULL.
 *
 * QSF_E_FULL   the tokens do not all fit (qsf_seq_room); nothing was computed
 *
 * After any other error the sequence keeps the batches that were done. */
QSF_API qsf_status qsf_feed(qsf_context *c, qsf_seq s, const int32_t *ids, size_t n, const float **logits);
/* The logits, float[n_vocab], of the i-th row of the last finished batch that asked for them; valid
 * until the next batch.  Tokens that qsf_head_mode left out have -INFINITY. */
QSF_API const float *qsf_logits(const qsf_context *c, size_t i);

/* ---- layers apart ---------------------------------------------------------------------------- */

/* A model whose layers are run in several places: each opens the file with a range of layers
 * (qsf_model_options.first_layer), and its contexts read these layers only, plan memory for them,
 * and keep their keys and values.  The embedding is read for the first range, the final norm and
 * the head for the last one.  Between them travel rows of hidden states, float[n_embd] each, by
 * whatever way the program has:
 *
 *   qsf_compute(first, rows, n);                        from tokens
 *   states[i] = qsf_batch_states(first, i) ...          to another context, process or machine
 *   qsf_compute_from(last, rows, n, states);            the same rows
 *   qsf_logits(last, 0)
 *
 * The same rows, as floats, give the same logits as one context for all layers, bit for bit.  Each
 * context keeps its own sequences: a program truncates and shares them in all.  Options of contexts
 * must be the same, but for budgets and threads; n_ctx too, which a budget may have changed
 * (qsf_plan).  Rows may ask for logits in every range: only the last one has any.  Turns (but for
 * qsf_context_set_behind), embeddings and early exit need all layers (QSF_E_UNSUPPORTED).
 *
 * qsf_model_open refuses ranges of models whose layers need more than these rows
 * (QSF_E_UNSUPPORTED; the message names what), and those that the file has not
 * (QSF_E_ARGUMENT). */

/* As qsf_batch_begin and qsf_compute, for a range that is not the first one: with the hidden states
 * states[n][n_embd] that the range before computed of the same rows.  They are copied; the rows'
 * tokens are not looked at.
 *
 * QSF_E_ARGUMENT   also: the range is the first one */
QSF_API qsf_status qsf_batch_begin_from(qsf_context *c, const qsf_row *rows, size_t n,
                                        const float *states);
QSF_API qsf_status qsf_compute_from(qsf_context *c, const qsf_row *rows, size_t n, const float *states);
/* The hidden state, float[n_embd], of the i-th row of the last finished batch, behind the range's
 * last layer; valid until the next batch.  NULL: there is no such row, or the range is the last
 * one. */
QSF_API const float *qsf_batch_states(const qsf_context *c, size_t i);

/* Who computes the layers behind a first range, so that its context gives logits as if it had all
 * layers: turns and all that uses them then work, but for embeddings and sessions.
 *
 * compute  from states[n][ld_states] behind the range's last layer, of the rows of a batch, the
 *          logits[asked][ld_logits] of those that ask for them, in their order; it may come back
 *          before it has computed rows of which none asks.  An error is the batch's result
 * back     sequence s goes back to n positions there, too
 * share    as qsf_seq_share
 * adapters as qsf_seq_set_adapters, with what these adapters are there (qsf_adapter_info.number
 *          tells them apart); a scale is never 0.  An error is that of the call, and the sequence
 *          is empty then and has the adapters that it had.  NULL: sequences have none
 *
 * All are called by the thread that uses the context, in the order in which things shall happen. */
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
 * QSF_E_ARGUMENT      the range is not the first one, or has all layers; a function is missing
 * QSF_E_UNSUPPORTED   the model has layers that keep state, or sequences have adapters already */
QSF_API qsf_status qsf_context_set_behind(qsf_context *c, const qsf_behind *b);

/* ---- shares of layers ------------------------------------------------------------------------ */

/* A model whose layers are cut lengthwise (tensor parallelism): each of n_shares contexts, threads,
 * processes or machines opens the file with another share of all layers, which is some of the heads
 * with their keys and values, and some of the columns of the feed-forward.  It reads, plans and
 * keeps only these; where there are fewer heads of keys and values than shares, several shares have
 * the same ones.  All have the embedding; the final norm and the head are share 0's alone.
 *
 * All shares compute the same batches at the same time: qsf_batch_begin, or what is made of it,
 * with the same rows, everywhere.  Twice in each layer, once the attention and once the
 * feed-forward has been computed, they need the sum of what all have made, and call the function
 * that the program has set.  Logits are share 0's; each context keeps its own sequences, which the
 * program truncates and shares in all.  Options of contexts must be the same, but for budgets and
 * threads; n_ctx and n_batch too, which a budget may have changed (qsf_plan).
 *
 * Logits differ from those of one context for all of it by roundings of sums: about 1e-6 of the
 * largest where activations, keys and values are floats (f32, QSF_KV_F32), else as they do between
 * instruction sets.  QSF files have checksums of whole layers, which shares cannot compare.
 *
 * qsf_model_open refuses models with layers that look at all heads or columns together, and files
 * of which no part of a row can be read (QSF_E_UNSUPPORTED; the message names what).  Turns,
 * embeddings, adapters, early exit, approximate heads, kv_heavy, kv_may_drop and QSF_ACT_ROW need
 * whole layers (QSF_E_UNSUPPORTED). */

/* x[i] is to become the sum of all shares' x[i], for n floats; of rows of hidden states, one after
 * another.  Every share must get the same bits, so that all go on alike: add them in the same
 * order everywhere.  It is called by the thread that steps, and returns when the sum is there; all
 * shares call it as often, with the same n.  What is not QSF_OK is the batch's result, in all
 * shares if the program tells them. */
typedef qsf_status (*qsf_reduce_fn)(void *user, float *x, size_t n);
/* Sets it, before the first batch; a batch without one is QSF_E_ARGUMENT.
 *
 * QSF_E_ARGUMENT   the model was not opened with shares */
QSF_API qsf_status qsf_context_set_reduce(qsf_context *c, qsf_reduce_fn fn, void *user);

/* ---- hidden states --------------------------------------------------------------------------- */

/* Whether batches that begin from now on also give the hidden state of each of their rows; at first
 * they do not.  It takes no memory, and the time of a norm a row.  A batch whose rows want no
 * logits leaves out the head. */
QSF_API void         qsf_hidden_ask(qsf_context *c, bool wanted);
/* The hidden state, float[n_embd], of the i-th row of the last finished batch: what the head
 * multiplies, behind the final norm.  Valid until the next batch.  NULL: the batch has no such row,
 * or was not asked.  Rows of such a batch do not exit early. */
QSF_API const float *qsf_hidden(const qsf_context *c, size_t i);
/* Pools the hidden states of a text of n tokens, which may come in several batches, into out,
 * float[n_embd].  Rows [first, first + rows) of the last finished batch are the text's tokens
 * [at, at + rows); at goes from 0 to n without a gap.  With the text's last token, out is the
 * embedding: it has the length 1.  The same text has the same embedding, whatever else the batches
 * have in them.  false: the batch has no such rows, or was not asked; out is as before. */
QSF_API bool         qsf_hidden_pool(const qsf_context *c, size_t first, size_t rows, size_t at, size_t n,
                                     qsf_pooling how, float *out);
/* Computes n tokens of one sequence, in as many batches as that takes, and pools their hidden
 * states into out, float[n_embd].  For a text's embedding the sequence is empty before; the tokens
 * stay in it.
 *
 * QSF_E_FULL   the tokens do not all fit (qsf_seq_room); nothing was computed
 *
 * After any other error the sequence keeps the batches that were done. */
QSF_API qsf_status   qsf_embed(qsf_context *c, qsf_seq s, const int32_t *ids, size_t n, qsf_pooling how,
                               float *out);

/* How qsf_embed_texts makes embeddings. */
typedef struct qsf_embed_options {
    size_t      size;        /* sizeof(qsf_embed_options) where the caller was compiled */
    qsf_pooling pooling;     /* QSF_POOL_NONE: what the file says, and the mean where it says nothing */
    bool        plain;       /* false: each embedding is brought to the length 1 */
} qsf_embed_options;
/* Fills all members with their defaults, which are zeros. */
QSF_API void qsf_embed_defaults_of(qsf_embed_options *o, size_t size);
static inline void qsf_embed_defaults(qsf_embed_options *o) { qsf_embed_defaults_of(o, sizeof *o); }
/* Floats that a text takes, or a token with QSF_POOL_TOKENS: n_embd, or n_classes where texts are
 * ranked. */
QSF_API uint32_t     qsf_embed_width(const qsf_model *m, qsf_pooling pooling);
/* Embeds n texts of lens[i] tokens, which stand one behind the other in ids.  As many share a batch
 * as there are sequences (n_seqs) and rows (n_batch); what a text gets does not depend on the
 * others.  out, the caller's, takes their embeddings in order: float[n][width], with
 * QSF_POOL_TOKENS one of each token.  opts may be NULL.  All sequences are empty afterwards.
 *
 * QSF_E_ARGUMENT      a text without tokens, or a token that the vocabulary lacks
 * QSF_E_FULL          a text does not fit in the context, or an encoder's in one batch (n_batch)
 * QSF_E_UNSUPPORTED   QSF_POOL_RANK, and the file has no classifier */
QSF_API qsf_status   qsf_embed_texts(qsf_context *c, const int32_t *ids, const size_t *lens, size_t n,
                                     const qsf_embed_options *opts, float *out);

/* As qsf_hidden_pool, with what the file has behind the pooling (a classifier, further layers), and
 * as opts says, but for QSF_POOL_TOKENS: what qsf_embed_texts gives.  out has room for
 * float[n_embd] and for float[qsf_embed_width]; on an error it is of no use.  opts may be NULL.
 *
 * QSF_E_ARGUMENT      the batch has no such rows, or was not asked
 * QSF_E_UNSUPPORTED   QSF_POOL_RANK, and the file has no classifier */
QSF_API qsf_status   qsf_hidden_embed(qsf_context *c, size_t first, size_t rows, size_t at, size_t n,
                                      const qsf_embed_options *opts, float *out);

/* The tokens of a query and a document as the model was trained to rank them: by the file's own
 * template (tokenizer.chat_template.rerank); by a classifier's two texts with the tokens that
 * begin, separate and end them; else by Qwen3-Reranker's question, which is answered yes or no.
 * ids, cap and *n are as in qsf_tokens_encode. */
QSF_API qsf_status   qsf_rerank_encode(const qsf_model *m, const char *query, size_t query_len,
                                       const char *document, size_t document_len, int32_t *ids, size_t cap,
                                       size_t *n, qsf_error *err);
/* Scores n such pairs of lens[i] tokens, which stand one behind the other in ids: the classifier's
 * first value, or the share of "yes" in what the model answers; higher is better.  All sequences
 * are empty afterwards.
 *
 * QSF_E_UNSUPPORTED   there is neither a classifier nor a yes and a no; others as of
 *                     qsf_embed_texts */
QSF_API qsf_status   qsf_rerank(qsf_context *c, const int32_t *ids, const size_t *lens, size_t n,
                                float *scores);

/* ---- sampling -------------------------------------------------------------------------------- */

/* Chooses tokens from logits.  docs/sampling.md says in which order its parts work. */
typedef struct qsf_sampler qsf_sampler;

/* Options of qsf_sampler_new. */
typedef struct qsf_sampler_options {
    size_t   size;                /* sizeof(qsf_sampler_options), set by qsf_sampler_defaults */
    uint64_t seed;                /* 0: from the platform's clock */
    float    temperature;         /* 0.7; <= 0: the token with the largest logit, whatever follows */
    uint32_t top_k;               /* 40; 0: off */
    float    top_p;               /* 0.9; >= 1: off */
    float    min_p;               /* 0: off */
    float    repeat_penalty;      /* 1: off */
    float    frequency_penalty, presence_penalty;   /* 0: off */
    uint32_t repeat_last_n;       /* 64 */
    float    dry_multiplier;      /* 0: off.  DRY: a token that would make a repetition longer, of
                                   * dry_allowed_length tokens or more, loses
                                   * dry_multiplier * dry_base ^ (length - dry_allowed_length) */
    float    dry_base;            /* 1.75 */
    uint32_t dry_allowed_length;  /* 2 */
    uint32_t dry_last_n;          /* 1024; tokens among which repetitions are looked for */
    float    top_n_sigma;         /* 0: off; else tokens stay whose logit is at most so many standard
                                   * deviations below the largest */
    float    typical_p;           /* 1: off; locally typical sampling, Meister et al. 2022,
                                   * arXiv:2202.00666 */
    float    xtc_probability;     /* 0: off; how often all tokens of xtc_threshold or more are left out,
                                   * but for the least likely of them */
    float    xtc_threshold;       /* 0.1; above 0.5: off */
    float    dynatemp_range;      /* 0: off; else the temperature is between temperature - range and
                                   * temperature + range, as the entropy of what is left says */
    float    dynatemp_exponent;   /* 1 */
    uint32_t mirostat;            /* 0: off; 1, 2: the version of Mirostat, Basu et al. 2020,
                                   * arXiv:2007.14966, in the place of the others that leave tokens out */
    float    mirostat_tau;        /* 5, in bits */
    float    mirostat_eta;        /* 0.1 */
} qsf_sampler_options;

/* Fills all members of *o with their defaults. */
QSF_API void qsf_sampler_defaults_of(qsf_sampler_options *o, size_t size);
static inline void qsf_sampler_defaults(qsf_sampler_options *o) { qsf_sampler_defaults_of(o, sizeof *o); }
/* The options of a sampler by name, as qsf_context_option and qsf_context_set have a context's. */
QSF_API const qsf_option *qsf_sampler_option(size_t i);
QSF_API qsf_status qsf_sampler_set(qsf_sampler_options *o, const char *name, const char *value,
                                   qsf_error *err);
/* Makes a sampler (o may be NULL); frees it (takes NULL). */
QSF_API qsf_status qsf_sampler_new(const qsf_model *m, const qsf_sampler_options *o, qsf_sampler **out,
                                   qsf_error *err);
QSF_API void       qsf_sampler_free(qsf_sampler *s);

/* A token's bias, and a token's probability as its natural logarithm. */
typedef struct qsf_logit_bias { int32_t token; float bias; } qsf_logit_bias;
typedef struct qsf_logprob { int32_t token; float logprob; } qsf_logprob;

/* Adds bias to the token's logit before everything else; -INFINITY: the token never comes.  The
 * last bias of a token counts; 0 takes it back.
 *
 * QSF_E_ARGUMENT   no such token, or a bias that is no number below infinity */
QSF_API qsf_status qsf_sampler_bias(qsf_sampler *s, int32_t token, float bias, qsf_error *err);
/* Text that must not come in an answer: a token that would complete it is forbidden, however the
 * text is cut into tokens.  The text is copied; it has 1 to 1024 bytes. */
QSF_API qsf_status qsf_sampler_ban(qsf_sampler *s, const char *text, size_t len, qsf_error *err);
/* A text over which DRY sees no repetition, copied like a banned one.  A new sampler has "\n", ":",
 * "\"" and "*"; a length of 0 takes all away. */
QSF_API qsf_status qsf_sampler_breaker(qsf_sampler *s, const char *text, size_t len, qsf_error *err);
/* Sees and may change the logits of n tokens, behind the biases and before the penalties.
 * -INFINITY forbids a token; what grammars and bans forbid stays forbidden.  NULL: nobody. */
typedef void (*qsf_logits_fn)(void *user, float *logits, size_t n);
QSF_API void       qsf_sampler_callback(qsf_sampler *s, qsf_logits_fn fn, void *user);

/* Picks a token.  logits are only read.  Where biases, bans and the callback leave no token, they
 * count for nothing. */
QSF_API int32_t    qsf_sampler_pick(qsf_sampler *s, const float *logits);
/* Tells the sampler of a token, for the penalties and for texts: of the prompt's tokens too.
 * Reset forgets them. */
QSF_API void       qsf_sampler_accept(qsf_sampler *s, int32_t token);
QSF_API void       qsf_sampler_reset(qsf_sampler *s);
/* What was accepted so far is the prompt: texts that begin there are not the answer's.  A turn says
 * so by itself. */
QSF_API void       qsf_sampler_begin(qsf_sampler *s);

/* ---- grammars -------------------------------------------------------------------------------- */

/* What an answer may be: a set of texts.  A turn is given one (qsf_turn_options), and the answer
 * is then a text of it.  A grammar serves any number of turns, of one thread at a time and of one
 * model at a time: what they have computed of it serves all.  docs/grammars.md says what each kind
 * can say. */
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
    uint32_t json_blanks;    /* 32, enough for a line end and its indentation; the most blanks and line
                              * ends at a place where JSON may have some.  0: compact; UINT32_MAX: any
                              * number */
    uint64_t most_memory;    /* bytes, up to 96 MB; 0: that.  A grammar that takes more is too large, also
                              * where a turn finds out: it then fails with QSF_E_BUDGET, and so do others
                              * with this grammar */
    bool     json_loose;     /* false; true: unsupported keywords of a schema are dropped one by one instead
                              * of being an error */
} qsf_grammar_options;

/* Fills all members of *o with their defaults. */
QSF_API void qsf_grammar_defaults_of(qsf_grammar_options *o, size_t size);
static inline void qsf_grammar_defaults(qsf_grammar_options *o) { qsf_grammar_defaults_of(o, sizeof *o); }
/* Makes a grammar from text[0..len).  opts may be NULL.  On an error *out is NULL.  The grammar
 * does not need the model afterwards.
 *
 * QSF_E_ARGUMENT      the text is not of this kind, has a part that is not supported, or nothing
 *                     can match it; the message gives the position
 * QSF_E_CORRUPT       not valid GBNF, Lark or JSON; the message gives line and column
 * QSF_E_UNSUPPORTED   a feature of GBNF or Lark that is not supported
 * QSF_E_BUDGET        the grammar is too large or too deep; the message names the limit
 * QSF_E_MEMORY        out of memory */
QSF_API qsf_status qsf_grammar_new(const qsf_model *m, qsf_grammar_kind kind, const char *text, size_t len,
                                   const qsf_grammar_options *opts, qsf_grammar **out, qsf_error *err);
QSF_API void       qsf_grammar_free(qsf_grammar *g);    /* takes NULL; end the turns with it before */
/* The bytes that a grammar takes now; what turns compute of it is added. */
QSF_API uint64_t   qsf_grammar_memory(const qsf_grammar *g);
/* Makes what all grammars need of the model's vocabulary.  Else the first turn with one does, which
 * takes it a tenth of a second for 150,000 tokens.  Any thread may call this.
 *
 * QSF_E_UNSUPPORTED   the model has no vocabulary
 * QSF_E_MEMORY        out of memory */
QSF_API qsf_status qsf_grammar_prepare(qsf_model *m, qsf_error *err);
/* Whether text[0..len) is a text of the grammar.  *fits (NULL: not asked for) is the bytes of it
 * with which a text of the grammar can begin: where that is len, only the end is missing. */
QSF_API bool       qsf_grammar_accepts(qsf_grammar *g, const char *text, size_t len, size_t *fits);

/* ---- drafts ---------------------------------------------------------------------------------- */

/* The most guesses of a pass that are worth their time: up to eight rows the kernels read
 * each weight once. */
enum { QSF_DRAFT_MOST = 7 };
/* Guesses the tokens that follow ids[0..n): it finds the latest earlier place of the last 2 to 4
 * tokens and writes the tokens behind that place to out, at most cap.  Returns their number; 0:
 * there is no such place.
 *
 * A batch of the last token and its guesses, each row with logits, costs little more than the last
 * token alone where layers stream.  Pick a token from row i's logits; as long as it is the guess of
 * row i + 1, that row's logits are right and need no pass of their own.  At the first wrong guess,
 * cut the rest off with qsf_seq_truncate.  The tokens are the same as without guesses. */
QSF_API size_t qsf_draft_lookup(const int32_t *ids, size_t n, int32_t *out, size_t cap);
/* Raises o->n_logits for up to `most` guesses a pass, and returns how many that are; 0: *o
 * stays as it was.  That happens where layers will not stream, and where guesses would change
 * answers (with early_exit and kv_heavy).  Fewer than `most` are granted where too much would
 * have to give way: more than half of the batch, any position of a context that was asked
 * for, any precision of keys and values. */
QSF_API uint32_t qsf_draft_room(const qsf_model *m, qsf_context_options *o, uint32_t most);

/* ---- turns ----------------------------------------------------------------------------------- */

/* A turn takes one sequence of a context from a prompt to an answer.  It computes the part of the
 * prompt that the sequence does not hold yet, then returns the answer piece by piece until a token,
 * a stop text or a limit ends it.  One qsf_turn can run many turns, one after another.
 * docs/library.md has examples of both ways to compute.
 *
 * Alone: qsf_turn_next returns the next piece; if it returns QSF_PENDING, qsf_turn_step computes a
 * layer.
 *
 * Together: the caller asks each turn for the rows that it wants (qsf_turn_rows), computes the rows
 * of all turns in one batch (qsf_batch_begin, qsf_step), and tells each turn which logits are its
 * own (qsf_turn_computed).  It may let all of them choose their tokens at once (qsf_turns_pick).
 * Then it takes pieces from each turn until qsf_turn_next returns QSF_PENDING again, all before the
 * next batch begins, because the logits are valid until then.
 *
 * Under a grammar only tokens that continue or end a match are chosen, and a control token only if
 * it belongs to a tool call (qsf_answer_turn).  At the end of the match the turn ends, with a token
 * that ends the answer (even with ignore_end) or, if nothing can follow, by itself.  Forced text is
 * fed in one batch, as the model's tokenizer tokenizes it; its pieces are returned as usual.
 *
 * These functions may cut a sequence, which drops the current batch.  While a batch has rows of
 * other turns too, call only qsf_turn_get_state.  Two turns that each compute alone may alternate
 * piece by piece: one may step when qsf_turn_next of the other returns QSF_PENDING and no batch is
 * under way. */
typedef struct qsf_turn qsf_turn;

/* Why a turn has ended. */
typedef enum qsf_turn_end {
    QSF_TURN_GOES_ON   = 0,      /* it has not */
    QSF_TURN_END_TOKEN = 1,      /* the model has ended its answer, or the text; or nothing can follow
                                  * under the grammar */
    QSF_TURN_STOP_TEXT = 2,      /* a stop text came */
    QSF_TURN_MOST      = 3,      /* max_tokens were given */
    QSF_TURN_FULL      = 4,      /* the context has no room for the next token */
    QSF_TURN_CANCELLED = 5,      /* qsf_turn_cancel, or the next qsf_turn_begin */
    QSF_TURN_FAILED    = 6       /* qsf_turn_error says why */
} qsf_turn_end;

/* Guesses the tokens that follow ids[0..n): writes at most cap of them to out and returns their
 * number. */
typedef size_t (*qsf_guess_fn)(void *user, const int32_t *ids, size_t n, int32_t *out, size_t cap);

/* Options of qsf_turn_begin. */
typedef struct qsf_turn_options {
    size_t             size;           /* sizeof(qsf_turn_options), set by qsf_turn_defaults */
    int64_t            max_tokens;     /* -1: no limit; 0: only the prompt is computed */
    const char *const *stops;          /* texts that end the answer and are not part of it; copied */
    size_t             n_stops;
    const size_t      *stop_lengths;   /* in bytes; NULL: each text ends at its zero byte */
    bool               ignore_end;     /* false; true: goes on behind tokens that end an answer or a text */
    bool               special;        /* false; true: control tokens have their texts too */
    uint32_t           draft;          /* 0; most guesses a pass, up to QSF_DRAFT_MOST.  The context's
                                        * n_logits has to be 1 + draft, summed over turns of one batch */
    qsf_guess_fn       guess;          /* NULL: qsf_draft_lookup */
    void              *guess_user;
    int64_t            min_tokens;     /* 0; tokens that end the answer do not come before this many.  A
                                        * grammar that has nothing else to offer goes before it */
    int32_t            logprobs;       /* -1: none; else pieces tell the log probabilities of their token and
                                        * of so many of the likeliest, up to QSF_LOGPROBS_MOST */
    qsf_grammar       *grammar;        /* NULL; what the answer may be.  It must stay until the turn has
                                        * ended */
    const char *const *grammar_after;  /* NULL: the grammar begins with the answer.  Else with the first of
                                        * these texts in it, which may be texts of control tokens; copied */
    size_t             n_grammar_after;
    bool               grammar_with;   /* false: the grammar begins behind that text; true: with it */
    const char        *special_in;     /* NULL; with special, only control tokens whose text is a part of this
                                        * one have theirs.  It must stay until the turn has ended */
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
} qsf_turn_options;

/* The most log probabilities that a piece tells besides its own. */
enum { QSF_LOGPROBS_MOST = 100 };

/* Fills all members of *o with their defaults. */
QSF_API void qsf_turn_defaults_of(qsf_turn_options *o, size_t size);
static inline void qsf_turn_defaults(qsf_turn_options *o) { qsf_turn_defaults_of(o, sizeof *o); }
/* The options of a turn that are numbers, by name, as qsf_context_option and qsf_context_set have a
 * context's. */
QSF_API const qsf_option *qsf_turn_option(size_t i);
QSF_API qsf_status qsf_turn_set(qsf_turn_options *o, const char *name, const char *value, qsf_error *err);

/* One token's part of the answer.  The text is whole characters; bytes that are no UTF-8 become
 * U+FFFD.  It is "" while a character, or what may become a stop text, is unfinished.  The last
 * piece has no token: its text is what was held back. */
typedef struct qsf_turn_piece {
    size_t       size;           /* set by the caller: sizeof(qsf_turn_piece) */
    int32_t      token;          /* -1 in the last piece */
    qsf_turn_end end;            /* QSF_TURN_GOES_ON except in the last piece */
    const char  *text;           /* terminated; belongs to the turn, valid until its next call */
    size_t       len;            /* bytes before the terminating zero; the text may hold zeros too */
    bool         cut;            /* in the last piece: bytes of an unfinished character are left out */
    const qsf_logprob *logprobs; /* the token's, then those of the likeliest tokens, the best first.  They
                                  * come from the model's own logits, before biases, penalties, temperature
                                  * and grammars; rows that qsf_head_mode left out count as impossible */
    size_t       n_logprobs;     /* 0 where none were asked for, and for tokens that a grammar forced, of
                                  * which the model was not asked */
} qsf_turn_piece;

/* What a turn has done. */
typedef struct qsf_turn_state {
    size_t       size;           /* set by the caller: sizeof(qsf_turn_state) */
    qsf_turn_end end;            /* QSF_TURN_GOES_ON while it is under way and before the first one */
    size_t       n_prompt;       /* tokens of the prompt */
    size_t       n_kept;         /* those of them that the sequence held before */
    size_t       n_done;         /* those of them that are computed, with the kept ones */
    size_t       n_tokens;       /* tokens of the answer */
    uint64_t     n_guessed, n_right;      /* guesses of all turns, and those that were picked */
    uint64_t     ns_sampling;             /* of all turns */
    size_t       n_forced;       /* tokens of the answer that the grammar left no choice about: fed in one
                                  * batch without asking the model */
} qsf_turn_state;

/* Makes a turn of sequence s; frees it (takes NULL), which leaves the sequence as it is.  The
 * context must outlive the turn.  Tokens that the sequence holds already are unknown to it:
 * see qsf_turn_hold. */
QSF_API qsf_status qsf_turn_new(qsf_context *c, qsf_seq s, qsf_turn **out, qsf_error *err);
QSF_API void       qsf_turn_free(qsf_turn *t);

/* Begins a turn with ids[0..n), the whole text so far: cuts the sequence to the tokens that both
 * begin with, and computes nothing yet.  A turn under way is cancelled.  The sampler forgets the
 * tokens that it has accepted, takes the prompt's instead, and must stay until the turn has ended.
 * opts may be NULL.
 *
 * This allocates for the prompt, max_tokens and the grammar.  Without max_tokens, and behind the
 * end of the context (kv_window), the list of tokens grows with the answer; forced text allocates
 * while it is cut into tokens.
 *
 * QSF_E_FULL       the tokens do not all fit (qsf_seq_room)
 * QSF_E_ARGUMENT   there are no tokens, or an argument is out of range; or no text of the grammar
 *                  begins with a text that it is to begin with
 * QSF_E_MEMORY     out of memory */
QSF_API qsf_status qsf_turn_begin(qsf_turn *t, const int32_t *ids, size_t n, qsf_sampler *sampler,
                                  const qsf_turn_options *opts);
/* Gives the next piece.
 *
 * QSF_OK           *piece is set; it is the last one where its end is set
 * QSF_PENDING      rows have to be computed first
 * QSF_E_ARGUMENT   no turn was begun, or piece->size is no struct's */
QSF_API qsf_status qsf_turn_next(qsf_turn *t, qsf_turn_piece *piece);

/* Computes at most one layer of the rows that the turn wants.  *waiting is as in qsf_step.  Where
 * waiting is NULL, this blocks until bytes are here; on a host that must not block the turn then
 * fails.
 *
 * QSF_OK        the batch is done, or nothing is wanted: ask qsf_turn_next
 * QSF_PENDING   call again; where *waiting is true, when something has arrived
 *
 * After anything else the turn has failed, and its last piece says so too. */
QSF_API qsf_status qsf_turn_step(qsf_turn *t, bool *waiting);

/* Writes the rows that the turn wants computed next, at most cap (1 or more), and returns their
 * number; 0: it wants none.  It gives the same rows again, as far as cap allows, until
 * qsf_turn_computed. */
QSF_API size_t qsf_turn_rows(qsf_turn *t, qsf_row *rows, size_t cap);
/* Says that the rows given last are computed: qsf_logits(c, first) belongs to the first of them
 * that asked for logits.  Returns how many of them asked. */
QSF_API size_t qsf_turn_computed(qsf_turn *t, size_t first);
/* Chooses the next token of each of these turns of one context that has logits, on all its threads;
 * qsf_turn_next then returns it immediately.  The call is optional and does not change the tokens.
 * Turns with a grammar, a reasoning budget or a sampler with a callback still choose in
 * qsf_turn_next. */
QSF_API void   qsf_turns_pick(qsf_turn *const *turns, size_t n);

/* Ends a turn under way.  The sequence keeps all that is computed, except guesses and an unfinished
 * batch. */
QSF_API void qsf_turn_cancel(qsf_turn *t);
/* The error of the last qsf_turn_begin, or the one that has ended the turn since (QSF_TURN_FULL,
 * QSF_TURN_FAILED). */
QSF_API const qsf_error *qsf_turn_error(const qsf_turn *t);
/* Writes what the turn has done to *out.
 *
 * QSF_E_ARGUMENT   out->size is no struct's */
QSF_API qsf_status qsf_turn_get_state(const qsf_turn *t, qsf_turn_state *out);
/* The tokens that the sequence holds, as far as the turn knows.  They belong to the turn and are
 * valid until its next call. */
QSF_API const int32_t *qsf_turn_tokens(const qsf_turn *t, size_t *n);
/* Tells the turn that the sequence holds these tokens now, by qsf_session_load, qsf_seq_share or
 * qsf_feed.  A sequence that was only cut needs no word.  After QSF_E_MEMORY the turn knows of no
 * token. */
QSF_API qsf_status qsf_turn_hold(qsf_turn *t, const int32_t *ids, size_t n);

/* ---- answers --------------------------------------------------------------------------------- */

/* Cuts an answer into reasoning, text and calls of tools while it arrives.  How the model writes
 * calls and reasoning is found from its chat template; docs/tools.md says how, and what is found.
 *
 *   qsf_answer_new(m, &opts, &a, &err);
 *   qsf_answer_turn(a, &turn_options, &err);       marks become visible; grammars of calls
 *   for each piece: qsf_answer_token(a, piece.token);
 *                   qsf_answer_push(a, piece.text, piece.len, piece.end != QSF_TURN_GOES_ON, &err);
 *                   while (qsf_answer_next(a, &event)) ... */
typedef struct qsf_answer qsf_answer;

/* Options of qsf_answer_new. */
typedef struct qsf_answer_options {
    size_t                  size;       /* sizeof(qsf_answer_options), set by qsf_answer_defaults */
    const qsf_chat_options *chat;       /* NULL: the model's own template and no tools; else what the prompt
                                         * was written with, tools among it.  Copied */
    const char             *tool_choice;    /* NULL, "auto": the model chooses; "none": no calls are looked
                                             * for; "required": the answer is a call; else the name of the
                                             * tool that is called */
    bool                    parallel_tool_calls;    /* true; false: at most one call under a grammar */
    uint64_t                id_seed;    /* 0; calls that the model gives no id get one made from this and
                                         * their number: nine letters and digits */
    uint64_t                most_memory;    /* of the grammar of calls, as in qsf_grammar_options */
    qsf_grammar_kind        shape_kind;     /* QSF_GRAMMAR_GBNF; the kind of shape */
    const char             *shape;          /* NULL; a grammar of the answer unless it is a tool call, as in
                                             * qsf_grammar_new.  Reasoning may come first if the
                                             * template supports it.  Copied */
    size_t                  shape_len;
    uint32_t                json_blanks;    /* 32; as in qsf_grammar_options, for shape */
    bool                    json_loose;     /* false; as in qsf_grammar_options, for shape */
} qsf_answer_options;

/* Fills all members of *o with their defaults. */
QSF_API void qsf_answer_defaults_of(qsf_answer_options *o, size_t size);
static inline void qsf_answer_defaults(qsf_answer_options *o) { qsf_answer_defaults_of(o, sizeof *o); }

/* Makes an answer; frees it (takes NULL).  opts may be NULL; m may be NULL where opts->chat has a
 * template's text, and must outlive the answer.
 *
 * QSF_E_CORRUPT, QSF_E_ARGUMENT   the tools are no JSON, or no list
 * and the errors of qsf_chat_render_json */
QSF_API qsf_status qsf_answer_new(const qsf_model *m, const qsf_answer_options *opts, qsf_answer **out,
                                  qsf_error *err);
QSF_API void       qsf_answer_free(qsf_answer *a);
/* Begins again, for the next answer under the same template and tools. */
QSF_API void       qsf_answer_reset(qsf_answer *a, uint64_t id_seed);

/* Sets the members of *o that make a turn's pieces fit this answer: special and special_in, so that
 * only control tokens that mark calls or reasoning have text (all do if special was set); the marks
 * of reasoning; and, with tools, the grammar that keeps calls to their schemas.  The grammar
 * applies from the start of a call, or from the start of the answer if tool_choice requires a call
 * or there is a shape.  A grammar set by the caller is kept; if the prompt has begun the model's
 * reasoning, it applies after that, unless *o says otherwise.  What is set belongs to a and may be
 * used for several turns, as grammars may.
 *
 * QSF_E_ARGUMENT   tool_choice does not name a tool, or the shape or the schema of a strict tool is
 *                  not fully supported: the message says what and where
 * QSF_E_BUDGET     the schemas make too large a grammar */
QSF_API qsf_status qsf_answer_turn(qsf_answer *a, qsf_turn_options *o, qsf_error *err);

/* After qsf_answer_turn: the keywords of tools' schemas that its grammar does not enforce, one per
 * line; "": all are enforced.  A tool with "strict": true is enforced completely or refused.
 * Belongs to a. */
QSF_API const char *qsf_answer_loosened(const qsf_answer *a);

/* Says that the turn set up last has given this token, whose text will be pushed; -1: none.  So a
 * control token that marks nothing where it stands is told from a text that only looks like it: the
 * first is no text of the answer.  All of an answer's tokens are said, or none. */
QSF_API void       qsf_answer_token(qsf_answer *a, int32_t id);
/* Goes on by text[0..len), cut anywhere; last: the answer ends here.
 *
 * QSF_E_MEMORY   the answer is lost */
QSF_API qsf_status qsf_answer_push(qsf_answer *a, const char *text, size_t len, bool last, qsf_error *err);

/* What an event of an answer is. */
typedef enum qsf_answer_event_type {
    QSF_ANSWER_TEXT         = 1,    /* for the user */
    QSF_ANSWER_REASONING    = 2,
    QSF_ANSWER_CALL         = 3,    /* a call begins: its name and id are known */
    QSF_ANSWER_ARGUMENTS    = 4,    /* more of its arguments, which are JSON whatever the model writes */
    QSF_ANSWER_CALL_END     = 5,    /* the call is whole */
    QSF_ANSWER_CALL_DROPPED = 6,    /* it turned out to be none: forget it.  What it was made of comes as
                                     * QSF_ANSWER_TEXT */
    QSF_ANSWER_CALL_CUT     = 7     /* the answer ends within the call: its arguments are the beginning of
                                     * JSON.  The text is what the model wrote of it */
} qsf_answer_event_type;

/* One thing that arrived, by qsf_answer_next. */
typedef struct qsf_answer_event {
    size_t                size;     /* set by the caller: sizeof(qsf_answer_event) */
    qsf_answer_event_type type;
    uint32_t              call;     /* of calls: which, from 0 */
    const char           *text;     /* bytes of text, reasoning or arguments; a call's name; of a cut call
                                     * all of it, as the model wrote it.  Not terminated; belongs to the
                                     * answer, valid until its next push */
    size_t                len;
    const char           *id;       /* of QSF_ANSWER_CALL, else NULL */
    size_t                id_len;
} qsf_answer_event;

/* The next event; QSF_PENDING: there is none so far. */
QSF_API qsf_status qsf_answer_next(qsf_answer *a, qsf_answer_event *out);
/* The answer so far as a message of the OpenAI interface, in JSON: role, content (null beside calls
 * without a text), reasoning_content, tool_calls.  A call that the answer ends in has
 * "unfinished": true, and its arguments are no JSON yet.  Terminated; belongs to a, valid until its
 * next call. */
QSF_API qsf_status qsf_answer_json(qsf_answer *a, const char **text, size_t *len, qsf_error *err);

/* ---- the short interface --------------------------------------------------------------------- */

/* What an engine is to be, and the engine: a model, a context and one conversation. */
typedef struct QSFConfig QSFConfig;
typedef struct QSFEngine QSFEngine;

/* Makes a configuration; the functions behind it change it. */
QSF_API QSFConfig *qsf_config_default(void);                        /* NULL: out of memory */
QSF_API void qsf_config_set_ram_budget(QSFConfig *, size_t megabytes);
QSF_API void qsf_config_set_threads(QSFConfig *, int num_threads);
QSF_API void qsf_config_set_max_seq_len(QSFConfig *, int max_seq_len);
QSF_API void qsf_config_set_quality(QSFConfig *, float quality);    /* 0.0 - 1.0 */
QSF_API void qsf_config_free(QSFConfig *);

/* Opens a model and makes a context for it.  config NULL: the defaults.  The result is NULL on an
 * error; qsf_load_status(config) and qsf_load_error(config) say which. */
QSF_API QSFEngine *qsf_load(const char *model_path, QSFConfig *config);
QSF_API void qsf_free(QSFEngine *);
QSF_API qsf_status  qsf_load_status(const QSFConfig *);
QSF_API const char *qsf_load_error(const QSFConfig *);
/* The error of the last call on this engine; QSF_OK and "" where it went well. */
QSF_API qsf_status  qsf_engine_status(const QSFEngine *);
QSF_API const char *qsf_engine_error(const QSFEngine *);
/* The engine's own model and context, for the real interface; do not free them. */
QSF_API qsf_model   *qsf_engine_model(QSFEngine *);
QSF_API qsf_context *qsf_engine_context(QSFEngine *);

/* Hears of each token of an answer. */
typedef void (*QSFTokenCallback)(int token_id, const char *text, void *user_data);

/* Continues prompt by at most max_tokens tokens in a fresh sequence.  The callback gets each token
 * with its text: whole characters, or "" while a character is incomplete; a very long text comes in
 * several calls.  temperature <= 0 always takes the most probable token. */
QSF_API void qsf_generate(QSFEngine *, const char *prompt, int max_tokens, float temperature, float top_p,
                          QSFTokenCallback callback, void *user_data);
/* Ends a running qsf_generate after the current token.  Its callback, a signal handler or another
 * thread may call this. */
QSF_API void qsf_cancel(QSFEngine *);

/* Text to tokens, and tokens to text.  The caller frees both results with qsf_result_free.
 * NULL on an error. */
QSF_API int  *qsf_tokenize(QSFEngine *, const char *text, int *num_tokens);
QSF_API char *qsf_detokenize(QSFEngine *, const int *tokens, int num_tokens);
QSF_API void  qsf_result_free(void *);
/* The logits, float[n_vocab], behind the last token, in a fresh sequence.  They belong to the
 * engine and are valid until its next call.  NULL on an error. */
QSF_API float *qsf_forward(QSFEngine *, const int *tokens, int num_tokens);
/* Draws one token as a qsf_sampler does.  The seed is made from the logits, so equal logits give
 * equal tokens.  -1: there are no logits, or no memory for the sampler. */
QSF_API int   qsf_sample(const float *logits, int vocab_size, float temperature, float top_p);
/* Prints memory, tokens a second and the time of each part to stderr. */
QSF_API void  qsf_print_stats(QSFEngine *);

#ifdef __cplusplus
}
#endif
#endif
