/* The hub's address, and what addresses are made of.
 * SPDX-License-Identifier: MIT */
#include "address.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HUB "https://huggingface.co"

static bool scheme(const char *text, const char *name)
{
    size_t n = 0;
    while (name[n] && (text[n] | 32) == name[n]) n++;
    return !name[n];
}

bool hub_is_url(const char *text) { return scheme(text, "http://") || scheme(text, "https://"); }

bool hub_redirects_safely(const char *given, const char *from, const char *to)
{
    return !scheme(from, "https://") || scheme(to, "https://") || scheme(given, "http://");
}

qsf_status hub_address(const hub_options *o, char out[HUB_PATH], qsf_error *err)
{
    const char *from[] = { o->address, getenv("QSF_HUB"), getenv("HF_ENDPOINT"), HUB }, *given = NULL;
    for (int i = 0; i < 4 && !(given && *given); i++) given = from[i];
    const char *host = strstr(given, "://");
    if (!hub_is_url(given) || memchr(host + 3, '@', strcspn(host + 3, "/")) || strpbrk(given, "?#")
        || strlen(given) >= 400)
        return qsf_fail(err, QSF_E_ARGUMENT, "the hub's address (--hub, QSF_HUB or HF_ENDPOINT) must be an "
                        "http(s) address without a user name, as " HUB);
    snprintf(out, HUB_PATH, "%s", given);
    for (size_t n = strlen(out); n && out[n - 1] == '/'; ) out[--n] = 0;
    return QSF_OK;
}

bool hub_url_put(char *out, size_t cap, const char *text, bool keep_slash)
{
    size_t n = strlen(out);
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        const bool plain = (*p >= '0' && *p <= '9') || (*p >= 'A' && *p <= 'Z') || (*p >= 'a' && *p <= 'z')
            || strchr("-_.~", *p) || (*p == '/' && keep_slash);
        if (n + 4 > cap) return false;
        if (plain) out[n++] = (char)*p;
        else n += (size_t)snprintf(out + n, cap - n, "%%%02X", *p);
    }
    out[n] = 0;
    return true;
}
