/* Sampling, written once for every instruction set: weights from logits, their sums, and the
 * searches that narrow down the candidates.
 * SPDX-License-Identifier: MIT
 *
 * Included once by each sample_*.c, inside its target region, with SV_... defined for that set's
 * vectors of SV_W floats.  All sets give the same bits: sums use 16 lanes, which are then folded
 * (lane i + 8 into lane i, then i + 4, i + 2, i + 1), products are not fused with sums, and no
 * function is approximated. */
#define SAMPLE_JOIN_(name, set) name##_##set
#define SAMPLE_JOIN(name, set) SAMPLE_JOIN_(name, set)
#define SAMPLE(name) SAMPLE_JOIN(name, SAMPLE_SET)
#define SV_N (QSF_SAMPLE_LANES / SV_W)
#if defined(QSF_SMALL_CODE)
#define SV_BIT_BY_BIT true
#else
#define SV_BIT_BY_BIT false
#endif
/* Loops over the vectors that hold the 16 lanes. */
#define SV_EACH(v) QSF_UNROLL for (int v = 0; v < SV_N; v++)

typedef struct SAMPLE(lanes) { SV_F v[SV_N]; } SAMPLE(lanes);

/* Loads the last numbers of a row; one copy for all functions of a set. */
static QSF_NOINLINE void SAMPLE(tail_load)(float part[QSF_SAMPLE_LANES], const float *from, size_t n,
                                           float pad)
{
    for (size_t j = 0; j < QSF_SAMPLE_LANES; j++) part[j] = j < n ? from[j] : pad;
}
/* Loads 16 numbers from x[i] on; those past n become `pad`. */
QSF_TEMPLATE SAMPLE(lanes) SAMPLE(lanes_load)(const float *x, size_t i, size_t n, float pad)
{
    SAMPLE(lanes) out;
    float part[QSF_SAMPLE_LANES];
    const float *from = x + i;
    if (n - i < QSF_SAMPLE_LANES) {
        SAMPLE(tail_load)(part, from, n - i, pad);
        from = part;
    }
    SV_EACH(v) out.v[v] = SV_LOAD(from + v * SV_W);
    return out;
}
QSF_TEMPLATE void SAMPLE(lanes_store)(float *x, size_t i, size_t n, const SAMPLE(lanes) *a)
{
    float part[QSF_SAMPLE_LANES], *to = n - i < QSF_SAMPLE_LANES ? part : x + i;
    SV_EACH(v) SV_STORE(to + v * SV_W, a->v[v]);
    if (to == part) memcpy(x + i, part, (n - i) * sizeof *x);
}
QSF_TEMPLATE void SAMPLE(lanes_zero)(SAMPLE(lanes) *a) { SV_EACH(v) a->v[v] = SV_SET1(0); }
static QSF_NOINLINE float SAMPLE(lanes_fold)(float f[QSF_SAMPLE_LANES])
{
    QSF_UNROLL
    for (int half = QSF_SAMPLE_LANES / 2; half; half /= 2)
        for (int i = 0; i < half; i++) f[i] += f[i + half];
    return f[0];
}
QSF_TEMPLATE float SAMPLE(lanes_total)(const SAMPLE(lanes) *a)
{
    float f[QSF_SAMPLE_LANES];
    SV_EACH(v) SV_STORE(f + v * SV_W, a->v[v]);
    return SAMPLE(lanes_fold)(f);
}

/* e^x within 2 units in the last place for -87.3 <= x <= 0; below that any value.
 * x = n ln 2 + r, |r| <= ln 2 / 2, e^r by a polynomial (Moshier's Cephes coefficients).  Adding 1.5
 * * 2^23 rounds to n; with 127 more, the low bits of the sum are the exponent of 2^n. */
QSF_TEMPLATE SV_F SAMPLE(exp_below)(SV_F x)
{
    const SV_F shift = SV_SET1(12582912.0f + 127), z = x * SV_SET1(1.44269504f) + shift, n = z - shift;
    const SV_F r = (x - n * SV_SET1(0.693359375f)) - n * SV_SET1(-2.12194440e-4f);
    SV_F p = SV_SET1(1.9875691500e-4f);
    p = p * r + SV_SET1(1.3981999507e-3f);
    p = p * r + SV_SET1(8.3334519073e-3f);
    p = p * r + SV_SET1(4.1665795894e-2f);
    p = p * r + SV_SET1(1.6666665459e-1f);
    p = p * r + SV_SET1(5.0000001201e-1f);
    p = (p * r) * r + r + SV_SET1(1);
    return p * SV_POWER(z);
}

static void SAMPLE(exp_weights)(float *w, float *sums, const float *x, size_t n, const qsf_exp_weights *e)
{
    const SV_F top = SV_SET1(e->top), scale = SV_SET1(e->scale), least = SV_SET1(e->least),
        share = SV_SET1(e->share), lowest = SV_SET1(-87.3f);
    for (size_t at = 0; at < n; at += QSF_SAMPLE_BLOCK) {
        const size_t end = QSF_MIN(n, at + QSF_SAMPLE_BLOCK);
        SAMPLE(lanes) sum;
        SAMPLE(lanes_zero)(&sum);
        for (size_t i = at; i < end; i += QSF_SAMPLE_LANES) {
            SAMPLE(lanes) a = SAMPLE(lanes_load)(x, i, n, -INFINITY);
            SV_EACH(v) {
                const SV_F d = (a.v[v] - top) * scale, y = SAMPLE(exp_below)(d);
                const SV_M in = SV_BOTH(SV_BOTH(SV_GE(d, lowest), SV_GE(a.v[v], least)), SV_GE(y, share));
                a.v[v] = SV_AND(in, y);
                sum.v[v] = sum.v[v] + a.v[v];
            }
            if (w) SAMPLE(lanes_store)(w, i, n, &a);
        }
        sums[at / QSF_SAMPLE_BLOCK] = SAMPLE(lanes_total)(&sum);
    }
}

static void SAMPLE(weight_sums)(float *sums, const float *w, size_t n)
{
    for (size_t at = 0; at < n; at += QSF_SAMPLE_BLOCK) {
        const size_t end = QSF_MIN(n, at + QSF_SAMPLE_BLOCK);
        SAMPLE(lanes) sum;
        SAMPLE(lanes_zero)(&sum);
        for (size_t i = at; i < end; i += QSF_SAMPLE_LANES) {
            const SAMPLE(lanes) a = SAMPLE(lanes_load)(w, i, n, 0);
            SV_EACH(v) sum.v[v] = sum.v[v] + a.v[v];
        }
        sums[at / QSF_SAMPLE_BLOCK] = SAMPLE(lanes_total)(&sum);
    }
}

/* Handles SV_LEVELS levels at a time, as many as the set has registers for. */
static void SAMPLE(weight_levels)(float *mass, const float *key, const float *w, size_t n,
                                  const float *levels)
{
    for (int first = 0; first < QSF_SAMPLE_LEVELS; first += SV_LEVELS) {
        SAMPLE(lanes) sum[SV_LEVELS];
        const SV_F lowest = SV_SET1(levels[first + SV_LEVELS - 1]);
        QSF_UNROLL
        for (int l = 0; l < SV_LEVELS; l++) SAMPLE(lanes_zero)(&sum[l]);
        for (size_t i = 0; i < n; i += QSF_SAMPLE_LANES) {
            const SAMPLE(lanes) a = SAMPLE(lanes_load)(key, i, n, -INFINITY);
            SAMPLE(lanes) b;
            int any = 0;
            SV_EACH(v) any |= SV_BITS(SV_GT(a.v[v], lowest));
            if (!any) continue;
            if (w) b = SAMPLE(lanes_load)(w, i, n, 0);
            else SV_EACH(v) b.v[v] = SV_SET1(1);
            QSF_UNROLL
            for (int l = 0; l < SV_LEVELS; l++)
                SV_EACH(v) {
                    const SV_M above = SV_GT(a.v[v], SV_SET1(levels[first + l]));
                    sum[l].v[v] = SV_ADD(sum[l].v[v], above, b.v[v]);
                }
        }
        for (int l = 0; l < SV_LEVELS; l++) mass[first + l] = SAMPLE(lanes_total)(&sum[l]);
    }
}

/* Writes the indices of set bits, in order: with one instruction if the set can, otherwise a few
 * one by one, and many without branches. */
static size_t SAMPLE(weights_within)(uint32_t *at, const float *w, size_t n, float over, float most)
{
    const SV_F low = SV_SET1(over), high = SV_SET1(most);
    size_t found = 0;
    for (size_t i = 0; i < n; i += QSF_SAMPLE_LANES) {
        const SAMPLE(lanes) a = SAMPLE(lanes_load)(w, i, n, NAN);
        uint32_t bits = 0;
        SV_EACH(v) bits |= (uint32_t)SV_BITS(SV_BOTH(SV_GT(a.v[v], low), SV_GE(high, a.v[v]))) << v * SV_W;
#if defined(SV_PLACES)
        if (n - i >= QSF_SAMPLE_LANES) {
            SV_PLACES(at + found, bits, (int)i);
            found += (size_t)__builtin_popcount(bits);
            continue;
        }
#endif
        if (!bits) continue;
        if (SV_BIT_BY_BIT || n - i < QSF_SAMPLE_LANES || (bits & (bits - 1)) == 0) {
            for (; bits; bits &= bits - 1) at[found++] = (uint32_t)i + (uint32_t)__builtin_ctz(bits);
            continue;
        }
        QSF_UNROLL
        for (uint32_t j = 0; j < QSF_SAMPLE_LANES; j++) {
            at[found] = (uint32_t)i + j;
            found += bits >> j & 1;
        }
    }
    return found;
}

static float SAMPLE(weighted_logs)(const float *w, const float *x, size_t n, float top, float scale)
{
    SAMPLE(lanes) sum;
    SAMPLE(lanes_zero)(&sum);
    for (size_t i = 0; i < n; i += QSF_SAMPLE_LANES) {
        const SAMPLE(lanes) a = SAMPLE(lanes_load)(w, i, n, 0), b = SAMPLE(lanes_load)(x, i, n, 0);
        SV_EACH(v) sum.v[v] = sum.v[v] + SV_AND(SV_GT(a.v[v], SV_SET1(0)),
                                                a.v[v] * ((b.v[v] - SV_SET1(top)) * SV_SET1(scale)));
    }
    return SAMPLE(lanes_total)(&sum);
}

static void SAMPLE(logit_moments)(float out[3], const float *x, size_t n, float top)
{
    SAMPLE(lanes) sum[3];
    for (int k = 0; k < 3; k++) SAMPLE(lanes_zero)(&sum[k]);
    for (size_t i = 0; i < n; i += QSF_SAMPLE_LANES) {
        const SAMPLE(lanes) a = SAMPLE(lanes_load)(x, i, n, -INFINITY);
        SV_EACH(v) {
            const SV_M in = SV_GT(a.v[v], SV_SET1(-INFINITY));
            const SV_F d = SV_AND(in, a.v[v] - SV_SET1(top));
            sum[0].v[v] = sum[0].v[v] + SV_AND(in, SV_SET1(1));
            sum[1].v[v] = sum[1].v[v] + d;
            sum[2].v[v] = sum[2].v[v] + d * d;
        }
    }
    for (int k = 0; k < 3; k++) out[k] = SAMPLE(lanes_total)(&sum[k]);
}

static size_t SAMPLE(largest_logit)(const float *x, size_t n)
{
    size_t block = SIZE_MAX;
    float best = -INFINITY;
    for (size_t at = 0; at < n; at += QSF_SAMPLE_BLOCK) {
        const size_t end = QSF_MIN(n, at + QSF_SAMPLE_BLOCK);
        SAMPLE(lanes) most;
        SV_EACH(v) most.v[v] = SV_SET1(-INFINITY);
        for (size_t i = at; i < end; i += QSF_SAMPLE_LANES) {
            const SAMPLE(lanes) a = SAMPLE(lanes_load)(x, i, n, -INFINITY);
            SV_EACH(v) most.v[v] = SV_MAX(a.v[v], most.v[v]);
        }
        int over = 0;
        SV_EACH(v) over |= SV_BITS(SV_GT(most.v[v], SV_SET1(best)));
        if (!over) continue;
        float f[QSF_SAMPLE_LANES];
        SV_EACH(v) SV_STORE(f + v * SV_W, most.v[v]);
        for (int i = 0; i < QSF_SAMPLE_LANES; i++) if (f[i] > best) best = f[i];
        block = at;
    }
    size_t i = block == SIZE_MAX ? 0 : block;
    if (block == SIZE_MAX) while (i + 1 < n && x[i] != x[i]) i++;
    else while (x[i] != best) i++;
    return i;
}

/* Called by the sets' files. */
QSF_TEMPLATE void SAMPLE(sample_fill)(qsf_kernels *k)
{
    k->exp_weights = SAMPLE(exp_weights);
    k->weight_sums = SAMPLE(weight_sums);
    k->weight_levels = SAMPLE(weight_levels);
    k->weights_within = SAMPLE(weights_within);
    k->weighted_logs = SAMPLE(weighted_logs);
    k->logit_moments = SAMPLE(logit_moments);
    k->largest_logit = SAMPLE(largest_logit);
}

#undef SAMPLE_JOIN_
#undef SAMPLE_JOIN
#undef SAMPLE
#undef SAMPLE_SET
#undef SV_N
#undef SV_BIT_BY_BIT
#undef SV_EACH
#undef SV_W
#undef SV_F
#undef SV_M
#undef SV_LEVELS
#undef SV_LOAD
#undef SV_STORE
#undef SV_SET1
#undef SV_POWER
#undef SV_MAX
#undef SV_GT
#undef SV_GE
#undef SV_BOTH
#undef SV_AND
#undef SV_ADD
#undef SV_BITS
#undef SV_PLACES
