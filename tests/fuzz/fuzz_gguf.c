/* Fuzz target: any bytes as a GGUF file, opened with and without weights and for its layer for
 * multi-token prediction, every tensor's first and last row read.
 * SPDX-License-Identifier: MIT */
#include "mem_platform.h"
#include "memfile.h"
#include "model/source.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What the engine takes for granted of an opened file. */
static void fuzz_gguf_check(const qsf_source *s)
{
    const qsf_vocab *v = &s->vocab;
    for (uint32_t i = 0; v->at && i < v->n_tokens; i++)
        if (v->at[i + 1] < v->at[i] || v->types[i] < QSF_TOKEN_NORMAL || v->types[i] > QSF_TOKEN_BYTE)
            abort();
    for (uint32_t i = 0; i < 2 * v->n_merges; i++)
        if (v->merges[i] >= v->n_tokens) abort();
    const int32_t ids[] = { v->bos, v->eos, v->eot, v->unk, v->pad };
    for (size_t i = 0; i < QSF_ARRAY_LEN(ids); i++)
        if (ids[i] < -1 || ids[i] >= (int64_t)v->n_tokens) abort();
    for (uint32_t i = 0; i < v->n_eog; i++)
        if (v->eog[i] < 0 || (uint32_t)v->eog[i] >= v->n_tokens) abort();
    if (s->n_units && (!s->hp.n_heads || !s->hp.n_kv_heads || s->hp.n_heads % s->hp.n_kv_heads
                       || s->hp.rope_dim > s->hp.head_dim || s->hp.rope_dim % 2))
        abort();
}

/* The same of an EAGLE 3 head. */
static void fuzz_gguf_eagle(const qsf_source *s)
{
    const uint32_t n = s->vocab.n_tokens;
    for (uint32_t i = 0; s->target_ids && i < s->hp.n_vocab; i++)
        if (s->target_ids[i] < 0 || (n && (uint32_t)s->target_ids[i] >= n)) abort();
    if (!s->n_units || !s->hp.eagle) return;
    if (s->hp.n_layers != 1 || !s->hp.n_features || s->hp.n_features % QSF_TAPS) abort();
}

static void fuzz_gguf_rows(const qsf_source *s)
{
    for (uint32_t u = 0; u < s->n_units; u++)
        for (uint32_t i = 0; i < s->units[u].n_tensors; i++) {
            const uint32_t at = s->units[u].first_tensor + i;
            qsf_tensor t = s->tensors[at];
            void *raw;
            if (s->places[at] % 64 || s->places[at] + t.bytes > s->units[u].raw) abort();
            if (qsf_source_load(s, u, i, &raw, NULL)) continue;
            float *row = malloc(t.cols * sizeof *row);
            t.data = raw;
            qsf_dequant_rows(&t, 0, 1, row);
            qsf_dequant_rows(&t, t.rows - 1, 1, row);
            free(row);
            qsf_dealloc(s->platform, raw, t.bytes);
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *bytes = malloc(size ? size : 1);       /* of exactly this size */
    if (size) memcpy(bytes, data, size);
    for (int how = 0; how < 3; how++) {             /* as a model, its vocabulary alone, its last layer */
        mem_host h;
        memfile m;
        qsf_source *s;
        qsf_error err;
        mem_host_init(&h);
        memfile_init(&m, bytes, size);
        h.limit_bytes = 64 << 20;
        const qsf_status st = how == 2
            ? qsf_source_open_mtp(&h.p, "fuzz.gguf", &m.file, QSF_I2S_AUTO, &s, &err)
            : qsf_source_open(&h.p, "fuzz.gguf", &m.file, how == 1, &s, &err);
        if (st == QSF_OK) {
            fuzz_gguf_check(s);
            fuzz_gguf_eagle(s);
            fuzz_gguf_rows(s);
            qsf_source_close(s);
        }
        if (h.live || m.closed != 1) abort();
        mem_host_done(&h);
    }
    free(bytes);
    return 0;
}
