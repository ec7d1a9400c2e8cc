/* Rows of the embedding, by token.
 * SPDX-License-Identifier: MIT
 *
 * An invocation has 16 columns: half a group of a tile. */
#include "embed_wgsl.h"

static void wgsl_embed_tiles(qsf_wgsl_text *t, const qsf_wgsl_embed *e)
{
    qsf_wgsl_decode(t, e->form, e->block, 64);
    QSF_WGSL_PUT(t,
        "fn columns(row: u32, half: u32, to: u32) {\n"
        "  let group = half / 2u;\n"
        "  let b = group / GROUPS;\n"
        "  let g = group % GROUPS;\n"
        "  let h = half % 2u;\n"
        "  let tile = ((row >> 4u) * p.blocks + b) * TILE;\n"
        "  let c = codes(tile, b, row & 15u, g, h);\n"
        "  let s = scales(tile, row & 15u, ${sub});\n"
        "  for (var k = 0u; k < 16u; k++) {\n"
        "    if (16u * half + k < p.cols) {\n"
        "      let code = bitcast<i32>(c[k / 4u] << (24u - 8u * (k % 4u))) >> 24u;\n"
        "      Y[to + k] = (s.x * f32(code - OFFSET) + s.y) * p.scale;\n"
        "    }\n"
        "  }\n"
        "}\n", { "sub", 0, qsf_wgsl_group_scales(e->form) == 2 ? "2u * g + h" : "g" });
}

static void wgsl_embed_floats(qsf_wgsl_text *t, const qsf_wgsl_embed *e)
{
    qsf_wgsl_read_floats(t, e->storage);
    qsf_wgsl_put(t,
        "fn prepare(lid: u32) {}\n"
        "fn columns(row: u32, half: u32, to: u32) {\n"
        "  for (var c = 16u * half; c < min(16u * half + 16u, p.cols); c++) {\n"
        "    Y[to + c - 16u * half] = weight(row * p.cols + c) * p.scale;\n"
        "  }\n"
        "}\n");
}

void qsf_wgsl_embed_text(qsf_wgsl_text *t, const qsf_wgsl_embed *e)
{
    qsf_wgsl_put(t,
        "struct Numbers {\n"
        "  n: u32, cols: u32, blocks: u32, first: u32, rows: u32, y_ld: u32, y_at: u32, scale: f32,\n"
        "}\n");
    qsf_wgsl_bind(t, QSF_WGSL_UNIFORM, "p", "Numbers");
    qsf_wgsl_bind(t, QSF_WGSL_READ, "W", "array<u32>");
    qsf_wgsl_bind(t, QSF_WGSL_READ, "Tokens", "array<u32>");
    qsf_wgsl_bind(t, QSF_WGSL_WRITE, "Y", "array<f32>");
    if (e->floats) wgsl_embed_floats(t, e);
    else wgsl_embed_tiles(t, e);
    qsf_wgsl_put(t,
        "@compute @workgroup_size(64)\n"
        "fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lid: u32) {\n"
        "  let half = 64u * group.x + lid;\n"
        "  let token = Tokens[group.y];\n"
        "  prepare(lid);\n"
        "  if (token < p.first || token - p.first >= p.rows || 16u * half >= p.cols) { return; }\n"
        "  columns(token - p.first, half, group.y * p.y_ld + p.y_at + 16u * half);\n"
        "}\n");
}
