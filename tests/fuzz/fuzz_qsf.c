/* Fuzz target: any bytes as a QSF file, opened and loaded whole, as a model and for its layer for
 * multi-token prediction; unchanged and with their checksums repaired.
 * SPDX-License-Identifier: MIT */
#include "mem_platform.h"
#include "qsf_repair.h"
#include "model/experts_alone.h"
#include "model/source_read.h"
#include "weights/weights.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Brings the unit's bytes, which are at `stored`, into the form that kernels take; shared: those
 * before its experts alone. */
static qsf_status fuzz_qsf_form(const qsf_source *s, uint32_t unit, bool shared, uint8_t *stored,
                                uint8_t *raw, qsf_error *err)
{
    qsf_weights w;
    qsf_unit_times t = { 0 };
    uint64_t slot, staged, unpacked;
    qsf_status st = qsf_unit_memory(s, unit, shared, &slot, &staged, &unpacked, err);
    uint8_t *mem = st ? NULL : qsf_alloc(s->platform, slot, "slot", err);
    if (!mem) return st ? st : QSF_E_MEMORY;
    const bool in_place = !qsf_unit_staged(s, unit);
    const qsf_unit part = shared ? qsf_unit_shared(s, unit) : s->units[unit];
    if (in_place) memcpy(mem, stored, (size_t)part.stored);
    const qsf_unit_room room = { .mem = mem, .cap = slot, .stored = in_place ? mem : stored, .raw = raw,
                                 .shared = shared };
    /* What is before experts has a checksum of its own, which no repair makes right. */
    st = qsf_weights_make(s, unit, &room, !shared, &w, &t, err);
    qsf_dealloc(s->platform, mem, slot);
    return st;
}

/* A layer that experts are read apart from: its own bytes, and each expert's. */
static qsf_status fuzz_qsf_experts(const qsf_source *s, uint32_t unit, const uint8_t *stored, qsf_error *err)
{
    const qsf_unit *u = &s->units[unit], shared = qsf_unit_shared(s, unit);
    uint8_t *own = malloc((size_t)shared.stored);
    memcpy(own, stored, (size_t)shared.stored);
    const qsf_status st = fuzz_qsf_form(s, unit, true, own, NULL, err);
    free(own);
    for (uint32_t i = shared.n_tensors; i < u->n_tensors; i++)
        for (uint32_t e = 0; e < s->layers[unit].n_experts; e++) {
            uint64_t at;
            const qsf_tensor *t = &s->tensors[u->first_tensor + i],
                part = qsf_expert_rows(t, s->layers[unit].n_experts, e, &at);
            if (!part.bytes || at > t->bytes || part.bytes > t->bytes - at) abort();
            (void)qsf_crc32(0, stored + s->places[u->first_tensor + i] + at, (size_t)part.bytes);
        }
    return st;
}

/* Reads and checks every unit, then every row of every tensor. */
static qsf_status fuzz_qsf_load(const qsf_source *s, qsf_error *err)
{
    qsf_status st = QSF_OK;
    const qsf_embd_clusters *k = s->embd_clusters;
    if (k) {
        float *mean = malloc(s->hp.n_embd * sizeof *mean);
        for (uint32_t i = 0; i < s->hp.n_vocab; i++) qsf_dequant_rows(&k->centroids, k->of[i], 1, mean);
        free(mean);
    }
    for (uint32_t i = 0; i < s->n_units && !st; i++) {
        const qsf_unit *u = &s->units[i];
        uint8_t *stored = qsf_alloc(s->platform, u->stored, "stored", err);
        uint8_t *raw = stored && u->compression ? qsf_alloc(s->platform, u->raw, "raw", err) : NULL;
        if (!stored || (u->compression && !raw)) st = QSF_E_MEMORY;
        for (uint32_t e = 0; e < u->n_extents && !st; e++) {
            const qsf_extent *x = &s->extents[u->first_extent + e];
            st = qsf_source_read(s, x->file, x->at, stored + x->to, x->len, "weights", err);
        }
        if (!st) st = qsf_unit_check(s, i, stored, raw, err);
        for (uint32_t t = 0; t < u->n_tensors && !st; t++) {
            qsf_tensor x = s->tensors[u->first_tensor + t];
            x.data = (u->compression ? raw : stored) + s->places[u->first_tensor + t];
            if (x.type == QSF_T_SPARSE || x.cols > 1 << 20) continue;
            float *row = malloc(x.cols * sizeof *row);
            qsf_dequant_rows(&x, 0, 1, row);
            qsf_dequant_rows(&x, x.rows - 1, 1, row);
            free(row);
        }
        if (!st) st = fuzz_qsf_form(s, i, false, stored, raw, err);
        if (!st && u->n_expert_tensors) st = fuzz_qsf_experts(s, i, stored, err);
        qsf_dealloc(s->platform, raw, u->raw);
        qsf_dealloc(s->platform, stored, u->stored);
    }
    return st;
}

static void fuzz_qsf_run(const uint8_t *data, size_t size, bool repair, bool mtp)
{
    mem_host h;
    qsf_source *s;
    qsf_error err;
    mem_host_init(&h);
    h.limit_bytes = 64 << 20;
    mem_file *f = mem_put(&h, "fuzz.qsf", data, size);
    if (repair) qsf_repair(f->bytes, f->len);
    const qsf_status st = mtp ? qsf_source_open_mtp(&h.p, "fuzz.qsf", NULL, QSF_I2S_AUTO, &s, &err)
        : qsf_source_open(&h.p, "fuzz.qsf", NULL, false, &s, &err);
    if (st == QSF_OK) {
        (void)fuzz_qsf_load(s, &err);
        qsf_source_close(s);
    }
    if (h.live) abort();
    mem_host_done(&h);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 4 || memcmp(data, "QSF1", 4)) return 0;      /* other formats have a target of their own */
    fuzz_qsf_run(data, size, false, false);
    fuzz_qsf_run(data, size, true, false);
    if (size > 4 && data[4] == QSF_VERSION_MTP) fuzz_qsf_run(data, size, true, true);
    return 0;
}
