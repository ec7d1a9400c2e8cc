/* Messages over MPI.
 * SPDX-License-Identifier: MIT
 *
 * A thread of each rank sends a heartbeat to all others twice a second and listens for theirs. It
 * also checks whether its own rank makes progress, and tells the others if it does not.  The same
 * thread keeps messages moving while the rank computes: MPI transfers large ones only within its
 * calls.  No thread blocks inside MPI, where a dead rank would never be noticed. */
#define _GNU_SOURCE
#include "link.h"

#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { TAG = 1, BEAT_MS = 500, MOVE_US = 1000, PATIENCE = 20 };

/* What begins a message: when it was sent. */
typedef struct stamp { double at; double length; } stamp;

typedef struct sending { MPI_Request request; unsigned char *bytes; size_t cap; bool used; } sending;

int link_rank, link_ranks;
static link_delay slower;
static double silent;
static MPI_Comm beats;
/* Sums (reduce.c) need slots for the messages to all other ranks, four times over: no rank is
 * ever further ahead of another than that. */
static sending *ring;
static int ring_next, n_ring;
static unsigned char *arrived;
static size_t arrived_cap;
static double busy_until;               /* of the slow network into this rank */
static pthread_t watcher;
static atomic_bool watching, ending, failing, away;
static atomic_uint steps;               /* that the rank has made */

double link_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void sleep_us(long us)
{
    const struct timespec t = { us / 1000000, us % 1000000 * 1000 };
    nanosleep(&t, NULL);
}

/* The rank waits, which does not count as hanging. */
static void pause_us(long us)
{
    link_alive();
    sleep_us(us);
}

/* Gives the other ranks time to notice the failure and report it themselves; then all are ended.
 * The alarm ends this rank if MPI cannot. */
void link_fail(const char *fmt, ...)
{
    char line[512];
    va_list args;
    if (atomic_exchange(&failing, true))
        for (;;) pause();               /* another thread is ending the job */
    va_start(args, fmt);
    vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    fprintf(stderr, "rank %d of %d: %s; the job ends\n", link_rank, link_ranks, line);
    fflush(stderr);
    fflush(stdout);
    alarm(4);
    sleep_us(1500000);
    MPI_Abort(MPI_COMM_WORLD, 1);
    _exit(1);
}

/* mpirun ends the others when one has died. */
static void on_term(int number)
{
    static const char text[] = "a rank of this job has died or was ended; the job ends\n";
    (void)number;
    if (write(STDERR_FILENO, text, sizeof text - 1) < 0) _exit(2);
    _exit(1);
}

void link_begin(int *argc, char ***argv, const link_delay *delay)
{
    int level = 0;
    slower = *delay;
    if (MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &level) != MPI_SUCCESS) exit(1);
    MPI_Comm_rank(MPI_COMM_WORLD, &link_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &link_ranks);
    signal(SIGTERM, on_term);
    if (level < MPI_THREAD_MULTIPLE) link_fail("this MPI cannot be called from several threads");
    n_ring = 4 * (link_ranks + 1);
    if (!(ring = calloc((size_t)n_ring, sizeof *ring))) link_fail("out of memory for messages");
    MPI_Comm_dup(MPI_COMM_WORLD, &beats);
}

/* ---- signs of life ---- */

void link_away(bool is) { atomic_store(&away, is); }
void link_alive(void) { atomic_fetch_add_explicit(&steps, 1, memory_order_relaxed); }

/* Processor time of all threads but this one. */
static double computed(void)
{
    struct timespec all, own;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &all);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &own);
    return (double)(all.tv_sec - own.tv_sec) + (double)(all.tv_nsec - own.tv_nsec) * 1e-9;
}

/* How long this rank has made no step, in seconds; time in which it computes counts less, since a
 * step may be long.  Called at every beat. */
static double no_step(double now)
{
    static double before, cpu_before, since;
    static unsigned steps_before;
    const unsigned made = atomic_load_explicit(&steps, memory_order_relaxed);
    const double cpu = computed(), beat = BEAT_MS * 1e-3;
    /* limited, since everything may have been stopped for a while */
    const double passed = before <= 0 ? 0 : now - before < 2 * beat ? now - before : 2 * beat;
    const bool computes = cpu - cpu_before > passed / 100;
    since += computes ? passed / PATIENCE : passed;
    if (made != steps_before || atomic_load(&away)) since = 0;
    before = now;
    cpu_before = cpu;
    steps_before = made;
    return since;
}

/* A beat is how long the rank has hung, in ms; 0: it does not. */
static void send_beats(int hung)
{
    static int beats_sent[2];           /* static, since nothing waits for the sends to finish */
    int *beat = &beats_sent[hung > 0];
    *beat = hung;
    for (int r = 0; r < link_ranks; r++) {
        MPI_Request q;
        if (r == link_rank) continue;
        MPI_Isend(beat, 1, MPI_INT, r, TAG, beats, &q);
        MPI_Request_free(&q);
    }
}

static void hear_beats(double *heard)
{
    int there = 1;
    for (;;) {
        MPI_Status from;
        int beat;
        MPI_Iprobe(MPI_ANY_SOURCE, TAG, beats, &there, &from);
        if (!there) return;
        MPI_Recv(&beat, 1, MPI_INT, from.MPI_SOURCE, TAG, beats, MPI_STATUS_IGNORE);
        heard[from.MPI_SOURCE] = link_now();
        if (beat && !atomic_load(&ending))
            link_fail("rank %d hangs: it has made no step for %.1f s", from.MPI_SOURCE, beat * 1e-3);
    }
}

static void *watch(void *arg)
{
    double *heard = arg, next = 0;
    for (int r = 0; r < link_ranks; r++) heard[r] = link_now();
    while (!atomic_load(&ending)) {
        const double now = link_now();
        if (now >= next) {
            const double hung = no_step(now);
            const bool hangs = hung > silent && !atomic_load(&ending);
            send_beats(hangs ? (int)(hung * 1e3) : 0);
            if (hangs) link_fail("this rank hangs: it has made no step for %.1f s", hung);
            next = now + BEAT_MS * 1e-3;
        }
        hear_beats(heard);
        for (int r = 0; r < link_ranks; r++)
            if (r != link_rank && link_now() - heard[r] > silent && !atomic_load(&ending))
                link_fail("rank %d has been silent for %.1f s: it has died, hangs or cannot be reached", r,
                          link_now() - heard[r]);
        sleep_us(MOVE_US);
    }
    free(heard);
    return NULL;
}

void link_watch(double limit)
{
    double *heard = calloc((size_t)link_ranks, sizeof *heard);
    silent = limit;
    if (!heard || pthread_create(&watcher, NULL, watch, heard))
        link_fail("cannot start the heartbeat thread");
    atomic_store(&watching, true);
}

void link_end(void)
{
    for (int i = 0; i < n_ring; i++) {
        int done = !ring[i].used;
        while (!done) {
            MPI_Test(&ring[i].request, &done, MPI_STATUS_IGNORE);
            if (!done) pause_us(100);
        }
        free(ring[i].bytes);
    }
    free(ring);
    /* All are still watched while they come here; a barrier that is polled, as everything is. */
    MPI_Request q;
    int all = 0;
    MPI_Ibarrier(MPI_COMM_WORLD, &q);
    while (!all) {
        MPI_Test(&q, &all, MPI_STATUS_IGNORE);
        if (!all) pause_us(500);
    }
    atomic_store(&ending, true);
    if (atomic_load(&watching)) pthread_join(watcher, NULL);
    free(arrived);
    MPI_Finalize();
}

/* ---- messages ---- */

/* What waits does not take the processor from those that compute. */
static void idle(int *turns)
{
    link_alive();
    if (++*turns < 64) sched_yield();
    else sleep_us(*turns < 1024 ? 20 : 200);
}

void *link_message(size_t len)
{
    sending *s = &ring[ring_next];
    const stamp head = { 0, (double)len };
    int done = !s->used, turns = 0;
    while (!done) {
        MPI_Test(&s->request, &done, MPI_STATUS_IGNORE);
        if (!done) idle(&turns);
    }
    if (len > INT32_MAX - sizeof head) link_fail("a message of %zu bytes; take a smaller batch", len);
    if (s->cap < sizeof head + len) {
        free(s->bytes);
        s->cap = sizeof head + len;
        if (!(s->bytes = malloc(s->cap))) link_fail("out of memory for a message of %zu bytes", len);
    }
    s->used = false;
    memcpy(s->bytes, &head, sizeof head);
    return s->bytes + sizeof head;
}

void link_go(int to)
{
    sending *s = &ring[ring_next];
    stamp head;
    ring_next = (ring_next + 1) % n_ring;
    memcpy(&head, s->bytes, sizeof head);
    head.at = link_now();
    memcpy(s->bytes, &head, sizeof head);
    s->used = true;
    MPI_Isend(s->bytes, (int)(sizeof head + (size_t)head.length), MPI_BYTE, to, TAG, MPI_COMM_WORLD,
              &s->request);
}

void link_send(int to, const void *bytes, size_t len)
{
    memcpy(link_message(len), bytes, len);
    link_go(to);
}

static void hold_back(const stamp *head)
{
    if (!(slower.seconds > 0) && !(slower.bytes_a_second > 0)) return;
    double begin = head->at > busy_until ? head->at : busy_until;
    busy_until = begin + (slower.bytes_a_second > 0 ? head->length / slower.bytes_a_second : 0);
    const double due = busy_until + slower.seconds;
    while (link_now() < due) {
        const double left = due - link_now();
        pause_us(left > 0.1 ? 100000 : (long)(left * 1e6) + 1);
    }
}

size_t link_receive(int from, bool wait, const void **bytes)
{
    MPI_Status what;
    MPI_Request q;
    int there = 0, len = 0, turns = 0;
    stamp head;
    *bytes = NULL;
    for (;;) {
        MPI_Iprobe(from, TAG, MPI_COMM_WORLD, &there, &what);
        if (there || !wait) break;
        idle(&turns);
    }
    if (!there) return 0;
    MPI_Get_count(&what, MPI_BYTE, &len);
    if ((size_t)len < sizeof head) link_fail("rank %d sent a message of %d bytes", from, len);
    if (arrived_cap < (size_t)len) {
        free(arrived);
        arrived_cap = (size_t)len;
        if (!(arrived = malloc(arrived_cap))) link_fail("out of memory for a message of %d bytes", len);
    }
    MPI_Irecv(arrived, len, MPI_BYTE, from, TAG, MPI_COMM_WORLD, &q);
    for (there = turns = 0; !there;) {
        MPI_Test(&q, &there, MPI_STATUS_IGNORE);
        if (!there) idle(&turns);
    }
    memcpy(&head, arrived, sizeof head);
    if (head.length != (double)((size_t)len - sizeof head)) link_fail("rank %d sent a damaged message", from);
    hold_back(&head);
    *bytes = arrived + sizeof head;
    return (size_t)len - sizeof head;
}

void link_gather(double mine, double *all)
{
    MPI_Request q;
    int done = 0;
    MPI_Iallgather(&mine, 1, MPI_DOUBLE, all, 1, MPI_DOUBLE, MPI_COMM_WORLD, &q);
    while (!done) {
        MPI_Test(&q, &done, MPI_STATUS_IGNORE);
        if (!done) pause_us(200);
    }
}

void link_share(void *bytes, size_t len)
{
    MPI_Request q;
    int done = 0;
    MPI_Ibcast(bytes, (int)len, MPI_BYTE, 0, MPI_COMM_WORLD, &q);
    while (!done) {
        MPI_Test(&q, &done, MPI_STATUS_IGNORE);
        if (!done) pause_us(200);
    }
}
