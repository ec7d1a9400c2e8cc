/* The models by name: which are loaded, which are unloaded, and the thread that does both.
 * SPDX-License-Identifier: MIT
 *
 * The loader handles one model at a time, so memory is counted reliably: with a budget, a model is
 * loaded when the memory that it needs is free alongside the others.  Idle models are unloaded to
 * make room, the least recently used first.  If all others are busy, the model waits for them; when
 * it has waited for long, one of them takes no new jobs until it is unloaded. */
#include "front.h"

#include "models_own.h"
#include "system.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Time until a failed model is tried again; time that a model waits for others to become idle. */
static const uint64_t models_retry_ns = 2000000000, models_patience_ns = 3000000000;

/* ---- one model, on the loader's thread ---- */

static void models_log(void *user, qsf_log_level level, const char *line)
{
    const serve_settings *set = user;
    if (level <= QSF_LOG_WARN || (!set->quiet && level == QSF_LOG_INFO)) fprintf(stderr, "%s\n", line);
}

static void model_unload(model_entry *m)
{
    serve_engine_free(m->engine);
    m->engine = NULL;
    lora_list_close(&m->adapters);
    grammar_store_free(m->grammars);
    m->grammars = NULL;
    qsf_model_close(m->drafts);
    qsf_model_close(m->model);
    m->model = m->drafts = NULL;
    metrics_rest(&m->metrics);
}

/* What the model would take if it were alone.  QSF_PENDING: that is more than room. */
static qsf_status model_fit(model_list *l, model_entry *m, uint64_t room, qsf_error *err)
{
    const uint64_t budget = l->set->engine.context.ram_budget;
    uint64_t more;
    qsf_context_options co;
    qsf_plan plan = { .size = sizeof plan };
    if (!budget || room == budget) return QSF_OK;
    serve_engine_options alone = m->options;
    alone.context.ram_budget = budget;
    qsf_status st = serve_engine_context(m->model, &alone, &co, &more, err);
    if (st || (st = qsf_context_plan(m->model, &co, &plan, err))) return st;
    m->need = plan.total + more;
    return m->need > room ? QSF_PENDING : QSF_OK;
}

/* Detects an unknown template name at load. */
static qsf_status model_template(const model_list *l, const model_entry *m, qsf_error *err)
{
    char stop[64];
    size_t len;
    qsf_chat_options o;
    qsf_chat_defaults(&o);
    o.chat_template = l->set->template_name;
    if (qsf_chat_stop_text(m->model, &o, stop, sizeof stop, &len, err) == QSF_E_NOT_FOUND) {
        const size_t n = strlen(err->text);
        snprintf(err->text + n, sizeof err->text - n, ", and no such file");
        return err->status = QSF_E_ARGUMENT;
    }
    *err = (qsf_error){ 0 };            /* a template that does not work fails its first request instead */
    return QSF_OK;
}

/* Checks that a sampler can be made with the server's settings. */
static qsf_status model_sampler(const model_list *l, const model_entry *m, qsf_error *err)
{
    const serve_defaults *d = &l->set->defaults;
    qsf_sampler *sampler = NULL;
    qsf_status st = qsf_sampler_new(m->model, &d->sampler, &sampler, err);
    if (!st && d->prepare) st = d->prepare(d->user, m->model, sampler, err);
    qsf_sampler_free(sampler);
    return st;
}

/* Opens what makes drafts: the model's own layer, or the draft model.  A draft model that fits only
 * some of several models makes no drafts for the others. */
static qsf_status model_drafts(const model_list *l, model_entry *m, qsf_model_options mo, qsf_error *err)
{
    const serve_engine_options *o = &m->options;
    const bool several = l->set->n_models > 1 || l->set->models_dir || l->set->hub;
    qsf_status st;
    mo.mtp = o->draft_mtp;
    mo.end_layer = 0;
    if (!o->draft_mtp && !o->draft_model) return QSF_OK;
    if ((st = qsf_model_open(o->draft_mtp ? m->path : o->draft_model, &mo, &m->drafts, err))) return st;
    if (o->draft_mtp || !(st = qsf_draft_model_check(m->model, m->drafts, err)) || !several) return st;
    fprintf(stderr, "%s: answers have no drafts: %s\n", m->name, err->text);
    qsf_model_close(m->drafts);
    m->drafts = NULL;
    *err = (qsf_error){ 0 };
    return QSF_OK;
}

/* QSF_PENDING: it needs more room, and m->need says how much. */
static qsf_status model_load(model_list *l, model_entry *m, uint64_t room, qsf_error *err)
{
    qsf_model_options mo;
    qsf_model_defaults(&mo);
    mo.io = l->set->io;
    mo.i2s_layout = l->set->i2s_layout;
    mo.end_layer = l->set->end_layer;
    mo.log = models_log;
    mo.log_user = (void *)(size_t)l->set;
    *err = (qsf_error){ 0 };
    qsf_status st = qsf_model_open(m->path, &mo, &m->model, err);
    if (!st) st = model_drafts(l, m, mo, err);
    m->options.drafts = m->drafts;
    if (!st) st = model_template(l, m, err);
    if (!st) st = model_sampler(l, m, err);
    if (!st) st = lora_list_open(&m->adapters, m->model, l->set->engine.context.f32, &m->adapter_room, err);
    if (m->adapter_room < l->set->engine.context.adapter_bytes)
        m->adapter_room = l->set->engine.context.adapter_bytes;
    m->options.context.adapter_bytes = m->adapter_room;
    if (!st) st = model_fit(l, m, room, err);
    if (!st && !(m->grammars = grammar_store_new(m->model, l->set->template_name, &m->metrics, l->wake_fd)))
        st = QSF_E_MEMORY;
    if (!st) {
        m->options.context.ram_budget = room;
        m->engine = serve_engine_new(m->model, &m->options, &m->metrics, l->wake_fd, err);
        if (!m->engine) st = err->status ? err->status : QSF_E_MEMORY;
    }
    err->status = st;
    if (st && !*err->text) snprintf(err->text, sizeof err->text, "%s", qsf_status_text(st));
    if (st) model_unload(m);
    return st;
}

static void adapter_read(const model_list *l, serve_adapter *a)
{
    const serve_link *link = l->set->link;
    if (!adapter_open(a, l->task->model, l->set->engine.context.f32) && link && link->sum)
        a->sum = link->sum(a->path);
}

static void *models_main(void *arg)
{
    model_list *l = arg;
    pthread_mutex_lock(&l->lock);
    while (!l->ends) {
        if (!l->task || l->done) {
            pthread_cond_wait(&l->changed, &l->lock);
            continue;
        }
        pthread_mutex_unlock(&l->lock);
        if (l->adapter) adapter_read(l, l->adapter);
        else if (l->drop) model_unload(l->task);
        else (void)model_load(l, l->task, l->room, &l->task->err);
        pthread_mutex_lock(&l->lock);
        l->done = true;
        (void)system_wake(l->wake_fd);                  /* full: a byte is there already */
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

/* ---- the loader, seen from the front ---- */

/* Derived from what the chat template mentions and the vocabulary contains. */
static unsigned model_abilities(const model_entry *m)
{
    const char *t = m->info.chat_template ? m->info.chat_template : "";
    unsigned found = infill_known(m->model) ? MODEL_INFILL : 0;
    if (strstr(t, "tools")) found |= MODEL_TOOLS;
    if (strstr(t, "enable_thinking") || strstr(t, "<think>") || strstr(t, "reasoning"))
        found |= MODEL_REASONING;
    return found;
}

static void model_learn(model_entry *m)
{
    m->info = (qsf_model_info){ .size = sizeof m->info };
    qsf_model_get_info(m->model, &m->info);
    snprintf(m->arch, sizeof m->arch, "%s", m->info.arch ? m->info.arch : "");
    m->info.arch = m->arch;
    m->n_ctx = serve_engine_facts(m->engine)->n_ctx;
    m->n_seq = serve_engine_facts(m->engine)->n_seq;
    m->abilities = model_abilities(m);
}

static void model_loaded(model_list *l, model_entry *m)
{
    if (m->err.status == QSF_PENDING) {
        m->state = MODEL_WANTED;
        return;
    }
    m->state = m->err.status ? MODEL_OFF : MODEL_READY;
    m->failed_ns = serve_now();
    if (m->err.status) {
        metric_add(&m->n_failed, 1);
        fprintf(stderr, "%s: %s could not be loaded: %s\n", m->name, m->path, m->err.text);
        struct stat file;
        if (m->named && stat(m->path, &file)) models_file(m, NULL);     /* removed: download it again */
        return;
    }
    metric_add(&m->n_loaded, 1);
    model_learn(m);
    m->taken = serve_engine_facts(m->engine)->planned;
    if (!l->set->engine.context.ram_budget) m->need = m->taken;
    if (!l->set->quiet) fprintf(stderr, "%s is loaded: %.1f MB\n", m->name, (double)m->taken / 1e6);
}

static void model_gone(model_list *l, model_entry *m)
{
    m->state = MODEL_OFF;
    m->closing = false;
    m->taken = 0;
    m->info.name = m->info.chat_template = NULL;        /* they were the model's */
    if (m->newer) models_file(m, m->newer);
    m->newer = NULL;
    m->err = (qsf_error){ 0 };
    if (!l->set->quiet) fprintf(stderr, "%s was unloaded\n", m->name);
}

static void loader_give(model_list *l, model_entry *m, bool drop, uint64_t room)
{
    m->state = drop ? MODEL_LEAVING : MODEL_LOADING;
    if (!l->started) l->started = !pthread_create(&l->thread, NULL, models_main, l);
    if (!l->started && drop) {
        model_unload(m);
        model_gone(l, m);
    } else if (!l->started) {
        m->err = (qsf_error){ .status = QSF_E_MEMORY, .text = "cannot start a thread" };
        model_loaded(l, m);
    } else {
        pthread_mutex_lock(&l->lock);
        l->task = m;
        l->drop = drop;
        l->room = room;
        l->done = false;
        pthread_cond_signal(&l->changed);
        pthread_mutex_unlock(&l->lock);
    }
}

bool models_read(model_list *l, model_entry *m, serve_adapter *a)
{
    if (!l->started) l->started = !pthread_create(&l->thread, NULL, models_main, l);
    if (l->task || !l->started) return false;
    pthread_mutex_lock(&l->lock);
    l->task = m;
    l->adapter = a;
    l->done = false;
    pthread_cond_signal(&l->changed);
    pthread_mutex_unlock(&l->lock);
    return true;
}

serve_adapter *models_look(model_list *l)
{
    if (!l->task) return NULL;
    pthread_mutex_lock(&l->lock);
    model_entry *m = l->done ? l->task : NULL;
    serve_adapter *a = m ? l->adapter : NULL;
    const bool drop = l->drop;
    if (m) l->task = NULL;
    if (m) l->adapter = NULL;
    pthread_mutex_unlock(&l->lock);
    if (!m) return NULL;
    if (!a && drop) model_gone(l, m);
    else if (!a) model_loaded(l, m);
    lora_list_sweep(&m->adapters);
    return a;
}

uint32_t models_adapter_number(model_list *l) { return l->n_adapters++; }

bool models_add_adapter(model_entry *m, serve_adapter *a) { return lora_list_add(&m->adapters, a); }

void models_drop_adapter(model_list *l, model_entry *m, serve_adapter *a)
{
    atomic_store(&a->gone, true);
    if (l->task != m) lora_list_sweep(&m->adapters);      /* else the loader may look at it */
    if (m->state == MODEL_READY) serve_engine_wake(m->engine);
}

/* ---- room ---- */

/* Bytes that are free for one more. */
static uint64_t models_room(const model_list *l)
{
    uint64_t room = l->set->engine.context.ram_budget;
    for (unsigned i = 0; i < l->n; i++) room -= l->entries[i].taken < room ? l->entries[i].taken : room;
    return room;
}

/* The memory that it is known to need; before that is known, its file's size. */
static uint64_t model_needs(const model_list *l, const model_entry *m)
{
    const uint64_t budget = l->set->engine.context.ram_budget;
    struct stat file;
    uint64_t need = m->need;
    if (!need && !stat(m->path, &file)) need = (uint64_t)file.st_size;
    return need < budget ? need : budget;
}

static bool models_fit(const model_list *l, const model_entry *m)
{
    unsigned n = 0;
    for (unsigned i = 0; i < l->n; i++) n += l->entries[i].state == MODEL_READY;
    if (!n) return true;
    if (l->set->models_max && n >= l->set->models_max) return false;
    return !l->set->engine.context.ram_budget || model_needs(l, m) <= models_room(l);
}

/* The least recently used model, of the idle ones or of all; NULL: none. */
static model_entry *models_oldest(model_list *l, bool idle)
{
    model_entry *old = NULL;
    for (unsigned i = 0; i < l->n; i++) {
        model_entry *m = &l->entries[i];
        if (m->state == MODEL_READY && !m->closing && !(idle && m->n_active) && (!old || m->used < old->used))
            old = m;
    }
    return old;
}

/* ---- downloads ---- */

enum { MODELS_DOWNLOADED = 4 };              /* most at once */

bool models_fetch(model_list *l, model_entry *m, download_kind kind, serve_error *e)
{
    unsigned n = 0;
    for (unsigned i = 0; i < l->n; i++) n += l->entries[i].download != NULL;
    if (n >= MODELS_DOWNLOADED)
        return serve_refuse(e, 429, "queue_full", "model", "%u models are being downloaded; try again later",
                            n);
    m->removes = kind == DOWNLOAD_REMOVE;
    m->download = download_new(l->set->hub, kind, m->named, l->wake_fd);
    return m->download || serve_refuse(e, 503, NULL, NULL, "out of memory for a download");
}

/* Takes over what a download has brought. */
static void model_fetched(model_list *l, model_entry *m)
{
    char *path;
    const bool removes = m->removes;
    const qsf_status st = download_free(m->download, &path, &m->got);
    m->download = NULL;
    m->kept = false;
    if (path && m->fetched && !strcmp(path, m->fetched)) free(path);
    else if (removes && !st) models_file(m, NULL);
    else if (st && m->state == MODEL_WANTED && !m->fetched) {
        m->err = m->got;
        model_loaded(l, m);
    } else if (path && m->state != MODEL_OFF && m->state != MODEL_WANTED) {
        free(m->newer);                      /* it has the other one open */
        m->newer = path;
    } else if (path) models_file(m, path);
}

static void models_fetch_wanted(model_list *l)
{
    for (unsigned i = 0; l->set->hub && i < l->n; i++) {
        model_entry *m = &l->entries[i];
        download_state now = { .over = false };
        serve_error e = { 0 };
        if (m->download) download_look(m->download, &now);
        if (now.over) {
            m->came = now;
            model_fetched(l, m);
        }
        if (m->state != MODEL_WANTED || !m->named || m->fetched) continue;
        if (m->download || models_fetch(l, m, DOWNLOAD_GET, &e)) m->kept = true;
    }
}

static bool same_file(const model_entry *a, const model_entry *b) { return !strcmp(a->path, b->path); }

bool models_busy(const model_list *l, const model_entry *m)
{
    for (unsigned i = 0; i < l->n; i++) {
        const model_entry *other = &l->entries[i];
        const bool rests = other->state == MODEL_OFF || other->state == MODEL_READY
            || other->state == MODEL_LEAVING;
        const bool busy = other->n_active || other->n_waiting || other->download || !other->named || !rests;
        if (busy && same_file(m, other)) return true;
    }
    return false;
}

bool models_let_go(model_list *l, const model_entry *m)
{
    bool gone = true;
    for (unsigned i = 0; i < l->n; i++) {
        model_entry *other = &l->entries[i];
        if (!same_file(m, other) || other->state == MODEL_OFF) continue;
        gone = false;
        if (other->state == MODEL_READY) other->closing = true;
    }
    return gone;
}

/* Closing models are unloaded first; then the model that has been wanted for longest is loaded. */
void models_go_on(model_list *l)
{
    model_entry *next = NULL, *old;
    bool closing = false;
    models_fetch_wanted(l);
    if (l->task) return;
    for (unsigned i = 0; i < l->n; i++) {
        model_entry *m = &l->entries[i];
        closing |= m->closing;
        if (m->closing && !m->n_active) {
            loader_give(l, m, true, 0);
            return;
        }
        if (m->state == MODEL_WANTED && !m->n_waiting) m->state = MODEL_OFF;
        if (m->state != MODEL_WANTED || m->download || (m->named && !m->fetched)) continue;
        if (!next || m->wanted < next->wanted) next = m;
    }
    if (!next) return;
    if (models_fit(l, next)) loader_give(l, next, false, models_room(l));
    else if ((old = models_oldest(l, true))) loader_give(l, old, true, 0);
    else if (!closing && serve_now() - next->wanted_ns > models_patience_ns
             && (old = models_oldest(l, false))) old->closing = true;
}

/* ---- asking ---- */

model_answer models_ask(model_list *l, model_entry *m, serve_error *e)
{
    m->used = ++l->uses;
    if (m->state == MODEL_READY && !m->closing) return MODEL_GO;
    if (m->state != MODEL_OFF) return MODEL_WAIT;
    if (m->err.status && serve_now() - m->failed_ns < models_retry_ns) {
        const bool memory = m->err.status == QSF_E_MEMORY || m->err.status == QSF_E_BUDGET;
        const bool unknown = m->named && m->err.status == QSF_E_NOT_FOUND;
        serve_refuse(e, memory ? 503 : unknown ? 404 : 500, "model_load_failed", "model",
                     "%.100s: %.200s could not be loaded: %s", m->name, m->path, m->err.text);
        return MODEL_FAIL;
    }
    m->state = MODEL_WANTED;
    m->wanted = l->uses;
    m->wanted_ns = serve_now();
    return MODEL_WAIT;
}

void models_spoilt(model_entry *m)
{
    m->closing = true;
}

void models_unload(model_list *l, model_entry *m)
{
    if (m->state != MODEL_READY) return;
    m->closing = true;
    models_go_on(l);
}

/* ---- begin and end ---- */

static bool models_fill(model_list *l)
{
    const serve_settings *set = l->set;
    for (unsigned i = 0; i < set->n_models; i++)
        if (!models_add(l, set->models[i].name, set->models[i].path)) return false;
    return true;
}

static bool models_fill_adapters(model_list *l)
{
    for (unsigned i = 0; i < l->set->n_loras; i++) {
        const serve_lora_file *file = &l->set->loras[i];
        model_entry *m = &l->entries[file->model];
        serve_adapter *a = adapter_new(file->name, file->path, file->scale, &m->metrics);
        if (a) a->id = models_adapter_number(l);
        if (a && l->set->link) a->gone_at = l->set->link->drop;
        if (!a || !models_add_adapter(m, a)) return adapter_let_go(a), false;
    }
    return true;
}

/* Scans the folder, and loads the first model of the command line. */
static bool models_begin(model_list *l, qsf_error *err)
{
    const serve_settings *set = l->set;
    model_entry *first = &l->entries[0];
    const char *other = set->default_model;
    *err = (qsf_error){ 0 };
    if (set->models_dir && !models_scan(l, err)) return false;
    if (other && !models_named(l, other, strlen(other))) {
        *err = (qsf_error){ .status = QSF_E_ARGUMENT };
        snprintf(err->text, sizeof err->text, "--default-model: no model is named \"%.100s\"", other);
        return false;
    }
    if (!set->n_models) return true;
    if (!set->quiet) fprintf(stderr, "loading %s\n", first->path);
    if (model_load(l, first, set->engine.context.ram_budget, err)) return false;
    model_loaded(l, first);
    return true;
}

model_list *models_new(const serve_settings *set, int wake_fd, qsf_error *err)
{
    model_list *l = calloc(1, sizeof *l);
    *err = (qsf_error){ .status = QSF_E_MEMORY, .text = "out of memory" };
    if (!l) return NULL;
    l->set = set;
    l->wake_fd = wake_fd;
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->changed, NULL);
    l->cap = set->n_models + (set->models_dir ? MODELS_IN_FOLDER : 0)
        + (set->hub ? MODELS_OF_HUB + MODELS_CACHED : 0);
    l->entries = calloc(l->cap, sizeof *l->entries);
    if (l->entries && models_fill(l) && models_fill_adapters(l) && models_begin(l, err)) return l;
    models_free(l);
    return NULL;
}

void models_stop(model_list *l)
{
    if (!l) return;
    if (l->started) {
        pthread_mutex_lock(&l->lock);
        l->ends = true;
        pthread_cond_signal(&l->changed);
        pthread_mutex_unlock(&l->lock);
        pthread_join(l->thread, NULL);
        l->started = false;
    }
    for (unsigned i = 0; i < l->n; i++) if (l->entries[i].download) download_stop(l->entries[i].download);
    for (unsigned i = 0; i < l->n; i++) {
        model_entry *m = &l->entries[i];
        serve_engine_free(m->engine);
        m->engine = NULL;
        char *path = NULL;
        if (m->download) download_free(m->download, &path, &m->got);
        free(path);
        m->download = NULL;
    }
}

void models_free(model_list *l)
{
    if (!l) return;
    for (unsigned i = 0; i < l->n; i++) {
        model_unload(&l->entries[i]);
        lora_list_free(&l->entries[i].adapters);
        free(l->entries[i].cache_file);
        free(l->entries[i].found);
        free(l->entries[i].named);
        free(l->entries[i].fetched);
        free(l->entries[i].newer);
    }
    pthread_cond_destroy(&l->changed);
    pthread_mutex_destroy(&l->lock);
    free(l->entries);
    free(l);
}
