/* qsf_print_stats: the one function of the public header that writes to the terminal, so it lives
 * with the system.
 * SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "qsf.h"

static double stats_rate(uint64_t tokens, uint64_t ns) { return ns ? (double)tokens * 1e9 / (double)ns : 0; }

void qsf_print_stats(QSFEngine *e)
{
    qsf_stats s = { .size = sizeof s };
    qsf_plan plan = { .size = sizeof plan };
    qsf_context_get_stats(qsf_engine_context(e), &s);
    qsf_context_get_plan(qsf_engine_context(e), &plan);
    fprintf(stderr, "memory   %.1f MB, context %u, %s\n", (double)plan.total / 1e6, (unsigned)plan.n_ctx,
            plan.resident ? "all layers resident" : "layers stream");
    for (size_t i = 0; i < plan.n_items; i++)
        fprintf(stderr, "  %-28s %10.2f MB\n", plan.items[i].name, (double)plan.items[i].bytes / 1e6);
    fprintf(stderr, "prompt   %llu tokens, %.1f tok/s\n", (unsigned long long)s.tokens_prompt,
            stats_rate(s.tokens_prompt, s.ns_prompt));
    fprintf(stderr, "answer   %llu tokens, %.1f tok/s\n", (unsigned long long)s.tokens_generated,
            stats_rate(s.tokens_generated, s.ns_generated));
    fprintf(stderr,
            "time     matmul %.0f ms, attention %.0f ms, head %.0f ms, other %.0f ms, waiting for layers "
            "%.0f ms (%s, %u threads)\n", (double)s.ns_matmul / 1e6, (double)s.ns_attention / 1e6,
            (double)s.ns_head / 1e6, (double)s.ns_other / 1e6, (double)s.ns_wait_io / 1e6, s.isa,
            (unsigned)s.n_threads);
    fprintf(stderr,
            "layers   %.1f MB read in %.0f ms, checked %.0f ms, decompressed %.0f ms, prepared in all %.0f "
            "ms; %.0f %% of it while computing\n", (double)s.bytes_read / 1e6, (double)s.ns_read / 1e6,
            (double)s.ns_check / 1e6, (double)s.ns_decompress / 1e6, (double)s.ns_prepare / 1e6,
            100.0 * (double)s.overlap);
}
