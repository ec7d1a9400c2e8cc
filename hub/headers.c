/* Header lines.
 * SPDX-License-Identifier: MIT */
#include "headers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_CAP = 8256 };

/* The value of a header line with this name (in small letters, with its colon); NULL: another
 * name. */
static const char *header_value(const char *line, const char *name)
{
    size_t n = 0;
    while (name[n] && (line[n] >= 'A' && line[n] <= 'Z' ? line[n] + 32 : line[n]) == name[n]) n++;
    if (name[n]) return NULL;
    line += n;
    while (*line == ' ' || *line == '\t') line++;
    return line;
}

static void etag_take(char *out, size_t cap, const char *value)
{
    if (value[0] == 'W' && value[1] == '/') value += 2;
    if (*value == '"') value++;
    const size_t n = strcspn(value, "\"");
    snprintf(out, cap, "%.*s", (int)(n < cap ? n : 0), value);
}

static int64_t number_of(const char *text)
{
    char *end;
    const long long n = strtoll(text, &end, 10);
    return end == text || n < 0 ? -1 : n;
}

/* <URL>; rel="next" */
static void link_take(hub_answer *a, const char *value)
{
    const char *end = strchr(value, '>');
    if (*value == '<' && end && strstr(end, "rel=\"next\"") && (size_t)(end - value) < sizeof a->next)
        snprintf(a->next, sizeof a->next, "%.*s", (int)(end - value - 1), value + 1);
}

static void range_take(hub_answer *a, const char *value)
{
    unsigned long long first, last, total;
    if (sscanf(value, "bytes %llu-%llu/%llu", &first, &last, &total) != 3) return;
    a->first = (int64_t)first;
    a->total = (int64_t)total;
}

static void header_once(char *out, size_t cap, const char *value)
{
    if (!*out) snprintf(out, cap, "%s", value);
}

static void header_take(hub_answer *a, char *location, size_t cap, const char *line)
{
    const char *v;
    if ((v = header_value(line, "location:"))) snprintf(location, cap, "%s", v);
    else if ((v = header_value(line, "x-repo-commit:"))) header_once(a->commit, sizeof a->commit, v);
    else if ((v = header_value(line, "x-error-code:"))) header_once(a->code, sizeof a->code, v);
    else if ((v = header_value(line, "x-error-message:"))) snprintf(a->reason, sizeof a->reason, "%s", v);
    else if ((v = header_value(line, "x-linked-etag:")) && !*a->linked_etag)
        etag_take(a->linked_etag, sizeof a->linked_etag, v);
    else if ((v = header_value(line, "x-linked-size:")) && a->linked_size < 0) a->linked_size = number_of(v);
    else if ((v = header_value(line, "etag:"))) etag_take(a->etag, sizeof a->etag, v);
    else if ((v = header_value(line, "last-modified:"))) snprintf(a->modified, sizeof a->modified, "%s", v);
    else if ((v = header_value(line, "content-length:"))) a->length = number_of(v);
    else if ((v = header_value(line, "content-range:"))) range_take(a, v);
    else if ((v = header_value(line, "retry-after:"))) a->retry_after = *v >= '0' && *v <= '9' ? atof(v) : -1;
    else if ((v = header_value(line, "link:"))) link_take(a, v);
}

void hub_answer_begin(hub_answer *a)
{
    *a = (hub_answer){ .linked_size = -1, .length = -1, .first = -1, .total = -1, .retry_after = -1 };
}

const char *hub_answer_version(const hub_answer *a) { return *a->etag ? a->etag : a->modified; }

bool hub_answer_is(const hub_answer *a, const char *version)
{
    const char *now = hub_answer_version(a);
    return !*version || !*now || !strcmp(version, now);
}

bool hub_answer_line(hub_answer *a, char *location, size_t cap, const char *bytes, size_t len)
{
    char line[LINE_CAP];
    while (len && (bytes[len - 1] == '\r' || bytes[len - 1] == '\n')) len--;
    if (len >= sizeof line) return false;
    memcpy(line, bytes, len);
    line[len] = 0;
    if (strncmp(line, "HTTP/", 5)) {
        header_take(a, location, cap, line);
        return false;
    }
    const char *space = strchr(line, ' ');
    a->status = space ? (int)strtol(space, NULL, 10) : 0;
    a->length = a->first = a->total = -1;
    a->retry_after = -1;
    *a->etag = *a->modified = *a->reason = *a->next = *location = 0;
    return true;
}
