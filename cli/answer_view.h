/* How an answer is shown while it streams: reasoning dim, or a line in its place; a line for each
 * call.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CLI_ANSWER_VIEW_H
#define QSF_CLI_ANSWER_VIEW_H

#include "run.h"

typedef struct answer_view {
    bool          plain;          /* standard output is not a terminal: bytes are written unchanged */
    bool          whole;          /* the parts are not told apart */
    bool          marks;          /* reasoning is put between marks, without dim text */
    bool          shows;          /* the reasoning */
    bool          reasons;        /* it is under way */
    bool          waits;          /* "thinking..." is on the screen */
    uint64_t      since_ns, told_s;
    const buffer *reasoning;      /* all of it so far; from..shown of the current part is on the screen */
    size_t        from, shown;
    char          last;           /* character that was printed, 0: none was */
} answer_view;

void answer_view_begin(answer_view *v, const run_session *s);
/* Takes what arrived: the bytes, then their events, with the message so far. */
void answer_view_bytes(answer_view *v, const char *text, size_t len);
void answer_view_event(answer_view *v, const qsf_answer_event *e, const message *said);
/* Brings "thinking... 12 s" up to date. */
void answer_view_tick(answer_view *v);
/* Reasoning that is under way is shown from here on, with what was hidden of it; or is hidden. */
void answer_view_turn(answer_view *v);
/* Nothing follows. */
void answer_view_end(answer_view *v);
/* Prints an answer's reasoning, if it has any. */
bool answer_view_reasoning(const message *said);

#endif
