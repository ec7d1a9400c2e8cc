/* Answers of a model under grammars, many at a time, for tests/core/turn/answers.py: a line
 * of JSON in, a line out, in the order in which the answers end.
 * SPDX-License-Identifier: MIT
 *
 *     answers MODEL SLOTS
 *
 * {"schema": "...", "prompt": "...", "seed": 1, "most": 200}
 *   -> NUMBER END TOKENS FORCED HEX    of the line, from 0; its qsf_turn_end; the text
 *   -> NUMBER 6 0 0 HEX                the message of what went wrong */
#define _POSIX_C_SOURCE 200809L     /* getline */
#include "qsf.h"
#include "text/json.h"

#include <stdio.h>
#include <stdlib.h>

enum { SLOTS = 32, ROOM = 512, ROWS = 512 };    /* positions of a slot; rows of a batch */

typedef struct slot {
    qsf_turn     *turn;
    qsf_sampler  *sampler;
    qsf_grammar  *grammar;
    unsigned long number;
    bool          busy;
    char          text[1 << 16];
    size_t        len, want;
} slot;

static void print_answer(unsigned long number, int end, size_t tokens, size_t forced, const char *text,
                         size_t len)
{
    printf("%lu %d %zu %zu ", number, end, tokens, forced);
    for (size_t i = 0; i < len; i++) printf("%02x", (uint8_t)text[i]);
    printf("\n");
    fflush(stdout);
}

static void slot_end(slot *s, const char *text, size_t len)
{
    qsf_turn_state state = { .size = sizeof state };
    qsf_turn_get_state(s->turn, &state);
    print_answer(s->number, text == s->text ? (int)state.end : QSF_TURN_FAILED, state.n_tokens,
                 state.n_forced, text, len);
    qsf_sampler_free(s->sampler);
    qsf_grammar_free(s->grammar);
    s->sampler = NULL;
    s->grammar = NULL;
    s->busy = false;
}

static qsf_status slot_begin(slot *s, const qsf_model *m, const qsf_json_node *ask, qsf_error *err)
{
    const qsf_json_node *schema = qsf_json_member(ask, "schema"), *prompt = qsf_json_member(ask, "prompt"),
        *seed = qsf_json_member(ask, "seed"), *most = qsf_json_member(ask, "most");
    int32_t ids[ROOM];
    size_t n;
    int64_t of_seed = 1, of_most = 200;
    qsf_sampler_options so;
    qsf_turn_options to;
    qsf_status st;
    if (seed) qsf_json_whole(seed, &of_seed);
    if (most) qsf_json_whole(most, &of_most);
    qsf_sampler_defaults(&so);
    so.seed = (uint64_t)of_seed;
    so.temperature = 1;
    so.top_k = 0;
    so.top_p = 1;
    if ((st = qsf_grammar_new(m, QSF_GRAMMAR_JSON_SCHEMA, schema->text, schema->n, NULL, &s->grammar, err)))
        return st;
    if ((st = qsf_sampler_new(m, &so, &s->sampler, err))) return st;
    const qsf_message user = { .role = "user", .content = prompt->text };
    if ((st = qsf_chat_encode(m, NULL, &user, 1, true, ids, ROOM, &n, err))) return st;
    qsf_turn_defaults(&to);
    to.grammar = s->grammar;
    to.max_tokens = of_most;
    s->len = 0;
    if ((st = qsf_turn_begin(s->turn, ids, n, s->sampler, &to))) *err = *qsf_turn_error(s->turn);
    return st;
}

/* All pieces that are there. */
static void slot_take(slot *s)
{
    qsf_turn_piece piece = { .size = sizeof piece };
    while (s->busy && !qsf_turn_next(s->turn, &piece)) {
        if (piece.len < sizeof s->text - s->len) {
            memcpy(s->text + s->len, piece.text, piece.len);
            s->len += piece.len;
        }
        if (piece.end == QSF_TURN_FAILED)
            slot_end(s, qsf_turn_error(s->turn)->text, strlen(qsf_turn_error(s->turn)->text));
        else if (piece.end) slot_end(s, s->text, s->len);
    }
}

/* Begins the answer to the next line; false: no more lines. */
static bool slot_fill(slot *s, const qsf_model *m, unsigned long *number)
{
    static char *line;
    static size_t cap;
    const ssize_t n = getline(&line, &cap, stdin);
    qsf_json j;
    qsf_error err = { 0 };
    if (n <= 0) {
        free(line);
        line = NULL;
        cap = 0;
        return false;
    }
    s->number = (*number)++;
    qsf_status st = qsf_json_read(qsf_platform_native(), line, (size_t)n, "line", &j, &err);
    if (!st) st = slot_begin(s, m, j.nodes, &err);
    qsf_json_drop(&j);
    s->busy = true;
    if (st) slot_end(s, err.text, strlen(err.text));
    else slot_take(s);
    return true;
}

static bool answers(qsf_model *m, qsf_context *c, slot *slots, int n_slots)
{
    qsf_row rows[ROWS];
    unsigned long number = 0;
    for (bool more = true;;) {
        size_t n = 0, first = 0;
        for (int i = 0; i < n_slots; i++) {
            while (more && !slots[i].busy) more = slot_fill(&slots[i], m, &number);
            slots[i].want = slots[i].busy ? qsf_turn_rows(slots[i].turn, rows + n, ROWS / SLOTS) : 0;
            n += slots[i].want;
        }
        if (!n) return true;
        if (qsf_compute(c, rows, n)) {
            fprintf(stderr, "%s\n", qsf_last_error(c));
            return false;
        }
        for (int i = 0; i < n_slots; i++)
            if (slots[i].want) first += qsf_turn_computed(slots[i].turn, first);
        for (int i = 0; i < n_slots; i++) slot_take(&slots[i]);
    }
}

int main(int argc, char **argv)
{
    static slot slots[SLOTS];
    const int n_slots = argc > 2 ? atoi(argv[2]) : 1;
    qsf_model *m = NULL;
    qsf_context *c = NULL;
    qsf_error err = { 0 };
    qsf_context_options co;
    if (argc < 3 || n_slots < 1 || n_slots > SLOTS) {
        fprintf(stderr, "answers MODEL SLOTS, at most %d\n", SLOTS);
        return 2;
    }
    qsf_context_defaults(&co);
    co.n_seqs = co.n_logits = (uint32_t)n_slots;
    co.n_ctx = (uint32_t)n_slots * ROOM;
    co.n_batch = ROWS;
    bool good = !qsf_model_open(argv[1], NULL, &m, &err) && !qsf_context_new(m, &co, &c, &err);
    for (int i = 0; i < n_slots && good; i++) good = !qsf_turn_new(c, i, &slots[i].turn, &err);
    if (!good) fprintf(stderr, "%s\n", err.text);
    good = good && answers(m, c, slots, n_slots);
    for (int i = 0; i < n_slots; i++) qsf_turn_free(slots[i].turn);
    qsf_context_free(c);
    qsf_model_close(m);
    return good ? 0 : 1;
}
