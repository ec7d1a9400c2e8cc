/* A matrix times one to eight rows of activations: decoding, and drafts.
 * SPDX-License-Identifier: MIT
 *
 * A workgroup has a tile row, 16 rows of the matrix, and a row of it 16 lanes apart for each slice
 * of K: invocations that follow each other read words that follow each other.  A slice takes every
 * slices-th group of 32 columns, so that all end at the same time; their sums meet in the
 * workgroup's memory. */
#include "product_rows_wgsl.h"

/* Adds a group's part to the sum of each row of the batch. */
static void wgsl_group(qsf_wgsl_text *t, const qsf_wgsl_product *p)
{
    const bool halves = qsf_wgsl_group_scales(p->form) == 2;
    QSF_WGSL_PUT(t,
        "    let b = i / GROUPS;\n"
        "    let g = i % GROUPS;\n"
        "    let tile = (t * p.blocks + b) * TILE;\n"
        "    let c = array<vec4<u32>, 2>(codes(tile, b, r, g, 0u), codes(tile, b, r, g, 1u));\n"
        "    let s = ${scales};\n",
        { "scales", 0, halves ? "array<vec2<f32>, 2>(scales(tile, r, 2u * g), scales(tile, r, 2u * g + 1u))"
              : "array<vec2<f32>, 1>(scales(tile, r, g))" });
    for (uint32_t m = 0; m < p->rows; m++)
        QSF_WGSL_PUT(t,
            "    {\n"
            "      let at = min(${m}u, p.n - 1u) * p.x_ld + p.x_at + 5u * (i >> 1u);\n"
            "      let head = activation(at);\n"
            "      let codes_at = at + 1u + 2u * (i & 1u);\n"
            "      let x = array<vec4<u32>, 2>(activation(codes_at), activation(codes_at + 1u));\n"
            "      y${m} += bitcast<f32>(head.x) * terms(c, s, x, sums_of(head, i));\n"
            "    }\n", { "m", m, NULL });
}

void qsf_wgsl_product_rows(qsf_wgsl_text *t, const qsf_wgsl_product *p)
{
    const qsf_wgsl_value sizes[] = {
        { "rows", p->rows, NULL }, { "slices", p->slices, NULL }, { "threads", 16 * p->slices, NULL },
        { "sums", 16 * p->slices * p->rows, NULL }, { "load", 0, p->from ? "  load_rows(lid);\n" : "" },
    };
    const size_t n_sizes = sizeof sizes / sizeof *sizes;
    assert(p->rows <= QSF_WGSL_ROWS && p->slices <= QSF_WGSL_SLICES);
    assert(!p->from || (p->from->codes && !p->from->floats && qsf_wgsl_product_fits(p)));
    qsf_wgsl_product_head(t, p, 16 * p->slices);
    qsf_wgsl_put_values(t,
        "var<workgroup> part: array<f32, ${sums}>;       // [row of the batch][slice][row of the tile]\n"
        "@compute @workgroup_size(${threads})\n"
        "fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,\n"
        "        @builtin(local_invocation_index) lid: u32) {\n"
        "  let t = group.y * groups.x + group.x;\n"
        "  if (t >= p.tiles) { return; }\n"
        "  prepare(lid);\n"
        "${load}"
        "  let r = lid & 15u;\n"
        "  let slice = group.z * ${slices}u + (lid >> 4u);\n", sizes, n_sizes);
    for (uint32_t m = 0; m < p->rows; m++) QSF_WGSL_PUT(t, "  var y${m} = 0.0;\n", { "m", m, NULL });
    qsf_wgsl_put_values(t,
        "  for (var i = slice; i < p.blocks * GROUPS; i += ${slices}u * groups.z) {\n", sizes, n_sizes);
    wgsl_group(t, p);
    qsf_wgsl_put(t, "  }\n");
    for (uint32_t m = 0; m < p->rows; m++)
        QSF_WGSL_PUT(t, "  part[${at}u + lid] = y${m};\n", { "at", 16 * p->slices * m, NULL },
                     { "m", m, NULL });
    qsf_wgsl_put_values(t,
        "  workgroupBarrier();\n"
        "  for (var i = lid; i < ${rows}u * 16u; i += ${threads}u) {\n"
        "    let m = i >> 4u;\n"
        "    let row = 16u * t + (i & 15u);\n"
        "    var sum = 0.0;\n"
        "    for (var k = 0u; k < ${slices}u; k++) { sum += part[(m * ${slices}u + k) * 16u + (i & 15u)]; }\n"
        "    if (m < p.n && row < p.rows) { ", sizes, n_sizes);
    qsf_wgsl_put_values(t, p->split ? "finish(m + ${rows}u * group.z, row, sum); }\n"
                        : "finish(m, row, sum); }\n", sizes, n_sizes);
    qsf_wgsl_put(t, "  }\n}\n");
}
