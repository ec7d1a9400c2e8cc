/* Quantisers: a row of floats to the packing 0 blocks of any QSF type; see docs/quantisers.md.
 * SPDX-License-Identifier: MIT */
#include "tensor/quant.h"
#include "tensor/table.h"

/* How each type's grid is searched.  The step that clips nothing is best at 8 bits; the fewer the
 * levels, the more it pays to clip the largest values. */
static const struct { uint8_t type; qsf_quant_rule rule; } quant_rules[] = {
    /*                 levels zero  any_lo free   signs  lo     narrow steps */
    { QSF_T_2BIT_SYM, {   4, true,  false, false, false, -1.5f,  0.30f, 20 } },
    { QSF_T_2BIT,     {   4, true,  true,  true,  false, -1,     0.30f, 20 } },
    { QSF_T_3BIT,     {   8, true,  true,  false, false, -4,     0.55f, 14 } },
    { QSF_T_4BIT,     {  16, true,  true,  false, false, -8,     0.70f, 12 } },
    { QSF_T_TERNARY,  {   3, false, false, false, false, -1,     0.25f, 24 } },
    { QSF_T_2BIT_S,   {   4, false, false, false, true,  -2,     0.30f, 20 } },
    { QSF_T_3BIT_S,   {   8, false, false, false, true,  -4,     0.50f, 16 } },
    { QSF_T_4BIT_S,   {  16, false, false, false, true,  -8,     0.65f, 16 } },
    { QSF_T_5BIT_S,   {  32, false, false, false, true,  -16,    0.80f, 12 } },
    { QSF_T_6BIT_S,   {  64, false, false, false, true,  -32,    0.88f, 10 } },
    { QSF_T_8BIT,     { 255, false, false, false, false, -127,   0.96f,  6 } },
};

const qsf_quant_rule *qsf_quant_rule_of(uint32_t type)
{
    for (size_t i = 0; i < QSF_ARRAY_LEN(quant_rules); i++)
        if (quant_rules[i].type == type) return &quant_rules[i].rule;
    return NULL;
}

bool qsf_quant_fits(uint32_t type) { return qsf_table_of(type) || qsf_quant_rule_of(type); }

qsf_quant_fit qsf_quant_fit_of(uint32_t type, const float *x, const float *w, size_t n, uint8_t *code)
{
    if (qsf_table_of(type)) return qsf_table_search(type, x, w, n, code);
    return qsf_quant_search(qsf_quant_rule_of(type), x, w, n, code);
}

float qsf_quant_most(uint32_t type)
{
    if (qsf_table_of(type)) return QSF_TABLE_MOST;
    return type == QSF_T_F32 || type == QSF_T_BF16 ? FLT_MAX : 65504.0f;
}

float qsf_quant_value(uint32_t type, const qsf_quant_fit *f, uint8_t code)
{
    if (qsf_table_of(type)) return f->scale * (float)qsf_table_level(type, code);
    return f->scale * (float)code + f->zero;
}

/* ---- packing: bit i of plane p is bit p of code i, least significant bits first ---- */

/* n codes of `bits` bits each, n * bits a multiple of 8. */
static uint8_t *quant_put_plane(uint8_t *out, const uint8_t *code, size_t n, int shift, int bits)
{
    const int per = 8 / bits, mask = (1 << bits) - 1;
    for (size_t i = 0; i < n; i += (size_t)per) {
        int byte = 0;
        for (int k = 0; k < per; k++) byte |= (code[i + (size_t)k] >> shift & mask) << (k * bits);
        *out++ = (uint8_t)byte;
    }
    return out;
}

uint8_t *qsf_quant_put_block(uint8_t *out, uint32_t type, const qsf_quant_fit *f, const uint8_t *code,
                             size_t n)
{
    if (qsf_table_of(type)) *out++ = qsf_table_scale_near(f->scale);
    else {
        qsf_put16(out, qsf_f32_to_f16(f->scale));
        out += 2;
    }
    switch (type) {
    case QSF_T_2BIT_SYM: case QSF_T_2BIT: case QSF_T_3BIT: case QSF_T_4BIT:
        qsf_put16(out, qsf_f32_to_f16(f->zero));
        out += 2;
        break;
    default: break;
    }
    switch (type) {
    case QSF_T_2BIT_SYM: case QSF_T_2BIT: case QSF_T_2BIT_S: return quant_put_plane(out, code, n, 0, 2);
    case QSF_T_3BIT: case QSF_T_3BIT_S: case QSF_T_TABLE3:
        return quant_put_plane(quant_put_plane(out, code, n, 0, 2), code, n, 2, 1);
    case QSF_T_4BIT: case QSF_T_4BIT_S: case QSF_T_TABLE4: return quant_put_plane(out, code, n, 0, 4);
    case QSF_T_5BIT_S: return quant_put_plane(quant_put_plane(out, code, n, 0, 4), code, n, 4, 1);
    case QSF_T_6BIT_S: return quant_put_plane(quant_put_plane(out, code, n, 0, 4), code, n, 4, 2);
    case QSF_T_8BIT:
        for (size_t i = 0; i < n; i++) *out++ = (uint8_t)(code[i] - 127);
        return out;
    default: {                                       /* ternary: negative signs, then the mask of zeros */
        uint8_t sign[QSF_MAX_BLOCK], zero[QSF_MAX_BLOCK];
        for (size_t i = 0; i < n; i++) {
            sign[i] = code[i] == 0;
            zero[i] = code[i] == 1;
        }
        return quant_put_plane(quant_put_plane(out, sign, n, 0, 1), zero, n, 0, 1);
    }
    }
}

/* ---- rows ---- */

static double quant_mean_square(const float *w, uint32_t cols)
{
    double sum = 0;
    for (uint32_t i = 0; i < cols; i++) sum += (double)w[i] * w[i];
    return cols ? sum / cols : 0;
}

static void quant_add_error(qsf_quant_error *e, uint32_t type, const float *x, const uint8_t *code, size_t n,
                            const qsf_quant_fit *f)
{
    for (size_t i = 0; i < n; i++) {
        const double v = x[i], d = qsf_quant_value(type, f, code[i]);
        e->sum_sq += v * v;
        e->err_sq += (v - d) * (v - d);
        e->dot += v * d;
        e->deq_sq += d * d;
    }
}

static qsf_status quant_row_floats(uint32_t type, const float *w, uint32_t cols, uint8_t *dst,
                                   qsf_quant_error *e)
{
    for (uint32_t i = 0; i < cols; i++) {
        float back = w[i];
        if (type == QSF_T_F32) qsf_put32(dst + 4 * (size_t)i, qsf_f32_bits(w[i]));
        else if (type == QSF_T_F16) {
            const uint16_t h = qsf_f32_to_f16(w[i]);
            qsf_put16(dst + 2 * (size_t)i, h);
            back = qsf_f16_to_f32(h);
        } else {
            const uint16_t h = qsf_f32_to_bf16(w[i]);
            qsf_put16(dst + 2 * (size_t)i, h);
            back = qsf_bf16_to_f32(h);
        }
        if (!e) continue;
        e->sum_sq += (double)w[i] * w[i];
        e->err_sq += ((double)w[i] - back) * ((double)w[i] - back);
        e->dot += (double)w[i] * back;
        e->deq_sq += (double)back * back;
    }
    return QSF_OK;
}

/* Types without scales: w is in steps already, and takes the nearest level.  Columns beyond the
 * last become zeros if there is one. */
static void quant_row_bare(uint32_t type, const float *w, uint32_t cols, uint8_t *dst, qsf_quant_error *e)
{
    static const float levels[2][4] = { { -1, 0, 1 }, { -2, -1, 1, 2 } };
    const bool four = type == QSF_T_QK256;
    const uint32_t each = qsf_block_bytes(type, QSF_MAX_BLOCK);
    for (uint32_t at = 0; at < cols; at += QSF_MAX_BLOCK, dst += each) {
        uint8_t code[QSF_MAX_BLOCK];
        memset(code, 1, sizeof code);
        for (uint32_t i = 0; i < QSF_MIN(QSF_MAX_BLOCK, cols - at); i++) {
            const double v = w[at + i];
            code[i] = (uint8_t)(four ? (v >= -1.5) + (v >= 0) + (v >= 1.5) : (v >= -0.5) + (v > 0.5));
            const double d = levels[four][code[i]];
            if (!e) continue;
            e->sum_sq += v * v;
            e->err_sq += (v - d) * (v - d);
            e->dot += v * d;
            e->deq_sq += d * d;
        }
        qsf_block_put_codes(dst, type, QSF_MAX_BLOCK, code);
    }
}

qsf_status qsf_quantize_row(uint32_t type, uint32_t block, const float *w, uint32_t cols,
                            const float *importance, void *dst, qsf_quant_error *e, qsf_error *err)
{
    const float most = qsf_quant_most(type);
    for (uint32_t i = 0; i < cols; i++)
        if (!(fabsf(w[i]) <= most))
            return qsf_fail(err, QSF_E_CORRUPT, "column %u is %s", (unsigned)i,
                            isnan(w[i]) ? "not a number" : isinf(w[i]) ? "infinite"
                            : most < 65504 ? "too large for a table" : "too large for fp16");
    if (type == QSF_T_F32 || type == QSF_T_F16 || type == QSF_T_BF16)
        return quant_row_floats(type, w, cols, dst, e);

    if (qsf_type_bare(type) && block == QSF_MAX_BLOCK) {
        quant_row_bare(type, w, cols, dst, e);
        return QSF_OK;
    }
    if (!qsf_quant_fits(type) || (block != 32 && block != 64 && block != 128 && block != 256))
        return qsf_fail(err, QSF_E_UNSUPPORTED, "no quantiser for type %u with blocks of %u", (unsigned)type,
                        (unsigned)block);

    float x[QSF_MAX_BLOCK], weight[QSF_MAX_BLOCK];
    uint8_t code[QSF_MAX_BLOCK], *out = dst;
    const float mean = (float)quant_mean_square(w, cols);
    for (uint32_t at = 0; at < cols; at += block) {
        const uint32_t n = QSF_MIN(block, cols - at);
        for (uint32_t i = 0; i < n; i++) {
            x[i] = w[at + i];
            weight[i] = sqrtf(mean + x[i] * x[i]) * (importance ? importance[at + i] : 1.0f);
        }
        /* columns beyond the last count for nothing */
        for (uint32_t i = n; i < block; i++) x[i] = weight[i] = 0;
        const qsf_quant_fit f = qsf_quant_fit_of(type, x, weight, block, code);
        if (e) quant_add_error(e, type, x, code, n, &f);
        out = qsf_quant_put_block(out, type, &f, code, block);
    }
    return QSF_OK;
}
