/* The parts of a message's content as text, for all APIs, including parts that a model cannot
 * read.
 * SPDX-License-Identifier: MIT */
#include "request_own.h"

#include <stdio.h>
#include <string.h>

/* ---- parts without an equivalent, as text ---- */

/* Members without meaning for a model: keys, signatures, base64 data. */
static bool part_opaque(const char *name)
{
    static const char *const names[] = {
        "type", "id", "status", "data", "file_data", "image_url", "signature", "encrypted_content",
        "encrypted_index", "cache_control", "caller",
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) if (!strcmp(name, names[i])) return true;
    return false;
}

/* Values nested deeper than this are written as JSON. */
enum { READABLE_DEPTH = 5 };

static void readable_value(serve_text *out, yyjson_val *v, int depth)
{
    size_t i, n;
    yyjson_val *key, *value;
    if (depth == READABLE_DEPTH || !(yyjson_is_arr(v) || yyjson_is_obj(v))) {
        if (yyjson_is_str(v)) text_add(out, yyjson_get_str(v), yyjson_get_len(v));
        else request_json(out, v);
        return;
    }
    if (yyjson_is_arr(v)) {
        yyjson_arr_foreach(v, i, n, value) {
            text_str(out, i ? "\n" : "");
            readable_value(out, value, depth + 1);
        }
        return;
    }
    bool any = false;
    yyjson_obj_foreach(v, i, n, key, value) {
        const char *name = unsafe_yyjson_get_str(key);
        if (part_opaque(name) || request_is_empty(value)) continue;
        text_format(out, "%s%s: ", any ? "\n" : "", name);
        readable_value(out, value, depth + 1);
        any = true;
    }
}

void part_readable(serve_text *out, yyjson_val *v)
{
    const char *type = yyjson_get_str(yyjson_obj_get(v, "type"));
    const size_t begin = out->len;
    text_format(out, "[%s]\n", type ? type : "item");
    const size_t head = out->len;
    readable_value(out, v, 0);
    if (out->failed) return;
    if (out->len == head) text_str(out, "(empty)");
    /* A zero byte would end the message. */
    for (size_t i = begin; i < out->len; i++) if (!out->bytes[i]) out->bytes[i] = ' ';
}

/* ---- parts ---- */

/* The member with the text, for a content part of this type; NULL: it has no text. */
static const char *part_member(const char *type)
{
    static const char *const members[][2] = {
        { "text", "text" }, { "input_text", "text" }, { "output_text", "text" }, { "summary_text", "text" },
        { "reasoning_text", "text" }, { "refusal", "refusal" }, { "thinking", "thinking" },
    };
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        if (!strcmp(type, members[i][0])) return members[i][1];
    return NULL;
}

/* The kind of an image, audio, video or file part; NULL: another part. */
static const char *part_unseen(const char *type)
{
    static const char *const types[][2] = {
        { "image", "image" }, { "image_url", "image" }, { "input_image", "image" },
        { "computer_screenshot", "image" }, { "input_audio", "audio" }, { "audio_url", "audio" },
        { "audio", "audio" }, { "video", "video" }, { "video_url", "video" }, { "input_video", "video" },
        { "file", "file" }, { "input_file", "file" }, { "document", "document" },
        { "container_upload", "file" },
    };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!strcmp(type, types[i][0])) return types[i][1];
    return NULL;
}

/* A document of /v1/messages.  *found: whether it is text. */
static bool part_document(message_list *l, yyjson_val *part, const char *role, const char *where,
                          serve_text *out, bool *found)
{
    yyjson_val *source = yyjson_obj_get(part, "source"), *title = yyjson_obj_get(part, "title");
    yyjson_val *context = yyjson_obj_get(part, "context");
    const char *type = yyjson_get_str(yyjson_obj_get(source, "type"));
    *found = type && (!strcmp(type, "text") || !strcmp(type, "content"));
    if (!*found) return true;
    yyjson_val *text = yyjson_obj_get(source, !strcmp(type, "text") ? "data" : "content");
    if (yyjson_is_str(title)) text_format(out, "%s\n", yyjson_get_str(title));
    if (yyjson_is_str(context)) text_format(out, "%s\n", yyjson_get_str(context));
    const char *body = message_content(l, text, role, where);
    if (body) text_str(out, body);
    return body != NULL;
}

bool part_text(message_list *l, yyjson_val *part, const char *role, const char *where, serve_text *out)
{
    if (yyjson_is_str(part)) {
        const char *text = request_text(part, where, l->e);
        if (text) text_str(out, text);
        return text != NULL;
    }
    const char *type = yyjson_get_str(yyjson_obj_get(part, "type")), *member, *kind;
    if (!type && yyjson_is_str(yyjson_obj_get(part, "text"))) type = "text";
    if (!type && yyjson_is_obj(part) && !strcmp(role, "tool")) {
        part_readable(out, part);
        return true;
    }
    if (!type) return request_wrong_type(l->e, where, "a list of parts that have a type", part);
    if ((member = part_member(type))) {
        const char *text = message_content(l, yyjson_obj_get(part, member), role, where);
        if (text && !strcmp(type, "thinking") && !strcmp(role, "assistant")) l->draft.reasoning = text;
        else if (text) text_str(out, text);
        return text != NULL;
    }
    if (!strcmp(type, "document")) {
        bool found;
        if (!part_document(l, part, role, where, out, &found)) return false;
        if (found) return true;
    }
    if (!(kind = part_unseen(type))) {
        part_readable(out, part);
        return true;
    }
    if (strcmp(role, "tool"))
        return serve_refuse(l->e, 400, "unsupported_parameter", where, "\"%s\" has a part of type \"%.40s\"; "
                            "the model reads text only", where, type);
    text_format(out, "[%s: the model reads text only]", kind);
    return true;
}

const char *message_content(message_list *l, yyjson_val *v, const char *role, const char *where)
{
    size_t i, n;
    yyjson_val *part;
    serve_text all = { 0 };
    if (!v || yyjson_is_null(v)) return "";
    if (yyjson_is_str(v)) return request_text(v, where, l->e);
    if (yyjson_is_obj(v)) {
        if (part_text(l, v, role, where, &all)) return request_keep(l->r, &all, l->e);
        return text_free(&all), NULL;
    }
    if (!yyjson_is_arr(v)) return request_wrong_type(l->e, where, "a string or a list of parts", v), NULL;
    yyjson_arr_foreach(v, i, n, part) {
        if (part_text(l, part, role, where, &all)) continue;
        text_free(&all);
        return NULL;
    }
    return request_keep(l->r, &all, l->e);
}
