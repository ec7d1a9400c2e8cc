/* Where a unit's tensors go in memory, and in which form.
 * SPDX-License-Identifier: MIT */
#include "weights/weights.h"
#include "model/experts_alone.h"
#include "model/qsf_file.h"
#include "model/roles.h"

#include "tensor/ggml_tiles.h"
#include "tensor/stored.h"

#include "lut.h"

/* Where a tensor of a unit goes in its slot. */
typedef struct tensor_place {
    uint64_t at;        /* of the tensor as the kernels take it */
    uint64_t bytes;
    bool     tile;      /* rows of blocks that become tiles */
    bool     ggml;      /* rows of GGUF blocks that become tiles in place */
    bool     vector;    /* becomes floats */
} tensor_place;

static bool unit_is_vector(const qsf_tensor *t) { return t->rows == 1 && t->kind < QSF_N_KINDS; }

/* Tensors stay where the file has them, unless one must change its form: then all of them get new
 * places. */
static bool unit_moves(const qsf_source *s, const qsf_unit *u)
{
    for (uint32_t i = 0; i < u->n_tensors; i++) {
        const qsf_tensor *t = &s->tensors[u->first_tensor + i];
        if (t->packing == 0 && qsf_type_tiles(t->type) && !unit_is_vector(t)) return true;
    }
    return false;
}

/* Whether tensor i of a unit is a GGUF matrix that becomes tiles; if it stays at its place in the
 * file's layout, it needs room after it for that. */
static bool unit_tiles_ggml(const qsf_source *s, const qsf_unit *u, uint32_t i, bool moves)
{
    const qsf_tensor *t = &s->tensors[u->first_tensor + i];
    const uint64_t *at = &s->places[u->first_tensor], bytes = qsf_ggml_tiled_bytes(t);
    if (unit_is_vector(t) || qsf_ggml_tile_type(t) < 0) return false;
    for (uint32_t j = 0; !moves && j < u->n_tensors; j++)
        if (at[j] > at[i] && at[j] - at[i] < bytes) return false;
    return true;
}

/* The end of the tensors that keep their place, as tiles. */
static uint64_t unit_stays_until(const qsf_source *s, const qsf_unit *u)
{
    uint64_t end = u->raw;
    for (uint32_t i = 0; i < u->n_tensors; i++) {
        if (!unit_tiles_ggml(s, u, i, false)) continue;
        const uint32_t t = u->first_tensor + i;
        end = QSF_MAX(end, s->places[t] + qsf_ggml_tiled_bytes(&s->tensors[t]));
    }
    return qsf_round_up(end, 64);
}

static qsf_unit unit_part(const qsf_source *s, uint32_t unit, bool shared)
{
    return shared ? qsf_unit_shared(s, unit) : s->units[unit];
}

static qsf_status unit_layout(const qsf_source *s, const qsf_unit *u, tensor_place *places, uint64_t *total,
                              qsf_error *err)
{
    const bool moves = unit_moves(s, u);
    uint64_t end = moves ? 0 : unit_stays_until(s, u);
    for (uint32_t i = 0; i < u->n_tensors; i++) {
        const qsf_tensor *t = &s->tensors[u->first_tensor + i];
        tensor_place *p = &places[i];
        *p = (tensor_place){ .at = s->places[u->first_tensor + i], .bytes = t->bytes,
                             .vector = unit_is_vector(t) };
        if (p->vector) p->bytes = (uint64_t)t->cols * sizeof(float);
        p->tile = !p->vector && t->packing == 0 && qsf_type_tiles(t->type);
        if (p->tile) {
            const qsf_status st = qsf_tensor_bytes(t->type, 1, t->block, t->rows, t->cols, &p->bytes, err);
            if (st) return st;
        }
        p->ggml = unit_tiles_ggml(s, u, i, moves);
        if (p->ggml) p->bytes = QSF_MAX(qsf_ggml_tiled_bytes(t), t->bytes);
        if (moves || p->vector) {
            p->at = end;
            end += qsf_round_up(p->bytes, 64);
        }
    }
    *total = QSF_MAX(end, 64);
    return QSF_OK;
}

bool qsf_unit_staged(const qsf_source *s, uint32_t unit)
{
    const qsf_unit *u = &s->units[unit];
    return unit_moves(s, u) || u->compression != QSF_COMPRESS_NONE;
}

bool qsf_unit_refines(const qsf_source *s, uint32_t unit)
{
    return s->units[unit].rest && !unit_moves(s, &s->units[unit]);
}

qsf_status qsf_unit_memory(const qsf_source *s, uint32_t unit, bool shared, uint64_t *slot, uint64_t *stored,
                           uint64_t *raw, qsf_error *err)
{
    tensor_place places[QSF_MAX_UNIT_TENSORS];
    const qsf_unit part = unit_part(s, unit, shared), *u = &part;
    *stored = qsf_unit_staged(s, unit) ? u->stored : 0;
    *raw = unit_moves(s, u) && u->compression != QSF_COMPRESS_NONE ? u->raw : 0;
    return unit_layout(s, u, places, slot, err);
}

/* ---- from bytes to weights ---- */

static void matrix_outliers(qsf_matrix *m, const qsf_tensor *t)
{
    const uint8_t *p = t->data;                 /* row_start[rows + 1], col[n], value[n]: see QSF_T_SPARSE */
    m->out_start = (const uint32_t *)(const void *)p;
    m->out_col = m->out_start + t->rows + 1;
    m->out_value = (const uint16_t *)(const void *)(m->out_col + t->cols);
}

/* The places in a sparse tensor are used as indices: they must be in range before the kernels see
 * them. */
static bool outliers_in_range(const qsf_tensor *t, uint32_t cols)
{
    qsf_matrix m;
    matrix_outliers(&m, t);
    if (m.out_start[0] != 0 || m.out_start[t->rows] != t->cols) return false;
    for (uint32_t r = 0; r < t->rows; r++)
        if (m.out_start[r] > m.out_start[r + 1] || m.out_start[r + 1] > t->cols) return false;
    for (uint32_t i = 0; i < t->cols; i++)
        if (m.out_col[i] >= cols) return false;
    return true;
}

/* One number, or one for each expert, stored in place of a vector of the matrix's kind. */
static qsf_status weights_add_scale(const qsf_source *s, qsf_weights *w, const qsf_tensor *t, qsf_error *err)
{
    const uint32_t kind = t->kind - QSF_K_SCALE;
    const float *scale = (const float *)(const void *)t->data;
    uint32_t i = 0;
    while (i + 1 < t->cols && isfinite(scale[i])) i++;
    if (!w->m[kind].t.data || !isfinite(scale[i]))
        return qsf_fail(err, QSF_E_CORRUPT, "%s: %s is %g, or has no matrix", s->path,
                        qsf_kind_name(t->kind), (double)scale[i]);
    if (t->cols > 1) w->v[kind] = scale;
    else w->m[kind].scale = *scale;
    return QSF_OK;
}

static void matrix_fill(qsf_matrix *m, const qsf_tensor *t)
{
    m->t = *t;
    m->form = t->packing == 1 ? qsf_form_of_type(t->type) : -1;
    m->blocks = t->block ? (uint32_t)qsf_ceil_div(t->cols, t->block) : 0;
    m->scale = 1;
}

void qsf_matrix_of(const qsf_tensor *t, qsf_matrix *m)
{
    qsf_tensor tiled = *t;
    const int type = qsf_ggml_tile_type(t);
    if (type >= 0) {
        tiled.bytes = qsf_ggml_tiled_bytes(t);
        tiled.type = (uint8_t)type;
        tiled.packing = 1;
    }
    *m = (qsf_matrix){ .lut = false };
    matrix_fill(m, &tiled);
}

void qsf_weights_describe(const qsf_source *s, uint32_t unit, qsf_weights *w)
{
    static const float number = 0;
    const qsf_unit *u = &s->units[unit];
    memset(w, 0, sizeof *w);
    for (uint32_t i = 0; i < u->n_tensors; i++) {
        qsf_tensor t = s->tensors[u->first_tensor + i];
        if (t.kind >= QSF_N_KINDS) continue;
        if (t.packing == 0 && qsf_type_tiles(t.type)) t.packing = 1;
        if (unit_is_vector(&t)) w->v[t.kind] = &number;
        else qsf_matrix_of(&t, &w->m[t.kind]);
    }
}

/* Sets the form of one expert's matrices.  No expert is loaded yet; data only must not be NULL. */
static void weights_add_experts(const qsf_source *s, const qsf_unit *shared, uint32_t n_experts,
                                const uint8_t *mem, qsf_weights *w)
{
    for (uint32_t i = 0; i < shared->n_expert_tensors; i++) {
        uint64_t at;
        qsf_tensor t = qsf_expert_rows(&s->tensors[shared->first_tensor + shared->n_tensors + i], n_experts,
                                       0, &at);
        t.data = mem;
        qsf_matrix_of(&t, &w->m[t.kind]);
    }
}

static qsf_status weights_add(const qsf_source *s, qsf_weights *w, const qsf_tensor *t, qsf_error *err)
{
    if (t->kind < QSF_N_KINDS && t->rows == 1) {
        w->v[t->kind] = t->data;
    } else if (t->kind < QSF_N_KINDS) {
        matrix_fill(&w->m[t->kind], t);
    } else if (t->kind >= QSF_K_SCALE && t->kind < QSF_K_SCALE + QSF_N_KINDS) {
        return weights_add_scale(s, w, t, err);
    } else if (t->kind >= QSF_K_OUTLIERS && t->kind < QSF_K_OUTLIERS + QSF_N_KINDS) {
        qsf_matrix *m = &w->m[t->kind - QSF_K_OUTLIERS];
        const bool fits = m->t.data && m->t.rows == t->rows && t->type == QSF_T_SPARSE;
        if (!fits || !outliers_in_range(t, m->t.cols))
            return qsf_fail(err, QSF_E_CORRUPT, "%s: the outliers of %s do not fit their tensor", s->path,
                            qsf_kind_name(t->kind - QSF_K_OUTLIERS));
        matrix_outliers(m, t);
    }
    return QSF_OK;
}

/* Brings a tensor, whose bytes are at `from`, to its place `to`; true: it is still to become tiles
 * there. */
static bool tensor_put(qsf_tensor *t, const tensor_place *p, const uint8_t *from, uint8_t *to, bool moves)
{
    t->data = from;
    if (p->vector) {
        qsf_dequant_rows(t, 0, 1, (float *)(void *)to);
        t->type = QSF_T_F32;
        t->block = 1;
    } else if (p->tile) {
        qsf_pack_tiles(t, to);
        t->packing = 1;
    } else if (moves) {
        memcpy(to, from, (size_t)t->bytes);
    }
    t->data = to;
    if (!p->ggml) t->bytes = p->bytes;
    return p->ggml;
}

/* Checks block scales that a file stores apart from the codes; those in QSF's and GGUF's own blocks
 * are not checked. */
static qsf_status check_stored(const qsf_source *s, const qsf_tensor *t, qsf_error *err)
{
    float bad = 0;
    if (t->packing <= 1 || qsf_stored_scales_ok(t, &bad)) return QSF_OK;
    return qsf_fail(err, QSF_E_CORRUPT, "%s: a scale of %s is %g, which is not an fp16 number", s->path,
                    qsf_kind_name(t->kind), (double)bad);
}

/* Tiles in the slot's own memory, a thread's share. */
typedef struct turn_run { qsf_matrix *m; uint8_t *data; uint32_t n_pieces; } turn_run;
static void turn_piece(void *arg, uint32_t thread, uint32_t piece)
{
    enum { STEP = 1024 };           /* tiles of both forms */
    const turn_run *run = arg;
    const qsf_range mine = qsf_range_of((size_t)(run->m->t.bytes / STEP), piece, run->n_pieces);
    uint8_t *at = run->data + mine.begin * STEP;
    (void)thread;
    qsf_lut_turn(at, at, (mine.end - mine.begin) * STEP);
}

/* Matrices that are to be looked up. */
static void weights_turn(const qsf_unit_room *room, qsf_weights *w)
{
    enum { ALONE = 1 << 18 };       /* bytes that are there sooner than another thread */
    for (uint32_t i = 0; i < QSF_N_KINDS; i++) {
        qsf_matrix *m = &w->m[i];
        /* matrices of heads are used row by row */
        const bool heads = i == QSF_K_KEY_UP || i == QSF_K_VALUE_UP || i == QSF_K_KV_B;
        if (!m->t.data || heads || !qsf_form_looked_up(m->form) ||
            (room->shared && qsf_kind_is_experts(i))) continue;
        turn_run run = { m, room->mem + ((const uint8_t *)m->t.data - room->mem), 1 };
        m->lut = true;
        if (room->pool && m->t.bytes > ALONE) {
            run.n_pieces = qsf_pool_pieces(room->pool, UINT32_MAX);
            qsf_pool_run(room->pool, run.n_pieces, m->t.rows, turn_piece, &run);
        } else {
            turn_piece(&run, 0, 0);
        }
    }
}

/* The checked bytes `from` in their final form; w is all zeros. */
static qsf_status weights_form(const qsf_source *s, uint32_t unit, const qsf_unit_room *room,
                               const uint8_t *from, qsf_weights *w, qsf_error *err)
{
    const qsf_unit part = unit_part(s, unit, room->shared), *u = &part;
    const bool moves = unit_moves(s, u);
    tensor_place places[QSF_MAX_UNIT_TENSORS];
    qsf_tensor tensors[QSF_MAX_UNIT_TENSORS], *ggml[QSF_MAX_UNIT_TENSORS];
    uint8_t *data[QSF_MAX_UNIT_TENSORS];
    uint32_t n_ggml = 0;
    uint64_t total;
    qsf_status st = unit_layout(s, u, places, &total, err);
    if (st) return st;
    assert(total <= room->cap);
    for (uint32_t i = 0; i < u->n_tensors; i++) {
        uint8_t *to = room->mem + places[i].at;
        tensors[i] = s->tensors[u->first_tensor + i];
        if (!tensor_put(&tensors[i], &places[i], from + s->places[u->first_tensor + i], to, moves)) continue;
        if ((st = check_stored(s, &tensors[i], err))) return st;
        ggml[n_ggml] = &tensors[i];
        data[n_ggml++] = to;
    }
    qsf_ggml_to_tiles(ggml, data, n_ggml, room->strips, room->pool);
    if (room->shared && u->n_expert_tensors)
        weights_add_experts(s, u, qsf_source_layer(s, unit)->n_experts, room->mem, w);
    for (uint32_t i = 0; i < 2 * u->n_tensors; i++) {   /* matrices first, then scales, in any file order */
        const qsf_tensor *t = &tensors[i % u->n_tensors];
        const bool scale = t->kind >= QSF_K_SCALE, second = i >= u->n_tensors;
        if (scale == second && (st = weights_add(s, w, t, err))) return st;
    }
    if (room->lut) weights_turn(room, w);
    return QSF_OK;
}

qsf_status qsf_weights_make(const qsf_source *s, uint32_t unit, const qsf_unit_room *room, bool crc,
                            qsf_weights *w, qsf_unit_times *t, qsf_error *err)
{
    const qsf_unit *u = &s->units[unit];
    const bool packed = u->compression != QSF_COMPRESS_NONE;
    uint8_t *raw = !packed ? NULL : unit_moves(s, u) ? room->raw : room->mem;
    memset(w, 0, sizeof *w);
    const unsigned check = (crc ? QSF_CHECK_CRC : 0) | (room->first ? QSF_CHECK_FIRST : 0) |
                           (room->shared ? QSF_CHECK_SHARED : 0);
    qsf_status st = qsf_unit_check_sum(s, unit, room->stored, check, room->pool, t, err);
    if (!st) st = qsf_unit_check_timed(s, unit, room->stored, raw, check & ~(unsigned)QSF_CHECK_CRC, t, err);
    return st ? st : weights_form(s, unit, room, packed ? raw : room->stored, w, err);
}
