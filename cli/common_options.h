/* The options that programs share.  qsf-run and qsf-serve: template, context, sampling, adapters
 * and drafts; all programs: --trace, --record, --version and --help.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CLI_COMMON_OPTIONS_H
#define QSF_CLI_COMMON_OPTIONS_H

#include "options.h"

/* Layers on a GPU: devices.h. */
typedef struct device_settings {
    const char *device;             /* "cpu" or "gpu" */
    long long   gpu_layers;         /* at most; -1: all */
    double      gpu_memory;         /* MB at most; 0: no limit */
} device_settings;
void device_defaults(device_settings *g);

typedef struct common_settings {
    const char *template_name, *template_kwargs, *io, *i2s_layout, *check;
    qsf_context_options context;
    qsf_sampler_options sampler;
    option_list lora, logit_bias, ban, dry_breaker;
    device_settings gpu;
    long long   max_tokens;
    long long   draft;              /* -1: the program chooses */
    bool        draft_mtp;          /* the model's layer for multi-token prediction makes them */
    long long   reasoning_budget;   /* -1: no limit */
} common_settings;

typedef struct trace_settings { const char *trace, *record; } trace_settings;
typedef struct about_settings {
    const char *help;               /* NULL: not asked for; "": the short help; else a topic */
    const char *shell;              /* of --completion; NULL: not asked for */
    bool        version, completion, manual;
} about_settings;
typedef struct program_settings { trace_settings trace; about_settings about; } program_settings;

/* Parts of a program's table.  base: offset of its common_settings; of its device_settings
 * (COMMON_DEVICE); or in the part that ends the table of its program_settings (COMMON_PROGRAM);
 * qsf-mpi, which does not trace, has about_settings (COMMON_ABOUT). */
typedef enum common_part { COMMON_TEMPLATE, COMMON_LORA, COMMON_ANSWER, COMMON_SAMPLING, COMMON_MEMORY,
                           COMMON_SPEED, COMMON_DEVICE, COMMON_PROGRAM, COMMON_ABOUT } common_part;
option_part common_options(common_part part, size_t base);
/* Reads the arguments (program_parse); prints the help, the version or the names, if requested.
 * Returns false if the program ends with *code: after that, and after a wrong argument. */
bool common_parse(const option_program *p, void *into, const about_settings *a, int argc, char **argv,
                  option_list *rest, int *code);
/* The defaults of the library and of the table; set the program's own afterwards. */
void common_defaults(common_settings *c);

/* Applies --logit-bias, --ban and --dry-sequence-breaker to a new sampler.
 *
 * QSF_E_ARGUMENT   an unknown token, or a string that cannot be banned */
qsf_status common_sampler(const common_settings *c, const qsf_model *m, qsf_sampler *s, qsf_error *err);

/* Resolves --chat-template: a name, a file, or Jinja source.  *out goes into qsf_chat_options;
 * *owned is the file's content, which the caller frees.  vocab_names: the model may define
 * templates with names of its own, so an unknown name is not an error yet.  Returns an exit code;
 * reports errors. */
int template_asked(const char *asked, bool vocab_names, const char **out, char **owned);
/* Reports a template name that neither the library nor the model knows.  Returns the exit code. */
int template_unknown(const char *asked);

#endif
