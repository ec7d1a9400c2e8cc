/* Fuzz target: any text as a model's Jinja template.  The text that a conversation becomes is as
 * long as was said, its spans tile it, and no span of the template's own holds what somebody wrote.
 * SPDX-License-Identifier: MIT */
#include "text/chat.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fuzz_chat_write(qsf_chat c, const char *jinja)
{
    static const qsf_message talk[] = { { "system", "Be brief." }, { "user", "#1 " },
                                        { "assistant", "<think>\n#2\n</think>\n#3" }, { "user", "#4" },
                                        { "#5", "" } };
    static char out[1 << 20], again[1 << 20];
    qsf_chat_span spans[32];
    size_t len, same, n_spans, at = 0;
    qsf_error err;
    for (size_t n = 0; n <= QSF_ARRAY_LEN(talk); n++)
        for (int generate = 0; generate < 2; generate++, at = 0) {
            if (qsf_chat_write_spans(c, jinja, NULL, talk, n, generate, out, sizeof out, &len, spans,
                                     QSF_ARRAY_LEN(spans), &n_spans, &err)) {
                if (c && len < sizeof out) abort();
                continue;
            }
            if (qsf_chat_write(c, jinja, NULL, talk, n, generate, again, len + 1, &same, &err) || same != len
                || memcmp(out, again, len))
                abort();
            if (n_spans > 4 * n + 2) abort();
            for (size_t i = 0; i < n_spans; at += spans[i++].len) {
                if (spans[i].at != at) abort();
                for (size_t k = at; spans[i].is_template && !jinja && k < at + spans[i].len; k++)
                    if (out[k] == '#' && k + 1 < len && out[k + 1] >= '1' && out[k + 1] <= '5') abort();
            }
            if (at != len) abort();
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *jinja = malloc(size + 1);
    if (size) memcpy(jinja, data, size);
    jinja[size] = 0;
    qsf_chat c;
    if (qsf_chat_detect(qsf_platform_native(), jinja, size % 3 ? "<s>" : NULL, NULL, &c, NULL)) abort();
    fuzz_chat_write(c, jinja);
    fuzz_chat_write((qsf_chat)(1 + (size ? data[0] : 0) % (QSF_N_CHATS - 1)), size % 2 ? jinja : NULL);
    free(jinja);
    return 0;
}
