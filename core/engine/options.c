/* The list of a context's options.  A new option is a member of qsf_context_options and a row here.
 * SPDX-License-Identifier: MIT */
#include "engine/options.h"

#include "base/pool.h"

#include <stddef.h>

typedef enum option_member { OPTION_BOOL, OPTION_U32, OPTION_U64, OPTION_FLOAT, OPTION_ENUM, OPTION_WORD } option_member;

typedef struct option_row {
    qsf_option    option;
    size_t        at;
    option_member member;
    double        scale; /* the member's value for 1 of the option's unit */
} option_row;

#define AT(member) offsetof(qsf_context_options, member)
#define FLAG(name, member, value, help) { { name, QSF_OPTION_FLAG, 0, 1, value, NULL, "", help }, AT(member), OPTION_BOOL, 1 }
#define WHOLE(name, member, least, most, value, unit, help) \
    { { name, QSF_OPTION_WHOLE, least, most, value, NULL, unit, help }, AT(member), OPTION_U32, 1 }
#define NUMBER(name, member, least, most, value, unit, help) \
    { { name, QSF_OPTION_NUMBER, least, most, value, NULL, unit, help }, AT(member), OPTION_FLOAT, 1 }
#define CHOICE(name, member, most, value, choices, help) \
    { { name, QSF_OPTION_CHOICE, 0, most, value, choices, "", help }, AT(member), OPTION_ENUM, 1 }

enum { POSITIONS_MOST = 1 << 24, SINKS_MOST = 1 << 16, BATCH_MOST = 1 << 16, SEQS_MOST = 4096 };

static const option_row option_rows[] = {
    { { "ram-budget", QSF_OPTION_WHOLE, 0, 1e7, 0, NULL, "MB",
        "memory to stay within; layers stream from the file where they do not fit; 0 for no limit" },
      AT(ram_budget), OPTION_U64, 1e6 },
    WHOLE("ctx-size", n_ctx, 0, POSITIONS_MOST, 0, "positions", "context length, 0 for the model's own up to 4096"),
    WHOLE("batch-size", n_batch, 1, BATCH_MOST, 256, "rows", "prompt tokens computed at once"),
    WHOLE("threads", n_threads, 0, QSF_MAX_THREADS, 0, "", "threads, 0 for one a processor"),
    WHOLE("seqs", n_seqs, 1, SEQS_MOST, 4, "sequences", "most sequences alive at once"),
    WHOLE("logits", n_logits, 0, BATCH_MOST, 0, "rows", "most rows of a batch that ask for logits, 0 for one a sequence"),
    CHOICE("kv-type", kv_type, QSF_KV_Q4V2, QSF_KV_Q8, "f16|q8|f32|q4|q2|q8v4|q4v2",
           "how keys and values are kept: bits of both, or of keys and of values"),
    FLAG("f32", f32, 0, "compute with floats throughout: slow, for comparing"),
    { { "isa", QSF_OPTION_TEXT, 0, 0, 0, NULL, "", "instruction set, by name; else the best there is" }, AT(isa), OPTION_WORD, 1 },
    NUMBER("quality", quality, 0, 1, 1, "", "below 1 leaves out layers that the file calls less important"),
    CHOICE("head-topk", head, QSF_HEAD_CLUSTERS, QSF_HEAD_EXACT, "exact|screen|clusters",
           "which logits are computed: all, or those that can be the largest"),
    FLAG("check-every", check_every, 0, "checksums are compared whenever bytes are read again, not only the first time"),
    WHOLE("kv-window", kv_window, 0, POSITIONS_MOST, 0, "positions",
          "keep keys and values of the last positions and the first few only: the text may go on beyond the context"),
    WHOLE("kv-sinks", kv_sinks, 0, SINKS_MOST, 4, "positions", "with kv-window: how many of the first positions are kept"),
    WHOLE("kv-heavy", kv_heavy, 0, POSITIONS_MOST, 0, "positions",
          "with kv-window: of what leaves the window, keep so many positions that drew the most attention"),
    FLAG("kv-may-drop", kv_may_drop, 0, "where memory is short, a window may be chosen before the context is made shorter"),
    NUMBER("early-exit", early_exit, 0, 1, 0, "",
           "leave out layers from where a token's hidden state has settled: the cosine that says so; 0 for all layers"),
};
#undef AT
#undef FLAG
#undef WHOLE
#undef NUMBER
#undef CHOICE

/* ---- a member's value as a number, in the option's unit ---- */

static double option_get(const option_row *r, const qsf_context_options *o)
{
    const void *at = (const uint8_t *)o + r->at;
    switch (r->member) {
    case OPTION_BOOL:  return *(const bool *)at;
    case OPTION_U32:   return *(const uint32_t *)at;
    case OPTION_U64:   return (double)*(const uint64_t *)at / r->scale;
    case OPTION_FLOAT: return (double)*(const float *)at;
    case OPTION_ENUM:  return *(const int *)at;
    case OPTION_WORD:  break;
    }
    return 0;
}

static void option_put(const option_row *r, qsf_context_options *o, double value)
{
    void *at = (uint8_t *)o + r->at;
    switch (r->member) {
    case OPTION_BOOL:  *(bool *)at = value != 0; break;
    case OPTION_U32:   *(uint32_t *)at = (uint32_t)value; break;
    case OPTION_U64:   *(uint64_t *)at = (uint64_t)(value * r->scale); break;
    case OPTION_FLOAT: *(float *)at = (float)value; break;
    case OPTION_ENUM:  *(int *)at = (int)value; break;
    case OPTION_WORD:  *(const char **)at = NULL; break;
    }
}

void qsf_context_defaults(qsf_context_options *o)
{
    *o = (qsf_context_options){ .size = sizeof *o };
    for (size_t i = 0; i < QSF_ARRAY_LEN(option_rows); i++) option_put(&option_rows[i], o, option_rows[i].option.value);
}

const qsf_option *qsf_context_option(size_t i)
{
    return i < QSF_ARRAY_LEN(option_rows) ? &option_rows[i].option : NULL;
}

/* ---- checks ---- */

static qsf_status option_refuse(const qsf_option *o, const char *value, qsf_error *err)
{
    if (o->kind == QSF_OPTION_FLAG)
        return qsf_fail(err, QSF_E_ARGUMENT, "%s is \"%.80s\"; possible are true and false", o->name, value);
    if (o->kind == QSF_OPTION_CHOICE)
        return qsf_fail(err, QSF_E_ARGUMENT, "%s is \"%.80s\"; possible are %s", o->name, value, o->choices);
    return qsf_fail(err, QSF_E_ARGUMENT, "%s is %.80s; possible is a %snumber from %g to %.0f", o->name, value,
                    o->kind == QSF_OPTION_WHOLE ? "whole " : "", o->least, o->most);
}

qsf_status qsf_context_check(const qsf_context_options *o, qsf_error *err)
{
    for (size_t i = 0; i < QSF_ARRAY_LEN(option_rows); i++) {
        const qsf_option *option = &option_rows[i].option;
        const double value = option_get(&option_rows[i], o);
        char text[32];
        /* More memory than anybody has is no limit. */
        if (option_rows[i].member == OPTION_U64 || option_rows[i].member == OPTION_WORD) continue;
        if (value >= option->least && value <= option->most) continue;
        qsf_format(text, sizeof text, "%g", value);
        return option_refuse(option, text, err);
    }
    if (o->kv_heavy && !o->kv_window)
        return qsf_fail(err, QSF_E_ARGUMENT, "kv-heavy keeps positions beside a window: it needs kv-window");
    if (o->early_exit > 0 && o->kv_window)
        return qsf_fail(err, QSF_E_ARGUMENT, "early-exit and kv-window exclude each other");
    return QSF_OK;
}

/* ---- by name ---- */

/* Decimal digits with a fraction and an exponent; false: anything else. */
static bool option_number(const char *text, double *out)
{
    double value = 0;
    int exponent = 0, shift = 0;
    bool digits = false, negative = *text == '-';
    for (text += negative; *text >= '0' && *text <= '9'; text++, digits = true) value = value * 10 + (*text - '0');
    if (*text == '.')
        for (text++; *text >= '0' && *text <= '9'; text++, digits = true, shift--) value = value * 10 + (*text - '0');
    if (digits && (*text == 'e' || *text == 'E')) {
        const bool down = *++text == '-';
        text += down || *text == '+';
        if (*text < '0' || *text > '9') return false;
        for (; *text >= '0' && *text <= '9'; text++) exponent = QSF_MIN(10 * exponent + (*text - '0'), 1000);
        if (down) exponent = -exponent;
    }
    if (!digits || *text) return false;
    value *= pow(10, exponent + shift);
    *out = negative ? -value : value;
    return *out >= -DBL_MAX && *out <= DBL_MAX;
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

qsf_status qsf_context_set(qsf_context_options *o, const char *name, const char *value, qsf_error *err)
{
    for (size_t i = 0; i < QSF_ARRAY_LEN(option_rows); i++) {
        const option_row *r = &option_rows[i];
        double number;
        if (strcmp(r->option.name, name)) continue;
        if (r->member == OPTION_WORD) {
            *(const char **)(void *)((uint8_t *)o + r->at) = value;
            return QSF_OK;
        }
        if (!option_value(&r->option, value, &number)) return option_refuse(&r->option, value, err);
        option_put(r, o, number);
        return QSF_OK;
    }
    return qsf_fail(err, QSF_E_ARGUMENT, "no option of a context is called \"%.80s\"", name);
}
