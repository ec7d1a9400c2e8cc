/* Prefill, decode and loading of whole models through the public interface, as a user gets them.
 * SPDX-License-Identifier: MIT */
#include "bench_machine.h"
#include "devices.h"
#include "kernels.h"
#include "model/model.h"

#include <stdlib.h>
#include <string.h>

/* The least work for a token: bytes of weights read by a single one, and multiply-adds of one in a
 * prompt, without the head. */
typedef struct model_work { double bytes, madds; } model_work;

/* One model in one setting of threads and instruction set. */
typedef struct model_bench {
    const bench_settings *set;
    bench_report *report;
    const char   *path;
    qsf_model    *model;
    qsf_context  *context;
    qsf_adapter  *adapter;       /* sequence 1 has it; NULL: there is only sequence 0 */
    qsf_sampler  *sampler;       /* with qsf-run's defaults */
    int32_t      *ids;           /* of the longest prompt or depth */
    bool          on_gpu;        /* some layers are */
    uint32_t      n_vocab;
    bench_row     row;           /* what all rows of the setting have in common */
    bench_limits  limits;        /* of the machine; zeros if not asked for */
    model_work    work;
    qsf_error     error;
} model_bench;

static double bench_now_ms(void)
{
    const qsf_platform *p = qsf_platform_native();
    return (double)p->now_ns(p->user) / 1e6;
}

static uint32_t bench_largest(const bench_numbers *l)
{
    uint32_t most = 0;
    for (size_t i = 0; i < l->n; i++) if (l->v[i] > most) most = l->v[i];
    return most;
}

/* Positions that the longest test takes; at least the warm-up's. */
static uint32_t bench_positions(const bench_settings *set)
{
    const uint32_t prompt = bench_largest(&set->prompts),
        decode = bench_largest(&set->depths) + bench_largest(&set->decodes), least = 16;
    const uint32_t most = prompt > decode ? prompt : decode;
    return most > least ? most : least;
}

void bench_row_model(bench_row *r, const char *path)
{
    const char *name = path;
    for (const char *p = path; *p; p++)
        if (*p == '/' || *p == '\\') name = p + 1;
    snprintf(r->model, sizeof r->model, "%s", name);
    r->share = -1;
}

/* The embedding is read by rows, unless it is the head too. */
static model_work bench_work_of(const qsf_model *m)
{
    const qsf_source *s = m->source;
    model_work w = { 0 };
    for (uint32_t u = 0; u < s->n_units; u++)
        for (uint32_t i = s->units[u].first_tensor; i < s->units[u].first_tensor + s->units[u].n_tensors;
             i++) {
            const qsf_tensor *t = &s->tensors[i];
            if (u != qsf_unit_embd(s) || (s->hp.tied && t->kind == QSF_K_TOKEN_EMBD))
                w.bytes += (double)t->bytes;
            if (u < s->hp.n_layers && t->rows > 1) w.madds += (double)t->rows * t->cols;
        }
    return w;
}

static qsf_status bench_adapter_open(model_bench *b, qsf_context_options *o)
{
    qsf_adapter_info info = { .size = sizeof info };
    const qsf_adapter_options options = { .size = sizeof options, .exact = o->f32 };
    if (!b->set->lora) return QSF_OK;
    const qsf_status st = qsf_adapter_open(b->model, b->set->lora, &options, &b->adapter, &b->error);
    if (!st && !qsf_adapter_get_info(b->adapter, &info)) o->adapter_bytes = info.bytes;
    return st;
}

/* Maybe with layers on a GPU; the first context with some prints its name. */
static int bench_context(model_bench *b, qsf_context_options *o)
{
    char note[DEVICE_NOTE];
    if (device_context(&b->set->gpu, b->model, o, &b->context, note, &b->error))
        return report_room(&b->error);
    if (note[0] && !b->on_gpu) fprintf(stderr, "%s\n", note);
    b->on_gpu = note[0] != 0;
    return EXIT_OK;
}

static int bench_open(model_bench *b, uint32_t threads, const char *isa)
{
    qsf_model_options mo;
    qsf_context_options o;
    qsf_model_info info = { .size = sizeof info };
    qsf_stats st = { .size = sizeof st };
    qsf_plan plan = { .size = sizeof plan };
    qsf_model_defaults(&mo);
    mo.io = io_named(b->set->io);
    mo.i2s_layout = i2s_named(b->set->i2s_layout);
    if (qsf_model_open(b->path, &mo, &b->model, &b->error)) return report_room(&b->error);
    o = b->set->context;
    o.n_seqs = b->set->lora ? 2 : 1;
    o.n_ctx = o.n_seqs * bench_positions(b->set);
    o.n_threads = threads;
    o.n_logits = 1;
    o.isa = isa;
    if (bench_adapter_open(b, &o)) return report_room(&b->error);
    const int code = bench_context(b, &o);
    if (code) return code;
    const qsf_adapter_use use = { b->adapter, 1 };
    if (b->adapter && (b->error.status = qsf_seq_set_adapters(b->context, 1, &use, 1)))
        return report_context(b->context, b->error.status);
    if (qsf_sampler_new(b->model, NULL, &b->sampler, &b->error)) return report(&b->error);
    qsf_model_get_info(b->model, &info);
    qsf_context_get_stats(b->context, &st);
    qsf_context_get_plan(b->context, &plan);
    b->n_vocab = info.n_vocab;
    b->work = bench_work_of(b->model);
    b->row.threads = st.n_threads;
    b->row.memory = plan.total;
    /* figures of a GPU are not compared with those of the CPU */
    snprintf(b->row.isa, sizeof b->row.isa, b->on_gpu ? "%.18s+gpu" : "%s", st.isa);
    return EXIT_OK;
}

static void bench_close(model_bench *b)
{
    qsf_context_free(b->context);
    qsf_sampler_free(b->sampler);
    qsf_adapter_free(b->adapter);
    qsf_model_close(b->model);
    b->sampler = NULL;
    b->context = NULL;
    b->adapter = NULL;
    b->model = NULL;
}

static void bench_samples_add(bench_samples *s, double v) { s->v[s->n++] = v; }

static void bench_emit(model_bench *b, bench_samples *s, const char *unit)
{
    snprintf(b->row.unit, sizeof b->row.unit, "%s", unit);
    bench_row_figures(&b->row, s);
    bench_report_row(b->report, &b->row);
}

/* Any tokens do: the time of none depends on which it is. */
static int32_t bench_token(const model_bench *b, uint32_t i)
{
    return (int32_t)((i * 7919u + 13) % b->n_vocab);
}

/* Decodes n tokens one at a time, each with its logits, as a chat does.
 * ms: [n] time of each, or NULL; *picking: total time of sampling, not included in ms, or NULL. */
static qsf_status bench_decode_tokens(model_bench *b, qsf_seq seq, uint32_t n, double *ms, double *picking)
{
    if (picking) *picking = 0;

    const float *logits;
    qsf_status st = QSF_OK;
    for (uint32_t i = 0; !st && i < n; i++) {
        if (interrupted()) return QSF_E_CANCELLED;
        const int32_t id = bench_token(b, i * 31 + 7);
        const double begin = bench_now_ms();
        st = qsf_feed(b->context, seq, &id, 1, &logits);
        const double computed = bench_now_ms();
        if (ms) ms[i] = computed - begin;
        if (st || !picking) continue;
        (void)qsf_sampler_pick(b->sampler, logits);
        *picking += bench_now_ms() - computed;
    }
    return st;
}

/* Tokens per second as a share of the limit for one of them; unknown if the limit was not
 * measured. */
static void bench_emit_share(model_bench *b, bench_samples *s, double limit, double of_token,
                             const char *name)
{
    bench_samples sorted = *s;
    bench_row_figures(&b->row, &sorted);
    b->row.share = limit > 0 ? b->row.median * of_token / limit : -1;
    b->row.share_of = name;
    bench_emit(b, s, "tok/s");
    b->row.share = -1;
}

static void bench_part(model_bench *b, const char *test, const char *name, double v, const char *unit)
{
    bench_samples s = { .v = { v }, .n = 1 };
    snprintf(b->row.test, sizeof b->row.test, "%s %s", test, name);
    bench_emit(b, &s, unit);
}

static double bench_best(const bench_samples *s)
{
    double best = 0;
    for (size_t i = 0; i < s->n; i++) if (s->v[i] > best) best = s->v[i];
    return best;
}

/* The results of a test with the adapter, s[1], next to those without, s[0]: each repetition ran
 * both, one after the other. */
static void bench_adapter(model_bench *b, const char *test, bench_samples s[2])
{
    if (!b->adapter) return;
    const double cost = 100 * (bench_best(&s[0]) / bench_best(&s[1]) - 1);
    snprintf(b->row.test, sizeof b->row.test, "%s lora", test);
    bench_emit(b, &s[1], "tok/s");
    bench_part(b, test, "lora cost", cost, "%");
}

/* The prompt's logits are computed for its last token, as for an answer. */
static int bench_prefill(model_bench *b, uint32_t n)
{
    bench_samples s[2] = { { .n = 0 }, { .n = 0 } };
    const float *logits;
    char test[32];
    for (long long i = 0; i < b->set->reps * (b->adapter ? 2 : 1); i++) {
        const qsf_seq seq = b->adapter ? (qsf_seq)(i % 2) : 0;
        qsf_seq_truncate(b->context, seq, 0);
        const double begin = bench_now_ms();
        const qsf_status st = qsf_feed(b->context, seq, b->ids, n, &logits);
        if (st) return report_context(b->context, st);
        bench_samples_add(&s[seq], 1e3 * n / (bench_now_ms() - begin));
        if (interrupted()) return EXIT_INTERRUPTED;
    }
    snprintf(test, sizeof test, "pp%u", (unsigned)n);
    snprintf(b->row.test, sizeof b->row.test, "%s", test);
    bench_emit_share(b, &s[0], b->limits.madds, b->work.madds, "peak");
    bench_adapter(b, test, s);
    return EXIT_OK;
}

/* How the time of the tokens since the statistics were reset was spent. */
static void bench_parts(model_bench *b, const char *test)
{
    qsf_stats st = { .size = sizeof st };
    qsf_context_get_stats(b->context, &st);
    if (!st.tokens_generated || (!b->set->parts && !st.bytes_read)) return;
    const double tokens = (double)st.tokens_generated, ns = (double)st.ns_generated;
    const struct { const char *name, *unit; double v; bool streams; } parts[] = {
        { "matmul", "ms", (double)st.ns_matmul / tokens / 1e6, false },
        { "attention", "ms", (double)st.ns_attention / tokens / 1e6, false },
        { "head", "ms", (double)st.ns_head / tokens / 1e6, false },
        { "other", "ms", (double)st.ns_other / tokens / 1e6, false },
        { "wait", "ms", (double)st.ns_wait_io / tokens / 1e6, true },
        { "read", "ms", (double)st.ns_read / tokens / 1e6, true },
        { "check", "ms", (double)st.ns_check / tokens / 1e6, true },
        { "decompress", "ms", (double)st.ns_decompress / tokens / 1e6, true },
        { "prepare", "ms", (double)st.ns_prepare / tokens / 1e6, true },
        { "bytes", "MB/s", ns > 0 ? (double)st.bytes_read / ns * 1e3 : 0, true },
        { "overlap", "%", 100 * (double)st.overlap, true },
    };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (parts[i].streams && !st.bytes_read) continue;
        bench_part(b, test, parts[i].name, parts[i].v, parts[i].unit);
    }
}

/* The same by operation and by kernel. */
static void bench_operations(model_bench *b, const char *test)
{
    qsf_stats st = { .size = sizeof st };
    qsf_operation_use op = { .size = sizeof op };
    qsf_kernel_use kernel = { .size = sizeof kernel };
    qsf_context_get_stats(b->context, &st);
    const double tokens = (double)st.tokens_generated;
    for (size_t i = 0; b->set->operations && !qsf_context_get_operation(b->context, i, &op); i++)
        bench_part(b, test, op.name, (double)op.ns / tokens / 1e6, "ms");
    for (size_t i = 0; b->set->operations && !qsf_context_get_kernel(b->context, i, &kernel); i++)
        bench_part(b, test, kernel.id, (double)kernel.bytes / tokens / 1e6, "MB");
}

/* Of all tokens: the median's and the 99th percentile's time. */
static void bench_token_times(model_bench *b, const char *test, double *ms, size_t n)
{
    static const struct { const char *name; double share; } rows[] = { { "token", 0.5 },
                                                                       { "token p99", 0.99 } };
    if (!b->set->parts || !n) return;
    bench_sort(ms, n);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        bench_part(b, test, rows[i].name, ms[(size_t)(rows[i].share * (double)(n - 1) + 0.5)], "ms");
}

/* The sequences with `depth` positions, to which each repetition goes back. */
static qsf_status bench_deep(model_bench *b, uint32_t depth)
{
    qsf_status st = QSF_OK;
    for (qsf_seq seq = 0; !st && seq <= (b->adapter != NULL); seq++) {
        qsf_seq_truncate(b->context, seq, 0);
        st = depth ? qsf_feed(b->context, seq, b->ids, depth, NULL) : QSF_OK;
        if (!st) st = qsf_seq_checkpoint(b->context, seq);
    }
    qsf_context_reset_stats(b->context);
    return st;
}

static int bench_decode(model_bench *b, uint32_t n, uint32_t depth)
{
    char test[32];
    bench_samples s[2] = { { .n = 0 }, { .n = 0 } }, sampled = { .n = 0 };
    double *ms = malloc(((size_t)b->set->reps * n + 1) * sizeof *ms);
    if (!ms) {
        fputs("out of memory for the tokens' times\n", stderr);
        return EXIT_NO_MEMORY;
    }
    qsf_status st = bench_deep(b, depth);
    for (long long i = 0; !st && i < b->set->reps; i++)
        for (qsf_seq seq = 0; !st && seq <= (b->adapter != NULL); seq++) {
            qsf_seq_truncate(b->context, seq, depth);
            const double begin = bench_now_ms();
            double picking;
            st = bench_decode_tokens(b, seq, n, seq ? NULL : ms + (size_t)i * n, &picking);
            const double all = bench_now_ms() - begin;
            bench_samples_add(&s[seq], 1e3 * n / (all - picking));
            if (!seq) bench_samples_add(&sampled, 1e3 * n / all);
        }
    if (st) {
        free(ms);
        return st == QSF_E_CANCELLED ? EXIT_INTERRUPTED : report_context(b->context, st);
    }
    if (depth) snprintf(test, sizeof test, "tg%u@%u", (unsigned)n, (unsigned)depth);
    else snprintf(test, sizeof test, "tg%u", (unsigned)n);
    snprintf(b->row.test, sizeof b->row.test, "%s", test);
    bench_emit_share(b, &s[0], b->limits.read, b->work.bytes, "read");
    bench_adapter(b, test, s);
    snprintf(b->row.test, sizeof b->row.test, "%s sampled", test);
    bench_emit(b, &sampled, "tok/s");
    bench_token_times(b, test, ms, (size_t)b->set->reps * n);
    free(ms);
    bench_parts(b, test);
    bench_operations(b, test);
    return EXIT_OK;
}

static int bench_speeds(model_bench *b)
{
    const bench_settings *set = b->set;
    const uint32_t n_batch = set->context.n_batch;
    const uint32_t n_warm = n_batch < bench_positions(set) ? n_batch : bench_positions(set) - 1;
    int code = EXIT_OK;
    b->ids = malloc(bench_positions(set) * sizeof *b->ids);
    if (!b->ids) {
        fputs("out of memory for the tokens\n", stderr);
        return EXIT_NO_MEMORY;
    }
    for (uint32_t i = 0; i < bench_positions(set); i++) b->ids[i] = bench_token(b, i);
    /* The first batch reads the weights. */
    qsf_status st = qsf_feed(b->context, 0, b->ids, n_warm, NULL);
    if (!st) st = bench_decode_tokens(b, 0, 1, NULL, NULL);
    if (!st && b->adapter) st = bench_decode_tokens(b, 1, 1, NULL, NULL);
    if (st == QSF_E_CANCELLED) code = EXIT_INTERRUPTED;
    else if (st) code = report_context(b->context, st);
    for (size_t i = 0; !code && i < set->prompts.n; i++)
        if (set->prompts.v[i]) code = bench_prefill(b, set->prompts.v[i]);
    for (size_t d = 0; d < set->depths.n; d++)
        for (size_t i = 0; !code && i < set->decodes.n; i++)
            if (set->decodes.v[i]) code = bench_decode(b, set->decodes.v[i], set->depths.v[d]);
    free(b->ids);
    b->ids = NULL;
    return code;
}

/* From the path to the first token's logits, without that token's own computing: everything is in
 * memory then, whenever the engine chose to read it.  The first round only brings the file into the
 * system's cache. */
static int bench_load(model_bench *b, uint32_t threads, const char *isa)
{
    bench_samples s = { .n = 0 };
    for (long long i = 0; i <= b->set->reps; i++) {
        const double begin = bench_now_ms();
        const int code = bench_open(b, threads, isa);
        if (code) return code;
        qsf_status st = bench_decode_tokens(b, 0, 1, NULL, NULL);
        const double loaded = bench_now_ms() - begin;
        double token = 1e30;
        for (int t = 0; !st && t < 5; t++) {
            const double from = bench_now_ms();
            st = bench_decode_tokens(b, 0, 1, NULL, NULL);
            const double took = bench_now_ms() - from;
            if (took < token) token = took;
        }
        if (st == QSF_E_CANCELLED) return EXIT_INTERRUPTED;
        if (st) return report_context(b->context, st);
        if (i) bench_samples_add(&s, loaded > token ? loaded - token : 0);
        bench_close(b);
    }
    snprintf(b->row.test, sizeof b->row.test, "load");
    bench_emit(b, &s, "ms");
    return EXIT_OK;
}

/* The model reports its instruction set; the limits are measured while it is not in memory. */
static int bench_machine_of(model_bench *b, uint32_t threads, const char *isa)
{
    qsf_kernels k;
    const qsf_platform *p = qsf_platform_native();
    if (qsf_kernels_init(&k, p->cpu_features(p->user), isa ? isa : getenv("QSF_ISA"), &b->error))
        return report(&b->error);
    return bench_machine(b->set, b->report, threads, k.isa, &b->limits);
}

static int bench_setting(model_bench *b, uint32_t threads, const char *isa)
{
    bench_row_model(&b->row, b->path);
    int code = b->set->limits ? bench_machine_of(b, threads, isa) : EXIT_OK;
    if (!code && b->set->load) code = bench_load(b, threads, isa);
    if (!code && (bench_largest(&b->set->prompts) || bench_largest(&b->set->decodes))
        && !(code = bench_open(b, threads, isa)))
        code = bench_speeds(b);
    bench_close(b);
    return code;
}

int bench_models(const bench_settings *set, bench_report *rep)
{
    for (size_t m = 0; m < set->models.n; m++)
        for (size_t i = 0; i < (set->isas.n ? set->isas.n : 1); i++)
            for (size_t t = 0; t < set->threads.n; t++) {
                model_bench b = { .set = set, .report = rep, .path = set->models.items[m] };
                const int code = bench_setting(&b, set->threads.v[t], set->isas.n ? set->isas.v[i] : NULL);
                if (code) return code;
            }
    return EXIT_OK;
}
