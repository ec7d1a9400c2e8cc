/* The most likely tokens of each row of logits, and the choice of one of them.
 * SPDX-License-Identifier: MIT
 *
 * No stage sorts a group's columns.  Each invocation has `EACH` of them.  The `keep`-th largest of
 * the 256 maxima is a lower bound of the `keep`-th largest column, and at most keep * EACH = 1024
 * columns are above it: those of the invocations with the largest maxima.  They are ranked by
 * counting which of them are larger.  Equal logits differ by their columns, so that ranks are
 * unique. */
#include "candidates_wgsl.h"
#include "largest_wgsl.h"

static const char *const wgsl_stage_reads[] = {
    [QSF_WGSL_FIRST] = "ordered(value(m, c), c)",
    [QSF_WGSL_MERGE] = "X[m * p.cols + c]",
    [QSF_WGSL_LAST] = "X[m * p.cols + c]",
};

/* ---- the search ---- */

/* A column of X as the model's logit.  Some devices give NaN for the tanh of large numbers. */
static void wgsl_put_value(qsf_wgsl_text *t)
{
    qsf_wgsl_put(t,
        "fn value(m: u32, c: u32) -> f32 {\n"
        "  let x = X[m * p.x_ld + p.x_at + c];\n"
        "  if (p.cap > 0.0 && (bitcast<u32>(x) & 0x7fffffffu) < 0x7f800000u) {\n"
        "    return p.cap * tanh(clamp(p.scale * x / p.cap, -10.0, 10.0));\n"
        "  }\n"
        "  if (p.scale != 1.0) { return p.scale * x; }\n"
        "  return x;\n"
        "}\n");
}

static void wgsl_put_search(qsf_wgsl_text *t, const qsf_wgsl_candidates *c)
{
    QSF_WGSL_PUT(t,
        "const KEEP = ${keep}u;\n"
        "const EACH = ${each}u;\n"
        "const NONE = vec2<u32>(0u, 0xffffffffu);\n"
        "var<workgroup> most: array<vec2<u32>, 256>;     // of each invocation\n"
        "var<workgroup> bound: vec2<u32>;\n"
        "var<workgroup> found: array<vec2<u32>, 1024>;\n"
        "var<workgroup> n_found: atomic<u32>;\n"
        "var<workgroup> best: array<vec2<u32>, KEEP>;\n"
        "fn logit(order: u32) -> f32 {\n"
        "  return bitcast<f32>(select(~order, order & 0x7fffffffu, (order >> 31u) == 1u));\n"
        "}\n"
        /* NaN has no place */
        "fn ordered(x: f32, c: u32) -> vec2<u32> {\n"
        "  let o = order(bitcast<u32>(x));\n"
        "  return vec2<u32>(o, select(c, 0xffffffffu, o == 0u));\n"
        "}\n"
        "fn at(m: u32, c: u32) -> vec2<u32> {\n"
        "  if (c >= p.cols) { return NONE; }\n"
        "  return ${read};\n"
        "}\n",
        { "keep", c->keep, NULL }, { "each", 1024 / c->keep, NULL },
        { "read", 0, wgsl_stage_reads[c->stage] });
    qsf_wgsl_put(t,
        "fn search(m: u32, first: u32, lid: u32) {\n"
        "  var own = NONE;\n"
        "  for (var i = 0u; i < EACH; i++) {\n"
        "    let v = at(m, first + 256u * i + lid);\n"
        "    if (better(v, own)) { own = v; }\n"
        "  }\n"
        "  most[lid] = own;\n"
        "  if (lid < KEEP) { best[lid] = NONE; }\n"
        "  if (lid == 0u) { atomicStore(&n_found, 0u); }\n"
        "  workgroupBarrier();\n"
        "  var rank = 0u;\n"
        "  for (var i = 0u; i < 256u; i++) {\n"
        "    let v = most[i];\n"
        "    rank += select(0u, 1u, better(v, own) || (all(v == own) && i < lid));\n"
        "  }\n"
        "  if (rank == KEEP - 1u) { bound = own; }\n"
        "  workgroupBarrier();\n"
        "  let least = bound;\n"
        "  for (var i = 0u; i < EACH; i++) {\n"
        "    let v = at(m, first + 256u * i + lid);\n"
        "    if (v.y != 0xffffffffu && !better(least, v)) { found[atomicAdd(&n_found, 1u)] = v; }\n"
        "  }\n"
        "  workgroupBarrier();\n"
        "  let n = atomicLoad(&n_found);\n"
        "  for (var k = lid; k < n; k += 256u) {\n"
        "    let v = found[k];\n"
        "    var before = 0u;\n"
        "    for (var i = 0u; i < n; i++) { before += select(0u, 1u, better(found[i], v)); }\n"
        "    if (before < KEEP) { best[before] = v; }\n"
        "  }\n"
        "  workgroupBarrier();\n"
        "}\n");
}

/* ---- sums of exponentials ---- */

/* Of two sums relative to two largest logits. */
static void wgsl_put_sums(qsf_wgsl_text *t)
{
    qsf_wgsl_put(t,
        "const LOWEST = -3.4e38f;\n"
        "var<workgroup> sums: array<vec2<f32>, 256>;     // the largest logit, the sum\n"
        "var<workgroup> marks: atomic<u32>;\n"
        "fn both(a: vec2<f32>, b: vec2<f32>) -> vec2<f32> {\n"
        "  let top = max(a.x, b.x);\n"
        "  return vec2<f32>(top, a.y * exp(a.x - top) + b.y * exp(b.x - top));\n"
        "}\n"
        "fn add(own: vec2<f32>, mark: u32, lid: u32) {\n"
        "  sums[lid] = own;\n"
        "  atomicOr(&marks, mark);\n"
        "  workgroupBarrier();\n"
        "  for (var w = 128u; w > 0u; w >>= 1u) {\n"
        "    if (lid < w) { sums[lid] = both(sums[lid], sums[lid + w]); }\n"
        "    workgroupBarrier();\n"
        "  }\n"
        "}\n");
}

static void wgsl_put_sums_of_logits(qsf_wgsl_text *t)
{
    qsf_wgsl_put(t,
        "fn add_logits(m: u32, first: u32, lid: u32) {\n"
        "  var own = vec2<f32>(LOWEST, 0.0);\n"
        "  var mark = 0u;\n"
        "  for (var i = 0u; i < EACH; i++) {\n"
        "    let c = first + 256u * i + lid;\n"
        "    if (c >= p.cols) { continue; }\n"
        "    let x = value(m, c);\n"
        "    let bits = bitcast<u32>(x);\n"
        "    if ((bits & 0x7fffffffu) >= 0x7f800000u) {\n"
        "      mark |= select(1u, 2u, bits == 0xff800000u);\n"
        "    } else {\n"
        "      own = both(own, vec2<f32>(max(x, LOWEST), 1.0));\n"
        "    }\n"
        "  }\n"
        "  add(own, mark, lid);\n"
        "}\n");
}

static void wgsl_put_sums_of_groups(qsf_wgsl_text *t)
{
    qsf_wgsl_put(t,
        "fn add_groups(m: u32, lid: u32) {\n"
        "  var own = vec2<f32>(LOWEST, 0.0);\n"
        "  var mark = 0u;\n"
        "  for (var g = lid; g < p.sums; g += 256u) {\n"
        "    let v = Sums[m * p.sums + g];\n"
        "    own = both(own, bitcast<vec2<f32>>(v.xy));\n"
        "    mark |= v.z;\n"
        "  }\n"
        "  add(own, mark, lid);\n"
        "}\n");
}

/* ---- the choice ---- */

/* Penalties of the last tokens, which bring the candidates into another order. */
static void wgsl_put_penalties(qsf_wgsl_text *t)
{
    qsf_wgsl_put(t,
        "var<workgroup> changed: array<vec2<u32>, KEEP>;\n"
        "fn penalize(m: u32, lid: u32) {\n"
        "  let rule = Rules[m];\n"
        "  let token = best[min(lid, KEEP - 1u)].y;\n"
        "  var x = logit(best[min(lid, KEEP - 1u)].x);\n"
        "  var count = select(0u, rule.newest, Tokens[m] == token);\n"
        "  for (var i = 0u; i < rule.n_last; i++) {\n"
        "    count += select(0u, 1u, Last[rule.last_at + i] == token);\n"
        "  }\n"
        "  if (count > 0u) {\n"
        "    x = select(x * rule.repeat, x / rule.repeat, x > 0.0)\n"
        "      - (f32(count) * rule.frequency + rule.presence);\n"
        "  }\n"
        "  let own = ordered(x, token);\n"
        "  if (lid < KEEP) { changed[lid] = own; }\n"
        "  workgroupBarrier();\n"
        "  var rank = 0u;\n"
        "  for (var i = 0u; i < KEEP; i++) { rank += select(0u, 1u, better(changed[i], own)); }\n"
        "  if (lid < KEEP) { best[rank] = own; }\n"
        "  workgroupBarrier();\n"
        "}\n");
}

/* As the sampler: temperature, min-p and top-k, then top-p of what is left, by rank; then a draw
 * from the candidates in the order of their tokens. */
static void wgsl_put_choice(qsf_wgsl_text *t, bool bare)
{
    QSF_WGSL_PUT(t,
        "var<workgroup> weights: array<f32, KEEP>;\n"
        "var<workgroup> kept: array<f32, KEEP>;\n"
        "var<workgroup> chosen: atomic<u32>;\n"
        "fn choose(m: u32, lid: u32) {\n"
        "  let rule = Rules[m];\n"
        "  var w = 0.0;\n"
        "  if (lid < KEEP) {\n"
        "    let d = (logit(best[lid].x) - logit(best[0].x)) * rule.scale;\n"
        "    let e = exp(d);\n"
        "    let there = best[lid].x > 0x007fffffu && (rule.top_k == 0u || lid < rule.top_k);\n"
        "    w = select(0.0, e, there && d >= -87.3 && e >= rule.min_p);\n"
        "    weights[lid] = w;\n"
        "  }\n"
        "  if (lid == 0u) { atomicStore(&chosen, 0u); }\n"
        "  workgroupBarrier();\n"
        "  var all = 0.0;\n"
        "  var before = 0.0;\n"
        "  for (var i = 0u; i < KEEP; i++) {\n"
        "    if (i == lid) { before = all; }\n"
        "    all += weights[i];\n"
        "  }\n"
        "  if (lid < KEEP) { kept[lid] = select(0.0, w, lid == 0u || before < rule.top_p * all); }\n"
        "  workgroupBarrier();\n"
        "  var sum = 0.0;\n"
        "  var lower = 0.0;\n"
        "  let token = best[min(lid, KEEP - 1u)].y;\n"
        "  for (var i = 0u; i < KEEP; i++) {\n"
        "    sum += kept[i];\n"
        "    lower += select(0.0, kept[i], best[i].y < token);\n"
        "  }\n"
        "  if (lid < KEEP && kept[min(lid, KEEP - 1u)] > 0.0 && lower <= rule.draw * sum) {\n"
        "    atomicMax(&chosen, token);\n"
        "  }\n"
        "  workgroupBarrier();\n"
        "  if (lid == 0u) {\n"
        "    let id = select(atomicLoad(&chosen), best[0].y,\n"
        "                    rule.scale == 0.0 || kept[0] == 0.0);\n"
        "${record}"
        "    Tokens[m] = id;\n"
        "  }\n"
        "}\n", { "record", 0, bare ? "" : "    Records[m * WORDS + 3u] = id;\n" });
}

static void wgsl_put_rule(qsf_wgsl_text *t)
{
    qsf_wgsl_put(t,
        "struct Rule {\n"
        "  last_at: u32, n_last: u32, newest: u32, top_k: u32,\n"
        "  repeat: f32, frequency: f32, presence: f32, scale: f32,\n"
        "  top_p: f32, min_p: f32, draw: f32, unused: f32,\n"
        "}\n");
}

static void wgsl_put_record(qsf_wgsl_text *t, bool choose)
{
    QSF_WGSL_PUT(t,
        "const WORDS = 4u + 2u * KEEP;\n"
        "fn record(m: u32, lid: u32) {\n"
        "  if (lid < KEEP) {\n"
        "    Records[m * WORDS + 4u + 2u * lid] = best[lid].y;\n"
        "    Records[m * WORDS + 5u + 2u * lid] = bitcast<u32>(logit(best[lid].x));\n"
        "  }\n"
        "  if (lid == 0u) {\n"
        "    var n = 0u;\n"
        "    for (var i = 0u; i < KEEP; i++) { n += select(0u, 1u, best[i].y != 0xffffffffu); }\n"
        "    Records[m * WORDS] = bitcast<u32>(sums[0].x + log(sums[0].y));\n"
        "    Records[m * WORDS + 1u] = atomicLoad(&marks);\n"
        "    Records[m * WORDS + 2u] = n;\n"
        "${none}"
        "  }\n"
        "}\n", { "none", 0, choose ? "" : "    Records[m * WORDS + 3u] = 0xffffffffu;\n" });
}

/* ---- the shaders ---- */

static void wgsl_put_numbers(qsf_wgsl_text *t)
{
    qsf_wgsl_put(t, "struct Numbers {\n"
                    "  n: u32, cols: u32, x_ld: u32, x_at: u32, sums: u32, scale: f32, cap: f32,\n"
                    "}\n");
    qsf_wgsl_bind(t, QSF_WGSL_UNIFORM, "p", "Numbers");
}

static void wgsl_put_bindings(qsf_wgsl_text *t, const qsf_wgsl_candidates *c)
{
    const bool last = c->stage == QSF_WGSL_LAST, bare = QSF_WGSL_BARE(c->bare);
    wgsl_put_numbers(t);
    qsf_wgsl_bind(t, QSF_WGSL_READ, "X", c->stage == QSF_WGSL_FIRST ? "array<f32>" : "array<vec2<u32>>");
    if (!last) qsf_wgsl_bind(t, QSF_WGSL_WRITE, "Pairs", "array<vec2<u32>>");
    if (!bare && c->stage == QSF_WGSL_FIRST) qsf_wgsl_bind(t, QSF_WGSL_WRITE, "Sums", "array<vec4<u32>>");
    if (!last) return;
    if (!bare) qsf_wgsl_bind(t, QSF_WGSL_READ, "Sums", "array<vec4<u32>>");
    if (!bare) qsf_wgsl_bind(t, QSF_WGSL_WRITE, "Records", "array<u32>");
    if (!c->choose) return;
    wgsl_put_rule(t);
    qsf_wgsl_bind(t, QSF_WGSL_READ, "Rules", "array<Rule>");
    qsf_wgsl_bind(t, QSF_WGSL_WRITE, "Tokens", "array<u32>");
    qsf_wgsl_bind(t, QSF_WGSL_READ, "Last", "array<u32>");
}

void qsf_wgsl_candidates_text(qsf_wgsl_text *t, const qsf_wgsl_candidates *c)
{
    static const char *const ends[] = {
        [QSF_WGSL_FIRST] =
            "  add_logits(m, first, lid);\n"
            "  if (lid == 0u) {\n"
            "    let s = bitcast<vec2<u32>>(sums[0]);\n"
            "    Sums[m * groups.x + group.x] = vec4<u32>(s.x, s.y, atomicLoad(&marks), 0u);\n"
            "  }\n",
        [QSF_WGSL_MERGE] = "",
        [QSF_WGSL_LAST] = "  add_groups(m, lid);\n  record(m, lid);\n",
    };
    const bool bare = QSF_WGSL_BARE(c->bare), last = c->stage == QSF_WGSL_LAST;
    wgsl_put_bindings(t, c);
    qsf_wgsl_put_order(t);
    if (c->stage == QSF_WGSL_FIRST) wgsl_put_value(t);
    wgsl_put_search(t, c);
    if (!bare && c->stage != QSF_WGSL_MERGE) wgsl_put_sums(t);
    if (!bare && c->stage == QSF_WGSL_FIRST) wgsl_put_sums_of_logits(t);
    if (!bare && last) wgsl_put_sums_of_groups(t), wgsl_put_record(t, c->choose);
    if (c->choose) wgsl_put_penalties(t), wgsl_put_choice(t, bare);
    QSF_WGSL_PUT(t,
        "@compute @workgroup_size(256)\n"
        "fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,\n"
        "        @builtin(local_invocation_index) lid: u32) {\n"
        "  let m = group.y;\n"
        "  let first = group.x * 256u * EACH;\n"
        "  search(m, first, lid);\n"
        "${pairs}${end}${choose}"
        "}\n", { "pairs", 0, last ? "" : "  let place = m * groups.x + group.x;\n"
                                        "  if (lid < KEEP) { Pairs[place * KEEP + lid] = best[lid]; }\n" },
        { "end", 0, bare ? "" : ends[c->stage] },
        { "choose", 0, c->choose ? "  penalize(m, lid);\n  choose(m, lid);\n" : "" });
}
