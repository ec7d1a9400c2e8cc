/* Rotary frequencies with linear, YaRN and long-context scaling.
 * SPDX-License-Identifier: MIT */
#include "layers/rope.h"

static const double rope_pi = 3.14159265358979323846;

/* The pair index that makes `turns` full rotations within the original context
 * (YaRN, section 3.2). */
static double yarn_dim(const qsf_rope_record *of, double n_dims, double turns)
{
    const double base = of->base;
    return n_dims * log(of->orig_ctx / (turns * 2 * rope_pi)) / (2 * log(base));
}

static bool rope_is_long(const qsf_rope_record *of, uint32_t n_ctx)
{
    return of->factors_long && n_ctx > of->orig_ctx;
}

void qsf_rope_init(qsf_rope *r, const qsf_rope_record *of, double *freq, uint32_t n_ctx, uint32_t asked)
{
    const uint8_t scaling = of->scaling;
    const double base = of->base, factor = of->factor > 0 ? of->factor : 1;
    const double n_dims = of->dim;
    const float *divisors = of->factors && rope_is_long(of, n_ctx) ? of->factors_long : of->factors;
    *r = (qsf_rope){ .half = qsf_rope_half(of), .pairs = of->kind == QSF_ROPE_PAIRS, .freq = freq };

    const double ext = scaling != QSF_SCALING_YARN ? 0 : of->yarn_ext_factor < 0 ? 1 : of->yarn_ext_factor;
    double low = 0, high = 0;
    r->mscale = of->attn_factor > 0 ? of->attn_factor : 1;
    if (scaling == QSF_SCALING_YARN) {
        const double fast = of->yarn_beta_fast > 0 ? of->yarn_beta_fast : 32;
        const double slow = of->yarn_beta_slow > 0 ? of->yarn_beta_slow : 1;
        low = QSF_MAX(0.0, floor(yarn_dim(of, n_dims, fast)));
        high = QSF_MIN(n_dims - 1, ceil(yarn_dim(of, n_dims, slow)));
        if (of->yarn_attn_factor > 0) r->mscale *= of->yarn_attn_factor;
        if (ext != 0) r->mscale *= (float)(1 + 0.1 * log(factor));
    }
    for (uint32_t i = 0; i < r->half; i++) {
        double f = pow(base, -2.0 * i / n_dims);
        if (divisors) f /= divisors[i];
        if (scaling == QSF_SCALING_LINEAR) f /= factor;
        if (scaling == QSF_SCALING_YARN) {
            const double ramp = (i - low) / QSF_MAX(0.001, high - low);
            /* 1: fast dimensions stay as trained */
            const double keep = (1 - QSF_MIN(1.0, QSF_MAX(0.0, ramp))) * ext;
            f = f / factor * (1 - keep) + f * keep;
        }
        r->freq[i] = f;
    }
    r->slow = r->half;
    while (r->slow && r->freq[r->slow - 1] * asked < 0.5) r->slow--;
}

uint32_t qsf_ropes_half(const qsf_source *s)
{
    uint32_t half = 0;
    for (uint32_t i = 0; i < s->n_ropes; i++) half += qsf_rope_half(&s->ropes[i]);
    return half;
}

bool qsf_ropes_long(const qsf_source *s, uint32_t n_ctx)
{
    bool is = false;
    for (uint32_t i = 0; i < s->n_ropes; i++) is |= rope_is_long(&s->ropes[i], n_ctx);
    return is;
}

void qsf_rope_angles(const qsf_rope *r, uint32_t pos, float *cos_out, float *sin_out)
{
    for (uint32_t i = 0; i < r->half; i++) {
        const double a = pos * r->freq[i];
        cos_out[i] = (float)cos(a) * r->mscale;
        sin_out[i] = (float)sin(a) * r->mscale;
    }
}
