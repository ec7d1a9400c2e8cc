/* Grammars of answers: compiled once, on a thread of their own, and kept by what was asked for.
 * SPDX-License-Identifier: MIT
 *
 * All of this is for the front's thread.  What a grammar computes while it is used belongs to the
 * engine's thread, to which a job carries it. */
#ifndef QSF_SERVE_GRAMMARS_H
#define QSF_SERVE_GRAMMARS_H

#include "metrics.h"
#include "request.h"

typedef struct grammar_store grammar_store;
typedef struct serve_grammar serve_grammar;

/* template_name: of the chat, NULL: the model's own.  wake_fd: where a byte is written when
 * grammars are done.  NULL: out of memory. */
grammar_store *grammar_store_new(qsf_model *m, const char *template_name, serve_metrics *metrics,
                                 int wake_fd);
void           grammar_store_free(grammar_store *s);         /* takes NULL; no grammar may be held */

/* Whether a request's answers have a grammar at all. */
bool           grammar_wanted(const serve_request *r);
/* The request's grammar, to be given back by grammar_drop even if it is not compiled yet.  NULL: *e
 * says why. */
serve_grammar *grammar_ask(grammar_store *s, const serve_request *r, serve_error *e);
void           grammar_drop(grammar_store *s, serve_grammar *g);             /* takes NULL */
/* It has failed in use: no other request gets it. */
void           grammar_forget(grammar_store *s, serve_grammar *g);

/* Whether it is compiled, or has failed to compile (then *e says why). */
bool           grammar_ready(const serve_grammar *g, serve_error *e);
/* Takes over what was compiled since the last call.  true: something was, and jobs that wait for it
 * can continue. */
bool           grammar_store_look(grammar_store *s);
/* What was compiled, which belongs to g: of an answer without a template its grammar, of a chat an
 * answer whose grammar others take over; NULL: the other one. */
qsf_grammar      *grammar_shape(const serve_grammar *g);
const qsf_answer *grammar_answer(const serve_grammar *g);

#endif
