/* What a context has done, by kernel and by operation, and the choice of tokens in its records.
 * SPDX-License-Identifier: MIT */
#include "engine/totals.h"

#include "base/sized.h"

qsf_status qsf_context_get_kernel(const qsf_context *c, size_t i, qsf_kernel_use *out)
{
    qsf_kernel_use use = { 0 };
    for (uint32_t at = 0; at < 2 * QSF_N_KERNELS; at++) {
        const qsf_kernel_count *k = &c->account.kernels[at / 2][at % 2];
        if (!k->products || i--) continue;
        use.products = k->products;
        use.rows = k->rows;
        use.bytes = k->bytes;
        qsf_product_kernel_id(&c->k, at / 2, at % 2, use.id);
        return QSF_GIVE(out, &use, NULL);
    }
    const qsf_status st = QSF_GIVE(out, &use, NULL);
    return st ? st : QSF_E_NOT_FOUND;
}

qsf_status qsf_context_get_operation(const qsf_context *c, size_t i, qsf_operation_use *out)
{
    qsf_operation_use use = { 0 };
    for (uint32_t op = 0; op < QSF_N_OPS; op++) {
        if (!c->account.ops[op].times || i--) continue;
        use.name = qsf_ops[op].name;
        use.times = c->account.ops[op].times;
        use.ns = c->account.ops[op].ns;
        return QSF_GIVE(out, &use, NULL);
    }
    const qsf_status st = QSF_GIVE(out, &use, NULL);
    return st ? st : QSF_E_NOT_FOUND;
}

void qsf_context_sampled(const qsf_context *c, uint64_t begin)
{
#if !defined(QSF_NO_RECORD)
    if (c->recorder.fn) qsf_record_stretch(&c->recorder, QSF_RECORD_SAMPLE, "sample", -1, 0, begin);
#else
    (void)c, (void)begin;
#endif
}
