"""The C declarations that cffi reads.
SPDX-License-Identifier: MIT

tools/make_python.py makes it from include/qsf.h and bindings/qsf_flat.h: change those, not this file.
"""
CDEF = """
typedef int qsf_status;
typedef struct qsf_error { qsf_status status; char text[400]; } qsf_error;
typedef enum qsf_log_level { QSF_LOG_ERROR, QSF_LOG_WARN, QSF_LOG_INFO, QSF_LOG_DEBUG }
    qsf_log_level;
typedef void (*qsf_log_fn)(void *user, qsf_log_level level, const char *line);
typedef qsf_status (*qsf_write_fn)(void *user, const void *bytes, size_t len);
typedef struct qsf_model qsf_model;
typedef struct qsf_context qsf_context;
typedef enum qsf_option_kind { QSF_OPTION_FLAG, QSF_OPTION_WHOLE, QSF_OPTION_NUMBER,
    QSF_OPTION_CHOICE, QSF_OPTION_TEXT } qsf_option_kind;
typedef struct qsf_option { const char *name; qsf_option_kind kind; double least, most, value;
    const char *choices; const char *unit; const char *help; } qsf_option;
typedef int32_t qsf_seq;
typedef struct qsf_row { qsf_seq seq; int32_t token; bool logits; } qsf_row;
typedef struct qsf_devices qsf_devices;
typedef struct qsf_platform qsf_platform;
typedef struct qsf_device_use { size_t size; uint32_t first, n_layers; bool head; uint64_t weights,
    kv, batch; uint64_t bytes; char name[128]; char left[160]; } qsf_device_use;
const char *qsf_version(void);
const qsf_option *qsf_context_option(size_t i);
const qsf_option *qsf_sampler_option(size_t i);
const qsf_option *qsf_turn_option(size_t i);
qsf_status qsf_seq_truncate(qsf_context *c, qsf_seq s, uint32_t n);
qsf_status qsf_batch_begin(qsf_context *c, const qsf_row *rows, size_t n);
uint32_t qsf_batch_layer(const qsf_context *c);
qsf_status qsf_step(qsf_context *c, bool *waiting);
qsf_status qsf_wait(qsf_context *c);
const float *qsf_logits(const qsf_context *c, size_t i);
const char *qsf_last_error(const qsf_context *c);
qsf_status qsf_devices_open(const qsf_platform *platform, const char *library, qsf_devices **out,
    qsf_error *err);
void qsf_devices_close(qsf_devices *d);
qsf_status qsf_context_use_device(qsf_context *c, qsf_devices *d, uint32_t i, uint32_t n_layers,
    uint64_t memory);
qsf_status qsf_context_device(const qsf_context *c, qsf_device_use *out);
void qsf_flat_free(uint32_t handle);
int32_t qsf_flat_status(uint32_t handle);
int32_t qsf_flat_find(const char *name, int32_t texts);
double qsf_flat_number(uint32_t handle, int32_t number, uint32_t i);
int32_t qsf_flat_text(uint32_t handle, int32_t text, uint32_t i, char *dst, size_t cap);
uint32_t qsf_flat_model_new(qsf_log_fn log, void *user);
int32_t qsf_flat_file(uint32_t handle, uint64_t length, qsf_status (*read)(void *user, uint64_t at,
    void *dst, size_t len), void *user);
int32_t qsf_flat_model_open(uint32_t model, const char *path, const char *options);
qsf_model *qsf_flat_model(uint32_t handle);
int32_t qsf_flat_tokens(uint32_t model, const char *text, size_t len, int32_t flags, int32_t *dst,
    size_t cap);
int32_t qsf_flat_token_text(uint32_t model, int32_t id, int32_t special, char *dst, size_t cap);
int32_t qsf_flat_chat_text(uint32_t model, const char *messages, size_t len, const char *options,
    char *dst, size_t cap);
int32_t qsf_flat_pair_tokens(uint32_t model, const char *query, size_t query_len, const char
    *document, size_t len, int32_t *dst, size_t cap);
uint32_t qsf_flat_adapter_new(uint32_t model);
int32_t qsf_flat_adapter_open(uint32_t adapter, const char *path);
uint32_t qsf_flat_context_new(uint32_t model);
int32_t qsf_flat_context_plan(uint32_t context, const char *options);
int32_t qsf_flat_context_open(uint32_t context, const char *options);
qsf_context *qsf_flat_context(uint32_t handle);
int32_t qsf_flat_refine(uint32_t context);
int32_t qsf_flat_wait(uint32_t context);
uint32_t qsf_flat_conversation_new(uint32_t context, const char *options);
int32_t qsf_flat_conversation_seat(uint32_t conversation);
int32_t qsf_flat_conversation_leave(uint32_t conversation);
int32_t qsf_flat_conversation_sequence(uint32_t conversation);
uint32_t qsf_flat_oldest(uint32_t context, uint32_t but);
int32_t qsf_flat_conversation_chat(uint32_t conversation, const char *options);
int32_t qsf_flat_conversation_split(uint32_t conversation, const char *options, int32_t kind, const
    char *shape, size_t len);
int32_t qsf_flat_conversation_json(uint32_t conversation, const char *messages, size_t len);
int32_t qsf_flat_conversation_text(uint32_t conversation, const char *text, size_t len);
int32_t qsf_flat_conversation_ids(uint32_t conversation, const int32_t *ids, size_t n);
int32_t qsf_flat_conversation_prompt(uint32_t conversation, int32_t *dst, size_t cap);
int32_t qsf_flat_conversation_tokens(uint32_t conversation, int32_t *dst, size_t cap);
int32_t qsf_flat_conversation_adapt(uint32_t conversation, const uint32_t *adapters, const float
    *scales, size_t n);
int32_t qsf_flat_session_save(uint32_t conversation, qsf_write_fn write, void *user);
int32_t qsf_flat_session_load(uint32_t conversation, uint64_t length, qsf_status (*read)(void
    *user, uint64_t at, void *dst, size_t len), void *user);
uint32_t qsf_flat_answer_new(uint32_t conversation, const char *options);
int32_t qsf_flat_answer_bias(uint32_t answer, int32_t token, double bias);
int32_t qsf_flat_answer_ban(uint32_t answer, const char *text, size_t len);
int32_t qsf_flat_answer_breaker(uint32_t answer, const char *text, size_t len);
int32_t qsf_flat_answer_stop(uint32_t answer, const char *text, size_t len);
int32_t qsf_flat_answer_grammar(uint32_t answer, const char *options, int32_t kind, const char
    *text, size_t len);
int32_t qsf_flat_answer_begin(uint32_t answer);
int32_t qsf_flat_answer_next(uint32_t answer);
int32_t qsf_flat_answer_step(uint32_t answer);
int32_t qsf_flat_step(uint32_t context, const uint32_t *answers, size_t n);
int32_t qsf_flat_answer_event(uint32_t answer);
int32_t qsf_flat_answer_logprobs(uint32_t answer, int32_t *tokens, float *logprobs, size_t cap);
void qsf_flat_cancel(uint32_t handle);
uint32_t qsf_flat_embedding_new(uint32_t parent, const char *options);
int32_t qsf_flat_embedding_begin(uint32_t embedding, const int32_t *ids, const size_t *lens, size_t
    n);
int32_t qsf_flat_embedding_step(uint32_t embedding);
int32_t qsf_flat_embedding_values(uint32_t embedding, float *dst, size_t cap);
"""
