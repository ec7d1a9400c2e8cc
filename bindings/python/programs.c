/* All programs in one file, for the Python package: each would bring the whole engine with it.
 * SPDX-License-Identifier: MIT
 *
 * The first argument is a program's name without "qsf-", or a command of qsf. */
#include <string.h>

/* The mains of cli/qsf-*.c and cli/qsf.c, renamed by the build. */
int qsf_main(int argc, char **argv);
int qsf_run_main(int argc, char **argv);
int qsf_convert_main(int argc, char **argv);
int qsf_bench_main(int argc, char **argv);
#ifdef QSF_WITH_SERVER
int qsf_serve_main(int argc, char **argv);
#endif

int main(int argc, char **argv)
{
    static const struct { const char *name; int (*main)(int argc, char **argv); } programs[] = {
        { "run", qsf_run_main }, { "convert", qsf_convert_main }, { "bench", qsf_bench_main },
#ifdef QSF_WITH_SERVER
        { "serve", qsf_serve_main },
#endif
    };
    for (size_t i = 0; argc > 1 && i < sizeof programs / sizeof programs[0]; i++)
        if (!strcmp(argv[1], programs[i].name)) return programs[i].main(argc - 1, argv + 1);
    return qsf_main(argc, argv);
}
