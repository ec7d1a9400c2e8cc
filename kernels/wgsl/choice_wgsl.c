/* Which experts a row takes, and the rows of a batch by expert.
 * SPDX-License-Identifier: MIT
 *
 * An expert's rank is the number of those that are better; numbers are compared as integers of the
 * same order, so that ranks are all different whatever a logit is.  A row has a workgroup, in which
 * each invocation has up to four experts. */
#include "choice_wgsl.h"

/* fn most_of, fn sum_of: over the workgroup. */
static const char wgsl_reductions[] =
    "var<workgroup> shares: array<f32, 256>;\n"
    "fn most_of(lid: u32, v: f32) -> f32 {\n"
    "  shares[lid] = v;\n"
    "  workgroupBarrier();\n"
    "  for (var w = 128u; w > 0u; w >>= 1u) {\n"
    "    if (lid < w) { shares[lid] = max(shares[lid], shares[lid + w]); }\n"
    "    workgroupBarrier();\n"
    "  }\n"
    "  let most = shares[0];\n"
    "  workgroupBarrier();\n"
    "  return most;\n"
    "}\n"
    "fn sum_of(lid: u32, v: f32) -> f32 {\n"
    "  shares[lid] = v;\n"
    "  workgroupBarrier();\n"
    "  for (var w = 128u; w > 0u; w >>= 1u) {\n"
    "    if (lid < w) { shares[lid] += shares[lid + w]; }\n"
    "    workgroupBarrier();\n"
    "  }\n"
    "  let sum = shares[0];\n"
    "  workgroupBarrier();\n"
    "  return sum;\n"
    "}\n";

static void wgsl_choice_head(qsf_wgsl_text *t, const qsf_wgsl_choice *c)
{
    qsf_wgsl_put(t,
        "struct Numbers {\n"
        "  experts: u32, used: u32, a_ld: u32, slots: u32, groups: u32, groups_used: u32, scale: f32,\n"
        "  unused: u32,\n"
        "}\n");
    qsf_wgsl_bind(t, QSF_WGSL_UNIFORM, "p", "Numbers");
    qsf_wgsl_bind(t, QSF_WGSL_READ, "A", "array<f32>");
    if (c->bias) qsf_wgsl_bind(t, QSF_WGSL_READ, "bias", "array<f32>");
    if (c->scales) qsf_wgsl_bind(t, QSF_WGSL_READ, "scales", "array<f32>");
    qsf_wgsl_bind(t, QSF_WGSL_WRITE, "Slots", "array<vec2<u32>>");
    QSF_WGSL_PUT(t,
        "var<workgroup> value: array<f32, ${most}>;      // [expert]\n"
        "var<workgroup> order: array<u32, ${most}>;      // [expert] scores; then [slot] experts\n"
        "var<workgroup> chosen: array<atomic<u32>, ${words}>;    // a bit for each expert\n"
        "var<workgroup> damaged: atomic<u32>;\n"
        "var<workgroup> factor: f32;\n"
        /* larger for larger numbers, 1 for NaN; 0 is that of an expert which is not chosen from */
        "fn order_of(x: f32) -> u32 {\n"
        "  let bits = bitcast<u32>(x);\n"
        "  if ((bits & 0x7fffffffu) > 0x7f800000u) { return 1u; }\n"
        "  if (bits == 0x80000000u) { return bits; }              // -0 is 0\n"
        "  return select(bits | 0x80000000u, ~bits, (bits >> 31u) == 1u);\n"
        "}\n"
        "fn sigmoid(x: f32) -> f32 { return 1.0 / (1.0 + exp(min(-x, 80.0))); }\n",
        { "most", QSF_WGSL_EXPERTS, NULL }, { "words", QSF_WGSL_EXPERTS / 32, NULL });
    if (c->router == QSF_WGSL_OF_ALL) qsf_wgsl_put(t, wgsl_reductions);
}

/* The value of each expert, and the order of its score. */
static void wgsl_choice_scores(qsf_wgsl_text *t, const qsf_wgsl_choice *c)
{
    qsf_wgsl_put(t,
        "  for (var e = lid; e < p.experts; e += 256u) {\n"
        "    let x = A[m * p.a_ld + e];\n"
        "    if ((bitcast<u32>(x) & 0x7f800000u) == 0x7f800000u) { atomicOr(&damaged, 1u); }\n");
    qsf_wgsl_put(t, c->router == QSF_WGSL_OF_EACH ? "    value[e] = sigmoid(x);\n" : "    value[e] = x;\n");
    qsf_wgsl_put(t, "  }\n");
    if (c->router == QSF_WGSL_OF_ALL)
        qsf_wgsl_put(t,
            "  var most = -3.4028234e38;\n"
            "  for (var e = lid; e < p.experts; e += 256u) { most = max(most, value[e]); }\n"
            "  let top = most_of(lid, most);\n"
            "  var part = 0.0;\n"
            "  for (var e = lid; e < p.experts; e += 256u) {\n"
            "    value[e] = exp(value[e] - top);\n"
            "    part += value[e];\n"
            "  }\n"
            "  let sum = sum_of(lid, part);\n"
            "  for (var e = lid; e < p.experts; e += 256u) { value[e] /= sum; }\n");
    QSF_WGSL_PUT(t,
        "  for (var e = lid; e < p.experts; e += 256u) { order[e] = order_of(value[e]${bias}); }\n"
        "  workgroupBarrier();\n", { "bias", 0, c->bias ? " + bias[e]" : "" });
}

/* A group is as good as its two best experts together; experts of the others get the order 0. */
static void wgsl_choice_groups(qsf_wgsl_text *t, const qsf_wgsl_choice *c)
{
    QSF_WGSL_PUT(t,
        "  let each = p.experts / p.groups;\n"
        "  for (var g = lid; g < p.groups; g += 256u) {\n"
        "    var a = -3.4028234e38;\n"
        "    var b = -3.4028234e38;\n"
        "    for (var e = g * each; e < (g + 1u) * each; e++) {\n"
        "      let s = value[e]${bias};\n"
        "      b = max(b, min(a, s));\n"
        "      a = max(a, s);\n"
        "    }\n"
        "    group[g] = order_of(select(a, a + b, each > 1u));\n"
        "  }\n"
        "  workgroupBarrier();\n"
        "  for (var e = lid; e < p.experts; e += 256u) {\n"
        "    let g = e / each;\n"
        "    let mine = group[g];\n"
        "    var rank = 0u;\n"
        "    for (var k = 0u; k < p.groups; k++) {\n"
        "      rank += u32(group[k] > mine || (group[k] == mine && k < g));\n"
        "    }\n"
        "    if (rank >= p.groups_used) { order[e] = 0u; }\n"
        "  }\n"
        "  workgroupBarrier();\n", { "bias", 0, c->bias ? " + bias[e]" : "" });
}

/* The best ones' bits, then their numbers in order[0 .. used). */
static const char wgsl_choice_best[] =
    "  for (var e = lid; e < p.experts; e += 256u) {\n"
    "    let mine = order[e];\n"
    "    var rank = 0u;\n"
    "    for (var k = 0u; k < p.experts; k++) {\n"
    "      rank += u32(order[k] > mine || (order[k] == mine && k < e));\n"
    "    }\n"
    "    if (rank < p.used) { atomicOr(&chosen[e >> 5u], 1u << (e & 31u)); }\n"
    "  }\n"
    "  workgroupBarrier();\n"
    "  for (var e = lid; e < p.experts; e += 256u) {\n"
    "    let bits = atomicLoad(&chosen[e >> 5u]);\n"
    "    if (((bits >> (e & 31u)) & 1u) == 1u) {\n"
    "      var at = countOneBits(bits & ((1u << (e & 31u)) - 1u));\n"
    "      for (var k = 0u; k < (e >> 5u); k++) { at += countOneBits(atomicLoad(&chosen[k])); }\n"
    "      order[at] = e;\n"
    "    }\n"
    "  }\n"
    "  workgroupBarrier();\n";

/* Weights of the chosen ones, in the order of experts, as the CPU adds them up. */
static void wgsl_choice_weights(qsf_wgsl_text *t, const qsf_wgsl_choice *c)
{
    qsf_wgsl_put(t, "  if (lid == 0u) {\n    factor = p.scale;\n");
    if (c->router == QSF_WGSL_OF_CHOSEN)
        qsf_wgsl_put(t,
            "    var top = value[order[0]];\n"
            "    for (var k = 1u; k < p.used; k++) { top = max(top, value[order[k]]); }\n"
            "    var all = 0.0;\n"
            "    for (var k = 0u; k < p.used; k++) {\n"
            "      value[order[k]] = exp(value[order[k]] - top);\n"
            "      all += value[order[k]];\n"
            "    }\n"
            "    for (var k = 0u; k < p.used; k++) { value[order[k]] /= all; }\n");
    if (c->norm)
        qsf_wgsl_put(t,
            "    var sum = 0.0;\n"
            "    for (var k = 0u; k < p.used; k++) { sum += value[order[k]]; }\n"
            "    factor = p.scale / max(sum, 6.103515625e-5);       // fp16's smallest normal number\n");
    QSF_WGSL_PUT(t,
        "  }\n"
        "  workgroupBarrier();\n"
        "  let bad = atomicLoad(&damaged) != 0u;\n"
        "  for (var k = lid; k < p.used; k += 256u) {\n"
        "    let e = order[k];\n"
        "    let w = value[e] * factor${scale};\n"
        "    Slots[m * p.slots + k] = vec2<u32>(e, select(bitcast<u32>(w), 0x7fc00000u, bad));\n"
        "  }\n", { "scale", 0, c->scales ? " * scales[e]" : "" });
    if (c->shared)
        QSF_WGSL_PUT(t,
            "  if (lid == 0u) {\n"
            "    Slots[m * p.slots + p.used] = vec2<u32>(${none}u, bitcast<u32>(${weight}));\n"
            "  }\n", { "none", QSF_WGSL_NO_EXPERT, NULL },
            { "weight", 0, c->shared == QSF_WGSL_BESIDE ? "1.0" : "sigmoid(A[m * p.a_ld + p.experts])" });
}

void qsf_wgsl_choice_text(qsf_wgsl_text *t, const qsf_wgsl_choice *c)
{
    wgsl_choice_head(t, c);
    if (c->groups)
        QSF_WGSL_PUT(t, "var<workgroup> group: array<u32, ${most}>;      // [group] order\n",
                     { "most", QSF_WGSL_EXPERTS, NULL });
    qsf_wgsl_put(t,
        "@compute @workgroup_size(256)\n"
        "fn main(@builtin(workgroup_id) row: vec3<u32>, @builtin(local_invocation_index) lid: u32) {\n"
        "  let m = row.y;\n");
    wgsl_choice_scores(t, c);
    if (c->groups) wgsl_choice_groups(t, c);
    qsf_wgsl_put(t, wgsl_choice_best);
    wgsl_choice_weights(t, c);
    qsf_wgsl_put(t, "}\n");
}

/* ---- the batch by expert ---- */

static void wgsl_sort_head(qsf_wgsl_text *t)
{
    qsf_wgsl_put(t,
        "struct Numbers {\n"
        "  n: u32, experts: u32, used: u32, slots: u32, groups: u32, a: u32, b: u32, c: u32,\n"
        "}\n");
    qsf_wgsl_bind(t, QSF_WGSL_UNIFORM, "p", "Numbers");
    qsf_wgsl_bind(t, QSF_WGSL_READ, "Slots", "array<vec2<u32>>");
    qsf_wgsl_bind(t, QSF_WGSL_WRITE, "List", "array<u32>");
    QSF_WGSL_PUT(t,
        "const GROUP = ${group}u;\n"
        "const EACH = ${each}u;                          // experts of an invocation\n"
        "var<workgroup> count: array<atomic<u32>, ${most}>;      // [expert] slots; then the next place\n"
        "var<workgroup> sums: array<vec2<u32>, 256>;     // slots and groups of the invocations up to one\n"
        "fn expert_of(s: u32) -> u32 { return Slots[s / p.used * p.slots + s % p.used].x; }\n"
        "fn put_group(g: u32, e: u32, first: u32, n: u32) {\n"
        "  if (g >= p.groups) { return; }\n"
        "  List[4u * g] = e;\n"
        "  List[4u * g + 1u] = first;\n"
        "  List[4u * g + 2u] = n;\n"
        "  List[4u * g + 3u] = 0u;\n"
        "}\n", { "group", QSF_WGSL_GROUP, NULL }, { "each", QSF_WGSL_EXPERTS / QSF_WGSL_THREADS, NULL },
        { "most", QSF_WGSL_EXPERTS, NULL });
}

void qsf_wgsl_sort(qsf_wgsl_text *t)
{
    wgsl_sort_head(t);
    qsf_wgsl_put(t,
        "@compute @workgroup_size(256)\n"
        "fn main(@builtin(local_invocation_index) lid: u32) {\n"
        "  for (var s = lid; s < p.n; s += 256u) {\n"
        "    let e = expert_of(s);\n"
        "    if (e < p.experts) { atomicAdd(&count[e], 1u); }\n"
        "  }\n"
        "  workgroupBarrier();\n"
        "  var mine = vec2<u32>();\n"
        "  for (var k = 0u; k < EACH; k++) {\n"
        "    let n = atomicLoad(&count[EACH * lid + k]);\n"
        "    mine += vec2<u32>(n, (n + GROUP - 1u) / GROUP);\n"
        "  }\n"
        "  sums[lid] = mine;\n"
        "  workgroupBarrier();\n"
        "  for (var w = 1u; w < 256u; w <<= 1u) {\n"
        "    var before = vec2<u32>();\n"
        "    if (lid >= w) { before = sums[lid - w]; }\n"
        "    workgroupBarrier();\n"
        "    sums[lid] += before;\n"
        "    workgroupBarrier();\n"
        "  }\n"
        "  var at = sums[lid] - mine;\n"
        "  for (var k = 0u; k < EACH; k++) {\n"
        "    let e = EACH * lid + k;\n"
        "    let n = atomicLoad(&count[e]);\n"
        "    for (var i = 0u; i < n; i += GROUP) {\n"
        "      put_group(at.y + i / GROUP, e, at.x + i, min(GROUP, n - i));\n"
        "    }\n"
        "    atomicStore(&count[e], at.x);\n"
        "    at += vec2<u32>(n, (n + GROUP - 1u) / GROUP);\n"
        "  }\n"
        "  for (var g = sums[255].y + lid; g < p.groups; g += 256u) { put_group(g, 0u, 0u, 0u); }\n"
        "  workgroupBarrier();\n"
        "  for (var s = lid; s < p.n; s += 256u) {\n"
        "    let e = expert_of(s);\n"
        "    if (e < p.experts) { List[4u * p.groups + atomicAdd(&count[e], 1u)] = s; }\n"
        "  }\n"
        "}\n");
}
