/* Checks that all ranks have the same file.
 * SPDX-License-Identifier: MIT
 *
 * Compares its length and a hash of the beginning, where description and vocabulary are, of pieces
 * all over the rest and of the end; or of all bytes, which takes as long as reading them. */
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#include "job.h"
#include "link.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { WHOLE_START = 4 << 20, PIECES = 1024, PIECE = 4096 };

static uint64_t hash_on(uint64_t h, const unsigned char *p, size_t n)
{
    for (size_t i = 0; i < n; i++) h = (h ^ p[i]) * 0x100000001b3u;     /* FNV-1a, 64 bits */
    return h;
}

static uint64_t hash_range(FILE *f, uint64_t h, uint64_t at, uint64_t len, const char *path)
{
    static unsigned char part[1 << 16];
    if (fseeko(f, (off_t)at, SEEK_SET)) link_fail("%s cannot be read at %llu", path, (unsigned long long)at);
    while (len) {
        const size_t want = len < sizeof part ? (size_t)len : sizeof part, n = fread(part, 1, want, f);
        if (!n) link_fail("%s cannot be read", path);
        h = hash_on(h, part, n);
        len -= n;
        link_alive();
    }
    return h;
}

static uint64_t hash_file(const char *path, bool all)
{
    uint64_t h = 0xcbf29ce484222325u;
    FILE *f = fopen(path, "rb");
    if (!f) link_fail("%s cannot be opened", path);
    fseeko(f, 0, SEEK_END);
    const uint64_t length = (uint64_t)ftello(f);
    h = hash_on(h, (const unsigned char *)&length, sizeof length);
    if (all || length <= WHOLE_START + (uint64_t)PIECES * PIECE) {
        h = hash_range(f, h, 0, length, path);
    } else {
        h = hash_range(f, h, 0, WHOLE_START, path);
        const uint64_t rest = length - WHOLE_START - PIECE;
        for (uint64_t i = 0; i <= PIECES; i++)
            h = hash_range(f, h, WHOLE_START + rest / PIECES * i + rest % PIECES * i / PIECES, PIECE, path);
    }
    fclose(f);
    return h;
}

static void check_file(const char *path, bool whole)
{
    const uint64_t h = hash_file(path, whole);
    double *high = calloc((size_t)link_ranks, sizeof *high), *low = calloc((size_t)link_ranks, sizeof *low);
    if (!high || !low) link_fail("out of memory");
    link_gather((double)(h >> 32), high);
    link_gather((double)(h & 0xffffffff), low);
    for (int r = 1; r < link_ranks; r++)
        if (high[r] != high[0] || low[r] != low[0])
            link_fail("%s is not the same file on rank %d as on rank 0: hash %08x%08x here; copy rank 0's",
                      path, r, (unsigned)(h >> 32), (unsigned)(h & 0xffffffff));
    free(high);
    free(low);
}

void job_check_file(const job *j) { check_file(j->path, !strcmp(j->check, "all")); }

/* The i-th file of an adapter, in cap bytes of name; false if it does not exist. */
static bool adapter_file(const char *path, int i, char *name, size_t cap)
{
    static const char *const of_directory[] = { "adapter_config.json", "adapter_model.safetensors" };
    struct stat is;
    const bool folder = !stat(path, &is) && S_ISDIR(is.st_mode);
    if (i >= (folder ? 2 : 1)) return false;
    const int n = snprintf(name, cap, "%s%s%s", path, folder ? "/" : "", folder ? of_directory[i] : "");
    return n > 0 && (size_t)n < cap;
}

void job_check_adapter(const char *path)
{
    char name[4096];
    if (!adapter_file(path, 0, name, sizeof name)) link_fail("%s: the name is too long", path);
    for (int i = 0; adapter_file(path, i, name, sizeof name); i++) check_file(name, true);
}

uint64_t job_adapter_sum(const char *path)
{
    char name[4096];
    unsigned char part[1 << 14];
    uint64_t h = 0xcbf29ce484222325u;
    for (int i = 0; adapter_file(path, i, name, sizeof name); i++) {
        FILE *f = fopen(name, "rb");
        if (!f) return 0;
        for (size_t n; (n = fread(part, 1, sizeof part, f)); link_alive()) h = hash_on(h, part, n);
        const bool bad = ferror(f);
        fclose(f);
        if (bad) return 0;
    }
    return h;
}
