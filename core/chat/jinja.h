/* An interpreter of Jinja as chat templates use it: compiles a template to a flat program, which
 * writes text from values.
 * SPDX-License-Identifier: MIT
 *
 * It behaves as Python's jinja2 with the settings of transformers: blocks are trimmed (trim_blocks,
 * lstrip_blocks); break, continue, generation, raise_exception, strftime_now and a tojson that
 * keeps characters are available; nothing is escaped, and only namespaces are mutable.  Whatever
 * it does not support is QSF_E_UNSUPPORTED, never a different output.
 *
 * All memory is one block of the caller's, and nothing recurses deeper than QSF_JINJA_DEPTH,
 * because templates are untrusted. */
#ifndef QSF_JINJA_H
#define QSF_JINJA_H

#include "base/base.h"

enum { QSF_JINJA_DEPTH = 48 };      /* nesting of blocks and brackets, of macro calls, of lists */

typedef enum qsf_jinja_type {
    QSF_JINJA_UNDEFINED, QSF_JINJA_NONE, QSF_JINJA_BOOL, QSF_JINJA_INT, QSF_JINJA_FLOAT,
    QSF_JINJA_BIG,          /* a whole number beyond int64_t: its digits */
    QSF_JINJA_TEXT, QSF_JINJA_LIST, QSF_JINJA_TUPLE, QSF_JINJA_RANGE,
    QSF_JINJA_VIEW,         /* what keys(), values() and items() give */
    QSF_JINJA_ITER,         /* a generator */
    QSF_JINJA_DICT, QSF_JINJA_SPACE, QSF_JINJA_CYCLER, QSF_JINJA_LOOP, QSF_JINJA_MACRO, QSF_JINJA_METHOD,
    QSF_JINJA_FUNCTION, QSF_JINJA_JOINER
} qsf_jinja_type;

/* Flags of a value.  A string of the caller's is foreign unless QSF_JINJA_OWN is set; a number is
 * the template's unless QSF_JINJA_FOREIGN is set. */
enum {
    QSF_JINJA_SAFE = 1,     /* a string that went through "safe": jinja2 escapes what is added to it */
    QSF_JINJA_OWN = 2,      /* a string that counts as the template's: a model's token, a date, a role */
    QSF_JINJA_FOREIGN = 4   /* a number from the conversation */
};

typedef struct qsf_jinja_value {
    uint8_t  type;
    uint8_t  flags;         /* QSF_JINJA_SAFE, ... */
    uint16_t id;            /* of a method or function; of a tuple 1: a group of groupby */
    uint32_t n;             /* bytes, items, pairs; of an undefined value: its name's */
    union {
        int64_t i;          /* bool too */
        double  f;
        const char *text;
        const struct qsf_jinja_value *items;        /* pairs: key, value, key, value, ... */
        void   *own;
    } as;
} qsf_jinja_value;

typedef struct qsf_jinja_var { const char *name; qsf_jinja_value value; } qsf_jinja_var;

typedef struct qsf_jinja qsf_jinja;

/* Parses a template.  mem[0..size), aligned to 16 bytes, is all the memory that it uses, also
 * while it renders; *text is copied.  QSF_E_ARGUMENT: not a template; QSF_E_UNSUPPORTED;
 * QSF_E_MEMORY: size is too small.  The message has the line and column. */
qsf_status qsf_jinja_parse(void *mem, size_t size, const char *text, size_t len, qsf_jinja **out,
                           qsf_error *err);

/* Renders the template with these variables to out, terminated; *len: the output's length.
 *
 * now    seconds since 1970 in local time, for strftime_now; 0: the function is not defined
 * steps  the limit of work, about one step for each operation and for each 32 bytes moved
 * own    [(cap + 7) / 8] bit i % 8 of byte i / 8 is set if byte i of the output is the template's
 *        own; NULL: not needed.  Bytes of strings in the variables are not, whatever filters they
 *        went through, nor are the digits of their numbers; what the interpreter writes itself
 *        (True, the brackets of JSON) is.  A control token lies completely in the template's bytes;
 *        between control tokens, the tokenizer sees bytes of both kinds as one string.
 *
 * QSF_E_CANCELLED   the template itself refuses (raise_exception), with its own message
 * QSF_E_ARGUMENT    what jinja2 refuses as well: a wrong type, an attribute of an undefined value,
 *                   ...
 * QSF_E_UNSUPPORTED only this interpreter does not support it
 * QSF_E_MEMORY      mem or out is too small: double both, and begin with qsf_jinja_parse
 * QSF_E_BUDGET      too many steps, or too deep */
qsf_status qsf_jinja_render(qsf_jinja *t, const qsf_jinja_var *vars, size_t n_vars, int64_t now,
                            uint32_t steps, char *out, size_t cap, size_t *len, uint8_t *own, qsf_error *err);

/* The steps that the last rendering took. */
uint32_t qsf_jinja_steps(const qsf_jinja *t);

/* Bytes from at on that are of one kind, up to len. */
size_t qsf_jinja_stretch(const uint8_t *own, size_t at, size_t len);
static inline bool qsf_jinja_is_own(const uint8_t *own, size_t at) { return own[at / 8] >> at % 8 & 1; }

static inline qsf_jinja_value qsf_jinja_bool(bool b)
{
    return (qsf_jinja_value){ .type = QSF_JINJA_BOOL, .as.i = b };
}
static inline qsf_jinja_value qsf_jinja_int(int64_t i)
{
    return (qsf_jinja_value){ .type = QSF_JINJA_INT, .as.i = i };
}
static inline qsf_jinja_value qsf_jinja_text_n(const char *text, size_t n)
{
    return (qsf_jinja_value){ .type = QSF_JINJA_TEXT, .n = (uint32_t)n, .as.text = text };
}
static inline qsf_jinja_value qsf_jinja_text(const char *text)
{
    return qsf_jinja_text_n(text, strlen(text));
}
static inline qsf_jinja_value qsf_jinja_list(const qsf_jinja_value *items, size_t n)
{
    return (qsf_jinja_value){ .type = QSF_JINJA_LIST, .n = (uint32_t)n, .as.items = items };
}
/* n pairs, 2 * n values */
static inline qsf_jinja_value qsf_jinja_dict(const qsf_jinja_value *pairs, size_t n)
{
    return (qsf_jinja_value){ .type = QSF_JINJA_DICT, .n = (uint32_t)n, .as.items = pairs };
}

#endif
