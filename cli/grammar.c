/* --grammar, --regex, --json-schema, --choices: constraints on the answer; --accept checks a string
 * against them.
 * SPDX-License-Identifier: MIT */
#include "run.h"

#include <stdlib.h>
#include <string.h>

/* The text of an option: the argument itself if it contains the mark, else the file with this
 * name. */
static const char *grammar_text(const char *text, const char *mark, char **owned, size_t *len)
{
    if (strstr(text, mark)) return *len = strlen(text), text;
    return *owned = read_whole(text, len);
}

/* --choices as people type it: yes,no becomes a line each. */
static const char *choices_text(const char *text, char **owned, size_t *len)
{
    char *out = *owned = malloc(strlen(text) + 1);
    if (!out) return perror("--choices"), NULL;
    if (text[0] == '[' || strchr(text, '\n')) return *len = strlen(text), strcpy(out, text);
    size_t n = 0;
    for (const char *c = text; *c; c++) {
        if (*c != ',') {
            out[n++] = *c;
            continue;
        }
        while (n && out[n - 1] == ' ') n--;
        out[n++] = '\n';
        while (c[1] == ' ') c++;
    }
    *len = n;
    return out;
}

int grammar_open(run_session *s)
{
    const run_settings *set = s->set;
    const struct { const char *text, *mark; qsf_grammar_kind kind; } of[] = {
        { set->grammar, "::=", QSF_GRAMMAR_GBNF }, { set->regex, "", QSF_GRAMMAR_REGEX },
        { set->json_schema, "{", QSF_GRAMMAR_JSON_SCHEMA }, { set->choices, "", QSF_GRAMMAR_CHOICES },
        { set->json_object ? "" : NULL, "", QSF_GRAMMAR_JSON },
    };
    qsf_grammar_options o;
    qsf_grammar_defaults(&o);
    o.json_blanks = set->json_blanks < 0 ? UINT32_MAX : (uint32_t)set->json_blanks;
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++) {
        char *owned = NULL;
        size_t len;
        if (!of[i].text) continue;
        if (s->grammar) {
            fputs("an answer can have only one grammar: give one of --grammar, --regex, --json-schema, "
                  "--choices and --json-object\n", stderr);
            return EXIT_USAGE;
        }
        const char *text = of[i].kind == QSF_GRAMMAR_CHOICES ? choices_text(of[i].text, &owned, &len)
                         : grammar_text(of[i].text, of[i].mark, &owned, &len);
        if (!text) return EXIT_IO;
        const qsf_status st = qsf_grammar_new(s->model, of[i].kind, text, len, &o, &s->grammar, &s->error);
        free(owned);
        if (st) return report(&s->error), st == QSF_E_MEMORY ? EXIT_NO_MEMORY : EXIT_USAGE;
    }
    return EXIT_OK;
}

int run_accept(run_session *s)
{
    size_t len, fits;
    if (!s->grammar) {
        fputs("--accept needs a grammar: --grammar, --regex, --json-schema, --choices or --json-object\n",
              stderr);
        return EXIT_USAGE;
    }
    char *text = read_whole(s->set->accept, &len);
    if (!text) return EXIT_IO;
    bool whole = qsf_grammar_accepts(s->grammar, text, len, &fits);
    if (!whole && len && text[len - 1] == '\n') {       /* an editor's line end, which no text has */
        const size_t less = len - 1 - (len > 1 && text[len - 2] == '\r');
        size_t fits_less;
        whole = qsf_grammar_accepts(s->grammar, text, less, &fits_less);
        if (fits <= less) fits = fits_less, len = less;
    }
    free(text);
    if (whole) puts("accepted");
    else if (fits < len) printf("refused at byte %zu\n", fits);
    else printf("not finished at byte %zu\n", fits);
    return whole ? EXIT_OK : EXIT_FAILED;
}
