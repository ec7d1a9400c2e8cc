/* The files of --trace and --record.
 * SPDX-License-Identifier: MIT
 *
 * Events are collected as text and written when a batch is over, whole lines only.  The trace's end
 * is written after them each time, and the next write overwrites it: the file on disk is complete
 * JSON at any time, however the program ends, except that a kill in the middle of a write cuts a
 * line. */
#include "trace.h"

#include "base/base.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { TRACE_LINE = 1024, TRACE_TEXT = 1 << 18, TRACE_LANES = 64, TRACE_THREADS = 256 + 2,
       TRACE_NAMES = 512 };

typedef struct trace_file {
    const char *option, *path;
    FILE       *f;
    const char *end;             /* after all events; "" if lines do not need it */
    bool        seeks, began, failed;
    uint64_t    written;         /* bytes, without the end */
    size_t      len;
    char        text[TRACE_TEXT + TRACE_LINE];
} trace_file;

/* What one thread of the program computes: a process of the trace.  Contexts that take turns on a
 * thread share one. */
typedef struct trace_lane {
    const void *thread;
    bool        named[TRACE_THREADS];
    uint64_t    bytes;           /* of the products since the last operation */
    char        kernels[TRACE_NAMES];    /* and their names */
} trace_lane;

struct trace_files {
    atomic_flag busy;            /* one thread at a time: several models may compute at once */
    uint64_t    begin_ns;
    trace_file *trace, *record;  /* NULL: not asked for */
    unsigned    n_lanes, n_reads;
    trace_lane  lanes[TRACE_LANES];
};

/* ---- writing ---- */

static void file_failed(trace_file *f)
{
    fprintf(stderr, "%s %s: writing at byte %llu failed: %s\n", f->option, f->path,
            (unsigned long long)f->written, errno ? strerror(errno) : "a part of it was lost");
    f->failed = true;
}

static void file_flush(trace_file *f)
{
    if (f->failed || !f->len) return;
    errno = 0;
    const size_t end = f->seeks ? strlen(f->end) : 0;
    memcpy(f->text + f->len, f->end, end);
    if (fwrite(f->text, 1, f->len + end, f->f) != f->len + end) {     /* one write, unbuffered */
        file_failed(f);
        return;
    }
    f->written += f->len;
    f->len = 0;
    if (end) f->seeks = !fseek(f->f, -(long)end, SEEK_CUR);
}

/* len <= TRACE_LINE */
static void file_line(trace_file *f, const char *line, size_t len)
{
    if (f->len + len > TRACE_TEXT) file_flush(f);
    if (f->failed) return;
    memcpy(f->text + f->len, line, len);
    f->len += len;
}

/* Strings in it are our own names: they do not need escaping. */
static void file_print(trace_file *f, const char *format, ...) QSF_PRINTF(2, 3);
static void file_print(trace_file *f, const char *format, ...)
{
    char line[TRACE_LINE];
    va_list args;
    va_start(args, format);
    const int len = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (len > 0 && (size_t)len < sizeof line) file_line(f, line, (size_t)len);
}

static trace_file *trace_file_open(const char *option, const char *path, const char *begin, const char *end)
{
    trace_file *f = calloc(1, sizeof *f);
    if (!f) {
        fprintf(stderr, "%s %s: out of memory\n", option, path);
        return NULL;
    }
    errno = 0;
    *f = (trace_file){ .option = option, .path = path, .end = end, .f = fopen(path, "wb") };
    if (!f->f) {
        fprintf(stderr, "%s %s: cannot be created: %s\n", option, path, strerror(errno));
        free(f);
        return NULL;
    }
    setvbuf(f->f, NULL, _IONBF, 0);
    f->seeks = !fseek(f->f, 0, SEEK_CUR);
    file_line(f, begin, strlen(begin));
    return f;
}

static bool file_close(trace_file *f)
{
    if (!f) return true;
    if (!f->seeks) file_line(f, f->end, strlen(f->end));
    file_flush(f);
    errno = 0;
    if (fclose(f->f) && !f->failed) file_failed(f);
    const bool ok = !f->failed;
    free(f);
    return ok;
}

/* ---- the trace ---- */

/* An event is several lines' worth of prints: it is begun where there is room for all of it. */
static void event_begin(trace_file *f)
{
    if (f->len > TRACE_TEXT - 4 * TRACE_LINE) file_flush(f);
    file_line(f, f->began ? ",\n" : "\n", f->began ? 2 : 1);
    f->began = true;
}

static double us(uint64_t ns) { return (double)ns / 1e3; }

/* Microseconds since the file was opened. */
static double since(const trace_files *t, uint64_t ns) { return ns > t->begin_ns ? us(ns - t->begin_ns) : 0; }

static unsigned lane_of(trace_files *t)
{
    static _Thread_local char here;
    unsigned i = 0;
    while (i < t->n_lanes && t->lanes[i].thread != &here) i++;
    if (i < t->n_lanes) return i;
    if (i == TRACE_LANES) return 0;
    t->lanes[t->n_lanes++].thread = &here;
    event_begin(t->trace);
    file_print(t->trace, "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%u,\"tid\":0,\"args\":{\"name\":"
               "\"%s %u\"}}", i + 1, "engine", i + 1);
    return i;
}

static void lane_name(trace_files *t, unsigned lane, const qsf_record *r)
{
    const uint32_t thread = r->thread < TRACE_THREADS ? r->thread : TRACE_THREADS - 1;
    if (t->lanes[lane].named[thread]) return;
    t->lanes[lane].named[thread] = true;
    event_begin(t->trace);
    file_print(t->trace, "{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%u,\"tid\":%u,\"args\":{\"name\":"
               "\"%s%.0u\"}}", lane + 1, (unsigned)r->thread,
               !r->thread ? "computes" : r->type == QSF_RECORD_PREPARE ? "reads ahead" : "helps ",
               r->type == QSF_RECORD_PREPARE ? 0 : (unsigned)r->thread);
}

/* The kernels of an operation's products, each once, and their bytes. */
static void lane_product(trace_lane *l, const qsf_record *r)
{
    const size_t len = strlen(l->kernels), id = strlen(r->kernel_id);
    l->bytes += r->bytes;
    if (strstr(l->kernels, r->kernel_id) || len + id + 2 > sizeof l->kernels) return;
    if (len) memcpy(l->kernels + len, " ", 2);
    memcpy(l->kernels + len + (len > 0), r->kernel_id, id + 1);
}

static const char *category(qsf_record_type type)
{
    static const char *const names[] = {
        [QSF_RECORD_PRODUCT] = "product", [QSF_RECORD_OPERATION] = "operation",
        [QSF_RECORD_THREAD] = "operation", [QSF_RECORD_STEP] = "step", [QSF_RECORD_BATCH] = "batch",
        [QSF_RECORD_READ] = "file", [QSF_RECORD_PREPARE] = "file", [QSF_RECORD_WAIT] = "file",
        [QSF_RECORD_SAMPLE] = "sampling",
    };
    return (size_t)type < sizeof names / sizeof names[0] && names[type] ? names[type] : "other";
}

/* Reads overlap: each is a track of its own kind, with a beginning and an end. */
static void trace_read(trace_files *t, unsigned lane, const qsf_record *r)
{
    const unsigned id = ++t->n_reads;
    event_begin(t->trace);
    file_print(t->trace, "{\"name\":\"read\",\"cat\":\"file\",\"ph\":\"b\",\"id\":%u,\"ts\":%.3f,\"pid\":%u,"
               "\"tid\":0,\"args\":{\"what\":\"%s\",\"bytes\":%llu,\"at\":%llu}}", id, since(t, r->begin_ns),
               lane + 1, r->name, (unsigned long long)r->bytes, (unsigned long long)r->at);
    event_begin(t->trace);
    file_print(t->trace, "{\"name\":\"read\",\"cat\":\"file\",\"ph\":\"e\",\"id\":%u,\"ts\":%.3f,\"pid\":%u,"
               "\"tid\":0}", id, since(t, r->begin_ns + r->ns), lane + 1);
}

static void trace_slice(trace_files *t, unsigned lane, const qsf_record *r)
{
    static const char *const names[] = { [QSF_RECORD_PREPARE] = "prepare", [QSF_RECORD_WAIT] = "wait" };
    const bool named = (size_t)r->type < sizeof names / sizeof names[0] && names[r->type];
    trace_lane *l = &t->lanes[lane];
    lane_name(t, lane, r);
    event_begin(t->trace);
    file_print(t->trace, "{\"name\":\"%s\",\"cat\":\"%s\",\"ph\":\"X\",\"ts\":%.3f,\"dur\":%.3f,\"pid\":%u,"
               "\"tid\":%u,\"args\":{", named ? names[r->type] : r->name, category(r->type),
               since(t, r->begin_ns), us(r->ns), lane + 1, (unsigned)r->thread);
    if (named) file_print(t->trace, "\"what\":\"%s\",", r->name);
    if (r->layer >= 0) file_print(t->trace, "\"layer\":%d,", (int)r->layer);
    if (r->type == QSF_RECORD_OPERATION && l->bytes) {
        file_print(t->trace, "\"kernels\":\"%s\",\"weight_bytes\":%llu,", l->kernels,
                   (unsigned long long)l->bytes);
        l->bytes = 0;
        l->kernels[0] = 0;
    }
    file_print(t->trace, "\"rows\":%u}}", (unsigned)r->n_rows);
}

static void trace_record(trace_files *t, const qsf_record *r)
{
    const unsigned lane = lane_of(t);
    if (r->type == QSF_RECORD_PRODUCT) lane_product(&t->lanes[lane], r);
    else if (r->type == QSF_RECORD_READ) trace_read(t, lane, r);
    else trace_slice(t, lane, r);
}

/* ---- the record ---- */

static void record_product(trace_files *t, const qsf_record *r)
{
    file_print(t->record, "{\"kernel_id\":\"%s\",\"layer\":\"%s\",\"operation\":\"%s\",\"rows\":%u,"
               "\"cols\":%u,\"blocks_per_row\":%u,\"bytes_per_block\":%u,\"backend\":\"qsf\","
               "\"compute_type\":\"%s\",\"quantization_type\":\"%s\",\"device\":\"cpu\","
               "\"timestamp_us\":%llu,\"duration_us\":%llu,\"duration_ns\":%llu,\"batch\":%u,"
               "\"weight_bytes\":%llu}\n", r->kernel_id, r->name, r->operation, (unsigned)r->rows,
               (unsigned)r->cols, (unsigned)r->blocks_per_row, (unsigned)r->bytes_per_block,
               r->compute_type, r->quantization_type, (unsigned long long)since(t, r->begin_ns),
               (unsigned long long)(r->ns / 1000), (unsigned long long)r->ns, (unsigned)r->n_rows,
               (unsigned long long)r->bytes);
}

/* ---- both ---- */

static void on_record(void *user, const qsf_record *r)
{
    trace_files *t = user;
    while (atomic_flag_test_and_set_explicit(&t->busy, memory_order_acquire)) { }
    if (t->trace) trace_record(t, r);
    if (t->record && r->type == QSF_RECORD_PRODUCT) record_product(t, r);
    if (r->type == QSF_RECORD_BATCH || r->type == QSF_RECORD_SAMPLE) {
        if (t->trace) file_flush(t->trace);
        if (t->record) file_flush(t->record);
    }
    atomic_flag_clear_explicit(&t->busy, memory_order_release);
}

int trace_open(const trace_settings *set, trace_files **out)
{
    const char *trace = set->trace, *record = set->record;
    *out = NULL;
    if (!trace && !record) return EXIT_OK;
    trace_files *t = calloc(1, sizeof *t);
    if (!t) return EXIT_NO_MEMORY;
    atomic_flag_clear(&t->busy);
    t->begin_ns = clock_ns();
    if (trace) t->trace = trace_file_open("--trace", trace, "[", "\n]\n");
    if (record && (!trace || t->trace)) t->record = trace_file_open("--record", record, "", "");
    if ((!trace || t->trace) && (!record || t->record)) {
        *out = t;
        return EXIT_OK;
    }
    (void)file_close(t->trace);
    free(t);
    return EXIT_IO;
}

void trace_context(trace_files *t, qsf_context_options *o)
{
    if (!t) return;
    o->record = on_record;
    o->record_user = t;
}

int trace_close(trace_files *t, int code)
{
    if (!t) return code;
    const bool ok = file_close(t->trace), too = file_close(t->record);
    free(t);
    return ok && too ? code : code ? code : EXIT_IO;
}
