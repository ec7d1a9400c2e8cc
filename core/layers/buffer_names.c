/* Buffers by name.
 * SPDX-License-Identifier: MIT */
#include "layers/buffer_names.h"

/* The offsets in qsf_buffers of a buffer's address and of the distance of its rows. */
#define PLACE(member, ld) { offsetof(qsf_buffers, member), offsetof(qsf_buffers, ld) }
static const struct { uint16_t at, ld; } buffer_places[QSF_N_BUFFERS] = {
    [QSF_BUF_X] = PLACE(x, ld_embd), [QSF_BUF_XN] = PLACE(xn, ld_embd), [QSF_BUF_TMP] = PLACE(tmp, ld_embd),
    [QSF_BUF_Q] = PLACE(q, ld_q), [QSF_BUF_K] = PLACE(k, ld_kv), [QSF_BUF_V] = PLACE(v, ld_kv),
    [QSF_BUF_ATT] = PLACE(att, ld_q), [QSF_BUF_GATE] = PLACE(gate, ld_ff), [QSF_BUF_UP] = PLACE(up, ld_ff),
    [QSF_BUF_X0] = PLACE(x0, ld_embd), [QSF_BUF_TABLE] = PLACE(table, ld_table),
    [QSF_BUF_ALT] = PLACE(alt, ld_alt), [QSF_BUF_PREDICTED] = PLACE(predicted, ld_embd),
    [QSF_BUF_LAUREL] = PLACE(laurel, ld_embd), [QSF_BUF_FIRST] = PLACE(first, ld_embd),
    [QSF_BUF_MIX] = PLACE(mix, ld_mix), [QSF_BUF_ROUTE] = PLACE(route, ld_route),
    [QSF_BUF_EXPERTS] = PLACE(experts, ld_embd), [QSF_BUF_SLOT_X] = PLACE(slot_x, ld_slot_x),
    [QSF_BUF_SLOT_GATE] = PLACE(slot_gate, ld_slot), [QSF_BUF_SLOT_UP] = PLACE(slot_up, ld_slot),
};
#undef PLACE

float *qsf_buffer_of(const qsf_buffers *b, uint8_t name, size_t *ld)
{
    const uint8_t *base = (const uint8_t *)(const void *)b;
    float *x;
    memcpy(&x, base + buffer_places[name].at, sizeof x);
    memcpy(ld, base + buffer_places[name].ld, sizeof *ld);
    return x;
}
