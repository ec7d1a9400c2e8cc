/* A model in two halves: each context has half of the layers, and rows of hidden states go from one
 * to the other.  Here both are in one program; between them could be a network, a worker, a pipe.
 * SPDX-License-Identifier: MIT
 *
 *   cc -o two_halves two_halves.c $(pkg-config --cflags --libs qsf)
 *   ./two_halves model.gguf "Once upon a time" */
#include <qsf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PROMPT = 128, MOST_ANSWER = 50 };

typedef struct half { qsf_model *model; qsf_context *context; } half;

static qsf_status half_open(half *h, const char *path, uint32_t first, uint32_t end, qsf_error *err)
{
    qsf_model_options options;
    qsf_model_defaults(&options);
    options.first_layer = first;
    options.end_layer = end;
    const qsf_status st = qsf_model_open(path, &options, &h->model, err);
    return st ? st : qsf_context_new(h->model, NULL, &h->context, err);
}

static void half_close(half *h)
{
    qsf_context_free(h->context);
    qsf_model_close(h->model);
}

/* Both halves of a batch. */
static qsf_status compute(half *a, half *b, const qsf_row *rows, size_t n, float *states, size_t n_embd)
{
    qsf_status st = qsf_compute(a->context, rows, n);
    if (st) {
        fprintf(stderr, "%s\n", qsf_last_error(a->context));
        return st;
    }
    for (size_t i = 0; i < n; i++)
        memcpy(states + i * n_embd, qsf_batch_states(a->context, i), n_embd * sizeof *states);
    st = qsf_compute_from(b->context, rows, n, states);
    if (st) fprintf(stderr, "%s\n", qsf_last_error(b->context));
    return st;
}

static qsf_status continue_text(half *a, half *b, const qsf_model_info *info, const char *prompt)
{
    int32_t ids[MOST_PROMPT];
    qsf_row rows[MOST_PROMPT];
    size_t n = 0;
    float *states = malloc((size_t)MOST_PROMPT * info->n_embd * sizeof *states);
    qsf_status st = states ? QSF_OK : QSF_E_MEMORY;
    if (!st)
        st = qsf_tokens_encode(a->model, prompt, strlen(prompt), QSF_TOK_ADD_SPECIAL, ids, MOST_PROMPT, &n,
                               NULL);
    for (size_t i = 0; i < n && !st; i++) rows[i] = (qsf_row){ 0, ids[i], i == n - 1 };
    for (int i = 0; i < MOST_ANSWER && !st; i++) {
        const char *piece;
        int32_t best = 0;
        if ((st = compute(a, b, rows, n, states, info->n_embd))) break;
        const float *logits = qsf_logits(b->context, 0);
        for (uint32_t t = 1; t < info->n_vocab; t++)
            if (logits[t] > logits[best]) best = (int32_t)t;
        if (qsf_token_is_end(a->model, best)) break;
        const size_t len = qsf_token_piece(a->model, best, false, &piece);
        fwrite(piece, 1, len, stdout);
        rows[0] = (qsf_row){ 0, best, true };
        n = 1;
    }
    putchar('\n');
    free(states);
    return st;
}

int main(int argc, char **argv)
{
    qsf_error err = { 0 };
    qsf_model *whole = NULL;
    qsf_model_info info = { .size = sizeof info };
    half a = { 0 }, b = { 0 };
    if (argc != 3) {
        fprintf(stderr, "usage: %s MODEL PROMPT\n", argv[0]);
        return 2;
    }
    qsf_status st = qsf_model_open(argv[1], NULL, &whole, &err);      /* how many layers there are */
    if (!st) st = qsf_model_get_info(whole, &info);
    const uint32_t middle = (info.n_layers + 1) / 2;
    if (!st) st = half_open(&a, argv[1], 0, middle, &err);
    if (!st) st = half_open(&b, argv[1], middle, 0, &err);
    if (st) fprintf(stderr, "%s\n", err.text);
    else st = continue_text(&a, &b, &info, argv[2]);
    half_close(&a);
    half_close(&b);
    qsf_model_close(whole);
    return st ? 1 : 0;
}
