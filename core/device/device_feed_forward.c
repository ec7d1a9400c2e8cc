/* Feed-forwards on a device: with and without a gate.
 * SPDX-License-Identifier: MIT */
#include "device/device_feed_forward.h"

#include "weights/layers.h"

qsf_wgsl_function qsf_device_function(const qsf_layer *l)
{
    static const qsf_wgsl_function functions[] = { [QSF_ACT_GELU] = QSF_WGSL_GELU,
                                                   [QSF_ACT_SILU] = QSF_WGSL_SILU,
                                                   [QSF_ACT_RELU] = QSF_WGSL_RELU };
    return l->act < QSF_ARRAY_LEN(functions) ? functions[l->act] : QSF_WGSL_UNCHANGED;
}

const char *qsf_device_feed_forward_refused(const qsf_layer *l, const qsf_weights *w)
{
    static const uint8_t kinds[] = { QSF_K_FFN_GATE, QSF_K_FFN_UP, QSF_K_FFN_DOWN };
    const char *why;
    if (!qsf_device_function(l)) return "its activation";
    if (w->v[QSF_K_FFN_SUB_NORM]) return "its norms";
    for (size_t i = 0; i < QSF_ARRAY_LEN(kinds); i++)
        if ((why = qsf_device_matrix_refused(&w->m[kinds[i]]))) return why;
    return NULL;
}

static const char *dense_refused(const qsf_source *s, const qsf_layer *l, const qsf_weights *w,
                                 const qsf_context_options *o)
{
    (void)s;
    (void)o;
    return qsf_device_feed_forward_refused(l, w);
}

void qsf_device_list_hidden(qsf_device_maker *k, bool gated)
{
    const qsf_wgsl_rows r = { .source = gated ? QSF_WGSL_FROM_TWO : QSF_WGSL_FROM_FLOATS, .codes = true,
                              .function = qsf_device_function(k->layer) };
    const uint32_t ld = k->b->ff_ld;
    if (gated)
        qsf_device_step_product(k, "gate", QSF_K_FFN_GATE, QSF_K_FFN_GATE_BIAS, QSF_DEVICE_GATE, ld, false);
    qsf_device_step_product(k, "up", QSF_K_FFN_UP, QSF_K_FFN_UP_BIAS, QSF_DEVICE_UP, ld, false);
    qsf_device_step_rows(k, &r, "feed-forward codes", gated ? QSF_DEVICE_GATE : QSF_DEVICE_UP, QSF_DEVICE_UP,
                         k->layer->n_ff, ld, 0, 0);
}

static void feed_forward_list(qsf_device_maker *k, bool gated)
{
    qsf_device_list_hidden(k, gated);
    qsf_device_step_out(k, "down", QSF_K_FFN_DOWN, QSF_K_FFN_DOWN_BIAS);
}

static void plain_list(qsf_device_maker *k) { feed_forward_list(k, false); }
static void gated_list(qsf_device_maker *k) { feed_forward_list(k, true); }

const qsf_device_part qsf_device_plain = { dense_refused, plain_list };
const qsf_device_part qsf_device_gated = { dense_refused, gated_list };
