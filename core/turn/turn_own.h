/* A turn's state, shared by its parts.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_TURN_OWN_H
#define QSF_TURN_OWN_H

#include "turn/draft_gain.h"
#include "turn/sampler.h"

typedef enum turn_stage {
    TURN_NONE,          /* none was begun */
    TURN_ROWS,          /* wants rows of ids from n_fed on, then those of guesses */
    TURN_READY,         /* row `right` of the last pass has the logits of the next token */
    TURN_OVER
} turn_stage;

/* Strings one after another, each a length and that many bytes. */
typedef struct turn_texts {
    char   *bytes;
    size_t  len, longest;
} turn_texts;
/* The string at *at, which advances past it; NULL at the end of the list. */
const char *qsf_turn_text_at(const turn_texts *l, size_t *at, size_t *len);
/* Replaces the strings with copies of the caller's; lengths may be NULL. */
qsf_status  qsf_turn_texts_copy(const qsf_platform *p, turn_texts *l, const char *const *texts, size_t n,
                                const size_t *lengths, const char *what, qsf_error *err);
void        qsf_turn_texts_free(const qsf_platform *p, turn_texts *l);

/* The grammar of a turn (turn_grammar.c). */
typedef struct turn_grammar {
    qsf_matcher *matcher;       /* NULL: the turn has no grammar */
    qsf_matcher *scout;         /* tries possible continuations */
    bool        active;         /* it has begun */
    bool        over;           /* nothing can follow */
    bool        look;           /* has not yet looked for forced text from here on */
    turn_texts  after;          /* the strings after which it begins */
    uint32_t   *mask;           /* [ceil(n_vocab / 32)] */
    /* The end of the answer: what may be the beginning of a string of `after`, or (active) what
     * forced text continues. */
    char       *tail;           /* [TURN_TAIL], then room for a token and for forced text */
    size_t      n_tail, cap_tail;
    int32_t    *forced;         /* [cap_forced] tokens to give before the model is asked again */
    size_t      n_forced, at, cap_forced;
} turn_grammar;

/* The reasoning budget (turn_reasoning.c). */
enum { TURN_MARK = 160, TURN_MARK_TOKENS = 64 };
typedef struct turn_reasoning {
    bool        on, inside;
    const char *begin, *end;            /* the marks without surrounding white space */
    size_t      begin_len, end_len;
    int64_t     n_tokens;               /* reasoning tokens so far */
    char        window[TURN_MARK];      /* the last bytes of the answer's text */
    size_t      n_window;
    int32_t     forced[TURN_MARK_TOKENS];       /* the end mark; emitted before the model is asked again */
    size_t      n_forced, at;
} turn_reasoning;

struct qsf_turn {
    const qsf_platform *platform;
    qsf_context  *context;
    qsf_model    *model;
    qsf_seq       seq;
    uint32_t      n_ctx, n_batch, n_vocab;
    qsf_turn_options o;
    qsf_sampler  *sampler;
    turn_stage    stage;
    qsf_turn_state state;
    qsf_error     error;

    int32_t      *ids;
    size_t        n_ids, cap_ids;
    size_t        n_fed;                /* of ids, that the sequence holds; its guesses do not count */
    qsf_row      *rows;                 /* [n_batch], of a turn that computes alone */
    size_t        n_rows;               /* wanted last */
    bool          stepping;             /* a batch of these rows alone is under way */
    size_t        first;                /* the logits of the last pass's first row that asked */
    const float  *given;                /* [asked][n_vocab] those logits, computed elsewhere; NULL: they are
                                         * the context's */
    int32_t       guess[QSF_DRAFT_MOST];
    size_t        n_guess, right;       /* of them in this pass, and how many from the first on were picked */
    size_t        n_made;
    bool          guessed;              /* they are made */
    qsf_draft_gain gain;                /* how many pay, if the turn computes alone */
    uint64_t      begun_ns;             /* when its own batch began */

    turn_grammar  grammar;
    turn_reasoning reasoning;
    int32_t      *never;                /* [n_ends + TURN_VETOES] the tokens that end an answer, then others
                                         * that one pick may not take */
    size_t        n_ends;
    qsf_logprob  *logprobs;             /* [1 + QSF_LOGPROBS_MOST], once they were asked for */
    size_t        n_logprobs;           /* of the last token */
    bool          ahead;                /* qsf_turns_pick has already chosen the next token */
    int32_t       next;                 /* that token */

    turn_texts    stops;
    size_t        longest_piece;
    qsf_utf8_tail tail;
    char         *held, *shown;         /* [cap_text] each: text that is not given yet; the last piece's */
    size_t        n_held, cap_text;
};

enum { TURN_VETOES = 64, TURN_TOGETHER = 32 };

/* The logits of a row that asked, counted as t->first is. */
static inline const float *qsf_turn_logits(const qsf_turn *t, size_t row)
{
    return t->given ? t->given + row * t->n_vocab : qsf_logits(t->context, row);
}

/* ---- turn_grammar.c ---- */
qsf_status qsf_turn_grammar_begin(qsf_turn *t);         /* of t->o; t->error says what fails */
void       qsf_turn_grammar_free(qsf_turn *t);
/* Chooses the token after a row with logits; -1: see t->error. */
int32_t    qsf_turn_choose(qsf_turn *t, size_t row);
/* A token was taken: advances the grammar by it, or begins the grammar. */
void       qsf_turn_grammar_take(qsf_turn *t, int32_t id);
/* How many of the n guesses after the last token the grammar allows. */
size_t     qsf_turn_grammar_guesses(qsf_turn *t, size_t n);
/* Looks for forced text if that is due.  QSF_OK even if nothing is forced. */
qsf_status qsf_turn_grammar_look(qsf_turn *t);

/* ---- turn_reasoning.c ---- */
void       qsf_turn_reasoning_begin(qsf_turn *t);       /* reads t->o */
/* Takes a token into account: its text may begin or end reasoning. */
void       qsf_turn_reasoning_take(qsf_turn *t, int32_t id);
/* Forces the end mark if the budget is used up. */
qsf_status qsf_turn_reasoning_look(qsf_turn *t);
/* Whether forced tokens are pending. */
static inline bool qsf_turn_forces(const qsf_turn *t)
{
    return t->grammar.at < t->grammar.n_forced || t->reasoning.at < t->reasoning.n_forced;
}

/* ---- turn_draw.c ---- */
/* The next token, forced or chosen; -1: see t->error. */
int32_t    qsf_turn_draw(qsf_turn *t);

#endif
