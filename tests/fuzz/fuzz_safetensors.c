/* Fuzzes the safetensors reader: whole files.
 * SPDX-License-Identifier: MIT */
#include "mem_platform.h"
#include "model/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Every tensor of an accepted file lies in it, and no two share bytes. */
static void check_list(const weights_list *l, uint64_t length)
{
    for (uint32_t i = 0; i < l->n; i++) {
        const weights_tensor *a = &l->tensors[i];
        if (a->at > length || a->bytes > length - a->at) abort();
        for (uint32_t k = 0; k < i; k++) {
            const weights_tensor *b = &l->tensors[k];
            if (!strcmp(a->name, b->name) || (a->bytes && b->bytes && a->at < b->at + b->bytes
                                              && b->at < a->at + a->bytes))
                abort();
        }
    }
}

static void fuzz_file(mem_host *h)
{
    weights_file f = { .path = "f" };
    weights_list list;
    qsf_arena *arena;
    qsf_error err;
    if (qsf_host_open(&h->p, "f", &f.file, &f.length, &err)) return;
    if (!qsf_arena_new(&h->p, &arena, &err)) {
        if (!qsf_safetensors_read(&h->p, &f, 0, arena, &list, &err) && list.n < 2000)
            check_list(&list, f.length);
        qsf_arena_free(arena);
    }
    h->p.close(h->p.user, f.file);
}

/* The first two bytes are the header's length: mutations then keep finding the JSON. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    mem_host h;
    mem_host_init(&h);
    h.limit_bytes = 256 << 20;
    mem_put(&h, "f", data, size);
    fuzz_file(&h);
    if (size > 2) {
        const size_t json = size - 2, len = qsf_le16(data) % (json + 1);
        uint8_t *file = malloc(json + 8);
        qsf_put64(file, len);
        memcpy(file + 8, data + 2, json);
        mem_put(&h, "f", file, json + 8);
        free(file);
        fuzz_file(&h);
    }
    if (h.live) abort();
    mem_host_done(&h);
    return 0;
}
