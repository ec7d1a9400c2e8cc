/* Weights stored as floats.
 * SPDX-License-Identifier: MIT
 *
 * A product's workgroup has one row of the matrix, whose columns its 64 invocations take in
 * turns. */
#include "floats_wgsl.h"

void qsf_wgsl_read_floats(qsf_wgsl_text *t, qsf_wgsl_storage storage)
{
    static const char *const bodies[] = {
        [QSF_WGSL_F32] = "bitcast<f32>(W[i])",
        [QSF_WGSL_F16] = "unpack2x16float(W[i >> 1u] >> (16u * (i & 1u))).x",
        [QSF_WGSL_BF16] = "bitcast<f32>((W[i >> 1u] >> (16u * (i & 1u))) << 16u)",
    };
    QSF_WGSL_PUT(t, "fn weight(i: u32) -> f32 { return ${body}; }\n", { "body", 0, bodies[storage] });
}

static void wgsl_floats_head(qsf_wgsl_text *t, const qsf_wgsl_floats *f)
{
    qsf_wgsl_put(t,
        "struct Numbers {\n"
        "  rows: u32, cols: u32, n: u32, x_ld: u32, x_at: u32, y_ld: u32, y_at: u32,\n"
        "  scale: f32, times: f32,\n"
        "}\n");
    qsf_wgsl_bind(t, QSF_WGSL_UNIFORM, "p", "Numbers");
    qsf_wgsl_bind(t, QSF_WGSL_READ, "W", "array<u32>");
    qsf_wgsl_bind(t, QSF_WGSL_READ, "X", "array<f32>");
    qsf_wgsl_bind(t, QSF_WGSL_WRITE, "Y", "array<f32>");
    if (f->bias) qsf_wgsl_bind(t, QSF_WGSL_READ, "B", "array<f32>");
    qsf_wgsl_read_floats(t, f->storage);
    if (f->storage == QSF_WGSL_BF16)            /* to the nearest, ties to even; NaN stays NaN */
        qsf_wgsl_put(t,
            "fn factor(x: f32) -> f32 {\n"
            "  let bits = bitcast<u32>(x);\n"
            "  if ((bits & 0x7fffffffu) > 0x7f800000u) { return x; }\n"
            "  return bitcast<f32>((bits + 0x7fffu + ((bits >> 16u) & 1u)) & 0xffff0000u);\n"
            "}\n");
    else
        qsf_wgsl_put(t, "fn factor(x: f32) -> f32 { return x; }\n");
}

void qsf_wgsl_product_floats(qsf_wgsl_text *t, const qsf_wgsl_floats *f)
{
    const qsf_wgsl_value values[] = {
        { "rows", f->rows, NULL }, { "add", 0, f->add ? "+=" : "=" },
        { "bias", 0, f->bias ? " + B[row]" : "" }, { "begin", 0, f->scaled ? "(" : "" },
        { "scale", 0, f->scaled ? " * p.scale" : "" }, { "end", 0, f->scaled ? ") * p.times" : "" },
    };
    const size_t n_values = sizeof values / sizeof *values;
    assert(f->rows >= 1 && f->rows <= 8);
    wgsl_floats_head(t, f);
    qsf_wgsl_put_values(t,
        "var<workgroup> part: array<f32, 64u * ${rows}u>;        // [invocation][row of the batch]\n"
        "@compute @workgroup_size(64)\n"
        "fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,\n"
        "        @builtin(local_invocation_index) lid: u32) {\n"
        "  let row = group.y * groups.x + group.x;\n"
        "  let first = group.z * ${rows}u;\n"
        "  if (row >= p.rows) { return; }\n"
        "  var sums = array<f32, ${rows}>();\n"
        "  for (var c = lid; c < p.cols; c += 64u) {\n"
        "    let w = weight(row * p.cols + c);\n"
        "    for (var m = 0u; m < ${rows}u; m++) {\n"
        "      sums[m] += w * factor(X[min(first + m, p.n - 1u) * p.x_ld + p.x_at + c]);\n"
        "    }\n"
        "  }\n"
        "  for (var m = 0u; m < ${rows}u; m++) { part[lid * ${rows}u + m] = sums[m]; }\n"
        "  workgroupBarrier();\n"
        "  for (var w = 32u; w > 0u; w >>= 1u) {\n"
        "    if (lid < w) {\n"
        "      for (var m = 0u; m < ${rows}u; m++) {\n"
        "        part[lid * ${rows}u + m] += part[(lid + w) * ${rows}u + m];\n"
        "      }\n"
        "    }\n"
        "    workgroupBarrier();\n"
        "  }\n"
        "  if (lid < ${rows}u && first + lid < p.n) {\n"
        "    Y[(first + lid) * p.y_ld + p.y_at + row] ${add} ${begin}part[lid]${scale}${bias}${end};\n"
        "  }\n"
        "}\n", values, n_values);
}
