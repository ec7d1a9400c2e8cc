/* The parts of layers that a device computes: a new mixer or feed-forward is a file and a row in
 * device_layer.c.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_DEVICE_PARTS_H
#define QSF_DEVICE_PARTS_H

#include "device/device_steps.h"

typedef struct qsf_device_part {
    /* What it cannot compute of this layer, in words; NULL: it computes all. */
    const char *(*refused)(const qsf_source *s, const qsf_layer *l, const qsf_weights *w,
                           const qsf_context_options *o);
    /* Appends the steps from CODES or FLOATS, the normed rows, to its output
     * (qsf_device_step_out); those after `in` if it has it. */
    void (*list)(qsf_device_maker *k);
    /* The products that read the normed rows, or NULL: then another part cannot read the same
     * rows (qsf_hparams' parallel flows). */
    void (*in)(qsf_device_maker *k);
    uint8_t n_kinds, kinds[4];      /* matrices that read them; none: codes */
} qsf_device_part;

extern const qsf_device_part qsf_device_attention, qsf_device_plain, qsf_device_gated, qsf_device_experts;
/* Of layers with n_embd_layer, after the feed-forward; it changes X itself. */
extern const qsf_device_part qsf_device_layer_embedding;

#endif
