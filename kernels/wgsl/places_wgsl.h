/* Queries, keys and values to their places: norm, rotation, the KV cache.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_WGSL_PLACES_H
#define QSF_WGSL_PLACES_H

#include "attend_wgsl.h"

/* Bindings 1 to 4: Q, K, V (floats), Rows; 5: Queries (words, written: [n][heads]); 6: KV (words,
 * written); then, those that a variant has: Angles (rope: vec2<f32>, cosine and sine,
 * [n][half]), Weights (norm: of queries, then of keys; still: [kv_heads][head_dim], which is
 * subtracted from keys).  Workgroups: heads + 2 * kv_heads, or only heads if a layer reads the keys
 * and values of another; n. */
void qsf_wgsl_places(qsf_wgsl_text *t, const qsf_wgsl_attend *a);

#endif
