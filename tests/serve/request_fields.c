/* Writes the table of request fields in docs/serve.md; serve_accepts_test.py compares the two.
 * SPDX-License-Identifier: MIT */
#include "request.h"

#include <stdio.h>

int main(void)
{
    serve_text out = { 0 };
    serve_request_list(&out);
    if (out.failed) return 1;
    fputs(out.bytes, stdout);
    text_free(&out);
    return 0;
}
