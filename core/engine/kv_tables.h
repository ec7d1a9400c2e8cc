/* Which blocks of the KV cache belong to which positions of which sequence: block tables and
 * reference counts.  Sharing a prefix, truncating and copying on write are operations on the
 * tables; the bytes are the executor's (layers/kv.h).
 * SPDX-License-Identifier: MIT */
#ifndef QSF_KV_TABLES_H
#define QSF_KV_TABLES_H

#include "layers/kv.h"

typedef struct qsf_kv_tables {
    const qsf_platform *platform;
    uint32_t    n_blocks, n_seqs;
    uint32_t    n_free;
    uint32_t   *free;      /* [n_blocks] stack of free blocks */
    uint32_t   *refs;      /* [n_blocks] */
    qsf_kv_seq *seqs;      /* [n_seqs] */
    /* Copies a block's bytes, when a shared block is written to. */
    void      (*copy)(void *user, uint32_t to, uint32_t from);
    void       *user;
} qsf_kv_tables;

uint64_t   qsf_kv_tables_bytes(uint32_t n_blocks, uint32_t n_seqs);
/* The caller sets copy and user then. */
qsf_status qsf_kv_tables_init(qsf_kv_tables *t, const qsf_platform *p, uint32_t n_blocks, uint32_t n_seqs,
                              qsf_error *err);
void       qsf_kv_tables_done(qsf_kv_tables *t);

/* Makes room for n more positions of sequence s: takes blocks, copies a shared last
 * block.  QSF_E_FULL changes nothing. */
qsf_status qsf_kv_grow(qsf_kv_tables *t, uint32_t s, uint32_t n);
/* The largest n that qsf_kv_grow has room for. */
uint32_t   qsf_kv_room(const qsf_kv_tables *t, uint32_t s);
void       qsf_kv_truncate(qsf_kv_tables *t, uint32_t s, uint32_t length);
void       qsf_kv_share(qsf_kv_tables *t, uint32_t dst, uint32_t src, uint32_t length);
/* Drops blocks after the first `sinks` and before the last `window` positions, except those that
 * have drawn the most attention, up to `heavy` positions. */
void       qsf_kv_slide(qsf_kv_tables *t, uint32_t s, uint32_t window, uint32_t sinks, uint32_t heavy);
/* Whether the sequence can be truncated to length: all that its next token sees must be there. */
bool       qsf_kv_can_cut(const qsf_kv_tables *t, uint32_t s, uint32_t length);

#endif
