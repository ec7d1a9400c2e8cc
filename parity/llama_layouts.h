/* The offsets of the members in llama.cpp's parameter structs, which changed several times without
 * a version number.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_PARITY_LLAMA_LAYOUTS_H
#define QSF_PARITY_LLAMA_LAYOUTS_H

#include <stddef.h>
#include <stdint.h>

#include "library.h"

/* Passed and returned by value in the place of any of them.  Every calling convention that has
 * these libraries passes such large structs in memory, and the callee uses its part. */
typedef struct llama_blob { uint64_t words[64]; } llama_blob;

enum { LLAMA_NOWHERE = -1 };

typedef struct llama_layout {
    const char *name;
    const char *has, *lacks;            /* functions that libraries of this layout have, and lack */
    int size, model_size;               /* of the context's parameters, and of the model's */
    /* places in the context's */
    int threads, scaling, extent, types, flash;
    int outputs;                        /* most outputs of a sequence, or nowhere */
    int flash_bytes;                    /* 4: a number, default -1; 1: a flag */
    int layers;                         /* on other devices, in the model's */
} llama_layout;

/* The layout of a library; NULL: unknown, and why describes the difference from the nearest known
 * one. */
const llama_layout *llama_layout_of(library *l, char *why, size_t cap);

#endif
