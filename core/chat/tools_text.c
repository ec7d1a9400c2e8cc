/* Texts that grow, and the comparison of answers with a form's texts.
 * SPDX-License-Identifier: MIT */
#include "chat/tools.h"

void qsf_text_add(qsf_text *t, const char *bytes, size_t n)
{
    if (t->failed || !n) return;
    if (n >= t->cap - t->n) {                        /* one byte for an ending zero */
        const size_t cap = QSF_MAX(2 * t->cap, t->n + n + 64);
        char *at = qsf_alloc(t->platform, cap, "an answer's text", NULL);
        if (!at) {
            t->failed = true;
            return;
        }
        if (t->n) memcpy(at, t->at, t->n);
        qsf_dealloc(t->platform, t->at, t->cap);
        t->at = at;
        t->cap = cap;
    }
    memcpy(t->at + t->n, bytes, n);
    t->n += n;
    t->at[t->n] = 0;
}

void qsf_text_put(qsf_text *t, const char *text) { qsf_text_add(t, text, strlen(text)); }

void qsf_text_json(qsf_text *t, const char *bytes, size_t n)
{
    static const char hex[] = "0123456789abcdef", from[] = "\b\t\n\f\r\"\\", to[] = "btnfr\"\\";
    size_t begin = 0;
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)bytes[i];
        if (c >= 0x20 && c != '"' && c != '\\') continue;
        const char *known = c ? strchr(from, c) : NULL;
        char escape[6] = { '\\', 'u', '0', '0', hex[c >> 4], hex[c & 15] };
        if (known) escape[1] = to[known - from];
        qsf_text_add(t, bytes + begin, i - begin);
        qsf_text_add(t, escape, known ? 2 : 6);
        begin = i + 1;
    }
    qsf_text_add(t, bytes + begin, n - begin);
}

void qsf_text_drop(qsf_text *t)
{
    qsf_dealloc(t->platform, t->at, t->cap);
    *t = (qsf_text){ .platform = t->platform };
}

static bool tt_id(char c)
{
    return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || c == '_' || c == '-';
}

/* Blanks after a mark are skipped: models add them even if the template does not. */
ptrdiff_t qsf_tool_match(const char *text, const char *p, size_t n)
{
    const char *begin = text;
    size_t i = 0;
    bool marks = false;
    while (*text) {
        if (qsf_tool_blank(*text)) {
            while (qsf_tool_blank(*text)) text++;
            while (i < n && qsf_tool_blank(p[i])) i++;
            continue;
        }
        if (i == n) return -1;
        if (*text == QSF_TOOL_ID) {
            while (i < n && tt_id(p[i])) i++;
            if (i == n) return -1;
            text++;
        } else if (p[i] == *text) {
            marks = true;
            i++;
            text++;
        } else if (text > begin && qsf_tool_blank(p[i]) && strchr(">]:`", text[-1])) {
            i++;
        } else {
            return 0;
        }
    }
    return marks ? (ptrdiff_t)i : 0;
}
