/* Models whose logits stay on a GPU: the most likely tokens that come from there are those of the
 * rows, and turns say the same with them as with whole rows.
 * SPDX-License-Identifier: MIT
 *
 *   device_picks MODEL...
 *
 * Any adapter of the library that QSF_WEBGPU_LIB names, whose pipelines models share.  Prints a
 * line a model. */
#include "broken_device.h"
#include "engine/step.h"
#include "small_context.h"
#include "turn/sampler_candidates.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ROWS = 12, MOST_ROWS = 6, CONTEXT = 128, TOKENS = 9 };

static qsf_error why;

static int failed(const char *path, const char *text)
{
    printf("%s: %s\n", path, text);
    return 1;
}

/* Whether a row's candidates are its largest logits.  Soft caps may differ in the last bits. */
static const char *check_candidates(const qsf_candidates *k, const float *x, uint32_t n_vocab, bool capped)
{
    double sum = 0;
    uint32_t above = 0;
    const float near = capped ? 1e-5f : 0, least = k->logit[k->n - 1];
    if (k->n != 64 || k->n_vocab != n_vocab) return "a wrong number of candidates";
    for (uint32_t i = 0; i < n_vocab; i++) sum += exp((double)x[i]);
    for (uint32_t i = 0; i < n_vocab; i++) above += x[i] > least + near;
    for (uint32_t i = 0; i < k->n; i++) {
        const float off = fabsf(x[k->token[i]] - k->logit[i]);
        if (!(off <= near * fabsf(k->logit[i]))) return "a candidate has another logit";
        if (!i) continue;
        if (k->logit[i] > k->logit[i - 1]) return "the largest are not first";
        if (k->logit[i] < k->logit[i - 1] || k->token[i] > k->token[i - 1]) continue;
        return "equals are not in order";
    }
    if (above >= k->n) return "some of the largest are left out";
    return fabs((double)k->log_sum - log(sum)) <= 1e-5 * fabs(log(sum)) + 1e-5 ? NULL : "another sum";
}

/* A batch of two sequences in which every third row asks, from the `first` on. */
static const char *check_batch(qsf_context *c, uint32_t n, uint32_t first, uint32_t n_vocab, bool capped)
{
    qsf_row rows[ROWS];
    uint32_t asked = 0;
    for (uint32_t i = 0; i < n; i++) {
        const bool asks = i % 3 == first % 3 && asked < MOST_ROWS;
        rows[i] = (qsf_row){ i % 2, (int32_t)((first + 7 * i) % n_vocab), asks };
        asked += asks;
    }
    qsf_candidates_ask(c);
    if (qsf_compute(c, rows, n)) return qsf_last_error(c);
    for (uint32_t i = asked; i-- > 0;) {
        const qsf_candidates *k = qsf_candidates_of(c, i);
        const float *x = qsf_logits(c, i);
        if (!k) return "there are only logits";
        if (!x) return qsf_last_error(c);
        const char *wrong = check_candidates(k, x, n_vocab, capped);
        if (wrong) return wrong;
    }
    if (qsf_compute(c, rows, n)) return qsf_last_error(c);
    return qsf_candidates_of(c, 0) ? "candidates that were not asked for" : NULL;
}

static void unchanged(void *user, float *logits, size_t n) { (void)user, (void)logits, (void)n; }

/* The tokens of an answer.  rows: by whole rows, which a callback needs. */
static const char *say(qsf_model *m, qsf_context *c, bool rows, float repeat, int32_t ids[TOKENS])
{
    static const int32_t prompt[] = { 5, 9, 70, 33, 9, 70 };
    qsf_sampler_options so;
    qsf_turn_options o;
    qsf_turn_piece p = { .size = sizeof p };
    qsf_sampler *s = NULL;
    qsf_turn *t = NULL;
    const char *wrong = NULL;
    size_t n = 0;
    qsf_sampler_defaults(&so);
    so.seed = 7;
    so.temperature = 1;
    so.repeat_penalty = repeat;
    qsf_turn_defaults(&o);
    o.max_tokens = TOKENS;
    o.ignore_end = true;
    qsf_seq_truncate(c, 0, 0);
    if (qsf_sampler_new(m, &so, &s, &why) || qsf_turn_new(c, 0, &t, &why)) wrong = why.text;
    if (!wrong && rows) qsf_sampler_callback(s, unchanged, NULL);
    if (!wrong && qsf_turn_begin(t, prompt, QSF_ARRAY_LEN(prompt), s, &o)) wrong = qsf_turn_error(t)->text;
    while (!wrong && !p.end) {
        qsf_status st;
        while ((st = qsf_turn_next(t, &p)) == QSF_PENDING) (void)qsf_turn_step(t, NULL);
        if (st || p.end == QSF_TURN_FAILED) wrong = "the turn failed";
        else if (p.token >= 0) ids[n++] = p.token;
    }
    if (!wrong && n != TOKENS) wrong = "too few tokens";
    qsf_turn_free(t);
    qsf_sampler_free(s);
    return wrong;
}

static const char *check_answers(qsf_model *m, qsf_context *c)
{
    int32_t few[TOKENS], all[TOKENS];
    for (int i = 0; i < 2; i++) {
        const char *wrong = say(m, c, false, i ? 1.3f : 1, few);
        if (wrong || (wrong = say(m, c, true, i ? 1.3f : 1, all))) return wrong;
        if (memcmp(few, all, sizeof few)) return "other tokens than with whole rows";
    }
    return NULL;
}

static int model(const char *path)
{
    const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path, *wrong = NULL;
    qsf_model_info info = { .size = sizeof info };
    qsf_model_options mo;
    const qsf_context_options o = small_context(CONTEXT, 2, ROWS, MOST_ROWS);
    qsf_model *m = NULL;
    qsf_context *c = NULL;
    qsf_model_defaults(&mo);
    if (qsf_model_open(path, &mo, &m, &why) || qsf_context_new(m, &o, &c, &why)) wrong = why.text;
    else if (qsf_context_use_device(c, &broken.list, 0, UINT32_MAX, 0)) wrong = qsf_last_error(c);
    if (!wrong) qsf_model_get_info(m, &info);
    for (uint32_t i = 0; i < 3 && !wrong; i++)
        wrong = check_batch(c, i == 2 ? 1 : ROWS - i, i == 2 ? 0 : i, info.n_vocab, c->hp->final_softcap > 0);
    if (!wrong) wrong = check_answers(m, c);
    qsf_context_free(c);
    qsf_model_close(m);
    if (wrong) return failed(name, wrong);
    printf("%s: of %u tokens the 64 most likely\n", name, (unsigned)info.n_vocab);
    fflush(stdout);
    return 0;
}

int main(int argc, char **argv)
{
    int code = 0;
    if (!broken_begin()) return failed("devices", "none");
    for (int i = 1; i < argc; i++) code |= model(argv[i]);
    if (broken.live || broken.open) code |= failed("devices", "objects were not released");
    broken_end();
    return code || test_failed;
}
