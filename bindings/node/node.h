/* What the files of bindings/node share: an engine of the Node.js addon, its memory for JavaScript,
 * and the calls that are answered there.
 * SPDX-License-Identifier: MIT
 *
 * The addon does natively what a module of the npm package does in WebAssembly, and exports the
 * same functions (js/native.js).  An engine belongs to one environment of Node.js, that is one
 * thread; there may be several.  JavaScript sees no pointer: its addresses name blocks, and each
 * access is checked against them.  Nothing here hands memory to JavaScript (Electron forbids it):
 * bytes are copied. */
#ifndef QSF_NODE_H
#define QSF_NODE_H

#include "own.h"
#include "base/base.h"

#define NAPI_VERSION 8
#include <node_api.h>
#include "host_functions.h"

/* Bytes that JavaScript may read and write: what it allocated, or what a call lends it. */
typedef struct node_block {
    double    at;               /* the address of its first byte; never used again */
    size_t    len;
    uint8_t  *bytes;
    qsf_read *read;             /* that fills it; NULL: none */
    bool      is_own;           /* JavaScript allocated it */
} node_block;

/* Bytes one after another, written and then read. */
typedef struct node_list { uint8_t *bytes; size_t len, cap, at; } node_list;

/* What JavaScript does for an engine: js/transport.js has the functions, js/native.js the last
 * one. */
typedef enum node_import {
    NODE_OPEN, NODE_LENGTH, NODE_READ, NODE_CANCEL, NODE_SAVE, NODE_LOAD, NODE_PIECES, NODE_IMPORTS
} node_import;

typedef struct node_engine {
    struct node_engine *next;   /* of its environment */
    napi_env      env;
    napi_ref      imports;
    struct node_bound *bound;   /* of its functions */
    node_block   *blocks;       /* [n_blocks], by address */
    size_t        n_blocks, cap_blocks;
    double        next_at;
    uint32_t     *handles;      /* [n_handles], which it made and has not freed */
    size_t        n_handles, cap_handles;
    node_list     pieces;       /* that JavaScript has not taken */
    const _Atomic int32_t *watched;     /* two numbers in shared memory, which differ if JavaScript
                                           is awaited; NULL: none */
    qsf_platform  platform;     /* whose files JavaScript reads */
    bool          is_busy;      /* a call is under way, which JavaScript must not interrupt */
    bool          gives;        /* during that call JavaScript may take pieces */
    bool          is_over;      /* no call is answered any more */
    bool          has_files;    /* the system's own, which may be waited for */
} node_engine;

/* An argument of a call, in the form that its kind says. */
typedef union node_value { uint32_t u; int32_t i; double d; size_t n; void *p; } node_value;

enum { NODE_ARGS = 7 };
/* Kinds of arguments.  NODE_AT: an address of elements of this size, of which argument `count` has
 * the number.  NODE_LENT: of int32_t, as many as the sizes at the next argument say together. */
enum {
    NODE_HANDLE = 1, NODE_U32, NODE_I32, NODE_DOUBLE, NODE_SIZE,
    NODE_LIST,                  /* an address of strings that end in zero bytes; 0: NULL */
    NODE_TEXT,                  /* one of a string */
    NODE_LENT,
    NODE_AT_KIND
};
#define NODE_AT(size, count) (NODE_AT_KIND | (size) << 4 | (count) << 8)

typedef struct node_call {
    const char *name;
    uint16_t    kinds[NODE_ARGS];
    uint8_t     n;
    bool        makes;          /* the result is a new handle */
    double    (*run)(node_engine *e, const node_value *v);
} node_call;
typedef struct node_bound { node_engine *engine; const node_call *call; } node_bound;

/* ---- blocks.c ---- */
/* The address of a new block; 0: out of memory.  bytes NULL: they are allocated, and belong to the
 * block. */
double node_block_add(node_engine *e, uint8_t *bytes, size_t len);
/* Accepts any number; only those of this ownership are removed. */
void   node_block_remove(node_engine *e, double at, bool is_own);
/* The block of an address; NULL: none.  *offset: in it. */
node_block *node_block_at(node_engine *e, double at, size_t *offset);
/* len bytes at an address, aligned to `align`; NULL: they are not all in one block. */
uint8_t *node_bytes(node_engine *e, double at, size_t len, size_t align);
void     node_blocks_free(node_engine *e);

/* ---- files.c ---- */
/* The system's table, with files that JavaScript reads. */
void node_platform_init(node_engine *e);
/* JavaScript has ended the read of this block. */
bool node_read_end(node_engine *e, double at, int32_t status);
int32_t node_session_save(node_engine *e, uint32_t conversation);
int32_t node_session_load(node_engine *e, uint32_t conversation, double len);
int32_t node_adapter_load(node_engine *e, uint32_t adapter, const char *name, double len);

/* ---- pieces.c ---- */
/* As qsf_flat_step, of context, answers and n; after a batch the answers' pieces are kept, and more
 * batches follow, `most` in all, until JavaScript is needed or awaited.  After some milliseconds
 * its function pieces() takes those that there are; if it returns 1, batches follow. */
int32_t node_pieces(node_engine *e, const node_value *v);
/* Those that were kept, in an array: of each its answer's place in the list, the token, why the
 * answer ended or minus a status, the number of its events, and of each event the type, the text,
 * the call and its id.  NULL: JavaScript has an exception. */
napi_value node_pieces_taken(node_engine *e);

/* ---- addon.c ---- */
/* Calls one of the imports with numbers, or with a string; false: it threw, or cannot be called
 * now. */
bool node_js(node_engine *e, node_import which, const char *text, const double *given, size_t n,
             double *result);
/* Whether a handle is of this engine. */
bool node_has(const node_engine *e, uint32_t handle);
/* Frees a handle of this engine; accepts any number. */
void node_free(node_engine *e, uint32_t handle);
/* Repeats a step until it is done, bytes are missing, or some milliseconds are over. */
int32_t node_steps(node_engine *e, const node_value *v,
                   int32_t (*step)(const node_value *v));

/* ---- calls.c ---- */
extern const node_call node_calls[];
extern const size_t    node_n_calls;

#endif
