/* What each tensor becomes: the named presets, the user's own rules, and a budget spent where it helps most.
 * SPDX-License-Identifier: MIT */
#include "budget.h"

/* ---- names ---- */

static const struct { const char *name; uint32_t type; } plan_types[] = {
    { "2bit", QSF_T_2BIT }, { "2bit-sym", QSF_T_2BIT_SYM }, { "3bit", QSF_T_3BIT }, { "3bit_s", QSF_T_3BIT_S },
    { "4bit", QSF_T_4BIT }, { "4bit_s", QSF_T_4BIT_S }, { "5bit_s", QSF_T_5BIT_S }, { "6bit_s", QSF_T_6BIT_S },
    { "8bit", QSF_T_8BIT }, { "ternary", QSF_T_TERNARY }, { "f16", QSF_T_F16 }, { "f32", QSF_T_F32 },
};

bool convert_type_find(const char *name, uint32_t *type)
{
    for (size_t i = 0; i < QSF_ARRAY_LEN(plan_types); i++)
        if (!strcmp(plan_types[i].name, name)) { *type = plan_types[i].type; return true; }
    return false;
}

typedef struct plan_form { uint32_t type, block; } plan_form;

/* The preset's form for layers, for the embedding (which is the head, too, where the two are tied), and for a head of
 * its own.  docs/quantisers.md has the measurements behind them. */
static const struct { const char *name; plan_form layer, embd, head; } plan_presets[CONVERT_N_PRESETS] = {
    [CONVERT_2BIT]     = { "2bit",     { QSF_T_2BIT, 64 },     { QSF_T_5BIT_S, 64 }, { QSF_T_5BIT_S, 64 } },
    [CONVERT_2BIT_SYM] = { "2bit-sym", { QSF_T_2BIT_SYM, 64 }, { QSF_T_5BIT_S, 64 }, { QSF_T_5BIT_S, 64 } },
    [CONVERT_3BIT]     = { "3bit",     { QSF_T_3BIT, 64 },     { QSF_T_5BIT_S, 64 }, { QSF_T_5BIT_S, 64 } },
    [CONVERT_4BIT]     = { "4bit",     { QSF_T_4BIT_S, 32 },   { QSF_T_5BIT_S, 64 }, { QSF_T_6BIT_S, 64 } },
    [CONVERT_TERNARY]  = { "ternary",  { QSF_T_TERNARY, 64 },  { QSF_T_5BIT_S, 64 }, { QSF_T_5BIT_S, 64 } },
    [CONVERT_8BIT]     = { "8bit",     { QSF_T_8BIT, 64 },     { QSF_T_8BIT, 64 },   { QSF_T_8BIT, 64 } },
    [CONVERT_F16]      = { "f16",      { QSF_T_F16, 1 },       { QSF_T_F16, 1 },     { QSF_T_F16, 1 } },
    [CONVERT_MIXED]    = { "mixed",    { QSF_T_4BIT_S, 32 },   { QSF_T_6BIT_S, 64 }, { QSF_T_6BIT_S, 64 } },
};

const char *convert_preset_name(convert_preset p) { return p < CONVERT_N_PRESETS ? plan_presets[p].name : "?"; }

bool convert_preset_find(const char *name, convert_preset *out)
{
    for (int i = 0; i < CONVERT_N_PRESETS; i++)
        if (!strcmp(plan_presets[i].name, name)) { *out = (convert_preset)i; return true; }
    return false;
}

/* ---- patterns ---- */

/* * is any text, ? any one byte.  Only the last star is ever gone back to, so the work is at most len * len. */
static bool plan_glob(const char *pattern, const char *text)
{
    const char *star = NULL, *from = NULL;
    while (*text) {
        if (*pattern == '*') { star = pattern++; from = text; }
        else if (*pattern == '?' || *pattern == *text) { pattern++; text++; }
        else if (star) { pattern = star + 1; text = ++from; }
        else return false;
    }
    while (*pattern == '*') pattern++;
    return !*pattern;
}

bool convert_is_matrix(const input_tensor *t)
{
    return t->kind <= QSF_K_FFN_DOWN || t->kind == QSF_K_TOKEN_EMBD || t->kind == QSF_K_OUTPUT;
}

/* ---- the choice without a budget ---- */

static qsf_status plan_set(convert_tensor *c, const input_tensor *t, const convert_options *o, uint32_t type, uint32_t block, qsf_error *err)
{
    c->type = type;
    c->block = qsf_type_tiles(type) ? block : 1;
    c->packing = qsf_type_tiles(type) ? o->packing : 0;
    const qsf_status st = qsf_tensor_bytes(c->type, c->packing, c->block, t->rows, t->cols, &c->bytes, err);
    return st;
}

/* A head that was tied keeps the tied matrix's form. */
static plan_form plan_form_of(const input *in, const input_tensor *t, const convert_options *o)
{
    if (t->kind == QSF_K_TOKEN_EMBD) return o->embd_clusters ? (plan_form){ QSF_T_2BIT, 64 } : plan_presets[o->preset].embd;
    if (t->kind == QSF_K_OUTPUT) return in->untied ? plan_presets[o->preset].embd : plan_presets[o->preset].head;
    return plan_presets[o->preset].layer;
}

static qsf_status plan_tensor(const input *in, uint32_t i, const convert_options *o, convert_tensor *c, qsf_error *err)
{
    const input_tensor *t = &in->tensors[i];
    plan_form f;
    memset(c, 0, sizeof *c);
    c->fixed = true;
    if (t->unit == qsf_unit_number(in->hp.n_layers, qsf_id_final()) && t->kind != QSF_K_OUTPUT)
        return plan_set(c, t, o, QSF_T_F16, 1, err);            /* the format says so */
    if (t->kind == QSF_K_POS_EMBD) return plan_set(c, t, o, QSF_T_F16, 1, err);
    if (!convert_is_matrix(t)) return plan_set(c, t, o, QSF_T_F32, 1, err);
    f = plan_form_of(in, t, o);
    if (o->block) f.block = o->block;
    c->fixed = false;
    for (uint32_t k = 0; k < o->n_rules; k++)
        if (plan_glob(o->rules[k].pattern, t->name) || plan_glob(o->rules[k].pattern, qsf_kind_name(t->kind))) {
            c->fixed = true;
            f.type = o->rules[k].type;
            if (o->rules[k].block) f.block = o->rules[k].block;
            else if (f.block == 1) f.block = o->block ? o->block : 64;
        }
    return plan_set(c, t, o, f.type, f.block, err);
}

/* A pattern that matches nothing is a mistake that would otherwise go unseen. */
static qsf_status plan_check_rules(const input *in, const convert_options *o, qsf_error *err)
{
    for (uint32_t k = 0; k < o->n_rules; k++) {
        bool used = false;
        for (uint32_t i = 0; i < in->n_tensors && !used; i++)
            used = convert_is_matrix(&in->tensors[i]) && (plan_glob(o->rules[k].pattern, in->tensors[i].name) ||
                                                          plan_glob(o->rules[k].pattern, qsf_kind_name(in->tensors[i].kind)));
        if (!used) return qsf_fail(err, QSF_E_ARGUMENT, "no weight matrix matches the pattern \"%s\"", o->rules[k].pattern);
    }
    return QSF_OK;
}

/* Where the input lies on a grid that the output can hold as it is, scaling channels would only move it off. */
static bool plan_equalizes(const input *in, const convert_options *o)
{
    if (o->equalize != CONVERT_AUTO) return o->equalize == CONVERT_ON;
    if (o->preset == CONVERT_F16 || o->preset == CONVERT_8BIT) return false;
    for (uint32_t i = 0; i < in->n_tensors; i++) {
        const input_tensor *t = &in->tensors[i];
        const bool own_grid = qsf_type_tiles(t->source_type) || t->source_type == QSF_T_GGML + 2 /* q4_0 */ || t->source_type == QSF_T_GGML + 6 /* q5_0 */;
        if (t->unit < in->hp.n_layers && convert_is_matrix(t) && own_grid) return false;
    }
    return true;
}

qsf_status convert_plan(input *in, const convert_options *o, convert_report *r, qsf_error *err)
{
    qsf_status st;
    if ((st = plan_check_rules(in, o, err))) return st;
    if (!(r->tensors = qsf_arena_array(in->arena, in->n_tensors, sizeof *r->tensors, "conversion plan", err))) return QSF_E_MEMORY;
    for (uint32_t i = 0; i < in->n_tensors; i++) {
        if ((st = plan_tensor(in, i, o, &r->tensors[i], err))) return st;
        if (in->tensors[i].kind == QSF_K_TOKEN_EMBD) r->tensors[i].clusters = r->embd_clusters;
    }
    r->equalized = plan_equalizes(in, o);
    if (r->equalized && (st = convert_equalize(in, o, r, err))) return st;
    if ((o->target_bytes || o->preset == CONVERT_MIXED) && (st = convert_budget(in, o, r, err))) return st;
    return convert_outliers(in, o, r, err);
}
