/* The largest logit of each row.
 * SPDX-License-Identifier: MIT
 *
 * Numbers are compared as integers of the same order, because a device may treat NaN as it
 * likes. */
#include "largest_wgsl.h"

void qsf_wgsl_put_order(qsf_wgsl_text *t)
{
    qsf_wgsl_put(t,
        /* 0 for NaN and for nothing */
        "fn order(bits: u32) -> u32 {\n"
        "  if ((bits & 0x7fffffffu) > 0x7f800000u) { return 0u; }\n"
        "  if (bits == 0x80000000u) { return 0x80000000u; }       // -0 is 0\n"
        "  return select(bits | 0x80000000u, ~bits, (bits >> 31u) == 1u);\n"
        "}\n"
        "fn better(a: vec2<u32>, b: vec2<u32>) -> bool { return a.x > b.x || (a.x == b.x && a.y < b.y); }\n");
}

void qsf_wgsl_largest(qsf_wgsl_text *t, bool end)
{
    qsf_wgsl_put(t, "struct Numbers { n: u32, cols: u32, x_ld: u32, x_at: u32 }\n");
    qsf_wgsl_bind(t, QSF_WGSL_UNIFORM, "p", "Numbers");
    qsf_wgsl_bind(t, QSF_WGSL_READ, "X", end ? "array<vec2<u32>>" : "array<f32>");
    qsf_wgsl_bind(t, QSF_WGSL_WRITE, "Y", end ? "array<u32>" : "array<vec2<u32>>");
    qsf_wgsl_put_order(t);
    QSF_WGSL_PUT(t,
        "var<workgroup> best: array<vec2<u32>, 256>;     // order, column\n"
        "@compute @workgroup_size(256)\n"
        "fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,\n"
        "        @builtin(local_invocation_index) lid: u32) {\n"
        "  let m = group.y;\n"
        "  var most = vec2<u32>(0u, 0xffffffffu);\n"
        "  for (var c = group.x * 256u + lid; c < p.cols; c += 256u * groups.x) {\n"
        "    let v = ${read};\n"
        "    if (better(v, most)) { most = v; }\n"
        "  }\n"
        "  best[lid] = most;\n"
        "  workgroupBarrier();\n"
        "  for (var w = 128u; w > 0u; w >>= 1u) {\n"
        "    if (lid < w && better(best[lid + w], best[lid])) { best[lid] = best[lid + w]; }\n"
        "    workgroupBarrier();\n"
        "  }\n"
        "  if (lid == 0u) { ${write} }\n"
        "}\n",
        { "read", 0, end ? "X[m * p.cols + c]"
              : "vec2<u32>(order(bitcast<u32>(X[m * p.x_ld + p.x_at + c])), c)" },
        { "write", 0, end ? "Y[m] = best[0].y;" : "Y[m * groups.x + group.x] = best[0];" });
}
