/* Embeddings of tokens for each layer (Gemma 4) on a device: core/layers/layer_embedding.c.
 * SPDX-License-Identifier: MIT */
#include "device/device_parts.h"

#include "weights/layers.h"

static const char *layer_embedding_refused(const qsf_source *s, const qsf_layer *l, const qsf_weights *w,
                                           const qsf_context_options *o)
{
    static const uint8_t kinds[] = { QSF_K_LAYER_EMBD, QSF_K_LAYER_GATE, QSF_K_LAYER_OUT };
    const char *why;
    (void)s;
    (void)l;
    (void)o;
    for (size_t i = 0; i < QSF_ARRAY_LEN(kinds); i++)
        if ((why = qsf_device_matrix_refused(&w->m[kinds[i]]))) return why;
    return NULL;
}

/* UP: (norm of the embedding's product + the token's row) / sqrt(2). */
static void list_token(qsf_device_maker *k)
{
    static const uint8_t embd = QSF_K_LAYER_EMBD;
    const qsf_device_buffers *b = k->b;
    const uint32_t n_embd = b->source->hp.n_embd, n = k->layer->n_embd_layer;
    const float half = 1 / sqrtf(2);
    const qsf_device_rows in = { .name = "embedding", .a = QSF_DEVICE_X0, .cols = n_embd, .ld = b->ld };
    qsf_device_rows norm = { .name = "layer embedding norm", .to = QSF_DEVICE_UP, .cols = n,
                             .to_ld = b->ff_ld, .gain = half,
                             .r = { .source = QSF_WGSL_FROM_ITSELF, .floats = true, .scaled = true } };
    const qsf_device_rows row = { .name = "layer embedding", .a = QSF_DEVICE_TOKENS, .at = k->number * n,
                                  .ld = b->tokens_ld, .to = QSF_DEVICE_UP, .cols = n, .to_ld = b->ff_ld,
                                  .gain = half, .r = { .floats = true, .add = true, .scaled = true } };
    qsf_device_add_input(k, in, &embd, 1);
    qsf_device_step_scaled(k, "layer embedding", QSF_K_LAYER_EMBD, QSF_DEVICE_UP, b->ff_ld,
                           1 / sqrtf((float)n_embd));
    qsf_device_set_norm(k, &norm, QSF_K_LAYER_EMBD_NORM, 0);
    qsf_device_add_rows(k, &norm);
    qsf_device_add_rows(k, &row);
}

static void layer_embedding_list(qsf_device_maker *k)
{
    static const uint8_t gate = QSF_K_LAYER_GATE, out = QSF_K_LAYER_OUT;
    const qsf_device_buffers *b = k->b;
    const uint32_t n_embd = b->source->hp.n_embd;
    const qsf_device_rows in = { .name = "layer embedding codes", .a = QSF_DEVICE_X, .cols = n_embd,
                                 .ld = b->ld };
    const qsf_device_rows join = { .name = "layer embedding codes", .a = QSF_DEVICE_GATE, .b = QSF_DEVICE_UP,
                                   .cols = k->layer->n_embd_layer, .ld = b->ff_ld,
                                   .r = { .source = QSF_WGSL_FROM_TWO, .function = QSF_WGSL_GELU } };
    qsf_device_rows add = { .name = "norm after layer embedding", .a = QSF_DEVICE_TMP, .to = QSF_DEVICE_X,
                            .cols = n_embd, .ld = b->ld, .to_ld = b->ld,
                            .r = { .floats = true, .add = true } };
    list_token(k);
    qsf_device_add_input(k, in, &gate, 1);
    qsf_device_step_scaled(k, "layer embedding gate", QSF_K_LAYER_GATE, QSF_DEVICE_GATE, b->ff_ld, 1);
    qsf_device_add_input(k, join, &out, 1);
    qsf_device_step_scaled(k, "layer embedding output", QSF_K_LAYER_OUT, QSF_DEVICE_TMP, b->ld, 1);
    qsf_device_set_norm(k, &add, QSF_K_LAYER_POST_NORM, 0);
    qsf_device_add_rows(k, &add);
}

const qsf_device_part qsf_device_layer_embedding = {
    layer_embedding_refused, layer_embedding_list, NULL, 0, { 0 },
};
