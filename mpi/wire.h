/* How rows of hidden states are sent: unchanged, or in fewer bits.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_MPI_WIRE_H
#define QSF_MPI_WIRE_H

#include <stddef.h>
#include <stdint.h>

typedef enum wire { WIRE_F32, WIRE_F16, WIRE_Q8, N_WIRES } wire;

size_t wire_bytes(wire w, size_t n);                /* of a row of n */
void   wire_pack(wire w, void *to, const float *x, size_t n);
void   wire_unpack(wire w, float *x, const void *from, size_t n);

#endif
