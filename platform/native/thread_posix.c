/* Threads and the clock on Linux and macOS.
 * SPDX-License-Identifier: MIT */
#include "native.h"

#if defined(NATIVE_POSIX)
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

struct qsf_thread {
    pthread_t id;
    void    (*fn)(void *arg);
    void     *arg;
};

static void *thread_main_posix(void *arg)
{
    qsf_thread *t = arg;
    t->fn(t->arg);
    return NULL;
}

/* Signals stay with the program's own threads. */
qsf_status qsf_native_thread_start(void *user, void (*fn)(void *arg), void *arg, qsf_thread **out)
{
    (void)user;
    *out = NULL;
    qsf_thread *t = malloc(sizeof *t);
    if (!t) return QSF_E_MEMORY;
    t->fn = fn;
    t->arg = arg;
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    const int e = pthread_create(&t->id, NULL, thread_main_posix, t);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (e) {
        free(t);
        return QSF_E_MEMORY;               /* EAGAIN: no memory or no right to another thread */
    }
    *out = t;
    return QSF_OK;
}

void qsf_native_thread_join(void *user, qsf_thread *t)
{
    (void)user;
    pthread_join(t->id, NULL);
    free(t);
}

uint64_t qsf_native_now_ns(void *user)
{
    (void)user;
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* The Unix time of a UTC clock that shows the local date and time. */
int64_t qsf_native_wall_s(void *user)
{
    (void)user;
    struct tm d;
    const time_t t = time(NULL);
    if (t == (time_t)-1 || !localtime_r(&t, &d)) return 0;
    const int64_t year = d.tm_year + 1900 - 1;          /* whole years before this one, from year 1 on */
    const int64_t days = 365 * (year - 1969) + (year / 4 - year / 100 + year / 400 - 477) + d.tm_yday;
    return days * 86400 + d.tm_hour * 3600 + d.tm_min * 60 + d.tm_sec;
}
#endif
