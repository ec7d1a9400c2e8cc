/* Communication between ranks: messages with a time limit, and heartbeats.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_MPI_LINK_H
#define QSF_MPI_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Simulates a network slower than the real one, for tests: each message arrives this much later.
 * The ranks must then share a clock, that is, run on one machine. */
typedef struct link_delay { double seconds, bytes_a_second; } link_delay;     /* 0: none */

extern int link_rank, link_ranks;

/* Joins the job, which every rank does first; and leaves it. */
void link_begin(int *argc, char ***argv, const link_delay *delay);
void link_end(void);
/* Starts the heartbeats.  limit: seconds after which a silent rank counts as dead, and after which
 * one that neither reports that it is alive nor computes counts as hanging. */
void link_watch(double limit);
/* Reports that the caller makes progress; functions in here that wait report it, too. */
void link_alive(void);
/* Whether the rank waits for something outside the job: a reader of its output, or a request. */
void link_away(bool is);

/* Ends the job on all ranks, with an error on each that is alive. */
void link_fail(const char *fmt, ...);

/* Sends bytes, which are copied; blocks only if the receiver has fallen many messages back. */
void link_send(int to, const void *bytes, size_t len);
/* The same without a copy: the place of the next message, for len bytes, which then goes. */
void *link_message(size_t len);
void link_go(int to);
/* The next message of a rank, in *bytes, which belongs to the link until the next call; returns its
 * length.  If no message has arrived: waits, or returns 0. */
size_t link_receive(int from, bool wait, const void **bytes);

/* Every rank's number in all[link_ranks]. */
void link_gather(double mine, double *all);
/* Rank 0's bytes, on all. */
void link_share(void *bytes, size_t len);
double link_now(void);              /* seconds */

#endif
