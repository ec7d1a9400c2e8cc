/* The lists of options of contexts, samplers and turns.  A new option is a member of its struct and
 * a row here; tools/make_options.py reads the rows too, for JavaScript and the documents.
 * SPDX-License-Identifier: MIT */
#include "engine/options.h"

#include "base/pool.h"
#include "base/sized.h"
#include "engine/sampler_stages.h"
#include "text/decimal.h"

typedef enum option_member { OPTION_BOOL, OPTION_U32, OPTION_MB, OPTION_FLOAT, OPTION_ENUM,
                             OPTION_WORD, OPTION_U64, OPTION_I32, OPTION_I64, OPTION_STAGES } option_member;

typedef struct option_row {
    qsf_option    option;
    size_t        at;
    option_member member;
} option_row;

/* Builds that never print the list, such as WebAssembly modules, leave out its help texts. */
#if defined(QSF_NO_HELP)
#  define OPTION_TEXTS(unit, help) "", ""
#else
#  define OPTION_TEXTS(unit, help) unit, help
#endif
#define ROW(name, kind, member, type, least, most, value, choices, unit, help) \
    { { name, kind, least, most, value, choices, OPTION_TEXTS(unit, help) }, \
      offsetof(OPTION_STRUCT, member), type }
#define FLAG(name, member, value, help) \
    ROW(name, QSF_OPTION_FLAG, member, OPTION_BOOL, 0, 1, value, NULL, "", help)
#define WHOLE(name, member, least, most, value, unit, help) \
    ROW(name, QSF_OPTION_WHOLE, member, OPTION_U32, least, most, value, NULL, unit, help)
#define MEGABYTES(name, member, most, value, help) \
    ROW(name, QSF_OPTION_NUMBER, member, OPTION_MB, 0, most, value, NULL, "MB", help)
#define NUMBER(name, member, least, most, value, unit, help) \
    ROW(name, QSF_OPTION_NUMBER, member, OPTION_FLOAT, least, most, value, NULL, unit, help)
#define CHOICE(name, member, most, value, choices, help) \
    ROW(name, QSF_OPTION_CHOICE, member, OPTION_ENUM, 0, most, value, choices, "", help)
#define TEXT(name, member, help) \
    ROW(name, QSF_OPTION_TEXT, member, OPTION_WORD, 0, 0, 0, NULL, "", help)
#define STAGES(name, member, help) \
    ROW(name, QSF_OPTION_TEXT, member, OPTION_STAGES, 0, 0, 0, NULL, "", help)
#define SEED(name, member, most, value, help) \
    ROW(name, QSF_OPTION_WHOLE, member, OPTION_U64, 0, most, value, NULL, "", help)
#define SIGNED(name, member, least, most, value, unit, help) \
    ROW(name, QSF_OPTION_WHOLE, member, OPTION_I32, least, most, value, NULL, unit, help)
#define COUNT(name, member, least, most, value, unit, help) \
    ROW(name, QSF_OPTION_WHOLE, member, OPTION_I64, least, most, value, NULL, unit, help)

enum { POSITIONS_MOST = 1 << 24, SINKS_MOST = 1 << 16, BATCH_MOST = 1 << 16, SEQS_MOST = 4096,
       LAYERS_MOST = 1 << 16, LAST_MOST = 1 << 20, TOP_K_MOST = 1000000000, PENALTY_MOST = 100 };

/* clang-format off */
#define OPTION_STRUCT qsf_context_options
static const option_row context_rows[] = {
    MEGABYTES("ram-budget", ram_budget, 1e7, 0,
        "memory limit; layers that do not fit are streamed from the file; 0 for no limit"),
    WHOLE("ctx-size", n_ctx, 0, POSITIONS_MOST, 0, "positions",
        "context length; 0 for the model's own, at most 4096"),
    WHOLE("batch-size", n_batch, 1, BATCH_MOST, 256, "rows", "prompt tokens computed at once"),
    WHOLE("threads", n_threads, 0, QSF_MAX_THREADS, 0, "", "number of threads; 0 for one per processor"),
    WHOLE("seqs", n_seqs, 1, SEQS_MOST, 4, "sequences", "maximum number of live sequences"),
    WHOLE("logits", n_logits, 0, BATCH_MOST, 0, "rows",
        "maximum rows of a batch that ask for logits; 0 for one per sequence"),
    CHOICE("kv-type", kv_type, QSF_KV_Q4V2, QSF_KV_Q8, "f16|q8|f32|q4|q2|q8v4|q4v2",
        "type of cached keys and values: one for both, or one each (q8v4: 8-bit keys, 4-bit values); "
        "docs/kv-cache.md shows what fewer bits cost"),
    FLAG("f32", f32, 0, "compute with 32-bit floats throughout; slow, for comparison"),
    TEXT("isa", isa,
        "instruction set: scalar, sse42, avx2, avxvnni, avx512, avx512vbmi, avx512bf16, amx, neon, "
        "dotprod, i8mm; else the best available"),
    NUMBER("quality", quality, 0, 1, 1, "",
        "below 1: skip the layers that the file marks as less important"),
    CHOICE("head-topk", head, QSF_HEAD_CLUSTERS, QSF_HEAD_EXACT, "exact|screen|clusters",
        "rows of the output head to compute: exact (all), screen (the best 256 of a 3-bit copy), clusters "
        "(the nearest ones; needs qsf-convert --head-clusters)"),
    FLAG("check-every", check_every, 0, "verify checksums on every read, not only the first"),
    WHOLE("kv-window", kv_window, 0, POSITIONS_MOST, 0, "positions",
        "cache only the first few and the last N positions, so that text may exceed the context; 0 keeps "
        "all"),
    WHOLE("kv-sinks", kv_sinks, 0, SINKS_MOST, 4, "positions",
        "with a window: number of first positions to keep"),
    WHOLE("kv-heavy", kv_heavy, 0, POSITIONS_MOST, 0, "positions",
        "with a window: also keep the N positions outside it that drew the most attention"),
    FLAG("kv-may-drop", kv_may_drop, 0, "if memory is short, use a window before shortening the context"),
    NUMBER("early-exit", early_exit, 0, 1, 0, "",
        "skip to the last two layers once a token's hidden state has settled: cosine of at least F (0.9 to "
        "0.99) over two layers; 0 is off"),
    CHOICE("act-quant", act_quant, QSF_ACT_ROW, QSF_ACT_BLOCK, "block|row",
        "scales of 8-bit activations: one per 64 columns (block), or one per row (row), as BitNet models "
        "were trained"),
    CHOICE("kernel-route", kernel_route, QSF_ROUTE_LUT, QSF_ROUTE_AUTO, "auto|mad|lut",
        "products of 2-bit weights without scales, one row at a time: multiply-add (mad), table lookup "
        "(lut), or the faster one here (auto); results are identical"),
    MEGABYTES("adapter-memory", adapter_bytes, 1e7, 0,
        "with a ram-budget: memory reserved for adapters (LoRA); set by programs that load them first"),
    FLAG("first-stage", first_stage, 0,
        "if a progressive file fits in memory, start to answer with the high bits of its weights; "
        "qsf_refine adds the low bits"),
    WHOLE("device-layers", device_layers, 0, LAYERS_MOST, 0, "layers",
        "this many last layers will move to a GPU: their weights do not stay in memory"),
    CHOICE("gpu-stream", device_stream, QSF_STREAM_ALL, QSF_STREAM_AUTO, "auto|off|prompts|all",
        "weights that do not fit into the GPU's memory pass through it: never (off), for batches of 8 and "
        "more tokens (prompts), for all, or if that is faster by a trial (auto)"),
};
#undef OPTION_STRUCT

#define OPTION_STRUCT qsf_sampler_options
static const option_row sampler_rows[] = {
    SEED("seed", seed, 9007199254740992, 0, "random seed; 0 for a new one each time"),
    NUMBER("temperature", temperature, 0, 1000, 0.7, "",
        "sampling temperature; 0 takes the most likely token"),
    WHOLE("top-k", top_k, 0, TOP_K_MOST, 40, "tokens", "keep the N most likely tokens; 0 for all"),
    NUMBER("top-p", top_p, 0, 1, 0.9, "", "keep the most likely tokens that reach this total probability"),
    NUMBER("min-p", min_p, 0, 1, 0, "",
        "drop tokens below this fraction of the most likely token's probability"),
    NUMBER("repeat-penalty", repeat_penalty, 0.01, PENALTY_MOST, 1, "",
        "make recent tokens less likely; 1 is off"),
    NUMBER("frequency-penalty", frequency_penalty, -PENALTY_MOST, PENALTY_MOST, 0, "",
        "penalty for each recent occurrence of a token"),
    NUMBER("presence-penalty", presence_penalty, -PENALTY_MOST, PENALTY_MOST, 0, "",
        "penalty for a token that occurred recently"),
    WHOLE("repeat-last-n", repeat_last_n, 0, LAST_MOST, 64, "tokens",
        "number of recent tokens that the penalties consider"),
    NUMBER("dry-multiplier", dry_multiplier, 0, PENALTY_MOST, 0, "",
        "penalty for a token that extends a repetition (DRY); 0 is off, 0.8 is usual"),
    NUMBER("dry-base", dry_base, 1, 10, 1.75, "",
        "factor by which the DRY penalty grows with each token of the repetition"),
    WHOLE("dry-allowed-length", dry_allowed_length, 1, LAST_MOST, 2, "tokens",
        "longest repetition without a DRY penalty"),
    WHOLE("dry-last-n", dry_last_n, 0, LAST_MOST, 1024, "tokens",
        "number of recent tokens that DRY searches for repetitions"),
    NUMBER("top-n-sigma", top_n_sigma, 0, 100, 0, "",
        "drop tokens whose logit is more than N standard deviations below the largest; 0 is off"),
    NUMBER("typical-p", typical_p, 0, 1, 1, "",
        "keep the tokens of most typical information that reach this total probability; 1 is off"),
    NUMBER("xtc-probability", xtc_probability, 0, 1, 0, "",
        "probability of dropping the most likely choices in favour of a less likely one (XTC); 0 is off"),
    NUMBER("xtc-threshold", xtc_threshold, 0, 1, 0.1, "",
        "minimum probability of the choices that XTC drops; above 0.5 XTC is off"),
    NUMBER("dynatemp-range", dynatemp_range, 0, 1000, 0, "",
        "vary the temperature by up to F: lower where the model is sure, higher where it is not; 0 is off"),
    NUMBER("dynatemp-exponent", dynatemp_exponent, 0, 100, 1, "",
        "exponent of the entropy in the dynamic temperature"),
    WHOLE("mirostat", mirostat, 0, 2, 0, "",
        "Mirostat version 1 or 2, instead of top-k, top-p, min-p and similar; 0 is off"),
    NUMBER("mirostat-tau", mirostat_tau, 0, 100, 5, "bits", "target surprise of Mirostat"),
    NUMBER("mirostat-eta", mirostat_eta, 0, 1, 0.1, "", "learning rate of Mirostat"),
    STAGES("samplers", samplers,
        "the stages that run, in this order: names (penalties;top_k;temperature) or letters (ekt); others "
        "are off"),
};
#undef OPTION_STRUCT
/* From this row on values are checked; those before may be anything that a float can be. */
enum { SAMPLER_CHECKED = 8 };

#define OPTION_STRUCT qsf_turn_options
static const option_row turn_rows[] = {
    COUNT("max-tokens", max_tokens, -1, 9007199254740992, -1, "tokens",
        "maximum tokens to generate; -1 for no limit"),
    COUNT("min-tokens", min_tokens, 0, 9007199254740992, 0, "tokens",
        "forbid tokens that end the answer before this many tokens"),
    FLAG("ignore-end", ignore_end, 0, "continue past tokens that end an answer"),
    FLAG("special", special, 0, "include the text of control tokens"),
    WHOLE("draft", draft, 0, QSF_DRAFT_MOST, 0, "tokens", "maximum draft tokens per pass"),
    SIGNED("logprobs", logprobs, -1, QSF_LOGPROBS_MOST, -1, "tokens",
        "log probabilities of each token and of the N most likely ones; -1 is off"),
    COUNT("reasoning-budget", reasoning_budget, -1, 9007199254740992, -1, "tokens",
        "maximum tokens of reasoning, after which it is closed; -1 for no limit"),
};
#undef OPTION_STRUCT
/* clang-format on */
#undef OPTION_TEXTS
#undef ROW
#undef FLAG
#undef WHOLE
#undef MEGABYTES
#undef NUMBER
#undef CHOICE
#undef TEXT
#undef STAGES
#undef SEED
#undef SIGNED
#undef COUNT

typedef struct option_table { const option_row *rows; size_t n; } option_table;
static const option_table context_list = { context_rows, QSF_ARRAY_LEN(context_rows) };
static const option_table sampler_list = { sampler_rows, QSF_ARRAY_LEN(sampler_rows) };
static const option_table turn_list = { turn_rows, QSF_ARRAY_LEN(turn_rows) };

/* ---- a member's value as a number, in the option's unit ---- */

static size_t option_bytes(option_member member)
{
    static const uint8_t bytes[] = { sizeof(bool), sizeof(uint32_t), sizeof(uint64_t), sizeof(float),
                                     sizeof(int), sizeof(char *), sizeof(uint64_t), sizeof(int32_t),
                                     sizeof(int64_t), QSF_SAMPLER_ORDER };
    return bytes[member];
}

static double option_get(const option_row *r, const void *o)
{
    const void *at = (const uint8_t *)o + r->at;
    switch (r->member) {
    case OPTION_BOOL:  return *(const bool *)at;
    case OPTION_U32:   return *(const uint32_t *)at;
    case OPTION_MB:    return (double)*(const uint64_t *)at / 1e6;
    case OPTION_FLOAT: return (double)*(const float *)at;
    case OPTION_ENUM:  return *(const int *)at;
    case OPTION_U64:   return (double)*(const uint64_t *)at;
    case OPTION_I32:   return *(const int32_t *)at;
    case OPTION_I64:   return (double)*(const int64_t *)at;
    case OPTION_STAGES:
    case OPTION_WORD:  break;
    }
    return 0;
}

static void option_put(const option_row *r, void *o, double value)
{
    void *at = (uint8_t *)o + r->at;
    switch (r->member) {
    case OPTION_BOOL:  *(bool *)at = value != 0; break;
    case OPTION_U32:   *(uint32_t *)at = (uint32_t)value; break;
    case OPTION_MB:    *(uint64_t *)at = (uint64_t)ceil(value * 1e6); break; /* a little is not 0 */
    case OPTION_FLOAT: *(float *)at = (float)value; break;
    case OPTION_ENUM:  *(int *)at = (int)value; break;
    case OPTION_WORD:  *(const char **)at = NULL; break;
    case OPTION_U64:   *(uint64_t *)at = (uint64_t)value; break;
    case OPTION_I32:   *(int32_t *)at = (int32_t)value; break;
    case OPTION_I64:   *(int64_t *)at = (int64_t)value; break;
    case OPTION_STAGES: memset(at, 0, QSF_SAMPLER_ORDER); break;
    }
}

static void options_default(const option_table *l, void *o)
{
    for (size_t i = 0; i < l->n; i++) option_put(&l->rows[i], o, l->rows[i].option.value);
}

void qsf_context_defaults_of(qsf_context_options *o, size_t size)
{
    qsf_context_options d = { .size = sizeof d };
    options_default(&context_list, &d);
    qsf_sized_defaults(o, size, &d, sizeof d);
}
void qsf_sampler_defaults_of(qsf_sampler_options *o, size_t size)
{
    qsf_sampler_options d = { .size = sizeof d };
    options_default(&sampler_list, &d);
    qsf_sized_defaults(o, size, &d, sizeof d);
}
void qsf_turn_defaults_of(qsf_turn_options *o, size_t size)
{
    qsf_turn_options d = { .size = sizeof d };
    options_default(&turn_list, &d);
    qsf_sized_defaults(o, size, &d, sizeof d);
}

static const qsf_option *option_at(const option_table *l, size_t i)
{
    return i < l->n ? &l->rows[i].option : NULL;
}
const qsf_option *qsf_context_option(size_t i) { return option_at(&context_list, i); }
const qsf_option *qsf_sampler_option(size_t i) { return option_at(&sampler_list, i); }
const qsf_option *qsf_turn_option(size_t i) { return option_at(&turn_list, i); }

/* ---- checks ---- */

static qsf_status option_refuse(const qsf_option *o, const char *value, qsf_error *err)
{
    const char *words = o->kind == QSF_OPTION_FLAG ? "true and false" : o->choices;
    if (words)
        return qsf_fail(err, QSF_E_ARGUMENT, "%s is \"%.80s\"; it must be one of %s", o->name, value, words);
    return qsf_fail(err, QSF_E_ARGUMENT, "%s is %.80s; it must be a %snumber from %g to %.0f", o->name,
                    value, o->kind == QSF_OPTION_WHOLE ? "whole " : "", o->least, o->most);
}

/* Of the members from this row on. */
static qsf_status options_check(const option_table *l, size_t from, const void *o, qsf_error *err)
{
    for (size_t i = from; i < l->n; i++) {
        const qsf_option *option = &l->rows[i].option;
        const double value = option_get(&l->rows[i], o);
        char text[32];
        /* A budget larger than any machine's memory is allowed. */
        if (l->rows[i].member == OPTION_MB || option->kind == QSF_OPTION_TEXT) continue;
        if (value >= option->least && value <= option->most) continue;
        if (option->kind == QSF_OPTION_NUMBER) qsf_format(text, sizeof text, "%g", value);
        else qsf_format(text, sizeof text, "%.0f", value);
        return option_refuse(option, text, err);
    }
    return QSF_OK;
}

qsf_status qsf_context_check(const qsf_context_options *o, qsf_error *err)
{
    const qsf_status st = options_check(&context_list, 0, o, err);
    if (st) return st;
    if (o->kv_heavy && !o->kv_window)
        return qsf_fail(err, QSF_E_ARGUMENT, "kv-heavy keeps positions outside a window: it needs kv-window");
    if (o->early_exit > 0 && o->kv_window)
        return qsf_fail(err, QSF_E_ARGUMENT, "early-exit and kv-window exclude each other");
    return QSF_OK;
}
qsf_status qsf_sampler_check(const qsf_sampler_options *o, qsf_error *err)
{
    const qsf_status st = options_check(&sampler_list, SAMPLER_CHECKED, o, err);
    return st ? st : qsf_sampler_stages_check(o->samplers, err);
}
qsf_status qsf_turn_check(const qsf_turn_options *o, qsf_error *err)
{
    return options_check(&turn_list, 1, o, err);
}

/* ---- by name ---- */

static bool option_digit(char c) { return c >= '0' && c <= '9'; }

/* Decimal digits with a fraction and an exponent; false: anything else. */
static bool option_number(const char *text, double *out)
{
    int exponent = 0;
    bool digits = false, point = false;
    const bool negative = *text == '-';
    const char *const from = text + negative;
    for (text = from; option_digit(*text) || (*text == '.' && !point); text++)
        if (*text == '.') point = true;
        else digits = true;
    const size_t n = (size_t)(text - from);
    if (digits && (*text == 'e' || *text == 'E')) {
        const bool down = *++text == '-';
        text += down || *text == '+';
        if (!option_digit(*text)) return false;
        for (; option_digit(*text); text++) exponent = QSF_MIN(10 * exponent + (*text - '0'), 1000);
        if (down) exponent = -exponent;
    }
    if (!digits || *text) return false;
    const double value = qsf_decimal_read(from, n, exponent);
    *out = negative ? -value : value;
    return value <= DBL_MAX;
}

/* The place of value among choices, "a|b|c"; -1: it is none of them. */
static int option_choice(const char *choices, const char *value)
{
    const size_t len = strlen(value);
    for (int i = 0;; i++) {
        const char *end = choices;
        while (*end && *end != '|') end++;
        if ((size_t)(end - choices) == len && !memcmp(choices, value, len)) return i;
        if (!*end) return -1;
        choices = end + 1;
    }
}

static bool option_value(const qsf_option *o, const char *text, double *out)
{
    if (o->kind == QSF_OPTION_FLAG) {
        const int place = option_choice("false|true|0|1|off|on|no|yes", text);
        *out = place & 1;
        return place >= 0;
    }
    if (o->kind == QSF_OPTION_CHOICE) return (*out = option_choice(o->choices, text)) >= 0;
    if (!option_number(text, out) || !(*out >= o->least && *out <= o->most)) return false;
    return o->kind != QSF_OPTION_WHOLE || *out == floor(*out);
}

static qsf_status options_set(const option_table *l, void *o, size_t size, const char *name,
                              const char *value, qsf_error *err)
{
    for (size_t i = 0; i < l->n; i++) {
        const option_row *r = &l->rows[i];
        double number;
        if (strcmp(r->option.name, name) || size < r->at + option_bytes(r->member)) continue;
        if (r->member == OPTION_WORD) {
            *(const char **)(void *)((uint8_t *)o + r->at) = value;
            return QSF_OK;
        }
        if (r->member == OPTION_STAGES)
            return qsf_sampler_stages(value, (char *)o + r->at, err);
        if (!option_value(&r->option, value, &number)) return option_refuse(&r->option, value, err);
        option_put(r, o, number);
        return QSF_OK;
    }
    return qsf_fail(err, QSF_E_ARGUMENT, "unknown option \"%.80s\"", name);
}

qsf_status qsf_context_set(qsf_context_options *o, const char *name, const char *value, qsf_error *err)
{
    return options_set(&context_list, o, o->size, name, value, err);
}

static size_t option_word_len(const char *word)
{
    size_t n = 0;
    while (word[n] && word[n] != '|') n++;
    return n;
}

/* Returns the length that the text has or would have. */
static size_t option_text(const option_row *r, const void *o, char *out, size_t cap)
{
    const double value = option_get(r, o);
    const char *word = r->option.choices;
    char number[32];
    switch (r->option.kind) {
    case QSF_OPTION_TEXT:
        word = *(const char *const *)(const void *)((const uint8_t *)o + r->at);
        return qsf_format(out, cap, "%s", word ? word : "");
    case QSF_OPTION_FLAG: return qsf_format(out, cap, "%s", value != 0 ? "true" : "false");
    case QSF_OPTION_CHOICE:
        for (int i = 0; i < (int)value && *word; word++) i += *word == '|';
        return qsf_format(out, cap, "%.*s", (int)option_word_len(word), word);
    case QSF_OPTION_WHOLE: return qsf_format(out, cap, "%.0f", value);
    default:
        (void)qsf_decimal_repr(value, number);
        return qsf_format(out, cap, "%s", number);
    }
}

qsf_status qsf_context_get(const qsf_context_options *o, const char *name, char *out, size_t cap,
                           qsf_error *err)
{
    if (cap) *out = 0;
    for (size_t i = 0; i < context_list.n; i++) {
        const option_row *r = &context_list.rows[i];
        if (strcmp(r->option.name, name) || o->size < r->at + option_bytes(r->member)) continue;
        if (option_text(r, o, out, cap) < cap) return QSF_OK;
        if (cap) *out = 0;
        return qsf_fail(err, QSF_E_ARGUMENT, "the value of %s does not fit %zu bytes", name, cap);
    }
    return qsf_fail(err, QSF_E_ARGUMENT, "unknown option \"%.80s\"", name);
}
qsf_status qsf_sampler_set(qsf_sampler_options *o, const char *name, const char *value, qsf_error *err)
{
    return options_set(&sampler_list, o, o->size, name, value, err);
}
qsf_status qsf_turn_set(qsf_turn_options *o, const char *name, const char *value, qsf_error *err)
{
    return options_set(&turn_list, o, o->size, name, value, err);
}
