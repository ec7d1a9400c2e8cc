/* Layers that stream from a real file: by every way of reading, with every read failing in turn,
 * and with the file changed under way.
 * SPDX-License-Identifier: MIT */
#include "native.h"         /* first: it chooses the system's interfaces */
#include "engine/context.h"
#include "make_tiny_qsf.h"
#include "test.h"

#include <stdatomic.h>

#if defined(_WIN32)
#  include <process.h>
#  define process_id() _getpid()
#else
#  include <sys/stat.h>
#  include <unistd.h>
#  if defined(__GLIBC__) && !defined(QSF_SANITIZED)
#    include <malloc.h>
#    define HAVE_HEAP_USED __GLIBC_PREREQ(2, 33)         /* mallinfo2 */
#  endif
#  define process_id() (int)getpid()
#endif

enum { TOKENS = 4, ROUNDS = 2 };

static const qsf_platform *os;
static char model_path[64], other_path[64];
static tiny_options tiny;
static uint64_t tight;              /* a budget in which layers stream, and */
static uint64_t mapped;             /* what reading from a mapping takes besides */
static float *right;                /* [n_vocab] logits after the tokens, all in memory */
static const int32_t tokens[TOKENS] = { 10, 200, 30, 4 };

/* ---- a table over the system's whose nth read fails ---- */

typedef enum fault_kind { FAULT_START, FAULT_END, FAULT_SHORT, FAULT_KINDS } fault_kind;

typedef struct faulty {
    qsf_platform table;
    fault_kind   kind;
    _Atomic long calls, open;       /* reads begun; reads not ended */
    long         fail_at;           /* 0: none fails */
    atomic_bool  failed;
} faulty;

typedef struct faulty_read {
    qsf_read *below;
    uint8_t  *dst;
    size_t    len;
    bool      fails;
} faulty_read;

static qsf_status faulty_start(void *user, qsf_file *f, uint64_t at, void *dst, size_t len, qsf_read **out)
{
    faulty *h = user;
    const bool fails = ++h->calls == h->fail_at;
    if (fails) h->failed = true;
    *out = NULL;
    if (fails && h->kind == FAULT_START) return QSF_E_IO;
    faulty_read *r = malloc(sizeof *r);
    *r = (faulty_read){ NULL, dst, len, fails };
    const qsf_status st = os->read_start(os->user, f, at, dst, len, &r->below);
    if (st) {
        free(r);
        return st;
    }
    h->open++;
    *out = (qsf_read *)(void *)r;
    return QSF_OK;
}

static qsf_status faulty_end(faulty *h, faulty_read *r, qsf_status st)
{
    if (st == QSF_PENDING) return st;
    if (r->fails) {
        if (h->kind == FAULT_SHORT) memset(r->dst + r->len / 2, 0xa5, r->len - r->len / 2);
        st = QSF_E_IO;
    }
    free(r);
    h->open--;
    return st;
}

static qsf_status faulty_poll(void *user, qsf_read *q)
{
    faulty_read *r = (faulty_read *)(void *)q;
    return faulty_end(user, r, os->read_poll(os->user, r->below));
}

static qsf_status faulty_wait(void *user, qsf_read *q)
{
    faulty_read *r = (faulty_read *)(void *)q;
    return faulty_end(user, r, os->read_wait(os->user, r->below));
}

/* The other members do not look at their user. */
static void faulty_init(faulty *h)
{
    memset(h, 0, sizeof *h);
    h->table = *os;
    h->table.user = h;
    h->table.read_start = faulty_start;
    h->table.read_poll = faulty_poll;
    h->table.read_wait = faulty_wait;
}

/* ---- the model ---- */

typedef struct opened {
    qsf_model   *m;
    qsf_context *c;
    qsf_error    error;
} opened;

static qsf_context_options file_options(uint64_t budget)
{
    qsf_context_options o;
    qsf_context_defaults(&o);
    o.n_ctx = 32;
    o.n_batch = 8;
    o.n_threads = 1;
    o.n_seqs = 1;
    o.ram_budget = budget;
    return o;
}

static qsf_context_options tight_options(qsf_io io)
{
    return file_options(tight + (io == QSF_IO_MMAP ? mapped : 0));
}

/* o NULL: the model alone. */
static qsf_status file_open(opened *f, const qsf_platform *p, qsf_io io, const qsf_context_options *o)
{
    qsf_model_options mo;
    *f = (opened){ 0 };
    qsf_model_defaults(&mo);
    mo.platform = p;
    mo.io = io;
    const qsf_status st = qsf_model_open(model_path, &mo, &f->m, &f->error);
    return st || !o ? st : qsf_context_new(f->m, o, &f->c, &f->error);
}

static void file_close(opened *f)
{
    qsf_context_free(f->c);
    qsf_model_close(f->m);
}

/* The tokens one by one, so that the layers stream as often. */
static qsf_status file_run(opened *f, bool *same)
{
    const float *logits = NULL;
    qsf_status st = qsf_seq_truncate(f->c, 0, 0);
    for (int i = 0; i < TOKENS && !st; i++) st = qsf_feed(f->c, 0, &tokens[i], 1, &logits);
    if (st) qsf_fail(&f->error, st, "%s", qsf_last_error(f->c));
    *same = !st && !memcmp(logits, right, tiny.hp.n_vocab * sizeof *right);
    return st;
}

/* Layers of more than 256 KB, because large reads go past the page cache. */
static bool make_model(void)
{
    opened f;
    qsf_plan plan = { .size = sizeof plan };
    const float *logits;
    tiny = tiny_defaults();
    tiny.vocab = QSF_VOCAB_NONE;
    tiny.hp.n_layers = 5;
    tiny.type = QSF_T_8BIT;
    tiny.hp.n_embd = 192;
    tiny.hp.n_ff = 320;
    tiny.hp.n_heads = 6;
    tiny.hp.n_kv_heads = 3;
    tiny.hp.head_dim = 32;
    snprintf(model_path, sizeof model_path, "qsf-stream-file-%d.qsf", process_id());
    snprintf(other_path, sizeof other_path, "qsf-stream-file-%d.other", process_id());
    if (tiny_write(os, model_path, &tiny, &f.error)) {
        test_fail(__FILE__, __LINE__, f.error.text);
        return false;
    }
    qsf_context_options o = file_options(0);
    if (file_open(&f, os, QSF_IO_AUTO, &o)) {
        test_fail(__FILE__, __LINE__, f.error.text);
        return false;
    }
    qsf_context_get_plan(f.c, &plan);
    tight = plan.total - 300000;
    right = malloc(tiny.hp.n_vocab * sizeof *right);
    for (int i = 0; i < TOKENS; i++) CHECK_EQ(qsf_feed(f.c, 0, &tokens[i], 1, &logits), QSF_OK);
    memcpy(right, logits, tiny.hp.n_vocab * sizeof *right);
    file_close(&f);
    const uint64_t total = plan.total;
    const qsf_status st = file_open(&f, os, QSF_IO_MMAP, NULL);
    CHECK(st == QSF_OK || st == QSF_E_UNSUPPORTED);            /* Linux has it, not an emulated one */
    if (!st) CHECK_EQ(qsf_context_plan(f.m, &o, &plan, &f.error), QSF_OK);
    mapped = plan.total - total;
    file_close(&f);
    return true;
}

static const qsf_io ways[] = { QSF_IO_AUTO, QSF_IO_URING, QSF_IO_PREAD, QSF_IO_MMAP };
static const char *const way_names[] = { "auto", "uring", "pread", "mmap" };

/* ---- tests ---- */

TEST(every_way_of_reading_gives_the_resident_logits)
{
    for (int w = 0; w < 4; w++)
        for (int every = 0; every < 2; every++) {
            opened f;
            qsf_stats s = { .size = sizeof s };
            qsf_plan plan = { .size = sizeof plan };
            bool same;
            qsf_context_options o = tight_options(ways[w]);
            o.check_every = every;
            const qsf_status st = file_open(&f, os, ways[w], &o);
            if (st == QSF_E_UNSUPPORTED && w > 0) {
                printf("      %s is not on this machine\n", way_names[w]);
                CHECK(strstr(f.error.text, way_names[w]) != NULL);
                file_close(&f);
                continue;
            }
            CHECK_EQ(st, QSF_OK);
            if (st) return;
            qsf_context_get_plan(f.c, &plan);
            CHECK(!plan.resident && plan.n_slots > 0);
            CHECK_EQ(file_run(&f, &same), QSF_OK);
            CHECK(same);
            qsf_context_get_stats(f.c, &s);
            CHECK(s.ns_check > 0 && s.bytes_read > 0 && s.ns_read > 0 && s.io && s.overlap >= 0
                  && s.overlap <= 1);
            if (!every) printf("      %s: %s\n", way_names[w], s.io);
            qsf_context_reset_stats(f.c);
            CHECK_EQ(file_run(&f, &same), QSF_OK);
            CHECK(same);
            qsf_context_get_stats(f.c, &s);
            CHECK(s.bytes_read > 0 && (s.ns_check > 0) == (every != 0));
            file_close(&f);
        }
}

#if HAVE_HEAP_USED
/* What the program's heap holds: of all threads, with what the C library keeps for itself. */
static size_t heap_used(void) { return mallinfo2().uordblks + mallinfo2().hblkhd; }

/* The table's own memory is counted by plan_test.c; here it is what lies below the table. */
TEST(nothing_is_taken_of_the_heap_after_the_beginning)
{
    for (int w = 0; w < 3; w++) {           /* mmap's requests come and go */
        opened f;
        bool same;
        const qsf_context_options o = file_options(tight);
        const qsf_status st = file_open(&f, os, ways[w], &o);
        if (!st) {
            const size_t before = heap_used();
            CHECK_EQ(file_run(&f, &same), QSF_OK);
            CHECK(same);
            CHECK_EQ(heap_used(), before);
        } else {
            CHECK_EQ(st, QSF_E_UNSUPPORTED);
        }
        file_close(&f);
    }
}
#endif

TEST(every_read_may_fail)
{
    for (int kind = 0; kind < FAULT_KINDS; kind++)
        for (long n = 1;; n += TEST_EVERY) {
            faulty h;
            opened f;
            bool same = false;
            const qsf_context_options o = file_options(tight);
            faulty_init(&h);
            h.kind = (fault_kind)kind;
            h.fail_at = n;
            qsf_status st = file_open(&f, &h.table, QSF_IO_AUTO, &o);
            const bool ready = !st;
            for (int i = 0; ready && i < ROUNDS && !st; i++) {
                st = file_run(&f, &same);
                if (!st) CHECK(same);       /* a read ahead that failed is made again in time */
            }
            if (st) CHECK(st == QSF_E_IO && f.error.status == st && f.error.text[0] && h.failed);
            if (st && ready) {              /* and it can be used again */
                CHECK_EQ(file_run(&f, &same), QSF_OK);
                CHECK(same);
            }
            file_close(&f);
            CHECK_EQ(h.open, 0);
            if (test_failed) printf("      kind %d, read %ld\n", kind, n);
            if (test_failed || !h.failed) break;
        }
}

TEST(every_budget_works_or_says_which_would)
{
    opened f;
    bool same;
    const uint64_t most = tight + 1000000;
    const uint64_t small[] = { 1, 2, 4095, 65536 };
    int worked = 0, refused = 0;
    for (uint64_t i = 0; i < 44 && !test_failed; i += TEST_EVERY) {
        const uint64_t budget = i < 4 ? small[i] : most * (i - 3) / 40;
        const qsf_context_options o = file_options(budget);
        const qsf_status st = file_open(&f, os, QSF_IO_AUTO, &o);
        if (st == QSF_OK) {
            worked++;
            qsf_plan plan = { .size = sizeof plan };
            qsf_context_get_plan(f.c, &plan);
            CHECK_EQ(file_run(&f, &same), QSF_OK);
            CHECK(same || plan.kv_type != QSF_KV_Q8);
        } else {
            refused++;
            CHECK_EQ(st, QSF_E_BUDGET);
            CHECK(strstr(f.error.text, "at least") != NULL);
            CHECK_EQ(worked, 0);            /* none fails where a smaller one works */
        }
        file_close(&f);
        if (test_failed) printf("      budget %llu\n", (unsigned long long)budget);
    }
    CHECK(worked > 0 && refused > 0);
}

#if !defined(_WIN32)        /* there an open file cannot be written to or deleted */
static uint8_t *model;      /* the file's bytes */
static size_t model_len;

/* The model again, after something happened to its file. */
static bool file_restore(void)
{
    remove(model_path);
    FILE *f = fopen(model_path, "wb");
    const bool ok = f && fwrite(model, 1, model_len, f) == model_len;
    if (f) fclose(f);
    CHECK(ok);
    return ok;
}

static bool file_keep(void)
{
    FILE *f = fopen(model_path, "rb");
    CHECK(f != NULL);
    if (!f) return false;
    fseek(f, 0, SEEK_END);
    model_len = (size_t)ftell(f);
    rewind(f);
    model = malloc(model_len);
    const bool ok = fread(model, 1, model_len, f) == model_len;
    fclose(f);
    return ok;
}

typedef enum change { CUT, CUT_TO_NOTHING, OVERWRITTEN, GROWN, N_ERRORS, REPLACED = N_ERRORS, DELETED,
                      UNREADABLE, N_CHANGES } change;

static void change_file(change kind)
{
    FILE *f = NULL;
    struct stat s;
    CHECK_EQ(stat(model_path, &s), 0);
    switch (kind) {
    case CUT: CHECK_EQ(truncate(model_path, s.st_size / 3), 0); break;
    case CUT_TO_NOTHING: CHECK_EQ(truncate(model_path, 0), 0); break;
    case OVERWRITTEN:
    case GROWN:
        f = fopen(model_path, "r+b");
        CHECK(f != NULL);
        fseek(f, kind == GROWN ? 0 : (long)(s.st_size / 2), kind == GROWN ? SEEK_END : SEEK_SET);
        fputc('x', f);
        fclose(f);
        break;
    case REPLACED:
        f = fopen(other_path, "wb");
        fputs("another file", f);
        fclose(f);
        CHECK_EQ(rename(other_path, model_path), 0);
        break;
    case DELETED: CHECK_EQ(unlink(model_path), 0); break;
    case UNREADABLE: CHECK_EQ(chmod(model_path, 0), 0); break;
    default: break;
    }
}

TEST(a_file_that_changes_while_it_streams_is_an_error_and_one_that_is_replaced_is_not)
{
    if (!file_keep()) return;
    for (int w = 0; w < 4; w++)
        for (int kind = 0; kind < N_CHANGES && !test_failed; kind += TEST_EVERY) {
            opened f;
            bool same = false;
            const qsf_row row = { 0, 10, true };
            const qsf_context_options o = tight_options(ways[w]);
            if (!file_restore()) return;
            const qsf_status opening = file_open(&f, os, ways[w], &o);
            if (opening == QSF_E_UNSUPPORTED && w > 0) {
                file_close(&f);
                break;
            }
            CHECK_EQ(opening, QSF_OK);
            if (opening) return;
            CHECK_EQ(file_run(&f, &same), QSF_OK);
            CHECK_EQ(qsf_batch_begin(f.c, &row, 1), QSF_OK);
            for (int i = 0; i < 2; i++) CHECK_EQ(qsf_step(f.c, NULL), QSF_PENDING);
            change_file((change)kind);
            for (int round = 0; round < 2; round++) {
                const qsf_status st = file_run(&f, &same);
                if (kind < N_ERRORS) {
                    CHECK_EQ(st, QSF_E_CORRUPT);
                    CHECK(strstr(f.error.text, "changed while it was in use") != NULL);
                } else {
                    CHECK_EQ(st, QSF_OK);
                    CHECK(same);
                }
            }
            file_close(&f);
            if (test_failed) printf("      %s, change %d\n", way_names[w], kind);
        }
    (void)file_restore();
    free(model);
}
#endif

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    os = qsf_platform_native();
    if (!make_model()) return 1;
    RUN(every_way_of_reading_gives_the_resident_logits);
#if HAVE_HEAP_USED
    RUN(nothing_is_taken_of_the_heap_after_the_beginning);
#endif
    RUN(every_read_may_fail);
    RUN(every_budget_works_or_says_which_would);
#if !defined(_WIN32)
    RUN(a_file_that_changes_while_it_streams_is_an_error_and_one_that_is_replaced_is_not);
#endif
    free(right);
    remove(model_path);
    return test_end();
}
