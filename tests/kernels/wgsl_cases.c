/* Writes every variant of every shader, and random cases with the reference kernels' results.
 * SPDX-License-Identifier: MIT
 *
 *   wgsl_cases FOLDER        wgsl_run.mjs compiles and runs what is there */
#if !defined(_WIN32)
#  define _DEFAULT_SOURCE
#  define _DARWIN_C_SOURCE
#endif
#include "wgsl_adapter.h"
#include "wgsl_candidates.h"
#include "wgsl_experts.h"
#include "wgsl_prompt.h"

int main(int argc, char **argv)
{
    static wgsl_folder f;
    static table_test t = { .rng = 32 };
    qsf_kernels ref;
    if (argc != 2) return 2;
    f.path = argv[1];
    f.json = wgsl_open(&f, "cases.json");
    f.data = wgsl_open(&f, "data.bin");
    fprintf(f.json, "[");
    memset(&ref, 0, sizeof ref);
    qsf_kernels_scalar(&ref);
    product_cases(&f, &ref, &t);
    rows_cases(&f, &t, &ref);
    attend_cases(&f, &t, &ref);
    prompt_cases(&f, &t, &ref);
    floats_cases(&f, &t);
    fused_cases(&f, &t, &ref);
    choice_cases(&f, &t);
    sort_cases(&f, &t);
    experts_cases(&f, &t, &ref);
    slots_sum_cases(&f, &t);
    embed_cases(&f, &t);
    largest_cases(&f, &t, &ref);
    candidates_cases(&f, &t);
    adapter_cases(&f, &t, &ref);
    fprintf(f.json, "]}]\n");
    printf("%u shaders, %llu bytes of data\n", (unsigned)f.n_shaders, (unsigned long long)f.at);
    return fclose(f.json) || fclose(f.data) ? 1 : 0;
}
