/* The GGUF reader and files that it must refuse: by name, damaged at every byte, and with every
 * call failing once.
 * SPDX-License-Identifier: MIT */
#include "gguf_case.h"
#include "model/arch.h"

/* In the last tensor's entry, after its name and number of dimensions. */
static uint8_t *entry_dims(gguf_build *b)
{
    uint8_t *entry = b->infos.p + b->last_info;
    return entry + 8 + qsf_le64(entry) + 4;
}

/* ---- experts ---- */

/* A model without any that says it had some. */
static gguf_build said_experts(uint32_t n, uint32_t used)
{
    gguf_build b = tiny_keyed("llama");
    kv_u32(&b, "llama.expert_count", n);
    kv_u32(&b, "llama.expert_used_count", used);
    return b;
}

TEST(gguf_refuses_numbers_of_experts_that_cannot_be)
{
    gguf_build b = tiny_keyed("llama");
    kv_u32(&b, "llama.expert_count", 8);
    refuse(&b, QSF_E_CORRUPT, "llama.expert_used_count");
    b = said_experts(8, 9);
    refuse(&b, QSF_E_CORRUPT, "8 experts, of which 9 are used");
    b = said_experts(8, 0);
    refuse(&b, QSF_E_CORRUPT, "of which 0 are used");
    b = said_experts(1u << 31, 2);
    refuse(&b, QSF_E_CORRUPT, "experts, of which 2");
    b = said_experts(8, 2);
    kv_u32(&b, "llama.expert_feed_forward_length", 0xffffffff);
    refuse(&b, QSF_E_CORRUPT, "of length 4294967295");
    b = said_experts(8, 2);
    kv_u32(&b, "llama.expert_shared_count", 1000);
    kv_u32(&b, "llama.expert_feed_forward_length", 1 << 20);
    refuse(&b, QSF_E_CORRUPT, "next to one of");
    b = said_experts(8, 2);
    kv_u32(&b, "llama.expert_group_count", 3);
    kv_u32(&b, "llama.expert_group_used_count", 1);
    refuse(&b, QSF_E_CORRUPT, "8 experts in 3 groups");
    b = said_experts(8, 4);
    kv_u32(&b, "llama.expert_group_count", 4);
    kv_u32(&b, "llama.expert_group_used_count", 1);
    refuse(&b, QSF_E_CORRUPT, "of which 1 are used for 4 experts");
    b = said_experts(8, 2);
    kv_u32(&b, "llama.expert_gating_func", 4);
    refuse(&b, QSF_E_UNSUPPORTED, "a router of kind 4");
    b = said_experts(8, 2);
    kv_u32(&b, "llama.interleave_moe_layer_step", 2);
    refuse(&b, QSF_E_UNSUPPORTED, "one layer out of 2");
    b = said_experts(8, 2);
    refuse(&b, QSF_E_UNSUPPORTED, "is not part of architecture");     /* a dense layer's ffn_gate */
    b = said_experts(8, 2);
    kv_u32(&b, "llama.expert_shared_feed_forward_length", TINY_FF);
    refuse(&b, QSF_E_CORRUPT, "is missing");
}

TEST(gguf_refuses_experts_of_other_shapes)
{
    gguf_build b = said_experts(8, 2);
    kv_u32(&b, "llama.expert_shared_feed_forward_length", TINY_FF);
    tensor3(&b, "blk.0.ffn_gate_exps.weight", TINY_EMBD, TINY_FF, 7);
    refuse(&b, QSF_E_CORRUPT, "expected 8 of 48 x 32");
    b = said_experts(8, 2);
    kv_u32(&b, "llama.expert_shared_feed_forward_length", TINY_FF);
    tensor(&b, "blk.0.ffn_gate_exps.weight", 0, TINY_EMBD, 8 * TINY_FF);
    refuse(&b, QSF_E_CORRUPT, "expected 8 of 48 x 32");
    b = tiny_keyed("llama");
    tensor3(&b, "blk.0.ffn_down_exps.weight", TINY_FF, TINY_EMBD, 8);
    refuse(&b, QSF_E_UNSUPPORTED, "blk.0.ffn_down_exps.weight");
}

TEST(gguf_refuses_gates_and_ups_in_one_that_are_not)
{
    gguf_build b = said_experts(8, 2);
    kv_u32(&b, "llama.expert_shared_feed_forward_length", TINY_FF);
    tensor3(&b, "blk.0.ffn_gate_up_exps.weight", TINY_EMBD, TINY_FF, 8);
    refuse(&b, QSF_E_CORRUPT, "expected 8 of 96 x 32");
    b = said_experts(8, 2);
    kv_u32(&b, "llama.expert_shared_feed_forward_length", TINY_FF);
    tensor3(&b, "blk.0.ffn_gate_up_exps.weight", TINY_EMBD, 2 * TINY_FF, 8);
    tensor3(&b, "blk.0.ffn_up_exps.weight", TINY_EMBD, TINY_FF, 8);
    refuse(&b, QSF_E_CORRUPT, "holds weights that are also in");
    b = tiny_keyed("llama");
    tensor3(&b, "blk.0.ffn_gate_up_exps.weight", TINY_EMBD, 2 * TINY_FF, 8);
    refuse(&b, QSF_E_UNSUPPORTED, "is not part of architecture");
    b = said_experts(8, 2);
    kv_u32(&b, "llama.moe_latent_size", TINY_EMBD / 2);
    refuse(&b, QSF_E_UNSUPPORTED, "experts with 16 of 32 columns, next to a feed-forward of 0");
}

TEST(gguf_steps_over_layers_that_guess_several_tokens)
{
    gguf_build b = tiny_keyed("llama");
    kv_u32(&b, "llama.nextn_predict_layers", 1);
    qsf_source *s = accept(&b);
    CHECK(s && s->hp.n_layers == TINY_LAYERS - 1);
    if (s) close_source(s);
    b = tiny_keyed("llama");
    kv_u32(&b, "llama.nextn_predict_layers", TINY_LAYERS);
    refuse(&b, QSF_E_CORRUPT, "multi-token prediction");
}

/* ---- refused by name ---- */

/* The names that llama.cpp has, of those of its architectures that this version lacks. */
TEST(gguf_names_what_it_lacks)
{
    static const char *const names[] = {
        "clip", "llama", "llama4", "deci", "falcon", "grok", "gpt2", "gptj", "gptneox", "mpt", "baichuan",
        "starcoder", "refact", "bert", "modern-bert", "nomic-bert", "nomic-bert-moe", "neo-bert",
        "jina-bert-v2", "jina-bert-v3", "eurobert", "bloom", "stablelm", "qwen", "qwen2", "qwen2moe",
        "qwen2vl", "qwen3", "qwen3moe", "qwen3next", "qwen3vl", "qwen3vlmoe", "qwen35", "qwen35moe",
        "qwen4exp", "phi2", "phi3", "phimoe", "plamo", "plamo2", "plamo3", "codeshell", "orion",
        "internlm2", "minicpm", "minicpm3", "gemma", "gemma2", "gemma3", "gemma3n", "gemma4",
        "gemma4-assistant", "gemma-embedding", "starcoder2", "mamba", "mamba2", "maple", "jamba",
        "falcon-h1", "xverse", "command-r", "cohere2", "cohere2moe", "dbrx", "olmo", "olmo2", "olmoe",
        "muse-glimmer", "openelm", "arctic", "deepseek", "deepseek2", "deepseek2-ocr", "deepseek32",
        "deepseek4", "chatglm", "glm4", "glm4moe", "glm-dsa", "bitnet", "t5", "t5encoder", "jais", "jais2",
        "nemotron", "nemotron_h", "nemotron_h_moe", "exaone", "exaone4", "exaone-moe", "rwkv6",
        "rwkv6qwen2", "rwkv7", "arwkv7", "granite", "granitemoe", "granitehybrid", "graniteswitch",
        "granite_swa", "chameleon", "wavtokenizer-dec", "plm", "bailingmoe", "bailingmoe2", "bailingmoe3",
        "dots1", "dots3note", "arcee", "afmoe", "laguna", "ernie4_5", "ernie4_5-moe", "hunyuan-moe",
        "hunyuan-dense", "hunyuan_vl", "hy_v3", "hy_v4", "smollm3", "gpt-oss", "lfm2", "lfm2moe", "dream",
        "smallthinker", "llada", "llada-moe", "seed_oss", "grovemoe", "apertus", "minimax-01", "hrm_text",
        "minimax-m2", "minimax-m3", "cogvlm", "rnd1", "pangu-embedded", "mistral3", "eagle3", "dflash",
        "mistral4", "paddleocr", "mimo2", "step35", "spark2_5", "llama-embed", "maincoder", "kimi-linear",
        "kimi-k3", "glm5-next", "talkie", "mellum", "nanbeige", "qwen3tts", "pockettts"
    };
    char word[96];
    for (size_t i = 0; i < QSF_ARRAY_LEN(names); i++) {
        if (qsf_arch_find(names[i])) continue;
        gguf_build b = tiny(names[i]);
        qsf_format(word, sizeof word, "architecture \"%s\" is unknown to this version; the nearest that it "
                   "knows is %s; a newer libqsf may run it", names[i], qsf_arch_nearest(names[i])->name);
        refuse(&b, QSF_E_UNSUPPORTED, word);
    }
    CHECK_STR(qsf_arch_nearest("gemma4-assistant")->name, "gemma4");
    CHECK_STR(qsf_arch_nearest("orion")->name, "llama");
}

TEST(gguf_refuses_what_it_cannot_run_by_name)
{
    gguf_build b = tiny_whole("llama");
    b.out[4] = 1;
    refuse(&b, QSF_E_UNSUPPORTED, "version 1");
    b = tiny_whole("llama");
    memcpy(b.out + 4, "\0\0\0\3", 4);
    refuse(&b, QSF_E_UNSUPPORTED, "big-endian");
    b = tiny_whole("jamba");
    refuse(&b, QSF_E_UNSUPPORTED, "\"jamba\"");
    b = tiny_whole("qwen3tts");
    refuse(&b, QSF_E_UNSUPPORTED,
           "\"qwen3tts\" is unknown to this version; the nearest that it knows is qwen3;");
    b = tiny_whole("jamba");
    refuse(&b, QSF_E_UNSUPPORTED, "docs/models.md lists the models that this one");
    b = tiny_keyed("qwen2");
    kv_u32(&b, "qwen2.expert_count", 8);
    refuse(&b, QSF_E_UNSUPPORTED, "mixture of experts");
    b = tiny_keyed("llama");
    kv_f32(&b, "llama.attention.max_alibi_bias", 8);
    refuse(&b, QSF_E_UNSUPPORTED, "ALiBi");
    b = tiny_keyed("llama");
    kv_u32(&b, "llama.attention.value_length", 8);
    refuse(&b, QSF_E_UNSUPPORTED, "values of 8");
    b = tiny_keyed("gemma2");
    kv_bool(&b, "gemma2.attention.causal", false);
    refuse(&b, QSF_E_UNSUPPORTED, "causal");
    b = tiny("llama");
    kv_text(&b, "tokenizer.ggml.model", "hybriddna");
    tiny_tensors(&b, "llama", NULL);
    refuse(&b, QSF_E_UNSUPPORTED, "\"hybriddna\"");
    b = tiny_keyed("llama");
    tensor(&b, "blk.0.ffn_gate_inp.weight", 0, TINY_EMBD, 8);
    refuse(&b, QSF_E_UNSUPPORTED, "blk.0.ffn_gate_inp.weight");
    b = tiny_keyed("llama");
    tensor(&b, "blk.2.attn_norm.weight", 0, TINY_EMBD, 0);
    refuse(&b, QSF_E_UNSUPPORTED, "blk.2.attn_norm.weight");
    b = tiny_keyed("llama");
    tensor(&b, "position_embd.weight", 0, TINY_EMBD, TINY_CTX);
    refuse(&b, QSF_E_UNSUPPORTED, "position_embd.weight");
    b = tiny_keyed("llama");
    tensor(&b, "output.weight", 0, TINY_EMBD, TINY_VOCAB);
    qsf_put32(b.infos.p + b.infos.len - 12, 9);
    refuse(&b, QSF_E_UNSUPPORTED, "Q8_1");
    b = tiny_keyed("llama");
    tensor(&b, "output.weight", 0, TINY_EMBD, TINY_VOCAB);
    qsf_put32(b.infos.p + b.infos.len - 12, 32);
    refuse(&b, QSF_E_UNSUPPORTED, "Q4_0_4_8 (32), which this version does not read: llama.cpp dropped it");
    b = tiny_keyed("llama");
    tensor(&b, "output.weight", 0, TINY_EMBD, TINY_VOCAB);
    qsf_put32(b.infos.p + b.infos.len - 12, 0x80000008);
    refuse(&b, QSF_E_UNSUPPORTED, "unknown");
}

/* ---- damaged ---- */

TEST(gguf_rejects_a_file_cut_at_every_length)
{
    gguf_build b = tiny_whole("llama");
    for (size_t len = 0; len < b.len; len++) {
        /* inside the weights every 37th will do */
        if (len > b.data_at + 64 && len + 64 < b.len && len % 37) continue;
        qsf_source *s = NULL;
        uint8_t *cut = malloc(len ? len : 1);
        memcpy(cut, b.out, len);
        const qsf_status st = open_bytes(cut, len, false, &s);
        CHECK_EQ(st, QSF_E_CORRUPT);
        if (!st) close_source(s);
        free(cut);
    }
    gguf_build_free(&b);
}

TEST(gguf_survives_every_byte_of_the_description_changed)
{
    gguf_build b = tiny_whole("gemma3");
    uint8_t *copy = malloc(b.len);
    static const uint8_t flips[] = { 0x01, 0x80, 0xff };
    for (size_t at = 0; at < b.data_at; at++)
        for (size_t k = 0; k < sizeof flips; k++) {
            qsf_source *s = NULL;
            memcpy(copy, b.out, b.len);
            copy[at] ^= flips[k];
            if (open_bytes(copy, b.len, false, &s)) continue;
            for (uint32_t u = 0; u < s->n_units; u++)
                for (uint32_t i = 0; i < s->units[u].n_tensors; i++) {
                    void *data;
                    if (!qsf_source_load(s, u, i, &data, NULL))
                        qsf_dealloc(s->platform, data, s->tensors[s->units[u].first_tensor + i].bytes);
                }
            close_source(s);
        }
    free(copy);
    gguf_build_free(&b);
}

TEST(gguf_rejects_huge_counts)
{
    static const struct { size_t at; uint64_t value; } bad[] = {
        { 8, UINT64_MAX }, { 8, 1u << 30 }, { 8, 300 }, { 16, UINT64_MAX }, { 16, 1u << 30 }, { 16, 300 },
        { 24, UINT64_MAX }, { 24, 1u << 30 }
    };
    for (size_t i = 0; i < QSF_ARRAY_LEN(bad); i++) {
        gguf_build b = tiny_whole("llama");
        qsf_put64(b.out + bad[i].at, bad[i].value);
        refuse(&b, QSF_E_CORRUPT, "");
        CHECK(host.peak_bytes < 4 << 20);            /* nothing was allocated by the claim */
    }
    gguf_build b = tiny_keyed("llama");
    kv_array(&b, "x", 8, UINT64_MAX);
    refuse(&b, QSF_E_CORRUPT, "");
    b = tiny_keyed("llama");
    kv_array(&b, "x", 10, UINT64_MAX / 4);
    refuse(&b, QSF_E_CORRUPT, "");
}

/* A million complete headers: the count alone is too large for a model, and must be refused after
 * one read. */
TEST(gguf_refuses_a_million_tensors_at_once)
{
    enum { N = 1000000 };
    gguf_build b = tiny_keyed("llama");
    for (uint32_t i = 0; i < 2000; i++) tensor(&b, "x", 0, 1, 0);
    gguf_build_end(&b);
    qsf_put64(b.out + 8, N);
    const size_t len = (size_t)60 * N;
    uint8_t *bytes = calloc(1, len);
    memcpy(bytes, b.out, b.len);
    memfile f;
    qsf_source *s = NULL;
    memfile_init(&f, bytes, len);
    CHECK_EQ(qsf_source_open(qsf_platform_native(), "many.gguf", &f.file, false, &s, &err), QSF_E_CORRUPT);
    CHECK(strstr(err.text, "many.gguf") && strstr(err.text, "1000000 tensors"));
    CHECK(f.reads <= 2);            /* the magic, then one megabyte */
    free(bytes);
    gguf_build_free(&b);
}

/* Names that collide in a hash table, so that each lookup probes all before it: 600 with the same
 * low 12 bits of FNV-1a, and enough others for a table of 2^12 slots. */
TEST(gguf_refuses_names_that_are_made_to_share_a_hash)
{
    enum { SAME = 600, OTHERS = 1000, BITS = 12 };
    gguf_build b = tiny_keyed("llama");
    char name[32];
    uint32_t want = 0, found = 0;
    for (uint32_t i = 0; found < SAME; i++) {
        uint64_t h = 14695981039346656037u;
        const int len = snprintf(name, sizeof name, "n%u", (unsigned)i);
        for (int k = 0; k < len; k++) h = (h ^ (uint8_t)name[k]) * 1099511628211u;
        const uint32_t low = (uint32_t)(h ^ h >> 32) & ((1u << BITS) - 1);
        if (i == 0) want = low;
        if (low != want) continue;
        found++;
        tensor(&b, name, 0, 8, 0);
    }
    for (uint32_t i = 0; i < OTHERS; i++) {
        snprintf(name, sizeof name, "other%u", (unsigned)i);
        tensor(&b, name, 0, 8, 0);
    }
    refuse(&b, QSF_E_CORRUPT, "share one hash");
}

/* Offsets far from sorted order, without gaps or overlaps. */
TEST(gguf_sorts_tensors_in_any_order)
{
    enum { N = 1 << 14 };
    gguf_build b = tiny_keyed("llama");
    char name[32];
    const uint64_t begin = qsf_round_up(b.data.len, 32);
    for (uint32_t i = 0; i < N; i++) {
        snprintf(name, sizeof name, "t%u", (unsigned)i);
        tensor(&b, name, 0, 8, 0);
        /* odd indices first, in descending order */
        const uint64_t place = i % 2 ? (N - i) / 2 : N - 1 - i / 2;
        qsf_put64(b.infos.p + b.infos.len - 8, begin + 32 * place);
    }
    refuse(&b, QSF_E_UNSUPPORTED, "is not part of architecture");
}

TEST(gguf_rejects_a_tensor_past_the_end)
{
    gguf_build b = tiny_keyed("llama");
    qsf_put64(b.infos.p + b.infos.len - 8, b.data.len / 32 * 32);
    refuse(&b, QSF_E_CORRUPT, "output_norm.weight");
    b = tiny_keyed("llama");
    qsf_put64(b.infos.p + b.infos.len - 8, UINT64_MAX - 31);
    refuse(&b, QSF_E_CORRUPT, "output_norm.weight");
}

TEST(gguf_rejects_unaligned_and_overlapping_tensors)
{
    gguf_build b = tiny_keyed("llama");
    qsf_put64(b.infos.p + b.infos.len - 8, 33);
    refuse(&b, QSF_E_CORRUPT, "multiple of 32");
    b = tiny_keyed("llama");
    qsf_put64(b.infos.p + b.infos.len - 8, 32);
    refuse(&b, QSF_E_CORRUPT, "overlap");
    b = tiny_keyed("llama");
    kv_u32(&b, "general.alignment", 0);
    refuse(&b, QSF_E_CORRUPT, "general.alignment");
    b = tiny_keyed("llama");
    kv_u32(&b, "general.alignment", 48);
    refuse(&b, QSF_E_CORRUPT, "general.alignment");
    gguf_build_init(&b, 3);
    tiny_keys(&b, "llama");
    tiny_vocab(&b);
    kv_u32(&b, "general.alignment", b.align = 128);
    tiny_tensors(&b, "llama", NULL);
    qsf_source *s = accept(&b);
    if (s) close_source(s);
}

TEST(gguf_rejects_names_that_are_there_twice)
{
    gguf_build b = tiny_keyed("llama");
    tensor(&b, "output_norm.weight", 0, TINY_EMBD, 0);
    refuse(&b, QSF_E_CORRUPT, "\"output_norm.weight\" occurs twice");
    b = tiny_keyed("llama");
    kv_u32(&b, "llama.block_count", 2);
    refuse(&b, QSF_E_CORRUPT, "\"llama.block_count\" occurs twice");
    b = tiny_keyed("phi3");
    tensor(&b, "blk.0.attn_q.weight", 0, TINY_EMBD, 32);
    refuse(&b, QSF_E_CORRUPT, "also in");
}

TEST(gguf_rejects_impossible_shapes)
{
    gguf_build b = tiny_keyed("llama");
    qsf_put64(entry_dims(&b), 0);
    refuse(&b, QSF_E_CORRUPT, "dimension 0 is 0");
    b = tiny_keyed("llama");
    qsf_put64(entry_dims(&b), UINT64_MAX);
    refuse(&b, QSF_E_CORRUPT, "dimension 0");
    b = tiny_keyed("llama");
    qsf_put32(entry_dims(&b) - 4, 5);
    refuse(&b, QSF_E_CORRUPT, "5 dimensions");
    b = tiny_keyed("llama");
    qsf_put32(entry_dims(&b) - 4, 0);
    refuse(&b, QSF_E_CORRUPT, "0 dimensions");
    b = tiny_keyed("llama");
    qsf_put64(entry_dims(&b), 16);
    refuse(&b, QSF_E_CORRUPT, "1 x 16, expected 1 x 32");
    b = tiny_keyed("llama");                         /* 10 values are not a whole block of q8_0 */
    tensor(&b, "output.weight", 0, 10, 10);
    qsf_put32(b.infos.p + b.infos.len - 12, 8);
    refuse(&b, QSF_E_CORRUPT, "whole blocks");
    b = tiny_keyed("llama");
    tensor(&b, "output.weight", 0, TINY_EMBD, TINY_VOCAB + 1);
    refuse(&b, QSF_E_CORRUPT, "11 x 32, expected 10 x 32");
}

TEST(gguf_rejects_a_missing_tensor_by_name)
{
    static const char *const names[] = { "attn_norm.weight", "attn_q.weight", "attn_v.weight",
                                         "attn_output.weight", "ffn_gate.weight", "ffn_down.weight" };
    for (size_t i = 0; i < QSF_ARRAY_LEN(names); i++) {
        char full[64] = "blk.1.";
        gguf_build b = tiny("llama");
        tiny_vocab(&b);
        tiny_tensors(&b, "llama", names[i]);
        refuse(&b, QSF_E_CORRUPT, strcat(full, names[i]));
    }
    gguf_build b = tiny("llama");
    tiny_vocab(&b);
    refuse(&b, QSF_E_CORRUPT, "no weights");
}

TEST(gguf_rejects_missing_and_wrong_keys)
{
    static const char *const keys[] = { "llama.context_length", "llama.embedding_length", "llama.block_count",
                                        "llama.feed_forward_length",
                                        "llama.attention.head_count",
                                        "llama.attention.layer_norm_rms_epsilon", "general.architecture",
                                        "tokenizer.ggml.tokens", "tokenizer.ggml.merges" };
    for (size_t i = 0; i < QSF_ARRAY_LEN(keys); i++) {
        gguf_build b = tiny_keyed("llama");
        const size_t len = strlen(keys[i]);
        for (size_t at = 0; at + len < b.kv.len; at++)
            if (!memcmp(b.kv.p + at, keys[i], len)) b.kv.p[at] = 'X';
        refuse(&b, QSF_E_CORRUPT, keys[i]);
    }
    static const struct { const char *key; uint32_t value; } bad[] = {
        { ".embedding_length", 0 }, { ".block_count", 0 }, { ".block_count", 60000 },
        { ".attention.head_count", 0 }, { ".attention.head_count", 3 },
        { ".attention.head_count_kv", 0 }, { ".attention.head_count_kv", 3 }, { ".feed_forward_length", 0 },
        { ".context_length", 0 },
        { ".attention.head_count", UINT32_MAX }, { ".block_count", UINT32_MAX },
        { ".embedding_length", UINT32_MAX },
        { ".attention.layer_norm_rms_epsilon", 0x7fc00000 },
        { ".attention.layer_norm_rms_epsilon", 0xbf800000 }
    };
    for (size_t i = 0; i < QSF_ARRAY_LEN(bad); i++) {
        gguf_build b = tiny_keyed("llama");
        const char *key = tiny_key("llama", bad[i].key);
        const size_t len = strlen(key);
        for (size_t at = 8; at + len + 8 < b.kv.len; at++)
            if (!memcmp(b.kv.p + at, key, len) && qsf_le64(b.kv.p + at - 8) == len)
                qsf_put32(b.kv.p + at + len + 4, bad[i].value);
        refuse(&b, QSF_E_CORRUPT, "");
    }
    gguf_build b = tiny_keyed("llama");
    kv_text(&b, "llama.rope.freq_base", "high");
    refuse(&b, QSF_E_CORRUPT, "llama.rope.freq_base");
    b = tiny_keyed("llama");
    kv_f32(&b, "llama.rope.freq_base", -1);
    refuse(&b, QSF_E_CORRUPT, "rotary base");
    b = tiny_keyed("llama");
    kv_u32(&b, "llama.rope.dimension_count", 18);
    refuse(&b, QSF_E_CORRUPT, "rotary dimensions");
    b = tiny_keyed("llama");
    kv_key(&b, "x", 13);
    refuse(&b, QSF_E_CORRUPT, "unknown type 13");
    b = tiny_keyed("llama");
    kv_array(&b, "x", 9, 0);
    refuse(&b, QSF_E_CORRUPT, "unknown type 9");
    b = tiny_keyed("llama");
    kv_text(&b, "tokenizer.ggml.unknown_token_id", "no");
    refuse(&b, QSF_E_CORRUPT, "unknown_token_id");
    b = tiny_keyed("llama");
    kv_array(&b, "llama.attention.sliding_window", 4, 2);
    put_u32(&b.kv, 1);
    put_u32(&b.kv, 2);
    refuse(&b, QSF_E_UNSUPPORTED, "differs between layers");
}

TEST(gguf_rejects_what_is_no_model)
{
    qsf_source *s = NULL;
    CHECK_EQ(open_bytes("", 0, false, &s), QSF_E_CORRUPT);
    CHECK_EQ(open_bytes("GGUF", 4, false, &s), QSF_E_CORRUPT);
    CHECK_EQ(open_bytes("GGML 1234567890", 15, false, &s), QSF_E_CORRUPT);
    CHECK(strstr(err.text, "neither") != NULL);
    mem_host_init(&host);
    CHECK_EQ(qsf_source_open(&host.p, "not-there.gguf", NULL, false, &s, &err), QSF_E_NOT_FOUND);
    CHECK(strstr(err.text, "not-there.gguf") != NULL);
    CHECK_EQ(qsf_source_open(&host.p, NULL, NULL, false, &s, &err), QSF_E_ARGUMENT);
    CHECK_EQ(host.live, 0);
    mem_host_done(&host);
}

TEST(source_says_what_a_stranger_is)
{
    static const struct { const char *bytes; size_t len; const char *word; } strangers[] = {
#define STRANGER(bytes, word) { bytes, sizeof(bytes) - 1, word }
        STRANGER("", "empty"),
        STRANGER("<!DOCTYPE html><html>", "a web page: use the address that downloads"),
        STRANGER("\xef\xbb\xbf\n<html lang=en>", "a web page"),
        STRANGER("<?xml version='1.0'?>", "a web page"),
        STRANGER("version https://git-lfs.github.com/spec/v1\noid", "a Git LFS pointer"),
        STRANGER("{\"error\":\n \"not  found\"}",
                 "JSON, perhaps a server's error message instead of the file: "
                 "\"{\"error\": \"not found\"}\""),
        STRANGER("\x02\0\0\0\0\0\0\0{}", "a safetensors file: qsf-convert"),
        STRANGER("PK\3\4--archive/data.pkl", "a PyTorch checkpoint: qsf-convert"),
        STRANGER("PK\3\4--model/readme", "a ZIP archive: unpack"),
        STRANGER("\x1f\x8b\x08\0\0", "gzip: unpack"),
        STRANGER("QSFS\1\0\0\0", "a saved session"),
        STRANGER("tjgg\3\0\0\0", "from before GGUF"),
        STRANGER("MZ\x90\0\3", "a program"),
        STRANGER("Entry not found",
                 "a text file, perhaps a server's error message instead of the file: \"Entry not found\""),
        STRANGER("abc", "a text"),
        STRANGER("\0\0\0\0\0\0\0\0", "begins with zeros"),
        STRANGER("\1", "begins with 01 00 00 00"),
        STRANGER("\xde\xad\xbe\xef\1", "begins with de ad be ef"),
#undef STRANGER
    };
    for (size_t i = 0; i < sizeof strangers / sizeof *strangers; i++) {
        qsf_source *s = NULL;
        CHECK_EQ(open_bytes(strangers[i].bytes, strangers[i].len, false, &s), QSF_E_CORRUPT);
        if (!strstr(err.text, strangers[i].word)) fprintf(stderr, "%s\n", err.text);
        CHECK(strstr(err.text, strangers[i].word) != NULL);
    }
}

/* ---- every call fails once ---- */

TEST(gguf_leaks_nothing_where_any_call_fails)
{
    gguf_build a = split_part(0, 2, 22), b = split_part(1, 2, 0);
    tensor(&b, "output.weight", 0, TINY_EMBD, TINY_VOCAB);
    tensor(&b, "rope_freqs.weight", 0, TINY_HEAD / 2, 0);
    gguf_build_end(&a);
    gguf_build_end(&b);
    bool done = false;
    for (long n = 1; !done && n < 2000; n++) {
        qsf_source *s = NULL;
        void *data = NULL;
        mem_host_init(&host);
        mem_put(&host, "m-00001-of-00002.gguf", a.out, a.len);
        mem_put(&host, "m-00002-of-00002.gguf", b.out, b.len);
        host.fail_at = n;
        err = (qsf_error){ 0 };
        qsf_status st = qsf_source_open(&host.p, "m-00001-of-00002.gguf", NULL, false, &s, &err);
        if (!st) st = qsf_source_load(s, 1, 3, &data, &err);
        if (!st) qsf_dealloc(&host.p, data, s->tensors[s->units[1].first_tensor + 3].bytes);
        done = host.calls < n;
        if (done) CHECK_EQ(st, QSF_OK);
        else CHECK((st == QSF_E_MEMORY || st == QSF_E_IO) && err.text[0]);
        qsf_source_close(s);
        CHECK_EQ(host.live, 0);
        mem_host_done(&host);
    }
    CHECK(done);
    gguf_build_free(&a);
    gguf_build_free(&b);
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    RUN(gguf_refuses_numbers_of_experts_that_cannot_be);
    RUN(gguf_refuses_experts_of_other_shapes);
    RUN(gguf_refuses_gates_and_ups_in_one_that_are_not);
    RUN(gguf_steps_over_layers_that_guess_several_tokens);
    RUN(gguf_names_what_it_lacks);
    RUN(gguf_refuses_what_it_cannot_run_by_name);
    RUN(gguf_rejects_a_file_cut_at_every_length);
    RUN(gguf_survives_every_byte_of_the_description_changed);
    RUN(gguf_rejects_huge_counts);
    RUN(gguf_refuses_a_million_tensors_at_once);
    RUN(gguf_refuses_names_that_are_made_to_share_a_hash);
    RUN(gguf_sorts_tensors_in_any_order);
    RUN(gguf_rejects_a_tensor_past_the_end);
    RUN(gguf_rejects_unaligned_and_overlapping_tensors);
    RUN(gguf_rejects_names_that_are_there_twice);
    RUN(gguf_rejects_impossible_shapes);
    RUN(gguf_rejects_a_missing_tensor_by_name);
    RUN(gguf_rejects_missing_and_wrong_keys);
    RUN(gguf_rejects_what_is_no_model);
    RUN(source_says_what_a_stranger_is);
    RUN(gguf_leaks_nothing_where_any_call_fails);
    return test_end();
}
