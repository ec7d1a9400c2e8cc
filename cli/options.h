/* The option table: one list makes the parser, the help and the environment variables.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CLI_OPTIONS_H
#define QSF_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "qsf.h"

typedef enum option_kind {
    OPTION_GROUP,      /* a heading in the help: text only */
    OPTION_FLAG,       /* bool */
    OPTION_TEXT,       /* const char * */
    OPTION_LIST,       /* option_list: may be given again */
    OPTION_INT,        /* long long, within min .. max */
    OPTION_NUMBER,     /* double, within min .. max */
    OPTION_CHOICE,     /* const char *, one of the words in choices, "a|b|c" */
    /* qsf_context_options, qsf_sampler_options, qsf_turn_options: the option of this long name.
     * Its kind, range, default and help are in the library's list (qsf_context_option ...) */
    OPTION_CONTEXT, OPTION_SAMPLER, OPTION_TURN
} option_kind;

enum { OPTION_LIST_MAX = 64 };
typedef struct option_list { const char *items[OPTION_LIST_MAX]; size_t n; } option_list;

typedef struct option {
    option_kind kind;
    const char *names;       /* "-p --prompt": the long name to show comes last */
    const char *arg;         /* "TEXT" */
    size_t      at;          /* offsetof in the program's struct */
    double      min, max;
    const char *choices;
    const char *help;        /* of the library's: what there is to say besides the list's, or NULL */
    const char *def;         /* as the help shows it, NULL: none */
} option;
#define OPTION_OF(kind, names, at, more) { OPTION_##kind, names, NULL, at, 0, 0, NULL, more, NULL }
#define OPTION_OF_CONTEXT(names, at, more) OPTION_OF(CONTEXT, names, at, more)

/* Rows for one struct; base: its offset in the program's struct. */
typedef struct option_part { const option *rows; size_t n, base; } option_part;
/* A program's own default for a shared option; shown: how the help prints it, NULL: the value. */
typedef struct option_default { const char *name, *value, *shown; } option_default;
typedef struct option_program {
    const option_part    *parts;
    size_t                n_parts;
    const option_default *defaults;
    size_t                n_defaults;
    const char           *prefix;        /* of environment variables: "QSF_" */
    const char           *name;          /* "qsf-serve", for messages */
} option_program;

/* Reads the defaults, environment variables (prefix + the long name in capitals, '-' as '_'), then
 * argv into *into.  Positional arguments go to rest.  Options of llama.cpp's programs are accepted
 * if they have an equivalent or make no difference (options_foreign.h).  On an error prints it to
 * stderr and returns false. */
bool program_parse(const option_program *p, void *into, int argc, char **argv, option_list *rest);
void program_help(const option_program *p, FILE *out);
/* Prints each option as a line "--name", for shell completion. */
void program_names(const option_program *p, FILE *out);
/* The option with this name, and the offset of its struct; NULL: unknown. */
const option *program_option(const option_program *p, const char *name, size_t len, size_t *base);
/* The i-th row of all parts; NULL: past the last. */
const option *program_row(const option_program *p, size_t i, size_t *base);
/* "--prompt" of "-p --prompt". */
const char *option_long(const option *o);

/* The same for a program with one table. */
bool options_parse(const option *table, size_t n, const char *prefix, void *into, int argc, char **argv,
                   option_list *rest);
void options_help(const option *table, size_t n, const char *prefix, FILE *out);
/* The word for a value of a context's option that is a choice: "q8" of "kv-type".
 * Its first len bytes. */
const char *option_word(const char *context_option, int value, size_t *len);
void options_names(const option *table, size_t n, FILE *out);

/* Of --i2s-layout. */
#define I2S_LAYOUTS "auto|qk256|split32|bitnet32|microsoft|microsoft-arm|microsoft-rows4"
#define I2S_HELP                                                                                             \
    "how tensors of type I2_S in a GGUF file are stored: qk256, split32, bitnet32, microsoft (on x86), "     \
    "microsoft-arm, microsoft-rows4, or auto: as their sizes say, and of Microsoft's three the first"

#endif
