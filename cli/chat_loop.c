/* The conversation: lines from the user, answers from the model, the KV cache kept between turns.
 * SPDX-License-Identifier: MIT */
#include "out_file.h"
#include "run.h"

#include <stdlib.h>
#include <string.h>

typedef struct conversation {
    run_session *s;
    qsf_message *msgs;
    size_t       n, cap;
} conversation;

/* A message ends at a zero byte.  Where a model gives one in an answer, the character for what is
 * none takes its place. */
static char *text_copy(const char *text, size_t len)
{
    static const char instead[] = "\xef\xbf\xbd";
    size_t n = 0, zeros = 0;
    for (size_t i = 0; i < len; i++) zeros += !text[i];
    char *copy = malloc(len + zeros * (sizeof instead - 2) + 1);
    for (size_t i = 0; copy && i < len; i++) {
        if (text[i]) {
            copy[n++] = text[i];
            continue;
        }
        memcpy(copy + n, instead, sizeof instead - 1);
        n += sizeof instead - 1;
    }
    if (copy) copy[n] = 0;
    return copy;
}

static bool chat_add(conversation *c, const char *role, const char *text, size_t len)
{
    if (c->n == c->cap) {
        const size_t cap = c->cap ? 2 * c->cap : 16;
        qsf_message *msgs = realloc(c->msgs, cap * sizeof *msgs);
        if (!msgs) return false;
        c->msgs = msgs;
        c->cap = cap;
    }
    char *copy = text_copy(text, len);
    if (!copy) return false;
    c->msgs[c->n++] = (qsf_message){ role, copy };
    return true;
}

static void chat_drop_last(conversation *c) { free((char *)(size_t)c->msgs[--c->n].content); }

static void chat_reset(conversation *c)
{
    while (c->n) chat_drop_last(c);
    qsf_seq_truncate(c->s->context, 0, 0);
    if (c->s->set->system) chat_add(c, "system", c->s->set->system, strlen(c->s->set->system));
}

/* The whole conversation's tokens: through the template,
 * or one text after another where there is none. */
static int32_t *chat_tokens(conversation *c, size_t *n)
{
    size_t len = 0, cap = 1;
    if (c->s->template_name) return session_chat(c->s, c->msgs, c->n, n);
    for (size_t i = 0; i < c->n; i++) cap += strlen(c->msgs[i].content) + 1;
    char *text = malloc(cap);
    for (size_t i = 0; text && i < c->n; i++) {
        const size_t part = strlen(c->msgs[i].content);
        memcpy(text + len, c->msgs[i].content, part);
        len += part;
        if (c->msgs[i].role[0] == 'u') text[len++] = '\n';
    }
    if (!text) return NULL;
    int32_t *ids = session_encode(c->s, text, len, QSF_TOK_ADD_SPECIAL | QSF_TOK_PARSE_SPECIAL, n);
    free(text);
    return ids;
}

/* Computes the conversation's tokens, as far as sequence 0 does not hold them. */
static int chat_prompt(conversation *c, const int32_t *ids, size_t n)
{
    const int code = generate_prompt(c->s, ids, n, "with this message the conversation");
    const bool fits = qsf_turn_error(c->s->turn)->status != QSF_E_FULL;
    if (!fits && c->n > 2) fprintf(stderr, "/reset begins a new conversation\n");
    return code;
}

static int chat_turn(conversation *c, const char *text, size_t len)
{
    answer a = { 0 };
    size_t n;
    interrupt_clear();
    if (!session_is_message(c->s, text, len)) return report(&c->s->error);
    if (!chat_add(c, "user", text, len)) return EXIT_NO_MEMORY;
    int32_t *ids = chat_tokens(c, &n);
    if (!ids) {
        chat_drop_last(c);
        return report(&c->s->error);
    }
    int code = chat_prompt(c, ids, n);
    free(ids);
    if (!code) code = generate_answer(c->s, true, &a);
    if (!code && !chat_add(c, "assistant", a.text ? a.text : "", a.len)) code = EXIT_NO_MEMORY;
    else if (code) chat_drop_last(c);
    if (n && code != EXIT_FAILED && (!a.len || a.text[a.len - 1] != '\n')) putchar('\n');
    if (!output_flush() && !code) code = EXIT_IO;
    if (a.full)
        fprintf(stderr, "the context is full: /reset begins a new conversation; %s\n", session_longer(c->s));
    if (a.stopped || interrupted()) fprintf(stderr, "(stopped)\n");
    interrupt_clear();
    answer_free(&a);
    return code;
}

/* ---- commands ---- */

/* "role length\ntext\n" for each message behind one line that names the format. */
static const char chat_file_head[] = "qsf-chat 1\n";

static qsf_status chat_save_one(out_file *f, const qsf_message *m)
{
    char head[64];
    const int len = snprintf(head, sizeof head, "%s %zu\n", m->role, strlen(m->content));
    qsf_status st = out_file_write(f, head, (size_t)len);
    if (!st) st = out_file_write(f, m->content, strlen(m->content));
    return st ? st : out_file_write(f, "\n", 1);
}

/* What the file held before stays where this fails. */
static void chat_save(const conversation *c, const char *path)
{
    out_file f;
    const char *why;
    qsf_status st = out_file_begin(&f, path, &why);
    if (!st) {
        st = out_file_write(&f, chat_file_head, strlen(chat_file_head));
        for (size_t i = 0; !st && i < c->n; i++) st = chat_save_one(&f, &c->msgs[i]);
        if ((st = out_file_end(&f, st))) why = qsf_status_text(st);
    }
    if (st) fprintf(stderr, "cannot write %s: %s\n", path, why);
    else fprintf(stderr, "%zu messages saved to %s\n", c->n, path);
}

static const char *chat_role(const char *text, size_t len)
{
    static const char *const roles[] = { "system", "user", "assistant" };
    for (size_t i = 0; i < 3; i++)
        if (strlen(roles[i]) == len && !memcmp(roles[i], text, len)) return roles[i];
    return NULL;
}

/* Takes one saved message off the text; false at its end or where it is damaged. */
static bool chat_load_one(conversation *c, const char **at, const char *end)
{
    char *number_end;
    const char *space = memchr(*at, ' ', (size_t)(end - *at));
    const char *role = space ? chat_role(*at, (size_t)(space - *at)) : NULL;
    if (!role) return false;
    if (space[1] < '0' || space[1] > '9') return false;
    const unsigned long long len = strtoull(space + 1, &number_end, 10);
    const char *text = number_end + 1;
    if (*number_end != '\n' || len >= (size_t)(end - text) || text[len] != '\n') return false;
    if (memchr(text, 0, (size_t)len)) return false;
    *at = text + len + 1;
    return chat_add(c, role, text, (size_t)len);
}

static void chat_load(conversation *c, const char *path)
{
    size_t len;
    char *text = read_whole(path, &len);
    const size_t head = strlen(chat_file_head);
    if (!text) return;
    if (len < head || memcmp(text, chat_file_head, head)) {
        fprintf(stderr, "%s is not a saved conversation\n", path);
    } else {
        const char *at = text + head, *end = text + len;
        chat_reset(c);
        while (c->n) chat_drop_last(c);           /* the system message comes from the file */
        while (at < end && chat_load_one(c, &at, end)) ;
        if (at < end) fprintf(stderr, "%s is damaged after %zu messages\n", path, c->n);
        else fprintf(stderr, "%zu messages loaded\n", c->n);
    }
    free(text);
}

static void chat_help(void)
{
    fputs("  /reset       begin a new conversation\n"
          "  /stats       memory, speed and times\n"
          "  /save FILE   write the conversation\n"
          "  /load FILE   go on with a saved one\n"
          "  /exit        leave (also Ctrl-D)\n"
          "  Ctrl-C stops an answer, and drops a line; pressed again it ends the program.\n"
          "  A line that ends in \\ goes on in the next; so it does with Alt-Enter.  What is pasted is one "
          "message.\n",
          stderr);
}

/* True where the line was a command. */
static bool chat_command(conversation *c, char *line, bool *leave)
{
    if (line[0] != '/' || strchr(line, '\n')) return false;      /* of several lines: somebody's text */
    for (size_t n = strlen(line); n && line[n - 1] == ' ';) line[--n] = 0;
    const size_t len = strcspn(line, " ");
    const char *arg = line + len + strspn(line + len, " ");
#define IS(name) (len == strlen(name) && !memcmp(line, name, len))
    if (IS("/help")) chat_help();
    else if (IS("/reset")) chat_reset(c);
    else if (IS("/stats")) print_memory(c->s), print_times(c->s);
    else if ((IS("/save") || IS("/load")) && !*arg)
        fprintf(stderr, "which file? %.*s FILE\n", (int)len, line);
    else if (IS("/save")) chat_save(c, arg);
    else if (IS("/load")) chat_load(c, arg);
    else if (IS("/exit") || IS("/quit")) *leave = true;
    else fprintf(stderr, "unknown command %.*s; /help lists them\n", (int)len, line);
#undef IS
    return true;
}

/* A message of one or more lines. */
static line_result chat_read(const char *prompt, char **text, size_t *len)
{
    line_result r = line_read(prompt, text, len);
    while (r == LINE_TEXT && *len && (*text)[*len - 1] == '\\') {
        char *more;
        size_t more_len;
        r = line_read("... ", &more, &more_len);
        if (r == LINE_END) return LINE_TEXT;
        char *joined = r == LINE_TEXT ? realloc(*text, *len + more_len + 1) : NULL;
        if (joined) {
            joined[*len - 1] = '\n';
            memcpy(joined + *len, more, more_len + 1);
            *len += more_len;
            *text = joined;
        } else {
            free(*text);
            *text = NULL;
            if (r == LINE_TEXT) r = LINE_END;     /* out of memory */
        }
        free(more);
    }
    return r;
}

/* Lines, until one of them, or their end, ends the chat.  *stopped: it was Ctrl-C. */
static int chat_lines(conversation *c, int code, bool *stopped)
{
    bool leave = false, asked = false;            /* asked: Ctrl-C was pressed at an empty line */
    while (!leave && (code == EXIT_OK || code == EXIT_FAILED || code == EXIT_INTERRUPTED)) {
        char *line;
        size_t len;
        const line_result r = chat_read(terminal_is(stdin) ? "> " : "", &line, &len);
        if (r == LINE_END) break;
        if (r == LINE_FAILED) return EXIT_IO;
        if (r == LINE_INTERRUPT) {
            interrupt_clear();
            *stopped = !terminal_is(stdin) || (!len && asked);
            if (*stopped) break;
            asked = !len;
            if (asked) fprintf(stderr, "(Ctrl-C again or Ctrl-D ends)\n");
            continue;
        }
        asked = false;
        code = EXIT_OK;
        if (len && !chat_command(c, line, &leave)) code = chat_turn(c, line, len);
        free(line);
    }
    return code;
}

int run_chat(run_session *s, const char *first, size_t len)
{
    conversation c = { .s = s };
    bool stopped = false;
    if (terminal_is(stdin)) line_begin();
    chat_reset(&c);
    s->keeps = true;
    int code = session_resume(s);
    if (!code) {
        if (terminal_is(stdin)) fprintf(stderr, "/help lists the commands; Ctrl-D ends.\n");
        if (first && len) code = chat_turn(&c, first, len);
        code = chat_lines(&c, code, &stopped);
        if (code == EXIT_INTERRUPTED) code = EXIT_OK;
        if (code == EXIT_OK) code = session_keep(s);
    }
    while (c.n) chat_drop_last(&c);
    free(c.msgs);
    line_done();
    return code == EXIT_OK && stopped ? EXIT_INTERRUPTED : code;
}
