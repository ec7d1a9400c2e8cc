/* The short interface, and models from the caller's own files.
 * SPDX-License-Identifier: MIT */
#define tiny_vocab gguf_tiny_vocab      /* both builders have one */
#include "gguf_build.h"
#undef tiny_vocab
#include "make_tiny_qsf.h"
#include "memfile.h"
#include "test.h"

#if defined(_WIN32)
#  include <process.h>
#  define process_id() _getpid()
#else
#  include <unistd.h>
#  define process_id() getpid()
#endif

static const qsf_platform *os;
static char path[64], bare[64], text_file[64];       /* a model, one without a vocabulary, no model */
static qsf_error error;

static void make_files(void)
{
    tiny_options o = tiny_defaults();
    snprintf(path, sizeof path, "qsf-api-test-%d.qsf", (int)process_id());
    snprintf(bare, sizeof bare, "qsf-api-test-%d-bare.qsf", (int)process_id());
    snprintf(text_file, sizeof text_file, "qsf-api-test-%d.txt", (int)process_id());
    CHECK_EQ(tiny_write(os, path, &o, &error), QSF_OK);
    o.vocab = QSF_VOCAB_NONE;
    CHECK_EQ(tiny_write(os, bare, &o, &error), QSF_OK);
    FILE *f = fopen(text_file, "wb");
    if (f) fputs("This is no model.\n", f), fclose(f);
}
static void remove_files(void)
{
    remove(path);
    remove(bare);
    remove(text_file);
}

static QSFEngine *loaded(void)
{
    QSFConfig *c = qsf_config_default();
    qsf_config_set_threads(c, 2);
    QSFEngine *e = qsf_load(path, c);
    if (!e) test_fail(__FILE__, __LINE__, qsf_load_error(c));
    qsf_config_free(c);
    return e;
}

/* ---- loading ---- */

TEST(loading_fails_with_a_status_and_a_text)
{
    const struct { const char *path; qsf_status st; const char *says; } cases[] = {
        { "no/such/file", QSF_E_NOT_FOUND, "no such file" }, { text_file, QSF_E_CORRUPT, text_file },
        { NULL, QSF_E_ARGUMENT, "no model path" }, { ".", QSF_E_IO, ".: cannot be opened: is a directory" },
    };
    for (size_t i = 0; i < QSF_ARRAY_LEN(cases); i++) {
        QSFConfig *c = qsf_config_default();
        CHECK_EQ(qsf_load_status(c), QSF_OK);
        CHECK(qsf_load(cases[i].path, c) == NULL);
        CHECK_EQ(qsf_load_status(c), cases[i].st);
        CHECK(strstr(qsf_load_error(c), cases[i].says) != NULL);
        QSFEngine *e = qsf_load(path, c);                   /* a later success forgets it */
        CHECK(e != NULL);
        CHECK_EQ(qsf_load_status(c), QSF_OK);
        CHECK_STR(qsf_load_error(c), "");
        qsf_free(e);
        qsf_config_free(c);
        CHECK(qsf_load(cases[i].path, NULL) == NULL);
    }
    qsf_free(NULL);
    qsf_config_free(NULL);
    qsf_result_free(NULL);
}

TEST(the_configuration_reaches_the_context)
{
    qsf_plan plan = { .size = sizeof plan };
    qsf_stats stats = { .size = sizeof stats };
    QSFConfig *c = qsf_config_default();
    qsf_config_set_max_seq_len(c, 50);
    qsf_config_set_threads(c, 3);
    qsf_config_set_ram_budget(c, 30);
    qsf_config_set_quality(c, 0.5f);
    QSFEngine *e = qsf_load(path, c);
    CHECK(e != NULL);
    if (!e) return;
    qsf_context_get_plan(qsf_engine_context(e), &plan);
    qsf_context_get_stats(qsf_engine_context(e), &stats);
    CHECK_EQ(plan.n_ctx, 50);
    CHECK_EQ(stats.n_threads, 3);
    CHECK(plan.total <= 30000000);
    CHECK(qsf_context_model(qsf_engine_context(e)) == qsf_engine_model(e));
    qsf_free(e);
    qsf_config_set_quality(c, 2);
    CHECK(qsf_load(path, c) == NULL);
    CHECK_EQ(qsf_load_status(c), QSF_E_ARGUMENT);
    qsf_config_set_quality(c, 1);
    qsf_config_set_threads(c, 256);
    qsf_config_set_ram_budget(c, 1);
    CHECK(qsf_load(path, c) == NULL);
    CHECK_EQ(qsf_load_status(c), QSF_E_BUDGET);
    qsf_config_free(c);
    e = qsf_load(path, NULL);
    CHECK(e != NULL);
    if (e) qsf_print_stats(e);
    qsf_free(e);
}

/* ---- tokens and logits ---- */

TEST(text_to_tokens_and_back)
{
    static const char *const texts[] = { "", "the end", "and then\n\tin there",
                                         "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", "\xff\xfe broken" };
    QSFEngine *e = loaded();
    if (!e) return;
    for (size_t i = 0; i < QSF_ARRAY_LEN(texts); i++) {
        int n = -1;
        int *ids = qsf_tokenize(e, texts[i], &n);
        CHECK(ids != NULL && n >= 0);
        char *back = qsf_detokenize(e, ids, n);
        CHECK(back != NULL && strstr(back, i == 4 ? "\xef\xbf\xbd\xef\xbf\xbd broken" : texts[i]) != NULL);
        CHECK_EQ(qsf_engine_status(e), QSF_OK);
        qsf_result_free(ids);
        qsf_result_free(back);
    }
    const int wrong[] = { -1, 1 << 20 };
    char *none = qsf_detokenize(e, wrong, 2);
    CHECK_STR(none, "");
    qsf_result_free(none);
    qsf_free(e);
}

static int argmax(const float *x, int n)
{
    int best = 0;
    for (int i = 1; i < n; i++)
        if (x[i] > x[best]) best = i;
    return best;
}

TEST(forward_gives_the_logits_of_a_fresh_sequence)
{
    const int ids[] = { 5, 6, 7, 8 };
    QSFEngine *e = loaded();
    qsf_model_info info = { .size = sizeof info };
    if (!e) return;
    qsf_model_get_info(qsf_engine_model(e), &info);
    const size_t bytes = info.n_vocab * sizeof(float);
    float *first = malloc(bytes);
    const float *x = qsf_forward(e, ids, 4), *again;
    CHECK(x != NULL);
    if (x) memcpy(first, x, bytes);
    CHECK((x = qsf_forward(e, ids, 3)) != NULL && memcmp(x, first, bytes) != 0);
    CHECK((x = qsf_forward(e, ids, 4)) != NULL && memcmp(x, first, bytes) == 0);
    CHECK_EQ(qsf_feed(qsf_engine_context(e), 1, ids, 4, &again), QSF_OK);
    CHECK(memcmp(again, first, bytes) == 0);
    const int wrong[] = { 5, (int)info.n_vocab };
    int many[200];
    for (int i = 0; i < 200; i++) many[i] = i % 100;
    const struct { const int *ids; int n; qsf_status st; } cases[] = {
        { ids, 0, QSF_E_ARGUMENT }, { ids, -3, QSF_E_ARGUMENT }, { wrong, 2, QSF_E_ARGUMENT },
        { many, 200, QSF_E_FULL },
    };
    for (size_t i = 0; i < QSF_ARRAY_LEN(cases); i++) {
        CHECK(qsf_forward(e, cases[i].ids, cases[i].n) == NULL);
        CHECK_EQ(qsf_engine_status(e), cases[i].st);
        CHECK(qsf_engine_error(e)[0] != 0);
    }
    CHECK((x = qsf_forward(e, ids, 4)) != NULL && memcmp(x, first, bytes) == 0);
    CHECK_EQ(qsf_engine_status(e), QSF_OK);
    CHECK_STR(qsf_engine_error(e), "");
    free(first);
    qsf_free(e);
}

TEST(samples_follow_temperature_and_nucleus)
{
    float x[50];
    int seen[50] = { 0 };
    for (int i = 0; i < 50; i++) x[i] = (float)(i * 37 % 50) / 10;
    const int best = argmax(x, 50);
    CHECK_EQ(qsf_sample(x, 50, 0, 1), best);
    CHECK_EQ(qsf_sample(x, 50, -1, 0.5f), best);
    CHECK_EQ(qsf_sample(x, 50, 1, 1e-6f), best);
    CHECK_EQ(qsf_sample(x, 0, 1, 1), -1);
    CHECK_EQ(qsf_sample(x, 50, 1, 0.9f), qsf_sample(x, 50, 1, 0.9f));
    for (int i = 0; i < 2000; i++) {
        x[0] = -20 - (float)i / 100;            /* other logits, another draw; this one itself never comes */
        const int id = qsf_sample(x, 50, 1, 0.5f);
        CHECK(id >= 0 && id < 50);
        if (id >= 0 && id < 50) seen[id]++;
    }
    int different = 0;
    for (int i = 0; i < 50; i++) different += seen[i] > 0;
    CHECK(different > 3 && different < 30);
    for (int i = 0; i < 50; i++)
        if (seen[i]) CHECK(x[i] > 3.5f);         /* half of the mass is in the eight or so best */
    CHECK(seen[best] > 150 && seen[best] < 1000);
}

/* ---- generating ---- */

typedef struct heard {
    QSFEngine *stop;        /* cancelled after stop_at tokens */
    int  stop_at, n, ids[64];
    char text[4096];
} heard;

/* Whole, valid UTF-8. */
static bool valid_utf8(const char *s)
{
    for (const unsigned char *p = (const unsigned char *)s; *p;) {
        const int more = *p < 0x80 ? 0 : *p >= 0xc2 && *p < 0xe0 ? 1 : *p >= 0xe0 && *p < 0xf0 ? 2
            : *p >= 0xf0 && *p < 0xf5 ? 3 : -1;
        if (more < 0) return false;
        p++;
        for (int i = 0; i < more; i++)
            if ((*p++ & 0xc0) != 0x80) return false;
    }
    return true;
}

static void hear(int id, const char *text, void *user)
{
    heard *h = user;
    CHECK(valid_utf8(text));
    if (h->n < 64) h->ids[h->n++] = id;
    strncat(h->text, text, sizeof h->text - strlen(h->text) - 1);
    if (h->stop && h->n == h->stop_at) qsf_cancel(h->stop);
}

TEST(greedy_generation_is_the_argmax_again_and_again)
{
    QSFEngine *e = loaded();
    heard h = { 0 }, again = { 0 };
    if (!e) return;
    qsf_generate(e, "the end", 20, 0, 1, hear, &h);
    CHECK_EQ(qsf_engine_status(e), QSF_OK);
    CHECK(h.n > 0 && h.n <= 20);
    int n, ids[64];
    int *prompt = qsf_tokenize(e, "the end", &n);
    memcpy(ids, prompt, (size_t)n * sizeof *ids);
    for (int i = 0; i < h.n; i++) {
        const float *x = qsf_forward(e, ids, n);
        CHECK(x != NULL);
        if (!x) break;
        ids[n] = argmax(x, 288);
        CHECK_EQ(ids[n], h.ids[i]);
        n++;
    }
    qsf_result_free(prompt);
    qsf_generate(e, "the end", 20, 0, 1, hear, &again);     /* a fresh sequence each time */
    CHECK_EQ(again.n, h.n);
    CHECK_STR(again.text, h.text);
    qsf_generate(e, "the end", 0, 0, 1, hear, &again);
    CHECK_EQ(again.n, h.n);
    qsf_generate(e, "the end", 5, 0, 1, NULL, NULL);
    CHECK_EQ(qsf_engine_status(e), QSF_OK);
    qsf_free(e);
}

TEST(the_callback_gets_whole_characters)
{
    QSFEngine *e = loaded();
    if (!e) return;
    /* random bytes mostly: halves of characters all the time */
    for (int i = 0; i < 20; i++) {
        heard h = { 0 };
        char all[2048];
        size_t len = 0;
        qsf_utf8_tail tail = { 0 };
        qsf_generate(e, i % 2 ? "\xe2\x82" : "then", 40, 3, 1, hear, &h);
        for (int k = 0; k < h.n; k++) {
            const char *piece;
            const size_t n = qsf_token_piece(qsf_engine_model(e), h.ids[k], false, &piece);
            len += qsf_utf8_push(&tail, piece, n, all + len);
        }
        /* a C string cannot have the byte 0 of the vocabulary */
        size_t kept = 0;
        for (size_t k = 0; k < len; k++)
            if (all[k]) all[kept++] = all[k];
        all[kept] = 0;
        CHECK_STR(h.text, all);
    }
    qsf_free(e);
}

TEST(cancelling_from_the_callback_ends_generation)
{
    QSFEngine *e = loaded();
    qsf_stats before = { .size = sizeof before }, after = { .size = sizeof after };
    if (!e) return;
    heard h = { 0 };
    /* greedy: a draw may be the end of the text at any token */
    qsf_generate(e, "the end", 40, 0, 1, hear, &h);
    CHECK(h.n > 3);
    h = (heard){ .stop = e, .stop_at = 3 };
    qsf_generate(e, "the end", 40, 0, 1, hear, &h);
    CHECK_EQ(h.n, 3);
    h = (heard){ .stop = e, .stop_at = 1 };
    qsf_context_get_stats(qsf_engine_context(e), &before);
    qsf_generate(e, "the end", 40, 0, 1, hear, &h);
    qsf_context_get_stats(qsf_engine_context(e), &after);
    CHECK_EQ(h.n, 1);
    CHECK_EQ(after.tokens_generated, before.tokens_generated);      /* nothing more is computed */
    h = (heard){ 0 };
    qsf_cancel(e);                                          /* not running: without effect */
    qsf_generate(e, "the end", 4, 0, 1, hear, &h);
    CHECK(h.n > 0);
    qsf_free(e);
}

static void cancel_soon(void *arg)
{
    for (volatile int i = 0; i < 100000; i++) ;
    qsf_cancel(arg);
}

TEST(another_thread_may_cancel)
{
    QSFEngine *e = loaded();
    qsf_thread *t;
    heard h = { 0 };
    if (!e || !os->thread_start) return;
    CHECK_EQ(os->thread_start(os->user, cancel_soon, e, &t), QSF_OK);
    qsf_generate(e, "the end", 60, 0, 1, hear, &h);
    os->thread_join(os->user, t);
    CHECK(h.n <= 60);
    qsf_free(e);
}

TEST(generation_reports_what_stopped_it)
{
    QSFEngine *e = loaded();
    heard h = { 0 };
    char longer[600];
    if (!e) return;
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    qsf_generate(e, longer, 5, 0, 1, hear, &h);             /* the model has learned 128 positions */
    CHECK_EQ(qsf_engine_status(e), QSF_E_FULL);
    CHECK_EQ(h.n, 0);
    qsf_generate(e, "x", 500, 3, 1, hear, &h);
    CHECK(qsf_engine_status(e) == QSF_E_FULL || qsf_engine_status(e) == QSF_OK);
    qsf_free(e);
    /* A model without a vocabulary: ids go, text does not. */
    h = (heard){ 0 };
    if (!(e = qsf_load(bare, NULL))) test_fail(__FILE__, __LINE__, "a file without vocabulary");
    int n;
    CHECK(qsf_tokenize(e, "x", &n) == NULL && n == 0);
    CHECK_EQ(qsf_engine_status(e), QSF_E_UNSUPPORTED);
    qsf_generate(e, "x", 3, 0, 1, hear, &h);
    CHECK_EQ(qsf_engine_status(e), QSF_E_UNSUPPORTED);
    CHECK_EQ(h.n, 0);
    CHECK(qsf_forward(e, &(int){ 3 }, 1) != NULL);
    qsf_free(e);
}

/* ---- the caller's own files ---- */

static gguf_build built_gguf(void)
{
    gguf_build b;
    gguf_build_init(&b, 3);
    tiny_keys(&b, "llama");
    gguf_tiny_vocab(&b);
    tiny_tensors(&b, "llama", NULL);
    gguf_build_end(&b);
    return b;
}

static uint8_t *file_bytes(const char *name, size_t *len)
{
    uint8_t *b = malloc(1 << 20);
    FILE *f = fopen(name, "rb");
    *len = f ? fread(b, 1, 1 << 20, f) : 0;
    if (f) fclose(f);
    return b;
}

TEST(a_custom_file_is_read_like_any_other_and_closed_once)
{
    size_t len;
    uint8_t *qsf = file_bytes(path, &len);
    gguf_build g = built_gguf();
    for (int gguf = 0; gguf < 2; gguf++) {
        memfile f;
        qsf_model_options mo;
        qsf_model *m;
        qsf_context *c;
        qsf_model_info info = { .size = sizeof info };
        const float *x;
        const int32_t ids[] = { 1, 2, 3, 8 };
        memfile_init(&f, gguf ? g.out : qsf, gguf ? g.len : len);
        qsf_model_defaults(&mo);
        mo.file = &f.file;
        CHECK_EQ(qsf_model_open(gguf ? NULL : "only a name", &mo, &m, &error), QSF_OK);
        if (!m) break;
        qsf_model_get_info(m, &info);
        CHECK_STR(info.format, gguf ? "GGUF" : "QSF");
        CHECK_EQ(qsf_context_new(m, NULL, &c, &error), QSF_OK);
        if (!c) break;
        CHECK_EQ(qsf_feed(c, 0, ids, 4, &x), QSF_OK);
        for (uint32_t i = 0; x && i < info.n_vocab; i++) CHECK(isfinite(x[i]));
        if (!gguf && x) {
            QSFEngine *e = loaded();
            const float *same = e ? qsf_forward(e, ids, 4) : NULL;
            CHECK(same && !memcmp(same, x, info.n_vocab * sizeof *x));
            qsf_free(e);
        }
        qsf_context_free(c);
        CHECK_EQ(f.closed, 0);
        qsf_model_close(m);
        CHECK_EQ(f.closed, 1);

        /* Each read fails in turn, at opening or while running. */
        bool done = false;
        for (uint64_t n = 1; !done && n < 500; n++) {
            memfile_init(&f, gguf ? g.out : qsf, gguf ? g.len : len);
            f.fail_at = n;
            qsf_status st = qsf_model_open("file", &mo, &m, &error);
            if (!st && !(st = qsf_context_new(m, NULL, &c, &error))) st = qsf_feed(c, 0, ids, 4, &x);
            else c = NULL;
            done = f.reads < n;
            /* A layer read ahead is read again where its turn comes. */
            CHECK(st == QSF_E_IO || (!st && (done || f.reads > n)));
            qsf_context_free(c);
            qsf_model_close(m);
            CHECK_EQ(f.closed, 1);
        }
        CHECK(done);
    }
    gguf_build_free(&g);
    free(qsf);
}

TEST(a_custom_file_that_cannot_be_opened_is_closed_too)
{
    memfile f;
    qsf_model_options mo;
    qsf_model *m = (qsf_model *)(void *)&f;
    memfile_init(&f, "GGUFgarbage", 11);
    qsf_model_defaults(&mo);
    mo.file = &f.file;
    CHECK(qsf_model_open("name", &mo, &m, &error) != QSF_OK);
    CHECK(m == NULL);
    CHECK_EQ(f.closed, 1);
    memfile_init(&f, "", 0);
    CHECK_EQ(qsf_model_open("name", &mo, &m, &error), QSF_E_CORRUPT);
    CHECK_EQ(f.closed, 1);
    CHECK(strstr(error.text, "name") != NULL);
    mo.file = NULL;
    CHECK_EQ(qsf_model_open(NULL, &mo, &m, &error), QSF_E_ARGUMENT);
    CHECK_EQ(qsf_model_open(NULL, NULL, &m, NULL), QSF_E_ARGUMENT);
}

TEST(statuses_have_names_and_texts)
{
#define X(num, name, text) \
    CHECK_STR(qsf_status_name((qsf_status)num), "QSF_" #name); \
    CHECK_STR(qsf_status_text((qsf_status)num), text);
    QSF_STATUS_MAP(X)
#undef X
    CHECK(qsf_status_name((qsf_status)99) != NULL && qsf_status_text((qsf_status)-1) != NULL);
    CHECK_STR(qsf_version(), QSF_VERSION);
}

int main(int argc, char **argv)
{
    os = qsf_platform_native();
    test_begin(argc, argv);
    make_files();
    RUN(loading_fails_with_a_status_and_a_text);
    RUN(the_configuration_reaches_the_context);
    RUN(text_to_tokens_and_back);
    RUN(forward_gives_the_logits_of_a_fresh_sequence);
    RUN(samples_follow_temperature_and_nucleus);
    RUN(greedy_generation_is_the_argmax_again_and_again);
    RUN(the_callback_gets_whole_characters);
    RUN(cancelling_from_the_callback_ends_generation);
    RUN(another_thread_may_cancel);
    RUN(generation_reports_what_stopped_it);
    RUN(a_custom_file_is_read_like_any_other_and_closed_once);
    RUN(a_custom_file_that_cannot_be_opened_is_closed_too);
    RUN(statuses_have_names_and_texts);
    remove_files();
    return test_end();
}
