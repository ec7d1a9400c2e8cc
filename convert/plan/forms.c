/* The types and blocks that a matrix can become, by name and by size.
 * SPDX-License-Identifier: MIT */
#include "plan/forms.h"

/* ---- by name ---- */

static const struct { const char *name; uint32_t type; } form_types[] = {
    { "2bit", QSF_T_2BIT }, { "2bit-sym", QSF_T_2BIT_SYM }, { "3bit", QSF_T_3BIT },
    { "3bit_s", QSF_T_3BIT_S }, { "4bit", QSF_T_4BIT }, { "4bit_s", QSF_T_4BIT_S },
    { "5bit_s", QSF_T_5BIT_S }, { "6bit_s", QSF_T_6BIT_S }, { "8bit", QSF_T_8BIT },
    { "2bit_s", QSF_T_2BIT_S }, { "qk256", QSF_T_QK256 },
    { "trellis2", QSF_T_TRELLIS2 }, { "trellis3", QSF_T_TRELLIS3 }, { "trellis4", QSF_T_TRELLIS4 },
    { "trellis5", QSF_T_TRELLIS5 }, { "table4", QSF_T_TABLE4 }, { "table3", QSF_T_TABLE3 },
    { "ternary", QSF_T_TERNARY }, { "ternary2", QSF_T_TERNARY2 }, { "ternary5", QSF_T_TERNARY5 },
    { "f16", QSF_T_F16 }, { "f32", QSF_T_F32 },
};

bool qsf_conv_type_find(const char *name, uint32_t *type)
{
    for (size_t i = 0; i < QSF_ARRAY_LEN(form_types); i++)
        if (!strcmp(form_types[i].name, name)) { *type = form_types[i].type; return true; }
    return false;
}

/* docs/quantisers.md has the measurements that these are based on. */
static const struct { const char *name; convert_forms forms;
} form_presets[] = {
    [QSF_CONVERT_2BIT] = { "2bit", { { QSF_T_2BIT, 64 }, { QSF_T_5BIT_S, 64 }, { QSF_T_5BIT_S, 64 } } },
    [QSF_CONVERT_2BIT_SYM] = { "2bit-sym",
                               { { QSF_T_2BIT_SYM, 64 }, { QSF_T_5BIT_S, 64 }, { QSF_T_5BIT_S, 64 } } },
    [QSF_CONVERT_3BIT] = { "3bit", { { QSF_T_3BIT, 64 }, { QSF_T_5BIT_S, 64 }, { QSF_T_5BIT_S, 64 } } },
    [QSF_CONVERT_4BIT] = { "4bit", { { QSF_T_4BIT_S, 32 }, { QSF_T_5BIT_S, 64 }, { QSF_T_6BIT_S, 64 } } },
    [QSF_CONVERT_TERNARY] = { "ternary",
                              { { QSF_T_TERNARY, 64 }, { QSF_T_5BIT_S, 64 }, { QSF_T_5BIT_S, 64 } } },
    [QSF_CONVERT_8BIT] = { "8bit", { { QSF_T_8BIT, 64 }, { QSF_T_8BIT, 64 }, { QSF_T_8BIT, 64 } } },
    [QSF_CONVERT_F16] = { "f16", { { QSF_T_F16, 1 }, { QSF_T_F16, 1 }, { QSF_T_F16, 1 } } },
    [QSF_CONVERT_TERNARY5] = { "ternary5", { { QSF_T_TERNARY5, 256 }, { QSF_T_6BIT_S, 64 },
                                             { QSF_T_6BIT_S, 64 } } },
    [QSF_CONVERT_BY_LOSS] = { "auto", { { QSF_T_4BIT_S, 32 }, { QSF_T_5BIT_S, 64 }, { QSF_T_6BIT_S, 64 } } },
    [QSF_CONVERT_MIXED] = { "mixed", { { QSF_T_4BIT_S, 32 }, { QSF_T_6BIT_S, 64 }, { QSF_T_6BIT_S, 64 } } },
};

const char *qsf_convert_preset_name(qsf_convert_preset p)
{
    return (size_t)p < QSF_ARRAY_LEN(form_presets) ? form_presets[p].name : "?";
}

bool qsf_convert_preset_find(const char *name, qsf_convert_preset *out)
{
    for (size_t i = 0; i < QSF_ARRAY_LEN(form_presets); i++)
        if (!strcmp(form_presets[i].name, name)) { *out = (qsf_convert_preset)i; return true; }
    return false;
}

const convert_forms *qsf_conv_preset_forms(qsf_convert_preset p) { return &form_presets[p].forms; }

/* ---- by size ---- */

/* Smallest first; at equal bits the better one of the measurements. */
static const convert_form form_sizes[CONVERT_FORMS] = {
    { QSF_T_2BIT, 64 }, { QSF_T_3BIT_S, 64 }, { QSF_T_3BIT_S, 32 }, { QSF_T_4BIT_S, 64 },
    { QSF_T_4BIT_S, 32 }, { QSF_T_4BIT, 32 }, { QSF_T_5BIT_S, 64 }, { QSF_T_5BIT_S, 32 },
    { QSF_T_6BIT_S, 64 }, { QSF_T_8BIT, 64 }, { QSF_T_F16, 1 },
};

void qsf_conv_set_form(int f, const qsf_convert_options *o, convert_tensor *c)
{
    c->type = form_sizes[f].type;
    c->block = o->block && form_sizes[f].block > 1 ? o->block : form_sizes[f].block;
    c->packing = qsf_type_tiles(c->type) ? (uint8_t)o->packing : 0;
}

bool qsf_conv_raise(const input_tensor *t, const qsf_convert_options *o, convert_tensor *c)
{
    for (int f = 0; f < CONVERT_FORMS; f++) {
        convert_tensor to = *c;
        qsf_conv_set_form(f, o, &to);
        if (qsf_tensor_bytes(to.type, to.packing, to.block, t->rows, t->cols, &to.bytes, NULL)) continue;
        if (to.bytes <= c->bytes) continue;
        *c = to;
        c->raised = true;
        return true;
    }
    return false;
}
