/* Attention of a prompt: many rows of a sequence read a block of its positions together.
 * SPDX-License-Identifier: MIT
 *
 * A workgroup has one query head of 32 rows and goes over the blocks that one of them sees.  The
 * keys of a block go to its memory, then its values.  32 invocations share four rows: first each
 * has the scores of one position, then each has columns of the sums.  Largest score, sum of
 * exponentials and sums of values are kept for the blocks so far (the online softmax of Milakov and
 * Gimelshein 2018, arXiv:1805.02867), so that nothing but the results is written. */
#include "prompt_wgsl.h"

/* Keys of more words than this are brought to the workgroup's memory in several parts. */
enum { PART_WORDS = 64 };

/* Where a part begins in a position's words of keys, and how many it has. */
typedef struct prompt_part { uint32_t begin, words; } prompt_part;

static uint32_t prompt_words(const qsf_wgsl_attend *a) { return a->room / (a->codes ? 4 : 2); }

static uint32_t prompt_parts(const qsf_wgsl_attend *a)
{
    return (prompt_words(a) + PART_WORDS - 1) / PART_WORDS;
}

static prompt_part prompt_part_of(const qsf_wgsl_attend *a, uint32_t i)
{
    const uint32_t all = prompt_words(a), step = a->codes ? 4 : 2,
        each = (uint32_t)qsf_round_up((all + prompt_parts(a) - 1) / prompt_parts(a), step);
    return (prompt_part){ i * each, QSF_MIN(each, all - i * each) };
}

/* Columns of a part that an invocation adds up: fp16: words, which have two. */
static uint32_t prompt_columns(const qsf_wgsl_attend *a, prompt_part part)
{
    return ((a->codes ? 4 : 1) * part.words + 31) / 32;
}

/* ---- scores ---- */

/* The part's keys to memory: fp16 with a word more for each position, so that 32 of them lie in 32
 * banks; codes with the 32 positions side by side. */
static void prompt_keys(qsf_wgsl_text *t, const qsf_wgsl_attend *a, prompt_part part)
{
    const qsf_wgsl_value values[] = { { "begin", part.begin, NULL }, { "words", part.words, NULL } };
    qsf_wgsl_put_values(t, a->codes
        ? "    for (var e = lid; e < 32u * ${words}u; e += 256u) {\n"
          "      let i = e % 32u;\n"
          "      kv[e] = KV[record + (i / 16u * (ROOM / 4u) + ${begin}u + e / 32u) * 16u + i % 16u];\n"
          "    }\n"
          "    workgroupBarrier();\n"
        : "    for (var e = lid; e < 32u * ${words}u; e += 256u) {\n"
          "      let i = e / ${words}u;\n"
          "      let w = e % ${words}u;\n"
          "      kv[i * (${words}u + 1u) + w] = KV[record + i * (ROOM / 2u) + ${begin}u + w];\n"
          "    }\n"
          "    workgroupBarrier();\n", values, 2);
    qsf_wgsl_put_values(t, a->codes
        ? "    for (var w = 0u; w < ${words}u; w++) {\n"
          "      let k = kv[32u * w + lane];\n"
          "      let c = q + vec4<u32>(1u + ${begin}u + w);\n"
          "      sums += vec4<i32>(dot4I8Packed(Queries[c.x], k), dot4I8Packed(Queries[c.y], k),\n"
          "                        dot4I8Packed(Queries[c.z], k), dot4I8Packed(Queries[c.w], k));\n"
          "    }\n"
        : "    for (var w = 0u; w < ${words}u; w += 2u) {\n"
          "      let at = lane * (${words}u + 1u) + w;\n"
          "      let k = vec4<f32>(unpack2x16float(kv[at]), unpack2x16float(kv[at + 1u]));\n"
          "      let c = q + vec4<u32>((${begin}u + w) / 2u);\n"
          "      score += vec4<f32>(dot(Queries[c.x], k), dot(Queries[c.y], k), dot(Queries[c.z], k),\n"
          "                         dot(Queries[c.w], k));\n"
          "    }\n", values, 2);
}

static void prompt_scores(qsf_wgsl_text *t, const qsf_wgsl_attend *a)
{
    qsf_wgsl_put(t, a->codes ? "    var sums = vec4<i32>();\n" : "    var score = vec4<f32>();\n");
    for (uint32_t i = 0; i < prompt_parts(a); i++) {
        if (i) qsf_wgsl_put(t, "    workgroupBarrier();\n");
        prompt_keys(t, a, prompt_part_of(a, i));
    }
    qsf_wgsl_put(t, a->codes
        ? "    let key_scale = bitcast<f32>(KV[record + p.key_scales_at + lane]);\n"
          "    var score = vec4<f32>(sums) * (key_scale * query_scales * p.scale);\n"
        : "    score *= p.scale;\n");
    if (a->alibi)
        qsf_wgsl_put(t, "    score -= slope(head) * abs(vec4<f32>(pos) - f32(at + lane));\n");
    if (a->softcap)
        qsf_wgsl_put(t,
            "    score = p.cap * tanh(clamp(score / p.cap, vec4<f32>(-15.0), vec4<f32>(15.0)));\n");
    qsf_wgsl_put(t,
        "    let is_seen = vec4<bool>(seen(at + lane, pos.x), seen(at + lane, pos.y),\n"
        "                             seen(at + lane, pos.z), seen(at + lane, pos.w));\n"
        "    score = select(vec4<f32>(NONE), score, is_seen);\n"
        "    s[lid] = score;\n"
        "    workgroupBarrier();\n");
}

/* ---- values ---- */

/* The part's values to memory.  Positions that no row sees yet may hold anything. */
static void prompt_values(qsf_wgsl_text *t, const qsf_wgsl_attend *a, prompt_part part)
{
    QSF_WGSL_PUT(t, a->codes
        ? "    for (var e = lid; e < 32u * ${words}u; e += 256u) {\n"
          "      kv[e] = KV[record + p.value_at + 32u * ${begin}u + e];\n"
          "    }\n"
        : "    for (var e = lid; e < 32u * ${words}u; e += 256u) {\n"
          "      let i = e / ${words}u;\n"
          "      let v = KV[record + p.value_at + i * (ROOM / 2u) + ${begin}u + e % ${words}u];\n"
          "      kv[e] = select(0u, v, written(at + i, last));\n"
          "    }\n", { "begin", part.begin, NULL }, { "words", part.words, NULL });
}

/* Adds the part's values to the sums y{first}, y{first + 1}, ... */
static void prompt_add(qsf_wgsl_text *t, const qsf_wgsl_attend *a, prompt_part part, uint32_t first)
{
    const uint32_t columns = prompt_columns(a, part);
    qsf_wgsl_put(t, a->codes ? "    for (var i = 0u; i < 8u; i++) {\n"
                      "      let e0 = s[first + 4u * i];\n"
                      "      let e1 = s[first + 4u * i + 1u];\n"
                      "      let e2 = s[first + 4u * i + 2u];\n"
                      "      let e3 = s[first + 4u * i + 3u];\n"
                 : "    for (var i = 0u; i < 32u; i++) {\n"
                   "      let e = s[first + i];\n");
    for (uint32_t k = 0; k < columns; k++) {
        const qsf_wgsl_value values[] = {
            { "k", k, NULL }, { "at", 32 * k, NULL }, { "words", part.words, NULL },
            { "most", (a->codes ? 4 : 1) * part.words - 1, NULL },
            { "y", a->codes ? first + k : first + 2 * k, NULL }, { "z", first + 2 * k + 1, NULL },
        };
        qsf_wgsl_put_values(t, a->codes
            ? "      let c${k} = min(lane + ${at}u, ${most}u);\n"
              "      let v${k} = vec4<f32>(unpack4xI8(kv[(c${k} / 16u * 8u + i) * 16u + c${k} % 16u]));\n"
              "      y${y} += e0 * v${k}.x + e1 * v${k}.y + e2 * v${k}.z + e3 * v${k}.w;\n"
            : "      let v${k} = unpack2x16float(kv[i * ${words}u + min(lane + ${at}u, ${most}u)]);\n"
              "      y${y} += e * v${k}.x;\n"
              "      y${z} += e * v${k}.y;\n", values, sizeof values / sizeof *values);
    }
    qsf_wgsl_put(t, "    }\n");
}

/* Sums of a part. */
static uint32_t prompt_sums(const qsf_wgsl_attend *a, prompt_part part)
{
    return (a->codes ? 1 : 2) * prompt_columns(a, part);
}

/* The exponentials of the block, and what they change; then the values. */
static void prompt_sums_add(qsf_wgsl_text *t, const qsf_wgsl_attend *a)
{
    uint32_t n = 0;
    prompt_values(t, a, prompt_part_of(a, 0));
    qsf_wgsl_put(t,
        "    if (lane < 8u) {\n"
        "      let four = first + 4u * lane;\n"
        "      tops[lid / 32u * 8u + lane] = max(max(s[four], s[four + 1u]),\n"
        "                                        max(s[four + 2u], s[four + 3u]));\n"
        "    }\n"
        "    workgroupBarrier();\n"
        "    var most = top;\n"
        "    for (var k = 0u; k < 8u; k++) { most = max(most, tops[lid / 32u * 8u + k]); }\n"
        "    let shrink = exp(top - most);\n"
        "    let share = select(vec4<f32>(), exp(score - most), is_seen);\n"
        "    top = most;\n"
        "    total = total * shrink + share;\n");
    for (uint32_t i = 0; i < prompt_parts(a); i++) n += prompt_sums(a, prompt_part_of(a, i));
    for (uint32_t k = 0; k < n; k++) QSF_WGSL_PUT(t, "    y${k} *= shrink;\n", { "k", k, NULL });
    qsf_wgsl_put(t, a->codes
        ? "    let value_scale = bitcast<f32>(KV[record + p.value_scales_at + lane]);\n"
          "    s[lid] = select(vec4<f32>(), share * value_scale, is_seen);\n"
        : "    s[lid] = share;\n");
    qsf_wgsl_put(t, "    workgroupBarrier();\n");
    n = 0;
    for (uint32_t i = 0; i < prompt_parts(a); i++) {
        const prompt_part part = prompt_part_of(a, i);
        if (i) {
            qsf_wgsl_put(t, "    workgroupBarrier();\n");
            prompt_values(t, a, part);
            qsf_wgsl_put(t, "    workgroupBarrier();\n");
        }
        prompt_add(t, a, part, n);
        n += prompt_sums(a, part);
    }
    qsf_wgsl_put(t, "    workgroupBarrier();\n");
}

/* ---- results ---- */

static void prompt_store(qsf_wgsl_text *t, const qsf_wgsl_attend *a)
{
    uint32_t n = 0;
    qsf_wgsl_put(t,
        "  s[lid] = total;\n"
        "  workgroupBarrier();\n"
        "  var all = vec4<f32>();\n"
        "  for (var k = 0u; k < 32u; k++) { all += s[first + k]; }\n");
    qsf_wgsl_put(t, a->head_sinks
        ? "  let most = max(top, vec4<f32>(sinks[head]));\n"
          "  let factor = exp(top - most) / (all * exp(top - most) + exp(vec4<f32>(sinks[head]) - most));\n"
        : "  let factor = 1.0 / all;\n");
    for (uint32_t i = 0; i < prompt_parts(a); i++) {
        const prompt_part part = prompt_part_of(a, i);
        for (uint32_t k = 0; k < prompt_columns(a, part); k++, n += a->codes ? 1 : 2) {
            const qsf_wgsl_value values[] = {
                { "c", a->codes ? 4 * part.begin + 32 * k : part.begin + 32 * k, NULL },
                { "end", (a->codes ? 4 : 1) * (part.begin + part.words), NULL },
                { "y", n, NULL }, { "z", n + 1, NULL },
            };
            qsf_wgsl_put_values(t, a->codes
                ? "  if (lane + ${c}u < ${end}u) { store(m, lane + ${c}u, count, y${y} * factor); }\n"
                : "  if (lane + ${c}u < ${end}u) {\n"
                  "    store(m, 2u * (lane + ${c}u), count, y${y} * factor);\n"
                  "    store(m, 2u * (lane + ${c}u) + 1u, count, y${z} * factor);\n"
                  "  }\n", values, 4);
        }
    }
}

static void prompt_head(qsf_wgsl_text *t, const qsf_wgsl_attend *a)
{
    qsf_wgsl_attend_head(t, a);
    qsf_wgsl_bind(t, QSF_WGSL_READ, "Queries", a->codes ? "array<u32>" : "array<vec4<f32>>");
    qsf_wgsl_bind(t, QSF_WGSL_READ, "KV", "array<u32>");
    qsf_wgsl_bind(t, QSF_WGSL_READ, "Rows", "array<vec4<u32>>");
    qsf_wgsl_bind(t, QSF_WGSL_READ, "Table", "array<vec2<u32>>");
    qsf_wgsl_bind(t, QSF_WGSL_READ, "Groups", "array<vec2<u32>>");
    qsf_wgsl_bind(t, QSF_WGSL_WRITE, "Y", "array<f32>");
    if (a->head_sinks) qsf_wgsl_bind(t, QSF_WGSL_READ, "sinks", "array<f32>");
    QSF_WGSL_PUT(t,
        "var<workgroup> kv: array<u32, ${words}>;        // keys or values of a block\n"
        "var<workgroup> s: array<vec4<f32>, 256>;        // [four rows][position]\n"
        "var<workgroup> tops: array<vec4<f32>, 64>;      // [four rows][four positions]\n"
        "var<private> column: u32;              // of Y, the head's first\n",
        { "words", 32 * (prompt_part_of(a, 0).words + 1), NULL });
    qsf_wgsl_attend_seen(t, a);
    qsf_wgsl_put(t,
        "fn store(m: u32, c: u32, count: u32, v: vec4<f32>) {\n"
        "  if (c >= p.head_dim) { return; }\n"
        "  let at = m * p.q_ld + column + c;\n"
        "  if (count > 0u) { Y[at] = v.x; }\n"
        "  if (count > 1u) { Y[at + p.q_ld] = v.y; }\n"
        "  if (count > 2u) { Y[at + 2u * p.q_ld] = v.z; }\n"
        "  if (count > 3u) { Y[at + 3u * p.q_ld] = v.w; }\n"
        "}\n");
}

void qsf_wgsl_prompt(qsf_wgsl_text *t, const qsf_wgsl_attend *a)
{
    assert(qsf_wgsl_has_prompt(a));
    prompt_head(t, a);
    QSF_WGSL_PUT(t,
        "@compute @workgroup_size(256)\n"
        "fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) lid: u32) {\n"
        "  let group = Groups[id.x];\n"
        "  let head = id.y;\n"
        "  let kv_head = head / (p.heads / p.kv_heads);\n"
        "  let lane = lid % 32u;\n"
        "  let first = lid - lane;              // of s, for the four rows\n"
        "  let m = group.x + lid / 32u * 4u;    // the first of them\n"
        "  let end = group.x + group.y;\n"
        "  let count = select(end - min(m, end), 4u, m + 4u <= end);\n"
        "  let rows = min(vec4<u32>(m, m + 1u, m + 2u, m + 3u), vec4<u32>(end - 1u));\n"
        "  let pos = vec4<u32>(Rows[rows.x].x, Rows[rows.y].x, Rows[rows.z].x, Rows[rows.w].x);\n"
        "  let q = (rows * p.heads + vec4<u32>(head)) * ${query};\n"
        "${scales}"
        "  let low = Rows[group.x].x;\n"
        "  let last = Rows[end - 1u].x;\n"
        "  let table = Rows[group.x].y;\n"
        "  let entries = Rows[group.x].z;\n"
        "${length}"
        "  column = p.q_at + head * p.head_dim;\n"
        "  var top = vec4<f32>(NONE);\n"
        "  var total = vec4<f32>();             // of this invocation's positions\n",
        { "query", 0, a->codes ? "QUERY" : "(QUERY / 4u)" },
        { "length", 0, a->both ? "  length = Table[table + entries].x;\n" : "" },
        { "scales", 0, a->codes ? "  let query_scales = bitcast<vec4<f32>>(vec4<u32>(Queries[q.x],\n"
              "    Queries[q.y], Queries[q.z], Queries[q.w]));\n" : "" });
    uint32_t n = 0;
    for (uint32_t i = 0; i < prompt_parts(a); i++) n += prompt_sums(a, prompt_part_of(a, i));
    for (uint32_t k = 0; k < n; k++) QSF_WGSL_PUT(t, "  var y${k} = vec4<f32>();\n", { "k", k, NULL });
    qsf_wgsl_put(t,
        "  for (var b = 0u; b < entries; b++) {\n"
        "    let at = 32u * Table[table + b].y;\n"
        "    if (!needed(at, low, last)) { continue; }\n"
        "    let record = record_of(table + b, kv_head);\n");
    prompt_scores(t, a);
    prompt_sums_add(t, a);
    qsf_wgsl_put(t, "  }\n");
    prompt_store(t, a);
    qsf_wgsl_put(t, "}\n");
}
