/* An answer's headers, as far as downloads need them.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_HUB_HEADERS_H
#define QSF_HUB_HEADERS_H

#include "base/host.h"

/* An answer's headers.  The first group is of the first answer that had them, as the hub sends them
 * with a redirection; the others are of the last answer. */
typedef struct hub_answer {
    char commit[44], linked_etag[136], code[64];     /* X-Repo-Commit, X-Linked-ETag, X-Error-Code */
    int64_t linked_size;                             /* -1: not sent */
    bool away;                                       /* it was redirected to another origin */

    int  status;                                     /* 0: no answer */
    char modified[40];                               /* Last-Modified */
    char etag[136], reason[200], next[1024];         /* ETag without quotes, X-Error-Message, the next page */
    int64_t length, first, total;                    /* Content-Length, Content-Range; -1: not sent */
    double retry_after;                              /* seconds; -1: not sent */
} hub_answer;

void hub_answer_begin(hub_answer *a);
/* What changes when the file does: the ETag, else the time of its last change; "": neither was
 * sent. */
const char *hub_answer_version(const hub_answer *a);
/* Whether the answer may be of this version of the file; "": of any. */
bool hub_answer_is(const hub_answer *a, const char *version);
/* Takes a line, with its end or without.  location: of a redirection, "" without one.
 * Returns whether the line is the first one of another answer. */
bool hub_answer_line(hub_answer *a, char *location, size_t cap, const char *bytes, size_t len);

#endif
