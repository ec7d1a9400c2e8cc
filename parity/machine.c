/* The processor's own words for itself, and what the compiler knows.
 * SPDX-License-Identifier: MIT */
#include "machine.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "parity_commit.h"

#if defined(_WIN32)
#  define SYSTEM_NAME "windows "
#elif defined(__APPLE__)
#  define SYSTEM_NAME "macos "
#elif defined(__linux__)
#  define SYSTEM_NAME "linux "
#else
#  define SYSTEM_NAME "other "
#endif
#if defined(__x86_64__)
#  define SYSTEM_KIND "x86_64"
#elif defined(__aarch64__)
#  define SYSTEM_KIND "aarch64"
#else
#  define SYSTEM_KIND "other"
#endif

#if defined(__x86_64__)
#include <cpuid.h>

static void machine_ask(char *out, size_t cap)
{
    uint32_t words[12];
    char text[sizeof words + 1] = "";
    unsigned most = __get_cpuid_max(0x80000000u, NULL);
    for (unsigned i = 0; i < 3 && most >= 0x80000004u; i++)
        __get_cpuid(0x80000002u + i, &words[4 * i], &words[4 * i + 1], &words[4 * i + 2], &words[4 * i + 3]);
    if (most >= 0x80000004u) memcpy(text, words, sizeof words);
    snprintf(out, cap, "%s", text);
}
#else
static void machine_ask(char *out, size_t cap)
{
    static const char *const names[] = { "model name", "Hardware", "CPU part" };
    char line[256];
    FILE *f = fopen("/proc/cpuinfo", "r");
    *out = 0;
    while (f && !*out && fgets(line, sizeof line, f)) {
        const char *value = strchr(line, ':');
        for (size_t i = 0; value && i < sizeof names / sizeof names[0] && !*out; i++)
            if (!strncmp(line, names[i], strlen(names[i]))) snprintf(out, cap, "%s", value + 1);
    }
    if (f) fclose(f);
}
#endif

void machine_processor(char *out, size_t cap)
{
    size_t n = 0;
    machine_ask(out, cap);
    for (const char *p = out; *p; p++) {                /* printable, without runs of spaces */
        const char c = (unsigned char)*p < ' ' || (unsigned char)*p > '~' ? ' ' : *p;
        if (c != ' ' || (n && out[n - 1] != ' ')) out[n++] = c;
    }
    while (n && out[n - 1] == ' ') n--;
    out[n] = 0;
    if (!n) snprintf(out, cap, "unknown");
}

const char *machine_system(void) { return SYSTEM_NAME SYSTEM_KIND; }
const char *machine_commit(void) { return PARITY_COMMIT; }
