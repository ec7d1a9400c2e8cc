/* Tokenizes NUL-terminated strings, for tests/core/tokens/pipeline_exact.py: a line of JSON for
 * each.
 * SPDX-License-Identifier: MIT
 *
 *     token_lines MODEL < texts
 *
 * [[ids, including the special tokens around the string], "their pieces' bytes in hexadecimal"] */
#include "qsf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *read_all(size_t *len)
{
    size_t cap = 1 << 16;
    char *text = malloc(cap);
    for (size_t n; text && (n = fread(text + *len, 1, cap - *len, stdin)) > 0;)
        if ((*len += n) == cap) text = realloc(text, cap *= 2);
    return text;
}

static int one(const qsf_model *m, const char *text, size_t len)
{
    qsf_error err = { 0 };
    size_t n = 0;
    const int flags = QSF_TOK_ADD_SPECIAL | QSF_TOK_PARSE_SPECIAL;
    qsf_tokens_encode(m, text, len, flags, NULL, 0, &n, &err);
    int32_t *ids = malloc((n + 1) * sizeof *ids);
    if (!ids || (n && qsf_tokens_encode(m, text, len, flags, ids, n, &n, &err))) {
        fprintf(stderr, "%s\n", err.text);
        free(ids);
        return 1;
    }
    printf("[[");
    for (size_t i = 0; i < n; i++) printf("%s%d", i ? "," : "", (int)ids[i]);
    printf("],\"");
    for (size_t i = 0; i < n; i++) {
        const char *piece;
        const size_t bytes = qsf_token_piece(m, ids[i], true, &piece);
        for (size_t k = 0; k < bytes; k++) printf("%02x", (unsigned char)piece[k]);
    }
    printf("\"]\n");
    free(ids);
    return 0;
}

int main(int argc, char **argv)
{
    qsf_error err = { 0 };
    qsf_model *m = NULL;
    qsf_model_options o;
    size_t len = 0;
    int bad = 0;
    qsf_model_defaults(&o);
    o.vocab_only = true;
    char *text = read_all(&len);
    if (argc != 2 || !text || qsf_model_open(argv[1], &o, &m, &err)) {
        fprintf(stderr, "token_lines: %s\n", err.text);
        return 1;
    }
    for (size_t i = 0, n; i < len && !bad; i += n + 1) {
        const char *end = memchr(text + i, 0, len - i);
        n = end ? (size_t)(end - (text + i)) : len - i;
        bad = one(m, text + i, n);
    }
    qsf_model_close(m);
    free(text);
    return bad;
}
