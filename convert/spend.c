/* Spends bytes where calibration says that a byte takes most of the divergence away.
 * SPDX-License-Identifier: MIT
 *
 * The divergence of the next token's distribution is taken to be a sum over matrices, each linear
 * in the error of its outputs: what one coarse form of the matrix does to the model is measured
 * (sensitivity.c), and the other forms' parts follow from their errors (encode/sample.c).  Of each
 * matrix only forms on the lower convex hull of divergence over bytes are used; the steps along
 * all hulls are taken by their gain for a byte, and one that does not fit ends its matrix's steps.
 * So a larger size never predicts more.  The choice goes to the conversion as rules.
 *
 * Large divergences are no sum: coarse matrices make one another's errors matter more.  Where a size
 * leaves much, the chosen model is made and measured, each matrix of it with its next form, and the
 * choice is made again with these prices, as long as that helps. */
#include "spend.h"

#include "encode/sample.h"
#include "plan/budget.h"
#include "plan/caller.h"
#include "plan/choose.h"
#include "sensitivity.h"

enum { SPEND_FORMS = 7, SPEND_COARSE = 1 /* that of QSF_SENS_TYPE */,
       SPEND_ROUNDS = 2 /* of prices in context */ };
static const struct { uint32_t type, block; } spend_forms[SPEND_FORMS] = {
    { QSF_T_TRELLIS2, 64 }, { QSF_T_TRELLIS3, 64 }, { QSF_T_TRELLIS4, 64 }, { QSF_T_TRELLIS5, 64 },
    { QSF_T_6BIT_S, 64 }, { QSF_T_8BIT, 64 }, { QSF_T_F16, 1 },
};

typedef struct spend_tensor {
    bool     open;                      /* there is a choice */
    bool     full;                      /* its next step did not fit */
    uint64_t bytes[SPEND_FORMS];
    double   loss[SPEND_FORMS];         /* of its outputs, relative; then predicted divergence */
    uint32_t hull[SPEND_FORMS], n_hull; /* forms, smallest first */
    uint32_t at;                        /* in hull: the choice */
    uint32_t kept;                      /* and that of the best model that was measured */
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
    bool                       known;   /* sensitivities are the model's own */
    double                     whole;   /* divergence of the chosen model, measured; 0: it was not */
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

/* Forms [from, to) of all matrices: those of one order of columns after another, for a factor
 * serves all matrices that read one input. */
static qsf_status spend_errors(spend_work *k, encode_source *s, int from, int to, qsf_error *err)
{
    qsf_status st = QSF_OK;
    for (uint32_t i = 0; !st && i < k->in->n_tensors; i++) {
        const input_tensor *t = &k->in->tensors[i];
        if (!k->t[i].open) continue;
        if (qsf_conv_cancelled(k->o)) return qsf_fail(err, QSF_E_CANCELLED, "interrupted");
        qsf_conv_progress(k->o, "measure", t->name, i, k->in->n_tensors);
        for (int f = from; !st && f < to; f++) {
            const convert_tensor c = spend_as(k, i, f);
            st = qsf_tensor_bytes(c.type, c.packing, c.block, t->rows, t->cols, &k->t[i].bytes[f], err);
            if (!st) st = qsf_enc_sample(s, k->in, i, &c, &k->t[i].loss[f], err);
        }
    }
    return st;
}

/* A divergence that is lost in rounding still says that errors are no good. */
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
static uint32_t spend_least(const input_tensor *t)
{
    return t->kind == QSF_K_TOKEN_EMBD || t->kind == QSF_K_OUTPUT ? 1 : 0;
}

static double spend_slope(const spend_tensor *t, uint32_t from, uint32_t to)
{
    return (t->loss[from] - t->loss[to]) / (double)(t->bytes[to] - t->bytes[from]);
}

static void spend_hull(spend_tensor *t, uint32_t least)
{
    t->n_hull = t->at = 0;
    t->full = false;
    for (uint32_t f = least; f < SPEND_FORMS; f++) {
        uint32_t *n = &t->n_hull;
        const uint32_t *h = t->hull;
        if (*n && (t->bytes[f] <= t->bytes[h[*n - 1]] || t->loss[f] >= t->loss[h[*n - 1]])) continue;
        while (*n > 1 && spend_slope(t, h[*n - 2], h[*n - 1]) <= spend_slope(t, h[*n - 1], f)) --*n;
        t->hull[(*n)++] = f;
    }
}

static uint32_t spend_form_of(const spend_tensor *t) { return t->hull[t->at]; }

/* The next one, or where there is none the one before. */
static uint32_t spend_other(const spend_tensor *t)
{
    if (t->at + 1 < t->n_hull) return t->hull[t->at + 1];
    return t->hull[t->at ? t->at - 1 : 0];
}

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

static qsf_status spend_choose(spend_work *k, qsf_error *err)
{
    const uint64_t around = qsf_conv_budget_around(k->in, k->o), target = k->o->target_bytes;
    uint64_t smallest = around;
    for (uint32_t i = 0; i < k->in->n_tensors; i++) {
        if (k->t[i].open) spend_hull(&k->t[i], spend_least(&k->in->tensors[i]));
        smallest += k->t[i].open ? k->t[i].bytes[spend_form_of(&k->t[i])] : k->plan.tensors[i].bytes;
    }
    if (target && smallest > target)
        return qsf_fail(err, QSF_E_ARGUMENT,
                        "target_bytes (--target-size) %.1f MB: the smallest file this model gets is %.1f MB",
                        (double)target / 1e6, (double)smallest / 1e6 + 0.1);
    spend_steps(k, target ? target - smallest : UINT64_MAX);
    if (k->o->target_kl > 0 && spend_predicted(k) > k->o->target_kl)
        qsf_conv_warn(k->o, "target_kl (--target-kl) %g does not fit the size: %g is predicted",
                      k->o->target_kl, spend_predicted(k));
    return QSF_OK;
}

/* ---- in context ---- */

/* Names before the user's own rules, which win.  other: of each matrix the next form, or the one
 * before the last. */
static qsf_status spend_rules(const spend_work *k, bool other, qsf_convert_rule **out, size_t *n,
                              qsf_error *err)
{
    const qsf_convert_options *o = k->o;
    qsf_convert_rule *rules = *out = qsf_arena_array(k->in->arena, k->in->n_tensors + (uint64_t)o->n_rules,
                                                     sizeof *rules, "the choice", err);
    if (!rules) return QSF_E_MEMORY;
    *n = 0;
    for (uint32_t i = 0; i < k->in->n_tensors; i++) {
        if (!k->t[i].open) continue;
        const uint32_t f = other ? spend_other(&k->t[i]) : spend_form_of(&k->t[i]);
        rules[(*n)++] = (qsf_convert_rule){ k->in->tensors[i].name, qsf_type_get(spend_forms[f].type)->name,
                                            spend_forms[f].block > 1 ? spend_forms[f].block : 0 };
    }
    for (size_t i = 0; i < o->n_rules; i++) rules[(*n)++] = o->rules[i];
    return QSF_OK;
}

/* What the exchange of one matrix does to the whole model says what a part of its error costs there,
 * within limits, for the texts are few; then all parts together are what was measured. */
static void spend_price_again(spend_work *k)
{
    double sum = 0;
    for (uint32_t i = 0; i < k->in->n_tensors; i++) {
        spend_tensor *t = &k->t[i];
        if (!t->open) continue;
        const double own = t->loss[spend_form_of(t)], by = own - t->loss[spend_other(t)];
        const double more = by != 0 ? QSF_MIN(QSF_MAX((k->whole - k->kl[i]) / by, 0.25), 8) : 1;
        for (int f = 0; f < SPEND_FORMS; f++) t->loss[f] *= more;
        sum += own * more;
    }
    for (uint32_t i = 0; sum > 0 && i < k->in->n_tensors; i++)
        for (int f = 0; f < SPEND_FORMS; f++) k->t[i].loss[f] *= k->whole / sum;
}

/* The choice under way was measured; false: the one before was no worse, and stays. */
static bool spend_keep(spend_work *k, double kl)
{
    const bool better = k->whole <= 0 || kl < k->whole;
    for (uint32_t i = 0; i < k->in->n_tensors; i++) {
        if (better) k->t[i].kept = k->t[i].at;
        else k->t[i].at = k->t[i].kept;
    }
    if (better) k->whole = kl;
    return better;
}

static bool spend_is_kept(const spend_work *k)
{
    for (uint32_t i = 0; i < k->in->n_tensors; i++)
        if (k->t[i].open && k->t[i].at != k->t[i].kept) return false;
    return true;
}

static qsf_status spend_in_context(spend_work *k, qsf_error *err)
{
    bool known = true;
    for (int round = 0; round <= SPEND_ROUNDS; round++) {
        qsf_convert_rule *own, *other;
        size_t n;
        double kl;
        qsf_status st = spend_rules(k, false, &own, &n, err);
        if (!st) st = spend_rules(k, true, &other, &n, err);
        if (st) return st;
        const qsf_sens_choice c = { own, other, n, round < SPEND_ROUNDS ? k->asked : NULL };
        st = qsf_sens_in_context(k->in, k->calibration, k->o, k->path, &c, &kl, k->kl, &known, err);
        if (st || !known || !spend_keep(k, kl) || round == SPEND_ROUNDS) return st;
        spend_price_again(k);
        if ((st = spend_choose(k, err)) || spend_is_kept(k)) return st;
    }
    return QSF_OK;
}

/* Divergences above this one are no sum. */
#define SPEND_MUCH 0.1

/* Under a size alone: a divergence that is asked for goes by sums. */
static bool spend_asks_context(const spend_work *k)
{
    const double kl = spend_predicted(k);
    return k->known && k->o->target_bytes && kl > SPEND_MUCH && !(k->o->target_kl >= kl);
}
#undef SPEND_MUCH

/* ---- the conversion ---- */

static qsf_status spend_convert(spend_work *k, const qsf_convert_options *from, convert_report *r,
                                qsf_error *err)
{
    qsf_convert_options o = *from;
    qsf_convert_rule *rules;
    size_t n;
    qsf_status st = spend_rules(k, false, &rules, &n, err);
    if (st) return st;
    o.rules = rules;
    o.n_rules = n;
    o.target_bytes = 0;
    o.target_kl = 0;
    st = qsf_conv_run_calibrated(k->in, k->calibration, &o, k->path, r, err);
    const double sum = spend_predicted(k), by = k->whole > 0 && sum > 0 ? k->whole / sum : 1;
    for (uint32_t i = 0; !st && i < k->in->n_tensors; i++)
        if (k->t[i].open) r->tensors[i].predicted_kl = k->t[i].loss[spend_form_of(&k->t[i])] * by;
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
    if (o.preset == QSF_CONVERT_MIXED) o.preset = QSF_CONVERT_4BIT;     /* it would spend bytes, too */
    const qsf_status st = qsf_conv_plan(k->in, &o, &k->plan, err);
    for (uint32_t i = 0; !st && i < k->in->n_tensors; i++)
        k->asked[i] = k->t[i].open = !k->plan.tensors[i].fixed;
    return st;
}

static qsf_status spend_measure(spend_work *k, qsf_error *err)
{
    const encode_hessians h = { k->calibration, spend_hessian };
    encode_source s = { .in = k->in, .o = k->o, .hessians = &h };
    qsf_status st = spend_errors(k, &s, 0, 4, err);         /* trellis forms have an order of their own */
    if (!st) st = spend_errors(k, &s, 4, SPEND_FORMS, err);
    qsf_enc_source_done(&s);
    if (!st) st = qsf_sens_measure(k->in, k->calibration, k->o, k->path, k->asked, k->kl, &k->known, err);
    if (!st) spend_price(k, k->known);
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
    if ((st = spend_plan(&k, err)) || (st = spend_measure(&k, err)) || (st = spend_choose(&k, err))) return st;
    if (spend_asks_context(&k) && (st = spend_in_context(&k, err))) return st;
    return spend_convert(&k, o, r, err);
}
