/* The options shared by qsf-run and qsf-serve: template, context, sampling, adapters, drafts.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CLI_COMMON_OPTIONS_H
#define QSF_CLI_COMMON_OPTIONS_H

#include "options.h"

typedef struct common_settings {
    const char *template_name, *template_kwargs, *io, *i2s_layout, *check;
    qsf_context_options context;
    qsf_sampler_options sampler;
    option_list lora, logit_bias, ban, dry_breaker;
    long long   max_tokens;
    long long   draft;              /* -1: the program chooses */
    long long   reasoning_budget;   /* -1: no limit */
} common_settings;

/* Parts of a program's table; base: offset of its common_settings. */
typedef enum common_part { COMMON_TEMPLATE, COMMON_LORA, COMMON_ANSWER, COMMON_SAMPLING,
                           COMMON_MACHINE } common_part;
option_part common_options(common_part part, size_t base);
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
