/* Hidden states behind the final norm, and what a text's come to together: its embedding.
 * SPDX-License-Identifier: MIT */
#include "engine/sequence.h"
#include "turn/embed.h"
#include "turn/hidden.h"

void qsf_hidden_ask(qsf_context *c, bool wanted) { c->hidden = wanted; }

const float *qsf_hidden(const qsf_context *c, size_t i)
{
    return !c->now.active && i < c->now.n_hidden ? c->b.tmp + i * c->b.ld_embd : NULL;
}

/* Rows are added one after the other, whatever batches they came in: the sum is the same to the
 * bit. */
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
    /* What is behind the pooling may not be as long as the sum. */
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

/* In batches, as qsf_feed does it. */
static qsf_status embed_batches(qsf_context *c, qsf_seq s, const int32_t *ids, size_t n, qsf_pooling how,
                                float *out)
{
    qsf_row rows[256];
    const size_t most = QSF_MIN(c->o.n_batch, QSF_ARRAY_LEN(rows));
    if (c->hp->both_ways) {
        const qsf_pooling one = how == QSF_POOL_NONE || how == QSF_POOL_TOKENS ? QSF_POOL_MEAN : how;
        const qsf_embed_options o = { .size = sizeof o, .pooling = qsf_pooling_rows(c->hp, one) };
        return qsf_embed_texts(c, ids, &n, 1, &o, out);
    }
    for (size_t at = 0, len; at < n; at += len) {
        len = QSF_MIN(most, n - at);
        for (size_t i = 0; i < len; i++) rows[i] = (qsf_row){ s, ids[at + i], false };
        const qsf_status st = qsf_compute(c, rows, len);
        if (st) return st;
        (void)qsf_hidden_pool(c, 0, len, at, n, how, out);
    }
    return QSF_OK;
}

qsf_status qsf_embed(qsf_context *c, qsf_seq s, const int32_t *ids, size_t n, qsf_pooling how, float *out)
{
    const bool asked = c->hidden;
    if (n == 0) return qsf_fail(&c->error, QSF_E_ARGUMENT, "no tokens were given");
    qsf_status st = qsf_seq_check(c, s);
    if (!st) st = qsf_part_refuse(c->model->source, "an embedding", &c->error);
    if (st) return st;
    qsf_batch_drop(c);
    const uint32_t room = qsf_seq_room(c, s);
    if (n > room)
        return qsf_fail(&c->error, QSF_E_FULL, "%llu tokens do not fit: the sequence has room for %u more",
                        (unsigned long long)n, (unsigned)room);
    c->hidden = true;
    st = embed_batches(c, s, ids, n, how, out);
    c->hidden = asked;
    return st;
}
