/* The sampler of a session, and probabilities on standard error.
 * SPDX-License-Identifier: MIT */
#include "run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The token that "15" or " the" names; -1: none. */
static int32_t named_token(const qsf_model *m, const char *name, size_t len)
{
    int32_t ids[4];
    size_t n = 0;
    char *end;
    const long id = strtol(name, &end, 10);
    if (len && end == name + len && id >= 0 && id <= INT32_MAX) return (int32_t)id;
    const qsf_status st = qsf_tokens_encode(m, name, len, QSF_TOK_PARSE_SPECIAL, ids, 4, &n, NULL);
    return !st && n == 1 ? ids[0] : -1;
}

/* "TOKEN=F": the last = counts, because a token may be one. */
static qsf_status bias_add(const qsf_model *m, qsf_sampler *s, const char *text, qsf_error *err)
{
    const char *equals = strrchr(text, '=');
    char *end;
    const double bias = equals && equals[1] ? strtod(equals + 1, &end) : 0;
    const int32_t id = equals ? named_token(m, text, (size_t)(equals - text)) : -1;
    if (equals && equals[1] && !*end && id >= 0) return qsf_sampler_bias(s, id, (float)bias, err);
    err->status = QSF_E_ARGUMENT;
    snprintf(err->text, sizeof err->text, "--logit-bias takes TOKEN=F, with a token's number or a text that is "
             "one token, and a number or -inf; not \"%.120s\"", text);
    return err->status;
}

qsf_status common_sampler(const common_settings *c, const qsf_model *m, qsf_sampler *s, qsf_error *err)
{
    qsf_status st = QSF_OK;
    for (size_t i = 0; !st && i < c->logit_bias.n; i++) st = bias_add(m, s, c->logit_bias.items[i], err);
    for (size_t i = 0; !st && i < c->ban.n; i++)
        st = qsf_sampler_ban(s, c->ban.items[i], strlen(c->ban.items[i]), err);
    if (!st && c->dry_breaker.n) (void)qsf_sampler_breaker(s, NULL, 0, NULL);
    for (size_t i = 0; !st && i < c->dry_breaker.n; i++) {
        const char *text = c->dry_breaker.items[i];
        if (strcmp(text, "none")) st = qsf_sampler_breaker(s, text, strlen(text), err);
    }
    return st;
}

int sampling_open(run_session *s)
{
    const common_settings *c = &s->set->common;
    if (qsf_sampler_new(s->model, &c->sampler, &s->sampler, &s->error)) return report(&s->error);
    return common_sampler(c, s->model, s->sampler, &s->error) ? report(&s->error) : EXIT_OK;
}

/* A token's text, which may be a part of a character: bytes that are none are U+FFFD. */
static void print_token(const run_session *s, const qsf_logprob *p)
{
    const char *piece;
    char text[1024];
    qsf_utf8_tail tail = { 0 };
    size_t len = qsf_token_piece(s->model, p->token, true, &piece);
    if (len > 256) len = 256;
    size_t n = qsf_utf8_push(&tail, piece, len, text);
    if (tail.len) n += (size_t)snprintf(text + n, sizeof text - n, "\xef\xbf\xbd");
    fprintf(stderr, "{\"id\":%d,\"token\":\"", (int)p->token);
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)text[i];
        if (c == '"' || c == '\\') fprintf(stderr, "\\%c", c);
        else if (c < 0x20 || c == 0x7f) fprintf(stderr, "\\u%04x", c);
        else fputc(c, stderr);
    }
    if (isfinite(p->logprob)) fprintf(stderr, "\",\"logprob\":%.6g", (double)p->logprob);
    else fputs("\",\"logprob\":null", stderr);
}

void print_logprobs(const run_session *s, const qsf_turn_piece *p)
{
    print_token(s, &p->logprobs[0]);
    fputs(",\"top_logprobs\":[", stderr);
    for (size_t i = 1; i < p->n_logprobs; i++) {
        if (i > 1) fputc(',', stderr);
        print_token(s, &p->logprobs[i]);
        fputc('}', stderr);
    }
    fputs("]}\n", stderr);
}
