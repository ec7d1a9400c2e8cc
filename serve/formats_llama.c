/* Answers on llama-server's own paths, and on vLLM's /score.
 * SPDX-License-Identifier: MIT */
#include "formats.h"

#include <string.h>

/* ---- /completion and /infill ---- */

static void write_tokens(front_choice *ch, serve_text *out)
{
    text_format(out, "\"tokens\":[%s]", format_bytes(&ch->tokens));
    out->failed |= ch->tokens.failed;
}

static void write_probabilities(const front_job *j, front_choice *ch, serve_text *out)
{
    if (j->job.request.logprobs < 0 || !ch->logprobs[0].len) return;
    text_format(out, ",\"completion_probabilities\":[%s]", format_bytes(&ch->logprobs[0]));
    out->failed |= ch->logprobs[0].failed;
}

/* A chunk of a stream: {"index":...,"content":..., and its other members. */
static void completion_piece(front_job *j, unsigned choice, const char *text, size_t len, serve_text *out)
{
    front_choice *ch = &j->choices[choice];
    text_format(out, "data: {\"index\":%u,\"content\":", choice);
    text_json(out, text, len);
    text_str(out, ",");
    write_tokens(ch, out);
    text_format(out, ",\"stop\":false,\"id_slot\":%u,\"tokens_predicted\":%u,\"tokens_evaluated\":%u", choice,
                (unsigned)ch->n_tokens, (unsigned)ch->n_prompt);
    write_probabilities(j, ch, out);
    text_clear(&ch->tokens);
    format_logprobs_clear(ch);
    if (j->job.request.timings) {
        text_str(out, ",");
        format_timings(ch, out);
    }
}

static void completion_text(front_job *j, unsigned choice, const char *text, size_t len, serve_text *out)
{
    completion_piece(j, choice, text, len, out);
    text_str(out, "}\n\n");
}

static void completion_progress(front_job *j, unsigned choice, uint32_t n_done, serve_text *out)
{
    completion_piece(j, choice, "", 0, out);
    text_str(out, ",");
    format_progress_member(j, choice, n_done, out);
    text_str(out, "}\n\n");
}

static void write_prompt(const front_job *j, unsigned choice, serve_text *out)
{
    const serve_request *r = &j->job.request;
    const unsigned at = choice / serve_request_each(r);
    const serve_tokens *t = &j->job.prompts[at];
    serve_text text = { 0 };
    if (!r->prompts[at].ids && !r->infill) {
        text_json(out, r->prompts[at].text, r->prompts[at].len);
        return;
    }
    for (size_t i = 0; i < t->n; i++) {
        const char *piece;
        const size_t n = qsf_token_piece(j->entry->model, t->ids[i], true, &piece);
        text_add(&text, piece, n);
    }
    text_json(out, format_bytes(&text), text.len);
    out->failed |= text.failed;
    text_free(&text);
}

static void write_settings(const serve_request *r, uint32_t n_ctx, serve_text *out)
{
    const qsf_sampler_options *o = &r->sampler;
    text_format(out, "\"generation_settings\":{\"n_predict\":%lld,\"n_ctx\":%u,\"temperature\":%.9g,"
                "\"top_k\":%u,\"top_p\":%.9g,\"min_p\":%.9g,\"typical_p\":%.9g,\"repeat_penalty\":%.9g,"
                "\"repeat_last_n\":%u,\"presence_penalty\":%.9g,\"frequency_penalty\":%.9g,\"seed\":",
                (long long)r->max_tokens, (unsigned)n_ctx, (double)o->temperature, (unsigned)o->top_k,
                (double)o->top_p, (double)o->min_p, (double)o->typical_p, (double)o->repeat_penalty,
                (unsigned)o->repeat_last_n, (double)o->presence_penalty, (double)o->frequency_penalty);
    if (r->seeded) text_format(out, "%lld", (long long)r->seed);
    else text_str(out, "null");
    text_format(out, ",\"ignore_eos\":%s,\"stream\":%s}", r->ignore_end ? "true" : "false",
                r->stream ? "true" : "false");
}

/* The members of a finished answer. */
static void completion_last(front_job *j, unsigned choice, const char *text, size_t len, serve_text *out)
{
    front_choice *ch = &j->choices[choice];
    const serve_request *r = &j->job.request;
    const bool word = ch->end == QSF_TURN_STOP_TEXT;
    text_format(out, "{\"index\":%u,\"content\":", choice);
    text_json(out, text, len);
    text_str(out, ",");
    write_tokens(ch, out);
    text_format(out, ",\"id_slot\":%u,\"stop\":true,\"model\":", choice);
    text_json_str(out, j->model);
    text_format(out, ",\"tokens_predicted\":%u,\"tokens_evaluated\":%u,\"tokens_cached\":%u,",
                (unsigned)ch->n_tokens, (unsigned)ch->n_prompt, (unsigned)ch->n_kept);
    write_settings(r, j->entry->n_ctx, out);
    text_str(out, ",\"prompt\":");
    write_prompt(j, choice, out);
    text_format(out, ",\"has_new_line\":%s,\"truncated\":false,\"stop_type\":\"%s\",\"stopping_word\":",
                memchr(text, '\n', len) ? "true" : "false", word ? "word" : format_cut(ch) ? "limit" : "eos");
    /* The turn does not report which of several stop strings matched. */
    if (word && r->n_stops == 1) text_json(out, r->stops[0], r->stop_lengths[0]);
    else text_str(out, "\"\"");
    write_probabilities(j, ch, out);
    text_str(out, ",");
    format_timings(ch, out);
    text_str(out, "}");
}

static void completion_choice_end(front_job *j, unsigned choice, serve_text *out)
{
    text_str(out, "data: ");
    completion_last(j, choice, "", 0, out);
    text_str(out, "\n\n");
}

static void completion_end(front_job *j, serve_text *out)
{
    if (!j->error.status) return;
    text_str(out, "data: ");
    format_error(out, &j->error, ERRORS_OPENAI);
    text_str(out, "\n\n");
}

static void completion_whole(front_job *j, serve_text *out)
{
    const bool list = j->body.asks & REWRITE_LIST || j->job.n_branches > 1;
    if (list) text_str(out, "[");
    for (unsigned i = 0; i < j->job.n_branches; i++) {
        front_choice *ch = &j->choices[i];
        if (i) text_str(out, ",");
        completion_last(j, i, format_bytes(&ch->text), ch->text.len, out);
        out->failed |= ch->text.failed;
    }
    if (list) text_str(out, "]");
}

/* Answers on these paths are not split into items. */
static void no_item_text(front_job *j, unsigned choice, const front_item *item, const char *text, size_t len,
                         serve_text *out)
{
    (void)item;
    completion_text(j, choice, text, len, out);
}
static void no_item_end(front_job *j, unsigned choice, const front_item *item, serve_text *out)
{
    (void)j, (void)choice, (void)item, (void)out;
}

/* ---- embeddings and scores ---- */

static void embedding_whole(front_job *j, serve_text *out)
{
    text_str(out, "[");
    for (unsigned i = 0; i < j->job.n_prompts; i++) {
        text_format(out, "%s{\"index\":%u,\"embedding\":[", i ? "," : "", i);
        format_vector(j, i, out);
        text_str(out, "]}");
    }
    text_str(out, "]");
}

static void score_whole(front_job *j, serve_text *out)
{
    const unsigned n = (unsigned)(j->job.request.n_prompts - j->job.request.n_queries);
    const unsigned tokens = j->choices[0].n_prompt;
    text_format(out, "{\"id\":\"%s\",\"object\":\"list\",\"created\":%lld,\"model\":", j->id, j->created);
    text_json_str(out, j->model);
    text_str(out, ",\"data\":[");
    for (unsigned i = 0; i < n; i++)
        text_format(out, "%s{\"index\":%u,\"object\":\"score\",\"score\":%.9g}", i ? "," : "", i,
                    format_score(j, i));
    text_format(out, "],\"usage\":{\"prompt_tokens\":%u,\"total_tokens\":%u,\"completion_tokens\":0}}",
                tokens, tokens);
}

/* Answers an empty request once the model is loaded. */
static bool load_reply(front_job *j, serve_text *out, serve_error *e)
{
    (void)j, (void)e;
    text_str(out, "{\"success\":true}");
    return true;
}

#define COMPLETION_ANSWERS .text = completion_text, .item_text = no_item_text, .item_end = no_item_end, \
    .choice_end = completion_choice_end, .end = completion_end, .whole = completion_whole, \
    .progress = completion_progress
const front_form form_completion = { .rewrite = rewrite_completion, COMPLETION_ANSWERS };
const front_form form_infill = { .rewrite = rewrite_infill, COMPLETION_ANSWERS };
#undef COMPLETION_ANSWERS
const front_form form_embedding = { .rewrite = rewrite_embedding, .whole = embedding_whole };
const front_form form_score = { .rewrite = rewrite_score, .whole = score_whole };
const front_form form_load = { .rewrite = rewrite_ollama_model, .reply = load_reply };
const front_form form_tokenize = { .rewrite = rewrite_tokenize };
