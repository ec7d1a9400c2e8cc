/* Inputs that are embedded or scored: in, through batches, and out.
 * SPDX-License-Identifier: MIT */
#include "scheduler.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static seq_pool *embed_pool(embedder *e) { return &e->scheduler->pool; }

static uint32_t text_len(const embed_text *t) { return (uint32_t)t->job->prompts[t->index].n; }

/* The pooling for one vector: a reranker's is that of the token that its classifier reads. */
static qsf_pooling embed_pooling(const qsf_model_info *info, qsf_pooling asked)
{
    if (!asked) asked = info->pooling;
    if (asked == QSF_POOL_TOKENS || !asked) return QSF_POOL_MEAN;
    return asked != QSF_POOL_RANK ? asked : info->encoder ? QSF_POOL_FIRST : QSF_POOL_LAST;
}

void embed_begin(embedder *e, struct scheduler *s, qsf_context *c, const serve_engine_options *so)
{
    qsf_model_info info = { .size = sizeof info };
    qsf_context_options o = { 0 };
    qsf_plan plan = { .size = sizeof plan };
    qsf_model_get_info(qsf_context_model(c), &info);
    qsf_context_get_plan(c, &plan);
    o.kv_window = plan.kv_window;
    *e = (embedder){ .scheduler = s, .pooling = embed_pooling(&info, so->pooling),
                     .n_embd = info.n_embd, .n_vocab = info.n_vocab, .whole = info.encoder,
                     .first_seq = so->slots + so->kept,
                     .n_seqs = embed_seqs(&o) };
}

bool embed_wants(const serve_job *j) { return j->embeddings || serve_request_scores(&j->request); }

void embed_add(embedder *e, serve_job *j)
{
    serve_job **at = &e->jobs;
    while (*at) at = &(*at)->next;
    *at = j;
    metric_add(&e->scheduler->metrics->embedding_requests, 1);
    for (unsigned i = 0; i < j->n_prompts && j->embeddings; i++)
        metric_add(&e->scheduler->metrics->prompt_tokens_total, j->prompts[i].n);
}

/* ---- the end of an input, and of a job ---- */

static void text_end(embedder *e, unsigned i)
{
    const embed_text *t = &e->texts[i];
    const serve_lora none = { 0 };
    (void)qsf_seq_truncate(embed_pool(e)->context, t->seq, 0);
    (void)seq_adapt(embed_pool(e), t->seq, &none);
    e->taken &= ~(1u << ((uint32_t)t->seq - e->first_seq));
    memmove(e->texts + i, e->texts + i + 1, (--e->n_texts - i) * sizeof *e->texts);
}

/* Ends its inputs, and removes it from the list. */
static void job_leave(embedder *e, serve_job *j)
{
    serve_metrics *m = e->scheduler->metrics;
    serve_job **at = &e->jobs;
    for (unsigned i = e->n_texts; i-- > 0;)
        if (e->texts[i].job == j) text_end(e, i);
    while (*at != j) at = &(*at)->next;
    *at = j->next;
    j->next = NULL;
    (void)seq_pool_blocks(embed_pool(e));
    metric_set(&m->embedding_requests, metric_get(&m->embedding_requests) - 1);
}

static void job_end(embedder *e, serve_job *j, qsf_turn_end end, bool late, qsf_status st, const char *why)
{
    serve_metrics *m = e->scheduler->metrics;
    serve_event done = { .kind = EVENT_END, .job = j, .end = end, .late = late, .len = (uint32_t)strlen(why),
                         .status = st };
    job_leave(e, j);
    for (unsigned i = 0; i < j->n_prompts; i++) done.n_prompt += (uint32_t)j->prompts[i].n;
    metric_time(&m->request_time, serve_now() - j->arrived_ns);
    if (end == QSF_TURN_FAILED) metric_add(&m->failed_total, 1);
    if (end == QSF_TURN_CANCELLED) metric_add(&m->cancelled_total, 1);
    for (unsigned i = 0; i < j->n_branches; i++) {
        done.branch = (uint16_t)i;
        engine_post(e->scheduler->engine, &done, NULL, why);
    }
    for (unsigned i = j->n_branches; i-- > 0;) engine_branch_over(e->scheduler->engine, j->branches);
}

void embed_look(embedder *e, uint64_t now)
{
    for (serve_job *j = e->jobs, *next; j; j = next) {
        const bool late = j->deadline_ns && j->deadline_ns <= now;
        next = j->next;
        if (late || atomic_load_explicit(&j->cancelled, memory_order_relaxed))
            job_end(e, j, QSF_TURN_CANCELLED, late, QSF_OK, "");
    }
}

/* ---- rows ---- */

/* The job with the next input: of the highest priority, the one that has begun the fewest, so that
 * a short one does not wait for the end of a long one. */
static serve_job *embed_next(const embedder *e)
{
    serve_job *best = NULL;
    for (serve_job *j = e->jobs; j; j = j->next) {
        if (j->n_begun == j->n_prompts) continue;
        if (!best || j->request.priority > best->request.priority
            || (j->request.priority == best->request.priority && j->n_begun < best->n_begun)) best = j;
    }
    return best;
}

/* Begins inputs, as many as fill the rows. */
static void embed_let_in(embedder *e, uint32_t left)
{
    uint32_t rows = 0;
    serve_job *j;
    for (unsigned i = 0; i < e->n_texts; i++) rows += text_len(&e->texts[i]) - e->texts[i].n_done;
    while (rows < left && e->n_texts < e->n_seqs && (j = embed_next(e))) {
        uint32_t s = 0;
        while (e->taken >> s & 1) s++;
        if (!j->n_begun) metric_time(&e->scheduler->metrics->queue_time, serve_now() - j->arrived_ns);
        e->taken |= 1u << s;
        e->texts[e->n_texts] = (embed_text){ .job = j, .index = j->n_begun++,
                                             .seq = (qsf_seq)(e->first_seq + s) };
        const embed_text *t = &e->texts[e->n_texts++];
        const qsf_status st = seq_adapt(embed_pool(e), t->seq, &j->lora);
        if (st) job_end(e, j, QSF_TURN_FAILED, false, st, qsf_last_error(embed_pool(e)->context));
        else rows += text_len(t);
    }
}

uint32_t embed_gather(embedder *e, uint32_t n, uint32_t left, uint32_t taken)
{
    seq_pool *p = embed_pool(e);
    const uint32_t begin = n;
    uint32_t asked = 0;
    bool hidden = false;
    for (uint32_t i = 0; i < n; i++) asked += e->scheduler->rows[i].logits;
    for (unsigned i = 0; i < e->n_texts; i++) e->texts[i].n_rows = 0;
    if (left) embed_let_in(e, left);
    for (unsigned i = 0; i < e->n_texts && left; i++) {
        embed_text *t = &e->texts[i];
        const int32_t *ids = t->job->prompts[t->index].ids + t->n_done;
        const bool scores = !t->job->embeddings;
        uint32_t rows = text_len(t) - t->n_done < left ? text_len(t) - t->n_done : left;
        const uint32_t most = e->scheduler->n_logits, room = asked < most ? most - asked : 0;
        if (scores && rows > room) rows = room;
        (void)seq_make_room(p, taken + qsf_schedule_blocks(p->schedule, t->seq, rows), -1);
        const uint32_t fit = qsf_schedule_fit(p->schedule, t->seq, p->n_free > taken ? p->n_free - taken : 0);
        if (rows > fit) rows = fit;
        if (e->whole && rows < text_len(t)) continue;
        taken += qsf_schedule_blocks(p->schedule, t->seq, rows);
        t->n_rows = rows;
        t->first = scores ? asked : n;
        asked += scores ? rows : 0;
        hidden |= !scores;
        for (uint32_t k = 0; k < rows; k++)
            e->scheduler->rows[n++] = (qsf_row){ t->seq, ids[k], scores };
        left -= rows;
        e->scheduler->served[t->job->key % SERVE_KEYS] += rows;
    }
    qsf_hidden_ask(p->context, hidden);
    return n - begin;
}

bool embed_yield(embedder *e)
{
    for (unsigned i = e->n_texts; i-- > 0;) {
        embed_text *t = &e->texts[i];
        if (!t->n_done) continue;
        (void)qsf_seq_truncate(embed_pool(e)->context, t->seq, 0);
        t->n_done = 0;
        seq_pool_blocks(embed_pool(e));
        metric_add(&e->scheduler->metrics->preempted_total, 1);
        return true;
    }
    return false;
}

void embed_full(embedder *e)
{
    if (e->jobs)
        job_end(e, e->jobs, QSF_TURN_FAILED, false, QSF_E_FULL, "the context has no room for the text");
}

/* ---- results ---- */

/* Reports a token of a prompt to all answers to it. */
static void token_tell(embedder *e, embed_text *t, const qsf_logprob *logprobs, uint32_t n, uint32_t rank)
{
    const unsigned each = serve_request_each(&t->job->request);
    for (unsigned i = 0; i < each; i++) {
        serve_event told = { .kind = EVENT_PROMPT, .branch = (uint16_t)(t->index * each + i), .job = t->job,
                             .token = t->job->prompts[t->index].ids[t->n_told], .n_logprobs = n,
                             .n_tokens = rank };
        engine_post(e->scheduler->engine, &told, logprobs, "");
    }
    t->n_told++;
}

/* Writes the log probability of a token to list[0], and those of the n most likely tokens after it,
 * best first.  Returns the number of entries. */
static uint32_t score_logprobs(const float *logits, uint32_t n_vocab, int32_t token, qsf_logprob *list,
                               uint32_t n)
{
    float top = logits[0];
    double sum = 0;
    uint32_t found = 0;
    qsf_logprob *best = list + 1;
    for (uint32_t i = 0; i < n_vocab; i++) top = logits[i] > top ? logits[i] : top;
    for (uint32_t i = 0; i < n_vocab; i++) sum += (double)expf(logits[i] - top);
    const float all = (float)(top + log(sum));
    for (uint32_t i = 0; i < n_vocab && n; i++) {
        if (found == n && !(logits[i] > best[n - 1].logprob)) continue;
        uint32_t at = found < n ? found++ : n - 1;
        for (; at && best[at - 1].logprob < logits[i]; at--) best[at] = best[at - 1];
        best[at] = (qsf_logprob){ (int32_t)i, logits[i] };
    }
    for (uint32_t i = 0; i < found; i++) best[i].logprob -= all;
    list[0] = (qsf_logprob){ token, logits[token] - all };
    return 1 + found;
}

/* The place of a token among all, the most likely one first. */
static uint32_t score_rank(const float *logits, uint32_t n_vocab, int32_t token)
{
    uint32_t rank = 1;
    for (uint32_t i = 0; i < n_vocab; i++) rank += logits[i] > logits[token];
    return rank;
}

/* A row's logits predict the token after it. */
static void text_score(embedder *e, embed_text *t)
{
    qsf_logprob list[1 + QSF_LOGPROBS_MOST];
    const int32_t *ids = t->job->prompts[t->index].ids;
    if (!t->n_told) token_tell(e, t, NULL, 0, 0);
    for (uint32_t k = 0; k < t->n_rows; k++) {
        const uint32_t next = t->n_done + k + 1;
        if (next < t->n_told || next >= text_len(t)) continue;      /* reported before the restart */
        const float *logits = qsf_logits(embed_pool(e)->context, t->first + k);
        token_tell(e, t, list, score_logprobs(logits, e->n_vocab, ids[next], list,
                                              serve_request_scored(&t->job->request)),
                   score_rank(logits, e->n_vocab, ids[next]));
    }
}

/* Pools its rows; if that fails, its job ends. */
static qsf_status text_pool(embedder *e, const embed_text *t)
{
    qsf_context *c = embed_pool(e)->context;
    serve_job *j = t->job;
    const qsf_embed_options o = { .size = sizeof o, .pooling = j->ranks ? QSF_POOL_RANK : e->pooling };
    const qsf_status st = qsf_hidden_embed(c, t->first, t->n_rows, t->n_done, text_len(t), &o,
                                           j->embeddings + (size_t)t->index * e->n_embd);
    if (st) job_end(e, j, QSF_TURN_FAILED, false, st, qsf_last_error(c));
    return st;
}

static void text_computed(embedder *e, unsigned i)
{
    embed_text *t = &e->texts[i];
    serve_job *j = t->job;
    if (!j->embeddings) text_score(e, t);
    else if (text_pool(e, t)) return;
    t->n_done += t->n_rows;
    if (t->n_done < text_len(t)) return;
    text_end(e, i);
    if (++j->n_embedded < j->n_prompts) return;
    if (j->embeddings) {
        job_end(e, j, QSF_TURN_MOST, false, QSF_OK, "");
    } else {
        job_leave(e, j);
        scheduler_enter(e->scheduler, j);
    }
}

void embed_deliver(embedder *e, qsf_status st)
{
    char why[400] = "";
    if (st) snprintf(why, sizeof why, "%s", qsf_last_error(embed_pool(e)->context));
    for (unsigned i = e->n_texts; i-- > 0;) {
        if (i >= e->n_texts || !e->texts[i].n_rows) continue;      /* others have gone with their job */
        if (st) job_end(e, e->texts[i].job, QSF_TURN_FAILED, false, st, why);
        else text_computed(e, i);
    }
}
