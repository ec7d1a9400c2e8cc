/* Tensors of bitnet.cpp's types in GGUF files: I2_S, which several programs write in several
 * layouts under one number, TL1 and TL2.  How long they are follows from where the next tensor
 * begins; that tells most layouts apart.
 * SPDX-License-Identifier: MIT */
#include "model/gguf.h"

#include "tensor/stored.h"

enum { GGML_I2_S = 36, GGML_TL1 = 38, GGML_TL2 = 39 };
/* Bytes that may follow a tensor besides alignment padding, by the original specification. */
enum { I2S_TOLERANCE = 128 };
enum { I2S_TAIL = 32 };         /* Microsoft's: an f32 scale and what fills it up */

typedef struct bitnet_shape { uint32_t rows, cols; uint64_t room, align; } bitnet_shape;

static bool is_tl2(const gguf_tensor *t)
{
    const bool fits = t->ggml_type == GGML_TL2 && t->dims[0] <= UINT32_MAX && t->dims[1] <= UINT32_MAX &&
        t->dims[2] * t->dims[3] == 1;
    const uint64_t need = fits ? qsf_stored_codes_bytes(QSF_STORED_TL2, (uint32_t)t->dims[1],
                                                        (uint32_t)t->dims[0]) : 0;
    /* upstream's number 39 is MXFP4, of more than twice the size */
    return need && t->room >= need && t->room < need + need / 2 + 2 * I2S_TOLERANCE &&
           t->room < t->dims[0] * t->dims[1] / 32 * 17;
}

bool qsf_gguf_is_bitnet(const gguf_tensor *t)
{
    return t->ggml_type == GGML_I2_S || t->ggml_type == GGML_TL1 || is_tl2(t);
}

static bool bitnet_fits(const bitnet_shape *b, uint64_t need, uint64_t slack)
{
    return need && b->room >= need && b->room <= qsf_round_up(need, b->align) + slack;
}

/* ---- scales in a tensor of their own ---- */

/* The suffixes that engines use, after the matrix's name without its last part; the first
 * SIBLING_WHOLE of them also after the whole name. */
static const char *const sibling_tails[] = {
    ".scale", ".scales", "._scale", "._scales", "_scale", "_scales", ".q_scales", ".qh", ".d", ".scl", ".s",
};
enum { SIBLING_WHOLE = 6 };

static gguf_tensor *sibling_named(gguf_part *part, const gguf_names *names, gguf_text base, const char *tail)
{
    char name[192];
    if (base.len + strlen(tail) >= sizeof name) return NULL;
    const size_t len = qsf_format(name, sizeof name, "%.*s%s", (int)base.len, base.p, tail);
    const int64_t i = qsf_gguf_name_find(names, name, len);
    return i < 0 ? NULL : &part->tensors[i];
}

/* The tensor of t's scales, whose type must be f32, f16 or bf16; NULL: not found. */
static gguf_tensor *find_sibling(gguf_part *part, const gguf_names *names, const gguf_tensor *t)
{
    static const char *const ends[] = { ".weight", ".data", ".qweight" };
    gguf_text base = t->name;
    for (size_t i = 0; i < QSF_ARRAY_LEN(ends); i++) {
        const size_t len = strlen(ends[i]);
        if (base.len <= len || memcmp(base.p + base.len - len, ends[i], len)) continue;
        base.len -= len;
        break;
    }
    for (size_t i = 0; i < QSF_ARRAY_LEN(sibling_tails) + SIBLING_WHOLE; i++) {
        const bool whole = i >= QSF_ARRAY_LEN(sibling_tails);
        gguf_tensor *s = sibling_named(part, names, whole ? t->name : base,
                                       sibling_tails[whole ? i - QSF_ARRAY_LEN(sibling_tails) : i]);
        if (s && s != t && (s->ggml_type <= 1 || s->ggml_type == 30)) return s;
    }
    return NULL;
}

static uint64_t values_of(const gguf_tensor *t)
{
    return t->dims[0] * t->dims[1] * t->dims[2] * t->dims[3];   /* below 2^63, see gguf_file.c */
}

static void take_sibling(gguf_tensor *t, gguf_tensor *s)
{
    t->scales = s;
    s->is_scales = true;
}

/* ---- I2_S ---- */

typedef struct i2s_layout { uint8_t packing, tail; } i2s_layout;
static const i2s_layout i2s_layouts[] = {
    [QSF_I2S_QK256] = { QSF_STORED_QK256, 0 },
    [QSF_I2S_SPLIT32] = { QSF_STORED_SPLIT32_F32, 0 },
    [QSF_I2S_BITNET32] = { QSF_STORED_BITNET32, 0 },
    [QSF_I2S_MICROSOFT] = { QSF_STORED_I2S_128, I2S_TAIL },
    [QSF_I2S_MICROSOFT_ARM] = { QSF_STORED_I2S_64, I2S_TAIL },
    [QSF_I2S_MICROSOFT_ROWS4] = { QSF_STORED_I2S_ROWS4, I2S_TAIL },
};

static uint64_t i2s_need(const bitnet_shape *b, qsf_i2s_layout l)
{
    const uint64_t codes = qsf_stored_codes_bytes(i2s_layouts[l].packing, b->rows, b->cols);
    return codes ? codes + i2s_layouts[l].tail : 0;
}

static qsf_status i2s_refuse(const gguf *g, const gguf_tensor *t, const bitnet_shape *b, const char *why,
                             qsf_error *err)
{
    return qsf_fail(err, QSF_E_UNSUPPORTED,
                    "%s: tensor \"%.*s\" of type I2_S, %u x %u, has %llu bytes, %s: qk256 takes %llu, "
                    "split32 %llu and separate scales, bitnet32 %llu, microsoft %llu (0: not this shape)",
                    gguf_path_of(g, t), (int)QSF_MIN(t->name.len, 80), t->name.p, (unsigned)b->rows,
                    (unsigned)b->cols, (unsigned long long)b->room, why,
                    (unsigned long long)i2s_need(b, QSF_I2S_QK256),
                    (unsigned long long)i2s_need(b, QSF_I2S_SPLIT32),
                    (unsigned long long)i2s_need(b, QSF_I2S_BITNET32),
                    (unsigned long long)i2s_need(b, QSF_I2S_MICROSOFT));
}

/* By size: exactly first, so that Microsoft's, which is qk256 and 32 bytes, is not taken for qk256
 * and a gap. */
static qsf_i2s_layout i2s_guess(const bitnet_shape *b, bool has_scales)
{
    static const uint8_t order[] = { QSF_I2S_QK256, QSF_I2S_SPLIT32, QSF_I2S_BITNET32, QSF_I2S_MICROSOFT };
    for (uint64_t slack = 0; slack <= I2S_TOLERANCE; slack += I2S_TOLERANCE)
        for (size_t i = 0; i < QSF_ARRAY_LEN(order); i++) {
            const qsf_i2s_layout l = (qsf_i2s_layout)order[i];
            if (l == QSF_I2S_SPLIT32 && !has_scales) continue;
            if (bitnet_fits(b, i2s_need(b, l), slack)) return l;
        }
    return QSF_I2S_AUTO;
}

/* Split32's scales, one a block. */
static qsf_status i2s_split(const gguf *g, gguf_tensor *t, const bitnet_shape *b, gguf_tensor *scales,
                            qsf_error *err)
{
    const uint64_t blocks = (uint64_t)b->rows * (b->cols / 32);
    if (!scales) return i2s_refuse(g, t, b, "and no separate tensor of scales, which split32 has", err);
    if (values_of(scales) != blocks)
        return qsf_fail(err, QSF_E_CORRUPT, "%s: tensor \"%.*s\" has %llu scales for %llu blocks of 32",
                        gguf_path_of(g, scales), (int)QSF_MIN(scales->name.len, 80), scales->name.p,
                        (unsigned long long)values_of(scales), (unsigned long long)blocks);
    t->packing = scales->ggml_type == 0   ? QSF_STORED_SPLIT32_F32
                 : scales->ggml_type == 1 ? QSF_STORED_SPLIT32_F16
                                          : QSF_STORED_SPLIT32_BF16;
    take_sibling(t, scales);
    return QSF_OK;
}

static qsf_status i2s_place(const gguf *g, gguf_tensor *t, const bitnet_shape *b, gguf_tensor *scales,
                            qsf_error *err)
{
    qsf_i2s_layout l = (qsf_i2s_layout)g->s->i2s_layout;
    const bool asked = l != QSF_I2S_AUTO;
    const bool many = scales && values_of(scales) > 1;
    if (!asked) l = i2s_guess(b, many);
    if (l == QSF_I2S_AUTO) return i2s_refuse(g, t, b, "as no layout has", err);
    if (!bitnet_fits(b, i2s_need(b, l), I2S_TOLERANCE))
        return i2s_refuse(g, t, b, "which is not the layout that was asked for", err);
    if (!asked && l == QSF_I2S_QK256 && many)
        return i2s_refuse(g, t, b, "as qk256, but separate scales; --i2s-layout split32 uses them, qk256 "
                          "does not", err);
    if (l == QSF_I2S_SPLIT32) return i2s_split(g, t, b, scales, err);
    t->packing = i2s_layouts[l].packing;
    if (many) scales->is_scales = true;         /* of no use to what was asked for */
    if (i2s_layouts[l].tail) t->scale_in = i2s_need(b, l) - I2S_TAIL;
    if (!scales || many) return QSF_OK;
    if (t->scale_in)
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: tensor \"%.*s\" has a scale in it and another one, "
                        "\"%.*s\"", gguf_path_of(g, t), (int)QSF_MIN(t->name.len, 80), t->name.p,
                        (int)QSF_MIN(scales->name.len, 80), scales->name.p);
    take_sibling(t, scales);
    return QSF_OK;
}

/* ---- TL1 and TL2 ---- */

/* Their scale is a tensor of its own, or is in the 32 bytes after the codes. */
static qsf_status tl_place(const gguf *g, gguf_tensor *t, const bitnet_shape *b, gguf_tensor *scale,
                           qsf_error *err)
{
    const bool tl2 = t->ggml_type == GGML_TL2;
    const uint32_t base = tl2 ? QSF_STORED_TL2 : QSF_STORED_TL1;
    const uint64_t need = qsf_stored_codes_bytes(base, b->rows, b->cols), tail = qsf_round_up(need, 32);
    const int len = (int)QSF_MIN(t->name.len, 80);
    t->packing = (uint8_t)qsf_stored_tl(base, b->rows, b->cols);
    if (!t->packing)
        return qsf_fail(err, QSF_E_UNSUPPORTED,
                        "%s: tensor \"%.*s\" is stored for the kernels %s of its shape, %u x %u, which this "
                        "version does not know or knows several of; convert the model to I2_S or TQ2_0",
                        gguf_path_of(g, t), len, t->name.p, tl2 ? "TL2" : "TL1", (unsigned)b->rows,
                        (unsigned)b->cols);
    if (scale && values_of(scale) == 1 && bitnet_fits(b, need, I2S_TOLERANCE)) {
        take_sibling(t, scale);
        return QSF_OK;
    }
    t->scale_in = tail;
    if (bitnet_fits(b, tail + I2S_TAIL, I2S_TOLERANCE)) return QSF_OK;
    return qsf_fail(err, QSF_E_CORRUPT, "%s: tensor \"%.*s\" of type %s, %u x %u, has %llu bytes; it takes "
                    "%llu and 32 of its scale", gguf_path_of(g, t), len, t->name.p, tl2 ? "TL2" : "TL1",
                    (unsigned)b->rows, (unsigned)b->cols, (unsigned long long)b->room,
                    (unsigned long long)need);
}

/* ---- all ---- */

static qsf_status bitnet_place(const gguf *g, gguf_part *part, const gguf_names *names, gguf_tensor *t,
                               uint64_t align, qsf_error *err)
{
    const bitnet_shape b = { (uint32_t)t->dims[1], (uint32_t)t->dims[0], t->room, align };
    if (t->dims[0] > UINT32_MAX || t->dims[1] > UINT32_MAX || t->dims[2] * t->dims[3] != 1)
        return qsf_fail(err, QSF_E_CORRUPT, "%s: tensor \"%.*s\" is not a matrix", gguf_path_of(g, t),
                        (int)QSF_MIN(t->name.len, 80), t->name.p);
    gguf_tensor *scales = find_sibling(part, names, t);
    qsf_status st = t->ggml_type == GGML_I2_S ? i2s_place(g, t, &b, scales, err)
        : tl_place(g, t, &b, scales, err);
    if (st) return st;
    if (t->scales && values_of(t->scales) == 1 && t->scales->ggml_type != 0)
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: tensor \"%.*s\" is a scale of type %u, not f32",
                        gguf_path_of(g, t->scales), (int)QSF_MIN(t->scales->name.len, 80), t->scales->name.p,
                        (unsigned)t->scales->ggml_type);
    qsf_tensor q = { .packing = t->packing, .rows = b.rows, .cols = b.cols };
    qsf_stored_place(&q);
    t->type = q.type;
    t->block = q.block;
    t->bytes = t->scale_in ? t->scale_in + sizeof(float)
        : qsf_stored_codes_bytes(t->packing, b.rows, b.cols);
    return QSF_OK;
}

qsf_status qsf_gguf_bitnet(const gguf *g, gguf_part *part, uint64_t align, qsf_error *err)
{
    gguf_names names;
    bool any = false;
    for (uint32_t i = 0; i < part->n_tensors; i++) any |= qsf_gguf_is_bitnet(&part->tensors[i]);
    if (!any) return QSF_OK;
    gguf_text *list = qsf_arena_array(g->tmp, part->n_tensors, sizeof *list, "names of tensors", err);
    if (!list) return QSF_E_MEMORY;
    for (uint32_t i = 0; i < part->n_tensors; i++) list[i] = part->tensors[i].name;
    qsf_status st = qsf_gguf_names(g->tmp, g->s->path, list, part->n_tensors, &names, NULL, err);
    for (uint32_t i = 0; !st && i < part->n_tensors; i++)
        if (qsf_gguf_is_bitnet(&part->tensors[i]))
            st = bitnet_place(g, part, &names, &part->tensors[i], align, err);
    return st;
}
