/* Sensitivities that were measured, so that the next size of a model starts from them:
 * docs/quantisers.md, "Calibration", describes the file.
 * SPDX-License-Identifier: MIT
 *
 * It is made of the calibration, and never the only place of anything: what is not of the key that
 * the reader wants is measured again. */
#include "sensitivity_file.h"

enum {
    SENS_MAGIC = 8, SENS_VERSION = 1, SENS_HEAD = 24, SENS_ROW = 12,
    SENS_CHECKED = 16               /* start of the bytes covered by the checksum */
};
static const char sens_magic[SENS_MAGIC] = { 'Q', 'S', 'F', 'S', 'E', 'N', 'S', 'I' };

/* ---- writing ---- */

static size_t sens_put(uint8_t *to, const input *in, uint32_t key, const bool *asked, const double *kl)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < in->n_tensors; i++) {
        uint8_t *row = to + SENS_HEAD + (size_t)n * SENS_ROW;
        if (!asked[i]) continue;
        qsf_put32(row, in->tensors[i].unit);
        qsf_put32(row + 4, in->tensors[i].kind);
        qsf_put32(row + 8, qsf_f32_bits((float)kl[i]));
        n++;
    }
    const size_t bytes = SENS_HEAD + (size_t)n * SENS_ROW;
    memcpy(to, sens_magic, SENS_MAGIC);
    qsf_put32(to + 8, SENS_VERSION);
    qsf_put32(to + 16, key);
    qsf_put32(to + 20, n);
    qsf_put32(to + 12, qsf_crc32(0, to + SENS_CHECKED, bytes - SENS_CHECKED));
    return bytes;
}

qsf_status qsf_sens_file_write(const input *in, const char *path, uint32_t key, const bool *asked,
                               const double *kl, qsf_error *err)
{
    const qsf_platform *p = in->platform;
    const uint64_t room = SENS_HEAD + (uint64_t)in->n_tensors * SENS_ROW;
    qsf_out *out;
    uint8_t *bytes = qsf_alloc(p, room, "sensitivities", err);
    if (!bytes) return QSF_E_MEMORY;
    const size_t len = sens_put(bytes, in, key, asked, kl);
    qsf_status st = p->create(p->user, path, &out);
    if (!st) {
        if ((st = p->write(p->user, out, 0, bytes, len))) p->abort(p->user, out);
        else st = p->commit(p->user, out);
    }
    qsf_dealloc(p, bytes, room);
    if (!st) return QSF_OK;
    return qsf_fail(err, st, "%s: cannot be written: %s", path, qsf_host_why(p, path, true, st));
}

/* ---- reading ---- */

static const uint8_t *sens_row_of(const uint8_t *bytes, const input_tensor *t)
{
    for (uint32_t i = 0, n = qsf_le32(bytes + 20); i < n; i++) {
        const uint8_t *row = bytes + SENS_HEAD + (size_t)i * SENS_ROW;
        if (qsf_le32(row) == t->unit && qsf_le32(row + 4) == t->kind) return row;
    }
    return NULL;
}

static bool sens_is_whole(const uint8_t *bytes, uint64_t length)
{
    return length >= SENS_HEAD && !memcmp(bytes, sens_magic, SENS_MAGIC) &&
           (length - SENS_HEAD) / SENS_ROW == qsf_le32(bytes + 20) && (length - SENS_HEAD) % SENS_ROW == 0 &&
           qsf_crc32(0, bytes + SENS_CHECKED, (size_t)length - SENS_CHECKED) == qsf_le32(bytes + 12);
}

static qsf_status sens_take(const input *in, const uint8_t *bytes, const bool *asked, double *kl, bool *found)
{
    for (uint32_t i = 0; i < in->n_tensors; i++) {
        if (!asked[i]) continue;
        const uint8_t *row = sens_row_of(bytes, &in->tensors[i]);
        if (!row) return QSF_OK;
        kl[i] = qsf_lef32(row + 8);
        if (!(kl[i] >= 0 && kl[i] < INFINITY)) return QSF_E_CORRUPT;
    }
    *found = true;
    return QSF_OK;
}

qsf_status qsf_sens_file_read(const input *in, const char *path, uint32_t key, const bool *asked, double *kl,
                              bool *found, qsf_error *err)
{
    const qsf_platform *p = in->platform;
    const uint64_t most = SENS_HEAD + (uint64_t)in->n_tensors * SENS_ROW;
    qsf_file *f;
    uint64_t length;
    *found = false;
    if (p->open(p->user, path, &f) == QSF_E_NOT_FOUND) return QSF_OK;
    p->close(p->user, f);
    qsf_status st = qsf_host_open(p, path, &f, &length, err);
    if (st) return st;
    uint8_t *bytes = length <= most ? qsf_alloc(p, most, "sensitivities", err) : NULL;
    if (length > most) st = QSF_E_CORRUPT;
    else if (!bytes) st = QSF_E_MEMORY;
    else if (!(st = qsf_read_all(p, f, path, 0, bytes, (size_t)length, err))) {
        if (!sens_is_whole(bytes, length)) st = QSF_E_CORRUPT;
        else if (qsf_le32(bytes + 8) == SENS_VERSION && qsf_le32(bytes + 16) == key)
            st = sens_take(in, bytes, asked, kl, found);
    }
    p->close(p->user, f);
    qsf_dealloc(p, bytes, most);
    return st == QSF_E_CORRUPT ? qsf_fail(err, st, "%s: is damaged", path) : st;
}
