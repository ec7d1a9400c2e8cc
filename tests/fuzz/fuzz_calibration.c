/* Fuzzes the readers of calibration files, of importance matrices and of sensitivities: every input
 * as all three.
 * SPDX-License-Identifier: MIT */
#include "calibrate/hessian_file.h"
#include "calibrate/imatrix.h"
#include "mem_platform.h"
#include "sensitivity_file.h"

#include "tensor/types.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FUZZ_COLS = 512 };

static void fuzz_hessians(mem_host *h)
{
    static float sums[FUZZ_COLS * FUZZ_COLS], first[FUZZ_COLS];
    cal_file f;
    qsf_error err;
    if (qsf_hessian_open(&h->p, "f", &f, &err)) return;
    for (uint32_t i = 0; i < f.n && i < 64; i++) {
        const cal_record *r = &f.records[i];
        if (r->cols > FUZZ_COLS || qsf_hessian_read(&f, r, sums, first, &err)) continue;
        for (uint32_t j = 0; j < r->cols; j++)
            if (!(sums[(size_t)j * r->cols + j] >= 0)) abort();
    }
    qsf_hessian_close(&f);
}

static void fuzz_imatrix(mem_host *h)
{
    static float mean[FUZZ_COLS];
    cal_imatrix *m;
    qsf_error err;
    uint64_t tokens;
    if (qsf_imatrix_open(&h->p, "f", &m, &err)) return;
    for (int32_t layer = -1; layer < 2; layer++)
        for (uint32_t kind = 0; kind < QSF_N_KINDS; kind++)
            for (uint32_t cols = 32; cols <= FUZZ_COLS; cols += 32)
                if (!qsf_imatrix_read(m, layer, kind, 2 * (cols / 32 % 3), cols, mean, &tokens, &err))
                    for (uint32_t i = 0; i < cols; i++)
                        if (!(mean[i] >= 0)) abort();
    qsf_imatrix_close(m);
}

static void fuzz_sensitivities(mem_host *h)
{
    static input_tensor tensors[4] = { { .unit = 2 }, { .kind = 1 }, { 0 }, { .unit = 3, .kind = 2 } };
    static const bool asked[4] = { true, true, false, true };
    const input in = { .platform = &h->p, .tensors = tensors, .n_tensors = 4 };
    double kl[4] = { 0 };
    bool found;
    qsf_error err;
    if (qsf_sens_file_read(&in, "f", 7, asked, kl, &found, &err)) return;
    for (int i = 0; found && i < 4; i++)
        if (!(kl[i] >= 0 && kl[i] < INFINITY)) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    mem_host h;
    mem_host_init(&h);
    h.limit_bytes = 256 << 20;
    mem_put(&h, "f", data, size);
    fuzz_hessians(&h);
    fuzz_imatrix(&h);
    fuzz_sensitivities(&h);
    if (h.live) abort();
    mem_host_done(&h);
    return 0;
}
