/* Processors without kernels of their own: the scalar set runs.
 * SPDX-License-Identifier: MIT */
#include "native.h"

#if !defined(__x86_64__) && !defined(__aarch64__)
uint32_t qsf_native_cpu_features(void *user)
{
    (void)user;
    return 0;
}
#endif
