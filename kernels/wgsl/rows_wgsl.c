/* Rows of floats to rows of floats or of codes.
 * SPDX-License-Identifier: MIT
 *
 * An invocation has four columns, which make a word of codes; 16 have the 64 columns that share a
 * scale, and a workgroup 1024 columns at once.  With a norm a workgroup first adds up its row. */
#include "rows_wgsl.h"

void qsf_wgsl_rows_sources(qsf_wgsl_text *t, const qsf_wgsl_rows *r)
{
    if (r->source != QSF_WGSL_FROM_ITSELF) qsf_wgsl_bind(t, QSF_WGSL_READ, "A", "array<f32>");
    if (r->source == QSF_WGSL_FROM_TWO) qsf_wgsl_bind(t, QSF_WGSL_READ, "B", "array<f32>");
    if (r->source == QSF_WGSL_FROM_ATTENTION) qsf_wgsl_bind(t, QSF_WGSL_READ, "B", "array<vec2<f32>>");
    if (r->source == QSF_WGSL_FROM_SLOTS) qsf_wgsl_bind(t, QSF_WGSL_READ, "B", "array<vec2<u32>>");
    if (r->norm && !r->bare) qsf_wgsl_bind(t, QSF_WGSL_READ, "weight", "array<f32>");
    if (r->bias) qsf_wgsl_bind(t, QSF_WGSL_READ, "bias", "array<f32>");
    if (r->sinks) qsf_wgsl_bind(t, QSF_WGSL_READ, "sinks", "array<f32>");
    if (r->gated) qsf_wgsl_bind(t, QSF_WGSL_READ, "gates", "array<f32>");
    if (r->flags) qsf_wgsl_bind(t, QSF_WGSL_WRITE, "Flags", "array<atomic<u32>>");
}

static void wgsl_rows_bindings(qsf_wgsl_text *t, const qsf_wgsl_rows *r)
{
    qsf_wgsl_put(t,
        "struct Numbers {\n"
        "  n: u32, cols: u32, a_ld: u32, a_at: u32, b_ld: u32, b_at: u32, x_ld: u32, y_ld: u32, y_at: u32,\n"
        "  eps: f32, shares: u32, share_ld: u32, heads: u32, head_dim: u32, chunks: u32, room: u32,\n"
        "  gate_ld: u32, gain: f32, f0: f32, f1: f32, f2: f32, f3: f32,\n"
        "  flag: u32,\n"
        "}\n");
    qsf_wgsl_bind(t, QSF_WGSL_UNIFORM, "p", "Numbers");
    qsf_wgsl_rows_sources(t, r);
    if (r->codes) qsf_wgsl_bind(t, QSF_WGSL_WRITE, "X", "array<u32>");
    if (r->floats) qsf_wgsl_bind(t, QSF_WGSL_WRITE, "Y", "array<f32>");
}

void qsf_wgsl_function_text(qsf_wgsl_text *t, const char *name, qsf_wgsl_function f)
{
    static const char *const functions[] = {
        [QSF_WGSL_UNCHANGED] = "fn ${name}(x: f32) -> f32 { return x; }\n",
        /* exp of more than 88 would be infinite, which a device need not have */
        [QSF_WGSL_SILU] = "fn ${name}(x: f32) -> f32 { return x / (1.0 + exp(min(-x, 80.0))); }\n",
        [QSF_WGSL_GELU] =
            "fn ${name}(x: f32) -> f32 {\n"
            "  let u = 0.7978845608 * (x + 0.044715 * x * x * x);\n"
            "  return x / (1.0 + exp(min(-2.0 * u, 80.0)));\n"
            "}\n",
        [QSF_WGSL_RELU] = "fn ${name}(x: f32) -> f32 { return max(x, 0.0); }\n",
        [QSF_WGSL_RELU2] =
            "fn ${name}(x: f32) -> f32 {\n"
            "  let y = max(x, 0.0);\n"
            "  return y * y;\n"
            "}\n",
        [QSF_WGSL_XIELU] =
            "fn ${name}(x: f32) -> f32 {\n"
            "  if (x > 0.0) { return p.f0 * x * x + p.f2 * x; }\n"
            "  return (exp(min(x, p.f3)) - 1.0 - x) * p.f1 + p.f2 * x;\n"
            "}\n",
        [QSF_WGSL_CLAMP] = "fn ${name}(x: f32) -> f32 { return clamp(x, -p.f0, p.f0); }\n",
        [QSF_WGSL_SWIGLU_OAI] =
            "fn ${name}(x: f32) -> f32 {\n"
            "  let y = min(x, 7.0);\n"
            "  return y / (1.0 + exp(min(-1.702 * y, 80.0)));\n"
            "}\n",
    };
    QSF_WGSL_PUT(t, functions[f], { "name", 0, name });
}

/* fn function(x) -> f32.  Those that would hide a value that is not finite look at it before.
 * odd: one was found. */
static void wgsl_function(qsf_wgsl_text *t, const qsf_wgsl_rows *r)
{
    const bool hides = r->function == QSF_WGSL_RELU || r->function == QSF_WGSL_RELU2 ||
                       r->function == QSF_WGSL_CLAMP || r->function == QSF_WGSL_SWIGLU_OAI;
    if (r->flags)
        qsf_wgsl_put(t,
            "var<private> odd = false;\n"
            "fn look(x: f32) { odd = odd || (bitcast<u32>(x) & 0x7f800000u) == 0x7f800000u; }\n");
    qsf_wgsl_function_text(t, r->flags && hides ? "hidden" : "function", r->function);
    if (r->flags && hides)
        qsf_wgsl_put(t,
            "fn function(x: f32) -> f32 {\n"
            "  look(x);\n"
            "  return hidden(x);\n"
            "}\n");
}

static bool wgsl_joins_four(const qsf_wgsl_rows *r)
{
    return r->source == QSF_WGSL_FROM_ATTENTION && !r->norm && !r->gated && !r->scaled;
}

/* Four columns of a head at once: chunks of attention joined, four at a time, so that their loads
 * do not wait for each other. */
static const char wgsl_join_four[] =
    "fn join_four(m: u32, c: u32) -> vec4<f32> {\n"
    "  let head = c / p.head_dim;\n"
    "  let first = (m * p.heads + head) * p.chunks;\n"
    "  let end = p.chunks - 1u;\n"
    "  var tops = vec4<f32>(${top});\n"
    "  for (var k = 0u; k < p.chunks; k += 4u) {\n"
    "    tops = max(tops, vec4<f32>(B[first + k].x, B[first + min(k + 1u, end)].x,\n"
    "                               B[first + min(k + 2u, end)].x, B[first + min(k + 3u, end)].x));\n"
    "  }\n"
    "  let top = max(max(tops.x, tops.y), max(tops.z, tops.w));\n"
    "  var all = ${all};\n"
    "  var sum = vec4<f32>();\n"
    "  for (var k = 0u; k < p.chunks; k += 4u) {\n"
    "    let at = vec4<u32>(first) + min(vec4<u32>(k, k + 1u, k + 2u, k + 3u), vec4<u32>(end));\n"
    "    let b = array<vec2<f32>, 4>(B[at.x], B[at.y], B[at.z], B[at.w]);\n"
    "    let a = at * p.room + vec4<u32>(c % p.head_dim);\n"
    "    let v = array<vec4<f32>, 4>(\n"
    "      vec4<f32>(A[a.x], A[a.x + 1u], A[a.x + 2u], A[a.x + 3u]),\n"
    "      vec4<f32>(A[a.y], A[a.y + 1u], A[a.y + 2u], A[a.y + 3u]),\n"
    "      vec4<f32>(A[a.z], A[a.z + 1u], A[a.z + 2u], A[a.z + 3u]),\n"
    "      vec4<f32>(A[a.w], A[a.w + 1u], A[a.w + 2u], A[a.w + 3u]));\n"
    "    let e = select(vec4<f32>(), exp(vec4<f32>(b[0].x, b[1].x, b[2].x, b[3].x) - top),\n"
    "                   vec4<u32>(k, k + 1u, k + 2u, k + 3u) <= vec4<u32>(end));\n"
    "    all += dot(e, vec4<f32>(b[0].y, b[1].y, b[2].y, b[3].y));\n"
    "    sum += (e.x * v[0] + e.y * v[1]) + (e.z * v[2] + e.w * v[3]);\n"
    "  }\n"
    "  return sum / all;\n"
    "}\n";

/* fn source(m, c) -> f32: row m, column c < cols. */
static void wgsl_source(qsf_wgsl_text *t, const qsf_wgsl_rows *r)
{
    const qsf_wgsl_value join[] = {
        { "top", 0, r->sinks ? "sinks[head]" : "-1e30" },
        { "all", 0, r->sinks ? "exp(sinks[head] - top)" : "0.0" },
        { "gate", 0, r->gated ? " / (1.0 + exp(min(-gates[m * p.gate_ld + (2u * head + 1u) * p.head_dim\n"
                                "    + c % p.head_dim], 80.0)))" : "" },
    };
    wgsl_function(t, r);
    if (wgsl_joins_four(r)) qsf_wgsl_put_values(t, wgsl_join_four, join, 3);
    qsf_wgsl_put(t, "fn source(m: u32, c: u32) -> f32 {\n");
    switch (r->source) {
    case QSF_WGSL_FROM_TWO:
        QSF_WGSL_PUT(t,
            "  let b = B[m * p.b_ld + p.b_at + c];\n"
            "  return function(A[m * p.a_ld + p.a_at + c]) * ${other};\n",
            { "other", 0, r->function == QSF_WGSL_SWIGLU_OAI ? "(clamp(b, -7.0, 7.0) + 1.0)" : "b" });
        break;
    case QSF_WGSL_FROM_ITSELF:
        qsf_wgsl_put(t, "  return function(Y[m * p.y_ld + p.y_at + c]);\n");
        break;
    case QSF_WGSL_FROM_SHARES:
        QSF_WGSL_PUT(t,
            "  var sum = ${begin};\n"
            "  for (var k = 0u; k < p.shares; k++) {\n"
            "    sum += A[(k * p.share_ld + m) * p.a_ld + p.a_at + c];\n"
            "  }\n"
            "  return function(sum);\n", { "begin", 0, r->bias && !r->norm ? "bias[c]" : "0.0" });
        break;
    case QSF_WGSL_FROM_ATTENTION:       /* A: [n][heads][chunks][room], B: [n][heads][chunks] */
        qsf_wgsl_put_values(t,
            "  let head = c / p.head_dim;\n"
            "  let first = (m * p.heads + head) * p.chunks;\n"
            "  var top = ${top};\n"
            "  for (var k = 0u; k < p.chunks; k++) { top = max(top, B[first + k].x); }\n"
            "  var all = ${all};\n"
            "  var sum = 0.0;\n"
            "  for (var k = 0u; k < p.chunks; k++) {\n"
            "    let e = exp(B[first + k].x - top);\n"
            "    all += e * B[first + k].y;\n"
            "    sum += e * A[(first + k) * p.room + c % p.head_dim];\n"
            "  }\n"
            "  return sum / all${gate};\n", join, 3);
        break;
    case QSF_WGSL_FROM_SLOTS:
        qsf_wgsl_put(t,
            "  var sum = 0.0;\n"
            "  for (var k = 0u; k < p.shares; k++) {\n"
            "    let slot = m * p.shares + k;\n"
            "    sum += A[slot * p.a_ld + p.a_at + c] * bitcast<f32>(B[slot].y);\n"
            "  }\n"
            "  return function(sum);\n");
        break;
    default:
        qsf_wgsl_put(t, "  return function(A[m * p.a_ld + p.a_at + c]);\n");
    }
    qsf_wgsl_put(t, "}\n");
}

/* fn sum_all(lid, v): the sum over the workgroup. */
static const char wgsl_sum_all[] =
    "var<workgroup> shares: array<f32, 256>;\n"
    "fn sum_all(lid: u32, v: f32) -> f32 {\n"
    "  shares[lid] = v;\n"
    "  workgroupBarrier();\n"
    "  if (lid < 16u) {\n"
    "    var some = 0.0;\n"
    "    for (var k = 0u; k < 16u; k++) { some += shares[lid + 16u * k]; }\n"
    "    shares[lid] = some;\n"
    "  }\n"
    "  workgroupBarrier();\n"
    "  var sum = 0.0;\n"
    "  for (var k = 0u; k < 16u; k++) { sum += shares[k]; }\n"
    "  workgroupBarrier();\n"
    "  return sum;\n"
    "}\n";

/* fn norm_of(m, lid) -> vec2<f32>: what is subtracted and what is multiplied with;
 * fn value(m, c, norm) -> f32: a column with it. */
static void wgsl_norm(qsf_wgsl_text *t, const qsf_wgsl_rows *r)
{
    if (r->norm == QSF_WGSL_NO_NORM) {
        qsf_wgsl_put(t,
            "fn norm_of(m: u32, lid: u32) -> vec2<f32> { return vec2<f32>(); }\n"
            "fn value(m: u32, c: u32, norm: vec2<f32>) -> f32 { return source(m, c); }\n");
        return;
    }
    qsf_wgsl_put(t, wgsl_sum_all);
    qsf_wgsl_put(t, "fn norm_of(m: u32, lid: u32) -> vec2<f32> {\n  var mean = 0.0;\n");
    if (r->norm == QSF_WGSL_LAYER_NORM)
        qsf_wgsl_put(t,
            "  var sum = 0.0;\n"
            "  for (var c = lid; c < p.cols; c += 256u) { sum += source(m, c); }\n"
            "  mean = sum_all(lid, sum) / f32(p.cols);\n");
    qsf_wgsl_put(t,
        "  var squares = 0.0;\n"
        "  for (var c = lid; c < p.cols; c += 256u) {\n"
        "    let x = source(m, c) - mean;\n"
        "    squares += x * x;\n"
        "  }\n"
        "  return vec2<f32>(mean, 1.0 / sqrt(sum_all(lid, squares) / f32(p.cols) + p.eps));\n"
        "}\n");
    QSF_WGSL_PUT(t,
        "fn value(m: u32, c: u32, norm: vec2<f32>) -> f32 {\n"
        "  return (source(m, c) - norm.x) * norm.y${weight}${bias};\n"
        "}\n", { "weight", 0, r->bare ? "" : " * weight[c]" }, { "bias", 0, r->bias ? " + bias[c]" : "" });
}

/* fn encode(m, c, v, lid): columns c to c + 3 as codes; as qsf_kernels' quantize_act. */
static const char wgsl_encode_fn[] =
    "var<workgroup> tops: array<f32, 256>;\n"
    "var<workgroup> sums: array<i32, 256>;\n"
    /* NaN, which a device's comparisons may not know, becomes 0, infinity the largest float */
    "fn finite(x: f32) -> f32 {\n"
    "  let bits = bitcast<u32>(x) & 0x7fffffffu;\n"
    "  if (bits > 0x7f800000u) { return 0.0; }\n"
    "  if (bits == 0x7f800000u) {\n"
    "    return select(3.4028234e38, -3.4028234e38, (bitcast<u32>(x) >> 31u) == 1u);\n"
    "  }\n"
    "  return x;\n"
    "}\n"
    "fn encode(m: u32, c: u32, given: vec4<f32>, lid: u32) {\n"
    "  let v = vec4<f32>(finite(given.x), finite(given.y), finite(given.z), finite(given.w));\n"
    "  let a = abs(v);\n"
    "  tops[lid] = ${top};\n"
    "  workgroupBarrier();\n"
    "  let first = lid & ~15u;\n"
    "  var top = 0.0;\n"
    "  for (var k = 0u; k < 16u; k++) { top = max(top, tops[first + k]); }\n"
    "  let scale = top / 127.0;\n"
    "  let some = scale >= 1.17549435e-38;\n"
    "  let d = select(0.0, scale, some);\n"
    "  let q = vec4<i32>(round(v * select(0.0, 1.0 / scale, some)));\n"
    "  let word = pack4xI8(q);\n"
    "  sums[lid] = dot4I8Packed(word, 0x01010101u);\n"
    "  workgroupBarrier();\n"
    "  let at = 4u * (m * p.x_ld + c / 64u * 5u);\n"
    "  if (c / 64u * 5u < p.x_ld) {\n"
    "    X[at + 4u + (lid & 15u)] = word;\n"
    "    if ((lid & 3u) == 0u) { sums[lid] += sums[lid + 1u] + sums[lid + 2u] + sums[lid + 3u]; }\n"
    "  }\n"
    "  workgroupBarrier();\n"
    "  if ((lid & 15u) == 0u && c / 64u * 5u < p.x_ld) {\n"
    "    X[at] = bitcast<u32>(d);\n"
    "    X[at + 1u] = (bitcast<u32>(sums[lid]) & 0xffffu) | (bitcast<u32>(sums[lid + 4u]) << 16u);\n"
    "    X[at + 2u] = (bitcast<u32>(sums[lid + 8u]) & 0xffffu) | (bitcast<u32>(sums[lid + 12u]) << 16u);\n"
    "    X[at + 3u] = 0u;\n"
    "  }\n"
    "}\n";

void qsf_wgsl_rows_load(qsf_wgsl_text *t, const qsf_wgsl_rows *r)
{
    const bool four = wgsl_joins_four(r);
    assert(r->codes || r->floats);
    assert(r->source != QSF_WGSL_FROM_ITSELF || (r->floats && !r->add));
    wgsl_source(t, r);
    wgsl_norm(t, r);
    /* infinity, which is not allowed as a constant */
    if (r->codes)
        QSF_WGSL_PUT(t, wgsl_encode_fn, { "top", 0, r->flags
            ? "select(max(max(a.x, a.y), max(a.z, a.w)), bitcast<f32>(0x7f800000u | (m & 0u)), odd)"
            : "max(max(a.x, a.y), max(a.z, a.w))" });
    QSF_WGSL_PUT(t,
        "fn load(m: u32, lid: u32, begin: u32, step: u32) {\n"
        "  let norm = norm_of(m, lid);\n"
        "  let end = max(p.cols, ${codes_end});\n"
        "  for (var first = begin; first < end; first += 1024u * step) {\n"
        "    let c = first + 4u * lid;\n"
        "    var v = vec4<f32>();\n"
        "    for (var k = 0u; k < ${singly}; k++) {\n"
        "      if (c + k < p.cols) { v[k] = value(m, c + k, norm)${gain}; }\n"
        "    }\n", { "codes_end", 0, r->codes ? "p.x_ld / 5u * 64u" : "0u" },
        { "singly", 0, four ? "select(0u, 4u, p.head_dim % 4u > 0u)" : "4u" },
        { "gain", 0, r->scaled ? " * p.gain" : "" });
    if (four) qsf_wgsl_put(t, "    if (p.head_dim % 4u == 0u && c < p.cols) { v = join_four(m, c); }\n");
    if (r->flags)
        qsf_wgsl_put(t,
            "    for (var k = 0u; k < 4u; k++) { look(v[k]); }\n"
            "    if (odd) { atomicOr(&Flags[p.flag], 1u); }\n");
    if (r->floats)
        QSF_WGSL_PUT(t,
            "    for (var k = 0u; k < 4u; k++) {\n"
            "      if (c + k < p.cols) { Y[m * p.y_ld + p.y_at + c + k] ${set} v[k]; }\n"
            "    }\n", { "set", 0, r->add ? "+=" : "=" });
    if (r->codes) qsf_wgsl_put(t, "    encode(m, c, v, lid);\n");
    qsf_wgsl_put(t, "  }\n}\n");
}

void qsf_wgsl_rows_text(qsf_wgsl_text *t, const qsf_wgsl_rows *r)
{
    wgsl_rows_bindings(t, r);
    qsf_wgsl_rows_load(t, r);
    qsf_wgsl_put(t,
        "@compute @workgroup_size(256)\n"
        "fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,\n"
        "        @builtin(local_invocation_index) lid: u32) {\n"
        "  load(group.y, lid, 1024u * group.x, groups.x);\n"
        "}\n");
}
