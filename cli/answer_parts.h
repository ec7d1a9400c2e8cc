/* Which part of an answer is reasoning, text, or a call of a tool, found while it streams.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CLI_ANSWER_PARTS_H
#define QSF_CLI_ANSWER_PARTS_H

#include <stdbool.h>
#include <stddef.h>

typedef enum answer_part {
    ANSWER_REASONING, ANSWER_REASONED,       /* pieces of it; "": it has ended */
    ANSWER_TEXT,
    ANSWER_CALL                              /* one whole call, as the model wrote it between its marks */
} answer_part;
typedef void answer_each(void *user, answer_part part, const char *text, size_t len);

typedef enum parts_state {
    PARTS_START, PARTS_REASONING, PARTS_REASONED, PARTS_TEXT, PARTS_CALL
} parts_state;

typedef struct answer_parts {
    parts_state  state;
    int          form;            /* of the reasoning */
    char         held[64];        /* what may be the beginning of a mark */
    size_t       n_held;
    char        *call;            /* what of a call is there */
    size_t       n_call, cap_call;
    answer_each *each;
    void        *user;
} answer_parts;

/* The mark that a prompt which ends like this has opened the reasoning with ("<think>"); NULL: it
 * has not. */
const char *answer_opened(const char *prompt, size_t len);
/* opened: answer_opened's, or NULL. */
void   answer_parts_begin(answer_parts *p, const char *opened, answer_each *each, void *user);
void   answer_parts_add(answer_parts *p, const char *text, size_t len);
/* Gives what was held back; nothing follows. */
void   answer_parts_end(answer_parts *p);
/* The mark around the reasoning that begins, or ends, it. */
const char *answer_mark(const answer_parts *p, bool end);
/* Where the text of a whole answer begins, behind its reasoning. */
size_t answer_text_at(const char *answer, size_t len);
/* The name of a call, shortened to its place, and its arguments, a slice of the call; false: it
 * has another form. */
typedef struct answer_call { char name[128]; const char *arguments; size_t n_arguments; } answer_call;
bool   answer_call_read(const char *call, size_t len, answer_call *out);

#endif
