/* The pipeline: batches are passed from rank to rank, and logits back to rank 0, which has the
 * texts.
 * SPDX-License-Identifier: MIT
 *
 * Every rank should be busy all the time.  So a prompt is split into batches of a few rows, and
 * only the last is waited for; and decoding texts are split into as many batches as there are
 * ranks: while one batch is on rank 1, rank 0 computes the next.  Messages are always in the order
 * of batches. */
#include "job.h"
#include "link.h"
#include "pipe_message.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct text {
    int32_t *ids;
    size_t   n_ids, n_prompt, n_sent;
    bool     waits, done;
    uint64_t hash;              /* of all its logits */
    qsf_sampler *sampler;
} text;

typedef struct flight { size_t n; int32_t seqs[256]; } flight;      /* texts whose logits are needed */

typedef struct lead {
    job    *j;
    text   *texts;
    size_t  n_texts, n_left;
    qsf_row *rows;
    flight *flights;            /* a ring, those under way from `from` on */
    size_t  n_flights, from, under_way;
    size_t  n_decoded;
} lead;

static void *need(size_t n, size_t size)
{
    void *p = calloc(n, size);
    if (!p) link_fail("out of memory");
    return p;
}

/* The states of a batch, to the next rank; states NULL: of the one that was just computed here. */
static void send_batch(const job *j, const qsf_row *rows, size_t n, const float *states, size_t ld)
{
    const pipe_message m = { .kind = PIPE_BATCH, .as.batch = { (uint32_t)n, j->wire } };
    const size_t row = wire_bytes(j->wire, j->info.n_embd);
    unsigned char *at = pipe_begin(&m, n * (sizeof *rows + row));
    memcpy(at, rows, n * sizeof *rows);
    at += n * sizeof *rows;
    for (size_t i = 0; i < n; i++, at += row)
        wire_pack(j->wire, at, states ? states + i * ld : qsf_batch_states(j->c, i), j->info.n_embd);
    link_go(link_rank + 1);
}

/* A message, with its tail, to the next rank, if there is one. */
static void forward(const pipe_message *m, const void *tail, size_t n_tail)
{
    if (link_rank + 1 == link_ranks) return;
    unsigned char *at = pipe_begin(m, n_tail);
    if (n_tail) memcpy(at, tail, n_tail);
    link_go(link_rank + 1);
}

/* Truncates sequence 0, here and on the later ranks, which report its length. */
static void try_length(job *j, const pipe_message *m)
{
    if (qsf_seq_truncate(j->c, 0, m->as.try_length.length)) link_fail("%s", qsf_last_error(j->c));
    forward(m, NULL, 0);
    if (link_rank)
        pipe_send(0, &(pipe_message){ .kind = PIPE_LENGTH, .as.length = { qsf_seq_length(j->c, 0) } });
}

/* ---- the ranks after rank 0 ---- */

/* A sequence gets adapters, by their numbers among this rank's. */
static qsf_status set_adapters(job *j, const pipe_message *m)
{
    const uint32_t n = m->as.adapt.n_adapters;
    job_adapter asked[JOB_ADAPTERS];
    qsf_adapter_use uses[JOB_ADAPTERS];
    if (n > JOB_ADAPTERS || m->n_tail != n * sizeof *asked)
        link_fail("rank %d sent a damaged list of adapters", link_rank - 1);
    if (n) memcpy(asked, m->tail, m->n_tail);
    for (uint32_t i = 0; i < n; i++) {
        qsf_adapter *a = asked[i].number < j->n_adapters ? j->adapters[asked[i].number] : NULL;
        if (!a) link_fail("rank 0 uses an adapter that this rank does not have");
        uses[i] = (qsf_adapter_use){ a, asked[i].scale };
    }
    forward(m, asked, m->n_tail);
    return qsf_seq_set_adapters(j->c, m->as.adapt.seq, uses, n);
}

static void load_adapter(job *j, const pipe_message *m)
{
    char path[1024];
    const pipe_load *load = &m->as.load;
    pipe_message answer = { .kind = PIPE_LOADED, .as.loaded.number = load->number };
    if (!m->n_tail || m->n_tail > sizeof path || m->tail[m->n_tail - 1])
        link_fail("rank %d sent a damaged adapter path", link_rank - 1);
    memcpy(path, m->tail, m->n_tail);
    forward(m, path, m->n_tail);        /* all read at the same time */
    job_adapter_asked(j, load->number, path, (uint64_t)load->hash_high << 32 | load->hash_low,
                      &answer.as.loaded.error);
    pipe_send(0, &answer);
}

static void send_logits(const job *j, const qsf_row *rows, size_t n)
{
    pipe_message m = { .kind = PIPE_LOGITS };
    const size_t row = j->info.n_vocab * sizeof(float);
    for (size_t i = 0; i < n; i++) m.as.logits.n_rows += rows[i].logits;
    if (!m.as.logits.n_rows) return;
    unsigned char *out = pipe_begin(&m, m.as.logits.n_rows * row);
    for (uint32_t i = 0; i < m.as.logits.n_rows; i++) memcpy(out + i * row, qsf_logits(j->c, i), row);
    link_go(0);
}

static void compute_batch(job *j, const pipe_message *m, qsf_row *rows, float *x)
{
    const uint32_t n = m->as.batch.n_rows;
    const wire packed = (wire)m->as.batch.wire;
    const size_t row = wire_bytes(packed, j->info.n_embd);
    const unsigned char *at = m->tail;
    if (!n || n > j->n_batch || m->as.batch.wire >= N_WIRES || m->n_tail != n * (sizeof *rows + row))
        link_fail("rank %d sent a damaged batch", link_rank - 1);
    memcpy(rows, at, n * sizeof *rows);
    at += n * sizeof *rows;
    for (uint32_t i = 0; i < n; i++, at += row)
        wire_unpack(packed, x + (size_t)i * j->info.n_embd, at, j->info.n_embd);
    job_compute(j, rows, n, x);
    if (link_rank + 1 < link_ranks) send_batch(j, rows, n, NULL, 0);
    else send_logits(j, rows, n);
}

/* What rank 0 has done with its sequences, done here. */
static qsf_status follow_seq(job *j, const pipe_message *m)
{
    if (m->kind == PIPE_ADAPT) return set_adapters(j, m);
    const pipe_share *share = &m->as.share;
    const pipe_truncate *cut = &m->as.truncate;
    const qsf_status st = m->kind == PIPE_SHARE
        ? qsf_seq_share(j->c, share->dst, share->src, share->length)
        : qsf_seq_truncate(j->c, cut->seq, cut->length);
    if (!st) forward(m, NULL, 0);
    return st;
}

void job_follow(job *j)
{
    pipe_message m = { .kind = PIPE_N_KINDS };
    qsf_row *rows = need(j->n_batch, sizeof *rows);
    float *x = need((size_t)j->n_batch * j->info.n_embd, sizeof *x);
    while (pipe_receive(link_rank - 1, true, &m) && m.kind != PIPE_END) {
        switch (m.kind) {
        case PIPE_BATCH: compute_batch(j, &m, rows, x); break;
        case PIPE_TRY_LENGTH: try_length(j, &m); break;
        case PIPE_TRUNCATE: case PIPE_SHARE: case PIPE_ADAPT:
            if (follow_seq(j, &m)) link_fail("%s", qsf_last_error(j->c));
            break;
        case PIPE_LOAD: load_adapter(j, &m); break;
        case PIPE_DROP:
            forward(&m, NULL, 0);
            job_adapter_close(j, m.as.drop.number);
            break;
        default: link_fail("rank %d sent a message that is for rank 0", link_rank - 1);
        }
    }
    forward(&m, NULL, 0);
    free(rows);
    free(x);
}

/* ---- rank 0: one sequence ---- */

/* The logits in a message, which must be of n rows. */
static const float *read_logits(const job *j, const pipe_message *m, size_t n)
{
    if (m->kind != PIPE_LOGITS || m->as.logits.n_rows != n ||
        m->n_tail != n * j->info.n_vocab * sizeof(float))
        link_fail("rank %d sent damaged logits", link_ranks - 1);
    return (const float *)(const void *)m->tail;
}

/* Waits for the logits of n rows. */
static const float *receive_logits(const job *j, size_t n)
{
    pipe_message m;
    pipe_expect(link_ranks - 1, PIPE_LOGITS, &m);
    return read_logits(j, &m, n);
}

const float *job_rows(job *j, const qsf_row *rows, size_t n)
{
    const bool asks = rows[n - 1].logits;
    if (qsf_compute(j->c, rows, n)) link_fail("%s", qsf_last_error(j->c));
    if (link_ranks == 1) return asks ? qsf_logits(j->c, 0) : NULL;
    send_batch(j, rows, n, NULL, 0);
    return asks ? receive_logits(j, 1) : NULL;
}

void job_behind(job *j, const qsf_row *rows, size_t n, const float *states, size_t ld_states, float *logits,
                size_t ld_logits)
{
    size_t asked = 0;
    for (size_t i = 0; i < n; i++) asked += rows[i].logits;
    send_batch(j, rows, n, states, ld_states);
    if (!asked) return;
    const float *from = receive_logits(j, asked);
    for (size_t i = 0; i < asked; i++)
        memcpy(logits + i * ld_logits, from + i * j->info.n_vocab, j->info.n_vocab * sizeof *logits);
}

void job_back(qsf_seq s, uint32_t n)
{
    forward(&(pipe_message){ .kind = PIPE_TRUNCATE, .as.truncate = { s, n } }, NULL, 0);
}

void job_share_seq(qsf_seq dst, qsf_seq src, uint32_t n)
{
    forward(&(pipe_message){ .kind = PIPE_SHARE, .as.share = { dst, src, n } }, NULL, 0);
}

void job_load_adapter(uint32_t number, const char *path, uint64_t sum, qsf_error *err)
{
    const pipe_load load = { number, (uint32_t)sum, (uint32_t)(sum >> 32) };
    *err = (qsf_error){ 0 };
    forward(&(pipe_message){ .kind = PIPE_LOAD, .as.load = load }, path, strlen(path) + 1);
    for (int r = 1; r < link_ranks; r++) {
        pipe_message m;
        pipe_expect(r, PIPE_LOADED, &m);
        const qsf_error *own = &m.as.loaded.error;
        if (m.as.loaded.number != number) link_fail("rank %d did not report on the adapter", r);
        if (!own->status || err->status) continue;
        err->status = own->status;
        snprintf(err->text, sizeof err->text, "rank %d: %.*s", r, (int)sizeof own->text - 20, own->text);
    }
}

void job_drop_adapter(uint32_t number)
{
    forward(&(pipe_message){ .kind = PIPE_DROP, .as.drop = { number } }, NULL, 0);
}

void job_adapt(qsf_seq s, const job_adapter *uses, size_t n)
{
    forward(&(pipe_message){ .kind = PIPE_ADAPT, .as.adapt = { s, (uint32_t)n } }, uses, n * sizeof *uses);
}

/* Layers that keep state go back to some positions only, and not every rank has such layers: so all
 * go back to the least that any has come to, until that is the same. */
uint32_t job_cut(job *j, uint32_t n)
{
    for (bool same = false; !same;) {
        try_length(j, &(pipe_message){ .kind = PIPE_TRY_LENGTH, .as.try_length = { n } });
        n = qsf_seq_length(j->c, 0);
        same = true;
        for (int r = 1; r < link_ranks; r++) {
            pipe_message m;
            pipe_expect(r, PIPE_LENGTH, &m);
            same &= m.as.length.length == n;
            if (m.as.length.length < n) n = m.as.length.length;
        }
    }
    return n;
}

void job_end(void)
{
    forward(&(pipe_message){ .kind = PIPE_END }, NULL, 0);
}

/* ---- rank 0: texts ---- */

static size_t encode(const job *j, const char *prompt, int32_t *ids, size_t cap)
{
    qsf_error err = { 0 };
    size_t n = 0;
    const qsf_message messages[] = { { "system", j->system }, { "user", prompt } };
    const int own = !j->system;           /* without the first one */
    const qsf_status st = j->raw
        ? qsf_tokens_encode(j->model, prompt, strlen(prompt), QSF_TOK_ADD_SPECIAL, ids, cap, &n, &err)
        : qsf_chat_encode(j->model, j->template_name, messages + own, 2 - (size_t)own, true, ids, cap, &n,
                          &err);
    if (st) link_fail("the prompt: %s", err.text);
    if (!n) link_fail("a prompt has no tokens");
    return n;
}

static void text_begin(const job *j, text *t, const char *prompt)
{
    qsf_error err;
    const size_t texts = strlen(prompt) + (j->system ? strlen(j->system) : 0);
    const size_t cap = 16 + 2 * texts + 1024 + (size_t)j->max_tokens;
    t->ids = need(cap, sizeof *t->ids);
    t->n_ids = t->n_prompt = encode(j, prompt, t->ids, cap - (size_t)j->max_tokens);
    t->hash = 0xcbf29ce484222325u;
    if (qsf_sampler_new(j->model, &j->sampler, &t->sampler, &err)) link_fail("%s", err.text);
    for (size_t i = 0; i < t->n_ids; i++) qsf_sampler_accept(t->sampler, t->ids[i]);
}

static void text_print(const job *j, const text *t, size_t from)
{
    link_away(true);
    for (size_t i = from; i < t->n_ids; i++) {
        const char *piece;
        const size_t len = qsf_token_piece(j->model, t->ids[i], false, &piece);
        if (j->print_ids) printf("%s%d", i > t->n_prompt ? "," : "", (int)t->ids[i]);
        else fwrite(piece, 1, len, stdout);
    }
    fflush(stdout);
    link_away(false);
}

static void text_logits(lead *l, text *t, const float *logits)
{
    const job *j = l->j;
    const unsigned char *bytes = (const unsigned char *)logits;
    for (size_t i = 0; j->print_check && i < j->info.n_vocab * sizeof *logits; i++)
        t->hash = (t->hash ^ bytes[i]) * 0x100000001b3u;
    const int32_t id = qsf_sampler_pick(t->sampler, logits);
    t->waits = false;
    l->n_decoded++;
    if (j->logits) fwrite(logits, sizeof *logits, j->info.n_vocab, j->logits);
    t->done = (!j->ignore_eos && qsf_token_is_end(j->model, id)) ||
              t->n_ids - t->n_prompt >= (size_t)j->max_tokens;
    if (!t->done) {
        qsf_sampler_accept(t->sampler, id);
        t->ids[t->n_ids++] = id;
        if (l->n_texts == 1) text_print(j, t, t->n_ids - 1);
        t->done = t->n_ids - t->n_prompt >= (size_t)j->max_tokens;
    }
    l->n_left -= t->done;
}

/* ---- rank 0: batches ---- */

/* The next rows: of a prompt, else of texts that decode, as many as are this batch's share. */
static size_t gather_rows(lead *l)
{
    const size_t batches = l->j->tensor ? 1 : (size_t)link_ranks, share = (l->n_left + batches - 1) / batches;
    const size_t most = l->j->n_batch < share ? l->j->n_batch : share;
    size_t n = 0;
    for (size_t i = 0; i < l->n_texts; i++) {
        text *t = &l->texts[i];
        if (t->done || t->waits || t->n_ids - t->n_sent < 2) continue;
        for (; n < l->j->n_batch && t->n_sent < t->n_ids; n++, t->n_sent++)
            l->rows[n] = (qsf_row){ (qsf_seq)i, t->ids[t->n_sent], t->n_sent + 1 == t->n_ids };
        t->waits = t->n_sent == t->n_ids;
        return n;
    }
    for (size_t i = 0; i < l->n_texts && n < most; i++) {
        text *t = &l->texts[i];
        if (t->done || t->waits || t->n_sent == t->n_ids) continue;
        l->rows[n++] = (qsf_row){ (qsf_seq)i, t->ids[t->n_sent++], true };
        t->waits = true;
    }
    return n;
}

static void take_logits(lead *l, const flight *f, const float *logits)
{
    for (size_t i = 0; i < f->n; i++)
        text_logits(l, &l->texts[f->seqs[i]], logits + i * l->j->info.n_vocab);
}

static void send_rows(lead *l, size_t n)
{
    flight *f = &l->flights[(l->from + l->under_way) % l->n_flights];
    f->n = 0;
    for (size_t i = 0; i < n; i++)
        if (l->rows[i].logits) f->seqs[f->n++] = l->rows[i].seq;
    if (l->j->tensor) job_tell(l->j, l->rows, n);
    job_compute(l->j, l->rows, n, NULL);
    if (link_ranks > 1 && !l->j->tensor) {
        send_batch(l->j, l->rows, n, NULL, 0);
        l->under_way += f->n > 0;
        return;
    }
    for (size_t i = 0; i < f->n; i++) text_logits(l, &l->texts[f->seqs[i]], qsf_logits(l->j->c, i));
}

static bool take_reply(lead *l, bool wait)
{
    pipe_message m;
    const flight *f = &l->flights[l->from];
    if (!l->under_way || !pipe_receive(link_ranks - 1, wait, &m)) return false;
    take_logits(l, f, read_logits(l->j, &m, f->n));
    l->from = (l->from + 1) % l->n_flights;
    l->under_way--;
    return true;
}

static void lead_report(const lead *l, double seconds)
{
    for (size_t i = 0; i < l->n_texts; i++) {
        const text *t = &l->texts[i];
        if (l->n_texts > 1) {
            printf("[%zu] ", i + 1);
            text_print(l->j, t, t->n_prompt);
        }
        printf("\n");
        if (l->j->print_check)
            fprintf(stderr, "logits of text %zu: %016llx\n", i + 1, (unsigned long long)t->hash);
    }
    fprintf(stderr, "%zu tokens of %zu texts in %.3f s: %.2f tokens/s\n", l->n_decoded, l->n_texts, seconds,
            (double)l->n_decoded / seconds);
}

void job_lead(job *j)
{
    lead l = { .j = j, .n_texts = j->prompts.n, .n_left = j->prompts.n,
               .n_flights = 2 * (size_t)link_ranks + 2 };
    l.texts = need(l.n_texts, sizeof *l.texts);
    l.rows = need(j->n_batch, sizeof *l.rows);
    l.flights = need(l.n_flights, sizeof *l.flights);
    for (size_t i = 0; i < l.n_texts; i++) text_begin(j, &l.texts[i], j->prompts.items[i]);
    const double begin = link_now();
    while (l.n_left) {
        while (take_reply(&l, false)) continue;
        const size_t n = l.n_left && l.under_way < l.n_flights ? gather_rows(&l) : 0;
        if (n) send_rows(&l, n);
        else if (l.n_left) take_reply(&l, true);
    }
    lead_report(&l, link_now() - begin);
    if (j->tensor) job_tell_end();
    else job_end();
    for (size_t i = 0; i < l.n_texts; i++) {
        qsf_sampler_free(l.texts[i].sampler);
        free(l.texts[i].ids);
    }
    free(l.texts);
    free(l.rows);
    free(l.flights);
}
