/* The executor of a context with layers on a device.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_DEVICE_EXECUTOR_H
#define QSF_DEVICE_EXECUTOR_H

#include "device/device_ahead.h"
#include "device/device_candidates.h"
#include "device/device_choose.h"
#include "device/device_embedding.h"
#include "device/device_lora.h"
#include "device/device_ready.h"
#include "device/device_stream.h"
#include "device/replay.h"

/* Large members come last: small offsets are shorter in WebAssembly. */
struct device_executor {
    qsf_executor        base;
    qsf_executor       *cpu;
    const qsf_executor_table *cpu_does;
    qsf_context        *c;
    qsf_device         *d;
    uint32_t            first, end;     /* the device's layers; none: it was given up, and d is NULL */
    qsf_device_layer   *layers;         /* [end - first] */
    uint8_t            *there;          /* [n_layers] whose weights are on the device (qsf_fetch) */
    qsf_device_dispatch *list;          /* [n_room] of the batch, so far */
    uint64_t            n_room;
    size_t              n_list, n_sent; /* listed, and submitted */
    bool                all_ready;      /* no layer is still to be made */
    float              *rows;           /* [rows][ld] on their way */
    uint32_t           *words;          /* [max of the tables] on their way */
    uint64_t            n_words;
    bool                embeds;         /* the device makes the batch's rows of its tokens */
    bool                here;           /* the batch's rows are on the device; */
    bool                together;       /* those that asked stand together, from first_asked on; */
    bool                logits;         /* its logits are; */
    bool                came;           /* they have come to the CPU; */
    bool                few;            /* candidates of them are there; */
    uint32_t            rows_read;      /* a bit for each row of logits that came alone */
    uint32_t            first_asked;
    qsf_device_id       read;           /* under way on a host that must not block; 0: none */
    qsf_device_id       mapped;         /* the buffer for `words`, which the caller fills; 0: none */
    uint64_t            mapped_at;
    uint32_t            mapped_layer, mapped_block;     /* of the cache */
    bool                odd;            /* a value was not finite: its layer is being found */
    bool                unchecked;      /* buffers are new: whether they found memory is not known */
    uint32_t            trial_times;    /* how often a trial lists a layer, alone; 0: no trial */
    qsf_device_batch    batch;
    qsf_device_stream   stream;         /* the first layers, if their weights do not stay there */
    qsf_device_loras    loras;          /* adapters that are there */
    qsf_device_ready    ready;
    qsf_replay          replay;
    qsf_device_ahead    ahead;
    qsf_device_buffers  b;
    qsf_device_candidates candidates;   /* of the head's logits */
    qsf_device_choice   choice;         /* the layers, and why others are not the device's */
    qsf_choice          choices[QSF_CHOICES_MOST];      /* of the context */
    qsf_device_head     head;
    qsf_device_embedding embedding;
};

/* Dispatches of a batch, at most. */
static inline uint64_t qsf_device_list_room(const device_executor *e)
{
    uint64_t n = (uint64_t)(e->end - e->first + 2) * QSF_DEVICE_STEPS + QSF_DEVICE_KEPT_STEPS;
    for (uint32_t i = 0; i < e->loras.n; i++) n += e->loras.list[i]->most;
    return n;
}

/* Where the batch's logits are. */
static inline qsf_device_id qsf_device_logits_of(const device_executor *e)
{
    return e->ahead.kept && !QSF_WGSL_BARE(e->candidates.bare) ? e->ahead.logits : e->b.of[QSF_DEVICE_LOGITS];
}

extern const qsf_executor_table qsf_device_executor_table;

#endif
