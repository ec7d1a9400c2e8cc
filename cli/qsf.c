/* qsf: one name for all programs, as git has it, and the cache of downloaded models.
 * SPDX-License-Identifier: MIT */
#include "list.h"
#include "run.h"
#include "start.h"

#include <stdlib.h>
#include <string.h>

typedef struct qsf_asked {
    model_settings models;
    about_settings about;
} qsf_asked;

static const char *const programs[] = { "run", "serve", "convert", "bench", "parity" };
enum { PROGRAMS = sizeof programs / sizeof programs[0] };

static const option_page qsf_page = {
    .about = "Runs language models, and manages the models that were downloaded by name.",
    .usage = "qsf COMMAND [options] ...",
    .examples = "  qsf run MODEL                answers and chats; as qsf-run, and so are the next ones:\n"
                "  qsf serve MODEL...           models over HTTP\n"
                "  qsf convert INPUT OUTPUT     QSF files from GGUF files and Hugging Face directories\n"
                "  qsf bench MODEL...           how fast models run\n"
                "  qsf parity MODEL             comparing with another engine\n"
                "  qsf list                     the models in the cache\n"
                "  qsf show OWNER/REPO          the models of a repository, and which one would be taken\n"
                "  qsf pull OWNER/REPO...       downloads models, and prints their paths\n"
                "  qsf rm OWNER/REPO...         removes models from the cache; also :Q8_0, /FILE, @REVISION\n"
                "\n  qsf COMMAND --help shows the options of a program.\n",
    .brief = "--hub --offline",
    .exit_codes = "0 ok, 1 failed, 2 usage, 3 bad model, 4 memory, 5 input or output, 130 interrupted",
    .commands = "list show pull rm",
    .programs = "run serve convert bench parity",
};

static const char *size_text(char out[24], uint64_t bytes)
{
    if (bytes < 999950000) snprintf(out, 24, "%.1f MB", (double)bytes / 1e6);
    else snprintf(out, 24, "%.2f GB", (double)bytes / 1e9);
    return out;
}

/* ---- the commands ---- */

typedef struct list_sum { uint64_t bytes; size_t n; } list_sum;

static void list_entry(void *user, const hub_entry *e)
{
    list_sum *sum = user;
    char size[24];
    printf("%10s  %s\n", size_text(size, e->bytes), e->name);
    sum->bytes += e->bytes;
    sum->n++;
}

static int command_list(const qsf_asked *a, const option_list *names)
{
    list_sum sum = { 0 };
    qsf_error err;
    char size[24];
    (void)a, (void)names;
    if (hub_list(list_entry, &sum, &err)) return report(&err);
    if (terminal_is(stdout))
        printf("%zu model%s, %s\n", sum.n, sum.n == 1 ? "" : "s", size_text(size, sum.bytes));
    return EXIT_OK;
}

static void show_model(void *user, const hub_shown *m)
{
    char size[24], parts[32] = "";
    (void)user;
    if (m->n_parts > 1) snprintf(parts, sizeof parts, "  %u parts", m->n_parts);
    printf("%c %-10s %10s  %s%s%s%s\n", m->chosen ? '*' : ' ', *m->label ? m->label : "-",
           size_text(size, m->bytes), m->file, parts, m->path ? "  " : "", m->path ? m->path : "");
}

static int command_show(const qsf_asked *a, const option_list *names)
{
    const hub_options o = model_names_hub(&a->models, 0);
    qsf_error err;
    for (size_t i = 0; i < names->n; i++)
        if (hub_show(&o, names->items[i], show_model, NULL, &err)) return report(&err);
    return EXIT_OK;
}

static int command_pull(const qsf_asked *a, const option_list *names)
{
    for (size_t i = 0; i < names->n; i++) {
        const char *path = names->items[i];
        const int code = model_names_find(&a->models, &path, 0);
        if (code) return code;
        puts(path);
    }
    return EXIT_OK;
}

static int command_rm(const qsf_asked *a, const option_list *names)
{
    (void)a;
    for (size_t i = 0; i < names->n; i++) {
        uint64_t freed;
        qsf_error err;
        char size[24];
        if (hub_remove(names->items[i], &freed, &err)) return report(&err);
        printf("%s freed\n", size_text(size, freed));
    }
    return EXIT_OK;
}

static const struct command {
    const char *name;
    int (*run)(const qsf_asked *a, const option_list *names);
    bool named;
} commands[] = {
    { "list", command_list, false }, { "ls", command_list, false }, { "show", command_show, true },
    { "pull", command_pull, true },  { "rm", command_rm, true },
};

/* ---- which one ---- */

static int unknown(const char *word)
{
    fprintf(stderr, "qsf: \"%s\" is not a command; there are", word);
    for (int i = 0; i < PROGRAMS; i++) fprintf(stderr, " %s,", programs[i]);
    fputs(" list, show, pull and rm; qsf --help shows what they do\n", stderr);
    return EXIT_USAGE;
}

static int run_command(qsf_asked *a, const option_list *rest)
{
    const char *word = rest->items[0];
    const struct command *c = commands, *end = commands + sizeof commands / sizeof commands[0];
    option_list names = { .n = 0 };
    while (c < end && strcmp(c->name, word)) c++;
    if (c == end) return unknown(word);
    for (size_t i = 1; i < rest->n && a->models.names.n < OPTION_LIST_MAX; i++)
        a->models.names.items[a->models.names.n++] = rest->items[i];
    const int code = model_names_add(&a->models, &names);
    if (code) return code;
    if (c->named == (names.n > 0)) return c->run(a, &names);
    fprintf(stderr, c->named ? "qsf %s takes names of models: qsf %s OWNER/REPO\n"
            : "qsf %s takes no names\n", word, word);
    return EXIT_USAGE;
}

/* The place of a program's name among the arguments' first; -1: it is not one. */
static int program_asked(int argc, char **argv)
{
    for (int i = 0; i < PROGRAMS && argc > 1; i++) if (!strcmp(argv[1], programs[i])) return i;
    return -1;
}

static int run_program(const char *self, const char *name, char **argv)
{
    char program[32];
    snprintf(program, sizeof program, "qsf-%s", name);
    const int code = start_program(self, program, argv);
    if (code >= 0) return code;
    fprintf(stderr, "qsf %s needs the program %s in the same folder, and it is missing: it is built if its "
            "libraries are installed (docs/building.md)\n", name, program);
    return EXIT_FAILED;
}

int main(int argc, char **argv)
{
    qsf_asked a = { 0 };
    option_list rest;
    int code = program_asked(argc, argv);
    if (code >= 0) return run_program(argv[0], programs[code], argv + 1);
    terminal_init();
    const option_part parts[] = { model_names_options(offsetof(qsf_asked, models)),
                                  common_options(COMMON_ABOUT, offsetof(qsf_asked, about)) };
    const size_t n_parts = sizeof parts / sizeof parts[0];
    const option_program program = { parts, n_parts, NULL, 0, "QSF_", "qsf", &qsf_page };
    if (!common_parse(&program, &a, &a.about, argc, argv, &rest, &code)) return code;
    if (!rest.n) {
        fputs("no command was given: qsf COMMAND; qsf --help lists them\n", stderr);
        return EXIT_USAGE;
    }
    return output_end(run_command(&a, &rest));
}
