/* qsf-convert: a Hugging Face directory, GGUF or QSF file becomes a QSF file; also looks into such
 * files and checks them.
 * SPDX-License-Identifier: MIT */
#include "convert_report.h"
#include "folder.h"
#include "model_names.h"
#include "options.h"
#include "run.h"
#include "trace.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef _WIN32
#  include <io.h>
#  define convert_isatty _isatty
#else
#  include <unistd.h>
#  define convert_isatty isatty
#endif

enum {
    CODE_OK = 0,
    CODE_FAILED = 1,
    CODE_USAGE = 2,
    CODE_MODEL = 3,
    CODE_MEMORY = 4,
    CODE_IO = 5,
    CODE_INTERRUPTED = 130
};

typedef struct convert_cli {
    const char *quant_type, *compress, *packing, *block, *outliers, *equalize, *calibration, *calibrate,
        *calibration_file, *json, *info, *verify, *i2s_layout, *prefer, *share_embedding;
    option_list tensors, merge;
    double      target_mb, target_kl;
    long long   threads, ram_mb, clusters, embd_clusters, effort, tune_steps;
    bool        progressive, quiet, tune_codes;
    program_settings program;
    model_settings hub;
} convert_cli;

typedef struct convert_rules {
    qsf_convert_rule list[OPTION_LIST_MAX];
    char             texts[OPTION_LIST_MAX][160];
} convert_rules;

typedef struct convert_merges { qsf_convert_adapter list[OPTION_LIST_MAX]; } convert_merges;

#define AT(member) offsetof(convert_cli, member)

static const option convert_rows[] = {
    OPTION_HEADING("weights", "Types of weights"),
    { OPTION_CHOICE, "--quant-type", "TYPE", AT(quant_type), 0, 0,
      "auto|2bit|2bit-sym|3bit|4bit|ternary|8bit|f16|mixed|ternary5",
      "type of the weights: auto (4bit, with more bits where they help most, until the estimated loss is "
      "small), 2bit, 2bit-sym, 3bit, 4bit, ternary, 8bit, f16, or mixed (5.35 bits a weight, spent where "
      "they help most); matrices that are already ternary stay ternary, in 2 bits, or in 1.6 with ternary5",
      "auto" },
    { OPTION_LIST, "--tensor", "PATTERN=TYPE", AT(tensors), 0, 0, NULL,
      "type for matrices that match, by name or kind; * and ? are wildcards: \"attn_v=6bit_s\", "
      "\"blk.0.*=8bit:64\"; may be repeated, the last match wins. "
      "Types: 2bit 2bit-sym 3bit 3bit_s 4bit 4bit_s 5bit_s 6bit_s 8bit ternary trellis2 trellis3 "
      "trellis4 trellis5 table3 table4 f16 f32, and for ternary matrices ternary2 ternary5",
      NULL },
    { OPTION_CHOICE, "--block", "N", AT(block), 0, 0, "32|64|128|256",
      "weights per scale: 32, 64, 128 or 256", "the type's best" },
    { OPTION_NUMBER, "--target-size", "MB", AT(target_mb), 0, 1e9, NULL,
      "choose the types so that the file fits this size; by each matrix's measured error, or with "
      "--calibrate by how much each matrix matters", NULL },
    { OPTION_NUMBER, "--target-kl", "X", AT(target_kl), 0, 1e3, NULL,
      "with --calibrate: choose the smallest types whose predicted divergence from the input's predictions "
      "is at most X (nats per token)", NULL },
    { OPTION_CHOICE, "--prefer", "WHAT", AT(prefer), 0, 0, "size|speed",
      "with --calibrate and one of these two: size (types that lose least for their bytes) or speed (types "
      "that decode faster without AVX-512); the report shows what the other would give",
      "size" },
    { OPTION_CHOICE, "--outliers", "WHEN", AT(outliers), 0, 0, "auto|off|on",
      "store the largest weights separately in fp16: auto (if that lowers the error more than other bytes "
      "would), off, on",
      "auto" },
    { OPTION_CHOICE, "--equalize", "WHEN", AT(equalize), 0, 0, "auto|off|on",
      "rescale channels between matrices so that quantising loses less; the network computes the same: "
      "auto, off, on",
      "auto" },
    { OPTION_CHOICE, "--share-embedding", "WHEN", AT(share_embedding), 0, 0, "auto|off|on",
      "store embedding and head once if they differ only by what a quantiser lost: auto (with --target-size "
      "and --target-kl), off, on",
      "auto" },
    { OPTION_LIST, "--merge-lora", "FILE[:SCALE]", AT(merge), 0, 0, NULL,
      "adapter (LoRA) to add before quantising; a GGUF file or a PEFT directory, times SCALE "
      "(default 1); may be repeated",
      NULL },
    { OPTION_CHOICE, "--i2s-layout", "NAME", AT(i2s_layout), 0, 0, I2S_LAYOUTS,
      I2S_HELP, "auto" },
    OPTION_HEADING("calibration", "Calibration"),
    { OPTION_TEXT, "--calibrate", "FILE|self", AT(calibrate), 0, 0, NULL,
      "measure each matrix's inputs; runs the model on this text file, or with self on 16384 tokens that it "
      "generates",
      NULL },
    { OPTION_TEXT, "--calibration-file", "FILE", AT(calibration_file), 0, 0, NULL,
      "store what --calibrate measures in this file, or read it if it exists; without --calibrate it may "
      "also be an importance matrix of llama.cpp (.dat, .gguf)",
      NULL },
    { OPTION_INT, "--effort", "N", AT(effort), -1, 4, NULL,
      "effort of quantising: 0 (each block on its own), 1 (weighted by the importance of columns), 2 "
      "(later columns compensate for errors), 3 (also each type's best search), 4 (then norms and biases "
      "are tuned to the input's predictions, which takes long), -1 (3 with --calibrate, else 0)",
      "-1" },
    { OPTION_INT, "--tune-steps", "N", AT(tune_steps), 0, 1000000, NULL,
      "steps of --effort 4, of 256 tokens each; 0 for 150", "0" },
    { OPTION_FLAG, "--tune-codes", NULL, AT(tune_codes), 0, 0, NULL,
      "--effort 4 also changes codes of trellises, which takes twice the time (experimental)",
      NULL },
    { OPTION_TEXT, "--calibration", "TEXT", AT(calibration), 0, 0, NULL,
      "measure on 4096 tokens of this text file how much each layer matters, for qsf-run --quality; without "
      "other options a QSF file's weights stay unchanged. Does not influence types: see --calibrate",
      NULL },
    OPTION_HEADING("file", "File"),
    { OPTION_CHOICE, "--compress", "TYPE", AT(compress), 0, 0, "none|lz4|lz4hc|zstd",
      "compression of layers: none, lz4, lz4hc or zstd", "none" },
    { OPTION_FLAG, "--progressive", NULL, AT(progressive), 0, 0, NULL,
      "store the high bits of all weights first, so that a page can answer while the rest is downloading; "
      "for --quant-type 8bit",
      NULL },
    { OPTION_CHOICE, "--packing", "N", AT(packing), 0, 0, "0|1",
      "0: rows of blocks, 1: tiles in the order that kernels read", "1" },
    { OPTION_INT, "--head-clusters", "N", AT(clusters), 0, QSF_CONVERT_MAX_CLUSTERS, NULL,
      "sort the output head's rows into N clusters, for qsf-run --head-topk clusters; 0 for none, 2048 "
      "suits large vocabularies",
      "0" },
    { OPTION_INT, "--embedding-clusters", "N", AT(embd_clusters), 0, QSF_CONVERT_MAX_CLUSTERS, NULL,
      "store the embedding as N centroids and each row's difference from its own in 2 bits (or the type of "
      "--tensor token_embd=TYPE); a head tied to it becomes a separate matrix; 0 for none, 256 is usual",
      "0" },
    OPTION_HEADING("work", "Work and report"),
    { OPTION_INT, "-t --threads", "N", AT(threads), 0, QSF_CONVERT_MAX_THREADS, NULL,
      "number of threads; 0 for one per processor", "0" },
    { OPTION_INT, "--ram", "MB", AT(ram_mb), 0, 1e9, NULL,
      "memory limit for the weights being converted; 0 for none", "0" },
    { OPTION_TEXT, "--json", "FILE", AT(json), 0, 0, NULL,
      "write the report as JSON; - for standard output instead of the table", NULL },
    { OPTION_FLAG, "-q --quiet", NULL, AT(quiet), 0, 0, NULL, "print no progress and no table", NULL },
    OPTION_HEADING("inspect", "Inspecting files"),
    { OPTION_TEXT, "--info", "FILE", AT(info), 0, 0, NULL, "print everything in a QSF or GGUF file", NULL },
    { OPTION_TEXT, "--verify", "FILE", AT(verify), 0, 0, NULL,
      "read the whole file and verify every checksum; QSF or GGUF", NULL },
    OPTION_HEADING("about", "Diagnostics and help"),
};

static const option_page convert_page = {
    .about = "Makes a QSF file from a Hugging Face model directory, a GGUF file or a QSF file.",
    .usage = "qsf-convert [options] INPUT OUTPUT",
    .examples = "  qsf-convert model-folder model.qsf                  4 bits, more if needed\n"
                "  qsf-convert model.gguf model.qsf --calibrate self   less loss in the same size\n"
                "  qsf-convert -hf OWNER/REPO model.qsf                from Hugging Face's hub\n"
                "  qsf-convert --info model.qsf                        what the file contains\n",
    .brief = "--quant-type --target-size --calibrate --tensor --merge-lora --compress --threads --ram "
             "--info --verify",
    .exit_codes = "0 ok, 1 failed, 2 usage, 3 bad model, 4 memory, 5 input or output, 130 interrupted",
};

static atomic_int convert_interrupted;

static void on_interrupt(int signal_number)
{
    convert_interrupted = 1;
    signal(signal_number, SIG_DFL);      /* a second one ends the program at once */
}

static int code_of(qsf_status st)
{
    switch (st) {
    case QSF_OK: return CODE_OK;
    case QSF_E_ARGUMENT: return CODE_USAGE;
    case QSF_E_CORRUPT: case QSF_E_UNSUPPORTED: return CODE_MODEL;
    case QSF_E_MEMORY: case QSF_E_BUDGET: return CODE_MEMORY;
    case QSF_E_IO: case QSF_E_NOT_FOUND: return CODE_IO;
    case QSF_E_CANCELLED: return CODE_INTERRUPTED;
    default: return CODE_FAILED;
    }
}

static int fail(qsf_status st, const qsf_error *e)
{
    fprintf(stderr, "error: %s\n", e->text[0] ? e->text : qsf_status_text(st));
    return code_of(st);
}

/* ---- while it works ---- */

/* The stage under way. */
static char   stage_name[16];
static time_t stage_begun;

/* "1:05 left ", after the first seconds of a stage; else "". */
static void stage_left(char *out, size_t cap, const char *stage, uint64_t done, uint64_t total)
{
    const time_t now = time(NULL);
    if (strncmp(stage, stage_name, sizeof stage_name - 1)) {
        snprintf(stage_name, sizeof stage_name, "%s", stage);
        stage_begun = now;
    }
    const double passed = difftime(now, stage_begun);
    out[0] = 0;
    if (passed < 3 || !done || done > total) return;
    const double left = passed * (double)(total - done) / (double)done;
    if (left < 360000) snprintf(out, cap, "%d:%02d left ", (int)left / 60, (int)left % 60);
}

static void show_progress(void *user, const char *stage, const char *name, uint64_t done, uint64_t total)
{
    enum { WIDTH = 30 };
    char bar[WIDTH + 1], left[32];
    (void)user;
    stage_left(left, sizeof left, stage, done, total);
    const int full = total ? (int)((double)done / (double)total * WIDTH) : 0;
    for (int i = 0; i < WIDTH; i++) bar[i] = i < full ? '#' : '.';
    bar[WIDTH] = 0;
    fprintf(stderr, "\r\033[K%-9s [%s] %3d%% %s%.40s", stage, bar,
            total ? (int)(100.0 * (double)done / (double)total) : 0, left, name);
    fflush(stderr);
}

static void clear_progress(void)
{
    if (convert_isatty(2)) fprintf(stderr, "\r\033[K");
}

static void show_warning(void *user, qsf_log_level level, const char *line)
{
    (void)user;
    if (level > QSF_LOG_WARN) return;
    clear_progress();
    fprintf(stderr, "warning: %s\n", line);
}

/* ---- options ---- */

/* "PATTERN=TYPE" or "PATTERN=TYPE:BLOCK"; pattern and type go to text, which has room for text's
 * bytes. */
static bool parse_rule(const char *from, qsf_convert_rule *rule, char *text, size_t cap)
{
    const char *equals = strrchr(from, '=');
    if (!equals || equals == from || strlen(from) >= cap) goto bad;
    strcpy(text, from);
    text[equals - from] = 0;
    *rule = (qsf_convert_rule){ .pattern = text, .type = text + (equals - from) + 1 };
    char *colon = strchr(rule->type, ':'), *end;
    if (!colon) return true;
    *colon = 0;
    rule->block = (uint32_t)strtoul(colon + 1, &end, 10);
    if (!*end && rule->block) return true;
bad:
    fprintf(stderr,
            "--tensor takes PATTERN=TYPE or PATTERN=TYPE:BLOCK, such as \"attn_v=6bit_s\", not \"%s\"; "
            "--help weights lists the types\n",
            from);
    return false;
}

static int choice_index(const char *choices, const char *value)
{
    int at = 0;
    const size_t len = strlen(value);
    for (const char *p = choices;; p++, at++) {
        const size_t n = strcspn(p, "|");
        if (n == len && !memcmp(p, value, n)) return at;
        if (!*(p += n)) return 0;
    }
}

/* Whether any requested option changes weights; otherwise only the layers of a QSF file are
 * measured. */
static bool asks_for_weights(const convert_cli *cli)
{
    return cli->quant_type || cli->tensors.n || cli->block || cli->target_mb != 0 || cli->target_kl != 0 ||
           cli->outliers || cli->equalize || cli->share_embedding || cli->merge.n ||
           cli->compress || cli->progressive || cli->packing || cli->clusters || cli->embd_clusters ||
           cli->calibrate || cli->calibration_file || cli->json;
}

static bool is_interrupted(void *user)
{
    (void)user;
    return convert_interrupted != 0;
}

static bool fill_merges(const convert_cli *cli, qsf_convert_options *o, convert_merges *merges)
{
    for (size_t i = 0; i < cli->merge.n; i++) {
        merges->list[i].path = adapter_path(cli->merge.items[i], &merges->list[i].scale);
        if (!merges->list[i].path) return false;
    }
    o->adapters = merges->list;
    o->n_adapters = cli->merge.n;
    return true;
}

static void free_merges(convert_merges *merges)
{
    for (size_t i = 0; i < OPTION_LIST_MAX; i++) free((void *)(uintptr_t)merges->list[i].path);
}

static bool fill_options(const convert_cli *cli, qsf_convert_options *o, convert_rules *rules)
{
    qsf_convert_defaults(o);
    const bool sized = cli->target_mb > 0 || cli->target_kl > 0;
    if (!cli->quant_type) o->preset = sized ? QSF_CONVERT_4BIT : QSF_CONVERT_BY_LOSS;
    else if (!qsf_convert_preset_find(cli->quant_type, &o->preset)) return false;
    for (size_t i = 0; i < cli->tensors.n; i++)
        if (!parse_rule(cli->tensors.items[i], &rules->list[i], rules->texts[i], sizeof rules->texts[i]))
            return false;
    o->rules = rules->list;
    o->n_rules = cli->tensors.n;
    if (cli->block) o->block = (uint32_t)strtoul(cli->block, NULL, 10);
    if (cli->compress)
        o->compression = (qsf_convert_compression)choice_index("none|lz4|lz4hc|zstd", cli->compress);
    o->progressive = cli->progressive;
    if (cli->packing) o->packing = cli->packing[0] == '1';
    if (cli->outliers) o->outliers = (qsf_convert_switch)choice_index("auto|off|on", cli->outliers);
    if (cli->equalize) o->equalize = (qsf_convert_switch)choice_index("auto|off|on", cli->equalize);
    if (cli->share_embedding)
        o->share_embedding = (qsf_convert_switch)choice_index("auto|off|on", cli->share_embedding);
    (void)qsf_i2s_layout_find(cli->i2s_layout, &o->i2s_layout);
    o->target_bytes = (uint64_t)(cli->target_mb * 1e6);
    o->target_kl = cli->target_kl;
    if (cli->prefer) o->prefer = (qsf_convert_prefer)choice_index("size|speed", cli->prefer);
    o->ram_bytes = (uint64_t)cli->ram_mb * 1000000;
    o->n_threads = (uint32_t)cli->threads;
    o->effort = (int32_t)cli->effort;
    o->tune_steps = (uint32_t)cli->tune_steps;
    o->tune_codes = cli->tune_codes;
    o->head_clusters = (uint32_t)cli->clusters;
    o->embd_clusters = (uint32_t)cli->embd_clusters;
    o->calibration = cli->calibration;
    o->calibrate = cli->calibrate;
    o->calibration_file = cli->calibration_file;
    o->keep_weights = !asks_for_weights(cli);
    o->report = cli->json && strcmp(cli->json, "-") ? cli->json : NULL;
    o->cancelled = is_interrupted;
    o->log = show_warning;
    return true;
}

/* ---- the things it does ---- */

static bool write_json(const convert_cli *cli, const qsf_convert_options *o, const char *from, const char *to,
                       const qsf_convert_result *r)
{
    const bool to_stdout = !strcmp(cli->json, "-");
    FILE *f = to_stdout ? stdout : fopen(cli->json, "w");
    bool ok = f != NULL;
    if (f) report_json(f, r, o, from, to);
    if (f && ferror(f)) ok = false;
    if (f && !to_stdout && fclose(f)) ok = false;
    if (!ok) fprintf(stderr, "error: cannot write the report %s\n", cli->json);
    return ok;
}

static int run_conversion(const convert_cli *cli, const qsf_convert_options *o, const char *from,
                          const char *to)
{
    qsf_convert_summary s = { .size = sizeof s };
    qsf_convert_result *r;
    qsf_error err = { 0 };
    char loss[160];
    int code = CODE_OK;
    const qsf_status st = qsf_convert_run(from, to, o, &r, &err);
    if (o->progress) clear_progress();
    if (st) return fail(st, &err);
    qsf_convert_get_summary(r, &s);
    const bool json_on_stdout = cli->json && !strcmp(cli->json, "-");
    if (s.n_tensors && !cli->quiet && !json_on_stdout) report_table(stdout, r, o);
    if (report_loss(r, loss, sizeof loss) && !cli->quiet)
        fprintf(stderr, "warning: %s; --quant-type auto (the default), mixed or 8bit loses less, and "
                "--calibrate self loses less in the same size\n", loss);
    if (cli->json && !write_json(cli, o, from, to, r)) code = CODE_IO;
    if (cli->calibration && !cli->quiet)
        fprintf(
            stderr,
            "layers measured: qsf-run --quality 0.9 leaves out a tenth of them, --info shows the numbers; "
            "file %.2f MB\n",
            (double)s.file_bytes / 1e6);
    qsf_convert_result_free(r);
    return code;
}

/* The same, with the files of --trace and --record. */
static int run_recorded(const convert_cli *cli, qsf_convert_options *o, const char *from, const char *to)
{
    trace_files *files;
    qsf_context_options measuring = { 0 };
    const int code = trace_open(&cli->program.trace, &files);
    if (code) return code;
    trace_context(files, &measuring);
    o->record = measuring.record;
    o->record_user = measuring.record_user;
    return trace_close(files, run_conversion(cli, o, from, to));
}

/* INPUT's path in place of a model's name; *found holds it.  An exit code; errors are reported. */
static int find_input(const convert_cli *cli, const char **from, char **found)
{
    hub_options o = model_names_hub(&cli->hub, 0);
    qsf_error err = { 0 };
    *found = NULL;
    if (!hub_is_name(*from)) return CODE_OK;
    if (cli->quiet) o.progress = NULL;
    o.stopped = is_interrupted;
    const qsf_status st = hub_find_folder(&o, *from, found, &err);
    if (st) return fail(st, &err);
    *from = *found;
    return CODE_OK;
}

/* The input and output among the arguments: INPUT OUTPUT, or OUTPUT and the name of -hf. false: it
 * is reported what is missing. */
static bool take_paths(const convert_cli *cli, const option_list *rest, const char *paths[2])
{
    option_list given = { .n = 0 };
    if (model_names_add(&cli->hub, &given)) return false;
    for (size_t i = 0; i < rest->n && given.n < OPTION_LIST_MAX; i++) given.items[given.n++] = rest->items[i];
    if (given.n > 2)
        fprintf(stderr, "unexpected \"%s\" after \"%s\" and \"%s\"\n", given.items[2], given.items[0],
                given.items[1]);
    if (given.n != 2) {
        fprintf(stderr, "usage: qsf-convert [options] INPUT OUTPUT; --help shows the options\n");
        return false;
    }
    memcpy(paths, given.items, 2 * sizeof *paths);
    return true;
}

static qsf_status write_stdout(void *user, const void *bytes, size_t len)
{
    (void)user;
    return fwrite(bytes, 1, len, stdout) == len ? QSF_OK : QSF_E_IO;
}

static int run_inspection(const convert_cli *cli)
{
    qsf_convert_check c = { .size = sizeof c };
    qsf_error err = { 0 };
    qsf_status st = QSF_OK;
    if (cli->info) st = qsf_convert_describe(cli->info, NULL, write_stdout, NULL, &err);
    if (!st && cli->verify) st = qsf_convert_verify(cli->verify, NULL, &c, &err);
    if (st) return fail(st, &err);
    if (cli->verify && c.n_checksums)
        printf("%s: whole; %u units read, %u checksums right\n", cli->verify, (unsigned)c.n_units,
               (unsigned)c.n_checksums);
    else if (cli->verify)
        printf("%s: %u units read; %s files carry no checksums\n", cli->verify, (unsigned)c.n_units,
               c.format);
    return CODE_OK;
}

int main(int argc, char **argv)
{
    static convert_rules rules;
    static convert_merges merges;
    convert_cli cli = { .effort = -1 };
    qsf_convert_options o;
    option_list rest;
    const char *paths[2];
    char *found;
    const option_part parts[] = {
        OPTION_PART(convert_rows, 0), model_names_options(offsetof(convert_cli, hub)),
        common_options(COMMON_PROGRAM, offsetof(convert_cli, program)),
    };
    const option_program program = { parts, sizeof parts / sizeof parts[0], NULL, 0, "QSF_CONVERT_",
                                     "qsf-convert", &convert_page };
    int code;
    if (!common_parse(&program, &cli, &cli.program.about, argc, argv, &rest, &code)) return code;
    if (!fill_options(&cli, &o, &rules)) return CODE_USAGE;
    if (cli.info || cli.verify) {
        if (rest.n == 0) return run_inspection(&cli);
        fprintf(stderr, "--info and --verify take one file and no other argument\n");
        return CODE_USAGE;
    }
    if (!take_paths(&cli, &rest, paths)) return CODE_USAGE;
    if (!fill_merges(&cli, &o, &merges)) {
        fputs("error: out of memory for the name of an adapter\n", stderr);
        return CODE_MEMORY;
    }
    if (!cli.quiet && convert_isatty(2)) o.progress = show_progress;
    signal(SIGINT, on_interrupt);
#ifdef SIGTERM
    signal(SIGTERM, on_interrupt);
#endif
    code = find_input(&cli, &paths[0], &found);
    if (!code) code = run_recorded(&cli, &o, paths[0], paths[1]);
    free(found);
    free_merges(&merges);
    return fflush(stdout) ? CODE_IO : code;
}
