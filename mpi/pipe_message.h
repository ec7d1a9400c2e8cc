/* The pipeline's messages: one struct for each kind, written and read in pipe_message.c alone.
 * SPDX-License-Identifier: MIT
 *
 * On the wire a message is its kind, the size of its struct, the struct, and what may follow it
 * (the tail).  Numbers are in the order of bytes of the machine: the ranks of a job run the same
 * program. */
#ifndef QSF_MPI_PIPE_MESSAGE_H
#define QSF_MPI_PIPE_MESSAGE_H

#include "qsf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* X(kind, its struct pipe_..., bytes of the struct, whether a tail may follow) */
#define PIPE_KINDS(X) \
    X(BATCH,      batch,       8, true)     \
    X(LOGITS,     logits,      4, true)     \
    X(TRY_LENGTH, try_length,  4, false)    \
    X(LENGTH,     length,      4, false)    \
    X(TRUNCATE,   truncate,    8, false)    \
    X(SHARE,      share,      12, false)    \
    X(ADAPT,      adapt,       8, true)     \
    X(LOAD,       load,       12, true)     \
    X(LOADED,     loaded,    408, false)    \
    X(DROP,       drop,        4, false)    \
    X(END,        end,         4, false)

typedef enum pipe_kind {
#define X(KIND, name, bytes, tail) PIPE_##KIND,
    PIPE_KINDS(X)
#undef X
    PIPE_N_KINDS
} pipe_kind;

/* Rows to compute, from a rank to the next.  Tail: qsf_row[n_rows], then the rows' states, each
 * packed as this wire. */
typedef struct pipe_batch { uint32_t n_rows, wire; } pipe_batch;
/* From the last rank to rank 0.  Tail: float[n_rows][n_vocab], of the rows that ask for logits. */
typedef struct pipe_logits { uint32_t n_rows; } pipe_logits;
/* Each rank truncates sequence 0 to this length, or to less if its layers cannot stop there, and
 * reports the result to rank 0 with PIPE_LENGTH. */
typedef struct pipe_try_length { uint32_t length; } pipe_try_length;
typedef struct pipe_length { uint32_t length; } pipe_length;
/* The later ranks do the same with their sequences: qsf_seq_truncate, qsf_seq_share. */
typedef struct pipe_truncate { qsf_seq seq; uint32_t length; } pipe_truncate;
typedef struct pipe_share { qsf_seq dst, src; uint32_t length; } pipe_share;
/* The adapters of a sequence.  Tail: job_adapter[n_adapters]. */
typedef struct pipe_adapt { qsf_seq seq; uint32_t n_adapters; } pipe_adapt;
/* The later ranks read an adapter whose bytes have this hash, here in two halves, and report to
 * rank 0 with PIPE_LOADED.  Tail: its path within their --lora-dir, with its terminator. */
typedef struct pipe_load { uint32_t number, hash_low, hash_high; } pipe_load;
typedef struct pipe_loaded { uint32_t number; qsf_error error; } pipe_loaded;
/* The later ranks drop an adapter. */
typedef struct pipe_drop { uint32_t number; } pipe_drop;
/* The job ends. */
typedef struct pipe_end { uint32_t reserved; } pipe_end;

typedef struct pipe_message {
    pipe_kind kind;
    union {
#define X(KIND, name, bytes, tail) pipe_##name name;
        PIPE_KINDS(X)
#undef X
    } as;
    /* received: what follows the struct, aligned for float; valid until the next message arrives */
    const unsigned char *tail;
    size_t n_tail;
} pipe_message;

/* Writes a message without a tail and sends it. */
void pipe_send(int to, const pipe_message *m);
/* Writes a message into the link and returns the place of its tail of n_tail bytes; when that is
 * written, link_go sends the message. */
unsigned char *pipe_begin(const pipe_message *m, size_t n_tail);
/* The next message of a rank.  If none has arrived: waits, or returns false.  One that is not whole
 * ends the job. */
bool pipe_receive(int from, bool wait, pipe_message *m);
/* Waits for a message of this kind; any other ends the job. */
void pipe_expect(int from, pipe_kind kind, pipe_message *m);

#endif
