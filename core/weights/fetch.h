/* One fetch for all weights: starts reads without blocking, polls or waits for them, checks and
 * unpacks the bytes, and hands the weights over.
 * SPDX-License-Identifier: MIT
 *
 * It fetches bytes [begin, end) of a unit: whole units and parts of them.  They are kept in slots,
 * all of which are in one table.  A shelf is a range of that table that is used for one kind of
 * data: units (layers, and what stays in memory), parts of the head, or rows of the embedding.
 * The shelf's rule chooses the slot to evict (evict_cyclic.c, evict_lru.c; another rule is a new
 * file), its `make` turns the bytes into weights.
 *
 * A slot goes from empty to reading.  If there is a thread, it ends the reads and makes the
 * weights, and no other thread touches the slot until it is taken back, ready or failed.  A read
 * that is no longer wanted is never waited for: it keeps its slot until it ends, and a request for
 * the slot is QSF_PENDING until then. */
#ifndef QSF_FETCH_H
#define QSF_FETCH_H

#include "base/worker.h"
#include "weights/weights.h"

enum {
    QSF_STAGES = 2,           /* staging buffers: one is read to while the other is decompressed */
    QSF_READS_AT_ONCE = 16,   /* of a slot, whose unit may lie in thousands of pieces (model/share.h) */
    QSF_PARTS_AHEAD = 2,      /* slots for parts of the head: one is computed while the other is read */
    QSF_PART_SLOTS = QSF_PARTS_AHEAD + 2        /* of all shelves but that for units; see qsf_stream_init */
};

typedef struct qsf_fetch qsf_fetch;
typedef struct qsf_shelf qsf_shelf;
typedef struct qsf_slot qsf_slot;

typedef enum qsf_slot_state { QSF_SLOT_EMPTY, QSF_SLOT_READING, QSF_SLOT_READY } qsf_slot_state;

/* How long something took, in ns. */
typedef struct qsf_fetch_times {
    uint64_t read;            /* until its bytes were read; a thread counts from its last read on */
    uint64_t prepare;         /* everything after that, of which: */
    qsf_unit_times unit;
} qsf_fetch_times;

/* A request. */
typedef struct qsf_want {
    qsf_unit_id id;
    uint64_t    begin, end;   /* bytes of the unit, as stored */
    const qsf_tensor *tile;   /* a GGUF matrix that begins the part and becomes tiles; NULL: nothing does */
    uint32_t    expert;       /* on the shelf for experts, which of the layer's */
    bool        ahead;        /* needed later: evicts nothing that is needed earlier */
    uint32_t    now;          /* ahead, on the shelf for units: the layer that is being computed */
} qsf_want;

/* A rule for eviction. */
typedef struct qsf_evict {
    const char *name;
    /* The slot for `want`; -1: none is available now.  Never one with a read under way. */
    int32_t (*choose)(const qsf_fetch *f, const qsf_shelf *shelf, const qsf_want *want);
    /* Called when the slot has been handed over; NULL: the rule does not need it. */
    void    (*used)(qsf_shelf *shelf, qsf_slot *slot);
} qsf_evict;

struct qsf_shelf {
    const qsf_evict *evict;
    /* Makes the bytes in a slot ready to be handed over; strips: for qsf_ggml_to_tiles. */
    qsf_status (*make)(qsf_fetch *f, qsf_slot *slot, uint8_t *strips, qsf_pool *pool, qsf_error *err);
    bool      threaded;       /* the thread, if there is one, ends the reads and calls make */
    uint32_t  first, n;       /* slots */
    uint64_t  clock;          /* of the rule */
    /* What has had its CRC compared: a byte for each unit, or for each expert as in slot_of, or a
     * bit for each chunk of the unit that the parts are of. */
    uint8_t  *checked;
    /* What a slot reads of one of its places in the file, as qsf_slot_extent; NULL: bytes
     * [begin, end) of the unit. */
    qsf_extent (*extent)(const qsf_fetch *f, const qsf_slot *slot, uint32_t i);
    /* [layers][per_layer] the slot that holds or reads an expert, -1: none; NULL: slots are looked
     * through. */
    int32_t  *slot_of;
    uint32_t  per_layer;
    uint64_t  n_read, bytes_read;       /* slots that began to be read, and their bytes */
};

struct qsf_slot {
    qsf_slot_state state;
    qsf_shelf  *shelf;
    bool        pinned;       /* keeps its unit for good */
    qsf_unit_id id;
    uint64_t    begin, end;   /* bytes of the unit that are in mem, or on the way */
    uint32_t    begun_in;     /* the batch in which its reads began, */
    uint32_t    requested_in; /* and in which it was last requested; */
    bool        requested;    /* it has not been handed over since */
    uint64_t    used;         /* when it was, by the shelf's clock */
    uint32_t    expert;       /* of the layer, if the shelf is for these */
    uint8_t    *mem;
    uint64_t    cap;
    qsf_job     job;          /* while it is given, all below is the thread's */
    int32_t     stage;        /* of the staging buffers, the one that its bytes go to; -1: none */
    uint64_t    begun, made;  /* when its reads began, and when they were over and it began to be made */
    qsf_fetch_times took;
    uint32_t    next;         /* of its places in the file, the one that is read next */
    qsf_read  **reads;        /* [max_reads] place i's is i % max_reads; NULL: none, or it has ended */
    qsf_tensor  tile;         /* of a part: what became tiles; data NULL: nothing did */
    qsf_weights *w;           /* of a unit; NULL for parts */
};

struct qsf_fetch {
    const qsf_source *source;
    const qsf_platform *mem;  /* whose memory it takes */
    uint32_t   n_slots, max_slots, max_reads;
    qsf_slot  *slots;
    qsf_read **reads;         /* [max_slots][max_reads] */
    uint32_t   n_weights;
    qsf_weights *weights;     /* [n_weights] of the slots for units */
    qsf_shelf  units;
    int32_t   *slot_of;       /* [n_units] the slot that holds or reads the unit, -1: none */
    /* Staging for units that cannot be read in place; NULL if none needs it.  raw is used while
     * one is made. */
    uint8_t   *stored[QSF_STAGES], *raw;
    uint64_t   stored_cap, raw_cap;
    uint32_t   n_stages;
    int32_t    staging[QSF_STAGES];     /* slot whose bytes go to stored[i], -1: none */
    qsf_pool  *pool;          /* shares what the caller makes; NULL: the caller alone */
    uint8_t   *strips;        /* [threads + 1] 16 rows of a GGUF matrix; the last is the reading thread's */
    uint64_t   strips_cap, strip_cap;
    qsf_worker *worker;       /* NULL: the caller does everything */
    uint64_t   read_until;    /* the thread's: when the reads of its last job were over */
    uint32_t   batch;         /* counts them: the context's to change */
    bool       check_every;   /* compare CRCs each time */
    bool       first;         /* units are made of their first pieces; see refine.h */
    bool       shared;        /* layers are without those experts that can be read alone */
    bool       lut;           /* layers' matrices are looked up, if they can be */
    uint64_t   bytes_read, ns_wait;
    uint64_t   ns_own;        /* of ns_prepare, what the caller did itself */
    qsf_fetch_times took;
    qsf_record_fn record;     /* NULL: records were not requested */
    void      *record_user;
    uint32_t   record_thread; /* the thread's number in them */
    float      quality;       /* below 1 layers are left out, see layers.h; qsf_fetch_init sets 1 */
    const uint8_t *elsewhere; /* [n_layers] not 0: an executor has the weights for good; NULL: none */
    const uint8_t *left_out;  /* [n_layers] not 0: left out in any case, for measuring it; NULL: none */
};

/* ---- life ---- */

/* Whether this host has a thread that turns the bytes read into weights during computation. */
bool       qsf_fetch_threaded(const qsf_source *s);

/* Whether a slot keeps its unit for good, and which; else units pass through it. */
typedef struct qsf_pin { uint32_t pinned : 1, kind : 7, number : 24; } qsf_pin;
static inline qsf_pin qsf_pin_to(qsf_unit_id id)
{
    return (qsf_pin){ .pinned = 1, .kind = (unsigned)id.kind & 0x7f, .number = id.number & 0xffffff };
}
static inline qsf_unit_id qsf_pin_unit(qsf_pin pin)
{
    return (qsf_unit_id){ (qsf_unit_kind)pin.kind, pin.number };
}

/* The slots for units, and what making them needs. */
typedef struct qsf_fetch_plan {
    uint32_t        n_slots;
    const uint64_t *caps;     /* [n_slots] bytes of each */
    const qsf_pin  *pins;     /* [n_slots] */
    uint64_t        stored, raw;
    uint32_t        n_stages; /* buffers of stored bytes each */
    uint32_t        n_experts;        /* slots for experts, a shelf of their own */
    uint64_t        expert_cap;       /* bytes of each */
} qsf_fetch_plan;
/* Bytes of a fetch besides slots and staging, including the thread; and of its staging buffers. */
uint64_t   qsf_fetch_tables(const qsf_source *s, uint32_t n_slots, uint32_t n_threads);
uint64_t   qsf_fetch_staging(const qsf_fetch_plan *plan);
/* f must not move. */
qsf_status qsf_fetch_init(qsf_fetch *f, const qsf_source *s, const qsf_platform *mem,
                          const qsf_fetch_plan *plan, qsf_pool *pool, qsf_error *err);
/* Bytes of tables for each slot for an expert. */
uint64_t   qsf_fetch_expert_table(const qsf_source *s);
/* Adds a shelf of n slots of cap bytes for parts or experts; the caller has set its members except
 * first and n.  At most QSF_PART_SLOTS for parts in all. */
qsf_status qsf_fetch_add_shelf(qsf_fetch *f, qsf_shelf *shelf, uint32_t n, uint64_t cap, qsf_error *err);
/* Ends what runs on a shelf and forgets what it holds. */
void       qsf_fetch_drop(qsf_fetch *f, const qsf_shelf *shelf);
/* Starts the thread, on a host that has one. */
qsf_status qsf_fetch_start_thread(qsf_fetch *f, qsf_error *err);
void       qsf_fetch_done(qsf_fetch *f);        /* ends running reads; accepts a partly built one */

/* ---- fetching ---- */

/* Starts to read what is wanted if a slot is free for it.  Does nothing if it is in memory or being
 * read. */
qsf_status qsf_fetch_start(qsf_fetch *f, qsf_shelf *shelf, const qsf_want *want, qsf_error *err);
/* *slot has what is wanted, until the next start or get on its shelf.  QSF_PENDING: it is being
 * read (the read is started if it was not).  wait: does not return QSF_PENDING. */
qsf_status qsf_fetch_get(qsf_fetch *f, qsf_shelf *shelf, const qsf_want *want, bool wait,
                         const qsf_slot **slot, qsf_error *err);
/* The same for a whole unit. */
qsf_want   qsf_want_unit(const qsf_source *s, qsf_unit_id id);
qsf_status qsf_fetch_unit(qsf_fetch *f, qsf_unit_id id, bool wait, const qsf_weights **w, qsf_error *err);
/* Takes back what the thread has done, and what a batch before this one has left: its slots and
 * staging are free. */
void       qsf_fetch_collect(qsf_fetch *f, qsf_shelf *shelf);

/* Byte `at` of the unit, which a ready slot for parts holds. */
static inline const uint8_t *qsf_slot_at(const qsf_slot *s, uint64_t at) { return s->mem + (at - s->begin); }
/* The same memory, to be written: of weights in a slot that no thread works on; else NULL. */
uint8_t   *qsf_fetch_writable(const qsf_fetch *f, const void *weights);
/* The caller has waited for a read by itself, this long. */
void       qsf_fetch_waited(qsf_fetch *f, uint64_t ns);

#endif
