/* Rotary frequencies with linear, YaRN and long-context scaling.
 * SPDX-License-Identifier: MIT */
#include "engine/rope.h"

static const double rope_pi = 3.14159265358979323846;

/* The pair index whose wavelength turns `turns` times within the original context (YaRN, section 3.2). */
static double yarn_dim(const qsf_hparams *hp, double base, double n_dims, double turns)
{
    return n_dims * log(hp->scaling_orig_ctx / (turns * 2 * rope_pi)) / (2 * log(base));
}

void qsf_rope_init(qsf_rope *r, const qsf_hparams *hp, bool local, uint32_t n_ctx, uint32_t asked)
{
    const bool own_base = local && hp->rope_base_local > 0;
    const double base = own_base ? hp->rope_base_local : hp->rope_base;
    const uint8_t scaling = own_base ? QSF_SCALING_NONE : hp->scaling;
    const double factor = hp->scaling_factor > 0 ? hp->scaling_factor : 1;
    const double n_dims = 2.0 * r->half;
    const float *divisors = own_base ? NULL : hp->rope_factors;
    if (divisors && hp->rope_factors_long && n_ctx > hp->scaling_orig_ctx) divisors = hp->rope_factors_long;

    const double ext = scaling != QSF_SCALING_YARN ? 0 : hp->yarn_ext_factor < 0 ? 1 : hp->yarn_ext_factor;
    double low = 0, high = 0;
    r->mscale = hp->rope_attn_factor > 0 && !own_base ? hp->rope_attn_factor : 1;
    if (scaling == QSF_SCALING_YARN) {
        const double fast = hp->yarn_beta_fast > 0 ? hp->yarn_beta_fast : 32, slow = hp->yarn_beta_slow > 0 ? hp->yarn_beta_slow : 1;
        low = QSF_MAX(0.0, floor(yarn_dim(hp, base, n_dims, fast)));
        high = QSF_MIN(n_dims - 1, ceil(yarn_dim(hp, base, n_dims, slow)));
        if (hp->yarn_attn_factor > 0) r->mscale *= hp->yarn_attn_factor;
        if (ext != 0) r->mscale *= (float)(1 + 0.1 * log(factor));
    }
    for (uint32_t i = 0; i < r->half; i++) {
        double f = pow(base, -2.0 * i / n_dims);
        if (divisors) f /= divisors[i];
        if (scaling == QSF_SCALING_LINEAR) f /= factor;
        if (scaling == QSF_SCALING_YARN) {
            const double ramp = (i - low) / QSF_MAX(0.001, high - low);
            const double keep = (1 - QSF_MIN(1.0, QSF_MAX(0.0, ramp))) * ext;     /* 1: fast dimensions stay as trained */
            f = f / factor * (1 - keep) + f * keep;
        }
        r->freq[i] = f;
    }
    r->slow = r->half;
    while (r->slow && r->freq[r->slow - 1] * asked < 0.5) r->slow--;
}

void qsf_rope_angles(const qsf_rope *r, uint32_t pos, float *cos_out, float *sin_out)
{
    for (uint32_t i = 0; i < r->half; i++) {
        const double a = pos * r->freq[i];
        cos_out[i] = (float)cos(a) * r->mscale;
        sin_out[i] = (float)sin(a) * r->mscale;
    }
}
