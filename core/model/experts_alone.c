/* Experts of a file that can be read alone.
 * SPDX-License-Identifier: MIT
 *
 * In a QSF file their matrices are the last tensors of their layers, and key experts.crcs has of
 * each such layer the checksum of what is before them, and one for each expert. */
#include "model/experts_alone.h"

static const char experts_key[] = "experts.crcs";

qsf_tensor qsf_expert_rows(const qsf_tensor *t, uint32_t n_experts, uint32_t e, uint64_t *at)
{
    const uint64_t lines = t->packing == 1 ? QSF_TILE_ROWS : 1, n = t->rows / n_experts;
    const uint64_t each = t->bytes / qsf_ceil_div(t->rows, lines);
    const uint64_t first = e * n / lines, end = qsf_ceil_div((e + 1) * n, lines);
    qsf_tensor part = *t;
    *at = first * each;
    part.rows = (uint32_t)((e + 1) * n - first * lines);
    part.bytes = (end - first) * each;
    return part;
}

/* Whether a layer's tensor is a matrix of experts as kernels take it from the file. */
static bool experts_cut(const qsf_tensor *t)
{
    return qsf_kind_is_experts(t->kind) && (t->packing == 1 || !qsf_type_tiles(t->type));
}

/* ---- writing ---- */

void qsf_experts_note(qsf_experts_out *o, const qsf_tensor *t, uint32_t before)
{
    if (!o->n_experts) return;
    if (!qsf_kind_is_experts(t->kind)) {
        o->lost |= o->open;
        return;
    }
    uint32_t *crcs = o->crcs + o->n_layers * (size_t)(1 + o->n_experts);
    o->lost |= !experts_cut(t) || t->rows % o->n_experts;
    if (o->lost) return;
    if (!o->open) crcs[0] = before;
    o->open = true;
    for (uint32_t e = 0; e < o->n_experts; e++) {
        uint64_t at;
        const qsf_tensor part = qsf_expert_rows(t, o->n_experts, e, &at);
        crcs[1 + e] = qsf_crc32(crcs[1 + e], (const uint8_t *)t->data + at, (size_t)part.bytes);
    }
}

void qsf_experts_note_end(qsf_experts_out *o)
{
    o->n_layers += o->open;
    o->open = false;
}

void qsf_ext_put_experts(qsf_ext_out *x, const qsf_experts_out *o, uint32_t n_layers)
{
    if (o->n_experts && n_layers && !o->lost)
        qsf_ext_put_u32s(x, experts_key, o->crcs, n_layers * (uint64_t)(1 + o->n_experts));
}

/* ---- reading ---- */

/* How many of a layer's last tensors are its matrices of experts; 0: not all of them are. */
static uint32_t experts_last(const qsf_source *s, uint32_t layer)
{
    const qsf_unit *u = &s->units[layer];
    const uint32_t n = s->layers[layer].experts_plain ? 2 : 3;
    if (u->compression != QSF_COMPRESS_NONE || u->n_tensors <= n) return 0;
    for (uint32_t i = u->n_tensors - n; i < u->n_tensors; i++)
        if (!experts_cut(&s->tensors[u->first_tensor + i])) return 0;
    return n;
}

qsf_status qsf_ext_get_experts(const qsf_ext *x, qsf_source *s, qsf_error *err)
{
    qsf_ext_value v;
    const uint32_t line = 1 + s->hp.n_experts;
    uint64_t n = 0;
    const qsf_status st = qsf_ext_get(x, experts_key, QSF_EXT_U32, &v, err);
    if (st || !v.data) return st;
    for (uint32_t i = 0; i < s->hp.n_layers; i++) n += s->layers[i].n_experts ? line : 0;
    if (!n || v.count != n)
        return qsf_fail(err, QSF_E_CORRUPT, "%s: %s has %u values, which does not fit", s->path, experts_key,
                        (unsigned)v.count);
    uint32_t *crcs = qsf_arena_array(s->arena, n, sizeof *crcs, "checksums", err);
    if (!crcs) return QSF_E_MEMORY;
    for (uint32_t i = 0; i < n; i++) crcs[i] = qsf_le32(v.data + 4 * (size_t)i);
    for (uint32_t i = 0; i < s->hp.n_layers; i++) {
        qsf_unit *u = &s->units[i];
        if (!s->layers[i].n_experts) continue;
        if (!(u->n_expert_tensors = experts_last(s, i)))
            return qsf_fail(err, QSF_E_CORRUPT, "%s: %s is there, but layer %u does not end with experts "
                            "that can be read alone", s->path, experts_key, (unsigned)i);
        u->shared_crc = crcs[0];
        u->expert_crcs = crcs + 1;
        crcs += line;
    }
    return QSF_OK;
}
