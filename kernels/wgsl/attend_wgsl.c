/* What both shaders of attention share.
 * SPDX-License-Identifier: MIT */
#include "attend_wgsl.h"

void qsf_wgsl_attend_head(qsf_wgsl_text *t, const qsf_wgsl_attend *a)
{
    assert(qsf_wgsl_has_room(a));
    qsf_wgsl_put(t,
        "struct Numbers {\n"
        "  n: u32, heads: u32, kv_heads: u32, head_dim: u32,\n"
        "  q_ld: u32, q_at: u32, k_ld: u32, k_at: u32, v_ld: u32, v_at: u32,\n"
        "  record: u32, value_at: u32, key_scales_at: u32, value_scales_at: u32, half: u32, mix: u32,\n"
        "  norm_ld: u32, eps: f32, scale: f32, cap: f32, window: u32, sinks: u32, far: u32, block: u32,\n"
        "  q_step: u32, slope: f32, even: u32, temp: f32, every: u32, blocks: u32,\n"
        "}\n");
    QSF_WGSL_PUT(t,
        "const ROOM = ${room}u;\n"
        "const QUERY = ${query}u;               // words of a query\n"
        "const FLOATS = ${floats}u;             // words of a key or a value as floats\n",
        { "room", a->room, NULL }, { "query", qsf_wgsl_query_words(a), NULL },
        { "floats", a->wide ? a->room : a->room / 2, NULL });
    qsf_wgsl_bind(t, QSF_WGSL_UNIFORM, "p", "Numbers");
}

/* fn seen, fn needed, fn written: attend_wgsl.h. */
static const char attend_before[] =
    "fn seen(at: u32, pos: u32) -> bool {\n"
    "  if (at > pos) { return false; }\n"
    "  if (at < p.sinks) { return p.far == 0u || at + p.far > pos; }\n"
    "  return p.window == 0u || at + p.window > pos;\n"
    "}\n"
    "fn needed(at: u32, low: u32, last: u32) -> bool {\n"
    "  if (at > last) { return false; }\n"
    "  if (at < p.sinks) {\n"
    "    return p.far == 0u || p.window == 0u || at + 31u + max(p.far, p.window) > low;\n"
    "  }\n"
    "  return p.window == 0u || at + 31u + p.window > low;\n"
    "}\n"
    "fn written(at: u32, last: u32) -> bool { return at <= last; }\n";
static const char attend_both[] =       /* length: of the sequence */
    "var<private> length: u32;\n"
    "fn seen(at: u32, pos: u32) -> bool {\n"
    "  let far = max(at, pos) - min(at, pos);\n"
    "  return at < length && (p.window == 0u || far <= p.window / 2u);\n"
    "}\n"
    "fn needed(at: u32, low: u32, last: u32) -> bool {\n"
    "  if (p.window == 0u) { return true; }\n"
    "  return at + 31u + p.window / 2u >= low && at <= last + p.window / 2u;\n"
    "}\n"
    "fn written(at: u32, last: u32) -> bool { return at < length; }\n";

void qsf_wgsl_attend_seen(qsf_wgsl_text *t, const qsf_wgsl_attend *a)
{
    qsf_wgsl_put(t,
        "const NONE = -1e30;                    // the score of a position that is not seen\n"
        "fn record_of(entry: u32, kv: u32) -> u32 { return (Table[entry].x * p.block + kv) * p.record; }\n");
    qsf_wgsl_put(t, a->both ? attend_both : attend_before);
    if (a->alibi)
        qsf_wgsl_put(t,
            "fn slope(head: u32) -> f32 {\n"
            "  if (head < p.even) { return exp2(p.slope * f32(head + 1u)); }\n"
            "  return exp2(0.5 * p.slope * f32(2u * (head - p.even) + 1u));\n"
            "}\n");
}
