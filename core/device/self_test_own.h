/* The parts of the self-test: a case, and the numbers that it is made of.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_SELF_TEST_OWN_H
#define QSF_SELF_TEST_OWN_H

#include "device/self_test.h"

enum { SELF_BUFFERS = 16, SELF_STEPS = 3, SELF_CASES = 256 };

/* How results are compared. */
typedef enum self_check {
    SELF_EXACT,         /* the same words */
    SELF_NEAR,          /* floats, within `tolerance` of the largest */
    SELF_SLOTS,         /* pairs of an expert, which is the same, and a weight within `tolerance` of 1 */
    SELF_CODES          /* rows of codes (wgsl.h): the numbers they stand for, within `tolerance` of the
                         * largest of 64 */
} self_check;

typedef enum self_stage { SELF_COMPILES, SELF_READS, SELF_DONE } self_stage;

typedef struct self_case {
    char     name[96];
    qsf_device_dispatch steps[SELF_STEPS];
    uint32_t n_steps;
    qsf_device_id buffers[SELF_BUFFERS];
    uint32_t n_buffers;
    qsf_device_id of;           /* the pipeline that the case is for */
    qsf_device_id out;          /* the buffer that is compared */
    self_check check;
    float    tolerance;
    uint32_t n;                 /* words of it, or floats that codes stand for; */
    uint32_t codes_ld, cols;    /* of codes: vec4s of a row, columns */
    uint32_t *want, *got;       /* [n]; codes: got is [rows][codes_ld][4] */
    uint32_t n_got;
    self_stage stage;
    qsf_device_id read;
} self_case;

struct qsf_self_test {
    const qsf_platform *platform;
    qsf_pipelines *pipelines;
    const qsf_kernels *k;
    qsf_error failed;           /* the first error, which stays */
    uint32_t  n;
    self_case cases[SELF_CASES];
};

/* Numbers that are the same on each run. */
typedef struct self_random { uint32_t state; } self_random;
static inline uint32_t self_next(self_random *r)
{
    r->state = r->state * 1664525u + 1013904223u;
    return r->state >> 8;
}
/* [-amp, amp) */
static inline float self_float(self_random *r, float amp)
{
    return ((float)self_next(r) / 8388608.0f - 1) * amp;
}

/* ---- building a case.  After an error, which *st keeps, calls do nothing. ---- */
typedef struct self_build {
    qsf_self_test *t;
    self_case     *c;
    qsf_wgsl_text  text;        /* of the shader in hand */
    qsf_status     st;
    qsf_error     *err;
} self_build;

/* A new case; a shader's text follows, to b->text. */
void     qsf_self_begin(self_build *b, qsf_self_test *t, const char *name, qsf_error *err);
/* The shader that it is for is there; false: it has been tested, or an error. */
bool     qsf_self_is_new(self_build *b, qsf_device_id *pipeline);
/* Another shader's text follows. */
void     qsf_self_text(self_build *b);
/* The pipeline of the text. */
qsf_device_id qsf_self_pipeline(self_build *b);
/* A buffer with these bytes (NULL: zeros), as a range. */
qsf_device_range qsf_self_buffer(self_build *b, uint32_t usage, const void *from, uint64_t bytes);
/* A dispatch of the pipeline with n ranges. */
void     qsf_self_step(self_build *b, qsf_device_id pipeline, const qsf_device_range *ranges, uint32_t n,
                       uint32_t x, uint32_t y, uint32_t z);
/* Zeroed words that live as long as this part of the building; NULL after an error. */
void    *qsf_self_room(self_build *b, uint64_t bytes);
void     qsf_self_room_free(self_build *b, void *room, uint64_t bytes);
/* The buffer `out` must have these words; with SELF_CODES rows of cols floats that codes in rows of
 * codes_ld vec4s stand for. */
void     qsf_self_expect(self_build *b, qsf_device_id out, self_check check, float tolerance,
                         const void *want, uint32_t n);
void     qsf_self_expect_codes(self_build *b, qsf_device_id out, float tolerance, const float *want,
                               uint32_t rows, uint32_t cols, uint32_t codes_ld);
/* Ends it: after an error the case is gone. */
qsf_status qsf_self_end(self_build *b);

/* ---- self_test_rows.c ---- */
/* A feed-forward's function, in place. */
void     qsf_self_function(const qsf_kernels *k, float *y, uint32_t n, qsf_wgsl_function f);

/* ---- self_test_product.c ---- */
/* Fills a tile: codes at random, scales that make sums exact. */
void     qsf_self_tile(uint8_t *tile, qsf_form f, uint32_t block, self_random *r);

#endif
