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
        "  q_step: u32, slope: f32, even: u32, temp: f32, every: u32, unused: u32,\n"
        "}\n");
    QSF_WGSL_PUT(t,
        "const ROOM = ${room}u;\n"
        "const QUERY = ${query}u;               // words of a query\n"
        "const FLOATS = ${floats}u;             // words of a key or a value as floats\n",
        { "room", a->room, NULL }, { "query", qsf_wgsl_query_words(a), NULL },
        { "floats", a->wide ? a->room : a->room / 2, NULL });
    qsf_wgsl_bind(t, QSF_WGSL_UNIFORM, "p", "Numbers");
}
