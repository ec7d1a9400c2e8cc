/* A model of random weights that is converted, for tests of the converter; OUT names the
 * test's files.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_FAKE_H
#define QSF_CONVERT_FAKE_H

#include "convert.h"
#include "engine_host.h"
#include "fault_platform.h"
#include "importance.h"
#include "make_tiny_clusters.h"
#include "plan/forms.h"
#include "plan/loss.h"
#include "read/source_input.h"
#include "test.h"

/* N_PRESETS: those that take any weights */
enum { EMBD = 64, FF = 96, VOCAB = 48, LAYERS = 2, KV = 32, N_PRESETS = QSF_CONVERT_MIXED + 1 };

/* ternary: matrices of layers hold -TERNARY, 0 and TERNARY */
typedef struct fake { const char *broken; uint32_t bad_row; uint64_t salt; bool spikes, ternary; } fake;

#define TERNARY 0.0371f

/* One weight, from its place alone. */
static inline float fake_weight(const input *in, uint32_t i, uint32_t row, uint32_t col)
{
    const fake *f = in->own;
    uint64_t h = (uint64_t)i * 1000003 + (uint64_t)row * 10007 + col + f->salt;
    double sum = 0;
    for (int k = 0; k < 4; k++) {
        h = (h ^ h >> 31) * 0x9e3779b97f4a7c15u;
        sum += (double)(h >> 40) / 16777216.0 - 0.5;
    }
    if (f->ternary && in->tensors[i].rows > 1 && in->tensors[i].unit < LAYERS)
        return TERNARY * (float)((int)((h >> 33) % 3) - 1);
    if (f->spikes) return (float)((in->tensors[i].rows == 1) + 0.05 * sum * (h % 251 == 0 ? 40 : 1));
    return (float)(in->tensors[i].rows == 1 ? 1 + 0.1 * sum : 0.05 * sum * (1 + 3 * (col % 17 == 0)));
}

static inline qsf_status fake_read(input *in, uint32_t i, uint32_t row, uint32_t n, float *out,
                                   qsf_error *err)
{
    const fake *f = in->own;
    (void)err;
    for (uint32_t r = 0; r < n; r++)
        for (uint32_t c = 0; c < in->tensors[i].cols; c++)
            out[(size_t)r * in->tensors[i].cols + c] = fake_weight(in, i, row + r, c);
    if (f->broken && !strcmp(f->broken, in->tensors[i].name) && f->bad_row >= row && f->bad_row < row + n)
        out[(size_t)(f->bad_row - row) * in->tensors[i].cols + 3] = NAN;
    return QSF_OK;
}

static inline void fake_add(input *in, uint32_t unit, uint32_t kind, const char *name, uint32_t rows,
                            uint32_t cols)
{
    in->tensors[in->n_tensors++] = (input_tensor){ unit, kind, rows, cols, name, 4ull * rows * cols,
                                                   QSF_T_F32, 0 };
}

static inline void fake_close(input *in) { qsf_arena_free(in->arena); }

static inline void fake_open_on(const qsf_platform *p, input *in, fake *f, const char *arch)
{
    static const struct { uint32_t kind, rows, cols; const char *names[LAYERS]; } layer[] = {
        { QSF_K_ATTN_NORM, 1, EMBD, { "blk.0.attn_norm", "blk.1.attn_norm" } },
        { QSF_K_ATTN_Q, EMBD, EMBD, { "blk.0.attn_q", "blk.1.attn_q" } },
        { QSF_K_ATTN_K, KV, EMBD, { "blk.0.attn_k", "blk.1.attn_k" } },
        { QSF_K_ATTN_V, KV, EMBD, { "blk.0.attn_v", "blk.1.attn_v" } },
        { QSF_K_ATTN_OUT, EMBD, EMBD, { "blk.0.attn_output", "blk.1.attn_output" } },
        { QSF_K_FFN_NORM, 1, EMBD, { "blk.0.ffn_norm", "blk.1.ffn_norm" } },
        { QSF_K_FFN_GATE, FF, EMBD, { "blk.0.ffn_gate", "blk.1.ffn_gate" } },
        { QSF_K_FFN_UP, FF, EMBD, { "blk.0.ffn_up", "blk.1.ffn_up" } },
        { QSF_K_FFN_DOWN, EMBD, FF, { "blk.0.ffn_down", "blk.1.ffn_down" } },
    };
    memset(in, 0, sizeof *in);
    in->platform = p;
    in->read = fake_read;
    in->close = fake_close;
    in->own = f;
    in->arena = NULL;
    if (qsf_arena_new(in->platform, &in->arena, NULL)) return;
    in->hp = (qsf_hparams){ .n_layers = LAYERS, .n_embd = EMBD, .n_heads = 2, .n_kv_heads = 1, .head_dim = 32,
                            .n_ff = FF, .n_vocab = VOCAB,
                            .n_ctx_train = 128, .norm = QSF_NORM_RMS, .act = QSF_ACT_SILU,
                            .rope = QSF_ROPE_PAIRS, .gated = true, .tied = true,
                            .norm_eps = 1e-5f, .embd_scale = 1, .rope_base = 10000 };
    snprintf(in->hp.arch, sizeof in->hp.arch, "%s", arch);
    in->vocab.bos = in->vocab.eos = in->vocab.eot = in->vocab.unk = in->vocab.pad = -1;
    in->tensors = qsf_arena_array(in->arena, 32, sizeof *in->tensors, "tensors", NULL);
    if (!in->tensors) return;
    fake_add(in, LAYERS, QSF_K_TOKEN_EMBD, "token_embd", VOCAB, EMBD);
    for (uint32_t l = 0; l < LAYERS; l++)
        for (size_t k = 0; k < QSF_ARRAY_LEN(layer); k++)
            fake_add(in, l, layer[k].kind, layer[k].names[l], layer[k].rows, layer[k].cols);
    fake_add(in, LAYERS + 1, QSF_K_OUTPUT_NORM, "output_norm", 1, EMBD);
}

static inline void fake_open(input *in, fake *f, const char *arch)
{
    fake_open_on(qsf_platform_native(), in, f, arch);
}

static qsf_convert_rule rules[8];

static inline void add_rule(qsf_convert_options *o, const char *pattern, const char *type, uint32_t block)
{
    o->rules = rules;
    rules[o->n_rules++] = (qsf_convert_rule){ pattern, type, block };
}

static const char *out_path = OUT ".qsf";

static inline qsf_status convert_fake(fake *f, const qsf_convert_options *o, convert_report *r,
                                      convert_tensor *tensors, qsf_error *err)
{
    input in;
    fake_open(&in, f, "llama");
    const qsf_status st = qsf_conv_run(&in, o, out_path, r, err);
    if (st == QSF_OK && tensors) memcpy(tensors, r->tensors, in.n_tensors * sizeof *tensors);
    in.close(&in);
    return st;
}

static inline size_t file_bytes(uint8_t *to, size_t cap)
{
    FILE *f = fopen(out_path, "rb");
    if (!f) return 0;
    const size_t n = fread(to, 1, cap, f);
    fclose(f);
    return n;
}

static inline bool is_cancelled(void *user)
{
    (void)user;
    return true;
}

#endif
