/* The grammar of names, and a repository's models.
 * SPDX-License-Identifier: MIT */
#include "name.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PREFERRED "q4_k_m"
enum { FEW_BITS = 4 };

/* ---- characters ---- */

static char lower_char(char c) { return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c; }
static bool digit_char(char c) { return c >= '0' && c <= '9'; }
static bool letter_char(char c) { return lower_char(c) >= 'a' && lower_char(c) <= 'z'; }
static bool word_char(char c) { return letter_char(c) || digit_char(c) || c == '_'; }
static bool repo_char(char c) { return word_char(c) || c == '.' || c == '-'; }
static bool label_start(char c) { return c && strchr("-._/", c); }
static bool label_end(char c) { return !c || strchr("-./", c); }

/* Whether text begins with the word, which is in small letters; the length of that, or 0. */
static size_t name_at(const char *text, const char *small)
{
    size_t n = 0;
    while (small[n] && lower_char(text[n]) == small[n]) n++;
    return small[n] ? 0 : n;
}

static bool name_ends(const char *text, const char *small)
{
    const size_t n = strlen(text), m = strlen(small);
    return n >= m && name_at(text + n - m, small) == m && m > 0;
}

static bool same_letters(const char *a, const char *b)
{
    while (*a && lower_char(*a) == lower_char(*b)) a++, b++;
    return lower_char(*a) == lower_char(*b);
}

/* ---- names ---- */

/* The length of "hf.co/" or "huggingface.co/", which Ollama's users put before a name, or 0. */
static size_t host_at(const char *text)
{
    const size_t n = name_at(text, "hf.co/");
    return n ? n : name_at(text, "huggingface.co/");
}

bool hub_name_begins(const char *text) { return name_at(text, "hf:") || host_at(text); }

/* Copies text[0..len); false: it is empty or too long. */
static bool part_take(char *out, size_t cap, const char *text, size_t len)
{
    if (!len || len >= cap) return false;
    memcpy(out, text, len);
    out[len] = 0;
    return true;
}

static size_t span_of(const char *text, bool (*has)(char))
{
    size_t n = 0;
    while (has(text[n])) n++;
    return n;
}

/* "OWNER/REPO"; NULL: it is none, else what follows it. */
static const char *repo_take(const char *p, hub_name *out)
{
    const size_t owner = span_of(p, repo_char);
    if (!owner || p[owner] != '/') return NULL;
    const size_t repo = span_of(p + owner + 1, repo_char);
    return repo && part_take(out->repo, sizeof out->repo, p, owner + 1 + repo) ? p + owner + 1 + repo : NULL;
}

/* The length of a revision that a file or a quantisation follows: a branch has no '/', but
 * refs/pr/1 and refs/convert/NAME have two. */
static size_t revision_span(const char *text)
{
    const size_t special = name_at(text, "refs/pr/") + name_at(text, "refs/convert/");
    return special + strcspn(text + special, "/:@");
}

static bool name_take(const char *p, hub_name *out)
{
    memset(out, 0, sizeof *out);
    snprintf(out->revision, sizeof out->revision, "main");
    p += name_at(p, "hf:");
    if (p[0] == '/' && p[1] == '/') p += 2;
    p += host_at(p);
    if (!(p = repo_take(p, out))) return false;
    if (*p == '@') {
        const size_t n = revision_span(p + 1);
        if (!part_take(out->revision, sizeof out->revision, p + 1, n)) return false;
        p += 1 + n;
    }
    if (*p == '/') {
        const size_t n = strcspn(p + 1, "@");
        if (!part_take(out->file, sizeof out->file, p + 1, n) || !hub_path_is_safe(out->file)) return false;
        p += 1 + n;
    } else if (*p == ':') {
        const size_t n = span_of(p + 1, repo_char);
        if (!part_take(out->label, sizeof out->label, p + 1, n)) return false;
        p += 1 + n;
    }
    if (*p == '@') return part_take(out->revision, sizeof out->revision, p + 1, strlen(p + 1));
    return !*p;
}

qsf_status hub_name_read(const char *text, hub_name *out, qsf_error *err)
{
    if (hub_name_begins(text) && name_take(text, out) && hub_path_is_safe(out->repo)
        && hub_path_is_safe(out->revision)) return QSF_OK;
    return qsf_fail(err, QSF_E_ARGUMENT, "\"%.100s\" is not the name of a model; it is hf:OWNER/REPO, "
                    "hf:OWNER/REPO:Q4_K_M or hf:OWNER/REPO/FILE.gguf, each with @REVISION after it if that "
                    "is not main", text);
}

/* ---- files ---- */

bool hub_path_is_safe(const char *path)
{
    for (const char *p = path; ; ) {
        const size_t n = strcspn(p, "/");
        if (!n || (p[0] == '.' && (n == 1 || (n == 2 && p[1] == '.')))) return false;
        for (size_t i = 0; i < n; i++)
            if ((unsigned char)p[i] < 32 || strchr("\\:*?\"<>|", p[i])) return false;
        if (!p[n]) return true;
        p += n + 1;
    }
}

bool hub_files_add(hub_files *files, const char *path, uint64_t size)
{
    if (files->n == files->cap) {
        const size_t cap = files->cap ? 2 * files->cap : 64;
        hub_file *items = realloc(files->items, cap * sizeof *items);
        if (!items) return false;
        files->items = items;
        files->cap = cap;
    }
    char *copy = malloc(strlen(path) + 1);
    if (!copy) return false;
    strcpy(copy, path);
    files->items[files->n++] = (hub_file){ copy, size };
    return true;
}

void hub_files_free(hub_files *files)
{
    for (size_t i = 0; i < files->n; i++) free(files->items[i].path);
    free(files->items);
    *files = (hub_files){ 0 };
}

const hub_file *hub_files_find(const hub_files *files, const char *path)
{
    for (size_t i = 0; i < files->n; i++)
        if (!strcmp(files->items[i].path, path)) return &files->items[i];
    return NULL;
}

/* ---- quantisations ---- */

/* "Q4_K_M", "IQ2_XS", "UD-Q4_K_XL": its length, or 0. */
static size_t label_quant(const char *p)
{
    size_t n = name_at(p, "ud-");
    if (lower_char(p[n]) == 'i') n++;
    if (lower_char(p[n]) != 'q' || !digit_char(p[n + 1])) return 0;
    return n + 1 + span_of(p + n + 1, word_char);
}

static size_t label_here(const char *p)
{
    static const char *const named[] = { "tq", "mxfp" }, *const floats[] = { "bf16", "f16", "f32", "fp16",
                                                                            "fp32" };
    size_t n = label_quant(p);
    if (n && label_end(p[n])) return n;
    for (int i = 0; i < 2; i++) {
        n = name_at(p, named[i]);
        if (!n || !digit_char(p[n])) continue;
        n += span_of(p + n, word_char);
        if (label_end(p[n])) return n;
    }
    for (int i = 0; i < 5; i++)
        if ((n = name_at(p, floats[i])) > 0 && label_end(p[n])) return n;
    if (!digit_char(p[0])) return 0;
    n = 1 + (p[1] == '-') + name_at(p + 1 + (p[1] == '-'), "bit");
    return n > 3 && label_end(p[n]) ? n : 0;
}

void hub_label_of(const char *path, char *out, size_t cap)
{
    char bare[400];
    snprintf(bare, sizeof bare, "%s", path);
    if (name_ends(bare, ".gguf")) bare[strlen(bare) - 5] = 0;
    else if (name_ends(bare, ".qsf")) bare[strlen(bare) - 4] = 0;
    *out = 0;
    for (size_t i = 0; bare[i]; i++) {
        if (i && !label_start(bare[i - 1])) continue;
        const size_t n = label_here(bare + i);
        if (!n) continue;
        part_take(out, cap, bare + i, n);
        i += n - 1;
    }
}

static int label_bits(const char *label)
{
    while (*label && !digit_char(*label)) label++;
    return *label ? atoi(label) : 16;
}

/* ---- models ---- */

/* Weights that are not a model of their own. */
static bool model_other(const char *path)
{
    static const char *const others[] = { "mmproj", "imatrix", "lora", "adapter" };
    for (const char *p = path; *p; p++)
        for (int i = 0; i < 4; i++)
            if ((p == path || strchr("-_./", p[-1])) && name_at(p, others[i])) return true;
    return false;
}

static bool model_file(const char *path)
{
    return (name_ends(path, ".gguf") || name_ends(path, ".qsf")) && !model_other(path);
}

/* "-00001-of-00003.gguf": where it begins, and its numbers; NULL: the file is not a part. */
static const char *part_numbers(const char *path, unsigned *at, unsigned *of)
{
    enum { LEN = 20 };
    const size_t n = strlen(path);
    const char *p = n > LEN ? path + n - LEN : path;
    static const char form[] = "-00000-of-00000.gguf";
    for (int i = 0; i < LEN; i++)
        if (form[i] == '0' ? !digit_char(p[i]) : lower_char(p[i]) != form[i]) return NULL;
    *at = (unsigned)strtoul(p + 1, NULL, 10);
    *of = (unsigned)strtoul(p + 10, NULL, 10);
    return p;
}

void hub_model_part(const hub_model *m, unsigned i, char *out, size_t cap)
{
    unsigned at, of;
    const char *path = m->first->path, *numbers = part_numbers(path, &at, &of);
    if (m->n_parts == 1) snprintf(out, cap, "%s", path);
    else snprintf(out, cap, "%.*s-%05u%s", (int)(numbers - path), path, i + 1, numbers + 6);
}

bool hub_model_of(const hub_files *files, const hub_file *first, hub_model *out)
{
    unsigned at = 1, of = 1;
    char path[400];
    const char *numbers = part_numbers(first->path, &at, &of);
    *out = (hub_model){ .first = first, .n_parts = numbers ? of : 1, .bytes = first->size };
    hub_label_of(first->path, out->label, sizeof out->label);
    if (!numbers) return true;
    if (at != 1 || of < 1) return false;
    for (unsigned i = 1; i < of; i++) {
        hub_model_part(out, i, path, sizeof path);
        const hub_file *part = hub_files_find(files, path);
        if (!part) return false;
        out->bytes += part->size;
    }
    return true;
}

static int model_compare(const void *a, const void *b)
{
    const hub_model *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
    return strcmp(x->first->path, y->first->path);
}

bool hub_models(const hub_files *files, hub_model **out, size_t *n)
{
    hub_model *all = *out = malloc((files->n + 1) * sizeof *all);
    *n = 0;
    if (!all) return false;
    for (size_t i = 0; i < files->n; i++)
        if (model_file(files->items[i].path) && hub_model_of(files, &files->items[i], &all[*n])) ++*n;
    qsort(all, *n, sizeof *all, model_compare);
    return true;
}

size_t hub_models_order(hub_model *all, size_t n)
{
    size_t begin = 0;
    if (!n) return 0;
    while (begin < n && !same_letters(all[begin].label, PREFERRED)) begin++;
    if (begin == n)
        for (begin = 0; begin + 1 < n && label_bits(all[begin].label) > FEW_BITS; begin++) ;
    memmove(all, all + begin, (n - begin) * sizeof *all);
    return n - begin;
}

const hub_model *hub_models_labelled(const hub_model *all, size_t n, const char *label)
{
    while (n--)
        if (same_letters(all[n].label, label)) return &all[n];
    return NULL;
}
