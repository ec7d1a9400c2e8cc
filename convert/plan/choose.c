/* Chooses each tensor's type: by the named presets, the user's own rules, and a budget spent where
 * it helps most.
 * SPDX-License-Identifier: MIT */
#include "plan/choose.h"
#include "model/roles.h"

#include "plan/band.h"
#include "plan/budget.h"
#include "plan/equalize.h"
#include "plan/forms.h"
#include "plan/outliers.h"
#include "plan/ternary.h"
#include "tensor/trellis.h"

/* ---- patterns ---- */

/* * matches any string, ? any single byte.  Backtracking only goes to the last star, so the work is
 * at most len * len. */
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

/* ---- the choice without a budget ---- */

static qsf_status plan_set(convert_tensor *c, const input_tensor *t, const qsf_convert_options *o,
                           uint32_t type, uint32_t block, qsf_error *err)
{
    c->type = type;
    c->block = qsf_type_tiles(type) ? block : 1;
    c->packing = qsf_type_tiles(type) ? (uint8_t)o->packing : 0;
    return qsf_tensor_bytes(c->type, c->packing, c->block, t->rows, t->cols, &c->bytes, err);
}

/* Small matrices that keep 16 bits unless a rule names them: choosing a wrong expert is a large
 * error, and RWKV's low-rank matrices control how its state develops (llama.cpp keeps them,
 * too). */
static bool plan_stays(const input *in, const input_tensor *t)
{
    switch (t->kind) {
    case QSF_K_MIX_X: case QSF_K_MIX_STEP:      /* of Mamba, or RWKV's decays */
        return t->unit < in->hp.n_layers && in->hp.mixers && in->hp.mixers[t->unit] == QSF_MIXER_RWKV;
    case QSF_K_ROUTER: case QSF_K_MIX_RATE_IN: case QSF_K_MIX_RATE_OUT: case QSF_K_MIX_FIRST_IN:
    case QSF_K_MIX_FIRST_OUT: case QSF_K_MIX_GATE_IN: case QSF_K_MIX_GATE_OUT: return true;
    default: return false;
    }
}

/* A head that was tied keeps the tied matrix's form. */
static convert_form plan_form(const input *in, const input_tensor *t, const qsf_convert_options *o)
{
    const convert_forms *forms = qsf_conv_preset_forms(o->preset);
    if (t->kind == QSF_K_TOKEN_EMBD) return o->embd_clusters ? (convert_form){ QSF_T_2BIT, 64 } : forms->embd;
    if (plan_stays(in, t)) return (convert_form){ QSF_T_F16, 1 };
    if (t->kind == QSF_K_OUTPUT) return in->untied ? forms->embd : forms->head;
    return forms->layer;
}

static bool plan_matches(const qsf_convert_rule *rule, const input_tensor *t)
{
    return plan_glob(rule->pattern, t->name) || plan_glob(rule->pattern, qsf_kind_name(t->kind));
}

/* A matrix that is already ternary stays so, to the bit, whatever a preset chooses for other
 * matrices of layers. */
static qsf_status plan_ternary(input *in, uint32_t i, const qsf_convert_options *o, convert_tensor *c,
                               convert_form *f, qsf_error *err)
{
    const input_tensor *t = &in->tensors[i];
    const bool asked = f->type == QSF_T_TERNARY2 || f->type == QSF_T_TERNARY5;
    const bool may = !c->fixed && o->preset != QSF_CONVERT_F16 && t->unit < in->hp.n_layers;
    if (!asked && !may) return QSF_OK;
    const qsf_status st = qsf_conv_ternary_scale(in, i, qsf_conv_band_rows(t->cols), &c->scale, err);
    if (st) return st;
    if (c->scale == 0 && asked)
        return qsf_fail(err, QSF_E_ARGUMENT, "tensor %s is not ternary: its weights have more than one "
                        "magnitude, which %s cannot represent", t->name,
                        qsf_type_get(f->type)->name);
    if (c->scale == 0) return QSF_OK;
    if (!asked) f->type = QSF_T_TERNARY2;
    f->block = QSF_MAX_BLOCK;
    c->fixed = true;
    return QSF_OK;
}

static qsf_status plan_tensor(input *in, uint32_t i, const qsf_convert_options *o, convert_tensor *c,
                              qsf_error *err)
{
    const input_tensor *t = &in->tensors[i];
    convert_form f;
    memset(c, 0, sizeof *c);
    c->fixed = true;
    /* the format requires it */
    if (t->unit == in->hp.n_layers + 1 && t->kind != QSF_K_OUTPUT)
        return plan_set(c, t, o, QSF_T_F16, 1, err);
    if (t->kind == QSF_K_POS_EMBD) return plan_set(c, t, o, QSF_T_F16, 1, err);
    if (!qsf_input_is_matrix(t)) return plan_set(c, t, o, QSF_T_F32, 1, err);
    f = plan_form(in, t, o);
    if (o->block && !plan_stays(in, t)) f.block = o->block;
    c->fixed = plan_stays(in, t);
    for (size_t k = 0; k < o->n_rules; k++) {
        if (!plan_matches(&o->rules[k], t)) continue;
        c->fixed = true;
        qsf_conv_type_find(o->rules[k].type, &f.type);
        if (o->rules[k].block) f.block = o->rules[k].block;
        else if (qsf_trellis_bits(f.type)) f.block = QSF_TRELLIS_BLOCK;
        else if (f.block == 1) f.block = o->block ? o->block : 64;
    }
    const qsf_status st = plan_ternary(in, i, o, c, &f, err);
    return st ? st : plan_set(c, t, o, f.type, f.block, err);
}

/* A pattern without a match is a mistake that would otherwise go unnoticed. */
static qsf_status plan_check_rules(const input *in, const qsf_convert_options *o, qsf_error *err)
{
    for (size_t k = 0; k < o->n_rules; k++) {
        bool used = false;
        for (uint32_t i = 0; i < in->n_tensors && !used; i++)
            used = qsf_input_is_matrix(&in->tensors[i]) && plan_matches(&o->rules[k], &in->tensors[i]);
        if (!used)
            return qsf_fail(err, QSF_E_ARGUMENT, "no weight matrix matches the pattern \"%s\"",
                            o->rules[k].pattern);
    }
    return QSF_OK;
}

/* If the input is on a grid that the output can hold exactly, scaling channels would only move it
 * off that grid. */
static bool plan_equalizes(const input *in, const qsf_convert_options *o, const convert_report *r)
{
    for (uint32_t i = 0; i < in->n_tensors; i++)
        if (r->tensors[i].scale != 0) return false;
    if (o->effort >= 2) return o->equalize != QSF_CONVERT_OFF;
    if (o->equalize != QSF_CONVERT_AUTO) return o->equalize == QSF_CONVERT_ON;
    if (o->preset == QSF_CONVERT_F16 || o->preset == QSF_CONVERT_8BIT) return false;
    for (uint32_t i = 0; i < in->n_tensors; i++) {
        const input_tensor *t = &in->tensors[i];
        const bool own_grid = qsf_type_tiles(t->source_type) || t->source_type == QSF_T_GGML + 2 /* q4_0 */ ||
                              t->source_type == QSF_T_GGML + 6 /* q5_0 */;
        if (t->unit < in->hp.n_layers && qsf_input_is_matrix(t) && own_grid) return false;
    }
    return true;
}

qsf_status qsf_conv_plan(input *in, const qsf_convert_options *o, convert_report *r, qsf_error *err)
{
    qsf_status st;
    if ((st = plan_check_rules(in, o, err))) return st;
    if (!(r->tensors = qsf_arena_array(in->arena, in->n_tensors, sizeof *r->tensors, "conversion plan", err)))
        return QSF_E_MEMORY;
    for (uint32_t i = 0; i < in->n_tensors; i++) {
        if ((st = plan_tensor(in, i, o, &r->tensors[i], err))) return st;
        if (in->tensors[i].kind != QSF_K_TOKEN_EMBD || !r->embd_clusters) continue;
        if (qsf_trellis_bits(r->tensors[i].type))
            return qsf_fail(err, QSF_E_UNSUPPORTED, "tensor %s: an embedding in clusters cannot be %s",
                            in->tensors[i].name, qsf_type_get(r->tensors[i].type)->name);
        r->tensors[i].clusters = r->embd_clusters;
    }
    r->equalized = plan_equalizes(in, o, r);
    if (r->equalized && (st = qsf_conv_equalize(in, o, r, err))) return st;
    const bool by_error = o->preset == QSF_CONVERT_MIXED || o->preset == QSF_CONVERT_BY_LOSS;
    if ((o->target_bytes || by_error) && (st = qsf_conv_budget(in, o, r, err)))
        return st;
    return qsf_conv_outliers(in, o, r, err);
}
