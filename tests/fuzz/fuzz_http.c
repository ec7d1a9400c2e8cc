/* Fuzz target: any bytes as the head of a request, and as a body in chunks, which is the same
 * however it is cut into pieces.
 * SPDX-License-Identifier: MIT */
#include "http_parse.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fuzz_head(const uint8_t *data, size_t size)
{
    http_head h;
    const char *why = NULL;
    char *text = malloc(size + 1);
    memcpy(text, data, size);
    text[size] = 0;
    const int status = http_parse_head(text, size, &h, &why);
    if (status ? status < 400 || !why : !h.method || *h.path != '/' || !h.query) abort();
    if (!status && (strchr(h.path, ' ') || strchr(h.host, '\n') || (h.chunked && h.length))) abort();
    free(text);
}

/* The body of in[0..size), read in pieces of at most `step` bytes. */
static bool fuzz_chunks(const uint8_t *in, size_t size, size_t step, char *body, size_t *len)
{
    http_chunks c = { 0 };
    *len = 0;
    for (size_t at = 0; at < size && !c.done;) {
        const size_t n = size - at < step ? size - at : step;
        char *piece = malloc(n);
        const char *bytes;
        size_t used, n_bytes;
        memcpy(piece, in + at, n);
        const bool ok = http_parse_chunk(&c, piece, n, &used, &bytes, &n_bytes);
        if (ok && (!used || used > n || n_bytes > used)) abort();
        if (ok && n_bytes) memcpy(body + *len, bytes, n_bytes);
        free(piece);
        if (!ok) return false;
        *len += n_bytes;
        at += used;
    }
    return c.done;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *one = malloc(size + 1), *two = malloc(size + 1);
    size_t n_one, n_two;
    fuzz_head(data, size);
    const bool whole = fuzz_chunks(data, size, size, one, &n_one), bytes = fuzz_chunks(data, size, 1, two,
        &n_two);
    if (whole != bytes || (whole && (n_one != n_two || memcmp(one, two, n_one)))) abort();
    free(one);
    free(two);
    return 0;
}
