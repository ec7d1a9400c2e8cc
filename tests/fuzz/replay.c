/* The main of a fuzz target where libFuzzer is not there: runs every file of the
 * folders and files that are named.
 * SPDX-License-Identifier: MIT
 *
 * Each input is handed over in a buffer of exactly its size, so that a sanitizer
 * sees a read past it. */
#if !defined(_GNU_SOURCE)
#  define _GNU_SOURCE
#endif
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_count;

static int replay_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f) {
        perror(path);
        return 1;
    }
    fseek(f, 0, SEEK_END);
    const long size = ftell(f);
    rewind(f);
    uint8_t *data = malloc(size > 0 ? (size_t)size : 1);
    const int bad = !data || size < 0 || fread(data, 1, (size_t)size, f) != (size_t)size;
    fclose(f);
    if (bad) perror(path);
    else LLVMFuzzerTestOneInput(data, (size_t)size);
    replay_count += !bad;
    free(data);
    return bad;
}

static int replay_folder(const char *path)
{
    DIR *d = opendir(path);
    if (!d) return replay_file(path);
    int bad = 0;
    for (struct dirent *e; (e = readdir(d));) {
        char name[4096];
        if (e->d_name[0] == '.') continue;
        if (snprintf(name, sizeof name, "%s/%s", path, e->d_name) < (int)sizeof name)
            bad |= replay_folder(name);
    }
    closedir(d);
    return bad;
}

int main(int argc, char **argv)
{
    int bad = 0;
    for (int i = 1; i < argc; i++) bad |= replay_folder(argv[i]);
    printf("%d inputs\n", replay_count);
    return bad || replay_count == 0;
}
