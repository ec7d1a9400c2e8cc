/* The WebGPU device on real libraries, each on whatever adapter it finds: bytes, order, errors and
 * loss.  device_fake_test.c has what real ones cannot be made to do.
 * SPDX-License-Identifier: MIT
 *
 * QSF_WEBGPU_DIR: the folder of tools/get-webgpu.sh, with Dawn and wgpu-native. */
#include "base/device.h"
#include "native.h"
#include "test.h"

#include <sys/resource.h>
#include <unistd.h>

#define SECOND UINT64_C(1000000000)

static const char *library;     /* that of the current round */
static qsf_devices *found;
static qsf_error error;

/* ---- what most tests begin with ---- */
static qsf_device *device_open(void)
{
    qsf_device *d = NULL;
    CHECK_EQ(found->open(found, 0, &d, &error), QSF_OK);
    if (!d) printf("      %s\n", error.text);
    return d;
}

static qsf_status wait_for(const qsf_device *d, qsf_device_id id)
{
    return d->wait(d->user, id, 120 * SECOND, &error);
}

static qsf_device_id buffer_of(const qsf_device *d, uint32_t usage, uint64_t len)
{
    qsf_device_id id = 0;
    CHECK_EQ(d->buffer_new(d->user, usage, len, &id, &error), QSF_OK);
    CHECK(id != 0);
    return id;
}

static qsf_device_id pipeline_of(const qsf_device *d, const char *wgsl, const uint8_t *bindings, uint32_t n)
{
    const qsf_device_shader s = { "a test", wgsl, "main", bindings, n };
    qsf_device_id id = 0;
    CHECK_EQ(d->pipeline_new(d->user, &s, &id, &error), QSF_OK);
    CHECK_EQ(wait_for(d, id), QSF_OK);
    return id;
}

static bool read_back(const qsf_device *d, qsf_device_id buffer, uint64_t at, void *dst, size_t len)
{
    qsf_device_id r = 0;
    CHECK_EQ(d->read_start(d->user, buffer, at, dst, len, &r, &error), QSF_OK);
    const qsf_status st = wait_for(d, r);
    if (st) printf("      %s\n", error.text);
    CHECK_EQ(st, QSF_OK);
    return !st;
}

static void no_error(const qsf_device *d)
{
    const qsf_status st = d->state(d->user, &error);
    CHECK_EQ(st, QSF_OK);
    if (st) printf("      %s\n", error.text);
}

static uint32_t mix(uint32_t i) { return (i ^ i >> 15) * 2654435761u + 0x9e3779b9u; }
static uint32_t *numbers(size_t n)
{
    uint32_t *x = malloc(n * sizeof *x);
    for (size_t i = 0; i < n; i++) x[i] = mix((uint32_t)i);
    return x;
}

/* ---- the tests ---- */
TEST(devices_have_limits)
{
    qsf_device_info info = { .size = sizeof info };
    CHECK(strstr(qsf_devices_source(found), "lib") != NULL);
    for (uint32_t i = 0; i < found->n; i++) {
        CHECK_EQ(qsf_devices_get(found, i, &info), QSF_OK);
        printf("      %s: %s (%s, %s), kind %d\n", library, info.name, info.vendor, info.backend,
               (int)info.kind);
        CHECK(*info.name && *info.vendor && *info.backend);
        CHECK(info.max_binding >= 128u << 20 && info.max_buffer >= info.max_binding);
        CHECK(info.binding_align && 256 % info.binding_align == 0);
        CHECK(info.max_invocations >= 256 && info.max_shared >= 16384 && info.max_bindings >= 8);
        CHECK(info.max_groups >= 65535);
    }
    CHECK_EQ(qsf_devices_get(found, found->n, &info), QSF_E_NOT_FOUND);
    qsf_device *d = device_open();
    if (!d) return;
    CHECK_STR(d->info->name, found->info[0].name);
    CHECK_EQ(d->info->max_binding, found->info[0].max_binding);
    d->close(d->user);
    CHECK_EQ(found->open(found, found->n, &d, &error), QSF_E_NOT_FOUND);
}

TEST(bytes_come_back)
{
    enum { N = 1 << 18 };
    qsf_device *d = device_open();
    if (!d) return;
    uint32_t *x = numbers(N), *y = malloc(4 * N);
    const qsf_device_id a = buffer_of(d, QSF_DEVICE_STORAGE, 4 * N),
        b = buffer_of(d, QSF_DEVICE_STORAGE, 4 * N);
    CHECK_EQ(wait_for(d, a), QSF_OK);
    CHECK_EQ(d->poll(d->user, a, &error), QSF_OK);      /* once more: a buffer stays */
    CHECK_EQ(d->write(d->user, a, 0, x, 4, &error), QSF_OK);
    CHECK_EQ(d->write(d->user, a, 4, x + 1, 4 * (N - 1), &error), QSF_OK);
    CHECK_EQ(d->copy(d->user, b, 400, a, 40, 4000, &error), QSF_OK);
    memset(y, 0xee, 4 * N);
    if (read_back(d, a, 0, y, 4 * N)) CHECK(!memcmp(x, y, 4 * N));
    memset(y, 0xee, 4 * N);
    if (read_back(d, b, 0, y, 4 * N)) {
        uint32_t wrong = 0;
        for (uint32_t i = 0; i < N; i++) wrong += y[i] != (i >= 100 && i < 1100 ? x[i - 90] : 0);
        CHECK_EQ(wrong, 0);
    }
    y[1] = y[3] = 7;
    if (read_back(d, a, 4 * (N - 1), y + 2, 4)) CHECK_EQ(y[2], x[N - 1]);
    CHECK(y[1] == 7 && y[3] == 7);
    no_error(d);
    d->close(d->user);
    free(x);
    free(y);
}

static const char wgsl_add[] =
    "struct Step { scale: u32, more: u32, n: u32, none: u32 }\n"
    "@group(0) @binding(0) var<storage, read_write> x: array<u32>;\n"
    "@group(0) @binding(1) var<storage, read> y: array<u32>;\n"
    "@group(0) @binding(2) var<uniform> s: Step;\n"
    "@compute @workgroup_size(256)\n"
    "fn main(@builtin(global_invocation_id) id: vec3<u32>) {\n"
    "  if (id.x < s.n) { x[id.x] = x[id.x] * s.scale + y[id.x] + s.more; }\n"
    "}\n";
static const uint8_t add_bindings[] = { QSF_BINDING_STORAGE, QSF_BINDING_READ_ONLY, QSF_BINDING_UNIFORM };

/* x = x * 3 + y + 5, then x = x * 7 + y + 1, each three times in turns: another order has another
 * result. */
TEST(dispatches_run_in_order)
{
    enum { N = 1000003, STEPS = 6 };
    const uint32_t steps[128] = { 3, 5, N, [64] = 7, 1, N };
    qsf_device *d = device_open();
    if (!d) return;
    uint32_t *x = numbers(N), *y = numbers(N), *z = malloc(4 * N);
    const qsf_device_id bx = buffer_of(d, QSF_DEVICE_STORAGE, 4 * N),
        by = buffer_of(d, QSF_DEVICE_STORAGE, 4 * N), bs = buffer_of(d, QSF_DEVICE_UNIFORM, sizeof steps),
        p = pipeline_of(d, wgsl_add, add_bindings, 3), q = pipeline_of(d, wgsl_add, add_bindings, 3);
    qsf_device_dispatch list[STEPS];
    qsf_device_id group[2];
    for (int k = 0; k < 2; k++) {
        const qsf_device_range ranges[] = { { bx, 0, 4 * N }, { by, 0, 4 * N },
                                            { bs, 256 * (unsigned)k, 16 } };
        CHECK_EQ(d->group_new(d->user, p, ranges, 3, &group[k], &error), QSF_OK);
    }
    /* a group fits every pipeline with the same bindings */
    for (int i = 0; i < STEPS; i++)
        list[i] = (qsf_device_dispatch){ i < 4 ? p : q, group[i % 2], (N + 255) / 256, 1, 1 };
    for (size_t i = 0; i < N; i++) y[i] ^= 0x5555;
    CHECK_EQ(d->write(d->user, bx, 0, x, 4 * N, &error), QSF_OK);
    CHECK_EQ(d->write(d->user, by, 0, y, 4 * N, &error), QSF_OK);
    CHECK_EQ(d->write(d->user, bs, 0, steps, sizeof steps, &error), QSF_OK);
    /* the last four are encoded before, and run later; others never */
    qsf_device_id encoded, never;
    CHECK_EQ(d->encode(d->user, list + 2, STEPS - 2, &encoded, &error), QSF_OK);
    CHECK_EQ(d->encode(d->user, list, STEPS, &never, &error), QSF_OK);
    CHECK_EQ(d->submit(d->user, list, 2, &error), QSF_OK);
    CHECK_EQ(d->submit_encoded(d->user, encoded, &error), QSF_OK);
    CHECK_EQ(d->submit_encoded(d->user, encoded, &error), QSF_E_ARGUMENT);
    d->release(d->user, never);
    /* what is written after a submit is seen by the next one only */
    memset(z, 0, 4 * N);
    CHECK_EQ(d->write(d->user, by, 0, z, 4 * N, &error), QSF_OK);
    CHECK_EQ(d->submit(d->user, list, 1, &error), QSF_OK);
    uint32_t wrong = 0;
    if (read_back(d, bx, 0, z, 4 * N)) {
        for (size_t i = 0; i < N; i++) {
            uint32_t v = x[i];
            for (int k = 0; k < STEPS; k++) v = k % 2 ? v * 7 + y[i] + 1 : v * 3 + y[i] + 5;
            wrong += z[i] != v * 3 + 5;
        }
        CHECK_EQ(wrong, 0);
    }
    no_error(d);
    d->close(d->user);
    free(x);
    free(y);
    free(z);
}

TEST(wgsl_errors_have_text_and_line)
{
    static const struct { const char *wgsl, *says, *line; } cases[] = {
        { "@group(0) @binding(0) var<storage, read_write> x: array<u32>;\n"
          "@compute @workgroup_size(64)\n"
          "fn main() {\n"
          "  x[0] = nothing_like_that;\n"
          "}\n", "nothing_like_that", ":4:" },
        { "@group(0) @binding(0) var<storage, read_write> x: array<u32>;\n"
          "@compute @workgroup_size(64)\n"
          "fn another() { x[0] = 1u; }\n", "main", NULL },
    };
    const uint8_t bindings[] = { QSF_BINDING_STORAGE };
    qsf_device *d = device_open();
    if (!d) return;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const qsf_device_shader s = { "a wrong program", cases[i].wgsl, "main", bindings, 1 };
        qsf_device_id id = 0;
        CHECK_EQ(d->pipeline_new(d->user, &s, &id, &error), QSF_OK);
        CHECK_EQ(wait_for(d, id), QSF_E_UNSUPPORTED);
        printf("      %s\n", error.text);
        CHECK(strstr(error.text, cases[i].says) != NULL);
        if (cases[i].line) CHECK(strstr(error.text, cases[i].line) != NULL);
        CHECK(!strchr(error.text, '\n'));
        CHECK_EQ(d->poll(d->user, id, &error), QSF_E_UNSUPPORTED);
        const qsf_device_dispatch one = { id, 0, 1, 1, 1 };
        CHECK_EQ(d->submit(d->user, &one, 1, &error), QSF_E_ARGUMENT);
        d->release(d->user, id);
        CHECK_EQ(d->poll(d->user, id, &error), QSF_E_ARGUMENT);
    }
    no_error(d);
    d->close(d->user);
}

/* Every refusal comes before the library is asked, so that the state stays QSF_OK. */
TEST(wrong_arguments_are_refused)
{
    qsf_device *d = device_open();
    if (!d) return;
    void *u = d->user;
    uint32_t word[64] = { 0 };
    qsf_device_id id = 7, group = 0;
    const qsf_device_id a = buffer_of(d, QSF_DEVICE_STORAGE, 1024),
        b = buffer_of(d, QSF_DEVICE_UNIFORM, 1024), p = pipeline_of(d, wgsl_add, add_bindings, 3);
    const qsf_device_range good[] = { { a, 0, 1024 }, { a, 0, 1024 }, { b, 0, 16 } };
    CHECK_EQ(d->buffer_new(u, QSF_DEVICE_STORAGE, 0, &id, &error), QSF_E_ARGUMENT);
    CHECK_EQ(id, 0);
    CHECK_EQ(d->buffer_new(u, QSF_DEVICE_STORAGE, 6, &id, &error), QSF_E_ARGUMENT);
    CHECK_EQ(d->buffer_new(u, QSF_DEVICE_STORAGE, d->info->max_buffer + 4, &id, &error), QSF_E_ARGUMENT);
    CHECK_EQ(d->buffer_new(u, 4, 16, &id, &error), QSF_E_ARGUMENT);
    CHECK_EQ(d->buffer_new(u, 0, 16, &id, &error), QSF_E_ARGUMENT);
    CHECK_EQ(d->write(u, a, 2, word, 4, &error), QSF_E_ARGUMENT);
    CHECK_EQ(d->write(u, a, 0, word, 5, &error), QSF_E_ARGUMENT);
    CHECK_EQ(d->write(u, a, 1020, word, 8, &error), QSF_E_ARGUMENT);
    CHECK_EQ(d->write(u, a, UINT64_MAX - 3, word, 8, &error), QSF_E_ARGUMENT);
    CHECK_EQ(d->write(u, 0, 0, word, 4, &error), QSF_E_ARGUMENT);
    CHECK_EQ(d->write(u, p, 0, word, 4, &error), QSF_E_ARGUMENT);
    CHECK_EQ(d->copy(u, a, 0, a, 512, 4, &error), QSF_E_ARGUMENT);
    CHECK_EQ(d->copy(u, a, 0, b, 1024, 4, &error), QSF_E_ARGUMENT);
    CHECK_EQ(d->copy(u, a, 1024, b, 0, 4, &error), QSF_E_ARGUMENT);
    CHECK_EQ(d->read_start(u, a, 1024, word, 4, &id, &error), QSF_E_ARGUMENT);
    CHECK_EQ(d->read_start(u, a, 0, word, 0, &id, &error), QSF_E_ARGUMENT);
    CHECK_EQ(d->group_new(u, a, good, 3, &id, &error), QSF_E_ARGUMENT);
    CHECK_EQ(d->group_new(u, p, good, 2, &id, &error), QSF_E_ARGUMENT);
    const qsf_device_range bad[] = { { b, 0, 1024 }, { a, 4, 1020 }, { a, 0, 1028 }, { a, 1024, 4 },
                                     { a, 0, 0 }, { a, 0, 2 }, { p, 0, 4 }, { 0, 0, 4 } };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const qsf_device_range with[] = { bad[i], good[1], good[2] };
        CHECK_EQ(d->group_new(u, p, with, 3, &id, &error), QSF_E_ARGUMENT);
        CHECK_EQ(id, 0);
    }
    CHECK_EQ(d->group_new(u, p, good, 3, &group, &error), QSF_OK);
    const qsf_device_dispatch wrong[] = { { a, group, 1, 1, 1 }, { p, a, 1, 1, 1 }, { p, 0, 1, 1, 1 },
                                          { p, group, d->info->max_groups + 1, 1, 1 },
                                          { 999, group, 1, 1, 1 } };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        CHECK_EQ(d->submit(u, &wrong[i], 1, &error), QSF_E_ARGUMENT);
    CHECK_EQ(d->encode(u, &wrong[0], 1, &id, &error), QSF_E_ARGUMENT);
    CHECK_EQ(d->submit_encoded(u, p, &error), QSF_E_ARGUMENT);
    CHECK_EQ(d->poll(u, 0, &error), QSF_E_ARGUMENT);
    CHECK_EQ(d->poll(u, group, &error), QSF_E_ARGUMENT);
    const uint8_t many[QSF_DEVICE_BINDINGS + 1] = { 9 };
    const qsf_device_shader s[] = { { "s", wgsl_add, "main", many, 1 },
                                    { "s", wgsl_add, "main", many, QSF_DEVICE_BINDINGS + 1 } };
    CHECK_EQ(d->pipeline_new(u, &s[0], &id, &error), QSF_E_ARGUMENT);
    CHECK_EQ(d->pipeline_new(u, &s[1], &id, &error), QSF_E_ARGUMENT);
    d->release(u, 0);
    d->release(u, 12345);
    no_error(d);
    d->close(u);
}

/* More reads than staging buffers are kept, of all sizes; half of them are given up. */
TEST(many_reads_at_once)
{
    enum { N = 1 << 16, READS = 20 };
    qsf_device *d = device_open();
    if (!d) return;
    uint32_t *x = numbers(N), *y[READS];
    const qsf_device_id a = buffer_of(d, QSF_DEVICE_STORAGE, 4 * N);
    qsf_device_id r[READS];
    CHECK_EQ(d->write(d->user, a, 0, x, 4 * N, &error), QSF_OK);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < READS; i++) {
            const size_t n = (size_t)1 << i % 16;
            y[i] = calloc(n, 4);
            CHECK_EQ(d->read_start(d->user, a, 4 * (unsigned)i, y[i], 4 * n, &r[i], &error), QSF_OK);
            if (i % 2) d->release(d->user, r[i]);
        }
        for (int i = READS - 1; i >= 0; i--) {
            const size_t n = (size_t)1 << i % 16;
            if (i % 2 == 0) {
                CHECK_EQ(wait_for(d, r[i]), QSF_OK);
                CHECK(!memcmp(y[i], x + i, 4 * n));
            }
        }
        no_error(d);
        for (int i = 0; i < READS; i++) {
            if (i % 2) for (size_t k = 0; k < (size_t)1 << i % 16; k++) CHECK_EQ(y[i][k], 0);
            free(y[i]);
        }
    }
    d->close(d->user);
    free(x);
}

TEST(two_devices_are_independent)
{
    qsf_device *d[2] = { device_open(), device_open() };
    uint32_t in[2] = { 11, 22 }, out[2] = { 0, 0 };
    qsf_device_id b[2] = { 0, 0 };
    if (!d[0] || !d[1]) return;
    for (int i = 0; i < 2; i++) b[i] = buffer_of(d[i], QSF_DEVICE_STORAGE, 4);
    for (int i = 0; i < 2; i++) CHECK_EQ(d[i]->write(d[i]->user, b[i], 0, &in[i], 4, &error), QSF_OK);
    for (int i = 0; i < 2; i++) read_back(d[i], b[i], 0, &out[i], 4);
    CHECK(out[0] == 11 && out[1] == 22);
    d[0]->lose(d[0]->user);
    CHECK_EQ(d[0]->state(d[0]->user, &error), QSF_E_IO);
    out[1] = 0;
    read_back(d[1], b[1], 0, &out[1], 4);
    CHECK_EQ(out[1], 22);
    no_error(d[1]);
    d[0]->close(d[0]->user);
    d[1]->close(d[1]->user);
}

/* The driver in software takes the process's memory, which is bounded here. */
TEST(a_full_device_is_reported)
{
    enum { MOST = 64, PIECE = 256 << 20 };
#if defined(QSF_SANITIZED)
    LEFT_OUT("sanitizers take more address space than can be bounded");
#endif
    qsf_device *d = device_open();
    if (!d) return;
    struct rlimit was, now;
    unsigned long pages = 0;
    qsf_device_id id[MOST] = { 0 };
    qsf_status st = QSF_OK;
    int n = 0;
    FILE *used = fopen("/proc/self/statm", "r");
    CHECK(used && fscanf(used, "%lu", &pages) == 1);
    if (used) fclose(used);
    CHECK_EQ(getrlimit(RLIMIT_AS, &was), 0);
    now = was;
    now.rlim_cur = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + ((rlim_t)1 << 30);
    CHECK_EQ(setrlimit(RLIMIT_AS, &now), 0);
    for (; n < MOST && !st; n++) {
        CHECK_EQ(d->buffer_new(d->user, QSF_DEVICE_STORAGE, PIECE, &id[n], &error), QSF_OK);
        st = wait_for(d, id[n]);
    }
    CHECK_EQ(setrlimit(RLIMIT_AS, &was), 0);
    CHECK_EQ(st, QSF_E_MEMORY);
    if (st) printf("      buffer %d: %s\n", n, error.text);
    no_error(d);
    for (int i = 0; i < n; i++) d->release(d->user, id[i]);
    /* and the device still works */
    uint32_t word = 77;
    const qsf_device_id a = buffer_of(d, QSF_DEVICE_STORAGE, 4);
    CHECK_EQ(d->write(d->user, a, 0, &word, 4, &error), QSF_OK);
    word = 0;
    read_back(d, a, 0, &word, 4);
    CHECK_EQ(word, 77);
    d->close(d->user);
}

/* Whatever was begun ends, and everything later is refused. */
TEST(a_lost_device_hangs_nobody)
{
    qsf_device *d = device_open();
    if (!d) return;
    void *u = d->user;
    uint32_t word = 5;
    qsf_device_id r = 0, p = 0, id = 0;
    const qsf_device_shader s = { "a test", wgsl_add, "main", add_bindings, 3 };
    const qsf_device_id a = buffer_of(d, QSF_DEVICE_STORAGE, 4 << 20);
    CHECK_EQ(d->pipeline_new(u, &s, &p, &error), QSF_OK);
    CHECK_EQ(d->read_start(u, a, 0, &word, 4, &r, &error), QSF_OK);
    d->lose(u);
    CHECK_EQ(d->wait(u, r, 60 * SECOND, &error), QSF_E_IO);
    printf("      %s\n", error.text);
    CHECK(strstr(error.text, "lost") != NULL);
    CHECK_EQ(d->wait(u, p, 60 * SECOND, &error), QSF_E_IO);
    CHECK_EQ(d->wait(u, a, 60 * SECOND, &error), QSF_E_IO);
    CHECK_EQ(d->state(u, &error), QSF_E_IO);
    CHECK_EQ(d->state(u, &error), QSF_E_IO);            /* that stays */
    CHECK_EQ(d->buffer_new(u, QSF_DEVICE_STORAGE, 4, &id, &error), QSF_E_IO);
    CHECK_EQ(d->pipeline_new(u, &s, &id, &error), QSF_E_IO);
    CHECK_EQ(d->write(u, a, 0, &word, 4, &error), QSF_E_IO);
    CHECK_EQ(d->copy(u, a, 0, a, 0, 4, &error), QSF_E_IO);
    CHECK_EQ(d->read_start(u, a, 0, &word, 4, &id, &error), QSF_E_IO);
    CHECK_EQ(d->submit(u, NULL, 0, &error), QSF_E_IO);
    CHECK_EQ(d->encode(u, NULL, 0, &id, &error), QSF_E_IO);
    CHECK_EQ(d->submit_encoded(u, 1, &error), QSF_E_IO);
    d->release(u, a);
    d->lose(u);
    d->close(u);
    /* and with everything outstanding at its end */
    if (!(d = device_open())) return;
    const qsf_device_id c = buffer_of(d, QSF_DEVICE_STORAGE, 1024);
    CHECK_EQ(d->pipeline_new(d->user, &s, &p, &error), QSF_OK);
    CHECK_EQ(d->read_start(d->user, c, 0, &word, 4, &r, &error), QSF_OK);
    d->close(d->user);
    CHECK_EQ(word, 5);
}

TEST(a_device_outlives_the_list)
{
    qsf_devices *list = NULL;
    qsf_device *d = NULL;
    uint32_t word = 77;
    CHECK_EQ(qsf_devices_open(NULL, library, &list, &error), QSF_OK);
    if (!list) return;
    CHECK_EQ(list->open(list, 0, &d, &error), QSF_OK);
    qsf_devices_close(list);
    if (!d) return;
    const qsf_device_id a = buffer_of(d, QSF_DEVICE_STORAGE, 4);
    CHECK_EQ(d->write(d->user, a, 0, &word, 4, &error), QSF_OK);
    word = 0;
    read_back(d, a, 0, &word, 4);
    CHECK_EQ(word, 77);
    d->close(d->user);
}

static const char *folder;
static char path[2048];

static void on_library(const char *name)
{
    static const struct { const char *name; void (*fn)(void); } tests[] = {
#define ROW(name) { #name, name }
        ROW(devices_have_limits), ROW(bytes_come_back), ROW(dispatches_run_in_order),
        ROW(wgsl_errors_have_text_and_line), ROW(wrong_arguments_are_refused), ROW(many_reads_at_once),
        ROW(two_devices_are_independent), ROW(a_full_device_is_reported), ROW(a_lost_device_hangs_nobody),
        ROW(a_device_outlives_the_list),
#undef ROW
    };
    for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++) {
        char full[128];
        snprintf(full, sizeof full, "%s.%s", name, tests[i].name);
        test_run(full, tests[i].fn);
    }
}

/* Reported, but never a failure: whether the packages of others can be had is not ours. */
#define NOT_HAD(why) do { printf("  skipped: %s: %s\n", path, why); test_skipped_count++; return; } while (0)

TEST(library_has_a_device)
{
    if (!folder) NOT_HAD("QSF_WEBGPU_DIR is not set; tools/get-webgpu.sh fetches WebGPU libraries");
    FILE *there = fopen(path, "rb");
    if (!there) NOT_HAD("the folder of tools/get-webgpu.sh lacks this library");
    fclose(there);
    CHECK_EQ(qsf_devices_open(NULL, path, &found, &error), QSF_OK);
    if (!found) {
        printf("      %s\n", error.text);
        return;
    }
    library = path;
    if (!found->n) NOT_HAD("it finds no adapter: no GPU, no SwiftShader (Debian's chromium-common)");
}

int main(int argc, char **argv)
{
    static const char *const files[][2] = { { "dawn", "libwebgpu_dawn.so" },
                                            { "wgpu", "libwgpu_native.so" } };
    test_begin(argc, argv);
    folder = getenv("QSF_WEBGPU_DIR");
    for (int i = 0; i < 2; i++) {
        char name[64];
        const char *only = test_filter;
        snprintf(path, sizeof path, "%s/%s", folder ? folder : ".", files[i][1]);
        snprintf(name, sizeof name, "%s.library_has_a_device", files[i][0]);
        found = NULL;
        test_filter = NULL;
        test_run(name, library_has_a_device);
        test_filter = only;
        if (found && found->n) on_library(files[i][0]);
        qsf_devices_close(found);
    }
    return test_end();
}
