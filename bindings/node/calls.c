/* The functions that the addon exports: those of the flat interface that js/ calls, and what
 * a module has besides.  tools/make_names.py makes this file from bindings/qsf_flat.h.
 * SPDX-License-Identifier: MIT */
#include "node.h"

static double call_free(node_engine *e, const node_value *v)
{
    node_free(e, v[0].u);
    return 0;
}
static double call_status(node_engine *e, const node_value *v)
{
    (void)e;
    return qsf_flat_status(v[0].u);
}
static double call_find(node_engine *e, const node_value *v)
{
    (void)e;
    return qsf_flat_find(v[0].p, v[1].i);
}
static double call_number(node_engine *e, const node_value *v)
{
    (void)e;
    return qsf_flat_number(v[0].u, v[1].i, v[2].u);
}
static double call_text(node_engine *e, const node_value *v)
{
    (void)e;
    return qsf_flat_text(v[0].u, v[1].i, v[2].u, v[3].p, v[4].n);
}
static double call_model_open(node_engine *e, const node_value *v)
{
    (void)e;
    return qsf_flat_model_open(v[0].u, v[1].p, v[2].p);
}
static double call_tokens(node_engine *e, const node_value *v)
{
    (void)e;
    return qsf_flat_tokens(v[0].u, v[1].p, v[2].n, v[3].i, v[4].p, v[5].n);
}
static double call_token_text(node_engine *e, const node_value *v)
{
    (void)e;
    return qsf_flat_token_text(v[0].u, v[1].i, v[2].i, v[3].p, v[4].n);
}
static double call_chat_text(node_engine *e, const node_value *v)
{
    (void)e;
    return qsf_flat_chat_text(v[0].u, v[1].p, v[2].n, v[3].p, v[4].p, v[5].n);
}
static double call_pair_tokens(node_engine *e, const node_value *v)
{
    (void)e;
    return qsf_flat_pair_tokens(v[0].u, v[1].p, v[2].n, v[3].p, v[4].n, v[5].p, v[6].n);
}
static double call_adapter_new(node_engine *e, const node_value *v)
{
    (void)e;
    return qsf_flat_adapter_new(v[0].u);
}
static double call_context_new(node_engine *e, const node_value *v)
{
    (void)e;
    return qsf_flat_context_new(v[0].u);
}
static double call_context_plan(node_engine *e, const node_value *v)
{
    (void)e;
    return qsf_flat_context_plan(v[0].u, v[1].p);
}
static double call_context_open(node_engine *e, const node_value *v)
{
    (void)e;
    return qsf_flat_context_open(v[0].u, v[1].p);
}
static int32_t one_refine(const node_value *v) { return qsf_flat_refine(v[0].u); }
static double call_refine(node_engine *e, const node_value *v)
{
    return node_steps(e, v, one_refine);
}
static double call_conversation_new(node_engine *e, const node_value *v)
{
    (void)e;
    return qsf_flat_conversation_new(v[0].u, v[1].p);
}
static double call_conversation_seat(node_engine *e, const node_value *v)
{
    (void)e;
    return qsf_flat_conversation_seat(v[0].u);
}
static double call_conversation_leave(node_engine *e, const node_value *v)
{
    (void)e;
    return qsf_flat_conversation_leave(v[0].u);
}
static double call_oldest(node_engine *e, const node_value *v)
{
    (void)e;
    return qsf_flat_oldest(v[0].u, v[1].u);
}
static double call_conversation_chat(node_engine *e, const node_value *v)
{
    (void)e;
    return qsf_flat_conversation_chat(v[0].u, v[1].p);
}
static double call_conversation_split(node_engine *e, const node_value *v)
{
    (void)e;
    return qsf_flat_conversation_split(v[0].u, v[1].p, v[2].i, v[3].p, v[4].n);
}
static double call_conversation_json(node_engine *e, const node_value *v)
{
    (void)e;
    return qsf_flat_conversation_json(v[0].u, v[1].p, v[2].n);
}
static double call_conversation_text(node_engine *e, const node_value *v)
{
    (void)e;
    return qsf_flat_conversation_text(v[0].u, v[1].p, v[2].n);
}
static double call_conversation_ids(node_engine *e, const node_value *v)
{
    (void)e;
    return qsf_flat_conversation_ids(v[0].u, v[1].p, v[2].n);
}
static double call_conversation_adapt(node_engine *e, const node_value *v)
{
    (void)e;
    return qsf_flat_conversation_adapt(v[0].u, v[1].p, v[2].p, v[3].n);
}
static double call_answer_new(node_engine *e, const node_value *v)
{
    (void)e;
    return qsf_flat_answer_new(v[0].u, v[1].p);
}
static double call_answer_bias(node_engine *e, const node_value *v)
{
    (void)e;
    return qsf_flat_answer_bias(v[0].u, v[1].i, v[2].d);
}
static double call_answer_ban(node_engine *e, const node_value *v)
{
    (void)e;
    return qsf_flat_answer_ban(v[0].u, v[1].p, v[2].n);
}
static double call_answer_breaker(node_engine *e, const node_value *v)
{
    (void)e;
    return qsf_flat_answer_breaker(v[0].u, v[1].p, v[2].n);
}
static double call_answer_stop(node_engine *e, const node_value *v)
{
    (void)e;
    return qsf_flat_answer_stop(v[0].u, v[1].p, v[2].n);
}
static double call_answer_grammar(node_engine *e, const node_value *v)
{
    (void)e;
    return qsf_flat_answer_grammar(v[0].u, v[1].p, v[2].i, v[3].p, v[4].n);
}
static double call_answer_begin(node_engine *e, const node_value *v)
{
    (void)e;
    return qsf_flat_answer_begin(v[0].u);
}
static double call_answer_next(node_engine *e, const node_value *v)
{
    (void)e;
    return qsf_flat_answer_next(v[0].u);
}
static int32_t one_step(const node_value *v) { return qsf_flat_step(v[0].u, v[1].p, v[2].n); }
static double call_step(node_engine *e, const node_value *v)
{
    return node_steps(e, v, one_step);
}
static double call_answer_event(node_engine *e, const node_value *v)
{
    (void)e;
    return qsf_flat_answer_event(v[0].u);
}
static double call_answer_logprobs(node_engine *e, const node_value *v)
{
    (void)e;
    return qsf_flat_answer_logprobs(v[0].u, v[1].p, v[2].p, v[3].n);
}
static double call_cancel(node_engine *e, const node_value *v)
{
    (void)e;
    qsf_flat_cancel(v[0].u);
    return 0;
}
static double call_embedding_new(node_engine *e, const node_value *v)
{
    (void)e;
    return qsf_flat_embedding_new(v[0].u, v[1].p);
}
static double call_embedding_begin(node_engine *e, const node_value *v)
{
    (void)e;
    return qsf_flat_embedding_begin(v[0].u, v[1].p, v[2].p, v[3].n);
}
static int32_t one_embedding_step(const node_value *v) { return qsf_flat_embedding_step(v[0].u); }
static double call_embedding_step(node_engine *e, const node_value *v)
{
    return node_steps(e, v, one_embedding_step);
}
static double call_embedding_values(node_engine *e, const node_value *v)
{
    (void)e;
    return qsf_flat_embedding_values(v[0].u, v[1].p, v[2].n);
}
static double call_pieces(node_engine *e, const node_value *v)
{
    return node_pieces(e, v);
}
static double call_session_save(node_engine *e, const node_value *v)
{
    return node_session_save(e, v[0].u);
}
static double call_session_load(node_engine *e, const node_value *v)
{
    return node_session_load(e, v[0].u, (double)v[1].n);
}
static double call_adapter_load(node_engine *e, const node_value *v)
{
    return node_adapter_load(e, v[0].u, v[1].p, (double)v[2].n);
}

const node_call node_calls[] = {
    { "qsf_flat_free",
      { NODE_HANDLE },
      1, false, call_free },
    { "qsf_flat_status",
      { NODE_HANDLE },
      1, false, call_status },
    { "qsf_flat_find",
      { NODE_TEXT, NODE_I32 },
      2, false, call_find },
    { "qsf_flat_number",
      { NODE_HANDLE, NODE_I32, NODE_U32 },
      3, false, call_number },
    { "qsf_flat_text",
      { NODE_HANDLE, NODE_I32, NODE_U32, NODE_AT(1, 4), NODE_SIZE },
      5, false, call_text },
    { "qsf_flat_model_open",
      { NODE_HANDLE, NODE_TEXT, NODE_LIST },
      3, false, call_model_open },
    { "qsf_flat_tokens",
      { NODE_HANDLE, NODE_AT(1, 2), NODE_SIZE, NODE_I32, NODE_AT(4, 5), NODE_SIZE },
      6, false, call_tokens },
    { "qsf_flat_token_text",
      { NODE_HANDLE, NODE_I32, NODE_I32, NODE_AT(1, 4), NODE_SIZE },
      5, false, call_token_text },
    { "qsf_flat_chat_text",
      { NODE_HANDLE, NODE_AT(1, 2), NODE_SIZE, NODE_LIST, NODE_AT(1, 5), NODE_SIZE },
      6, false, call_chat_text },
    { "qsf_flat_pair_tokens",
      { NODE_HANDLE, NODE_AT(1, 2), NODE_SIZE, NODE_AT(1, 4), NODE_SIZE, NODE_AT(4, 6), NODE_SIZE },
      7, false, call_pair_tokens },
    { "qsf_flat_adapter_new",
      { NODE_HANDLE },
      1, true, call_adapter_new },
    { "qsf_flat_context_new",
      { NODE_HANDLE },
      1, true, call_context_new },
    { "qsf_flat_context_plan",
      { NODE_HANDLE, NODE_LIST },
      2, false, call_context_plan },
    { "qsf_flat_context_open",
      { NODE_HANDLE, NODE_LIST },
      2, false, call_context_open },
    { "qsf_flat_refine",
      { NODE_HANDLE },
      1, false, call_refine },
    { "qsf_flat_conversation_new",
      { NODE_HANDLE, NODE_LIST },
      2, true, call_conversation_new },
    { "qsf_flat_conversation_seat",
      { NODE_HANDLE },
      1, false, call_conversation_seat },
    { "qsf_flat_conversation_leave",
      { NODE_HANDLE },
      1, false, call_conversation_leave },
    { "qsf_flat_oldest",
      { NODE_HANDLE, NODE_HANDLE },
      2, false, call_oldest },
    { "qsf_flat_conversation_chat",
      { NODE_HANDLE, NODE_LIST },
      2, false, call_conversation_chat },
    { "qsf_flat_conversation_split",
      { NODE_HANDLE, NODE_LIST, NODE_I32, NODE_AT(1, 4), NODE_SIZE },
      5, false, call_conversation_split },
    { "qsf_flat_conversation_json",
      { NODE_HANDLE, NODE_AT(1, 2), NODE_SIZE },
      3, false, call_conversation_json },
    { "qsf_flat_conversation_text",
      { NODE_HANDLE, NODE_AT(1, 2), NODE_SIZE },
      3, false, call_conversation_text },
    { "qsf_flat_conversation_ids",
      { NODE_HANDLE, NODE_AT(4, 2), NODE_SIZE },
      3, false, call_conversation_ids },
    { "qsf_flat_conversation_adapt",
      { NODE_HANDLE, NODE_AT(4, 3), NODE_AT(4, 3), NODE_SIZE },
      4, false, call_conversation_adapt },
    { "qsf_flat_answer_new",
      { NODE_HANDLE, NODE_LIST },
      2, true, call_answer_new },
    { "qsf_flat_answer_bias",
      { NODE_HANDLE, NODE_I32, NODE_DOUBLE },
      3, false, call_answer_bias },
    { "qsf_flat_answer_ban",
      { NODE_HANDLE, NODE_AT(1, 2), NODE_SIZE },
      3, false, call_answer_ban },
    { "qsf_flat_answer_breaker",
      { NODE_HANDLE, NODE_AT(1, 2), NODE_SIZE },
      3, false, call_answer_breaker },
    { "qsf_flat_answer_stop",
      { NODE_HANDLE, NODE_AT(1, 2), NODE_SIZE },
      3, false, call_answer_stop },
    { "qsf_flat_answer_grammar",
      { NODE_HANDLE, NODE_LIST, NODE_I32, NODE_AT(1, 4), NODE_SIZE },
      5, false, call_answer_grammar },
    { "qsf_flat_answer_begin",
      { NODE_HANDLE },
      1, false, call_answer_begin },
    { "qsf_flat_answer_next",
      { NODE_HANDLE },
      1, false, call_answer_next },
    { "qsf_flat_step",
      { NODE_HANDLE, NODE_AT(4, 2), NODE_SIZE },
      3, false, call_step },
    { "qsf_flat_answer_event",
      { NODE_HANDLE },
      1, false, call_answer_event },
    { "qsf_flat_answer_logprobs",
      { NODE_HANDLE, NODE_AT(4, 3), NODE_AT(4, 3), NODE_SIZE },
      4, false, call_answer_logprobs },
    { "qsf_flat_cancel",
      { NODE_HANDLE },
      1, false, call_cancel },
    { "qsf_flat_embedding_new",
      { NODE_HANDLE, NODE_LIST },
      2, true, call_embedding_new },
    { "qsf_flat_embedding_begin",
      { NODE_HANDLE, NODE_LENT, NODE_AT(sizeof(size_t), 3), NODE_SIZE },
      4, false, call_embedding_begin },
    { "qsf_flat_embedding_step",
      { NODE_HANDLE },
      1, false, call_embedding_step },
    { "qsf_flat_embedding_values",
      { NODE_HANDLE, NODE_AT(4, 2), NODE_SIZE },
      3, false, call_embedding_values },
    { "pieces",
      { NODE_HANDLE, NODE_AT(4, 2), NODE_SIZE, NODE_U32 },
      4, false, call_pieces },
    { "session_save",
      { NODE_HANDLE },
      1, false, call_session_save },
    { "session_load",
      { NODE_HANDLE, NODE_SIZE },
      2, false, call_session_load },
    { "adapter_load",
      { NODE_HANDLE, NODE_TEXT, NODE_SIZE },
      3, false, call_adapter_load },
};
const size_t node_n_calls = sizeof node_calls / sizeof *node_calls;
