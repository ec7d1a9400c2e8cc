/* What the formats of answers share: ends, calls, tools, usage.
 * SPDX-License-Identifier: MIT */
#include "formats.h"

#include <string.h>
#include <yyjson.h>

bool format_cut(const front_choice *ch)
{
    return ch->end != QSF_TURN_END_TOKEN && ch->end != QSF_TURN_STOP_TEXT;
}

bool format_calls(const front_choice *ch)
{
    for (unsigned i = 0; i < ch->n_items; i++)
        if (ch->items[i].kind == ITEM_CALL && !ch->items[i].cut && !ch->items[i].dropped) return true;
    return false;
}

const serve_tool *format_tool(const front_job *j, const front_item *item)
{
    const serve_request *r = &j->job.request;
    for (size_t i = 0; i < r->n_renamed; i++)
        if (strlen(r->renamed[i].seen) == item->name.len
            && !memcmp(r->renamed[i].seen, format_bytes(&item->name), item->name.len)) return &r->renamed[i];
    return NULL;
}

void format_name(const front_job *j, const front_item *item, serve_text *out)
{
    const serve_tool *t = format_tool(j, item);
    text_str(out, "\"name\":");
    if (t && j->job.request.api == API_RESPONSES) text_json_str(out, t->name);
    else text_json(out, format_bytes(&item->name), item->name.len);
}

/* Arguments that are cut off or have no "input" are used unchanged. */
void format_input(const front_item *item, serve_text *out)
{
    yyjson_doc *doc = item->text.len ? yyjson_read(item->text.bytes, item->text.len, 0) : NULL;
    yyjson_val *v = yyjson_obj_get(yyjson_doc_get_root(doc), "input");
    if (yyjson_is_str(v)) text_add(out, yyjson_get_str(v), yyjson_get_len(v));
    else text_add(out, format_bytes(&item->text), item->text.len);
    yyjson_doc_free(doc);
}

void format_arguments(const front_item *item, serve_text *out)
{
    if (item->text.len) text_add(out, item->text.bytes, item->text.len);
    else text_str(out, "{}");
}

typedef struct job_usage { uint32_t prompt, kept, answer; } job_usage;

static job_usage usage_of(const front_job *j)
{
    job_usage u = { 0 };
    for (unsigned i = 0; i < j->job.n_prompts; i++) u.prompt += (uint32_t)j->job.prompts[i].n;
    for (unsigned i = 0; i < j->job.n_branches; i++) {
        u.answer += j->choices[i].n_tokens;
        if (i % serve_request_each(&j->job.request) == 0) u.kept += j->choices[i].n_kept;
    }
    return u;
}

void format_usage(const front_job *j, serve_text *out)
{
    const job_usage u = usage_of(j);
    if (j->job.request.api == API_RESPONSES)
        text_format(out, "\"usage\":{\"input_tokens\":%u,\"input_tokens_details\":{\"cached_tokens\":%u},"
                    "\"output_tokens\":%u,\"output_tokens_details\":{\"reasoning_tokens\":0},"
                        "\"total_tokens\":%u}",
                    u.prompt, u.kept, u.answer, u.prompt + u.answer);
    else if (j->job.request.api == API_MESSAGES)
        text_format(out, "\"usage\":{\"input_tokens\":%u,\"cache_creation_input_tokens\":0,"
                    "\"cache_read_input_tokens\":%u,\"output_tokens\":%u}", u.prompt - u.kept, u.kept,
                        u.answer);
    else
        text_format(out, "\"usage\":{\"prompt_tokens\":%u,\"completion_tokens\":%u,\"total_tokens\":%u,"
                    "\"prompt_tokens_details\":{\"cached_tokens\":%u}}", u.prompt, u.answer, u.prompt
                        + u.answer,
                    u.kept);
}
