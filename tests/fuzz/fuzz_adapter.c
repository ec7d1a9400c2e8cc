/* Fuzz target: any bytes as an adapter.  As they are, a GGUF file; with their first four bytes as
 * lengths, a PEFT directory: adapter_config.json, then the header of adapter_model.safetensors,
 * then its data.  What is taken computes, or is named damaged.  It meets a dense model and one of
 * experts.
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

static tiny_options fuzz_options(bool experts)
{
    tiny_options o = tiny_defaults();
    if (!experts) return o;
    o.hp.n_experts = 4;
    o.hp.n_used = 2;
    o.hp.n_ff_expert = o.hp.n_ff_shared = 64;
    o.hp.router_norm = true;
    snprintf(o.hp.arch, sizeof o.hp.arch, "qwen2moe");
    return o;
}

/* A model, and what its context takes once adapters are there. */
static void fuzz_begin(bench *b, bool experts)
{
    static const char config[] = "{\"peft_type\":\"LORA\",\"r\":1,"
                                 "\"target_modules\":[\"q_proj\",\"up_proj\"]}";
    static const char *const dense = "model.layers.0.mlp.up_proj.lora_%c.weight",
        *const of_expert = "model.layers.0.mlp.experts.1.up_proj.lora_%c.weight";
    static peft_build f;
    const tiny_options o = fuzz_options(experts);
    char name[64];
    qsf_adapter *a;
    if (!bench_begin(b, &o)) abort();
    peft_begin(&f);
    peft_tensor(&f, "model.layers.0.self_attn.q_proj.lora_A.weight", 1, 64);
    peft_tensor(&f, "model.layers.0.self_attn.q_proj.lora_B.weight", 64, 1);
    for (int part = 'A'; part <= 'B'; part++) {
        snprintf(name, sizeof name, experts ? of_expert : dense, part);
        peft_tensor(&f, name, part == 'A' ? 1 : experts ? 64 : 96, part == 'A' ? 64 : 1);
    }
    peft_end(&f, &b->h.m, config);
    if (qsf_adapter_load(b->m, "a", NULL, &a, &b->error)) abort();
    fuzz_use(b, QSF_OK, a);
    b->h.m.limit_bytes = b->h.m.live_bytes + (64 << 20);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bench models[2];
    static bool begun;
    for (int i = 0; i < 2 && !begun; i++) fuzz_begin(&models[i], i > 0);
    begun = true;
    for (int i = 0; i < 2; i++) {
        bench *b = &models[i];
        const long live = b->h.m.live;
        fuzz_gguf_adapter(b, data, size);
        fuzz_peft(b, data, size);
        if (b->h.m.live != live) abort();
    }
    return 0;
}
