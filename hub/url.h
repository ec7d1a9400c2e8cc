/* Models by address.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_HUB_URL_H
#define QSF_HUB_URL_H

#include "hub.h"
#include "name.h"

/* The name that a page or a file of a hub at base, or of Hugging Face's, has there: the address is
 * BASE/OWNER/REPO, or that and /resolve/REVISION/FILE.  false: it is another address. */
bool       hub_url_name(const char *url, const char *base, hub_name *out);
/* The file of another address, in the cache of programs (QSF_CACHE); as hub_find. */
qsf_status hub_url_find(const hub_options *o, const char *url, char **path, qsf_error *err);

#endif
