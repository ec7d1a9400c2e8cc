/* Fill-in-the-middle completion, for models with the control tokens for it.
 * SPDX-License-Identifier: MIT */
#include "front.h"

#include <stdlib.h>
#include <string.h>

/* The texts of a model's marks: before what comes first, before what comes last, before the answer.
 * A model knows them where each is a control token of its vocabulary. */
static const char *const infill_marks[][3] = {
    { "<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>" },          /* Qwen, CodeGemma */
    { "<fim_prefix>", "<fim_suffix>", "<fim_middle>" },                /* StarCoder, Granite */
    { "<fim-prefix>", "<fim-suffix>", "<fim-middle>" },
    { "<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>" },       /* GLM */
};

static bool mark_token(const qsf_model *m, const char *text, int32_t *id)
{
    int32_t letters[64];
    size_t n = 0;
    if (qsf_tokens_encode(m, text, strlen(text), QSF_TOK_PARSE_SPECIAL, id, 1, &n, NULL) || n != 1)
        return false;
    return !qsf_tokens_encode(m, text, strlen(text), 0, letters, 64, &n, NULL) && n > 1;
}

static bool infill_find(const qsf_model *m, int32_t marks[3])
{
    for (size_t i = 0; i < sizeof infill_marks / sizeof *infill_marks; i++) {
        int k = 0;
        while (k < 3 && mark_token(m, infill_marks[i][k], &marks[k])) k++;
        if (k == 3) return true;
    }
    return false;
}

/* Adds the tokens of a string, in which control tokens are ordinary text. */
static bool infill_add(const qsf_model *m, const char *text, size_t len, size_t cap, serve_tokens *out,
                       serve_error *e)
{
    size_t n = 0;
    qsf_error err = { 0 };
    if (qsf_tokens_encode(m, text, len, 0, out->ids + out->n, cap - out->n, &n, &err))
        return serve_refuse(e, 500, NULL, NULL, "%s", err.text);
    out->n += n;
    return true;
}

bool infill_known(const qsf_model *m)
{
    int32_t marks[3];
    return infill_find(m, marks);
}

/* Adds other files before the completed one: in the model's training format if its vocabulary has a
 * file separator, else one after the other. */
static void extra_add(const qsf_model *m, const serve_request *r, serve_tokens *out, size_t cap,
                      serve_error *e)
{
    static const char *const marks[] = { "<|file_sep|>", "<file_sep>", "<|file_separator|>" };
    int32_t mark = -1;
    for (int i = 0; i < 3 && mark < 0; i++) if (!mark_token(m, marks[i], &mark)) mark = -1;
    for (size_t i = 0; i < r->n_extra; i += 2) {
        if (mark >= 0) out->ids[out->n++] = mark;
        for (int k = 0; k < 2; k++) {
            const serve_words *w = &r->extra[i + (size_t)k];
            if ((!k && !w->len) || !infill_add(m, w->text, w->len, cap, out, e)) continue;
            (void)infill_add(m, "\n", 1, cap, out, e);
        }
    }
    if (mark >= 0 && r->n_extra) out->ids[out->n++] = mark;
}

static size_t infill_bytes(const serve_request *r, const serve_prompt *p)
{
    size_t n = p->len + r->suffix.len + r->middle.len;
    for (size_t i = 0; i < r->n_extra; i++) n += r->extra[i].len + 16;
    return n;
}

bool infill_tokens(const qsf_model *m, const serve_request *r, const serve_prompt *p, serve_tokens *out,
                   serve_error *e)
{
    int32_t marks[3], bos;
    size_t n = 0;
    const size_t cap = infill_bytes(r, p) + 64;
    if (!infill_find(m, marks))
        return serve_refuse(e, 400, "unsupported_parameter", "suffix", "\"suffix\" is not supported by this "
                            "model: its vocabulary has no tokens that mark one");
    if (p->ids)
        return serve_refuse(e, 400, "invalid_value", "suffix",
                            "\"suffix\" requires a prompt that is a string");
    if (!(out->ids = malloc(cap * sizeof *out->ids)))
        return serve_refuse(e, 503, NULL, NULL, "out of memory for the request");
    out->n = 0;
    if (!qsf_tokens_encode(m, "", 0, QSF_TOK_ADD_SPECIAL, &bos, 1, &n, NULL) && n == 1
        && bos == qsf_token_bos(m)) out->ids[out->n++] = bos;
    extra_add(m, r, out, cap, e);
    out->ids[out->n++] = marks[0];
    if (e->status || !infill_add(m, p->text, p->len, cap, out, e)) return false;
    out->ids[out->n++] = marks[1];
    if (!infill_add(m, r->suffix.text ? r->suffix.text : "", r->suffix.len, cap, out, e)) return false;
    out->ids[out->n++] = marks[2];
    return infill_add(m, r->middle.text ? r->middle.text : "", r->middle.len, cap, out, e);
}
