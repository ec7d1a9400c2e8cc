/* Files of a chat: conversations that are saved, texts that go into a message.
 * SPDX-License-Identifier: MIT */
#include "chat.h"
#include "out_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- names ---- */

/* Without the quotes around it, or without the backslashes in it; "": it has neither. */
static void path_unquote(const char *typed, char *to)
{
    const size_t len = strlen(typed);
    size_t n = 0;
    if (len > 2 && (*typed == '"' || *typed == '\'') && typed[len - 1] == *typed) {
        memcpy(to, typed + 1, n = len - 2);
#ifndef _WIN32                          /* there they separate folders */
    } else if (strchr(typed, '\\')) {
        for (const char *p = typed; *p; p++) {
            if (*p == '\\' && p[1]) p++;
            to[n++] = *p;
        }
#endif
    }
    to[n] = 0;
}

char *chat_path(const char *typed)
{
    const char *home = getenv("HOME");
#ifdef _WIN32
    if (!home) home = getenv("USERPROFILE");
#endif
    const size_t n_home = home ? strlen(home) : 0;
    char *path = malloc(n_home + strlen(typed) + 1);
    char *name = malloc(strlen(typed) + 1);
    if (path && name) {
        if (!path_exists(typed)) path_unquote(typed, name);
        else *name = 0;
        const char *from = *name ? name : typed;
        const bool at_home = n_home && from[0] == '~' && (!from[1] || from[1] == '/' || from[1] == '\\');
        snprintf(path, n_home + strlen(typed) + 1, "%s%s", at_home ? home : "", at_home ? from + 1 : from);
    }
    free(name);
    return path;
}

/* ---- conversations ---- */

/* "role length\ntext\n" for each message, after one line that names the format. */
static const char chat_file_head[] = "qsf-chat 1\n";

static qsf_status chat_save_one(out_file *f, const message *m)
{
    buffer text = { 0 };
    char head[64];
    message_plain(m, &text);
    const int len = snprintf(head, sizeof head, "%s %zu\n", m->role, text.n);
    qsf_status st = text.failed ? QSF_E_MEMORY : out_file_write(f, head, (size_t)len);
    if (!st) st = out_file_write(f, buffer_text(&text), text.n);
    buffer_free(&text);
    return st ? st : out_file_write(f, "\n", 1);
}

/* If this fails, the file keeps its previous content. */
void chat_save(const conversation *c, const char *path)
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
    static const char *const roles[] = { "system", "user", "assistant", "tool" };
    for (size_t i = 0; i < 4; i++)
        if (strlen(roles[i]) == len && !memcmp(roles[i], text, len)) return roles[i];
    return NULL;
}

static bool chat_load_message(conversation *c, const char *role, const char *text, size_t len)
{
    message m = { .role = role };
    const tool_call *call = role[0] == 't' ? chat_call(c) : NULL;
    if (call) return chat_add_result(c, call, text, len);
    if (role[0] != 'a' || !c->s->template_name) return chat_add(c, role, text, len);
    if (answer_of_plain(c->s, text, len, &m)) return chat_add_message(c, &m);
    message_free(&m);
    return false;
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
    return chat_load_message(c, role, text, (size_t)len);
}

void chat_load(conversation *c, const char *path)
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

/* ---- a file for the next message ---- */

static size_t file_tokens(conversation *c, const char *text, size_t len)
{
    size_t n = 0;
    int32_t *ids = len ? session_encode(c->s, text, len, 0, &n) : NULL;
    free(ids);
    return n;
}

/* Adds a file's text to those waiting for the next message.  Rejected if it is not text, or does
 * not fit the context with the others. */
static void file_add(conversation *c, const char *path, const char *text, size_t len)
{
    char why[160];
    qsf_plan plan = { .size = sizeof plan };
    qsf_context_get_plan(c->s->context, &plan);
    const char *zero = memchr(text, 0, len);
    const size_t n = zero ? 0 : file_tokens(c, text, len), all = n + file_tokens(c, c->file, c->n_file);
    char *joined = NULL;
    if (zero) {
        snprintf(why, sizeof why, "byte %zu is zero: this is not text", (size_t)(zero - text));
    } else if (all >= plan.n_ctx && !c->s->set->common.context.kv_window) {
        snprintf(why, sizeof why, "%zu bytes are %zu tokens%s; the context has %u positions", len, n,
                 all > n ? ", and other files are waiting" : "", (unsigned)plan.n_ctx);
    } else if (!(joined = realloc(c->file, c->n_file + len + 2))) {
        snprintf(why, sizeof why, "out of memory");
    } else {
        snprintf(why, sizeof why, "%zu bytes, %zu tokens, for your next message; an empty line sends it "
                 "alone", len, n);
        memcpy(joined + c->n_file, text, len);
        c->n_file += len;
        if (joined[c->n_file - 1] != '\n') joined[c->n_file++] = '\n';
        c->file = joined;
    }
    fprintf(stderr, "%s: %s\n", path, why);
}

void chat_load_file(conversation *c, const char *path)
{
    enum { MOST = 16 << 20 };
    static const char mark[] = "\xef\xbb\xbf";
    size_t len;
    char *text = read_at_most(path, MOST, &len), *from = text;
    if (!text) return;
    if (len >= 3 && !memcmp(text, mark, 3)) from += 3, len -= 3;
    if (len > MOST) {
        fprintf(stderr, "%s: /load-file takes at most %d MB\n", path, MOST >> 20);
    } else if (!len) {
        fprintf(stderr, "%s: the file is empty\n", path);
    } else {
        file_add(c, path, from, len);
    }
    free(text);
}
