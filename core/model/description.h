/* The members of qsf_hparams as a table, for code that walks all of them: the extension section of
 * QSF files and the identity of a saved session's model.
 * SPDX-License-Identifier: MIT
 *
 * model_tables_test.py fails if a member of the struct has no row. */
#ifndef QSF_DESCRIPTION_H
#define QSF_DESCRIPTION_H

#include "model/hparams.h"

typedef enum qsf_member_type { QSF_MEMBER_TEXT, QSF_MEMBER_U8, QSF_MEMBER_BOOL, QSF_MEMBER_U32,
                               QSF_MEMBER_F32 } qsf_member_type;
/* ONE: the value is in the struct.  Otherwise the struct has a pointer, NULL or to [n_layers],
 * [n_layers][QSF_XIELU_NUMBERS], or [rope_dim / 2] values, head_dim if rope_dim is 0. */
typedef enum qsf_member_counts { QSF_COUNT_ONE, QSF_COUNT_LAYERS, QSF_COUNT_XIELU, QSF_COUNT_ROTARY
                               } qsf_member_counts;
/* Where a QSF file has the value. */
typedef enum qsf_member_saved {
    QSF_SAVED_HEADER,           /* in its header, or it follows from the tensors */
    QSF_SAVED_ALWAYS,           /* in the extension section */
    QSF_SAVED_OPTION,           /* there if it is set */
    QSF_SAVED_NEEDED            /* there if it is set, and then the file is one of version 3 */
} qsf_member_saved;

typedef struct qsf_member {
    const char *key;            /* in the extension section; never reused, as sessions have it, too */
    uint8_t  type, count, saved;
    uint8_t  limit;             /* TEXT: bytes of the array; U8, BOOL: the largest value; arrays of F32: 1: of
                                 * divisors, which are not 0 */
    uint16_t at;                /* in qsf_hparams */
    uint16_t most;              /* arrays of U32: the member that no value exceeds */
} qsf_member;

extern const qsf_member qsf_members[];
extern const size_t qsf_n_members;

/* The member's value or values; NULL for an array that the model does not have. */
const void *qsf_member_values(const qsf_hparams *hp, const qsf_member *m);
uint32_t    qsf_member_count(const qsf_hparams *hp, const qsf_member *m);
/* Whether it is not zero, empty or NULL. */
bool        qsf_member_is_set(const qsf_hparams *hp, const qsf_member *m);

/* Continues the hash h (64-bit FNV-1a) with the keys and values of all members that are set, equal
 * on all machines.  A member added later does not change the hash of a model if it is zero. */
uint64_t    qsf_hparams_hash(uint64_t h, const qsf_hparams *hp);

#endif
