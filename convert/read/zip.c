/* Reads the central directory of a zip archive and the local header of each entry.
 * SPDX-License-Identifier: MIT */
#include "read/zip.h"

#include <stdlib.h>

enum {
    ZIP_END = 22,
    ZIP_END64_LOCATOR = 20,
    ZIP_END64 = 56,
    ZIP_CENTRAL = 46,
    ZIP_LOCAL = 30,
    ZIP_MAX_COMMENT = 65535
};
static const uint64_t zip_max_directory = 256 << 20;

typedef struct zip_bounds { uint64_t at, size, n; } zip_bounds;     /* of the central directory */

static bool zip_is(const uint8_t *p, uint8_t a, uint8_t b)
{
    return p[0] == 'P' && p[1] == 'K' && p[2] == a && p[3] == b;
}

/* If the archive ends with a zip64 record, the fields of the short one have all bits set. */
static qsf_status zip_end64(const qsf_platform *p, const weights_file *f, uint64_t end, zip_bounds *b,
                            qsf_error *err)
{
    uint8_t locator[ZIP_END64_LOCATOR], rec[ZIP_END64];
    qsf_status st;
    if (end < sizeof locator) return QSF_OK;
    if ((st = qsf_read_all(p, f->file, f->path, end - sizeof locator, locator, sizeof locator, err)))
        return st;
    if (!zip_is(locator, 6, 7)) return QSF_OK;
    const uint64_t at = qsf_le64(locator + 8);
    if (f->length < sizeof rec || at > f->length - sizeof rec)
        return qsf_fail(err, QSF_E_CORRUPT, "%s: zip64 record at %llu, beyond the end", f->path,
                        (unsigned long long)at);
    if ((st = qsf_read_all(p, f->file, f->path, at, rec, sizeof rec, err))) return st;
    if (!zip_is(rec, 6, 6))
        return qsf_fail(err, QSF_E_CORRUPT, "%s: no zip64 record at %llu", f->path, (unsigned long long)at);
    b->n = qsf_le64(rec + 32);
    b->size = qsf_le64(rec + 40);
    b->at = qsf_le64(rec + 48);
    return QSF_OK;
}

/* The end record is followed by a comment of unknown length: searched for from the end. */
static qsf_status zip_find_end(const qsf_platform *p, const weights_file *f, zip_bounds *b, qsf_error *err)
{
    const size_t len = (size_t)QSF_MIN(f->length, (uint64_t)ZIP_END + ZIP_MAX_COMMENT);
    uint8_t *tail;
    qsf_status st;
    if (len < ZIP_END) return qsf_fail(err, QSF_E_CORRUPT, "%s: too short for a zip archive", f->path);
    if (!(tail = qsf_alloc(p, len, "zip archive's end", err))) return QSF_E_MEMORY;
    if (!(st = qsf_read_all(p, f->file, f->path, f->length - len, tail, len, err))) {
        size_t i = len - ZIP_END + 1;
        while (i && !zip_is(tail + i - 1, 5, 6)) i--;
        if (!i) {
            st = qsf_fail(err, QSF_E_CORRUPT, "%s: the zip archive's end is missing; is the file cut short?",
                          f->path);
        } else {
            const uint8_t *e = tail + i - 1;
            *b = (zip_bounds){ .n = qsf_le16(e + 10), .size = qsf_le32(e + 12), .at = qsf_le32(e + 16) };
            st = zip_end64(p, f, f->length - len + (i - 1), b, err);
        }
    }
    qsf_dealloc(p, tail, len);
    if (!st && (b->at > f->length || b->size > f->length - b->at || b->size > zip_max_directory ||
                b->n > b->size / ZIP_CENTRAL))
        st = qsf_fail(err, QSF_E_CORRUPT,
                      "%s: zip directory of %llu entries, %llu bytes at %llu does not fit the file", f->path,
                      (unsigned long long)b->n, (unsigned long long)b->size, (unsigned long long)b->at);
    return st;
}

/* Zip64's extra field holds the values whose 32-bit fields are all ones, in a fixed order. */
static bool zip_extra64(const uint8_t *x, size_t len, uint64_t *size, uint64_t *packed, uint64_t *local)
{
    uint64_t *const fields[] = { size, packed, local };
    bool wanted = false;
    for (size_t i = 0; i < QSF_ARRAY_LEN(fields); i++) wanted |= *fields[i] == UINT32_MAX;
    for (size_t at = 0; wanted && at + 4 <= len; ) {
        const size_t n = qsf_le16(x + at + 2);
        size_t pos = at + 4;
        if (n > len - pos) return false;
        if (qsf_le16(x + at) == 1) {
            const size_t end = pos + n;
            for (size_t i = 0; i < QSF_ARRAY_LEN(fields); i++) {
                if (*fields[i] != UINT32_MAX) continue;
                if (end - pos < 8) return false;
                *fields[i] = qsf_le64(x + pos);
                pos += 8;
            }
            return true;
        }
        at = pos + n;
    }
    return true;
}

/* The local header repeats name and extra field with its own lengths; the data begins after
 * them. */
static qsf_status zip_local(const qsf_platform *p, const weights_file *f, uint64_t local, zip_entry *e,
                            qsf_error *err)
{
    uint8_t h[ZIP_LOCAL];
    qsf_status st;
    if (f->length < sizeof h || local > f->length - sizeof h)
        return qsf_fail(err, QSF_E_CORRUPT, "%s: entry %s begins beyond the end", f->path, e->name);
    if ((st = qsf_read_all(p, f->file, f->path, local, h, sizeof h, err))) return st;
    if (!zip_is(h, 3, 4))
        return qsf_fail(err, QSF_E_CORRUPT, "%s: entry %s is not where the directory has it", f->path,
                        e->name);
    e->at = local + sizeof h + qsf_le16(h + 26) + qsf_le16(h + 28);
    if (e->method == 0 && (e->at > f->length || e->size > f->length - e->at))
        return qsf_fail(err, QSF_E_CORRUPT,
                        "%s: entry %s has %llu bytes at %llu, the file has %llu; is it cut short?", f->path,
                        e->name, (unsigned long long)e->size, (unsigned long long)e->at,
                        (unsigned long long)f->length);
    return QSF_OK;
}

static qsf_status zip_central(const qsf_platform *p, const weights_file *f, const uint8_t *dir,
                              const zip_bounds *b, qsf_arena *arena, zip_dir *out, qsf_error *err)
{
    uint64_t at = 0;
    for (uint64_t i = 0; i < b->n; i++) {
        const uint8_t *h = dir + at;
        if (b->size - at < ZIP_CENTRAL || !zip_is(h, 1, 2))
            return qsf_fail(err, QSF_E_CORRUPT, "%s: zip directory entry %llu is damaged", f->path,
                            (unsigned long long)i);
        const size_t name = qsf_le16(h + 28), extra = qsf_le16(h + 30), comment = qsf_le16(h + 32);
        uint64_t packed = qsf_le32(h + 20), size = qsf_le32(h + 24), local = qsf_le32(h + 42);
        if (name + extra + comment > b->size - at - ZIP_CENTRAL ||
            !zip_extra64(h + ZIP_CENTRAL + name, extra, &size, &packed, &local) ||
            memchr(h + ZIP_CENTRAL, 0, name))
            return qsf_fail(err, QSF_E_CORRUPT, "%s: zip directory entry %llu is damaged", f->path,
                            (unsigned long long)i);
        zip_entry *e = &out->entries[out->n];
        if (!(e->name = qsf_arena_text(arena, h + ZIP_CENTRAL, name, err))) return QSF_E_MEMORY;
        e->method = qsf_le16(h + 10);
        e->crc = qsf_le32(h + 16);
        e->size = size;
        if (e->method == 0 && packed != size)
            return qsf_fail(err, QSF_E_CORRUPT, "%s: entry %s is stored, and two sizes are given", f->path,
                            e->name);
        const qsf_status st = zip_local(p, f, local, e, err);
        if (st) return st;
        out->n++;
        at += ZIP_CENTRAL + name + extra + comment;
    }
    return QSF_OK;
}

static int zip_order(const void *a, const void *b)
{
    return strcmp(((const zip_entry *)a)->name, ((const zip_entry *)b)->name);
}

qsf_status qsf_zip_read_dir(const qsf_platform *p, const weights_file *f, qsf_arena *arena, zip_dir *out,
                            qsf_error *err)
{
    zip_bounds b = { 0 };
    uint8_t *dir;
    qsf_status st;
    memset(out, 0, sizeof *out);
    if ((st = zip_find_end(p, f, &b, err))) return st;
    if (!(out->entries = qsf_arena_array(arena, b.n, sizeof *out->entries, "zip directory", err)))
        return QSF_E_MEMORY;
    if (!(dir = qsf_alloc(p, b.size, "zip directory", err))) return QSF_E_MEMORY;
    if (!b.size || !(st = qsf_read_all(p, f->file, f->path, b.at, dir, (size_t)b.size, err)))
        st = zip_central(p, f, dir, &b, arena, out, err);
    qsf_dealloc(p, dir, b.size);
    if (st) return st;
    qsort(out->entries, out->n, sizeof *out->entries, zip_order);
    for (uint32_t i = 1; i < out->n; i++)
        if (!strcmp(out->entries[i - 1].name, out->entries[i].name))
            return qsf_fail(err, QSF_E_CORRUPT, "%s: entry %s occurs twice", f->path, out->entries[i].name);
    return QSF_OK;
}

const zip_entry *qsf_zip_find(const zip_dir *d, const char *name)
{
    const zip_entry key = { .name = name };
    return d->n ? bsearch(&key, d->entries, d->n, sizeof *d->entries, zip_order) : NULL;
}
