/* Server status: health, metrics, slots.
 * SPDX-License-Identifier: MIT */
#include "ranks.h"
#include "routes.h"

#include <qsf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void route_health(const route_call *call)
{
    const char *text = call->f->drains ? "{\"status\":\"draining\"}" : "{\"status\":\"ok\"}";
    http_reply(call->c, call->f->drains ? 503 : 200, "application/json", call->cors, text, strlen(text));
}

/* One line per model, if there are several. */
static void write_model_metrics(serve_front *f)
{
    static const char *const names[] = { "model_loaded", "model_loads_total", "model_failures_total" };
    static const char *const helps[] = { "Whether the model is loaded", "Times that the model was loaded",
                                         "Times that it could not be loaded" };
    for (int k = 0; k < 3; k++) {
        text_format(&f->out, "# HELP qsf_%s %s\n# TYPE qsf_%s %s\n", names[k], helps[k], names[k],
                    k ? "counter" : "gauge");
        for (unsigned i = 0; i < models_count(f->models); i++) {
            model_entry *m = models_at(f->models, i);
            const uint64_t values[] = { m->state == MODEL_READY, metric_get(&m->n_loaded),
                                        metric_get(&m->n_failed) };
            text_format(&f->out, "qsf_%s{model=", names[k]);
            text_json_str(&f->out, m->name);
            text_format(&f->out, "} %llu\n", (unsigned long long)values[k]);
        }
    }
}

/* One line per model and rank. */
static void write_metrics(serve_front *f)
{
    const unsigned n = models_count(f->models), ranks = ranks_count(f), all = n * ranks;
    serve_metrics **of = calloc(all, sizeof *of);
    const char **labels = calloc(all, sizeof *labels);
    serve_text *text = calloc(all, sizeof *text);
    f->out.failed |= !of || !labels || !text;
    for (unsigned i = 0; !f->out.failed && i < all; i++) {
        const unsigned model = i % n, rank = i / n;
        if (n > 1) {
            text_str(&text[i], "model=");
            text_json_str(&text[i], models_at(f->models, model)->name);
        }
        if (ranks > 1) text_format(&text[i], "%srank=\"%u\"", n > 1 ? "," : "", rank);
        of[i] = rank ? ranks_metrics(f, rank, model) : &models_at(f->models, model)->metrics;
        labels[i] = text[i].bytes ? text[i].bytes : "";
    }
    if (!f->out.failed) metrics_write(of, labels, all, &f->out);
    for (unsigned i = 0; text && i < all; i++) text_free(&text[i]);
    free(of);
    free(labels);
    free(text);
    write_model_metrics(f);
    if (ranks_lead(f)) ranks_write(f, &f->out);
}

void route_metrics(const route_call *call)
{
    serve_front *f = call->f;
    text_clear(&f->out);
    write_metrics(f);
    for (unsigned i = 0; i < models_count(f->models); i++) {
        qsf_usage used = { .size = sizeof used };
        if (models_at(f->models, i)->state != MODEL_READY) continue;
        qsf_model_get_usage(models_at(f->models, i)->model, &used);
        text_format(&f->out, "# HELP qsf_resident_bytes Resident memory\n# TYPE qsf_resident_bytes gauge\n"
                    "qsf_resident_bytes %llu\n", (unsigned long long)used.resident);
        break;                              /* the figure is of the whole process */
    }
    text_format(&f->out, "# HELP qsf_sent_bytes_total Bytes sent to clients\n"
                "# TYPE qsf_sent_bytes_total counter\nqsf_sent_bytes_total %llu\n"
                "# HELP qsf_connections Open connections\n# TYPE qsf_connections gauge\nqsf_connections %u\n",
                (unsigned long long)http_bytes_sent(f->http), http_connections(f->http));
    http_reply(call->c, 200, "text/plain; version=0.0.4; charset=utf-8", call->cors, f->out.bytes,
               f->out.len);
}

static void write_slot(serve_front *f, unsigned rank, unsigned model, unsigned id, bool first)
{
    static const char *const states[] = { "idle", "prompt", "answer", "paused" };
    const model_entry *m = models_at(f->models, model);
    serve_slot s;
    if (rank) s = ranks_slots(f, rank, model)[id];
    else serve_engine_slot(m->engine, id, &s);
    text_format(&f->out, "%s{\"id\":%u,", first ? "" : ",", id);
    if (f->set->link) text_format(&f->out, "\"rank\":%u,", rank);
    text_str(&f->out, "\"model\":");
    text_json_str(&f->out, m->name);
    text_format(&f->out, ",\"state\":\"%s\",\"is_processing\":%s,\"n_prompt\":%u,\"n_prompt_done\":%u,"
                "\"n_tokens\":%u}", states[s.state & 3], s.state ? "true" : "false", s.n_prompt, s.n_done,
                s.n_tokens);
}

void route_slots(const route_call *call)
{
    serve_front *f = call->f;
    bool first = true;
    text_clear(&f->out);
    text_str(&f->out, "[");
    for (unsigned rank = 0; rank < ranks_count(f); rank++)
        for (unsigned i = 0; i < models_count(f->models); i++) {
            if (models_at(f->models, i)->state != MODEL_READY) continue;
            for (unsigned id = 0; id < f->set->engine.slots; id++, first = false)
                write_slot(f, rank, i, id, first);
        }
    text_str(&f->out, "]");
    route_reply(call);
}

/* ---- other servers' status paths ---- */

void route_ping(const route_call *call) { http_reply(call->c, 200, "application/json", call->cors, "{}", 2); }

void route_version(const route_call *call)
{
    text_clear(&call->f->out);
    text_str(&call->f->out, "{\"version\":");
    text_json_str(&call->f->out, qsf_version());
    text_str(&call->f->out, "}");
    route_reply(call);
}

/* A token's text; "" if the model lacks the token. */
static void write_token(const qsf_model *m, const char *name, int32_t id, serve_text *out)
{
    const char *piece;
    const size_t n = id < 0 ? 0 : qsf_token_piece(m, id, true, &piece);
    text_format(out, ",\"%s\":", name);
    if (n) text_json(out, piece, n);
    else text_str(out, "\"\"");
}

static void write_defaults(const serve_front *f, const model_entry *m, serve_text *out)
{
    const serve_defaults *d = &f->set->defaults;
    const qsf_sampler_options *o = &d->sampler;
    text_format(out, "{\"id\":0,\"n_ctx\":%u,\"is_processing\":false,\"params\":{\"n_predict\":%lld,"
                "\"temperature\":%.9g,\"top_k\":%u,\"top_p\":%.9g,\"min_p\":%.9g,\"repeat_penalty\":%.9g,"
                "\"stream\":false}}", (unsigned)m->n_ctx, (long long)d->max_tokens, (double)o->temperature,
                (unsigned)o->top_k, (double)o->top_p, (double)o->min_p, (double)o->repeat_penalty);
}

/* Describes the first model in llama-server's format. */
void route_props(const route_call *call)
{
    serve_front *f = call->f;
    const model_entry *m = models_at(f->models, 0);
    const bool ready = m->state == MODEL_READY;
    text_clear(&f->out);
    text_str(&f->out, "{\"default_generation_settings\":");
    write_defaults(f, m, &f->out);
    text_format(&f->out, ",\"total_slots\":%u,\"model_alias\":", f->set->engine.slots);
    text_json_str(&f->out, m->name);
    text_str(&f->out, ",\"model_path\":");
    text_json_str(&f->out, m->path);
    text_str(&f->out, ",\"chat_template\":");
    text_json_str(&f->out, front_template(f, m));
    if (ready) write_token(m->model, "bos_token", qsf_token_bos(m->model), &f->out);
    if (ready) write_token(m->model, "eos_token", qsf_token_eos(m->model), &f->out);
    if (ready && serve_engine_facts(m->engine)->device[0]) {
        text_str(&f->out, ",\"device\":");
        text_json_str(&f->out, serve_engine_facts(m->engine)->device);
    }
    text_format(&f->out, ",\"modalities\":{\"vision\":false,\"audio\":false},\"is_sleeping\":%s,"
                "\"build_info\":", ready ? "false" : "true");
    text_json_str(&f->out, qsf_version());
    text_str(&f->out, "}");
    route_reply(call);
}
