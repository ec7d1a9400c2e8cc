/* Attention over chunks of the cached positions.
 * SPDX-License-Identifier: MIT
 *
 * A workgroup has query heads of one row that share a key-value head, and one chunk, whose blocks
 * it takes one after the other.  A word of keys or values is read once for all of these heads: 256
 * invocations are 32 positions by eight shares of the columns, and their parts of scores meet in
 * the workgroup's memory; then a head and a position each, for exponentials; then words of values
 * by groups of positions.  Chunks are independent; rows_wgsl.c joins them (the online softmax of
 * Milakov and Gimelshein 2018, arXiv:1805.02867). */
#include "chunks_wgsl.h"

enum { SCORE_PARTS = 8 };       /* of a score */

/* Words of values that belong together, and by how many groups of invocations they are read. */
typedef struct chunk_values {
    uint32_t width;     /* fp16: words of a position; codes: columns, whose words have four positions */
    uint32_t each;      /* that an invocation has */
    uint32_t groups;    /* of 32 / groups positions; a power of two */
} chunk_values;

static chunk_values chunk_values_of(const qsf_wgsl_attend *a)
{
    chunk_values v = { .width = a->codes ? a->room : a->room / 2, .each = 1, .groups = 8 };
    v.each = (v.width + QSF_WGSL_THREADS - 1) / QSF_WGSL_THREADS;
    while (v.groups > 1 && v.groups * v.width > QSF_WGSL_THREADS) v.groups /= 2;
    return v;
}

/* ---- scores ---- */

/* Parts of the scores of all heads to the workgroup's memory.  Words of keys are eight apart, so
 * that invocations that follow each other read words that follow each other. */
static void chunk_score_parts(qsf_wgsl_text *t, const qsf_wgsl_attend *a)
{
    const uint32_t words = a->room / (a->codes ? 4 : 2), each = (words + SCORE_PARTS - 1) / SCORE_PARTS;
    for (uint32_t k = 0; k < each; k++) {
        const qsf_wgsl_value values[] = {
            { "k", k, NULL }, { "at", SCORE_PARTS * k, NULL }, { "words", words, NULL },
            { "type", 0, a->codes ? "u32" : "vec2<f32>" },
        };
        if (SCORE_PARTS * (k + 1) <= words) qsf_wgsl_put_values(t, "    let k${k} = ", values, 4);
        else
            qsf_wgsl_put_values(t, "    let k${k} = select(${type}(), ", values, 4);
        qsf_wgsl_put_values(t, a->codes
            ? "KV[record + (i / 16u * ${words}u + part_of + ${at}u) * 16u + i % 16u]"
            : "pair_of(record + i * FLOATS, part_of + ${at}u)", values, 4);
        if (SCORE_PARTS * (k + 1) <= words) qsf_wgsl_put(t, ";\n");
        else qsf_wgsl_put_values(t, ", part_of + ${at}u < ${words}u);\n", values, 4);
    }
    for (uint32_t h = 0; h < a->share; h++) {
        QSF_WGSL_PUT(t, a->codes ? "    part[${at}u + 9u * i + part_of] = f32(0i"
                     : "    part[${at}u + 9u * i + part_of] = (0.0", { "at", 9 * 32 * h, NULL });
        for (uint32_t k = 0; k < each; k++)
            QSF_WGSL_PUT(t, a->codes ? "\n      + dot4I8Packed(q[${q}u + part_of], k${k})"
                         : "\n      + dot(q[${q}u + part_of], k${k})", { "k", k, NULL },
                         { "q", h * qsf_wgsl_query_room(a) + SCORE_PARTS * k, NULL });
        qsf_wgsl_put(t, ");\n");
    }
}

/* score, of the invocation's head and position; then share, its exponential. */
static void chunk_exponentials(qsf_wgsl_text *t, const qsf_wgsl_attend *a)
{
    qsf_wgsl_put(t,
        "    workgroupBarrier();\n"
        "    var score = NONE;\n"
        "    if (owns && seen(at + lane, row.x)) {\n"
        "      score = 0.0;\n"
        "      for (var k = 0u; k < 8u; k++) { score += part[9u * lid + k]; }\n");
    qsf_wgsl_put(t, a->codes
        ? "      score *= bitcast<f32>(KV[record + p.key_scales_at + lane]) * query_scale * p.scale;\n"
        : "      score *= p.scale;\n");
    if (a->alibi)
        qsf_wgsl_put(t, "      score -= slope(head + head_of) * abs(f32(at + lane) - f32(row.x));\n");
    if (a->softcap) qsf_wgsl_put(t, "      score = p.cap * tanh(clamp(score / p.cap, -15.0, 15.0));\n");
    qsf_wgsl_put(t,
        "    }\n"
        "    if (owns) { s[lid / 4u][lid % 4u] = score; }\n"
        "    workgroupBarrier();\n"
        "    if (owns) {\n"
        "      var four = vec4<f32>(top);\n"
        "      for (var k = 0u; k < 8u; k++) { four = max(four, s[head_of * 8u + k]); }\n"
        "      let most = max(max(four.x, four.y), max(four.z, four.w));\n"
        "      let share = select(0.0, exp(score - most), score > NONE);\n"
        "      if (lane == 0u) { shrinks[head_of] = exp(top - most); }\n"
        "      total = total * exp(top - most) + share;\n"
        "      top = most;\n");
    qsf_wgsl_put(t, a->codes
        ? "      let scale = bitcast<f32>(KV[record + p.value_scales_at + lane]);\n"
          "      e[lid / 4u][lid % 4u] = select(0.0, share * scale, share > 0.0);\n"
        : "      e[lid / 4u][lid % 4u] = share;\n");
    qsf_wgsl_put(t, "    }\n    workgroupBarrier();\n");
}

/* ---- values ---- */

/* The invocation's words of the block, v{column}_{place}; positions after the row's may hold
 * anything. */
static void chunk_values_load(qsf_wgsl_text *t, const qsf_wgsl_attend *a)
{
    const chunk_values v = chunk_values_of(a);
    const uint32_t n = (a->codes ? 8 : 32) / v.groups;
    for (uint32_t c = 0; c < v.each; c++)
        for (uint32_t i = 0; i < n; i++) {
            const qsf_wgsl_value values[] = {
                { "c", c, NULL }, { "i", i, NULL }, { "n", n, NULL }, { "width", v.width, NULL },
                { "at", QSF_WGSL_THREADS * c, NULL },
            };
            qsf_wgsl_put_values(t, a->codes
                ? "    let v${c}_${i} = vec4<f32>(unpack4xI8(KV[values + ((column + ${at}u) / 16u * 8u"
                  " + group_of * ${n}u + ${i}u) * 16u + column % 16u]));\n"
                : "    let v${c}_${i} = select(vec2<f32>(),"
                  " pair_of(values + (group_of * ${n}u + ${i}u) * FLOATS, column + ${at}u),"
                  " written(at + group_of * ${n}u + ${i}u, row.x));\n", values, 5);
        }
}

static void chunk_values_add(qsf_wgsl_text *t, const qsf_wgsl_attend *a)
{
    const chunk_values v = chunk_values_of(a);
    const uint32_t quads = 8 / v.groups;
    for (uint32_t h = 0; h < a->share; h++) {
        qsf_wgsl_put(t, "    {\n");
        for (uint32_t c = 0; c < v.each; c++)
            QSF_WGSL_PUT(t, "      y${h}_${c} *= shrinks[${h}];\n", { "h", h, NULL }, { "c", c, NULL });
        for (uint32_t i = 0; i < quads; i++) {
            QSF_WGSL_PUT(t, "      let e${i} = e[${at}u + group_of * ${quads}u + ${i}u];\n", { "i", i, NULL },
                         { "at", 8 * h, NULL }, { "quads", quads, NULL });
            for (uint32_t c = 0; c < v.each; c++) {
                const qsf_wgsl_value values[] = { { "h", h, NULL }, { "c", c, NULL }, { "i", i, NULL },
                    { "a", 4 * i, NULL }, { "b", 4 * i + 1, NULL }, { "d", 4 * i + 2, NULL },
                    { "f", 4 * i + 3, NULL } };
                qsf_wgsl_put_values(t, a->codes
                    ? "      y${h}_${c} += dot(e${i}, v${c}_${i});\n"
                    : "      y${h}_${c} += (e${i}.x * v${c}_${a} + e${i}.y * v${c}_${b})"
                      " + (e${i}.z * v${c}_${d} + e${i}.w * v${c}_${f});\n", values, 7);
            }
        }
        qsf_wgsl_put(t, "    }\n");
    }
}

/* Sums of the groups of positions meet; those of the first are the chunk's. */
static void chunk_values_join(qsf_wgsl_text *t, const qsf_wgsl_attend *a)
{
    const chunk_values v = chunk_values_of(a);
    const uint32_t words = a->codes ? 1 : 2;
    for (uint32_t half = v.groups / 2; half; half /= 2) {
        QSF_WGSL_PUT(t, "  if (by >= ${half}u && by < ${two}u) {\n", { "half", half, NULL },
                     { "two", 2 * half, NULL });
        for (uint32_t h = 0; h < a->share; h++)
            for (uint32_t k = 0; k < words; k++)
                QSF_WGSL_PUT(t, "    part[(${at}u + by - ${half}u) * ${width}u + column] = y${h}_0${k};\n",
                             { "at", (h * words + k) * half, NULL }, { "width", v.width, NULL },
                             { "half", half, NULL }, { "h", h, NULL },
                             { "k", 0, a->codes ? "" : k ? ".y" : ".x" });
        QSF_WGSL_PUT(t, "  }\n  workgroupBarrier();\n  if (by < ${half}u) {\n", { "half", half, NULL });
        for (uint32_t h = 0; h < a->share; h++)
            for (uint32_t k = 0; k < words; k++)
                QSF_WGSL_PUT(t, "    y${h}_0${k} += part[(${at}u + by) * ${width}u + column];\n",
                             { "at", (h * words + k) * half, NULL }, { "width", v.width, NULL },
                             { "h", h, NULL }, { "k", 0, a->codes ? "" : k ? ".y" : ".x" });
        qsf_wgsl_put(t, "  }\n  workgroupBarrier();\n");
    }
}

static void chunk_store(qsf_wgsl_text *t, const qsf_wgsl_attend *a)
{
    const chunk_values v = chunk_values_of(a);
    chunk_values_join(t, a);
    qsf_wgsl_put(t, "  if (by == 0u) {\n");
    for (uint32_t h = 0; h < a->share; h++)
        for (uint32_t c = 0; c < v.each; c++) {
            const qsf_wgsl_value values[] = { { "h", h, NULL }, { "c", c, NULL },
                                              { "at", QSF_WGSL_THREADS * c, NULL } };
            qsf_wgsl_put_values(t, a->codes
                ? "    if (${h}u < count && column + ${at}u < ROOM) {\n"
                  "      A[(base + ${h}u * groups.x) * ROOM + column + ${at}u] = y${h}_${c};\n"
                  "    }\n"
                : "    if (${h}u < count) {\n"
                  "      A[(base + ${h}u * groups.x) * ROOM + 2u * (column + ${at}u)] = y${h}_${c}.x;\n"
                  "      A[(base + ${h}u * groups.x) * ROOM + 2u * (column + ${at}u) + 1u] = y${h}_${c}.y;\n"
                  "    }\n", values, 3);
        }
    qsf_wgsl_put(t, "  }\n");
}

/* ---- the shader ---- */

static void chunk_head(qsf_wgsl_text *t, const qsf_wgsl_attend *a)
{
    qsf_wgsl_attend_head(t, a);
    qsf_wgsl_bind(t, QSF_WGSL_READ, "Queries", a->codes ? "array<u32>" : "array<vec2<f32>>");
    qsf_wgsl_bind(t, QSF_WGSL_READ, "KV", "array<u32>");
    qsf_wgsl_bind(t, QSF_WGSL_READ, "Rows", "array<vec4<u32>>");
    qsf_wgsl_bind(t, QSF_WGSL_READ, "Table", "array<vec2<u32>>");
    qsf_wgsl_bind(t, QSF_WGSL_WRITE, "A", "array<f32>");
    qsf_wgsl_bind(t, QSF_WGSL_WRITE, "B", "array<vec2<f32>>");
    QSF_WGSL_PUT(t,
        "const SHARE = ${share}u;               // query heads of a workgroup\n"
        "var<workgroup> q: array<${type}, ${queries}>;\n"
        "var<workgroup> part: array<f32, ${parts}>;      // [head][position], eight parts in nine places\n"
        "var<workgroup> s: array<vec4<f32>, 8u * SHARE>;\n"
        "var<workgroup> e: array<vec4<f32>, 8u * SHARE>;\n"
        "var<workgroup> shrinks: array<f32, SHARE>;\n",
        { "share", a->share, NULL }, { "type", 0, a->codes ? "u32" : "vec2<f32>" },
        { "queries", a->share * qsf_wgsl_query_room(a), NULL }, { "parts", 9 * 32 * a->share, NULL });
    if (!a->codes)              /* columns 2 w and 2 w + 1 of the key or value at a word */
        QSF_WGSL_PUT(t, "fn pair_of(at: u32, w: u32) -> vec2<f32> { return ${pair}; }\n", { "pair", 0, a->wide
            ? "vec2<f32>(bitcast<f32>(KV[at + 2u * w]), bitcast<f32>(KV[at + 2u * w + 1u]))"
            : "unpack2x16float(KV[at + w])" });
    qsf_wgsl_attend_seen(t, a);
}

/* Where the invocation is, and the queries. */
static void chunk_begin(qsf_wgsl_text *t, const qsf_wgsl_attend *a)
{
    const chunk_values v = chunk_values_of(a);
    qsf_wgsl_put(t,
        "@compute @workgroup_size(256)\n"
        "fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,\n"
        "        @builtin(local_invocation_index) lid: u32) {\n"
        "  let m = group.y;\n"
        "  let row = Rows[m];\n");
    if (a->both) qsf_wgsl_put(t, "  length = Table[row.y + row.z].x;\n");
    qsf_wgsl_put(t,
        "  let rep = p.heads / p.kv_heads;\n"
        "  let parts = (rep + SHARE - 1u) / SHARE;\n"
        "  let kv = group.z / parts;\n"
        "  let head = kv * rep + group.z % parts * SHARE;\n"
        "  let count = min(SHARE, (kv + 1u) * rep - head);\n"
        "  let lane = lid % 32u;                // of exponentials: a position, and a head\n"
        "  let head_of = lid / 32u;\n"
        "  let owns = head_of < SHARE;\n");
    QSF_WGSL_PUT(t, a->codes
        ? "  let i = lid % 32u;                   // of scores: a position, and a part of the columns\n"
          "  let part_of = lid / 32u;\n"
          "  for (var k = lid; k < SHARE * ${words}u; k += 256u) {\n"
          "    let query = m * p.heads + head + min(k / ${words}u, count - 1u);\n"
          "    q[k] = Queries[query * QUERY + 1u + k % ${words}u];\n"
          "  }\n"
          "  let own_query = m * p.heads + head + min(head_of, count - 1u);\n"
          "  let query_scale = bitcast<f32>(Queries[own_query * QUERY]);\n"
        : "  let i = lid / 8u;                    // of scores: a position, and a part of the columns\n"
          "  let part_of = lid % 8u;\n"
          "  for (var k = lid; k < SHARE * ${words}u; k += 256u) {\n"
          "    let query = m * p.heads + head + min(k / ${words}u, count - 1u);\n"
          "    q[k] = Queries[query * ${words}u + k % ${words}u];\n"
          "  }\n", { "words", a->room / (a->codes ? 4 : 2), NULL });
    QSF_WGSL_PUT(t,
        "  let column = lid % ${width}u;        // of values: a word, and a group of positions\n"
        "  let by = min(lid / ${width}u, ${groups}u);   // the last: none\n"
        "  let group_of = min(by, ${groups}u - 1u);\n"
        "  var top = NONE;\n"
        "  var total = 0.0;\n", { "width", v.each > 1 ? QSF_WGSL_THREADS : v.width, NULL },
        { "groups", v.groups, NULL });
    for (uint32_t h = 0; h < a->share; h++)
        for (uint32_t c = 0; c < v.each; c++)
            QSF_WGSL_PUT(t, "  var y${h}_${c} = ${type}();\n", { "h", h, NULL }, { "c", c, NULL },
                         { "type", 0, a->codes ? "f32" : "vec2<f32>" });
}

void qsf_wgsl_chunks(qsf_wgsl_text *t, const qsf_wgsl_attend *a)
{
    assert(a->share && a->share <= qsf_wgsl_most_share(a));
    chunk_head(t, a);
    chunk_begin(t, a);
    qsf_wgsl_put(t,
        "  workgroupBarrier();\n"
        "  let end = row.y + min((group.x + 1u) * p.blocks, row.z);\n"
        "  for (var b = row.y + group.x * p.blocks; b < end; b++) {\n"
        "    let at = 32u * Table[b].y;\n"
        "    if (!needed(at, row.x, row.x)) { continue; }\n"
        "    let record = record_of(b, kv);\n"
        "    let values = record + p.value_at;\n");
    chunk_values_load(t, a);
    chunk_score_parts(t, a);
    chunk_exponentials(t, a);
    chunk_values_add(t, a);
    qsf_wgsl_put(t,
        "  }\n"
        /* rows of A and B */
        "  let base = (m * p.heads + head) * groups.x + group.x;\n"
        "  workgroupBarrier();\n"
        "  if (owns) { s[lid / 4u][lid % 4u] = total; }\n"
        "  workgroupBarrier();\n"
        "  if (owns && lane == 0u && head_of < count) {\n"
        "    var all = vec4<f32>();\n"
        "    for (var k = 0u; k < 8u; k++) { all += s[head_of * 8u + k]; }\n"
        "    B[base + head_of * groups.x] = vec2<f32>(top, all.x + all.y + all.z + all.w);\n"
        "  }\n");
    chunk_store(t, a);
    qsf_wgsl_put(t, "}\n");
}
