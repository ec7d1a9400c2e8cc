/* How an answer is shown while it streams: reasoning dim, or a line in its place; a line for each
 * call.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CLI_ANSWER_VIEW_H
#define QSF_CLI_ANSWER_VIEW_H

#include "answer_parts.h"
#include "run.h"

typedef struct answer_view {
    answer_parts parts;
    bool         plain;           /* standard output is no terminal: bytes go out as they are */
    bool         whole;           /* the parts are not told apart */
    bool         marks;           /* reasoning stands between marks, there being no dim letters */
    bool         shows;           /* the reasoning */
    bool         reasons;         /* it is under way */
    bool         gap;             /* an empty row comes before what follows */
    bool         waits;           /* "thinking..." is on the screen */
    uint64_t     since_ns, told_s;
    char        *reasoning;       /* what was given of it, without the blanks before it */
    size_t       len, cap, shown;
    char         last;            /* character that was printed, 0: none was */
} answer_view;

/* opened: the mark that the prompt ends with, or NULL. */
void answer_view_begin(answer_view *v, const run_session *s, const char *opened);
void answer_view_add(answer_view *v, const char *text, size_t len);
/* Brings "thinking... 12 s" up to date. */
void answer_view_tick(answer_view *v);
/* Reasoning that is under way is shown from here on, with what was hidden of it; or is hidden. */
void answer_view_turn(answer_view *v);
/* Nothing follows.  True where the answer has ended within its reasoning. */
bool answer_view_end(answer_view *v);
/* Prints a whole answer's reasoning, if it has any. */
bool answer_view_reasoning(const char *answer, size_t len);

#endif
