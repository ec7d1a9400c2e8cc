/* A layer as a list of rows: what is done, in which order, with which buffers and matrices, what
 * its pieces divide, and the CPU's function for it.
 * SPDX-License-Identifier: MIT
 *
 * Each mixer and feed-forward appends its rows; layer.c joins them to a program and runs it
 * (program_run.c).  qsf_program_finish() derives from the rows which of them make codes of
 * activations, and for which matrices.  There is one buffer of codes, so a product whose rows are
 * no longer in it needs them made again; slots of experts have codes of their own. */
#ifndef QSF_PROGRAM_H
#define QSF_PROGRAM_H

#include "layers/buffer_names.h"
#include "layers/pass.h"

/* What a row does, for devices that have to find their own way to do it. */
typedef enum qsf_work {
    QSF_WORK_PRODUCT,           /* rows of `in` times matrices */
    QSF_WORK_HEAD_PRODUCT,      /* each head's columns times its own part of a matrix, as floats */
    QSF_WORK_EXPERT_PRODUCT,    /* slots' rows times their experts' parts of matrices */
    QSF_WORK_CODES,             /* rows of `in` as codes */
    QSF_WORK_NORM, QSF_WORK_ADD, QSF_WORK_ACTIVATE, QSF_WORK_COPY,
    QSF_WORK_PLACE,             /* norm and rotate heads, store keys and values */
    QSF_WORK_ATTEND,
    QSF_WORK_SHIFT,             /* the difference to the row before */
    QSF_WORK_CONVOLVE,          /* over a few positions */
    QSF_WORK_SCAN,              /* sums over all positions */
    QSF_WORK_ROUTE,             /* which experts a row takes */
    QSF_WORK_GATHER,            /* rows, or codes of rows, to the experts' slots */
    QSF_WORK_REDUCE,            /* the sum over the shares of a layer */
    QSF_WORK_WATCH,             /* nothing but to show `in` to the watcher */
} qsf_work;

/* What a row's pieces divide. */
typedef enum qsf_over {
    QSF_OVER_ROWS,              /* of the batch */
    QSF_OVER_TILES,             /* of all its matrices, one after another */
    QSF_OVER_FIRST_TILES,       /* of its first matrix; the others have as many */
    QSF_OVER_COLUMNS,           /* `cols` of them, by whole tiles */
    QSF_OVER_HEADS,             /* query heads */
    QSF_OVER_PLACES,            /* rows times query and key-value heads */
    QSF_OVER_GROUPS,            /* groups of rows times key-value heads */
    QSF_OVER_MIX_HEADS,         /* the mixer's heads */
    QSF_OVER_SCAN,              /* parts of the mixer's heads */
    QSF_OVER_SLOTS,             /* of the wave of experts */
    QSF_OVER_HIDDEN_TILES, QSF_OVER_OUT_TILES,      /* of the wave's experts: of hidden rows, of outputs */
    QSF_OVER_NOTHING,           /* the calling thread does it alone, and its time is the next row's */
    QSF_N_OVERS
} qsf_over;

/* When a row runs. */
typedef enum qsf_row_when {
    QSF_ROW_ALWAYS,
    QSF_ROW_GROUPS_MEET,        /* groups of the batch's rows see keys of other groups */
    QSF_ROW_GATHERED,           /* several rows, or one with adapters: experts take copies of them */
    QSF_ROW_FEATURES,           /* the batch begins with features; else nothing of the row is needed */
    QSF_N_ROW_WHENS
} qsf_row_when;

/* Columns of a buffer. */
typedef struct qsf_view {
    uint8_t  buffer;            /* qsf_buffer_name */
    uint32_t cols, first;
} qsf_view;

typedef struct qsf_program_row qsf_program_row;

/* A piece of a row's work. */
typedef struct qsf_task {
    const qsf_program_row *row;
    size_t   begin, end;        /* items of what the row divides */
    uint32_t thread;
} qsf_task;
typedef void qsf_row_fn(const qsf_pass *p, const qsf_task *t);
/* Floats of scratch that a thread needs for such rows of all layers. */
typedef size_t qsf_scratch_fn(const qsf_source *s, const qsf_context_options *o);

enum { QSF_ROW_READERS = 6, QSF_ROW_RESULTS = QSF_OP_PRODUCTS };

struct qsf_program_row {
    uint8_t  op;                /* qsf_op: whose time it is */
    uint8_t  work, over, when;  /* qsf_work, qsf_over, qsf_row_when */
    uint8_t  codes;             /* qsf_op: whose time it is if codes of `in` need a row of their own */
    uint8_t  watch;             /* 1 + the kind by which the watcher knows `in`; 0: it is not shown */
    uint8_t  of;                /* which one of several that the function can do */
    bool     wave;              /* repeated for each wave of experts */
    bool     backwards;         /* later items first: they take longer */
    qsf_view in;
    /* Its matrices, those that the layer has: kinds, and kinds of their biases (0: none). */
    uint8_t  n, kinds[QSF_OP_PRODUCTS], bias[QSF_OP_PRODUCTS];
    /* What changes.  Of a product, the result of each matrix, whose columns qsf_program_add() sets:
     * one in the same buffer as the one before continues after its last tile. */
    qsf_view to[QSF_ROW_RESULTS];
    uint32_t cols;              /* QSF_OVER_COLUMNS */
    void   (*before)(const qsf_pass *p, const qsf_program_row *row);    /* by the calling thread; or NULL */
    qsf_row_fn *fn;             /* NULL: only codes are made */
    qsf_scratch_fn *scratch;    /* of p->b->scratch; or NULL */
    uint32_t writes;            /* bits of the buffers of `to`, by qsf_program_add() */
    /* By qsf_program_finish(): matrices that read `ready` next.  Where a row goes by rows, their
     * codes are made when its function has done these; functions that go by slots make them. */
    uint8_t  n_readers, readers[QSF_ROW_READERS];
    qsf_view ready;
};

enum { QSF_PROGRAM_ROWS = 72 };

typedef struct qsf_program {
    const qsf_hparams *hp;
    const qsf_weights *w;       /* of the layer; their numbers may be missing (qsf_weights_describe) */
    bool     fetched;           /* experts are read one by one, while shared ones are computed */
    uint32_t n;
    uint32_t wave, wave_end;    /* rows of a wave of experts, none if equal */
    qsf_program_row rows[QSF_PROGRAM_ROWS];
} qsf_program;

/* An empty program for a layer with these weights. */
void qsf_program_begin(qsf_program *g, const qsf_hparams *hp, const qsf_weights *w, bool fetched);
/* Appends a row and returns it. */
qsf_program_row *qsf_program_add(qsf_program *g, const qsf_program_row *row);
#define QSF_ADD(g, ...) qsf_program_add((g), &(qsf_program_row){ __VA_ARGS__ })
/* After all rows: decides which of them make codes. */
void qsf_program_finish(qsf_program *g);

/* n_embd columns of a buffer. */
static inline qsf_view qsf_stream_view(const qsf_program *g, uint8_t buffer)
{
    return (qsf_view){ .buffer = buffer, .cols = g->hp->n_embd };
}
/* The columns of a matrix's result, all of its tiles; 0: the layer has no such matrix. */
static inline uint32_t qsf_result_columns(const qsf_weights *w, uint32_t kind)
{
    return (w->m[kind].t.rows + QSF_TILE_ROWS - 1) / QSF_TILE_ROWS * QSF_TILE_ROWS;
}
static inline uint32_t qsf_bit(uint8_t buffer) { return (uint32_t)1 << buffer; }

/* Runs a program on the rows of the batch.  If experts are read one by one, it returns when they
 * are needed (p->cpu->walk->n), and resumes with the next wave; false: then, or if shares could not
 * be added up. */
bool qsf_program_run(const qsf_pass *p, const qsf_program *g);

#endif
