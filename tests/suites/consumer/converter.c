/* A user of libqsf_convert that knows its header and nothing else: writes a tiny GGUF file,
 * converts it, and asks what became of it.  Little-endian machines, which write floats as GGUF has
 * them.
 * SPDX-License-Identifier: MIT */
#include <qsf_convert.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EMBD = 32, FF = 48, VOCAB = 300, LAYERS = 2, KEYS = 13, TENSORS = 2 + 9 * LAYERS };

static int failures;
#define CHECK(x) ((x) ? (void)0 : (void)(failures++, printf("line %d: not so: %s\n", __LINE__, #x)))

/* ---- a GGUF file: keys, descriptions of tensors, their floats ---- */

static void put(FILE *f, uint64_t v, size_t bytes) { fwrite(&v, bytes, 1, f); }

static void put_text(FILE *f, const char *s)
{
    put(f, strlen(s), 8);
    fwrite(s, strlen(s), 1, f);
}

static void put_number(FILE *f, const char *key, uint32_t v)
{
    put_text(f, key);
    put(f, 4, 4);
    put(f, v, 4);
}

static void put_word(FILE *f, const char *key, const char *v)
{
    put_text(f, key);
    put(f, 8, 4);
    put_text(f, v);
}

static void put_keys(FILE *f)
{
    const float eps = 1e-5f;
    char token[16];
    put_word(f, "general.architecture", "llama");
    put_word(f, "general.name", "Tiny");
    put_number(f, "llama.context_length", 64);
    put_number(f, "llama.embedding_length", EMBD);
    put_number(f, "llama.block_count", LAYERS);
    put_number(f, "llama.feed_forward_length", FF);
    put_number(f, "llama.attention.head_count", 2);
    put_text(f, "llama.attention.layer_norm_rms_epsilon");
    put(f, 6, 4);
    fwrite(&eps, sizeof eps, 1, f);
    put_word(f, "tokenizer.ggml.model", "gpt2");
    put_word(f, "tokenizer.ggml.pre", "llama-bpe");
    put_text(f, "tokenizer.ggml.tokens");
    put(f, 9, 4), put(f, 8, 4), put(f, VOCAB, 8);
    for (int i = 0; i < VOCAB; i++) {
        /* every letter, for a text file to measure with */
        if (i < 94) snprintf(token, sizeof token, "%c", 33 + i);
        else snprintf(token, sizeof token, "t%d", i);
        put_text(f, token);
    }
    put_text(f, "tokenizer.ggml.merges");
    put(f, 9, 4), put(f, 8, 4), put(f, 0, 8);
    put_number(f, "tokenizer.ggml.eos_token_id", 0);
}

/* One tensor's description, and where the next one's floats begin. */
static uint64_t put_tensor(FILE *f, const char *name, uint32_t cols, uint32_t rows, uint64_t at)
{
    put_text(f, name);
    put(f, rows ? 2 : 1, 4);
    put(f, cols, 8);
    if (rows) put(f, rows, 8);
    put(f, 0, 4), put(f, at, 8);
    return at + 4ull * cols * (rows ? rows : 1);
}

static uint64_t put_tensors(FILE *f)
{
    static const struct { const char *name; uint32_t cols, rows; } layer[9] = {
        { "attn_norm", EMBD, 0 }, { "attn_q", EMBD, EMBD }, { "attn_k", EMBD, EMBD },
        { "attn_v", EMBD, EMBD }, { "attn_output", EMBD, EMBD }, { "ffn_norm", EMBD, 0 },
        { "ffn_gate", EMBD, FF }, { "ffn_up", EMBD, FF }, { "ffn_down", FF, EMBD },
    };
    char name[64];
    uint64_t at = put_tensor(f, "token_embd.weight", EMBD, VOCAB, 0);
    for (int l = 0; l < LAYERS; l++)
        for (int i = 0; i < 9; i++) {
            snprintf(name, sizeof name, "blk.%d.%s.weight", l, layer[i].name);
            at = put_tensor(f, name, layer[i].cols, layer[i].rows, at);
        }
    return put_tensor(f, "output_norm.weight", EMBD, 0, at);
}

static void write_gguf(const char *path)
{
    FILE *f = fopen(path, "wb");
    uint32_t random = 1;
    if (!f) exit(1);
    fwrite("GGUF", 4, 1, f);
    put(f, 3, 4), put(f, TENSORS, 8), put(f, KEYS, 8);
    put_keys(f);
    const uint64_t bytes = put_tensors(f);
    while (ftell(f) % 32) fputc(0, f);
    for (uint64_t i = 0; i < bytes / 4; i++) {
        random = random * 1664525u + 1013904223u;
        const float v = (float)((int32_t)random >> 8) / (1 << 24);
        fwrite(&v, sizeof v, 1, f);
    }
    fclose(f);
}

/* ---- what a user does ---- */

typedef struct heard { int progress, warned; bool stop; size_t text; } heard;

static void on_progress(void *user, const char *stage, const char *name, uint64_t done, uint64_t total)
{
    ((heard *)user)->progress++;
    CHECK(*stage && name && done <= total);
}

static bool on_cancelled(void *user) { return ((heard *)user)->stop; }

static void on_log(void *user, qsf_log_level level, const char *line)
{
    ((heard *)user)->warned += level == QSF_LOG_WARN;
    printf("%s\n", line);
}

static qsf_status on_text(void *user, const void *bytes, size_t len)
{
    const char *text = bytes;
    ((heard *)user)->text += len;
    return text && len < (1 << 20) ? QSF_OK : QSF_E_IO;
}

static qsf_status no_text(void *user, const void *bytes, size_t len)
{
    (void)user, (void)bytes, (void)len;
    return QSF_E_FULL;
}

static void check_result(const qsf_convert_result *r)
{
    qsf_convert_summary s = { .size = sizeof s };
    qsf_convert_tensor t = { .size = sizeof t };
    qsf_convert_get_summary(r, &s);
    CHECK(!strcmp(s.arch, "llama") && s.n_tensors == TENSORS && s.file_bytes > s.tensor_bytes);
    CHECK(s.cosine > 0.99 && s.relative_error > 0 && s.relative_error < 0.01);
    CHECK(!qsf_convert_get_tensor(r, 0, &t) && !strcmp(t.kind, "token_embd") && t.rows == VOCAB && t.matrix);
    CHECK(t.type[0] && t.bytes > 0 && t.cosine > 0.99);
    CHECK(qsf_convert_get_tensor(r, TENSORS, &t) == QSF_E_ARGUMENT);
    /* of an older header */
    t = (qsf_convert_tensor){ .size = offsetof(qsf_convert_tensor, type), .cols = 7 };
    CHECK(!qsf_convert_get_tensor(r, 1, &t) && t.name && t.kind && !t.type && t.cols == 7);
}

static void check_file(heard *h)
{
    qsf_convert_check c = { .size = sizeof c };
    qsf_error err;
    CHECK(!qsf_convert_verify("tiny.qsf", NULL, &c, &err) && !strcmp(c.format, "QSF"));
    CHECK(c.n_units == LAYERS + 2 && c.n_checksums == c.n_units);
    CHECK(!qsf_convert_describe("tiny.qsf", NULL, on_text, h, &err) && h->text > 500);
    CHECK(qsf_convert_describe("tiny.qsf", NULL, no_text, NULL, &err) == QSF_E_FULL);
    CHECK(qsf_convert_verify("nothing.qsf", NULL, NULL, &err) == QSF_E_NOT_FOUND && err.text[0]);
}

/* Each is refused, and the file that is there stays. */
static void check_refusals(const qsf_convert_options *good)
{
    static const qsf_convert_rule unknown = { "*", "7bit", 0 }, unused = { "nothing", "8bit", 0 };
    qsf_convert_options o[8];
    qsf_convert_result *r;
    qsf_error err;
    for (int i = 0; i < 8; i++) o[i] = *good;
    o[0].size = 0;
    o[1].block = 48;
    o[2].preset = (qsf_convert_preset)99;
    o[3].n_threads = 1000;
    o[4].rules = &unknown, o[4].n_rules = 1;
    o[5].rules = &unused, o[5].n_rules = 1;
    o[6].report = "tiny.gguf";
    o[7].packing = 2;
    for (int i = 0; i < 8; i++) {
        CHECK(qsf_convert_run("tiny.gguf", "tiny.qsf", &o[i], &r, &err) == QSF_E_ARGUMENT && !r
              && err.text[0]);
    }
    CHECK(qsf_convert_run("tiny.gguf", "tiny.gguf", good, NULL, &err) == QSF_E_ARGUMENT);
    CHECK(qsf_convert_run("nothing.gguf", "tiny.qsf", good, NULL, &err) == QSF_E_NOT_FOUND);
    CHECK(qsf_convert_run(NULL, "tiny.qsf", good, NULL, NULL) == QSF_E_ARGUMENT);
}

static void check_calibration(qsf_convert_options o)
{
    qsf_convert_summary s = { .size = sizeof s };
    qsf_convert_result *r = NULL;
    qsf_error err = { 0 };
    FILE *f = fopen("tiny.txt", "wb");
    for (int i = 0; f && i < 100; i++) fprintf(f, "t%d", i);
    if (f) fclose(f);
    o.calibration = "tiny.txt";
    o.keep_weights = true;
    const qsf_status st = qsf_convert_run("tiny.qsf", "measured.qsf", &o, &r, &err);
    CHECK(!st);
    if (st) printf("%s\n", err.text);
    else qsf_convert_get_summary(r, &s);
    CHECK(s.n_tensors == 0 && s.file_bytes > 0);
    qsf_convert_result_free(r);
    /* no QSF file: converted, then measured */
    CHECK(!qsf_convert_run("tiny.gguf", "measured.qsf", &o, &r, NULL));
    if (r) qsf_convert_get_summary(r, &s);
    CHECK(s.n_tensors == TENSORS);
    qsf_convert_result_free(r);
    o.calibration = "tiny.gguf";
    CHECK(qsf_convert_run("tiny.gguf", "tiny.gguf", &o, NULL, &err) == QSF_E_ARGUMENT);
}

int main(void)
{
    heard h = { 0 };
    qsf_convert_options o;
    qsf_convert_result *r = NULL;
    qsf_error err = { 0 };
    write_gguf("tiny.gguf");
    qsf_convert_defaults(&o);
    CHECK(o.size == sizeof o && qsf_convert_preset_find("mixed", &o.preset) && o.preset == QSF_CONVERT_MIXED);
    o.user = &h;
    o.progress = on_progress;
    o.cancelled = on_cancelled;
    o.log = on_log;
    CHECK(!qsf_convert_run("tiny.gguf", "tiny.qsf", &o, &r, &err));
    if (r) check_result(r);
    else printf("%s\n", err.text);
    qsf_convert_result_free(r);
    CHECK(h.progress > TENSORS && h.warned == 0);
    check_refusals(&o);
    h.stop = true;
    CHECK(qsf_convert_run("tiny.gguf", "tiny.qsf", &o, NULL, &err) == QSF_E_CANCELLED);
    h.stop = false;
    check_file(&h);
    check_calibration(o);
    remove("tiny.gguf"), remove("tiny.qsf"), remove("tiny.txt"), remove("measured.qsf");
    if (failures) printf("%d failed\n", failures);
    else printf("ok\n");
    return failures > 0;
}
