/* Ternary products against those of bitnet.cpp and llama.cpp, in one run: see ternary_peers.py.
 * SPDX-License-Identifier: MIT
 *
 *   ternary_peers BITNET.so|- GGML_DIRECTORY|- THREADS SECONDS [ISA]
 *
 * All of them get the same ternary weights and the same 8-bit activations with one scale a row, and
 * their sums are compared before anything is timed.  One row of activations meets more weights than
 * any cache holds, as a layer after layer does; 512 rows meet one matrix. */
#include "layers/act_row.h"
#include "tensor/types.h"

#include "peers.h"

#include <pthread.h>

enum { ROWS = 512, MOST_ROWS = 6912, MOST_COLS = 6912, Q8K_BYTES = 292, TQ2_BYTES = 66 };
static const size_t FAR = (size_t)256 << 20;       /* bytes of weights that one row of activations meets */

typedef void bitnet_dot(int n, float *s, size_t bs, const void *x, size_t bx, const void *y, size_t by,
                        int nrc);
typedef void tq2_ref(const float *x, void *y, int64_t n);

typedef struct peer {
    const char *name;
    size_t row_bytes;           /* of the weights' rows; ours: of 1/16 of a tile row */
    uint8_t *w;
    int form;                   /* ours; -1 bitnet.cpp, -2 llama.cpp */
} peer;

static struct {
    qsf_kernels k;
    size_t rows, cols, n;
    uint32_t threads;
    qsf_act act;
    uint8_t *q8k;               /* [ROWS][cols / 256] as llama.cpp has them */
    int8_t *i8;                 /* [ROWS][cols] as bitnet.cpp has them */
    float *y;                   /* ours [n][rows], theirs in their own orders */
    bitnet_dot *i2s, *tq2;
} g;

/* ---- what a thread does with rows [from, to) of one matrix ---- */

static void run_ours(const peer *p, const uint8_t *w, size_t from, size_t to)
{
    const size_t blocks = g.cols / 256;
    qsf_act a = g.act;
    a.n = (uint32_t)g.n;
    w += from * p->row_bytes;
    if (g.n == 1) g.k.matvec[p->form](g.y + from, w, &a, (to - from) / 16, blocks, 256);
    else g.k.matmul[p->form](g.y + from, g.rows, w, &a, (to - from) / 16, blocks, 256);
}
/* One row of activations: a row of weights at a time.  Many: 128 of them at a time, as its tuned
 * tiles have it, and in each of these calls four together. */
static void run_bitnet(const peer *p, const uint8_t *w, size_t from, size_t to)
{
    for (size_t c = 0; c < g.n; c += 128)
        for (size_t r = from; r < to; r++)
            g.i2s((int)g.cols, g.y + r * g.n + c, 1, w + r * p->row_bytes, g.cols, g.i8 + c * g.cols, g.cols,
                  (int)QSF_MIN(g.n - c, (size_t)128));
}
/* Blocks of 16 by 16, as ggml_mul_mat goes. */
static void run_ggml(const peer *p, const uint8_t *w, size_t from, size_t to)
{
    const size_t ld = g.cols / 256 * Q8K_BYTES;
    for (size_t c = 0; c < g.n; c += 16)
        for (size_t r = from; r < to; r += 16)
            for (size_t m = c; m < c + 16 && m < g.n; m++)
                for (size_t i = r; i < r + 16; i++)
                    g.tq2((int)g.cols, g.y + m * g.rows + i, 0, w + i * p->row_bytes, 0, g.q8k + m * ld, 0,
                          1);
}

typedef struct task { const peer *p; size_t copies, part; } task;
static void *work(void *arg)
{
    const task *t = arg;
    const size_t strips = g.rows / 16, from = strips * t->part / g.threads * 16,
        to = strips * (t->part + 1) / g.threads * 16;
    for (size_t c = 0; c < t->copies; c++) {
        const uint8_t *w = t->p->w + c * g.rows * t->p->row_bytes;
        if (t->p->form >= 0) run_ours(t->p, w, from, to);
        else if (t->p->form == -1) run_bitnet(t->p, w, from, to);
        else run_ggml(t->p, w, from, to);
    }
    return NULL;
}
static double run(const peer *p, size_t copies)
{
    pthread_t id[64];
    task t[64];
    const double begin = now();
    for (size_t i = 0; i < g.threads; i++) t[i] = (task){ p, copies, i };
    for (size_t i = 1; i < g.threads; i++) pthread_create(&id[i], NULL, work, &t[i]);
    work(&t[0]);
    for (size_t i = 1; i < g.threads; i++) pthread_join(id[i], NULL);
    return now() - begin;
}

/* What the threads can read at most: sums of 64-bit words, in the same shares. */
static volatile uint64_t read_sink;
static const uint8_t *read_from;
static size_t read_bytes;
static void *read_part(void *arg)
{
    const size_t n = read_bytes / 8 / g.threads / 8 * 8;
    const uint8_t *p = read_from + 8 * n * (size_t)(uintptr_t)arg;
    uint64_t sum[8] = { 0 };
    for (size_t i = 0; i < 8 * n; i += 64)
        for (size_t l = 0; l < 8; l++) {
            uint64_t v;
            memcpy(&v, p + i + 8 * l, 8);
            sum[l] += v;
        }
    for (size_t l = 0; l < 8; l++) read_sink += sum[l];
    return NULL;
}
static double read_all(const uint8_t *from, size_t bytes)
{
    pthread_t id[64];
    read_from = from, read_bytes = bytes;
    const double begin = now();
    for (size_t i = 1; i < g.threads; i++) pthread_create(&id[i], NULL, read_part, (void *)(uintptr_t)i);
    read_part(NULL);
    for (size_t i = 1; i < g.threads; i++) pthread_join(id[i], NULL);
    return now() - begin;
}

/* ---- input ---- */

static uint64_t state = 0x9e3779b97f4a7c15;
static uint32_t next_random(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33);
}

/* One matrix of random ternaries in every peer's layout, then copies of it up to FAR bytes. */
static void fill(peer *peers, size_t n_peers, tq2_ref *to_tq2)
{
    static uint8_t codes[16][MOST_COLS];
    static float floats[MOST_COLS];
    static uint8_t block[64 * (MOST_COLS / 256) * 16];
    for (size_t strip = 0; strip < g.rows; strip += 16) {
        for (size_t r = 0; r < 16; r++)
            for (size_t i = 0; i < g.cols; i++) codes[r][i] = (uint8_t)(next_random() % 3);
        for (size_t k = 0; k < n_peers; k++) {
            uint8_t *to = peers[k].w + strip * peers[k].row_bytes;
            if (peers[k].form >= 0) {
                const uint32_t type = peers[k].form == QSF_F_T5 ? QSF_T_TERNARY5 : QSF_T_TERNARY2;
                for (size_t r = 0; r < 16; r++)
                    for (size_t b = 0; b < g.cols / 256; b++)
                        qsf_block_put_codes(block + r * peers[k].row_bytes + b * qsf_block_bytes(type, 256),
                                            type, 256, codes[r] + 256 * b);
                const qsf_tensor t = { .type = (uint8_t)type, .block = 256, .rows = 16,
                                       .cols = (uint32_t)g.cols, .data = block };
                qsf_pack_tiles(&t, to);
                continue;
            }
            for (size_t r = 0; r < 16; r++, to += peers[k].row_bytes) {
                if (peers[k].form == -1) {
                    memset(to, 0, peers[k].row_bytes);
                    for (size_t i = 0; i < g.cols; i++)
                        to[i / 128 * 32 + i % 32] |= (uint8_t)(codes[r][i] << (6 - 2 * (i / 32 % 4)));
                } else {
                    for (size_t i = 0; i < g.cols; i++) floats[i] = (float)codes[r][i] - 1;
                    to_tq2(floats, to, (int64_t)g.cols);
                }
            }
        }
    }
    for (size_t k = 0; k < n_peers; k++) {
        const size_t bytes = g.rows * peers[k].row_bytes;
        for (size_t c = 1; c < FAR / bytes; c++) memcpy(peers[k].w + c * bytes, peers[k].w, bytes);
    }
}

/* Sums without scales.  bitnet.cpp's have the codes' offset in them. */
static double value_of(const peer *p, size_t row, size_t m)
{
    if (p->form == -2) return g.y[m * g.rows + row];
    if (p->form >= 0) return g.y[m * g.rows + row];
    double sum = 0;
    for (size_t i = 0; i < g.cols; i++) sum += g.i8[m * g.cols + i];
    return (g.y[row * g.n + m] - sum) * g.act.d[m * (g.act.cols / 64)];
}

static bool compare(const peer *peers, size_t n_peers)
{
    static double want[64];
    double most = 0;
    bool same = true;
    for (size_t k = 0; k < n_peers; k++) {
        run(&peers[k], 1);
        for (size_t i = 0; i < 64; i++) {
            const double v = value_of(&peers[k], i * 37 % g.rows, i * 11 % g.n);
            if (k == 0) want[i] = v, most = fmax(most, fabs(v));
            else if (fabs(v - want[i]) > (peers[k].form == -2 ? 0.01 : 1e-5) * most) same = false;
            if (!same) {
                printf("%s: sum %zu is %g, not %g\n", peers[k].name, i, v, want[i]);
                return false;
            }
        }
    }
    return true;
}

static void shape(peer *peers, size_t n_peers, size_t rows, size_t cols, double seconds, tq2_ref *to_tq2,
                  tq2_ref *to_q8k)
{
    g.rows = rows, g.cols = cols;
    g.act.cols = qsf_act_cols((uint32_t)cols);
    static float x[MOST_COLS];
    for (size_t m = 0; m < ROWS; m++) {
        for (size_t i = 0; i < cols; i++) x[i] = (float)(int)(next_random() % 2001) / 1000 - 1;
        qsf_quantize_act_row(&g.act, m, x, cols);
        memcpy(g.i8 + m * cols, g.act.q + m * g.act.cols, cols);
        if (to_q8k) to_q8k(x, g.q8k + m * (cols / 256) * Q8K_BYTES, (int64_t)cols);
    }
    for (size_t k = 0; k < n_peers; k++)
        peers[k].row_bytes = peers[k].form == -1 ? cols / 4 : peers[k].form == -2 ? cols / 256 * TQ2_BYTES
            : qsf_tile_bytes((qsf_form)peers[k].form, 256) / 16 * (cols / 256);
    fill(peers, n_peers, to_tq2);
    for (g.n = 1; g.n <= ROWS; g.n += ROWS - 1) {
        double best[8], read = 1e9;
        if (!compare(peers, n_peers)) exit(1);
        for (size_t k = 0; k < n_peers; k++) best[k] = 1e9;
        const double end = now() + seconds;
        do {
            for (size_t k = 0; k < n_peers; k++) {
                const size_t copies = g.n == 1 ? FAR / (rows * peers[k].row_bytes) : 1;
                best[k] = fmin(best[k], run(&peers[k], copies) / (double)copies);
            }
            read = fmin(read, read_all(peers[0].w, FAR) / (double)FAR);
        } while (now() < end);
        for (size_t k = 0; k < n_peers; k++) {
            const double bytes = (double)(rows * peers[k].row_bytes);
            printf("%zux%zu %3zu %-10s %9.1f us %8.1f G/s %6.2f x", rows, cols, g.n, peers[k].name,
                   1e6 * best[k], 1e-9 * (double)(rows * cols * g.n) / best[k], best[k] / best[0]);
            if (g.n == 1)
                printf(" %5.1f GB/s, %3.0f %% of reading", 1e-9 * bytes / best[k],
                       100 * bytes * read / best[k]);
            printf("\n");
        }
        fflush(stdout);
    }
}

int main(int argc, char **argv)
{
    static const size_t shapes[][2] = { { 2560, 2560 }, { 6912, 2560 }, { 2560, 6912 }, { 640, 2560 } };
    peer peers[5] = { { .name = "ternary2", .form = QSF_F_T2 }, { .name = "ternary5", .form = QSF_F_T5 } };
    size_t n_peers = 2;
    tq2_ref *to_tq2 = NULL, *to_q8k = NULL;
    if (argc < 5) return 2;
    if (strcmp(argv[1], "-")) {
        *(void **)&g.i2s = symbol(argv[1], "", "ggml_vec_dot_i2_i8_s");
        peers[n_peers++] = (peer){ .name = "bitnet.cpp", .form = -1 };
    }
    if (strcmp(argv[2], "-")) {
        *(void **)&to_tq2 = symbol(argv[2], "/libggml-base.so", "quantize_row_tq2_0_ref");
        *(void **)&to_q8k = symbol(argv[2], "/libggml-base.so", "quantize_row_q8_K_ref");
        *(void **)&g.tq2 = symbol(argv[2], "/libggml-cpu.so", "ggml_vec_dot_tq2_0_q8_K");
        void (*init)(void);             /* tables of half floats */
        *(void **)&init = symbol(argv[2], "/libggml-cpu.so", "ggml_cpu_init");
        init();
        peers[n_peers++] = (peer){ .name = "TQ2_0", .form = -2 };
    }
    g.threads = (uint32_t)strtoul(argv[3], NULL, 10);
    qsf_error err;
    const qsf_platform *os = qsf_platform_native();
    if (g.threads < 1 || g.threads > 64 || qsf_kernels_init(&g.k, os->cpu_features(os->user), argv[5], &err))
        return 2;
    printf("kernels: %s, %u threads\n", g.k.isa, (unsigned)g.threads);
    const size_t ld = qsf_act_cols(MOST_COLS);
    g.act = (qsf_act){ .q = malloc(ROWS * ld), .d = malloc(ROWS * ld / 16), .s = malloc(ROWS * ld / 8),
                       .h = malloc(ROWS * ld / 4), .n = ROWS };
    g.q8k = malloc(ROWS * (MOST_COLS / 256) * Q8K_BYTES);
    g.i8 = malloc(ROWS * MOST_COLS);
    g.y = malloc(ROWS * MOST_ROWS * sizeof(float));
    for (size_t k = 0; k < n_peers; k++) peers[k].w = aligned_alloc(4096, FAR + (16 << 20));
    for (size_t i = 0; i < QSF_ARRAY_LEN(shapes); i++)
        shape(peers, n_peers, shapes[i][0], shapes[i][1], strtod(argv[4], NULL), to_tq2, to_q8k);
    return 0;
}
