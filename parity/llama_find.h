/* Finds another engine's library.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_PARITY_LLAMA_FIND_H
#define QSF_PARITY_LLAMA_FIND_H

#include "library.h"
#include "qsf.h"

/* engine: "llama.cpp", whose folder is LLAMA_CPP_DIR's, or "bitnet.cpp", with BITNET_CPP_DIR.
 * lib: a file or a folder, NULL: the folder of the environment, else what the system finds by
 * name. file: the path that was loaded. */
qsf_status llama_find(const char *engine, const char *lib, library **out, char *file, size_t cap,
                      qsf_error *err);

#endif
