/* Fuzzes the reader of a SentencePiece tokenizer.model.
 * SPDX-License-Identifier: MIT */
#include "read/sentencepiece.h"
#include "mem_platform.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { N = 64 };
    mem_host h;
    vocab_build b = { 0 };
    qsf_vocab v = { 0 };
    qsf_arena *arena;
    spm_info info = { .name = "tokenizer.model", .shifted = size % 2 != 0 };
    uint8_t *bytes = malloc(size ? size : 1);           /* of exactly this size */
    mem_host_init(&h);
    if (size) memcpy(bytes, data, size);
    if (!qsf_arena_new(&h.p, &arena, NULL)) {
        if (!qsf_vocab_build_new(&b, &h.p, arena, N, &v, NULL) && !qsf_spm_read(&b, bytes, size, &info, NULL)
            && !qsf_vocab_finish(&b, true, NULL))
            for (uint32_t i = 0; i < N; i++)
                if (v.at[i + 1] < v.at[i] || v.types[i] < QSF_TOKEN_NORMAL || v.types[i] > QSF_TOKEN_BYTE)
                    abort();
        qsf_vocab_build_free(&b);
        qsf_arena_free(arena);
    }
    if (h.live) abort();
    mem_host_done(&h);
    free(bytes);
    return 0;
}
