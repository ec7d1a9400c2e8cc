/* What both shaders of attention share.
 * SPDX-License-Identifier: MIT */
#include "attend_wgsl.h"

void qsf_wgsl_attend_head(qsf_wgsl_text *t, const qsf_wgsl_attend *a)
{
    assert(a->room <= QSF_WGSL_HEAD_DIM && a->room % (a->codes ? 16 : 2) == 0);
    qsf_wgsl_put(t,
        "struct Numbers {\n"
        "  n: u32, heads: u32, kv_heads: u32, head_dim: u32,\n"
        "  q_ld: u32, q_at: u32, k_ld: u32, k_at: u32, v_ld: u32, v_at: u32,\n"
        "  record: u32, value_at: u32, key_scales_at: u32, value_scales_at: u32, half: u32, mix: u32,\n"
        "  norm_ld: u32, eps: f32, scale: f32, cap: f32, window: u32, sinks: u32, far: u32, blocks: u32,\n"
        "}\n");
    QSF_WGSL_PUT(t,
        "const ROOM = ${room}u;\n"
        "const QUERY = ${query}u;               // words of a query\n",
        { "room", a->room, NULL }, { "query", qsf_wgsl_query_words(a), NULL });
    qsf_wgsl_bind(t, QSF_WGSL_UNIFORM, "p", "Numbers");
}

void qsf_wgsl_attend_seen(qsf_wgsl_text *t)
{
    qsf_wgsl_put(t,
        "const NONE = -1e30;                    // the score of a position that is not seen\n"
        "fn record_of(entry: u32, kv: u32) -> u32 { return (Table[entry].x * p.kv_heads + kv) * p.record; }\n"
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
        "}\n");
}
