/* A user of libqsf_convert that knows its header and nothing else: converts a tiny GGUF file, and
 * asks what became of it.
 * SPDX-License-Identifier: MIT */
#include <qsf_convert.h>

#include "tiny_gguf.h"

static int failures;
#define CHECK(x) ((x) ? (void)0 : (void)(failures++, printf("line %d: not so: %s\n", __LINE__, #x)))

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
    tiny_gguf_write("tiny.gguf");
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
