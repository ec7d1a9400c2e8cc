/* A matrix times many rows of activations: prompts.
 * SPDX-License-Identifier: MIT
 *
 * A workgroup makes 64 rows of the matrix by 64 of the batch, group of 32 columns by group.  One
 * half of its invocations brings the weights' codes and scales to the workgroup's memory, the other
 * half the activations; then each multiplies four rows by four.  These are 16 apart, so that
 * invocations that follow each other read, and write to Y, places that follow each other. */
#include "product_tiles_wgsl.h"

void qsf_wgsl_tiles_memory(qsf_wgsl_text *t, qsf_form form)
{
    const uint32_t n_scales = qsf_wgsl_group_scales(form);
    QSF_WGSL_PUT(t,
        "var<workgroup> wc: array<vec4<u32>, 128>;       // [half of the group][row of the matrix]\n"
        "var<workgroup> ws: array<vec2<f32>, ${scales}>; // [sub-block][row of the matrix]\n"
        "var<workgroup> xc: array<vec4<u32>, 128>;       // [half of the group][row of the batch]\n"
        "var<workgroup> xd: array<f32, 64>;              // [row of the batch] scales\n"
        "var<workgroup> xs: array<vec2<i32>, 64>;        // [row of the batch] sums of each half\n",
        { "scales", 64 * n_scales, NULL });
}

static void wgsl_tiles_load(qsf_wgsl_text *t, uint32_t n_scales, const char *tile, const char *x)
{
    QSF_WGSL_PUT(t,
        "    if (lid < 128u) {\n"
        "      let b = i / GROUPS;\n"
        "      let g = i % GROUPS;\n"
        "      let r = q & 15u;\n"
        "      let tile = ((${tile}) * p.blocks + b) * TILE;\n"
        "      wc[lid] = codes(tile, b, r, g, h);\n", { "tile", 0, tile });
    qsf_wgsl_put(t, n_scales == 2
        ? "      ws[lid] = scales(tile, r, 2u * g + h);\n"
        : "      if (h == 0u) { ws[q] = scales(tile, r, g); }\n");
    QSF_WGSL_PUT(t,
        "    } else {\n"
        "      let at = ${x} + 5u * (i >> 1u);\n"
        "      xc[lid - 128u] = activation(at + 1u + 2u * (i & 1u) + h);\n"
        "      if (h == 0u) {\n"
        "        let head = activation(at);\n"
        "        xd[q] = bitcast<f32>(head.x);\n"
        "        xs[q] = sums_of(head, i);\n"
        "      }\n"
        "    }\n"
        "    workgroupBarrier();\n", { "x", 0, x });
}

static void wgsl_tiles_multiply(qsf_wgsl_text *t, uint32_t n_scales)
{
    for (uint32_t k = 0; k < 4; k++) {
        QSF_WGSL_PUT(t, "    let c${k} = array<vec4<u32>, 2>(wc[tx + ${at}u], wc[tx + ${at}u + 64u]);\n",
                     { "k", k, NULL }, { "at", 16 * k, NULL });
        QSF_WGSL_PUT(t, n_scales == 2
            ? "    let s${k} = array<vec2<f32>, 2>(ws[tx + ${at}u], ws[tx + ${at}u + 64u]);\n"
            : "    let s${k} = array<vec2<f32>, 1>(ws[tx + ${at}u]);\n",
            { "k", k, NULL }, { "at", 16 * k, NULL });
    }
    for (uint32_t k = 0; k < 4; k++)
        QSF_WGSL_PUT(t,
            "    {\n"
            "      let x = array<vec4<u32>, 2>(xc[ty + ${at}u], xc[ty + ${at}u + 64u]);\n"
            "      let sums = xs[ty + ${at}u];\n"
            "      y${k} += xd[ty + ${at}u] * vec4<f32>(terms(c0, s0, x, sums), terms(c1, s1, x, sums),\n"
            "                                     terms(c2, s2, x, sums), terms(c3, s3, x, sums));\n"
            "    }\n", { "k", k, NULL }, { "at", 16 * k, NULL });
}

void qsf_wgsl_tiles_loop(qsf_wgsl_text *t, qsf_form form, const char *tile, const char *x)
{
    const uint32_t n_scales = qsf_wgsl_group_scales(form);
    qsf_wgsl_put(t,
        "  let q = lid & 63u;                   // what is loaded: this row, this half of the group\n"
        "  let h = (lid >> 6u) & 1u;\n"
        "  let tx = lid & 15u;\n"
        "  let ty = lid >> 4u;\n"
        "  var y0 = vec4<f32>();                // [row of the batch] four rows of the matrix\n"
        "  var y1 = vec4<f32>();\n"
        "  var y2 = vec4<f32>();\n"
        "  var y3 = vec4<f32>();\n"
        "  for (var i = 0u; i < p.blocks * GROUPS; i++) {\n");
    wgsl_tiles_load(t, n_scales, tile, x);
    wgsl_tiles_multiply(t, n_scales);
    qsf_wgsl_put(t,
        "    workgroupBarrier();\n"
        "  }\n");
}

void qsf_wgsl_product_tiles(qsf_wgsl_text *t, const qsf_wgsl_product *p)
{
    assert(!p->from);
    qsf_wgsl_product_head(t, p, QSF_WGSL_THREADS);
    qsf_wgsl_tiles_memory(t, p->form);
    qsf_wgsl_put(t,
        "fn store(m: u32, row: u32, y: vec4<f32>) {\n"
        "  if (m >= p.n) { return; }\n"
        "  if (row < p.rows) { finish(m, row, y.x); }\n"
        "  if (row + 16u < p.rows) { finish(m, row + 16u, y.y); }\n"
        "  if (row + 32u < p.rows) { finish(m, row + 32u, y.z); }\n"
        "  if (row + 48u < p.rows) { finish(m, row + 48u, y.w); }\n"
        "}\n"
        "@compute @workgroup_size(256)\n"
        "fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,\n"
        "        @builtin(local_invocation_index) lid: u32) {\n"
        "  let t = 4u * (group.y * groups.x + group.x);\n"
        "  let m = 64u * group.z;\n"
        "  if (t >= p.tiles) { return; }\n"
        "  prepare(lid);\n");
    qsf_wgsl_tiles_loop(t, p->form, "min(t + (q >> 4u), p.tiles - 1u)",
                        "min(m + q, p.n - 1u) * p.x_ld + p.x_at");
    qsf_wgsl_put(t,
        "  let row = 16u * t + tx;\n"
        "  store(m + ty, row, y0);\n"
        "  store(m + ty + 16u, row, y1);\n"
        "  store(m + ty + 32u, row, y2);\n"
        "  store(m + ty + 48u, row, y3);\n"
        "}\n");
}
