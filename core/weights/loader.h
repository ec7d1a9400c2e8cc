/* From a unit of the file to matrices and vectors that the kernels take: reads without blocking, checks, decompresses, and
 * brings rows of blocks into tiles.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_LOADER_H
#define QSF_LOADER_H

#include "kernels.h"
#include "base/pool.h"
#include "model/source.h"
#include "base/worker.h"

enum { QSF_STAGES = 2 };

/* A weight matrix in memory. */
typedef struct qsf_matrix {
    qsf_tensor t;             /* as it lies in memory; data NULL: the unit has no such matrix */
    int        form;          /* qsf_form of its tiles, or -1: rows are dequantised while computing */
    uint32_t   blocks;        /* tiles across */
    const uint32_t *out_start, *out_col;    /* outliers of row r: [out_start[r], out_start[r+1]) of out_col, out_value; NULL: none */
    const uint16_t *out_value;              /* fp16, added to the weight */
} qsf_matrix;

/* A loaded unit by kind.  Vectors are floats. */
typedef struct qsf_weights {
    qsf_matrix   m[QSF_N_KINDS];
    const float *v[QSF_N_KINDS];
} qsf_weights;

typedef enum qsf_slot_state { QSF_SLOT_EMPTY, QSF_SLOT_READING, QSF_SLOT_READY } qsf_slot_state;

/* How long a unit took, in ns. */
typedef struct qsf_load_times {
    uint64_t read;            /* until its bytes were there, counted from when the thread had its last unit's */
    uint64_t prepare;         /* all that came then; of it: */
    qsf_unit_times unit;
} qsf_load_times;

typedef struct qsf_slot {
    qsf_slot_state state;
    uint32_t  batch;          /* of the loader's, in which its reads began */
    qsf_job   job;            /* while it is given, the thread ends the reads and prepares the unit, and all below is the thread's */
    qsf_load_times took;
    uint64_t  begun;          /* when the reads began */
    int32_t   stage;          /* of the staging buffers, the one that its bytes go to; -1: none */
    bool      pinned;         /* keeps its unit for good */
    uint32_t  unit;
    uint8_t  *mem;
    uint64_t  cap;
    qsf_read **reads;         /* [max_extents], NULL where ended */
    uint32_t  n_reads;
    qsf_weights w;
} qsf_slot;

typedef struct qsf_loader {
    const qsf_source *source;
    const qsf_platform *mem;  /* whose memory it takes */
    uint32_t  n_slots, max_extents;
    qsf_slot *slots;
    int32_t  *slot_of;        /* [n_units] slot index that holds or reads the unit, -1 none */
    /* Staging for units that cannot be read in place; NULL where none needs it.  raw is used while a unit is prepared. */
    uint8_t  *stored[QSF_STAGES], *raw;
    uint64_t  stored_cap, raw_cap;
    uint32_t  n_stages;
    int32_t   staging[QSF_STAGES];      /* slot whose bytes are in stored[i], -1 none */
    qsf_pool *pool;           /* shares the work of bringing matrices into tiles; NULL: the caller alone */
    uint8_t  *strips;         /* [threads + 1] 16 rows of a GGUF matrix on their way to tiles; the last is the reading thread's */
    uint64_t  strips_cap, strip_cap;
    qsf_worker *worker;       /* prepares layers, and parts of the head, while others are computed; NULL: the caller does it */
    uint64_t  read_until;     /* the thread's: when the reads of its last job were over */
    uint32_t  batch;          /* counts them: the context's to change */
    uint8_t  *checked;        /* [n_units] its CRC has been compared */
    bool      check_every;    /* compare it each time */
    uint64_t  bytes_read, ns_wait;      /* these four count what windows read, too */
    uint64_t  ns_own;         /* of ns_prepare, what the caller did itself */
    qsf_load_times took;
    float     quality;        /* below 1 layers are left out, see qsf_layer_runs; qsf_loader_init sets 1 */
    const uint8_t *left_out;  /* [n_layers] not 0: left out whatever their importance, for measuring it; NULL: none */
} qsf_loader;

/* Whether a layer runs at that quality: it is one of the first or last two, or matters enough; and how many of the first n do. */
bool       qsf_layer_runs(const qsf_source *s, float quality, uint32_t layer);
uint32_t   qsf_layers_run(const qsf_source *s, float quality, uint32_t n);
/* Whether a layer is left out: it is in left_out, or does not run at this quality. */
bool       qsf_loader_skips(const qsf_loader *l, uint32_t layer);
bool       qsf_loader_knows(const qsf_loader *l);       /* whether the file tells layers' importance */

/* Bytes that unit takes in a slot (weights, vectors as floats), and that it needs of the two staging buffers (0: none). */
qsf_status qsf_unit_memory(const qsf_source *s, uint32_t unit, uint64_t *slot, uint64_t *stored, uint64_t *raw, qsf_error *err);

/* Bytes of a loader beside slots and staging: at most one slot a unit and one more. */
uint64_t   qsf_loader_tables(const qsf_source *s, uint32_t n_threads);

/* Whether this host has a thread that prepares what is read beside computing. */
bool       qsf_loader_threaded(const qsf_source *s);

/* caps[n_slots]: bytes of each slot; pins[n_slots]: its unit for good, or -1 for the slots that units pass through.  n_stages: staging
 * buffers of stored_cap bytes; with two of them one is read to while the other is decompressed. */
qsf_status qsf_loader_init(qsf_loader *l, const qsf_source *s, const qsf_platform *mem, const uint64_t *caps, const int32_t *pins, uint32_t n_slots,
                           uint64_t stored_cap, uint32_t n_stages, uint64_t raw_cap, qsf_pool *pool, qsf_error *err);
void       qsf_loader_done(qsf_loader *l);      /* ends running reads; takes half-built */
/* Starts the thread, on a host that has one. */
qsf_status qsf_loader_start_thread(qsf_loader *l, qsf_error *err);

/* Starts reading unit where a slot is free for it: not the one that holds `keep` (-1: none).  Does nothing where it is there. */
qsf_status qsf_loader_start(qsf_loader *l, uint32_t unit, int32_t keep, qsf_error *err);
/* Starts reading the layers that will be missing first after `layer`, which is being computed: two where slots are free for them. */
void       qsf_loader_prefetch(qsf_loader *l, uint32_t layer);
/* *w is the loaded unit; QSF_PENDING: its bytes are on the way (begins to read where nobody did). */
qsf_status qsf_loader_get(qsf_loader *l, uint32_t unit, const qsf_weights **w, qsf_error *err);
/* The memory of weights of a pinned unit, which is loaded, for whoever puts them in another order. */
uint8_t   *qsf_loader_writable(const qsf_loader *l, uint32_t unit, const void *weights);
/* Waits until unit is there. */
qsf_status qsf_loader_wait(qsf_loader *l, uint32_t unit, qsf_error *err);
/* The caller has done that itself, this long. */
void       qsf_loader_waited(qsf_loader *l, uint64_t ns);

/* For windows (window.h), which read parts of units as the loader reads units. */
enum { QSF_LOADER_WINDOWS = 2 };      /* that the thread may be given at once */
/* Called by the thread when reads are over that began at `begun`: how long they took, counted from when the last job's were over. */
uint64_t   qsf_loader_reads_over(qsf_loader *l, uint64_t begun);
void       qsf_loader_count(qsf_loader *l, const qsf_load_times *took);
/* Scratch for qsf_ggml_to_tiles, by the thread or by the caller and its pool. */
uint8_t   *qsf_loader_strips(const qsf_loader *l, bool thread);

#endif
