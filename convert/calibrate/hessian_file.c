/* The file of a calibration: a header, a table of inputs, then of each its mean at position 0 and
 * the lower triangle of its Hessian.
 * SPDX-License-Identifier: MIT */
#include "calibrate/hessian_file.h"

#include "kernels.h"
#include "model/unit.h"

const char qsf_hessian_magic[CAL_MAGIC] = { 'Q', 'S', 'F', 'C', 'A', 'L', 'I', 'B' };

enum {
    CAL_VERSION = 1,
    CAL_HEADER = 64,
    CAL_ROW = 32,               /* bytes of a row of the table */
    CAL_CHECKED = 16,           /* start of the bytes covered by the header's checksum */
    CAL_MAX_INPUTS = 1 << 20,
    CAL_BUFFER = 1 << 20
};

static uint64_t hessian_bytes(uint32_t cols)
{
    return (cols + (uint64_t)cols * (cols + 1) / 2) * sizeof(float);
}

static qsf_crc32_fn *hessian_crc(const qsf_platform *p)
{
    return qsf_crc32_best(p->cpu_features ? p->cpu_features(p->user) : 0);
}

/* ---- writing ---- */

struct cal_writer {
    const qsf_platform *platform;
    qsf_crc32_fn *crc32;
    qsf_out  *out;
    char     *path;
    size_t    path_bytes;
    uint32_t  n_inputs, n;      /* that there will be, and that are written */
    uint8_t  *head;             /* header and table */
    uint64_t  head_bytes;
    uint8_t  *buffer;           /* [CAL_BUFFER] bytes that are still to be written at `at` */
    size_t    len;
    uint64_t  at;
    uint32_t  crc;              /* of the input under way */
};

static void hessian_free(cal_writer *w)
{
    const qsf_platform *p = w->platform;
    qsf_dealloc(p, w->buffer, CAL_BUFFER);
    qsf_dealloc(p, w->head, w->head_bytes);
    qsf_dealloc(p, w->path, w->path_bytes);
    qsf_dealloc(p, w, sizeof *w);
}

void qsf_hessian_abort(cal_writer *w)
{
    if (!w) return;
    if (w->out) w->platform->abort(w->platform->user, w->out);
    hessian_free(w);
}

qsf_status qsf_hessian_create(const qsf_platform *p, const char *path, uint32_t n_inputs, cal_writer **out,
                              qsf_error *err)
{
    qsf_status st = QSF_E_MEMORY;
    cal_writer *w = qsf_alloc(p, sizeof *w, "a calibration file", err);
    *out = NULL;
    if (!w) return QSF_E_MEMORY;
    *w = (cal_writer){ .platform = p, .crc32 = hessian_crc(p), .n_inputs = n_inputs,
                       .path_bytes = strlen(path) + 1,
                       .head_bytes = CAL_HEADER + (uint64_t)n_inputs * CAL_ROW };
    w->at = w->head_bytes;
    if (!(w->path = qsf_alloc(p, w->path_bytes, "a calibration file", err)) ||
        !(w->head = qsf_alloc(p, w->head_bytes, "a calibration file", err)) ||
        !(w->buffer = qsf_alloc(p, CAL_BUFFER, "a calibration file", err))) goto fail;
    memcpy(w->path, path, w->path_bytes);
    if ((st = p->create(p->user, path, &w->out))) {
        w->out = NULL;
        qsf_fail(err, st, "%s: cannot be written: %s", path, qsf_host_why(p, path, true, st));
        goto fail;
    }
    *out = w;
    return QSF_OK;
fail:
    qsf_hessian_abort(w);
    return st;
}

static qsf_status hessian_write_at(cal_writer *w, uint64_t at, const void *bytes, size_t len, qsf_error *err)
{
    const qsf_status st = len ? w->platform->write(w->platform->user, w->out, at, bytes, len) : QSF_OK;
    return st ? qsf_fail(err, st, "%s: writing failed; is the disk full?", w->path) : QSF_OK;
}

static qsf_status hessian_flush(cal_writer *w, qsf_error *err)
{
    const qsf_status st = hessian_write_at(w, w->at, w->buffer, w->len, err);
    w->crc = w->crc32(w->crc, w->buffer, w->len);
    w->at += w->len;
    w->len = 0;
    return st;
}

static qsf_status hessian_put(cal_writer *w, float x, qsf_error *err)
{
    qsf_put32(w->buffer + w->len, qsf_f32_bits(x));
    w->len += sizeof x;
    return w->len == CAL_BUFFER ? hessian_flush(w, err) : QSF_OK;
}

qsf_status qsf_hessian_write(cal_writer *w, const cal_gram *g, qsf_error *err)
{
    uint8_t *row = w->head + CAL_HEADER + (uint64_t)w->n * CAL_ROW;
    const uint64_t at = w->at;
    const double firsts = (double)QSF_MAX(g->firsts, 1), tokens = (double)QSF_MAX(g->tokens, 1);
    qsf_status st = QSF_OK;
    assert(w->n < w->n_inputs);
    if (g->expert && g->tokens < g->cols) return QSF_OK;        /* the layer's record is better */
    w->crc = 0;
    for (uint32_t j = 0; !st && j < g->cols; j++) st = hessian_put(w, (float)(g->first[j] / firsts), err);
    for (uint32_t i = 0; !st && i < g->cols; i++) {
        const float *sums = qsf_gram_row(g, i);
        for (uint32_t j = 0; !st && j <= i; j++) st = hessian_put(w, (float)(sums[j] / tokens), err);
    }
    if (!st) st = hessian_flush(w, err);
    qsf_put32(row, g->unit);
    qsf_put32(row + 4, g->kind + g->expert * CAL_EXPERT);
    qsf_put32(row + 8, g->cols);
    qsf_put32(row + 12, w->crc);
    qsf_put64(row + 16, at);
    qsf_put64(row + 24, w->at - at);
    w->n++;
    return st;
}

qsf_status qsf_hessian_commit(cal_writer *w, const cal_about *about, qsf_error *err)
{
    uint8_t *h = w->head;
    memcpy(h, qsf_hessian_magic, CAL_MAGIC);
    qsf_put32(h + 8, CAL_VERSION);
    qsf_put32(h + 16, about->model);
    qsf_put32(h + 20, about->settings);
    qsf_put32(h + 24, w->n);
    qsf_put32(h + 28, about->n_layers);
    qsf_put64(h + 32, about->tokens);
    qsf_put64(h + 40, w->at);
    const size_t bytes = CAL_HEADER + (size_t)w->n * CAL_ROW;
    qsf_put32(h + 12, w->crc32(0, h + CAL_CHECKED, bytes - CAL_CHECKED));
    qsf_status st = hessian_write_at(w, 0, h, (size_t)w->head_bytes, err);
    if (!st) {
        st = w->platform->commit(w->platform->user, w->out);
        w->out = NULL;
        if (st) qsf_fail(err, st, "%s: cannot be moved into place", w->path);
    }
    qsf_hessian_abort(w);
    return st;
}

/* ---- reading ---- */

void qsf_hessian_close(cal_file *f)
{
    if (!f->platform) return;
    f->platform->close(f->platform->user, f->file);
    qsf_arena_free(f->arena);
    *f = (cal_file){ 0 };
}

static qsf_status hessian_check_record(const cal_file *f, const cal_record *r, uint64_t begin,
                                       uint64_t length, qsf_error *err)
{
    if (r->cols && r->cols <= CAL_MAX_COLS && r->bytes == hessian_bytes(r->cols) && r->at >= begin &&
        r->at <= length && r->bytes <= length - r->at && r->unit < qsf_units_of(f->about.n_layers))
        return QSF_OK;
    return qsf_fail(err, QSF_E_CORRUPT,
                    "%s: the Hessian of unit %u, kind %u (%u columns, %llu bytes at %llu) does not fit the "
                    "file's %llu bytes: the file is damaged; remove it and calibrate again",
                    f->path, (unsigned)r->unit, (unsigned)r->kind, (unsigned)r->cols,
                    (unsigned long long)r->bytes, (unsigned long long)r->at, (unsigned long long)length);
}

static qsf_status hessian_read_table(cal_file *f, const uint8_t head[CAL_HEADER], uint64_t length,
                                     qsf_error *err)
{
    const uint64_t bytes = (uint64_t)f->n * CAL_ROW;
    uint8_t *table = qsf_arena_alloc(f->arena, bytes, "a calibration file", err);
    f->records = qsf_arena_array(f->arena, f->n, sizeof *f->records, "a calibration file", err);
    if (!table || !f->records) return QSF_E_MEMORY;
    qsf_status st = qsf_read_all(f->platform, f->file, f->path, CAL_HEADER, table, (size_t)bytes, err);
    if (st) return st;
    const uint32_t crc = qsf_crc32(qsf_crc32(0, head + CAL_CHECKED, CAL_HEADER - CAL_CHECKED), table,
                                   (size_t)bytes);
    if (crc != qsf_le32(head + 12))
        return qsf_fail(err, QSF_E_CORRUPT, "%s: the checksum of its description is wrong: the file is "
                        "damaged; remove it and calibrate again", f->path);
    for (uint32_t i = 0; !st && i < f->n; i++) {
        const uint8_t *row = table + (uint64_t)i * CAL_ROW;
        f->records[i] = (cal_record){ qsf_le32(row), qsf_le32(row + 4), qsf_le32(row + 8),
                                      qsf_le32(row + 12), qsf_le64(row + 16), qsf_le64(row + 24), NULL };
        st = hessian_check_record(f, &f->records[i], CAL_HEADER + bytes, length, err);
    }
    return st;
}

static qsf_status hessian_read_head(cal_file *f, uint64_t length, qsf_error *err)
{
    uint8_t head[CAL_HEADER];
    if (length < sizeof head)
        return qsf_fail(err, QSF_E_CORRUPT, "%s: %llu bytes are too few for a calibration file", f->path,
                        (unsigned long long)length);
    const qsf_status st = qsf_read_all(f->platform, f->file, f->path, 0, head, sizeof head, err);
    if (st) return st;
    if (memcmp(head, qsf_hessian_magic, CAL_MAGIC))
        return qsf_fail(err, QSF_E_CORRUPT, "%s: is not a calibration file", f->path);
    if (qsf_le32(head + 8) != CAL_VERSION)
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: is a calibration file of version %u; this program reads "
                        "%d: remove it and calibrate again", f->path, (unsigned)qsf_le32(head + 8),
                        (int)CAL_VERSION);
    f->about = (cal_about){ qsf_le32(head + 16), qsf_le32(head + 20), qsf_le32(head + 28),
                            qsf_le64(head + 32) };
    f->n = qsf_le32(head + 24);
    if (qsf_le64(head + 40) != length || f->n > CAL_MAX_INPUTS || f->about.n_layers > CAL_MAX_INPUTS ||
        f->n > (length - CAL_HEADER) / CAL_ROW)
        return qsf_fail(err, QSF_E_CORRUPT, "%s: claims %u inputs in %llu bytes but has %llu; is it cut "
                        "short?", f->path, (unsigned)f->n, (unsigned long long)qsf_le64(head + 40),
                        (unsigned long long)length);
    return hessian_read_table(f, head, length, err);
}

qsf_status qsf_hessian_open(const qsf_platform *p, const char *path, cal_file *out, qsf_error *err)
{
    uint64_t length;
    cal_file f = { .platform = p };
    *out = (cal_file){ 0 };
    qsf_status st = qsf_host_open(p, path, &f.file, &length, err);
    if (st) return st;
    if (!(st = qsf_arena_new(p, &f.arena, err)) &&
        !(st = (f.path = qsf_arena_text(f.arena, path, strlen(path), err)) ? QSF_OK : QSF_E_MEMORY))
        st = hessian_read_head(&f, length, err);
    if (st) qsf_hessian_close(&f);
    else *out = f;
    return st;
}

cal_record *qsf_hessian_find(const cal_file *f, uint32_t unit, uint32_t kind)
{
    for (uint32_t i = 0; i < f->n; i++)
        if (f->records[i].unit == unit && f->records[i].kind == kind) return &f->records[i];
    return NULL;
}

/* ---- one Hessian ---- */

/* The next n floats of a record, a buffer at a time. */
typedef struct hessian_reader {
    const cal_file *f;
    qsf_crc32_fn   *crc32;
    uint8_t *buffer;            /* [CAL_BUFFER] */
    uint64_t at, left;          /* in the file: unread bytes */
    size_t   pos, len;
    uint32_t crc;
} hessian_reader;

static qsf_status hessian_get(hessian_reader *k, float *to, uint32_t n, qsf_error *err)
{
    for (uint32_t i = 0; i < n; i++) {
        if (k->pos == k->len) {
            k->len = (size_t)QSF_MIN(k->left, CAL_BUFFER);
            k->pos = 0;
            const qsf_status st = qsf_read_all(k->f->platform, k->f->file, k->f->path, k->at, k->buffer,
                                               k->len, err);
            if (st) return st;
            k->crc = k->crc32(k->crc, k->buffer, k->len);
            k->at += k->len;
            k->left -= k->len;
        }
        to[i] = qsf_lef32(k->buffer + k->pos);
        k->pos += sizeof *to;
    }
    return QSF_OK;
}

static qsf_status hessian_check_values(const cal_file *f, const cal_record *r, const float *h,
                                       const float *first, qsf_error *err)
{
    bool sound = qsf_all_finite(first, r->cols) && qsf_all_finite(h, (size_t)r->cols * r->cols);
    for (uint32_t i = 0; sound && i < r->cols; i++) sound = h[(size_t)i * r->cols + i] >= 0;
    if (sound) return QSF_OK;
    return qsf_fail(err, QSF_E_CORRUPT, "%s: the Hessian of unit %u, kind %u has values that are not finite; "
                    "remove the file and calibrate again", f->path, (unsigned)r->unit, (unsigned)r->kind);
}

qsf_status qsf_hessian_read(const cal_file *f, const cal_record *r, float *h, float *first, qsf_error *err)
{
    const qsf_platform *p = f->platform;
    const size_t cols = r->cols;
    hessian_reader k = { .f = f, .crc32 = hessian_crc(p), .at = r->at, .left = r->bytes };
    if (!(k.buffer = qsf_alloc(p, CAL_BUFFER, "a Hessian", err))) return QSF_E_MEMORY;
    qsf_status st = hessian_get(&k, first, r->cols, err);
    for (uint32_t i = 0; !st && i < cols; i++) {
        st = hessian_get(&k, h + i * cols, i + 1, err);
        for (uint32_t j = 0; !st && j < i; j++) h[j * cols + i] = h[i * cols + j];
    }
    qsf_dealloc(p, k.buffer, CAL_BUFFER);
    if (!st && k.crc != r->crc)
        st = qsf_fail(err, QSF_E_CORRUPT, "%s: the checksum of the Hessian of unit %u, kind %u is wrong: the "
                      "file is damaged; remove it and calibrate again", f->path, (unsigned)r->unit,
                      (unsigned)r->kind);
    return st ? st : hessian_check_values(f, r, h, first, err);
}
