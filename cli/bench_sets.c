/* The instruction sets that this processor has, for --isa all and for the kernels.
 * SPDX-License-Identifier: MIT */
#include "benchmark.h"

#include "kernels.h"

void bench_all_sets(bench_words *out)
{
    static const char *const names[] = { "scalar", "sse42", "avx2", "avxvnni", "avx512", "avx512vbmi",
                                         "avx512bf16", "amx", "neon", "dotprod", "i8mm", "wasm",
                                         "wasm-relaxed", "wasm-dot" };
    const qsf_platform *p = qsf_platform_native();
    qsf_kernels k;
    out->n = 0;
    for (size_t i = 0; i < QSF_ARRAY_LEN(names); i++)
        if (!qsf_kernels_init(&k, p->cpu_features(p->user), names[i], NULL))
            snprintf(out->v[out->n++], sizeof out->v[0], "%s", names[i]);
}
