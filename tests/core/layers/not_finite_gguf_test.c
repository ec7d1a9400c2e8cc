/* GGUF blocks of every type with a NaN or infinite scale are an error, in every matrix.
 * SPDX-License-Identifier: MIT */
#include "gguf_build.h"
#include "memfile.h"
#include "qsf.h"
#include "test.h"

enum { EMBD = 256, HEAD = 64, VOCAB = 32, N_MATRICES = 9 };

/* A llama of one layer with zero weights; the bytes of matrix `bad` (-1: none) are all `fill`. */
static void build(gguf_build *b, uint32_t type, int bad, int fill)
{
    static const struct { const char *name; uint32_t cols, rows; } parts[] = {
        { "token_embd.weight", EMBD, VOCAB }, { "blk.0.attn_q.weight", EMBD, EMBD },
        { "blk.0.attn_k.weight", EMBD, EMBD / 2 }, { "blk.0.attn_v.weight", EMBD, EMBD / 2 },
        { "blk.0.attn_output.weight", EMBD, EMBD }, { "blk.0.ffn_gate.weight", EMBD, EMBD },
        { "blk.0.ffn_up.weight", EMBD, EMBD }, { "blk.0.ffn_down.weight", EMBD, EMBD },
        { "output.weight", EMBD, VOCAB }, { "blk.0.attn_norm.weight", EMBD, 0 },
        { "blk.0.ffn_norm.weight", EMBD, 0 }, { "output_norm.weight", EMBD, 0 },
    };
    gguf_build_init(b, 3);
    kv_text(b, "general.architecture", "llama");
    kv_u32(b, "llama.context_length", 64);
    kv_u32(b, "llama.embedding_length", EMBD);
    kv_u32(b, "llama.block_count", 1);
    kv_u32(b, "llama.feed_forward_length", EMBD);
    kv_u32(b, "llama.attention.head_count", EMBD / HEAD);
    kv_u32(b, "llama.attention.head_count_kv", EMBD / HEAD / 2);
    kv_u32(b, "llama.vocab_size", VOCAB);
    kv_f32(b, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    kv_text(b, "tokenizer.ggml.model", "no_vocab");
    for (int i = 0; i < (int)QSF_ARRAY_LEN(parts); i++) {
        tensor(b, parts[i].name, i < N_MATRICES ? type : 0, parts[i].cols, parts[i].rows);
        const uint64_t n = (uint64_t)parts[i].cols * QSF_MAX(parts[i].rows, 1);
        const uint32_t q = i >= N_MATRICES || type == 0 ? QSF_T_F32 : type == 1 ? QSF_T_F16
            : QSF_T_GGML + type;
        const qsf_type_info *info = qsf_type_get(q);
        const size_t bytes = (size_t)(n / (1u << info->own_block) * info->own_bytes);
        memset(b->data.p + b->data.len - bytes, i == bad ? fill : 0, bytes);
    }
    gguf_build_end(b);
}

static qsf_status run(const gguf_build *b, bool f32, qsf_error *err)
{
    memfile f;
    qsf_model_options mo;
    qsf_context_options co;
    qsf_model *m = NULL;
    qsf_context *c = NULL;
    memfile_init(&f, b->out, b->len);
    qsf_model_defaults(&mo);
    mo.file = &f.file;
    qsf_status st = qsf_model_open("m.gguf", &mo, &m, err);
    if (st) return st;
    qsf_context_defaults(&co);
    co.n_threads = 1;
    co.n_ctx = 64;
    co.n_batch = 8;
    co.f32 = f32;
    if (!(st = qsf_context_new(m, &co, &c, err))) {
        const int32_t ids[3] = { 0, 5, VOCAB - 1 };
        const float *logits = NULL;
        st = qsf_feed(c, 0, ids, 3, &logits);
        if (!st) st = qsf_feed(c, 0, ids, 1, &logits);
        if (st) snprintf(err->text, sizeof err->text, "%s", qsf_last_error(c));
    }
    qsf_context_free(c);
    qsf_model_close(m);
    return st;
}

static void check_type(uint32_t type, const char *name, int fill)
{
    gguf_build b;
    qsf_error err = { 0 };
    build(&b, type, -1, 0);
    CHECK_EQ(run(&b, false, &err), QSF_OK);
    gguf_build_free(&b);
    for (int bad = 0; bad < N_MATRICES + 3; bad++)
        for (int f32 = 0; f32 < 2; f32++) {
            build(&b, type, bad, fill);
            const qsf_status st = run(&b, f32, &err);
            CHECK_EQ(st, QSF_E_CORRUPT);
            if (st != QSF_E_CORRUPT) printf("      %s, tensor %d, f32 %d\n", name, bad, f32);
            else if (!strstr(err.text, "finite")) CHECK_STR(err.text, "finite");
            gguf_build_free(&b);
        }
}

/* With all bits set, fp16 and fp32 are NaN.  The one-byte scales of MXFP4 and NVFP4 are left out:
 * llama.cpp reads that byte as a power of two and as zero, and so do we. */
TEST(scales_that_are_nan_are_an_error)
{
    for (uint32_t type = 0; type < 64; type++) {
        const uint32_t q = type == 0 ? QSF_T_F32 : type == 1 ? QSF_T_F16 : QSF_T_GGML + type;
        const qsf_type_info *info = qsf_type_get(q);
        if (info && q != QSF_T_NVFP4 && q != QSF_T_MXFP4) check_type(type, info->name, 0xff);
    }
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    RUN(scales_that_are_nan_are_an_error);
    return test_end();
}
