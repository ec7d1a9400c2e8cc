/* Products of activations and weights, by the kernel that the matrix's form has.
 * SPDX-License-Identifier: MIT */
#include "layers/matrix.h"
#include "layers/lora.h"

#include "lut.h"

/* Float weights as they lie in the file.  bf16's kernel rounds what it is multiplied with. */
static void multiply_floats(const qsf_pass *p, const qsf_matrix *m, const qsf_matrix_in *in, float *y,
                            size_t ldy, qsf_range tiles, uint32_t thread)
{
    const size_t n = in->act.n, cols = m->t.cols, row = tiles.begin * QSF_TILE_ROWS, at = row * cols;
    const size_t rows = QSF_MIN(tiles.end * QSF_TILE_ROWS, m->t.rows) - row;
    float *scratch = qsf_matrix_scratch(p, thread);
    const void *w = m->t.data;
    if (m->t.type == QSF_T_F32)
        p->k->matmul_f32(y + row, ldy, (const float *)w + at, in->x, in->ld, n, rows, cols);
    else if (m->t.type == QSF_T_F16)
        p->k->matmul_f16(y + row, ldy, (const uint16_t *)w + at, in->x, in->ld, n, rows, cols, scratch);
    else
        p->k->matmul_bf16(y + row, ldy, (const uint16_t *)w + at, in->x, in->ld, n, rows, cols, scratch);
}

/* Rows as floats, 16 at a time: types without a kernel of their own, and float activations. */
static void multiply_rows(const qsf_pass *p, const qsf_matrix *m, const qsf_matrix_in *in, float *y,
                          size_t ldy, qsf_range tiles, uint32_t thread)
{
    float *floats = qsf_matrix_scratch(p, thread);
    for (size_t t = tiles.begin; t < tiles.end; t++) {
        const uint32_t row = (uint32_t)t * QSF_TILE_ROWS, rows = QSF_MIN(QSF_TILE_ROWS, m->t.rows - row);
        qsf_dequant_rows(&m->t, row, rows, floats);
        p->k->matmul_f32(y + row, ldy, floats, in->x, in->ld, in->act.n, rows, m->t.cols);
    }
}

static void multiply_tiles(const qsf_pass *p, const qsf_matrix *m, const qsf_matrix_in *in, float *y,
                           size_t ldy, qsf_range tiles)
{
    const size_t n = tiles.end - tiles.begin, each = qsf_tile_bytes((qsf_form)m->form, m->t.block);
    const uint8_t *w = (const uint8_t *)m->t.data + tiles.begin * m->blocks * each;
    float *to = y + tiles.begin * QSF_TILE_ROWS;
    if (in->act.n == 1) p->k->matvec[m->form](to, w, &in->act, n, m->blocks, m->t.block);
    else p->k->matmul[m->form](to, ldy, w, &in->act, n, m->blocks, m->t.block);
}

/* Tiles that are transposed for look-ups.  A single row of activations uses look-ups; for several
 * rows the tiles are transposed back, as many tile rows at a time as the scratch holds. */
static void multiply_looked_up(const qsf_pass *p, const qsf_matrix *m, const qsf_matrix_in *in, float *y,
                               size_t ldy, qsf_range tiles, uint32_t thread)
{
    const size_t row = m->blocks * qsf_tile_bytes((qsf_form)m->form, m->t.block),
        most = QSF_TILE_ROWS * p->b->max_cols * sizeof(float) / row;
    const uint8_t *w = m->t.data;
    uint8_t *scratch = (uint8_t *)qsf_matrix_scratch(p, thread);
    if (in->act.n == 1) {
        p->k->matvec_lut(y + tiles.begin * QSF_TILE_ROWS, w + tiles.begin * row, &in->act,
                         tiles.end - tiles.begin, m->blocks, m->form == QSF_F_QK256);
        return;
    }
    assert(most);
    for (size_t t = tiles.begin; t < tiles.end; t += most) {
        const size_t n = QSF_MIN(tiles.end - t, most);
        qsf_lut_turn_back(scratch, w + t * row, n * row);
        p->k->matmul[m->form](y + t * QSF_TILE_ROWS, ldy, scratch, &in->act, n, m->blocks, m->t.block);
    }
}

static void scale_product(const qsf_pass *p, const qsf_matrix *m, float *y, size_t ldy, size_t n,
                          qsf_range tiles)
{
    const size_t begin = tiles.begin * QSF_TILE_ROWS, end = QSF_MIN(tiles.end * QSF_TILE_ROWS, m->t.rows);
    for (size_t j = 0; j < n; j++) p->k->vec_scale(y + j * ldy + begin, m->scale, end - begin);
}

static void add_outliers(const qsf_matrix *m, const qsf_matrix_in *in, float *y, size_t ldy, qsf_range tiles)
{
    const size_t end = QSF_MIN(tiles.end * QSF_TILE_ROWS, m->t.rows);
    for (size_t r = tiles.begin * QSF_TILE_ROWS; r < end; r++)
        for (uint32_t i = m->out_start[r]; i < m->out_start[r + 1]; i++) {
            const float w = qsf_f16_to_f32(m->out_value[i]);
            for (size_t j = 0; j < in->act.n; j++) y[j * ldy + r] += w * in->x[j * in->ld + m->out_col[i]];
        }
}

static void add_bias(const qsf_pass *p, const float *bias, size_t rows, float *y, size_t ldy, size_t n,
                     qsf_range tiles)
{
    const size_t begin = tiles.begin * QSF_TILE_ROWS, end = QSF_MIN(tiles.end * QSF_TILE_ROWS, rows);
    for (size_t j = 0; j < n; j++)
        p->k->vec_add(y + j * ldy + begin, y + j * ldy + begin, bias + begin, end - begin);
}

void qsf_matrix_multiply(const qsf_pass *p, const qsf_matrix *m, const float *bias, const qsf_matrix_in *in,
                         float *y, size_t ldy, qsf_range tiles, uint32_t thread)
{
    if (tiles.begin >= tiles.end) return;
    const uint64_t begin = qsf_pass_recorder(p) ? qsf_now(p->cpu->platform) : 0;
    const uint32_t kernel = qsf_matrix_kernel(p, m, in->act.n);
    if (m->lut) multiply_looked_up(p, m, in, y, ldy, tiles, thread);
    else if (kernel < QSF_N_FORMS) multiply_tiles(p, m, in, y, ldy, tiles);
    else if (kernel == QSF_KERNEL_UNPACKED) multiply_rows(p, m, in, y, ldy, tiles, thread);
    else multiply_floats(p, m, in, y, ldy, tiles, thread);
    if (m->scale != 1) scale_product(p, m, y, ldy, in->act.n, tiles);
    if (m->out_start) add_outliers(m, in, y, ldy, tiles);
    if (bias) add_bias(p, bias, m->t.rows, y, ldy, in->act.n, tiles);
    if (p->cpu->lora) qsf_lora_up(p, m, y, ldy, tiles);
    if (begin) qsf_record_product(qsf_pass_recorder(p), m, thread, begin, qsf_now(p->cpu->platform));
}
