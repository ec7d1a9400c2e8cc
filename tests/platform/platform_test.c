/* The native platform: files whole or not at all, reads in any order, memory, threads, clock,
 * processor.
 * SPDX-License-Identifier: MIT */
#include "native.h"
#include "test.h"

#include <stdatomic.h>

#if defined(_WIN32)
#  include <direct.h>
#  include <process.h>
#  define make_dir(p) _mkdir(p)
#  include <windows.h>
#  define remove_dir(p) _rmdir(p)
#  define process_id() _getpid()
#else
#  include <pthread.h>
#  include <sys/stat.h>
#  include <unistd.h>
#  define make_dir(p) mkdir(p, 0777)
#  define remove_dir(p) rmdir(p)
#  define remove_file(p) unlink(p)
#  define process_id() (int)getpid()
#endif

static const qsf_platform *os;

#if defined(_WIN32)
static void remove_file(const char *name)
{
    wchar_t *w = qsf_native_wide(name);
    DeleteFileW(w);
    free(w);
}
#endif
static char dir[64], path[128], other[128];

static void make_paths(void)
{
    snprintf(dir, sizeof dir, "qsf-platform-test-%d", process_id());
    snprintf(path, sizeof path, "%s/d\xc3\xa4tei.bin", dir);        /* a name that is not ASCII */
    snprintf(other, sizeof other, "%s/other", dir);
    make_dir(dir);
}

static uint8_t byte_at(uint64_t at) { return (uint8_t)(at * 2654435761u >> 13); }

/* A file of len known bytes, written in pieces from its end. */
static qsf_status write_known(const char *name, uint64_t len, bool commit)
{
    qsf_out *o;
    qsf_status st = os->create(os->user, name, &o);
    if (st) return st;
    uint8_t *piece = malloc(65536);
    for (uint64_t end = len; end && !st;) {
        const size_t n = end < 65536 ? (size_t)end : 65536;
        end -= n;
        for (size_t i = 0; i < n; i++) piece[i] = byte_at(end + i);
        st = os->write(os->user, o, end, piece, n);
    }
    free(piece);
    if (st || !commit) os->abort(os->user, o);
    else st = os->commit(os->user, o);
    return st;
}

static bool known(const uint8_t *p, uint64_t at, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (p[i] != byte_at(at + i)) return false;
    return true;
}

static bool exists(const char *name)
{
    qsf_file *f;
    if (os->open(os->user, name, &f)) return false;
    os->close(os->user, f);
    return true;
}

TEST(table_is_whole)
{
    CHECK_EQ(os->size, sizeof(qsf_platform));
    CHECK(os->open && os->close && os->length && os->read_start && os->read_poll && os->read_wait);
    CHECK(os->create && os->write && os->commit && os->abort && os->mem_alloc && os->mem_free);
    CHECK(os->cpu_count && os->thread_start && os->thread_join && os->wait32 && os->wake32);
    CHECK(os->now_ns && os->cpu_features && os->env && os->same && os->why);
}

TEST(open_says_what_is_wrong)
{
    qsf_file *f = (qsf_file *)1;
    CHECK_EQ(os->open(os->user, "no/such/file", &f), QSF_E_NOT_FOUND);
    CHECK(f == NULL);
    f = (qsf_file *)1;
    CHECK(os->open(os->user, dir, &f) != QSF_OK);                   /* a directory */
    CHECK(f == NULL);
    os->close(os->user, NULL);
}

TEST(commit_makes_the_file_and_abort_does_not)
{
    CHECK_EQ(write_known(path, 100000, false), QSF_OK);
    CHECK(!exists(path));
    CHECK_EQ(write_known(path, 100000, true), QSF_OK);
    CHECK(exists(path));
    CHECK_EQ(write_known(path, 5, false), QSF_OK);                  /* the old one stays */
    qsf_file *f;
    uint64_t len = 0;
    CHECK_EQ(os->open(os->user, path, &f), QSF_OK);
    CHECK_EQ(os->length(os->user, f, &len), QSF_OK);
    CHECK_EQ(len, 100000);
    os->close(os->user, f);
    CHECK_EQ(write_known(path, 7, true), QSF_OK);                   /* replaced */
    CHECK_EQ(os->open(os->user, path, &f), QSF_OK);
    CHECK_EQ(os->length(os->user, f, &len), QSF_OK);
    CHECK_EQ(len, 7);
    os->close(os->user, f);
    os->abort(os->user, NULL);
}

TEST(create_refuses_what_is_no_place_for_a_file)
{
    qsf_out *o = (qsf_out *)1;
    CHECK(os->create(os->user, "no/such/folder/file", &o) != QSF_OK);
    CHECK(o == NULL);
    o = (qsf_out *)1;
    CHECK(os->create(os->user, dir, &o) != QSF_OK);
    CHECK(o == NULL);
#if !defined(_WIN32)
    CHECK(os->create(os->user, "/dev/null", &o) != QSF_OK);         /* a rename would replace the device */
#endif
}

static void write_bytes(const char *name, const char *text)
{
#if defined(_WIN32)
    wchar_t *w = qsf_native_wide(name);
    FILE *f = _wfopen(w, L"wb");
    free(w);
#else
    FILE *f = fopen(name, "wb");
#endif
    CHECK(f != NULL);
    if (!f) return;
    fputs(text, f);
    fclose(f);
}

TEST(a_path_is_told_from_another_and_explained)
{
        write_bytes(path, "a");
    write_bytes(other, "a");
    CHECK(os->same(os->user, path, path) && !os->same(os->user, path, other) && os->same(os->user, dir, dir));
    CHECK(!os->same(os->user, path, "no/such/file") && !os->same(os->user, "no/such/file", "no/such/file"));
    CHECK(os->why(os->user, path, false) == NULL && os->why(os->user, path, true) == NULL);
    CHECK_STR(os->why(os->user, dir, false), "is a directory");
    CHECK_STR(os->why(os->user, dir, true), "is a directory");
    CHECK_STR(os->why(os->user, "no/such/file", false), "no such file or directory");
    CHECK_STR(os->why(os->user, "no/such/file", true), "its directory does not exist");
#if !defined(_WIN32)
    remove_file(other);
    CHECK_EQ(symlink(strrchr(path, '/') + 1, other), 0);
    CHECK(os->same(os->user, path, other) && os->same(os->user, other, path));
    remove_file(other);
    CHECK_EQ(link(path, other), 0);
    CHECK(os->same(os->user, path, other));
    remove_file(other);
    CHECK_EQ(mkfifo(other, 0600), 0);
    CHECK_STR(os->why(os->user, other, false), "is a FIFO (a pipe), not a file");
    CHECK_STR(os->why(os->user, "/dev/null", true), "is a device, not a file");
#endif
    remove_file(other);
    remove_file(path);
}

/* What a killed process left goes with the next file of that name; what is being written, and what
 * is not ours, stays. */
TEST(create_clears_what_nobody_writes)
{
    static const struct { const char *end; bool goes; } left[] = {
        { ".2000000000-0.tmp", true }, { ".2000000000-12.tmp", true }, { ".2000000000-0.unmeasured", true },
        { ".2000000000-0.unmeasured.2000000000-0.tmp", true },
        { ".0-0.tmp", false }, { ".tmp", false }, { ".7.tmp", false }, { ".7-0.tmp.old", false },
        { ".7-x.tmp", false }, { ".99999999999-0.tmp", false },
        { "2.2000000000-0.tmp", false }, { ".7-0.unmeasured.x", false },
    };
    char name[200];
    qsf_out *a, *b;
    CHECK_EQ(os->create(os->user, path, &a), QSF_OK);
    CHECK_EQ(os->write(os->user, a, 0, "first", 5), QSF_OK);
    for (size_t i = 0; i < sizeof left / sizeof left[0]; i++) {
        snprintf(name, sizeof name, "%s%s", path, left[i].end);
        write_bytes(name, "left");
    }
    CHECK_EQ(os->create(os->user, path, &b), QSF_OK);
    CHECK_EQ(os->write(os->user, b, 0, "second", 6), QSF_OK);
    for (size_t i = 0; i < sizeof left / sizeof left[0]; i++) {
        snprintf(name, sizeof name, "%s%s", path, left[i].end);
        if (exists(name) != !left[i].goes) printf("      %s\n", left[i].end);
        CHECK_EQ(exists(name), !left[i].goes);
        if (exists(name)) remove_file(name);
    }
    CHECK_EQ(os->commit(os->user, b), QSF_OK);
    CHECK_EQ(os->commit(os->user, a), QSF_OK);          /* it was not deleted */
    CHECK(exists(path));
    remove_file(path);
}

/* Two at once have two names; making the file that they are for leaves them,
 * as their process lives. */
TEST(a_file_between_is_its_own)
{
    char a[200], b[200];
    qsf_out *o;
    CHECK_EQ(os->between(os->user, path, a, sizeof a), QSF_OK);
    CHECK_EQ(os->between(os->user, path, b, sizeof b), QSF_OK);
    CHECK(exists(a) && exists(b) && strcmp(a, b) && !strncmp(a, path, strlen(path)));
    CHECK_EQ(os->create(os->user, path, &o), QSF_OK);
    CHECK_EQ(os->commit(os->user, o), QSF_OK);
    CHECK_EQ(os->create(os->user, a, &o), QSF_OK);
    CHECK_EQ(os->commit(os->user, o), QSF_OK);
    CHECK(exists(a) && exists(b));
    os->remove(os->user, a);
    os->remove(os->user, b);
    CHECK(!exists(a) && !exists(b));
    CHECK_EQ(os->between(os->user, path, a, 10), QSF_E_ARGUMENT);
    CHECK_EQ(os->between(os->user, "no/such/folder/file", a, sizeof a), QSF_E_NOT_FOUND);
    remove_file(path);
}

TEST(reads_in_any_order)
{
    enum { LEN = 3000017, READS = 40, PIECE = 70001 };
    CHECK_EQ(write_known(path, LEN, true), QSF_OK);
    qsf_file *f;
    CHECK_EQ(os->open(os->user, path, &f), QSF_OK);
    uint8_t *dst = malloc((size_t)READS * PIECE);
    qsf_read *r[READS];
    for (uint64_t i = 0; i < READS; i++)
        CHECK_EQ(os->read_start(os->user, f, i * 73007, dst + i * PIECE, PIECE, &r[i]), QSF_OK);
    for (uint64_t k = 0; k < READS; k++) {
        /* ended in another order than begun, by both ways */
        const uint64_t i = k * 17 % READS;
        qsf_status st = QSF_PENDING;
        if (k % 2) while ((st = os->read_poll(os->user, r[i])) == QSF_PENDING) continue;
        else st = os->read_wait(os->user, r[i]);
        CHECK_EQ(st, QSF_OK);
        CHECK(known(dst + i * PIECE, i * 73007, PIECE));
    }
    free(dst);
    os->close(os->user, f);
}

static qsf_status read_now(qsf_file *f, uint64_t at, void *dst, size_t len)
{
    qsf_read *r;
    const qsf_status st = os->read_start(os->user, f, at, dst, len, &r);
    return st ? st : os->read_wait(os->user, r);
}

TEST(a_read_past_the_end_is_an_error)
{
    CHECK_EQ(write_known(path, 1000, true), QSF_OK);
    qsf_file *f;
    CHECK_EQ(os->open(os->user, path, &f), QSF_OK);
    uint8_t dst[64];
    CHECK_EQ(read_now(f, 936, dst, 64), QSF_OK);
    CHECK(known(dst, 936, 64));
    CHECK_EQ(read_now(f, 937, dst, 64), QSF_E_IO);
    CHECK_EQ(read_now(f, 5000, dst, 1), QSF_E_IO);
    CHECK_EQ(read_now(f, UINT64_MAX - 3, dst, 64), QSF_E_IO);
    CHECK_EQ(read_now(f, 1000, dst, 0), QSF_OK);
    os->close(os->user, f);
}

TEST(close_ends_running_reads)
{
    enum { LEN = 1 << 20, READS = 24 };
    CHECK_EQ(write_known(path, LEN, true), QSF_OK);
    uint8_t *dst = malloc((size_t)LEN * READS);
    for (int round = 0; round < 20; round++) {
        qsf_file *f;
        qsf_read *r;
        CHECK_EQ(os->open(os->user, path, &f), QSF_OK);
        for (size_t i = 0; i < READS; i++)
            CHECK_EQ(os->read_start(os->user, f, 0, dst + i * LEN, LEN, &r), QSF_OK);
        os->close(os->user, f);
        /* ours again: the thread sanitizer watches */
        memset(dst, 0, (size_t)LEN * READS);
    }
    free(dst);
}

/* Threads that read one file at once, as contexts that share a model do. */
static qsf_file *shared_file;
static _Atomic uint32_t wrong_reads;
static void read_much(void *arg)
{
    uint8_t dst[30000];
    for (uint64_t i = 0; i < 200; i++) {
        const uint64_t at = (i * 7919 + *(uint64_t *)arg * 104729) % 900000;
        if (read_now(shared_file, at, dst, sizeof dst) || !known(dst, at, sizeof dst)) wrong_reads++;
    }
}

TEST(threads_read_one_file_at_once)
{
    qsf_thread *t[4];
    uint64_t number[4];
    CHECK_EQ(write_known(path, 1000000, true), QSF_OK);
    CHECK_EQ(os->open(os->user, path, &shared_file), QSF_OK);
    for (uint64_t i = 0; i < 4; i++) {
        number[i] = i;
        CHECK_EQ(os->thread_start(os->user, read_much, &number[i], &t[i]), QSF_OK);
    }
    for (int i = 0; i < 4; i++) os->thread_join(os->user, t[i]);
    CHECK_EQ(wrong_reads, 0);
    os->close(os->user, shared_file);
}

#if !defined(_WIN32)
/* All readers, also those that file_posix.c would not take here. */
static void check_reader(const native_reader *how)
{
    void *state;
    FILE *f = fopen(path, "rb");
    const qsf_status st = how->open(fileno(f), false, &state);
    if (st == QSF_E_UNSUPPORTED) printf("      %s is not on this machine\n", how->name);
    else {
        CHECK_EQ(st, QSF_OK);
        uint8_t dst[4096];
        for (uint64_t i = 0; i < 100; i++) {
            qsf_read *r;
            CHECK_EQ(how->start(state, i * 900, dst, sizeof dst, &r), QSF_OK);
            CHECK_EQ(how->wait(r), QSF_OK);
            CHECK(known(dst, i * 900, sizeof dst));
        }
        how->close(state);
    }
    fclose(f);
}

TEST(every_reader_reads)
{
    CHECK_EQ(write_known(path, 100000, true), QSF_OK);
    check_reader(&qsf_native_reader_pread);
    check_reader(&qsf_native_reader_uring);
    check_reader(&qsf_native_reader_mmap);
}

TEST(a_link_stays_a_link)
{
    CHECK_EQ(write_known(path, 10, true), QSF_OK);
    CHECK_EQ(symlink(strrchr(path, '/') + 1, other), 0);
    CHECK_EQ(write_known(other, 20, true), QSF_OK);
    struct stat s;
    CHECK_EQ(lstat(other, &s), 0);
    CHECK(S_ISLNK(s.st_mode));
    CHECK_EQ(stat(path, &s), 0);
    CHECK_EQ(s.st_size, 20);
    unlink(other);
}
#endif

static bool read_by(qsf_file *f, qsf_io io, bool streams, const char **how)
{
    const qsf_status st = os->read_by(os->user, f, io, streams, how);
    if (st) CHECK(st == QSF_E_UNSUPPORTED && io != QSF_IO_AUTO);
    else CHECK(*how != NULL);
    return !st;
}

/* Aligned or not, small or large, up to the file's end, through the page cache or past it. */
TEST(every_way_reads_every_part)
{
    enum { LEN = 2500000 };
    static const struct { uint64_t at; size_t len, shift; } parts[] = {
        { 0, 1 << 20, 0 }, { 4096, 1 << 20, 0 }, { 4096, 1 << 20, 64 }, { 4097, 1 << 20, 0 },
        { 100, 1200000, 100 }, { 5000, 300000, 904 }, { 7, 5, 3 }, { 0, LEN, 32 },
        { LEN - 300000, 300000, 0 }, { LEN / 4096 * 4096 - (1 << 19), LEN % 4096 + (1 << 19), 0 },
        { 12288, 262144, 0 }, { 12288, 262143, 0 }, { 100, 300000, 100 }, { 96, 524288, 4000 },
        { 4095, 1048577, 1 }, { 32, 280000, 0 }, { 4064, 262144, 4095 }, { LEN - 400001, 400001, 17 },
    };
    uint8_t *mem;
    CHECK_EQ(write_known(path, LEN, true), QSF_OK);
    CHECK((mem = os->mem_alloc(os->user, LEN + 4096)) != NULL);
    for (int way = 0; way < 8; way++) {
        qsf_file *f;
        const char *how = NULL;
        CHECK_EQ(os->open(os->user, path, &f), QSF_OK);
        if (read_by(f, (qsf_io)(way / 2), way % 2, &how)) {
            printf("      way %d%s: %s\n", way / 2, way % 2 ? ", streams" : "", how);
            for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
                memset(mem, 0xee, LEN + 4096);
                CHECK_EQ(read_now(f, parts[i].at, mem + parts[i].shift, parts[i].len), QSF_OK);
                CHECK(known(mem + parts[i].shift, parts[i].at, parts[i].len));
                CHECK(mem[parts[i].shift + parts[i].len] == 0xee
                      && (parts[i].shift == 0 || mem[parts[i].shift - 1] == 0xee));
            }
            CHECK_EQ(read_now(f, LEN - 300000, mem, 300001), QSF_E_IO);
            CHECK_EQ(read_now(f, LEN / 4096 * 4096 - (1 << 20), mem, (1 << 20) + 4096), QSF_E_IO);
        }
        os->close(os->user, f);
    }
    os->mem_free(os->user, mem, LEN + 4096);
}

/* Those that io_uring gives to several threads of the system. */
TEST(long_reads_are_whole)
{
    enum { LEN = (18 << 20) + 5, READS = 6 };
    uint8_t *mem[READS];
    CHECK_EQ(write_known(path, LEN, true), QSF_OK);
    for (int i = 0; i < READS; i++) CHECK((mem[i] = os->mem_alloc(os->user, LEN + 1)) != NULL);
    for (int way = 0; way < 4; way++) {
        qsf_file *f;
        qsf_read *r[READS];
        qsf_status begun[READS];
        const char *how = NULL;
        CHECK_EQ(os->open(os->user, path, &f), QSF_OK);
        if (read_by(f, (qsf_io)way, false, &how)) {
            for (uint64_t i = 0; i < READS; i++) {
                memset(mem[i], 0xee, LEN + 1);
                begun[i] = os->read_start(os->user, f, i, mem[i], LEN - i + i / (READS - 1), &r[i]);
            }
            for (uint64_t i = READS; i-- > 0;) {
                qsf_status st = begun[i];
                if (!st && i % 2) while ((st = os->read_poll(os->user, r[i])) == QSF_PENDING) continue;
                else if (!st) st = os->read_wait(os->user, r[i]);
                CHECK_EQ(st, i == READS - 1 ? QSF_E_IO : QSF_OK);     /* past the end by a byte */
                CHECK((st || known(mem[i], i, LEN - i)) && mem[i][LEN] == 0xee);
            }
            CHECK_EQ(read_now(f, LEN - 64, mem[0], 64), QSF_OK);
            CHECK_EQ(os->read_start(os->user, f, 0, mem[0], LEN, &r[0]), QSF_OK);
        }
        os->close(os->user, f);                                 /* ends what runs */
    }
    for (int i = 0; i < READS; i++) os->mem_free(os->user, mem[i], LEN + 1);
}

/* Pages that a mapping brought in, and those around them, do not stay the process's: a budget would
 * be passed with rows from all over the file. */
TEST(rows_from_a_mapping_leave_no_pages_behind)
{
#if defined(__linux__) && !defined(QSF_TEST_SLOW)
    enum { LEN = 12 << 20, STEP = 128 << 10 };
    qsf_usage before = { .size = sizeof before }, after = { .size = sizeof after };
    const char *how;
    uint8_t row[4000];
    qsf_file *f;
    CHECK_EQ(write_known(path, LEN, true), QSF_OK);
    CHECK_EQ(os->open(os->user, path, &f), QSF_OK);
    if (read_by(f, QSF_IO_MMAP, false, &how) && os->memory_used(os->user, &before)) {
        for (uint64_t at = 0; at < LEN; at += STEP) CHECK_EQ(read_now(f, at, row, sizeof row), QSF_OK);
        CHECK(os->memory_used(os->user, &after) && after.files < before.files + (1 << 20));
    }
    os->close(os->user, f);
#endif
}

TEST(memory_is_zeroed_and_aligned)
{
    static const size_t sizes[] = { 0, 1, 63, 64, 4096, 131071, 131072, 131073, 1 << 20, (4 << 20) - 1,
                                    4 << 20, (6 << 20) + 5, 64 << 20 };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        for (int round = 0; round < 3; round++) {                   /* later rounds get used memory back */
            uint8_t *p = os->mem_alloc(os->user, sizes[i]);
            CHECK(p != NULL);
            CHECK_EQ((uintptr_t)p % 64, 0);
            if (sizes[i] >= 131072) CHECK_EQ((uintptr_t)p % 4096, 0);
            bool zero = true;
            for (size_t k = 0; k < sizes[i]; k += 61) zero = zero && p[k] == 0;
            CHECK(zero);
            if (sizes[i]) memset(p, 0xa5, sizes[i]);
            os->mem_free(os->user, p, sizes[i]);
        }
    }
    os->mem_free(os->user, NULL, 5);
}

TEST(too_much_memory_is_null)
{
/* sanitizers stop the program instead */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && !defined(__clang__)
    CHECK(os->mem_alloc(os->user, SIZE_MAX - 100) == NULL);
    CHECK(os->mem_alloc(os->user, SIZE_MAX / 2 + 1) == NULL);
#endif
}

static _Atomic uint32_t word, woken;
static void sleeper(void *arg)
{
    (void)arg;
    while (atomic_load(&word) == 0) os->wait32(os->user, (uint32_t *)&word, 0, 1000000000u);
    woken++;
}

TEST(wake_wakes_every_waiter)
{
    enum { N = 8 };
    qsf_thread *t[N];
    for (int round = 0; round < 20; round++) {
        atomic_store(&word, 0);
        atomic_store(&woken, 0);
        for (int i = 0; i < N; i++) CHECK_EQ(os->thread_start(os->user, sleeper, NULL, &t[i]), QSF_OK);
        atomic_store(&word, 1);
        os->wake32(os->user, (uint32_t *)&word, UINT32_MAX);
        for (int i = 0; i < N; i++) os->thread_join(os->user, t[i]);
        CHECK_EQ(atomic_load(&woken), N);
    }
}

TEST(wait_ends_with_its_time)
{
    atomic_store(&word, 5);
    uint64_t begin = os->now_ns(os->user);
    os->wait32(os->user, (uint32_t *)&word, 4, 10000000000u);       /* another value: no waiting */
    CHECK(os->now_ns(os->user) - begin < 5000000000u);
    begin = os->now_ns(os->user);
    os->wait32(os->user, (uint32_t *)&word, 5, 20000000u);
    CHECK(os->now_ns(os->user) - begin < 5000000000u);
}

TEST(clock_never_goes_back)
{
    uint64_t last = os->now_ns(os->user);
    for (int i = 0; i < 100000; i++) {
        const uint64_t now = os->now_ns(os->user);
        CHECK(now >= last);
        last = now;
    }
}

TEST(processor_bundles_include_the_smaller_ones)
{
    const uint32_t has = os->cpu_features(os->user);
    printf("      cpu features 0x%x, %u processors\n", (unsigned)has, (unsigned)os->cpu_count(os->user));
    CHECK(os->cpu_count(os->user) >= 1);
    if (has & (QSF_CPU_AVX512_BF16 | QSF_CPU_AMX)) CHECK(has & QSF_CPU_AVX512);
    CHECK_EQ(os->cpu_features(os->user), has);      /* also asked a second time, for AMX */
    if (has & (QSF_CPU_AVX512 | QSF_CPU_AVXVNNI)) CHECK(has & QSF_CPU_AVX2);
    if (has & QSF_CPU_AVX2) CHECK(has & QSF_CPU_SSE42);
    if (has & (QSF_CPU_DOTPROD | QSF_CPU_I8MM)) CHECK(has & QSF_CPU_NEON);
}

TEST(environment_is_readable)
{
    CHECK(os->env(os->user, "QSF_SURELY_NOT_SET") == NULL);
    CHECK(os->env(os->user, "PATH") != NULL);
}

TEST(no_temporary_file_is_left)
{
    remove_file(path);
    CHECK_EQ(remove_dir(dir), 0);
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    os = qsf_platform_native();
    make_paths();
    RUN(table_is_whole);
    RUN(open_says_what_is_wrong);
    RUN(commit_makes_the_file_and_abort_does_not);
    RUN(create_refuses_what_is_no_place_for_a_file);
    RUN(a_path_is_told_from_another_and_explained);
    RUN(create_clears_what_nobody_writes);
    RUN(a_file_between_is_its_own);
    RUN(reads_in_any_order);
    RUN(a_read_past_the_end_is_an_error);
    RUN(close_ends_running_reads);
    RUN(threads_read_one_file_at_once);
#if !defined(_WIN32)
    RUN(every_reader_reads);
    RUN(a_link_stays_a_link);
#endif
    RUN(every_way_reads_every_part);
    RUN(long_reads_are_whole);
    RUN(rows_from_a_mapping_leave_no_pages_behind);
    RUN(memory_is_zeroed_and_aligned);
    RUN(too_much_memory_is_null);
    RUN(wake_wakes_every_waiter);
    RUN(wait_ends_with_its_time);
    RUN(clock_never_goes_back);
    RUN(processor_bundles_include_the_smaller_ones);
    RUN(environment_is_readable);
    RUN(no_temporary_file_is_left);
    return test_end();
}
