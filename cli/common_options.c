/* The tables of shared options.
 * SPDX-License-Identifier: MIT */
#include "common_options.h"

#include "run.h"

#include <stdlib.h>
#include <string.h>

#define AT(member) offsetof(common_settings, member)
#define CONTEXT(names, more) OPTION_OF_CONTEXT(names, AT(context), more)
#define SAMPLER(names) OPTION_OF(SAMPLER, names, AT(sampler), NULL)

static const option template_rows[] = {
    OPTION_HEADING("chat", "Chat and templates"),
    { OPTION_TEXT, "--chat-template-file --template --chat-template", "NAME|FILE", AT(template_name), 0, 0,
      NULL, "chat template: a Jinja file, or chatml, llama2, llama3, mistral, phi3, gemma, zephyr, "
      "command-r, deepseek, plain", "the model's own" },
    { OPTION_TEXT, "--chat-template-kwargs", "JSON", AT(template_kwargs), 0, 0, NULL,
      "more variables for the template, a JSON object: {\"enable_thinking\": false}", NULL },
    { OPTION_INT, "--reasoning-budget", "N", AT(reasoning_budget), -1, 1e9, NULL,
      "maximum tokens of reasoning; after them the model's own mark ends it; 0 for none, -1 for no limit",
      "-1" },
};

static const option lora_rows[] = {
    OPTION_HEADING("adapters", "Adapters (LoRA)"),
    { OPTION_LIST, "--lora", "[NAME=]FILE[:SCALE]", AT(lora), 0, 0, NULL,
      "adapter to apply, a GGUF file or a PEFT directory, and its weight; may be repeated. Clients of "
      "qsf-serve request it as MODEL:NAME; MODEL:NAME=FILE is for a model other than the first. See "
      "docs/adapters.md", "SCALE 1" },
};

static const option answer_rows[] = {
    OPTION_HEADING("answer", "Answer (in qsf-serve: defaults for requests)"),
    { OPTION_INT, "-n --predict --max-tokens", "N", AT(max_tokens), -1, 1e9, NULL,
      "maximum tokens to generate; -1 for no limit", NULL },
    SAMPLER("--temp --temperature"),
    SAMPLER("--top-k"),
    SAMPLER("--top-p"),
    SAMPLER("--min-p"),
    SAMPLER("--repeat-penalty"),
    SAMPLER("--repeat-last-n"),
    SAMPLER("--frequency-penalty"),
    SAMPLER("--presence-penalty"),
    SAMPLER("-s --seed"),
    { OPTION_LIST, "-l --logit-bias", "TOKEN=F", AT(logit_bias), 0, 0, NULL,
      "add F to the logit of a token, given as an id or as a string that is one token; -inf forbids it; "
      "may be repeated", NULL },
    { OPTION_LIST, "--ban", "TEXT", AT(ban), 0, 0, NULL, "never generate this string; may be repeated",
      NULL },
};

static const option sampling_rows[] = {
    OPTION_HEADING("sampling", "More sampling, off by default (docs/sampling.md)"),
    SAMPLER("--dry-multiplier"),
    SAMPLER("--dry-base"),
    SAMPLER("--dry-allowed-length"),
    SAMPLER("--dry-penalty-last-n --dry-last-n"),
    { OPTION_LIST, "--dry-sequence-breaker", "TEXT", AT(dry_breaker), 0, 0, NULL,
      "string that ends a repetition for DRY; may be repeated, and the first one replaces the default "
      "strings (line feed, colon, quote, asterisk); none removes them", NULL },
    SAMPLER("--top-nsigma --top-n-sigma"),
    SAMPLER("--typical --typical-p"),
    SAMPLER("--xtc-probability"),
    SAMPLER("--xtc-threshold"),
    SAMPLER("--dynatemp-range"),
    SAMPLER("--dynatemp-exp --dynatemp-exponent"),
    SAMPLER("--mirostat"),
    SAMPLER("--mirostat-ent --mirostat-tau"),
    SAMPLER("--mirostat-lr --mirostat-eta"),
    SAMPLER("--samplers"),
};

static const option memory_rows[] = {
    OPTION_HEADING("memory", "Memory and files"),
    CONTEXT("-c --ctx-size", NULL),
    CONTEXT("--ram-budget", NULL),
    CONTEXT("--adapter-memory", NULL),
    CONTEXT("-ctk --kv --kv-type", NULL),
    CONTEXT("--kv-window", NULL),
    CONTEXT("--kv-sinks", NULL),
    CONTEXT("--kv-heavy", NULL),
    { OPTION_CHOICE, "--io", NULL, AT(io), 0, 0, "auto|uring|pread|mmap",
      "how to read the file: auto (io_uring or threads, bypassing the page cache if layers stream and free "
      "memory could not cache the file), uring or pread (bypassing the page cache whenever layers stream), "
      "mmap", "auto" },
    { OPTION_CHOICE, "--i2s-layout", "NAME", AT(i2s_layout), 0, 0, I2S_LAYOUTS, I2S_HELP, "auto" },
    { OPTION_CHOICE, "--check", NULL, AT(check), 0, 0, "first|every",
      "verify checksums of streamed data on the first read, or on every read", "first" },
};

static const option speed_rows[] = {
    OPTION_HEADING("speed", "Speed and precision"),
    CONTEXT("-t --threads", NULL),
    CONTEXT("-b --batch-size", NULL),
    { OPTION_INT, "--draft", "N", AT(draft), -1, QSF_DRAFT_MOST, NULL,
      "draft up to N tokens from earlier text and check them in one pass; same answer, faster", NULL },
    { OPTION_FLAG, "--draft-mtp", NULL, AT(draft_mtp), 0, 0, NULL,
      "draft with the file's own layer for multi-token prediction; it stays in memory, within the budget",
      NULL },
    CONTEXT("--head-topk", NULL),
    CONTEXT("--quality", NULL),
    CONTEXT("--early-exit", "no drafts then, unless --draft N is given"),
    CONTEXT("--act-quant", NULL),
    CONTEXT("--kernel-route", NULL),
    CONTEXT("--isa", NULL),
    CONTEXT("--f32", NULL),
    CONTEXT("--gpu-stream", "with --device gpu and --gpu-memory"),
};

#undef AT
#define AT(member) offsetof(device_settings, member)
static const option device_rows[] = {
    OPTION_HEADING("device", "GPU (docs/webgpu.md)"),
    { OPTION_CHOICE, "--device", NULL, AT(device), 0, 0, "cpu|gpu",
      "gpu: compute the layers that the first GPU of --list-devices can compute there, through the WebGPU "
      "library that QSF_WEBGPU_LIB names", "cpu" },
    { OPTION_INT, "-ngl --gpu-layers --n-gpu-layers", "N", AT(gpu_layers), -1, 1e9, NULL,
      "with --device gpu: at most N layers there; -1 for all", "-1" },
    { OPTION_NUMBER, "--gpu-memory", "MB", AT(gpu_memory), 0, 1e9, NULL,
      "with --device gpu: at most this much memory there; as many layers as fit; 0 for no limit", "0" },
};
#undef AT
#undef CONTEXT
#undef SAMPLER

/* The last rows of every program. */
#define ABOUT_ROWS(AT)                                                                                      \
    { OPTION_FLAG, "--completion-names", NULL, AT(completion), 0, 0, NULL,                                  \
      "print all option names, for shell completion", NULL },                                               \
    { OPTION_CHOICE, "--completion", "SHELL", AT(shell), 0, 0, "bash|zsh|fish",                             \
      "print the completion script for bash, zsh or fish", NULL },                                          \
    { OPTION_FLAG, "--manual", NULL, AT(manual), 0, 0, NULL, "print the manual page, for man", NULL },      \
    { OPTION_FLAG, "--version", NULL, AT(version), 0, 0, NULL, "print the version", NULL },                 \
    { OPTION_HELP, "-h --help", "[all|TOPIC]", AT(help), 0, 0, NULL,                                        \
      "print the options used most, all options, or one section", NULL }
#define AT(member) offsetof(program_settings, trace.member)
#define AT_ABOUT(member) offsetof(program_settings, about.member)
static const option program_rows[] = {
    { OPTION_TEXT, "--trace", "FILE", AT(trace), 0, 0, NULL,
      "write what each thread does, and when, for https://ui.perfetto.dev", NULL },
    { OPTION_TEXT, "--record", "FILE", AT(record), 0, 0, NULL,
      "write one line of JSON per matrix product: kernel, layer, shape, time", NULL },
    ABOUT_ROWS(AT_ABOUT),
};
#undef AT
#undef AT_ABOUT
#define AT(member) offsetof(about_settings, member)
static const option about_rows[] = { ABOUT_ROWS(AT) };
#undef AT
#undef ABOUT_ROWS

static const option_part common_parts[] = {
    [COMMON_TEMPLATE] = OPTION_PART(template_rows, 0), [COMMON_LORA] = OPTION_PART(lora_rows, 0),
    [COMMON_ANSWER] = OPTION_PART(answer_rows, 0), [COMMON_SAMPLING] = OPTION_PART(sampling_rows, 0),
    [COMMON_MEMORY] = OPTION_PART(memory_rows, 0), [COMMON_SPEED] = OPTION_PART(speed_rows, 0),
    [COMMON_DEVICE] = OPTION_PART(device_rows, 0),
    [COMMON_PROGRAM] = OPTION_PART(program_rows, 0), [COMMON_ABOUT] = OPTION_PART(about_rows, 0),
};

option_part common_options(common_part part, size_t base)
{
    option_part p = common_parts[part];
    p.base = base;
    return p;
}

bool common_parse(const option_program *p, void *into, const about_settings *a, int argc, char **argv,
                  option_list *rest, int *code)
{
    *code = EXIT_USAGE;
    if (!program_parse(p, into, argc, argv, rest)) return false;
    if (!a->help && !a->version && !a->completion && !a->shell && !a->manual) return true;
    *code = EXIT_OK;
    if (a->help) *code = program_help(p, a->help, stdout) ? EXIT_OK : EXIT_USAGE;
    else if (a->version) printf("%s %s\n", p->name, qsf_version());
    else if (a->manual) program_manual(p, stdout);
    else if (a->shell) program_completion(p, a->shell, stdout);
    else program_names(p, stdout);
    *code = output_end(*code);
    return false;
}

void device_defaults(device_settings *g) { *g = (device_settings){ .device = "cpu", .gpu_layers = -1 }; }

void common_defaults(common_settings *c)
{
    *c = (common_settings){ .io = "auto", .i2s_layout = "auto", .check = "first", .draft = -1,
                            .reasoning_budget = -1 };
    device_defaults(&c->gpu);
    qsf_context_defaults(&c->context);
    qsf_sampler_defaults(&c->sampler);
}

/* ---- the chat template ---- */

static bool template_listed(const char *name)
{
    const char *const *p = qsf_chat_template_names();
    while (*p && strcmp(*p, name)) p++;
    return *p != NULL;
}

int template_unknown(const char *asked)
{
    fprintf(stderr, "chat template \"%s\" is neither a name nor a file; the names are ", asked);
    for (const char *const *p = qsf_chat_template_names(); *p; p++)
        fprintf(stderr, "%s%s", *p, p[1] ? ", " : "\n");
    return EXIT_USAGE;
}

int template_asked(const char *asked, bool vocab_names, const char **out, char **owned)
{
    size_t len;
    *out = asked;
    if (template_listed(asked) || strchr(asked, '{')) return EXIT_OK;
    if (!path_exists(asked))
        return vocab_names && !strpbrk(asked, "/\\") ? EXIT_OK : template_unknown(asked);
    *out = *owned = read_whole(asked, &len);
    if (!*owned) return EXIT_IO;
    if (strchr(*owned, '{')) return EXIT_OK;
    fprintf(stderr, "%s: not a chat template: it has neither {{ ... }} nor {%% ... %%}\n", asked);
    free(*owned);
    *owned = NULL;
    return EXIT_USAGE;
}

/* ---- samplers ---- */

/* The id of a token given as a number ("15") or as its text (" the"); -1: not one token. */
static int32_t named_token(const qsf_model *m, const char *name, size_t len)
{
    int32_t ids[4];
    size_t n = 0;
    char *end;
    const long id = strtol(name, &end, 10);
    if (len && end == name + len && id >= 0 && id <= INT32_MAX) return (int32_t)id;
    const qsf_status st = qsf_tokens_encode(m, name, len, QSF_TOK_PARSE_SPECIAL, ids, 4, &n, NULL);
    return !st && n == 1 ? ids[0] : -1;
}

/* "TOKEN=F": split at the last '=', because the token may contain one. */
static qsf_status bias_add(const qsf_model *m, qsf_sampler *s, const char *text, qsf_error *err)
{
    const char *equals = strrchr(text, '=');
    char *end;
    const double bias = equals && equals[1] ? strtod(equals + 1, &end) : 0;
    const int32_t id = equals ? named_token(m, text, (size_t)(equals - text)) : -1;
    if (equals && equals[1] && !*end && id >= 0) return qsf_sampler_bias(s, id, (float)bias, err);
    err->status = QSF_E_ARGUMENT;
    snprintf(err->text, sizeof err->text, "--logit-bias takes TOKEN=F: a token id or a string that is one "
             "token, and a number or -inf; not \"%.120s\"", text);
    return err->status;
}

qsf_status common_sampler(const common_settings *c, const qsf_model *m, qsf_sampler *s, qsf_error *err)
{
    qsf_status st = QSF_OK;
    for (size_t i = 0; !st && i < c->logit_bias.n; i++) st = bias_add(m, s, c->logit_bias.items[i], err);
    for (size_t i = 0; !st && i < c->ban.n; i++)
        st = qsf_sampler_ban(s, c->ban.items[i], strlen(c->ban.items[i]), err);
    if (!st && c->dry_breaker.n) (void)qsf_sampler_breaker(s, NULL, 0, NULL);
    for (size_t i = 0; !st && i < c->dry_breaker.n; i++) {
        const char *text = c->dry_breaker.items[i];
        if (strcmp(text, "none")) st = qsf_sampler_breaker(s, text, strlen(text), err);
    }
    return st;
}
