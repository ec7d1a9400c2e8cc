/* --help: the options used most, all options, or one section of them.
 * SPDX-License-Identifier: MIT */
#include "options_own.h"

#include <string.h>

enum { HELP_WIDTH = 80, HELP_MARGIN = 30, HELP_BRIEF_MARGIN = 29 };

/* Prints text from column on, wrapped to HELP_WIDTH columns with the given margin. */
static void help_wrap(FILE *out, size_t column, size_t margin, const char *text)
{
    if (column >= margin) {
        fputc('\n', out);
        column = 0;
    }
    fprintf(out, "%*s", (int)(margin - column), "");
    column = margin;
    for (const char *p = text; *p;) {
        const size_t len = strcspn(p, " ");
        if (column > margin && column + 1 + len > HELP_WIDTH) {
            fprintf(out, "\n%*s", (int)margin, "");
            column = margin;
        } else if (column > margin) {
            fputc(' ', out);
            column++;
        }
        fprintf(out, "%.*s", (int)len, p);
        column += len;
        p += len + (p[len] == ' ');
    }
    fputc('\n', out);
}

/* The default as shown by the help, written to number if it must be formatted; NULL: none. */
static const char *help_default(const option_program *p, const option *o, char *number, size_t cap)
{
    const qsf_option *listed = option_of_library(o);
    const char *value = o->def;
    if (listed && listed->kind == QSF_OPTION_CHOICE) {
        size_t len;
        const char *word = option_choice_at(listed->choices, (int)listed->value, &len);
        snprintf(number, cap, "%.*s", (int)len, word);
        value = number;
    } else if (listed && (listed->kind == QSF_OPTION_WHOLE || listed->kind == QSF_OPTION_NUMBER)) {
        snprintf(number, cap, "%.7g", listed->value);
        value = number;
    }
    for (size_t i = 0; i < p->n_defaults; i++) {
        const option_default *d = &p->defaults[i];
        if (option_named(o, d->name, strlen(d->name))) value = d->shown ? d->shown : d->value;
    }
    return value;
}

/* The length of what the short help shows: up to ";" or ": ", not up to a name's "hf:". */
static size_t help_first(const char *help)
{
    size_t n = strcspn(help, ";:");
    while (help[n] == ':' && help[n + 1] != ' ') n += 1 + strcspn(help + n + 1, ";:");
    return n;
}

void option_help_text(const option_program *p, const option *o, bool brief, char *out, size_t cap)
{
    const qsf_option *listed = option_of_library(o);
    const char *help = listed ? listed->help : o->help, *more = listed && o->help ? o->help : NULL;
    char number[32], variable[64];
    const char *value = help_default(p, o, number, sizeof number);
    const size_t len = brief ? help_first(help) : strlen(help);
    option_env_name(o, p->prefix, variable, sizeof variable);
    if (brief) {
        more = NULL;
        if (value && !strcmp(value, "0")) value = NULL;     /* what 0 stands for is not shown */
    }
    const bool named = !brief && o->kind != OPTION_HELP;
    snprintf(out, cap, "%.*s%s%s%s%s%s%s%s%s", (int)len, help, more ? "; " : "", more ? more : "",
             value ? " (default " : "", value ? value : "", value ? ")" : "", named ? " [" : "",
             named ? variable : "", named ? "]" : "");
}

/* "-p, --prompt" from the names "-p --prompt".  brief, if not NULL, is the place of the name in the
 * page's list: only this name is printed, after a one-letter name. */
static void help_names(const option *o, const char *brief, char *out, size_t cap)
{
    size_t len = 0;
    if (brief) {
        const bool is_short = o->names[1] != '-' && o->names[2] == ' ';
        snprintf(out, cap, "%.*s%s%.*s", is_short ? 2 : 0, o->names, is_short ? ", " : "",
                 (int)strcspn(brief, " "), brief);
        return;
    }
    for (const char *at = o->names; *at && len + 4 < cap; at++) {
        if (*at == ' ') out[len++] = ',';
        out[len++] = *at;
    }
    out[len] = 0;
}

static void help_row(const option_program *p, const option *o, const char *brief, FILE *out)
{
    char text[OPTION_HELP_MAX], names[128];
    const bool flag = option_is_flag(o);
    help_names(o, brief, names, sizeof names);
    const int column = fprintf(out, "  %s%s%s", names, flag ? "" : " ", flag ? "" : option_arg(o));
    option_help_text(p, o, brief != NULL, text, sizeof text);
    help_wrap(out, (size_t)column, brief ? HELP_BRIEF_MARGIN : HELP_MARGIN, text);
}

static void help_brief(const option_program *p, FILE *out)
{
    size_t base;
    fputc('\n', out);
    for (const char *name = p->page->brief; *name;) {
        const size_t len = strcspn(name, " ");
        const option *o = program_option(p, name, len, &base);
        if (o) help_row(p, o, name, out);
        name += len + (name[len] == ' ');
    }
}

/* The sections of this topic, or all.  Returns how many there are. */
static size_t help_sections(const option_program *p, const char *topic, FILE *out)
{
    const option *o;
    size_t base, n = 0;
    bool wanted = false;
    for (size_t i = 0; (o = program_row(p, i, &base)); i++) {
        if (o->kind != OPTION_GROUP) {
            if (wanted) help_row(p, o, NULL, out);
            continue;
        }
        wanted = !strcmp(topic, "all") || !strcmp(topic, o->names);
        if (wanted) fprintf(out, "%s%s\n", n++ || !strcmp(topic, "all") ? "\n" : "", o->help);
    }
    return n;
}

/* "model chat answer" */
static void help_topics(const option_program *p, char *out, size_t cap)
{
    const option *o;
    size_t base, len = 0;
    *out = 0;
    for (size_t i = 0; (o = program_row(p, i, &base)); i++)
        if (o->kind == OPTION_GROUP && len < cap)
            len += (size_t)snprintf(out + len, cap - len, "%s%s", len ? " " : "", o->names);
}

bool program_help(const option_program *p, const char *topic, FILE *out)
{
    const option_page *page = p->page;
    const bool all = !strcmp(topic, "all");
    char topics[256];
    help_topics(p, topics, sizeof topics);
    if (*topic && !all) {
        if (help_sections(p, topic, out)) return true;
        fprintf(stderr, "--help has no topic \"%s\"; the topics are: %s all\n", topic, topics);
        return false;
    }
    fprintf(out, "%s\n\nUsage: %s\n%s", page->about, page->usage, page->examples);
    if (all) {
        fprintf(out, "\nEach option can also be set by the environment variable in brackets.\n"
                "Exit codes: %s.\n", page->exit_codes);
        help_sections(p, topic, out);
    } else {
        help_brief(p, out);
        fprintf(out, "\n--help all shows every option, --help TOPIC one section.  Topics:\n");
        help_wrap(out, 0, 2, topics);
    }
    return true;
}
