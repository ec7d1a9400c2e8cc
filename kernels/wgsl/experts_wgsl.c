/* Products of experts.
 * SPDX-License-Identifier: MIT
 *
 * Which expert a workgroup has is read from a buffer, so that dispatches depend on the number of
 * rows alone.  Workgroups return at once if their group of slots is empty, or their expert is not
 * in this part of the matrix. */
#include "experts_wgsl.h"
#include "product_tiles_wgsl.h"

static void wgsl_experts_head(qsf_wgsl_text *t, const qsf_wgsl_experts *e, uint32_t threads)
{
    qsf_wgsl_put(t,
        "struct Numbers {\n"
        "  rows: u32, blocks: u32, first: u32, end: u32, tile: u32, x_ld: u32, y_ld: u32,\n"
        "  used: u32, slots: u32, x_used: u32, y_slots: u32, groups: u32,\n"
        "}\n");
    qsf_wgsl_bind(t, QSF_WGSL_UNIFORM, "p", "Numbers");
    qsf_wgsl_bind(t, QSF_WGSL_READ, "W", "array<u32>");
    qsf_wgsl_bind(t, QSF_WGSL_READ, "X", "array<vec4<u32>>");
    qsf_wgsl_bind(t, QSF_WGSL_WRITE, "Y", "array<f32>");
    qsf_wgsl_bind(t, QSF_WGSL_READ, "Slots", "array<vec2<u32>>");
    qsf_wgsl_bind(t, QSF_WGSL_READ, "List", "array<u32>");
    if (e->scales) qsf_wgsl_bind(t, QSF_WGSL_READ, "expert_scales", "array<f32>");
    if (e->bias) qsf_wgsl_bind(t, QSF_WGSL_READ, "row_bias", "array<f32>");
    qsf_wgsl_decode(t, e->form, e->block, threads);
    qsf_wgsl_read_sums(t);
    QSF_WGSL_PUT(t,
        "fn activation(i: u32) -> vec4<u32> { return X[i]; }\n"
        /* row: of the expert; those before its first one are huge */
        "fn finish(slot: u32, expert: u32, row: u32, sum: f32) {\n"
        "  if (row >= p.rows) { return; }\n"
        "  let m = slot / p.used * p.y_slots + slot % p.used;\n"
        "  Y[m * p.y_ld + row] = sum${scale}${bias};\n"
        "}\n", { "scale", 0, e->scales ? " * expert_scales[expert]" : "" },
        { "bias", 0, e->bias ? " + row_bias[expert * p.rows + row]" : "" });
}

/* Where an expert's rows begin: a workgroup beyond them ends. */
static const char wgsl_expert_begins[] =
    "  if (expert < p.first || expert >= p.end) { return; }\n"
    "  let skew = expert * p.rows % 16u;\n"
    "  let tiles = (skew + p.rows + 15u) / 16u;\n"
    "  let begin = expert * p.rows / 16u - p.tile;\n"
    "  if (t >= tiles) { return; }\n"
    "  prepare(lid);\n";

void qsf_wgsl_experts_slots(qsf_wgsl_text *t, const qsf_wgsl_experts *e)
{
    const bool halves = qsf_wgsl_group_scales(e->form) == 2;
    const qsf_wgsl_value values[] = {
        { "slices", e->slices, NULL }, { "threads", 16 * e->slices, NULL },
        { "scales", 0, halves ? "array<vec2<f32>, 2>(scales(tile, r, 2u * g), scales(tile, r, 2u * g + 1u))"
              : "array<vec2<f32>, 1>(scales(tile, r, g))" },
    };
    assert(e->slices && e->slices <= QSF_WGSL_SLICES);
    wgsl_experts_head(t, e, 16 * e->slices);
    qsf_wgsl_put_values(t,
        "var<workgroup> part: array<f32, ${threads}>;    // [slice][row of the tile]\n"
        "@compute @workgroup_size(${threads})\n"
        "fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lid: u32) {\n"
        "  let t = group.x;\n"
        "  let slot = group.z;\n"
        "  let expert = Slots[slot / p.used * p.slots + slot % p.used].x;\n",
        values, sizeof values / sizeof *values);
    qsf_wgsl_put(t, wgsl_expert_begins);
    qsf_wgsl_put_values(t,
        "  let r = lid & 15u;\n"
        "  let x_at = slot / p.x_used * p.x_ld;\n"
        "  var y = 0.0;\n"
        "  for (var i = lid >> 4u; i < p.blocks * GROUPS; i += ${slices}u) {\n"
        "    let b = i / GROUPS;\n"
        "    let g = i % GROUPS;\n"
        "    let tile = ((begin + t) * p.blocks + b) * TILE;\n"
        "    let c = array<vec4<u32>, 2>(codes(tile, b, r, g, 0u), codes(tile, b, r, g, 1u));\n"
        "    let s = ${scales};\n"
        "    let at = x_at + 5u * (i >> 1u);\n"
        "    let head = activation(at);\n"
        "    let codes_at = at + 1u + 2u * (i & 1u);\n"
        "    let x = array<vec4<u32>, 2>(activation(codes_at), activation(codes_at + 1u));\n"
        "    y += bitcast<f32>(head.x) * terms(c, s, x, sums_of(head, i));\n"
        "  }\n"
        "  part[lid] = y;\n"
        "  workgroupBarrier();\n"
        "  if (lid >= 16u) { return; }\n"
        "  var sum = 0.0;\n"
        "  for (var k = 0u; k < ${slices}u; k++) { sum += part[16u * k + lid]; }\n"
        "  finish(slot, expert, 16u * t + lid - skew, sum);\n"
        "}\n", values, sizeof values / sizeof *values);
}

void qsf_wgsl_experts_tiles(qsf_wgsl_text *t, const qsf_wgsl_experts *e)
{
    wgsl_experts_head(t, e, QSF_WGSL_THREADS);
    qsf_wgsl_tiles_memory(t, e->form);
    qsf_wgsl_put(t,
        "var<workgroup> slots: array<u32, 64>;\n"
        "fn store(i: u32, n: u32, expert: u32, row: u32, y: vec4<f32>) {\n"
        "  if (i >= n) { return; }\n"
        "  finish(slots[i], expert, row, y.x);\n"
        "  finish(slots[i], expert, row + 16u, y.y);\n"
        "  finish(slots[i], expert, row + 32u, y.z);\n"
        "  finish(slots[i], expert, row + 48u, y.w);\n"
        "}\n"
        "@compute @workgroup_size(256)\n"
        "fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lid: u32) {\n"
        "  let t = 4u * group.x;\n"
        "  let n = List[4u * group.z + 2u];\n"
        "  if (n == 0u) { return; }\n"
        "  let expert = List[4u * group.z];\n");
    qsf_wgsl_put(t, wgsl_expert_begins);
    qsf_wgsl_put(t,
        "  if (lid < 64u) {\n"
        "    slots[lid] = List[4u * p.groups + List[4u * group.z + 1u] + min(lid, n - 1u)];\n"
        "  }\n"
        "  workgroupBarrier();\n");
    qsf_wgsl_tiles_loop(t, e->form, "begin + min(t + (q >> 4u), tiles - 1u)",
                        "slots[q] / p.x_used * p.x_ld");
    qsf_wgsl_put(t,
        "  let row = 16u * t + tx - skew;\n"
        "  store(ty, n, expert, row, y0);\n"
        "  store(ty + 16u, n, expert, row, y1);\n"
        "  store(ty + 32u, n, expert, row, y2);\n"
        "  store(ty + 48u, n, expert, row, y3);\n"
        "}\n");
}
