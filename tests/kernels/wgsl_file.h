/* The folder that wgsl_cases writes for wgsl_run.mjs: a file for each shader, cases.json with what
 * is run, data.bin with the buffers' bytes.
 * SPDX-License-Identifier: MIT */
#ifndef KERNELS_WGSL_FILE_H
#define KERNELS_WGSL_FILE_H

#include "test.h"
#include "wgsl/text_wgsl.h"

enum { WGSL_TEXT = 1 << 16 };

typedef struct wgsl_folder {
    const char *path;
    FILE    *json, *data;
    uint64_t at;                    /* bytes of data.bin */
    uint32_t n_shaders, n_runs;     /* n_runs: of the shader in hand */
    char     text[WGSL_TEXT];
    qsf_wgsl_text out;
} wgsl_folder;

static FILE *wgsl_open(const wgsl_folder *f, const char *name)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", f->path, name);
    FILE *file = fopen(path, "wb");
    if (!file) { perror(path); exit(1); }
    return file;
}

/* Bytes at the next multiple of 4; "[place, bytes]" goes to the JSON. */
static void wgsl_bytes(wgsl_folder *f, const void *p, size_t bytes)
{
    static const char zeros[4] = { 0 };
    fprintf(f->json, "[%llu, %zu]", (unsigned long long)f->at, bytes + (4 - bytes % 4) % 4);
    fwrite(p, 1, bytes, f->data);
    fwrite(zeros, 1, (4 - bytes % 4) % 4, f->data);
    f->at += bytes + (4 - bytes % 4) % 4;
}

/* Begins a shader: its text goes to f->out. */
static qsf_wgsl_text *wgsl_shader(wgsl_folder *f)
{
    qsf_wgsl_begin(&f->out, f->text, sizeof f->text);
    return &f->out;
}
/* The text is there: writes it. */
static void wgsl_shader_end(wgsl_folder *f, const char *name)
{
    qsf_error err;
    char file[256];
    if (qsf_wgsl_end(&f->out, &err)) { printf("%s: %s\n", name, err.text); exit(1); }
    snprintf(file, sizeof file, "%s.wgsl", name);
    FILE *to = wgsl_open(f, file);
    fwrite(f->text, 1, f->out.len, to);
    fclose(to);
    fprintf(f->json, "%s\n{\"name\": \"%s\", \"access\": [", f->n_shaders++ ? "]}," : "", name);
    for (uint32_t i = 0; i < f->out.n_bindings; i++)
        fprintf(f->json, "%s%d", i ? ", " : "", f->out.access[i]);
    fprintf(f->json, "], \"runs\": [");
    f->n_runs = 0;
}

/* A run of the shader: the number of workgroups, then bytes of each binding, then what one binding
 * must have afterwards. */
static void wgsl_run(wgsl_folder *f, const uint32_t groups[3])
{
    fprintf(f->json, "%s\n  {\"groups\": [%u, %u, %u], \"buffers\": [", f->n_runs++ ? "," : "",
            (unsigned)groups[0], (unsigned)groups[1], (unsigned)groups[2]);
}
static void wgsl_buffer(wgsl_folder *f, const void *p, size_t bytes, bool last)
{
    wgsl_bytes(f, p, bytes);
    fprintf(f->json, last ? "]" : ", ");
}
/* type: a reader of wgsl_run.mjs; tolerance: of the largest value, 0: equal values. */
static void wgsl_expect(wgsl_folder *f, unsigned binding, const char *type, double tolerance, const void *p,
                        size_t bytes)
{
    fprintf(f->json, ", \"binding\": %u, \"type\": \"%s\", \"tolerance\": %g, \"expect\": ", binding, type,
            tolerance);
    wgsl_bytes(f, p, bytes);
    fprintf(f->json, "}");
}

#endif
