/* --manual: the option table as a manual page, in the macros that every man reads.
 * SPDX-License-Identifier: MIT */
#include "options_own.h"

#include <ctype.h>
#include <string.h>

/* The programs that have a page. */
static const char *const manual_pages[] = { "qsf", "qsf-bench", "qsf-convert", "qsf-parity", "qsf-run",
                                            "qsf-serve" };

/* Text that roff prints unchanged: no line begins a request, and hyphens stay those of options. */
static void roff_text(FILE *out, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        const bool begins = !i || text[i - 1] == '\n';
        if (begins && (text[i] == '.' || text[i] == '\'')) fputs("\\&", out);
        if (text[i] == '\\') fputs("\\e", out);
        else if (text[i] == '-') fputs("\\-", out);
        else fputc(text[i], out);
    }
}

static void roff_line(FILE *out, const char *text)
{
    roff_text(out, text, strlen(text));
    fputc('\n', out);
}

/* "QSF\-RUN" */
static void roff_capitals(FILE *out, const char *name)
{
    for (; *name; name++) {
        const char c = (char)toupper((unsigned char)*name);
        roff_text(out, &c, 1);
    }
}

static void manual_option(const option_program *p, const option *o, FILE *out)
{
    char text[OPTION_HELP_MAX];
    fputs(".TP\n", out);
    for (const char *name = o->names; *name;) {
        const size_t len = strcspn(name, " ");
        fputs("\\fB", out);
        roff_text(out, name, len);
        fputs("\\fR", out);
        name += len + (name[len] == ' ');
        if (*name) fputs(", ", out);
    }
    if (!option_is_flag(o)) {
        fputs(" \\fI", out);
        roff_text(out, option_arg(o), strlen(option_arg(o)));
        fputs("\\fR", out);
    }
    fputc('\n', out);
    option_help_text(p, o, false, text, sizeof text);
    roff_line(out, text);
}

static void manual_options(const option_program *p, FILE *out)
{
    const option *o;
    size_t base;
    fputs(".SH OPTIONS\n", out);
    for (size_t i = 0; (o = program_row(p, i, &base)); i++) {
        if (o->kind != OPTION_GROUP) {
            manual_option(p, o, out);
            continue;
        }
        fputs(".SS ", out);
        roff_line(out, o->help);
    }
}

void program_manual(const option_program *p, FILE *out)
{
    const option_page *page = p->page;
    const char *about = page->about;
    fputs(".TH ", out);
    roff_capitals(out, p->name);
    fprintf(out, " 1 \"\" \"libqsf %s\" \"libqsf\"\n.nh\n.ad l\n.SH NAME\n", qsf_version());
    roff_text(out, p->name, strlen(p->name));
    fprintf(out, " \\- %c", tolower((unsigned char)*about));      /* without the full stop */
    roff_text(out, about + 1, strlen(about) - 2);
    fputs("\n.SH SYNOPSIS\n", out);
    roff_line(out, page->usage);
    fputs(".SH DESCRIPTION\n", out);
    roff_line(out, about);
    manual_options(p, out);
    fputs(".SH ENVIRONMENT\nEach option can also be set by the environment variable in brackets.\n"
          ".SH EXIT STATUS\n", out);
    roff_line(out, page->exit_codes);
    fputs(".SH EXAMPLES\n.nf\n", out);
    roff_text(out, page->examples, strlen(page->examples));
    fputs(".fi\n.SH SEE ALSO\n", out);
    const size_t n = sizeof manual_pages / sizeof manual_pages[0];
    const bool last_is_own = !strcmp(manual_pages[n - 1], p->name);
    for (size_t i = 0; i < n; i++) {
        if (!strcmp(manual_pages[i], p->name)) continue;
        fputs(".BR ", out);
        roff_text(out, manual_pages[i], strlen(manual_pages[i]));
        fprintf(out, " (1)%s\n", i + 1 + last_is_own < n ? "," : "");
    }
}
