/* What low-rank adapters add to products.
 * SPDX-License-Identifier: MIT */
#include "adapter_wgsl.h"

static void adapter_head(qsf_wgsl_text *t, const qsf_wgsl_adapter *a)
{
    QSF_WGSL_PUT(t,
        "struct Pair {\n"
        "  rows: u32, end: u32, b_at: u32, h_at: u32, y_at: u32, rank: u32, planes: u32, scale: f32,\n"
        "}\n"
        "struct Numbers {\n"
        "  h_ld: u32, y_ld: u32, times: f32, used: u32, slots: u32, y_slots: u32, b_step: u32, unused: u32,\n"
        "  pairs: array<Pair, ${pairs}>,\n"
        "}\n", { "pairs", QSF_WGSL_PAIRS, NULL });
    qsf_wgsl_bind(t, QSF_WGSL_UNIFORM, "p", "Numbers");
    qsf_wgsl_bind(t, QSF_WGSL_READ, "B", "array<u32>");
    qsf_wgsl_bind(t, QSF_WGSL_READ, "H", "array<f32>");
    qsf_wgsl_bind(t, QSF_WGSL_READ, "Uses", "array<f32>");
    qsf_wgsl_bind(t, QSF_WGSL_WRITE, "Y", "array<f32>");
    if (!a->slots) return;
    qsf_wgsl_bind(t, QSF_WGSL_READ, "Slots", "array<vec2<u32>>");
    qsf_wgsl_bind(t, QSF_WGSL_READ, "expert_scales", "array<f32>");
}

/* fn prepare(lid, at, i) -> f32: h to `hs`, and what multiplies its products. */
static void adapter_codes(qsf_wgsl_text *t)
{
    QSF_WGSL_PUT(t,
        "var<workgroup> hs: array<u32, ${words}>;\n"
        "var<workgroup> tops: array<f32, 256>;\n"
        "fn value(c: u32, at: u32, i: u32) -> f32 {\n"
        "  if (c >= p.pairs[i].rank) { return 0.0; }\n"
        "  return clamp(H[at + c], -3.4028234e38, 3.4028234e38);\n"
        "}\n"
        "fn prepare(lid: u32, at: u32, i: u32) -> f32 {\n"
        "  var top = 0.0;\n"
        "  for (var c = lid; c < p.pairs[i].rank; c += 256u) { top = max(top, abs(value(c, at, i))); }\n"
        "  tops[lid] = top;\n"
        "  workgroupBarrier();\n"
        "  for (var w = 128u; w > 0u; w >>= 1u) {\n"
        "    if (lid < w) { tops[lid] = max(tops[lid], tops[lid + w]); }\n"
        "    workgroupBarrier();\n"
        "  }\n"
        "  let scale = tops[0] / 127.0;\n"
        "  let some = scale >= 1.17549435e-38;\n"
        "  let by = select(0.0, 1.0 / scale, some);\n"
        "  for (var j = lid; 4u * j < p.pairs[i].rank; j += 256u) {\n"
        "    let c = 4u * j;\n"
        "    let v = vec4<f32>(value(c, at, i), value(c + 1u, at, i), value(c + 2u, at, i),\n"
        "                      value(c + 3u, at, i));\n"
        "    hs[j] = pack4xI8(vec4<i32>(round(v * by)));\n"
        "  }\n"
        "  workgroupBarrier();\n"
        "  return select(0.0, scale, some);\n"
        "}\n"
        "fn product(b: u32, row: u32, i: u32) -> f32 {\n"
        "  let depth = (p.pairs[i].rank + 3u) / 4u;\n"
        "  let tile = b + (row >> 4u) * (16u + 16u * depth) + (row & 15u);\n"
        "  var sum = 0;\n"
        "  for (var j = 0u; j < depth; j++) { sum += dot4I8Packed(B[tile + 16u + 16u * j], hs[j]); }\n"
        "  return bitcast<f32>(B[tile]) * f32(sum);\n"
        "}\n", { "words", QSF_WGSL_RANK / 4, NULL });
}

static void adapter_floats(qsf_wgsl_text *t)
{
    QSF_WGSL_PUT(t,
        "var<workgroup> hs: array<f32, ${rank}>;\n"
        "fn prepare(lid: u32, at: u32, i: u32) -> f32 {\n"
        "  let rank = p.pairs[i].rank;\n"
        "  for (var c = lid; c < rank; c += 256u) {\n"
        "    var h = 0.0;\n"
        "    for (var k = 0u; k < p.pairs[i].planes; k++) { h += H[at + k * rank + c]; }\n"
        "    hs[c] = h;\n"
        "  }\n"
        "  workgroupBarrier();\n"
        "  return 1.0;\n"
        "}\n"
        "fn product(b: u32, row: u32, i: u32) -> f32 {\n"
        "  let rank = p.pairs[i].rank;\n"
        "  let tiles = (p.pairs[i].rows + 15u) / 16u;\n"
        "  var sum = 0.0;\n"
        "  for (var k = 0u; k < p.pairs[i].planes; k++) {\n"
        "    let tile = b + (k * tiles + (row >> 4u)) * rank * 8u + ((row & 15u) >> 1u);\n"
        "    for (var c = 0u; c < rank; c++) {\n"
        "      sum += unpack2x16float(B[tile + 8u * c] >> (16u * (row & 1u))).x * hs[c];\n"
        "    }\n"
        "  }\n"
        "  return sum;\n"
        "}\n", { "rank", QSF_WGSL_RANK, NULL });
}

void qsf_wgsl_adapter_text(qsf_wgsl_text *t, const qsf_wgsl_adapter *a)
{
    const qsf_wgsl_value values[] = {
        { "batch_row", 0, a->slots ? "m / p.used" : "m" },
        { "expert", 0, a->slots ? "Slots[m / p.used * p.slots + m % p.used].x" : "0u" },
        { "scale", 0, a->slots ? " * expert_scales[expert]" : "" },
        { "y_row", 0, a->slots ? "m / p.used * p.y_slots + m % p.used" : "m" },
    };
    adapter_head(t, a);
    if (a->exact) adapter_floats(t);
    else adapter_codes(t);
    qsf_wgsl_put_values(t,
        "@compute @workgroup_size(256)\n"
        "fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lid: u32) {\n"
        "  let m = group.y;\n"
        "  let expert = ${expert};\n"
        "  let times = Uses[${batch_row}]${scale};\n"
        "  if (times == 0.0) { return; }\n"
        "  var i = 0u;\n"
        "  while (group.x >= p.pairs[i].end) { i++; }\n"
        "  let begin = select(p.pairs[max(i, 1u) - 1u].end, 0u, i == 0u);\n"
        "  let scale = prepare(lid, m * p.h_ld + p.pairs[i].h_at, i) * times * p.pairs[i].scale;\n"
        "  let row = (group.x - begin) * 256u + lid;\n"
        "  if (row >= p.pairs[i].rows) { return; }\n"
        "  let y = product(p.pairs[i].b_at + expert * p.b_step, row, i) * scale * p.times;\n"
        "  Y[(${y_row}) * p.y_ld + p.pairs[i].y_at + row] += y;\n"
        "}\n", values, sizeof values / sizeof *values);
}
