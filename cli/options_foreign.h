/* Options of other programs, above all llama.cpp, and what they mean here.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CLI_OPTIONS_FOREIGN_H
#define QSF_CLI_OPTIONS_FOREIGN_H

#include "options.h"

/* How to handle an option that the program itself does not have. */
typedef struct foreign_use {
    const option *option;        /* the program's equivalent; NULL: it makes no difference here */
    size_t        base;
    const char   *value;         /* of the equivalent; NULL: the next argument, if it takes one */
    bool          takes_next;    /* the next argument was the value and is consumed */
} foreign_use;

/* Looks up word[0..len).  value: from "--name=value", else NULL; next: the argument after it (NULL:
 * none).  An option without an effect here prints a note to stderr.  false: not supported; the
 * reason and an alternative are printed to stderr. */
bool foreign_find(const option_program *p, const char *word, size_t len, const char *value, const char *next,
                  foreign_use *out);

/* Translates another program's word for a choice: "q8" to "q8_0" for "kv-type".  Returns other
 * words unchanged. */
const char *foreign_word(const char *option_name, const char *word);

#endif
