/* The terminal around qsf-run: Ctrl-C, colours, files, exit codes.
 * SPDX-License-Identifier: MIT */
#if !defined(_WIN32) && !defined(_GNU_SOURCE) && !defined(_POSIX_C_SOURCE)
#  define _POSIX_C_SOURCE 200809L       /* fileno, isatty, sigaction */
#endif

#include "run.h"

#include "base/platform.h"
#include "tty.h"

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
#  include <fcntl.h>
#  include <unistd.h>
#  define terminal_fd(f) isatty(fileno(f))
#endif

static void on_interrupt(int sig)
{
#ifdef _WIN32
    signal(sig, on_interrupt);          /* it is reset there */
#else
    (void)sig;
#endif
    if (interrupt_add() <= 1) return;
    tty_restore();
    _exit(EXIT_INTERRUPTED);
}

#if !defined(_WIN32) && !defined(__wasi__)
/* If the program was started without one of the three standard files, the next file that it opens
 * would get that number, and be written to.  /dev/null takes its place, opened so that using it is
 * an error. */
static void terminal_reserve(void)
{
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
            if (open("/dev/null", fd == STDOUT_FILENO ? O_RDONLY : O_WRONLY) != fd) return;
}
#endif

#ifdef _WIN32
static bool terminal_has_colours = true;

/* The console of older systems shows what should be colours as letters. */
static void terminal_colours(DWORD which)
{
    const DWORD vt = 0x0004;            /* ENABLE_VIRTUAL_TERMINAL_PROCESSING, which old headers lack */
    DWORD mode;
    HANDLE h = GetStdHandle(which);
    if (GetConsoleMode(h, &mode) && !SetConsoleMode(h, mode | vt)) terminal_has_colours = false;
}
#else
static const bool terminal_has_colours = true;
#endif

void terminal_init(void)
{
#if defined(_WIN32) || defined(__wasi__)
    signal(SIGINT, on_interrupt);
#else
    /* without SA_RESTART: the signal ends a wait for a line */
    struct sigaction interrupt = { .sa_handler = on_interrupt };
    sigemptyset(&interrupt.sa_mask);
    sigaction(SIGINT, &interrupt, NULL);
    terminal_reserve();
#endif
#ifdef SIGXFSZ
    /* a file above the limit of ulimit -f: the write then fails, and removes what it began */
    signal(SIGXFSZ, SIG_IGN);
#endif
#ifdef _WIN32
    SetConsoleOutputCP(CP_UTF8);
    SetConsoleCP(CP_UTF8);
    _setmode(_fileno(stdin), _O_BINARY);
    _setmode(_fileno(stdout), _O_BINARY);
    setvbuf(stdout, NULL, _IOFBF, 8192);          /* else each byte of a character goes out alone */
    terminal_colours(STD_OUTPUT_HANDLE);
    terminal_colours(STD_ERROR_HANDLE);
#endif
}

bool terminal_is(FILE *f) { return terminal_fd(f) != 0; }

uint64_t clock_ns(void)
{
    const qsf_platform *p = qsf_platform_native();
    return p->now_ns(p->user);
}

bool terminal_moves(FILE *f)
{
    const char *term = getenv("TERM");
    return terminal_is(f) && terminal_has_colours && !(term && (!*term || !strcmp(term, "dumb")));
}

const char *colour(FILE *f, const char *code)
{
    const char *no = getenv("NO_COLOR");
    return (no && *no) || !terminal_moves(f) ? "" : code;
}

bool output_flush(void)
{
    static bool lost;
    if (lost) return false;
    errno = 0;
    if (!fflush(stdout) && !ferror(stdout)) return true;
    lost = true;
    if (errno == EPIPE) return false;
    fprintf(stderr, "cannot write standard output: %s\n", errno ? strerror(errno) : "a part of it was lost");
    return false;
}

int output_end(int code) { return output_flush() || code ? code : EXIT_IO; }

/* The names of files are UTF-8 on Windows, too. */
static FILE *file_open(const char *path)
{
#ifdef _WIN32
    wchar_t wide[1024];
    if (MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, wide, 1024) > 0)
        return _wfopen(wide, L"rb");
#endif
    return fopen(path, "rb");
}

bool path_exists(const char *path)
{
    FILE *f = file_open(path);
    if (f) fclose(f);
    return f != NULL;
}

char *read_at_most(const char *path, size_t most, size_t *len)
{
    const bool standard = !strcmp(path, "-");
    FILE *f = standard ? stdin : file_open(path);
    size_t cap = 65536, n = 0;
    char *text = f ? malloc(cap) : NULL;
    while (text && n <= most) {
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

char *read_whole(const char *path, size_t *len) { return read_at_most(path, SIZE_MAX, len); }

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
    fprintf(stderr, "%serror:%s %s\n", colour(stderr, "\033[31m"), colour(stderr, "\033[0m"),
            e->text[0] ? e->text : qsf_status_text(e->status));
    return exit_code(e->status);
}

int report_room(const qsf_error *e)
{
    const int code = report(e);
    if (code == EXIT_NO_MEMORY)
        fputs("A shorter context (-c N) or smaller keys and values (-ctk q4) need less memory; with "
              "a\nbudget (--ram-budget MB) layers are read from the file when they are needed.\n", stderr);
    return code;
}

int report_context(qsf_context *c, qsf_status st)
{
    qsf_error e = { .status = st };
    snprintf(e.text, sizeof e.text, "%s", qsf_last_error(c));
    return report_room(&e);
}

#undef terminal_fd
