/* The converter on its own files: the same preset again gives the same bytes, errors name the file
 * concerned, and strings from a file cannot control a terminal.
 * SPDX-License-Identifier: MIT */
#define OUT "convert_same_test"
#include "convert_fake.h"

enum { ROOM = 1 << 20 };

static const char *again_path = OUT "_again.qsf";

static size_t bytes_of(const char *path, uint8_t *to)
{
    FILE *f = fopen(path, "rb");
    const size_t n = f ? fread(to, 1, ROOM, f) : 0;
    if (f) fclose(f);
    return n;
}

/* ---- the same bytes ---- */

static void check_same(const qsf_convert_options *o, const char *what)
{
    static uint8_t one[ROOM], two[ROOM];
    qsf_error err = { 0 };
    qsf_convert_result *r = NULL;
    qsf_convert_summary s = { .size = sizeof s };
    const size_t n = bytes_of(out_path, one);
    CHECK(n > 4096 && n < ROOM);
    CHECK_EQ(qsf_convert_run(out_path, again_path, o, &r, &err), QSF_OK);
    if (err.text[0]) printf("      %s: %s\n", what, err.text);
    if (!r) return;
    CHECK_EQ(bytes_of(again_path, two), n);
    if (memcmp(one, two, n)) test_fail(__FILE__, __LINE__, what);
    CHECK_EQ(qsf_convert_get_summary(r, &s), QSF_OK);
    CHECK_NEAR(s.relative_error, 0, 0);
    CHECK_NEAR(s.cosine, 1, 1e-12);
    qsf_convert_result_free(r);
    remove(again_path);
}

TEST(the_same_preset_again_gives_the_same_bytes)
{
    static const qsf_convert_preset presets[] = {
        QSF_CONVERT_8BIT, QSF_CONVERT_4BIT, QSF_CONVERT_3BIT, QSF_CONVERT_2BIT, QSF_CONVERT_TERNARY,
        QSF_CONVERT_F16, QSF_CONVERT_MIXED,
    };
    for (size_t i = 0; i < QSF_ARRAY_LEN(presets); i++)
        for (int kind = 0; kind < 6; kind++) {
            fake f = { .spikes = kind % 3 == 2, .salt = (uint64_t)kind };
            qsf_convert_options o;
            convert_report r;
            qsf_error err = { 0 };
            char what[64];
            qsf_convert_defaults(&o);
            o.preset = presets[i];
            o.packing = kind != 1;
            o.compression = kind == 3 ? QSF_CONVERT_LZ4 : QSF_CONVERT_NONE;
            if (kind == 4) o.outliers = QSF_CONVERT_ON;
            if (kind == 5) o.equalize = QSF_CONVERT_OFF;
            const qsf_status st = convert_fake(&f, &o, &r, NULL, &err);
            if (st == QSF_E_UNSUPPORTED) continue;          /* a library that this build lacks */
            CHECK_EQ(st, QSF_OK);
            snprintf(what, sizeof what, "%s, kind %d", qsf_convert_preset_name(o.preset), kind);
            if (!st) check_same(&o, what);
        }
    remove(out_path);
}

TEST(another_preset_is_not_copied)
{
    fake f = { 0 };
    qsf_convert_options o;
    convert_report r;
    qsf_error err = { 0 };
    qsf_convert_result *out = NULL;
    qsf_convert_tensor t = { .size = sizeof t };
    qsf_convert_defaults(&o);
    o.preset = QSF_CONVERT_4BIT;
    CHECK_EQ(convert_fake(&f, &o, &r, NULL, &err), QSF_OK);
    o.preset = QSF_CONVERT_3BIT;
    CHECK_EQ(qsf_convert_run(out_path, again_path, &o, &out, &err), QSF_OK);
    for (uint32_t i = 0; out && !qsf_convert_get_tensor(out, i, &t); i++)
        if (!strcmp(t.name, "blk.0.attn_q")) CHECK(!strcmp(t.type, "3bit") && t.relative_error > 0);
    qsf_convert_result_free(out);
    remove(out_path);
    remove(again_path);
}

/* ---- names of files ---- */

static qsf_platform host;
static const qsf_platform *below;
static long reads_left;

static qsf_status cut_read_start(void *user, qsf_file *f, uint64_t at, void *dst, size_t len, qsf_read **out)
{
    (void)user;
    *out = NULL;
    if (reads_left-- <= 0) return QSF_E_IO;
    return below->read_start(below->user, f, at, dst, len, out);
}

/* Makes each read of the source fail in turn, as if the file had been truncated meanwhile. */
TEST(a_source_that_cannot_be_read_on_is_named)
{
    fake f = { 0 };
    qsf_convert_options o;
    convert_report r;
    qsf_error err = { 0 };
    int failed = 0;
    qsf_convert_defaults(&o);
    CHECK_EQ(convert_fake(&f, &o, &r, NULL, &err), QSF_OK);
    below = qsf_platform_native();
    host = *below;
    host.read_start = cut_read_start;
    o.platform = &host;
    o.n_threads = 1;
    for (int to = 0; to < 2; to++) {
        o.preset = to ? QSF_CONVERT_8BIT : QSF_CONVERT_4BIT;
        for (long n = 0; n < 400; n += n < 60 ? 1 : 17) {
            reads_left = n;
            const qsf_status st = qsf_convert_run(out_path, again_path, &o, NULL, &err);
            if (!st) break;
            failed++;
            CHECK_EQ(st, QSF_E_IO);
            if (!strstr(err.text, out_path)) CHECK_STR(err.text, out_path);
        }
    }
    CHECK(failed > 40);
    remove(out_path);
    remove(again_path);
}

/* ---- strings from a file ---- */

typedef struct said { char text[1 << 16]; size_t len; } said;

static qsf_status say(void *user, const void *bytes, size_t len)
{
    said *s = user;
    if (len > sizeof s->text - 1 - s->len) return QSF_E_MEMORY;
    memcpy(s->text + s->len, bytes, len);
    s->text[s->len += len] = 0;
    return QSF_OK;
}

TEST(what_a_file_says_cannot_steer_a_terminal)
{
    static const char evil[] = "a\x1b]0;title\x07\x1b[31m\xc2\x9b" "2J\r\x7f\xe2\x80\xae" "\xff" "b";
    static qsf_meta meta[] = { { "general.\x1b[2Jauthor", "x\x1b[1;31m\xc2\x9d\x08\nsecond" },
                               { "general.tags", "fine \xc3\xa4\xe2\x82\xac" } };
    static said out;
    fake f = { 0 };
    input in;
    qsf_convert_options o;
    convert_report r;
    qsf_error err = { 0 };
    qsf_convert_defaults(&o);
    fake_open(&in, &f, "llama");
    snprintf(in.hp.name, sizeof in.hp.name, "%s", evil);
    in.meta = meta;
    in.n_meta = QSF_ARRAY_LEN(meta);
    CHECK_EQ(qsf_conv_run(&in, &o, out_path, &r, &err), QSF_OK);
    in.close(&in);
    CHECK_EQ(qsf_convert_describe(out_path, NULL, say, &out, &err), QSF_OK);
    for (size_t i = 0; i < out.len; i++) {
        const unsigned char c = (unsigned char)out.text[i];
        const bool second = c == 0xc2 && (unsigned char)out.text[i + 1] < 0xa0;
        const bool control = (c < 0x20 && c != '\n') || c == 0x7f || c == 0xff || second;
        if (control) test_fail(__FILE__, __LINE__, out.text);
    }
    CHECK(strstr(out.text, "a?]0;title??[31m?2J????b") != NULL);
    CHECK(strstr(out.text, "x?[1;31m??\\nsecond") != NULL);
    CHECK(strstr(out.text, "fine \xc3\xa4\xe2\x82\xac") != NULL);
    CHECK(strstr(out.text, "\xe2\x80\xae") == NULL);
    qsf_model *m = NULL;
    qsf_model_info info = { .size = sizeof info };
    CHECK_EQ(qsf_model_open(out_path, NULL, &m, &err), QSF_OK);
    if (m) {
        qsf_model_get_info(m, &info);
        CHECK_STR(info.name, "a?]0;title??[31m?2J????b");
    }
    qsf_model_close(m);
    remove(out_path);
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    RUN(the_same_preset_again_gives_the_same_bytes);
    RUN(another_preset_is_not_copied);
    RUN(a_source_that_cannot_be_read_on_is_named);
    RUN(what_a_file_says_cannot_steer_a_terminal);
    return test_end();
}
