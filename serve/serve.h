/* The server: models over HTTP, with the APIs that existing clients use.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_SERVE_H
#define QSF_SERVE_H

#include "engine.h"

enum { SERVE_NAMES = 64, SERVE_NAME = 128 };      /* SERVE_NAME: bytes of a model's, with its end */
/* Strings of an option that may be given several times. */
typedef struct serve_names { const char *items[SERVE_NAMES]; size_t n; } serve_names;

/* How the processes of a job reach each other if several serve: rank 0 has the clients. */
typedef struct serve_link {
    int      rank, ranks;
    /* Bytes are copied, and come in the order that they went. */
    void   (*send)(int to, const void *bytes, size_t len);
    /* The next message of a rank, which is aligned for any type and valid until the next call; 0:
     * no message. */
    size_t (*receive)(int from, const void **bytes);
    uint64_t (*sum)(const char *path);       /* of the bytes of an adapter's file or directory, from any
                                              * thread; 0: they cannot be read.  NULL: it is alone */
    /* If other processes have the layers after this one's (engine.behind), else NULL.  load: they
     * shall read an adapter, by its path within lora_dir, if its bytes have this sum; the engine's
     * next turn has them do so.  loaded: whether they have answered, and how. */
    void   (*load)(uint32_t id, const char *path, uint64_t sum);
    bool   (*loaded)(uint32_t id, qsf_error *err);
    void   (*drop)(uint32_t id);             /* its last holder let it go; from any thread */
    void   (*meet)(void);                    /* waits until all ranks have come here; NULL: it is alone */
    void   (*fail)(const char *format, ...) SERVE_PRINTF(1, 2);      /* ends all of them; does not return */
    void   (*end)(void);                     /* the last call, of all */
} serve_link;

/* A served model.  name may hold several names, "a,b"; answers use the first. */
typedef struct serve_model { char name[SERVE_NAME]; const char *path; } serve_model;

/* An adapter that is loaded with its model, which is a place among the models. */
typedef struct serve_lora_file {
    char     name[SERVE_NAME];
    char    *path;
    float    scale;
    unsigned model;
} serve_lora_file;

/* What a download asks and tells on its way. */
typedef struct serve_hub_watch {
    bool (*stopped)(void *user);             /* true: it ends soon */
    /* Bytes of a file that are here; sha256: in hexadecimal digits, "" if the hub has no sum. */
    void (*came)(void *user, const char *sha256, uint64_t done, uint64_t total);
    void  *user;
} serve_hub_watch;

/* Models that requests name and that are downloaded then.  find and remove are called from several
 * threads. */
typedef struct serve_hub {
    /* Whether a request's text can be the name of such a model. */
    bool       (*named)(const char *text);
    /* The path of the model with this name, downloaded if it is not there.  The caller frees
     * *path. */
    qsf_status (*find)(const void *user, const char *name, const serve_hub_watch *w, char **path,
                       qsf_error *err);
    /* Removes the model's file from the cache.  QSF_E_NOT_FOUND: it is not there */
    qsf_status (*remove)(const void *user, const char *name, qsf_error *err);
    /* Calls fn with each model of the cache, by a name as requests have it. */
    void       (*list)(const void *user, void (*fn)(void *ctx, const char *name, const char *path),
                       void *ctx);
    const void *user;
} serve_hub;

typedef struct serve_settings {
    serve_model    models[SERVE_NAMES];      /* the first one is loaded at the beginning */
    const char    *models_dir;               /* folder of more models; NULL: none */
    unsigned       n_models, models_max;     /* most that are loaded; 0: all */
    const serve_hub *hub;                    /* NULL: requests name the models above */
    const char    *default_model;            /* for unknown names; NULL: none */
    serve_lora_file loras[LORA_LIST];
    unsigned       n_loras;
    const char    *lora_dir;                 /* where clients may load adapters from; NULL: they may not */
    const char    *template_name;            /* of a chat template, or its source; NULL: the model's own */
    const char    *host;
    int            port;                     /* 0: any, which is printed */
    serve_names    keys, allowed_hosts, origins;       /* origins: of CORS, "*" for all */
    const char    *key_file;                 /* NULL: none.  One key a line; SIGHUP reads it again */
    serve_engine_options engine;
    serve_defaults defaults;
    unsigned       timeout_s;                /* the most of a request; 0: no limit */
    unsigned       drain_s;                  /* after SIGTERM */
    size_t         most_body;                /* bytes */
    unsigned       connections;
    qsf_io         io;
    qsf_i2s_layout i2s_layout;
    bool           quiet, log_requests;      /* log_requests: their texts, too */
    bool           log_json, verbose;        /* verbose: log ignored fields, too */
    double         ping_s;                   /* silence in a stream before a keep-alive; 0: none */
    bool           no_page;
    const serve_link *link;                  /* NULL: this process serves alone */
    uint32_t       end_layer;                /* with engine.behind: those from here on are elsewhere */
} serve_settings;

/* Serves until a signal ends it.  QSF_OK: it was asked to; else *err says why it could not. */
qsf_status serve_run(const serve_settings *set, qsf_error *err);

#endif
