/* Fuzz target: any text as a template.  It renders twice alike, in much memory as in little where
 * that is enough, and never past its limits.
 * SPDX-License-Identifier: MIT */
#include "text/jinja.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* In a block and a buffer of exactly these sizes, so that a sanitizer sees what goes past them. */
static qsf_status fuzz_render(const char *text, size_t n, size_t mem_size, size_t cap, char **out,
                              size_t *len)
{
    const qsf_jinja_value user[] = { qsf_jinja_text("role"), qsf_jinja_text("user"),
                                     qsf_jinja_text("content"), qsf_jinja_text(" \xc3\xa9 1\n") };
    const qsf_jinja_value answer[] = { qsf_jinja_text("role"), qsf_jinja_text("assistant"),
                                       qsf_jinja_text("content"), qsf_jinja_text("<think>a</think>b") };
    const qsf_jinja_value messages[] = { qsf_jinja_dict(user, 2), qsf_jinja_dict(answer, 2) };
    const qsf_jinja_var vars[] = { { "messages", qsf_jinja_list(messages, 2) },
                                   { "add_generation_prompt", qsf_jinja_bool(true) },
                                   { "eos_token", qsf_jinja_text("</s>") } };
    void *mem = malloc(mem_size);
    char *again = malloc(cap);
    qsf_jinja *t;
    size_t same;
    *out = malloc(cap);
    *len = 0;
    qsf_status st = qsf_jinja_parse(mem, mem_size, text, n, &t, NULL);
    if (!st) {
        st = qsf_jinja_render(t, vars, 3, 1000000000, 50000, *out, cap, len, NULL, NULL);
        if (qsf_jinja_render(t, vars, 3, 1000000000, 50000, again, cap, &same, NULL, NULL) != st ||
            same != *len || memcmp(*out, again, same + 1))
            abort();
        if (*len >= cap || (*out)[*len]) abort();
    }
    if (st && st != QSF_E_ARGUMENT && st != QSF_E_UNSUPPORTED && st != QSF_E_CANCELLED &&
        st != QSF_E_BUDGET && st != QSF_E_MEMORY)
        abort();
    free(again);
    free(mem);
    return st;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size ? size : 1), *much, *little;
    size_t len, less;
    if (size) memcpy(text, data, size);
    const qsf_status st = fuzz_render(text, size, 1 << 19, 1 << 13, &much, &len),
                     small = fuzz_render(text, size, 40960, 1 << 10, &little, &less);
    if (!small && (st || less != len || memcmp(much, little, len))) abort();
    free(little);
    free(much);
    free(text);
    return 0;
}
