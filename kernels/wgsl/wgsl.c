/* What the device's kernels share: the groups of a dispatch.
 * SPDX-License-Identifier: MIT */
#include "wgsl.h"

void qsf_wgsl_dispatch(uint32_t n, uint32_t groups[3])
{
    groups[0] = n < QSF_WGSL_DISPATCH ? n : QSF_WGSL_DISPATCH;
    groups[1] = groups[0] ? (n + groups[0] - 1) / groups[0] : 0;
    groups[2] = 1;
}
