/* Counters and histograms that both threads write and /metrics shows.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_SERVE_METRICS_H
#define QSF_SERVE_METRICS_H

#include "text.h"

#include <stdatomic.h>
#include <stdint.h>

/* name, kind, help: metrics.c prints this list. */
#define SERVE_METRICS(X) \
    X(requests_total, "counter", "Accepted requests") \
    X(refused_total, "counter", "Requests rejected because the queue was full") \
    X(cancelled_total, "counter", "Requests cancelled by a disconnect or a timeout") \
    X(failed_total, "counter", "Answers that ended with an error") \
    X(prompt_tokens_total, "counter", "Prompt tokens") \
    X(kept_tokens_total, "counter", "Prompt tokens that were cached") \
    X(generated_tokens_total, "counter", "Generated tokens") \
    X(steps_total, "counter", "Batches computed") \
    X(rows_total, "counter", "Rows of all batches") \
    X(gather_ns_total, "counter", "Nanoseconds spent choosing the rows of steps") \
    X(deliver_ns_total, "counter", "Nanoseconds spent sampling and delivering tokens") \
    X(sample_ns_total, "counter", "Nanoseconds spent sampling tokens") \
    X(drafts_total, "counter", "Draft tokens") \
    X(drafts_accepted_total, "counter", "Accepted draft tokens") \
    X(streamed_bytes_total, "counter", "Bytes read from the model's file while it runs") \
    X(preempted_total, "counter", "Answers preempted for lack of memory") \
    X(preempted_to_disk_total, "counter", "Preempted answers moved to disk, not recomputed") \
    X(swap_out_total, "counter", "Sequences written to disk") \
    X(swap_in_total, "counter", "Sequences read back from disk") \
    X(swap_dropped_total, "counter", "Sequences dropped because the disk or its buffer was full") \
    X(swap_errors_total, "counter", "Sequences that could not be written or read") \
    X(swap_copy_ns_total, "counter", "Nanoseconds in which steps waited for copies of sequences") \
    X(swap_file_ns_total, "counter", "Nanoseconds spent writing and reading sequences, alongside the steps") \
    X(swap_written_bytes_total, "counter", "Bytes of sequences written to disk") \
    X(swap_read_bytes_total, "counter", "Bytes of sequences read from disk") \
    X(evicted_total, "counter", "Evicted cached sequences") \
    X(prefix_hits_total, "counter", "Prompts of which a part was cached") \
    X(prefix_misses_total, "counter", "Prompts of which nothing was cached") \
    X(grammar_hits_total, "counter", "Grammars that were cached") \
    X(grammar_misses_total, "counter", "Grammars that had to be compiled") \
    X(adapter_requests_total, "counter", "Accepted requests with adapters") \
    X(step_ns_total, "counter", "Nanoseconds in steps of the engine") \
    X(schedule_ns_total, "counter", "Nanoseconds between the steps, while there was work") \
    X(running, "gauge", "Answers in progress") \
    X(waiting, "gauge", "Queued answers") \
    X(embedding_requests, "gauge", "Embedding and scoring requests, in progress or queued") \
    X(batch_rows, "gauge", "Rows of the last batch") \
    X(kv_blocks, "gauge", "Blocks for keys and values") \
    X(kv_blocks_used, "gauge", "Blocks in use") \
    X(kv_blocks_free, "gauge", "Free blocks") \
    X(kv_blocks_shared, "gauge", "Blocks saved by sharing") \
    X(kv_positions, "gauge", "Positions of all sequences") \
    X(kv_block_positions, "gauge", "Positions per block") \
    X(kept_sequences, "gauge", "Cached sequences") \
    X(gpu_layers, "gauge", "Layers that a GPU computes") \
    X(adapters, "gauge", "Adapters in memory") \
    X(adapter_bytes, "gauge", "Their bytes") \
    X(swap_sequences, "gauge", "Sequences on disk") \
    X(swap_bytes, "gauge", "Their bytes")

enum { HISTOGRAM_BUCKETS = 16 };
typedef struct serve_histogram {
    atomic_ullong count[HISTOGRAM_BUCKETS + 1], sum_ns;      /* of sizes their sum */
} serve_histogram;

typedef struct serve_metrics {
#define X(name, kind, help) atomic_ullong name;
    SERVE_METRICS(X)
#undef X
    serve_histogram first_token, between_tokens, queue_time, request_time, batch_size;
} serve_metrics;

static inline void metric_add(atomic_ullong *m, uint64_t n)
{
    atomic_fetch_add_explicit(m, n, memory_order_relaxed);
}
static inline void metric_sub(atomic_ullong *m, uint64_t n)
{
    atomic_fetch_sub_explicit(m, n, memory_order_relaxed);
}
static inline void metric_set(atomic_ullong *m, uint64_t n)
{
    atomic_store_explicit(m, n, memory_order_relaxed);
}
static inline uint64_t metric_get(atomic_ullong *m) { return atomic_load_explicit(m, memory_order_relaxed); }
void metric_time(serve_histogram *h, uint64_t ns);
void metric_size(serve_histogram *h, uint64_t n);
void metrics_rest(serve_metrics *m);         /* gauges go to 0 */
/* The text of Prometheus, of everything.  labels: of each, as "model=\"...\"", or "". */
void metrics_write(serve_metrics *const *m, const char *const *labels, unsigned n, serve_text *out);

#endif
