/* qsf-parity: compares our logits with another engine's, and writes a receipt.  This file has the
 * option table and the choice of task: a comparison, a receipt to verify, a key, the schema.
 * SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "keys.h"
#include "options.h"
#include "receipt.h"
#include "report.h"
#include "parity.h"
#include "run.h"
#include "trace.h"
#include "verify.h"

/* Beside those that all programs have. */
enum { EXIT_OTHER_ENGINE = 6, EXIT_NOT_SHOWN = 7 };

typedef struct parity_asked {
    const char *model, *other_model, *against, *lib, *prompts, *ids, *save, *receipt, *sign, *key, *io, *kv,
        *i2s_layout;
    option_list texts;
    model_settings hub;
    qsf_context_options context;
    long long steps;
    double min_cosine, warn_cosine, min_match, max_kl;
    bool strict, with_prompt, quiet;
    program_settings program;
} parity_asked;

#define AT(member) offsetof(parity_asked, member)
#define CONTEXT(names) OPTION_OF_CONTEXT(names, AT(context), NULL)

static const option parity_rows[] = {
    OPTION_HEADING("engines", "Engines"),
    { OPTION_TEXT, "-m --model", "FILE", AT(model), 0, 0, NULL,
      "QSF or GGUF file, or a name or URL: hf:OWNER/REPO:Q4_K_M; may also be given without -m", NULL },
    { OPTION_TEXT, "--against", "NAME", AT(against), 0, 0, NULL,
      "the other engine: llama.cpp, bitnet.cpp, none, or a file written by --save", "llama.cpp" },
    { OPTION_TEXT, "--lib", "PATH", AT(lib), 0, 0, NULL,
      "the other engine's shared library, or its build folder",
      "LLAMA_CPP_DIR or BITNET_CPP_DIR, then the system's library path" },
    { OPTION_TEXT, "--other-model", "FILE", AT(other_model), 0, 0, NULL,
      "file for the other engine; such as the GGUF file that a QSF file was made from", "MODEL" },

    OPTION_HEADING("prompts", "Prompts"),
    { OPTION_LIST, "-p --prompt", "TEXT", AT(texts), 0, 0, NULL,
      "prompt for both; may be repeated", "three built-in texts" },
    { OPTION_TEXT, "--prompts", "FILE", AT(prompts), 0, 0, NULL,
      "file with one prompt per line, and C's escapes \\n, \\t, \\r and \\\\", NULL },
    { OPTION_TEXT, "--ids", "N,N,...", AT(ids), 0, 0, NULL, "token ids instead of text", NULL },
    { OPTION_INT, "-n --steps", "N", AT(steps), 0, 100000, NULL,
      "tokens to continue each prompt by; both engines get the other engine's most likely ones", "16" },
    { OPTION_TEXT, "--save", "FILE", AT(save), 0, 0, NULL,
      "write the other engine's logits, for --against FILE elsewhere", NULL },

    OPTION_HEADING("thresholds", "Thresholds"),
    { OPTION_NUMBER, "--min-cosine", "F", AT(min_cosine), -1, 1, NULL,
      "minimum cosine of a row's logits", "0.99" },
    { OPTION_NUMBER, "--warn-cosine", "F", AT(warn_cosine), -1, 1, NULL, "warn below this cosine",
      "0.9999" },
    { OPTION_NUMBER, "--min-match", "F", AT(min_match), 0, 1, NULL,
      "minimum share of steps with the same greedy token", "0" },
    { OPTION_NUMBER, "--max-kl", "F", AT(max_kl), -1, 1e9, NULL,
      "maximum Kullback-Leibler divergence of a row in nats; -1 for no limit", "-1" },
    { OPTION_FLAG, "--strict", NULL, AT(strict), 0, 0, NULL,
      "fail if a greedy token differs and is not a tie", NULL },

    OPTION_HEADING("receipt", "Receipt"),
    { OPTION_TEXT, "--receipt", "FILE", AT(receipt), 0, 0, NULL, "write a receipt as JSON", NULL },
    { OPTION_FLAG, "--with-prompt", NULL, AT(with_prompt), 0, 0, NULL,
      "include the prompts' tokens in the receipt, not only their hashes", NULL },
    { OPTION_TEXT, "--sign", "FILE", AT(sign), 0, 0, NULL,
      "sign the receipt with this secret key; keygen makes one", NULL },
    { OPTION_TEXT, "--key", "FILE", AT(key), 0, 0, NULL,
      "public key that must have signed the receipt; for verify", NULL },

    OPTION_HEADING("ours", "This engine"),
    CONTEXT("-t --threads"),
    CONTEXT("-b --batch-size"),
    CONTEXT("--ram-budget"),
    CONTEXT("--isa"),
    CONTEXT("--act-quant"),
    CONTEXT("--kernel-route"),
    CONTEXT("--f32"),
    { OPTION_CHOICE, "-ctk --kv --kv-type", NULL, AT(kv), 0, 0, "f16|q8|f32|q4|q2|q8v4|q4v2",
      "type of the KV cache; the other engine uses f32 for f32, else f16", "f16" },
    { OPTION_CHOICE, "--io", NULL, AT(io), 0, 0, "auto|uring|pread|mmap", "how to read the file", "auto" },
    { OPTION_CHOICE, "--i2s-layout", "NAME", AT(i2s_layout), 0, 0, I2S_LAYOUTS, I2S_HELP, "auto" },

    OPTION_HEADING("about", "Diagnostics and help"),
    { OPTION_FLAG, "-q --quiet", NULL, AT(quiet), 0, 0, NULL, "print only errors", NULL },
};
#undef AT
#undef CONTEXT

static const option_page parity_page = {
    .about = "Compares our logits with another engine's, step by step, and writes receipts.",
    .usage = "qsf-parity [options] MODEL",
    .examples = "  qsf-parity model.gguf --lib llama.cpp/build    against llama.cpp's library\n"
                "  qsf-parity model.gguf --receipt receipt.json   also write a receipt\n"
                "  qsf-parity verify receipt.json [model.gguf]    check; with a model, rerun\n"
                "  qsf-parity keygen KEY                          write KEY and KEY.pub\n"
                "  qsf-parity schema                              print the receipts' JSON Schema\n",
    .brief = "--against --other-model --prompt --steps --min-cosine --strict --sign --key --threads",
    .exit_codes = "0 parity, 1 no parity, 2 usage, 3 bad model or receipt, 4 memory, 5 input or output, "
                  "6 the other engine is missing or failed, 7 one engine ran alone",
    .commands = "verify keygen schema",
};

/* ---- settings ---- */

static qsf_status asked_prompts(const parity_asked *a, prompt_list *out, qsf_error *err)
{
    qsf_status st = QSF_OK;
    char *text;
    size_t len;
    for (size_t i = 0; i < a->texts.n && !st; i++)
        st = prompts_add(out, a->texts.items[i], strlen(a->texts.items[i]), NULL, 0, err);
    if (!st && a->ids) st = prompts_ids(out, a->ids, "--ids", err);
    if (!st && a->prompts && !(st = file_whole(a->prompts, 1 << 26, &text, &len, err))) {
        st = prompts_lines(out, text, len, err);
        free(text);
    }
    return st;
}

static parity_settings asked_settings(const parity_asked *a, const char *model, const char *against)
{
    static const char *const kinds[] = { "f16", "q8", "f32", "q4", "q2", "q8v4", "q4v2" };
    parity_settings set = {
        .model = model, .other_model = a->other_model, .against = against, .lib = a->lib, .save = a->save,
        .context = a->context, .io = io_named(a->io), .i2s_layout = i2s_named(a->i2s_layout),
        .n_steps = (size_t)a->steps, .min_cosine = a->min_cosine, .warn_cosine = a->warn_cosine,
        .min_match = a->min_match, .max_kl = a->max_kl, .strict = a->strict, .with_prompt = a->with_prompt,
    };
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (!strcmp(a->kv, kinds[i])) set.context.kv_type = (qsf_kv_type)i;
    return set;
}

static int failed(const qsf_error *err, bool of_other)
{
    const int code = report(err);
    return of_other ? EXIT_OTHER_ENGINE : code;
}

static int write_whole(const char *path, const char *text, size_t len)
{
    file_out f;
    qsf_error err;
    qsf_status st = file_out_begin(&f, path, &err);
    if (!st) st = file_out_end(&f, file_out_write(&f, text, len, &err), &err);
    return st ? report(&err) : EXIT_OK;
}

/* ---- a comparison ---- */

static int write_receipt(const parity_asked *a, const parity_settings *set, const prompt_list *prompts,
                         const parity_result *r)
{
    qsf_error err;
    char *text, *with = NULL;
    size_t len, n = 0;
    qsf_status st = receipt_text(set, prompts, r, &text, &len, &err);
    if (st) return report(&err);
    if (a->sign) st = keys_sign(a->sign, text, len, &with, &n, &err);
    const int code = st ? report(&err) : write_whole(a->receipt, with ? with : text, with ? n : len);
    free(text);
    free(with);
    return code;
}

static int outcome_code(const parity_result *r)
{
    return r->outcome == PARITY_SHOWN ? EXIT_OK : r->outcome == PARITY_FAILED ? EXIT_FAILED : EXIT_NOT_SHOWN;
}

static int compare(const parity_asked *a, const char *model)
{
    const char *against = a->against ? a->against : "llama.cpp";
    const parity_settings set = asked_settings(a, model, against);
    const bool named = !strcmp(against, "llama.cpp") || !strcmp(against, "bitnet.cpp") || !strcmp(against,
                                                                                                  "none");
    prompt_list prompts = { 0 };
    parity_result r = { 0 };
    qsf_error err;
    bool of_other = false;
    if (a->sign && !a->receipt) return fputs("--sign requires --receipt\n", stderr), EXIT_USAGE;
    qsf_status st = asked_prompts(a, &prompts, &err);
    if (!st && !prompts.n && named) st = prompts_standard(&prompts, &err);
    if (!st) st = parity_run(&set, &prompts, &r, &of_other, &err);
    int code = st ? failed(&err, of_other) : outcome_code(&r);
    if (!st && !a->quiet) parity_report(stdout, &set, &prompts, &r);
    if (!st && a->receipt) {
        const int written = write_receipt(a, &set, &prompts, &r);
        if (written) code = written;
    }
    parity_result_free(&r);
    prompts_free(&prompts);
    return code;
}

/* ---- a receipt ---- */

static int run_again(const parity_asked *a, yyjson_val *root, const char *model)
{
    const bool alone = !a->against && !a->lib;
    const char *other = yyjson_get_str(receipt_at(root, "engines.other.name"));
    const bool bitnet = other && !strcmp(other, "bitnet.cpp");
    parity_settings set = asked_settings(a, model, a->against ? a->against : alone ? "none"
                                                              : bitnet ? "bitnet.cpp" : "llama.cpp");
    prompt_list prompts = { 0 };
    parity_result r = { 0 };
    qsf_error err;
    bool of_other = false, to_the_bit = false;
    char sum[SHA256_HEX];
    uint64_t bytes;
    qsf_status st = file_sum(model, sum, &bytes, &err);
    if (!st && !yyjson_equals_str(receipt_at(root, "model.sha256"), sum)) {
        fprintf(stderr, "%s is not the receipt's model: its SHA-256 is %s\n", model, sum);
        return EXIT_FAILED;
    }
    if (!st) st = asked_prompts(a, &prompts, &err);
    if (!st) st = verify_settings(root, &set, &prompts, &err);
    if (!st) st = parity_run(&set, &prompts, &r, &of_other, &err);
    int code = st ? failed(&err, of_other) : EXIT_OK;
    if (!st && (st = verify_same(root, &prompts, &r, &to_the_bit, &err))) {
        report(&err);
        code = EXIT_FAILED;
    }
    if (!st && !a->quiet) {
        if (!alone) parity_report(stdout, &set, &prompts, &r);
        printf("run again: the same%s\n", to_the_bit ? ", and our logits to the bit"
               : " within what rounding changes");
    }
    parity_result_free(&r);
    prompts_free(&prompts);
    return code;
}

static int verify(const parity_asked *a, const char *path, const char *model)
{
    qsf_error err;
    yyjson_doc *doc = NULL;
    char *text;
    size_t len;
    bool is_signed = false;
    int code = EXIT_OK;
    qsf_status st = file_whole(path, RECEIPT_BYTES, &text, &len, &err);
    if (st) return report(&err);
    st = receipt_read(text, len, &doc, &err);
    if (!st) st = keys_check(a->key, text, len, yyjson_doc_get_root(doc), &is_signed, &err);
    if (st) code = report(&err);
    else {
        yyjson_val *root = yyjson_doc_get_root(doc), *shown = receipt_at(root, "parity.passed");
        if (!a->quiet)
            printf("the receipt is whole%s: %s\n",
                   !is_signed ? ", and not signed" : a->key ? ", and signed by that key"
                       : ", and signed by the key in it",
                   yyjson_is_null(shown) ? "no parity was shown" : yyjson_get_bool(shown) ? "parity"
                       : "no parity");
        if (model) code = run_again(a, root, model);
    }
    yyjson_doc_free(doc);
    free(text);
    return code;
}

static int make_key(const char *path)
{
    qsf_error err;
    if (keys_new(path, &err)) return report(&err);
    printf("%s is the secret key, %s.pub the public one\n", path, path);
    return EXIT_OK;
}

static int print_schema(void)
{
    size_t len;
    char *text = receipt_schema(&len);
    if (!text) return EXIT_NO_MEMORY;
    fwrite(text, 1, len, stdout);
    free(text);
    return EXIT_OK;
}

static int as_asked(const parity_asked *a, const option_list *rest)
{
    const char *word = rest->n ? rest->items[0] : "";
    if (!strcmp(word, "schema") && rest->n == 1) return print_schema();
    if (!strcmp(word, "keygen") && rest->n == 2) return make_key(rest->items[1]);
    if (!strcmp(word, "verify") && (rest->n == 2 || rest->n == 3))
        return verify(a, rest->items[1], rest->n == 3 ? rest->items[2] : a->model);
    const bool command = !strcmp(word, "keygen") || !strcmp(word, "verify") || !strcmp(word, "schema");
    const char *model = rest->n ? word : a->model;
    if (command || rest->n > 1 || !model) {
        fprintf(stderr, command ? "%s: wrong number of files; --help shows the usage\n"
                : rest->n > 1 ? "%s and more: only one model is compared\n"
                : "no model was given%s: qsf-parity [options] MODEL; --help shows the options\n", word);
        return EXIT_USAGE;
    }
    return compare(a, model);
}

int main(int argc, char **argv)
{
    parity_asked a = { .steps = 16, .min_cosine = 0.99, .warn_cosine = 0.9999, .max_kl = -1, .io = "auto",
                       .kv = "f16" };
    option_list rest;
    trace_files *files;
    terminal_init();
    qsf_context_defaults(&a.context);
    const option_part parts[] = {
        OPTION_PART(parity_rows, 0), model_names_options(offsetof(parity_asked, hub)),
        common_options(COMMON_PROGRAM, offsetof(parity_asked, program)),
    };
    const option_program program = { parts, sizeof parts / sizeof parts[0], NULL, 0, "QSF_PARITY_",
                                     "qsf-parity", &parity_page };
    int code;
    if (!common_parse(&program, &a, &a.program.about, argc, argv, &rest, &code)) return code;
    if ((code = model_names_add(&a.hub, &rest)) != 0 || (code = model_names_find_all(&a.hub, &rest, 0)) != 0
        || (code = model_names_find(&a.hub, &a.model, 0)) != 0)
        return code;
    code = trace_open(&a.program.trace, &files);
    if (code) return output_end(code);
    trace_context(files, &a.context);
    code = as_asked(&a, &rest);
    return output_end(trace_close(files, code));
}
