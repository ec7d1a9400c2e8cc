/* Fuzz target: any bytes as an adapter.  As they are, a GGUF file; with their first four bytes as
 * lengths, a PEFT directory: adapter_config.json, then the header of adapter_model.safetensors,
 * then its data.  What is taken computes, or is named damaged.
 * SPDX-License-Identifier: MIT */
#include "engine_bench.h"
#include "memfile.h"
#include "peft_build.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fuzz_use(bench *b, qsf_status st, qsf_adapter *a)
{
    const int32_t ids[] = { 5, 6 };
    if (st ? a != NULL || !b->error.text[0] : !a) abort();
    if (st) return;
    if (qsf_seq_set_adapters(b->c, 0, &(qsf_adapter_use){ a, 1 }, 1)) abort();
    qsf_adapter_free(a);
    st = qsf_feed(b->c, 0, ids, 2, NULL);
    if (st && st != QSF_E_CORRUPT) abort();
    if (qsf_seq_set_adapters(b->c, 0, NULL, 0)) abort();
}

static void fuzz_gguf_adapter(bench *b, const uint8_t *data, size_t size)
{
    uint8_t *bytes = malloc(size ? size : 1);       /* of exactly this size */
    qsf_adapter *a;
    memfile m;
    if (size) memcpy(bytes, data, size);
    memfile_init(&m, bytes, size);
    b->error.text[0] = 0;
    const qsf_status st = qsf_adapter_load(b->m, "f", &m.file, &a, &b->error);
    fuzz_use(b, st, a);
    if (m.closed != 1) abort();
    free(bytes);
}

static void fuzz_peft(bench *b, const uint8_t *data, size_t size)
{
    if (size < 4) return;
    const size_t rest = size - 4, config = qsf_le16(data) % (rest + 1);
    const size_t header = qsf_le16(data + 2) % (rest - config + 1), left = rest - config;
    uint8_t *file = malloc(8 + left);
    qsf_adapter *a;
    qsf_put64(file, header);
    memcpy(file + 8, data + 4 + config, left);
    mem_put(&b->h.m, PEFT_CONFIG_AT, data + 4, config);
    mem_put(&b->h.m, PEFT_WEIGHTS_AT, file, 8 + left);
    free(file);
    b->error.text[0] = 0;
    const qsf_status st = qsf_adapter_load(b->m, "a", NULL, &a, &b->error);
    fuzz_use(b, st, a);
}

/* The model, and what its context takes once adapters are there. */
static void fuzz_begin(bench *b)
{
    static const char config[] = "{\"peft_type\":\"LORA\",\"r\":1,\"target_modules\":[\"q_proj\"]}";
    static peft_build f;
    const tiny_options o = tiny_defaults();
    qsf_adapter *a;
    if (!bench_begin(b, &o)) abort();
    peft_begin(&f);
    peft_tensor(&f, "model.layers.0.self_attn.q_proj.lora_A.weight", 1, 64);
    peft_tensor(&f, "model.layers.0.self_attn.q_proj.lora_B.weight", 64, 1);
    peft_end(&f, &b->h.m, config);
    if (qsf_adapter_load(b->m, "a", NULL, &a, &b->error)) abort();
    fuzz_use(b, QSF_OK, a);
    b->h.m.limit_bytes = b->h.m.live_bytes + (64 << 20);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bench b;
    static bool begun;
    if (!begun) fuzz_begin(&b);
    begun = true;
    const long live = b.h.m.live;
    fuzz_gguf_adapter(&b, data, size);
    fuzz_peft(&b, data, size);
    if (b.h.m.live != live) abort();
    return 0;
}
