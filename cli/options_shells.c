/* --completion: the option table as completion scripts of bash, zsh and fish.
 * SPDX-License-Identifier: MIT */
#include "options_own.h"

#include <string.h>

/* ---- what the scripts share ---- */

/* What may follow an option. */
typedef enum value_class { VALUE_NONE, VALUE_CHOICE, VALUE_TOPIC, VALUE_FILE, VALUE_FREE } value_class;

/* *words: those of a choice, "a|b|c". */
static value_class value_of(const option *o, const char **words)
{
    const qsf_option *listed = option_of_library(o);
    *words = listed ? listed->choices : o->choices;
    if (option_is_flag(o)) return VALUE_NONE;
    if (o->kind == OPTION_HELP) return VALUE_TOPIC;
    if (*words && **words) return VALUE_CHOICE;
    const char *arg = option_arg(o);
    return strstr(arg, "FILE") || strstr(arg, "PATH") || strstr(arg, "DIR") ? VALUE_FILE : VALUE_FREE;
}

/* The words of "a|b|c" or "a b c" with another character between them; of "a-b-c", too, if it is
 * '_'. */
static void words_print(FILE *out, const char *words, char between)
{
    for (; *words; words++) {
        const bool ends = *words == '|' || *words == ' ' || (between == '_' && *words == '-');
        fputc(ends ? between : *words, out);
    }
}

/* A list of words that a page may leave out. */
static const char *word_list(const char *words) { return words ? words : ""; }

/* The short help inside quotes; escaped: characters that get a backslash. */
static void help_print(const option_program *p, const option *o, const char *escaped, FILE *out)
{
    char text[OPTION_HELP_MAX];
    option_help_text(p, o, true, text, sizeof text);
    for (const char *c = text; *c; c++) {
        if (*c == '\'' && !strchr(escaped, '\'')) {
            fputs("'\\''", out);
            continue;
        }
        if (strchr(escaped, *c)) fputc('\\', out);
        fputc(*c, out);
    }
}

static void topics_print(const option_program *p, FILE *out)
{
    const option *o;
    size_t base;
    fputs("all", out);
    for (size_t i = 0; (o = program_row(p, i, &base)); i++)
        if (o->kind == OPTION_GROUP) fprintf(out, " %s", o->names);
}

/* The words of a value, with spaces between them. */
static void value_words(const option_program *p, const option *o, FILE *out)
{
    const char *words;
    if (value_of(o, &words) == VALUE_TOPIC) topics_print(p, out);
    else words_print(out, words, ' ');
}

static bool has_words(const option *o)
{
    const char *words;
    if (o->kind == OPTION_GROUP) return false;
    const value_class is = value_of(o, &words);
    return is == VALUE_CHOICE || is == VALUE_TOPIC;
}

/* ---- bash ---- */

/* "    -p|--prompt) return ;;": after these options nothing is offered. */
static void bash_free_values(const option_program *p, FILE *out)
{
    const option *o;
    const char *words, *between = "    ";
    size_t base;
    for (size_t i = 0; (o = program_row(p, i, &base)); i++) {
        if (o->kind == OPTION_GROUP || value_of(o, &words) != VALUE_FREE) continue;
        fputs(between, out);
        words_print(out, o->names, '|');
        between = "|";
    }
    if (*between == '|') fputs(") return ;;\n", out);
}

static void bash_values(const option_program *p, FILE *out)
{
    const option *o;
    size_t base;
    for (size_t i = 0; (o = program_row(p, i, &base)); i++) {
        if (!has_words(o)) continue;
        fputs("    ", out);
        words_print(out, o->names, '|');
        fputs(") COMPREPLY=($(compgen -W '", out);
        value_words(p, o, out);
        fputs("' -- \"$cur\")); return ;;\n", out);
    }
    bash_free_values(p, out);
}

/* After "qsf run" the function of qsf-run completes, from the file next to this one. */
static void bash_programs(const char *programs, FILE *out)
{
    if (!*programs) return;
    fputs("    case ${COMP_WORDS[1]} in ", out);
    words_print(out, programs, '|');
    fputs(")\n        if [ \"$COMP_CWORD\" -gt 1 ]; then\n"
          "            local program=qsf-${COMP_WORDS[1]}\n"
          "            . \"${BASH_SOURCE[0]%/" "*}/$program\" || return\n"
          "            COMP_WORDS=(\"$program\" \"${COMP_WORDS[@]:2}\")\n"
          "            COMP_CWORD=$((COMP_CWORD - 1))\n"
          "            \"_${program//-/_}\"\n"
          "            return\n        fi ;;\n    esac\n", out);
}

static void program_bash(const option_program *p, FILE *out)
{
    const option *o;
    size_t base;
    fprintf(out, "# Completion of %s for bash, printed by %s --completion bash.\n_", p->name, p->name);
    words_print(out, p->name, '_');
    fputs("()\n{\n    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
          "    COMPREPLY=()\n", out);
    bash_programs(word_list(p->page->programs), out);
    fputs("    if [ \"$cur\" = = ]; then cur=\n"
          "    elif [ \"$prev\" = = ]; then prev=${COMP_WORDS[COMP_CWORD-2]}; fi\n"
          "    case $prev in\n", out);
    bash_values(p, out);
    fputs("    esac\n    case $cur in\n    -*) COMPREPLY=($(compgen -W '", out);
    for (size_t i = 0; (o = program_row(p, i, &base)); i++)
        if (o->kind != OPTION_GROUP) fprintf(out, "%s ", o->names);
    fputs("' -- \"$cur\")); return ;;\n    esac\n", out);
    if (*word_list(p->page->commands) || *word_list(p->page->programs)) {
        fprintf(out, "    if [ \"$COMP_CWORD\" = 1 ]; then\n"
                "        COMPREPLY=($(compgen -W '%s %s' -- \"$cur\"))\n    fi\n",
                word_list(p->page->programs), word_list(p->page->commands));
    }
    fputs("    local IFS=$'\\n'\n    COMPREPLY+=($(compgen -f -- \"$cur\"))\n"
          "    compopt -o filenames 2>/dev/null\n}\ncomplete -F _", out);
    words_print(out, p->name, '_');
    fprintf(out, " %s\n", p->name);
}

/* ---- zsh ---- */

/* ":TEXT:" and what may stand there. */
static void zsh_value(const option_program *p, const option *o, FILE *out)
{
    const char *words;
    const value_class is = value_of(o, &words);
    if (is == VALUE_NONE) return;
    fputs(is == VALUE_TOPIC ? "::" : ":", out);
    for (const char *c = option_arg(o); *c; c++) {
        if (*c == ':' || *c == '\'') fputc('\\', out);
        fputc(*c, out);
    }
    fputc(':', out);
    if (has_words(o)) {
        fputc('(', out);
        value_words(p, o, out);
        fputc(')', out);
    } else if (is == VALUE_FILE) {
        fputs("_files", out);
    }
}

/* "  '(-p --prompt)'{-p,--prompt=}'[the prompt]:TEXT:'" */
static void zsh_option(const option_program *p, const option *o, FILE *out)
{
    const bool many = strchr(o->names, ' '), list = o->kind == OPTION_LIST;
    const char *words;
    const value_class is = value_of(o, &words);
    fputs("  '", out);
    if (list) fputc('*', out);
    else if (many) fprintf(out, "(%s)", o->names);
    fputs(many ? "'{" : "", out);
    for (const char *name = o->names; *name;) {
        const size_t len = strcspn(name, " ");
        const bool assigned = len > 2 && name[1] == '-' && is != VALUE_NONE && is != VALUE_TOPIC;
        fprintf(out, "%.*s%s%s", (int)len, name, assigned ? "=" : "", name[len] ? "," : "");
        name += len + (name[len] == ' ');
    }
    fputs(many ? "}'[" : "[", out);
    help_print(p, o, "[]\\", out);
    fputc(']', out);
    zsh_value(p, o, out);
    fputs("' \\\n", out);
}

static void program_zsh(const option_program *p, FILE *out)
{
    const option_page *page = p->page;
    const char *programs = word_list(page->programs), *commands = word_list(page->commands);
    const option *o;
    size_t base;
    fprintf(out, "#compdef %s\n# Completion for zsh, printed by %s --completion zsh.\n", p->name, p->name);
    if (*programs) {
        fputs("case $words[2] in ", out);
        words_print(out, programs, '|');
        fputs(")\n  if (( CURRENT > 2 )); then\n    local program=qsf-$words[2]\n"
              "    words=($program \"${(@)words[3,-1]}\")\n    (( CURRENT-- ))\n"
              "    _$program\n    return\n  fi ;;\nesac\n", out);
    }
    fputs("_arguments \\\n", out);
    for (size_t i = 0; (o = program_row(p, i, &base)); i++)
        if (o->kind != OPTION_GROUP) zsh_option(p, o, out);
    if (*commands || *programs) fprintf(out, "  '1:command:(%s %s)' \\\n", programs, commands);
    fputs("  '*:file:_files'\n", out);
}

/* ---- fish ---- */

static void fish_option(const option_program *p, const option *o, const char *when, FILE *out)
{
    const char *words;
    const value_class is = value_of(o, &words);
    fprintf(out, "complete -c %s%s", p->name, when);
    for (const char *name = o->names; *name;) {
        const size_t len = strcspn(name, " ");
        const char *form = name[1] == '-' ? "-l" : len == 2 ? "-s" : "-o";
        const size_t dashes = name[1] == '-' ? 2 : 1;
        fprintf(out, " %s %.*s", form, (int)(len - dashes), name + dashes);
        name += len + (name[len] == ' ');
    }
    if (is == VALUE_FILE) fputs(" -r -F", out);
    else if (is != VALUE_NONE) fputs(" -x", out);
    if (has_words(o)) {
        fputs(" -a '", out);
        value_words(p, o, out);
        fputc('\'', out);
    }
    fputs(" -d '", out);
    help_print(p, o, "\\'", out);
    fputs("'\n", out);
}

static void program_fish(const option_program *p, FILE *out)
{
    const char *programs = word_list(p->page->programs), *commands = word_list(p->page->commands);
    char when[128] = "";
    const option *o;
    size_t base;
    fprintf(out, "# Completion of %s for fish, printed by %s --completion fish.\n", p->name, p->name);
    if (*programs) {
        fprintf(out, "function __%s_program\n    set -l words (commandline -opc)\n"
                "    complete -C \"qsf-$words[2] $words[3..] \"(commandline -ct)\nend\n"
                "complete -c %s -n '__fish_seen_subcommand_from %s' -f -a '(__%s_program)'\n",
                p->name, p->name, programs, p->name);
        snprintf(when, sizeof when, " -n 'not __fish_seen_subcommand_from %s'", programs);
    }
    if (*commands || *programs)
        fprintf(out, "complete -c %s -n '__fish_use_subcommand' -a '%s %s'\n", p->name, programs, commands);
    for (size_t i = 0; (o = program_row(p, i, &base)); i++)
        if (o->kind != OPTION_GROUP) fish_option(p, o, when, out);
}

void program_completion(const option_program *p, const char *shell, FILE *out)
{
    if (!strcmp(shell, "zsh")) program_zsh(p, out);
    else if (!strcmp(shell, "fish")) program_fish(p, out);
    else program_bash(p, out);
}
