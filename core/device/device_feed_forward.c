/* Feed-forwards on a device: with and without a gate.
 * SPDX-License-Identifier: MIT */
#include "device/device_parts.h"

#include "weights/layers.h"

static const char *feed_forward_refused(const qsf_source *s, const qsf_layer *l, const qsf_weights *w,
                                        const qsf_context_options *o)
{
    static const uint8_t kinds[] = { QSF_K_FFN_GATE, QSF_K_FFN_UP, QSF_K_FFN_DOWN };
    const char *why;
    (void)s;
    (void)o;
    if (l->act != QSF_ACT_SILU && l->act != QSF_ACT_GELU && l->act != QSF_ACT_RELU) return "its activation";
    if (w->v[QSF_K_FFN_SUB_NORM]) return "its norms";
    for (size_t i = 0; i < QSF_ARRAY_LEN(kinds); i++)
        if ((why = qsf_device_matrix_refused(&w->m[kinds[i]]))) return why;
    return NULL;
}

static void feed_forward_list(qsf_device_maker *k, bool gated)
{
    static const qsf_wgsl_function functions[] = { [QSF_ACT_GELU] = QSF_WGSL_GELU,
                                                   [QSF_ACT_SILU] = QSF_WGSL_SILU,
                                                   [QSF_ACT_RELU] = QSF_WGSL_RELU };
    const qsf_wgsl_rows r = { .source = gated ? QSF_WGSL_FROM_TWO : QSF_WGSL_FROM_FLOATS, .codes = true,
                              .function = functions[k->layer->act] };
    const uint32_t ld = k->b->ff_ld;
    if (gated)
        qsf_device_step_product(k, "gate", QSF_K_FFN_GATE, QSF_K_FFN_GATE_BIAS, QSF_DEVICE_GATE, ld, false);
    qsf_device_step_product(k, "up", QSF_K_FFN_UP, QSF_K_FFN_UP_BIAS, QSF_DEVICE_UP, ld, false);
    qsf_device_step_rows(k, &r, "feed-forward codes", gated ? QSF_DEVICE_GATE : QSF_DEVICE_UP, QSF_DEVICE_UP,
                         k->layer->n_ff, ld, 0, 0);
    qsf_device_step_out(k, "down", QSF_K_FFN_DOWN, QSF_K_FFN_DOWN_BIAS);
}

static void plain_list(qsf_device_maker *k) { feed_forward_list(k, false); }
static void gated_list(qsf_device_maker *k) { feed_forward_list(k, true); }

const qsf_device_part qsf_device_plain = { feed_forward_refused, plain_list };
const qsf_device_part qsf_device_gated = { feed_forward_refused, gated_list };
