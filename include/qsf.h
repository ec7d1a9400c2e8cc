/* The public interface of libqsf: language models from QSF and GGUF files, inside a memory budget.
 * SPDX-License-Identifier: MIT
 *
 * Two layers.  The second half of this file has the short interface (qsf_load, qsf_generate, ...): one engine, one
 * conversation.  It is written with the first half, the real interface: model, context, sequences, batches, steps.
 *
 * Threads: a model may be shared by contexts on different threads; everything else belongs to one caller at a time.
 * Text is UTF-8.  Nothing here prints, exits or keeps global state. */
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

/* ---- status ---------------------------------------------------------------------------------------------------- */

/* One list makes the enum, the names and the texts.  Released numbers never change. */
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

typedef enum qsf_status {
#define X(num, name, text) QSF_##name = num,
    QSF_STATUS_MAP(X)
#undef X
} qsf_status;

/* What happened, where and what to do.  Filled by every function that takes one (NULL is allowed) and fails. */
typedef struct qsf_error {
    qsf_status status;
    char       text[400];   /* one line, always terminated */
} qsf_error;

QSF_API const char *qsf_version(void);
QSF_API const char *qsf_status_name(qsf_status st);   /* "QSF_E_IO" */
QSF_API const char *qsf_status_text(qsf_status st);   /* "reading or writing failed" */

/* ---- the host ---------------------------------------------------------------------------------------------------- */

/* All that the library asks of a system, as a table of functions: core/base/platform.h, installed as qsf_platform.h. */
typedef struct qsf_platform qsf_platform;

/* Files, threads, clock and memory of Linux, macOS or Windows.  One constant table, never freed. */
QSF_API const qsf_platform *qsf_platform_native(void);

/* How model files are read.  AUTO: io_uring, or threads where the system has none.  Files of which layers stream are read past the system's page cache
 * if they are larger than half of the memory that is free: the cache could not hold them.  URING, PREAD (threads): one of the two, and past
 * the page cache wherever layers stream, unless the file system refuses.  MMAP: through a mapping of the file, copied by the kernel,
 * so that a file that is cut is an error and no signal. */
typedef enum qsf_io { QSF_IO_AUTO = 0, QSF_IO_URING = 1, QSF_IO_PREAD = 2, QSF_IO_MMAP = 3 } qsf_io;

typedef enum qsf_log_level { QSF_LOG_ERROR, QSF_LOG_WARN, QSF_LOG_INFO, QSF_LOG_DEBUG } qsf_log_level;
typedef void (*qsf_log_fn)(void *user, qsf_log_level level, const char *line);

/* A file of the caller's own making (a range reader, an archive member, memory).  Blocking; called from one thread at
 * a time.  read fills dst with bytes [at, at+len) or returns an error; a short read is an error. */
typedef struct qsf_custom_file {
    void      *user;
    uint64_t   length;
    qsf_status (*read)(void *user, uint64_t at, void *dst, size_t len);
    void       (*close)(void *user);   /* may be NULL; called once: by qsf_model_close, or by qsf_model_open where that fails */
} qsf_custom_file;

/* ---- model ------------------------------------------------------------------------------------------------------- */

typedef struct qsf_model qsf_model;

typedef struct qsf_model_options {
    size_t                 size;       /* sizeof(qsf_model_options), set by qsf_model_defaults */
    const qsf_platform    *platform;   /* NULL: qsf_platform_native() */
    const qsf_custom_file *file;       /* NULL: path is opened through the platform; else path is only a name, or NULL */
    bool                   vocab_only; /* false; true reads description and tokenizer, no weights needed */
    qsf_log_fn             log;        /* NULL: silent */
    void                  *log_user;
    qsf_io                 io;         /* QSF_IO_AUTO: as the environment's QSF_IO says (auto, uring, pread, mmap), if it does.  QSF_E_UNSUPPORTED
                                        * where the machine cannot */
} qsf_model_options;

QSF_API void qsf_model_defaults(qsf_model_options *o);

/* Opens a QSF or GGUF file (found by its magic) and checks all of its description.  Weights are read when a context
 * needs them.  On an error *out is NULL.  opts may be NULL.
 * QSF_E_NOT_FOUND, QSF_E_IO (the message says what path is instead: a directory, a FIFO, not readable),
 * QSF_E_CORRUPT, QSF_E_UNSUPPORTED
 * (names the architecture, type or feature; a Hugging Face directory is to be converted), QSF_E_MEMORY */
QSF_API qsf_status qsf_model_open(const char *path, const qsf_model_options *opts, qsf_model **out, qsf_error *err);
QSF_API void       qsf_model_close(qsf_model *m);       /* takes NULL; contexts of it must be gone */

typedef struct qsf_model_info {
    const char *arch, *name;      /* "llama", "SmolLM2 135M Instruct"; the model's own, valid as long as it is open */
    const char *format;           /* "QSF" or "GGUF" */
    const char *chat_template;    /* the Jinja text, or NULL */
    uint32_t    n_layers, n_embd, n_heads, n_kv_heads, head_dim, n_ff, n_vocab, n_ctx_train;
    uint64_t    n_params;         /* weights, all tensors */
    uint64_t    weight_bytes;     /* stored */
} qsf_model_info;
QSF_API void qsf_model_get_info(const qsf_model *m, qsf_model_info *out);

/* ---- tokens ------------------------------------------------------------------------------------------------------ */

enum {
    QSF_TOK_ADD_SPECIAL   = 1,   /* begin- and end-of-text tokens as the model's description asks for */
    QSF_TOK_PARSE_SPECIAL = 2    /* "<|im_end|>" in the text becomes its token, not its letters */
};

/* Ids of text[0..len).  *n is the number of ids; where it is larger than cap nothing beyond cap is written and the
 * result is QSF_E_ARGUMENT: call again with room.  Any bytes are accepted, also invalid UTF-8. */
QSF_API qsf_status qsf_tokens_encode(const qsf_model *m, const char *text, size_t len, int flags,
                                     int32_t *ids, size_t cap, size_t *n, qsf_error *err);
/* The bytes of one token (not terminated, may end inside a character).  special: also of control tokens.
 * Returns the length; *bytes is the model's own.  An id out of range has length 0. */
QSF_API size_t  qsf_token_piece(const qsf_model *m, int32_t id, bool special, const char **bytes);
QSF_API bool    qsf_token_is_end(const qsf_model *m, int32_t id);   /* ends a turn or a text */
QSF_API int32_t qsf_token_bos(const qsf_model *m);                  /* -1: the model has none */
QSF_API int32_t qsf_token_eos(const qsf_model *m);

/* Holds back the bytes of an unfinished character.  Zero-initialise.  At most 3 bytes wait. */
typedef struct qsf_utf8_tail { unsigned char bytes[4]; uint8_t len; } qsf_utf8_tail;
/* Appends piece to tail and writes the whole characters (and invalid bytes as U+FFFD) to out, which has room for
 * 3 * (len + 4) bytes.  Returns the bytes written. */
QSF_API size_t qsf_utf8_push(qsf_utf8_tail *tail, const char *piece, size_t len, char *out);

/* ---- chat -------------------------------------------------------------------------------------------------------- */

typedef struct qsf_message { const char *role, *content; } qsf_message;   /* role: "system", "user", "assistant" */

/* Name of the known template (chatml, llama2, llama3, mistral, phi3, gemma, zephyr, command-r, deepseek, plain) that
 * the model's own Jinja text is, or NULL: the model has none (see info.chat_template) or an unknown one.  Known means
 * that it writes, byte for byte, what this kind does. */
QSF_API const char *qsf_chat_template(const qsf_model *m);
QSF_API const char *const *qsf_chat_template_names(void);   /* NULL-terminated */

/* Ids of a conversation, with the begin-of-text token where the model asks for one.  What is found in a message's content is never a control
 * token: "<|im_end|>" there is its letters, so that nobody's text ends a turn or begins another's.  name: a template name, NULL: the model's own.
 * generate: ends with the beginning of the assistant's answer.  *n_ids as in qsf_tokens_encode.  QSF_E_NOT_FOUND: unknown name, or the model's
 * is unknown. */
QSF_API qsf_status qsf_chat_encode(const qsf_model *m, const char *name, const qsf_message *msgs, size_t n, bool generate,
                                   int32_t *ids, size_t cap, size_t *n_ids, qsf_error *err);
/* Writes the text of the messages, for looking at it: tokens come from qsf_chat_encode.  Without the begin-of-text token.  name: a template name, NULL: the model's own.
 * generate: ends with the beginning of the assistant's answer.  *len excludes the 0; as for encode, a larger *len than
 * cap - 1 means QSF_E_ARGUMENT and a call with more room.  QSF_E_NOT_FOUND: unknown name, or the model's is unknown. */
QSF_API qsf_status qsf_chat_render(const qsf_model *m, const char *name, const qsf_message *msgs, size_t n, bool generate,
                                   char *out, size_t cap, size_t *len, qsf_error *err);
/* Text that ends a turn under this template ("<|im_end|>"), NULL where only tokens do. */
QSF_API const char *qsf_chat_stop(const qsf_model *m, const char *name);

/* ---- context ----------------------------------------------------------------------------------------------------- */

typedef struct qsf_context qsf_context;

/* How keys and values are kept: bits of both, or of keys and of values, which need fewer.  docs/kv-cache.md says what each costs in perplexity. */
typedef enum qsf_kv_type { QSF_KV_F16 = 0, QSF_KV_Q8 = 1, QSF_KV_F32 = 2, QSF_KV_Q4 = 3, QSF_KV_Q2 = 4, QSF_KV_Q8V4 = 5, QSF_KV_Q4V2 = 6 } qsf_kv_type;

/* Which logits the head computes.  EXACT: all.  The others leave out rows that cannot be the largest, as far as a cheaper
 * measure tells, and their logits are -INFINITY; those that are there are what EXACT computes.  They are for decoding:
 * batches in which more than 8 rows ask for logits are computed exactly.  docs/performance.md says how often the largest
 * logit is the same, and what is gained.
 * SCREEN: a copy of the head in few bits finds the 256 best rows; takes memory, needs a head of more bits than the copy.
 * CLUSTERS: only clusters of rows near the hidden state, as the file lists them (qsf-convert --head-clusters). */
typedef enum qsf_head_mode { QSF_HEAD_EXACT = 0, QSF_HEAD_SCREEN = 1, QSF_HEAD_CLUSTERS = 2 } qsf_head_mode;

typedef struct qsf_context_options {
    size_t      size;
    uint64_t    ram_budget;   /* bytes of resident memory, model and program's heap included, but for 4 MB of program files; 0: no limit.
                               * docs/memory.md says what the plan reduces; it fails with the smallest budget that works */
    uint32_t    n_ctx;        /* positions of all sequences together; 0: the model's own, at most 4096 */
    uint32_t    n_batch;      /* rows computed at once, default 256 */
    uint32_t    n_threads;    /* 1..256; 0: one a core */
    uint32_t    n_seqs;       /* most sequences alive at once, default 4 */
    uint32_t    n_logits;     /* most rows of a batch that ask for logits, default n_seqs */
    qsf_kv_type kv_type;      /* default QSF_KV_Q8 */
    bool        f32;          /* false; true computes with float activations and keys and values: exact, slow, for comparing */
    const char *isa;          /* NULL: the best the processor has and QSF_ISA allows */
    float       quality;      /* 1.0: all layers; lower skips layers by their stored importance */
    qsf_head_mode head;       /* default QSF_HEAD_EXACT; the others keep embedding and head in memory, and go without f32 */
    bool        check_every;  /* false: a checksum is compared when its bytes are read for the first time; true: whenever they are read again.  Layers have
                               * one each, an embedding and a head that stream one for each chunk */
    uint32_t    kv_window;    /* 0: every position is kept, and n_ctx is the end.  Else a token sees the first kv_sinks positions of its sequence and the
                               * last kv_window, itself among them; what none will see again is dropped, and a sequence may be longer than n_ctx
                               * (not with learned positions).  Positions go on counting: keys keep the distances that they have (StreamingLLM,
                               * Xiao et al. 2023, arXiv:2309.17453).  Memory is for that many positions of each sequence, and a batch */
    uint32_t    kv_sinks;     /* default 4 */
    uint32_t    kv_heavy;     /* 0.  With kv_window: of what leaves the window, the blocks of 32 positions that have drawn the most attention so far stay,
                               * this many positions of each sequence (heavy hitters: H2O, Zhang et al. 2023, arXiv:2306.14048).  What is dropped is decided
                               * before each batch, whose rows see all that is there: so results depend on batches */
    bool        kv_may_drop;  /* false.  true: where ram_budget is too small for an n_ctx that was asked for, the plan may choose kv_window and kv_heavy, with a
                               * warning, before it makes the context shorter.  For one sequence, and not with early_exit */
    float       early_exit;   /* 0: off.  Else a token that is alone in its batch goes on with the last two layers where its hidden state has settled:
                               * from the middle on, where the cosine with that of two layers before is this much or more (0.9 .. 0.99).  Its logits
                               * are then not those of all layers; keys and values are, computed later beside other tokens'.
                               * Not with kv_window */
} qsf_context_options;

QSF_API void qsf_context_defaults(qsf_context_options *o);

/* The same options by name, for command lines, files of settings and bindings. */
typedef enum qsf_option_kind {
    QSF_OPTION_FLAG,        /* "true", "false" (also 1, 0, on, off, yes, no) */
    QSF_OPTION_WHOLE,       /* a whole number */
    QSF_OPTION_NUMBER,
    QSF_OPTION_CHOICE,      /* one of some words */
    QSF_OPTION_TEXT
} qsf_option_kind;
typedef struct qsf_option {
    const char     *name;   /* "kv-window" */
    qsf_option_kind kind;
    double          least, most, value;     /* range and default; of a choice, places in choices */
    const char     *choices;                /* "exact|screen|clusters" in the order of their enum, or NULL */
    const char     *unit;   /* "MB", "positions", "" */
    const char     *help;   /* a line */
} qsf_option;
QSF_API const qsf_option *qsf_context_option(size_t i);     /* 0, 1, ...; NULL: there are no more */
/* Sets the member behind a name; a text is not copied.  QSF_E_ARGUMENT: no such option, or not one of its values;
 * *o is as before then. */
QSF_API qsf_status qsf_context_set(qsf_context_options *o, const char *name, const char *value, qsf_error *err);

/* Plans and allocates everything; afterwards nothing allocates.  What the plan reduced goes to the model's log: a shorter context and coarser
 * keys and values as warnings, the rest as information.  QSF_E_BUDGET says the smallest budget that works. */
QSF_API qsf_status qsf_context_new(qsf_model *m, const qsf_context_options *opts, qsf_context **out, qsf_error *err);
QSF_API void       qsf_context_free(qsf_context *c);   /* takes NULL */
QSF_API qsf_model *qsf_context_model(qsf_context *c);
QSF_API uint32_t   qsf_context_batch(const qsf_context *c);    /* rows a batch may have, as granted */
/* The last error's text, "" where there was none.  Valid until the next call. */
QSF_API const char *qsf_last_error(const qsf_context *c);

/* One named part of the budget plan, largest purpose first: for --verbose and for memory maps. */
typedef struct qsf_plan_item { const char *name; uint64_t bytes; } qsf_plan_item;
typedef struct qsf_plan {
    qsf_plan_item items[16];
    size_t        n_items;
    uint64_t      total;         /* bytes */
    uint64_t      least;         /* the smallest ram_budget that these options can run in, with everything reduced */
    uint32_t      n_ctx, n_batch;         /* what was granted */
    uint32_t      kv_window, kv_heavy;    /* as in the options, or chosen (kv_may_drop) */
    qsf_kv_type   kv_type;
    bool          resident;      /* all layers stay in memory; else they stream through n_slots buffers */
    uint32_t      n_slots;
    char          reductions[12][64];     /* what gave way to the budget, in that order: "batch 256 -> 64" */
    bool          losses[12];             /* of them, whether it may change answers, not only the speed */
    size_t        n_reductions;
} qsf_plan;
QSF_API void qsf_context_get_plan(const qsf_context *c, qsf_plan *out);
/* The plan that qsf_context_new would make with these options (NULL: the defaults), from the file's description alone: no weights are read,
 * no threads started, nothing stays allocated.  QSF_E_BUDGET: out->least says what would do, the rest of *out is empty. */
QSF_API qsf_status qsf_context_plan(const qsf_model *m, const qsf_context_options *opts, qsf_plan *out, qsf_error *err);

/* What the process takes of the machine's memory now, in bytes and as the system says it; 0: the system does not say. */
typedef struct qsf_usage {
    uint64_t resident;       /* all of the process, as RSS counts it: what a budget is held against */
    uint64_t own;            /* of resident, what is in no file */
    uint64_t files;          /* of resident, pages of files: the program and its libraries */
    uint64_t peak;           /* the largest resident so far */
    uint64_t cached;         /* the model's files in the system's page cache: not the process's, and given back where others need memory */
} qsf_usage;
QSF_API void qsf_model_get_usage(const qsf_model *m, qsf_usage *out);

typedef struct qsf_stats {
    uint64_t tokens_prompt, tokens_generated;       /* rows of batches; generated: of those in which every row asks for logits */
    uint64_t ns_prompt, ns_generated;
    uint64_t ns_wait_io, ns_prepare;                /* computing waits for a layer; checking, decompressing, repacking, on whichever thread */
    uint64_t ns_matmul, ns_attention, ns_other;     /* first thread's; matmul: the layers' */
    uint64_t bytes_read;
    const char *isa;
    uint32_t n_threads;
    uint64_t ns_read;                               /* reads were under way, as far as somebody waited for their end */
    uint64_t ns_check, ns_decompress;               /* of ns_prepare */
    uint64_t ns_head;                               /* the head's matrix work */
    const char *io;                                 /* how the file is read, in a word or two */
    float    overlap;                               /* 0..1: the share of ns_read and ns_prepare that passed while something was computed */
    uint64_t layers_left;                           /* that tokens did not wait for, by early exit */
} qsf_stats;
QSF_API void qsf_context_get_stats(const qsf_context *c, qsf_stats *out);
QSF_API void qsf_context_reset_stats(qsf_context *c);

/* ---- sequences --------------------------------------------------------------------------------------------------- */

typedef int32_t qsf_seq;   /* 0 .. n_seqs-1 */

/* A sequence is a list of tokens whose keys and values are cached.  All start empty. */
QSF_API uint32_t   qsf_seq_length(const qsf_context *c, qsf_seq s);
/* How many tokens more fit: what n_ctx and the other sequences leave, or with kv_window what is left of
 * its far end.  A batch under way counts as done. */
QSF_API uint32_t   qsf_seq_room(const qsf_context *c, qsf_seq s);
/* Cuts to n positions (0: empty).  n above the length is QSF_E_ARGUMENT, and with kv_window one whose next token would see what was dropped;
 * back to the beginning of the last batch always goes. */
QSF_API qsf_status qsf_seq_truncate(qsf_context *c, qsf_seq s, uint32_t n);
/* dst becomes the first n positions of src; the blocks are shared until one of the two writes.  The same n are possible as for truncating, but
 * none behind a position that early exit has left on the way (QSF_E_ARGUMENT): the next eight tokens take it along. */
QSF_API qsf_status qsf_seq_share(qsf_context *c, qsf_seq dst, qsf_seq src, uint32_t n);

/* ---- sessions ---------------------------------------------------------------------------------------------------- */

/* Takes the next len bytes; anything but QSF_OK ends the saving with that status. */
typedef qsf_status (*qsf_write_fn)(void *user, const void *bytes, size_t len);

/* Writes a sequence with its keys and values, so that another context of the same model goes on from it without computing it again.  ids: its
 * tokens, which the context itself does not keep; n_ids must be qsf_seq_length.  A batch under way is not part of it.  The bytes are the same on
 * every machine that the same keys and values were computed on (docs/format.md).  QSF_E_UNSUPPORTED where kv_window has dropped some of them,
 * QSF_E_ARGUMENT also where early exit has left a position on the way; or what write returned. */
QSF_API qsf_status qsf_session_save(const qsf_context *c, qsf_seq s, const int32_t *ids, size_t n_ids, qsf_write_fn write, void *user, qsf_error *err);
/* How many bytes that are now. */
QSF_API uint64_t   qsf_session_bytes(const qsf_context *c, qsf_seq s);
/* Makes sequence s what was saved.  from is read twice (its close is not called): first all of it is checked, and nothing changes unless everything
 * is right.  *n_ids: tokens of the session; where it is larger than cap the result is QSF_E_ARGUMENT.
 * QSF_E_CORRUPT: no session, damaged, cut short; QSF_E_UNSUPPORTED: of a later version; QSF_E_ARGUMENT: of another model, KV type or, where keys depend on
 * them, context length or quality; QSF_E_FULL: does not fit; QSF_E_IO: could not be read, or gave other bytes the second time, which leaves the
 * sequence empty. */
QSF_API qsf_status qsf_session_load(qsf_context *c, qsf_seq s, const qsf_custom_file *from, int32_t *ids, size_t cap, size_t *n_ids, qsf_error *err);

/* ---- computing --------------------------------------------------------------------------------------------------- */

/* One row of a batch: this token at the next position of its sequence. */
typedef struct qsf_row { qsf_seq seq; int32_t token; bool logits; } qsf_row;

/* Begins a batch: n rows, at most n_batch; rows of one sequence stand in order.  Drops an unfinished batch (its
 * positions are taken back).  QSF_E_FULL: no free KV block; QSF_E_ARGUMENT: token or sequence out of range. */
QSF_API qsf_status qsf_batch_begin(qsf_context *c, const qsf_row *rows, size_t n);

/* Advances the batch by at most one layer.
 * QSF_OK       the batch is done; logits of its asked rows are in qsf_logits
 * QSF_PENDING  more to do: call again.  *waiting is true where the next layer's bytes are not here yet: qsf_wait or
 *              return to the event loop first.  waiting may be NULL
 * QSF_E_IO, QSF_E_CORRUPT  the batch is dropped, the context stays usable; qsf_last_error says where
 * To cancel, do not call again (or begin another batch).  Never allocates. */
QSF_API qsf_status qsf_step(qsf_context *c, bool *waiting);
/* Blocks until the bytes qsf_step waits for are here.  On a host that must not block: QSF_E_UNSUPPORTED. */
QSF_API qsf_status qsf_wait(qsf_context *c);
/* How many layers of the batch under way are computed; info.n_layers where none is under way. */
QSF_API uint32_t   qsf_batch_layer(const qsf_context *c);
/* Begin, step and wait to the end. */
QSF_API qsf_status qsf_compute(qsf_context *c, const qsf_row *rows, size_t n);
/* The whole way for n tokens of one sequence, in as many batches as it takes; *logits (may be NULL) are
 * the last one's. Where they do not all fit (qsf_seq_room), nothing is computed: QSF_E_FULL.  Another
 * error leaves the sequence with the batches that were done. */
QSF_API qsf_status qsf_feed(qsf_context *c, qsf_seq s, const int32_t *ids, size_t n, const float **logits);
/* float[vocab] of the i-th row of the last finished batch that asked for logits; valid until the next batch.  -INFINITY for
 * tokens that qsf_head_mode left out. */
QSF_API const float *qsf_logits(const qsf_context *c, size_t i);

/* ---- sampling ---------------------------------------------------------------------------------------------------- */

typedef struct qsf_sampler qsf_sampler;

typedef struct qsf_sampler_options {
    size_t   size;
    uint64_t seed;                /* 0: from the platform's clock */
    float    temperature;         /* 0.7; <= 0: the largest logit */
    uint32_t top_k;               /* 40; 0: off */
    float    top_p;               /* 0.9; >= 1: off */
    float    min_p;               /* 0: off */
    float    repeat_penalty;      /* 1: off */
    float    frequency_penalty, presence_penalty;   /* 0: off */
    uint32_t repeat_last_n;       /* 64 */
} qsf_sampler_options;

QSF_API void       qsf_sampler_defaults(qsf_sampler_options *o);
QSF_API qsf_status qsf_sampler_new(const qsf_model *m, const qsf_sampler_options *o, qsf_sampler **out, qsf_error *err);
QSF_API void       qsf_sampler_free(qsf_sampler *s);
/* Picks a token.  Order: penalties, temperature, top-k, top-p, min-p.  logits is only read. */
QSF_API int32_t    qsf_sampler_pick(qsf_sampler *s, const float *logits);
QSF_API void       qsf_sampler_accept(qsf_sampler *s, int32_t token);   /* prompt tokens too, for the penalties */
QSF_API void       qsf_sampler_reset(qsf_sampler *s);

/* ---- drafts ------------------------------------------------------------------------------------------------------ */

/* Guesses what follows ids[0..n): the tokens behind the latest place where the last 2 to 4 stood before, at most cap of them.  0: nothing to go by.
 * Given to one batch behind the last token, each row with logits, guesses cost little where layers stream: a token that is picked from row i's
 * logits and is the guess of row i+1 needs no pass of its own.  Where it is another, qsf_seq_truncate drops the rest.  The tokens are the
 * same as without guesses. */
enum { QSF_DRAFT_MOST = 7 };      /* guesses a pass that are worth it: up to eight rows the kernels read each weight once */
QSF_API size_t qsf_draft_lookup(const int32_t *ids, size_t n, int32_t *out, size_t cap);
/* Makes room in *o for the logits of `most` guesses, if layers will stream and guesses change nothing (with early_exit and kv_heavy they would).  Fewer where too much would have to give way for it: more than half of the batch, any of a
 * context that was asked for, any precision of keys and values.  How many guesses that are a pass; 0: *o stays as it is. */
QSF_API uint32_t qsf_draft_room(const qsf_model *m, qsf_context_options *o, uint32_t most);

/* ---- the short interface ----------------------------------------------------------------------------------------- */

typedef struct QSFConfig QSFConfig;
typedef struct QSFEngine QSFEngine;

QSF_API QSFConfig *qsf_config_default(void);                        /* NULL: out of memory */
QSF_API void qsf_config_set_ram_budget(QSFConfig *, size_t megabytes);
QSF_API void qsf_config_set_threads(QSFConfig *, int num_threads);
QSF_API void qsf_config_set_max_seq_len(QSFConfig *, int max_seq_len);
QSF_API void qsf_config_set_quality(QSFConfig *, float quality);    /* 0.0 - 1.0 */
QSF_API void qsf_config_free(QSFConfig *);

/* NULL on an error: qsf_load_status and qsf_load_error(config) say which.  config may be NULL: defaults. */
QSF_API QSFEngine *qsf_load(const char *model_path, QSFConfig *config);
QSF_API void qsf_free(QSFEngine *);
QSF_API qsf_status  qsf_load_status(const QSFConfig *);
QSF_API const char *qsf_load_error(const QSFConfig *);
/* Of the last call on this engine; QSF_OK and "" where it went well. */
QSF_API qsf_status  qsf_engine_status(const QSFEngine *);
QSF_API const char *qsf_engine_error(const QSFEngine *);
QSF_API qsf_model   *qsf_engine_model(QSFEngine *);
QSF_API qsf_context *qsf_engine_context(QSFEngine *);

typedef void (*QSFTokenCallback)(int token_id, const char *text, void *user_data);

/* Continues prompt by at most max_tokens tokens in a fresh sequence and calls back with each token's text (whole
 * characters; "" while one is incomplete).  temperature <= 0 is greedy. */
QSF_API void qsf_generate(QSFEngine *, const char *prompt, int max_tokens, float temperature, float top_p,
                          QSFTokenCallback callback, void *user_data);
/* Ends a running qsf_generate after the current token; for its callback, a signal handler or another thread. */
QSF_API void qsf_cancel(QSFEngine *);

/* Both results are the caller's, for qsf_result_free(); NULL on an error. */
QSF_API int  *qsf_tokenize(QSFEngine *, const char *text, int *num_tokens);
QSF_API char *qsf_detokenize(QSFEngine *, const int *tokens, int num_tokens);
QSF_API void  qsf_result_free(void *);
/* Logits [vocab] after the last of the tokens, in a fresh sequence; the engine's own, valid until its next call. */
QSF_API float *qsf_forward(QSFEngine *, const int *tokens, int num_tokens);
/* One draw; the engine-less form seeds itself from the logits, so that equal logits give equal tokens. */
QSF_API int   qsf_sample(const float *logits, int vocab_size, float temperature, float top_p);
/* RAM, tokens a second and times by part, to stderr. */
QSF_API void  qsf_print_stats(QSFEngine *);

#ifdef __cplusplus
}
#endif
#endif
