/* The AMX products on a processor without a system: every form against AVX-512, bit for bit, and
 * against plain C.  What it prints goes to Bochs' port 0xE9.
 * SPDX-License-Identifier: MIT */
#include "sets.h"

/* ---- the little of a C library that products need ---- */
void *memcpy(void *to, const void *from, size_t n)
{
    for (size_t i = 0; i < n; i++) ((volatile uint8_t *)to)[i] = ((const uint8_t *)from)[i];
    return to;
}
void *memset(void *to, int c, size_t n)
{
    for (size_t i = 0; i < n; i++) ((volatile uint8_t *)to)[i] = (uint8_t)c;
    return to;
}
int memcmp(const void *a, const void *b, size_t n)
{
    const uint8_t *x = a, *y = b;
    for (size_t i = 0; i < n; i++) if (x[i] != y[i]) return x[i] < y[i] ? -1 : 1;
    return 0;
}
int bcmp(const void *a, const void *b, size_t n) { return memcmp(a, b, n); }    /* Clang's */
int strcmp(const char *a, const char *b)
{
    while (*a && *a == *b) a++, b++;
    return (uint8_t)*a - (uint8_t)*b;
}

static void put(const char *s)
{
    for (; *s; s++) __asm__ volatile("outb %b0, $0xe9" : : "a"(*s));
}
static void put_number(unsigned long n)
{
    char digits[24] = "", *at = digits + 23;
    do *--at = (char)('0' + n % 10); while (n /= 10);
    put(at);
}

/* ---- shapes ---- */
enum { MAX_ROWS = 80, MAX_COLS = 1792, MAX_TILES = 3 };
static uint8_t w[MAX_TILES * MAX_COLS * 40];
static int8_t  q[MAX_ROWS * MAX_COLS];
static int16_t h[MAX_ROWS * MAX_COLS / 8];
static float   d[MAX_ROWS * MAX_COLS / 64], s[MAX_ROWS * MAX_COLS / 32];
static float   y[3][MAX_ROWS * MAX_TILES * 16];
static uint32_t seed;
static uint32_t next(void) { return (seed = seed * 1664525 + 1013904223) >> 16; }

typedef struct shape { size_t n, tiles, cols; bool extreme; } shape;

static qsf_act fill(qsf_form form, const shape *v, size_t blocks, uint32_t block)
{
    const qsf_act x = { q, d, s, h, (uint32_t)v->n, qsf_act_cols((uint32_t)(blocks * block)) };
    const size_t tile = qsf_tile_bytes(form, block), head = QSF_MIN(qsf_form_head(form), 64);
    for (size_t i = 0; i < v->tiles * blocks * tile; i++) {
        const size_t at = i % tile, r = at / 2;
        /* fp16 of 0.06 and more, or what that means elsewhere */
        w[i] = (uint8_t)(at < head ? (at % 2 ? 0x2c : 3 * r + i / tile) : v->extreme ? 0xff : next());
    }
    memset(s, 0, sizeof s);
    memset(h, 0, sizeof h);
    for (size_t i = 0; i < v->n * x.cols; i++) {
        const size_t c = i % x.cols;
        q[i] = (int8_t)(c >= blocks * block ? 0 : v->extreme ? (i / x.cols % 2 ? -127 : 127)
                        : (int)(next() % 255) - 127);
        s[i / 32] += q[i];
        h[i / 16 * 2 + i / 2 % 2] = (int16_t)(h[i / 16 * 2 + i / 2 % 2] + q[i]);
    }
    for (size_t i = 0; i < v->n * x.cols / 64; i++) d[i] = 0.001f + 1e-6f * (float)next();
    return x;
}

static unsigned long wrong, shapes, values;
static void compare(const qsf_kernels *amx, const qsf_kernels *below, const qsf_kernels *scalar,
                    qsf_form form, const shape *v, uint32_t block)
{
    const size_t blocks = v->cols < block ? 1 : v->cols / block, ldy = 16 * v->tiles, count = v->n * ldy;
    const qsf_act x = fill(form, v, blocks, block);
    float top = 0;
    amx->matmul[form](y[0], ldy, w, &x, v->tiles, blocks, block);
    below->matmul[form](y[1], ldy, w, &x, v->tiles, blocks, block);
    bool same = !memcmp(y[0], y[1], 4 * count), near = true;
    if (v->cols <= 256) {                       /* plain C is slow here */
        scalar->matmul[form](y[2], ldy, w, &x, v->tiles, blocks, block);
        for (size_t i = 0; i < count; i++) top = QSF_MAX(top, __builtin_fabsf(y[2][i]));
        for (size_t i = 0; i < count; i++) near = near && __builtin_fabsf(y[0][i] - y[2][i]) <= 1e-5f * top;
    }
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(1));
    const bool released = !(low >> 17 & 1);          /* configured: 17 */
    shapes++, values += count;
    if (same && near && released) return;
    wrong++;
    put(qsf_form_name(form));
    put(same ? "" : ": other bits than AVX-512"), put(near ? "" : ": far from plain C");
    put(released ? "" : ": tiles were not released"), put(", block "), put_number(block);
    put(", rows "), put_number(v->n), put(", columns "), put_number(v->cols), put("\n");
}

void bare_main(void);
void bare_main(void)
{
    static const shape all[] = {
        { 33, 2, 256, false }, { 32, 1, 160, true }, { 47, 3, 448, false }, { 48, 1, 1056, false },
        { 77, 2, 1536, false },
    };
    const uint32_t cpu = UINT32_MAX & ~(uint32_t)QSF_CPU_AMX;
    qsf_kernels amx, below, scalar;
    uint32_t a, b, c, features;
    __asm__ volatile("cpuid" : "=a"(a), "=b"(b), "=c"(c), "=d"(features) : "0"(7), "2"(0));
    put((features >> 24 & 3) == 3 ? "the processor has AMX for int8\n" : "no AMX here\n");
    qsf_kernels_scalar(&scalar);
    if (qsf_kernels_init(&below, cpu, "avx512bf16", NULL)) put("no AVX-512\n");
    put(qsf_amx_agrees(&below) ? "the test at the start: equal\n" : "the test at the start: WRONG\n");
    if (qsf_kernels_init(&amx, UINT32_MAX, "amx", NULL)) put("amx was refused\n"), wrong++;
    for (int f = 0; f < QSF_N_FORMS; f++) {
        const qsf_form form = (qsf_form)f;
        if (amx.matmul[f] == below.matmul[f]) continue;
        put(qsf_form_name(form)), put(" ");
        for (size_t i = 0; i < QSF_ARRAY_LEN(all); i++)
            for (uint32_t block = 32; block <= 256; block *= 2)
                if (qsf_form_block(form) ? block == qsf_form_block(form) : true)
                    seed = block, compare(&amx, &below, &scalar, form, &all[i], block);
    }
    put("\n"), put_number(shapes), put(" shapes, "), put_number(values), put(" values, ");
    put_number(wrong), put(" shapes wrong\n");
}
