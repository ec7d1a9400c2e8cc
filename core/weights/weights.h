/* From a unit's bytes to the matrices and vectors that the kernels take.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_WEIGHTS_H
#define QSF_WEIGHTS_H

#include "base/pool.h"
#include "kernels.h"
#include "model/source.h"

/* A weight matrix in memory. */
typedef struct qsf_matrix {
    qsf_tensor t;             /* as it lies in memory; data NULL: the unit has no such matrix */
    int        form;          /* qsf_form of its tiles, or -1: rows are dequantised while computing */
    uint32_t   blocks;        /* tiles across */
    bool       lut;           /* its tiles are transposed for look-ups: lut.h */
    float      scale;         /* of the whole matrix: multiplies products and rows; 1 without one */
    /* Outliers of row r: [out_start[r], out_start[r+1]) of out_col, out_value; NULL: none. */
    const uint32_t *out_start, *out_col;
    const uint16_t *out_value;              /* fp16, added to the weight */
} qsf_matrix;

/* A loaded unit by kind.  Vectors are floats; of the kind of a matrix of experts, their scales. */
typedef struct qsf_weights {
    qsf_matrix   m[QSF_N_KINDS];
    const float *v[QSF_N_KINDS];
} qsf_weights;

/* Whether matrices of this form can be looked up. */
static inline bool qsf_form_looked_up(int form) { return form == QSF_F_T2 || form == QSF_F_QK256; }

/* A part of a unit's tensor as it then lies in memory: rows of it, whose bytes are t->bytes, in
 * tiles if there is a kernel for these. */
void       qsf_matrix_of(const qsf_tensor *t, qsf_matrix *m);

/* Bytes that a unit takes in a slot (weights, vectors as floats), and that it needs of the two
 * staging buffers (0: none): its bytes as stored, and as unpacked.  shared: without experts. */
qsf_status qsf_unit_memory(const qsf_source *s, uint32_t unit, bool shared, uint64_t *slot, uint64_t *stored,
                           uint64_t *raw, qsf_error *err);
/* Whether its bytes are read to a staging buffer; else to the slot itself. */
bool       qsf_unit_staged(const qsf_source *s, uint32_t unit);
/* Whether it may be used when its first piece is there, and refined in its slot later. */
bool       qsf_unit_refines(const qsf_source *s, uint32_t unit);

/* A unit's weights without numbers: shapes, types and forms of its matrices, and which vectors it
 * has. */
void       qsf_weights_describe(const qsf_source *s, uint32_t unit, qsf_weights *w);

/* What a unit is made in. */
typedef struct qsf_unit_room {
    uint8_t       *mem;       /* the slot: [cap], at least qsf_unit_memory's slot */
    uint64_t       cap;
    const uint8_t *stored;    /* the buffer that the unit was read to: a staging buffer, or mem */
    uint8_t       *raw;       /* the staging buffer for packed bytes, if there is one */
    uint8_t       *strips;    /* scratch for qsf_ggml_to_tiles */
    qsf_pool      *pool;      /* shares the work; NULL: the caller alone */
    bool           shared;    /* without experts: of their matrices the weights tell the form of one */
    bool           first;     /* of its two pieces, only the first is there */
    bool           lut;       /* layers' matrices that can use look-ups are transposed for them */
} qsf_unit_room;

/* Checks the unit (its CRC only if crc is set), unpacks it, and brings it into the form that the
 * kernels take: rows of blocks become tiles, vectors floats.  Adds what the first two took to
 * *t. */
qsf_status qsf_weights_make(const qsf_source *s, uint32_t unit, const qsf_unit_room *room, bool crc,
                            qsf_weights *w, qsf_unit_times *t, qsf_error *err);

#endif
