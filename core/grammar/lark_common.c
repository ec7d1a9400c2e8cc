/* The terminals that a Lark grammar can import from "common", as patterns.
 * SPDX-License-Identifier: MIT */
#include "grammar/lark_common.h"

#define INT "[0-9]+"
#define SIGNED "[+-]?"
#define DECIMAL "(?:[0-9]+\\.[0-9]*|\\.[0-9]+)"
#define EXPONENT "[eE][+-]?[0-9]+"
#define FLOAT "(?:[0-9]+" EXPONENT "|" DECIMAL "(?:" EXPONENT ")?)"

/* A quoted string ends at its first unescaped quote, and a comment at the first sequence that can
 * end it.  Lazy quantifiers would match longer inputs here. */
static const struct { char name[16]; const char *pattern; } terminals[] = {
    { "DIGIT", "[0-9]" }, { "HEXDIGIT", "[0-9a-fA-F]" }, { "INT", INT }, { "SIGNED_INT", SIGNED INT },
    { "DECIMAL", DECIMAL }, { "FLOAT", FLOAT }, { "SIGNED_FLOAT", SIGNED FLOAT },
    { "NUMBER", "(?:" FLOAT "|" INT ")" }, { "SIGNED_NUMBER", SIGNED "(?:" FLOAT "|" INT ")" },
    { "ESCAPED_STRING", "\"(?:[^\"\\\\\\n]|\\\\[^\\n])*\"" },
    { "LCASE_LETTER", "[a-z]" }, { "UCASE_LETTER", "[A-Z]" }, { "LETTER", "[A-Za-z]" },
    { "WORD", "[A-Za-z]+" }, { "CNAME", "[A-Za-z_][A-Za-z_0-9]*" },
    { "WS_INLINE", "[ \\t]+" }, { "WS", "[ \\t\\f\\r\\n]+" }, { "CR", "\\r" }, { "LF", "\\n" },
    { "NEWLINE", "(?:\\r?\\n)+" },
    { "SH_COMMENT", "#[^\\n]*" }, { "CPP_COMMENT", "//[^\\n]*" }, { "SQL_COMMENT", "--[^\\n]*" },
    { "C_COMMENT", "/\\*(?:[^*]|\\*+[^*/])*\\*+/" },
};

const char *qsf_lark_common(const char *name, size_t len)
{
    for (size_t i = 0; i < QSF_ARRAY_LEN(terminals); i++)
        if (strlen(terminals[i].name) == len && !memcmp(terminals[i].name, name, len))
            return terminals[i].pattern;
    return NULL;
}
