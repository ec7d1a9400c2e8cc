/* What the products of one row and of many share: bindings and activations.
 * SPDX-License-Identifier: MIT */
#include "product_wgsl.h"

/* Words of the codes that a workgroup makes. */
static uint32_t wgsl_own_words(const qsf_wgsl_product *p) { return p->rows * qsf_wgsl_act_words(p->cols); }

bool qsf_wgsl_product_fits(const qsf_wgsl_product *p)
{
    /* of the rows' functions: tops, sums and shares; of the product: sums of slices, a table */
    const uint32_t threads = qsf_wgsl_product_lanes(p) * p->slices,
        others = 3 * QSF_WGSL_THREADS + threads * p->rows + 64;
    return threads == QSF_WGSL_THREADS && wgsl_own_words(p) + others <= QSF_WGSL_SHARED;
}

/* fn activation(i): the i-th vec4 of X, a binding or the workgroup's own. */
static void wgsl_activations(qsf_wgsl_text *t, const qsf_wgsl_product *p)
{
    if (!p->from) {
        qsf_wgsl_put(t, "fn activation(i: u32) -> vec4<u32> { return X[i]; }\n");
        return;
    }
    QSF_WGSL_PUT(t,
        "var<workgroup> X: array<u32, ${words}>;\n"
        "fn activation(i: u32) -> vec4<u32> {\n"
        "  return vec4<u32>(X[4u * i], X[4u * i + 1u], X[4u * i + 2u], X[4u * i + 3u]);\n"
        "}\n", { "words", wgsl_own_words(p), NULL });
    qsf_wgsl_rows_load(t, p->from);
    QSF_WGSL_PUT(t,
        "fn load_rows(lid: u32) {\n"
        "  for (var m = 0u; m < min(p.n, ${rows}u); m++) { load(m, lid, 0u, 1u); }\n"
        "  workgroupBarrier();\n"
        "}\n", { "rows", p->rows, NULL });
}

void qsf_wgsl_read_sums(qsf_wgsl_text *t)
{
    qsf_wgsl_put(t,
        "fn sums_of(head: vec4<u32>, group: u32) -> vec2<i32> {\n"
        "  let s = bitcast<i32>(select(head.y, head.z, (group & 1u) == 1u));\n"
        "  return vec2<i32>((s << 16u) >> 16u, s >> 16u);\n"
        "}\n");
}

void qsf_wgsl_product_head(qsf_wgsl_text *t, const qsf_wgsl_product *p, uint32_t threads)
{
    qsf_wgsl_put(t,
        "struct Numbers {\n"
        "  rows: u32, tiles: u32, blocks: u32, n: u32, x_ld: u32, x_at: u32, y_ld: u32, y_at: u32,\n"
        "  cols: u32, a_ld: u32, a_at: u32, b_ld: u32, b_at: u32, eps: f32, shares: u32, share_ld: u32,\n"
        "  heads: u32, head_dim: u32, chunks: u32, room: u32,\n"
        "  gate_ld: u32, gain: f32, f0: f32, f1: f32, f2: f32, f3: f32, scale: f32, times: f32,\n"
        "  flag: u32,\n"
        "}\n");
    qsf_wgsl_bind(t, QSF_WGSL_UNIFORM, "p", "Numbers");
    qsf_wgsl_bind(t, QSF_WGSL_READ, "W", "array<u32>");
    if (p->from) qsf_wgsl_rows_sources(t, p->from);
    else qsf_wgsl_bind(t, QSF_WGSL_READ, "X", "array<vec4<u32>>");
    qsf_wgsl_bind(t, QSF_WGSL_WRITE, "Y", "array<f32>");
    if (p->bias) qsf_wgsl_bind(t, QSF_WGSL_READ, "row_bias", "array<f32>");
    qsf_wgsl_decode(t, p->form, p->block, threads);
    wgsl_activations(t, p);
    qsf_wgsl_read_sums(t);
    if (p->gated) qsf_wgsl_function_text(t, "gate_function", p->function);
    QSF_WGSL_PUT(t,
        "fn finish(m: u32, row: u32, sum: f32) {\n"
        "  let at = m * p.y_ld + p.y_at + row;\n"
        "  Y[at] = ${add}${begin}sum${scale}${bias}${end};\n"
        "}\n", { "add", 0, p->add ? "Y[at] + " : "" },
        { "bias", 0, p->bias && !p->gated ? " + row_bias[row]" : "" },
        { "begin", 0, p->scaled ? "(" : "" }, { "scale", 0, p->scaled ? " * p.scale" : "" },
        { "end", 0, p->scaled ? ") * p.times" : "" });
}
