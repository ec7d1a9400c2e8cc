/* The table of operations, and the account of them and of kernels.
 * SPDX-License-Identifier: MIT */
#include "layers/operation.h"

/* clang-format off */
const qsf_op_row qsf_ops[QSF_N_OPS] = {
    [QSF_OP_EMBEDDING]   = { "embedding", QSF_OP_APART },
    [QSF_OP_MTP]         = { "embedding and hidden state", QSF_OP_MATMUL },
    [QSF_OP_ATTN_NORM]   = { "attention norm", QSF_OP_OTHER },
    [QSF_OP_QKV]         = { "qkv", QSF_OP_MATMUL },
    [QSF_OP_LATENT]      = { "latents", QSF_OP_MATMUL },
    [QSF_OP_LATENT_QUERIES] = { "queries of latents", QSF_OP_MATMUL },
    [QSF_OP_LATENT_HEADS] = { "heads of latents", QSF_OP_MATMUL },
    [QSF_OP_PLACE]       = { "place keys", QSF_OP_OTHER },
    [QSF_OP_ATTENTION]   = { "attention", QSF_OP_ATTEND },
    [QSF_OP_ATTN_CODES]  = { "attention codes", QSF_OP_OTHER },
    [QSF_OP_ATTN_OUT]    = { "attention output", QSF_OP_MATMUL },
    [QSF_OP_MIX_IN]      = { "mixer input", QSF_OP_MATMUL },
    [QSF_OP_MIX]         = { "mixer", QSF_OP_ATTEND },
    [QSF_OP_MIX_X]       = { "mixer steps and sums", QSF_OP_MATMUL },
    [QSF_OP_MIX_STEP]    = { "mixer steps", QSF_OP_MATMUL },
    [QSF_OP_MIX_CODES]   = { "mixer codes", QSF_OP_OTHER },
    [QSF_OP_MIX_OUT]     = { "mixer output", QSF_OP_MATMUL },
    [QSF_OP_FFN_NORM]    = { "feed-forward norm", QSF_OP_OTHER },
    [QSF_OP_ROUTER]      = { "router", QSF_OP_MATMUL },
    [QSF_OP_ROUTER_CHOICE] = { "choice of experts", QSF_OP_OTHER },
    [QSF_OP_EXPERT_ROWS] = { "experts' rows", QSF_OP_OTHER },
    [QSF_OP_EXPERTS_IN]  = { "experts in", QSF_OP_MATMUL },
    [QSF_OP_EXPERTS_OUT] = { "experts out", QSF_OP_MATMUL },
    [QSF_OP_EXPERT_UP]   = { "experts up", QSF_OP_MATMUL },
    [QSF_OP_EXPERT_CODES] = { "experts' codes", QSF_OP_OTHER },
    [QSF_OP_EXPERT_DOWN] = { "experts down", QSF_OP_MATMUL },
    [QSF_OP_EXPERT_SUM]  = { "experts' sum", QSF_OP_OTHER },
    [QSF_OP_FFN_UP]      = { "feed-forward up", QSF_OP_MATMUL },
    [QSF_OP_FFN_CODES]   = { "feed-forward codes", QSF_OP_OTHER },
    [QSF_OP_FFN_DOWN]    = { "feed-forward down", QSF_OP_MATMUL },
    [QSF_OP_RESIDUAL]    = { "residual", QSF_OP_OTHER },
    [QSF_OP_ALTUP]       = { "streams", QSF_OP_MATMUL },
    [QSF_OP_LAYER_CODES] = { "layer embedding codes", QSF_OP_OTHER },
    [QSF_OP_LAYER_EMBD]  = { "layer embedding", QSF_OP_MATMUL },
    [QSF_OP_LAYER_GATE]  = { "layer embedding gate", QSF_OP_MATMUL },
    [QSF_OP_LAYER_OUT]   = { "layer embedding output", QSF_OP_MATMUL },
    [QSF_OP_HEAD_NORM]   = { "head norm", QSF_OP_TO_HEAD },
    [QSF_OP_HEAD_MAKE]   = { "head preparation", QSF_OP_APART },
    [QSF_OP_HEAD_SCREEN] = { "head screen", QSF_OP_TO_HEAD },
    [QSF_OP_HEAD_CHOOSE] = { "head choice", QSF_OP_TO_HEAD },
    [QSF_OP_HEAD]        = { "head", QSF_OP_TO_HEAD },
};
/* clang-format on */

uint64_t qsf_product_bytes(const qsf_product *p)
{
    const qsf_tensor *t = &p->m->t;
    return p->rows >= t->rows ? t->bytes : t->bytes / t->rows * p->rows;
}

void qsf_account_product(qsf_account *a, const qsf_product *p)
{
    qsf_kernel_count *k = &a->kernels[p->kernel][qsf_product_many(p)];
    k->products++;
    k->rows += (uint64_t)p->rows * p->n;
    k->bytes += qsf_product_bytes(p);
}

void qsf_account_op(qsf_account *a, qsf_op op, uint64_t ns)
{
    a->ops[op].times++;
    a->ops[op].ns += ns;
}

uint64_t qsf_account_ns(const qsf_account *a, qsf_op_use use)
{
    uint64_t ns = 0;
    for (int i = 0; i < QSF_N_OPS; i++) ns += qsf_ops[i].use == use ? a->ops[i].ns : 0;
    return ns;
}

/* ---- names ---- */

/* The entry of a kernel of no form in the table. */
static size_t other_entry(uint32_t kernel)
{
    return kernel >= QSF_KERNEL_LUT_T2 ? offsetof(qsf_kernels, matvec_lut)
           : kernel == QSF_KERNEL_F16 ? offsetof(qsf_kernels, matmul_f16)
           : kernel == QSF_KERNEL_BF16 ? offsetof(qsf_kernels, matmul_bf16)
           : offsetof(qsf_kernels, matmul_f32);
}

static size_t form_entry(uint32_t form, bool many)
{
    const size_t array = many ? offsetof(qsf_kernels, matmul) : offsetof(qsf_kernels, matvec);
    return array + form * sizeof(void (*)(void));
}

void qsf_product_kernel_id(const qsf_kernels *k, uint32_t kernel, bool many, char out[QSF_KERNEL_ID])
{
    static const char *const others[] = { "f32", "f16", "bf16", "unpacked", "ternary2_lut", "i2s_qk256_lut" };
    const bool form = kernel < QSF_N_FORMS;
    const char *name = form ? qsf_form_name((qsf_form)kernel) : others[kernel - QSF_N_FORMS];
    if (kernel == QSF_F_QK256)          /* names fixed by the original specification */
        qsf_format(out, QSF_KERNEL_ID, "%s_%s", name, many ? "gemm" : "gemv_row");
    else
        qsf_format(out, QSF_KERNEL_ID, "%s_%s_%s", name, many ? "matmul" : "matvec",
                   qsf_kernels_set(k, form ? form_entry(kernel, many) : other_entry(kernel)));
}
