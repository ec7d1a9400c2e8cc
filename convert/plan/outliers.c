/* The few largest weights of a row, stored separately in fp16, so that their blocks need not cover
 * them.
 * SPDX-License-Identifier: MIT
 *
 * An outlier is more than three standard deviations from its row's mean.  The original format
 * specification clamps a few outliers, stores up to one in a hundred separately, and gives the
 * matrix more bits beyond that.  Whether this pays is measured: per byte (6 for each outlier, 4 for
 * each row) it must remove clearly more error than any larger form, because outliers also cost
 * time: they are added one by one. */
#include "plan/outliers.h"

#include "plan/band.h"
#include "plan/forms.h"
#include "plan/loss.h"
#include "plan/stored.h"
#include "plan/team.h"
#include "tensor/trellis.h"

#define OUTLIER_MOST   0.01         /* of the weights */
#define OUTLIER_MARGIN 2.0
enum { OUTLIER_BYTES = 6, OUTLIER_RIVALS = 5 };

typedef struct outlier_work {
    input                     *in;
    const qsf_convert_options *o;
    convert_report            *r;
    convert_band              *bands;       /* one a thread */
} outlier_work;

/* Only matrices of layers at 4 bits and less: with more bits, every weight of a block is close to a
 * level.  A trellis is not divided into blocks. */
static bool outlier_possible(const input *in, uint32_t i, const convert_tensor *c)
{
    const qsf_type_info *info = qsf_type_get(c->type);
    return in->tensors[i].unit < in->hp.n_layers && qsf_input_is_matrix(&in->tensors[i]) &&
           qsf_type_tiles(c->type) && !qsf_trellis_bits(c->type) && info->bits <= 4 && c->scale == 0;
}

/* The most error that a byte takes away when it goes to a larger form instead. */
static qsf_status outlier_rival(outlier_work *k, uint32_t i, double now, convert_band *b, double *best,
                                qsf_error *err)
{
    convert_tensor larger = k->r->tensors[i];
    const uint64_t bytes = larger.bytes;
    *best = 0;
    for (int n = 0; n < OUTLIER_RIVALS && qsf_conv_raise(&k->in->tensors[i], k->o, &larger); n++) {
        qsf_quant_error e;
        const qsf_status st = qsf_conv_measure(k->in, i, &larger, b, &e, NULL, err);
        if (st) return st;
        *best = QSF_MAX(*best, (now - qsf_conv_relative_error(&e)) / (double)(larger.bytes - bytes));
    }
    return QSF_OK;
}

static qsf_status outlier_one(void *user, uint32_t i, uint32_t thread, qsf_error *err)
{
    outlier_work *k = user;
    const input_tensor *t = &k->in->tensors[i];
    convert_tensor *c = &k->r->tensors[i], with = *c;
    convert_band *b = &k->bands[thread];
    qsf_quant_error none, apart;
    double share, rival;
    input_stored from;
    if (!outlier_possible(k->in, i, c)) return QSF_OK;
    qsf_status st = qsf_conv_stored(k->in, i, c, &from, err);
    if (st) return st;
    c->keeps_outliers = from.sparse != NULL;
    if (from.sparse || (from.bytes && k->o->outliers == QSF_CONVERT_AUTO)) return QSF_OK;
    /* Experts whose weights are stored in two places cannot be read alone. */
    if (k->o->outliers == QSF_CONVERT_AUTO && qsf_kind_is_experts(t->kind)) return QSF_OK;
    with.keeps_outliers = true;
    if ((st = qsf_conv_measure(k->in, i, c, b, &none, NULL, err)) ||
        (st = qsf_conv_measure(k->in, i, &with, b, &apart, &share, err)))
        return st;
    if (share == 0) return QSF_OK;
    if (k->o->outliers == QSF_CONVERT_ON) {
        if (share <= OUTLIER_MOST) c->keeps_outliers = true;
        else if (!c->fixed) qsf_conv_raise(t, k->o, c);
        return QSF_OK;
    }
    if (share > OUTLIER_MOST) return QSF_OK;
    const double weights = (double)t->rows * t->cols,
                 bytes = share * weights * OUTLIER_BYTES + 4.0 * ((double)t->rows + 1);
    const double before = qsf_conv_relative_error(&none),
                 gain = (before - qsf_conv_relative_error(&apart)) / bytes;
    if ((st = outlier_rival(k, i, before, b, &rival, err))) return st;
    c->keeps_outliers = gain > OUTLIER_MARGIN * rival;
    return QSF_OK;
}

qsf_status qsf_conv_outliers(input *in, const qsf_convert_options *o, convert_report *r, qsf_error *err)
{
    outlier_work k = { .in = in, .o = o, .r = r };
    const qsf_platform *p = in->platform;
    const uint32_t n_threads = qsf_conv_threads(p, o);
    uint32_t cols = 0;
    /* Error feedback makes up for them. */
    if (o->effort >= 2) return QSF_OK;
    /* A target size has spent its bytes already, where they gain most. */
    if (o->outliers == QSF_CONVERT_OFF || (o->target_bytes && o->outliers == QSF_CONVERT_AUTO)) return QSF_OK;
    for (uint32_t i = 0; i < in->n_tensors; i++)
        if (outlier_possible(in, i, &r->tensors[i])) cols = QSF_MAX(cols, in->tensors[i].cols);
    if (!cols) return QSF_OK;
    qsf_status st = qsf_conv_bands_new(p, n_threads, cols, &k.bands, err);
    if (!st) st = qsf_conv_parallel(p, o, n_threads, in->n_tensors, outlier_one, &k, err);
    qsf_conv_bands_free(p, n_threads, k.bands);
    return st;
}

#undef OUTLIER_MOST
#undef OUTLIER_MARGIN
