/* Inside the Jinja parser: tokens and the program that grows (jinja_emit.c), expressions
 * (jinja_expression.c), statements (jinja_statement.c).
 * SPDX-License-Identifier: MIT */
#ifndef QSF_JINJA_PARSE_H
#define QSF_JINJA_PARSE_H

#include "chat/jinja_own.h"

typedef struct jinja_parser {
    qsf_jinja  *t;
    jinja_lexer lex;
    jinja_token tok;
    qsf_status  st;
    qsf_error  *err;
    uint32_t    depth;
    /* of the innermost loop: where its next iteration begins; the chain of jumps out of it */
    uint32_t    next, breaks;
    bool        in_loop;
    uint8_t     soft, takes;    /* soft: inside of "if"; takes: names that a macro's body uses */
    uint8_t     fors;           /* loops around it, also around a macro */
    jinja_token unknown;        /* an unknown filter or test, which an "if" may still skip */
} jinja_parser;

/* A chain of jumps that have no target yet: each holds the one before it, the first this. */
enum { JINJA_NO_JUMP = 0x7fffffff };

/* ---- errors and tokens (jinja_emit.c) ---- */

static inline const char *jinja_tok_text(const jinja_parser *p) { return p->t->src + p->tok.at; }
/* From here on every token is the end, so that all that is half read returns. */
void qsf_jinja_parse_fail(jinja_parser *p, qsf_status st, uint32_t at, const char *what,
                          const char *name, size_t n);
void qsf_jinja_parse_error(jinja_parser *p, const char *what);  /* here */
void qsf_jinja_parse_unknown(jinja_parser *p, const char *what); /* here; QSF_E_UNSUPPORTED */
void qsf_jinja_advance(jinja_parser *p);
bool qsf_jinja_at_sign(const jinja_parser *p, int sign);
bool qsf_jinja_at_name(const jinja_parser *p, const char *name);
bool qsf_jinja_skip_sign(jinja_parser *p, int sign);
bool qsf_jinja_skip_name(jinja_parser *p, const char *name);
void qsf_jinja_expect_sign(jinja_parser *p, int sign, const char *what);
void qsf_jinja_expect_tag_end(jinja_parser *p);
uint16_t qsf_jinja_expect_symbol(jinja_parser *p);

/* ---- the program (jinja_emit.c) ---- */

/* Makes room in an array that doubles; its old memory stays unused in the block. */
bool qsf_jinja_room_for_one(jinja_parser *p, void **items, uint32_t n, uint32_t *cap, size_t size);
uint16_t qsf_jinja_symbol_id(jinja_parser *p, const char *text, size_t n);
uint32_t qsf_jinja_emit(jinja_parser *p, jinja_op op, size_t n, size_t x, uint32_t arg);
void qsf_jinja_emit_const(jinja_parser *p, jinja_value v);
static inline uint32_t jinja_here(const jinja_parser *p) { return p->t->n_code; }
/* All jumps of the chain go here. */
void qsf_jinja_land(jinja_parser *p, uint32_t chain);

/* ---- expressions (jinja_expression.c) ---- */

enum {
    JINJA_LEVEL_IF, JINJA_LEVEL_OR, JINJA_LEVEL_AND, JINJA_LEVEL_NOT, JINJA_LEVEL_COMPARE, JINJA_LEVEL_ADD,
    JINJA_LEVEL_CONCAT, JINJA_LEVEL_MUL,
    JINJA_LEVEL_POW
};

bool qsf_jinja_parse_deeper(jinja_parser *p);
/* Expressions with commas between them up to `end` (0: whatever ends them) make a tuple;
 * a single one is itself. */
void qsf_jinja_tuple(jinja_parser *p, int level, char end);
void qsf_jinja_expression(jinja_parser *p, int level);
void qsf_jinja_unary(jinja_parser *p, bool filters);
/* What follows "|": the value is on the stack. */
void qsf_jinja_filter_call(jinja_parser *p);
/* Fails if a filter or test is unknown and no "if" can skip it. */
void qsf_jinja_check_unknown(jinja_parser *p);

#endif
