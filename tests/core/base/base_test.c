/* Text, errors, CRC, checked arithmetic, half floats, host wrappers, arenas.
 * SPDX-License-Identifier: MIT */
#include "base/arena.h"
#include "fault_platform.h"
#include "kernels.h"
#include "base/platform.h"
#include "test.h"

static uint64_t seed = 1;
static uint32_t rnd(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33);
}

/* What printf makes of the same arguments. */
#define SAME(...) do {                                                 \
        char own[800], libc[800];                                      \
        const size_t len = qsf_format(own, sizeof own, __VA_ARGS__);   \
        snprintf(libc, sizeof libc, __VA_ARGS__);                      \
        CHECK_STR(own, libc);                                          \
        CHECK_EQ(len, strlen(libc));                                   \
    } while (0)

TEST(base_format_writes_what_printf_writes)
{
    SAME("plain");
    SAME("100%% %c%c", 'o', 'k');
    SAME("%s|%5s|%-5s|%.2s|%.*s|%-*s|", "text", "ab", "ab", "abc", 3, "abcdef", 6, "x");
    SAME("%d %d %d %i %5d|%-5d|%05d|%.3d", 0, -1, INT32_MIN, 7, 42, 42, -42, 7);
    SAME("%u %x %08x %ld %lu %lx", 4000000000u, 0xbeefu, 0xbeefu, -5L, 5UL, 0xabcdefUL);
    SAME("%lld %llu %llx %zu", (long long)INT64_MIN, (unsigned long long)UINT64_MAX, 1ULL << 63, (size_t)12);
    SAME("%f %f %.0f %.3f %10.2f|%-10.2f|%010.2f", 0.0, -1.5, 2.5, 3.14159, 2.345, 2.345, -2.345);
    SAME("%.2f %.1f %.0f %.0f %.0f", 0.005, 0.25, 0.5, 1.5, -0.4);
    SAME("%g %g %g %g %g %g %g %g", 0.0, -0.0, 1.0, 100000.0, 1000000.0, 0.0001, 0.00001, 123456789.0);
    SAME("%.3g %.10g %.17g %12g|%-12g|%012g", 1234.5, 0.1, 0.1, 1.5, 1.5, -1.5);
    SAME("%g %g %g %f", INFINITY, -INFINITY, 1e300, 1e300);
    SAME("%g %g %g %g %g", 5e-324, 1.7976931348623157e308, 2.2250738585072014e-308, 9.9999995, 99999.95);
}

TEST(base_format_of_random_doubles_is_printfs)
{
    for (int i = 0; i < 20000; i++) {
        uint64_t bits = (uint64_t)rnd() << 33 ^ (uint64_t)rnd() << 12 ^ rnd();
        const int digits = (int)(rnd() % 20);
        double d;
        memcpy(&d, &bits, 8);
        if (isnan(d)) continue;
        SAME("%g", d);
        SAME("%.9g", d);
        SAME("%.*g", digits, d);
        if (fabs(d) < 1e30) SAME("%.*f", digits, d);
        const double small = (double)((int32_t)rnd() % 100000) / 64;
        SAME("%.*f", digits / 3, small);
        SAME("%.*g", digits / 3, small);
    }
}

TEST(base_format_never_writes_past_its_room)
{
    char buf[8];
    memset(buf, 'x', sizeof buf);
    CHECK_EQ(qsf_format(buf, 4, "%s", "abcdefgh"), 8);
    CHECK_STR(buf, "abc");
    CHECK_EQ(buf[4], 'x');
    CHECK_EQ(qsf_format(NULL, 0, "%d", 12345), 5);
    CHECK_EQ(qsf_format(buf, 1, "%f", 1e300), 308);
    CHECK_STR(buf, "");
    CHECK_EQ(qsf_format(buf, sizeof buf, "%20d", 1), 20);
    CHECK_STR(buf, "       ");
}

TEST(base_fail_makes_one_safe_line)
{
    qsf_error err;
    CHECK_EQ(qsf_fail(&err, QSF_E_CORRUPT, "tensor \"%s\"", "a\nb\033[2Jc\177"), QSF_E_CORRUPT);
    CHECK_EQ(err.status, QSF_E_CORRUPT);
    CHECK_STR(err.text, "tensor \"a?b?[2Jc?\"");
    CHECK_EQ(qsf_fail(NULL, QSF_E_IO, "%d", 1), QSF_E_IO);
    char many[1000];
    memset(many, 'y', sizeof many - 1);
    many[999] = 0;
    qsf_fail(&err, QSF_E_IO, "%s", many);
    CHECK_EQ(strlen(err.text), sizeof err.text - 1);
}

TEST(base_visible_leaves_nothing_that_steers)
{
    static const struct { const char *from, *to; } cases[] = {
        { "", "" },
        { "plain \xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80",
          "plain \xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80" },
        { "\033[31m\x07\x7f\r\n\t", "?[31m?????" },
        { "\xc2\x9b" "A\xc2\x80\xc2\x9f\xc2\xa0", "?A??\xc2\xa0" },                /* C1; a space */
        { "\x9b\x41\xff\xfe", "?A??" }, { "\xc0\x9b\xe0\x80\x9b", "?????" },             /* overlong */
        { "\xed\xa0\x80", "???" }, { "\xf4\x90\x80\x80", "????" },               /* not characters */
        { "\xe2\x82", "??" }, { "a\xe2\x80\xae" "b\xe2\x80\xa8\xe2\x81\xa6\xe2\x80\x8f\xd8\x9c", "a?b????" },
    };
    for (size_t i = 0; i < QSF_ARRAY_LEN(cases); i++) {
        char text[64];
        snprintf(text, sizeof text, "%s", cases[i].from);
        qsf_visible(text);
        CHECK_STR(text, cases[i].to);
    }
}

TEST(base_status_has_names_and_texts)
{
    CHECK_STR(qsf_status_name(QSF_E_IO), "QSF_E_IO");
    CHECK_STR(qsf_status_text(QSF_OK), "ok");
    CHECK_STR(qsf_status_name((qsf_status)99), "unknown status");
    CHECK_STR(qsf_version(), QSF_VERSION);
}

TEST(base_crc_is_zlibs)
{
    uint8_t data[300];
    CHECK_EQ(qsf_crc32(0, "123456789", 9), 0xcbf43926);
    CHECK_EQ(qsf_crc32(0, "", 0), 0);
    CHECK_EQ(qsf_crc32(0, "The quick brown fox jumps over the lazy dog", 43), 0x414fa339);
    for (size_t i = 0; i < sizeof data; i++) data[i] = (uint8_t)rnd();
    qsf_crc32_fn *const best = qsf_crc32_best(qsf_platform_native()->cpu_features(NULL));
    static uint8_t many[3000];
    for (size_t i = 0; i < sizeof many; i++) many[i] = (uint8_t)(i * 2654435761u >> 13);
    for (size_t len = 0; len < 2000; len += len < 300 ? 1 : 37)
        for (size_t at = 0; at < 3; at++)
            CHECK_EQ(best((uint32_t)len * 77, many + at, len), qsf_crc32((uint32_t)len * 77, many + at, len));
    const uint32_t whole = qsf_crc32(0, data, sizeof data);
    for (size_t cut = 0; cut <= sizeof data; cut++)
        CHECK_EQ(qsf_crc32(qsf_crc32(0, data, cut), data + cut, sizeof data - cut), whole);
}

TEST(base_checked_arithmetic_sees_every_overflow)
{
    uint64_t r;
    CHECK(!qsf_mul_u64(0, UINT64_MAX, &r) && r == 0);
    CHECK(!qsf_mul_u64(UINT32_MAX, UINT32_MAX, &r));
    CHECK(qsf_mul_u64(1ull << 32, 1ull << 32, &r));
    CHECK(qsf_mul_u64(UINT64_MAX, 2, &r));
    CHECK(!qsf_add_u64(UINT64_MAX, 0, &r));
    CHECK(qsf_add_u64(UINT64_MAX, 1, &r));
    CHECK_EQ(qsf_ceil_div(UINT64_MAX, 2), 1ull << 63);
}

TEST(base_half_floats_go_there_and_back)
{
    for (uint32_t h = 0; h < 65536; h++) {
        const float f = qsf_f16_to_f32((uint16_t)h);
        if ((h & 0x7fff) > 0x7c00) CHECK(isnan(f));
        else CHECK_EQ(qsf_f32_to_f16(f), h);
    }
    CHECK_EQ(qsf_f32_to_f16(1.0f + 0x1p-11f), 0x3c00);                 /* halves to even */
    CHECK_EQ(qsf_f32_to_f16(1.0f + 3 * 0x1p-11f), 0x3c02);
    CHECK_EQ(qsf_f32_to_f16(65519), 0x7bff);
    CHECK_EQ(qsf_f32_to_f16(65520), 0x7c00);
    CHECK_EQ(qsf_f32_to_f16(1e-9f), 0);
    CHECK_EQ(qsf_f32_to_f16(-1e-9f), 0x8000);
    CHECK_EQ(qsf_f32_to_f16(0x1p-25f * 1.5f), 1);
    CHECK(qsf_f32_to_f16(NAN) > 0x7c00);
}

TEST(arena_gives_zeroed_aligned_memory)
{
    fault_platform fp;
    qsf_arena *a;
    fault_init(&fp);
    CHECK_EQ(qsf_arena_new(&fp.table, &a, NULL), QSF_OK);
    for (int i = 0; i < 2000; i++) {
        const uint64_t size = i % 100 == 7 ? 70000 : rnd() % 3000;
        uint8_t *p = qsf_arena_alloc(a, size, "test", NULL);
        CHECK(p && ((uintptr_t)p & (size >= 1024 ? 63 : 15)) == 0);
        for (uint64_t k = 0; k < size; k++) if (p[k]) { CHECK(!"zero"); break; }
        memset(p, 0xab, (size_t)size);
    }
    CHECK_STR(qsf_arena_text(a, "abcdef", 3, NULL), "abc");
    CHECK(qsf_arena_used(a) >= fp.bytes);
    qsf_arena_free(a);
    qsf_arena_free(NULL);
    CHECK_EQ(fp.bytes, 0);
}

TEST(arena_and_host_refuse_what_cannot_be_had)
{
    fault_platform fp;
    qsf_arena *a;
    qsf_error err = { 0 };
    fault_init(&fp);
    CHECK_EQ(qsf_arena_new(&fp.table, &a, NULL), QSF_OK);
    CHECK(!qsf_arena_alloc(a, UINT64_MAX, "the moon", &err));
    CHECK(strstr(err.text, "the moon") != NULL);
    CHECK(!qsf_arena_alloc(a, UINT64_MAX - 70, "the moon", &err));
    CHECK(!qsf_arena_array(a, UINT64_MAX / 2, 3, "the moon", &err));
    CHECK(!qsf_alloc_array(&fp.table, UINT64_MAX / 2, 3, "the sun", &err));
    CHECK_EQ(err.status, QSF_E_MEMORY);
    CHECK(!qsf_alloc(&fp.table, UINT64_MAX, "the sun", &err));
    void *nothing = qsf_alloc(&fp.table, 0, "nothing", &err);
    CHECK(nothing != NULL);
    qsf_dealloc(&fp.table, nothing, 0);
    qsf_arena_free(a);
    fp.fail_at = fp.calls + 1;
    CHECK_EQ(qsf_arena_new(&fp.table, &a, &err), QSF_E_MEMORY);
    CHECK(a == NULL);
    CHECK_EQ(fp.bytes, 0);
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    RUN(base_format_writes_what_printf_writes);
    RUN(base_format_of_random_doubles_is_printfs);
    RUN(base_format_never_writes_past_its_room);
    RUN(base_fail_makes_one_safe_line);
    RUN(base_visible_leaves_nothing_that_steers);
    RUN(base_status_has_names_and_texts);
    RUN(base_crc_is_zlibs);
    RUN(base_checked_arithmetic_sees_every_overflow);
    RUN(base_half_floats_go_there_and_back);
    RUN(arena_gives_zeroed_aligned_memory);
    RUN(arena_and_host_refuse_what_cannot_be_had);
    return test_end();
}
