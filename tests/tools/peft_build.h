/* A PEFT directory in a mem_host's files, of tiny_defaults' model, byte by byte.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_PEFT_BUILD_H
#define QSF_PEFT_BUILD_H

#include "mem_platform.h"

#include <stdio.h>

#define PEFT_CONFIG_AT  "a/adapter_config.json"
#define PEFT_WEIGHTS_AT "a/adapter_model.safetensors"

typedef struct peft_build {
    char     header[4096];
    size_t   len;
    uint8_t  data[1 << 16];
    size_t   n_data;
} peft_build;

static inline void peft_begin(peft_build *b)
{
    memset(b, 0, sizeof *b);
    b->len = (size_t)snprintf(b->header, sizeof b->header, "{\"__metadata__\":{\"format\":\"pt\"}");
}

/* A tensor of `rows` rows, each value the f32 of a small number. */
static inline void peft_tensor(peft_build *b, const char *name, uint32_t rows, uint32_t cols)
{
    const size_t n = (size_t)rows * cols;
    b->len += (size_t)snprintf(b->header + b->len, sizeof b->header - b->len,
                               ",\"%s\":{\"dtype\":\"F32\",\"shape\":[%u,%u],\"data_offsets\":[%zu,%zu]}",
                               name, (unsigned)rows, (unsigned)cols, b->n_data, b->n_data + 4 * n);
    for (size_t i = 0; i < n; i++, b->n_data += 4) {
        const float v = (float)((i * 37 + rows) % 23) / 23 - 0.5f;
        memcpy(b->data + b->n_data, &v, 4);             /* hosts of tests are little-endian */
    }
}

static inline void peft_end(peft_build *b, mem_host *h, const char *config)
{
    b->header[b->len++] = '}';
    uint8_t *file = malloc(8 + b->len + b->n_data);
    for (int i = 0; i < 8; i++) file[i] = (uint8_t)((uint64_t)b->len >> 8 * i);
    memcpy(file + 8, b->header, b->len);
    memcpy(file + 8 + b->len, b->data, b->n_data);
    mem_put(h, PEFT_WEIGHTS_AT, file, 8 + b->len + b->n_data);
    mem_put(h, PEFT_CONFIG_AT, config, strlen(config));
    free(file);
}

#endif
