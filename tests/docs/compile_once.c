/* A compiler launcher (CMAKE_C_COMPILER_LAUNCHER) that takes objects from another build of the same
 * tree.
 * SPDX-License-Identifier: MIT
 *
 *   compile_once COMPILER ARGUMENTS...    with QSF_OBJECTS, a table that compile_once.py wrote, and
 *                                         QSF_TREE, which names the tree's copy
 *   compile_once --key ARGUMENTS...       prints what the table would call this command
 *
 * An object is taken if the same compiler had the same arguments, apart from what key() leaves out;
 * else the compiler runs. In C, because a build starts it a thousand times. */
#define _POSIX_C_SOURCE 200809L
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { KEY_MOST = 1 << 16 };

typedef struct key_text { char bytes[KEY_MOST]; size_t len; } key_text;

static void put(key_text *k, const char *bytes, size_t len)
{
    if (k->len + len >= sizeof k->bytes) {
        fprintf(stderr, "compile_once: the command is longer than %d bytes\n", KEY_MOST);
        exit(1);
    }
    memcpy(k->bytes + k->len, bytes, len);
    k->len += len;
}

static bool ends_name(char c) { return !c || c == '/'; }

/* What stands for the tree, or for a build in it, at the beginning of text; how much that is. */
static size_t place(const char *text, const char *tree, const char **name)
{
    const size_t len = strlen(tree);
    static const char *const builds[] = { "/build/test/", "/build/" };
    if (strncmp(text, tree, len)) return 0;
    for (int i = 0; i < 2; i++) {
        size_t at = len + strlen(builds[i]);
        if (strncmp(text + len, builds[i], strlen(builds[i]))) continue;
        const size_t first = at;
        while (isalnum((unsigned char)text[at]) || text[at] == '_') at++;
        if (at == first || !ends_name(text[at])) continue;
        *name = "<build>";
        return at;
    }
    *name = "<tree>";
    return ends_name(text[len]) ? len : 0;
}

static void put_word(key_text *k, const char *word, const char *tree)
{
    const char *name = NULL;
    while (*word) {
        const size_t len = place(word, tree, &name);
        if (len) put(k, name, strlen(name));
        else put(k, word, 1);
        word += len ? len : 1;
    }
}

static bool is_one_of(const char *word, const char *const *words)
{
    while (*words && strcmp(word, *words)) words++;
    return *words != NULL;
}

/* The words of a command that make a difference: compile_once.py has the same rules. */
static void key(key_text *k, char **command, const char *tree)
{
    static const char *const left_out[] = { "-Werror", "-O0", "-O1", "-DQSF_TEST_SHORT", "-MD", NULL };
    static const char *const with_next[] = { "-o", "-MT", "-MF", NULL };
    const char *base = strrchr(command[0], '/');
    if (!strcmp(base ? base + 1 : command[0], "ccache")) command++;
    for (k->len = 0; *command; command++) {
        if (is_one_of(*command, left_out)) continue;
        if (is_one_of(*command, with_next)) {
            if (!*++command) break;
            continue;
        }
        if (k->len) put(k, "\x1f", 1);
        put_word(k, *command, tree);
    }
}

/* The object that the table has for this key; the caller frees it. */
static char *find(const char *table, const key_text *k)
{
    FILE *f = fopen(table, "r");
    char *line = NULL, *found = NULL;
    size_t cap = 0;
    ssize_t len;
    while (f && !found && (len = getline(&line, &cap, f)) > 0) {
        if (line[len - 1] == '\n') line[--len] = 0;
        if ((size_t)len > k->len && !memcmp(line, k->bytes, k->len) && line[k->len] == '\x1e')
            found = strdup(line + k->len + 1);
    }
    free(line);
    if (f) fclose(f);
    return found;
}

static bool copy(const char *from, const char *to)
{
    static char bytes[1 << 16];
    FILE *in = fopen(from, "rb"), *out = in ? fopen(to, "wb") : NULL;
    size_t n;
    bool ok = in && out;
    while (ok && (n = fread(bytes, 1, sizeof bytes, in)) > 0) ok = fwrite(bytes, 1, n, out) == n;
    if (in) fclose(in);
    if (out && fclose(out)) ok = false;
    return ok;
}

static const char *after(char **command, const char *word)
{
    for (; *command; command++)
        if (!strcmp(*command, word)) return command[1];
    return NULL;
}

/* The build is new: it will not read these dependencies. */
static void write_no_dependencies(char **command)
{
    const char *name = after(command, "-MF"), *target = after(command, "-MT");
    FILE *f = name ? fopen(name, "w") : NULL;
    if (!f) return;
    fprintf(f, "%s:\n", target ? target : "");
    fclose(f);
}

static void say_compiled(const char *table, char **command)
{
    char name[4096];
    snprintf(name, sizeof name, "%s.compiled", table);
    FILE *f = fopen(name, "a");
    if (!f) return;
    for (; *command; command++) fprintf(f, "%s%c", *command, command[1] ? ' ' : '\n');
    fclose(f);
}

int main(int argc, char **argv)
{
    static key_text k;
    const char *table = getenv("QSF_OBJECTS"), *tree = getenv("QSF_TREE");
    const bool shown = argc > 1 && !strcmp(argv[1], "--key");
    char **command = argv + 1 + shown;
    if (argc < 2 + shown || !tree || !*tree) {
        fprintf(stderr, "compile_once [--key] COMPILER ARGUMENTS..., with QSF_OBJECTS and QSF_TREE\n");
        return 2;
    }
    if (shown) {
        key(&k, command, tree);
        return fwrite(k.bytes, 1, k.len, stdout) != k.len;
    }
    const char *object = after(command, "-o");
    if (table && object && after(command, "-c")) {
        key(&k, command, tree);
        char *found = find(table, &k);
        if (found && copy(found, object)) {
            write_no_dependencies(command);
            return 0;
        }
        free(found);
        say_compiled(table, command);
    }
    execvp(command[0], command);
    perror(command[0]);
    return 127;
}
