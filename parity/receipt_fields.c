/* The members of a receipt, in the order in which they are written.  The schema, the check of
 * what is read and docs/receipt.schema.json come from this table.
 * SPDX-License-Identifier: MIT */
#include "receipt.h"

#include <stdio.h>
#include <string.h>

#include "receipt_own.h"

#define MOST 9007199254740991.0
#define ENDLESS 1e308
#define OBJECT(name, flags, members, help) \
    { name, FIELD_OBJECT, flags, 0, 0, NULL, help, members, sizeof(members) / sizeof(members)[0] }
#define LIST(name, flags, least, most, members, help) \
    { name, FIELD_LIST, flags, least, most, NULL, help, members, sizeof(members) / sizeof(members)[0] }
#define TEXT(name, flags, most, help) { name, FIELD_TEXT, flags, 0, most, NULL, help, NULL, 0 }
#define WORD(name, flags, words, help) { name, FIELD_WORD, flags, 0, 0, words, help, NULL, 0 }
#define SUM(name, flags, help) { name, FIELD_SUM, flags, 0, 64, NULL, help, NULL, 0 }
#define HEX(name, digits, help) { name, FIELD_HEX, 0, 0, digits, NULL, help, NULL, 0 }
#define FLAG(name, flags, help) { name, FIELD_FLAG, flags, 0, 0, NULL, help, NULL, 0 }
#define WHOLE(name, flags, help) { name, FIELD_WHOLE, flags, 0, MOST, NULL, help, NULL, 0 }
#define NUMBER(name, flags, least, most, help) { name, FIELD_NUMBER, flags, least, most, NULL, help, NULL, 0 }

#define I2S_WORDS "auto|qk256|split32|bitnet32|microsoft|microsoft-arm|microsoft-rows4"

static const field program_fields[] = {
    WORD("name", 0, "qsf-parity", "the program that made the receipt"),
    TEXT("version", 0, 64, "its version"),
    TEXT("commit", 0, 64, "of the sources, followed by + if they were changed; unknown: no repository"),
};
static const field machine_fields[] = {
    TEXT("processor", 0, 128, "the name that it reports"),
    TEXT("system", 0, 64, "operating system and kind of processor"),
    TEXT("instruction_set", FIELD_NULL, 32, "of our kernels"),
    WHOLE("threads", 0, "of our engine; the other one is set to the same number"),
};
static const field model_fields[] = {
    SUM("sha256", 0, "of the file"),
    WHOLE("bytes", 0, "of the file"),
    WORD("format", FIELD_NULL, "QSF|GGUF", "null in this and the next ones: our reader refuses the file"),
    TEXT("architecture", FIELD_NULL, 128, "from the file"),
    WHOLE("parameters", FIELD_NULL, "weights in all tensors"),
    WHOLE("weight_bytes", FIELD_NULL, "size of the weights in the file"),
    WHOLE("vocabulary", 0, "tokens"),
    WHOLE("layers", FIELD_NULL, ""),
    WHOLE("embedding", FIELD_NULL, "size of a hidden state"),
};
static const field option_fields[] = {
    WHOLE("steps", 0, "maximum tokens after each prompt"),
    WORD("kv_type", 0, "f16|q8|f32|q4|q2|q8v4|q4v2", "type of our engine's KV cache"),
    WORD("other_kv_type", FIELD_NULL, "f16|f32", "type of the other engine's; null: not recorded in a file"),
    FLAG("f32", 0, "our engine computes with floats throughout"),
    WHOLE("batch_size", 0, ""),
    WHOLE("ram_budget", 0, "bytes; 0: no limit"),
    NUMBER("min_cosine", 0, -1, 1, "minimum cosine_similarity that passes"),
    NUMBER("warn_cosine", 0, -1, 1, "a warning is printed below it"),
    NUMBER("min_match", 0, 0, 1, "minimum exact_match_rate that passes"),
    NUMBER("max_kl", FIELD_NULL, 0, ENDLESS, "maximum kl_max that passes; null: any"),
    FLAG("strict", 0, "a different token that is not a tie fails"),
    WORD("i2s_layout", FIELD_MAY, I2S_WORDS, "layout that was given for tensors of type I2_S"),
    { "context", FIELD_NAMED, FIELD_MAY, 0, 64, NULL, "the other options of our engine by name, with values "
      "as strings (docs/api.md, qsf_context_option)", NULL, 0 },
};
static const field ours_fields[] = {
    WORD("name", 0, "libqsf", ""),
    TEXT("version", 0, 64, ""),
    SUM("logits_sha256", 0, "of all logits, as 32-bit floats, lowest byte first"),
    SUM("tokens_sha256", 0, "of the most likely token of each step, as four bytes, lowest first"),
};
static const field other_fields[] = {
    TEXT("name", 0, 64, "llama.cpp, bitnet.cpp, or who made the file of logits"),
    FLAG("recorded", 0, "its logits are from a file"),
    TEXT("version", 0, 64, "as its library reports it; empty: it does not"),
    TEXT("ggml_version", 0, 64, ""),
    TEXT("ggml_commit", 0, 64, ""),
    TEXT("layout", 0, 32, "the layout of its structs, by the version that introduced it"),
    SUM("library_sha256", FIELD_NULL, "of its library's file"),
    SUM("model_sha256", 0, "of the file that it read"),
    SUM("logits_sha256", 0, ""),
    SUM("tokens_sha256", 0, ""),
};
static const field engine_fields[] = {
    OBJECT("ours", FIELD_NULL, ours_fields, "null: our reader refuses the file"),
    OBJECT("other", FIELD_NULL, other_fields, "null: our engine ran alone"),
};
static const field prompt_fields[] = {
    WHOLE("n_ids", 0, "tokens of the prompt"),
    SUM("ids_sha256", 0, "of them, each as four bytes, lowest first"),
    WHOLE("n_tokens", 0, "tokens that both engines continued with: the most likely ones of the other engine"),
    SUM("tokens_sha256", 0, ""),
    { "ids", FIELD_IDS, FIELD_MAY, 1, 1048576, NULL, "the prompt itself: only if requested, or if it is "
      "built in", NULL, 0 },
    { "tokens", FIELD_IDS, FIELD_MAY, 0, 1048576, NULL, "likewise", NULL, 0 },
};
static const field validation_fields[] = {
    WORD("backend", 0, "qsf|cpp", "whose reader read the model; cpp: ours refuses it"),
    WORD("compute", 0, "qsf|cpp", "who computed what is validated"),
};
static const field top_fields[] = {
    WHOLE("id", 0, ""),
    NUMBER("logit", 0, -ENDLESS, ENDLESS, ""),
};
static const field divergence_fields[] = {
    WHOLE("prompt", 0, "from 0"),
    WHOLE("step", 0, "of this prompt, from 0"),
    FLAG("tie", 0, "both margins are within three standard deviations of the error of a difference of two "
         "logits"),
    NUMBER("margin_ours", 0, 0, ENDLESS, "our token's logit over the other token's, by our logits"),
    NUMBER("margin_other", 0, 0, ENDLESS, "the other token's over ours, by the other's logits"),
    LIST("ours", 0, 0, PARITY_TOP, top_fields, "the most likely tokens, best first"),
    LIST("other", 0, 0, PARITY_TOP, top_fields, ""),
};
static const field parity_fields[] = {
    FLAG("shown", 0, "two engines were compared; false: one ran alone, and nothing below applies"),
    FLAG("passed", FIELD_NULL, "all thresholds of the options are met"),
    NUMBER("cosine_similarity", FIELD_NULL, -1, 1, "of logits, the minimum over the rows that choose a "
           "token: after a prompt, and in each step"),
    NUMBER("cosine_mean", FIELD_NULL, -1, 1, "of all rows"),
    NUMBER("cosine_least", FIELD_NULL, -1, 1, "of all rows"),
    FLAG("cosine_ok", FIELD_NULL, "cosine_similarity is min_cosine or more"),
    NUMBER("max_difference", FIELD_NULL, 0, ENDLESS, "of two logits"),
    NUMBER("mean_difference", FIELD_NULL, 0, ENDLESS, "of the absolute values"),
    NUMBER("kl_mean", FIELD_NULL, 0, ENDLESS, "divergence of our distribution from the other's, in nats"),
    NUMBER("kl_max", FIELD_NULL, 0, ENDLESS, "the maximum over rows"),
    WHOLE("rows", 0, "logits compared, each of the whole vocabulary"),
    WHOLE("steps", 0, "tokens of all prompts"),
    WHOLE("matches", FIELD_NULL, "steps in which both have the same most likely token"),
    WHOLE("ties", FIELD_NULL, "of the others, those that are ties"),
    NUMBER("exact_match_rate", FIELD_NULL, 0, 1, "matches / steps; 1 of no steps"),
    WHOLE("first_divergence_step", FIELD_NULL, "null: none"),
    OBJECT("first_divergence", FIELD_NULL, divergence_fields, ""),
    WHOLE("targets", 0, "tokens of prompts that the perplexities are of"),
    NUMBER("perplexity_ours", FIELD_NULL, 0, ENDLESS, "null: no such tokens, or the engine did not run"),
    NUMBER("perplexity_other", FIELD_NULL, 0, ENDLESS, ""),
};
static const field refused_fields[] = {
    TEXT("status", 0, 32, "the library's status"),
    TEXT("text", 0, 512, "its text, without the file's path"),
};
static const field time_fields[] = {
    NUMBER("hash_ms", 0, 0, MOST, "sums of files"),
    NUMBER("load_ours_ms", 0, 0, MOST, ""),
    NUMBER("load_other_ms", 0, 0, MOST, ""),
    NUMBER("ours_ms", 0, 0, MOST, "all rows"),
    NUMBER("other_ms", 0, 0, MOST, ""),
};
static const field signature_fields[] = {
    WORD("algorithm", 0, "ed25519", ""),
    HEX("public_key", 64, ""),
    HEX("value", 128, "of the canonical form of all other members (docs/parity.md)"),
};
static const field receipt_fields[] = {
    WORD("schema", 0, "qsf-receipt-1", ""),
    TEXT("created", 0, 20, "UTC, 2026-11-23T22:12:30Z"),
    OBJECT("program", 0, program_fields, ""),
    OBJECT("machine", 0, machine_fields, ""),
    OBJECT("model", 0, model_fields, ""),
    OBJECT("options", 0, option_fields, ""),
    OBJECT("engines", 0, engine_fields, ""),
    FLAG("prompts_standard", 0, "the prompts are built in"),
    LIST("prompts", 0, 1, PROMPTS_MOST, prompt_fields, ""),
    OBJECT("validation", 0, validation_fields, ""),
    OBJECT("parity", 0, parity_fields, ""),
    OBJECT("refused", FIELD_NULL, refused_fields, "why our reader refuses the file; null: it does not"),
    OBJECT("times", 0, time_fields, ""),
    { "kernels_executed", FIELD_COUNTS, 0, 0, MOST, NULL, "products by kernel: matrices, once a batch", NULL,
      0 },
    { "kernel_ids", FIELD_TEXTS, 0, 0, 4096, NULL, "the kernels' names, sorted", NULL, 0 },
    WORD("backend_used", 0, "qsf|cpp", "as validation.backend"),
    WHOLE("bytes_read", 0, "of the model's file by our engine"),
    OBJECT("signature", FIELD_MAY, signature_fields, "if the receipt is signed"),
};
const field receipt_root = OBJECT("receipt", 0, receipt_fields, "");

/* ---- the schema ---- */

static yyjson_mut_val *schema_of(yyjson_mut_doc *d, const field *f);

static void schema_object(yyjson_mut_doc *d, yyjson_mut_val *o, const field *f)
{
    yyjson_mut_val *required = yyjson_mut_arr(d), *members = yyjson_mut_obj(d);
    for (size_t i = 0; i < f->n_members; i++) {
        const field *m = &f->members[i];
        if (!(m->flags & FIELD_MAY)) yyjson_mut_arr_add_str(d, required, m->name);
        yyjson_mut_obj_add_val(d, members, m->name, schema_of(d, m));
    }
    yyjson_mut_obj_add_val(d, o, "properties", members);
    yyjson_mut_obj_add_val(d, o, "required", required);
    yyjson_mut_obj_add_bool(d, o, "additionalProperties", false);
}

static void schema_items(yyjson_mut_doc *d, yyjson_mut_val *o, const field *f)
{
    yyjson_mut_val *items = yyjson_mut_obj(d);
    yyjson_mut_obj_add_str(d, items, "type", f->kind == FIELD_LIST ? "object" : f->kind == FIELD_IDS
                           ? "integer"
                                                                                             : "string");
    if (f->kind == FIELD_LIST) schema_object(d, items, f);
    if (f->kind == FIELD_IDS) yyjson_mut_obj_add_int(d, items, "minimum", 0);
    yyjson_mut_obj_add_val(d, o, "items", items);
    yyjson_mut_obj_add_int(d, o, "minItems", (int64_t)f->least);
    yyjson_mut_obj_add_int(d, o, "maxItems", (int64_t)f->most);
}

static void schema_words(yyjson_mut_doc *d, yyjson_mut_val *o, const field *f)
{
    yyjson_mut_val *words = yyjson_mut_arr(d);
    for (const char *p = f->words; *p;) {
        const size_t n = strcspn(p, "|");
        yyjson_mut_arr_add_strncpy(d, words, p, n);
        p += n + (p[n] == '|');
    }
    if (f->flags & FIELD_NULL) yyjson_mut_arr_add_null(d, words);
    yyjson_mut_obj_add_val(d, o, "enum", words);
}

static yyjson_mut_val *schema_of(yyjson_mut_doc *d, const field *f)
{
    static const char *const types[] = { "object", "string", "string", "string", "string", "boolean",
                                         "integer",
                                         "number", "array", "array", "array", "object", "object" };
    yyjson_mut_val *o = yyjson_mut_obj(d);
    char pattern[32];
    if (*f->help) yyjson_mut_obj_add_str(d, o, "description", f->help);
    if (f->flags & FIELD_NULL) {
        yyjson_mut_val *both = yyjson_mut_arr(d);
        yyjson_mut_arr_add_str(d, both, types[f->kind]);
        yyjson_mut_arr_add_str(d, both, "null");
        yyjson_mut_obj_add_val(d, o, "type", both);
    } else {
        yyjson_mut_obj_add_str(d, o, "type", types[f->kind]);
    }
    if (f->kind == FIELD_OBJECT) schema_object(d, o, f);
    else if (f->kind == FIELD_WORD) schema_words(d, o, f);
    else if (f->kind == FIELD_TEXT) yyjson_mut_obj_add_int(d, o, "maxLength", (int64_t)f->most);
    else if (f->kind == FIELD_SUM || f->kind == FIELD_HEX) {
        snprintf(pattern, sizeof pattern, "^[0-9a-f]{%d}$", (int)f->most);
        yyjson_mut_obj_add_strcpy(d, o, "pattern", pattern);
    } else if (f->kind == FIELD_WHOLE || f->kind == FIELD_COUNTS) {
        yyjson_mut_val *range = f->kind == FIELD_WHOLE ? o : yyjson_mut_obj(d);
        if (range != o) {
            yyjson_mut_obj_add_str(d, range, "type", "integer");
            yyjson_mut_obj_add_val(d, o, "additionalProperties", range);
        }
        yyjson_mut_obj_add_int(d, range, "minimum", 0);
        yyjson_mut_obj_add_int(d, range, "maximum", (int64_t)f->most);
    } else if (f->kind == FIELD_NAMED) {
        yyjson_mut_val *text = yyjson_mut_obj(d);
        yyjson_mut_obj_add_str(d, text, "type", "string");
        yyjson_mut_obj_add_int(d, text, "maxLength", (int64_t)f->most);
        yyjson_mut_obj_add_val(d, o, "additionalProperties", text);
    } else if (f->kind == FIELD_NUMBER) {
        if (f->least > -ENDLESS) yyjson_mut_obj_add_int(d, o, "minimum", (int64_t)f->least);
        if (f->most < ENDLESS) yyjson_mut_obj_add_int(d, o, "maximum", (int64_t)f->most);
    } else if (f->kind != FIELD_FLAG) schema_items(d, o, f);
    return o;
}

char *receipt_schema(size_t *len)
{
    char *text = NULL;
    yyjson_mut_doc *d = yyjson_mut_doc_new(NULL);
    if (!d) return NULL;
    yyjson_mut_val *o = yyjson_mut_obj(d);
    yyjson_mut_obj_add_str(d, o, "$schema", "https://json-schema.org/draft/2020-12/schema");
    yyjson_mut_obj_add_str(d, o, "title", "Receipt of qsf-parity, version 1");
    yyjson_mut_obj_add_str(d, o, "type", "object");
    schema_object(d, o, &receipt_root);
    yyjson_mut_doc_set_root(d, o);
    text = yyjson_mut_write(d, YYJSON_WRITE_PRETTY_TWO_SPACES | YYJSON_WRITE_NEWLINE_AT_END, len);
    yyjson_mut_doc_free(d);
    return text;
}
