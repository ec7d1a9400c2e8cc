/* What the files of the Jinja interpreter share: text to tokens (jinja_lex.c), tokens to a program
 * (jinja_parse.h), the program at work (jinja_run.c) on values (jinja_value.c, jinja_print.c) with
 * the built-in functions (jinja_builtin.c, jinja_filter.c, jinja_text.c).
 * SPDX-License-Identifier: MIT */
#ifndef QSF_JINJA_OWN_H
#define QSF_JINJA_OWN_H

#include "text/jinja.h"
#include "text/unicode.h"

typedef qsf_jinja_value jinja_value;

/* A block that only grows, until it is set back.  Behind its size bytes lies a bit for each of
 * them: whether, as part of a text, it is the template's own. */
typedef struct jinja_mem { char *base; size_t used, size; } jinja_mem;
static inline uint8_t *jinja_marks(const jinja_mem *m) { return (uint8_t *)m->base + m->size; }
void *jinja_take(jinja_mem *m, size_t bytes);       /* 16-byte aligned, not zeroed; NULL: no room */

/* ---- tokens ---- */

typedef enum jinja_kind {
    JINJA_END, JINJA_DATA, JINJA_VAR_BEGIN, JINJA_VAR_END, JINJA_TAG_BEGIN, JINJA_TAG_END, JINJA_NAME,
    JINJA_STRING, JINJA_NUMBER, JINJA_REAL, JINJA_SIGN
} jinja_kind;

/* Signs of two characters have a code of their own. */
enum { JINJA_EQ = 128, JINJA_NE, JINJA_LE, JINJA_GE, JINJA_POW, JINJA_FLOOR };

typedef struct jinja_token {
    uint8_t  kind, sign;
    uint32_t at, n;             /* in the source; of a string without its quotes */
} jinja_token;

typedef struct jinja_lexer {
    const char *src;
    uint32_t    len, at;
    uint8_t     state;          /* 'd'ata, 'v'ariable, 't'ag, 'r'aw, and 'V', 'T': that begins now */
    uint8_t     n_open;
    bool        line_start;     /* the last thing ended with a line */
    char        open[QSF_JINJA_DEPTH];
    const char *error;
} jinja_lexer;

void jinja_lex(jinja_lexer *l, jinja_token *out);   /* at an error and at the end: JINJA_END */

/* ---- programs ---- */

typedef enum jinja_op {
    /* output and names */
    JOP_TEXT, JOP_EMIT, JOP_CONST, JOP_LOAD, JOP_STORE, JOP_STORE_SPACE, JOP_UNPACK,
    /* members and calls of a value */
    JOP_ATTR, JOP_ITEM, JOP_SLICE, JOP_CALL, JOP_FILTER, JOP_TEST,
    /* operators, and values made of several others */
    JOP_NOT, JOP_NEG, JOP_POS, JOP_ADD, JOP_SUB, JOP_MUL, JOP_DIV, JOP_FLOOR, JOP_MOD, JOP_POW, JOP_CONCAT,
    JOP_EQ, JOP_NE, JOP_LT, JOP_LE, JOP_GT, JOP_GE, JOP_IN, JOP_NOT_IN, JOP_CHAIN, JOP_LIST,
    JOP_TUPLE, JOP_DICT,
    /* jumps and loops */
    JOP_JUMP, JOP_JUMP_FALSE, JOP_AND, JOP_OR,
    JOP_FOR, JOP_NEXT, JOP_KEEP, JOP_KEPT, JOP_FOR_END, JOP_BREAK,
    /* scopes, captures and macros */
    JOP_SCOPE, JOP_UNSCOPE, JOP_CAPTURE, JOP_CAPTURED, JOP_MACRO, JOP_PARAM, JOP_RETURN, JOP_STOP
} jinja_op;

typedef struct jinja_code {
    uint8_t  op, n;             /* n: positional arguments, or a flag */
    uint16_t x;                 /* keyword arguments, an operator, a symbol */
    uint32_t arg, at;           /* at: in the source */
} jinja_code;

typedef struct jinja_symbol {
    const char *text;
    uint32_t    n;
    uint16_t    next, method;   /* in its hash list; the method of that name */
} jinja_symbol;

typedef struct jinja_macro {
    uint32_t entry;
    uint16_t name, n_params, params[16];
} jinja_macro;

enum { JINJA_HASHES = 64, JINJA_NO_SYMBOL = 0xffff };

struct qsf_jinja {
    jinja_mem     mem;
    size_t        mark;         /* what the program itself takes */
    const char   *src;
    uint32_t      len, n_code, n_consts, n_symbols, n_macros, code_cap, const_cap, symbol_cap, macro_cap;
    jinja_code   *code;
    jinja_value  *consts;
    jinja_symbol *symbols;
    jinja_macro  *macros;
    uint16_t      hashes[JINJA_HASHES], loop;       /* loop: the symbol of this name */
};

/* "line 3, column 7" of a place in the source, for messages. */
void jinja_place(const qsf_jinja *t, uint32_t at, uint32_t *line, uint32_t *column);

/* ---- at work ---- */

/* marks: NULL, or bit `bit + i` is that of byte i. */
typedef struct jinja_sink { char *text; size_t len, cap; uint8_t *marks; size_t bit; } jinja_sink;

typedef struct jinja_bind {
    struct jinja_bind *next;
    uint32_t    symbol;
    jinja_value value;
} jinja_bind;

typedef struct jinja_loop {
    jinja_value items;
    uint32_t    at;             /* of the next one */
} jinja_loop;

typedef struct jinja_scope {
    struct jinja_scope *outer;
    jinja_bind *binds;
    jinja_loop *loop;
} jinja_scope;

typedef struct jinja_space { jinja_value *pairs; uint32_t n, cap; } jinja_space;

typedef struct jinja_closure { const jinja_macro *macro; jinja_scope *scope; } jinja_closure;

typedef struct jinja_run {
    qsf_jinja   *t;
    jinja_mem   *mem;
    jinja_sink   out;
    qsf_status   st;
    qsf_error   *err;
    uint32_t     at, steps, depth;      /* at: of the operation in the source; depth: of values in values */
    int64_t      now;
} jinja_run;

/* The arguments of a call: pos[0..n) by their places, then n_kw pairs of name and value.  used
 * counts those that were asked for. */
typedef struct jinja_args {
    const jinja_value *pos;
    uint32_t n, n_kw, used;
} jinja_args;

/* Keeps the first error, with the place of the operation;
 * false, so that a function can return it. */
bool jinja_fail(jinja_run *r, qsf_status st, const char *fmt, ...) QSF_PRINTF(3, 4);
bool jinja_charge(jinja_run *r, size_t bytes);      /* takes the steps that moving so much costs */
void *jinja_room(jinja_run *r, size_t bytes);       /* as jinja_take; NULL: the error is set */

/* ---- values (jinja_value.c) ---- */

bool jinja_is_space(uint32_t c);                    /* as Python's str.isspace() */
bool jinja_true(const jinja_value *v);
bool jinja_is_number(const jinja_value *v);         /* bool, int, float */
bool jinja_is_list(const jinja_value *v);           /* list, tuple */
bool jinja_undefined(jinja_run *r, const jinja_value *v);   /* fails: v is used and has no value */
/* One step into a value within values; false: too deep. */
bool jinja_deeper(jinja_run *r);
bool jinja_equal(jinja_run *r, const jinja_value *a, const jinja_value *b, bool *out);
bool jinja_less(jinja_run *r, const jinja_value *a, const jinja_value *b, bool *out);
bool jinja_contains(jinja_run *r, const jinja_value *what, const jinja_value *in, bool *out);
bool jinja_text_is(const jinja_value *v, const char *text);
const char *jinja_type_name(const jinja_value *v);
/* A list of what for would go through: characters, keys, items. */
bool jinja_iterate(jinja_run *r, const jinja_value *v, jinja_value *out);
bool jinja_attribute(jinja_run *r, const jinja_value *v, const char *name, size_t n, int method,
                     jinja_value *out);
bool jinja_item(jinja_run *r, const jinja_value *v, const jinja_value *key, jinja_value *out);
bool jinja_slice(jinja_run *r, const jinja_value *v, const jinja_value bounds[3], jinja_value *out);
bool jinja_binary(jinja_run *r, jinja_op op, const jinja_value *a, const jinja_value *b, jinja_value *out);
bool jinja_compare(jinja_run *r, jinja_op op, const jinja_value *a, const jinja_value *b, bool *out);
size_t jinja_length(const jinja_value *v);            /* characters, items, pairs */

/* ---- values as text (jinja_print.c) ---- */

/* What the interpreter writes itself. */
bool jinja_put(jinja_run *r, jinja_sink *s, const char *text, size_t n);
/* Bytes [at, at + n) of a text, with their marks. */
bool jinja_put_part(jinja_run *r, jinja_sink *s, const jinja_value *v, size_t at, size_t n);
bool jinja_put_text(jinja_run *r, jinja_sink *s, const jinja_value *v);     /* the whole of it */
/* Other bytes in place of byte `at` of a text, marked as it is. */
bool jinja_put_for(jinja_run *r, jinja_sink *s, const jinja_value *v, size_t at, const char *text, size_t n);
/* A text or number that is not wholly the template's. */
bool jinja_foreign(const jinja_run *r, const jinja_value *v);
void jinja_mark(uint8_t *marks, size_t at, size_t n, bool own);
void jinja_mark_copy(uint8_t *to, size_t at, const uint8_t *from, size_t from_at, size_t n);
/* Bytes [from, to) of a text. */
static inline jinja_value jinja_part(const jinja_value *v, size_t from, size_t to)
{
    jinja_value part = *v;
    part.as.text += from;
    part.n = (uint32_t)(to - from);
    return part;
}
bool jinja_print(jinja_run *r, jinja_sink *s, const jinja_value *v);        /* as str() */
/* indent -1: on one line */
bool jinja_json(jinja_run *r, jinja_sink *s, const jinja_value *v, int indent, int level);
/* A text that is made at the end of the memory: nothing else may be taken until it is done. */
jinja_sink  jinja_begin_text(jinja_run *r);
jinja_value jinja_end_text(jinja_run *r, const jinja_sink *s);
bool jinja_to_text(jinja_run *r, const jinja_value *v, jinja_value *out);   /* as str() */

/* ---- built-in functions (jinja_builtin.c, jinja_filter.c, jinja_text.c) ---- */

/* Methods; the texts' own come first.  Those from JM_OTHERS on exist in Python and are
 * not known here. */
enum {
    JM_NONE, JM_CAPITALIZE, JM_ENDSWITH, JM_FIND, JM_ISDIGIT, JM_ISSPACE, JM_JOIN, JM_LOWER, JM_LSTRIP,
    JM_PARTITION, JM_REMOVEPREFIX, JM_REMOVESUFFIX,
    JM_REPLACE, JM_RFIND, JM_RSPLIT, JM_RSTRIP, JM_SPLIT, JM_SPLITLINES, JM_STARTSWITH, JM_STRIP, JM_TITLE,
    JM_UPPER, JM_COUNT, JM_INDEX,
    JM_GET, JM_ITEMS, JM_KEYS, JM_VALUES, JM_CYCLE, JM_OTHERS, JM_COPY = JM_OTHERS + 24,
    JM_FROMKEYS, JM_CHANGED
};

int  jinja_filter_id(const char *name, size_t n);   /* -1: there is none */
int  jinja_test_id(const char *name, size_t n);
int  jinja_method_id(const char *name, size_t n);   /* 0: there is none */
int  jinja_function_id(const char *name, size_t n);
bool jinja_has_method(const jinja_value *v, int id);
bool jinja_filter(jinja_run *r, int id, const jinja_value *v, jinja_args *a, jinja_value *out);
bool jinja_test(jinja_run *r, int id, const jinja_value *v, jinja_args *a, bool *out);
bool jinja_method(jinja_run *r, int id, const jinja_value *self, jinja_args *a, jinja_value *out);
bool jinja_function(jinja_run *r, int id, jinja_args *a, jinja_value *out);
/* The part of both that is about texts: methods, and filters that do the same. */
bool jinja_text_method(jinja_run *r, int id, const jinja_value *self, jinja_args *a, jinja_value *out);
bool jinja_text_indent(jinja_run *r, const jinja_value *text, jinja_args *a, jinja_value *out);
bool jinja_text_join(jinja_run *r, const jinja_value *between, const jinja_value *list, bool any_type,
                     jinja_value *out);
bool jinja_strftime(jinja_run *r, const jinja_value *format, jinja_value *out);
/* Argument i, or the one of this name; NULL: not given. */
const jinja_value *jinja_arg(jinja_args *a, uint32_t i, const char *name);
/* The same; where it is not given, fails and returns NULL. */
const jinja_value *jinja_need(jinja_run *r, jinja_args *a, uint32_t i, const char *name);
bool jinja_flag(jinja_args *a, uint32_t i, const char *name);       /* whether it is given and true */
bool jinja_args_done(jinja_run *r, const jinja_args *a, const char *what);
/* The place of a word in a list of words that each end with a blank; -1: it is not there. */
int  jinja_word_id(const char *words, const char *name, size_t n);
bool jinja_pairs(jinja_run *r, const jinja_value *dict, jinja_value *out);  /* a list of its pairs */

#endif
