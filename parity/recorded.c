/* Reading and writing of recorded logits.  A row is a token and the logits after it; a prompt is
 * its number of tokens and at least that many rows: the additional ones were generated.
 * SPDX-License-Identifier: MIT */
#include "recorded.h"

#include <stdlib.h>
#include <string.h>

enum { RECORDED_HEAD = 120, RECORDED_VERSION = 1, RECORDED_SUM = 32 };
static const char RECORDED_MAGIC[8] = "QSFLOGIT";

typedef struct recorded_prompt { size_t n, n_rows; uint64_t at; int32_t *ids; } recorded_prompt;

struct recorded {
    file_in  file;
    uint32_t n_vocab;
    size_t   n_prompts, prompt, row;        /* position of the comparison */
    recorded_prompt *prompts;
    char     name[RECORDED_NAME], model[SHA256_HEX];
};

static uint32_t recorded_u32(const uint8_t *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static void recorded_put(uint8_t *p, uint32_t v)
{
    for (int i = 0; i < 4; i++) p[i] = (uint8_t)(v >> (8 * i));
}

/* ---- reading ---- */

static qsf_status recorded_wrong(const recorded *r, const char *what, qsf_error *err)
{
    return parity_fail(err, QSF_E_CORRUPT, "%s, byte %llu: %s", r->file.path, (unsigned long long)r->file.at,
                       what);
}

static qsf_status recorded_check(recorded *r, qsf_error *err)
{
    uint8_t step[65536], sum[32], wanted[32];
    sha256 s;
    qsf_status st = QSF_OK;
    if (r->file.length < RECORDED_HEAD + RECORDED_SUM) return recorded_wrong(r,
        "too short for recorded logits", err);
    sha256_begin(&s);
    while (!st && r->file.at < r->file.length - RECORDED_SUM) {
        const uint64_t left = r->file.length - RECORDED_SUM - r->file.at;
        const size_t n = left < sizeof step ? (size_t)left : sizeof step;
        if (!(st = file_in_read(&r->file, step, n, err))) sha256_add(&s, step, n);
    }
    if (st || (st = file_in_read(&r->file, wanted, sizeof wanted, err))) return st;
    sha256_end(&s, sum);
    return memcmp(sum, wanted, sizeof sum) ? recorded_wrong(r, "the checksum at its end is wrong", err)
        : QSF_OK;
}

/* The tokens of a prompt's rows, whose logits stay where they are. */
static qsf_status recorded_rows_of(recorded *r, recorded_prompt *p, qsf_error *err)
{
    const uint64_t row = 4 + 4 * (uint64_t)r->n_vocab, end = r->file.length - RECORDED_SUM;
    const uint64_t most = (end - r->file.at) / row;
    uint8_t word[4];
    qsf_status st = file_in_read(&r->file, word, 4, err);
    p->n = recorded_u32(word);
    p->at = r->file.at;
    if (st) return st;
    if (!p->n || p->n > most || p->n > PROMPT_TOKENS) return recorded_wrong(r,
        "an impossible number of tokens", err);
    if (!(p->ids = malloc((size_t)(most < 2 * PROMPT_TOKENS ? most : 2 * PROMPT_TOKENS) * sizeof *p->ids)))
        return parity_fail(err, QSF_E_MEMORY, "out of memory");
    for (;;) {
        if ((st = file_in_read(&r->file, word, 4, err))) return st;
        const uint32_t id = recorded_u32(word);
        if (id == UINT32_MAX) return p->n_rows < p->n ? recorded_wrong(r, "rows are missing", err) : QSF_OK;
        if (id >= r->n_vocab || p->n_rows == 2 * PROMPT_TOKENS || r->file.at > end
            || end - r->file.at < row - 4)
            return recorded_wrong(r, "an impossible row", err);
        p->ids[p->n_rows++] = (int32_t)id;
        r->file.at += row - 4;
    }
}

static qsf_status recorded_read(recorded *r, qsf_error *err)
{
    uint8_t head[RECORDED_HEAD];
    qsf_status st = recorded_check(r, err);
    if (st) return st;
    r->file.at = 0;
    if ((st = file_in_read(&r->file, head, sizeof head, err))) return st;
    if (memcmp(head, RECORDED_MAGIC, 8)) return recorded_wrong(r, "no recorded logits", err);
    if (recorded_u32(head + 8) != RECORDED_VERSION)
        return parity_fail(err, QSF_E_UNSUPPORTED, "%s: unsupported version %u of recorded logits",
                                                   r->file.path,
                           (unsigned)recorded_u32(head + 8));
    r->n_vocab = recorded_u32(head + 12);
    r->n_prompts = recorded_u32(head + 16);
    sha256_hex(head + 24, r->model);
    memcpy(r->name, head + 56, RECORDED_NAME);
    r->name[RECORDED_NAME - 1] = 0;
    for (char *p = r->name; *p; p++) if ((unsigned char)*p < ' ' || (unsigned char)*p > '~') *p = '?';
    if (!r->n_vocab || r->n_vocab > 1 << 24 || !r->n_prompts || r->n_prompts > PROMPTS_MOST)
        return recorded_wrong(r, "impossible numbers", err);
    r->prompts = calloc(r->n_prompts, sizeof *r->prompts);
    if (!r->prompts) return parity_fail(err, QSF_E_MEMORY, "out of memory");
    for (size_t i = 0; i < r->n_prompts && !st; i++) st = recorded_rows_of(r, &r->prompts[i], err);
    if (!st && r->file.at != r->file.length - RECORDED_SUM) st = recorded_wrong(r, "more follows", err);
    return st;
}

qsf_status recorded_open(const char *path, recorded **out, qsf_error *err)
{
    recorded *r = *out = calloc(1, sizeof *r);
    if (!r) return parity_fail(err, QSF_E_MEMORY, "out of memory");
    qsf_status st = file_in_open(&r->file, path, err);
    if (!st) st = recorded_read(r, err);
    if (st) recorded_close(r), *out = NULL;
    return st;
}

void recorded_close(recorded *r)
{
    if (!r) return;
    file_in_close(&r->file);
    for (size_t i = 0; r->prompts && i < r->n_prompts; i++) free(r->prompts[i].ids);
    free(r->prompts);
    free(r);
}

static qsf_status recorded_begin(void *self, size_t i, const int32_t *ids, size_t n, size_t room,
                                 qsf_error *err)
{
    recorded *r = self;
    (void)room;
    if (i >= r->n_prompts || n != r->prompts[i].n || memcmp(ids, r->prompts[i].ids, n * sizeof *ids))
        return parity_fail(err, QSF_E_ARGUMENT, "%s: prompt %zu is different there", r->file.path, i);
    r->prompt = i, r->row = 0;
    return QSF_OK;
}

static qsf_status recorded_compute(void *self, const int32_t *ids, size_t n, float *out, qsf_error *err)
{
    recorded *r = self;
    const recorded_prompt *p = &r->prompts[r->prompt];
    for (size_t i = 0; i < n; i++, r->row++) {
        uint8_t *bytes = (uint8_t *)(out + i * r->n_vocab);
        if (r->row >= p->n_rows || ids[i] != p->ids[r->row])
            return parity_fail(err, QSF_E_ARGUMENT, "%s: row %zu of prompt %zu is missing, or follows "
                               "another token",
                               r->file.path, r->row, r->prompt);
        r->file.at = p->at + (uint64_t)r->row * (4 + 4 * (uint64_t)r->n_vocab) + 4;
        const qsf_status st = file_in_read(&r->file, bytes, 4 * (size_t)r->n_vocab, err);
        if (st) return st;
        for (size_t k = 0; k < r->n_vocab; k++) {
            const uint32_t bits = recorded_u32(bytes + 4 * k);
            memcpy(bytes + 4 * k, &bits, 4);
        }
    }
    return QSF_OK;
}

parity_engine recorded_engine(recorded *r)
{
    return (parity_engine){ .self = r, .n_vocab = r->n_vocab, .name = r->name, .begin = recorded_begin,
                            .rows = recorded_compute };
}

const char *recorded_name(const recorded *r) { return r->name; }
const char *recorded_model(const recorded *r) { return r->model; }

qsf_status recorded_prompts(const recorded *r, prompt_list *out, size_t *n_steps, qsf_error *err)
{
    qsf_status st = QSF_OK;
    *n_steps = 0;
    for (size_t i = 0; i < r->n_prompts && !st; i++) {
        const recorded_prompt *p = &r->prompts[i];
        const size_t steps = p->n_rows - p->n + 1;
        st = prompts_add(out, NULL, 0, p->ids, p->n, err);
        if (st) return st;
        prompt *q = &out->items[out->n - 1];
        q->tokens = malloc(steps * sizeof *q->tokens);
        if (!q->tokens) return parity_fail(err, QSF_E_MEMORY, "out of memory");
        memcpy(q->tokens, p->ids + p->n, (steps - 1) * sizeof *q->tokens);
        q->n_tokens = steps - 1;
        if (steps > *n_steps) *n_steps = steps;
    }
    return st;
}

/* ---- writing ---- */

static qsf_status recorder_put(recorder_file *w, const void *bytes, size_t n, qsf_error *err)
{
    sha256_add(&w->sum, bytes, n);
    return file_out_write(&w->file, bytes, n, err);
}

static qsf_status recorder_u32(recorder_file *w, uint32_t v, qsf_error *err)
{
    uint8_t bytes[4];
    recorded_put(bytes, v);
    return recorder_put(w, bytes, 4, err);
}

qsf_status recorder_begin(recorder_file *w, const char *path, const char *engine,
                          const char model[SHA256_HEX],
                          uint32_t n_vocab, size_t n_prompts, qsf_error *err)
{
    uint8_t head[RECORDED_HEAD] = { 0 };
    const size_t len = strlen(engine);
    memcpy(head, RECORDED_MAGIC, 8);
    recorded_put(head + 8, RECORDED_VERSION), recorded_put(head + 12, n_vocab);
    recorded_put(head + 16, (uint32_t)n_prompts);
    for (int i = 0; i < 64; i++)
        head[24 + i / 2] |= (uint8_t)((model[i] <= '9' ? model[i] - '0' : model[i] - 'a' + 10) << (i % 2 ? 0
                                                                                                   : 4));
    memcpy(head + 56, engine, len < RECORDED_NAME ? len : RECORDED_NAME - 1);
    w->n_vocab = n_vocab;
    sha256_begin(&w->sum);
    const qsf_status st = file_out_begin(&w->file, path, err);
    if (st) return st;
    const qsf_status put = recorder_put(w, head, sizeof head, err);
    return put ? file_out_end(&w->file, put, err) : QSF_OK;
}

qsf_status recorder_prompt(recorder_file *w, size_t n, qsf_error *err)
{
    return recorder_u32(w, (uint32_t)n, err);
}

qsf_status recorder_prompt_end(recorder_file *w, qsf_error *err) { return recorder_u32(w, UINT32_MAX, err); }

qsf_status recorder_row(recorder_file *w, int32_t id, const float *logits, qsf_error *err)
{
    uint8_t bytes[1024];
    qsf_status st = recorder_u32(w, (uint32_t)id, err);
    for (size_t at = 0; at < w->n_vocab && !st;) {
        size_t n = 0;
        for (; n < sizeof bytes && at < w->n_vocab; n += 4, at++) {
            uint32_t bits;
            memcpy(&bits, logits + at, 4);
            recorded_put(bytes + n, bits);
        }
        st = recorder_put(w, bytes, n, err);
    }
    return st;
}

qsf_status recorder_end(recorder_file *w, qsf_status st, qsf_error *err)
{
    uint8_t sum[RECORDED_SUM];
    sha256_end(&w->sum, sum);
    if (!st) st = file_out_write(&w->file, sum, sizeof sum, err);
    return file_out_end(&w->file, st, err);
}
