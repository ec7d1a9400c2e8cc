/* The engine's thread: jobs in, events out.
 * SPDX-License-Identifier: MIT */
#include "engine_own.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- jobs ---- */

void serve_turn(const serve_request *r, qsf_turn_options *o)
{
    qsf_turn_defaults(o);
    o->stops = r->stops;
    o->stop_lengths = r->stop_lengths;
    o->n_stops = r->n_stops;
    o->n_stops_shown = r->show_stops ? r->n_stops : 0;
    o->ignore_end = r->ignore_end;
    o->min_tokens = r->min_tokens;
    o->reasoning_budget = r->reasoning_budget;
    o->logprobs = (int32_t)r->logprobs;
    if (r->best_of > r->n && o->logprobs < 0) o->logprobs = 0;
}

bool serve_job_prepare(serve_job *j)
{
    j->branches = calloc(j->n_branches, sizeof *j->branches);
    for (unsigned i = 0; j->branches && i < j->n_branches; i++)
        j->branches[i] = (serve_branch){ .job = j, .index = i, .seq = -1, .disk = -1 };
    return j->branches != NULL;
}

bool serve_engine_submit(serve_engine *e, serve_job *j)
{
    pthread_mutex_lock(&e->lock);
    const uint64_t wait = metric_get(&e->metrics->waiting) + metric_get(&e->metrics->embedding_requests)
                          + e->n_jobs;
    /* What the free slots will take does not wait. */
    const uint64_t run = metric_get(&e->metrics->running);
    const uint64_t free_slots = run < e->o.slots ? e->o.slots - run : 0;
    const bool fits = wait + j->n_branches <= e->o.queue + free_slots;
    if (fits) {
        *e->jobs_end = j;
        e->jobs_end = &j->next;
        e->n_jobs += j->n_branches;
        pthread_cond_signal(&e->changed);
    }
    pthread_mutex_unlock(&e->lock);
    return fits;
}

void serve_engine_wake(serve_engine *e)
{
    pthread_mutex_lock(&e->lock);
    e->looks = true;
    pthread_cond_signal(&e->changed);
    pthread_mutex_unlock(&e->lock);
}

/* Takes over submitted jobs; waits for one if there is nothing else to do. */
static void engine_take(serve_engine *e, bool wait)
{
    pthread_mutex_lock(&e->lock);
    while (wait && !e->jobs && !e->looks && !atomic_load(&e->ends)) pthread_cond_wait(&e->changed, &e->lock);
    for (serve_job *j = e->jobs, *next; j; j = next) {
        next = j->next;
        j->next = NULL;
        scheduler_add(&e->schedule, j);
    }
    e->jobs = NULL;
    e->jobs_end = &e->jobs;
    e->n_jobs = 0;
    e->looks = false;
    pthread_mutex_unlock(&e->lock);
}

/* ---- the thread ---- */

static void *engine_main(void *arg)
{
    serve_engine *e = arg;
    bool busy = false;
    while (!atomic_load(&e->ends)) {
        uint64_t begin = serve_now(), steps = metric_get(&e->metrics->step_ns_total);
        const bool waited = !busy;
        engine_take(e, !busy);
        if (waited) begin = serve_now();
        scheduler_look(&e->schedule);
        if (e->o.turn) e->o.turn();
        busy = false;
        for (unsigned i = 0; i < e->o.steps && scheduler_step(&e->schedule); i++) {
            busy = true;
            engine_show_events(e);
        }
        engine_show(e);
        engine_show_events(e);
        steps = metric_get(&e->metrics->step_ns_total) - steps;
        metric_add(&e->metrics->schedule_ns_total, serve_now() - begin - steps);
    }
    return NULL;
}

void serve_engine_slot(const serve_engine *e, unsigned i, serve_slot *out)
{
    out->state = atomic_load_explicit(&e->slots[i].state, memory_order_relaxed);
    out->n_prompt = atomic_load_explicit(&e->slots[i].n_prompt, memory_order_relaxed);
    out->n_done = atomic_load_explicit(&e->slots[i].n_done, memory_order_relaxed);
    out->n_tokens = atomic_load_explicit(&e->slots[i].n_tokens, memory_order_relaxed);
}

const serve_facts *serve_engine_facts(const serve_engine *e) { return &e->facts; }

static void engine_wake(void *engine) { serve_engine_wake(engine); }

/* Bytes of memory for sequences on their way to or from the disk. */
static uint64_t engine_staging(const serve_engine_options *o)
{
    const uint64_t most = (uint64_t)256 << 20, part = o->context.ram_budget / 16;
    return !o->cache_disk ? 0 : part && part < most ? part : most;
}

/* The context's options: it has a sequence for each slot and each sequence that is kept, and logits
 * for each slot and for guesses. */
static void engine_asks(serve_engine_options *o)
{
    enum { FEW = 8, MANY = 32 };        /* rows: the kernels read weights once for FEW */
    const unsigned all = o->slots * (1 + o->draft), most = o->context.ram_budget ? MANY : FEW;
    if (o->context.head != QSF_HEAD_EXACT) o->draft = 0;        /* it depends on the rows of a batch */
    o->context.n_seqs = o->slots + o->kept + embed_seqs(&o->context);
    o->context.n_logits = o->slots;
    if (o->draft && o->slots < most) o->context.n_logits = all < most ? all : most;
    if (o->context.n_batch < o->context.n_logits) o->context.n_batch = o->context.n_logits;
    if (o->context.ram_budget) o->context.ram_budget -= engine_staging(o);
}

/* The same, for a model.  *more: bytes that are not the context's. */
static qsf_status engine_plan(serve_engine_options *o, qsf_model *m, qsf_context_options *own,
                              uint64_t *more, qsf_error *err)
{
    uint64_t drafts;
    *more = engine_staging(o);
    engine_asks(o);
    const qsf_status st = drafter_plan(o, m, own, &drafts, err);
    *more += drafts;
    return st;
}

qsf_status serve_engine_context(qsf_model *m, const serve_engine_options *o, qsf_context_options *out,
                                uint64_t *more, qsf_error *err)
{
    serve_engine_options asked = *o;
    qsf_context_options own;
    const qsf_status st = engine_plan(&asked, m, &own, more, err);
    *out = asked.context;
    return st;
}

/* Connects the context to the layers after its own, which may still hold another context's
 * sequences. */
static bool engine_behind(serve_engine *e, qsf_error *err)
{
    const qsf_behind *b = e->o.behind;
    if (!b) return true;
    for (uint32_t s = 0; s < e->o.context.n_seqs; s++) {
        b->back(b->user, (qsf_seq)s, 0);
        if (b->adapters) (void)b->adapters(b->user, (qsf_seq)s, NULL, 0);
    }
    err->status = qsf_context_set_behind(e->context, b);
    if (err->status) snprintf(err->text, sizeof err->text, "%s", qsf_last_error(e->context));
    return !err->status;
}

/* The sequences of --cache-file. */
static void engine_take_kept(serve_engine *e, uint32_t n_ctx)
{
    qsf_error err;
    const unsigned n = cache_file_load(&e->schedule.pool, e->o.cache_file, n_ctx, &err);
    if (err.status && err.status != QSF_E_FULL)
        fprintf(stderr, "%s: %u cached sequences are loaded; the next one is refused, and the rest of the "
                "file is ignored: %s\n", e->o.cache_file, n, err.text);
}

static void engine_device(serve_engine *e)
{
    qsf_device_use u = { .size = sizeof u };
    if (qsf_context_device(e->context, &u) || !u.n_layers) return;
    snprintf(e->facts.device, sizeof e->facts.device, "%.100s, layers %u to %u%s", u.name, (unsigned)u.first,
             (unsigned)(u.first + u.n_layers - 1), u.head ? " and the head" : "");
}

static qsf_status engine_make(serve_engine *e, qsf_model *m, qsf_error *err)
{
    qsf_context_options *o = &e->o.context;
    return e->o.make ? e->o.make(e->o.make_user, m, o, &e->context, err)
        : qsf_context_new(m, o, &e->context, err);
}

static bool engine_context(serve_engine *e, qsf_model *m, qsf_error *err)
{
    qsf_plan plan = { .size = sizeof plan };
    qsf_model_info info = { .size = sizeof info };
    qsf_context_options own;
    uint64_t more;
    const disk_options disk = { .dir = e->o.cache_disk_dir, .limit = e->o.cache_disk,
                                .staging = engine_staging(&e->o), .metrics = e->metrics,
                                .wake = engine_wake, .user = e };
    qsf_model_get_info(m, &info);
    if (engine_plan(&e->o, m, &own, &more, err)) return false;
    if (engine_make(e, m, err)) return drafter_explain(&e->o, more - disk.staging, err), false;
    if (!engine_behind(e, err)) return false;
    if (drafter_begin(&e->drafter, &e->o, e->context, &own, err)) return false;
    qsf_context_get_plan(e->context, &plan);
    e->facts = (serve_facts){ .n_ctx = plan.n_ctx, .n_seq = plan.n_ctx, .n_batch = plan.n_batch,
                              .slots = e->o.slots, .planned = plan.total + more };
    engine_device(e);
    /* Beyond its training length a model's answers make no sense. */
    if (info.n_ctx_train && info.n_ctx_train < plan.n_ctx) e->facts.n_seq = info.n_ctx_train;
    if (plan.kv_window) e->facts.n_seq = 1u << 24;
    e->facts.whole = info.encoder;
    if (info.encoder && plan.n_batch < e->facts.n_seq) e->facts.n_seq = plan.n_batch;
    if (!scheduler_begin(&e->schedule, e->context, &e->o, e, e->metrics, err)
        || !seq_pool_disk(&e->schedule.pool, &disk, err)) return false;
    e->schedule.n_seq = e->facts.n_seq;
    e->schedule.drafter = &e->drafter;
    if (e->o.cache_file && !cache_file_ours(e->o.cache_file)) {
        fprintf(stderr, "%s: not a file of cached sequences; it is left unchanged, and nothing will be "
                "saved: delete it, or give --cache-file another name\n", e->o.cache_file);
        e->o.cache_file = NULL;
    }
    if (e->o.cache_file) engine_take_kept(e, plan.n_ctx);
    return true;
}

serve_engine *serve_engine_new(qsf_model *m, const serve_engine_options *o, serve_metrics *metrics,
                               int wake_fd, qsf_error *err)
{
    serve_engine *e = calloc(1, sizeof *e);
    *err = (qsf_error){ .status = QSF_E_MEMORY, .text = "out of memory" };
    if (!e) return NULL;
    e->o = *o;
    e->metrics = metrics;
    e->wake_fd = wake_fd;
    e->jobs_end = &e->jobs;
    pthread_mutex_init(&e->lock, NULL);
    pthread_cond_init(&e->changed, NULL);
    e->ring = calloc(1, RING_BYTES);
    e->slots = calloc(o->slots, sizeof *e->slots);
    if (e->ring && e->slots && engine_context(e, m, err))
        e->started = !pthread_create(&e->thread, NULL, engine_main, e);
    if (e->started) return e;
    serve_engine_free(e);
    return NULL;
}

void serve_engine_free(serve_engine *e)
{
    if (!e) return;
    atomic_store(&e->ends, true);
    if (e->started) {
        serve_engine_wake(e);
        pthread_join(e->thread, NULL);
        if (e->o.cache_file && !cache_file_save(&e->schedule.pool, e->o.cache_file))
            fprintf(stderr, "%s: the cached sequences could not be written\n", e->o.cache_file);
    }
    scheduler_end(&e->schedule);
    drafter_end(&e->drafter);
    qsf_context_free(e->context);
    pthread_cond_destroy(&e->changed);
    pthread_mutex_destroy(&e->lock);
    free(e->ring);
    free(e->slots);
    free(e);
}
