/* The hub's address, and what addresses are made of.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_HUB_ADDRESS_H
#define QSF_HUB_ADDRESS_H

#include "cache.h"
#include "hub.h"

bool       hub_is_url(const char *text);
/* The hub's address without a slash at its end.  QSF_E_ARGUMENT: it is not one */
qsf_status hub_address(const hub_options *o, char out[HUB_PATH], qsf_error *err);
/* Whether a redirection may be followed: one from https to http may not, since others could change
 * what comes, unless the address that a person gave is http itself. */
bool       hub_redirects_safely(const char *given, const char *from, const char *to);
/* Adds text, escaped for an address, to out; slashes stay if keep_slash.  false: too long. */
bool       hub_url_put(char *out, size_t cap, const char *text, bool keep_slash);

#endif
