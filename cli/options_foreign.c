/* The table of other programs' options: llama.cpp's (common/arg.cpp), and common ones of vLLM,
 * Ollama and Transformers.
 * SPDX-License-Identifier: MIT */
#include "options_foreign.h"

#include <stdlib.h>
#include <string.h>

/* NONE: a flag.  SWITCH: a flag with an optional value: on, off, auto or a number. */
typedef enum foreign_takes { TAKES_NONE, TAKES_VALUE, TAKES_SWITCH } foreign_takes;
typedef enum foreign_kind { FOREIGN_SAME, FOREIGN_IGNORED, FOREIGN_REFUSED } foreign_kind;

/* Rows are tried in order: SAME applies if the program has the option, and a row with `when` if the
 * value is one of those words.  A name that ends with '*' is a prefix. */
typedef struct foreign_option {
    foreign_kind  kind;
    const char   *names;
    foreign_takes takes;
    const char   *when;          /* "on|auto"; NULL: any value */
    const char   *text;          /* SAME: our option, and "=VALUE" for a fixed value; else why */
} foreign_option;

#define SAME(names, ours) { FOREIGN_SAME, names, TAKES_NONE, NULL, ours }
#define IGNORED(names, takes, why) { FOREIGN_IGNORED, names, TAKES_##takes, NULL, why }
#define REFUSED(names, takes, why) { FOREIGN_REFUSED, names, TAKES_##takes, NULL, why }
#define REFUSED_IF(names, when, why) { FOREIGN_REFUSED, names, TAKES_VALUE, when, why }

#define NO_GPU "--device gpu computes what it can on the first GPU"
#define BY_NAME "--hf-repo OWNER/REPO/FILE names a file; --draft-model hf:OWNER/REPO a model for drafts"
#define NO_IMAGES "images, audio and video are not supported"
#define ONE_KV "keys and values have one type: --kv-type, for example q8v4 for 8-bit keys and 4-bit values"

static const foreign_option foreign_models[] = {
    /* fetching */
    SAME("-mu --model-url", "--model"),
    REFUSED("-hff --hf-file --hf-repo-draft -hfd -hfrd --spec-draft-hf", VALUE, BY_NAME),
    REFUSED("-dr --docker-repo", VALUE, "models come from Hugging Face's hub or a URL: -hf, --model"),
    REFUSED("--fim-qwen-* --gpt-oss-* --vision-gemma-* --embd-gemma-default --spec-default", NONE,
            "name the model: -hf OWNER/REPO"),
    REFUSED("-cl --cache-list", NONE, "qsf list shows the cache"),
    REFUSED("-hft --hf-token", VALUE, "give the token as HF_TOKEN: others can see a program's arguments"),

    /* GPUs */
    IGNORED("-ngl --gpu-layers --n-gpu-layers -ngld --gpu-layers-draft --n-gpu-layers-draft", VALUE, NO_GPU),
    IGNORED("-sm --split-mode -ts --tensor-split -mg --main-gpu -dev --device -ot --override-tensor -ncmoe "
            "--n-cpu-moe -ncffn --n-cpu-ffn -devd --device-draft -otd --override-tensor-draft -ncmoed "
            "--n-cpu-moe-draft --gpu-memory-utilization", VALUE, NO_GPU),
    IGNORED("-cmoe --cpu-moe -cmoed --cpu-moe-draft -kvo --kv-offload -nkvo --no-kv-offload --op-offload "
            "--no-op-offload --no-host --mmproj-offload --no-mmproj-offload -bs --backend-sampling "
            "--enforce-eager", NONE, NO_GPU),
    IGNORED("-fit --fit -fitt --fit-target -fitc --fit-ctx", VALUE,
            "--ram-budget determines the context and which layers stream"),
    REFUSED("--list-devices", NONE, "qsf-run --list-devices lists GPUs"),
    IGNORED("-fa --flash-attn", SWITCH, "attention never stores the whole matrix of scores"),

    /* memory and files */
    IGNORED("--mlock --mmap --no-mmap -dio --direct-io -ndio --no-direct-io", NONE,
            "--io chooses how the file is read, --ram-budget how much of it stays in memory"),
    IGNORED("-mmp -lm --load-mode -lzm --lazy-mode", VALUE,
            "--io chooses how the file is read, --ram-budget how much of it stays in memory"),
    IGNORED("--repack -nr --no-repack", NONE, "weights are always stored as the processor needs them"),
    IGNORED("--check-tensors", NONE, "checksums of QSF files are compared whenever bytes are first read"),
    IGNORED("--numa", VALUE, "use numactl to place memory and threads"),
    IGNORED("-C --cpu-mask* -Cr --cpu-range* --cpu-strict* -Cb -Crb -Cd -Crd -Cbd", VALUE,
            "use taskset to choose processors"),
    IGNORED("--prio* --poll*", VALUE, "use nice to set the priority"),
    IGNORED("-tb --threads-batch -td --threads-draft -tbd --threads-batch-draft "
            "--threads-http", VALUE,
            "-t sets the number of threads for everything"),
    SAME("--num-threads --n-threads --nthreads", "--threads"),
    REFUSED("--rpc", VALUE, "several machines share a model with --mpi: docs/many-machines.md"),
    REFUSED("--override-kv", VALUE, "the values of the file are used"),
    REFUSED("--control-vector*", VALUE, "control vectors are not supported; adapters are (--lora)"),

    /* context, keys and values */
    SAME("--n-ctx --num-ctx --context-size --context-length --max-model-len --max-seq-len", "--ctx-size"),
    SAME("--cache-type-k --kv-cache-dtype", "--kv-type"),
    IGNORED("-ctv --cache-type-v -ctkd --cache-type-k-draft -ctvd --cache-type-v-draft", VALUE, ONE_KV),
    SAME("--n-batch", "--batch-size"),
    IGNORED("-ub --ubatch-size", VALUE, "-b is the number of rows computed at once"),
    IGNORED("-kvu --kv-unified -no-kvu --no-kv-unified --swa-full --cache-idle-slots --no-cache-idle-slots",
            NONE, "sequences share the memory of the context as they need it"),
    IGNORED("--kv-unified-per-slot -ctxcp --ctx-checkpoints --swa-checkpoints -cms --checkpoint-min-step -dt "
            "--defrag-thold", VALUE, "the context manages its memory itself"),
    IGNORED("-cram --cache-ram", VALUE, "--ram-budget bounds the memory, --cache-disk adds disk to it"),
    IGNORED("--no-context-shift", NONE, "the context does not move unless --kv-window is given"),
    REFUSED("--context-shift", NONE, "use --kv-window N for texts longer than the context"),
    REFUSED("--keep", VALUE, "--kv-window N --kv-sinks N keep the last and the first positions"),
    REFUSED("--rope-* --yarn-* -gan --grp-attn-n -gaw --grp-attn-w", VALUE,
            "positions are encoded as the file specifies"),

    /* prompts and chats */
    SAME("--system-prompt --system-message", "--system"),
    REFUSED("-sysf --system-prompt-file", VALUE, "--system \"$(cat FILE)\" gives a file's text"),
    REFUSED("-bf --binary-file", VALUE, "--file takes any bytes, and --raw leaves them unchanged"),
    SAME("-if --interactive-first --conversation", "--interactive"),
    IGNORED("-no-cnv --no-cnv --no-conversation -st --single-turn", NONE,
            "a prompt (-p) gets one answer; --raw leaves the chat template out"),
    IGNORED("--jinja --no-jinja", NONE, "chat templates always run"),
    IGNORED("-mli --multiline-input", NONE, "pasted text may have several lines"),
    IGNORED("--no-escape", NONE, "a prompt is taken literally"),
    REFUSED("-e --escape", NONE, "a prompt is taken literally: write line breaks with the shell's "
                                 "$'...\\n...'"),
    REFUSED("--in-prefix --in-suffix", VALUE, "messages are framed by the chat template: --chat-template"),
    IGNORED("--in-prefix-bos", NONE, "messages are framed by the chat template"),
    IGNORED("--prompt-cache-all", NONE, "--session keeps prompt and answer"),
    IGNORED("--prompt-cache-ro", NONE, "--prompt-cache writes only if most of the prompt is new"),
    REFUSED("--display-prompt", NONE, "only the answer is printed; -v prints times besides"),
    IGNORED("--no-display-prompt", NONE, "the prompt is not printed"),
    SAME("--verbose-prompt --perf --show-timings", "--verbose"),
    IGNORED("--no-perf --no-show-timings", NONE, "times are only printed by -v"),
    IGNORED("-co --color", SWITCH, "colours are used on terminals; NO_COLOR=1 turns them off"),
    IGNORED("--log-colors", VALUE, "colours are used on terminals; NO_COLOR=1 turns them off"),
    IGNORED("--simple-io --warmup --no-warmup --spm-infill --prefill-assistant --no-prefill-assistant", NONE,
            "this is not configurable"),
    REFUSED("-sp --special", NONE, "control tokens are not printed; --detokenize shows them"),
    REFUSED("-ptc --print-token-count", VALUE, "-v prints the number of tokens"),
    REFUSED("-mm --mmproj -mmu --mmproj-url --image --audio --video --image-min-tokens --image-max-tokens "
            "--mtmd-batch-max-tokens --video-* --media-path", VALUE, NO_IMAGES),
    IGNORED("--mmproj-auto --no-mmproj --no-mmproj-auto", NONE, NO_IMAGES),

    /* reasoning */
    REFUSED_IF("--reasoning -rea", "off|none", "--reasoning-budget 0 makes the model answer at once"),
    IGNORED("--reasoning -rea", VALUE, "the chat template decides; --reasoning-budget N limits it"),
    REFUSED_IF("--reasoning-format", "none", "reasoning is always separated from the answer"),
    IGNORED("--reasoning-format --reasoning-parser", VALUE, "reasoning is always separated from the answer"),
    IGNORED("--reasoning-preserve --no-reasoning-preserve", NONE, "the chat template decides"),
    REFUSED("--reasoning-effort", VALUE,
            "--chat-template-kwargs '{\"reasoning_effort\": \"high\"}' sets it"),
    REFUSED("--reasoning-budget-message", VALUE, "reasoning is closed by the model's own mark"),
    REFUSED("--skip-chat-parsing", NONE, "--raw gives the model's text unchanged"),
    IGNORED("--no-skip-chat-parsing --enable-auto-tool-choice --trust-remote-code", NONE,
            "this is always the case"),
    IGNORED("--tool-call-parser", VALUE, "the chat template determines the form of calls"),

    /* sampling and answers */
    SAME("--n-predict --max-new-tokens --num-predict --max-length", "--max-tokens"),
    SAME("--repetition-penalty", "--repeat-penalty"),
    SAME("--grammar-file", "--grammar"),
    SAME("-j -jf --json-schema-file", "--json-schema"),
    SAME("--sampler-seq --sampling-seq", "--samplers"),
    REFUSED("--adaptive-target --adaptive-decay", VALUE, "not supported; --mirostat has a target surprise"),
    REFUSED("--grammar -j --json-schema -jf --json-schema-file --grammar-file", VALUE,
            "requests specify their grammar or schema (response_format, grammar)"),

    /* adapters and drafts */
    SAME("--lora-scaled", "--lora"),
    IGNORED("--lora-init-without-apply", NONE, "requests choose adapters"),
    SAME("-md --model-draft --spec-draft-model", "--draft-model"),
    SAME("--draft-n --draft-max --spec-draft-n-max", "--draft"),
    IGNORED("--draft-min --draft-n-min --draft-p-* --spec-*", VALUE,
            "--draft N is the number of draft tokens; the rest is measured"),
    IGNORED("--no-spec-*", NONE, "--draft N is the number of draft tokens; the rest is measured"),
    IGNORED("-lcs --lookup-cache-static -lcd --lookup-cache-dynamic", VALUE,
            "draft tokens come from the conversation's own text: --draft N"),

    /* the server */
    SAME("-np --parallel --max-num-seqs", "--slots"),
    IGNORED("-np --parallel --max-num-seqs", VALUE, "there is one conversation"),
    IGNORED("-cb --cont-batching -nocb --no-cont-batching --enable-prefix-caching --cache-prompt", NONE,
            "requests share steps, and prompts that start the same way are cached"),
    REFUSED("--no-cache-prompt --no-enable-prefix-caching", NONE, "--cache-sequences 0 keeps nothing"),
    IGNORED("--cache-reuse -sps --slot-prompt-similarity", VALUE,
            "the cached sequence with the longest common prefix is used"),
    SAME("--served-model-name", "--alias"),
    SAME("--cors-origins --allowed-origins", "--cors"),
    IGNORED("--cors-methods --cors-headers --tags --sleep-idle-seconds", VALUE, "this is not configurable"),
    IGNORED("--cors-credentials --no-cors-credentials --reuse-port --metrics --props --no-slots --ui --webui "
            "--embedding --embeddings --rerank --reranking", NONE, "this is always on"),
    SAME("--no-ui --no-webui", "--no-page"),
    REFUSED("--path --api-prefix --ui-config* --webui-config*", VALUE,
            "a reverse proxy in front of the server can do it"),
    REFUSED("--ssl-key-file --ssl-cert-file --ssl-keyfile --ssl-certfile", VALUE,
            "the server speaks plain HTTP: put a reverse proxy with TLS in front of it"),
    SAME("-to", "--timeout"),
    REFUSED("--slot-save-path", VALUE, "--cache-file FILE and --cache-disk MB keep sequences"),
    REFUSED("--models-preset", VALUE, "--model NAME=FILE, given again, serves several models"),
    IGNORED("--models-autoload --no-models-autoload", NONE, "models are loaded on their first request"),
    REFUSED("--tools --tools-runtime --mcp-servers-config --mcp-servers-json", VALUE,
            "clients provide and run their tools, including those of MCP"),
    REFUSED("-ag --agent --ui-mcp-proxy --webui-mcp-proxy", NONE,
            "clients provide and run their tools, including those of MCP"),
    IGNORED("-no-ag --no-agent --no-ui-mcp-proxy --no-webui-mcp-proxy", NONE, "this is always the case"),
    REFUSED("--server-base", VALUE, "qsf-run computes by itself"),
    REFUSED("--embd-normalize", VALUE, "--embedding-plain leaves embeddings as computed"),
    REFUSED("--tensor-parallel-size -tp --pipeline-parallel-size -pp", VALUE,
            "several machines share a model with --mpi: docs/many-machines.md"),
    IGNORED("--dtype", VALUE, "weights keep the file's types; --f32 computes with floats"),

    /* logs */
    SAME("--log-disable", "--quiet"),
    IGNORED("--log-disable --log-prefix --no-log-prefix --log-timestamps --no-log-timestamps --no-log-jsonl",
            NONE, "only what -v asks for is printed"),
    IGNORED("-lv --verbosity --log-verbosity", VALUE, "-v prints more"),
    SAME("--log-verbose", "--verbose"),
    IGNORED("--log-verbose -v --verbose", NONE, "each request has a line in the log"),
    SAME("--log-jsonl", "--log-format=json"),
    REFUSED("--log-jsonl", NONE, "messages are plain text"),
    REFUSED("--log-file --log-prompts-dir", VALUE, "2> FILE sends the messages to a file"),
    REFUSED("-o --output --output-file", VALUE, "> FILE sends the answer to a file"),
    SAME("--usage", "--help"),
    SAME("--completion-bash", "--completion-names"),

    /* options of the other one of qsf-run and qsf-serve */
    REFUSED("-a --alias --host --port --api-key --api-key-file -to --timeout --sse-ping-interval "
            "--models-dir --models-max --slots --cors --cors-origins --served-model-name --no-ui --no-webui",
            VALUE,
            "it belongs to qsf-serve"),
    REFUSED("-p --prompt -f --file -sys --system --system-prompt --ids -i --interactive -if "
            "--interactive-first -cnv --conversation -r --reverse-prompt --stop --ignore-eos --session "
            "--prompt-cache --verbose-prompt --perf --show-timings",
            VALUE, "it belongs to qsf-run; here requests set it"),
};

/* Of llama-quantize and of the scripts that make GGUF files. */
static const foreign_option foreign_convert[] = {
    SAME("--imatrix", "--calibration-file"),
    SAME("--outtype --ftype --dtype", "--quant-type"),
    SAME("--nthreads --num-threads --n-threads", "--threads"),
    SAME("--usage", "--help"),
    REFUSED("--outfile -o --output", VALUE, "the output is the second argument: qsf-convert INPUT OUTPUT"),
    REFUSED("--output-tensor-type --token-embedding-type --tensor-type", VALUE,
            "--tensor PATTERN=TYPE gives matrices a type, such as --tensor \"output=6bit_s\""),
    IGNORED("--allow-requantize --leave-output-tensor --pure --use-temp-file --no-lazy --bigendian", NONE,
            "it makes no difference for QSF files"),
    REFUSED("--remote", NONE, "-hf OWNER/REPO downloads the files that are needed"),
    REFUSED("--vocab-only --mmproj --dry-run", NONE, "--info prints what a file holds"),
};
#undef SAME
#undef IGNORED
#undef REFUSED
#undef REFUSED_IF

/* Aliases of choice values. */
static const struct { const char *option, *word, *ours; } foreign_words[] = {
    { "kv-type", "q8_0", "q8" }, { "kv-type", "q4_0", "q4" }, { "kv-type", "q4_1", "q4" },
    { "kv-type", "iq4_nl", "q4" }, { "kv-type", "q5_0", "q8" }, { "kv-type", "q5_1", "q8" },
    { "kv-type", "bf16", "f16" },
    { "quant-type", "bf16", "f16" }, { "quant-type", "q8_0", "8bit" },
    { "quant-type", "Q8_0", "8bit" }, { "quant-type", "Q4_0", "4bit" }, { "quant-type", "Q4_K_M", "auto" },
    { "quant-type", "tq1_0", "ternary5" }, { "quant-type", "tq2_0", "ternary" },
    { "reasoning", "on", "show" }, { "reasoning", "auto", "show" },
};

const char *foreign_word(const char *option_name, const char *word)
{
    for (size_t i = 0; i < sizeof foreign_words / sizeof foreign_words[0]; i++)
        if (!strcmp(foreign_words[i].option, option_name) && !strcmp(foreign_words[i].word, word))
            return foreign_words[i].ours;
    return word;
}

/* ---- lookup ---- */

static bool foreign_named(const char *names, const char *word, size_t len)
{
    for (const char *p = names; *p;) {
        const size_t n = strcspn(p, " ");
        const bool prefix = n && p[n - 1] == '*';
        if (prefix ? len >= n - 1 && !memcmp(p, word, n - 1) : n == len && !memcmp(p, word, n)) return true;
        p += n + (p[n] == ' ');
    }
    return false;
}

static bool word_listed(const char *list, const char *word)
{
    const size_t len = strlen(word);
    for (const char *p = list; *p;) {
        const size_t n = strcspn(p, "|");
        if (n == len && !memcmp(p, word, n)) return true;
        p += n + (p[n] == '|');
    }
    return false;
}

/* Whether the argument after a SWITCH flag is its value. */
static bool switch_value(const char *next)
{
    char *end;
    if (!next) return false;
    if (word_listed("on|off|auto|true|false|enabled|disabled", next)) return true;
    (void)strtol(next, &end, 10);
    return end != next && !*end;
}

/* Edit distance of two short names, for "did you mean". */
static size_t name_distance(const char *a, size_t la, const char *b)
{
    enum { MOST = 40 };
    size_t row[MOST + 1];
    const size_t lb = strlen(b);
    if (la > MOST || lb > MOST) return MOST;
    for (size_t j = 0; j <= lb; j++) row[j] = j;
    for (size_t i = 1; i <= la; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= lb; j++) {
            const size_t up = row[j];
            const size_t change = diagonal + (a[i - 1] != b[j - 1]);
            row[j] = row[j] + 1 < row[j - 1] + 1 ? row[j] + 1 : row[j - 1] + 1;
            if (change < row[j]) row[j] = change;
            diagonal = up;
        }
    }
    return row[lb];
}

/* Reports an unknown option and suggests the closest one: at most two edits away (a swap of two
 * letters counts as two), one edit if the name has 5 characters, none if it is shorter. */
static void say_unknown(const option_program *p, const char *word, size_t len)
{
    const char *best = NULL;
    const option *o;
    size_t base, distance = len < 5 ? 1 : len < 6 ? 2 : 3;
    for (size_t i = 0; (o = program_row(p, i, &base)); i++) {
        if (o->kind == OPTION_GROUP) continue;
        for (const char *name = o->names; *name;) {
            char one[48];
            const size_t n = strcspn(name, " ");
            snprintf(one, sizeof one, "%.*s", (int)n, name);
            const size_t d = name_distance(word, len, one);
            if (d < distance) {
                distance = d;
                best = option_long(o);
            }
            name += n + (name[n] == ' ');
        }
    }
    fprintf(stderr, "unknown option %.*s", (int)len, word);
    if (best) fprintf(stderr, "; did you mean %s?", best);
    fprintf(stderr, "%s --help all lists every option\n", best ? "" : ";");
}

/* The program's option that a SAME row names. */
static bool foreign_same(const option_program *p, const foreign_option *f, const char *value,
                         foreign_use *out)
{
    const size_t len = strcspn(f->text, "=");
    if (!(out->option = program_option(p, f->text, len, &out->base))) return false;
    out->value = f->text[len] ? f->text + len + 1 : value;
    return true;
}

bool foreign_find(const option_program *p, const char *word, size_t len, const char *value, const char *next,
                  foreign_use *out)
{
    size_t base;
    const bool converts = program_option(p, "--quant-type", strlen("--quant-type"), &base);
    const foreign_option *table = converts ? foreign_convert : foreign_models;
    const size_t n = converts ? sizeof foreign_convert / sizeof foreign_convert[0]
                              : sizeof foreign_models / sizeof foreign_models[0];
    *out = (foreign_use){ 0 };
    for (size_t i = 0; i < n; i++) {
        const foreign_option *f = &table[i];
        const char *given = value ? value : next;
        if (!foreign_named(f->names, word, len)) continue;
        if (f->when && !(given && word_listed(f->when, given))) continue;
        if (f->kind == FOREIGN_SAME) {
            if (foreign_same(p, f, value, out)) return true;
            continue;
        }
        if (f->kind == FOREIGN_REFUSED) {
            fprintf(stderr, "%.*s is not an option here: %s\n", (int)len, word, f->text);
            return false;
        }
        out->takes_next = !value && (f->takes == TAKES_VALUE ? next != NULL
                                     : f->takes == TAKES_SWITCH && switch_value(next));
        fprintf(stderr, "%.*s has no effect here: %s\n", (int)len, word, f->text);
        return true;
    }
    say_unknown(p, word, len);
    return false;
}
