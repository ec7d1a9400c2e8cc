/* Whether a device is worth its layers: the time that one of them takes there and on the CPU.
 * SPDX-License-Identifier: MIT
 *
 * The first of the device's layers is computed by both, with the model's weights: for one row, as
 * answers are, and for a few rows of a prompt.  On the device it is listed as often as the device
 * has layers, in one submit, so that the way there and back counts once, as in a batch.  The best
 * of several runs counts, and each of the four measurements takes a tenth of a second at most, or
 * one run.
 *
 * If the first layers pass through (device_stream.h), the layer is one of them, whose weights are
 * in a slot during the measurement. */
#ifndef QSF_DEVICE_TRIAL_H
#define QSF_DEVICE_TRIAL_H

#include "engine/context.h"

enum { QSF_TRIAL_ROWS = 16 };   /* of a prompt, at most: they fit into a block of the KV cache */

typedef enum qsf_trial_kind {
    QSF_TRIAL_GPU_ROW, QSF_TRIAL_GPU_PROMPT, QSF_TRIAL_CPU_ROW, QSF_TRIAL_CPU_PROMPT, QSF_N_TRIAL_KINDS
} qsf_trial_kind;

typedef struct qsf_device_trial {
    double   ns[QSF_N_TRIAL_KINDS];     /* output: of all layers of the device, or all that pass through
                                         * it, for each row */
    uint32_t rows;                      /* of a prompt; 0: QSF_TRIAL_ROWS */
    uint32_t kind, run;                 /* the measurement and the run under way */
    bool     begun;
    uint32_t times;                     /* that the layer is listed */
    uint64_t begun_ns, spent_ns, one_ns, best_ns;       /* one_ns: with the layer listed once */
} qsf_device_trial;

/* Continues the trial of a new context with layers on a device; *t is all zeros at first, except
 * `rows`.
 *
 * QSF_PENDING   on a host that must not block: call again when bytes of the file have come
 *               (*reading) or when the device has done something
 * QSF_OK        all is measured; or the device has failed, and has no layers any more
 *               (qsf_context_device)
 * other codes   of the file */
qsf_status qsf_device_trial_step(qsf_context *c, qsf_device_trial *t, bool *reading);

#endif
