/* Quantising a quantised tensor again would find other scales for the same codes, so a tensor that
 * is already stored in the planned form is copied.
 * SPDX-License-Identifier: MIT */
#include "plan/stored.h"

qsf_status qsf_conv_stored(input *in, uint32_t i, const convert_tensor *c, input_stored *from,
                           qsf_error *err)
{
    const bool changes = c->row_scale || c->col_scale || c->scale != 0 || c->clusters;
    *from = (input_stored){ 0 };
    if (!in->stored || changes) return QSF_OK;
    const qsf_status st = in->stored(in, i, false, from, err);
    if (st) return st;
    if (from->type != c->type || from->block != c->block || from->packing != c->packing)
        *from = (input_stored){ 0 };
    return QSF_OK;
}
