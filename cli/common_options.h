/* The options that qsf-run and qsf-serve share: template, context, sampling, adapters, drafts.
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

/* Parts of a program's table; base: where common_settings lies in the program's struct. */
typedef enum common_part { COMMON_TEMPLATE, COMMON_LORA, COMMON_ANSWER, COMMON_SAMPLING,
                           COMMON_MACHINE } common_part;
option_part common_options(common_part part, size_t base);
/* The library's defaults and those of the table; a program's own come after. */
void common_defaults(common_settings *c);

/* Gives a new sampler what --logit-bias, --ban and --dry-sequence-breaker ask for.
 *
 * QSF_E_ARGUMENT   a token that there is not, a text that cannot be banned */
qsf_status common_sampler(const common_settings *c, const qsf_model *m, qsf_sampler *s, qsf_error *err);

/* A template by what --chat-template gives: a name, a file, or Jinja itself.  *out is what
 * qsf_chat_options takes, *owned a file's text, which the caller frees.  vocab_names: the model may
 * have templates with names of its own, so that an unknown name is not an error yet.  An exit code;
 * errors are reported. */
int template_asked(const char *asked, bool vocab_names, const char **out, char **owned);
/* Reports a name that neither the library nor the model has.  The exit code. */
int template_unknown(const char *asked);

#endif
