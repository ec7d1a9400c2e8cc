/* The device's kernels: functions that write the text of WebGPU compute shaders, one file for each
 * kind of work.  Here is what all of them share.
 * SPDX-License-Identifier: MIT
 *
 * Plain WGSL that every browser has: no f16, no subgroups, at most 256 invocations, bindings of at
 * most 128 MiB at offsets of 256 bytes.  Integer products are dot4I8Packed over the same codes as
 * the CPU's kernels (kernels.h), so their sums are the same numbers.
 *
 * A text declares its bindings in group 0, from 0 on, and its entry is "main".  Binding 0 is a
 * uniform buffer with the shader's numbers; the header of each shader declares them as a struct.
 * Shapes are among them: a pipeline serves all matrices of a form.  docs/webgpu-shaders.md
 * describes buffers and dispatches. */
#ifndef QSF_WGSL_H
#define QSF_WGSL_H

#include "text_wgsl.h"

enum {
    QSF_WGSL_THREADS = 256,         /* of a workgroup, at most */
    QSF_WGSL_SHARED = 4096,         /* words of memory that a workgroup has on every device */
    QSF_WGSL_DISPATCH = 65535       /* workgroups of a dimension, at most */
};

/* Rows of activations: of 64 columns five vec4<u32>.  The first is the scale (f32), then the sums
 * of each 16 codes as int16, the first in the low half, and 0; four with 16 codes each follow, in
 * order.  A row is padded with zeros to whole blocks of the matrices that read it. */
static inline uint32_t qsf_wgsl_act_words(uint32_t cols) { return (cols + 63) / 64 * 20; }

/* Groups of a dispatch that has n of them: x and y. */
void qsf_wgsl_dispatch(uint32_t n, uint32_t groups[3]);

#endif
