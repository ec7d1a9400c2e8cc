/* What the reactor gives its host beside qsf.h: memory for what the host passes.
 * SPDX-License-Identifier: MIT
 *
 * The C library's own malloc is no answer to any size: one that adds a header before it compares
 * has 32 bytes for a host that asks for 2^32 - 1.  No object can be larger than PTRDIFF_MAX. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define REACTOR_EXPORT(name) __attribute__((export_name(name)))

REACTOR_EXPORT("malloc") void *reactor_malloc(size_t size)
{
    return size > PTRDIFF_MAX ? NULL : malloc(size ? size : 1);
}
REACTOR_EXPORT("free") void reactor_free(void *p) { free(p); }
