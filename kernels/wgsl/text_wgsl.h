/* Shader text: pieces of WGSL with named values, written into a buffer of the caller.
 * SPDX-License-Identifier: MIT
 *
 * A piece is plain WGSL in which ${name} stands for a value.  Pieces are chosen by C; so one reads
 * what a device gets, and no shader has a branch that its variant does not need. */
#ifndef QSF_WGSL_TEXT_H
#define QSF_WGSL_TEXT_H

#include "base/base.h"

/* How a shader uses a buffer, numbered as qsf_device_binding (core/base/device.h).  Layouts of bind
 * groups are explicit: automatic ones drop bindings that a variant does not read. */
typedef enum qsf_wgsl_access {
    QSF_WGSL_WRITE = 1,     /* storage, read and written */
    QSF_WGSL_READ = 2,      /* storage, only read */
    QSF_WGSL_UNIFORM = 3    /* the shader's numbers: at most 256 bytes */
} qsf_wgsl_access;

/* Every device has 8 storage buffers for a shader; and the uniform one. */
enum { QSF_WGSL_BINDINGS = 9 };

typedef struct qsf_wgsl_text {
    char    *dst;
    size_t   cap, len;      /* len: what the text takes, also if it is more than cap */
    uint32_t n_bindings;
    uint8_t  access[QSF_WGSL_BINDINGS]; /* qsf_wgsl_access of bindings 0, 1, ... of group 0 */
} qsf_wgsl_text;

#if defined(QSF_WGSL_SMALL)
/* As tools/small_wgsl.py writes lists: first the string of their names, each a character, whose top
 * bit is set for those that are strings; then a number or a string for each. */
typedef uintptr_t qsf_wgsl_value;
#else
typedef struct qsf_wgsl_value {
    const char *name;
    uint32_t    number;
    const char *text;       /* NULL: the number, in decimal and without a suffix */
} qsf_wgsl_value;
#endif

void qsf_wgsl_begin(qsf_wgsl_text *t, char *dst, size_t cap);
/* Fails if the text did not fit: the message has its length. */
qsf_status qsf_wgsl_end(const qsf_wgsl_text *t, qsf_error *err);

/* Declares the next binding of group 0. */
void qsf_wgsl_bind(qsf_wgsl_text *t, qsf_wgsl_access access, const char *name, const char *type);

void qsf_wgsl_put(qsf_wgsl_text *t, const char *piece);
/* The same with values; every ${name} in the piece has one. */
void qsf_wgsl_put_values(qsf_wgsl_text *t, const char *piece, const qsf_wgsl_value *values, size_t n);
#define QSF_WGSL_PUT(t, piece, ...)                                                              \
    qsf_wgsl_put_values((t), (piece), (const qsf_wgsl_value[]){ __VA_ARGS__ },                   \
                        sizeof((const qsf_wgsl_value[]){ __VA_ARGS__ }) / sizeof(qsf_wgsl_value))

#endif
