/* The adapters of a context's sequences.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_ADAPTERS_H
#define QSF_ADAPTERS_H

#include "layers/lora.h"

/* Releases all of them; takes a struct that is all zeros. */
void qsf_adapters_done(qsf_lora *l);

#endif
