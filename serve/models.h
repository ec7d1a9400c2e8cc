/* The models by name: loaded when they are asked for, dropped by least use.
 * SPDX-License-Identifier: MIT
 *
 * All of this is for the front's thread.  A thread of its own, the loader, opens and closes models,
 * one after the other, so that neither HTTP nor the answers of other models wait for that. */
#ifndef QSF_SERVE_MODELS_H
#define QSF_SERVE_MODELS_H

#include "downloads.h"
#include "grammars.h"
#include "serve.h"

typedef enum model_state {
    MODEL_OFF,                               /* not loaded; err says whether that was tried last */
    MODEL_WANTED,                            /* it waits for the loader, or for room */
    MODEL_LOADING,                           /* the loader has it */
    MODEL_READY,
    MODEL_LEAVING                            /* the loader has it */
} model_state;

/* Capabilities of a model besides completion. */
enum model_ability { MODEL_TOOLS = 1, MODEL_REASONING = 2, MODEL_INFILL = 4 };

typedef struct model_entry {
    char           name[SERVE_NAME];
    const char    *names;                    /* "a,b": the names that requests may use; the first is name */
    const char    *path;
    char          *cache_file;               /* NULL: none */
    char          *found;                    /* holds names and path; NULL: not of the folder */
    char          *named;                    /* holds the name, of a request or of the cache; NULL: not of
                                              * the hub */
    bool           listed;                   /* it is of the cache; hidden if another one has its file */
    char          *fetched;                  /* its file; NULL: it was not looked for yet, or in vain */
    char          *newer;                    /* replaces fetched when it is unloaded; NULL: nothing does */
    model_download *download;                /* under way; NULL: none */
    bool           removes;                  /* the download is a removal */
    bool           kept;                     /* the download is for a request, and does not end with it */
    download_state came;                     /* of the last download, at its end; its error: */
    qsf_error      got;
    bool           seen, missing;            /* seen: in the last scan; missing: its file is gone, or
                                              * another one took its name */
    serve_engine_options options;
    serve_metrics  metrics;                  /* since the server began, however often it was loaded */
    atomic_ullong  n_loaded, n_failed;
    /* while it is loaded */
    qsf_model     *model;
    qsf_model     *drafts;                   /* what makes drafts (drafter.h); NULL: not asked for */
    serve_engine  *engine;
    grammar_store *grammars;
    lora_list   adapters;                 /* read with it, and when a client asks for one */
    uint64_t       adapter_room;             /* bytes that its plan has for them */
    /* what was known of it when it was loaded last; n_ctx 0: it never was */
    qsf_model_info info;
    char           arch[32];
    uint32_t       n_ctx, n_seq;             /* positions of the context; of one sequence */
    unsigned       abilities;                /* bits of model_ability */
    uint64_t       need;                     /* bytes that it wants; 0: not known */
    /* the front's */
    model_state    state;
    bool           closing;                  /* takes no new jobs, and is unloaded after the last one */
    unsigned       n_active, n_waiting;      /* jobs that use it, jobs that wait for it */
    uint64_t       used, wanted, wanted_ns;  /* counted in uses */
    uint64_t       taken;                    /* bytes of the budget */
    qsf_error      err;                      /* of the last try to load it */
    uint64_t       failed_ns;
} model_entry;

typedef struct model_list model_list;

/* Makes the list and loads the first model.  wake_fd: where a byte is written when the loader has
 * done something, and by engines.  NULL: *err says why. */
model_list *models_new(const serve_settings *set, int wake_fd, qsf_error *err);
/* Ends the loader and all engines: afterwards no thread uses a job. */
void         models_stop(model_list *l);                     /* takes NULL */
void         models_free(model_list *l);                     /* takes NULL; after models_stop */

/* Maximum number of models in a folder. */
enum { MODELS_IN_FOLDER = 512 };

unsigned     models_count(const model_list *l);
/* Whether lists omit the model: its file is gone from the folder, and it is not loaded. */
bool         models_hidden(const model_entry *m);
/* Call before listing models: looks for changes in the folder and in the hub's cache. */
void         models_refresh(model_list *l);
model_entry *models_at(model_list *l, unsigned i);
/* Finds a model by name; NULL or "": the default model, or the first.  any: an unknown name gets
 * the default model, or the only one.  *adapter: the second part of "MODEL:ADAPTER", else NULL.  If
 * the name is unknown, the folder is scanned again.  NULL: *e lists the models. */
model_entry *models_find(model_list *l, const char *name, bool any, const char **adapter, serve_error *e);
/* Refuses the name of an adapter that the model does not have; NULL always. */
serve_adapter *models_no_adapter(const model_entry *m, const char *name, serve_error *e);

typedef enum model_answer { MODEL_GO, MODEL_WAIT, MODEL_FAIL } model_answer;
/* Asks for a model: it can be used, or it is on its way, or *e says why it cannot be loaded. */
model_answer models_ask(model_list *l, model_entry *m, serve_error *e);
/* Unloads the model after its last job; the next request loads it again. */
void         models_unload(model_list *l, model_entry *m);
/* Reading its file has failed: it goes, and is loaded again when it is asked for. */
void         models_spoilt(model_entry *m);
/* Gives the loader an adapter of a loaded model to read; false: it has something to do. */
bool         models_read(model_list *l, model_entry *m, serve_adapter *a);
/* Takes over what the loader has done.  Returns the adapter that it has read, or could not read
 * (its err says why); NULL: no adapter. */
serve_adapter *models_look(model_list *l);
/* An id for an adapter, which no other one had or gets. */
uint32_t     models_adapter_number(model_list *l);
/* The model has this adapter from now on.  false: it has too many. */
bool         models_add_adapter(model_entry *m, serve_adapter *a);
/* An adapter is not for new requests any more.  It stays for those that have it. */
void         models_drop_adapter(model_list *l, model_entry *m, serve_adapter *a);
/* Begins to download or remove the file of a model of the hub.  false: *e says why not. */
bool         models_fetch(model_list *l, model_entry *m, download_kind kind, serve_error *e);
/* Whether the model, or another one that has the same file, is in use, asked for or downloaded. */
bool         models_busy(const model_list *l, const model_entry *m);
/* Unloads all models that have this one's file.  Returns whether that is done. */
bool         models_let_go(model_list *l, const model_entry *m);
/* Gives the loader something to do, if it is idle and there is something. */
void         models_go_on(model_list *l);

#endif
