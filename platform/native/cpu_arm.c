/* What a 64-bit ARM processor can do, as Linux, macOS and Windows tell it.  NEON is part of the
 * base.
 * SPDX-License-Identifier: MIT */
#include "native.h"

#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>

/* From the kernel's asm/hwcap.h, which older C libraries lack in part. */
enum { CPU_HWCAP_ASIMDDP = 1 << 20, CPU_HWCAP2_I8MM = 1 << 13 };

uint32_t qsf_native_cpu_features(void *user)
{
    (void)user;
    uint32_t has = QSF_CPU_NEON;
    if (getauxval(AT_HWCAP) & CPU_HWCAP_ASIMDDP) has |= QSF_CPU_DOTPROD;
    if (getauxval(AT_HWCAP2) & CPU_HWCAP2_I8MM) has |= QSF_CPU_I8MM;
    return has;
}
#elif defined(__aarch64__) && defined(__APPLE__)
#include <sys/sysctl.h>

static bool cpu_sysctl_flag(const char *name)
{
    int value = 0;
    size_t size = sizeof value;
    return sysctlbyname(name, &value, &size, NULL, 0) == 0 && value != 0;
}

uint32_t qsf_native_cpu_features(void *user)
{
    (void)user;
    uint32_t has = QSF_CPU_NEON;
    if (cpu_sysctl_flag("hw.optional.arm.FEAT_DotProd")) has |= QSF_CPU_DOTPROD;
    if (cpu_sysctl_flag("hw.optional.arm.FEAT_I8MM")) has |= QSF_CPU_I8MM;
    return has;
}
#elif defined(__aarch64__) && defined(_WIN32)
#include <windows.h>

uint32_t qsf_native_cpu_features(void *user)
{
    (void)user;
    enum { DOT_PRODUCT = 43 };                   /* PF_ARM_V82_DP_INSTRUCTIONS_AVAILABLE */
    return QSF_CPU_NEON | (IsProcessorFeaturePresent(DOT_PRODUCT) ? QSF_CPU_DOTPROD : 0);
}
#endif
