/* For systems without sockets: names are recognised, and refused.
 * SPDX-License-Identifier: MIT */
#include "arrive.h"
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

qsf_status hub_arrive(const hub_options *o, const char *name, hub_arrival **out, qsf_error *err)
{
    char *path;
    *out = NULL;
    return hub_find(o, name, &path, err);
}

const char *hub_arrival_path(const hub_arrival *a) { return (void)a, NULL; }
const qsf_platform *hub_arrival_platform(const hub_arrival *a) { return (void)a, NULL; }
bool hub_arrival_whole(const hub_arrival *a) { return (void)a, true; }
qsf_status hub_arrival_end(hub_arrival *a, bool stop, qsf_error *err)
{
    (void)a, (void)stop, (void)err;
    return QSF_OK;
}
