"""What the documents' C statements stand in, so that docs_commands.py can compile them.
SPDX-License-Identifier: MIT"""

FRAGMENT = """#include <qsf.h>
#include <stdio.h>
void return_to_event_loop(void);
void on_token(int id, const char *text, void *user);
void fragment(qsf_model *model, qsf_context *context, const qsf_row *rows, size_t n, qsf_error err);
void fragment(qsf_model *model, qsf_context *context, const qsf_row *rows, size_t n, qsf_error err)
{
(void)model, (void)context, (void)rows, (void)n, (void)err;
"""
TURNS = FRAGMENT.replace("qsf_error err", "qsf_turn *turn, qsf_turn_piece piece")
TURNS = TURNS.replace("(void)err", "(void)turn")
TALK = """#include <qsf.h>
void show(const qsf_answer_event *event);
void fragment(qsf_model *model, qsf_turn *turn, qsf_sampler *sampler, const char *tools, const char *messages,
              size_t len);
void fragment(qsf_model *model, qsf_turn *turn, qsf_sampler *sampler, const char *tools, const char *messages,
              size_t len)
{
qsf_chat_options chat = { .size = sizeof chat };
qsf_answer_options answer_options = { .size = sizeof answer_options };
qsf_turn_options turn_options = { .size = sizeof turn_options };
qsf_turn_piece piece = { .size = sizeof piece };
qsf_answer_event event = { .size = sizeof event };
qsf_conversation *talk;
const char *message;
qsf_error err;
"""
BATCH = """#include <qsf.h>
void give_pieces(qsf_turn *turn);
void fragment(qsf_context *context, qsf_turn **turns, size_t *want, size_t n_turns, qsf_row *rows,
              size_t most);
void fragment(qsf_context *context, qsf_turn **turns, size_t *want, size_t n_turns, qsf_row *rows,
              size_t most)
{
size_t i, n, first;
"""
FLAT = """#include <qsf_flat.h>
#include <string.h>
void fragment(const char *messages, int32_t end, int32_t event, int32_t error);
void fragment(const char *messages, int32_t end, int32_t event, int32_t error)
{
char text[256];
"""
