/* qsf-mpi: a model over many machines, which `qsf-run --mpi` starts.
 * SPDX-License-Identifier: MIT
 *
 *   mpirun -np 4 qsf-run --mpi [options] MODEL [-p TEXT]... */
#include "job.h"
#include "link.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AT(member) offsetof(job, member)
static const option mpi_rows[] = {
    OPTION_HEADING("ranks", "Ranks"),
    { OPTION_FLAG, "--mpi", NULL, AT(mpi), 0, 0, NULL, "run layers on the ranks of mpirun", NULL },
    { OPTION_FLAG, "--tensor-parallel", NULL, AT(tensor), 0, 0, NULL,
      "give each rank a share of every layer instead of a range of layers", NULL },
    { OPTION_TEXT, "--split", "N,N,...", AT(split), 0, 0, NULL,
      "layers of each rank, or with --tensor-parallel the relative sizes of their shares",
      "by measured speed and memory; equal shares" },
    { OPTION_CHOICE, "--mpi-wire", "TYPE", AT(wire_name), 0, 0, "f32|f16|q8",
      "precision of the hidden states sent: exact (f32), or fewer bits", "f32" },
    { OPTION_CHOICE, "--mpi-check", "WHAT", AT(check), 0, 0, "some|all",
      "bytes of the file to compare between ranks: its start and samples of the rest, or all", "some" },
    { OPTION_NUMBER, "--mpi-silent", "SECONDS", AT(silent), 1, 3600, NULL,
      "treat a rank as dead after this long without a heartbeat, or without a step while it is computing",
      "6" },
    { OPTION_NUMBER, "--mpi-delay", "US", AT(delay_us), 0, 1e7, NULL,
      "for tests: delay messages by this many microseconds", "0" },
    { OPTION_NUMBER, "--mpi-rate", "MB/S", AT(rate_mb), 0, 1e6, NULL,
      "for tests: limit messages to this many megabytes per second; 0 for no limit", "0" },
    { OPTION_INT, "--mpi-hang", "RANK", AT(hang), -1, 1000000, NULL,
      "for tests: this rank hangs from its second batch on; -1 for none", "-1" },
    { OPTION_TEXT, "--mpi-logits", "FILE", AT(logits_path), 0, 0, NULL,
      "for tests: write all logits to this file as 32-bit floats, as they arrive", NULL },
    OPTION_HEADING("prompts", "Model and prompts"),
    { OPTION_TEXT, "-m --model", "FILE", AT(path), 0, 0, NULL, "the model", NULL },
    { OPTION_LIST, "-p --prompt", "TEXT", AT(prompts), 0, 0, NULL,
      "a prompt; if repeated, all are computed at once; without one, each line of standard input is a "
      "message of a chat", NULL },
    { OPTION_TEXT, "-sys --system", "TEXT", AT(system), 0, 0, NULL, "system message of the conversation",
      NULL },
    { OPTION_TEXT, "--chat-template", "NAME", AT(template_name), 0, 0, NULL,
      "chat template, as for qsf-run, but not a file", "the model's own" },
    { OPTION_FLAG, "--raw", NULL, AT(raw), 0, 0, NULL, "complete the text unchanged, without a chat template",
      NULL },
    { OPTION_INT, "-n --predict --max-tokens", "N", AT(max_tokens), 1, 1000000, NULL,
      "maximum tokens of an answer", "128" },
    { OPTION_FLAG, "--ignore-eos", NULL, AT(ignore_eos), 0, 0, NULL,
      "continue past the end of an answer", NULL },
    { OPTION_FLAG, "--print-ids", NULL, AT(print_ids), 0, 0, NULL,
      "print token ids instead of text", NULL },
    { OPTION_FLAG, "--print-check", NULL, AT(print_check), 0, 0, NULL,
      "print a hash of all logits per prompt; equal hashes mean equal bits", NULL },
    OPTION_HEADING("memory", "Memory and speed of each rank"),
    { OPTION_LIST, "--lora", "FILE[:SCALE]", AT(lora), 0, 0, NULL,
      "adapter of the model, of which each rank reads what its layers need; may be repeated", NULL },
    OPTION_OF_CONTEXT("--ram-budget", AT(context), NULL),
    OPTION_OF_CONTEXT("-c --ctx-size", AT(context), "for all prompts together"),
    OPTION_OF_CONTEXT("-b --batch-size", AT(context), "small batches keep all ranks busy; 32 by default"),
    OPTION_OF_CONTEXT("-t --threads", AT(context), NULL),
    OPTION_OF_CONTEXT("--kv-type", AT(context), NULL),
    OPTION_OF_CONTEXT("--f32", AT(context), NULL),
    OPTION_OF_CONTEXT("--isa", AT(context), NULL),
    OPTION_OF_CONTEXT("--quality", AT(context), NULL),
    OPTION_HEADING("sampling", "Sampling"),
    OPTION_OF(SAMPLER, "--temp --temperature", AT(sampler), NULL),
    OPTION_OF(SAMPLER, "--top-k", AT(sampler), NULL),
    OPTION_OF(SAMPLER, "--top-p", AT(sampler), NULL),
    OPTION_OF(SAMPLER, "--min-p", AT(sampler), NULL),
    OPTION_OF(SAMPLER, "--repeat-penalty", AT(sampler), NULL),
    OPTION_OF(SAMPLER, "-s --seed", AT(sampler), NULL),
    OPTION_HEADING("about", "Diagnostics and help"),
    { OPTION_FLAG, "-v --verbose", NULL, AT(verbose), 0, 0, NULL, "print which rank has which layers",
      NULL },
};
static const option_page mpi_page = {
    .about = "Runs a model over several machines: each rank of mpirun holds some of its layers.",
    .usage = "mpirun -np RANKS qsf-run --mpi [options] MODEL [-p TEXT]...",
    .examples = "  mpirun -np 4 qsf-run --mpi model.gguf                  chat, four ranges of layers\n"
                "  mpirun -np 4 qsf-run --mpi model.gguf -p \"Hello\"     one answer\n"
                "  mpirun -np 2 qsf-run --mpi --tensor-parallel model.gguf -p \"Hello\"\n",
    .brief = "--prompt --system --raw --max-tokens --tensor-parallel --split --mpi-wire --ram-budget "
             "--ctx-size --verbose",
    .exit_codes = "0 ok, 1 failed, 2 usage",
};

static void on_log(void *user, qsf_log_level level, const char *line)
{
    (void)user;
    if (level <= QSF_LOG_WARN) fprintf(stderr, "rank %d: %s\n", link_rank, line);
}

void job_open(job *j)
{
    qsf_error err;
    qsf_plan plan = { .size = sizeof plan };
    qsf_model_options mo;
    qsf_model_defaults(&mo);
    mo.log = on_log;
    if (j->tensor) {
        job_share(j, &mo);
    } else {
        mo.first_layer = j->first;
        mo.end_layer = j->end;
    }
    if (qsf_model_open(j->path, &mo, &j->model, &err)) link_fail("%s", err.text);
    job_adapters_load(j);
    job_agree(j);
    if (qsf_context_new(j->model, &j->context, &j->c, &err)) link_fail("%s", err.text);
    job_adapters_use(j);
    if (j->tensor) job_share_begin(j);
    j->n_batch = qsf_context_batch(j->c);
    qsf_context_get_plan(j->c, &plan);
    if (plan.n_ctx != j->context.n_ctx) link_fail("the context was reduced to %u positions",
                                                  (unsigned)plan.n_ctx);
    if (!j->verbose) return;
    if (j->tensor) fprintf(stderr, "rank %d: share %d of %d of layers", link_rank, link_rank, link_ranks);
    else fprintf(stderr, "rank %d: layers %u to %u", link_rank, (unsigned)j->first, (unsigned)j->end - 1);
    fprintf(stderr, ", %.1f MB, %s\n", (double)plan.total / 1e6,
            plan.n_slots ? "some stream" : "all stay in memory");
}

/* With --verbose: what has been read since the context was made. */
static void job_report(const job *j)
{
    qsf_stats stats = { .size = sizeof stats };
    if (!j->verbose || qsf_context_get_stats(j->c, &stats)) return;
    fprintf(stderr, "rank %d: %llu bytes read for %llu rows\n", link_rank,
            (unsigned long long)stats.bytes_read,
            (unsigned long long)(stats.tokens_prompt + stats.tokens_generated));
}

static bool job_read(job *j, int argc, char **argv)
{
    const option_part parts[] = { OPTION_PART(mpi_rows, 0),
                                  common_options(COMMON_ABOUT, offsetof(job, about)) };
    const option_program program = { parts, sizeof parts / sizeof parts[0], NULL, 0, "QSF_", "qsf-mpi",
                                     &mpi_page };
    option_list rest;
    int code;
    qsf_context_defaults(&j->context);
    qsf_sampler_defaults(&j->sampler);
    j->context.n_batch = 32;
    if (!common_parse(&program, j, &j->about, argc, argv, &rest, &code)) exit(code);
    if (!j->path && rest.n) j->path = rest.items[0];
    if (!j->path || (j->raw && !j->prompts.n)) {
        fputs(j->path ? "--raw needs a prompt: -p TEXT\n"
              : "no model was given: mpirun -np 4 qsf-run --mpi MODEL -p TEXT\n", stderr);
        return false;
    }
    j->wire = !strcmp(j->wire_name, "f16") ? WIRE_F16 : !strcmp(j->wire_name, "q8") ? WIRE_Q8 : WIRE_F32;
    j->context.n_seqs = j->prompts.n ? (uint32_t)j->prompts.n : 1;
    if (j->tensor && j->wire != WIRE_F32) {
        fputs("--mpi-wire is for ranges of layers: with --tensor-parallel sums are sent as 32-bit floats\n",
              stderr);
        return false;
    }
    if (j->tensor && !j->prompts.n) {
        fputs("--tensor-parallel answers prompts (-p) but cannot chat\n", stderr);
        return false;
    }
    j->context.n_logits = j->context.n_seqs;
    return true;
}

int main(int argc, char **argv)
{
    job j = { .wire_name = "f32", .check = "some", .silent = 6, .max_tokens = 128, .hang = -1 };
    if (!job_read(&j, argc, argv)) return 2;
    const link_delay delay = { j.delay_us * 1e-6, j.rate_mb * 1e6 };
    link_begin(&argc, &argv, &delay);
    link_watch(j.silent);
    job_check_file(&j);
    job_describe(&j);
    if (!j.tensor) job_split(&j);
    job_open(&j);
    if (j.logits_path && !link_rank && !(j.logits = fopen(j.logits_path, "wb")))
        link_fail("%s cannot be written", j.logits_path);
    if (link_rank && j.tensor) job_follow_rows(&j);
    else if (link_rank) job_follow(&j);
    else if (j.prompts.n) job_lead(&j);
    else job_chat(&j);
    job_report(&j);
    if (j.logits && fclose(j.logits)) link_fail("%s could not be written", j.logits_path);
    link_end();
    qsf_context_free(j.c);
    job_adapters_free();
    qsf_model_close(j.model);
    return 0;
}
