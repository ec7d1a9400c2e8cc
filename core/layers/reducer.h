/* The callback that adds up the outputs of a layer's shares.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_REDUCER_H
#define QSF_REDUCER_H

#include "base/base.h"

typedef struct qsf_reducer {
    qsf_reduce_fn fn;           /* NULL: layers are whole here */
    void         *user;
    qsf_status    st;           /* not QSF_OK: it failed, and the batch is lost */
} qsf_reducer;

#endif
