/* Whether a device computes what the CPU computes: small cases, before a model is trusted to it.
 * SPDX-License-Identifier: MIT
 *
 * Each case runs shaders that the model's layers will run, on numbers that are made up here:
 *
 *   products      tiles of a form times rows of codes.  Scales are powers of two and sums are
 *                 small, so every result is exact, and must be that of the CPU's kernel.  Where
 *                 scales are fp16, some are subnormal: a device that takes these for zero is
 *                 refused, because the scales of super-blocks are often that small.
 *                 Those that make codes by themselves, and gated ones, within the rounding of codes
 *   embedding     rows of tiles of a form, within rounding
 *   rows          norms, activations and sums, within rounding
 *   attention     keys and values of a sequence to their places, chunks of them, and their join;
 *                 and groups of rows: within the rounding of keys and values
 *   experts       products of slots with the experts that they chose, exact
 *   variables     in a loop begin with their initial value on each pass
 *
 * The pipelines are those that the layers use, so a case costs a dispatch or three. */
#ifndef QSF_SELF_TEST_H
#define QSF_SELF_TEST_H

#include "device/pipelines.h"
#include "layers/kv.h"

#include "wgsl/attend_wgsl.h"
#include "wgsl/embed_wgsl.h"
#include "wgsl/experts_wgsl.h"
#include "wgsl/product_wgsl.h"
#include "wgsl/rows_wgsl.h"

typedef struct qsf_self_test qsf_self_test;

/* With the case of variables.  k: the CPU's kernels; pipelines: of the device that is tested. */
qsf_status qsf_self_test_new(const qsf_platform *p, qsf_pipelines *pipelines, const qsf_kernels *k,
                             qsf_self_test **out, qsf_error *err);
void       qsf_self_test_free(qsf_self_test *t);        /* takes NULL */

/* Each adds a case, unless there is one of the same shader.  rows 0: qsf_wgsl_product_tiles. */
qsf_status qsf_self_test_product(qsf_self_test *t, const qsf_wgsl_product *p, qsf_error *err);
/* With `from`. */
qsf_status qsf_self_test_fused(qsf_self_test *t, const qsf_wgsl_product *p, qsf_error *err);
/* For few slots, and for many, which a shader has sorted. */
qsf_status qsf_self_test_experts(qsf_self_test *t, const qsf_wgsl_experts *e, bool many, qsf_error *err);
/* Tiles only: floats are not multiplied there, only brought into place. */
qsf_status qsf_self_test_embed(qsf_self_test *t, const qsf_wgsl_embed *e, qsf_error *err);
qsf_status qsf_self_test_rows(qsf_self_test *t, const qsf_wgsl_rows *r, qsf_error *err);
qsf_status qsf_self_test_attention(qsf_self_test *t, const qsf_wgsl_attend *a, const qsf_kv_layout *l,
                                   qsf_error *err);
/* Of groups of rows. */
qsf_status qsf_self_test_prompt(qsf_self_test *t, const qsf_wgsl_attend *a, const qsf_kv_layout *l,
                                qsf_error *err);

/* Runs what was added.  wait: does not return QSF_PENDING; otherwise call again until it does not.
 * QSF_E_CORRUPT: a shader does not compile, or computes something else; the message names the
 * device and the case.  Other codes are the device's (base/device.h). */
qsf_status qsf_self_test_run(qsf_self_test *t, bool wait, qsf_error *err);

#endif
