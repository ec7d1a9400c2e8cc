/* The form chosen for each tensor, and its errors: the data that the files of this folder work on.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_PLAN_H
#define QSF_CONVERT_PLAN_H

#include "qsf_convert.h"
#include "read/input.h"
#include "tensor/quant.h"

typedef struct convert_tensor {
    uint32_t        type, block;
    uint8_t         packing;
    bool            fixed;          /* set by the user or by the format: no budget changes it */
    bool            raised;         /* mixed: got more bits than the budget gave it, for its cosine's sake */
    uint64_t        bytes;
    /* [rows], [cols]: the weights are multiplied with them first; NULL: 1 */
    const float    *row_scale, *col_scale;
    const float    *importance;     /* [cols] weights of the columns' squared errors; NULL: 1 */
    /* not 0: stored in a tensor of its own (QSF_K_SCALE); the codes are those of the weights
     * divided by it */
    float           scale;
    const qsf_embd_clusters *clusters;      /* whose centroids are taken off the rows, NULL: none */
    bool            keeps_outliers; /* the largest weights of each row go to an additional sparse tensor */
    uint64_t        n_outliers;
    uint64_t        outlier_bytes;
    qsf_quant_error error;          /* with outliers put back */
    /* The effect of the errors on the outputs, and that of removing the weights; 0 and 0 without a
     * factor. */
    double          output_error, output_energy;
    double          predicted_kl;   /* of what calibration chose; else 0 */
} convert_tensor;

typedef struct convert_report {
    convert_tensor *tensors;        /* [in->n_tensors] */
    uint64_t        n_weights, source_bytes, tensor_bytes, file_bytes;
    double          other_kl;       /* predicted for the other preference; else 0 */
    uint64_t        other_bytes;
    uint64_t        ns_plan, ns_run;
    uint8_t         default_type;   /* the header's */
    bool            equalized;
    const qsf_embd_clusters *embd_clusters;     /* NULL: none */
} convert_report;

#endif
