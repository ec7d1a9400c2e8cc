/* Parsing the option table; options_help.c prints it.
 * SPDX-License-Identifier: MIT */
#include "options_foreign.h"
#include "options_own.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool option_named(const option *o, const char *text, size_t len)
{
    if (o->kind == OPTION_GROUP) return false;
    for (const char *p = o->names; *p;) {
        const size_t n = strcspn(p, " ");
        if (n == len && !memcmp(p, text, n)) return true;
        p += n + (p[n] == ' ');
    }
    return false;
}

const char *option_long(const option *o)
{
    const char *space = strrchr(o->names, ' ');
    return space ? space + 1 : o->names;
}

const option *program_row(const option_program *p, size_t i, size_t *base)
{
    for (size_t k = 0; k < p->n_parts; i -= p->parts[k++].n) {
        if (i >= p->parts[k].n) continue;
        *base = p->parts[k].base;
        return &p->parts[k].rows[i];
    }
    return NULL;
}

const option *program_option(const option_program *p, const char *name, size_t len, size_t *base)
{
    const option *o;
    for (size_t i = 0; (o = program_row(p, i, base)); i++)
        if (option_named(o, name, len)) return o;
    return NULL;
}

/* The library's row of an option of a context, a sampler or a turn; NULL: no such option, or
 * another kind of option. */
static const qsf_option *option_listed(option_kind kind, const char *name)
{
    const qsf_option *found = NULL;
    const qsf_option *(*list)(size_t) = kind == OPTION_CONTEXT ? qsf_context_option
        : kind == OPTION_SAMPLER ? qsf_sampler_option : qsf_turn_option;
    if (kind != OPTION_CONTEXT && kind != OPTION_SAMPLER && kind != OPTION_TURN) return NULL;
    for (size_t i = 0; (found = list(i)) && strcmp(found->name, name);) i++;
    return found;
}

const qsf_option *option_of_library(const option *o)
{
    return option_listed(o->kind, option_long(o) + strlen("--"));
}

bool option_is_flag(const option *o)
{
    const qsf_option *listed = option_of_library(o);
    return listed ? listed->kind == QSF_OPTION_FLAG : o->kind == OPTION_FLAG;
}

const char *option_arg(const option *o)
{
    const qsf_option *listed = option_of_library(o);
    if (!listed) return o->arg ? o->arg : o->choices;
    switch (listed->kind) {
    case QSF_OPTION_WHOLE:  return "N";
    case QSF_OPTION_NUMBER: return *listed->unit ? listed->unit : "F";
    case QSF_OPTION_CHOICE: return listed->choices;
    case QSF_OPTION_FLAG:
    case QSF_OPTION_TEXT:   break;
    }
    return "NAME";
}

const char *option_choice_at(const char *choices, int place, size_t *len)
{
    for (; place > 0; place--) choices += strcspn(choices, "|") + 1;
    *len = strcspn(choices, "|");
    return choices;
}

const char *option_word(const char *context_option, int value, size_t *len)
{
    return option_choice_at(option_listed(OPTION_CONTEXT, context_option)->choices, value, len);
}

static bool choice_valid(const char *choices, const char *value)
{
    const size_t len = strlen(value);
    for (const char *p = choices; *p;) {
        const size_t n = strcspn(p, "|");
        if (n == len && !memcmp(p, value, n)) return true;
        p += n + (p[n] == '|');
    }
    return false;
}

static bool refuse_whole(const char *name, double least, double most, const char *value)
{
    fprintf(stderr, "%s takes a whole number from %.0f to %.0f, not \"%s\"\n", name, least, most, value);
    return false;
}

static bool refuse_out_of_range(const char *name, double least, double most, const char *value)
{
    fprintf(stderr, "%s takes a number from %.8g to %.8g, not \"%s\"\n", name, least, most, value);
    return false;
}

static bool refuse_choice(const char *name, const char *choices, const char *value)
{
    fprintf(stderr, "%s must be one of %s, not \"%s\"\n", name, choices, value);
    return false;
}

/* NULL, a flag without a value, is true. */
static bool flag_value(const char *value)
{
    return !value || (strcmp(value, "0") && strcmp(value, "false") && *value);
}

static bool option_set_library(const option *o, void *into, const char *name, const char *value)
{
    const qsf_option *listed = option_of_library(o);
    if (listed->kind == QSF_OPTION_FLAG) value = flag_value(value) ? "true" : "false";
    if (listed->kind == QSF_OPTION_CHOICE) value = foreign_word(listed->name, value);
    qsf_error err = { 0 };
    const qsf_status st = o->kind == OPTION_CONTEXT ? qsf_context_set(into, listed->name, value, &err)
        : o->kind == OPTION_SAMPLER ? qsf_sampler_set(into, listed->name, value, &err)
        : qsf_turn_set(into, listed->name, value, &err);
    if (!st) return true;
    if (listed->kind == QSF_OPTION_TEXT) {
        fprintf(stderr, "%s: %s\n", name, err.text);
        return false;
    }
    if (listed->kind == QSF_OPTION_CHOICE) return refuse_choice(name, listed->choices, value);
    if (listed->kind == QSF_OPTION_NUMBER)
        return refuse_out_of_range(name, listed->least, listed->most, value);
    return refuse_whole(name, listed->least, listed->most, value);
}

/* Sets the option's member of the struct at *into.  name is what errors call the option. */
static bool option_set(const option *o, void *into, const char *name, const char *value)
{
    char *member = (char *)into + o->at, *end;
    errno = 0;
    switch (o->kind) {
    case OPTION_GROUP: return false;
    case OPTION_FLAG: *(bool *)(void *)member = flag_value(value); return true;
    case OPTION_TEXT:
    case OPTION_HELP: *(const char **)(void *)member = value; return true;
    case OPTION_LIST: {
        option_list *l = (option_list *)(void *)member;
        if (l->n == OPTION_LIST_MAX) {
            fprintf(stderr, "%s was given more than %d times\n", name, OPTION_LIST_MAX);
            return false;
        }
        l->items[l->n++] = value;
        return true;
    }
    case OPTION_INT: {
        const long long v = strtoll(value, &end, 10);
        if (end == value || *end || errno || (double)v < o->min || (double)v > o->max)
            return refuse_whole(name, o->min, o->max, value);
        *(long long *)(void *)member = v;
        return true;
    }
    case OPTION_NUMBER: {
        const double v = strtod(value, &end);
        if (end == value || *end || !(v >= o->min && v <= o->max))
            return refuse_out_of_range(name, o->min, o->max, value);
        *(double *)(void *)member = v;
        return true;
    }
    case OPTION_CHOICE:
        value = foreign_word(option_long(o) + strlen("--"), value);
        if (!choice_valid(o->choices, value)) return refuse_choice(name, o->choices, value);
        *(const char **)(void *)member = value;
        return true;
    case OPTION_CONTEXT:
    case OPTION_SAMPLER:
    case OPTION_TURN: return option_set_library(o, member, name, value);
    }
    return false;
}

void option_env_name(const option *o, const char *prefix, char *out, size_t cap)
{
    size_t n = (size_t)snprintf(out, cap, "%s", prefix);
    for (const char *p = option_long(o); *p && n + 1 < cap; p++) {
        if (*p == '-' && n == strlen(prefix)) continue;
        out[n++] = *p == '-' ? '_' : (char)toupper((unsigned char)*p);
    }
    out[n] = 0;
}

static bool program_environment(const option_program *p, void *into)
{
    const option *o;
    size_t base;
    for (size_t i = 0; (o = program_row(p, i, &base)); i++) {
        char name[64];
        if (o->kind == OPTION_GROUP || o->kind == OPTION_HELP) continue;
        option_env_name(o, p->prefix, name, sizeof name);
        const char *value = getenv(name);
        if (value && *value && !option_set(o, (char *)into + base, name, value)) return false;
    }
    return true;
}

static bool program_defaults(const option_program *p, void *into)
{
    for (size_t i = 0; i < p->n_defaults; i++) {
        const option_default *d = &p->defaults[i];
        size_t base;
        const option *o = program_option(p, d->name, strlen(d->name), &base);
        if (!o || !option_set(o, (char *)into + base, d->name, d->value)) return false;
    }
    return true;
}

/* An argument that begins with '-', and its value: "--name=value" or "--name value".  The argument
 * after a name is always its value, so values may be negative numbers. */
static bool parse_option(const option_program *p, void *into, int argc, char **argv, int *i)
{
    const char *word = argv[*i], *next = *i + 1 < argc ? argv[*i + 1] : NULL;
    const char *equals = word[1] == '-' ? strchr(word, '=') : NULL;
    const size_t len = equals ? (size_t)(equals - word) : strlen(word);
    const char *value = equals ? equals + 1 : NULL;
    size_t base;
    const option *o = program_option(p, word, len, &base);
    if (!o) {
        foreign_use use;
        if (!foreign_find(p, word, len, value, next, &use)) return false;
        *i += use.takes_next;
        if (!use.option) return true;
        o = use.option;
        base = use.base;
        value = use.value;
        next = use.takes_next ? NULL : next;
    }
    if (o->kind == OPTION_HELP && !value) {          /* its topic may be left out */
        value = next && *next != '-' ? next : "";
        *i += *value != 0;
    } else if (!option_is_flag(o) && !value) {
        if (!next) {
            fprintf(stderr, "%s needs a value: %s\n", word, option_arg(o));
            return false;
        }
        value = next;
        ++*i;
    }
    return option_set(o, (char *)into + base, word, value);
}

bool program_parse(const option_program *p, void *into, int argc, char **argv, option_list *rest)
{
    bool only_rest = false;
    rest->n = 0;
    if (!program_defaults(p, into) || !program_environment(p, into)) return false;
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        if (!only_rest && !strcmp(word, "--")) {
            only_rest = true;
        } else if (!only_rest && word[0] == '-' && word[1]) {
            if (!parse_option(p, into, argc, argv, &i)) return false;
        } else if (rest->n == OPTION_LIST_MAX) {
            fputs("too many arguments\n", stderr);
            return false;
        } else {
            rest->items[rest->n++] = word;
        }
    }
    return true;
}

void program_names(const option_program *p, FILE *out)
{
    const option *o;
    size_t base;
    for (size_t i = 0; (o = program_row(p, i, &base)); i++)
        if (o->kind != OPTION_GROUP) fprintf(out, "%s\n", o->names);
}
