/* What the products of one row and of many share: bindings and activations.
 * SPDX-License-Identifier: MIT */
#include "product_wgsl.h"

void qsf_wgsl_product_head(qsf_wgsl_text *t, const qsf_wgsl_product *p, uint32_t threads)
{
    qsf_wgsl_put(t,
        "struct Numbers {\n"
        "  rows: u32, tiles: u32, blocks: u32, n: u32, x_ld: u32, x_at: u32, y_ld: u32, y_at: u32,\n"
        "}\n");
    qsf_wgsl_bind(t, QSF_WGSL_UNIFORM, "p", "Numbers");
    qsf_wgsl_bind(t, QSF_WGSL_READ, "W", "array<u32>");
    qsf_wgsl_bind(t, QSF_WGSL_READ, "X", "array<vec4<u32>>");
    qsf_wgsl_bind(t, QSF_WGSL_WRITE, "Y", "array<f32>");
    if (p->bias) qsf_wgsl_bind(t, QSF_WGSL_READ, "B", "array<f32>");
    qsf_wgsl_decode(t, p->form, p->block, threads);
    qsf_wgsl_put(t,
        /* sums of a group's halves, out of the first vec4 of 64 columns */
        "fn sums_of(head: vec4<u32>, group: u32) -> vec2<i32> {\n"
        "  let s = bitcast<i32>(select(head.y, head.z, (group & 1u) == 1u));\n"
        "  return vec2<i32>((s << 16u) >> 16u, s >> 16u);\n"
        "}\n");
    QSF_WGSL_PUT(t,
        "fn finish(m: u32, row: u32, sum: f32) {\n"
        "  let at = m * p.y_ld + p.y_at + row;\n"
        "  Y[at] = ${add}sum${bias};\n"
        "}\n", { "add", 0, p->add ? "Y[at] + " : "" }, { "bias", 0, p->bias ? " + B[row]" : "" });
}
