/* Fuzz target: any bytes as a receipt, its canonical form and its signature.
 * SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "canonical.h"
#include "keys.h"
#include "receipt.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What follows from each other in every receipt that was taken. */
static void fuzz_receipt_check(yyjson_val *root)
{
    const uint64_t steps = yyjson_get_uint(receipt_at(root, "parity.steps"));
    if (yyjson_get_uint(receipt_at(root, "parity.matches")) > steps) abort();
    if (!yyjson_arr_size(receipt_at(root, "prompts"))) abort();
    if (!yyjson_is_obj(receipt_at(root, "kernels_executed"))) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    qsf_error err = { .status = QSF_OK };
    yyjson_doc *doc = NULL;
    char *text = malloc(size + !size), *plain = NULL, *again = NULL;
    size_t n = 0, m = 0;
    bool is_signed;
    if (size) memcpy(text, data, size);
    if (!receipt_read(text, size, &doc, &err)) {
        fuzz_receipt_check(yyjson_doc_get_root(doc));
        const qsf_status st = keys_check(NULL, text, size, yyjson_doc_get_root(doc), &is_signed, &err);
        if (st && !is_signed) abort();
        if (canonical_text(text, size, &plain, &n, &err)) abort();
        /* a canonical form is its own */
        if (canonical_text(plain, n, &again, &m, &err) || n != m || memcmp(plain, again, n)) abort();
    } else if (!err.status || !*err.text) {
        abort();
    }
    yyjson_doc_free(doc);
    free(plain), free(again), free(text);
    return 0;
}
