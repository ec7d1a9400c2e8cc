/* The option table: one list makes the parser, the help and the environment variables.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CLI_OPTIONS_H
#define QSF_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "qsf.h"

typedef enum option_kind {
    OPTION_GROUP,      /* a heading in the help; its names are the topic of --help TOPIC */
    OPTION_FLAG,       /* bool */
    OPTION_TEXT,       /* const char * */
    OPTION_LIST,       /* option_list: may be given again */
    OPTION_INT,        /* long long, within min .. max */
    OPTION_NUMBER,     /* double, within min .. max */
    OPTION_CHOICE,     /* const char *, one of the words in choices, "a|b|c" */
    OPTION_HELP,       /* const char *, "" without the topic that may follow */
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
    /* Of the library's options: what to add to the list's text, or NULL.  The short help shows
     * it up to the first semicolon or colon. */
    const char *help;
    const char *def;         /* as the help shows it, NULL: none */
} option;
#define OPTION_HEADING(topic, title) { OPTION_GROUP, topic, NULL, 0, 0, 0, NULL, title, NULL }
#define OPTION_OF(kind, names, at, more) { OPTION_##kind, names, NULL, at, 0, 0, NULL, more, NULL }
#define OPTION_OF_CONTEXT(names, at, more) OPTION_OF(CONTEXT, names, at, more)

/* Rows for one struct; base: its offset in the program's struct. */
typedef struct option_part { const option *rows; size_t n, base; } option_part;
#define OPTION_PART(rows, base) { rows, sizeof rows / sizeof rows[0], base }
/* A program's own default for a shared option; shown: how the help prints it, NULL: the value. */
typedef struct option_default { const char *name, *value, *shown; } option_default;
/* The parts of the help other than the options. */
typedef struct option_page {
    const char *about;           /* what the program does, in a sentence */
    const char *usage;           /* "qsf-run [options] MODEL [PROMPT]" */
    const char *examples;        /* lines */
    const char *brief;           /* options that the short help shows: "--prompt --max-tokens" */
    const char *exit_codes;
    const char *commands;        /* words that may stand first, "list show"; NULL: none */
    const char *programs;        /* the same, each the start of another program: "run" of qsf-run */
} option_page;
typedef struct option_program {
    const option_part    *parts;
    size_t                n_parts;
    const option_default *defaults;
    size_t                n_defaults;
    const char           *prefix;        /* of environment variables: "QSF_" */
    const char           *name;          /* "qsf-serve", for messages */
    const option_page    *page;
} option_program;

/* Reads the defaults, environment variables (prefix + the long name in capitals, '-' as '_'), then
 * argv into *into.  Positional arguments go to rest.  Options of llama.cpp's programs are accepted
 * if they have an equivalent or make no difference (options_foreign.h).  On an error prints it to
 * stderr and returns false. */
bool program_parse(const option_program *p, void *into, int argc, char **argv, option_list *rest);
/* Prints the help: the options used most, with examples (topic ""), all of them ("all"), or one
 * section.  On an unknown topic lists the topics on stderr and returns false. */
bool program_help(const option_program *p, const char *topic, FILE *out);
/* Prints each option as a line "--name", for shell completion. */
void program_names(const option_program *p, FILE *out);
/* Prints the completion script for a shell: "bash", "zsh" or "fish". */
void program_completion(const option_program *p, const char *shell, FILE *out);
/* Prints the manual page, for man. */
void program_manual(const option_program *p, FILE *out);
/* The option with this name, and the offset of its struct; NULL: unknown. */
const option *program_option(const option_program *p, const char *name, size_t len, size_t *base);
/* The i-th row of all parts; NULL: past the last. */
const option *program_row(const option_program *p, size_t i, size_t *base);
/* "--prompt" of "-p --prompt". */
const char *option_long(const option *o);

/* The word for a value of a context's option that is a choice: "q8" of "kv-type".
 * Its first len bytes. */
const char *option_word(const char *context_option, int value, size_t *len);

/* Of --i2s-layout. */
#define I2S_LAYOUTS "auto|qk256|split32|bitnet32|microsoft|microsoft-arm|microsoft-rows4"
#define I2S_HELP                                                                                             \
    "layout of I2_S tensors in a GGUF file: qk256, split32, bitnet32, microsoft (x86), microsoft-arm, "      \
    "microsoft-rows4, or auto (by their sizes; of Microsoft's three the first)"

#endif
