/* The calls into llama.cpp's library.  Pointers to functions are found by name; what takes a
 * struct by value takes a block that is larger than any (llama_layouts.h).
 * SPDX-License-Identifier: MIT */
#include "llama.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "llama_find.h"
#include "llama_layouts.h"

/* The beginning of its batch; members that older versions have after it are zero. */
typedef union llama_rows {
    struct {
        int32_t   n;
        int32_t  *ids;
        float    *embeddings;
        int32_t  *positions, *n_seqs;
        int32_t **seqs;
        int8_t   *logits;
    } at;
    llama_blob blob;
} llama_rows;

struct parity_llama {
    library *lib;
    const llama_layout *layout;
    char     file[1024];
    const char *name;
    bool     f32;
    uint32_t n_threads, n_vocab;
    void    *model, *context;
    const void *vocab;
    int32_t  position;
    /* the functions */
    void     (*backend_init)(void);
    void     (*log_set)(void (*)(int, const char *, void *), void *);
    void    *(*load)(const char *, llama_blob);
    void     (*unload)(void *);
    void    *(*begin)(void *, llama_blob);
    void     (*end)(void *);
    int32_t  (*decode)(void *, llama_blob);
    float   *(*logits)(void *, int32_t);
    int32_t  (*n_tokens)(const void *);
    const void *(*get_vocab)(const void *);
    llama_blob (*model_defaults)(void), (*context_defaults)(void);
    int32_t  (*tokenize)(const void *, const char *, int32_t, int32_t *, int32_t, bool, bool);
    bool     (*is_end)(const void *, int32_t);
    char     complaint[240];                 /* the last line of its log that tells of a failure */
};

/* Keeps the last line of the log that reports a failure; the rest is dropped. */
static void llama_on_log(int level, const char *text, void *user)
{
    parity_llama *l = user;
    (void)level;
    if (!text || (!strstr(text, "error") && !strstr(text, "fail") && !strstr(text, "unknown"))) return;
    snprintf(l->complaint, sizeof l->complaint, "%s", text);
    for (char *p = l->complaint; *p; p++) if ((unsigned char)*p < ' ') *p = ' ';
    for (size_t n = strlen(l->complaint); n && l->complaint[n - 1] == ' ';) l->complaint[--n] = 0;
}

/* name: "new|old", of which the first that is there counts. */
static bool llama_need(parity_llama *l, const char *name, void *fn, bool optional, qsf_error *err)
{
    char one[96];
    for (const char *p = name; *p;) {
        const size_t len = strcspn(p, "|");
        snprintf(one, sizeof one, "%.*s", (int)len, p);
        const library_fn found = library_find(l->lib, one);
        memcpy(fn, &found, sizeof found);
        if (found) return true;
        p += len + (p[len] == '|');
    }
    if (!optional)
        parity_fail(err, QSF_E_UNSUPPORTED, "%s: %s has no %s: it is not a known library of llama.cpp",
                    l->name, l->file, name);
    return optional;
}

static qsf_status llama_functions(parity_llama *l, qsf_error *err)
{
    const struct { const char *name; void *fn; bool optional; } wanted[] = {
        { "llama_backend_init", &l->backend_init, false },
        { "llama_log_set", &l->log_set, true },
        { "llama_model_load_from_file|llama_load_model_from_file", &l->load, false },
        { "llama_model_free|llama_free_model", &l->unload, false },
        { "llama_init_from_model|llama_new_context_with_model", &l->begin, false },
        { "llama_free", &l->end, false },
        { "llama_decode", &l->decode, false },
        { "llama_get_logits_ith", &l->logits, false },
        { "llama_vocab_n_tokens|llama_n_vocab", &l->n_tokens, false },
        { "llama_model_get_vocab", &l->get_vocab, true },
        { "llama_model_default_params", &l->model_defaults, false },
        { "llama_context_default_params", &l->context_defaults, false },
        { "llama_tokenize", &l->tokenize, false },
        { "llama_vocab_is_eog|llama_token_is_eog", &l->is_end, false },
    };
    char why[200];
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
        if (!llama_need(l, wanted[i].name, wanted[i].fn, wanted[i].optional, err)) return QSF_E_UNSUPPORTED;
    l->layout = llama_layout_of(l->lib, why, sizeof why);
    if (!l->layout)
        return parity_fail(err, QSF_E_UNSUPPORTED, "%s: unknown layout of %s's structs: %s", l->name,
                           l->file, why);
    return QSF_OK;
}

static void llama_put(llama_blob *b, int at, int32_t v) { memcpy((char *)b + at, &v, sizeof v); }

/* Libraries with separate backend files per processor load these only when asked to. */
static void llama_start(parity_llama *l)
{
    void (*all)(const char *);
    char folder[1024];
    const library_fn found = library_find(l->lib, "ggml_backend_load_all_from_path");
    memcpy(&all, &found, sizeof all);
    snprintf(folder, sizeof folder, "%s", l->file);
    char *slash = strrchr(folder, '/'), *back = strrchr(folder, '\\');
    if (back > slash) slash = back;
    if (slash) *slash = 0;
    if (l->log_set) l->log_set(llama_on_log, l);
    if (found && slash) all(folder);
    l->backend_init();
}

static qsf_status llama_model(parity_llama *l, const char *path, qsf_error *err)
{
    llama_blob p = l->model_defaults();
    llama_put(&p, l->layout->layers, 0);
    l->model = l->load(path, p);
    if (!l->model)
        return parity_fail(err, QSF_E_UNSUPPORTED, "%s cannot load the model%s%s", l->name,
                           *l->complaint ? ": " : "", l->complaint);
    l->vocab = l->get_vocab ? l->get_vocab(l->model) : l->model;
    const int32_t n = l->n_tokens(l->vocab);
    if (n < 1 || n > 1 << 24)
        return parity_fail(err, QSF_E_UNSUPPORTED, "%s: a vocabulary of %d tokens", l->name, (int)n);
    l->n_vocab = (uint32_t)n;
    return QSF_OK;
}

qsf_status parity_llama_open(const llama_options *a, parity_llama **out, qsf_error *err)
{
    qsf_status st;
    parity_llama *l = *out = calloc(1, sizeof *l);
    if (!l) return parity_fail(err, QSF_E_MEMORY, "out of memory");
    l->name = a->name;
    l->f32 = a->f32;
    l->n_threads = a->n_threads;
    if ((st = llama_find(a->name, a->lib, &l->lib, l->file, sizeof l->file, err))) goto fail;
    if ((st = llama_functions(l, err))) goto fail;
    llama_start(l);
    if ((st = llama_model(l, a->model, err))) goto fail;
    return QSF_OK;
fail:
    parity_llama_close(l);
    *out = NULL;
    return st;
}

void parity_llama_close(parity_llama *l)
{
    if (!l) return;
    if (l->context) l->end(l->context);
    if (l->model) l->unload(l->model);
    if (l->log_set) l->log_set(NULL, NULL);
    free(l);
}

/* A context for each text: what clears one has another name in every year. */
static qsf_status llama_begin(void *self, size_t i, const int32_t *ids, size_t n, size_t room, qsf_error *err)
{
    parity_llama *l = self;
    const llama_layout *t = l->layout;
    llama_blob p = l->context_defaults();
    (void)i, (void)ids;
    if (l->context) l->end(l->context);
    const size_t positions = (n + room + 255) / 256 * 256;
    llama_put(&p, 0, (int32_t)positions);
    llama_put(&p, 4, PARITY_ROWS), llama_put(&p, 8, PARITY_ROWS);
    if (t->outputs >= 0) llama_put(&p, t->outputs, PARITY_ROWS);
    if (l->n_threads) {
        llama_put(&p, t->threads, (int32_t)l->n_threads);
        llama_put(&p, t->threads + 4, (int32_t)l->n_threads);
    }
    if (t->flash_bytes == 4) llama_put(&p, t->flash, 0);
    llama_put(&p, t->types, !l->f32), llama_put(&p, t->types + 4, !l->f32);     /* 0: f32, 1: f16 */
    l->position = 0;
    l->context = l->begin(l->model, p);
    if (l->context) return QSF_OK;
    return parity_fail(err, QSF_E_MEMORY, "%s cannot create a context of %zu positions%s%s",
                                          l->name, positions,
                       *l->complaint ? ": " : "", l->complaint);
}

static qsf_status llama_compute(void *self, const int32_t *ids, size_t n, float *out, qsf_error *err)
{
    parity_llama *l = self;
    int32_t tokens[PARITY_ROWS], positions[PARITY_ROWS], n_seqs[PARITY_ROWS], seq[1] = { 0 };
    int32_t *seqs[PARITY_ROWS + 1] = { NULL };
    int8_t logits[PARITY_ROWS];
    llama_rows b;
    memset(&b, 0, sizeof b);
    for (size_t i = 0; i < n; i++) {
        tokens[i] = ids[i], positions[i] = l->position++, n_seqs[i] = 1, seqs[i] = seq, logits[i] = 1;
    }
    b.at.n = (int32_t)n, b.at.ids = tokens, b.at.positions = positions, b.at.n_seqs = n_seqs;
    b.at.seqs = seqs, b.at.logits = logits;
    const int32_t result = l->decode(l->context, b.blob);
    if (result) return parity_fail(err, QSF_E_IO, "%s: llama_decode returned %d", l->name, (int)result);
    for (size_t i = 0; i < n; i++) {
        const float *row = l->logits(l->context, (int32_t)i);
        if (!row) return parity_fail(err, QSF_E_IO, "%s has no logits of row %zu of %zu", l->name, i, n);
        memcpy(out + i * l->n_vocab, row, l->n_vocab * sizeof *out);
    }
    return QSF_OK;
}

parity_engine parity_llama_engine(parity_llama *l)
{
    return (parity_engine){ .self = l, .n_vocab = l->n_vocab, .name = l->name, .begin = llama_begin,
                            .rows = llama_compute };
}

llama_about parity_llama_about(const parity_llama *l)
{
    static const char *const names[] = { "llama_version", "ggml_version", "ggml_commit" };
    const char *said[3] = { "", "", "" };
    for (int i = 0; i < 3; i++) {
        const char *(*say)(void);
        const library_fn found = library_find(l->lib, names[i]);
        memcpy(&say, &found, sizeof say);
        const char *text = found ? say() : NULL;
        if (text) said[i] = text;
    }
    return (llama_about){ said[0], said[1], said[2], l->layout->name, l->file };
}

qsf_status parity_llama_encode(parity_llama *l, const char *text, size_t len, int32_t *ids, size_t cap,
                               size_t *n_ids, qsf_error *err)
{
    *n_ids = 0;
    if (len > INT32_MAX / 2 || cap > INT32_MAX)
        return parity_fail(err, QSF_E_ARGUMENT, "the prompt is too long");
    const int32_t n = l->tokenize(l->vocab, text, (int32_t)len, ids, (int32_t)cap, true, true);
    *n_ids = (size_t)(n < 0 ? -(int64_t)n : n);
    return n < 0 ? parity_fail(err, QSF_E_ARGUMENT, "the prompt is too long") : QSF_OK;
}

bool parity_llama_is_end(parity_llama *l, int32_t id) { return l->is_end(l->vocab, id); }
