/* For systems without sockets: names are recognised, and refused.
 * SPDX-License-Identifier: MIT */
#include "hub.h"

#include "name.h"

#include <string.h>

bool hub_is_name(const char *text)
{
    return hub_name_begins(text) || !strncmp(text, "http://", 7) || !strncmp(text, "https://", 8);
}

qsf_status hub_find(const hub_options *o, const char *name, char **path, qsf_error *err)
{
    (void)o;
    *path = NULL;
    return qsf_fail(err, QSF_E_UNSUPPORTED, "%.100s: this program has no network: download the file and give "
                    "its path", name);
}

uint64_t hub_head_size(const hub_head *h) { return (void)h, 0; }
qsf_status hub_head_read(hub_head *h, uint64_t at, void *dst, size_t len)
{
    (void)h, (void)at, (void)dst, (void)len;
    return QSF_E_UNSUPPORTED;
}
