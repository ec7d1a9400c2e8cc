/* Attention over chunks of the cached positions.
 * SPDX-License-Identifier: MIT
 *
 * A workgroup has the query heads of one row that share a key-value head, and one chunk.  Scores go
 * to its memory, become exponentials of their difference to the chunk's largest, and weigh the
 * values.  Chunks are independent; rows_wgsl.c joins them (the online softmax of Milakov and
 * Gimelshein 2018, arXiv:1805.02867). */
#include "chunks_wgsl.h"

/* fn score(h, record, i) -> f32: of query h and the record's position i. */
static void wgsl_score(qsf_wgsl_text *t, const qsf_wgsl_attend *a)
{
    if (a->codes)
        qsf_wgsl_put(t,
            "fn score(h: u32, record: u32, i: u32) -> f32 {\n"
            "  let k = record + i / 16u * (ROOM / 4u) * 16u + i % 16u;\n"
            "  var sum = 0i;\n"
            "  for (var w = 0u; w < ROOM / 4u; w++) {\n"
            "    sum += dot4I8Packed(q[h * QUERY + 1u + w], KV[k + 16u * w]);\n"
            "  }\n"
            "  let scales = bitcast<f32>(KV[record + p.key_scales_at + i]) * bitcast<f32>(q[h * QUERY]);\n"
            "  return f32(sum) * (scales * p.scale);\n"
            "}\n");
    else
        qsf_wgsl_put(t,
            "fn score(h: u32, record: u32, i: u32) -> f32 {\n"
            "  let k = record + i * FLOATS;\n"
            "  var sum = 0.0;\n"
            "  for (var w = 0u; w < ROOM / 2u; w++) {\n"
            "    let pair = pair_of(k, w);\n"
            "    sum += pair.x * bitcast<f32>(q[h * QUERY + 2u * w])\n"
            "      + pair.y * bitcast<f32>(q[h * QUERY + 2u * w + 1u]);\n"
            "  }\n"
            "  return sum * p.scale;\n"
            "}\n");
}

/* Sums of values: fp16 two columns of a head at a time, codes one, whose words have four
 * positions. */
static void wgsl_values(qsf_wgsl_text *t, const qsf_wgsl_attend *a)
{
    if (a->codes)
        qsf_wgsl_put(t,
            "  for (var o = lid; o < count * ROOM; o += 256u) {\n"
            "    let h = o / ROOM;\n"
            "    let c = o % ROOM;\n"
            "    var sum = 0.0;\n"
            "    for (var e = 0u; e < blocks; e++) {\n"
            "      let record = record_of(first + e, kv);\n"
            "      for (var w = 0u; w < 8u; w++) {\n"
            "        let at = h * SCORES + 32u * e + 4u * w;\n"
            "        let e4 = vec4<f32>(s[at], s[at + 1u], s[at + 2u], s[at + 3u]);\n"
            "        let d = record + p.value_scales_at + 4u * w;\n"
            "        let scales = vec4<f32>(bitcast<f32>(KV[d]), bitcast<f32>(KV[d + 1u]),\n"
            "                               bitcast<f32>(KV[d + 2u]), bitcast<f32>(KV[d + 3u]));\n"
            "        let codes = unpack4xI8(KV[record + p.value_at + (c / 16u * 8u + w) * 16u + c % 16u]);\n"
            "        sum += dot(select(vec4<f32>(), e4 * scales, e4 > vec4<f32>()), vec4<f32>(codes));\n"
            "      }\n"
            "    }\n"
            "    A[(base + h * groups.x) * ROOM + c] = sum;\n"
            "  }\n");
    else
        qsf_wgsl_put(t,
            "  for (var o = lid; o < count * (ROOM / 2u); o += 256u) {\n"
            "    let h = o / (ROOM / 2u);\n"
            "    let w = o % (ROOM / 2u);\n"
            "    var sum = vec2<f32>();\n"
            "    for (var e = 0u; e < blocks; e++) {\n"
            "      let values = record_of(first + e, kv) + p.value_at;\n"
            "      for (var i = 0u; i < 32u; i++) {\n"
            "        let e1 = s[h * SCORES + 32u * e + i];\n"
            /* places that are not seen may hold anything */
            "        if (e1 > 0.0) { sum += e1 * pair_of(values + i * FLOATS, w); }\n"
            "      }\n"
            "    }\n"
            "    A[(base + h * groups.x) * ROOM + 2u * w] = sum.x;\n"
            "    A[(base + h * groups.x) * ROOM + 2u * w + 1u] = sum.y;\n"
            "  }\n");
}

/* fn seen(at, pos): whether the row at pos sees a position; fn slope(head): ALiBi's. */
static void wgsl_seen(qsf_wgsl_text *t, const qsf_wgsl_attend *a)
{
    if (a->both)                /* length: of the row's sequence */
        qsf_wgsl_put(t,
            "var<private> length: u32;\n"
            "fn seen(at: u32, pos: u32) -> bool {\n"
            "  let far = max(at, pos) - min(at, pos);\n"
            "  return at < length && (p.window == 0u || far <= p.window / 2u);\n"
            "}\n");
    else
        qsf_wgsl_put(t,
            "fn seen(at: u32, pos: u32) -> bool {\n"
            "  if (at > pos) { return false; }\n"
            "  if (at < p.sinks) { return p.far == 0u || at + p.far > pos; }\n"
            "  return p.window == 0u || at + p.window > pos;\n"
            "}\n");
    if (a->alibi)
        qsf_wgsl_put(t,
            "fn slope(head: u32) -> f32 {\n"
            "  if (head < p.even) { return exp2(p.slope * f32(head + 1u)); }\n"
            "  return exp2(0.5 * p.slope * f32(2u * (head - p.even) + 1u));\n"
            "}\n");
}

static void wgsl_chunk_head(qsf_wgsl_text *t, const qsf_wgsl_attend *a)
{
    qsf_wgsl_attend_head(t, a);
    qsf_wgsl_bind(t, QSF_WGSL_READ, "Queries", "array<u32>");
    qsf_wgsl_bind(t, QSF_WGSL_READ, "KV", "array<u32>");
    qsf_wgsl_bind(t, QSF_WGSL_READ, "Rows", "array<vec4<u32>>");
    qsf_wgsl_bind(t, QSF_WGSL_READ, "Table", "array<vec2<u32>>");
    qsf_wgsl_bind(t, QSF_WGSL_WRITE, "A", "array<f32>");
    qsf_wgsl_bind(t, QSF_WGSL_WRITE, "B", "array<vec2<f32>>");
    QSF_WGSL_PUT(t,
        "const BLOCKS = ${blocks}u;             // of a chunk\n"
        "const SCORES = 32u * BLOCKS;\n"
        "const SHARE = ${share}u;               // query heads of a workgroup\n"
        "const NONE = -1e30;                    // the score of a position that is not seen\n"
        "var<workgroup> q: array<u32, ${queries}>;\n"
        "var<workgroup> s: array<f32, ${scores}>;\n"
        "var<workgroup> top: array<f32, SHARE>;\n"
        "fn record_of(entry: u32, kv: u32) -> u32 { return (Table[entry].x * p.block + kv) * p.record; }\n",
        { "blocks", a->blocks, NULL }, { "share", a->share, NULL },
        { "queries", a->share * qsf_wgsl_query_words(a), NULL },
        { "scores", a->share * 32 * a->blocks, NULL });
    if (!a->codes)              /* columns 2 w and 2 w + 1 of the key or value at a word */
        QSF_WGSL_PUT(t, "fn pair_of(at: u32, w: u32) -> vec2<f32> { return ${pair}; }\n", { "pair", 0, a->wide
            ? "vec2<f32>(bitcast<f32>(KV[at + 2u * w]), bitcast<f32>(KV[at + 2u * w + 1u]))"
            : "unpack2x16float(KV[at + w])" });
    wgsl_seen(t, a);
}

void qsf_wgsl_chunks(qsf_wgsl_text *t, const qsf_wgsl_attend *a)
{
    assert(a->share && a->blocks && a->share <= qsf_wgsl_most_share(a));
    wgsl_chunk_head(t, a);
    wgsl_score(t, a);
    QSF_WGSL_PUT(t,
        "@compute @workgroup_size(256)\n"
        "fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,\n"
        "        @builtin(local_invocation_index) lid: u32) {\n"
        "  let m = group.y;\n"
        "  let row = Rows[m];\n"
        "${length}"
        "  let rep = p.heads / p.kv_heads;\n"
        "  let parts = (rep + SHARE - 1u) / SHARE;\n"
        "  let kv = group.z / parts;\n"
        "  let head = kv * rep + group.z % parts * SHARE;\n"
        "  let count = min(SHARE, (kv + 1u) * rep - head);\n"
        "  let begin = min(group.x * BLOCKS, row.z);\n"
        "  let blocks = min(BLOCKS, row.z - begin);\n"
        "  let first = row.y + begin;\n"
        "  let queries = (m * p.heads + head) * QUERY;\n"
        "  for (var i = lid; i < count * QUERY; i += 256u) { q[i] = Queries[queries + i]; }\n"
        "  workgroupBarrier();\n"
        "  for (var i = lid; i < count * SCORES; i += 256u) {\n"
        "    let e = i % SCORES / 32u;\n"
        "    var v = NONE;\n"
        "    let at = Table[first + min(e, max(blocks, 1u) - 1u)].y * 32u + i % 32u;\n"
        "    if (e < blocks && seen(at, row.x)) {\n"
        "      v = score(i / SCORES, record_of(first + e, kv), i % 32u);\n"
        "${alibi}${softcap}"
        "    }\n"
        "    s[i] = v;\n"
        "  }\n"
        "  workgroupBarrier();\n"
        "  for (var h = lid; h < count; h += 256u) {\n"
        "    var most = NONE;\n"
        "    for (var i = 0u; i < SCORES; i++) { most = max(most, s[h * SCORES + i]); }\n"
        "    top[h] = most;\n"
        "  }\n"
        "  workgroupBarrier();\n"
        "  for (var i = lid; i < count * SCORES; i += 256u) {\n"
        "    s[i] = select(0.0, exp(s[i] - top[i / SCORES]), s[i] > NONE);\n"
        "  }\n"
        "  workgroupBarrier();\n"
        "  for (var h = lid; h < count; h += 256u) {\n"
        "    var sum = 0.0;\n"
        "    for (var i = 0u; i < SCORES; i++) { sum += s[h * SCORES + i]; }\n"
        "    B[(m * p.heads + head + h) * groups.x + group.x] = vec2<f32>(top[h], sum);\n"
        "  }\n"
        /* rows of A and B */
        "  let base = (m * p.heads + head) * groups.x + group.x;\n",
        { "length", 0, a->both ? "  length = Table[row.y + row.z].x;\n" : "" },
        { "alibi", 0, a->alibi ? "      v -= slope(head + i / SCORES) * abs(f32(at) - f32(row.x));\n" : "" },
        { "softcap", 0, a->softcap ? "      v = p.cap * tanh(clamp(v / p.cap, -15.0, 15.0));\n" : "" });
    wgsl_values(t, a);
    qsf_wgsl_put(t, "}\n");
}
