/* One row of activations times matrices of GGUF's codebook types, compared with llama.cpp's
 * products in one run: see iq_peers.py.
 * SPDX-License-Identifier: MIT
 *
 *   iq_peers GGML_DIRECTORY ROWS COLS SECONDS [ISA]
 *
 * Both get the same random blocks, which all are valid; products are compared.  One thread; the
 * matrix is read again and again, so that small ones measure the products and large ones memory. */
#include "layers/act_row.h"
#include "tensor/iq_tiles.h"
#include "tensor/types.h"

#include "peers.h"

typedef void dot(int n, float *s, size_t bs, const void *x, size_t bx, const void *y, size_t by, int nrc);
typedef void to_row(const float *x, void *y, int64_t n);

static const struct { const char *name, *symbol; uint32_t type; } types[] = {
    { "IQ2_XXS", "ggml_vec_dot_iq2_xxs_q8_K", QSF_T_IQ2_XXS },
    { "IQ2_XS", "ggml_vec_dot_iq2_xs_q8_K", QSF_T_IQ2_XS },
    { "IQ2_S", "ggml_vec_dot_iq2_s_q8_K", QSF_T_IQ2_S },
    { "IQ3_XXS", "ggml_vec_dot_iq3_xxs_q8_K", QSF_T_IQ3_XXS },
    { "IQ3_S", "ggml_vec_dot_iq3_s_q8_K", QSF_T_IQ3_S },
    { "IQ1_S", "ggml_vec_dot_iq1_s_q8_K", QSF_T_IQ1_S },
    { "IQ1_M", "ggml_vec_dot_iq1_m_q8_K", QSF_T_IQ1_M },
};

static uint64_t state = 0x9e3779b97f4a7c15;
static uint32_t next_random(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33);
}

/* Random bytes with a scale of 0.01. */
static void random_block(uint8_t *b, uint32_t type, size_t bytes)
{
    const uint16_t half = qsf_f32_to_f16(0.01f);
    for (size_t i = 0; i < bytes; i++) b[i] = (uint8_t)next_random();
    if (type != QSF_T_IQ1_M) memcpy(b, &half, 2);
    else for (int i = 0; i < 4; i++)
        b[49 + 2 * i] = (uint8_t)((b[49 + 2 * i] & 15) | (half >> 4 * i & 15) << 4);
}

int main(int argc, char **argv)
{
    if (argc < 5) return 2;
    const size_t rows = strtoul(argv[2], NULL, 10) / 16 * 16, cols = strtoul(argv[3], NULL, 10) / 256 * 256,
        blocks = cols / 256;
    const double seconds = strtod(argv[4], NULL);
    qsf_kernels k;
    qsf_error err;
    const qsf_platform *os = qsf_platform_native();
    if (qsf_kernels_init(&k, os->cpu_features(os->user), argv[5], &err)) return 2;
    void (*init)(void);
    to_row *to_q8k;
    *(void **)&init = symbol(argv[1], "/libggml-cpu.so", "ggml_cpu_init");
    *(void **)&to_q8k = symbol(argv[1], "/libggml-base.so", "quantize_row_q8_K_ref");
    init();
    float *x = malloc(cols * sizeof *x), *y = malloc(rows * sizeof *y), *z = malloc(rows * sizeof *z);
    for (size_t i = 0; i < cols; i++) x[i] = (float)(int)(next_random() % 2001) / 1000 - 1;
    const size_t ld = qsf_act_cols((uint32_t)cols);
    qsf_act act = { .q = malloc(ld), .d = malloc(ld / 16), .s = malloc(ld / 8), .h = malloc(ld / 4), .n = 1,
                    .cols = (uint32_t)ld };
    qsf_quantize_act_row(&act, 0, x, cols);
    uint8_t *q8k = malloc(blocks * 292);
    to_q8k(x, q8k, (int64_t)cols);
    printf("kernels: %s, %zu x %zu\n", k.isa, rows, cols);
    for (size_t i = 0; i < QSF_ARRAY_LEN(types); i++) {
        const size_t bytes = qsf_block_bytes(types[i].type, 256);
        const qsf_form form = qsf_form_of_type(types[i].type);
        uint8_t *theirs = malloc(rows * blocks * bytes), *ours = malloc(rows * blocks * bytes);
        dot *their_dot;
        *(void **)&their_dot = symbol(argv[1], "/libggml-cpu.so", types[i].symbol);
        for (size_t b = 0; b < rows * blocks; b++) random_block(theirs + b * bytes, types[i].type, bytes);
        for (size_t r = 0; r < rows; r += 16)
            for (size_t b = 0; b < blocks; b++)
                qsf_iq_to_tile(types[i].type, theirs + (r * blocks + b) * bytes, blocks * bytes,
                               ours + (r * blocks + 16 * b) * bytes);
        double best[2] = { 1e9, 1e9 }, far = 0, most = 0;
        const double end = now() + seconds;
        do {
            double begin = now();
            k.matvec[form](y, ours, &act, rows / 16, blocks, 256);
            best[0] = fmin(best[0], now() - begin);
            begin = now();
            for (size_t r = 0; r < rows; r++)
                their_dot((int)cols, z + r, 0, theirs + r * blocks * bytes, 0, q8k, 0, 1);
            best[1] = fmin(best[1], now() - begin);
        } while (now() < end);
        for (size_t r = 0; r < rows; r++) far = fmax(far, fabs(y[r] - z[r])), most = fmax(most, fabs(z[r]));
        printf("%-8s %7.2f G/s, llama.cpp %7.2f: %5.2f x\n", types[i].name,
               1e-9 * (double)(rows * cols) / best[0], 1e-9 * (double)(rows * cols) / best[1],
               best[1] / best[0]);
        fflush(stdout);
        if (!(far <= 0.02 * most)) printf("%s: differs by %g of %g\n", types[i].name, far, most);
        free(theirs), free(ours);
    }
    return 0;
}
