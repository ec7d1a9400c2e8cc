/* What a matrix multiplies: rows as floats or as codes, and the kernel that takes them.
 * SPDX-License-Identifier: MIT */
#include "layers/act_row.h"
#include "layers/lora.h"
#include "layers/matrix.h"

qsf_matrix_in qsf_matrix_input(const qsf_pass *p, const float *x, size_t ld, size_t cols, uint32_t first,
                               uint32_t n)
{
    return qsf_matrix_input_of(&p->b->act, x, ld, cols, first, n);
}

qsf_matrix_in qsf_matrix_input_of(const qsf_act *act, const float *x, size_t ld, size_t cols, uint32_t first,
                                  uint32_t n)
{
    qsf_matrix_in in = { x + first * ld, ld, cols, *act };
    in.act.cols = qsf_act_cols((uint32_t)cols);
    in.act.n = n;
    in.act.q += (size_t)first * in.act.cols;
    in.act.d += (size_t)first * in.act.cols / 64;
    in.act.s += (size_t)first * in.act.cols / 32;
    in.act.h += (size_t)first * in.act.cols / 8;
    return in;
}

bool qsf_matrix_takes_codes(const qsf_pass *p, const qsf_matrix *m)
{
    return m->t.data && m->form >= 0 && !p->o->f32;
}

bool qsf_matrix_takes_floats(const qsf_pass *p, const qsf_matrix *m)
{
    return m->t.data && (!qsf_matrix_takes_codes(p, m) || m->out_start || p->cpu->lora || p->cpu->watch);
}

bool qsf_kinds_take_codes(const qsf_pass *p, const uint8_t *kinds, uint32_t n)
{
    bool take = qsf_lora_takes_codes(p);
    for (uint32_t i = 0; i < n; i++) take |= qsf_matrix_takes_codes(p, &p->w->m[kinds[i]]);
    return take;
}

bool qsf_kinds_take_floats(const qsf_pass *p, const uint8_t *kinds, uint32_t n)
{
    bool take = p->cpu->lora;
    for (uint32_t i = 0; i < n; i++) take |= qsf_matrix_takes_floats(p, &p->w->m[kinds[i]]);
    return take;
}

uint32_t qsf_matrix_kernel(const qsf_pass *p, const qsf_matrix *m, size_t n)
{
    if (m->lut && n == 1) return m->form == QSF_F_QK256 ? QSF_KERNEL_LUT_QK256 : QSF_KERNEL_LUT_T2;
    if (qsf_matrix_takes_codes(p, m)) return (uint32_t)m->form;
    if ((uintptr_t)m->t.data % sizeof(float)) return QSF_KERNEL_UNPACKED;   /* a file may put them anywhere */
    switch (m->t.type) {
    case QSF_T_F32:  return QSF_KERNEL_F32;
    case QSF_T_F16:  return QSF_KERNEL_F16;
    case QSF_T_BF16: return p->o->f32 ? QSF_KERNEL_UNPACKED : QSF_KERNEL_BF16;
    default:         return QSF_KERNEL_UNPACKED;
    }
}

void qsf_matrix_quantize(const qsf_pass *p, const qsf_matrix_in *in, qsf_range rows)
{
    qsf_act act = in->act;
    const bool whole = p->o->act_quant == QSF_ACT_ROW;
    for (size_t r = rows.begin; r < rows.end; r++) {
        const float *x = in->x + r * in->ld;
        qsf_pass_check(p, x, in->cols);         /* rounding to 8 bits would hide NaN and infinities */
        (whole ? qsf_quantize_act_row : p->k->quantize_act)(&act, r, x, in->cols);
    }
}

float *qsf_matrix_scratch(const qsf_pass *p, uint32_t thread)
{
    return p->b->float_rows + (size_t)thread * QSF_TILE_ROWS * p->b->max_cols;
}
