/* What the files of the Jinja interpreter share: text to tokens (jinja_lex.c), tokens to a program
 * (jinja_parse.h), the program at work (jinja_run.c) on values (jinja_value.c, jinja_reach.c,
 * jinja_print.c) with the built-in functions (jinja_builtin.c and what it calls).
 * SPDX-License-Identifier: MIT */
#ifndef QSF_JINJA_OWN_H
#define QSF_JINJA_OWN_H

#include "chat/jinja.h"
#include "text/unicode.h"

typedef qsf_jinja_value jinja_value;

/* A block that only grows, until it is reset.  After its `size` bytes there is a bit for each of
 * them: whether, as part of a string, it is the template's own. */
typedef struct jinja_mem { char *base; size_t used, size; } jinja_mem;
static inline uint8_t *jinja_marks(const jinja_mem *m) { return (uint8_t *)m->base + m->size; }
void *qsf_jinja_take(jinja_mem *m, size_t bytes);   /* 16-byte aligned, not zeroed; NULL: no room */

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

void qsf_jinja_lex(jinja_lexer *l, jinja_token *out); /* at an error and at the end: JINJA_END */

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
    JOP_FOR, JOP_NEXT, JOP_KEEP, JOP_KEPT, JOP_FOR_END, JOP_LOOP_END, JOP_BREAK,
    /* scopes, captures and macros */
    JOP_SCOPE, JOP_UNSCOPE, JOP_CAPTURE, JOP_CAPTURED, JOP_MACRO, JOP_PARAM, JOP_RETURN, JOP_UNKNOWN, JOP_STOP
} jinja_op;

typedef struct jinja_code {
    uint8_t  op, n;             /* n: positional arguments, or a flag */
    uint16_t x;                 /* keyword arguments (with JINJA_STAR, ...), a symbol */
    uint32_t arg, at;           /* at: in the source */
} jinja_code;

/* A list of further arguments is after the named ones of a call, or before them; a dict is after
 * all of these; last comes the block of a call block, the argument "caller". */
enum {
    JINJA_KEYWORDS = 0xff, JINJA_STAR = 0x100, JINJA_STAR_FIRST = 0x200, JINJA_STARS = 0x400,
    JINJA_BLOCK = 0x800
};

typedef struct jinja_symbol {
    const char *text;
    uint32_t    n;
    uint16_t    next;           /* in its hash list */
    uint8_t     method, function;       /* of that name */
} jinja_symbol;

typedef struct jinja_macro {
    uint32_t entry;
    uint16_t name, n_params, params[16];        /* name: JINJA_NO_SYMBOL in a call block */
    uint8_t  takes;             /* JINJA_CALLER, ... */
} jinja_macro;

/* Names that a macro's body uses, and so takes. */
enum { JINJA_CALLER = 1, JINJA_KWARGS = 2, JINJA_VARARGS = 4 };

enum { JINJA_HASHES = 512, JINJA_NO_SYMBOL = 0xffff };

struct qsf_jinja {
    jinja_mem     mem;
    size_t        mark;         /* what the program itself takes */
    const char   *src;
    uint32_t      len, n_code, n_consts, n_symbols, n_macros, code_cap, const_cap, symbol_cap, macro_cap;
    jinja_code   *code;
    jinja_value  *consts;
    jinja_symbol *symbols;
    jinja_macro  *macros;
    uint32_t      steps;        /* that the last rendering took */
    uint16_t      hashes[JINJA_HASHES], loop, special[3];   /* symbols: loop; caller, kwargs, varargs */
};

/* "line 3, column 7" of a place in the source, for messages. */
void qsf_jinja_place(const qsf_jinja *t, uint32_t at, uint32_t *line, uint32_t *column);

/* ---- at work ---- */

/* marks: NULL, or bit `bit + i` is that of byte i. */
typedef struct jinja_sink { char *text; size_t len, cap; uint8_t *marks; size_t bit; } jinja_sink;

typedef struct jinja_bind {
    struct jinja_bind *next;
    uint32_t    symbol;
    jinja_value value;
} jinja_bind;

typedef struct jinja_loop {     /* also a generator, a cycler, a joiner */
    jinja_value items, changed;
    uint32_t    at, depth;      /* at: of the next one; depth: loops that called this one */
    uint32_t    entry;          /* of a recursive one: where its items are taken from the stack */
    struct jinja_scope *scope;  /* around it */
    qsf_status  st;             /* of a generator whose items could not be made: the error, for the */
    qsf_error   error;          /* code that asks for them */
} jinja_loop;

typedef struct jinja_scope {
    struct jinja_scope *outer, *before;         /* before: where it goes back to */
    jinja_bind *binds;
    jinja_loop *loop;
} jinja_scope;

typedef struct jinja_space { jinja_value *pairs; uint32_t n, cap; } jinja_space;

typedef struct jinja_closure { const jinja_macro *macro; jinja_scope *scope; } jinja_closure;

/* A string or list that was joined: what is joined to it next goes to the room after it. */
typedef struct jinja_grown { uintptr_t end; size_t room; } jinja_grown;

typedef struct jinja_run {
    qsf_jinja   *t;
    jinja_mem   *mem;
    jinja_sink   out;
    qsf_status   st;
    qsf_error   *err;
    uint32_t     at, steps, depth;      /* at: of the operation in the source; depth: of values in values */
    int64_t      now;
    jinja_grown  grown[4];              /* the last ones */
    uint32_t     n_grown;
} jinja_run;

/* The arguments of a call: pos[0..n) by their places, then n_kw pairs of name and value. */
typedef struct jinja_args {
    const jinja_value *pos;
    uint32_t n, n_kw;
} jinja_args;

/* Keeps the first error, with the place of the operation;
 * false, so that a function can return it. */
bool qsf_jinja_fail(jinja_run *r, qsf_status st, const char *fmt, ...) QSF_PRINTF(3, 4);
bool qsf_jinja_refuse(jinja_run *r, const char *why);   /* QSF_E_ARGUMENT */
bool qsf_jinja_unknown(jinja_run *r, const char *what); /* QSF_E_UNSUPPORTED */
bool qsf_jinja_charge(jinja_run *r, size_t bytes);  /* takes the steps for moving these bytes */
bool qsf_jinja_charge_float(jinja_run *r);          /* of writing one */
bool qsf_jinja_charge_each(jinja_run *r, size_t n); /* for visiting n bytes one by one */
void *qsf_jinja_room(jinja_run *r, size_t bytes); /* as qsf_jinja_take; NULL: the error is set */
jinja_value *qsf_jinja_items(jinja_run *r, size_t n); /* room for n values, charged for */

/* ---- values: equal, ordered, joined by operators (jinja_value.c) ---- */

/* These return true. */
bool qsf_jinja_give_int(jinja_value *out, int64_t i);
bool qsf_jinja_give_bool(jinja_value *out, bool b);
bool qsf_jinja_give_list(jinja_value *out, const jinja_value *items, size_t n);
bool qsf_jinja_is_space(uint32_t c);                /* as Python's str.isspace() */
bool qsf_jinja_true(const jinja_value *v);
bool qsf_jinja_is_number(const jinja_value *v);     /* bool, int, float */
bool qsf_jinja_is_list(const jinja_value *v);       /* list, tuple */
bool qsf_jinja_undefined(jinja_run *r, const jinja_value *v); /* fails: v is used and has no value */
/* One step into a value within values; false: too deep. */
bool qsf_jinja_deeper(jinja_run *r);
bool qsf_jinja_equal(jinja_run *r, const jinja_value *a, const jinja_value *b, bool *out);
bool qsf_jinja_less(jinja_run *r, const jinja_value *a, const jinja_value *b, bool *out);
bool qsf_jinja_contains(jinja_run *r, const jinja_value *what, const jinja_value *in, bool *out);
bool qsf_jinja_text_is(const jinja_value *v, const char *text);
const char *qsf_jinja_type_name(const jinja_value *v);
bool qsf_jinja_join_texts(jinja_run *r, const jinja_value *a, const jinja_value *b, jinja_value *out);
bool qsf_jinja_binary(jinja_run *r, jinja_op op, const jinja_value *a, const jinja_value *b,
                      jinja_value *out);
bool qsf_jinja_compare(jinja_run *r, jinja_op op, const jinja_value *a, const jinja_value *b, bool *out);

/* ---- what is in values (jinja_reach.c) ---- */

/* A list of what for would go through: characters, keys, items; of a generator it takes them. */
bool qsf_jinja_iterate(jinja_run *r, const jinja_value *v, jinja_value *out);
bool qsf_jinja_attribute(jinja_run *r, const jinja_value *v, const char *name, size_t n, int method,
                         jinja_value *out);
bool qsf_jinja_item(jinja_run *r, const jinja_value *v, const jinja_value *key, jinja_value *out);
bool qsf_jinja_slice(jinja_run *r, const jinja_value *v, const jinja_value bounds[3], jinja_value *out);
size_t qsf_jinja_length(const jinja_value *v);          /* characters, items, pairs */
uint32_t qsf_jinja_offset(const jinja_value *v, size_t i); /* where character i of a string begins */
bool qsf_jinja_hashable(jinja_run *r, const jinja_value *v); /* fails: v cannot be a key */
/* The value of a key; NULL: it is not there. */
bool qsf_jinja_lookup(jinja_run *r, const jinja_value *dict, const jinja_value *key, const jinja_value **out);
/* A dict of n pairs, in their memory; of the same keys the last one's value. */
bool qsf_jinja_make_dict(jinja_run *r, jinja_value *pairs, uint32_t n, jinja_value *out);
jinja_value qsf_jinja_trimmed(const jinja_value *text); /* without white space at its ends */

/* ---- values as text (jinja_print.c) ---- */

/* What the interpreter writes itself. */
bool qsf_jinja_put(jinja_run *r, jinja_sink *s, const char *text, size_t n);
/* Writes bytes [at, at + n) of a string, with their marks. */
bool qsf_jinja_put_part(jinja_run *r, jinja_sink *s, const jinja_value *v, size_t at, size_t n);
bool qsf_jinja_put_text(jinja_run *r, jinja_sink *s, const jinja_value *v); /* the whole of it */
/* Writes other bytes in place of byte `at` of a string, with that byte's mark. */
bool qsf_jinja_put_for(jinja_run *r, jinja_sink *s, const jinja_value *v, size_t at, const char *text,
                       size_t n);
/* Whether a string or number is not entirely the template's. */
bool qsf_jinja_foreign(const jinja_run *r, const jinja_value *v);
void qsf_jinja_mark(uint8_t *marks, size_t at, size_t n, bool own);
void qsf_jinja_mark_copy(uint8_t *to, size_t at, const uint8_t *from, size_t from_at, size_t n);
/* Bytes [from, to) of a string. */
static inline jinja_value jinja_part(const jinja_value *v, size_t from, size_t to)
{
    jinja_value part = *v;
    part.as.text += from;
    part.n = (uint32_t)(to - from);
    return part;
}
bool qsf_jinja_print(jinja_run *r, jinja_sink *s, const jinja_value *v);    /* as str() */
bool qsf_jinja_repr(jinja_run *r, jinja_sink *s, const jinja_value *v);     /* as repr() */
/* Writes digits of a number, which are foreign if the number is. */
bool qsf_jinja_put_number(jinja_run *r, jinja_sink *s, const jinja_value *v, const char *text, size_t n);
typedef struct jinja_json_form {
    jinja_value indent, comma, colon;           /* indent: a string, or none: on one line */
    bool        ascii, sorted;
} jinja_json_form;
bool qsf_jinja_json(jinja_run *r, jinja_sink *s, const jinja_value *v, const jinja_json_form *f, int level);
bool qsf_jinja_printable(uint32_t c);
/* A text that is made at the end of the memory: nothing else may be taken until it is done. */
jinja_sink  qsf_jinja_begin_text(jinja_run *r);
jinja_value qsf_jinja_end_text(jinja_run *r, const jinja_sink *s);
bool qsf_jinja_finish(jinja_run *r, const jinja_sink *s, jinja_value *out);     /* the same; true */
/* The same for what was made of v: safe if that is. */
bool qsf_jinja_finish_as(jinja_run *r, const jinja_sink *s, const jinja_value *v, jinja_value *out);
bool qsf_jinja_to_text(jinja_run *r, const jinja_value *v, jinja_value *out); /* as str() */

/* ---- numbers in texts (jinja_number.c); the parser reads them as well ---- */

typedef enum jinja_number_kind { JINJA_NO_NUMBER, JINJA_NUMBER_READ, JINJA_LARGE } jinja_number_kind;
/* base 0: from the prefix 0x, 0o, 0b */
jinja_number_kind qsf_jinja_read_whole(const char *s, size_t n, int base, int64_t *out);
jinja_number_kind qsf_jinja_read_float(const char *s, size_t n, double *out);

/* ---- built-in functions: names and arguments (jinja_builtin.c) ---- */

/* Methods; the texts' own come first.  Those from JM_OTHERS on exist in Python and are not known
 * here; those from JM_CHANGE on would change their value, and are not there for templates. */
enum {
    JM_NONE, JM_CAPITALIZE, JM_CASEFOLD, JM_CENTER, JM_COUNT, JM_ENDSWITH, JM_EXPANDTABS, JM_FIND, JM_FORMAT,
    JM_FORMAT_MAP, JM_INDEX, JM_ISALNUM, JM_ISALPHA, JM_ISASCII, JM_ISDECIMAL, JM_ISDIGIT, JM_ISIDENTIFIER,
    JM_ISLOWER, JM_ISNUMERIC, JM_ISPRINTABLE, JM_ISSPACE, JM_ISTITLE, JM_ISUPPER, JM_JOIN, JM_LJUST, JM_LOWER,
    JM_LSTRIP, JM_PARTITION, JM_REMOVEPREFIX, JM_REMOVESUFFIX, JM_REPLACE, JM_RFIND, JM_RINDEX, JM_RJUST,
    JM_RPARTITION, JM_RSPLIT, JM_RSTRIP, JM_SPLIT, JM_SPLITLINES, JM_STARTSWITH, JM_STRIP, JM_SWAPCASE,
    JM_TITLE, JM_UPPER, JM_ZFILL,
    JM_GET, JM_ITEMS, JM_KEYS, JM_VALUES, JM_COPY, JM_CYCLE, JM_CHANGED, JM_NEXT, JM_RESET,
    JM_OTHERS, JM_FROMKEYS = JM_OTHERS + 3, JM_CHANGE
};
enum {
    JF_ABS, JF_ATTR, JF_BATCH, JF_CAPITALIZE, JF_CENTER, JF_COUNT, JF_D, JF_DEFAULT, JF_DICTSORT, JF_E,
    JF_ESCAPE, JF_FILESIZEFORMAT, JF_FIRST, JF_FLOAT, JF_FORCEESCAPE, JF_FORMAT, JF_GROUPBY, JF_INDENT,
    JF_INT, JF_ITEMS, JF_JOIN, JF_LAST, JF_LENGTH, JF_LIST, JF_LOWER, JF_MAP, JF_MAX, JF_MIN, JF_PPRINT,
    JF_REJECT, JF_REJECTATTR, JF_REPLACE, JF_REVERSE, JF_ROUND, JF_SAFE, JF_SELECT, JF_SELECTATTR, JF_SLICE,
    JF_SORT, JF_STRING, JF_STRIPTAGS, JF_SUM, JF_TITLE, JF_TOJSON, JF_TRIM, JF_TRUNCATE, JF_UNIQUE, JF_UPPER,
    JF_URLENCODE, JF_WORDCOUNT, JF_WORDWRAP, JF_XMLATTR, JF_RANDOM, JF_URLIZE
};
enum { JN_CYCLER, JN_DICT, JN_JOINER, JN_LIPSUM, JN_NAMESPACE, JN_RAISE, JN_RANGE, JN_STRFTIME, JN_NONE };

/* Arguments by the places of their parameters; NULL: not given. */
enum { JINJA_PARAMS = 5 };
typedef struct jinja_bound { const jinja_value *arg[JINJA_PARAMS]; } jinja_bound;

int  qsf_jinja_filter_id(const char *name, size_t n); /* -1: unknown */
int  qsf_jinja_test_id(const char *name, size_t n);
int  qsf_jinja_method_id(const char *name, size_t n); /* 0: unknown */
int  qsf_jinja_function_id(const char *name, size_t n); /* JN_NONE: unknown */
bool qsf_jinja_has_method(const jinja_value *v, int id);
bool qsf_jinja_filter(jinja_run *r, int id, const jinja_value *v, const jinja_args *a, jinja_value *out);
bool qsf_jinja_test(jinja_run *r, int id, const jinja_value *v, const jinja_args *a, bool *out);
bool qsf_jinja_method(jinja_run *r, int id, const jinja_value *self, const jinja_args *a, jinja_value *out);
bool qsf_jinja_function(jinja_run *r, int id, const jinja_args *a, jinja_value *out);
/* A value as an integer; *out is unchanged if v is NULL or, with none_too, none. */
bool qsf_jinja_whole(jinja_run *r, const jinja_value *v, bool none_too, int64_t *out);
bool qsf_jinja_need_text(jinja_run *r, const jinja_value *v, const char *what);
static inline bool jinja_given(const jinja_value *v) { return v && v->type != QSF_JINJA_NONE; }
static inline bool jinja_flag(const jinja_value *v) { return v && qsf_jinja_true(v); }

/* ---- built-in functions at work ---- */

/* jinja_filter.c: on items */
bool qsf_jinja_filter_items(jinja_run *r, int id, const jinja_value *v, const jinja_args *a,
                            const jinja_bound *b,
                            jinja_value *out);
bool qsf_jinja_pairs(jinja_run *r, const jinja_value *dict, jinja_value *out); /* a list of its pairs */
/* jinja_text.c: methods of texts */
bool qsf_jinja_text_method(jinja_run *r, int id, const jinja_value *self, const jinja_bound *b,
                           jinja_value *out);
bool qsf_jinja_text_join(jinja_run *r, const jinja_value *between, const jinja_value *list, bool any_type,
                         jinja_value *out);
bool qsf_jinja_text_lines(jinja_run *r, const jinja_value *v, bool keep, jinja_value *out);
/* The position of a string in v, from a byte on; -1: not found, or the steps are used up, which the
 * next operation reports. */
int64_t qsf_jinja_find(jinja_run *r, const jinja_value *v, const jinja_value *what, uint32_t from, bool last);
/* jinja_letters.c: kinds of letters, upper and lower case */
bool qsf_jinja_cased(jinja_run *r, int id, const jinja_value *v, jinja_value *out);
bool qsf_jinja_letters(jinja_run *r, int id, const jinja_value *v, bool *out);
bool qsf_jinja_lower_text(jinja_run *r, const jinja_value *v, jinja_value *out);
/* jinja_markup.c: filters that write texts */
bool qsf_jinja_put_escaped(jinja_run *r, jinja_sink *s, const jinja_value *v);
bool qsf_jinja_filter_text(jinja_run *r, int id, const jinja_value *v, const jinja_bound *b,
                           jinja_value *out);
/* jinja_number.c: numbers */
bool qsf_jinja_arithmetic(jinja_run *r, jinja_op op, const jinja_value *a, const jinja_value *b,
                          jinja_value *out);
bool qsf_jinja_filter_number(jinja_run *r, int id, const jinja_value *v, const jinja_bound *b,
                             jinja_value *out);
/* jinja_format.c: texts with places for values */
bool qsf_jinja_format_percent(jinja_run *r, const jinja_value *format, const jinja_value *args,
                              jinja_value *out);
bool qsf_jinja_format_braces(jinja_run *r, const jinja_value *format, const jinja_args *a, jinja_value *out);
/* jinja_date.c */
bool qsf_jinja_strftime(jinja_run *r, const jinja_value *format, jinja_value *out);

#endif
