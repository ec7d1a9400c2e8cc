/* What an x86-64 processor can do, and whether the operating system saves the registers for it.
 * SPDX-License-Identifier: MIT */
#include "native.h"

#if defined(__x86_64__)
#include <cpuid.h>
#if defined(__linux__)
#  include <sys/syscall.h>
#  include <unistd.h>
#endif

/* Bits of XCR0: the register sets that are saved when threads change. */
enum { CPU_XMM_YMM = 0x06, CPU_ZMM = 0xe0, CPU_TILES = 0x60000 };

static uint32_t cpu_saved_registers(uint32_t ecx1)
{
    if (!(ecx1 & 1u << 27)) return 0;            /* OSXSAVE */
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

static bool cpu_all(uint32_t reg, uint32_t bits) { return (reg & bits) == bits; }

/* Tile registers are 8 KB, so Linux gives them only to a process that asks (for all its threads).
 * Some hosts announce them and refuse.  Windows has another call, which is not tested. */
static bool cpu_tiles_allowed(void)
{
#if defined(__linux__) && defined(SYS_arch_prctl) && !defined(QSF_NO_AMX)
    enum { REQUEST_COMPONENT = 0x1023, TILE_DATA = 18 };         /* ARCH_REQ_XCOMP_PERM */
    return !syscall(SYS_arch_prctl, REQUEST_COMPONENT, TILE_DATA);
#else
    return false;
#endif
}

uint32_t qsf_native_cpu_features(void *user)
{
    (void)user;
    uint32_t a, b, c, d, ecx1, ebx7 = 0, ecx7 = 0, edx7 = 0, eax71 = 0, has = 0;
    if (!__get_cpuid(1, &a, &b, &ecx1, &d)) return 0;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
        ebx7 = b;
        ecx7 = c;
        edx7 = d;
        if (a >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d)) eax71 = a;
    }
    /* SSSE3, SSE4.1, SSE4.2, POPCNT */
    const uint32_t sse42 = 1u << 9 | 1u << 19 | 1u << 20 | 1u << 23;
    if (!cpu_all(ecx1, sse42)) return has;
    has |= QSF_CPU_SSE42;
    if (ecx1 & 1u << 1) has |= QSF_CPU_PCLMUL;

    const uint32_t saved = cpu_saved_registers(ecx1);
    const uint32_t avx = 1u << 12 | 1u << 28 | 1u << 29;                     /* FMA, AVX, F16C */
    const uint32_t avx2 = 1u << 3 | 1u << 5 | 1u << 8;                       /* BMI1, AVX2, BMI2 */
    if (!cpu_all(saved, CPU_XMM_YMM) || !cpu_all(ecx1, avx) || !cpu_all(ebx7, avx2)) return has;
    has |= QSF_CPU_AVX2;
    if (eax71 & 1u << 4 && ecx7 & 1u << 8) has |= QSF_CPU_AVXVNNI;           /* with GFNI, bit 8 */

    const uint32_t avx512 = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31;       /* F, DQ, BW, VL */
    if (!cpu_all(saved, CPU_ZMM) || !cpu_all(ebx7, avx512) || !(ecx7 & 1u << 11)) return has;
    has |= QSF_CPU_AVX512;                                                   /* with VNNI, bit 11 */
    if (cpu_all(ecx7, 1u << 1 | 1u << 6 | 1u << 8)) has |= QSF_CPU_AVX512_VBMI;      /* VBMI2, GFNI */
    if (eax71 & 1u << 5) has |= QSF_CPU_AVX512_BF16;
    /* AMX-TILE, AMX-INT8 */
    if (cpu_all(saved, CPU_TILES) && cpu_all(edx7, 1u << 24 | 1u << 25) && cpu_tiles_allowed())
        has |= QSF_CPU_AMX;
    return has;
}
#endif
