/* What the parts of qsf-run share: the settings, the session and the ways out.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CLI_RUN_H
#define QSF_CLI_RUN_H

#include "common_options.h"
#include "message.h"
#include "model_names.h"
#include "qsf.h"

#include <string.h>

/* Exit codes. */
enum { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_MODEL = 3, EXIT_NO_MEMORY = 4, EXIT_IO = 5,
       EXIT_INTERRUPTED = 130 };

typedef struct run_settings {
    common_settings common;           /* as on the command line; session_open adds the rest */
    const char *model, *prompt, *file, *session, *prompt_cache, *system, *ids, *perplexity, *kl, *kl_base,
        *draft_model, *render, *tools, *documents, *bos, *eos,
        *grammar, *regex, *json_schema, *choices, *accept, *tool_choice, *reasoning, *history, *pooling,
        *rerank;
    qsf_turn_options turn;            /* from the options; prompt_begin adds the rest */
    option_list stop;
    model_settings models;
    hub_arrival *arrival;             /* what downloads the model while it is used; NULL: it is here */
    program_settings program;
    bool mpi, verbose, interactive, raw, ignore_eos, bench, tokenize, detokenize, logits, json, add_special,
        parse_special, embedding, embed_plain, no_generation, continue_final, adapted, json_object,
        list_devices;
    long long chunks, json_blanks;
} run_settings;

typedef struct draft_model draft_model;
enum { ADAPTERS_MOST = 8 };       /* of a sequence */
typedef struct trace_files trace_files;

/* The template and other inputs of a conversation, from the settings. */
typedef struct chat_texts {
    qsf_chat_options options;
    char *template_text, *tools, *documents;      /* of files; options points to them */
} chat_texts;

/* An opened model and what runs it. */
typedef struct run_session {
    const run_settings *set;
    qsf_model   *model;
    qsf_context *context;
    qsf_context_options asked;    /* what the context was made with */
    qsf_sampler *sampler;
    qsf_turn    *turn;            /* of sequence 0 */
    /* of the chat in use, its name or its text; NULL: text is completed without one */
    const char  *template_name;
    qsf_conversation *talk;       /* has the prompt, and splits answers if there is a template */
    const char  *split_choice;    /* of tools, with which it splits them */
    chat_texts   chat;
    bool         hides;           /* reasoning */
    bool         keeps;           /* a prompt may resume from what sequence 0 holds: reported */
    uint32_t     draft;           /* most guesses a pass */
    qsf_grammar *grammar;         /* of answers; NULL: they are free */
    qsf_adapter_use adapters[ADAPTERS_MOST];      /* of --lora */
    size_t       n_adapters;
    draft_model *drafter;         /* makes the guesses; NULL: they come from earlier text */
    trace_files *files;           /* of --trace and --record; NULL: none */
    char         longer[96];      /* session_longer's */
    uint64_t     n_answered;      /* tokens generated */
    uint64_t     n_intervals, ns_intervals;       /* gaps between consecutive tokens */
    qsf_error    error;
} run_session;

/* ---- interrupt.c ---- */
/* Ctrl-C was pressed since the last interrupt_clear; a second one ends the program */
bool interrupted(void);
void interrupt_clear(void);
int  interrupt_add(void);                           /* it is pressed: how often since then */

/* ---- terminal.c: signals, colours, output, whole files ---- */
void terminal_init(void);
bool terminal_is(FILE *f);                          /* a person is at the other end */
uint64_t clock_ns(void);
const char *colour(FILE *f, const char *code);      /* the code, or "" where colours do not belong */
bool terminal_moves(FILE *f);                       /* it is one that obeys codes for its cursor */
/* Flushes standard output; false if some of it is lost, which is reported once (not for a pipe
 * whose reader has gone). */
bool output_flush(void);
/* The program's exit code: EXIT_IO in place of EXIT_OK if output was lost. */
int  output_end(int code);
/* The whole file ("-": stdin), terminated; *len without the 0.  NULL: reported on stderr.  The
 * caller frees. */
char *read_whole(const char *path, size_t *len);
/* The same, but reading stops after more than most bytes. */
char *read_at_most(const char *path, size_t most, size_t *len);
bool  path_exists(const char *path);
int   exit_code(qsf_status st);
/* Prints the error and returns its exit code. */
int   report(const qsf_error *e);
/* The same for a model or a context, which may not fit in memory: with what needs less. */
int   report_room(const qsf_error *e);
int   report_context(qsf_context *c, qsf_status st);

/* ---- session.c ---- */
qsf_io io_named(const char *name);                  /* of --io */
qsf_i2s_layout i2s_named(const char *name);         /* of --i2s-layout; NULL: auto */
bool chat_asked(const run_settings *set);           /* the settings ask for a chat, not for one answer */
int  session_open(run_session *s, const run_settings *set, bool vocab_only, uint32_t n_logits);
/* Frees it.  Returns the program's exit code: code, or EXIT_IO if files of --trace or --record were
 * lost. */
int  session_close(run_session *s, int code);
/* What could be done about the context's length, as the end of a sentence: "-c N makes it longer,
 * up to 8192" only if it can be longer. */
const char *session_longer(run_session *s);
/* Whether the text can be a message of a conversation; else it is reported in s->error.  Messages
 * end at a zero byte. */
bool session_is_message(run_session *s, const char *text, size_t len);
/* Whether texts are embedded or ranked, in this many sequences, without generating. */
enum { EMBED_SEQS = 16 };
static inline bool session_embeds(const run_settings *set) { return set->embedding || set->rerank; }
/* --embedding and --rerank. */
int      run_embedding(run_session *s, const char *prompt, size_t len);
int      run_rerank(run_session *s, const char *query, size_t len);
/* The numbers of text[0..len), of tokens, with single commas or white space between them, maybe
 * within [].  NULL: reported in s->error, with what the list is called.  The caller frees. */
int32_t *session_ids(run_session *s, const char *text, size_t len, const char *what, size_t *n);
/* Ids of the text; *n their number.  NULL: reported in s->error.  The caller frees. */
int32_t *session_encode(run_session *s, const char *text, size_t len, int flags, size_t *n);
/* Sets the conversation's prompt, up to the beginning of the answer: as the settings ask (--ids, or
 * the text, through the template or unchanged), messages through the template, or text without one.
 * false: reported in s->error. */
bool     session_prompt(run_session *s, const char *text, size_t len);
bool     session_chat(run_session *s, const message *msgs, size_t n);
bool     session_text(run_session *s, const char *text, size_t len);

/* ---- messages.c ---- */
/* Reads what the settings name; an exit code, errors are reported.  Also what is half opened has to
 * be closed. */
int   chat_texts_open(const run_settings *set, chat_texts *t);
void  chat_texts_close(chat_texts *t);
/* Terminated; NULL: out of memory.  The caller frees. */
char *messages_json(const message *msgs, size_t n, size_t *len);
int   run_render(const run_settings *set);

/* ---- sampling.c ---- */
/* The session's sampler from the settings.  Returns an exit code; errors are reported. */
int  sampling_open(run_session *s);
/* Prints a piece's probabilities, as a line of JSON on standard error. */
void print_logprobs(const run_session *s, const qsf_turn_piece *p);

/* ---- keep.c: the file of --session; without it these do nothing ---- */
/* Restores sequence 0, and the turn, from the file.  Does nothing if the file does not exist yet.
 * Errors are reported. */
int session_resume(run_session *s);
/* Writes what sequence 0 holds. */
int session_keep(run_session *s);

/* ---- prompt_cache.c: the file of --prompt-cache; without it these do nothing ---- */
/* Restores sequence 0, and the turn, from the file.  A file that does not fit the model, its
 * adapters or the options is ignored, which is said on stderr.  Returns an exit code: only a file
 * that is not a prompt cache is an error. */
int  prompt_cache_resume(run_session *s);
/* The prompt of n tokens has been computed, n_kept of them came from the file: writes it, unless at
 * least half of it is there. */
void prompt_cache_keep(run_session *s, size_t n, size_t n_kept);

/* ---- adapters.c ---- */
/* FILE of FILE[:SCALE], to be freed, and the scale.  NULL: out of memory. */
char  *adapter_path(const char *text, float *scale);
/* Loads the adapters of --lora, also by half, and adds their memory to *co.  streamed: only what a
 * layer needs is in memory. */
int    adapters_open(run_session *s, qsf_context_options *co, bool streamed);
/* Gives them to the context's sequences. */
int    adapters_use(run_session *s, uint32_t n_seqs);
void   adapters_print(const run_session *s);
void   adapters_close(run_session *s);

/* ---- draft_model.c ---- */
/* Opens the model of --draft-model as s->drafter, also by half, and takes its memory off
 * co->ram_budget.  An exit code; errors are reported. */
int    draft_model_open(run_session *s, qsf_context_options *co);
void   draft_model_close(draft_model *m);                          /* takes NULL */
void   draft_model_plan(const draft_model *m, qsf_plan *out);
/* Once s->context exists: what makes drafts begins to follow it. */
int    draft_model_connect(run_session *s);
/* Who makes a turn's guesses; m may be NULL. */
void   draft_model_options(draft_model *m, qsf_turn_options *o);

/* ---- generate.c ---- */
typedef struct answer {
    message  said;            /* by the assistant; without a template all of it is text */
    int32_t *ids;             /* the caller frees */
    size_t   n_ids, cap_ids;
    bool     stopped;         /* by Ctrl-C */
    bool     full;            /* the context had no more room */
    bool     cut;             /* max_tokens ended it within its reasoning */
    char     last;            /* character that was printed, 0: none was */
} answer;
/* Has answers split into reasoning, text and calls, if text goes through a template.  choice: of
 * tools, NULL: from the settings.  Returns an exit code; errors are reported. */
int  answers_open(run_session *s, const char *choice);
/* Reads an answer back from its text by message_plain; false: out of memory, or reported. */
bool answer_of_plain(run_session *s, const char *text, size_t len, message *out);
/* Begins a turn with the conversation's prompt and computes what sequence 0 does not hold of it;
 * Ctrl-C ends that soon.  If it does not fit, nothing is computed and what (the prompt, the
 * conversation) is reported as too long. */
int  generate_prompt(run_session *s, const char *what);
/* Streams the answer of the turn whose prompt is computed.  print: to stdout.  Returns an exit
 * code; errors are reported. */
int  generate_answer(run_session *s, bool print, answer *a);
void answer_free(answer *a);
/* Reports an answer that was cut. */
void answer_cut(const run_session *s, const answer *a);
int  run_once(run_session *s, const char *prompt, size_t len);

/* ---- chat_loop.c, line.c ---- */
int  run_chat(run_session *s, const char *first, size_t len);
typedef enum line_result { LINE_TEXT, LINE_END, LINE_INTERRUPT, LINE_FAILED } line_result;
/* One line from the user without its end, and without zero bytes; pasted text may be several lines.
 * If lines are edited, it begins with the text given.  The caller frees *text, NULL except with
 * LINE_TEXT.  INTERRUPT: Ctrl-C dropped a line of *len bytes; FAILED was reported. */
line_result line_read(const char *prompt, const char *given, char **text, size_t *len);
/* If lines are edited: from here on, what is typed waits for line_read without being shown, and the
 * lines given to line_keep can be recalled, also in later runs.  history: of --history. */
void line_begin(const char *history);
bool line_edits(void);
void line_keep(const char *text, size_t len);
/* Takes this key out of those that wait; false: it is not among them. */
enum { LINE_REASONING = 20 };                       /* Ctrl-T */
bool line_key(char key);
void line_done(void);

/* ---- grammar.c ---- */
/* Makes the grammar that the settings ask for, if any.  An exit code; errors are reported. */
int grammar_open(run_session *s);
int run_accept(run_session *s);

/* ---- measure.c, bench.c, tokens.c ---- */
int run_perplexity(run_session *s);
int run_bench(run_session *s);
int run_tokenize(run_session *s);
int run_detokenize(run_session *s);
int run_logits(run_session *s, const char *prompt, size_t len);
void print_memory(run_session *s);
void print_times(run_session *s);

#endif
