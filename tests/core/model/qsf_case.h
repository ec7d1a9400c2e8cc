/* What the tests of QSF files share: small files in memory, and a verdict on them.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CASE_H
#define QSF_CASE_H

#include "model/compress.h"
#include "make_tiny_qsf.h"
#include "test.h"

#include "fuzz/fuzz_qsf.c"

static qsf_error error;

/* A small file in h under "m". */
static inline mem_file *written(mem_host *h, const tiny_options *o)
{
    const qsf_status st = tiny_write(&h->p, "m", o, &error);
    if (st) test_fail(__FILE__, __LINE__, error.text);
    return mem_find(h, "m");
}

static inline qsf_source *opened(mem_host *h)
{
    qsf_source *s;
    if (qsf_source_open(&h->p, "m", NULL, false, &s, &error)) test_fail(__FILE__, __LINE__, error.text);
    return s;
}

/* Opens and loads everything. */
static inline qsf_status verdict(mem_host *h)
{
    qsf_source *s;
    qsf_status st = qsf_source_open(&h->p, "m", NULL, false, &s, &error);
    if (st) return st;
    st = fuzz_qsf_load(s, &error);
    qsf_source_close(s);
    return st;
}

/* The least file: everything small, a vocabulary of 8. */
static inline tiny_options least(void)
{
    tiny_options o = tiny_defaults();
    o.hp.n_layers = 1;
    o.hp.n_embd = 8;
    o.hp.n_heads = 2;
    o.hp.n_kv_heads = 1;
    o.hp.head_dim = 4;
    o.hp.n_ff = 8;
    o.hp.n_vocab = 8;
    o.type = o.embd_type = QSF_T_F16;
    o.vocab = QSF_VOCAB_SPM;
    return o;
}

/* All values of all tensors, in file order; outliers as raw words. */
static inline float *values_of(const qsf_source *s, size_t *n)
{
    size_t cap = 0;
    for (uint32_t i = 0; i < s->n_tensors; i++)
        cap += (size_t)s->tensors[i].rows * s->tensors[i].cols + s->tensors[i].bytes;
    float *out = malloc(cap * sizeof *out);
    *n = 0;
    for (uint32_t i = 0; i < s->n_units; i++)
        for (uint32_t k = 0; k < s->units[i].n_tensors; k++) {
            void *data;
            qsf_tensor t = s->tensors[s->units[i].first_tensor + k];
            if (qsf_source_load(s, i, k, &data, &error)) {
                test_fail(__FILE__, __LINE__, error.text);
                return out;
            }
            t.data = data;
            if (t.type == QSF_T_SPARSE)
                for (size_t b = 0; b < t.bytes; b++) out[(*n)++] = ((uint8_t *)data)[b];
            else {
                qsf_dequant_rows(&t, 0, t.rows, out + *n);
                *n += (size_t)t.rows * t.cols;
            }
            qsf_dealloc(s->platform, data, t.bytes);
        }
    return out;
}

static inline bool have_codec(uint32_t c) { return qsf_codec_check(c, "", NULL) == QSF_OK; }

#endif
