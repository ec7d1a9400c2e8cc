/* A machine that runs the pickle of a PyTorch state dict: see pickle_machine.c.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_PICKLE_MACHINE_H
#define QSF_CONVERT_PICKLE_MACHINE_H

#include "model/weights_file.h"

typedef enum pickle_kind {
    PV_NONE, PV_INT, PV_FLOAT, PV_TEXT, PV_TUPLE, PV_LIST, PV_DICT, PV_GLOBAL, PV_STORAGE, PV_TENSOR
} pickle_kind;

typedef struct pickle_global {
    const char *module, *name;
    uint8_t     id;
    uint8_t     type, size;         /* of a storage: qsf_type or WEIGHTS_NO_TYPE, bytes of a value */
} pickle_global;

typedef struct pickle_value pickle_value;
typedef struct pickle_node pickle_node;

/* Tuples, lists and dicts: values in a chain; in a dict each key is followed by its value. */
typedef struct pickle_chain { pickle_node *head, *tail; uint32_t n; } pickle_chain;
typedef struct pickle_storage {
    const pickle_global *type;
    const char *key;
    uint32_t key_len;
    uint64_t n;
} pickle_storage;
typedef struct pickle_tensor {
    const pickle_storage *storage;
    uint64_t offset, shape[WEIGHTS_MAX_DIMS], stride[WEIGHTS_MAX_DIMS];
    uint32_t n_dims;
} pickle_tensor;

struct pickle_value {
    uint8_t  kind;
    uint32_t len;                       /* of the string */
    union {
        int64_t              i;
        const char          *text;      /* in the pickle's bytes, not terminated */
        pickle_chain        *chain;
        const pickle_global *global;
        pickle_storage      *storage;
        pickle_tensor       *tensor;
    } u;
};
struct pickle_node { pickle_value v; pickle_node *next; };

/* Runs code[0..len) to its end; *top is the value that it leaves, in arena, and texts are in code.
 * path is for messages.  QSF_E_CORRUPT, QSF_E_UNSUPPORTED (a global or an opcode that no state dict
 * has), QSF_E_MEMORY */
qsf_status qsf_pickle_run(const qsf_platform *p, const char *path, const uint8_t *code, size_t len,
                          qsf_arena *arena, pickle_value *top, qsf_error *err);

#endif
