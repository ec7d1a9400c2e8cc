/* Inside the machine that runs a program: its stacks (jinja_run.c), calls and loops
 * (jinja_run_call.c).
 * SPDX-License-Identifier: MIT */
#ifndef QSF_JINJA_RUN_H
#define QSF_JINJA_RUN_H

#include "chat/jinja_own.h"

enum { RUN_STACK = 512 };

typedef struct run_for {            /* a for that is under way */
    jinja_scope *scope, *inside;
    jinja_loop  *loop;
    jinja_value *kept;              /* of one that only picks items */
    uint32_t     n_kept, captures, stack, closures;
} run_for;

typedef struct run_call {           /* where a macro or a loop that was called returns to */
    jinja_scope *scope;
    uint32_t     ip, fors, depth;   /* depth: of a loop; 0: a macro */
} run_call;

typedef struct run_state {
    jinja_run    r;
    jinja_scope *scope, *root;
    jinja_bind  *spare;             /* binds of scopes that are gone */
    uint32_t     n, fors, calls, captures, closures;        /* closures: made so far */
    size_t       capture[QSF_JINJA_DEPTH];
    run_for      f[QSF_JINJA_DEPTH];
    run_call     call[QSF_JINJA_DEPTH];
    jinja_value  stack[RUN_STACK];
} run_state;

jinja_value qsf_jinja_run_load(run_state *s, uint32_t symbol);
bool qsf_jinja_run_store(run_state *s, uint32_t symbol, jinja_value v);
bool qsf_jinja_run_scope(run_state *s, jinja_scope *outer, jinja_loop *loop);
/* Texts go to a place of their own from here on, until they become a value. */
bool qsf_jinja_run_capture(run_state *s);
bool qsf_jinja_run_captured(run_state *s, jinja_value *out);

/* ---- calls and loops (jinja_run_call.c) ---- */

bool qsf_jinja_run_call(run_state *s, const jinja_code *c, uint32_t *ip);
bool qsf_jinja_run_filter(run_state *s, const jinja_code *c);   /* or a test */
bool qsf_jinja_run_loop(run_state *s, const jinja_code *c, jinja_value *top, uint32_t *ip);
void qsf_jinja_run_return(run_state *s, uint32_t *ip);  /* after a macro */

#endif
