/* Reads a message of one or more lines from the user.
 * SPDX-License-Identifier: MIT */
#include "chat.h"

#include <stdlib.h>
#include <string.h>

/* Reads another line, and joins it to *text with "\n" in place of its last `without` bytes. */
static line_result read_more(char **text, size_t *len, size_t without)
{
    char *more;
    size_t more_len;
    const line_result r = line_read("... ", "", &more, &more_len);
    if (r != LINE_TEXT) return r;
    char *joined = realloc(*text, *len + more_len + 2);
    if (joined) {
        *len -= without;
        joined[(*len)++] = '\n';
        memcpy(joined + *len, more, more_len + 1);
        *len += more_len;
        *text = joined;
    }
    free(more);
    return joined ? LINE_TEXT : LINE_END;
}

static const char quotes[] = "\"\"\"";
enum { QUOTES = sizeof quotes - 1 };

/* The text between """ and """.  If more text follows the closing quotes, they are part of the
 * message. */
static bool unquote(char *text, size_t *len)
{
    if (*len < 2 * QUOTES || strstr(text + QUOTES, quotes) != text + *len - QUOTES) return false;
    size_t from = QUOTES;
    *len -= QUOTES;
    if (text[from] == '\n') from++;
    if (*len > from && text[*len - 1] == '\n') --*len;
    memmove(text, text + from, *len -= from);
    text[*len] = 0;
    return true;
}

line_result chat_read(const char *prompt, const char *given, char **text, size_t *len, bool *block)
{
    *block = false;
    line_result r = line_read(prompt, given, text, len);
    if (r != LINE_TEXT) return r;
    const bool quoted = !strncmp(*text, quotes, QUOTES);
    for (;;) {
        if (quoted ? strstr(*text + QUOTES, quotes) != NULL : !*len || (*text)[*len - 1] != '\\') break;
        r = read_more(text, len, quoted ? 0 : 1);
        if (r == LINE_TEXT) continue;
        if (r == LINE_END) break;                 /* the message is what was read so far */
        free(*text);
        *text = NULL;
        return r;
    }
    *block = quoted && unquote(*text, len);
    line_keep(*text, *len);
    return LINE_TEXT;
}
