/* The C library as the core sees it: memory, strings, maths.  Nothing else of it is used under
 * core/ and kernels/.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_LIBC_H
#define QSF_LIBC_H

#include <assert.h>
#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#endif
