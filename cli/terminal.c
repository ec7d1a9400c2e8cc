/* The terminal around qsf-run: Ctrl-C, colours, files, exit codes.
 * SPDX-License-Identifier: MIT */
#if !defined(_WIN32) && !defined(_GNU_SOURCE) && !defined(_POSIX_C_SOURCE)
#  define _POSIX_C_SOURCE 200809L       /* fileno, isatty */
#endif

#include "run.h"

#include "platform.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#ifdef _WIN32
#  include <fcntl.h>
#  include <io.h>
#  include <windows.h>
#  define terminal_fd(f) _isatty(_fileno(f))
#else
#  include <unistd.h>
#  define terminal_fd(f) isatty(fileno(f))
#endif

static volatile sig_atomic_t interrupt_count;

static void on_interrupt(int sig)
{
    signal(sig, on_interrupt);          /* some systems reset it */
    if (++interrupt_count > 1) _exit(EXIT_INTERRUPTED);
}

void terminal_init(void)
{
    signal(SIGINT, on_interrupt);
#ifdef SIGXFSZ
    signal(SIGXFSZ, SIG_IGN);           /* a file beyond the limit of ulimit -f: writing says so, and takes back what it began */
#endif
#ifdef _WIN32
    SetConsoleOutputCP(CP_UTF8);
    SetConsoleCP(CP_UTF8);
    _setmode(_fileno(stdin), _O_BINARY);
    _setmode(_fileno(stdout), _O_BINARY);
#endif
}

bool interrupted(void) { return interrupt_count > 0; }
void interrupt_clear(void) { interrupt_count = 0; }
bool terminal_is(FILE *f) { return terminal_fd(f) != 0; }

uint64_t clock_ns(void)
{
    const qsf_platform *p = qsf_platform_native();
    return p->now_ns(p->user);
}

const char *colour(FILE *f, const char *code)
{
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
    if ((no && *no) || (term && !strcmp(term, "dumb")) || !terminal_is(f)) return "";
    return code;
}

char *read_whole(const char *path, size_t *len)
{
    const bool standard = !strcmp(path, "-");
    FILE *f = standard ? stdin : fopen(path, "rb");
    size_t cap = 65536, n = 0;
    char *text = f ? malloc(cap) : NULL;
    while (text) {
        n += fread(text + n, 1, cap - n - 1, f);
        if (n + 1 < cap) break;
        char *more = realloc(text, cap *= 2);
        if (!more) {
            free(text);
            errno = ENOMEM;
        }
        text = more;
    }
    const bool failed = f && ferror(f);
    if (!text || failed) {
        fprintf(stderr, "cannot read %s: %s\n", standard ? "standard input" : path, strerror(errno));
        free(text);
        text = NULL;
    } else {
        text[n] = 0;
        *len = n;
    }
    if (f && !standard) fclose(f);
    return text;
}

int exit_code(qsf_status st)
{
    switch (st) {
    case QSF_OK: return EXIT_OK;
    case QSF_E_ARGUMENT: return EXIT_USAGE;
    case QSF_E_CORRUPT:
    case QSF_E_UNSUPPORTED: return EXIT_MODEL;
    case QSF_E_MEMORY:
    case QSF_E_BUDGET: return EXIT_NO_MEMORY;
    case QSF_E_IO:
    case QSF_E_NOT_FOUND: return EXIT_IO;
    case QSF_E_CANCELLED: return EXIT_INTERRUPTED;
    default: return EXIT_FAILED;
    }
}

int report(const qsf_error *e)
{
    fprintf(stderr, "%serror:%s %s\n", colour(stderr, "\033[31m"), colour(stderr, "\033[0m"), e->text[0] ? e->text : qsf_status_text(e->status));
    return exit_code(e->status);
}

int report_context(qsf_context *c, qsf_status st)
{
    qsf_error e = { .status = st };
    snprintf(e.text, sizeof e.text, "%s", qsf_last_error(c));
    return report(&e);
}

#undef terminal_fd
