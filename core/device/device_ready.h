/* The commands of the next batch, encoded while the device computes this one.
 * SPDX-License-Identifier: MIT
 *
 * From token to token an answer's batches have the same dispatches, until attention has a block
 * more: only what they read differs, and that is written when the tokens are known.  So any sampler
 * can do with commands that were made before.  A batch of another shape leaves them unused. */
#ifndef QSF_DEVICE_READY_H
#define QSF_DEVICE_READY_H

#include "device/device_buffers.h"

typedef struct device_executor device_executor;

typedef struct qsf_device_ready {
    bool     off;                       /* for tests */
    bool     whole;                     /* the list has all of the batch, in one piece */
    bool     ran;                       /* the batch under way was submitted so, with all of its stages */
    qsf_device_id commands;             /* 0: none */
    qsf_device_batch batch;             /* for which they are */
    size_t   n_list;                    /* dispatches of the list */
    uint32_t n_head;                    /* rows of logits */
    bool     embeds, few, chooses;      /* what else is in the list */
    uint64_t n_made, n_taken;           /* so far */
} qsf_device_ready;

/* After a batch is submitted, before its results are waited for: encodes its list once more. */
qsf_status qsf_device_ready_make(device_executor *e, qsf_error *err);
/* The batch's rows are there, and no layer is listed yet: submits the commands if they are for such
 * a batch, and sets ran.  few: candidates will do (qsf_device_few_wanted). */
qsf_status qsf_device_ready_take(device_executor *e, bool hidden, bool few, qsf_error *err);

#endif
