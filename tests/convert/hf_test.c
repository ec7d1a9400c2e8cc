/* The Hugging Face reader against directories that tests/tools/make_hf_tiny.py makes: every
 * architecture, both weight formats, both kinds of tokenizer, and damaged or hostile ones.
 * SPDX-License-Identifier: MIT
 *
 * QSF_HF_TINY names a directory that the script has filled already; else the test runs the script
 * (Python 3) itself. */
#if !defined(_WIN32) && !defined(_POSIX_C_SOURCE)
#  define _POSIX_C_SOURCE 200809L
#endif
#include "read/hf.h"
#include "read/hf_tokenizer.h"
#include "read/hf_type_find.h"
#include "mem_platform.h"
#include "test.h"

#ifdef _WIN32
#  include <process.h>
#  define getpid _getpid
#  define PYTHON "python"
#else
#  include <sys/stat.h>
#  include <unistd.h>
#  define PYTHON "python3"
#endif

static char hf_dir[512];        /* "" where the script could not run */
#ifdef QSF_HAVE_YYJSON
#  define NO_DIRECTORY SKIP("tests/tools/make_hf_tiny.py did not run")
#else
#  define NO_DIRECTORY LEFT_OUT("yyjson")
#endif
static char hf_script[512];

/* ---- reading the expected values ---- */

static char *read_file(const char *path, size_t *len)
{
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    fseek(f, 0, SEEK_END);
    *len = (size_t)ftell(f);
    rewind(f);
    char *s = malloc(*len + 1);
    if (!s) abort();
    *len = fread(s, 1, *len, f);
    s[*len] = 0;
    fclose(f);
    return s;
}

static size_t unhex(const char *hex, char *out)
{
    size_t n = 0;
    unsigned v;
    for (; sscanf(hex + 2 * n, "%2x", &v) == 1; n++) out[n] = (char)v;
    return n;
}

static bool number_of(const qsf_hparams *hp, const char *key, double *out)
{
    const struct { const char *key; double v; } all[] = {
        { "n_layers", hp->n_layers }, { "n_embd", hp->n_embd }, { "n_heads", hp->n_heads },
        { "n_kv_heads", hp->n_kv_heads }, { "head_dim", hp->head_dim }, { "n_ff", hp->n_ff },
        { "n_vocab", hp->n_vocab }, { "n_ctx_train", hp->n_ctx_train }, { "norm", hp->norm },
        { "act", hp->act }, { "rope", hp->rope }, { "gated", hp->gated },
        { "learned_pos", hp->learned_pos }, { "tied", hp->tied }, { "norm_eps", hp->norm_eps },
        { "embd_scale", hp->embd_scale }, { "attn_scale", hp->attn_scale },
        { "attn_softcap", hp->attn_softcap }, { "final_softcap", hp->final_softcap },
        { "window", hp->window }, { "window_pattern", hp->window_pattern },
        { "rope_dim", hp->rope_dim }, { "rope_base", hp->rope_base },
        { "rope_base_local", hp->rope_base_local }, { "scaling", hp->scaling },
        { "scaling_factor", hp->scaling_factor }, { "scaling_orig_ctx", hp->scaling_orig_ctx },
        { "yarn_ext_factor", hp->yarn_ext_factor }, { "yarn_attn_factor", hp->yarn_attn_factor },
        { "yarn_beta_fast", hp->yarn_beta_fast }, { "yarn_beta_slow", hp->yarn_beta_slow },
        { "rope_attn_factor", hp->rope_attn_factor },
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (!strcmp(key, all[i].key)) return *out = all[i].v, true;
    return false;
}

static bool special_of(const qsf_vocab *v, const char *key, int *out)
{
    const struct { const char *key; int v; } all[] = {
        { "bos", v->bos }, { "eos", v->eos }, { "eot", v->eot }, { "unk", v->unk }, { "pad", v->pad },
        { "add_bos", v->add_bos }, { "add_eos", v->add_eos },
        { "add_space_prefix", v->add_space_prefix }, { "nfc", v->nfc },
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (!strcmp(key, all[i].key)) return *out = all[i].v, true;
    return false;
}

/* ---- comparing ---- */

static void check_hp(const qsf_hparams *hp, const char *key, const char *value)
{
    double v = 0;
    if (!strcmp(key, "arch")) {
        CHECK_STR(hp->arch, value);
        return;
    }
    CHECK(number_of(hp, key, &v));
    if (!(fabs(v - strtod(value, NULL)) <= 1e-6 * fabs(v))) printf("      %s:\n", key);
    CHECK_NEAR(v, strtod(value, NULL), 1e-6 * fabs(v));
}

static void check_factors(const float *got, const char *list)
{
    char *end;
    size_t n = 0;
    for (double v; v = strtod(list, &end), end != list; list = end, n++) {
        CHECK(got != NULL);
        if (got) CHECK_NEAR(got[n], v, 1e-5 * v);
    }
    CHECK(n || !got);
}

static void check_token(const qsf_vocab *v, unsigned id, int type, const char *hex)
{
    char text[256];
    const size_t n = unhex(hex, text);
    if (id >= v->n_tokens) {
        CHECK(id < v->n_tokens);
        return;
    }
    CHECK_EQ(v->types[id], type);
    CHECK_EQ(v->at[id + 1] - v->at[id], n);
    CHECK(v->at[id + 1] - v->at[id] == n && !memcmp(v->text + v->at[id], text, n));
}

static void check_ends(const qsf_vocab *v, const char *list)
{
    char *end;
    uint32_t n = 0;
    for (long id; id = strtol(list, &end, 10), end != list; list = end, n++)
        CHECK(n < v->n_eog && v->eog[n] == id);
    CHECK_EQ(v->n_eog, n);
}

/* All rows at once, then in pieces that do not divide them. */
static void check_values(input *in, uint32_t i, const float *want)
{
    const input_tensor *t = &in->tensors[i];
    const size_t n = (size_t)t->rows * t->cols;
    float *got = malloc(n * sizeof *got + sizeof *got);
    qsf_error err = { 0 };
    if (!got) abort();
    got[n] = 12345;
    CHECK_EQ(in->read(in, i, 0, t->rows, got, &err), QSF_OK);
    CHECK(!memcmp(got, want, n * sizeof *got));
    CHECK(got[n] == 12345);
    memset(got, 0, n * sizeof *got);
    for (uint32_t row = 0; row < t->rows; row += 3) {
        const uint32_t k = t->rows - row < 3 ? t->rows - row : 3;
        CHECK_EQ(in->read(in, i, row, k, got + (size_t)row * t->cols, &err), QSF_OK);
    }
    CHECK(!memcmp(got, want, n * sizeof *got));
    CHECK_EQ(in->read(in, i, t->rows, 1, got, &err), QSF_E_ARGUMENT);
    free(got);
}

static const float *check_tensor(input *in, uint32_t i, const char *line, const float *values)
{
    unsigned unit, kind, rows, cols;
    int at = 0;
    if (i >= in->n_tensors || sscanf(line, "%u %u %u %u %n", &unit, &kind, &rows, &cols, &at) != 4) {
        CHECK(i < in->n_tensors);
        return values;
    }
    const input_tensor *t = &in->tensors[i];
    CHECK_STR(t->name, line + at);
    CHECK_EQ(t->unit, unit);
    CHECK_EQ(t->kind, kind);
    CHECK_EQ(t->rows, rows);
    CHECK_EQ(t->cols, cols);
    const uint32_t bits = t->source_type == QSF_T_F32 ? 32 : t->source_type == QSF_T_TERNARY2 ? 2 : 16;
    const uint64_t values_bits = (uint64_t)rows * cols * (t->source_type == QSF_T_MXFP4 ? 34 : 8 * bits);
    CHECK_EQ(t->stored_bytes, values_bits / 64);
    check_values(in, i, values);
    return values + (size_t)rows * cols;
}

static void check_line(input *in, char *line, uint32_t *n_tensors, const float **values)
{
    const qsf_vocab *v = &in->vocab;
    char a[256] = "", b[256] = "";
    unsigned id, x, y;
    int type, number = 0, at = 0;
    float score;
    if (sscanf(line, "hp %255s %255s", a, b) == 2) check_hp(&in->hp, a, b);
    else if (!strncmp(line, "factors_long", 12)) check_factors(in->hp.rope_factors_long, line + 12);
    else if (!strncmp(line, "factors", 7)) check_factors(in->hp.rope_factors, line + 7);
    else if (sscanf(line, "kind %u", &id) == 1) CHECK_EQ(v->kind, id);
    else if (sscanf(line, "pre %255s", a) == 1) CHECK_STR(v->pre, a);
    else if (sscanf(line, "special %255s %d", a, &type) == 2) {
        CHECK(special_of(v, a, &number));
        if (number != type) printf("      %s:\n", a);
        CHECK_EQ(number, type);
    } else if (!strncmp(line, "eog", 3)) check_ends(v, line + 3);
    else if (sscanf(line, "template %255s", a) == 1) {
        if (!strcmp(a, "none")) CHECK(v->chat_template == NULL);
        else {
            b[strcmp(a, "-") ? unhex(a, b) : 0] = 0;
            CHECK_STR(v->chat_template, b);
        }
    } else if (sscanf(line, "more %u %255s %255s", &id, a, b) == 3) {
        char text[256];
        text[unhex(b, text)] = 0;
        CHECK(id < v->n_more);
        if (id < v->n_more) CHECK_STR(v->more[id].name, a);
        if (id < v->n_more) CHECK_STR(v->more[id].text, text);
    } else if (sscanf(line, "token %u %d %255s", &id, &type, a) == 3) check_token(v, id, type, a);
    else if (sscanf(line, "score %u %f", &id, &score) == 2) CHECK(v->scores && v->scores[id] == score);
    else if (sscanf(line, "merge %u %u %u", &id, &x, &y) == 3)
        CHECK(id < v->n_merges && v->merges[2 * id] == x && v->merges[2 * id + 1] == y);
    else if (sscanf(line, "tensor %n%u", &at, &x) == 1)
        *values = check_tensor(in, (*n_tensors)++, line + at, *values);
    else CHECK(!"a line of expect.txt that is not understood");
}

static void check_good(const char *name)
{
    char path[1024];
    size_t len, bytes;
    uint32_t n = 0;
    qsf_error err = { 0 };
    input *in;
    snprintf(path, sizeof path, "%s/%s", hf_dir, name);
    const qsf_status st = qsf_input_open_hf(qsf_platform_native(), path, false, &in, &err);
    if (st) printf("      %s: %s\n", name, err.text);
    CHECK_EQ(st, QSF_OK);
    if (st) return;
    snprintf(path, sizeof path, "%s/%s/expect.txt", hf_dir, name);
    char *text = read_file(path, &len);
    snprintf(path, sizeof path, "%s/%s/expect.f32", hf_dir, name);
    char *raw = read_file(path, &bytes);
    const float *values = (const float *)(void *)raw;       /* malloc aligns it */
    const bool failed_before = test_failed;
    test_failed = false;
    CHECK(text && raw);
    for (char *line = text ? strtok(text, "\n") : NULL; line && raw; line = strtok(NULL, "\n"))
        check_line(in, line, &n, &values);
    CHECK_EQ(in->n_tensors, n);
    CHECK(!raw || (const char *)values == raw + bytes);
    if (test_failed) printf("      in %s\n", name);
    test_failed |= failed_before;
    free(text);
    free(raw);
    in->close(in);
}

/* The words must stand in the message itself, not in the directory's name. */
static void check_bad(const char *name, const char *status, const char *words)
{
    char path[1024], message[sizeof((qsf_error *)0)->text];
    qsf_error err = { 0 };
    input *in;
    snprintf(path, sizeof path, "%s/%s", hf_dir, name);
    const qsf_status st = qsf_input_open_hf(qsf_platform_native(), path, false, &in, &err);
    memcpy(message, err.text, sizeof message);
    char *own = strstr(message, path);
    if (own) memset(own, ' ', strlen(path));
    if (strcmp(qsf_status_name(st), status) || !strstr(message, words)) {
        printf("      %s: %s \"%s\", expected %s \"%s\"\n", name, qsf_status_name(st), err.text,
               status, words);
        CHECK(!"the error of a bad directory");
    }
    if (!st) in->close(in);
    else CHECK(in == NULL);
}

/* ---- running the cases ---- */

static void run_cases(bool good)
{
    char path[1024], line[1024], name[128], status[64];
    if (!hf_dir[0]) NO_DIRECTORY;
    snprintf(path, sizeof path, "%s/index.txt", hf_dir);
    FILE *f = fopen(path, "r");
    CHECK(f != NULL);
    int n = 0, at;
    while (f && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\r\n")] = 0;
        if (sscanf(line, "good %127s", name) == 1) {
            if (good) check_good(name), n++;
        } else if (sscanf(line, "bad %127s %63s %n", name, status, &at) == 2) {
            if (!good) check_bad(name, status, line + at), n++;
        }
    }
    if (f) fclose(f);
    CHECK(n >= 15);
    printf("  %d directories\n", n);
}

TEST(hf_reads_every_architecture) { run_cases(true); }
TEST(hf_refuses_bad_directories) { run_cases(false); }

/* Every length of the small files is an error or, at a JSON file's end, whitespace: never a crash.
 * The reader sees the cut file through a platform whose files end early. */
static struct { const char *suffix; uint64_t cut; } cut_file;
static qsf_platform cut_platform;
static qsf_file *cut_target;

static qsf_status cut_open(void *user, const char *path, qsf_file **out)
{
    const qsf_platform *p = qsf_platform_native();
    (void)user;
    const qsf_status st = p->open(p->user, path, out);
    const size_t n = strlen(path), k = strlen(cut_file.suffix);
    if (!st && n >= k && !strcmp(path + n - k, cut_file.suffix)) cut_target = *out;
    return st;
}
static qsf_status cut_length(void *user, qsf_file *f, uint64_t *out)
{
    const qsf_platform *p = qsf_platform_native();
    (void)user;
    const qsf_status st = p->length(p->user, f, out);
    if (f == cut_target && *out > cut_file.cut) *out = cut_file.cut;
    return st;
}
static void cut_close(void *user, qsf_file *f)
{
    const qsf_platform *p = qsf_platform_native();
    (void)user;
    if (f == cut_target) cut_target = NULL;
    p->close(p->user, f);
}

static void check_cuts(const char *name, const char *file, uint64_t step)
{
#ifdef _WIN32
    enum { RARER = 8 };             /* Wine opens files slowly, and nothing here depends on the system */
#else
    enum { RARER = 1 };
#endif
    char path[1024];
    size_t len = 0;
    unsigned opened = 0;
    snprintf(path, sizeof path, "%s/%s%s", hf_dir, name, file);
    free(read_file(path, &len));
    snprintf(path, sizeof path, "%s/%s", hf_dir, name);
    cut_file.suffix = file;
    for (uint64_t cut = 0; cut < len; cut += step * RARER) {
        qsf_error err = { 0 };
        input *in;
        cut_file.cut = cut;
        if (!qsf_input_open_hf(&cut_platform, path, false, &in, &err)) opened++, in->close(in);
        else CHECK(err.text[0] != 0);
    }
    CHECK(len > 0);
    CHECK_EQ(opened, 0);
}

TEST(hf_survives_every_truncation)
{
    if (!hf_dir[0]) NO_DIRECTORY;
    cut_platform = *qsf_platform_native();
    cut_platform.user = NULL;
    cut_platform.open = cut_open;
    cut_platform.length = cut_length;
    cut_platform.close = cut_close;
    check_cuts("llama", "/config.json", 3);
    check_cuts("llama", "/tokenizer.json", 41);
    check_cuts("llama", "/model.safetensors", 211);
    check_cuts("llama-pickle", "/pytorch_model.bin", 211);
}

/* Call number n of the platform fails (an allocation, an open, a read), for every n until none is
 * left: an error each time, and everything is given back. */
static void load_directory(mem_host *h, const char *name)
{
    static const char *const files[MEM_FILES] = { "config.json", "generation_config.json", "tokenizer.json",
                                                  "tokenizer.model", "tokenizer_config.json",
                                                  "chat_template.jinja", "modules.json", "model.safetensors",
                                                  "pytorch_model.bin", "1_Pooling/config.json",
                                                  "2_Dense/config.json", "2_Dense/model.safetensors",
                                                  "3_Dense/config.json", "3_Dense/model.safetensors" };
    char path[1024], inside[64];
    size_t len;
    for (size_t i = 0; i < MEM_FILES; i++) {
        snprintf(path, sizeof path, "%s/%s/%s", hf_dir, name, files[i]);
        char *bytes = read_file(path, &len);
        snprintf(inside, sizeof inside, "d/%s", files[i]);
        if (bytes) mem_put(h, inside, bytes, len);
        free(bytes);
    }
}

static qsf_status open_and_read(const mem_host *h, qsf_error *err)
{
    input *in;
    float row[64];
    qsf_status st = qsf_input_open_hf(&h->p, "d", true, &in, err);
    for (uint32_t i = 0; !st && i < in->n_tensors; i++)
        if (in->tensors[i].cols <= 64) st = in->read(in, i, in->tensors[i].rows - 1, 1, row, err);
    if (in) in->close(in);
    return st;
}

static void check_failures(const char *name)
{
    static mem_host h;
    mem_host_init(&h);
    load_directory(&h, name);
    long n = 1;
    for (;; n++) {
        qsf_error err = { 0 };
        h.calls = 0;
        h.fail_at = n;
        const qsf_status st = open_and_read(&h, &err);
        if (st && st != QSF_E_MEMORY && st != QSF_E_IO)
            printf("      %s: %s at call %ld: %s\n", name, qsf_status_name(st), n, err.text);
        CHECK(!st || st == QSF_E_MEMORY || st == QSF_E_IO);
        CHECK(!st || err.text[0]);
        CHECK_EQ(h.live, 0);
        if (!st || n > 100000) break;
    }
    CHECK(n > 50);
    CHECK(h.calls < n);
    mem_host_done(&h);
}

TEST(hf_reports_every_failed_call)
{
    if (!hf_dir[0]) NO_DIRECTORY;
    check_failures("llama");
    check_failures("llama-pickle");
    check_failures("mistral");
    check_failures("phi3");
    check_failures("gpt2");
    check_failures("gemma3-embedding");
}

static bool make_directories(void)
{
    char cmd[1200];
    const char *given = getenv("QSF_HF_TINY"), *script = getenv("QSF_HF_TINY_SCRIPT");
    const char *tmp = getenv("TMPDIR");
    if (given) return snprintf(hf_dir, sizeof hf_dir, "%s", given), false;
    snprintf(hf_script, sizeof hf_script, "%s", script ? script : "tests/tools/make_hf_tiny.py");
    snprintf(hf_dir, sizeof hf_dir, "%s/qsf_hf_tiny_%d", tmp && *tmp ? tmp : "/tmp", (int)getpid());
    snprintf(cmd, sizeof cmd, PYTHON " \"%s\" \"%s\"", hf_script, hf_dir);
    if (!system(cmd)) return true;
    hf_dir[0] = 0;
    return false;
}

#ifdef QSF_HAVE_YYJSON
#define ISOLATED(regex) \
    "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"" regex "\"},\"behavior\":\"Isolated\",\"invert\":false},"
#define BYTES "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":false}"
#define BYTE_LEVEL "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true}"
#define STEPS(list) "{\"type\":\"Sequence\",\"pretokenizers\":[" list "]}"
#define UPPER "[\\\\p{Lu}\\\\p{Lt}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]"
#define LOWER "[\\\\p{Ll}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]"
#define FIRST "[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?"
#define SHORT "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define TAIL(slash) \
    "| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n" slash "]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+"

/* As the models' own files have them, line ends both escaped and not. */
/* A row of the table of model types names an architecture,
 * and the names of its tensors are of that one. */
TEST(hf_types_fit_their_architectures)
{
    for (const hf_type *t = qsf_hf_types; t->type; t++) {
        const qsf_arch *a = qsf_arch_find(t->arch);
        CHECK(qsf_hf_type_find(t->type, NULL) == t);
        CHECK(qsf_hf_type_find(NULL, t->class_name) == t);
        CHECK_STR(a ? a->name : "(no such architecture)", t->arch);
        if (!a) continue;
        uint8_t mixers[2] = { QSF_MIXER_ATTENTION, a->mixer };
        const qsf_hparams hp = { .n_layers = 2, .mixers = mixers, .n_embd = 8,
                                 .n_heads = 2, .n_kv_heads = 1, .head_dim = 4, .n_ff = 16,
                                 .n_vocab = 32, .n_ctx_train = 64, .gated = a->gated,
                                 .learned_pos = a->learned_pos, .flow = a->flow,
                                 .n_experts = t->experts ? 4 : 0,
                                 .experts_beside = t->experts && a->later_gemma,
                                 .n_used = 2, .n_ff_expert = 6, .n_ff_shared = 10, .mix_conv = 3,
                                 .mix_inner = 12, .mix_state = 6, .mix_heads = 2, .mix_groups = 1,
                                 .mix_neighbours = a->has & QSF_HAS_NEIGHBOURS ? 1 : 0,
                                 .n_classes = t->classes ? 3 : 0,
                                 .n_embd_layer = a->later_gemma ? 4 : 0 };
        const qsf_layer layers[2] = { qsf_layer_of(&hp, 0), qsf_layer_of(&hp, 1) };
        for (size_t i = 0; i < 2 * QSF_N_ROLES; i++) {
            const qsf_role *role = &qsf_roles[i / 2];
            const qsf_layer *layer = &layers[i % 2];
            const bool need = qsf_arch_needs(a, &hp, layer, role);
            const bool may = qsf_kinds_have(t->need | t->biases, role->kind);
            const hf_named named = qsf_hf_type_name(t, &hp, layer, role);
            if (need || may) CHECK(named.name != NULL);
            const uint64_t own = qsf_role_outputs(&hp, layer, role);
            CHECK(named.first + own <= named.all);
            CHECK(!own || !named.part == (named.all == own));       /* 0: the other mixer's */
        }
        for (const hf_alias *n = t->names; n && n->name; n++) {
            const qsf_role *role = qsf_role_of(n->kind);
            const bool loose = a->both_ways || role->when == QSF_WHEN_MAY_STATE ||
                               role->when == QSF_WHEN_MAY_EXPERTS || qsf_kinds_have(a->may, n->kind);
            CHECK((loose ? qsf_arch_takes : qsf_arch_needs)(a, &hp, &layers[0], role) ||
                  (loose ? qsf_arch_takes : qsf_arch_needs)(a, &hp, &layers[1], role));
        }
    }
}

TEST(hf_names_every_pretokenizer)
{
    static const struct { const char *name, *json; bool ignore_merges; } known[] = {
        { "gpt-2", BYTE_LEVEL, false },
        { "smollm", STEPS("{\"type\":\"Digits\",\"individual_digits\":true}," BYTE_LEVEL), false },
        { "falcon",
          STEPS("{\"type\":\"Punctuation\",\"behavior\":\"Contiguous\"}," BYTE_LEVEL ","
                "{\"type\":\"Digits\",\"individual_digits\":false},"
                "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"[0-9][0-9][0-9]\"},"
                "\"behavior\":\"Isolated\",\"invert\":false}"), false },
        { "llama-bpe", STEPS(ISOLATED(SHORT "|" FIRST "\\\\p{L}+|\\\\p{N}{1,3}" TAIL("")) BYTES), true },
        { "dbrx", STEPS(ISOLATED(SHORT "|" FIRST "\\\\p{L}+|\\\\p{N}{1,3}" TAIL("")) BYTES), false },
        { "qwen2", STEPS(ISOLATED(SHORT "|" FIRST "\\\\p{L}+|\\\\p{N}" TAIL("")) BYTES), false },
        { "tekken",
          STEPS(ISOLATED(FIRST UPPER "*" LOWER "+|" FIRST UPPER "+" LOWER "*|\\\\p{N}" TAIL("/")) BYTES),
          true },
        { "gpt-4o",
          STEPS(ISOLATED(FIRST UPPER "*" LOWER "+" SHORT "?|" FIRST UPPER "+" LOWER "*" SHORT
                         "?|\\\\p{N}{1,3}" TAIL("/")) BYTES), false },
        { "deepseek-coder",
          STEPS(ISOLATED("[\\r\\n]") ISOLATED("\\\\s?\\\\p{L}+") ISOLATED("\\\\s?\\\\p{P}+")
                ISOLATED("[\\u4e00-\\u9fa5\\u0800-\\u4e00\\uac00-\\ud7ff]+")
                "{\"type\":\"Digits\",\"individual_digits\":true}," BYTES), false },
        { "deepseek-llm",
          STEPS(ISOLATED("[\\r\\n]") ISOLATED("\\\\s?[A-Za-z\\u00b5]+")
                ISOLATED("\\\\s?[!-/:-~\\uff01]+") ISOLATED("\\\\s+$")
                ISOLATED("[\\u4e00-\\u9fa5\\u0800-\\u4e00\\uac00-\\ud7ff]+")
                "{\"type\":\"Digits\",\"individual_digits\":true}," BYTES), false },
        { "deepseek-v3",
          STEPS(ISOLATED("\\\\p{N}{1,3}")
                ISOLATED("[\\u4e00-\\u9fa5\\u3040-\\u309f\\u30a0-\\u30ff]+")
                ISOLATED("[!\\\"#$%&'()*+,\\\\-./:;<=>?@\\\\[\\\\\\\\\\\\]^_`{|}~][A-Za-z]+"
                         "|[^\\r\\n\\\\p{L}\\\\p{P}\\\\p{S}]?[\\\\p{L}\\\\p{M}]+"
                         "| ?[\\\\p{P}\\\\p{S}]+[\\r\\n]*|\\\\s*[\\r\\n]+|\\\\s+(?!\\\\S)|\\\\s+") BYTES),
          false },
    };
    const qsf_platform *p = qsf_platform_native();
    for (size_t i = 0; i < QSF_ARRAY_LEN(known); i++) {
        char name[32] = "";
        json_text j;
        qsf_error err = { 0 };
        CHECK_EQ(qsf_json_parse(p, known[i].json, strlen(known[i].json), known[i].name, &j, &err), QSF_OK);
        CHECK_EQ(qsf_hf_pretokenizer(p, j.root, known[i].ignore_merges, name, &err), QSF_OK);
        CHECK_STR(name, known[i].name);
        if (strcmp(name, known[i].name)) printf("      %s\n", err.text);
        qsf_json_free(&j);
    }
}
#endif

/* Without a JSON reader there is one honest answer. */
TEST(hf_is_refused_without_json)
{
    qsf_error err = { 0 };
    input *in;
    CHECK_EQ(qsf_input_open_hf(qsf_platform_native(), "/nowhere", false, &in, &err), QSF_E_NOT_FOUND);
    CHECK(in == NULL);
#if !defined(QSF_HAVE_YYJSON) && !defined(_WIN32)
    char dir[64], config[96];
    snprintf(dir, sizeof dir, "/tmp/qsf-hf-%ld", (long)getpid());
    CHECK_EQ(mkdir(dir, 0700), 0);
    snprintf(config, sizeof config, "%s/config.json", dir);
    FILE *f = fopen(config, "w");
    if (f) fclose(f);
    CHECK_EQ(qsf_input_open_hf(qsf_platform_native(), dir, false, &in, &err), QSF_E_UNSUPPORTED);
    CHECK(strstr(err.text, "yyjson") != NULL);
    CHECK(in == NULL);
    remove(config);
    rmdir(dir);
#endif
}

int main(int argc, char **argv)
{
    char cmd[1200];
    test_begin(argc, argv);
    RUN(hf_is_refused_without_json);
#ifdef QSF_HAVE_YYJSON
    const bool made = make_directories();
    RUN(hf_types_fit_their_architectures);
    RUN(hf_names_every_pretokenizer);
#else
    const bool made = false;
    (void)make_directories;
#endif
    RUN(hf_reads_every_architecture);
    RUN(hf_refuses_bad_directories);
    RUN(hf_survives_every_truncation);
    RUN(hf_reports_every_failed_call);
    snprintf(cmd, sizeof cmd, PYTHON " \"%s\" --remove \"%s\"", hf_script, hf_dir);
    if (made && system(cmd)) printf("  %s was left behind\n", hf_dir);
    return test_end();
}
