/* Responses stored in memory.
 * SPDX-License-Identifier: MIT */
#include "kept_responses.h"

#include <stdio.h>
#include <string.h>

static size_t kept_size(const kept_response *r) { return r->json.len + r->messages.len; }

static void kept_forget(kept_responses *k, kept_response *r)
{
    k->bytes -= kept_size(r);
    text_free(&r->json);
    text_free(&r->messages);
    *r = (kept_response){ .age = 0 };
}

static kept_response *kept_oldest(kept_responses *k)
{
    kept_response *old = NULL;
    for (int i = 0; i < KEPT_RESPONSES; i++) {
        kept_response *r = &k->items[i];
        if (r->age && (!old || r->age < old->age)) old = r;
    }
    return old;
}

void kept_responses_add(kept_responses *k, const char *id, unsigned key, serve_text *json,
                        serve_text *messages, size_t n_messages)
{
    kept_response *free_one = NULL, *old;
    const size_t size = json->len + messages->len;
    if (json->failed || messages->failed || size > KEPT_BYTES) {
        text_free(json);
        text_free(messages);
        return;
    }
    while (k->bytes + size > KEPT_BYTES && (old = kept_oldest(k))) kept_forget(k, old);
    for (int i = 0; i < KEPT_RESPONSES && !free_one; i++) if (!k->items[i].age) free_one = &k->items[i];
    if (!free_one) kept_forget(k, free_one = kept_oldest(k));
    *free_one = (kept_response){ .key = key, .age = ++k->ages, .json = *json, .messages = *messages,
                                 .n_messages = n_messages };
    snprintf(free_one->id, sizeof free_one->id, "%s", id);
    k->bytes += size;
    *json = *messages = (serve_text){ 0 };
}

static const kept_response *kept_named(const kept_responses *k, const char *id, size_t len, unsigned key)
{
    for (int i = 0; i < KEPT_RESPONSES; i++) {
        const kept_response *r = &k->items[i];
        if (r->age && r->key == key && strlen(r->id) == len && !memcmp(r->id, id, len)) return r;
    }
    return NULL;
}

const kept_response *kept_responses_find(const kept_responses *k, const char *id, unsigned key)
{
    return kept_named(k, id, strlen(id), key);
}

const kept_response *kept_responses_of_item(const kept_responses *k, const char *item, unsigned key)
{
    const char *id = strchr(item, '_'), *end = strrchr(item, '_');
    return id && end > id ? kept_named(k, id + 1, (size_t)(end - id - 1), key) : NULL;
}

bool kept_responses_drop(kept_responses *k, const char *id, unsigned key)
{
    const kept_response *r = kept_responses_find(k, id, key);
    if (r) kept_forget(k, &k->items[r - k->items]);
    return r != NULL;
}

void kept_responses_clear(kept_responses *k)
{
    for (int i = 0; i < KEPT_RESPONSES; i++) if (k->items[i].age) kept_forget(k, &k->items[i]);
}
