/* qsf-bench: how fast models and kernels run here.  This file is the option table and the choice of
 * what to do.
 * SPDX-License-Identifier: MIT */
#include "benchmark.h"
#include "trace.h"

#include <stdlib.h>
#include <string.h>

#define AT(member) offsetof(bench_settings, member)
#define CONTEXT(names) OPTION_OF_CONTEXT(names, AT(context), NULL)

static const option bench_rows[] = {
    OPTION_HEADING("models", "Models"),
    { OPTION_LIST, "-m --model", "FILE", AT(models), 0, 0, NULL,
      "QSF or GGUF file, or a name or URL: hf:OWNER/REPO:Q4_K_M; may be repeated, and may also be given "
      "without -m", NULL },
    { OPTION_TEXT, "-p --prompt", "N,N,...", AT(prompts_text), 0, 0, NULL,
      "lengths of the prompts; 0 for none", "512" },
    { OPTION_TEXT, "-n --decode", "N,N,...", AT(decodes_text), 0, 0, NULL,
      "tokens to generate, one at a time; 0 for none", "128" },
    { OPTION_TEXT, "-d --depth", "N,N,...", AT(depths_text), 0, 0, NULL,
      "positions in the KV cache before decoding starts", "0" },
    { OPTION_TEXT, "--lora", "FILE", AT(lora), 0, 0, NULL,
      "also run each test with this adapter, alternating with runs without it, and report its cost in a row "
      "of its own", NULL },
    { OPTION_FLAG, "--load", NULL, AT(load), 0, 0, NULL,
      "measure the time from opening the file, which the system has cached, until all weights are ready",
      NULL },
    { OPTION_FLAG, "--parts", NULL, AT(parts), 0, 0, NULL,
      "for decode, add the median and 99th percentile of a token's time, and its parts; if layers stream, "
      "the parts are always shown, with the read rate and the share of reading that was hidden", NULL },
    { OPTION_FLAG, "--operations", NULL, AT(operations), 0, 0, NULL,
      "for decode, add a token's time per operation, and the weights that each kernel reads for it", NULL },
    CONTEXT("--ram-budget"),
    { OPTION_CHOICE, "--io", NULL, AT(io), 0, 0, "auto|uring|pread|mmap",
      "how to read the file, as for qsf-run", "auto" },
    { OPTION_CHOICE, "--i2s-layout", "NAME", AT(i2s_layout), 0, 0, I2S_LAYOUTS,
      "layout of I2_S tensors, as for qsf-run", "auto" },
    CONTEXT("-b --batch-size"),
    CONTEXT("-ctk --kv --kv-type"),

    { OPTION_TEXT, "--head-topk", "FILE", AT(head_topk), 0, 0, NULL,
      "instead, measure over this text how often the approximate heads (qsf-run --head-topk) find the exact "
      "head's most likely token, and the time per head and token", NULL },
    { OPTION_INT, "--positions", "N", AT(positions), 0, 1e9, NULL,
      "with --head-topk: positions to compare, spread over the text", "2048" },

    OPTION_HEADING("kernels", "Kernels"),
    { OPTION_FLAG, "--kernels", NULL, AT(kernels), 0, 0, NULL,
      "measure every kernel of every instruction set; also measures the machine's read rate and "
      "multiply-add peak, for comparison", NULL },
    { OPTION_TEXT, "--filter", "WORDS", AT(filter), 0, 0, NULL,
      "only kernels whose set and name contain all these words, such as \"avx512 4bit/64 memory\"", NULL },
    { OPTION_INT, "--buffer", "MB", AT(buffer_mb), 16, 65536, NULL,
      "amount of data to read from memory; use several times the largest cache", "256" },

    OPTION_HEADING("machine", "Machine"),
    { OPTION_TEXT, "-t --threads", "N,N,...", AT(threads_text), 0, 0, NULL,
      "threads; 0 for one per processor; kernels also run with one", "0" },
    { OPTION_TEXT, "--isa", "NAME,NAME,...", AT(isa_text), 0, 0, NULL,
      "instruction sets: scalar, sse42, avx2, avx512, neon, ..., or all that the processor has",
      "the best, or QSF_ISA" },
    { OPTION_INT, "-r --repetitions", "N", AT(reps), 1, BENCH_REPS_MAX, NULL,
      "runs of each test; the median, minimum, maximum and standard deviation are printed", "5" },
    { OPTION_FLAG, "--limits", NULL, AT(limits), 0, 0, NULL,
      "measure the machine's limits first; with models, print each figure's share of how fast the machine "
      "reads and multiplies", NULL },

    OPTION_HEADING("output", "Output"),
    { OPTION_FLAG, "--json", NULL, AT(json), 0, 0, NULL, "print JSON", NULL },
    { OPTION_FLAG, "--csv", NULL, AT(csv), 0, 0, NULL, "print CSV", NULL },
    { OPTION_TEXT, "--compare", "FILE", AT(compare), 0, 0, NULL,
      "compare with an earlier --json output; exit code 1 if a figure is slower", NULL },
    { OPTION_NUMBER, "--tolerance", "PERCENT", AT(tolerance), 0, 100, NULL,
      "with --compare: slowdown that still counts as equal", "5" },
};
static const option bench_about_rows[] = { OPTION_HEADING("about", "Diagnostics and help") };
#undef AT
#undef CONTEXT

static const option_page bench_page = {
    .about = "Measures how fast models and kernels run on this machine.",
    .usage = "qsf-bench [options] MODEL...",
    .examples = "  qsf-bench model.qsf model.gguf                 512 tokens in, 128 out\n"
                "  qsf-bench model.qsf -p 0 -n 64 -d 128,4096     answers at two context lengths\n"
                "  qsf-bench model.qsf --json >then.json          later: --compare then.json\n",
    .brief = "--prompt --decode --depth --repetitions --threads --isa --kernels --limits --json --compare",
    .exit_codes = "0 ok, 1 failed or slower, 2 usage, 3 bad model, 4 memory, 5 input or output, "
                  "130 interrupted",
};

/* "128,512"; each from 0 to most. */
static bool bench_parse_numbers(const char *name, const char *text, uint32_t most, bench_numbers *out)
{
    out->n = 0;
    for (const char *p = text;;) {
        char *end;
        const unsigned long v = *p >= '0' && *p <= '9' ? strtoul(p, &end, 10) : 0;
        if (*p < '0' || *p > '9' || v > most || (*end && *end != ',') || out->n == BENCH_LIST_MAX) {
            fprintf(stderr,
                    "%s takes up to %d whole numbers from 0 to %u separated by commas, not \"%s\"\n",
                    name, BENCH_LIST_MAX, (unsigned)most, text);
            return false;
        }
        out->v[out->n++] = (uint32_t)v;
        if (!*end) return true;
        p = end + 1;
    }
}

static bool bench_parse_words(const char *name, const char *text, bench_words *out)
{
    out->n = 0;
    for (const char *p = text;; p++) {
        const size_t len = strcspn(p, ",");
        if (!len || len >= sizeof out->v[0] || out->n == BENCH_LIST_MAX) {
            fprintf(stderr, "%s takes names separated by commas, not \"%s\"\n", name, text);
            return false;
        }
        memcpy(out->v[out->n], p, len);
        out->v[out->n++][len] = 0;
        if (!*(p += len)) return true;
    }
}

static bool bench_fill(bench_settings *set, const option_list *rest)
{
    for (size_t i = 0; i < rest->n; i++) {
        if (set->models.n == OPTION_LIST_MAX) {
            fprintf(stderr, "more than %d models\n", OPTION_LIST_MAX);
            return false;
        }
        set->models.items[set->models.n++] = rest->items[i];
    }
    if (!bench_parse_numbers("--prompt", set->prompts_text, 1 << 20, &set->prompts)
        || !bench_parse_numbers("--decode", set->decodes_text, 1 << 20, &set->decodes)
        || !bench_parse_numbers("--depth", set->depths_text, 1 << 20, &set->depths)
        || !bench_parse_numbers("--threads", set->threads_text, 256, &set->threads))
        return false;
    if (set->isa_text && !strcmp(set->isa_text, "all")) bench_all_sets(&set->isas);
    else if (set->isa_text && !bench_parse_words("--isa", set->isa_text, &set->isas)) return false;
    if (set->json && set->csv) {
        fputs("--json or --csv, not both\n", stderr);
        return false;
    }
    if (set->filter && !set->kernels) {
        fputs("--filter requires --kernels\n", stderr);
        return false;
    }
    if (!set->models.n && !set->kernels) {
        fputs("no model was given: qsf-bench [options] MODEL...; --help shows the options\n", stderr);
        return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    static bench_settings set = {
        .prompts_text = "512", .decodes_text = "128", .depths_text = "0", .threads_text = "0",
        .reps = 5, .io = "auto", .tolerance = 5, .buffer_mb = 256, .positions = 2048,
    };
    option_list rest;
    bench_report rep;
    trace_files *files;
    terminal_init();
    qsf_context_defaults(&set.context);
    device_defaults(&set.gpu);
    const option_part parts[] = {
        OPTION_PART(bench_rows, 0), model_names_options(offsetof(bench_settings, hub)),
        common_options(COMMON_DEVICE, offsetof(bench_settings, gpu)),
        OPTION_PART(bench_about_rows, 0), common_options(COMMON_PROGRAM, offsetof(bench_settings, program)),
    };
    const option_program program = { parts, sizeof parts / sizeof parts[0], NULL, 0, "QSF_BENCH_",
                                     "qsf-bench", &bench_page };
    int code;
    if (!common_parse(&program, &set, &set.program.about, argc, argv, &rest, &code)) return code;
    if ((code = model_names_add(&set.hub, &set.models)) != 0) return code;
    if (!bench_fill(&set, &rest)) return EXIT_USAGE;
    if ((code = model_names_find_all(&set.hub, &set.models, set.context.ram_budget)) != 0) return code;
    code = trace_open(&set.program.trace, &files);
    if (code || (code = bench_report_begin(&rep, &set))) return trace_close(files, code);
    trace_context(files, &set.context);
    code = set.head_topk ? bench_heads(&set, &rep) : bench_models(&set, &rep);
    if (!code && set.kernels) code = bench_all_kernels(&set, &rep);
    code = bench_report_end(&rep, code);
    if ((fflush(stdout) || ferror(stdout)) && !code) code = EXIT_IO;
    return trace_close(files, code);
}
