/* The places where builds of llama.cpp and bitnet.cpp put their library.
 * SPDX-License-Identifier: MIT */
#include "llama_find.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"

static const char *const llama_folders[] = {
    "", "bin/", "lib/", "src/", "3rdparty/llama.cpp/src/", "build/bin/", "build/lib/", "build/src/",
    "build/3rdparty/llama.cpp/src/", "build/3rdparty/llama.cpp/bin/", "build/bin/Release/",
    "lib/x86_64-linux-gnu/", "lib/aarch64-linux-gnu/",
};
/* Its dependencies, each before those that need it, and their folders relative to it. */
static const char *const llama_needs[] = { "ggml-base", "ggml-cpu", "ggml" };
static const char *const llama_needs_in[] = { "", "../ggml/src/", "../bin/", "../lib/" };

static bool llama_is_file(const char *path)
{
    char byte;
    FILE *f = fopen(path, "rb");
    const bool is = f && fread(&byte, 1, 1, f) == 1;        /* a folder opens, and cannot be read */
    if (f) fclose(f);
    return is;
}

/* Loads the library; if it does not find its dependencies itself, loads those first and tries
 * again. */
static library *llama_try(const char *path, char *why, size_t cap)
{
    char near[1200], name[64];
    const char *slash = strrchr(path, '/'), *back = strrchr(path, '\\');
    library *l = library_open(path, why, cap);
    if (back && (!slash || back > slash)) slash = back;
    if (l || !slash) return l;
    for (size_t i = 0; i < sizeof llama_needs / sizeof llama_needs[0]; i++) {
        for (size_t k = 0; k < sizeof llama_needs_in / sizeof llama_needs_in[0]; k++) {
            for (int j = 0; library_name(llama_needs[i], j, name, sizeof name); j++) {
                snprintf(near, sizeof near, "%.*s%s%s", (int)(slash + 1 - path), path, llama_needs_in[k],
                         name);
                library_preload(near);
            }
        }
    }
    return library_open(path, why, cap);
}

/* true: a file was found in the folder, whether or not it could be loaded. */
static bool llama_in_folder(const char *folder, library **out, char *file, size_t cap, char *why,
                            size_t why_cap)
{
    char name[64];
    const size_t len = strlen(folder);
    const char *slash = len && (folder[len - 1] == '/' || folder[len - 1] == '\\') ? "" : "/";
    for (size_t i = 0; i < sizeof llama_folders / sizeof llama_folders[0]; i++) {
        for (int j = 0; library_name("llama", j, name, sizeof name); j++) {
            const int n = snprintf(file, cap, "%s%s%s%s", folder, slash, llama_folders[i], name);
            if (n < 0 || (size_t)n >= cap || !llama_is_file(file)) continue;
            *out = llama_try(file, why, why_cap);
            return true;
        }
    }
    return false;
}

qsf_status llama_find(const char *engine, const char *lib, library **out, char *file, size_t cap,
                      qsf_error *err)
{
    const bool bitnet = !strcmp(engine, "bitnet.cpp");
    const char *variable = bitnet ? "BITNET_CPP_DIR" : "LLAMA_CPP_DIR";
    const char *folder = lib ? lib : getenv(variable);
    char why[200] = "", name[64];
    *out = NULL;
    if (!library_possible())
        return parity_fail(err, QSF_E_UNSUPPORTED,
                           "%s: this build is one static file, which cannot load a library", engine);
    if (folder && !*folder) folder = NULL;
    if (folder && llama_is_file(folder)) {
        snprintf(file, cap, "%s", folder);
        *out = llama_try(file, why, sizeof why);
    } else if (folder && !llama_in_folder(folder, out, file, cap, why, sizeof why)) {
        return parity_fail(err, QSF_E_NOT_FOUND, "%s: no library found in %s or in its build folders (bin, "
                           "lib, build/bin, build/src, ...)", engine, folder);
    } else if (!folder) {
        for (int j = 0; !*out && library_name("llama", j, name, sizeof name); j++) {
            snprintf(file, cap, "%s", name);
            *out = library_open(name, why, sizeof why);
        }
        if (!*out)
            return parity_fail(err, QSF_E_NOT_FOUND, "%s: library not found; give it with --lib FILE or the "
                               "environment variable %s", engine, variable);
    }
    if (*out) return QSF_OK;
    return parity_fail(err, QSF_E_UNSUPPORTED, "%s: %s cannot be loaded: %s", engine, file, why);
}
