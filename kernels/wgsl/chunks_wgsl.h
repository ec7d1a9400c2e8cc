/* Attention over chunks of the cached positions.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_WGSL_CHUNKS_H
#define QSF_WGSL_CHUNKS_H

#include "attend_wgsl.h"

/* Bindings 1 to 6: Queries, KV, Rows, Table; written: A (floats, [n][heads][chunks][room] sums),
 * B (vec2<f32>, [n][heads][chunks]: the largest score and the sum of exponentials), which
 * qsf_wgsl_rows_text joins.  Workgroups: chunks of p.blocks blocks, n, kv_heads * (query heads of
 * one / share, rounded up). */
void qsf_wgsl_chunks(qsf_wgsl_text *t, const qsf_wgsl_attend *a);

#endif
