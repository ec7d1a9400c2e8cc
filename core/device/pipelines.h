/* The pipelines of a device: each shader's text is compiled once.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_PIPELINES_H
#define QSF_PIPELINES_H

#include "base/device.h"
#include "base/host.h"

#include "wgsl/text_wgsl.h"

enum { QSF_PIPELINES = 256, QSF_PIPELINE_TEXT = 1 << 16 };

typedef struct qsf_pipelines {
    const qsf_platform *platform;
    const qsf_device *d;
    char    *text;                      /* [QSF_PIPELINE_TEXT] of the shader in hand */
    uint32_t n;
    uint64_t hash[QSF_PIPELINES];       /* of their texts */
    qsf_device_id id[QSF_PIPELINES];
    bool     ready[QSF_PIPELINES];      /* compiled */
} qsf_pipelines;

/* What a buffer, a pipeline or a read came to, or on a host that must not block QSF_PENDING. */
qsf_status qsf_device_result(const qsf_device *d, qsf_device_id id, qsf_error *err);

qsf_status qsf_pipelines_init(qsf_pipelines *p, const qsf_platform *platform, const qsf_device *d,
                              qsf_error *err);
void       qsf_pipelines_done(qsf_pipelines *p);        /* takes one that is all zeros */
/* Begins a shader. */
void       qsf_pipeline_begin(qsf_pipelines *p, qsf_wgsl_text *t);
/* The pipeline of the text that was written since, of those that are there or a new one. */
qsf_status qsf_pipeline_end(qsf_pipelines *p, const qsf_wgsl_text *t, const char *name, qsf_device_id *out,
                            qsf_error *err);
/* Waits until one is compiled; the error of its shader comes from here.  QSF_PENDING: not yet, on a
 * host that must not block. */
qsf_status qsf_pipeline_wait(qsf_pipelines *p, qsf_device_id id, qsf_error *err);

#endif
