/* The table of llama.cpp's layouts, and how a library's layout is recognised: by functions that
 * were added or removed at about the same time, and by the defaults, which must be at the offsets
 * in the table.  If an offset holds something else, the layout is unknown.
 * SPDX-License-Identifier: MIT */
#include "llama_layouts.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* From the headers of these versions; a fork goes by the one that it was made from (bitnet.cpp's:
 * October 2024). */
static const llama_layout llama_layouts[] = {
    { "0.5", "llama_n_rs_seq", "llama_kv_self_clear",
      .size = 160, .model_size = 80, .outputs = 24, .threads = 28, .scaling = 40, .flash = 52,
      .flash_bytes = 4, .extent = 64, .types = 104, .layers = 16 },
    { "2025-08", "llama_memory_clear", "llama_flash_attn_type_name",
      .size = 120, .model_size = 72, .outputs = LLAMA_NOWHERE, .threads = 16, .scaling = 24, .flash = 114,
      .flash_bytes = 1, .extent = 44, .types = 88, .layers = 16 },
    { "2025-05", "llama_kv_self_clear", "llama_memory_clear",
      .size = 120, .model_size = 72, .outputs = LLAMA_NOWHERE, .threads = 16, .scaling = 24, .flash = 99,
      .flash_bytes = 1, .extent = 44, .types = 88, .layers = 16 },
    { "2024-10", "llama_load_model_from_file", "llama_model_load_from_file",
      .size = 120, .model_size = 64, .outputs = LLAMA_NOWHERE, .threads = 16, .scaling = 24, .flash = 99,
      .flash_bytes = 1, .extent = 44, .types = 88, .layers = 0 },
};

static int32_t layout_int(const llama_blob *b, int at)
{
    int32_t v;
    memcpy(&v, (const char *)b + at, sizeof v);
    return v;
}

static float layout_float(const llama_blob *b, int at)
{
    float v;
    memcpy(&v, (const char *)b + at, sizeof v);
    return v;
}

#if defined(__x86_64__) && !defined(_WIN32)
/* In this ABI a large result is written to where the first argument points, which shows its size:
 * the bytes after it are unchanged, whatever they contain. */
static bool layout_sized(library_fn fn, int size)
{
    unsigned char a[sizeof(llama_blob)], b[sizeof(llama_blob)];
    void (*call)(void *) = (void (*)(void *))fn;
    int end = (int)sizeof a;
    memset(a, 0xa5, sizeof a), memset(b, 0x5a, sizeof b);
    call(a), call(b);
    while (end > 0 && a[end - 1] == 0xa5 && b[end - 1] == 0x5a) end--;
    return end <= size && end > size - 8;
}
#else
static bool layout_sized(library_fn fn, int size) { return fn && size; }
#endif

/* NULL: every default is at its offset in the table; else the first that is not. */
static const char *layout_wrong(const llama_layout *t, library_fn context, library_fn model)
{
    llama_blob c = ((llama_blob (*)(void))context)();
    if (!layout_sized(context, t->size)) return "the size of the context's parameters";
    if (!layout_sized(model, t->model_size)) return "the size of the model's parameters";
    if (layout_int(&c, 0) != 512 || layout_int(&c, 4) != 2048 || layout_int(&c, 8) != 512
        || layout_int(&c, 12) != 1)
        return "n_ctx, n_batch, n_ubatch or n_seq_max";
    if (t->outputs >= 0 && layout_int(&c, t->outputs) != 1) return "n_outputs_max_per_seq";
    if (layout_int(&c, t->threads) < 1 || layout_int(&c, t->threads) != layout_int(&c, t->threads + 4))
        return "n_threads";
    for (int i = 0; i < 3; i++) if (layout_int(&c, t->scaling + 4 * i) != -1) return "rope_scaling_type";
    if (t->flash_bytes == 4 ? layout_int(&c, t->flash) != -1 : ((const char *)&c)[t->flash] != 0)
        return "flash_attn";
    if (layout_float(&c, t->extent) != -1) return "yarn_ext_factor";
    if (layout_int(&c, t->types) != 1 || layout_int(&c, t->types + 4) != 1) return "type_k";
    return NULL;
}

const llama_layout *llama_layout_of(library *l, char *why, size_t cap)
{
    const library_fn context = library_find(l, "llama_context_default_params");
    const library_fn model = library_find(l, "llama_model_default_params");
    snprintf(why, cap, "its functions match no known version");
    if (!context || !model) {
        snprintf(why, cap, "%s is missing", context ? "llama_model_default_params"
                                                    : "llama_context_default_params");
        return NULL;
    }
    for (size_t i = 0; i < sizeof llama_layouts / sizeof llama_layouts[0]; i++) {
        const llama_layout *t = &llama_layouts[i];
        if (!library_find(l, t->has) || library_find(l, t->lacks)) continue;
        const char *wrong = layout_wrong(t, context, model);
        if (!wrong) return t;
        snprintf(why, cap, "it is closest to that of %s, but %s is in a different place", t->name, wrong);
    }
    return NULL;
}
