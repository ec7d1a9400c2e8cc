/* Buffers by name.
 * SPDX-License-Identifier: MIT */
#include "layers/buffer_names.h"

#define PLACE(member, ld) { offsetof(qsf_buffers, member), offsetof(qsf_buffers, ld), false }
#define TIGHT(member, ld) { offsetof(qsf_buffers, member), offsetof(qsf_buffers, ld), true }
const qsf_buffer_place qsf_buffer_places[QSF_N_BUFFERS] = {
    [QSF_BUF_X] = PLACE(x, ld_embd), [QSF_BUF_XN] = PLACE(xn, ld_embd), [QSF_BUF_TMP] = PLACE(tmp, ld_embd),
    [QSF_BUF_Q] = PLACE(q, ld_q), [QSF_BUF_K] = PLACE(k, ld_kv), [QSF_BUF_V] = PLACE(v, ld_kv),
    [QSF_BUF_ATT] = PLACE(att, ld_q), [QSF_BUF_GATE] = PLACE(gate, ld_ff), [QSF_BUF_UP] = PLACE(up, ld_ff),
    [QSF_BUF_X0] = PLACE(x0, ld_embd), [QSF_BUF_TABLE] = TIGHT(table, ld_table),
    [QSF_BUF_ALT] = TIGHT(alt, ld_alt), [QSF_BUF_PREDICTED] = PLACE(predicted, ld_embd),
    [QSF_BUF_LAUREL] = PLACE(laurel, ld_embd), [QSF_BUF_FIRST] = PLACE(first, ld_embd),
    [QSF_BUF_JOINED] = PLACE(joined, ld_joined), [QSF_BUF_FEATURES] = PLACE(features, ld_features),
    [QSF_BUF_MIX] = PLACE(mix, ld_mix), [QSF_BUF_ROUTE] = TIGHT(route, ld_route),
    [QSF_BUF_EXPERTS] = PLACE(experts, ld_embd), [QSF_BUF_SLOT_X] = PLACE(slot_x, ld_slot_x),
    [QSF_BUF_SLOT_GATE] = PLACE(slot_gate, ld_slot), [QSF_BUF_SLOT_UP] = PLACE(slot_up, ld_slot),
};
#undef PLACE
#undef TIGHT

float *qsf_buffer_of(const qsf_buffers *b, uint8_t name, size_t *ld)
{
    const uint8_t *base = (const uint8_t *)(const void *)b;
    float *x;
    memcpy(&x, base + qsf_buffer_places[name].at, sizeof x);
    memcpy(ld, base + qsf_buffer_places[name].ld, sizeof *ld);
    return x;
}
