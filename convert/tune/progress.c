/* Saves the progress of tuning in a file, so that it can resume after an interruption.
 * SPDX-License-Identifier: MIT
 *
 * "QSFTUNE1", then u32 key, step and CRC-32 of the rest, u32 0, f64 the divergence before tuning,
 * and for each tuned tensor u32 number of gradients so far, and its parts in their layout in
 * memory: the file can only be read on the kind of machine that wrote it. */
#include "tune/progress.h"

enum { PROGRESS_HEAD = 32, PROGRESS_PIECE = 1 << 24 };
static const char progress_magic[8] = { 'Q', 'S', 'F', 'T', 'U', 'N', 'E', '1' };

/* ---- writing ---- */

typedef struct progress_out {
    const qsf_platform *p;
    qsf_out   *out;
    uint64_t   at;
    uint32_t   crc;
    qsf_status st;
} progress_out;

static void progress_put(progress_out *o, const void *mem, uint64_t bytes)
{
    for (uint64_t done = 0; !o->st && done < bytes; done += PROGRESS_PIECE) {
        const size_t n = (size_t)QSF_MIN(bytes - done, PROGRESS_PIECE);
        const uint8_t *from = (const uint8_t *)mem + done;
        o->crc = qsf_crc32(o->crc, from, n);
        o->st = o->p->write(o->p->user, o->out, o->at, from, n);
        o->at += n;
    }
}

static void progress_head(uint8_t head[PROGRESS_HEAD], uint32_t key, uint32_t step, uint32_t crc,
                          double before)
{
    uint64_t bits;
    memset(head, 0, PROGRESS_HEAD);
    memcpy(head, progress_magic, sizeof progress_magic);
    memcpy(&bits, &before, sizeof bits);
    qsf_put32(head + 8, key);
    qsf_put32(head + 12, step);
    qsf_put32(head + 16, crc);
    qsf_put64(head + 24, bits);
}

qsf_status qsf_progress_write(const train *k, const char *path, uint32_t key, uint32_t step, double before,
                              qsf_error *err)
{
    const qsf_platform *p = k->n->platform;
    uint8_t head[PROGRESS_HEAD], taken[4];
    progress_out o = { .p = p, .at = PROGRESS_HEAD };
    o.st = p->create(p->user, path, &o.out);
    if (o.st)
        return qsf_fail(err, o.st, "%s: cannot be written: %s", path, qsf_host_why(p, path, true, o.st));
    for (uint32_t i = 0; i < k->n->n; i++) {
        train_part parts[TRAIN_PARTS];
        const uint32_t n = qsf_train_parts(k, i, parts);
        qsf_put32(taken, k->t[i].n_taken);
        if (n) progress_put(&o, taken, sizeof taken);
        for (uint32_t j = 0; j < n; j++) progress_put(&o, parts[j].mem, parts[j].bytes);
    }
    progress_head(head, key, step, o.crc, before);
    if (!o.st) o.st = p->write(p->user, o.out, 0, head, sizeof head);
    if (o.st) p->abort(p->user, o.out);
    else o.st = p->commit(p->user, o.out);
    if (!o.st) return QSF_OK;
    return qsf_fail(err, o.st, "%s: cannot be written: %s", path, qsf_host_why(p, path, true, o.st));
}

/* ---- reading ---- */

static uint64_t progress_bytes(const train *k)
{
    uint64_t all = PROGRESS_HEAD;
    for (uint32_t i = 0; i < k->n->n; i++) {
        train_part parts[TRAIN_PARTS];
        const uint32_t n = qsf_train_parts(k, i, parts);
        if (n) all += 4;
        for (uint32_t j = 0; j < n; j++) all += parts[j].bytes;
    }
    return all;
}

/* The checksum of everything after the header. */
static qsf_status progress_check(const qsf_platform *p, qsf_file *f, const char *path, uint64_t length,
                                 uint32_t *crc, qsf_error *err)
{
    qsf_status st = QSF_OK;
    uint8_t *piece = qsf_alloc(p, PROGRESS_PIECE, "a file", err);
    if (!piece) return QSF_E_MEMORY;
    *crc = 0;
    for (uint64_t at = PROGRESS_HEAD; !st && at < length; at += PROGRESS_PIECE) {
        const size_t n = (size_t)QSF_MIN(length - at, PROGRESS_PIECE);
        st = qsf_read_all(p, f, path, at, piece, n, err);
        *crc = qsf_crc32(*crc, piece, n);
    }
    qsf_dealloc(p, piece, PROGRESS_PIECE);
    return st;
}

static qsf_status progress_take(train *k, qsf_file *f, const char *path, qsf_error *err)
{
    const qsf_platform *p = k->n->platform;
    uint64_t at = PROGRESS_HEAD;
    qsf_status st = QSF_OK;
    for (uint32_t i = 0; !st && i < k->n->n; i++) {
        train_part parts[TRAIN_PARTS];
        uint8_t taken[4];
        const uint32_t n = qsf_train_parts(k, i, parts);
        if (!n) continue;
        st = qsf_read_all(p, f, path, at, taken, sizeof taken, err);
        at += sizeof taken;
        k->t[i].n_taken = st ? 0 : qsf_le32(taken);
        for (uint32_t j = 0; !st && j < n; j++) {
            st = qsf_read_all(p, f, path, at, parts[j].mem, (size_t)parts[j].bytes, err);
            at += parts[j].bytes;
        }
    }
    return st;
}

qsf_status qsf_progress_read(train *k, const char *path, uint32_t key, uint32_t *step, double *before,
                             qsf_error *err)
{
    const qsf_platform *p = k->n->platform;
    uint8_t head[PROGRESS_HEAD];
    qsf_file *f;
    uint64_t length;
    uint32_t crc = 0;
    if (p->open(p->user, path, &f) == QSF_E_NOT_FOUND) return QSF_OK;
    p->close(p->user, f);
    qsf_status st = qsf_host_open(p, path, &f, &length, err);
    if (st) return st;
    bool whole = length == progress_bytes(k);
    if (whole) st = qsf_read_all(p, f, path, 0, head, sizeof head, err);
    whole = whole && !st && !memcmp(head, progress_magic, sizeof progress_magic) && qsf_le32(head + 8) == key;
    if (whole) st = progress_check(p, f, path, length, &crc, err);
    if (whole && !st && crc == qsf_le32(head + 16)) {
        const uint64_t bits = qsf_le64(head + 24);
        if (!(st = progress_take(k, f, path, err))) {
            *step = qsf_le32(head + 12);
            memcpy(before, &bits, sizeof bits);
        }
    }
    p->close(p->user, f);
    return st;
}
