/* Tools: finds out from a chat template how a model writes calls and reasoning, and splits answers
 * into reasoning, text and calls while they arrive.
 * SPDX-License-Identifier: MIT
 *
 * A qsf_tool_form has the texts around each part of a call.  tools_form.c finds it by rendering
 * conversations and looking at what is between its own inputs; tools_answer.c reads answers with
 * it, tools_value.c reads the values in them, and tools_grammar.c makes grammars from it. */
#ifndef QSF_TEXT_TOOLS_H
#define QSF_TEXT_TOOLS_H

#include "chat/chat.h"
#include "base/host.h"
#include "grammar/schema.h"

/* ---- texts ---- */

static inline bool qsf_tool_blank(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }
/* text after its leading blanks. */
static inline const char *qsf_tool_core(const char *text)
{
    while (qsf_tool_blank(*text)) text++;
    return text;
}


/* The first failed allocation sets `failed`, and everything added after it is lost. */
typedef struct qsf_text {
    const qsf_platform *platform;
    char   *at;
    size_t  n, cap;
    bool    failed;
} qsf_text;

void qsf_text_add(qsf_text *t, const char *bytes, size_t n);
void qsf_text_put(qsf_text *t, const char *text);
/* Adds the bytes escaped as a JSON string, without its quotes. */
void qsf_text_json(qsf_text *t, const char *bytes, size_t n);
void qsf_text_drop(qsf_text *t);

/* ---- the form of calls ---- */

/* What a call consists of. */
typedef enum qsf_tool_style {
    QSF_TOOLS_OBJECT,       /* a JSON object with name and arguments */
    QSF_TOOLS_JSON,         /* the name, then arguments as a JSON object */
    QSF_TOOLS_TAGS,         /* the name, then each argument with texts around key and value */
    QSF_TOOLS_QUOTED,       /* the name, then {key:value,...} with a quote of the model's own */
    QSF_TOOLS_PYTHON,       /* name(key=value, ...) */
    QSF_TOOLS_CHANNELS      /* Harmony: messages with a header each */
} qsf_tool_style;

/* The texts of a form.  White space in them matches any white space, including none; QSF_TOOL_ID
 * stands for the id of a call; "": the form lacks this text. */
typedef enum qsf_tool_text {
    QSF_TT_SECTION,         /* before the first call */
    QSF_TT_OPEN,            /* before each call's name or object */
    QSF_TT_ID,              /* before the id, which may stand between name and arguments */
    QSF_TT_ARGUMENTS,       /* before the arguments */
    QSF_TT_KEY,             /* tags: before a key; quoted: the quote of texts */
    QSF_TT_VALUE,           /* tags: between key and value, or the value's type */
    QSF_TT_TYPE,            /* tags: the type of strings; with any other word the value is JSON */
    QSF_TT_VALUE_BEGIN,     /* tags: between type and value */
    QSF_TT_VALUE_END,       /* tags: after a value */
    QSF_TT_CLOSE,           /* after each call */
    QSF_TT_BETWEEN,         /* between calls */
    QSF_TT_SECTION_END,     /* after the last call */
    QSF_TT_REASONING, QSF_TT_REASONING_END,
    QSF_TT_TEXT, QSF_TT_TEXT_END,       /* around text that is for the user */
    QSF_TT_NAME_KEY,        /* object: the key of the name; "": the name is a key itself */
    QSF_TT_ARGUMENTS_KEY, QSF_TT_ID_KEY,
    QSF_TT_WRAP_KEY,        /* object: the key of the object that name and arguments are in */
    QSF_TT_PROMPT,          /* what of the generation prompt belongs to the answer's own texts */
    QSF_N_TOOL_TEXTS
} qsf_tool_text;

enum { QSF_TOOL_TEXT_MOST = 160 };      /* bytes of one text, the ending zero among them */
enum { QSF_TOOL_ID = 1 };

typedef struct qsf_tool_form {
    uint8_t style;              /* qsf_tool_style */
    bool    several;            /* more than one call in an answer */
    bool    shown;              /* the template shows calls; else the form is a known one or the plain one */
    bool    tools_shown;        /* the template writes the tools that it is given */
    bool    reasoning_shown;    /* it knows reasoning */
    bool    in_reasoning;       /* the generation prompt has begun the reasoning */
    bool    continues;          /* the prompt ends within an answer's text; a template does not set it */
    bool    arguments_text;     /* the template wants arguments as text, not as an object */
    char    text[QSF_N_TOOL_TEXTS][QSF_TOOL_TEXT_MOST];
} qsf_tool_form;

/* Renders the template with these variables, a JSON object, to out, terminated.  Any error: the
 * template refuses. */
typedef qsf_status (*qsf_tool_render)(void *user, const char *variables, char *out, size_t cap, size_t *len);

/* Finds the form of a template.  source: its text, searched for known forms if rendering shows
 * none. If nothing is found, the form is the plain one.  Fails only with QSF_E_MEMORY. */
qsf_status qsf_tool_form_find(const qsf_platform *p, const char *source, qsf_tool_render render, void *user,
                              qsf_tool_form *out, qsf_error *err);
/* The same with the interpreter; of ask, only the template, the tokens, kwargs and now are used. */
qsf_status qsf_tool_form_of(const qsf_chat_ask *ask, qsf_tool_form *out, qsf_error *err);
/* The texts of the form of calls whose mark is in the template's source, else of the plain one. */
void qsf_tool_form_known(const char *source, qsf_tool_form *f);
/* Marks that many models write around their reasoning. */
enum { QSF_TOOL_REASONING_MARKS = 6 };
extern const char *const qsf_tool_reasoning_marks[QSF_TOOL_REASONING_MARKS][2];
/* Adds all marks that an answer of this form may have, one after another. */
void qsf_tool_form_marks(const qsf_tool_form *f, qsf_text *out);
/* The plain form: a JSON object between <tool_call> and </tool_call>. */
void qsf_tool_form_plain(qsf_tool_form *f);

/* Matches a form's text at p[0..n).  Returns the number of bytes that it takes; 0: no match; -1:
 * more bytes could complete a match. */
ptrdiff_t qsf_tool_match(const char *text, const char *p, size_t n);

/* ---- values ---- */

/* A value on its way to JSON. */
typedef struct qsf_tool_value {
    uint8_t     loose;          /* Python's and other quotes, keys without quotes, True, None */
    uint8_t     state;
    uint8_t     quote;          /* of the text that is open; 0: `own` */
    uint8_t     hex;            /* digits of \u that are missing */
    bool        call;           /* the outermost object is the arguments of name(key=value) */
    uint16_t    depth;
    uint8_t     is_object[64];  /* bits */
    const char *own;            /* the form's quote */
} qsf_tool_value;

void qsf_tool_value_begin(qsf_tool_value *v, bool loose, const char *own);
/* For the arguments of name(...), after the opening bracket; they become an object. */
void qsf_tool_value_begin_call(qsf_tool_value *v);
/* Takes what it can of p[0..n) (last: nothing follows) and adds it to out as JSON (NULL: discards
 * it).  Returns the number of bytes taken. */
size_t qsf_tool_value_read(qsf_tool_value *v, const char *p, size_t n, bool last, qsf_text *out);
bool qsf_tool_value_done(const qsf_tool_value *v);
bool qsf_tool_value_bad(const qsf_tool_value *v);

/* ---- types from schemas (tools_types.c) ---- */

/* JSON types, as bits. */
enum {
    QSF_TOOL_NULL = 1, QSF_TOOL_BOOL = 2, QSF_TOOL_INTEGER = 4, QSF_TOOL_FRACTION = 8, QSF_TOOL_STRING = 16,
    QSF_TOOL_LIST = 32, QSF_TOOL_DICT = 64, QSF_TOOL_ANY = 127
};

/* The types that a value matching schema (a part of root) may have, by type, const, enum, anyOf,
 * oneOf, allOf and $ref. */
uint8_t qsf_tool_types(const qsf_json_node *root, const qsf_json_node *schema);
uint8_t qsf_tool_type_of(const qsf_json_node *value);
/* The types of a tool's argument; any type if tool is NULL or the key unknown. */
uint8_t qsf_tool_argument(const qsf_json_node *tool, const char *key);
/* Calls `each` for every string that schema allows; false: not enumerated, any is possible. */
typedef void qsf_tool_each_text(void *user, const char *text, size_t len);
bool qsf_tool_texts(const qsf_json_node *root, const qsf_json_node *schema, qsf_tool_each_text *each,
                    void *user);

/* ---- answers ---- */

typedef enum qsf_tool_event_type {
    QSF_TE_NONE, QSF_TE_TEXT, QSF_TE_REASONING, QSF_TE_CALL, QSF_TE_ARGUMENTS, QSF_TE_CALL_END,
    QSF_TE_CALL_DROPPED, QSF_TE_CALL_CUT
} qsf_tool_event_type;

/* What arrived.  text[0..len) are bytes of text, reasoning or arguments; of a call it is the
 * name, and id[0..id_len) its id; of one that was cut, all that the model wrote of it. */
typedef struct qsf_tool_event {
    uint8_t     type;
    uint32_t    call;           /* which, from 0 */
    const char *text, *id;
    size_t      len, id_len;
} qsf_tool_event;

/* An answer that arrives. */
typedef struct qsf_tool_answer qsf_tool_answer;

/* tools: a JSON list of tools in the format of the OpenAI API; NULL or "": no tools, and then calls
 * without marks are not looked for.  seed: for the ids of calls.
 *
 * QSF_E_ARGUMENT   tools is not such a list
 * QSF_E_MEMORY */
qsf_status qsf_tool_answer_new(const qsf_platform *p, const qsf_tool_form *f, const char *tools, size_t len,
                               uint64_t seed, qsf_tool_answer **out, qsf_error *err);
void       qsf_tool_answer_free(qsf_tool_answer *a);        /* takes NULL */
/* Begins again, for the next answer. */
void       qsf_tool_answer_reset(qsf_tool_answer *a, uint64_t seed);
/* Appends bytes[0..n), split anywhere; last: the answer ends.  QSF_E_MEMORY: the answer is lost. */
qsf_status qsf_tool_answer_push(qsf_tool_answer *a, const char *bytes, size_t n, bool last, qsf_error *err);
/* Marks bytes [at, at + len) of the answer as a control token, which is not text.  Call this before
 * these bytes are pushed. */
void       qsf_tool_answer_control(qsf_tool_answer *a, size_t at, size_t len);
/* The next event; false: none so far.  Its texts stay until the next push. */
bool       qsf_tool_answer_next(qsf_tool_answer *a, qsf_tool_event *out);
/* The answer so far as a message of the OpenAI API; belongs to a, until the next call. */
qsf_status qsf_tool_answer_json(qsf_tool_answer *a, const char **out, size_t *len, qsf_error *err);

/* ---- grammars ---- */

typedef struct qsf_tool_grammar_ask {
    const qsf_platform         *platform;
    const qsf_tool_form        *form;
    const qsf_tokenizer     *tokenizer;      /* which texts are control tokens; NULL: none is */
    qsf_json_node              *tools;          /* their schemas may be changed; NULL: no tools */
    const char *only;           /* NULL; the one tool that may be called */
    /* Makes the grammar of an answer that is not a call; NULL: free text.  Reasoning may precede
     * it. */
    qsf_gnode (*shape)(void *user, qsf_grammar_builder *b);
    void       *user;
    bool        required;       /* the answer is a call; else it may begin one */
    bool        one;            /* of several calls only the first */
    uint64_t    most_memory;    /* of the grammar; 0: as much as grammars may */
} qsf_tool_grammar_ask;

/* The grammar of an answer with calls.  It begins at one of the texts after[0..n_after): with it,
 * or after it; n_after 0: at the beginning of the answer. */
typedef struct qsf_tool_grammar {
    qsf_grammar *grammar;
    qsf_text     texts;
    const char **after;
    size_t       n_after, cap_after;
    bool         with;
    qsf_text     said;          /* keywords that are not enforced, one line each */
} qsf_tool_grammar;

/* Keywords of a schema that cannot be enforced are removed, unless its tool has "strict": true.
 *
 * QSF_E_ARGUMENT   no such tool, or a schema is refused (schema.h)
 * QSF_E_BUDGET, QSF_E_MEMORY */
qsf_status qsf_tool_grammar_make(const qsf_tool_grammar_ask *ask, qsf_tool_grammar *out, qsf_error *err);
void       qsf_tool_grammar_drop(qsf_tool_grammar *g);      /* takes an empty one */

/* ---- tools_loosen.c ---- */
/* Removes what cannot be enforced from each tool's schema and reports it; whether there was any. */
bool       qsf_tools_loosen(const qsf_tool_grammar_ask *ask, const qsf_schema_options *how, qsf_text *said);
/* Removes all keywords from the largest schema that still has some; false: none has. */
bool       qsf_tools_open_largest(const qsf_tool_grammar_ask *ask, qsf_text *said);

#endif
