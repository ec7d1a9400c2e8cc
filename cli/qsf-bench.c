/* qsf-bench: how fast models and kernels run here.  This file is the option table and the choice of
 * what to do.
 * SPDX-License-Identifier: MIT */
#include "benchmark.h"
#include "trace.h"

#include <stdlib.h>
#include <string.h>

#define AT(member) offsetof(bench_settings, member)
#define CONTEXT(names) OPTION_OF_CONTEXT(names, AT(context), NULL)

static const option bench_options[] = {
    { .kind = OPTION_GROUP, .help = "Models" },
    { OPTION_LIST, "-m --model", "FILE", AT(models), 0, 0, NULL,
      "QSF or GGUF file; may be given again, and may stand alone on the command line", NULL },
    { OPTION_TEXT, "-p --prompt", "N,N,...", AT(prompts_text), 0, 0, NULL,
      "lengths of prompts to compute, 0 for none", "512" },
    { OPTION_TEXT, "-n --decode", "N,N,...", AT(decodes_text), 0, 0, NULL,
      "numbers of tokens to generate one by one, 0 for none", "128" },
    { OPTION_TEXT, "-d --depth", "N,N,...", AT(depths_text), 0, 0, NULL,
      "positions that are already in the cache when generating begins", "0" },
    { OPTION_TEXT, "--lora", "FILE", AT(lora), 0, 0, NULL,
      "an adapter of the model: each test is run with it, too, in turns with running it without, and what it "
      "costs is a row of its own", NULL },
    { OPTION_FLAG, "--load", NULL, AT(load), 0, 0, NULL,
      "the time from opening the file, which the system has in its cache, until all weights are ready",
      NULL },
    { OPTION_FLAG, "--parts", NULL, AT(parts), 0, 0, NULL,
      "for answers, the median and the 99th percentile of a token's time, and its parts; "
      "the parts come by themselves where layers stream, with the bytes read a "
      "second and how much of the reading was hidden", NULL },
    { OPTION_FLAG, "--operations", NULL, AT(operations), 0, 0, NULL,
      "for answers, a token's time in each operation, and the weights that each kernel reads for it", NULL },
    CONTEXT("--ram-budget"),
    { OPTION_CHOICE, "--io", NULL, AT(io), 0, 0, "auto|uring|pread|mmap",
      "how the file is read, as for qsf-run", "auto" },
    { OPTION_CHOICE, "--i2s-layout", "NAME", AT(i2s_layout), 0, 0, I2S_LAYOUTS,
      "how tensors of type I2_S are stored, as for qsf-run", "auto" },
    CONTEXT("-b --batch-size"),
    CONTEXT("-ctk --kv --kv-type"),

    { OPTION_TEXT, "--head-topk", "FILE", AT(head_topk), 0, 0, NULL,
      "instead: over this text, how often the approximate heads (qsf-run --head-topk) find the exact head's "
      "likeliest token, and the time of head and token", NULL },
    { OPTION_INT, "--positions", "N", AT(positions), 0, 1e9, NULL,
      "with --head-topk: positions to compare, spread over the text", "2048" },

    { .kind = OPTION_GROUP, .help = "Kernels" },
    { OPTION_FLAG, "--kernels", NULL, AT(kernels), 0, 0, NULL,
      "every kernel of every instruction set, beside the machine's reading speed and its multiply-add peak, "
      "which are measured too", NULL },
    { OPTION_TEXT, "--filter", "WORDS", AT(filter), 0, 0, NULL,
      "only those whose set and name have all these words in them, such as \"avx512 4bit/64 memory\"", NULL },
    { OPTION_INT, "--buffer", "MB", AT(buffer_mb), 16, 65536, NULL,
      "size of what is read from memory: several times the largest cache", "256" },

    { .kind = OPTION_GROUP, .help = "Machine" },
    { OPTION_TEXT, "-t --threads", "N,N,...", AT(threads_text), 0, 0, NULL,
      "threads, 0 for one a processor; kernels run with one as well", "0" },
    { OPTION_TEXT, "--isa", "NAME,NAME,...", AT(isa_text), 0, 0, NULL,
      "instruction sets: scalar, sse42, avx2, avx512, neon, ..., or all that the processor has",
      "the best there is, or QSF_ISA" },
    { OPTION_INT, "-r --repetitions", "N", AT(reps), 1, BENCH_REPS_MAX, NULL,
      "how often each test runs; median, least, most and standard deviation are printed", "5" },

    { OPTION_FLAG, "--limits", NULL, AT(limits), 0, 0, NULL,
      "with models: what the machine can read and multiply, measured first, and each figure's "
      "share of it", NULL },

    { .kind = OPTION_GROUP, .help = "Figures" },
    TRACE_OPTIONS,
    { OPTION_FLAG, "--json", NULL, AT(json), 0, 0, NULL, "as JSON", NULL },
    { OPTION_FLAG, "--csv", NULL, AT(csv), 0, 0, NULL, "as CSV", NULL },
    { OPTION_TEXT, "--compare", "FILE", AT(compare), 0, 0, NULL,
      "beside the figures of an earlier --json output; exit code 1 where one is slower", NULL },
    { OPTION_NUMBER, "--tolerance", "PERCENT", AT(tolerance), 0, 100, NULL,
      "how much slower is still the same", "5" },

    { .kind = OPTION_GROUP, .help = "About" },
    { OPTION_FLAG, "--completion-names", NULL, AT(completion), 0, 0, NULL,
      "print all option names, for shell completion", NULL },
    { OPTION_FLAG, "--version", NULL, AT(version), 0, 0, NULL, "print the version", NULL },
    { OPTION_FLAG, "-h --help", NULL, AT(help), 0, 0, NULL, "print this", NULL },
};
#undef AT
#undef CONTEXT
enum { N_BENCH_OPTIONS = sizeof bench_options / sizeof bench_options[0] };

static void bench_help(void)
{
    printf("Measures how fast models and kernels run on this machine.\n\n"
           "  qsf-bench model.qsf model.gguf                 prompt of 512, answer of 128\n"
           "  qsf-bench model.qsf -p 0 -n 64 -d 128,4096     answers in a short and in a long context\n"
           "  qsf-bench model.qsf -t 1,2 --isa all           every instruction set\n"
           "  qsf-bench model.qsf --json >then.json          later: --compare then.json\n"
           "  qsf-bench --kernels                            each kernel against what the machine can do\n\n"
           "Usage: qsf-bench [options] MODEL...  Each option can also be set by the environment variable in "
           "brackets.\n"
           "Exit codes: 0 ok, 1 failed or slower, 2 usage, 3 bad model, 4 memory, 5 input or output, 130 "
           "interrupted.\n");
    options_help(bench_options, N_BENCH_OPTIONS, "QSF_BENCH_", stdout);
}

/* "128,512"; each from 0 to most. */
static bool bench_parse_numbers(const char *name, const char *text, uint32_t most, bench_numbers *out)
{
    out->n = 0;
    for (const char *p = text;;) {
        char *end;
        const unsigned long v = *p >= '0' && *p <= '9' ? strtoul(p, &end, 10) : 0;
        if (*p < '0' || *p > '9' || v > most || (*end && *end != ',') || out->n == BENCH_LIST_MAX) {
            fprintf(stderr,
                    "%s takes up to %d whole numbers from 0 to %u with commas between them, not \"%s\"\n",
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
            fprintf(stderr, "%s takes names with commas between them, not \"%s\"\n", name, text);
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
        fputs("--filter goes with --kernels\n", stderr);
        return false;
    }
    if (!set->models.n && !set->kernels) {
        fputs("no model was given: qsf-bench [options] MODEL...; --help lists the options\n", stderr);
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
    if (!options_parse(bench_options, N_BENCH_OPTIONS, "QSF_BENCH_", &set, argc, argv, &rest))
        return EXIT_USAGE;
    if (set.help) return bench_help(), EXIT_OK;
    if (set.version) return printf("qsf-bench %s\n", qsf_version()), EXIT_OK;
    if (set.completion) return options_names(bench_options, N_BENCH_OPTIONS, stdout), EXIT_OK;
    if (!bench_fill(&set, &rest)) return EXIT_USAGE;
    int code = trace_open(set.trace, set.record, &files);
    if (code || (code = bench_report_begin(&rep, &set))) return trace_close(files, code);
    trace_context(files, &set.context);
    code = set.head_topk ? bench_heads(&set, &rep) : bench_models(&set, &rep);
    if (!code && set.kernels) code = bench_all_kernels(&set, &rep);
    code = bench_report_end(&rep, code);
    if ((fflush(stdout) || ferror(stdout)) && !code) code = EXIT_IO;
    return trace_close(files, code);
}
