/* A model inside an event loop: one thread computes an answer and hears of its other events
 * meanwhile.
 * SPDX-License-Identifier: MIT
 *
 *   cc -o event_loop event_loop.c $(pkg-config --cflags --libs qsf)
 *   ./event_loop model.gguf "Once upon a time" 60        60: MB of memory, so that layers stream
 *
 * The loop's events are lines on standard input ("stop" ends the answer) and the model's progress.
 * qsf_step never blocks: it computes at most one layer, and says where it lacks bytes.  The loop
 * then sleeps in poll() for a millisecond; else it only looks whether there are events.  A loop of
 * a library (libuv, GLib) does the same with an idle callback and a timer. */
#define _POSIX_C_SOURCE 200809L
#include <poll.h>
#include <qsf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_PROMPT = 2048, MOST_ANSWER = 100 };

typedef struct generation {
    qsf_model   *model;
    qsf_context *context;
    qsf_sampler *sampler;
    qsf_row      rows[MOST_PROMPT];   /* tokens that are not computed yet */
    size_t       n_rows, done;        /* how many there are; how many batches have taken */
    size_t       in_batch;
    int          n_answer;
    unsigned long steps, waits;
} generation;

/* Begins the next batch.  The last row of the prompt asks for logits. */
static qsf_status next_batch(generation *g)
{
    const size_t left = g->n_rows - g->done, most = qsf_context_batch(g->context);
    g->in_batch = left < most ? left : most;
    return qsf_batch_begin(g->context, g->rows + g->done, g->in_batch);
}

/* One step.  QSF_PENDING: call again, after a wait where *waiting is set.
 * QSF_OK: the answer is complete. */
static qsf_status advance(generation *g, bool *waiting)
{
    const qsf_status st = qsf_step(g->context, waiting);
    g->steps++;
    g->waits += *waiting;
    if (st) return st;
    g->done += g->in_batch;
    if (g->done == g->n_rows) {                    /* the batch had the last row: its logits are here */
        const char *piece;
        const int32_t token = qsf_sampler_pick(g->sampler, qsf_logits(g->context, 0));
        if (qsf_token_is_end(g->model, token) || g->n_answer++ == MOST_ANSWER) return QSF_OK;
        const size_t bytes = qsf_token_piece(g->model, token, false, &piece);
        fwrite(piece, 1, bytes, stdout);
        fflush(stdout);
        g->rows[0] = (qsf_row){ 0, token, true };
        g->n_rows = 1;
        g->done = 0;
    }
    if (qsf_seq_room(g->context, 0) == 0) return QSF_OK;
    const qsf_status begun = next_batch(g);
    return begun ? begun : QSF_PENDING;
}

/* Sleeps for at most ms until there is an event.  False: the user wants to stop. */
static bool handle_events(int ms, bool *open)
{
    char line[256];
    struct pollfd in = { STDIN_FILENO, POLLIN, 0 };
    if (poll(&in, *open, ms) <= 0) return true;
    const ssize_t n = read(STDIN_FILENO, line, sizeof line - 1);
    *open = n > 0;
    line[n > 0 ? n : 0] = 0;
    return strncmp(line, "stop", 4) != 0;
}

int main(int argc, char **argv)
{
    static generation g;
    static int32_t ids[MOST_PROMPT];
    qsf_error err = { QSF_OK, "" };
    qsf_context_options o;
    bool open = true, waiting = false, go_on = true;
    if (argc < 3) return fprintf(stderr, "usage: %s MODEL PROMPT [MEGABYTES]\n", argv[0]), 2;
    qsf_context_defaults(&o);
    if (argc > 3) o.ram_budget = strtoull(argv[3], NULL, 10) * 1000000;
    qsf_status st = qsf_model_open(argv[1], NULL, &g.model, &err);
    if (!st) st = qsf_context_new(g.model, &o, &g.context, &err);
    if (!st) st = qsf_sampler_new(g.model, NULL, &g.sampler, &err);
    if (!st) st = qsf_tokens_encode(g.model, argv[2], strlen(argv[2]), QSF_TOK_ADD_SPECIAL, ids, MOST_PROMPT,
                                    &g.n_rows, &err);
    for (size_t i = 0; !st && i < g.n_rows; i++) g.rows[i] = (qsf_row){ 0, ids[i], i + 1 == g.n_rows };
    if (!st && (st = next_batch(&g))) snprintf(err.text, sizeof err.text, "%s", qsf_last_error(g.context));
    if (!st) {
        do st = advance(&g, &waiting);
        while (st == QSF_PENDING && (go_on = handle_events(waiting ? 1 : 0, &open)));
        if (st && st != QSF_PENDING) snprintf(err.text, sizeof err.text, "%s", qsf_last_error(g.context));
        else st = QSF_OK;                          /* a step that is not made cancels the batch */
    }
    if (st) fprintf(stderr, "%s\n", err.text);
    else fprintf(stderr, "\n%s: %lu steps, %lu waits\n", go_on ? "done" : "stopped", g.steps, g.waits);
    qsf_sampler_free(g.sampler);
    qsf_context_free(g.context);
    qsf_model_close(g.model);
    return st ? 1 : 0;
}
