/* The server's engine over ranges of layers.
 * SPDX-License-Identifier: MIT
 *
 * Rank 0 is a server whose context has the first layers only; what a batch needs of the others the
 * engine's thread asks the next rank for.  Rows of prompts alone are not waited for: while they are
 * on their way, rank 0 computes the next ones. */
#include "serve_behind.h"

#include "job.h"
#include "link.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static job shared;

static qsf_status compute(void *user, const qsf_row *rows, size_t n, const float *states, size_t ld_states,
                          float *logits, size_t ld_logits)
{
    link_away(false);
    job_behind(user, rows, n, states, ld_states, logits, ld_logits);
    link_away(true);
    return QSF_OK;
}

static void back(void *user, qsf_seq s, uint32_t n)
{
    (void)user;
    job_back(s, n);
}

static void share(void *user, qsf_seq dst, qsf_seq src, uint32_t n)
{
    (void)user;
    job_share_seq(dst, src, n);
}

static qsf_status adapt(void *user, qsf_seq s, const qsf_adapter_use *uses, size_t n)
{
    job_adapter told[JOB_ADAPTERS];
    (void)user;
    for (size_t i = 0; i < n; i++) {
        qsf_adapter_info info = { .size = sizeof info };
        qsf_adapter_get_info(uses[i].adapter, &info);
        told[i] = (job_adapter){ info.number, uses[i].scale };
    }
    job_adapt(s, told, n);
    return QSF_OK;
}

static void end(void)
{
    job_end();
    link_end();
}

/* What this rank's layers have of the server's adapters, by their numbers; the plan counts them. */
static void adapters_read(job *j, const serve_settings *set)
{
    qsf_error err;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < set->n_loras; i++)
        if (job_adapter_open(j, i, set->loras[i].path, &bytes, &err)) link_fail("%s", err.text);
    if (j->context.adapter_bytes < bytes) j->context.adapter_bytes = bytes;
}

static void adapters_drop(job *j)
{
    for (uint32_t i = 0; i < j->n_adapters; i++) job_adapter_close(j, i);
    free(j->adapters);
    j->adapters = NULL;
    j->n_adapters = 0;
}

/* ---- adapters that come and go ---- */

/* A request of rank 0's HTTP thread, answered by its engine's thread, which owns the link. */
typedef struct load {
    struct load *next;
    uint32_t     id;
    uint64_t     sum;
    bool         drop, told;
    qsf_error    err;
    char         path[1024];
} load;

static struct { pthread_mutex_t lock; load *list; } loads = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* Appends to the list: requests are handled in order. */
static void load_ask(load own)
{
    load *l = malloc(sizeof *l), **at = &loads.list;
    if (!l) link_fail("out of memory");
    *l = own;
    pthread_mutex_lock(&loads.lock);
    while (*at) at = &(*at)->next;
    *at = l;
    pthread_mutex_unlock(&loads.lock);
}

static void adapter_load(uint32_t id, const char *path, uint64_t sum)
{
    load own = { .id = id, .sum = sum };
    snprintf(own.path, sizeof own.path, "%s", path);
    load_ask(own);
}

static void adapter_gone(uint32_t id) { load_ask((load){ .id = id, .drop = true }); }

/* Takes an entry from the list, or NULL.  id NULL: one that the ranks have not been told about yet;
 * else the one with this id, which they have answered. */
static load *load_take(const uint32_t *id)
{
    pthread_mutex_lock(&loads.lock);
    load **at = &loads.list;
    while (*at && (id ? !(*at)->told || (*at)->id != *id : (*at)->told)) at = &(*at)->next;
    load *l = *at;
    if (l) *at = l->next;
    pthread_mutex_unlock(&loads.lock);
    if (l) l->next = NULL;
    return l;
}

static bool adapter_loaded(uint32_t id, qsf_error *err)
{
    load *l = load_take(&id);
    if (!l) return false;
    *err = l->err;
    free(l);
    return true;
}

static void turn(void)
{
    for (load *l; (l = load_take(NULL));) {
        link_away(false);
        if (l->drop) job_drop_adapter(l->id);
        else job_load_adapter(l->id, l->path, l->sum, &l->err);
        link_away(true);
        l->told = true;
        if (!l->drop) load_ask(*l);
        free(l);
    }
}

/* What all ranks make their contexts with: the server's options, and of each the least. */
static void agree(job *j, const serve_settings *set)
{
    qsf_error err;
    uint64_t more;
    qsf_model_options mo;
    qsf_model_defaults(&mo);
    (void)serve_engine_context(NULL, &set->engine, &j->context, &more, &err);
    job_describe(j);
    job_split(j);
    mo.io = set->io;
    mo.i2s_layout = set->i2s_layout;
    mo.first_layer = j->first;
    mo.end_layer = j->end;
    if (qsf_model_open(j->path, &mo, &j->model, &err)) link_fail("%s", err.text);
    adapters_read(j, set);
    job_agree(j);
    j->n_batch = j->context.n_batch;
}

/* Computes until the job ends; signals are ignored, since rank 0 ends it. */
static void follow(job *j)
{
    qsf_error err;
    signal(SIGTERM, SIG_IGN);
    signal(SIGINT, SIG_IGN);
    if (qsf_context_new(j->model, &j->context, &j->c, &err)) link_fail("%s", err.text);
    job_follow(j);
    link_end();
    qsf_context_free(j->c);
    adapters_drop(j);
    qsf_model_close(j->model);
    exit(0);
}

void serve_behind_join(serve_settings *set, const serve_ranks_asked *a)
{
    static serve_link alone = { .ranks = 1, .fail = link_fail, .end = end };
    static qsf_behind behind = { .size = sizeof behind, .user = &shared, .compute = compute, .back = back,
                                 .share = share, .adapters = adapt };
    job *j = &shared;
    if (set->n_models > 1) link_fail("--pipeline is for one model");
    *j = (job){ .path = set->models[0].path, .check = a->check, .split = a->split };
    j->lora_dir = set->lora_dir;
    j->wire = !strcmp(a->wire, "f16") ? WIRE_F16 : !strcmp(a->wire, "q8") ? WIRE_Q8 : WIRE_F32;
    agree(j, set);
    link_watch(a->silent);
    if (link_rank) follow(j);
    link_away(true);                    /* a server is idle at times */
    adapters_drop(j);
    qsf_model_close(j->model);          /* the server opens it */
    set->link = &alone;
    set->engine.context.n_ctx = j->context.n_ctx;
    set->engine.context.n_batch = j->context.n_batch;
    set->engine.context.kv_type = j->context.kv_type;
    if (link_ranks == 1) return;
    set->end_layer = j->end;
    set->engine.behind = &behind;
    set->engine.turn = turn;
    alone.sum = job_adapter_sum;
    alone.load = adapter_load;
    alone.loaded = adapter_loaded;
    alone.drop = adapter_gone;
}
