/* Makes the checksums of a damaged QSF file right again, so that tests and fuzzers get past them to
 * the code that parses the contents.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_QSF_REPAIR_H
#define QSF_QSF_REPAIR_H

#include "model/qsf_ext.h"
#include "model/qsf_file.h"

/* The data of an extension key inside bytes, or NULL; the section itself may be damaged. */
static inline uint8_t *repair_find(uint8_t *ext, uint64_t len, const char *key, uint64_t want,
                                   uint32_t *count)
{
    uint64_t at = 8;
    while (len >= 8 && len - at >= 8) {
        const uint32_t key_len = qsf_le16(ext + at), n = qsf_le32(ext + at + 4);
        const uint8_t type = ext[at + 2];
        const uint64_t size = type == QSF_EXT_U8 || type == QSF_EXT_TEXT ? 1 : type == QSF_EXT_U64 ? 8 : 4;
        if (key_len > len - at - 8 || n * size > len - at - 8 - key_len) return NULL;
        if (key_len == strlen(key) && !memcmp(ext + at + 8, key, key_len) && n * size >= want) {
            if (count) *count = n;
            return ext + at + 8 + key_len;
        }
        at += 8 + key_len + n * size;
    }
    return NULL;
}

static inline void repair_unit(uint8_t *b, uint8_t *ext, uint64_t ext_len, uint64_t from, uint64_t end,
                               uint64_t len, const char *crc, const char *chunks)
{
    uint32_t n;
    if (from >= end || end > len) return;
    uint8_t *p = repair_find(ext, ext_len, crc, 4, NULL);
    if (p) qsf_put32(p, qsf_crc32(0, b + from, (size_t)(end - from)));
    if (!(p = repair_find(ext, ext_len, chunks, 4, &n))) return;
    for (uint64_t i = 0; i < n && from + i * QSF_CRC_CHUNK < end; i++) {
        const uint64_t at = from + i * QSF_CRC_CHUNK;
        qsf_put32(p + 4 * i, qsf_crc32(0, b + at, (size_t)QSF_MIN((uint64_t)QSF_CRC_CHUNK, end - at)));
    }
}

static inline void qsf_repair(uint8_t *b, uint64_t len)
{
    if (len < QSF_HEADER_BYTES) return;
    memcpy(b, "QSF1", 4);
    qsf_put32(b + 92, (uint32_t)len);
    const uint64_t n = qsf_le32(b + 16), index_at = qsf_le64(b + 56), final_at = qsf_le64(b + 72);
    const uint64_t ext_at = qsf_le64(b + 100), ext_len = qsf_le32(b + 108);
    const bool index_there = n <= QSF_MAX_LAYERS && index_at <= len && n * QSF_ENTRY_BYTES <= len - index_at;
    for (uint64_t i = 0; index_there && i < n; i++) {
        uint8_t *e = b + index_at + i * QSF_ENTRY_BYTES;
        const uint64_t at = qsf_le64(e), bytes = qsf_le32(e + 8);
        if (at <= len && bytes <= len - at) qsf_put32(e + 20, qsf_crc32(0, b + at, (size_t)bytes));
    }
    if (ext_at && ext_at <= len && ext_len <= len - ext_at) {
        uint8_t *ext = b + ext_at, *p;
        if ((p = repair_find(ext, ext_len, "file.size", 8, NULL))) qsf_put64(p, len);
        if (index_there && (p = repair_find(ext, ext_len, "index.crc", 4, NULL)))
            qsf_put32(p, qsf_crc32(0, b + index_at, (size_t)(n * QSF_ENTRY_BYTES)));
        if (index_there && n)
            repair_unit(b, ext, ext_len, ext_at + ext_len, qsf_le64(b + index_at), len, "embd.crc",
                        "embd.crcs");
        repair_unit(b, ext, ext_len, final_at, len, len, "final.crc", "final.crcs");
        qsf_put32(b + 112, qsf_crc32(0, ext, (size_t)ext_len));
    }
    qsf_put32(b + 96, qsf_crc32(0, b, 96));
    bool plain = true;
    for (int i = 100; i < QSF_HEADER_BYTES; i++) plain &= b[i] == 0;
    if (!plain) qsf_put32(b + 116, qsf_crc32(0, b, 116));
}

#endif
