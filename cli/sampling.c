/* The sampler of a session, and probabilities on standard error.
 * SPDX-License-Identifier: MIT */
#include "run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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
