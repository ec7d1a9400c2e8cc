/* --grammar, --regex, --json-schema, --choices: what an answer may be; --accept asks whether a text
 * is.
 * SPDX-License-Identifier: MIT */
#include "run.h"

#include <stdlib.h>
#include <string.h>

/* The text of an option: itself where it has the mark of such a text, else the file of this
 * name. */
static const char *grammar_text(const char *text, const char *mark, char **owned, size_t *len)
{
    if (strstr(text, mark)) return *len = strlen(text), text;
    return *owned = read_whole(text, len);
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
            fputs("an answer has one grammar: give one of --grammar, --regex, --json-schema, --choices and "
                  "--json-object\n", stderr);
            return EXIT_USAGE;
        }
        const char *text = grammar_text(of[i].text, of[i].mark, &owned, &len);
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
    const bool whole = qsf_grammar_accepts(s->grammar, text, len, &fits);
    const char *rest = whole ? "" : text + fits;
    const bool line_end = !strcmp(rest, "\n") || !strcmp(rest, "\r\n");
    free(text);
    if (whole) puts("accepted");
    else if (fits < len) printf("refused at byte %zu\n", fits);
    else printf("not finished at byte %zu\n", fits);
    if (line_end) fputs("(the line end that the file ends with counts, too)\n", stderr);
    return whole ? EXIT_OK : EXIT_FAILED;
}
