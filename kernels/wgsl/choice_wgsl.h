/* Experts: which of them a row takes, and the rows of a batch by expert.
 * SPDX-License-Identifier: MIT
 *
 * A slot is a pair of a row and one of its experts.  Slots: array<vec2<u32>> has those of a row one
 * after another: the expert, and the weight of its output (f32).  A row may have one more for the
 * experts that all rows share, with the number QSF_WGSL_NO_EXPERT.  The CPU knows none of this. */
#ifndef QSF_WGSL_CHOICE_H
#define QSF_WGSL_CHOICE_H

#include "wgsl.h"

enum {
    QSF_WGSL_EXPERTS = 1024,    /* of a layer, at most: QSF_MAX_EXPERTS */
    QSF_WGSL_GROUP = 64         /* slots of an expert that a workgroup multiplies at once */
};
#define QSF_WGSL_NO_EXPERT 0xffffffffu

/* What weights are made of: QSF_ROUTER_... of core/model/hparams.h. */
typedef enum qsf_wgsl_router {
    QSF_WGSL_OF_ALL,            /* the softmax over all experts' logits */
    QSF_WGSL_OF_EACH,           /* the sigmoid of each logit */
    QSF_WGSL_OF_CHOSEN          /* the softmax over the chosen experts' logits */
} qsf_wgsl_router;
/* The weight of the slot for shared experts. */
typedef enum qsf_wgsl_shared {
    QSF_WGSL_ALONE, QSF_WGSL_BESIDE, QSF_WGSL_BESIDE_GATE /* the sigmoid of one more logit */
} qsf_wgsl_shared;

typedef struct qsf_wgsl_choice {
    qsf_wgsl_router router;
    qsf_wgsl_shared shared;
    bool bias;                  /* added to what experts are chosen by, but not to weights */
    bool norm;                  /* weights are divided by their sum */
    bool groups;                /* only experts of the best groups are chosen */
    bool scales;                /* each expert's weight is multiplied by its own */
} qsf_wgsl_choice;

/* Binding 0.  Then A (logits), with bias its floats, with scales theirs, Slots. */
typedef struct qsf_wgsl_choice_numbers {
    uint32_t experts, used;             /* of a layer; of a row */
    uint32_t a_ld;                      /* floats from a row's logits to the next row's */
    uint32_t slots;                     /* of a row in Slots: used, and one for shared experts */
    uint32_t groups, groups_used;       /* experts of a group follow each other */
    float    scale;                     /* multiplies all weights */
    uint32_t unused;
} qsf_wgsl_choice_numbers;

/* Slots of each row, experts ascending, as core/layers/router.c chooses them.  If a logit is not
 * finite, all weights of the row are NaN.  Workgroups: y: rows. */
void qsf_wgsl_choice_text(qsf_wgsl_text *t, const qsf_wgsl_choice *c);

/* Binding 0 of the sort.  Then 1: Slots; 2: List (u32): first `groups` records of four numbers
 * (an expert, the place of its first slot, how many, 0; those without slots are last), then all
 * slots (row * used + number) in the order of their experts. */
typedef struct qsf_wgsl_sort_numbers {
    uint32_t n;                         /* slots */
    uint32_t experts, used, slots;      /* as in qsf_wgsl_choice_numbers */
    uint32_t groups;                    /* qsf_wgsl_expert_groups */
    uint32_t unused[3];
} qsf_wgsl_sort_numbers;

/* The most groups of n slots. */
static inline uint32_t qsf_wgsl_expert_groups(uint32_t n, uint32_t experts)
{
    const uint32_t some = n < experts ? n : experts;
    return (n + some * (QSF_WGSL_GROUP - 1)) / QSF_WGSL_GROUP;
}

/* One workgroup. */
void qsf_wgsl_sort(qsf_wgsl_text *t);

#endif
