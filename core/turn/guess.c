/* The choice of a guess from logits, and the sizes of batches that make guesses.
 * SPDX-License-Identifier: MIT */
#include "turn/guess.h"

int32_t qsf_guess_pick(const float *logits, uint32_t n_vocab, float sure)
{
    uint32_t best = 0;
    float sum = 0;
    for (uint32_t i = 1; i < n_vocab; i++)
        if (logits[i] > logits[best]) best = i;
    for (uint32_t i = 0; i < n_vocab && sure > 0; i++) sum += expf(logits[i] - logits[best]);
    return sum * sure <= 1 ? (int32_t)best : -1;
}

uint32_t qsf_guess_rows(const qsf_context_options *o) { return QSF_MIN(o->n_batch, (uint32_t)GUESS_ROWS); }

uint32_t qsf_guess_group(const qsf_context_options *o)
{
    return QSF_MIN(QSF_MIN(QSF_MAX(o->n_logits, 1u), qsf_guess_rows(o)), (uint32_t)GUESS_GROUP);
}

void qsf_guess_groups(const qsf_guess_maker *m, qsf_guess *list, size_t n)
{
    qsf_guess *group[GUESS_GROUP];
    size_t n_group = 0, rows = 0, more;
    for (size_t i = 0; i < n; i++) {
        if (!m->ready(&list[i], &more)) continue;
        if (n_group == m->group || (n_group && rows + more > m->rows)) {
            m->together(m->user, group, n_group);
            n_group = rows = 0;
        }
        group[n_group++] = &list[i];
        rows += more;
    }
    if (n_group) m->together(m->user, group, n_group);
}

qsf_status qsf_guess_same_words(const qsf_model *m, const qsf_model *small, uint32_t n, const char *what,
                                qsf_error *err)
{
    for (uint32_t i = 0; i < n; i++) {
        const char *x, *y;
        const size_t len = qsf_token_piece(m, (int32_t)i, true, &x);
        if (len == qsf_token_piece(small, (int32_t)i, true, &y) && (!len || !memcmp(x, y, len))) continue;
        return qsf_fail(err, QSF_E_ARGUMENT, "%s: token %u differs from the model's; %s needs the same "
                        "vocabulary", small->source->path, (unsigned)i, what);
    }
    return QSF_OK;
}

void qsf_guess_failed(const qsf_context *c, qsf_status st, qsf_error *err)
{
    *err = (qsf_error){ .status = st };
    qsf_format(err->text, sizeof err->text, "%s", qsf_last_error(c));
}
