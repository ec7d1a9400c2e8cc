/* What the machine can do at best, as loops: reading memory, multiplying 8-bit numbers.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CLI_BENCH_PEAK_H
#define QSF_CLI_BENCH_PEAK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Reads all bytes of p (64-byte aligned, n a multiple of 1024) and does almost
 * nothing with them. */
typedef struct bench_reader {
    const char *isa;
    uint64_t  (*run)(const uint8_t *p, size_t n);
    double      best;        /* bytes per second, if measured */
} bench_reader;
/* The readers of this processor, by its QSF_CPU_* flags; returns their number, at most 4. */
size_t bench_readers(uint32_t cpu, bench_reader out[4]);

/* Multiply-adds of 8-bit numbers into 32-bit sums from registers, as the kernels of a set can do
 * them at best.  run returns their number, at least `least`. */
typedef struct bench_peak { const char *isa; uint64_t (*run)(uint64_t least); } bench_peak;
/* The loop for the instruction set of this name. */
bench_peak bench_peak_of(const char *isa);

/* Memory in pages of the smallest size; NULL if the system does not offer them, or is out of
 * memory. */
void *bench_small_pages(size_t size);
void  bench_small_pages_free(void *p, size_t size);

#endif
