/* The numbers of adapters of a batch's rows, between their two products.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_LORA_ROOM_H
#define QSF_LORA_ROOM_H

#include "layers/lora.h"

struct qsf_lora_room {
    const qsf_platform *platform;
    size_t   n_rows, n_expert_rows;     /* of a batch; of experts' slots in a wave */
    float   *h;                         /* [n_rows][ld] numbers, or their codes and a scale */
    size_t   ld, cap;
    float   *experts_h;                 /* [n_expert_rows][ld_experts] */
    size_t   ld_experts, cap_experts;
};

void       qsf_lora_room_init(qsf_lora_room *r, const qsf_platform *p, size_t n_rows, size_t n_expert_rows);
void       qsf_lora_room_done(qsf_lora_room *r);        /* takes one that is all zeros */
/* Memory for all sequences' adapters, and for `set`. */
qsf_status qsf_lora_room_grow(qsf_lora_room *r, const qsf_lora *l, const qsf_lora_set *set, qsf_error *err);

#endif
