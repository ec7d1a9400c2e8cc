/* A batch's numbers on their way to the device.
 * SPDX-License-Identifier: MIT */
#include "device/device_batch.h"

qsf_status qsf_device_batch_numbers(device_executor *e, qsf_error *err)
{
    qsf_device_buffers *b = &e->b;
    const qsf_device_batch *is = &b->set, *new = &e->batch;
    const qsf_status st = qsf_device_loras_numbers(b, &e->loras, new->n, err);
    if (st) return st;
    if (is->n == new->n && is->chunks == new->chunks && is->blocks == new->blocks) return QSF_OK;
    for (uint32_t i = 0; i < e->end - e->first; i++)
        if (e->layers[i].ready) qsf_device_layer_batch(b, &e->layers[i], new);
    if (e->embedding.steps.ready) qsf_device_layer_batch(b, &e->embedding.steps, new);
    b->set = *new;
    return b->n_numbers ? b->d->write(b->d->user, b->numbers, 0, b->host_numbers,
                                      (size_t)b->n_numbers * QSF_DEVICE_NUMBERS, err) : QSF_OK;
}

qsf_status qsf_device_angles_write(device_executor *e, uint32_t rows, qsf_error *err)
{
    for (uint32_t i = 0; i < e->c->model->source->n_ropes; i++) {
        const qsf_rope *t = &e->c->ropes[i];
        float *to = (float *)(void *)e->words;
        const size_t n = (size_t)rows * t->half;
        for (size_t k = 0; k < n; k++) {
            to[2 * k] = t->cos[k];
            to[2 * k + 1] = t->sin[k];
        }
        const qsf_device_range at = qsf_device_angles(&e->b, i);
        const qsf_status st = n ? e->d->write(e->d->user, at.buffer, at.at, to, 8 * n, err) : QSF_OK;
        if (st) return st;
    }
    return QSF_OK;
}
