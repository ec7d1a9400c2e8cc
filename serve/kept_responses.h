/* Responses that are kept in memory: for "previous_response_id", references to items, and
 * GET /v1/responses/ID.  The oldest are dropped when there are too many, or too many bytes.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_SERVE_KEPT_RESPONSES_H
#define QSF_SERVE_KEPT_RESPONSES_H

#include "text.h"

#include <stdint.h>

enum { KEPT_RESPONSES = 512, KEPT_BYTES = 64 << 20, KEPT_ID = 48 };

typedef struct kept_response {
    char       id[KEPT_ID];
    unsigned   key;                   /* of the client that it belongs to */
    uint64_t   age;                   /* counted; 0: the place is free */
    serve_text json;                  /* the response */
    serve_text messages;              /* its conversation with the answer, as n messages "{...},{...}" */
    size_t     n_messages;
} kept_response;

/* Begins with all zeros. */
typedef struct kept_responses {
    kept_response items[KEPT_RESPONSES];
    uint64_t      ages;
    size_t        bytes;
} kept_responses;

/* Takes both texts over, and leaves empty ones.  Too large ones are not kept. */
void kept_responses_add(kept_responses *k, const char *id, unsigned key, serve_text *json,
                        serve_text *messages, size_t n_messages);
/* NULL: it is not there, or belongs to another client. */
const kept_response *kept_responses_find(const kept_responses *k, const char *id, unsigned key);
/* The response that an item's id belongs to: KIND_RESPONSE_NUMBER. */
const kept_response *kept_responses_of_item(const kept_responses *k, const char *item, unsigned key);
bool kept_responses_drop(kept_responses *k, const char *id, unsigned key);
void kept_responses_clear(kept_responses *k);

#endif
