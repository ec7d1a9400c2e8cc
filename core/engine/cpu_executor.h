/* The executor of the CPU: core/layers on the threads of a pool.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CPU_EXECUTOR_H
#define QSF_CPU_EXECUTOR_H

#include "engine/executor.h"
#include "layers/cpu.h"
#include "layers/head.h"
#include "layers/lora_room.h"
#include "layers/pass.h"

typedef struct qsf_cpu_executor {
    qsf_executor      base;
    qsf_executor_host host;
    uint8_t          *memory;        /* of the buffers */
    uint64_t          memory_bytes;
    qsf_buffers       b;
    qsf_kv            kv;
    qsf_kv_attention  kv_attention;
    qsf_key_bias      key_bias;
    qsf_state         state;
    qsf_head          head;
    qsf_lora_room     lora_room;
    atomic_bool       not_finite;    /* a layer's or the head's result has a NaN or an infinity */
    qsf_cpu           cpu;           /* what a stage is computed with */
} qsf_cpu_executor;

extern const qsf_executor_table qsf_cpu_executor_table;

/* What the CPU's executor has made of a batch's tokens, for another one that lets it embed them. */
static inline const qsf_buffers *qsf_cpu_embedded(const qsf_executor *x)
{
    return &((const qsf_cpu_executor *)(const void *)x)->b;
}

#endif
