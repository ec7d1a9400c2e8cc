/* Spends bytes where, according to the calibration, each reduces the divergence most.
 * SPDX-License-Identifier: MIT
 *
 * The divergence of the next token's distribution is approximated by a sum over matrices, each term
 * linear in the error of the matrix's outputs: the effect of one coarse form of the matrix is
 * measured (sensitivity.c), and those of the other forms follow from their errors
 * (encode/sample.c).  Only the forms of a matrix on the lower convex hull of divergence over bytes
 * are used; the steps along all hulls are taken in the order of their gain per byte, and a step
 * that does not fit ends its matrix's steps.  So a larger size never predicts a larger divergence.
 * The choice is passed to the conversion as rules. */
#include "spend.h"

#include "encode/sample.h"
#include "plan/budget.h"
#include "plan/caller.h"
#include "plan/choose.h"
#include "sensitivity.h"

enum {
    SPEND_FORMS = 13, SPEND_STEPS = 4,  /* trellises: columns in the order of steps */
    SPEND_COARSE = 1,                   /* that of QSF_SENS_TYPE */
    SPEND_EXPERTS = 4                   /* of a layer, that forms are tried on */
};
/* The forms of each preference, ordered by their bytes for a matrix without padding. */
#define SPEND_SMALL (1 << QSF_CONVERT_SIZE)
#define SPEND_FAST  (1 << QSF_CONVERT_SPEED)
static const struct { uint32_t type, block; int of; } spend_forms[SPEND_FORMS] = {
    { QSF_T_TRELLIS2, 64, SPEND_SMALL }, { QSF_T_TRELLIS3, 64, SPEND_SMALL },
    { QSF_T_TRELLIS4, 64, SPEND_SMALL }, { QSF_T_TRELLIS5, 64, SPEND_SMALL },
    { QSF_T_2BIT, 64, SPEND_FAST },      { QSF_T_TABLE3, 64, SPEND_FAST },  { QSF_T_TABLE3, 32, SPEND_FAST },
    { QSF_T_TABLE4, 64, SPEND_FAST },    { QSF_T_TABLE4, 32, SPEND_FAST },  { QSF_T_5BIT_S, 64, SPEND_FAST },
    { QSF_T_6BIT_S, 64, SPEND_SMALL | SPEND_FAST },
    { QSF_T_8BIT, 64, SPEND_SMALL | SPEND_FAST }, { QSF_T_F16, 1, SPEND_SMALL | SPEND_FAST },
};
#undef SPEND_SMALL
#undef SPEND_FAST

typedef struct spend_tensor {
    bool     open;                      /* there is a choice */
    bool     full;                      /* its next step did not fit */
    uint64_t bytes[SPEND_FORMS];
    double   loss[SPEND_FORMS];         /* of its outputs, relative; then predicted divergence */
    uint32_t hull[SPEND_FORMS], n_hull; /* forms, smallest first */
    uint32_t at;                        /* in hull: the choice */
} spend_tensor;

typedef struct spend_work {
    input                     *in;
    convert_calibration       *calibration;
    const qsf_convert_options *o;       /* effort is 2 or 3 */
    const char                *path;
    convert_report             plan;    /* types are the preset's; scales and what is fixed count */
    spend_tensor              *t;       /* [n_tensors] */
    bool                      *asked;   /* [n_tensors] open, for measuring */
    double                    *kl;      /* [n_tensors] */
    qsf_convert_prefer         prefer;  /* of the choice under way */
    double                     other_kl;        /* what the other preference would give */
    uint64_t                   other_bytes;
} spend_work;

/* ---- measuring ---- */

static convert_tensor spend_as(const spend_work *k, uint32_t i, int f)
{
    convert_tensor c = k->plan.tensors[i];
    c.type = spend_forms[f].type;
    c.block = spend_forms[f].block;
    c.packing = qsf_type_tiles(c.type) ? 1 : 0;
    return c;
}

/* Forms [from, to) of tensor i: a mean over some of its experts. */
static qsf_status spend_error(spend_work *k, encode_source *s, uint32_t i, int from, int to, qsf_error *err)
{
    const input_tensor *t = &k->in->tensors[i];
    const uint32_t all = qsf_enc_parts(s, t, &k->plan.tensors[i]), n = QSF_MIN(all, (uint32_t)SPEND_EXPERTS);
    qsf_status st = QSF_OK;
    for (int f = from; !st && f < to; f++) {
        const convert_tensor c = spend_as(k, i, f);
        k->t[i].loss[f] = 0;
        st = qsf_tensor_bytes(c.type, c.packing, c.block, t->rows, t->cols, &k->t[i].bytes[f], err);
    }
    for (uint32_t j = 0; j < n; j++) {
        s->expert = all > 1 ? 1 + (uint32_t)((uint64_t)j * (all - 1) / (n - 1)) : 0;
        for (int f = from; !st && f < to; f++) {
            const convert_tensor c = spend_as(k, i, f);
            double loss = 0;
            st = qsf_enc_sample(s, k->in, i, &c, &loss, err);
            k->t[i].loss[f] += loss / n;
        }
    }
    s->expert = 0;
    return st;
}

/* Forms [from, to) of all matrices: those of one order of columns after another, for a factor
 * serves all matrices that read one input. */
static qsf_status spend_errors(spend_work *k, encode_source *s, int from, int to, qsf_error *err)
{
    qsf_status st = QSF_OK;
    for (uint32_t i = 0; !st && i < k->in->n_tensors; i++) {
        if (!k->t[i].open) continue;
        if (qsf_conv_cancelled(k->o)) return qsf_fail(err, QSF_E_CANCELLED, "interrupted");
        qsf_conv_progress(k->o, "measure", k->in->tensors[i].name, i, k->in->n_tensors);
        st = spend_error(k, s, i, from, to, err);
    }
    return st;
}

/* A divergence that vanishes in rounding still means that errors do harm. */
#define SPEND_LEAST_KL 1e-7

static void spend_price(spend_work *k, bool known)
{
    for (uint32_t i = 0; i < k->in->n_tensors; i++) {
        spend_tensor *t = &k->t[i];
        if (!t->open) continue;
        const double coarse = t->loss[SPEND_COARSE];
        double each = qsf_conv_budget_sensitivity(k->in, k->in->tensors[i].kind);
        if (known) each = coarse > 0 ? QSF_MAX(k->kl[i], SPEND_LEAST_KL) / coarse : 0;
        for (int f = 0; f < SPEND_FORMS; f++) t->loss[f] *= each;
    }
}
#undef SPEND_LEAST_KL

/* ---- choosing ---- */

/* The embedding and the head begin at 3 bits. */
static bool spend_can_be(const spend_work *k, uint32_t tensor, uint32_t f)
{
    const uint32_t kind = k->in->tensors[tensor].kind, type = spend_forms[f].type;
    const bool outer = kind == QSF_K_TOKEN_EMBD || kind == QSF_K_OUTPUT;
    return spend_forms[f].of >> k->prefer & 1 && !(outer && (type == QSF_T_TRELLIS2 || type == QSF_T_2BIT));
}

static double spend_slope(const spend_tensor *t, uint32_t from, uint32_t to)
{
    return (t->loss[from] - t->loss[to]) / (double)(t->bytes[to] - t->bytes[from]);
}

static void spend_hull(const spend_work *k, uint32_t tensor)
{
    spend_tensor *t = &k->t[tensor];
    t->n_hull = t->at = 0;
    t->full = false;
    for (uint32_t f = 0; f < SPEND_FORMS; f++) {
        uint32_t *n = &t->n_hull;
        const uint32_t *h = t->hull;
        if (!spend_can_be(k, tensor, f)) continue;
        while (*n && t->bytes[f] <= t->bytes[h[*n - 1]] && t->loss[f] <= t->loss[h[*n - 1]]) --*n;
        if (*n && (t->bytes[f] <= t->bytes[h[*n - 1]] || t->loss[f] >= t->loss[h[*n - 1]])) continue;
        while (*n > 1 && spend_slope(t, h[*n - 2], h[*n - 1]) <= spend_slope(t, h[*n - 1], f)) --*n;
        t->hull[(*n)++] = f;
    }
}

static uint32_t spend_form_of(const spend_tensor *t) { return t->hull[t->at]; }

static double spend_predicted(const spend_work *k)
{
    double sum = 0;
    for (uint32_t i = 0; i < k->in->n_tensors; i++)
        if (k->t[i].open) sum += k->t[i].loss[spend_form_of(&k->t[i])];
    return sum;
}

/* The matrix whose next step gains most for a byte; n_tensors: none has one. */
static uint32_t spend_next(const spend_work *k)
{
    uint32_t best = k->in->n_tensors;
    double most = 0;
    for (uint32_t i = 0; i < k->in->n_tensors; i++) {
        const spend_tensor *t = &k->t[i];
        if (!t->open || t->full || t->at + 1 >= t->n_hull) continue;
        const double gain = spend_slope(t, t->hull[t->at], t->hull[t->at + 1]);
        if (gain <= most) continue;
        most = gain;
        best = i;
    }
    return best;
}

static void spend_steps(spend_work *k, uint64_t room)
{
    uint32_t i;
    while ((k->o->target_kl <= 0 || spend_predicted(k) > k->o->target_kl) &&
           (i = spend_next(k)) < k->in->n_tensors) {
        spend_tensor *t = &k->t[i];
        const uint64_t more = t->bytes[t->hull[t->at + 1]] - t->bytes[t->hull[t->at]];
        if (more > room) { t->full = true; continue; }
        room -= more;
        t->at++;
    }
}

/* Size of the file with the current choice. */
static uint64_t spend_bytes(const spend_work *k)
{
    uint64_t bytes = qsf_conv_budget_around(k->in, k->o);
    for (uint32_t i = 0; i < k->in->n_tensors; i++)
        bytes += k->t[i].open ? k->t[i].bytes[spend_form_of(&k->t[i])] : k->plan.tensors[i].bytes;
    return bytes;
}

/* Every matrix in its smallest form. */
static uint64_t spend_begin(spend_work *k, qsf_convert_prefer prefer)
{
    k->prefer = prefer;
    for (uint32_t i = 0; i < k->in->n_tensors; i++)
        if (k->t[i].open) spend_hull(k, i);
    return spend_bytes(k);
}

static void spend_compare(spend_work *k)
{
    const uint64_t target = k->o->target_bytes,
        smallest = spend_begin(k, k->o->prefer == QSF_CONVERT_SPEED ? QSF_CONVERT_SIZE : QSF_CONVERT_SPEED);
    if (target && smallest > target) return;
    spend_steps(k, target ? target - smallest : UINT64_MAX);
    k->other_kl = spend_predicted(k);
    k->other_bytes = spend_bytes(k);
}

static qsf_status spend_choose(spend_work *k, qsf_error *err)
{
    const uint64_t target = k->o->target_bytes, smallest = spend_begin(k, k->o->prefer);
    if (target && smallest > target)
        return qsf_fail(err, QSF_E_ARGUMENT,
                        "target_bytes (--target-size) %.1f MB: the smallest possible file of this model has "
                        "%.1f MB",
                        (double)target / 1e6, (double)smallest / 1e6 + 0.1);
    spend_steps(k, target ? target - smallest : UINT64_MAX);
    if (k->o->target_kl > 0 && spend_predicted(k) > k->o->target_kl)
        qsf_conv_warn(k->o, "target_kl (--target-kl) %g %s: %g is predicted", k->o->target_kl,
                      target ? "does not fit the size" : "is less than the largest types give",
                      spend_predicted(k));
    return QSF_OK;
}

/* ---- the conversion ---- */

/* Names before the user's own rules, which win. */
static qsf_status spend_convert(spend_work *k, const qsf_convert_options *from, convert_report *r,
                                qsf_error *err)
{
    qsf_convert_options o = *from;
    size_t n = 0;
    qsf_convert_rule *rules = qsf_arena_array(k->in->arena, k->in->n_tensors + (uint64_t)o.n_rules,
                                              sizeof *rules, "the choice", err);
    if (!rules) return QSF_E_MEMORY;
    for (uint32_t i = 0; i < k->in->n_tensors; i++) {
        if (!k->t[i].open) continue;
        const uint32_t f = spend_form_of(&k->t[i]), block = spend_forms[f].block;
        rules[n++] = (qsf_convert_rule){ k->in->tensors[i].name, qsf_type_get(spend_forms[f].type)->name,
                                         block > 1 ? block : 0 };
    }
    for (size_t i = 0; i < o.n_rules; i++) rules[n++] = from->rules[i];
    o.rules = rules;
    o.n_rules = n;
    o.target_bytes = 0;
    o.target_kl = 0;
    const qsf_status st = qsf_conv_run_calibrated(k->in, k->calibration, &o, k->path, r, err);
    r->other_kl = k->other_kl;
    r->other_bytes = k->other_bytes;
    for (uint32_t i = 0; !st && i < k->in->n_tensors; i++)
        if (k->t[i].open) r->tensors[i].predicted_kl = k->t[i].loss[spend_form_of(&k->t[i])];
    return st;
}

static qsf_status spend_hessian(void *user, uint32_t unit, uint32_t kind, uint32_t cols, float *h,
                                float *first, uint64_t *tokens, bool *diagonal, qsf_error *err)
{
    const qsf_status st = qsf_cal_hessian(user, unit, kind, cols, h, first, tokens, diagonal, err);
    if (st != QSF_E_NOT_FOUND) return st;
    *tokens = 0;
    return QSF_OK;
}

/* Which matrices have a choice, and with what scales they are encoded. */
static qsf_status spend_plan(spend_work *k, qsf_error *err)
{
    qsf_convert_options o = *k->o;
    o.target_bytes = 0;
    o.target_kl = 0;
    if (o.preset == QSF_CONVERT_MIXED || o.preset == QSF_CONVERT_BY_LOSS)
        o.preset = QSF_CONVERT_4BIT;        /* these presets would choose types by size as well */
    const qsf_status st = qsf_conv_plan(k->in, &o, &k->plan, err);
    for (uint32_t i = 0; !st && i < k->in->n_tensors; i++)
        k->asked[i] = k->t[i].open = !k->plan.tensors[i].fixed;
    return st;
}

static qsf_status spend_measure(spend_work *k, qsf_error *err)
{
    const encode_hessians h = { k->calibration, spend_hessian };
    encode_source s = { .in = k->in, .o = k->o, .hessians = &h };
    bool known;
    qsf_status st = spend_errors(k, &s, 0, SPEND_STEPS, err);
    if (!st) st = spend_errors(k, &s, SPEND_STEPS, SPEND_FORMS, err);
    qsf_enc_source_done(&s);
    if (!st) st = qsf_sens_measure(k->in, k->calibration, k->o, k->path, k->asked, k->kl, &known, err);
    if (!st) spend_price(k, known);
    return st;
}

static bool spend_can(const convert_calibration *calibration, const qsf_convert_options *o)
{
    return calibration && o->packing == 1 && (!o->block || o->block == 64) && !o->embd_clusters &&
           (o->effort < 0 || o->effort >= 2);
}

qsf_status qsf_spend_run(input *in, convert_calibration *calibration, const qsf_convert_options *o,
                         const char *path, convert_report *r, qsf_error *err)
{
    qsf_convert_options own = *o;
    spend_work k = { .in = in, .calibration = calibration, .o = &own, .path = path };
    const bool asked = o->target_bytes || o->target_kl > 0;
    qsf_status st;
    if (own.effort < 0) own.effort = 3;
    if (o->target_kl > 0 && !spend_can(calibration, o))
        return qsf_fail(err, QSF_E_ARGUMENT, "target_kl (--target-kl) needs a calibration (--calibrate self"
                        "), effort 2 or 3, tiles, blocks of 64 and no embd_clusters");
    if (!asked || !spend_can(calibration, o))
        return qsf_conv_run_calibrated(in, calibration, o, path, r, err);
    k.t = qsf_arena_array(in->arena, in->n_tensors, sizeof *k.t, "the choice", err);
    k.asked = k.t ? qsf_arena_array(in->arena, in->n_tensors, sizeof *k.asked, "the choice", err) : NULL;
    k.kl = k.asked ? qsf_arena_array(in->arena, in->n_tensors, sizeof *k.kl, "the choice", err) : NULL;
    if (!k.kl) return QSF_E_MEMORY;
    if ((st = spend_plan(&k, err)) || (st = spend_measure(&k, err))) return st;
    spend_compare(&k);
    st = spend_choose(&k, err);
    return st ? st : spend_convert(&k, o, r, err);
}
