/* Hidden states after the final norm, and their pooling over an input.
 * SPDX-License-Identifier: MIT */
#include "turn/hidden.h"

void qsf_hidden_ask(qsf_context *c, bool wanted) { c->hidden = wanted; }

const float *qsf_hidden(const qsf_context *c, size_t i)
{
    const qsf_rows *hidden = &c->now.rows[QSF_ROWS_HIDDEN];
    return !c->now.active && i < c->now.n_hidden ? hidden->x + i * hidden->ld : NULL;
}

qsf_pooling qsf_pooling_rows(const qsf_hparams *hp, qsf_pooling how)
{
    if (how != QSF_POOL_RANK) return how;
    return hp->rank_mean ? QSF_POOL_MEAN : hp->both_ways ? QSF_POOL_FIRST : QSF_POOL_LAST;
}

void qsf_hidden_unit(float *x, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += (double)x[i] * x[i];
    const float by = sum > 0 ? (float)(1 / sqrt(sum)) : 0;
    for (size_t i = 0; i < n; i++) x[i] *= by;
}

/* Rows are added in order, however they were split into batches, so the sum is always the same bit
 * for bit. */
bool qsf_hidden_sum(const qsf_context *c, size_t first, size_t rows, size_t at, size_t n, qsf_pooling how,
                    float *out)
{
    const size_t n_embd = c->hp->n_embd;
    if (!rows || rows > n || at > n - rows || !qsf_hidden(c, first) || !qsf_hidden(c, first + rows - 1))
        return false;
    for (size_t r = 0; r < rows; r++) {
        const float *x = qsf_hidden(c, first + r);
        const bool one = how == QSF_POOL_FIRST ? at + r == 0 : how != QSF_POOL_MEAN && at + r == n - 1;
        if (one || (how == QSF_POOL_MEAN && at + r == 0)) memcpy(out, x, n_embd * sizeof *out);
        else if (how == QSF_POOL_MEAN) c->k.vec_add(out, out, x, n_embd);
    }
    /* The mean, not the sum: later steps may depend on the vector's length. */
    if (at + rows == n && how == QSF_POOL_MEAN) c->k.vec_scale(out, 1 / (float)n, n_embd);
    return true;
}

bool qsf_hidden_pool(const qsf_context *c, size_t first, size_t rows, size_t at, size_t n, qsf_pooling how,
                     float *out)
{
    if (how == QSF_POOL_NONE || how == QSF_POOL_TOKENS) how = QSF_POOL_MEAN;
    if (!qsf_hidden_sum(c, first, rows, at, n, qsf_pooling_rows(c->hp, how), out)) return false;
    if (at + rows == n) qsf_hidden_unit(out, c->hp->n_embd);
    return true;
}
