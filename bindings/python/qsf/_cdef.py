"""The C declarations that cffi reads.
SPDX-License-Identifier: MIT

tools/make_python.py makes it from include/qsf.h, include/qsf_convert.h, bindings/qsf_flat.h and qsf_python.h:
change those, not this file.
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
    kv, batch; uint64_t bytes; char name[128]; char left[160]; uint32_t streamed; uint64_t slots;
    char stream[160]; } qsf_device_use;
typedef enum qsf_i2s_layout { QSF_I2S_AUTO = 0, QSF_I2S_QK256, QSF_I2S_SPLIT32, QSF_I2S_BITNET32,
    QSF_I2S_MICROSOFT, QSF_I2S_MICROSOFT_ARM, QSF_I2S_MICROSOFT_ROWS4, QSF_N_I2S_LAYOUTS }
    qsf_i2s_layout;
typedef enum qsf_record_type { QSF_RECORD_PRODUCT = 1, QSF_RECORD_OPERATION = 2, QSF_RECORD_THREAD
    = 3, QSF_RECORD_STEP = 4, QSF_RECORD_BATCH = 5, QSF_RECORD_READ = 6, QSF_RECORD_PREPARE = 7,
    QSF_RECORD_WAIT = 8, QSF_RECORD_SAMPLE = 9 } qsf_record_type;
typedef struct qsf_record { size_t size; qsf_record_type type; const char *name; int32_t layer;
    uint32_t thread; uint64_t begin_ns, ns; uint32_t n_rows; uint64_t bytes; uint64_t at; const
    char *kernel_id; const char *operation; const char *compute_type; const char
    *quantization_type; uint32_t rows, cols; uint32_t blocks_per_row, bytes_per_block; } qsf_record;
typedef void (*qsf_record_fn)(void *user, const qsf_record *record);
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
bool qsf_i2s_layout_find(const char *name, qsf_i2s_layout *out);
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
typedef enum qsf_convert_preset { QSF_CONVERT_2BIT = 0, QSF_CONVERT_2BIT_SYM = 1, QSF_CONVERT_3BIT
    = 2, QSF_CONVERT_4BIT = 3, QSF_CONVERT_TERNARY = 4, QSF_CONVERT_8BIT = 5, QSF_CONVERT_F16 = 6,
    QSF_CONVERT_MIXED = 7, QSF_CONVERT_TERNARY5 = 8, QSF_CONVERT_BY_LOSS = 9 } qsf_convert_preset;
typedef enum qsf_convert_switch { QSF_CONVERT_AUTO = 0, QSF_CONVERT_OFF = 1, QSF_CONVERT_ON = 2 }
    qsf_convert_switch;
typedef enum qsf_convert_compression { QSF_CONVERT_NONE = 0, QSF_CONVERT_LZ4 = 1, QSF_CONVERT_LZ4HC
    = 2, QSF_CONVERT_ZSTD = 3 } qsf_convert_compression;
typedef enum qsf_convert_prefer { QSF_CONVERT_SIZE, QSF_CONVERT_SPEED } qsf_convert_prefer;
typedef struct qsf_convert_rule { const char *pattern; const char *type; uint32_t block; }
    qsf_convert_rule;
typedef struct qsf_convert_adapter { const char *path; float scale; } qsf_convert_adapter;
typedef struct qsf_convert_options { size_t size; const qsf_platform *platform; qsf_convert_preset
    preset; const qsf_convert_rule *rules; size_t n_rules; uint32_t block; qsf_convert_compression
    compression; uint32_t packing; qsf_convert_switch outliers; qsf_convert_switch equalize;
    uint64_t target_bytes; uint64_t ram_bytes; uint32_t n_threads; uint32_t head_clusters; uint32_t
    embd_clusters; const char *calibration; bool keep_weights; const char *report; void *user; void
    (*progress)(void *user, const char *stage, const char *name, uint64_t done, uint64_t total);
    bool (*cancelled)(void *user); qsf_log_fn log; qsf_i2s_layout i2s_layout; qsf_record_fn record;
    void *record_user; const char *calibrate; const char *calibration_file; uint64_t
    calibrate_seed; uint32_t calibrate_seqs; uint32_t calibrate_len; int32_t effort; double
    target_kl; bool progressive; uint32_t tune_steps; bool tune_codes; qsf_convert_prefer prefer;
    qsf_convert_switch share_embedding; const qsf_convert_adapter *adapters; size_t n_adapters; }
    qsf_convert_options;
typedef struct qsf_convert_result qsf_convert_result;
typedef struct qsf_convert_summary { size_t size; const char *arch; uint32_t n_tensors; uint64_t
    n_weights; uint64_t source_bytes; uint64_t tensor_bytes; uint64_t file_bytes; uint64_t ns;
    double relative_error; double cosine; double predicted_kl; double other_kl; uint64_t
    other_bytes; bool shared_embedding; double estimated_kl; } qsf_convert_summary;
typedef struct qsf_convert_tensor { size_t size; const char *name; const char *kind; const char
    *type; uint32_t rows, cols; uint32_t block, packing; uint64_t bytes; double relative_error,
    cosine; uint64_t outliers; uint32_t centroids; bool matrix; bool raised; double output_error;
    double predicted_kl; } qsf_convert_tensor;
const char *qsf_convert_preset_name(qsf_convert_preset p);
bool qsf_convert_preset_find(const char *name, qsf_convert_preset *out);
void qsf_convert_defaults_of(qsf_convert_options *o, size_t size);
qsf_status qsf_convert_run(const char *from, const char *to, const qsf_convert_options *opts,
    qsf_convert_result **out, qsf_error *err);
void qsf_convert_result_free(qsf_convert_result *r);
qsf_status qsf_convert_get_summary(const qsf_convert_result *r, qsf_convert_summary *out);
qsf_status qsf_convert_get_tensor(const qsf_convert_result *r, uint32_t i, qsf_convert_tensor *out);
enum { QSF_PYTHON_BEGINS = 0, QSF_PYTHON_RUNS = 1, QSF_PYTHON_ENDS = 2, QSF_PYTHON_NOTE = 3,
    QSF_PYTHON_ASKS = 4 };
typedef bool (*qsf_python_event)(void *user, int32_t kind, const char *text, uint64_t done,
    uint64_t total, uint32_t part, uint32_t n_parts);
bool qsf_python_is_name(const char *text);
char *qsf_python_find(const char *name, const char *hub, bool offline, uint64_t memory,
    qsf_python_event event, void *user, qsf_error *err);
void qsf_python_free(char *text);
qsf_status qsf_python_cached(void (*fn)(void *user, const char *name, const char *path, uint64_t
    bytes), void *user, qsf_error *err);
bool qsf_python_raised(void *flag);
"""
