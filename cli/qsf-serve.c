/* qsf-serve: models over HTTP.  This file is the option table.
 * SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "devices.h"
#include "list.h"
#include "model_names.h"
#include "options.h"
#include "run.h"
#include "serve.h"
#include "serve_ranks.h"
#include "trace.h"

typedef struct serve_asked {
    common_settings common;
    const char *name, *host, *key_file, *cache_file, *cache_disk_dir, *pooling, *draft_model,
        *mpi_check, *mpi_wire, *split, *lora_dir, *models_dir, *default_model,
        *log_format;
    option_list models, keys, hosts, origins;
    model_settings hub;
    long long models_max, port, slots, kept, queue, step_rows, steps, session, timeout, drain, connections;
    double max_body, cache_disk, mpi_silent, ping;
    program_settings program;
    bool by_name, quiet, verbose, log_requests, no_page, mpi, pipeline, strict;
} serve_asked;

#define AT(member) offsetof(serve_asked, member)

static const option serve_model_rows[] = {
    OPTION_HEADING("model", "Models"),
    { OPTION_LIST, "-m --model", "[NAME=]FILE", AT(models), 0, 0, NULL,
      "QSF or GGUF file, or a name or URL (hf:OWNER/REPO:Q4_K_M), and its name for clients; may be "
      "repeated, and may also be given without -m; the first model is loaded at start, others on their "
      "first request", NULL },
    /* the second name gives QSF_MODEL_DIR: QSF_MODELS_DIR is a variable of the tests */
    { OPTION_TEXT, "--models-dir --model-dir", "DIR", AT(models_dir), 0, 0, NULL,
      "serve all models of a folder by name: .gguf and .qsf files, and subfolders that hold one; each is "
      "loaded on its first request", NULL },
    { OPTION_FLAG, "--models-by-name", NULL, AT(by_name), 0, 0, NULL,
      "let requests name any model of Hugging Face's hub (OWNER/REPO:Q4_K_M), which is then downloaded; for "
      "clients that you trust", NULL },
    { OPTION_TEXT, "-a --alias", "NAME[,NAME...]", AT(name), 0, 0, NULL,
      "names of a single model for clients", "its file name without .gguf or .qsf" },
    { OPTION_TEXT, "--default-model", "NAME", AT(default_model), 0, 0, NULL,
      "with several models: the one that answers requests for an unknown name", NULL },
    { OPTION_INT, "--models-max", "N", AT(models_max), 0, 64, NULL,
      "maximum number of loaded models; the least recently used one is unloaded; 0 for no limit", "0" },
};
static const option serve_lora_rows[] = {
    { OPTION_TEXT, "--lora-dir", "DIR", AT(lora_dir), 0, 0, NULL,
      "let clients load adapters from here, and unload them", NULL },
};
static const option serve_network_rows[] = {
    OPTION_HEADING("network", "Network"),
    { OPTION_TEXT, "--host", "NAME", AT(host), 0, 0, NULL,
      "address to listen on; may also be a name, or the path of a socket", "127.0.0.1" },
    { OPTION_INT, "--port", "N", AT(port), 0, 65535, NULL, "port to listen on; 0 for any free one", "8080" },
    { OPTION_LIST, "--api-key", "KEY", AT(keys), 0, 0, NULL,
      "require this key from clients; may be repeated", NULL },
    { OPTION_TEXT, "--api-key-file", "FILE", AT(key_file), 0, 0, NULL,
      "file with one such key per line; SIGHUP reloads it", NULL },
    { OPTION_LIST, "--allow-host", "NAME", AT(hosts), 0, 0, NULL,
      "accept this name in the Host header, besides localhost and addresses; may be repeated", NULL },
    { OPTION_LIST, "--cors", "ORIGIN", AT(origins), 0, 0, NULL,
      "accept requests from pages of this origin; * stands for any characters (chrome-extension://*, or "
      "* alone); may be repeated", NULL },
    { OPTION_NUMBER, "--sse-ping-interval", "S", AT(ping), -1, 3600, NULL,
      "send a keep-alive on a stream after this many silent seconds; 0 for never", "10" },
    { OPTION_FLAG, "--no-page", NULL, AT(no_page), 0, 0, NULL, "do not serve the chat page at /", NULL },
    { OPTION_INT, "--timeout", "S", AT(timeout), 0, 1e6, NULL,
      "maximum seconds for a request, including its wait in the queue; 0 for no limit", "600" },
    { OPTION_INT, "--drain", "S", AT(drain), 0, 1e6, NULL,
      "seconds that running answers get to finish after SIGTERM; then they fail", "30" },
    { OPTION_NUMBER, "--max-body", "MB", AT(max_body), 0.001, 1000, NULL, "maximum size of a request body",
      "8" },
    { OPTION_INT, "--connections", "N", AT(connections), 1, 100000, NULL, "maximum open connections",
      "4096" },

    OPTION_HEADING("requests", "Requests and caches"),
    { OPTION_INT, "-np --slots", "N", AT(slots), 1, 1024, NULL, "answers generated at once", "8" },
    { OPTION_INT, "--queue", "N", AT(queue), 0, 100000, NULL,
      "maximum queued answers; further requests get status 429", "256" },
    { OPTION_INT, "--cache-sequences", "N", AT(kept), 0, 2048, NULL,
      "sequences to cache for prompts that start the same way", "24" },
    { OPTION_TEXT, "--cache-file", "FILE", AT(cache_file), 0, 0, NULL,
      "save cached sequences to this file on exit, and load them at the next start", NULL },
    { OPTION_NUMBER, "--cache-disk", "MB", AT(cache_disk), 0, 1e9, NULL,
      "disk space for sequences evicted from memory; 0 for none", "0" },
    { OPTION_TEXT, "--cache-disk-dir", "DIR", AT(cache_disk_dir), 0, 0, NULL, "folder for that",
      "the system's folder for temporary files" },
    { OPTION_INT, "--session-time", "S", AT(session), 0, 1e9, NULL,
      "seconds to keep the sequence of a session_id from eviction", "600" },
    { OPTION_CHOICE, "--pooling", NULL, AT(pooling), 0, 0, "auto|mean|first|last",
      "how an embedding combines token vectors; auto is the model's own way, else the mean", "auto" },
    { OPTION_FLAG, "--strict", NULL, AT(strict), 0, 0, NULL,
      "reject requests with unknown fields instead of ignoring the fields", NULL },
    { OPTION_INT, "--step-rows", "N", AT(step_rows), 0, 65536, NULL,
      "prompt tokens to process per step while answers run; 0 for as many as double the step's time", "0" },
    { OPTION_INT, "--steps", "N", AT(steps), 1, 64, NULL,
      "steps between checks of the queue; more steps cost less work, but new requests wait longer", "1" },
};
static const option serve_draft_rows[] = {
    { OPTION_TEXT, "--draft-model", "FILE", AT(draft_model), 0, 0, NULL,
      "small model with the same vocabulary, or EAGLE 3 head, that drafts tokens; it stays in memory, within "
      "the budget",
      NULL },
};
static const option serve_rest_rows[] = {
    OPTION_HEADING("mpi", "Many machines (docs/many-machines.md)"),
    { OPTION_FLAG, "--mpi", NULL, AT(mpi), 0, 0, NULL,
      "under mpirun: each rank holds the whole model and answers a share of the requests", NULL },
    { OPTION_FLAG, "--pipeline", NULL, AT(pipeline), 0, 0, NULL,
      "with --mpi: each rank holds a range of one model's layers, for models too large for one machine",
      NULL },
    { OPTION_TEXT, "--split", "N,N,...", AT(split), 0, 0, NULL,
      "with --pipeline: number of layers on each rank", "by measured speed and memory" },
    { OPTION_CHOICE, "--mpi-wire", "TYPE", AT(mpi_wire), 0, 0, "f32|f16|q8",
      "with --pipeline: precision of the hidden states sent: exact (f32), or fewer bits", "f32" },
    { OPTION_CHOICE, "--mpi-check", "WHAT", AT(mpi_check), 0, 0, "some|all",
      "bytes of the files to compare between ranks: their start and samples of the rest, or all", "some" },
    { OPTION_NUMBER, "--mpi-silent", "SECONDS", AT(mpi_silent), 1, 3600, NULL,
      "treat a rank as dead after this long without a heartbeat, and end the job", "6" },

    OPTION_HEADING("about", "Logs, diagnostics and help"),
    { OPTION_FLAG, "-q --quiet", NULL, AT(quiet), 0, 0, NULL, "do not log requests", NULL },
    { OPTION_FLAG, "-v --verbose", NULL, AT(verbose), 0, 0, NULL,
      "log the ignored fields of each request", NULL },
    { OPTION_CHOICE, "--log-format", NULL, AT(log_format), 0, 0, "text|json", "format of the log", "text" },
    { OPTION_FLAG, "--log-requests", NULL, AT(log_requests), 0, 0, NULL, "also log the text of requests",
      NULL },
};
#undef AT

/* Defaults of a request's fields: those of OpenAI's API. */
static const option_default serve_defaults_of_requests[] = {
    { "--max-tokens", "-1", NULL }, { "--temperature", "1", NULL }, { "--top-k", "0", NULL },
    { "--top-p", "1", NULL }, { "--min-p", "0", NULL }, { "--repeat-penalty", "1", NULL },
    { "--draft", "-1", "0, or 7 with --draft-model or --draft-mtp" },
};
static const option_page serve_page = {
    .about = "Serves language models over HTTP: the APIs of OpenAI, Anthropic and Ollama.",
    .usage = "qsf-serve [options] MODEL...",
    .examples = "  qsf-serve model.gguf                  http://127.0.0.1:8080, with a chat page\n"
                "  qsf-serve --models-dir ~/models       all models of a folder\n"
                "  qsf-serve model.qsf --slots 16 --ctx-size 32768\n",
    .brief = "--model --models-dir --host --port --api-key --slots --ctx-size --threads --ram-budget "
             "--chat-template --lora-dir --verbose",
    .exit_codes = "0 ok, 1 failed, 2 usage, 3 bad model, 4 memory, 5 input or output",
};

/* The program's own rows and the shared ones, in the order of the help. */
enum { SERVE_PARTS = 14 };
static option_program serve_program(option_part *parts)
{
    const size_t base = offsetof(serve_asked, common);
    const option_part all[SERVE_PARTS] = {
        OPTION_PART(serve_model_rows, 0), model_names_options(offsetof(serve_asked, hub)),
        common_options(COMMON_LORA, base), OPTION_PART(serve_lora_rows, 0),
        OPTION_PART(serve_network_rows, 0), common_options(COMMON_TEMPLATE, base),
        common_options(COMMON_ANSWER, base), common_options(COMMON_SAMPLING, base),
        common_options(COMMON_MEMORY, base), common_options(COMMON_SPEED, base),
        OPTION_PART(serve_draft_rows, 0),
        common_options(COMMON_DEVICE, base + offsetof(common_settings, gpu)),
        OPTION_PART(serve_rest_rows, 0), common_options(COMMON_PROGRAM, offsetof(serve_asked, program)),
    };
    memcpy(parts, all, sizeof all);
    return (option_program){ parts, SERVE_PARTS, serve_defaults_of_requests,
                             sizeof serve_defaults_of_requests / sizeof serve_defaults_of_requests[0], "QSF_",
                             "qsf-serve", &serve_page };
}

/* OWNER/REPO...: Ollama's clients put the hub's host before it. */
static const char *serve_hub_bare(const char *text)
{
    static const char *const hosts[] = { "hf.co/", "huggingface.co/" };
    for (int i = 0; i < 2; i++)
        if (!strncmp(text, hosts[i], strlen(hosts[i]))) return text + strlen(hosts[i]);
    return text;
}

/* Requests have no URLs and no paths, which would be this machine's network and files. */
static bool serve_hub_named(const char *text) { return model_names_valid(serve_hub_bare(text)); }

typedef struct serve_hub_asked {
    const model_settings *models;
    uint64_t budget;                /* bytes of --ram-budget, or 0 */
    bool     quiet;
} serve_hub_asked;

typedef struct serve_hub_call {
    const serve_hub_asked *asked;
    const serve_hub_watch *watch;
} serve_hub_call;

static bool serve_hub_stopped(void *user)
{
    const serve_hub_watch *w = ((serve_hub_call *)user)->watch;
    return w->stopped(w->user);
}

static void serve_hub_progress(void *user, const hub_progress *p)
{
    const serve_hub_call *call = user;
    call->watch->came(call->watch->user, p->sha256, p->done, p->total);
    if (p->what == HUB_BEGINS && !call->asked->quiet)
        fprintf(stderr, "downloading %s (%.1f MB)\n", p->name, (double)p->total / 1e6);
}

static void serve_hub_note(void *user, const char *line)
{
    (void)user;
    fprintf(stderr, "%s\n", line);
}

static void serve_hub_whole(const char *name, char out[SERVE_NAME + 4])
{
    name = serve_hub_bare(name);
    snprintf(out, SERVE_NAME + 4, hub_is_name(name) ? "%s" : "hf:%s", name);
}

static qsf_status serve_hub_find(const void *user, const char *name, const serve_hub_watch *w, char **path,
                                 qsf_error *err)
{
    const serve_hub_asked *a = user;
    serve_hub_call call = { a, w };
    char whole[SERVE_NAME + 4];
    hub_options o = model_names_hub(a->models, a->budget);
    o.progress = serve_hub_progress;
    o.note = serve_hub_note;
    o.stopped = serve_hub_stopped;
    o.user = &call;
    serve_hub_whole(name, whole);
    return hub_find(&o, whole, path, err);
}

static qsf_status serve_hub_remove(const void *user, const char *name, qsf_error *err)
{
    const serve_hub_asked *a = user;
    const hub_options o = { .address = a->models->hub, .memory = a->budget,
                            .memory_of = model_names_memory };
    char whole[SERVE_NAME + 4];
    uint64_t freed;
    serve_hub_whole(name, whole);
    return hub_remove_chosen(&o, whole, &freed, err);
}

typedef struct serve_hub_cached {
    void (*fn)(void *ctx, const char *name, const char *path);
    void  *ctx;
} serve_hub_cached;

static void serve_hub_entry(void *user, const hub_entry *e)
{
    const serve_hub_cached *to = user;
    if (!strncmp(e->name, "hf:", 3)) to->fn(to->ctx, e->name + 3, e->path);
}

static void serve_hub_list(const void *user, void (*fn)(void *ctx, const char *name, const char *path),
                           void *ctx)
{
    serve_hub_cached to = { fn, ctx };
    qsf_error err;
    (void)user;
    if (hub_list(serve_hub_entry, &to, &err)) fprintf(stderr, "%s\n", err.text);
}

static serve_names names_of(const option_list *list)
{
    serve_names names = { .n = list->n };
    for (size_t i = 0; i < list->n; i++) names.items[i] = list->items[i];
    return names;
}

static qsf_pooling pooling_named(const char *word)
{
    return !strcmp(word, "mean") ? QSF_POOL_MEAN : !strcmp(word, "first") ? QSF_POOL_FIRST
           : !strcmp(word, "last") ? QSF_POOL_LAST : QSF_POOL_NONE;
}

/* The path of "NAME=FILE", or of a file by whose name it goes.  name_out: room for SERVE_NAME
 * bytes.  what: it is, for people.  NULL: that it is none was reported. */
static const char *file_named(const char *text, char *name_out, const char *what)
{
    const char *equals = strchr(text, '='), *slash = strrchr(text, '/');
    FILE *file = equals ? fopen(text, "rb") : NULL;         /* a file may have such a name */
    const bool named = equals && !file && *text != '/' && *text != '.';
    const char *name = named ? text : slash ? slash + 1 : text, *path = named ? equals + 1 : text;
    const size_t len = named ? (size_t)(equals - text) : strlen(name);
    if (file) fclose(file);
    if (!len || len >= SERVE_NAME || !*path) {
        fprintf(stderr, "\"%s\" is not a valid %s: give NAME=FILE or FILE, with a name of at most %d bytes\n",
                        text, what,
                SERVE_NAME - 1);
        return NULL;
    }
    memcpy(name_out, name, len);
    name_out[len] = 0;
    char *end = named || strcmp(what, "model") ? NULL : strrchr(name_out, '.');
    if (end && end > name_out && (!strcmp(end, ".gguf") || !strcmp(end, ".qsf"))) *end = 0;
    return path;
}

/* All requested models; those on the command line replace the environment's.  Returns an exit code;
 * reports errors. */
static int models_of(const serve_asked *a, const option_list *rest, serve_settings *set)
{
    const char *variable = getenv("QSF_MODEL");
    const option_list *lists[] = { &a->models, rest };
    size_t i = variable && a->models.n && a->models.items[0] == variable && a->models.n + rest->n > 1;
    for (int k = 0; k < 2; k++, i = 0) {
        for (; i < lists[k]->n; i++) {
            if (set->n_models == SERVE_NAMES) {
                fprintf(stderr, "more than %d models were given\n", SERVE_NAMES);
                return EXIT_USAGE;
            }
            serve_model *m = &set->models[set->n_models];
            const char *text = lists[k]->items[i];
            const int code = model_names_find(&a->hub, &text, a->common.context.ram_budget);
            if (code) return code;
            if (!(m->path = file_named(text, m->name, "model"))) return EXIT_USAGE;
            for (unsigned j = 0; j < set->n_models; j++) {
                if (strcmp(set->models[j].name, m->name)) continue;
                fprintf(stderr, "two models are called \"%s\"; --model NAME=FILE gives names\n", m->name);
                return EXIT_USAGE;
            }
            set->n_models++;
        }
    }
    if (a->name && (set->n_models > 1 || a->models_dir)) {
        fputs("--alias is for one model; --model NAME=FILE names several\n", stderr);
        return EXIT_USAGE;
    }
    if (a->name) snprintf(set->models[0].name, SERVE_NAME, "%s", a->name);
    return EXIT_OK;
}

/* The model of an adapter's name, whose own part is left in it. */
static unsigned lora_model(const serve_settings *set, char *name)
{
    unsigned found = 0;
    size_t most = 0;                        /* names of models may have colons, too */
    for (unsigned i = 0; i < set->n_models; i++) {
        const size_t len = strlen(set->models[i].name);
        if (len < most || strncmp(name, set->models[i].name, len)) continue;
        if (name[len] != ':' || !name[len + 1]) continue;
        found = i;
        most = len + 1;
    }
    memmove(name, name + most, strlen(name + most) + 1);
    return found;
}

/* All requested adapters. */
static bool loras_of(const serve_asked *a, serve_settings *set)
{
    for (size_t i = 0; i < a->common.lora.n; i++) {
        serve_lora_file *file = &set->loras[set->n_loras++];
        char *text = adapter_path(a->common.lora.items[i], &file->scale);
        const char *path = text ? file_named(text, file->name, "adapter") : NULL;
        if (!path) return free(text), false;
        file->model = lora_model(set, file->name);
        memmove(text, path, strlen(path) + 1);
        file->path = text;
        for (unsigned k = 0; k + 1 < set->n_loras; k++) {
            if (set->loras[k].model != file->model || strcmp(set->loras[k].name, file->name)) continue;
            fprintf(stderr, "two adapters are called \"%s\"; --lora NAME=FILE gives names\n", file->name);
            return false;
        }
    }
    return true;
}

static void serve_asked_free(serve_settings *set, char *template_text)
{
    for (unsigned i = 0; i < set->n_loras; i++) free(set->loras[i].path);
    free(template_text);
}

/* Checks options that exclude each other and options that take JSON.  Returns an exit code; reports
 * errors. */
static int serve_check(const serve_asked *a, size_t n_models)
{
    const common_settings *c = &a->common;
    const char *why = NULL;
    if (c->template_kwargs && !serve_is_object(c->template_kwargs))
        why = "--chat-template-kwargs takes a JSON object, such as {\"enable_thinking\": false}";
    else if (a->models_dir && a->mpi)
        why = "--models-dir cannot be combined with --mpi: use --model FILE";
    else if (a->by_name && a->mpi)
        why = "--models-by-name cannot be combined with --mpi: use --model FILE";
    else if (a->models_dir && a->common.lora.n && !n_models)
        why = "--lora applies to models given with --model, not to those of --models-dir";
    else if (c->context.early_exit > 0 && (a->cache_file || a->cache_disk > 0))
        why = "--cache-file and --cache-disk need the state of all layers: they cannot be combined with "
              "--early-exit";
    else if (a->draft_model && c->draft_mtp)
        why = "--draft-model and --draft-mtp both make drafts: give one of them";
    if (!why) return EXIT_OK;
    fprintf(stderr, "%s\n", why);
    return EXIT_USAGE;
}

/* Joins the other ranks, if all can do what is asked. */
static int serve_join(const serve_asked *a, serve_settings *set, int argc, char **argv)
{
    const serve_ranks_asked asked = { .check = a->mpi_check, .silent = a->mpi_silent, .split = a->split,
                                      .wire = a->mpi_wire, .pipeline = a->pipeline };
    if (a->program.trace.trace || a->program.trace.record)
        fputs("--trace and --record cannot be combined with --mpi: they write the files of one process\n",
              stderr);
    else if (a->pipeline && (a->cache_file || a->cache_disk > 0))
        fputs("--cache-file and --cache-disk cannot be combined with --pipeline: sequences are spread over "
              "ranks\n",
              stderr);
    else if (a->pipeline && a->common.draft_mtp)
        fputs("--draft-mtp cannot be combined with --pipeline: the first rank lacks the last layer's "
              "hidden states\n",
              stderr);
    else if (a->pipeline && a->draft_model)
        fputs("--draft-model cannot be combined with --pipeline\n", stderr);
    else return serve_ranks_join(set, &asked, argc, argv);
    return EXIT_USAGE;
}

static qsf_status serve_sampler(const void *user, const qsf_model *m, qsf_sampler *s, qsf_error *err)
{
    qsf_error own;
    return common_sampler(user, m, s, err ? err : &own);
}

static qsf_status serve_context(const void *user, qsf_model *m, qsf_context_options *o, qsf_context **out,
                                qsf_error *err)
{
    const serve_asked *a = user;
    char note[DEVICE_NOTE];
    const qsf_status st = device_context(&a->common.gpu, m, o, out, note, err);
    if (note[0] && !a->quiet) fprintf(stderr, "%s\n", note);
    return st;
}

static int serve_as_asked(const serve_asked *a, const option_list *rest, int argc, char **argv)
{
    qsf_error err;
    const common_settings *c = &a->common;
    serve_settings set = {
        .models_max = (unsigned)a->models_max, .host = a->host,
        .port = (int)a->port, .keys = names_of(&a->keys), .allowed_hosts = names_of(&a->hosts),
        .origins = names_of(&a->origins), .key_file = a->key_file,
        .engine = { .context = c->context, .slots = (unsigned)a->slots, .kept = (unsigned)a->kept,
                    .queue = (unsigned)a->queue, .step_rows = (unsigned)a->step_rows,
                    .steps = (unsigned)a->steps, .session_s = (unsigned)a->session,
                    .cache_file = a->cache_file, .cache_disk = (uint64_t)(a->cache_disk * 1e6),
                    .cache_disk_dir = a->cache_disk_dir, .draft_mtp = c->draft_mtp && c->draft,
                    .draft_model = c->draft ? a->draft_model : NULL,
                    .draft = (unsigned)(c->draft >= 0 ? c->draft
                                        : c->draft_mtp || a->draft_model ? QSF_DRAFT_MOST : 0),
                    .pooling = pooling_named(a->pooling), .make = serve_context, .make_user = a },
        .defaults = { .sampler = c->sampler, .max_tokens = c->max_tokens, .strict = a->strict,
                      .reasoning_budget = c->reasoning_budget, .kwargs = c->template_kwargs,
                      .prepare = serve_sampler, .user = c },
        .timeout_s = (unsigned)a->timeout, .drain_s = (unsigned)a->drain, .most_body = (size_t)(a->max_body
            * 1e6),
        .connections = (unsigned)a->connections, .io = io_named(c->io),
        .i2s_layout = i2s_named(c->i2s_layout), .quiet = a->quiet,
        .log_json = !strcmp(a->log_format, "json"), .verbose = a->verbose,
        .ping_s = a->ping > 0 ? a->ping : 0,
        .log_requests = a->log_requests, .no_page = a->no_page, .lora_dir = a->lora_dir,
        .default_model = a->default_model, .models_dir = a->models_dir,
    };
    const serve_hub_asked by_name = { &a->hub, c->context.ram_budget, a->quiet };
    const serve_hub hub = { serve_hub_named, serve_hub_find, serve_hub_remove, serve_hub_list,
                            &by_name };
    trace_files *files;
    char *template_text = NULL;
    set.hub = a->by_name ? &hub : NULL;
    set.engine.context.check_every = !strcmp(c->check, "every");
    int code = serve_check(a, a->models.n + rest->n);
    if (!code && c->template_name)
        code = template_asked(c->template_name, true, &set.template_name, &template_text);
    if (code || (code = models_of(a, rest, &set))) return free(template_text), code;
    if (!loras_of(a, &set)) return serve_asked_free(&set, template_text), EXIT_USAGE;
    code = a->mpi ? serve_join(a, &set, argc, argv) : EXIT_OK;
    if (code || (code = trace_open(&a->program.trace, &files)))
        return serve_asked_free(&set, template_text), code;
    trace_context(files, &set.engine.context);
    const qsf_status st = serve_run(&set, &err);
    if (st && set.link) set.link->fail("%s", err.text);
    if (set.link) set.link->end();
    code = trace_close(files, st ? report_room(&err) : EXIT_OK);
    serve_asked_free(&set, template_text);
    return code;
}

int main(int argc, char **argv)
{
    serve_asked a = {
        .host = "127.0.0.1", .port = 8080, .slots = 8, .kept = 24, .queue = 256, .steps = 1, .session = 600,
        .timeout = 600, .drain = 30, .connections = 4096, .max_body = 8, .pooling = "auto",
        .mpi_check = "some", .mpi_wire = "f32", .mpi_silent = 6, .ping = 10, .log_format = "text",
    };
    option_part parts[SERVE_PARTS];
    const option_program program = serve_program(parts);
    option_list rest;
    common_defaults(&a.common);
    int code;
    if (!common_parse(&program, &a, &a.program.about, argc, argv, &rest, &code)) return code;
    if (a.pipeline && !a.mpi) {
        fputs("--pipeline needs --mpi, and mpirun: docs/many-machines.md\n", stderr);
        return EXIT_USAGE;
    }
    if ((code = model_names_add(&a.hub, &a.models)) != 0
        || (code = model_names_find(&a.hub, &a.draft_model, 0)) != 0) return code;
    if (!a.models.n && !rest.n && !a.models_dir) {
        fputs("no model was given: qsf-serve [options] MODEL; --help shows the options\n", stderr);
        return EXIT_USAGE;
    }
    return serve_as_asked(&a, &rest, argc, argv);
}
