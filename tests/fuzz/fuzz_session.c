/* Fuzz target: any bytes as a saved session; unchanged, and with a header and checksums that fit.
 * What is refused changes nothing; what is accepted is written again as the same bytes, and either
 * can be continued or is reported as damaged if its values are not finite.  Once for a model with
 * attention alone, once with state.
 * SPDX-License-Identifier: MIT */
#include "engine_bench.h"
#include "memfile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FUZZ_CTX = 96, FUZZ_HEAD = 64, FUZZ_STATE = 128 };

typedef struct fuzz_bytes { uint8_t *p; size_t n; } fuzz_bytes;

static qsf_status fuzz_write(void *user, const void *bytes, size_t len)
{
    fuzz_bytes *o = user;
    o->p = realloc(o->p, o->n + len + 1);
    memcpy(o->p + o->n, bytes, len);
    o->n += len;
    return QSF_OK;
}

static void fuzz_open(bench *b, uint32_t state)
{
    tiny_options o = tiny_defaults();
    o.hp.n_layers = 2;
    qsf_context_options co = bench_options();
    co.n_ctx = FUZZ_CTX;
    co.n_seqs = 1;
    if (!bench_write(b, &o) || !bench_open(b)) abort();
    b->m->source->layers[1].state_bytes = state;
    if (!bench_context(b, &co)) abort();
}

static void fuzz_load(bench *b, const uint8_t *data, size_t size)
{
    const int32_t own[] = { 5, 6, 7 };
    int32_t ids[FUZZ_CTX];
    const float *logits;
    memfile f;
    size_t n;
    if (qsf_seq_truncate(b->c, 0, 0) || qsf_feed(b->c, 0, own, 3, NULL)) abort();
    const uint32_t blocks = b->c->tables.n_free;
    memfile_init(&f, data, size);
    if (qsf_session_load(b->c, 0, &f.file, ids, FUZZ_CTX, &n, &b->error)) {
        if (qsf_seq_length(b->c, 0) != 3 || b->c->tables.n_free != blocks) abort();
        return;
    }
    fuzz_bytes out = { 0 };
    if (n > FUZZ_CTX || qsf_seq_length(b->c, 0) != n) abort();
    if (qsf_session_save(b->c, 0, ids, n, fuzz_write, &out, &b->error) || out.n != size
        || memcmp(out.p, data, size))
        abort();
    free(out.p);
    if (n == FUZZ_CTX) return;
    const qsf_status st = qsf_feed(b->c, 0, own, 1, &logits);
    if (st && st != QSF_E_CORRUPT) abort();     /* the engine reports infinite keys and values */
}

static void fuzz_both(bench *b, const uint8_t *data, size_t size)
{
    static uint8_t head[FUZZ_HEAD];
    fuzz_load(b, data, size);

    /* The first byte says how many positions; missing bytes are zero. */
    fuzz_bytes whole = { 0 };
    int32_t ids[FUZZ_CTX] = { 0 };
    const size_t n = size ? data[0] % (FUZZ_CTX + 1) : 0;
    if (qsf_seq_truncate(b->c, 0, 0) || (n && qsf_feed(b->c, 0, ids, n, NULL))) abort();
    if (qsf_session_save(b->c, 0, ids, n, fuzz_write, &whole, &b->error)) abort();
    memcpy(head, whole.p, FUZZ_HEAD);
    memset(whole.p, 0, whole.n);
    memcpy(whole.p, data, QSF_MIN(size, whole.n - 4));
    memcpy(whole.p, head, FUZZ_HEAD);
    qsf_put32(whole.p + whole.n - 4, qsf_crc32(0, whole.p, whole.n - 4));
    fuzz_load(b, whole.p, whole.n);
    free(whole.p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bench plain, state;
    if (!plain.c) fuzz_open(&plain, 0);
    if (!state.c) fuzz_open(&state, FUZZ_STATE);
    fuzz_both(&plain, data, size);
    fuzz_both(&state, data, size);
    return 0;
}
