/* A terminal of Linux, macOS and similar systems: keys arrive one by one, and the terminal's own
 * settings are restored whenever the program ends or is stopped.
 * SPDX-License-Identifier: MIT
 *
 * The settings apply to the whole chat, also while an answer is written: what is typed meanwhile is
 * neither echoed into the answer nor lost. Ctrl-C stays a signal, so that it stops an answer;
 * NOFLSH keeps what was typed before it. */
#if !defined(_WIN32) && !defined(_GNU_SOURCE)
#  define _DEFAULT_SOURCE               /* SIGWINCH, TIOCGWINSZ */
#  define _POSIX_C_SOURCE 200809L
#endif
#if defined(__APPLE__) && !defined(_DARWIN_C_SOURCE)
#  define _DARWIN_C_SOURCE
#endif
#include "run.h"
#include "tty.h"

#if !defined(_WIN32) && !defined(__wasi__)
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <termios.h>
#include <unistd.h>

/* ---- what signal handlers share with the rest ---- */

static volatile sig_atomic_t tty_wanted, tty_keys_on, tty_resized, tty_went_on;
static struct termios tty_before, tty_keys;
static int tty_out = STDERR_FILENO;     /* the descriptor of the screen */

static const char tty_paste_on[] = "\033[?2004h", tty_paste_off[] = "\033[?2004l";

static void tty_put(const char *bytes, size_t n)
{
    while (n) {
        const ssize_t done = write(tty_out, bytes, n);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return;          /* the reader has gone; the input's end follows */
        bytes += done;
        n -= (size_t)done;
    }
}

static void tty_set(const struct termios *t)
{
    while (tcsetattr(STDIN_FILENO, TCSANOW, t) && errno == EINTR) ;
}

/* Whole, whatever comes meanwhile: a second Ctrl-C ends the program at once, and finds the terminal
 * in one state or the other.  SIGTTOU stays open: it stops a program in the background here. */
static void tty_switch(bool keys)
{
    sigset_t most, before;
    sigfillset(&most);
    sigdelset(&most, SIGTTOU);
    sigprocmask(SIG_BLOCK, &most, &before);
    if (keys) {
        tty_set(&tty_keys);
        tty_put(tty_paste_on, sizeof tty_paste_on - 1);
    } else if (tty_keys_on) {
        tty_put(tty_paste_off, sizeof tty_paste_off - 1);
        tty_set(&tty_before);
    }
    tty_keys_on = keys;
    sigprocmask(SIG_SETMASK, &before, NULL);
}

void tty_restore(void)
{
    tty_wanted = 0;
    tty_switch(false);
}

/* ---- signals ---- */

static const int tty_endings[] = { SIGHUP, SIGQUIT, SIGPIPE, SIGALRM, SIGTERM, SIGXCPU, SIGSEGV, SIGBUS,
    SIGILL, SIGFPE, SIGABRT };
enum { N_ENDINGS = sizeof tty_endings / sizeof tty_endings[0] };
static struct sigaction tty_old[N_ENDINGS], tty_old_stop, tty_old_cont, tty_old_winch;

/* Whatever ends the program does so, with the terminal as it was. */
static void tty_on_ending(int sig, siginfo_t *info, void *machine)
{
    (void)machine;
    tty_restore();
    for (int i = 0; i < N_ENDINGS; i++)
        if (tty_endings[i] == sig) sigaction(sig, &tty_old[i], NULL);
    const bool fault = (sig == SIGSEGV || sig == SIGBUS || sig == SIGILL || sig == SIGFPE) &&
        info->si_code > 0;
    /* a fault is raised again by the instruction itself, with full information for its handler */
    if (!fault) raise(sig);
}

static void tty_on_stop(int sig)
{
    const int before = errno;
    struct sigaction mine;
    sigset_t set;
    tty_switch(false);
    sigaction(sig, &tty_old_stop, &mine);
    sigemptyset(&set);
    sigaddset(&set, sig);
    raise(sig);
    /* stops here; SIGCONT's handler has run when this returns, unless the stop had no effect */
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    sigaction(sig, &mine, NULL);
    if (tty_wanted && !tty_keys_on) tty_switch(true);
    tty_went_on = 1;
    errno = before;
}

static void tty_on_cont(int sig)
{
    const int before = errno;
    (void)sig;
    if (tty_wanted) tty_switch(true);
    tty_went_on = 1;
    errno = before;
}

static void tty_on_winch(int sig)
{
    (void)sig;
    tty_resized = 1;
}

static void tty_handle(int sig, void (*fn)(int), struct sigaction *old)
{
    struct sigaction a = { .sa_handler = fn };
    sigemptyset(&a.sa_mask);
    sigaction(sig, &a, old);
    if (old->sa_handler == SIG_IGN) sigaction(sig, old, NULL);
}

static void tty_signals(void)
{
    for (int i = 0; i < N_ENDINGS; i++) {
        struct sigaction a = { .sa_sigaction = tty_on_ending, .sa_flags = SA_SIGINFO };
        sigfillset(&a.sa_mask);
        sigaction(tty_endings[i], &a, &tty_old[i]);
        if (tty_old[i].sa_handler == SIG_IGN) sigaction(tty_endings[i], &tty_old[i], NULL);
    }
    tty_handle(SIGTSTP, tty_on_stop, &tty_old_stop);
    tty_handle(SIGCONT, tty_on_cont, &tty_old_cont);
    tty_handle(SIGWINCH, tty_on_winch, &tty_old_winch);
}

static void tty_signals_back(void)
{
    for (int i = 0; i < N_ENDINGS; i++) sigaction(tty_endings[i], &tty_old[i], NULL);
    sigaction(SIGTSTP, &tty_old_stop, NULL);
    sigaction(SIGCONT, &tty_old_cont, NULL);
    sigaction(SIGWINCH, &tty_old_winch, NULL);
}

/* ---- the terminal ---- */

bool tty_open(void)
{
    static bool at_exit;
    const char *term = getenv("TERM");
    if (tty_wanted) return true;
    if (!term || !*term || !strcmp(term, "dumb") || !isatty(STDIN_FILENO)) return false;
    if (!isatty(tty_out = STDERR_FILENO) && !isatty(tty_out = STDOUT_FILENO)) return false;
    if (tcgetattr(STDIN_FILENO, &tty_before)) return false;
    tty_keys = tty_before;
    tty_keys.c_iflag &= ~(tcflag_t)(BRKINT | ICRNL | IGNCR | INLCR | INPCK | ISTRIP | IXON | PARMRK);
    tty_keys.c_lflag &= ~(tcflag_t)(ECHO | ECHONL | ICANON | IEXTEN);
    tty_keys.c_lflag |= ISIG | NOFLSH;
    tty_keys.c_cc[VMIN] = 1;
    tty_keys.c_cc[VTIME] = 0;
    if (!at_exit && atexit(tty_restore)) return false;
    at_exit = true;
    tty_signals();
    tty_wanted = 1;
    tty_switch(true);
    return true;
}

void tty_close(void)
{
    if (!tty_wanted) return;
    tty_restore();
    tty_signals_back();
}

bool tty_is_open(void) { return tty_wanted != 0; }

/* Signals are let in only while pselect waits: none can come between the look at its
 * flag and the wait. */
tty_event tty_read(char *buf, size_t cap, size_t *n, int wait_ms)
{
    sigset_t held, before;
    tty_event event = TTY_PAUSE;
    *n = 0;
    sigemptyset(&held);
    sigaddset(&held, SIGINT);
    sigaddset(&held, SIGTSTP);
    sigaddset(&held, SIGCONT);
    sigaddset(&held, SIGWINCH);
    sigprocmask(SIG_BLOCK, &held, &before);
    for (;;) {
        const struct timespec wait = { wait_ms / 1000, wait_ms % 1000 * 1000000L };
        fd_set in;
        FD_ZERO(&in);
        FD_SET(STDIN_FILENO, &in);
        const int ready = interrupted() || tty_resized || tty_went_on ? -1 : pselect(STDIN_FILENO + 1, &in,
            NULL, NULL, wait_ms < 0 ? NULL : &wait, &before);
        /* a signal that came with the bytes is handled first: Enter after Ctrl-C does not send the
         * dropped line */
        if (ready > 0) {
            sigprocmask(SIG_SETMASK, &before, NULL);
            sigprocmask(SIG_BLOCK, &held, NULL);
        }
        if (interrupted()) event = TTY_INTERRUPT;
        else if (tty_went_on) tty_went_on = 0, event = TTY_REDRAW;
        else if (tty_resized) tty_resized = 0, event = TTY_RESIZE;
        else if (ready < 0 && errno == EINTR) continue;
        else if (ready) {
            const ssize_t got = read(STDIN_FILENO, buf, cap);
            if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
            event = got > 0 ? TTY_BYTES : TTY_END;
            *n = got > 0 ? (size_t)got : 0;
        }
        break;
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    return event;
}

void tty_write(const char *bytes, size_t n) { tty_put(bytes, n); }

void tty_size(size_t *cols, size_t *rows)
{
    struct winsize w = { 0 };
    if (ioctl(tty_out, TIOCGWINSZ, &w)) w.ws_col = w.ws_row = 0;
    *cols = w.ws_col ? w.ws_col : 80;
    *rows = w.ws_row ? w.ws_row : 24;
}

bool tty_has_lines(void) { return false; }
bool tty_line(char *buf, size_t cap, size_t *n)
{
    (void)buf, (void)cap, (void)n;
    return false;
}
#endif
