/* Responses stored in memory for "previous_response_id", item references and GET /v1/responses/ID.
 * The oldest are evicted when their number or size exceeds the limit.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_SERVE_KEPT_RESPONSES_H
#define QSF_SERVE_KEPT_RESPONSES_H

#include "text.h"

#include <stdint.h>

enum { KEPT_RESPONSES = 512, KEPT_BYTES = 64 << 20, KEPT_ID = 48 };

typedef struct kept_response {
    char       id[KEPT_ID];
    unsigned   key;                   /* of the client that owns it */
    uint64_t   age;                   /* counter value at creation; 0: the entry is free */
    serve_text json;                  /* the response */
    serve_text messages;              /* the conversation including the answer: n messages "{...},{...}" */
    size_t     n_messages;
} kept_response;

/* Zero-initialized. */
typedef struct kept_responses {
    kept_response items[KEPT_RESPONSES];
    uint64_t      ages;
    size_t        bytes;
} kept_responses;

/* Takes ownership of both buffers and empties them.  Responses that are too large are not
 * stored. */
void kept_responses_add(kept_responses *k, const char *id, unsigned key, serve_text *json,
                        serve_text *messages, size_t n_messages);
/* NULL: not stored, or another client's. */
const kept_response *kept_responses_find(const kept_responses *k, const char *id, unsigned key);
/* The response that an item's id (KIND_RESPONSE_NUMBER) belongs to. */
const kept_response *kept_responses_of_item(const kept_responses *k, const char *item, unsigned key);
bool kept_responses_drop(kept_responses *k, const char *id, unsigned key);
void kept_responses_clear(kept_responses *k);

#endif
