/* Adapters (LoRA) of the models, and sets of them that answers have.
 * SPDX-License-Identifier: MIT
 *
 * The front's thread owns the lists.  The adapters themselves are shared: lists, jobs and the
 * sequences of engines hold them, and who lets go of one last frees it. */
#ifndef QSF_SERVE_LORA_LIST_H
#define QSF_SERVE_LORA_LIST_H

#include "metrics.h"

#include <qsf.h>

enum { ADAPTER_NAME = 128, LORA_LIST = 64, LORA_MOST = 8 };     /* LORA_MOST: of one sequence */

typedef struct serve_adapter {
    atomic_uint  holders;
    atomic_bool  gone;                     /* it was dropped: nothing is kept for it any more */
    uint32_t     id;                       /* of no other one, as long as the server runs */
    char         name[ADAPTER_NAME];
    char        *path;
    uint64_t     sum;                      /* of its files' bytes, if several ranks have it */
    float        scale;                    /* for requests that name it */
    float        everybody;                /* for requests that name no adapter: the front's */
    serve_metrics *metrics;                /* of its model */
    void       (*gone_at)(uint32_t id);    /* called after the last holder lets it go; may be NULL */
    qsf_adapter *adapter;                  /* NULL while its model is not loaded */
    qsf_adapter_info info;
    qsf_error    err;                      /* of the last try to read it */
} serve_adapter;

/* One that is held once, without its file.  NULL: out of memory. */
serve_adapter *adapter_new(const char *name, const char *path, float scale, serve_metrics *metrics);
void adapter_let_go(serve_adapter *a);                       /* takes NULL */
/* Reads its file, exactly for contexts of floats; and forgets what was read. */
qsf_status adapter_open(serve_adapter *a, qsf_model *m, bool exact);
void adapter_close(serve_adapter *a);

/* ---- the adapters of a model ---- */

typedef struct lora_list { serve_adapter *items[LORA_LIST]; unsigned n; } lora_list;

/* Takes one over, which has an id.  false: the list is full. */
bool lora_list_add(lora_list *l, serve_adapter *a);
/* Look among those that were not dropped; NULL: no adapter has this name, or id. */
serve_adapter *lora_list_named(const lora_list *l, const char *name);
serve_adapter *lora_list_numbered(const lora_list *l, uint64_t id);
/* Reads all files; *bytes: of memory.  If one fails, *err names it. */
qsf_status lora_list_open(lora_list *l, qsf_model *m, bool exact, uint64_t *bytes, qsf_error *err);
void lora_list_close(lora_list *l);
void lora_list_sweep(lora_list *l);                          /* lets those go that are gone */
void lora_list_free(lora_list *l);                           /* lets all go */

/* ---- sets ---- */

/* Begins with all zeros: without any. */
typedef struct serve_lora {
    uint64_t       key;                    /* the same for equal sets alone; 0: it is empty */
    unsigned       n;
    serve_adapter *adapters[LORA_MOST];    /* by id */
    float          scales[LORA_MOST];
} serve_lora;

/* Adds an adapter and holds it, unless the scale is 0.  false: the set is full. */
bool lora_add(serve_lora *s, serve_adapter *a, float scale);
void lora_copy(serve_lora *to, const serve_lora *from);      /* in the place of what it has */
void lora_empty(serve_lora *s);
bool lora_same(const serve_lora *a, const serve_lora *b);
bool lora_is_gone(const serve_lora *s);                      /* one of them was dropped */

#endif
