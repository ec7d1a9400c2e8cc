/* The loops that qsf-bench's shares are relative to.  Their results are not used: empty assembly
 * statements keep the compiler from seeing that.
 * SPDX-License-Identifier: MIT */
#if defined(__linux__) && !defined(_DEFAULT_SOURCE)
#  define _DEFAULT_SOURCE       /* mmap, madvise */
#endif

#include "bench_peak.h"
#include "sets.h"

#if defined(__linux__)
#  include <sys/mman.h>
#endif

/* The value may be anything now, for all that the compiler knows. */
#if defined(__x86_64__)
#  define PEAK_HIDE(v) __asm__ volatile("" : "+x"(v))
#elif defined(__aarch64__)
#  define PEAK_HIDE(v) __asm__ volatile("" : "+w"(v))
#endif

/* Many sums hide the latency between two additions to the same one;
 * a round is an addition to each. */
enum { PEAK_ROUNDS = 64 };

/* ---- plain C, compiled without any instruction set ---- */

static uint64_t read_plain(const uint8_t *p, size_t n)
{
    uint64_t s[8] = { 0 };
    for (size_t i = 0; i < n; i += 64) {
        uint64_t v[8];
        memcpy(v, p + i, sizeof v);
        for (int j = 0; j < 8; j++) s[j] += v[j];
    }
    return s[0] + s[1] + s[2] + s[3] + s[4] + s[5] + s[6] + s[7];
}

static uint64_t peak_plain(uint64_t least)
{
    enum { N = 4096 };
    static const int8_t numbers[2][N] = { { 1 }, { 1 } };
    volatile int32_t sum = 0;
    uint64_t done = 0;
    for (; done < least; done += N) {
        int32_t s = 0;
        for (int i = 0; i < N; i++) s += numbers[0][i] * numbers[1][i];
        sum = sum + s;
    }
    return done;
}

/* ---- one instruction for four products (or more) and their sum: by assembly in fixed registers,
 * because compilers move sums from register to register, which costs half of the speed.  What the
 * registers hold does not matter. ---- */
#define PEAK_SUMS(I) I(0) I(1) I(2) I(3) I(4) I(5) I(6) I(7) I(8) I(9) I(10) I(11) I(12) I(13) I(14)
#define PEAK_INSTRUCTION(name, instruction, products, after, ...)                        \
    static uint64_t name(uint64_t least)                                                 \
    {                                                                                    \
        uint64_t done = 0;                                                               \
        for (; done < least; done += (uint64_t)PEAK_ROUNDS * 15 * (products))            \
            for (int r = 0; r < PEAK_ROUNDS; r++)                                        \
                __asm__ volatile(PEAK_SUMS(instruction) : : : __VA_ARGS__);              \
        __asm__ volatile(after : : : "memory");                                          \
        return done;                                                                     \
    }

#if defined(__x86_64__)
#include <immintrin.h>

/* ---- SSSE3: like AVX2 with half the width ---- */
QSF_TARGET_BEGIN("ssse3")
static uint64_t peak_sse42(uint64_t least)
{
    __m128i a = _mm_set1_epi8(1), b = _mm_set1_epi8(1), s[4], pairs = _mm_setzero_si128();
    const __m128i one = _mm_set1_epi16(1);
    uint64_t done = 0;
    for (int i = 0; i < 4; i++) s[i] = _mm_setzero_si128();
    for (; done < least; done += (uint64_t)PEAK_ROUNDS * 16 * 16)
        for (int r = 0; r < PEAK_ROUNDS; r++) {
            QSF_UNROLL
            for (int i = 0; i < 4; i++) {
                pairs = _mm_setzero_si128();
                QSF_UNROLL
                for (int j = 0; j < 4; j++) {
                    PEAK_HIDE(a);
                    pairs = _mm_add_epi16(pairs, _mm_maddubs_epi16(a, b));
                }
                s[i] = _mm_add_epi32(s[i], _mm_madd_epi16(pairs, one));
            }
        }
    for (int i = 0; i < 4; i++) PEAK_HIDE(s[i]);
    return done;
}
QSF_TARGET_END

/* ---- AVX2: two products of a pair in 16 bits, four pairs before they are widened, as 4-bit
 * weights allow ---- */
QSF_TARGET_BEGIN("avx2")
static uint64_t read_avx2(const uint8_t *p, size_t n)
{
    __m256i s[8];
    for (int j = 0; j < 8; j++) s[j] = _mm256_setzero_si256();
    for (size_t i = 0; i < n; i += 256)
        for (size_t j = 0; j < 8; j++)
            s[j] = _mm256_xor_si256(s[j], _mm256_load_si256((const __m256i *)(const void *)(p + i + 32 * j)));
    for (int j = 0; j < 8; j++) PEAK_HIDE(s[j]);
    return 0;
}
static uint64_t peak_avx2(uint64_t least)
{
    __m256i a = _mm256_set1_epi8(1), b = _mm256_set1_epi8(1), s[4], pairs;
    const __m256i one = _mm256_set1_epi16(1);
    uint64_t done = 0;
    for (int i = 0; i < 4; i++) s[i] = _mm256_setzero_si256();
    for (; done < least; done += (uint64_t)PEAK_ROUNDS * 16 * 32)
        for (int r = 0; r < PEAK_ROUNDS; r++) {
            QSF_UNROLL
            for (int i = 0; i < 4; i++) {
                pairs = _mm256_setzero_si256();
                QSF_UNROLL
                for (int j = 0; j < 4; j++) {
                    PEAK_HIDE(a);
                    pairs = _mm256_add_epi16(pairs, _mm256_maddubs_epi16(a, b));
                }
                s[i] = _mm256_add_epi32(s[i], _mm256_madd_epi16(pairs, one));
            }
        }
    for (int i = 0; i < 4; i++) PEAK_HIDE(s[i]);
    return done;
}
QSF_TARGET_END

QSF_TARGET_BEGIN("avx512f")
static uint64_t read_avx512(const uint8_t *p, size_t n)
{
    __m512i s[8];
    for (int j = 0; j < 8; j++) s[j] = _mm512_setzero_si512();
    for (size_t i = 0; i < n; i += 512)
        for (size_t j = 0; j < 8; j++) s[j] = _mm512_xor_si512(s[j], _mm512_load_si512(p + i + 64 * j));
    for (int j = 0; j < 8; j++) __asm__ volatile("" : "+v"(s[j]));
    return 0;
}
QSF_TARGET_END

/* ---- AVX-VNNI and AVX-512 VNNI: vpdpbusd ---- */
#define PEAK_XMM "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", \
                 "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14"
#define PEAK_YMM_SUM(i) "%{vex%} vpdpbusd %%ymm15, %%ymm15, %%ymm" #i "\n\t"
#define PEAK_ZMM_SUM(i) "vpdpbusd %%zmm15, %%zmm15, %%zmm" #i "\n\t"
PEAK_INSTRUCTION(peak_avxvnni, PEAK_YMM_SUM, 32, "vzeroupper", PEAK_XMM)
PEAK_INSTRUCTION(peak_avx512, PEAK_ZMM_SUM, 64, "vzeroupper", PEAK_XMM)
#undef PEAK_XMM
#undef PEAK_YMM_SUM
#undef PEAK_ZMM_SUM
#endif

#if defined(__aarch64__)
#include <arm_neon.h>

/* ---- NEON: two products of a pair in 16 bits, then added to 32 ---- */
static uint64_t peak_neon(uint64_t least)
{
    int8x16_t a = vdupq_n_s8(1), b = vdupq_n_s8(1);
    int32x4_t s[8];
    uint64_t done = 0;
    for (int i = 0; i < 8; i++) s[i] = vdupq_n_s32(0);
    for (; done < least; done += (uint64_t)PEAK_ROUNDS * 8 * 16)
        for (int r = 0; r < PEAK_ROUNDS; r++) {
            QSF_UNROLL
            for (int i = 0; i < 8; i++) {
                PEAK_HIDE(a);
                s[i] = vpadalq_s16(s[i], vmlal_s8(vmull_s8(vget_low_s8(a), vget_low_s8(b)), vget_high_s8(a),
                                                  vget_high_s8(b)));
            }
        }
    for (int i = 0; i < 8; i++) PEAK_HIDE(s[i]);
    return done;
}

/* ---- sdot and smmla, sixteen and thirty-two products, as numbers: assemblers want each set
 * spelled their own way ---- */
#define PEAK_V "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14"
#define PEAK_SDOT(i) ".inst 0x4e9f97e0 + " #i "\n\t"
#define PEAK_SMMLA(i) ".inst 0x4e9fa7e0 + " #i "\n\t"
PEAK_INSTRUCTION(peak_dotprod, PEAK_SDOT, 16, "", PEAK_V)
PEAK_INSTRUCTION(peak_i8mm, PEAK_SMMLA, 32, "", PEAK_V)
#undef PEAK_V
#undef PEAK_SDOT
#undef PEAK_SMMLA
#endif

/* ---- which ---- */

size_t bench_readers(uint32_t cpu, bench_reader out[4])
{
    size_t n = 0;
    (void)cpu;
    out[n++] = (bench_reader){ .isa = "scalar", .run = read_plain };
#if defined(__x86_64__)
    if (cpu & QSF_CPU_AVX2) out[n++] = (bench_reader){ .isa = "avx2", .run = read_avx2 };
    if (cpu & QSF_CPU_AVX512) out[n++] = (bench_reader){ .isa = "avx512", .run = read_avx512 };
#endif
    return n;
}

bench_peak bench_peak_of(const char *isa)
{
    static const bench_peak peaks[] = {
        { "scalar", peak_plain },
#if defined(__x86_64__)
        { "sse42", peak_sse42 },
        { "avx2", peak_avx2 },
        { "avxvnni", peak_avxvnni },
        { "avx512", peak_avx512 },
#elif defined(__aarch64__)
        { "neon", peak_neon },
        { "dotprod", peak_dotprod },
        { "i8mm", peak_i8mm },
#endif
    };
    for (size_t i = QSF_ARRAY_LEN(peaks); i-- > 0;)
        /* "avx512" also for longer names */
        if (!strncmp(isa, peaks[i].isa, strlen(peaks[i].isa))) return peaks[i];
    return peaks[0];
}

/* ---- small pages ---- */

#if defined(__linux__) && defined(MADV_NOHUGEPAGE)
void *bench_small_pages(size_t size)
{
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return NULL;
    if (!madvise(p, size, MADV_NOHUGEPAGE)) return p;
    munmap(p, size);
    return NULL;
}
void bench_small_pages_free(void *p, size_t size) { if (p) munmap(p, size); }
#else
void *bench_small_pages(size_t size) { (void)size; return NULL; }
void  bench_small_pages_free(void *p, size_t size) { (void)p, (void)size; }
#endif

#undef PEAK_HIDE
#undef PEAK_INSTRUCTION
#undef PEAK_SUMS
