/* Feed-forwards on a device: with and without a gate.
 * SPDX-License-Identifier: MIT */
#include "device/device_feed_forward.h"

#include "weights/layers.h"

qsf_wgsl_function qsf_device_function(const qsf_layer *l)
{
    static const uint8_t functions[] = {
        [QSF_ACT_GELU] = QSF_WGSL_GELU, [QSF_ACT_SILU] = QSF_WGSL_SILU, [QSF_ACT_RELU] = QSF_WGSL_RELU,
        [QSF_ACT_RELU2] = QSF_WGSL_RELU2, [QSF_ACT_XIELU] = QSF_WGSL_XIELU,
        [QSF_ACT_SWIGLU_OAI] = QSF_WGSL_SWIGLU_OAI,
    };
    return (qsf_wgsl_function)functions[l->act];
}

const char *qsf_device_feed_forward_refused(const qsf_layer *l, const qsf_weights *w)
{
    static const uint8_t kinds[] = { QSF_K_FFN_GATE, QSF_K_FFN_UP, QSF_K_FFN_DOWN };
    const char *why;
    if (l->sparse > 0) return "gates that it drops";
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

static void plain_in(qsf_device_maker *k)
{
    qsf_device_step_product(k, "up", QSF_K_FFN_UP, QSF_K_FFN_UP_BIAS, QSF_DEVICE_UP, k->b->ff_ld, false);
}

static const uint8_t gate_and_up[] = { QSF_K_FFN_GATE, QSF_K_FFN_UP };

/* Both are in GATE if one product has them; and in small batches what becomes of them. */
static void gated_in(qsf_device_maker *k)
{
    const bool joined = qsf_device_joined(k, gate_and_up, 2);
    const qsf_wgsl_function f = qsf_device_function(k->layer);
    qsf_device_products p = { .name = "gate and up", .function = f,
                              .gated = joined && f != QSF_WGSL_SWIGLU_OAI && f != QSF_WGSL_XIELU,
                              .to = { QSF_DEVICE_GATE, 2 * k->b->ff_ld, 0, false, false, 1 } };
    k->gated = p.gated ? k->fused : 0;
    if (joined) {
        qsf_device_set_matrix(k, &p, QSF_K_FFN_GATE, QSF_K_FFN_GATE_BIAS);
        qsf_device_set_matrix(k, &p, QSF_K_FFN_UP, QSF_K_FFN_UP_BIAS);
        qsf_device_step_products(k, &p);
    } else {
        qsf_device_step_product(k, "gate", QSF_K_FFN_GATE, QSF_K_FFN_GATE_BIAS, QSF_DEVICE_GATE, k->b->ff_ld,
                                false);
        plain_in(k);
    }
}

enum { FUSED_COLUMNS = 5120 };  /* wider rows are faster if they are made once, not in each workgroup */

/* From gate and up to what the matrix down takes. */
static void list_hidden(qsf_device_maker *k, bool gated)
{
    static const uint8_t down = QSF_K_FFN_DOWN;
    const bool joined = gated && qsf_device_joined(k, gate_and_up, 2);
    qsf_device_rows x = { .name = "feed-forward codes", .a = QSF_DEVICE_UP, .cols = k->layer->n_ff,
                          .ld = k->b->ff_ld, .r = { .function = qsf_device_function(k->layer) },
                          .of_function = k->layer->xielu };
    if (k->w->v[QSF_K_FFN_SUB_NORM]) qsf_device_set_norm(k, &x, QSF_K_FFN_SUB_NORM, 0);
    if (gated) {
        x.r.source = QSF_WGSL_FROM_TWO;
        x.a = QSF_DEVICE_GATE, x.ld = (joined ? 2 : 1) * k->b->ff_ld;
        x.b = joined ? QSF_DEVICE_GATE : QSF_DEVICE_UP;
        x.b_at = joined ? k->layer->n_ff : 0;
    }
    k->of.least = k->gated ? k->gated + 1 : 0;
    qsf_device_add_input(k, x, &down, 1);
    k->of.least = 0;
    if (k->gated) {
        x.r.source = QSF_WGSL_FROM_FLOATS;
        x.r.function = QSF_WGSL_UNCHANGED;
        k->of.most = k->gated;
        qsf_device_add_input(k, x, &down, 1);
    }
    qsf_device_fuse(k, FUSED_COLUMNS);
    k->of.most = 0;
    k->gated = 0;
}

void qsf_device_list_hidden(qsf_device_maker *k, bool gated)
{
    if (gated) gated_in(k);
    else plain_in(k);
    list_hidden(k, gated);
}

static void feed_forward_list(qsf_device_maker *k, bool gated)
{
    list_hidden(k, gated);
    qsf_device_step_out(k, "down", QSF_K_FFN_DOWN, QSF_K_FFN_DOWN_BIAS);
}

static void plain_list(qsf_device_maker *k) { feed_forward_list(k, false); }
static void gated_list(qsf_device_maker *k) { feed_forward_list(k, true); }

const qsf_device_part qsf_device_plain = {
    dense_refused, plain_list, plain_in, 1, { QSF_K_FFN_UP },
};
const qsf_device_part qsf_device_gated = {
    dense_refused, gated_list, gated_in, 2, { QSF_K_FFN_UP, QSF_K_FFN_GATE },
};
