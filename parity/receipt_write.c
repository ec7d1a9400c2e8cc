/* A receipt's text from what came of a comparison.
 * SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "machine.h"
#include "receipt.h"

typedef struct writer {
    yyjson_mut_doc *d;
    const parity_settings *set;
    const parity_result *r;
    const prompt_list *prompts;
} writer;

static yyjson_mut_val *write_object(writer *w, yyjson_mut_val *in, const char *name)
{
    yyjson_mut_val *o = yyjson_mut_obj(w->d);
    yyjson_mut_obj_add_val(w->d, in, name, o);
    return o;
}

static void write_text(writer *w, yyjson_mut_val *o, const char *name, const char *text)
{
    if (text) yyjson_mut_obj_add_strcpy(w->d, o, name, text);
    else yyjson_mut_obj_add_null(w->d, o, name);
}

static void write_count(writer *w, yyjson_mut_val *o, const char *name, uint64_t v)
{
    yyjson_mut_obj_add_uint(w->d, o, name, v);
}

/* null if it does not apply. */
static void write_number(writer *w, yyjson_mut_val *o, const char *name, double v, bool holds)
{
    if (holds && isfinite(v)) yyjson_mut_obj_add_real(w->d, o, name, v);
    else yyjson_mut_obj_add_null(w->d, o, name);
}

static void write_count_if(writer *w, yyjson_mut_val *o, const char *name, uint64_t v, bool holds)
{
    if (holds) write_count(w, o, name, v);
    else yyjson_mut_obj_add_null(w->d, o, name);
}

static void write_flag_if(writer *w, yyjson_mut_val *o, const char *name, bool v, bool holds)
{
    if (holds) yyjson_mut_obj_add_bool(w->d, o, name, v);
    else yyjson_mut_obj_add_null(w->d, o, name);
}

static const char *write_kv(qsf_kv_type type)
{
    static const char *const names[] = { "f16", "q8", "f32", "q4", "q2", "q8v4", "q4v2" };
    return names[type];
}

static void write_machine(writer *w, yyjson_mut_val *root)
{
    char processor[128], date[24] = "1970-01-01T00:00:00Z";
    const time_t then = (time_t)w->r->begin_s;
    const struct tm *t = gmtime(&then);
    qsf_stats stats = { .size = sizeof stats };
    if (t) strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", t);
    write_text(w, root, "schema", "qsf-receipt-1");
    write_text(w, root, "created", date);
    yyjson_mut_val *program = write_object(w, root, "program");
    write_text(w, program, "name", "qsf-parity");
    write_text(w, program, "version", qsf_version());
    write_text(w, program, "commit", machine_commit());
    yyjson_mut_val *machine = write_object(w, root, "machine");
    machine_processor(processor, sizeof processor);
    write_text(w, machine, "processor", processor);
    write_text(w, machine, "system", machine_system());
    if (w->r->context) qsf_context_get_stats(w->r->context, &stats);
    write_text(w, machine, "instruction_set", stats.isa);
    write_count(w, machine, "threads", stats.n_threads);
}

static void write_model(writer *w, yyjson_mut_val *root)
{
    qsf_model_info info = { .size = sizeof info };
    const bool known = w->r->model != NULL;
    if (known) qsf_model_get_info(w->r->model, &info);
    else info.n_vocab = parity_llama_engine(w->r->llama).n_vocab;
    yyjson_mut_val *o = write_object(w, root, "model");
    write_text(w, o, "sha256", w->r->file.sum);
    write_count(w, o, "bytes", w->r->file.bytes);
    write_text(w, o, "format", known ? info.format : NULL);
    write_text(w, o, "architecture", known ? info.arch : NULL);
    write_count_if(w, o, "parameters", info.n_params, known);
    write_count_if(w, o, "weight_bytes", info.weight_bytes, known);
    write_count(w, o, "vocabulary", info.n_vocab);
    write_count_if(w, o, "layers", info.n_layers, known);
    write_count_if(w, o, "embedding", info.n_embd, known);
}

static const char *write_i2s(qsf_i2s_layout layout)
{
    static const char *const names[] = { "auto", "qk256", "split32", "bitnet32", "microsoft", "microsoft-arm",
                                         "microsoft-rows4" };
    return names[layout];
}

bool receipt_has_place(const char *option)
{
    static const char *const names[] = { "ram-budget", "ctx-size", "batch-size", "threads", "seqs", "logits",
                                         "kv-type", "f32", "isa" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) if (!strcmp(option, names[i])) return true;
    return false;
}

static void write_context(writer *w, yyjson_mut_val *o)
{
    const qsf_option *option;
    yyjson_mut_val *list = write_object(w, o, "context");
    for (size_t i = 0; (option = qsf_context_option(i)) != NULL; i++) {
        char value[RECEIPT_VALUE];
        if (receipt_has_place(option->name)
            || qsf_context_get(&w->set->context, option->name, value, sizeof value, NULL)) continue;
        yyjson_mut_obj_add_strcpy(w->d, list, option->name, value);
    }
}

static void write_options(writer *w, yyjson_mut_val *root)
{
    const parity_settings *set = w->set;
    const bool other_f32 = set->context.f32 || set->context.kv_type == QSF_KV_F32;
    yyjson_mut_val *o = write_object(w, root, "options");
    write_count(w, o, "steps", set->n_steps);
    write_text(w, o, "kv_type", write_kv(set->context.kv_type));
    write_text(w, o, "other_kv_type", !w->r->llama ? NULL : other_f32 ? "f32" : "f16");
    yyjson_mut_obj_add_bool(w->d, o, "f32", set->context.f32);
    write_count(w, o, "batch_size", set->context.n_batch);
    write_count(w, o, "ram_budget", set->context.ram_budget);
    write_number(w, o, "min_cosine", set->min_cosine, true);
    write_number(w, o, "warn_cosine", set->warn_cosine, true);
    write_number(w, o, "min_match", set->min_match, true);
    write_number(w, o, "max_kl", set->max_kl, set->max_kl >= 0);
    yyjson_mut_obj_add_bool(w->d, o, "strict", set->strict);
    write_text(w, o, "i2s_layout", write_i2s(set->i2s_layout));
    write_context(w, o);
}

static void write_engines(writer *w, yyjson_mut_val *root)
{
    const parity_result *r = w->r;
    yyjson_mut_val *o = write_object(w, root, "engines");
    if (r->side[0].ran) {
        yyjson_mut_val *ours = write_object(w, o, "ours");
        write_text(w, ours, "name", "libqsf");
        write_text(w, ours, "version", qsf_version());
        write_text(w, ours, "logits_sha256", r->side[0].logits);
        write_text(w, ours, "tokens_sha256", r->side[0].tokens);
    } else yyjson_mut_obj_add_null(w->d, o, "ours");
    if (!r->side[1].ran) {
        yyjson_mut_obj_add_null(w->d, o, "other");
        return;
    }
    const llama_about a = r->llama ? parity_llama_about(r->llama) : (llama_about){ "", "", "", "", "" };
    const char *sum = r->is_recorded ? r->recorded_model : w->set->other_model ? r->other_file.sum
        : r->file.sum;
    yyjson_mut_val *other = write_object(w, o, "other");
    write_text(w, other, "name", r->side[1].name);
    yyjson_mut_obj_add_bool(w->d, other, "recorded", r->is_recorded);
    write_text(w, other, "version", a.version);
    write_text(w, other, "ggml_version", a.ggml_version);
    write_text(w, other, "ggml_commit", a.ggml_commit);
    write_text(w, other, "layout", a.layout);
    write_text(w, other, "library_sha256", r->library.bytes ? r->library.sum : NULL);
    write_text(w, other, "model_sha256", sum);
    write_text(w, other, "logits_sha256", r->side[1].logits);
    write_text(w, other, "tokens_sha256", r->side[1].tokens);
}

static void write_ids(writer *w, yyjson_mut_val *o, const char *name, const int32_t *ids, size_t n)
{
    yyjson_mut_val *list = yyjson_mut_arr(w->d);
    for (size_t i = 0; i < n; i++) yyjson_mut_arr_add_int(w->d, list, ids[i]);
    yyjson_mut_obj_add_val(w->d, o, name, list);
}

static void write_prompts(writer *w, yyjson_mut_val *root)
{
    yyjson_mut_val *list = yyjson_mut_arr(w->d);
    yyjson_mut_obj_add_bool(w->d, root, "prompts_standard", w->prompts->standard);
    yyjson_mut_obj_add_val(w->d, root, "prompts", list);
    for (size_t i = 0; i < w->prompts->n; i++) {
        const prompt *p = &w->prompts->items[i];
        char sum[SHA256_HEX];
        yyjson_mut_val *o = yyjson_mut_obj(w->d);
        yyjson_mut_arr_append(list, o);
        write_count(w, o, "n_ids", p->n);
        prompt_sum(p->ids, p->n, sum);
        write_text(w, o, "ids_sha256", sum);
        write_count(w, o, "n_tokens", p->n_tokens);
        prompt_sum(p->tokens, p->n_tokens, sum);
        write_text(w, o, "tokens_sha256", sum);
        if (!w->prompts->standard && !w->set->with_prompt) continue;
        write_ids(w, o, "ids", p->ids, p->n);
        write_ids(w, o, "tokens", p->tokens, p->n_tokens);
    }
}

static void write_top(writer *w, yyjson_mut_val *o, const char *name, const parity_top top[PARITY_TOP])
{
    yyjson_mut_val *list = yyjson_mut_arr(w->d);
    yyjson_mut_obj_add_val(w->d, o, name, list);
    for (int i = 0; i < PARITY_TOP && top[i].id >= 0; i++) {
        yyjson_mut_val *one = yyjson_mut_obj(w->d);
        yyjson_mut_arr_append(list, one);
        write_count(w, one, "id", (uint64_t)top[i].id);
        write_number(w, one, "logit", top[i].logit, true);
    }
}

static void write_divergence(writer *w, yyjson_mut_val *o, const parity_divergence *d)
{
    write_count(w, o, "prompt", d->prompt);
    write_count(w, o, "step", d->step);
    yyjson_mut_obj_add_bool(w->d, o, "tie", d->tie);
    write_number(w, o, "margin_ours", d->margin[0], true);
    write_number(w, o, "margin_other", d->margin[1], true);
    write_top(w, o, "ours", d->row.top[0]);
    write_top(w, o, "other", d->row.top[1]);
}

static void write_parity(writer *w, yyjson_mut_val *root)
{
    const parity_totals *t = &w->r->totals;
    const bool shown = w->r->outcome != PARITY_NONE;
    const double rows = t->rows ? (double)t->rows : 1;
    yyjson_mut_val *o = write_object(w, root, "parity");
    yyjson_mut_obj_add_bool(w->d, o, "shown", shown);
    write_flag_if(w, o, "passed", w->r->outcome == PARITY_SHOWN, shown);
    write_number(w, o, "cosine_similarity", t->cosine_min, shown);
    write_number(w, o, "cosine_mean", fmax(t->cosine_least, fmin(1, t->cosine_sum / rows)), shown);
    write_number(w, o, "cosine_least", t->cosine_least, shown);
    write_flag_if(w, o, "cosine_ok", t->cosine_min >= w->set->min_cosine, shown);
    write_number(w, o, "max_difference", t->max_difference, shown);
    write_number(w, o, "mean_difference", t->difference_sum / rows, shown);
    write_number(w, o, "kl_mean", t->kl_sum / rows, shown);
    write_number(w, o, "kl_max", t->kl_max, shown);
    write_count(w, o, "rows", t->rows);
    write_count(w, o, "steps", t->steps);
    write_count_if(w, o, "matches", t->matches, shown);
    write_count_if(w, o, "ties", t->ties, shown);
    write_number(w, o, "exact_match_rate", parity_match_rate(t), shown);
    write_count_if(w, o, "first_divergence_step", t->first.step, shown && t->first.there);
    if (shown && t->first.there) write_divergence(w, write_object(w, o, "first_divergence"), &t->first);
    else yyjson_mut_obj_add_null(w->d, o, "first_divergence");
    write_count(w, o, "targets", t->targets);
    write_number(w, o, "perplexity_ours", parity_perplexity(t, 0), t->targets && w->r->side[0].ran);
    write_number(w, o, "perplexity_other", parity_perplexity(t, 1), t->targets && w->r->side[1].ran);
}

static int write_by_name(const void *a, const void *b) { return strcmp(a, b); }

static void write_kernels(writer *w, yyjson_mut_val *root)
{
    enum { KERNELS = 256 };
    static const qsf_kernel_use fresh = { .size = sizeof fresh };
    char ids[KERNELS][sizeof fresh.id];
    size_t n = 0;
    yyjson_mut_val *counts = write_object(w, root, "kernels_executed"), *list = yyjson_mut_arr(w->d);
    for (qsf_kernel_use use = fresh; n < KERNELS && w->r->context; n++, use = fresh) {
        if (qsf_context_get_kernel(w->r->context, n, &use)) break;
        memcpy(ids[n], use.id, sizeof use.id);
        yyjson_mut_obj_add(counts, yyjson_mut_strcpy(w->d, use.id), yyjson_mut_uint(w->d, use.products));
    }
    qsort(ids, n, sizeof ids[0], write_by_name);
    for (size_t i = 0; i < n; i++) yyjson_mut_arr_add_strcpy(w->d, list, ids[i]);
    yyjson_mut_obj_add_val(w->d, root, "kernel_ids", list);
}

static void write_rest(writer *w, yyjson_mut_val *root)
{
    const parity_result *r = w->r;
    const char *backend = r->side[0].ran ? "qsf" : "cpp";
    qsf_stats stats = { .size = sizeof stats };
    if (r->refused_status && !r->side[0].ran) {
        yyjson_mut_val *o = write_object(w, root, "refused");
        write_text(w, o, "status", r->refused_status);
        write_text(w, o, "text", r->refused);
    } else yyjson_mut_obj_add_null(w->d, root, "refused");
    yyjson_mut_val *times = write_object(w, root, "times");
    write_number(w, times, "hash_ms", 1e-6 * (double)r->hash_ns, true);
    write_number(w, times, "load_ours_ms", 1e-6 * (double)r->side[0].load_ns, true);
    write_number(w, times, "load_other_ms", 1e-6 * (double)r->side[1].load_ns, true);
    write_number(w, times, "ours_ms", 1e-6 * (double)r->side[0].ns, true);
    write_number(w, times, "other_ms", 1e-6 * (double)r->side[1].ns, true);
    write_kernels(w, root);
    write_text(w, root, "backend_used", backend);
    if (r->context) qsf_context_get_stats(r->context, &stats);
    write_count(w, root, "bytes_read", stats.bytes_read);
}

qsf_status receipt_text(const parity_settings *set, const prompt_list *prompts, const parity_result *r,
                        char **text, size_t *len, qsf_error *err)
{
    writer w = { .d = yyjson_mut_doc_new(NULL), .set = set, .r = r, .prompts = prompts };
    yyjson_write_err why;
    *text = NULL;
    if (!w.d) return parity_fail(err, QSF_E_MEMORY, "out of memory");
    yyjson_mut_val *root = yyjson_mut_obj(w.d);
    const char *backend = r->side[0].ran ? "qsf" : "cpp";
    yyjson_mut_doc_set_root(w.d, root);
    write_machine(&w, root);
    write_model(&w, root);
    write_options(&w, root);
    write_engines(&w, root);
    write_prompts(&w, root);
    yyjson_mut_val *validation = write_object(&w, root, "validation");
    write_text(&w, validation, "backend", backend);
    write_text(&w, validation, "compute", backend);
    write_parity(&w, root);
    write_rest(&w, root);
    *text = yyjson_mut_write_opts(w.d, YYJSON_WRITE_PRETTY_TWO_SPACES | YYJSON_WRITE_NEWLINE_AT_END, NULL,
                                  len,
                                  &why);
    yyjson_mut_doc_free(w.d);
    if (!*text) return parity_fail(err, QSF_E_MEMORY, "the receipt cannot be written: %s", why.msg);
    /* what is written must be what would be read: a member out of its range is a fault of this
     * program */
    yyjson_doc *doc = NULL;
    const qsf_status st = receipt_read(*text, *len, &doc, err);
    yyjson_doc_free(doc);
    if (st) free(*text), *text = NULL;
    return st;
}
