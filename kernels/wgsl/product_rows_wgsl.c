/* A matrix times one to eight rows of activations: decoding, and drafts.
 * SPDX-License-Identifier: MIT
 *
 * A workgroup has a tile row, 16 rows of the matrix, and an invocation for each row and slice of K:
 * invocations that follow each other read words that follow each other.  A slice takes every
 * slices-th group of 32 columns, so that all end at the same time; their sums meet in the
 * workgroup's memory.  Matrices of few and long rows have a workgroup for a half or a quarter of a
 * tile row, with more slices.  Of two matrices whose results are multiplied a workgroup has the
 * same rows. */
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
            "      let at = min(${first}${m}u, p.n - 1u) * p.x_ld + p.x_at + 5u * (i >> 1u);\n"
            "      let head = activation(at);\n"
            "      let codes_at = at + 1u + 2u * (i & 1u);\n"
            "      let x = array<vec4<u32>, 2>(activation(codes_at), activation(codes_at + 1u));\n"
            "      y${m} += bitcast<f32>(head.x) * terms(c, s, x, sums_of(head, i));\n"
            "    }\n", { "m", m, NULL }, { "first", 0, p->split || p->from ? "" : "first + " });
}

/* The sums of slices, and what becomes of them. */
static void wgsl_finish_rows(qsf_wgsl_text *t, const qsf_wgsl_product *p, const qsf_wgsl_value *sizes,
                             size_t n_sizes)
{
    for (uint32_t m = 0; m < p->rows; m++)
        QSF_WGSL_PUT(t, "  part[${at}u + lid] = y${m};\n",
                     { "at", qsf_wgsl_product_lanes(p) * p->slices * m, NULL }, { "m", m, NULL });
    qsf_wgsl_put(t, "  workgroupBarrier();\n");
    if (p->slices > QSF_WGSL_SLICES)
        qsf_wgsl_put_values(t,
            "  for (var i = lid; i < ${rows}u * ${threads}u / 4u; i += ${threads}u) {\n"
            "    let at = i / (${threads}u / 4u) * ${threads}u + i % (${threads}u / 4u);\n"
            "    part[at] += part[at + ${threads}u / 4u] + part[at + ${threads}u / 2u]\n"
            "      + part[at + 3u * ${threads}u / 4u];\n"
            "  }\n"
            "  workgroupBarrier();\n", sizes, n_sizes);
    qsf_wgsl_put_values(t,
        "  for (var i = lid; i < ${rows}u * ${each}u; i += ${threads}u) {\n"
        "    let m = i / ${each}u;\n"
        "    let row = ${first_row} + i % ${each}u;\n"
        "    let at = m * ${threads}u + i % ${each}u;\n"
        "    var sum = 0.0;\n"
        "    for (var k = 0u; k < ${sums}u; k++) { sum += part[at + ${lanes}u * k]; }\n", sizes, n_sizes);
    if (p->gated) {
        qsf_wgsl_put_values(t,
            "    var up = 0.0;\n"
            "    for (var k = 0u; k < ${sums}u; k++) { up += part[at + 16u + ${lanes}u * k]; }\n",
            sizes, n_sizes);
        if (p->bias)
            qsf_wgsl_put(t,
                "    sum += row_bias[min(row, p.rows - 1u)];\n"
                "    up += row_bias[p.rows + min(row, p.rows - 1u)];\n");
        qsf_wgsl_put(t, "    sum = gate_function(sum) * up;\n");
    }
    qsf_wgsl_put(t, p->split || p->from ? "    if (m < p.n && row < p.rows) { "
                 : "    if (first + m < p.n && row < p.rows) { ");
    qsf_wgsl_put_values(t, p->split ? "finish(m + ${rows}u * group.z, row, sum); }\n"
                        : p->from ? "finish(m, row, sum); }\n" : "finish(first + m, row, sum); }\n",
                        sizes, n_sizes);
    qsf_wgsl_put(t, "  }\n");
}

void qsf_wgsl_product_rows(qsf_wgsl_text *t, const qsf_wgsl_product *p)
{
    const uint32_t parts = p->parts ? p->parts : 1, lanes = qsf_wgsl_product_lanes(p),
        threads = lanes * p->slices, sums = p->slices > QSF_WGSL_SLICES ? p->slices / 4 : p->slices;
    const qsf_wgsl_value sizes[] = {
        { "rows", p->rows, NULL }, { "slices", p->slices, NULL }, { "threads", threads, NULL },
        { "all", threads * p->rows, NULL }, { "load", 0, p->from ? "  load_rows(lid);\n" : "" },
        { "parts", parts, NULL }, { "lanes", lanes, NULL }, { "each", QSF_MIN(lanes, 16), NULL },
        { "sums", sums, NULL },
        { "row", 0, parts > 1 ? "unit % PARTS * LANES + lid % LANES" : "lid & 15u" },
        { "first_row", 0, parts > 1 ? "16u * (unit / PARTS) + unit % PARTS * LANES" : "16u * unit" },
        { "tile_row", 0, p->gated ? "unit + ((lid >> 4u) & 1u) * p.tiles"
              : parts > 1 ? "unit / PARTS" : "unit" },
    };
    const size_t n_sizes = sizeof sizes / sizeof *sizes;
    assert(p->rows <= QSF_WGSL_ROWS && threads <= QSF_WGSL_THREADS);
    assert(!p->from || (p->from->codes && !p->from->floats && qsf_wgsl_product_fits(p)));
    qsf_wgsl_product_head(t, p, threads);
    qsf_wgsl_put_values(t,
        "const PARTS = ${parts}u;               // workgroups of a tile row\n"
        "const LANES = ${lanes}u;\n"
        "var<workgroup> part: array<f32, ${all}>;        // [row of the batch][slice][lane]\n"
        "@compute @workgroup_size(${threads})\n"
        "fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,\n"
        "        @builtin(local_invocation_index) lid: u32) {\n"
        "  let unit = group.y * groups.x + group.x;\n"
        "  if (unit >= p.tiles * PARTS) { return; }\n"
        "  prepare(lid);\n"
        "${load}"
        "  let t = ${tile_row};\n"
        "  let r = ${row};\n", sizes, n_sizes);
    qsf_wgsl_put_values(t, p->split ? "  let slice = group.z * ${slices}u + lid / LANES;\n"
                        : "  let slice = lid / LANES;\n", sizes, n_sizes);
    if (!p->split && !p->from) qsf_wgsl_put_values(t, "  let first = group.z * ${rows}u;\n", sizes, n_sizes);
    for (uint32_t m = 0; m < p->rows; m++) QSF_WGSL_PUT(t, "  var y${m} = 0.0;\n", { "m", m, NULL });
    qsf_wgsl_put_values(t, p->split
        ? "  for (var i = slice; i < p.blocks * GROUPS; i += ${slices}u * groups.z) {\n"
        : "  for (var i = slice; i < p.blocks * GROUPS; i += ${slices}u) {\n", sizes, n_sizes);
    wgsl_group(t, p);
    qsf_wgsl_put(t, "  }\n");
    wgsl_finish_rows(t, p, sizes, n_sizes);
    qsf_wgsl_put(t, "}\n");
}
