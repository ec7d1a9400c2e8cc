/* What parsing and printing the option table share.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CLI_OPTIONS_OWN_H
#define QSF_CLI_OPTIONS_OWN_H

#include "options.h"

/* Whether one of the names in "-p --prompt" is text[0..len). */
bool option_named(const option *o, const char *text, size_t len);
/* The library's row of an option of a context, a sampler or a turn; NULL: the program's own. */
const qsf_option *option_of_library(const option *o);
bool option_is_flag(const option *o);
/* The placeholder of its value in the help: "MB", "a|b|c". */
const char *option_arg(const option *o);
/* "the option's help; more (default 7) [QSF_OPTION]"; brief: "the option's help (default 7)". */
enum { OPTION_HELP_MAX = 640 };
void option_help_text(const option_program *p, const option *o, bool brief, char *out, size_t cap);
/* The word at this place in "a|b|c"; its length is *len. */
const char *option_choice_at(const char *choices, int place, size_t *len);
/* The name of its environment variable. */
void option_env_name(const option *o, const char *prefix, char *out, size_t cap);

#endif
