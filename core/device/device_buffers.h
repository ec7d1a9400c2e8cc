/* What all layers on a device share: the batch's rows, by name, and the numbers of all dispatches.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_DEVICE_BUFFERS_H
#define QSF_DEVICE_BUFFERS_H

#include "device/self_test.h"
#include "layers/kv.h"
#include "layers/rope.h"

#include "wgsl/attend_wgsl.h"
#include "wgsl/floats_wgsl.h"
#include "wgsl/product_wgsl.h"
#include "wgsl/rows_wgsl.h"

/* What makes buffers smaller, as the host's users call it. */
#if defined(QSF_NO_HELP)
#  define QSF_DEVICE_SMALLER "use a smaller batch or contextLength"
#else
#  define QSF_DEVICE_SMALLER "use a smaller batch (-b) or context (-c)"
#endif

/* Products have pipelines for 1, 2, 4 and 8 rows, and for more. */
enum { QSF_DEVICE_VARIANTS = 5, QSF_DEVICE_NUMBERS = 256 /* bytes of a dispatch's */,
       QSF_DEVICE_STEPS = 56 /* of a layer, at most */,
       QSF_DEVICE_GROUP = 8 /* rows of attention that share what they read, at least */ };

typedef enum qsf_device_name {
    QSF_DEVICE_X,               /* [rows][ld] floats: the residual stream */
    QSF_DEVICE_CODES,           /* [rows][codes_ld] vec4s: what products multiply; */
    QSF_DEVICE_FLOATS,          /* [rows][floats_ld] the same for matrices that are stored as floats */
    QSF_DEVICE_Q, QSF_DEVICE_K, QSF_DEVICE_V,           /* [rows][columns] floats */
    QSF_DEVICE_GATE, QSF_DEVICE_UP,             /* GATE: [rows][2 * ff_ld], both if one product has them */
    QSF_DEVICE_TMP,             /* [rows][ld] floats: the output of a part, before its norm */
    QSF_DEVICE_BEGIN,           /* [rows][ld] floats: the layer's input, for a second norm after attention */
    QSF_DEVICE_X0,              /* [rows][ld] floats: tokens' embeddings, and */
    QSF_DEVICE_TOKENS,          /* [rows][tokens_ld] those for all layers, if the model has them */
    QSF_DEVICE_QUERIES,         /* [rows][heads] as attention takes them */
    QSF_DEVICE_PLACE,           /* [rows] of the batch: position, entries of Table, block (attend_wgsl.h) */
    QSF_DEVICE_TABLE,           /* entries of the block tables of the batch's sequences */
    QSF_DEVICE_GROUPS,          /* groups of rows (prompt_wgsl.h) */
    QSF_DEVICE_SUMS, QSF_DEVICE_TOPS,           /* of chunks of attention */
    QSF_DEVICE_ANGLES,          /* [rows][half] of each rotary table (qsf_device_angles) */
    /* of experts (wgsl/choice_wgsl.h): */
    QSF_DEVICE_ROUTE,           /* [rows][route_ld] floats: logits of routers */
    QSF_DEVICE_SLOTS,           /* [rows][used, and one] */
    QSF_DEVICE_LIST,            /* slots by expert */
    QSF_DEVICE_SLOT_CODES,      /* [slots of rows] codes of hidden rows */
    QSF_DEVICE_SLOT_OUT,        /* [rows][used, and one][ld] floats: outputs */
    QSF_DEVICE_IDS,             /* [rows] u32: the tokens, if the embedding is on the device */
    QSF_DEVICE_FLAGS,           /* [n_layers + 1][2] not 0: the layer's input has values that are not finite,
                                 * or what it computes; the last ones: of the head */
    QSF_DEVICE_LOGITS,          /* [n_logits][head_ld] floats, if the head is on the device */
    QSF_DEVICE_SPARE,           /* a layer's keys and values of a block, on their way */
    QSF_N_DEVICE_NAMES
} qsf_device_name;

/* What the dispatches of a batch depend on. */
typedef struct qsf_device_batch {
    uint32_t n;                 /* rows */
    uint32_t groups;            /* of rows of one sequence: a prompt's attention; 0: in chunks */
    uint32_t chunks, blocks;    /* of attention; blocks of one */
    struct qsf_device_loras *loras;     /* adapters that rows use; NULL: none do */
} qsf_device_batch;

typedef struct qsf_device_buffers {
    const qsf_device *d;
    const qsf_platform *platform;
    const qsf_source *source;
    const qsf_context_options *o;
    const qsf_rope *ropes;      /* of the context */
    uint32_t n_blocks;          /* of the KV cache */
    qsf_self_test *test;        /* takes the shaders that are compiled; NULL: it has passed */
    uint32_t rows;              /* of a batch, at most */
    uint32_t ld, q_ld, kv_ld, ff_ld, floats_ld, tokens_ld, head_ld;     /* floats */
    uint32_t route_ld, slot_ld;         /* the same; slot_ld: of an expert's hidden row */
    uint32_t qkv_ld;            /* of queries, keys and values side by side */
    uint32_t room;              /* columns of heads in the cache */
    uint32_t sums;              /* chunks of all rows, at most */
    bool     prompts;           /* attention of groups of rows is possible */
    uint64_t entries;           /* of the table */
    uint64_t align;             /* of bindings */
    uint64_t slot_bytes;        /* of a slot that layers pass through (device_stream.h) */
    qsf_device_id numbers;      /* [n_numbers][QSF_DEVICE_NUMBERS] */
    uint8_t *host_numbers;      /* the same here */
    uint32_t n_numbers, most_numbers;
    uint64_t total;             /* bytes of all buffers, those of layers too */
    qsf_kv_layout kv;
    qsf_device_batch set;       /* for which numbers are set; n == 0: they have changed */
    qsf_device_id of[QSF_N_DEVICE_NAMES];
    uint64_t bytes[QSF_N_DEVICE_NAMES];
    qsf_pipelines pipelines;
} qsf_device_buffers;

qsf_status qsf_device_buffers_init(qsf_device_buffers *b, const qsf_platform *p, const qsf_device *d,
                                   const qsf_source *s, const qsf_context_options *o, const qsf_kv_layout *kv,
                                   qsf_error *err);
/* The sizes alone, without a device. */
void       qsf_device_buffers_sizes(qsf_device_buffers *b, const qsf_source *s, const qsf_context_options *o,
                                    const qsf_kv_layout *kv, const qsf_device_info *info);
void       qsf_device_buffers_done(qsf_device_buffers *b);      /* takes one that is all zeros */
/* Reads bytes of a buffer.  For hosts that may block. */
qsf_status qsf_device_buffer_read(const qsf_device_buffers *b, qsf_device_id id, uint64_t at, void *dst,
                                  size_t len, qsf_error *err);
/* Waits for what a buffer's creation came to: QSF_E_MEMORY, the device is full.  Accepts 0. */
qsf_status qsf_device_buffer_there(const qsf_device_buffers *b, qsf_device_id id, qsf_error *err);
qsf_status qsf_device_buffers_there(const qsf_device_buffers *b, qsf_error *err);       /* of all */
/* A new buffer; who makes it releases it. */
qsf_status qsf_device_buffer_new(qsf_device_buffers *b, uint64_t bytes, qsf_device_id *out, qsf_error *err);
/* Room for the numbers of a dispatch. */
void      *qsf_device_numbers(qsf_device_buffers *b, uint32_t *place);
static inline void *qsf_device_numbers_at(qsf_device_buffers *b, uint32_t place)
{
    return b->host_numbers + (size_t)place * QSF_DEVICE_NUMBERS;
}
/* Brings n of them to the device. */
qsf_status qsf_device_numbers_write(qsf_device_buffers *b, uint32_t place, uint32_t n, qsf_error *err);
/* The angles of a rotary table. */
qsf_device_range qsf_device_angles(const qsf_device_buffers *b, uint32_t rope);
/* Columns of heads in the shaders of attention: those of all layers' records. */
uint32_t qsf_device_room(const qsf_source *s, qsf_kv_type type);
/* The codes of a row of `cols` columns, padded for all tiles, in vec4s. */
static inline uint32_t qsf_device_codes_ld(uint32_t cols) { return (cols + 255) / 256 * 20; }

#endif
