/* The head of an HTTP/1 request, and bodies in chunks.
 * SPDX-License-Identifier: MIT */
#include "http_parse.h"

#include <string.h>

static bool token_char(unsigned char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')
        || (c && strchr("!#$%&'*+-.^_`|~", c));
}

static bool same_word(const char *a, const char *b)
{
    for (; *a && *b; a++, b++)
        if ((*a | (*a >= 'A' && *a <= 'Z' ? 32 : 0)) != *b) return false;
    return !*a && !*b;
}

/* Whether a list of words with commas has this one, which is in small letters. */
static bool list_has(const char *list, const char *word)
{
    const size_t n = strlen(word);
    for (const char *at = list; *at; at += *at == ',') {
        at += strspn(at, " \t");
        const size_t len = strcspn(at, ", \t");
        bool same = len == n;
        for (size_t i = 0; same && i < n; i++) same = (at[i] | 32) == word[i];
        if (same) return true;
        at += strcspn(at, ",");
    }
    return false;
}

/* Ends the line at *at, which has to end in a carriage return and a line feed; NULL otherwise. */
static char *next_line(char **at, const char *end)
{
    char *line = *at;
    for (char *p = line; p + 1 < end; p++) {
        if (*p == '\n' || *p == 0) return NULL;
        if (*p != '\r') continue;
        if (p[1] != '\n') return NULL;
        *p = 0;
        *at = p + 2;
        return line;
    }
    return NULL;
}

static int parse_request_line(char *line, http_head *h, const char **why)
{
    char *path = strchr(line, ' ');
    char *version = path ? strchr(path + 1, ' ') : NULL;
    *why = "malformed request line";
    if (!path || !version || path == line || strchr(version + 1, ' ')) return 400;
    *path++ = *version++ = 0;
    for (const char *p = line; *p; p++) if (!token_char((unsigned char)*p)) return 400;
    for (const char *p = path; *p; p++) if ((unsigned char)*p <= ' ' || *p == 0x7f) return 400;
    if (strncmp(version, "HTTP/", 5)) return 400;
    *why = "unsupported HTTP version; the server supports 1.0 and 1.1";
    if (strcmp(version, "HTTP/1.1") && strcmp(version, "HTTP/1.0")) return 505;
    *why = "the path must start with a slash";
    if (*path != '/') return 400;
    h->method = line;
    h->path = path;
    h->minor = version[7] - '0';
    char *query = strchr(path, '?');
    h->query = query ? query + 1 : "";
    if (query) *query = 0;
    return 0;
}

static int parse_length(const char *value, uint64_t *out, const char **why)
{
    *why = "content-length is not a number";
    const size_t n = strlen(value);
    if (!n || strspn(value, "0123456789") != n || n > 18) return n > 18 ? 413 : 400;
    for (*out = 0; *value; value++) *out = *out * 10 + (uint64_t)(*value - '0');
    return 0;
}

/* Headers seen so far: those that determine the body's length, and those that may occur once. */
enum { SEEN_LENGTH = 1, SEEN_CODING = 2, SEEN_HOST = 4, SEEN_KEY = 8, SEEN_OTHER_KEY = 16, SEEN_ORIGIN = 32,
       SEEN_ENCODING = 64, SEEN_ASKS = 128 };

static int parse_header(const char *name, const char *value, http_head *h, unsigned *seen, const char **why)
{
    unsigned once = 0;
    int status = 0;
    if (same_word(name, "content-length")) {
        once = SEEN_LENGTH;
        status = parse_length(value, &h->length, why);
    } else if (same_word(name, "transfer-encoding")) {
        once = SEEN_CODING;
        h->chunked = true;
        *why = "unsupported transfer-encoding; only chunked is supported";
        if (!same_word(value, "chunked")) status = 501;
    } else if (same_word(name, "host")) {
        once = SEEN_HOST;
        h->host = value;
    } else if (same_word(name, "authorization")) {
        once = SEEN_KEY;
        h->authorization = value;
    } else if (same_word(name, "x-api-key")) {
        once = SEEN_OTHER_KEY;
        h->api_key = value;
    } else if (same_word(name, "content-type")) {
        h->content_type = value;
    } else if (same_word(name, "content-encoding")) {
        once = SEEN_ENCODING;
        h->encoding = value;
    } else if (same_word(name, "origin")) {
        once = SEEN_ORIGIN;
        h->origin = value;
    } else if (same_word(name, "if-none-match")) {
        h->if_none_match = value;
    } else if (same_word(name, "access-control-request-headers")) {
        once = SEEN_ASKS;
        h->asks_headers = value;
    } else if (same_word(name, "access-control-request-private-network")) {
        h->asks_private = same_word(value, "true");
    } else if (same_word(name, "connection")) {
        if (list_has(value, "close")) h->close = true;
        else if (h->minor == 0 && list_has(value, "keep-alive")) h->close = false;
    } else if (same_word(name, "expect")) {
        *why = "unsupported expect header; only 100-continue is supported";
        if (!same_word(value, "100-continue")) return 417;
        h->expects = h->minor > 0;
    }
    if (status) return status;
    *why = "a header that may occur only once was sent twice";
    if (*seen & once) return 400;
    *seen |= once;
    return 0;
}

int http_parse_head(char *text, size_t len, http_head *h, const char **why)
{
    const char *end = text + len;
    unsigned seen = 0;
    *h = (http_head){ .host = "", .origin = "", .authorization = "", .content_type = "", .api_key = "",
                      .encoding = "", .if_none_match = "", .asks_headers = "" };
    char *line = next_line(&text, end);
    *why = "header lines must end with CRLF";
    if (!line) return 400;
    int status = parse_request_line(line, h, why);
    if (status) return status;
    h->close = h->minor == 0;
    for (;;) {
        *why = "header lines must end with CRLF";
        if (!(line = next_line(&text, end))) return 400;
        if (!*line) break;
        char *colon = line;
        while (token_char((unsigned char)*colon)) colon++;
        *why = "a header name is missing or has spaces around it";
        if (colon == line || *colon != ':') return 400;
        *colon = 0;
        char *value = colon + 1 + strspn(colon + 1, " \t");
        for (size_t n = strlen(value); n && strchr(" \t", value[n - 1]);) value[--n] = 0;
        *why = "a header contains control characters";
        for (const char *p = value; *p; p++)
            if (((unsigned char)*p < 32 && *p != '\t') || *p == 0x7f) return 400;
        if ((status = parse_header(line, value, h, &seen, why))) return status;
    }
    *why = "HTTP/1.1 requires a host header";
    if (h->minor == 1 && !(seen & SEEN_HOST)) return 400;
    *why = "content-length and transfer-encoding exclude each other";
    if ((seen & SEEN_LENGTH) && (seen & SEEN_CODING)) return 400;
    *why = "HTTP/1.0 does not support chunked bodies";
    return h->minor == 0 && (seen & SEEN_CODING) ? 400 : 0;
}

/* ---- chunks ---- */

enum { CHUNK_SIZE, CHUNK_SPACE, CHUNK_EXTENSION, CHUNK_SIZE_END, CHUNK_DATA, CHUNK_DATA_CR, CHUNK_DATA_LF,
       CHUNK_TRAILER, CHUNK_TRAILER_LF };
enum { CHUNK_LINES = 1 << 16,           /* most bytes of all extensions and trailers */
       CHUNK_DIGITS = 16 };

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

/* One byte that is not the body's. */
static bool chunk_byte(http_chunks *c, char b)
{
    const int digit = hex_digit(b);
    switch (c->stage) {
    case CHUNK_SIZE:
        if (digit >= 0) {
            if (c->left >> 40 || ++c->n_line > CHUNK_DIGITS) return false;
            c->left = c->left * 16 + (uint64_t)digit;
            c->digits = true;
            return true;
        }
        c->stage = b == '\r' ? CHUNK_SIZE_END : b == ';' ? CHUNK_EXTENSION : CHUNK_SPACE;
        return c->digits && (b == '\r' || b == ';' || b == ' ' || b == '\t');
    case CHUNK_SPACE:                   /* before an extension */
        if (b == ';') c->stage = CHUNK_EXTENSION;
        return (b == ';' || b == ' ' || b == '\t') && ++c->extra <= CHUNK_LINES;
    case CHUNK_EXTENSION:
        if (b == '\r') c->stage = CHUNK_SIZE_END;
        return b != '\n' && b != 0 && ++c->extra <= CHUNK_LINES;
    case CHUNK_SIZE_END:
        c->digits = false;
        c->n_line = 0;
        c->stage = c->left ? CHUNK_DATA : CHUNK_TRAILER;
        return b == '\n';
    case CHUNK_DATA_CR:
        c->stage = CHUNK_DATA_LF;
        return b == '\r';
    case CHUNK_DATA_LF:
        c->n_line = 0;
        c->stage = CHUNK_SIZE;
        return b == '\n';
    case CHUNK_TRAILER:
        if (b == '\r') c->stage = CHUNK_TRAILER_LF;
        else c->n_line++;
        return b != '\n' && b != 0 && ++c->extra <= CHUNK_LINES;
    default:
        c->done = c->n_line == 0;
        c->n_line = 0;
        c->stage = CHUNK_TRAILER;
        return b == '\n';
    }
}

bool http_parse_chunk(http_chunks *c, const char *in, size_t len, size_t *used, const char **data,
                      size_t *n_data)
{
    *data = in;
    *n_data = *used = 0;
    while (*used < len && !c->done) {
        if (c->stage != CHUNK_DATA) {
            if (!chunk_byte(c, in[(*used)++])) return false;
            continue;
        }
        *data = in + *used;
        *n_data = c->left < len - *used ? (size_t)c->left : len - *used;
        *used += *n_data;
        if (!(c->left -= *n_data)) c->stage = CHUNK_DATA_CR;
        return true;
    }
    return true;
}
