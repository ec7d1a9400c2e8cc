/* What the reactor exports to its host in addition to qsf.h: memory for the host's arguments.
 * SPDX-License-Identifier: MIT
 *
 * The C library's own malloc is not safe for every size: an implementation that adds a header
 * before it checks the limit returns 32 bytes to a host that asks for 2^32 - 1.  An object cannot
 * be larger than PTRDIFF_MAX. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define REACTOR_EXPORT(name) __attribute__((export_name(name)))

REACTOR_EXPORT("malloc") void *reactor_malloc(size_t size)
{
    return size > PTRDIFF_MAX ? NULL : malloc(size ? size : 1);
}
REACTOR_EXPORT("free") void reactor_free(void *p) { free(p); }
