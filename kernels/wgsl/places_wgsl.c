/* Queries, keys and values to their places.
 * SPDX-License-Identifier: MIT
 *
 * A workgroup of 64 has one head of one row in its memory, and does with it, step by step, what the
 * model asks for: norm, rotation, and with codes the mixing of columns and the search for a scale.
 * Then keys and values go to their record, queries to the buffer that the chunks read. */
#include "places_wgsl.h"

static void wgsl_place_bindings(qsf_wgsl_text *t, const qsf_wgsl_attend *a)
{
    qsf_wgsl_bind(t, QSF_WGSL_READ, "Q", "array<f32>");
    qsf_wgsl_bind(t, QSF_WGSL_READ, "K", "array<f32>");
    qsf_wgsl_bind(t, QSF_WGSL_READ, "V", "array<f32>");
    qsf_wgsl_bind(t, QSF_WGSL_READ, "Rows", "array<vec4<u32>>");
    qsf_wgsl_bind(t, QSF_WGSL_WRITE, "Queries", "array<u32>");
    /* A word of values has four positions, which may be those of four rows of the batch. */
    qsf_wgsl_bind(t, QSF_WGSL_WRITE, "KV", a->codes ? "array<atomic<u32>>" : "array<u32>");
    if (a->rope) qsf_wgsl_bind(t, QSF_WGSL_READ, "Angles", "array<vec2<f32>>");
    if (a->norm || a->still) qsf_wgsl_bind(t, QSF_WGSL_READ, "Weights", "array<f32>");
}

/* fn reduce(lid, v): the sum, or the largest, of the workgroup's 64 values. */
static void wgsl_reduce(qsf_wgsl_text *t, const char *name, const char *join)
{
    QSF_WGSL_PUT(t,
        "fn ${name}(lid: u32, v: f32) -> f32 {\n"
        "  part[lid] = v;\n"
        "  workgroupBarrier();\n"
        "  for (var w = 32u; w > 0u; w >>= 1u) {\n"
        "    if (lid < w) { part[lid] = ${join}; }\n"
        "    workgroupBarrier();\n"
        "  }\n"
        "  let all = part[0];\n"
        "  workgroupBarrier();\n"
        "  return all;\n"
        "}\n", { "name", 0, name }, { "join", 0, join });
}

/* The steps, each a function of the whole workgroup that ends with a barrier. */
static void wgsl_place_norm(qsf_wgsl_text *t, const qsf_wgsl_attend *a)
{
    QSF_WGSL_PUT(t,
        "fn norm(lid: u32, weights: u32, weighed: bool) {\n"
        "  var mean = 0.0;\n"
        "${mean}"
        "  var squares = 0.0;\n"
        "  for (var c = lid; c < p.head_dim; c += 64u) { squares += (x[c] - mean) * (x[c] - mean); }\n"
        "  let f = 1.0 / sqrt(sum_all(lid, squares) / f32(p.head_dim) + p.eps);\n"
        "  for (var c = lid; c < p.head_dim; c += 64u) {\n"
        "    x[c] = (x[c] - mean) * f;\n"
        "${weigh}"
        "  }\n"
        "  workgroupBarrier();\n"
        "}\n",
        { "mean", 0, !a->mean ? "" :
          "  for (var c = lid; c < p.head_dim; c += 64u) { mean += x[c]; }\n"
          "  mean = sum_all(lid, mean) / f32(p.head_dim);\n" },
        { "weigh", 0, a->norm ? "    if (weighed) { x[c] *= Weights[weights + c]; }\n" : "" });
}

static void wgsl_place_steps(qsf_wgsl_text *t, const qsf_wgsl_attend *a)
{
    if (a->norm || a->values) wgsl_place_norm(t, a);
    if (a->rope)
        QSF_WGSL_PUT(t,
            "fn rotate(lid: u32, row: u32) {\n"
            "  for (var i = lid; i < p.half; i += 64u) {\n"
            "    let at = ${first};\n"
            "    let to = at + ${apart};\n"
            "    let angle = Angles[row * p.half + i];\n"
            "    let v = vec2<f32>(x[at], x[to]);\n"
            "    x[at] = v.x * angle.x - v.y * angle.y;\n"
            "    x[to] = v.x * angle.y + v.y * angle.x;\n"
            "  }\n"
            "  workgroupBarrier();\n"
            "}\n", { "first", 0, a->pairs ? "2u * i" : "i" }, { "apart", 0, a->pairs ? "1u" : "p.half" });
    if (!a->codes) return;
    qsf_wgsl_put(t,
        /* Hadamard's transform of blocks: the largest power of two that divides head_dim */
        "fn mix(lid: u32) {\n"
        "  let whole = p.head_dim & (~p.head_dim + 1u);\n"
        "  for (var half = p.mix; half < whole; half *= 2u) {\n"
        "    for (var i = lid; i < p.head_dim / 2u; i += 64u) {\n"
        "      let at = i / half * 2u * half + i % half;\n"
        "      let v = vec2<f32>(x[at], x[at + half]);\n"
        "      x[at] = v.x + v.y;\n"
        "      x[at + half] = v.x - v.y;\n"
        "    }\n"
        "    workgroupBarrier();\n"
        "  }\n"
        "  if (whole > p.mix) {\n"
        "    let f = 1.0 / sqrt(f32(whole / p.mix));\n"
        "    for (var c = lid; c < p.head_dim; c += 64u) { x[c] *= f; }\n"
        "  }\n"
        "  workgroupBarrier();\n"
        "}\n"
        /* the scale of codes of 8 bits */
        "fn scale_of(lid: u32) -> f32 {\n"
        "  var top = 0.0;\n"
        /* a value that is not finite makes the scale infinite, and what is computed with it NaN */
        "  for (var c = lid; c < p.head_dim; c += 64u) {\n"
        "    let odd = (bitcast<u32>(x[c]) & 0x7f800000u) == 0x7f800000u;\n"
        "    top = max(top, select(abs(x[c]), bitcast<f32>(0x7f800000u | (lid & 0u)), odd));\n"
        "  }\n"
        "  let d = top_all(lid, top) / 127.0;\n"
        "  return select(0.0, d, d >= 1.17549435e-38);\n"
        "}\n"
        "fn code(c: u32, d: f32) -> i32 { return i32(round(select(0.0, x[c] * (1.0 / d), d > 0.0))); }\n"
        "fn code_word(w: u32, d: f32) -> u32 {\n"
        "  return pack4xI8(vec4<i32>(code(4u * w, d), code(4u * w + 1u, d), code(4u * w + 2u, d),\n"
        "                            code(4u * w + 3u, d)));\n"
        "}\n");
}

static void wgsl_place_stores(qsf_wgsl_text *t, const qsf_wgsl_attend *a)
{
    if (a->codes)
        qsf_wgsl_put(t,
            "fn store_query(lid: u32, at: u32) {\n"
            "  let d = scale_of(lid);\n"
            "  if (lid == 0u) { Queries[at] = bitcast<u32>(d); }\n"
            "  for (var w = lid; w < ROOM / 4u; w += 64u) { Queries[at + 1u + w] = code_word(w, d); }\n"
            "}\n"
            "fn store_key(lid: u32, record: u32, i: u32) {\n"
            "  let d = scale_of(lid);\n"
            "  if (lid == 0u) { atomicStore(&KV[record + p.key_scales_at + i], bitcast<u32>(d)); }\n"
            "  for (var w = lid; w < ROOM / 4u; w += 64u) {\n"
            "    atomicStore(&KV[record + (i / 16u * (ROOM / 4u) + w) * 16u + i % 16u], code_word(w, d));\n"
            "  }\n"
            "}\n"
            "fn store_value(lid: u32, record: u32, i: u32) {\n"
            "  let d = scale_of(lid);\n"
            "  if (lid == 0u) { atomicStore(&KV[record + p.value_scales_at + i], bitcast<u32>(d)); }\n"
            "  let shift = 8u * (i & 3u);\n"
            "  for (var c = lid; c < ROOM; c += 64u) {\n"
            "    let at = record + p.value_at + (c / 16u * 8u + i / 4u) * 16u + c % 16u;\n"
            "    atomicAnd(&KV[at], ~(0xffu << shift));\n"
            "    atomicOr(&KV[at], (bitcast<u32>(code(c, d)) & 0xffu) << shift);\n"
            "  }\n"
            "}\n");
    else
        QSF_WGSL_PUT(t,
            "fn store_query(lid: u32, at: u32) {\n"
            "  for (var c = lid; c < ROOM; c += 64u) { Queries[at + c] = bitcast<u32>(x[c]); }\n"
            "}\n"
            "fn store_floats(lid: u32, at: u32) {\n"
            "  for (var w = lid; w < FLOATS; w += 64u) { KV[at + w] = ${word}; }\n"
            "}\n"
            "fn store_key(lid: u32, record: u32, i: u32) { store_floats(lid, record + i * FLOATS); }\n"
            "fn store_value(lid: u32, record: u32, i: u32) {\n"
            "  store_floats(lid, record + p.value_at + i * FLOATS);\n"
            "}\n", { "word", 0, a->wide ? "bitcast<u32>(x[w])"
                     : "pack2x16float(vec2<f32>(x[2u * w], x[2u * w + 1u]))" });
}

void qsf_wgsl_places(qsf_wgsl_text *t, const qsf_wgsl_attend *a)
{
    static const char normed[] = "    norm(lid, select(p.norm_ld * p.heads, 0u, query) + p.norm_ld * head\n"
        "      + select(select(0u, p.head_dim, p.norm_ld == 0u), 0u, query), true);\n";
    assert(!a->still || (a->codes && !a->norm));
    qsf_wgsl_attend_head(t, a);
    wgsl_place_bindings(t, a);
    qsf_wgsl_put(t, "var<workgroup> x: array<f32, ROOM>;\nvar<workgroup> part: array<f32, 64>;\n");
    wgsl_reduce(t, "sum_all", "part[lid] + part[lid + w]");
    wgsl_reduce(t, "top_all", "max(part[lid], part[lid + w])");
    wgsl_place_steps(t, a);
    wgsl_place_stores(t, a);
    qsf_wgsl_put(t,
        "@compute @workgroup_size(64)\n"
        "fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lid: u32) {\n"
        "  let m = group.y;\n"
        "  let row = Rows[m];\n"
        "  let query = group.x < p.heads;       // then keys, then values\n"
        "  let value = group.x >= p.heads + p.kv_heads;\n"
        "  let head = group.x - select(select(p.heads, p.heads + p.kv_heads, value), 0u, query);\n"
        "  for (var c = lid; c < ROOM; c += 64u) {\n"
        "    var v = 0.0;\n"
        "    if (c < p.head_dim) {\n"
        "      if (query) { v = Q[m * p.q_ld + p.q_at + head * p.q_step + c]; }\n"
        "      else if (value) { v = V[m * p.v_ld + p.v_at + head * p.head_dim + c]; }\n"
        "      else { v = K[m * p.k_ld + p.k_at + head * p.head_dim + c]; }\n"
        "    }\n"
        "    x[c] = v;\n"
        "  }\n"
        "  workgroupBarrier();\n"
        "  if (!value) {\n");
    if (a->norm && !a->rotated_first) qsf_wgsl_put(t, normed);
    if (a->rope) qsf_wgsl_put(t, "    rotate(lid, m);\n");
    if (a->norm && a->rotated_first) qsf_wgsl_put(t, normed);
    if (a->temper)
        qsf_wgsl_put(t,
            "    let times = 1.0 + p.temp * log(1.0 + f32(row.x / p.every));\n"
            "    for (var c = lid; query && c < p.head_dim; c += 64u) { x[c] *= times; }\n"
            "    workgroupBarrier();\n");
    if (a->still)
        qsf_wgsl_put(t,
            "    for (var c = lid; !query && c < p.head_dim; c += 64u) {\n"
            "      x[c] -= Weights[head * p.head_dim + c];\n"
            "    }\n"
            "    workgroupBarrier();\n");
    if (a->codes) qsf_wgsl_put(t, "    if (p.mix > 0u) { mix(lid); }\n");
    qsf_wgsl_put(t, a->values ? "  } else { norm(lid, 0u, false); }\n" : "  }\n");
    qsf_wgsl_put(t,
        "  let record = (row.w * p.block + head) * p.record;\n"
        "  if (query) { store_query(lid, (m * p.heads + head) * QUERY); }\n"
        "  else if (value) { store_value(lid, record, row.x % 32u); }\n"
        "  else { store_key(lid, record, row.x % 32u); }\n"
        "}\n");
}
