/* What the readers of answers share: the state of an answer, and operations on it.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_TEXT_TOOLS_OWN_H
#define QSF_TEXT_TOOLS_OWN_H

#include "chat/tools.h"

enum {                          /* what is read next */
    TA_TEXT, TA_REASONING,
    TA_OPEN, TA_NAME, TA_ID, TA_ARGUMENTS, TA_VALUE,
    TA_TAG, TA_TAG_KEY, TA_TAG_TYPE, TA_TAG_VALUE, TA_TAG_END,
    TA_OBJECT, TA_OBJECT_KEY, TA_OBJECT_COLON, TA_OBJECT_VALUE,
    TA_CLOSE, TA_BEHIND, TA_HEADER
};
enum { TA_NAME_MOST = 128, TA_KEY_MOST = 512, TA_HEADER_MOST = 512, TA_ID_BYTES = 9 };

typedef struct ta_control { size_t at, len; } ta_control;     /* in bytes of the answer */
typedef struct ta_record { uint8_t type; uint32_t call, id_len; size_t at, len; } ta_record;

struct qsf_tool_answer {
    const qsf_platform *platform;
    qsf_tool_form   f;
    bool            weak;           /* too little of a mark to believe it without a known name */
    qsf_json        tools;
    uint64_t        seed;

    qsf_text        src, log, records, json, controls;      /* controls: ta_control */
    qsf_utf8_tail   tail;
    size_t          at, scan, mark, prompt;     /* prompt: bytes of src that the model did not write */
    size_t          gone;           /* bytes of the answer before src, modulo 2^n */
    size_t          next;           /* record */
    uint8_t         mode;
    bool            last;
    bool            has_text;       /* a character other than blanks since the last mark */
    bool            drop_blanks;    /* only blanks so far, and these are the form's */
    bool            said;           /* the answer has some text */
    bool            held;           /* reasoning is held back from a call's mark on */
    bool            thinking;       /* what turns out not to be a call is reasoning */

    bool            doubtful;       /* the call lacks a mark: its name has to be a tool's */
    bool            cut;            /* the answer ended before the last thing that was looked for */
    bool            bare;           /* the call is an object without marks, as the plain form has it */
    bool            fenced, listed; /* the call is in a code block; in a list */
    uint32_t        n_calls;
    bool            called;         /* the CALL event was emitted */
    bool            has_arguments;    /* some arguments were emitted */
    bool            has_span, wrapped;
    bool            shown;          /* the current value is emitted while it arrives */
    bool            line;           /* a line end here is the form's */
    bool            begun, cdata;   /* the value in tags has begun; it is in a CDATA section */
    bool            closed;         /* an end mark was seen, but nothing that may follow it */
    uint8_t         types;          /* types of the current value, as bits (QSF_TOOL_NULL, ...) */
    qsf_text        name, id, key;
    const qsf_json_node *tool;      /* the call's; NULL: not known */
    size_t          begin;          /* of the value under way */
    size_t          span, span_end; /* arguments that came before the name */
    qsf_tool_value  v;
};

static inline const char *ta_form(const qsf_tool_answer *a, qsf_tool_text which)
{
    return qsf_tool_core(a->f.text[which]);
}

/* ---- events (tools_events.c) ---- */

void qsf_ta_record_add(qsf_tool_answer *a, uint8_t type, size_t at, size_t len);
void qsf_ta_emit(qsf_tool_answer *a, uint8_t type, const char *p, size_t n);
/* Emits src[from..to) without control tokens. */
void qsf_ta_show(qsf_tool_answer *a, uint8_t type, size_t from, size_t to);
/* The control token that begins at src[i]; NULL: none begins there. */
ta_control *qsf_ta_control_at(const qsf_tool_answer *a, size_t i);
/* Removes a control token at src[i]; false: none begins there. */
bool qsf_ta_drop_control(qsf_tool_answer *a, size_t i);
/* src[from..to) is text. */
void qsf_ta_text(qsf_tool_answer *a, size_t from, size_t to);

/* ---- calls (tools_events.c) ---- */

void qsf_ta_set(qsf_text *t, const char *p, size_t n);
const qsf_json_node *qsf_ta_tool(const qsf_tool_answer *a);    /* of the name; NULL: not known */
/* Forgets the last call: another may begin at src[mark]. */
void qsf_ta_call_reset(qsf_tool_answer *a, size_t mark);
/* A call begins to be read: src[at..at + len) is its mark. */
void qsf_ta_begin_call(qsf_tool_answer *a, size_t at, size_t len, uint8_t mode);
/* The name is known and arguments come; false: it cannot be a call. */
bool qsf_ta_call(qsf_tool_answer *a);
void qsf_ta_call_end(qsf_tool_answer *a, uint8_t mode);
/* What began at src[mark] is not a call but text, up to the current position. */
void qsf_ta_no_call(qsf_tool_answer *a);

/* Whether a call lacks enough of its marks that its name must be a known tool's. */
static inline bool ta_unsure(const qsf_tool_answer *a)
{
    return a->weak || a->doubtful || a->bare || a->thinking;
}

/* ---- reading (tools_events.c) ---- */

/* Looks for one of the form's texts at src[at], after blanks.  1: found and consumed; 0: absent;
 * -1: wait. */
int  qsf_ta_see(qsf_tool_answer *a, qsf_tool_text which);
const char *qsf_ta_half(const qsf_tool_answer *a); /* the second line of OPEN, if it has two lines; or "" */
char qsf_ta_peek(qsf_tool_answer *a);   /* the next byte that is not a blank; 0: none so far */

/* One step of a mode; false: it waits.  Text, reasoning and headers are read in tools_prose.c, a
 * call's head and end in tools_call.c, its arguments in tools_arguments.c. */
uint8_t qsf_ta_first_mode(const qsf_tool_answer *a);
bool qsf_ta_read_text(qsf_tool_answer *a);
bool qsf_ta_read_reasoning(qsf_tool_answer *a);
bool qsf_ta_read_header(qsf_tool_answer *a);
bool qsf_ta_read_open(qsf_tool_answer *a);
bool qsf_ta_read_name(qsf_tool_answer *a);
bool qsf_ta_read_id(qsf_tool_answer *a);
bool qsf_ta_read_arguments(qsf_tool_answer *a);
bool qsf_ta_read_close(qsf_tool_answer *a);
bool qsf_ta_read_behind(qsf_tool_answer *a);
bool qsf_ta_read_value(qsf_tool_answer *a);
bool qsf_ta_read_tag(qsf_tool_answer *a);
bool qsf_ta_read_tag_key(qsf_tool_answer *a);
bool qsf_ta_read_tag_type(qsf_tool_answer *a);
bool qsf_ta_read_tag_value(qsf_tool_answer *a);
bool qsf_ta_read_tag_end(qsf_tool_answer *a);
bool qsf_ta_read_object(qsf_tool_answer *a);
bool qsf_ta_read_object_key(qsf_tool_answer *a);
bool qsf_ta_read_object_colon(qsf_tool_answer *a);
bool qsf_ta_read_object_value(qsf_tool_answer *a);

#endif
