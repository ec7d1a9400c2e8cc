/* Fuzz target: what a hub, or a user, says.  The first byte chooses: header lines, a name or an
 * address, or a repository's files.  What is taken of them stays within its room, and names stay
 * within their folder.
 * SPDX-License-Identifier: MIT */
#include "cache.h"
#include "headers.h"
#include "url.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Calls fn with each line, terminated. */
static void fuzz_hub_lines(const char *text, size_t size, void (*fn)(void *user, const char *line, size_t n),
                           void *user)
{
    char line[512];
    for (size_t at = 0; at < size; ) {
        const char *end = memchr(text + at, '\n', size - at);
        const size_t n = end ? (size_t)(end - text) - at : size - at;
        const size_t kept = n < sizeof line ? n : sizeof line - 1;
        memcpy(line, text + at, kept);
        line[kept] = 0;
        fn(user, line, kept);
        at += n + 1;
    }
}

typedef struct fuzz_answer { hub_answer a; char location[64]; } fuzz_answer;
static void fuzz_hub_header(void *user, const char *line, size_t n)
{
    fuzz_answer *f = user;
    (void)hub_answer_line(&f->a, f->location, sizeof f->location, line, n);
    if (f->a.length < -1 || f->a.first < -1 || f->a.total < -1 || f->a.linked_size < -1) abort();
    const char *etag = f->a.linked_etag;
    if (hub_is_etag(etag) && (strpbrk(etag, "/\\") || *etag == '.')) abort();
    if (hub_is_commit(f->a.commit) && strlen(f->a.commit) != 40) abort();
}

static void fuzz_hub_name(void *user, const char *line, size_t n)
{
    hub_name name;
    qsf_error err;
    (void)user, (void)n;
    const bool known = hub_name_read(line, &name, &err) == QSF_OK
        || (strstr(line, "://") && hub_url_name(line, "https://hub", &name));
    if (!known) return;
    if (!hub_path_is_safe(name.repo) || !hub_path_is_safe(name.revision)) abort();
    if (*name.file && !hub_path_is_safe(name.file)) abort();
}

static void fuzz_hub_file(void *user, const char *line, size_t n)
{
    if (n < 400 && hub_path_is_safe(line) && !hub_files_add(user, line, n)) abort();
}

static void fuzz_hub_models(const char *text, size_t size)
{
    hub_files files = { 0 };
    hub_model *all;
    char part[400];
    size_t n;
    fuzz_hub_lines(text, size, fuzz_hub_file, &files);
    if (!hub_models(&files, &all, &n)) abort();
    for (size_t i = 0; i < n; i++)
        for (unsigned k = 0; k < all[i].n_parts; k++) {
            hub_model_part(&all[i], k, part, sizeof part);
            if (!hub_files_find(&files, part)) abort();
        }
    if (hub_models_order(all, n) > n) abort();
    free(all);
    hub_files_free(&files);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_answer f = { .location = "" };
    if (!size) return 0;
    const char *text = (const char *)data + 1;
    hub_answer_begin(&f.a);
    if (data[0] == 'h') fuzz_hub_lines(text, size - 1, fuzz_hub_header, &f);
    else if (data[0] == 'n') fuzz_hub_lines(text, size - 1, fuzz_hub_name, NULL);
    else fuzz_hub_models(text, size - 1);
    return 0;
}
