/* Fuzz target: any text as a template.  It renders twice alike, in much memory as in little where
 * that is enough, never past its limits, and never takes a foreign byte for the template's.
 * SPDX-License-Identifier: MIT */
#include "chat/jinja_json.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A character of foreign texts that no template says, unless by its number. */
#define FUZZ_FOREIGN "\xf4\x8f\xbf\xbd"

static const char fuzz_variables[] =
    "{\"messages\": [{\"role\": \"user\", \"content\": \" \xc3\xa9 1\\n" FUZZ_FOREIGN "\"},"
    " {\"role\": \"assistant\", \"content\": \"<think>a</think>b" FUZZ_FOREIGN "\","
    "  \"tool_calls\": [{\"type\": \"function\", \"function\":"
    "   {\"name\": \"f" FUZZ_FOREIGN "\", \"arguments\": {\"a\": 1, \"b\": [2.5, null]}}}]},"
    " {\"role\": \"tool\", \"content\": [{\"type\": \"text\", \"text\": \"" FUZZ_FOREIGN "<|im_end|>\"}]}],"
    " \"tools\": [{\"name\": \"f\", \"parameters\": {\"type\": \"object\", \"a" FUZZ_FOREIGN "\": {}}}],"
    " \"add_generation_prompt\": true, \"n\": -7, \"f\": 0.1, \"big\": 123456789012345678901}";

typedef struct fuzz_made { qsf_status st; char *text; uint8_t *own; size_t len; } fuzz_made;

static void fuzz_drop(fuzz_made *m)
{
    free(m->text);
    free(m->own);
}

/* In a block and a buffer of exactly these sizes, so that a sanitizer sees what goes past them. */
static fuzz_made fuzz_render(const char *text, size_t n, size_t mem_size, size_t cap)
{
    static qsf_jinja_value values[128];
    static qsf_jinja_var vars[9];
    static uint32_t n_vars;
    if (!n_vars) {
        static qsf_json j;
        if (qsf_json_read(qsf_platform_native(), fuzz_variables, sizeof fuzz_variables - 1, "variables", &j,
                          NULL)
            || j.n_nodes > QSF_ARRAY_LEN(values)) abort();
        qsf_jinja_from_json(j.nodes, values);
        for (; n_vars < values[0].n; n_vars++)
            vars[n_vars] = (qsf_jinja_var){ values[0].as.items[2 * n_vars].as.text,
                                            values[0].as.items[2 * n_vars + 1] };
        vars[n_vars++] = (qsf_jinja_var){ "eos_token", qsf_jinja_text("</s>") };
        vars[n_vars - 1].value.flags = QSF_JINJA_OWN;
    }
    fuzz_made m = { QSF_OK, malloc(cap), malloc((cap + 7) / 8), 0 }, again = { QSF_OK, malloc(cap), NULL, 0 };
    void *mem = malloc(mem_size);
    qsf_jinja *t;
    m.st = qsf_jinja_parse(mem, mem_size, text, n, &t, NULL);
    if (!m.st) {
        m.st = qsf_jinja_render(t, vars, n_vars, 1000000000, 50000, m.text, cap, &m.len, m.own, NULL);
        again.st = qsf_jinja_render(t, vars, n_vars, 1000000000, 50000, again.text, cap, &again.len, NULL,
                                    NULL);
        if (again.st != m.st || again.len != m.len || memcmp(m.text, again.text, m.len + 1)) abort();
        if (m.len >= cap || m.text[m.len]) abort();
    }
    if (m.st && m.st != QSF_E_ARGUMENT && m.st != QSF_E_UNSUPPORTED && m.st != QSF_E_CANCELLED &&
        m.st != QSF_E_BUDGET && m.st != QSF_E_MEMORY)
        abort();
    fuzz_drop(&again);
    free(mem);
    return m;
}

/* Whether the template can write the foreign character itself. */
static bool fuzz_may_write(const char *text, size_t n)
{
    for (size_t i = 0; i + 1 < n; i++)
        if ((text[i] == '\\' && (text[i + 1] == 'U' || text[i + 1] == '\n')) || text[i] == '\xf4'
            || (text[i] == '%' && text[i + 1] != '}') || text[i] == '\r')
            return true;
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size ? size : 1);
    if (size) memcpy(text, data, size);
    fuzz_made much = fuzz_render(text, size, 1 << 19, 1 << 13),
        little = fuzz_render(text, size, 40960, 1 << 10);
    if (!little.st
        && (much.st || little.len != much.len || memcmp(much.text, little.text, much.len))) abort();
    for (size_t i = 0; !much.st && i + 4 <= much.len && !fuzz_may_write(text, size); i++)
        for (size_t k = i; !memcmp(much.text + i, FUZZ_FOREIGN, 4) && k < i + 4; k++)
            if (qsf_jinja_is_own(much.own, k)) abort();
    fuzz_drop(&much);
    fuzz_drop(&little);
    free(text);
    return 0;
}
