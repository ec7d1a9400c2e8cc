/* Relaxes tools' schemas that need not be enforced completely, and reports what was removed.
 * SPDX-License-Identifier: MIT */
#include "grammar/schema_loosen.h"
#include "chat/tools.h"

/* The schema of a tool that may be relaxed and that the answer may call; else NULL. */
static qsf_json_node *tool_parameters(const qsf_tool_grammar_ask *ask, qsf_json_node *tool, const char **name)
{
    const qsf_json_node *in = qsf_json_member(tool, "function"), *strict, *called;
    if (!in) in = tool;
    strict = qsf_json_member(in, "strict");
    called = qsf_json_member(in, "name");
    const qsf_json_node *schema = qsf_json_member(in, "parameters");
    if (!schema || schema->type != QSF_JSON_OBJECT || !schema->n) return NULL;
    if (strict && strict->type == QSF_JSON_TRUE) return NULL;
    if (ask->only && !(called && qsf_json_is_text(called, ask->only))) return NULL;
    *name = called && called->type == QSF_JSON_TEXT ? called->text : "";
    return tool + (schema - tool);
}

/* For qsf_schema_loosen: the tool's name, and the report so far. */
typedef struct tools_report { qsf_text *said; const char *name; } tools_report;

static void tools_say(void *user, const char *why)
{
    const tools_report *r = user;
    qsf_text_put(r->said, r->said->n ? "\n" : "");
    qsf_text_put(r->said, r->name);
    qsf_text_put(r->said, ": ");
    qsf_text_put(r->said, why);
}

bool qsf_tools_loosen(const qsf_tool_grammar_ask *ask, const qsf_schema_options *how, qsf_text *said)
{
    const size_t before = said->n;
    qsf_json_node *t = ask->tools ? ask->tools + 1 : NULL;
    for (uint32_t i = 0; ask->tools && i < ask->tools->n; i++, t += t->skip) {
        tools_report r = { said, NULL };
        qsf_schema_options own = *how;
        qsf_error err;
        qsf_json_node *schema = tool_parameters(ask, t, &r.name);
        own.object = true;
        own.what = "parameters";
        if (schema && qsf_schema_loosen(ask->platform, schema, &own, ask->most_memory, tools_say, &r, &err))
            return false;
    }
    return said->n != before;
}

bool qsf_tools_open_largest(const qsf_tool_grammar_ask *ask, qsf_text *said)
{
    qsf_json_node *t = ask->tools ? ask->tools + 1 : NULL, *largest = NULL;
    tools_report r = { said, NULL };
    const char *name;
    for (uint32_t i = 0; ask->tools && i < ask->tools->n; i++, t += t->skip) {
        qsf_json_node *schema = tool_parameters(ask, t, &name);
        if (!schema || qsf_json_is_text(schema + 1, "$comment")) continue;
        if (largest && schema->skip <= largest->skip) continue;
        largest = schema;
        r.name = name;
    }
    if (!largest) return false;
    qsf_schema_open(largest);
    tools_say(&r, "parameters: the tools together make too large a grammar; any object is accepted");
    return true;
}
