/* Models of every kind through what sequences go through: logits are those of a fresh run.
 * SPDX-License-Identifier: MIT
 *
 *   sequence_models MODEL...
 *
 * Token by token, in uneven batches, alongside another sequence, after a cut, from a shared prefix
 * and from a session in another context; in floats, bit for bit.  Prints a line a model: "ok", or
 * what differs. */
#include "qsf.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTH = 36, BATCH = 8, SEQS = 3, PREFIX = 21 };

typedef struct scene {
    qsf_model   *m;
    qsf_context *c;
    uint32_t     n_vocab;
    int32_t      ids[LENGTH];
    float       *want;              /* [LENGTH][n_vocab] */
    uint32_t     n_compared;        /* rows */
    char         why[512];          /* "" while all is well */
} scene;

static qsf_error failure;

static bool is_well(scene *s, qsf_status st, const char *what)
{
    if (!st || s->why[0]) return !s->why[0];
    snprintf(s->why, sizeof s->why, "%.99s: %s", what, s->c ? qsf_last_error(s->c) : failure.text);
    return false;
}

static bool scene_context(scene *s)
{
    qsf_context_options o;
    qsf_context_defaults(&o);
    o.n_ctx = SEQS * 64;
    o.n_seqs = SEQS;
    o.n_batch = o.n_logits = BATCH;
    o.n_threads = 1;
    o.f32 = true;
    qsf_context_free(s->c);
    s->c = NULL;
    return is_well(s, qsf_context_new(s->m, &o, &s->c, &failure), "a context");
}

/* ---- comparing ---- */

/* Logits of the row at `row` of the batch, for the token at position `pos`. */
static void compare(scene *s, size_t row, uint32_t pos, const char *what)
{
    const float *have = qsf_logits(s->c, row), *want = s->want + (size_t)pos * s->n_vocab;
    double apart = have ? 0 : INFINITY;
    s->n_compared++;
    if (s->why[0] || (have && !memcmp(have, want, s->n_vocab * sizeof *want))) return;
    for (uint32_t i = 0; have && i < s->n_vocab; i++) apart = fmax(apart, fabs((double)have[i] - want[i]));
    snprintf(s->why, sizeof s->why, "%s: position %u is %g off", what, (unsigned)pos, apart);
}

/* Tokens [qsf_seq_length, to) in batches of n rows, each compared. */
static void feed(scene *s, qsf_seq q, uint32_t to, uint32_t n, const char *what)
{
    for (uint32_t at; !s->why[0] && (at = qsf_seq_length(s->c, q)) < to;) {
        qsf_row rows[BATCH];
        const uint32_t len = to - at < n ? to - at : n;
        for (uint32_t i = 0; i < len; i++) rows[i] = (qsf_row){ q, s->ids[at + i], true };
        if (!is_well(s, qsf_compute(s->c, rows, len), what)) return;
        for (uint32_t i = 0; i < len; i++) compare(s, i, at + i, what);
    }
}

static void empty(scene *s)
{
    for (qsf_seq q = 0; q < SEQS; q++) is_well(s, qsf_seq_truncate(s->c, q, 0), "emptying");
}

/* ---- what sequences go through ---- */

static void fresh(scene *s)
{
    for (uint32_t at = 0; at < LENGTH; at += BATCH) {
        qsf_row rows[BATCH];
        const uint32_t len = LENGTH - at < BATCH ? LENGTH - at : BATCH;
        for (uint32_t i = 0; i < len; i++) rows[i] = (qsf_row){ 0, s->ids[at + i], true };
        if (!is_well(s, qsf_compute(s->c, rows, len), "a fresh run")) return;
        for (uint32_t i = 0; i < len; i++)
            memcpy(s->want + (size_t)(at + i) * s->n_vocab, qsf_logits(s->c, i),
                   s->n_vocab * sizeof *s->want);
    }
}

/* Two sequences in one batch, one of them a step later. */
static void together(scene *s)
{
    for (uint32_t at = 0; at < LENGTH && !s->why[0]; at++) {
        qsf_row rows[2] = { { 1, s->ids[at], true }, { 2, at ? s->ids[at - 1] : 0, true } };
        if (!is_well(s, qsf_compute(s->c, rows, at ? 2 : 1), "two at once")) return;
        compare(s, 0, at, "two at once");
        if (at) compare(s, 1, at - 1, "one behind");
    }
}

static void cut(scene *s)
{
    feed(s, 0, 13, 5, "before the cut");
    is_well(s, qsf_seq_checkpoint(s->c, 0), "a checkpoint");
    feed(s, 0, 27, 7, "before the cut");
    if (!is_well(s, qsf_seq_truncate(s->c, 0, 17), "a cut")) return;
    if (qsf_seq_length(s->c, 0) > 17 || qsf_seq_length(s->c, 0) < 13)
        is_well(s, QSF_E_CORRUPT, "a cut that goes back too far");
    feed(s, 0, LENGTH, 4, "after the cut");
}

static void shared(scene *s)
{
    feed(s, 0, PREFIX, 6, "a prefix");
    is_well(s, qsf_seq_checkpoint(s->c, 0), "a checkpoint");
    if (!is_well(s, qsf_seq_share(s->c, 1, 0, PREFIX), "sharing")) return;
    feed(s, 1, PREFIX + 5, 3, "behind a shared prefix");
    feed(s, 0, LENGTH, 5, "beside one that shares");
    feed(s, 1, LENGTH, 1, "behind a shared prefix");
}

typedef struct bytes { uint8_t *at; size_t len; } bytes;

static qsf_status bytes_write(void *user, const void *from, size_t len)
{
    bytes *b = user;
    uint8_t *more = realloc(b->at, b->len + len);
    if (!more) return QSF_E_MEMORY;
    b->at = more;
    memcpy(b->at + b->len, from, len);
    b->len += len;
    return QSF_OK;
}

static qsf_status bytes_read(void *user, uint64_t at, void *dst, size_t len)
{
    const bytes *b = user;
    if (at > b->len || len > b->len - at) return QSF_E_IO;
    memcpy(dst, b->at + at, len);
    return QSF_OK;
}

static void session(scene *s)
{
    bytes b = { 0 };
    int32_t ids[LENGTH];
    size_t n = 0;
    feed(s, 0, PREFIX, 8, "before a session");
    is_well(s, qsf_session_save(s->c, 0, s->ids, PREFIX, bytes_write, &b, &failure), "saving");
    if (!s->why[0] && scene_context(s)) {
        const qsf_custom_file f = { .size = sizeof f, .user = &b, .length = b.len, .read = bytes_read };
        is_well(s, qsf_session_load(s->c, 2, &f, ids, LENGTH, &n, &failure), failure.text);
        if (n != PREFIX || memcmp(ids, s->ids, PREFIX * sizeof *ids))
            is_well(s, QSF_E_CORRUPT, "a session's tokens");
        feed(s, 2, LENGTH, 5, "behind a session");
    }
    free(b.at);
}

/* ---- a model ---- */

static bool check(const char *path)
{
    scene s = { 0 };
    qsf_model_info info = { .size = sizeof info };
    if (is_well(&s, qsf_model_open(path, NULL, &s.m, &failure), "opening") && scene_context(&s)) {
        qsf_model_get_info(s.m, &info);
        s.n_vocab = info.n_vocab;
        for (uint32_t i = 0; i < LENGTH; i++) s.ids[i] = (int32_t)((i * 7919 + 11) % info.n_vocab);
        s.want = malloc((size_t)LENGTH * s.n_vocab * sizeof *s.want);
    }
    if (s.want) {
        static void (*const ways[])(scene *) = { together, cut, shared, session };
        fresh(&s);
        empty(&s);
        feed(&s, 0, LENGTH, 1, "token by token");
        for (size_t i = 0; i < sizeof ways / sizeof *ways && !s.why[0]; i++) {
            empty(&s);
            ways[i](&s);
        }
    }
    if (s.why[0]) printf("FAIL %s: %s\n", path, s.why);
    else printf("ok %s: %u rows\n", path, (unsigned)s.n_compared);
    free(s.want);
    qsf_context_free(s.c);
    qsf_model_close(s.m);
    return !s.why[0];
}

int main(int argc, char **argv)
{
    bool ok = true;
    for (int i = 1; i < argc; i++) ok &= check(argv[i]);
    return !ok;
}
