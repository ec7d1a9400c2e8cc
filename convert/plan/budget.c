/* Chooses types for a given size: bytes are spent where each reduces the expected loss most.
 * SPDX-License-Identifier: MIT
 *
 * The loss of a model is approximated by a sum over its matrices of sensitivity times relative
 * squared error, which is accurate for small errors (Malinovskii et al. 2024, arXiv:2411.17525).
 * The errors are measured, on rows from all over the matrix; the sensitivities of the kinds were
 * measured once and are in docs/quantisers.md.  Starting from the smallest types, the change with
 * the largest gain per byte is made until no change fits. */
#include "plan/budget.h"

#include "model/qsf_ext.h"
#include "model/qsf_file.h"
#include "plan/band.h"
#include "plan/clusters.h"
#include "plan/forms.h"
#include "plan/loss.h"
#include "plan/team.h"

/* Returns 0 for a kind that was not measured. */
static double kind_sensitivity(const input *in, uint32_t kind)
{
    const double layer = 1.0 / QSF_MAX(in->hp.n_layers, 1);
    switch (kind) {
    case QSF_K_ATTN_Q:     return 1.5 * layer;
    case QSF_K_ATTN_K:     return 2.0 * layer;
    case QSF_K_ATTN_V:     return 7.0 * layer;
    case QSF_K_ATTN_OUT:   return 2.2 * layer;
    case QSF_K_EXPERT_GATE:
    case QSF_K_FFN_GATE:   return 4.6 * layer;
    case QSF_K_EXPERT_UP:
    case QSF_K_FFN_UP:     return 8.7 * layer;
    case QSF_K_EXPERT_DOWN:
    case QSF_K_FFN_DOWN:   return 8.6 * layer;
    case QSF_K_TOKEN_EMBD: return in->hp.tied ? 13.8 : 4.0;
    case QSF_K_OUTPUT:     return 10.0;
    default:               return 0;
    }
}

double qsf_conv_budget_sensitivity(const input *in, uint32_t kind)
{
    const double known = kind_sensitivity(in, kind);
    return known > 0 ? known : 10.0;
}

/* The table was measured on SmolLM2, whose layers have 106 million weights.  The divergence caused
 * by a given error falls roughly with the square root of the layers' size (docs/quantisers.md lists
 * the models measured). */
double qsf_conv_loss_sensitivity(const input *in, const input_tensor *t)
{
    const double measured = 106e6, known = kind_sensitivity(in, t->kind);
    double weights = 0;
    for (uint32_t i = 0; i < in->n_tensors; i++)
        if (in->tensors[i].unit < in->hp.n_layers && qsf_input_is_matrix(&in->tensors[i]))
            weights += (double)in->tensors[i].rows * in->tensors[i].cols;
    const double size = weights > 0 ? sqrt(measured / weights) : 1;
    return (known > 0 ? known : 5.0 / QSF_MAX(in->hp.n_layers, 1)) * QSF_MIN(size, 1);
}

typedef struct budget_form { uint64_t bytes; double loss; bool usable; } budget_form;
typedef struct budget_tensor {
    budget_form form[CONVERT_FORMS];
    double      sensitivity;
    int         chosen;
} budget_tensor;

typedef struct budget_work {
    input                     *in;
    const qsf_convert_options *o;
    convert_report            *r;
    budget_tensor             *t;
    convert_band              *bands;       /* one a thread */
} budget_work;

/* ---- measuring ---- */

static qsf_status budget_measure(budget_work *k, uint32_t i, int f, convert_band *b, qsf_error *err)
{
    const input_tensor *t = &k->in->tensors[i];
    convert_tensor c = k->r->tensors[i];
    qsf_quant_error e;
    qsf_conv_set_form(f, k->o, &c);
    qsf_status st =
        qsf_tensor_bytes(c.type, c.packing, c.block, t->rows, t->cols, &k->t[i].form[f].bytes, err);
    if (!st) st = qsf_conv_measure(k->in, i, &c, b, &e, NULL, err);
    if (!st) k->t[i].form[f].loss = k->t[i].sensitivity * qsf_conv_relative_error(&e);
    return st;
}

static qsf_status budget_one_tensor(void *user, uint32_t i, uint32_t thread, qsf_error *err)
{
    budget_work *k = user;
    qsf_status st = QSF_OK;
    for (int f = 0; st == QSF_OK && !k->r->tensors[i].fixed && f < CONVERT_FORMS; f++)
        if (k->t[i].form[f].usable) st = budget_measure(k, i, f, &k->bands[thread], err);
    return st;
}

static qsf_status budget_measure_all(budget_work *k, qsf_error *err)
{
    const qsf_platform *p = k->in->platform;
    const uint32_t n_threads = qsf_conv_threads(p, k->o);
    uint32_t cols = 0;
    for (uint32_t i = 0; i < k->in->n_tensors; i++)
        if (!k->r->tensors[i].fixed) cols = QSF_MAX(cols, k->in->tensors[i].cols);
    qsf_status st = qsf_conv_bands_new(p, n_threads, cols, &k->bands, err);
    if (!st) st = qsf_conv_parallel(p, k->o, n_threads, k->in->n_tensors, budget_one_tensor, k, err);
    qsf_conv_bands_free(p, n_threads, k->bands);
    return st;
}

/* ---- choosing ---- */

static int budget_next(const budget_tensor *t, uint64_t room, double *best)
{
    const budget_form *now = &t->form[t->chosen];
    int next = -1;
    for (int f = 0; f < CONVERT_FORMS; f++) {
        const budget_form *to = &t->form[f];
        if (!to->usable || to->bytes <= now->bytes || to->bytes - now->bytes > room || to->loss >= now->loss)
            continue;
        const double gain = (now->loss - to->loss) / (double)(to->bytes - now->bytes);
        if (gain <= *best) continue;
        *best = gain;
        next = f;
    }
    return next;
}

/* The tensors' own bytes; *room becomes the part that the smallest forms leave free. */
static bool budget_start(budget_work *k, uint64_t limit, uint64_t *smallest, uint64_t *room)
{
    *smallest = 0;
    for (uint32_t i = 0; i < k->in->n_tensors; i++) {
        budget_tensor *t = &k->t[i];
        t->chosen = -1;
        if (k->r->tensors[i].fixed) { *smallest += k->r->tensors[i].bytes; continue; }
        for (int f = 0; f < CONVERT_FORMS; f++)
            if (t->form[f].usable && (t->chosen < 0 || t->form[f].bytes < t->form[t->chosen].bytes))
                t->chosen = f;
        *smallest += t->form[t->chosen].bytes;
    }
    *room = limit > *smallest ? limit - *smallest : 0;
    return limit >= *smallest;
}

static double budget_loss(const budget_work *k)
{
    double sum = 0;
    for (uint32_t i = 0; i < k->in->n_tensors; i++)
        if (!k->r->tensors[i].fixed) sum += k->t[i].form[k->t[i].chosen].loss;
    return sum;
}

/* Spends until no room remains or the estimated loss is at most `enough`. */
static void budget_spend(budget_work *k, uint64_t room, double enough)
{
    for (double loss = budget_loss(k); loss > enough;) {
        double best = 0;
        int form = -1;
        uint32_t at = 0;
        for (uint32_t i = 0; i < k->in->n_tensors; i++) {
            if (k->r->tensors[i].fixed) continue;
            const int f = budget_next(&k->t[i], room, &best);
            if (f >= 0) { form = f; at = i; }
        }
        if (form < 0) return;
        loss -= k->t[at].form[k->t[at].chosen].loss - k->t[at].form[form].loss;
        room -= k->t[at].form[form].bytes - k->t[at].form[k->t[at].chosen].bytes;
        k->t[at].chosen = form;
    }
}

static void budget_settle(budget_work *k)
{
    for (uint32_t i = 0; i < k->in->n_tensors; i++) {
        convert_tensor *c = &k->r->tensors[i];
        if (c->fixed) continue;
        qsf_conv_set_form(k->t[i].chosen, k->o, c);
        c->bytes = k->t[i].form[k->t[i].chosen].bytes;
    }
}

/* ---- the file around the tensors ---- */

/* Checksums of `rows` rows: a word for each chunk of bytes, and no matrix has more than floats. */
static uint64_t budget_checksums(const qsf_hparams *hp, uint64_t rows)
{
    return ((rows + 64) * (hp->n_embd + (uint64_t)QSF_MAX_BLOCK) * 4 / QSF_CRC_CHUNK + 4) * 4;
}

/* A tensor has three lines in the directory (room for outliers and a scale), a header and another
 * one that fills the way to a multiple of 64; twice, for its scale. */
uint64_t qsf_conv_budget_around(const input *in, const qsf_convert_options *o)
{
    enum { TENSOR = 3 * QSF_DIR_BYTES + 2 * (2 * QSF_TENSOR_HEAD + QSF_DATA_ALIGN), KEYS = 1024 };
    const qsf_hparams *hp = &in->hp;
    const uint64_t learned = hp->learned_pos ? hp->n_ctx_train : 0,
        crcs = hp->n_experts ? 4 * (1 + (uint64_t)hp->n_experts) : 0;   /* experts that are read alone */
    qsf_ext_out size = { 0 };
    qsf_ext_put_hparams(&size, hp);
    qsf_ext_put_meta(&size, in->meta, in->n_meta);
    qsf_ext_put_vocab(&size, &in->vocab);
    return QSF_HEADER_BYTES + (uint64_t)hp->n_layers * (QSF_ENTRY_BYTES + crcs) + size.len + KEYS +
           2 * budget_checksums(hp, hp->n_vocab + hp->n_vocab / QSF_MAX_BLOCK + learned) +
           ((uint64_t)qsf_units_of(hp->n_layers) + 1) * QSF_UNIT_ALIGN + (uint64_t)in->n_tensors * TENSOR +
           qsf_conv_clusters_bytes(in, o);
}

/* The budget of `mixed`: this many bits for each weight of a matrix, and no type under 4 bits. */
#define BUDGET_MIXED_BITS 5.35
/* `auto` stops at this estimated loss, in nats per token, or at this many bits per weight. */
#define BUDGET_AUTO_LOSS 0.1
#define BUDGET_AUTO_BITS 6.6

static uint64_t budget_limit(const input *in, const qsf_convert_options *o, const convert_report *r)
{
    const uint64_t around = qsf_conv_budget_around(in, o);
    const double bits = o->preset == QSF_CONVERT_BY_LOSS ? BUDGET_AUTO_BITS : BUDGET_MIXED_BITS;
    double bytes = 0;
    if (o->target_bytes) return o->target_bytes > around ? o->target_bytes - around : 0;
    for (uint32_t i = 0; i < in->n_tensors; i++)
        bytes += r->tensors[i].fixed
                     ? (double)r->tensors[i].bytes
                     : (double)in->tensors[i].rows * in->tensors[i].cols * bits / 8;
    return (uint64_t)bytes;
}

/* The candidate forms of each matrix.  `auto` never goes below a matrix's 4bit form, and an
 * embedding in clusters keeps the type of its residual. */
static void budget_forms(budget_work *k)
{
    const qsf_convert_options *o = k->o;
    const bool automatic = o->preset == QSF_CONVERT_BY_LOSS && !o->target_bytes;
    for (uint32_t i = 0; i < k->in->n_tensors; i++) {
        const input_tensor *t = &k->in->tensors[i];
        convert_tensor *c = &k->r->tensors[i];
        k->t[i].sensitivity = automatic ? qsf_conv_loss_sensitivity(k->in, t)
                                        : qsf_conv_budget_sensitivity(k->in, t->kind);
        if (automatic && c->clusters) c->fixed = true;
        for (int f = o->target_bytes ? 0 : CONVERT_MIXED_LEAST; f < CONVERT_FORMS; f++) {
            convert_tensor to = *c;
            bool *usable = &k->t[i].form[f].usable;
            *usable = true;
            if (!automatic || c->fixed) continue;
            qsf_conv_set_form(f, o, &to);
            *usable = to.type != QSF_T_F16
                && !qsf_tensor_bytes(to.type, to.packing, to.block, t->rows, t->cols, &to.bytes, NULL)
                && to.bytes >= c->bytes;
        }
    }
}

qsf_status qsf_conv_budget(input *in, const qsf_convert_options *o, convert_report *r, qsf_error *err)
{
    budget_work k = { .in = in, .o = o, .r = r };
    const uint64_t bytes = (uint64_t)in->n_tensors * sizeof *k.t;
    uint64_t smallest, room;
    if (!(k.t = qsf_alloc(in->platform, bytes, "the budget's table", err))) return QSF_E_MEMORY;
    budget_forms(&k);
    qsf_status st = budget_measure_all(&k, err);
    if (st == QSF_OK && !budget_start(&k, budget_limit(in, o, r), &smallest, &room) && o->target_bytes)
        st = qsf_fail(err, QSF_E_ARGUMENT,
                      "target_bytes (--target-size) %.1f MB: the smallest possible file of this model has "
                      "%.1f MB",
                      (double)o->target_bytes / 1e6,
                      (double)(smallest + qsf_conv_budget_around(in, o)) / 1e6 + 0.1);
    if (st == QSF_OK) {
        budget_spend(&k, room, o->preset == QSF_CONVERT_BY_LOSS && !o->target_bytes ? BUDGET_AUTO_LOSS : 0);
        budget_settle(&k);
    }
    qsf_dealloc(in->platform, k.t, bytes);
    return st;
}
