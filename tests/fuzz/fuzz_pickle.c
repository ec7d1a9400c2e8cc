/* Fuzzes the PyTorch reader twice: the input as a whole file, and as the pickle inside a sound
 * archive.
 * SPDX-License-Identifier: MIT */
#include "mem_platform.h"
#include "read/pickle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_tensor(const weights_tensor *t, uint64_t length)
{
    uint64_t n = 1;
    if (t->at > length || t->bytes > length - t->at) abort();
    if (t->type == WEIGHTS_NO_TYPE) return;
    for (uint8_t i = 0; i < t->n_dims; i++) n *= t->shape[i];
    if (n * (t->type == QSF_T_F32 ? 4 : 2) != t->bytes) abort();
}

static void fuzz_file(mem_host *h)
{
    weights_file f = { .path = "f" };
    weights_list list;
    qsf_arena *arena;
    qsf_error err;
    if (qsf_host_open(&h->p, "f", &f.file, &f.length, &err)) return;
    if (!qsf_arena_new(&h->p, &arena, &err)) {
        if (!qsf_pickle_read(&h->p, &f, 0, arena, &list, &err))
            for (uint32_t i = 0; i < list.n; i++) check_tensor(&list.tensors[i], f.length);
        qsf_arena_free(arena);
    }
    h->p.close(h->p.user, f.file);
}

/* ---- an archive around the pickle: "a/data.pkl" and a storage "a/data/0" of 64 bytes ---- */

static size_t put_local(uint8_t *out, const char *name, const uint8_t *bytes, size_t len)
{
    const size_t n = strlen(name);
    memset(out, 0, 30);
    memcpy(out, "PK\3\4", 4);
    qsf_put16(out + 26, (uint16_t)n);
    memcpy(out + 30, name, n);
    memcpy(out + 30 + n, bytes, len);
    return 30 + n + len;
}
static size_t put_central(uint8_t *out, const char *name, const uint8_t *bytes, size_t len, size_t at)
{
    const size_t n = strlen(name);
    memset(out, 0, 46);
    memcpy(out, "PK\1\2", 4);
    qsf_put32(out + 16, qsf_crc32(0, bytes, len));
    qsf_put32(out + 20, (uint32_t)len);
    qsf_put32(out + 24, (uint32_t)len);
    qsf_put16(out + 28, (uint16_t)n);
    qsf_put32(out + 42, (uint32_t)at);
    memcpy(out + 46, name, n);
    return 46 + n;
}

static void put_archive(mem_host *h, const uint8_t *pickle, size_t size)
{
    static const uint8_t storage[64] = { 1, 2, 3 };
    uint8_t *out = malloc(size + 512);
    const size_t second = put_local(out, "a/data.pkl", pickle, size);
    const size_t dir = second + put_local(out + second, "a/data/0", storage, sizeof storage);
    size_t end = dir + put_central(out + dir, "a/data.pkl", pickle, size, 0);
    end += put_central(out + end, "a/data/0", storage, sizeof storage, second);
    memset(out + end, 0, 22);
    memcpy(out + end, "PK\5\6", 4);
    qsf_put16(out + end + 8, 2);
    qsf_put16(out + end + 10, 2);
    qsf_put32(out + end + 12, (uint32_t)(end - dir));
    qsf_put32(out + end + 16, (uint32_t)dir);
    mem_put(h, "f", out, end + 22);
    free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    mem_host h;
    mem_host_init(&h);
    h.limit_bytes = 256 << 20;
    mem_put(&h, "f", data, size);
    fuzz_file(&h);
    put_archive(&h, data, size);
    fuzz_file(&h);
    if (h.live) abort();
    mem_host_done(&h);
    return 0;
}
