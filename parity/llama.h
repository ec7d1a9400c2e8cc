/* llama.cpp, or a fork of it such as bitnet.cpp's, as an engine to compare with: a shared library
 * that is loaded while the program runs.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_PARITY_LLAMA_H
#define QSF_PARITY_LLAMA_H

#include "engine.h"

typedef struct parity_llama parity_llama;

typedef struct llama_options {
    const char *name;            /* "llama.cpp" or "bitnet.cpp" */
    /* a file, or a folder; NULL: from the environment, or where the system finds it */
    const char *lib;
    const char *model;
    uint32_t    n_threads;       /* 0: the library's default */
    bool        f32;             /* keys and values; else 16 bits */
} llama_options;

/* Who computes: for receipts.  Texts belong to the engine. */
typedef struct llama_about {
    const char *version;         /* as reported by the library, or "" */
    const char *ggml_version, *ggml_commit;
    const char *layout;          /* of the table of layouts */
    const char *file;            /* the library's path */
} llama_about;

/* QSF_E_NOT_FOUND     the library was not found
 * QSF_E_UNSUPPORTED   it is not a known version of llama.cpp, or it rejects the model
 * On an error *out is NULL. */
qsf_status    parity_llama_open(const llama_options *a, parity_llama **out, qsf_error *err);
void          parity_llama_close(parity_llama *l);                      /* takes NULL */
parity_engine parity_llama_engine(parity_llama *l);
llama_about   parity_llama_about(const parity_llama *l);
/* The library's own ids of a string, with BOS if it adds one; *n_ids: their number, or with
 * QSF_E_ARGUMENT the room that they need. */
qsf_status    parity_llama_encode(parity_llama *l, const char *text, size_t len, int32_t *ids, size_t cap,
                                  size_t *n_ids, qsf_error *err);
/* Whether a token ends generation. */
bool          parity_llama_is_end(parity_llama *l, int32_t id);

#endif
