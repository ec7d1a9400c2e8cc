/* Tile registers in plain C, as Intel defines the instructions (Software Developer's Manual,
 * volumes 1 and 2): eight registers of up to 16 rows of 64 bytes.  What a processor would refuse
 * ends the program.
 * SPDX-License-Identifier: MIT */
#ifndef KERNELS_TILE_MODEL_H
#define KERNELS_TILE_MODEL_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct tile_model {
    uint8_t bytes[8][16][64];
    uint8_t rows[8];
    int     row_bytes[8];       /* 0: the register is not configured */
    int     configured;
    int     configs, products;  /* counted since the program began */
    int     wrong;              /* 1: products that are one too large, for a test of tests */
} tile_model;
static tile_model tile_model_state;

static void tile_model_need(int right, const char *what)
{
    if (right) return;
    printf("tile model: the processor refuses %s\n", what);
    exit(1);
}

static void tile_model_config(const void *config)
{
    tile_model *m = &tile_model_state;
    const uint8_t *c = config;
    int zeros = 0;
    for (int i = 2; i < 16; i++) zeros |= c[i];
    for (int i = 8; i < 16; i++) zeros |= c[16 + 2 * i] | c[17 + 2 * i] | c[48 + i];
    tile_model_need(c[0] == 1 && !c[1] && !zeros, "a configuration with other bytes than those defined");
    memset(m->bytes, 0, sizeof m->bytes);
    for (int i = 0; i < 8; i++) {
        m->row_bytes[i] = c[16 + 2 * i] | c[17 + 2 * i] << 8;
        m->rows[i] = c[48 + i];
        tile_model_need(m->row_bytes[i] <= 64 && m->rows[i] <= 16 && !m->row_bytes[i] == !m->rows[i],
                        "a tile of that size");
    }
    m->configured = 1;
    m->configs++;
}

static void tile_model_release(void)
{
    tile_model *m = &tile_model_state;
    memset(m->row_bytes, 0, sizeof m->row_bytes);
    memset(m->rows, 0, sizeof m->rows);
    m->configured = 0;
}

static void tile_model_zero(int t)
{
    tile_model_need(tile_model_state.row_bytes[t] > 0, "a tile that is not configured");
    memset(tile_model_state.bytes[t], 0, sizeof tile_model_state.bytes[t]);
}

static void tile_model_load(int t, const void *from, size_t apart)
{
    tile_model *m = &tile_model_state;
    tile_model_zero(t);
    for (int r = 0; r < m->rows[t]; r++)
        memcpy(m->bytes[t][r], (const uint8_t *)from + (size_t)r * apart, (size_t)m->row_bytes[t]);
}

static void tile_model_store(int t, void *to, size_t apart)
{
    tile_model *m = &tile_model_state;
    tile_model_need(m->row_bytes[t] > 0, "a tile that is not configured");
    for (int r = 0; r < m->rows[t]; r++)
        memcpy((uint8_t *)to + (size_t)r * apart, m->bytes[t][r], (size_t)m->row_bytes[t]);
}

/* TDPBSSD: to[r][n] += the sum over k and b of a[r][4k + b] * b[k][4n + b], both with a sign. */
static void tile_model_dot(int to, int a, int b)
{
    tile_model *m = &tile_model_state;
    tile_model_need(to != a && to != b && a != b, "a product of a tile with itself");
    tile_model_need(m->row_bytes[to] > 0 && m->row_bytes[a] > 0 && m->row_bytes[b] > 0,
                    "a tile that is not configured");
    tile_model_need(m->row_bytes[to] % 4 == 0 && m->row_bytes[a] % 4 == 0 && m->rows[to] == m->rows[a]
                    && m->row_bytes[to] == m->row_bytes[b] && m->row_bytes[a] == 4 * m->rows[b],
                    "a product of tiles of these sizes");
    for (int r = 0; r < m->rows[to]; r++)
        for (int n = 0; n < m->row_bytes[to] / 4; n++) {
            int32_t sum;
            memcpy(&sum, &m->bytes[to][r][4 * n], 4);
            for (int k = 0; k < m->row_bytes[a]; k++)
                sum += (int8_t)m->bytes[a][r][k] * (int8_t)m->bytes[b][k / 4][4 * n + k % 4];
            sum += m->wrong && r == 7 && n == 11;
            memcpy(&m->bytes[to][r][4 * n], &sum, 4);
        }
    m->products++;
}

#define TILE_CONFIG(config) tile_model_config(config)
#define TILE_RELEASE() tile_model_release()
#define TILE_ZERO(t) tile_model_zero(t)
#define TILE_LOAD(t, from, apart) tile_model_load(t, from, apart)
#define TILE_STORE(t, to, apart) tile_model_store(t, to, apart)
#define TILE_DOT(to, a, b) tile_model_dot(to, a, b)

#endif
