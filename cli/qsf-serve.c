/* qsf-serve: models behind HTTP.  This file is the option table.
 * SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "options.h"
#include "run.h"
#include "serve.h"
#include "serve_ranks.h"
#include "trace.h"

typedef struct serve_asked {
    const char *name, *template_name, *host, *key_file, *cache_file, *cache_disk_dir, *io, *i2s_layout,
        *pooling, *trace, *record, *mpi_check, *mpi_wire, *split, *lora_dir, *default_model;
    qsf_context_options context;
    option_list models, keys, hosts, origins, loras;
    long long models_max, port, slots, kept, queue, step_rows, steps, session, timeout, drain, max_tokens,
        top_k, connections, draft;
    double temperature, top_p, min_p, repeat_penalty, max_body, cache_disk, mpi_silent;
    bool help, version, completion, quiet, log_requests, no_page, mpi, pipeline, strict;
} serve_asked;

#define AT(member) offsetof(serve_asked, member)
#define CONTEXT(names) OPTION_OF_CONTEXT(names, AT(context), NULL)

static const option serve_options[] = {
    { OPTION_GROUP, "", NULL, 0, 0, 0, NULL, "Model", NULL },
    { OPTION_LIST, "-m --model", "[NAME=]FILE", AT(models), 0, 0, NULL,
      "QSF or GGUF file, and its name for clients; may also stand alone on the command line, and be given "
      "again: the first model is loaded at the beginning, others when they are asked for", NULL },
    { OPTION_TEXT, "-a --alias", "NAME[,NAME...]", AT(name), 0, 0, NULL,
      "the only model's name for clients, and further ones", "its file's, without .gguf or .qsf" },
    { OPTION_TEXT, "--default-model", "NAME", AT(default_model), 0, 0, NULL,
      "of several models, the one that answers requests for a name that is not there", NULL },
    { OPTION_INT, "--models-max", "N", AT(models_max), 0, 64, NULL,
      "most models that are loaded at once, 0 for all; the least recently used one makes room", "0" },
    { OPTION_LIST, "--lora", "[NAME=]FILE[:SCALE]", AT(loras), 0, 0, NULL,
      "adapter of the first model, and its name: requests for MODEL:NAME have it with this scale (1); "
      "MODEL:NAME=FILE is one of another model; may be given again", NULL },
    { OPTION_TEXT, "--lora-dir", "DIR", AT(lora_dir), 0, 0, NULL,
      "clients may load adapters from this folder, and drop adapters", NULL },
    CONTEXT("--adapter-memory"),
    { OPTION_TEXT, "--chat-template", "NAME", AT(template_name), 0, 0, NULL,
      "chat template to use: chatml, llama2, llama3, mistral, phi3, gemma, zephyr, command-r, deepseek, "
          "plain",
      "the model's own" },

    { OPTION_GROUP, "", NULL, 0, 0, 0, NULL, "Network", NULL },
    { OPTION_TEXT, "--host", "NAME", AT(host), 0, 0, NULL, "name or address to listen at", "127.0.0.1" },
    { OPTION_INT, "--port", "N", AT(port), 0, 65535, NULL, "port to listen at, 0 for any free one", "8080" },
    { OPTION_LIST, "--api-key", "KEY", AT(keys), 0, 0, NULL,
      "only clients with this key may ask; may be given again", NULL },
    { OPTION_TEXT, "--api-key-file", "FILE", AT(key_file), 0, 0, NULL,
      "such keys, one a line; SIGHUP reads the file again", NULL },
    { OPTION_LIST, "--allow-host", "NAME", AT(hosts), 0, 0, NULL,
      "a name of this server in the Host header, beside localhost and addresses; may be given again", NULL },
    { OPTION_LIST, "--cors", "ORIGIN", AT(origins), 0, 0, NULL,
      "pages of this origin may ask, * for all; may be given again", NULL },
    { OPTION_FLAG, "--no-page", NULL, AT(no_page), 0, 0, NULL, "no chat page at /", NULL },
    { OPTION_INT, "--timeout", "S", AT(timeout), 0, 1e6, NULL,
      "most seconds for a request, waiting included; 0 for no limit", "600" },
    { OPTION_INT, "--drain", "S", AT(drain), 0, 1e6, NULL, "most seconds for running answers after SIGTERM",
      "30" },
    { OPTION_NUMBER, "--max-body", "MB", AT(max_body), 0.001, 1000, NULL, "largest body of a request", "8" },
    { OPTION_INT, "--connections", "N", AT(connections), 1, 100000, NULL, "most open connections", "4096" },

    { OPTION_GROUP, "", NULL, 0, 0, 0, NULL, "Answers", NULL },
    { OPTION_INT, "-np --slots", "N", AT(slots), 1, 1024, NULL, "answers at once", "8" },
    { OPTION_INT, "--cache-sequences", "N", AT(kept), 0, 2048, NULL,
      "sequences that are kept for prompts that begin alike", "24" },
    { OPTION_TEXT, "--cache-file", "FILE", AT(cache_file), 0, 0, NULL,
      "where kept sequences are written at the end, and read from at the next start", NULL },
    { OPTION_CHOICE, "--pooling", NULL, AT(pooling), 0, 0, "auto|mean|first|last",
      "what the embedding of a text is made of; auto: as the file says, else the mean", "auto" },
    { OPTION_NUMBER, "--cache-disk", "MB", AT(cache_disk), 0, 1e9, NULL,
      "disk for sequences that memory has no room for; 0 for none", "0" },
    { OPTION_TEXT, "--cache-disk-dir", "DIR", AT(cache_disk_dir), 0, 0, NULL, "where that is",
      "the system's folder for temporary files" },
    { OPTION_FLAG, "--strict", NULL, AT(strict), 0, 0, NULL,
      "refuse requests with fields that the server does not know, which it ignores otherwise", NULL },
    { OPTION_INT, "--queue", "N", AT(queue), 0, 100000, NULL,
      "answers that may wait; more are refused with status 429", "256" },
    { OPTION_INT, "--step-rows", "N", AT(step_rows), 0, 65536, NULL,
      "rows of prompts in a step beside answers; 0: as many as make the step twice as long", "0" },
    { OPTION_INT, "--steps", "N", AT(steps), 1, 64, NULL,
      "steps between two looks at the queue: more is less work, and a longer wait for a new request", "1" },
    { OPTION_INT, "--draft", "N", AT(draft), 0, QSF_DRAFT_MOST, NULL,
      "most guesses of an answer in a step, from what stood behind the same words before", "0" },
    { OPTION_INT, "--session-time", "S", AT(session), 0, 1e9, NULL,
      "seconds that the sequence of a session_id is kept on purpose", "600" },
    { OPTION_INT, "-n --predict --max-tokens", "N", AT(max_tokens), -1, 1e9, NULL,
      "most tokens of an answer whose request does not say it, -1 for no limit", "-1" },
    { OPTION_NUMBER, "--temp --temperature", "F", AT(temperature), 0, 100, NULL,
      "temperature where a request does not say it", "1" },
    { OPTION_INT, "--top-k", "N", AT(top_k), 0, 1e9, NULL, "the same for top_k", "0" },
    { OPTION_NUMBER, "--top-p", "F", AT(top_p), 0, 1, NULL, "the same for top_p", "1" },
    { OPTION_NUMBER, "--min-p", "F", AT(min_p), 0, 1, NULL, "the same for min_p", "0" },
    { OPTION_NUMBER, "--repeat-penalty", "F", AT(repeat_penalty), 0.01, 100, NULL,
      "the same for repeat_penalty", "1" },

    { OPTION_GROUP, "", NULL, 0, 0, 0, NULL, "Machine", NULL },
    CONTEXT("-t --threads"),
    CONTEXT("-c --ctx-size"),
    CONTEXT("-b --batch-size"),
    CONTEXT("--ram-budget"),
    CONTEXT("-ctk --kv --kv-type"),
    CONTEXT("--kv-window"),
    CONTEXT("--kv-sinks"),
    CONTEXT("--head-topk"),
    CONTEXT("--isa"),
    { OPTION_CHOICE, "--io", NULL, AT(io), 0, 0, "auto|uring|pread|mmap", "how the file is read", "auto" },
    { OPTION_CHOICE, "--i2s-layout", "NAME", AT(i2s_layout), 0, 0, I2S_LAYOUTS,
      "how tensors of type I2_S are stored, as for qsf-run", "auto" },

    { OPTION_GROUP, "", NULL, 0, 0, 0, NULL, "Many machines", NULL },
    { OPTION_FLAG, "--mpi", NULL, AT(mpi), 0, 0, NULL,
      "under mpirun: each of its ranks has the whole model, and answers a part of the requests", NULL },
    { OPTION_FLAG, "--pipeline", NULL, AT(pipeline), 0, 0, NULL,
      "with --mpi: each rank has a range of the layers of one model, for models too large for one machine",
      NULL },
    { OPTION_TEXT, "--split", "N,N,...", AT(split), 0, 0, NULL,
      "with --pipeline: layers of each rank; else by measured speed and memory", NULL },
    { OPTION_CHOICE, "--mpi-wire", "TYPE", AT(mpi_wire), 0, 0, "f32|f16|q8",
      "with --pipeline: how hidden states travel: exactly (f32), or in fewer bits", "f32" },
    { OPTION_CHOICE, "--mpi-check", "WHAT", AT(mpi_check), 0, 0, "some|all",
      "what of the files is compared between ranks: beginning and pieces of the rest, or all bytes", "some" },
    { OPTION_NUMBER, "--mpi-silent", "SECONDS", AT(mpi_silent), 1, 3600, NULL,
      "after so long without a sign of life a rank counts as dead, which ends all", "6" },

    { OPTION_GROUP, "", NULL, 0, 0, 0, NULL, "About", NULL },
    { OPTION_FLAG, "-q --quiet", NULL, AT(quiet), 0, 0, NULL, "no line for each request", NULL },
    TRACE_OPTIONS,
    { OPTION_FLAG, "--log-requests", NULL, AT(log_requests), 0, 0, NULL, "log the requests' texts, too",
      NULL },
    { OPTION_FLAG, "--completion-names", NULL, AT(completion), 0, 0, NULL,
      "print all option names, for shell completion", NULL },
    { OPTION_FLAG, "--version", NULL, AT(version), 0, 0, NULL, "print the version", NULL },
    { OPTION_FLAG, "-h --help", NULL, AT(help), 0, 0, NULL, "print this", NULL },
};
#undef AT
#undef CONTEXT
enum { N_SERVE_OPTIONS = sizeof serve_options / sizeof serve_options[0] };

static void print_help(void)
{
    printf("Serves a language model over HTTP, for clients of OpenAI's and Anthropic's interfaces.\n\n"
           "  qsf-serve model.gguf                              at http://127.0.0.1:8080\n"
           "  qsf-serve model.qsf --slots 16 --ctx-size 32768   16 answers at once, 32768 positions "
               "together\n"
           "  qsf-serve -m small=a.gguf -m large=b.gguf         two models by name\n"
           "  mpirun -np 4 qsf-serve --mpi model.gguf           four processes share the requests\n\n"
           "Usage: qsf-serve [options] MODEL...  Each option can also be set by the environment variable in "
           "brackets.\n");
    options_help(serve_options, N_SERVE_OPTIONS, "QSF_", stdout);
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
        fprintf(stderr, "\"%s\" is no %s: NAME=FILE or FILE, with a name of at most %d bytes\n", text, what,
                SERVE_NAME - 1);
        return NULL;
    }
    memcpy(name_out, name, len);
    name_out[len] = 0;
    char *end = named || strcmp(what, "model") ? NULL : strrchr(name_out, '.');
    if (end && end > name_out && (!strcmp(end, ".gguf") || !strcmp(end, ".qsf"))) *end = 0;
    return path;
}

/* All models that were asked for; those of the command line replace the environment's. */
static bool models_of(const serve_asked *a, const option_list *rest, serve_settings *set)
{
    const char *variable = getenv("QSF_MODEL");
    const option_list *lists[] = { &a->models, rest };
    size_t i = variable && a->models.n && a->models.items[0] == variable && a->models.n + rest->n > 1;
    for (int k = 0; k < 2; k++, i = 0) {
        for (; i < lists[k]->n; i++) {
            if (set->n_models == SERVE_NAMES) {
                fprintf(stderr, "more than %d models were given\n", SERVE_NAMES);
                return false;
            }
            serve_model *m = &set->models[set->n_models];
            if (!(m->path = file_named(lists[k]->items[i], m->name, "model"))) return false;
            for (unsigned j = 0; j < set->n_models; j++) {
                if (strcmp(set->models[j].name, m->name)) continue;
                fprintf(stderr, "two models are called \"%s\"; --model NAME=FILE gives names\n", m->name);
                return false;
            }
            set->n_models++;
        }
    }
    if (a->name && set->n_models > 1) {
        fputs("--alias is for one model; --model NAME=FILE names several\n", stderr);
        return false;
    }
    if (a->name) snprintf(set->models[0].name, SERVE_NAME, "%s", a->name);
    return true;
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

/* All adapters that were asked for. */
static bool loras_of(const serve_asked *a, serve_settings *set)
{
    for (size_t i = 0; i < a->loras.n; i++) {
        serve_lora_file *file = &set->loras[set->n_loras++];
        char *text = adapter_path(a->loras.items[i], &file->scale);
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

static void loras_free(serve_settings *set)
{
    for (unsigned i = 0; i < set->n_loras; i++) free(set->loras[i].path);
}

/* Joins the other ranks, where all can do what is asked. */
static int serve_join(const serve_asked *a, serve_settings *set, int argc, char **argv)
{
    const serve_ranks_asked asked = { .check = a->mpi_check, .silent = a->mpi_silent, .split = a->split,
                                      .wire = a->mpi_wire, .pipeline = a->pipeline };
    if (a->trace || a->record)
        fputs("--trace and --record do not go with --mpi: they write files of one process\n", stderr);
    else if (a->pipeline && (a->cache_file || a->cache_disk > 0))
        fputs("--cache-file and --cache-disk do not go with --pipeline: sequences are on several ranks\n",
              stderr);
    else return serve_ranks_join(set, &asked, argc, argv);
    return EXIT_USAGE;
}

static int serve_as_asked(const serve_asked *a, const option_list *rest, int argc, char **argv)
{
    qsf_error err;
    serve_settings set = {
        .models_max = (unsigned)a->models_max, .template_name = a->template_name, .host = a->host,
        .port = (int)a->port, .keys = names_of(&a->keys), .allowed_hosts = names_of(&a->hosts),
        .origins = names_of(&a->origins), .key_file = a->key_file,
        .engine = { .context = a->context, .slots = (unsigned)a->slots, .kept = (unsigned)a->kept,
                    .queue = (unsigned)a->queue, .step_rows = (unsigned)a->step_rows,
                    .steps = (unsigned)a->steps, .session_s = (unsigned)a->session,
                    .cache_file = a->cache_file, .cache_disk = (uint64_t)(a->cache_disk * 1e6),
                    .cache_disk_dir = a->cache_disk_dir, .draft = (unsigned)a->draft,
                    .pooling = pooling_named(a->pooling) },
        .defaults = { .temperature = a->temperature, .top_p = a->top_p, .min_p = a->min_p,
                      .repeat_penalty = a->repeat_penalty, .top_k = a->top_k, .max_tokens = a->max_tokens,
                      .strict = a->strict },
        .timeout_s = (unsigned)a->timeout, .drain_s = (unsigned)a->drain, .most_body = (size_t)(a->max_body
            * 1e6),
        .connections = (unsigned)a->connections, .io = io_named(a->io),
        .i2s_layout = i2s_named(a->i2s_layout), .quiet = a->quiet,
        .log_requests = a->log_requests, .no_page = a->no_page, .lora_dir = a->lora_dir,
        .default_model = a->default_model,
    };
    trace_files *files;
    if (!models_of(a, rest, &set)) return EXIT_USAGE;
    if (!loras_of(a, &set)) return loras_free(&set), EXIT_USAGE;
    int code = a->mpi ? serve_join(a, &set, argc, argv) : EXIT_OK;
    if (code || (code = trace_open(a->trace, a->record, &files))) return loras_free(&set), code;
    trace_context(files, &set.engine.context);
    const qsf_status st = serve_run(&set, &err);
    if (st && set.link) set.link->fail("%s", err.text);
    if (set.link) set.link->end();
    code = trace_close(files, st ? report(&err) : EXIT_OK);
    loras_free(&set);
    return code;
}

int main(int argc, char **argv)
{
    serve_asked a = {
        .host = "127.0.0.1", .port = 8080, .slots = 8, .kept = 24, .queue = 256, .steps = 1, .session = 600,
        .timeout = 600, .drain = 30, .max_tokens = -1, .connections = 4096, .temperature = 1, .top_p = 1,
        .repeat_penalty = 1, .max_body = 8, .io = "auto", .pooling = "auto", .mpi_check = "some",
        .mpi_wire = "f32", .mpi_silent = 6,
    };
    option_list rest;
    qsf_context_defaults(&a.context);
    if (!options_parse(serve_options, N_SERVE_OPTIONS, "QSF_", &a, argc, argv, &rest)) return EXIT_USAGE;
    if (a.help) return print_help(), output_end(EXIT_OK);
    if (a.version) return printf("qsf-serve %s\n", qsf_version()), output_end(EXIT_OK);
    if (a.completion) return options_names(serve_options, N_SERVE_OPTIONS, stdout), output_end(EXIT_OK);
    if (a.pipeline && !a.mpi) {
        fputs("--pipeline needs --mpi, and mpirun: docs/many-machines.md\n", stderr);
        return EXIT_USAGE;
    }
    if (!a.models.n && !rest.n) {
        fputs("no model was given: qsf-serve [options] MODEL; --help lists the options\n", stderr);
        return EXIT_USAGE;
    }
    return serve_as_asked(&a, &rest, argc, argv);
}
