/* --bench, --verbose and /stats: what the model takes and how fast it is.
 * SPDX-License-Identifier: MIT */
#include "run.h"

#include <stdlib.h>

static double rate(uint64_t tokens, uint64_t ns) { return ns ? (double)tokens * 1e9 / (double)ns : 0; }

void print_memory(run_session *s)
{
    qsf_plan plan = { .size = sizeof plan };
    qsf_model_info info = { .size = sizeof info };
    qsf_stats st = { .size = sizeof st };
    qsf_context_get_plan(s->context, &plan);
    qsf_context_get_stats(s->context, &st);
    qsf_model_get_info(s->model, &info);
    fprintf(stderr, "model    %s (%s, %s): %.1f M weights in %.1f MB, %u layers\n",
            info.name[0] ? info.name : "without a name", info.arch, info.format, (double)info.n_params / 1e6,
            (double)info.weight_bytes / 1e6, info.n_layers);
    fprintf(stderr, "kernels  %s, %u threads\n", st.isa, st.n_threads);
    if (st.io) fprintf(stderr, "file     read by %s\n", st.io);
    fprintf(stderr, "memory   %.1f MB, context %u, ", (double)plan.total / 1e6, plan.n_ctx);
    if (plan.resident) fprintf(stderr, "all layers in memory\n");
    else if (s->asked.device_layers) fprintf(stderr, "layers pass through to the GPU\n");
    else if (plan.n_slots) fprintf(stderr, "layers stream through %u buffers\n", plan.n_slots);
    else fprintf(stderr, "layers in memory, experts stream\n");
    for (size_t i = 0; i < plan.n_items; i++)
        fprintf(stderr, "  %-28s %10.2f MB\n", plan.items[i].name, (double)plan.items[i].bytes / 1e6);
    adapters_print(s);
    if (!s->drafter) return;
    draft_model_plan(s->drafter, &plan);
    fprintf(stderr, "draft    %.1f MB more, context %u\n", (double)plan.total / 1e6, plan.n_ctx);
}

/* Resident memory and page cache, which is not the process's. */
static void print_usage(run_session *s)
{
    qsf_usage u = { .size = sizeof u };
    qsf_model_get_usage(s->model, &u);
    if (u.resident) {
        fprintf(stderr, "resident %.1f MB now, %.1f MB at most", (double)u.resident / 1e6,
                (double)u.peak / 1e6);
        if (u.own)
            fprintf(stderr, " (now %.1f MB its own, %.1f MB of program files)", (double)u.own / 1e6,
                    (double)u.files / 1e6);
        fputc('\n', stderr);
    }
    if (u.cached)
        fprintf(stderr,
                "page cache %.1f MB of the model's file, which the system reclaims when it needs memory\n",
                (double)u.cached / 1e6);
}

void print_times(run_session *s)
{
    qsf_stats st = { .size = sizeof st };
    print_usage(s);
    qsf_context_get_stats(s->context, &st);
    fprintf(stderr, "prompt   %llu tokens, %.1f tok/s\n", (unsigned long long)st.tokens_prompt,
            rate(st.tokens_prompt, st.ns_prompt));
    qsf_turn_state turn = { .size = sizeof turn };
    if (s->turn) {              /* NULL with --embedding */
        qsf_turn_get_state(s->turn, &turn);
        fprintf(stderr, "answer   %llu tokens, %.1f tok/s", (unsigned long long)s->n_answered,
                rate(s->n_intervals, s->ns_intervals));
        if (turn.n_guessed)
            fprintf(stderr, "; %llu of %llu draft tokens accepted", (unsigned long long)turn.n_right,
                    (unsigned long long)turn.n_guessed);
        fprintf(stderr, "\n");
    }
    fprintf(stderr, "time     matmul %.0f ms, attention %.0f ms, head %.0f ms, sampling %.0f ms, other %.0f "
                    "ms, waiting for layers %.0f ms\n",
            (double)st.ns_matmul / 1e6, (double)st.ns_attention / 1e6, (double)st.ns_head / 1e6,
            (double)turn.ns_sampling / 1e6, (double)st.ns_other / 1e6,
            (double)st.ns_wait_io / 1e6);
    fprintf(stderr,
            "layers   %.1f MB read in %.0f ms, prepared in %.0f ms (checked %.0f ms, decompressed %.0f ms); "
            "%.0f %% of this while computing\n", (double)st.bytes_read / 1e6, (double)st.ns_read / 1e6,
            (double)st.ns_prepare / 1e6, (double)st.ns_check / 1e6, (double)st.ns_decompress / 1e6,
            100.0 * (double)st.overlap);
    if (st.experts_used)
        fprintf(stderr, "experts  %llu chosen by batches, %.1f %% of them in memory; %llu read, %.1f MB\n",
                (unsigned long long)st.experts_used,
                100.0 * (double)st.experts_found / (double)st.experts_used,
                (unsigned long long)st.experts_read, (double)st.experts_bytes / 1e6);
    if (st.adapter_bytes)
        fprintf(stderr, "adapters %.1f MB read with their layers\n", (double)st.adapter_bytes / 1e6);
    if (st.layers_left)
        fprintf(stderr, "skipped  %.1f layers per token, by early exit\n",
                (double)st.layers_left / (double)st.tokens_generated);
}

/* Feeds a prompt, then an answer token by token, which are picked and not used; *sampling is what
 * picking took. */
static qsf_status bench_once(run_session *s, const int32_t *ids, uint32_t n_prompt, uint32_t n_answer,
                             uint64_t *sampling)
{
    const float *logits;
    qsf_context_reset_stats(s->context);
    qsf_seq_truncate(s->context, 0, 0);
    qsf_status e = qsf_feed(s->context, 0, ids, n_prompt, NULL);
    *sampling = 0;
    for (uint32_t i = 0; !e && i < n_answer; i++) {
        e = qsf_feed(s->context, 0, &ids[i], 1, &logits);
        const uint64_t begin = clock_ns();
        if (!e) (void)qsf_sampler_pick(s->sampler, logits);
        *sampling += clock_ns() - begin;
    }
    return e;
}

/* Prefill of 512 tokens and decode of 128 sampled tokens, three times each; reports the best. */
int run_bench(run_session *s)
{
    enum { PROMPT = 512, ANSWER = 128, TIMES = 3 };
    qsf_plan plan = { .size = sizeof plan };
    qsf_model_info info = { .size = sizeof info };
    qsf_stats st = { .size = sizeof st };
    double best[2] = { 0, 0 };
    uint64_t read = 0, wall = 0, sampling = 0;
    qsf_context_get_plan(s->context, &plan);
    qsf_model_get_info(s->model, &info);
    const uint32_t n_prompt = plan.n_ctx < PROMPT + ANSWER ? plan.n_ctx / 2 : PROMPT;
    const uint32_t n_answer = plan.n_ctx < PROMPT + ANSWER ? plan.n_ctx / 4 : ANSWER;
    int32_t ids[PROMPT];
    for (uint32_t i = 0; i < PROMPT; i++) ids[i] = (int32_t)((i * 7919u + 13) % info.n_vocab);
    for (int t = 0; t <= TIMES; t++) {              /* the first one loads the weights */
        const qsf_status e = bench_once(s, ids, n_prompt, n_answer, &sampling);
        if (e) return report_context(s->context, e);
        if (interrupted()) return EXIT_INTERRUPTED;
        qsf_context_get_stats(s->context, &st);
        const double r[2] = { rate(st.tokens_prompt, st.ns_prompt),
                              rate(st.tokens_generated, st.ns_generated + sampling) };
        for (int i = 0; t > 0 && i < 2; i++)
            if (r[i] > best[i]) best[i] = r[i];
        read = st.bytes_read;
        wall = st.ns_prompt + st.ns_generated + sampling;
    }
    if (s->set->json)
        printf("{\"isa\":\"%s\",\"threads\":%u,\"prefill_tokens\":%u,\"prefill_tok_s\":%.2f,"
               "\"decode_tokens\":%u,\"decode_tok_s\":%.2f,\"memory\":%llu,\"bytes_read\":%llu,"
               "\"bytes_s\":%.0f,\"overlap\":%.3f,\"ms\":{\"wall\":%.1f,\"wait\":%.1f,\"read\":%.1f,"
               "\"check\":%.1f,\"decompress\":%.1f,\"prepare\":%.1f,\"matmul\":%.1f,"
               "\"attention\":%.1f,\"head\":%.1f,\"sampling\":%.1f,\"other\":%.1f}}\n",
               st.isa, st.n_threads, n_prompt, best[0], n_answer, best[1],
               (unsigned long long)plan.total, (unsigned long long)read, rate(read, wall), (double)st.overlap,
               (double)wall / 1e6, (double)st.ns_wait_io / 1e6, (double)st.ns_read / 1e6,
               (double)st.ns_check / 1e6, (double)st.ns_decompress / 1e6, (double)st.ns_prepare / 1e6,
               (double)st.ns_matmul / 1e6, (double)st.ns_attention / 1e6, (double)st.ns_head / 1e6,
               (double)sampling / 1e6, (double)st.ns_other / 1e6);
    else {
        printf("prefill %u tokens  %9.1f tok/s\ndecode  %u tokens  %9.1f tok/s\n(%s, %u threads, %.1f MB)\n",
               n_prompt, best[0], n_answer, best[1], st.isa, st.n_threads, (double)plan.total / 1e6);
        printf("matmul %.0f ms, attention %.0f ms, head %.0f ms, sampling %.0f ms, waiting for layers %.0f "
               "ms of %.0f ms\n", (double)st.ns_matmul / 1e6, (double)st.ns_attention / 1e6,
               (double)st.ns_head / 1e6, (double)sampling / 1e6, (double)st.ns_wait_io / 1e6,
               (double)wall / 1e6);
        if (read)
            printf("%.1f MB read, %.1f MB/s; read %.0f ms, check %.0f ms, decompress %.0f ms, prepare %.0f "
                   "ms in all: %.0f %% while computing\n", (double)read / 1e6, rate(read, wall) / 1e6,
                   (double)st.ns_read / 1e6, (double)st.ns_check / 1e6, (double)st.ns_decompress / 1e6,
                   (double)st.ns_prepare / 1e6, 100.0 * (double)st.overlap);
    }
    return EXIT_OK;
}
