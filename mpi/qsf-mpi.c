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
static const option mpi_options[] = {
    { OPTION_GROUP, NULL, NULL, 0, 0, 0, NULL, "Many machines", NULL },
    { OPTION_FLAG, "--mpi", NULL, AT(mpi), 0, 0, NULL, "run layers on the ranks of mpirun", NULL },
    { OPTION_FLAG, "--tensor-parallel", NULL, AT(tensor), 0, 0, NULL,
      "give each rank a share of every layer, not a range of layers", NULL },
    { OPTION_TEXT, "--split", "N,N,...", AT(split), 0, 0, NULL,
      "layers of each rank; else by measured speed and memory.  With --tensor-parallel sizes of shares "
      "beside each other; else they are equal", NULL },
    { OPTION_CHOICE, "--mpi-wire", "TYPE", AT(wire_name), 0, 0, "f32|f16|q8",
      "how hidden states travel: exactly (f32), or in fewer bits", "f32" },
    { OPTION_CHOICE, "--mpi-check", "WHAT", AT(check), 0, 0, "some|all",
      "what of the file is compared between ranks: its beginning and pieces of the rest, or all bytes",
      "some" },
    { OPTION_NUMBER, "--mpi-silent", "SECONDS", AT(silent), 1, 3600, NULL,
      "after so long without a sign of life, or without a step while it computes nothing, a rank counts "
      "as dead", "6" },
    { OPTION_NUMBER, "--mpi-delay", "US", AT(delay_us), 0, 1e7, NULL,
      "for tests: messages arrive so many microseconds later", "0" },
    { OPTION_NUMBER, "--mpi-rate", "MB/S", AT(rate_mb), 0, 1e6, NULL,
      "for tests: and no faster than so many megabytes a second; 0 for no limit", "0" },
    { OPTION_INT, "--mpi-hang", "RANK", AT(hang), -1, 1000000, NULL,
      "for tests: this rank does nothing from its second batch on; -1 for none", "-1" },
    { OPTION_TEXT, "--mpi-logits", "FILE", AT(logits_path), 0, 0, NULL,
      "for tests: all logits, as they come, are written there as 32-bit floats", NULL },
    { OPTION_GROUP, NULL, NULL, 0, 0, 0, NULL, "Texts", NULL },
    { OPTION_TEXT, "-m --model", "FILE", AT(path), 0, 0, NULL, "the model", NULL },
    { OPTION_LIST, "-p --prompt", "TEXT", AT(prompts), 0, 0, NULL,
      "a prompt; given again, several texts are computed at once; without one, lines of standard input are "
      "the messages of a chat", NULL },
    { OPTION_TEXT, "-sys --system", "TEXT", AT(system), 0, 0, NULL, "system message of the conversation",
      NULL },
    { OPTION_TEXT, "--chat-template", "NAME", AT(template_name), 0, 0, NULL,
      "chat template to use, as for qsf-run, but no file", "the model's own" },
    { OPTION_FLAG, "--raw", NULL, AT(raw), 0, 0, NULL, "continue the text as it is, without a chat template",
      NULL },
    { OPTION_INT, "-n --predict --max-tokens", "N", AT(max_tokens), 1, 1000000, NULL,
      "most tokens of an answer", "128" },
    { OPTION_FLAG, "--ignore-eos", NULL, AT(ignore_eos), 0, 0, NULL,
      "go on after the end of an answer", NULL },
    { OPTION_FLAG, "--print-ids", NULL, AT(print_ids), 0, 0, NULL,
      "print token ids instead of their texts", NULL },
    { OPTION_FLAG, "--print-check", NULL, AT(print_check), 0, 0, NULL,
      "print a hash of all logits of each text: equal where they are the same, bit for bit", NULL },
    { OPTION_FLAG, "-v --verbose", NULL, AT(verbose), 0, 0, NULL, "say which rank has what", NULL },
    { OPTION_FLAG, "-h --help", NULL, AT(help), 0, 0, NULL, "print this", NULL },
    { OPTION_GROUP, NULL, NULL, 0, 0, 0, NULL, "Model and memory, of each rank", NULL },
    { OPTION_LIST, "--lora", "FILE[:SCALE]", AT(lora), 0, 0, NULL,
      "an adapter of the model, of which each rank reads what its layers need; may be given again", NULL },
    OPTION_OF_CONTEXT("--ram-budget", AT(context), NULL),
    OPTION_OF_CONTEXT("-c --ctx-size", AT(context), "of all texts together"),
    OPTION_OF_CONTEXT("-b --batch-size", AT(context), "small ones keep all ranks busy; by itself 32"),
    OPTION_OF_CONTEXT("-t --threads", AT(context), NULL),
    OPTION_OF_CONTEXT("--kv-type", AT(context), NULL),
    OPTION_OF_CONTEXT("--f32", AT(context), NULL),
    OPTION_OF_CONTEXT("--isa", AT(context), NULL),
    OPTION_OF_CONTEXT("--quality", AT(context), NULL),
    { OPTION_GROUP, NULL, NULL, 0, 0, 0, NULL, "Sampling", NULL },
    OPTION_OF(SAMPLER, "--temp --temperature", AT(sampler), NULL),
    OPTION_OF(SAMPLER, "--top-k", AT(sampler), NULL),
    OPTION_OF(SAMPLER, "--top-p", AT(sampler), NULL),
    OPTION_OF(SAMPLER, "--min-p", AT(sampler), NULL),
    OPTION_OF(SAMPLER, "--repeat-penalty", AT(sampler), NULL),
    OPTION_OF(SAMPLER, "-s --seed", AT(sampler), NULL),
};
enum { N_MPI_OPTIONS = sizeof mpi_options / sizeof *mpi_options };

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
    if (plan.n_ctx != j->context.n_ctx) link_fail("the context became %u positions", (unsigned)plan.n_ctx);
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
    option_list rest;
    qsf_context_defaults(&j->context);
    qsf_sampler_defaults(&j->sampler);
    j->context.n_batch = 32;
    if (!options_parse(mpi_options, N_MPI_OPTIONS, "QSF_", j, argc, argv, &rest)) return false;
    if (j->help) {
        options_help(mpi_options, N_MPI_OPTIONS, "QSF_", stdout);
        exit(0);
    }
    if (!j->path && rest.n) j->path = rest.items[0];
    if (!j->path || (j->raw && !j->prompts.n)) {
        fputs(j->path ? "--raw continues a prompt: -p TEXT\n"
              : "a model is needed: mpirun -np 4 qsf-run --mpi MODEL -p TEXT\n", stderr);
        return false;
    }
    j->wire = !strcmp(j->wire_name, "f16") ? WIRE_F16 : !strcmp(j->wire_name, "q8") ? WIRE_Q8 : WIRE_F32;
    j->context.n_seqs = j->prompts.n ? (uint32_t)j->prompts.n : 1;
    if (j->tensor && j->wire != WIRE_F32) {
        fputs("--mpi-wire is for ranges of layers: with --tensor-parallel sums travel as 32-bit floats\n",
              stderr);
        return false;
    }
    if (j->tensor && !j->prompts.n) {
        fputs("--tensor-parallel answers prompts (-p), and holds no chat\n", stderr);
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
