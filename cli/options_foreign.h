/* Options of other programs (llama.cpp's above all) that users bring along: what they mean here.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CLI_OPTIONS_FOREIGN_H
#define QSF_CLI_OPTIONS_FOREIGN_H

#include "options.h"

/* What becomes of a word that is not an option of the program. */
typedef struct foreign_use {
    const option *option;        /* the program's equivalent; NULL: it makes no difference here */
    size_t        base;
    const char   *value;         /* of the equivalent, NULL: the next word, if it takes one */
    bool          takes_next;    /* the next word was the value, and is used up */
} foreign_use;

/* Looks up word[0..len), which was given as "--name=value" (else value is NULL) or with next behind
 * it (NULL: it was the last word).  What makes no difference is noted on stderr.  false: the
 * program cannot do it, and stderr says why and what to do instead. */
bool foreign_find(const option_program *p, const char *word, size_t len, const char *value, const char *next,
                  foreign_use *out);

/* The word of an option's choice that another program's word stands for: "q8" for "q8_0" of
 * "kv-type".  The word itself if there is none. */
const char *foreign_word(const char *option_name, const char *word);

#endif
