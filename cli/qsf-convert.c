/* qsf-convert: a Hugging Face directory, GGUF or QSF file becomes a QSF file; also looks into such files and checks them.
 * SPDX-License-Identifier: MIT */
#include "options.h"
#include "report.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#ifdef _WIN32
#  include <io.h>
#  include <process.h>
#  define convert_isatty _isatty
#  define convert_getpid _getpid
#else
#  include <unistd.h>
#  define convert_isatty isatty
#  define convert_getpid getpid
#endif

enum { CODE_OK = 0, CODE_FAILED = 1, CODE_USAGE = 2, CODE_MODEL = 3, CODE_MEMORY = 4, CODE_IO = 5, CODE_INTERRUPTED = 130 };

typedef struct convert_cli {
    const char *quant_type, *compress, *packing, *block, *outliers, *equalize, *calibration, *json, *info, *verify;
    option_list tensors;
    double      target_mb;
    long long   threads, ram_mb, clusters, embd_clusters;
    bool        quiet, help, version;
} convert_cli;

#define AT(member) offsetof(convert_cli, member)

static const option convert_table[] = {
    { .kind = OPTION_GROUP, .help = "What the weights become" },
    { OPTION_CHOICE, "--quant-type", "TYPE", AT(quant_type), 0, 0, "2bit|2bit-sym|3bit|4bit|ternary|8bit|f16|mixed",
      "2bit, 2bit-sym, 3bit, 4bit, ternary, 8bit, f16, or mixed: more bits where they help most", "4bit" },
    { OPTION_LIST, "--tensor", "PATTERN=TYPE", AT(tensors), 0, 0, NULL,
      "a type of its own for matrices whose name or kind matches (* and ?), such as \"attn_v=6bit_s\" or \"blk.0.*=8bit:64\"; may be given again, the last one wins. "
      "Types: 2bit 2bit-sym 3bit 3bit_s 4bit 4bit_s 5bit_s 6bit_s 8bit ternary f16 f32", NULL },
    { OPTION_CHOICE, "--block", "N", AT(block), 0, 0, "32|64|128|256", "weights that share a scale: 32, 64, 128 or 256", "the type's best" },
    { OPTION_NUMBER, "--target-size", "MB", AT(target_mb), 0, 1e9, NULL, "chooses each matrix's type, by its measured error, so that the file fits", NULL },
    { OPTION_CHOICE, "--outliers", "WHEN", AT(outliers), 0, 0, "auto|off|on", "keep the largest weights apart in fp16: auto (where that lowers the error more than other bytes would), off, on", "auto" },
    { OPTION_CHOICE, "--equalize", "WHEN", AT(equalize), 0, 0, "auto|off|on", "scale channels between matrices so that quantising loses less; the network stays the same: auto, off, on", "auto" },
    { .kind = OPTION_GROUP, .help = "The file" },
    { OPTION_CHOICE, "--compress", "TYPE", AT(compress), 0, 0, "none|lz4|lz4hc|zstd", "compression of layers: none, lz4, lz4hc or zstd", "none" },
    { OPTION_CHOICE, "--packing", "N", AT(packing), 0, 0, "0|1", "0: rows of blocks, 1: tiles, ready for the processor", "1" },
    { OPTION_INT, "--head-clusters", "N", AT(clusters), 0, QSF_MAX_CLUSTERS, NULL,
      "sort the output head's rows into N clusters, for qsf-run --head-topk clusters; 2048 is a good number for large vocabularies, 0: none", "0" },
    { OPTION_INT, "--embedding-clusters", "N", AT(embd_clusters), 0, QSF_MAX_CLUSTERS, NULL,
      "store the embedding as N centroids and what each row lacks of its own in 2 bits (--tensor token_embd=TYPE: in others); a head that was tied to it becomes a matrix of its own; "
      "256 is a good number, 0: none", "0" },
    { OPTION_TEXT, "--calibration", "TEXT", AT(calibration), 0, 0, NULL,
      "measure with 4096 tokens of this text file how much the model would miss each layer, for qsf-run --quality; a QSF file's weights stay as they are where nothing else is asked for", NULL },
    { .kind = OPTION_GROUP, .help = "The work" },
    { OPTION_INT, "-t --threads", "N", AT(threads), 0, CONVERT_MAX_THREADS, NULL, "threads, 0: one a processor", "0" },
    { OPTION_INT, "--ram", "MB", AT(ram_mb), 0, 1e9, NULL, "most memory for weights at work, 0: as needed", "0" },
    { OPTION_TEXT, "--json", "FILE", AT(json), 0, 0, NULL, "the report as JSON; - is stdout, and then the table is left out", NULL },
    { OPTION_FLAG, "-q --quiet", NULL, AT(quiet), 0, 0, NULL, "no progress, no table", NULL },
    { .kind = OPTION_GROUP, .help = "Instead of converting" },
    { OPTION_TEXT, "--info", "FILE", AT(info), 0, 0, NULL, "prints everything of a QSF or GGUF file", NULL },
    { OPTION_TEXT, "--verify", "FILE", AT(verify), 0, 0, NULL, "reads all of a QSF or GGUF file and checks every checksum", NULL },
    { OPTION_FLAG, "-h --help", NULL, AT(help), 0, 0, NULL, "this text", NULL },
    { OPTION_FLAG, "--version", NULL, AT(version), 0, 0, NULL, "the version", NULL },
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

/* ---- options ---- */

/* "PATTERN=TYPE" or "PATTERN=TYPE:BLOCK". */
static bool parse_rule(const char *text, convert_rule *rule, char *pattern, size_t cap)
{
    const char *equals = strrchr(text, '=');
    char type[32];
    if (!equals || equals == text || (size_t)(equals - text) >= cap || strlen(equals + 1) >= sizeof type) goto bad;
    memcpy(pattern, text, (size_t)(equals - text));
    pattern[equals - text] = 0;
    strcpy(type, equals + 1);
    char *colon = strchr(type, ':'), *end;
    rule->pattern = pattern;
    rule->block = 0;
    if (colon) {
        *colon = 0;
        rule->block = (uint32_t)strtoul(colon + 1, &end, 10);
        if (*end || (rule->block != 32 && rule->block != 64 && rule->block != 128 && rule->block != 256)) goto bad;
    }
    if (convert_type_find(type, &rule->type)) return true;
bad:
    fprintf(stderr, "--tensor takes PATTERN=TYPE or PATTERN=TYPE:BLOCK, such as \"attn_v=6bit_s\", not \"%s\"; --help lists the types\n", text);
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

static bool fill_options(const convert_cli *cli, convert_options *o, char (*patterns)[128])
{
    convert_defaults(o);
    if (cli->quant_type && !convert_preset_find(cli->quant_type, &o->preset)) return false;
    for (size_t i = 0; i < cli->tensors.n; i++, o->n_rules++)
        if (!parse_rule(cli->tensors.items[i], &o->rules[i], patterns[i], sizeof patterns[i])) return false;
    if (cli->block) o->block = (uint32_t)strtoul(cli->block, NULL, 10);
    if (cli->compress) o->compression = (uint8_t)choice_index("none|lz4|lz4hc|zstd", cli->compress);
    if (cli->packing) o->packing = cli->packing[0] == '1';
    if (cli->outliers) o->outliers = (convert_switch)choice_index("auto|off|on", cli->outliers);
    if (cli->equalize) o->equalize = (convert_switch)choice_index("auto|off|on", cli->equalize);
    o->target_bytes = (uint64_t)(cli->target_mb * 1e6);
    o->ram_bytes = (uint64_t)cli->ram_mb * 1000000;
    o->n_threads = (uint32_t)cli->threads;
    o->head_clusters = (uint32_t)cli->clusters;
    o->embd_clusters = (uint32_t)cli->embd_clusters;
    o->cancelled = &convert_interrupted;
    return true;
}

/* ---- progress ---- */

static void show_progress(void *user, const char *stage, const char *name, uint64_t done, uint64_t total)
{
    enum { WIDTH = 30 };
    char bar[WIDTH + 1];
    (void)user;
    const int full = total ? (int)((double)done / (double)total * WIDTH) : 0;
    for (int i = 0; i < WIDTH; i++) bar[i] = i < full ? '#' : '.';
    bar[WIDTH] = 0;
    fprintf(stderr, "\r\033[K%-8s [%s] %3d%% %.40s", stage, bar, total ? (int)(100.0 * (double)done / (double)total) : 0, name);
    fflush(stderr);
}

/* ---- the things it does ---- */

static bool write_json(const convert_cli *cli, const input *in, const convert_options *o, const char *from, const char *to, const convert_report *r)
{
    const bool to_stdout = !strcmp(cli->json, "-");
    FILE *f = to_stdout ? stdout : fopen(cli->json, "w");
    bool ok = f != NULL;
    if (f) report_json(f, in, o, from, to, r);
    if (f && ferror(f)) ok = false;
    if (f && !to_stdout && fclose(f)) ok = false;
    if (!ok) fprintf(stderr, "error: cannot write the report %s\n", cli->json);
    return ok;
}

/* Before the work: nothing that is read is written, and nothing twice. */
static qsf_status check_files(const convert_cli *cli, input *in, const char *to, qsf_error *err)
{
    const qsf_platform *p = in->platform;
    const char *report = cli->json && strcmp(cli->json, "-") ? cli->json : NULL;
    qsf_status st = convert_check_output(in, to, err);
    if (!st && cli->calibration) st = convert_check_calibration(p, cli->calibration, to, err);
    if (!st && report) st = convert_check_unread(in, report, err);
    if (!st && report) st = convert_check_apart(p, report, "also the output", to, err);
    if (!st && report && cli->calibration)
        st = convert_check_apart(p, report, "the text to measure with", cli->calibration, err);
    return st;
}

/* to: what is written now; output: what it becomes in the end. */
static int run_conversion(const convert_cli *cli, const convert_options *o, const char *from, const char *to,
                          const char *output)
{
    convert_report r;
    qsf_error err = { 0 };
    input *in = NULL;
    int code = CODE_OK;
    qsf_status st = input_open(qsf_platform_native(), from, &in, &err);
    if (st) return fail(st, &err);
    if ((st = check_files(cli, in, output, &err))) {
        in->close(in);
        return fail(st, &err);
    }
    st = convert_run(in, o, to, &r, &err);
    if (o->progress) fprintf(stderr, "\r\033[K");
    if (st) code = fail(st, &err);
    else {
        const bool json_on_stdout = cli->json && !strcmp(cli->json, "-");
        if (!cli->quiet && !json_on_stdout) report_table(stdout, in, &r);
        if (cli->json && !write_json(cli, in, o, from, to, &r)) code = CODE_IO;
    }
    in->close(in);
    return code;
}

/* Whether INPUT's layers are only to be measured: it is a QSF file, and nothing else was asked for. */
static bool only_calibrates(const convert_cli *cli, const char *from)
{
    char magic[4] = { 0 };
    FILE *f = fopen(from, "rb");
    const bool qsf = f && fread(magic, sizeof magic, 1, f) == 1 && (!memcmp(magic, "QSF1", 4) || !memcmp(magic, "1FSQ", 4));
    if (f) fclose(f);
    return qsf && !cli->quant_type && !cli->tensors.n && !cli->block && cli->target_mb == 0 && !cli->outliers &&
           !cli->equalize && !cli->compress && !cli->packing && !cli->clusters && !cli->embd_clusters && !cli->json;
}

static int calibrate(const convert_cli *cli, const convert_options *o, const char *from, const char *to)
{
    qsf_error err = { 0 };
    uint64_t bytes = 0;
    const qsf_status st = convert_calibrate(qsf_platform_native(), from, cli->calibration, to, o, &bytes, &err);
    if (o->progress) fprintf(stderr, "\r\033[K");
    if (st) return fail(st, &err);
    if (!cli->quiet) fprintf(stderr, "layers measured: qsf-run --quality 0.9 leaves out a tenth of them, --info shows the numbers; file %.2f MB\n", (double)bytes / 1e6);
    return CODE_OK;
}

/* The file to be is made beside its place, measured, and then written with what was measured: never there by
 * half.  The next run knows by its name what a kill leaves of it (platform/native/leftover.c). */
static int run_calibrated(const convert_cli *cli, const convert_options *o, const char *from, const char *to)
{
    char *between = malloc(strlen(to) + 48);
    if (!between) return CODE_MEMORY;
    sprintf(between, "%s.%ld-0.unmeasured", to, (long)convert_getpid());
    int code = run_conversion(cli, o, from, between, to);
    if (!code) code = calibrate(cli, o, between, to);
    remove(between);
    free(between);
    return code;
}

static int run_inspection(const convert_cli *cli)
{
    qsf_error err = { 0 };
    const qsf_platform *p = qsf_platform_native();
    qsf_status st = QSF_OK;
    if (cli->info) st = inspect_info(stdout, p, cli->info, &err);
    if (st == QSF_OK && cli->verify) st = inspect_verify(stdout, p, cli->verify, &err);
    return st ? fail(st, &err) : CODE_OK;
}

int main(int argc, char **argv)
{
    static char patterns[OPTION_LIST_MAX][128];
    convert_cli cli = { 0 };
    convert_options o;
    option_list rest;
    if (!options_parse(convert_table, QSF_ARRAY_LEN(convert_table), "QSF_CONVERT_", &cli, argc, argv, &rest)) return CODE_USAGE;
    if (cli.help) {
        printf("usage: qsf-convert [options] INPUT OUTPUT\n\nMakes the QSF file OUTPUT from INPUT: a Hugging Face model directory, a GGUF file or a QSF file.\n");
        options_help(convert_table, QSF_ARRAY_LEN(convert_table), "QSF_CONVERT_", stdout);
        return CODE_OK;
    }
    if (cli.version) {
        printf("qsf-convert %s\n", qsf_version());
        return CODE_OK;
    }
    if (!fill_options(&cli, &o, patterns)) return CODE_USAGE;
    if (cli.info || cli.verify) {
        if (rest.n == 0) return run_inspection(&cli);
        fprintf(stderr, "--info and --verify take one file and no other argument\n");
        return CODE_USAGE;
    }
    if (rest.n != 2) {
        fprintf(stderr, "usage: qsf-convert [options] INPUT OUTPUT; --help lists the options\n");
        return CODE_USAGE;
    }
    if (!cli.quiet && convert_isatty(2)) o.progress = show_progress;
    signal(SIGINT, on_interrupt);
#ifdef SIGTERM
    signal(SIGTERM, on_interrupt);
#endif
    const char *from = rest.items[0], *to = rest.items[1];
    const int code = !cli.calibration ? run_conversion(&cli, &o, from, to, to) : only_calibrates(&cli, from)
        ? calibrate(&cli, &o, from, to) : run_calibrated(&cli, &o, from, to);
    return fflush(stdout) ? CODE_IO : code;
}
