/* The texts that both engines read.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_PARITY_PROMPTS_H
#define QSF_PARITY_PROMPTS_H

#include "sha256.h"
#include "qsf.h"

enum { PROMPTS_MOST = 1024, PROMPT_TOKENS = 1 << 20 };

typedef struct prompt {
    char    *text;              /* NULL: only ids are known */
    size_t   len;
    int32_t *ids;               /* NULL: not yet */
    size_t   n;
    int32_t *tokens;            /* generated after it, or to be compared after it */
    size_t   n_tokens;
} prompt;

typedef struct prompt_list {
    prompt *items;
    size_t  n;
    bool    standard;           /* the texts of this program, which a receipt may show */
} prompt_list;

/* Adds one; text or ids may be NULL, and are copied. */
qsf_status prompts_add(prompt_list *l, const char *text, size_t len, const int32_t *ids, size_t n,
                       qsf_error *err);
/* The texts that are taken where none is given. */
qsf_status prompts_standard(prompt_list *l, qsf_error *err);
/* A prompt a line, \n \t \r and \\ standing for a line feed, a tab, a carriage return and a
 * backslash. */
qsf_status prompts_lines(prompt_list *l, const char *text, size_t len, qsf_error *err);
/* "1, 2, 3" or "[1, 2, 3]"; what: the option, for messages. */
qsf_status prompts_ids(prompt_list *l, const char *text, const char *what, qsf_error *err);
void       prompts_free(prompt_list *l);
/* The sum of ids, each as four bytes, lowest first. */
void       prompt_sum(const int32_t *ids, size_t n, char out[SHA256_HEX]);

#endif
