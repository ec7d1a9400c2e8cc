/* Options by name: those of QSF_FLAT_OPTIONS, and those of the library's own lists.
 * SPDX-License-Identifier: MIT */
#include "own.h"

typedef enum option_type { OPTION_FLAG, OPTION_WHOLE, OPTION_TEXT } option_type;

static const struct { uint8_t at, type; } rows[] = {
#define X(name, type, member, whose, help) { offsetof(flat_asked, member), OPTION_##type },
    QSF_FLAT_OPTIONS(X)
#undef X
};
static const char names[] =
#define X(name, type, member, whose, help) name "\0"
    QSF_FLAT_OPTIONS(X)
#undef X
    ;

static bool whole_number(const char *text, int64_t *out)
{
    const bool minus = *text == '-';
    uint64_t n = 0;
    if (minus) text++;
    if (!*text || strlen(text) > 18) return false;
    for (; *text; text++) {
        if (*text < '0' || *text > '9') return false;
        n = n * 10 + (uint64_t)(*text - '0');
    }
    *out = minus ? -(int64_t)n : (int64_t)n;
    return true;
}

/* false: no such value. */
static bool option_read(flat_asked *asked, size_t row, const char *value)
{
    char *to = (char *)asked + rows[row].at;
    int64_t n = !strcmp(value, "true");
    if (rows[row].type == OPTION_TEXT) {
        memcpy(to, &value, sizeof value);
        return true;
    }
    if (rows[row].type == OPTION_WHOLE) {
        const bool valid = whole_number(value, &n);
        if (valid) memcpy(to, &n, sizeof n);
        return valid;
    }
    *(bool *)to = n;
    return n || !strcmp(value, "false");
}

static qsf_status option_fail(flat_object *o, const char *name, const char *what)
{
    const size_t len = strlen(name), more = strlen(what);
    qsf_flat_fail(o, QSF_E_ARGUMENT, name);
    if (len + more < sizeof o->error.text) memcpy(o->error.text + len, what, more + 1);
    return QSF_E_ARGUMENT;
}

qsf_status qsf_flat_options(flat_object *o, const char *list, flat_asked *asked, flat_other other,
                            void *options)
{
    *asked = (flat_asked){ .json_blanks = 32, .choice = -1, .parallel = true };
    qsf_chat_defaults(&asked->chat);
    if (!list) return QSF_OK;
    for (const char *value; *list; list = value + strlen(value) + 1) {
        size_t row = 0;
        const char *name = names;
        value = list + strlen(list) + 1;
        for (; *name && strcmp(name, list); row++) name += strlen(name) + 1;
        if (*name && !option_read(asked, row, value)) return option_fail(o, name, ": invalid value");
        if (*name) continue;
        const qsf_status st = other ? other(options, list, value, &o->error)
                                    : option_fail(o, list, ": unknown option");
        if (st) return st;
    }
    return QSF_OK;
}

/* -1: any number. */
uint32_t qsf_flat_blanks(const flat_asked *asked)
{
    return asked->json_blanks < 0 || asked->json_blanks > UINT32_MAX ? UINT32_MAX
        : (uint32_t)asked->json_blanks;
}
