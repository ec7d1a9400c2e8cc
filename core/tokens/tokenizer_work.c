/* What encoding works in: memory for one call, and a heap of pairs to merge.
 * SPDX-License-Identifier: MIT */
#include "tokens/tokenizer_own.h"

void qsf_token_buffer_done(const qsf_tokenizer *t, token_buffer *b)
{
    if (b->mem) qsf_dealloc(t->platform, b->mem, b->size);
    *b = (token_buffer){ 0 };
}

qsf_status qsf_token_buffer_need(const qsf_tokenizer *t, token_buffer *b, uint64_t size, qsf_error *err)
{
    if (size <= b->size) return QSF_OK;
    qsf_token_buffer_done(t, b);
    b->mem = qsf_alloc(t->platform, size, "tokenizing", err);
    if (!b->mem) return QSF_E_MEMORY;
    b->size = size;
    return QSF_OK;
}

static bool merge_before(const merge_candidate *a, const merge_candidate *b)
{
    return a->key < b->key || (a->key == b->key && a->left < b->left);
}

void qsf_merge_push(merge_candidate *heap, size_t *n, merge_candidate x)
{
    size_t i = (*n)++;
    for (; i && merge_before(&x, &heap[(i - 1) / 2]); i = (i - 1) / 2) heap[i] = heap[(i - 1) / 2];
    heap[i] = x;
}

merge_candidate qsf_merge_pop(merge_candidate *heap, size_t *n)
{
    const merge_candidate top = heap[0], x = heap[--*n];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < *n; i = child) {
        if (child + 1 < *n && merge_before(&heap[child + 1], &heap[child])) child++;
        if (!merge_before(&heap[child], &x)) break;
        heap[i] = heap[child];
    }
    if (*n) heap[i] = x;
    return top;
}
